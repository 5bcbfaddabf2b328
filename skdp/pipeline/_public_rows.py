"""Public rows that stand in for private ones."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.utils import _safe_indexing
from sklearn.utils._indexing import _get_column_indices
from sklearn.utils.validation import _num_samples, check_array

from skdp._validation import redact_errors
from skdp.data.containers import flaw_of_columns, not_finite_rows, public_frame, types_of
from skdp.data.matrices import RankOneMatrices
from skdp.data.parts import RowBlocks, mapped_blocks
from skdp.data.workers import without_warnings

# Public rows come in pairs, as some functions treat a single row differently.
TWICE = 2  # not tuned
_NUMBERS = "biufc"
# Values of two public rows: numbers, or texts of several kinds. The values differ, so that the
# result shows if a function uses both rows.
_ANYTHING = ((1.0, 0.5), ("", ""), ("", "1"), ("2000-01-01", "2001-02-03"))  # not tuned
# Values for one row among equal ones: a function may use other rows only if a value is 0, negative,
# an outlier or missing. Among 41 equal rows, a value is 6 standard deviations off.
NUMBERS = (None, 0, -30_000, 30_000, np.nan)  # not tuned
_OTHERS = 40  # not tuned
# Texts of one letter fit into any array, as the width of an array of texts depends on all rows.
_TEXTS = ("1", "2")


def are_numbers(rows: Any) -> bool:
    """Return whether rows hold only numbers; a text such as "1" is no number."""
    dtype = getattr(rows, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in _NUMBERS:
        return True
    try:
        with without_warnings():
            np.asarray(rows, dtype=np.float64)
            array = np.asarray(rows)
    except Exception:
        return False
    if array.dtype.kind != "O":
        return array.dtype.kind in _NUMBERS
    return not any(isinstance(entry, str | bytes) for entry in array.ravel())


def shape_of(rows: Any) -> tuple[int, ...]:
    """Return the shape of rows, or of a result, which may be a list."""
    try:
        return tuple(rows.shape if hasattr(rows, "shape") else np.asarray(rows, dtype=object).shape)
    except Exception:
        return ()


def are_single(rows: Any) -> bool:
    """Return whether each row is a single object, such as a text, instead of a vector.

    Any object counts, as all texts may be missing.
    """
    dtype = getattr(rows, "dtype", None)
    is_numeric = isinstance(dtype, np.dtype) and dtype.kind in _NUMBERS
    return not is_numeric and len(shape_of(rows)) == 1


def plain_rows(rows: Any) -> Any:
    """Convert sparse rows to CSR, and lists of numbers, whose dtype depends on them, to floats.

    Half precision becomes single, as scikit-learn adds up squares, which would overflow.
    """
    if getattr(rows, "dtype", None) == np.float16:
        rows = rows.astype(np.float32)
    if issparse(rows):
        return rows.tocsr()
    is_list = isinstance(rows, list | tuple) and are_numbers(rows) and not are_single(rows)
    return np.asarray(rows, dtype=np.float64) if is_list else rows


def have_gaps(rows: Any) -> np.ndarray:
    """Return which rows have a number that is not finite; missing texts do not count."""
    if not are_single(rows):
        if (types := types_of(rows)) and not are_numbers(rows):
            # Only numbers can be NaN here, and columns of objects may hold numbers.
            rows = rows[[name for name, kind in types if not kind or are_numbers(rows[name])]]
        with suppress(Exception), without_warnings(), np.errstate(all="ignore"):
            values = plain_rows(rows) if issparse(rows) else _with_gaps(rows)
            return not_finite_rows(values)
    return np.zeros(redact_errors(_num_samples)(rows), dtype=bool)


# numpy refuses nullable booleans with gaps, which scikit-learn converts.
_with_gaps = partial(check_array, dtype=np.float64, ensure_all_finite=False, ensure_2d=False)


def row_among(rows: Any) -> Any:
    """Return the first of two rows among many copies of the second one."""
    many = _safe_indexing(rows, [1, 0] + [1] * _OTHERS)
    return many.reset_index(drop=True) if hasattr(many, "iloc") else many


def columns_of(rows: Any, columns: Any) -> Any:
    """Return some columns of rows; None means all columns."""
    if columns is None:
        return rows
    if isinstance(rows, RowBlocks):
        two = as_named(rows)
        places = _get_column_indices(next(stand_ins(rows)) if two is rows else two, columns)
        names = rows.feature_names and [rows.feature_names[place] for place in places]
        like = None if rows.like is None else columns_of(rows.like, places)
        like = like if flaw_of_columns(like) else None
        take = partial(_columns_of_block, columns=places, dtype=like is None and rows.dtype)
        return mapped_blocks(rows, take, len(places), names, like)
    rows = rows if hasattr(rows, "shape") else np.asarray(rows)
    return _safe_indexing(rows, columns, axis=1)


def _columns_of_block(rows: Any, columns: Any, dtype: Any) -> Any:
    """Return some columns of a block; numbers from a frame with texts become an array."""
    rows = columns_of(rows, columns)
    return rows.to_numpy(dtype) if dtype and hasattr(rows, "iloc") else rows


def as_named(rows: Any) -> Any:
    """Return a made-up frame for blocks with column names, other rows as they are."""
    names = rows.feature_names if isinstance(rows, RowBlocks) else None
    if names is None:
        return rows
    return public_frame(dict.fromkeys(names, False), rows.dtype) if rows.like is None else rows.like


def have_categories(rows: Any) -> bool:
    """Return whether dtypes reveal values: categories, or lengths of texts."""
    types = getattr(rows, "dtypes", getattr(rows, "dtype", None))
    types = np.atleast_1d(np.asarray(types, dtype=object))
    return any(hasattr(one, "categories") or getattr(one, "kind", "O") in "SU" for one in types)


def without_categories(rows: Any) -> Any:
    """Return public rows whose dtypes contain no data values: texts and categories are objects."""
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
    """Make pairs of public rows with the container and dtypes of private rows, in several ways.

    If the dtype allows fractions, one row has fractions, as whole numbers may give another dtype;
    or it has `number`. If two values are `known`, each row has one of them.
    """
    if getattr(rows, "like", None) is not None and isinstance(rows, RowBlocks):
        rows = rows.like
    branches = _ANYTHING if are_numbers(rows) else _ANYTHING[::-1]
    for anything in branches if known is None else [known]:
        try:
            made = _stand_in(rows, (*anything, number))
        except Exception:
            continue
        yield made
    if isinstance(rows, list | tuple):
        yield from ([{}] * TWICE, [[]] * TWICE)


def _stand_in(rows: Any, anything: Any) -> Any:
    """Return two public rows in the container of the private ones."""
    if isinstance(rows, RankOneMatrices):
        return RankOneMatrices(*(_stand_in(part, anything) for part in (rows.left, rows.right)))
    if isinstance(rows, RowBlocks):
        two = _two(rows.dtype, rows.shape[1:], anything)
        return csr_array(two) if rows.is_sparse else two
    if issparse(rows):
        return type(rows)(_two(rows.dtype, rows.shape[1:], anything))
    if hasattr(rows, "iloc") and rows.ndim == 1:
        return _public_column(rows, anything)
    if hasattr(rows, "iloc"):
        # In a plan the frame may be empty.
        two = rows.iloc[:0].reset_index(drop=True).reindex(range(TWICE))
        for number in range(two.shape[1]):
            two.isetitem(number, _public_column(rows.iloc[:, number], anything))
        return two
    if hasattr(rows, "fill_null"):
        # This is a frame of polars.
        texts = anything[:2] if "-" in str(anything[0]) else _TEXTS
        values = zip(_values("i", anything), texts, (True, False), strict=True)
        one, other = (rows.clear(1).fill_null(a).fill_null(b).fill_null(c) for a, b, c in values)
        return one.extend(other)
    if isinstance(rows, list | tuple):
        shape = np.shape(np.asarray(rows, dtype=object))[1:]
        return _two(np.dtype(object), shape, anything).tolist()
    array = np.asarray(rows)
    return _two(array.dtype, array.shape[1:], anything)


def _two(dtype: Any, shape: Sequence[int], anything: Any) -> np.ndarray:
    """Make two rows of an array."""
    two = np.empty((TWICE, *shape), dtype=dtype)
    two[0], two[1] = _values(two.dtype.kind, anything)
    return two


def _values(kind: str, anything: Any) -> Any:
    """Return the entries of two public rows, for a kind of dtype."""
    first, second, number = anything
    if kind in _NUMBERS:
        if isinstance(first, str) or (first, second) in _ANYTHING:
            first, second = 1, {"b": 0, "f": 0.5, "c": 0.5}.get(kind, 2)
        return first if number is None else number, second
    if isinstance(first, str) and not (kind == "U" and "-" in first):
        # A missing text is None.
        return None if number is np.nan else first, second
    return _TEXTS if kind == "U" else (first if number is None else number, second)


def _public_column(column: Any, anything: Any) -> Any:
    """Replace the two entries of a column by public values."""
    kind = getattr(column.dtype, "kind", "O")
    values = (0, 1) if kind in "mM" else _values(kind, anything)
    if len(categories := getattr(column.dtype, "categories", [])):
        # Categories come from the data: only the first one is used, in both rows.
        values = [categories[0]] * TWICE
    return type(column)(list(values), dtype=column.dtype, index=range(TWICE), name=column.name)
