"""Low-rank learning under differential privacy, in scikit-learn's manner."""

from skdp.exceptions import BudgetError, PrivacyWarning

__version__ = "0.1.0"

__all__ = ["BudgetError", "PrivacyWarning"]
