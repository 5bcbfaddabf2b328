"""Marginal distributions of columns, and random rows with released marginals and correlations."""

import math
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.polynomial.hermite_e import hermevander
from scipy.optimize import brentq
from scipy.special import factorial, ndtr

from skdp.data.reduce import BlockView
from skdp.linalg.denoising import penalties_of
from skdp.preprocessing.intervals import counting
from skdp.preprocessing.scales import ScaleSpec
from skdp.privacy import PrivacyBudget, Release, sensitivity
from skdp.privacy.plan import PrivacyCost

# ------------------------------
# The release: counts of entries by column.

#: Share of the budget for the counts of all columns.
MARGINALS_SHARE = 0.2  # benchmarks/covariance/samples.md
# Number of bins of a column. The edges of bins are equally spaced in arcsinh of `_FINE` times the
# standardized number: bins are narrow near the center, and wide far from it.
_N_BINS, _FINE = 32, 4.0  # benchmarks/covariance/samples.md
# Each column has three further counts: of entries at its lower end, at its upper end, and of 0.
_ENDS_AND_ZERO = 3  # not tuned
# Least scale of the bins of a column, relative to the width of its bounds.
_LEAST_SCALE = 1e-9  # not tuned


def are_whole(dtypes: Iterable[str]) -> np.ndarray:
    """Return which columns have integer or bool dtypes."""
    return np.array([np.dtype(one).kind in "biu" for one in dtypes])


def plan_marginals(cost: PrivacyCost, n_columns: int, adjacency: str) -> Release | None:
    """Plan the counts of columns; return None if there are no columns."""
    if not n_columns:
        return None
    change = partial(sensitivity.histograms, adjacency=adjacency)
    shape = n_columns, _N_BINS + _ENDS_AND_ZERO
    known = {"n_columns": n_columns}
    return cost.release("marginal counts", "gaussian", MARGINALS_SHARE, change, known, shape=shape)


def release_marginals(
    release: Release | None,
    view: BlockView,
    spec: ScaleSpec,
    released: dict[str, np.ndarray],
    is_binary: np.ndarray,
    budget: PrivacyBudget,
) -> tuple[np.ndarray, float]:
    """Release counts of the columns that are not binary; return the quantiles of all columns.

    A piecewise linear function from levels to numbers has the quantiles of a column; its corners
    are returned. The function is flat at a number that many rows have, and steep at a gap between
    numbers. Return also the standard deviation of the noise of a count, as a fraction of the rows.
    `released` are the attributes that follow from the moment.
    """
    assert spec.interval is not None
    (low, high), n_rows = spec.interval, spec.n_units
    center = np.clip(released["location_"], low, high)
    ends = np.stack([low, high], axis=1)
    scale = np.maximum(released["scale_"], _LEAST_SCALE * (high - low))
    edges = _edges(center, scale, ends)
    of_high = (center - low) / (high - low)
    # The quantiles of columns whose entries are all at their two ends, with the released mean.
    fractions_at_ends = np.zeros((len(low), _N_BINS + 2))
    fractions_at_ends[:, 0], fractions_at_ends[:, -1] = 1 - of_high, of_high
    quantiles = [_corners(edges[j], fractions_at_ends[j], 0.0) for j in range(len(low))]
    if release is None:
        return np.stack(quantiles), 0.0
    counted = np.flatnonzero(~is_binary)
    kernel = counting(partial(_bins_of, edges=edges[counted]), release.shape[1], counted)
    counts, noise_std = budget.release(release, view.map_sum(kernel, math.prod(release.shape)))
    for fractions, j in zip(counts / n_rows, counted, strict=True):
        expected = ndtr((edges[j] - center[j]) / scale[j])
        quantiles[j] = _quantiles(fractions, noise_std / n_rows, edges[j], expected, quantiles[j])
        if _has_many(quantiles[j]):
            # The released moment describes rows that are clipped to these bounds.
            quantiles[j][1] = np.clip(quantiles[j][1], *released["feature_bounds_"][:, j])
    return np.stack(quantiles), noise_std / n_rows


def _edges(center: np.ndarray, scale: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the edges of the bins of each column; bins are narrow near the center."""
    first, last = np.arcsinh(_FINE * (ends - center[:, np.newaxis]) / scale[:, np.newaxis]).T
    steps = np.sinh(np.linspace(first, last, _N_BINS + 1, axis=1)) / _FINE
    edges = np.clip(center[:, np.newaxis] + scale[:, np.newaxis] * steps, *ends.T[..., np.newaxis])
    edges[:, 0], edges[:, -1] = ends.T
    return np.maximum.accumulate(edges, axis=1)


def _bins_of(values: np.ndarray, columns: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the bin of each number; the ends of its column, and 0, have bins of their own."""
    bins = np.empty(values.shape, np.intp)
    for own_bins, numbers, own_edges in zip(bins, values, edges, strict=True):
        own_bins[:] = np.searchsorted(own_edges[1:-1], numbers, side="right")
        own_bins[numbers <= own_edges[0]] = _N_BINS
        own_bins[numbers >= own_edges[-1]] = _N_BINS + 1
        if own_edges[0] < 0 < own_edges[-1]:
            own_bins[numbers == 0] = _N_BINS + 2
    return bins


# ------------------------------
# Quantiles from counts.

# A released fraction of the rows stands out from noise if it exceeds `_VISIBLE` standard deviations
# of noise in a bin, or `_SINGLE` at a single number: at an end of the column, or at 0.
_SINGLE, _VISIBLE = 4.0, 3.0  # benchmarks/covariance/samples.md
# A column counts as binary if the released fraction of its entries between both ends is at most
# `_MISSING` standard deviations of noise. This limit must be below `_FEW`: with more noise, many
# entries between the ends would be hidden.
_MISSING, _FEW = 4.0, 0.2  # not studied


def _quantiles(
    parts: np.ndarray, noise_std: float, edges: np.ndarray, expected: np.ndarray, ends: np.ndarray
) -> np.ndarray:
    """Compute quantiles from noisy fractions of the rows: in the bins, at the ends, and at 0.

    If noise hides all entries between the ends, return `ends`, the quantiles of a binary column.
    Fractions in bins are shrunk toward those of a normal distribution, by the fraction of their
    squared distance that is noise; `expected` has the levels of this distribution at the edges. A
    bin without a neighbor that stands out from noise gets at most the fraction of this
    distribution.
    """
    bins, single = parts[:_N_BINS], parts[_N_BINS:]
    if 1 - single[:2].sum() <= _MISSING * noise_std < _FEW:
        return ends
    single = np.where(single > _SINGLE * noise_std, single, 0.0)
    normal = np.diff([0.0, *expected[1:-1], 1.0]) * max(1 - single.sum(), 0.0)
    square = float(np.square(bins - normal).sum())
    weight = max(0.0, 1 - _N_BINS * noise_std**2 / square) if square else 0.0
    is_near = np.convolve(bins > _VISIBLE * noise_std, np.ones(3), mode="same") > 0
    bins = normal + weight * (bins - normal)
    bins = np.where(is_near, bins, np.minimum(bins, normal))
    # The nearest nonnegative vector with sum 1 (J. Duchi et al., 2008).
    values = np.concatenate([bins, single])
    ordered = np.sort(values)[::-1]
    thresholds = (np.cumsum(ordered) - 1) / np.arange(1, len(values) + 1)
    nearest = np.maximum(values - thresholds[np.flatnonzero(ordered > thresholds)[-1]], 0.0)
    *in_bins, low, high, zero = nearest
    return _corners(edges, np.array([low, *in_bins, high]), zero)


def _has_many(corners: np.ndarray) -> bool:
    """Return whether the quantiles of a column show numbers between its ends."""
    return bool(corners[0, -2] > corners[0, 1])


def _corners(edges: np.ndarray, parts: np.ndarray, of_zero: float) -> np.ndarray:
    """Return the corners of a quantile function, from fractions of rows at 0 and in the bins.

    `parts` has the fraction at the lower end, then one for each bin, then one at the upper end.
    """
    numbers = np.array([edges[0], *edges, edges[-1]])
    levels = np.concatenate([[0.0], np.cumsum(parts)])
    # Insert two corners with the number 0: their levels differ by the fraction of rows with a 0.
    zero = float(np.clip(0.0, edges[0], edges[-1]))
    at = 1 + int(np.clip(np.searchsorted(edges, zero), 1, _N_BINS))
    step = numbers[at] - numbers[at - 1]
    within = (zero - numbers[at - 1]) / step if step > 0 else 0.0
    level = levels[at - 1] + within * (levels[at] - levels[at - 1])
    levels = np.concatenate([levels[:at], [level, level + of_zero], levels[at:] + of_zero])
    return np.stack([levels / levels[-1], np.insert(numbers, at, [zero, zero])])


# ------------------------------
# Rows drawn from a Gaussian copula, and binary columns drawn with linear probabilities.

# A warning says that drawn rows resemble the data little if the root mean square noise of
# correlations exceeds `_MOST_OF_PAIRS`, or if the noise of a count, as a fraction of the rows,
# exceeds `_MOST_OF_COUNTS`.
_MOST_OF_PAIRS, _MOST_OF_COUNTS = 0.2, 0.1  # not studied
# This fraction of the penalty of regressions is added to the variances of columns before rows are
# drawn, which shrinks correlations a little. Linear models of drawn rows are then about as good as
# regressions of the release.
_OF_PENALTY = 0.3  # benchmarks/covariance/samples.md
# Drawn rows are made of normal scores. With at least this many rows per column, the scores are
# transformed to be exactly uncorrelated.
_LEAST_DRAWS = 10  # not studied
# Grid of normal scores, on which the transform of a column is known.
_SCORES = np.linspace(-6.0, 6.0, 2001)  # not tuned
# A bisection of `_N_STEPS` steps finds correlations of normal scores, up to `_LARGEST`, from the
# first `_N_TERMS` terms of a Hermite expansion.
_N_TERMS, _N_STEPS, _LARGEST = 40, 16, 0.995  # not studied
# `_N_PROJECTIONS` projections find the nearest correlation matrix. Each projection raises
# eigenvalues to `_LEAST_EIGENVALUE`.
_N_PROJECTIONS, _LEAST_EIGENVALUE = 60, 1e-5  # not studied
# Probabilities of binary columns are linear functions of other columns, clipped to [0, 1].
# Clipping reduces correlations, which `_N_CORRECTIONS` steps restore. `_PENALTY` is the penalty of
# the linear regressions.
_N_CORRECTIONS = 30  # benchmarks/covariance/samples.md
_PENALTY = 1e-3  # benchmarks/covariance/samples.md


def hides_samples(covariance: np.ndarray, noise_std: np.ndarray, noise_of_counts: float) -> bool:
    """Return whether noise hides most of the correlations, or most counts of entries."""
    stds = np.sqrt(np.diag(covariance))
    stds = np.where(stds > 0, stds, np.inf)
    noise = (noise_std / np.outer(stds, stds))[np.triu_indices(len(stds), 1)]
    mean_square = float(np.square(noise).sum()) / max(len(noise), 1)
    return mean_square > _MOST_OF_PAIRS**2 or noise_of_counts > _MOST_OF_COUNTS


def sample_rows(
    n: int,
    marginals: np.ndarray,
    covariance: np.ndarray,
    noise_std: np.ndarray,
    is_whole: np.ndarray,
    generator: Any,
) -> np.ndarray:
    """Draw rows with these marginals and covariances; columns of integers are rounded."""
    stds = np.sqrt(np.diag(covariance) + _OF_PENALTY * penalties_of(noise_std))
    stds = np.where(stds > 0, stds, np.inf)
    correlation = covariance / np.outer(stds, stds)
    has_many = np.array([_has_many(corners) for corners in marginals])
    rows, drawn = np.empty((n, len(marginals))), np.flatnonzero(has_many).tolist()
    if drawn:
        # Normal scores become numbers by the quantile function of their column. Their correlations
        # are such that the numbers have the wanted correlations.
        facts = marginals[drawn], is_whole[drawn]
        transforms = _transformed(np.tile(ndtr(_SCORES), (len(drawn), 1)), *facts)
        wanted = correlation[np.ix_(drawn, drawn)]
        values, vectors = np.linalg.eigh(_latent(wanted, transforms))
        scores = generator.standard_normal((n, len(drawn)))
        if n >= _LEAST_DRAWS * len(drawn):
            scores = np.linalg.qr(scores - scores.mean(axis=0))[0] * math.sqrt(n)
        scores = scores * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
        rows[:, drawn] = _transformed(ndtr(scores.T), *facts).T
    # Binary columns are drawn in turn, with probabilities that are linear in the columns before.
    before = _standardized(rows[:, drawn])
    for j in np.flatnonzero(~has_many).tolist():
        fraction = float(1 - marginals[j, 0, 1])
        std = math.sqrt(fraction * (1 - fraction))
        gram = before.T @ before / n + _PENALTY * np.eye(len(drawn))
        covariances = std * correlation[drawn, j]
        # Clipping takes away a part of the covariances, which each correction adds again.
        missing, linear = covariances, np.full(n, fraction)
        for _ in range(_N_CORRECTIONS):
            linear = linear + before @ np.linalg.solve(gram, missing)
            probability = _clipped_with_mean(linear, fraction)
            missing = covariances - before.T @ probability / n
        rows[:, j] = marginals[j, 1][np.where(generator.random(n) < probability, -1, 0)]
        before, drawn = np.column_stack([before, _standardized(rows[:, j])]), [*drawn, j]
    return rows


def _transformed(levels: np.ndarray, marginals: np.ndarray, is_whole: np.ndarray) -> np.ndarray:
    """Return the quantiles of each column at its levels; columns of integers are rounded."""
    pairs = zip(levels, marginals, strict=True)
    numbers = np.stack([np.interp(of_column, *corners) for of_column, corners in pairs])
    numbers[is_whole] = np.rint(numbers[is_whole])
    return numbers


def _latent(correlation: np.ndarray, transforms: np.ndarray) -> np.ndarray:
    r"""Find the correlations of normal scores whose transforms have the given correlations.

    `transforms` has, for each column, the transform of each of `_SCORES`. Let a and b be the
    Hermite coefficients of two transforms. If the scores have the correlation r, the transforms
    have the correlation :math:`\sum_k a_k b_k r^k`, which rises with r: a bisection finds r.
    """
    weights = np.exp(-np.square(_SCORES) / 2)
    weights /= weights.sum()
    centered = transforms - (transforms @ weights)[:, np.newaxis]
    stds = np.sqrt(np.square(centered) @ weights)
    centered /= np.where(stds > 0, stds, 1.0)[:, np.newaxis]
    orders = np.arange(1, _N_TERMS + 1)
    polynomials = hermevander(_SCORES, _N_TERMS)[:, 1:] / np.sqrt(factorial(orders))
    terms = ((centered * weights) @ polynomials).T
    low = np.full(correlation.shape, -_LARGEST)
    high = -low
    for _ in range(_N_STEPS):
        middle = (low + high) / 2
        # The sum at r = `middle`, by Horner's rule.
        reached = np.zeros_like(middle)
        for term in terms[::-1]:
            reached = (reached + np.outer(term, term)) * middle
        low = np.where(reached < correlation, middle, low)
        high = np.where(reached < correlation, high, middle)
    varies = stds > 0
    return _nearest_correlation(np.where(np.outer(varies, varies), (low + high) / 2, 0.0))


def _nearest_correlation(matrix: np.ndarray) -> np.ndarray:
    """Find the correlation matrix nearest to a symmetric matrix (N. J. Higham, 2002)."""
    correction = np.zeros_like(matrix)
    for _ in range(_N_PROJECTIONS):
        np.fill_diagonal(matrix, 1.0)
        values, vectors = np.linalg.eigh(matrix - correction)
        projected = (vectors * np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T
        correction += projected - matrix
        matrix = projected.copy()
    stds = np.sqrt(np.diag(projected))
    return projected / np.outer(stds, stds)


def _standardized(columns: np.ndarray) -> np.ndarray:
    """Center columns and divide them by their standard deviations; a constant column becomes 0."""
    centered = columns - columns.mean(axis=0)
    stds = centered.std(axis=0)
    return np.asarray(centered / np.where(stds > 0, stds, 1.0))


def _clipped_with_mean(values: np.ndarray, mean: float) -> np.ndarray:
    """Shift numbers and clip them to [0, 1], by the shift after which their mean is `mean`."""

    def _excess(shift: float) -> float:
        return float(np.clip(values + shift, 0.0, 1.0).mean()) - mean

    shift = brentq(_excess, -values.max(), 1 - values.min())
    return np.clip(values + shift, 0.0, 1.0)
