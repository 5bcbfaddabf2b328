"""What is no table of numbers and labels is refused, and the error says what it is."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import coo_matrix
from sklearn.base import clone
from sklearn.compose import ColumnTransformer

import skdp
from skdp.data.containers import checked_container
from skdp.interactions import interaction_table, top_items

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

N = 40
X = np.random.default_rng(0).normal(size=(N, 3))
DAYS = pd.Series(pd.date_range("2020-01-01", periods=N))
IN_PANDAS = pd.DataFrame({"a": X[:, 0], "day": DAYS})
IN_POLARS = pl.DataFrame(IN_PANDAS)
TIMES = {
    "alone": IN_PANDAS[["day"]],
    "array": IN_PANDAS[["day"]].to_numpy(),
    "beside numbers": IN_PANDAS,
    "durations": IN_PANDAS[["day"]] - pd.Timestamp("2020-01-01"),
    "durations of numpy": np.full((N, 2), np.timedelta64(3, "D")),
    "list": [[np.datetime64("2020-01-01")]] * N,
    "missing": pd.DataFrame({"day": [pd.NaT, *DAYS[1:]]}),
    "objects": np.array([[np.datetime64("2020-01-01")]] * N, dtype=object),
    "polars": IN_POLARS,
    "polars, alone": IN_POLARS[["day"]],
    "polars, dates": IN_POLARS.select(pl.col("day").cast(pl.Date)),
    "polars, durations": IN_POLARS.select(pl.col("day") - pl.col("day").min()),
    "time zone": pd.DataFrame({"day": DAYS.dt.tz_localize("UTC")}),
}


@pytest.mark.parametrize("name", TIMES)
def test_dates_times_and_durations_are_refused_with_a_recipe(name):
    rows = TIMES[name]
    days = r"\.dt\.days" + r".* Do this to X\.to_pandas" * name.startswith("polars")
    for model in (skdp.DPStandardScaler(), skdp.DPStandardScaler(missing="mean"), skdp.DPPCA(1)):
        with pytest.raises(ValueError, match=f"dates or durations.* Make days .*{days}") as no:
            model.fit(rows)
        assert "2020-01-02" not in str(no.value)
    n_columns = np.shape(rows)[1]
    fitted = skdp.DPStandardScaler().fit(X[:, :n_columns])
    with pytest.raises(ValueError, match=r"dates or|feature names"):
        fitted.transform(rows)


@pytest.mark.parametrize("name", TIMES)
def test_responses_and_weights_are_no_dates(name):
    columns = TIMES[name]
    y = columns["day"] if hasattr(columns, "columns") else np.asarray(columns)[:, 0]
    for model in (skdp.DPLinearRegression(), skdp.DPTraceRegressor()):
        with pytest.raises(
            ValueError, match=r"^y: Dates, .* no numbers\. .*Series\(y\).*\.dt\.days"
        ):
            model.fit(X, y)
    with pytest.raises(ValueError, match="Unknown label type: dates"):
        skdp.DPLogisticRegression().fit(X, y)
    mixed = np.array([1.0, *np.asarray(y)[1:]], dtype=object)
    with pytest.raises(ValueError, match=r"Targets of part 0: .*(Dates|raises|no numbers)"):
        skdp.DPLinearRegression().fit(
            skdp.RowBlocks.from_partitions([lambda: X], [N], 3, y=[mixed])
        )


STRINGS = np.where(X[:, 0] > 0, "yes", "no")
LABELS = {
    "bytes": (STRINGS.astype("S"), "bytes"),
    "bytes as objects": (np.array([one.encode() for one in STRINGS], dtype=object), "bytes"),
    "categories with NA": (pd.Series([None, *STRINGS[1:]], dtype="category"), "missing"),
    "dates": (np.array([dt.date(2020, 1, 1)] * N), "dates"),
    "None": (np.array([None, *STRINGS[1:]], dtype=object), "missing"),
    "NaT": (pd.Series([pd.NaT, *STRINGS[1:]], dtype=object), "missing"),
    "strings with NA": (pd.Series([pd.NA, *STRINGS[1:]], dtype="string"), "missing"),
    "polars, with null": (pl.Series([None, *STRINGS[1:]]), "missing"),
}


MENDS = {"bytes": "are strings", "dates": r"str\(label\) for", "missing": "Leave out records"}


@pytest.mark.parametrize("name", LABELS)
def test_labels_that_are_none_are_called_what_they_are(name):
    labels, what = LABELS[name]
    for classes in (["no", "yes"], None):
        with pytest.raises(ValueError, match=f"Unknown label type: {what}.*{MENDS[what]}"):
            skdp.DPLogisticRegression(classes=classes).fit(X, labels)


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        (IN_POLARS.lazy(), "LazyFrame has not been read"),
        (IN_PANDAS.to_records(index=False), "An array of records"),
        (np.zeros((N, 2), dtype=[("a", float)]), "An array of records"),
    ],
)
def test_what_is_no_table_yet_is_called_what_it_is(rows, what):
    for model in (skdp.DPStandardScaler(), skdp.DPPCA(1), skdp.make_dp_pipeline(skdp.DPPCA(1))):
        with pytest.raises(ValueError, match=what):
            model.fit(rows)
    with pytest.raises(ValueError, match=what):
        skdp.DPLinearRegression().fit(X, rows)


def test_targets_of_a_part_say_what_they_are():
    records = np.zeros(N, dtype=[("a", float)])
    with pytest.raises(ValueError, match=r"numbers or labels, got void of shape \(40,\)"):
        skdp.DPLinearRegression().fit(
            skdp.RowBlocks.from_partitions([lambda: X], [N], 3, y=[records])
        )


@pytest.mark.parametrize(
    "twins", [pd.DataFrame(X, columns=["a", "b", "a"]), pa.table([*X.T], names=["a", "b", "a"])]
)
def test_two_columns_of_one_name_are_refused(twins):
    pca = skdp.make_dp_pipeline(skdp.DPPCA(1))
    for model in (skdp.DPStandardScaler(), skdp.DPCovariance(), skdp.DPPCA(1), pca):
        with pytest.raises(ValueError, match=r"columns of one name, .* X\.set_axis"):
            model.fit(twins)
    fitted = skdp.DPPCA(1, random_state=2**99).fit(pd.DataFrame(X, columns=list("abc")))
    with pytest.raises(ValueError, match="several columns of one name"):
        fitted.transform(twins)


@pytest.mark.parametrize("name", ["coo", "dia", "bsr"])
def test_columns_are_not_taken_out_of_sparse_rows_that_have_none(name):
    parts = ColumnTransformer([("a", skdp.DPStandardScaler(with_mean=False), [0])])
    with pytest.raises(ValueError, match=r"not in CSR, which X\.tocsr"):
        skdp.make_dp_pipeline(parts, skdp.DPPCA(1)).fit(coo_matrix(X).asformat(name))


@pytest.mark.parametrize("value", [True, np.True_])
@pytest.mark.parametrize("name", ["epsilon", "delta", "n_components", "random_state", "row_norm"])
def test_a_bool_is_no_number(name, value):
    with pytest.raises(ValueError, match=f"The {name!r} parameter of DPPCA must not be a bool"):
        skdp.DPPCA(**{name: value}).fit(X)


def test_data_frames_of_delayed_parts_are_fitted():
    dask = pytest.importorskip("dask")
    frames = pytest.importorskip("dask.dataframe")
    whole = pd.DataFrame(X, columns=["a", "b", "c"])
    parts = [dask.delayed(whole.iloc[start : start + 20]) for start in (0, 20)]
    for more in ({}, {"meta": whole.iloc[:0]}):
        rows = frames.from_delayed(parts, **more)
        assert skdp.DPLinearRegression().fit(rows[["a", "b"]], rows["c"]).coef_.shape == (2,)
        model = skdp.make_dp_pipeline(skdp.DPStandardScaler(), skdp.DPPCA(1)).fit(rows)
        assert model.transform(rows).compute().shape == (N, 1)


@pytest.mark.parametrize("label", ["columns", "column_names"])
def test_labels_of_pandas_that_are_names_of_attributes_show_no_values(label):
    """Labels of an index are attributes of a Series, and names of columns of a data frame."""
    index = [label, *map(str, range(1, N))]
    labels = pd.Series(["yessir", "no"] * (N // 2), index=index)
    model = skdp.DPLogisticRegression(classes=["yessir", "no"], random_state=2**99)
    np.testing.assert_array_equal(
        model.fit(X, labels).predict(X), clone(model).fit(X, labels.tolist()).predict(X)
    )
    users = pd.Series([f"{i // 2:02d}aa" for i in range(N)], index=index)
    people = skdp.DPStandardScaler(privacy_unit="user", random_state=2**99)
    given, plain = (clone(people).fit(X, users=ids) for ids in (users, users.tolist()))
    np.testing.assert_array_equal(given.mean_, plain.mean_)
    frame = pd.DataFrame(X, columns=["a", "b", label]).assign(**{label: 17.5})
    fitted = skdp.DPStandardScaler(random_state=2**99).fit(frame)
    assert list(fitted.feature_names_in_) == ["a", "b", label]
    with pytest.raises(ValueError, match=r"no pair \(low, high\) for b") as refused:
        skdp.DPStandardScaler(bounds={"a": (0, 1), label: (0, 1)}).fit(frame)
    assert "17.5" not in str(refused.value)


@pytest.mark.parametrize("error", [None, RuntimeError])
@pytest.mark.parametrize("kind", ["texts", "dates"])
def test_errors_show_labels_of_columns_as_texts_alone(error, kind):
    class Label:
        def __str__(self):
            return "col"

        def __repr__(self):
            if error:
                raise error("SECRET 17.5")
            return "SECRET 17.5"

    values = ["yes", "no"] * (N // 2) if kind == "texts" else DAYS
    frame = pd.DataFrame({"x": X[:, 0], "y": values}).set_axis(["x", Label()], axis=1)
    scaler = skdp.DPStandardScaler()
    for model in (skdp.DPPCA(1, row_norm=1.0), skdp.make_dp_pipeline(scaler, skdp.DPPCA(1))):
        with pytest.raises((TypeError, ValueError), match=rf"holds {kind}.*X\['col'\]") as refused:
            model.fit(frame)
        assert "SECRET" not in str(refused.value)


def test_an_error_about_labels_that_are_no_texts_keeps_its_beginning():
    class Label:
        def __str__(self):
            raise RuntimeError("SECRET 17.5")

    frame = pd.DataFrame({"x": X[:, 0], "y": "no"}).set_axis(["x", Label()], axis=1)
    with pytest.raises(ValueError, match=r"^could not convert string to float") as refused:
        skdp.DPPCA(1).fit(frame)
    assert "SECRET" not in str(refused.value)


class Hostile:
    """An object whose attributes and texts show values, but for `str`."""

    def __init__(self, text):
        self._text, self.iloc = text, None

    def __str__(self):
        return self._text

    def __repr__(self):
        return "SECRET 17.5"

    def __format__(self, _):
        return "SECRET 17.5"

    def __len__(self):
        return N

    @property
    def shape(self):
        raise RuntimeError("SECRET 17.5")

    columns = shape


TEXTS_OF_USERS = pd.DataFrame({"x": X[:, 0], "y": "ann"}).set_axis(["x", Hostile("user")], axis=1)
NAMED_DATES = pd.DataFrame({"user": ["a"], "item": ["b"], "day": [pd.Timestamp("2020")]})
NAMED_DATES.columns = ["user", "item", Hostile("timestamp")]
CODES = np.arange(N) % 2
OF_USERS = skdp.DPLogisticRegression(classes=[0, 1], privacy_unit="user")
WITH_HOSTILE = {
    "ids": lambda: OF_USERS.fit(X, CODES, users=Hostile("ids")),
    "the label of a column of texts": (
        lambda: skdp.DPPersonalizedRegressor().fit(TEXTS_OF_USERS, X[:, 0])
    ),
    "the label of dates": lambda: interaction_table(NAMED_DATES, items=["b"]),
    "a history": lambda: top_items(skdp.DPTruncatedSVD(1), Hostile("history"), 1),
}


@pytest.mark.parametrize("call", WITH_HOSTILE.values(), ids=WITH_HOSTILE)
def test_errors_show_no_text_of_other_objects(call):
    with pytest.raises((TypeError, ValueError)) as refused:
        call()
    assert "SECRET" not in str(refused.value)


class Talkative(str):
    """A name of a column whose errors show values."""

    def __hash__(self):
        raise KeyError("SECRET 17.5")


def test_errors_of_names_are_not_shown():
    class Frame(pd.DataFrame):
        @property
        def columns(self):
            return [Talkative("a"), Talkative("b")]

    with pytest.raises(ValueError, match="The data cannot be read") as refused:
        checked_container(Frame(X))
    assert "SECRET" not in str(refused.value)
