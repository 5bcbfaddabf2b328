"""Levels to which whole users are clipped, and averages without the known part of noise."""

from functools import partial

import numpy as np

from skdp.data.reduce import map_sum
from skdp.data.sources import as_source
from skdp.privacy import PrivacyBudget
from skdp.privacy.clipping import clip_rows
from skdp.privacy.releases import Search

#: Level that stands for no clipping: squares of longer vectors could overflow.
NO_CLIPPING = 1e100  # not tuned
#: How clearly a center of rows, and a mean of products, must exceed noise: see `above_noise`.
#: Not studied.
CENTER_CERTAINTY, MEAN_CERTAINTY = 3.0, 1.5
# Factors of other sizes contribute nothing, as products with them might lose digits.
_SIZES = (1e-150, 1e150)  # not tuned


def clip_level(size: float, budget: PrivacyBudget) -> float:
    """Return the level to clip to, a released size; without noise nothing is clipped."""
    return size if budget.is_private else NO_CLIPPING


def release_level(search: Search, norms: np.ndarray, q: float, budget: PrivacyBudget) -> float:
    """Release a quantile of norms, to clip to."""
    return clip_level(budget.quantile(search, norms, q=q), budget)


def clipped_total(values: np.ndarray, level: float) -> np.ndarray:
    """Sum vectors, one of each user, clipped to norm `level`."""
    kernel = partial(_total, level=level)
    return np.asarray(map_sum(as_source(values), kernel, values.shape[1]))


def clipped_moment(values: np.ndarray, level: float) -> np.ndarray:
    """Sum the outer products of vectors, one of each user, clipped to norm `level`."""
    kernel = partial(_moment, level=level)
    return np.asarray(map_sum(as_source(values), kernel, values.shape[1] ** 2))


def _total(_: slice, values: np.ndarray, level: float) -> np.ndarray:
    return np.asarray(clip_rows(values.copy(), level).sum(axis=0))


def _moment(_: slice, values: np.ndarray, level: float) -> np.ndarray:
    clipped = clip_rows(values.copy(), level)
    return clipped.T @ clipped


def loses_digits(sizes: np.ndarray) -> np.ndarray:
    """Mark factors so large or small that products with them might lose digits."""
    return ~((sizes >= _SIZES[0]) & (sizes <= _SIZES[1]) | (sizes == 0))


def above_noise(average: np.ndarray, noise_std: float, certainty: float, size: int) -> np.ndarray:
    """Shrink a noisy average by the fraction of its squared length that noise has (James-Stein).

    An average no longer than noise is likely to be becomes 0. `noise_std` is the standard deviation
    of the noise along each of `size` dimensions.
    """
    length = float(np.linalg.norm(average))
    # Noise is longer with a probability of exp(-certainty**2 / 2) at most.
    if length <= noise_std * (np.sqrt(size) + certainty):
        return np.zeros_like(average)
    return average * (1 - size * np.square(noise_std / length))
