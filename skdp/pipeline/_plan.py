"""The plan of a pipeline: one table of what all its private steps release."""

import math
from dataclasses import replace
from typing import Any

from skdp._estimator import plan_of
from skdp.pipeline._budget_split import BudgetSplit
from skdp.pipeline._fitting import Search, configured_fit
from skdp.privacy import Plan, PrivacySpent
from skdp.privacy.cost import PrivacyCost
from skdp.privacy.plan import OneOf
from skdp.privacy.release import Release

__all__ = ["plan_of_steps"]


def plan_of_steps(search: Search, split: BudgetSplit, whole: PrivacySpent) -> Plan:
    """Put the plans of all steps together; behind a released width a step is one line."""
    parts = []
    for number, mu in split.search.mus.items():
        step, path = search.steps[number], search.paths[0]
        share = (mu / split.mu) ** 2 if math.isfinite(mu) else step.share or 0.0
        if path.follows[number]:
            parts.append(Release(step.name, "gaussian", share, follows=path.follows[number]))
            continue
        one = configured_fit(search, number, 0, split.search)
        problem = one._problem_like(*path.facts[number])
        parts.append(_within(plan_of(problem, one._plan(problem)).parts, step.name, share))
    cost = PrivacyCost(whole.epsilon, whole.delta, whole.delta_tail)
    unit, adjacency = whole.unit, whole.adjacency
    return Plan(cost, tuple(parts), unit=unit, adjacency=adjacency, enforced=whole.enforced)


def _within(part: Any, label: str, share: float) -> Any:
    """Name the releases of a part after their step, and give them a share of the whole."""
    if part is None:
        return None
    if isinstance(part, Release):
        return replace(part, name=f"{label}: {part.name}", share=share * part.share)
    if isinstance(part, OneOf):
        return OneOf(tuple(_within(way, label, share) for way in part.ways))
    return tuple(_within(one, label, share) for one in part)
