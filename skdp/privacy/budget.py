"""The one door through which private statistics leave."""

import math
import sys
from typing import Any

import numpy as np

from skdp.exceptions import BudgetError
from skdp.privacy import sensitivity
from skdp.privacy.currency import Currency
from skdp.privacy.histogram import bin_counts
from skdp.privacy.noise import NoiseSource, draw, joint_entries
from skdp.privacy.quantile import search_quantile
from skdp.privacy.record import PrivacySpent, Release

__all__ = ["PrivacyBudget"]

_SHARE_TOLERANCE = 1e-12


class PrivacyBudget:
    """The privacy of one fit: adds the noise, keeps the ledger, and refuses to overspend.

    `epsilon` and `delta` are turned into mu once. A release spends a share of the square of mu; the
    shares of a fit may add to 1. Shares must not depend on the data.

    With a `delta` of 0 a share is one of epsilon, and Gaussian noise, which needs a delta, is
    refused: ``laplace`` and ``spherical`` remain.

    Parameters
    ----------
    epsilon : float
        Dimensionless, ``0 < epsilon <= inf``; ``inf`` switches the noise off.
    delta : float
        Probability, ``0 <= delta < 1``; 0 is pure differential privacy.
    unit : str
        What is protected, for the record.
    adjacency : {"replace", "zero_out"}
        How neighbouring datasets differ, for counts and for the record.
    noise : NoiseSource or None, default=None
        Where the noise comes from. ``None`` is the operating system.
    enforced : bool, default=True
        Whether the bounds behind the sensitivities are enforced by clipping, or promised by the
        caller, for the record.

    Raises
    ------
    ValueError
        If `epsilon`, `delta` or `adjacency` is out of range.

    Examples
    --------
    >>> from skdp.privacy import PrivacyBudget
    >>> budget = PrivacyBudget(1.0, 1e-6, unit="row", adjacency="replace")
    >>> noisy = budget.gaussian("sum", [3.0, 4.0], sensitivity=2.0, share=0.5)
    >>> noisy.shape
    (2,)
    >>> budget.spent().releases[0].name
    'sum'
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        *,
        unit: str,
        adjacency: str,
        noise: NoiseSource | None = None,
        enforced: bool = True,
    ) -> None:
        if adjacency not in sensitivity.ADJACENCIES:
            raise ValueError(
                f"adjacency must be one of {sensitivity.ADJACENCIES}, got {adjacency!r}."
            )
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.adjacency = adjacency
        self.enforced = enforced
        self._currency = Currency(epsilon, delta)
        self.mu = self._currency.mu
        self.is_pure = self._currency.is_pure
        self._noise = noise if noise is not None else NoiseSource()
        self._releases: list[Release] = []

    @property
    def is_private(self) -> bool:
        """Whether noise is added at all."""
        return math.isfinite(self.mu)

    @property
    def last_scale(self) -> float:
        """Standard deviation of the noise in an entry of the last release."""
        return self._releases[-1].noise_scale

    def gaussian(self, name: str, value: Any, *, sensitivity: float, share: float) -> np.ndarray:
        """Release `value` with independent Gaussian noise on every entry.

        Parameters
        ----------
        name : str
            Name of the release, for the record.
        value : array-like
            The private statistic.
        sensitivity : float
            Its largest Euclidean (Frobenius) change between neighbouring datasets.
        share : float
            Share of the square of mu that is spent.

        Returns
        -------
        ndarray
            The noisy statistic, in the shape of `value`.

        Raises
        ------
        BudgetError
            If the share or the sensitivity is not positive and finite, the shares of all releases
            would exceed 1, or delta is 0.
        """
        return self._release(name, "gaussian", value, sensitivity, share)

    def symmetric_gaussian(
        self, name: str, value: Any, *, sensitivity: float, share: float
    ) -> np.ndarray:
        """Release a symmetric matrix with noise isotropic in the Frobenius inner product.

        Parameters
        ----------
        name : str
            Name of the release, for the record.
        value : array-like of shape (n, n)
            The private symmetric matrix.
        sensitivity : float
            Its largest Frobenius change between neighbouring datasets.
        share : float
            Share of the square of mu that is spent.

        Returns
        -------
        ndarray of shape (n, n)
            The noisy matrix, symmetric. The noise has the release's scale on the diagonal and
            sqrt(1/2) of it elsewhere.

        Raises
        ------
        BudgetError
            If the share or the sensitivity is not positive and finite, the shares of all releases
            would exceed 1, or delta is 0.
        """
        return self._release(name, "symmetric_gaussian", value, sensitivity, share)

    def laplace(self, name: str, value: Any, *, sensitivity: float, share: float) -> np.ndarray:
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
            Its largest change between neighbouring datasets: the sum of the absolute changes of
            the entries of a vector, or of the Euclidean norms of those of the rows of a matrix.
        share : float
            Share of epsilon that is spent, or of the square of mu if delta is not 0.

        Returns
        -------
        ndarray
            The noisy statistic, in the shape of `value`.

        Raises
        ------
        BudgetError
            If the share or the sensitivity is not positive and finite, or the shares of all
            releases would exceed 1.
        ValueError
            If `value` has more than two dimensions.
        """
        if np.ndim(value) > 2:
            raise ValueError(f"value has {np.ndim(value)} dimensions; Laplace noise takes 1 or 2.")
        return self._release(name, "laplace", value, sensitivity, share)

    def spherical(self, name: str, value: Any, *, sensitivity: float, share: float) -> np.ndarray:
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
            Its largest Euclidean (Frobenius) change between neighbouring datasets.
        share : float
            Share of epsilon that is spent, or of the square of mu if delta is not 0.

        Returns
        -------
        ndarray
            The noisy statistic, in the shape of `value`.

        Raises
        ------
        BudgetError
            If the share or the sensitivity is not positive and finite, or the shares of all
            releases would exceed 1.
        """
        return self._release(name, "spherical", value, sensitivity, share)

    def histogram(
        self, name: str, values: np.ndarray, *, edges: np.ndarray, share: float
    ) -> np.ndarray:
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
        ndarray of shape (n_bins,)
            Noisy counts.

        Raises
        ------
        BudgetError
            If the share is not positive, the shares of all releases would exceed 1, or delta is 0.
        """
        self._currency.check("gaussian")
        return self.gaussian(
            name,
            bin_counts(values, edges),
            sensitivity=sensitivity.histogram(self.adjacency),
            share=share,
        )

    def quantile(
        self, name: str, values: np.ndarray, *, q: float, grid: np.ndarray, share: float
    ) -> float:
        """Release the first point of a public grid that a share `q` of the values do not exceed.

        A binary search over the grid, each step of which releases one noisy count.

        Parameters
        ----------
        name : str
            Name of the release, for the record.
        values : ndarray of shape (n,)
            One value a unit; NaN for a null unit, which is counted nowhere.
        q : float
            Probability level in (0, 1).
        grid : ndarray of shape (n_points,)
            Ascending public grid.
        share : float
            Share of the square of mu that is spent by all steps together.

        Returns
        -------
        float
            A point of the grid.

        Raises
        ------
        BudgetError
            If the share is not positive, the shares of all releases would exceed 1, or delta is 0.
        """
        # Before the first count, so that a search is paid for as a whole or not at all.
        self._currency.check("gaussian")
        self._check_share(name, share)

        def _noisy_count(step: int, n_steps: int, exact: float) -> float:
            return float(
                self.gaussian(
                    f"{name}, count {step}",
                    exact,
                    sensitivity=sensitivity.count(),
                    share=share / n_steps,
                )
            )

        return search_quantile(values, q, grid, _noisy_count)

    def spent(self) -> PrivacySpent:
        """Return the record of all releases so far.

        Returns
        -------
        PrivacySpent
            An immutable record.
        """
        return PrivacySpent(
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            mu=self._currency.spent_mu(release.share for release in self._releases),
            unit=self.unit,
            adjacency=self.adjacency,
            seeded=self._noise.seeded,
            releases=tuple(self._releases),
            enforced=self.enforced,
        )

    def noise_scale(
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
        mechanism : {"gaussian", "symmetric_gaussian", "laplace", "spherical"}, default="gaussian"
            Which noise.
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
        return self._currency.noise_scale(mechanism, sensitivity, share, joint_entries)

    def _check_share(self, name: str, share: float) -> None:
        spent = [release.share for release in self._releases]
        if not share > 0 or math.fsum([share, *spent]) > 1 + _SHARE_TOLERANCE:
            raise BudgetError(
                f"Release {name!r} asks for a share of {share!r}; the shares must be positive and "
                f"add to at most 1, and {1 - math.fsum(spent):.3g} is left."
            )

    def _charge(self, release: Release) -> None:
        smallest = sys.float_info.min if self.is_private else 0.0
        if not (release.sensitivity > 0 and smallest <= release.noise_scale < math.inf):
            raise BudgetError(
                f"Release {release.name!r} has sensitivity {release.sensitivity!r}, which asks for "
                f"noise of scale {release.noise_scale!r}; both must be positive and neither too "
                "small nor too large for a float."
            )
        self._releases.append(release)

    def _release(
        self, name: str, mechanism: str, value: Any, sensitivity: float, share: float
    ) -> np.ndarray:
        self._currency.check(mechanism)
        self._check_share(name, share)
        value = np.asarray(value, dtype=np.float64)
        scale = self._currency.noise_scale(
            mechanism, sensitivity, share, joint_entries(mechanism, value.shape)
        )
        release = Release(name, mechanism, float(sensitivity), scale, float(share))
        self._charge(release)
        return self._publish(release, value)

    def _publish(self, release: Release, value: np.ndarray) -> np.ndarray:
        if not self.is_private:
            return value
        # The value is part of the key: it depends on more than the data, such as the container and
        # the number of threads, and two values must never share noise.
        key = self._noise.key(
            len(self._releases), release.name, release.mechanism, release.noise_scale, value
        )
        noise = draw(release.mechanism, value.shape, key)
        noise *= release.noise_scale
        noise += value
        return noise
