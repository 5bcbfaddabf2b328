"""Releases by their names, of a budget that no plan has been made for."""

from abc import abstractmethod
from typing import Any

import numpy as np

from skdp.privacy import sensitivity
from skdp.privacy.cost import PrivacyCost
from skdp.privacy.histogram import bin_counts
from skdp.privacy.release import Release, Released

__all__ = ["NamedReleases"]


class NamedReleases:
    """Each of the mechanisms, for a release that is declared where it is made."""

    cost: PrivacyCost
    adjacency: str

    @abstractmethod
    def release(self, release: Release, value: Any, *facts: Any, **more: Any) -> Released:
        """Release a value."""

    def gaussian(self, name: str, value: Any, *, sensitivity: float, share: float) -> Released:
        """Release `value` with independent Gaussian noise on every entry.

        Parameters
        ----------
        name : str
            Name of the release, for the record.
        value : array-like
            The private statistic.
        sensitivity : float
            Its largest Euclidean (Frobenius) change between neighboring datasets.
        share : float
            Share of the square of mu that is spent.

        Returns
        -------
        Released
            The noisy statistic, in the shape of `value`, and the scale of its noise.

        Raises
        ------
        BudgetError
            If the share or the sensitivity is not positive and finite, the shares of all releases
            would exceed 1, delta is 0, or the value has so many entries that the share does not
            pay for their rounding.
        """
        return self.release(self._named(name, "gaussian", share), value, sensitivity)

    def symmetric_gaussian(
        self, name: str, value: Any, *, sensitivity: float, share: float
    ) -> Released:
        """Release a symmetric matrix with noise isotropic in the Frobenius inner product.

        Parameters
        ----------
        name : str
            Name of the release, for the record.
        value : array-like of shape (n, n)
            The private symmetric matrix.
        sensitivity : float
            Its largest Frobenius change between neighboring datasets.
        share : float
            Share of the square of mu that is spent.

        Returns
        -------
        Released
            The noisy matrix, symmetric, and the scale of its noise on the diagonal; elsewhere it is
            sqrt(1/2) of that.

        Raises
        ------
        BudgetError
            If the share or the sensitivity is not positive and finite, the shares of all releases
            would exceed 1, delta is 0, or the value has so many entries that the share does not
            pay for their rounding.
        ValueError
            If `value` is not a square matrix.
        """
        return self.release(self._named(name, "symmetric_gaussian", share), value, sensitivity)

    def laplace(self, name: str, value: Any, *, sensitivity: float, share: float) -> Released:
        r"""Release `value` with Laplace noise: pure differential privacy.

        The noise of an entry of a vector, or of a row of a matrix, is drawn on its own, with
        density proportional to :math:`\exp(-\epsilon_0 \|g\|_2 / \Delta)`: for one entry the
        Laplace law, for a row a uniform direction and a length of gamma law.

        Parameters
        ----------
        name : str
            Name of the release, for the record.
        value : array-like of shape (n,) or (n, k)
            The private statistic; a number counts as a vector of one entry.
        sensitivity : float
            Its largest change between neighboring datasets: the sum of the absolute changes of
            the entries of a vector, or of the Euclidean norms of those of the rows of a matrix.
        share : float
            Share of epsilon that is spent, or of the square of mu if delta is not 0.

        Returns
        -------
        Released
            The noisy statistic, in the shape of `value`, and the scale of its noise.

        Raises
        ------
        BudgetError
            If the share or the sensitivity is not positive and finite, the shares of all releases
            would exceed 1, or the value has so many entries that the share does not pay for their
            rounding.
        ValueError
            If `value` has more than two dimensions.
        """
        return self.release(self._named(name, "laplace", share), value, sensitivity)

    def spherical(self, name: str, value: Any, *, sensitivity: float, share: float) -> Released:
        r"""Release `value` with one draw of spherical noise: pure differential privacy.

        The noise has a density proportional to :math:`\exp(-\epsilon_0 \|G\|_F / \Delta)` on
        all entries together.

        Parameters
        ----------
        name : str
            Name of the release, for the record.
        value : array-like
            The private statistic.
        sensitivity : float
            Its largest Euclidean (Frobenius) change between neighboring datasets.
        share : float
            Share of epsilon that is spent, or of the square of mu if delta is not 0.

        Returns
        -------
        Released
            The noisy statistic, in the shape of `value`, and the scale of its noise.

        Raises
        ------
        BudgetError
            If the share or the sensitivity is not positive and finite, the shares of all releases
            would exceed 1, or the value has so many entries that the share does not pay for their
            rounding.
        """
        return self.release(self._named(name, "spherical", share), value, sensitivity)

    def exponential(self, name: str, losses: Any, *, sensitivity: float, share: float) -> int:
        r"""Choose one of several public options, the likelier the smaller its loss.

        Option j is chosen with a probability in proportion to :math:`\exp(-S_j / \beta)`, of
        losses S. It is exact in Gaussian differential privacy: with the sensitivity R and
        :math:`\eta = R / \beta` the choice is mu-GDP if, and only if,
        :math:`\mu \ge 2 \Phi^{-1}(1 / (1 + e^{-\eta/2}))`; it is :math:`\eta`-DP.

        Parameters
        ----------
        name : str
            Name of the release, for the record.
        losses : array-like of shape (n_options,)
            The private losses.
        sensitivity : float
            By how much, at most, the loss of one option can rise above that of another between
            neighboring datasets: the range of the differences.
        share : float
            Share of the square of mu, or of epsilon if delta is 0, that is spent.

        Returns
        -------
        int
            Number of the option; of the smallest loss if `epsilon` is infinite.

        Raises
        ------
        BudgetError
            If the share or the sensitivity is not positive and finite, or the shares of all
            releases would exceed 1.
        ValueError
            If the losses are not finite numbers in one dimension; nothing has been spent then.
        """
        return self.choose(self._named(name, "exponential", share), losses, sensitivity)

    def choose(self, release: Release, losses: Any, *facts: Any, **more: Any) -> int:
        """Choose one of several public options, as `exponential` does.

        Parameters
        ----------
        release : Release
            What is released, by the mechanism "exponential".
        losses : array-like of shape (n_options,)
            The private losses.
        *facts : object
            What its sensitivity follows; none where the plan knows it.
        **more : object
            The same, by name.

        Returns
        -------
        int
            Number of the option; of the smallest loss if `epsilon` is infinite.

        Raises
        ------
        BudgetError
            As of `release`.
        ValueError
            If the losses are not finite numbers in one dimension; nothing has been spent then.
        """
        losses = np.asarray(losses, dtype=np.float64)
        if losses.ndim != 1 or not np.isfinite(losses).all() or not losses.size:
            raise ValueError("losses must be finite numbers in one dimension, at least one.")
        return int(self.release(release, losses, *facts, **more).value)

    def histogram(
        self, name: str, values: np.ndarray, *, edges: np.ndarray, share: float
    ) -> Released:
        """Release how many of the units' values lie up to each of the public `edges`.

        Parameters
        ----------
        name : str
            Name of the release, for the record.
        values : ndarray of shape (n,)
            One value a unit; NaN for a null unit, which is counted nowhere.
        edges : ndarray of shape (n_bins,)
            Ascending upper edges of the bins; larger values fall into the last bin.
        share : float
            Share of the square of mu that is spent.

        Returns
        -------
        Released
            Noisy counts of shape (n_bins,), and the scale of their noise.

        Raises
        ------
        BudgetError
            If the share is not positive, the shares of all releases would exceed 1, or delta is 0.
        """
        release = self._named(name, "gaussian", share)
        counts = bin_counts(values, np.asarray(edges, dtype=np.float64))
        return self.release(release, counts, sensitivity.histogram(self.adjacency))

    def noise_std(
        self,
        sensitivity: float,
        share: float,
        *,
        mechanism: str = "gaussian",
        joint_entries: int = 1,
    ) -> float:
        """Return the standard deviation of the noise that a release would get.

        Parameters
        ----------
        sensitivity : float
            Its sensitivity.
        share : float
            Its share of the square of mu, or of epsilon if delta is 0.
        mechanism : str, default="gaussian"
            Which noise, as in :class:`skdp.privacy.Release`.
        joint_entries : int, default=1
            How many entries one draw of Laplace or spherical noise is for: the columns of a matrix
            or 1 for the former, all entries for the latter. Of no matter to Gaussian noise.

        Returns
        -------
        float
            Standard deviation in an entry, in the units of the sensitivity; 0 if `epsilon` is
            infinite.

        Raises
        ------
        BudgetError
            If delta is 0 and the noise Gaussian.
        """
        return self.cost.noise_std(mechanism, float(sensitivity), float(share), int(joint_entries))

    def _named(self, name: str, mechanism: str, share: float) -> Release:
        self.cost.check(mechanism)
        return Release(name, mechanism, float(share), sensitivity_of=float)
