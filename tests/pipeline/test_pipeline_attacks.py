"""Attacks on whole pipelines: all that their steps release, replayed on neighboring rows."""

import warnings
from contextlib import nullcontext
from functools import partial

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from in_parts import in_chunks, in_parts
from refusals import refusal_of
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)
from sklearn.utils import check_consistent_length
from watched import SEED, farthest, moved, null_in_every_step, replaying, watched

from skdp import (
    DPPCA,
    DPLogisticRegression,
    DPStandardScaler,
    DPTraceRegressor,
    DPTruncatedSVD,
    make_dp_pipeline,
    privacy_spent,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning"),
    pytest.mark.usefixtures("few_steps"),
]

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((60, 4)) * [3, 2, 1, 1]
Y = (X[:, 0] + GENERATOR.standard_normal(60) > 0).astype(int)
ENDS = (np.array([-9.0, -6, -3, -3]), np.array([9.0, 6, 3, 3]))
CLASSIFIER = DPLogisticRegression(classes=[0, 1], row_norm=2.0)
SCALER, PCA = DPStandardScaler(bounds=ENDS), DPPCA(2, row_norm=3.0, mean_norm=3.0)


CODES = {"handle_unknown": "use_encoded_value", "unknown_value": -1, "encoded_missing_value": -2}
SPLINES = SplineTransformer(knots=np.array([[-3.0] * 4, [0.0] * 4, [3.0] * 4]))
IMPUTER = SimpleImputer(strategy="constant", keep_empty_features=True)
# Behind a private step.
SOME = ColumnTransformer(
    [
        ("powers", PolynomialFeatures(3), [0, 1]),
        ("splines", SplineTransformer(knots=[[-3.0], [0.0], [3.0]], extrapolation="linear"), [2]),
        ("same", "passthrough", [3]),
    ],
    remainder="drop",
)
SPARSE_CODES = OneHotEncoder(categories=[[-1.0, 0.0, 1.0]] * 4, handle_unknown="ignore")
STEPS = {
    "two": (DPStandardScaler(), CLASSIFIER),
    "two, all found": (DPStandardScaler(), DPLogisticRegression(classes=[0, 1])),
    "three": (SCALER, PCA, CLASSIFIER),
    "released width": (SCALER, DPPCA(0.9, row_norm=3.0), CLASSIFIER),
    "power": (DPTruncatedSVD(2, solver="power"), DPTraceRegressor(n_iter=2)),
    "last transforms": (DPStandardScaler(), DPPCA(2)),
    "public first": (Normalizer(), PCA, DPTraceRegressor(n_iter=2)),
    "imputed": (IMPUTER, SCALER, CLASSIFIER),
    "codes": (
        OneHotEncoder(categories=[[0.0, 1.0]] * 4, handle_unknown="ignore", sparse_output=False),
        CLASSIFIER,
    ),
    "powers behind": (SCALER, PolynomialFeatures(2), CLASSIFIER),
    "splines behind": (SCALER, SPLINES, CLASSIFIER),
    "signs behind": (SCALER, Normalizer("l1"), Binarizer(), CLASSIFIER),
    "columns behind": (SCALER, SOME, PCA, CLASSIFIER),
    "pipelines in columns": (
        ColumnTransformer(
            [
                ("pipe", make_pipeline(SPLINES, PolynomialFeatures(1)), [0, 1, 2, 3]),
                ("scale", DPStandardScaler(), [0, 1]),
                ("behind", make_pipeline(Normalizer(), DPPCA(1, row_norm=9.0)), [2, 3]),
            ],
            sparse_threshold=0,
        ),
        CLASSIFIER,
    ),
    "sparse columns": (
        ColumnTransformer(
            [
                ("scale", DPStandardScaler(), [0, 1]),
                ("codes", make_pipeline(FunctionTransformer(np.rint), SPARSE_CODES), slice(0, 4)),
            ]
        ),
        CLASSIFIER,
    ),
    "columns": (
        ColumnTransformer(
            [
                ("scale", DPStandardScaler(), [0, 1]),
                ("pca", DPPCA(1, row_norm=3.0, mean_norm=3.0), slice(1, 4)),
            ],
            sparse_threshold=0,
        ),
        CLASSIFIER,
    ),
}
ROWS = {
    "huge": (np.full(4, 1e300), 1),
    "largest": (np.full(4, 1.7e308), 0),
    "opposite": (-X[0], 1 - Y[0]),
    "large": (np.array([1e6, 0, 0, 0]), 0),
    "zero": (np.zeros(4), 0),
    "whole": (np.array([9.0, 6, 3, 3]), 1),
    "aligned": (X[1] * 50, Y[1]),
}


def pipeline_of(name, adjacency="replace", epsilon=20.0):
    steps = [clone(step) for step in STEPS[name]]
    for step in steps:
        given = [key for key in step.get_params() if key.rpartition("__")[2] == "adjacency"]
        step.set_params(**dict.fromkeys(given, adjacency))
    shares = {"dptruncatedsvd": 0.25} if name == "power" else None
    return make_dp_pipeline(*steps, epsilon=epsilon, delta=1e-5, shares=shares, random_state=SEED)


def neighbors(row):
    rows, labels = X.copy(), Y.copy()
    rows[0], labels[0] = row
    return rows, labels


# Where the row is a part of its own.
CONTAINERS = {
    "array": lambda X, y: (X, y),
    "parts": lambda X, y: (in_parts(X, y),),
    "chunks": in_chunks,
}
CASES = [
    (name, container)
    for name in STEPS
    for container in CONTAINERS
    if container == "array" or "columns" not in name
]


NULL = {"replace": nullcontext, "zero_out": partial(null_in_every_step, 0)}


def replayed(name, adjacency, before, data):
    with replaying(before) as after:
        fitted = pipeline_of(name, adjacency).fit(*data)
    return after, fitted


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
@pytest.mark.parametrize(("name", "container"), CASES)
def test_no_row_moves_a_pipeline_further_than_declared(name, container, adjacency):
    def fit(rows, labels):
        pipeline_of(name, adjacency).fit(*CONTAINERS[container](rows, labels))

    movement = farthest(fit, (X, Y), *map(neighbors, ROWS.values()), null=NULL[adjacency])
    # An attack that gets nowhere would prove nothing.
    assert 0.5 < movement <= 1 + 1e-12


TEXTS = [f"one {number} two" for number in range(60)]
ODD_TEXTS = ("two " * 10_000, "", "unknown")


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("name", ["counts", "hashes", "weights"])
def test_no_text_moves_a_pipeline_further_than_declared(name):
    words = ["one", "two", "7"]
    first = {
        "counts": CountVectorizer(vocabulary=words),
        "hashes": HashingVectorizer(n_features=8),
        "weights": TfidfVectorizer(vocabulary=words, use_idf=False, sublinear_tf=True),
    }[name]
    model = make_dp_pipeline(first, DPPCA(2), CLASSIFIER, random_state=SEED)
    others = [([text, *TEXTS[1:]], Y) for text in ODD_TEXTS]
    movement = farthest(lambda *data: clone(model).fit(*data), (TEXTS, Y), *others)
    assert 0.5 < movement <= 1 + 1e-12


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("name", STEPS)
def test_a_null_row_stays_null_behind_every_step(name):
    with null_in_every_step(0), watched() as before:
        pipeline_of(name, "zero_out").fit(X, Y)
    for row in ROWS.values():
        with null_in_every_step(0):
            after, _ = replayed(name, "zero_out", before, neighbors(row))
        assert max(moved(before, after)) == 0


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize(("name", "container"), CASES)
def test_what_is_published_follows_what_is_released(name, container):
    with watched() as before:
        one = pipeline_of(name).fit(*CONTAINERS[container](X, Y))
    for row in ("large", "whole"):
        data = CONTAINERS[container](*neighbors(ROWS[row]))
        _, other = replayed(name, "replace", before, data)
        assert one.privacy_spent_ == other.privacy_spent_
        assert set(vars(one)) == set(vars(other))
        assert set(vars(one)) == {
            *one.get_params(deep=False),
            *{"n_features_in_", "pipeline_", "privacy_spent_", "_warnings_given", "_n_units"},
        }
        for ours, theirs in zip(one.pipeline_, other.pipeline_, strict=True):
            assert vars(ours).keys() == vars(theirs).keys()
            for attribute, value in vars(ours).items():
                if isinstance(value, np.ndarray) and value.dtype != object:
                    np.testing.assert_array_equal(value, getattr(theirs, attribute))
                    assert value.dtype == getattr(theirs, attribute).dtype


@pytest.mark.covered(at_most=6)
@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", STEPS)
def test_the_largest_rows_raise_nothing_and_warn_of_nothing(name, dtype):
    rows = X.astype(dtype)
    rows[:4] = np.finfo(dtype).max * np.array([1, -1, 1, -1])
    with np.errstate(all="warn"):
        pipeline = pipeline_of(name).fit(rows, Y)
    assert privacy_spent(pipeline).spent is pipeline.privacy_spent_


TABLE = pd.DataFrame(
    {
        "year": GENERATOR.uniform(2000, 2025, 20),
        "income": np.where(np.arange(20) % 9, GENERATOR.lognormal(3, 1, 20), np.nan),
        "town": GENERATOR.choice(["n", "s", "elsewhere"], 20),
        "note": GENERATOR.choice(["one two", "two", ""], 20),
    }
)
KNOTS = np.array([[2000.0], [2012.0], [2025.0]])
TOWNS = {"categories": [["n", "s"]]}
TABLE_PARTS = [
    ("spline", make_pipeline(IMPUTER, SplineTransformer(knots=KNOTS)), ["year"]),
    ("powers", make_pipeline(IMPUTER, Normalizer(), PolynomialFeatures(3)), ["year", "income"]),
    ("one-hot", OneHotEncoder(**TOWNS, handle_unknown="ignore"), ["town"]),
    ("ordinal", OrdinalEncoder(**TOWNS, **CODES), ["town"]),
    ("counts", CountVectorizer(vocabulary=["one", "two"]), "note"),
    ("hashes", HashingVectorizer(n_features=4), "note"),
    ("gaps", MissingIndicator(features="all"), ["year", "income"]),
    (
        "frozen",
        FrozenEstimator(OneHotEncoder(handle_unknown="ignore").fit(TABLE[["town"]])),
        ["town"],
    ),
    ("fills", DPStandardScaler(missing="mean"), ["year", "income"]),
    ("scale", make_pipeline(IMPUTER, DPStandardScaler(bounds={"year": (2000, 2025)})), ["year"]),
    ("pca", make_pipeline(IMPUTER, DPPCA(1, row_norm=1e3)), ["year", "income"]),
]
ODD_CELLS = [
    {"year": np.nan, "income": np.nan, "town": None, "note": ""},
    {"year": 1e308, "income": -1e200, "town": "?", "note": "two " * 10_000},
    {"year": -1e160, "income": np.nan, "town": "", "note": "unknown"},
]
# What is no text, in a frame that takes it.
ODD_OBJECTS = [{"town": one} for one in (pd.NA, pd.NaT, True, b"a")]
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame}


def released_on(model, frame, before=None):
    """Fit a clone of a model; return its budgets, warnings and attributes, and what it makes."""
    watching = watched() if before is None else replaying(before)
    with warnings.catch_warnings(record=True) as told, watching as budgets:
        warnings.simplefilter("always")
        fitted = clone(model).fit(frame, Y[: len(frame)])
    made = fitted[:1].transform(type(frame)(TABLE))
    public = fitted.pipeline_, fitted.privacy_spent_, made
    return budgets, [str(one.message) for one in told], joblib.hash(public)


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [0, 0.3])
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
@pytest.mark.parametrize("kind", FRAMES)
def test_no_row_of_a_table_moves_a_pipeline_further_or_tells_more(kind, adjacency, threshold):
    step = ColumnTransformer(TABLE_PARTS, sparse_threshold=threshold)
    model = make_dp_pipeline(step, CLASSIFIER, epsilon=20.0, delta=1e-5, random_state=SEED)
    given = [key for key in model.get_params() if key.rpartition("__")[2] == "adjacency"]
    model.set_params(**dict.fromkeys(given, adjacency))
    with NULL[adjacency]():
        before, told, public = released_on(model, FRAMES[kind](TABLE))
    worst = []
    # All of them with the slow tests.
    objects = ODD_OBJECTS[: 4 if threshold else 1] if kind == "pandas" else []
    for cells in ODD_CELLS[:: 1 if threshold else 3] + objects:
        odd = TABLE.astype({"town": object})
        odd.loc[0, list(cells)] = list(cells.values())
        after, *others = released_on(model, FRAMES[kind](odd), before)
        worst += moved(before, after)
        assert others == [told, public]
    assert 0.5 < max(worst) <= 1 + 1e-12


# Where a step that fills gaps stands.
GAPS = {
    "first": lambda scaler: scaler,
    "in columns": lambda scaler: columns_with(("gaps", scaler)),
    "in a pipeline": lambda scaler: columns_with(
        ("gaps", make_pipeline(FunctionTransformer(np.cbrt), scaler)),
        ("filled", make_pipeline(clone(IMPUTER), clone(scaler).set_params(missing="refuse"))),
    ),
}


def columns_with(*parts):
    return ColumnTransformer([(*part, slice(0, 4)) for part in parts], sparse_threshold=0)


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
@pytest.mark.parametrize("bounds", [None, ENDS])
@pytest.mark.parametrize("place", GAPS)
def test_no_gap_moves_a_pipeline_further_than_declared(place, bounds, adjacency):
    scaler = DPStandardScaler(missing="mean", bounds=bounds, adjacency=adjacency)
    steps = GAPS[place](scaler), clone(PCA).set_params(adjacency=adjacency)
    model = make_dp_pipeline(*steps, epsilon=20.0, delta=1e-5, random_state=SEED)
    rows = np.where(np.random.default_rng(1).random(X.shape) < 0.3, np.nan, X)
    full = [np.full(4, np.nan), X[0], np.full(4, 1e300), np.array([np.nan, 6, np.nan, -1e9])]
    others = [(np.vstack([row, rows[1:]]),) for row in full]
    movement = farthest(lambda X: clone(model).fit(X), (rows,), *others, null=NULL[adjacency])
    assert 0.5 < movement <= 1 + 1e-12


NUMBERS = [np.repeat([[1.0], [300]], [few, 100 - few], axis=0) for few in (3, 4)]
CITIES = [["Bern", "Rome"] * 50 + [one] for one in ("Bern", "Anytown", "Secretville")]
TABLES = [pd.DataFrame({"city": one}) for one in CITIES]
PLACES = [frame.astype("category") for frame in TABLES[::2]]
ARRAYS = [np.array(one)[:, np.newaxis] for one in CITIES[1:]]
ENCODED = make_pipeline(FunctionTransformer(pd.get_dummies), StandardScaler()).fit(TABLES[0])
REFUSED = [
    (FrozenEstimator(ENCODED), TABLES[1:]),
    (FunctionTransformer(lambda X: check_consistent_length(X, X[X[:, 0] < 300]) or X), NUMBERS),
    (FunctionTransformer(), ARRAYS),
    (FunctionTransformer(pd.get_dummies), PLACES),
    (FunctionTransformer(lambda X: pd.get_dummies(X).to_numpy(float)), PLACES),
    (FunctionTransformer(lambda X: np.ones((len(X), X.dtype.itemsize))), ARRAYS),
]


@pytest.mark.parametrize(("step", "neighbors"), REFUSED)
def test_what_a_step_refuses_tells_nothing_of_a_row(step, neighbors):
    """Neither do types, categories among them, that a row has made."""
    told, other = (str(refusal_of(make_dp_pipeline(step, PCA), one).value) for one in neighbors)
    assert told == other


BYTES = [np.array([[b"a"]] * 30 + [[one]]) for one in (b"b", b"a much longer text")]
CODED = OneHotEncoder(categories=[["a", "b"]], handle_unknown="ignore")


@pytest.mark.parametrize(
    "step", [CODED, ColumnTransformer([("codes", CODED, [0])]), FeatureUnion([("codes", CODED)])]
)
def test_no_fitted_encoder_has_the_length_of_the_longest_bytes(step):
    """The encoder of scikit-learn stores categories in the dtype of X."""
    given = [*BYTES, *(rows.tolist() for rows in BYTES)]
    told = {str(refusal_of(make_dp_pipeline(step, PCA), rows).value) for rows in given}
    assert told == {
        "X is an array of bytes, whose dtype has the length of the longest text: pass "
        "numpy.char.decode(X), and the categories of encoders as texts."
    }
    texts = [np.char.decode(rows) for rows in BYTES]
    models = [make_dp_pipeline(step, PCA, random_state=SEED).fit(rows) for rows in texts]
    assert len({joblib.hash(model[0]) for model in models}) == 1


def test_a_function_that_refuses_made_up_rows_is_refused_before_an_encoder():
    """The encoder would store the dtype that the function returns for private rows."""
    numbers = {"a": 1, "b": 2.5}
    looked_up = FunctionTransformer(
        lambda X: np.array([[numbers[one] for one in row] for row in X])
    )
    coded = OneHotEncoder(categories=[[1, 2.5]], handle_unknown="ignore")
    steps = ColumnTransformer([("coded", make_pipeline(looked_up, coded), [0])])
    rows = [np.array([["a"]] * 30 + [[last]], dtype=object) for last in "ab"]
    told = {str(refusal_of(make_dp_pipeline(steps, PCA), one).value) for one in rows}
    assert len(told) == 1
    assert "a function must accept made-up rows" in told.pop()


def test_a_report_names_an_encoder_that_has_the_length_of_the_longest_bytes():
    report = privacy_spent(make_pipeline(CODED, DPTruncatedSVD(1)).fit(BYTES[1]))
    assert not report.is_private
    assert "stores the length of the longest text" in report.verdict
    texts = np.char.decode(BYTES[1])
    assert privacy_spent(make_pipeline(CODED, DPTruncatedSVD(1)).fit(texts)).is_private


FILLED = ColumnTransformer([("filled", clone(IMPUTER), ["a"])], remainder="passthrough")


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("kind", [pa.int64(), pa.uint8(), pa.bool_()])
def test_no_fitted_step_has_a_dtype_that_shows_a_gap_in_a_table(kind):
    """A conversion of tables of pyarrow may give columns with gaps another dtype."""
    stored = set()
    for first in (1, None):
        columns = pa.array([first] + [0, 1] * 15).cast(kind), pa.array([0.5] * 31)
        model = make_dp_pipeline(FILLED, PCA).fit(pa.table([*columns], names=["a", "b"]))
        stored.add(joblib.hash(model[0]))
    assert len(stored) == 1
