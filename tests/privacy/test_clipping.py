import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_array

from skdp.linalg.norms import row_norms
from skdp.privacy.clipping import (
    SMALLEST_BOUND,
    SMALLEST_WEIGHT,
    binarize,
    clip_entries,
    clip_rows,
    clip_weights,
    keep_largest,
)

BOUNDS = (SMALLEST_BOUND, 1e-3, 1.0, 70.0, 1e100)


# Callers silence what overflows: a warning would tell of single rows.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in ldexp")


def exact_square(row):
    return sum(Fraction(float(value)) ** 2 for value in row)


def adversarial_rows():
    generator = np.random.default_rng(0)
    n, d = 200, 7
    directions = generator.normal(size=(n, d))
    one_scale = directions * 10.0 ** generator.uniform(-320, 307, size=(n, 1))
    mixed_scales = np.sign(directions) * 10.0 ** generator.uniform(-320, 308, size=(n, d))
    denormal = directions * 5e-322
    special = np.zeros((8, d))
    special[1] = 5e-324
    special[2] = np.finfo(float).max
    special[3, 0] = -np.finfo(float).max
    special[4, 0] = np.finfo(float).tiny
    special[5] = 1e154  # the squares are finite, their sum is not
    special[6] = 1e-162  # the squares vanish
    return np.vstack([one_scale, mixed_scales, denormal, special])


@pytest.mark.parametrize("bound", BOUNDS)
def test_no_clipped_norm_exceeds_its_bound_in_exact_arithmetic(bound):
    generator = np.random.default_rng(1)
    directions = generator.normal(size=(300, 7))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    # Lengths within a few roundings of the bound, where an error would show.
    near = directions * bound * generator.uniform(1 - 1e-15, 1 + 3e-15, size=(300, 1))
    for row in clip_rows(np.vstack([adversarial_rows(), near]), bound):
        assert exact_square(row) <= Fraction(bound) ** 2


@pytest.mark.parametrize("n_features", [1, 2, 1000])
def test_no_clipped_norm_exceeds_its_bound_whatever_the_length_of_the_rows(n_features):
    generator = np.random.default_rng(2)
    values = generator.normal(size=(20, n_features)) * 10.0 ** generator.uniform(0, 5, (20, 1))
    clipped = clip_rows(values.copy(), 0.3)
    assert all(exact_square(row) <= Fraction(0.3) ** 2 for row in clipped)
    # Rows that are cut are cut to the bound, along their own direction.
    norms = row_norms(values)
    expected = values * np.minimum(0.3 / norms, 1.0)[:, None]
    np.testing.assert_allclose(clipped, expected, rtol=1e-11)


@pytest.mark.parametrize("bound", BOUNDS)
def test_rows_within_the_bound_stay_bit_for_bit(bound):
    rows = adversarial_rows()
    inside = row_norms(rows) <= bound * (1 - 1e-11)
    assert 0 < inside.sum() < len(rows)
    clipped = clip_rows(rows.copy(), bound)
    np.testing.assert_array_equal(clipped[inside], rows[inside])
    # No row is lost but those of absurd length.
    lost = (rows != 0).any(axis=1) & (clipped == 0).all(axis=1)
    assert np.all(row_norms(rows[lost]) / 1e150 >= bound)


def test_rows_that_are_not_finite_become_exactly_zero():
    rows = np.ones((6, 3))
    rows[0, 0], rows[1, 1], rows[2, 2] = np.inf, -np.inf, np.nan
    rows[3] = np.inf, -np.inf, 1e308
    rows[4] = np.nan, np.inf, 0.0
    with np.errstate(invalid="ignore"):
        clipped = clip_rows(rows, 10.0)
    np.testing.assert_array_equal(clipped[:5], np.zeros((5, 3)))
    np.testing.assert_array_equal(clipped[5], np.ones(3))


@pytest.mark.parametrize("bound", BOUNDS)
def test_each_row_is_clipped_on_its_own(bound):
    rows = adversarial_rows()
    alone = [clip_rows(row[np.newaxis].copy(), bound)[0] for row in rows[::3]]
    np.testing.assert_array_equal(clip_rows(rows.copy(), bound)[::3], alone)


def test_zero_rows_stay():
    np.testing.assert_array_equal(clip_rows(np.zeros((2, 3)), 1.0), np.zeros((2, 3)))


def test_null_rows_weigh_nothing_and_rows_within_the_bound_one():
    norms = np.array([np.nan, 0.0, 0.5, 1.0 - 1e-11, 4.0, np.inf])
    weights = clip_weights(norms, 1.0, 10)
    np.testing.assert_array_equal(weights[[0, 1, 2, 3, 5]], [0.0, 1.0, 1.0, 1.0, 0.0])
    assert 0.25 * (1 - 1e-13) < weights[4] < 0.25


def test_infinite_bound_cuts_nothing():
    norms = np.array([0.0, 5e-324, 1.0, 1e308])
    np.testing.assert_array_equal(clip_weights(norms, math.inf, 10), np.ones(4))
    rows = np.random.default_rng(4).normal(size=(5, 3)) * 1e200
    np.testing.assert_array_equal(clip_rows(rows.copy(), math.inf), rows)


def test_weights_lie_between_zero_and_one_without_warnings():
    norms = np.concatenate([10.0 ** np.arange(-323.0, 309.0), [0.0, np.inf, np.nan]])
    with np.errstate(all="raise"):
        weights = np.array([clip_weights(norms, bound, 3) for bound in (*BOUNDS, math.inf)])
    assert np.all((weights >= 0) & (weights <= 1))
    # So that the product of a weight and a clipped entry keeps its digits.
    assert np.all((weights == 0) | (weights >= SMALLEST_WEIGHT))
    assert np.finfo(float).tiny < 1e-40 * SMALLEST_WEIGHT * SMALLEST_BOUND


def test_a_vector_alone_with_its_own_bound_gives_no_warning():
    # How many rows a user has is private, and so is whether one stands alone in a block. The
    # warnings are recorded: numpy swallows one that is made an error.
    norms, bounds = np.array([0.5, 4.0]), np.array([1.0, 2.0])
    both = clip_weights(norms, bounds, 3)
    with warnings.catch_warnings(record=True, action="always") as found:
        for one in (slice(0, 1), slice(1, 2)):
            np.testing.assert_array_equal(clip_weights(norms[one], bounds[one], 3), both[one])
    assert not found


ENTRIES = np.array([0.0, -0.0, 5e-324, -1e-310, 1e-3, 0.5, -0.5, 1.0, 7.0, 1e300, -1e300])
ENTRY_BOUNDS = [(0.0, 1.0), (3.0, 5.0), (-5.0, -3.0), (-0.1, 0.3), (1e-100, 2e-100)]


@pytest.mark.covered
@pytest.mark.parametrize("container", [np.array, csr_array])
@pytest.mark.parametrize("keep_zeros", [True, False])
@pytest.mark.parametrize(("lower", "upper"), ENTRY_BOUNDS)
def test_entries_are_brought_within_the_bounds(container, keep_zeros, lower, upper):
    values = container(ENTRIES.reshape(1, -1))
    clipped = clip_entries(values, lower=lower, upper=upper, keep_zeros=keep_zeros)
    expected = np.clip(ENTRIES, lower, upper)
    if keep_zeros or container is csr_array:
        expected[ENTRIES == 0] = 0
    found = clipped.toarray() if container is csr_array else clipped
    np.testing.assert_array_equal(found[0], expected)
    # Again does nothing, and copies nothing.
    inside = clip_entries(np.full((2, 2), lower), lower=lower, upper=upper, keep_zeros=keep_zeros)
    assert clip_entries(inside, lower=lower, upper=upper, keep_zeros=keep_zeros) is inside


@pytest.mark.parametrize("keep_zeros", [True, False])
def test_each_entry_is_clipped_on_its_own(keep_zeros):
    generator = np.random.default_rng(0)
    values = generator.permuted(np.tile(ENTRIES, (50, 1)), axis=1)
    together = clip_entries(values, lower=-0.1, upper=0.3, keep_zeros=keep_zeros)
    alone = [
        clip_entries(values[i : i + 1, j : j + 1], lower=-0.1, upper=0.3, keep_zeros=keep_zeros)
        for i in range(50)
        for j in range(len(ENTRIES))
    ]
    np.testing.assert_array_equal(together.ravel(), np.ravel(alone))


@pytest.mark.parametrize("keep_zeros", [True, False])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_entries_that_are_not_finite_become_bounds(keep_zeros, value):
    clipped = clip_entries(np.array([[value, 0.2]]), lower=-1.0, upper=2.0, keep_zeros=keep_zeros)
    assert clipped[0, 0] in (-1.0, 2.0)
    assert clipped[0, 1] == 0.2


@pytest.mark.covered
@pytest.mark.parametrize("keep_zeros", [True, False])
@pytest.mark.parametrize(
    ("lower", "upper"),
    [(0.0, 0.1), (-0.1, 0.3), (1.0, 1 + 7e-8), (1e-50, 1e-49), (0.0, 1e-45), (0.0, 1e39)],
)
def test_clipped_entries_are_no_further_apart_than_the_bounds_in_float32(lower, upper, keep_zeros):
    # The nearest float32 may lie outside: 1 + 1.2e-7 for 1 + 7e-8, almost twice as far from 1.
    values = np.array([[-3e38, -1.0, 0.0, 1e-45, 1.0, 2.0, 3e38]], dtype=np.float32)
    with np.errstate(over="ignore"):
        clipped = clip_entries(values, lower=lower, upper=upper, keep_zeros=keep_zeros)
    if keep_zeros:
        lower, upper = min(lower, 0.0), max(upper, 0.0)
    assert np.ptp(clipped.astype(np.float64)) <= upper - lower


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float32])
def test_entries_of_other_types_are_clipped_too(dtype):
    values = np.array([[0, 1, 100]]).astype(dtype)
    expected = np.clip(values.astype(float), 0.5, 3.0)
    clipped = clip_entries(values, lower=0.5, upper=3.0, keep_zeros=False)
    np.testing.assert_array_equal(clipped, expected)


@pytest.mark.parametrize("container", [np.array, csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_not_zero_becomes_one(container, dtype):
    values = np.array([[0.0, -0.0, 1e-40, -7.0, 1e38]], dtype=dtype)
    found = binarize(container(values))
    assert found.dtype == dtype
    found = found.toarray() if container is csr_array else found
    np.testing.assert_array_equal(found, [[0, 0, 1, 1, 1]])


def test_binarizing_ignores_zeros_that_are_stored():
    stored = csr_array((np.array([0.0, 3.0]), np.array([0, 1]), np.array([0, 2])), shape=(1, 3))
    np.testing.assert_array_equal(binarize(stored).toarray(), [[0, 1, 0]])


def test_the_largest_entries_of_a_row_stay():
    generator = np.random.default_rng(1)
    dense = generator.normal(size=(200, 9)) * (generator.random((200, 9)) < 0.7)
    for n_entries in (1, 3, 9):
        kept = keep_largest(
            csr_array(dense), n_entries=n_entries, priority=generator.permutation(9)
        ).toarray()
        threshold = -np.sort(-np.abs(dense), axis=1)[:, n_entries - 1, None]
        np.testing.assert_array_equal(kept, np.where(np.abs(dense) >= threshold, dense, 0))


def test_of_equal_entries_those_with_the_lower_priority_stay():
    priority = np.array([3, 0, 4, 1, 2])
    kept = keep_largest(csr_array(np.ones((2, 5))), n_entries=2, priority=priority).toarray()
    np.testing.assert_array_equal(kept, np.tile([0, 1, 0, 1, 0], (2, 1)))


def test_what_stays_of_a_row_depends_on_that_row_alone():
    generator = np.random.default_rng(2)
    dense = generator.choice([-2.0, -1.0, 0.0, 1.0, 2.0], size=(100, 12))
    priority = generator.permutation(12)
    together = keep_largest(csr_array(dense), n_entries=4, priority=priority).toarray()
    assert (together != 0).sum(axis=1).max() == 4
    for row, kept in zip(dense, together, strict=True):
        alone = keep_largest(csr_array(row[None]), n_entries=4, priority=priority)
        np.testing.assert_array_equal(alone.toarray()[0], kept)


def test_zeros_that_are_stored_take_no_place():
    rows = csr_array((np.array([0.0, 0.0, 1.0]), np.arange(3), np.array([0, 3])), shape=(1, 3))
    kept = keep_largest(rows, n_entries=1, priority=np.arange(3))
    np.testing.assert_array_equal(kept.toarray(), [[0, 0, 1]])
    assert kept.nnz == 1
