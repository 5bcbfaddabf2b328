"""Checks of data that tell no values: those of scikit-learn, and of what it lets pass."""

import re
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from scipy.sparse import issparse
from sklearn import config_context
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from skdp.data.containers import SAFE_TEXTS, UNREADABLE, checked_container
from skdp.data.sources import canonical_csr, plain_csr

__all__ = ["INPUT", "check_features", "check_numbers", "check_rows", "check_rows_of", "quiet"]

P = ParamSpec("P")
R = TypeVar("R")

#: What scikit-learn's validation is told about X.
INPUT = {"accept_sparse": "csr", "dtype": (np.float64, np.float32)}
_SHAPE = r"\([\d, ]*\)"
# Texts of scikit-learn and numpy that tell shapes and types. What follows them may be values.
_KNOWN = re.compile(
    "|".join(
        (
            r"Expected 2D array, got (?:1D|scalar) array instead",
            rf"Expected 2D input, got input with shape {_SHAPE}",
            r"Expected a 2-dimensional container but got <class '[\w.]+'> instead",
            rf"Found array with \d+ (?:sample|feature)\(s\) \(shape={_SHAPE}\) while a minimum of "
            r"\d+ is required(?: by \w+)?",
            r"Found array with dim \d+(?:, while dim <= 2 is required(?: by \w+)?|\. \w+ expected)",
            r"Found input variables with inconsistent numbers of samples: \[[\d, ]*\]",
            r"Input (?:\w+ )?contains (?:NaN|infinity or a value too large for dtype\('\w+'\))",
            r"Input should have at least 1 dimension",
            r"Complex data not supported",
            r"could not convert string to float",
            r"float\(\) argument must be a string or a (?:real )?number, not '[\w.]+'",
            r"setting an array element with a sequence(?:\. The requested array has an "
            r"inhomogeneous shape after \d+ dimensions)?",
            r"dtype='numeric' is not compatible with arrays of bytes/strings",
            rf"y should be a 1d array, got an array of shape {_SHAPE} instead",
            r"Sparse data was passed[\w' ]*, but dense data is required",
            r"np\.matrix is not supported",
            r"X has \d+ features, but \w+ is expecting \d+ features as input",
            r"X does not contain any features, but \w+ is expecting \d+ features",
            r"Expected sequence or array-like, got <class '[\w.]+'>",
            r"Unable to find the number of features from X of type [\w.]+",
            r"Feature names are only supported if all input features have string names",
            # Names are public.
            r"(?s:The feature names should match those that were passed during fit.*)",
        )
    )
)
# Where what raises these texts is written. An entry may raise one of them with values in it.
_KNOWN_CODE = frozenset({"numpy", "pandas", "polars", "scipy", "skdp", "sklearn"})
_HINTS = {
    "Expected 2D": " Reshape your data by reshape(-1, 1) if it is one feature, by reshape(1, -1) "
    "if it is one row.",
    "contains NaN": " Fill it by a constant: imputing from other rows would not be private.",
}


def quiet(check: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Decorate a check of data, the first argument, such that it tells nothing of values."""

    @wraps(check)
    def _check(X: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        X = checked_container(X)
        try:
            # Summing huge entries, as the check for infinity does, would warn of them.
            # NaN and infinity are looked for even where scikit-learn is told not to.
            with np.errstate(all="ignore"), config_context(assume_finite=False):
                return check(X, *args, **kwargs)
        except Exception as error:
            public = _public_error(error)
        # Outside the handler, whose error would be attached and tells values.
        raise public

    return _check


def _public_error(error: Exception) -> Exception:
    """Make an error that tells what is known to tell no values."""
    text = ""
    with suppress(Exception):
        text = str(error)
    kinds = (kind for kind in (TypeError, MemoryError) if isinstance(error, kind))
    known = _KNOWN.match(text)
    if known is None or _is_foreign(error):
        kind: type[Exception] = MemoryError if isinstance(error, MemoryError) else ValueError
        return kind(text if text in SAFE_TEXTS else UNREADABLE)
    message = known.group().removesuffix(".") + "."
    message += "".join(hint for sign, hint in _HINTS.items() if sign in message)
    return next(kinds, ValueError)(message)


def _is_foreign(error: Exception) -> bool:
    """Tell whether code of others raised it, such as that of an entry, which may say anything."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] not in _KNOWN_CODE


@quiet
def check_rows(X: Any, estimator_name: str, *, ensure_all_finite: bool = True) -> Any:
    """Validate X as scikit-learn does, without warnings or errors that tell values."""
    asked = {"ensure_all_finite": ensure_all_finite, "input_name": "X"}
    if issparse(X) and X.ndim == 2:
        # Which adds up no duplicates.
        X = plain_csr(X)
    checked = check_array(X, **INPUT, estimator=estimator_name, **asked)
    if issparse(checked):
        # Duplicate entries of a cell may be finite and their sum not.
        checked = check_array(canonical_csr(checked), accept_sparse="csr", **asked)
    return checked


@quiet
def check_rows_of(X: Any, estimator: Any, *, accept_sparse: Any = "csr") -> Any:
    """Validate rows for a fitted estimator, with their names."""
    asked = {**INPUT, "accept_sparse": accept_sparse}
    return validate_data(estimator, X, **asked, reset=False)


@quiet
def check_features(X: Any, estimator: Any, *, reset: bool = False) -> None:
    """Compare number and names of features with those of a fit, or keep them; read no values."""
    validate_data(estimator, X, reset=reset, skip_check_array=True)


@quiet
def check_numbers(X: Any, /, name: str, **asked: Any) -> np.ndarray:
    """Validate a dense array of numbers, in double precision unless something else is asked."""
    return np.asarray(check_array(X, input_name=name, **{"dtype": np.float64, **asked}))
