"""Public rows of the kind of private ones, and rows in the place of others."""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse, vstack
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from skdp.data.rank_one import RankOneMatrices

__all__ = [
    "TWICE",
    "are_numbers",
    "exchanged",
    "first_of",
    "hold_categories",
    "plain_rows",
    "repeated",
    "row_twice",
    "stand_ins",
]

# Of one row some functions make something else than of several.
TWICE = 2  # not tuned
_NUMBERS = "biufc"
# What stands for an entry that may hold anything.
_ANYTHING = (1.0, "")  # not tuned
# Of any width: that of an array follows the longest of its texts.
_TEXT = "1"


def are_numbers(rows: Any) -> bool:
    """Tell whether rows hold nothing but numbers; texts of numbers are texts."""
    dtype = getattr(rows, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in _NUMBERS:
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.asarray(rows, dtype=np.float64)
            array = np.asarray(rows)
    except Exception:
        return False
    if array.dtype.kind != "O":
        return array.dtype.kind in _NUMBERS
    return not any(isinstance(entry, str | bytes) for entry in array.ravel())


def plain_rows(rows: Any) -> Any:
    """Make lists of numbers an array: its type would follow the values."""
    is_list = isinstance(rows, list | tuple) and are_numbers(rows)
    return np.asarray(rows, dtype=np.float64) if is_list else rows


def row_twice(rows: Any, number: int, sparse_format: str | None = None) -> Any:
    """Take one row two times."""
    two = _safe_indexing(rows, [number] * TWICE)
    return two if sparse_format is None else two.asformat(sparse_format)


def first_of(rows: Any, n_times: int) -> Any:
    """Repeat the first row."""
    if issparse(rows):
        return rows.tocsr()[[0] * n_times]
    return _safe_indexing(rows, [0] * n_times)


def repeated(like: Any, value: Any) -> Any:
    """Make two responses of one that is public, in the same container as others."""
    values = [value] * TWICE
    if hasattr(like, "iloc") and not hasattr(like, "columns"):
        return type(like)(values, name=like.name)
    return values if isinstance(like, list | tuple) else np.array(values)


def hold_categories(rows: Any) -> bool:
    """Tell whether the types of rows hold values: categories are found in data."""
    types = np.atleast_1d(np.asarray(getattr(rows, "dtypes", None), dtype=object))
    return any(hasattr(dtype, "categories") for dtype in types)


def stand_ins(rows: Any, *, are_numbers: bool) -> Iterator[Any]:
    """Make two public rows, in several ways: the container and its types are those of the rows.

    Where there may be fractions, one row has some: of whole numbers something else may be made.
    """
    for anything in _ANYTHING if are_numbers else reversed(_ANYTHING):
        try:
            made = _stand_in(rows, anything)
        except Exception:
            continue
        yield made
    if isinstance(rows, list | tuple):
        yield [{}] * TWICE
        yield [[]] * TWICE


def _stand_in(rows: Any, anything: Any) -> Any:
    if isinstance(rows, RankOneMatrices):
        return RankOneMatrices(*(_stand_in(part, anything) for part in (rows.left, rows.right)))
    if issparse(rows):
        return type(rows)(_two(rows.dtype, rows.shape[1:], anything))
    if hasattr(rows, "iloc"):
        return _stand_in_of_pandas(rows, anything)
    if hasattr(rows, "fill_null"):
        # Of polars.
        return rows.clear(TWICE).fill_null(1).fill_null("").fill_null(True)
    if isinstance(rows, list | tuple):
        shape = np.shape(np.asarray(rows, dtype=object))[1:]
        return _two(np.dtype(object), shape, anything).tolist()
    array = np.asarray(rows)
    return _two(array.dtype, array.shape[1:], anything)


def _two(dtype: Any, shape: Sequence[int], anything: Any) -> np.ndarray:
    """Make two rows of an array."""
    two = np.empty((TWICE, *shape), dtype=dtype)
    two[:] = 1 if two.dtype.kind in _NUMBERS else anything
    if two.dtype.kind == "U" and anything:
        two[:] = _TEXT
    if two.dtype.kind in "fc":
        two[-1] = 0.5
    return two


def _stand_in_of_pandas(rows: Any, anything: Any) -> Any:
    two = rows.iloc[[0] * TWICE].reset_index(drop=True)
    if not hasattr(rows, "columns"):
        return _public_column(two, anything)
    for number in range(two.shape[1]):
        two.isetitem(number, _public_column(two.iloc[:, number], anything))
    return two


def _public_column(column: Any, anything: Any) -> Any:
    """Put public entries in the place of the two entries of a column."""
    kind, values = getattr(column.dtype, "kind", "O"), [anything] * TWICE
    if kind in _NUMBERS:
        values = [1, 0.5 if kind in "fc" else 1]
    elif kind in "mM":
        values = [0] * TWICE
    elif len(getattr(column.dtype, "categories", ())):
        values = [column.dtype.categories[0]] * TWICE
    return type(column)(values, dtype=column.dtype, index=column.index, name=column.name)


def exchanged(rows: Any, refused: Sequence[int], others: Any) -> Any:
    """Replace some rows by others in the same container; types stay as they are."""
    index = np.arange(_num_samples(rows))
    index[refused] = len(index) + np.arange(len(refused))
    if isinstance(rows, RankOneMatrices):
        parts = zip((rows.left, rows.right), (others.left, others.right), strict=True)
        return RankOneMatrices(*(exchanged(one, refused, other) for one, other in parts))
    if issparse(rows):
        both = vstack([rows, others], format="csr", dtype=rows.dtype)
        return both[index].asformat(rows.format)
    if hasattr(rows, "iloc"):
        import pandas

        return pandas.concat([rows, others]).iloc[index].set_axis(rows.index)
    if hasattr(rows, "vstack"):
        return rows.vstack(others)[index]
    if isinstance(rows, list | tuple):
        return [[*rows, *others][row] for row in index]
    return np.concatenate([np.asarray(rows), np.asarray(others)])[index]
