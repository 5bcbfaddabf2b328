"""Private linear models."""

from skdp.linear_model._linear_regression import DPLinearRegression
from skdp.linear_model._logistic_regression import DPLogisticRegression
from skdp.linear_model._personalized_regression import DPPersonalizedRegressor, PersonalHead
from skdp.linear_model._trace_classifier import DPTraceClassifier
from skdp.linear_model._trace_regressor import DPTraceRegressor

__all__ = [
    "DPLinearRegression",
    "DPLogisticRegression",
    "DPPersonalizedRegressor",
    "DPTraceClassifier",
    "DPTraceRegressor",
    "PersonalHead",
]
