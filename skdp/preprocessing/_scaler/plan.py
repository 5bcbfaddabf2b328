"""How a scaler shares its budget out."""

from skdp._scales.plan import ColumnFacts, ScaleReleases, plan_scales
from skdp.preprocessing._scaler.problem import ScalerProblem

__all__ = ["plan_scaler"]

# Without bounds: shares of the signed sizes and, if a column needs it, of the places in intervals.
_SIZES_SHARE, _PLACES_SHARE = 3 / 8, 1 / 8  # benchmarks/classification/constants.md


def plan_scaler(problem: ScalerProblem) -> ScaleReleases:
    """Plan all releases in their order; with bounds it is one."""
    facts = ColumnFacts(
        problem.cost,
        problem.unit.adjacency,
        problem.n_units,
        problem.n_features,
        problem.rounding,
    )
    has_sizes = problem.interval is None and problem.cost.is_private
    return plan_scales(
        facts,
        is_bounded=problem.interval is not None,
        sizes=_SIZES_SHARE,
        places=(_PLACES_SHARE,),
        moments=1 - _SIZES_SHARE if has_sizes else 1.0,
    )
