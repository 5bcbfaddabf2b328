"""Fits that protect rows: clip the rows, release the mean, run a solver, and factorize X."""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from skdp.data.reduce import on_block
from skdp.data.rows import Rows, open_rows
from skdp.decomposition._spec import Factors, RowsSpec, rank_of
from skdp.decomposition.rows import plan as rows_plan
from skdp.decomposition.rows.moments import decompose
from skdp.decomposition.rows.solvers import (
    LEVEL_GRID,
    passes_positivity_test,
    release_mean,
    solve_clipped,
    solve_guided,
)
from skdp.linalg import denoising
from skdp.linalg.norms import bin_counts, row_norms, unclipped_squares
from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.clipping import clip_rows, clipped, weighting_to
from skdp.privacy.releases import SCALE_GRID, Search
from skdp.privacy.sensitivity import row_sum


def read_rows_once(spec: RowsSpec, raw: Rows, *, is_seeded: bool) -> tuple[Rows, bytes | None]:
    """Read all rows once; return a view that stores the first sums, and a hash of the rows."""
    rows, bound = raw, rows_plan.bound_of_mean(spec)
    if isinstance(spec.center, np.ndarray):
        rows = raw.centered(spec.center)
    # With a public bound for the mean, the sum of the clipped rows is stored, too.
    first = None
    if spec.releases_mean and not isinstance(bound, str):
        first = bound, weighting_to(bound, raw.n_features)
    is_guided = bool(spec.guided_solvers)
    return open_rows(rows, is_seeded=is_seeded, needs_signs=is_guided, first=first, grid=SCALE_GRID)


def solve_rows(
    spec: RowsSpec, plan: rows_plan.RowReleases, raw: Rows, budget: PrivacyBudget
) -> Factors:
    """Release norms, means and factors; for mostly positive rows, the mean guides the solver."""
    if plan.center is not None:
        return _solve_centered(spec, plan, plan.center, raw, budget)
    rows = clip_to_norm(raw, plan.row_norm, spec.row_norm, spec, budget)
    facts = clipping_facts(plan.row_norm, rows.bound, spec, budget)
    usual, *guided = plan.branches.branches
    mean, noise_std = np.zeros(raw.n_features), 0.0
    if usual.means:
        for_mean = rows if spec.mean_norm is None else clipped(raw, spec.mean_norm)
        if plan.positivity is not None and passes_positivity_test(plan.positivity, raw, budget):
            factors = solve_guided(spec, guided, rows, for_mean, budget)
            return replace(factors, **facts)
        mean, noise_std = release_mean(usual.means[0], for_mean, budget)
    elif isinstance(spec.center, np.ndarray):
        mean = spec.center
    factors = solve_clipped(spec, usual.solver, rows, budget)
    return replace(factors, mean=mean, mean_noise_variance=noise_std**2, **facts)


def _solve_centered(
    spec: RowsSpec, plan: rows_plan.RowReleases, center: Release, raw: Rows, budget: PrivacyBudget
) -> Factors:
    """Release a center, a second one if noise makes the first one rough, and the factors."""
    for_mean = clip_to_norm(raw, plan.mean_norm, spec.mean_norm, spec, budget)
    mean, mean_std = release_mean(center, for_mean, budget)
    n_warnings, search = len(budget.warnings), plan.row_norm
    rows = clip_to_norm(raw.centered(mean), search, spec.row_norm, spec, budget)
    branch, *others = plan.branches.branches
    if others and rows_plan.needs_second_mean(spec, branch, mean_std, rows.bound):
        (branch,) = others
    if branch.means:
        # Warnings about the norms around the first mean do not apply to the second mean.
        del budget.warnings[n_warnings:]
        near_first = clipped(rows, rows_plan.WIDER * rows.bound)
        shift, mean_std = release_mean(branch.means[0], near_first, budget)
        mean, search = mean + shift, branch.row_norm
        rows = clip_to_norm(raw.centered(mean), search, spec.row_norm, spec, budget)
    # The noise of the center adds an error to the second moment of centered rows.
    decomposition = partial(decompose, center_error=spec.shape[0] * mean_std**2)
    factors = solve_clipped(spec, branch.solver, rows, budget, decomposition)
    return replace(factors, mean=mean, **clipping_facts(search, rows.bound, spec, budget))


def clip_to_norm(
    rows: Rows, search: Search | None, bound: float | None, spec: RowsSpec, budget: PrivacyBudget
) -> Rows:
    """Clip rows to the norm `bound`, or first release a quantile of the norms by `search`."""
    if search is not None:
        rows = rows.measured()
        norms, quantile = rows.counted_norms(search.grid), rows_plan.norm_quantile(search, spec)
        if quantile < 0.5 or spec.center is None:
            # Rows of zeros need no clipping, and would make a quantile 0: they are left out.
            norms = norms.zeros_last()
        bound = budget.quantile(search, norms, q=quantile)
    assert bound is not None
    return clipped(rows, bound)


# A fit reports which fraction of the sum of squares clipping leaves. The fraction is estimated from
# counts of rows with norms between the bound and this multiple of the bound. Longer rows are called
# far, and counted separately.
_NEAR = 5.0  # benchmarks/diagonal_prior/tails.md
# To estimate what clipping removes, a count of rows up to some norm is used only if the fraction of
# such rows is clearly above the quantile at which rows are clipped, and clearly below 1: by more
# than `_CLEAR`, and by more than `_CLEAR_DEVIATIONS` standard deviations of the noise.
_CLEAR_DEVIATIONS, _CLEAR = 4.0, 0.02  # not tuned
# Rows far longer than the clipping norm exist if their count exceeds `_FAR_DEVIATIONS` standard
# deviations of its noise. They are called giants if a gap separates them from other rows: the
# number of rows of medium length is at most `_BETWEEN` times that of giants.
_FAR_DEVIATIONS, _BETWEEN = 3.0, 0.25  # benchmarks/diagonal_prior/tails.md, "A few giant rows"


def clipping_facts(
    search: Search | None, bound: float, spec: RowsSpec, budget: PrivacyBudget
) -> dict[str, Any]:
    """Return the fields of `Factors` about clipping, from counts that the search has released.

    If the clipping norm is at most the median norm, what clipping leaves is not estimated: the fit
    clips most rows on purpose, as the noise of a larger norm would lose more than clipping.
    """
    facts: dict[str, Any] = {"row_norm": float(bound)}
    if search is None:
        return facts
    # By released counts, the fraction `fractions[i]` of the rows has norms up to `points[i]`. If
    # the search left out rows of zeros, these are fractions of the other rows.
    counts, n_rows = budget.search_counts[search.name], budget.n_sought[search.name]
    of_all = n_rows / spec.shape[0]
    points, fractions = np.array(list(counts)), np.array(list(counts.values())) / n_rows
    noise_std, quantile = (search.noise_std or 0.0) / n_rows, rows_plan.norm_quantile(search, spec)
    # If rows of zeros were left out, `n_rows` is a noisy count, too.
    far_std = noise_std * math.sqrt(1 + (of_all < 1))
    is_far = (points > _NEAR * bound) & (1 - fractions > _FAR_DEVIATIONS * far_std)
    # The sum of squares of the rows beyond a norm is at least their number times the squared norm.
    # Far rows begin at the norm where this bound is largest.
    parts, multiples = (1 - fractions) * is_far, points / bound
    begin = int(np.argmax(parts * multiples**2))
    if is_far[begin]:
        facts["far_rows"] = float(of_all * parts[begin]), float(multiples[begin])
    giants = _giants(points, fractions, bound, _FAR_DEVIATIONS * noise_std)
    if giants is not None:
        facts["giants"] = of_all * giants[0], *giants[1:]
    margin = max(_CLEAR_DEVIATIONS * noise_std, _CLEAR)
    is_clear = (points > bound) & (points < _NEAR * bound)
    is_clear &= (fractions > quantile + margin) & (fractions < 1 - margin)
    if quantile > 0.5 and is_clear.any():
        clear_counts = points[is_clear], fractions[is_clear]
        facts["unclipped"] = unclipped_squares(bound, quantile, *clear_counts)
    return facts


def _giants(
    points: np.ndarray, fractions: np.ndarray, bound: float, margin: float
) -> tuple[float, float, float] | None:
    """Return the field `giants` of `Factors`, about rows far longer than all others, or None.

    `fractions` has the fractions of rows whose norms are at most `points`, with noise up to
    `margin`. There are giants if the norms have a gap, a range with few rows, that ends within the
    clipping norm `bound`.
    """
    longer = 1 - fractions
    # Entry (start, end) says whether the norms between these points are a gap: few rows have such
    # norms, compared with the number of longer rows, which exceeds the noise. More than half of the
    # rows have norms up to the start. Less than half have norms up to the least point: most rows
    # are not 0.
    is_gap = fractions - fractions[:, np.newaxis] <= _BETWEEN * longer
    is_gap &= ((fractions > 0.5 + margin) & (fractions.min() < 0.5 - margin))[:, np.newaxis]
    is_gap &= (longer > margin) & (points <= bound)
    widths = np.where(is_gap, points / points[:, np.newaxis], 0.0)
    start, end = np.unravel_index(np.argmax(widths), widths.shape)
    if not widths[start, end] > _NEAR:
        return None
    return float(longer[end]), float(widths[start, end]), float(points[start])


# ------------------------------
# Left factors of a matrix whose rows are protected.

# A released count of rows below this many standard deviations of its noise becomes 0.
_VISIBLE = 3.0  # benchmarks/factorization/rows.md


def solve_projection(
    spec: RowsSpec, plan: rows_plan.RowFactorReleases, raw: Rows, budget: PrivacyBudget
) -> Factors:
    """Release the components, the mean, and the rows projected on the components.

    A solver for rows finds the components V. Then the rows times V are released around their mean,
    clipped to a level c: exchanging a row changes one row of this product, by at most 2 c. The
    noise hides whole rows, and leaves little signal in the coordinates of a row. So the singular
    values of the product are shrunk: where noise hides how rows differ, the shrunk rows are near
    the mean.
    """
    rows = clip_to_norm(raw, plan.row_norm, spec.row_norm, spec, budget)
    factors = solve_clipped(spec, plan.components, rows, budget)
    factors = factors.leading(rank_of(spec))
    basis = factors.components.T
    mean, mean_std = release_mean(plan.mean, rows, budget)
    # The mean is shrunk toward 0, and is 0 if it may be noise alone: the squared length of noise
    # rarely exceeds its expectation by three standard deviations.
    point = basis.T @ mean
    most_noise = (len(point) + 3 * np.sqrt(2 * len(point))) * mean_std**2
    squares = float(point @ point)
    point = point * (max(1 - most_noise / squares, 0.0) if squares > 0 else 0.0)
    projected = rows.map_rows(on_block(partial(_deviations, basis=basis, point=point)))
    level = _release_level(plan, projected, rows, budget)
    released, noise_std = budget.release(plan.projected_rows, clip_rows(projected, level), level)
    left, values, turn = np.linalg.svd(released, full_matrices=False)
    cleaned = denoising.debiased(values, noise_std, released.shape)
    cleaned = denoising.shrunk(cleaned, noise_std, released.shape)
    shrunk = (left * cleaned) @ turn + point
    left, singular_values, turn = np.linalg.svd(shrunk, full_matrices=False)
    signal = np.divide(cleaned, values, out=np.zeros_like(values), where=values > 0)
    return replace(
        factors,
        components=turn @ factors.components,
        eigenvalues=np.square(singular_values),
        left=left,
        left_signal=float(signal.max(initial=0.0)),
        **clipping_facts(plan.row_norm, rows.bound, spec, budget),
    )


def _deviations(block: Any, basis: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Return rows times a basis, minus a public point; null rows become NaN."""
    deviations = block.matmul(basis) - point
    deviations[block.is_null] = np.nan
    return np.asarray(deviations)


def _release_level(
    plan: rows_plan.RowFactorReleases, projected: np.ndarray, rows: Rows, budget: PrivacyBudget
) -> float:
    """Choose the clip level with the least sum of squares that clipping removes or noise hides."""
    if plan.level is None:
        return np.inf
    edges = rows.bound * LEVEL_GRID
    exact = bin_counts(row_norms(projected), edges).astype(float)
    counts, noise_std = budget.release(plan.level, exact)
    visible = np.where(counts > _VISIBLE * noise_std, counts, 0.0)
    # Entry (i, j): norm of a row with norm `LEVEL_GRID[j]` that is clipped to `LEVEL_GRID[i]`.
    kept = np.minimum(LEVEL_GRID[:, np.newaxis], LEVEL_GRID)
    removed, signal = np.square(LEVEL_GRID - kept) @ visible, np.square(kept) @ visible
    change = row_sum(1.0, budget.adjacency)
    std_of_level_1 = budget.cost.noise_std("gaussian", change, plan.projected_rows.share)
    noise = projected.size * np.square(std_of_level_1 * LEVEL_GRID)
    return float(edges[np.argmin(removed + signal * noise / (signal + noise))])
