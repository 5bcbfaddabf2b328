"""Logistic regression on matrices, with coefficients of low rank: plan, fit, and estimator."""

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import expit, ndtr, ndtri

from skdp._validation import FINITE_BOUND, with_parameters
from skdp.data.matrices import Design, RankOneMatrices
from skdp.data.rows import Block
from skdp.data.sources import holds_sparse
from skdp.linalg.matrices import (
    DenseMatrices,
    FixedRank,
    Matrices,
    project_coordinates,
    retract,
    tangent_dimension,
    truncate,
)
from skdp.linalg.norms import GridCounts
from skdp.linear_model._descent import release_fraction
from skdp.linear_model._logistic_regression import PrivateClassifier
from skdp.linear_model._supervised import Shape
from skdp.linear_model._weighted_rows import plan_steps
from skdp.linear_model.logistic import fit as logistic_fit
from skdp.linear_model.logistic import plan as logistic_plan
from skdp.linear_model.logistic.fit import Estimate
from skdp.linear_model.logistic.plan import LabeledRows, LogisticSpec
from skdp.linear_model.logistic.scores import Scores, release_factor
from skdp.linear_model.low_rank.descent import cut
from skdp.linear_model.low_rank.spec import TRACE_CONSTRAINTS, check_rank, matrix_shape_of, smaller
from skdp.privacy import PrivacyBudget, Release, sensitivity
from skdp.privacy.clipping import NO_CLIPPING, clip_weights, clipped
from skdp.privacy.plan import left_of, plan_sum
from skdp.privacy.precision import as_python

# ------------------------------
# The spec, and the plan of the releases.

# Shares of the mean matrix, and of the difference of the classes.
_MEAN_SHARE, _START_SHARE = 0.05, 0.2  # not studied
# The sum of matrices times their labels also counts the classes, as a constant entry is appended to
# each matrix. The entry is this fraction of the clipping norm.
_BESIDE = 0.5  # benchmarks/classification/matrix_scores.md
# `_SPREAD_SHARE` is the share of the median size of the scores. `_SPREADS` are the candidates for
# this median, relative to its value if the entries of matrices are uncorrelated.
_SPREAD_SHARE, _SPREADS = 0.02, 2.0 ** (np.arange(17) / 2)  # not studied
# Median size of normal scores of variance 1.
_NORMAL_MEDIAN = float(ndtri(0.75))  # not tuned
# Share of the count of scores that are not clipped for probabilities.
_WITHIN_SHARE = 0.01  # benchmarks/classification/matrix_scores.md
# Gradients are clipped to this fraction of their largest usual norm, times `level_factor`.
_CLIP = 0.35  # not studied


@dataclass(frozen=True)
class TraceClassSpec(LogisticSpec):
    """Spec of a logistic regression of matrices, with coefficients of low rank."""

    matrix_shape: tuple[int, int]
    rank: int


class TraceClassReleases(NamedTuple):
    """All releases of a fit, in order."""

    norm: Release | None  # the median norm of matrices; None if a norm is given or guessed
    mean: Release
    centered_norm: Release | None  # the median norm of matrices minus the mean, or None
    start: Release
    gradients: tuple[Release, ...]
    spread: Release  # the median size of the scores
    within: Release  # the number of scores that are not clipped
    losses: Release  # the losses of several multiples of the scores


def plan_trace_classes(spec: TraceClassSpec) -> TraceClassReleases:
    """Plan all releases of a fit, in order, from public facts."""
    norm, change = logistic_plan.plan_norm(spec), sensitivity.row_sum
    bound = logistic_plan.clip_norm(spec) if norm is None else norm.name
    mean = plan_sum(spec, "mean matrix", _MEAN_SHARE, (spec.n_features,), bound, change)
    centered_norm = logistic_plan.plan_norm(spec, "clip norm around the mean")
    bound = bound if centered_norm is None else centered_norm.name
    beside = _norm_beside(bound) if isinstance(bound, float) else bound
    start = plan_sum(spec, "class difference", _START_SHARE, (spec.n_features + 1,), beside, change)
    by, distance, n_sizes = "exponential", sensitivity.count_distance, _SPREADS.shape
    spread = spec.cost.release("median score", by, _SPREAD_SHARE, distance, {}, shape=n_sizes)
    within = spec.cost.release(
        "scores within bounds", "gaussian", _WITHIN_SHARE, sensitivity.count, {}
    )
    last = spread, within, logistic_plan.plan_losses(spec)
    count, share = logistic_plan.n_steps(spec), left_of(norm, mean, centered_norm, start, *last)
    size, level = (spec.rank * sum(spec.matrix_shape) + 1,), gradient_clip(spec)
    gradients = plan_steps(spec, count, "tangent gradient", share, size, level)
    return TraceClassReleases(norm, mean, centered_norm, start, gradients, *last)


def _norm_beside(bound: float) -> float:
    """Return the largest norm of a matrix with its constant, both times a label of 1/2 or -1/2."""
    return bound * math.hypot(1.0, _BESIDE) / 2


def gradient_clip(spec: TraceClassSpec) -> float:
    """Return the norm to which gradients are clipped.

    For matrices of norm sqrt(d1 d2) without a preferred direction, the norm of a gradient rarely
    exceeds sqrt(n_free + 1).
    """
    return _CLIP * logistic_plan.level_factor(spec) * math.sqrt(spec.n_free + 1)


# ------------------------------
# The fit: the mean of the matrices, a start, and steps along matrices of low rank.

# Step length: the inverse of 1/4, the largest curvature of the loss, at the probability 1/2. Not
# studied.
_STEP = 4.0
# Noise of the mean of iterates, over the noise of a mean of independent iterates. Clipping makes
# the loss flatter, so that noise stays in many iterates. Studied for normal matrices, and without
# signal; not studied beyond.
_LASTING = 3.0
# For probabilities, scores are clipped to this multiple of their usual size, which follows from a
# released median, as few far matrices hardly move a median.
_FARTHEST = 2.5  # benchmarks/classification/matrix_scores.md
_NORMAL_WITHIN = float(2 * ndtr(_FARTHEST) - 1)  # not tuned
# Scores whose usual size exceeds this are shortened to it, as their losses would be clipped.
_LONGEST = 5.0  # benchmarks/classification/matrix_scores.md
_TINY = np.finfo(float).tiny
# The fit warns if noise of the mean exceeds this fraction of the norms of centered matrices.
_MOST_NOISE = 0.6  # not studied
_HIDDEN = (
    "Noise hides how the matrices spread around their mean, and classes may be guessed. "
    "Subtract a public guess of their center, or pass a larger epsilon or more data."
)


def solve_trace_classes(
    spec: TraceClassSpec, plan: TraceClassReleases, view: LabeledRows, budget: PrivacyBudget
) -> Estimate:
    """Release norms, mean, class difference, gradients, and the sizes and losses of scores.

    Gradients are projected to the tangent space of matrices of the given rank, so that the noise
    has only the dimensions of this space. Each gradient is clipped to about a third of its largest
    length. Losses of multiples of the scores decide on the length of the coefficients. The weights
    of the result have the intercept last.
    """
    view = view.measured()
    _, bound = _release_bound(spec, plan.norm, view, budget)
    total, _ = clipped(view, bound).total()
    released = budget.release(plan.mean, total, bound, rounding=spec.rounding)
    mean, noise_std = released.mean(spec.n_units)
    # Matrices are clipped again, as subtracting the mean has changed their norms.
    view = view.centered(mean).measured()
    norm, bound = _release_bound(spec, plan.centered_norm, view, budget)
    difference, excess, std = _release_difference(spec, plan.start, view, bound, budget)
    # The fractions of the two classes are 1/2 - `excess` and 1/2 + `excess`.
    fractions = logistic_plan.likely_fractions(excess * np.array([-1.0, 1.0]), std * math.sqrt(2))
    odds = np.log(fractions[1:] / fractions[:1])
    # Root mean square of the entries of a matrix of norm `norm`.
    entry_size = norm / math.sqrt(spec.n_features)
    # The difference of the classes is minus the gradient at coefficients 0, so the first step is
    # along it.
    step = _STEP / entry_size / spec.n_units * difference
    start = truncate(step.reshape(spec.matrix_shape), spec.rank)
    offset = float(odds[0])
    fitted = _descend(spec, plan.gradients, view, bound, entry_size, start, offset, budget)
    # Losses are computed from unclipped matrices: predictions clip scores, but not matrices.
    view = clipped(view, NO_CLIPPING)
    scores = _scores_of(spec, plan, view, *fitted, odds, entry_size, budget)
    scores = replace(scores, fraction_std=std)
    factor, gain = release_factor(spec, plan.losses, view, scores, budget)
    warnings: tuple[str, ...] = ()
    noise_of_mean = math.sqrt(spec.n_features) * noise_std
    if gain < logistic_fit.CLEAR_GAIN and noise_of_mean > _MOST_NOISE * norm:
        warnings = (_HIDDEN,)
    elif gain < logistic_fit.LEAST_GAIN and spec.cost.is_private:
        warnings = (logistic_fit.no_better(spec),)
    weights = scores.weights(factor)
    # So far the intercept is for centered matrices; the product makes it right for X as passed.
    weights[-1] -= mean @ weights[:-1]
    is_sure = bool(gain >= logistic_fit.SURE_GAIN)
    return Estimate(weights, scores.bounds(factor), warnings, is_sure)


def _release_difference(
    spec: TraceClassSpec, release: Release, view: LabeledRows, bound: float, budget: PrivacyBudget
) -> tuple[np.ndarray, float, float]:
    """Release the sum of the matrices times their labels, which count as 1/2 and -1/2.

    Return the sum, the excess of the second class's fraction over 1/2, and the excess's noise std.
    """
    codes, constant = view.codes, _BESIDE * bound

    def _class_difference(rows: slice, block: Block) -> np.ndarray:
        labels = np.where(block.is_null, 0.0, codes[rows] - 0.5)
        constants = constant * block.times_sample_weight(labels).sum()
        return np.append(block.rmatmul(labels[:, np.newaxis])[:, 0], constants)

    total = clipped(view, bound).map_sum(_class_difference, spec.n_features + 1)
    released = budget.release(release, total, _norm_beside(bound), rounding=spec.rounding)
    scale = constant * spec.n_units
    return released.value[:-1], released.value[-1] / scale, released.noise_std / scale


def _scores_of(
    spec: TraceClassSpec,
    plan: TraceClassReleases,
    view: LabeledRows,
    point: FixedRank,
    offset: float,
    noise_std: float,
    odds: np.ndarray,
    entry_size: float,
    budget: PrivacyBudget,
) -> Scores:
    """Shrink the singular values of the coefficients, and release the usual size of the scores."""
    # Standard deviation of a coefficient by chance, from the curvature of the loss at p = 1/2.
    by_chance = 2 / math.sqrt(spec.n_units)
    shrunk = cut(point, offset, noise_std, by_chance, least_ratio=1.0).point
    factors = shrunk.values / np.maximum(point.values, _TINY)
    noise = 1 - float(factors[0]) ** 2
    # The first singular value stays: released losses decide later on a factor of all values.
    point = point.with_values(point.values * np.append(1.0, factors[1:] / max(factors[0], _TINY)))
    slopes = point.matrix.reshape(-1, 1) / entry_size
    # Root mean square of the scores if scaled entries are uncorrelated.
    size = max(float(np.linalg.norm(point.values)), _TINY)
    candidates = _NORMAL_MEDIAN * size * _SPREADS
    edges = np.append(candidates[:-1], [np.inf, np.inf])
    counts = GridCounts.of(edges[:-1], view.projection_counts(slopes, edges), spec.n_units)
    size *= float(_SPREADS[logistic_fit.choose_quantile(plan.spread, counts, budget, 0.5)])
    within = view.projection_counts(slopes, np.array([_FARTHEST * size, np.inf]))[0]
    fraction, _ = release_fraction(plan.within, within, spec.n_units, budget)
    # Half of the largest scores are assumed to be wrong, with losses that are clipped.
    clipped_to = logistic_plan.loss_level(spec) / math.sqrt(len(logistic_plan.FACTORS))
    hidden = max(0.0, _NORMAL_WITHIN - fraction) / 2 * max(0.0, _FARTHEST - clipped_to)
    shorter = min(1.0, _LONGEST / size)
    slopes, size = shorter * slopes, shorter * size
    farthest = _FARTHEST * size
    move = np.array([offset]) - odds
    move *= max(0.0, 1 - noise_std**2 / max(float(move @ move), _TINY))
    return Scores(slopes, np.zeros(1), odds, move, size, noise, farthest=farthest, hidden=hidden)


def _release_bound(
    spec: TraceClassSpec, release: Release | None, view: LabeledRows, budget: PrivacyBudget
) -> tuple[float, float]:
    """Return the norm of matrices, which is released, given or guessed, and the clipping norm.

    The clipping norm exceeds a released median, and equals a norm that is given or guessed.
    """
    if release is None:
        return (logistic_plan.clip_norm(spec),) * 2
    norm = logistic_fit.release_norm(release, view, budget, q=0.5)
    return norm, logistic_plan.level_factor(spec) * norm


def _descend(
    spec: TraceClassSpec,
    plan: tuple[Release, ...],
    view: LabeledRows,
    bound: float,
    entry_size: float,
    point: FixedRank,
    offset: float,
    budget: PrivacyBudget,
) -> tuple[FixedRank, float, float]:
    """Take all steps; return the mean point and offset of the last half, and their noise std."""
    assert view.center is not None
    shape, center = spec.matrix_shape, view.center.reshape(spec.matrix_shape)
    design = Design(view.source, shape, view.n_jobs, center=center, people=view.people)
    level, iterates = gradient_clip(spec), []
    size = point.left.size + point.right.size + 1
    codes, cached_norms = view.codes, view.cache.norms

    def _clipped_gradients(rows: slice, matrices: Matrices) -> np.ndarray:
        """Sum the clipped gradients of a block, in tangent coordinates and for the intercept."""
        assert isinstance(matrices, DenseMatrices)
        norms = matrices.norms() if cached_norms is None else cached_norms[rows]
        shrinking = clip_weights(norms, bound, math.prod(shape)) / entry_size
        shrunk = matrices.values * shrinking[:, np.newaxis, np.newaxis]
        coordinates, inner = replace(matrices, values=shrunk).tangent(point, 1.0)
        labels = codes[rows]
        # A record whose label is no class is null.
        coordinates.multiply(np.where(labels < 0, np.nan, expit(inner + offset) - labels))
        weights = clip_weights(coordinates.norms(), level, coordinates.size)
        return coordinates.weighted_sum(matrices.times_sample_weight(weights))

    for release in plan:
        total = design.map_sum(_clipped_gradients, size)
        noisy, noise_std = budget.release(release, total, level, rounding=spec.rounding)
        step = _STEP / spec.n_units * noisy
        point, offset = retract(point, project_coordinates(point, step[:-1]), -1), offset - step[-1]
        iterates.append((point.matrix, offset, noise_std))
    matrices, offsets, stds = zip(*iterates[len(plan) // 2 :], strict=True)
    noise_std = _LASTING * _STEP / spec.n_units * float(np.linalg.norm(stds)) / len(stds)
    return truncate(np.mean(matrices, axis=0), spec.rank), float(np.mean(offsets)), noise_std


# ------------------------------
# The estimator.


@with_parameters
class DPTraceClassifier(PrivateClassifier):  # numpydoc ignore=PR02
    r"""Classification of matrices, with coefficients of low rank and differential privacy.

    The model is a logistic regression of two classes: the log odds of matrices :math:`X_i` of shape
    (d1, d2) are :math:`\langle X_i, M \rangle + b`, for coefficients M of rank at most `rank`. The
    noise is only in the directions that matrices of that rank have.

    Parameters
    ----------
    rank : int, default=1
        Largest rank of the coefficients, at most the smaller side of the matrices. The noise grows
        with rank * (d1 + d2 - rank), the number of free coefficients.
    matrix_shape : tuple of two ints or None, default=None
        Shape (d1, d2) of the matrices that are the rows of a 2-D X, in C order. ``None`` takes the
        shape of 3-D X; 2-D X then has matrices of shape (n_features, 1).
    classes : array-like or None, default=None
        Both possible labels: which of them occur is then protected, and a class without records is
        fine. ``None`` takes the labels of y, and warns, as this makes public which labels occur.
        Labels are strings, or whole numbers below 2**53, of one type. If `classes` are strings,
        whole numbers in y are their places among the sorted classes, as in wrappers of
        scikit-learn.
    epsilon : float, default=1.0
        Privacy budget of one fit, dimensionless, ``0 < epsilon <= inf``. Smaller is more private;
        ``inf`` switches the noise off, but clips as ever.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 < delta < 1``, well below one over the
        number of units.
    privacy_unit : {"record", "user"}, default="record"
        What is protected: one record, that is a matrix with its label; or a user with all of its
        records, each user counting once. `fit` takes `users` then.
    adjacency : {"replace", "zero_out"}, default="replace"
        Neighboring datasets differ by exchanging one unit for any other, or by one that is null,
        which takes less noise and promises less: :doc:`/user_guide/what_is_protected`.
    row_norm : float or None, default=None
        Public bound to which the Frobenius norms of matrices are clipped, before and after their
        mean is subtracted, in the units of X; the noise grows with it. ``None`` releases both
        median norms and clips at up to four times them, more with more records and budget; for few
        records it assumes that entries are standardized. From 1e-100 to 1e100.
    ledger : PrivacyLedger or None, default=None
        Where the whole cost of a fit is charged before its first release. ``None`` keeps no ledger.
    n_jobs : int or None, default=None
        Threads that share the data; no number depends on it. ``None`` uses the threads of BLAS.
    random_state : int, RandomState or Generator instance or None, default=None
        ``None`` takes fresh noise in every fit, as the guarantee assumes. A secret int, such as
        ``secrets.randbits(128)``, repeats a fit in the same container on the same kind of machine;
        an int that can be guessed voids the guarantee.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels of the classes, sorted. Public: given, or promised to be.
    coef_ : ndarray of shape (d1, d2)
        Coefficients of the second class, a matrix whatever the layout of X. Their direction is
        that of a logistic regression. Released losses decide on their length, which is short if
        noise hides the gain in loss. Covered by the guarantee.
    intercept_ : ndarray of shape (1,)
        Intercept. Covered by the guarantee.
    score_bounds_ : ndarray of shape (2, 1)
        Lower and upper bounds to which probabilities clip scores, 2.5 times their usual size from
        the score of the mean matrix. Covered by the guarantee.
    privacy_spent_ : PrivacySpent
        Record of every release. Public.
    n_features_in_ : int
        Number of features, d1 * d2. Public.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X has names that are strings. Public.

    See Also
    --------
    DPLogisticRegression : Rows of features, two classes or more.
    DPTraceRegressor : Regression on matrices, with coefficients of low rank.

    Notes
    -----
    **Privacy.** Unit: `privacy_unit`. Adjacency: `adjacency`. Mechanisms: Gaussian, and exponential
    for medians, accounted for in Gaussian differential privacy. Released: the median norms of
    matrices before and after their mean is subtracted, unless `row_norm` is given or the records
    are few; the mean of clipped matrices; the difference between the classes' sums of centered
    matrices, with the difference of their counts; in each step the sum of the gradients, each
    clipped in norm; the median size of the scores, and how many scores are at most 2.5 times their
    usual size; and losses of shorter and longer scores, clipped as one vector a record. `plan`
    lists every release before a fit, `privacy_spent_` afterwards. Assumed public: the number of
    records, the shape, dtype and container of X, and its parts, feature names, the classes, and
    parameters. That the classes are public is promised by the caller if they are taken from y, and
    ``privacy_spent_.enforced`` is then False. NaN, infinity and labels that are not among the
    classes are refused, which reveals that there are none. Not covered: what `predict` and its like
    and `score` return, noise-free functions of the rows passed in; and the running time. No
    assumption about the data is made.

    Entries are not whitened: they should be of similar size. If they are strongly correlated, as in
    images, `DPLogisticRegression` on the flattened matrices is as accurate.

    After the check, and a digest if there is a seed, a fit reads X for the norms of the matrices,
    their mean, the norms of centered matrices, the start, once in each of 8 to 100 steps, whose
    number is public, twice for the scores, and for their losses. Time is O(n d1 d2 rank) a step,
    memory O(d1 d2). Rows in parts, of `RowBlocks.from_partitions`, are read once for the check, the
    norms and the digest together. Nothing is stored per row. A row or label that is no longer valid
    when it is read again counts as null.

    With ``epsilon=inf`` a fit takes 100 steps, which may end before the optimum.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPTraceClassifier
    >>> from skdp.datasets import make_trace_regression
    >>> X, y, M = make_trace_regression(8000, (8, 8), rank=2, random_state=0)
    >>> model = DPTraceClassifier(rank=2, classes=[False, True], epsilon=1.0).fit(X, y > 0)
    >>> model.coef_.shape
    (8, 8)
    >>> model.score(X, y > 0) > 0.85
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PrivateClassifier._parameter_constraints,
        "rank": TRACE_CONSTRAINTS["rank"],
        "matrix_shape": TRACE_CONSTRAINTS["matrix_shape"],
        # inf is refused, as step lengths are in units of this bound.
        "row_norm": [FINITE_BOUND, None],
    }

    _takes_matrices, _kind = True, TraceClassSpec
    _plan, _solve = staticmethod(plan_trace_classes), staticmethod(solve_trace_classes)

    rank: int = 1
    _: KW_ONLY
    matrix_shape: tuple[int, int] | None = None
    classes: Any = None
    epsilon: float = 1.0
    delta: float = 1e-6
    privacy_unit: str = "record"
    adjacency: str = "replace"
    row_norm: float | None = None
    ledger: Any = None
    n_jobs: int | None = None
    random_state: Any = None

    def _read(self, X: Any) -> tuple[Any, Shape]:
        if holds_sparse(X) or isinstance(X, RankOneMatrices):
            raise TypeError(
                f"Sparse data was passed for X, or RankOneMatrices, but {type(self).__name__} "
                "takes dense data: an array with all entries."
            )
        return super()._read(X)

    @property
    def _shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.coef_.shape

    def _spec_of(self, rows: Any, size: Any, shape: Shape, *given: Any, **facts: Any) -> Any:
        matrix_shape = matrix_shape_of(as_python(self.matrix_shape), shape, size[1])
        check_rank(self.rank, matrix_shape)
        facts["n_free"] = tangent_dimension(matrix_shape, self.rank)
        facts["fewer"] = smaller(self.rank)
        return super()._spec_of(rows, size, shape, *given, matrix_shape=matrix_shape, **facts)

    def _set_attributes(self, result: Estimate, spec: LogisticSpec) -> tuple[str, ...]:
        warnings = super()._set_attributes(result, spec)
        assert isinstance(spec, TraceClassSpec)
        self.coef_: np.ndarray = self.coef_.reshape(spec.matrix_shape)
        return warnings
