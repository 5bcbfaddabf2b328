"""A messy table: each error names the column and what it holds, and its cure works."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from refusals import refusal_of
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

import skdp
from skdp.model_selection import DPGridSearch

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning"),
    pytest.mark.usefixtures("few_steps"),
]

N = 60
NUMBERS = np.random.default_rng(0)
TOWNS = ["North", "South"]
DAYS = pd.Series(np.datetime64("2015-01-01") + NUMBERS.integers(0, 3000, N))
TABLE = pd.DataFrame(
    {
        "id": np.arange(N),
        "age": NUMBERS.integers(18, 90, N).astype(float),
        "member": NUMBERS.choice([True, False], N),
        "town": NUMBERS.choice(["North", "South"], N),
        "note": NUMBERS.choice(["late", "great thing"], N),
        "joined": DAYS.dt.strftime("%Y-%m-%d"),
        "price": "12",
    }
).assign(
    plan=lambda table: table["town"].astype("category"),
    nullable=lambda table: table["member"].astype("boolean"),
    arrow=lambda table: table["member"].astype("bool[pyarrow]"),
    when=DAYS,
    day=DAYS.dt.date.astype(object),
)
GAPS = TABLE.copy()
for column in ("age", "nullable", "arrow", "note", "town"):
    GAPS.loc[7, column] = pd.NA if column in ("nullable", "arrow") else None
Y = np.where(TABLE["age"] > 50, "yes", "no")
AGE = ("age", skdp.DPStandardScaler(bounds=(0, 120)), ["age"])
WORDS = CountVectorizer(vocabulary=["late", "great"])


CLASSIFIER = skdp.DPLogisticRegression(classes=["no", "yes"])


def pipeline_of(*parts, last=CLASSIFIER):
    return skdp.make_dp_pipeline(ColumnTransformer([*parts], sparse_threshold=0), clone(last))


def passing(*names, **more):
    return pipeline_of(("rest", "passthrough", [*names]), **more)


def encoding(name, *categories):
    return pipeline_of(("codes", OneHotEncoder(categories=[[*categories]]), [name]))


def days_of(column):
    return (pd.to_datetime(column, utc=True) - pd.Timestamp("2000-01-01", tz="UTC")).dt.days.rename(
        "days"
    )


FILLED = SimpleImputer(strategy="constant", fill_value=0)
# As pandas.read_csv reads true and false with gaps.
WHOLE = TABLE.assign(odd=TABLE["member"].astype(object))
ODD = WHOLE.assign(odd=WHOLE["odd"].where(WHOLE["id"] != 7, np.nan))
POLARS = pl.DataFrame({"member": [None, *TABLE["member"].tolist()[1:]], "age": TABLE["age"]})
# As a query of a database returns NULL.
LOOSE = TABLE.assign(loose=TABLE["age"].astype(object).where(TABLE["id"] != 7, None))
BOTH = OneHotEncoder(categories=[[False, True]], handle_unknown="ignore")
SPELLED = OneHotEncoder(categories=[["False", "True"]], handle_unknown="ignore")
GAUSSIAN = skdp.DPCovariance(missing="mean")
NOTES = pl.DataFrame(GAPS[["id", "note"]])
PRICES = pd.to_numeric(TABLE["price"].where(TABLE["id"] != 7, "n/a"), errors="coerce").to_frame()
MEANS = skdp.DPStandardScaler(missing="mean")
# What is fitted, and to which table; what the error says; what is fitted instead, and to which one.
ERRORS = r"""
passing("id", "age"), GAPS
    'columntransformer__rest' .* Column age holds NaN. Fill missing .*SimpleImputer
pipeline_of(("rest", FILLED, ["id", "age"])), GAPS
passing("nullable"), GAPS
    Column nullable holds NaN. Fill missing
pipeline_of(("rest", FILLED, ["nullable"])), GAPS
pipeline_of(AGE, ("rest", "passthrough", ["odd"])), ODD
    __rest' refuses .* Column odd holds booleans and gaps. Pass X\['odd'\].astype\('bool
pipeline_of(AGE, ("rest", FILLED, ["odd"])), ODD.astype({"odd": "boolean"})
pipeline_of(AGE, ("rest", FILLED, ["odd"])), ODD
    __rest' refuses .* Column odd holds booleans and gaps. Pass X\['odd'\].astype\('bool
pipeline_of(AGE, ("rest", FILLED, ["odd"])), ODD.astype({"odd": "boolean"})
pipeline_of(AGE, ("rest", skdp.DPStandardScaler(), ["odd"])), ODD
    __rest' refuses .* Column odd holds booleans and gaps. Pass X\['odd'\].astype\('bool
pipeline_of(AGE, ("rest", MEANS, ["odd"])), ODD.astype({"odd": "boolean"})
pipeline_of(AGE, ("rest", "passthrough", ["odd"])), ODD
    __rest' refuses .* Column odd holds booleans and gaps. Pass X\['odd'\].astype\('bool
pipeline_of(AGE, ("rest", BOTH, ["odd"])), ODD.astype({"odd": object})
passing("odd"), ODD
    __rest' refuses .* Column odd holds booleans and gaps. Pass
pipeline_of(("rest", MEANS, ["odd"])), ODD
pipeline_of(AGE, ("rest", FILLED, ["odd"])), WHOLE
    booleans as objects .astype\('boolean'\)\. It is about columns: odd.$
pipeline_of(AGE, ("rest", FILLED, ["odd"])), WHOLE.astype({"odd": "boolean"})
passing("age", "town", last=GAUSSIAN), GAPS
    __rest' refuses its rows. Column town holds texts and gaps. .*columns=\['town'\]\)
passing("age"), TABLE
passing("arrow"), GAPS
    Column arrow holds NaN. Fill missing
pipeline_of(("rest", FILLED, ["arrow"])), GAPS
passing("age"), TABLE.replace({"age": {TABLE["age"][7]: np.inf}})
    Column age holds infinity. Clip it to a .* numpy.clip\(X, -1e6, 1e6\)
passing("age"), np.clip(TABLE[["age"]].replace(TABLE["age"][7], np.inf), -1e6, 1e6)
pipeline_of(AGE, ("words", WORDS, "note")), TABLE.assign(note=GAPS["note"])
    'columntransformer__words' .* Column note holds texts and gaps. .*X\['note'\].fillna
pipeline_of(AGE, ("words", WORDS, "note")), TABLE.assign(note=GAPS["note"].fillna(""))
pipeline_of(("words", WORDS, "note")), NOTES
    Column note holds texts and gaps. .*X\['note'\].fill_null\(''\)
pipeline_of(("words", WORDS, "note")), NOTES.with_columns(pl.col("note").fill_null(""))
skdp.make_dp_pipeline(WORDS, CLASSIFIER), GAPS["note"]
    'countvectorizer' refuses a missing text. Fill .* X.fillna\(''\)
skdp.make_dp_pipeline(WORDS, CLASSIFIER), GAPS["note"].fillna("")
pipeline_of(("words", WORDS, ["note"])), TABLE
    'columntransformer__words' takes one column of texts: pass its name
pipeline_of(("words", WORDS, "note")), TABLE
passing("town"), TABLE
    Column town holds texts. Leave .* Encode categories by ColumnTransformer.*OneHotEncoder\(cat
encoding("town", "North", "South"), TABLE
passing("plan"), TABLE
    Column plan holds categories. Encode categories by ColumnTransformer.*OneHotEncoder\(cat
encoding("plan", "North", "South"), TABLE
passing("joined"), TABLE
    Column joined holds texts. .* dates in texts take pandas.to_datetime\(X\['joined'\]\)\.$
passing("days"), days_of(TABLE["joined"]).to_frame()
pipeline_of(("scale", skdp.DPStandardScaler(), ["price"])), TABLE
    Column price holds texts. .* pandas.to_numeric\(X\['price'\]\S* errors='coerce'\)
pipeline_of(("rest", FILLED, ["price"])), PRICES
passing("when"), TABLE
    Column when holds dates or durat.*\(pandas.to_datetime\(X\['when'\], utc=True\)
passing("days"), days_of(TABLE["when"]).to_frame()
passing("day"), TABLE
    Column day holds dates or durations. .*\(pandas.to_datetime\(X\['day'\], utc=True\)
passing("days"), days_of(TABLE["day"]).to_frame()
encoding("member", True, False), TABLE
    'columntransformer__codes' .* sorted, as \[False, True\]. It is about columns: member.
encoding("member", False, True), TABLE
pipeline_of(AGE, ("rest", FILLED, ["loose"])), LOOSE
    Numbers as objects need .convert_dtypes\(\), .* It is about columns: loose.$
pipeline_of(AGE, ("rest", FILLED, ["loose"])), LOOSE.assign(loose=LOOSE["loose"].convert_dtypes())
pipeline_of(("rest", FILLED, ["member"])), POLARS
    Booleans of polars .* need .cast\(float\) .* It is about columns: member.$
pipeline_of(("rest", FILLED, ["member"])), POLARS.with_columns(pl.col("member").cast(float))
encoding("id", *map(str, range(N))), TABLE
    'columntransformer': column id has numbers, but its categories are texts: none
encoding("id", *range(N)), TABLE
pipeline_of(("c", make_pipeline(FILLED, clone(SPELLED)), ["nullable"])), GAPS
    'columntransformer': column nullable has numbers, but its categories are texts
pipeline_of(("c", make_pipeline(FILLED, BOTH), ["nullable"])), GAPS
encoding("price", 12, 13), TABLE
    column price has texts, but its categories are numbers: none is found. Pass .* for texts
encoding("price", "12", "13"), TABLE
pipeline_of(("c", OneHotEncoder(categories=[TOWNS, TOWNS[:1]]), ["town", "plan"])), TABLE
    Pass all categories, .* It is about columns: plan.$
pipeline_of(("c", OneHotEncoder(categories=[TOWNS] * 2), ["town", "plan"])), TABLE
passing("age", "nobody"), TABLE
    lacks the columns \['nobody'\]; it has id, age, .*$
passing("age"), TABLE
skdp.make_dp_pipeline(FILLED, CLASSIFIER), TABLE[["age", "town"]]
    no real numbers\. Column town holds texts.* X.drop\(columns=\['town'\]\)
skdp.make_dp_pipeline(FILLED, CLASSIFIER), TABLE[["age", "town"]].drop(columns=["town"])
"""
EACH_ERROR = re.findall(r"(?m)^(\S.*)\n    (.*)\n(\S.*)$", ERRORS)


@pytest.mark.covered(at_most=10)
@pytest.mark.parametrize(("case", "said"), [(case, said) for case, said, _ in EACH_ERROR])
def test_an_error_names_the_column_what_it_holds_and_a_cure(case, said):
    model, table = eval(case)
    refused = refusal_of(model, table, Y)
    text = str(refused.value)
    assert re.search(said, text), text
    assert refused.value.__context__ is None
    # Other columns of the table, and values, stay out of it.
    columns = set(re.findall(r"Columns? ([\w, ]+) holds?", text))
    assert len(columns) <= 1
    assert "2015" not in text
    assert "great" not in text


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("case", [case for _, _, case in EACH_ERROR])
def test_a_cure_works(case):
    mended, other = eval(case)
    assert mended.fit(other, Y).predict(other).shape == (N,)


PLAIN = {
    "gaps": (GAPS[["id", "age"]], r"^Input X contains NaN.* Column age holds NaN\.$"),
    "gaps by number": (GAPS[["id", "age"]].to_numpy(), r"Column 1 holds NaN\.$"),
    "infinity": (TABLE[["id"]].assign(z=np.inf), r"contains .*infinity.* Column z holds infinity"),
    "texts": (TABLE[["id", "town"]], r"^Column town holds texts\. Leave"),
    "texts by number": (
        TABLE[["id", "town"]].to_numpy(),
        r"Column 1 holds texts\. Leave ids .* to pandas\.DataFrame\(X\)\.infer_objects",
    ),
    "texts of polars": (
        pl.DataFrame(TABLE[["id", "town"]]),
        r"holds texts.*X.drop\(columns=\['town'\]\); .* X\.to_pandas\(\), in place of X\.$",
    ),
    "categories": (TABLE[["id", "plan"]], "Column plan holds categories. Encode"),
    "dates": (TABLE[["id", "when"]], "^Column when holds dates"),
    "dates as objects": (TABLE[["id", "day"]], "^Column day holds dates"),
    "lists": (TABLE[["id"]].assign(z=[[1, 2]] * N), r"Column z holds objects.*columns=\['z'\]"),
}


@pytest.mark.parametrize("case", PLAIN)
def test_without_a_pipeline_the_column_is_named_too(case):
    rows, said = PLAIN[case]
    for model in (skdp.DPPCA(1), CLASSIFIER):
        assert re.search(said, str(refusal_of(model, rows, Y).value))


def test_gaps_reach_a_covariance_that_takes_them():
    rows = GAPS[["id", "age"]].astype(float)
    for filled, named in (
        (rows.assign(note="late"), ["note"]),
        (TABLE[["town"]].join(rows), ["town"]),
    ):
        text = str(refusal_of(GAUSSIAN, filled).value)
        assert f"Column {named[0]} holds texts" in text
        assert f"X.drop(columns={named})" in text
        assert "NaN. Fill" not in text
    with pytest.raises(ValueError, match=r"for age\. Name these columns: id, age\.$"):
        skdp.DPCovariance(missing="mean", bounds={"id": (0, 60)}).fit(rows)
    columns = ColumnTransformer([("all", "passthrough", ["id", "age"])])
    model = skdp.make_dp_pipeline(columns, skdp.DPCovariance(missing="mean"), epsilon=np.inf)
    alone = skdp.DPCovariance(missing="mean", epsilon=np.inf).fit(rows)
    np.testing.assert_allclose(model.fit(rows)[-1].location_, alone.location_)
    assert skdp.privacy_spent(clone(model).set_params(epsilon=1.0).fit(rows)).is_private
    model = clone(model)
    refused = refusal_of(model, rows.replace({"age": {TABLE["age"][8]: np.inf}}))
    assert "Column age holds infinity" in str(refused.value)
    codes = ("c", OneHotEncoder(categories=[[*"abcdefgh", *TOWNS]]), ["town"])
    sparse = skdp.make_dp_pipeline(ColumnTransformer([codes]), GAUSSIAN)
    assert "sparse_threshold=0" in str(refusal_of(sparse, TABLE).value)


def test_whole_numbers_and_booleans_are_passed_on_together():
    for names in (["id", "member"], ["member", "age"], ["nullable", "id"], ["arrow", "age"]):
        model = passing(*names).fit(TABLE, Y)
        assert model.predict(TABLE).shape == (N,)
        assert model[-1].coef_.shape == (1, 2)
        assert skdp.privacy_spent(model).is_private
    rest = ColumnTransformer([AGE], remainder="passthrough", sparse_threshold=0)
    model = skdp.make_dp_pipeline(rest, CLASSIFIER)
    assert model.fit(TABLE[["age", "id", "member"]], Y)[-1].coef_.shape == (1, 3)


def test_texts_are_filled_within_a_part():
    filled = SimpleImputer(strategy="constant", fill_value="")
    part = make_pipeline(filled, FunctionTransformer(np.ravel), WORDS)
    # Old versions of pandas put None into gaps, and the imputer fills NaN alone.
    gaps = TABLE.assign(note=GAPS["note"].where(GAPS["note"].notna(), np.nan))
    model = pipeline_of(("words", part, ["note"])).fit(gaps, Y)
    assert model.predict(gaps).shape == (N,)
    assert skdp.privacy_spent(model).is_private
    odd = TABLE.astype({"note": object})
    odd.loc[7, "note"] = None
    text = str(refusal_of(pipeline_of(("words", part, ["note"])), odd, Y).value)
    assert "Column note holds texts and gaps. Fill gaps in texts before" in text


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.Table.from_pandas])
def test_logarithms_with_gaps_keep_the_names_of_columns(kind):
    kept = {"feature_names_out": "one-to-one"}
    scaler = skdp.DPStandardScaler(bounds={"age": (0, 5)}, missing="mean")
    logs = FunctionTransformer(np.log1p, **kept)
    rows = kind(GAPS[["id", "age"]])
    with pytest.raises(ValueError, match=r"Return frame\.to_numpy\(\) in"):
        pipeline_of(("logs", make_pipeline(logs, scaler), ["age"])).fit(GAPS, Y)
    part = make_pipeline(FunctionTransformer(np.asarray, **kept), logs, scaler)
    parts = ("logs", part, ["age"]), ("gaps", MissingIndicator(features="all"), ["age"])
    model = pipeline_of(*parts).fit(rows, Y)
    assert model[-1].coef_.shape == (1, 2)
    assert skdp.privacy_spent(model).is_private
    unnamed = make_pipeline(FunctionTransformer(np.asarray), scaler)
    with pytest.raises(ValueError, match=r"feature_names_out='one-to-one'.* keeps names"):
        pipeline_of(("logs", unnamed, ["age"])).fit(rows, Y)


def days_of_texts(frame):
    return days_of(frame.iloc[:, 0]).to_frame()


def days_as_floats(frame):
    return days_of_texts(frame).astype(float)


def days_in_polars(frame):
    dates = pl.col("joined").str.to_date()
    return frame.select((dates - pl.date(2000, 1, 1)).dt.total_days()).to_numpy()


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("function", [days_of_texts, days_as_floats, days_in_polars])
def test_functions_make_days_of_dates_in_texts(function):
    table = pl.DataFrame(TABLE[["id", "joined"]]) if function is days_in_polars else TABLE
    step = make_pipeline(FunctionTransformer(function), skdp.DPStandardScaler(bounds=(0, 9999)))
    if function is not days_in_polars:
        step = FunctionTransformer(function)
    model = pipeline_of(("days", step, ["joined"])).fit(table, Y)
    assert model.predict(table).shape == (N,)
    gaps = TABLE.assign(joined=TABLE["joined"].where(TABLE["id"] != 7))
    if function is days_of_texts:
        with pytest.raises(ValueError, match=r"one shape and type.*\.astype\(float\)"):
            pipeline_of(("days", step, ["joined"])).fit(gaps, Y)


ENDS = [{"age": (0, 120), "id": (0, 60)}, {"id": (0, 90), "age": (0, 200)}]


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("is_part", [False, True])
def test_bounds_by_names_are_searched_behind_a_public_step(is_part):
    part, names = make_pipeline(FILLED, skdp.DPStandardScaler()), ["id", "age"]
    model = pipeline_of(("scale", part, names))
    name = "columntransformer__scale__dpstandardscaler__bounds"
    if not is_part:
        model = skdp.make_dp_pipeline(*part, CLASSIFIER)
        name = "dpstandardscaler__bounds"
    search = DPGridSearch(model, {name: ENDS}, epsilon=4.0).fit(GAPS[names], Y)
    assert search.best_params_[name] in ENDS
    columns = search.best_estimator_[0 if is_part else 1]
    scaler = columns.named_transformers_["scale"][-1] if is_part else columns
    ends = search.best_params_[name]
    assert scaler.bounds == [ends["id"], ends["age"]]
    with pytest.raises(ValueError, match="for age, and names weight, no column of X"):
        DPGridSearch(model, {name: [{"id": (0, 9), "weight": (0, 9)}]}).fit(GAPS[names], Y)


DATES = r"dates in texts take (pandas\.to_datetime.*?)\.(?: Do|$)"
DAYS_OF_DATES = r"(\(pandas\.to_datetime.*?\.dt\.days)"


@pytest.mark.parametrize("rows", [TABLE[["id", "joined"]], TABLE[["id", "joined"]].to_numpy()])
def test_the_cure_for_dates_runs_as_it_stands(rows):
    text = str(refusal_of(skdp.DPPCA(1), rows).value)
    frame = pd.DataFrame(rows).infer_objects()  # as the error says of an array
    dates = eval(re.search(DATES, text)[1], {"X": frame, "pandas": pd})
    rows = TABLE[["id"]].assign(joined=dates)
    text = str(refusal_of(skdp.DPPCA(1), rows).value)
    days = eval(re.search(DAYS_OF_DATES, text)[1], {"X": rows, "pandas": pd})
    assert days.tolist() == (DAYS - pd.Timestamp("2000-01-01")).dt.days.tolist()


@pytest.mark.slow
def test_an_encoder_that_was_fitted_to_public_rows_may_have_found_its_categories():
    public = TABLE[["member", "town"]]
    frozen = FrozenEstimator(OneHotEncoder(handle_unknown="ignore").fit(public))
    model = pipeline_of(AGE, ("codes", frozen, ["member", "town"]))
    assert model.fit(TABLE, Y)[-1].coef_.shape == (1, 5)


@pytest.mark.parametrize("contain", [pd.DataFrame, pl.DataFrame])
def test_categories_that_became_texts_after_the_fit_are_refused(contain):
    rows = TABLE[["member", "town"]].astype({"town": object})
    codes = [("m", BOTH, ["member"]), ("t", OneHotEncoder(categories=[TOWNS]), ["town"])]
    model = pipeline_of(*codes).fit(contain(rows), Y)
    spelled = rows.assign(member=rows["member"].astype(str).astype("string"))
    for apply in (model.predict, model.predict_proba, lambda X: model.score(X, Y)):
        with pytest.raises(ValueError, match="column member has texts, but its categories are num"):
            apply(contain(spelled))
        with pytest.raises(
            ValueError, match="column town has numbers, but its categories are texts"
        ):
            apply(contain(rows.assign(town=1)))
    assert model.predict(contain(rows.astype({"member": float}))).shape == (N,)


@pytest.mark.parametrize("columns", [True, False])
def test_whether_a_list_fits_the_categories_does_not_follow_its_first_rows(columns):
    def fit(X, categories):
        encoder = OneHotEncoder(categories=[categories], handle_unknown="ignore")
        step = ColumnTransformer([("codes", encoder, [0])]) if columns else encoder
        model = CLASSIFIER
        return skdp.make_dp_pipeline(step, model).fit(X, Y)

    texts = [[TOWNS[number % 2]] for number in range(N)]
    for numbers in (1, 2):
        # Every entry of such a list is converted to text, and two rows are no more than one.
        assert fit([[7]] * numbers + texts[numbers:], TOWNS)[-1].coef_.shape == (1, 2)
    # A single text leaves the numbers beside it numbers, as scikit-learn does.
    for place in (0, N - 1):
        mixed = [["North"] if number == place else [number % 2] for number in range(N)]
        codes = fit(mixed, [0, 1])[0].transform(mixed)
        assert codes.sum() == N - 1
