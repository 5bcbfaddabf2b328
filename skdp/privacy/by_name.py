"""Methods of a budget that declare a release where they make it, for budgets without a plan."""

from abc import abstractmethod
from typing import Any

import numpy as np

from skdp.linalg.norms import bin_counts
from skdp.privacy import sensitivity
from skdp.privacy.cost import PrivacyCost
from skdp.privacy.noise import CHOICE
from skdp.privacy.release import Release, Released

__all__ = ["NamedReleases"]


class NamedReleases:
    """Methods that declare a release and make it at once, one for each mechanism."""

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
            The noisy statistic, in the shape of `value`, and the standard deviation of its noise.

        Raises
        ------
        BudgetError
            If the share or the sensitivity is not positive and finite, the shares of all releases
            would exceed 1, delta is 0, or the value has more entries than the share protects
            against rounding.
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
            The noisy matrix, symmetric, and the standard deviation of its noise on the diagonal;
            elsewhere the noise has sqrt(1/2) of that.

        Raises
        ------
        BudgetError
            If the share or the sensitivity is not positive and finite, the shares of all releases
            would exceed 1, delta is 0, or the value has more entries than the share protects
            against rounding.
        ValueError
            If `value` is not a square matrix.
        """
        return self.release(self._named(name, "symmetric_gaussian", share), value, sensitivity)

    def laplace(self, name: str, value: Any, *, sensitivity: float, share: float) -> Released:
        r"""Release `value` with Laplace noise: pure differential privacy.

        The noise g is drawn independently for each entry of a vector, or each row of a matrix, with
        density proportional to :math:`\exp(-\epsilon_0 \|g\|_2 / \Delta)`. An entry follows the
        Laplace law. A row has a uniform direction, and its length follows the gamma law.

        Parameters
        ----------
        name : str
            Name of the release, for the record.
        value : array-like of shape (n,) or (n, k)
            The private statistic; a number counts as a vector of one entry.
        sensitivity : float
            Its largest change between neighboring datasets: for a vector the sum of the absolute
            changes of its entries, for a matrix the sum of the Euclidean norms of the changes of
            its rows.
        share : float
            Share of epsilon that is spent, or of the square of mu if delta is not 0.

        Returns
        -------
        Released
            The noisy statistic, in the shape of `value`, and the standard deviation of its noise.

        Raises
        ------
        BudgetError
            If the share or the sensitivity is not positive and finite, the shares of all releases
            would exceed 1, or the value has more entries than the share protects against rounding.
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
            The noisy statistic, in the shape of `value`, and the standard deviation of its noise.

        Raises
        ------
        BudgetError
            If the share or the sensitivity is not positive and finite, the shares of all releases
            would exceed 1, or the value has more entries than the share protects against rounding.
        """
        return self.release(self._named(name, "spherical", share), value, sensitivity)

    def exponential(self, name: str, losses: Any, *, sensitivity: float, share: float) -> int:
        r"""Choose one of several public options; a smaller loss makes an option likelier.

        Option j, of loss :math:`S_j`, is chosen with a probability proportional to
        :math:`\exp(-S_j / \beta)`. Let R be the sensitivity and :math:`\eta = R / \beta`: the
        choice is :math:`\eta`-DP. It is mu-GDP if, and only if,
        :math:`\mu \ge 2 \Phi^{-1}(1 / (1 + e^{-\eta/2}))`. So the accounting is exact.

        Parameters
        ----------
        name : str
            Name of the release, for the record.
        losses : array-like of shape (n_options,)
            The private losses.
        sensitivity : float
            Largest change, between neighboring datasets, of the difference of two losses.
        share : float
            Share of the square of mu, or of epsilon if delta is 0, that is spent.

        Returns
        -------
        int
            Index of the chosen option; that of the smallest loss if `epsilon` is infinite.

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
        """Choose one of several public options by a declared release, as `exponential` does.

        Parameters
        ----------
        release : Release
            What is released, with the mechanism ``"exponential"``.
        losses : array-like of shape (n_options,)
            The private losses.
        *facts : object
            Public or released facts that the sensitivity depends on; none if the plan states it.
        **more : object
            Such facts, by name.

        Returns
        -------
        int
            Index of the chosen option; that of the smallest loss if `epsilon` is infinite.

        Raises
        ------
        BudgetError
            If `release` would raise it.
        ValueError
            If the losses are not finite numbers in one dimension; nothing has been spent then.
        """
        release.check_mechanism(CHOICE)
        return int(self.release(release, losses, *facts, **more).value)

    def histogram(
        self, name: str, values: np.ndarray, *, edges: np.ndarray, share: float
    ) -> Released:
        """Release a histogram: how many values lie in each bin between public `edges`.

        Parameters
        ----------
        name : str
            Name of the release, for the record.
        values : ndarray of shape (n,)
            One value for each unit; the NaN of a null unit is counted nowhere.
        edges : ndarray of shape (n_bins,)
            Ascending upper edges of the bins; larger values fall into the last bin.
        share : float
            Share of the square of mu that is spent.

        Returns
        -------
        Released
            Noisy counts of shape (n_bins,), and the standard deviation of their noise.

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
            Sensitivity of the release.
        share : float
            Its share of the square of mu, or of epsilon if delta is 0.
        mechanism : str, default="gaussian"
            Which noise, as in :class:`skdp.privacy.Release`.
        joint_entries : int, default=1
            How many entries share one draw of noise: for ``"laplace"`` 1, or the number of columns
            of a matrix; for ``"spherical"`` all entries. Gaussian noise does not depend on it.

        Returns
        -------
        float
            Standard deviation in an entry, in the units of the sensitivity; 0 if `epsilon` is
            infinite.

        Raises
        ------
        BudgetError
            If delta is 0 and the noise is Gaussian.
        """
        return self.cost.noise_std(mechanism, float(sensitivity), float(share), int(joint_entries))

    def _named(self, name: str, mechanism: str, share: float) -> Release:
        # Refuse the mechanism before the value is read.
        self.cost.check(mechanism)
        return Release(name, mechanism, float(share), sensitivity_of=float)
