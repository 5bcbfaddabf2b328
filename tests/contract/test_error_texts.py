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
