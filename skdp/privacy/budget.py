"""The one door through which private statistics leave."""

from collections.abc import Callable
from typing import Any

import numpy as np

from skdp.privacy import sensitivity
from skdp.privacy.histogram import bin_counts
from skdp.privacy.lattice import round_to_lattice
from skdp.privacy.ledger import Ledger
from skdp.privacy.noise import NoiseSource, draw, joint_entries
from skdp.privacy.quantile import search_quantile, search_quantiles, search_steps
from skdp.privacy.record import Release

__all__ = ["PrivacyBudget"]


class PrivacyBudget(Ledger):
    """The privacy of one fit: adds the noise, keeps the ledger, and refuses to overspend.

    `epsilon` and `delta` are turned into mu once. A release spends a share of the square of mu; the
    shares of a fit may add to 1. Shares must not depend on the data. Every number is released
    rounded to a multiple of a power of two between 1/32 and 1/16 of the noise scale, so that its
    low bits tell nothing of the value behind the noise.

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
    delta_tail : float, default=0.0
        Part of `delta` that is reserved for an event after which nothing is promised, such as a
        test that is passed by mistake, ``0 <= delta_tail < delta``. mu is solved from the rest, for
        the whole fit. That the event is no likelier is for the one who opens the budget to prove.

    Raises
    ------
    ValueError
        If `epsilon`, `delta`, `delta_tail` or `adjacency` is out of range.

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
        delta_tail: float = 0.0,
    ) -> None:
        self._noise = noise if noise is not None else NoiseSource()
        super().__init__(
            epsilon,
            delta,
            unit=unit,
            adjacency=adjacency,
            fingerprint=self._noise.fingerprint,
            enforced=enforced,
            delta_tail=delta_tail,
        )

    # The documentation shows what a class itself defines.
    is_private = Ledger.is_private
    last_scale = Ledger.last_scale
    noise_scale = Ledger.noise_scale
    spent = Ledger.spent

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
            would exceed 1, delta is 0, or the value has so many entries that the share does not
            pay for their rounding.
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
            would exceed 1, delta is 0, or the value has so many entries that the share does not
            pay for their rounding.
        ValueError
            If `value` is not a square matrix.
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
            If the share or the sensitivity is not positive and finite, the shares of all releases
            would exceed 1, or the value has so many entries that the share does not pay for their
            rounding.
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
            If the share or the sensitivity is not positive and finite, the shares of all releases
            would exceed 1, or the value has so many entries that the share does not pay for their
            rounding.
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
            bin_counts(values, np.asarray(edges, dtype=np.float64)),
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
        grid = np.asarray(grid, dtype=np.float64)
        noisy_count = self._counter(name, sensitivity.count(), share, grid, 1)
        return search_quantile(values, float(q), grid, noisy_count)

    def quantiles(
        self,
        name: str,
        counts_up_to: Callable[[np.ndarray], np.ndarray],
        *,
        q: float,
        n_rows: int,
        grid: np.ndarray,
        n_columns: int,
        share: float,
    ) -> np.ndarray:
        """Release, for every column, what `quantile` does: one count a column in each step.

        Parameters
        ----------
        name : str
            Name of the release, for the record.
        counts_up_to : callable
            Takes an array of `n_columns` grid points, and returns for every column how many of its
            values do not exceed its point: exact counts as floats, of shape (n_columns,). A unit
            has one value in every column; NaN, for a null unit, is counted nowhere.
        q : float
            Probability level in (0, 1).
        n_rows : int
            Public number of units, null ones included.
        grid : ndarray of shape (n_points,)
            Ascending public grid.
        n_columns : int
            How many columns.
        share : float
            Share of the square of mu that is spent by all steps together.

        Returns
        -------
        ndarray of shape (n_columns,)
            Points of the grid.

        Raises
        ------
        BudgetError
            If the share is not positive, the shares of all releases would exceed 1, or delta is 0.
        """
        grid = np.asarray(grid, dtype=np.float64)
        noisy_counts = self._counter(name, sensitivity.counts(n_columns), share, grid, n_columns)
        return search_quantiles(
            counts_up_to, noisy_counts, q=float(q), n_rows=n_rows, grid=grid, n_columns=n_columns
        )

    def forfeit(self, share: float) -> None:
        """Spend a share on nothing: to stop early, as released values say, must not save budget.

        Parameters
        ----------
        share : float
            Share of the square of mu, or of epsilon if delta is 0.
        """
        release = self.laplace if self.is_pure else self.gaussian
        release("not used", np.zeros(0), sensitivity=1.0, share=share)

    def _counter(
        self, name: str, sensitivity: float, share: float, grid: np.ndarray, n_columns: int
    ) -> Callable[..., np.ndarray]:
        """Make what releases the counts of a search, each for an equal part of the share."""
        share = float(share)
        # Before the first count, so that a search is paid for as a whole or not at all.
        self._check(name, "gaussian", share)
        if n_steps := search_steps(grid):
            self._check_size(name, "gaussian", share / n_steps, (n_columns,))

        def _noisy_counts(step: int, n_steps: int, exact: Any) -> np.ndarray:
            return self.gaussian(
                f"{name}, count {step}", exact, sensitivity=sensitivity, share=share / n_steps
            )

        return _noisy_counts

    def _release(
        self, name: str, mechanism: str, value: Any, sensitivity: float, share: float
    ) -> np.ndarray:
        sensitivity, share = float(sensitivity), float(share)
        self._check(name, mechanism, share)
        value = np.asarray(value, dtype=np.float64)
        is_symmetric = mechanism == "symmetric_gaussian"
        if is_symmetric and (value.ndim != 2 or value.shape[0] != value.shape[1]):
            raise ValueError(f"value must be a square matrix, got shape {value.shape}.")
        self._check_size(name, mechanism, share, value.shape)
        if is_symmetric:
            # To the last bit: half of the noise would do for a difference of two halves.
            value = (value + value.T) / 2
        scale = self._currency.noise_scale(
            mechanism, sensitivity, share, joint_entries(mechanism, value.shape)
        )
        release = Release(name, mechanism, sensitivity, scale, share)
        self._charge(release)
        return self._publish(release, value)

    def _publish(self, release: Release, value: np.ndarray) -> np.ndarray:
        if not self.is_private:
            return value
        # The value, as it is before rounding, is part of the key: it depends on more than the data,
        # such as the container and the number of threads, and two values must never share noise.
        key = self._noise.key(
            len(self._releases), release.name, release.mechanism, release.noise_scale, value
        )
        noise = draw(release.mechanism, value.shape, key)
        noise *= release.noise_scale
        noise += value
        return round_to_lattice(noise, release.noise_scale)
