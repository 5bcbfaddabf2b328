"""The mechanisms by which a budget releases a value."""

from collections.abc import Callable
from typing import Any

import numpy as np

from skdp.linalg.prefix_sums import PrefixNoise
from skdp.privacy.account import Account
from skdp.privacy.cost import PrivacyCost
from skdp.privacy.lattice import round_to_lattice
from skdp.privacy.noise import NoiseSource, draw, joint_entries
from skdp.privacy.noise_first import NoisyCounts
from skdp.privacy.record import PrivacySpent, Release, Released

__all__ = ["Mechanisms"]


class Mechanisms(Account):
    """Adds the noise to single values, and keeps them in the account."""

    def __init__(
        self,
        epsilon: float,
        delta: float,
        *,
        unit: str,
        adjacency: str,
        noise: NoiseSource | None = None,
        enforced: bool = True,
        delta_tail: float = 0.0,
        charge: Callable[[PrivacySpent], None] | None = None,
    ) -> None:
        self._noise = noise if noise is not None else NoiseSource()
        super().__init__(
            PrivacyCost(float(epsilon), float(delta), float(delta_tail)),
            unit=unit,
            adjacency=adjacency,
            fingerprint=self._noise.fingerprint,
            is_guessable=self._noise.is_guessable,
            enforced=enforced,
            charge=charge,
        )

    def gaussian(
        self, name: str, value: Any, *, sensitivity: float, share: float | None = None
    ) -> Released:
        """Release `value` with independent Gaussian noise on every entry.

        Parameters
        ----------
        name : str
            Name of the release, for the record.
        value : array-like
            The private statistic.
        sensitivity : float
            Its largest Euclidean (Frobenius) change between neighbouring datasets.
        share : float or None, default=None
            Share of the square of mu that is spent; None for that of the plan.

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
        return self._release(name, "gaussian", value, sensitivity, share)

    def symmetric_gaussian(
        self, name: str, value: Any, *, sensitivity: float, share: float | None = None
    ) -> Released:
        """Release a symmetric matrix with noise isotropic in the Frobenius inner product.

        Parameters
        ----------
        name : str
            Name of the release, for the record.
        value : array-like of shape (n, n)
            The private symmetric matrix.
        sensitivity : float
            Its largest Frobenius change between neighbouring datasets.
        share : float or None, default=None
            Share of the square of mu that is spent; None for that of the plan.

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
        return self._release(name, "symmetric_gaussian", value, sensitivity, share)

    def laplace(
        self, name: str, value: Any, *, sensitivity: float, share: float | None = None
    ) -> Released:
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
        share : float or None, default=None
            Share of epsilon that is spent, or of the square of mu if delta is not 0; None for that
            of the plan.

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
        if np.ndim(value) > 2:
            raise ValueError(f"value has {np.ndim(value)} dimensions; Laplace noise takes 1 or 2.")
        return self._release(name, "laplace", value, sensitivity, share)

    def spherical(
        self, name: str, value: Any, *, sensitivity: float, share: float | None = None
    ) -> Released:
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
        share : float or None, default=None
            Share of epsilon that is spent, or of the square of mu if delta is not 0; None for that
            of the plan.

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
        return self._release(name, "spherical", value, sensitivity, share)

    def exponential(
        self, name: str, losses: Any, *, sensitivity: float, share: float | None = None
    ) -> int:
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
            neighbouring datasets: the range of the differences.
        share : float or None, default=None
            Share of the square of mu, or of epsilon if delta is 0, that is spent; None for that of
            the plan.

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
        losses = np.asarray(losses, dtype=np.float64)
        if losses.ndim != 1 or not np.isfinite(losses).all() or not losses.size:
            raise ValueError("losses must be finite numbers in one dimension, at least one.")
        return int(self._release(name, "exponential", losses, sensitivity, share).value)

    def noise_first(
        self,
        name: str,
        shape: tuple[int, ...],
        *,
        sensitivity: float,
        unit: float,
        correlation: PrefixNoise,
        share: float | None = None,
    ) -> NoisyCounts:
        """Spend on sums whose data are still to come, with Gaussian noise that is there before.

        The noise comes from the operating system, whatever seed there is.

        Parameters
        ----------
        name : str
            Name of the release, for the record.
        shape : tuple of int
            Shape of the sums.
        sensitivity : float
            Their largest Euclidean (Frobenius) change between neighbouring datasets.
        unit : float
            What they are counted in, a power of two.
        correlation : PrefixNoise
            How often the sums are released, and how the noise of an epoch follows that of those
            before. The sensitivity is that of an epoch times its ``column_norm``.
        share : float or None, default=None
            Share of the square of mu that is spent; None for that of the plan.

        Returns
        -------
        NoisyCounts
            Sums that are to be read once, or once an epoch.

        Raises
        ------
        BudgetError
            If the share or the sensitivity is not positive and finite, the shares of all releases
            would exceed 1, delta is 0, or there are so many sums that the share does not pay for
            their rounding.
        """
        sensitivity, share = float(sensitivity), self._share_of(name, "gaussian", share)
        self.cost.check_size(name, "gaussian", share, (correlation.horizon, *shape))
        scale = self.cost.noise_std("gaussian", sensitivity, share)
        release = Release(name, "gaussian", sensitivity, scale, share)
        self._charge(release)
        return self._start(release, shape, unit, correlation)

    def _start(
        self, release: Release, shape: tuple[int, ...], unit: float, correlation: PrefixNoise
    ) -> NoisyCounts:
        return NoisyCounts(release, shape, unit, correlation)

    def _release(
        self, name: str, mechanism: str, value: Any, sensitivity: float, share: float | None
    ) -> Released:
        sensitivity, share = float(sensitivity), self._share_of(name, mechanism, share)
        value = np.asarray(value, dtype=np.float64)
        is_symmetric = mechanism == "symmetric_gaussian"
        if is_symmetric and (value.ndim != 2 or value.shape[0] != value.shape[1]):
            raise ValueError(f"value must be a square matrix, got shape {value.shape}.")
        self.cost.check_size(name, mechanism, share, value.shape)
        if is_symmetric:
            # To the last bit: half of the noise would do for a difference of two halves.
            value = (value + value.T) / 2
        scale = self.cost.noise_std(
            mechanism, sensitivity, share, joint_entries(mechanism, value.shape)
        )
        release = Release(name, mechanism, sensitivity, scale, share)
        self._charge(release)
        return Released(self._publish(release, value), scale)

    def _publish(self, release: Release, value: np.ndarray) -> np.ndarray:
        chooses = release.mechanism == "exponential"
        if not self.is_private:
            return np.array(np.argmin(value)) if chooses else value
        # The value, as it is before rounding, is part of the key: it depends on more than the data,
        # such as the container and the number of threads, and two values must never share noise.
        key = self._noise.key(
            len(self._releases), release.name, release.mechanism, release.noise_scale, value
        )
        noise = draw(release.mechanism, value.shape, key)
        noise *= release.noise_scale
        if chooses:
            # Beside a large number that all have in common noise would be lost.
            return np.array(np.argmin(noise + (value - value.min())))
        noise += value
        return round_to_lattice(noise, release.noise_scale)
