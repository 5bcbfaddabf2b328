"""Columns of data frames in parts: the same in all of them; streams of as many rows as promised."""

import re
from functools import partial

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.preprocessing import Normalizer

import skdp
from skdp.data.containers import OTHER_COLUMNS, REPEATED_NAMES

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning"),
    # Of dask, when it reads Parquet with pandas 3.1.
    pytest.mark.filterwarnings("ignore:The inplace keyword"),
]

N = 60
ROWS = np.random.default_rng(0).normal(size=(N, 3)) * [5, 1, 1]
NUMBERS, LABELS = ROWS @ [1.0, 2.0, 3.0], (ROWS[:, 0] > 0).astype(int)
FRAME = pd.DataFrame(ROWS, columns=list("abc"))
SECRET = "secret"

#: Frames that have not the columns of `FRAME`, in its order.
OTHERS = {
    "another order": FRAME[list("cba")],
    "another name": FRAME.rename(columns={"b": "d"}),
    "a name of another kind": FRAME.rename(columns={"b": 1}),
    "a duplicate name": FRAME.set_axis(["a", "b", "b"], axis=1),
    "values as names": FRAME.set_axis([SECRET, "0.5", "1.5"], axis=1),
}


def flaw_of(case, make):
    """Return the text for a part: dask compares columns with those that it declares first."""
    return REPEATED_NAMES if case == "a duplicate name" and make != "dask" else OTHER_COLUMNS


OF_OTHER_WIDTH = {
    "a column in front": FRAME.assign(z=1.0)[list("zabc")],
    "a column behind": FRAME.assign(z=1.0),
    "a column less": FRAME[list("ab")],
}


def partitions(*loaders, y=None):
    targets = None if y is None else [y] * len(loaders)
    return skdp.RowBlocks.from_partitions(loaders, [N] * len(loaders), 3, y=targets)


def stream(*loaders):
    return skdp.RowBlocks(lambda: (load() for load in loaders), (N * len(loaders), 3))


def of_dask(*loaders):
    return dd.from_map(
        lambda number: loaders[number](),
        range(len(loaders)),
        meta=FRAME.iloc[:0],
        enforce_metadata=False,
    )


MAKERS = {"partitions": partitions, "stream": stream, "dask": of_dask}


def loading(frame):
    return lambda: frame


def rows_of(make, *frames):
    return MAKERS[make](*map(loading, frames))


ESTIMATORS = {
    "svd": skdp.DPTruncatedSVD(1, row_norm=5.0),
    "pca": skdp.DPPCA(1, row_norm=5.0, mean_norm=5.0),
    "scaler": skdp.DPStandardScaler(bounds=(-5, 5)),
}


def refused(function):
    """Return the text of what is raised, with which no other error goes."""
    with pytest.raises(ValueError, match=r"^\w") as caught:
        function()
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert SECRET not in str(caught.value)
    return str(caught.value)


@pytest.mark.covered(at_most=24)
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("case", [*OTHERS, *OF_OTHER_WIDTH])
def test_a_part_with_other_columns_is_refused_before_anything_is_spent(case, make, name, ledger):
    other = {**OTHERS, **OF_OTHER_WIDTH}[case]
    estimator = ESTIMATORS[name].__class__(**ESTIMATORS[name].get_params())
    estimator.set_params(ledger=ledger)
    before = dict(vars(estimator))
    text = refused(lambda: estimator.fit(rows_of(make, FRAME, other)))
    if case in OTHERS or make == "dask":
        assert text.endswith(flaw_of(case, make))
    assert ("Part 1" in text) == (make != "stream")
    assert vars(estimator) == before
    assert ledger.entries() == []


KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.Table.from_pandas}


@pytest.mark.parametrize("make", ["partitions", "stream"])
@pytest.mark.parametrize("kind", KINDS)
def test_data_frames_of_other_libraries_have_names_too(kind, make):
    convert = KINDS[kind]
    first, other = convert(FRAME), convert(OTHERS["another order"])
    svd = skdp.DPTruncatedSVD(1, row_norm=5.0, random_state=2**90)
    fitted = svd.fit(rows_of(make, first, first))
    assert fitted.feature_names_in_.tolist() == list("abc")
    assert refused(lambda: svd.fit(rows_of(make, first, other))).endswith(OTHER_COLUMNS)
    arrays = rows_of(make, ROWS, ROWS)
    expected = skdp.DPTruncatedSVD(1, row_norm=5.0, random_state=2**90).fit(arrays)
    assert not hasattr(expected, "feature_names_in_")
    np.testing.assert_array_equal(fitted.components_, expected.components_)


@pytest.mark.parametrize("make", MAKERS)
def test_names_that_are_no_strings_are_compared_and_are_none_of_the_features(make):
    numbered = FRAME.set_axis([0, 1, 2], axis=1)
    if make == "dask":
        rows = dd.from_map(
            lambda number: numbered[[[0, 1, 2], [2, 1, 0]][number]],
            range(2),
            meta=numbered.iloc[:0],
            enforce_metadata=False,
        )
    else:
        rows = rows_of(make, numbered, numbered[[2, 1, 0]])
        fitted = skdp.DPTruncatedSVD(1, row_norm=5.0).fit(rows_of(make, numbered, numbered))
        assert not hasattr(fitted, "feature_names_in_")
        several = FRAME.set_axis([0, "b", "c"], axis=1)
        text = refused(lambda: skdp.DPTruncatedSVD(1, row_norm=5.0).fit(rows_of(make, several)))
        assert "X.rename(columns=str)" in text
    assert refused(lambda: skdp.DPTruncatedSVD(1, row_norm=5.0).fit(rows)).endswith(OTHER_COLUMNS)


@pytest.mark.parametrize("make", ["partitions", "stream"])
def test_a_part_without_names_goes_by_position_and_names_need_a_first_one(make):
    fitted = skdp.DPTruncatedSVD(1, row_norm=5.0).fit(rows_of(make, FRAME, ROWS, FRAME))
    assert fitted.feature_names_in_.tolist() == list("abc")
    assert refused(lambda: fitted.fit(rows_of(make, ROWS, FRAME))).endswith(OTHER_COLUMNS)


class Turning:
    """Loads a frame, and from some call on another one."""

    def __init__(self, frame=FRAME, other=None, after=np.inf):
        self.frame, self.other, self.after, self.n_calls = frame, other, after, 0

    def __call__(self):
        self.n_calls += 1
        return self.frame if self.n_calls <= self.after else self.other


def fit_of(make, ledger, *loaders):
    rows = MAKERS[make](*loaders)
    return partial(skdp.DPPCA(1, row_norm=5.0, mean_norm=5.0, ledger=ledger, n_jobs=1).fit, rows)


@pytest.mark.covered(at_most=8)
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("case", [*OTHERS, *OF_OTHER_WIDTH, "texts", "more rows"])
def test_in_a_later_pass_the_text_is_the_same_whatever_the_part_holds(
    case, make, ledger, monkeypatch
):
    monkeypatch.setattr("skdp.data.sources.CACHE_BYTES", 0)
    texts = set()
    for values in (1.0, -3.0):
        others = {
            **OTHERS,
            **OF_OTHER_WIDTH,
            "texts": FRAME.assign(b=SECRET),
            "more rows": pd.concat([FRAME, FRAME]),
        }
        other = others[case].copy()
        other["c" if "c" in other else other.columns[0]] = values
        counting = Turning()
        fit_of(make, None, loading(FRAME), counting)()
        # Dask counts rows before all passes, and reads the types of columns off its meta.
        n_charged = len(ledger.entries())
        turning = Turning(other=other, after=counting.n_calls - 1)
        texts.add(refused(fit_of(make, ledger, loading(FRAME), turning)))
        assert len(ledger.entries()) == n_charged + 1
    assert len(texts) == 1, texts
    if case in OTHERS:
        assert texts.pop().endswith(flaw_of(case, make))


METHODS = {
    "transform": (skdp.DPTruncatedSVD(1, row_norm=5.0), None),
    "scale": (skdp.DPStandardScaler(bounds=(-5, 5)), None),
    "score_samples": (skdp.DPPCA(1, row_norm=5.0, mean_norm=5.0), None),
    "predict": (skdp.DPLinearRegression(n_iter=2), NUMBERS),
    "predict_proba": (skdp.DPLogisticRegression(classes=[0, 1]), LABELS),
    "pipeline": (
        skdp.DPPipeline([("public", Normalizer()), ("last", skdp.DPTruncatedSVD(1, row_norm=1.0))]),
        None,
    ),
}


def results(method, fitted, rows):
    name = {"scale": "transform", "pipeline": "transform"}.get(method, method)
    made = getattr(fitted, name)(rows)
    return made.compute() if hasattr(made, "compute") else np.concatenate(list(made))


def in_memory(method, fitted, frame):
    name = {"scale": "transform", "pipeline": "transform"}.get(method, method)
    return np.asarray(getattr(fitted, name)(frame))


# Of scikit-learn, where a step without privacy was fitted to public rows.
@pytest.mark.covered
@pytest.mark.filterwarnings("ignore:X has feature names, but Normalizer")
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("method", METHODS)
def test_rows_to_come_have_the_columns_of_the_fit(method, make):
    estimator, y = METHODS[method]
    fitted = estimator.fit(partitions(loading(FRAME), loading(FRAME), y=y))
    found = results(method, fitted, rows_of(make, FRAME, FRAME))
    expected = in_memory(method, fitted, FRAME)
    np.testing.assert_allclose(found, np.concatenate([expected, expected]))
    other = OTHERS["another order"]
    text = refused(lambda: results(method, fitted, rows_of(make, FRAME, other)))
    assert text.endswith(OTHER_COLUMNS)
    if make != "dask":
        text = refused(lambda: results(method, fitted, rows_of(make, other, other)))
        assert "in the same order: expected a, b, c, got c, b, a." in text
        # As scikit-learn decides of an array.
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            found = results(method, fitted, rows_of(make, ROWS))
        np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize(("estimator", "y"), [METHODS["predict"], METHODS["predict_proba"]])
def test_a_score_compares_columns(estimator, y):
    fitted = estimator.fit(partitions(loading(FRAME), y=y))
    assert np.isfinite(fitted.score(partitions(loading(FRAME), loading(FRAME), y=y)))
    other = loading(OTHERS["another order"])
    for loaders in ((loading(FRAME), other), (other, other)):
        text = refused(lambda loaders=loaders: fitted.score(partitions(*loaders, y=y)))
        assert text.endswith(OTHER_COLUMNS) or "same order" in text


def test_targets_of_dask_are_taken_from_the_columns_that_were_declared():
    frames = [FRAME.assign(y=NUMBERS), FRAME.assign(y=NUMBERS)[list("ycba")]]
    both = dd.from_map(
        lambda number: frames[number], range(2), meta=frames[0].iloc[:0], enforce_metadata=False
    )
    model = skdp.DPLinearRegression(n_iter=2, random_state=2**90)
    # Chosen by name, they are the same in all partitions.
    chosen = model.fit(both[list("abc")], both["y"]).coef_
    parts = partitions(loading(FRAME), loading(FRAME), y=NUMBERS)
    np.testing.assert_array_equal(model.fit(parts).coef_, chosen)
    turned = of_dask(loading(FRAME), loading(OTHERS["another order"]))
    assert refused(lambda: model.fit(turned, turned["a"])).endswith(OTHER_COLUMNS)


TEXTS = FRAME.assign(b="town", c=pd.Categorical(["x"] * N))


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize("make", ["memory", "partitions", "stream"])
def test_columns_of_texts_are_named(make, kind, ledger):
    convert = KINDS[kind]
    frame = convert(TEXTS.assign(b=SECRET))
    X = frame if make == "memory" else rows_of(make, frame, frame)
    text = refused(lambda: skdp.DPTruncatedSVD(1, row_norm=5.0, ledger=ledger).fit(X))

    # Old versions of polars make texts of categories.
    expected = r"Column b holds texts.* Encode.* Column c holds categories|Columns b, c hold texts"
    assert re.search(expected, text)
    assert ledger.entries() == []
    numbers = convert(FRAME.assign(b=FRAME["a"] > 0, c=1))
    if make == "memory":
        assert skdp.DPTruncatedSVD(1, row_norm=5.0).fit(numbers).n_features_in_ == 3


def test_only_columns_of_the_first_part_are_named():
    frames = loading(FRAME), loading(TEXTS)
    texts = {refused(lambda f=f: skdp.DPPCA(1).fit(f(*frames))) for f in (partitions, stream)}
    assert all("real numbers" in text and "['b'" not in text for text in texts)


# ------------------------------
# Streams with more or fewer rows than they promise.


def endless():
    while True:
        yield ROWS


@pytest.mark.parametrize("read", [skdp.RowBlocks.check, list, skdp.DPPCA(1).fit])
def test_a_stream_that_never_ends_is_refused(read):
    text = refused(lambda: read(skdp.RowBlocks(endless, (10 * N, 3))))
    assert "more or fewer rows than shape=(600, 3) promises" in text


@pytest.mark.parametrize("n_rows", [0, N - 1, N + 1, 2 * N])
@pytest.mark.parametrize("is_later", [False, True])
def test_another_number_of_rows_is_refused_in_every_pass(is_later, n_rows, ledger):
    # Blocks of the sums are as long as all, or half of the rows.
    many = np.tile(ROWS, (200, 1))
    n_passes = Turning(lambda: [many[:7], many[7:]])
    rows = skdp.RowBlocks(lambda: n_passes()(), many.shape)
    pca = partial(skdp.DPPCA, 1, row_norm=5.0, mean_norm=5.0)
    pca().fit(rows)
    after = n_passes.n_calls - 1 if is_later else 0
    for values in (ROWS, -ROWS):
        given = np.tile(values, (400, 1))[: len(many) - N + n_rows]
        turning = Turning(n_passes.frame, lambda given=given: [given], after)
        X = skdp.RowBlocks(lambda turning=turning: turning()(), many.shape)
        n_charged = len(ledger.entries())
        text = refused(lambda X=X: pca(ledger=ledger).fit(X))
        assert text.startswith("make_blocks returns more or fewer rows than shape=(12000, 3)")
        assert len(ledger.entries()) == n_charged + is_later
