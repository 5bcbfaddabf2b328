"""Encoders that refuse unknown categories, and imputers that would drop empty columns."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from skdp import (
    DPPCA,
    DPLogisticRegression,
    DPStandardScaler,
    RowBlocks,
    make_dp_pipeline,
    privacy_spent,
)
from skdp.model_selection import DPGridSearch

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning"),
    pytest.mark.usefixtures("few_steps"),
]

N = 200
GENERATOR = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "age": GENERATOR.uniform(18, 90, N),
        "job": GENERATOR.choice(["a", "b"], N),
        "grade": GENERATOR.choice([2, 5], N),
    }
)
Y = (FRAME["age"] > 50).astype(int).to_numpy()
SECRET = 2**100
LAST = DPLogisticRegression(classes=[0, 1])
PLACES = {
    "columns": lambda jobs, grades: ColumnTransformer(
        [("age", DPStandardScaler(), ["age"]), ("job", jobs, ["job"]), ("grade", grades, ["grade"])]
    ),
    "pipelines in columns": lambda jobs, grades: ColumnTransformer(
        [
            ("job", make_pipeline(SimpleImputer(strategy="constant", fill_value="a"), jobs), [1]),
            ("grade", make_pipeline(grades, DPStandardScaler(with_mean=False)), [2]),
        ]
    ),
}


def pipeline_of(place, *, is_strict=True, **more):
    given = {} if is_strict else {"handle_unknown": "ignore"}
    encoders = [OneHotEncoder(categories=[one], **given) for one in (["a", "b"], [2, 5])]
    return make_dp_pipeline(PLACES[place](*encoders), clone(LAST), **more)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.covered(at_most=1)
def test_a_strict_encoder_is_fitted_as_a_lenient_one(place):
    strict, lenient = (
        pipeline_of(place, is_strict=one, random_state=SECRET).fit(FRAME, Y)
        for one in (True, False)
    )
    np.testing.assert_array_equal(strict[-1].coef_, lenient[-1].coef_)
    np.testing.assert_array_equal(strict.predict(FRAME), lenient.predict(FRAME))
    plan = pipeline_of(place).plan(N, 3, like=FRAME[:0])
    assert plan.mu == pytest.approx(strict.privacy_spent_.mu)
    assert "handle_unknown='ignore'" not in repr(strict.pipeline_) + repr(strict)
    # scikit-learn would name the category.
    with pytest.raises(ValueError, match=r"Found unknown categories\. Call") as refused:
        strict.predict(FRAME.assign(job="4711"))
    assert "4711" not in str(refused.value)
    assert refused.value.__context__ is None


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("column", ["job", "grade"])
@pytest.mark.slow
def test_an_unknown_category_is_refused_unnamed_before_anything_is_spent(ledger, column, kind):
    odd = FRAME.copy()
    odd.loc[7, column] = "4711" if column == "job" else 4711
    for place in PLACES:
        rows = kind(odd)
        model = pipeline_of(place, ledger=ledger)
        searched = DPGridSearch(pipeline_of(place), {}, epsilon=2.0, ledger=ledger)
        for one in (model, searched):
            with pytest.raises(ValueError, match="refuses a category that it was not given") as no:
                one.fit(rows, Y)
            assert "4711" not in str(no.value)
            assert no.value.__context__ is None
    assert ledger.entries() == []


def test_numbers_are_categories_and_behind_a_private_step_they_are_not():
    grades = FRAME[["grade"]].to_numpy(float)
    step = OneHotEncoder(categories=[[2, 5]])
    last = DPStandardScaler(with_mean=False)
    assert make_dp_pipeline(step, last).fit(grades).transform(grades).shape[0] == N
    with pytest.raises(ValueError, match="refuses a category"):
        make_dp_pipeline(step, last).fit(grades + 1)
    behind = make_dp_pipeline(DPPCA(1), step, DPPCA(1))
    with pytest.raises(ValueError, match="put it before the first private step"):
        behind.fit(grades)
    blocks = RowBlocks.from_partitions([lambda: grades], [N], 1)
    with pytest.raises(ValueError, match="needs rows in memory: pass handle_unknown='ignore'"):
        make_dp_pipeline(step, last).fit(blocks)


def test_an_ordinal_encoder_must_take_other_categories():
    codes = OrdinalEncoder(categories=[[2, 5]], encoded_missing_value=-2)
    with pytest.raises(ValueError, match=r"handle_unknown='error'.*Use .*'use_encoded_value'"):
        make_dp_pipeline(codes, DPStandardScaler()).fit(FRAME[["grade"]])
    codes.set_params(handle_unknown="use_encoded_value", unknown_value=-1)
    assert make_dp_pipeline(codes, DPStandardScaler()).fit(FRAME[["grade"]])[-1].scale_ > 0


def test_an_ordinary_pipeline_of_a_strict_encoder_is_not_private():
    encoder = OneHotEncoder(categories=[[2, 5]], sparse_output=False)
    plain = make_pipeline(encoder, DPStandardScaler())
    report = privacy_spent(plain.fit(FRAME[["grade"]]))
    assert "names an unknown category in an error" in report.verdict
    assert not report.is_private


def test_an_empty_column_stays_as_steps_are_fitted_to_public_rows():
    X = GENERATOR.normal(size=(N, 3))
    empty = X.copy()
    empty[:, 1] = np.nan
    fill = SimpleImputer(strategy="constant", fill_value=0.0)
    parts = ColumnTransformer([("fill", fill, [0, 1, 2])], sparse_threshold=0)
    for step in (fill, parts):
        for rows in (X, empty):
            model = make_dp_pipeline(step, DPStandardScaler(), random_state=SECRET).fit(rows)
            assert model[:1].transform(rows).shape == (N, 3)
    plain = make_pipeline(fill, DPStandardScaler()).fit(X)
    assert "keep_empty_features=True" in privacy_spent(plain).verdict
