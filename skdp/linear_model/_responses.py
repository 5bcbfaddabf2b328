"""Responses of a regression, checked."""

from typing import Any

import numpy as np
from sklearn.metrics import r2_score
from sklearn.utils import check_array
from sklearn.utils.validation import check_consistent_length, column_or_1d

from skdp._reading import check_numbers, redact_errors


@redact_errors
def checked_responses(y: Any) -> np.ndarray:
    """Return responses in float64; refuse all but lists of finite numbers, naming no value."""
    raveled = column_or_1d(y, warn=True)
    return np.asarray(check_array(raveled, ensure_2d=False, dtype=np.float64, input_name="y"))


def checked_weights(sample_weight: Any, n_rows: int) -> np.ndarray | None:
    """Return the weights of rows in a score in float64, or None."""
    if sample_weight is None:
        return None
    weights = check_numbers(sample_weight, "sample_weight", ensure_2d=False)
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight must have one weight for each of {n_rows} rows, got shape "
            f"{weights.shape}."
        )
    return weights


def r2_of(y: Any, predictions: np.ndarray, sample_weight: Any) -> float:
    """Compute the coefficient of determination; refuse bad data, naming no value."""
    responses = checked_responses(y)
    check_consistent_length(predictions, responses)
    weights = checked_weights(sample_weight, len(predictions))
    return float(r2_score(responses, predictions, sample_weight=weights))
