import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import subspace_angles
from sklearn.metrics import ndcg_score

from skdp.datasets import make_low_rank
from skdp.interactions import interaction_table
from skdp.metrics import captured_variance, coherence, ndcg_at_k, recall_at_k, subspace_distance


@pytest.mark.parametrize("contain", [np.asarray, sparse.csr_array, list])
def test_arguments_in_the_wrong_order_are_refused(contain):
    X, components = np.eye(5, 3), np.eye(2, 3)
    assert captured_variance(components, contain(X)) == pytest.approx(2 / 3)
    with pytest.raises((TypeError, ValueError), match=r"the other way round|Sparse data"):
        captured_variance(contain(X), components)


@pytest.mark.parametrize(("first", "second"), [(1, 1), (3, 3), (2, 4), (4, 2)])
def test_distances_of_subspaces_agree_with_scipy(first, second):
    generator = np.random.default_rng(2)
    for _ in range(20):
        basis, other = generator.normal(size=(first, 7)), generator.normal(size=(second, 7))
        # What a larger subspace has beyond the smaller one stands at a right angle to it.
        expected = 1.0 if second > first else np.sin(subspace_angles(basis.T, other.T)).max()
        assert subspace_distance(basis, other) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("angle", [1e-14, 1e-10, 1e-5, 1.0, np.pi / 2])
def test_distances_of_small_angles_keep_their_digits(angle):
    basis = np.eye(5)[:2]
    other = basis.copy()
    other[1] = np.cos(angle) * basis[1] + np.sin(angle) * np.eye(5)[4]
    assert subspace_distance(basis, other) == pytest.approx(np.sin(angle), rel=1e-12)


@pytest.mark.parametrize("scale", [1.0, -3.0])
@pytest.mark.parametrize(("n_components", "n_features"), [(1, 7), (3, 8), (4, 4)])
def test_coherence_lies_between_its_extremes(n_components, n_features, scale):
    aligned = scale * np.eye(n_components, n_features)
    assert coherence(aligned) == pytest.approx(n_features / n_components)
    random = scale * np.random.default_rng(0).normal(size=(n_components, n_features))
    assert 1 - 1e-12 <= coherence(random) <= n_features / n_components + 1e-12


def test_coherence_is_that_of_the_span():
    _, _, components = make_low_rank(10, 96, coherence=8, random_state=0)
    # Three vectors with 12 places each: of 3 squared norms 1/12, a single one in each column.
    assert coherence(components) == pytest.approx(96 / 3 / 12)
    mixed = np.array([[1, 2, 0], [0, 1, 3], [5, 0, 1]]) @ components
    assert coherence(mixed) == pytest.approx(coherence(components))
    assert coherence(np.ones((1, 5)).tolist()) == pytest.approx(1)


def test_coherence_refuses_components_as_columns():
    with pytest.raises(ValueError, match=r"more rows than columns, \(5, 2\)"):
        coherence(np.eye(5, 2))


GENERATOR = np.random.default_rng(0)
GAINS = (GENERATOR.random((50, 9)) < 0.2) * GENERATOR.integers(1, 4, (50, 9))
SCORES = GENERATOR.normal(size=(50, 9))
CHOSE = GAINS.any(axis=1)


@pytest.mark.parametrize("batch", [20, 1 << 22])
@pytest.mark.parametrize("contain", [np.asarray, sparse.csr_array])
def test_rankings_are_those_of_users_with_gains(monkeypatch, contain, batch):
    monkeypatch.setattr("skdp.interactions._BATCH_ENTRIES", batch)
    assert not CHOSE.all()
    expected = ndcg_score(GAINS[CHOSE], SCORES[CHOSE], k=4)
    assert ndcg_at_k(contain(GAINS), SCORES, 4) == pytest.approx(expected)
    best = np.argsort(-SCORES, axis=1)[:, :4]
    shares = [
        len({*np.flatnonzero(GAINS[user])} & {*best[user]}) / np.count_nonzero(GAINS[user])
        for user in np.flatnonzero(CHOSE)
    ]
    assert recall_at_k(contain(GAINS), SCORES, 4) == pytest.approx(np.mean(shares))
    assert ndcg_at_k(contain(GAINS), GAINS, 9) == recall_at_k(contain(GAINS), GAINS, 9) == 1


def test_what_is_not_ranked_lowers_the_best():
    had = np.array([[True, False, False]])
    scores = np.where(had, -np.inf, [[9.0, -5.0, -7.0]])
    gains = np.array([[1, 1, 0]])
    assert recall_at_k(gains, scores, 1) == recall_at_k(gains, scores, 3) == 0.5
    assert ndcg_at_k(gains, scores, 3) == pytest.approx(1 / (1 + 1 / np.log2(3)))


@pytest.mark.covered
@pytest.mark.parametrize("k", [1, 2, 3, 9])
@pytest.mark.parametrize("scores", [[-np.inf, 1.0, -np.inf], [-np.inf] * 3, [-np.inf, -1e308, 0]])
def test_what_is_not_ranked_earns_nothing(scores, k):
    for metric in (ndcg_at_k, recall_at_k):
        assert metric([[1, 0, 0]], [scores], k) == 0


@pytest.mark.covered
@pytest.mark.parametrize("metric", [ndcg_at_k, recall_at_k])
@pytest.mark.parametrize(
    ("gains", "scores", "k", "told"),
    [
        (GAINS, SCORES[:, :3], 1, "the same shape, with two items or more"),
        (GAINS, np.full_like(SCORES, np.inf), 1, "only minus infinity"),
        (GAINS, np.full_like(SCORES, np.nan), 1, "NaN"),
        (-GAINS, SCORES, 1, "negative gain"),
        (0 * GAINS, SCORES, 1, "no gain"),
        (GAINS, SCORES, 0, "'k' parameter"),
    ],
    ids=["shapes", "infinite", "missing", "negative", "none", "k"],
)
def test_what_is_no_ranking_is_refused(metric, gains, scores, k, told):
    with pytest.raises(ValueError, match=told):
        metric(gains, scores, k)


@pytest.mark.parametrize("contain", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("measure", [ndcg_at_k, recall_at_k])
def test_seen_items_are_neither_ranked_nor_earn(measure, contain):
    generator = np.random.default_rng(0)
    gains, scores = generator.integers(0, 2, (20, 9)), generator.normal(size=(20, 9))
    seen = generator.integers(0, 2, (20, 9)) * 3.0
    expected = measure(np.where(seen, 0, gains), np.where(seen, -np.inf, scores), 4)
    assert measure(contain(gains), scores, 4, seen=contain(seen)) == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"seen must have the shape \(.*\) of y_true"):
        measure(gains, scores, 4, seen=seen[:, 1:])


@pytest.mark.parametrize("measure", [ndcg_at_k, recall_at_k])
def test_tables_of_one_list_of_users_and_items_are_taken_as_they_are(measure):
    names = {"users": ["a", "b"], "items": ["jam", "pen", "tea"]}
    seen = interaction_table([("a", "tea"), ("b", "jam")], **names)
    later = interaction_table([("a", "jam", 4.0), ("b", "pen", 2.0)], **names)
    scores = np.array([[0.1, 0.2, 0.9], [0.9, 0.2, 0.1]])
    expected = measure(later.X, scores, 1, seen=seen.X)
    assert (
        measure(later, scores, 1, seen=seen) == measure(later.X, scores, 1, seen=seen) == expected
    )
    other = interaction_table([("b", "jam")], users=["b", "a"], items=names["items"])
    with pytest.raises(ValueError, match="the same users and items"):
        measure(later, scores, 1, seen=other)
