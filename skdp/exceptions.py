"""Warnings and errors of skdp."""

import sys
import warnings

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


def warn_of_privacy(message: str) -> None:
    """Warn at the line of the user that led here, past skdp and scikit-learn."""
    frame, level = sys._getframe(), 1
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(("skdp.", "sklearn.")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, PrivacyWarning, stacklevel=level)
