"""The one door through which private statistics leave."""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from skdp.exceptions import BudgetError
from skdp.linalg.norms import GridCounts
from skdp.linalg.prefix_sums import PrefixNoise
from skdp.privacy.adjacency import ADJACENCIES
from skdp.privacy.by_name import NamedReleases
from skdp.privacy.cost import PrivacyCost
from skdp.privacy.initial_noise import InitialNoiseSums
from skdp.privacy.noise import NoiseSource, checked_value, joint_entries, with_noise, without_noise
from skdp.privacy.plan import SHARE_TOLERANCE, Plan, paths_that_go_on
from skdp.privacy.quantile import search_quantile, warnings_for_ends
from skdp.privacy.record import PrivacySpent
from skdp.privacy.release import Release, Released, Search

__all__ = ["SKIPPED", "PrivacyBudget"]

#: Name that the record gives to a release that did not take place.
SKIPPED = "skipped"


class PrivacyBudget(NamedReleases):  # numpydoc ignore=PR02
    """The privacy of one fit: adds noise to releases, records them, and refuses to overspend.

    `epsilon` and `delta` are turned into mu once. Each release spends a share of the square of mu,
    and the shares of a fit add to at most 1. Shares must not depend on the data. Every released
    number is rounded to a multiple of a power of two that lies between 1/32 and 1/16 of the noise
    std. So its low bits tell nothing about the value behind the noise.

    If `delta` is 0, shares are shares of epsilon. Gaussian noise needs a positive delta and is
    refused then; ``laplace``, ``spherical`` and ``exponential`` remain.

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
        test that is passed by mistake, ``0 <= delta_tail < delta``. mu of the whole fit is solved
        from the rest. The caller has to prove that the event is no likelier than that.
    charge : callable or None, default=None
        Called once, before the first release, with the record of all that the budget may spend,
        such as ``charge`` of a :class:`skdp.PrivacyLedger`. If it raises, nothing is released.

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

    # The paths of the plan that begin with the releases so far; None without a plan.
    _open_paths: Sequence[Sequence[Release]] | None

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
        plan = Plan(cost, None, unit=unit, adjacency=adjacency, enforced=enforced)
        self._begin(plan, noise_source, charge)
        # Without a plan, the budget takes any releases whose shares add to at most 1.
        self._open_paths = None

    @classmethod
    def of(
        cls,
        plan: Plan,
        noise_source: NoiseSource | None = None,
        charge: Callable[[PrivacySpent], None] | None = None,
    ) -> Self:
        """Open the budget of a plan.

        Parameters
        ----------
        plan : Plan
            All releases to come.
        noise_source : NoiseSource or None, default=None
            Where the noise comes from. ``None`` is the operating system.
        charge : callable or None, default=None
            Called once with the record of the whole plan, before the first release.

        Returns
        -------
        PrivacyBudget
            A budget that refuses every release but the next one of the plan.
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
        seed = self._noise_source.fingerprint
        self.cost, self.adjacency, self._charge = plan.cost, plan.adjacency, charge
        # The record of all that may be spent; the ledger is charged with it.
        self._whole = PrivacySpent(
            epsilon=plan.epsilon,
            delta=plan.delta,
            mu=plan.cost.mu,
            unit=plan.unit,
            adjacency=plan.adjacency,
            seed_fingerprints=() if seed is None else (seed,),
            releases=(),
            enforced=plan.enforced,
            delta_tail=plan.delta_tail,
            guessable=self._noise_source.is_guessable,
        )
        self._open_paths = plan.paths
        self._releases: list[Release] = []
        #: Warnings of searches that ended at an end of their grid.
        self.warnings: list[str] = []

    @property
    def is_private(self) -> bool:
        """Whether noise is added at all."""
        return self.cost.is_private

    def spent(self) -> PrivacySpent:
        """Return the record of all releases so far.

        Returns
        -------
        PrivacySpent
            An immutable record.
        """
        mu = self.cost.spent_mu(release.share for release in self._releases)
        return replace(self._whole, mu=mu, releases=tuple(self._releases))

    def release(self, release: Release, value: Any, *facts: Any, **more: Any) -> Released:
        """Release `value` with the noise of a mechanism.

        Parameters
        ----------
        release : Release
            What is released: the next release of the plan, if the budget has one.
        value : array-like
            The private statistic.
        *facts : object
            Public or released facts that the sensitivity depends on; none if the plan states it.
        **more : object
            Such facts, by name.

        Returns
        -------
        Released
            The noisy statistic, in the shape of `value`, and the standard deviation of its noise.

        Raises
        ------
        BudgetError
            If it is not next in the plan; if its share or sensitivity is not positive and finite;
            if all shares would exceed 1; if the mechanism is unknown or needs a positive delta; or
            if the value has more entries than the share protects against rounding.
        ValueError
            If the mechanism takes no value of that shape.
        """
        value = checked_value(np.asarray(value, dtype=np.float64), release.mechanism)
        booked = self._book(release, release.change(*facts, **more), value.shape)
        return Released(self._publish(booked, value), booked.noise_std or 0.0)

    def quantile(
        self,
        search: Search,
        values: np.ndarray | GridCounts,
        *,
        q: float,
        n_units: int | None = None,
    ) -> float:
        """Release the first point of a public grid that a fraction `q` of the values do not exceed.

        The binary search over the grid releases one noisy count in each step.

        Parameters
        ----------
        search : Search
            What is released.
        values : ndarray of shape (n,) or GridCounts
            One value for each unit, or their counts on the grid of the search; the NaN of a null
            unit is counted nowhere.
        q : float
            Probability in (0, 1).
        n_units : int or None, default=None
            Public number of all units, if an array of `values` holds those of one party only;
            ``None`` if it holds all. Counts tell the number themselves.

        Returns
        -------
        float
            A point of the grid.

        Raises
        ------
        BudgetError
            If `release` would raise it.
        """
        if not isinstance(values, GridCounts):
            n_units = len(values) if n_units is None else n_units
            values = GridCounts.in_all(search.grid, values, n_units)
        lines = search.lines()
        if self._open_paths is None:
            # A search is paid for as a whole: none of its counts is released unless all can be.
            self._check_share(search.name, search.share)
        found = search_quantile(
            lambda step, point: self.release(lines[step], values.up_to(point)).value,
            search.grid,
            float(q) * values.n_units,
        )
        if search.remedy is not None:
            ends = warnings_for_ends(search.name, np.array([found]), search.grid, search.remedy)
            self.warnings += ends
        return found

    def sums_with_initial_noise(
        self, release: Release, *, unit: float, correlation: PrefixNoise
    ) -> InitialNoiseSums:
        """Book sums of data that arrive later; Gaussian noise is added before the data.

        The noise comes from the operating system even where there is a seed.

        Parameters
        ----------
        release : Release
            What is released. Its shape is that of the sums. If there are several epochs, their
            number comes first in it. Its sensitivity is that of one epoch times the ``column_norm``
            of the correlation.
        unit : float
            Power of two; the sums are whole multiples of it.
        correlation : PrefixNoise
            How often the sums are released, and how their noise is correlated between epochs.

        Returns
        -------
        InitialNoiseSums
            Sums that are to be read once, or once an epoch.

        Raises
        ------
        BudgetError
            If `release` would raise it.
        """
        release.check_mechanism("gaussian")
        shape = release.shape[-2:]
        booked = self._book(release, release.change(), (correlation.horizon, *shape))
        return self._start(booked, shape, unit, correlation)

    def skip(self, *releases: Release) -> None:
        """Spend the shares of releases that do not take place: stopping early saves no budget.

        Parameters
        ----------
        *releases : Release
            The next releases of the plan, which released values have ruled out.

        Raises
        ------
        BudgetError
            If they are not next in the plan, or may not be skipped.
        """
        for release in releases:
            if not release.may_be_skipped:
                raise BudgetError(f"Release {release.name!r} may not be skipped.")
            mechanism = "laplace" if self.cost.is_pure else "gaussian"
            line = Release(SKIPPED, mechanism, release.share)
            self._publish(self._book(release, 1.0, (0,), line), np.zeros(0))

    def _start(
        self, release: Release, shape: tuple[int, ...], unit: float, correlation: PrefixNoise
    ) -> InitialNoiseSums:
        return InitialNoiseSums(release, shape, unit, correlation)

    def _book(
        self,
        planned: Release,
        sensitivity: float,
        shape: tuple[int, ...],
        instead: Release | None = None,
    ) -> Release:
        """Add a release, or another `instead` of it, to the record before its number leaves."""
        open_paths, taken = self._open_paths, instead or planned
        if open_paths is None:
            self._check_share(planned.name, planned.share)
        else:
            open_paths = paths_that_go_on(open_paths, len(self._releases), planned)
        self.cost.check_size(taken.name, taken.mechanism, taken.share, shape)
        entries = joint_entries(taken.mechanism, shape)
        noise_std = self.cost.noise_std(taken.mechanism, sensitivity, taken.share, entries)
        # A subnormal number has lost digits: noise of that std would not cover the sensitivity.
        smallest = sys.float_info.min if self.is_private else 0.0
        if not (sensitivity > 0 and smallest <= noise_std < math.inf):
            raise BudgetError(
                f"Release {taken.name!r} has sensitivity {sensitivity!r}, which asks for noise of "
                f"standard deviation {noise_std!r}; both must be positive, and neither too small "
                "nor too large for a float."
            )
        if not self._releases and self._charge is not None:
            # Before the first number leaves, charge all, however little is released later.
            self._charge(self._whole)
        # Changed last: a release that is refused above leaves the budget as it was.
        self._open_paths = open_paths
        booked = Release(taken.name, taken.mechanism, taken.share, sensitivity, noise_std)
        self._releases.append(booked)
        return booked

    def _check_share(self, name: str, share: float) -> None:
        """Refuse a share that exceeds what is left."""
        spent = [release.share for release in self._releases]
        if not share > 0 or math.fsum([share, *spent]) > 1 + SHARE_TOLERANCE:
            raise BudgetError(
                f"Release {name!r} asks for a share of {share!r}; the shares must be positive and "
                f"add to at most 1, and {1 - math.fsum(spent):.3g} is left."
            )

    def _publish(self, release: Release, value: np.ndarray) -> np.ndarray:
        if not self.cost.is_private:
            return without_noise(value, release.mechanism)
        mechanism, noise_std = release.mechanism, release.noise_std or 0.0
        # Two values must never share noise, or the difference of their releases would be free of
        # it. So the key includes the exact value: in another container, it may round differently.
        number = len(self._releases)
        key = self._noise_source.key(number, release.name, mechanism, noise_std, value)
        return with_noise(value, mechanism, noise_std, key)
