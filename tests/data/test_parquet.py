"""Rows of Parquet files: the same as those of other parts, or refused by name."""

import builtins
import pickle
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from in_parts import in_parts
from sklearn.base import clone
from sklearn.preprocessing import OneHotEncoder

from skdp import (
    DPPCA,
    DPLinearRegression,
    DPLogisticRegression,
    DPStandardScaler,
    RowBlocks,
    make_dp_pipeline,
)

NAMES = ["a", "b", "c d", "a.b"]
CUTS = [0, 1200, 2400, 2401, 5000]
X = np.random.default_rng(0).normal(size=(CUTS[-1], len(NAMES))).astype(np.float32)
MOMENT = pd.Timestamp("2020-02-02")


def write(path, *, row_group_size=1200, **columns):
    pq.write_table(pa.table(columns), path, row_group_size=row_group_size)
    return path


def one_file(tmp_path, values, name="one.parquet"):
    return write(tmp_path / name, x=[0.5, 1.5, 2.5], column=values)


@pytest.fixture
def files(tmp_path):
    whole = pa.table([*X.T], names=NAMES).append_column("y", [np.arange(len(X))])
    pq.write_table(whole.slice(0, 2401), tmp_path / "0.parquet", row_group_size=1200)
    pq.write_table(whole.slice(2401), tmp_path / "1.parquet")
    return [tmp_path / "0.parquet", tmp_path / "1.parquet"]


def parts_of(columns=slice(None)):
    """Rows in the same parts, from memory."""
    return in_parts(X[:, columns], lengths=np.diff(CUTS))


def fitted(rows, n_jobs=1):
    return DPPCA(2, row_norm=3, random_state=1 << 70, n_jobs=n_jobs).fit(rows)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_fits_are_those_of_the_same_parts(files, n_jobs):
    rows = RowBlocks.from_parquet(files, columns=NAMES)
    assert rows.dtype == np.float32
    pca, expected = fitted(rows, n_jobs), fitted(parts_of())
    np.testing.assert_array_equal(pca.components_, expected.components_)
    np.testing.assert_array_equal(pca.mean_, expected.mean_)
    assert list(pca.feature_names_in_) == NAMES


def test_columns_are_taken_in_the_order_of_their_names(files):
    rows = RowBlocks.from_parquet(iter(files), columns=iter(["a.b", "a"]), y="y")
    np.testing.assert_array_equal(np.vstack(list(rows)), X[:, [3, 0]])
    np.testing.assert_array_equal(fitted(rows).mean_, fitted(parts_of([3, 0])).mean_)
    assert list(fitted(rows).feature_names_in_) == ["a.b", "a"]


def test_by_default_all_columns_are_features_but_targets_and_an_index(files, tmp_path):
    assert list(fitted(RowBlocks.from_parquet(files, y="y")).feature_names_in_) == NAMES
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "z": [1, 2, 3]}, index=[7, 3, 5])
    frame.to_parquet(tmp_path / "frame.parquet")
    (rows,) = RowBlocks.from_parquet(tmp_path / "frame.parquet")
    np.testing.assert_array_equal(rows, frame)


TAKEN = {
    "float64": [1.0, -0.5, 1e300],
    "float32": np.float32([1, 2, 3]),
    "float16": np.float16([1, 2, 3]),
    "int8": np.int8([1, -2, 3]),
    "uint64": np.uint64([1, 2, 2**63]),
    "int64": np.int64([1, 2, 2**60 + 1]),
    "bool": [True, False, True],
    "nullable": pa.array([1, 2, 3], pa.int64()),
    "required": pa.array([1.0, 2.0, 3.0]),
}


@pytest.mark.parametrize("kind", TAKEN)
def test_numbers_are_taken(tmp_path, kind):
    (rows,) = RowBlocks.from_parquet(one_file(tmp_path, TAKEN[kind]), ["column"])
    assert rows.dtype == (np.float32 if kind == "float32" else np.float64)
    np.testing.assert_array_equal(rows[:, 0], np.asarray(TAKEN[kind], dtype=np.float64))


REFUSED = {
    "string": (["p", "q", "r"], "string, .* For strings, pass y='column' of labels"),
    "categories": (
        pd.Categorical(["p", "q", "p"]),
        "dictionary<.* For strings, pass y='column' of labels",
    ),
    "binary": ([b"p", b"q", b"r"], "binary"),
    "decimal": ([Decimal("1.5")] * 3, "decimal128.*: convert it in the file"),
    "time": ([MOMENT] * 3, "timestamp.*: convert it in the file.* such as days since"),
    "date": ([MOMENT.date()] * 3, "date32.*: convert it in the file.* such as days since"),
    "list": ([[1.0], [2.0], []], "list<.*: convert it in the file"),
    "struct": ([{"p": 1.0}] * 3, "struct<.*: convert it in the file"),
    "null": ([None] * 3, "null, .*: convert it in the file"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_other_columns_are_refused_by_name(tmp_path, kind):
    values, error = REFUSED[kind]
    path = one_file(tmp_path, values)
    with pytest.raises(ValueError, match=rf"one\.parquet: column 'column' is {error}"):
        RowBlocks.from_parquet(path)
    assert RowBlocks.from_parquet(path, ["x"]).shape == (3, 1)


@pytest.mark.parametrize("values", [[1, None, 3], [1.0, None, 3.0], [True, None, False]])
def test_missing_values_are_refused_before_a_charge(tmp_path, ledger, values):
    rows = RowBlocks.from_parquet(one_file(tmp_path, values))
    pca = DPPCA(1, row_norm=3, ledger=ledger)
    with pytest.raises(ValueError, match=r"^Input X contains NaN or infinity\. Fill missing"):
        pca.fit(rows)
    assert ledger.spent() == (0, 0, 0)
    assert not hasattr(pca, "components_")


@pytest.mark.parametrize(
    "values",
    [
        np.int64([3, 1, 2]),
        np.float32([0.5, 1, 2]),
        np.array([True, False, True]),
        np.array(["p", "q", "p"], dtype=object),
        pa.array(["p", "q", "p"], pa.large_string()),
        pd.Categorical(["p", "q", "p"]),
    ],
    ids=["int", "float", "bool", "str", "large_string", "categories"],
)
def test_targets_are_numbers_or_labels(tmp_path, values):
    rows = RowBlocks.from_parquet(one_file(tmp_path, values), y="column")
    assert rows.feature_names == ["x"]
    np.testing.assert_array_equal(rows.y[0:3], np.asarray(values))


def test_what_is_missing_among_targets_is_no_label(tmp_path):
    for values in (["p", None, "q"], pd.Categorical(["p", None, "q"])):
        rows = RowBlocks.from_parquet(one_file(tmp_path, values), y="column")
        assert list(rows.y[0:3]) == ["p", None, "q"]


def test_targets_of_other_types_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"'column' is timestamp.* strings: convert it"):
        RowBlocks.from_parquet(one_file(tmp_path, [MOMENT] * 3), y="column")


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"columns": "a"}, "columns must be a list of strings"),
        ({"columns": [1]}, "columns must be a list of strings"),
        ({"columns": []}, "at least one and each once"),
        ({"columns": ["a", "a"]}, "each once"),
        ({"columns": ["a", "y"], "y": "y"}, "columns must not have y='y': leave it out"),
        ({"columns": ["a", "z"]}, r"0\.parquet has no column 'z'; it has a, "),
        ({"y": "z"}, r"0\.parquet has no column 'z'"),
    ],
)
def test_names_are_checked(files, settings, error):
    with pytest.raises(ValueError, match=error):
        RowBlocks.from_parquet(files, **settings)


def test_files_must_have_the_same_columns_and_types(tmp_path):
    path = one_file(tmp_path, [1.0, 2.0, 3.0])
    other = one_file(tmp_path, [1, 2, 3], "other.parquet")
    with pytest.raises(ValueError, match=r"other\.parquet: column 'column' is int64, but double"):
        RowBlocks.from_parquet([path, other])
    other = write(other, x=[1.0])
    with pytest.raises(ValueError, match=r"other\.parquet: column 'column' is missing, but double"):
        RowBlocks.from_parquet([path, other])
    with pytest.raises(ValueError, match=r"other\.parquet has no column 'column'"):
        RowBlocks.from_parquet([path, other], ["column"])
    assert RowBlocks.from_parquet([path, other], ["x"]).shape == (4, 1)
    twice = pa.table([[1.0], [2.0]], names=["x", "x"])
    pq.write_table(twice, other)
    with pytest.raises(ValueError, match="two columns 'x'"):
        RowBlocks.from_parquet(other)


def test_labels_may_be_numbered_otherwise_in_each_file(tmp_path):
    paths = []
    for name, kind in (("0", pa.int8()), ("1", pa.int32())):
        labels = (
            pa.array(["p", "q", "p"]).dictionary_encode().cast(pa.dictionary(kind, pa.string()))
        )
        paths.append(one_file(tmp_path, labels, name))
    assert RowBlocks.from_parquet(paths, y="column").shape == (6, 1)


def test_a_file_that_is_none_is_named(tmp_path):
    path = tmp_path / "none.parquet"
    with pytest.raises(FileNotFoundError, match=r"none\.parquet"):
        RowBlocks.from_parquet(path)
    path.write_bytes(b"secret" * 100)
    with pytest.raises(ValueError, match=r"none\.parquet is no file of Parquet") as caught:
        RowBlocks.from_parquet(path)
    assert caught.value.__context__ is None
    with pytest.raises(ValueError, match="at least one file"):
        RowBlocks.from_parquet([])


def test_groups_and_files_may_be_empty(tmp_path):
    empty = write(tmp_path / "empty", x=pa.array([], pa.float64()))
    one, two = write(tmp_path / "one", x=[1.0]), write(tmp_path / "two", x=[2.0, 3.0])
    rows = RowBlocks.from_parquet([empty, one, empty, two])
    np.testing.assert_array_equal(np.vstack(list(rows)).ravel(), [1, 2, 3])
    with pytest.raises(ValueError, match="positive"):
        RowBlocks.from_parquet(empty)


def test_loaders_can_be_pickled(files, monkeypatch):
    monkeypatch.chdir(files[0].parent)
    rows = RowBlocks.from_parquet([path.name for path in files], y="y")
    monkeypatch.chdir("/")
    again = pickle.loads(pickle.dumps(rows))
    np.testing.assert_array_equal(np.vstack(list(again)), X)
    assert again.y[2400:2401] == 2400


def test_no_row_is_read_when_it_is_made(files, monkeypatch):
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", None)
    rows = RowBlocks.from_parquet(files)
    monkeypatch.undo()
    assert len(list(rows)) == len(CUTS) - 1


@pytest.mark.parametrize("change", ["gone", "shorter", "text", "nothing"])
def test_a_file_that_changed_is_an_error_that_tells_no_values(files, change):
    rows = RowBlocks.from_parquet(files, y="y")
    assert rows.is_sparse is False
    if change == "gone":
        files[1].unlink()
    elif change == "nothing":
        files[1].write_bytes(b"secret")
    else:
        column = np.zeros(9) if change == "shorter" else np.array(["secret"] * 2599)
        write(files[1], row_group_size=5000, **dict.fromkeys([*NAMES, "y"], column))
    with pytest.raises(ValueError, match=r"^Part 3") as caught:
        DPPCA(1, row_norm=3, n_jobs=1).fit(rows)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_file_that_is_written_anew_is_read_anew(tmp_path):
    path = write(tmp_path / "one", x=[1.0, 2.0])
    rows = RowBlocks.from_parquet(path)
    write(path, x=[3.0, 4.0], z=[1, 2])
    (found,) = rows
    np.testing.assert_array_equal(found, [[3], [4]])


def test_without_pyarrow_the_error_says_what_to_install(files, tmp_path, monkeypatch):
    real_import = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "skdp.data.parquet", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r'needs pyarrow: pip install "skdp\[parquet\]"'):
        RowBlocks.from_parquet(files)
    # Files of numpy do without.
    np.save(tmp_path / "x.npy", np.ones((5, 2)))
    assert RowBlocks.from_npy(tmp_path / "x.npy").shape == (5, 2)


TOWNS = ["Riga", "Turku", "Oslo"]


@pytest.mark.parametrize(
    "contain", [pa.array, pd.Categorical, lambda v: pa.array(v, pa.large_string())]
)
def test_texts_with_public_categories_become_columns_as_by_an_encoder(tmp_path, contain):
    values = ["Turku", None, "Riga", "Oulu", "Turku"]
    numbers = np.arange(5.0)
    path = write(tmp_path / "a.parquet", row_group_size=2, n=numbers, t=contain(values), m=numbers)
    rows = RowBlocks.from_parquet(path, categories={"t": TOWNS})
    encoder = OneHotEncoder(categories=[TOWNS], handle_unknown="ignore", sparse_output=False)
    frame = pd.DataFrame({"t": values}, dtype=object)
    expected = np.column_stack([numbers, encoder.fit_transform(frame), numbers])
    assert rows.is_sparse
    np.testing.assert_array_equal(np.vstack([block.toarray() for block in rows]), expected)
    assert rows.feature_names == ["n", *encoder.get_feature_names_out(), "m"]
    assert RowBlocks.from_parquet(path, ["t"], categories={"t": TOWNS}).shape == (5, 3)


def test_categories_are_numbered_by_the_caller_in_every_file(tmp_path):
    for number, values in enumerate((["Riga", "Oslo"], ["Oslo", "Turku"])):
        write(tmp_path / f"{number}.parquet", t=pd.Categorical(values))
    rows = RowBlocks.from_parquet(tmp_path, categories={"t": TOWNS})
    expected = [[1, 0, 0], [0, 0, 1], [0, 0, 1], [0, 1, 0]]
    np.testing.assert_array_equal(np.vstack([block.toarray() for block in rows]), expected)


@pytest.mark.parametrize(
    ("categories", "error"),
    [
        ({"t": "Riga"}, r"categories\['t'\] must be a list of strings"),
        ({"t": []}, "at least one and each once"),
        ({"t": None}, r"categories\['t'\] must be a list of strings"),
        ({"t": ["Riga", "Riga"]}, "at least one and each once"),
        ({"t": ["Riga", 1]}, "must be a list of strings"),
        ({"town": TOWNS}, "categories has 'town', which is no feature of"),
        ({"n": TOWNS}, "column 'n' is int64, but must be strings"),
        ({}, "column 't' is string, but must be .* categories=\\{'t': \\[\\.\\.\\.\\]\\}"),
    ],
)
def test_categories_are_checked(tmp_path, categories, error):
    path = write(tmp_path / "a.parquet", n=[1, 2], t=["Riga", "Turku"])
    with pytest.raises(ValueError, match=error):
        RowBlocks.from_parquet(path, categories=categories)


def test_a_folder_and_a_pattern_stand_for_files_in_the_order_of_their_names(files):
    folder = files[0].parent
    (folder / "_SUCCESS").touch()
    expected = RowBlocks.from_parquet(files, NAMES)
    for paths in (folder, folder / "*.parquet", [folder / "[0]*", folder / "1.parquet"]):
        rows = RowBlocks.from_parquet(paths, NAMES)
        np.testing.assert_array_equal(np.vstack(list(rows)), np.vstack(list(expected)))
    odd = folder / "what[0-9].parquet"
    files[0].rename(odd)
    assert RowBlocks.from_parquet(odd, NAMES).shape == (2401, 4)
    for empty in (folder / "*.none", folder / "none"):
        with pytest.raises((ValueError, OSError), match="none"):
            RowBlocks.from_parquet(empty)


def with_gaps(n):
    """Columns of some number of rows: numbers with gaps, towns, and a response."""
    rng = np.random.default_rng(2)
    age = np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n))
    towns = rng.choice(np.array([*TOWNS, None], dtype=object), n)
    return {"age": age, "town": pa.array(towns), "spent": rng.normal(size=n)}


# The responses are noise, of which a fit may warn.
@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_dense_columns_of_categories_are_those_of_rows_in_memory(tmp_path):
    columns = with_gaps(3000)
    path = write(tmp_path / "a.parquet", row_group_size=1500, **columns)
    dense = RowBlocks.from_parquet(path, y="spent", categories={"town": TOWNS}, sparse_output=False)
    sparse = RowBlocks.from_parquet(path, y="spent", categories={"town": TOWNS})
    encoder = OneHotEncoder(categories=[TOWNS], handle_unknown="ignore", sparse_output=False)
    towns = encoder.fit_transform(columns["town"].to_numpy(False)[:, None])
    expected = np.column_stack([columns["age"], towns])
    blocks = [*dense._raw_blocks()]
    assert (dense.is_sparse, sparse.is_sparse, blocks[0].flags.c_contiguous) == (False, True, True)
    assert dense.feature_names == sparse.feature_names == ["age", *(f"town_{t}" for t in TOWNS)]
    np.testing.assert_array_equal(np.vstack(blocks), expected)
    pipeline = make_dp_pipeline(
        DPStandardScaler(bounds=(-4, 4), missing="mean"), DPLinearRegression(), random_state=1 << 70
    )
    in_memory = clone(pipeline).fit(in_parts(expected, columns["spent"], lengths=[1500, 1500]))
    np.testing.assert_array_equal(pipeline.fit(dense)[-1].coef_, in_memory[-1].coef_)
    with pytest.raises(ValueError, match=r"sparse_output=False"):
        pipeline.fit(sparse)


@pytest.mark.parametrize(
    "estimator",
    [
        DPPCA(1, row_norm=3),
        DPLinearRegression(),
        DPLogisticRegression(),
        DPStandardScaler(with_mean=False),
    ],
)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_gaps_are_named_by_column(tmp_path, ledger, estimator, is_sparse):
    columns = {**with_gaps(900), "inf": np.full(900, -np.inf), "fine": np.ones(900)}
    columns["spent"] = np.arange(900) % 2
    path = write(tmp_path / "a.parquet", row_group_size=300, **columns)
    rows = RowBlocks.from_parquet(
        path, y="spent", categories={"town": TOWNS}, sparse_output=is_sparse
    )
    with pytest.raises(ValueError, match=r"Column age holds NaN\. Column inf holds infinity") as e:
        clone(estimator).set_params(ledger=ledger, n_jobs=2).fit(rows)
    assert "fine" not in str(e.value)
    assert ledger.spent() == (0, 0, 0)


def test_infinity_is_named_where_gaps_are_taken(tmp_path):
    path = write(tmp_path / "a.parquet", gaps=[np.nan] * 9, long=[np.inf] * 9)
    with pytest.raises(ValueError, match=r"contains infinity\. .* Column long holds infin") as e:
        DPStandardScaler(missing="mean").fit(RowBlocks.from_parquet(path))
    assert "gaps" not in str(e.value)


@pytest.mark.parametrize("row_group_size", [50, 100])
def test_texts_as_responses_are_refused_by_the_name_of_their_column(tmp_path, row_group_size):
    columns = {"x": np.arange(100.0), "town": ["Riga", "Turku"] * 50}
    path = write(tmp_path / "a.parquet", row_group_size=row_group_size, **columns)
    rows = RowBlocks.from_parquet(path, y="town")
    for model in (DPLinearRegression(), make_dp_pipeline(DPStandardScaler(), DPLinearRegression())):
        with pytest.raises(ValueError, match=r"part 0, column 'town': y holds texts.*to_numeric"):
            model.fit(rows)
