"""One row changes neither the form of what steps and scores return, nor what others get."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import coo_array, csr_array, issparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder
from watched import SEED, moved, watched

from skdp import (
    DPPCA,
    DPStandardScaler,
    DPTraceRegressor,
    RankOneMatrices,
    make_dp_pipeline,
)
from skdp.model_selection import DPGridSearch, private_score
from skdp.pipeline._public_rows import stand_ins
from skdp.pipeline._public_steps import fitted_to_nothing, transformed
from skdp.privacy import PrivacyBudget

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

GENERATOR = np.random.default_rng(0)
X = np.abs(GENERATOR.standard_normal((40, 3))) + 0.1
Y = X[:, 0] + 0.1 * GENERATOR.standard_normal(40)
ODD = 7
WITH_ODD = X.copy()
WITH_ODD[ODD, 1] = -2.0
NAMES = ["a", "b", "c"]
CONTAINERS = {
    "array": np.copy,
    "single": lambda rows: rows.astype(np.float32),
    "objects": lambda rows: rows.astype(object),
    "list": lambda rows: rows.tolist(),
    "csr": csr_array,
    "single csr": lambda rows: csr_array(rows.astype(np.float32)),
    "csc": lambda rows: csr_array(rows).tocsc(),
    "coo": coo_array,
    "pandas": lambda rows: pd.DataFrame(rows, columns=NAMES, index=range(5, 45)),
    "polars": lambda rows: pl.DataFrame(rows, schema=NAMES),
}


def has_odd(rows):
    return (np.asarray(rows) < 0).any(axis=1)


def all_if_odd(rows, converted, *more):
    return converted(rows, *more) if has_odd(rows).any() else rows


def with_wrong_indices(rows):
    return csr_array((np.ones(3), [0, 9999, 1], [0] + [3] * len(rows)), shape=rows.shape)


class Secret:
    def __float__(self):
        raise RuntimeError("secret")

    __array__ = __len__ = __repr__ = __float__


def with_object(rows):
    made = rows.astype(object)
    made[has_odd(rows)] = Secret()
    return made


# What is made of the odd row, or of all rows where one is odd.
FUNCTIONS = {
    "complex": (np.emath.sqrt, 0.0),
    "objects": (lambda rows: all_if_odd(rows, with_object), 0.0),
    "texts": (lambda rows: all_if_odd(rows, np.ndarray.astype, str), 0.0),
    "list": (lambda rows: all_if_odd(rows, lambda odd: [[1.0]] * len(odd)), 0.0),
    "dropped": (lambda rows: rows[~has_odd(rows)], 0.0),
    "flat": (lambda rows: all_if_odd(rows, np.ravel), 0.0),
    "number": (lambda rows: all_if_odd(rows, np.sum), 0.0),
    "wrong indices": (lambda rows: all_if_odd(rows, with_wrong_indices), 0.0),
    "sparse": (lambda rows: all_if_odd(rows, csr_array), WITH_ODD[ODD]),
    "frame": (lambda rows: all_if_odd(rows, pd.DataFrame), WITH_ODD[ODD]),
    "narrow": (lambda rows: all_if_odd(rows, np.float16), np.float16(WITH_ODD[ODD])),
    "wide": (
        lambda rows: all_if_odd(rows.astype(np.float32), np.float64),
        np.float32(WITH_ODD[ODD]),
    ),
    "fractions": (lambda rows: all_if_odd(rows.astype(int), lambda odd: odd + 0.5), 0),
}


def sent(step, rows):
    """Send rows through a step that learns nothing, with every warning an error."""
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        if type(step) is not FrozenEstimator:
            step = fitted_to_nothing("step", clone(step), rows)
        return transformed([("step", step)], rows)


def check_only_the_odd_row_differs(before, after):
    for facts in ("shape", "dtype"):
        assert getattr(before, facts) == getattr(after, facts)
    assert type(before) is type(after)
    before, after = (one.toarray() if issparse(one) else one for one in (before, after))
    np.testing.assert_array_equal(np.delete(before, ODD, axis=0), np.delete(after, ODD, axis=0))
    return after[ODD]


@pytest.mark.covered(at_most=4)
@pytest.mark.parametrize("container", CONTAINERS)
def test_a_refused_row_is_zero_and_changes_no_form(container):
    made, step = CONTAINERS[container], AdditiveChi2Sampler()
    odd = check_only_the_odd_row_differs(sent(step, made(X)), sent(step, made(WITH_ODD)))
    assert (odd == 0).all()


@pytest.mark.covered
@pytest.mark.parametrize("output", ["default", "pandas"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_row_that_gets_something_else_changes_no_form(name, output):
    function, expected = FUNCTIONS[name]
    step = FunctionTransformer(function)
    with config_context(transform_output=output):
        odd = check_only_the_odd_row_differs(sent(step, X), sent(step, WITH_ODD))
    np.testing.assert_array_equal(odd, np.broadcast_to(expected, odd.shape))


REFUSED = {
    "list": (np.ndarray.tolist, "list"),
    "frame": (pd.DataFrame, "DataFrame"),
    "series": (lambda rows: pd.Series(rows[:, 0]), "Series"),
    "masked": (np.ma.masked_array, "MaskedArray"),
    "complex": (lambda rows: rows * 1j, "complex128"),
    "objects": (lambda rows: rows.astype(object), "object"),
    "texts": (lambda rows: rows.astype(str), "<U32"),
    "1-D": (lambda rows: rows[:, 0], r"shape \(2,\)"),
    "3-D": (lambda rows: rows[:, :, np.newaxis], r"shape \(2, 3, 1\)"),
    "transposed": (np.transpose, r"shape \(3, 2\)"),
    "complex sparse": (lambda rows: csr_array(rows * 1j), "complex128"),
    "number": (np.sum, "float64"),
    "nothing": (lambda rows: None, "NoneType"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_step_that_makes_no_array_of_real_numbers_is_refused_before_anything_is_spent(
    name, monkeypatch
):
    monkeypatch.setattr(PrivacyBudget, "of", lambda *_: pytest.fail("a budget was opened"))
    function, given = REFUSED[name]
    step, scaler = FunctionTransformer(function), DPStandardScaler()
    told = f"^Step 'functiontransformer' must return a 2-D array or a sparse matrix.*{given}"
    for steps in ((step, scaler), (scaler, step, DPPCA(2))):
        with pytest.raises(ValueError, match=told):
            make_dp_pipeline(*steps).fit(X)
    with pytest.raises(ValueError, match=told):
        DPGridSearch(make_pipeline(step, DPPCA(2)), {"dppca__whiten": [True, False]}).fit(X)


def test_a_step_that_returns_frames_is_refused_before_anything_is_spent(monkeypatch):
    monkeypatch.setattr(PrivacyBudget, "of", lambda *_: pytest.fail("a budget was opened"))
    for first in (DPStandardScaler(), Normalizer()):
        first.set_output(transform="pandas")
        with pytest.raises(ValueError, match=r"returns data frames.*set_output"):
            make_dp_pipeline(first, DPPCA(2)).fit(X)
    with pytest.raises(ValueError, match=r"got DataFrame.*validate=True"):
        make_dp_pipeline(FunctionTransformer(), DPPCA(2)).fit(pd.DataFrame(X))
    frame = pd.DataFrame(X, columns=NAMES)
    pipeline = make_dp_pipeline(FunctionTransformer(validate=True), DPPCA(2))
    monkeypatch.undo()
    pipeline[-1].set_output(transform="pandas")
    assert list(pipeline.fit(frame).transform(frame)) == ["dppca0", "dppca1"]


@pytest.mark.parametrize("dtype", [np.float32, int, np.float64])
def test_what_refuses_all_public_rows_makes_one_type(dtype):
    texts = np.array([["yes" if row[0] > 1 else "no"] for row in X], dtype=object)
    codes = OneHotEncoder(sparse_output=False, dtype=dtype).fit([["no"], ["yes"]])
    assert sent(FrozenEstimator(codes), texts).dtype == np.float64
    for made in (np.asarray, np.ravel, lambda rows: np.ones((len(rows) - 1, 2))):
        step = FunctionTransformer(lambda rows, made=made: made(rows) if "no" in rows else 1 / 0)
        with pytest.raises(ValueError, match="must return a 2-D array"):
            sent(FrozenEstimator(step), texts)


TEXTS = [f"one {number} two {number % 7}" for number in range(40)]
OF_TEXTS = {
    "counts": CountVectorizer(vocabulary=["one", "two", "3"]),
    "hashes": HashingVectorizer(n_features=16, alternate_sign=False),
    "frozen": FrozenEstimator(TfidfVectorizer().fit(["one two", "two 3"])),
}
HOLDERS = {
    "list": list,
    "objects": lambda texts: np.array(texts, dtype=object),
    "series": lambda texts: pd.Series(texts, dtype=object),
}


def with_text(texts, one):
    return [one if number == ODD else text for number, text in enumerate(texts)]


@pytest.mark.covered(at_most=4)
@pytest.mark.parametrize("holder", [*HOLDERS, "pandas"])
@pytest.mark.parametrize("name", OF_TEXTS)
def test_a_text_that_is_refused_is_a_row_of_zeros(name, holder):
    step, made = OF_TEXTS[name], {**HOLDERS, "pandas": pd.Series}[holder]
    before = sent(step, made(TEXTS))
    assert before.sum() > 0
    for one in (None, np.nan, b"\xff", 1.0, 10**400, [], {}, ("one",)):
        odd = check_only_the_odd_row_differs(before, sent(step, made(with_text(TEXTS, one))))
        assert (odd == 0).all()


@pytest.mark.covered(at_most=6)
@pytest.mark.parametrize("others", [None, 1.0, "7", "nan"])
@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("name", OF_TEXTS)
def test_one_text_does_not_decide_whether_the_others_are_some(name, holder, others):
    step, made, rows = OF_TEXTS[name], HOLDERS[holder], [others] * 40
    results = [sent(step, made(with_text(rows, one))) for one in ("one two", others, None)]
    for result in results[1:]:
        check_only_the_odd_row_differs(results[0], result)
    assert results[0][[ODD]].sum() > 0


def test_refused_texts_are_not_all_in_memory_as_dense_rows():
    step = HashingVectorizer()
    tracemalloc.start()
    made = sent(step, [None] * 30 + TEXTS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert made[:30].nnz == 0
    assert peak < 30 * 8 * step.n_features / 2


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("container", ["single", "single csr"])
def test_what_a_search_publishes_has_the_type_that_public_rows_give(container):
    found = []
    for rows in (X, WITH_ODD):
        pca = DPPCA(2, row_norm=2.0, mean_norm=2.0)
        pipeline = make_pipeline(AdditiveChi2Sampler(), pca)
        search = DPGridSearch(pipeline, {"dppca__whiten": [False, True]})
        found.append(search.fit(CONTAINERS[container](rows)).best_estimator_[-1].components_.dtype)
    assert found == [np.float32, np.float32]


LARGE = X * 30
LABELS = (X[:, 0] > X[:, 1]).astype(int)
# More than a forest takes, which works in float32.
TOO_LARGE = LARGE.copy()
TOO_LARGE[ODD] = [2e39, 0.0, 0.0]


def test_no_refused_row_moves_an_accuracy_further_than_declared():
    model = RandomForestClassifier(3, random_state=0).fit(X, LABELS)
    with watched() as before:
        private_score(model, LARGE, LABELS, random_state=SEED)
    with watched([budget.released for budget in before]) as after:
        private_score(model, TOO_LARGE, LABELS, random_state=SEED)
    assert max(moved(before, after)) <= 1


# ------------------------------
# Public rows in the place of private ones: of every container, and telling nothing of it.

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


def test_the_width_of_texts_changes_no_public_row():
    made = [[rows.tolist() for rows in stand_ins(np.array([text] * 4))] for text in ("1", "12345")]
    assert made[0] == made[1]
