"""Intervals of columns, which are public or follow from released counts."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.sparse import issparse

from skdp.data.matrices import SHORT_ROW, entries_of
from skdp.data.reduce import Kernel
from skdp.data.rows import Block
from skdp.exceptions import shortened, shown
from skdp.linalg.matrices import DenseMatrices
from skdp.privacy.clipping import NO_CLIPPING, SMALLEST_BOUND

# ------------------------------
# Public intervals, checked.


def _pairs(bounds: Any, n_features: int) -> list[Any] | None:
    """Return a pair (low, high) for each column, or None if `bounds` has another form."""
    if isinstance(bounds, list) and bounds and all(isinstance(one, tuple) for one in bounds):
        return bounds
    shape: tuple[int, ...] = ()
    with suppress(TypeError, ValueError):
        shape = np.shape(bounds)
    # Two arrays or lists in a tuple are lower and upper bounds; two tuples could be either.
    are_ends = isinstance(bounds, tuple) and not (
        n_features == 2 and all(isinstance(one, tuple) for one in bounds)
    )
    if shape != (n_features, 2) or are_ends:
        return None
    if n_features == 2:
        raise ValueError(
            f"bounds={shown(bounds)} can be read two ways, by columns and by ends: pass the tuple "
            "(low, high) of lists of all lower and all upper ends, as ([18, 0], [90, 9]), or a "
            "dict of the names of columns, as {'age': (18, 90), ...}; a list of tuples, as "
            "[(18, 90), (0, 9)], goes by columns, too."
        )
    return [tuple(one) for one in bounds]


def in_order(bounds: Mapping[Any, Any], names: Sequence[Any] | None) -> list[Any]:
    """Put bounds by name in the order of the columns; refuse missing and unknown names."""
    if names is None:
        raise ValueError(
            "bounds names columns, but X has no names, or a step before makes other columns: pass "
            "a data frame (also as `like` of a plan), or a list of pairs (low, high) in column "
            "order. FunctionTransformer(feature_names_out='one-to-one') keeps names."
        )
    if len(set(names)) < len(names):
        twice = shortened([str(name) for name, n in Counter(names).items() if n > 1])
        raise ValueError(
            f"bounds names columns, and X has several of one name: {twice}. "
            "Give each its own, as X.set_axis([...], axis=1) does."
        )
    missing = [str(name) for name in names if name not in bounds]
    unknown = [str(name) for name in bounds if name not in names]
    if missing or unknown:
        flaws = [f"has no pair (low, high) for {shortened(missing)}"] * bool(missing)
        flaws += [f"names {shortened(unknown)}, no column of X"] * bool(unknown)
        rest = (
            " To leave the missing ones out, pass X[list(bounds)], or scale these columns alone, "
            f"by ColumnTransformer([('scale', scaler, {[*bounds]})], remainder='passthrough')."
        ) * (not unknown)
        columns = shortened([str(name) for name in names])
        raise ValueError(f"bounds {', and '.join(flaws)}. Name these columns: {columns}.{rest}")
    return [tuple(one) if isinstance(one := bounds[name], list) else one for name in names]


def checked_interval(
    bounds: Any, n_features: int, names: Sequence[Any] | None
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return lower and upper bounds of all columns; refuse bad ones. None gives None."""
    if bounds is None:
        return None
    pairs = in_order(bounds, names) if isinstance(bounds, Mapping) else _pairs(bounds, n_features)
    if pairs is None:
        is_pair = isinstance(bounds, tuple | list | np.ndarray) and len(bounds) == 2
        low, high = map(_numbers, bounds) if is_pair else _NO_PAIR
    else:
        ends = [one if (one := _numbers(pair)).shape == (2,) else _NO_PAIR for pair in pairs]
        low, high = np.transpose(np.array(ends)) if len(ends) == n_features else _NO_PAIR
    for end in map(np.shape, (low, high)):
        if end not in ((), (n_features,)):
            raise ValueError(
                f"bounds has an end of shape {end}, but X has {n_features} features: pass a "
                "number, or one for each feature."
            )
    low, high = (np.broadcast_to(end, (n_features,)).astype(np.float64) for end in (low, high))
    with np.errstate(invalid="ignore"):
        fits = (low >= -NO_CLIPPING) & (high <= NO_CLIPPING) & (high - low >= SMALLEST_BOUND)
    if fits.all():
        return low, high
    place = int(np.argmin(fits))
    column = f"bounds of column {place if names is None else names[place]}"
    what = column if fits.any() else f"bounds={shown(bounds)}"
    # Errors quote no arrays and lists of lists, as these may be data.
    if pairs and (isinstance(bounds, Mapping) or type(bounds[0]) is tuple):
        is_whole = len(pairs) == n_features
        what = f"{column}, {shown(pairs[place])}," if is_whole else f"{what} of {len(pairs)}"
    raise ValueError(
        f"{what} must be (low, high), with low below high by at least {SMALLEST_BOUND:g}, finite "
        f"numbers of at most {NO_CLIPPING:g} in size, or arrays of them. A list of tuples, as "
        f"[(low, high), ...], has a pair for each of the {n_features} columns, and so has a dict "
        "of names. They must be known without looking at X; None finds intervals privately."
    )


# Stands for bounds that are no pair of numbers, and is then refused.
_NO_PAIR = (np.nan, np.nan)


def _numbers(given: Any) -> np.ndarray:
    """Return numbers as an array, with NaN for anything else, also for digits in strings."""
    try:
        numbers = given if np.asarray(given).dtype.kind in "iufO" else np.nan
        return np.asarray(numbers, np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.full((), np.nan)


# ------------------------------
# Functions that give the terms of a block of rows, dense or sparse, in sums by column.

# Number of values (128 kB) that should stay in cache during a step.
_PART = 1 << 14  # not studied

#: A function of numbers and their columns that returns bins, or -1 for none; NaN may get any bin.
Binning = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Intervals(NamedTuple):
    """Intervals of columns; they map entries to ``t = (x - middle) / half``, clipped."""

    middle: np.ndarray
    half: np.ndarray
    largest: float = 1.0

    @property
    def shift(self) -> float:
        """Number s subtracted from squares t^2: .5 reduces their largest change; 0 without noise.

        Noise is added only to sums of entries clipped to 1.
        """
        return 0.5 if self.largest == 1 else 0.0

    @classmethod
    def of(cls, low: np.ndarray, high: np.ndarray) -> "Intervals":
        """Make intervals from their ends."""
        return cls(low + (high - low) / 2, (high - low) / 2)

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the intervals."""
        return self.middle - self.half, self.middle + self.half

    def of_columns(self, chosen: np.ndarray) -> "Intervals":
        """Return the intervals of some columns."""
        return Intervals(self.middle[chosen], self.half[chosen], self.largest)

    def replaced(self, which: np.ndarray, others: "Intervals") -> "Intervals":
        """Replace the intervals of some columns; all others keep exactly their bits."""
        middle = np.where(which, others.middle, self.middle)
        return self._replace(middle=middle, half=np.where(which, others.half, self.half))


def counting(bins_of: Binning, n_bins: int, chosen: np.ndarray | None = None) -> Kernel:
    """Return a function that counts the entries of each column by bin.

    With `chosen`, an array of column numbers, only these columns are counted. NaN, of which a null
    row consists, is not counted. Zeros that a sparse block does not store are. `summing` treats
    both alike.
    """

    def _counts(_: slice, block: Block | DenseMatrices) -> np.ndarray:
        """Count the entries of a block by column and bin, without null rows and NaN."""
        values, columns, n_zeros, weights = _entries(block, chosen)
        bins = bins_of(values, columns)
        is_counted = None
        # If all values are inside, two minima take less time than masks.
        if bins.min(initial=0) < 0 or np.isnan(values.min(initial=0.0)):
            is_counted = (bins >= 0) & ~np.isnan(values)
        bins += n_bins * columns
        weights = None if weights is None else np.broadcast_to(weights, values.shape)
        if is_counted is not None:
            bins, weights = bins[is_counted], None if weights is None else weights[is_counted]
        flat = None if weights is None else weights.ravel()
        counts = np.bincount(bins.ravel(), flat, len(n_zeros) * n_bins)
        # With weights, counts must be floats even if there is nothing to count.
        counts = np.asarray(counts, None if weights is None else np.float64).reshape(-1, n_bins)
        if n_zeros.any():
            every = np.arange(len(n_zeros))
            of_zeros = bins_of(np.zeros(len(every)), every)
            is_counted = of_zeros >= 0
            counts[every[is_counted], of_zeros[is_counted]] += n_zeros[is_counted]
        return counts

    return _counts


def summing(intervals: Intervals, presence: float = 0.0) -> Kernel:
    """Return a function that sums t and t^2 - `shift` by column; `presence` adds a third sum.

    t is an entry in half widths of its interval, from the middle. The third sum adds `presence` for
    each entry that is not NaN.
    """

    def _sums(_: slice, block: Block | DenseMatrices) -> np.ndarray:
        """Sum the terms of the entries of a block, by column."""
        values, columns, n_zeros, sample_weight = _entries(block)
        every = np.arange(len(n_zeros))
        sums = n_zeros * np.stack(_terms(np.zeros(len(every)), every, intervals, presence))
        if values.ndim == 1:  # stored entries of sparse rows
            terms = _terms(values, columns, intervals, presence, sample_weight)
            return np.stack([np.bincount(columns, term, len(every)) for term in terms]) + sums
        # Small parts stay in cache, and need no new memory from the system. With few columns, parts
        # are copied so that numpy loops along rows.
        for first in range(0, values.shape[1], step := max(_PART // len(every), 1)):
            part = values[:, first : first + step]
            part = np.ascontiguousarray(part) if len(every) <= SHORT_ROW else part
            of_part = None if sample_weight is None else sample_weight[first : first + step]
            terms = _terms(part, columns, intervals, presence, of_part)
            sums += np.stack([term.sum(axis=1) for term in terms])
        return sums

    return _sums


def _terms(
    values: np.ndarray,
    columns: np.ndarray,
    intervals: Intervals,
    presence: float,
    sample_weight: np.ndarray | None = None,
) -> list[np.ndarray]:
    """Return what each entry adds to the sums of its column; NaN adds 0."""
    scaled = values - intervals.middle[columns]
    scaled /= intervals.half[columns]
    np.clip(scaled, -intervals.largest, intervals.largest, out=scaled)
    squares = np.square(scaled)
    squares -= intervals.shift
    terms = [scaled, squares, *[np.full(scaled.shape, presence)] * bool(presence)]
    if np.isnan(scaled.min(initial=0.0)):
        is_missing = np.isnan(scaled)
        for term in terms:
            term[is_missing] = 0.0
    return terms if sample_weight is None else [sample_weight * term for term in terms]


def _entries(
    block: Block | DenseMatrices, chosen: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Return stored entries, their columns, and the number of other zeros by column.

    Entries of dense rows are transposed, an array for each column. The last result has the weight
    of each entry, if all rows of a user together count as one row.
    """
    raw: Any = entries_of(block) if isinstance(block, DenseMatrices) else block.raw
    weights = block.sample_weight
    if not issparse(raw):
        values = np.asarray(raw.T if chosen is None else raw.T[chosen], np.float64)
        columns = np.arange(len(values))[:, np.newaxis]
        return values, columns, np.zeros(len(values), np.intp), weights
    raw = raw if chosen is None else raw[:, chosen]
    n_rows, n_columns = raw.shape
    of_entries = None if weights is None else np.repeat(weights, np.diff(raw.indptr))
    n_stored = np.bincount(raw.indices, of_entries, n_columns)
    n_zeros = (n_rows if weights is None else weights.sum()) - n_stored
    return raw.data.astype(np.float64), raw.indices.astype(np.intp), n_zeros, of_entries


# ------------------------------
# Intervals of columns in unknown units, from released counts by sign and power of two.

OTHER_UNITS_OF_X = "Pass X in other units: divide it by a public guess of its size."

# Powers of two from 1e-12 to 1e18.
_FIRST, _LAST = -40, 60  # not studied
_N_POWERS = _LAST - _FIRST + 1  # not tuned
#: The end of the first bin of a sign, and that of the last one.
ENDS = 2.0 ** np.array([_FIRST + 1, _LAST + 1])  # not tuned
#: Bins of a column: 0, the positive powers, and the negative ones.
N_BINS = 2 * _N_POWERS + 1  # not tuned
# Noise alone makes a bin visible in one of this many histograms. The first number is for counts by
# size, where such a bin would decide the scale of a column; the second for counts by place, where
# it only lengthens an interval.
_CAUTION, _CAUTION_WITHIN = 1e5, 20.0  # benchmarks/scaling/columns.md; not studied
# The first number grows with the square of the rows, from this many noise standard deviations on.
_STRONG = 100.0  # benchmarks/scaling/columns.md
# Sums over 2 or 4 neighboring bins are tested, too. On either side of a visible bin, up to 4 more
# count as visible if each exceeds the last number of standard deviations of its noise.
_NEIGHBORS, _IN_TAIL = (2, 4), 2.5  # benchmarks/scaling/bounds.md
# Visible bins give a column its interval only if they hold this part of its rows: of a column
# around 0, the bins of one sign hold less. Other columns get an interval from their pooled counts.
_LEAST_INSIDE = 0.55  # benchmarks/scaling/bounds.md
# Half of the number above: with more rows in the bins of the other sign, a column lies around 0.
_OF_OTHER_SIGN = _LEAST_INSIDE / 2  # not studied
# A column may be 0 in all rows if its count of zeros is at most so many standard deviations of its
# noise below the number of rows, and if these are at most the second part of the rows.
_HIDDEN, _FEW_HIDDEN = 2.0, 0.15  # not studied
# Rows are missing if a count, or its sum over columns, is less than the number of rows by this many
# standard deviations of its noise. benchmarks/scaling/columns.md, "Columns of which few rows
# differ"
_MISSING = 4.0
# A column is mostly 0 if zeros exceed this part of the rows.
_MOSTLY = 0.5  # not tuned
# Size assumed for columns that seem to be all 0.
_SIZE_OF_VOID = 1.0  # not studied


# Lower and upper ends of the bins. The smallest bins begin at 0; the last ones hold all larger
# numbers, which are clipped.
_FAR_ENDS = 2.0 ** np.arange(_FIRST + 1, _LAST + 2)  # not tuned
_NEAR_ENDS = np.append(0.0, _FAR_ENDS[:-1])  # not tuned
_LOWEST = np.concatenate([[0.0], _NEAR_ENDS, -_FAR_ENDS])  # not tuned
_HIGHEST = np.concatenate([[0.0], _FAR_ENDS, -_NEAR_ENDS])  # not tuned
# The bin of each sign and exponent, which are the first twelve bits of a number. Bins of negative
# numbers are negative, and count from the end.
_POWERS = np.clip(np.arange(1 << 11) - 1023, _FIRST, _LAST) - _FIRST  # not tuned
_BIN_OF = np.concatenate([1 + _POWERS, 1 + _POWERS + _N_POWERS])  # not tuned


def bins_by_size(values: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the bin of each number, by its sign and power of two; NaN may get any bin."""
    bins = _BIN_OF[values.view(np.int64) >> 52]
    bins[values == 0] = 0
    return bins


def is_visible(counts: np.ndarray, noise_std: Any, caution: float = _CAUTION) -> np.ndarray:
    """Return which counts of a histogram exceed noise, beyond chance."""
    return counts > noise_std * _least_visible(counts.size, caution)


def _least_visible(n_counts: int, caution: float = _CAUTION) -> float:
    return math.sqrt(2 * math.log(caution * n_counts))


def may_be_zeros(
    counts: np.ndarray, noise_std: float, n_rows: np.ndarray, seems_constant: np.ndarray
) -> np.ndarray:
    """Return which columns may be 0 in all rows, by counts of their entries by sign and size.

    They are mostly 0, and either seem constant by their moments, or have all rows counted as 0.
    Their counts lack no rows, beyond noise.
    """
    missing, hidden = n_rows - counts[:, 0], _HIDDEN * noise_std
    is_seen = is_visible(counts[:, 1:], noise_std).any(axis=1)
    is_zero = (missing < hidden) & (hidden < _FEW_HIDDEN * n_rows) & ~is_seen
    chosen = (counts[:, 0] > _MOSTLY * n_rows) & (seems_constant | is_zero)
    return chosen & ~_miss_rows(missing, np.full_like(missing, noise_std), chosen)


def _miss_rows(missing: np.ndarray, noise_std: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return which chosen columns lack rows, beyond noise: alone, or in the sum of all of them."""
    alone = missing > _MISSING * noise_std
    rest = chosen & ~alone
    together = missing[rest].sum() > _MISSING * math.sqrt(np.square(noise_std[rest]).sum())
    return np.asarray(chosen & (alone | together))


def lengthened_points(
    intervals: Intervals,
    is_point: np.ndarray,
    counts: np.ndarray,
    noise_std: float,
    n_rows: np.ndarray,
    outer: Intervals | None = None,
) -> tuple[Intervals, np.ndarray]:
    """Lengthen intervals that zooms have shrunk to a point, if counts by size show rows elsewhere.

    They get the outer intervals, or without these their visible bins; or reach from 0 to twice the
    point if no bin is visible. Else rare values would be lost. Return also which columns are still
    points.
    """
    low, high = intervals.ends
    is_there = (low[:, np.newaxis] <= _HIGHEST) & (high[:, np.newaxis] >= _LOWEST)
    missing = n_rows - (counts * is_there).sum(axis=1)
    varies = _miss_rows(missing, noise_std * np.sqrt(is_there.sum(axis=1)), is_point)
    if not varies.any():
        return intervals, is_point
    if outer is None:
        found = hulls(np.where(is_there, 0.0, counts)[varies], noise_std, n_rows[varies])
        others = np.stack([np.zeros_like(low), 2 * intervals.middle])
        others[:, varies] = np.where(found[0] < found[1], found, others[:, varies])
        ends = np.vstack([low, high, others])
        outer = Intervals.of(ends.min(axis=0), ends.max(axis=0))
    return intervals.replaced(varies, outer), is_point & ~varies


def intervals_within(
    counts: np.ndarray, noise_std: float, outer: Intervals, hidden: np.ndarray, n_rows: np.ndarray
) -> tuple[Intervals, np.ndarray, np.ndarray]:
    """Shrink the intervals of hidden columns to their visible bins, if these hold most rows.

    Return also the columns of which only zeros are visible: they get a small interval with 0.
    And return the columns with most rows at one end of their bounds: they keep the bounds.
    """
    least, most = outer.ends
    is_inside = (least[:, np.newaxis] <= _HIGHEST) & (most[:, np.newaxis] >= _LOWEST)
    # Entries are clipped to the bounds, so counts beyond them are noise.
    counts = np.where(is_inside, counts, 0.0)
    low, high = least.copy(), most.copy()
    low[hidden], high[hidden] = hulls(counts[hidden], noise_std, n_rows[hidden])
    n_inside = counts_inside(counts, low, high).sum(axis=1)
    is_void = hidden & (low == 0) & (high == 0)
    # If most of the bounds are on one side of 0, the interval is on that side.
    is_below, is_above = least + most <= 0, least + most >= 0
    low = np.where(is_void, -_SIZE_OF_VOID * is_below, low)
    high = np.where(is_void, _SIZE_OF_VOID * is_above, high)
    low, high = np.maximum(low, least), np.minimum(high, most)
    is_wide = high - low >= SMALLEST_BOUND
    is_found = hidden & is_wide & (n_inside >= _LEAST_INSIDE * n_rows)
    is_at_end = hidden & ~is_wide & (n_inside >= _MOST * n_rows)
    # Others keep exactly their interval: moments are averaged only with those in the same interval.
    return outer.replaced(is_found, Intervals.of(low, high)), is_void & is_found, is_at_end


def counts_inside(counts: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the counts whose bins are inside the bounds of their column; others are 0."""
    is_inside = (low[:, np.newaxis] <= _LOWEST) & (high[:, np.newaxis] >= _HIGHEST)
    return np.where(is_inside, counts, 0.0)


def hulls(
    counts: np.ndarray, noise_std: float, n_rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of each column's shortest interval with all bins whose counts exceed noise.

    If a column shows only the bin of 0, or few of its rows, its interval gets 0, and the bins
    visible in the average of all such columns, which has less noise. The average leaves out bins
    that are visible in a column: else large counts of few columns would be bins of all. If only
    bins of one sign are visible, noise may make half of the rows seem most, and the bins of the
    other sign hold many rows, the interval gets the other sign, too.
    """
    # With many rows, noise need not be taken for a bin even once in many tables.
    strength = float(np.asarray(n_rows, float).min(initial=math.inf)) / noise_std
    caution = _CAUTION * max(1.0, min(strength, 1e9) / _STRONG) ** 2
    shown = _are_shown(counts / noise_std, caution)
    inside, noise = (counts * shown).sum(axis=1), noise_std * np.sqrt(shown.sum(axis=1))
    is_hidden = ~shown[:, 1:].any(axis=1) | (inside < _LEAST_INSIDE * n_rows)
    if is_hidden.any():
        is_left = ~shown[is_hidden]
        n_left = np.maximum(is_left.sum(axis=0, keepdims=True), 1)
        pooled = (counts[is_hidden] * is_left).sum(axis=0, keepdims=True) / n_left
        shown[is_hidden] |= _are_shown(pooled / noise_std * np.sqrt(n_left), caution)
        shown[is_hidden, 0] = True
    low = np.where(shown, _LOWEST, np.inf).min(axis=1)
    high = np.where(shown, _HIGHEST, -np.inf).max(axis=1)
    farthest = np.maximum(-low, high)
    may_be_half = ~is_hidden & (inside - noise < _LEAST_INSIDE * n_rows) & ((low > 0) | (high < 0))
    # A column of one sign, whose visible bins lack rows, too, has only noise in these bins.
    opposite = shown[:, 1:].reshape(len(shown), 2, _N_POWERS)[:, ::-1].reshape(len(shown), -1)
    may_be_half &= (counts[:, 1:] * opposite).sum(axis=1) > _OF_OTHER_SIGN * n_rows
    return np.where(may_be_half, -farthest, low), np.where(may_be_half, farthest, high)


def _are_shown(scores: np.ndarray, caution: float) -> np.ndarray:
    """Return which bins of the histograms by size are visible, from counts in units of their noise.

    A bin is visible if its count exceeds the noise, or if its count is large enough and the sum
    over neighbors of one sign exceeds noise. A lone bin of noise would give its column any unit.
    """
    least, stands_out = _least_visible(scores.size, caution), scores > _IN_TAIL
    shown = scores > least
    signs = np.where(shown, 0.0, scores)[:, 1:].reshape(len(scores), 2, _N_POWERS)
    for size in _NEIGHBORS:
        together = sliding_window_view(signs, size, axis=2).sum(axis=-1)
        starts = np.pad(together > least * math.sqrt(size), ((0, 0), (0, 0), (size - 1,) * 2))
        in_any = sliding_window_view(starts, size, axis=2).any(axis=-1)
        shown[:, 1:] |= stands_out[:, 1:] & in_any.reshape(len(scores), -1)
    for _ in range(_NEIGHBORS[-1]):
        # Bins of one sign are in order of size. The bin of 0, which comes first, is no neighbor.
        beside = np.pad(shown[:, 1:], ((0, 0), (2, 1)))
        shown |= stands_out & (beside[:, 2:] | beside[:, :-2])
    return shown


# ------------------------------
# Narrow columns far from 0, such as years, whose intervals shrink to most of their entries.

# An interval is narrow, relative to its distance from 0, up to this ratio of its ends.
_LARGEST_RATIO = 4.0  # benchmarks/classification/constants.md
# Visible bins hold most rows if they count at least the first part of the rows, and at least the
# second part after one standard deviation of noise is subtracted. With smaller parts an interval
# could leave out a cluster with a fifth of the rows, or the few rows that differ.
_MOST, _LEAST = 0.95, 0.85  # benchmarks/scaling/columns.md
# With fewer merged bins, intervals would shrink by little, and may lose rows.
_FEWEST_BINS = 16  # benchmarks/classification/constants.md
# A constant is in one bin, or on the edge of two, and one more is added on each side: its interval
# has at most 4 bins.
_POINT_BINS = 4.5  # not tuned
# A bin may have all rows if its count is at most so many standard deviations of its noise below the
# number of rows, and if these are at most the second part of the rows.
_UP_TO_NOISE, _FEW = 4.0, 0.12  # not studied


def are_narrow(intervals: Intervals) -> np.ndarray:
    """Return which columns may be narrow, relative to their distance from 0.

    Signs and powers of two show the width of a column only if it is about as wide as its distance
    from 0. A column on one side of 0, within few powers of two, may be much narrower. Only such
    columns get a histogram of equal bins.
    """
    near = np.abs(intervals.middle) - intervals.half
    return (near > 0) & (np.abs(intervals.middle) + intervals.half <= _LARGEST_RATIO * near)


def are_points(intervals: Intervals, before: Intervals, n_bins: int) -> np.ndarray:
    """Return which intervals are shorter than 4.5 bins of the histogram they were found in.

    So short is the interval of a column with a single value.
    """
    return np.asarray(intervals.half * n_bins < _POINT_BINS * before.half)


def bins_within(
    values: np.ndarray, columns: np.ndarray, intervals: Intervals, wide: Intervals, n_bins: int
) -> np.ndarray:
    """Return the bin of each value among equal bins of a wide interval; -1 for values outside."""
    low, high = (end[columns] for end in wide.ends)
    units = np.clip(values, low, high)
    units -= intervals.ends[0][columns]
    units *= (n_bins / 2 / intervals.half)[columns]
    # NaN counts as outside.
    if not (units.min(initial=0.0) >= 0 and units.max(initial=0.0) <= n_bins):
        units[~((units >= 0) & (units <= n_bins))] = -1.0
    return np.minimum(units, n_bins - 1, out=units).astype(np.intp)


def zoomed_intervals(
    intervals: Intervals,
    chosen: np.ndarray,
    counts: np.ndarray,
    noise_stds: np.ndarray,
    n_rows: np.ndarray,
    sizes: np.ndarray,
) -> tuple[Intervals, np.ndarray, np.ndarray]:
    """Shrink the intervals of chosen columns to the visible bins that hold most of their rows.

    There are many bins, as noise does not depend on their number. Pairs of neighbors are merged,
    again and again, until visible bins hold most rows. If counts of `sizes`, which have less noise,
    show too many rows outside, the interval stays. Return also the columns to zoom into once more:
    their intervals have shrunk, or their visible bins hold too few rows. And return the columns
    whose new intervals leave out visible bins.
    """
    middle, half, is_open = intervals.middle.copy(), intervals.half.copy(), chosen.copy()
    first, last, is_majority = _most_of(counts, noise_stds, n_rows[chosen])
    # Count the rows outside the bins from `first` to `last`, by the histogram of sizes.
    narrow = intervals.of_columns(chosen)
    low, high = narrow.ends[0] + 2 * narrow.half * np.stack([first, last])
    is_out = (low[:, np.newaxis] > _HIGHEST) | (high[:, np.newaxis] < _LOWEST)
    is_whole = (sizes[chosen] * is_out).sum(axis=1) > (1 - _MOST) * n_rows[chosen]
    first, last = np.where(is_whole, 0.0, first), np.where(is_whole, 1.0, last)
    middle[chosen] += half[chosen] * (first + last - 1)
    half[chosen] *= last - first
    is_open[chosen] = (last - first < 1) | ~(is_majority | is_whole)
    places, ends = np.arange(counts.shape[1]), counts.shape[1] * np.stack([first, last])
    is_out = (places < ends[0][:, np.newaxis]) | (places >= ends[1][:, np.newaxis])
    leaves_out = np.zeros_like(chosen)
    leaves_out[chosen] = (is_visible(counts, noise_stds[:, np.newaxis]) & is_out).any(axis=1)
    return Intervals(middle, half), is_open, leaves_out


def _most_of(
    counts: np.ndarray, noise_stds: np.ndarray, n_rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each interval, return the ends, in [0, 1], of its shortest part that holds most rows.

    The last value says whether the visible bins of some level hold most rows.
    """
    low, high = np.zeros(len(counts)), np.ones(len(counts))
    is_majority = np.zeros(len(counts), bool)
    while (n_bins := counts.shape[1]) >= _FEWEST_BINS:
        seen = is_visible(counts, noise_stds[:, np.newaxis], _CAUTION_WITHIN)
        largest = counts.argmax(axis=1)
        missing = n_rows - counts[np.arange(len(counts)), largest]
        # If all rows may be in one bin, counts of the other bins are noise.
        is_all = (missing < _UP_TO_NOISE * noise_stds) & (_UP_TO_NOISE * noise_stds < _FEW * n_rows)
        first = np.where(is_all, largest, seen.argmax(axis=1))
        last = np.where(is_all, largest + 1, n_bins - seen[:, ::-1].argmax(axis=1))
        # A column without visible bins keeps all bins.
        ends = zip(counts, first, last, strict=True)
        counted = np.array([of_bins[start:stop].sum() for of_bins, start, stop in ends])
        certain = counted - np.sqrt(last - first) * noise_stds
        is_best = is_all | ((counted >= _MOST * n_rows) & (certain >= _LEAST * n_rows))
        # One more bin is added on each side, as thin tails are invisible.
        lower, upper = np.maximum(first - 1, 0) / n_bins, np.minimum(last + 1, n_bins) / n_bins
        is_majority |= is_best
        is_best &= upper - lower < high - low
        low, high = np.where(is_best, lower, low), np.where(is_best, upper, high)
        counts, noise_stds = counts[:, ::2] + counts[:, 1::2], noise_stds * math.sqrt(2)
    return low, high, is_majority
