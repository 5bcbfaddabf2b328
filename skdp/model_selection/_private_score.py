"""A score with noise, of rows that the estimator has not seen."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import _check_n_features, _num_samples, check_is_fitted

from skdp._estimator import warnings_for_delta
from skdp._parameters import BUDGET, SEED, validate_plain, warnings_for_seed
from skdp.data.digest import digest
from skdp.data.reading import read
from skdp.data.sources import as_source
from skdp.exceptions import warn_of_privacy
from skdp.model_selection._choice import OTHER_UNITS, in_steps, quantile_for, release_level
from skdp.model_selection._row_losses import (
    check_responses,
    check_scoring,
    row_losses,
    usual_scoring,
)
from skdp.privacy import Plan, PrivacyBudget, PrivacySpent, Release, sensitivity
from skdp.privacy.adjacency import ADJACENCIES
from skdp.privacy.cost import PrivacyCost
from skdp.privacy.noise import NoiseSource, draw_seed
from skdp.privacy.precision import plain
from skdp.privacy.quantile import SCALE_GRID
from skdp.privacy.release import Search

__all__ = ["PrivateScore", "private_score"]

# Part of the budget for what losses are clipped to; most of them are below it.
_LEVEL_SHARE, _QUANTILE, _LEAST = 0.2, 0.95, 0.5  # not studied
_CONSTRAINTS: dict[str, Any] = {
    **BUDGET,
    **SEED,
    "adjacency": [StrOptions(set(ADJACENCIES))],
}
# Whose losses may be negative.
_SIGNED = ("log_likelihood",)


@dataclass(frozen=True, repr=False)
class PrivateScore:  # numpydoc ignore=PR02
    """A score with noise.

    Parameters
    ----------
    value : float
        The score, greater being better.
    std : float
        Standard deviation of its noise. What clipping takes away, and how far the mean of other
        rows would be off, comes on top.
    level : float
        What losses were clipped to; 1 for accuracy, which needs none.
    privacy_spent : PrivacySpent
        What it has cost.

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

    def __repr__(self) -> str:
        guarantee = repr(self.privacy_spent)
        clipped = f"losses clipped at {self.level:.4g}"
        return f"PrivateScore: {self.value:.4g} +- {self.std:.2g}, {clipped}\n{guarantee}"


def private_score(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    scoring: Any = None,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    adjacency: str = "replace",
    ledger: Any = None,
    random_state: Any = None,
) -> PrivateScore:
    r"""Score a fitted estimator on private rows that it has not seen, with noise.

    Released is the mean over the rows of losses that are clipped, and turned into a score: at a
    private .95 quantile of their sizes, and a lower one with few rows, but the median at least. So
    large losses count less than they are, and the score looks better than the mean of all would.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator that may be published.
    X : array-like of shape (n_samples, n_features)
        Rows to protect.
    y : array-like of shape (n_samples,) or None, default=None
        Their responses.
    scoring : str, callable or None, default=None
        As of :class:`DPGridSearch`, but ``"r2"``, which is no mean of rows.
    epsilon : float, default=1.0
        Privacy budget, dimensionless, ``0 < epsilon <= inf``.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 < delta < 1``.
    adjacency : {"replace", "zero_out"}, default="replace"
        Neighboring datasets differ by exchanging one row, or by one that is null.
    ledger : PrivacyLedger or None, default=None
        Where the whole cost is charged before the first release.
    random_state : int, RandomState or Generator instance or None, default=None
        ``None`` takes fresh noise, as the guarantee assumes.

    Returns
    -------
    PrivateScore
        The score, the standard deviation of its noise, the level, and what it has cost.

    Raises
    ------
    ValueError
        If an argument is not acceptable; nothing has been spent then.
    NotFittedError
        If the estimator is not fitted.
    BudgetError
        If the ledger has less left; nothing has been spent then.

    Notes
    -----
    **Privacy.** Unit: one row, with its response if there are any (then called a record).
    Adjacency: `adjacency`. Mechanism: ten Gaussian counts for the level, for a fifth of the budget,
    and a Gaussian mean; accuracy needs no level. One row moves the mean of n losses in [0, B] by at
    most B / n, of log-likelihoods and of callables, in [-B, B], by twice as much with "replace".
    Assumed public: the number of rows, and the estimator. Where rows were set apart before, a row
    is in the fit or in the score, never in both, so that the two together cost the larger of both
    records, not their sum [1]_, if they are about the same unit and adjacency. The split must not
    look at rows: a random one that nobody knows does not; one by positions or by a known seed does
    not where the order of the rows tells nothing of them. A split that looks at responses is none.
    A ledger, which does not know which rows are meant, charges both.

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
    _check_arguments(epsilon, delta, adjacency, ledger, random_state)
    check_is_fitted(estimator)
    scoring = usual_scoring(estimator) if scoring is None else scoring
    if scoring == "r2":
        raise ValueError(
            "scoring='r2' is no mean of rows, so that one of them may move it without limit: pass "
            "'neg_mean_squared_error'."
        )
    check_scoring(scoring, estimator)
    X, y = read(X), read(y)
    if hasattr(estimator, "n_features_in_") and len(getattr(X, "shape", ())) == 2:
        _check_n_features(estimator, X, reset=False)
    check_responses(X, y, scoring, type(estimator).__name__)
    losses, n_rows = row_losses(scoring, estimator, X, y), _num_samples(X)
    is_bounded, is_signed = scoring == "accuracy", callable(scoring) or scoring in _SIGNED
    cost, unit = (
        PrivacyCost(float(plain(epsilon)), float(plain(delta))),
        "row" if y is None else "record",
    )
    parts = _plan(cost, adjacency, is_bounded=is_bounded, is_signed=is_signed)
    plan = Plan(cost, parts, unit=unit, adjacency=adjacency)
    if cost.is_private:
        warn_of_privacy(*warnings_for_seed(random_state))
    few = [] if parts.level is None else _warning_for_rows(parts.level, n_rows)
    warn_of_privacy(*warnings_for_delta(cost, "rows", n_rows), *few)
    seed = draw_seed(random_state)
    noise = NoiseSource(seed, () if seed is None else (digest(as_source(losses[:, np.newaxis])),))
    what = f"private_score, {n_rows} {unit}s"
    charge = None if ledger is None else lambda spent: ledger.charge(spent, what=what)
    budget = PrivacyBudget.of(plan, noise, charge)
    mean, std, level = _release_mean(losses, parts, budget, is_signed=is_signed)
    warn_of_privacy(*budget.warnings)
    return PrivateScore(1 - mean if is_bounded else -mean, std, level, budget.spent())


def _warning_for_rows(level: Search, n_rows: int) -> list[str]:
    """Doubt a score of so few rows that many of the losses are clipped."""
    quantile = quantile_for(level, n_rows, most=_QUANTILE)
    if quantile >= _QUANTILE:
        return []
    clipped = f"about {1 - quantile:.0%} of" if quantile > _LEAST else "half of"
    return [
        f"{n_rows} rows are few at this epsilon: {clipped} the losses are clipped, and the score "
        "looks better than it is, by more than its std. Take more rows, a larger epsilon, or a "
        "callable scoring whose scores differ little from row to row."
    ]


def _check_arguments(
    epsilon: Any, delta: Any, adjacency: Any, ledger: Any, random_state: Any
) -> None:
    given = {"epsilon": epsilon, "delta": delta, "adjacency": adjacency}
    given |= {"ledger": ledger, "random_state": random_state}
    validate_plain(_CONSTRAINTS, given, "private_score")


class _ScoreReleases(NamedTuple):
    level: Search | None  # of losses that are not 0 or 1
    total: Release


def _plan(
    cost: PrivacyCost, adjacency: str, *, is_bounded: bool, is_signed: bool
) -> _ScoreReleases:
    share, level = 0.0, None
    if not is_bounded:
        share = _LEVEL_SHARE
        level = cost.search("level of losses", share, SCALE_GRID, remedy=OTHER_UNITS)
    change = sensitivity.count
    if is_signed:
        change = partial(sensitivity.response_sum, 1.0, math.inf, 1.0, adjacency)
    return _ScoreReleases(level, cost.release("sum of losses", "gaussian", 1 - share, change, {}))


def _release_mean(
    losses: np.ndarray, plan: _ScoreReleases, budget: PrivacyBudget, *, is_signed: bool
) -> tuple[float, float, float]:
    """Release the mean of clipped losses; tell the scale of its noise, and what they are cut to."""
    n_rows, level = len(losses), 1.0
    if plan.level is not None:
        level = release_level(plan.level, np.abs(losses), budget, most=_QUANTILE)
    total = in_steps(np.clip(losses / level, -1.0 if is_signed else 0.0, 1.0)).sum()
    released, scale = budget.release(plan.total, total)
    return float(released) * level / n_rows, scale * level / n_rows, level
