"""Warnings and errors of skdp, and how their texts are made."""

import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from inspect import signature
from numbers import Number
from traceback import walk_stack
from types import FrameType, NoneType
from typing import Any, TypeVar, cast

__all__ = ["BudgetError", "FederationError", "LedgerError", "PrivacyWarning"]


# At most this many names are shown in a warning.
_MOST_NAMED = 10  # not tuned
# Errors show no tuples with more entries than this, as such a tuple may be a column of data.
_MOST_SHOWN = 3  # not tuned


def shown(value: Any) -> str:
    """Return a parameter as text for an error, or only its type if it may contain data."""
    parts = value if type(value) is tuple and len(value) <= _MOST_SHOWN else (value,)
    are_plain = all(isinstance(part, Number | str | NoneType) for part in parts)
    return repr(value) if are_plain else f"<{type(value).__name__}>"


class PrivacyWarning(UserWarning):
    """A setting weakens the guarantee, or the result may be noise alone.

    A setting that weakens the guarantee is never an error. The warning depends on public and
    released values only.

    Examples
    --------
    >>> import warnings
    >>> from skdp import PrivacyWarning
    >>> warnings.simplefilter("error", PrivacyWarning)
    """


class BudgetError(ValueError):
    """A release would spend more than the budget holds.

    Examples
    --------
    >>> from skdp import BudgetError
    >>> issubclass(BudgetError, ValueError)
    True
    """


class FederationError(ValueError):
    """A message of a federation was refused, or a federated fit has ended.

    Its text names fields of messages and public facts, never the contents of a message.

    Examples
    --------
    >>> from skdp import FederationError
    >>> issubclass(FederationError, ValueError)
    True
    """


class LedgerError(RuntimeError):
    """The file of a ledger cannot be used, so that no cost can be charged and nothing is released.

    The file is missing, damaged, locked, read-only, linked or replaced, or its disk is full.

    Examples
    --------
    >>> from skdp import LedgerError
    >>> issubclass(LedgerError, RuntimeError)
    True
    """


def shortened(names: Sequence[str]) -> str:
    """Join names for a warning; after the first ten, only the number of the rest."""
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def joined(names: Sequence[str]) -> str:
    """Join names, such as "a", "a and b" or "a, b and c"."""
    return " and ".join(", ".join(names).rsplit(", ", 1))


def counted(number: int, noun: str) -> str:
    """Return text such as "1 column" or "3 columns"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def callers() -> Iterator[tuple[str, str]]:
    """Yield module and name of each running function, the innermost first."""
    for frame, _ in walk_stack(sys._getframe(1).f_back):
        yield str(frame.f_globals.get("__name__", "")), frame.f_code.co_name


# ------------------------------
# Errors about arguments that a function does not have, and about arguments of the wrong type.

#: A call that makes a ledger.
NEW_LEDGER = "PrivacyLedger.create(path, dataset='a name', epsilon=4.0, delta=1e-6)"  # not studied
#: Advice by name: of a function that was called, of an argument that only other functions take, or
#: of an argument with its type.
INSTEAD = {
    "PrivacyLedger.__init__": f"{NEW_LEDGER} makes one. ",
    "PrivacyLedger.create": f"Pass all, as {NEW_LEDGER}. ",
    **dict.fromkeys(("algorithm", "svd_solver"), "Use solver. "),
    **dict.fromkeys(
        ("C", "alpha", "alphas", "l1_ratio", "penalty"),
        "Leave it out: the noise decides how far coefficients are shrunk. ",
    ),
    **dict.fromkeys(("max_iter", "tol"), "Leave it out: no fit stops early. "),
    "memory": "Leave it out: a cache would reveal whether data are equal. ",
    "privacy_unit": "Pass it to each private step of a pipeline; DPPersonalizedRegressor always "
    "protects users. ",
    "bounds": "Pass bounds of columns to a DPStandardScaler before it, of entries to units.Entry. ",
    "cv": "Leave it out: a search judges fits on their own rows, a score takes a fitted model. ",
    "groups": "Pass the ids of persons as users, with privacy_unit='user'. ",
    "sample_weight": "Leave it out: each record counts once, and class_weight weighs classes. ",
    "X InteractionTable": "X is an InteractionTable, which has its rows in table.X: pass these.",
    "X RankOneMatrices": "RankOneMatrices are for DPTraceRegressor: pass rows, or fit that.",
    **dict.fromkeys(
        ("ledger str", "ledger PosixPath", "ledger WindowsPath"),
        f"Pass PrivacyLedger(path), or {NEW_LEDGER}.",
    ),
    **dict.fromkeys(
        ("X str", "X PosixPath", "X WindowsPath"),
        "X is a path: pass its rows, as pandas.read_csv(path) reads them.",
    ),
    "DPPipeline.__init__": "make_dp_pipeline(scaler, classifier) takes steps one by one, and "
    "DPPipeline a list of pairs (name, step). ",
    "shares list": "Pass numbers by names of private steps, as {'dpstandardscaler': 1, ...}.",
    "class_weight str": "Pass a dict by labels: counts of labels are private.",
}
_ENCODE = (
    "Encode categories by ColumnTransformer([('codes', OneHotEncoder(categories=[['a', 'b'], ...], "
    "sparse_output=False), ['name', ...])], remainder='passthrough') in a DPPipeline"
)
_DAYS = (
    "(pandas.to_datetime(X['name'], utc=True) - pandas.Timestamp('2000-01-01', tz='UTC')).dt.days"
)
_NUMBERS_OF_TEXTS = (
    "pandas.read_csv(path, decimal=','), or thousands=',' if these are no decimals, or "
    "pandas.to_numeric(X['name'].astype(str).str.strip('$%'), errors='coerce')"
)
_SECONDS = "pandas.to_timedelta(X['name']).dt.total_seconds()"
_PERIODS = "; periods first need .dt.to_timestamp()"
#: Advice to the user, by what a column contains instead of finite numbers. 'name' stands for one
#: such column, and ['names'] for all of them; the dots stay if there are several.
OF_COLUMNS = {
    "infinity": "Clip it to a public interval, as numpy.clip(X, -1e6, 1e6) does; where a step "
    "takes logarithms, clip X above 0, as numpy.clip(X, 0.01, None) does.",
    "dates or durations": (
        f"Make days of dates, by {_DAYS}, or seconds of durations, by {_SECONDS}{_PERIODS}."
    ),
    "categories": f"{_ENCODE}.",
    "None": (
        "Pass numpy.asarray(X, dtype=float), or numpy.nan for a gap in a new row: steps can fill "
        "gaps of numbers, as SimpleImputer(strategy='constant', fill_value=0) does, or "
        "missing='mean' of a DPStandardScaler or DPCovariance."
    ),
    "complex numbers": (
        "Make two columns of each, by numpy.real and numpy.imag, as "
        "numpy.hstack([X.real, X.imag]) does of an array."
    ),
    "booleans and gaps": (
        "Pass X['name'].astype('boolean'), whose gaps are filled like gaps of numbers; or "
        "encode them by OneHotEncoder(categories=[[False, True]], handle_unknown='ignore')."
    ),
    "objects": (
        "Make columns of numbers of them, as numpy.stack(list(X['name'])) does of lists of one "
        "length, or leave them out, as X.drop(columns=['names'])."
    ),
    **dict.fromkeys(
        ("texts", "texts and gaps"),
        "Leave ids and names out, as X.drop(columns=['names']); ids of persons may be passed as "
        f"users. {_ENCODE}. A log of users and items takes interaction_table(X, items=catalog) of "
        "skdp.interactions. Numbers in texts take "
        f"{_NUMBERS_OF_TEXTS}; dates in texts take pandas.to_datetime(X['name']).",
    ),
}
_signature = cache(signature)
F = TypeVar("F", bound=Callable[..., Any])


def named(method: F) -> F:
    """Decorate a function or method: errors about arguments name its parameters, and its class."""
    is_method = "." in method.__qualname__.rpartition("<locals>.")[2]

    @wraps(method)
    def _named(*args: Any, **kwargs: Any) -> Any:
        expected = _signature(method)
        try:
            expected.bind(*args, **kwargs)
        except TypeError as error:
            who, known = method.__name__, [*expected.parameters][is_method:]
            if is_method and args:
                who = f"{getattr(args[0], '__name__', type(args[0]).__name__)}.{who}"
            unknown = next((name for name in kwargs if name not in known), "")
            hint = INSTEAD.get(who, "") + INSTEAD.get(unknown.rpartition("__")[2], "")
            if "too many positional" in str(error):
                hint = INSTEAD.get(who, "Pass options by keyword, as name=value. " * bool(known))
            takes = ", ".join(known) or "no arguments"
            raise TypeError(f"{who}: {error}. {hint}It takes {takes}.") from None
        return method(*args, **kwargs)

    return cast(F, _named)


# ------------------------------
# Privacy warnings: each fit gives one warning at its end, with all messages.

# Packages whose functions may be on the call stack between the user's code and a warning.
_BETWEEN = {"concurrent", "contextlib", "joblib", "multiprocessing", "runpy", "threading"}
_BETWEEN |= {"skdp", "sklearn"}
# Numbers and lists of numbers, but no numbers within names such as dppca-2.
_NUMBERS = re.compile(r"(?<![\w-])\d+(?:[.,e+\- ]*\d+)*")
# The messages of the fit, pipeline or search that is running.
_GATHERED: ContextVar[list[str] | None] = ContextVar("gathered", default=None)


def warn_of_privacy(*messages: str) -> None:
    """Warn at once or, inside `warnings_together`, when that block ends.

    If a warning filter turns a message into an error, the error is raised at once, before any
    budget is spent.
    """
    with warnings_together() as gathered:
        for message in messages:
            action = _action(message)
            if action == "error":
                warnings.warn(message, PrivacyWarning, stacklevel=_place()[0])
            elif action != "ignore":
                gathered.append(message)


@contextmanager
def warnings_together(of: str = "") -> Iterator[list[str]]:
    """Join all messages into one warning; of messages that differ only in numbers, keep the last.

    Inside another such block, messages are added to those of the outer block, prefixed by `of`.
    """
    outer, messages = _GATHERED.get(), list[str]()
    token = _GATHERED.set(messages)
    try:
        yield messages
    finally:
        _GATHERED.reset(token)
    if not messages:
        return
    distinct = {_NUMBERS.sub("#", message): message for message in messages}
    if outer is not None:
        outer += [f"{of}: {message}" if of else message for message in distinct.values()]
    else:
        warnings.warn("\n".join(distinct.values()), PrivacyWarning, stacklevel=_place()[0])


def warning_filters() -> Any:
    """Return the list of filters of warnings that Python applies to the running code."""
    # From Python 3.14 on, each context may have its own filters.
    return getattr(warnings, "_get_filters", lambda: warnings.filters)()


def _action(message: str) -> str:
    """Return the action of the first warning filter that matches a message at the user's line."""
    _, frame = _place()
    module, line = str(frame.f_globals.get("__name__", "")), frame.f_lineno
    for action, text, category, of_module, of_line in warning_filters():
        # In Python's default filters the module is a text, not a pattern.
        is_here = of_line in (0, line) and (of_module is None or re.match(of_module, module))
        is_meant = issubclass(PrivacyWarning, category) and (text is None or text.match(message))
        if is_here and is_meant:
            return action
    return "default"


def _place() -> tuple[int, FrameType]:
    """Return the stack level and frame of the user's code: the first outside `_BETWEEN`.

    In a thread or process of joblib the user's code is not on the stack: a frame of skdp is taken.
    """
    in_skdp = 1, sys._getframe(1)
    for level, (frame, _) in enumerate(walk_stack(in_skdp[1]), 1):
        # With `python -m`, `__name__` is "__main__", and `__package__` names the package.
        names = frame.f_globals
        package = str(names.get("__package__") or names.get("__name__", "")).partition(".")[0]
        if package not in _BETWEEN:
            return level, frame
        in_skdp = (level, frame) if package == "skdp" else in_skdp
    return in_skdp
