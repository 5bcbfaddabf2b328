"""Neighbors that differ in one record with a class: a row, a constant and the class together."""

import numpy as np
import pytest
from scipy.special import softmax

from skdp.privacy import sensitivity

ADJACENCIES = ("replace", "zero_out")
N_DRAWS = 20_000
C, A, B = 1.7, 0.85, 0.95


def records(n_classes, generator, n_draws=N_DRAWS, n_features=3):
    """Vectors of records: mostly of rows at the bound, of any class."""
    rows = generator.normal(size=(n_draws, n_features))
    rows *= C / np.linalg.norm(rows, axis=1, keepdims=True)
    rows[::4] *= generator.random((len(rows[::4]), 1))
    labels = np.eye(n_classes)[generator.integers(n_classes, size=n_draws)] - 1 / n_classes
    return np.column_stack([rows, np.full(n_draws, A), B * labels])


def moved(ours, theirs):
    """Distances of the outer products, by the Gram matrix of both vectors."""
    squares = [np.einsum("ij,ij->i", a, b) for a, b in ((ours, ours), (theirs, theirs))]
    inner = np.einsum("ij,ij->i", ours, theirs)
    return np.sqrt(np.maximum(squares[0] ** 2 + squares[1] ** 2 - 2 * inner**2, 0))


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_one_record_is_reached_and_not_exceeded(n_classes, adjacency):
    generator = np.random.default_rng(0)
    ours, theirs = (records(n_classes, generator) for _ in range(2))
    theirs = theirs if adjacency == "replace" else 0 * theirs
    declared = sensitivity.class_moment(C, A, B, n_classes, adjacency)
    assert 0.9999 <= moved(ours, theirs).max() / declared <= 1


@pytest.mark.parametrize("n_classes", [2, 4])
def test_gradients_of_a_softmax_are_no_longer_than_two_residuals(n_classes):
    # What their clip level is a fraction of: sqrt(2) is the longest residual.
    generator = np.random.default_rng(0)
    scores = (
        generator.normal(size=(N_DRAWS, n_classes))
        * 10.0 ** generator.uniform(-2, 2, N_DRAWS)[:, None]
    )
    residuals = softmax(scores, axis=1)
    residuals[np.arange(N_DRAWS), generator.integers(n_classes, size=N_DRAWS)] -= 1
    assert 0.999 < np.linalg.norm(residuals, axis=1).max() / np.sqrt(2) <= 1 + 1e-12


def test_losses_of_a_median_move_by_at_most_two():
    """Of distances of two counts from half of the rows, as the clip level is chosen by."""
    generator, n_rows, points, worst = np.random.default_rng(0), 9, np.arange(6), 0.0
    for _ in range(2000):
        norms = generator.integers(0, 6, size=n_rows).astype(float)
        other = norms.copy()
        other[0] = generator.choice([np.nan, *points])
        change = median_losses(norms, points) - median_losses(other, points)
        worst = max(worst, np.ptp(change))
    assert 1 < worst <= sensitivity.count_distance()


def median_losses(norms, points):
    up_to = (norms[:, None] <= points).sum(axis=0)
    half, below = len(norms) / 2, np.append(0, up_to[:-1])
    return np.maximum(0, np.maximum(half - up_to, below - half))
