"""What a scaler protects, and how it shares its budget out."""

from dataclasses import dataclass
from typing import ClassVar

from skdp._scales.plan import ScaleProblem, ScaleReleases, plan_scales
from skdp.units._rows import ResolvedRow

# Without bounds: shares of the signed sizes and, if a column needs it, of the places in intervals.
_SIZES_SHARE, _PLACES_SHARE = 3 / 8, 1 / 8  # benchmarks/classification/constants.md


@dataclass(frozen=True)
class ScaledRow(ResolvedRow):
    """One row, whose entries are clipped one by one."""

    remedy: ClassVar[str] = "more rows, fewer columns, or a larger epsilon"


def plan_scaler(problem: ScaleProblem) -> ScaleReleases:
    """Plan all releases in their order; with bounds it is one."""
    has_sizes = problem.interval is None and problem.cost.is_private
    moments = 1 - _SIZES_SHARE if has_sizes else 1.0
    return plan_scales(problem, sizes=_SIZES_SHARE, places=(_PLACES_SHARE,), moments=moments)
