"""Checks of data: scikit-learn's and our own, with errors that tell no values."""

import re
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from scipy.sparse import issparse
from sklearn import config_context
from sklearn.utils import check_array
from sklearn.utils.validation import _check_n_features, validate_data

from skdp.data.containers import SAFE_TEXTS, UNREADABLE, canonical_csr, checked_container, plain_csr
from skdp.data.parts import RowBlocks, RowParts, Targets
from skdp.exceptions import shortened

P = ParamSpec("P")
R = TypeVar("R")

#: Arguments of scikit-learn's validation of X.
INPUT = {"accept_sparse": "csr", "dtype": (np.float64, np.float32)}
_SHAPE = r"\([\d, ]*\)"
# Beginnings of error texts of scikit-learn and numpy that tell shapes and types only. What follows
# them may be values, and is cut off.
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
            r"Unknown label type: \w+\. [\w ,:]+\.",
            r"y has labels of one class only, but a classifier needs two classes or more: pass "
            r"classes, with those that y lacks\.",
            r"Expected sequence or array-like, got <class '[\w.]+'>",
            r"Unable to find the number of features from X of type [\w.]+",
            r"Feature names are only supported if all input features have string names",
            # Names are public.
            r"(?s:The feature names should match those that were passed during fit.*)",
        )
    )
)
# Packages whose errors may be quoted. An object in X could raise one of these texts itself, with
# values in it.
_KNOWN_CODE = frozenset({"numpy", "pandas", "polars", "scipy", "skdp", "sklearn"})
_HINTS = {
    "Expected 2D": " Reshape your data by reshape(-1, 1) if it is one feature, by reshape(1, -1) "
    "if it is one row.",
    "contains NaN": " Fill it by a constant: imputing from other rows would not be private.",
}


def redact_errors(check: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Decorate a check of data, its first argument, so that its errors tell no values."""

    @wraps(check)
    def _check(X: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        X = checked_container(X)
        try:
            # The check for infinity sums the entries, and would warn of huge ones. NaN and infinity
            # are refused even if scikit-learn is configured not to look for them.
            with np.errstate(all="ignore"), config_context(assume_finite=False):
                return check(X, *args, **kwargs)
        except Exception as error:
            redacted = _redacted(error)
        # Outside the handler: inside, the error with the values would be attached as its context.
        raise redacted

    return _check


def _redacted(error: Exception) -> Exception:
    """Make an error from the part of its text that is known to tell no values."""
    text = ""
    # An error of foreign code may fail to print itself.
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
    """Whether foreign code, such as a method of an entry, raised it: it may say anything."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] not in _KNOWN_CODE


@redact_errors
def check_rows(X: Any, estimator_name: str, *, ensure_all_finite: bool = True) -> Any:
    """Validate X as scikit-learn does, without warnings or errors that tell values."""
    settings = {"ensure_all_finite": ensure_all_finite, "input_name": "X"}
    if issparse(X) and X.ndim == 2:
        # check_array would add up duplicate entries before it looks at them.
        X = plain_csr(X)
    checked = check_array(X, **INPUT, estimator=estimator_name, **settings)
    if issparse(checked):
        # The duplicate entries of a cell may be finite, and their sum infinite.
        checked = check_array(canonical_csr(checked), accept_sparse="csr", **settings)
    return checked


def check_rows_or_blocks(X: Any, estimator_name: str, *, ensure_all_finite: bool = True) -> Any:
    """Validate X, all of which is read if it is a stream."""
    if not isinstance(X, RowBlocks):
        return check_rows(X, estimator_name, ensure_all_finite=ensure_all_finite)
    # Parts are checked by the first pass of a fit.
    if not isinstance(X, RowParts):
        X.check()
    return X


def refuse_blocks(X: Any, estimator_name: str) -> None:
    """Refuse rows in blocks, for estimators that cannot read them."""
    if isinstance(X, RowBlocks):
        raise ValueError(
            f"X is a RowBlocks, which {estimator_name} does not take: pass an array or a memory "
            "map."
        )


def refuse_stream(X: Any, estimator_name: str) -> None:
    """Refuse rows in one stream, which have no targets."""
    if isinstance(X, RowBlocks) and not isinstance(X, RowParts):
        raise ValueError(
            f"X is a RowBlocks of one stream, which has no targets for {estimator_name}: pass "
            "RowBlocks.from_partitions(..., y=...), an array or a memory map."
        )


def check_given(y: Any, estimator_name: str) -> None:
    """Refuse None for the target."""
    if y is None:
        raise ValueError(f"{estimator_name} requires y to be passed, but the target y is None.")


def targets_of(X: RowParts, y: Any, estimator_name: str) -> Targets:
    """Return the targets that rows in parts bring along; refuse others."""
    if X.y is None:
        raise ValueError(
            f"{estimator_name} takes y from rows in parts, and these have none: pass y to "
            "RowBlocks.from_partitions, from_npy or from_parquet, and not to this method."
        )
    if y is not None:
        raise ValueError(
            f"{estimator_name} takes y from rows in parts, and these have one: leave out the y of "
            "this method."
        )
    return X.y


def check_like(like: Any, n_samples: int, n_features: int) -> None:
    """Refuse an X, such as a fit to come would take, of another number of features."""
    shape = getattr(like, "shape", (n_samples, n_features))
    if len(shape) != 2 or shape[1] != n_features:
        raise ValueError(f"n_features={n_features} does not fit like, of shape {shape}.")


def check_width(X: Any, n_columns: int) -> None:
    """Refuse transformed rows of another width."""
    if X.shape[1] != n_columns:
        raise ValueError(f"X has {X.shape[1]} columns, where {n_columns} are expected.")


@redact_errors
def check_rows_of(X: Any, estimator: Any, *, accept_sparse: Any = "csr") -> Any:
    """Validate rows, and the names of their features, for a fitted estimator."""
    return validate_data(estimator, X, **{**INPUT, "accept_sparse": accept_sparse}, reset=False)


@redact_errors
def check_features(X: Any, estimator: Any, *, reset: bool = False) -> None:
    """Check number and names of features against a fit, or set them; read no values."""
    names = X.feature_names if isinstance(X, RowBlocks) else None
    if names is None:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return
    # scikit-learn would look for names in columns, and warn that there are none.
    _check_n_features(estimator, X, reset=reset)
    _check_names(names, estimator, reset=reset)


def _check_names(names: list[str], estimator: Any, *, reset: bool) -> None:
    if reset:
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
        return
    expected = getattr(estimator, "feature_names_in_", names)
    if list(expected) != names:
        raise ValueError(
            "The feature names should match those that were passed during fit, in the same order: "
            f"expected {shortened(list(expected))}, got {shortened(names)}."
        )


@redact_errors
def check_numbers(X: Any, /, name: str, **settings: Any) -> np.ndarray:
    """Validate a dense array of numbers, in double precision unless `settings` say otherwise."""
    return np.asarray(check_array(X, input_name=name, **{"dtype": np.float64, **settings}))
