"""Steps of fits to rows: standardized features, joint moments, whitened norms, noise of means."""

from typing import Any

import numpy as np

from skdp.data.rows import Block
from skdp.linalg.norms import UNIT_ROUNDOFF, row_squares
from skdp.preprocessing.scales import Scales
from skdp.privacy import Release, sensitivity
from skdp.privacy.plan import plan_sum

#: Name of the releases of steps.
WHITENED_GRADIENT = "whitened gradient"
# Whitened rows are computed in parts: largest number of entries (16 MB), and of rows.
_PART, _MOST_ROWS = 1 << 21, 1 << 16  # not studied
# Least standard deviation, in rounding errors of the data's dtype at the center: with less,
# rounding errors of predictions would be too large.
_FINEST = 64  # not tuned


def standardization(
    scales: Scales, spec: Any, *, is_centered: bool, is_bounded: bool = False
) -> tuple[np.ndarray | None, np.ndarray]:
    """Return the centers of features, and multipliers that standardize them.

    The multiplier of a feature that is left out is 0. With `is_bounded`, features have bounds.
    """
    least = (_FINEST * np.finfo(spec.dtype).eps * scales.center) ** 2
    squares = np.where(scales.variance > 0, np.maximum(scales.variance, least), 0.0)
    center = scales.center if is_centered else None
    if center is None:
        squares = squares + scales.center**2
    multiplier = 1 / np.sqrt(np.where(squares > 0, squares, 1.0))
    if is_centered:  # The intercept replaces constant features.
        # Without noise, the variance of a constant within bounds is a rounding error.
        is_rounding = scales.is_flat & is_bounded
        multiplier[scales.may_be_constant() if spec.cost.is_private else is_rounding] = 0.0
    return center, multiplier


def bounds_of(center: Any, multiplier: Any, largest: np.ndarray | None) -> np.ndarray | None:
    """Return the clipping bounds of features, two rows in units of the data, or None."""
    if largest is None or not np.isfinite(largest).any():
        return None
    center = 0.0 if center is None else center
    half_width = largest / np.where(multiplier > 0, multiplier, 1.0)
    return np.stack([(center - half_width).ravel(), (center + half_width).ravel()])


def joint_gram(block: Block, others: np.ndarray) -> np.ndarray:
    """Sum the outer products of all records; a record is its row followed by its `others`.

    The sum overwrites the rows, and sets `others` of null records to 0.
    """
    others[block.is_null] = 0.0
    cross = block.rmatmul(others)
    others = block.times_root_sample_weight(others)
    # `block.gram` overwrites the rows, so it comes last.
    return np.block([[block.gram(), cross], [cross.T, others.T @ others]])


def plan_steps(
    spec: Any, n_steps: int, name: str, share: float, shape: tuple[int, ...], bound: float | str
) -> tuple[Release, ...]:
    """Plan the gradient sum of each step, with equal shares, clipped to a number or a release."""
    share, change = share / n_steps, sensitivity.row_sum
    return tuple(
        plan_sum(spec, f"{name} {step}", share, shape, bound, change)
        for step in range(1, n_steps + 1)
    )


def whitened_norms(
    block: Block, root: np.ndarray, mean: np.ndarray | None, *, largest: float, bound: float
) -> np.ndarray:
    """Return upper bounds of the norms of rows times `root`, including rounding errors.

    `bound` is the largest norm of a row after subtracting the `mean`, if there is one; `largest` is
    the spectral norm of the root. Null rows have the norm NaN. If rows have weights, norms must not
    depend on positions and numbers of rows: columns are split as for the longest block.
    """
    n_rows, n_features = block.raw.shape[0], len(root)
    squares = np.zeros(n_rows)
    longest = n_rows if block.sample_weight is None else _MOST_ROWS
    n_parts = max(1, -(-longest * root.shape[1] // _PART))
    for columns in np.array_split(np.arange(root.shape[1]), n_parts):
        part = root[:, columns]
        unweighted = block.sample_weight is None
        products = block.matmul_by_column(part).T if unweighted else block.matmul_anywhere(part)
        if mean is not None:
            products -= mean @ part
        # Sums by column do not depend on memory addresses, as those of `numpy.einsum` do.
        squares += (
            np.square(products, out=products).sum(axis=1) if unweighted else row_squares(products)
        )
    margin = 4 * (n_features + 4) ** 1.5 * UNIT_ROUNDOFF * largest * bound
    norms = np.sqrt(squares) * (1 + (n_features + 4) * UNIT_ROUNDOFF) + margin
    norms[block.is_null] = np.nan
    return norms


def noise_in_mean(decay: np.ndarray, momentum: float, n_steps: int) -> np.ndarray:
    """Compute the noise variance of the mean of the last half of the iterates, by coordinate.

    Each step adds noise of variance 1, and multiplies the error of its start by `decay`.
    """
    # What the noise of one step adds to the iterates after it, each of which follows from two.
    effects = [np.zeros_like(decay), np.ones_like(decay)]
    for _ in range(n_steps - 1):
        effects.append(decay * (effects[-1] + momentum * (effects[-1] - effects[-2])))
    effects_on_sum = np.cumsum(effects[1:], axis=0)
    n_averaged = n_steps - n_steps // 2
    # Noise of a step in the first half counts only from the first averaged iterate on.
    effects_on_sum[n_averaged:] -= effects_on_sum[: n_steps - n_averaged].copy()
    return np.asarray(np.sum(effects_on_sum**2, axis=0) / n_averaged**2)
