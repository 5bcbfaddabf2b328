"""Checks and conversions of the containers of data: arrays, sparse matrices, frames, files."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from datetime import date, timedelta
from functools import partial
from itertools import pairwise, starmap
from numbers import Integral, Number
from types import NoneType
from typing import Any, TypeAlias, TypeVar

import numpy as np
from scipy import sparse
from scipy.sparse import issparse

from skdp.exceptions import OF_COLUMNS, shortened, shown
from skdp.linalg.norms import rows_of, with_data

# ------------------------------
# Checks of a container, which all data pass first.

#: Replaces the texts of errors on reading a container, as such texts may contain private values.
UNREADABLE = (
    "The data cannot be read: a conversion or a step raises an error, whose text is left out as it "
    "may contain values. numpy.asarray(X, dtype=float), or a loop over blocks or steps, shows it."
)
MASKED = (
    "A masked array is not accepted, because the values under the mask would be used. Fill it by "
    "a constant, as X.filled(0) does; dropping rows because of their values would not be private."
)
INVALID_SPARSE = (
    "A sparse matrix has parts that do not fit together: every index must be from 0 and below the "
    "length of its axis, indptr must never decrease and must end within the entries, and all "
    "lengths must agree."
)
COLLECTION = "A collection of dask is not accepted here: pass X.compute() if it fits into memory."
OTHER_COLUMNS = (
    "A data frame has other columns than the first data frame (or than dask declares), or another "
    "order of columns. Select the same columns by name in all parts, as frame[['a', 'b']] does."
)
TIMES = f"Dates, times and durations are no numbers. {OF_COLUMNS['dates or durations']}"
TIMES_IN_Y = "y: " + TIMES.replace("X['name']", "pandas.Series(y)")
NO_RESPONSES = (
    "y holds texts, or other objects that are no numbers, but a regression needs numbers. Convert "
    "texts by pandas.to_numeric(y), and decimal commas by pandas.read_csv(path, decimal=','); if "
    "y has labels, fit DPLogisticRegression(classes=[...])."
)
LAZY = "A LazyFrame has not been read: pass what its collect() returns."
RECORDS = (
    "An array of records is not accepted: pass pandas.DataFrame(X), or "
    "numpy.lib.recfunctions.structured_to_unstructured(X)."
)
REPEATED_NAMES = (
    "A data frame has several columns of one name, which X.columns[X.columns.duplicated()] lists. "
    "Give each its own, as X.set_axis([...], axis=1) does."
)
#: Texts of errors that may be shown, as they contain no values.
SAFE_TEXTS: tuple[str, ...] = (UNREADABLE, MASKED, INVALID_SPARSE, COLLECTION, OTHER_COLUMNS, TIMES)
SAFE_TEXTS += (LAZY, RECORDS, NO_RESPONSES, REPEATED_NAMES, TIMES_IN_Y)
#: Advice for missing values of X or y.
MISSING = {
    "X": "Fill missing values by a constant, as SimpleImputer(strategy='constant') does in a "
    "DPPipeline, or numpy.nan_to_num(X, nan=0.0) in fit and predict alike; or privately, by "
    "missing='mean' of a DPStandardScaler or DPCovariance.",
    "y": "Leave such records out of X and y, as X[pandas.notna(y)] and y[pandas.notna(y)] do. How "
    "many are left is public.",
}
#: Advice for missing values of X in parts, to which no function of arrays can be applied.
MISSING_IN_PARTS = MISSING["X"].replace(
    "numpy.nan_to_num(X, nan=0.0) in fit and predict alike",
    "in the file or loader of each part",
)
#: Advice for missing values of a table of entries, most of which are unknown.
OBSERVED = (
    "Pass the known entries as a sparse matrix, csr_array(numpy.nan_to_num(X)), and "
    "missing='middle': missing='zero' would take unknown entries for 0."
)

T = TypeVar("T")


class SkdpContainer:
    """Marks containers of skdp, which check their own contents."""


def hide_error_text(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call a function that may raise any error; replace the error's text, which may show values."""
    return with_text(UNREADABLE, partial(function, *args, **kwargs))


def with_text(
    text: str,
    function: Callable[[], T],
    unchanged: type[Exception] | tuple[()] = (),
    prefix: str | None = None,
) -> T:
    """Call a function; replace the text of an error, unless the type of the error is `unchanged`.

    Errors except MemoryError become ValueError. With a prefix, a text in `SAFE_TEXTS` follows it.
    """
    try:
        return function()
    except unchanged:
        raise
    except MemoryError:
        kind: type[Exception] = MemoryError
    except Exception as error:
        kind = ValueError
        # Arguments of an error may be objects of any type, whose methods could raise other errors.
        texts = error.args if prefix is not None and type(error) is ValueError else ()
        safe = (one for one in texts if type(one) is str and one in SAFE_TEXTS)
        text = next((f"{prefix}{one}" for one in safe), text)
    # Raised outside the handler: within, Python would attach the original error and its text.
    raise kind(text)


def loaded(loader: Callable[[], T], name: str, hint: str) -> T:
    """Call a loader; errors name what it loads, and show no text with values."""
    text = (
        f"{name}: The data cannot be read: loading them raises an error, whose text is left out "
        f"because it may contain values. {hint}"
    )
    return with_text(text, loader, prefix=f"{name}: ")


def checked_container(X: Any) -> Any:
    """Refuse masked arrays, inconsistent sparse matrices, dask, LazyFrames and arrays of records.

    Refuse data frames with two columns of one name, too. Return X itself, or an array if
    `__array__` is all that X has.
    """
    if is_collection(X):
        raise ValueError(COLLECTION)
    if type(X).__name__ == "LazyFrame":
        raise ValueError(LAZY)
    refuse_repeated_names(X)
    X = X if isinstance(X, np.ndarray) else hide_error_text(_as_array, X)
    if isinstance(X, np.ndarray) and X.dtype.names:
        raise ValueError(RECORDS)
    refuse_unreadable(X)
    if issparse(X):
        with_text(INVALID_SPARSE, partial(_check_parts, X))
    return X


def _check_parts(X: Any) -> None:
    """Refuse a sparse matrix with inconsistent parts, which scipy would trust."""
    if is_compressed := X.format in ("bsr", "csc", "csr"):
        indices = X.indptr, X.indices
    else:
        X = X.tocoo(copy=False)
        # One-dimensional arrays have no `row`, and old versions of scipy have no `coords`.
        indices = X.coords if hasattr(X, "coords") else (X.row, X.col)
    if not all(isinstance(one, np.ndarray) and one.dtype.kind == "i" for one in indices):
        raise ValueError
    if not is_compressed:
        sparse.coo_array((X.data, indices), shape=X.shape)  # checks the indices
        return
    copy(X).check_format(full_check=True)  # a copy, as the method may change its object
    # `check_format` compares the entries of indptr only if any entry of the matrix is stored.
    if (X.indptr[1:] < X.indptr[:-1]).any():
        raise ValueError


def is_collection(X: Any) -> bool:
    """Return whether X is a collection of dask; neither import dask nor run code of X."""
    return hasattr(type(X), "__dask_graph__")


def refuse_unreadable(X: Any) -> None:
    """Refuse masked arrays, and objects whose attributes raise errors, which may show values.

    No entries are read.
    """
    for name in ("ndim", "shape", "dtype"):
        hide_error_text(getattr, X, name, None)
    if isinstance(getattr(X, "data", None) if issparse(X) else X, np.ma.MaskedArray):
        raise ValueError(MASKED)


def _as_array(X: Any) -> Any:
    """Convert objects that only have `__array__`, and tables of pyarrow; return others as is."""
    if hasattr(X, "column_names") and hasattr(X, "to_pandas"):
        # A ColumnTransformer takes no table of pyarrow, but a frame of pandas.
        X = X.to_pandas(types_mapper=_nullable)
    is_accepted = issparse(X) or isinstance(X, SkdpContainer | type)
    if is_accepted or hasattr(X, "columns") or hasattr(X, "iloc") or not hasattr(X, "__array__"):
        return X
    # Unlike `asarray`, this keeps the mask of a masked array.
    return np.asanyarray(X)


def _nullable(kind: Any) -> Any:
    """Return a dtype of pandas that can hold gaps, for integers or booleans of pyarrow.

    Any other dtype would show whether the column has a gap, and a fitted step would store the
    dtype.
    """
    import pandas as pd

    name = {"bool": "boolean"}.get(str(kind), str(kind).replace("u", "U").replace("int", "Int"))
    is_nullable = name == "boolean" or name.startswith(("Int", "UInt"))
    return pd.api.types.pandas_dtype(name) if is_nullable else None


# ------------------------------
# Names and dtypes of the columns of a data frame, which are public.


def names_of(X: Any) -> list[Any] | None:
    """Return the column names of a data frame, of any type; None for other objects."""
    # In pandas an attribute may be a label: `frame.column_names` may be a column, and
    # `series.columns` an entry. For a table of pyarrow, `table.columns` has the values.
    names = None
    if hasattr(X, "iloc"):
        names = X.columns if X.ndim == 2 else None
    elif hasattr(X, "__dataframe__") or hasattr(X, "__arrow_c_stream__"):
        names = getattr(X, "column_names", getattr(X, "columns", None))
    return None if names is None else list(names)


def refuse_repeated_names(X: Any) -> None:
    """Refuse a data frame with several columns of one name; the error shows no name."""
    if hide_error_text(lambda: len(names := names_of(X) or ()) > len(set(names))):
        raise ValueError(REPEATED_NAMES)


def refuse_other_columns(names: Any, declared: Any, prefix: str = "") -> None:
    """Refuse column names other than `declared`, or in another order; accept rows without names."""
    if names is not None and not hide_error_text(lambda: names == declared):
        raise ValueError(prefix + OTHER_COLUMNS)


def refuse_other_order(X: Any, **others: Any) -> None:
    """Refuse y or ids whose index has the labels of X in another order: rows pair by position."""
    for name, other in others.items():
        is_other = False
        with suppress(Exception):  # an index may hold objects that refuse to be compared
            if hasattr(X, "iloc") and hasattr(other, "iloc"):
                left, right = X.index, other.index
                differ = len(left) == len(right) and not left.equals(right)
                is_other = differ and left.is_unique and bool(left.isin(right).all())
        if is_other:
            raise ValueError(
                f"{name} has the index of X in another order. Pass {name}.loc[X.index]; or, if row "
                f"i of {name} belongs to row i of X, {name}.to_numpy()."
            )


def shared_name(X: Any, other: Any) -> str | None:
    """Return the name of a series, or of a frame of one column, if X has a column of that name."""
    # The names of columns are read first, as `frame.name` may be a column.
    names = hide_error_text(lambda: names_of(other) or [getattr(other, "name", None)])
    is_shared = len(names) == 1 and type(names[0]) is str
    return (
        names[0] if is_shared and hide_error_text(lambda: names[0] in (names_of(X) or ())) else None
    )


def as_feature_names(names: list[Any] | None) -> list[str] | None:
    """Return names that are strings, None for other names; refuse mixed ones, as scikit-learn."""
    are_strings = [isinstance(name, str) for name in names or ()]
    if any(are_strings) and not all(are_strings):
        raise ValueError("X has column names of several types: pass X.rename(columns=str).")
    return names if any(are_strings) else None


def flaw_of_columns(X: Any) -> str:
    """Return an error text about columns whose dtypes are no real numbers; "" if there are none."""
    bad = {str(name): kind for name, kind in types_of(X) if kind}
    return f"X has columns that are no real numbers. {text_of_kinds(bad, X=X)}" * bool(bad)


def types_of(X: Any) -> list[tuple[Any, str]]:
    """Return the name of each column of a data frame, and its kind; "" for real numbers."""
    names = names_of(X)
    columns = () if names is None else zip(names, getattr(X, "dtypes", ()), strict=False)
    return [(name, _kind_of_type(dtype)) for name, dtype in columns]


def spelled_kinds(X: Any) -> list[tuple[Any, str]]:
    """Return the name of each column, with "numbers" or "texts" by its dtype; "" for others."""
    is_array = hasattr(X, "dtype")
    dtypes = [X.dtype] * X.shape[1] if is_array else X.dtypes
    columns = enumerate(dtypes) if is_array else zip(names_of(X) or (), dtypes, strict=True)
    return [(name, _spelled_kind(getattr(one, "categories", one))) for name, one in columns]


def _spelled_kind(dtype: Any) -> str:
    dtype = getattr(dtype, "dtype", dtype)
    if not _kind_of_type(dtype):
        return "numbers"
    name = str(dtype).lower().removeprefix("large_")
    is_text = name.startswith(("str", "<u", ">u")) and not name.startswith("struct")
    return "texts" * is_text


def made_up_frame(columns: Mapping[Any, bool], dtype: Any) -> Any:
    """Make two public rows with the columns of private rows; True marks a column of texts."""
    import pandas as pd

    texts, numbers = np.full(2, "", dtype=object), np.ones(2, dtype)
    return pd.DataFrame({name: texts if one else numbers for name, one in columns.items()})


def refuse_times(X: Any) -> None:
    """Refuse dates, times and durations, which numpy converts to whole numbers."""
    if have_times(X):
        raise ValueError(TIMES)


def have_times(X: Any) -> bool:
    """Return whether rows contain dates, times or durations."""
    if issparse(X):
        return False
    found = X if hasattr(X, "dtype") or hasattr(X, "dtypes") else np.asarray(X)
    types = np.asarray(getattr(found, "dtypes", getattr(found, "dtype", None)), dtype=object)
    are_objects = isinstance(found, np.ndarray) and found.dtype == object
    kinds = set(map(type, found.ravel())) if are_objects else set()
    return bool(kinds & {np.datetime64, np.timedelta64}) or any(map(_is_of_times, types.ravel()))


def _is_of_times(dtype: Any) -> bool:
    """Return whether a dtype is for dates, times or durations."""
    # Dtypes of polars have `is_temporal` instead of `kind`.
    return getattr(dtype, "kind", "O") in "mM" or bool(getattr(dtype, "is_temporal", bool)())


def _kind_of_type(dtype: Any) -> str:
    """Return the kind of a dtype of numpy, pandas or polars; "" for real numbers."""
    kind = getattr(getattr(dtype, "numpy_dtype", dtype), "kind", "O")
    if getattr(dtype, "is_numeric", lambda: kind in "fiub")() or str(dtype) == "Boolean":
        return ""
    if _is_of_times(dtype):
        return "dates or durations"
    if kind == "c":
        return "complex numbers"
    return "categories" if hasattr(dtype, "categories") else _OBJECTS


# ------------------------------
# For errors: what columns contain instead of finite numbers, and how to convert them.

#: Advice to the user, by what a column contains instead of finite numbers.
CURES = {"NaN": MISSING["X"], **OF_COLUMNS}
# The kind of a column if only its dtype `object` is known, and not its entries.
_OBJECTS = "texts, categories or objects"
CURES[_OBJECTS] = f"{CURES['texts']} Booleans as objects take X['name'].astype('boolean')."
CURES[_OBJECTS] += " RowBlocks.from_parquet encodes categories={'name': [...]}."
#: Advice for dtypes of pandas or polars in which an imputer does not find missing values.
OF_DTYPES = {
    "object": " Numbers as objects need .convert_dtypes(), booleans as objects .astype('boolean').",
    "Boolean": " Booleans of polars that are missing need .cast(float) before an imputer.",
}
#: Advice about texts and missing values for steps that accept texts.
GAPS_OF_TEXTS = (
    "Fill gaps in texts before the fit, as X['name'].fillna('') does with pandas, and "
    "X['name'].fill_null('') with polars."
)
# What a user of a fitted model passes in a new row, by the kind of a column that has gaps.
_OF_NEW_ROWS = dict.fromkeys(
    ("NaN", "None", "booleans and gaps", "texts and gaps"),
    "In new rows, pass numbers as floats, numpy.nan for a gap in a column of numbers, None in a "
    "column of categories, and '' in a column of texts.",
)


def kind_of(column: Any) -> str:
    """Return what a column contains instead of finite real numbers; "" if nothing is found."""
    with suppress(Exception):  # entries may be objects whose methods raise any error
        return _kind_of(column)
    return ""


def _kind_of(column: Any) -> str:
    """Return what a column contains, by its dtype or by the types of its entries."""
    if have_times(column):
        return "dates or durations"
    if hasattr(getattr(column, "dtype", None), "categories"):
        return "categories"
    # In a list of texts, numpy would convert NaN to the text "nan".
    values = np.asarray(column, object if isinstance(column, list | tuple) else None).ravel()
    if values.dtype.kind == "c":
        return "complex numbers"
    if values.dtype.kind in "biuf":
        return "infinity" if np.isinf(values).any() else "NaN" if np.isnan(values).any() else ""
    entries = values.astype(object).tolist()
    present = [one for one in entries if not _is_gap(one)]
    kinds, has_gaps = set(map(type, present)), len(present) < len(entries)
    if any(issubclass(kind, str | bytes) for kind in kinds):
        return "texts and gaps" if has_gaps else "texts"
    if any(issubclass(kind, date | timedelta) or kind.__name__ == "Period" for kind in kinds):
        return "dates or durations"
    if not all(issubclass(kind, Number | np.bool_) for kind in kinds):
        return "objects"
    try:
        if np.isinf(np.array(present, dtype=np.float64)).any():
            return "infinity"
    except OverflowError:
        return "infinity"
    if not has_gaps:
        return ""
    if getattr(column, "dtype", None) == np.dtype(object) and kinds and kinds <= {bool, np.bool_}:
        return "booleans and gaps"
    gaps = {type(one) for one in entries if _is_gap(one)}
    return "None" if NoneType in gaps <= {NoneType, float, np.float64} else "NaN"


def _is_gap(entry: Any) -> bool:
    """Return whether an entry is a missing value of Python, numpy or pandas."""
    is_nan = isinstance(entry, float) and entry != entry
    return entry is None or is_nan or type(entry).__name__ in ("NAType", "NaTType")


def kinds_of(X: Any, names: Any = None, *, allow_nan: bool = False) -> dict[str, str]:
    """Return the kind of each column that does not contain finite numbers only."""
    if issparse(X):
        X = X.tocoo()
        names = np.unique(X.col[~(np.isfinite(X.data) | (allow_nan & np.isnan(X.data)))]).tolist()
        return {str(name): kind_of(X.data[X.col == name]) for name in names[:10]}
    X = X if hasattr(X, "shape") else np.asarray(X, dtype=object)
    if names is None:
        names = names_of(X) or range(*X.shape[1:2])
    X = getattr(X, "iloc", X)
    found = {str(name): kind_of(X[:, place]) for place, name in enumerate(names)}
    taken = ("", "NaN", "None", "booleans and gaps") if allow_nan else ("",)
    return {name: kind for name, kind in found.items() if kind not in taken}


def text_of_kinds(
    kinds: Mapping[str, str], text: str = "", cures: Mapping[str, str] = CURES, X: Any = None
) -> str:
    """Describe columns by their kinds, and add the advice that `text` does not give already.

    The advice is for frames of pandas, and says how to make one of X.
    """
    sentences, known = [], names_of(X)
    is_polars, is_for_frames = type(X).__module__.startswith("polars."), False
    # A ColumnTransformer takes whole numbers for positions of columns, and only texts for names.
    are_texts = all(type(name) is str for name in known or ())
    for kind in dict.fromkeys(kinds.values()):
        names = [name for name in kinds if kinds[name] == kind]
        who = f"Column {names[0]} holds" if len(names) == 1 else f"Columns {shortened(names)} hold"
        sentences.append(f"{who} {kind}.")
        advice = cures[kind]
        if advice in text:
            continue
        text, is_for_frames = text + advice, is_for_frames or "'name'" in advice
        if "'name'" in advice and not are_texts:
            sentences.append("Set X.columns = [str(c) for c in X.columns] first.")
            are_texts = True
        labels = [*map(str if known is None else repr, names)]
        filled = {"'name'": labels[0], "['names']": f"[{', '.join(labels)}]"}
        filled[", ..."] = ", ..." * (len(labels) > 1)
        parts = re.split(r"('name'|\['names'\]|, \.\.\.)", advice)
        sentences.append("".join(filled.get(part, part) for part in parts))
    if is_for_frames and (is_polars or known is None):
        frame = "X.to_pandas()" if is_polars else "pandas.DataFrame(X).infer_objects()"
        sentences.append(f"Do this to {frame}, in place of X.")
    return " ".join(sentences)


def gaps_of_new_rows(kinds: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the columns with gaps, which fitted steps may fail to read, and advice about them.

    Fitted steps read other columns, such as texts, as in the fit: these are left out, unless no
    column has gaps.
    """
    gaps = {name: kind for name, kind in kinds.items() if kind in _OF_NEW_ROWS}
    return (gaps, _OF_NEW_ROWS) if gaps else (kinds, CURES)


# ------------------------------
# Dtypes and shapes of matrices; sparse matrices become CSR.

RawBlock: TypeAlias = np.ndarray | sparse.csr_array


def checked_shape(shape: Any) -> tuple[int, int]:
    """Return a shape of two positive integers; refuse other shapes."""
    is_pair = hasattr(shape, "__len__") and len(shape) == 2
    if not is_pair or not all(isinstance(n, Integral) and int(n) > 0 for n in shape):
        raise ValueError(f"Pass shape=(n_rows, n_columns), positive integers, got {shown(shape)}.")
    return int(shape[0]), int(shape[1])


def checked_dtype(dtype: Any) -> np.dtype:
    """Refuse a dtype other than float32 and float64."""
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {dtype!r}.")
    return np.dtype(dtype)


def float_dtype(X: Any) -> np.dtype:
    """Return the dtype of numbers computed from X: float32 if X has it, otherwise float64."""
    return np.dtype(np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64)


def is_mapped(X: Any) -> bool:
    """Return whether an array is a memory map, or a view of one."""
    while isinstance(X, np.ndarray):
        if isinstance(X, np.memmap):
            return True
        X = X.base
    return False


def in_c_order(block: RawBlock) -> RawBlock:
    """Convert dense rows to C order.

    Products of rows in another memory order may round differently, and the memory order of a data
    frame may depend on other rows.
    """
    # Data frames, which contain texts here, stay as they are.
    is_array = not (sparse.issparse(block) or hasattr(block, "iloc"))
    return np.require(block, requirements=["C", "A"]) if is_array else block


def taken(rows: RawBlock, places: slice | np.ndarray) -> RawBlock:
    """Select rows; a slice of rows, of step 1, shares memory with all rows."""
    return rows_of(rows, places) if isinstance(places, slice) and issparse(rows) else rows[places]


def blocks_at(rows: RawBlock, starts: Sequence[int]) -> Iterator[RawBlock]:
    """Yield views of the blocks of rows that begin at `starts`."""
    return map(partial(taken, rows), starmap(slice, pairwise(starts)))


def canonical_csr(X: Any) -> sparse.csr_array:
    """Check a container, and convert it to CSR without duplicate entries.

    With duplicate entries, norms of rows would be wrong. Duplicates are summed in the order in
    which their row has them, so that the sum does not depend on other rows.
    """
    return as_canonical(checked_container(X))


def as_canonical(X: Any) -> sparse.csr_array:
    """Convert a checked container to CSR without duplicate entries."""
    X = plain_csr(X)
    if X.ndim == 2 and not X.has_canonical_format:
        # Converting to CSC and back preserves the order of duplicates; `sort_indices` does not.
        X = sparse.csr_array(X.tocsc().tocsr())
        X.sum_duplicates()
    return X


def plain_csr(X: Any) -> sparse.csr_array:
    """Convert a checked container to CSR; keep duplicate entries."""
    if X.ndim == 2 and X.format not in ("csr", "csc"):
        X = X.tocoo(copy=False)
        X = sparse.coo_array((X.data, (X.row, X.col)), shape=X.shape)
        # This flag says that there are no duplicates, so that the conversion does not sum them.
        X.has_canonical_format = True
    X = X.tocsr()
    # The flags of the caller's object may be wrong: a new object determines its own flags.
    return with_data(X, X.data)


# ------------------------------
# Rows with NaN or infinity.


def finite(rows: Any) -> Any:
    """Make dense or sparse rows of floats finite: NaN becomes 0, and infinity a large number."""
    if issparse(rows):
        rows = canonical_csr(rows)
        return with_data(rows, finite(rows.data))
    with np.errstate(all="ignore"):
        array: np.ndarray = np.asarray(rows, dtype=float_dtype(rows))
    if np.isfinite(array).all():
        return array
    # Infinity becomes half of the largest number, so that results that round up do not overflow.
    largest = float(np.finfo(array.dtype).max) / 2
    return np.nan_to_num(array, nan=0.0, posinf=largest, neginf=-largest)


def of_finite(
    rows: Any, function: Callable[[Any], Any], dtype: np.dtype, *, allow_nan: bool = False
) -> Any:
    """Apply a function that maps each row by itself; rows with NaN or infinity become NaN.

    Rows are converted to `dtype` before and after. With `allow_nan`, only rows with infinity become
    NaN, and the function has to accept NaN.
    """
    with np.errstate(all="ignore"):
        made = function(rows.astype(dtype, copy=False)).astype(dtype, copy=False)
    return with_nan(made, not_finite_rows(rows, allow_nan=allow_nan))


def not_finite_rows(rows: Any, *, allow_nan: bool = False) -> np.ndarray:
    """Return a mask of the rows with NaN or infinity; with `allow_nan`, of those with infinity."""
    values = rows.data if issparse(rows) else rows
    is_finite = ~np.isinf(values) if allow_nan else np.isfinite(values)
    if is_finite.all():
        return np.zeros(rows.shape[0], dtype=bool)
    if not issparse(rows):
        return np.asarray(~is_finite.all(axis=1))
    ends = np.concatenate([[0], np.cumsum(~is_finite)])[rows.indptr]
    return np.asarray(np.diff(ends) > 0)


def with_nan(rows: Any, is_null: np.ndarray) -> Any:
    """Set all stored entries of the rows with `is_null` to NaN."""
    if not is_null.any():
        return rows
    values = rows.data.copy() if issparse(rows) else rows.copy()
    values[np.repeat(is_null, np.diff(rows.indptr)) if issparse(rows) else is_null] = np.nan
    return with_data(rows, values) if issparse(rows) else values


# ------------------------------
# Paths of files, and numpy files, each of which is mapped into memory and is a part of the rows.


def paths_of(paths: Any, name: str = "paths") -> list[str]:
    """Return absolute paths, as other processes may have another working directory."""
    several = [paths] if isinstance(paths, str | bytes | os.PathLike) else list(paths)
    if not several:
        raise ValueError(f"{name} must name at least one file, got none.")
    return [os.path.abspath(os.fsdecode(path)) for path in several]


def files_of_numpy(paths: Any, y: Any) -> tuple[Any, ...]:
    """Return the arguments of `RowParts` for files of numpy, as `RowBlocks.from_npy` takes them."""
    loaders, rows = _mapped(paths, "paths")
    of_targets, targets = (None, rows) if y is None else _mapped(y, "y")
    widths, lengths = {one.shape[1] for one in rows}, [len(one) for one in rows]
    if len(widths) > 1:
        raise ValueError(f"paths must be files with equally many columns, got {sorted(widths)}.")
    if [len(one) for one in targets] != lengths:
        raise ValueError("y must have a file for each of paths, with an entry for each row.")
    dtype = np.float32 if all(one.dtype == np.float32 for one in rows) else np.float64
    return loaders, lengths, widths.pop(), dtype, of_targets


def _mapped(paths: Any, name: str) -> tuple[list[partial[Any]], list[np.ndarray]]:
    """Return functions that memory-map the files, and the mapped arrays."""
    loaders = [partial(np.lib.format.open_memmap, path, mode="r") for path in paths_of(paths, name)]
    return loaders, [_array_of(loader, n_dimensions=1 if name == "y" else 2) for loader in loaders]


def _array_of(loader: partial[Any], n_dimensions: int) -> np.ndarray:
    """Memory-map a file of one array; replace the text of any error but an OSError."""
    (path,) = loader.args
    text = (
        f"{path} must be a {n_dimensions}-D array of real numbers of at most 64 bits"
        f"{', or of strings' * (n_dimensions == 1)}, as numpy.save(path, X.astype(float)) writes."
    )
    found = with_text(text, loader, OSError)
    is_taken = np.can_cast(found.dtype, np.float64) or (n_dimensions, found.dtype.kind) == (1, "U")
    if found.ndim != n_dimensions or not is_taken:
        raise ValueError(f"{text} Got shape {found.shape}, dtype {found.dtype.type.__name__}.")
    return found
