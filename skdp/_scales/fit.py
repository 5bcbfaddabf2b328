"""From columns to centers and scales: intervals, if they are not public, and moments in them."""

from functools import partial

import numpy as np

from skdp._scales.columns import Intervals, counting, summing
from skdp._scales.plan import CenteredReleases, ScaleReleases, ZoomedReleases
from skdp._scales.shrinkage import Scales, scales_of
from skdp._scales.sizes import N_BINS, place_size, sized_intervals, warnings_for_sizes
from skdp._scales.zoom import are_narrow, are_tiny, place_within, zoomed_intervals
from skdp.data.reduce import BlockView
from skdp.privacy import PrivacyBudget, Release

# Without noise and bounds, larger entries are clipped: their squares would overflow.
_LARGEST = 1e140  # not tuned


def release_scales(
    plan: ScaleReleases,
    view: BlockView,
    shape: tuple[int, int],
    interval: tuple[np.ndarray, np.ndarray] | None,
    budget: PrivacyBudget,
) -> Scales:
    """Release what the plan has, and compute centers and variances from it."""
    n_rows, n_columns = shape
    moments = partial(_release_moments, view=view, n_rows=n_rows, budget=budget)
    if isinstance(plan, Release):
        assert interval is not None
        return moments(plan, Intervals.of(*interval))
    if isinstance(plan, CenteredReleases):
        ones = np.ones(n_columns)
        around = Intervals(0 * ones, ones, _LARGEST)
        rough = moments(plan.rough, around)
        return moments(plan.moments, around._replace(middle=rough.center))
    counts = view.map_sum(counting(place_size, N_BINS), n_columns * N_BINS)
    counts, noise_std = budget.release(plan.sizes, counts)
    intervals, is_void = sized_intervals(counts, noise_std)
    budget.warnings += warnings_for_sizes(plan.sizes.name, intervals)
    others = np.clip(1 - counts[:, 0] / n_rows, 0.0, 1.0)
    alone, zoomed = plan.ways.ways
    if not are_narrow(intervals).any():
        return moments(alone, intervals, is_void, others)
    intervals = _zoomed(zoomed, view, n_rows, intervals, budget)
    return moments(zoomed.moments, intervals, is_void, others)


def _zoomed(
    plan: ZoomedReleases,
    view: BlockView,
    n_rows: int,
    intervals: Intervals,
    budget: PrivacyBudget,
) -> Intervals:
    """Release where the entries of narrow columns lie in their intervals, and shrink these."""
    is_narrow = are_narrow(intervals)
    for places in plan.places:
        if not is_narrow.any():
            budget.skip(places)
            continue
        n_columns, n_bins = places.shape
        kernel = counting(partial(place_within, intervals=intervals, n_bins=n_bins), n_bins)
        # What is counted of the other columns moves nothing: it is left out.
        counts = view.map_sum(kernel, n_columns * n_bins) * is_narrow[:, np.newaxis]
        released = budget.release(places, counts, n_columns=int(is_narrow.sum()))
        before, intervals = intervals, zoomed_intervals(intervals, is_narrow, *released, n_rows)
        # Once more where the bins are too wide to tell how narrow a column is.
        is_narrow = is_narrow & are_tiny(intervals, before, n_bins)
    return intervals


def _release_moments(
    release: Release,
    intervals: Intervals,
    is_void: np.ndarray | None = None,
    others: np.ndarray | None = None,
    *,
    view: BlockView,
    n_rows: int,
    budget: PrivacyBudget,
) -> Scales:
    n_columns = len(intervals.half)
    sums = view.map_sum(summing(intervals), 2 * n_columns)
    moments, noise_std = budget.release(release, sums / n_rows)
    is_void = np.zeros(n_columns, dtype=bool) if is_void is None else is_void
    return scales_of(intervals, moments, noise_std, is_void, others)
