"""Attacks on whole searches and scores: all they release, replayed on neighboring rows."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, label_binarize
from watched import SEED, farthest, replaying, watched

from skdp import DPPCA, DPPipeline, DPTraceRegressor, DPTruncatedSVD, RankOneMatrices
from skdp.model_selection import DPGridSearch, private_score
from skdp.model_selection._score import SCORES, row_losses
from skdp.privacy import sensitivity

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((60, 4)) * [3, 2, 1, 1]
Y = X[:, 0] + GENERATOR.standard_normal(60)
PCA = DPPCA(row_norm=4.0, mean_norm=4.0)
REGRESSION = DPTraceRegressor(n_iter=3)
PUBLIC = GENERATOR.standard_normal((40, 2))
FOREST = FrozenEstimator(RandomForestRegressor(3, random_state=0).fit(PUBLIC, PUBLIC[:, 0]))
FEW = [1, 2]
PARTS = ColumnTransformer([("svd", DPTruncatedSVD(1), [0, 1])], remainder="passthrough")
SEARCHES = {
    "free": (PCA, {"n_components": [1, 2, 3], "whiten": [False, True]}, "log_likelihood"),
    "reconstruction": (DPTruncatedSVD(1, row_norm=4.0), {"n_components": [1, 2]}, None),
    "power": (DPPCA(1, solver="power"), {"n_components": [1, 2]}, None),
    "regression": (REGRESSION, {"n_iter": [1, 2]}, None),
    "absolute": (REGRESSION, {"clip_quantile": [0.3, 0.8]}, "neg_mean_absolute_error"),
    "bare pipeline": (
        make_pipeline(DPPCA(2), REGRESSION),
        {"dppca__whiten": [False, True], "dptraceregressor__n_iter": [2]},
        None,
    ),
    "norms": (make_pipeline(PCA, Normalizer(), REGRESSION), {"dppca__n_components": FEW}, None),
    "columns": (DPPipeline([("a", PARTS), ("b", REGRESSION)]), {"a__svd__row_norm": FEW}, None),
    "steps": (
        DPPipeline([("a", PCA), ("b", REGRESSION)]),
        [{"a": ["passthrough", DPTruncatedSVD(1, row_norm=4.0)]}, {"shares": [{"a": 0.4}]}],
        None,
    ),
    "back": (
        make_pipeline(FunctionTransformer(np.exp, np.log), DPTruncatedSVD(1)),
        {"dptruncatedsvd__n_components": [1, 2]},
        "reconstruction",
    ),
    "pipeline": (make_pipeline(Normalizer(), PCA, REGRESSION), {"dppca__n_components": FEW}, "r2"),
}
ROWS = {
    "huge": (np.full(4, 1e300), 1e300),
    "largest": (np.full(4, 1.7e308), -1.7e308),
    "opposite": (-X[0], -Y[0]),
    "large": (np.array([1e6, 0, 0, 0]), -1e6),
    "zero": (np.zeros(4), 0.0),
    "aligned": (X[1] * 50, Y[1] * 50),
}


def search_of(name, adjacency):
    estimator, grid, scoring = SEARCHES[name]
    named = (one for one in estimator.get_params() if one.endswith("adjacency"))
    estimator = clone(estimator).set_params(**dict.fromkeys(named, adjacency))
    return DPGridSearch(
        estimator, grid, epsilon=2.0, delta=1e-5, scoring=scoring, random_state=SEED
    )


def neighbors(row):
    rows, responses = X.copy(), Y.copy()
    rows[0], responses[0] = row
    return rows, responses


@pytest.mark.covered(at_most=4)
@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("name", SEARCHES)
def test_no_row_moves_a_search_further_than_declared(name, row):
    neighbor = neighbors(ROWS[row])
    movement = farthest(lambda *data: search_of(name, "replace").fit(*data), (X, Y), neighbor)
    assert movement <= 1 + 1e-12


@pytest.mark.covered(at_most=4)
@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SEARCHES)
def test_the_largest_rows_raise_nothing_and_warn_of_nothing(name, dtype):
    rows, responses = X.astype(dtype), Y.astype(dtype)
    for number in range(4):
        largest = np.finfo(dtype).max * (-1) ** number
        rows[number] = [largest, -largest, largest, largest]
        responses[number] = largest
    with np.errstate(all="warn"):
        search = search_of(name, "replace").fit(rows, responses)
    assert search.privacy_spent_.mu > 0
    last = search.best_estimator_
    last = last.steps[-1][1] if hasattr(last, "steps") else last
    for value in vars(last).values():
        assert not isinstance(value, np.ndarray) or np.isfinite(value).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_score_of_the_largest_rows_raises_nothing(dtype):
    rows = X.astype(dtype)
    models = [DPTruncatedSVD(2).fit(rows), DPPCA(2, whiten=True).fit(rows)]
    models += [make_pipeline(models[1], FOREST), RandomForestRegressor(3).fit(rows, Y)]
    rows[0] = np.finfo(dtype).max
    for model in models:
        assert np.isfinite(private_score(model, rows, Y).value)


def refused(rows):
    raise ValueError(rows)


def test_no_inverse_of_a_public_step_is_called_behind_private_ones():
    step = FunctionTransformer(np.tanh, refused, check_inverse=False)
    pipeline = make_pipeline(step, DPTruncatedSVD(1, row_norm=2.0))
    grid = {"dptruncatedsvd__n_components": [1, 2]}
    search = DPGridSearch(pipeline, grid, scoring="reconstruction").fit(X)
    losses = row_losses(SCORES["reconstruction"], search.best_estimator_, X, None)
    svd = search.best_estimator_[-1]
    apart = np.tanh(X) - svd.inverse_transform(svd.transform(np.tanh(X)))
    np.testing.assert_allclose(losses, np.square(apart).sum(axis=1), rtol=1e-9)


@pytest.mark.covered(at_most=3)
@pytest.mark.parametrize("name", SEARCHES)
def test_what_is_published_follows_what_is_released(name):
    with watched() as before:
        one = search_of(name, "replace").fit(X, Y)
    for rows in ((X * 1e3 + 5, -Y), (np.zeros_like(X), np.zeros_like(Y))):
        with replaying(before):
            spent = search_of(name, "replace").fit(*rows).privacy_spent_
        for found, given in zip(spent.releases, one.privacy_spent_.releases, strict=True):
            assert (found.name, found.share) == (given.name, given.share)
    with replaying(before):
        other = search_of(name, "replace").fit(*neighbors(ROWS["large"]))
    assert one.best_params_ == other.best_params_
    assert one.privacy_spent_ == other.privacy_spent_
    assert vars(one).keys() == vars(other).keys()
    assert one._warnings_given == other._warnings_given
    assert set(vars(one)) == {
        *one.get_params(deep=False),
        *(
            "_n_units",
            "_warnings_given",
            "best_estimator_",
            "best_index_",
            "best_params_",
            "cv_results_",
        ),
        *("n_distinct_fits_", "n_features_in_", "privacy_spent_"),
    }
    last = one.best_estimator_, other.best_estimator_
    steps = [model.steps[-1][1] if hasattr(model, "steps") else model for model in last]
    for attribute, value in vars(steps[0]).items():
        if attribute.endswith("_") and isinstance(value, np.ndarray | float):
            np.testing.assert_array_equal(value, getattr(steps[1], attribute))


CLASSES = np.where(Y > 2, "many", np.where(Y > 0, "few", "none"))
CLASSIFIER = RandomForestClassifier(3, random_state=0)


def judged(scoring):
    """Return a fitted model that has the score, and responses for it."""
    if SCORES[scoring].of_two:
        return clone(CLASSIFIER).fit(X, CLASSES == "few"), CLASSES == "few"
    if SCORES[scoring].of_classes:
        return clone(CLASSIFIER).fit(X, CLASSES), CLASSES
    if scoring in ("log_likelihood", "reconstruction"):
        return DPPCA(2, row_norm=4.0, mean_norm=4.0, random_state=SEED).fit(X), Y
    return DPTraceRegressor(random_state=SEED).fit(X, Y), Y


def judged_neighbors(scoring, y):
    """Exchange the first row and its response, for one of another class, or of none."""
    for number, row in enumerate(ROWS.values()):
        rows, responses = neighbors(row)
        if SCORES[scoring].of_classes:
            responses = y.astype(float if y.dtype == bool else object)
            others = [True, False] * 2 if y.dtype == bool else ["many", "few", "none", "another"]
            responses[0] = others[number % 4]
        yield rows, responses


@pytest.mark.parametrize("scoring", SCORES)
def test_a_row_is_judged_by_itself(scoring):
    model, y = judged(scoring)
    before = row_losses(SCORES[scoring], model, X, y)
    for rows, responses in judged_neighbors(scoring, y):
        after = row_losses(SCORES[scoring], model, rows, responses)
        np.testing.assert_array_equal(before[1:], after[1:])
        assert np.isfinite(after).all()
        if SCORES[scoring].is_bounded:
            assert after.min() >= 0
            assert after.max() <= 1


NAMES = [name for name in SCORES if name != "r2"]


def movement_of(model, data, *neighbors, **settings):
    """Tell how far a score moves from data to neighbors."""
    return farthest(lambda *one: private_score(model, *one, **settings), data, *neighbors)


@pytest.mark.parametrize("scoring", NAMES)
def test_no_row_moves_a_score_further_than_declared(scoring):
    model, y = judged(scoring)
    settings = {"scoring": scoring, "random_state": SEED}
    assert movement_of(model, (X, y), *judged_neighbors(scoring, y), **settings) <= 1


@pytest.mark.parametrize("scoring", ["neg_mean_squared_error", "neg_mean_absolute_error"])
def test_no_null_row_moves_a_score_further_than_declared(scoring):
    model = DPTraceRegressor(random_state=SEED).fit(X, Y)
    rows, responses = neighbors(ROWS["zero"])
    # A null row takes part in no sum: as one that is predicted exactly.
    responses[0] = model.predict(rows[:1])[0]
    settings = {"scoring": scoring, "adjacency": "zero_out", "random_state": SEED}
    assert movement_of(model, (X, Y), (rows, responses), **settings) <= 1


class Signed(BaseEstimator):
    """Log-likelihoods that one row moves as far as a level allows: from one end to the other."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def score_samples(self, rows):
        return rows[:, 0]


def test_one_number_for_all_rows_is_no_score_of_each():
    model = Signed().fit(X)
    model.score_samples = np.sum
    with pytest.raises(ValueError, match="zero-dimensional"):
        private_score(model, X, scoring="log_likelihood")


@pytest.mark.parametrize("is_too_small", [False, True])
def test_too_small_a_sensitivity_of_a_score_is_noticed(is_too_small, monkeypatch):
    if is_too_small:
        monkeypatch.setattr(sensitivity, "response_sum", lambda *given: 1.0)
    model, ends = Signed().fit(X), [neighbors((np.full(4, size), 0.0))[0] for size in (9e9, -9e9)]
    movement = movement_of(model, *((rows,) for rows in ends), random_state=SEED)
    assert (movement > 1) == is_too_small


def test_losses_are_those_of_scikit_learn():
    model = clone(CLASSIFIER).set_params(max_depth=2).fit(X[:30], CLASSES[:30])
    shares = np.maximum(model.predict_proba(X), np.finfo(float).eps)
    expected = {
        "accuracy": 1 - model.score(X, CLASSES),
        "neg_log_loss": log_loss(CLASSES, shares),
        "neg_brier_score": np.square(shares - label_binarize(CLASSES, classes=model.classes_))
        .sum(axis=1)
        .mean()
        / 2,
    }
    for name, loss in expected.items():
        assert row_losses(SCORES[name], model, X, CLASSES).mean() == pytest.approx(loss, rel=1e-9)


def test_no_refused_row_moves_an_accuracy_further_than_declared():
    rows = np.random.default_rng(0).lognormal(size=(40, 3))
    labels = rows[:, 0] > rows[:, 1]
    model = RandomForestClassifier(3, random_state=0).fit(rows / 30, labels)
    # More than a forest takes, which works in float32.
    odd = np.vstack([rows[:-1], [2e39, 0.0, 0.0]])
    assert movement_of(model, (rows, labels), (odd, labels), random_state=SEED) <= 1


LEFT, RIGHT = GENERATOR.standard_normal((60, 4)), GENERATOR.standard_normal((60, 3))
MATRICES = {
    "dense": RankOneMatrices(LEFT, RIGHT),
    "sparse": RankOneMatrices(csr_array(LEFT), csr_array(RIGHT.astype(np.float32))),
    "cells": RankOneMatrices.from_indices([0, 1] * 30, [0, 1, 2] * 20, (2, 3)),
}
PRODUCTS = LEFT[:, 0] * RIGHT[:, 0]


@pytest.mark.parametrize("name", MATRICES)
def test_matrices_of_rank_one_are_searched_and_scored(name):
    rows = MATRICES[name]
    search = DPGridSearch(DPTraceRegressor(), {"rank": [1, 2]}).fit(rows, PRODUCTS)
    assert search.best_params_["rank"] in (1, 2)
    assert np.isfinite(private_score(search.best_estimator_, rows, PRODUCTS).value)
