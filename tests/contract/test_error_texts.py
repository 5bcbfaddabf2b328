"""What errors on data say: the column, and what helps; they end as sentences do."""

import numpy as np
import pandas as pd
import pytest

import skdp

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

N = 40
X = np.random.default_rng(0).normal(size=(N, 4))
Y = (X[:, 0] > 0).astype(float)
FRAME = pd.DataFrame(X, columns=list("abcd"))
USERS = np.arange(N) % 4


def in_parts(rows, y):
    return skdp.RowBlocks.from_partitions([rows.copy], [len(rows)], 4, y=[y])


SUPERVISED = {
    "linear": lambda y: skdp.DPLinearRegression().fit(X, y),
    "linear, parts": lambda y: skdp.DPLinearRegression().fit(in_parts(X, y)),
    "trace": lambda y: skdp.DPTraceRegressor(1, matrix_shape=(2, 2)).fit(X, y),
    "logistic": lambda y: skdp.DPLogisticRegression(classes=[0, 1]).fit(X, y),
    "logistic, parts": lambda y: skdp.DPLogisticRegression(classes=[0, 1]).fit(in_parts(X, y)),
    "trace classifier": lambda y: skdp.DPTraceClassifier(
        1, matrix_shape=(2, 2), classes=[0, 1]
    ).fit(X, y),
    "personalized": lambda y: skdp.DPPersonalizedRegressor(1).fit(X, y, groups=USERS),
    "a score": lambda y: skdp.DPLinearRegression().fit(X, Y).score(X, y),
    "a score of parts": lambda y: skdp.DPLinearRegression().fit(X, Y).score(in_parts(X, y)),
}


@pytest.mark.covered
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("case", SUPERVISED)
def test_a_record_without_a_response_is_to_be_left_out_and_not_filled(case, value):
    odd = Y.copy()
    odd[7] = value
    with pytest.raises(ValueError, match=r"^Input y contains") as refused:
        SUPERVISED[case](odd)
    text = str(refused.value)
    assert "Fill" not in text
    if "NaN" in text:
        assert "Leave such records out" in text


IMAGES = np.zeros((N, 4, 4, 3))
NUMBERS = {
    "texts": np.where(Y > 0, "yes", "no"),
    "objects": np.array(["secret", *Y[1:]], dtype=object),
    "categories": pd.Series(np.where(Y > 0, "yes", "no"), dtype="category"),
    "nullable": pd.Series([pd.NA, *Y[1:]], dtype="Float64").astype(object),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_responses_of_texts_are_to_become_numbers_or_classes(name):
    for model in (skdp.DPLinearRegression(), skdp.make_dp_pipeline(skdp.DPLinearRegression())):
        with pytest.raises(ValueError, match=r"^y holds texts.* pandas\.to_numeric.*classes") as no:
            model.fit(X, NUMBERS[name])
        assert "secret" not in str(no.value)
    labels = np.asarray(pd.Series(NUMBERS["texts"]))
    assert skdp.DPLogisticRegression(classes=["no", "yes"]).fit(X, labels).coef_.shape == (1, 4)
    texts = pd.to_numeric(pd.Series(Y).astype(str))
    assert skdp.DPLinearRegression().fit(X, texts).coef_.shape == (4,)


@pytest.mark.parametrize("convert", [np.asarray, list])
def test_images_are_to_become_rows(convert):
    images = convert(IMAGES)
    scaler = skdp.DPStandardScaler(bounds=(0, 1))
    for model in (skdp.DPPCA(2), skdp.make_dp_pipeline(scaler, skdp.DPLinearRegression())):
        with pytest.raises(ValueError, match=r"dim 4.*: numpy\.reshape\(X, \(len\(X\), -1\)\)\.$"):
            model.fit(images, Y)
    assert skdp.DPPCA(2).fit(np.reshape(images, (len(images), -1))).n_features_in_ == 48
    rows = np.reshape(images, (len(images), -1))
    assert skdp.DPTraceRegressor(1, matrix_shape=(4, 12)).fit(rows, Y).coef_.shape == (48,)


@pytest.mark.parametrize(
    "model", [skdp.DPPCA(1), skdp.DPLinearRegression(), skdp.make_dp_pipeline(skdp.DPPCA(1))]
)
def test_a_plan_asks_for_a_number_of_features_or_rows_like_them(model):
    with pytest.raises(TypeError, match=r"^n_features must be given, or like: an X of"):
        model.plan(1000)
    assert model.plan(1000, like=np.ones((1, 3))).releases == model.plan(1000, 3).releases


def test_a_refusal_by_a_ledger_says_what_to_pass(tmp_path):
    ledger = skdp.PrivacyLedger.create(
        tmp_path / "ledger", dataset="rows", epsilon=1.0, delta=1e-4, unit="record"
    )
    model = skdp.DPLinearRegression(epsilon=2.0, ledger=ledger)
    with pytest.raises(
        skdp.BudgetError, match=r"Pass a smaller epsilon, as remaining\(.*, or a smaller delta\.$"
    ):
        model.fit(X, Y)


def test_rows_with_gaps_are_to_be_filled():
    odd = X.copy()
    odd[7, 1] = np.nan
    for rows, y in ((odd, Y), (in_parts(odd, Y), None)):
        with pytest.raises(ValueError, match=r"^Input X contains NaN.*\. Fill missing values by"):
            skdp.DPLinearRegression().fit(rows, y)


OTHERS = {
    "another order": FRAME[list("dcba")],
    "another name": FRAME.rename(columns={"a": "e"}),
    "a name less": FRAME[list("abc")],
    "names of two types": FRAME.set_axis([0, "b", "c", "d"], axis=1),
}


@pytest.mark.parametrize("case", OTHERS)
def test_texts_on_names_of_features_end_in_no_lone_period(case):
    fitted = skdp.DPTruncatedSVD(1, row_norm=1.0).fit(FRAME)
    with pytest.raises((TypeError, ValueError), match=r"^(The feature|Feature) names") as refused:
        fitted.transform(OTHERS[case])
    last = str(refused.value).splitlines()[-1]
    assert last.strip(" .")
    # A list of names ends with a name.
    assert last.endswith(".") or last.startswith("- ")
    assert not last.startswith("- ") or last[2:] in "abcde"
