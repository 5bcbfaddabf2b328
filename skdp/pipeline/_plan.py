"""The plan of a pipeline: one table of what all its private steps release."""

from dataclasses import replace
from typing import Any

from skdp._estimator import plan_of
from skdp.pipeline._fitting import Search, configured_fit
from skdp.privacy import Plan
from skdp.privacy.plan import OneOf
from skdp.privacy.release import Release

__all__ = ["plan_of_steps"]


def plan_of_steps(search: Search) -> Plan:
    """Put the plans of all steps together; behind a released width a step is one line."""
    parts, path, budgets = [], search.paths[0], search.split.search
    for number, share in budgets.shares.items():
        name = search.steps[number].name
        if path.follows[number]:
            parts.append(Release(name, "gaussian", share, follows=path.follows[number]))
            continue
        one = configured_fit(search, number, 0, budgets)
        problem = one._problem_like(*path.facts[number])
        parts.append(_within(plan_of(problem, one._plan(problem)).parts, name, share))
    return search.planned(search.split.cost, tuple(parts))


def _within(part: Any, label: str, share: float) -> Any:
    """Name the releases of a part after their step, and give them a share of the whole."""
    if part is None:
        return None
    if isinstance(part, Release):
        return replace(part, name=f"{label}: {part.name}", share=share * part.share)
    if isinstance(part, OneOf):
        return OneOf(tuple(_within(way, label, share) for way in part.ways))
    return tuple(_within(one, label, share) for one in part)
