"""The fit of a logistic regression: whiten rows by a released second moment, then descend."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from skdp.data.reduce import Kernel
from skdp.data.rows import Block, not_finite_error, open_rows
from skdp.exceptions import shortened
from skdp.linalg.norms import LEAST_ROUNDING, UNIT_ROUNDOFF, GridCounts, row_norms
from skdp.linear_model._descent import clipped_fraction
from skdp.linear_model._weighted_rows import joint_gram, whitened_norms
from skdp.linear_model.logistic import plan as logistic_plan
from skdp.linear_model.logistic import scores as logistic_scores
from skdp.linear_model.logistic.plan import LabeledRows, LogisticReleases, LogisticSpec, Whitening
from skdp.linear_model.logistic.scores import Path, PriorPart, Scores, std_errors
from skdp.preprocessing.intervals import OTHER_UNITS_OF_X
from skdp.privacy import Plan, PrivacyBudget, Release
from skdp.privacy.clipping import NO_CLIPPING, clip_weights, clipped
from skdp.privacy.releases import Search, warnings_for_ends

# ------------------------------
# Warnings, from public facts and released values.

#: Warning of a fit whose classes are the labels that occur in the data.
LABELS_BECOME_PUBLIC = (
    "classes=None takes the labels of y for the classes: which labels occur becomes public by this "
    "fit, and is not protected. Pass classes, a list of all possible labels."
)
# Noise may hide a class, and the fit warns, if two numbers are small. The first is the number of
# records of the class, times mu, per coefficient: below `_LEAST_OF_CLASS`. The second is the
# frequency of the class, times the number of classes: below `_LEAST_OF_DUE`. With two classes, the
# area under the ROC curve is then .5 to .85 instead of .9. Not studied.
_LEAST_OF_CLASS, _LEAST_OF_DUE = 2.5, 0.5
# No warning names rare classes if the strength, a field of the spec, is below this: then noise
# hides all classes. Not studied.
_LEAST_STRENGTH = 12.0
# The gain of a model is 1 minus the ratio of its log loss to the log loss of constant predictions,
# the class frequencies. A gain below `LEAST_GAIN` is negligible. A model with a gain above
# `CLEAR_GAIN` tells classes apart.
LEAST_GAIN, CLEAR_GAIN = 0.05, 0.25  # not studied
# A fit is sure, and gives fewer warnings, if its gain is at least `SURE_GAIN`. It is also sure if
# the gain is at least `_SURE_WITH` and noise is at most the fraction `_LITTLE_NOISE` of the mean
# square of its scores.
SURE_GAIN, _SURE_WITH, _LITTLE_NOISE = 0.75, 0.15, 0.035  # benchmarks/classification/alarms.md
#: First words of a warning. A pipeline drops the warning if a scaler stands before the fit and the
#: fit is sure, that is, if released losses show that the model misses little.
HIDDEN_VARIATION = "Classes may be distinguished badly"


def warnings_for_size(spec: LogisticSpec, plan: Plan) -> Iterator[str]:
    """Warn if labels become public, or if records are too few to find a clipping norm."""
    if not spec.unit.is_enforced:
        yield LABELS_BECOME_PUBLIC
    if logistic_plan.is_norm_guessed(spec):
        yield (
            f"Rows are taken to be standardized: too few {spec.unit.counted}, {spec.n_units} "
            f"with epsilon={spec.cost.epsilon:g}, to find a clipping norm. Put skdp."
            "DPStandardScaler before this step, or pass row_norm, a public bound of most norms."
        )


def warnings_for_fit(
    spec: LogisticSpec, whitening: Whitening, fractions: np.ndarray, gain: float, *, is_sure: bool
) -> Iterator[str]:
    """Warn of hidden columns, rare classes and small gains, from released values.

    `fractions` are noisy frequencies of the classes. The fit `is_sure` if released losses show that
    it finds even the rarer one of two classes.
    """
    units = spec.unit.counted
    if gain < CLEAR_GAIN and whitening.is_hidden:
        smaller = "" if spec.row_norm is None else "a smaller row_norm, "
        yield (
            f"{HIDDEN_VARIATION}: noise hides how most columns vary. Put skdp.DPStandardScaler "
            "before this step. If a scaler is there, or columns are 0 and 1 or counts of words, "
            f"pass {smaller}a larger epsilon or more {units}."
        )
    is_rare = (spec.strength >= _LEAST_STRENGTH) & (spec.strength * fractions < _LEAST_OF_CLASS)
    rare = np.flatnonzero(is_rare & (spec.n_classes * fractions < _LEAST_OF_DUE))
    if len(rare) and not (is_sure and spec.n_classes == 2):
        # The warning shows indices instead of labels, which may be private values of y.
        shown = shortened([f"classes_[{place}]" for place in rare.tolist()])
        yield (
            f"{len(rare)} of {spec.n_classes} classes ({shown}) may be lost in the noise: they "
            f"have few {units}, as far as noise can tell. Pass more {units}, a larger epsilon, or "
            f"{spec.fewer}."
        )
    elif gain < LEAST_GAIN:
        yield no_better(spec)


def no_better(spec: LogisticSpec) -> str:
    """Return the warning that noise hides whether the model tells the classes apart."""
    longer = "" if spec.row_norm is None else "a larger row_norm, "
    return (
        "Probabilities may be no better than the frequencies of the classes, as far as noise "
        f"can tell. Pass more {spec.unit.counted}, a larger epsilon, {longer}or {spec.fewer}."
    )


# ------------------------------
# Gradient steps on whitened rows.

# Take a row of root mean square norm, whose wrong classes together have this probability. The clip
# level of gradients is the norm of the gradient of this row, times a factor: see `gradient_level`.
_CLIP = 0.5  # benchmarks/classification/constants.md
# Clipping and noise make the loss flatter. So its curvature is taken to be a fraction of the
# curvature at the class frequencies. The fraction rises from `_CURVATURE` to `_LARGEST_CURVATURE`
# with the number of records, as a smaller part of them is clipped. But for a `spec.strength` below
# `_WEAK_OF_TWO` with two classes, or below `_WEAK_OF_MORE` with more classes, the fraction is
# `_CURVATURE_OF_WEAK`: benchmarks/classification/constants.md.
_CURVATURE, _LARGEST_CURVATURE, _CURVATURE_OF_WEAK = 0.25, 0.8, 0.5
_WEAK_OF_TWO, _WEAK_OF_MORE = 5.0, 15.0
# Step length with two classes; with more, `_STEP_A_CLASS` times their number, up to
# `_LARGEST_STEP`: benchmarks/classification/constants.md. On whitened rows the curvature of the
# loss is at most 1/4 with two classes, so that steps longer than 8 may diverge, and at most 1/2
# with more classes, so that steps longer than 4 may.
_STEP_OF_TWO, _STEP_A_CLASS, _LARGEST_STEP = 4.0, 0.4, 4.0


@dataclass(frozen=True)
class WhitenedRecords:
    """Records of whitened rows, and the clipped sum of their gradients.

    Attributes
    ----------
    level : float
        Norm to which the gradient of a record is clipped.
    longest : float
        Largest norm of a row minus the mean row.
    shrinking : callable
        For each row of a block, the clip weight of the row and the largest norm of its residuals.
        Both are 0 for a null record.
    base : ndarray of shape (n_features + 1, n_columns) or float
        Weights of a prior, to which the steps add.
    """

    view: LabeledRows
    whitening: Whitening
    level: float
    longest: float
    shrinking: Kernel
    base: np.ndarray | float = 0.0

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """Sum the clipped gradients of whitened rows; the last row is for the intercepts.

        Whitening is linear, so the weights and the sum are whitened instead of the rows. That is
        faster, and sparse rows stay sparse.
        """
        white, codes = self.whitening, self.view.codes
        slopes, offsets = white.root @ weights[:-1], weights[-1]
        shift = white.mean @ slopes

        def _clipped(rows: slice, block: Block) -> np.ndarray:
            """Sum the clipped gradients of a block."""
            # Three sums: rows times residuals, residuals times row weights, and residuals.
            limits = self.shrinking(rows, block)
            row_weights, largest = limits[:, :1], limits[:, 1]
            scores = np.asfortranarray(block.matmul(slopes))
            scores -= shift
            scores *= row_weights
            scores += offsets
            residuals = residuals_of(scores, codes[rows])
            size = len(slopes) + residuals.shape[1] + 7
            clip_factors = clip_weights(row_norms(residuals), largest, size)
            residuals *= clip_factors[:, np.newaxis]
            residuals[clip_factors == 0] = 0.0  # also residuals of NaN
            of_rows = row_weights * residuals
            sums = [block.times_sample_weight(one).sum(axis=0) for one in (of_rows, residuals)]
            return np.vstack([block.rmatmul(of_rows), *sums])

        total = self.view.map_sum(_clipped, weights.size + weights.shape[1])
        products, weighted, unweighted = total[:-2], total[-2], total[-1]
        return np.vstack([white.root @ (products - np.outer(white.mean, weighted)), unweighted])


def whitened(
    view: LabeledRows, white: Whitening, level: float, base: np.ndarray | float = 0.0
) -> WhitenedRecords:
    """Return records whose rows are whitened, and whose gradients are clipped to `level`.

    Norms of rows in memory are computed once, as they take n d^2 operations. Rows from a source
    that may change between passes get new norms in each pass.
    """
    longest = view.bound + float(row_norms(white.mean[None])[0])

    def _shrinking(_: slice, block: Block) -> np.ndarray:
        """Return the clip weight of each row, and the largest norm of its residuals."""
        norms = whitened_norms(block, white.root, white.mean, largest=white.largest, bound=longest)
        weights = clip_weights(norms, white.clip_norm, block.raw.shape[1])
        # The norm of a gradient is the norm of (row, 1) times the norm of the residuals.
        largest_residuals = level / np.hypot(weights * np.nan_to_num(norms), 1.0)
        largest_residuals[np.isnan(norms)] = 0.0
        return np.column_stack([weights, largest_residuals])

    if not view.source.is_repeatable:
        return WhitenedRecords(view, white, level, longest, _shrinking, base)
    # In Fortran order, as each step reads one column at a time.
    limits = np.asfortranarray(view.map_rows(_shrinking))
    return WhitenedRecords(view, white, level, longest, lambda rows, _: limits[rows], base)


def descend(
    spec: LogisticSpec,
    plan: tuple[Release, ...],
    records: WhitenedRecords,
    start: np.ndarray,
    budget: PrivacyBudget,
) -> tuple[Scores, Path]:
    """Take all gradient steps on whitened rows, each of which releases one gradient.

    Weights have the shape (n_features + 1, n_columns); the last row has the intercepts. The result
    is the mean of the last half of the steps: scores by the mean weights, and a path of the mean
    weights and the mean released gradient.
    """
    white, n_classes = records.whitening, spec.n_classes
    # Step length and momentum follow from the moment and public facts, before the first step.
    step = _STEP_OF_TWO if n_classes == 2 else min(_LARGEST_STEP, _STEP_A_CLASS * n_classes)
    noise_std = plan[0].sensitivity_for(records.level) / (spec.cost.mu * math.sqrt(plan[0].share))
    flatness = min(_LARGEST_CURVATURE, _CURVATURE * logistic_plan.level_factor(spec) ** 2)
    if spec.strength < (_WEAK_OF_TWO if n_classes == 2 else _WEAK_OF_MORE):
        flatness = _CURVATURE_OF_WEAK
    curvature = flatness * logistic_plan.curvature_at(start[-1])
    pace = logistic_plan.Pace(len(plan), step, 0.0, curvature, step * noise_std / spec.n_units)
    pace = replace(pace, momentum=logistic_plan.momentum_of(spec, pace, start, white))
    most = max(1.0, _LARGEST_STEP / step)
    factor_at = logistic_plan.step_factors(spec, pace, most, start[-1], white)
    # The penalty shrinks slopes after each step, instead of adding to the gradient: so steps
    # converge however large the penalty is.
    penalty = (white.root * white.variances) @ white.root
    penalty *= logistic_scores.OF_PENALTY / spec.n_units
    penalties, directions = np.linalg.eigh(penalty)
    previous, weights, iterates = start, start, list[np.ndarray]()
    points, gradients, factors = list[np.ndarray](), list[np.ndarray](), list[float]()
    for release in plan:
        ahead = weights + pace.momentum * (weights - previous)
        total = records.gradient(records.base + ahead)
        rounding = _rounding(spec, records, records.base + ahead)
        noisy = budget.release(release, total, records.level, rounding=rounding).value
        points.append(records.base + ahead)
        gradients.append(logistic_plan.centered(noisy) / spec.n_units)
        factors.append(factor_at(ahead))
        next_point = ahead - factors[-1] * step * gradients[-1]
        shrinkage = 1 / (1 + factors[-1] * step * np.maximum(penalties, 0.0))
        slopes = (directions * shrinkage) @ (directions.T @ next_point[:-1])
        previous, weights = weights, np.vstack([slopes, next_point[-1:]])
        iterates.append(weights)
    pace = replace(pace, step_noise=pace.step_noise * float(np.mean(factors[len(plan) // 2 :])))
    mean = logistic_plan.mean_of(
        iterates, pace, white, drops=spec.strength >= logistic_plan.LEAST_TO_DROP
    )
    path = Path.of(points, gradients, noise_std / spec.n_units, white)
    return logistic_scores.scores_of(mean, start, pace, white, spec.n_units), path


def gradient_level(clip_norm: float, n_classes: int, factor: float) -> float:
    """Return the norm to which gradients of rows are clipped.

    Take a row whose norm is the root mean square norm, and a probability p of its true class, with
    the rest spread evenly over the other classes. With a factor of 1, its gradient is clipped if p
    is below 1/2. The level grows with the factor, up to the longest possible gradient.

    Whitened rows are clipped to `clip_norm`, which is `factor` times their root mean square norm.
    """
    # With more than two classes, the residuals of the wrong classes add to the norm.
    longer = math.sqrt(n_classes / (n_classes - 1)) if n_classes > 2 else 1.0
    level = _CLIP * factor * math.hypot(clip_norm / factor, 1.0)
    return longer * min(level, math.hypot(clip_norm, 1.0))


def _rounding(spec: LogisticSpec, records: WhitenedRecords, weights: np.ndarray) -> float:
    r"""Bound the rounding error of the sum of gradients, in units of the clip level.

    Rows are whitened by :math:`z = A (x - m)` after they are summed. Before, a record adds a vector
    of at most :math:`\sqrt 2 (c + |m|)`, with the clipping norm c of rows, as no residual is longer
    than :math:`\sqrt 2`. Whitening multiplies the error of the sum by at most the norm of A, and
    adds an error of its own.

    If the unit is a user, one user's rows move the rows of other users to other places in memory,
    where BLAS may round products differently. With d features and the unit roundoff u, the error of
    z is then :math:`e = (d + 8) u \sqrt d` times the longest row. The error of a class's score is e
    times the norm of its weights W. The error of a probability is at most half of that. So the
    product of :math:`(z, 1)` and a residual is off by :math:`\sqrt 2 e (1 + |W| |(z, 1)|)`.
    """
    white, n_features = records.whitening, spec.n_features
    longest = white.largest * records.longest + 1
    depth = spec.depth + n_features**1.5 + spec.n_classes
    if records.view.people is not None:
        clip_norm = math.hypot(white.clip_norm, 1.0) * float(np.linalg.norm(weights))
        depth += (n_features + 8) * math.sqrt(n_features) * (1 + clip_norm)
    rounding = depth * UNIT_ROUNDOFF * spec.n_units * math.sqrt(2) * longest / records.level
    return max(LEAST_ROUNDING, rounding)


def residuals_of(scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the predicted probabilities minus the indicators of the true classes.

    `codes` has the index of each row's true class. Two classes have one column of scores, log odds
    of the second class, and one column of residuals. The result is in Fortran order.
    """
    if scores.shape[1] == 1:
        return np.asarray(expit(scores) - codes[:, np.newaxis])
    # One row per class: NumPy takes ten times as long for many rows of few numbers.
    by_class = np.array(scores.T, order="C")
    by_class -= by_class.max(axis=0)
    np.exp(by_class, out=by_class)
    by_class /= by_class.sum(axis=0)
    by_class[codes, np.arange(len(codes))] -= 1
    return by_class.T


# ------------------------------
# Coefficients without noise or clipping, equal to those of scikit-learn.

_PRECISION = {"maxiter": 2000, "maxcor": 30, "gtol": 1e-7, "ftol": 1e-16}  # not studied


def on_rows(weights: np.ndarray, root: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Convert weights of whitened rows to weights of raw rows; the last row has the intercepts."""
    slopes = root @ weights[:-1]
    return np.vstack([slopes, weights[-1] - mean @ slopes])


def optimum(view: LabeledRows, n_columns: int, of_all: Callable[[Any], Any] = np.asarray) -> Any:
    """Minimize the penalized logistic loss, without noise or clipping.

    The penalty is that of scikit-learn's `LogisticRegression` with ``C=1`` on standardized columns.
    The number of steps depends on the data, so this function is only for ``epsilon=inf``, where
    nothing is private.

    The weights have the shape (n_features + 1, n_columns), with one column for two classes, else
    one for each class; the last row has the intercepts. `of_all` adds the sums of several owners.
    """
    n_rows, size = view.n_rows, view.n_features
    mean = of_all(view.total()[0]) / n_rows
    covariance = of_all(view.gram()[0]) / n_rows - np.outer(mean, mean)
    # A variance this small is rounding error, so the column counts as constant, with scale 1.
    is_constant = np.diag(covariance) <= 16 * np.finfo(float).eps * mean**2
    covariance[is_constant], covariance[:, is_constant] = 0.0, 0.0
    sizes = np.where(is_constant, 1.0, np.sqrt(np.diag(covariance)))
    penalty = 1 / n_rows
    # The optimizer works in coordinates in which rows have a variance of about 1, so that the loss
    # curves alike along all. A direction without variance, which only the penalty curves, counts
    # with the variance `least`: with less, rounding errors would grow with each step.
    least = 8 * penalty
    curvature = covariance / sizes / sizes[:, np.newaxis] + least * np.eye(size)
    values, vectors = np.linalg.eigh(curvature)
    root = vectors / np.sqrt(np.maximum(values, least)) / sizes[:, np.newaxis]

    def _loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the penalized loss and its gradient, flattened, as `minimize` expects them."""
        weights = on_rows(flat.reshape(size + 1, n_columns), root, mean)
        pulled = penalty * (sizes**2)[:, np.newaxis] * weights[:-1]

        def _sums(rows: slice, block: Block) -> np.ndarray:
            """Sum gradients and losses of a block."""
            # Rows of the sum: features times residuals; residuals; the loss, in the first column.
            scores, places = block.matmul(weights[:-1]) + weights[-1], view.codes[rows]
            residuals = residuals_of(scores, places)
            residuals[block.is_null] = 0.0
            losses = np.zeros(residuals.shape[1])
            weighted = block.times_sample_weight(logistic_scores.losses_at(scores, places))
            losses[0] = weighted[~block.is_null].sum()
            of_rows = block.times_sample_weight(residuals).sum(axis=0)
            return np.vstack([block.rmatmul(residuals), of_rows, losses])

        sums = of_all(view.map_sum(_sums, weights.size + n_columns))
        of_rows = root.T @ ((sums[:-2] - np.outer(mean, sums[-2])) / n_rows + pulled)
        gradient = np.vstack([of_rows, sums[-2] / n_rows])
        return sums[-1, 0] / n_rows + np.vdot(weights[:-1], pulled) / 2, gradient.ravel()

    minimum = minimize(
        _loss, np.zeros((size + 1) * n_columns), jac=True, method="L-BFGS-B", options=_PRECISION
    )
    return on_rows(np.nan_to_num(minimum.x).reshape(size + 1, n_columns), root, mean)


# ------------------------------
# The fit: a clipping norm, the moment of rows and classes, and the descent.

# The wanted number of records whose rows are longer than the released clipping norm is
# `_BEYOND_NORM` over mu. As a fraction of all records, the number is kept within
# `_BEYOND_NORM_LIMITS`: benchmarks/classification/constants.md.
_BEYOND_NORM, _BEYOND_NORM_LIMITS = 350.0, (0.0, 0.5)
# Rows longer than the last candidate norm are counted with it. Otherwise, if all rows were longer,
# all candidates would be equally good.
_ENDS = np.append(logistic_plan.NORMS[:-1], np.inf)  # not tuned
# Predictions clip scores to this many times their root mean square: first with two classes, then
# with more. With 4 for more classes, the log loss would rise by .005 at epsilon 256:
# benchmarks/sweep/sweep.md, "classes".
_FARTHEST = (4.0, 5.0)


class Estimate(NamedTuple):
    """The result of a fit: weights of rows, and what is known about the weights."""

    weights: np.ndarray  # (n_features + 1, n_columns); the last row has the intercepts
    bounds: np.ndarray  # to which `predict_proba` clips scores
    warnings: tuple[str, ...] = ()
    is_sure: bool = False  # whether released losses show that the model misses little
    prior_weight: float = 0.0
    std_errors: np.ndarray | None = None  # of the coefficients; None if unknown


def read_once(
    spec: LogisticSpec, view: LabeledRows, *, is_seeded: bool
) -> tuple[LabeledRows, bytes | None]:
    """Read all rows once, before any release; refuse NaN and infinity.

    The same pass counts the norms of rows, if the fit releases a norm. Return the rows, with these
    counts in their cache, and their hash, if the noise is seeded.
    """
    grid = None if logistic_plan.plan_norm(spec) is None else _ENDS
    rows, digest = open_rows(view, is_seeded=is_seeded, needs_signs=False, first=None, grid=grid)
    if rows.cache.n_not_finite:
        raise not_finite_error(rows.source, rows.n_jobs)
    return replace(view, cache=rows.cache), digest


def solve_logistic(
    spec: LogisticSpec, plan: LogisticReleases, view: LabeledRows, budget: PrivacyBudget
) -> Estimate:
    """Make all planned releases in their order; with ``epsilon=inf``, minimize the loss."""
    view = view.measured()
    if plan.coefficients is not None:
        bound = min(NO_CLIPPING, spec.row_norm or NO_CLIPPING)
        best = optimum(clipped(view, bound), spec.n_columns, budget.of_all)
        exact = budget.part_of(logistic_plan.centered(best))
        bounds = np.full((2, spec.n_columns), [[-np.inf], [np.inf]])
        return Estimate(budget.release(plan.coefficients, exact).value, bounds)
    assert plan.moment is not None
    assert plan.losses is not None
    beyond = clipped_fraction(spec.n_units * spec.cost.mu, _BEYOND_NORM, _BEYOND_NORM_LIMITS)
    row_norm = logistic_plan.clip_norm(spec)
    if plan.norm is not None:
        row_norm = release_norm(plan.norm, view, budget, q=1 - beyond)
    # Losses are computed from unclipped rows, as predictions are, which clip only the scores.
    unclipped, view = clipped(view, NO_CLIPPING), clipped(view, row_norm)
    counted = None if plan.counts is None else _fractions(plan.counts, spec, unclipped, budget)
    moment, whitening = _release_moment(spec, plan.moment, view, row_norm, budget)
    start, fractions, fraction_std = logistic_plan.start_of(moment, whitening, row_norm, counted)
    prior = PriorPart()
    if plan.agreement is not None:
        prior = logistic_scores.release_agreement(
            spec, plan.agreement, unclipped, start[-1], whitening, budget
        )
        start = np.vstack([(1 - prior.weight) * start[:-1], prior.offsets])
    level = gradient_level(whitening.clip_norm, spec.n_classes, logistic_plan.level_factor(spec))
    records = whitened(view, whitening, level, prior.base)
    scores, path = descend(spec, plan.gradients, records, start, budget)
    # With a prior, predictions clip no scores.
    farthest = math.inf
    if spec.prior is None:
        farthest = _FARTHEST[spec.n_columns > 1] * scores.size / math.sqrt(spec.n_columns)
    scores = replace(scores, base=prior.on_rows, farthest=farthest, fraction_std=fraction_std)
    if plan.norm is not None and row_norm == logistic_plan.NORMS[0]:
        # No row differs from 0, so all slopes become 0.
        scores = replace(scores, slopes=0 * scores.slopes, shift=0 * scores.shift)
    factor, gain = logistic_scores.release_factor(spec, plan.losses, unclipped, scores, budget)
    gain += prior.gain
    is_sure = gain >= SURE_GAIN or (gain >= _SURE_WITH and scores.noise <= _LITTLE_NOISE)
    warnings = tuple(warnings_for_fit(spec, whitening, fractions, gain, is_sure=is_sure))
    weights, errors = scores.weights(factor), None
    if spec.n_classes <= logistic_scores.MOST_CLASSES:
        errors = std_errors(path, whitening, level, spec.n_units, weights[:-1])
    return Estimate(weights, scores.bounds(factor), warnings, is_sure, prior.weight, errors)


def _release_moment(
    spec: LogisticSpec, release: Release, view: LabeledRows, row_norm: float, budget: PrivacyBudget
) -> tuple[np.ndarray, Whitening]:
    """Release the second moment of records; return the moment and a whitening.

    Each record is one vector: its row, a constant, and its label as weighted indicators.
    """
    beside = logistic_plan.weights_beside(row_norm)

    def _joint_moment(rows: slice, block: Block) -> np.ndarray:
        labels = np.eye(spec.n_classes)[view.codes[rows]] - 1 / spec.n_classes
        constants = np.full(len(labels), beside[0])
        return joint_gram(block, np.column_stack([constants, beside[1] * labels]))

    total = view.map_sum(_joint_moment, (spec.n_features + 1 + spec.n_classes) ** 2)
    released = budget.release(release, total, row_norm, rounding=spec.rounding)
    moment, noise_std = released.mean(spec.n_units)
    whitening = logistic_plan.whitening_of(moment, noise_std, beside[0], spec.n_features)
    clip_norm = logistic_plan.level_factor(spec) * whitening.clip_norm
    class_noise = noise_std / beside[1] * math.sqrt(0.5)
    return moment, replace(whitening, clip_norm=clip_norm, class_noise=class_noise)


def _fractions(
    release: Release, spec: LogisticSpec, view: LabeledRows, budget: PrivacyBudget
) -> tuple[np.ndarray, float]:
    """Release the class frequencies; return them, and the standard deviation of their noise."""

    def _counts(rows: slice, block: Block) -> np.ndarray:
        labels = np.eye(spec.n_classes)[view.codes[rows]]
        labels[block.is_null] = 0.0
        return np.asarray(block.times_sample_weight(labels).sum(axis=0))

    return budget.release(release, view.map_sum(_counts, spec.n_classes)).mean(spec.n_units)


def release_norm(release: Release, view: LabeledRows, budget: PrivacyBudget, q: float) -> float:
    """Release a clipping norm of rows near the quantile q of their norms.

    The exponential mechanism chooses it or, if several owners hold the rows, a search by noisy
    counts.
    """
    counts = view.counted_norms(_ENDS)
    if isinstance(release, Search):
        return budget.quantile(release, counts._replace(grid=logistic_plan.NORMS), q=q)
    chosen = choose_quantile(release, counts, budget, q)
    budget.warnings += warnings_for_ends(
        release.name, logistic_plan.NORMS[[chosen]], logistic_plan.NORMS, OTHER_UNITS_OF_X
    )
    return float(logistic_plan.NORMS[chosen])


def choose_quantile(release: Release, counts: GridCounts, budget: PrivacyBudget, q: float) -> int:
    """Choose the index of a grid point near a quantile, by the exponential mechanism.

    The quantile is that of all records, including null records, as only the number of all records
    is public.
    """
    up_to = counts.up_to_points
    wanted, below = q * counts.n_units, np.append(0, up_to[:-1])
    # The loss of a point is the number of records by which the point is too low, or by which the
    # point before it is too high. With losses from `up_to` alone, all points above many equal norms
    # would be as good as the lowest of these points.
    losses = np.maximum(0.0, np.maximum(wanted - up_to, below - wanted))
    return budget.choose(release, losses)
