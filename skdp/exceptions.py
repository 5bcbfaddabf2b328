"""Warnings and errors of skdp."""

import sys
import warnings
from types import FrameType

__all__ = ["BudgetError", "LedgerError", "PrivacyWarning", "warn_of_privacy"]


class PrivacyWarning(UserWarning):
    """A setting weakens the guarantee or the result cannot be told from noise.

    Raised as a warning, never as an error, and only ever about public facts or released values.

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


class LedgerError(RuntimeError):
    """The file of a ledger cannot be read or written, so that nothing may be released.

    It is missing, damaged, locked, full, read-only, or not the ledger that it was.

    Examples
    --------
    >>> from skdp import LedgerError
    >>> issubclass(LedgerError, RuntimeError)
    True
    """


# What lies between a line of the user and a fit, in the same thread or at the start of another.
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


def warn_of_privacy(*messages: str) -> None:
    """Warn of each at the line of the user that led here, past skdp, scikit-learn and joblib.

    In a thread or process of its own there is none; the warning is then at a line of skdp.
    """
    frame: FrameType | None = sys._getframe()
    level = own = 1
    while frame and (room := _room_of(frame)) in _BETWEEN:
        own = level if room == "skdp" else own
        frame, level = frame.f_back, level + 1
    for message in messages:
        warnings.warn(message, PrivacyWarning, stacklevel=level if frame else own)


def _room_of(frame: FrameType) -> str:
    """Return the top package of the code of a frame, also of one that runs as a script."""
    names = frame.f_globals
    return str(names.get("__package__") or names.get("__name__", "")).partition(".")[0]
