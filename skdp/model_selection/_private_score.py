"""A noisy score of a fitted estimator on rows that it has not seen."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import _check_n_features, _num_samples, check_is_fitted

from skdp._checks import BUDGET, SEED, validate_plain, warnings_for_seed
from skdp._estimator import warnings_for_delta
from skdp.data.containers import checked_container
from skdp.data.sources import digests
from skdp.exceptions import warn_of_privacy
from skdp.model_selection._choice import OTHER_UNITS, in_steps, release_level
from skdp.model_selection._row_losses import (
    check_responses,
    check_scoring,
    default_scoring,
    row_losses,
)
from skdp.privacy import Plan, PrivacyBudget, PrivacySpent, Release, sensitivity
from skdp.privacy.noise import NoiseSource, draw_seed
from skdp.privacy.plan import PrivacyCost
from skdp.privacy.precision import plain
from skdp.privacy.releases import SCALE_GRID, Search
from skdp.privacy.sensitivity import ADJACENCIES

# Share of the search for the level that losses are clipped to, and the quantile of their sizes that
# it looks for; `release_level` takes a lower one with few rows, but at least _LEAST.
_LEVEL_SHARE, _QUANTILE, _LEAST = 0.2, 0.95, 0.5  # not studied
_CONSTRAINTS: dict[str, Any] = {**BUDGET, **SEED, "adjacency": [StrOptions(set(ADJACENCIES))]}


@dataclass(frozen=True, repr=False)
class PrivateScore:  # numpydoc ignore=PR02
    """A score with noise.

    Parameters
    ----------
    value : float
        The score; a greater one is better.
    std : float
        Standard deviation of the noise. It covers neither the bias that clipping adds nor the
        error of sampling, by which the scores of other rows would differ.
    level : float
        The level that losses were clipped to; 1 for accuracy, which needs no clipping.
    privacy_spent : PrivacySpent
        Record of what the score has cost.

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

    The losses of the rows are clipped, and their mean is released and turned into a score. They are
    clipped at a private .95 quantile of their sizes; with few rows at a lower quantile, but at
    least at the median. So the largest losses count less than they are, and the score looks better
    than it is.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator that may be published.
    X : array-like of shape (n_samples, n_features)
        Rows to protect.
    y : array-like of shape (n_samples,) or None, default=None
        Their responses.
    scoring : str, callable or None, default=None
        As in :class:`DPGridSearch`, except for ``"r2"``, which is no mean over rows.
    epsilon : float, default=1.0
        Privacy budget, dimensionless, ``0 < epsilon <= inf``.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 < delta < 1``.
    adjacency : {"replace", "zero_out"}, default="replace"
        Neighboring datasets differ in one row, which is exchanged or set to null.
    ledger : PrivacyLedger or None, default=None
        Where the whole cost is charged before the first release.
    random_state : int, RandomState or Generator instance or None, default=None
        ``None`` takes fresh noise, as the guarantee assumes.

    Returns
    -------
    PrivateScore
        The score, the standard deviation of its noise, the level, and the record of the cost.

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
    **Privacy.** Unit: one row, with its response if there are any (then called a record).
    Adjacency: `adjacency`. Mechanism: ten Gaussian counts for the level, which take a fifth of the
    budget, and a Gaussian mean; accuracy needs no level. One row moves the mean of n losses in
    [0, B] by at most B / n. Losses of log-likelihoods and of callables are in [-B, B], and one row
    moves their mean by twice as much with "replace". Assumed public: the number of rows, and the
    estimator. A ledger does not know which rows are meant, and charges the score in full.

    If the rows were set apart before the fit, every row is either in the fit or in the score. Both
    together then cost the larger of the two records, not their sum [1]_, provided that unit and
    adjacency agree. The split must not depend on the rows. A random split that nobody knows does
    not. Nor does a split by positions or by a known seed, if the order of the rows tells nothing
    about them. A split that looks at responses, such as a stratified one, does.

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
    validate_plain(_CONSTRAINTS, given, "private_score")
    check_is_fitted(estimator)
    scoring = default_scoring(estimator) if scoring is None else scoring
    if scoring == "r2":
        raise ValueError(
            "scoring='r2' is no mean over rows, so that one row may move it without limit: pass "
            "'neg_mean_squared_error'."
        )
    check_scoring(scoring, estimator)
    X, y = checked_container(X), checked_container(y)
    if hasattr(estimator, "n_features_in_") and len(getattr(X, "shape", ())) == 2:
        _check_n_features(estimator, X, reset=False)
    check_responses(X, y, scoring, type(estimator).__name__)
    losses, n_rows = row_losses(scoring, estimator, X, y), _num_samples(X)
    is_bounded, is_signed = scoring == "accuracy", callable(scoring) or scoring == "log_likelihood"
    cost = PrivacyCost(float(plain(epsilon)), float(plain(delta)))
    unit = "row" if y is None else "record"
    parts = _plan(cost, adjacency, is_bounded=is_bounded, is_signed=is_signed)
    plan = Plan(cost, parts, unit=unit, adjacency=adjacency)
    if cost.is_private:
        warn_of_privacy(*warnings_for_seed(random_state))
    few_rows = [] if parts.level is None else _warnings_for_few_rows(parts.level, n_rows)
    warn_of_privacy(*warnings_for_delta(cost, "rows", n_rows), *few_rows)
    seed = draw_seed(random_state)
    noise = NoiseSource(seed, () if seed is None else digests(losses))
    what = f"private_score, {n_rows} {unit}s"
    charge = None if ledger is None else lambda spent: ledger.charge(spent, what=what)
    budget = PrivacyBudget.of(plan, noise, charge)
    mean, std, level = _release_mean(losses, parts, budget, is_signed=is_signed)
    warn_of_privacy(*budget.warnings)
    return PrivateScore(1 - mean if is_bounded else -mean, std, level, budget.spent())


def _warnings_for_few_rows(level: Search, n_rows: int) -> list[str]:
    """Warn where there are so few rows that many of the losses are clipped."""
    quantile = level.highest_quantile(n_rows, most=_QUANTILE)
    if quantile >= _QUANTILE:
        return []
    clipped = f"about {1 - quantile:.0%} of" if quantile > _LEAST else "half of"
    return [
        f"{n_rows} rows are few at this epsilon: {clipped} the losses are clipped, and the score "
        "looks better than it is, by more than its std. Take more rows, a larger epsilon, or a "
        "callable scoring whose scores differ little from row to row."
    ]


class _ScoreReleases(NamedTuple):
    level: Search | None  # that losses are clipped to; None for losses that are 0 or 1
    total: Release


def _plan(
    cost: PrivacyCost, adjacency: str, *, is_bounded: bool, is_signed: bool
) -> _ScoreReleases:
    share, level = 0.0, None
    if not is_bounded:
        share = _LEVEL_SHARE
        level = cost.search("level of losses", share, SCALE_GRID, remedy=OTHER_UNITS)
    # The sum is in units of the level: a row adds a number in [0, 1], or in [-1, 1] if signed.
    change = sensitivity.count
    if is_signed:
        change = partial(sensitivity.response_sum, 1.0, math.inf, 1.0, adjacency)
    return _ScoreReleases(level, cost.release("sum of losses", "gaussian", 1 - share, change, {}))


def _release_mean(
    losses: np.ndarray, plan: _ScoreReleases, budget: PrivacyBudget, *, is_signed: bool
) -> tuple[float, float, float]:
    """Release the mean of clipped losses; return also its noise's std, and the clipping level."""
    n_rows, level = len(losses), 1.0
    if plan.level is not None:
        level = release_level(plan.level, np.abs(losses), budget, most=_QUANTILE)
    total = in_steps(np.clip(losses / level, -1.0 if is_signed else 0.0, 1.0)).sum()
    noisy_total, noise_std = budget.release(plan.total, total)
    return float(noisy_total) * level / n_rows, noise_std * level / n_rows, level
