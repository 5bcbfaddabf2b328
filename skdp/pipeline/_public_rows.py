"""Public rows that stand for private ones, and the kinds of results of functions of rows."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array, issparse, vstack
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from skdp.data.containers import canonical_csr, checked_container
from skdp.data.matrices import RankOneMatrices
from skdp.data.parts import RowBlocks

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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.asarray(rows, dtype=np.float64)
            array = np.asarray(rows)
    except Exception:
        return False
    if array.dtype.kind != "O":
        return array.dtype.kind in _NUMBERS
    return not any(isinstance(entry, str | bytes) for entry in array.ravel())


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
    """Convert lists of numbers to an array of floats: else its type would follow the values."""
    is_list = isinstance(rows, list | tuple) and are_numbers(rows) and not are_single(rows)
    return np.asarray(rows, dtype=np.float64) if is_list else rows


def row_repeated(rows: Any, number: int, n_times: int = TWICE) -> Any:
    """Repeat one row; sparse ones become CSR."""
    return _safe_indexing(rows.tocsr() if issparse(rows) else rows, [number] * n_times)


def two_of(like: Any, values: Sequence[Any]) -> Any:
    """Make two responses of public values, in the container of the responses `like`."""
    if hasattr(like, "iloc") and not hasattr(like, "columns"):
        return type(like)(values, name=like.name)
    return list(values) if isinstance(like, list | tuple) else np.array(values)


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


def exchanged(rows: Any, refused: Sequence[int], others: Any) -> Any:
    """Replace the rows numbered `refused` by `others`; container and types stay as they are."""
    index = np.arange(_num_samples(rows))
    index[refused] = len(index) + np.arange(len(refused))
    if isinstance(rows, RankOneMatrices):
        parts = zip((rows.left, rows.right), (others.left, others.right), strict=True)
        return RankOneMatrices(*(exchanged(one, refused, other) for one, other in parts))
    if issparse(rows):
        both = vstack([rows, others], format="csr", dtype=rows.dtype)
        # scipy 1.11 stacks arrays to a matrix.
        return type(rows)(both[index])
    if hasattr(rows, "iloc"):
        import pandas

        return pandas.concat([rows, others]).iloc[index].set_axis(rows.index)
    if hasattr(rows, "vstack"):
        return rows.vstack(others)[index]
    if isinstance(rows, list | tuple):
        both = [*rows, *others]
        return [both[row] for row in index]
    # In the same memory order, as rows round otherwise in another one.
    made = np.asarray(rows).astype(np.result_type(np.asarray(rows), np.asarray(others)))
    made[refused] = others
    return made


# ------------------------------
# Kinds of results of functions of rows: container, shape, and type of numbers.

_REAL = "biuf"


class Kind(Protocol):
    """A kind of results.

    It may follow the values of single rows: one negative number makes all roots complex. So the
    kind that a function gives for public rows decides. Results of other kinds are recognized, and
    converted to the public kind without a warning.
    """

    def admits(self, result: Any, n_rows: int, exactly: bool) -> bool:
        """Tell whether a result is of this kind or, if not `exactly`, converts to it losslessly."""

    def converted(self, result: Any, fill: float) -> Any:
        """Convert a result to the real type of the kind; what is no number becomes `fill`."""

    def made_of(self, results: list[Any], fill: float) -> Any:
        """Convert the first row of each result, of any kind, to this kind; None if impossible."""


def kind_of(like: Any, are_numbers: bool) -> Kind | None:
    """Return the kind of a result for public rows; None for unknown containers of no numbers."""
    if issparse(like) and like.ndim == 2 and like.dtype.kind in "biufc":
        return _SparseKind(like.dtype, like.shape[1])
    if hasattr(like, "select_dtypes"):
        return _FrameKind(like, are_numbers)
    array = _dense(like)
    if _holds_numbers(array) and (are_numbers or array.dtype.kind != "O"):
        return _ArrayKind(array.dtype, array.shape[1:], _is_masked(like))
    return _OtherKind(like) if are_numbers else None


def kind_of_losses(like: Any) -> Kind | None:
    """Return the kind of one number for each row; None if public rows gave something else."""
    try:
        array = _dense(like)
    except Exception:
        return None
    if array.shape != (TWICE,) or not _holds_numbers(array):
        return None
    return _Losses(array.dtype, (), _is_masked(like))


def real_numbers(values: np.ndarray, fill: float) -> np.ndarray:
    """Convert each entry by itself to a real number; what is no number becomes `fill`.

    Real numbers keep their type. Of complex numbers the real part is taken, in the precision that
    they have. Others become float64.
    """
    if values.dtype.kind in _REAL:
        return values
    if values.dtype.kind == "c":
        return np.asarray(values.real.copy())
    entries = [_real_number(entry, fill) for entry in values.ravel().tolist()]
    return np.array(entries, dtype=np.float64).reshape(values.shape)


def _real_number(entry: Any, fill: Any) -> Any:
    for convert in (float, complex):
        try:
            return float(convert(entry).real)
        except Exception:
            continue
    return fill


def _dense(result: Any) -> np.ndarray:
    """Convert a result to a dense array; masked entries become NaN."""
    if issparse(result):
        checked_container(result)
        return np.asarray(result.toarray())
    if not _is_masked(result):
        array = np.asarray(result)
        # In a list each number has a type of its own, so that floats may appear in other rows.
        is_whole = isinstance(result, list | tuple) and array.dtype.kind in "biu"
        return array.astype(np.float64) if is_whole else array
    is_whole = result.dtype.kind in "biu"
    values = result.data.astype(np.float64) if is_whole else result.data.copy()
    values[np.ma.getmaskarray(result)] = np.nan
    return np.asarray(values)


def _is_masked(result: Any) -> bool:
    return isinstance(result, np.ma.MaskedArray)


def _holds_numbers(array: np.ndarray) -> bool:
    if array.dtype.kind == "O":
        return all(_is_number(entry) for entry in array.ravel())
    return array.dtype.kind in "biufc"


def _is_number(entry: Any) -> bool:
    return not isinstance(entry, str | bytes) and _real_number(entry, None) is not None


def _fits(given: np.dtype, dtype: np.dtype, exactly: bool) -> bool:
    """Tell whether a type is `dtype` or, if not `exactly`, converts to it losslessly."""
    if exactly:
        return given == dtype
    if dtype.kind == "O":
        # Objects keep every number as it is.
        return given.kind == "O" or given.kind in _REAL
    return np.can_cast(given, dtype)


def _real_type(dtype: np.dtype) -> np.dtype:
    """Return the real type that numbers of a type are converted to."""
    if dtype.kind in "biu":
        return dtype
    is_single = dtype in (np.float32, np.complex64)
    return np.dtype(np.float32 if is_single else np.float64)


def _cast(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert real numbers; for integer types they are clipped to its limits, and NaN becomes 0."""
    if dtype.kind in "iu" and values.dtype.kind == "f":
        limits = np.iinfo(dtype)
        # As a float the limit of 64 bits rounds up to a power of two, which is one too large.
        most = np.nextafter(float(limits.max), 0.0) if limits.bits == 64 else float(limits.max)
        values = np.clip(np.nan_to_num(values, nan=0.0), float(limits.min), most)
    return values.astype(dtype, copy=False)


@dataclass(frozen=True)
class _ArrayKind:
    """A dense array, or a list, of numbers."""

    dtype: np.dtype
    shape: tuple[int, ...]
    is_masked: bool = False

    def admits(self, result: Any, n_rows: int, exactly: bool) -> bool:
        if issparse(result) or hasattr(result, "select_dtypes"):
            return False
        if _is_masked(result) > self.is_masked or (exactly and _is_masked(result) < self.is_masked):
            return False
        array = _dense(result)
        return array.shape == (n_rows, *self.shape) and _fits(array.dtype, self.dtype, exactly)

    def converted(self, result: Any, fill: float) -> Any:
        numbers = _cast(real_numbers(_dense(result), fill), _real_type(self.dtype))
        # In C order, as rows that replace odd ones leave them: in another one rows round otherwise.
        return np.require(numbers, requirements=["C", "A"])

    def made_of(self, results: list[Any], fill: float) -> Any:
        return _cast(_numbers_of(results, self.shape, fill), _real_type(self.dtype))


@dataclass(frozen=True)
class _SparseKind:
    """A sparse matrix."""

    dtype: np.dtype
    width: int

    def admits(self, result: Any, n_rows: int, exactly: bool) -> bool:
        if not issparse(result) or result.shape != (n_rows, self.width):
            return False
        checked_container(result)
        return _fits(result.dtype, self.dtype, exactly)

    def converted(self, result: Any, fill: float) -> Any:
        result = canonical_csr(result)
        values = _cast(real_numbers(result.data, fill), _real_type(self.dtype))
        return csr_array((values, result.indices, result.indptr), shape=result.shape)

    def made_of(self, results: list[Any], fill: float) -> Any:
        dtype = _real_type(self.dtype)
        # One by one, as they may be long.
        rows = (_cast(_numbers_of([one], (self.width,), fill), dtype) for one in results)
        return csr_array(vstack([csr_array((0, self.width), dtype=dtype), *map(csr_array, rows)]))


class _Losses(_ArrayKind):
    """One number for each row; every real type is admitted, as all losses become floats."""

    def admits(self, result: Any, n_rows: int, exactly: bool) -> bool:
        array = _dense(result)
        is_real = array.dtype.kind in _REAL and array.shape == (n_rows,) and not exactly
        return is_real or super().admits(result, n_rows, exactly)

    def converted(self, result: Any, fill: float) -> Any:
        return real_numbers(_dense(result), fill).astype(np.float64)

    def made_of(self, results: list[Any], fill: float) -> Any:
        return _numbers_of(results, (), fill)


# For functions that accept no public rows.
LOSSES = _Losses(np.dtype(np.float64), ())


class _FrameKind:
    """A data frame of pandas."""

    def __init__(self, like: Any, are_numbers: bool) -> None:
        self.like = like
        columns = [like.iloc[:, number] for number in range(like.shape[1])]
        self.types = [_type_of_column(one, are_numbers) for one in columns]

    def admits(self, result: Any, n_rows: int, exactly: bool) -> bool:
        if not hasattr(result, "select_dtypes") or len(result) != n_rows:
            return False
        return result.columns.equals(self.like.columns) and all(
            _is_left_alike(given, like) if dtype is None else _fits(_type_of(given), dtype, exactly)
            for dtype, given, like in zip(self.types, result.dtypes, self.like.dtypes, strict=True)
        )

    def converted(self, result: Any, fill: float) -> Any:
        made = result
        for number, dtype in enumerate(self.types):
            if dtype is None or result.dtypes.iloc[number] == _real_type(dtype):
                continue
            # A frame that needs no conversion is not copied.
            made = result.copy() if made is result else made
            values = _dense_column(result.iloc[:, number])
            made.isetitem(number, _cast(real_numbers(values, fill), _real_type(dtype)))
        return made

    def made_of(self, results: list[Any], fill: float) -> Any:
        rows = _numbers_of(results, (len(self.types),), fill)
        made = self.like.iloc[[0] * len(results)].reset_index(drop=True)
        for number, dtype in enumerate(self.types):
            if dtype is not None:
                made.isetitem(number, _cast(rows[:, number], _real_type(dtype)))
        return made


class _OtherKind:
    """Texts, or other objects that a next step may take."""

    def __init__(self, like: Any) -> None:
        self.container, self.types = type(like), _types_in(like)
        self.shape = np.shape(like)[1:] if isinstance(like, np.ndarray) else None

    def admits(self, result: Any, n_rows: int, exactly: bool) -> bool:
        if type(result) is not self.container or len(result) != n_rows:
            return False
        has_shape = self.shape is None or np.shape(result)[1:] == self.shape
        return has_shape and _types_in(result) <= self.types

    def converted(self, result: Any, fill: float) -> Any:
        return result

    def made_of(self, results: list[Any], fill: float) -> Any:
        return None


def _types_in(result: Any) -> set[type]:
    entries = result.ravel() if isinstance(result, np.ndarray) else result
    return {type(entry) for entry in entries}


def _type_of(dtype: Any) -> np.dtype:
    """Return the type that a column has as an array; `object` unless it holds numbers."""
    if isinstance(dtype, np.dtype):
        return dtype
    # Types of pandas itself may have missing values, which become NaN.
    return np.dtype(np.float64 if getattr(dtype, "kind", "O") in _REAL else object)


def _type_of_column(column: Any, are_numbers: bool) -> np.dtype | None:
    """Return the type of the numbers of a column; None for a column that is left as it is."""
    # Sparse columns have a subtype.
    if hasattr(column.dtype, "subtype"):
        return None
    dtype = _type_of(column.dtype)
    if dtype.kind == "O":
        return dtype if are_numbers and _holds_numbers(_dense_column(column)) else None
    return dtype if dtype.kind in "biufc" else None


def _is_left_alike(given: Any, like: Any) -> bool:
    """Compare types of columns that are left as they are, if one of them is sparse.

    Types of other such columns, of texts for instance, may follow the rows and are not compared.
    """
    are_sparse = [hasattr(dtype, "subtype") for dtype in (given, like)]
    return given == like if any(are_sparse) else True


def _dense_column(column: Any) -> np.ndarray:
    if isinstance(column.dtype, np.dtype):
        return np.asarray(column.to_numpy())
    if getattr(column.dtype, "kind", "O") in _REAL:
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(column.to_numpy(dtype=object))


def _numbers_of(results: list[Any], shape: tuple[int, ...], fill: float) -> np.ndarray:
    """Convert the first row of each result to numbers; a row of another shape is all `fill`."""
    rows = np.full((len(results), *shape), fill)
    for number, result in enumerate(results):
        try:
            row = real_numbers(_dense(result)[0, ...], fill)
        except Exception:
            continue
        if row.shape == shape:
            rows[number] = row
    return rows
