"""Neighbors that differ in one response, or in a row with its response."""

import math

import numpy as np
import pytest

from skdp.privacy import sensitivity

ADJACENCIES = ("replace", "zero_out")
N_DRAWS = 40_000
LEVEL, NORM = 1.7, 0.6


def response_changes(response_range, adjacency, n_draws=N_DRAWS):
    """Changes of the sum when one response does: predictions, responses and vectors at random."""
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(n_draws, 4))
    vectors *= NORM / np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[::2] *= generator.random((n_draws // 2, 1))
    largest = response_range if math.isfinite(response_range) else 1e6
    lengths = np.where(
        generator.random(n_draws) < 0.5, largest, largest * generator.random(n_draws)
    )
    before = generator.choice([-1.0, 1.0], n_draws) * lengths / 2
    predictions = generator.uniform(-1, 1, n_draws) * 10.0 ** generator.uniform(-3, 3, n_draws)
    clipped, other = (
        np.clip(responses - predictions, -LEVEL, LEVEL) for responses in (before, -before)
    )
    moved = clipped - other if adjacency == "replace" else clipped
    return np.linalg.norm(moved[:, None] * vectors, axis=1)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("response_range", [0.01, 1.0, 2 * LEVEL, 10.0, math.inf])
def test_one_response_is_reached_and_not_exceeded(response_range, adjacency):
    declared = sensitivity.response_sum(LEVEL, response_range, NORM, adjacency)
    assert 0.999 <= response_changes(response_range, adjacency).max() / declared <= 1 + 1e-9


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_a_level_of_infinity_leaves_the_range(adjacency):
    declared = sensitivity.response_sum(math.inf, 3.0, NORM, adjacency)
    assert declared == {"replace": 3.0 * NORM, "zero_out": math.inf}[adjacency]
    assert sensitivity.response_sum(math.inf, math.inf, NORM, adjacency) == math.inf
    assert sensitivity.response_sum(math.inf, 3.0, NORM, adjacency, 1e-5) == math.inf


# ------------------------------
# Rows with their responses, and calibrations.


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_no_record_moves_a_moment_of_rows_and_responses_further(adjacency):
    generator, c = np.random.default_rng(0), 3.0
    declared, worst = sensitivity.response_moment(c, adjacency), 0.0
    # The longest one, and one that is orthogonal to it.
    longest = [np.array([c, 0, c / 2]), np.array([-c / 4, c * np.sqrt(15 / 16), c / 2])]
    drawn = []
    for _ in range(200):
        row = generator.normal(size=2)
        drawn.append(np.append(c * row / np.linalg.norm(row), c / 2 * generator.choice([-1, 1])))
    for one in [*longest, *drawn]:
        for other in [*longest, *drawn] if adjacency == "replace" else [np.zeros(3)]:
            worst = max(worst, np.linalg.norm(np.outer(one, one) - np.outer(other, other)))
    assert 0.999 < worst / declared <= 1


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_no_record_moves_a_calibration_further(adjacency):
    P, T = 1.5, 2.0
    ends = np.linspace(-1.0, 1.0, 25)
    p, t, e = (one.ravel() for one in np.meshgrid(P * ends, T * ends, [-T, T]))
    records = np.column_stack([p * t, np.sqrt(2) * p**2 * T / P, e * P / np.sqrt(2)])
    others = records if adjacency == "replace" else np.zeros((1, 3))
    moved = np.linalg.norm(records[:, np.newaxis] - others, axis=2).max()
    assert moved == pytest.approx(sensitivity.calibration((P, T), adjacency), rel=1e-9)


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_no_record_moves_an_agreement_further(adjacency):
    ends = np.concatenate([-np.geomspace(1e-6, 1e6, 25), [0.0], np.geomspace(1e-6, 1e6, 25)])
    p, t = (one.ravel() for one in np.meshgrid(ends, ends))
    records = np.column_stack([p * t, p**2])
    records /= np.maximum(np.abs(records).max(axis=1, keepdims=True), 1.0)
    others = records if adjacency == "replace" else np.zeros((1, 2))
    moved = np.linalg.norm(records[:, np.newaxis] - others, axis=2).max()
    assert moved == pytest.approx(sensitivity.agreement(adjacency), rel=1e-9)
