"""Public intervals of columns, checked."""

from typing import Any

import numpy as np

from skdp.privacy.clipping import SMALLEST_BOUND


def checked_interval(bounds: Any, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the public ends of all columns; refuse such as noise or floats cannot deal with."""
    try:
        low, high = bounds
    except (TypeError, ValueError):
        raise ValueError(_wanted(bounds)) from None
    low, high = (_checked_end(end, bounds, n_features) for end in (low, high))
    least, most = SMALLEST_BOUND, 1 / SMALLEST_BOUND
    if not ((np.abs(low) <= most) & (np.abs(high) <= most)).all():
        raise ValueError(f"bounds={bounds!r} must not exceed {most:g} in size.")
    if not (high - low >= least).all():
        raise ValueError(
            f"bounds={bounds!r} must be (low, high), with low below high by at least {least:g} in "
            "every column."
        )
    return low, high


def _checked_end(end: Any, bounds: Any, n_features: int) -> np.ndarray:
    """Spread a number, or one for each column, over the columns."""
    try:
        # Strings of digits, and complex numbers, are no numbers here.
        is_number = np.asarray(end).dtype.kind in "iufO"
        values = np.asarray(end if is_number else np.nan, np.float64)
    except (TypeError, ValueError, OverflowError):
        values = np.full((), np.nan)
    if np.isnan(values).any():
        raise ValueError(_wanted(bounds))
    if values.shape not in ((), (n_features,)):
        raise ValueError(
            f"bounds has an end of shape {values.shape}, but X has {n_features} features: pass a "
            "number, or one for each feature."
        )
    return np.broadcast_to(values, (n_features,)).astype(np.float64)


def _wanted(bounds: Any) -> str:
    return (
        f"bounds={bounds!r} must be None or (low, high): numbers, or arrays with one for each "
        "feature, that are known without looking at X."
    )
