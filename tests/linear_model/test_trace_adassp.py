import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from planned import budget_for, problem_of, solver_of

from skdp import DPTraceRegressor
from skdp.data.design import Design
from skdp.data.rank_one import RankOneMatrices
from skdp.data.sources import as_source
from skdp.linear_model._trace.adassp import (
    release_row_norm,
    solve_adassp,
    solve_public_design,
)
from skdp.linear_model._trace.records import Records
from skdp.privacy import PrivacyBudget

N, SHAPE = 300, (4, 3)


class NoiselessBudget(PrivacyBudget):
    """Releases without noise what a finite epsilon would release with it, and keeps it."""

    def _publish(self, release, value):
        self.__dict__.setdefault("values", {})[release.name] = np.array(value)
        return value


def noiseless(intercept=0.0, **parameters):
    """Plan what adassp releases of matrices and responses, and open a budget for it."""
    problem = problem_of(N, SHAPE, fit_intercept=bool(intercept), solver="adassp", **parameters)
    plan = solver_of(problem)
    return plan, budget_for(problem, plan, kind=NoiselessBudget)


def solve(X, y, intercept=0.0, rank=3, row_norm=4.0, response_bound=5.0, **parameters):
    """Solve for private records; return also the budget that was spent."""
    plan, budget = noiseless(intercept, row_norm=row_norm, **parameters)
    records = X if isinstance(X, Records) else records_of(X, y, intercept)
    return solve_adassp(plan, records, rank, budget, row_norm, response_bound), budget


def make_data():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(N, *SHAPE))
    M = np.outer(generator.normal(size=4), generator.normal(size=3))
    y = np.einsum("nij,ij->n", X, M) + generator.normal(size=N)
    X[0], y[1] = 1e9, -1e9
    return X, y


def records_of(X, y, intercept):
    return Records(Design(as_source(X.reshape(len(X), -1)), SHAPE), y, intercept)


def clipped(X, y, intercept, row_norm, response_bound):
    """Rows with the intercept, clipped together, and clipped responses."""
    rows = np.column_stack([X.reshape(N, -1), *([np.full(N, intercept)] if intercept else [])])
    largest = math.hypot(row_norm, intercept)
    lengths = np.linalg.norm(rows, axis=1)
    rows *= np.minimum(1, largest / lengths)[:, np.newaxis]
    return rows, np.clip(y, -response_bound, response_bound), largest


@pytest.mark.parametrize("intercept", [0.0, 1.0])
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
@pytest.mark.parametrize("epsilon", [1.0, 1e6])
def test_the_ridge_keeps_what_noise_could_do_to_the_smallest_eigenvalue(
    intercept, adjacency, epsilon
):
    X, y = make_data()
    found, budget = solve(X, y, intercept, epsilon=epsilon, adjacency=adjacency)
    rows, responses, largest = clipped(X, y, intercept, 4.0, 5.0)
    moment, products = rows.T @ rows, rows.T @ responses
    smallest = np.linalg.eigvalsh(moment)[0]
    assert_allclose(budget.values["design moment"], moment, atol=1e-9)
    assert budget.values["smallest eigenvalue"] == pytest.approx(smallest)
    assert_allclose(budget.values["products with responses"], products, atol=1e-9)
    releases = {release.name: release for release in budget.spent().releases}
    assert sum(release.share for release in releases.values()) == pytest.approx(1.0)
    change = largest**2 * (math.sqrt(2) if adjacency == "replace" else 1)
    assert releases["design moment"].sensitivity == pytest.approx(change, rel=1e-3)
    size = len(moment)
    # With probability .95 the noise of the moment has no larger eigenvalue.
    edge = releases["design moment"].noise_std * math.sqrt(size * math.log(40 * size**2))
    ridge = max(0.0, edge - smallest)
    assert (ridge == 0) == (epsilon == 1e6)
    solution = np.linalg.solve(moment + ridge * np.eye(size), products)
    assert_allclose(found.point.matrix, solution[:12].reshape(SHAPE), atol=1e-9)
    assert found.offset == pytest.approx(solution[12] if intercept else 0.0)


def test_public_rows_are_weighted_and_not_released():
    X, y = make_data()
    plan, budget = noiseless(1.0, privacy_unit="response")
    found = solve_public_design(plan, records_of(X, y, 1.0), 3, budget, 5.0, 8.0)
    rows, responses, _ = clipped(X, y, 1.0, np.inf, 5.0)
    assert list(budget.values) == ["products with responses"]
    (release,) = budget.spent().releases
    # The first is far longer than all others, and those longer than usual count for less.
    rows, responses = rows[1:], responses[1:]
    lengths = np.linalg.norm(rows, axis=1)
    assert release.sensitivity == pytest.approx(8 * np.median(lengths), rel=1e-3)
    assert release.sensitivity >= 8 * np.median(lengths)
    weighted = rows * np.minimum(1, np.median(lengths) / lengths)[:, np.newaxis]
    assert_allclose(budget.values["products with responses"], weighted.T @ responses, atol=1e-9)
    solution = np.linalg.solve(weighted.T @ rows, weighted.T @ responses)
    assert_allclose(found.point.matrix, solution[:12].reshape(SHAPE), rtol=1e-6)


def test_public_rows_are_all_alike_without_clipping():
    X, y = make_data()
    X[0] = 30.0
    plan, budget = noiseless(privacy_unit="response")
    found = solve_public_design(plan, records_of(X, y, 0.0), 3, budget, math.inf, math.inf)
    solution = np.linalg.lstsq(X.reshape(N, -1), y, rcond=None)[0]
    assert_allclose(found.point.matrix, solution.reshape(SHAPE), rtol=1e-6)


def test_coefficients_are_the_nearest_ones_of_the_rank():
    X, y = make_data()
    found = [solve(X, y, rank=rank)[0].point for rank in (1, 3)]
    left, values, right = np.linalg.svd(found[1].matrix)
    assert found[0].rank == 1
    assert_allclose(found[0].matrix, values[0] * np.outer(left[:, 0], right[0]), atol=1e-12)


def test_null_records_contribute_nothing():
    X, y = make_data()
    y[5] = np.nan
    _, budget = solve(X, y, 1.0, adjacency="zero_out")
    rows, responses, _ = clipped(X, y, 1.0, 4.0, 5.0)
    rows, responses = np.delete(rows, 5, axis=0), np.delete(responses, 5)
    assert_allclose(budget.values["design moment"], rows.T @ rows, atol=1e-9)
    assert_allclose(budget.values["products with responses"], rows.T @ responses, atol=1e-9)


def test_rank_one_matrices_have_the_moments_of_those_written_out():
    generator = np.random.default_rng(0)
    left, right = generator.normal(size=(N, 4)), generator.normal(size=(N, 3))
    y = generator.normal(size=N)
    values = []
    for source in (
        RankOneMatrices(left, right),
        as_source(np.einsum("ni,nj->nij", left, right).reshape(N, -1)),
    ):
        records = Records(Design(source, SHAPE), y, 1.0)
        _, budget = solve(records, y, 1.0, row_norm=3.0, response_bound=2.0)
        values.append(budget.values)
    for name in values[0]:
        assert_allclose(values[0][name], values[1][name], atol=1e-9, err_msg=name)


def test_the_row_norm_is_a_high_quantile():
    X, y = make_data()
    plan, budget = noiseless()
    found = release_row_norm(plan.row_norm, records_of(X, y, 0.0), budget)
    norms = np.linalg.norm(X.reshape(N, -1), axis=1)
    # A quarter more than what three quarters do not exceed.
    assert np.mean(norms <= found / 1.25) == pytest.approx(0.75, abs=0.06)
    # Null records are not counted, however long.
    y[:14] = np.nan
    X[:14] = 1e6
    plan, budget = noiseless()
    assert release_row_norm(plan.row_norm, records_of(X, y, 0.0), budget) < 10


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_a_public_moment_of_any_size_leaves_finite_coefficients():
    X = np.random.default_rng(0).normal(size=(50, 3)) * 1e-137
    X[0, 0] = 1e261
    parameters = {"privacy_unit": "response", "solver": "adassp", "covariance": "identity"}
    model = DPTraceRegressor(1, **parameters, fit_intercept=False)
    assert np.isfinite(model.fit(X, np.zeros(50)).coef_).all()
