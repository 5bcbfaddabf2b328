"""What is asked of a decomposition: plain parameters, public facts, and what a unit goes with."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from operator import itemgetter

import numpy as np

from skdp._estimator import Procedure
from skdp.units._changes import ResolvedSpectralChange
from skdp.units._entries import ResolvedEdge, ResolvedEntry
from skdp.units._interactions import ResolvedInteraction
from skdp.units._resolved import ResolvedUnit
from skdp.units._rows import ResolvedRow, ResolvedSparseRow

__all__ = ["DEFAULT_CUT", "SUPPORT", "UNITS", "DecompositionProblem", "check_solver", "rank_of"]

#: What bases are cut to by default, in units of the mean square of their rows.
DEFAULT_CUT = 1.0  # benchmarks/entries/captured.md, "What the tables say"


@dataclass(frozen=True)
class Support:
    """What can be asked for with a unit.

    Attributes
    ----------
    steps : dict of str to int
        Default number of steps of each solver; "auto" takes the first one that it can.
    centered, pure : tuple of str
        Those that take a centre, and those with noise for ``delta=0``.
    has_bases : bool
        Whether noise follows released bases; else rows are bounded in norm.
    takes_coherence_bound : bool
        Whether iterations may end at a coherent basis.
    count : callable
        Counts the units in a matrix of some shape.
    """

    steps: dict[str, int]
    centered: tuple[str, ...] = ()
    pure: tuple[str, ...] = ()
    has_bases: bool = True
    takes_coherence_bound: bool = False
    count: Callable[[tuple[int, int]], int] = itemgetter(0)


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


@dataclass(frozen=True)
class DecompositionProblem:
    """Parameters of a decomposition as plain values, and public facts.

    Attributes
    ----------
    procedure : Procedure
        How it is planned and solved.
    shape : tuple of two ints
        Shape of X.
    dtype : dtype
        Type of the results.
    is_sparse : bool
        Whether X is sparse.
    rounding : float
        Bound of the rounding error of a sum of rows, in units of the largest contribution.
    is_pca : bool
        Whether components are those of centred rows, with their variances.
    unit : ResolvedUnit
        What is protected.
    support : Support
        What can be asked for with it.
    given_unit : str
        How it was given, for errors.
    n_units : int
        How many units there are.
    epsilon, delta : float
        The guarantee that is asked for.
    is_private, is_pure : bool
        Whether there is noise, and whether it has to do without delta.
    center : {"private"}, ndarray of shape (n_features,) or None
        What rows are centred by, if by anything.
    releases_mean : bool
        Whether the means of the columns are of use, and not public.
    row_norm, mean_norm : float or None
        Public bounds of rows.
    n_components : int, float, "mle" or None
        Number of components.
    solver : str
        Algorithm; no longer "auto" once it is settled.
    n_iter, n_oversamples : int or "auto"
        Steps, and columns beyond the components.
    basis_cut, coherence_bound : float or None
        How bases are kept from sticking out.
    basis_size : int, default=0
        Columns of a basis, once it is settled.
    delta_tail : float, default=0.0
        Part of delta that is reserved.
    releases_total : bool, default=True
        Whether the sum of squares is of use.
    is_guided : bool, default=False
        Whether the mean may guide the fit, if rows turn out to be mostly positive.
    has_guided_power : bool, default=False
        Whether the guided fit may iterate.
    """

    procedure: Procedure
    shape: tuple[int, int]
    dtype: np.dtype
    is_sparse: bool
    rounding: float
    is_pca: bool
    unit: ResolvedUnit
    support: Support
    given_unit: str
    n_units: int
    epsilon: float
    delta: float
    is_private: bool
    is_pure: bool
    center: np.ndarray | str | None
    releases_mean: bool
    row_norm: float | None
    mean_norm: float | None
    n_components: int | float | str | None
    solver: str
    n_iter: int | str
    n_oversamples: int | str
    basis_cut: float | None
    coherence_bound: float | None
    basis_size: int = 0
    delta_tail: float = 0.0
    releases_total: bool = True
    is_guided: bool = False
    has_guided_power: bool = False


def rank_of(problem: DecompositionProblem) -> int:
    """Return the number of components where it is one."""
    assert isinstance(problem.n_components, Integral)
    return int(problem.n_components)


def check_solver(problem: DecompositionProblem) -> None:
    """Refuse a solver that the unit or pure differential privacy does not go with."""
    support, solver, given = problem.support, problem.solver, problem.given_unit
    if solver not in ("auto", *support.steps):
        raise ValueError(
            f"solver={solver!r} is not for {given}; choose 'auto' or one of {tuple(support.steps)}."
        )
    if not problem.is_pure:
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
