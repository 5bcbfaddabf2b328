"""Checks of parameters, the choices of "auto", and the releases of fits that protect rows."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import NamedTuple

import numpy as np

from skdp._estimator import check_finite_bound
from skdp.decomposition._spec import MEAN, MOMENT, RowsSpec, check_solver, rank_of, rank_or_none
from skdp.linalg.norms import row_norms
from skdp.linalg.spectrum import noise_edge
from skdp.privacy import Plan, Release, sensitivity
from skdp.privacy.plan import AnyOf, growing_shares, left_of, plan_sum
from skdp.privacy.releases import SCALE_GRID, Search

_MEAN_NORM, _ROW_NORM, AGAIN = "mean norm", "row norm", " again"

# ------------------------------
# Checks of parameters, and the choices of "auto".

# With more features, clipped projections have less noise than the d x d matrix; with "replace",
# whose steps have twice the noise, only from the second number on.
_LARGEST_MATRIX = {"zero_out": 1000, "replace": 2000}  # not studied
# Without noise, memory decides: the largest number of entries of a second moment, or of a basis of
# all rows.
_LARGEST_EXACT = 1 << 26  # not studied
# ARPACK finds components of sparse rows with at least so many features; and at most so many
# components, relative to the shorter side.
_FEWEST_SPARSE_FEATURES, _LARGEST_RANK = 400, 0.125  # not tuned
# If a mean guides, "auto" may iterate from this many features d on, if n mu / d is below the second
# number (benchmarks/diagonal_prior/solvers.md) or, for one component, below the third number
# (benchmarks/guided/guided.md).
_FEWEST_ITERATED_FEATURES, _LEAST_STRENGTH, _LEAST_STRENGTH_OF_ONE = 400, 10.0, 5.0
# Largest norm of the center, relative to sparse rows: with a longer center, rounding of squares
# would leave nothing of the rows.
_LARGEST_RATIO = 1e8  # not tuned
# A guided fit needs at least this many features.
_FEWEST_GUIDED_FEATURES = 3  # not studied


def resolve_rows(spec: RowsSpec) -> RowsSpec:
    """Refuse contradictory parameters, and replace "auto" and None, by public facts only."""
    check_solver(spec)
    _check_bounds(spec)
    if not spec.cost.is_private:
        # Without noise no norm is estimated, and None clips nothing.
        if spec.row_norm is None:
            spec = replace(spec, row_norm=math.inf)
        if spec.mean_norm is None and isinstance(spec.center, str):
            spec = replace(spec, mean_norm=math.inf)
    _check_components(spec)
    n_rows, n_features = spec.shape
    n_components, solver = spec.n_components, spec.solver
    if not isinstance(n_components, Integral):
        return replace(spec, solver="covariance")
    if spec.prior is not None:
        solver = "covariance"
    if solver == "auto":
        is_small = n_features <= _LARGEST_MATRIX[spec.unit.adjacency]
        solver = "covariance" if is_small else "power"
    extra = n_components if spec.n_oversamples == "auto" else int(spec.n_oversamples)
    is_exact = spec.prior is None and _is_exact(spec)
    if is_exact:
        solver, extra = "power", 0
    elif solver == "power" != spec.solver and not spec.cost.is_private:
        is_small = n_rows < n_features and n_rows * n_features <= _LARGEST_EXACT
        if is_small and spec.unit.name != "user":
            # A basis of this size spans all rows, so the iteration is exact.
            extra = n_rows
        elif n_features**2 <= _LARGEST_EXACT:
            solver = "covariance"
    n_steps = 1 if is_exact else spec.support.steps[solver]
    return replace(
        spec,
        solver=solver,
        basis_size=min(int(n_components) + int(extra), n_features),
        n_iter=n_steps if spec.n_iter == "auto" else spec.n_iter,
        guided_solvers=_guided_solvers(spec, solver) if spec.prior is None else (),
        is_exact=is_exact,
    )


def _is_exact(spec: RowsSpec) -> bool:
    """Return whether ARPACK computes the components: of sparse rows, without noise.

    The rows must be in memory, as ARPACK makes many products with vectors, one after the other.
    """
    may_choose = spec.solver == "auto" and not spec.cost.is_private
    is_whole = spec.is_sparse and spec.is_in_memory and spec.unit.name == "row"
    has_few = rank_of(spec) <= _LARGEST_RANK * min(spec.shape)
    is_wide = spec.shape[1] >= _FEWEST_SPARSE_FEATURES
    return may_choose and is_whole and has_few and is_wide and spec.row_norm == math.inf


def _guided_solvers(spec: RowsSpec, solver: str) -> tuple[str, ...]:
    """Return the solvers that a mean may guide; of two solvers, the released mean chooses one."""
    n_rows, n_features = spec.shape
    has_default_steps = spec.n_iter == spec.n_oversamples == "auto"
    may_guide = spec.cost.is_private and spec.releases_mean and spec.center is None
    if not may_guide or n_features < _FEWEST_GUIDED_FEATURES:
        return ()
    if solver == "power":
        return ("power",) * has_default_steps
    may_iterate = spec.solver == "auto" and n_features >= _FEWEST_ITERATED_FEATURES
    # For d features, a moment has d^2 noisy numbers, and a power iteration a small multiple of d.
    least = _LEAST_STRENGTH if rank_of(spec) > 1 else _LEAST_STRENGTH_OF_ONE
    is_weak = n_rows * spec.cost.mu < least * n_features
    return (solver, "power") if may_iterate and is_weak and has_default_steps else (solver,)


def _check_bounds(spec: RowsSpec) -> None:
    """Refuse bounds that have no effect, are infinite with a finite budget, or are too small."""
    check_finite_bound("row_norm", spec.row_norm, spec.cost)
    check_finite_bound("mean_norm", spec.mean_norm, spec.cost)
    if spec.mean_norm is not None and not spec.releases_mean:
        raise ValueError(
            f"mean_norm={spec.mean_norm:g} bounds rows for a private mean, and this fit releases "
            "no mean: pass mean_norm=None, or center='private'."
        )
    if not spec.is_sparse or spec.center is None:
        return
    # Products of sparse rows are centered, not the rows. If the center is much longer than the
    # rows, rounding may leave nothing of the rows.
    name, norm = "mean_norm", spec.mean_norm
    if isinstance(spec.center, np.ndarray):
        name, norm = "center", float(row_norms(spec.center[np.newaxis])[0])
    if spec.row_norm is None or norm is None:
        return
    if math.isfinite(norm) and norm > _LARGEST_RATIO * spec.row_norm:
        raise ValueError(
            f"row_norm={spec.row_norm} is too small beside the norm {norm:.3g} of {name}: "
            "centering sparse rows would lose them in rounding. Pass a "
            f"{name} of at most {_LARGEST_RATIO:.0e} times row_norm, a dense X, or center=False."
        )


def _check_components(spec: RowsSpec) -> None:
    """Refuse too many components, or a fraction of variances that are not all released."""
    n_components, (n_rows, n_features) = spec.n_components, spec.shape
    if isinstance(n_components, Integral):
        of_rows = "n_users" if spec.unit.name == "user" else "n_samples"
        name = f"min({of_rows}, n_features)" if spec.is_pca else "n_features"
        most = min(n_rows, n_features) if spec.is_pca else n_features
        if n_components > most:
            raise ValueError(
                f"n_components={n_components} must be at most {name}={most}, got "
                f"{of_rows}={n_rows} and n_features={n_features}."
            )
    elif spec.solver not in ("auto", "covariance"):
        raise ValueError(
            f"n_components={n_components!r} needs the whole spectrum; pass an int, or "
            "solver='covariance'."
        )
    if isinstance(n_components, str) and n_rows < n_features:
        raise ValueError(
            "n_components='mle' is only supported if n_samples >= n_features, got "
            f"{n_rows} < {n_features}."
        )


# ------------------------------
# Releases and their shares.

# Share of the count of positive rows, which decides whether the mean guides the fit.
_POSITIVITY_SHARE = 0.005  # not studied
# Share of the guiding mean: the factor over the root of `_signal_to_noise`, within limits. The
# second pair is for both means of an iteration together.
_GUIDE_FACTOR, _GUIDE_LIMITS = 0.2, (0.02, 0.05)  # not studied
_ITERATED_FACTOR, _ITERATED_LIMITS = 1.5, (0.07, 0.7)  # not studied
# Guided power method: number of steps, extra columns, and growth of the shares from step to step.
# The second setting is for signals of at least the last number.
_FEW_STEPS, _MANY_STEPS, _STRONG_SIGNAL = (4, 1, 3.0), (5, 3, 2.0), 200.0  # not studied
# Share of the search for a norm.
_NORM_SHARE = 0.03  # not studied
# Share of the centering mean: the factor over `_signal_to_noise`, within limits. Noise of the mean
# adds a direction to all rows, which matters more if the signal is weak.
_CENTER_FACTOR, _CENTER_LIMITS = 3.75, (0.15, 0.25)  # benchmarks/diagonal_prior/centered.md
# A second mean is released if the error of the first adds a second moment that probably exceeds the
# largest eigenvalue of noise this many times. The second number is the share of that mean.
_FAR, _AGAIN_SHARE = 2.0, 0.2  # benchmarks/sweep/sweep.md, job "far"
#: For the second mean, rows are clipped to this multiple of `row_norm`, as the error of the first
#: mean moves all rows to one side.
WIDER = 2.0  # not studied
# Share of a mean that only serves to compute variances around it.
_MEAN_SHARE = 0.02  # not studied
# Parts of the share of the power method: for all clip levels together, and for the final spectrum.
_LEVEL_SHARE, _SPECTRUM_SHARE = 0.05, 0.10  # not studied
# Ratio of the share of a step to the share of the step before.
_GROWTH = 3.0  # benchmarks/high_dimension/captured.md, "power, equal shares"
#: Number of clip levels that the power method chooses from.
N_LEVELS = 24  # not studied
_NORM_QUANTILE, _MEDIAN = 0.95, 0.5  # benchmarks/guided/guided.md, "Private bounds"
# For strong signals, the quantile of the norms at which rows are clipped is the median if
# `_signal_to_noise` is the first number, and rises by the second number with the log of the signal.
_SIGNAL_OF_MEDIAN, _QUANTILE_GROWTH = 50.0, 0.18  # benchmarks/guided/guided.md, "Private bounds"
# Beyond the signal at which this quantile reaches .95, its distance from 1 falls with this power of
# the signal.
_CLIPPED_POWER = 1.5  # benchmarks/sweep/sweep.md, job "components"
# Lowest quantile, for signals up to the first number; up to the second number, the quantile rises
# to that of strong signals: benchmarks/diagonal_prior/components.md, "Private bounds"
_LOWEST_QUANTILE, _WEAK_AND_STRONG = 0.2, (60.0, 120.0)
# With few components, noise costs less and clipping more. So for k components of `DPPCA` the signal
# is multiplied by a factor that rises with the signal, up to this number over k - 1.
_FEW_COMPONENTS = 4.0  # benchmarks/diagonal_prior/centered.md


class PowerReleases(NamedTuple):
    """The steps of an iteration, and the final spectrum."""

    # A step releases counts, which give a clip level, and a product; without noise, no counts.
    steps: tuple[tuple[Release | None, Release], ...]
    projected_moment: Release


#: Releases of a solver; "covariance" has a single release, the second moment.
SolverReleases = Release | PowerReleases


class Branch(NamedTuple):
    """Releases of one branch of the plan, which follow the releases of bounds."""

    # A guided power method releases two means, other branches at most one.
    means: tuple[Release, ...]
    row_norm: Search | None  # of rows around the second center
    solver: SolverReleases


class RowReleases(NamedTuple):
    """Releases of a fit to rows, in order."""

    mean_norm: Search | None
    center: Release | None  # the mean that centers rows
    row_norm: Search | None
    positivity: Release | None  # count of mostly positive rows, which decides whether to guide
    branches: AnyOf  # of `Branch`: the usual one, then a guided one a solver, or one that recenters


def warnings_for_rows(spec: RowsSpec, plan: Plan) -> Iterator[str]:
    """Warn if there are too few rows to estimate a norm."""
    n_rows, counted = spec.shape[0], spec.unit.counted
    for name, part in plan.parts._asdict().items():
        if isinstance(part, Search) and part.highest_quantile(n_rows) < _MEDIAN:
            yield (
                f"{name} may be far off: {n_rows} {counted} are too few to find it privately at "
                "this epsilon. Pass a public bound, in the units of X."
            )


def norm_quantile(search: Search, spec: RowsSpec) -> float:
    """Choose the quantile of the norms to which rows are clipped.

    For a mean before centering, the quantile is .95. For the rows that are decomposed, the quantile
    rises with the logarithm of the signal-to-noise ratio, from .2 to .95, and then to 1: clipped
    rows keep their directions, and less noise is better if noise dominates. With few rows the
    quantile is nearer to the median, as noise in the counts blurs other quantiles.
    """
    wanted = _NORM_QUANTILE if search.name == _MEAN_NORM else _quantile_of_strength(spec)
    highest = search.highest_quantile(spec.shape[0], most=wanted)
    lowest = 1 - search.highest_quantile(spec.shape[0])
    return max(highest, min(_MEDIAN, max(_LOWEST_QUANTILE, lowest)))


def _quantile_of_strength(spec: RowsSpec) -> float:
    """Return the quantile of the norms, which rises with the strength of the signal."""
    weak, strong = _WEAK_AND_STRONG
    signal = public = _signal_to_noise(spec)
    if spec.is_pca and (rank := rank_or_none(spec.n_components)):
        most = max(_FEW_COMPONENTS / max(rank - 1, 1), 1.0)
        signal *= float(np.clip((signal / weak) ** 2, 1.0, most))
    growth = math.log(max(signal, strong) / _SIGNAL_OF_MEDIAN)
    of_strong = min(_MEDIAN + _QUANTILE_GROWTH * growth, _NORM_QUANTILE)
    ends = math.log(weak), math.log(strong)
    quantile = float(np.interp(math.log(max(signal, weak)), ends, (_LOWEST_QUANTILE, of_strong)))
    highest = _SIGNAL_OF_MEDIAN * math.exp((_NORM_QUANTILE - _MEDIAN) / _QUANTILE_GROWTH)
    beyond = (highest / max(public, highest)) ** _CLIPPED_POWER
    return 1 - beyond * (1 - quantile)


def _signal_to_noise(spec: RowsSpec) -> float:
    """Divide the largest possible sum of rows by the noise that a sum has with the whole budget."""
    n_rows, n_features = spec.shape
    change = sensitivity.row_sum(1.0, spec.unit.adjacency)
    return n_rows * spec.cost.mu / (change * math.sqrt(n_features))


def plan_rows(spec: RowsSpec) -> RowReleases:
    """Plan all releases of a fit, in order, with all branches."""
    is_centered, positivity = isinstance(spec.center, str), None
    estimates_mean_norm = is_centered and spec.mean_norm is None
    if spec.guided_solvers:
        count = sensitivity.count
        positivity = spec.cost.release("positive rows", "gaussian", _POSITIVITY_SHARE, count, {})
    center_share = float(np.clip(_CENTER_FACTOR / _signal_to_noise(spec), *_CENTER_LIMITS))
    before = (
        _plan_norm(spec, _MEAN_NORM) if estimates_mean_norm else None,
        _plan_mean(spec, MEAN, center_share) if is_centered else None,
        _plan_norm(spec) if spec.row_norm is None else None,
        positivity,
    )
    is_guided, share = spec.releases_mean and spec.center is None, left_of(before)
    branches = _plan_guided(spec, share) if is_guided else _plan_centered(spec, share, before[1])
    return RowReleases(*before, AnyOf(branches))


def _plan_centered(spec: RowsSpec, share: float, center: Release | None) -> tuple[Branch, ...]:
    """Plan the branch that decomposes rows around the mean, and the branch with a second mean."""
    usual, row_norm = Branch((), None, _plan_solver(spec, share)), spec.row_norm
    if center is None or not spec.cost.is_private:
        return (usual,)
    bound = _ROW_NORM if row_norm is None else WIDER * row_norm
    mean = _plan_mean(spec, MEAN + AGAIN, _AGAIN_SHARE, bound)
    search = _plan_norm(spec, _ROW_NORM + AGAIN) if row_norm is None else None
    recentered = Branch((mean,), search, _plan_solver(spec, left_of(mean, search, total=share)))
    # If the bound or the noise of the center follows from a release, released values will choose.
    if row_norm is None or center.noise_std is None:
        return usual, recentered
    return (recentered if needs_second_mean(spec, usual, center.noise_std, row_norm) else usual,)


def _plan_guided(spec: RowsSpec, share: float) -> tuple[Branch, ...]:
    """Plan a mean, and the solvers with and without its guidance."""
    mean = _plan_mean(spec, MEAN, _MEAN_SHARE)
    branches = [Branch((mean,), None, _plan_solver(spec, share - _MEAN_SHARE))]
    # A weak signal gives the mean a larger share, as only the mean may stand out from noise.
    signal = _signal_to_noise(spec)
    first = float(np.clip(_GUIDE_FACTOR / math.sqrt(signal), *_GUIDE_LIMITS))
    more = float(np.clip(_ITERATED_FACTOR / math.sqrt(signal), *_ITERATED_LIMITS)) - first
    guide, share = _plan_mean(spec, "guiding mean 1", first), share - first
    for solver in spec.guided_solvers:
        if solver != "power":
            branches.append(Branch((guide,), None, _plan_solver(spec, share)))
            continue
        again = _plan_mean(spec, "guiding mean 2", more)
        # With less noise more directions are visible, which takes more steps and columns.
        n_steps, n_more, growth = _MANY_STEPS if signal >= _STRONG_SIGNAL else _FEW_STEPS
        n_columns = min(rank_of(spec) + n_more, spec.shape[1] - 1)
        # The steps search orthogonally to the mean, which joins the basis at the end.
        power = _plan_power(spec, share - more, n_steps, n_columns, growth, n_guides=1)
        branches.append(Branch((guide, again), None, power))
    return tuple(branches)


def _plan_norm(spec: RowsSpec, name: str = _ROW_NORM) -> Search:
    """Plan the search for a quantile of the norms, to which rows are clipped."""
    parameter = name.removesuffix(AGAIN).replace(" ", "_")
    remedy = f"Pass {parameter} as a public bound in the units of X."
    return spec.cost.search(name, _NORM_SHARE, SCALE_GRID, remedy=remedy)


def _plan_solver(spec: RowsSpec, share: float) -> SolverReleases:
    """Plan the releases of a solver that no mean guides."""
    if spec.solver == "power":
        return _plan_power(spec, share, int(spec.n_iter), spec.basis_size, _GROWTH)
    return _plan_moment(spec, share, MOMENT)


def _plan_mean(
    spec: RowsSpec, name: str, share: float, bound: float | str | None = None
) -> Release:
    n_rows, n_features = spec.shape
    change = partial(_mean_change, n_rows=n_rows)
    bound = bound_of_mean(spec) if bound is None else bound
    return plan_sum(spec, name, share, (n_features,), bound, change)


def needs_second_mean(spec: RowsSpec, usual: Branch, mean_std: float, bound: float) -> bool:
    r"""Return whether a center with noise `mean_std` is too rough for rows clipped to `bound`.

    An error :math:`\delta` of the center adds :math:`\delta \delta^T` to the mean second moment: on
    average d times the variance of that noise, along one direction. The bound of the mean, and so
    its noise, grows with the distance of the rows from 0.
    """
    n_rows, n_features = spec.shape
    change = sensitivity.second_moment(bound, spec.unit.adjacency) / n_rows
    share = 1 - left_of(usual.solver)
    noise_std = spec.cost.noise_std("symmetric_gaussian", change, share)
    edge = noise_edge(noise_std * math.sqrt(0.5), n_features)
    return n_features * mean_std**2 > _FAR * edge


def bound_of_mean(spec: RowsSpec) -> float | str:
    """Return the norm to which rows are clipped for their mean, or the name of its search."""
    norm, search = spec.mean_norm, _MEAN_NORM
    if norm is None and spec.center is None:
        norm, search = spec.row_norm, _ROW_NORM
    return search if norm is None else norm


def _mean_change(row_norm: float, rounding: float, *, n_rows: int, adjacency: str) -> float:
    return sensitivity.row_sum(row_norm, adjacency, rounding) / n_rows


def _plan_moment(
    spec: RowsSpec,
    share: float,
    name: str,
    projected_shape: tuple[int, ...] = (),
) -> Release:
    """Plan the second moment, or its projection on a basis, of the given shape."""
    bound: float | str = _ROW_NORM if spec.row_norm is None else spec.row_norm
    if spec.is_sparse and spec.center is not None:
        # Products of sparse rows are centered afterwards, so their rounding depends on the center.
        bound = MEAN if isinstance(spec.center, str) else "center"
    change = sensitivity.projected_spectrum if projected_shape else sensitivity.second_moment
    shape = projected_shape or (spec.shape[1],) * 2
    return plan_sum(spec, name, share, shape, bound, change, "symmetric_gaussian")


def _plan_product(spec: RowsSpec, share: float, name: str, follows: str, n_columns: int) -> Release:
    """Plan the second moment times a basis, with clipped projections of the rows."""
    change = partial(sensitivity.clipped_projection, adjacency=spec.unit.adjacency)
    # Without noise nothing is clipped.
    known = None if spec.cost.is_private else {"row_norm": spec.row_norm, "level": math.inf}
    shape = spec.shape[1], n_columns
    return spec.cost.release(name, "gaussian", share, change, known, follows=follows, shape=shape)


def _plan_power(
    spec: RowsSpec, share: float, n_steps: int, n_columns: int, growth: float, n_guides: int = 0
) -> PowerReleases:
    """Plan a clip level and a product for each step, and the spectrum in the final basis.

    The final basis has `n_guides` more columns. The last row and column of the spectrum have the
    variance outside the basis.
    """
    shares = growing_shares(share * (1 - _LEVEL_SHARE - _SPECTRUM_SHARE), n_steps, growth)
    counts = partial(sensitivity.histogram, spec.unit.adjacency)
    steps = list[tuple[Release | None, Release]]()
    for step, step_share in enumerate(shares, start=1):
        level, follows = None, f"clip level {step}"
        if spec.cost.is_private:
            part, n_counts = share * _LEVEL_SHARE / n_steps, (N_LEVELS,)
            level = spec.cost.release(follows, "gaussian", part, counts, {}, shape=n_counts)
        product = _plan_product(spec, step_share, f"step {step}", follows, n_columns)
        steps.append((level, product))
    name, shape = "projected second moment", (n_columns + n_guides + 1,) * 2
    spectrum = _plan_moment(spec, share * _SPECTRUM_SHARE, name, projected_shape=shape)
    return PowerReleases(tuple(steps), spectrum)


# ------------------------------
# Left factors of a matrix whose rows are protected.

# Share of the projected rows: mu, within limits. With a small budget noise hides all of them, and
# more is gained by components. A further share is that of the level to which they are clipped.
# benchmarks/factorization/rows.md
_LEAST_PROJECTION, _MOST_PROJECTION, _PROJECTION_LEVEL = 0.2, 0.8, 0.02


class RowFactorReleases(NamedTuple):
    """Releases of components and of projected rows, in order."""

    row_norm: Search | None
    components: SolverReleases
    mean: Release
    level: Release | None  # counts of norms of projected rows; none without noise
    projected_rows: Release


def plan_projection(spec: RowsSpec) -> RowFactorReleases:
    """Plan the components, the mean, and the rows projected on the components, around the mean."""
    share = float(np.clip(spec.cost.mu, _LEAST_PROJECTION, _MOST_PROJECTION))
    level, follows = None, "level of projected rows"
    if spec.cost.is_private:
        counts, shape = partial(sensitivity.histogram, spec.unit.adjacency), (N_LEVELS,)
        level = spec.cost.release(follows, "gaussian", _PROJECTION_LEVEL, counts, {}, shape=shape)
    # Shares of the components are parts of the cost that the other releases leave.
    rest = 1 - math.fsum([share, _MEAN_SHARE, _PROJECTION_LEVEL])
    before = replace(spec, cost=replace(spec.cost, part=rest))
    row_norm = _plan_norm(before) if spec.row_norm is None else None
    projected = spec.cost.release(
        "projected rows",
        "gaussian",
        share,
        partial(sensitivity.row_sum, adjacency=spec.unit.adjacency),
        None if spec.cost.is_private else {"row_norm": math.inf},
        follows=follows,
        shape=(spec.shape[0], rank_of(spec)),
    )
    components = _plan_solver(before, 1.0 - _NORM_SHARE * (spec.row_norm is None))
    mean = _plan_mean(spec, MEAN, _MEAN_SHARE)
    return RowFactorReleases(row_norm, components, mean, level, projected)
