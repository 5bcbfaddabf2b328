"""Warnings and errors of skdp."""

import sys
import warnings
from collections.abc import Sequence
from types import FrameType

__all__ = [
    "BudgetError",
    "FederationError",
    "LedgerError",
    "PrivacyWarning",
    "shortened",
    "warn_of_privacy",
]


# So many names are listed in a warning.
_MOST_NAMED = 10  # not tuned


class PrivacyWarning(UserWarning):
    """A setting weakens the guarantee, or the result cannot be told from noise.

    It is always a warning, never an error, and depends on public facts and released values only.

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
    """A message of a federation is refused, or a federated fit has ended.

    Its text names fields of messages and public facts, never what a message held.

    Examples
    --------
    >>> from skdp import FederationError
    >>> issubclass(FederationError, ValueError)
    True
    """


class LedgerError(RuntimeError):
    """The file of a ledger cannot be used, so that nothing may be released.

    The file is missing, damaged, locked, read-only or replaced by another one, or its disk is full.

    Examples
    --------
    >>> from skdp import LedgerError
    >>> issubclass(LedgerError, RuntimeError)
    True
    """


# Packages on the call stack between a line of the user and a fit, or at the start of a thread.
_BETWEEN = {
    "concurrent",
    "contextlib",
    "joblib",
    "multiprocessing",
    "runpy",
    "skdp",
    "sklearn",
    "threading",
}


def shortened(names: Sequence[str]) -> str:
    """List names in a warning: if there are many, the first ones."""
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def warn_of_privacy(*messages: str) -> None:
    """Issue warnings that point at the line of the user, not of skdp, scikit-learn or joblib.

    A thread or process that joblib has started has no line of the user. Its warnings point at skdp.
    """
    frame: FrameType | None = sys._getframe()
    level = level_in_skdp = 1
    while frame and (package := _package_of(frame)) in _BETWEEN:
        level_in_skdp = level if package == "skdp" else level_in_skdp
        frame, level = frame.f_back, level + 1
    for message in messages:
        warnings.warn(message, PrivacyWarning, stacklevel=level if frame else level_in_skdp)


def _package_of(frame: FrameType) -> str:
    """Return the top package of the code of a frame, even if that runs as a script."""
    names = frame.f_globals
    return str(names.get("__package__") or names.get("__name__", "")).partition(".")[0]
