"""Vectors that are mapped after they have been added up: their lengths, and rounding of sums."""

from fractions import Fraction

import numpy as np
import pytest

from skdp.data.matrices import Design
from skdp.data.parts import Targets
from skdp.data.sources import as_source
from skdp.linalg.matrices import FixedRank, Vectors
from skdp.linear_model.low_rank.descent import RecordClipping
from skdp.linear_model.low_rank.records import Records

CONDITIONS = [1.0, 1e3, 3e6]


def map_of(condition, size=3):
    """A map whose axes are none of the features."""
    axes = np.linalg.qr(np.random.default_rng(5).normal(size=(size, size)))[0]
    scaled = axes * np.geomspace(1, 1 / condition, size)
    return scaled @ axes.T, axes


def exactly(vectors):
    return [[Fraction(x) for x in row] for row in vectors.tolist()]


def exact_lengths(rows, root):
    root = exactly(root)
    products = ([sum(map(Fraction.__mul__, row, one)) for one in root] for row in exactly(rows))
    return np.array([float(sum(x * x for x in product)) ** 0.5 for product in products])


def point_of(size):
    return FixedRank(np.eye(size)[:, :1], np.ones(1), np.ones((1, 1)))


@pytest.mark.parametrize("has_mass", [False, True])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_no_mapped_vector_is_longer_than_its_length(condition, has_mass):
    # What is left of vectors along the shortest axis is as small as rounding.
    root, axes = map_of(condition)
    generator = np.random.default_rng(0)
    rows = axes[:, -1] + 1e-16 * generator.normal(size=(300, 3))
    rows[:100] *= 10.0 ** generator.uniform(-100, 100, (100, 1))
    rows[:5] = 10.0 ** -np.array([290, 300, 308, 320, 323])[:, np.newaxis]
    mass = np.ones(300) if has_mass else None
    lengths = Vectors(rows[:, :, np.newaxis], row_map=root, mass=mass).norms()
    exact = exact_lengths(rows, root)
    assert np.all(lengths >= exact)
    np.testing.assert_allclose(lengths[5:], exact[5:], rtol=1e-7)


def test_tiny_vectors_are_clipped_beside_huge_responses():
    # Products with the map underflow, and the response would make them long again.
    X = np.full((4, 3), 1e-310)
    y = np.array([1e99, -1e99, 1e99, np.nan])
    design = Design(as_source(X), (3, 1), row_map=1e-15 * np.eye(3))
    for view in (design, design.measured(0.0)):
        found = RecordClipping(Records(view, Targets.of(y), 0.0)).gradient(point_of(3), 0.0, 1e-100)
        assert np.linalg.norm(found.total) <= 3e-100 * (1 + 1e-12)


SIGNS = {"one sign": np.ones, "both signs": lambda n: np.where(np.arange(n) % 2, 1.0, -1.0)}


@pytest.mark.parametrize("signs", SIGNS)
@pytest.mark.parametrize("condition", [1.0, 3e6])
def test_sums_before_the_map_round_within_their_bound(condition, signs, monkeypatch):
    monkeypatch.setattr("skdp.data.reduce.LEAST_ROUNDING", 0.0)
    n, (root, axes) = 9001, map_of(condition)
    # Long along the axis that the map makes short: their roundings point along the others, too.
    generator = np.random.default_rng(0)
    rows = SIGNS[signs](n)[:, np.newaxis] * axes[:, -1] * condition
    rows += generator.uniform(-1, 1, (n, 3))
    design = Design(as_source(rows), (3, 1), row_map=root)
    records = Records(design.measured(0.0), Targets.of(np.ones(n)), 0.0)
    # At 0 all residuals are -1, and no vector is clipped.
    start = point_of(3).with_values(np.zeros(1))
    total = RecordClipping(records).gradient(start, 0.0, 1e9).total[:3]
    sums = [sum(column) for column in zip(*exactly(rows), strict=True)]
    exact = np.array([float(-sum(map(Fraction.__mul__, one, sums))) for one in exactly(root)])
    error, longest = np.linalg.norm(total - exact), records.design.lengths.max()
    assert error <= design.rounding * longest
    if condition > 1e6 and signs == "one sign":
        # What is charged of vectors that are not mapped would not have been enough.
        assert error > design.mapped(None, None).rounding * longest


def test_given_lengths_are_those_of_each_pass():
    generator = np.random.default_rng(0)
    X, y = 9 * generator.normal(size=(9000, 3)), generator.normal(size=9000)
    design = Design(as_source(X), (3, 1), center=np.ones((3, 1)), row_map=map_of(9.0)[0])
    once, anew = (
        RecordClipping(Records(one, Targets.of(y), 1.0)).gradient(point_of(3), 0.5, 2.0)
        for one in (design.measured(1.0), design)
    )
    np.testing.assert_array_equal(once.total, anew.total)
    assert once.n_unclipped == anew.n_unclipped > 100
