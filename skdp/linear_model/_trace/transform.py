"""Public maps between the matrices that a user passes and those that are fitted."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skdp.data.matrices import Design
from skdp.linalg.matrices import FixedRank
from skdp.linear_model._trace.descent import Estimate


@dataclass(frozen=True)
class Transform:
    r"""The map from matrices to the fitted :math:`A\,((X_i - C) \circ S)\,B`; A, B are symmetric.

    S, the `multiplier`, is a number or, for vectors, one for each entry. `least_variance` is the
    smallest variance of the fitted matrices along any direction, as far as it is known. Entries of
    :math:`(X_i - C) \circ S` are clipped to the size that `largest` has for each, if not None.
    Noise hides the scales of `n_hidden` features, and `are_rare` tells whether most features have
    their usual value in most of the records.
    """

    center: np.ndarray | None = None
    multiplier: Any = 1.0
    row_map: np.ndarray | None = None
    column_map: np.ndarray | None = None
    least_variance: float = 1.0
    are_rare: bool = False
    n_hidden: int = 0
    largest: np.ndarray | None = None

    def apply(self, design: Design) -> Design:
        """Return a view of the fitted matrices."""
        scales = {"multiplier": self.multiplier, "center": self.center, "largest": self.largest}
        return replace(design.mapped(self.row_map, self.column_map), **scales)

    @property
    def bounds(self) -> np.ndarray | None:
        """The smallest and the largest entry that is not clipped, in units of the data."""
        if self.largest is None:
            return None
        center = 0.0 if self.center is None else self.center
        reach = self.largest / self.multiplier
        return np.stack([(center - reach).ravel(), (center + reach).ravel()])

    def undo(self, estimate: Estimate) -> tuple[FixedRank, float]:
        """Return the coefficients and the intercept for the matrices that the user passed."""
        point = estimate.point
        # For symmetric A and B, the inner product of M with A Z B is that of A M B with Z.
        left = _mapped(self.row_map, point.left)
        right = _mapped(self.column_map, point.right)
        if np.ndim(self.multiplier) == 0:
            values = point.values * self.multiplier
        elif len(right) == 1:
            left, values = left * self.multiplier, point.values
        else:
            right, values = right * self.multiplier.T, point.values
        undone = FixedRank(left, values, right).orthonormal()
        if self.center is None:
            return undone, estimate.offset
        return undone, estimate.offset - float(np.vdot(undone.matrix, self.center))


def _mapped(symmetric: np.ndarray | None, vectors: np.ndarray) -> np.ndarray:
    if symmetric is None:
        return vectors
    return symmetric[:, np.newaxis] * vectors if symmetric.ndim == 1 else symmetric @ vectors


def inverse_root(covariance: np.ndarray) -> np.ndarray:
    """Compute the inverse of the symmetric root of a positive definite matrix."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors / np.sqrt(values)) @ vectors.T)
