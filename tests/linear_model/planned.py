"""Budgets for parts of a trace regression, with the lines that a fit would plan for them."""

from skdp import DPTraceRegressor
from skdp.linear_model._trace import plan as trace_plan
from skdp.privacy import Plan, PrivacyBudget
from skdp.privacy.noise import NoiseSource
from skdp.privacy.quantile import SCALE_GRID
from skdp.privacy.unmoved import planned_search, priced


def problem_of(n_records, matrix_shape, **parameters):
    """Ask for a fit to dense matrices of that shape."""
    estimator = DPTraceRegressor(matrix_shape=matrix_shape, **parameters)
    n_features = matrix_shape[0] * matrix_shape[1]
    return estimator._problem_like(n_records, n_features, None)


def budget_for(problem, *parts, seed=0, kind=PrivacyBudget):
    """Open a budget for these parts of the plan, which are functions of the problem."""
    lines = priced([line for part in parts for line in part(problem)], problem.cost)
    plan = Plan(problem.cost, problem.unit.name, problem.unit.adjacency, lines)
    return kind.of(plan, NoiseSource(2**100 + seed))


def spread_lines(problem):
    """Plan the spread of the responses."""
    return [trace_plan._plan_spread(problem)]


center_lines = trace_plan._plan_center
scale_lines = trace_plan._plan_scales
start_lines = trace_plan._plan_start


def moment_lines(problem):
    """Plan what adassp releases of matrices and responses, with the whole budget."""
    if not problem.protects_matrices:
        return [trace_plan._line("products with responses", 1.0, "response spread")]
    return trace_plan._plan_moments(problem, 1.0)


def row_norm_lines(problem):
    """Plan the norm that adassp clips matrices to."""
    return planned_search("row norm", 0.1, len(SCALE_GRID))
