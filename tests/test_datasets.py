from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import toeplitz
from scipy.sparse.linalg import svds

from skdp.data.matrices import RankOneMatrices
from skdp.datasets import (
    make_block_graph,
    make_interactions,
    make_low_rank,
    make_spiked,
    make_trace_regression,
)

DESIGNS = ["gaussian", "completion", "tasks"]
MAKERS = [
    make_spiked,
    make_low_rank,
    make_block_graph,
    make_interactions,
    *(partial(make_trace_regression, design=design) for design in DESIGNS),
]


def coherence_of_each(vectors):
    """Coherence of each row by itself."""
    return vectors.shape[1] * np.square(vectors).max(axis=1)


@pytest.mark.parametrize("make", MAKERS)
def test_the_seed_decides(make):
    def data(seed):
        made = make(60, random_state=seed)
        made = made[0] if isinstance(made, tuple) else made
        return made if isinstance(made, np.ndarray) else made.toarray()

    assert_array_equal(data(0), data(0))
    assert np.any(data(0) != data(1))


@pytest.mark.parametrize(
    ("make", "parameters", "message"),
    [
        (make_spiked, {"n_features": 3, "k": 4}, "k=4 must be at most n_features=3"),
        (make_low_rank, {"coherence": 0.5}, "'coherence' parameter"),
        (make_low_rank, {"n_features": 20, "coherence": 21}, "coherence=21 must be at most 20"),
        (make_low_rank, {"singular_values": [1, -2]}, "singular_values holds -2.0"),
        (make_low_rank, {"singular_values": [[1.0]]}, r"singular_values has shape \(1, 1\)"),
        (make_low_rank, {"n_samples": 2}, r"singular_values has shape \(3,\)"),
        (make_low_rank, {"singular_values": [np.nan]}, "singular_values contains NaN"),
        (make_low_rank, {"singular_values": []}, r"0 sample\(s\)"),
        (
            make_low_rank,
            {"n_samples": 9, "symmetric": True},
            "symmetric=True needs equal n_samples",
        ),
        (make_block_graph, {"n_nodes": 3, "n_communities": 4}, "n_communities=4 must be"),
        (make_block_graph, {"p_within": 1.1}, "'p_within' parameter"),
        (make_block_graph, {"p_between": -0.1}, "'p_between' parameter"),
        (make_interactions, {"n_interactions": 800_000}, "n_interactions=800000 must be at most"),
        (make_interactions, {"popularity": -1}, "'popularity' parameter"),
        (make_interactions, {"popularity": 20}, "too many for popularity=20"),
        (make_interactions, {"n_tastes": 0}, "'n_tastes' parameter"),
        (make_trace_regression, {"shape": (4, 0)}, r"positive integers, got \(4"),
        (make_trace_regression, {"shape": (4,)}, r"positive integers, got \(4,"),
        (make_trace_regression, {"shape": (4, 3), "rank": 4}, "rank=4 must be at most 3"),
        (make_trace_regression, {"singular_values": [1, -2]}, "singular_values holds -2.0"),
        (make_trace_regression, {"singular_values": np.ones(13)}, r"has shape \(13,\)"),
        (make_trace_regression, {"singular_values": [np.inf]}, "singular_values contains inf"),
        (make_trace_regression, {"design": "cells"}, "'design' parameter"),
        (make_trace_regression, {"column_correlation": 1}, "'column_correlation' parameter"),
        (
            make_trace_regression,
            {"design": "tasks", "column_correlation": 0.5},
            "column_correlation=0.5 must be 0 if design='tasks'",
        ),
    ],
)
def test_bad_parameters_are_refused(make, parameters, message):
    with pytest.raises(ValueError, match=message):
        make(**parameters)


@pytest.mark.covered
@pytest.mark.parametrize("coherence", [None, 1, 3.7, 40])
@pytest.mark.parametrize("shape", [(40, 64), (64, 41), (50, 50)])
def test_low_rank_has_its_singular_values_and_vectors(shape, coherence):
    values = [5.0, 7.0, 3.0]
    X, left, components = make_low_rank(
        *shape, singular_values=values, coherence=coherence, random_state=0
    )
    assert X.shape == shape
    assert_allclose(left.T @ left, np.eye(3), atol=1e-14)
    assert_allclose(components @ components.T, np.eye(3), atol=1e-14)
    assert_allclose((left * values) @ components, X, atol=1e-14)
    expected = np.r_[7, 5, 3, np.zeros(min(shape) - 3)]
    assert_allclose(np.linalg.svd(X, compute_uv=False), expected, atol=1e-13)


@pytest.mark.parametrize("coherence", [None, 4])
def test_symmetric_low_rank_has_signed_eigenvalues(coherence):
    X, left, components = make_low_rank(
        64, 64, singular_values=[4, -3, 2], coherence=coherence, symmetric=True, random_state=0
    )
    assert_array_equal(X, X.T)
    assert_array_equal(left, components.T * [1, -1, 1])
    eigenvalues = np.linalg.eigvalsh(X)
    assert_allclose(eigenvalues[[0, -2, -1]], [-3, 2, 4])
    assert_allclose(eigenvalues[1:-2], 0, atol=1e-14)


@pytest.mark.covered
@pytest.mark.parametrize("n", [5, 10, 37, 100, 1001])
@pytest.mark.parametrize("share", [0, 0.1, 0.5, 1])
def test_every_number_of_vectors_can_be_had(n, share):
    # k vectors, of any coherence asked for, are orthonormal and equally coherent.
    for k in (1, n // 3 + 1, n):
        coherence = n**share
        _, _, components = make_low_rank(
            n, n, singular_values=np.ones(k), coherence=coherence, random_state=0
        )
        assert_allclose(components @ components.T, np.eye(k), atol=1e-13)
        assert np.ptp(coherence_of_each(components)) < 1e-9
        places = max(round(n / coherence), 1)
        if k * places <= n:
            miss = abs(coherence_of_each(components)[0] - coherence)
            assert miss <= abs(n / places - coherence) + 1e-9


def test_block_graph_is_a_graph():
    adjacency, labels = make_block_graph(101, n_communities=4, random_state=0)
    assert adjacency.format == "csr"
    assert adjacency.dtype == np.float64
    assert adjacency.indices.dtype == np.int32
    dense = adjacency.toarray()
    assert_array_equal(dense, dense.T)
    assert_array_equal(np.unique(dense), [0, 1])
    assert_array_equal(np.diag(dense), 0)
    assert adjacency.nnz == dense.sum()
    sizes = np.bincount(labels)
    assert len(sizes) == 4
    assert np.ptp(sizes) <= 1


@pytest.mark.parametrize(
    ("p_within", "p_between"), [(0.15, 0.05), (0.02, 0.3), (0.9, 1e-3), (1e-3, 0.999)]
)
def test_blocks_have_their_densities(p_within, p_between):
    adjacency, labels = make_block_graph(
        600, n_communities=3, p_within=p_within, p_between=p_between, random_state=0
    )
    members = np.eye(3)[labels]
    n_edges = members.T @ (adjacency @ members)
    size = 200
    for a in range(3):
        for b in range(a, 3):
            n_pairs = size * (size - 1) / 2 if a == b else size**2
            probability = p_within if a == b else p_between
            seen = n_edges[a, b] / (2 if a == b else 1)
            error = np.sqrt(n_pairs * probability * (1 - probability))
            assert abs(seen - n_pairs * probability) <= 5 * error


@pytest.mark.parametrize("n_communities", [1, 3, 7])
def test_every_pair_is_an_edge_at_probability_one_and_none_at_zero(n_communities):
    def edges(p_within, p_between):
        adjacency, labels = make_block_graph(
            7, n_communities=n_communities, p_within=p_within, p_between=p_between, random_state=0
        )
        return adjacency.toarray(), labels[:, None] == labels

    within, same = edges(1, 0)
    between, _ = edges(0, 1)
    assert_array_equal(within, same & ~np.eye(7, dtype=bool))
    assert_array_equal(between, ~same)


@pytest.mark.parametrize("seed", range(3))
def test_interactions_resemble_a_recommender(seed):
    X = make_interactions(random_state=seed)
    assert X.shape == (1000, 1500)
    assert X.format == "csr"
    assert X.dtype == np.float64
    assert X.indices.dtype == np.int32
    assert X.nnz == X.sum() == 69_000
    assert_array_equal(X.data, 1)
    _, singular_values, components = svds(X, 8, random_state=0)
    order = np.argsort(singular_values)[::-1]
    assert 90 <= singular_values[order[0]] <= 110
    assert 60 <= coherence_of_each(components[order[:1]])[0] <= 150
    # Five tastes: the popularity and four more stand out of the rest.
    gaps = singular_values[order][:-1] / singular_values[order][1:]
    assert gaps[4] == gaps[1:].max()


def test_interactions_follow_the_popularity():
    X = make_interactions(4000, 400, n_interactions=8000, popularity=1.0, random_state=0)
    first, later = X[:, :5].sum(), X[:, 50:100].sum()
    attraction = 1 / np.arange(1, 401)
    assert first / X.nnz == pytest.approx(attraction[:5].sum() / attraction.sum(), rel=0.25)
    assert later / X.nnz == pytest.approx(attraction[50:100].sum() / attraction.sum(), rel=0.25)


@pytest.mark.parametrize("n_interactions", [1, 25, 50])
def test_every_number_of_interactions_can_be_had(n_interactions):
    for seed in range(20):
        X = make_interactions(10, 10, n_interactions=n_interactions, random_state=seed)
        assert X.nnz == n_interactions
        assert_array_equal(X.data, 1)


def written_out(X):
    return X.toarray() if isinstance(X, RankOneMatrices) else X.reshape(len(X), -1)


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_measured_matrix_has_its_rank_and_norm(rank):
    _, _, M = make_trace_regression(1, (5, 8), rank=rank, norm=3.0, random_state=0)
    assert M.shape == (5, 8)
    values = np.linalg.svd(M, compute_uv=False)
    assert_allclose(values[rank:], 0, atol=1e-14)
    assert np.linalg.norm(M) == pytest.approx(3)
    # Equispaced with the first twice the last, which for one value is no condition.
    assert_allclose(values[:rank] / values[0], np.linspace(2, 1, rank) / 2)


@pytest.mark.parametrize("design", DESIGNS)
def test_measured_matrix_has_the_singular_values_given(design):
    _, _, M = make_trace_regression(
        1, (7, 4), singular_values=[1.0, 3.0, 0.5], design=design, random_state=0
    )
    assert_allclose(np.linalg.svd(M, compute_uv=False), [3, 1, 0.5, 0], atol=1e-14)


@pytest.mark.parametrize("design", DESIGNS)
def test_measurements_are_inner_products(design):
    X, y, M = make_trace_regression(200, (5, 3), design=design, noise=0, random_state=0)
    assert isinstance(X, np.ndarray) == (design == "gaussian")
    assert y.shape == (200,)
    assert_allclose(y, written_out(X) @ M.ravel(), atol=1e-13)


@pytest.mark.parametrize("design", DESIGNS)
def test_entries_of_measurement_matrices_have_identity_second_moment(design):
    n, size = 40_000, 12
    X, _, _ = make_trace_regression(n, (4, 3), design=design, random_state=0)
    dense = written_out(X)
    # Of the three designs, the squared entries of "completion" spread most, by `size`.
    assert np.abs(dense.T @ dense / n - np.eye(size)).max() <= 6 * np.sqrt(size / n)


@pytest.mark.parametrize("correlation", [0.6, -0.9])
def test_columns_of_gaussian_matrices_are_correlated(correlation):
    n = 20_000
    X, _, _ = make_trace_regression(
        n, (3, 5), column_correlation=correlation, rank=1, random_state=0
    )
    expected = np.kron(np.eye(3), toeplitz(correlation ** np.arange(5)))
    dense = written_out(X)
    assert np.abs(dense.T @ dense / n - expected).max() <= 6 * np.sqrt(2 / n)


def test_completion_observes_one_cell_at_a_time_and_all_alike():
    n = 15_000
    X, _, _ = make_trace_regression(n, (5, 3), design="completion", random_state=0)
    dense = written_out(X)
    assert_array_equal(np.count_nonzero(dense, axis=1), 1)
    assert_allclose(dense.max(axis=1), np.sqrt(15))
    seen = np.count_nonzero(dense, axis=0)
    assert np.abs(seen - n / 15).max() <= 5 * np.sqrt(n / 15)


@pytest.mark.parametrize("design", DESIGNS)
def test_responses_have_their_noise(design):
    n = 20_000
    X, y, M = make_trace_regression(n, (5, 3), design=design, noise=0.7, random_state=0)
    noise = y - written_out(X) @ M.ravel()
    assert abs(noise.mean()) <= 5 * 0.7 / np.sqrt(n)
    assert np.std(noise) == pytest.approx(0.7, rel=5 / np.sqrt(2 * n))
