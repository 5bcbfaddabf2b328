"""From rows to centers and scales: intervals, if they are not public, and moments in them."""

from functools import partial

import numpy as np

from skdp.data.rows import Rows
from skdp.preprocessing._scaler.columns import Intervals, counting, summing
from skdp.preprocessing._scaler.plan import CenteredReleases, ScalerReleases, ZoomedReleases
from skdp.preprocessing._scaler.problem import ScalerProblem
from skdp.preprocessing._scaler.shrinkage import Scales, scales_of
from skdp.preprocessing._scaler.sizes import N_BINS, place_size, sized_intervals
from skdp.preprocessing._scaler.zoom import are_narrow, place_within, zoomed_intervals
from skdp.privacy import PrivacyBudget, Release

__all__ = ["solve_scaler"]

# Without noise and bounds, larger entries are clipped: their squares would overflow.
_LARGEST = 1e140  # not tuned


def solve_scaler(
    problem: ScalerProblem,
    plan: Release | CenteredReleases | ScalerReleases,
    rows: Rows,
    budget: PrivacyBudget,
) -> Scales:
    """Release what the plan has, and compute centers and variances from it."""
    none = np.zeros(rows.n_features, dtype=bool)
    if isinstance(plan, Release):
        assert problem.interval is not None
        return _release_scales(plan, rows, Intervals.of(*problem.interval), none, budget)
    if isinstance(plan, CenteredReleases):
        ones = np.ones(rows.n_features)
        around = Intervals(0 * ones, ones, _LARGEST)
        rough = _release_scales(plan.rough, rows, around, none, budget)
        around = around._replace(middle=rough.center)
        return _release_scales(plan.moments, rows, around, none, budget)
    counts = rows.map_sum(counting(place_size, N_BINS), rows.n_features * N_BINS)
    intervals, is_void = sized_intervals(*budget.release(plan.sizes, counts))
    alone, zoomed = plan.ways.ways
    is_narrow = are_narrow(intervals)
    if not is_narrow.any():
        return _release_scales(alone, rows, intervals, is_void, budget)
    intervals = _zoom(zoomed, rows, intervals, is_narrow, budget)
    return _release_scales(zoomed.moments, rows, intervals, is_void, budget)


def _zoom(
    plan: ZoomedReleases,
    rows: Rows,
    intervals: Intervals,
    is_narrow: np.ndarray,
    budget: PrivacyBudget,
) -> Intervals:
    """Release where the entries of narrow columns lie in their intervals, and shrink these."""
    n_columns, n_bins = plan.places.shape
    kernel = counting(partial(place_within, intervals=intervals, n_bins=n_bins), n_bins)
    # What is counted of the other columns moves nothing: it is left out.
    counts = rows.map_sum(kernel, n_columns * n_bins) * is_narrow[:, np.newaxis]
    released = budget.release(plan.places, counts, n_columns=int(is_narrow.sum()))
    return zoomed_intervals(intervals, is_narrow, *released, rows.n_rows)


def _release_scales(
    release: Release, rows: Rows, intervals: Intervals, is_void: np.ndarray, budget: PrivacyBudget
) -> Scales:
    sums = rows.map_sum(summing(intervals), 2 * rows.n_features)
    moments, noise_std = budget.release(release, sums / rows.n_rows)
    return scales_of(intervals, moments, noise_std, is_void)
