"""Rows, responses and ids are paired by their places: another order of an index is refused."""

import numpy as np
import pandas as pd
import pytest

from skdp import (
    DPPCA,
    DPLinearRegression,
    DPLowRankFactorizer,
    DPPersonalizedRegressor,
    DPStandardScaler,
    PrivacyWarning,
    make_dp_pipeline,
)
from skdp.model_selection import DPGridSearch, private_score
from skdp.units import Entry

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

N = 60
X = pd.DataFrame(np.random.default_rng(0).normal(size=(N, 3)), columns=["a", "b", "c"])
Y, USERS = X["a"].rename("y"), pd.Series(np.arange(N) % 12, name="user")
MODEL = DPLinearRegression(epsilon=np.inf, response_bound=9)
PIPELINE = make_dp_pipeline(DPStandardScaler(), DPLinearRegression(), epsilon=np.inf)
OF_USERS = DPPCA(1, privacy_unit="user")


def in_other_order(column):
    return column.iloc[::-1]


OTHER = in_other_order(Y)
CALLS = {
    "fit": lambda y: MODEL.fit(X, y),
    "fit of a pipeline": lambda y: PIPELINE.fit(X, y),
    "private_score": lambda y: private_score(
        MODEL.fit(X, Y), X, y, scoring="neg_mean_absolute_error", epsilon=1.0
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_responses_in_another_order_are_refused(name):
    CALLS[name](Y)
    with pytest.raises(ValueError, match=r"^y has the index of X in another order.*y\.loc\[X"):
        CALLS[name](OTHER)


@pytest.mark.parametrize("model", [OF_USERS, make_dp_pipeline(OF_USERS)])
def test_ids_in_another_order_are_refused(model):
    model.fit(X, users=USERS)
    with pytest.raises(ValueError, match=r"^users has the index of X in another order"):
        model.fit(X, users=in_other_order(USERS))


def test_both_cures_work_and_say_which_rows_belong_together():
    ordered = MODEL.fit(X, OTHER.loc[X.index])
    np.testing.assert_allclose(ordered.coef_, [1, 0, 0], atol=1e-8)
    assert abs(MODEL.fit(X, OTHER.to_numpy()).coef_[0]) < 0.9


@pytest.mark.parametrize(
    "y",
    [
        OTHER.reset_index(drop=True),
        OTHER.set_axis(np.arange(N) + 5),
        OTHER.set_axis(np.zeros(N)),
        OTHER.to_list(),
    ],
)
def test_other_labels_say_nothing_of_the_order(y):
    MODEL.fit(X, y)


def test_labels_that_cannot_be_compared_are_no_error():
    class Secret:
        def __eq__(self, other):
            raise ValueError("31415")

        __hash__ = object.__hash__

    MODEL.fit(X.set_axis([Secret() for _ in range(N)]), OTHER)


def test_ids_that_are_a_feature_are_refused():
    frame = X.assign(user=USERS)
    model = DPPersonalizedRegressor(0, epsilon=np.inf)
    for call in (
        lambda: model.fit(frame, Y, groups=frame["user"]),
        lambda: OF_USERS.fit(frame, users=frame["user"]),
    ):
        with pytest.raises(ValueError, match=r"The ids of users are column 'user' of X.*X\.drop\("):
            call()
    model.fit(frame.drop(columns="user"), Y, groups=frame["user"])
    OF_USERS.fit(frame.drop(columns="user"), users=frame["user"])


def test_a_search_and_personal_models_refuse_another_order():
    people = DPPersonalizedRegressor(0, epsilon=np.inf).fit(X, Y, groups=USERS)
    for call in (
        lambda: DPGridSearch(DPLinearRegression(), {}).fit(X, OTHER),
        lambda: DPGridSearch(OF_USERS, {}).fit(X, users=in_other_order(USERS)),
        lambda: people.score(X, OTHER, groups=USERS),
        lambda: people.personalize(X, Y, in_other_order(USERS)),
    ):
        with pytest.raises(ValueError, match="has the index of X in another order"):
            call()


def test_ids_in_a_frame_or_beside_their_own_column_are_taken():
    OF_USERS.fit(X, users=USERS.to_frame())
    frame = X.assign(user=USERS)
    beside = DPPersonalizedRegressor(0, epsilon=np.inf, user_column="user")
    beside.fit(frame, Y, groups=frame["user"])


def test_bounds_in_a_series_go_by_its_labels():
    ends = pd.DataFrame({"low": [-4.0, -5, -6], "high": [7.0, 8, 9]}, index=["c", "a", "b"])
    by_label = DPStandardScaler(bounds=(ends["low"], ends["high"]), epsilon=np.inf).fit(X)
    by_name = DPStandardScaler(
        bounds={"a": (-5, 8), "b": (-6, 9), "c": (-4, 7)}, epsilon=np.inf
    ).fit(X)
    clipped = X.mul(1e6)
    np.testing.assert_array_equal(by_label.transform(clipped), by_name.transform(clipped))


@pytest.mark.filterwarnings("default::skdp.PrivacyWarning")
def test_zeros_below_the_bounds_of_entries_are_warned_of(recwarn):
    ratings = np.random.default_rng(0).integers(0, 6, (30, 8)).astype(float)
    DPLowRankFactorizer(1, privacy_unit=Entry((0, 5))).fit(ratings)
    DPLowRankFactorizer(1, privacy_unit=Entry((1, 5)), missing="middle").fit(ratings)
    assert not [one for one in recwarn if "missing='middle'" in str(one.message)]
    with pytest.warns(PrivacyWarning, match="pass missing='middle' to predict them"):
        DPLowRankFactorizer(1, privacy_unit=Entry((1, 5))).fit(ratings)
