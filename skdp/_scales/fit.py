"""From columns to centers and scales: intervals, if they are not public, and moments in them."""

from functools import partial

import numpy as np

from skdp._scales.columns import Intervals, counting, summing
from skdp._scales.plan import CenteredReleases, ScaleReleases, ZoomedReleases
from skdp._scales.shrinkage import Scales, scales_of
from skdp._scales.sizes import N_BINS, place_size, sized_intervals
from skdp._scales.zoom import are_narrow, are_tiny, place_within, zoomed_intervals
from skdp.data.reduce import BlockView
from skdp.privacy import PrivacyBudget, Release

__all__ = ["release_scales"]

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
    none = np.zeros(n_columns, dtype=bool)
    if isinstance(plan, Release):
        assert interval is not None
        found = moments(plan, Intervals.of(*interval), none)
        half = (interval[1]-interval[0])/2
        m = np.clip((found.center - interval[0])/half - 1, -1, 1)
        two = found.variance/half**2 > .5*(1-m**2)
        return found._replace(others=np.where(two, (1-np.abs(m))/2, 1.0))
    if isinstance(plan, CenteredReleases):
        ones = np.ones(n_columns)
        around = Intervals(0 * ones, ones, _LARGEST)
        rough = moments(plan.rough, around, none)
        return moments(plan.moments, around._replace(middle=rough.center), none)
    counts = view.map_sum(counting(place_size, N_BINS), n_columns * N_BINS)
    released = budget.release(plan.sizes, counts)
    intervals, is_void = sized_intervals(*released)
    others = np.clip(1 - released[0][:, 0] / n_rows, 0, 1)
    alone, zoomed = plan.ways.ways
    if not are_narrow(intervals).any():
        return moments(alone, intervals, is_void)._replace(others=others)
    intervals = _zoomed(zoomed, view, n_rows, intervals, budget)
    return moments(zoomed.moments, intervals, is_void)._replace(others=others)


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
    is_void: np.ndarray,
    *,
    view: BlockView,
    n_rows: int,
    budget: PrivacyBudget,
) -> Scales:
    sums = view.map_sum(summing(intervals), 2 * len(is_void))
    moments, noise_std = budget.release(release, sums / n_rows)
    return scales_of(intervals, moments, noise_std, is_void)
