"""Public rows that stand for private ones, and the form of what functions make of rows."""

import math
import warnings
from collections.abc import Iterator, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse, vstack
from sklearn.utils import _safe_indexing

from skdp.data.containers import canonical_csr, types_of
from skdp.data.matrices import RankOneMatrices
from skdp.data.parts import RowBlocks
from skdp.linalg.norms import with_data

# ------------------------------
# Public rows of the same container and types as private ones, and rows that replace others.

# Public rows come in twos, because some functions treat a single row differently.
TWICE = 2  # not tuned
_NUMBERS = "biufc"
# Public values of two rows for entries of any type: numbers, or texts. The rows differ, to show
# what looks at both of them, unless that is refused.
_ANYTHING = ((1.0, 0.5), ("", ""), ("", "1"))  # not tuned
# Texts that fit into arrays of every width; the width follows the longest text of the rows.
_TEXTS = ("1", "2")


def are_numbers(rows: Any) -> bool:
    """Tell whether rows hold nothing but numbers; a text such as "1" is a text."""
    dtype = getattr(rows, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in _NUMBERS:
        return True
    try:
        with warnings.catch_warnings(action="ignore"):
            np.asarray(rows, dtype=np.float64)
            array = np.asarray(rows)
    except Exception:
        return False
    if array.dtype.kind != "O":
        return array.dtype.kind in _NUMBERS
    return not any(isinstance(entry, str | bytes) for entry in array.ravel())


def have_types_of_numbers(rows: Any) -> bool:
    """Tell whether the types of rows admit numbers alone, whatever single rows hold."""
    if types := types_of(rows):
        return all(is_number for _, is_number in types)
    return getattr(getattr(rows, "dtype", None), "kind", "O") in _NUMBERS


def shape_of(rows: Any) -> tuple[int, ...]:
    """Return the shape of rows, or of what is made of them; a list has one, too."""
    try:
        return tuple(rows.shape if hasattr(rows, "shape") else np.asarray(rows, dtype=object).shape)
    except Exception:
        return ()


def are_single(rows: Any) -> bool:
    """Tell whether each row is a single thing of any type, such as a text, and no vector.

    It does not matter what the things are: all texts may be missing.
    """
    dtype = getattr(rows, "dtype", None)
    is_numeric = isinstance(dtype, np.dtype) and dtype.kind in _NUMBERS
    return not is_numeric and len(shape_of(rows)) == 1


def plain_rows(rows: Any) -> Any:
    """Convert sparse rows to CSR, and lists of numbers, whose type follows them, to floats."""
    if issparse(rows):
        return rows.tocsr()
    is_list = isinstance(rows, list | tuple) and are_numbers(rows) and not are_single(rows)
    return np.asarray(rows, dtype=np.float64) if is_list else rows


def row_twice(rows: Any, number: int) -> Any:
    """Return one row, two times, in the container of all rows."""
    return _safe_indexing(rows, [number] * TWICE)


def columns_of(rows: Any, columns: Any) -> Any:
    """Return some columns of rows; None stands for all."""
    if columns is None:
        return rows
    rows = rows if hasattr(rows, "shape") else np.asarray(rows)
    return _safe_indexing(rows, columns, axis=1)


def with_ones(rows: Any) -> Any:
    """Put 1 in the place of all finite numbers: what a step makes of the others is the same."""
    if issparse(rows):
        return with_data(rows, _ones(rows.data))
    if isinstance(rows, np.ndarray):
        return _ones(rows)
    if not hasattr(rows, "columns"):
        return rows
    if hasattr(rows, "fill_null"):
        # Of polars.
        columns = {name: list(map(_one, rows[name])) for name in rows.columns}
        return type(rows)(columns, schema=rows.schema)
    made = rows.copy()
    for number, dtype in enumerate(rows.dtypes):
        if not hasattr(dtype, "categories"):
            ones = _ones(np.asarray(rows.iloc[:, number], dtype=object))
            made.isetitem(number, type(rows.iloc[:, number])(ones, rows.index, dtype))
    return made


def _ones(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind in _NUMBERS:
        return np.where(np.isfinite(values), np.ones_like(values), values)
    return np.frompyfunc(_one, 1, 1)(values) if values.dtype.kind == "O" else values


def _one(entry: Any) -> Any:
    kind: Any = type(entry)
    return kind(1) if isinstance(entry, Real) and math.isfinite(entry) else entry


def two_of(like: Any, values: Sequence[Any]) -> Any:
    """Make two responses of public values, in the container of the responses `like`."""
    if hasattr(like, "iloc") and not hasattr(like, "columns"):
        return type(like)(values, name=like.name)
    return list(values) if isinstance(like, list | tuple) else np.array(values)


def hold_categories(rows: Any) -> bool:
    """Tell whether the types of rows hold categories, which are values of the data."""
    types = np.atleast_1d(np.asarray(getattr(rows, "dtypes", None), dtype=object))
    return any(hasattr(dtype, "categories") for dtype in types)


def stand_ins(rows: Any) -> Iterator[Any]:
    """Make two public rows, in several ways, with the container and the types of private rows.

    Where the type admits fractions, one row has some, because whole numbers may give another type.
    """
    for anything in _ANYTHING if are_numbers(rows) else reversed(_ANYTHING):
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
        values = zip((1, 2), _values("U", anything), (True, False), strict=True)
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
    """Return the entries of two public rows, of a kind of types."""
    if kind in _NUMBERS:
        return 1, {"b": 0, "f": 0.5, "c": 0.5}.get(kind, 2)
    return _TEXTS if kind == "U" and not isinstance(anything[0], str) else anything


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
    kind = getattr(column.dtype, "kind", "O")
    values = (0, 1) if kind in "mM" else _values(kind, anything)
    if len(categories := getattr(column.dtype, "categories", [])):
        # They come from the data, so that no more of them is asked for.
        values = [categories[0]] * TWICE
    return type(column)(list(values), dtype=column.dtype, index=range(TWICE), name=column.name)


# ------------------------------
# The form of what functions make of rows: container, width, and type of numbers.

_REAL = "biuf"


class Form(NamedTuple):
    """What a function makes of public rows: a 2-D array, CSR, or one number for each row.

    The type of a result may follow the values of single rows: one negative number makes all roots
    complex. So the form that public rows give decides, and every result gets it.
    """

    shape: tuple[int, ...]  # of what one row becomes
    dtype: np.dtype
    is_sparse: bool = False

    @property
    def made(self) -> np.dtype:
        """Type of the result: one number for each row, which may be missing, is a float64."""
        return self.dtype if self.shape else np.dtype(np.float64)

    def read(self, result: Any, n_rows: int) -> Any:
        """Return a result for so many rows; None if it is not of this form, to the type."""
        result = result if self.shape else np.asarray(result)
        if form_of(result) != self or result.shape[0] != n_rows:
            return None
        if self.is_sparse:
            return canonical_csr(result)
        # In C order, as rows that replace odd ones leave them: in another one rows round otherwise.
        return np.require(result, self.made, ["C", "A"])

    def with_rows(self, made: Any, numbers: Sequence[int], others: Any) -> Any:
        """Exchange some rows of a result."""
        if not self.is_sparse:
            made = made.copy()
            made[numbers] = others
            return made
        index = np.arange(made.shape[0])
        index[numbers] = made.shape[0] + np.arange(len(numbers))
        return csr_array(csr_array(vstack([made, others], format="csr"))[index])

    def of_rows(self, results: Sequence[Any]) -> Any:
        """Make rows of the first row of each result, of any kind; what has no such row is missing.

        Of a step it becomes a row of zeros, of losses NaN.
        """
        made = map(self._row, results)
        if self.is_sparse:
            # One by one, as they may be long.
            nothing = csr_array((0, *self.shape), dtype=self.made)
            return csr_array(vstack([nothing, *(csr_array(row[np.newaxis]) for row in made)]))
        return np.array(list(made), self.made).reshape(len(results), *self.shape)

    def _row(self, result: Any) -> np.ndarray:
        try:
            rows = canonical_csr(result).toarray() if issparse(result) else np.asarray(result)
            row = rows[0, ...]
        except Exception:
            row = np.empty(0, object)
        # Fractions do not become whole numbers, nor texts any.
        is_real = row.dtype.kind in _REAL and np.can_cast(row.dtype, self.made, "same_kind")
        if is_real and row.shape == self.shape:
            return row.astype(self.made)
        return np.full(self.shape, 0 if self.shape else np.nan, self.made)


def form_of(result: Any) -> Form | None:
    """Return the form of an array or sparse matrix of real numbers; None of anything else."""
    is_array = type(result) is np.ndarray or issparse(result)
    if not is_array or result.dtype.kind not in _REAL or result.ndim not in (1, 2):
        return None
    return Form(result.shape[1:], result.dtype, issparse(result))
