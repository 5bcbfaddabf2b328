"""Responses of a regression, checked."""

import math
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import r2_score
from sklearn.utils import check_array
from sklearn.utils.validation import check_consistent_length, column_or_1d

from skdp._checks import check_numbers, redact_errors
from skdp.data.parts import PartResults, Targets
from skdp.data.reduce import map_sum
from skdp.data.rows import checked_digest
from skdp.data.sources import sum_of_results


def as_numbers(responses: np.ndarray) -> np.ndarray:
    """Convert responses of a part to float64."""
    return np.asarray(responses, dtype=np.float64)


def as_numbers_later(responses: np.ndarray) -> np.ndarray:
    """Do the same in a later pass: what is no number any more becomes NaN, each by itself."""
    if responses.dtype.kind in "fiub":
        return as_numbers(responses)
    return np.array([_number(response) for response in responses.tolist()], dtype=np.float64)


def _number(response: Any) -> float:
    try:
        return float(response)
    except Exception:
        return math.nan


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


def r2_of_parts(
    responses: Targets, predictions: PartResults, sample_weight: Any, n_jobs: int | None
) -> float:
    """Compute the coefficient of determination, by sums over parts."""
    checked_digest(responses, n_jobs, is_keyed=False, name="y")
    weights = checked_weights(sample_weight, len(responses))
    weight, total = map_sum(responses, partial(_totals, weights=weights), 2, n_jobs)
    kernel = partial(_squares, responses=responses, mean=total / weight, weights=weights)
    lost, spread = sum_of_results(predictions, kernel, 2, n_jobs)
    return float(lost == 0 if spread == 0 else 1 - lost / spread)


def weights_of(weights: np.ndarray | None, rows: slice) -> np.ndarray:
    """Return the weights of some rows: without any, each is 1."""
    return np.ones(rows.stop - rows.start) if weights is None else weights[rows]


def _totals(rows: slice, responses: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    of_rows = weights_of(weights, rows)
    return np.array([of_rows.sum(), of_rows @ responses[:, 0]])


def _squares(
    rows: slice,
    predictions: np.ndarray,
    responses: Targets,
    mean: float,
    weights: np.ndarray | None,
) -> np.ndarray:
    true, of_rows = responses[rows], weights_of(weights, rows)
    return np.array([of_rows @ np.square(true - other) for other in (predictions, mean)])
