"""Records of a least-squares fit: rows and responses, divided by their released scales."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, hstack, issparse

from skdp.data import sources
from skdp.data.containers import is_mapped
from skdp.data.matrices import SHORT_ROW
from skdp.data.parts import Targets
from skdp.data.reduce import PerRow
from skdp.data.rows import Block, RowCache, Rows, products_of
from skdp.linalg.norms import with_data
from skdp.linear_model._descent import bounded, median_of_responses
from skdp.linear_model.least_squares.plan import LeastSquaresReleases, LeastSquaresSpec
from skdp.linear_model.low_rank.records import GUESSED_SPREAD, count_responses, release_spread
from skdp.preprocessing.scales import Scales
from skdp.privacy import PrivacyBudget, Release
from skdp.privacy.clipping import NO_CLIPPING

# At most so many rows, fewer if they are long, are scaled at once, to fit in the cache of a core.
_AT_ONCE = 800  # not studied

# ------------------------------
# Rows divided by their scales, clipped entry by entry, with a 1 appended for the intercept.


@dataclass(frozen=True, eq=False)
class Scaling:
    """The map from rows to fitted rows: :math:`(x - m) / s`, clipped entry by entry.

    A feature whose multiplier is 0 is left out. Rows that stay sparse have no center.
    """

    center: np.ndarray | None  # m
    multiplier: np.ndarray  # 1 / s
    largest: np.ndarray  # clip levels of the entries
    has_one: bool  # whether a 1 is appended, for the intercept
    is_sparse: bool  # whether rows stay sparse

    @property
    def n_columns(self) -> int:
        """Number of entries of a mapped row."""
        return len(self.multiplier) + self.has_one

    def mapped(self, raw: Any, out: np.ndarray | None = None) -> Any:
        """Map a block of rows; dense results are written to `out`."""
        if self.is_sparse:
            data = raw.data * self.multiplier[raw.indices]
            largest = self.largest[raw.indices]
            rows = with_data(raw, np.clip(data, -largest, largest))
            return csr_array(hstack([rows, np.ones((rows.shape[0], 1))])) if self.has_one else rows
        assert out is not None
        joint, size = out[: raw.shape[0]], len(self.multiplier)
        rows = raw.toarray() if issparse(raw) else raw
        center = np.zeros(size) if self.center is None else self.center
        # Several rows are scaled at once: NumPy's loops are long then, and their data in the cache.
        length = min(_AT_ONCE, max(1, _AT_ONCE * SHORT_ROW // size), len(rows))
        of_columns = np.stack([center, self.multiplier, self.largest])[:, np.newaxis]
        of_rows = np.tile(of_columns, (1, length if size <= SHORT_ROW else 1, 1))
        scratch = np.empty((length, size))
        for first in range(0, len(rows), length or 1):
            part = np.ascontiguousarray(rows[first : first + length])
            values, (center, multiplier, largest) = scratch[: len(part)], of_rows[:, : len(part)]
            np.subtract(part, center, out=values)
            values *= multiplier
            np.minimum(values, largest, out=values)
            np.maximum(values, -largest, out=values)
            joint[first : first + length, :size] = values
        # For a feature that is left out, 0 is written: infinity times 0 would be NaN.
        joint[:, :size][:, self.multiplier == 0] = 0.0
        joint[:, size:] = 1.0
        return joint


@dataclass(eq=False)
class Records(Rows):
    """Rows with their responses; a response of NaN makes the record null."""

    responses: Targets = field(kw_only=True)
    scaling: Scaling | None = None

    @property
    def n_features(self) -> int:
        """Number of entries of a mapped row."""
        return super().n_features if self.scaling is None else self.scaling.n_columns

    @property
    def keeps_sparse(self) -> bool:
        """Whether mapped rows are sparse."""
        is_written_out = self.scaling is not None and not self.scaling.is_sparse
        return super().keeps_sparse and not is_written_out

    def blocks(self, group: range) -> Iterator[tuple[slice, Block]]:
        """Yield blocks of rows; records without a response are null."""
        for rows, block in super().blocks(group):
            yield rows, block.without(np.isnan(self.responses[rows]))

    def _block_of(self, raw: Any, scratch: np.ndarray) -> Block:
        mapped = raw if self.scaling is None else self.scaling.mapped(raw, scratch)
        return super()._block_of(mapped, scratch)

    def scaled(self, scaling: Scaling, responses: Targets) -> "Records":
        """Return records with mapped rows, stored if they are small and X is in memory."""
        view = replace(self, scaling=scaling, responses=responses)
        X = self.source.X
        if not scaling.is_sparse:
            is_in_memory = issparse(X) or (isinstance(X, np.ndarray) and not is_mapped(X))
            # Two copies in float64, of 8 bytes an entry, may use at most `CACHE_BYTES` of memory.
            if not is_in_memory or 16 * X.shape[0] * scaling.n_columns > sources.CACHE_BYTES:
                return view
            rows, norms = view.map_sum(
                lambda _, block: (PerRow(block.raw.copy()), PerRow(block.norms())), 0
            )
            cache = RowCache(norms)
        elif issparse(X):
            rows, cache = scaling.mapped(X), RowCache()
        else:
            return view
        return replace(
            view, source=sources.Source(rows, like=self.source), scaling=None, cache=cache
        )


# ------------------------------
# Centers and scales.

# The fit warns if noise hides more than this fraction of the responses: the scale of the responses
# may then be far too small.
_MOST_HIDDEN = 1 / 4  # benchmarks/least_squares/made_up.md, "Tails that noise hides"
_HIDDEN_TAIL = (
    "Predictions may be worse than the mean of the responses: noise hides a quarter of the "
    "responses or more, and large ones among them are clipped. Pass a larger epsilon, or a public "
    "function of y with shorter tails, such as numpy.arcsinh(y)."
)


class ResponseScale(NamedTuple):
    """Released center and scale of responses, and the fraction that differs from the center."""

    center: float
    size: float  # root mean square around the center
    off_center: float = 1.0
    is_guess: bool = False  # noise hides all responses off the center, so that `size` is a guess


def release_response_scale(
    plan: LeastSquaresReleases, view: Records, bound: float, budget: PrivacyBudget
) -> tuple[Records, ResponseScale]:
    """Release the median of bounded responses, and their root mean square around it.

    Without an intercept, the center is 0. Return the records with scaled responses, and the scale.
    """
    responses = view.responses.mapped(partial(bounded, bound=bound))
    center = median_of_responses(plan.center, responses, budget, view) if plan.center else 0.0
    scale = ResponseScale(center, size=1.0)
    if plan.spread is not None:
        centered = responses.mapped(partial(in_scale, scale=scale))
        counts, farthest = count_responses(centered, view), bound + abs(center)
        spread = release_spread(plan.spread, counts, budget, farthest, view.n_rows)
        if spread.is_guess:
            budget.warnings.append(f"{GUESSED_SPREAD} responses.")
        elif spread.hidden > _MOST_HIDDEN:
            budget.warnings.append(_HIDDEN_TAIL)
        # If the scale is a guess, the fraction of responses that differ from the center is unknown.
        off_center = 1.0 if spread.is_guess else spread.fraction_off_center
        scale = ResponseScale(center, spread.of_all, off_center, spread.is_guess)
    return replace(view, responses=responses.mapped(partial(in_scale, scale=scale))), scale


def in_scale(responses: np.ndarray, scale: ResponseScale) -> np.ndarray:
    """Center and scale responses; clip those whose squares could overflow."""
    return np.clip((responses - scale.center) / scale.size, -NO_CLIPPING, NO_CLIPPING)


# ------------------------------
# A prior: how much of it the model uses, and the responses minus its predictions.

# A prior's weight is estimated from the slope of the responses on its predictions. Slopes are
# assumed to be normal: with mean 1 and standard deviation `_GOOD` for the fraction `_ARE_GOOD` of
# all priors, and with mean 0 and standard deviation `_OTHERS` for bad ones. The mean square is
# taken to be at least `_LEAST_SQUARE` for predictions, and at least `_LEAST_LEFT` for residuals.
# benchmarks/least_squares/prior.md
_GOOD, _OTHERS, _ARE_GOOD, _LEAST_SQUARE, _LEAST_LEFT = 0.15, 0.5, 0.8, 0.1, 0.04
# Predictions of a prior are clipped to this many scales of the responses.
_LARGEST_PREDICTION = 5.0  # benchmarks/least_squares/prior.md
_MOST_LOG_ODDS = 50.0  # as the exponential of more could overflow; not tuned
# A prior is far off if the root mean square of its predictions around the center of the responses
# exceeds `_FAR_OFF` scales of the responses, for uncorrelated features. The weight of such a prior
# becomes 0 if it is below `_LEAST_OF_FAR`. benchmarks/least_squares/made_up.md
_FAR_OFF, _LEAST_OF_FAR = 3.0, 0.5
# The prior predicts from clipped rows if it is not far off and the strength that is left for the
# steps is at least this, else from unclipped rows.
_CLIPPED = 250.0  # benchmarks/least_squares/prior.md


class PriorPart(NamedTuple):
    """The used part of a prior, and the centered, scaled responses minus its predictions.

    If the prior predicts from unclipped rows, `whole` is the same as `coef`, and these predictions
    are clipped to the `ends`; else `whole` is None.
    """

    scale: ResponseScale  # of `responses`
    responses: Targets
    coef: np.ndarray  # of the prior, times `weight`
    weight: float = 0.0
    whole: np.ndarray | None = None
    ends: tuple[float, float] = (0.0, 0.0)


def release_agreement(
    release: Release | None,
    spec: LeastSquaresSpec,
    view: Records,
    scale: ResponseScale,
    budget: PrivacyBudget,
    fitted: tuple[Scales, Scaling, Records] | None = None,
) -> PriorPart:
    """Release how well a prior predicts, and subtract its weighted predictions from the responses.

    `fitted` has the scales of features, if they are released, the map to fitted rows, and these
    rows. The prior predicts from fitted rows, which are clipped, so that the fit corrects its
    errors; or from the unclipped rows of `view`, if too little budget is left to correct errors or
    the prior is far off. A prior for other units, or for centered features, is far off: most of its
    predictions are clipped, and no linear fit corrects them.
    """
    if release is None or spec.prior is None:
        return PriorPart(scale, view.responses, np.zeros(spec.n_features))
    coef, intercept = spec.prior
    slopes, constant, stds, is_far, scaling = coef, intercept, np.zeros(1), False, None
    if fitted is not None:
        scales, stds = fitted[0], np.sqrt(fitted[0].variance)
        with np.errstate(all="ignore"):
            middle = intercept + scales.center @ coef - scale.center
            size = np.hypot(np.linalg.norm(coef * stds), middle)
        is_far = not (scale.is_guess or size <= _FAR_OFF * scale.size)
        if not is_far and spec.left_strength >= _CLIPPED:
            _, scaling, view = fitted
    if scaling is not None:
        coef, intercept, slopes, constant = _on_fitted_rows(coef, intercept, scaling)
    # If the scale of the responses is a guess, and the prior's predictions have a larger scale, the
    # larger one becomes the unit of the responses: `ratio` times the guess.
    with np.errstate(all="ignore"):
        ratio = float(np.linalg.norm(coef * stds)) / scale.size
    is_scale_known = not (scale.is_guess and 1 < ratio < NO_CLIPPING)
    ratio = 1.0 if is_scale_known else ratio
    unit, responses, largest = ratio * scale.size, view.responses, spec.largest_product
    slopes, constant = slopes / unit, (constant - scale.center) / unit

    def _predicted(block: Block, bound: float = _LARGEST_PREDICTION) -> np.ndarray:
        """Return the prior's predictions for a block, clipped to size `bound`."""
        predicted = products_of(block, slopes[:, np.newaxis])[:, 0] + constant
        # Rows with NaN or huge entries have no finite prediction.
        predicted[~np.isfinite(predicted)] = 0.0
        return np.clip(predicted, -bound, bound)

    def _products(rows: slice, block: Block) -> np.ndarray:
        """Sum clipped products of predictions and responses, and squares of predictions."""
        predicted, true = _predicted(block), responses[rows] / ratio
        predicted[np.isnan(true)] = 0.0
        products = np.column_stack([predicted * np.nan_to_num(true), predicted**2])
        # Clipping multiplies both products by one factor, to keep their ratio, the slope.
        longest = np.maximum(np.abs(products).max(axis=1, keepdims=True) / largest, 1.0)
        products = np.clip(products / (longest * largest), -1.0, 1.0)
        return np.asarray(block.times_sample_weight(products).sum(axis=0))

    released, noise_std = budget.release(release, view.map_sum(_products, 2))
    product, square = (largest / spec.n_units * released).tolist()
    weight = weight_of(product, square, largest * noise_std / spec.n_units)
    weight *= not is_far or weight >= _LEAST_OF_FAR
    # Root mean square of the responses minus the weighted predictions.
    residual_size = 1.0
    if is_scale_known:
        residual_size = math.sqrt(max(1 - 2 * weight * product + weight**2 * square, _LEAST_LEFT))

    # With a `scaling`, rows are clipped: predictions need no clipping, and stay linear in rows.
    farthest = _LARGEST_PREDICTION if scaling is None else NO_CLIPPING

    def _unexplained(rows: slice, block: Block) -> np.ndarray:
        residuals = responses[rows] - weight * ratio * _predicted(block, farthest)
        return np.clip(residuals / residual_size, -NO_CLIPPING, NO_CLIPPING)

    mixed_center = scale.center + weight * (intercept - scale.center)
    offset, half = scale.center - intercept, _LARGEST_PREDICTION * unit
    ends = weight * (offset - half), weight * (offset + half)
    scale = scale._replace(center=mixed_center, size=scale.size * residual_size)
    whole = weight * coef if scaling is None else None
    unexplained = Targets.of(view.map_rows(_unexplained))
    return PriorPart(scale, unexplained, weight * coef, weight, whole, ends)


def _on_fitted_rows(
    coef: np.ndarray, intercept: float, scaling: Scaling
) -> tuple[np.ndarray, float, np.ndarray, float]:
    """Return a linear model of the used features, and its slopes and constant on fitted rows.

    The coefficient of a feature that the fit leaves out becomes 0: instead, the intercept includes
    what this feature predicts at its center.
    """
    is_used = scaling.multiplier > 0
    center = np.zeros(len(coef)) if scaling.center is None else scaling.center
    intercept += float(center @ np.where(is_used, 0.0, coef))
    coef, slopes = np.where(is_used, coef, 0.0), np.zeros(scaling.n_columns)
    slopes[: len(coef)] = coef / np.where(is_used, scaling.multiplier, 1.0)
    return coef, intercept, slopes, intercept + float(coef @ center)


def weight_of(product: float, square: float, noise_std: float) -> float:
    """Estimate the slope of responses on predictions, in [0, 1], from noisy mean products.

    The estimate is the posterior mean under a mixture of good and bad priors.
    """
    square = max(square, _LEAST_SQUARE, noise_std)
    slope = product / square
    variance = (noise_std / square) ** 2 * (1 + min(abs(slope), 2.0) ** 2)
    # Variances of the noisy slope if the prior is good, and if it is bad.
    good, others = _GOOD**2 + variance, _OTHERS**2 + variance
    log_odds = (slope**2 / others + math.log(others) - (slope - 1) ** 2 / good - math.log(good)) / 2
    log_odds += math.log(_ARE_GOOD / (1 - _ARE_GOOD))
    is_good = 1 / (1 + math.exp(-float(np.clip(log_odds, -_MOST_LOG_ODDS, _MOST_LOG_ODDS))))
    mean = is_good * (variance + slope * _GOOD**2) / good
    return float(np.clip(mean + (1 - is_good) * slope * _OTHERS**2 / others, 0.0, 1.0))
