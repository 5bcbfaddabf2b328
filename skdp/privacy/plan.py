"""What a fit may spend, and the plan of all its releases, before data are read."""

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import chain, product, takewhile
from operator import attrgetter
from typing import Any

import numpy as np

from skdp.exceptions import BudgetError
from skdp.privacy import gaussian_dp, pure_dp, sensitivity
from skdp.privacy.noise import CHOICE, SCALE_MARGIN, distinct_entries, joint_entries, largest_size
from skdp.privacy.releases import Release, Search, as_html, printed, search_steps, summaries

__all__ = [
    "SHARE_TOLERANCE",
    "OneOf",
    "Plan",
    "PrivacyCost",
    "growing_shares",
    "largest_epsilon",
    "left_of",
    "paths_of",
    "paths_with_next",
    "plan_sum",
    "share_for_counts",
]

# Relative size of the first step down from an epsilon that rounding has raised.
_LEAST_STEP = 1e-14  # not tuned
_PURE = ("laplace", "spherical")
_MECHANISMS = ("gaussian", "symmetric_gaussian", *_PURE, CHOICE)
# Cached: the fits of a search have few different budgets.
_solved_mu = lru_cache(maxsize=64)(gaussian_dp.mu_from_epsilon_delta)


@dataclass(frozen=True)
class PrivacyCost:  # numpydoc ignore=PR02
    """What a fit may spend: releases are declared with shares of it.

    A share is a fraction of the square of mu or, if `delta` is 0, of epsilon.

    Parameters
    ----------
    epsilon : float
        Dimensionless, ``0 < epsilon <= inf``; ``inf`` switches the noise off.
    delta : float
        Probability, ``0 <= delta < 1``; 0 is pure differential privacy.
    delta_tail : float, default=0.0
        Part of `delta` that is reserved for an event after which nothing is promised, 0 or below
        `delta`. No share is taken from it.
    part : float, default=1.0
        Factor that multiplies every declared share: the releases may be one part of a larger fit.

    Attributes
    ----------
    mu : float
        Gaussian differential privacy that the whole cost buys.

    Raises
    ------
    ValueError
        If `epsilon`, `delta` or `delta_tail` is out of range.

    Examples
    --------
    >>> from skdp.privacy import PrivacyCost
    >>> cost = PrivacyCost(epsilon=1.0, delta=1e-6)
    >>> round(cost.mu, 4)
    0.2367
    >>> round(cost.noise_std("gaussian", sensitivity=2.0, share=0.5), 2)
    11.95
    """

    epsilon: float
    delta: float
    delta_tail: float = 0.0
    part: float = 1.0
    mu: float = field(init=False)

    def __post_init__(self) -> None:
        # Solved even if the privacy is pure, since this checks the range of all three numbers.
        mu = _solved_mu(self.epsilon, self.delta, self.delta_tail)
        mu = pure_dp.mu_from_epsilon(self.epsilon) if self.is_pure else mu
        object.__setattr__(self, "mu", mu)

    @property
    def is_private(self) -> bool:
        """Whether noise is added at all."""
        return math.isfinite(self.epsilon)

    @property
    def is_pure(self) -> bool:
        """Whether the privacy is pure: delta is 0, and shares are shares of epsilon."""
        return self.delta == 0 and self.is_private

    def release(
        self,
        name: str,
        mechanism: str,
        share: float,
        sensitivity_of: Callable[..., float],
        known: Mapping[str, Any] | None = None,
        *,
        follows: str = "",
        shape: tuple[int, ...] = (),
        may_be_skipped: bool = False,
    ) -> Release:
        """Declare a release.

        Parameters
        ----------
        name : str
            What is released.
        mechanism : str
            How, as in :class:`skdp.privacy.Release`.
        share : float
            Share of the cost.
        sensitivity_of : callable
            Computes the sensitivity from public facts and from what was released before.
        known : mapping or None, default=None
            These facts by name, if all of them are known before the fit.
        follows : str, default=""
            What these facts follow, for people to read, if not all are known before the fit.
        shape : tuple of int, default=()
            Shape of what is released.
        may_be_skipped : bool, default=False
            Whether released values may rule the release out.

        Returns
        -------
        Release
            The declared release, with its sensitivity and noise std if the facts are known.

        Raises
        ------
        BudgetError
            If the share is not positive, admits no such mechanism, or is too small for so many
            numbers.
        """
        share *= self.part
        self.check_size(name, mechanism, share, shape)
        change, std = None, None
        if known is not None:
            change = float(sensitivity_of(**known))
            std = self.noise_std(mechanism, change, share, joint_entries(mechanism, shape))
        return Release(
            name, mechanism, share, change, std, follows, shape, may_be_skipped, sensitivity_of
        )

    def search(
        self, name: str, share: float, grid: np.ndarray, *, remedy: str | None = None
    ) -> Search:
        """Declare a binary search over a public grid.

        Parameters
        ----------
        name : str
            What is searched for.
        share : float
            Share of the cost for all counts together.
        grid : array-like of shape (n_points,)
            Ascending public numbers.
        remedy : str or None, default=None
            Sentence that tells a user what to do if the search ends at an end of the grid; None
            for no warning.

        Returns
        -------
        Search
            The declared search.

        Raises
        ------
        BudgetError
            If the share is not positive or too small, or `delta` is 0.
        """
        grid, share = np.asarray(grid, np.float64), float(share) * self.part
        change = sensitivity.counts(1)
        # A search over one point takes no count, but its share still has to be positive.
        share_of_count = share / max(search_steps(len(grid)), 1)
        self.check_size(name, "gaussian", share_of_count, (1,))
        std = self.noise_std("gaussian", change, share_of_count)
        return Search(name, "gaussian", share, change, std, shape=(1,), grid=grid, remedy=remedy)

    def check(self, mechanism: str) -> None:
        """Refuse an unknown mechanism, and one that needs a positive delta if delta is 0.

        Parameters
        ----------
        mechanism : str
            Name of the mechanism.

        Raises
        ------
        BudgetError
            If the mechanism is unknown, or if it needs a positive delta and delta is 0.
        """
        if mechanism not in _MECHANISMS:
            raise BudgetError(f"mechanism must be one of {_MECHANISMS}, got {mechanism!r}.")
        if self.is_pure and mechanism not in (*_PURE, CHOICE):
            raise BudgetError(
                f"delta=0 admits {', '.join(_PURE)} and {CHOICE} only, got {mechanism!r}; pass "
                "a positive delta."
            )

    def check_size(self, name: str, mechanism: str, share: float, shape: tuple[int, ...]) -> None:
        """Refuse a release of more numbers than its share protects against rounding.

        Parameters
        ----------
        name : str
            What is released.
        mechanism : str
            How, as in :class:`skdp.privacy.Release`.
        share : float
            Share of the cost.
        shape : tuple of int
            Shape of what is released.

        Raises
        ------
        BudgetError
            If the share is not positive, admits no such mechanism, or is too small for so many
            numbers.
        """
        if not share > 0:
            raise BudgetError(
                f"Release {name!r} asks for a share of {share!r}, which must be positive."
            )
        # A choice releases only the number of an option: it has no low bits that could tell the
        # losses.
        if not self.is_private or mechanism == CHOICE:
            return
        size = distinct_entries(mechanism, shape)
        largest = largest_size(
            mechanism, self.guarantee(mechanism, share), joint_entries(mechanism, shape)
        )
        if size > largest:
            raise BudgetError(
                f"The budget is too small: release {name!r} has {size} numbers, of which a share "
                f"of {share:.3g} protects {math.floor(largest)} at most against what rounding "
                "tells. Pass a larger epsilon or delta, fewer components, or fewer rows or columns."
            )

    def noise_std(
        self, mechanism: str, sensitivity: float, share: float, joint_entries: int = 1
    ) -> float:
        """Compute the standard deviation of the noise in an entry.

        Parameters
        ----------
        mechanism : str
            Which noise, as in :class:`skdp.privacy.Release`.
        sensitivity : float
            Largest change of the noiseless value between neighboring datasets.
        share : float
            Share of the cost.
        joint_entries : int, default=1
            How many entries share one draw of Laplace or spherical noise; other mechanisms ignore
            it.

        Returns
        -------
        float
            Standard deviation, in the units of the sensitivity; 0 if `epsilon` is infinite.

        Raises
        ------
        BudgetError
            If the mechanism needs a positive delta and delta is 0.
        """
        if not self.is_private:
            return 0.0
        bought = self.guarantee(mechanism, share)
        if bought < sys.float_info.min:
            return math.inf
        sensitivity *= 1 + SCALE_MARGIN
        if mechanism == CHOICE:
            # The standard deviation of the Gumbel law.
            return sensitivity / bought * math.pi / math.sqrt(6)
        if mechanism not in _PURE:
            return sensitivity / bought
        # A radius that follows the gamma law of shape k and scale 1 has mean square k (k + 1).
        return sensitivity / bought * math.sqrt(joint_entries + 1)

    def guarantee(self, mechanism: str, share: float) -> float:
        """Compute what a share buys: a mu or, for mechanisms of pure privacy, an epsilon.

        Parameters
        ----------
        mechanism : str
            Name of the mechanism.
        share : float
            Share of the cost.

        Returns
        -------
        float
            The mu or epsilon of the release.

        Raises
        ------
        BudgetError
            If the mechanism needs a positive delta and delta is 0.
        """
        self.check(mechanism)
        if mechanism == CHOICE:
            # A choice may have twice the epsilon that other pure mechanisms have at the same mu.
            return self._pure_epsilon(share) * (1 if self.is_pure else 2)
        if mechanism in _PURE:
            return self._pure_epsilon(share)
        return self.mu * math.sqrt(share)

    def spent_mu(self, shares: Iterable[float]) -> float:
        """Compute the mu of several releases together.

        Parameters
        ----------
        shares : iterable of float
            Share of each.

        Returns
        -------
        float
            The mu that they spend.
        """
        if self.is_pure:
            mus = [pure_dp.mu_from_epsilon(self._pure_epsilon(share)) for share in shares]
            return min(self.mu, gaussian_dp.compose(mus))
        total = min(math.fsum(shares), 1.0)
        return self.mu * math.sqrt(total) if total else 0.0

    def _pure_epsilon(self, share: float) -> float:
        if self.is_pure:
            return self.epsilon * share
        return pure_dp.epsilon_from_mu(self.mu * math.sqrt(share))


def largest_epsilon(mu: float, delta: float, delta_tail: float = 0.0) -> float:
    """Return the largest epsilon that, at that delta, costs at most `mu`.

    It is rounded down, so that `mu_from_epsilon_delta` of it does not exceed `mu`.
    """
    epsilon, less = gaussian_dp.epsilon_at(mu, delta, delta_tail), _LEAST_STEP
    while epsilon > 0 and gaussian_dp.mu_from_epsilon_delta(epsilon, delta, delta_tail) > mu:
        epsilon *= max(0.0, 1 - less)
        less *= 2
    return epsilon


# ------------------------------
# The plan of all releases, which public facts determine.

#: By how much the sum of the shares may exceed 1, through rounding.
SHARE_TOLERANCE = 1e-12  # not tuned


@dataclass(frozen=True)
class OneOf:
    """Alternative parts of a plan. Released values choose one; all spend the same."""

    ways: tuple[Any, ...]


@dataclass(frozen=True, repr=False)
class Plan:  # numpydoc ignore=PR02
    """What a fit will release and spend, known before `fit`; it prints like a record.

    Parameters
    ----------
    cost : PrivacyCost
        What may be spent.
    parts : Release, OneOf, None or sequence of these
        Releases in order; the solver gets this object. Sequences may be nested.
    unit : str
        What is protected.
    adjacency : str
        How neighboring datasets differ.
    enforced : bool, default=True
        Whether the bounds behind the sensitivities are enforced by clipping, or promised by the
        caller.

    Attributes
    ----------
    paths : tuple of tuple of Release
        Every path that the fit may take through its alternatives, release by release. The default
        path is first.

    Raises
    ------
    BudgetError
        If a share is not positive, the shares add to more than 1, or two paths do not spend the
        same.
    ValueError
        If the cost is so small that not one number could be released.

    Examples
    --------
    >>> from skdp import DPPCA
    >>> pca = DPPCA(n_components=5, mean_norm=64, row_norm=40)
    >>> pca.plan(n_samples=1797, n_features=64)
    Plan: (1, 1e-06)-DP per row, adjacency 'replace', mu=0.2367
      release                        share  sensitivity    noise std
      mean                          0.1500      0.07123       0.7771
      second moment                 0.8500         2263    1.037e+04
    """

    cost: PrivacyCost
    parts: Any
    unit: str = field(kw_only=True)
    adjacency: str = field(kw_only=True)
    enforced: bool = field(default=True, kw_only=True)
    paths: tuple[tuple[Release, ...], ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if largest_size("gaussian", self.cost.mu) < 1:
            raise ValueError(
                f"No usable noise gives epsilon={self.epsilon} with delta="
                f"{self.delta - self.delta_tail}; pass larger ones."
            )
        object.__setattr__(self, "paths", tuple(map(tuple, paths_of(self.parts))))
        sums = list(map(_checked_sum, self.paths))
        if max(sums) - min(sums) > SHARE_TOLERANCE:
            raise BudgetError(f"The ways of a plan must spend the same, got shares of {sums}.")

    @property
    def releases(self) -> tuple[Release, ...]:
        """What will be released, in order, on the default path."""
        return self.paths[0]

    @property
    def others(self) -> tuple[tuple[Release, ...], ...]:
        """Other paths, which released values may choose; each from the first release on."""
        return self.paths[1:]

    @property
    def epsilon(self) -> float:
        """Privacy budget."""
        return self.cost.epsilon

    @property
    def delta(self) -> float:
        """Probability with which the guarantee may fail."""
        return self.cost.delta

    @property
    def delta_tail(self) -> float:
        """Part of delta that is reserved for an event after which nothing is promised."""
        return self.cost.delta_tail

    @property
    def mu(self) -> float:
        """Gaussian differential privacy that all releases together will spend."""
        return self.cost.spent_mu(release.share for release in self.releases)

    def check_memory(self) -> None:
        """Refuse releases that are too large for this machine, before anything is spent.

        Raises
        ------
        ValueError
            If memory for one of them cannot be had.
        """
        for release in chain.from_iterable(self.paths):
            try:
                np.empty(release.shape)
            except (MemoryError, ValueError):
                size = 8 * math.prod(release.shape) / 2**30
                raise ValueError(
                    f"{release.name!r} has shape {release.shape}, which takes {size:,.0f} GiB, "
                    "more than this machine has. Pass fewer features, such as hashed ones, or a "
                    "solver that takes less."
                ) from None

    def __repr__(self) -> str:
        usual = summaries(self.releases)
        rows = list(usual)
        for path in self.others:
            rest = summaries(path[_same_prefix(path, self.releases) :])
            n_own = len(rest) - _same_prefix(rest[::-1], usual[::-1])
            rows += [("or, as released values say:", ""), *rest[:n_own]]
            rows += [(name, "and on as above") for name, _ in rest[n_own:][:1]]
        return printed("Plan", self, (), rows)

    def _repr_html_(self) -> str:
        return as_html(repr(self))


def paths_of(part: Any) -> list[list[Release]]:
    """List every path through a part of a plan, release by release."""
    if part is None:
        return [[]]
    if isinstance(part, Release):
        return [list(part.lines()) if isinstance(part, Search) else [part]]
    if isinstance(part, OneOf):
        return list(chain.from_iterable(map(paths_of, part.ways)))
    return [list(chain.from_iterable(path)) for path in product(*map(paths_of, part))]


def paths_with_next(
    paths: Sequence[Sequence[Release]], n_released: int, release: Release
) -> list[Sequence[Release]]:
    """Return the paths on which this release is next; refuse it if there is none."""
    unfinished, found = [path for path in paths if len(path) > n_released], []
    for path in unfinished:
        planned = path[n_released]
        # A copy with another function would have another sensitivity than the planned one.
        if planned == release and planned.sensitivity_of is release.sensitivity_of:
            found.append(path)
    if found:
        return found
    if not unfinished:
        raise BudgetError(
            f"Release {release.name!r} is not planned: all planned releases have been made."
        )
    expected = unfinished[0][n_released]
    raise BudgetError(
        f"Release {release.name!r}, {release.mechanism}, with share {release.share!r} is not next "
        f"in the plan: {expected.name!r}, {expected.mechanism}, with share {expected.share!r}."
    )


def plan_sum(
    problem: Any,
    name: str,
    share: float,
    shape: tuple[int, ...],
    bound: float | str,
    change: Callable[..., float],
    mechanism: str = "gaussian",
) -> Release:
    """Declare a sum over units, each of which adds what is clipped to a norm.

    The norm is `bound`, or follows the release of that name. `change` computes the sensitivity from
    the norm, the adjacency and the rounding of the sum.
    """
    change = partial(change, adjacency=problem.unit.adjacency)
    known, follows = None, str(bound)
    if not isinstance(bound, str):
        known, follows = {"row_norm": bound, "rounding": problem.rounding}, ""
    return problem.cost.release(name, mechanism, share, change, known, follows=follows, shape=shape)


def share_for_counts(
    count: int, n_units: int, mu: float, *, precision: float, limits: tuple[float, float]
) -> float:
    """Compute the share that gives each of `count` counts a relative error of `precision`.

    The share is clipped to the limits. It depends on public facts only.
    """
    least, most = limits
    squared = (precision * n_units * mu) ** 2
    return most if count >= most * squared else max(count / squared, least)


def growing_shares(total: float, n_steps: int, growth: float) -> list[float]:
    """Split a share over steps: each gets `growth` times the share of the step before."""
    weights = growth ** np.arange(n_steps)
    shares: list[float] = (total * weights / weights.sum()).tolist()
    return shares


def left_of(*parts: Any, total: float = 1.0) -> float:
    """Compute what is left of a share after these parts of a plan."""
    return total - math.fsum(map(attrgetter("share"), paths_of(parts)[0]))


def _checked_sum(path: Sequence[Release]) -> float:
    """Add the shares of a path; refuse shares that no budget can hold."""
    shares = list(map(attrgetter("share"), path))
    total = math.fsum(shares)
    if not min(shares, default=1.0) > 0 or not total <= 1 + SHARE_TOLERANCE:
        raise BudgetError(
            f"The shares of a plan must be positive and add to at most 1, got {shares} with "
            f"the sum {total!r}."
        )
    return total


def _same_prefix(path: Sequence[object], default: Sequence[object]) -> int:
    """Count the releases, or lines of them, that both paths begin with."""
    pairs = zip(path, default, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
