"""Private linear models."""

from skdp.linear_model._classifiers import DPLogisticRegression
from skdp.linear_model._linear_regression import DPLinearRegression
from skdp.linear_model._personalized_regression import DPPersonalizedRegressor, PersonalHead
from skdp.linear_model._regressors import DPTraceRegressor
from skdp.linear_model._trace_classifier import DPTraceClassifier

__all__ = [
    "DPLinearRegression",
    "DPLogisticRegression",
    "DPPersonalizedRegressor",
    "DPTraceClassifier",
    "DPTraceRegressor",
    "PersonalHead",
]
