"""Pipelines with one budget: what they cost, what they refuse, and what they leave."""

import math
import pickle
import warnings
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, dok_array, dok_matrix
from sklearn.base import clone, is_classifier
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    LabelEncoder,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)
from small_pipelines import WithTail, way_of

from skdp import (
    DPPCA,
    BudgetError,
    DPLinearRegression,
    DPLogisticRegression,
    DPLowRankFactorizer,
    DPPipeline,
    DPStandardScaler,
    DPTraceRegressor,
    DPTruncatedSVD,
    PrivacyWarning,
    RowBlocks,
    make_dp_pipeline,
    privacy_spent,
)
from skdp.model_selection import DPGridSearch, epsilon_curve, matched_noise, private_score
from skdp.privacy import PrivacyBudget, gaussian_dp
from skdp.units import Entry, SparseRow

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

SEED = 2**100 + 7
GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((300, 4)) * [3, 2, 1, 50]
Y = np.where(X[:, 0] + GENERATOR.standard_normal(300) > 0, "yes", "no")
CLASSIFIER = DPLogisticRegression(classes=["no", "yes"])
THREE = (DPStandardScaler(), DPPCA(2), CLASSIFIER)
TEXTS = [f"one {number} two" for number in range(300)]
WORDS = CountVectorizer(vocabulary={"one", "two", "7"}, lowercase=False)


def three(**more):
    return make_dp_pipeline(*map(clone, THREE), **more)


# What it costs


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 30.0])
def test_the_records_of_the_steps_compose_to_the_whole(epsilon):
    with watched_records() as records:
        spent = three(epsilon=epsilon, delta=1e-5).fit(X, Y).privacy_spent_
    assert len(records) == 3
    composed = records[0].compose(*records[1:], same_unit=True)
    # What is composed is rounded up; each step has spent exactly its share.
    assert spent.mu <= composed.mu <= spent.mu * (1 + 2e-9)
    assert math.fsum(record.mu**2 for record in records) == pytest.approx(spent.mu**2, rel=1e-14)
    assert (spent.delta_tail, spent.adjacency) == (composed.delta_tail, composed.adjacency)
    whole = gaussian_dp.mu_from_epsilon_delta(epsilon, 1e-5)
    assert spent.mu == whole
    assert math.fsum(line.share for line in spent.releases) == pytest.approx(1, abs=1e-8)
    assert (spent.epsilon, spent.delta, spent.unit) == (epsilon, 1e-5, "record")


def watched_records():
    """Give the list of the records of all budgets that are spent inside."""
    records, spent = [], PrivacyBudget.spent

    class Watch:
        def __enter__(self):
            self.patch = patch.object(PrivacyBudget, "spent", keep)
            self.patch.start()
            return records

        def __exit__(self, *raised):
            self.patch.stop()

    def keep(budget):
        record = spent(budget)
        # That of the whole, before anything is released, is none of a step.
        records.extend([record] if record.releases else [])
        return record

    return Watch()


def shares_in(record):
    names = {line.name.partition(":")[0] for line in record.releases}
    return {
        name: round(math.fsum(r.share for r in record.releases if r.name.startswith(name)), 6)
        for name in names
    }


@pytest.mark.parametrize(
    ("steps", "given", "expected"),
    [
        (THREE, None, [0.25, 0.25, 0.5]),
        ((DPStandardScaler(bounds=(-9, 9)), *THREE[1:]), None, [0.15, 0.25, 0.6]),
        (THREE, {"dppca": 0.1}, [0.25, 0.1, 0.65]),
        (THREE, {"dplogisticregression": 0.7}, [0.25, 0.05, 0.7]),
        (THREE, dict(zip(["dpstandardscaler", "dppca"], [0.3, 0.3], strict=True)), [0.3, 0.3, 0.4]),
        ((THREE[0], Normalizer(), CLASSIFIER), None, [0.25, 0.75]),
        ((DPTruncatedSVD(2), CLASSIFIER), {"dptruncatedsvd": 0.5}, [0.5, 0.5]),
        ((CLASSIFIER,), None, [1.0]),
        ((CLASSIFIER,), {"dplogisticregression": 1}, [1.0]),
    ],
)
def test_steps_spend_their_shares(steps, given, expected):
    pipeline = make_dp_pipeline(*steps, shares=given).fit(X, Y)
    assert sorted(shares_in(pipeline.privacy_spent_).values()) == sorted(expected)


@pytest.mark.parametrize(
    ("steps", "shares", "error"),
    [
        (THREE, {"pca": 0.5}, "'pca', no private step: these are dpstandardscaler, dppca"),
        (THREE, {"dppca": 0.0}, "shares.'dppca'. must be a number in .0, 1., got 0.0"),
        (THREE, {"dppca": -0.1}, "got -0.1"),
        (THREE, {"dppca": True}, "got True"),
        (THREE, {"dppca": np.True_}, "got <bool"),
        (THREE, {"dppca": np.array(0.5)}, "got <ndarray>"),
        (THREE, {"dppca": Fraction(10**400, 3)}, "in .0, 1., got Fraction"),
        (THREE, {"dppca": Fraction(1, 10**400)}, "in .0, 1., got Fraction"),
        (THREE, {"dppca": "half"}, "got 'half'"),
        (THREE, {"dppca": math.nan}, "got nan"),
        (THREE, {"dppca": 0.9}, "leave a part for 'dplogisticregression'"),
        ((CLASSIFIER,), {"dplogisticregression": 0.5}, "must add to 1"),
        ((DPTruncatedSVD(2), DPTraceRegressor(), CLASSIFIER), None, "must be the last"),
        ((Normalizer(), DPTraceRegressor()), {"normalizer": 0.5}, "no private step"),
        (THREE, [0.2, 0.2, 0.6], "'shares' parameter"),
    ],
)
def test_shares_that_make_no_budget_are_refused(steps, shares, error):
    released = patch.object(PrivacyBudget, "_begin", side_effect=AssertionError)
    with released, pytest.raises((ValueError, TypeError), match=error):
        make_dp_pipeline(*steps, shares=shares).fit(X, Y)


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble, Fraction])
def test_shares_mean_the_same_in_every_type_of_number(kind):
    given = {"dppca": kind(0.375)}
    one, other = (
        three(shares=shares, random_state=SEED).fit(X, Y) for shares in (given, {"dppca": 0.375})
    )
    assert one.shares is given
    assert one.privacy_spent_ == other.privacy_spent_
    np.testing.assert_array_equal(one[-1].coef_, other[-1].coef_)
    whole = make_dp_pipeline(CLASSIFIER, shares={"dplogisticregression": np.int8(1)})
    assert whole.fit(X, Y).privacy_spent_.epsilon == 1.0


def test_a_tail_of_delta_is_set_aside():
    pipeline = make_dp_pipeline(DPPCA(2), WithTail(), delta=1e-5).fit(X, X[:, 0])
    spent = pipeline.privacy_spent_
    assert 0 < spent.delta_tail < 1e-5
    assert spent.delta_tail == pytest.approx(pipeline._cost().delta_tail)
    assert spent.epsilon_at(1e-5) <= 1 + 1e-9


def test_an_infinite_epsilon_adds_no_noise():
    pipeline = make_dp_pipeline(DPStandardScaler(clip=None), CLASSIFIER, epsilon=np.inf).fit(X, Y)
    theirs = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y)
    np.testing.assert_allclose(pipeline[-1].coef_, theirs[-1].coef_, atol=0.01)
    assert pipeline.privacy_spent_.mu == math.inf


# One plan


SPARSE = DPStandardScaler(with_mean=False), DPTruncatedSVD(2), CLASSIFIER
PLANNED = [
    (THREE, X),
    (THREE, X.astype(np.float32)),
    (THREE, pd.DataFrame(X)),
    ((DPStandardScaler(bounds=(-9, 9)), PolynomialFeatures(2), CLASSIFIER), X),
    ((Normalizer(), DPPCA(2, row_norm=1, mean_norm=1), CLASSIFIER), csr_array(X)),
    (SPARSE, csr_array(X)),
    (SPARSE, X),
    *(
        ((WORDS, DPTruncatedSVD(2), CLASSIFIER), of_texts(TEXTS))
        for of_texts in (list, np.array, pd.Series)
    ),
]


@pytest.mark.covered(at_most=4)
@pytest.mark.parametrize(("steps", "rows"), PLANNED)
def test_what_is_planned_is_released(steps, rows):
    pipeline = make_dp_pipeline(*steps, shares={"dplogisticregression": 0.5})
    plan = pipeline.plan(*X.shape, like=rows)
    spent = pipeline.fit(rows, Y).privacy_spent_
    taken = way_of(plan, spent.releases)
    for planned, released in zip(taken, spent.releases, strict=True):
        assert planned.share == pytest.approx(released.share, rel=1e-6)
        if planned.sensitivity is not None:
            assert planned.sensitivity == pytest.approx(released.sensitivity, rel=1e-12)
            assert planned.noise_std == pytest.approx(released.noise_std, rel=1e-6)
    assert plan.mu == pytest.approx(spent.mu, rel=1e-6)


def test_behind_a_released_width_a_step_is_one_line():
    pipeline = make_dp_pipeline(DPStandardScaler(), DPPCA(0.9), Normalizer(), CLASSIFIER)
    plan = pipeline.plan(*X.shape)
    usual, *_ = repr(plan).partition("or, as released values say")
    assert usual.rstrip().endswith("  0.5000  follows dppca.n_components")
    fitted = pipeline.fit(X, Y)
    shares = shares_in(fitted.privacy_spent_)
    assert shares == {"dpstandardscaler": 0.25, "dppca": 0.25, "dplogisticregression": 0.5}


def test_a_plan_reads_no_values_and_needs_classes():
    nothing = np.full(X.shape, np.nan)
    assert repr(three().plan(*X.shape, like=nothing)) == repr(three().plan(*X.shape))
    for wrong in ({"n_samples": 0}, {"n_features": 5}):
        with pytest.raises(ValueError, match=r"n_samples|n_features"):
            three().plan(**{"n_samples": 300, "n_features": 4, "like": X, **wrong})
    with pytest.raises(TypeError, match="like"):
        three().plan(300, 4, like="X")
    with pytest.raises(ValueError, match="pass classes"):
        three(shares={}).set_params(dplogisticregression__classes=None).plan(*X.shape)


# One charge


def test_the_whole_is_charged_once(ledger):
    pipeline = three(epsilon=2.0, ledger=ledger).fit(X, Y)
    (entry,) = ledger.entries()
    assert (entry["epsilon"], entry["what"]) == (2.0, "DPPipeline.fit, 300 records")
    spent = pipeline.privacy_spent_
    with pytest.raises(BudgetError):
        pipeline.set_params(epsilon=2000.0).fit(X, Y)
    assert len(ledger.entries()) == 1
    assert pipeline.privacy_spent_ is spent


@pytest.mark.parametrize("n_releases", range(6))
def test_an_error_after_the_charge_leaves_what_was_there(ledger, n_releases):
    """Killed at its first releases or later, a fit is charged once, and leaves nothing."""
    pipeline, publish, made = three(ledger=ledger), PrivacyBudget._publish, []

    def stop(budget, release, value):
        made.append(release)
        if len(made) > 3 * n_releases:
            raise KeyboardInterrupt
        return publish(budget, release, value)

    before = dict(vars(pipeline))
    with patch.object(PrivacyBudget, "_publish", stop), pytest.raises(KeyboardInterrupt):
        pipeline.fit(X, Y)
    assert vars(pipeline) == before
    assert len(ledger.entries()) == 1
    for _, step in pipeline.steps:
        assert not hasattr(step, "privacy_spent_")
        assert not hasattr(step, "n_features_in_")


@pytest.mark.parametrize("place", ["_run.with_one_record", "_run.warn_of_privacy"])
def test_killed_before_its_steps_forget_their_seeds_a_fit_leaves_nothing(place):
    pipeline = three(random_state=SEED)
    before = dict(vars(pipeline))
    stopped = patch(f"skdp.pipeline.{place}", side_effect=KeyboardInterrupt)
    with stopped, pytest.raises(KeyboardInterrupt):
        pipeline.fit(X, Y)
    assert vars(pipeline) == before


def test_killed_before_the_first_release_nothing_is_charged(ledger):
    stopped = patch.object(PrivacyBudget, "_begin", side_effect=KeyboardInterrupt)
    with stopped, pytest.raises(KeyboardInterrupt):
        three(ledger=ledger).fit(X, Y)
    assert ledger.entries() == []


BAD_LABELS = {
    "none": (None, "requires y"),
    "too few": (Y[:-1], "inconsistent"),
    "unknown": (np.where(np.arange(300) == 7, "secret", Y), "not among classes"),
    "fractions": (X[:, 0], "Unknown label type"),
}


@pytest.mark.parametrize("name", BAD_LABELS)
def test_all_steps_check_y_before_anything_is_charged(ledger, name):
    labels, error = BAD_LABELS[name]
    with pytest.raises(ValueError, match=error) as refused:
        three(ledger=ledger).fit(X, labels)
    assert "secret" not in str(refused.value)
    assert ledger.entries() == []


@pytest.mark.parametrize("y", [np.where(X[:, 0] > 1, np.nan, 1.0), Y, X])
def test_responses_of_the_last_step_are_checked_before_anything_is_charged(ledger, y):
    with pytest.raises((ValueError, TypeError)):
        make_dp_pipeline(DPStandardScaler(), DPTraceRegressor(), ledger=ledger).fit(X, y)
    assert ledger.entries() == []


def centered(rows):
    return rows - rows.mean(axis=0)


def with_entry(value):
    rows = X.copy()
    rows[3, 1] = value
    return rows


@pytest.mark.parametrize(
    ("steps", "rows", "error"),
    [
        (THREE, with_entry(np.nan), "NaN"),
        (THREE, with_entry(np.inf), "infinity"),
        (THREE, X[:, 0], "1D array"),
        (THREE, RowBlocks(lambda: iter([X]), shape=X.shape), "RowBlocks"),
        ((DPStandardScaler(), DPPCA(9), CLASSIFIER), X, "n_components=9"),
        ((DPStandardScaler(bounds=(3, 2)), CLASSIFIER), X, "bounds"),
        ((DPStandardScaler(), DPPCA(2, solver="none"), CLASSIFIER), X, "solver"),
        ((Normalizer(), DPStandardScaler(), CLASSIFIER), with_entry(np.nan), "NaN"),
        ((FunctionTransformer(lambda rows: 1 / 0), *THREE), X, "division by zero"),
        ((FunctionTransformer(np.ravel), DPStandardScaler(), CLASSIFIER), X, "row for each"),
        ((FunctionTransformer(np.emath.sqrt), CLASSIFIER), X, "real numbers"),
        ((DPPCA(2), FunctionTransformer(np.rint), CLASSIFIER), X, "before the first private step"),
        ((FunctionTransformer(centered), DPStandardScaler(), CLASSIFIER), X, "by itself"),
        ((FunctionTransformer(np.cumsum, kw_args={"axis": 0}), *THREE), X, "by itself"),
        ((FunctionTransformer(lambda rows: rows / rows.max()), *THREE), X, "by itself"),
        ((DPStandardScaler(), "drop", CLASSIFIER), X, "'drop' would leave"),
    ],
)
def test_what_a_step_would_refuse_is_refused_before_anything_is_charged(ledger, steps, rows, error):
    shares = {"dpstandardscaler-1": 0.5} if isinstance(steps[-1], DPStandardScaler) else None
    with pytest.raises(ValueError, match=error):
        make_dp_pipeline(*steps, shares=shares, ledger=ledger).fit(rows, Y)
    assert ledger.entries() == []


def of_frame(function):
    return lambda rows: function(pd.DataFrame(rows)).to_numpy(rows.dtype)


def without_gaps(rows):
    filled = rows.copy()
    filled[np.isnan(rows)] = np.nanmean(np.where(np.isinf(rows), 0.0, rows))
    return filled


MIXING = {
    "nanmean": without_gaps,
    "mean": of_frame(lambda rows: rows.fillna(rows.mean())),
    "ffill": of_frame(lambda rows: rows.ffill()),
    "bfill": of_frame(lambda rows: rows.bfill()),
    "clip": lambda rows: np.clip(rows, *(rows.mean(0) + k * rows.std(0) for k in (-3, 3))),
    "median": lambda rows: np.minimum(rows, 9 + np.median(rows, axis=0)),
    "quantile": lambda rows: np.minimum(rows, np.quantile(rows, 0.99, axis=0)),
    "maximum": lambda rows: rows / max(1, np.nanmax(rows)),
    "minimum": lambda rows: rows - min(0, np.nanmin(rows)),
    "small minimum": lambda rows: rows - min(-10, np.nanmin(rows)),
    "zeros": lambda rows: np.where(rows == 0, rows.mean(), rows),
    "branch": lambda rows: rows * rows.dtype.type(0.5) if (rows > 100).any() else rows,
    "signs": lambda rows: rows if (rows < 0).any() else np.sqrt(rows),
    "equal": lambda rows: np.unique(rows, axis=0),
    "order": lambda rows: np.sort(rows, axis=0),
    "backwards": lambda rows: rows[::-1],
}
BY_ROWS = {
    "gaps": np.nan_to_num,
    "clip": lambda rows: np.clip(rows, 0, 1),
    "log": np.log,
    "ffill": of_frame(lambda rows: rows.ffill(axis=1)),
    "means": lambda rows: rows - rows.mean(axis=1, keepdims=True),
    "positive": lambda rows: 1 / 0 if (rows < 0).any() else np.sqrt(rows),
    "product": lambda rows: rows @ np.eye(rows.shape[1], dtype=rows.dtype)[::-1] - rows,
}
CONTAINERS = {
    "float64": np.asarray,
    "float32": np.float32,
    "list": np.ndarray.tolist,
    "parts": lambda rows: RowBlocks.from_partitions([rows.copy] * 2, [len(rows)] * 2, 4),
}


@pytest.mark.covered
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("name", MIXING)
def test_functions_that_mix_rows_are_refused(ledger, name, container):
    steps = FunctionTransformer(MIXING[name]), DPStandardScaler()
    rows = CONTAINERS[container](np.abs(X))
    with pytest.raises(ValueError, match="by itself"):
        make_dp_pipeline(*steps, ledger=ledger).fit(rows)
    assert ledger.entries() == []


@pytest.mark.covered
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("name", BY_ROWS)
def test_functions_of_single_rows_are_taken(name, container):
    steps = FunctionTransformer(BY_ROWS[name]), DPStandardScaler()
    make_dp_pipeline(*steps).fit(CONTAINERS[container](np.abs(X)))


MIXING_TEXTS = {
    "mode": lambda rows: rows.fillna(rows["town"].mode()[0]),
    "ffill": lambda rows: rows.ffill(),
    "first": lambda rows: rows.assign(town=rows["town"].iloc[0]),
}


def first_town(rows):
    return (rows[["town"]].fillna("") == "").to_numpy(float)


@pytest.mark.parametrize("kind", [str, object])
def test_functions_that_mix_texts_are_refused(kind):
    frame = pd.DataFrame({"town": np.resize(["n", "s"], len(X)), "age": X[:, 0]})
    frame = frame.astype({"town": kind})
    make_dp_pipeline(FunctionTransformer(first_town), DPStandardScaler()).fit(frame)
    for mix in MIXING_TEXTS.values():
        step = FunctionTransformer(lambda rows, mix=mix: first_town(mix(rows)))
        with pytest.raises(ValueError, match="by itself"):
            make_dp_pipeline(step, DPStandardScaler()).fit(frame)


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("mix", [*MIXING_TEXTS.values(), None])
@pytest.mark.parametrize("column", ["town", "code"])
def test_an_encoder_does_not_hide_that_a_function_mixes_rows(ledger, mix, column):
    codes = np.resize([3.0, 4.0, np.nan], len(X))
    frame = pd.DataFrame({"code": codes, "town": np.resize(["n", "s", None], len(X))})
    frame = frame.assign(age=X[:, 0])
    encoder = OneHotEncoder(categories=[frame[column].unique()[:2]], handle_unknown="ignore")
    mix = mix and (lambda rows, mix=mix: mix(rows.set_axis(["town"], axis=1)))
    encoded = "encoded", make_pipeline(FunctionTransformer(mix), encoder), [column]
    # It refuses gaps in another column.
    columns = ColumnTransformer([encoded, ("scaled", DPStandardScaler(), ["age"])])
    pipeline = make_dp_pipeline(columns, DPPCA(2), ledger=ledger)
    if mix is None:
        pipeline.fit(frame)
        return
    with pytest.raises(ValueError, match="by itself"):
        pipeline.fit(frame)
    assert ledger.entries() == []


# The default epsilon of a step stands for that of the whole


def test_a_default_that_is_passed_means_the_same_as_one_that_is_not():
    def _plan(**more):
        steps = DPStandardScaler(**more), DPLogisticRegression(classes=[0, 1], **more)
        return make_dp_pipeline(*steps, epsilon=8.0, delta=1e-7).plan(1000, 6)

    assert (
        repr(_plan(epsilon=1.0, delta=1e-6)) == repr(_plan(epsilon=1, delta=1e-6)) == repr(_plan())
    )
    message = (
        r"(?m)^Step 'dpstandardscaler' must keep its default epsilon=1.0: pass epsilon to "
        r"DPPipeline, whose steps share it. For another part of it, pass "
        r"shares={'dpstandardscaler': ...}, from 0 to 1.$"
    )
    with pytest.raises(ValueError, match=message):
        _plan(epsilon=0.5)


# What is refused


REFUSED_STEPS = [
    (DPStandardScaler(epsilon=2.0), "epsilon=1.0: pass epsilon to .*shares="),
    (DPStandardScaler(delta=1e-7), "delta=1e-06: pass delta to "),
    (DPStandardScaler(random_state=SEED), "random_state must be None: pass it to the whole"),
    (StandardScaler(), "DPStandardScaler"),
    (SimpleImputer(), "strategy='mean' may learn .* Use SimpleImputer.strategy=\"constant\""),
    (KNNImputer(), r'or DPStandardScaler.missing="mean"'),
    (SplineTransformer(), "SplineTransformer with knots='uniform' may learn"),
    (SimpleImputer(strategy="constant", keep_empty_features=True, add_indicator=True), "may learn"),
    (PCA(2), "Use DPPCA"),
    (LinearRegression(), "Use DPLinearRegression"),
    (Lasso(), "Use a private step"),
    (MinMaxScaler(), "or a FunctionTransformer with public ends"),
    (OneHotEncoder(), "categories="),
    (OneHotEncoder(categories=[[1], [2], [3], [4]], handle_unknown="warn"), "handle_unknown="),
    (TfidfVectorizer(), "may learn .* or CountVectorizer.vocabulary="),
    (TfidfVectorizer(vocabulary=["a"]), "use_idf=True may learn .* or TfidfVectorizer.vocabulary="),
    (MissingIndicator(), r"'missing-only' may learn .* Use MissingIndicator.features='all'"),
    (CountVectorizer(), "vocabulary="),
    (CountVectorizer(vocabulary=["a"], input="filename"), "of texts"),
    (CountVectorizer(vocabulary=["a"], tokenizer=str.split), "without functions"),
    (np.log1p, "a ufunc is no estimator: pass estimators one by one"),
    (DPPipeline([("a", DPPCA(2))]), "'one': a DPPipeline has a budget of its own"),
    (DPGridSearch(DPPCA(2), {}), "a DPGridSearch has a budget of its own"),
    (make_pipeline(DPPCA(2)), "'one': a Pipeline within a Pipeline is no step. Put its steps"),
    (LabelEncoder(), "Use no encoder, as labels may be texts, or"),
    (KBinsDiscretizer(), r"Use SplineTransformer\(degree=0, extra"),
    (TfidfTransformer(), r"Use Normalizer\(\)"),
    (TransformedTargetRegressor(), "Use func and inverse_func, .*or put it around the whole"),
    (make_union(StandardScaler()), r"may learn from the rows .* Use steps in it that learn not"),
    (DPLogisticRegression(classes=["no", "yes"]), "must be the last"),
    (DPStandardScaler(adjacency="zero_out"), "one adjacency"),
    (DPPCA(2, privacy_unit=Entry((-3, 3))), "protect one row"),
    (DPPCA, r"DPPCA is a class: pass DPPCA\(\)"),
]


@pytest.mark.parametrize(("step", "error"), REFUSED_STEPS)
def test_steps_with_budgets_of_their_own_or_that_learn_are_refused(step, error):
    pipeline = DPPipeline([("one", step), ("last", clone(CLASSIFIER))], shares={"last": 0.5})
    for refuse in (lambda: pipeline.fit(X, Y), lambda: pipeline.plan(*X.shape)):
        with pytest.raises((ValueError, TypeError), match=error) as refused:
            refuse()
        is_nested = isinstance(step, Pipeline)
        assert ("within a Pipeline" in str(refused.value)) == is_nested


def test_all_steps_that_are_refused_are_named_at_once():
    steps = {
        "scale": StandardScaler(),
        "columns": ColumnTransformer(
            [("fill", SimpleImputer(), [0]), ("mine", MinMaxScaler(), [1])], sparse_threshold=0
        ),
        "own": DPPCA(2, epsilon=2.0, delta=1e-7),
        "reduce": PCA(2),
        "last": LogisticRegression(),
    }
    first = ("scale", "own", "reduce", "last")
    with pytest.raises(ValueError, match="Use") as refused:
        DPPipeline([(name, steps[name]) for name in first]).fit(X, Y)
    said = str(refused.value).splitlines()
    wanted = ("DPStandardScaler", "delta=1e-06", "epsilon=1.0", "DPPCA", "DPLogisticRegression")
    assert len(said) == len(wanted)
    assert all(one in line for one, line in zip(wanted, said, strict=True))
    with pytest.raises(ValueError, match="Use") as refused:
        DPPipeline([(name, steps[name]) for name in ("columns", "last")]).plan(*X.shape)
    said = str(refused.value).splitlines()
    assert [line.partition(": ")[0] for line in said] == [
        f"Step '{name}'" for name in ("columns__fill", "columns__mine", "last")
    ]
    with pytest.raises(ValueError, match="DPStandardScaler") as refused:
        DPGridSearch(make_pipeline(StandardScaler(), PCA(2), CLASSIFIER), {}).fit(X, Y)
    assert len(str(refused.value).splitlines()) == 2


def test_a_ledger_of_a_step_is_refused(ledger):
    with pytest.raises(ValueError, match="ledger must be None"):
        make_dp_pipeline(DPPCA(2, ledger=ledger), CLASSIFIER).fit(X, Y)
    with pytest.raises(ValueError, match="Use DPLogisticRegression"):
        make_dp_pipeline(DPPCA(2), LogisticRegression()).fit(X, Y)
    with pytest.raises(ValueError, match="no private step"):
        make_dp_pipeline(Normalizer()).fit(X, Y)


@pytest.mark.parametrize(
    "steps", [[], [("a",)], [DPPCA(2)], [(1, DPPCA(2))], [("a__b", DPPCA(2))], "ab", None]
)
def test_steps_without_names_are_refused(steps):
    with pytest.raises(ValueError, match=r"steps|names"):
        DPPipeline(steps).fit(X, Y)
    with pytest.raises(ValueError, match="not unique"):
        DPPipeline([("a", DPPCA(2)), ("a", DPPCA(2))]).fit(X)
    with pytest.raises(ValueError, match="conflict"):
        DPPipeline([("shares", DPPCA(2))]).fit(X)


@pytest.mark.parametrize("name", ["memory", "verbose", "transform_input"])
def test_parameters_of_a_pipeline_that_mean_nothing_here_are_not_accepted(name):
    with pytest.raises(TypeError, match=name):
        DPPipeline([("a", DPPCA(2))], **{name: None})
    with pytest.raises(TypeError):
        three().fit(X, Y, dppca__y=None)


@pytest.mark.parametrize("name", ["epsilon", "delta", "ledger", "random_state", "adjacency"])
def test_parameters_of_the_guarantee_are_not_searched(name):
    with pytest.raises(ValueError, match="must not be searched"):
        DPGridSearch(three(), {f"dppca__{name}": [1.0]}).fit(X, Y)
    named = DPPipeline([("privacy_unit", DPPCA(2))])
    with pytest.raises(ValueError, match="must not be searched"):
        DPGridSearch(named, {f"privacy_unit__{name}": [1.0]}).fit(X)


# What it leaves


def test_it_looks_like_a_pipeline():
    pipeline = three(random_state=SEED)
    assert is_classifier(pipeline)
    assert len(pipeline) == 3
    assert pipeline["dppca"] is pipeline.named_steps.dppca is pipeline.steps[1][1]
    assert not hasattr(pipeline, "transform")
    assert hasattr(pipeline, "predict_proba")
    assert "dppca" in pipeline._repr_html_()
    fitted = clone(pipeline).fit(X, Y)
    assert type(fitted.pipeline_) is Pipeline
    assert fitted.classes_.tolist() == ["no", "yes"]
    assert fitted.predict_proba(X).shape == (300, 2)
    assert fitted.n_features_in_ == 4
    np.testing.assert_array_equal(fitted.predict(X), fitted.pipeline_.predict(X))
    np.testing.assert_array_equal(
        fitted[:2].transform(X), fitted["dppca"].transform(fitted[0].transform(X))
    )
    assert not hasattr(fitted.steps[0][1], "mean_")
    assert privacy_spent(fitted).spent is fitted.privacy_spent_
    assert {step.status for step in privacy_spent(fitted).steps} == {"private"}
    assert privacy_spent(fitted[:2]).spent is fitted.privacy_spent_
    assert set(pipeline.get_params()) == set(Pipeline(pipeline.steps).get_params()) - {
        *("memory", "verbose", "transform_input")
    } | {"epsilon", "delta", "shares", "ledger", "random_state"}
    assert pipeline.set_params(dppca__n_components=3, epsilon=2.0)["dppca"].n_components == 3


def test_columns_are_those_of_the_first_step_that_is_fitted():
    frame = pd.DataFrame(X, columns=list("abcd"))
    steps = [("none", "passthrough"), ("dppca", DPPCA(2))]
    fitted = DPPipeline(steps).fit(frame)
    assert fitted.n_features_in_ == 4
    np.testing.assert_array_equal(fitted.feature_names_in_, list("abcd"))


METHODS = [
    *("predict", "predict_proba", "predict_log_proba", "decision_function", "score_samples"),
    *("transform", "fit_transform", "inverse_transform", "get_feature_names_out", "score"),
    *("fit_predict", "classes_", "n_features_in_", "feature_names_in_"),
]


@pytest.mark.parametrize(
    "steps", [THREE, THREE[:2], THREE[1:2], (THREE[0], None), (THREE[0], DPLinearRegression())]
)
def test_it_has_what_a_pipeline_has(steps):
    ours, frame = clone(make_dp_pipeline(*steps)), pd.DataFrame(X).add_prefix("x")
    theirs = Pipeline(clone(ours).steps)
    assert [name for name in METHODS if hasattr(ours, name) != hasattr(theirs, name)] == []
    y = Y if is_classifier(ours) else X[:, 0]
    ours.fit(frame, y)
    theirs.fit(frame, y)
    assert [name for name in METHODS if hasattr(ours, name) != hasattr(theirs, name)] == []
    assert list(ours.named_steps) == list(theirs.named_steps)
    assert ours.feature_names_in_.tolist() == theirs.feature_names_in_.tolist()
    if hasattr(ours, "transform"):
        assert list(ours.get_feature_names_out()) == list(theirs.get_feature_names_out())
        assert ours.inverse_transform(ours.transform(frame)).shape == X.shape


def test_a_seed_repeats_a_fit_and_is_not_kept():
    # With little budget a fit of so few rows may well have coefficients of 0, whatever the seed.
    fits = [three(random_state=seed, epsilon=30.0).fit(X, Y) for seed in (SEED, SEED, SEED + 1)]
    coefs = [fit[-1].coef_.tolist() for fit in fits]
    assert coefs[0] == coefs[1] != coefs[2]
    assert fits[0].privacy_spent_ == fits[1].privacy_spent_
    assert all(step.random_state is None for step in fits[0].pipeline_)
    copied = pickle.loads(pickle.dumps(fits[0]))
    assert copied.random_state is None
    assert str(SEED) not in repr(fits[0])
    np.testing.assert_array_equal(copied.predict(X), fits[0].predict(X))


def test_labels_for_classes_are_warned_of_once():
    pipeline = three().set_params(dplogisticregression__classes=None)
    with pytest.warns(PrivacyWarning) as caught:
        pipeline.fit(X, Y)
    assert sum(str(one.message).count("becomes public") for one in caught) == 1
    assert not pipeline.privacy_spent_.enforced
    assert pipeline[-1].classes is None
    assert pipeline.classes_.tolist() == ["no", "yes"]


@pytest.mark.filterwarnings("default::skdp.PrivacyWarning")
def test_a_warning_says_which_step_it_is_of_and_what_share_that_has():
    with pytest.warns(PrivacyWarning) as caught:
        three(epsilon=0.02).fit(X, Y)
    (warning,) = caught
    told = str(warning.message).splitlines()
    for name, share in (("dpstandardscaler", 0.25), ("dppca", 0.25), ("dplogisticregression", 0.5)):
        assert any(
            one.startswith(f"Step '{name}', which has {share} of the budget: ") for one in told
        )
    assert all(one.startswith("Step '") for one in told)
    grid = {"row_norm": [1.0, 2.0]}
    with pytest.warns(PrivacyWarning, match="^A fit, which has 0.74 of the budget: "):
        DPGridSearch(DPPCA(2), grid, epsilon=0.02).fit(X)
    with pytest.warns(
        PrivacyWarning, match="^Rows are taken to be standardized: too few records, 300 "
    ):
        make_dp_pipeline(CLASSIFIER, epsilon=0.02).fit(X, Y)


def test_frozen_steps_and_those_that_learn_nothing_pass():
    public = FrozenEstimator(StandardScaler().fit(GENERATOR.standard_normal((20, 4))))
    pipeline = make_dp_pipeline(Normalizer(), public, DPPCA(2), CLASSIFIER).fit(X, Y)
    statuses = [step.status for step in privacy_spent(pipeline).steps]
    assert statuses == ["private", "learns nothing", "frozen", "private", "private"]
    none = DPPipeline([("no", None), ("pass", "passthrough"), ("last", CLASSIFIER)]).fit(X, Y)
    assert none.score(X, Y) > 0


def test_codes_of_given_categories_learn_nothing():
    rows = GENERATOR.choice(["a", "b"], size=(300, 2)).astype(object)
    rows[5, 0] = "secret"
    codes = OneHotEncoder(categories=[["a", "b"], ["a"]], handle_unknown="ignore")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", PrivacyWarning)
        pipeline = make_dp_pipeline(codes, CLASSIFIER).fit(rows, Y)
    assert pipeline[-1].coef_.shape == (1, 3)
    assert "secret" not in repr(vars(pipeline[0]))
    assert privacy_spent(pipeline).is_private
    mixed = np.empty((300, 2), dtype=object)
    mixed[:, 0], mixed[:, 1] = rows[:, 0], GENERATOR.integers(0, 3, 300)
    codes = OneHotEncoder(categories=[["a", "b"], [0, 1]], handle_unknown="ignore", drop="first")
    assert make_dp_pipeline(codes, CLASSIFIER).fit(mixed, Y)[-1].coef_.shape == (1, 2)


def test_counts_of_words_of_a_public_vocabulary_learn_nothing():
    model = make_dp_pipeline(WORDS, CLASSIFIER, epsilon=np.inf)
    fitted = clone(model).fit(TEXTS, Y)
    assert [step.status for step in privacy_spent(fitted).steps][1] == "learns nothing"
    assert fitted[-1].coef_.shape == (1, 3)
    for refused, said in ((None, "refuses a missing text"), (b"\xff", "text may show values")):
        with pytest.raises(ValueError, match=said):
            clone(model).fit([refused, *TEXTS[1:]], Y)


# Within other things


def test_a_search_takes_the_shares():
    pipeline = three(shares={"dppca": 0.1})
    grid = {"dppca__n_components": [1, 2, 3]}
    search = DPGridSearch(pipeline, grid, epsilon=5.0).fit(X, Y)
    assert search.n_distinct_fits_ == {"dpstandardscaler": 1, "dppca": 1, "dplogisticregression": 3}
    shares = shares_in(search.privacy_spent_)
    assert shares["fit 2"] / shares["fit 1"] == pytest.approx(0.1 / 0.25, rel=1e-3)
    best = search.best_estimator_
    assert type(best) is DPPipeline
    assert best.privacy_spent_ is search.privacy_spent_
    assert best.get_params()["dppca__n_components"] == search.best_params_["dppca__n_components"]
    assert best["dppca"].components_.shape[0] == search.best_params_["dppca__n_components"]
    assert best.predict(X).tolist() == search.predict(X).tolist()
    assert privacy_spent(search).is_private
    assert private_score(search, X, Y, epsilon=5.0).value > 0.4
    single = DPGridSearch(pipeline, {"dppca__whiten": [True]}, epsilon=1.0, random_state=SEED)
    whole = clone(pipeline).set_params(epsilon=1.0, random_state=SEED, dppca__whiten=True)
    assert single.fit(X, Y).privacy_spent_ == whole.fit(X, Y).privacy_spent_
    with pytest.raises(ValueError, match="pass it to the whole"):
        DPGridSearch(three(random_state=SEED), grid).fit(X, Y)


def test_matched_noise_sets_the_epsilon_of_the_whole():
    for estimator in (three(), make_pipeline(Normalizer(), three())):
        matched = matched_noise(estimator, n_samples=1000, n_public=100)
        changed = {
            name
            for name, value in matched.get_params().items()
            if name.endswith("epsilon") and value != 1.0
        }
        assert changed in ({"epsilon"}, {"dppipeline__epsilon"})
    curve = epsilon_curve(three(), X, Y, epsilons=[0.1, 50.0], n_samples=3000, n_repeats=2)
    assert curve.scores.shape == (2, 2)
    no_classes = make_dp_pipeline(DPStandardScaler(), DPLogisticRegression())
    with pytest.raises(ValueError, match="pass classes"):
        epsilon_curve(no_classes, X, Y, epsilons=[1.0], n_samples=3000)
    for step in (DPLowRankFactorizer(2), DPTruncatedSVD(2, privacy_unit=SparseRow(3, (0, 1)))):
        with pytest.raises(ValueError, match=f"={type(step).__name__} with .* cannot be matched"):
            matched_noise(make_dp_pipeline(step), n_samples=1000, n_public=100)


def test_the_output_of_the_last_step_is_set_before_and_after_a_fit():
    steps = DPStandardScaler(bounds=(-9, 9)), DPPCA(2)
    pipeline = make_dp_pipeline(*steps).set_output(transform="pandas")
    assert list(pipeline.fit(X).transform(X)) == ["dppca0", "dppca1"]
    assert list(clone(pipeline).fit(X).transform(X)) == ["dppca0", "dppca1"]
    assert type(pipeline.set_output(transform="default").transform(X)) is np.ndarray
    assert type(pipeline.set_output(transform="polars").transform(X)).__name__ == "DataFrame"
    assert type(pipeline.set_output(transform=None).transform(X)).__module__.startswith("polars")
    assert type(pipeline.fit(X).transform(X)).__module__.startswith("polars")


def test_rows_in_half_precision_do_not_overflow_in_public_steps():
    rows = np.random.default_rng(0).integers(200, 900, (60, 3)).astype(np.float16)
    labels = np.where(rows[:, 0] > rows[:, 1], "yes", "no")
    one = make_dp_pipeline(Normalizer(), clone(CLASSIFIER), epsilon=math.inf)
    halves, singles = (clone(one).fit(rows.astype(kind), labels) for kind in ("f2", "f4"))
    np.testing.assert_array_equal(halves[-1].coef_, singles[-1].coef_)
    for X in (rows, rows.astype("f4"), rows.astype("f8")):
        np.testing.assert_allclose(halves.predict_proba(X), singles.predict_proba(X), rtol=1e-4)


@pytest.mark.parametrize("kind", [dok_array, dok_matrix])
def test_a_sparse_matrix_that_is_a_dict_is_no_dict_of_columns(kind):
    rows = csr_array(np.abs(X) * (X > 1))
    model = make_dp_pipeline(DPTruncatedSVD(2), CLASSIFIER).fit(rows, Y)
    np.testing.assert_array_equal(model.predict(kind(rows)), model.predict(rows))
