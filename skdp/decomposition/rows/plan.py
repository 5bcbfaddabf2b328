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
from skdp.privacy.plan import AnyOf, growing_shares, left_of, plan_histogram, plan_sum
from skdp.privacy.releases import SCALE_GRID, Search

_MEAN_NORM, _ROW_NORM, AGAIN = "mean norm", "row norm", " again"

# ------------------------------
# Checks of parameters, and the choices of "auto".

# With more features than this, "auto" takes an iteration with clipped projections, which has less
# noise than the d x d second moment. The number is larger for "replace", where the steps of an
# iteration have twice the noise.
_LARGEST_MATRIX = {"zero_out": 1000, "replace": 2000}  # not studied
# Without noise, the solver is chosen by its memory. An array of more entries than this is too
# large: a second moment, or a basis that spans all rows.
_LARGEST_EXACT = 1 << 26  # not studied
# Without noise, ARPACK finds the components of sparse rows with at least `_FEWEST_SPARSE_FEATURES`
# features, if the number of components is at most `_LARGEST_RANK` times the smaller number of rows
# and features.
_FEWEST_SPARSE_FEATURES, _LARGEST_RANK = 400, 0.125  # not tuned
# If a mean guides a fit to n rows of d features, "auto" may iterate under two conditions: d is at
# least `_FEWEST_ITERATED_FEATURES`; and n mu / d is below `_LEAST_STRENGTH`
# (benchmarks/diagonal_prior/solvers.md) or, for a single component, below `_LEAST_STRENGTH_OF_ONE`
# (benchmarks/guided/guided.md).
_FEWEST_ITERATED_FEATURES, _LEAST_STRENGTH, _LEAST_STRENGTH_OF_ONE = 400, 10.0, 5.0
# Largest norm of a center over that of sparse rows: beyond it, the rounding of the squared center
# exceeds the squared row, and the sum of both loses the row.
_LARGEST_RATIO = 1e8  # not tuned
# A guided fit needs at least this many features.
_FEWEST_GUIDED_FEATURES = 3  # not studied


def resolve_rows(spec: RowsSpec) -> RowsSpec:
    """Refuse contradictory parameters; replace "auto" and None by values, from public facts."""
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
    if solver == "auto":
        is_small = n_features <= _LARGEST_MATRIX[spec.unit.adjacency]
        solver = "covariance" if is_small or spec.prior is not None else "power"
    extra = n_components if spec.n_oversamples == "auto" else int(spec.n_oversamples)
    is_exact = spec.prior is None and _is_exact(spec)
    if is_exact:
        solver, extra = "power", 0
    elif spec.solver != "power" and solver == "power" and not spec.cost.is_private:
        # Without noise, an exact solution is found if memory permits one.
        is_small = n_rows < n_features and n_rows * n_features <= _LARGEST_EXACT
        if is_small and spec.unit.name != "user":
            # A basis with as many columns as there are rows spans all rows: the iteration is exact.
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
    """Return whether ARPACK computes the components, which needs sparse rows and no noise.

    The rows must be in memory, as ARPACK multiplies them by many vectors, one after the other.
    """
    may_choose = spec.solver == "auto" and not spec.cost.is_private
    is_whole = spec.is_sparse and spec.is_in_memory and spec.unit.name == "row"
    has_few = rank_of(spec) <= _LARGEST_RANK * min(spec.shape)
    is_wide = spec.shape[1] >= _FEWEST_SPARSE_FEATURES
    return may_choose and is_whole and has_few and is_wide and spec.row_norm == math.inf


def _guided_solvers(spec: RowsSpec, solver: str) -> tuple[str, ...]:
    """Return the solvers that may use the direction of the released mean.

    If two solvers are returned, the released mean decides between them during the fit.
    """
    n_rows, n_features = spec.shape
    has_default_steps = spec.n_iter == spec.n_oversamples == "auto"
    may_guide = spec.cost.is_private and spec.releases_mean and spec.center is None
    if not may_guide or n_features < _FEWEST_GUIDED_FEATURES:
        return ()
    if solver == "power":
        return ("power",) if has_default_steps else ()
    may_choose = spec.solver == "auto" and has_default_steps
    # Weak fits may iterate: for d features, a second moment has d^2 noisy numbers, and an iteration
    # a small multiple of d.
    least = _LEAST_STRENGTH if rank_of(spec) > 1 else _LEAST_STRENGTH_OF_ONE
    is_weak = n_rows * spec.cost.mu < least * n_features
    is_wide = n_features >= _FEWEST_ITERATED_FEATURES
    return (solver, "power") if may_choose and is_wide and is_weak else (solver,)


def _check_bounds(spec: RowsSpec) -> None:
    """Refuse bounds that have no effect, are infinite with a finite budget, or are too small."""
    check_finite_bound("row_norm", spec.row_norm, spec.cost)
    check_finite_bound("mean_norm", spec.mean_norm, spec.cost)
    if spec.mean_norm is not None and not spec.releases_mean:
        raise ValueError(
            f"mean_norm={spec.mean_norm:g} bounds rows for a private mean, and this fit releases "
            "no mean: pass mean_norm=None, or center='private'."
        )
    if not spec.is_sparse or spec.center is None or spec.row_norm is None:
        return
    # Sparse rows stay sparse: their products are centered instead. If the center is much longer
    # than the rows, rounding may leave nothing of the rows.
    name, norm = "mean_norm", spec.mean_norm
    if isinstance(spec.center, np.ndarray):
        name, norm = "center", float(row_norms(spec.center[np.newaxis])[0])
    if norm is not None and _LARGEST_RATIO * spec.row_norm < norm < math.inf:
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

# Share of the count of rows that are mostly positive, which decides whether a released mean guides
# the search for the first component.
_POSITIVITY_SHARE = 0.005  # not studied
# The share of a guiding mean is a factor over the root of `_signal_to_noise`, within limits. The
# first mean has `_GUIDE_FACTOR` and `_GUIDE_LIMITS`. An iteration releases a second mean: for both
# means together the numbers are `_ITERATED_FACTOR` and `_ITERATED_LIMITS`.
_GUIDE_FACTOR, _GUIDE_LIMITS = 0.2, (0.02, 0.05)  # not studied
_ITERATED_FACTOR, _ITERATED_LIMITS = 1.5, (0.07, 0.7)  # not studied
# Settings of an iteration that a mean guides: number of steps, number of extra columns, and factor
# of the share from step to step. `_MANY_STEPS` is for a `_signal_to_noise` of at least
# `_STRONG_SIGNAL`.
_FEW_STEPS, _MANY_STEPS, _STRONG_SIGNAL = (4, 1, 3.0), (5, 3, 2.0), 200.0  # not studied
# Share of the budget for the search for a clipping norm.
_NORM_SHARE = 0.03  # not studied
# The share of a mean that centers rows is `_CENTER_FACTOR` over `_signal_to_noise`, within limits.
# Noise of the mean adds a direction to all rows, which matters more if the signal is weak.
_CENTER_FACTOR, _CENTER_LIMITS = 3.75, (0.15, 0.25)  # benchmarks/diagonal_prior/centered.md
# A second mean, with the share `_AGAIN_SHARE`, centers rows again if the first mean is too rough:
# its error probably adds more to the second moment than `_FAR` times the largest eigenvalue of
# noise.
_FAR, _AGAIN_SHARE = 2.0, 0.2  # benchmarks/sweep/sweep.md, job "far"
#: For the second mean, rows are clipped to this multiple of `row_norm`, as the error of the first
#: mean moves all rows to one side.
WIDER = 2.0  # not studied
# Share of a mean that neither centers rows nor guides a solver: variances are taken around it.
_MEAN_SHARE = 0.02  # not studied
# Fractions of the share of an iteration: for all clip levels together, and for the final spectrum.
_LEVEL_SHARE, _SPECTRUM_SHARE = 0.05, 0.10  # not studied
# Ratio of the share of a step to the share of the step before.
_GROWTH = 3.0  # benchmarks/high_dimension/captured.md, "power, equal shares"
#: Number of levels from which an iteration chooses one, to clip projections to it.
N_LEVELS = 24  # not studied
# Rows are clipped to a quantile of their norms, which grows with `_signal_to_noise`. For a mean
# that centers rows the quantile is `_NORM_QUANTILE`.
_NORM_QUANTILE, _MEDIAN = 0.95, 0.5  # benchmarks/guided/guided.md, "Private bounds"
# For strong signals, rows are clipped to this quantile of their norms: `_MEDIAN` +
# `_QUANTILE_GROWTH` * log(`_signal_to_noise` / `_SIGNAL_OF_MEDIAN`), up to `_NORM_QUANTILE`.
_SIGNAL_OF_MEDIAN, _QUANTILE_GROWTH = 50.0, 0.18  # benchmarks/guided/guided.md, "Private bounds"
# Once the quantile has reached `_NORM_QUANTILE`, 1 minus the quantile is inversely proportional to
# this power of the signal.
_CLIPPED_POWER = 1.5  # benchmarks/sweep/sweep.md, job "components"
# For a `_signal_to_noise` up to the first of `_WEAK_AND_STRONG`, the quantile of norms is
# `_LOWEST_QUANTILE`. Up to the second one, it rises to the quantile for strong signals:
# benchmarks/diagonal_prior/components.md, "Private bounds"
_LOWEST_QUANTILE, _WEAK_AND_STRONG = 0.2, (60.0, 120.0)
# With few components, noise costs less and clipping costs more. So for k components, `DPPCA` takes
# the quantile of norms that belongs to a larger signal: the signal is multiplied by a factor that
# rises with the signal, up to this number over k - 1.
_FEW_COMPONENTS = 4.0  # benchmarks/diagonal_prior/centered.md


class PowerReleases(NamedTuple):
    """The steps of a power iteration, and the second moment within the final basis."""

    # A step releases counts, from which a clip level follows, and a product. Without noise it
    # releases no counts.
    steps: tuple[tuple[Release | None, Release], ...]
    projected_moment: Release


#: Releases of a solver; "covariance" has a single release, the second moment.
SolverReleases = Release | PowerReleases


class Branch(NamedTuple):
    """Releases of one branch of the plan, after the releases that all branches have."""

    # A guided iteration releases two means, and other branches at most one.
    means: tuple[Release, ...]
    row_norm: Search | None  # of rows around the second mean
    solver: SolverReleases


class RowReleases(NamedTuple):
    """Releases of a fit to rows, in order."""

    mean_norm: Search | None
    center: Release | None  # the mean that centers rows
    row_norm: Search | None
    positivity: Release | None  # count of mostly positive rows: if they are most, a mean guides
    # First the usual `Branch`; then a guided one for each solver that a mean may guide, or one with
    # a second mean that centers the rows.
    branches: AnyOf


def warnings_for_rows(spec: RowsSpec, plan: Plan) -> Iterator[str]:
    """Warn if there are too few rows to estimate a norm."""
    n_rows, counted = spec.shape[0], spec.unit.counted
    for name, part in plan.parts._asdict().items():
        if isinstance(part, Search) and part.highest_quantile(n_rows) < _MEDIAN:
            yield (
                f"{name} may be far off: too few {counted}, {n_rows}, to find it privately at this "
                "epsilon. Pass a public bound, in the units of X."
            )


def norm_quantile(search: Search, spec: RowsSpec) -> float:
    """Choose the quantile of the norms to which rows are clipped.

    For a mean before centering, the quantile is .95. For the rows that are decomposed, the quantile
    rises with the logarithm of the signal-to-noise ratio, from .2 to .95, and then to 1: if noise
    dominates, a low bound reduces it, and clipped rows still keep their directions. With few rows
    the quantile is nearer to the median, as noise in the counts blurs other quantiles.
    """
    wanted = _NORM_QUANTILE if search.name == _MEAN_NORM else _quantile_of_signal(spec)
    reached = search.highest_quantile(spec.shape[0], most=wanted)
    lowest = 1 - search.highest_quantile(spec.shape[0])
    return max(reached, min(_MEDIAN, max(_LOWEST_QUANTILE, lowest)))


def _quantile_of_signal(spec: RowsSpec) -> float:
    """Return the quantile of norms to which rows would be clipped if there were enough rows."""
    weak, strong = _WEAK_AND_STRONG
    signal = raised_signal = _signal_to_noise(spec)
    if spec.is_pca and (rank := rank_or_none(spec.n_components)):
        # With few components the quantile is as high as for a larger signal; see `_FEW_COMPONENTS`.
        most = max(_FEW_COMPONENTS / max(rank - 1, 1), 1.0)
        raised_signal *= float(np.clip((signal / weak) ** 2, 1.0, most))
    growth = math.log(max(raised_signal, strong) / _SIGNAL_OF_MEDIAN)
    of_strong = min(_MEDIAN + _QUANTILE_GROWTH * growth, _NORM_QUANTILE)
    ends, quantiles = (math.log(weak), math.log(strong)), (_LOWEST_QUANTILE, of_strong)
    quantile = float(np.interp(math.log(max(raised_signal, weak)), ends, quantiles))
    # At this signal the quantile of strong signals reaches `_NORM_QUANTILE`.
    highest = _SIGNAL_OF_MEDIAN * math.exp((_NORM_QUANTILE - _MEDIAN) / _QUANTILE_GROWTH)
    distance = (highest / max(signal, highest)) ** _CLIPPED_POWER
    return 1 - distance * (1 - quantile)


def _signal_to_noise(spec: RowsSpec) -> float:
    """Divide the norm of the largest sum of rows by that of its noise, with the whole budget."""
    n_rows, n_features = spec.shape
    change = sensitivity.row_sum(1.0, spec.unit.adjacency)
    return n_rows * spec.cost.mu / (change * math.sqrt(n_features))


def plan_rows(spec: RowsSpec) -> RowReleases:
    """Plan all releases of a fit, in order, with all branches."""
    mean_norm = center = positivity = None
    if isinstance(spec.center, str):
        mean_norm = _plan_norm(spec, _MEAN_NORM) if spec.mean_norm is None else None
        center_share = float(np.clip(_CENTER_FACTOR / _signal_to_noise(spec), *_CENTER_LIMITS))
        center = _plan_mean(spec, MEAN, center_share)
    row_norm = _plan_norm(spec) if spec.row_norm is None else None
    if spec.guided_solvers:
        count = sensitivity.count
        positivity = spec.cost.release("positive rows", "gaussian", _POSITIVITY_SHARE, count, {})
    before = mean_norm, center, row_norm, positivity
    share = left_of(before)
    if spec.releases_mean and spec.center is None:
        branches = _plan_guided(spec, share)
    else:
        branches = _plan_centered(spec, share, center)
    return RowReleases(*before, AnyOf(branches))


def _plan_centered(spec: RowsSpec, share: float, center: Release | None) -> tuple[Branch, ...]:
    """Plan the branch that decomposes rows around their center, and the one with a second mean."""
    usual, row_norm = Branch((), None, _plan_solver(spec, share)), spec.row_norm
    if center is None or not spec.cost.is_private:
        return (usual,)
    bound = _ROW_NORM if row_norm is None else WIDER * row_norm
    mean = _plan_mean(spec, MEAN + AGAIN, _AGAIN_SHARE, bound)
    search = _plan_norm(spec, _ROW_NORM + AGAIN) if row_norm is None else None
    recentered = Branch((mean,), search, _plan_solver(spec, left_of(mean, search, total=share)))
    if row_norm is None or center.noise_std is None:
        # The branch depends on the bound or the noise of the center, which only releases will show.
        return usual, recentered
    return (recentered if needs_second_mean(spec, usual, center.noise_std, row_norm) else usual,)


def _plan_guided(spec: RowsSpec, share: float) -> tuple[Branch, ...]:
    """Plan the branch with a mean that guides no solver, and a branch for each guided solver."""
    mean = _plan_mean(spec, MEAN, _MEAN_SHARE)
    branches = [Branch((mean,), None, _plan_solver(spec, share - _MEAN_SHARE))]
    # If the signal is weak, the guiding mean gets a larger share: perhaps only the mean exceeds
    # noise.
    signal = _signal_to_noise(spec)
    first_share = float(np.clip(_GUIDE_FACTOR / math.sqrt(signal), *_GUIDE_LIMITS))
    both_shares = float(np.clip(_ITERATED_FACTOR / math.sqrt(signal), *_ITERATED_LIMITS))
    first, second_share = _plan_mean(spec, "guiding mean 1", first_share), both_shares - first_share
    share -= first_share
    for solver in spec.guided_solvers:
        if solver != "power":
            branches.append(Branch((first,), None, _plan_solver(spec, share)))
            continue
        second = _plan_mean(spec, "guiding mean 2", second_share)
        # With less noise more directions are visible, which takes more steps and columns.
        n_steps, n_extra, growth = _MANY_STEPS if signal >= _STRONG_SIGNAL else _FEW_STEPS
        n_columns = min(rank_of(spec) + n_extra, spec.shape[1] - 1)
        # Steps search for vectors orthogonal to the mean, which is added to the basis at the end.
        power = _plan_power(spec, share - second_share, n_steps, n_columns, growth, n_guides=1)
        branches.append(Branch((first, second), None, power))
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

    An error :math:`\delta` of the center adds :math:`\delta \delta^T` to the mean second moment.
    Along the direction of the error, this adds d times the variance of the noise, on average. The
    noise is large if rows are far from 0, as they are then clipped to a large norm for the mean.
    """
    n_rows, n_features = spec.shape
    change = sensitivity.second_moment(bound, spec.unit.adjacency) / n_rows
    share = 1 - left_of(usual.solver)
    noise_std = spec.cost.noise_std("symmetric_gaussian", change, share)
    edge = noise_edge(noise_std * math.sqrt(0.5), n_features)
    return n_features * mean_std**2 > _FAR * edge


def bound_of_mean(spec: RowsSpec) -> float | str:
    """Return the norm to which rows are clipped for their mean, or the name of its search."""
    if spec.mean_norm is not None:
        return spec.mean_norm
    if spec.center is not None:
        return _MEAN_NORM
    return _ROW_NORM if spec.row_norm is None else spec.row_norm


def _mean_change(row_norm: float, rounding: float, *, n_rows: int, adjacency: str) -> float:
    return sensitivity.row_sum(row_norm, adjacency, rounding) / n_rows


def _plan_moment(
    spec: RowsSpec, share: float, name: str, projected_shape: tuple[int, ...] = ()
) -> Release:
    """Plan the second moment or, with `projected_shape`, its projection on a basis."""
    bound: float | str = _ROW_NORM if spec.row_norm is None else spec.row_norm
    if spec.is_sparse and spec.center is not None:
        # Products of sparse rows are centered afterwards, so their rounding depends on the center.
        bound = MEAN if isinstance(spec.center, str) else "center"
    change = sensitivity.projected_spectrum if projected_shape else sensitivity.second_moment
    shape = projected_shape or (spec.shape[1],) * 2
    return plan_sum(spec, name, share, shape, bound, change, "symmetric_gaussian")


def _plan_power(
    spec: RowsSpec, share: float, n_steps: int, n_columns: int, growth: float, n_guides: int = 0
) -> PowerReleases:
    """Plan a clip level and a product for each step, and the second moment in the final basis.

    A product is the second moment times a basis, with clipped projections of the rows. The final
    basis has `n_guides` more columns. The moment has one more row and column, for the variance
    outside the basis.
    """
    shares = growing_shares(share * (1 - _LEVEL_SHARE - _SPECTRUM_SHARE), n_steps, growth)
    change = partial(sensitivity.clipped_projection, adjacency=spec.unit.adjacency)
    # Without noise nothing is clipped.
    known = None if spec.cost.is_private else {"row_norm": spec.row_norm, "level": math.inf}
    steps, shape = list[tuple[Release | None, Release]](), (spec.shape[1], n_columns)
    for step, part in enumerate(shares, start=1):
        follows, name = f"clip level {step}", f"step {step}"
        level = _plan_level(spec, follows, share * _LEVEL_SHARE / n_steps)
        product = spec.cost.release(
            name, "gaussian", part, change, known, follows=follows, shape=shape
        )
        steps.append((level, product))
    name, order = "projected second moment", n_columns + n_guides + 1
    moment = _plan_moment(spec, share * _SPECTRUM_SHARE, name, projected_shape=(order, order))
    return PowerReleases(tuple(steps), moment)


def _plan_level(spec: RowsSpec, name: str, share: float) -> Release | None:
    """Plan counts of norms, which give a level to clip to; without noise nothing is clipped."""
    return plan_histogram(spec, name, share, N_LEVELS) if spec.cost.is_private else None


# ------------------------------
# Left factors of a matrix whose rows are protected.

# The share of the projected rows is mu, within limits. With a small budget noise hides all of them,
# so that a larger share for the components gains more. `_PROJECTION_LEVEL` is the share for the
# choice of the norm to which projected rows are clipped.
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
    follows = "level of projected rows"
    level = _plan_level(spec, follows, _PROJECTION_LEVEL)
    # The norm and the components share `rest`, which the other releases leave.
    rest = 1 - math.fsum([share, _MEAN_SHARE, _PROJECTION_LEVEL])
    before = replace(spec, cost=replace(spec.cost, part=rest))
    row_norm = _plan_norm(before) if spec.row_norm is None else None
    change = partial(sensitivity.row_sum, adjacency=spec.unit.adjacency)
    known = None if spec.cost.is_private else {"row_norm": math.inf}
    name, shape = "projected rows", (spec.shape[0], rank_of(spec))
    projected = spec.cost.release(
        name, "gaussian", share, change, known, follows=follows, shape=shape
    )
    components = _plan_solver(before, 1.0 - _NORM_SHARE * (spec.row_norm is None))
    mean = _plan_mean(spec, MEAN, _MEAN_SHARE)
    return RowFactorReleases(row_norm, components, mean, level, projected)
