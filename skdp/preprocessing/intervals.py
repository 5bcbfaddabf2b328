"""Intervals of columns, which are public or follow from released counts."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.sparse import issparse

from skdp.data.matrices import SHORT_ROW, entries_of
from skdp.data.reduce import Kernel
from skdp.data.rows import Block
from skdp.exceptions import counted, shortened, shown
from skdp.linalg.matrices import DenseMatrices
from skdp.privacy.clipping import NO_CLIPPING, SMALLEST_BOUND

# ------------------------------
# Checks of public bounds of columns.


def _pairs(bounds: Any, n_features: int) -> list[Any] | None:
    """Return a pair (low, high) for each column, or None if `bounds` has no pair by column."""
    if isinstance(bounds, list) and bounds and all(isinstance(one, tuple) for one in bounds):
        return bounds
    shape: tuple[int, ...] = ()
    if isinstance(bounds, tuple | list | np.ndarray):
        with suppress(TypeError, ValueError):
            shape = np.shape(bounds)
    # A tuple means (all lower ends, all upper ends), but two tuples in it could be two columns.
    is_tuple = isinstance(bounds, tuple)
    has_two_tuples = is_tuple and n_features == 2 and all(isinstance(one, tuple) for one in bounds)
    if shape != (n_features, 2) or (is_tuple and not has_two_tuples):
        return None
    if n_features == 2:
        raise ValueError(
            f"bounds={shown(bounds)} of 2 columns can be read two ways: write a tuple for each "
            "column, as [(18, 90), (0, 9)], or the tuple (low, high) of all lower and all upper "
            "ends, as ([18, 0], [90, 9]), or a dict of names, as {'age': (18, 90), ...}."
        )
    return [tuple(one) for one in bounds]


def in_order(bounds: Mapping[Any, Any], names: Sequence[Any] | None) -> list[Any]:
    """Put bounds by name in the order of the columns; refuse missing and unknown names."""
    if names is None:
        raise ValueError(
            "bounds names columns, but X has no names, or a step before makes other columns: pass "
            "a data frame, or a list of pairs in the order of its columns, or put a scaler inside "
            "ColumnTransformer. FunctionTransformer(feature_names_out='one-to-one') keeps names."
        )
    missing = [str(name) for name in names if name not in bounds]
    unknown = [str(name) for name in bounds if name not in names]
    if missing or unknown:
        flaws = []
        if missing:
            flaws.append(f"has no pair (low, high) for {shortened(missing)}")
        if unknown:
            flaws.append(f"names {shortened(unknown)}, no column of X")
        columns = shortened([str(name) for name in names])
        raise ValueError(f"bounds {', and '.join(flaws)}. Name these columns: {columns}.")
    return [tuple(one) if isinstance(one := bounds[name], list) else one for name in names]


def checked_interval(
    bounds: Any, n_features: int, names: Sequence[Any] | None
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return lower and upper bounds of all columns; refuse bad ones. None gives None."""
    if bounds is None:
        return None
    pairs = in_order(bounds, names) if isinstance(bounds, Mapping) else _pairs(bounds, n_features)
    low, high = _NO_PAIR
    if pairs is None:
        is_array = isinstance(bounds, np.ndarray) and bounds.ndim > 0
        if (is_array or isinstance(bounds, tuple | list)) and len(bounds) == 2:
            low, high = (_numbers(end, names) for end in bounds)
    elif len(pairs) == n_features:
        ends = [_numbers(pair) for pair in pairs]
        low, high = np.transpose([pair if pair.shape == (2,) else _NO_PAIR for pair in ends])
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
    flawed = column if fits.any() else f"bounds={shown(bounds)}"
    each = f", or a list or a dict of a pair for each of the {n_features} columns"
    # Only tuples are quoted: arrays and lists of lists may be data.
    if pairs and (isinstance(bounds, Mapping) or type(bounds[0]) is tuple):
        if len(pairs) != n_features:
            raise ValueError(
                f"bounds={shown(bounds)} has {counted(len(pairs), 'pair')}, but X has {n_features} "
                "columns: pass a pair (low, high) for each, in their order."
            )
        flawed, each = f"{column}, {shown(pairs[place])},", ""
    raise ValueError(
        f"{flawed} must be (low, high){each}: finite public numbers up to {NO_CLIPPING:g} in size, "
        f"low below high by {SMALLEST_BOUND:g} or more. bounds=None finds them privately."
    )


# Stands for bounds that are no pair of numbers; `checked_interval` refuses NaN.
_NO_PAIR: tuple[Any, Any] = (np.nan, np.nan)


def _numbers(given: Any, names: Sequence[Any] | None = None) -> np.ndarray:
    """Return numbers as an array; anything else becomes NaN, even digits in strings.

    The numbers of a Series whose labels are the `names` get the order of the names.
    """
    with suppress(Exception):  # a foreign object may raise errors that show values
        if hasattr(given, "iloc") and set(given.index) == {*map(str, names or ())}:
            given = given.loc[list(names or ())]
    try:
        numbers = given if np.asarray(given).dtype.kind in "iufO" else np.nan
        return np.asarray(numbers, np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.full((), np.nan)


# ------------------------------
# Functions that give the terms of a block of rows, dense or sparse, in sums by column.

# Number of values, 128 kB, that are summed at a time, so that they stay in the cache.
_PART = 1 << 14  # not studied

#: A function that gets numbers and the column of each, and returns the bin of each: -1 for no bin,
#: and any bin for NaN.
Binning = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Intervals(NamedTuple):
    """Intervals of columns; sums are of clipped ``t = (x - middle) / half`` for the entries x."""

    middle: np.ndarray
    half: np.ndarray  # half of the length
    largest: float = 1.0  # t is clipped to this size; without noise it may exceed 1

    @property
    def shift(self) -> float:
        """Number subtracted from squares of t in [-1, 1]: .5, so that one entry changes sums less.

        It is 0 if t may be larger, as such sums get no noise.
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
    """Return a function that counts the entries of each column of a block by bin.

    With `chosen`, an array of column numbers, the function counts only these columns. It counts the
    zeros that a sparse block does not store. It counts no NaN: all entries of a null row are NaN.
    """

    def _counts(_: slice, block: Block | DenseMatrices) -> np.ndarray:
        values, columns, n_zeros, weights = _entries(block, chosen)
        bins = bins_of(values, columns)
        # The bins of all columns, one column after the other, in one histogram.
        places = bins + n_bins * columns
        # A mask is slow, and only NaN and values without a bin need one: two minima find these.
        if bins.min(initial=0) < 0 or np.isnan(values.min(initial=0.0)):
            is_counted = (bins >= 0) & ~np.isnan(values)
            places = places[is_counted]
            weights = None if weights is None else weights[is_counted]
        flat_weights = None if weights is None else weights.ravel()
        counts = np.bincount(places.ravel(), flat_weights, len(n_zeros) * n_bins)
        # With weights, counts must be floats even if there is nothing to count.
        counts = np.asarray(counts, None if weights is None else np.float64).reshape(-1, n_bins)
        if n_zeros.any():
            all_columns = np.arange(len(n_zeros))
            bins = bins_of(np.zeros(len(n_zeros)), all_columns)
            is_counted = bins >= 0
            counts[all_columns[is_counted], bins[is_counted]] += n_zeros[is_counted]
        return counts

    return _counts


def summing(intervals: Intervals, presence: float = 0.0) -> Kernel:
    """Return a function that sums t and t^2 - `shift` of a block by column, for t of `Intervals`.

    If `presence` is positive, a third sum adds this number for each entry that is not NaN.
    """

    def _terms(values: np.ndarray, columns: np.ndarray, weights: Any = None) -> list[np.ndarray]:
        """Return what each entry adds to each of the sums of its column; NaN adds 0."""
        scaled = values - intervals.middle[columns]
        scaled /= intervals.half[columns]
        np.clip(scaled, -intervals.largest, intervals.largest, out=scaled)
        squares = np.square(scaled)
        squares -= intervals.shift
        terms = [scaled, squares]
        if presence:
            terms.append(np.full(scaled.shape, presence))
        if np.isnan(scaled.min(initial=0.0)):
            is_missing = np.isnan(scaled)
            for term in terms:
                term[is_missing] = 0.0
        return terms if weights is None else [weights * term for term in terms]

    def _sums(_: slice, block: Block | DenseMatrices) -> np.ndarray:
        values, columns, n_zeros, weights = _entries(block)
        n_columns = len(n_zeros)
        sums = n_zeros * np.stack(_terms(np.zeros(n_columns), np.arange(n_columns)))
        if values.ndim == 1:  # stored entries of sparse rows
            terms = _terms(values, columns, weights)
            return np.stack([np.bincount(columns, term, n_columns) for term in terms]) + sums
        # Small parts stay in cache, and need no new memory from the system.
        n_rows_of_part = max(_PART // n_columns, 1)
        for first in range(0, values.shape[1], n_rows_of_part):
            chosen = slice(first, first + n_rows_of_part)
            part = values[:, chosen]
            if n_columns <= SHORT_ROW:
                # The copy makes numpy loop along the entries of a column, of which there are more.
                part = np.ascontiguousarray(part)
            of_part = None if weights is None else weights[:, chosen]
            terms = _terms(part, columns, of_part)
            sums += np.stack([term.sum(axis=1) for term in terms])
        return sums

    return _sums


def _entries(
    block: Block | DenseMatrices, chosen: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Return the stored entries, their columns, the number of other zeros by column, and weights.

    Entries of dense rows are transposed, an array for each column. Each entry has a weight if all
    rows of a user together count as one row; otherwise weights are None.
    """
    raw: Any = entries_of(block) if isinstance(block, DenseMatrices) else block.raw
    weights = block.sample_weight
    if not issparse(raw):
        values = np.asarray(raw.T if chosen is None else raw.T[chosen], np.float64)
        columns = np.arange(len(values))[:, np.newaxis]
        weights = None if weights is None else np.broadcast_to(weights, values.shape)
        return values, columns, np.zeros(len(values), np.intp), weights
    raw = raw if chosen is None else raw[:, chosen]
    n_rows, n_columns = raw.shape
    if weights is not None:
        n_rows, weights = weights.sum(), np.repeat(weights, np.diff(raw.indptr))
    n_zeros = n_rows - np.bincount(raw.indices, weights, n_columns)
    return raw.data.astype(np.float64), raw.indices.astype(np.intp), n_zeros, weights


# ------------------------------
# Intervals of columns in unknown units, from released counts by sign and power of two.

OTHER_UNITS_OF_X = "Pass X in other units: divide it by a public guess of its size."

# Least and largest power of two that has a bin of its own: about 1e-12 and 1e18.
_FIRST, _LAST = -40, 60  # not studied
_N_POWERS = _LAST - _FIRST + 1  # not tuned
#: Number of bins of a column: for 0, for positive numbers, and for negative numbers.
N_BINS = 2 * _N_POWERS + 1  # not tuned
# Lower and upper ends of the bins. For each sign, the first bin begins at 0, and the last bin also
# counts all larger numbers, which are clipped to its end.
_FAR_ENDS = 2.0 ** np.arange(_FIRST + 1, _LAST + 2)  # not tuned
_NEAR_ENDS = np.append(0.0, _FAR_ENDS[:-1])  # not tuned
_LOWEST = np.concatenate([[0.0], _NEAR_ENDS, -_FAR_ENDS])  # not tuned
_HIGHEST = np.concatenate([[0.0], _FAR_ENDS, -_NEAR_ENDS])  # not tuned
#: Upper ends of the bin of the least positive numbers and of the bin of the largest numbers.
ENDS = _FAR_ENDS[[0, -1]]  # not tuned
# The bin of a number by its first twelve bits, the sign and the exponent. As signed integers, the
# bits of a negative number are negative, and index `_BIN_OF` from its end.
_POWERS = np.clip(np.arange(1 << 11) - 1023, _FIRST, _LAST) - _FIRST  # not tuned
_BIN_OF = np.concatenate([1 + _POWERS, 1 + _POWERS + _N_POWERS])  # not tuned
# A bin of a histogram is visible if its count exceeds a limit. In histograms by size, where a bin
# of noise would decide the scale of a column, noise alone exceeds the limit in one of `_CAUTION`
# histograms. In histograms within an interval, such a bin only lengthens the interval, and the
# limit is lower: noise exceeds it in one of `_CAUTION_WITHIN`.
_CAUTION, _CAUTION_WITHIN = 1e5, 20.0  # benchmarks/scaling/columns.md; not studied
# `_CAUTION` grows with the square of the number of rows, if this number exceeds `_STRONG` standard
# deviations of the noise of a count.
_STRONG = 100.0  # benchmarks/scaling/columns.md
# To decide which bins of a histogram are visible, sums over 2 or 4 neighboring bins are tested,
# too. On either side of a visible bin, up to 4 more bins count as visible if each exceeds
# `_IN_TAIL` standard deviations of its noise.
_NEIGHBORS, _IN_TAIL = (2, 4), 2.5  # benchmarks/scaling/bounds.md
# A column gets an interval from its visible bins if they hold at least this fraction of its rows:
# more than a half, as a column around 0 has half of its rows on either side. The intervals of all
# other columns also follow from the average count of these columns in each bin.
_LEAST_INSIDE = 0.55  # benchmarks/scaling/bounds.md
# A column whose visible bins have one sign still counts as lying around 0 if bins of the same sizes
# and the other sign together hold more than this fraction of its rows.
_OF_OTHER_SIGN = _LEAST_INSIDE / 2  # not studied
# A column may be 0 in all rows if its noisy count of zeros falls short of the number of rows by at
# most `_SHORTFALL_OF_ZEROS` standard deviations of the noise, and if so many standard deviations
# are at most the fraction `_LARGEST_SHORTFALL_OF_ZEROS` of the rows.
_SHORTFALL_OF_ZEROS, _LARGEST_SHORTFALL_OF_ZEROS = 2.0, 0.15  # not studied
# Counts of a column surely lack rows if their sum is below the number of rows by this many standard
# deviations of the noise of the sum. The same holds for sums over several columns.
# benchmarks/scaling/columns.md, "Columns of which few rows differ"
_LACKING = 4.0
# A column is mostly 0 if zeros exceed this fraction of the rows.
_MOSTLY = 0.5  # not tuned
# Length of the interval of a column that seems to be 0 in all rows.
_SIZE_OF_VOID = 1.0  # not studied


def bins_by_size(values: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the bin of each number, by its sign and power of two; NaN may get any bin."""
    bins = _BIN_OF[values.view(np.int64) >> 52]
    bins[values == 0] = 0
    return bins


def is_visible(counts: np.ndarray, noise_std: Any, caution: float = _CAUTION) -> np.ndarray:
    """Return which counts of a histogram exceed what noise alone probably reaches."""
    return counts > noise_std * _least_visible(counts.size, caution)


def _least_visible(n_counts: int, caution: float = _CAUTION) -> float:
    """Return the least visible count, in standard deviations of its noise."""
    return math.sqrt(2 * math.log(caution * n_counts))


class SizeCounts(NamedTuple):
    """Released counts of the entries of each column by sign and power of two."""

    counts: np.ndarray  # (n_columns, N_BINS)
    noise_std: float  # of a count
    n_rows: np.ndarray  # (n_columns,), numbers of present entries, perhaps with noise


def may_be_zeros(sizes: SizeCounts, seems_constant: np.ndarray) -> np.ndarray:
    """Return which columns may be 0 in all rows, by counts of their entries by sign and size.

    Such a column is 0 in most rows. Either it `seems_constant` by its moments, or the count of
    zeros is about the number of rows and no other bin is visible. A column is left out if its count
    of zeros surely lacks rows; all are left out if the other such counts together lack rows.
    """
    counts, noise_std, n_rows = sizes
    n_zeros = counts[:, 0]
    shortfall, allowed = n_rows - n_zeros, _SHORTFALL_OF_ZEROS * noise_std
    is_all_zero = (shortfall < allowed) & (allowed < _LARGEST_SHORTFALL_OF_ZEROS * n_rows)
    is_all_zero &= ~is_visible(counts[:, 1:], noise_std).any(axis=1)
    chosen = (n_zeros > _MOSTLY * n_rows) & (seems_constant | is_all_zero)
    return chosen & ~_lack_rows(shortfall, np.full_like(shortfall, noise_std), chosen)


def _lack_rows(missing: np.ndarray, noise_std: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return which chosen columns lack rows: more are `missing` in counts than noise explains."""
    # A column lacks rows if its own missing rows exceed its noise. If the missing rows of all other
    # chosen columns together exceed the noise of their sum, all chosen columns lack rows.
    lacks_rows = missing > _LACKING * noise_std
    others = chosen & ~lacks_rows
    noise_of_sum = math.sqrt(np.square(noise_std[others]).sum())
    others_lack_rows = missing[others].sum() > _LACKING * noise_of_sum
    return np.asarray(chosen & (lacks_rows | others_lack_rows))


def lengthened_points(
    intervals: Intervals, is_point: np.ndarray, sizes: SizeCounts, outer: Intervals | None
) -> tuple[Intervals, np.ndarray]:
    """Lengthen intervals that have become extremely short, if counts by size show rows elsewhere.

    Otherwise rare values would be clipped. `is_point` marks the short intervals; return also which
    columns keep one. The new interval is that of `outer`, the public bounds. Without bounds, the
    old interval is extended to all visible bins or, if it has all of them, to 0 and to twice its
    middle.
    """
    (low, high), (counts, noise_std, n_rows) = intervals.ends, sizes
    is_inside = _overlap(low, high)
    missing = n_rows - (counts * is_inside).sum(axis=1)
    varies = _lack_rows(missing, noise_std * np.sqrt(is_inside.sum(axis=1)), is_point)
    if not varies.any():
        return intervals, is_point
    if outer is None:
        visible = hulls(np.where(is_inside, 0.0, counts)[varies], noise_std, n_rows[varies])
        others = np.stack([np.zeros_like(low), 2 * intervals.middle])
        others[:, varies] = np.where(visible[0] < visible[1], visible, others[:, varies])
        ends = np.vstack([low, high, others])
        outer = Intervals.of(ends.min(axis=0), ends.max(axis=0))
    return intervals.replaced(varies, outer), is_point & ~varies


def intervals_within(
    sizes: SizeCounts, outer: Intervals, hidden: np.ndarray
) -> tuple[Intervals, np.ndarray, np.ndarray]:
    """Shrink the intervals of hidden columns to their visible bins, if these hold most rows.

    `outer` has the bounds of the columns. Return also two masks of columns: those of which only
    zeros are visible, which get a short interval with 0; and those with most rows at one end of
    their bounds, which keep the bounds.
    """
    (least, most), (counts, noise_std, n_rows) = outer.ends, sizes
    # Entries are clipped to the bounds, so counts beyond the bounds are noise.
    counts = np.where(_overlap(least, most), counts, 0.0)
    low, high = least.copy(), most.copy()
    low[hidden], high[hidden] = hulls(counts[hidden], noise_std, n_rows[hidden])
    n_inside = counts_inside(counts, low, high).sum(axis=1)
    is_void = hidden & (low == 0) & (high == 0)
    # A column of zeros gets an interval on the side of 0 where the middle of its bounds lies.
    is_below, is_above = least + most <= 0, least + most >= 0
    low = np.where(is_void, -_SIZE_OF_VOID * is_below, low)
    high = np.where(is_void, _SIZE_OF_VOID * is_above, high)
    low, high = np.maximum(low, least), np.minimum(high, most)
    is_wide = high - low >= SMALLEST_BOUND
    is_found = hidden & is_wide & (n_inside >= _LEAST_INSIDE * n_rows)
    is_at_end = hidden & ~is_wide & (n_inside >= _MOST * n_rows)
    # All other columns keep exactly their interval, as moments in different intervals cannot be
    # averaged.
    return outer.replaced(is_found, Intervals.of(low, high)), is_void & is_found, is_at_end


def _overlap(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return which bins overlap with the interval of their column."""
    return (low[:, np.newaxis] <= _HIGHEST) & (high[:, np.newaxis] >= _LOWEST)


def counts_inside(counts: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the counts whose bins are inside the bounds of their column; others are 0."""
    is_inside = (low[:, np.newaxis] <= _LOWEST) & (high[:, np.newaxis] >= _HIGHEST)
    return np.where(is_inside, counts, 0.0)


def hulls(
    counts: np.ndarray, noise_std: float, n_rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of each column's shortest interval with all of its visible bins.

    A column is hidden if no bin but that of 0 is visible, or if visible bins have few of its rows.
    The interval of a hidden column also has 0, and the bins that are visible in the average count
    of all hidden columns, which has less noise. Counts of visible bins are left out of the average,
    as large counts of few columns would make a bin visible for all columns.

    A column around 0 may have visible bins of one sign only, with half of its rows. If noise can
    make this half exceed `_LEAST_INSIDE`, and the bins of the other sign hold many rows, the
    interval becomes symmetric.
    """
    # With many rows one can afford more caution, so that hardly any table shows a bin of noise.
    strength = float(n_rows.min()) / noise_std
    caution = _CAUTION * max(1.0, min(strength, 1e9) / _STRONG) ** 2
    visible = _visible_bins(counts / noise_std, caution)
    n_inside, noise = (counts * visible).sum(axis=1), noise_std * np.sqrt(visible.sum(axis=1))
    is_hidden = ~visible[:, 1:].any(axis=1) | (n_inside < _LEAST_INSIDE * n_rows)
    if is_hidden.any():
        is_averaged = ~visible[is_hidden]
        n_averaged = np.maximum(is_averaged.sum(axis=0, keepdims=True), 1)
        average = (counts[is_hidden] * is_averaged).sum(axis=0, keepdims=True) / n_averaged
        visible[is_hidden] |= _visible_bins(average / noise_std * np.sqrt(n_averaged), caution)
        visible[is_hidden, 0] = True
    low = np.where(visible, _LOWEST, np.inf).min(axis=1)
    high = np.where(visible, _HIGHEST, -np.inf).max(axis=1)
    has_one_sign = (low > 0) | (high < 0)
    is_symmetric = ~is_hidden & has_one_sign & (n_inside - noise < _LEAST_INSIDE * n_rows)
    # Bins of the same sizes, with the other sign, hold only noise if the column has one sign.
    by_sign = visible[:, 1:].reshape(len(visible), 2, _N_POWERS)
    opposite = by_sign[:, ::-1].reshape(len(visible), -1)
    is_symmetric &= (counts[:, 1:] * opposite).sum(axis=1) > _OF_OTHER_SIGN * n_rows
    farthest = np.maximum(-low, high)
    return np.where(is_symmetric, -farthest, low), np.where(is_symmetric, farthest, high)


def _visible_bins(scores: np.ndarray, caution: float) -> np.ndarray:
    """Return which bins by size are visible above the noise.

    `scores` are counts in standard deviations of their noise. A bin is visible if its score exceeds
    `_least_visible`. It is also visible if its score exceeds `_IN_TAIL`, and either a sum over
    neighbors of one sign exceeds noise, or a neighbor is visible.
    """
    least, may_be_tail = _least_visible(scores.size, caution), scores > _IN_TAIL
    visible = scores > least
    by_sign = np.where(visible, 0.0, scores)[:, 1:].reshape(len(scores), 2, _N_POWERS)
    for size in _NEIGHBORS:
        sums = sliding_window_view(by_sign, size, axis=2).sum(axis=-1)
        # With this padding, entry i of `in_visible_sum` says whether any of the `size` sums that
        # contain bin i is visible.
        is_visible_sum = np.pad(sums > least * math.sqrt(size), ((0, 0), (0, 0), (size - 1,) * 2))
        in_visible_sum = sliding_window_view(is_visible_sum, size, axis=2).any(axis=-1)
        visible[:, 1:] |= may_be_tail[:, 1:] & in_visible_sum.reshape(len(scores), -1)
    for _ in range(_NEIGHBORS[-1]):
        # Bins of one sign are in order of size. The bin of 0, which comes first, is no neighbor
        # of any bin, and no positive numbers are neighbors of negative ones.
        padded = np.pad(visible[:, 1:].reshape(by_sign.shape), ((0, 0), (0, 0), (1, 1)))
        is_beside = (padded[:, :, 2:] | padded[:, :, :-2]).reshape(len(scores), -1)
        visible[:, 1:] |= may_be_tail[:, 1:] & is_beside
    return visible


# ------------------------------
# Narrow columns far from 0, such as years, whose intervals shrink to most of their entries.

# A column may be narrow beside its distance from 0 if the ratio of the ends of its interval is at
# most this number.
_LARGEST_RATIO = 4.0  # benchmarks/classification/constants.md
# An interval shrinks to its visible bins if these hold at least the fraction `_MOST` of the rows,
# and at least `_MOST_SURELY` after one standard deviation of noise is subtracted. With smaller
# fractions an interval could leave out a cluster with a fifth of the rows, or the few rows in which
# a column that is otherwise constant differs.
_MOST, _MOST_SURELY = 0.95, 0.85  # benchmarks/scaling/columns.md
# Neighboring bins are merged as long as there are at least this many: with fewer, intervals would
# shrink by little, and could lose rows.
_FEWEST_BINS = 16  # benchmarks/classification/constants.md
# A column whose interval shrinks to fewer bins than this may be constant. A constant is in one bin,
# or on the edge of two bins, and one bin is added on each side: 4 bins at most.
_POINT_BINS = 4.5  # not tuned
# A bin may have all rows if its noisy count falls short of the number of rows by at most
# `_SHORTFALL` standard deviations of the noise, and if so many standard deviations are at most the
# fraction `_LARGEST_SHORTFALL` of the rows.
_SHORTFALL, _LARGEST_SHORTFALL = 4.0, 0.12  # not studied


def are_narrow(intervals: Intervals) -> np.ndarray:
    """Return which columns may be narrow beside their distance from 0.

    Counts by sign and power of two do not show how narrow a column is that lies on one side of 0,
    within few powers of two, such as a column of years. Only such columns get a histogram of equal
    bins.
    """
    near = np.abs(intervals.middle) - intervals.half
    return (near > 0) & (np.abs(intervals.middle) + intervals.half <= _LARGEST_RATIO * near)


def are_points(intervals: Intervals, before: Intervals, n_bins: int) -> np.ndarray:
    """Return which intervals have so few bins that the column may be constant.

    A histogram has divided the intervals `before` into `n_bins` bins.
    """
    return np.asarray(intervals.half * n_bins < _POINT_BINS * before.half)


def bins_within(
    values: np.ndarray, columns: np.ndarray, intervals: Intervals, wide: Intervals, n_bins: int
) -> np.ndarray:
    """Return the bin of each value among equal bins of its interval; -1 for values outside."""
    # Values are first clipped to the `wide` interval of their column.
    low, high = (end[columns] for end in wide.ends)
    bins = np.clip(values, low, high)
    bins -= intervals.ends[0][columns]
    bins *= (n_bins / 2 / intervals.half)[columns]
    # The minimum is NaN if any value is, so that NaN values get -1, too.
    if not (bins.min(initial=0.0) >= 0 and bins.max(initial=0.0) <= n_bins):
        bins[~((bins >= 0) & (bins <= n_bins))] = -1.0
    return np.minimum(bins, n_bins - 1, out=bins).astype(np.intp)


def zoomed_intervals(
    intervals: Intervals,
    chosen: np.ndarray,
    counts: np.ndarray,
    stds: np.ndarray,
    sizes: SizeCounts,
) -> tuple[Intervals, np.ndarray, np.ndarray]:
    """Shrink the intervals of chosen columns to the visible bins that hold most of their rows.

    `counts` are the counts of equal bins within the intervals; `stds` are their noise by column.
    There are many bins, as the noise of a count does not depend on their number; `_most_of` merges
    neighbors. If the counts by size, which have less noise, show too many rows outside of a new
    interval, the old interval stays. Return also two masks of columns: those to zoom into once
    more, as their intervals have shrunk or their visible bins hold too few rows; and those whose
    new intervals leave out visible bins.
    """
    n_rows = sizes.n_rows[chosen]
    middle, half, is_open = intervals.middle.copy(), intervals.half.copy(), chosen.copy()
    first, last, is_majority = _most_of(counts, stds, n_rows)
    # The counts by size show how many rows are outside of the interval from `first` to `last`.
    old = intervals.of_columns(chosen)
    is_out = ~_overlap(*(old.ends[0] + 2 * old.half * np.stack([first, last])))
    stays = (sizes.counts[chosen] * is_out).sum(axis=1) > (1 - _MOST) * n_rows
    first, last = np.where(stays, 0.0, first), np.where(stays, 1.0, last)
    middle[chosen] += half[chosen] * (first + last - 1)
    half[chosen] *= last - first
    is_open[chosen] = (last - first < 1) | ~(is_majority | stays)
    bins = np.arange(counts.shape[1])
    first_bin, end_bin = counts.shape[1] * np.stack([first, last])[:, :, np.newaxis]
    is_out = (bins < first_bin) | (bins >= end_bin)
    leaves_out = np.zeros_like(chosen)
    leaves_out[chosen] = (is_visible(counts, stds[:, np.newaxis]) & is_out).any(axis=1)
    return Intervals(middle, half), is_open, leaves_out


def _most_of(
    counts: np.ndarray, noise_stds: np.ndarray, n_rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the shortest range of bins of each interval that holds most of its rows.

    Each round tests the range of the visible bins, then merges pairs of neighboring bins, so that
    noise hides fewer rows. Return the ends, in [0, 1], and whether any range held most rows.
    """
    low, high = np.zeros(len(counts)), np.ones(len(counts))
    is_majority = np.zeros(len(counts), bool)
    while (n_bins := counts.shape[1]) >= _FEWEST_BINS:
        seen = is_visible(counts, noise_stds[:, np.newaxis], _CAUTION_WITHIN)
        largest, allowed = counts.argmax(axis=1), _SHORTFALL * noise_stds
        # If one bin may have all rows, other counts are taken for noise.
        is_all = (n_rows - counts.max(axis=1) < allowed) & (allowed < _LARGEST_SHORTFALL * n_rows)
        # Without visible bins, the range is that of all bins.
        first = np.where(is_all, largest, seen.argmax(axis=1))
        stop = np.where(is_all, largest + 1, n_bins - seen[:, ::-1].argmax(axis=1))
        bins_of_columns = zip(counts, first, stop, strict=True)
        n_inside = np.array([column[start:end].sum() for column, start, end in bins_of_columns])
        certain = n_inside - np.sqrt(stop - first) * noise_stds
        holds_most = is_all | ((n_inside >= _MOST * n_rows) & (certain >= _MOST_SURELY * n_rows))
        # One more bin is added on each side, as thin tails are invisible.
        lower, upper = np.maximum(first - 1, 0) / n_bins, np.minimum(stop + 1, n_bins) / n_bins
        is_majority |= holds_most
        is_shorter = holds_most & (upper - lower < high - low)
        low, high = np.where(is_shorter, lower, low), np.where(is_shorter, upper, high)
        counts, noise_stds = counts[:, ::2] + counts[:, 1::2], noise_stds * math.sqrt(2)
    return low, high, is_majority
