"""What functions of rows return: its kind is that of what they make of public rows.

The type of numbers, the container and the names of a result may follow the values of single rows:
one negative number makes all roots complex. Here results of the public kind are told from others,
and what is made of a single row that is of no such kind is converted.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array, issparse

from skdp.data.reading import UNFIT
from skdp.data.sources import canonical_csr
from skdp.data.sparse_parts import fits_together
from skdp.model_selection._public_rows import NUMBERS, are_numbers, plain_rows

__all__ = ["Kind", "kind_of", "kind_of_losses", "plain_result", "real_numbers"]

_REAL = "biuf"


class Kind(Protocol):
    """What results are like."""

    def admits(self, result: Any, n_rows: int, *, exactly: bool) -> bool:
        """Tell whether a result is of this kind, or of a narrower one that nothing is lost from."""

    def converted(self, result: Any, fill: float) -> Any:
        """Convert a result of this kind to one type, of real numbers."""

    def made_of(self, results: list[Any], fill: float) -> Any:
        """Make rows of this kind of results of anything, the first of each; None if it is none."""


def kind_of(like: Any, rows_are_numbers: bool) -> Kind | None:
    """Describe what was made of public rows; None where it is not looked into.

    Parameters
    ----------
    like : object
        What was made of them.
    rows_are_numbers : bool
        Whether the rows hold nothing but numbers.

    Returns
    -------
    Kind or None
        The kind.
    """
    if hasattr(like, "select_dtypes"):
        return _FrameKind(like, rows_are_numbers)
    if issparse(like) and like.ndim == 2 and like.dtype.kind in NUMBERS:
        return _SparseKind(like.dtype, like.shape[1:], _settled(like.dtype))
    array = _dense(like)
    if are_numbers(array) and (rows_are_numbers or array.dtype.kind != "O"):
        return _ArrayKind(array.dtype, array.shape[1:], _settled(array.dtype))
    return _OtherKind(like) if rows_are_numbers else None


def kind_of_losses(like: Any) -> Kind:
    """Describe a number for each row, which is converted to double precision."""
    return _ArrayKind(_dense(like).dtype, (), np.dtype(np.float64))


def plain_result(result: Any) -> Any:
    """Return what is masked as NaN, and a list of numbers, each of its own type, as an array."""
    if issparse(result) and not fits_together(result):
        raise ValueError(UNFIT)
    if isinstance(result, np.ma.MaskedArray):
        is_whole = result.dtype.kind in "biu"
        return np.ma.filled(result.astype(np.float64) if is_whole else result, np.nan)
    return plain_rows(result)


def real_numbers(values: np.ndarray, fill: float) -> np.ndarray:
    """Convert each entry by itself to a real number: what is complex to its real part.

    Parameters
    ----------
    values : ndarray
        Entries of any type.
    fill : float
        What becomes of an entry that does not convert.

    Returns
    -------
    ndarray
        Of the same type if they are real numbers, of float32 or float64 if they were complex, and
        else of float64.
    """
    if values.dtype.kind in _REAL:
        return values
    if values.dtype.kind == "c":
        return np.asarray(values.real.copy())
    entries = [_real_number(entry, fill) for entry in values.ravel().tolist()]
    return np.array(entries, dtype=np.float64).reshape(values.shape)


def _real_number(entry: Any, fill: float) -> float:
    for convert in (float, complex):
        try:
            return float(convert(entry).real)
        except Exception:
            continue
    return fill


def _dense(result: Any) -> np.ndarray:
    return np.asarray(result.toarray() if issparse(result) else result)


def _settled(dtype: np.dtype) -> np.dtype:
    """Return the type that numbers are converted to."""
    if dtype.kind in "biu":
        return dtype
    is_single = dtype in (np.float32, np.complex64)
    return np.dtype(np.float32 if is_single else np.float64)


def _cast(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert real numbers; to whole ones what they are near to, and 0 for none."""
    if dtype.kind in "iu" and values.dtype.kind == "f":
        limits = np.iinfo(dtype)
        # What rounds up to a power of two would be one too large.
        most = np.nextafter(float(limits.max), 0.0) if limits.bits == 64 else float(limits.max)
        values = np.clip(np.nan_to_num(values, nan=0.0), float(limits.min), most)
    return values.astype(dtype, copy=False)


@dataclass(frozen=True)
class _ArrayKind:
    """A dense array of numbers, and the type that they are converted to."""

    dtype: np.dtype
    shape: tuple[int, ...]
    settled: np.dtype

    def admits(self, result: Any, n_rows: int, *, exactly: bool) -> bool:
        if issparse(result) or hasattr(result, "select_dtypes"):
            return False
        return self._admits_array(_dense(result), n_rows, exactly)

    def _admits_array(self, array: Any, n_rows: int, exactly: bool) -> bool:
        fits = array.dtype == self.dtype if exactly else np.can_cast(array.dtype, self.dtype)
        return bool(fits) and array.shape == (n_rows, *self.shape)

    def converted(self, result: Any, fill: float) -> Any:
        return _cast(real_numbers(_dense(result), fill), self.settled)

    def made_of(self, results: list[Any], fill: float) -> Any:
        return self.converted(_numbers_of(results, self.shape, fill), fill)


class _SparseKind(_ArrayKind):
    """A sparse matrix of numbers."""

    def admits(self, result: Any, n_rows: int, *, exactly: bool) -> bool:
        return issparse(result) and self._admits_array(result, n_rows, exactly)

    def converted(self, result: Any, fill: float) -> Any:
        result = canonical_csr(result) if issparse(result) else csr_array(result)
        values = super().converted(result.data, fill)
        return csr_array((values, result.indices, result.indptr), shape=result.shape)


class _FrameKind:
    """A data frame of pandas; columns that hold no numbers are left as they are."""

    def __init__(self, like: Any, rows_are_numbers: bool) -> None:
        self.like = like
        kinds = [_kind_of_column(one, rows_are_numbers) for one in _columns_of(like)]
        self.kinds = {number: kind for number, kind in enumerate(kinds) if kind is not None}

    def admits(self, result: Any, n_rows: int, *, exactly: bool) -> bool:
        if not hasattr(result, "select_dtypes") or not result.columns.equals(self.like.columns):
            return False
        columns = _columns_of(result)
        return len(result) == n_rows and all(
            kind.admits(_values_of(columns[number]), n_rows, exactly=exactly)
            for number, kind in self.kinds.items()
        )

    def converted(self, result: Any, fill: float) -> Any:
        columns, result = _columns_of(result), result.copy(deep=False)
        for number, kind in self.kinds.items():
            if columns[number].dtype != kind.settled:
                result.isetitem(number, kind.converted(_values_of(columns[number]), fill))
        return result

    def made_of(self, results: list[Any], fill: float) -> Any:
        rows = _numbers_of(results, self.like.shape[1:], fill)
        made = self.like.iloc[[0] * len(results)].reset_index(drop=True)
        for number, kind in self.kinds.items():
            made.isetitem(number, kind.converted(rows[:, number], fill))
        return made


class _OtherKind:
    """Texts, or what else a next step takes."""

    def __init__(self, like: Any) -> None:
        self.container, self.shape, self.types = type(like), _shape_in(like), _types_in(like)

    def admits(self, result: Any, n_rows: int, *, exactly: bool) -> bool:
        is_alike = type(result) is self.container and _shape_in(result) == self.shape
        return is_alike and len(result) == n_rows and _types_in(result) <= self.types

    def converted(self, result: Any, fill: float) -> Any:
        return result

    def made_of(self, results: list[Any], fill: float) -> Any:
        return None


def _shape_in(result: Any) -> tuple[int, ...]:
    return result.shape[1:] if isinstance(result, np.ndarray) else ()


def _types_in(result: Any) -> set[type]:
    return set(map(type, result.ravel() if isinstance(result, np.ndarray) else result))


def _columns_of(frame: Any) -> list[Any]:
    return [frame.iloc[:, number] for number in range(frame.shape[1])]


def _kind_of_column(column: Any, rows_are_numbers: bool) -> _ArrayKind | None:
    """Describe the numbers of a column; None for what is left as it is."""
    kind, values = getattr(column.dtype, "kind", "O"), _values_of(column)
    holds_numbers = kind in NUMBERS or (kind == "O" and rows_are_numbers and are_numbers(values))
    # Sparse columns stay sparse.
    if hasattr(column.dtype, "subtype") or not holds_numbers:
        return None
    return _ArrayKind(values.dtype, (), _settled(values.dtype))


def _values_of(column: Any) -> np.ndarray:
    """Return a column as an array; numbers of which some may be missing are NaN then."""
    may_miss = not isinstance(column.dtype, np.dtype) and getattr(column.dtype, "kind", "") in _REAL
    return np.asarray(column.to_numpy(np.float64, na_value=np.nan) if may_miss else column)


def _numbers_of(results: list[Any], shape: tuple[int, ...], fill: float) -> np.ndarray:
    """Convert the first row of each result; what has another shape is filled."""
    rows = np.full((len(results), *shape), fill)
    for number, result in enumerate(results):
        try:
            row = real_numbers(_dense(result)[0, ...], fill)
        except Exception:
            continue
        if row.shape == shape:
            rows[number] = row
    return rows
