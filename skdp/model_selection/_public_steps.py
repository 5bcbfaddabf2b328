"""Rows through fitted steps: no error, warning or number tells of single rows on the way.

A step may overflow on a finite row, make NaN of it, which the next one would refuse, or refuse the
row itself: after releases, and for this row alone. So what comes out of a step is finite, and a row
that a step refuses becomes a row of zeros behind it. What is refused of a row of ones is refused
for all: that is public.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from skdp.data.finite import finite

__all__ = ["by_rows", "fitted_to_nothing", "restored", "transformed"]


def quietly(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call what may warn of single rows."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*arguments)


def by_rows(what: str, function: Callable[..., Any], *inputs: Any, fill: float) -> np.ndarray:
    """Apply a function of rows, each of which it takes by itself.

    Parameters
    ----------
    what : str
        What it is, for errors.
    function : callable
        Takes rows, and responses if there are any, and returns as many results.
    *inputs : array-like of shape (n_samples, ...)
        Rows, and responses.
    fill : float
        The result of a row that is refused.

    Returns
    -------
    array-like of shape (n_samples, ...)
        The results.
    """
    try:
        return quietly(function, *inputs)
    except Exception:
        refused = [row for row in range(_num_samples(inputs[0])) if _refuses(function, inputs, row)]
    if not is_finite(inputs[0]):
        raise ValueError(f"Input X contains NaN or infinity, which {what} refuses.")
    stand_in = _of_ones(inputs)
    if not refused or stand_in is None or _refuses(function, stand_in, 0):
        # Outside the handler, whose error would be attached and may tell values.
        raise ValueError(_public_error(what, function, stand_in))
    # All at once again: what is computed of the others must not depend on how many they are.
    results = quietly(function, *_exchanged(inputs, stand_in, refused))
    results = np.array(results.toarray() if issparse(results) else results, dtype=np.float64)
    results[refused] = fill
    return results


def _refuses(function: Callable[..., Any], inputs: Sequence[Any], row: int) -> bool:
    try:
        quietly(function, *(_safe_indexing(one, [row]) for one in inputs))
    except Exception:
        return True
    return False


def _of_ones(inputs: Sequence[Any]) -> list[Any] | None:
    """Make public inputs of one row; None for rows that hold no numbers."""
    rows, *responses = inputs
    first = _safe_indexing(rows, [0])
    if isinstance(first, np.ndarray) and first.dtype.kind in "biuf":
        return [np.ones_like(first), *(np.ones(1) for _ in responses)]
    try:
        ones = csr_array(np.ones(first.shape)) if issparse(first) else first * 0 + 1
    except Exception:
        return None
    return [ones, *(np.ones(1) for _ in responses)]


def _exchanged(inputs: Sequence[Any], stand_in: Sequence[Any], refused: list[int]) -> list[Any]:
    """Put the stand-in in the place of the refused rows."""
    rows, *responses = inputs
    if issparse(rows):
        rows = rows.tolil(copy=True)
        rows[refused] = 1
        rows = rows.tocsr()
    elif hasattr(rows, "iloc"):
        rows = rows.copy()
        rows.iloc[refused] = 1
    else:
        rows = np.array(rows)
        rows[refused] = stand_in[0]
    return [rows, *responses]


def _public_error(what: str, function: Callable[..., Any], stand_in: list[Any] | None) -> str:
    """Tell what is raised for a row of ones, or that something was raised."""
    if stand_in is not None:
        try:
            quietly(function, *stand_in)
        except Exception as error:
            return f"{what} raises {type(error).__name__}: {error}"
    return f"{what} raises an error, whose text may tell values and is left out."


def fitted_to_nothing(name: str, step: Any, rows: Any) -> Any:
    """Fit a step that learns nothing to a row of ones in the place of the rows."""
    stand_in = _of_ones([rows])
    fitted = None
    try:
        fitted = quietly(step.fit, rows if stand_in is None else stand_in[0])
    except Exception:
        told = _public_error(f"Step {name!r}", step.fit, stand_in)
    if fitted is None:
        raise ValueError(told)
    return fitted


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
        What comes out, finite if the rows are.
    """
    for name, step in steps:
        if step is not None and not isinstance(step, str):
            result = by_rows(f"Step {name!r}", step.transform, rows, fill=0.0)
            # What overflows is made finite, and what never was finite is refused by what follows.
            rows = finite(result) if is_finite(rows) else result
    return rows


def is_finite(rows: Any) -> bool:
    """Tell whether all numbers are finite; what holds none has nothing to ask."""
    try:
        values = np.asarray(rows.data if issparse(rows) else rows, dtype=np.float64)
    except Exception:
        return True
    return bool(np.isfinite(values).all())


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
            rows = finite(by_rows(f"Step {name!r}", step.inverse_transform, rows, fill=0.0))
    return rows
