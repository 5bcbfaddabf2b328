import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sizes import sizes_for_counts

from skdp import DPTraceRegressor
from skdp.data.matrices import Design
from skdp.data.parts import Targets
from skdp.data.sources import as_source
from skdp.linalg.matrices import FixedRank, project_coordinates, tangent_dimension
from skdp.linear_model.low_rank.descent import RecordClipping, ResponseClipping
from skdp.linear_model.low_rank.plan import plan_trace
from skdp.linear_model.low_rank.records import Records

N, SHAPE, RANK, OFFSET = 60, (4, 3), 2, 0.7

every_intercept = pytest.mark.parametrize("intercept", [0.0, 1.0])
every_adjacency = pytest.mark.parametrize("adjacency", ["replace", "zero_out"])


def make_data():
    generator = np.random.default_rng(0)
    return generator.normal(size=(N, *SHAPE)), generator.normal(size=N)


def make_point():
    generator = np.random.default_rng(1)
    left, right = (np.linalg.qr(generator.normal(size=(size, RANK)))[0] for size in SHAPE)
    return FixedRank(left, np.array([2.0, 1.0]), right)


def records_of(X, y, intercept):
    return Records(Design(as_source(X.reshape(len(X), -1)), SHAPE), Targets.of(y), intercept)


def vectors_of(X, intercept):
    """Coordinates of each matrix, written out."""
    point = make_point()
    beside = (point.left.T @ X).reshape(len(X), -1)
    both = np.hstack([(X @ point.right).reshape(len(X), -1), beside])
    vectors = np.stack([project_coordinates(point, vector) for vector in both])
    assert vectors.shape[1] == RANK * sum(SHAPE)
    return np.hstack([vectors, np.full((len(X), 1), intercept)]) if intercept else vectors


def residuals_of(X, y, intercept):
    return np.einsum("nij,ij->n", X, make_point().matrix) + intercept * OFFSET - y


def sizes_of(clipping, point=None, offset=OFFSET):
    """What the level is compared with, of each record."""
    with sizes_for_counts():
        return clipping.gradient(point or make_point(), offset, np.inf).n_unclipped


def change_of(found, records, adjacency):
    """Compute the sensitivity that a fit plans for the sum of such gradients."""
    unit = "record" if len(found.facts) == 1 else "response"
    parameters = {"rank": RANK, "privacy_unit": unit, "adjacency": adjacency}
    spec = DPTraceRegressor(matrix_shape=SHAPE, **parameters)._spec_like(N, math.prod(SHAPE), None)
    plan = plan_trace(spec).branches.branches[0]
    return plan.steps[0].gradient.sensitivity_for(*found.facts, rounding=records.design.rounding)


def clipped(vectors, level):
    lengths = np.linalg.norm(vectors, axis=1)
    return vectors * np.minimum(1, level / lengths)[:, np.newaxis]


@every_intercept
@every_adjacency
@pytest.mark.parametrize("level", [0.5, 5.0, np.inf])
def test_gradients_of_records_are_clipped_one_by_one(intercept, adjacency, level):
    X, y = make_data()
    records = records_of(X, y, intercept)
    clipping = RecordClipping(records)
    found = clipping.gradient(make_point(), OFFSET, level)
    residuals = residuals_of(X, y, intercept)
    vectors = vectors_of(X, intercept) * residuals[:, np.newaxis]
    assert_allclose(found.total, clipped(vectors, level).sum(axis=0), atol=1e-12)
    lengths = np.linalg.norm(vectors, axis=1)
    assert_allclose(sizes_of(clipping), lengths, rtol=1e-12)
    assert found.n_unclipped == np.count_nonzero(lengths <= level)
    assert found.gain == 1
    factor = {"replace": 2, "zero_out": 1}[adjacency]
    change = change_of(found, records, adjacency)
    assert change == pytest.approx(factor * level, rel=1e-3)
    assert change >= factor * level


@every_intercept
def test_gradients_are_clipped_in_coordinates_that_are_uncorrelated(intercept):
    X, y = make_data()
    factor = np.random.default_rng(5).normal(size=(np.prod(SHAPE), np.prod(SHAPE)))
    records = replace(records_of(X, y, intercept), covariance=factor @ factor.T)
    found = RecordClipping(records).gradient(make_point(), OFFSET, 0.5)
    units = vectors_of(np.eye(np.prod(SHAPE)).reshape(-1, *SHAPE), 0.0)
    moment = found.whitening @ (units.T @ records.covariance @ units) @ found.whitening
    assert_allclose(moment @ moment, moment, atol=1e-8)
    assert np.trace(moment) == pytest.approx(tangent_dimension(SHAPE, RANK))
    vectors = vectors_of(X, intercept)
    vectors[:, : len(moment)] = vectors[:, : len(moment)] @ found.whitening
    residuals = residuals_of(X, y, intercept)
    expected = clipped(vectors * residuals[:, np.newaxis], 0.5).sum(axis=0)
    assert_allclose(found.total, expected, atol=1e-10)


@every_intercept
@pytest.mark.parametrize("response_range", [0.8, np.inf])
@every_adjacency
def test_residuals_are_clipped_where_matrices_are_public(intercept, response_range, adjacency):
    X, y = make_data()
    level = 0.6
    records = records_of(X, y, intercept)
    clipping = ResponseClipping(records, response_range)
    found = clipping.gradient(make_point(), OFFSET, level)
    vectors, residuals = vectors_of(X, intercept), residuals_of(X, y, intercept)
    lengths = np.linalg.norm(vectors, axis=1)
    # Long ones are weighted down to the median.
    weights = np.minimum(1, np.median(lengths) / lengths)
    assert_allclose(found.total, (weights * np.clip(residuals, -level, level)) @ vectors)
    assert_allclose(sizes_of(clipping), np.abs(residuals), rtol=1e-10)
    assert found.n_unclipped == np.count_nonzero(np.abs(residuals) <= level)
    moved = {"replace": min(2 * level, response_range), "zero_out": level}[adjacency]
    change = change_of(found, records, adjacency)
    assert change == pytest.approx(moved * np.median(lengths), rel=1e-3)
    assert change >= moved * np.median(lengths)
    assert found.gain == pytest.approx(np.sum(weights * lengths**2) / np.sum(lengths**2))
