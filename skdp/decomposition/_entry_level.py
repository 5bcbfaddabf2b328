"""From a raw matrix to released factors where a unit is less than a row, or another matrix."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from skdp.decomposition._solvers.alternating import Steps, solve_alternating
from skdp.decomposition._solvers.deflation import solve_deflation
from skdp.decomposition._solvers.factors import Factors
from skdp.decomposition._solvers.input_perturbation import solve_input
from skdp.decomposition._solvers.noisy_matrix import CenteredMatrix, NoisyMatrix, NoisyMoment
from skdp.decomposition._solvers.singular_factors import SingularFactors
from skdp.decomposition._solvers.symmetric_power import solve_symmetric_power
from skdp.decomposition._solvers.units import Interaction, Spectral, Unit
from skdp.linalg.norms import LEAST_ROUNDING
from skdp.linalg.rows import Rows
from skdp.privacy import PrivacyBudget

__all__ = ["EntryResult", "Settings", "choose_entry_solver", "solve_entries"]

# Parts of the budget; the solver takes the rest. Those of epsilon are not squares.
_MEAN_SHARE, _TOTAL_SHARE = 0.02, 0.01
_PURE_MEAN_SHARE, _PURE_TOTAL_SHARE = 0.05, 0.03
_DEFAULT_STEPS = {"alternating": 5, "deflation": 5, "power": 8}
# Their matrix is a second moment, which is a product of two matrices already.
_INTERACTION_STEPS = 6
# One more column keeps what clipping mixes in apart from what is sought. Laplace noise grows with
# the number of columns, and is worth none.
_DEFAULT_OVERSAMPLES = 1
# Measured for one to five components: an iteration is better for larger sides, times the root of
# what it cuts rows to. Rows of noise that nothing cuts are some so many times their mean square.
_LEAST_SIDE, _LEAST_SIDE_PER_COLUMN, _LARGEST_CUT = 20, 5, 12


@dataclass(frozen=True)
class EntryResult:  # numpydoc ignore=PR02
    """What a fit has released.

    Parameters
    ----------
    mean : ndarray of shape (n_features,)
        Means of the columns, or a public centre.
    mean_noise : float
        Variance of the noise in each mean.
    factors : Factors
        Second moment of the centred rows.
    singular : SingularFactors
        The same as singular vectors and values.
    """

    mean: np.ndarray
    mean_noise: float
    factors: Factors
    singular: SingularFactors


@dataclass(frozen=True)
class Settings:  # numpydoc ignore=PR02
    """The algorithm and its parameters.

    Parameters
    ----------
    solver : {"alternating", "deflation", "input", "power"}
        Name of the algorithm.
    n_components : int
        Number of components.
    n_iter, n_oversamples : int or "auto"
        Steps, and columns beyond the components.
    clip, coherence_bound : float or None
        How bases are kept from sticking out.
    """

    solver: str
    n_components: int
    n_iter: int | str
    n_oversamples: int | str
    clip: float | None
    coherence_bound: float | None


def choose_entry_solver(
    unit: str,
    shape: tuple[int, int],
    basis_size: int,
    *,
    clip: float | None,
    is_pure: bool,
    is_centered: bool,
) -> str:
    """Replace "auto", from public facts only."""
    if unit in ("interaction", "spectral"):
        return "power"
    if unit == "edge" and not is_centered:
        return "power"
    if unit == "entry" and not is_pure and _is_small(shape, basis_size, clip):
        return "input"
    return "alternating"


def _is_small(shape: tuple[int, int], basis_size: int, clip: float | None) -> bool:
    """Whether so few rows or columns cannot spread the noise of an iteration thin enough."""
    side = (min(shape) ** 2 * max(shape)) ** (1 / 3)
    cut = _LARGEST_CUT if clip is None else min(clip, _LARGEST_CUT)
    return side < (_LEAST_SIDE + _LEAST_SIDE_PER_COLUMN * basis_size) * math.sqrt(cut)


def solve_entries(
    raw: Rows,
    budget: PrivacyBudget,
    generator: np.random.Generator,
    *,
    unit: Unit,
    settings: Settings,
    center: np.ndarray | str | None,
    needs_mean: bool = True,
) -> EntryResult:
    """Release the means of the columns, the sum of squares, and the singular factors.

    `center` is "private" for the exact mean, whose release is noisy; None for no centring; or a
    public array. Without `needs_mean` nothing is released for a mean that is not used.
    """
    rows = unit.weigh(raw)
    shares = _shares(unit, budget, needs_mean=needs_mean and not isinstance(center, np.ndarray))
    mean, mean_noise = np.zeros(rows.n_features), 0.0
    if shares.mean:
        mean = _release_mean(rows, budget, unit, shares.mean)
        mean_noise = budget.last_scale**2
    if isinstance(center, np.ndarray):
        mean = center
    total = None
    if shares.total:
        point = np.zeros(rows.n_features) if center is None else mean
        point_noise = 0.0 if center is None else mean_noise
        total = _release_total(
            rows, budget, unit, shares.total, point=point, point_noise=point_noise
        )
    matrix = _matrix_of(rows, budget, unit, settings, center)
    singular = _decompose(matrix, generator, unit, settings, shares.solver)
    return EntryResult(mean, mean_noise, _factors_of(singular, unit, total), singular)


@dataclass(frozen=True)
class _Shares:
    mean: float
    total: float

    @property
    def solver(self) -> float:
        return 1 - math.fsum([self.mean, self.total])


def _shares(unit: Unit, budget: PrivacyBudget, *, needs_mean: bool) -> _Shares:
    """Split the budget, by the parameters alone."""
    if isinstance(unit, Spectral):
        return _Shares(0.0, 0.0)
    mean, total = _MEAN_SHARE, _TOTAL_SHARE
    if budget.is_pure:
        mean, total = _PURE_MEAN_SHARE, _PURE_TOTAL_SHARE
    return _Shares(mean * needs_mean, total)


def _release_mean(rows: Rows, budget: PrivacyBudget, unit: Unit, share: float) -> np.ndarray:
    total, rounding = rows.total()
    # Of the sums of all columns, whose order may depend on every entry.
    n_sums = rows.n_features if budget.is_pure else math.sqrt(rows.n_features)
    slack = 2 * rounding * unit.largest * n_sums / rows.n_rows
    release = budget.laplace if budget.is_pure else budget.gaussian
    return release(
        "column means",
        total / rows.n_rows,
        sensitivity=unit.mean(rows.n_rows, by_rows=budget.is_pure) + slack,
        share=share,
    )


def _release_total(
    rows: Rows,
    budget: PrivacyBudget,
    unit: Unit,
    share: float,
    *,
    point: np.ndarray,
    point_noise: float,
) -> float:
    """Release the sum of the squared distances of the rows from a public point.

    If the point is their mean with noise of variance `point_noise`, those from the mean are meant.
    """
    if isinstance(unit, Interaction):
        squares, rounding = rows.squared_norm()
        slack = 2 * rounding
    else:
        squares, rounding = rows.squared_deviations(point)
        slack = 2 * rounding * unit.largest * (unit.largest + 2 * float(np.abs(point).max()))
    release = budget.laplace if budget.is_pure else budget.gaussian
    sensitivity = unit.squares(point) * (1 + LEAST_ROUNDING) + slack
    noisy = release("sum of squares", squares, sensitivity=sensitivity, share=share)
    # The squares of the rows less those of their distances, and of the noise in these.
    shift = rows.n_rows * (float(point @ point) - rows.n_features * point_noise)
    return max(float(noisy) + shift, 0.0)


def _matrix_of(
    rows: Rows,
    budget: PrivacyBudget,
    unit: Unit,
    settings: Settings,
    center: np.ndarray | str | None,
) -> NoisyMatrix:
    """Hide the rows behind noisy products."""
    kind = NoisyMoment if isinstance(unit, Interaction) else NoisyMatrix
    if isinstance(center, str):
        kind = CenteredMatrix
    matrix = kind(
        rows,
        budget,
        unit,
        # Without noise there is nothing to keep small.
        clip=settings.clip if budget.is_private else None,
        coherence_bound=settings.coherence_bound,
    )
    if isinstance(center, np.ndarray):
        matrix = matrix.less(np.ones((rows.n_rows, 1)), center[:, None])
    return matrix


def _decompose(
    matrix: NoisyMatrix,
    generator: np.random.Generator,
    unit: Unit,
    settings: Settings,
    share: float,
) -> SingularFactors:
    n_components = settings.n_components
    if settings.solver == "input":
        return solve_input(matrix, share=share, n_components=n_components)
    is_moment = isinstance(unit, Interaction)
    n_iter = _INTERACTION_STEPS if is_moment else _DEFAULT_STEPS[settings.solver]
    extra = settings.n_oversamples
    if extra == "auto":
        extra = 0 if matrix.budget.is_pure else _DEFAULT_OVERSAMPLES
    steps = Steps(
        n_iter if settings.n_iter == "auto" else int(settings.n_iter),
        min(n_components + int(extra), *matrix.shape),
        generator,
    )
    solvers: dict[str, Callable[..., SingularFactors]] = {
        "alternating": solve_alternating,
        "deflation": partial(solve_deflation, is_symmetric=unit.is_symmetric),
        "power": partial(solve_symmetric_power, is_definite=is_moment),
    }
    return solvers[settings.solver](matrix, steps, share=share, n_components=n_components)


def _factors_of(singular: SingularFactors, unit: Unit, total: float | None) -> Factors:
    """Turn singular values into eigenvalues of the second moment; theirs is the sum by default."""
    power = 1 if isinstance(unit, Interaction) else 2
    eigenvalues = singular.singular_values**power
    return Factors(
        components=singular.right.T,
        eigenvalues=eigenvalues,
        total=float(eigenvalues.sum()) if total is None else total,
        noise_scale=singular.noise_scale**power,
        n_above_noise=singular.n_above_noise,
    )
