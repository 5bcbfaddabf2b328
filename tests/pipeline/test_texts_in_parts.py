"""Columns of texts in Parquet and Dask: a ColumnTransformer encodes them, block by block."""

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from skdp import (
    DPPCA,
    DPLinearRegression,
    DPLogisticRegression,
    DPPipeline,
    DPStandardScaler,
    RowBlocks,
    make_dp_pipeline,
    privacy_spent,
)
from skdp.model_selection import private_score

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

SEED, N = 2**100 + 7, 600
GENERATOR = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "age": GENERATOR.uniform(0, 100, N),
        "town": GENERATOR.choice(["Riga", "Turku", "Oslo", "Kyiv"], N),
        "note": [" ".join(GENERATOR.choice(["late", "fine", "lost"], 2)) for _ in range(N)],
        "income": GENERATOR.uniform(0, 1e5, N),
    }
)
TABLE["label"] = np.where(TABLE["age"] + 20 * (TABLE["town"] == "Riga") > 55, "yes", "no")
TABLE["town"] = TABLE["town"].astype("category")
TABLE.loc[::7, "income"] = np.nan
TABLE.loc[::11, "town"] = np.nan
FEATURES = ["age", "town", "note", "income"]
BOUNDS = {"age": (0, 100), "income": (0, 1e5)}
NUMBERS = ("numbers", DPStandardScaler(bounds=BOUNDS, missing="mean"), ["age", "income"])
TOWNS = OneHotEncoder(categories=[["Riga", "Turku", "Oslo"]], handle_unknown="ignore")
COLUMNS = {
    "encoded": [NUMBERS, ("town", TOWNS, ["town"])],
    "words": [
        NUMBERS,
        ("note", CountVectorizer(vocabulary=["late", "fine", "lost"]), "note"),
        ("hashed", HashingVectorizer(n_features=4), "note"),
    ],
    "filled": [
        (
            "town",
            make_pipeline(
                SimpleImputer(strategy="constant", fill_value="elsewhere"),
                OneHotEncoder(categories=[["Riga", "elsewhere"]], handle_unknown="ignore"),
            ),
            ["town"],
        ),
        (
            "age",
            make_pipeline(
                SimpleImputer(strategy="constant", fill_value=0.0),
                DPStandardScaler(bounds=[(0, 1e5), (0, 100)]),
            ),
            ["income", "age"],
        ),
    ],
}


def pipeline(name, **more):
    steps = [
        ("columns", ColumnTransformer(COLUMNS[name])),
        ("last", DPLogisticRegression(classes=["no", "yes"])),
    ]
    return DPPipeline(steps, **{"random_state": SEED, **more})


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for size in (N, 200):
        TABLE.to_parquet(folder / f"{size}.parquet", row_group_size=size, index=False)
    return folder


def data_of(kind, size, paths, table=TABLE):
    if kind == "memory":
        return table[FEATURES], table["label"]
    if kind == "parquet":
        return (RowBlocks.from_parquet(paths / f"{size}.parquet", FEATURES, y="label"),)
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(table, npartitions=len(table) // size, sort=False)
    return frame[FEATURES], frame["label"]


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("kind", ["parquet", "dask"])
@pytest.mark.parametrize("name", COLUMNS)
def test_the_model_is_that_of_the_frame(name, kind, paths):
    frame, labels = data_of("memory", N, paths)
    expected = pipeline(name).fit(frame, labels)
    rows = data_of(kind, N, paths)
    fitted = pipeline(name).fit(*rows)
    np.testing.assert_array_equal(fitted[-1].coef_, expected[-1].coef_)
    np.testing.assert_array_equal(np.asarray(fitted.predict(rows[0])), expected.predict(frame))
    assert fitted.score(*rows) == pytest.approx(expected.score(frame, labels))
    assert privacy_spent(fitted).is_private
    assert fitted.feature_names_in_.tolist() == FEATURES
    planned = pipeline(name).plan(N, like=rows[0])
    assert planned.releases == pipeline(name).plan(N, like=frame).releases


@pytest.mark.slow
@pytest.mark.parametrize("name", COLUMNS)
def test_parquet_and_dask_in_the_same_parts_have_the_same_bits(name, paths):
    fitted = [pipeline(name).fit(*data_of(kind, 200, paths)) for kind in ("parquet", "dask")]
    np.testing.assert_array_equal(*(one[-1].coef_ for one in fitted))
    exact = pipeline(name, epsilon=math.inf).fit(*data_of("memory", N, paths))
    parts = pipeline(name, epsilon=math.inf).fit(*data_of("parquet", 200, paths))
    np.testing.assert_allclose(parts[-1].coef_, exact[-1].coef_, rtol=1e-4, atol=1e-4)


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("kind", ["parquet", "dask"])
def test_a_missing_text_that_no_step_takes_is_refused_first(kind, tmp_path, ledger):
    table = TABLE.copy()
    table.loc[500, "note"] = None
    table.to_parquet(tmp_path / "200.parquet", row_group_size=200, index=False)
    rows = data_of(kind, 200, tmp_path, table)
    text = "^Step 'columns__note' refuses its rows. Column note holds texts and gaps. Fill gaps in"
    with pytest.raises(ValueError, match=text):
        pipeline("words", ledger=ledger).fit(*rows)
    assert ledger.entries() == []
    filled = SimpleImputer(strategy="constant", fill_value="")
    words = make_pipeline(filled, FunctionTransformer(np.ravel), HashingVectorizer(n_features=4))
    columns = ColumnTransformer([NUMBERS, ("hashed", words, ["note"])])
    model = make_dp_pipeline(columns, DPLogisticRegression(classes=["no", "yes"]))
    assert model.fit(*rows)[-1].coef_.shape == (1, 6)


@pytest.mark.slow
def test_a_private_score_takes_the_labels_of_rows_in_parts(paths):
    (rows,) = data_of("parquet", 200, paths)
    model = pipeline("encoded", epsilon=math.inf).fit(rows)
    scores = [private_score(model, *one, epsilon=math.inf) for one in [(rows,), (rows, rows.y)]]
    assert scores[0].value == scores[1].value == pytest.approx(model.score(rows))
    assert scores[0].privacy_spent.unit == "record"


@pytest.mark.parametrize("kind", ["parquet", "dask"])
@pytest.mark.parametrize("has_texts", [False, True])
def test_gaps_in_parts_are_refused_with_their_columns(kind, has_texts, tmp_path, ledger):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 3)), columns=["a", "b", "c"])
    frame = frame.assign(town=["Riga", "Turku"] * 150, y=frame["a"])
    frame.loc[250, "b"] = np.nan
    frame.to_parquet(path := tmp_path / "rows.parquet", row_group_size=100)
    names = ["a", "b", "c", "town"][: 3 + has_texts]
    encoder = OneHotEncoder(
        categories=[["Riga", "Turku"]], sparse_output=False, handle_unknown="ignore"
    )
    parts = [("s", DPStandardScaler(), ["a", "b"]), ("t", encoder, ["town"])][: 1 + has_texts]
    columns = ColumnTransformer(parts, remainder="passthrough")
    given = [RowBlocks.from_parquet(path, names, y="y")]
    if kind == "dask":
        table = pytest.importorskip("dask.dataframe").read_parquet(path, split_row_groups=True)
        given = [table[names], table["y"]]
    model = make_dp_pipeline(columns, DPLinearRegression(), ledger=ledger)
    text = (
        "^Step 'columntransformer__s' refuses its rows. Column b holds NaN. Fill missing values by "
        r"a constant, .* or in the file or loader of each part; or privately, by missing='mean'"
    )
    with pytest.raises(ValueError, match=text):
        model.fit(*given)
    assert ledger.entries() == []
    columns.set_params(s__missing="mean")
    model.fit(*given)


@pytest.mark.parametrize("kind", ["parquet", "dask"])
def test_what_encodes_no_texts_refuses_them(kind, paths):
    rows = data_of(kind, 200, paths)
    classify = DPLogisticRegression(classes=["no", "yes"])
    encode = r"Columns town, note hold texts.* Encode categories by ColumnTransformer"
    for model in (classify, DPPipeline([("scale", DPStandardScaler()), ("classify", classify)])):
        with pytest.raises(ValueError, match=encode):
            model.fit(*rows)
    with pytest.raises(ValueError, match=encode):
        DPPCA(1).fit(rows[0])
    words = [("words", HashingVectorizer(n_features=4)), ("classify", classify)]
    with pytest.raises(ValueError, match=r"one column of texts, .* name it in a ColumnTransformer"):
        DPPipeline(words).fit(*rows)


def test_lists_are_of_all_columns_of_texts_or_of_none(paths):
    file = paths / f"{N}.parquet"
    with pytest.raises(ValueError, match="categories must have all columns of texts"):
        RowBlocks.from_parquet(file, FEATURES, categories={"town": ["Riga"]})
    with pytest.raises(ValueError, match=r"or columns=\['town', \.\.\.\] to encode"):
        RowBlocks.from_parquet(file, y="label")
