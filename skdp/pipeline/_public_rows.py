"""Public rows that stand in for private ones, and calls of functions that reveal no row."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
from joblib import parallel_config
from scipy.sparse import csr_array, issparse
from sklearn.compose import ColumnTransformer
from sklearn.utils import _safe_indexing
from sklearn.utils._indexing import _get_column_indices
from sklearn.utils.validation import _num_samples, check_array

from skdp._estimator import PrivateEstimator
from skdp._validation import redact_errors
from skdp.data.containers import flaw_of_columns, made_up_frame, not_finite_rows, types_of
from skdp.data.matrices import RankOneMatrices
from skdp.data.parts import RowBlocks, mapped_blocks
from skdp.data.workers import without_warnings

# ------------------------------
# Facts about rows in any container.

_KINDS_OF_NUMBERS = "biufc"


def are_numbers(rows: Any) -> bool:
    """Return whether rows hold only numbers; a text such as "1" is no number."""
    dtype = getattr(rows, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in _KINDS_OF_NUMBERS:
        return True
    try:
        with without_warnings():
            np.asarray(rows, dtype=np.float64)
            array = np.asarray(rows)
    except Exception:
        return False
    if array.dtype.kind != "O":
        return array.dtype.kind in _KINDS_OF_NUMBERS
    return not any(isinstance(entry, str | bytes) for entry in array.ravel())


def shape_of(rows: Any) -> tuple[int, ...]:
    """Return the shape of rows, or of a result, which may be a list."""
    try:
        return tuple(rows.shape if hasattr(rows, "shape") else np.asarray(rows, dtype=object).shape)
    except Exception:
        return ()


def are_single(rows: Any) -> bool:
    """Return whether each row is a single object, such as a text, instead of a vector.

    A one-dimensional array of objects counts as texts, as all of its texts may be missing.
    """
    dtype = getattr(rows, "dtype", None)
    is_numeric = isinstance(dtype, np.dtype) and dtype.kind in _KINDS_OF_NUMBERS
    return not is_numeric and len(shape_of(rows)) == 1


def plain_rows(rows: Any) -> Any:
    """Convert sparse rows to CSR, and a list of rows of numbers to an array of float64.

    The dtype of ``numpy.asarray(list)`` would depend on the private values. Half precision becomes
    single precision, as the sums of squares of scikit-learn would overflow.
    """
    if getattr(rows, "dtype", None) == np.float16:
        rows = rows.astype(np.float32)
    if issparse(rows):
        return rows.tocsr()
    is_list = isinstance(rows, list | tuple) and are_numbers(rows) and not are_single(rows)
    return np.asarray(rows, dtype=np.float64) if is_list else rows


def as_table(rows: Any) -> Any:
    """Convert a list of rows to an array: of float64, or of objects if the list has texts.

    A ColumnTransformer does the same. Without a dtype, ``numpy.asarray`` would turn all numbers of
    a list with texts into texts.
    """
    if hasattr(rows, "shape"):
        return rows
    table = plain_rows(rows)
    table = table if hasattr(table, "shape") else np.asarray(table, dtype=object)
    if table.ndim != 2:
        raise ValueError("X must have columns: pass a list of rows that are equally long.")
    return table


def have_gaps(rows: Any) -> np.ndarray:
    """Return a mask of rows that have a number that is not finite; missing texts do not count."""
    if not are_single(rows):
        if (types := types_of(rows)) and not are_numbers(rows):
            # A column of objects may hold numbers, too.
            rows = rows[[name for name, kind in types if not kind or are_numbers(rows[name])]]
        with suppress(Exception), without_warnings(), np.errstate(all="ignore"):
            values = plain_rows(rows) if issparse(rows) else _with_gaps(rows)
            return not_finite_rows(values)
    return np.zeros(redact_errors(_num_samples)(rows), dtype=bool)


# numpy refuses nullable booleans with gaps, which scikit-learn converts.
_with_gaps = partial(check_array, dtype=np.float64, ensure_all_finite=False, ensure_2d=False)


def columns_of(rows: Any, columns: Any, dtype: Any = None) -> Any:
    """Return some columns of rows, or all for None; a `dtype` converts a data frame to an array."""
    if columns is None:
        return rows
    if not isinstance(rows, RowBlocks):
        rows = _safe_indexing(rows, columns, axis=1)
        return rows.to_numpy(dtype) if dtype and hasattr(rows, "iloc") else rows
    two = as_named(rows)
    places = _get_column_indices(next(stand_ins(rows)) if two is rows else two, columns)
    names = rows.feature_names and [rows.feature_names[place] for place in places]
    like = None if rows.like is None else columns_of(rows.like, places)
    like = like if flaw_of_columns(like) else None  # rows of numbers become arrays
    take = partial(columns_of, columns=places, dtype=rows.dtype if like is None else None)
    return mapped_blocks(rows, take, len(places), names, like)


# ------------------------------
# Public rows with the container, the columns and the dtypes of private rows.

# Public rows come in pairs, as some functions treat a single row differently.
TWICE = 2  # not tuned
# Values of two public rows: numbers, or texts of several kinds. Except for empty texts, both values
# differ: so the result for one row shows whether a function uses the other row, too.
_PAIRS = ((1.0, 0.5), ("", ""), ("", "1"), ("2000-01-01", "2001-02-03"))  # not tuned
# A public row with one of these numbers, among more than `_OTHERS` equal rows, shows whether a
# function uses other rows. Some functions do so only if a number is 0, negative, missing, or an
# outlier: 30,000 is 6 standard deviations off the mean. None stands for a value of `_PAIRS`.
TRIED_NUMBERS = (None, 0, -30_000, 30_000, np.nan)  # not tuned
_OTHERS = 40  # not tuned
# Texts of one letter fit into any array of texts, whose width depends on private rows.
_SHORT_TEXTS = ("1", "2")


def row_among(rows: Any) -> Any:
    """Return the first of two rows among many copies of the second one."""
    many = _safe_indexing(rows, [1, 0] + [1] * _OTHERS)
    return many.reset_index(drop=True) if hasattr(many, "iloc") else many


def as_named(rows: Any) -> Any:
    """Return a data frame of public rows for blocks with column names; other rows as they are."""
    names = rows.feature_names if isinstance(rows, RowBlocks) else None
    if names is None:
        return rows
    is_text = dict.fromkeys(names, False)
    return made_up_frame(is_text, rows.dtype) if rows.like is None else rows.like


def have_categories(rows: Any) -> bool:
    """Return whether dtypes reveal values: those with categories, or with a length of texts."""
    types = getattr(rows, "dtypes", getattr(rows, "dtype", None))
    types = np.atleast_1d(np.asarray(types, dtype=object))
    return any(hasattr(one, "categories") or getattr(one, "kind", "O") in "SU" for one in types)


def without_categories(rows: Any) -> Any:
    """Convert texts and categories of public rows to objects, whose dtype reveals no value."""
    if hasattr(rows, "fill_null"):
        types = zip(rows.columns, rows.dtypes, strict=True)
        return rows.cast({name: str for name, one in types if hasattr(one, "categories")})
    if not hasattr(rows, "iloc"):
        return np.asarray(rows).astype(object)
    if rows.ndim == 1:
        return rows.astype(getattr(rows.dtype, "categories", rows).dtype)
    others = rows.copy()
    for number in range(rows.shape[1]):
        others.isetitem(number, without_categories(rows.iloc[:, number]))
    return others


def stand_ins(rows: Any, number: float | None = None, known: Any = None) -> Iterator[Any]:
    """Yield pairs of public rows with the container and dtypes of private rows.

    One row has fractions if the dtype can hold them, as a function may return another dtype for
    whole numbers. A `number` replaces the numbers of the first row. A pair of `known` values
    replaces all values: the first row has one, and the second row has the other.
    """
    if isinstance(rows, RowBlocks) and rows.like is not None:
        rows = rows.like
    pairs = _PAIRS if are_numbers(rows) else _PAIRS[::-1]
    for pair in pairs if known is None else [known]:
        try:
            made = _stand_in(rows, (*pair, number))
        except Exception:
            continue
        yield made
    if isinstance(rows, list | tuple):
        # A FeatureHasher takes a dictionary or a list as each row.
        yield from ([{}] * TWICE, [[]] * TWICE)


def _stand_in(rows: Any, filling: Any) -> Any:
    """Return two public rows in the container of the private ones; for `filling` see `_values`."""
    if isinstance(rows, RankOneMatrices):
        return RankOneMatrices(*(_stand_in(part, filling) for part in (rows.left, rows.right)))
    if isinstance(rows, RowBlocks):
        two = _two(rows.dtype, rows.shape[1:], filling)
        return csr_array(two) if rows.is_sparse else two
    if issparse(rows):
        return type(rows)(_two(rows.dtype, rows.shape[1:], filling))
    if hasattr(rows, "iloc") and rows.ndim == 1:
        return _public_column(rows, filling)
    if hasattr(rows, "iloc"):
        # In a plan the frame may be empty.
        two = rows.iloc[:0].reset_index(drop=True).reindex(range(TWICE))
        for number in range(two.shape[1]):
            two.isetitem(number, _public_column(rows.iloc[:, number], filling))
        return two
    if hasattr(rows, "fill_null"):
        # This is a frame of polars. Texts with a hyphen are dates.
        texts = filling[:2] if "-" in str(filling[0]) else _SHORT_TEXTS
        values = zip(_values("i", filling), texts, (True, False), strict=True)
        one, other = (rows.clear(1).fill_null(a).fill_null(b).fill_null(c) for a, b, c in values)
        return one.extend(other)
    if isinstance(rows, list | tuple):
        shape = np.shape(np.asarray(rows, dtype=object))[1:]
        return _two(np.dtype(object), shape, filling).tolist()
    array = np.asarray(rows)
    return _two(array.dtype, array.shape[1:], filling)


def _two(dtype: Any, shape: Sequence[int], filling: Any) -> np.ndarray:
    """Make an array of two public rows; for `filling` see `_values`."""
    two = np.empty((TWICE, *shape), dtype=dtype)
    two[0], two[1] = _values(two.dtype.kind, filling)
    return two


def _values(kind: str, filling: Any) -> Any:
    """Return the values of two public rows, for an array whose dtype has this `kind`.

    `filling` has the value of each row, and a number that replaces the first value, or None. Values
    that the dtype cannot hold are replaced by similar ones.
    """
    first, second, number = filling
    if kind == "U" and (not isinstance(first, str) or "-" in first):
        # Numbers and dates may be longer than the texts that the array can hold.
        return _SHORT_TEXTS
    if kind in _KINDS_OF_NUMBERS and (isinstance(first, str) or (first, second) in _PAIRS):
        first, second = 1, {"b": 0, "f": 0.5, "c": 0.5}.get(kind, 2)
    if isinstance(first, str):
        return (None if number is np.nan else first), second  # a missing text is None
    return (first if number is None else number), second


def _public_column(column: Any, filling: Any) -> Any:
    """Make a column of two public values with the dtype and the name of a private column."""
    kind = getattr(column.dtype, "kind", "O")
    values = (0, 1) if kind in "mM" else _values(kind, filling)
    if len(categories := getattr(column.dtype, "categories", [])):
        # Categories come from the data: both rows have the first one.
        values = [categories[0]] * TWICE
    return type(column)(list(values), dtype=column.dtype, index=range(TWICE), name=column.name)


# ------------------------------
# Calls of functions whose errors and warnings may reveal single rows.


def quietly(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function without its warnings, which may reveal single rows.

    The function runs in this process, whatever its `n_jobs`: other processes would print warnings.
    """
    with parallel_config("sequential"), without_warnings(), np.errstate(all="ignore"):
        return function(*arguments)


def attempt(method: Callable[..., Any], rows: Any) -> Any:
    """Return the result of a step's method, or of a function, for rows; or its error."""
    step = getattr(method, "__self__", None)
    try:
        # Methods of other authors may overwrite the rows, and get a copy.
        made = quietly(method, rows if isinstance(step, PrivateEstimator) else deepcopy(rows))
    except Exception as error:
        return error
    # A ColumnTransformer joins columns of numbers and of booleans to an array of objects.
    return without_objects(made) if type(step) is ColumnTransformer else made


def without_objects(made: Any) -> Any:
    """Convert an array of objects to numbers if all objects are numbers or booleans."""
    are_objects = type(made) is np.ndarray and made.dtype == object and are_numbers(made)
    return made.astype(np.float64) if are_objects else made


def accepted(what: str, function: Callable[..., Any], pairs: Iterable[Any]) -> tuple[Any, Any, str]:
    """Try pairs of public rows in turn, until a function accepts one.

    Return the pair that it accepts, its result, and ""; or, if it accepts no pair, two times None,
    and its error for the first pair.
    """
    error = ""
    for rows in pairs:
        result = attempt(function, rows)
        if not isinstance(result, Exception):
            return rows, result, ""
        # Categories come from private data, and an error may quote them.
        error = error or message_of(what, result, is_public=not have_categories(rows))
    return None, None, error


# Advice for errors of encoders and of a ColumnTransformer, by their texts.
_CURES = {
    "Shape mismatch": " Pass a list for each column, as categories=[['North', 'South']] for one.",
    "using strings": " Steps pass on arrays: name columns by numbers, as [0, 2].",
    "Unsorted categories": " Pass them sorted, as [False, True].",
}


def message_of(what: str, error: Exception, *, is_public: bool = False) -> str:
    """Return an error as text; only errors about public rows keep their own text."""
    message = error.args[0] if type(error) is ValueError and error.args else ""
    if type(message) is str and message.startswith("Found unknown categories"):
        return (
            f"{what} refuses a category that it was not given or fitted to, which may be private. "
            "Pass all categories, None and NaN among them; or handle_unknown='ignore' to a "
            "OneHotEncoder, 'use_encoded_value' to an OrdinalEncoder."
        )
    if is_public:
        mend = "".join(cure for sign, cure in _CURES.items() if sign in str(error))
        return f"{what} raises {type(error).__name__}: {str(error).removesuffix('.')}.{mend}"
    return (
        f"{what} raises an error, whose text may show values and is left out. Call it on made-up "
        "rows, of the same columns and types, to see what it refuses."
    )
