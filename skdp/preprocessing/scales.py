"""Centers and scales of columns: planned, released and computed."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from skdp.data.reduce import BlockView
from skdp.exceptions import shortened
from skdp.preprocessing.intervals import (
    _IN_TAIL,
    ENDS,
    N_BINS,
    OTHER_UNITS_OF_X,
    Binning,
    Intervals,
    SizeCounts,
    are_narrow,
    are_points,
    bins_by_size,
    bins_within,
    counting,
    counts_inside,
    hulls,
    intervals_within,
    is_visible,
    lengthened_points,
    may_be_zeros,
    summing,
    zoomed_intervals,
)
from skdp.privacy import PrivacyBudget, Release, sensitivity
from skdp.privacy.plan import AnyOf, PrivacyCost
from skdp.privacy.releases import warnings_for_ends
from skdp.units import ResolvedUnit

# ------------------------------
# The planned releases and their shares, from public facts.

# Zooms find the interval of a column by histograms. All columns together have at most about
# `_ALL_BINS` bins, as memory is limited. A column has from 2 ** `_BINS[0]` to 2 ** `_BINS[1]` bins.
_ALL_BINS, _BINS = 1 << 22, (6, 14)  # not studied
# With too many bins in a histogram, noise hides most rows. So the number of bins is at most
# `_CLEAR` times (n / s)^2, for n rows and the noise s of a bin:
# benchmarks/trace_regression/scales.md.
_CLEAR = 0.1
# No histograms are released to find intervals if the noise of a bin exceeds this fraction of the
# number of rows, as they would show too little.
_MOST_NOISE_OF_BIN = 0.25  # benchmarks/trace_regression/looks.md
#: Largest number of zooms into narrow columns. A zoom releases a histogram of the entries within an
#: interval, which then becomes shorter: benchmarks/trace_regression/looks.md.
N_ZOOMS = 5
# If entries may be missing, each present entry adds this number to a sum, which is released with
# the moments of its column and shows how many entries are present. A larger number makes the sum
# more precise relative to its noise, but the sensitivity for zero_out larger.
_PRESENCE = 0.5  # not studied
#: If the noise of a mean, over half the width of its interval, exceeds this number, noise hides
#: most centers and scales.
MOST_NOISE = 0.1  # not studied
_SIZES, _MOMENTS, _PLACED = "signed sizes", "column moments", "places in intervals"
_ZOOMS = _SIZES, _PLACED, *(f"closer {_PLACED} {n}" for n in range(1, N_ZOOMS))  # not tuned
_ROUGH_MOMENTS = "rough column moments"
# Of the share for scales, histograms of entries by sign and size get the fraction `_SIZES_SHARE`,
# and histograms of entries within intervals get `_PLACES_SHARE`.
_SIZES_SHARE, _PLACES_SHARE = 3 / 8, 1 / 8  # benchmarks/classification/constants.md
# With public bounds, rough moments get this fraction of the share. They show which columns are
# narrow within their bounds; for these columns, a fit then searches shorter intervals.
_ROUGH = 0.2  # benchmarks/scaling/bounds.md


@dataclass(frozen=True, kw_only=True)
class ScaleSpec:
    """Public facts of columns on which their centers and scales depend."""

    cost: PrivacyCost
    unit: ResolvedUnit
    n_units: int
    n_features: int
    rounding: float  # bound on the rounding of a sum of rows, if no row adds more than 1
    has_gaps: bool = False  # whether entries may be missing, so that present ones are counted
    interval: tuple[np.ndarray, np.ndarray] | None  # public ends of each column, or None
    names: Sequence[Any] | None = None  # of the columns, for warnings; None for indices

    def named(self, which: np.ndarray) -> str:
        """Return text such as "column age" or "columns 0, 2"."""
        places = np.flatnonzero(which).tolist()
        names = shortened([str(self.names[one] if self.names else one) for one in places])
        return f"{'column' if len(places) == 1 else 'columns'} {names}"


class CenteredReleases(NamedTuple):
    """Exact releases without bounds: moments around 0, then around the means."""

    rough: Release
    moments: Release


class SizedReleases(NamedTuple):
    """Releases for columns without known bounds, in order."""

    sizes: Release  # counts by sign and power of two, from which intervals follow
    # Either moments in the intervals that follow from `sizes`; or, if columns may be narrow and far
    # from 0, releases that shorten these intervals, and then moments.
    branches: AnyOf


class BoundedReleases(NamedTuple):
    """Releases for columns with public bounds: rough moments, then better ones."""

    rough: Release
    # Either the same moments again; or, if noise hides some columns, `SizedReleases` to find their
    # intervals.
    branches: AnyOf


#: Releases from which centers and scales follow. A fit with bounds and without noise has a single
#: `Release`.
ScaleReleases = Release | CenteredReleases | SizedReleases | BoundedReleases


def plan_scales_by_share(
    spec: ScaleSpec, share: float, of_sizes: float = _SIZES_SHARE
) -> ScaleReleases:
    """Plan all releases in order; histograms by size get the fraction `of_sizes` of the share."""
    sizes, places = of_sizes * share, _PLACES_SHARE * share
    return plan_scales(spec, sizes=sizes, places=places, moments=share - sizes)


def plan_scales(spec: ScaleSpec, *, sizes: float, places: float, moments: float) -> ScaleReleases:
    """Plan all releases in order, from the shares of the budget that they get.

    `sizes` is the share of the histograms of entries by sign and size, `places` that of the
    histograms of entries within intervals. The share `moments` of the moments includes `places`,
    as these histograms may not be needed.
    """
    if not spec.cost.is_private:
        share = sizes + moments
        if spec.interval is not None:
            return _plan_moments(spec, share)
        around_0 = _plan_moments(spec, share / 2, _ROUGH_MOMENTS)
        return CenteredReleases(around_0, _plan_moments(spec, share / 2))
    if spec.interval is None:
        return _plan_sized(spec, sizes, places, moments)
    rough = _plan_moments(spec, _ROUGH * (sizes + moments), _ROUGH_MOMENTS)
    rest = 1 - _ROUGH
    again = _plan_moments(spec, rest * (sizes + moments))
    searched = _plan_sized(spec, rest * sizes, rest * places, rest * moments)
    return BoundedReleases(rough, AnyOf((again, searched)))


def _plan_sized(spec: ScaleSpec, sizes: float, places: float, moments: float) -> SizedReleases:
    """Plan the search for intervals: of all columns or, with bounds, of those that noise hides."""
    change = partial(sensitivity.histograms, adjacency=spec.unit.adjacency)
    shape = (spec.n_features, N_BINS)
    release = partial(spec.cost.release, _SIZES, "gaussian", sizes, change, shape=shape)
    known = {"n_columns": spec.n_features}
    counts = release(known) if spec.interval is None else release(follows=_ROUGH_MOMENTS)
    zoomed = _plan_zooms(spec, places / N_ZOOMS), _plan_moments(spec, moments - places)
    return SizedReleases(counts, AnyOf((_plan_moments(spec, moments), zoomed)))


def _plan_moments(spec: ScaleSpec, share: float, name: str = _MOMENTS) -> Release:
    """Plan the mean of each column in its interval, and the mean of its square."""
    change = partial(_moment_change, spec=spec)
    known, shape = {"rounding": spec.rounding}, (2 + spec.has_gaps, spec.n_features)
    return spec.cost.release(name, "gaussian", share, change, known, shape=shape)


def _plan_zooms(spec: ScaleSpec, share: float) -> tuple[Release, ...]:
    """Plan the zooms, histograms within intervals; all but the first may be skipped."""
    change = partial(sensitivity.histograms, adjacency=spec.unit.adjacency)
    noise_std = spec.cost.noise_std("gaussian", change(spec.n_features), share)
    most_bins = min(_ALL_BINS / spec.n_features, _CLEAR * (spec.n_units / noise_std) ** 2)
    shape = spec.n_features, 1 << int(np.clip(math.log2(most_bins), *_BINS))
    first, *others = (
        spec.cost.release(name, "gaussian", share, change, follows=before, shape=shape)
        for before, name in pairwise(_ZOOMS)
    )
    return first, *(replace(one, may_be_skipped=True) for one in others)


def _moment_change(rounding: float, spec: ScaleSpec) -> float:
    if not spec.cost.is_private and spec.interval is None:
        # Nothing is clipped, so that one row may change the moments by any amount.
        return math.inf
    adjacency, presence = spec.unit.adjacency, _PRESENCE * spec.has_gaps
    change = sensitivity.column_moments(spec.n_features, adjacency, rounding, presence)
    return change / spec.n_units


# ------------------------------
# Moments of columns, and columns that noise hides within their bounds.

# Noise hides a column within its bounds if its variance is below this many standard deviations of
# the noise.
_HIDDEN_IN_BOUNDS = 6.0  # benchmarks/scaling/bounds.md
# A search for shorter intervals within bounds is worth its share of the budget if the relative
# error of variances, without the search, exceeds this number times the fraction of rows that the
# search may miss.
_PRICE = 4.5  # benchmarks/scaling/bounds.md
# Weights are divided by this number, so that their mean square, with rounding, does not exceed 1.
_ABOVE = 1 + 1e-12  # not tuned
# Assumed variance of a column, in squared half widths of the interval that a search finds.
_USUAL = 0.1  # not studied


class Moments(NamedTuple):
    """Released means of t and t^2 - `shift` by column, as in `Intervals`, with their noise.

    If entries may be missing, a third row of `means` has the fraction of present entries, times
    `_PRESENCE`.
    """

    means: np.ndarray  # (2 or 3, n_columns)
    noise_std: np.ndarray  # (n_columns,), equal in all rows

    def averaged(self, other: "Moments", is_same: np.ndarray) -> "Moments":
        """Return the mean of two releases of moments, weighted by their precision.

        `is_same` marks columns with one interval in both; all others get the moments of `other`.
        """
        own_precision = np.where(is_same, self.noise_std**-2.0, 0.0)
        precision = own_precision + other.noise_std**-2.0
        means = other.means + own_precision / precision * (self.means - other.means)
        return Moments(means, precision**-0.5)

    def of_present(self, n_rows: int) -> "Moments":
        """Return the means over present entries; a missing entry has added 0 to the sums."""
        present = self.present(n_rows)
        return Moments(self.means[:2] / present, self.noise_std / present)

    def present(self, n_rows: int) -> np.ndarray:
        """Return the fraction of present entries of each column; 1 if entries cannot be missing."""
        if len(self.means) == 2:
            return np.ones(len(self.noise_std))
        return np.clip(self.means[2] / _PRESENCE, 1 / n_rows, 1.0)

    def variances(self, shift: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
        """Return the variances of t by column, and the standard deviations of their noise."""
        # If a mean m has an error e, its square has the errors 2 m e and e^2. The mean of e^2 is
        # the noise variance, and is removed; 2 m e adds to the noise.
        variances = self.means[1] + shift - self.means[0] ** 2 + self.noise_std**2
        return variances, self.noise_std * np.sqrt(1 + 4 * np.minimum(self.means[0] ** 2, 1.0))

    def variances_within(self) -> tuple[np.ndarray, np.ndarray]:
        """Return `variances` of t in [-1, 1], where the mean of a column bounds its variance."""
        variances, noise_std = self.variances()
        # Given the mean, the variance is largest if all entries are at the ends of the interval.
        largest = 1 - np.minimum(self.means[0] ** 2, 1.0) + self.noise_std
        return np.minimum(variances, largest), noise_std


def hidden_columns(
    rough: Moments, plan: BoundedReleases, n_rows: int, budget: PrivacyBudget
) -> np.ndarray:
    """Return a mask of the columns within whose bounds shorter intervals are searched.

    These are all columns whose variance may be mostly noise, if the search is worth its share of
    the budget; else none. The search is worth it if the relative error of these variances without
    it is large compared with the fraction of rows in bins that noise hides from the search.
    """
    variances, noise_std = rough.variances_within()
    is_hidden = variances < _HIDDEN_IN_BOUNDS * noise_std
    n_hidden = int(is_hidden.sum())
    if not n_hidden:
        return is_hidden
    again, search = plan.branches.branches
    # Squares of noisy means are skewed: noise raises the median of variances, but not their mean.
    # So the smaller one of both counts as the usual variance.
    usual = min(float(np.median(variances[is_hidden])), float(np.mean(variances[is_hidden])))
    usual = max(usual, float(np.mean(noise_std[is_hidden])) / math.sqrt(n_hidden))
    std_ratio = float(np.mean((noise_std / rough.noise_std)[is_hidden]))
    relative_error = again.noise_std * std_ratio / usual
    overlooked = _IN_TAIL * _noise_std_of_bin(search.sizes, n_hidden, budget) / n_rows
    return is_hidden & (_PRICE * overlooked < relative_error)


def _noise_std_of_bin(release: Release, n_columns: int, budget: PrivacyBudget) -> float:
    change = release.sensitivity_for(n_columns=n_columns)
    return budget.cost.noise_std(release.mechanism, change, release.share)


def weights_of(variances: np.ndarray, noise_std: np.ndarray) -> np.ndarray:
    """Return weights of columns that give their variances about the same relative error.

    The mean square of the weights is 1, so that weights do not raise the sensitivity of the moments
    of all columns together.
    """
    weights = np.clip(variances, np.maximum(noise_std, _LEAST_VARIANCE), 1.0) ** -0.5
    return weights / (math.sqrt(np.mean(weights**2)) * _ABOVE)


# ------------------------------
# Centers and scales from released moments, with noise removed where possible.

# With noise, smaller variances are raised to this number, in squared half widths of an interval.
_LEAST_VARIANCE = 1e-4  # benchmarks/classification/constants.md
# A column is flat, as its variance may be 0, if the variance is below this many standard deviations
# of its noise.
_MAY_BE_FLAT = 2.0  # not studied
# A flat column counts as constant only if `_MAY_BE_FLAT` standard deviations of its noise, in
# squared half widths, are below this number. On one-hot tables with few rows, .05 loses up to .4 of
# R2. Not studied beyond.
_CONSTANT = 0.025
# If at least this fraction of the columns seems constant, the reason is noise that hides how they
# vary. Such columns then do not count as constant, as together they may predict much.
_MANY = 1 / 3  # benchmarks/sweep/sweep.md, jobs "regression" and "rare"
# A column with mean m, in half widths, has the variance 1 - m^2 if all of its values are at the
# ends of its interval, and a smaller one otherwise. All values count as being at the ends if the
# variance exceeds this fraction of 1 - m^2. Not studied.
_AT_ENDS = 0.5
# If a mean is farther than this from the middle of its interval, in half widths, many entries may
# lie beyond the interval.
_AT_END = 0.6  # not studied
#: Without noise, a variance below this fraction of the squared mean counts as 0: for a million
#: equal rows, rounding was at most 127 eps.
ROUNDING = 256 * np.finfo(np.float64).eps  # not tuned
# Assumed variance of squares of entries, in squared variances of the entries, for the sampling
# error of a variance. It is 2 for a normal law, and 8 for an exponential one.
_SQUARES = 4.0  # benchmarks/noise_errors/scales.md


class Scales(NamedTuple):
    """Centers and variances of columns, as far as noise shows them."""

    center: np.ndarray
    variance: np.ndarray
    is_flat: np.ndarray  # the variance may be noise
    is_void: np.ndarray  # no value but 0 is visible
    off_mode: np.ndarray  # fractions of entries that are not the most frequent value; 1 if unknown
    presence: Any = 1.0  # fractions of present entries
    presence_std: Any = 0.0  # noise of `presence`
    is_point: Any = False  # as narrow as the histograms within intervals can show
    is_unclear: Any = False  # flat, and noise blurred zooms or prevented them
    # Flat with little noise, or all rows are counted as 0; but never if the column is narrow beside
    # its distance from 0.
    is_constant: Any = False
    # Standard deviations of the noise of `center` and of `variance`; infinite if entries may lie
    # outside of the column's interval.
    center_std: Any = 0.0
    variance_std: Any = 0.0

    def may_be_constant(self) -> np.ndarray:
        """Return which columns may be constant, so that beside an intercept they predict nothing.

        If many columns seem constant, the reason is noise, and they may predict much together. Then
        only extremely narrow columns, marked by `is_point`, may be constant.
        """
        are_few = self.is_constant.mean() < _MANY
        return np.asarray(self.is_point | (self.is_constant & are_few))

    def std_errors(self, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the standard errors of centers and of scales, due to noise and sampling.

        The scale is the root of the variance. Errors of the scales of hidden columns are infinite.
        """
        n_present = n_rows * self.presence
        center_error = np.sqrt(self.center_std**2 + self.variance / n_present)
        variance_error = np.sqrt(self.variance_std**2 + _SQUARES * self.variance**2 / n_present)
        scale = np.sqrt(np.where(self.variance > 0, self.variance, 1.0))
        # The derivative of a root is one over twice the root.
        scale_error = np.where(self.are_hidden(), math.inf, variance_error / (2 * scale))
        return center_error, scale_error

    def are_hidden(self) -> np.ndarray:
        """Return the columns that a model cannot use because noise hides their scales."""
        return np.asarray(self.is_void | self.is_point | self.is_unclear)

    def have_invalid_squares(self) -> np.ndarray:
        """Return the columns whose squares overflow or underflow, in a fit without noise."""
        deviation = np.sqrt(self.variance)
        size = np.maximum(np.abs(self.center), deviation)
        return (deviation > _DEVIATIONS[1]) | ((size > 0) & (size < _DEVIATIONS[0]))


#: First words of the warning that a model may miss columns.
HIDDEN_COLUMNS = "Predictions may miss a third of the columns or more"


def warnings_for_hidden(
    which: np.ndarray, remedy: str, what: str = "how they vary"
) -> Iterator[str]:
    """Warn if noise hides a large part of all columns."""
    if np.mean(which) >= _MANY:
        yield (
            f"{HIDDEN_COLUMNS}: noise hides {what}, and large values in them are clipped. {remedy}"
        )


# A column has no visible entries if the fraction of present ones is below `_NO_ENTRIES` standard
# deviations of its noise, and this noise is below `_LITTLE_NOISE`. A hidden column is at an end of
# its bounds if its center is farther than `_BEYOND` from their middle, in half widths. A fit warns
# if the fraction `_SOME_BEYOND` of all columns is at an end: a few may be nearly constant there.
# Not studied.
_NO_ENTRIES, _LITTLE_NOISE, _BEYOND, _SOME_BEYOND = 4.0, 0.1, 0.99, 0.1


def warnings_for_columns(
    scales: Scales, spec: ScaleSpec, which: np.ndarray, remedy: str
) -> Iterator[str]:
    """Warn of columns that have no entries or lie beyond their bounds, and of other hidden columns.

    `which` has the hidden columns: a fit warns if they are a third of all columns, or if a tenth of
    all columns is hidden at an end of the bounds. An end of 0 does not count, as rare counts are
    near 0, and neither do bounds of 0 and 1, as a flag may be nearly always 1.
    """
    is_empty = np.asarray(scales.presence < _NO_ENTRIES * scales.presence_std)
    is_empty &= scales.presence_std < _LITTLE_NOISE
    is_beyond = np.zeros_like(which)
    # Without noise, `are_hidden` marks no column.
    if spec.interval is not None:
        low, high = spec.interval
        place = (2 * scales.center - low - high) / (high - low)
        is_beyond = scales.are_hidden() & ~is_empty & (np.abs(place) > _BEYOND)
        is_beyond &= (np.where(place > 0, high, low) != 0) & ((low != 0) | (high != 1))
        is_beyond &= np.mean(is_beyond) >= _SOME_BEYOND
    if is_beyond.any():
        yield (
            f"Most entries of {spec.named(is_beyond)} seem to be at an end of the bounds, or "
            "beyond it, where they are clipped: models may miss how they vary. If entries exceed "
            "the bounds, pass wider ones."
        )
    if is_empty.any():
        yield (
            f"Noise fills the gaps of {spec.named(is_empty)}, in which no entries are visible, and "
            f"may hide other columns. Leave such columns out, or pass more {spec.unit.counted}."
        )
    others = which & ~is_beyond & ~is_empty
    yield from warnings_for_hidden(others, remedy, f"the spread of {spec.named(others)}")


def scales_of(intervals: Intervals, moments: Moments, n_rows: int) -> Scales:
    """Compute centers and variances of columns from released moments in their intervals.

    Centers and variances are shrunk toward their mean over all columns, by the fraction of their
    differences that noise explains.
    """
    present = moments.of_present(n_rows)
    largest, noise_std = intervals.largest, present.noise_std
    variances, variance_noise = present.variances(intervals.shift)
    means, _ = _shrunk_to_mean(present.means[0], noise_std)
    variances, factor = _shrunk_to_mean(variances, variance_noise)
    # The mean over all columns has noise, too, but less.
    shrunk_noise = variance_noise * np.sqrt(factor + (1 - factor) / len(variances))
    if np.any(noise_std):
        least = np.maximum(shrunk_noise, _LEAST_VARIANCE)
        is_flat = variances <= np.maximum(_MAY_BE_FLAT * shrunk_noise, least)
    else:
        least, is_flat = 0.0, variances <= ROUNDING * np.maximum(means**2, 1.0)
    center = intervals.middle + intervals.half * np.clip(means, -largest, largest)
    variances = np.clip(variances, least, largest**2)
    # If entries are at the two ends, those at the rarer end differ from the most frequent value.
    means = np.clip(means, -1.0, 1.0)
    is_at_ends = variances > _AT_ENDS * (1 - means**2)
    return Scales(
        center,
        variances * intervals.half**2,
        is_flat,
        is_void=np.zeros_like(is_flat),
        off_mode=np.where(is_at_ends, (1 - np.abs(means)) / 2, 1.0),
        presence=moments.present(n_rows),
        presence_std=moments.noise_std * (len(moments.means) > 2) / _PRESENCE,
        is_constant=is_flat & (_MAY_BE_FLAT * shrunk_noise < _CONSTANT),
        center_std=intervals.half * noise_std,
        variance_std=intervals.half**2 * variance_noise * np.sqrt(2 - factor),
    )


def _shrunk_to_mean(values: np.ndarray, noise_std: Any) -> tuple[np.ndarray, Any]:
    """Shrink values toward their mean; return also the factor of the differences from it."""
    if not np.any(noise_std):
        return values, 1.0
    mean, variance = float(np.mean(values)), float(np.var(values))
    factor = np.maximum(0.0, 1 - noise_std**2 / variance) if variance > 0 else 0.0 * noise_std
    return mean + factor * (values - mean), factor


# ------------------------------
# Centers and scales of columns: find intervals, unless they are public, and moments in these.

# Without noise and bounds, an entry is clipped to a distance of `_LARGEST` units from the center of
# its interval, as its square would overflow. A unit is `_LARGE_UNIT` in the pass around 0, and 1 in
# the pass around the mean.
_LARGEST, _LARGE_UNIT = 1e150, 2.0**511  # not tuned
# Standard deviations outside of these limits are not precise: squares of smaller ones lose digits,
# and larger ones show that entries were clipped.
_DEVIATIONS = 1e-150, 1e-5 * _LARGEST  # not tuned


@dataclass(frozen=True)
class _Columns:
    """A view of the rows, its shape, and the budget that releases sums over the rows."""

    view: BlockView
    n_rows: int
    n_columns: int
    budget: PrivacyBudget

    def counts(self, bins_of: Binning, n_bins: int, is_chosen: np.ndarray) -> Any:
        """Count entries of the chosen columns by bin; `bins_of` numbers these columns from 0."""
        chosen = np.flatnonzero(is_chosen)
        return self.view.map_sum(counting(bins_of, n_bins, chosen), len(chosen) * n_bins)


def release_scales(
    plan: ScaleReleases,
    view: BlockView,
    shape: tuple[int, int],
    interval: tuple[np.ndarray, np.ndarray] | None,
    budget: PrivacyBudget,
) -> Scales:
    """Make the planned releases, and compute centers and variances; `interval` has the bounds."""
    columns = _Columns(view, *shape, budget)
    if isinstance(plan, SizedReleases):
        return _release_found(plan, columns)
    if isinstance(plan, CenteredReleases):
        return _release_exact(plan, columns)
    assert interval is not None
    outer = Intervals.of(*interval)
    if isinstance(plan, Release):
        return scales_of(outer, _release_moments(plan, outer, columns), columns.n_rows)
    return _release_within(plan, outer, columns)


def _release_exact(plan: CenteredReleases, columns: _Columns) -> Scales:
    """Compute moments around means, without noise."""
    ones = np.ones(columns.n_columns)
    around_0 = Intervals(0 * ones, _LARGE_UNIT * ones, _LARGEST)
    rough = scales_of(around_0, _release_moments(plan.rough, around_0, columns), columns.n_rows)
    around_mean = Intervals(rough.center, ones, _LARGEST)
    moments = _release_moments(plan.moments, around_mean, columns)
    found = scales_of(around_mean, moments, columns.n_rows)
    # The rounding of a sum, as scikit-learn estimates it.
    rounding = columns.n_rows * np.finfo(np.float64).eps
    is_flat = found.variance <= rounding * found.variance + (rounding * found.center) ** 2
    is_cut = found.variance > _DEVIATIONS[1] ** 2
    return found._replace(is_flat=is_flat, center=np.where(is_cut, rough.center, found.center))


def _release_found(plan: SizedReleases, columns: _Columns) -> Scales:
    """Find an interval for each column from counts by size, and release moments in it."""
    n_rows, budget = columns.n_rows, columns.budget
    exact = columns.view.map_sum(counting(bins_by_size, N_BINS), columns.n_columns * N_BINS)
    counts, noise_std = budget.release(plan.sizes, exact)
    n_present = np.full(columns.n_columns, float(n_rows))
    n_visible = np.where(is_visible(counts, noise_std), counts, 0.0).sum(axis=1)
    if plan.branches.branches[0].shape[0] > 2:  # moments include counts of present entries
        n_present = np.clip(n_visible, 1.0, n_rows)
    low, high = hulls(counts, noise_std, n_present)
    # A column that seems to be 0 in all rows may get any interval.
    is_void = high <= low
    intervals = Intervals.of(low, np.where(is_void, 1.0, high))
    far = np.abs(intervals.middle) + intervals.half
    budget.warnings += warnings_for_ends("entries of X", far, ENDS, OTHER_UNITS_OF_X)
    sizes = SizeCounts(counts, noise_std, n_present)
    zoomed = _zoom_in(plan.branches, intervals, are_narrow(intervals), sizes, columns)
    moments = _release_moments(zoomed.moments, zoomed.intervals, columns)
    found = zoomed.marked(scales_of(zoomed.intervals, moments, n_rows))
    # A column with few visible rows has got the interval of other columns. If its mean is far from
    # the middle of this interval, entries may lie beyond the interval.
    means = moments.of_present(n_rows).means[0]
    is_beyond = (np.abs(means) > _AT_END) & (n_visible < n_present / 2)
    return found._replace(
        is_void=is_void,
        off_mode=np.clip(1 - counts[:, 0] / n_present, 0.0, 1.0),
        is_constant=may_be_zeros(sizes, found.is_constant | is_void),
        center_std=np.where(is_beyond, math.inf, found.center_std),
        variance_std=np.where(is_beyond, math.inf, found.variance_std),
    )


def _release_within(plan: BoundedReleases, outer: Intervals, columns: _Columns) -> Scales:
    """Release moments within bounds, `outer`; find intervals of hidden columns; release again."""
    n_rows, budget = columns.n_rows, columns.budget
    rough = _release_moments(plan.rough, outer, columns)
    present, n_present = rough.of_present(n_rows), n_rows * rough.present(n_rows)
    hidden = hidden_columns(present, plan, n_rows, budget)
    again, search = plan.branches.branches
    sizes = SizeCounts(np.zeros((columns.n_columns, N_BINS)), 0.0, n_present)
    no_column = is_void = is_at_end = np.zeros_like(hidden)
    zoomed = _Zoomed(again, outer, no_column, no_column, no_column)
    if hidden.any():
        low, high = outer.of_columns(hidden).ends

        def _bins_of(values: np.ndarray, column: np.ndarray) -> np.ndarray:
            return bins_by_size(np.clip(values, low[column], high[column]), column)

        exact = columns.counts(_bins_of, N_BINS, hidden)
        sizes.counts[hidden], noise_std = budget.release(search.sizes, exact, n_columns=len(exact))
        sizes = sizes._replace(noise_std=noise_std)
        intervals, is_void, is_at_end = intervals_within(sizes, outer, hidden)
        is_narrow = hidden & are_narrow(intervals)
        zoomed = _zoom_in(search.branches, intervals, is_narrow, sizes, columns, outer)
    variances = np.where(hidden, _USUAL, present.variances_within()[0])
    weights = weights_of(variances, present.noise_std)
    moments = _release_moments(zoomed.moments, zoomed.intervals, columns, weights)
    averaged = rough.averaged(moments, zoomed.intervals.half == outer.half)
    scales = zoomed.marked(scales_of(zoomed.intervals, averaged, n_rows))
    is_zero = may_be_zeros(sizes, scales.is_constant | is_void)
    return scales._replace(
        is_void=is_void,
        is_point=scales.is_point | is_at_end,
        is_constant=(scales.is_constant & ~hidden) | is_zero,
    )


class _Zoomed(NamedTuple):
    """Intervals of columns after zooms, and what the zooms show about narrow columns.

    A zoom is a released histogram of the entries within an interval, which then becomes shorter.
    """

    moments: Release  # planned moments in these intervals
    intervals: Intervals
    is_narrow: np.ndarray  # whether a column is narrow beside its distance from 0, before zooms
    is_blurred: np.ndarray  # whether it is narrow, and noise hides most counts, or prevents zooms
    # Whether a column is as narrow as the last zoom can show, and its interval has all entries.
    is_point: np.ndarray

    def marked(self, found: Scales) -> Scales:
        """Return the scales with marks of extremely narrow columns, and of columns hidden by noise.

        Columns that were narrow before the zooms do not count as constant.
        """
        return found._replace(
            is_point=self.is_point,
            is_unclear=found.is_flat & self.is_blurred,
            is_constant=found.is_constant & ~self.is_narrow,
        )


def _zoom_in(
    branches: AnyOf,
    intervals: Intervals,
    is_narrow: np.ndarray,
    sizes: SizeCounts,
    columns: _Columns,
    bounds: Intervals | None = None,
) -> _Zoomed:
    """Shrink the intervals of narrow columns, by released histograms of their entries (zooms).

    Each zoom is of those columns whose intervals are still open, that is, may shrink. If none are
    open, the remaining zooms are skipped. `sizes` show whether a shorter interval would leave out
    too many entries. If noise would hide most counts, no zoom is made, and moments get the share of
    the zooms. `bounds` are public intervals, if there are any.
    """
    moments_alone, (zooms, moments) = branches.branches
    no_column, n_narrow = np.zeros_like(is_narrow), int(is_narrow.sum())
    most_noise = _MOST_NOISE_OF_BIN * (is_narrow * sizes.n_rows).max()
    if not n_narrow or _noise_std_of_bin(zooms[0], n_narrow, columns.budget) > most_noise:
        return _Zoomed(moments_alone, intervals, is_narrow, is_narrow, no_column)
    wide, is_open, is_blurred = intervals, is_narrow, no_column
    # Sums over all zooms into the same interval: counts, their noise variance, number of zooms.
    n_bins = zooms[0].shape[1]
    sums, variance = np.zeros((columns.n_columns, n_bins)), np.zeros(columns.n_columns)
    n_summed = np.zeros(columns.n_columns)
    # For each column, the last interval that has all visible bins. This interval replaces an
    # extremely short one that leaves out a visible bin.
    with_all, leaves_out = intervals, no_column.copy()
    inside = sizes._replace(counts=counts_inside(sizes.counts, *intervals.ends))
    for n_zooms, zoom in enumerate(zooms, start=1):
        before, is_seen = intervals, is_open
        own, outer = before.of_columns(is_seen), wide.of_columns(is_seen)
        bins_of = partial(bins_within, intervals=own, wide=outer, n_bins=n_bins)
        exact = columns.counts(bins_of, n_bins, is_seen)
        counts, noise_std = columns.budget.release(zoom, exact, n_columns=len(exact))
        stds = np.full(len(counts), noise_std)
        intervals, is_open, are_out = zoomed_intervals(before, is_seen, counts, stds, inside)
        sums[is_seen] += counts
        variance[is_seen] += noise_std**2
        n_summed += is_seen
        # If a zoom shows too little, the next one repeats it, and the mean count has less noise.
        stays = is_open & (intervals.half == before.half) & (n_summed > 1)
        if stays.any():
            means = sums[stays] / n_summed[stays, np.newaxis]
            stds = np.sqrt(variance[stays]) / n_summed[stays]
            intervals, *again = zoomed_intervals(intervals, stays, means, stds, inside)
            is_open, are_out = np.where(stays, again, [is_open, are_out])
        has_shrunk = intervals.half != before.half
        sums[has_shrunk], variance[has_shrunk], n_summed[has_shrunk] = 0.0, 0.0, 0.0
        with_all = with_all.replaced(are_out & ~leaves_out, before)
        leaves_out |= are_out
        is_blurred = is_blurred | (is_seen & (_CLEAR * (sizes.n_rows / noise_std) ** 2 < n_bins))
        if not is_open.any():
            columns.budget.skip(*zooms[n_zooms:])
            break
    is_point = is_seen & are_points(intervals, before, n_bins)
    intervals = intervals.replaced(is_point & leaves_out, with_all)
    intervals, is_point = lengthened_points(intervals, is_point & ~leaves_out, sizes, bounds)
    return _Zoomed(moments, intervals, is_narrow, is_blurred, is_point)


def _release_moments(
    release: Release, intervals: Intervals, columns: _Columns, weights: Any = 1.0
) -> Moments:
    """Release the moments of columns in their intervals, with noise divided by `weights`."""
    kernel = summing(intervals, _PRESENCE * (release.shape[0] > 2))
    sums = columns.view.map_sum(kernel, math.prod(release.shape))
    means, noise_std = columns.budget.release(release, sums * weights / columns.n_rows)
    return Moments(means / weights, noise_std / weights * np.ones(columns.n_columns))
