"""Utility that must not get worse: what is measured, and how good it has to be.

`test_accuracy.py` takes one seed of each case; `benchmarks/seeds/seeds.py` shows that 50 others
pass. A measure is a function of the seed, which picks both the rows and the noise. Unless a case
says otherwise, epsilon is 1, delta 1e-6, and the rows are `make_spiked(k=5)`.
"""

import warnings
from functools import partial

import numpy as np
from class_accuracy_cases import CLASS_CASES
from entry_accuracy_cases import ENTRY_CASES
from factor_accuracy_cases import FACTOR_CASES
from personal_accuracy_cases import PERSONAL_CASES
from scipy.sparse.linalg import svds
from sklearn.datasets import load_digits
from trace_accuracy_cases import TRACE_CASES
from utility import KEY, Case

from skdp import DPPCA, DPTruncatedSVD, PrivacyWarning
from skdp.datasets import make_spiked
from skdp.metrics import captured_variance, subspace_distance

K = 5


def fitted(make, X, seed, **parameters):
    with warnings.catch_warnings():
        # How many components stand out from the noise is what is measured.
        warnings.filterwarnings("ignore", "Only .* stand out from the noise", PrivacyWarning)
        return make(K, random_state=KEY + seed, **parameters).fit(X)


def rows_for(make, shape, seed):
    X, _ = make_spiked(*shape, k=K, random_state=seed)
    if make is DPPCA:
        X[:, :9] += 0.2  # a mean of norm .6, two thirds of that of the usual row
    return X


def best_components(X):
    return svds(X, K, v0=np.ones(min(X.shape)))[2]


def several(make, X, seed, n_fits, **parameters):
    return (fitted(make, X, n_fits * seed + i, **parameters) for i in range(n_fits))


def subspace_error(make, seed, **parameters):
    """Sine of the largest angle to the top subspace of the same 10,000 x 60 rows, mean of 3."""
    X = rows_for(make, (10_000, 60), seed)
    best = best_components(X - X.mean(axis=0) if make is DPPCA else X)
    fits = several(make, X, seed, 3, **parameters)
    return np.mean([subspace_distance(fit.components_, best) for fit in fits])


def captured_of_best(shape, seed, **parameters):
    """Captured variance divided by that of the best components, mean of 3."""
    X = rows_for(DPTruncatedSVD, shape, seed)
    fits = several(DPTruncatedSVD, X, seed, 3, **parameters)
    captured = np.mean([captured_variance(fit.components_, X) for fit in fits])
    return captured / captured_variance(best_components(X), X)


def captured_on_digits(average, seed, **parameters):
    X = load_digits().data
    centered = X - X.mean(axis=0)
    fits = several(DPPCA, X, seed, 5, **parameters)
    return average([captured_variance(fit.components_, centered) for fit in fits])


def sum_of_ratios(fit):
    return fit.explained_variance_ratio_.sum()


def sum_of_eigenvalues(fit):
    return (fit.singular_values_**2).sum()


def bias(statistic, make, shape, n_fits, seed, **parameters):
    """Relative bias of a statistic, against the fit without noise; the sign is dropped."""
    X = rows_for(make, shape, seed)
    exact = fitted(make, X, seed, **{**parameters, "epsilon": np.inf, "solver": "covariance"})
    fits = several(make, X, seed, n_fits, **parameters)
    return abs(np.mean([statistic(fit) for fit in fits]) / statistic(exact) - 1)


def error_ratio(worse, better, seed, **parameters):
    """Mean subspace error with the parameters `worse`, divided by that with `better`."""
    X = rows_for(DPTruncatedSVD, (5_000, 50), seed)
    best = best_components(X)

    def mean_error(setting):
        fits = several(DPTruncatedSVD, X, seed, 8, **parameters, **setting)
        return np.mean([subspace_distance(fit.components_, best) for fit in fits])

    return mean_error(worse) / mean_error(better)


def row_norm_miss(spread, unit, seed):
    """Factor between the private row_norm and the .95 quantile of 20,000 norms, at least 1."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(20_000, 10)) * unit
    X *= np.exp(spread * random.normal(size=(20_000, 1)))
    releases = fitted(DPTruncatedSVD, X, seed).privacy_spent_.releases
    (moment,) = (release for release in releases if release.name == "second moment")
    # Replacing a row moves a second moment by sqrt(2) row_norm ** 2.
    released = np.sqrt(moment.sensitivity / np.sqrt(2))
    ratio = released / np.quantile(np.linalg.norm(X, axis=1), 0.95)
    return max(ratio, 1 / ratio)


COVARIANCE = {"solver": "covariance"}
POWER = {"solver": "power"}
ZERO_OUT = {"adjacency": "zero_out", "row_norm": 1.0}
BOUNDS = {"row_norm": 1.0, "mean_norm": 1.2}

CASES = [
    Case(
        "error, SVD, covariance, zero_out, row_norm=1",
        partial(subspace_error, DPTruncatedSVD, **COVARIANCE, **ZERO_OUT),
        at_most=0.068,
    ),
    Case(
        "error, SVD, power, zero_out, row_norm=1",
        partial(subspace_error, DPTruncatedSVD, **POWER, **ZERO_OUT),
        at_most=0.098,
    ),
    Case(
        "error, SVD, covariance, defaults",
        partial(subspace_error, DPTruncatedSVD, **COVARIANCE),
        at_most=0.105,
    ),
    Case(
        "error, SVD, power, defaults",
        partial(subspace_error, DPTruncatedSVD, **POWER),
        at_most=0.17,
    ),
    Case(
        "error, PCA, covariance, row_norm=1, mean_norm=1.2",
        partial(subspace_error, DPPCA, **COVARIANCE, **BOUNDS),
        at_most=0.107,
    ),
    Case(
        "error, PCA, power, row_norm=1, mean_norm=1.2",
        partial(subspace_error, DPPCA, **POWER, **BOUNDS),
        at_most=0.177,
    ),
    Case("error, PCA, covariance, defaults", partial(subspace_error, DPPCA), at_most=0.115),
    Case("error, PCA, power, defaults", partial(subspace_error, DPPCA, **POWER), at_most=0.19),
    Case(
        "captured, 8000 x 300, covariance",
        partial(captured_of_best, (8_000, 300), **COVARIANCE, **ZERO_OUT),
        at_least=0.968,
    ),
    Case(
        "captured, 8000 x 300, power",
        partial(captured_of_best, (8_000, 300), **POWER, **ZERO_OUT),
        at_least=0.967,
    ),
    Case(
        "captured, 5000 x 1100, epsilon 4",
        partial(captured_of_best, (5_000, 1_100), epsilon=4.0, **ZERO_OUT),
        at_least=0.935,
    ),
    Case(
        "captured, digits, row_norm=37, mean_norm=57, mean of 5",
        partial(captured_on_digits, np.mean, row_norm=37.0, mean_norm=57.0),
        at_least=0.485,
    ),
    # A median: in some 8 of 1000 fits the noise on 1,797 rows misleads a search for a norm.
    Case(
        "captured, digits, defaults, median of 5",
        partial(captured_on_digits, np.median),
        at_least=0.47,
    ),
    # Without the denoising of eigenvalues the last of these would be .1, the first two .05 or more.
    Case(
        "bias of the ratios, PCA, covariance, epsilon .6",
        partial(
            bias,
            sum_of_ratios,
            DPPCA,
            (3_000, 100),
            30,
            epsilon=0.6,
            adjacency="zero_out",
            **BOUNDS,
        ),
        at_most=0.06,
    ),
    Case(
        "bias of the ratios, SVD, covariance",
        partial(bias, sum_of_ratios, DPTruncatedSVD, (3_000, 100), 20, **ZERO_OUT),
        at_most=0.05,
    ),
    Case(
        "bias of the ratios, SVD, power",
        partial(bias, sum_of_ratios, DPTruncatedSVD, (8_000, 60), 10, **POWER, **ZERO_OUT),
        at_most=0.02,
    ),
    Case(
        "bias of the eigenvalues, SVD, covariance, epsilon .5",
        partial(
            bias, sum_of_eigenvalues, DPTruncatedSVD, (3_000, 100), 20, epsilon=0.5, **ZERO_OUT
        ),
        at_most=0.03,
    ),
    Case(
        "error, replace / zero_out, covariance",
        partial(error_ratio, {"adjacency": "replace"}, {"adjacency": "zero_out"}, row_norm=1.0),
        at_least=1.1,
    ),
    Case(
        "error, replace / zero_out, power",
        partial(
            error_ratio, {"adjacency": "replace"}, {"adjacency": "zero_out"}, row_norm=1.0, **POWER
        ),
        at_least=1.15,
    ),
    Case(
        "error, epsilon 1 / epsilon 2, covariance",
        partial(error_ratio, {"epsilon": 1.0}, {"epsilon": 2.0}, row_norm=1.0),
        at_least=1.4,
    ),
    Case(
        "error, epsilon 1 / epsilon 2, power",
        partial(error_ratio, {"epsilon": 1.0}, {"epsilon": 2.0}, row_norm=1.0, **POWER),
        at_least=1.4,
    ),
    Case("row_norm=None, light tails", partial(row_norm_miss, 0.2, 1.0), at_most=1.2),
    Case("row_norm=None, heavy tails, tiny unit", partial(row_norm_miss, 0.7, 1e-6), at_most=1.2),
    *ENTRY_CASES,
    *TRACE_CASES,
    *FACTOR_CASES,
    *PERSONAL_CASES,
    *CLASS_CASES,
]
