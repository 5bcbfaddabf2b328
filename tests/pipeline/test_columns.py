"""A ColumnTransformer as the first step of a pipeline with one budget."""

import math
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from joblib import parallel_config
from scipy.sparse import coo_array, csr_array, issparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)
from small_pipelines import way_of

from skdp import (
    DPPCA,
    DPLogisticRegression,
    DPPipeline,
    DPStandardScaler,
    make_dp_pipeline,
    privacy_spent,
)
from skdp.model_selection import DPGridSearch, private_score

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning"),
    pytest.mark.usefixtures("few_steps"),
]

GENERATOR = np.random.default_rng(0)
N = 400
FRAME = pd.DataFrame(
    {
        "age": GENERATOR.integers(18, 90, N),
        "income": GENERATOR.lognormal(3, 1, N),
        "job": GENERATOR.choice(["a", "b", "c"], N),
        "weight": np.where(np.arange(N) == 3, np.nan, GENERATOR.normal(size=N)),
    }
)
Y = (FRAME["age"] > 50).astype(int).to_numpy()
CLASSIFIER = DPLogisticRegression(classes=[0, 1])
JOBS = OneHotEncoder(categories=[["a", "b"]], handle_unknown="ignore")
WEIGHTS = SimpleImputer(strategy="constant", keep_empty_features=True)
SPLINES = SplineTransformer(knots=np.array([[0.0], [50.0], [99.0]]))
PARTS = [
    ("age", DPStandardScaler(bounds=(0, 120)), ["age"]),
    ("income", DPStandardScaler(), ["income"]),
    ("job", JOBS, ["job"]),
    ("weight", WEIGHTS, ["weight"]),
]


def columns(parts=PARTS, **more):
    return ColumnTransformer(list(parts), **{"sparse_threshold": 0, **more})


def pipeline_of(*arguments, epsilon=1.0, ledger=None, **more):
    steps = columns(*arguments, **more), clone(CLASSIFIER)
    return make_dp_pipeline(*steps, epsilon=epsilon, ledger=ledger)


def assert_shares(spent, within_bounds, other):
    """Whether a quarter goes to two parts, as 3 to 5, and the rest to the classifier."""
    shares = [
        math.fsum(one.share for one in spent.releases if one.name.startswith(name))
        for name in (f"columntransformer__{within_bounds}", f"columntransformer__{other}", "dplog")
    ]
    assert shares == pytest.approx([0.25 * 3 / 8, 0.25 * 5 / 8, 0.75], rel=1e-6)


@pytest.mark.slow
def test_it_counts_as_one_step_whose_parts_compose(ledger):
    pipeline = pipeline_of(ledger=ledger)
    plan = pipeline.plan(*FRAME.shape, like=FRAME)
    spent = pipeline.fit(FRAME, Y).privacy_spent_
    assert way_of(plan, spent.releases)
    assert_shares(spent, "age", "income")
    assert len(ledger.entries()) == 1
    fitted = pipeline.pipeline_[0]
    assert type(fitted) is ColumnTransformer
    assert type(fitted.named_transformers_["age"]) is DPStandardScaler
    assert fitted.named_transformers_["age"].privacy_spent_ is spent
    assert privacy_spent(pipeline).is_private
    assert privacy_spent(pipeline).spent is spent
    assert pipeline.predict(FRAME).shape == (N,)
    assert pipeline.feature_names_in_.tolist() == list(FRAME)
    assert pipeline[:1].transform(FRAME).shape == (N, 5)
    given = pipeline.set_params(shares={"columntransformer": 0.5}, ledger=None).fit(FRAME, Y)
    first = [one.share for one in given.privacy_spent_.releases if "dplog" not in one.name]
    assert math.fsum(first) == pytest.approx(0.5, rel=1e-6)


def test_parts_that_choose_do_not_multiply_the_plan():
    scalers = [(str(i), DPStandardScaler(bounds=(-9, 9)), [i]) for i in range(30)]
    plan = make_dp_pipeline(columns(scalers), clone(CLASSIFIER)).plan(200, 30)
    own = DPStandardScaler(bounds=(-9, 9)).plan(200, 1)
    n_others = len(own.branches) - 1
    assert n_others == 2
    assert len(plan.branches) == 1 + 30 * n_others
    assert repr(plan).endswith("more")


NAMED_ENDS = {"weight": (-3, 3), "age": (18, 90)}


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_a_private_step_may_be_the_last_of_a_pipeline_of_columns(ledger, kind):
    numbers = make_pipeline(clone(WEIGHTS), DPStandardScaler(bounds=NAMED_ENDS))
    parts = [("numbers", numbers, ["age", "weight"]), *PARTS[1:3]]
    pipeline, frame = pipeline_of(parts, ledger=ledger), kind(FRAME)
    plan = pipeline.plan(*FRAME.shape, like=frame)
    spent = pipeline.fit(frame, Y).privacy_spent_
    assert way_of(plan, spent.releases)
    assert spent.releases[0].name == (
        "columntransformer__numbers__dpstandardscaler: rough column moments"
    )
    assert_shares(spent, "numbers", "income")
    assert len(ledger.entries()) == 1
    report = privacy_spent(pipeline)
    assert report.is_private
    assert report.spent is spent
    scaler = pipeline[0].named_transformers_["numbers"][-1]
    assert type(scaler) is DPStandardScaler
    assert scaler.privacy_spent_ is spent
    assert scaler.random_state is None
    assert numbers[-1].bounds is NAMED_ENDS
    assert pipeline[:1].transform(frame).shape == (N, 5)
    # The column of weights is the second of them, and the first of the bounds.
    assert 18 < scaler.mean_[0] < 90
    assert -3 <= scaler.mean_[1] <= 3
    search = DPGridSearch(pipeline.set_params(ledger=None), {"dplogisticregression__row_norm": [1]})
    assert (
        search.fit(frame, Y).n_distinct_fits_["columntransformer__numbers__dpstandardscaler"] == 1
    )


def test_without_noise_a_pipeline_of_columns_is_that_of_scikit_learn():
    numbers = make_pipeline(clone(WEIGHTS), DPStandardScaler(clip=None))
    plain = make_pipeline(clone(WEIGHTS), StandardScaler())
    of_parts = [columns([("numbers", one, ["age", "weight"])]) for one in (numbers, plain)]
    model = make_dp_pipeline(of_parts[0], DPPCA(1), epsilon=np.inf).fit(FRAME)
    made, theirs = model[:1].transform(FRAME), of_parts[1].fit_transform(FRAME)
    np.testing.assert_allclose(made, theirs)


def test_bounds_by_name_work_behind_steps_that_keep_columns():
    frame = FRAME[["age", "weight"]]
    ordered = DPStandardScaler(bounds=[(18, 90), (-3, 3)])
    models = [
        make_dp_pipeline(clone(WEIGHTS), scaler, epsilon=np.inf)
        for scaler in (DPStandardScaler(bounds=NAMED_ENDS), ordered)
    ]
    for kind in (pd.DataFrame, pl.DataFrame):
        made = [model.fit(kind(frame)).transform(kind(frame)) for model in models]
        np.testing.assert_array_equal(*made)
        assert repr(models[0].plan(N, 2, like=kind(frame))) == repr(models[1].plan(N, 2))
    with pytest.raises(ValueError, match="X has no names"):
        models[0].fit(frame.to_numpy())
    named = DPStandardScaler(bounds=NAMED_ENDS)
    squares = make_dp_pipeline(clone(WEIGHTS), PolynomialFeatures(2), named)
    with pytest.raises(ValueError, match="or a step before makes other columns"):
        squares.fit(frame)


def roots(rows):
    return np.cbrt(np.asarray(rows))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("is_piped", [False, True])
def test_a_scaler_that_fills_gaps_may_be_a_part(ledger, kind, is_piped):
    scaler = DPStandardScaler(missing="mean", bounds=[(-3, 3)])
    part = make_pipeline(FunctionTransformer(roots), scaler) if is_piped else scaler
    parts = [("weight", part, ["weight"]), *PARTS[:3]]
    frame = kind(FRAME)
    pipeline = pipeline_of(parts, ledger=ledger).fit(frame, Y)
    assert privacy_spent(pipeline).is_private
    plan = pipeline.set_params(ledger=None).plan(*FRAME.shape, like=frame)
    assert way_of(plan, pipeline.privacy_spent_.releases)
    assert np.isfinite(pipeline[:1].transform(frame)).all()
    for name, value in (("weight", np.inf), ("age", np.nan)):
        odd = with_odd(FRAME, name, value)
        with pytest.raises(ValueError, match=f"Column {name} holds"):
            pipeline_of(parts, ledger=ledger).fit(kind(odd), Y)
    assert len(ledger.entries()) == 1


def test_frames_between_steps_of_a_part_and_dates_are_refused_with_the_mend():
    part = make_pipeline(FunctionTransformer(np.cbrt), DPStandardScaler())
    with pytest.raises(
        ValueError, match=r"'columntransformer__age' returned a DataFrame .* validate=True"
    ):
        pipeline_of([("age", part, ["age"])]).fit(FRAME, Y)
    with pytest.raises(
        ValueError,
        match=r"Column age holds dates or durations\. Make days .* - pandas.Timestamp",
    ):
        pipeline_of(PARTS[1:], remainder="passthrough").fit(FRAME.assign(age=pd.Timestamp(0)), Y)


def test_a_plan_by_names_needs_a_like_that_has_them():
    plans = {repr(pipeline_of().plan(N, *d, like=X)) for d in ([4], []) for X in (FRAME[:0], FRAME)}
    assert len(plans) == 1
    for like in (None, FRAME.drop(columns="job").assign(other=1.0)):
        with pytest.raises(ValueError, match="or the like of a plan, lacks the columns"):
            pipeline_of().plan(N, 4, like=like)


@pytest.mark.parametrize(
    "given",
    [FRAME.drop(columns="job"), FRAME.to_numpy(), coo_array(FRAME[["age", "income"]])],
    ids=["frame", "array", "sparse"],
)
def test_errors_of_missing_columns_hold_no_other_error(given):
    pipeline = pipeline_of()
    for call in (partial(pipeline.fit, given, Y), partial(pipeline.plan, given.shape, like=given)):
        with pytest.raises(ValueError, match="lacks the columns") as caught:
            call()
        assert caught.value.__context__ is caught.value.__cause__ is None


def test_columns_by_number_and_the_rest():
    rows = FRAME[["age", "income"]].to_numpy()
    parts = [("pca", DPPCA(1, row_norm=100, mean_norm=100), [0, 1])]
    passed = pipeline_of(parts, remainder="passthrough").fit(np.c_[rows, rows], Y)
    assert passed[-1].coef_.shape == (1, 3)
    assert pipeline_of(parts).plan(N, 4).mu == pytest.approx(passed.privacy_spent_.mu, rel=1e-6)
    dropped = pipeline_of(parts).fit(csr_array(np.c_[rows, rows]), Y)
    assert dropped[-1].coef_.shape == (1, 1)
    public = make_dp_pipeline(columns(PARTS[2:]), CLASSIFIER).fit(FRAME, Y)
    assert public[-1].coef_.shape == (1, 3)
    follows = pipeline_of([("pca", DPPCA(0.9), [0, 1])])
    assert "0.7500  follows columntransformer__pca.n_components" in repr(follows.plan(N, 2))
    assert follows.fit(rows, Y).score(rows, Y) > 0


REFUSED = [
    (columns(remainder=StandardScaler()), "remainder"),
    (columns([("a", columns(), list(FRAME))]), "within another"),
    (columns([("a", DPStandardScaler(), make_column_selector())]), "function may look"),
    (columns([("a", StandardScaler(), ["age"])]), "Use DPStandardScaler"),
    (columns([("a", make_pipeline(DPStandardScaler(), SPLINES), ["age"])]), "must be the last"),
    (columns([("a", make_pipeline(StandardScaler(), DPPCA()), ["age"])]), "Use DPStandardScaler"),
    (columns([("a", make_pipeline(DPPCA(), memory="x"), ["age"])]), "Pipeline within"),
    (columns([("a", make_pipeline(WEIGHTS, DPPCA(epsilon=2.0)), ["age"])]), "default epsilon"),
    (columns([("a", make_pipeline(WEIGHTS, DPPCA(ledger="x")), ["age"])]), "ledger must be None"),
    (
        columns([("a", make_pipeline(WEIGHTS, DPStandardScaler(bounds={"y": (0, 1)})), ["age"])]),
        "for age, and names y",
    ),
    (columns([("a", make_pipeline(columns(PARTS[2:3])), ["job"])]), "Pipeline within"),
    (columns(n_jobs="x"), "The 'n_jobs' parameter of Col"),
    (columns([PARTS[0], PARTS[0]]), "not unique"),
    (
        columns([("a", OneHotEncoder(categories=[["1"]] * 2), ["job"])]),
        "raises ValueError: Shape mism",
    ),
    (columns([("a", DPStandardScaler(epsilon=2.0), ["age"])]), "must keep its default epsilon"),
    (
        columns([("a", DPStandardScaler(), ["nobody"])]),
        "X, or the .* lacks the columns .'nobody'.",
    ),
]


@pytest.mark.parametrize(("step", "error"), REFUSED)
def test_what_would_look_at_values_is_refused(ledger, step, error):
    with pytest.raises(ValueError, match=error):
        make_dp_pipeline(step, CLASSIFIER, ledger=ledger).fit(FRAME, Y)
    assert ledger.entries() == []


def test_columns_where_they_would_look_at_values_are_refused():
    with pytest.raises(ValueError, match="put it before the first private step"):
        make_dp_pipeline(FunctionTransformer(), columns(), CLASSIFIER).fit(FRAME, Y)
    with pytest.raises(ValueError, match="may learn"):
        DPGridSearch(pipeline_of(), {"columntransformer__job__categories": ["auto"]}).fit(FRAME, Y)
    in_pipeline = make_pipeline(columns(PARTS[:2]), CLASSIFIER)
    with pytest.raises(ValueError, match="private parts: pass a DPPipeline"):
        DPGridSearch(in_pipeline, {"dplogisticregression__row_norm": [1.0]}).fit(FRAME, Y)


def with_odd(frame, name, value):
    """Put a value into one row of a column."""
    odd = frame.astype({name: float}) if frame[name].dtype.kind in "iu" else frame.copy()
    odd.loc[7, name] = value
    return odd


# Columns of FRAME, of which one row has NaN, and those that a refusal names.
NAMED = {
    "of a private part": ("age", np.nan, PARTS, "drop", "age"),
    "that are infinite": ("income", np.inf, PARTS, "drop", "income"),
    "that are passed on": ("age", np.nan, PARTS[2:], "passthrough", "age"),
    "that a public part refuses": (
        "age",
        np.nan,
        [*PARTS[1:], ("norm", Normalizer(), ["age", "income"])],
        "drop",
        "age",
    ),
    "of texts": ("age", 7, [*PARTS[3:], ("rest", "passthrough", ["age", "job"])], "drop", "job"),
}


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("case", NAMED)
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_columns_that_hold_no_finite_numbers_are_named_with_the_mend(ledger, kind, case):
    name, value, parts, remainder, named = NAMED[case]
    rows = with_odd(FRAME, name, value)
    rows = pl.DataFrame(rows) if kind == "polars" else rows
    with pytest.raises(ValueError, match=r"^Step|^Input X contains NaN") as refused:
        pipeline_of(parts, ledger=ledger, remainder=remainder).fit(rows, Y)
    text = str(refused.value)
    # Not that of weights, which has NaN, too, but is filled; nor that of jobs, which is encoded.
    assert f" Column {named} holds " in text
    cure = "numpy.clip" if value == np.inf else "SimpleImputer(strategy='constant')"
    assert ("OneHotEncoder(categories=[[" if named == "job" else cure) in text
    assert refused.value.__context__ is None
    assert ledger.entries() == []


# Parts in which 1e200 overflows, in a column beside one with gaps, or in the same.
OVERFLOWS = {
    "beside": [("a", PolynomialFeatures(2), ["a"]), ("b", WEIGHTS, ["b"])],
    "in a part": [("both", make_pipeline(clone(WEIGHTS), PolynomialFeatures(2)), ["a", "b"])],
}
KINDS = {
    "pandas": pd.DataFrame,
    "nullable": lambda frame: frame.astype({"a": "Float64", "b": "Float64", "text": "string"}),
    "polars": pl.DataFrame,
    "numbers": lambda frame: frame[["a", "b"]],
}


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", OVERFLOWS)
def test_overflow_of_finite_numbers_is_no_error_wherever_gaps_are(case, kind):
    numbers = np.random.default_rng(0).normal(size=(60, 2))
    widths = set()
    for gap in ([], [3]):
        frame = pd.DataFrame(numbers, columns=["a", "b"]).assign(text="x")
        frame.loc[7, "a"] = 1e200
        frame.loc[gap, "b"] = np.nan
        model = make_dp_pipeline(columns(OVERFLOWS[case]), DPPCA(1, row_norm=1.0))
        widths.add(model.fit(KINDS[kind](frame))[-1].n_features_in_)
    assert len(widths) == 1


@pytest.mark.parametrize("kind", ["pandas", "polars", "numbers"])
def test_gaps_beside_overflow_are_refused_and_named(kind):
    frame = pd.DataFrame({"a": [1e200, *range(9)], "b": [np.nan, *range(9)], "text": ["x"] * 10})
    parts = [("both", PolynomialFeatures(2), ["a"]), ("b", FunctionTransformer(), ["b"])]
    model = make_dp_pipeline(columns(parts), DPPCA(1, row_norm=1.0))
    with pytest.raises(ValueError, match=r"Column b holds NaN\. Fill missing values"):
        model.fit(KINDS[kind](frame))


def test_columns_without_names_are_numbered():
    rows = FRAME[["age", "income"]].to_numpy(float)
    rows[7, 1] = np.nan
    for odd in (rows, rows.tolist()):
        parts = [
            ("a", DPStandardScaler(bounds=(0, 99)), [0]),
            ("b", DPStandardScaler(), slice(1, 2)),
        ]
        with pytest.raises(ValueError, match=r"Column 1 holds NaN\."):
            pipeline_of(parts).fit(odd, Y)


PLAIN_LISTS = {
    "floats": [[float(age), number % 3] for number, age in enumerate(FRAME["age"])],
    "tuples": [(float(age), 1) for age in FRAME["age"]],
    "texts": FRAME[["age", "job"]].to_numpy().tolist(),
}


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("kind", PLAIN_LISTS)
def test_lists_of_rows_are_fitted_like_the_array_that_they_make(kind):
    rows = PLAIN_LISTS[kind]
    array = np.array(rows, dtype=object if kind == "texts" else float)
    known = [["a", "b", "c"] if kind == "texts" else [0, 1, 2]]
    scaler = DPStandardScaler(bounds=(0, 120))
    step = columns([("age", scaler, [0]), ("job", OneHotEncoder(categories=known), [1])])
    model = make_dp_pipeline(step, clone(CLASSIFIER), random_state=2**100)
    ours, same = model.fit(rows, Y), clone(model).fit(array, Y)
    np.testing.assert_array_equal(ours[-1].coef_, same[-1].coef_)
    np.testing.assert_array_equal(ours[0].transform(rows), same[0].transform(array))
    np.testing.assert_array_equal(ours.predict(rows[:9]), ours.predict(array[:9]))
    assert str(model.plan(N, 2, like=rows[:2])) == str(model.plan(N, like=array[:2]))
    assert private_score(ours, rows, Y).value > 0
    model.set_params(random_state=None)
    search = DPGridSearch(model, {"shares": [None, {"columntransformer": 0.5}]})
    assert len(search.fit(rows, Y).predict(rows[:9])) == 9


@pytest.mark.parametrize("row", [[7654.0], [7654.0, "secret", 3], "secret", 7654.0])
def test_a_list_of_unequal_rows_is_refused_without_them(row):
    rows = [*PLAIN_LISTS["texts"][1:], row]
    with pytest.raises(ValueError, match="rows that are equally long") as refused:
        make_dp_pipeline(columns([("age", DPStandardScaler(), [0])]), CLASSIFIER).fit(rows, Y)
    assert not any(text in str(refused.value) for text in ("secret", "7654"))
    assert refused.value.__context__ is None


def test_categories_of_the_other_kind_are_named_by_the_column_of_x():
    parts = [("age", DPStandardScaler(), [0]), ("job", OneHotEncoder(categories=[["1"]]), [1])]
    with pytest.raises(ValueError, match="column 1 has numbers, but its categories are texts"):
        pipeline_of(parts).fit(np.ones((N, 2)), Y)


ENCODERS = {"one-hot": OneHotEncoder(sparse_output=False), "ordinal": OrdinalEncoder()}


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("kind", ["texts", "numbers", "columns"])
def test_a_frozen_step_that_refuses_a_category_is_named_and_the_category_is_not(
    ledger, kind, encoder
):
    known = FRAME[["job"]].replace({"a": 5.0, "b": 6.0, "c": 7.0} if kind == "numbers" else {})
    step = FrozenEstimator(clone(ENCODERS[encoder]).fit(known))
    if kind == "columns":
        known = FRAME.drop(columns="weight")
        step = columns([("jobs", step, ["job"])], remainder="passthrough")
    pipeline = DPPipeline([("encode", step), ("classify", clone(CLASSIFIER))], ledger=ledger)
    odd = known.copy()
    odd.loc[7, "job"] = 4711.0 if kind == "numbers" else "4711"
    with pytest.raises(ValueError, match=r"^Step 'encode(__jobs)?' refuses a category") as refused:
        pipeline.fit(odd, Y)
    assert "handle_unknown='ignore'" in str(refused.value)
    assert ("It is about columns: job." in str(refused.value)) == (kind == "columns")
    assert "4711" not in str(refused.value)
    assert refused.value.__context__ is None
    assert ledger.entries() == []
    assert pipeline.fit(known, Y).predict(known).shape == (N,)


def test_nullable_columns_beside_texts_are_numbers():
    generator = np.random.default_rng(0)
    rows = pd.DataFrame({"a": generator.standard_normal(40), "s": ["u", "v"] * 20})
    codes = OneHotEncoder(categories=[["u", "v"]], handle_unknown="ignore", sparse_output=False)
    parts = [("scale", DPStandardScaler(bounds=(-3, 3)), ["a"]), ("codes", codes, ["s"])]
    step = ColumnTransformer(parts, sparse_threshold=0)
    model = make_dp_pipeline(step, DPStandardScaler(), shares={"columntransformer": 0.5})
    assert model.fit(rows.convert_dtypes()).transform(rows).shape == (40, 3)
    rows.loc[0, "a"] = np.nan
    with pytest.raises(ValueError, match=r"may show values|NaN"):
        model.fit(rows.convert_dtypes())


@pytest.mark.slow
def test_a_search_takes_it_and_parameters_of_its_private_parts():
    name, ends = "columntransformer__income__bounds", [(0, 99), (0, 999)]
    grid = {"dplogisticregression__row_norm": [1.0], name: ends}
    found = DPGridSearch(pipeline_of(), grid, epsilon=3).fit(FRAME, Y)
    columns, best = found.best_estimator_[0], found.best_params_[name]
    assert [*found.n_distinct_fits_.values()] == [1, 2, 2]
    assert columns.named_transformers_["income"].bounds == columns.transformers[1][1].bounds == best
    assert found.best_estimator_[0].transformers_[0][1].privacy_spent_ is found.privacy_spent_
    assert found.predict(FRAME).shape == (N,)
    assert privacy_spent(found).is_private


CODES_OF_JOBS = [("age", DPStandardScaler(bounds=(0, 120)), ["age"]), ("job", JOBS, ["job"])]
DENSE_JOBS = clone(JOBS).set_params(sparse_output=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("job", ["a", "?", None])
@pytest.mark.parametrize("threshold", [0.3, 1e-9, 1.0])
def test_density_decides_nothing(kind, job, threshold):
    # All jobs are known, and entries of CSR, or none.
    frame = kind(FRAME.assign(job=[job] * N).astype({"job": object if job is None else str}))
    sparse = pipeline_of(CODES_OF_JOBS, sparse_threshold=threshold).fit(frame, Y)
    assert issparse(sparse[:1].transform(frame))
    assert privacy_spent(sparse).is_private
    assert sparse.plan(N, 4, like=frame).mu == pytest.approx(sparse.privacy_spent_.mu)
    dense = pipeline_of(CODES_OF_JOBS).fit(frame, Y)
    assert not issparse(dense[:1].transform(frame))
    parts = [CODES_OF_JOBS[0], ("job", DENSE_JOBS, ["job"])]
    dense = pipeline_of(parts, sparse_threshold=threshold).fit(frame, Y)
    assert not issparse(dense[:1].transform(frame))


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("threshold", [0.3, 1.0])
def test_sparse_columns_stay_sparse_unless_all_parts_are_dense(threshold):
    rows = np.random.default_rng(0).uniform(1, 2, size=(80, 4))
    scaled = ("scale", DPStandardScaler(bounds=(0, 2), with_mean=False), [0, 1])
    pca = ("pca", DPPCA(2, row_norm=3.0, mean_norm=3.0), [2, 3])
    for parts, remains in (([scaled], True), ([scaled, pca], True), ([pca], False)):
        model = pipeline_of(parts, sparse_threshold=threshold).fit(csr_array(rows), rows[:, 0] > 1)
        assert issparse(model[:1].transform(csr_array(rows))) == remains
        assert model.plan(80, 4, like=csr_array(rows)).mu == pytest.approx(model.privacy_spent_.mu)


def test_what_takes_no_sparse_rows_is_refused_behind_sparse_columns(ledger):
    step = columns(CODES_OF_JOBS, sparse_threshold=0.3)
    model = make_dp_pipeline(step, DPStandardScaler(), clone(CLASSIFIER), ledger=ledger)
    with pytest.raises(
        ValueError, match="or a dense X, as a ColumnTransformer with sparse_threshold=0"
    ):
        model.fit(FRAME, Y)
    assert ledger.entries() == []


def test_columns_that_refuse_public_rows_are_dense():
    # Only private rows tell what a frozen step makes that knows some texts alone.
    known = FrozenEstimator(OneHotEncoder().fit(FRAME[["job"]]))
    model = pipeline_of([("job", known, ["job"])], sparse_threshold=1.0).fit(FRAME, Y)
    assert not issparse(model[:1].transform(FRAME))


PROCESSES = []


def noted(rows):
    PROCESSES.append(len(rows))
    return rows


@pytest.mark.parametrize("is_frozen", [False, True])
def test_no_other_process_prints_warnings_of_rows(is_frozen):
    X = np.random.default_rng(0).uniform(size=(60, 4))
    parts = [("left", FunctionTransformer(noted), [0, 1]), ("right", "passthrough", [2, 3])]
    step = ColumnTransformer(parts, sparse_threshold=0)
    if is_frozen:
        step = FrozenEstimator(step.fit(np.ones((2, 4))))
    # Of those that are frozen, too, but after they were fitted here.
    (step.estimator if is_frozen else step).n_jobs = 2
    PROCESSES.clear()
    scaler, classifier = DPStandardScaler(bounds=(0, 1)), clone(CLASSIFIER)
    with parallel_config(n_jobs=2):
        make_dp_pipeline(step, scaler, classifier).fit(X, X[:, 0] > 0.5)
    # Another process would have a list of its own.
    assert len(X) in PROCESSES


CODES = {"handle_unknown": "use_encoded_value", "unknown_value": -1, "encoded_missing_value": -2}
ORDINAL = OrdinalEncoder(categories=[["a", "b"]], **CODES)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_pipelines_of_steps_that_learn_nothing_are_parts(kind):
    squares = make_pipeline(clone(WEIGHTS), PolynomialFeatures(2, include_bias=False))
    parts = [("weight", squares, ["weight"]), ("job", ORDINAL, ["job"]), ("age", SPLINES, ["age"])]
    fitted = pipeline_of(parts).fit(kind(FRAME), Y)
    assert fitted[-1].coef_.shape == (1, 2 + 1 + 5)
    assert privacy_spent(fitted).is_private
    odd = kind(FRAME.assign(job=[None, *FRAME["job"][1:]]))
    assert np.isfinite(fitted[:1].transform(odd)).all()


@pytest.mark.parametrize(
    "step",
    [
        OrdinalEncoder(categories=[["a", np.nan]]),
        clone(ORDINAL).set_params(unknown_value=np.nan),
        clone(ORDINAL).set_params(encoded_missing_value=np.nan),
        clone(SPLINES).set_params(extrapolation="error"),
        SplineTransformer(),
        SimpleImputer(),
    ],
)
def test_steps_that_learn_or_refuse_single_rows_are_refused_in_pipelines_too(step):
    for part in (step, make_pipeline(step)):
        with pytest.raises(ValueError, match="may learn"):
            pipeline_of([("part", part, ["job"])]).fit(FRAME, Y)
