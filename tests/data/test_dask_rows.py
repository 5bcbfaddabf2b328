"""Collections of dask: which are taken, what mends the others, and results that wait."""

from copy import deepcopy

import cloudpickle
import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csc_array, csr_array, issparse, vstack
from sklearn import config_context

import skdp
from skdp.model_selection import DPGridSearch

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning"),
    # Of dask, when it reads Parquet with pandas 3.1.
    pytest.mark.filterwarnings("ignore:The inplace keyword"),
]

D = 4
ROWS = np.random.default_rng(0).normal(size=(1000, D))
NUMBERS = ROWS @ np.arange(D)
TABLE = pd.DataFrame(ROWS, columns=list("abcd")).assign(
    count=np.arange(1000) % 7,
    flag=ROWS[:, 0] > 0,
    y=NUMBERS,
    label=np.where(NUMBERS > 0, "yes", "no"),
)
FEATURES = ["a", "b", "c", "d", "count", "flag"]


def array(rows=ROWS, chunks=300):
    return da.from_array(rows, chunks=(chunks, *rows.shape[1:]))


def frame():
    return dd.from_pandas(TABLE, npartitions=3)


@pytest.fixture
def parquet(tmp_path):
    frame().to_parquet(tmp_path / "table")
    return dd.read_parquet(tmp_path / "table")


def unknown():
    X = array()
    return X[X[:, 0] > -9]


class Unlike(np.ndarray):
    """An array of another library, as far as anyone knows."""


def of_type(kind):
    X = array()
    X._meta = X._meta.view(kind)
    return X


# What is refused, the words that say how to mend it, and what these words say, done.
REFUSED = {
    "unknown lengths": (unknown, "compute_chunk_sizes", lambda X: X.compute_chunk_sizes()),
    "chunks of columns": (
        lambda: array().rechunk((300, 2)),
        r"X\.rechunk\(\{0: 'auto', 1: -1\}\)",
        lambda X: X.rechunk({0: "auto", 1: -1}),
    ),
    "objects": (lambda: array().astype(object), r"X\.astype\(float\)", lambda X: X.astype(float)),
    "complex": (lambda: array() + 1j, r"complex128.*X\.astype\(float\)", lambda X: X.real),
    "one dimension": (
        lambda: array()[:, 0],
        r"1 dimensions.*X\.reshape\(\(len\(X\), -1\)\)",
        lambda X: X.reshape((len(X), -1)),
    ),
    "matrices": (
        lambda: array().reshape((1000, 2, 2)),
        r"X\.reshape\(\(len\(X\), -1\)\)",
        lambda X: X.reshape((len(X), -1)),
    ),
    "another library": (
        lambda: of_type(Unlike),
        r"Unlike.*X\.map_blocks",
        lambda X: X.map_blocks(np.asarray, meta=np.empty((0, 0))),
    ),
    "columns of texts": (
        lambda: frame(),
        r"label.*X\.drop\(columns=\['label'\]\)",
        lambda X: X.drop(columns=["label"]),
    ),
    "a series": (lambda: frame()["a"], "array or a data frame of dask", lambda X: X.to_frame()),
    "names of two types": (
        lambda: frame()[["a", "b"]].rename(columns={"b": 1}),
        r"X\.rename\(columns=str\)",
        lambda X: X.rename(columns=str),
    ),
    "delayed": (
        lambda: dask.delayed(np.ones)((100, 3)),
        "array or a data frame of dask",
        lambda X: da.from_delayed(X, (100, 3), float),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_mended_by_what_the_error_says(case, ledger):
    made, words, mended = REFUSED[case]
    X = made()
    estimator = skdp.DPPCA(1, ledger=ledger)
    before = dict(vars(estimator))
    with pytest.raises(ValueError, match=words):
        estimator.fit(X)
    assert vars(estimator) == before
    assert ledger.entries() == []
    assert estimator.fit(mended(X)).components_.shape[0] == 1


TARGETS = {
    "in memory": (array, lambda: NUMBERS, r"from_array\(y, chunks=X\.chunks\[0\]\)"),
    "other chunks": (array, lambda: array(NUMBERS, 100), r"y\.rechunk\(\(X\.chunks\[0\],\)\)"),
    "a column": (array, lambda: array(NUMBERS)[:, None], r"y\[:, 0\]"),
    "a series": (array, lambda: frame()["y"], r"y\.to_dask_array\(lengths=X\.chunks\[0\]\)"),
    "beside a frame": (lambda: frame()[FEATURES], lambda: array(NUMBERS), "one data frame"),
    "of another frame": (
        lambda: frame()[FEATURES],
        lambda: frame()["y"].repartition(npartitions=2),
        "one data frame",
    ),
    "of a frame like it": (
        lambda: frame()[FEATURES],
        lambda: dd.from_pandas(TABLE.iloc[::-1], npartitions=3, sort=False)["y"],
        "one data frame",
    ),
    "rows in memory": (lambda: ROWS, lambda: array(NUMBERS), r"X\.compute\(\)"),
}


@pytest.mark.parametrize("case", TARGETS)
def test_targets_that_do_not_lie_as_the_rows_are_refused(case):
    X, y, words = TARGETS[case]
    with pytest.raises(ValueError, match=words):
        skdp.DPLinearRegression().fit(X(), y())


def test_masked_chunks_are_refused():
    with pytest.raises(ValueError, match="masked"):
        skdp.DPPCA(1).fit(da.ma.masked_greater(array(), 0))


@pytest.mark.slow
def test_labels_of_data_frames_may_be_texts_or_categories(parquet):
    for X in (parquet, parquet.astype({"label": "category"})):
        model = skdp.DPLogisticRegression(classes=["no", "yes"], epsilon=50.0)
        model.fit(X[FEATURES], X["label"])
        assert model.score(X[FEATURES], X["label"]) > 0.8
        assert set(model.predict(X[FEATURES]).compute()) == {"no", "yes"}


def test_columns_of_extension_types_are_numbers_and_what_is_missing_is_refused():
    X = frame()[FEATURES].astype({"count": "Int64", "flag": "boolean"})
    assert skdp.DPPCA(1).fit(X).n_features_in_ == len(FEATURES)
    missing = X.assign(count=X["count"].mask(X["count"] == 3))
    with pytest.raises(ValueError, match="NaN"):
        skdp.DPPCA(1).fit(missing)


@pytest.fixture(scope="module")
def models():
    pipeline = skdp.DPPipeline(
        [("scale", skdp.DPStandardScaler()), ("fit", skdp.DPLinearRegression())]
    )
    classifier = skdp.DPLogisticRegression(classes=["no", "yes"])
    return {
        "PCA": skdp.DPPCA(2).fit(ROWS),
        "SVD": skdp.DPTruncatedSVD(2).fit(ROWS),
        "scaler": skdp.DPStandardScaler().fit(ROWS),
        "factorizer": skdp.DPLowRankFactorizer(2).fit(ROWS),
        "linear": skdp.DPLinearRegression().fit(ROWS, NUMBERS),
        "logistic": classifier.fit(ROWS, TABLE["label"]),
        "pipeline": pipeline.fit(ROWS, NUMBERS),
    }


WAITING = [
    ("PCA", ("transform", "inverse_transform", "score_samples")),
    ("SVD", ("transform", "inverse_transform")),
    ("scaler", ("transform", "inverse_transform")),
    ("factorizer", ("transform",)),
    ("linear", ("predict",)),
    ("logistic", ("predict", "predict_proba", "predict_log_proba", "decision_function")),
    ("pipeline", ("predict",)),
]


@pytest.mark.parametrize(("name", "method"), [(n, m) for n, methods in WAITING for m in methods])
def test_results_wait_and_are_those_of_arrays(name, method, models):
    model = models[name]
    rows = ROWS[:, :2] if method == "inverse_transform" and name != "scaler" else ROWS
    expected = getattr(model, method)(rows)
    lengths = (400, 0, 1, 599)
    X = da.from_array(rows, chunks=(lengths, rows.shape[1]))
    for given, chunks in ((X, lengths), (X[X[:, 0] > -9], (np.nan,) * 4)):
        found = getattr(model, method)(given)
        assert isinstance(found, da.Array)
        np.testing.assert_array_equal(found.chunks[0], chunks)
        assert found.dtype == expected.dtype
        assert found.shape[1:] == expected.shape[1:]
        computed = found.compute()
        assert computed.dtype.kind == expected.dtype.kind
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(computed, expected, rtol=1e-9, atol=1e-12)
        else:
            assert (computed == expected).all()


@pytest.mark.parametrize("name", ["PCA", "scaler", "factorizer", "linear", "logistic", "pipeline"])
def test_results_that_wait_are_of_the_fit_before_them(name, models):
    model, method = deepcopy(models[name]), dict(WAITING)[name][-1]
    expected = getattr(model, method)(ROWS)
    blocks = skdp.RowBlocks(lambda: iter([ROWS[:400], ROWS[400:]]), ROWS.shape)
    of_chunks, of_blocks = getattr(model, method)(array(ROWS)), getattr(model, method)(blocks)
    y = {"logistic": TABLE["label"], "linear": NUMBERS, "pipeline": NUMBERS}.get(name)
    model.fit(9 - 5 * ROWS[::-1], y)
    for found in (of_chunks.compute(), np.concatenate(list(of_blocks))):
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        else:
            assert (found == expected).all()


def test_sparse_results_wait():
    rows = csr_array(ROWS * (ROWS > 1))
    X = array(rows.toarray()).map_blocks(csc_array, meta=csc_array((0, 0)))
    scaler = skdp.DPStandardScaler(with_mean=False).fit(X)
    found = scaler.transform(X)
    assert issparse(found._meta)
    # Older versions of dask do not put sparse chunks together.
    parts = [found.partitions[i].compute() for i in range(4)]
    assert all(map(issparse, parts))
    np.testing.assert_allclose(vstack(parts).toarray(), scaler.transform(rows).toarray())
    assert skdp.DPTruncatedSVD(2).fit(X).transform(X).compute().shape == (1000, 2)


def test_rows_that_are_not_finite_wait_as_nan_or_are_refused(models):
    rows = ROWS.copy()
    rows[7, 0] = np.inf
    found = models["PCA"].transform(array(rows)).compute()
    assert np.isnan(found).any(axis=1).nonzero()[0].tolist() == [7]
    with pytest.raises(ValueError, match="NaN or infinity"):
        models["logistic"].predict(array(rows)).compute()


@pytest.mark.parametrize("name", ["PCA", "factorizer", "linear", "logistic", "pipeline"])
def test_scores_are_those_of_arrays(name, models):
    model = models[name]
    y = {"linear": NUMBERS, "pipeline": NUMBERS, "logistic": TABLE["label"].to_numpy()}.get(name)
    given = (array(), array(y)) if y is not None else (array(),)
    expected = model.score(ROWS) if y is None else model.score(ROWS, y)
    assert model.score(*given) == pytest.approx(expected, rel=1e-9)
    if name in ("linear", "logistic"):
        weights = np.arange(1000.0)
        found = model.score(*given, sample_weight=weights)
        assert found == pytest.approx(model.score(ROWS, y, sample_weight=weights), rel=1e-9)


def test_frames_of_results_are_refused_where_they_would_be_gathered(models):
    X = array()
    with pytest.raises(ValueError, match="from_dask_array"):
        skdp.DPPCA(1).set_output(transform="pandas").fit_transform(X)
    with config_context(transform_output="polars"):
        with pytest.raises(ValueError, match="from_dask_array"):
            models["PCA"].transform(X)
        assert models["linear"].predict(X).shape == (1000,)


class Poisoned:
    """A scheduler that must not run."""

    def __call__(self, *args, **kwargs):
        raise AssertionError("computed")


@pytest.mark.parametrize("kind", ["array", "frame"])
def test_a_plan_reads_nothing(kind):
    X = array() if kind == "array" else frame()[FEATURES]
    with dask.config.set(scheduler=Poisoned()):
        for estimator in (skdp.DPPCA(1), skdp.DPStandardScaler(), skdp.DPLinearRegression()):
            plan = estimator.plan(1000, X.shape[1], like=X)
            assert plan == estimator.plan(1000, X.shape[1], like=X)
        pipeline = skdp.DPPipeline(
            [("scale", skdp.DPStandardScaler()), ("fit", skdp.DPLinearRegression())]
        )
        pipeline.plan(1000, X.shape[1], like=X)


NOT_TAKEN = {
    "personal": lambda X: skdp.DPPersonalizedRegressor(1).fit(X, NUMBERS, groups=np.arange(1000)),
    "groups": lambda X: skdp.DPPersonalizedRegressor(1).fit(ROWS, NUMBERS, groups=X[:, 0]),
    "search": lambda X: DPGridSearch(skdp.DPLinearRegression(), {"n_iter": [1, 2]}).fit(X, NUMBERS),
    "weights": lambda X: skdp.DPLinearRegression().fit(ROWS, NUMBERS).score(ROWS, NUMBERS, X[:, 0]),
    "center": lambda X: skdp.DPPCA(1, center=X[0]).fit(ROWS),
    "classes": lambda X: skdp.DPLogisticRegression(classes=X[:2, 0]).fit(ROWS, TABLE["label"]),
}


@pytest.mark.parametrize("case", NOT_TAKEN)
def test_nothing_is_gathered_where_collections_are_not_taken(case):
    with dask.config.set(scheduler=Poisoned()), pytest.raises((ValueError, TypeError)) as error:
        NOT_TAKEN[case](array())
    assert "computed" not in str(error.value)


def test_graphs_of_results_hold_no_secret(ledger):
    secret = int.from_bytes(b"a seed that must stay here")
    asked = {"random_state": secret, "ledger": ledger}
    regression = skdp.DPLinearRegression(**asked).fit(ROWS, NUMBERS)
    for found in (
        regression.predict(array()),
        skdp.DPPCA(1, **asked).fit(ROWS).transform(array()),
        skdp.DPPCA(1, **asked).fit(ROWS).score_samples(array()),
    ):
        held = cloudpickle.dumps(dict(found.__dask_graph__()))
        assert secret.to_bytes(26, "little") not in held
        assert b"people.skdp" not in held
