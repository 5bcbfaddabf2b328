"""Public rows of the kind of private ones, and rows in the place of others."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.sparse import issparse, vstack
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

__all__ = [
    "NUMBERS",
    "TWICE",
    "are_numbers",
    "exchanged",
    "plain_rows",
    "quietly",
    "repeated",
    "row_twice",
    "stand_ins",
]

#: Kinds of numpy's types of numbers.
NUMBERS = "biufc"

# Of one row some functions make something else than of several.
TWICE = 2
# What stands for an entry that may hold anything.
_ANYTHING = (1.0, "")


@contextmanager
def quietly() -> Iterator[None]:
    """Pass over warnings, which may be of single rows."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@quietly()
def are_numbers(rows: Any) -> bool:
    """Tell whether rows hold nothing but numbers; texts of numbers are texts."""
    dtype = getattr(rows, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in NUMBERS:
        return True
    try:
        np.asarray(rows, dtype=np.float64)
        array = np.asarray(rows)
    except Exception:
        return False
    if array.dtype.kind != "O":
        return array.dtype.kind in NUMBERS
    return not any(isinstance(entry, str | bytes) for entry in array.ravel())


def plain_rows(rows: Any) -> Any:
    """Make an array of lists of numbers, whose type would follow the values."""
    is_list = isinstance(rows, list | tuple) and are_numbers(rows)
    return np.asarray(rows, dtype=np.float64) if is_list else rows


def row_twice(rows: Any, sparse_format: str, number: int) -> Any:
    """Take one row two times."""
    two = _safe_indexing(rows, [number] * TWICE)
    return two.asformat(sparse_format) if sparse_format else two


def repeated(like: Any, value: Any) -> Any:
    """Make two responses of one that is public, in the same container as others."""
    values = [value] * TWICE
    if hasattr(like, "iloc") and not hasattr(like, "columns"):
        return type(like)(values, name=like.name)
    return values if isinstance(like, list | tuple) else np.array(values)


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
    if hasattr(rows, "iloc"):
        return _stand_in_of_pandas(rows, anything)
    if hasattr(rows, "fill_null"):
        # Of polars.
        return rows.clear(TWICE).fill_null(1).fill_null("").fill_null(True)
    is_list, is_sparse = isinstance(rows, list | tuple), issparse(rows)
    like = rows if is_sparse else np.asarray(rows, dtype=object if is_list else None)
    two = np.empty((TWICE, *like.shape[1:]), dtype=like.dtype)
    two[:] = 1 if two.dtype.kind in NUMBERS else anything
    if two.dtype.kind in "fc":
        two[-1] = 0.5
    if is_list:
        return two.tolist()
    return type(rows)(two) if is_sparse else two


def _stand_in_of_pandas(rows: Any, anything: Any) -> Any:
    two = rows.iloc[[0] * TWICE].reset_index(drop=True)
    if not hasattr(rows, "columns"):
        return _public_column(two, anything)
    for number in range(two.shape[1]):
        two.isetitem(number, _public_column(two.iloc[:, number], anything))
    return two


def _public_column(column: Any, anything: Any) -> Any:
    """Put public entries in the place of the two of a column."""
    kind, values = getattr(column.dtype, "kind", "O"), [anything] * TWICE
    if kind in NUMBERS:
        values = [1, 0.5 if kind in "fc" else 1]
    elif kind in "mM":
        values = [0] * TWICE
    elif len(getattr(column.dtype, "categories", ())):
        values = [column.dtype.categories[0]] * TWICE
    return type(column)(values, dtype=column.dtype, index=column.index, name=column.name)


def exchanged(rows: Any, odd: Sequence[int], others: Any, each: Any = 0) -> Any:
    """Put other rows, the first or each its own, in the place of some; types stay as they are."""
    index = np.arange(_num_samples(rows))
    index[odd] = len(index) + each
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
