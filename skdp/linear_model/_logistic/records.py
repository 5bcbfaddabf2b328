"""Rows with the numbers of their classes, and the sum that whitens them and starts a descent."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from skdp.data.parts import Targets
from skdp.data.rows import Block, RowCache, Rows, Weighting
from skdp.privacy.clipping import clip_weights


@dataclass(eq=False)
class LabeledRows(Rows):
    """Rows, each with the number of its class; one with a negative number is null, as of NaN."""

    codes: Targets = field(kw_only=True)

    def blocks(self, group: range) -> Iterator[tuple[slice, Block]]:
        """Yield blocks of centered and weighted rows, without those of no known class."""
        for rows, block in super().blocks(group):
            yield rows, block.without(self.codes[rows] < 0)


def with_norms(view: LabeledRows) -> LabeledRows:
    """Compute the norms of rows in memory, once for all passes; of others each has its own."""
    return replace(view, cache=RowCache(view.norms())) if view.source.is_repeatable else view


def weighting_to(bound: float, n_features: int) -> Weighting:
    """Return what clips rows of so many features to a norm."""
    return partial(clip_weights, bound=bound, n_features=n_features)


def clipped(view: LabeledRows, bound: float) -> LabeledRows:
    """Clip the rows to a norm."""
    return view.clipped(bound, weighting_to(bound, view.n_features))


def weights_beside(row_norm: float) -> tuple[float, float]:
    """Return the constant beside rows of that norm, and the weight of a label beside both."""
    constant = row_norm / 2
    return constant, math.hypot(row_norm, constant) / 2


def joint_moment(view: LabeledRows, n_classes: int, beside: tuple[float, float]) -> np.ndarray:
    """Sum the outer products of rows, constants and labels, as one vector a record."""
    size = view.n_features + 1 + n_classes
    kernel = partial(_joint_moment, codes=view.codes, n_classes=n_classes, beside=beside)
    return np.asarray(view.map_sum(kernel, size**2))


def _joint_moment(
    rows: slice, block: Block, codes: Targets, n_classes: int, beside: tuple[float, float]
) -> np.ndarray:
    constant, label_weight = beside
    labels = label_weight * (np.eye(n_classes)[codes[rows]] - 1 / n_classes)
    others = np.column_stack([np.full(len(labels), constant), labels])
    others[block.is_null] = 0.0
    cross = block.rmatmul(others)
    # Last, as it overwrites the rows.
    return np.block([[block.gram(), cross], [cross.T, others.T @ others]])
