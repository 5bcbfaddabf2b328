"""A TransformedTargetRegressor of public functions: as the last step, in searches, and outside."""

import math
import pickle
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from watched import farthest, replaying, watched

from skdp import (
    DPLinearRegression,
    DPPipeline,
    DPStandardScaler,
    DPTraceRegressor,
    RowBlocks,
    privacy_spent,
)
from skdp.data.people import People
from skdp.model_selection import DPGridSearch, private_score
from skdp.pipeline._composition import steps_of, with_target

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

SEED = 2**100 + 7
GENERATOR = np.random.default_rng(0)
X = GENERATOR.uniform(-1, 1, (300, 3))
Y = np.exp(1 + X[:, 0] + 0.1 * GENERATOR.standard_normal(300))
SCALER = DPStandardScaler(bounds=(-1, 1))
REGRESSION = DPLinearRegression(response_bound=3.0)


def target(regressor=REGRESSION, **more):
    functions = {"func": np.log1p, "inverse_func": np.expm1, **more}
    return TransformedTargetRegressor(regressor, **functions)


def pipeline(last, **more):
    return DPPipeline([("scale", SCALER), ("regress", last)], random_state=SEED, **more)


def test_it_is_the_fit_to_transformed_responses():
    model = pipeline(target()).fit(X, Y)
    plain = pipeline(REGRESSION).fit(X, np.log1p(Y))
    np.testing.assert_array_equal(model.predict(X), np.expm1(plain.predict(X)))
    last = model.named_steps["regress"]
    np.testing.assert_array_equal(last.regressor_.coef_, plain.named_steps["regress"].coef_)
    assert last.regressor_.privacy_spent_ == model.privacy_spent_ == privacy_spent(model).spent
    assert privacy_spent(model).is_private
    names = [one.name for one in model.privacy_spent_.releases if "regress" in one.name]
    assert names
    assert all(name.startswith("regress of log1p(y): ") for name in names)
    assert {*names} <= {one.name for one in model.plan(*X.shape).releases}
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert model.score(X, Y) == last.score(model[:-1].transform(X), Y)


def test_bounds_are_of_what_the_function_makes():
    exact = {"epsilon": math.inf, "response_bound": math.inf}
    model = pipeline(target(DPLinearRegression(response_bound=math.inf)), epsilon=math.inf)
    assert model.fit(X, Y).score(X, Y) > 0.9
    outside = target(DPLinearRegression(**exact), check_inverse=False).fit(X, Y)
    np.testing.assert_allclose(model.predict(X), outside.predict(X), rtol=1e-6)


SEARCHES = {
    "pipeline": (pipeline(target()), {"regress__regressor__response_bound": [1.0, 3.0]}),
    "bare": (target(), {"regressor__response_bound": [1.0, 3.0]}),
    "plain": (
        Pipeline([("scale", SCALER), ("regress", target(DPTraceRegressor(n_iter=2)))]),
        {"regress__regressor__n_iter": [1, 2], "scale__bounds": [(-1, 1)]},
    ),
    "functions": (
        pipeline(REGRESSION),
        {"regress": [target(), REGRESSION, target(func=np.sqrt, inverse_func=np.square)]},
    ),
}


def search_of(name, **more):
    estimator, grid = SEARCHES[name]
    if "random_state" in estimator.get_params(deep=False):
        estimator = clone(estimator).set_params(random_state=None)
    return DPGridSearch(estimator, grid, epsilon=4.0, delta=1e-5, random_state=SEED, **more)


@pytest.mark.parametrize("name", SEARCHES)
def test_searches_take_it(name, ledger):
    search = search_of(name, ledger=ledger).fit(X, Y)
    assert len(ledger.entries()) == 1
    report = privacy_spent(search)
    assert report.is_private
    assert report.spent == search.privacy_spent_
    assert search.predict(X).shape == Y.shape
    assert any(" of log1p(y): " in one.name for one in search.privacy_spent_.releases)
    for parameter, value in search.best_params_.items():
        found = search.best_estimator_.get_params()[parameter]
        assert found == value or type(found) is type(value)


LARGEST = [(np.full(3, 1e300), 1e300), (-X[0], -0.5), (np.zeros(3), 0.0)]


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHES)
def test_no_row_moves_a_release_further_than_declared(name):
    for row, response in LARGEST:
        if name == "functions":
            response = abs(response)
        rows, responses = X.copy(), Y.copy()
        rows[0], responses[0] = row, response
        moved = farthest(lambda *data: search_of(name).fit(*data), (X, Y), (rows, responses))
        assert moved <= 1 + 1e-12
    with watched() as before:
        one = search_of(name).fit(X, Y)
    with replaying(before):
        other = search_of(name).fit(rows, responses)
    assert one.best_index_ == other.best_index_
    np.testing.assert_array_equal(one.predict(X), other.predict(X))


def refusing(y):
    if not (np.abs(y + 0.5) > 1e-9).all() or np.abs(y).max() > 1e9:
        raise ValueError(f"{y}")
    return y


def centered(y):
    return y - np.mean(y)


REFUSED = [
    (target(transformer=StandardScaler(), func=None, inverse_func=None), "func and inverse_func"),
    (target(inverse_func=None), "func and inverse_func, plain functions"),
    (target(func=StandardScaler().fit(Y[:, np.newaxis]).transform), "plain functions"),
    (target(pipeline(REGRESSION)), "regression as the last step; or put it around the whole"),
    (target(DPLinearRegression(epsilon=2.0)), "'regress' must keep its default epsilon"),
    (target(DPLinearRegression(random_state=1)), "random_state must be None"),
    (target(func=np.log), "makes NaN or infinity of some responses"),
    (target(func=lambda y: np.hstack([y, y])), "several numbers of each"),
    (target(func=centered), "must map each row by itself"),
    (target(func=refusing), "whose text may show values"),
    (target(inverse_func=centered), "inverse_func' must map each row by itself"),
    (target(inverse_func=refusing), "inverse_func' raises ValueError"),
    (target(func=lambda y: y[:1]), "with a row for each|must return"),
]


@pytest.mark.parametrize(("last", "words"), REFUSED)
def test_what_is_not_public_or_not_finite_is_refused_before_anything_is_spent(last, words, ledger):
    responses = np.where(Y < 3, -0.5, Y)
    with pytest.raises(ValueError, match=words) as refused:
        pipeline(last, ledger=ledger).fit(X, responses)
    assert "-0.5" not in str(refused.value)
    assert ledger.entries() == []


@pytest.mark.parametrize("inverse", [centered, refusing])
def test_a_score_refuses_what_maps_predictions_back_together_before_it_is_paid(inverse, ledger):
    model = target(inverse_func=inverse, check_inverse=False).fit(X, Y)
    with pytest.raises(ValueError, match=r"inverse_func' (must map each row|raises)"):
        private_score(model, X, Y, ledger=ledger)
    assert ledger.entries() == []


def test_more_rows_of_one_person_do_not_round_responses_of_others():
    (step,) = steps_of(target(func=lambda y: y + 1e-12 * np.arange(len(y))[:, np.newaxis]))
    users = np.arange(300) % 100
    rows, ids = np.r_[Y[:1].repeat(7), Y], np.r_[np.zeros(7, int), users]
    _, before = with_target(step, X, Y, People.of(users, 100))
    _, after = with_target(step, X, rows, People.of(ids, 100))
    np.testing.assert_array_equal(before[users > 0], after[ids > 0])


def in_parts(y, kind, size=100):
    if kind == "dask":
        da = pytest.importorskip("dask.array")
        return da.from_array(X, chunks=(size, 3)), da.from_array(y, chunks=size)
    cuts = [slice(start, start + size) for start in range(0, 300, size)]
    loaders, targets = ([partial(values.__getitem__, one) for one in cuts] for values in (X, y))
    return (RowBlocks.from_partitions(loaders, [size] * len(cuts), 3, y=targets),)


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize(("kind", "size"), [("parts", 100), ("dask", 100), ("parts", 300)])
def test_responses_in_parts_are_transformed_as_in_memory(kind, size):
    parts, model = in_parts(Y, kind, size), pipeline(target()).fit(*in_parts(Y, kind, size))
    plain = pipeline(REGRESSION).fit(*in_parts(np.log1p(Y), "parts", size))
    coef = model.named_steps["regress"].regressor_.coef_
    np.testing.assert_array_equal(coef, plain.named_steps["regress"].coef_)
    np.testing.assert_array_equal(np.asarray(model.predict(parts[0])), model.predict(X))
    assert model.score(*parts) == pytest.approx(model.score(X, Y), rel=1e-9)
    scores = [private_score(model, *given, epsilon=math.inf).value for given in (parts, (X, Y))]
    assert scores[0] == pytest.approx(scores[1], rel=1e-9)
    assert privacy_spent(model).is_private


@pytest.mark.parametrize("kind", ["parts", "dask"])
def test_responses_in_parts_that_the_function_does_not_take_are_refused(kind, ledger):
    mixing, bad = target(func=lambda y: y - y.mean()), np.where(np.arange(300) == 207, -2.0, Y)
    with pytest.raises(ValueError, match=r"'regress': func of Trans.* NaN or infinity of some"):
        pipeline(target(), ledger=ledger).fit(*in_parts(bad, kind))
    with pytest.raises(ValueError, match="must map each row by itself"):
        pipeline(mixing, ledger=ledger).fit(*in_parts(Y, kind))
    assert ledger.entries() == []


def test_it_is_refused_elsewhere():
    with pytest.raises(ValueError, match="last"):
        DPPipeline([("a", target()), ("b", REGRESSION)]).fit(X, Y)
    with pytest.raises(ValueError, match="y"):
        pipeline(target()).fit(X)
