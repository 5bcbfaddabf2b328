"""Tuning on public rows, at the noise that the private fit will have."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import ShuffleSplit
from sklearn.utils import Bunch, check_random_state, check_scalar
from sklearn.utils._indexing import _safe_indexing

from skdp.decomposition import DPLowRankFactorizer
from skdp.model_selection._private_steps import epsilon_of_mu, private_steps
from skdp.model_selection._search import BaseDPSearch

__all__ = ["epsilon_curve", "matched_noise"]

# Whose statistics are sums over rows, or users.
_UNITS = ("row", "record", "response", "user")
_MATCHED = ("epsilon", "delta", "ledger")


def matched_noise(estimator: Any, *, n_samples: int, n_public: int) -> Any:
    r"""Give an estimator for few public rows the noise that it will have on many private ones.

    The noise of a private fit, beside what it learns, falls with the number of rows. To choose
    parameters on public rows, which costs nothing, the fits there should be as noisy as the private
    one will be: with n' public rows in the place of n they spend :math:`\mu\, n / n'`. At the same
    epsilon they would have far more noise, and choose what is simplest.

    Parameters
    ----------
    estimator : estimator
        The estimator as it will be fitted to private rows: a private one, or a pipeline with such
        steps. It is not changed.
    n_samples : int
        Number of rows of the private fit; of users for :class:`skdp.DPPersonalizedRegressor`.
    n_public : int
        Number of public rows, or users, of one fit: in a search with k folds, of k - 1 of them.

    Returns
    -------
    estimator
        A clone whose private steps have another epsilon. It is for public rows only.

    Raises
    ------
    ValueError
        If there is no private step, or one has a ledger, no noise, or a unit other than a row, a
        record, a response or a user: statistics of single entries do not grow with the rows.

    Notes
    -----
    **Privacy.** Nothing is computed from data. What is fitted to public rows with the result
    protects these rows far less than `epsilon` says: they have to be public.

    Examples
    --------
    >>> from skdp import DPPCA
    >>> from skdp.model_selection import matched_noise
    >>> private = DPPCA(5, epsilon=1.0)
    >>> round(matched_noise(private, n_samples=1000, n_public=100).epsilon, 2)
    13.51
    """
    for name, size in (("n_samples", n_samples), ("n_public", n_public)):
        check_scalar(size, name, Integral, min_val=1)
    steps = _checked_steps(estimator)
    matched = clone(estimator)
    for prefix, step in steps.items():
        mu = step._cost().mu * (n_samples / n_public)
        epsilon = _checked_epsilon(epsilon_of_mu(step, mu), mu)
        matched.set_params(**{f"{prefix}epsilon": epsilon})
    return matched


def epsilon_curve(
    estimator: Any,
    X_public: Any,
    y_public: Any = None,
    *,
    epsilons: Any,
    n_samples: int,
    scoring: Any = None,
    n_repeats: int = 10,
    test_size: float = 0.25,
    random_state: Any = None,
) -> Bunch:
    """Tell what score to expect of a private fit at each epsilon, from public rows.

    The answer to a search over epsilon, which would find the largest: how much each one buys. Every
    fit is to a part of the public rows, at the noise that n_samples private ones will have
    (`matched_noise`), and is scored on the rest.

    Parameters
    ----------
    estimator : estimator
        The estimator as it will be fitted to private rows. It is not changed.
    X_public : array-like of shape (n_public, n_features)
        Public rows, alike to the private ones.
    y_public : array-like of shape (n_public,) or None, default=None
        Their responses.
    epsilons : array-like of shape (n_epsilons,)
        Epsilons to try. With several private steps they are those of all together, which share them
        as they do now.
    n_samples : int
        Number of rows of the private fit.
    scoring : str, callable or None, default=None
        As in scikit-learn's ``cross_validate``; None for that of the estimator.
    n_repeats : int, default=10
        Number of random splits.
    test_size : float, default=0.25
        Part of the rows that a split scores on, between 0 and 1.
    random_state : int, RandomState instance or None, default=None
        Seed of the splits. The noise is fresh in every fit.

    Returns
    -------
    Bunch
        ``epsilons`` of shape (n_epsilons,), ``scores`` of shape (n_epsilons, n_repeats), their
        ``mean``, ``median`` and ``std`` over the splits. Of scores without a lower end, such as
        R2, a single one may spoil the mean.

    Raises
    ------
    ValueError
        If an argument is not acceptable, there is no private step, or one has a ledger or no noise.

    Notes
    -----
    **Privacy.** Nothing is spent: the rows are public.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdp import DPPCA
    >>> from skdp.model_selection import epsilon_curve
    >>> X_public = load_digits().data[:200]
    >>> pca = DPPCA(5, row_norm=40, mean_norm=60)
    >>> curve = epsilon_curve(pca, X_public, epsilons=[0.1, 1, 10], n_samples=1500, random_state=0)
    >>> curve.mean.shape
    (3,)
    """
    check_scalar(n_repeats, "n_repeats", Integral, min_val=1)
    check_scalar(test_size, "test_size", Real, min_val=0, max_val=1, include_boundaries="neither")
    check_scalar(n_samples, "n_samples", Integral, min_val=1)
    epsilons = np.asarray(epsilons, dtype=np.float64)
    is_list = epsilons.ndim == 1 and epsilons.size > 0
    if not is_list or not ((epsilons > 0) & np.isfinite(epsilons)).all():
        raise ValueError(f"epsilons must be a list of positive finite numbers, got {epsilons!r}.")
    if any(_is_of_users(step) for step in _checked_steps(estimator).values()):
        raise ValueError(
            "A curve splits rows, and users are not to be split: fit clones of "
            "matched_noise(estimator, n_samples=..., n_public=...) to public users, both being "
            "numbers of users."
        )
    score = check_scoring(estimator, scoring)
    splits = ShuffleSplit(
        n_repeats, test_size=test_size, random_state=check_random_state(random_state)
    )
    scores = np.empty((len(epsilons), n_repeats))
    for number, (train, test) in enumerate(splits.split(X_public)):
        parts = [_rows(X_public, y_public, part) for part in (train, test)]
        for place, epsilon in enumerate(epsilons):
            planned = _with_total(estimator, float(epsilon))
            fitted = matched_noise(planned, n_samples=n_samples, n_public=len(train)).fit(*parts[0])
            scores[place, number] = score(fitted, *parts[1])
    return Bunch(
        epsilons=epsilons,
        scores=scores,
        mean=scores.mean(axis=1),
        median=np.median(scores, axis=1),
        std=scores.std(axis=1),
    )


def _checked_steps(estimator: BaseEstimator) -> dict[str, Any]:
    """Return the private steps; refuse those that would charge a ledger, or cannot be matched."""
    steps = private_steps(estimator)
    if not steps:
        raise ValueError(f"{type(estimator).__name__} has no private step.")
    _check_searched(estimator)
    for name, value in {"": estimator, **estimator.get_params()}.items():
        if isinstance(value, BaseDPSearch):
            raise ValueError(
                f"{name or 'estimator'}={type(value).__name__} cannot be matched: on public rows "
                "take GridSearchCV, which costs nothing there."
            )
    for prefix, step in steps.items():
        if step.ledger is not None:
            raise ValueError(f"{prefix}ledger must be None: fits to public rows cost nothing.")
        if not np.isfinite(step.epsilon):
            raise ValueError(f"{prefix}epsilon must be finite, got {step.epsilon!r}.")
        if step.delta == 0:
            raise ValueError(f"{prefix}delta must be positive, got 0: there is no mu to match.")
        unit = getattr(step, "privacy_unit", "user")
        if isinstance(step, DPLowRankFactorizer) or unit not in _UNITS:
            raise ValueError(
                f"{prefix.rstrip('_') or 'estimator'}={type(step).__name__} with "
                f"privacy_unit={unit!r} cannot be matched: only statistics that are sums over rows "
                f"can, of the units {_UNITS}. The rows' own factors are none."
            )
    return steps


def _is_of_users(step: Any) -> bool:
    return not hasattr(step, "privacy_unit")


def _check_searched(estimator: Any) -> None:
    """Refuse a search over what is matched."""
    for name in ("param_grid", "param_distributions"):
        grids = getattr(estimator, name, None)
        for grid in [grids] if isinstance(grids, dict) else grids or []:
            for searched in grid:
                if searched.rpartition("__")[2] in _MATCHED:
                    raise ValueError(f"{searched!r} of {name} must not be searched: it is matched.")


def _checked_epsilon(epsilon: float, mu: float) -> float:
    """Refuse what would be no noise, or nothing but noise."""
    if not 0 < epsilon < np.inf:
        raise ValueError(
            f"n_samples and n_public are too far apart: mu={mu!r} goes with epsilon={epsilon!r}."
        )
    return epsilon


def _with_total(estimator: Any, epsilon: float) -> Any:
    """Let the private steps spend that epsilon together, each its present part of the square."""
    steps = private_steps(estimator)
    squares = {prefix: step._cost().mu ** 2 for prefix, step in steps.items()}
    planned, total = clone(estimator), sum(squares.values())
    for prefix, step in steps.items():
        whole = clone(step).set_params(epsilon=epsilon)
        mu = whole._cost().mu * np.sqrt(squares[prefix] / total)
        planned.set_params(**{f"{prefix}epsilon": epsilon_of_mu(step, mu)})
    return planned


def _rows(X: Any, y: Any, rows: np.ndarray) -> tuple[Any, ...]:
    found = (_safe_indexing(X, rows),)
    return found if y is None else (*found, _safe_indexing(y, rows))
