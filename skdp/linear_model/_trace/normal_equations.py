"""The sums of a linear regression, and the coefficients that solve them."""

from functools import partial

import numpy as np

from skdp.linalg.fixed_rank import truncate
from skdp.linalg.matrices import DenseCoordinates, Matrices
from skdp.linear_model._trace.estimate import Estimate
from skdp.linear_model._trace.records import NO_CLIPPING, Records
from skdp.privacy.clipping import clip_rows

__all__ = ["solve", "sufficient_statistics"]


def sufficient_statistics(
    records: Records,
    row_norm: float,
    response_bound: float,
    public_weights: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Sum products of features with each other and with responses, the last one for an intercept.

    Rows are clipped to a norm and responses to a bound; public rows have weights. A null record is
    null in both sums, a null response beside a public row in one.
    """
    kernel = partial(
        _statistics,
        responses=records.responses,
        intercept=records.intercept,
        row_norm=row_norm,
        response_bound=response_bound,
        public_weights=public_weights,
    )
    design = records.design.written_out()
    sums = design.add_up(kernel, (design.n_entries + 1) * (design.n_entries + 2))
    return sums[:, :-1], sums[:, -1]


def _statistics(
    rows: slice,
    matrices: Matrices,
    *,
    responses: np.ndarray,
    intercept: float,
    row_norm: float,
    response_bound: float,
    public_weights: np.ndarray | None,
) -> np.ndarray:
    coordinates, responses = matrices.entries(intercept), responses[rows]
    assert isinstance(coordinates, DenseCoordinates)
    if public_weights is None:
        coordinates.values[np.isnan(responses)] = np.nan
    features = clip_rows(coordinates.values, row_norm)
    weighted = features
    if public_weights is not None:
        weighted = features * public_weights[rows, np.newaxis]
    responses = np.clip(np.nan_to_num(responses), -response_bound, response_bound)
    return np.column_stack([weighted.T @ features, weighted.T @ responses])


def solve(records: Records, rank: int, moment: np.ndarray, products: np.ndarray) -> Estimate:
    """Solve for the coefficients, and take the nearest ones of the rank."""
    solution = np.linalg.lstsq(moment, products, rcond=None)[0]
    # Divided by a public moment that is almost 0, products may overflow.
    solution = np.clip(np.nan_to_num(solution), -NO_CLIPPING, NO_CLIPPING)
    shape, offset = records.design.matrix_shape, 0.0
    if records.intercept > 0:
        solution, offset = solution[:-1], float(solution[-1]) * records.intercept
    return Estimate(truncate(solution.reshape(shape), rank), offset)
