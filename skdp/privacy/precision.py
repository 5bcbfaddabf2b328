"""Convert numbers of any type to Python numbers in double precision, and check their range."""

from collections.abc import Callable
from functools import wraps
from numbers import Integral, Real
from types import NoneType
from typing import Any, ParamSpec, TypeVar

import numpy as np

_PLAIN = (float, int, bool, str, NoneType)
P = ParamSpec("P")
R = TypeVar("R")


def as_python(value: Any) -> Any:
    """Convert a number of any type to a float or an int, and an array of numbers to float64.

    In float16 or float32 a product of bounds would lose bits, and the noise would fit another
    bound. Small integer types overflow.
    """
    # Most values return here: isinstance with the abstract classes below is slow.
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
        return type(value)(map(as_python, value))
    return value


def in_double_precision(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function so that its arguments become Python numbers."""

    @wraps(function)
    def _of_plain_arguments(*args: P.args, **kwargs: P.kwargs) -> R:
        values = map(as_python, kwargs.values())
        return function(*map(as_python, args), **dict(zip(kwargs, values, strict=True)))

    return _of_plain_arguments


def checked_nonnegative(name: str, value: float) -> float:
    """Return the value as a float; refuse negative numbers and NaN."""
    if not value >= 0:
        raise ValueError(f"{name} must not be negative, got {value!r}.")
    return float(value)


def checked_delta(delta: float, name: str = "delta") -> float:
    """Return delta as a float; refuse numbers outside [0, 1)."""
    if not 0 <= delta < 1:
        raise ValueError(f"{name} must lie in [0, 1), got {delta!r}.")
    return float(delta)
