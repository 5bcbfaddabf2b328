"""What a scaler releases, and with which shares, from public facts."""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from skdp.preprocessing._scaler.problem import ScalerProblem
from skdp.preprocessing._scaler.sizes import N_BINS
from skdp.privacy import Release, sensitivity
from skdp.privacy.plan import OneOf

__all__ = ["CenteredReleases", "ScalerReleases", "ZoomedReleases", "plan_scaler"]

# Without bounds: shares of the signed sizes and, if a column needs it, of the places in intervals.
_SIZES_SHARE, _PLACES_SHARE = 3 / 8, 1 / 8  # benchmarks/classification/constants.md
# Bins of an interval, all columns together and one column: more of them cost memory, not privacy.
# Numbers of bins of one column, as powers of two.
_ALL_PLACES, _PLACES = 1 << 22, (6, 14)  # not studied
_SIZES, _MOMENTS = "signed sizes", "column moments"
_UNBOUNDED = ("rough column moments", _MOMENTS)


class CenteredReleases(NamedTuple):
    """Without noise and bounds: the moments around 0, and around the means that these give."""

    rough: Release
    moments: Release


class ZoomedReleases(NamedTuple):
    """Where a column may be far from 0 beside its width: places come first."""

    places: Release
    moments: Release


class ScalerReleases(NamedTuple):
    """What a fit without bounds releases, in this order."""

    sizes: Release
    ways: OneOf  # the moments alone, or a `ZoomedReleases`


def plan_scaler(problem: ScalerProblem) -> Release | CenteredReleases | ScalerReleases:
    """Plan all releases in their order; with bounds it is one."""
    if problem.interval is not None:
        return _plan_moments(problem, 1.0)
    if not problem.cost.is_private:
        any_change, shape = partial(float, math.inf), (2, problem.n_features)
        return CenteredReleases(
            *(
                problem.cost.release(name, "gaussian", 0.5, any_change, {}, shape=shape)
                for name in _UNBOUNDED
            )
        )
    rest = 1 - _SIZES_SHARE
    bins = partial(sensitivity.histograms, problem.n_features, problem.unit.adjacency)
    shape = (problem.n_features, N_BINS)
    sizes = problem.cost.release(_SIZES, "gaussian", _SIZES_SHARE, bins, {}, shape=shape)
    zoomed = ZoomedReleases(_plan_places(problem), _plan_moments(problem, rest - _PLACES_SHARE))
    return ScalerReleases(sizes, OneOf((_plan_moments(problem, rest), zoomed)))


def _plan_moments(problem: ScalerProblem, share: float) -> Release:
    """Plan the mean of each column and of its square, in its interval."""
    change = partial(
        _moment_change,
        n_rows=problem.n_units,
        n_columns=problem.n_features,
        adjacency=problem.unit.adjacency,
    )
    known, shape = {"rounding": problem.rounding}, (2, problem.n_features)
    return problem.cost.release(_MOMENTS, "gaussian", share, change, known, shape=shape)


def _plan_places(problem: ScalerProblem) -> Release:
    """Plan a histogram of equal bins for the columns that are zoomed; the others count nothing."""
    change = partial(sensitivity.histograms, adjacency=problem.unit.adjacency)
    most = _ALL_PLACES // problem.n_features
    n_bins = 1 << int(np.clip(most.bit_length() - 1, *_PLACES))
    shape = (problem.n_features, n_bins)
    return problem.cost.release(
        "places in intervals", "gaussian", _PLACES_SHARE, change, follows=_SIZES, shape=shape
    )


def _moment_change(rounding: float, *, n_rows: int, n_columns: int, adjacency: str) -> float:
    return sensitivity.column_moments(n_columns, adjacency, rounding) / n_rows
