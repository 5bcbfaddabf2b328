"""Utility of trace regression; joined to `accuracy_cases.py`.

Unless a case says otherwise, epsilon is 1, delta 1e-6, the matrix has rank 2 and the Frobenius norm
1.8, and the noise of the responses a standard deviation of .5. An error is the Frobenius norm of
the difference, divided by that of the matrix.
"""

import warnings
from functools import partial

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from utility import KEY, Case

from skdp import DPLinearRegression, DPTraceRegressor, PrivacyWarning
from skdp.datasets import make_trace_regression


def relative_error(seed, *, rank=2, data=None, **parameters):
    """Error for 8000 Gaussian matrices of shape (12, 12), unless `data` says otherwise."""
    settings = {"n_samples": 8000, "shape": (12, 12), **(data or {})}
    X, y, M = make_trace_regression(**settings, random_state=seed)
    fit = DPTraceRegressor(rank, random_state=KEY + seed, **parameters).fit(X, y)
    return np.linalg.norm(fit.coef_matrix_ - M) / np.linalg.norm(M)


def usual_error(design, seed, n_fits=5):
    """Median of the errors of some fits for 16,000 matrices of rank one."""
    data = {"n_samples": 16_000, "shape": (16, 16), "design": design}
    return np.median([relative_error(n_fits * seed + i, data=data) for i in range(n_fits)])


def spread_of_errors(seed):
    """Largest absolute error over the smallest one, for matrices of size .25, 1, and 8."""
    errors = []
    for value in (0.25, 1.0, 8.0):
        data = {"shape": (8, 8), "singular_values": [value]}
        with warnings.catch_warnings():
            # Matrices of size .25 explain little of the responses, and the fit says so.
            warnings.simplefilter("ignore", PrivacyWarning)
            found = [relative_error(5 * seed + i, rank=1, data=data, **KNOWN) for i in range(5)]
        errors.append(value * np.median(found))
    return max(errors) / min(errors)


def error_of_few(n_samples, ranks, seed):
    """Largest error where the records are too few for the ranks."""
    data = {"n_samples": n_samples, "shape": (16, 16), "rank": 1, "norm": 1.0}
    with warnings.catch_warnings():
        # That noise drowns the signal is what is measured.
        warnings.simplefilter("ignore", PrivacyWarning)
        return max(
            relative_error(seed, rank=rank, data=data, **parameters)
            for rank in ranks
            for parameters in (KNOWN, {})
        )


def loss_in_prediction(seed):
    """What R2 for 10 features, correlated and of different size, loses by privacy; mean of 4."""
    return np.mean([loss_in_one_fit(4 * seed + i) for i in range(4)])


def loss_in_one_fit(seed):
    X, y, _ = make_trace_regression(
        30_000, (1, 10), rank=1, column_correlation=0.8, random_state=seed
    )
    X = 3 + X.reshape(len(X), -1) * np.geomspace(0.01, 100, 10)
    y = 50 + 10 * y
    train, test = slice(0, 20_000), slice(20_000, None)
    fits = (LinearRegression(), DPTraceRegressor(random_state=KEY + seed))
    best, found = (r2_score(y[test], f.fit(X[train], y[train]).predict(X[test])) for f in fits)
    return best - found


def loss_in_unlike_units(is_bounded, seed):
    """What R2 loses by privacy for 20,000 rows of 6 features in any units, one of them narrow."""
    random = np.random.default_rng(seed)
    units, middle = np.geomspace(1e-3, 1e4, 6), np.array([0, 2, -1, 0, 2e6, 1e4])
    z = random.normal(size=(40_000, 6))
    y = z.sum(axis=1) + random.normal(size=len(z))
    X = middle + units * z
    bounds = (middle - 6 * units, middle + 6 * units) if is_bounded else None
    usual = make_pipeline(StandardScaler(), LinearRegression())
    fits = usual, DPLinearRegression(bounds=bounds, random_state=KEY + seed)
    best, found = (f.fit(X[:20_000], y[:20_000]).score(X[20_000:], y[20_000:]) for f in fits)
    return best - found


def usual_loss_in_unlike_units(seed):
    return np.median([loss_in_unlike_units(False, 5 * seed + i) for i in range(5)])


def far_from_0(shape, n_fits, seed):
    """R2 of fits to responses that are 13,450 +- 2.9, and whether each has warned."""
    n_records, n_features = shape
    scores, warned = [], []
    for key in range(n_fits * seed, n_fits * (seed + 1)):
        random = np.random.default_rng(key)
        X, weights = random.normal(size=(2 * n_records, n_features)), random.normal(size=n_features)
        signal = X @ weights / np.sqrt(n_features)
        y = 13_450 + 2.9 * np.sqrt(0.5) * (signal + random.normal(size=len(X)))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            fit = DPLinearRegression(random_state=KEY + key).fit(X[:n_records], y[:n_records])
        scores.append(fit.score(X[n_records:], y[n_records:]))
        warned.append(any(issubclass(one.category, PrivacyWarning) for one in told))
    return np.array(scores), np.array(warned)


def usual_score_far_from_0(seed):
    return np.median(far_from_0((600, 5), 7, seed)[0])


def silent_failures_far_from_0(seed):
    """Count fits of 10 that are worse than the mean, and do not warn."""
    scores, warned = far_from_0((2000, 10), 10, seed)
    return np.sum((scores < -0.02) & ~warned)


def score_without_signal(seed):
    """R2 for 30,000 skew responses that have nothing to do with 8 features."""
    random = np.random.default_rng(seed)
    X, y = random.normal(size=(30_000, 8)), random.exponential(size=30_000)
    with warnings.catch_warnings():
        # That no coefficient stands out from the noise is right.
        warnings.simplefilter("ignore", PrivacyWarning)
        return DPLinearRegression(random_state=KEY + seed).fit(X, y).score(X, y)


KNOWN = {"covariance": "identity", "fit_intercept": False}

TRACE_CASES = [
    Case("trace, error, isotropic", partial(relative_error, **KNOWN), at_most=0.06),
    Case("trace, error, defaults", relative_error, at_most=0.06),
    # One fit in 50 is so good that the others are more than twice as wrong.
    Case("trace, absolute errors, largest / smallest, medians of 5", spread_of_errors, at_most=2.0),
    Case("trace, error, 700 records, rank 4", partial(error_of_few, 700, (4,)), at_most=1.05),
    Case("trace, error, 1400 records", partial(error_of_few, 1400, (1, 4)), at_most=1.1),
    Case(
        "trace, error, completion, median of 15",
        partial(usual_error, "completion", n_fits=15),
        at_most=0.09,
    ),
    Case("trace, error, tasks, median of 5", partial(usual_error, "tasks"), at_most=0.07),
    Case(
        "trace, error, correlation .6",
        partial(relative_error, data={"column_correlation": 0.6}),
        at_most=0.1,
    ),
    Case("trace, error, response", partial(relative_error, privacy_unit="response"), at_most=0.06),
    Case("trace, loss in R2, correlated features, mean of 4", loss_in_prediction, at_most=0.2),
    Case("linear, loss in R2, bounds", partial(loss_in_unlike_units, True), at_most=0.01),
    # In some fits of a hundred noise shows a bin of another size, and a feature is lost.
    Case("linear, loss in R2, no bounds, median of 5", usual_loss_in_unlike_units, at_most=0.01),
    Case("linear, R2, far from 0, median of 7", usual_score_far_from_0, at_least=0.0),
    Case("linear, silent failures of 10, far from 0", silent_failures_far_from_0, at_most=2),
    Case("linear, R2 without a signal", score_without_signal, at_least=-0.005),
]
