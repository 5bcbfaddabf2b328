"""Parameters of a decomposition, the factors that solvers return, and the choice of a rank."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from operator import itemgetter

import numpy as np

from skdp import units
from skdp._estimator import check_not_pure
from skdp.linalg.matrices import FixedRank
from skdp.linalg.spectrum import components_for_ratio, deterministic_signs, most_likely_rank
from skdp.privacy.plan import PrivacyCost


def ratios_of(parts: np.ndarray, whole: float) -> np.ndarray:
    """Divide `parts` by `whole`; if `whole` is 0, return zeros."""
    return parts / whole if whole > 0 else np.zeros_like(parts)


def rank_or_none(n_components: int | float | str | None) -> int | None:
    """Return `n_components` if it is an int; None means that the released spectrum decides."""
    return int(n_components) if isinstance(n_components, Integral) else None


# ------------------------------
# The factors that every solver returns.


@dataclass(frozen=True)
class Factors:
    """A released second moment of the rows, decomposed into components."""

    components: np.ndarray  # (n_eigenvalues, n_features), orthonormal, by descending eigenvalue
    eigenvalues: np.ndarray  # of the second moment (a sum, not a mean), not negative
    total: float  # noisy trace of the second moment; may be below the sum of the eigenvalues
    # Standard deviation of the noise in an eigenvalue or, if the solver found singular values of X
    # and squared them, the variance of the noise in a singular value.
    eigenvalue_noise: float
    n_above_noise: int  # number of components that stand out from the noise
    # `noise_errors`, `noisy` and `off_diagonal_std` are set only if a whole second moment was
    # released. `noise_errors` has the standard errors of eigenvalues due to noise, and an angle for
    # each component: noise turns the component by more than this angle 5% of the time.
    noise_errors: tuple[np.ndarray, np.ndarray] | None = None
    noisy: np.ndarray | None = None  # second moments along the components, with noise
    off_diagonal_std: float = 0.0  # std of the noise in an entry of the moment off its diagonal
    # Left singular vectors, of shape (n_rows, n_eigenvalues), if they may be published.
    left: np.ndarray | None = None
    failed: bool = False  # whether a basis exceeded the coherence bound, which ended the iteration
    # The released mean of the rows, or a public center.
    mean: np.ndarray = field(default_factory=partial(np.zeros, 0))
    # Variance of the noise in an entry of `mean`; 0 if the rows were centered by `mean`.
    mean_noise_variance: float = 0.0
    row_norm: float | None = None  # bound that the rows were clipped to, if any
    # Fraction of the sum of squares that clipping leaves, by released counts of row norms.
    unclipped: float = 1.0
    # Two numbers from released counts: a fraction of the rows has norms above a multiple of
    # `row_norm`.
    far_rows: tuple[float, float] = (0.0, 1.0)
    # If a few rows are far longer than all others: the fraction of such rows, how many times longer
    # they are, and a norm that the other rows do not exceed.
    giants: tuple[float, float, float] | None = None
    # Fraction of the differences between rows of `left` that is signal, along the best component.
    left_signal: float = 1.0
    # A function that decomposes the same released moment for another number of components.
    decompose: Callable[..., "Factors"] | None = None
    prior_weight: float = 0.0  # weight of the prior in the moment
    scales: np.ndarray | None = None  # divisors of the columns, from the released moment

    @classmethod
    def of_fit(
        cls, fit: FixedRank, noise_std: float, n_above_noise: int, power: int = 2
    ) -> "Factors":
        """Make factors from singular vectors and values.

        A singular value to the given power is an eigenvalue of the second moment.
        """
        eigenvalues = fit.values**power
        return cls(
            components=fit.right.T,
            eigenvalues=eigenvalues,
            total=float(eigenvalues.sum()),
            eigenvalue_noise=noise_std**power,
            n_above_noise=n_above_noise,
            left=fit.left,
        )

    def of_correlations(self, n_components: int | float | str | None, n_rows: int) -> "Factors":
        """Decompose the released noisy moment, if there is one, with columns of variance 1."""
        if self.decompose is None or self.eigenvalue_noise == 0:
            return self
        decompose = partial(self.decompose, scaled_rows=n_rows)
        found = replace(self, decompose=decompose).for_rank(n_components)
        assert found.scales is not None
        noise = self.mean_noise_variance * float(np.mean(found.scales**-2.0))
        mean = self.mean / found.scales
        return replace(found, decompose=decompose, mean=mean, mean_noise_variance=noise)

    def for_rank(self, n_components: int | float | str | None) -> "Factors":
        """Decompose the same released moment for another number of components."""
        if self.decompose is None:
            return self
        found = self.decompose(n_components=rank_or_none(n_components))
        # The mean and the facts about clipping do not follow from the moment.
        kept = "mean", "mean_noise_variance", "row_norm", "unclipped", "far_rows", "giants"
        return replace(found, **{name: getattr(self, name) for name in kept})

    def leading(self, n_components: int) -> "Factors":
        """Return the first `n_components`, with deterministic signs."""
        components = self.components[:n_components]
        signs = deterministic_signs(components)
        return replace(
            self,
            components=components * signs[:, np.newaxis],
            eigenvalues=self.eigenvalues[:n_components],
            left=None if self.left is None else self.left[:, :n_components] * signs,
        )


def choose_rank(
    n_components: int | float | str | None, factors: Factors, n_rows: int, dtype: np.dtype
) -> int:
    """Return the number of components for `n_components`: an int, None, a fraction or "mle"."""
    if n_components is None:
        return min(n_rows, len(factors.eigenvalues))
    if n_components == "mle":
        assert factors.noisy is not None
        return most_likely_rank(factors.noisy, n_rows, factors.off_diagonal_std)
    if isinstance(n_components, Integral):
        return int(n_components)
    ratios = ratios_of(factors.eigenvalues, factors.total).astype(dtype)
    return min(components_for_ratio(ratios, float(n_components)), n_rows)


# ------------------------------
# Parameters of a decomposition, and the solvers and settings of each unit.

#: Name of the release of the mean of the rows.
MEAN = "mean"
#: Name of the release of a second moment.
MOMENT = "second moment"


@dataclass(frozen=True)
class Support:
    """The solvers and settings that a unit of privacy allows."""

    # Default number of steps of each solver. With solver="auto", entries take the first solver that
    # is usable, and for rows `resolve_rows` decides.
    steps: dict[str, int]
    centered: tuple[str, ...] = ()  # solvers that accept a center
    pure: tuple[str, ...] = ()  # solvers with noise for ``delta=0``
    # Whether the noise depends on released bases, by which solvers multiply the matrix. Otherwise
    # the noise depends on bounds on row norms.
    has_bases: bool = True
    takes_coherence_bound: bool = False
    # A function that returns the number of units of a matrix, given its shape.
    count: Callable[[tuple[int, int]], int] = itemgetter(0)


# For rows, and for users, each of whom has several rows.
# Steps: benchmarks/high_dimension/captured.md, "power, 4 steps".
_OF_ROWS = Support(
    steps={"covariance": 0, "power": 3}, centered=("covariance", "power"), has_bases=False
)
#: Solvers and settings of each unit. Steps of "power" for edges: benchmarks/house/constants.md.
#: Other numbers of steps are not studied.
SUPPORT: dict[type[units.ResolvedUnit], Support] = {
    units.ResolvedRow: _OF_ROWS,
    units.ResolvedUser: _OF_ROWS,
    units.ResolvedEntry: Support(
        steps={"alternating": 5, "deflation": 5, "input": 0},
        centered=("alternating", "deflation", "input"),
        pure=("alternating",),
        takes_coherence_bound=True,
        count=math.prod,
    ),
    units.ResolvedEdge: Support(
        steps={"power": 8, "deflation": 5, "alternating": 5},
        centered=("alternating",),
        pure=("power", "alternating"),
        takes_coherence_bound=True,
        # A pair of nodes, or a node with itself, is a unit.
        count=lambda shape: math.comb(shape[0] + 1, 2),
    ),
    units.ResolvedSparseRow: Support(steps={"alternating": 5}, centered=("alternating",)),
    # A power step multiplies by X'X, that is, twice by X: it gains as much as two steps for edges.
    units.ResolvedInteraction: Support(steps={"power": 6, "covariance": 0}, count=math.prod),
    units.ResolvedSpectralChange: Support(steps={"power": 8}, pure=("power",)),
}


@dataclass(frozen=True, kw_only=True)
class MatrixSpec:
    """Parameters of a fit to a matrix as plain values, and public facts of the data."""

    cost: PrivacyCost
    unit: units.ResolvedUnit
    given_unit: str  # the parameter as the user passed it, for error messages
    support: Support
    n_units: int
    shape: tuple[int, int]
    dtype: np.dtype
    is_sparse: bool
    rounding: float  # bound on the rounding of a sum of rows, if no row adds more than 1
    center: np.ndarray | str | None  # "private", (n_features,) or None
    releases_mean: bool  # whether the column means are needed and not public
    # `resolve_rows` or `resolve_entries` replaces "auto" and None.
    n_components: int | float | str | None
    solver: str
    n_iter: int | str
    n_oversamples: int | str
    basis_size: int = 0  # columns of a basis, set when the spec is resolved
    is_exact: bool = False  # whether ARPACK finds the leading directions, without noise


@dataclass(frozen=True, kw_only=True)
class RowsSpec(MatrixSpec):
    """Spec of a fit that protects rows, with bounded norms."""

    row_norm: float | None
    mean_norm: float | None
    is_pca: bool  # whether there are at most min(n_samples, n_features) components
    is_in_memory: bool
    prior: np.ndarray | None = None  # covariances that the moment is shrunk toward
    # Solvers that may start from the released mean, if most rows are mostly positive; () for none.
    guided_solvers: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class EntriesSpec(MatrixSpec):
    """Spec of a fit that protects units smaller than a row, or a promised change."""

    unit: units.MatrixUnit
    coherence_bound: float | None
    releases_total: bool = True  # whether the sum of squares is needed
    averages: bool = True  # whether a basis follows from several products, not only from the last

    @property
    def is_symmetric(self) -> bool:
        """Whether the solver treats the matrix as symmetric, with one basis for both sides."""
        return self.solver == "power" or (self.solver == "deflation" and self.unit.is_symmetric)


#: The spec of any fit to a matrix.
AnySpec = RowsSpec | EntriesSpec


def rank_of(spec: MatrixSpec) -> int:
    """Return the number of components of a resolved spec."""
    assert isinstance(spec.n_components, Integral)
    return int(spec.n_components)


def check_solver(spec: MatrixSpec) -> None:
    """Refuse a solver that cannot protect the unit, or not with ``delta=0``."""
    support, solver, given = spec.support, spec.solver, spec.given_unit
    if solver not in ("auto", *support.steps):
        raise ValueError(
            f"solver={solver!r} is not for {given}; choose 'auto' or one of {tuple(support.steps)}."
        )
    if not spec.cost.is_pure:
        return
    if not support.pure:
        check_not_pure(given, spec.cost)
    if spec.n_components is None:
        check_not_pure("n_components=None", spec.cost, "an int for n_components, or ")
    if solver not in ("auto", *support.pure):
        check_not_pure(f"solver={solver!r}", spec.cost, f"solver={support.pure[0]!r}, or ")
