"""Gradient steps on whitened rows: a gradient is clipped if its record is more wrong than right.

The whitening is folded into the weights and out of the sums. So a step multiplies the rows by as
many columns as there are classes, and no whitened row is ever written out: sparse ones stay sparse.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import softmax

from skdp.data.parts import Targets
from skdp.data.reduce import Kernel
from skdp.data.rows import Block
from skdp.linalg.norms import LEAST_ROUNDING, UNIT_ROUNDOFF, row_norms, row_squares
from skdp.linear_model._logistic.problem import LogisticProblem
from skdp.linear_model._logistic.records import LabeledRows
from skdp.linear_model._logistic.shrinkage import shrunk_mean
from skdp.linear_model._logistic.whitening import Whitening, centered
from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.clipping import clip_weights

# What other classes have together, where a gradient at the reach is as long as the clip level.
_CLIP = 0.5  # benchmarks/classification/constants.md
# Length of a step: below 4, where a step on whitened rows would no longer converge:
# benchmarks/classification/constants.md.
_STEP_OF_TWO, _STEP_A_CLASS, _LARGEST_STEP = 2.0, 0.4, 4.0
# Numbers of whitened rows that are held at a time, 16 MB.
_PART = 1 << 21  # not studied


@dataclass(frozen=True)
class WhitenedRecords:
    """Records with what shrinks their whitened rows, found once for rows in memory.

    Other rows may be others in the next pass, and each pass finds it again.
    """

    view: LabeledRows
    whitening: Whitening
    shrinking: np.ndarray | None = None

    @property
    def shrinking_of(self) -> Kernel:
        """Kernel that gives weights to clip whitened rows, and their lengths with a 1 appended.

        The lengths are NaN for null records.
        """
        if self.shrinking is not None:
            return partial(_found, values=self.shrinking)
        return partial(_shrinking, whitening=self.whitening, bound=self.view.bound)

    def gradient(self, weights: np.ndarray, level: float) -> np.ndarray:
        """Sum the gradients of whitened rows, clipped to a level; the last row is for offsets."""
        white = self.whitening
        slopes = white.root @ weights[:-1]
        kernel = partial(
            _clipped_gradient,
            codes=self.view.codes,
            slopes=slopes,
            offsets=(white.mean @ slopes, weights[-1]),
            shrinking_of=self.shrinking_of,
            level=level,
        )
        total = self.view.map_sum(kernel, weights.size + weights.shape[1])
        products, shrunk, all_of = total[:-2], total[-2], total[-1]
        return np.vstack([white.root @ (products - np.outer(white.mean, shrunk)), all_of])


def whitened(view: LabeledRows, whitening: Whitening) -> WhitenedRecords:
    """Whiten rows; if they are in memory, compute their norms in the one pass that costs n d^2."""
    records = WhitenedRecords(view, whitening)
    if not view.source.is_repeatable:
        return records
    return replace(records, shrinking=view.map_rows(records.shrinking_of))


def descend(
    problem: LogisticProblem,
    plan: tuple[Release, ...],
    records: WhitenedRecords,
    start: np.ndarray,
    budget: PrivacyBudget,
) -> np.ndarray:
    """Take all steps; return the mean of the last half of the iterates, shrunk."""
    n_classes = problem.n_classes
    step = _STEP_OF_TWO if n_classes == 2 else min(_LARGEST_STEP, _STEP_A_CLASS * n_classes)
    level = clip_level(records.whitening.reach, n_classes)
    rounding = _rounding(problem, records, level)
    weights, iterates = start, []
    for release in plan:
        total = records.gradient(weights, level)
        noisy, noise_std = budget.release(release, total, level, rounding=rounding)
        weights = weights - step * centered(noisy) / problem.n_units
        iterates.append(weights)
    step_noise = step * noise_std / problem.n_units
    return shrunk_mean(iterates, step_noise, step, start, records.whitening)


def clip_level(reach: float, n_classes: int) -> float:
    """Return the length of a gradient at the reach whose class has the probability 1/2.

    The others have as much of the rest as each other.
    """
    return _CLIP * math.sqrt(n_classes / (n_classes - 1)) * math.hypot(reach, 1.0)


def _rounding(problem: LogisticProblem, records: WhitenedRecords, level: float) -> float:
    r"""Bound the rounding error of the sum, in units of the clip level.

    Rows are whitened after they are added up. In the sum a record has at most the length
    :math:`\sqrt 2 (c + |m|)`, as no residual is longer than :math:`\sqrt 2`; whitening makes an
    error longer by at most the norm of A, and has an error of its own.
    """
    white, n_features = records.whitening, problem.n_features
    longest = white.largest * (records.view.bound + white.mean_norm) + 1
    depth = problem.depth + n_features**1.5 + problem.n_classes
    rounding = depth * UNIT_ROUNDOFF * problem.n_units * math.sqrt(2) * longest / level
    return max(LEAST_ROUNDING, rounding)


# Kernels.


def _found(rows: slice, _: Block, values: np.ndarray) -> np.ndarray:
    return values[rows]


def _shrinking(_: slice, block: Block, whitening: Whitening, bound: float) -> np.ndarray:
    norms = _whitened_norms(block, whitening, bound)
    weights = clip_weights(norms, whitening.reach, block.raw.shape[1])
    lengths = np.hypot(weights * np.nan_to_num(norms), 1.0)
    lengths[np.isnan(norms)] = np.nan
    return np.column_stack([weights, lengths])


def _whitened_norms(block: Block, whitening: Whitening, bound: float) -> np.ndarray:
    """Bound the norms of whitened rows from above, whatever their products round to."""
    n_rows, n_features = block.raw.shape
    squares = np.zeros(n_rows)
    for columns in np.array_split(np.arange(n_features), -(-n_rows * n_features // _PART)):
        part = whitening.root[:, columns]
        squares += row_squares(block.matmul(part) - whitening.mean @ part)
    longest = whitening.largest * (bound + whitening.mean_norm)
    margin = 4 * (n_features + 4) ** 1.5 * UNIT_ROUNDOFF * longest
    norms = np.sqrt(squares) * (1 + (n_features + 4) * UNIT_ROUNDOFF) + margin
    norms[block.is_null] = np.nan
    return norms


def _clipped_gradient(
    rows: slice,
    block: Block,
    codes: Targets,
    slopes: np.ndarray,
    offsets: tuple[np.ndarray, np.ndarray],
    shrinking_of: Kernel,
    level: float,
) -> np.ndarray:
    """Sum products of rows with residuals; then these, shrunk as the rows are, and as they are."""
    shrinking = shrinking_of(rows, block)
    shrunk = shrinking[:, :1]
    scores = shrunk * (block.matmul(slopes) - offsets[0]) + offsets[1]
    residuals = residuals_of(scores, codes[rows])
    n_classes = residuals.shape[1]
    # The norm of a gradient is the product of these two.
    sizes = row_norms(residuals) * shrinking[:, 1]
    weights = clip_weights(sizes, level, len(slopes) + n_classes + 5)
    residuals *= weights[:, np.newaxis]
    residuals[weights == 0] = 0.0
    of_rows = shrunk * residuals
    return np.vstack([block.rmatmul(of_rows), of_rows.sum(axis=0), residuals.sum(axis=0)])


def residuals_of(scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Subtract from the probabilities of all classes that of the true one, which is 1."""
    residuals = np.asarray(softmax(scores, axis=1))
    residuals[np.arange(len(codes)), codes] -= 1
    return residuals
