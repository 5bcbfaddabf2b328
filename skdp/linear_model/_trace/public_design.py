"""Linear regression on public matrices: only their products with the responses are released."""

from functools import partial

import numpy as np

from skdp.linalg.matrices import Matrices
from skdp.linear_model._trace.estimate import Estimate
from skdp.linear_model._trace.normal_equations import solve, sufficient_statistics
from skdp.linear_model._trace.public_rows import even_weights, usual_rows
from skdp.linear_model._trace.records import NO_CLIPPING, Records
from skdp.privacy import PrivacyBudget, Release

__all__ = ["solve_public_design"]


def solve_public_design(
    plan: Release,
    records: Records,
    rank: int,
    budget: PrivacyBudget,
    response_bound: float,
    response_range: float,
) -> Estimate:
    """Solve the normal equations where only the responses are private.

    Rows longer than the median are weighted down to it, in both sums, and those that are much
    longer than all but a few take no part.
    """
    response_bound = min(response_bound, NO_CLIPPING)
    design = records.design.written_out()
    norms = design.map_rows(partial(_row_norms, intercept=records.intercept))
    evens_out = response_bound < NO_CLIPPING
    if evens_out:
        norms[~usual_rows(records.design)] = 0.0
    weights = even_weights(norms, evens_out=evens_out)
    moment, sums = sufficient_statistics(records, NO_CLIPPING, response_bound, weights)
    # What has no weight contributes nothing to the sums.
    norms[weights == 0] = 0.0
    largest = float(np.clip((weights * norms).max(), 1 / NO_CLIPPING, NO_CLIPPING))
    facts, rounding = (response_bound, response_range, largest), records.design.rounding
    products, _ = budget.release(plan, sums, *facts, rounding=rounding)
    return solve(records, rank, moment, products)


def _row_norms(_: slice, matrices: Matrices, intercept: float) -> np.ndarray:
    return matrices.entries(intercept).norms()
