"""Scale columns under differential privacy."""

from skdp.preprocessing._scaler import DPStandardScaler

__all__ = ["DPStandardScaler"]
