"""The plan of a fit: all its releases, which public facts determine before data are read."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import numpy as np

from skdp.exceptions import BudgetError
from skdp.privacy.cost import PrivacyCost
from skdp.privacy.lattice import largest_size
from skdp.privacy.record import printed
from skdp.privacy.release import Release, Search, summaries

__all__ = [
    "SHARE_TOLERANCE",
    "OneOf",
    "Plan",
    "growing_shares",
    "left_of",
    "paths_of",
    "paths_that_go_on",
    "share_for_counts",
    "share_of",
]

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
        sums = [_checked_sum(path) for path in self.paths]
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

    def __repr__(self) -> str:
        rows = summaries(self.releases)
        for path in self.others:
            rest = path[_same_prefix(path, self.releases) :]
            rows += [("or, as released values say:", ""), *summaries(rest)]
        return printed("Plan", self, (), rows)


def paths_of(part: Any) -> list[list[Release]]:
    """List every path through a part of a plan, release by release."""
    if part is None:
        return [[]]
    if isinstance(part, Release):
        return [list(part.lines()) if isinstance(part, Search) else [part]]
    if isinstance(part, OneOf):
        return [path for way in part.ways for path in paths_of(way)]
    paths: list[list[Release]] = [[]]
    for each in part:
        more = paths_of(each)
        paths = [[*path, *rest] for path in paths for rest in more] if len(more) > 1 else paths
        for path in paths if len(more) == 1 else ():
            path += more[0]
    return paths


def paths_that_go_on(
    paths: Sequence[Sequence[Release]], n_released: int, release: Release
) -> list[Sequence[Release]]:
    """Return the paths on which this release is next; refuse it if there is none."""
    unfinished = [path for path in paths if len(path) > n_released]
    found = [path for path in unfinished if _is_same(path[n_released], release)]
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


def _is_same(planned: Release, release: Release) -> bool:
    # A copy with another function would have another sensitivity than the planned one.
    return planned == release and planned.sensitivity_of is release.sensitivity_of


def share_for_counts(
    count: int, n_units: int, mu: float, *, precision: float, limits: tuple[float, float]
) -> float:
    """Compute the share that gives each of `count` counts a relative error of `precision`.

    The share is clipped to the limits. It depends on public facts only.
    """
    needed = count / (precision * n_units * mu) ** 2
    return float(np.clip(needed, *limits))


def growing_shares(total: float, n_steps: int, growth: float) -> list[float]:
    """Split a share over steps: each gets `growth` times the share of the step before."""
    weights = growth ** np.arange(n_steps)
    shares: list[float] = (total * weights / weights.sum()).tolist()
    return shares


def share_of(part: Any) -> float:
    """Add the shares of a part of a plan."""
    return math.fsum(line.share for line in paths_of(part)[0])


def left_of(*parts: Any, total: float = 1.0) -> float:
    """Compute what is left of a share after these parts of a plan."""
    return total - share_of(parts)


def _checked_sum(path: Sequence[Release]) -> float:
    """Add the shares of a path; refuse shares that no budget can hold."""
    shares = [release.share for release in path]
    total = math.fsum(shares)
    if not min(shares, default=1.0) > 0 or not total <= 1 + SHARE_TOLERANCE:
        raise BudgetError(
            f"The shares of a plan must be positive and add to at most 1, got {shares} with "
            f"the sum {total!r}."
        )
    return total


def _same_prefix(path: Sequence[Release], default: Sequence[Release]) -> int:
    """Count the releases that both paths begin with."""
    pairs = zip(path, default, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
