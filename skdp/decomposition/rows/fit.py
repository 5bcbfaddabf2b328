"""Fits that protect rows: clip the rows, release the mean, run a solver, and factorize X."""

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
    """Read all rows once; return their view, with sums for the first releases, and their hash."""
    rows, bound = raw, rows_plan.bound_of_mean(spec)
    if isinstance(spec.center, np.ndarray):
        rows = raw.centered(spec.center)
    # With a public bound for the mean, this pass also sums the clipped rows.
    first = None
    if spec.releases_mean and not isinstance(bound, str):
        first = bound, weighting_to(bound, raw.n_features)
    is_guided = bool(spec.guided_solvers)
    return open_rows(rows, is_seeded=is_seeded, needs_signs=is_guided, first=first, grid=SCALE_GRID)


def solve_rows(
    spec: RowsSpec,
    plan: rows_plan.RowReleases,
    raw: Rows,
    budget: PrivacyBudget,
    generator: np.random.Generator,
) -> Factors:
    """Release norms, means and factors; for mostly positive rows, the mean guides the solver."""
    if plan.center is not None:
        return _solve_centered(spec, plan, plan.center, raw, budget, generator)
    rows = clip_to_norm(raw, plan.row_norm, spec.row_norm, spec, budget)
    facts = clipping_facts(plan.row_norm, rows.bound, spec, budget)
    usual, *guided = plan.branches.branches
    if not usual.means:
        mean = spec.center if isinstance(spec.center, np.ndarray) else np.zeros(raw.n_features)
        factors = solve_clipped(spec, usual.solver, rows, budget, generator)
        return replace(factors, mean=mean, **facts)
    for_mean = rows if spec.mean_norm is None else clipped(raw, spec.mean_norm)
    if plan.positivity is not None and passes_positivity_test(plan.positivity, raw, budget):
        factors = solve_guided(spec, guided, rows, for_mean, budget, generator)
        return replace(factors, **facts)
    mean, noise_std = release_mean(usual.means[0], for_mean, budget)
    factors = solve_clipped(spec, usual.solver, rows, budget, generator)
    return replace(factors, mean=mean, mean_noise_variance=noise_std**2, **facts)


def _solve_centered(
    spec: RowsSpec,
    plan: rows_plan.RowReleases,
    center: Release,
    raw: Rows,
    budget: PrivacyBudget,
    generator: np.random.Generator,
) -> Factors:
    """Release a center, again if its noise is large, and the factors of centered rows."""
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
        wider = clipped(rows, rows_plan.WIDER * rows.bound)
        shift, mean_std = release_mean(branch.means[0], wider, budget)
        mean, search = mean + shift, branch.row_norm
        rows = clip_to_norm(raw.centered(mean), search, spec.row_norm, spec, budget)
    # The noise of the center adds an error to the second moment of centered rows.
    decomposition = partial(decompose, center_error=spec.shape[0] * mean_std**2)
    factors = solve_clipped(spec, branch.solver, rows, budget, generator, decomposition)
    return replace(factors, mean=mean, **clipping_facts(search, rows.bound, spec, budget))


def clip_to_norm(
    rows: Rows, search: Search | None, bound: float | None, spec: RowsSpec, budget: PrivacyBudget
) -> Rows:
    """Clip rows to the norm `bound`, or to a quantile of norms that is released first."""
    if search is not None:
        rows = rows.measured()
        norms, q = rows.counted_norms(search.grid), rows_plan.norm_quantile(search, spec)
        # Rows of zeros need no clipping, and many rows of zeros would make a low quantile 0.
        norms = norms.zeros_last() if q < 0.5 else norms
        bound = budget.quantile(search, norms, q=q)
    assert bound is not None
    return clipped(rows, bound)


# Counts of rows between the bound and this multiple of the bound estimate the part of the sum of
# squares that clipping leaves. Longer rows are *far*, and counted apart.
_NEAR = 5.0  # benchmarks/diagonal_prior/tails.md
# A count is used only if its fraction of the rows differs from 1 and from the quantile by this many
# standard deviations of its noise, and by the second number.
_CLEAR_DEVIATIONS, _CLEAR = 4.0, 0.02  # not tuned
# There are far rows if their count exceeds this many standard deviations of its noise. Far rows are
# *giants* if the rows of medium length are at most this part of their number, so that the lengths
# have a gap and no long tail.
_FAR_DEVIATIONS, _BETWEEN = 2.5, 0.25  # benchmarks/diagonal_prior/tails.md, "A few giant rows"


def clipping_facts(
    search: Search | None, bound: float, spec: RowsSpec, budget: PrivacyBudget
) -> dict[str, Any]:
    """Estimate what clipping leaves of the sum of squares, and how many rows are far, from counts.

    At a quantile up to the median, the part that clipping leaves is not estimated: the fit clips
    most rows on purpose, as noise would lose more than clipping.
    """
    found: dict[str, Any] = {"row_norm": float(bound)}
    if search is None:
        return found
    counted, n_rows = budget.search_counts[search.name], spec.shape[0]
    points, fractions = np.array(list(counted)), np.array(list(counted.values())) / n_rows
    noise, q = (search.noise_std or 0.0) / n_rows, rows_plan.norm_quantile(search, spec)
    is_far = (points > _NEAR * bound) & (1 - fractions > _FAR_DEVIATIONS * noise)
    # Far rows begin at the point where the count of longer rows times the squared norm is largest.
    parts, multiples = (1 - fractions) * is_far, points / bound
    begin = int(np.argmax(parts * multiples**2))
    if is_far[begin]:
        found["far_rows"] = float(parts[begin]), float(multiples[begin])
    found["giants"] = _giants(points, fractions, bound, _FAR_DEVIATIONS * noise)
    margin = max(_CLEAR_DEVIATIONS * noise, _CLEAR)
    is_clear = (points > bound) & (points < _NEAR * bound)
    is_clear &= (fractions > q + margin) & (fractions < 1 - margin)
    if q > 0.5 and is_clear.any():
        found["unclipped"] = unclipped_squares(bound, q, points[is_clear], fractions[is_clear])
    return found


def _giants(
    points: np.ndarray, fractions: np.ndarray, bound: float, margin: float
) -> tuple[float, float, float] | None:
    """Return the part of rows that are giants, or None if no gap of norms ends within the bound.

    Return also how many times as long as all other rows the giants are, and a norm that the other
    rows do not exceed. The other rows are more than half of all rows, and most of them are not 0,
    as half of all rows exceed the least point.
    """
    longer = 1 - fractions
    # Entry (start, end): rows between these points are few relative to those beyond the end, which
    # are more than noise. More than half of the rows are below the start, and less than half
    # below the least point.
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

# A count of rows below this many standard deviations of its noise becomes 0.
_VISIBLE = 3.0  # benchmarks/factorization/rows.md


def solve_projection(
    spec: RowsSpec,
    plan: rows_plan.RowFactorReleases,
    raw: Rows,
    budget: PrivacyBudget,
    generator: np.random.Generator,
) -> Factors:
    """Release the components, the mean, and the rows projected on the components.

    A solver for rows finds the components V. Then the rows times V are released around their mean,
    clipped to a level c: exchanging a row changes one row of this product, by at most 2 c. The
    noise hides whole rows, and leaves little signal in the coordinates of a row. So the singular
    values of the product are shrunk, and where noise hides how rows differ, all are near the mean.
    """
    rows = clip_to_norm(raw, plan.row_norm, spec.row_norm, spec, budget)
    factors = solve_clipped(spec, plan.components, rows, budget, generator)
    factors = factors.leading(rank_of(spec))
    basis = factors.components.T
    mean, mean_std = release_mean(plan.mean, rows, budget)
    point = _above_noise(basis.T @ mean, mean_std)
    projected = rows.map_rows(on_block(partial(_deviations, basis=basis, point=point)))
    level = _release_level(plan, projected, rows, budget)
    released, noise_std = budget.release(plan.projected_rows, clip_rows(projected, level), level)
    left, values, turn = np.linalg.svd(released, full_matrices=False)
    cleaned = denoising.debiased(values, noise_std, released.shape)
    cleaned = denoising.shrunk(cleaned, noise_std, released.shape)
    left, singular_values, turn = np.linalg.svd(
        (left * cleaned) @ turn + point, full_matrices=False
    )
    signal = np.divide(cleaned, values, out=np.zeros_like(values), where=values > 0)
    return replace(
        factors,
        components=turn @ factors.components,
        eigenvalues=np.square(singular_values),
        left=left,
        left_signal=float(signal.max(initial=0.0)),
        **clipping_facts(plan.row_norm, rows.bound, spec, budget),
    )


def _above_noise(vector: np.ndarray, noise_std: float) -> np.ndarray:
    """Shrink a noisy vector toward 0; where noise alone might give it, it becomes 0."""
    of_noise = (len(vector) + 3 * np.sqrt(2 * len(vector))) * noise_std**2
    squares = float(vector @ vector)
    return vector * (max(1 - of_noise / squares, 0.0) if squares > 0 else 0.0)


def _deviations(block: Any, basis: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Return rows times a basis, minus a public point; null rows are NaN."""
    found = block.matmul(basis) - point
    found[block.is_null] = np.nan
    return np.asarray(found)


def _release_level(
    plan: rows_plan.RowFactorReleases, projected: np.ndarray, rows: Rows, budget: PrivacyBudget
) -> float:
    """Choose the level to which rows are clipped: released counts show what cut and noise lose."""
    if plan.level is None:
        return np.inf
    edges = rows.bound * LEVEL_GRID
    counts, std = budget.release(plan.level, bin_counts(row_norms(projected), edges).astype(float))
    visible = np.where(counts > _VISIBLE * std, counts, 0.0)
    kept = np.minimum(LEVEL_GRID[:, np.newaxis], LEVEL_GRID)
    lost, signal = np.square(LEVEL_GRID - kept) @ visible, np.square(kept) @ visible
    release = plan.projected_rows
    change = row_sum(1.0, budget.adjacency)
    of_one = budget.cost.noise_std("gaussian", change, release.share)
    noise = projected.size * np.square(of_one * LEVEL_GRID)
    return float(edges[np.argmin(lost + signal * noise / (signal + noise))])
