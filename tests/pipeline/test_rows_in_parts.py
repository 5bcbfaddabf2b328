"""Pipelines of rows in parts: the same fits as of arrays, and nothing of the rows is kept."""

import math
import pickle
from functools import partial

import numpy as np
import pytest
from in_parts import in_parts, stacked
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import Binarizer, FunctionTransformer, Normalizer, StandardScaler

import skdp
from skdp.model_selection import DPGridSearch
from skdp.units import Entry

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

N, D = 400, 5
X = np.random.default_rng(0).normal(size=(N, D)) * [5, 3, 1, 1, 1] + [2, 0, 0, 0, 0]
ENDS = (-20.0, 20.0)
SCALER, PCA = skdp.DPStandardScaler(bounds=ENDS), skdp.DPPCA(2, row_norm=5.0, mean_norm=5.0)
FROZEN = FrozenEstimator(StandardScaler().fit(X[:50]))
IMPUTER = SimpleImputer(strategy="constant", fill_value=1.0, keep_empty_features=True)


STEPS = {
    "one": (PCA,),
    "two": (SCALER, PCA),
    "found": (skdp.DPStandardScaler(), skdp.DPPCA(2)),
    "public first": (Normalizer(), SCALER, PCA),
    "public between": (SCALER, Normalizer(), PCA),
    "public last": (FROZEN, FunctionTransformer(np.tanh), IMPUTER, PCA, Normalizer()),
    "passthrough": ("passthrough", skdp.DPTruncatedSVD(2, row_norm=5.0), "passthrough"),
}


def pipeline_of(name, **more):
    return skdp.make_dp_pipeline(
        *(one if isinstance(one, str) else clone(one) for one in STEPS[name]), **more
    )


@pytest.mark.parametrize("name", STEPS)
def test_parts_are_fitted_and_transformed_as_an_array_is(name):
    rows = in_parts(X, y=np.arange(N))
    fitted, expected = (pipeline_of(name, epsilon=math.inf).fit(one) for one in (rows, X))
    made = fitted.transform(rows)
    assert made.shape == (N, 2)
    signs = np.sign(np.sum(stacked(made) * expected.transform(X), axis=0))
    np.testing.assert_allclose(stacked(made), signs * expected.transform(X), atol=1e-7)
    assert made.y[slice(1, 2)] == 1
    assert len(pickle.dumps(made.function)) < 4000


@pytest.mark.parametrize(
    ("last", "y"),
    [
        (skdp.DPLogisticRegression(classes=["no", "yes"]), np.where(X[:, 0] > 2, "yes", "no")),
        (skdp.DPLogisticRegression(), np.where(X[:, 0] > 2, 3, 1)),
        (skdp.DPLinearRegression(), X[:, 0] - X[:, 1]),
    ],
    ids=str,
)
def test_the_last_step_may_predict(last, y, tmp_path):
    steps, rows = (clone(SCALER), Normalizer(), clone(last)), in_parts(X, y)
    fitted = skdp.make_dp_pipeline(*steps, epsilon=1e5).fit(rows)
    fitted.predict(rows).to_npy(tmp_path / "predicted.npy")
    expected = fitted.predict(X)
    predicted = np.load(tmp_path / "predicted.npy")
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(predicted, expected, atol=1e-9)
    else:
        np.testing.assert_array_equal(predicted, expected)
        assert fitted.predict_proba(rows).shape == (N, 2)
    assert fitted.score(rows) == pytest.approx(fitted.score(X, y), rel=1e-9)
    assert fitted.score(rows) > 0.8


def test_components_score_rows_in_parts():
    rows, fitted = in_parts(X), pipeline_of("public between", epsilon=1e4).fit(X)
    assert fitted.score(rows) == pytest.approx(fitted.score(X), rel=1e-9)
    np.testing.assert_allclose(
        np.concatenate(list(fitted.score_samples(rows))), fitted.score_samples(X)
    )
    stream = skdp.RowBlocks(lambda: iter(np.array_split(X, 3)), X.shape)
    np.testing.assert_allclose(stacked(fitted.transform(stream)), fitted.transform(X), atol=1e-12)


@pytest.mark.parametrize("name", ["one", "two"])
def test_what_was_transformed_is_taken_back(name):
    fitted = pipeline_of(name, epsilon=1e4).fit(X)
    expected = fitted.inverse_transform(fitted.transform(X))
    for rows in (in_parts(X), skdp.RowBlocks(lambda: iter(np.array_split(X, 3)), X.shape)):
        back = fitted.inverse_transform(fitted.transform(rows))
        np.testing.assert_allclose(stacked(back), expected, atol=1e-9)
    with pytest.raises(ValueError, match="5 columns, where 2"):
        fitted.inverse_transform(in_parts(X))


def bad_target(y, value):
    y = y.copy()
    y[200] = value
    return y


@pytest.mark.parametrize(
    ("last", "y", "text"),
    [
        (skdp.DPLogisticRegression(classes=[0, 1]), bad_target(np.arange(N) % 2, 2), "not named"),
        (skdp.DPLogisticRegression(classes=[0, 1]), None, "from_partitions"),
        (skdp.DPLinearRegression(), bad_target(X[:, 0], np.nan), "y contains NaN"),
    ],
)
def test_bad_targets_are_refused_before_the_first_step_spends(last, y, text, no_budget):
    with pytest.raises(ValueError, match=text):
        skdp.make_dp_pipeline(clone(SCALER), clone(last)).fit(in_parts(X, y))


def test_sparse_parts_stay_sparse_and_results_have_the_type_of_the_parts():
    steps = (
        Binarizer(),
        skdp.DPStandardScaler(bounds=ENDS, with_mean=False),
        skdp.DPTruncatedSVD(2, row_norm=9),
    )
    for contain in (csr_array, np.asarray):
        rows = in_parts(contain(X.astype(np.float32)))
        fitted = skdp.make_dp_pipeline(*steps, epsilon=math.inf).fit(rows)
        expected = skdp.make_dp_pipeline(*steps, epsilon=math.inf).fit(
            contain(X.astype(np.float32))
        )
        for block, other in zip(fitted[:2].transform(X), expected[:2].transform(X), strict=True):
            np.testing.assert_allclose(block, other, rtol=1e-5)
        made = fitted.transform(rows)
        assert {block.dtype for block in made} == {np.dtype(np.float32)}
        np.testing.assert_allclose(abs(stacked(made)), abs(expected.transform(X)), atol=1e-4)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("seed", [None, 2**100])
def test_each_step_reads_as_often_as_alone(n_jobs, seed):
    loads = []

    def load(part):
        loads.append(part)
        return X[part * 100 : part * 100 + 100]

    rows = skdp.RowBlocks.from_partitions([partial(load, part) for part in range(4)], [100] * 4, D)
    assert not rows.is_sparse
    loads.clear()
    steps = clone(SCALER).set_params(n_jobs=n_jobs), Normalizer(), clone(PCA)
    skdp.make_dp_pipeline(*steps, random_state=seed).fit(rows)
    # The scaler opens the rows, and sums moments twice within its bounds; the components come from
    # an opening and a moment.
    assert sorted(loads) == sorted([0, 1, 2, 3] * 5)


def spoiled(value):
    rows = X.copy()
    rows[[0, 200], 1] = value
    return rows


@pytest.mark.parametrize(
    ("steps", "rows", "text"),
    [
        ((SCALER, PCA), in_parts(spoiled(np.nan)), "NaN"),
        ((Normalizer(), SCALER, PCA), in_parts(spoiled(np.inf)), "infinity"),
        (
            (FunctionTransformer(lambda rows: rows - rows.mean(axis=0)), PCA),
            in_parts(X),
            "by itself",
        ),
        ((FunctionTransformer(np.emath.sqrt), PCA), in_parts(X), "real numbers"),
        ((PCA, FROZEN, SCALER), in_parts(X), "before the first private step"),
        ((FunctionTransformer(lambda rows: 1 / 0), PCA), in_parts(X), "division"),
        ((FunctionTransformer(lambda rows: rows.astype(str)), PCA), in_parts(X), "real numbers"),
        ((FunctionTransformer(np.ravel), PCA), in_parts(X), "a row for each"),
        ((SCALER, PCA), skdp.RowBlocks(lambda: [X], X.shape), "one stream"),
        ((SCALER, skdp.DPPCA(9)), in_parts(X), "n_components=9"),
        ((skdp.DPPCA(2, privacy_unit=Entry((0, 1))),), in_parts(X), "entry"),
        ((SCALER, skdp.DPLogisticRegression(classes=[0, 1])), in_parts(X), "from_partitions"),
        ((SCALER,), in_parts(csr_array(X)), "with_mean"),
    ],
)
def test_what_cannot_be_fitted_is_refused_before_anything_is_spent(steps, rows, text, no_budget):
    with pytest.raises(ValueError, match=text):
        skdp.make_dp_pipeline(*map(clone, steps)).fit(rows)


def test_searches_need_rows_in_memory(no_budget):
    grid = {"dppca__n_components": [1, 2]}
    with pytest.raises(ValueError, match="DPGridSearch does not take"):
        DPGridSearch(pipeline_of("two"), grid).fit(in_parts(X))
    with pytest.raises(TypeError, match="not in memory"):
        GridSearchCV(pipeline_of("two"), grid, cv=2).fit(in_parts(X))


def test_missing_numbers_may_be_filled_by_a_public_step():
    rows = spoiled(np.nan)
    fitted, other = (
        skdp.make_dp_pipeline(clone(IMPUTER), clone(SCALER), epsilon=math.inf).fit(one)
        for one in (in_parts(rows), rows)
    )
    np.testing.assert_allclose(fitted[1].mean_, other[1].mean_, rtol=1e-12)
    np.testing.assert_allclose(stacked(fitted.transform(in_parts(rows))), other.transform(rows))


@pytest.mark.covered(at_most=3)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["found", "public first", "public between"])
def test_rows_that_are_not_finite_later_raise_nothing(name, bad):
    n_loads = []

    def load(rows):
        n_loads.append(1)
        rows = rows.copy()
        if len(n_loads) > 5:
            rows[0, 1] = bad
        return rows

    loaders = [partial(load, part) for part in np.array_split(X, [1, 200])]
    rows = skdp.RowBlocks.from_partitions(loaders, [1, 199, 200], D)
    fitted = pipeline_of(name).fit(rows)
    assert np.isfinite(fitted[-1].components_).all()
    with pytest.raises(ValueError, match="NaN or infinity"):
        list(fitted.transform(rows))
