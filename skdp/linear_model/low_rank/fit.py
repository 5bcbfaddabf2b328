"""The fit of a trace regression: from records and a budget to released coefficients."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdp.data.matrices import Design
from skdp.data.parts import Targets
from skdp.data.sources import Source
from skdp.exceptions import counted
from skdp.linalg.matrices import FixedRank, Matrices
from skdp.linear_model import _descent as descents
from skdp.linear_model._weighted_rows import bounds_of, standardization
from skdp.linear_model.low_rank import descent as trace_descent
from skdp.linear_model.low_rank import records as trace_records
from skdp.linear_model.low_rank.descent import Estimate, RecordClipping, ResponseClipping
from skdp.linear_model.low_rank.plan import FittedReleases, TraceReleases, covariance_bound
from skdp.linear_model.low_rank.records import Records, Spread, release_margins, release_norm
from skdp.linear_model.low_rank.spec import TraceSpec, smaller
from skdp.preprocessing.scales import MOST_NOISE, Scales, release_scales, warnings_for_hidden
from skdp.privacy import Plan, PrivacyBudget, Release
from skdp.privacy.plan import branches_of
from skdp.privacy.releases import SCALE_GRID

# ------------------------------
# Maps that center, scale and whiten matrices, by public facts or released values.


@dataclass(frozen=True)
class Transform:
    r"""The map from matrices X to fitted ones, :math:`A\,((X - C) \circ S)\,B`."""

    center: np.ndarray | None = None  # C; None for 0
    multiplier: Any = 1.0  # S: a number or, for rows of features, one for each entry
    maps: trace_records.Maps = (None, None)  # A and B
    least_variance: float = 1.0  # estimated, of fitted matrices along any direction
    are_rare: bool = False  # whether most features have one value in most records
    largest: np.ndarray | None = None  # sizes to which entries of (X - C) * S are clipped
    # Covariance of all entries of fitted matrices, if it is public; None also for the identity.
    covariance: np.ndarray | None = None

    def undo(self, estimate: Estimate) -> Estimate:
        """Return the estimate with coefficients and intercept for the matrices as passed to fit."""
        point = estimate.point
        # As A and B are symmetric, coefficients M of A Z B are coefficients A M B of Z.
        left, right = map(_mapped, self.maps, (point.left, point.right))
        values = point.values
        if np.ndim(self.multiplier) == 0:
            values = values * self.multiplier
        elif len(right) == 1:  # Matrices are columns, with one multiplier for each entry.
            left = left * self.multiplier
        else:
            right = right * self.multiplier.T
        undone, offset = FixedRank(left, values, right).orthonormal(), estimate.offset
        if self.center is not None:
            offset -= float(np.vdot(undone.matrix, self.center))
        return replace(estimate, point=undone, offset=offset)


def _mapped(symmetric: np.ndarray | None, vectors: np.ndarray) -> np.ndarray:
    """Multiply vectors, in columns, by a symmetric matrix: whole, a diagonal, or None for I."""
    if symmetric is None:
        return vectors
    return symmetric[:, np.newaxis] * vectors if symmetric.ndim == 1 else symmetric @ vectors


def inverse_root(covariance: np.ndarray) -> np.ndarray:
    """Return the inverse of the symmetric root of a covariance, which whitens vectors."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors / np.sqrt(values)) @ vectors.T)


def mapped_by(covariances: trace_records.Maps, shape: tuple[int, int]) -> Transform:
    """Return the map that whitens by public covariances, of rows and columns or of all entries."""
    if len(covariances) == 2:
        return Transform(
            maps=[None if side is None else inverse_root(side) for side in covariances]
        )
    (covariance,) = covariances
    assert covariance is not None
    by_places, n_columns = covariance.reshape(*shape, *shape), shape[1]
    row_map = inverse_root(np.einsum("ijkj->ik", by_places) / n_columns)
    column_map = inverse_root(np.einsum("ijil->jl", by_places) * n_columns / np.trace(covariance))
    both = np.kron(row_map, column_map)
    return Transform(maps=(row_map, column_map), covariance=both @ covariance @ both)


# ------------------------------
# Features scaled to mean 0 and variance 1: by released scales or, for public features, exactly.

# A feature is rare if at most this fraction of the records differ from its most frequent value.
_RARE = 0.25  # not studied
# If most features are rare, and fewer of them than this differ from their most frequent value in an
# average record, many records have gradients near 0.
_FEW_RARE = 2.0  # not studied
# Standardized entries are clipped to `_LARGEST`, studied in
# benchmarks/trace_regression/unlike_columns.md, "spiked" and "linear in long tails"; or, for
# features whose scale noise hides, to `_LARGEST_OF_HIDDEN` times an assumed scale.
_LARGEST, _LARGEST_OF_HIDDEN = 16.0, 1.0

# Medians of public features come from a sample of about `_SAMPLE_ENTRIES` entries, whose number of
# rows is within `_SAMPLE_ROWS`; not studied.
_SAMPLE_ROWS = (400, 10_000)
_SAMPLE_ENTRIES = 1 << 21
# Larger entries of public features count as 0: their squares could overflow.
_LARGEST_USABLE = 1e100  # not studied


def standardized_by(scales: Scales, spec: TraceSpec) -> Transform:
    """Return the map that standardizes features by released scales, and clips them in private fits.

    Features whose scale noise hides are clipped to a value of their own.
    """
    center, multiplier = standardization(scales, spec, is_centered=spec.fit_intercept)
    center = None if center is None else center.reshape(spec.matrix_shape)
    largest = None
    if spec.cost.is_private:
        largest = np.where(scales.is_void, _LARGEST_OF_HIDDEN, _LARGEST).reshape(spec.matrix_shape)
    are_rare = _are_rare(scales.off_mode)
    multiplier = multiplier.reshape(spec.matrix_shape)
    return Transform(center, multiplier, are_rare=are_rare, largest=largest)


def _are_rare(off_mode: np.ndarray) -> bool:
    """Return whether gradients of many records are near 0, as most features are rare.

    `off_mode` has, for each feature, the fraction of records without its most frequent value.
    """
    is_rare = off_mode < _RARE
    return bool(is_rare.mean() >= 0.5 and off_mode[is_rare].sum() < _FEW_RARE)


def exact_standardization(design: Design, *, centered: bool) -> Transform:
    """Return the map that standardizes public features, from a sample of evenly spaced rows.

    For means and standard deviations, an outlier counts as the median of its feature, or as 0 if
    features are not centered.
    """
    most_rows = int(np.clip(_SAMPLE_ENTRIES // design.n_entries, *_SAMPLE_ROWS))
    places = np.linspace(0, design.n_records - 1, min(most_rows, design.n_records)).astype(np.int64)
    assert isinstance(design.source, Source)
    rows = design.source.X[places]
    sample = np.array(rows.toarray() if issparse(rows) else rows, dtype=np.float64)
    sample[np.abs(sample) > _LARGEST_USABLE] = 0.0
    medians = np.median(sample, axis=0)
    origin = medians if centered else np.zeros(design.n_entries)
    differences = sample - origin
    largest = np.array(
        [trace_records.outlier_threshold(np.abs(column)) for column in differences.T]
    )
    inliers = np.where(np.abs(differences) <= largest, differences, 0.0)
    shift = inliers.mean(axis=0) if centered else np.zeros(design.n_entries)
    stds = np.sqrt(np.square(inliers - shift).mean(axis=0))
    stds[~((stds > SCALE_GRID[0]) & (stds < SCALE_GRID[-1]))] = 1.0
    are_rare = _are_rare((sample != medians).mean(axis=0))
    shape = design.matrix_shape
    center = (origin + shift).reshape(shape) if centered else None
    return Transform(center, (1 / stds).reshape(shape), are_rare=are_rare)


# ------------------------------
# Warnings, from public facts and released values.

# A fit whose `signal_strength` is below this is useless:
# benchmarks/trace_regression/errors.md, "How many records it takes".
_LEAST_SIGNAL = 2.0
# Least signal relative to the noise along one singular vector: `_LEAST_SIGNAL_OF_CELLS` for cells
# of tables, `_LEAST_SIGNAL_OF_OUTER` for other matrices of rank one:
# docs/user_guide/low_rank_regression.rst, "When it cannot work", and for cells
# benchmarks/trace_regression/unlike_data.md, "strength".
_LEAST_SIGNAL_OF_OUTER, _LEAST_SIGNAL_OF_CELLS = 5.0, 7.0

# If most responses are equal, and the signal of those that differ is below this, all coefficients
# become 0: of 42 such fits on random designs of four kinds, one was better than the mean. Not
# studied beyond.
_LEAST_OF_RARE = 0.75


def warnings_for_size(spec: TraceSpec, plan: Plan) -> Iterator[str]:
    """Warn of too few units for coefficients, or for scales of features, from public facts."""
    if not spec.cost.is_private:
        return
    few = f"Too few {spec.unit.counted}, {spec.n_units} with epsilon={spec.cost.epsilon:g},"
    strength, least = spec.signal_strength, _least_signal(spec)
    if strength < least:
        reason = "each record depends on few coefficients, and noise easily hides them"
        if strength < _LEAST_SIGNAL:
            reason = "the coefficients are mostly noise"
        yield (
            f"{few} for {counted(spec.n_free, 'coefficient')}: {reason}. Pass some "
            f"{least / strength:.2g} times as many {spec.unit.counted}, a larger epsilon, or "
            f"{_fewer(spec)}."
        )
    features = plan.parts.features
    # Centers and scales of features follow from the last release of a branch, their moments.
    if features is not None and (branches_of(features)[0][-1].noise_std or 0.0) > MOST_NOISE:
        yield (
            f"{few} to scale {counted(spec.n_entries, 'feature')} one by one: noise hides most of "
            f"the centers and scales. Pass more {spec.unit.counted}, a larger epsilon, or fewer "
            "features, or fit DPLinearRegression with bounds that are known without looking at X."
        )


def warnings_for_fit(
    spec: TraceSpec, spread: Spread, transform: Transform, n_cut: int
) -> Iterator[str]:
    """Warn of guessed scales, rare responses or cells, and hidden singular values."""
    off_center = spread.fraction_off_center
    least, strength = _least_signal(spec), spec.signal_strength
    # The signal would suffice if all responses differed from the center.
    are_too_few = off_center < 1 and off_center * strength < least <= strength
    if spread.is_guess:
        yield f"{trace_records.GUESSED_SPREAD} {spec.unit.counted}."
    elif spec.cost.is_private and are_too_few and min(spec.matrix_shape) > 1:
        all_are_0 = are_hidden(spec, off_center)
        loss = "All coefficients are 0" if all_are_0 else "Predictions may be worse than a constant"
        yield descents.warning_of_rare(spec, _fewer(spec), loss)
        n_cut = 0
    if spec.are_cells and spec.cost.is_private and _has_rare_cells(spec, transform):
        yield (
            "Predictions of some cells are mostly noise: their rows or columns are observed so "
            "much more rarely than others. Leave rarely observed rows and columns out, or pass "
            f"{'a smaller rank, ' * (spec.rank > 1)}a larger epsilon, or more "
            f"{spec.unit.counted}."
        )
    if n_cut:
        is_all = n_cut == spec.rank
        cut = "The" if is_all else f"{n_cut} of {spec.rank} singular values of the"
        yield (
            f"{cut} coefficients do not stand out from the noise and are 0. Pass "
            f"{_fewer(spec)}, a larger epsilon, or more {spec.unit.counted}."
        )


def are_hidden(spec: TraceSpec, off_center: float) -> bool:
    """Return whether too few responses differ from the center for a fit to beat a constant.

    `off_center` is the fraction of responses that differ.
    """
    strength = off_center * spec.signal_strength * math.sqrt(spec.rank)
    return spec.cost.is_private and off_center < 1 and strength < _LEAST_OF_RARE


def _fewer(spec: TraceSpec) -> str:
    """Name the parameters to reduce for fewer coefficients, for warnings."""
    # Coefficients of rows of features have no rank to choose.
    return "fewer features" if min(spec.matrix_shape) == 1 else smaller(spec.rank)


def _has_rare_cells(spec: TraceSpec, transform: Transform) -> bool:
    """Return whether the signal is too small in rare rows or columns, but would suffice otherwise.

    It would suffice if all rows and columns of the table were observed equally often.
    """
    least, unevenness = _least_signal(spec), 1.0
    for roots in transform.maps:
        if roots is None:
            return False
        if roots.ndim == 1:
            # `roots` are inverse roots of the frequencies of rows, or columns. The factor is 1 if
            # all frequencies are equal, else larger.
            inverses = np.square(roots)
            unevenness *= float(np.mean(inverses) * np.mean(1 / inverses))
    return least <= spec.signal_strength < least * math.sqrt(unevenness)


def _least_signal(spec: TraceSpec) -> float:
    """Return the least `signal_strength` with which a fit is useful, from public facts.

    Matrices of rank one need more, as each record depends on few coefficients: each singular vector
    must stand out from the noise along it, a small part of the noise of all coefficients.
    """
    shape = spec.matrix_shape
    if spec.factors is None or min(shape) == 1:
        return _LEAST_SIGNAL
    least = _LEAST_SIGNAL_OF_CELLS if spec.are_cells else _LEAST_SIGNAL_OF_OUTER
    return max(_LEAST_SIGNAL, least / math.sqrt(spec.n_free / sum(shape)))


# ------------------------------
# The fit.

# Wanted fractions of unclipped gradients: usually `_QUANTILE`, with a strong signal
# `_QUANTILE_OF_STRONG`, and for gradients of very different lengths `_QUANTILE_OF_UNLIKE`.
# benchmarks/trace_regression/errors.md, "Designs"; defaults.md, "quantile";
# benchmarks/house/constants.md. .8 is not studied.
_QUANTILE, _QUANTILE_OF_STRONG, _QUANTILE_OF_UNLIKE = 0.5, 0.8, 0.9
# A signal is strong if `signal_strength` exceeds this: clipping at the usual fraction then costs
# more than it saves; not studied.
_STRONG_SIGNAL = 300.0
# The wanted ratio of the bias of clipped gradients to their noise is `_WANTED_BIAS` for rows of
# features, and `_WANTED_BIAS_OF_MATRICES` for matrices, where the bias hardly changes directions.
# At least the fraction `_LEAST_CLIPPED` is clipped. benchmarks/budgets/clipping.md,
# benchmarks/trace_regression/unlike_data.md and benchmarks/seeds/seeds.md
_WANTED_BIAS, _WANTED_BIAS_OF_MATRICES, _LEAST_CLIPPED = 40.0, 160.0, 1e-4
# If the norm of the released mean matrix exceeds this fraction of the median norm of the matrices,
# further means are released, each around the last center.
_FAR = 0.5  # not tuned
# If the ratio of the mean squares of residuals and of responses exceeds `_NO_BETTER`, the fit
# warns; above `_WORSE`, coefficients become 0. benchmarks/trace_regression/unlike_data.md
_NO_BETTER, _WORSE = 0.9, 1.1
# Assumed size of the mean of responses, in units of their spread, if no center is subtracted.
_MEAN_AROUND_0 = 1.0  # not studied
# A released median may be any value if its counts have more noise than this fraction of the units.
_ROUGH = 0.1  # not studied
# Largest norm of coefficients, in units of the spread of the responses: `_SPREAD_MARGIN` with a
# public covariance; and `_RELEASED_MARGIN`, over the root of the least variance, with a released
# covariance. Not studied.
_SPREAD_MARGIN = 1.1
_RELEASED_MARGIN = 1.5


def solve_trace(
    spec: TraceSpec, plan: TraceReleases, view: Records, budget: PrivacyBudget
) -> Estimate:
    """Release the scales of matrices, then the coefficients and the intercept."""
    center, bounded = 0.0, partial(descents.bounded, bound=spec.response_bound)
    responses, design = view.responses.mapped(bounded), view.design
    if plan.response_center:
        center = descents.median_of_responses(plan.response_center, responses, budget, design)
        responses = view.responses.mapped(partial(bounded, center=center))
    branch, scaled, transform = plan.branches.branches[0], design, Transform()
    if spec.covariance == "private":
        scales, branch = _scales(spec, plan, design, responses, budget)
        scaled = replace(
            design, center=scales.center, multiplier=scales.multiplier, largest=scales.largest
        )
        maps, least = trace_records.release_whitening(
            branch.covariances, scaled, responses, budget, covariance_bound(spec)
        )
        transform = replace(scales, maps=maps, least_variance=least)
    elif not isinstance(spec.covariance, str):
        transform = mapped_by(spec.covariance, spec.matrix_shape)
    # Without noise, an infinite spread of the responses stands for no clipping.
    spread, farthest = Spread(math.inf), spec.response_bound + abs(center)
    if branch.response_spread is not None:
        counts = trace_records.count_responses(responses, design)
        spread = trace_records.release_spread(
            branch.response_spread, counts, budget, farthest, spec.n_units
        )
    # If no center is released, the center is 0.
    is_rough = center != 0 and (plan.response_center[0].noise_std or 0.0) > _ROUGH * spec.n_units
    if is_rough and 0.7 < spread.size / abs(center) < 1.4:
        # The center is noise: most responses are as far from it as 0 is, so these are near 0.
        center, spread = 0.0, Spread(trace_records.LEAST_SPREAD, is_guess=True)
        responses = view.responses.mapped(bounded)
    usual_mean = trace_records.USUAL_MEAN if center else _MEAN_AROUND_0
    records = Records(scaled, responses, view.intercept, transform.covariance)
    fit = _Fit(spec, branch, transform, spread, farthest, usual_mean, budget)
    estimate = (fit.matrices if branch.margins is None else fit.table)(records)
    at_bound = tuple(descents.warnings_for_bound(center, spec.response_bound))
    about_fit = warnings_for_fit(spec, spread, transform, estimate.n_cut)
    return replace(
        estimate,
        offset=center + estimate.offset,
        warnings=at_bound or (*estimate.warnings, *about_fit),
        bounds=bounds_of(transform.center, transform.multiplier, transform.largest),
    )


def _scales(
    spec: TraceSpec, plan: TraceReleases, design: Design, responses: Targets, budget: PrivacyBudget
) -> tuple[Transform, FittedReleases]:
    """Return the map that gives entries mean square 1, and the branch of remaining releases.

    Features are scaled one by one, entries of other matrices all by one number. The plan has a
    branch for matrices far from 0, with releases of further means, and one for all others.
    """
    (usual, *centered), size = plan.branches.branches, math.sqrt(design.n_entries)
    if plan.features is not None:
        shape = design.n_records, design.n_entries
        scales = release_scales(plan.features, design, shape, None, budget)
        budget.warnings += warnings_for_hidden(
            scales.are_hidden() & spec.cost.is_private,
            "Subtract a public guess of the centers of features, or fit DPLinearRegression with "
            "bounds that are known without looking at X.",
        )
        return standardized_by(scales, spec), usual
    if plan.first_center is not None:
        # If the first mean is far from 0, further means around it refine the center.
        design = replace(design, center=np.zeros(design.matrix_shape))
        release = partial(trace_records.release_center, responses=responses, budget=budget)
        center, norm = release(plan.first_center, design)
        if float(np.linalg.norm(center)) <= _FAR * norm:
            return Transform(center if center.any() else None, size / norm), usual
        (branch,) = centered
        for releases in branch.centers:
            center = center + release(releases, replace(design, center=center))[0]
        norm = release_norm(branch.matrix_norm, replace(design, center=center), responses, budget)
        return Transform(center, size / norm), branch
    if usual.matrix_norm is not None:
        norm = release_norm(usual.matrix_norm, design, responses, budget)
        return Transform(None, size / norm), usual
    if spec.is_vector:
        return exact_standardization(design, centered=spec.fit_intercept), usual
    public = trace_records.public_center(design) if spec.is_centered else None
    exact = float(np.median(replace(design, center=public).norms()))
    norm = exact if SCALE_GRID[0] <= exact <= SCALE_GRID[-1] else 1.0
    return Transform(public, size / norm), usual


@dataclass(frozen=True)
class _Fit:
    """The fit after the release of scales: a descent, and corrections of its result."""

    spec: TraceSpec
    plan: FittedReleases
    transform: Transform
    spread: Spread  # of centered responses
    farthest: float  # public bound of centered responses
    usual_mean: float  # assumed size of the mean of centered responses, in units of `spread`
    budget: PrivacyBudget

    def matrices(self, records: Records) -> Estimate:
        """Fit coefficients; they become 0 if released residuals are larger than the responses.

        If residuals are nearly as large, the fit warns.
        """
        mapped = replace(records, design=records.design.mapped(*self.transform.maps))
        estimate = self._descend(mapped)
        if self.plan.last_spread is not None:
            counts = mapped.counted_residuals(estimate.point, estimate.offset * mapped.intercept)
            # An infinite bound: otherwise, residuals that noise hides would count as the bound.
            spread = trace_records.release_spread(
                self.plan.last_spread, counts, self.budget, math.inf, self.spec.n_units
            )
            ratio = self._residual_ratio(spread)
            if ratio > _WORSE:
                estimate = estimate.without_coefficients(
                    self.spread.of_all * self.usual_mean,
                    "All coefficients are 0: the descent ended where predictions are worse than a "
                    f"constant. Pass more {self.spec.unit.counted}, a larger epsilon, or "
                    f"{_fewer(self.spec)}.",
                )
                estimate = replace(estimate, n_cut=0)
            elif ratio > _NO_BETTER and not estimate.warnings and estimate.n_cut < self.spec.rank:
                reason = "residuals are about as large as the responses"
                doubt = descents.warning_of_doubt(self.spec, _fewer(self.spec), reason)
                estimate = replace(estimate, warnings=(doubt,))
        return self.transform.undo(estimate)

    def table(self, records: Records) -> Estimate:
        """Fit the cells of a table: means of rows and columns, then low-rank coefficients.

        Row and column means of the residuals then correct the first means.
        """
        plan, transform, budget = self.plan, self.transform, self.budget
        assert plan.margins is not None
        assert plan.last_margins is not None
        shape, maps = self.spec.matrix_shape, transform.maps
        margins, mean = release_margins(plan.margins, records, maps, self.spread.size, budget)
        fitted = trace_records.matrix_of_margins(margins, shape)
        residuals = records.without(fitted, mean)
        mapped = replace(residuals, design=residuals.design.mapped(*maps))
        estimate = self._descend(mapped)
        residuals = mapped.without(estimate.point, estimate.offset * mapped.intercept)
        size, are_noise = math.inf, False
        if plan.last_spread is not None:
            counts = trace_records.count_responses(residuals.responses, records.design)
            last = trace_records.release_spread(
                plan.last_spread, counts, budget, self.farthest, self.spec.n_units
            )
            size = last.size
            if self._residual_ratio(last) > _WORSE:
                # The coefficients are noise or, if all of these are cut, the means are.
                size, are_noise = self.spread.size, estimate.n_cut == self.spec.rank
                estimate = estimate.without_coefficients(size * self.usual_mean)
                estimate = replace(estimate, n_cut=self.spec.rank)
                residuals = mapped.without(estimate.point, estimate.offset * mapped.intercept)
        records = replace(records, responses=residuals.responses)
        corrections, shift = release_margins(plan.last_margins, records, maps, size, budget)
        # With hardly any signal, the noise of the corrections costs more than they gain.
        is_lost = self.spec.cost.is_private and self.spec.signal_strength < _LEAST_SIGNAL / 2
        margins = margins * (not are_noise) + corrections * (not (are_noise or is_lost))
        # A fit warns of cut singular values only if noise hides row and column means, too.
        n_cut = 0 if margins.any() else estimate.n_cut
        estimate = transform.undo(estimate)
        fitted = trace_records.matrix_of_margins(margins, shape)
        scaled = fitted.with_values(-transform.multiplier * np.ones(2))
        point = estimate.point.minus(scaled).orthonormal().leading(min(self.spec.rank + 2, *shape))
        return replace(estimate, point=point, offset=estimate.offset + (mean + shift), n_cut=n_cut)

    def _descend(self, records: Records) -> Estimate:
        """Start, descend and, if planned, calibrate the result."""
        spec, plan, spread = self.spec, self.plan, self.spread
        if plan.start is None:
            start = trace_descent.random_start(
                spec.matrix_shape, spec.rank, self.budget.public_generator
            )
        else:
            start = trace_descent.release_start(spec, plan.start, records, spread.size, self.budget)
        clipping = RecordClipping(records)
        if not spec.unit.is_whole:
            clipping = ResponseClipping(records, 2 * spec.response_bound)
        bounds, quantile = self._bounds(), self._quantile(records)
        estimate = trace_descent.descend(
            spec, plan.steps, clipping, start, spread, quantile, bounds, self.budget
        )
        # Bound of the mean response: the size of responses off the center, times their fraction.
        largest_mean = max(spread.size * spread.fraction_off_center, trace_records.LEAST_SPREAD)
        if are_hidden(spec, spread.fraction_off_center):
            estimate = estimate.without_coefficients(largest_mean)
        elif plan.calibration is not None:
            # The intercept is shrunk by its noise, relative to the usual size of a mean response.
            noise = estimate.noise_std / (largest_mean * self.usual_mean)
            offset = estimate.offset / (1 + noise**2)
            if estimate.n_cut == spec.rank:
                offset = min(max(offset, -largest_mean), largest_mean)
            estimate = replace(estimate, offset=offset)
        if plan.calibration is not None:
            # Coefficients that are 0 stay 0, but the intercept is corrected.
            estimate = self._calibrated(plan.calibration, records, estimate)
        return replace(estimate, start_ratios=start.ratios)

    def _quantile(self, records: Records) -> float:
        """Return the wanted fraction of unclipped gradients, from public and released facts.

        A low fraction has the least noise. With hardly any noise, the fraction is high, as clipping
        biases a fit. It is also high for sparse matrices and matrices of rank one, whose gradients
        differ much in length. If most responses are equal, at least half of the other records
        are left unclipped.
        """
        spec, off_center = self.spec, self.spread.fraction_off_center
        if not isinstance(spec.clip_quantile, str):
            return spec.clip_quantile
        usual = _QUANTILE_OF_STRONG if spec.signal_strength > _STRONG_SIGNAL else _QUANTILE
        stores_entries = records.design.stores_entries
        wanted = _WANTED_BIAS if spec.is_vector and stores_entries else _WANTED_BIAS_OF_MATRICES
        if self.transform.are_rare or not stores_entries:
            usual = _QUANTILE_OF_UNLIKE
        if off_center < 1:
            usual = max(_QUANTILE_OF_UNLIKE, 1 - off_center / 2)
        strength = spec.signal_strength * math.sqrt(spec.n_free)
        limits = _LEAST_CLIPPED, 1 - usual
        return 1 - descents.clipped_fraction(strength, wanted, limits, power=2)

    def _bounds(self) -> tuple[float, float]:
        """Bound the norm of coefficients from above, and the curvature of the loss from below.

        For uncorrelated features of variance 1, the norm of coefficients is at most the spread of
        the responses. Matrices with enough signal need no bounds.
        """
        spec, transform = self.spec, self.transform
        if min(spec.matrix_shape) > 1 and spec.signal_strength >= _LEAST_SIGNAL:
            return math.inf, 1.0
        maps = zip(transform.maps, spec.matrix_shape, strict=True)
        is_mapped = all(one is not None for one, size in maps if size > 1)
        # Without whitening, the smallest variance is unknown: some cells of a table may be rare.
        is_white = spec.covariance == "identity" or (is_mapped and transform.covariance is None)
        least = transform.least_variance if is_white else 0.0
        largest = _SPREAD_MARGIN * self.spread.size if is_white else math.inf
        if spec.covariance == "private":
            root = math.sqrt(max(transform.least_variance, 1e-12))
            largest = _RELEASED_MARGIN * self.spread.size / root
        return largest, least

    def _calibrated(self, release: Release, records: Records, estimate: Estimate) -> Estimate:
        """Multiply coefficients by a released factor, and add a released mean to the intercept.

        All numbers of the calibration are in units of the spread of the responses.
        """
        spec, warnings, bounds = self.spec, estimate.warnings, descents.CALIBRATED
        design, unit, point = records.design, self.spread.of_all, estimate.point
        offset = records.intercept * estimate.offset
        noise = estimate.noise_std * math.sqrt(point.rank * sum(point.shape))
        size = (max(float(np.linalg.norm(point.values)), min(noise, unit)) / unit) or 1.0

        def _sums(rows: slice, matrices: Matrices) -> np.ndarray:
            predicted = matrices.tangent(point, 0.0)[1] / unit
            true = (records.responses[rows] - offset) / unit
            return descents.calibration_sums(matrices, predicted, true, size, bounds)

        means = self.budget.release(release, design.map_sum(_sums, 3)).mean(design.n_records)
        off_center = self.spread.fraction_off_center
        calibration = descents.calibration_of(means, size, noise / unit, off_center, bounds)
        # Too few records, and coefficients that are all 0, have warnings of their own.
        is_news = spec.signal_strength >= _least_signal(spec) and estimate.n_cut < spec.rank
        if calibration.is_doubtful and is_news:
            warnings += (descents.warning_of_doubt(spec, _fewer(spec)),)
        point = point.with_values(calibration.factor * point.values)
        offset = estimate.offset + spec.fit_intercept * unit * calibration.mean
        return replace(estimate, point=point, offset=offset, warnings=warnings)

    def _residual_ratio(self, of_residuals: Spread) -> float:
        """Return the ratio of mean squares of residuals and of responses; 0 if it is unknown."""
        # If few responses differ from the center, noise may hide how large these few are.
        spread = self.spread
        is_known = spread.fraction_off_center == 1 and not spread.is_guess
        return (of_residuals.of_all / spread.of_all) ** 2 if is_known else 0.0
