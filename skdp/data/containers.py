"""Checks of a container before anything else is done with it: all data enter through here.

A container may be any object with code of its own. An error that this code raises may contain
private values.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import issparse

from skdp.data.sparse_parts import fits_together

#: Stands for the text of any error that a container raises itself.
UNREADABLE = (
    "The data cannot be read: converting them raises an error, whose text is left out because it "
    "may contain values. numpy.asarray(X, dtype=float), or a loop over the blocks, shows it."
)
MASKED = (
    "A masked array is not accepted, because the values under the mask would be used. Fill it by "
    "a constant, as X.filled(0) does; to drop rows for what they hold would not be private."
)
INVALID_SPARSE = (
    "A sparse matrix has parts that do not fit together: every index must be an integer from 0 and "
    "below the length of its axis, indptr must not decrease and must end within the entries, and "
    "all lengths must agree."
)
COLLECTION = (
    "A collection of dask is not gathered in memory where it is not taken as it is: pass "
    "X.compute(), if it fits there."
)
#: Texts of errors that contain no values.
SAFE_TEXTS = (UNREADABLE, MASKED, INVALID_SPARSE, COLLECTION)
# Attributes that numpy and scikit-learn read of an object before they convert it.
_PROBED_ATTRIBUTES = ("shape", "dtype", "ndim", "columns")
# An array has at most so many dimensions: lists that are nested deeper are not converted to one.
_MOST_DIMENSIONS = 64  # not tuned

T = TypeVar("T")


class SkdpContainer:
    """A container of skdp, which checks its parts itself."""


def hide_error_text(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call a function that may run foreign code; an error that it raises loses its text."""
    return with_text(UNREADABLE, lambda: function(*args, **kwargs))


def with_text(text: str, function: Callable[[], T], kept: type[Exception] | tuple[()] = ()) -> T:
    """Call a function; any error but those that are `kept` gets this text, which tells no value."""
    try:
        return function()
    except kept:
        raise
    except MemoryError:
        kind: type[Exception] = MemoryError
    except Exception:
        kind = ValueError
    # Raised outside the handler: within it, Python would attach the original error with its text.
    raise kind(text)


def loaded(loader: Callable[[], T], name: str, hint: str) -> T:
    """Call the function that loads what `name` tells; the text of an error is hidden, if unsafe."""
    kind: type[Exception] = ValueError
    text = (
        "The data cannot be read: loading them raises an error, whose text is left out because it "
        f"may contain values. {hint}"
    )
    try:
        return loader()
    except MemoryError:
        kind = MemoryError
    except Exception as error:
        # Of any other kind of error, and of what else it holds, even a look may run foreign code.
        told = error.args if type(error) is ValueError else ()
        text = next((one for one in told if type(one) is str and one in SAFE_TEXTS), text)
    raise kind(f"{name}: {text}")


@contextmanager
def without_warnings() -> Iterator[None]:
    """Silence the functions that load or make rows, whose warnings may tell values.

    In threads, which share the filters of warnings, a function cannot do that for itself.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def composed(
    first: Callable[[Any], Any] | None, second: Callable[[Any], Any] | None
) -> Callable[[Any], Any] | None:
    """Return one function after the other, None standing for none; it can be pickled."""
    if first is None or second is None:
        return second if first is None else first
    return partial(_both, first, second)


def _both(first: Callable[[Any], Any], second: Callable[[Any], Any], X: Any) -> Any:
    return second(first(X))


def checked_container(X: Any) -> Any:
    """Refuse a container that must not even be converted.

    Parameters
    ----------
    X : object
        Anything.

    Returns
    -------
    object
        X itself, or an array if X can only be converted to one by its `__array__`.

    Raises
    ------
    ValueError
        If X is or holds a masked array, is a sparse matrix whose parts do not fit together, or
        raises an error of its own.
    """
    if is_collection(X):
        raise ValueError(COLLECTION)
    X = hide_error_text(_as_array, X)
    refuse_masked(X)
    if issparse(X) and not hide_error_text(fits_together, X):
        raise ValueError(INVALID_SPARSE)
    return X


def is_collection(X: Any) -> bool:
    """Tell whether X is a collection of dask, without importing dask or running code of X."""
    return hasattr(type(X), "__dask_graph__")


def refuse_masked(X: Any) -> None:
    """Check X as `checked_container` does, but convert nothing and read no entry."""
    if hide_error_text(_is_masked, X):
        raise ValueError(MASKED)


def _as_array(X: Any) -> Any:
    is_accepted = issparse(X) or isinstance(X, SkdpContainer | type)
    if is_accepted or hasattr(X, "columns") or hasattr(X, "iloc") or not hasattr(X, "__array__"):
        return X
    # Unlike `asarray`, this keeps the mask of a masked array.
    return np.asanyarray(X)


def _is_masked(X: Any) -> bool:
    if X is None or isinstance(X, SkdpContainer | type):
        return False
    if issparse(X):
        return isinstance(getattr(X, "data", None), np.ma.MaskedArray)
    # Code behind these attributes and behind `len` runs here first, where its errors are hidden.
    for name in _PROBED_ATTRIBUTES:
        getattr(X, name, None)
    if hasattr(X, "__len__") and not isinstance(X, np.ndarray):
        len(X)
    return _holds_masked(X)


def _holds_masked(X: Any) -> bool:
    """Tell whether X is a masked array, or one is among its objects."""
    level = [_objects_of(X) if hasattr(X, "iloc") else X]
    # Level by level: a call for each row would take longer than the conversion of all of them.
    for _ in range(_MOST_DIMENSIONS):
        kinds = set(map(type, level))
        if any(issubclass(kind, np.ma.MaskedArray) for kind in kinds):
            return True
        nested = tuple(kind for kind in kinds if issubclass(kind, list | tuple | np.ndarray))
        if not nested:
            return False
        level = list(
            chain.from_iterable(_objects_in(part) for part in level if type(part) in nested)
        )
    return False


def _objects_in(part: Any) -> Any:
    if not isinstance(part, np.ndarray):
        return part
    return part.ravel() if part.dtype == object else ()


def _objects_of(frame: Any) -> np.ndarray:
    """Return the columns of a data frame, or the series, that hold objects rather than numbers."""
    frame = frame.to_frame() if frame.ndim == 1 else frame
    return np.asarray(frame.loc[:, np.asarray(frame.dtypes == np.dtype(object))], dtype=object)
