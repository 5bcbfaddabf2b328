"""The one door through which private statistics leave."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from skdp.exceptions import BudgetError
from skdp.linalg.prefix_sums import PrefixNoise
from skdp.privacy.account import Account
from skdp.privacy.adjacency import ADJACENCIES
from skdp.privacy.by_name import NamedReleases
from skdp.privacy.cost import PrivacyCost
from skdp.privacy.initial_noise import InitialNoiseSums
from skdp.privacy.mechanisms import checked_value, exact, with_noise
from skdp.privacy.noise import NoiseSource
from skdp.privacy.plan import Plan
from skdp.privacy.quantile import search_quantile, search_quantiles, warnings_for_ends
from skdp.privacy.record import PrivacySpent
from skdp.privacy.release import Release, Released, Search

__all__ = ["SKIPPED", "PrivacyBudget"]

#: Name of what stands in the place of a release that does not take place.
SKIPPED = "skipped"


class PrivacyBudget(NamedReleases):  # numpydoc ignore=PR02
    """The privacy of one fit: adds the noise, keeps the ledger, and refuses to overspend.

    `epsilon` and `delta` are turned into mu once. A release spends a share of the square of mu; the
    shares of a fit may add to 1. Shares must not depend on the data. Every number is released
    rounded to a multiple of a power of two between 1/32 and 1/16 of the noise std, so that its
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
        How neighboring datasets differ, for counts and for the record.
    noise_source : NoiseSource or None, default=None
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

    def __init__(
        self,
        epsilon: float,
        delta: float,
        *,
        unit: str,
        adjacency: str,
        noise_source: NoiseSource | None = None,
        enforced: bool = True,
        delta_tail: float = 0.0,
        charge: Callable[[PrivacySpent], None] | None = None,
    ) -> None:
        if adjacency not in ADJACENCIES:
            raise ValueError(f"adjacency must be one of {ADJACENCIES}, got {adjacency!r}.")
        cost = PrivacyCost(float(epsilon), float(delta), float(delta_tail))
        self._begin(Plan(cost, unit, adjacency, None, enforced), noise_source, charge)
        # Whatever the shares allow.
        self._account.ways = None

    @classmethod
    def of(
        cls,
        plan: Plan,
        noise_source: NoiseSource | None = None,
        charge: Callable[[PrivacySpent], None] | None = None,
    ) -> Self:
        """Open the budget of a plan, which then says what comes next, and for which share.

        Parameters
        ----------
        plan : Plan
            All releases that are to come.
        noise_source : NoiseSource or None, default=None
            Where the noise comes from.
        charge : callable or None, default=None
            Where the whole is charged.

        Returns
        -------
        PrivacyBudget
            A budget that refuses what is not the next line of the plan.
        """
        budget = cls.__new__(cls)
        budget._begin(plan, noise_source, charge)
        return budget

    def _begin(
        self,
        plan: Plan,
        noise_source: NoiseSource | None,
        charge: Callable[[PrivacySpent], None] | None,
    ) -> None:
        self._noise_source = NoiseSource() if noise_source is None else noise_source
        self.cost, self.adjacency = plan.cost, plan.adjacency
        seeds = () if self._noise_source.fingerprint is None else (self._noise_source.fingerprint,)
        self._account = Account(plan, seeds, charge, is_guessable=self._noise_source.is_guessable)
        self._warnings: list[str] = []

    # The documentation shows what a class itself defines.
    gaussian = NamedReleases.gaussian
    symmetric_gaussian = NamedReleases.symmetric_gaussian
    laplace = NamedReleases.laplace
    spherical = NamedReleases.spherical
    exponential = NamedReleases.exponential
    histogram = NamedReleases.histogram
    noise_std = NamedReleases.noise_std

    @property
    def is_private(self) -> bool:
        """Whether noise is added at all."""
        return self.cost.is_private

    @property
    def warnings(self) -> tuple[str, ...]:
        """What released numbers say against the grids that they were sought in."""
        return tuple(self._warnings)

    def spent(self) -> PrivacySpent:
        """Return the record of all releases so far.

        Returns
        -------
        PrivacySpent
            An immutable record.
        """
        return self._account.spent()

    def release(self, release: Release, value: Any, *facts: Any, **more: Any) -> Released:
        """Release `value` with the noise of a mechanism.

        Parameters
        ----------
        release : Release
            What is released: the next one of the plan, if there is one.
        value : array-like
            The private statistic.
        *facts : object
            What its sensitivity follows; none where the plan knows it.
        **more : object
            The same, by name.

        Returns
        -------
        Released
            The noisy statistic, in the shape of `value`, and the scale of its noise.

        Raises
        ------
        BudgetError
            If it is not next in the plan, its share or sensitivity is not positive and finite, the
            shares of all releases would exceed 1, the mechanism needs a delta and that is 0, or the
            value has so many entries that the share does not pay for their rounding.
        ValueError
            If the mechanism takes no value of that shape.
        """
        # Before the data are read.
        self.cost.check(release.mechanism)
        value = checked_value(np.asarray(value, dtype=np.float64), release.mechanism)
        entered = self._account.enter(release, release.change(*facts, **more), value.shape)
        return Released(self._publish(entered, value), entered.noise_std or 0.0)

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

    def quantile(self, search: Search, values: np.ndarray, *, q: float) -> float:
        """Release the first point of a public grid that a share `q` of the values do not exceed.

        A binary search over the grid, each step of which releases one noisy count.

        Parameters
        ----------
        search : Search
            What is released.
        values : ndarray of shape (n,)
            One value a unit; NaN for a null unit, which is counted nowhere.
        q : float
            Probability in (0, 1).

        Returns
        -------
        float
            A point of the grid.

        Raises
        ------
        BudgetError
            As of `release`.
        """
        found = search_quantile(values, float(q), search.grid, self._counter(search))
        self.warn_at_ends(search.name, np.array([found]), search.grid, search.remedy)
        return found

    def quantiles(
        self,
        search: Search,
        counts_up_to: Callable[[np.ndarray], np.ndarray],
        *,
        q: float,
        n_rows: int,
    ) -> np.ndarray:
        """Release, for every column, what `quantile` does: one count a column in each step.

        Parameters
        ----------
        search : Search
            What is released.
        counts_up_to : callable
            Takes an array of one grid point for each column, and returns for every column how many
            of its values do not exceed its point: exact counts as floats, of the same shape. A unit
            has one value in every column; NaN, for a null unit, is counted nowhere.
        q : float
            Probability in (0, 1).
        n_rows : int
            Public number of units, null ones included.

        Returns
        -------
        ndarray of shape (n_columns,)
            Points of the grid.

        Raises
        ------
        BudgetError
            As of `release`.
        """
        counter, (n_columns,) = self._counter(search), search.shape
        found = search_quantiles(
            counts_up_to, counter, q=q, n_rows=n_rows, grid=search.grid, n_columns=n_columns
        )
        self.warn_at_ends(search.name, found, search.grid, search.remedy)
        return found

    def warn_at_ends(
        self, name: str, found: np.ndarray, grid: np.ndarray, remedy: str | None
    ) -> None:
        """Note in `warnings` which released points are the first or the last one of a grid.

        Parameters
        ----------
        name : str
            Name of the release.
        found : ndarray of shape (n_columns,)
            What was released.
        grid : ndarray of shape (n_points,)
            Ascending public grid.
        remedy : str or None
            What to do; None warns of nothing.
        """
        if remedy is not None:
            self._warnings += warnings_for_ends(name, found, grid, remedy)

    def sums_with_initial_noise(
        self, release: Release, *, unit: float, correlation: PrefixNoise
    ) -> InitialNoiseSums:
        """Spend on sums whose data are still to come, with Gaussian noise that is there before.

        The noise comes from the operating system, whatever seed there is.

        Parameters
        ----------
        release : Release
            What is released: its shape is that of the sums, behind the number of epochs if there
            are several, and its sensitivity that of an epoch times the ``column_norm`` of the
            correlation.
        unit : float
            What the sums are counted in, a power of two.
        correlation : PrefixNoise
            How often the sums are released, and how the noise of an epoch follows that of those
            before.

        Returns
        -------
        InitialNoiseSums
            Sums that are to be read once, or once an epoch.

        Raises
        ------
        BudgetError
            As of `release`.
        """
        shape = release.shape[-2:]
        size = (correlation.horizon, *shape)
        entered = self._account.enter(release, release.change(), size)
        return self._start(entered, shape, unit, correlation)

    def skip(self, *releases: Release) -> None:
        """Spend what is planned on nothing: to stop early must not save budget.

        Parameters
        ----------
        *releases : Release
            The next ones of the plan, which do not take place, as released values say.

        Raises
        ------
        BudgetError
            If they are not next, or may not be skipped.
        """
        for release in releases:
            if not release.may_be_skipped:
                raise BudgetError(f"Release {release.name!r} may not be skipped.")
            mechanism = "laplace" if self.cost.is_pure else "gaussian"
            nothing = Release(SKIPPED, mechanism, release.share)
            entered = self._account.enter(release, 1.0, (0,), nothing)
            self._publish(entered, np.zeros(0))

    def _start(
        self, release: Release, shape: tuple[int, ...], unit: float, correlation: PrefixNoise
    ) -> InitialNoiseSums:
        return InitialNoiseSums(release, shape, unit, correlation)

    def _publish(self, release: Release, value: np.ndarray) -> np.ndarray:
        if not self.is_private:
            return exact(value, release.mechanism)
        mechanism, noise_std = release.mechanism, release.noise_std or 0.0
        # The value, as it is before rounding, is part of the key: it depends on more than the data,
        # such as the container and the number of threads, and two values must never share noise.
        number = len(self._account.releases)
        key = self._noise_source.key(number, release.name, mechanism, noise_std, value)
        return with_noise(value, mechanism, noise_std, key)

    def _counter(self, search: Search) -> Callable[..., Any]:
        """Make what releases the counts of a search, which is paid for as a whole or not at all."""
        lines = search.lines()
        if self._account.ways is None:
            self._account.check_share(search.name, search.share)
        return lambda step, _, exact: self.release(lines[step - 1], exact).value
