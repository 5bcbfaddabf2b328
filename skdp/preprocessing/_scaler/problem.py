"""What a scaler is asked for: its parameters, and public facts of the data."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skdp.privacy.cost import PrivacyCost
from skdp.units._rows import ResolvedRow

__all__ = ["ScaledRow", "ScalerProblem"]


@dataclass(frozen=True)
class ScaledRow(ResolvedRow):
    """One row, whose entries are clipped one by one."""

    remedy: ClassVar[str] = "more rows, fewer columns, or a larger epsilon"


@dataclass(frozen=True, kw_only=True)
class ScalerProblem:
    """Plain parameters, and public facts of the data."""

    cost: PrivacyCost
    unit: ScaledRow
    n_units: int
    n_features: int
    rounding: float  # bound for a sum of rows, in units of the largest contribution
    interval: tuple[np.ndarray, np.ndarray] | None  # public ends of each column, or None
