"""People with several rows, protected whole: laws of fits that replay on neighbors cannot give."""

import math

import numpy as np
import pandas as pd
import pytest
import sklearn
from people_kinds import (
    KINDS,
    N_FEATURES,
    N_PEOPLE,
    SECRET,
    assert_close,
    fitted,
    rows_of_people,
)
from sklearn import model_selection
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import skdp
from skdp.federated import Federation
from skdp.model_selection import DPGridSearch, privacy_spent
from skdp.units import Entry, Interaction, SparseRow

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

of_kinds = pytest.mark.parametrize("kind", KINDS)


def test_a_ledger_counts_people(ledger):
    X, _, codes = rows_of_people()
    fitted("pca", X[codes], None, users=codes, privacy_unit="user", ledger=ledger)
    assert ledger.entries()[0]["what"] == f"DPPCA.fit, {N_PEOPLE} users"


@of_kinds
def test_rounding_is_charged_for_all_rows_that_people_may_have(kind):
    facts = {"row_norm": 1.0} if "row_norm" in KINDS[kind]().get_params() else {}
    facts |= {"center": False} if kind == "pca" else {}
    facts |= {"matrix_shape": (80, 50)} if "matrices" in kind else {}
    sensitivities = [
        [one.sensitivity for one in KINDS[kind](**facts, **unit).plan(10**8, 4000).releases]
        for unit in ({"privacy_unit": "user"}, {})
    ]
    many, one_each = (
        np.array([one for one in each if isinstance(one, float)]) for each in sensitivities
    )
    # At this size it exceeds the least rounding.
    assert (many > one_each).any()
    assert (many >= one_each).all()
    assert (many <= 1.2 * one_each).all()


IDS = {
    "strings": lambda codes: [f"p{code:03d}" for code in codes],
    "objects": lambda codes: np.array([f"p{code:03d}" for code in codes], dtype=object),
    "series": lambda codes: pd.Series(codes, index=codes[::-1]),
    "column": lambda codes: codes[:, np.newaxis],
    "floats": lambda codes: codes.astype(float),
}


@pytest.mark.parametrize("ids", IDS)
def test_ids_are_integers_or_strings_in_any_container(ids):
    X, _, codes = rows_of_people()
    facts = {"epsilon": math.inf, "random_state": SECRET, "privacy_unit": "user"}
    expected = fitted("pca", X[codes], None, users=codes, **facts)
    assert_close(fitted("pca", X[codes], None, users=IDS[ids](codes), **facts), expected, 0.0)


BAD = {
    "none": (None, "privacy_unit='user' needs users"),
    "too few": (np.arange(5), "users has 5 ids"),
    "missing": (np.where(np.arange(N_PEOPLE) == 3, np.nan, 1.0), "NaN"),
    "mixed": ([*range(N_PEOPLE - 1), "Jane"], "all integers or all strings"),
    "fractions": (np.linspace(0, 1, N_PEOPLE), "fractions"),
    "a table": (np.zeros((N_PEOPLE, 2)), "must be 1-D"),
}


@of_kinds
@pytest.mark.parametrize("bad", BAD)
def test_bad_ids_are_refused_before_anything_is_spent(kind, bad, monkeypatch):
    X, y, _ = rows_of_people()
    users, text = BAD[bad]
    monkeypatch.setattr("skdp.privacy.PrivacyBudget.of", lambda *_: pytest.fail("was opened"))
    with pytest.raises(ValueError, match=text) as refused:
        fitted(kind, X, y, users=users, privacy_unit="user")
    assert "Jane" not in str(refused.value)


@of_kinds
def test_ids_without_the_unit_are_refused(kind):
    X, y, _ = rows_of_people()
    with pytest.raises(ValueError, match="pass privacy_unit='user'"):
        fitted(kind, X, y, users=np.arange(N_PEOPLE))


def test_what_is_too_much_for_few_people_counts_people():
    X, _, codes = rows_of_people()
    with pytest.raises(ValueError, match=r"min\(n_users, n_features\)=2, got n_users=2 and n_fea"):
        skdp.DPPCA(3, privacy_unit="user").fit(X[codes], users=codes % 2)


def test_who_does_not_protect_people_says_so():
    X, y, _ = rows_of_people()
    for users in (None, np.arange(N_PEOPLE)):
        with pytest.raises(ValueError, match="is not for DPLowRankFactorizer: make one row for ea"):
            skdp.DPLowRankFactorizer(2, privacy_unit="user").fit(X, users=users)
    with pytest.raises(ValueError, match="unit='owner' protects all rows of an owner"):
        Federation(skdp.DPPCA(2, privacy_unit="user"), n_rows=90, n_features=4, owners=3)
    facts = {"shape": (5, 4), "privacy_unit": "user"}
    for make, more in (
        (skdp.DPStreamingFactorizer, {}),
        (skdp.DPContinualFactorizer, {"horizon": 3}),
    ):
        with pytest.raises(ValueError, match="to protect a person, add up its updates"):
            make(2, **facts, **more).partial_fit(X[:5])
    with pytest.raises(ValueError, match="choose 'auto'"):
        skdp.DPTruncatedSVD(2, privacy_unit="user", solver="alternating").fit(X, users=y)
    entries = Entry(bounds=(0, 1)), Interaction(), SparseRow(bounds=(0, 1), max_entries=3)
    smaller = [skdp.DPTruncatedSVD(2, privacy_unit=unit) for unit in entries]
    for other in (*smaller, skdp.DPTraceRegressor(privacy_unit="response", response_bound=1.0)):
        targets = (y,) if isinstance(other, skdp.DPTraceRegressor) else ()
        rows = X[:, :, np.newaxis] if targets else X
        with pytest.raises(ValueError, match="leave users out, and make one row for each person"):
            other.fit(rows, *targets, users=np.arange(N_PEOPLE))
    with pytest.raises(ValueError, match="needs users"):
        DPGridSearch(pipeline(), {"dppca__n_components": [1, 2]}).fit(X, y)


def pipeline(unit="user", **more):
    first = FunctionTransformer(np.tanh)
    scaler = skdp.DPStandardScaler(bounds=(-1, 1), privacy_unit=unit)
    classes = {"classes": [0, 1, 2], "privacy_unit": "record" if unit == "row" else unit}
    # Public bounds leave no branch to released values.
    pca = skdp.DPPCA(2, mean_norm=2.0, row_norm=2.0, privacy_unit=unit)
    steps = first, scaler, pca, skdp.DPLogisticRegression(**classes)
    return skdp.make_dp_pipeline(*steps, **more)


def test_a_pipeline_protects_people_whole():
    X, y, codes = rows_of_people()
    facts = {"epsilon": math.inf, "random_state": SECRET}
    once = pipeline("row", **facts).fit(X, y)
    often = pipeline(**facts).fit(X[codes], y[codes], users=codes)
    assert_close(often[-1], once[-1], 1e-3)


@pytest.mark.parametrize("routing", [False, True])
def test_a_pipeline_within_another_one_gets_ids(routing):
    X, y, codes = rows_of_people()
    X, y = X[codes], y[codes]
    first = skdp.make_dp_pipeline(skdp.DPStandardScaler(privacy_unit="user"), epsilon=math.inf)
    whole = make_pipeline(first, clone(pipeline(epsilon=math.inf)))
    assert first.fit_transform(X, users=codes).shape == X.shape
    with sklearn.config_context(enable_metadata_routing=routing):
        prefixes = ("",) if routing else ("dppipeline-1__", "dppipeline-2__")
        whole.fit(X, y, **{f"{prefix}users": codes for prefix in prefixes})
    assert {step.privacy_spent_.unit for _, step in whole.steps} == {"user"}


def test_a_pipeline_tells_nothing_of_the_number_of_rows(tmp_path):
    X, y, codes = rows_of_people()
    path = tmp_path / "ledger"
    ledger = skdp.PrivacyLedger.create(path, dataset="x", epsilon=9.0, delta=1e-5, unit="user")
    model = pipeline(ledger=ledger).fit(X[codes], y[codes], users=codes)
    assert ledger.entries()[0]["what"] == f"DPPipeline.fit, {N_PEOPLE} users"
    planned = pipeline().plan(N_PEOPLE, N_FEATURES)
    assert planned.unit == model.privacy_unit == model.privacy_spent_.unit == "user"
    names = [one.name for one in planned.releases]
    assert [one.name for one in model.privacy_spent_.releases] == names
    few = pipeline().fit(X, y, users=np.arange(N_PEOPLE))
    shares = [
        [(one.name, one.share) for one in each.privacy_spent_.releases] for each in (few, model)
    ]
    assert shares[0] == shares[1]


@pytest.mark.parametrize("is_alone", [False, True])
def test_a_pipeline_hands_ids_to_personal_models(is_alone, tmp_path):
    X, y, codes = rows_of_people()
    path = tmp_path / "ledger"
    ledger = skdp.PrivacyLedger.create(path, dataset="x", epsilon=9.0, delta=1e-5, unit="user")
    first = FunctionTransformer() if is_alone else skdp.DPStandardScaler(privacy_unit="user")
    personal = skdp.DPPersonalizedRegressor(2, require_groups=True)
    model = skdp.make_dp_pipeline(first, personal, ledger=ledger)
    assert model.plan(N_PEOPLE, N_FEATURES).unit == model.privacy_unit == "user"
    with pytest.raises(ValueError, match="needs users"):
        model.fit(X[codes], y[codes])
    assert not ledger.entries()
    model.fit(X[codes], y[codes], users=codes)
    assert ledger.entries()[0]["what"] == f"DPPipeline.fit, {N_PEOPLE} users"
    assert model[-1].privacy_spent_.unit == model.privacy_spent_.unit == "user"
    rows = model[:-1].transform(X[codes])
    assert model[-1].score(rows, y[codes], users=codes) <= 1


def test_units_of_the_steps_of_a_pipeline_do_not_mix():
    X, y, codes = rows_of_people()
    mixed = skdp.make_dp_pipeline(
        skdp.DPStandardScaler(), skdp.DPLogisticRegression(privacy_unit="user")
    )
    with pytest.raises(ValueError, match="row of dpstandardscaler, user of dplog"):
        mixed.fit(X, y, users=np.arange(N_PEOPLE))
    scaler = skdp.DPStandardScaler(privacy_unit="user")
    # Who knows no number of users before a fit, or alone, has no place in a plan.
    for facts in ({}, {"require_groups": True, "user_column": 0}):
        personal = skdp.make_dp_pipeline(scaler, skdp.DPPersonalizedRegressor(2, **facts))
        with pytest.raises(ValueError, match=r"unknown unit of dppersonal.*with require_"):
            personal.fit(X, y, users=np.arange(N_PEOPLE))
    with pytest.raises(ValueError, match="needs users"):
        pipeline().fit(X, y)
    with pytest.raises(ValueError, match="users is for"):
        pipeline("row").fit(X[codes], y[codes], users=codes)


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("routing", [False, True])
def test_searches_of_scikit_learn_hand_ids_on(routing):
    X, y, codes = rows_of_people()
    X, y = X[codes], y[codes]
    model = skdp.DPLogisticRegression(classes=[0, 1, 2], epsilon=30.0, privacy_unit="user")
    split = model_selection.GroupShuffleSplit(2, random_state=0)
    with sklearn.config_context(enable_metadata_routing=routing):
        groups = {} if routing else {"groups": codes}
        params = {"users": codes, **({"groups": codes} if routing else {})}
        scores = model_selection.cross_val_score(model, X, y, cv=split, params=params, **groups)
        search = model_selection.GridSearchCV(
            model, {"row_norm": [2.0, 4.0]}, cv=split, error_score="raise"
        )
        search.fit(X, y, groups=codes, users=codes)
    assert len(scores) == 2
    assert search.best_estimator_.privacy_spent_.unit == "user"


def test_warnings_count_users():
    X, y, codes = rows_of_people()
    for kind in ("scaler", "classifier", "regression", "matrices", "classes of matrices"):
        with pytest.warns(skdp.PrivacyWarning) as warned:
            fitted(kind, X[codes], y[codes], users=codes % 20, privacy_unit="user", epsilon=0.5)
        texts = " ".join(str(one.message) for one in warned)
        assert "users, 20" in texts
        assert "record" not in texts
        assert "20 rows" not in texts


SPLITS = {
    "by places": (model_selection.KFold(3), False),
    "a number": (3, False),
    "by numbers of rows": (model_selection.GroupKFold(3), False),
    "by ids": (model_selection.GroupShuffleSplit(3, random_state=0), True),
    "by shuffled ids": (model_selection.GroupKFold(3, shuffle=True, random_state=0), True),
}


# Folds by places do not look at groups, and say so.
@pytest.mark.covered(at_most=1)
@pytest.mark.filterwarnings("ignore:The groups parameter is ignored")
@pytest.mark.parametrize("splits", SPLITS)
def test_searches_are_counted_only_with_folds_that_follow_from_ids(splits):
    X, y, codes = rows_of_people()
    X, y, (cv, is_counted) = X[codes], y[codes], SPLITS[splits]
    model = skdp.DPLogisticRegression(classes=[0, 1, 2], privacy_unit="user")
    search = model_selection.GridSearchCV(model, {"row_norm": [2.0, 4.0]}, cv=cv)
    report = privacy_spent(search.fit(X, y, groups=codes, users=codes))
    assert ("not counted" in str(report)) == (not is_counted)
    # The last fit, and the fits of each candidate.
    units = [one.unit for step in report.steps for one in step.records]
    assert units == ["user"] * (1 + 2 * is_counted)


def test_only_folds_by_ids_are_counted():
    """Folds in which one person's rows move others to other folds are refused."""
    X, y, codes = rows_of_people()
    more = np.append(codes, np.zeros(500, int))
    for is_shuffled, is_fixed in ((True, True), (False, False)):
        cv = model_selection.GroupKFold(
            4, shuffle=is_shuffled, random_state=0 if is_shuffled else None
        )
        before, after = (_folds_of(cv, one) for one in (codes, more))
        assert (np.count_nonzero(before[1:] != after[1:]) == 0) == is_fixed
        model = skdp.DPLogisticRegression(classes=[0, 1, 2], privacy_unit="user")
        search = model_selection.GridSearchCV(model, {"row_norm": [2.0, 4.0]}, cv=cv)
        search.fit(X[codes], y[codes], groups=codes, users=codes)
        assert ("not counted" in str(privacy_spent(search))) == (not is_fixed)


def _folds_of(cv, codes):
    folds = np.empty(N_PEOPLE)
    for number, (_, test) in enumerate(cv.split(codes, groups=codes)):
        folds[codes[test]] = number
    return folds
