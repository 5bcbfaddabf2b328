"""What is asked of a decomposition: plain parameters, public facts, and what a unit goes with."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from operator import itemgetter

import numpy as np

from skdp.privacy.cost import PrivacyCost
from skdp.units._changes import ResolvedSpectralChange
from skdp.units._entries import ResolvedEdge, ResolvedEntry
from skdp.units._interactions import ResolvedInteraction
from skdp.units._resolved import ResolvedUnit
from skdp.units._rows import ResolvedRow, ResolvedSparseRow

__all__ = [
    "MEAN",
    "SUPPORT",
    "UNITS",
    "Asked",
    "EntriesProblem",
    "MatrixProblem",
    "RowsProblem",
    "check_solver",
    "rank_of",
]

#: Name of the release of the mean of the rows.
MEAN = "mean"


@dataclass(frozen=True)
class Support:
    """What can be asked for with a unit."""

    steps: dict[str, int]  # default steps; "auto" takes the first solver that it can
    centered: tuple[str, ...] = ()  # solvers that take a center
    pure: tuple[str, ...] = ()  # solvers with noise for ``delta=0``
    has_bases: bool = True  # noise follows released bases; else rows are bounded in norm
    takes_coherence_bound: bool = False  # iterations may end at a coherent basis
    count: Callable[[tuple[int, int]], int] = itemgetter(0)  # units in a matrix of that shape


#: The units that are no objects, by the names that they are given by.
UNITS: dict[str, type[ResolvedUnit]] = {"row": ResolvedRow}
#: All that depends on which unit it is.
# Of rows: benchmarks/high_dimension/captured.md, "power, 4 steps". "power" of edges:
# benchmarks/house/constants.md. Else not studied.
SUPPORT: dict[type[ResolvedUnit], Support] = {
    ResolvedRow: Support(
        {"covariance": 0, "adaptive": 0, "power": 3},
        centered=("covariance", "adaptive", "power"),
        has_bases=False,
    ),
    ResolvedEntry: Support(
        {"alternating": 5, "deflation": 5, "input": 0},
        centered=("alternating", "deflation", "input"),
        pure=("alternating",),
        takes_coherence_bound=True,
        count=math.prod,
    ),
    ResolvedEdge: Support(
        {"power": 8, "deflation": 5, "alternating": 5},
        centered=("alternating",),
        pure=("power", "alternating"),
        takes_coherence_bound=True,
        # Pairs of nodes, each with itself included.
        count=lambda shape: math.comb(shape[0] + 1, 2),
    ),
    ResolvedSparseRow: Support({"alternating": 5}, centered=("alternating",)),
    # Their matrix is a second moment, which is a product of two matrices already.
    ResolvedInteraction: Support({"power": 6}, count=math.prod),
    ResolvedSpectralChange: Support({"power": 8}, pure=("power",)),
}


@dataclass(frozen=True, kw_only=True)
class MatrixProblem:
    """What is asked of a fit to a matrix: plain parameters, and public facts."""

    cost: PrivacyCost
    unit: ResolvedUnit
    n_units: int
    shape: tuple[int, int]
    dtype: np.dtype
    is_sparse: bool
    rounding: float  # bound for a sum of rows, in units of the largest contribution
    center: np.ndarray | str | None  # "private", (n_features,) or None
    releases_mean: bool  # means of the columns are of use, and not public
    n_components: int | float | str | None
    solver: str  # no longer "auto" once it is settled
    n_iter: int | str
    basis_size: int = 0  # columns, once it is settled


@dataclass(frozen=True, kw_only=True)
class RowsProblem(MatrixProblem):
    """What is asked where rows are protected, bounded in norm."""

    row_norm: float | None
    mean_norm: float | None
    is_guided: bool = False  # the mean may guide the fit, if rows turn out to be mostly positive
    has_guided_power: bool = False  # the guided fit may iterate


@dataclass(frozen=True, kw_only=True)
class EntriesProblem(MatrixProblem):
    """What is asked where less than a row is protected, or promised."""

    coherence_bound: float | None
    releases_total: bool = True  # the sum of squares is of use


@dataclass(frozen=True)
class Asked:
    """What only the checks of a problem read."""

    support: Support
    given_unit: str  # as it was given, for errors
    is_pca: bool  # components are those of centered rows, with their variances
    n_oversamples: int | str
    row_norm: float | None
    mean_norm: float | None
    coherence_bound: float | None


def rank_of(problem: MatrixProblem) -> int:
    """Return the number of components where it is a whole number."""
    assert isinstance(problem.n_components, Integral)
    return int(problem.n_components)


def check_solver(problem: MatrixProblem, asked: Asked) -> None:
    """Refuse a solver that the unit or pure differential privacy does not go with."""
    support, solver, given = asked.support, problem.solver, asked.given_unit
    if solver not in ("auto", *support.steps):
        raise ValueError(
            f"solver={solver!r} is not for {given}; choose 'auto' or one of {tuple(support.steps)}."
        )
    if not problem.cost.is_pure:
        return
    if not support.pure:
        raise ValueError(
            f"delta=0 asks for pure differential privacy, but {given} needs Gaussian noise; pass a "
            "positive delta."
        )
    if problem.n_components is None:
        raise ValueError(
            "delta=0 asks for pure differential privacy, but n_components=None needs the Gaussian "
            "noise of solver='input'; pass an int for n_components, or a positive delta."
        )
    if solver not in ("auto", *support.pure):
        raise ValueError(
            f"delta=0 asks for pure differential privacy, but solver={solver!r} adds Gaussian "
            f"noise; pass solver={support.pure[0]!r}, or a positive delta."
        )
