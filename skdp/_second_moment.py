"""A released second moment of scaled rows, and covariances from it."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from skdp._marginals import are_whole, plan_marginals
from skdp.data.containers import finite
from skdp.data.rows import DenseBlock, Rows
from skdp.linalg import denoising
from skdp.linalg.norms import row_norms
from skdp.linalg.spectrum import noise_edge
from skdp.preprocessing import scales as column_scales
from skdp.preprocessing.scales import ScaleReleases, Scales, ScaleSpec
from skdp.privacy import PrivacyBudget, Release, sensitivity
from skdp.privacy.clipping import NO_CLIPPING, weighting_to
from skdp.privacy.plan import left_of

# ------------------------------
# The plan: scales of columns, and the second moment of scaled rows.

# Least and largest share of the budget for the scales of columns. The strength of a fit to n rows
# of d columns is n mu / d, with mu from Gaussian differential privacy. From the strength `WEAK` on,
# the share is the least one. Below `WEAK`, the share grows as one over the root of the strength, up
# to the largest one. Chosen on half of the sweep's tables.
_SCALES_SHARES = 0.35, 0.6  # benchmarks/sweep/sweep.md
# Fraction of the share for scales that histograms of entries by size get. The fraction is large, as
# a regression is worst if noise hides the size of its target.
_OF_SIZES = 0.55  # benchmarks/sweep/sweep.md
# Below the strength `WEAK`, rows of d columns are clipped to the root of d + 1, entries to `_ENTRY`
# standard deviations, and a warning says that fits of single models are better. Above `WEAK`
# there is less noise, and less clipping is best: the clipping norm of rows grows with the fourth
# root of the strength or, from `_CLEAR_FACTOR` times its least value on, with the power 3/8. The
# clip level of entries grows with the square of the clipping norm of rows, but does not exceed this
# norm. benchmarks/sweep/sweep.md.
WEAK, _CLEAR_FACTOR, _ENTRY = 100.0, 3.0, 5.0  # benchmarks/covariance/covariance.md
# With more than `_MANY` columns there is more noise, and the lengths of rows vary less. So clipping
# is chosen for a smaller strength: the strength divided by the root of d / `_MANY`.
# benchmarks/covariance/covariance.md, "Rare targets, ...".
_MANY = 10.0
# If the strength reaches `WEAK` and `_PER_ROOT` times the root of d, two moments are released. The
# first, rough one gets the fraction `_OF_ROUGH` of the share. If it whitens the rows of the second
# one, the noise of the second one is in proportion to the variance along each direction.
_PER_ROOT, _OF_ROUGH = 15.0, 0.2  # benchmarks/covariance/covariance.md
# Columns are nearly collinear if an eigenvalue of the rough moment is below the noise, or below
# this fraction of the mean eigenvalue. Only then does the rough moment whiten the rows of the
# second moment; otherwise both moments are averaged.
_COLLINEAR = 0.1  # benchmarks/covariance/covariance.md, "Nearly collinear columns"
# If public bounds give the scales, this mean square of an entry is assumed for the clipping norm of
# rows: that of entries distributed uniformly between the bounds.
_USUAL_SQUARE = 1 / 3  # benchmarks/covariance/bounds.md


@dataclass(frozen=True, kw_only=True)
class CovarianceSpec(ScaleSpec):
    """Parameters of a fit, and public facts, including the dtypes of columns."""

    assume_centered: bool  # whether columns have the mean 0, so that no center is subtracted
    scales: str | None  # "bounds", or None for private ones
    marginals: bool
    dtypes: tuple[str, ...]
    prior: np.ndarray | None

    @property
    def are_binary(self) -> np.ndarray:
        """Return which columns have only 0 and 1, by dtypes and bounds."""
        low, high = self.interval or (0.0, 1.0)
        return np.asarray((low == 0) & (high == 1)) & are_whole(self.dtypes)


class CovarianceReleases(NamedTuple):
    """Releases of a fit, in order."""

    scales: ScaleReleases | None
    rough: Release | None
    moment: Release
    marginals: Release | None


def strength_of(spec: ScaleSpec) -> float:
    """Return n mu / d: how strong the moment of n rows of d columns is, relative to its noise."""
    return spec.n_units * spec.cost.mu / spec.n_features


def clip_of(spec: CovarianceSpec) -> tuple[float, float]:
    """Return the clipping norm of scaled rows with a 1 appended, and the bound of their entries."""
    entry = math.inf if spec.scales is None else 1.0
    if not spec.cost.is_private:
        return NO_CLIPPING, entry
    if spec.scales is not None:
        return math.sqrt(_USUAL_SQUARE * spec.n_features + 1), entry
    strength = strength_of(spec) / WEAK * min(1.0, math.sqrt(_MANY / spec.n_features))
    factor = max(1.0, strength**0.25, strength**0.375 / math.sqrt(_CLEAR_FACTOR))
    row_norm = factor * math.sqrt(spec.n_features + 1)
    # Entries are clipped, too: a single long entry would shorten its whole row, and models that are
    # computed from the moment do not allow for such shortening.
    return row_norm, min(_ENTRY * factor**2, row_norm)


def plan_covariance(spec: CovarianceSpec) -> CovarianceReleases:
    """Plan all releases, in order; the last moment gets the share that other releases leave."""
    n_counted = int((~spec.are_binary).sum()) if spec.marginals else 0
    marginals = plan_marginals(spec.cost, n_counted, spec.unit.adjacency)
    left, scales, scales_share = left_of(marginals), None, 0.0
    if spec.scales is None:
        least, largest = _SCALES_SHARES
        part = float(np.clip(least * math.sqrt(WEAK / strength_of(spec)), least, largest))
        scales_share = left * part
        scales = column_scales.plan_scales_by_share(spec, scales_share, _OF_SIZES)
    change = partial(_moment_change, n_units=spec.n_units, adjacency=spec.unit.adjacency)
    row_norm = clip_of(spec)[0] if spec.cost.is_private else math.inf
    known = {"row_norm": row_norm, "rounding": spec.rounding}
    shape, left = (spec.n_features + 1,) * 2, left - scales_share

    def _moment(name: str, share: float) -> Release:
        return spec.cost.release(name, "symmetric_gaussian", share, change, known, shape=shape)

    # A first, rough moment may whiten rows. Fits with gaps or a prior have none, as both concern
    # single columns, which whitening would mix. If bounds give the scales, rows may arrive only
    # once, which allows no rough moment.
    is_plain = spec.scales is None and spec.prior is None and not spec.has_gaps
    is_strong = strength_of(spec) >= max(WEAK, _PER_ROOT * math.sqrt(spec.n_features))
    rough, rough_share = None, 0.0
    if is_plain and is_strong and spec.cost.is_private:
        rough_share = _OF_ROUGH * left
        rough = _moment("rough second moment", rough_share)
    moment = _moment("scaled second moment", left - rough_share)
    return CovarianceReleases(scales, rough, moment, marginals)


def _moment_change(row_norm: float, rounding: float, n_units: int, adjacency: str) -> float:
    """Return the sensitivity of the mean of the outer products of rows."""
    return sensitivity.second_moment(row_norm, adjacency, rounding) / n_units


# ------------------------------
# The release.

#: Centers and scales of the columns.
Units = tuple[np.ndarray, np.ndarray]


class Moment(NamedTuple):
    """A released second moment of rows minus `center`, divided by `scale`, with a 1 appended."""

    center: np.ndarray
    scale: np.ndarray
    matrix: np.ndarray
    noise_std: float  # of an entry off the diagonal
    scales: Scales
    is_constant: np.ndarray  # columns that are constant by released values
    shows_nothing: np.ndarray  # columns that may vary, but whose released scales are mostly noise
    ends: np.ndarray  # lower and upper ends to which entries are clipped
    is_in_bounds: bool  # whether public bounds give center and scale
    # If the rows were whitened, the matrix that maps whitened rows back to scaled rows.
    root: np.ndarray | None


def release_moment(
    plan: CovarianceReleases, spec: CovarianceSpec, view: Rows, budget: PrivacyBudget
) -> Moment:
    """Release the scales, unless public bounds give them, and then the moment."""
    is_centered = spec.assume_centered
    none = np.zeros(spec.n_features, bool)  # no column
    is_constant = shows_nothing = none
    if plan.scales is None:
        center, scale = units_of_bounds(spec)
    else:
        shape = spec.n_units, spec.n_features
        scales = column_scales.release_scales(plan.scales, view, shape, spec.interval, budget)
        center, squares = scales.center, scales.variance
        if is_centered:
            center, squares = np.zeros(len(center)), squares + np.square(center)
        scale = np.where(squares > 0, np.sqrt(squares), 1.0)
        # Without noise, a column that varies only by rounding counts as constant: its entries,
        # divided by a tiny scale, would be huge, and all rows would be clipped. If columns are
        # centered already, their scale is their size around 0, which is not tiny.
        are_points = scales.is_point if spec.cost.is_private else scales.is_flat
        is_constant = np.broadcast_to(are_points, center.shape) & (not is_centered)
        shows_nothing = scales.may_be_constant() & spec.cost.is_private & (not is_centered)
    divisor = np.where(is_constant, np.inf, scale)
    units, rough, root = (center, divisor), None, None
    if plan.rough is not None:
        # If the rough moment shows that columns are nearly collinear, its root whitens the rows of
        # the second moment. Otherwise both moments are averaged.
        rough = budget.release(plan.rough, summed_moment(spec, view, units) / spec.n_units)
        values, vectors = np.linalg.eigh(rough.value[:-1, :-1])
        edge = noise_edge(rough.noise_std * math.sqrt(0.5), len(values))
        if not values[0] > max(edge, _COLLINEAR * float(values.mean())):
            # Eigenvalues below the edge of the noise are raised to this edge.
            root = np.asarray(vectors * np.sqrt(np.maximum(values, edge)))
    total = summed_moment(spec, view, units, root)
    matrix, noise_std = budget.release(plan.moment, total / spec.n_units)
    if rough is not None and root is None:
        # Each moment has a weight in proportion to one over the variance of its noise.
        weight = noise_std**2 / (noise_std**2 + rough.noise_std**2)
        matrix = matrix + weight * (rough.value - matrix)
        noise_std *= math.sqrt(1 - weight)
    if plan.scales is None:
        squares, means = np.diag(matrix)[:-1], matrix[-1, :-1]
        is_flat = squares - means**2 <= column_scales.ROUNDING * np.maximum(squares, 1.0)
        is_constant = is_flat & (not spec.cost.is_private) & (not is_centered)
        # The variances of the columns are unknown: no scales were released.
        unknown = {"off_mode": ~none, "variance_std": np.full(len(scale), np.inf)}
        scales = Scales(center, scale**2, ~none, none, presence=np.ones(len(scale)), **unknown)
    entry = clip_of(spec)[1]
    return Moment(
        center=center,
        scale=scale,
        matrix=matrix,
        noise_std=noise_std * math.sqrt(0.5),
        scales=scales,
        is_constant=is_constant,
        shows_nothing=shows_nothing,
        ends=np.stack([center - entry * scale, center + entry * scale]),
        is_in_bounds=plan.scales is None,
        root=root,
    )


def units_of_bounds(spec: CovarianceSpec) -> Units:
    """Return the middles and half widths of bounds; of centered columns, 0 and the larger ends."""
    assert spec.interval is not None
    low, high = spec.interval
    if spec.assume_centered:
        return np.zeros(len(low)), np.maximum(np.abs(low), np.abs(high))
    return (low + high) / 2, (high - low) / 2


def summed_moment(
    spec: CovarianceSpec, view: Rows, units: Units, root: np.ndarray | None = None
) -> np.ndarray:
    """Sum the outer products of scaled, clipped rows with a 1 appended.

    A `root` whitens rows before they are clipped.
    """
    (center, scale), (row_norm, entry) = units, clip_of(spec)
    # The inverse of the transposed root. The columns of the root are orthogonal, so that division
    # by their squared norms inverts the root.
    whitening = None if root is None else root / np.square(root).sum(axis=0)

    def _joint_gram(_: slice, block: Any) -> np.ndarray:
        """Scale, whiten and clip the rows of a block; sum their outer products."""
        rows = np.asarray(block.raw, np.float64)
        joint = np.ones((len(rows), rows.shape[1] + 1))
        joint[:, :-1] = np.clip((rows - center) / scale, -entry, entry)
        # Gaps become 0. A row that has only gaps is null, so that its 1 adds nothing.
        is_gap = np.isnan(joint)
        is_null = is_gap[:, :-1].all(axis=1)
        joint[is_gap] = 0.0
        if whitening is not None:
            plain = DenseBlock(joint[:, :-1], None, joint[:, :-1])
            # With users, the rounding of a product must not depend on the position of a row: a user
            # with more or fewer rows would move the rows of others.
            by_row = plain.matmul if block.sample_weight is None else plain.matmul_anywhere
            joint[:, :-1] = by_row(whitening)
        norms, weighting = row_norms(joint), weighting_to(row_norm, joint.shape[1])
        norms[is_null] = np.nan
        clipped = DenseBlock(joint, None, joint).weighted(weighting, norms)
        return clipped.with_sample_weight(block.sample_weight).gram()

    return np.asarray(view.map_sum(_joint_gram, (spec.n_features + 1) ** 2))


# ------------------------------
# Covariances from the moment.

# The mean weight of rows after clipping is at least `_LEAST_WEIGHT`, usually `_USUAL`, and varies
# with the standard deviation `_SPREAD` from table to table.
_LEAST_WEIGHT, _USUAL, _SPREAD = 0.05, 0.85, 0.15  # not studied
# `left_` is the variance of a column in the moment, which is that of clipped rows, divided by its
# variance from the released scales. `_NOISE_OF_SCALE` times the noise of the divisor is added to
# the divisor, as intervals of skewed targets would otherwise be too short. `left_` is at least
# `_LEAST_RATIO`.
_NOISE_OF_SCALE, _LEAST_RATIO = 0.25, 0.01  # benchmarks/covariance/intervals.md
# Eigenvalues of a scaled covariance are raised to at least this multiple of the largest eigenvalue
# of the noise.
_FLOOR = 0.3  # benchmarks/covariance/covariance.md
# Raised eigenvalues that noise hides are reduced to restore the trace, until their mean is this.
_LEAST_OF_HIDDEN = 0.05  # benchmarks/sweep/sweep.md
# If noise hides the scale of a column, its covariances are kept only if its variance in the moment
# exceeds this many standard deviations of noise.
_LEAST_SEEN = 4.0  # not studied
# The location of a column is unknown if its standard error exceeds this fraction of its scale.
_MOST_NOISE = 0.25  # benchmarks/covariance/covariance.md, "Where a target lies"
# Unless bounds give the scales, a column has no known location if noise hides its variance and its
# location is farther from 0 than this many scales: such a scale is only the width of an interval.
_FAR = 4.0  # benchmarks/covariance/covariance.md, "Few rows far from 0"
# Standard deviation of a mean that is not released: nearly infinite, but with a finite square.
_UNKNOWN = 1e150  # not tuned


def attributes_of(moment: Moment, spec: CovarianceSpec) -> tuple[dict[str, Any], np.ndarray]:
    r"""Compute means and covariances, positive semidefinite, in the units of the columns.

    Return also for which columns noise hides the variance in the moment.

    Gaps: let :math:`p_i` be the fraction of rows with an entry in column i. A sum over a pair of
    columns i and j contains only rows with both entries. If gaps are at random, the sum is divided
    by :math:`p_i p_j`, or by :math:`p_i` on the diagonal (K. Lounici, 2014,
    :doi:`10.3150/12-BEJ487`). Rows that have only gaps count nowhere; in all other rows, the
    fraction of entries in column i is :math:`p_i / (1 - \prod_j (1 - p_j))`.

    Clipping: means are divided by the mean weight of clipped rows, and covariances by its square:
    the rows that clipping shortens are long, and have more than their part of the variance.
    """
    scales = moment.scales
    present, weight = _mean_weights(moment)
    unclipped = weight / present
    # In units of bounds, rows are about equally long, so that clipping shortens all rows alike.
    second_weight = 1.0 if moment.is_in_bounds else unclipped
    joint, noise_std = moment.matrix / weight, moment.noise_std / weight / second_weight
    presence_error = scales.presence_std / scales.presence
    presence = np.minimum(scales.presence / present, 1.0)
    pairs = np.outer(presence, presence)
    np.fill_diagonal(pairs, presence)
    # The moment has the means of the columns beside the appended 1.
    mean = np.zeros(len(presence)) if spec.assume_centered else joint[-1, :-1] / presence
    covariance = (joint[:-1, :-1] / pairs - np.outer(mean, mean)) / second_weight
    root = np.eye(len(mean)) if moment.root is None else moment.root
    # The noise of the covariances is A N A' for a noise matrix N and a matrix A with A A' = metric.
    metric = noise_std * root @ root.T
    mean_std = math.sqrt(noise_std) * np.sqrt(np.diag(metric)) * second_weight / presence
    noise = np.sqrt(np.outer(np.diag(metric), np.diag(metric)) + metric**2) / pairs
    prior_weight = 0.0
    if spec.prior is not None:
        is_seen = ~(moment.is_constant | moment.shows_nothing)
        shrunk = denoising.toward_prior(covariance, noise, spec.prior, is_seen)
        covariance, noise, prior_weight = shrunk
    # The noise of the released fractions p adds to that of the moment.
    noise = np.hypot(noise, np.hypot.outer(presence_error, presence_error) * covariance)
    # Covariances are divided once or twice by the weight, whose noise adds to theirs.
    weight_error = (1 + (second_weight < 1)) * math.sqrt(2) * moment.noise_std / weight
    noise = np.hypot(noise, weight_error * (root @ covariance @ root.T))
    root_mean_square = math.sqrt(float(np.mean(np.square(1 / pairs))))
    edge = noise_edge((1 - prior_weight) * noise_std * root_mean_square, len(mean))
    repaired = _repaired(covariance, edge, root)
    covariance, mean = root @ covariance @ root.T, root @ mean
    # Covariances become 0 for columns that are constant, and for columns of which noise hides both
    # the scale and the variance in the moment.
    hidden = np.diag(covariance) < _LEAST_SEEN * np.diag(noise)
    varies = ~(moment.is_constant | (moment.shows_nothing & hidden))
    may_covary = np.outer(varies, varies) | np.eye(len(varies), dtype=bool)
    repaired, metric = repaired * may_covary, metric * may_covary
    # What gaps and a prior add to the noise is independent for each entry, and not in the metric.
    metric = (1 - prior_weight) * metric / np.sqrt(np.outer(presence, presence))
    # If the center is assumed to be 0, it has no noise.
    offset_std = (not spec.assume_centered) * moment.scale * mean_std
    is_shown = np.diag(repaired) >= np.diag(noise)
    location, location_std, is_located = _located(
        moment, moment.scale * mean, offset_std, np.sqrt(np.diag(repaired)), is_shown
    )
    units = np.outer(moment.scale, moment.scale)
    matrix, noise = finite(units * repaired), finite(units * noise)
    variances = units.diagonal() + _NOISE_OF_SCALE * np.nan_to_num(scales.variance_std, posinf=0.0)
    left = np.diag(matrix) / np.where(variances > 0, variances, 1.0)
    # Correlations of a constant column with other columns are 0.
    correlations = np.clip(repaired / denoising.scale_products(repaired), -1.0, 1.0)
    np.fill_diagonal(correlations, 1.0)
    attributes = {
        "location_": finite(location),
        "location_noise_std_": finite(location_std),
        "is_located_": is_located,
        "covariance_": matrix,
        "correlation_": finite(correlations),
        "scale_": np.sqrt(np.diag(matrix)),
        "noise_std_": noise,
        "noise_metric_": finite(units * metric),
        "_weight_noise_std": weight_error,
        "presence_": scales.presence,
        "unclipped_": unclipped,
        "left_": np.where(
            moment.is_constant | moment.is_in_bounds, 1.0, np.clip(left, _LEAST_RATIO, 1.0)
        ),
        "_is_scaled": ~np.broadcast_to(scales.are_hidden(), mean.shape),
        "feature_bounds_": moment.ends,
        "prior_weight_": prior_weight,
    }
    return attributes, hidden


def _mean_weights(moment: Moment) -> tuple[float, float]:
    """Estimate the fraction of rows with entries, and the mean weight of clipped rows."""
    # Clipping multiplies a row, and the 1 at its end, by a factor. The square of this factor is the
    # weight of the outer product of the row, and the last entry of the moment is the mean weight.
    present = 1 - float(np.prod(1 - moment.scales.presence))
    weight, noise_square = float(moment.matrix[-1, -1]), 2 * moment.noise_std**2
    # The noisier the released weight is, the nearer to the usual weight is the estimate.
    weight += noise_square / (noise_square + _SPREAD**2) * (_USUAL * present - weight)
    return present, float(np.clip(weight, _LEAST_WEIGHT * present, present))


def _repaired(covariance: np.ndarray, edge: float, root: np.ndarray) -> np.ndarray:
    """Make a covariance of whitened rows definite; return the covariance of the scaled rows.

    Eigenvalues are raised to a floor. If eigenvalues below `edge`, which noise hides, have then
    more than the rest of the trace, they are reduced.
    """
    values, vectors = np.linalg.eigh(covariance)
    raised, is_hidden = np.maximum(values, _FLOOR * edge), values < edge
    sum_of_hidden = raised[is_hidden].sum()
    rest = max(values.sum() - raised[~is_hidden].sum(), _LEAST_OF_HIDDEN * is_hidden.sum())
    if sum_of_hidden > 0:
        raised[is_hidden] *= min(1.0, rest / sum_of_hidden)
    vectors = root @ vectors
    repaired = vectors * raised @ vectors.T
    return np.asarray((repaired + repaired.T) / 2)


def _located(
    moment: Moment,
    offset: np.ndarray,
    offset_std: np.ndarray,
    stds: np.ndarray,
    is_shown: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Average means of clipped rows with released centers, which have more noise but no bias.

    What noise does not explain of the squared difference between mean and center is taken for the
    squared bias of the mean. Return the averages, their standard errors if the whole difference is
    bias, and which of them stand out from noise. A column `is_shown` if its variance exceeds the
    noise; unless bounds give the scales, other columns are located only near 0.
    """
    mean, unit = moment.center + offset, moment.scale
    center, center_std = moment.center, moment.scales.center_std
    if moment.is_in_bounds:
        # The center is the middle of public bounds, and shows nothing of the data: its error counts
        # as infinite.
        center, center_std, unit = mean, np.full(len(mean), _UNKNOWN), unit * stds
    std, is_precise = np.zeros(len(mean)), np.full(len(mean), True)
    if np.any(offset_std):
        mean_variance, center_variance = np.square(offset_std), np.square(center_std)
        difference = np.square(mean - center)
        error = mean_variance + np.maximum(difference - mean_variance - center_variance, 0.0)
        weight = error / np.maximum(error + center_variance, np.finfo(np.float64).tiny)
        mean = mean + weight * (center - mean)
        std = 1 / np.sqrt(1 / (mean_variance + difference) + 1 / center_variance)
        is_precise = (std <= _MOST_NOISE * unit) & np.isfinite(center_variance)
    is_far = (np.abs(mean) > _FAR * moment.scale) & ~moment.is_constant
    return mean, std, is_precise & (is_shown | moment.is_in_bounds | ~is_far)
