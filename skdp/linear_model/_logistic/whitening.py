"""What a released moment tells: how to whiten rows, where their classes are, how to start."""

import math
from dataclasses import dataclass

import numpy as np

from skdp.linalg.norms import row_norms, row_squares
from skdp.linalg.spectrum import noise_edge

# Least eigenvalue, as a fraction of the largest, and of the mean. Neither mattered:
# benchmarks/classification/constants.md.
_LEAST_OF_LARGEST, _LEAST_OF_MEAN = 1e-4, 1e-2


@dataclass(frozen=True)
class Whitening:
    """The map :math:`z = A (x - m)`, whose values are clipped to norm `reach`.

    `vectors` are the eigenvectors of A, `spread` the variances of z along them, `largest` is the
    spectral norm of A, and `is_clear` whether any eigenvalue exceeds the noise.
    """

    mean: np.ndarray
    root: np.ndarray
    vectors: np.ndarray
    spread: np.ndarray
    largest: float
    reach: float
    is_clear: bool

    @property
    def mean_norm(self) -> float:
        """Length of m."""
        return float(row_norms(self.mean[None])[0])


def whitening_of(
    moment: np.ndarray, noise_std: float, constant: float, n_features: int
) -> Whitening:
    """Whiten by the noisy covariance, with the edge of its noise as the least eigenvalue.

    The mean is drawn to 0 as far as it is noise. A whitened row is clipped to the root mean square
    norm that it has by this. All of that is post-processing.
    """
    off_diagonal_std = noise_std * math.sqrt(0.5)
    noisy = moment[:n_features, n_features] / constant
    mean = _without_noise(noisy, off_diagonal_std / constant)
    # The second moment around `mean`, not around the noisy mean, which may be longer than the rows.
    shift = np.outer(mean, noisy)
    covariance = moment[:n_features, :n_features] - shift - shift.T + np.outer(mean, mean)
    values, vectors = np.linalg.eigh(covariance)
    edge = noise_edge(off_diagonal_std, n_features)
    least = max(edge, _LEAST_OF_LARGEST * values[-1], _LEAST_OF_MEAN * values.mean())
    raised = np.maximum(values, least)
    spread = values / raised
    reach = math.sqrt(max(1.0, float(spread.sum())))
    half = (vectors / np.sqrt(raised)) @ vectors.T
    is_clear = bool(values[-1] > edge and reach > 1)
    root, largest = (half + half.T) / 2, 1 / math.sqrt(raised[0])
    return Whitening(mean, root, vectors, np.maximum(spread, 0.0), largest, reach, is_clear)


def _without_noise(mean: np.ndarray, noise_std: float) -> np.ndarray:
    """Draw a mean to 0 by the fraction of its squared length that is noise."""
    square = float(row_squares(mean[None])[0])
    return mean * max(0.0, 1 - len(mean) * noise_std**2 / square) if square else mean


def start_of(
    moment: np.ndarray, whitening: Whitening, beside: tuple[float, float], n_units: int
) -> np.ndarray:
    """Take a Newton step from the class fractions; the last row has the offsets.

    The step is exact for fractions of 1/K; for a rare class its length is capped.
    """
    constant, label_weight = beside
    n_features = len(whitening.mean)
    n_classes = len(moment) - n_features - 1
    sums = _class_sums(moment, label_weight, n_features)
    counts = sums[n_features] / constant
    fractions = np.clip(counts + 1 / n_classes, 1 / (n_classes * math.sqrt(n_units)), 1.0)
    fractions /= fractions.sum()
    cross = sums[:n_features] - np.outer(whitening.mean, counts)
    slopes = (whitening.root @ cross) * np.minimum(n_classes, 1 / fractions)
    return centered(np.vstack([slopes, np.log(fractions)]))


def on_rows(weights: np.ndarray, root: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Turn weights of whitened rows into those of the rows; the last row has the offsets."""
    slopes = root @ weights[:-1]
    return np.vstack([slopes, weights[-1] - mean @ slopes])


def fractions_of(moment: np.ndarray, beside: tuple[float, float], n_features: int) -> np.ndarray:
    """Return the fraction of the records that each class has, noise and all."""
    constant, label_weight = beside
    counts = _class_sums(moment, label_weight, n_features)[n_features] / constant
    return np.asarray(counts + 1 / len(counts))


def _class_sums(moment: np.ndarray, label_weight: float, n_features: int) -> np.ndarray:
    sums = moment[: n_features + 1, n_features + 1 :] / label_weight
    return np.asarray(sums - sums.mean(axis=1, keepdims=True))


def centered(weights: np.ndarray) -> np.ndarray:
    """Subtract what all classes have in common, which no probability depends on."""
    return np.asarray(weights - weights.mean(axis=1, keepdims=True))
