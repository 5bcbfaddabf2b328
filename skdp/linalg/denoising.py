"""Denoising of released products, rows, means, singular values and regressions."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh, pinvh

from skdp.linalg.spectrum import gaussian_norm, noise_edge

# ------------------------------
# Averages of noisy products of one low-rank matrix with several bases.

# Number of weighted least-squares fits that average products. The residuals of a fit give the
# weights of the next fit.
_N_ROUNDS = 3  # not studied
# Residuals exceed the noise if their variance is more than this many times the noise variance.
_SLACK = 1.05  # not studied
# The first fit of an average uses the last product almost alone: it multiplies the variances of all
# other products by this number.
_DISTRUST = 1e6  # not tuned
_TINY = np.finfo(np.float64).tiny
# Limits of variances over the noise variance, and of their ratios: larger numbers would lead to the
# same results, but their squares could overflow.
_LARGEST_VARIANCE, _LARGEST_RATIO = 1e80, 1e100  # not tuned


class ProductAverage:
    r"""Estimate A V for an orthonormal V from the last products :math:`R_t = A Z_t + N_t`.

    Here A is a matrix, the Z are orthonormal bases and the N are noise. Weighted least squares for
    the model :math:`A = L V^T` gives

    .. math:: L = \Big(\sum_t w_t R_t C_t\Big) \Big(\sum_t w_t C_t^T C_t\Big)^{-1},
              \quad C_t = Z_t^T V.

    A weight is the inverse of a variance: the noise variance, plus the variance by which residuals
    exceed the noise in their strongest direction. This excess is large for early products, whose
    bases are far from V. All residuals follow from the inner products of the stored products.
    """

    def __init__(
        self, n_averaged: int, shape: tuple[int, int], size: int, *, is_gaussian: bool
    ) -> None:
        (n_rows, n_columns), n_stored = shape, n_averaged * size
        self._n_averaged, self.is_gaussian = n_averaged, is_gaussian
        self._n_added = 0
        self._noise_stds: list[float] = []
        # Bases and values of all products side by side, and inner products of the values.
        self._bases = np.zeros((n_columns, n_stored), order="F")
        self._values = np.zeros((n_rows, n_stored), order="F")
        self._gram = np.zeros((n_stored, n_stored))

    def add(self, basis: np.ndarray, value: np.ndarray, noise_std: float) -> None:
        """Add a noisy product with a basis; with `n_averaged` products, replace the oldest."""
        size = value.shape[1]
        slot = self._n_added % self._n_averaged
        self._n_added += 1
        # This assignment appends while slots are free, then overwrites the oldest product.
        self._noise_stds[slot : slot + 1] = [noise_std]
        place = slice(slot * size, (slot + 1) * size)
        self._bases[:, place] = basis
        self._values[:, place] = value
        filled = len(self._noise_stds) * size
        inner = self._values[:, :filled].T @ value
        self._gram[:filled, place], self._gram[place, :filled] = inner, inner.T

    def estimate(self, basis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Estimate A V, for V close to the last basis, and the noise covariance of its rows."""
        size = basis.shape[1]
        noise_variances = np.square(self._noise_stds)
        if noise_variances.min() == 0:
            # Without noise the last product is exact.
            slot = (self._n_added - 1) % self._n_averaged
            last = self._values[:, slot * size : (slot + 1) * size]
            return last, np.zeros((size, size))
        overlaps = self._bases[:, : len(noise_variances) * size].T @ basis
        gram, n_rows = self._gram[: len(overlaps), : len(overlaps)], len(self._values)
        # Variances are divided by the smallest one, so that nothing overflows.
        smallest = noise_variances.min()
        # The last product fits the model best: the first fit uses little else.
        is_last = np.arange(len(noise_variances)) == (self._n_added - 1) % self._n_averaged
        variances = np.where(is_last, 1.0, _DISTRUST) * noise_variances / smallest
        for _ in range(_N_ROUNDS):
            weighted = overlaps / np.repeat(variances, size)[:, None]
            values, vectors = np.linalg.eigh(weighted.T @ overlaps)
            # A direction that no basis contains gets a huge but finite variance.
            values = np.maximum(values, max(1e-12 * values[-1], 1e-100))
            inverse = (vectors / values) @ vectors.T
            coefficients = weighted @ inverse
            # The residuals are the values of all products times this matrix.
            residual = np.eye(len(overlaps)) - coefficients @ overlaps.T
            noise = np.repeat(noise_variances, size)[:, None] * residual
            strongest = _largest_in_blocks(residual.T @ gram @ residual / n_rows, size)
            of_noise = _largest_in_blocks(residual.T @ noise, size)
            # The largest sample variance of pure noise, over all directions, exceeds its variance
            # by this factor.
            strongest /= (1 + np.sqrt(size / n_rows)) ** 2
            excess = np.maximum(strongest - _SLACK * of_noise, 0.0)
            # Unlike noise, a misfit does not average out over directions. So it counts at its bound
            # over all directions together, which is `size` times the largest excess. Not studied.
            variances = (noise_variances + size * excess) / smallest
            variances = np.minimum(variances, _LARGEST_VARIANCE)
        return self._values[:, : len(overlaps)] @ coefficients, smallest * inverse


def _largest_in_blocks(matrix: np.ndarray, size: int) -> np.ndarray:
    """Return the largest eigenvalue of each diagonal block of a symmetric matrix."""
    n_blocks = len(matrix) // size
    blocks = np.einsum("iaib->iab", matrix.reshape(n_blocks, size, n_blocks, size))
    return np.asarray(np.linalg.eigvalsh(blocks)[:, -1])


def count_above_noise(estimate: np.ndarray, covariance: np.ndarray) -> int:
    """Count the singular values of a noisy matrix that exceed those of its noise alone.

    `covariance` is the noise covariance of a row.
    """
    n_rows, size = estimate.shape
    if not covariance.any():
        return size
    variances, axes = np.linalg.eigh(covariance)
    whitened = (estimate @ axes) / np.sqrt(np.maximum(variances, _TINY))
    whitened = np.clip(whitened, -_LARGEST_RATIO, _LARGEST_RATIO)
    # The largest singular value of a matrix of independent N(0, 1), as the whitened noise is.
    edge = np.sqrt(n_rows) + np.sqrt(size)
    return int(np.sum(np.linalg.eigvalsh(whitened.T @ whitened) > edge**2))


# ------------------------------
# Rows of a noisy matrix, replaced by their posterior means.

# The prior of rows is a mixture of normal distributions. Their variances are multiples of the
# signal variance: `_N_SCALES` of them, from `_SMALLEST_SCALE` up to a quarter of the row count,
# as if four rows had the whole signal, but at least up to 4.
_N_SCALES = 12  # not studied
_SMALLEST_SCALE = 1e-4  # not studied
# Number of rows, and of steps of expectation maximization, from which the weights of the mixture
# follow.
_SAMPLE = 1 << 12  # not studied
_N_STEPS = 30  # not studied
# Least estimate of the signal variance along any direction, over the noise variance.
_LEAST_SIGNAL = 0.02  # not studied
# Above this ratio of signal variance to noise variance, rows need no shrinkage, and squares could
# overflow.
_LARGEST_SIGNAL = 1e100  # not tuned


def shrink_rows(values: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    r"""Replace rows :math:`\theta_i + N(0, \Gamma)` by estimates of :math:`\theta_i`.

    :math:`\Gamma` is the noise `covariance` of a row. The estimates are posterior means, under a
    prior that is a scale mixture of Gaussians, :math:`\theta_i \sim \sum_j \pi_j N(0, t_j H)`. Here
    H is the covariance of all rows minus :math:`\Gamma`, and the weights :math:`\pi_j` maximize the
    likelihood (B. Efron, 2010, :doi:`10.1017/CBO9780511761362`; M. Stephens, 2017,
    :doi:`10.1093/biostatistics/kxw041`). If few rows are large, as in coherent singular vectors,
    the small rows lose nearly all their noise; if all rows have a similar size, all are shrunk
    alike.
    """
    if not covariance.any():
        return values
    # `whiten` maps the noise to variance 1 in every direction; `color` is the inverse map.
    noise_variances, noise_axes = np.linalg.eigh(covariance)
    noise_stds = np.sqrt(np.maximum(noise_variances, 1e-12 * noise_variances[-1]))
    whiten, color = noise_axes / noise_stds, (noise_axes * noise_stds).T
    n_rows, size = values.shape
    moment = whiten.T @ (values.T @ values) @ whiten / n_rows
    if not np.trace(moment) <= _LARGEST_SIGNAL:
        return values
    signal, axes = np.linalg.eigh(moment - np.eye(size))
    signal = np.maximum(signal, _LEAST_SIGNAL)
    rows = values @ (whiten @ axes)
    scales = np.geomspace(_SMALLEST_SCALE, max(n_rows / 4, 4.0), _N_SCALES)
    variances = scales[:, None] * signal
    # Densities of a row under N(0, 1 + variances), divided by the row's largest density.
    log_likelihood = np.square(rows) @ (-0.5 / (1 + variances)).T
    log_likelihood -= 0.5 * np.log(1 + variances).sum(axis=1)
    log_likelihood -= log_likelihood.max(axis=1, keepdims=True)
    likelihood = np.exp(log_likelihood, out=log_likelihood)
    sample = likelihood[:: max(n_rows // _SAMPLE, 1)]
    posterior = likelihood * _mixture_weights(sample, np.ones(len(sample)), _N_STEPS)
    posterior /= np.maximum(posterior.sum(axis=1, keepdims=True), _TINY)
    rows *= posterior @ (variances / (1 + variances))
    return rows @ (axes.T @ color)


def _mixture_weights(likelihood: np.ndarray, counts: np.ndarray, n_steps: int) -> np.ndarray:
    """Fit the weights of a mixture by expectation maximization; row i counts `counts[i]` times."""
    weights = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    for _ in range(n_steps):
        density = np.maximum(likelihood @ weights, _TINY)
        weights *= (counts / density) @ likelihood / counts.sum()
    return weights


# ------------------------------
# Estimates of nonnegative means from noisy numbers.

# Noisy numbers above this many standard deviations of noise need no shrinkage. The prior of means
# is a distribution on a grid, which ends one standard deviation farther.
_FARTHEST = 8  # not studied
# Number of points per standard deviation of noise: of the grid of the prior of means, and of the
# grid to which noisy numbers are rounded.
_PER_UNIT = 8  # not studied
# Number of steps of expectation maximization.
_N_STEPS_OF_MEANS = 100  # not studied
# If no estimated mean exceeds this many standard deviations of noise, noise hides all of them, and
# all become one standard deviation.
_LEAST = 1e-9  # not tuned


def positive_means(noisy: np.ndarray, noise_std: float) -> np.ndarray:
    r"""Estimate nonnegative means, not all 0, from numbers with Gaussian noise.

    Each number is :math:`\theta_j + \sigma z_j` with a mean :math:`\theta_j \ge 0`. The prior of
    the means is the distribution on a grid that has the largest likelihood. Posterior means under
    this prior are nearly as good as under the true one (W. Jiang, C.-H. Zhang, 2009,
    :doi:`10.1214/08-AOS638`). If few numbers are large, such as the popularities of items, these
    numbers hardly change, and the many small numbers lose their noise.
    """
    if noise_std == 0:
        return np.maximum(noisy, 0.0) if (noisy > 0).any() else np.ones(len(noisy))
    means = np.clip(noisy / noise_std, -_FARTHEST, None)
    near = means <= _FARTHEST
    if near.any():
        means[near] = _posterior_means(means[near])
    return noise_std * means if means.max() > _LEAST else np.full(len(means), noise_std)


def _posterior_means(values: np.ndarray) -> np.ndarray:
    """Compute posterior means for noise of variance 1, by expectation maximization on a grid."""
    rounded, places, counts = np.unique(
        np.round(_PER_UNIT * values), return_inverse=True, return_counts=True
    )
    grid = np.linspace(0, _FARTHEST + 1, _PER_UNIT * (_FARTHEST + 1) + 1)
    # Densities of noisy numbers for each mean. A factor that depends on the number alone is left
    # out, as it cancels in the posterior.
    likelihood = np.exp(grid * (rounded[:, np.newaxis] / _PER_UNIT - grid / 2))
    prior = _mixture_weights(likelihood, counts, _N_STEPS_OF_MEANS)
    return np.asarray(((likelihood @ (prior * grid)) / (likelihood @ prior))[places])


# ------------------------------
# Singular values of a matrix with independent Gaussian noise on all entries.


def debiased(values: np.ndarray, noise_std: float, shape: tuple[int, ...]) -> np.ndarray:
    r"""Reduce singular values by the amount by which noise has raised them.

    Noise of variance :math:`\sigma^2` moves a singular value x of a large m x n matrix to y with
    :math:`y^2 = (x^2 + \sigma^2 m) (x^2 + \sigma^2 n) / x^2` (F. Benaych-Georges, R. R.
    Nadakuditi, 2012, :doi:`10.1016/j.jmva.2012.04.019`). If noise alone could give y, y becomes 0.
    """
    largest, squares, noise_squares = _scaled(values, noise_std, shape)
    # The square of x is the larger root of the equation above, which is quadratic.
    excess = squares - noise_squares.sum()
    root = np.sqrt(np.maximum(np.square(excess) - 4 * noise_squares.prod(), 0.0))
    stands_out = values > gaussian_norm(shape, noise_std)
    return largest * np.sqrt(np.where(stands_out, (excess + root) / 2, 0.0))


def are_mostly_signal(values: np.ndarray, noise_std: float, shape: tuple[int, ...]) -> np.ndarray:
    r"""Return which right singular vectors have a squared cosine >= 1/2 with the true vectors.

    With noise of variance :math:`\sigma^2` on every entry of an m x n matrix, the squared cosine is
    :math:`1 - \sigma^2 n (x^2 + \sigma^2 m) / (x^2 (x^2 + \sigma^2 n))` for the true singular value
    x (same source as `debiased`). The comparison has been multiplied by the denominator.
    """
    _, squares, (m, n) = _scaled(values, noise_std, shape)
    return 2 * n * (squares + m) <= squares * (squares + n)


def shrunk(values: np.ndarray, noise_std: float, shape: tuple[int, ...]) -> np.ndarray:
    r"""Shrink true singular values so that noisy singular vectors approximate the matrix best.

    For a true singular value x, the squared cosine between the noisy singular vector of m entries
    and the true one is :math:`(x^4 - \sigma^4 m n) / (x^4 + \sigma^2 m x^2)`; for the vector of n
    entries, m and n are exchanged (same source as `debiased`). The product of x and both cosines
    has the least squared error (M. Gavish, D. L. Donoho, 2017, :doi:`10.1109/TIT.2017.2653801`).
    """
    largest, squares, (m, n) = _scaled(values, noise_std, shape)
    numerator = np.maximum(np.square(squares) - m * n, 0.0)
    denominator = np.sqrt((squares + m) * (squares + n) * squares)
    is_kept = numerator > 0
    return largest * np.divide(numerator, denominator, out=np.zeros_like(numerator), where=is_kept)


def _scaled(
    values: np.ndarray, noise_std: float, shape: tuple[int, ...]
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return a scale c, (`values` / c)^2, and the pair of sigma^2 m / c^2 and sigma^2 n / c^2.

    sigma is the standard deviation of the noise of an entry, and (m, n) the shape of the matrix.
    """
    largest = max(float(values.max(initial=0.0)), noise_std) or 1.0
    noise_squares = (noise_std / largest) ** 2 * np.array(shape, dtype=float)
    return largest, np.square(values / largest), noise_squares


# ------------------------------
# Regressions of a column on other columns by noisy covariances, and their errors.

# Ridge penalty of a regression, relative to the largest eigenvalue of noise alone.
_PENALTY = 0.3  # benchmarks/covariance/covariance.md
# Noise hides a direction along which the variance of the columns is below this many times the
# largest eigenvalue of noise alone.
_VISIBLE = 1.5  # benchmarks/covariance/intervals.md
# If clipping leaves the fraction l of the variance of a target, it is assumed to leave this power
# of l of its covariances. For a target that is nearly always 0, the power is 1/2 if entries are
# clipped, and 1 if rows are.
_SHRINKAGE = 0.8  # benchmarks/covariance/intervals.md
# Quantiles of the normal law, for intervals of 95%.
_ONE_SIDED, _TWO_SIDED = 1.645, 1.96  # not tuned


def scale_products(covariance: np.ndarray) -> np.ndarray:
    """Return the product of the standard deviations of each two columns; 1 replaces a 0."""
    stds = np.sqrt(np.diag(covariance))
    stds = np.where(stds > 0, stds, 1.0)
    return np.outer(stds, stds)


class Regression(NamedTuple):
    """Coefficients of a regression, and the matrices on which their errors depend."""

    coef: np.ndarray
    inverse: np.ndarray  # of the penalized covariance of the columns
    penalty: np.ndarray  # the matrix that was added to this covariance
    moment: np.ndarray  # covariance of the columns and, last, the target
    noise: "MomentNoise"  # the noise of `moment`
    residual: np.ndarray  # weights of the columns and the target in the residual

    @property
    def unexplained(self) -> float:
        """Variance of the residual."""
        return float(self.residual @ self.moment @ self.residual)


class MomentNoise(NamedTuple):
    r"""Noise of a covariance: its standard deviations, and a metric :math:`G = A A^T`.

    Most of the noise is :math:`A N A^T` for a symmetric :math:`N` with independent entries, of
    variance 1 off the diagonal. A second part, with standard deviations `common`, multiplies all
    entries by one random factor, which changes neither coefficients nor R2. The remaining part is
    independent noise of each entry: it makes the variances those of `std`.
    """

    std: np.ndarray
    metric: np.ndarray
    common: np.ndarray

    def of(self, places: Any) -> "MomentNoise":
        """Return the noise of a submatrix, given by an index of arrays."""
        return MomentNoise(*(matrix[places] for matrix in self))

    @property
    def edges(self) -> np.ndarray:
        """Return a matrix whose quadratic form bounds the noise along every direction."""
        correlation, scales = self.metric / scale_products(self.metric), np.sqrt(_edges(self.std))
        np.fill_diagonal(correlation, 1.0)
        return np.asarray(correlation * np.outer(scales, scales))

    @property
    def _independent(self) -> np.ndarray:
        """Variances of the part of the noise that is independent for each entry."""
        variances = np.diag(self.metric)
        # Variances of entries of A N A', and of the common factor.
        others = np.outer(variances, variances) + self.metric**2 + self.common**2
        return np.maximum(np.square(self.std) - others, 0.0)

    def of_products(self, weights: np.ndarray) -> np.ndarray:
        """Return the covariance of the noise matrix times a vector of weights, without `common`."""
        moved, variances = self.metric @ weights, self._independent
        covariance = self.metric * (weights @ moved) + np.outer(moved, moved)
        # Products i and j share the noise of entry (i, j) alone; product i has the noise of row i.
        covariance += variances * np.outer(weights, weights)
        on_diagonal = variances @ weights**2 - np.diag(variances) * weights**2
        return np.asarray(covariance + np.diag(on_diagonal))

    def of_form(self, weights: np.ndarray) -> float:
        """Return the noise variance of a sum of entries, weighted by a symmetric matrix."""
        moved = weights @ self.metric
        # Entries (i, j) and (j, i) have the same noise, so that the square of each counts twice.
        times = 2 - np.eye(len(weights))
        return float(2 * np.sum(moved * moved.T) + np.sum(times * self._independent * weights**2))


def regress(
    covariance: np.ndarray,
    noise: MomentNoise,
    columns: Sequence[int],
    target: int,
    penalty: float,
    gaps: float,
) -> Regression:
    r"""Solve the normal equations with `penalty` on the diagonal and a second penalty for noise.

    Noise of standard deviation :math:`\tau` moves the eigenvalues of the covariance of k columns by
    up to :math:`2 \tau \sqrt k`. The second penalty is a fraction of this bound, for each column by
    its noise. It prevents large coefficients along directions that noise hides. `gaps` is the
    standard deviation of the errors of correlations that missing entries cause, because each pair
    of columns is measured on other rows; these errors count as noise, too.
    """
    chosen = np.ix_([*columns, target], [*columns, target])
    moment, noise = covariance[chosen], noise.of(chosen)
    edges = noise.of(np.s_[:-1, :-1]).edges
    of_gaps = noise_edge(gaps, len(columns)) * np.diag(moment)[:-1]
    np.fill_diagonal(edges, np.hypot(np.diag(edges), of_gaps))
    added = _PENALTY * edges + penalty * np.eye(len(columns))
    matrix = moment[:-1, :-1] + added
    units = scale_products(matrix)
    inverse = pinvh(matrix / units, check_finite=False) / units
    coef = inverse @ moment[:-1, -1]
    return Regression(coef, inverse, added, moment, noise, np.append(-coef, 1.0))


def penalties_of(noise_std: np.ndarray) -> np.ndarray:
    """Return the second penalty of `regress` on the diagonal, for each column."""
    return _edges(noise_std) * _PENALTY


def _edges(noise_std: np.ndarray) -> np.ndarray:
    """Return for each column the largest eigenvalue of noise alone if all columns had its noise."""
    return np.diag(noise_std) * noise_edge(math.sqrt(0.5), len(noise_std))


def coefficient_errors(
    found: Regression,
    n_units: int,
    unclipped: float,
    presence: np.ndarray,
    left: np.ndarray,
    is_scaled: np.ndarray,
) -> np.ndarray:
    r"""Estimate standard errors of coefficients, due to noise, sampling, penalty and clipping.

    Let A be the penalized covariance of the columns, and a the weights of columns and target in the
    residual. Noise E in the covariance changes the coefficients by :math:`A^{-1} (E a)`, to first
    order. Sampling errors follow normal theory; missing entries, at random the fraction 1 -
    `presence` of each column, add variance to the residual.

    Clipping leaves the fraction `left` of the variance of each column and of the target. It shrinks
    coefficients by the weight `unclipped` of rows, and by what the target has lost, if losses of
    columns do not explain it. It multiplies the coefficient of a clipped column by at most one over
    the root of its fraction, by the Cauchy-Schwarz inequality, and by any number if its scale is
    unknown. The larger bias, and a normal error, give the interval (T. Armstrong, M. Kolesar, 2018,
    :doi:`10.3982/ECTA14434`).
    """
    noise = found.noise.of_products(found.residual)[:-1, :-1]
    gaps = np.diag(found.moment) * np.square(found.residual) * (1 - presence) / presence
    roots = 1 / np.sqrt(presence[:-1])
    sampling = (found.unexplained + gaps.sum()) / n_units * found.moment[:-1, :-1]
    covariance = found.inverse @ (noise + sampling * np.outer(roots, roots)) @ found.inverse
    variances, sizes = np.diag(found.moment) / left, np.abs(found.coef)
    lost = (1 - left) * variances
    unexplained = max(float(lost[-1] - lost[:-1] @ sizes**2), 0.0)
    # Clipping multiplies coefficients by about this number.
    kept = unclipped * (1 - unexplained / max(variances[-1], _TINY)) ** _SHRINKAGE
    # Clipping shrinks large coefficients together with their errors; a coefficient of 0 stays 0.
    std = np.sqrt(np.diag(covariance) / kept)
    shrinkage = (1 - kept) * sizes + np.abs(found.inverse @ (found.penalty @ found.coef))
    bias = np.maximum(shrinkage / kept, (1 - np.sqrt(left) * is_scaled)[:-1] * sizes)
    # A normal number of mean bias / std and variance 1 is within `half` / std in 95% of draws. This
    # sum exceeds the exact quantile by less than .03.
    rest = _TWO_SIDED - _ONE_SIDED
    half = bias + std * (_ONE_SIDED + rest * np.exp(-bias / np.maximum(rest * std, _TINY)))
    return np.asarray(half / _TWO_SIDED)


def check_visible(found: Regression) -> None:
    """Refuse to estimate errors if noise hides a direction of the columns."""
    edges = found.noise.of(np.s_[:-1, :-1]).edges
    if not edges.any():
        return
    units = scale_products(edges)
    # `least` is the least ratio, over all directions, of the variance of the columns to `edges`.
    of_columns, of_noise = found.moment[:-1, :-1] / units, edges / units
    least = eigh(of_columns, of_noise, eigvals_only=True, check_finite=False)[0]
    if least < _VISIBLE:
        raise ValueError(
            "Standard errors are unknown: the columns that predict are nearly dependent. In one "
            f"direction, their variance is {least:.2g} times what noise alone may have, and must "
            f"be {_VISIBLE:g} times. Pass fewer columns in on=[...], or a larger epsilon."
        )


class Estimate(NamedTuple):
    """An estimated number and its standard error."""

    value: float
    std_error: float


def explained_by(found: Regression, n_units: int) -> Estimate:
    r"""Estimate R2 on new rows, with its standard error.

    The coefficients also fit the noise and the sampling error of products of columns and target,
    which raises R2. So twice the trace of a product is subtracted: of the inverse covariance of the
    columns and the covariance matrix of these errors.
    """
    total = float(found.moment[-1, -1])
    if total <= 0:
        return Estimate(0.0, 0.0)
    noise = found.noise.of_products(found.residual)[:-1, :-1]
    degrees = float(np.sum(found.inverse * found.moment[:-1, :-1]))
    optimism = 2 * (float(np.sum(found.inverse * noise)) + degrees * found.unexplained / n_units)
    value = 1 - (found.unexplained + optimism) / total
    weights = np.outer(found.residual, found.residual)
    weights[-1, -1] -= found.unexplained / total
    noise_variance = found.noise.of_form(weights) / total**2
    r2 = float(np.clip(value, 0.0, 1.0))
    sampling_variance = 4 * r2 * (1 - r2) ** 2 / n_units
    return Estimate(value, math.sqrt(noise_variance + sampling_variance))


# ------------------------------
# Constant columns of noisy covariances, and priors.

# A variance is seen if it exceeds `_SEEN` standard deviations of its noise. A column is clear if
# noise would not even hide the variance of `_FEW_ROWS` rows at `_FAR_ROW` standard deviations from
# the mean, with all other rows at the mean.
_SEEN, _FEW_ROWS, _FAR_ROW = 4.0, 4, 5.0  # benchmarks/diagonal_prior/flat.md


def are_flat(variances: np.ndarray, noise_stds: np.ndarray, n_rows: int) -> np.ndarray:
    """Return which columns count as constant: even small noise hides their variance.

    Noise is small if most columns with a visible variance are clear. Scaled to variance 1, a
    constant column would be a principal component of variance 1.
    """
    is_seen = variances > _SEEN * noise_stds
    is_clear = is_seen & (_FEW_ROWS * _FAR_ROW**2 / n_rows * variances > _SEEN * noise_stds)
    return np.asarray(~is_seen & (2 * is_clear.sum() > is_seen.sum()))


# Least assumed variance of a scaled column, for a fit with a prior.
_LEAST_VARIANCE = 0.25  # not studied


def toward_prior(
    released: np.ndarray, noise: np.ndarray, prior: np.ndarray, is_seen: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Move the correlations of the columns in `is_seen` toward those of a prior covariance.

    `noise` are standard deviations. Released variances stay, so that the units of the prior do not
    matter. The weight of the prior is the noise variance of the covariances, divided by their
    squared distance to the prior (W. James, C. Stein, 1961). Return the covariance, the standard
    deviations of the remaining noise, and the weight.
    """
    prior_variances = np.maximum(np.diag(prior), 0.0)
    has_prior = is_seen & (prior_variances > 0)
    ratios = np.sqrt(np.maximum(np.diag(released), _LEAST_VARIANCE))
    ratios = ratios / np.sqrt(np.where(has_prior, prior_variances, 1.0))
    is_moved = np.outer(has_prior, has_prior) & ~np.eye(len(prior), dtype=bool)
    difference = np.where(is_moved, np.outer(ratios, ratios) * prior - released, 0.0)
    squared_distance = max(float(np.square(difference).sum()), _TINY)
    weight = min(1.0, float(np.square(noise[is_moved]).sum()) / squared_distance)
    return released + weight * difference, (1 - weight * is_moved) * noise, weight
