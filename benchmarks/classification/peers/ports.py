"""Published ways to a private classifier. Not private as run here: they are given too much.

Both get the exact median norm of the rows as clip level, and their grid is judged on the rows that
are held out. Noise is that of mu, as ours.

References
----------
.. [1] M. Abadi et al. (2016). "Deep learning with differential privacy". CCS; here with full
   batches.
.. [2] K. Chaudhuri, C. Monteleoni, A. Sarwate (2011). "Differentially private empirical risk
   minimization". JMLR 12; the output is perturbed by Gaussian noise.
"""

import warnings
from collections.abc import Callable, Iterator

import numpy as np
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from benchmarks.classification.tasks import DELTA, Split
from skdp.privacy.gaussian_dp import mu_from_epsilon_delta

__all__ = ["PORTS", "median_norm"]

# Numbers of steps and their lengths, for rows of norm 1; strengths of a penalty.
STEPS = ((20, 1.0), (20, 4.0), (20, 16.0), (80, 4.0), (80, 16.0), (320, 16.0))
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1)


def median_norm(split: Split) -> float:
    return float(np.median(np.linalg.norm(split.train, axis=1)))


def gradient_descent(split: Split, epsilons: tuple[float, ...]) -> Iterator[float]:
    """Yield the best accuracy of the grid, for each epsilon: clipped gradients, all rows a step."""
    train, test = (_unit_rows(X, median_norm(split)) for X in (split.train, split.test))
    for epsilon in epsilons:
        random = np.random.default_rng([split.seed, 1])
        yield max(
            _accuracy(split, test @ _descended(split, train, mu_of(epsilon), n, length, random))
            for n, length in STEPS
        )


def output_perturbation(split: Split, epsilons: tuple[float, ...]) -> Iterator[float]:
    """Yield the best accuracy of the grid, for each epsilon: noise on the penalized optimum."""
    train, test = (_unit_rows(X, median_norm(split)) for X in (split.train, split.test))
    n_records = len(train)
    fits = {penalty: _optimum(train, split.ours, penalty) for penalty in PENALTIES}
    # Gradients of softmax have up to sqrt(2) times the norm of a row, those of two classes once.
    longest = 1.0 if len(split.task.classes) == 2 else np.sqrt(2)
    for epsilon in epsilons:
        random = np.random.default_rng([split.seed, 2])
        found = []
        for penalty, weights in fits.items():
            noise_std = 2 * longest / (n_records * penalty * mu_of(epsilon))
            noisy = weights + noise_std * random.normal(size=weights.shape)
            scores = test @ noisy
            found.append(_accuracy(split, np.hstack([0 * scores, scores])[:, -split.n_classes :]))
        yield max(found)


def mu_of(epsilon: float) -> float:
    return mu_from_epsilon_delta(epsilon, DELTA)


def _unit_rows(X: np.ndarray, norm: float) -> np.ndarray:
    """Clip rows to norm 1 / sqrt(2) and append a constant of the same size."""
    lengths = np.maximum(np.linalg.norm(X, axis=1, keepdims=True) / norm, 1.0)
    return np.hstack([X / (norm * lengths), np.ones((len(X), 1))]) / np.sqrt(2)


def _descended(
    split: Split,
    train: np.ndarray,
    mu: float,
    n_steps: int,
    length: float,
    random: np.random.Generator,
    clip: float = 0.5,
) -> np.ndarray:
    """Return the mean of the last half of the iterates."""
    truth = np.searchsorted(split.task.classes, split.ours)
    weights, kept = np.zeros((train.shape[1], split.n_classes)), []
    norms = np.linalg.norm(train, axis=1)
    for _ in range(n_steps):
        residuals = softmax(train @ weights, axis=1)
        residuals[np.arange(len(truth)), truth] -= 1
        sizes = np.linalg.norm(residuals, axis=1) * norms
        residuals *= np.minimum(1, clip / np.maximum(sizes, 1e-12))[:, np.newaxis]
        noise = 2 * clip * np.sqrt(n_steps) / mu * random.normal(size=weights.shape)
        weights = weights - length * (train.T @ residuals + noise) / len(train)
        kept.append(weights)
    return np.asarray(np.mean(kept[n_steps // 2 :], axis=0))


def _optimum(train: np.ndarray, y: np.ndarray, penalty: float) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        plain = LogisticRegression(C=1 / (len(train) * penalty), fit_intercept=False)
        return np.asarray(plain.fit(train, y).coef_.T)


def _accuracy(split: Split, scores: np.ndarray) -> float:
    return float(np.mean(split.task.classes[scores.argmax(axis=1)] == split.theirs))


PORTS: dict[str, Callable[[Split, tuple[float, ...]], Iterator[float]]] = {
    "DP gradient descent, best of a grid": gradient_descent,
    "output perturbation, best of a grid": output_perturbation,
}
