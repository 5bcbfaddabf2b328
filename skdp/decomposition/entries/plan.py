"""Checks of parameters, the choices of "auto", and the releases of fits that protect entries."""

import math
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import NamedTuple

import numpy as np

from skdp.decomposition._spec import MEAN, MOMENT, EntriesSpec, check_solver, rank_of
from skdp.linalg.norms import LEAST_ROUNDING
from skdp.privacy import Release
from skdp.units import MatrixUnit, ResolvedEntry

# Shares of the means and of the sum of squares; the solver gets the rest. With ``delta=0`` shares
# are fractions of epsilon instead of squared mu, and the same share adds more noise. So the larger
# shares below are for ``delta=0``.
_MEAN_SHARE, _TOTAL_SHARE = 0.02, 0.01  # not studied
_PURE_MEAN_SHARE, _PURE_TOTAL_SHARE = 0.05, 0.03  # not studied
# The last release of a solver is the core, a small matrix that turns the bases to singular vectors.
# The core gets the fraction `_CORE_SHARE` of the solver's share. `_LARGER_CORE_SHARE` is
# for ``delta=0``, and for units with as much noise in the core as in a product of the whole matrix.
_CORE_SHARE, _LARGER_CORE_SHARE = 0.02, 0.05  # not studied
# Ratio of the share of a step to the share of the next step.
_DECAY = 0.8  # benchmarks/house/constants.md
# Fraction of a component's share for its singular value.
_VALUE_SHARE = 0.05  # not studied
# Number of extra columns of a basis. Rows of a basis are clipped, which reduces noise but rotates
# its columns. With extra columns, their span keeps most of the components. With ``delta=0`` there
# are none, as Laplace noise grows with the number of columns.
_OVERSAMPLES, _PURE_OVERSAMPLES = 1, 0  # `_OVERSAMPLES`: benchmarks/house/constants.md
# `_strength` divides the largest possible signal by the noise. Let m be `_strength` divided by
# `_STRENGTH_PER_MORE`, at most `_MOST_MORE`. By default, a basis has at least m extra columns and,
# for second moments, there are m more steps. For second moments, `_strength` contains the factor
# `_STRENGTH_OF_MOMENTS`.
# benchmarks/papers/decentralized_power_method.md
_STRENGTH_PER_MORE, _MOST_MORE, _STRENGTH_OF_MOMENTS = 1000.0, 16, 0.25
# An iteration is better than noise on every entry if the matrix is large: the geometric mean of its
# sides, in which the shorter side counts twice, is at least `_LEAST_SIDE` plus
# `_LEAST_SIDE_PER_COLUMN` times the number of columns of a basis:
# benchmarks/entries/choices.md, "Small matrices: which solver".
_LEAST_SIDE, _LEAST_SIDE_PER_COLUMN = 20, 5
# For interactions, "auto" takes "covariance", which releases the whole second moment, under two
# conditions. There are at most `_LARGEST_MOMENT` items. And the largest possible mean eigenvalue of
# the second moment is at least `_LEAST_STRENGTH` times the noise of an entry, times the root of the
# number of components.
_LARGEST_MOMENT, _LEAST_STRENGTH = 2000, 3.0  # benchmarks/entries/choices.md


def resolve_entries(spec: EntriesSpec) -> EntriesSpec:
    """Refuse contradictory parameters; replace "auto" and None by values, from public facts."""
    _check_parameters(spec)
    size = int(min(spec.shape) if spec.n_components is None else spec.n_components)
    extra = _PURE_OVERSAMPLES if spec.cost.is_pure else _OVERSAMPLES
    if spec.n_oversamples != "auto":
        extra = int(spec.n_oversamples)
    solver = _choose_solver(spec, size + extra)
    n_more = int(min(_strength(spec) / _STRENGTH_PER_MORE, _MOST_MORE))
    if spec.n_oversamples == "auto":
        extra = max(extra, n_more)
    is_moment = spec.unit.is_second_moment
    # Without noise the first basis of an iteration is the span of the components.
    is_exact = not spec.cost.is_private and spec.n_iter == "auto"
    # Second moments have many directions of similar strength, which more steps separate.
    n_steps = 1 if is_exact else spec.support.steps[solver] + n_more * is_moment
    # Only iterations use a coherence bound.
    iterates = spec.support.takes_coherence_bound and solver != "input"
    if spec.coherence_bound is not None and not iterates:
        raise ValueError(
            f"coherence_bound={spec.coherence_bound} is for iterations on entries or edges, got "
            f"{spec.given_unit} and solver={solver!r}: pass coherence_bound=None, or a solver that "
            "iterates."
        )
    limit = spec.shape[1] if is_moment else min(spec.shape)
    return replace(
        spec,
        n_components=size,
        solver=solver,
        # No coherence exceeds the longer side. A larger int might be too large for a float.
        coherence_bound=spec.coherence_bound and float(min(spec.coherence_bound, max(spec.shape))),
        # Deflation finds one component after the other, and uses no extra columns.
        basis_size=size if solver == "deflation" else min(size + extra, limit),
        n_iter=n_steps if spec.n_iter == "auto" else spec.n_iter,
        is_exact=is_exact,
        # For second moments with little noise, the last product alone is better: averages with
        # earlier products would slow the separation of directions.
        averages=n_more < _MOST_MORE or not is_moment,
    )


def _strength(spec: EntriesSpec) -> float:
    """Divide the largest possible singular value by the noise of a product at the whole budget.

    The result is 0 for fits in which a larger budget adds neither columns nor steps.
    """
    # The product is with a vector of equal entries. For a rectangular matrix, the noise is the
    # geometric mean over products from both sides.
    (n_rows, n_columns), unit, mu = spec.shape, spec.unit, spec.cost.mu
    if not spec.cost.is_private or spec.cost.is_pure or not unit.follows_rows:
        return 0.0
    change = unit.product(np.full(n_columns, n_columns**-0.5))
    if unit.is_second_moment:
        noise = change * math.sqrt(n_columns)
        return _STRENGTH_OF_MOMENTS * mu * n_rows * unit.largest_entry**2 / noise
    right_noise = change * math.sqrt(n_rows)
    left_noise = unit.rmatmul(np.full(n_rows, n_rows**-0.5)) * math.sqrt(n_columns)
    largest = unit.largest_entry * math.sqrt(n_rows * n_columns)
    return mu * largest / math.sqrt(right_noise * left_noise)


def _check_parameters(spec: EntriesSpec) -> None:
    """Refuse parameters that contradict each other or the public facts."""
    support, solver, given, unit = spec.support, spec.solver, spec.given_unit, spec.unit
    takes_zero = not isinstance(unit, ResolvedEntry) or (
        unit.keep_zeros or unit.lower <= 0 <= unit.upper
    )
    if spec.is_sparse and not takes_zero:
        raise ValueError(
            f"X is sparse, but the bounds of {given} exclude its zeros; pass zero_is_missing=True, "
            "bounds that include 0, or a dense X."
        )
    if unit.is_symmetric and spec.shape[0] != spec.shape[1]:
        raise ValueError(
            f"{given} needs a symmetric matrix, got one of shape {spec.shape}; skdp.units.Entry "
            "takes any matrix."
        )
    is_centered = spec.center is not None
    if is_centered and not support.centered:
        raise ValueError(f"{given} takes no center: pass center=False.")
    if is_centered and solver in support.steps and solver not in support.centered:
        # A symmetric matrix minus its column means is not symmetric.
        raise ValueError(
            f"solver={solver!r} with {given} needs a symmetric matrix, and centering makes it "
            f"asymmetric: pass center=False or solver={support.centered[0]!r}."
        )
    check_solver(spec)
    n_components, smaller = spec.n_components, min(spec.shape)
    takes_none = "input" in support.steps and solver in ("auto", "input")
    if not isinstance(n_components, Integral) and not (n_components is None and takes_none):
        raise ValueError(
            f"n_components={n_components!r} with {given}: pass an int, or None with solver='input' "
            "for entries."
        )
    if n_components is not None and int(n_components) > smaller:
        raise ValueError(
            f"n_components={n_components} must be at most min(n_samples, n_features)={smaller}."
        )


def _choose_solver(spec: EntriesSpec, basis_size: int) -> str:
    """Choose a solver: "input" or "covariance" where it is better, else the first usable one."""
    support = spec.support
    if spec.n_components is None:
        return "input"
    if spec.solver != "auto":
        return spec.solver
    # An iteration multiplies the matrix by bases. In a small matrix the noise of these products is
    # too large.
    side = (min(spec.shape) ** 2 * max(spec.shape)) ** (1 / 3)
    is_small = side < _LEAST_SIDE + _LEAST_SIDE_PER_COLUMN * basis_size
    if "input" in support.steps and not spec.cost.is_pure and is_small:
        return "input"
    if "covariance" in support.steps and not spec.cost.is_pure and _is_strong(spec):
        return "covariance"
    usable = tuple(support.steps) if spec.center is None else support.centered
    return next(name for name in usable if not spec.cost.is_pure or name in support.pure)


def _is_strong(spec: EntriesSpec) -> bool:
    """Return whether there are few columns, and their second moment may stand out from noise."""
    n_rows, n_columns = spec.shape
    noise = spec.unit.whole(spec.shape) * math.sqrt(rank_of(spec))
    is_small = n_columns <= _LARGEST_MOMENT
    return is_small and spec.cost.mu * n_rows >= _LEAST_STRENGTH * noise * n_columns


class IterationReleases(NamedTuple):
    """Products with released bases, and the core, a small matrix that rotates the bases."""

    # For each step, a product from each side of the matrix, or a single one if it is symmetric.
    products: tuple[tuple[Release, ...], ...]
    core: Release


class DeflationReleases(NamedTuple):
    """An iteration for each component, whose core is a number; then a core of all components."""

    components: tuple[IterationReleases, ...]
    core: Release


class EntryReleases(NamedTuple):
    """Releases of a fit to entries, in order."""

    mean: Release | None
    total: Release | None  # sum of squares
    solver: Release | IterationReleases | DeflationReleases  # one release: X or its moment


def plan_entries(spec: EntriesSpec) -> EntryReleases:
    """Plan all releases in their order."""
    unit, cost, mean, total = spec.unit, spec.cost, None, None
    mean_share, total_share = _MEAN_SHARE, _TOTAL_SHARE
    if cost.is_pure:
        mean_share, total_share = _PURE_MEAN_SHARE, _PURE_TOTAL_SHARE
    mean_share *= unit.has_totals and spec.releases_mean
    total_share *= unit.has_totals and spec.releases_total
    mechanism, known = _mechanism(spec, pure="laplace"), None
    if mean_share:
        change, rounding = partial(_mean_change, spec), {"rounding": spec.rounding}
        mean = cost.release(MEAN, mechanism, mean_share, change, rounding, shape=spec.shape[1:])
    if total_share:
        # The sum of squares is taken around the center, which is public or the released mean.
        name, change = "sum of squares", partial(_squares_change, unit)
        if not isinstance(spec.center, str):
            point = np.zeros(spec.shape[1]) if spec.center is None else spec.center
            # Except for second moments, the sensitivity exceeds the rounding by far.
            known = {"point": point, "rounding": spec.rounding * unit.is_second_moment}
        total = cost.release(name, mechanism, total_share, change, known, follows=MEAN)
    share = 1 - math.fsum([mean_share, total_share])
    if spec.solver in ("input", "covariance"):
        return EntryReleases(mean, total, _plan_matrix(spec, share))
    core_share = _CORE_SHARE if unit.follows_rows and not cost.is_pure else _LARGER_CORE_SHARE
    core = _plan_core(spec, "core", spec.basis_size, share * core_share)
    share *= 1 - core_share
    if spec.solver == "deflation":
        of_each, size = share / spec.basis_size, spec.basis_size
        components = tuple(
            IterationReleases(
                _plan_products(spec, of_each * (1 - _VALUE_SHARE), 1, f"component {n}: "),
                _plan_core(spec, f"component {n}: value", 1, of_each * _VALUE_SHARE),
            )
            for n in range(1, size + 1)
        )
        return EntryReleases(mean, total, DeflationReleases(components, core))
    products = _plan_products(spec, share, spec.basis_size)
    return EntryReleases(mean, total, IterationReleases(products, core))


def _mechanism(spec: EntriesSpec, *, pure: str) -> str:
    return pure if spec.cost.is_pure else "gaussian"


def _mean_change(spec: EntriesSpec, rounding: float) -> float:
    """Return the sensitivity of the column means, with the rounding of their sums."""
    (n_rows, n_features), unit, is_laplace = spec.shape, spec.unit, spec.cost.is_pure
    # One entry may change the order of additions, and thereby the rounding, in all columns. These
    # changes are added for Laplace noise, and their squares for Gaussian noise.
    n_sums = n_features if is_laplace else math.sqrt(n_features)
    slack = 2 * rounding * unit.largest_entry * n_sums / n_rows
    return unit.mean(n_rows, is_laplace=is_laplace) + slack


def _squares_change(unit: MatrixUnit, point: np.ndarray, rounding: float) -> float:
    """Return the sensitivity of the sum of squares around a public point, with its rounding."""
    slack = 2 * rounding
    if not unit.is_second_moment:
        # Sums of a^2 - 2 a p are rounded, for entries a and the point p.
        slack = slack * unit.largest_entry * (unit.largest_entry + 2 * float(np.abs(point).max()))
    return unit.squares(point) * (1 + LEAST_ROUNDING) + slack


def _plan_matrix(spec: EntriesSpec, share: float) -> Release:
    """Plan the release of the noisy matrix, or of the noisy second moment of its rows."""
    change = partial(_with_rounding, spec.unit.whole(spec.shape))
    if spec.solver == "input":
        known = {"rounding": 0.0}
        return spec.cost.release("matrix", "gaussian", share, change, known, shape=spec.shape)
    shape, known = (spec.shape[1],) * 2, {"rounding": spec.rounding}
    return spec.cost.release(MOMENT, "symmetric_gaussian", share, change, known, shape=shape)


def _with_rounding(change: float, rounding: float) -> float:
    """Add the rounding of sums to the sensitivity of a product or of a core."""
    return (change + 2 * rounding) * (1 + LEAST_ROUNDING)


# On what the sensitivity of products and cores depends, for the printed plan.
_BASIS = "the released basis"


def _plan_products(
    spec: EntriesSpec, share: float, size: int, prefix: str = ""
) -> tuple[tuple[Release, ...], ...]:
    """Plan `IterationReleases.products`, which may be skipped if there is a coherence bound."""
    lengths = dict(zip(("right product", "left product"), spec.shape, strict=True))
    if spec.is_symmetric:
        lengths = {"product": spec.shape[1]}
    weights = _DECAY ** -np.arange(int(spec.n_iter), dtype=float)
    weights /= weights.sum()
    # Products from both sides of the matrix get different shares, as the noise of a product grows
    # with its number of rows and falls with the number of rows of its basis. If both bases are
    # equally coherent, shares in proportion to these numbers are best. If noise does not depend on
    # the basis, shares in proportion to their roots are best.
    sides = np.array([*lengths.values()]) ** (1.0 if spec.unit.follows_rows else 0.5)
    sides /= sides.sum()
    mechanism = _mechanism(spec, pure="laplace" if spec.unit.is_local else "spherical")
    return tuple(
        tuple(
            spec.cost.release(
                f"{prefix}{name} {step}",
                mechanism,
                part,
                _with_rounding,
                follows=_BASIS,
                shape=(length, size),
                may_be_skipped=spec.coherence_bound is not None,
            )
            for (name, length), part in zip(lengths.items(), parts, strict=True)
        )
        for step, parts in enumerate((share * np.outer(weights, sides)).tolist(), start=1)
    )


def _plan_core(spec: EntriesSpec, name: str, size: int, share: float) -> Release:
    """Plan the core, a matrix of order `size` that rotates the bases to singular vectors."""
    mechanism = _mechanism(spec, pure="spherical")
    return spec.cost.release(
        name, mechanism, share, _with_rounding, follows=_BASIS, shape=(size, size)
    )
