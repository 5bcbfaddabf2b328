"""Numbers of any type as Python's, so that what is computed from them is in double precision."""

from collections.abc import Callable
from functools import wraps
from numbers import Integral, Real
from types import NoneType
from typing import Any, ParamSpec, TypeVar

import numpy as np

__all__ = ["in_double_precision", "plain"]

_PLAIN = (float, int, bool, str, NoneType)
P = ParamSpec("P")
R = TypeVar("R")


def plain(value: Any) -> Any:
    """Turn a number of any type into a float or an int, and arrays of numbers into float64 ones.

    A bound that is rounded to few bits wherever it is multiplied would not be the bound that is
    charged for, and small types of integers overflow.
    """
    # Abstract classes are slow to ask, and most values are none of theirs.
    if type(value) in _PLAIN:
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        return value.astype(np.float64, copy=False)
    if type(value) in (tuple, list):
        return type(value)(map(plain, value))
    return value


def in_double_precision(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function such that its arguments are plain."""

    @wraps(function)
    def _of_plain_arguments(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(*map(plain, args), **{name: plain(v) for name, v in kwargs.items()})

    return _of_plain_arguments
