"""Responses of a regression, checked."""

from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import column_or_1d

from skdp._estimator import quiet

__all__ = ["checked_responses"]


@quiet
def checked_responses(y: Any) -> np.ndarray:
    """Return responses in float64; refuse what is no list of finite numbers, naming no value."""
    raveled = column_or_1d(y, warn=True)
    return np.asarray(check_array(raveled, ensure_2d=False, dtype=np.float64, input_name="y"))
