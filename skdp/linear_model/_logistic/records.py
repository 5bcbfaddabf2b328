"""Rows with the numbers of their classes, and the sum that whitens them and starts a descent."""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from skdp.data.blocks import Block
from skdp.data.rows import RowCache, Rows
from skdp.privacy.clipping import clip_weights


@dataclass(frozen=True)
class LabeledRows:
    """Rows, each with the number of its class; one of NaN is null, whatever its class."""

    rows: Rows
    codes: np.ndarray


def with_norms(view: LabeledRows) -> LabeledRows:
    """Compute the norms of the rows, once for all passes."""
    rows = view.rows
    return LabeledRows(replace(rows, cache=RowCache(rows.norms())), view.codes)


def clipped(view: LabeledRows, bound: float) -> LabeledRows:
    """Clip the rows to a norm."""
    weighting = partial(clip_weights, bound=bound, n_features=view.rows.n_features)
    return LabeledRows(view.rows.clipped(bound, weighting), view.codes)


def weights_beside(row_norm: float) -> tuple[float, float]:
    """Return the constant beside rows of that norm, and the weight of a label beside both."""
    constant = row_norm / 2
    return constant, math.hypot(row_norm, constant) / 2


def joint_moment(view: LabeledRows, n_classes: int, beside: tuple[float, float]) -> np.ndarray:
    """Sum the outer products of rows, constants and labels, as one vector a record."""
    size = view.rows.n_features + 1 + n_classes
    kernel = partial(_joint_moment, codes=view.codes, n_classes=n_classes, beside=beside)
    return np.asarray(view.rows.map_sum(kernel, size**2))


def _joint_moment(
    rows: slice, block: Block, codes: np.ndarray, n_classes: int, beside: tuple[float, float]
) -> np.ndarray:
    constant, label_weight = beside
    labels = label_weight * (np.eye(n_classes)[codes[rows]] - 1 / n_classes)
    others = np.column_stack([np.full(len(labels), constant), labels])
    others[block.is_null] = 0.0
    cross = block.rmatmul(others)
    # Last, as it overwrites the rows.
    return np.block([[block.gram(), cross], [cross.T, others.T @ others]])
