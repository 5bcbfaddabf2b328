"""The one door through which private statistics leave."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from skdp.privacy import sensitivity
from skdp.privacy.histogram import bin_counts
from skdp.privacy.mechanisms import Mechanisms
from skdp.privacy.noise import NoiseSource
from skdp.privacy.plan import Plan
from skdp.privacy.quantile import doubts_of_ends, search_quantile, search_quantiles, search_steps
from skdp.privacy.record import PrivacySpent, Released

__all__ = ["FORFEITED", "PrivacyBudget"]

#: Name of what stands in the place of a release that does not take place.
FORFEITED = "not used"


class PrivacyBudget(Mechanisms):  # numpydoc ignore=PR02
    """The privacy of one fit: adds the noise, keeps the ledger, and refuses to overspend.

    `epsilon` and `delta` are turned into mu once. A release spends a share of the square of mu; the
    shares of a fit may add to 1. Shares must not depend on the data. Every number is released
    rounded to a multiple of a power of two between 1/32 and 1/16 of the noise scale, so that its
    low bits tell nothing of the value behind the noise.

    With a `delta` of 0 a share is one of epsilon, and Gaussian noise, which needs a delta, is
    refused: ``laplace``, ``spherical`` and ``exponential`` remain.

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
    charge : callable or None, default=None
        Called once, before the first release, with the record of all that the budget holds, as the
        method of a :class:`skdp.PrivacyLedger`; if it raises, nothing is released.

    Raises
    ------
    ValueError
        If `epsilon`, `delta`, `delta_tail` or `adjacency` is out of range.

    Examples
    --------
    >>> from skdp.privacy import PrivacyBudget
    >>> budget = PrivacyBudget(1.0, 1e-6, unit="row", adjacency="replace")
    >>> noisy, scale = budget.gaussian("sum", [3.0, 4.0], sensitivity=2.0, share=0.5)
    >>> noisy.shape
    (2,)
    >>> round(scale, 2)
    11.95
    >>> budget.spent().releases[0].name
    'sum'
    """

    @classmethod
    def of(
        cls,
        plan: Plan,
        noise: NoiseSource | None = None,
        charge: Callable[[PrivacySpent], None] | None = None,
    ) -> Self:
        """Open the budget of a plan, which then says what comes next, and for which share.

        Parameters
        ----------
        plan : Plan
            All releases that are to come.
        noise : NoiseSource or None, default=None
            Where the noise comes from.
        charge : callable or None, default=None
            Where the whole is charged.

        Returns
        -------
        PrivacyBudget
            A budget that refuses what is not the next line of the plan.
        """
        budget = cls(
            plan.cost.epsilon,
            plan.cost.delta,
            unit=plan.unit,
            adjacency=plan.adjacency,
            noise=noise,
            enforced=plan.enforced,
            delta_tail=plan.cost.delta_tail,
            charge=charge,
        )
        budget._plan, budget._paths = plan, plan.paths
        return budget

    # The documentation shows what a class itself defines.
    gaussian = Mechanisms.gaussian
    symmetric_gaussian = Mechanisms.symmetric_gaussian
    laplace = Mechanisms.laplace
    spherical = Mechanisms.spherical
    exponential = Mechanisms.exponential
    noise_first = Mechanisms.noise_first
    is_private = Mechanisms.is_private
    plan = Mechanisms.plan
    doubts = Mechanisms.doubts
    noise_scale = Mechanisms.noise_scale
    spent = Mechanisms.spent

    def histogram(
        self, name: str, values: np.ndarray, *, edges: np.ndarray, share: float | None = None
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
        share : float or None, default=None
            Share of the square of mu that is spent; None for that of the plan.

        Returns
        -------
        Released
            Noisy counts of shape (n_bins,), and the scale of their noise.

        Raises
        ------
        BudgetError
            If the share is not positive, the shares of all releases would exceed 1, or delta is 0.
        """
        self.cost.check("gaussian")
        return self.gaussian(
            name,
            bin_counts(values, np.asarray(edges, dtype=np.float64)),
            sensitivity=sensitivity.histogram(self.adjacency),
            share=share,
        )

    def quantile(
        self,
        name: str,
        values: np.ndarray,
        *,
        q: float,
        grid: np.ndarray,
        share: float | None = None,
        remedy: str | None = None,
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
            Probability in (0, 1).
        grid : ndarray of shape (n_points,)
            Ascending public grid.
        share : float or None, default=None
            Share of the square of mu that is spent by all steps together; None for those of the
            plan.
        remedy : str or None, default=None
            What to do where a point is the first or the last one of the grid, which `doubts` then
            tells; None where such a point is as good as another.

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
        found = search_quantile(values, float(q), grid, noisy_count)
        self.doubt_ends(name, np.array([found]), grid, remedy)
        return found

    def quantiles(
        self,
        name: str,
        counts_up_to: Callable[[np.ndarray], np.ndarray],
        *,
        q: float,
        n_rows: int,
        grid: np.ndarray,
        n_columns: int,
        share: float | None = None,
        remedy: str | None = None,
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
            Probability in (0, 1).
        n_rows : int
            Public number of units, null ones included.
        grid : ndarray of shape (n_points,)
            Ascending public grid.
        n_columns : int
            How many columns.
        share : float or None, default=None
            Share of the square of mu that is spent by all steps together; None for those of the
            plan.
        remedy : str or None, default=None
            What to do where a point is the first or the last one of the grid, which `doubts` then
            tells; None where such a point is as good as another.

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
        found = search_quantiles(
            counts_up_to, noisy_counts, q=float(q), n_rows=n_rows, grid=grid, n_columns=n_columns
        )
        self.doubt_ends(name, found, grid, remedy)
        return found

    def doubt_ends(
        self, name: str, found: np.ndarray, grid: np.ndarray, remedy: str | None
    ) -> None:
        """Note in `doubts` which released points are the first or the last one of a grid.

        Parameters
        ----------
        name : str
            Name of the release.
        found : ndarray of shape (n_columns,)
            What was released.
        grid : ndarray of shape (n_points,)
            Ascending public grid.
        remedy : str or None
            What to do; None doubts nothing.
        """
        if remedy is not None:
            self._doubts += doubts_of_ends(name, found, grid, remedy)

    def forfeit(self, n_releases: int = 1) -> None:
        """Spend what is planned on nothing: to stop early must not save budget.

        Parameters
        ----------
        n_releases : int, default=1
            How many of the next releases do not take place, as released values say.

        Raises
        ------
        BudgetError
            If the plan has no such releases, or there is none.
        """
        release = self.laplace if self.cost.is_pure else self.gaussian
        for _ in range(n_releases):
            release(FORFEITED, np.zeros(0), sensitivity=1.0)

    def _counter(
        self, name: str, sensitivity: float, share: float | None, grid: np.ndarray, n_columns: int
    ) -> Callable[..., np.ndarray]:
        """Make what releases the counts of a search, each for an equal share."""
        n_steps = search_steps(len(grid))
        own = None
        if share is not None and n_steps:
            # Before the first count, so that a search is paid for as a whole or not at all.
            self.cost.check("gaussian")
            self._check_share(name, float(share))
            own = float(share) / n_steps
            self.cost.check_size(name, "gaussian", own, (n_columns,))

        def _noisy_counts(step: int, _: int, exact: Any) -> np.ndarray:
            return self.gaussian(
                f"{name}, count {step}", exact, sensitivity=sensitivity, share=own
            ).value

        return _noisy_counts
