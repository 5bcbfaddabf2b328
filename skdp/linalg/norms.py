"""Norms of rows, views of sparse arrays, histograms, and quantiles by noisy counts on a grid."""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls
from scipy.sparse import csc_array, csr_array, issparse
from scipy.special import ndtr, ndtri

# Rows are scaled by 2 ** exponent. In this range the factor is a normal number, and squares of
# scaled entries neither overflow nor underflow.
_EXPONENT_RANGE = (-1000, 1000)  # not tuned
UNIT_ROUNDOFF = 2.0**-53  # not tuned
#: Floats represent all integers up to this one.
EXACT = 2.0**53  # not tuned
# Every sensitivity includes at least this relative rounding. It covers errors without a bound of
# their own: for example, a computed basis is orthonormal only up to rounding.
LEAST_ROUNDING = 1e-5  # not tuned
# Sums of squares within these limits have neither overflowed nor underflowed.
_SAFE_SQUARES = (1e-200, 1e200)  # not tuned


def row_norms(values: np.ndarray) -> np.ndarray:
    """Compute the norms of the rows; the norm of a row that is not finite is inf or NaN."""
    if values.shape[1] == 1:
        return np.abs(values[:, 0].astype(np.float64))
    squares = row_squares(values)
    norms = np.sqrt(squares)
    extreme = ~((squares > _SAFE_SQUARES[0]) & (squares < _SAFE_SQUARES[1]))
    if extreme.any():
        # Squares of extreme rows could overflow or underflow.
        exponents = exponents_of(np.abs(values[extreme]).max(axis=1))
        scaled = values[extreme] * np.ldexp(1.0, -exponents)[:, None]
        norms[extreme] = np.ldexp(np.sqrt(row_squares(scaled)), exponents)
    return norms


def row_products(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the inner product of each row with the same row of `others`, or with its only row.

    BLAS is not used: there the rounding of a row depends on its position.
    """
    several = np.ascontiguousarray(never_single(values))
    return np.asarray(np.einsum("ij,ij->i", several, others)[: len(values)])


def row_squares(values: np.ndarray) -> np.ndarray:
    """Sum the squares of each row in double precision, in an order that is always the same."""
    several = np.ascontiguousarray(never_single(values))
    return np.asarray(np.einsum("ij,ij->i", several, several, dtype=np.float64)[: len(values)])


def never_single(rows: np.ndarray) -> np.ndarray:
    """Repeat a single row, because numpy sums a single row in another order than several rows."""
    return np.repeat(rows, 2, axis=0) if len(rows) == 1 else rows


def aligned(values: np.ndarray) -> np.ndarray:
    """Return a copy in which each row starts at a multiple of 16 bytes, unless all rows do.

    On some processors the order of a sum depends on the address of its numbers.
    """
    n_rows, size = values.shape
    if size % 2 == 0:
        return values
    padded = np.zeros((n_rows, size + 1))[:, :size]
    padded[:] = values
    return padded


def sparse_row_norms(rows: csr_array) -> np.ndarray:
    """Compute the Euclidean norms of the rows of a CSR array without duplicate entries."""
    exponents = exponents_of(_reduce_rows(np.maximum, np.abs(rows.data), rows.indptr))
    scaled = rows.data * np.repeat(np.ldexp(1.0, -exponents), np.diff(rows.indptr))
    scaled *= scaled
    return np.ldexp(np.sqrt(_reduce_rows(np.add, scaled, rows.indptr)), exponents)


def centered_sparse_norms(rows: csr_array, center: np.ndarray) -> np.ndarray:
    r"""Return upper bounds of the norms of sparse rows minus `center`.

    :math:`\|x\|^2 - 2 x \cdot m + \|m\|^2` cancels if a row is close to a long center. So
    :math:`8 d u (\|x\| + \|m\|)^2` is added, a bound on the rounding error.
    """
    n_features = rows.shape[1]
    norms = sparse_row_norms(rows)
    center_norm = row_norms(center[None])[0]
    scale = np.maximum(norms, center_norm)
    scale[scale == 0] = 1.0
    lengths = np.diff(rows.indptr)
    # Entries are divided by the scale of their row before they are multiplied by the center.
    scaled = rows.data / np.repeat(scale, lengths)
    relative_center = center / (center_norm or 1.0)
    products = _reduce_rows(np.add, scaled * relative_center[rows.indices], rows.indptr)
    center_norms = center_norm / scale
    lengths_squared = (norms / scale) ** 2 - 2 * products * center_norms + center_norms**2
    margin = 8 * (n_features + 4) * UNIT_ROUNDOFF * (norms / scale + center_norms) ** 2
    bounds = scale * np.sqrt(np.maximum(lengths_squared, 0) + margin)
    return np.where(np.isinf(norms), np.inf, bounds)


def exponents_of(peaks: np.ndarray) -> np.ndarray:
    """Return e such that |peak| <= 2 ** e, clipped to the range in which 2 ** -e is normal."""
    return np.clip(np.frexp(peaks)[1], *_EXPONENT_RANGE)


def _reduce_rows(ufunc: np.ufunc, values: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """Reduce `values` over the segments of `indptr`; empty segments give 0."""
    out = np.zeros(len(indptr) - 1)
    filled = np.diff(indptr) > 0
    if values.size:
        out[filled] = ufunc.reduceat(values, indptr[:-1][filled])
    return out


# ------------------------------
# Sparse arrays: dense copies, and views that share memory.


def as_dense(values: Any) -> np.ndarray:
    """Return a dense array."""
    return np.asarray(values.toarray() if issparse(values) else values)


def with_data(rows: csr_array, data: np.ndarray) -> csr_array:
    """Return a sparse array with the same pattern and other data."""
    return csr_array((data, rows.indices, rows.indptr), shape=rows.shape)


def rows_of(X: csr_array, rows: slice) -> csr_array:
    """Return a view of consecutive rows."""
    start, stop = X.indptr[rows.start], X.indptr[rows.stop]
    indptr = X.indptr[rows.start : rows.stop + 1] - start
    shape = rows.stop - rows.start, X.shape[1]
    return _view(csr_array, shape, X.data[start:stop], X.indices[start:stop], indptr)


def transposed(rows: csr_array) -> csc_array:
    """Return a view of the transpose."""
    return _view(csc_array, rows.shape[::-1], rows.data, rows.indices, rows.indptr)


def _view(kind: Any, shape: tuple[int, int], data: np.ndarray, *places: np.ndarray) -> Any:
    view = kind(shape, dtype=data.dtype)
    # The constructor and the attribute T would copy data that are less than half of their base
    # array, so data are set afterwards.
    view.data, (view.indices, view.indptr) = data, places
    return view


# ------------------------------
# Histograms over public bins, and quantiles from noisy counts.


class GridCounts(NamedTuple):
    """The number of units up to each point of a public grid.

    The counts are exact: only a budget may release them. With weights the counts are not rounded to
    integers, as rounding could turn a small change of weight into a change of 1.
    """

    grid: np.ndarray
    up_to_points: np.ndarray
    n_units: int

    @classmethod
    def of(cls, grid: np.ndarray, in_bins: np.ndarray, n_units: int) -> "GridCounts":
        """Sum the counts of `bin_counts`, without its last bin, which is beyond the grid."""
        return cls(grid, np.cumsum(in_bins[:-1]), n_units)

    @classmethod
    def in_all(
        cls, grid: np.ndarray, values: np.ndarray, n_units: int, weights: np.ndarray | None = None
    ) -> "GridCounts":
        """Count the values of units; a NaN, the value of a null unit, does not count.

        `n_units` is the number of all units; `values` may have a part of them.
        """
        return cls.of(grid, bin_counts(values, np.append(grid, np.inf), weights), n_units)

    def zeros_last(self) -> "GridCounts":
        """Move the first point of the grid, and its units, behind all other points.

        Each unit is still in at most one bin, and changes each count by at most 1.
        """
        n_zeros = self.up_to_points[0]
        in_order = np.append(self.up_to_points[1:] - n_zeros, self.up_to_points[-1])
        return GridCounts(np.roll(self.grid, -1), in_order, self.n_units)


def bin_counts(
    values: np.ndarray, edges: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Count the values in each bin: above the previous edge, and up to its own edge.

    The last bin also has all larger values. NaN, the value of a null unit, does not count. The
    counts are exact: only a budget may release them. With `weights`, a value counts as its weight.
    """
    is_there = ~np.isnan(values)
    if weights is None and len(values) > len(edges):
        # Sorting all values takes less time than searching for each.
        up_to = np.searchsorted(np.sort(values[is_there]), edges, side="right")
        up_to[-1] = np.count_nonzero(is_there)
        return np.diff(up_to, prepend=0)
    bins = np.minimum(np.searchsorted(edges, values[is_there]), len(edges) - 1)
    return np.bincount(bins, None if weights is None else weights[is_there], len(edges))


def unclipped_squares(bound: float, q: float, points: np.ndarray, fractions: np.ndarray) -> float:
    r"""Estimate which part of the sum of squared norms remains if norms are clipped to a quantile.

    The `q` quantile of the norms is `bound`. `fractions` of the norms do not exceed the `points`
    above it. Norms are assumed to be log-normal: a line from the bound through the points gives the
    standard deviation :math:`\sigma` of their logarithms. With :math:`z = \Phi^{-1}(q)` the part is

    .. math:: \Phi(z - 2\sigma) + (1 - \Phi(z)) \exp(2 \sigma z - 2 \sigma^2).
    """
    z = float(ndtri(q))
    scores = ndtri(fractions) - z
    spread = float(scores @ np.log(points / bound)) / float(scores @ scores)
    return float(ndtr(z - 2 * spread) + ndtr(-z) * np.exp(2 * spread * (z - spread)))


def quantile_from_counts(counts: np.ndarray, edges: np.ndarray, q: float) -> float:
    """Return the first edge up to which a part `q` of the counts lies; negative counts become 0."""
    cumulative = np.cumsum(np.maximum(counts, 0.0))
    return float(edges[min(np.searchsorted(cumulative, q * cumulative[-1]), len(edges) - 1)])


# ------------------------------
# Searches over a grid: where to count next, and which point the noisy counts show.

# Most halvings whose counts one step of a search releases. With more, the counts that matter, near
# the target, would get too little of the share.
_MOST_LEVELS = 3  # benchmarks/search/halvings.md
# Noise std of a fitted count, relative to the noise std of a released count.
_FITTED_NOISE = 0.5  # not studied
# A point may be the result if its fitted count is within so many noise stds of the target.
_NEAR_TARGET = 2.0  # benchmarks/search/halvings.md
# A point whose odds are below this part of the largest odds cannot be the result.
_RULED_OUT = 0.01  # not tuned
_ROUNDING = 1e-6  # not tuned
# Counts sum to the public number of units: weight of this equation, relative to a noisy count.
_WEIGHT_OF_ALL = 30.0  # not tuned
# Noisy counts are clipped to this many times the number of units.
_CLIP = 1e3  # not tuned
# Limit of iterations; fits of so few numbers never reach it.
_MOST_ITERATIONS = 10_000  # not tuned


def n_halvings(n_points: int) -> int:
    """Return how many halvings reduce `n_points` points to a single point."""
    return math.ceil(math.log2(n_points))


def steps_of(n_points: int) -> tuple[int, int]:
    """Return the number of steps of a search, and the number of halvings in a step."""
    halvings = n_halvings(n_points)
    n_steps = math.ceil(halvings / _MOST_LEVELS)
    return n_steps, max(math.ceil(halvings / max(n_steps, 1)), 1)


def tree_of_differences(n_levels: int) -> np.ndarray:
    """Return the matrix that maps cumulated counts of bins to a tree of differences.

    The points are the ends of 2 ** `n_levels` bins. Each interval of the tree (all bins, either
    half, and so on) has one row, at its middle: the count up to the middle, minus the mean of the
    counts up to both ends. Entries are 0, 1 and -1/2: products with integers are exact.
    """
    n_bins = 2**n_levels
    found = np.eye(n_bins + 1)
    for level in range(n_levels):
        half = n_bins >> (level + 1)
        middles = np.arange(half, n_bins, 2 * half)
        found[middles, middles - half] = found[middles, middles + half] = -0.5
    return found[1:-1, 1:]


class GridSearch:
    """A search for the first point up to which `target` of `n_units` units lie."""

    def __init__(self, n_points: int, n_units: int, target: float, *, is_exact: bool) -> None:
        self._n_units, self._target, self._odds = n_units, target, np.ones(n_points)
        self._noise_std = 0.0
        tree = tree_of_differences(steps_of(n_points)[1])
        # Without noise, counts are released instead of the tree.
        self._is_exact, self._tree = is_exact, np.eye(*tree.shape) if is_exact else tree
        self._places = np.zeros((0, len(tree)), dtype=np.intp)  # of the points of all steps
        self._noisy = np.zeros((0, len(tree)))
        #: Places of the points that were counted, and the counts that fit best.
        self.counted = np.zeros(0, dtype=np.intp), np.zeros(0)

    def next_places(self) -> np.ndarray:
        """Return the next points up to which to count; they split the odds into equal parts."""
        bins = len(self._tree) + 1
        # The last point is the result if no other is: a count up to it would decide nothing.
        places = np.minimum(_quantiles(self._odds, np.arange(1, bins) / bins), len(self._odds) - 2)
        self._places = np.vstack([self._places, places])
        return places

    def differences(self, up_to: np.ndarray) -> np.ndarray:
        """Return the tree of differences that is released, from counts up to the next points."""
        return self._tree[:, :-1] @ up_to

    def learn(self, noisy: np.ndarray, noise_std: float) -> None:
        """Fit counts to all releases so far, and update how likely each point is."""
        self._noise_std = noise_std
        self._noisy = np.vstack([self._noisy, noisy])
        points, first = np.unique(self._places, return_index=True)
        if self._is_exact:
            counts = np.maximum.accumulate(self._noisy.ravel()[first])
            at_least = (counts >= self._target).astype(float)
        else:
            counts = self._fitted(points)
            at_least = ndtr((counts - self._target) / (_FITTED_NOISE * noise_std))
        self.counted = points, counts
        likely = np.append(at_least, 1.0) * np.append(1.0, 1 - at_least)
        self._odds = np.repeat(likely, np.diff(points, prepend=-1, append=len(self._odds) - 1))

    def _fitted(self, points: np.ndarray) -> np.ndarray:
        """Fit counts between points, none negative, to all releases; return their running sums."""
        last = len(self._odds)
        # Fractions of all units. That of the last point is known to be 1: releases lack its term.
        places = np.pad(self._places, ((0, 0), (0, 1)), constant_values=last)
        sums = self._tree @ (np.append(points, last) <= places[..., np.newaxis])
        found = np.clip(self._noisy / self._n_units, -_CLIP, _CLIP) + self._tree[:, -1]
        lines = np.vstack([sums.reshape(found.size, -1), np.full(len(points) + 1, _WEIGHT_OF_ALL)])
        in_bins, _ = nnls(lines, np.append(found, _WEIGHT_OF_ALL), maxiter=_MOST_ITERATIONS)
        return np.cumsum(in_bins[:-1]) * self._n_units

    def place(self) -> int:
        """Return the index of the resulting point.

        If the fitted count up to some point may be the target, the result is that point. The median
        of the odds could miss this point, as thousands of points in the next bin share odds.
        Otherwise the result is the median of the odds.
        """
        away = np.abs(self.counted[1] - self._target)
        if not self._is_exact and away.min(initial=np.inf) <= _NEAR_TARGET * self._noise_std:
            return int(self.counted[0][away.argmin()])
        is_candidate = self._odds > _RULED_OUT * self._odds.max()
        return int(_quantiles(np.where(is_candidate, self._odds, 0.0), 0.5))


def _quantiles(odds: np.ndarray, fractions: np.ndarray | float) -> np.ndarray:
    """Return the first points up to which the given fractions of the odds sum."""
    total = np.cumsum(odds)
    return np.searchsorted(total, total[-1] * (1 - _ROUNDING) * fractions)
