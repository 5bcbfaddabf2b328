"""The released model, and ridge regressions of many users at once."""

from dataclasses import dataclass, replace

import numpy as np

from skdp.linalg.norms import row_squares


@dataclass(frozen=True)
class Prior:
    """A normal prior of a user's coefficients and intercept, for centered and whitened rows."""

    # Coefficients of the mean model.
    mean: np.ndarray
    # Columns: orthonormal directions in which users differ.
    basis: np.ndarray
    # Variances of the coordinates in the basis.
    variances: np.ndarray
    intercept_variance: float
    # Variance of the noise of a response.
    noise_variance: float
    # Share of the variance that is spread evenly over all directions.
    mix: float = 0.0

    @property
    def spread(self) -> float:
        """Variance in each direction at a mix of 1, which leaves the trace the same."""
        return float(self.variances.sum()) / len(self.basis)

    def changed(self, mix: float, noise_factor: float) -> "Prior":
        """Return the prior with another mix, and its noise variance multiplied by a factor."""
        return replace(self, mix=mix, noise_variance=noise_factor * self.noise_variance)

    def root(self) -> np.ndarray:
        """Return a root of the covariance: a column per component or, with a mix, symmetric."""
        if self.mix == 0:
            return self.basis * np.sqrt(self.variances)
        outside = self.mix * self.spread
        inside = np.sqrt((1 - self.mix) * self.variances + outside)
        symmetric = (self.basis * (inside - np.sqrt(outside))) @ self.basis.T
        symmetric[np.diag_indices(len(symmetric))] += np.sqrt(outside)
        return symmetric


@dataclass(frozen=True)
class SharedModel:
    """All that is released: a representation, a mean model, and a prior of heads."""

    center: np.ndarray
    response_center: float
    # Centered rows are multiplied by it; None for the identity.
    whitening: np.ndarray | None
    prior: Prior
    # How far the weakest component stands out, in units of the largest eigenvalue of the noise.
    snr: float
    warnings: tuple[str, ...] = ()


# ------------------------------
# Ridge regressions of many users at once, each from its own rows.

# None of these functions raises: values that overflow count as 0, and every matrix is made definite
# before it is inverted, as a singular one would raise an error for all users of a batch.

# Added to the diagonal, in units of the trace: far above rounding errors, too little to matter.
_RIDGE = 1e-11  # not tuned


def ridge_coefficients(
    features: np.ndarray, responses: np.ndarray, penalty: float, least: float = _RIDGE
) -> np.ndarray:
    """Compute the coefficients of every user; 0 for users whose products overflow."""
    across = features.transpose(0, 2, 1)
    if features.shape[2] <= features.shape[1]:
        solved = _solved(across @ features, across @ responses[:, :, None], penalty, least)
        return aligned(solved[:, :, 0])
    solved = _solved(features @ across, responses[:, :, None], penalty, least)
    return aligned(_finite(across @ solved)[:, :, 0])


def leave_one_out_errors_by_kernels(
    kernels: np.ndarray, responses: np.ndarray, counts: np.ndarray, penalty: float
) -> np.ndarray:
    """Compute the mean squared error if each response is predicted from the user's others.

    `kernels` are the prior covariances of the predictions. Errors that overflow are 0.
    """
    # The residual of a prediction without row i is (K^-1 y)_i / (K^-1)_ii.
    inverses = _inverses(kernels, penalty)
    weighted = (inverses @ responses[:, :, None])[:, :, 0]
    residuals = weighted / np.diagonal(inverses, axis1=1, axis2=2)
    return _mean_squares(residuals, counts)


def leave_one_out_errors_by_features(
    features: np.ndarray, responses: np.ndarray, counts: np.ndarray, penalty: float
) -> np.ndarray:
    """Compute the same from features, which is faster if they are fewer than the rows."""
    across = features.transpose(0, 2, 1)
    inner = features @ _inverses(across @ features, penalty)
    predicted = (inner @ (across @ responses[:, :, None]))[:, :, 0]
    leverages = np.einsum("bij,bij->bi", inner, features)
    return _mean_squares((responses - predicted) / (1 - leverages), counts)


def aligned(values: np.ndarray) -> np.ndarray:
    """Return the same numbers, with each row at a multiple of 16 bytes.

    On some processors the order of a sum depends on where its numbers start.
    """
    n_rows, size = values.shape
    if size % 2 == 0:
        return values
    padded = np.zeros((n_rows, size + 1))[:, :size]
    padded[:] = values
    return padded


def _solved(matrices: np.ndarray, sides: np.ndarray, penalty: float, least: float) -> np.ndarray:
    """Solve positive systems; the solution is 0 if something overflows."""
    is_bad = _make_definite(matrices, penalty, least) | ~np.isfinite(sides).all(axis=(1, 2))
    if is_bad.any():
        sides = np.where(is_bad[:, None, None], 0.0, sides)
    return _finite(np.linalg.solve(matrices, sides))


def _inverses(matrices: np.ndarray, penalty: float) -> np.ndarray:
    _make_definite(matrices, penalty, _RIDGE)
    return np.linalg.inv(matrices)


def _make_definite(matrices: np.ndarray, penalty: float, least: float) -> np.ndarray:
    """Add a penalty to Gram matrices, in place; mark those that overflow, which become 0 first."""
    diagonal = np.arange(matrices.shape[1])
    traces = np.trace(matrices, axis1=1, axis2=2)
    is_bad = ~(np.isfinite(matrices).all(axis=(1, 2)) & np.isfinite(traces))
    matrices[is_bad], traces[is_bad] = 0.0, 0.0
    matrices[:, diagonal, diagonal] += (penalty + least * traces)[:, np.newaxis]
    return is_bad


def _finite(values: np.ndarray) -> np.ndarray:
    """Set all values that are not finite to 0."""
    if not np.isfinite(values).all():
        values[~np.isfinite(values)] = 0.0
    return values


def _mean_squares(residuals: np.ndarray, counts: np.ndarray) -> np.ndarray:
    errors = row_squares(residuals) / counts
    return _finite(errors)
