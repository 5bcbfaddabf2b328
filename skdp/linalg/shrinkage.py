"""Shrink the rows of a noisy matrix to their posterior means.

References
----------
.. [1] B. Efron (2010). "Large-scale inference: empirical Bayes methods for estimation, testing,
   and prediction". Cambridge University Press. :doi:`10.1017/CBO9780511761362`
.. [2] M. Stephens (2017). "False discovery rates: a new deal". Biostatistics 18(2).
   :doi:`10.1093/biostatistics/kxw041`
"""

import numpy as np

# Variances of the signal in a row, as multiples of the average one: a geometric grid from rows of
# nearly pure noise to a single row with all of the signal.
_N_SCALES = 12  # not studied
_SMALLEST_SCALE = 1e-4  # not studied
# About how many rows the distribution of scales is estimated from, and in how many steps.
_SAMPLE = 1 << 12  # not studied
_N_STEPS = 30  # not studied
# The variance of the signal in a direction is at least this fraction of that of the noise.
_LEAST_SIGNAL = 0.02  # not studied
# Beyond this ratio of variances there is nothing to shrink, and squares could overflow.
_LARGEST_SIGNAL = 1e100  # not tuned


def shrink_rows(values: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    r"""Replace rows :math:`\theta_i + N(0, \Gamma)` by estimates of :math:`\theta_i`.

    Empirical Bayes with a scale mixture of Gaussians as the prior, :math:`\theta_i \sim \sum_j
    \pi_j N(0, t_j H)`: H is the covariance of all rows less that of the noise, and the weights
    :math:`\pi_j` on a grid of scales maximize the likelihood [1]_, [2]_. Many small rows beside few
    large ones, as of coherent singular vectors, lose nearly all their noise; rows of similar size
    are shrunk alike. If :math:`\Gamma` is 0, the rows stay as they are.
    """
    if not covariance.any():
        return values
    whiten, color = _whitening(covariance)
    n_rows, size = values.shape
    moment = whiten.T @ (values.T @ values) @ whiten / n_rows
    if not np.trace(moment) <= _LARGEST_SIGNAL:
        return values
    signal, axes = np.linalg.eigh(moment - np.eye(size))
    signal = np.maximum(signal, _LEAST_SIGNAL)
    rows = values @ (whiten @ axes)
    scales = np.geomspace(_SMALLEST_SCALE, max(n_rows / 4, 4.0), _N_SCALES)
    variances = scales[:, None] * signal
    likelihood = _likelihood(rows, variances)
    posterior = likelihood * _fit_weights(likelihood[:: max(n_rows // _SAMPLE, 1)])
    posterior /= np.maximum(posterior.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    rows *= posterior @ (variances / (1 + variances))
    return rows @ (axes.T @ color)


def _whitening(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrices that turn noise of that covariance into N(0, 1), and back."""
    values, axes = np.linalg.eigh(covariance)
    noise_stds = np.sqrt(np.maximum(values, 1e-12 * values[-1]))
    return axes / noise_stds, (axes * noise_stds).T


def _likelihood(rows: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Compute densities of rows under N(0, 1 + variances), divided by the largest of each row."""
    total = 1 + variances
    log_likelihood = np.square(rows) @ (-0.5 / total).T
    log_likelihood -= 0.5 * np.log(total).sum(axis=1)
    log_likelihood -= log_likelihood.max(axis=1, keepdims=True)
    return np.exp(log_likelihood, out=log_likelihood)


def _fit_weights(likelihood: np.ndarray) -> np.ndarray:
    """Fit the weights of a mixture by expectation maximization, beginning with equal ones."""
    n_rows, n_scales = likelihood.shape
    weights = np.full(n_scales, 1 / n_scales)
    for _ in range(_N_STEPS):
        density = np.maximum(likelihood @ weights, np.finfo(float).tiny)
        weights *= (1 / density) @ likelihood / n_rows
    return weights
