"""Low-rank learning under differential privacy, in scikit-learn's manner."""

from importlib import import_module
from typing import Any

from skdp.data.matrices import RankOneMatrices
from skdp.data.parts import RowBlocks
from skdp.decomposition import (
    DPPCA,
    DPContinualFactorizer,
    DPLowRankFactorizer,
    DPStreamingFactorizer,
    DPTruncatedSVD,
    LowRankFactors,
    StreamShard,
)
from skdp.exceptions import BudgetError, FederationError, LedgerError, PrivacyWarning
from skdp.ledger import PrivacyLedger
from skdp.linear_model import (
    DPLinearRegression,
    DPLogisticRegression,
    DPPersonalizedRegressor,
    DPTraceClassifier,
    DPTraceRegressor,
    PersonalHead,
)
from skdp.model_selection import privacy_spent
from skdp.pipeline import DPPipeline, make_dp_pipeline
from skdp.preprocessing import DPStandardScaler

__version__ = "0.1.0"

__all__ = [
    "DPPCA",
    "BudgetError",
    "DPContinualFactorizer",
    "DPLinearRegression",
    "DPLogisticRegression",
    "DPLowRankFactorizer",
    "DPPersonalizedRegressor",
    "DPPipeline",
    "DPStandardScaler",
    "DPStreamingFactorizer",
    "DPTraceClassifier",
    "DPTraceRegressor",
    "DPTruncatedSVD",
    "FederationError",
    "LedgerError",
    "LowRankFactors",
    "PersonalHead",
    "PrivacyLedger",
    "PrivacyWarning",
    "RankOneMatrices",
    "RowBlocks",
    "StreamShard",
    "make_dp_pipeline",
    "privacy_spent",
]


def __getattr__(name: str) -> Any:
    # Imported when they are first asked for.
    if name in ("datasets", "federated", "metrics"):
        return import_module(f"skdp.{name}")
    raise AttributeError(f"module 'skdp' has no attribute {name!r}")
