"""Private centers and scales of columns: what is released, and what follows from it."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from skdp.data.matrices import entries_of
from skdp.data.reduce import BlockView, Kernel, on_block
from skdp.data.rows import Block
from skdp.exceptions import shortened
from skdp.linalg.matrices import DenseMatrices
from skdp.privacy import PrivacyBudget, Release, sensitivity
from skdp.privacy.clipping import NO_CLIPPING, SMALLEST_BOUND
from skdp.privacy.plan import OneOf, PrivacyCost
from skdp.privacy.releases import warnings_for_ends
from skdp.units import ResolvedUnit

# ------------------------------
# Public intervals of columns, checked.


def _ends_of(bounds: Any, n_features: int, names: Sequence[Any] | None) -> tuple[Any, Any]:
    """Read bounds as all lower and all upper ends, in the one way in which they can be read."""
    pairs = in_order(bounds, names) if isinstance(bounds, Mapping) else _pairs(bounds, n_features)
    if pairs is None:
        pairs = [bounds]
    elif len(pairs) != n_features:
        pairs = [()]
    if not all(map(_is_pair, pairs)):
        raise ValueError(_wanted(bounds, n_features))
    low, high = pairs[0] if pairs[0] is bounds else zip(*pairs, strict=True)
    return low, high


def _pairs(bounds: Any, n_features: int) -> list[Any] | None:
    """Return a pair of ends for each column, if it is that what bounds are."""
    if isinstance(bounds, list) and bounds and all(isinstance(one, tuple) for one in bounds):
        return bounds
    shape: tuple[int, ...] = ()
    with suppress(TypeError, ValueError):
        shape = np.shape(bounds)
    if isinstance(bounds, tuple) or shape != (n_features, 2):
        return None
    if n_features == 2:
        raise ValueError(
            f"bounds={bounds!r} can be read two ways, by columns and by ends: pass the tuple "
            "(low, high) of all lower and all upper ends, or a dict of the names of columns, as "
            "{'age': (18, 90), ...}; a list of tuples (low, high) goes by columns, too."
        )
    return [tuple(one) for one in bounds]


def in_order(bounds: Mapping[Any, Any], names: Sequence[Any] | None) -> list[Any]:
    """Put bounds in the order of the columns; refuse names that are missing or unknown."""
    if names is None:
        raise ValueError(
            "bounds names columns, but X has no names, or a step before makes other columns: pass "
            "a data frame, as like of a plan, too, or a list of pairs (low, high) in the order of "
            "the columns."
        )
    if len(set(names)) < len(names):
        twice = shortened([str(name) for name, n in Counter(names).items() if n > 1])
        raise ValueError(f"bounds names columns, and X has several of one name: {twice}.")
    missing = [str(name) for name in names if name not in bounds]
    unknown = [str(name) for name in bounds if name not in names]
    if missing or unknown:
        raise ValueError(
            f"bounds must name the columns of X: missing are {shortened(missing) or 'none'}, "
            f"unknown are {shortened(unknown) or 'none'}."
        )
    return [tuple(one) if isinstance(one := bounds[name], list) else one for name in names]


def _is_pair(ends: Any) -> bool:
    return isinstance(ends, tuple | list | np.ndarray) and len(ends) == 2


def checked_interval(
    bounds: Any, n_features: int, names: Sequence[Any] | None
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the lower and the upper bounds of all columns; refuse unusable ones. None stays."""
    if bounds is None:
        return None
    ends = _ends_of(bounds, n_features, names)
    low, high = (_checked_end(end, bounds, n_features) for end in ends)
    least, most = SMALLEST_BOUND, NO_CLIPPING
    if not ((np.abs(low) <= most) & (np.abs(high) <= most)).all():
        raise ValueError(f"bounds={bounds!r} must not exceed {most:g} in size.")
    if not (high - low >= least).all():
        raise ValueError(
            f"bounds={bounds!r} must be (low, high), with low below high by at least {least:g} in "
            "every column."
        )
    return low, high


def _checked_end(end: Any, bounds: Any, n_features: int) -> np.ndarray:
    """Return one bound for each column, from a number or from one for each."""
    try:
        # Strings of digits, and complex numbers, are no numbers here.
        is_number = np.asarray(end).dtype.kind in "iufO"
        values = np.asarray(end if is_number else np.nan, np.float64)
    except (TypeError, ValueError, OverflowError):
        values = np.full((), np.nan)
    if np.isnan(values).any():
        raise ValueError(_wanted(bounds, n_features))
    if values.shape not in ((), (n_features,)):
        raise ValueError(
            f"bounds has an end of shape {values.shape}, but X has {n_features} features: pass a "
            "number, or one for each feature."
        )
    return np.broadcast_to(values, (n_features,)).astype(np.float64)


def _wanted(bounds: Any, n_features: int) -> str:
    return (
        f"bounds={bounds!r} must be None, or (low, high): numbers, or arrays with one for each "
        f"feature; or have a pair (low, high) for each of {n_features} features, in a list or by "
        "their names. They must be known without looking at X."
    )


# ------------------------------
# Kernels: what a block of rows, dense or sparse, adds to statistics of its columns.

# Numbers of a step that should stay in cache, 64 kB.
_PART = 1 << 13  # not studied

#: Maps numbers and their columns to bins; NaN may go to any bin.
Place = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Intervals(NamedTuple):
    """Where columns lie: entries become ``t = (x - middle) / half``, clipped to size `largest`."""

    middle: np.ndarray
    half: np.ndarray
    largest: float = 1.0

    @property
    def shift(self) -> float:
        """What is taken off squares: their middle, or nothing where all must stay exact."""
        return 0.5 if self.largest == 1 else 0.0

    @classmethod
    def of(cls, low: np.ndarray, high: np.ndarray) -> "Intervals":
        """Make intervals from their ends."""
        return cls(low + (high - low) / 2, (high - low) / 2)

    def units(self, values: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Turn entries into t; NaN stays."""
        units = values - self.middle[columns]
        units /= self.half[columns]
        return np.clip(units, -self.largest, self.largest, out=units)


def counting(place: Place, n_bins: int) -> Kernel:
    """Make a kernel that counts the entries of each column by bin: (n_columns, n_bins) numbers.

    A null row has NaN in all entries, and an entry of NaN adds nothing. The zeros that a sparse
    block does not store count like any others. Both hold for `summing`, too.
    """
    return on_block(partial(_counts, place=place, n_bins=n_bins))


def summing(intervals: Intervals, presence: float = 0.0) -> Kernel:
    """Make a kernel that sums t and t^2 - s of each column: (2, n_columns) numbers.

    With a `presence` there is a third row, to which each number that is not missing adds it.
    """
    return on_block(partial(_sums, intervals=intervals, presence=presence))


def _counts(block: Block | DenseMatrices, place: Place, n_bins: int) -> np.ndarray:
    values, columns, n_zeros, mass = _entries(block)
    n_columns, is_missing = len(n_zeros), np.isnan(values)
    places = place(values, columns)
    places += n_bins * columns
    if is_missing.any():
        places = places[~is_missing]
    weights = None
    if mass is not None:
        weights = np.broadcast_to(mass, values.shape)[~is_missing]
    # Whole numbers stay so: converting many bins would take longer than counting.
    counts = np.bincount(places.ravel(), weights, n_columns * n_bins)
    every = np.arange(n_columns)
    counts[place(np.zeros(n_columns), every) + n_bins * every] += n_zeros
    return counts.reshape(n_columns, n_bins)


def _sums(block: Block | DenseMatrices, intervals: Intervals, presence: float) -> np.ndarray:
    values, columns, n_zeros, mass = _entries(block)
    every = np.arange(len(n_zeros))
    of_zeros = n_zeros * np.stack(_terms(np.zeros(len(every)), every, intervals, presence))
    if values.ndim == 1:
        terms = _terms(values, columns, intervals, presence, mass)
        return np.stack([np.bincount(columns, term, len(every)) for term in terms]) + of_zeros
    # Part by part, in cache: larger arrays would come from the system, which has to clear them.
    for first in range(0, len(values), step := max(_PART // len(every), 1)):
        part = slice(first, first + step)
        of_part = None if mass is None else mass[part]
        terms = _terms(values[part], columns, intervals, presence, of_part)
        of_zeros += np.stack([term.sum(axis=0) for term in terms])
    return of_zeros


def _terms(
    values: np.ndarray,
    columns: np.ndarray,
    intervals: Intervals,
    presence: float,
    mass: np.ndarray | None = None,
) -> list[np.ndarray]:
    """Return what each entry adds to the sums of its column; NaN adds nothing to any."""
    units = intervals.units(values, columns)
    squares = np.square(units)
    squares -= intervals.shift
    terms = [units, squares, *[np.full(units.shape, presence)] * bool(presence)]
    is_missing = np.isnan(units)
    for term in terms if is_missing.any() else ():
        term[is_missing] = 0.0
    return terms if mass is None else [mass * term for term in terms]


def _entries(
    block: Block | DenseMatrices,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Return the stored entries, their columns, and how many zeros each column has beside them.

    Last is what each entry counts, if the rows of a person count once together.
    """
    raw: Any = entries_of(block) if isinstance(block, DenseMatrices) else block.raw
    mass = getattr(block, "mass", None)
    n_rows, n_columns = raw.shape
    if not issparse(raw):
        mass = None if mass is None else mass[:, np.newaxis]
        return np.asarray(raw, np.float64), np.arange(n_columns), np.zeros(n_columns, np.intp), mass
    of_entries = None if mass is None else np.repeat(mass, np.diff(raw.indptr))
    n_stored = np.bincount(raw.indices, of_entries, n_columns)
    n_zeros = (n_rows if mass is None else mass.sum()) - n_stored
    return raw.data.astype(np.float64), raw.indices.astype(np.intp), n_zeros, of_entries


# ------------------------------
# Intervals of columns in unknown units, from a released histogram of signs and powers of two.

OTHER_UNITS_OF_X = "Pass X in other units: divide it by a public guess of its size."

# Powers of two from 1e-12 to 1e18.
_FIRST, _LAST = -40, 60  # not studied
_N_POWERS = _LAST - _FIRST + 1  # not tuned
#: Bins of a column: 0, the positive powers, and the negative ones.
N_BINS = 2 * _N_POWERS + 1  # not tuned
# Noise alone makes a bin visible in one of so many histograms.
_CAUTION = 20  # not studied


def _ends() -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and the highest number of each bin.

    The smallest bins begin at 0, as smaller numbers go there. Larger numbers than the last bins
    hold are clipped to them.
    """
    powers = 2.0 ** np.arange(_FIRST, _LAST + 2)
    near, far = np.append(0.0, powers[1:-1]), powers[1:]
    return np.concatenate([[0.0], near, -far]), np.concatenate([[0.0], far, -near])


# The bin of each sign and exponent, which are the first twelve bits of a number. Those of negative
# numbers are shifted to negative ones, which count from the end.
_POWERS = np.clip(np.arange(1 << 11) - 1023, _FIRST, _LAST) - _FIRST  # not tuned
_BIN_OF = np.concatenate([1 + _POWERS, 1 + _POWERS + _N_POWERS])  # not tuned


def place_size(values: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the bin of each number by its sign and power of two; NaN gets any bin."""
    places = _BIN_OF.take(values.view(np.int64) >> 52)
    places[values == 0] = 0
    return places


def is_visible(counts: np.ndarray, noise_std: float, n_columns: int = 1) -> np.ndarray:
    """Tell which counts noise alone hardly reaches, in `n_columns` such histograms."""
    return counts > noise_std * math.sqrt(2 * math.log(_CAUTION * counts.size * n_columns))


def sized_intervals(counts: np.ndarray, noise_std: float) -> tuple[Intervals, np.ndarray]:
    """Find an interval for each column, and the columns that show nothing but 0.

    An interval is the hull of all visible bins. If noise hides all bins of a column but that of 0,
    the column takes the hull, with 0, of the average of all such columns, which has less noise.
    """
    visible = is_visible(counts, noise_std)
    is_hidden = ~visible[:, 1:].any(axis=1)
    if is_hidden.any():
        pooled = counts[is_hidden].mean(axis=0, keepdims=True)
        visible[is_hidden] = is_visible(pooled, noise_std / math.sqrt(is_hidden.sum()))
        visible[is_hidden, 0] = True
    lowest, highest = _ends()
    low = np.where(visible, lowest, np.inf).min(axis=1)
    high = np.where(visible, highest, -np.inf).max(axis=1)
    # Such columns show nothing but 0: any interval will do.
    is_void = high <= low
    return Intervals.of(low, np.where(is_void, 1.0, high)), is_void


def warnings_for_sizes(name: str, intervals: Intervals) -> list[str]:
    """Warn of columns that reach the first or the last bin, beyond which sizes are unknown."""
    far = np.abs(intervals.middle) + intervals.half
    ends = 2.0 ** np.array([_FIRST + 1, _LAST + 1])
    return warnings_for_ends(name, far, ends, OTHER_UNITS_OF_X)


# ------------------------------
# The plan: releases and their shares, from public facts.

# Largest number of bins of all columns together, for the memory; and limits of the number of bins
# of one column, as powers of two.
_ALL_PLACES, _PLACES = 1 << 22, (6, 14)  # not studied
# The joint noise of too many bins hides where most rows are. They are at most so many times the
# squared ratio of the rows to the noise of one bin: benchmarks/trace_regression/scales.md.
_CLEAR = 0.1
#: Looks at narrow columns; each shrinks their intervals: benchmarks/trace_regression/looks.md.
N_LOOKS = 5
# What a number that is not missing adds to the count beside the moments of its column. A larger
# one makes the count more exact, but the sensitivity for zero_out larger.
_PRESENCE = 0.5  # not studied
#: Larger noise of a mean, in units of half an interval, hides most centers and scales.
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
    has_gaps: bool = False  # whether entries may be missing, and are then counted
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
    problem: ScaleProblem, *, sizes: float, places: float, moments: float
) -> ScaleReleases:
    """Plan all releases in their order; those of places take their share from the moments."""
    if problem.interval is not None:
        return _plan_moments(problem, moments)
    if not problem.cost.is_private:
        any_change, shape = partial(float, math.inf), (2 + problem.has_gaps, problem.n_features)
        releases = (
            problem.cost.release(name, "gaussian", moments / 2, any_change, {}, shape=shape)
            for name in _UNBOUNDED
        )
        return CenteredReleases(*releases)
    bins = partial(sensitivity.histograms, problem.n_features, problem.unit.adjacency)
    shape = (problem.n_features, N_BINS)
    first = problem.cost.release(_SIZES, "gaussian", sizes, bins, {}, shape=shape)
    closer, left = _plan_places(problem, places / N_LOOKS), moments - places
    zoomed = ZoomedReleases(closer, _plan_moments(problem, left))
    return SizedReleases(first, OneOf((_plan_moments(problem, moments), zoomed)))


def _plan_moments(problem: ScaleProblem, share: float) -> Release:
    """Plan the mean of each column and of its square, in its interval."""
    change = partial(_moment_change, problem=problem)
    known, shape = {"rounding": problem.rounding}, (2 + problem.has_gaps, problem.n_features)
    return problem.cost.release(_MOMENTS, "gaussian", share, change, known, shape=shape)


def _plan_places(problem: ScaleProblem, share: float) -> tuple[Release, ...]:
    """Plan histograms of equal bins for the columns that are zoomed; the others count nothing."""
    change = partial(sensitivity.histograms, adjacency=problem.unit.adjacency)
    noise_std = problem.cost.noise_std("gaussian", change(problem.n_features), share)
    most = min(_ALL_PLACES / problem.n_features, _CLEAR * (problem.n_units / noise_std) ** 2)
    shape = problem.n_features, 1 << int(np.clip(math.log2(most), *_PLACES))
    names = [_SIZES, _PLACED, *(f"closer {_PLACED} {number}" for number in range(1, N_LOOKS))]
    return tuple(
        problem.cost.release(name, "gaussian", share, change, follows=before, shape=shape)
        for before, name in pairwise(names)
    )


def _moment_change(rounding: float, problem: ScaleProblem) -> float:
    adjacency, presence = problem.unit.adjacency, _PRESENCE * problem.has_gaps
    change = sensitivity.column_moments(problem.n_features, adjacency, rounding, presence)
    return change / problem.n_units


# ------------------------------
# Narrow columns far from 0, such as years: intervals shrink to where most entries lie.

# Columns with a larger ratio of their ends are as wide as they are far from 0.
_LARGEST_RATIO = 4.0  # benchmarks/classification/constants.md
# Fractions of the rows that the visible bins of a level have to hold: by their counts, and by the
# counts less one standard deviation of their noise. With less, the interval could leave out another
# cluster with a fifth of the rows, or the few rows that differ from most others.
_MOST, _LEAST = 0.95, 0.85  # benchmarks/scaling/columns.md
# Levels with fewer bins would gain less than they risk.
_FEWEST_BINS = 16  # benchmarks/classification/constants.md
# A single number is in one bin, or at the edge of two, with one more on either side.
_POINT_BINS = 4.5  # not tuned


def are_narrow(intervals: Intervals) -> np.ndarray:
    """Tell which columns may be narrow beside their distance from 0.

    Signs and powers of two tell the width of a column only if it is as far from 0 as it is wide. A
    column whose interval lies on one side of 0 within few powers of two may be much narrower. Of
    such columns alone a histogram of equal bins is released.
    """
    near = np.abs(intervals.middle) - intervals.half
    return (near > 0) & (np.abs(intervals.middle) + intervals.half <= _LARGEST_RATIO * near)


def are_points(intervals: Intervals, before: Intervals, n_bins: int) -> np.ndarray:
    """Tell which intervals are as short as `n_bins` bins of those before can show."""
    return np.asarray(intervals.half * n_bins < _POINT_BINS * before.half)


def place_within(
    values: np.ndarray, columns: np.ndarray, intervals: Intervals, n_bins: int
) -> np.ndarray:
    """Return which of equal bins has each number; what is outside goes to the first or the last."""
    units = intervals.units(values, columns)
    units += 1
    units *= n_bins / 2
    places = units.astype(np.intp)
    return np.clip(places, 0, n_bins - 1, out=places)


def zoomed_intervals(
    intervals: Intervals,
    is_narrow: np.ndarray,
    counts: np.ndarray,
    noise_std: float,
    n_rows: np.ndarray,
) -> Intervals:
    """Shrink the intervals of narrow columns to the visible bins that hold most of their rows.

    The bins are many, as noise does not depend on their number. Neighbors are added up, level by
    level, until those that are visible hold most rows.
    """
    middle, half = intervals.middle.copy(), intervals.half.copy()
    for column in np.flatnonzero(is_narrow):
        first, last = _most_of(counts[column], noise_std, n_rows[column], int(is_narrow.sum()))
        middle[column] += half[column] * (first + last - 1)
        half[column] *= last - first
    return Intervals(middle, half)


def _most_of(
    counts: np.ndarray, noise_std: float, n_rows: float, n_columns: int
) -> tuple[float, float]:
    """Return the ends of the shortest part that holds most rows, from 0 to 1."""
    best = (0.0, 1.0)
    while len(counts) >= _FEWEST_BINS:
        seen = np.flatnonzero(is_visible(counts, noise_std, n_columns))
        if len(seen):
            first, last = seen[0], seen[-1] + 1
            held = counts[first:last].sum()
            certain = held - math.sqrt(last - first) * noise_std
            is_most = held >= _MOST * n_rows and certain >= _LEAST * n_rows
            # One bin more on either side, as thin tails are not visible.
            ends = max(first - 1, 0) / len(counts), min(last + 1, len(counts)) / len(counts)
            if is_most and ends[1] - ends[0] < best[1] - best[0]:
                best = ends
        counts, noise_std = counts.reshape(-1, 2).sum(axis=1), noise_std * math.sqrt(2)
    return best


# ------------------------------
# From released moments to centers and scales: noise is taken out, as far as it can be.

# Least variance under noise, in units of the squared half of an interval.
_LEAST_VARIANCE = 1e-4  # benchmarks/classification/constants.md
# A variance of so many standard deviations of what noise leaves open may be none at all.
_HIDDEN = 2.0  # not studied
# Columns of numbers at both ends of an interval alone have the variance 1 - m^2 for the mean m;
# others have less. Not studied.
_AT_ENDS = 0.5
# Without noise, what is smaller than this, relative to the terms of the variance, is rounding.
_ROUNDING = 16 * np.finfo(np.float64).eps  # not tuned
# Least deviation, in steps of the type of the data at the center: coefficients in units of less
# are lost in the rounding of predictions.
_FINEST = 64  # not tuned


class Scales(NamedTuple):
    """Centers and variances of columns, as far as noise tells.

    A column that `is_flat` hardly varies, and one that `is_void` shows nothing but 0. `off_usual`
    are the fractions of the entries that differ from the usual one, 1 where unknown. `presence` are
    those of the entries that are there, with the standard deviation of their noise. Of columns that
    are narrow beside their distance from 0, one that `is_point` is as narrow as can be seen, and
    one that `is_unclear` is flat after looks that noise has blurred.
    """

    center: np.ndarray
    variance: np.ndarray
    is_flat: np.ndarray
    is_void: np.ndarray
    off_usual: np.ndarray
    presence: Any = 1.0
    presence_std: float = 0.0
    is_point: Any = False
    is_unclear: Any = False


def scales_of(
    intervals: Intervals,
    moments: np.ndarray,
    noise_std: Any,
    is_void: np.ndarray,
    off_usual: np.ndarray | None,
) -> Scales:
    """Compute centers and variances from the means of t and of t^2 - s.

    Each is shrunk toward its mean over all columns by the fraction of its spread that is noise. The
    noise has one standard deviation, or one for each column.
    """
    largest = intervals.largest
    means, squares = moments[0], moments[1] + intervals.shift
    # On average, noise adds its variance to the square of a mean.
    variances = squares - means**2 + noise_std**2
    # The variance of 2 m e is added, for a mean m with the noise e.
    is_noisy = bool(np.any(noise_std))
    noise = noise_std * math.sqrt(1 + 4 * min(float(np.mean(means**2)), 1.0))
    means, _ = _shrunk_to_mean(means, noise_std)
    variances, kept = _shrunk_to_mean(variances, noise)
    deviation = np.sqrt(kept) * noise
    least = np.maximum(deviation, _LEAST_VARIANCE) if is_noisy else 0.0
    center = intervals.middle + intervals.half * np.clip(means, -largest, largest)
    # The mean over all columns has noise, too, though less.
    left = noise * np.sqrt(kept + (1 - kept) / len(variances))
    is_flat = variances <= np.maximum(_HIDDEN * left, least)
    if not is_noisy:
        is_flat = variances <= _ROUNDING * np.maximum(means**2, 1.0)
    variances = np.clip(variances, least, largest**2)
    if off_usual is None:
        off_usual = _off_usual(means, variances)
    return Scales(center, intervals.half**2 * variances, is_flat, is_void, off_usual)


def visible_variances(found: Scales, dtype: np.dtype) -> np.ndarray:
    """Raise variances to what numbers of this type can show so far from 0; none stay none."""
    least = (_FINEST * np.finfo(dtype).eps * found.center) ** 2
    return np.where(found.variance > 0, np.maximum(found.variance, least), 0.0)


def _off_usual(means: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Tell how rare the rarer end is, in columns whose entries are mostly at the ends."""
    means = np.clip(means, -1.0, 1.0)
    is_at_ends = variances > _AT_ENDS * (1 - means**2)
    return np.where(is_at_ends, (1 - np.abs(means)) / 2, 1.0)


def _shrunk_to_mean(values: np.ndarray, noise_std: Any) -> tuple[np.ndarray, Any]:
    """Shrink values toward their mean; return also the fraction of the differences that is kept."""
    if not np.any(noise_std):
        return values, 1.0
    mean, spread = float(np.mean(values)), float(np.var(values))
    kept = np.maximum(0.0, 1 - noise_std**2 / spread) if spread > 0 else 0.0 * noise_std
    return mean + kept * (values - mean), kept


# ------------------------------
# From columns to centers and scales: intervals, if they are not public, and moments in them.

# Without noise and bounds, entries farther from the mean are clipped: their squares would overflow.
# A mean itself is first looked for in this unit.
_LARGEST, _LARGE_UNIT = 1e150, 2.0**511  # not tuned
# A larger deviation shows that entries were clipped, and the square of a smaller one loses digits.
_DEVIATIONS = 1e-150, 1e-5 * _LARGEST  # not tuned


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
        rough = moments(plan.rough, Intervals(0 * ones, _LARGE_UNIT * ones, _LARGEST))
        found = moments(plan.moments, Intervals(rough.center, ones, _LARGEST))
        # What scikit-learn takes for rounding of a sum.
        rounding = n_rows * np.finfo(np.float64).eps
        is_flat = found.variance <= rounding * found.variance + (rounding * found.center) ** 2
        is_cut = found.variance > _DEVIATIONS[1] ** 2
        return found._replace(is_flat=is_flat, center=np.where(is_cut, rough.center, found.center))
    counts = view.map_sum(counting(place_size, N_BINS), n_columns * N_BINS)
    counts, noise_std = budget.release(plan.sizes, counts)
    intervals, is_void = sized_intervals(counts, noise_std)
    budget.warnings += warnings_for_sizes(plan.sizes.name, intervals)
    alone, zoomed = plan.ways.ways
    n_present = np.full(n_columns, float(n_rows))
    if _has_gaps(alone):
        seen = np.where(is_visible(counts, noise_std), counts, 0.0).sum(axis=1)
        n_present = np.clip(seen, 1.0, n_rows)
    off_usual = np.clip(1 - counts[:, 0] / n_present, 0.0, 1.0)
    if not are_narrow(intervals).any():
        return moments(alone, intervals, is_void, off_usual)
    intervals, is_point, is_blurred = _zoomed(zoomed, view, n_present, intervals, budget)
    found = moments(zoomed.moments, intervals, is_void, off_usual)
    return found._replace(is_point=is_point, is_unclear=is_blurred & found.is_flat)


def has_odd_squares(found: Scales) -> np.ndarray:
    """Tell of which columns floats do not hold the squares, without noise and bounds."""
    deviation = np.sqrt(found.variance)
    size = np.maximum(np.abs(found.center), deviation)
    return (deviation > _DEVIATIONS[1]) | ((size > 0) & (size < _DEVIATIONS[0]))


def _has_gaps(moments: Release) -> bool:
    # The third row counts numbers that are not missing.
    return moments.shape[0] > 2


def _zoomed(
    plan: ZoomedReleases,
    view: BlockView,
    n_rows: np.ndarray,
    intervals: Intervals,
    budget: PrivacyBudget,
) -> tuple[Intervals, np.ndarray, np.ndarray]:
    """Release where the entries of narrow columns lie in their intervals, and shrink these.

    Return also which columns are as narrow as the last look can show, and which ones are narrow, if
    noise blurs the looks.
    """
    is_narrow = are_narrow(intervals)
    for places in plan.places:
        n_columns, n_bins = places.shape
        kernel = counting(partial(place_within, intervals=intervals, n_bins=n_bins), n_bins)
        # What is counted of the other columns moves nothing: it is left out.
        counts = view.map_sum(kernel, n_columns * n_bins) * is_narrow[:, np.newaxis]
        released = budget.release(places, counts, n_columns=int(is_narrow.sum()))
        before, intervals = intervals, zoomed_intervals(intervals, is_narrow, *released, n_rows)
    is_point = is_narrow & are_points(intervals, before, n_bins)
    return intervals, is_point, is_narrow & (_CLEAR * (n_rows / released[1]) ** 2 < n_bins)


def _release_moments(
    release: Release,
    intervals: Intervals,
    is_void: np.ndarray | None = None,
    off_usual: np.ndarray | None = None,
    *,
    view: BlockView,
    n_rows: int,
    budget: PrivacyBudget,
) -> Scales:
    n_columns, has_gaps = len(intervals.half), _has_gaps(release)
    kernel = summing(intervals, _PRESENCE * has_gaps)
    sums = view.map_sum(kernel, math.prod(release.shape))
    moments, noise_std = budget.release(release, sums / n_rows)
    present, present_std = np.ones(n_columns), noise_std * has_gaps / _PRESENCE
    if has_gaps:
        # Of how many rows each column has a number: of one at least.
        present = np.clip(moments[2] / _PRESENCE, 1 / n_rows, 1.0)
        moments, noise_std = moments[:2] / present, noise_std / present
    is_void = np.zeros(n_columns, dtype=bool) if is_void is None else is_void
    scales = scales_of(intervals, moments, noise_std, is_void, off_usual)
    return scales._replace(presence=present, presence_std=present_std)
