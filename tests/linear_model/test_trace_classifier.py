"""The classifier of matrices: its accuracy, its layouts, what it refuses, what is null."""

import pickle
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from harness import null_row
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from told import warned_by

from skdp import (
    DPLogisticRegression,
    DPStandardScaler,
    DPTraceClassifier,
    PrivacyWarning,
    make_dp_pipeline,
)
from skdp.datasets import make_trace_regression
from skdp.model_selection import DPGridSearch
from skdp.testing._recording import Group, farthest_of

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
SEED = 2**100 + 3
SHAPE = (6, 5)


def drawn(n_records, seed=0):
    """Matrices far from 0, in odd units, and labels with the best accuracy of .86."""
    X, scores, M = make_trace_regression(
        n_records, SHAPE, rank=1, norm=3.65, noise=0.0, random_state=seed
    )
    labels = np.random.default_rng(seed).random(n_records) < expit(scores)
    return 100 * (X + 0.5), labels.astype(int), M


def private(**more):
    return DPTraceClassifier(**{"classes": [0, 1], "random_state": SEED, **more})


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_it_predicts_well_with_the_right_rank(adjacency):
    X, y, M = drawn(8000)
    train, test = slice(6000), slice(6000, None)
    model = private(adjacency=adjacency).fit(X[train], y[train])
    assert model.score(X[test], y[test]) > 0.84
    assert np.linalg.matrix_rank(model.coef_, tol=1e-9 * np.linalg.norm(model.coef_)) == 1
    cosine = np.vdot(model.coef_, M) / np.linalg.norm(model.coef_) / np.linalg.norm(M)
    assert cosine > 0.98


def test_without_noise_the_direction_is_that_of_a_logistic_regression():
    X, y, _ = drawn(3000)
    model = DPTraceClassifier(5, classes=[0, 1], epsilon=np.inf).fit(X, y)
    rows = DPLogisticRegression(classes=[0, 1], epsilon=np.inf).fit(X.reshape(len(X), -1), y)
    ours, theirs = model.coef_.ravel(), rows.coef_.ravel()
    assert ours @ theirs > 0.99 * np.linalg.norm(ours) * np.linalg.norm(theirs)
    assert np.mean(model.predict(X) == rows.predict(X.reshape(len(X), -1))) > 0.97


def test_layouts_give_one_fit():
    X, y, _ = drawn(400)
    model = private(epsilon=np.inf).fit(X, y)
    assert model.coef_.shape == SHAPE
    assert model.intercept_.shape == (1,)
    assert model.n_features_in_ == 30
    rows = X.reshape(len(X), -1)
    flat = private(epsilon=np.inf, matrix_shape=SHAPE).fit(rows, y)
    listed = private(epsilon=np.inf, n_jobs=2).fit(X.tolist(), y)
    for other in (flat, listed):
        np.testing.assert_array_equal(other.coef_, model.coef_)
        np.testing.assert_array_equal(other.decision_function(X), model.decision_function(rows))
    vectors = private().fit(rows, y)
    assert vectors.coef_.shape == (30, 1)
    single = private().fit(X.astype(np.float32), y)
    assert single.coef_.dtype == single.intercept_.dtype == np.float32
    again = pickle.loads(pickle.dumps(single))
    np.testing.assert_array_equal(again.predict_proba(X), single.predict_proba(X))
    assert again.predict_proba(X).shape == (400, 2)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"delta": 0}, "delta=0 .* DPTraceClassifier"),
        ({"row_norm": np.inf}, "row_norm"),
        ({"row_norm": np.inf, "epsilon": np.inf}, "row_norm"),
        ({"privacy_unit": "response"}, "privacy_unit"),
        ({"rank": 6}, "rank=6 exceeds the smaller side"),
        ({"matrix_shape": (5, 6)}, "matrix_shape"),
        ({"classes": [0, 1, 2]}, "Only binary classification is supported"),
    ],
)
def test_what_it_cannot_do_is_refused_before_anything_is_spent(ledger, parameters, message):
    X, y, _ = drawn(20)
    model = private(ledger=ledger, **parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert ledger.entries() == []
    assert not hasattr(model, "n_features_in_")


def test_sparse_rows_are_refused():
    X, y, _ = drawn(1000)
    rows, model = csr_array(X.reshape(1000, -1)), private().fit(X, y)
    flat = private(matrix_shape=SHAPE)
    for sparse in (rows, pd.DataFrame.sparse.from_spmatrix(rows)):
        refused = partial(flat.fit, sparse, y), partial(flat.plan, 1000, 30, like=sparse)
        for given in (*refused, partial(model.predict, sparse)):
            with pytest.raises(TypeError, match="Sparse data was passed"):
                given()


def test_another_shape_is_refused():
    X, y, _ = drawn(1000)
    model = private().fit(X, y)
    with pytest.raises(ValueError, match=r"shape \(5, 6\), but DPTraceClassifier was fitted"):
        model.predict(X.reshape(-1, 5, 6))
    with pytest.raises(ValueError, match="n_features=12 does not fit the shape"):
        private().plan(1000, 12, like=X)


def test_few_records_are_warned_of_and_a_search_takes_the_labels_for_classes():
    X, y, _ = drawn(1000)
    few = "no better than the frequencies .* or a smaller matrix_shape"
    with pytest.warns(PrivacyWarning, match=few):
        private(epsilon=0.7).fit(X / 100 - 0.5, y[::-1])
    search = DPGridSearch(DPTraceClassifier(), {"rank": [1, 2]}, epsilon=4.0)
    assert search.fit(X, y).best_estimator_.classes_.tolist() == [0, 1]


@pytest.mark.slow
def test_matrices_may_lie_far_from_zero():
    """Steps are as long as the spread around the mean asks for; where noise hides it, a warning."""
    X = np.random.default_rng(0).normal(size=(5000, 4, 3))
    y = X[:, 0, 0] > 0

    def fitted(offset, epsilon):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = private(classes=[False, True], epsilon=epsilon).fit(X + offset, y)
        return model.score(X + offset, y), any("hides how" in str(one.message) for one in caught)

    for offset, epsilon in ((0, 4.0), (10, 4.0), (1e5, np.inf)):
        accuracy, warned = fitted(offset, epsilon)
        assert accuracy > 0.95
        assert not warned
    assert fitted(1e5, 4.0)[1]


def test_labels_without_a_signal_are_not_fitted_in_silence():
    """Fits that released no losses of their scores lost up to .76 at epsilon .25."""
    losses = []
    for seed in range(4):
        random = np.random.default_rng(seed)
        X, y = random.normal(size=(2000, 8, 8)), random.random(2000) < 0.5
        model = private(classes=[False, True], random_state=SEED + seed)
        with pytest.warns(PrivacyWarning, match="no better than the frequencies"):
            model.fit(X, y)
        likely = model.predict_proba(random.normal(size=(2000, 8, 8)))
        losses.append(-np.log(likely).mean() - np.log(2))
    assert np.mean(losses) < 0.02


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize(("part", "epsilon"), [(0.05, 1.0), (0.05, 256.0), (0.2, 1.0)])
def test_codes_for_gaps_do_not_make_probabilities_worse_than_frequencies(part, epsilon):
    """Where -999 stood in all entries of 5% of the matrices, log losses were 1.0 to 2.4."""
    losses = []
    for seed in range(5):
        random = np.random.default_rng(seed)
        X, y = random.normal(size=(4000, 8, 8)), np.arange(4000) % 2
        X[:, :2] += 0.7 * y[:, np.newaxis, np.newaxis]
        X[random.random(4000) < part] = -999.0
        model = private(epsilon=epsilon, random_state=SEED + seed).fit(X[:2000], y[:2000])
        losses.append(log_loss(y[2000:], model.predict_proba(X[2000:])))
    assert np.median(losses) < np.log(2) - (0.1 if part < 0.1 else 0.0)


def test_little_budget_leaves_the_frequencies_of_the_classes():
    """Of raw pixels, log losses were 6 on average, where the frequencies have .31."""
    pixels, digits = load_digits(return_X_y=True)
    X, y, losses = pixels.reshape(-1, 8, 8), (digits == 8).astype(int), []
    for seed in range(4):
        model = private(epsilon=0.25, random_state=SEED + seed).fit(X[::2], y[::2])
        losses.append(log_loss(y[1::2], model.predict_proba(X[1::2])))
    assert np.mean(losses) < 0.45


def test_a_fit_to_equal_matrices_is_finite_without_noise():
    model = private(epsilon=np.inf).fit(np.ones((30, 2, 3)), np.arange(30) % 3 == 0)
    assert np.isfinite(model.predict_proba(np.ones((1, 2, 3)))).all()
    np.testing.assert_allclose(model.predict_proba(np.ones((1, 2, 3)))[0, 1], 1 / 3, atol=0.01)


@pytest.mark.slow
@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_no_neighbor_moves_what_decides_on_the_length_by_more_than_declared(adjacency):
    """Climb from records near the mean and far away; each release gets near its bound."""
    random, names = (
        np.random.default_rng(0),
        ("class difference", "median score", "losses", "scores"),
    )
    X, y = random.normal(size=(40, 2, 3)), np.arange(40) % 2
    make = partial(private, epsilon=50.0, adjacency=adjacency)

    def moved(record):
        rows, labels = X.copy(), y.copy()
        rows[0], labels[0] = record[1:].reshape(2, 3), record[0] > 0
        return rows, labels

    def ratios(pair):
        group = Group(list(map(moved, pair)))
        if adjacency == "zero_out":
            data = moved(pair[0])
            group = Group([data], origin=data, make_null=partial(null_row, 0))
        found = farthest_of(make, [group])
        return np.array([max(v for k, v in found.items() if k.startswith(n)) for n in names])

    starts = [[1e-3], [1e3]] * random.normal(size=(4, 2, 7)), random.normal(size=(4, 2, 7))
    pairs = [*np.concatenate(starts)]
    found = [ratios(pair) for pair in pairs]
    for place in range(len(names)):
        for _ in range(12):
            best = pairs[int(np.argmax([one[place] for one in found]))]
            pairs.append(best * np.exp(random.normal(size=(2, 1))) + 0.3 * random.normal(size=7))
            found.append(ratios(pairs[-1]))
    assert np.max(found) <= 1 + 1e-9
    assert (np.max(found, axis=0) > 0.8).all()


def test_far_matrices_have_probabilities_like_those_of_the_fit():
    X, y, _ = drawn(8000)
    model = private(rank=1).fit(X, y)
    far = 1e6 * np.concatenate([X[:50], -X[:50]])
    largest = expit(model.score_bounds_[:, 0])
    likely = model.predict_proba(far)[:, 1]
    assert set(np.round(likely, 12)) <= set(np.round(largest, 12))
    scores = X.reshape(len(X), -1) @ model.coef_.ravel() + model.intercept_[0]
    low, high = model.score_bounds_[:, 0]
    # Of normal scores, .012 are 2.5 standard deviations off.
    assert np.mean((scores < low) | (scores > high)) < 0.02


def test_a_clear_fit_behind_a_scaler_gives_no_warning_of_its_columns():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(6000, 60))
    # Few records differ in the other columns, so that noise hides their scales.
    X[:, 20:] *= generator.random((6000, 40)) < 0.005
    y = (X[:, :20].sum(axis=1) > 0).astype(int)
    classifier = private(matrix_shape=(6, 10), random_state=None)
    model = make_dp_pipeline(DPStandardScaler(), classifier, epsilon=8.0)
    assert "third of the columns" not in warned_by(lambda: model.fit(X, y))
    assert "third of the columns" in warned_by(lambda: model.fit(X, generator.permutation(y)))
