"""Rows through fitted steps: no error, warning or number tells of single rows on the way.

A step may overflow on a finite row, or make NaN of it, which the next one would refuse: after
releases, and for this row alone. So what comes out of a step is finite for every row, and what it
raises is told without values.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from skdp.data.finite import finite

__all__ = ["restored", "transformed", "untold"]

T = TypeVar("T")


def untold(what: str, function: Callable[..., T], *arguments: Any) -> T:
    """Call what may warn or raise for single rows, and tell no more than the kind of an error."""
    kind = ""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return function(*arguments)
    except Exception as error:
        kind = type(error).__name__
    # Outside the handler, whose error would be attached and may tell values.
    raise ValueError(f"{what} raises {kind}, whose text may tell values and is left out.")


def transformed(steps: Sequence[tuple[str, Any]], rows: Any) -> Any:
    """Send rows through fitted steps.

    Parameters
    ----------
    steps : sequence of (str, estimator)
        Names and fitted steps, "passthrough" or None among them.
    rows : array-like of shape (n_samples, ...)
        Rows.

    Returns
    -------
    array-like of shape (n_samples, ...)
        What comes out, finite.
    """
    for name, step in steps:
        if step is not None and not isinstance(step, str):
            rows = finite(untold(f"Step {name!r}", step.transform, rows))
    return rows


def restored(steps: Sequence[tuple[str, Any]], rows: Any) -> Any:
    """Send rows back through fitted steps.

    Parameters
    ----------
    steps : sequence of (str, estimator)
        Names and fitted steps, in the order of `transformed`.
    rows : array-like of shape (n_samples, ...)
        What came out of the last one.

    Returns
    -------
    array-like of shape (n_samples, ...)
        Rows in the space of what went into the first one, finite.
    """
    for name, step in reversed(steps):
        if step is not None and not isinstance(step, str):
            rows = finite(untold(f"Step {name!r}", step.inverse_transform, rows))
    return rows
