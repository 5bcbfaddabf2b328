"""Budgets for parts of a trace regression, as a fit would plan them."""

from skdp import DPTraceRegressor
from skdp.privacy import Plan, PrivacyBudget
from skdp.privacy.noise import NoiseSource


def spec_of(n_records, matrix_shape, **parameters):
    """Ask for a fit to dense matrices of that shape."""
    estimator = DPTraceRegressor(matrix_shape=matrix_shape, **parameters)
    n_features = matrix_shape[0] * matrix_shape[1]
    return estimator._spec_like(n_records, n_features, None)


def budget_for(spec, *parts, seed=0, kind=PrivacyBudget):
    """Open a budget for these parts of the plan."""
    plan = Plan(spec.cost, parts, unit=spec.unit.name, adjacency=spec.unit.adjacency)
    return kind.of(plan, NoiseSource(2**100 + seed))
