"""A ColumnTransformer takes rows in parts, block by block, and their columns by names."""

import math
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder
from watched import farthest

from skdp import (
    DPLinearRegression,
    DPLogisticRegression,
    DPPipeline,
    DPStandardScaler,
    RowBlocks,
    privacy_spent,
)
from skdp.privacy.budget import is_skipped
from skdp.privacy.plan import branches_of

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

SEED, N, SIZE = 2**100 + 7, 600, 200
GENERATOR = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "age": GENERATOR.uniform(0, 100, N),
        "income": GENERATOR.uniform(0, 1e5, N),
        "region": GENERATOR.integers(1, 4, N).astype(float),
        "z": GENERATOR.normal(size=N),
    }
)
LABELS = (TABLE["age"] > 50).to_numpy().astype(int)
GAPS = TABLE.assign(age=TABLE["age"].mask(np.arange(N) % 7 == 0))
BOUNDS = {"age": (0, 100), "income": (0, 1e5)}
REGION = OneHotEncoder(categories=[[1, 2, 3]], handle_unknown="ignore", sparse_output=False)
FILLED = SimpleImputer(strategy="constant", fill_value=50.0)


def columns(*parts, remainder="passthrough"):
    return ColumnTransformer([*parts, ("region", REGION, ["region"])], remainder=remainder)


COLUMNS = {
    "public": columns(("norms", Normalizer(), ["income", "age"])),
    "private": columns(("scale", DPStandardScaler(bounds=BOUNDS), ["age", "income"])),
    "filled": columns(
        ("fill", make_pipeline(FILLED, DPStandardScaler(bounds=BOUNDS)), ["age", "income"]),
        remainder="drop",
    ),
    "means": columns(("means", DPStandardScaler(bounds=BOUNDS, missing="mean"), ["age", "income"])),
    "numbers": ColumnTransformer([("two", DPStandardScaler(), [0, 3])], remainder="drop"),
}
TAKES_GAPS = {"filled", "means"}


def part_of(table, start, step=None):
    rows = table.iloc[start : start + SIZE]
    return rows if step is None else step.transform(rows)


def in_parts(table, step=None, y=LABELS):
    starts = range(0, N, SIZE)
    width = table.shape[1] if step is None else part_of(table, 0, step).shape[1]
    loaders = [partial(part_of, table, start, step) for start in starts]
    targets = [y[start : start + SIZE] for start in starts]
    return RowBlocks.from_partitions(loaders, [SIZE] * 3, width, y=targets)


def pipeline(name, **more):
    last = DPLogisticRegression(classes=[0, 1])
    return DPPipeline([("columns", clone(COLUMNS[name])), ("classify", last)], **more)


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("name", COLUMNS)
def test_the_model_is_that_of_rows_in_memory(name):
    table = GAPS if name in TAKES_GAPS else TABLE
    rows, exact = in_parts(table), pipeline(name, epsilon=math.inf)
    fitted, expected = clone(exact).fit(rows), clone(exact).fit(table, LABELS)
    np.testing.assert_allclose(fitted[-1].coef_, expected[-1].coef_, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(fitted.predict(rows), fitted.predict(table))
    assert fitted.feature_names_in_.tolist() == table.columns.tolist()
    with pytest.raises(ValueError, match="columns are missing"):
        fitted.predict(table.rename(columns={"age": "other"}))


def test_the_bits_are_those_of_parts_that_are_loaded_as_the_step_makes_them():
    step = clone(COLUMNS["public"]).set_params(sparse_threshold=0).fit(TABLE)
    last = [("classify", DPLogisticRegression(classes=[0, 1]))]
    expected = DPPipeline(last, random_state=SEED).fit(in_parts(TABLE, step))
    fitted = pipeline("public", random_state=SEED).fit(in_parts(TABLE))
    np.testing.assert_array_equal(fitted[-1].coef_, expected[-1].coef_)
    assert privacy_spent(fitted).is_private
    again = clone(fitted).fit(in_parts(TABLE))
    np.testing.assert_array_equal(again[-1].coef_, fitted[-1].coef_)


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("name", COLUMNS)
def test_a_plan_is_that_of_a_frame(name):
    model = pipeline(name)
    planned, of_frame = model.plan(N, like=in_parts(TABLE)), model.plan(N, like=TABLE[:2])
    assert [one.name for one in planned.releases] == [one.name for one in of_frame.releases]
    spent = model.fit(in_parts(TABLE)).privacy_spent_
    names = {one.name for branch in branches_of(planned.parts) for one in branch}
    # Noise decides whether zooms are skipped.
    assert {one.name for one in spent.releases if not is_skipped(one.name)} <= names


@pytest.mark.parametrize("name", ["public", "private", "means"])
def test_gaps_are_refused_before_anything_is_spent(name, ledger):
    table = TABLE.assign(z=TABLE["z"].mask(np.arange(N) == N - 1))
    # Without private parts, the next step refuses the gaps, and knows no names of columns.
    text = "contains NaN or infinity" if name == "public" else "Column z holds NaN"
    with pytest.raises(ValueError, match=text):
        pipeline(name, ledger=ledger).fit(in_parts(table))
    assert ledger.entries() == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["private", "means"])
def test_no_row_moves_a_release_further_than_declared(name):
    for row in ([1e300, -1e300, 1, 0], [0, 0, 9, 1e300], [100, 0, 2, -5]):
        table = TABLE.copy()
        table.iloc[0] = row
        moved = farthest(
            lambda rows: pipeline(name, epsilon=2.0, random_state=SEED).fit(rows),
            (in_parts(TABLE),),
            (in_parts(table, y=np.r_[1 - LABELS[0], LABELS[1:]]),),
        )
        assert moved <= 1 + 1e-12


def test_columns_and_functions_that_blocks_do_not_have_are_refused():
    steps = [("columns", ColumnTransformer([("a", "passthrough", ["other"])]))]
    model = DPPipeline([*steps, ("regress", DPLinearRegression())])
    with pytest.raises(ValueError, match=r"lacks the columns \['other'\]"):
        model.fit(in_parts(TABLE))
    strict = clone(REGION).set_params(handle_unknown="error")
    model.set_params(columns=ColumnTransformer([("a", strict, ["region"])]))
    with pytest.raises(ValueError, match="needs rows in memory: pass handle_unknown='ignore'"):
        model.fit(in_parts(TABLE))
    of_names = FunctionTransformer(lambda frame: frame[["z"]].to_numpy())
    model.set_params(columns=ColumnTransformer([("a", of_names, ["z"])]))
    with pytest.raises(ValueError, match="Step 'columns' raises"):
        model.fit(in_parts(TABLE))


def test_sparse_parts_take_numbers():
    rows = csr_array(TABLE.to_numpy())
    scaler = DPStandardScaler(bounds=[(0, 100), (0, 1e5)], with_mean=False)
    step = ColumnTransformer([("scale", scaler, [0, 1])], remainder="passthrough")
    last = DPLogisticRegression(classes=[0, 1])
    model = DPPipeline([("columns", step), ("classify", last)], epsilon=math.inf)
    parts = RowBlocks.from_partitions([rows.copy], [N], 4, y=[LABELS])
    expected = clone(model).fit(rows, LABELS)[-1].coef_
    np.testing.assert_allclose(model.fit(parts)[-1].coef_, expected, rtol=1e-4, atol=1e-5)


def test_files_of_parquet_and_frames_of_dask(tmp_path):
    dask = pytest.importorskip("dask.dataframe")
    table, model = GAPS.assign(y=LABELS), pipeline("means", epsilon=math.inf)
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=SIZE)
    expected = clone(model).fit(in_parts(GAPS))[-1].coef_
    rows = RowBlocks.from_parquet(tmp_path / "rows.parquet", y="y")
    np.testing.assert_array_equal(clone(model).fit(rows)[-1].coef_, expected)
    frame = dask.from_pandas(table, npartitions=3)
    fitted = clone(model).fit(frame[list(GAPS)], frame["y"])
    np.testing.assert_array_equal(fitted[-1].coef_, expected)
    texts = TABLE.assign(town=np.where(LABELS, "Riga", "Turku"), y=LABELS)
    texts.to_parquet(tmp_path / "texts.parquet", row_group_size=SIZE)
    rows = RowBlocks.from_parquet(
        tmp_path / "texts.parquet",
        y="y",
        categories={"town": ["Riga", "Turku"]},
        sparse_output=False,
    )
    step = columns(("scale", DPStandardScaler(bounds=BOUNDS), ["age", "income"]), remainder="drop")
    step.transformers.append(("town", "passthrough", ["town_Riga", "town_Turku"]))
    model = DPPipeline([("columns", step), ("classify", DPLogisticRegression(classes=[0, 1]))])
    assert model.fit(rows)[-1].coef_.shape == (1, 7)
