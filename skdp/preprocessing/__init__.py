"""Private preparation of columns."""

from skdp.preprocessing._standard_scaler import DPStandardScaler

__all__ = ["DPStandardScaler"]
