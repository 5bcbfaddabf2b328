"""Private linear models."""

from skdp.linear_model._trace_regression import DPTraceRegressor

__all__ = ["DPTraceRegressor"]
