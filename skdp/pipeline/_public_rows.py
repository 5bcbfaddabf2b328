"""Public rows of the same container and types as private ones, and rows that replace others."""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse, vstack
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from skdp.data.matrices import RankOneMatrices
from skdp.data.parts import RowBlocks

# Public rows come in twos, because some functions treat a single row differently.
TWICE = 2  # not tuned
_NUMBERS = "biufc"
# Public values for entries of any type: a number, or a text.
_ANYTHING = (1.0, "")  # not tuned
# A text that fits into arrays of every width; the width follows the longest text of the rows.
_TEXT = "1"


def are_numbers(rows: Any) -> bool:
    """Tell whether rows hold nothing but numbers; a text such as "1" is a text."""
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
    """Convert lists of numbers to an array of floats: else its type would follow the values."""
    is_list = isinstance(rows, list | tuple) and are_numbers(rows)
    return np.asarray(rows, dtype=np.float64) if is_list else rows


def row_repeated(rows: Any, number: int, n_times: int = TWICE) -> Any:
    """Repeat one row; sparse ones become CSR."""
    return _safe_indexing(rows.tocsr() if issparse(rows) else rows, [number] * n_times)


def repeated(like: Any, value: Any) -> Any:
    """Make two responses of a public value, in the container of the responses `like`."""
    values = [value] * TWICE
    if hasattr(like, "iloc") and not hasattr(like, "columns"):
        return type(like)(values, name=like.name)
    return values if isinstance(like, list | tuple) else np.array(values)


def hold_categories(rows: Any) -> bool:
    """Tell whether the types of rows hold categories, which are values of the data."""
    types = np.atleast_1d(np.asarray(getattr(rows, "dtypes", None), dtype=object))
    return any(hasattr(dtype, "categories") for dtype in types)


def stand_ins(rows: Any, *, are_numbers: bool) -> Iterator[Any]:
    """Make two public rows, in several ways, with the container and the types of private rows.

    Where the type admits fractions, one row has some, because whole numbers may give another type.
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
    if isinstance(rows, RowBlocks):
        two = _two(rows.dtype, rows.shape[1:], anything)
        return csr_array(two) if rows.is_sparse else two
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
    if not hasattr(rows, "columns"):
        return _public_column(rows, anything)
    # A plan may have no rows.
    two = rows.iloc[:0].reset_index(drop=True).reindex(range(TWICE))
    for number in range(two.shape[1]):
        two.isetitem(number, _public_column(rows.iloc[:, number], anything))
    return two


def _public_column(column: Any, anything: Any) -> Any:
    """Replace the two entries of a column by public ones."""
    kind, values = getattr(column.dtype, "kind", "O"), [anything] * TWICE
    if kind in _NUMBERS:
        values = [1, 0.5 if kind in "fc" else 1]
    elif kind in "mM":
        values = [0] * TWICE
    elif len(getattr(column.dtype, "categories", ())):
        values = [column.dtype.categories[0]] * TWICE
    return type(column)(values, dtype=column.dtype, index=range(TWICE), name=column.name)


def exchanged(rows: Any, refused: Sequence[int], others: Any) -> Any:
    """Replace the rows numbered `refused` by `others`; container and types stay as they are."""
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
    # In the same memory order, as rows round otherwise in another one.
    made = np.asarray(rows).astype(np.result_type(np.asarray(rows), np.asarray(others)))
    made[refused] = others
    return made
