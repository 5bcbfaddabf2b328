"""Denoising of released products, rows, means, singular values and regressions."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh, pinvh

from skdp.linalg.spectrum import gaussian_norm, noise_edge

# ------------------------------
# Averages of noisy products of one low-rank matrix with several bases.

# Number of weighted fits; the residuals of one fit give the weights of the next.
_N_ROUNDS = 3  # not studied
# Residuals exceed the noise if their variance is above this many times the noise variance.
_SLACK = 1.05  # not studied
# The first fit multiplies the variances of all products but the last by this number.
_DISTRUST = 1e6  # not tuned
_TINY = np.finfo(np.float64).tiny
# Limits in units of the noise: larger numbers make no difference, but their squares could overflow.
_LARGEST_VARIANCE, _LARGEST_RATIO = 1e80, 1e100  # not tuned


class ProductAverage:
    r"""Estimate A V for an orthonormal V from the last products :math:`R_t = A Z_t + N_t`.

    Weighted least squares for the model :math:`A = L V^T`, which gives

    .. math:: L = \Big(\sum_t w_t R_t C_t\Big) \Big(\sum_t w_t C_t^T C_t\Big)^{-1},
              \quad C_t = Z_t^T V.

    A weight is the inverse of a variance: the noise variance, plus the variance by which residuals
    exceed the noise in their strongest direction. This excess is large for early products, whose
    bases are far from V. Products are stored side by side: their inner products give all residuals,
    and one more product gives L.
    """

    def __init__(self, n_averaged: int, *, is_gaussian: bool) -> None:
        self._n_averaged, self.is_gaussian = n_averaged, is_gaussian
        self._n_added = 0
        self._noise_stds: list[float] = []
        # Bases and values of all products side by side, and inner products of the values.
        self._bases = np.zeros((0, 0))
        self._values = np.zeros((0, 0))
        self._gram = np.zeros((0, 0))

    @property
    def is_empty(self) -> bool:
        """Whether there is no product yet."""
        return self._n_added == 0

    def add(self, basis: np.ndarray, value: np.ndarray, noise_std: float) -> None:
        """Add a noisy product with a basis; with `n_averaged` products, replace the oldest."""
        n_rows, size = value.shape
        if self.is_empty:
            self._bases = np.zeros((len(basis), self._n_averaged * size), order="F")
            self._values = np.zeros((n_rows, self._n_averaged * size), order="F")
            self._gram = np.zeros((self._n_averaged * size,) * 2)
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
        """Estimate A V, for V close to the last basis; return also the noise covariance of rows."""
        size = basis.shape[1]
        noise_variances = np.square(self._noise_stds)
        if noise_variances.min() == 0:
            # Without noise the last product is exact.
            slot = (self._n_added - 1) % self._n_averaged
            last = self._values[:, slot * size : (slot + 1) * size]
            return last, np.zeros((size, size))
        overlaps = self._bases[:, : len(noise_variances) * size].T @ basis
        coefficients, covariance = self._fit(overlaps, noise_variances, len(self._values))
        return self._values[:, : len(overlaps)] @ coefficients, covariance

    def _fit(
        self, overlaps: np.ndarray, noise_variances: np.ndarray, n_rows: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return weights for the columns of all products, and the covariance of the sum."""
        size = overlaps.shape[1]
        gram = self._gram[: len(overlaps), : len(overlaps)]
        # Variances are divided by the smallest one, so that nothing overflows.
        smallest = noise_variances.min()
        # The last product fits the model best, so that the first fit uses little else.
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
            sides = len(overlaps) // size, size
            noise = np.repeat(noise_variances, size)[:, None] * residual
            strongest, of_noise = (
                np.linalg.eigvalsh(np.einsum("iaib->iab", m.reshape(*sides, *sides)))[:, -1]
                for m in (residual.T @ gram @ residual / n_rows, residual.T @ noise)
            )
            # The largest eigenvalue of pure noise exceeds its variance by this factor.
            strongest /= (1 + np.sqrt(size / n_rows)) ** 2
            excess = np.maximum(strongest - _SLACK * of_noise, 0.0)
            variances = (noise_variances + size * excess) / smallest
            variances = np.minimum(variances, _LARGEST_VARIANCE)
        return coefficients, smallest * inverse


def count_above_noise(estimate: np.ndarray, covariance: np.ndarray) -> int:
    """Count the singular values of a noisy matrix that exceed the largest one of its noise."""
    n_rows, size = estimate.shape
    if not covariance.any():
        return size
    variances, axes = np.linalg.eigh(covariance)
    whitened = (estimate @ axes) / np.sqrt(np.maximum(variances, _TINY))
    whitened = np.clip(whitened, -_LARGEST_RATIO, _LARGEST_RATIO)
    edge = np.sqrt(n_rows) + np.sqrt(size)
    return int(np.sum(np.linalg.eigvalsh(whitened.T @ whitened) > edge**2))


# ------------------------------
# Rows of a noisy matrix, replaced by their posterior means.

# Number of grid points for the variance of a row's signal, from hardly any to that of all rows.
_N_SCALES = 12  # not studied
_SMALLEST_SCALE = 1e-4  # not studied
# Number of rows, and of steps of expectation maximization, for the weights of these variances.
_SAMPLE = 1 << 12  # not studied
_N_STEPS = 30  # not studied
# The estimated variance of the signal, along any direction, is at least this part of the noise's.
_LEAST_SIGNAL = 0.02  # not studied
# Above this ratio of variances rows need no shrinkage, and squares could overflow.
_LARGEST_SIGNAL = 1e100  # not tuned


def shrink_rows(values: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    r"""Replace rows :math:`\theta_i + N(0, \Gamma)` by estimates of :math:`\theta_i`.

    Empirical Bayes with a scale mixture of Gaussians as the prior, :math:`\theta_i \sim \sum_j
    \pi_j N(0, t_j H)`: H is the covariance of all rows minus :math:`\Gamma`, and the weights
    :math:`\pi_j` on a grid of scales maximize the likelihood (B. Efron, 2010,
    :doi:`10.1017/CBO9780511761362`; M. Stephens, 2017, :doi:`10.1093/biostatistics/kxw041`). If few
    rows are large, as in coherent singular vectors, the small rows lose nearly all their noise; if
    all have a similar size, all are shrunk alike. If :math:`\Gamma` is 0, the rows stay.
    """
    if not covariance.any():
        return values
    # `whiten` maps the noise to variance 1 in every direction; `color` is the inverse map.
    noise, turn = np.linalg.eigh(covariance)
    noise_stds = np.sqrt(np.maximum(noise, 1e-12 * noise[-1]))
    whiten, color = turn / noise_stds, (turn * noise_stds).T
    n_rows, size = values.shape
    moment = whiten.T @ (values.T @ values) @ whiten / n_rows
    if not np.trace(moment) <= _LARGEST_SIGNAL:
        return values
    signal, axes = np.linalg.eigh(moment - np.eye(size))
    signal = np.maximum(signal, _LEAST_SIGNAL)
    rows = values @ (whiten @ axes)
    scales = np.geomspace(_SMALLEST_SCALE, max(n_rows / 4, 4.0), _N_SCALES)
    variances = scales[:, None] * signal
    # Densities of rows under N(0, 1 + variances), relative to the largest density of each row.
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
    """Fit the weights of a mixture by expectation maximization, starting from equal weights."""
    weights = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    for _ in range(n_steps):
        density = np.maximum(likelihood @ weights, _TINY)
        weights *= (counts / density) @ likelihood / counts.sum()
    return weights


# ------------------------------
# Estimates of nonnegative means from noisy numbers.

# Numbers above this many noise stds need no shrinkage; the prior's grid ends one std above.
_FARTHEST = 8  # not studied
# Points of the grid per noise std; noisy numbers are rounded to such points, too.
_PER_UNIT = 8  # not studied
_N_STEPS_OF_MEANS = 100  # not studied
# If no mean exceeds this many noise stds, all means are taken to be equal.
_LEAST = 1e-9  # not tuned


def positive_means(noisy: np.ndarray, noise_std: float) -> np.ndarray:
    r"""Estimate nonnegative means, not all 0, from numbers with Gaussian noise.

    Each number is :math:`\theta_j + \sigma z_j` with :math:`\theta_j \ge 0`. The prior of the
    :math:`\theta_j` is the distribution on a grid with the maximum likelihood; posterior means
    under it are nearly as good as under the true prior (W. Jiang, C.-H. Zhang, 2009,
    :doi:`10.1214/08-AOS638`). If few numbers are large, as popularities of items, these numbers
    stay, and the many small numbers lose their noise.
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
    # Densities, but for a factor of each row, which cancels.
    likelihood = np.exp(grid * (rounded[:, np.newaxis] / _PER_UNIT - grid / 2))
    prior = _mixture_weights(likelihood, counts, _N_STEPS_OF_MEANS)
    return np.asarray(((likelihood @ (prior * grid)) / (likelihood @ prior))[places])


# ------------------------------
# Singular values of a matrix with independent Gaussian noise on all entries.


def debiased(values: np.ndarray, noise_std: float, shape: tuple[int, ...]) -> np.ndarray:
    r"""Reduce singular values by the amount by which noise has raised them.

    Noise moves a singular value x of a large matrix to y with
    :math:`y^2 = (x^2 + \sigma^2 m) (x^2 + \sigma^2 n) / x^2` (F. Benaych-Georges, R. R.
    Nadakuditi, 2012, :doi:`10.1016/j.jmva.2012.04.019`). If noise alone could give y, y becomes 0.
    """
    largest, squares, noise_squares = _scaled(values, noise_std, shape)
    excess = squares - noise_squares.sum()
    root = np.sqrt(np.maximum(np.square(excess) - 4 * noise_squares.prod(), 0.0))
    stands_out = values > gaussian_norm(shape, noise_std)
    return largest * np.sqrt(np.where(stands_out, (excess + root) / 2, 0.0))


def are_mostly_signal(values: np.ndarray, noise_std: float, shape: tuple[int, ...]) -> np.ndarray:
    r"""Return which noisy right singular vectors have a squared cosine >= 1/2 with the true vector.

    With noise of variance :math:`\sigma^2` on every entry of an m x n matrix, the squared cosine is
    :math:`1 - \sigma^2 n (x^2 + \sigma^2 m) / (x^2 (x^2 + \sigma^2 n))` for the true singular value
    x (same source as `debiased`). The code compares without a division.
    """
    _, squares, (m, n) = _scaled(values, noise_std, shape)
    return 2 * n * (squares + m) <= squares * (squares + n)


def shrunk(values: np.ndarray, noise_std: float, shape: tuple[int, ...]) -> np.ndarray:
    r"""Shrink singular values so that the noisy singular vectors give the best approximation.

    For a true singular value x, the squared cosine between the noisy singular vector of m entries
    and the true one is :math:`(x^4 - \sigma^4 m n) / (x^4 + \sigma^2 m x^2)`; for the vector of n
    entries, m and n are exchanged (same source as `debiased`). The product of x and both cosines
    has the least squared error (M. Gavish, D. L. Donoho, 2017, :doi:`10.1109/TIT.2017.2653801`).
    """
    largest, squares, (m, n) = _scaled(values, noise_std, shape)
    fitting = np.maximum(np.square(squares) - m * n, 0.0)
    spread = np.sqrt((squares + m) * (squares + n) * squares)
    return largest * np.divide(fitting, spread, out=np.zeros_like(fitting), where=fitting > 0)


def _scaled(
    values: np.ndarray, noise_std: float, shape: tuple[int, ...]
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the largest number, and the squares of values and noise divided by its square."""
    largest = max(float(values.max(initial=0.0)), noise_std) or 1.0
    noise_squares = (noise_std / largest) ** 2 * np.array(shape, dtype=float)
    return largest, np.square(values / largest), noise_squares


# ------------------------------
# Regressions of a column on other columns by noisy covariances, and their errors.

# Ridge penalty of a regression, relative to the edge, the largest eigenvalue of noise alone.
_PENALTY = 0.3  # benchmarks/covariance/covariance.md
# Noise hides a direction whose variance is below this many edges.
_VISIBLE = 1.5  # benchmarks/covariance/intervals.md


class Regression(NamedTuple):
    """Coefficients of a regression, and what their errors depend on."""

    coef: np.ndarray
    inverse: np.ndarray  # of the penalized covariance of the columns
    penalty: np.ndarray  # added to that covariance
    moment: np.ndarray  # covariance of the columns, with the target last
    noise: "MomentNoise"  # of that moment
    residual: np.ndarray  # weights of the columns and the target in the residual

    @property
    def unexplained(self) -> float:
        """Variance of the residual."""
        return float(self.residual @ self.moment @ self.residual)


class MomentNoise(NamedTuple):
    r"""Noise of a covariance: its standard deviations, and a metric :math:`G = A A^T`.

    Most of the noise is :math:`A N A^T` for a symmetric :math:`N` with independent entries, of
    variance 1 off the diagonal. A part of it, with standard deviations `common`, multiplies all
    entries by one factor, which moves neither coefficients nor R2. The rest of each entry's
    variance is independent noise.
    """

    std: np.ndarray
    metric: np.ndarray
    common: np.ndarray

    def of(self, places: Any) -> "MomentNoise":
        """Return the noise of some rows and columns of the moment."""
        return MomentNoise(*(one[places] for one in self))

    @property
    def edges(self) -> np.ndarray:
        """Return a matrix whose quadratic form bounds the noise along every direction."""
        units = np.sqrt(np.diag(self.metric))
        units = np.where(units > 0, units, 1.0)
        alike, scales = self.metric / np.outer(units, units), np.sqrt(_edges(self.std))
        np.fill_diagonal(alike, 1.0)
        return np.asarray(alike * np.outer(scales, scales))

    @property
    def _others(self) -> np.ndarray:
        """Variances of the noise of single entries, without `common`, beside that of `metric`."""
        stds = np.diag(self.metric)
        explained = np.outer(stds, stds) + self.metric**2 + self.common**2
        return np.maximum(np.square(self.std) - explained, 0.0)

    def of_products(self, weights: np.ndarray) -> np.ndarray:
        """Return the covariance of the product of the noise matrix and a vector of weights."""
        moved, variances = self.metric @ weights, self._others
        both = self.metric * (weights @ moved) + np.outer(moved, moved)
        both += variances * np.outer(weights, weights)
        return np.asarray(both + np.diag(variances @ weights**2 - np.diag(variances) * weights**2))

    def of_form(self, weights: np.ndarray) -> float:
        """Return the variance of the sum of noise entries, weighted by a symmetric matrix."""
        moved = weights @ self.metric
        # Entries on the diagonal count once, other entries twice.
        twice = 2 - np.eye(len(weights))
        return float(2 * np.sum(moved * moved.T) + np.sum(twice * self._others * weights**2))


def regress(
    covariance: np.ndarray,
    noise: MomentNoise,
    columns: Sequence[int],
    target: int,
    penalty: float,
    gaps: float = 0.0,
) -> Regression:
    r"""Solve the normal equations with `penalty` on the diagonal and a second penalty for noise.

    Noise of standard deviation :math:`\tau` moves the eigenvalues of the covariance of k columns by
    up to :math:`2 \tau \sqrt k`. The second penalty is a part of this bound, in the metric of the
    noise. It prevents large coefficients along directions that noise hides. Errors of correlations
    because of `gaps` are one more noise: each pair of columns has rows of its own.
    """
    chosen = np.ix_([*columns, target], [*columns, target])
    moment, noise = covariance[chosen], noise.of(chosen)
    of_columns = noise.of(np.ix_(*[range(len(columns))] * 2))
    edges, of_gaps = of_columns.edges, noise_edge(gaps, len(columns)) * np.diag(moment)[:-1]
    np.fill_diagonal(edges, np.hypot(np.diag(edges), of_gaps))
    added = _PENALTY * edges + penalty * np.eye(len(columns))
    matrix = moment[:-1, :-1] + added
    units = np.sqrt(np.diag(matrix))
    units = np.where(units > 0, units, 1.0)
    scaled = pinvh(matrix / np.outer(units, units), check_finite=False)
    inverse = scaled / np.outer(units, units)
    coef = inverse @ moment[:-1, -1]
    return Regression(coef, inverse, added, moment, noise, np.append(-coef, 1.0))


def penalties_of(noise_std: np.ndarray) -> np.ndarray:
    """Return the ridge penalties against noise, by column."""
    return _edges(noise_std) * _PENALTY


def _edges(noise_std: np.ndarray) -> np.ndarray:
    """Return the largest eigenvalue of noise alone, in the squared units of each column."""
    return np.diag(noise_std) * noise_edge(math.sqrt(0.5), len(noise_std))


def coefficient_errors(
    found: Regression, n_units: int, presence: np.ndarray, unclipped: float, left: np.ndarray
) -> np.ndarray:
    r"""Estimate standard errors of coefficients, due to noise, sampling, penalty and clipping.

    Let A be the penalized covariance of the columns, and a the weights of columns and target in the
    residual. Noise E in the covariance changes the coefficients by :math:`A^{-1} (E a)`, to first
    order. Sampling errors follow normal theory; entries missing at random, a part of
    1 - `presence`, add variance to the residual. Clipping is assumed to multiply coefficients by
    `unclipped`; and to multiply them by the part `left` of the variance of the target, or to divide
    them by the root of the part `left` of that of the column, whichever changes them more. By the
    Cauchy-Schwarz inequality, clipping a column multiplies covariance over variance by no more.
    """
    noise = found.noise.of_products(found.residual)[:-1, :-1]
    gaps = np.diag(found.moment) * np.square(found.residual) * (1 - presence) / presence
    roots = 1 / np.sqrt(presence[:-1])
    sampling = (found.unexplained + gaps.sum()) / n_units * found.moment[:-1, :-1]
    covariance = found.inverse @ (noise + sampling * np.outer(roots, roots)) @ found.inverse
    bias = found.inverse @ (found.penalty @ found.coef)
    bias = np.hypot(bias, (1 - unclipped) * found.coef)
    bias = np.hypot(bias, (1 / np.minimum(np.sqrt(left[:-1]), left[-1]) - 1) * found.coef)
    return np.asarray(np.hypot(np.sqrt(np.diag(covariance)), bias))


def check_visible(found: Regression) -> None:
    """Refuse to estimate errors if noise hides a direction of the columns."""
    k = len(found.coef)
    edges = found.noise.of(np.ix_(range(k), range(k))).edges
    if not edges.any():
        return
    units = np.sqrt(np.diag(edges))
    both = [matrix / np.outer(units, units) for matrix in (found.moment[:-1, :-1], edges)]
    least = eigh(*both, eigvals_only=True, check_finite=False)[0]
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

    The coefficients also fit the noise and the sampling error. This raises R2 by twice the trace of
    the inverse times the covariance of both errors, which is subtracted.
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
    noisy = found.noise.of_form(weights) / total**2
    unclipped = float(np.clip(value, 0.0, 1.0))
    return Estimate(value, math.sqrt(noisy + 4 * unclipped * (1 - unclipped) ** 2 / n_units))


# ------------------------------
# Noisy covariances made positive definite, and shrunk toward priors.

# Least eigenvalue of a scaled covariance, relative to the edge of its noise, if the trace suffices;
# and least mean of the eigenvalues that noise hides.
_FLOOR = 0.3  # benchmarks/covariance/covariance.md
_LEAST_OF_HIDDEN = 0.05  # benchmarks/sweep/sweep.md


def repaired_spectrum(values: np.ndarray, edge: float) -> np.ndarray:
    """Raise eigenvalues to a floor; eigenvalues hidden by noise share the rest of the trace."""
    raised, is_hidden = np.maximum(values, _FLOOR * edge), values < edge
    hidden = raised[is_hidden].sum()
    left = max(values.sum() - raised[~is_hidden].sum(), _LEAST_OF_HIDDEN * is_hidden.sum())
    raised[is_hidden] *= min(1.0, left / hidden) if hidden > 0 else 1.0
    return raised


# Noise hides a variance up to the first number of its standard deviations. It shows which columns
# are constant if, in most others, it would show so many rows, `_FAR_ROW` deviations from the mean.
_SEEN, _FEW_ROWS, _FAR_ROW = 4.0, 4, 5.0  # benchmarks/diagonal_prior/flat.md


def are_flat(variances: np.ndarray, noise_stds: np.ndarray, n_rows: int) -> np.ndarray:
    """Return which columns are nearly constant: noise hides them, but would show a few far rows.

    Scaled to variance 1, such a column would be a component before all with eigenvalues below 1.
    """
    is_seen = variances > _SEEN * noise_stds
    is_clear = is_seen & (_FEW_ROWS * _FAR_ROW**2 / n_rows * variances > _SEEN * noise_stds)
    return np.asarray(~is_seen & (2 * is_clear.sum() > is_seen.sum()))


# Least variance of a scaled column, where there is a prior.
_LEAST_VARIANCE = 0.25  # not studied


def toward_prior(
    released: np.ndarray, noise: np.ndarray, prior: np.ndarray, is_seen: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Shrink covariances of columns in `is_seen`, so that correlations move toward a prior's.

    `noise` are standard deviations. Variances stay, so that units do not matter. The weight of the
    prior is the noise variance divided by the squared distance of the released covariances from the
    prior's (W. James, C. Stein, 1961). Return also the noise that is left, and the weight.
    """
    variances = np.maximum(np.diag(prior), 0.0)
    has_prior = is_seen & (variances > 0)
    ratios = np.sqrt(np.maximum(np.diag(released), _LEAST_VARIANCE))
    ratios = ratios / np.sqrt(np.where(has_prior, variances, 1.0))
    is_moved = np.outer(has_prior, has_prior) & ~np.eye(len(prior), dtype=bool)
    away = np.where(is_moved, np.outer(ratios, ratios) * prior - released, 0.0)
    distance = max(float(np.square(away).sum()), _TINY)
    weight = min(1.0, float(np.square(noise[is_moved]).sum()) / distance)
    return released + weight * away, (1 - weight * is_moved) * noise, weight


# The location of a column is unknown if noise in its mean exceeds this part of its scale.
_MOST_NOISE = 0.3  # benchmarks/sweep/sweep.md, job "regression"


def located(
    mean: np.ndarray,
    mean_std: np.ndarray,
    center: np.ndarray,
    center_std: np.ndarray,
    scale: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Combine means of clipped rows with released centers, which have more noise but no bias.

    The part of `mean - center` that noise does not explain is taken for the bias of `mean`. Return
    also the remaining error, if all of `mean - center` is bias, and which columns have a known
    location.
    """
    if not np.any(mean_std):
        return mean, np.zeros(len(mean)), np.full(len(mean), True)
    own, other, distance = np.square(mean_std), np.square(center_std), np.square(mean - center)
    error = own + np.maximum(distance - own - other, 0.0)
    part = error / np.maximum(error + other, np.finfo(np.float64).tiny)
    least = 1 / np.sqrt(1 / own + 1 / other)
    is_located = (least <= _MOST_NOISE * scale) & np.isfinite(other)
    stds = 1 / np.sqrt(1 / (own + distance) + 1 / other)
    return mean + part * (center - mean), stds, is_located
