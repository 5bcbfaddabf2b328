"""What is given, looked at before anything else is done with it: the one entrance of all data."""

from collections.abc import Callable
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import issparse

from skdp.data.sparse_parts import fits_together

__all__ = [
    "MASKED",
    "OWN_TEXTS",
    "UNFIT",
    "UNREADABLE",
    "OwnContainer",
    "read",
    "seen",
    "tell_nothing",
]

#: All that is said of what raises an error of its own.
UNREADABLE = (
    "What was given cannot be read. The error that this raised may tell values and is left out: "
    "numpy.asarray(X, dtype=float), or a loop over the blocks, shows it."
)
MASKED = (
    "A masked array is not taken: what is under the mask would be used. Fill it by a constant, as "
    "X.filled(0) does; leaving rows out by what they hold would not be private."
)
UNFIT = (
    "A sparse matrix has parts that do not fit together: every index must be an integer from 0 and "
    "below the length of its axis, indptr must not fall and must end within the entries, and all "
    "lengths must agree."
)
OWN_TEXTS = (UNREADABLE, MASKED, UNFIT)
# What others read of an object before they convert it.
_LOOKED_AT = ("shape", "dtype", "ndim", "columns")
# Of an array; deeper lists are none.
_MOST_DIMENSIONS = 64  # not tuned

T = TypeVar("T")


class OwnContainer:
    """A container of skdp, which looks at its parts itself."""


def tell_nothing(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call what may run code of others; whatever that raises, its text is left out."""
    try:
        return function(*args, **kwargs)
    except MemoryError:
        kind: type[Exception] = MemoryError
    except Exception:
        kind = ValueError
    # Outside the handler, whose error would be attached.
    raise kind(UNREADABLE)


def read(X: Any) -> Any:
    """Look at what is given, and refuse what must not even be converted.

    Parameters
    ----------
    X : object
        Anything.

    Returns
    -------
    object
        The same, or an array where X is none but makes one.

    Raises
    ------
    ValueError
        If X is or holds a masked array, is a sparse matrix whose parts do not fit together, or
        raises an error of its own.
    """
    X = seen(tell_nothing(_as_array, X))
    if issparse(X) and not tell_nothing(fits_together, X):
        raise ValueError(UNFIT)
    return X


def seen(X: Any) -> Any:
    """Look at what is given as `read` does, but convert nothing and read no entry."""
    if tell_nothing(_is_masked, X):
        raise ValueError(MASKED)
    return X


def _as_array(X: Any) -> Any:
    is_taken = issparse(X) or isinstance(X, OwnContainer | type)
    if is_taken or hasattr(X, "columns") or hasattr(X, "iloc") or not hasattr(X, "__array__"):
        return X
    # As what it is: of a masked array, `asarray` would take the mask off.
    return np.asanyarray(X)


def _is_masked(X: Any) -> bool:
    if X is None or isinstance(X, OwnContainer | type):
        return False
    if issparse(X):
        return isinstance(getattr(X, "data", None), np.ma.MaskedArray)
    # Whatever these raise, they raise it here.
    for name in _LOOKED_AT:
        getattr(X, name, None)
    if hasattr(X, "__len__") and not isinstance(X, np.ndarray):
        len(X)
    return _holds_masked(X)


def _holds_masked(X: Any) -> bool:
    """Tell whether X is a masked array, or one is among its objects."""
    level = [_objects_of(X) if hasattr(X, "iloc") else X]
    # Level by level, as a call for each row would take longer than the conversion of all.
    for _ in range(_MOST_DIMENSIONS):
        kinds = set(map(type, level))
        if any(issubclass(kind, np.ma.MaskedArray) for kind in kinds):
            return True
        nested = tuple(kind for kind in kinds if issubclass(kind, list | tuple | np.ndarray))
        if not nested:
            return False
        level = list(chain.from_iterable(_objects_in(one) for one in level if type(one) in nested))
    return False


def _objects_in(part: Any) -> Any:
    if not isinstance(part, np.ndarray):
        return part
    return part.ravel() if part.dtype == object else ()


def _objects_of(frame: Any) -> np.ndarray:
    """Return the columns of a data frame, or the series, that hold objects rather than numbers."""
    frame = frame.to_frame() if frame.ndim == 1 else frame
    return np.asarray(frame.loc[:, np.asarray(frame.dtypes == np.dtype(object))], dtype=object)
