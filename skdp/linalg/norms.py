"""Norms of rows, views of sparse arrays, histograms, and quantiles by noisy counts on a grid."""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls
from scipy.sparse import csc_array, csr_array, issparse
from scipy.special import ndtr, ndtri

# Extreme and sparse rows are divided by a power of two before they are squared. With an exponent in
# this range, the power and its inverse are normal floats, and no square overflows or underflows.
_EXPONENT_RANGE = (-1000, 1000)  # not tuned
UNIT_ROUNDOFF = 2.0**-53  # not tuned
#: Floats represent all integers up to this one.
EXACT = 2.0**53  # not tuned
# Every sensitivity is increased by at least this fraction of itself. That covers rounding errors
# without a bound of their own: for example, a computed basis is orthonormal only up to rounding.
LEAST_ROUNDING = 1e-5  # not tuned
# Sums of squares within these limits have neither overflowed nor underflowed.
_SAFE_SQUARES = (1e-200, 1e200)  # not tuned


def row_norms(values: np.ndarray) -> np.ndarray:
    """Compute the norms of the rows; the norm of a row that is not finite is inf or NaN."""
    squares = row_squares(values)
    norms = np.sqrt(squares)
    is_extreme = ~((squares > _SAFE_SQUARES[0]) & (squares < _SAFE_SQUARES[1]))
    if is_extreme.any():
        exponents = exponents_of(np.abs(values[is_extreme]).max(axis=1))
        scaled = values[is_extreme] * np.ldexp(1.0, -exponents)[:, None]
        norms[is_extreme] = np.ldexp(np.sqrt(row_squares(scaled)), exponents)
    return norms


def row_products(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the inner product of each row with the same row of `others`, or with its only row.

    BLAS is not used: with BLAS, the rounding of a product would depend on the position of its row.
    """
    rows = np.ascontiguousarray(never_single(values))
    return np.asarray(np.einsum("ij,ij->i", rows, others)[: len(values)])


def row_squares(values: np.ndarray) -> np.ndarray:
    """Sum the squares of each row in double precision, in the same order for any number of rows."""
    rows = np.ascontiguousarray(never_single(values))
    return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64)[: len(values)])


def never_single(rows: np.ndarray) -> np.ndarray:
    """Repeat a single row, because numpy sums a single row in another order than several rows."""
    return np.repeat(rows, 2, axis=0) if len(rows) == 1 else rows


def aligned(values: np.ndarray) -> np.ndarray:
    """Return rows that all start at a multiple of 16 bytes: the given ones, or a copy.

    On some processors, the order of the additions in a sum depends on the memory address.
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
    return np.ldexp(np.sqrt(_reduce_rows(np.add, scaled * scaled, rows.indptr)), exponents)


def centered_sparse_norms(rows: csr_array, center: np.ndarray) -> np.ndarray:
    r"""Return upper bounds of the norms of sparse rows minus `center`.

    For a row x of d features and a center m, the squared norm is :math:`\|x\|^2 - 2 x \cdot m +
    \|m\|^2`. These terms may nearly cancel, so that a bound on their rounding errors, :math:`8 d u
    (\|x\| + \|m\|)^2` for the unit roundoff u, is added.
    """
    norms = sparse_row_norms(rows)
    center_norm = row_norms(center[None])[0]
    # All lengths are divided by the scale of their row, so that no square or product overflows.
    scale = np.maximum(norms, center_norm)
    scale[scale == 0] = 1.0
    scaled = rows.data / np.repeat(scale, np.diff(rows.indptr))
    unit_center = center / (center_norm or 1.0)
    products = _reduce_rows(np.add, scaled * unit_center[rows.indices], rows.indptr)
    of_rows, of_center = norms / scale, center_norm / scale
    squares = of_rows**2 - 2 * products * of_center + of_center**2
    margin = 8 * (rows.shape[1] + 4) * UNIT_ROUNDOFF * (of_rows + of_center) ** 2
    bounds = scale * np.sqrt(np.maximum(squares, 0) + margin)
    return np.where(np.isinf(norms), np.inf, bounds)


def exponents_of(peaks: np.ndarray) -> np.ndarray:
    """Return e such that |peak| <= 2 ** e, clipped to the range in which 2 ** -e is normal."""
    return np.clip(np.frexp(peaks)[1], *_EXPONENT_RANGE)


def _reduce_rows(ufunc: np.ufunc, values: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """Reduce `values` of a CSR array row by row; the result of an empty row is 0."""
    results = np.zeros(len(indptr) - 1)
    is_filled = np.diff(indptr) > 0
    if values.size:
        results[is_filled] = ufunc.reduceat(values, indptr[:-1][is_filled])
    return results


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
    # The data are set afterwards: the constructor, and the attribute T, would copy data that are
    # less than half of the array of which they are a view.
    view.data, (view.indices, view.indptr) = data, places
    return view


# ------------------------------
# Histograms over public bins, and quantiles from noisy counts.


class GridCounts(NamedTuple):
    """The number of units up to each point of a public grid, before noise is added.

    Only a budget may release these counts. With weights they are sums that are not rounded to
    integers, as rounding could turn a small change of a weight into a change of 1.
    """

    grid: np.ndarray
    up_to_points: np.ndarray
    n_units: int
    # Whether the last point of the grid is 0: units with the value 0, and units beyond the grid,
    # are counted at this point only.
    has_zeros_last: bool = False

    @classmethod
    def of(cls, grid: np.ndarray, in_bins: np.ndarray, n_units: int) -> "GridCounts":
        """Make grid counts from the result of `bin_counts`, whose last bin is beyond the grid."""
        return cls(grid, np.cumsum(in_bins[:-1]), n_units)

    @classmethod
    def in_all(
        cls, grid: np.ndarray, values: np.ndarray, n_units: int, weights: np.ndarray | None = None
    ) -> "GridCounts":
        """Count the values of units up to each point.

        NaN, the value of a null unit, is not counted. `n_units` is the number of all units, also of
        those that have no entry in `values`.
        """
        return cls.of(grid, bin_counts(values, np.append(grid, np.inf), weights), n_units)

    def zeros_last(self) -> "GridCounts":
        """Move the first point of the grid, and the units at it, behind all other points.

        Each unit is still in at most one bin, so that it changes each count by at most 1.
        """
        n_zeros = self.up_to_points[0]
        in_order = np.append(self.up_to_points[1:] - n_zeros, self.up_to_points[-1])
        return GridCounts(np.roll(self.grid, -1), in_order, self.n_units, has_zeros_last=True)


def bin_counts(
    values: np.ndarray, edges: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Count the values in each bin: above the previous edge, and up to the edge of the bin.

    The last bin also contains all larger values. NaN, the value of a null unit, is not counted.
    With `weights`, the count of a value is its weight. Only a budget may release the counts.
    """
    is_counted = ~np.isnan(values)
    bins = np.minimum(np.searchsorted(edges, values[is_counted]), len(edges) - 1)
    return np.bincount(bins, None if weights is None else weights[is_counted], len(edges))


def unclipped_squares(bound: float, q: float, points: np.ndarray, fractions: np.ndarray) -> float:
    r"""Estimate which fraction of the sum of squared norms clipping to a quantile leaves.

    The `q` quantile of the norms is `bound`. The `fractions` of all norms do not exceed `points`,
    which are above the bound. Norms are assumed to be log-normal. The standard deviation
    :math:`\sigma` of their logarithms is the slope of a line that starts at the bound and is fitted
    to the points, in normal scores. With :math:`z = \Phi^{-1}(q)` the fraction is

    .. math:: \Phi(z - 2\sigma) + (1 - \Phi(z)) \exp(2 \sigma z - 2 \sigma^2).
    """
    z = float(ndtri(q))
    scores = ndtri(fractions) - z
    spread = float(scores @ np.log(points / bound)) / float(scores @ scores)
    return float(ndtr(z - 2 * spread) + ndtr(-z) * np.exp(2 * spread * (z - spread)))


def quantile_from_counts(counts: np.ndarray, edges: np.ndarray, q: float) -> float:
    """Return the first edge with a fraction `q` of counts up to it; negative counts become 0."""
    cumulative = np.cumsum(np.maximum(counts, 0.0))
    return float(edges[min(np.searchsorted(cumulative, q * cumulative[-1]), len(edges) - 1)])


# ------------------------------
# Searches over a grid: where to count next, and which point the noisy counts show.

# Largest number of halvings in a step. One release has the counts of all its points: with more
# points, the few counts near the target, which decide the search, would have too much noise.
_MOST_LEVELS = 3  # benchmarks/search/halvings.md
# Noise std of a fitted count, relative to the noise std of a released count.
_FITTED_NOISE = 0.5  # not studied
# If the fitted count up to a counted point is within this many noise stds of the target count, the
# search ends at this point.
_NEAR_TARGET = 2.0  # benchmarks/search/halvings.md
#: A search finds a quantile reliably if the number of units above it is at least this many times
#: the noise std of a count. A search skips zeros if the number of other units is as large.
COUNT_MARGIN = 4.0  # not studied
# A point of the grid is ruled out as the result if its odds are below this part of the top odds.
_RULED_OUT = 0.01  # not tuned
# Fractions of all odds are reduced by this part: rounding of the sums of odds could otherwise move
# a quantile to the next point.
_ROUNDING = 1e-6  # not tuned
# Weight of the equation that all counts sum to the number of units, which is public. The equation
# of a noisy count has weight 1.
_WEIGHT_OF_ALL = 30.0  # not tuned
# Noisy counts are clipped to this many times the number of units.
_CLIP = 1e3  # not tuned
# Limit of iterations for `nnls`, which problems as small as those of a search never reach.
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
    """Return the matrix that maps the counts up to the end of each bin to a tree of differences.

    There are 2 ** `n_levels` bins. The intervals of the tree are all bins, both halves of them, and
    so on. The row of an interval gives the count up to its middle, minus the mean of the counts up
    to both of its ends. Entries are 0, 1 and -1/2, so that products with integers are exact.
    """
    n_bins = 2**n_levels
    matrix = np.eye(n_bins + 1)
    for level in range(n_levels):
        half = n_bins >> (level + 1)
        middles = np.arange(half, n_bins, 2 * half)
        matrix[middles, middles - half] = matrix[middles, middles + half] = -0.5
    return matrix[1:-1, 1:]


class GridSearch:
    """A search for the first point up to which a fraction `q` of `n_units` units lie.

    With `skips_zeros`, `q` is a fraction of the units that are not 0, and the grid has 0 last.
    """

    def __init__(
        self, n_points: int, n_units: int, q: float, *, is_exact: bool, skips_zeros: bool = False
    ) -> None:
        self._n_units, self._q, self._odds = n_units, q, np.ones(n_points)
        self._noise_std, self._skips_zeros = 0.0, skips_zeros
        #: Number of units among which a quantile is sought; an estimate if zeros are skipped.
        self.n_sought = float(n_units)
        tree = tree_of_differences(steps_of(n_points)[1])
        # Without noise, counts are released instead of differences.
        self._is_exact, self._tree = is_exact, np.eye(*tree.shape) if is_exact else tree
        # One row for each step: the indices of its points on the grid, and its releases.
        self._places = np.zeros((0, len(tree)), dtype=np.intp)
        self._noisy = np.zeros((0, len(tree)))
        #: Indices of all points so far, and the counts up to them that fit the releases best.
        self.counted = np.zeros(0, dtype=np.intp), np.zeros(0)

    def next_places(self) -> np.ndarray:
        """Return the next points up to which to count; they split the odds into equal parts."""
        bins = len(self._tree) + 1
        # No count up to the last point is needed: that point is the result if no other one is.
        places = np.minimum(_quantiles(self._odds, np.arange(1, bins) / bins), len(self._odds) - 2)
        if self._skips_zeros and not len(self._places):
            # The count up to the end of the grid is that of all units that are not 0.
            places[-1] = len(self._odds) - 2
        self._places = np.vstack([self._places, places])
        return places

    def differences(self, up_to: np.ndarray) -> np.ndarray:
        """Compute the differences to release, from the counts up to the points of a step."""
        return self._tree[:, :-1] @ up_to

    def learn(self, noisy: np.ndarray, noise_std: float) -> None:
        """Fit counts to all releases so far, and update how likely each point is."""
        self._noise_std = noise_std
        self._noisy = np.vstack([self._noisy, noisy])
        points, first = np.unique(self._places, return_index=True)
        if self._is_exact:
            counts = np.maximum.accumulate(self._noisy.ravel()[first])
        else:
            counts = self._fitted(points)
        if self._skips_zeros and counts[-1] > COUNT_MARGIN * noise_std:
            self.n_sought = float(counts[-1])
        self.counted = points, counts
        # The probability that the exact counts are as large as the target.
        beyond = counts - self._target()
        if self._is_exact:
            is_reached = (beyond >= 0).astype(float)
        else:
            is_reached = ndtr(beyond / (_FITTED_NOISE * noise_std))
        # The result lies between two points if the target is reached at the second, but not at the
        # first. All points of the grid between the two are equally likely.
        odds = np.append(is_reached, 1.0) * np.append(1.0, 1 - is_reached)
        self._odds = np.repeat(odds, np.diff(points, prepend=-1, append=len(self._odds) - 1))

    def _target(self) -> float:
        """Return the wanted count; if zeros are skipped, noise does not hide it from either end."""
        target, n_units = self._q * self.n_sought, self.n_sought
        if n_units == self._n_units:
            return target
        margin = min(COUNT_MARGIN * self._noise_std, n_units / 2)
        return min(max(target, margin), n_units - margin)

    def _fitted(self, points: np.ndarray) -> np.ndarray:
        """Fit nonnegative counts between the points to all releases; return their running sums."""
        last = len(self._odds)
        # Counts become fractions of the units. Up to the last point all units are counted, which is
        # public: `differences` leaves out this term, and here it is added.
        places = np.pad(self._places, ((0, 0), (0, 1)), constant_values=last)
        effects = self._tree @ (np.append(points, last) <= places[..., np.newaxis])
        noisy = np.clip(self._noisy / self._n_units, -_CLIP, _CLIP) + self._tree[:, -1]
        total = np.full(len(points) + 1, _WEIGHT_OF_ALL)
        equations = np.vstack([effects.reshape(noisy.size, -1), total])
        in_bins, _ = nnls(equations, np.append(noisy, _WEIGHT_OF_ALL), maxiter=_MOST_ITERATIONS)
        return np.cumsum(in_bins[:-1]) * self._n_units

    def place(self) -> int:
        """Return the index of the point that the search has found.

        If the target is within the noise of a fitted count, the point of the nearest such count is
        the result. Otherwise the result is the median of the odds. The median could miss a counted
        point, as the odds of the bin behind it are spread over up to thousands of points.
        """
        points, counts = self.counted
        distances = np.abs(counts - self._target())
        if not self._is_exact and distances.min(initial=np.inf) <= _NEAR_TARGET * self._noise_std:
            return int(points[distances.argmin()])
        is_candidate = self._odds > _RULED_OUT * self._odds.max()
        return int(_quantiles(np.where(is_candidate, self._odds, 0.0), 0.5))


def _quantiles(odds: np.ndarray, fractions: np.ndarray | float) -> np.ndarray:
    """Return the first points up to which the odds sum to the given fractions of all odds."""
    total = np.cumsum(odds)
    return np.searchsorted(total, total[-1] * (1 - _ROUNDING) * fractions)
