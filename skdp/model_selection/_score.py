"""Losses and counts of rows, by which candidates are chosen, and noisy scores on new rows."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from scipy.special import logit
from sklearn.base import is_classifier
from sklearn.utils import gen_batches
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from skdp import _validation as checks
from skdp._estimator import PrivateEstimator
from skdp.data.containers import canonical_csr, checked_container, hide_error_text
from skdp.data.parts import RowBlocks, RowParts
from skdp.data.people import People
from skdp.data.sources import digests
from skdp.exceptions import named, warn_of_privacy, warnings_together
from skdp.linalg.norms import with_data
from skdp.linear_model import _supervised as supervised
from skdp.pipeline._composition import unit_of_rows
from skdp.pipeline._public_rows import quietly
from skdp.pipeline._public_steps import check_inverse, of_people, transformed
from skdp.pipeline._rules import Steps, fitted_steps
from skdp.privacy import Plan, PrivacyBudget, PrivacySpent, Release, sensitivity
from skdp.privacy.noise import NoiseSource, draw_seed
from skdp.privacy.plan import PrivacyCost
from skdp.privacy.releases import SCALE_GRID, Search
from skdp.privacy.sensitivity import ADJACENCIES

# ------------------------------
# Private clip levels of losses, rounding of clipped values, and what clipping cuts off.

#: Advice if a clip level is at an end of the public grid. It says "if", as losses that are nearly
#: equal have a small level although nothing is wrong.
OTHER_UNITS = "If only their units are to blame, rescale y, or X where a score takes no y."


def plan_level(cost: PrivacyCost, name: str, share: float) -> tuple[Search, float]:
    """Plan the search for a clip level of losses; return the search, and the share that is left."""
    return cost.search(name, share, SCALE_GRID, remedy=OTHER_UNITS), 1 - share


# Values are rounded to multiples of this fraction of the clip level. Sums of multiples are exact:
# a row changes a sum by its own value, and not by the rounding of other values.
_STEP = 2.0**-20  # not tuned
# With few values, the clip level is a lower quantile, but at least `LEAST_QUANTILE`.
LEAST_QUANTILE = 0.5  # not studied


def release_level(
    search: Search, values: np.ndarray, budget: PrivacyBudget, *, most: float
) -> float:
    """Release the `most` quantile of values as a clip level; with few values, a lower quantile."""
    q = max(LEAST_QUANTILE, search.highest_quantile(len(values), most=most))
    return budget.quantile(search, values, q=q)


def in_steps(values: np.ndarray) -> np.ndarray:
    """Round values in [-1, 1] to multiples of a power of two, which have exact sums.

    The limits of clipping are such multiples, so rounding does not increase the sensitivity.
    """
    return np.asarray(np.rint(values / _STEP) * _STEP)


# The tail of losses is assumed to be exponential. Its rate follows from the counts of losses above
# the clip level and above a lower point. The lower point is the highest point above which there are
# at least `_LEAST_RATIO` times as many losses as above the clip level.
_LEAST_RATIO = 2.0  # benchmarks/search/clipped.md


def mean_beyond(level: float, counted: Mapping[float, float], n_values: int) -> float:
    """Estimate the mean excess of values above a level.

    `counted` maps points to the noisy numbers of values up to them.
    """
    points, n_up_to = np.array(sorted(counted.items())).T
    n_above = n_values - n_up_to
    n_above_level = float(np.interp(level, points, n_above))
    below = np.flatnonzero((points < level) & (n_above >= _LEAST_RATIO * n_above_level))
    if n_above_level <= 0 or not len(below):
        return 0.0
    last = below[-1]
    rate_times_distance = math.log(float(n_above[last]) / n_above_level)
    return n_above_level * (level - float(points[last])) / rate_times_distance / n_values


# ------------------------------
# Scores of a model from counts, in tables: true classes are rows, and predicted ones columns.

# Scores of rows are counted in `N_BINS` bins, which widen with their distance from the median, the
# faster the larger `_WIDENING` is. The limits of bins are multiples of a released distance: the
# fraction `_SPREAD` of the scores is within this distance from the median.
N_BINS, _WIDENING, _SPREAD = 10, 2.0, 0.75  # benchmarks/search/areas.md
# Share of each of two searches: for the median of the scores, and for the distance that sets the
# limits of bins.
_PLACE_SHARE = 0.05  # not studied
# Share of the sum that corrects an area: the first number without counts of outcomes, the second
# number beside them.
_ORDER_SHARES = (0.7, 0.4)  # benchmarks/search/areas.md
# Without the two largest points: with more than 2 ** 11 points, a search would halve once more.
_SIGNED_GRID = np.concatenate([-SCALE_GRID[::-1], [0.0], SCALE_GRID[:-2]])  # not tuned
# Number of draws, from a public seed, that estimate the noise of a score.
_REDRAWS = 200  # not studied


def _quotient(part: Any, whole: Any) -> np.ndarray:
    """Return a ratio of noisy counts, clipped to [0, 1]; 0 if the divisor is not positive."""
    return np.clip(part / np.where(whole > 0, whole, np.inf), 0.0, 1.0)


def _accuracy(table: np.ndarray) -> float:
    return float(_quotient(np.trace(table), table.sum()))


def _balanced_accuracy(table: np.ndarray) -> float:
    return float(_quotient(np.diag(table), table.sum(axis=1)).mean())


def _f1(table: np.ndarray) -> float:
    return float(_quotient(2 * table[1, 1], table[1].sum() + table[:, 1].sum()))


def area(counts: np.ndarray) -> float:
    """Compute the area under the ROC curve from counts of scores, of shape (2 classes, n_bins)."""
    return float(_quotient(_pairs(counts), np.maximum(counts.sum(axis=1), 0.0).prod()))


def _pairs(counts: np.ndarray) -> float:
    """Count pairs of scores of both classes in the right order; a pair in one bin counts half."""
    return float(counts[1] @ (np.cumsum(counts[0]) - counts[0] / 2))


class CountedReleases(NamedTuple):
    """The releases behind scores from counts, in order."""

    middle: Any  # search for the median of scores, or None
    spread: Any  # search for the distance from the median, or None
    counts: Release
    order: Any = None  # a sum over rows that corrects the area, or None


def plan_counts(
    sizes: Sequence[int], cost: PrivacyCost, adjacency: str, *, of_scores: bool = False
) -> CountedReleases:
    """Plan one release of histograms of these sizes; with `of_scores`, the last counts scores."""
    share, middle, spread, order = 1.0, None, None, None
    if of_scores:
        middle = cost.search("middle of scores", _PLACE_SHARE, _SIGNED_GRID)
        spread = cost.search("spread of scores", _PLACE_SHARE, SCALE_GRID)
        of_order = _ORDER_SHARES[len(sizes) > 1]  # larger without counts of outcomes
        order = cost.release("order of scores", "gaussian", of_order, sensitivity.count, {})
        share -= 2 * _PLACE_SHARE + of_order
    change, known = sensitivity.histograms, {"n_columns": len(sizes), "adjacency": adjacency}
    shape = (sum(sizes),)
    counts = cost.release("counts of outcomes", "gaussian", share, change, known, shape=shape)
    return CountedReleases(middle, spread, counts, order)


def binned(
    judged: np.ndarray, people: People | None, plan: CountedReleases, budget: PrivacyBudget
) -> tuple[np.ndarray, np.ndarray]:
    """Return the bin of each score, and the limits of the bins, which follow from released values.

    Scores of the second class have bins of their own, numbered from `N_BINS` on.
    """
    scores, is_second = judged.T
    of_units = scores if people is None else people.means(scores)
    middle = budget.quantile(plan.middle, of_units, q=0.5)
    spread = release_level(plan.spread, np.abs(of_units - middle), budget, most=_SPREAD)
    steps = np.sinh(_WIDENING * np.linspace(-1, 1, N_BINS - 1)) / np.sinh(_WIDENING / 2)
    edges = middle + spread * steps
    return is_second * N_BINS + np.searchsorted(edges, scores, side="right"), edges


def release_area(
    judged: np.ndarray,
    edges: np.ndarray,
    counts: np.ndarray,
    std_of_counts: float,
    people: People | None,
    release: Release,
    budget: PrivacyBudget,
) -> tuple[float, float]:
    """Release a correction of an area under the ROC curve, for the error from bins of scores.

    The area is computed from noisy counts of scores in bins. Return the corrected area, and the
    standard deviation of its noise.

    The area is linear in the distribution of scores of each class. Each row adds the fraction of
    counted scores of the other class that are in the right order with the score of the row, minus
    the area from the counts. The sum corrects the error from the bins of each class, but not the
    product of the two errors. In units of one over the smaller class size, the addend of a row is
    in an interval of length 1 that includes 0.
    """
    scores, is_second = judged[:, 0], judged[:, 1] == 1
    sizes, counts = np.maximum(counts.sum(axis=1), 1.0), np.maximum(counts, 0.0)
    rough = float(in_steps(np.asarray(area(counts))))
    below = []  # for each class, the fraction of its counted scores below the score of each row
    for of_class in counts:
        parts = of_class / max(of_class.sum(), 1.0)
        ends = {"left": parts[0] / 2, "right": 1 - parts[-1] / 2}
        fraction = np.interp(scores, edges, np.cumsum(parts)[:-1], **ends)
        below.append(in_steps(np.clip(np.nan_to_num(fraction), 0.0, 1.0)))
    excess = np.where(is_second, below[0], 1 - below[1]) - rough
    added = excess * np.where(is_second, sizes.min() / sizes[1], sizes.min() / sizes[0])
    added = in_steps(added if people is None else people.means(added))
    noisy, std = budget.release(release, added.sum())
    std_of_products = std_of(_pairs, np.zeros_like(counts), std_of_counts) / sizes.prod()
    std = math.hypot(std / sizes.min(), std_of_products)
    return float(np.clip(rough + noisy / sizes.min(), 0.0, 1.0)), std


def release_counts(
    cells: Sequence[np.ndarray],
    sizes: Sequence[int],
    people: People | None,
    release: Release,
    budget: PrivacyBudget,
) -> tuple[list[np.ndarray], float]:
    """Release several histograms together; return them, and the std of the noise of a count.

    A constant is added to each histogram, so that its sum is the public number of units.
    """
    weights = None if people is None else people.weights
    numbered = zip(cells, sizes, strict=True)
    counts = [np.bincount(each.astype(np.intp), weights, size) for each, size in numbered]
    noisy, std = budget.release(release, np.concatenate(counts))
    n_units = len(cells[0]) if people is None else people.n_people
    released = np.split(noisy, np.cumsum(sizes)[:-1])
    return [one + (n_units - one.sum()) / one.size for one in released], std


def std_of(score: Callable[[np.ndarray], float], counts: np.ndarray, std: float) -> float:
    """Return the standard deviation of a score if its counts have noise of `std`."""
    generator = np.random.default_rng(0)
    noise = std * generator.standard_normal((_REDRAWS, *counts.shape))
    noise -= noise.mean(axis=(1, 2), keepdims=True)  # the sum of the counts has no noise
    return float(np.std([score(counts + one) for one in noise])) if std else 0.0


# ------------------------------
# Losses of rows, whose means are scores. The loss of a row depends on no other row.

# Number of rows of a sparse matrix that are made dense at a time.
_BATCH = 4096  # not studied
# Losses of at most this size have differences that do not overflow.
_LARGEST_LOSS = 1e100  # not tuned
# Entries of at most this size do not overflow in float32, which forests use.
_LARGEST_ENTRY = 1e38  # not tuned
# The smallest probability whose logarithm is computed, as in scikit-learn's log loss.
_LEAST_PROBABILITY = np.finfo(np.float64).eps  # not tuned


def _errors(size: Callable[[Any], Any], steps: Steps, X: Any, y: Any) -> np.ndarray:
    responses = supervised.checked_responses(y)
    return np.asarray(size(_results("predict", steps, X, responses.shape) - responses))


def _zero_one_losses(steps: Steps, X: Any, y: Any) -> np.ndarray:
    codes, classes = _codes(steps, y)
    return supervised.known_codes(_results("predict", steps, X, codes.shape), classes) != codes


def _log_losses(steps: Steps, X: Any, y: Any) -> np.ndarray:
    probabilities, is_true = _probabilities(steps, X, y)
    of_true = np.where(is_true, probabilities, 0.0).sum(axis=1)
    return np.asarray(-np.log(np.clip(of_true, _LEAST_PROBABILITY, 1.0)))


def _brier_losses(steps: Steps, X: Any, y: Any) -> np.ndarray:
    probabilities, is_true = _probabilities(steps, X, y)
    return np.asarray(np.square(probabilities - is_true).sum(axis=1) / 2)


def _probabilities(steps: Steps, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the probability of each class for each row, and a mask of the true classes."""
    codes, classes = _codes(steps, y)
    is_true = codes[:, np.newaxis] == np.arange(len(classes))
    return _results("predict_proba", steps, X, is_true.shape), is_true


def _codes(steps: Steps, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of each label among the public classes, -1 for others; and the classes."""
    classes = np.asarray(steps[-1][1].classes_)
    return supervised.known_codes(supervised.checked_labels(y), classes), classes


def _negative_log_likelihoods(steps: Steps, X: Any, y: Any) -> np.ndarray:
    rows = transformed(steps[:-1], X)
    return -_of_dense_rows(partial(_results, "score_samples", steps[-1:]), rows)


def _results(method: str, steps: Steps, X: Any, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Apply the steps to X; return the results of a method of the last step."""
    *before, (name, last) = steps
    check_inverse(name, getattr(last, "transformer_", None))
    rows = transformed(before, X)
    # Warnings are silenced, and errors show no values.
    apply = checks.redact_errors(partial(quietly, getattr(last, method)))
    if isinstance(last, PrivateEstimator):
        results = np.asarray(apply(rows))
    else:
        blocks = rows if isinstance(rows, RowBlocks) else [rows]
        acceptable = (_acceptable(block, last) for block in blocks)
        results = np.concatenate([apply(block) for block in acceptable])
    if results.shape != (shape or results.shape[:1]):
        # The shape of the results may depend on rows, so the error does not show it.
        raise ValueError(f"{method} of {name!r} must make one prediction for each row it scores.")
    return results


def _acceptable(rows: Any, last: Any) -> Any:
    """Clip huge entries of rows, which an estimator of scikit-learn may refuse."""
    rows = checks.check_rows(rows, type(last).__name__, ensure_all_finite="allow-nan")
    cut = partial(np.clip, a_min=-_LARGEST_ENTRY, a_max=_LARGEST_ENTRY)
    return with_data(rows, cut(rows.data)) if issparse(rows) else cut(rows)


def _of_dense_rows(losses: Callable[[Any], np.ndarray], rows: Any) -> np.ndarray:
    """Compute losses of rows; sparse rows are made dense in batches."""
    if not issparse(rows):
        return losses(rows)
    rows = canonical_csr(rows)
    batches = gen_batches(rows.shape[0], _BATCH)
    return np.concatenate([losses(rows[batch].toarray()) for batch in batches])


def _reconstruction_errors(steps: Steps, X: Any, y: Any) -> np.ndarray:
    before, judged = _from_private(steps)
    return _of_dense_rows(partial(_distances_of_restored, judged), transformed(before, X))


def _from_private(steps: Steps) -> tuple[Steps, Steps]:
    """Split steps before the first private one; without private steps, at the beginning.

    Rows are compared with reconstructions as the first private step gets them, since the inverses
    of earlier steps may refuse rows.
    """
    private = (i for i, (_, step) in enumerate(steps) if isinstance(step, PrivateEstimator))
    first = next(private, 0)
    return steps[:first], steps[first:]


def _distances_of_restored(steps: Steps, rows: Any) -> np.ndarray:
    """Return the squared distances of rows from their reconstructions."""
    results = transformed(steps, rows)
    restored = np.asarray(transformed(steps[::-1], results, "inverse_transform"))
    given = hide_error_text(np.asarray, rows, np.float64)
    if restored.shape != given.shape:
        raise ValueError(
            "scoring='reconstruction' needs an inverse_transform that returns rows of shape "
            f"{given.shape[1:]}, got {restored.shape[1:]}: pass another scoring."
        )
    return np.asarray(np.square(given - restored).sum(axis=1))


def _outcomes(steps: Steps, X: Any, y: Any) -> np.ndarray:
    """Return each pair of label and prediction as one number; unknown labels count as wrong."""
    codes, classes = _codes(steps, y)
    predicted = supervised.known_codes(_results("predict", steps, X, codes.shape), classes)
    predicted = np.where(predicted < 0, (codes + 1) % len(classes), predicted)
    codes = np.where(codes < 0, (predicted + 1) % len(classes), codes)
    return np.asarray(codes * len(classes) + predicted)


def _scores(steps: Steps, X: Any, y: Any) -> np.ndarray:
    """Return two columns: the score of each row, and whether its label is the second class."""
    codes, classes = _codes(steps, y)
    if hasattr(steps[-1][1], "decision_function"):
        scores = _results("decision_function", steps, X, codes.shape)
    else:
        shares = _results("predict_proba", steps, X, (len(codes), len(classes)))
        scores = logit(np.clip(shares[:, 1], _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY))
    return np.column_stack([scores, codes == 1])


class Score(NamedTuple):
    """A score that is a mean of losses of rows, or is computed from counts of rows."""

    losses: Callable[[Steps, Any, Any], np.ndarray]  # computes losses, or the outcomes to count
    methods: tuple[str, ...] = ("predict",)  # methods that an estimator needs for this score
    of_classes: bool = False  # whether the score is for classifiers
    is_bounded: bool = False  # whether losses are in [0, 1]; otherwise a level is searched
    is_signed: bool = False  # whether losses may be negative
    of_counts: Any = None  # a function that computes the score from counts, or None
    of_two: bool = False  # whether there must be two classes


_OF_CLASSES: dict[str, Any] = {"methods": ("predict_proba",), "of_classes": True}
#: Scores from counts: of pairs of label and prediction, or of binned scores by class.
COUNTED = {
    "accuracy": Score(_outcomes, of_classes=True, of_counts=_accuracy),
    "balanced_accuracy": Score(_outcomes, of_classes=True, of_counts=_balanced_accuracy),
    "f1": Score(_outcomes, of_classes=True, of_counts=_f1, of_two=True),
    "roc_auc": Score(_scores, **_OF_CLASSES, of_counts=area, of_two=True),
}
#: The scores of a search, by their names. On the same responses, R2 and the squared error rank
#: candidates alike, so that both have the same losses.
SCORES = {
    **COUNTED,
    "accuracy": Score(_zero_one_losses, of_classes=True, is_bounded=True),
    "neg_log_loss": Score(_log_losses, **_OF_CLASSES),
    "neg_brier_score": Score(_brier_losses, **_OF_CLASSES, is_bounded=True),
    "r2": Score(partial(_errors, np.square)),
    "neg_mean_squared_error": Score(partial(_errors, np.square)),
    "neg_mean_absolute_error": Score(partial(_errors, np.abs)),
    "log_likelihood": Score(_negative_log_likelihoods, ("score_samples",), is_signed=True),
    "reconstruction": Score(_reconstruction_errors, ("transform", "inverse_transform")),
}
#: What a parameter `scoring` may be; errors list the keys in this order.
SCORING = {"scoring": [StrOptions(SCORES.keys()), None]}


def checked_scoring(scoring: str | None, estimator: Any) -> str:
    """Return the name of a score, by default the usual one; refuse one that does not fit."""
    if scoring is None and is_classifier(estimator):
        scoring = "accuracy"
    elif scoring is None and hasattr(estimator, "predict"):
        scoring = "neg_mean_squared_error"
    elif scoring is None:
        scoring = "log_likelihood" if hasattr(estimator, "score_samples") else "reconstruction"
    if flaw := _flaw_of(scoring, estimator):
        fitting = [repr(one) for one in SCORES if not _flaw_of(one, estimator)]
        which = f"Pass one of {', '.join(fitting)}." if fitting else "No score fits it."
        raise ValueError(f"scoring={scoring!r} {flaw} {type(estimator).__name__}. {which}")
    return scoring


def _flaw_of(scoring: str, estimator: Any) -> str:
    """Return why a score does not fit an estimator, as words before its class, or ""."""
    score = SCORES[scoring]
    if _takes_responses(scoring) and score.of_classes != is_classifier(estimator):
        return f"is for {'classifiers' if score.of_classes else 'regressors'}, and for no"
    judged = [estimator]
    if scoring == "reconstruction":
        _, judging = _from_private(fitted_steps(estimator))
        judged = [step for _, step in judging if hasattr(step, "fit")]
    for method in score.methods:
        # `predict_proba` and `decision_function` both return scores that order rows.
        methods = (method, "decision_function") if scoring == "roc_auc" else (method,)
        if not all(any(hasattr(one, each) for each in methods) for one in judged):
            return f"needs the method {' or '.join(methods)} of"
    return ""


def classes_for(scoring: str, last: Any) -> Any:
    """Return the public classes; refuse classes with which a score cannot be computed."""
    classes = last.classes_ if hasattr(last, "classes_") else supervised.given_classes(last.classes)
    if SCORES[scoring].of_two and len(classes) != 2:
        raise ValueError(f"scoring={scoring!r} needs 2 classes, got {len(classes)}: pass another.")
    return classes


def check_responses(X: Any, y: Any, scoring: str, name: str) -> None:
    """Refuse missing responses, and responses that the losses would refuse."""
    if _takes_responses(scoring):
        checks.check_given(y, name)
    if y is None:
        return
    checks.redact_errors(check_consistent_length)(X, y)
    if _takes_responses(scoring):
        is_label = SCORES[scoring].of_classes
        check = supervised.checked_labels if is_label else supervised.checked_responses
        check(y)


def _takes_responses(scoring: str) -> bool:
    return SCORES[scoring].methods[0].startswith("predict")


def unit_losses(scoring: str, model: Any, X: Any, y: Any, people: People | None) -> np.ndarray:
    """Compute the loss of each row or, with users, the mean loss of each user's rows.

    Outcomes to be counted are never averaged over the rows of a user.
    """
    losses = of_people(partial(row_losses, SCORES[scoring], model), people, X, y)
    return losses if people is None or SCORES[scoring].of_counts else people.means(losses)


def row_losses(score: Score, model: Any, X: Any, y: Any) -> np.ndarray:
    """Compute the finite losses, or the outcomes to count, of all rows under a fitted model."""
    with np.errstate(all="ignore"):
        # Smaller dtypes than float64 cannot represent the limits of clipping.
        losses = score.losses(fitted_steps(model), X, y).astype(np.float64)
    least, most = (0.0, 1.0) if score.is_bounded else (-_LARGEST_LOSS, _LARGEST_LOSS)
    losses = np.nan_to_num(losses, nan=most, posinf=most, neginf=least)
    return np.asarray(np.clip(losses, least, most))


# ------------------------------
# The noisy score.

# Share of the search for the clip level of losses.
_LEVEL_SHARE = 0.2  # not studied
# The clip level of losses is their quantile `_QUANTILE` or, with few rows, a lower one. A warning
# tells if the quantile is below `_USUAL_QUANTILE`. Another warning tells if clipping removes more
# than the fraction `_MOST_LOST` of the mean loss, and than `_FAR` standard deviations of its noise.
_QUANTILE, _USUAL_QUANTILE = 0.999, 0.95  # benchmarks/search/clipped.md
_MOST_LOST, _FAR = 0.1, 2.0  # benchmarks/search/clipped.md
_TOO_GOOD = "The score looks better than it is, by more than its std"
#: Constraints on the parameters of functions that make releases of private rows.
CONSTRAINTS = {**checks.BUDGET, **checks.SEED, "adjacency": [StrOptions(set(ADJACENCIES))]}


@dataclass(frozen=True, repr=False)
class PrivateScore:  # numpydoc ignore=PR02
    """A score with noise.

    Parameters
    ----------
    value : float
        The score; a greater one is better.
    std : float
        Standard deviation of the noise. It covers neither the bias by clipping nor the sampling
        error, by which the scores of other rows would differ.
    level : float
        Clip level of the losses; 1 for losses that are not clipped.
    privacy_spent : PrivacySpent
        Record of the cost of the score.
    scoring : str, default=""
        Name of the metric, as in :func:`private_score`.

    Examples
    --------
    >>> from skdp.privacy import PrivacyBudget
    >>> from skdp.model_selection import PrivateScore
    >>> spent = PrivacyBudget(1.0, 1e-6, unit="row", adjacency="replace").spent()
    >>> PrivateScore(0.91, 0.02, 1.0, spent).value
    0.91
    """

    value: float
    std: float
    level: float
    privacy_spent: PrivacySpent
    scoring: str = ""

    def __repr__(self) -> str:
        clipped = f", losses clipped at {self.level:.4g}" * (self.level != 1)
        found = f"PrivateScore({self.scoring}): {self.value:.4g} +- {self.std:.2g}{clipped}"
        found += "\nfor rows that are not in the fit; else the costs of fit and score add up"
        return f"{found}\n{self.privacy_spent!r}"


@named
@warnings_together()
def private_score(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    users: Any = None,
    scoring: Any = None,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    adjacency: str = "replace",
    ledger: Any = None,
    random_state: Any = None,
) -> PrivateScore | dict[str, PrivateScore]:
    r"""Score a fitted estimator on private rows that it has not seen, with noise.

    The losses of the rows are clipped, and their mean is released and turned into a score. The clip
    level is a private .999 quantile of the sizes of the losses; with few rows a lower quantile, but
    at least the median. So the largest losses count too little, and the score looks better than it
    is. A warning says so if few rows or released counts of losses show that this is much.

    Balanced accuracy, F1 and the area under the ROC curve are computed from released counts: of
    true and predicted classes, and of scores in 10 bins for each of two classes. A released sum
    over rows corrects the area: each row adds the fraction of counted scores of the other class
    that are in the right order with its score. A list of such scores, which may include the
    accuracy, costs one release of these counts.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator that may be published. It has to map every row by itself, as all
        estimators of skdp and nearly all of scikit-learn do; for other classes the caller has to
        make sure of this.
    X : {array-like, sparse matrix, RowBlocks, dask collection} of shape (n_samples, n_features)
        Rows to protect.
    y : array-like of shape (n_samples,) or None, default=None
        Their responses, for a dask collection in the same chunks. Rows in parts contain theirs.
    users : array-like of shape (n_samples,) or None, default=None
        Owner of each row; required if a model in the estimator protects users. All rows of a user
        together are then protected: each user counts once, with the mean loss of its rows.
    scoring : str, list of str or None, default=None
        As in :class:`DPGridSearch`, except for ``"r2"``, which is no mean over rows. Or a list of
        ``"accuracy"``, ``"balanced_accuracy"``, ``"f1"`` and ``"roc_auc"``, for one release.
    epsilon : float, default=1.0
        Privacy budget, dimensionless, ``0 < epsilon <= inf``.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 < delta < 1``.
    adjacency : {"replace", "zero_out"}, default="replace"
        Neighboring datasets differ in one row, or all rows of one user, which are exchanged or set
        to null.
    ledger : PrivacyLedger or None, default=None
        Where the whole cost is charged before the first release.
    random_state : int, RandomState or Generator instance or None, default=None
        ``None`` takes fresh noise, as the guarantee assumes.

    Returns
    -------
    PrivateScore or dict
        The score, the standard deviation of its noise, the level, and the record of the cost; for a
        list a score by each name, all with one record.

    Raises
    ------
    ValueError
        If an argument is not acceptable. Nothing has been spent then.
    NotFittedError
        If the estimator is not fitted.
    BudgetError
        If the ledger has less left. Nothing has been spent then.

    Notes
    -----
    **Privacy.** Unit: one row, or one record (a row with its response); with `users` one user with
    all of its rows, and then users replace rows in the following sentences. Adjacency: `adjacency`.
    Mechanism: Gaussian counts for the level, which take a fifth of the budget, and a Gaussian mean;
    accuracy and the Brier score need no level. One row moves the mean of n losses in [0, B] by at
    most B / n. Losses of log-likelihoods are in [-B, B], and one row moves their mean by twice as
    much with "replace". Counts of classes or of scores are disjoint: one row moves them by
    :math:`\sqrt 2` with "replace", by 1 with "zero_out", and both kinds together by :math:`\sqrt 2`
    times that. Bins of scores follow from Gaussian counts for the median and the spread of the
    scores, which take a tenth of the budget. The sum that corrects the area takes .7 of the budget,
    or .4 in a list with scores of predicted classes; in units of one over the size of the smaller
    class, one row moves this sum by at most 1. A label that is not among the classes counts as
    wrong. Assumed public: the number of rows, and the estimator. A ledger does not know which rows
    are scored, and charges the score in full.

    If rows are set apart before the fit, each row is either in the fit or in the score; the same
    must hold for all rows of a user. Fit and score together then cost the larger of the two
    records, not their sum [1]_, provided that unit and adjacency agree. The split must not depend
    on the rows. A random split that nobody knows is independent of the rows. A split by positions
    or by a known seed is, too, if the order of the rows reveals nothing about them. A split of
    users by positions of their rows depends on the rows, and so does a split that uses responses,
    such as a stratified one.

    References
    ----------
    .. [1] F. McSherry (2009). "Privacy integrated queries". SIGMOD.
       :doi:`10.1145/1559845.1559850`

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from skdp import DPPCA
    >>> from skdp.model_selection import private_score
    >>> train, test = train_test_split(load_digits().data)
    >>> pca = DPPCA(5, row_norm=40, mean_norm=64).fit(train)
    >>> private_score(pca, test, epsilon=1.0).privacy_spent.epsilon
    1.0
    """
    given = {"epsilon": epsilon, "delta": delta, "adjacency": adjacency}
    given |= {"ledger": ledger, "random_state": random_state}
    checks.validate_plain(CONSTRAINTS, given, "private_score")
    is_list = isinstance(scoring, list | tuple)
    names = list(scoring) if is_list else [scoring]
    for name in names:
        checks.validate_plain(SCORING, {"scoring": name}, "private_score")
    if not hasattr(estimator, "fit") or isinstance(estimator, type):
        # The error of scikit-learn would show the argument, which may be rows.
        kind = "a class: pass an instance" * isinstance(estimator, type) or type(estimator).__name__
        raise TypeError(f"estimator must be a fitted estimator, got {kind}.")
    check_is_fitted(estimator)
    if "r2" in names:
        raise ValueError("scoring='r2' is no mean over rows: pass 'neg_mean_squared_error'.")
    names = [checked_scoring(name, estimator) for name in names]
    if is_list and not COUNTED.keys() >= set(names) > set():
        raise ValueError(
            f"A list as scoring takes some of {', '.join(map(repr, COUNTED))}, which follow from "
            f"counts, got {names}. Score by the others one at a time."
        )
    X, y = checks.in_parts(X, y)
    y = X.y if y is None and isinstance(X, RowParts) and _takes_responses(names[0]) else y
    X, y = checked_container(X), checked_container(y)
    if hasattr(estimator, "n_features_in_") and len(getattr(X, "shape", ())) == 2:
        checks.check_features(X, estimator)
    check_responses(X, y, names[0], type(estimator).__name__)
    if SCORES[names[0]].of_classes:
        supervised.check_kind(supervised.checked_labels(y), fitted_steps(estimator)[-1][1].classes_)
    given["unit"], people = unit_of_rows(estimator, X, users, "row" if y is None else "record")
    if is_list or SCORES[names[0]].of_counts:
        scores = _scores_of_counts(names, estimator, X, y, people, given)
        return scores if is_list else scores[names[0]]
    return _score_of_losses(names[0], estimator, X, y, people, given)


def _score_of_losses(
    scoring: str, estimator: Any, X: Any, y: Any, people: People | None, given: Mapping[str, Any]
) -> PrivateScore:
    """Release the mean of clipped losses, as a score.

    `given` has the budget, the unit, the adjacency, the ledger and the seed.
    """
    losses = unit_losses(scoring, estimator, X, y, people)
    score, cost = SCORES[scoring], PrivacyCost(given["epsilon"], given["delta"])
    n_units, level, search, left = len(losses), 1.0, None, 1.0
    if not score.is_bounded:
        search, left = plan_level(cost, "level of losses", _LEVEL_SHARE)
    # Divided by the level, a loss is in [0, 1] or, if it may be negative, in [-1, 1].
    change, least = sensitivity.count, 0.0
    if score.is_signed:
        of_sum = partial(sensitivity.response_sum, 1.0, math.inf, 1.0, given["adjacency"])
        change, least = of_sum, -1.0
    release = cost.release("sum of losses", "gaussian", left, change, {})
    plan = Plan(cost, (search, release), unit=given["unit"], adjacency=given["adjacency"])
    if search is not None:
        counted = "rows" if people is None else "users"
        quantile = search.highest_quantile(n_units, most=_QUANTILE)
        clipped = f"about {1 - quantile:.0%} of" if quantile > LEAST_QUANTILE else "half of"
        if quantile < _USUAL_QUANTILE:
            warn_of_privacy(
                f"{_TOO_GOOD}: {clipped} the losses are clipped, as {n_units} {counted} are few at "
                f"this epsilon. Take more {counted}, or a larger epsilon."
            )
    budget = opened("private_score", plan, losses, people, given)
    if search is not None:
        level = release_level(search, np.abs(losses), budget, most=_QUANTILE)
    total = in_steps(np.clip(losses / level, least, 1.0)).sum()
    noisy_total, noise_std = budget.release(release, total)
    mean, std = float(noisy_total) * level / n_units, noise_std * level / n_units
    if search is not None and not score.is_signed and quantile >= _USUAL_QUANTILE:
        lost = mean_beyond(level, budget.search_counts[search.name], n_units)
        if lost > max(_MOST_LOST * mean, _FAR * std):
            budget.warnings.append(
                f"{_TOO_GOOD}: clipping seems to take about {lost / (mean + lost):.0%} of the mean "
                f"loss, as a few are very large. Take more {counted}, or a larger epsilon."
            )
    warn_of_privacy(*budget.warnings)
    value = 1 - mean if scoring == "accuracy" else -mean
    return PrivateScore(value, std, level, budget.spent(), scoring)


def _scores_of_counts(
    names: list[str], estimator: Any, X: Any, y: Any, people: People | None, given: dict[str, Any]
) -> dict[str, PrivateScore]:
    """Release counts of outcomes, of binned scores, or of both; compute all scores from them."""
    n_classes = max(len(classes_for(name, fitted_steps(estimator)[-1][1])) for name in names)
    # Shapes of the tables of counts, by the function that returns what is counted for each row.
    all_shapes: dict[Any, Any] = {_outcomes: (n_classes, n_classes), _scores: (2, N_BINS)}
    asked = {COUNTED[name].losses: COUNTED[name] for name in names}
    shapes = {kind: shape for kind, shape in all_shapes.items() if kind in asked}
    judged = {
        kind: of_people(partial(row_losses, asked[kind], estimator), people, X, y)
        for kind in shapes
    }
    cost, sizes = PrivacyCost(given["epsilon"], given["delta"]), [*map(math.prod, shapes.values())]
    parts = plan_counts(sizes, cost, given["adjacency"], of_scores=_scores in shapes)
    plan = Plan(cost, parts, unit=given["unit"], adjacency=given["adjacency"])
    budget = opened("private_score", plan, np.column_stack([*judged.values()]), people, given)
    cells, edges = {**judged}, np.empty(0)  # the number of the cell or bin in which each row counts
    if _scores in judged:
        cells[_scores], edges = binned(judged[_scores], people, parts, budget)
    released, std = release_counts([*cells.values()], sizes, people, parts.counts, budget)
    counts = {kind: one.reshape(shapes[kind]) for kind, one in zip(shapes, released, strict=True)}
    values = {}
    if _scores in judged:
        values["roc_auc"] = release_area(
            judged[_scores], edges, counts[_scores], std, people, parts.order, budget
        )
    for name in {*names} - {*values}:
        of_counts, table = COUNTED[name].of_counts, counts[_outcomes]
        values[name] = of_counts(table), std_of(of_counts, table, std)
    spent = budget.spent()
    return {name: PrivateScore(*values[name], 1.0, spent, name) for name in names}


def opened(
    name: str, plan: Plan, of_rows: np.ndarray, people: People | None, given: Mapping[str, Any]
) -> PrivacyBudget:
    """Open the budget of a plan for losses of rows; with a seed, the losses key the noise, too."""
    counted, n_units = ("rows", len(of_rows)) if people is None else ("users", people.n_people)
    seed = given["random_state"]
    warn_of_privacy(*checks.warnings_for_settings(plan.cost, counted, n_units, seed))
    noise = noise_for(of_rows, people, draw_seed(seed))
    ledger, what = given["ledger"], f"{name}, {n_units} {plan.unit}s"
    charge = None if ledger is None else partial(ledger.charge, what=what)
    return PrivacyBudget.of(plan, noise, charge)


def noise_for(losses: np.ndarray, people: People | None, seed: int | None) -> NoiseSource:
    """Return the source of noise; with a seed, other losses or users have other noise."""
    keyed = (losses,) if people is None else (losses, people.codes)
    return NoiseSource(seed, () if seed is None else digests(*keyed))
