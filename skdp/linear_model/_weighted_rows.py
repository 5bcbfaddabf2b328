"""Parts of fits to rows: standardized features, joint moments, whitened norms, noise of means."""

from typing import Any

import numpy as np

from skdp.data.rows import Block
from skdp.linalg.norms import UNIT_ROUNDOFF, row_squares
from skdp.preprocessing.scales import Scales
from skdp.privacy import Release, sensitivity
from skdp.privacy.plan import plan_sum

#: Name of the gradient that each step releases; the number of the step follows.
WHITENED_GRADIENT = "whitened gradient"
# Whitened rows are computed in parts of at most `_PART` entries (16 MB). A block has at most
# `_MOST_ROWS` rows.
_PART, _MOST_ROWS = 1 << 21, 1 << 16  # not studied
# Least standard deviation of a feature, as a multiple of the rounding error of its center in the
# dtype of X. With smaller deviations, predictions would have too large rounding errors.
_FINEST = 64  # not tuned


def standardization(
    scales: Scales, spec: Any, *, is_centered: bool, is_bounded: bool = False
) -> tuple[np.ndarray | None, np.ndarray]:
    """Return the centers of features, None without centers, and multipliers that standardize them.

    The multiplier of a feature that is left out is 0. `is_bounded` tells whether features have
    public bounds.
    """
    least = (_FINEST * np.finfo(spec.dtype).eps * scales.center) ** 2
    squares = np.where(scales.variance > 0, np.maximum(scales.variance, least), 0.0)
    center = scales.center if is_centered else None
    if not is_centered:
        squares = squares + scales.center**2
    multiplier = 1 / np.sqrt(np.where(squares > 0, squares, 1.0))
    if is_centered:
        # Constant features are left out, as the intercept replaces them. Without noise, a constant
        # feature with bounds has a variance that is a rounding error.
        is_rounding = scales.is_flat & is_bounded
        is_constant = scales.may_be_constant() if spec.cost.is_private else is_rounding
        multiplier[is_constant] = 0.0
    return center, multiplier


def bounds_of(center: Any, multiplier: Any, largest: np.ndarray | None) -> np.ndarray | None:
    """Return the lower and upper clipping bounds of features, in units of X; None without any.

    `largest` are the bounds on the sizes of standardized entries.
    """
    if largest is None or not np.isfinite(largest).any():
        return None
    center = 0.0 if center is None else center
    half_width = largest / np.where(multiplier > 0, multiplier, 1.0)
    return np.stack([(center - half_width).ravel(), (center + half_width).ravel()])


def joint_gram(block: Block, others: np.ndarray) -> np.ndarray:
    """Sum the outer products of vectors; each vector is a row followed by its row of `others`.

    The rows are overwritten, and `others` of null records are set to 0.
    """
    others[block.is_null] = 0.0
    cross = block.rmatmul(others)
    others = block.times_sample_weight(others, twice=True)
    # `block.gram` comes after `cross`, as `gram` overwrites the rows.
    return np.block([[block.gram(), cross], [cross.T, others.T @ others]])


def plan_steps(
    spec: Any, n_steps: int, name: str, share: float, shape: tuple[int, ...], bound: float | str
) -> tuple[Release, ...]:
    """Plan a gradient for each step, in equal shares; `bound` is a number or a release's name."""
    return tuple(
        plan_sum(spec, f"{name} {step}", share / n_steps, shape, bound, sensitivity.row_sum)
        for step in range(1, n_steps + 1)
    )


def whitened_norms(
    block: Block, root: np.ndarray, mean: np.ndarray | None, *, largest: float, bound: float
) -> np.ndarray:
    """Return upper bounds of the norms of rows times `root`, including rounding errors.

    The `root` is a matrix, or a number; `largest` is its spectral norm. The `mean`, if there is
    one, is subtracted from rows first; `bound` is the largest norm of the differences. Null rows
    have the norm NaN. If rows have sample weights, a user's rows may move other rows, whose norms
    must not change: so the columns are divided into parts as for the longest block.
    """
    n_rows, n_features = block.raw.shape
    squares, parts = np.zeros(n_rows), list[np.ndarray]()
    has_weights = block.sample_weight is not None
    if root.ndim == 0:
        norms = np.where(block.weights == 0, 0.0, block.norms())
        squares = np.square(root * block.weights * norms)
    else:
        longest = _MOST_ROWS if has_weights else n_rows
        n_parts = max(1, -(-longest * root.shape[1] // _PART))
        parts = np.array_split(np.arange(root.shape[1]), n_parts)
    for columns in parts:
        part = root[:, columns]
        products = block.matmul_anywhere(part) if has_weights else block.matmul_by_column(part).T
        if mean is not None:
            products -= mean @ part
        if has_weights:
            squares += row_squares(products)
        else:
            # Unlike `numpy.einsum`, a sum by column rounds alike at all memory addresses.
            squares += np.square(products, out=products).sum(axis=1)
    margin = 4 * (n_features + 4) ** 1.5 * UNIT_ROUNDOFF * largest * bound
    norms = np.sqrt(squares) * (1 + (n_features + 4) * UNIT_ROUNDOFF) + margin
    norms[block.is_null] = np.nan
    return norms


def noise_in_mean(decay: np.ndarray, momentum: float, n_steps: int) -> np.ndarray:
    """Compute the noise variance of the mean of the last half of the iterates, by coordinate.

    Each step adds noise of variance 1, and multiplies the error of its start by `decay`.
    """
    # Effects of the noise of one step on later iterates, each of which follows from the last two.
    effects = [np.zeros_like(decay), np.ones_like(decay)]
    for _ in range(n_steps - 1):
        effects.append(decay * (effects[-1] + momentum * (effects[-1] - effects[-2])))
    effects_on_sum = np.cumsum(effects[1:], axis=0)
    n_averaged = n_steps - n_steps // 2
    # If a step is in the first half, only its effects on averaged iterates count.
    effects_on_sum[n_averaged:] -= effects_on_sum[: n_steps - n_averaged].copy()
    return np.asarray(np.sum(effects_on_sum**2, axis=0) / n_averaged**2)
