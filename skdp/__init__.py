"""Low-rank learning under differential privacy, in scikit-learn's manner."""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from skdp._estimator import PlannedEstimator
from skdp._handover import ModelCard, model_card, to_sklearn
from skdp.covariance import DPCovariance
from skdp.data.matrices import RankOneMatrices
from skdp.data.parts import RowBlocks
from skdp.decomposition import (
    DPPCA,
    DPContinualFactorizer,
    DPLowRankFactorizer,
    DPStreamingFactorizer,
    DPTruncatedSVD,
    LocalReports,
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

__version__ = "0.2.0"

__all__ = [
    "DPPCA",
    "BudgetError",
    "DPContinualFactorizer",
    "DPCovariance",
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
    "LocalReports",
    "LowRankFactors",
    "ModelCard",
    "PersonalHead",
    "PlannedEstimator",
    "PrivacyLedger",
    "PrivacyWarning",
    "RankOneMatrices",
    "RowBlocks",
    "StreamShard",
    "make_dp_pipeline",
    "model_card",
    "privacy_spent",
    "to_sklearn",
]


_MODULES = {one.name for one in iter_modules(__path__) if not one.name.startswith("_")}


def __getattr__(name: str) -> Any:
    """Import a module of skdp on first use."""
    if name in _MODULES:
        return import_module(f"skdp.{name}")
    raise AttributeError(f"module 'skdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
