"""Low-rank learning under differential privacy, in scikit-learn's manner."""

from skdp.decomposition import DPPCA, DPTruncatedSVD
from skdp.exceptions import BudgetError, PrivacyWarning
from skdp.linalg.sources import RowBlocks

__version__ = "0.1.0"

__all__ = ["DPPCA", "BudgetError", "DPTruncatedSVD", "PrivacyWarning", "RowBlocks"]
