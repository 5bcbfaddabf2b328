"""The cost of a fit, and the plan of all its releases, before data are read."""

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import chain, takewhile
from operator import attrgetter, eq
from typing import Any, NamedTuple

import numpy as np

from skdp.exceptions import BudgetError
from skdp.linalg.norms import steps_of
from skdp.privacy import gaussian_dp, pure_dp, sensitivity
from skdp.privacy.noise import CHOICE, SCALE_MARGIN, distinct_entries, joint_entries, largest_size
from skdp.privacy.precision import as_python
from skdp.privacy.releases import Release, Search, as_html, report_text, summaries

# Rounding may make an epsilon too small, which is then raised in steps, or too large, which is then
# lowered in steps. These are relative sizes of the first step; each next step is twice as large.
_FIRST_RISE = 1e-9  # not tuned
_FIRST_CUT = 1e-14  # not tuned
_PURE = ("laplace", "spherical")
_MECHANISMS = ("gaussian", "symmetric_gaussian", *_PURE, CHOICE)
# Cached, as the fits of a search have few different budgets.
_solved_mu = lru_cache(maxsize=64)(gaussian_dp.mu_from_epsilon_delta)


@dataclass(frozen=True)
class PrivacyCost:  # numpydoc ignore=PR02
    """What a fit may spend; each of its releases has a share of this cost.

    A share is a fraction of the square of mu or, if `delta` is 0, of epsilon.

    Parameters
    ----------
    epsilon : float
        Dimensionless, ``0 < epsilon <= inf``; ``inf`` switches the noise off.
    delta : float
        Probability, ``0 <= delta < 1``; 0 is pure differential privacy.
    delta_tail : float, default=0.0
        Part of `delta` that is reserved for an event after which nothing is promised, 0 or below
        `delta`. Releases spend the rest of `delta` only.
    part : float, default=1.0
        Factor of every declared share, for releases that are one part of a larger fit.
    mu : float or None, default=None
        Gaussian differential privacy of the whole cost. ``None`` is the largest mu that `epsilon`,
        `delta` and `delta_tail` admit; :meth:`share_of` makes costs with a smaller mu.

    Attributes
    ----------
    is_private : bool
        Whether noise is added at all.
    is_pure : bool
        Whether the privacy is pure: delta is 0, and shares are shares of epsilon.

    Raises
    ------
    TypeError
        If `epsilon`, `delta` or `delta_tail` is no number.
    ValueError
        If one of these is out of range, or `mu` exceeds what they admit.

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
    mu: float = None  # type: ignore[assignment]
    is_private: bool = field(init=False, repr=False, compare=False)
    is_pure: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta", "delta_tail"):
            value = as_python(getattr(self, name))
            if type(value) not in (float, int):
                raise TypeError(f"{name} must be a number, got {type(value).__name__}.")
            object.__setattr__(self, name, float(value))
        object.__setattr__(self, "is_private", math.isfinite(self.epsilon))
        object.__setattr__(self, "is_pure", self.delta == 0 and self.is_private)
        # `_solved_mu` checks all three numbers, and is called even if privacy is pure.
        most = _solved_mu(self.epsilon, self.delta, self.delta_tail)
        most = pure_dp.mu_from_epsilon(self.epsilon) if self.is_pure else most
        mu = most if self.mu is None else self.mu
        if not 0 <= mu <= most:
            raise ValueError(
                f"mu must be at most {most!r}, which epsilon={self.epsilon!r}, delta={self.delta!r}"
                f" and delta_tail={self.delta_tail!r} admit, got {mu!r}."
            )
        object.__setattr__(self, "mu", mu)

    def share_of(self, share: float, delta: float, delta_tail: float = 0.0) -> "PrivacyCost":
        """Return the cost of one of several fits that share this cost.

        Parameters
        ----------
        share : float
            Part of the square of mu that the fit gets.
        delta : float
            Part of delta that the fit gets, `delta_tail` included. It must be positive.
        delta_tail : float, default=0.0
            Part of `delta` for a tail event. Over all fits it sums to the `delta_tail` of this
            cost.

        Returns
        -------
        PrivacyCost
            The cost, with exactly that part of the square of mu. Its epsilon is rounded up.

        Raises
        ------
        ValueError
            If `delta` is 0, so that no finite epsilon admits that mu.
        """
        if not self.is_private:
            return PrivacyCost(math.inf, delta)
        mu = self.mu * math.sqrt(share)
        epsilon = max(gaussian_dp.epsilon_at(mu, delta, delta_tail), sys.float_info.min)
        if math.isinf(epsilon):
            raise ValueError(f"mu={mu!r} at delta={delta!r} has no finite epsilon.")
        step = _FIRST_RISE
        while _solved_mu(epsilon, delta, delta_tail) < mu:
            # The step doubles each time, as mu hardly depends on an epsilon far below delta.
            epsilon, step = epsilon * (1 + step), 2 * step
        return PrivacyCost(epsilon, delta, delta_tail, mu=mu)

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
            Name of the mechanism, as in :class:`skdp.privacy.Release`.
        share : float
            Share of the cost.
        sensitivity_of : callable
            Computes the sensitivity from public facts and from what was released before.
        known : mapping or None, default=None
            Arguments of `sensitivity_of` by name, if all of them are known before the fit.
        follows : str, default=""
            If `known` is None, what the arguments depend on, as text for the printed plan.
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
            If the share is not positive, does not admit the mechanism, or is too small for the
            number of entries.
        """
        share *= self.part
        self.check_size(name, mechanism, share, shape)
        change, std = None, None
        if not callable(sensitivity_of):
            raise TypeError(f"{name}: sensitivity_of must be a function, such as lambda: 1.0.")
        if known is not None:
            change = float(sensitivity_of(**known))
            std = self.noise_std(mechanism, change, share, joint_entries(mechanism, shape))
        return Release(
            name, mechanism, share, change, std, follows, shape, may_be_skipped, sensitivity_of
        )

    def search(
        self, name: str, share: float, grid: np.ndarray, *, remedy: str | None = None
    ) -> Search:
        """Declare a search over a public grid.

        Parameters
        ----------
        name : str
            What is searched for.
        share : float
            Share of the cost for all counts together.
        grid : array-like of shape (n_points,)
            Ascending public numbers.
        remedy : str or None, default=None
            Advice to the user if the search ends at an end of the grid; None
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
        n_steps, n_levels = steps_of(len(grid))
        # A search over one point has no step, but its share must still be positive.
        share_of_step, shape = share / max(n_steps, 1), (2**n_levels - 1,)
        change = sensitivity.differences_of_counts(n_levels)
        self.check_size(name, "gaussian", share_of_step, shape)
        std = self.noise_std("gaussian", change, share_of_step)
        return Search(name, "gaussian", share, change, std, shape=shape, grid=grid, remedy=remedy)

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
        """Refuse a release of so many numbers that its noise cannot hide their rounding.

        Parameters
        ----------
        name : str
            What is released.
        mechanism : str
            Name of the mechanism, as in :class:`skdp.privacy.Release`.
        share : float
            Share of the cost.
        shape : tuple of int
            Shape of what is released.

        Raises
        ------
        BudgetError
            If the share is not positive, does not admit the mechanism, or is too small for the
            number of entries.
        """
        if not share > 0:
            raise BudgetError(f"Release {name!r} has the share {share!r}, which must be positive.")
        # A choice releases an index, an exact integer: rounding reveals nothing.
        if not self.is_private or mechanism == CHOICE:
            return
        size, n_joint = distinct_entries(mechanism, shape), joint_entries(mechanism, shape)
        largest = largest_size(mechanism, self.guarantee(mechanism, share), n_joint)
        if size > largest:
            raise BudgetError(
                f"The budget is too small: release {name!r} has {size} numbers, and its share of "
                f"{share:.3g} hides the rounding of at most {math.floor(largest)}. Pass fewer "
                "columns (n_features of a HashingVectorizer), rows or components, or a larger "
                "epsilon."
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
            How many entries share one draw of Laplace or spherical noise, if any do.

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
        mu_or_epsilon = self.guarantee(mechanism, share)
        if mu_or_epsilon < sys.float_info.min:
            return math.inf
        scale = sensitivity * (1 + SCALE_MARGIN) / mu_or_epsilon
        if mechanism == CHOICE:
            # The standard deviation of the Gumbel law of scale 1.
            return scale * math.pi / math.sqrt(6)
        if mechanism not in _PURE:
            return scale
        # The radius of k entries has the gamma law of shape k, with mean square k (k + 1).
        return scale * math.sqrt(joint_entries + 1)

    def guarantee(self, mechanism: str, share: float) -> float:
        """Return the privacy parameter of a share: a mu or, if privacy is pure, an epsilon.

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
        if mechanism not in (*_PURE, CHOICE):
            return self.mu * math.sqrt(share)
        epsilon = self._pure_epsilon(share)
        # At the same mu, the exponential mechanism has twice the epsilon of Laplace noise.
        return 2 * epsilon if mechanism == CHOICE and not self.is_pure else epsilon

    def spent_mu(self, shares: Iterable[float]) -> float:
        """Compute the mu of several releases together.

        Parameters
        ----------
        shares : iterable of float
            Share of each release.

        Returns
        -------
        float
            The mu that the releases spend.
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
    """Return the largest epsilon for which `mu_from_epsilon_delta` does not exceed `mu`."""
    epsilon, cut = gaussian_dp.epsilon_at(mu, delta, delta_tail), _FIRST_CUT
    while epsilon > 0 and gaussian_dp.mu_from_epsilon_delta(epsilon, delta, delta_tail) > mu:
        epsilon *= max(0.0, 1 - cut)
        cut *= 2
    return epsilon


# ------------------------------
# The plan of all releases, from public facts.

#: Largest excess of the sum of the shares over 1, through rounding.
SHARE_TOLERANCE = 1e-12  # not tuned


@dataclass(frozen=True)
class AnyOf:
    """Alternative parts of a plan with equal shares; released values choose one of them."""

    branches: tuple[Any, ...]


@dataclass(frozen=True, repr=False)
class Plan:  # numpydoc ignore=PR02
    """What a fit will release and spend, known before `fit`; printed as a table.

    Parameters
    ----------
    cost : PrivacyCost
        What may be spent.
    parts : Release, AnyOf, None or sequence of these
        Releases in order, which may be nested sequences; the solver gets this same object.
    unit : str
        What is protected.
    adjacency : str
        How neighboring datasets differ.
    enforced : bool, default=True
        Whether the bounds behind the sensitivities are enforced by clipping, or promised by the
        caller.

    Attributes
    ----------
    branches : tuple of tuple of Release
        The releases of the default branch, then of each branch that differs from the default in one
        choice. Released values make the choices; a fit may make several.

    Raises
    ------
    BudgetError
        If a share is not positive, the shares add to more than 1, or two branches do not spend the
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
    branches: tuple[tuple[Release, ...], ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        # With so small a mu, noise could not hide the rounding of a single number.
        if largest_size("gaussian", self.cost.mu) < 1:
            raise ValueError(
                f"epsilon={self.epsilon} with delta={self.delta - self.delta_tail} is too small; "
                "pass a larger epsilon or delta."
            )
        object.__setattr__(self, "branches", tuple(branches_of(self.parts)))
        share_of = attrgetter("share")
        shares = list(map(share_of, chain.from_iterable(self.branches)))
        least, most = _total(self.parts, min, share_of), _total(self.parts, max, share_of)
        if not np.greater(shares, 0).all() or not most <= 1 + SHARE_TOLERANCE:
            wrong = max((sorted(map(share_of, one)) for one in self.branches), key=math.fsum)
            raise BudgetError(
                "The shares of a plan must be positive and add up to at most 1, got "
                f"{wrong if min(shares) > 0 else sorted(shares)} with the sum {most!r}."
            )
        if most - least > SHARE_TOLERANCE:
            raise BudgetError(f"Branches of a plan must spend the same, got {least!r} to {most!r}.")

    @property
    def releases(self) -> tuple[Release, ...]:
        """The releases of the default branch, in order."""
        return self.branches[0]

    @property
    def n_releases(self) -> int:
        """Number of releases of the longest branch."""
        return int(_total(self.parts, max, lambda release: len(_single_releases(release))))

    @property
    def n_lines(self) -> int:
        """Number of releases of the longest branch; here a search counts as one release."""
        return int(_total(self.parts, max, lambda _: 1))

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
        """Gaussian differential privacy of all releases together."""
        return self.cost.spent_mu(release.share for release in self.releases)

    def check_memory(self) -> None:
        """Refuse releases that are too large for this machine, before anything is spent.

        Raises
        ------
        ValueError
            If memory for a release cannot be had.
        """
        for release in chain.from_iterable(self.branches):
            try:
                np.empty(release.shape)
            except (MemoryError, ValueError):
                size = 8 * math.prod(release.shape) / 2**30
                raise ValueError(
                    f"{release.name!r} has shape {release.shape}, which takes {size:,.0f} GiB, "
                    "more than this machine has. Pass fewer features, or another solver."
                ) from None

    def __repr__(self) -> str:
        default = summaries(self.releases)
        rows = list(default)
        for branch in self.branches[1:]:
            # A branch is printed from its first release that differs from the default branch, up to
            # the line from which on both are the same again.
            lines = summaries(branch[_n_equal(branch, self.releases) :])
            n_own = len(lines) - _n_equal(lines[::-1], default[::-1])
            rows += [("or, as released values say:", ""), *lines[:n_own]]
            if n_own < len(lines):
                rows.append((lines[n_own][0], "and on as above"))
        return report_text("Plan", self, (), rows)

    def _repr_html_(self) -> str:
        return as_html(repr(self))


class Node(NamedTuple):
    """A release of a plan, with the nodes that may come next; none at the end."""

    release: Release
    following: "tuple[Node, ...]"


def nodes_of(part: Any, following: tuple[Node, ...] = ()) -> tuple[Node, ...]:
    """Return the nodes with which a part of a plan may begin; the default node comes first.

    `following` are the nodes behind the part: all branches of an `AnyOf` lead to these nodes.
    """
    if isinstance(part, AnyOf):
        of_branch = partial(nodes_of, following=following)
        return tuple(chain.from_iterable(map(of_branch, part.branches)))
    if isinstance(part, Release):
        for line in reversed(_single_releases(part)):
            following = (Node(line, following),)
        return following
    for step in reversed(part or ()):
        following = nodes_of(step, following)
    return following


def nodes_behind(nodes: Iterable[Node], release: Release) -> tuple[Node, ...]:
    """Return the nodes that may follow a release; refuse a release that is not next."""
    # Several branches may begin with this release. Branches that continue with the same releases
    # share one tuple of nodes, which is added once.
    found: dict[int, tuple[Node, ...]] = {}
    for planned, following in nodes:
        # Equality ignores `sensitivity_of`, but another function could return less than planned.
        if planned == release and planned.sensitivity_of is release.sensitivity_of:
            found[id(following)] = following
    if found:
        return tuple(chain.from_iterable(found.values()))
    names = " or ".join(repr(planned.name) for planned, _ in nodes)
    if not names:
        raise BudgetError(f"Release {release.name!r} is not planned: all planned ones are made.")
    raise BudgetError(
        f"Release {release.name!r} is not next in the plan, or differs from the planned one: pass "
        f"the plan's own {names}."
    )


def _single_releases(release: Release) -> tuple[Release, ...]:
    """Return the releases of a search, one for each step, or a tuple with the release itself."""
    return release.lines() if isinstance(release, Search) else (release,)


def branches_of(part: Any) -> list[tuple[Release, ...]]:
    """Return the releases of the default branch, then of each that differs by a single choice."""
    if isinstance(part, AnyOf):
        return list(chain.from_iterable(map(branches_of, part.branches)))
    if isinstance(part, Release):
        return [_single_releases(part)]
    found: list[tuple[Release, ...]] = [()]
    for step in part or ():
        default, *others = branches_of(step)
        # Each other branch of a step begins like the default branch, and so differs in one choice.
        found = [branch + default for branch in found] + [found[0] + other for other in others]
    return found


def _total(part: Any, pick: Callable[..., float], measure: Callable[[Release], float]) -> float:
    """Sum `measure` over the releases of the branch with the least or largest sum (`pick`)."""
    if isinstance(part, Release):
        return measure(part)
    total_of = partial(_total, pick=pick, measure=measure)
    if isinstance(part, AnyOf):
        return pick(map(total_of, part.branches))
    return math.fsum(map(total_of, part or ()))


def plan_sum(
    spec: Any,
    name: str,
    share: float,
    shape: tuple[int, ...],
    bound: float | str,
    change: Callable[..., float],
    mechanism: str = "gaussian",
) -> Release:
    """Declare a sum of vectors, one from each unit, clipped to a norm.

    `bound` is this norm, or the name of the earlier release that gives the norm. `change` computes
    the sensitivity from the norm, the adjacency and the rounding of the sum.
    """
    change = partial(change, adjacency=spec.unit.adjacency)
    known, follows = None, str(bound)
    if not isinstance(bound, str):
        known, follows = {"row_norm": bound, "rounding": spec.rounding}, ""
    return spec.cost.release(name, mechanism, share, change, known, follows=follows, shape=shape)


def plan_histogram(spec: Any, name: str, share: float, n_bins: int) -> Release:
    """Declare a histogram, in which each unit counts in one bin."""
    change = partial(sensitivity.histogram, spec.unit.adjacency)
    return spec.cost.release(name, "gaussian", share, change, {}, shape=(n_bins,))


def share_for_counts(
    spec: Any, count: int, precision: float, limits: tuple[float, float], of: float = 1.0
) -> float:
    """Return the share with which `count` counts have the noise std `precision` * `n_units`.

    The share is clipped to two limits, which are fractions of the share `of`. All arguments are
    public facts.
    """
    least, most = limits
    # Number of counts that have this noise std if they divide the share `of`.
    n_affordable = (precision * spec.n_units * (spec.cost.mu * math.sqrt(of))) ** 2
    return of * (most if count >= most * n_affordable else max(count / n_affordable, least))


def growing_shares(total: float, n_steps: int, growth: float) -> list[float]:
    """Split a share over steps: each gets `growth` times the share of the step before."""
    weights = growth ** np.arange(n_steps)
    shares: list[float] = (total * weights / weights.sum()).tolist()
    return shares


def left_of(*parts: Any, total: float = 1.0) -> float:
    """Return `total` minus the shares of these parts of a plan."""
    return total - math.fsum(map(attrgetter("share"), branches_of(parts)[0]))


def _n_equal(branch: Sequence[object], default: Sequence[object]) -> int:
    """Count the equal items at the beginning of two sequences."""
    return sum(takewhile(bool, map(eq, branch, default)))
