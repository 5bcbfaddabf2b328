"""Warnings and errors of skdp."""

__all__ = ["BudgetError", "PrivacyWarning"]


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
