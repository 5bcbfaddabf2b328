"""Records whose contribution is a product: a residual times the coordinates of a row."""

from fractions import Fraction

import numpy as np
import pytest

from skdp.linalg.norms import row_norms
from skdp.privacy.clipping import clip_rows

BOUNDS = (1e-100, 1e-3, 1.0, 1e100)
N_RECORDS, N_COORDINATES = 3000, 9


def powers_of_ten(generator, shape):
    """All that a float holds, denormal numbers and the largest ones included."""
    with np.errstate(over="ignore"):
        values = generator.normal(size=shape) * 10.0 ** generator.uniform(-323, 308, size=shape)
    return np.clip(values, -np.finfo(float).max, np.finfo(float).max)


@np.errstate(over="ignore", divide="ignore")
def factors(seed=0):
    """Residuals and coordinates; the products of a third of them are ordinary numbers."""
    generator = np.random.default_rng(seed)
    residuals = powers_of_ten(generator, (N_RECORDS, 1))
    coordinates = powers_of_ten(generator, (N_RECORDS, N_COORDINATES))
    third = N_RECORDS // 3
    one_scale = powers_of_ten(generator, (2 * third, 1))
    directions = generator.normal(size=(2 * third, N_COORDINATES))
    coordinates[: 2 * third] = np.clip(directions * one_scale, -1e308, 1e308)
    opposite = 10.0 ** generator.uniform(-3, 3, size=(third, 1)) / one_scale[:third]
    residuals[:third] = np.clip(opposite, -1e308, 1e308)
    return residuals, coordinates


def contributions(residuals, coordinates):
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return residuals * coordinates


def clipped(records, bound):
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return clip_rows(records.copy(), bound)


def norms_of(records):
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return row_norms(records)


def exact_square(record):
    return sum(Fraction(float(value)) ** 2 for value in record)


@pytest.mark.parametrize("bound", BOUNDS)
def test_no_contribution_exceeds_its_bound_in_exact_arithmetic(bound):
    records = contributions(*factors())
    for record in clipped(records, bound):
        assert exact_square(record) <= Fraction(bound) ** 2


@pytest.mark.parametrize("bound", BOUNDS)
def test_contributions_are_lost_only_if_they_are_not_finite_or_absurd(bound):
    records = contributions(*factors())
    found = clipped(records, bound)
    finite = np.isfinite(records).all(axis=1)
    assert 100 < (~finite).sum() < N_RECORDS - 1000
    np.testing.assert_array_equal(found[~finite], 0.0)
    norms = norms_of(records[finite])
    inside = norms <= bound * (1 - 1e-11)
    assert 100 < inside.sum() < finite.sum() - 100
    np.testing.assert_array_equal(found[finite][inside], records[finite][inside])
    lost = (found[finite] == 0).all(axis=1) & (records[finite] != 0).any(axis=1)
    assert np.all(norms[lost] / 1e150 >= bound)


def test_a_contribution_does_not_depend_on_the_others():
    records = contributions(*factors())
    together, norms = clipped(records, 1.0), norms_of(records)
    for index in range(0, N_RECORDS, 7):
        alone = records[index : index + 1]
        np.testing.assert_array_equal(clipped(alone, 1.0)[0], together[index])
        np.testing.assert_array_equal(norms_of(alone.copy())[0], norms[index])


def test_a_weight_from_the_norms_of_the_factors_exceeds_the_bound():
    # The squares of the coordinates vanish, so that the residual is thought to do no harm.
    residuals, coordinates = np.array([[1e200]]), np.full((1, N_COORDINATES), 1e-170)
    with np.errstate(under="ignore"):
        textbook_norm = abs(residuals) * np.sqrt((coordinates**2).sum(axis=1, keepdims=True))
    weights = np.where(textbook_norm > 1.0, 1.0 / np.maximum(textbook_norm, 1.0), 1.0)
    assert np.linalg.norm(weights * residuals * coordinates) > 1e30
    assert exact_square(clipped(contributions(residuals, coordinates), 1.0)[0]) <= 1
