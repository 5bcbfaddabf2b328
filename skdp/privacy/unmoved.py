"""For solvers that are not yet handed their releases: plans as lists of lines, found by names.

All of this file goes when every solver is, with `PrivacyBudget.forfeit`, `.plan` and the branches
that call it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdp.exceptions import BudgetError
from skdp.privacy import sensitivity
from skdp.privacy.account import Account, refuse
from skdp.privacy.cost import PrivacyCost
from skdp.privacy.noise import joint_entries
from skdp.privacy.plan import OneOf
from skdp.privacy.quantile import search_steps
from skdp.privacy.release import Release, Search

__all__ = ["named_release", "named_search", "planned_search", "priced"]


def planned_search(name: str, share: float, n_points: int, n_columns: int = 1) -> list[Release]:
    """Plan the noisy counts of a search over a grid, which have equal parts of a share."""
    n_steps = search_steps(n_points)
    change = sensitivity.counts(n_columns)
    return [
        Release(f"{name}, count {step}", "gaussian", share / n_steps, change, shape=(n_columns,))
        for step in range(1, n_steps + 1)
    ]


def priced(part: Any, cost: PrivacyCost) -> Any:
    """Check that shares pay for their releases, and compute the scales of the noise."""
    if isinstance(part, OneOf):
        return OneOf(tuple(priced(way, cost) for way in part.ways))
    if isinstance(part, Iterable):
        return tuple(priced(one, cost) for one in part) if type(part) is list else part
    cost.check_size(part.name, part.mechanism, part.share, part.shape)
    if part.sensitivity is None or part.noise_scale is not None:
        return part
    entries = joint_entries(part.mechanism, part.shape)
    scale = cost.noise_std(part.mechanism, part.sensitivity, part.share, entries)
    return replace(part, noise_scale=scale)


def named_release(account: Account, name: str, mechanism: str, share: float | None) -> Release:
    """Find the next release by its name."""
    lines = account.next_lines()
    found = [line for line in lines if (line.name, line.mechanism) == (name, mechanism)]
    if not found or share not in (None, found[0].share) or any(one != found[0] for one in found):
        refuse(name, mechanism, share, lines)
    return replace(found[0], sensitivity_of=float)


@dataclass(frozen=True)
class _NamedSearch(Search):
    counts: tuple[Release, ...] = ()

    def lines(self) -> tuple[Release, ...]:
        return self.counts


def named_search(budget: Any, name: str, grid: np.ndarray, remedy: str | None = None) -> Search:
    """Find the next counts by the name of their search."""
    account, number, n_steps = (
        budget._account,
        len(budget.spent().releases),
        search_steps(len(grid)),
    )
    counts: tuple[Release, ...] = ()
    if n_steps:
        first = named_release(account, f"{name}, count 1", "gaussian", None)
        way = next(way for way in account.ways if way[number] == first)
        counts = tuple(way[number : number + n_steps])
    return _NamedSearch(name, "gaussian", 1.0, shape=(1,), grid=grid, remedy=remedy, counts=counts)


def parts_of(budget: Any, name: str) -> list[Search]:
    """Find the searches of a plan whose names begin so: those of medians, which all ways have."""
    parts = budget.plan.parts
    return [one for one in parts if isinstance(one, Search) and one.name.startswith(name)]


def skipped_release(account: Account) -> Release:
    """Find the next release, which does not take place."""
    lines = account.next_lines()
    if not lines:
        raise BudgetError("No release is planned that could be skipped: a share is needed.")
    return lines[0]
