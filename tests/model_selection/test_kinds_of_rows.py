"""One row changes neither the kind of what steps and scores return, nor what others get."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import coo_array, csr_array, issparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder
from watched import SEED, moved, watched

from skdp import DPPCA, DPTraceRegressor, PrivacyLedger, PrivacyWarning
from skdp.model_selection import DPGridSearch, private_score
from skdp.model_selection._score import row_losses
from skdp.pipeline._public_steps import fitted_to_nothing, transformed

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


def in_objects(rows, odd):
    made = rows.astype(object)
    for row in np.flatnonzero(has_odd(rows)):
        for column in range(rows.shape[1]):
            made[row, column] = odd
    return made


def in_list(rows, odd):
    return [odd if bad else list(row) for row, bad in zip(rows, has_odd(rows), strict=True)]


def all_if_odd(rows, converted):
    return converted(rows) if has_odd(rows).any() else rows


def with_wrong_indices(rows):
    return csr_array((np.ones(3), [0, 9999, 1], [0] + [3] * len(rows)), shape=rows.shape)


class Secret:
    def __float__(self):
        raise RuntimeError("secret")

    __array__ = __len__ = __repr__ = __float__


# With what is made of the odd row, which is made of it alone.
FUNCTIONS = {
    "complex": (np.emath.sqrt, [None, 0.0, None]),
    "logarithm": (np.emath.log, [None, np.log(2.0), None]),
    "real part": (lambda rows: in_objects(rows, 2 + 3j), 2.0),
    "text": (lambda rows: in_objects(rows, "secret"), 0.0),
    "text of a number": (lambda rows: in_objects(rows, "1.5"), 1.5),
    "texts": (lambda rows: np.array(in_list(rows, ["secret"] * 3)), 0.0),
    "nothing": (lambda rows: in_objects(rows, None), 0.0),
    "object": (lambda rows: in_objects(rows, Secret()), 0.0),
    "integer": (lambda rows: in_objects(rows, 10**400), 0.0),
    "short": (lambda rows: in_list(rows, [1.0]), 0.0),
    "no row": (lambda rows: in_list(rows, 1.0), 0.0),
    "dropped": (lambda rows: rows[~has_odd(rows)], 0.0),
    "sparse": (lambda rows: all_if_odd(rows, csr_array), WITH_ODD[ODD]),
    "frame": (lambda rows: all_if_odd(rows, pd.DataFrame), WITH_ODD[ODD]),
    "narrow": (lambda rows: all_if_odd(rows, np.float16), np.float16(WITH_ODD[ODD])),
    "flat": (lambda rows: all_if_odd(rows, np.ravel), 0.0),
    "number": (lambda rows: all_if_odd(rows, np.sum), 0.0),
    "masked": (lambda rows: np.ma.masked_less(rows, 0), [None, 0.0, None]),
    "wrong indices": (lambda rows: all_if_odd(rows, with_wrong_indices), 0.0),
}


def sent(step, rows):
    """Send rows through a step that learns nothing, with every warning an error."""
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        if type(step) is not FrozenEstimator:
            step = fitted_to_nothing("step", clone(step), rows)
        return transformed([("step", step)], rows)


def kind(result):
    if hasattr(result, "columns"):
        return type(result), list(result.columns), list(result.dtypes), list(result.index)
    return type(result), result.dtype, result.shape


def dense(result):
    return result.toarray() if issparse(result) else np.asarray(result)


def check_only_the_odd_row_differs(before, after):
    assert kind(before) == kind(after)
    before, after = dense(before), dense(after)
    np.testing.assert_array_equal(np.delete(before, ODD, axis=0), np.delete(after, ODD, axis=0))
    return after[ODD]


@pytest.mark.covered(at_most=8)
@pytest.mark.parametrize(
    ("container", "output"),
    [(name, "default") for name in CONTAINERS]
    # scikit-learn makes no frames of sparse results.
    + [(name, "pandas") for name in ("array", "single", "list", "pandas", "polars")],
)
def test_a_refused_row_is_zero_and_changes_no_kind(container, output):
    made = CONTAINERS[container]
    step = AdditiveChi2Sampler().set_output(transform=output)
    odd = check_only_the_odd_row_differs(sent(step, made(X)), sent(step, made(WITH_ODD)))
    assert (odd == 0).all()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_row_that_gets_something_else_changes_no_kind(name):
    function, expected = FUNCTIONS[name]
    step = FunctionTransformer(function)
    odd = check_only_the_odd_row_differs(sent(step, X), sent(step, WITH_ODD))
    for found, one in zip(odd, np.broadcast_to(expected, odd.shape), strict=True):
        assert np.isfinite(found)
        assert one is None or found == one


def test_a_frame_keeps_its_names_and_types():
    def made(rows):
        frame = pd.DataFrame({"a": rows[:, 0].astype(np.float32), "b": rows[:, 1] > 1, "c": 3})
        return frame.astype({"a": complex}).iloc[:, ::-1] if has_odd(rows).any() else frame

    step = FunctionTransformer(made)
    before = sent(step, X)
    assert list(before.dtypes) == [np.float64, bool, np.int64]
    check_only_the_odd_row_differs(before, sent(step, WITH_ODD))


def test_complex_results_are_their_real_parts_for_all_rows():
    found = sent(FunctionTransformer(np.fft.fft), X)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, np.fft.fft(X).real)


def test_texts_that_are_made_of_numbers_stay_texts():
    def worded(rows):
        return [
            "secret" * 3 if bad else f"{row[0]:.0f}"
            for row, bad in zip(rows, has_odd(rows), strict=True)
        ]

    step = FunctionTransformer(worded)
    assert sent(step, X) == worded(X)
    counts = [sent(HashingVectorizer(n_features=64), sent(step, rows)) for rows in (X, WITH_ODD)]
    check_only_the_odd_row_differs(*counts)

    def refusing(rows):
        return [3 if bad else f"{row[0]:.0f}" for row, bad in zip(rows, has_odd(rows), strict=True)]

    assert all(isinstance(one, str) for one in sent(FunctionTransformer(refusing), WITH_ODD))


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


@pytest.mark.parametrize("holder", [*HOLDERS, "pandas"])
@pytest.mark.parametrize("name", OF_TEXTS)
def test_a_text_that_is_refused_is_a_row_of_zeros(name, holder):
    step, made = OF_TEXTS[name], {**HOLDERS, "pandas": pd.Series}[holder]
    before = sent(step, made(TEXTS))
    assert before.sum() > 0
    for one in (None, np.nan, b"\xff", 1.0, 10**400, [], {}, ("one",)):
        odd = check_only_the_odd_row_differs(before, sent(step, made(with_text(TEXTS, one))))
        assert (odd == 0).all()


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


def test_what_makes_another_number_of_rows_is_refused_by_public_rows():
    with pytest.raises(ValueError, match=r"a row for each, got shape \(3, 2\) for 2 rows"):
        sent(FunctionTransformer(np.transpose), X)


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("container", ["single", "single csr", "pandas"])
def test_what_a_search_publishes_has_the_kind_that_public_rows_give(container):
    first = AdditiveChi2Sampler()
    if container == "pandas":
        first.set_output(transform="pandas")
    found = []
    for rows in (X, WITH_ODD):
        pca = DPPCA(2, row_norm=2.0, mean_norm=2.0)
        search = DPGridSearch(make_pipeline(first, pca), {"dppca__whiten": [False, True]})
        last = search.fit(CONTAINERS[container](rows)).best_estimator_[-1]
        found.append((last.components_.dtype, list(getattr(last, "feature_names_in_", ()))))
    assert found[0] == found[1]
    assert found[0][0] == (np.float64 if container == "pandas" else np.float32)
    assert len(found[0][1]) == (9 if container == "pandas" else 0)


SCORERS = {
    "text": lambda model, rows, y: in_objects(rows, "secret")[:, 0],
    "complex": lambda model, rows, y: -np.emath.sqrt(rows[:, 1]),
    "object": lambda model, rows, y: [
        Secret() if bad else row[0] for row, bad in zip(rows, has_odd(rows), strict=True)
    ],
    "list": lambda model, rows, y: [
        "secret" if bad else -float(row[0] * one)
        for row, bad, one in zip(rows, has_odd(rows), y, strict=True)
    ],
    "sequence": lambda model, rows, y: [
        [1.0, 2.0] if bad else -row[0] for row, bad in zip(rows, has_odd(rows), strict=True)
    ],
    "dropped": lambda model, rows, y: -rows[~has_odd(rows), 0],
    "number": lambda model, rows, y: all_if_odd(rows, np.sum)[..., 0],
    "masked": lambda model, rows, y: -np.ma.masked_less(rows[:, 1], 0),
    "whole": lambda model, rows, y: np.array([0 if bad else -1 for bad in has_odd(rows)]),
    "narrow": lambda model, rows, y: all_if_odd(rows, np.float16)[:, 0],
}


@pytest.mark.parametrize("name", SCORERS)
def test_a_score_that_is_no_number_is_the_worst_and_changes_no_other(name):
    model = DPTraceRegressor(epsilon=np.inf).fit(X, Y)
    losses = []
    for rows in (X, WITH_ODD):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            losses.append(row_losses(SCORERS[name], model, rows, Y))
    np.testing.assert_array_equal(*(np.delete(one, ODD) for one in losses))
    assert losses[1].dtype == np.float64
    converts = {"complex": 0.0, "whole": 0.0, "narrow": -np.float16(WITH_ODD[ODD, 0])}
    assert losses[1][ODD] == converts.get(name, 1e100)


@pytest.mark.parametrize("container", [np.asarray, list, pd.Series])
def test_a_label_that_a_score_does_not_know_is_the_worst(container):
    labels = np.where(Y > 1, "yes", "no").astype(object)
    model = RandomForestClassifier(3, random_state=0).fit(X, labels)

    def scoring(model, rows, y):
        columns = [list(model.classes_).index(label) for label in y]
        return model.predict_proba(rows)[np.arange(len(rows)), columns]

    before = row_losses(scoring, model, X, container(labels))
    labels[ODD] = "secret"
    after = row_losses(scoring, model, X, container(labels))
    np.testing.assert_array_equal(np.delete(before, ODD), np.delete(after, ODD))
    assert after[ODD] == 1e100


def test_scores_that_are_whole_for_public_rows_keep_their_fractions():
    model = DPTraceRegressor(epsilon=np.inf).fit(X, Y)
    scoring = lambda model, rows, y: np.array([-max(0, row[0] - 1) for row in rows])  # noqa: E731
    expected = np.maximum(0, X[:, 0] - 1)
    np.testing.assert_array_equal(row_losses(scoring, model, X, Y), expected)


def test_texts_are_judged_one_by_one_where_public_ones_are_refused():
    texts = np.array([[f"{row[0]:.3f}"] for row in X], dtype=object)
    known = set(texts.ravel())

    def scoring(model, rows, y):
        assert known.issuperset(rows.ravel())
        return [-float(one) * (len(rows) == 2) for one in rows.ravel()]

    with pytest.warns(PrivacyWarning, match="called with public texts"):
        found = row_losses(scoring, None, texts, None)
    np.testing.assert_array_equal(found, texts.ravel().astype(float))


@pytest.mark.parametrize("name", ["text", "complex", "dropped", "sequence"])
def test_a_search_goes_on_after_such_a_score(tmp_path, name):
    ledger = PrivacyLedger.create(
        tmp_path / "ledger.skdp", dataset="rows", epsilon=9.0, delta=1e-5, unit="record"
    )
    search = DPGridSearch(
        DPTraceRegressor(n_iter=2), {"n_iter": [1, 2]}, scoring=SCORERS[name], ledger=ledger
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", PrivacyWarning)
        search.fit(WITH_ODD, Y)
    assert len(ledger.entries()) == 1
    score = private_score(search.best_estimator_, WITH_ODD, Y, scoring=SCORERS[name])
    assert np.isfinite(score.value)


@pytest.mark.parametrize(
    "scoring",
    [
        lambda model, rows, y: ["secret"] * len(rows),
        lambda model, rows, y: rows,
        lambda model, rows, y: 0.5,
        lambda model, rows, y: None,
    ],
)
def test_what_returns_no_score_for_public_rows_is_refused(scoring):
    model = DPTraceRegressor(epsilon=np.inf).fit(X, Y)
    with pytest.raises(ValueError, match="one score for each of 40 rows, got shape") as refused:
        row_losses(scoring, model, X, Y)
    assert "secret" not in str(refused.value)


def test_what_refuses_public_rows_is_refused_whatever_the_rows_are():
    model = DPTraceRegressor(epsilon=np.inf).fit(X, Y)

    def strict(model, rows, y):
        assert len(rows) == 40
        return -rows[:, 0]

    with pytest.raises(ValueError, match="scoring raises AssertionError"):
        row_losses(strict, model, X, Y)


def test_texts_that_public_ones_are_none_of_have_the_worst_loss():
    texts = np.array([["yes" if row[0] > 1 else "no"] for row in X], dtype=object)
    one_hot = OneHotEncoder(sparse_output=False).fit([["no"], ["yes"]])
    scoring = lambda model, rows, y: -model.transform(rows)[:, 0]  # noqa: E731
    with pytest.warns(PrivacyWarning, match="called with public texts"):
        before = row_losses(scoring, one_hot, texts, None)
    texts[ODD] = "secret"
    with pytest.warns(PrivacyWarning, match="the worst loss") as told:
        after = row_losses(scoring, one_hot, texts, None)
    assert "secret" not in str(told[0].message)
    np.testing.assert_array_equal(np.delete(before, ODD), np.delete(after, ODD))
    assert after[ODD] == 1e100


LARGE = X * 30
LABELS = (X[:, 0] > X[:, 1]).astype(int)
# Refused by a forest, which works in float32, but for what is whitened.
TOO_LARGE = LARGE.copy()
TOO_LARGE[ODD] = [2e39, 0.0, 0.0]
FOREST = FrozenEstimator(RandomForestClassifier(3, random_state=0).fit(X[:, :2], LABELS))


def accuracy_search():
    pca = DPPCA(2, row_norm=100.0, mean_norm=100.0)
    grid = {"dppca__whiten": [False, True]}
    return DPGridSearch(make_pipeline(pca, FOREST), grid, epsilon=0.1, random_state=SEED)


@pytest.mark.parametrize("labels", [LABELS, np.array(["no", "yes"])[LABELS]])
def test_a_refused_row_has_the_worst_accuracy(labels):
    model = RandomForestClassifier(3, random_state=0).fit(X, labels)
    rows = X.copy()
    rows[ODD] = 1e300
    before, after = (row_losses("accuracy", model, one, labels) for one in (X, rows))
    np.testing.assert_array_equal(np.delete(before, ODD), np.delete(after, ODD))
    assert after[ODD] == 1


def test_no_refused_row_moves_an_accuracy_further_than_declared():
    with watched() as before:
        accuracy_search().fit(LARGE, LABELS)
    with watched([budget.released for budget in before]) as after:
        search = accuracy_search().fit(TOO_LARGE, LABELS)
    assert max(moved(before, after)) <= 1 + 1e-12
    model = search.best_estimator_
    with watched() as before:
        private_score(model, LARGE, LABELS, random_state=SEED)
    with watched([budget.released for budget in before]) as after:
        private_score(model, TOO_LARGE, LABELS, random_state=SEED)
    assert max(moved(before, after)) <= 1


@pytest.mark.covered(at_most=4)
@pytest.mark.parametrize("name", SCORERS)
def test_no_such_score_moves_a_search_further_than_declared(name):
    def search():
        regression = DPTraceRegressor(n_iter=2, response_bound=2.0)
        return DPGridSearch(
            make_pipeline(Normalizer(), regression),
            {"dptraceregressor__n_iter": [1, 2]},
            scoring=lambda model, rows, y: SCORERS[name](model, rows * model[-1].n_iter, y),
            random_state=SEED,
        )

    with watched() as before:
        search().fit(X, Y)
    with watched([budget.released for budget in before]) as after:
        search().fit(WITH_ODD, Y)
    assert max(moved(before, after)) <= 1 + 1e-12
