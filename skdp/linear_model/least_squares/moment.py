"""The moment of rows and responses: it whitens the rows and gives the start of the descent."""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from skdp.linalg.spectrum import noise_edge
from skdp.linear_model.least_squares.records import Scaling
from skdp.preprocessing.scales import Scales

# Least eigenvalue, relative to the largest: with noise; and without noise, to exclude rounding.
_LEAST_OF_LARGEST, _ROUNDING = 1e-5, 1e-13  # not studied
# Least variance along hidden directions: in total, per feature; and of each direction, relative to
# the least eigenvalue.
_LEAST_HIDDEN, _LEAST_SPREAD = 0.05, 1e-3  # benchmarks/least_squares/least_squares.md
# For rows too long for a moment, the largest eigenvalue is assumed to be at least this.
_UNKNOWN = 33.0  # benchmarks/least_squares/least_squares.md


class Whitening(NamedTuple):
    """The map z = R'x of rows; along its directions z has variances `spread`, at most 1.

    The descent begins at the weights `start` of z. Along directions marked by `is_hidden`, noise
    hides the variance of the rows.
    """

    root: np.ndarray
    spread: np.ndarray
    start: np.ndarray
    is_hidden: np.ndarray

    @property
    def size(self) -> float:
        """Root mean square norm of a whitened row."""
        return math.sqrt(float(self.spread.sum()))


def whitening_of(moment: np.ndarray, noise_std: float, weight: float) -> Whitening:
    """Whiten by a noisy moment; eigenvalues below the edge of the noise are raised to it.

    The start is the least-squares solution of whitened rows. Its dyadic blocks are shrunk by their
    known noise, with a margin of one standard deviation (James-Stein).
    """
    off_diagonal_std, size = noise_std * math.sqrt(0.5), len(moment) - 1
    values, vectors = np.linalg.eigh(moment[:-1, :-1])
    values, vectors = values[::-1], vectors[:, ::-1]
    cross, cross_std = moment[:-1, -1] / weight, off_diagonal_std / weight
    edge, top = noise_edge(off_diagonal_std, size), max(float(values[0]), 1e-300)
    if noise_std == 0:
        is_seen = values > _ROUNDING * top
        root = np.where(is_seen, vectors / np.sqrt(np.where(is_seen, values, 1.0)), 0.0)
        return Whitening(root, is_seen.astype(np.float64), root.T @ cross, ~is_seen)
    floor = max(edge, _LEAST_OF_LARGEST * top)
    is_hidden, raised = values < floor, np.maximum(values, floor)
    spread = np.clip(values / raised, 0.0, 1.0)
    if is_hidden.any():
        left = max(np.trace(moment[:-1, :-1]) - values[~is_hidden].sum(), _LEAST_HIDDEN * size)
        spread[is_hidden] = np.clip(left / is_hidden.sum() / floor, _LEAST_SPREAD, 1.0)
    start, stds = (vectors.T @ cross) / np.sqrt(raised), cross_std / np.sqrt(raised)
    for ends in pairwise([0, *(1 << np.arange((size - 1).bit_length())), size]):
        block = slice(*ends)
        noise = np.sum(stds[block] ** 2) + math.sqrt(2 * np.sum(stds[block] ** 4))
        start[block] *= max(0.0, 1 - noise / max(np.sum(start[block] ** 2), 1e-300))
    return Whitening(vectors / np.sqrt(raised), spread, start, is_hidden)


def without_moment(scaling: Scaling, found: Scales) -> Whitening:
    """Scale very long rows instead of whitening them, so far down that steps converge, if slowly.

    Rows that are not centered vary along their mean by at least the length of the mean.
    """
    size = scaling.n_columns
    along = (
        0.0 if scaling.center is not None else np.square(found.center * scaling.multiplier).sum()
    )
    spread = 1 / max(_UNKNOWN, 2 * float(along))
    return Whitening(
        np.eye(size) * math.sqrt(spread), np.full(size, spread), np.zeros(size), np.full(size, True)
    )
