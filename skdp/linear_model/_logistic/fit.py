"""A fit: the norm of the rows, their joint moment with the classes, and the steps from there."""

from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from skdp._scales import OTHER_UNITS_OF_X
from skdp.data.parts import NOT_FINITE
from skdp.data.rows import open_rows
from skdp.linear_model._logistic.descent import descend, whitened
from skdp.linear_model._logistic.optimum import optimum
from skdp.linear_model._logistic.plan import (
    NORMS,
    UNBOUNDED,
    LogisticReleases,
    clip_norm,
    plan_norm,
)
from skdp.linear_model._logistic.problem import LogisticProblem
from skdp.linear_model._logistic.records import (
    LabeledRows,
    clipped,
    joint_moment,
    weighting_to,
    weights_beside,
    with_norms,
)
from skdp.linear_model._logistic.warnings import warnings_for_classes, warnings_for_moment
from skdp.linear_model._logistic.whitening import (
    centered,
    fractions_of,
    on_rows,
    start_of,
    whitening_of,
)
from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.releases import warnings_for_ends

# Longer rows count as the last norm. Otherwise, if all were longer, all losses would be alike.
_ENDS = np.append(NORMS[:-1], np.inf)  # not tuned


class Estimate(NamedTuple):
    """Coefficients of each class, a column; the last row are the intercepts."""

    weights: np.ndarray
    warnings: tuple[str, ...] = ()


def opened(
    problem: LogisticProblem, view: LabeledRows, *, is_keyed: bool
) -> tuple[LabeledRows, bytes | None]:
    """Read rows in parts once before anything is released; refuse NaN and infinity.

    Returned are the same rows with the counts of their norms, if these are released, else with
    their total, if the fit begins with that; and their digest, if the noise is keyed.
    """
    is_counted, bound = plan_norm(problem) is not None, clip_norm(problem)
    is_summed = problem.begins_with_total and not is_counted
    rows, digest = open_rows(
        view,
        is_keyed=is_keyed,
        needs_signs=False,
        first=(bound, weighting_to(bound, view.n_features)) if is_summed else None,
        grid=_ENDS if is_counted else None,
    )
    if rows.cache.n_not_finite:
        raise ValueError(NOT_FINITE)
    return replace(view, cache=rows.cache), digest


def solve_logistic(
    problem: LogisticProblem,
    plan: LogisticReleases,
    view: LabeledRows,
    budget: PrivacyBudget,
    generator: np.random.Generator,
) -> Estimate:
    """Release the clip level, the joint moment, and the gradients; without noise the optimum."""
    view = with_norms(view)
    if plan.coefficients is not None:
        bound = min(UNBOUNDED, problem.row_norm or UNBOUNDED)
        best = optimum(clipped(view, bound), problem.n_classes)
        return Estimate(budget.release(plan.coefficients, centered(best)).value)
    assert plan.moment is not None
    row_norm = release_norm(problem, plan.norm, view, budget)
    view, beside = clipped(view, row_norm), weights_beside(row_norm)
    total = joint_moment(view, problem.n_classes, beside)
    noisy, noise_std = budget.release(plan.moment, total, row_norm, rounding=problem.rounding)
    moment, n_units = noisy / problem.n_units, problem.n_units
    n_features = problem.n_features
    whitening = whitening_of(moment, noise_std / n_units, beside[0], n_features)
    fractions = fractions_of(moment, beside, n_features)
    start = start_of(moment, whitening, beside, n_units)
    weights = descend(problem, plan.gradients, whitened(view, whitening), start, budget)
    weights = on_rows(weights, whitening.root, whitening.mean)
    told = warnings_for_moment(problem, whitening), warnings_for_classes(problem, fractions)
    return Estimate(weights, tuple(chain(*told)))


def release_norm(
    problem: LogisticProblem, release: Release | None, view: LabeledRows, budget: PrivacyBudget
) -> float:
    """Return the norm that rows are clipped to; if it is released, that which half do not exceed.

    The exponential mechanism chooses it.
    """
    if release is None:
        return clip_norm(problem)
    up_to = view.counted_norms(_ENDS).up_to_points
    # Half of the public number of records, null ones included.
    half, below = problem.n_units / 2, np.append(0, up_to[:-1])
    # Distances to either side: from counts up to a norm alone, all norms between two rows that are
    # far apart would be as good as the median.
    losses = np.maximum(0.0, np.maximum(half - up_to, below - half))
    chosen = budget.choose(release, losses)
    budget.warnings += warnings_for_ends(release.name, NORMS[[chosen]], NORMS, OTHER_UNITS_OF_X)
    return float(NORMS[chosen])
