"""Utility of personal regressions; joined to `accuracy_cases.py`.

Excess risk over the true coefficients, mean of the users, in regimes of
`benchmarks/personalization/`, with heads that are fitted with the released prior. Zero has a risk
of the number of components, and the oracle one of .17 in B, .03 in G and .001 in S.
"""

import warnings
from functools import partial

import numpy as np
from scipy.linalg import toeplitz
from sklearn.datasets import load_digits
from utility import KEY, Case

from benchmarks.personalization.users import make_personalized_regression
from skdp import DPPersonalizedRegressor, PrivacyWarning

A = {"n_users": 300, "rows_per_user": 10}
B = {"n_users": 2000, "n_features": 50, "n_components": 3, "noise": 1.0}
G = {"n_users": 3000, "correlation": 0.9}
S = {"n_users": 500, "noise": 0.1}
H = {"n_users": 1000, "mean": 2.0}
OFF = {"mean_head": False, "fit_intercept": False}


def fitted(X, y, groups, seed, **parameters):
    with warnings.catch_warnings():
        # How far components stand out is what is measured.
        warnings.simplefilter("ignore", PrivacyWarning)
        return DPPersonalizedRegressor(random_state=KEY + seed, **parameters).fit(X, y, groups)


def risk(regime, seed, number, **parameters):
    X, y, groups, coef = make_personalized_regression(**regime, random_state=seed)
    model = fitted(X, y, groups, number, n_components=regime.get("n_components", 2), **parameters)
    coefs, intercepts = model._models(model._checked(X, y, groups))
    covariance = toeplitz(float(regime.get("correlation", 0)) ** np.arange(X.shape[1]))
    errors = np.sum((coefs - coef) @ covariance * (coefs - coef), axis=1)
    return np.mean(errors + intercepts**2)


def mean_risk(regime, seed, *, n_seeds=3, **parameters):
    numbers = [n_seeds * seed + number for number in range(n_seeds)]
    return float(np.mean([risk(regime, number, number, **parameters) for number in numbers]))


def ridge_risk(regime, seed):
    """Risk of ridge of each user alone, at the best common penalty in hindsight."""
    X, y, _, coef = make_personalized_regression(**regime, random_state=seed)
    X, y = X.reshape(len(coef), -1, X.shape[1]), y.reshape(len(coef), -1)
    kernels, products = X @ X.transpose(0, 2, 1), X.transpose(0, 2, 1)
    identity = np.eye(X.shape[1])
    return min(
        np.square(
            (products @ np.linalg.solve(kernels + penalty * identity, y[..., None]))[..., 0] - coef
        )
        .sum(axis=1)
        .mean()
        for penalty in 10.0 ** np.arange(-1, 2.1, 0.25)
    )


def over_ridge(regime, seed, n_seeds=6, **parameters):
    """Compare mean risks, where the signal drowns in noise."""
    local = [ridge_risk(regime, n_seeds * seed + number) for number in range(n_seeds)]
    return mean_risk(regime, seed, n_seeds=n_seeds, **parameters) / np.mean(local)


def digits_score(seed):
    """R^2 of the hidden half of the pixels of 1797 images, mean of 6."""
    images = load_digits().data / 16
    waves = np.cos(np.pi * np.outer(np.arange(8) + 0.5, np.arange(6)) / 8)
    waves /= np.linalg.norm(waves, axis=0)
    features, scores = 8 * np.kron(waves, waves), []
    for number in range(6 * seed, 6 * seed + 6):
        order = np.argsort(np.random.default_rng(number).random(images.shape), axis=1)
        groups = np.repeat(np.arange(len(images)), 32)
        seen, hidden = (
            (features[part.ravel()], np.take_along_axis(images, part, axis=1).ravel())
            for part in (order[:, :32], order[:, 32:])
        )
        model = fitted(*seen, groups, number, n_components=3, delta=1e-5, decorrelate=False)
        found = model.predict(hidden[0], groups=groups, support=(*seen, groups))
        spread = np.square(hidden[1] - hidden[1].mean()).sum()
        scores.append(1 - np.square(hidden[1] - found).sum() / spread)
    return float(np.mean(scores))


PERSONAL_CASES = [
    Case("personal, risk, B, no mean", partial(mean_risk, B, n_seeds=10, **OFF), at_most=0.42),
    Case("personal, risk, B", partial(mean_risk, B, n_seeds=10), at_most=0.5),
    Case(
        "personal, risk, B, no mean, epsilon 4",
        partial(mean_risk, B, **OFF, epsilon=4.0),
        at_most=0.21,
    ),
    Case("personal, risk, G, no mean", partial(mean_risk, G, n_seeds=10, **OFF), at_most=0.075),
    Case("personal, risk, S, no mean", partial(mean_risk, S, n_seeds=10, **OFF), at_most=0.06),
    Case("personal, risk, S", partial(mean_risk, S, n_seeds=10), at_most=0.12),
    Case(
        "personal, risk / ridge, A, epsilon .5",
        partial(over_ridge, A, n_seeds=10, epsilon=0.5),
        at_most=1.25,
    ),
    Case("personal, risk, H", partial(mean_risk, H), at_most=0.6),
    Case("personal, R2, digits, mean of 6", digits_score, at_least=0.54),
]
