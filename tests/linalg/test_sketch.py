"""Sketches: what they are, sums of their rows, and how much longer they make a matrix."""

import numpy as np
import pytest

from skdp.linalg.sketches import CountSketch, HaarSketch, haar_norm, haar_rounding, tail_factor

KINDS = (HaarSketch, CountSketch)
generator = np.random.default_rng(0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "t"), [(50, 7), (50, 50), (7, 1), (1, 1)])
def test_norms_are_those_of_the_matrix(kind, n, t):
    sketch = kind(n, t, np.random.default_rng(0))
    matrix = sketch.lift(np.eye(t))
    np.testing.assert_array_equal(matrix, sketch.project(np.eye(n)).T)
    np.testing.assert_array_equal(matrix, np.asarray(sketch.integers @ np.eye(t)) * sketch.unit)
    np.testing.assert_allclose(np.linalg.norm(matrix, axis=0), sketch.column_norms)
    gram = matrix.T @ matrix
    np.testing.assert_allclose(gram, np.diag(sketch.column_norms**2), atol=1e-4)
    largest = np.linalg.norm(matrix, axis=1).max()
    assert largest <= sketch.row_norm <= largest * (1 + 1e-8)
    spectral = np.linalg.norm(matrix, 2)
    assert spectral <= sketch.spectral_norm <= spectral * (1 + 1e-8)
    # Every entry is an integer in its unit.
    np.testing.assert_array_equal(matrix / sketch.unit, np.rint(matrix / sketch.unit))
    if kind is HaarSketch:
        assert sketch.spectral_norm <= haar_norm(n, t) * (1 + 1e-8)
        assert haar_rounding(n, t) < 1e-4


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("kind", KINDS)
def test_buckets_keep_lengths_on_average(kind):
    x = generator.normal(size=(40, 1))
    squares = [
        np.sum(kind(40, 8, np.random.default_rng(seed)).project(x) ** 2) for seed in range(2000)
    ]
    assert np.mean(squares) == pytest.approx(np.sum(x**2), rel=0.06)


@pytest.mark.covered
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_updates", [0, 1, 5, 3000])
@pytest.mark.parametrize("bits", [3, 40, 62])
def test_sums_are_exact_modulo_two_to_the_64(kind, n_updates, bits):
    rng = np.random.default_rng(1)
    right, left = kind(30, 6, rng), kind(40, 9, rng)
    rows, columns = rng.integers(40, size=n_updates), rng.integers(30, size=n_updates)
    counts = rng.integers(-(2**bits), 2**bits, size=n_updates)
    sums = tuple(np.zeros(shape, dtype=np.int64) for shape in ((40, 6), (30, 9)))
    right.add_both(left, sums, (rows, columns), counts)
    one_by_one = [np.zeros_like(each) for each in sums]
    for row, column, count in zip(rows.tolist(), columns.tolist(), counts.tolist(), strict=True):
        right.add_one(one_by_one[0], row, column, count)
        left.add_one(one_by_one[1], column, row, count)
    exact = [integers_of(each) for each in (right, left)]
    expected = [np.zeros(each.shape, dtype=object) for each in sums]
    for row, column, count in zip(rows.tolist(), columns.tolist(), counts.tolist(), strict=True):
        expected[0][row] += count * exact[0][column]
        expected[1][column] += count * exact[1][row]
    for each, single, total in zip(sums, one_by_one, expected, strict=True):
        wrapped = (total + 2**63) % 2**64 - 2**63
        np.testing.assert_array_equal(each.astype(object), wrapped)
        np.testing.assert_array_equal(single, each)


def integers_of(sketch):
    """The sketch in its unit, as integers of any size."""
    counts = sketch.lift(np.eye(sketch.shape[1])) / sketch.unit
    return np.array([[int(count) for count in row] for row in counts], dtype=object)


@pytest.mark.parametrize(
    ("t", "probability", "factor"),
    [
        (10, 1e-6, 2.337),
        (40, 1e-6, 1.635),
        (160, 1e-6, 1.307),
        (40, 1e-9, 1.789),
        (40, 1e-3, 1.441),
    ],
)
def test_the_tail_factor_solves_its_equation(t, probability, factor):
    found = tail_factor(t, probability)
    assert found == pytest.approx(factor, abs=5e-4)
    q = found**2
    assert (q * np.exp(1 - q)) ** (t / 2) == pytest.approx(probability, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("t", [5, 40])
def test_the_tail_is_no_heavier_than_declared(t):
    draw, change = np.random.default_rng(0), np.eye(60, 1)
    for probability in (0.1, 0.01):
        bound = tail_factor(t, probability)
        longer = [
            np.linalg.norm(HaarSketch(60, t, draw).project(change)) > bound for _ in range(2000)
        ]
        assert np.mean(longer) <= probability
