"""The one door through which private statistics leave."""

import math
import sys
from typing import Any

import numpy as np

from skdp.exceptions import BudgetError
from skdp.privacy import gaussian_dp, sensitivity
from skdp.privacy.histogram import bin_counts
from skdp.privacy.noise import NoiseSource, standard_normal, symmetric_normal
from skdp.privacy.quantile import search_quantile
from skdp.privacy.record import PrivacySpent, Release

__all__ = ["PrivacyBudget"]

_SHARE_TOLERANCE = 1e-12
# Below, squares of noise scales could overflow.
_SMALLEST_MU = 1e-50


class PrivacyBudget:
    """The privacy of one fit: adds the noise, keeps the ledger, and refuses to overspend.

    `epsilon` and `delta` are turned into mu once. A release spends a share of the square of mu; the
    shares of a fit may add to 1. Shares must not depend on the data.

    Parameters
    ----------
    epsilon : float
        Dimensionless, ``0 < epsilon <= inf``; ``inf`` switches the noise off.
    delta : float
        Probability, ``0 <= delta < 1``; must be positive if `epsilon` is finite, since Gaussian
        noise cannot do without it.
    unit : str
        What is protected, for the record.
    adjacency : {"replace", "zero_out"}
        How neighbouring datasets differ, for counts and for the record.
    noise : NoiseSource or None, default=None
        Where the noise comes from. ``None`` is the operating system.

    Raises
    ------
    ValueError
        If `epsilon`, `delta` or `adjacency` is out of range, or `delta` is 0 and `epsilon` finite.

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
    ) -> None:
        if adjacency not in sensitivity.ADJACENCIES:
            raise ValueError(
                f"adjacency must be one of {sensitivity.ADJACENCIES}, got {adjacency!r}."
            )
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.adjacency = adjacency
        self.mu = gaussian_dp.mu_from_epsilon_delta(epsilon, delta)
        if self.mu < _SMALLEST_MU:
            raise ValueError(
                f"No usable Gaussian noise gives epsilon={epsilon} with delta={delta}; pass a "
                "larger epsilon, and 0 < delta < 1, well below one over the number of rows."
            )
        self._noise = noise if noise is not None else NoiseSource()
        self._releases: list[Release] = []

    @property
    def is_private(self) -> bool:
        """Whether noise is added at all."""
        return math.isfinite(self.mu)

    @property
    def last_scale(self) -> float:
        """Standard deviation of the noise in the last release."""
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
            If the share or the sensitivity is not positive and finite, or the shares of all
            releases would exceed 1.
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
            If the share or the sensitivity is not positive and finite, or the shares of all
            releases would exceed 1.
        """
        return self._release(name, "symmetric_gaussian", value, sensitivity, share)

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
            If the share is not positive or the shares of all releases would exceed 1.
        """
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
            If the share is not positive or the shares of all releases would exceed 1.
        """
        # Before the first count, so that a search is paid for as a whole or not at all.
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
        shares = math.fsum(release.share for release in self._releases)
        return PrivacySpent(
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            mu=self.mu * math.sqrt(min(shares, 1.0)) if shares else 0.0,
            unit=self.unit,
            adjacency=self.adjacency,
            seeded=self._noise.seeded,
            releases=tuple(self._releases),
        )

    def noise_scale(self, sensitivity: float, share: float) -> float:
        """Return the standard deviation of the noise that a release would get.

        Parameters
        ----------
        sensitivity : float
            Its sensitivity.
        share : float
            Its share of the square of mu.

        Returns
        -------
        float
            Standard deviation, in the units of the sensitivity; 0 if `epsilon` is infinite.
        """
        return sensitivity / (self.mu * math.sqrt(share)) if self.is_private else 0.0

    def _check_share(self, name: str, share: float) -> None:
        spent = [release.share for release in self._releases]
        if not share > 0 or math.fsum([share, *spent]) > 1 + _SHARE_TOLERANCE:
            raise BudgetError(
                f"Release {name!r} asks for a share of {share!r}; the shares must be positive and "
                f"add to at most 1, and {1 - math.fsum(spent):.3g} is left."
            )

    def _charge(self, name: str, mechanism: str, sensitivity: float, share: float) -> Release:
        self._check_share(name, share)
        scale = self.noise_scale(sensitivity, share)
        smallest = sys.float_info.min if self.is_private else 0.0
        if not (sensitivity > 0 and smallest <= scale < math.inf):
            raise BudgetError(
                f"Release {name!r} has sensitivity {sensitivity!r}, which asks for noise of scale "
                f"{scale!r}; both must be positive and neither too small nor too large for a float."
            )
        release = Release(name, mechanism, float(sensitivity), scale, float(share))
        self._releases.append(release)
        return release

    def _release(
        self, name: str, mechanism: str, value: Any, sensitivity: float, share: float
    ) -> np.ndarray:
        release = self._charge(name, mechanism, sensitivity, share)
        return self._publish(release, np.asarray(value, dtype=np.float64))

    def _publish(self, release: Release, value: np.ndarray) -> np.ndarray:
        if not self.is_private:
            return value
        # The value is part of the key: it depends on more than the data, such as the container and
        # the number of threads, and two values must never share noise.
        key = self._noise.key(
            len(self._releases), release.name, release.mechanism, release.noise_scale, value
        )
        noise = _DRAWS[release.mechanism](value.shape, key)
        noise *= release.noise_scale
        noise += value
        return noise


def _isotropic_noise(shape: tuple[int, ...], key: bytes) -> np.ndarray:
    return standard_normal(math.prod(shape), key).reshape(shape)


def _symmetric_noise(shape: tuple[int, ...], key: bytes) -> np.ndarray:
    return symmetric_normal(shape[0], key)


_DRAWS = {"gaussian": _isotropic_noise, "symmetric_gaussian": _symmetric_noise}
