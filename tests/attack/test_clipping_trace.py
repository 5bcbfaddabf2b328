"""Clipped gradients of single records, and of records beside others."""

import numpy as np
import pytest
from scipy import sparse
from sizes import sizes_for_counts
from trace_neighbors import outside

from skdp.data.matrices import Design, RankOneMatrices
from skdp.data.parts import Targets
from skdp.data.sources import as_source
from skdp.linalg.matrices import FixedRank, tangent_vector
from skdp.linear_model.low_rank.descent import RecordClipping, ResponseClipping, random_start
from skdp.linear_model.low_rank.records import Records

ROUNDING = 1 + 1e-12


def records_of(matrices, responses, intercept=0.0):
    """Records as a solver sees them; matrices are an array, or a pair of factors."""
    responses = Targets.of(np.asarray(responses))
    if isinstance(matrices, tuple):
        shape = matrices[0].shape[1], matrices[1].shape[1]
        return Records(Design(RankOneMatrices(*matrices), shape), responses, intercept)
    rows = matrices.reshape(len(matrices), -1)
    return Records(Design(as_source(rows), matrices.shape[1:]), responses, intercept)


def lone_gradient(point, matrix, response, level=1.0):
    """The clipped gradient of one record beside one that is null."""
    matrices = np.stack([matrix, matrix])
    records = records_of(matrices, np.array([response, np.nan]))
    with np.errstate(all="ignore"):
        return RecordClipping(records).gradient(point, 0.0, level)


def test_what_rounding_leaves_of_matrices_off_the_tangent_space_stays_short():
    # It fills the coordinates up to the clip level, though they need not be those of anything.
    generator, longest = np.random.default_rng(0), []
    for _ in range(100):
        point = random_start((3, 3), 1, generator).point
        off = 1e20 * np.outer(outside(point.left), outside(point.right))
        total = lone_gradient(point, off, 1e6).total
        longest.append(np.linalg.norm(tangent_vector(point, total).matrix))
    assert 0.99 < max(longest) <= ROUNDING


def test_a_product_of_tiny_numbers_and_a_huge_response_is_clipped():
    # The square of such a norm is 0, and so is the product of squares that a weight may come from.
    point = random_start((3, 4), 1, np.random.default_rng(0)).point
    matrix = np.random.default_rng(1).normal(size=(3, 4))
    for exponent in (-300, -200, -170, -155, 0, 100):
        response = 1e200 if exponent < 0 else 1e20
        clipped = lone_gradient(point, 10.0**exponent * matrix, response)
        assert np.linalg.norm(clipped.total) <= 1
        assert np.linalg.norm(clipped.total) > 0.99 or exponent < -200


def test_tiny_vectors_are_clipped_beside_huge_responses():
    # Products with the map underflow, and the response would make them long again.
    X = np.full((4, 3), 1e-310)
    y = np.array([1e99, -1e99, 1e99, np.nan])
    records = Records(Design(as_source(X), (3, 1), row_map=1e-15 * np.eye(3)), Targets.of(y), 0.0)
    point = FixedRank(np.eye(3)[:, :1], np.ones(1), np.ones((1, 1)))
    found = RecordClipping(records).gradient(point, 0.0, 1e-100)
    assert np.linalg.norm(found.total) <= 3e-100 * (1 + 1e-12)


LAYOUTS = ("dense", "outer", "sparse")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("unit", ["record", "response"])
def test_the_size_of_a_record_does_not_depend_on_the_others(monkeypatch, layout, unit):
    # Sizes are counted: one that came out differently beside another record would be counted, too.
    monkeypatch.setattr("skdp.data.matrices._PIECE_ENTRIES", 500)
    generator = np.random.default_rng(0)
    n_records, shape = 9001 if layout == "sparse" else 1001, (5, 4)
    left, right = (generator.normal(size=(n_records, size)) for size in shape)
    matrices = generator.normal(size=(n_records, *shape))
    left[generator.random(left.shape) < 0.5] = 0.0
    responses = generator.normal(size=n_records)
    point = random_start(shape, 2, generator).point
    point = point.with_values(np.array([2.0, 1.0]))

    def sizes():
        parts = matrices if layout == "dense" else (left, right)
        if layout == "sparse":
            parts = tuple(map(sparse.csr_array, parts))
        records = records_of(parts, responses, 1.0)
        with np.errstate(all="ignore"), sizes_for_counts():
            if unit == "record":
                clipping = RecordClipping(records)
            else:
                clipping = ResponseClipping(records, np.inf)
            return clipping.gradient(point, 0.1, 1.0).n_unclipped[1:]

    before = sizes()
    for value in (0.0, 1e300, 5e-324, np.nan if layout == "dense" else 1.0):
        matrices[0], left[0], right[0], responses[0] = value, value, 1.0, np.nan
        np.testing.assert_array_equal(sizes(), before)
