"""Warnings of public facts, and of released values."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from skdp._scales.plan import MOST_NOISE, ScaleProblem
from skdp._scales.shrinkage import Scales
from skdp.exceptions import shortened
from skdp.privacy import Plan


def warnings_for_plan(problem: ScaleProblem, plan: Plan) -> Iterator[str]:
    """Warn if noise will hide most centers and scales."""
    noise_std = plan.releases[-1].noise_std
    if problem.cost.is_private and noise_std is not None and noise_std > MOST_NOISE:
        yield (
            f"With epsilon={problem.cost.epsilon:g}, {problem.n_units} rows and "
            f"{problem.n_features} columns, noise hides most centers and scales: its standard "
            f"deviation is {noise_std:.2f} of half the interval of a column. Use "
            f"{_remedy(problem)}."
        )


def warnings_for_scales(
    scales: Scales, problem: ScaleProblem, names: Sequence[Any]
) -> Iterator[str]:
    """Warn of columns whose scale, or place, noise hides."""
    if not problem.cost.is_private:
        return
    for which, what in (
        (
            scales.is_void,
            "show no number but 0 above the noise, and are taken to lie between 0 and 1",
        ),
        (
            scales.is_flat & ~scales.is_void,
            "hardly vary beside their intervals, as far as noise can tell: they get small scales, "
            "which may be far off",
        ),
    ):
        if which.any():
            yield f"{_named(np.flatnonzero(which), names)} {what}. Use {_remedy(problem)}."


def _remedy(problem: ScaleProblem) -> str:
    better = "" if problem.interval is None else " that fit better, and"
    return f"{problem.unit.remedy}. Pass bounds{better} that are known without looking at X"


def _named(columns: np.ndarray, names: Sequence[Any]) -> str:
    shown = shortened([str(names[column]) for column in columns])
    return f"{len(columns)} of {len(names)} columns ({shown})"
