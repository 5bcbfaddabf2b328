"""The coefficients without noise and without clipped gradients: those of scikit-learn."""

from functools import partial

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from skdp.data.parts import Targets
from skdp.data.rows import Block
from skdp.linear_model._logistic.descent import residuals_of
from skdp.linear_model._logistic.records import LabeledRows
from skdp.linear_model._logistic.whitening import on_rows

# Least eigenvalue of the covariance by which rows are whitened, as a fraction of the largest.
_LEAST_EIGENVALUE = 1e-12  # not tuned
_PRECISION = {"maxiter": 2000, "maxcor": 30, "gtol": 1e-9, "ftol": 1e-16}  # not studied


def optimum(view: LabeledRows, n_classes: int) -> np.ndarray:
    """Minimize the logistic loss; the last row of what is returned are the intercepts.

    How many steps that takes depends on the data: it is for epsilon=inf, where nothing is private.
    """
    n_rows, size = view.n_rows, view.n_features
    mean = view.total()[0] / n_rows
    values, vectors = np.linalg.eigh(view.gram()[0] / n_rows - np.outer(mean, mean))
    least = max(_LEAST_EIGENVALUE * values[-1], np.finfo(float).tiny)
    root = vectors / np.sqrt(np.maximum(values, least))

    def _loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = on_rows(flat.reshape(size + 1, n_classes), root, mean)
        kernel = partial(_loss_sums, codes=view.codes, slopes=weights[:-1], offsets=weights[-1])
        sums = view.map_sum(kernel, weights.size + n_classes)
        of_rows = root.T @ (sums[:-2] - np.outer(mean, sums[-2]))
        gradient = np.vstack([of_rows, sums[-2]])
        return sums[-1, 0] / n_rows, gradient.ravel() / n_rows

    found = minimize(
        _loss, np.zeros((size + 1) * n_classes), jac=True, method="L-BFGS-B", options=_PRECISION
    )
    return on_rows(np.nan_to_num(found.x).reshape(size + 1, n_classes), root, mean)


def _loss_sums(
    rows: slice, block: Block, codes: Targets, slopes: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    """Sum products of rows with residuals, the residuals, and losses, in the first column."""
    scores, places = block.matmul(slopes) + offsets, codes[rows]
    residuals = residuals_of(scores, places)
    residuals[block.is_null] = 0.0
    losses = logsumexp(scores, axis=1) - scores[np.arange(len(scores)), places]
    last = np.zeros(residuals.shape[1])
    last[0] = losses[~block.is_null].sum()
    return np.vstack([block.rmatmul(residuals), residuals.sum(axis=0), last])
