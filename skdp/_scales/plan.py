"""What centers and scales of columns take: releases and their shares, from public facts."""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from skdp._scales.sizes import N_BINS
from skdp.privacy import Release, sensitivity
from skdp.privacy.plan import OneOf, PrivacyCost
from skdp.units._resolved import ResolvedUnit

# Bins of an interval, all columns together: more would cost memory. Numbers of bins of one column,
# as powers of two.
_ALL_PLACES, _PLACES = 1 << 22, (6, 14)  # not studied
# Noise of many bins together hides where most rows are. Where a closer look follows there are only
# so many, times the square of the rows beside the noise of one bin:
# benchmarks/trace_regression/scales.md.
_CLEAR = 0.1
#: Noise of a mean from here on, in units of half an interval, hides most centers and scales.
MOST_NOISE = 0.1  # not studied
_SIZES, _MOMENTS, _PLACED = "signed sizes", "column moments", "places in intervals"
_UNBOUNDED = ("rough column moments", _MOMENTS)


@dataclass(frozen=True, kw_only=True)
class ScaleProblem:
    """Public facts of columns whose centers and scales are asked for."""

    cost: PrivacyCost
    unit: ResolvedUnit
    n_units: int
    n_features: int
    rounding: float  # bound for a sum of rows, in units of the largest contribution
    interval: tuple[np.ndarray, np.ndarray] | None  # public ends of each column, or None


class CenteredReleases(NamedTuple):
    """Without noise and bounds: the moments around 0, and around the means that these give."""

    rough: Release
    moments: Release


class ZoomedReleases(NamedTuple):
    """Where a column may be far from 0 beside its width: places come first."""

    places: tuple[Release, ...]
    moments: Release


class SizedReleases(NamedTuple):
    """What a fit without bounds releases, in this order."""

    sizes: Release
    ways: OneOf  # the moments alone, or a `ZoomedReleases`


#: Releases of scales; with bounds it is one.
ScaleReleases = Release | CenteredReleases | SizedReleases


def plan_scales(
    problem: ScaleProblem,
    *,
    sizes: float,
    places: tuple[float, ...],
    moments: float,
) -> ScaleReleases:
    """Plan all releases in their order; those of places take their shares from the moments."""
    if problem.interval is not None:
        return _plan_moments(problem, moments)
    if not problem.cost.is_private:
        any_change, shape = partial(float, math.inf), (2, problem.n_features)
        return CenteredReleases(
            *(
                problem.cost.release(name, "gaussian", moments / 2, any_change, {}, shape=shape)
                for name in _UNBOUNDED
            )
        )
    bins = partial(sensitivity.histograms, problem.n_features, problem.unit.adjacency)
    shape = (problem.n_features, N_BINS)
    zoomed = ZoomedReleases(
        _plan_places(problem, places), _plan_moments(problem, moments - sum(places))
    )
    return SizedReleases(
        problem.cost.release(_SIZES, "gaussian", sizes, bins, {}, shape=shape),
        OneOf((_plan_moments(problem, moments), zoomed)),
    )


def _plan_moments(problem: ScaleProblem, share: float) -> Release:
    """Plan the mean of each column and of its square, in its interval."""
    change = partial(
        _moment_change,
        n_rows=problem.n_units,
        n_columns=problem.n_features,
        adjacency=problem.unit.adjacency,
    )
    known, shape = {"rounding": problem.rounding}, (2, problem.n_features)
    return problem.cost.release(_MOMENTS, "gaussian", share, change, known, shape=shape)


def _plan_places(problem: ScaleProblem, shares: tuple[float, ...]) -> tuple[Release, ...]:
    """Plan histograms of equal bins for the columns that are zoomed; the others count nothing."""
    change = partial(sensitivity.histograms, adjacency=problem.unit.adjacency)
    releases: list[Release] = []
    for number, share in enumerate(shares):
        most = _ALL_PLACES / problem.n_features
        if number + 1 < len(shares):
            noise_std = problem.cost.noise_std("gaussian", change(problem.n_features), share)
            most = min(most, _CLEAR * (problem.n_units / noise_std) ** 2)
        shape = problem.n_features, 1 << int(np.clip(math.log2(most), *_PLACES))
        name = f"closer {_PLACED}" if number else _PLACED
        follows = releases[-1].name if releases else _SIZES
        releases.append(
            problem.cost.release(
                name,
                "gaussian",
                share,
                change,
                follows=follows,
                shape=shape,
                may_be_skipped=number > 0,
            )
        )
    return tuple(releases)


def _moment_change(rounding: float, *, n_rows: int, n_columns: int, adjacency: str) -> float:
    return sensitivity.column_moments(n_columns, adjacency, rounding) / n_rows
