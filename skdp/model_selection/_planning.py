"""Tuning on public rows, with as much noise as the private fit will have."""

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import Bunch, check_random_state, check_scalar
from sklearn.utils._indexing import _safe_indexing

from skdp._validation import check_sizes
from skdp.data.people import people_of
from skdp.decomposition import DPLowRankFactorizer
from skdp.exceptions import named, shown, warnings_together
from skdp.linear_model._logistic_regression import PrivateClassifier
from skdp.linear_model._supervised import given_classes
from skdp.model_selection._search import BaseDPSearch
from skdp.pipeline._composition import innermost
from skdp.pipeline._rules import private_steps
from skdp.privacy.plan import largest_epsilon

# Units whose statistics are sums over rows or users, so that more rows mean less relative noise.
_UNITS = ("row", "record", "response", "user")


@named
def matched_noise(estimator: Any, *, n_samples: int, n_public: int) -> Any:
    r"""Make fits to few public rows as noisy as the fit to many private rows will be.

    The more rows a private fit has, the smaller is its relative noise. On public rows, parameters
    can be chosen at no cost, if the fits are as noisy as the private fit will be: fits to n' public
    rows spend :math:`\mu\, n / n'`, where the fit to n private rows spends :math:`\mu`. At the same
    epsilon, fits to fewer rows would be far noisier, and the simplest model would win.

    Parameters
    ----------
    estimator : estimator
        The estimator as it will be fitted to private rows: a private estimator, or a pipeline with
        private steps. It is not changed.
    n_samples : int
        Number of rows of the private fit; of users for ``privacy_unit="user"`` and
        :class:`skdp.DPPersonalizedRegressor`.
    n_public : int
        Number of public rows, or users, of one fit: in a search with k folds, the number in k - 1
        folds.

    Returns
    -------
    estimator
        A clone whose private steps have another epsilon, for public rows only.

    Raises
    ------
    ValueError
        If there is no private step, or a private one has a ledger, no noise, or a unit other than a
        row, a record, a response or a user: statistics of single entries do not grow with the rows.
        Also if some steps protect users and others do not.

    Notes
    -----
    **Privacy.** Nothing is computed from data. A fit of the result protects its rows far less than
    the epsilon of `estimator` suggests: they have to be public.

    Examples
    --------
    >>> from skdp import DPPCA
    >>> from skdp.model_selection import matched_noise
    >>> private = DPPCA(5, epsilon=1.0)
    >>> round(matched_noise(private, n_samples=1000, n_public=100).epsilon, 2)
    13.51
    """
    check_sizes(n_samples=n_samples, n_public=n_public)
    steps = _checked_steps(estimator)
    matched = clone(estimator)
    for prefix, step in steps.items():
        epsilon = _epsilon_of_mu(step, step._cost().mu * (n_samples / n_public))
        if not 0 < epsilon < np.inf:
            raise ValueError(
                f"n_samples={n_samples} and n_public={n_public} are too far apart: no noise that "
                f"can be computed matches, as it would take epsilon={epsilon!r}."
            )
        matched.set_params(**{f"{prefix}epsilon": epsilon})
    return matched


@named
@warnings_together()
def epsilon_curve(
    estimator: Any,
    X_public: Any,
    y_public: Any = None,
    *,
    users: Any = None,
    epsilons: Any,
    n_samples: int,
    scoring: Any = None,
    n_repeats: int = 10,
    test_size: float = 0.25,
    random_state: Any = None,
) -> Bunch:
    """Estimate the score of a private fit at each epsilon, from public rows.

    A search over epsilon would always choose the largest. This function shows the score that each
    epsilon buys. Each fit is made to a part of the public rows, with the noise of a fit to
    `n_samples` private rows (:func:`matched_noise`), and is scored on the other public rows.

    Parameters
    ----------
    estimator : estimator
        The estimator as it will be fitted to private rows. It is not changed.
    X_public : array-like of shape (n_public, n_features)
        Public rows that resemble the private ones.
    y_public : array-like of shape (n_public,) or None, default=None
        Their responses.
    users : array-like of shape (n_public,) or None, default=None
        Owner of each public row, if all private steps have ``privacy_unit="user"``. All rows of a
        user are on one side of each split.
    epsilons : array-like of shape (n_epsilons,)
        Epsilons to try. Several private steps split each epsilon in the proportions of `estimator`.
    n_samples : int
        Number of rows of the private fit; of users with ``privacy_unit="user"``.
    scoring : str, callable or None, default=None
        As in scikit-learn's ``cross_validate``; None for the estimator's own score.
    n_repeats : int, default=10
        Number of random splits.
    test_size : float, default=0.25
        Fraction of the rows, or users, that a fit is scored on, between 0 and 1.
    random_state : int, RandomState instance or None, default=None
        Seed of the splits. The noise is fresh in every fit.

    Returns
    -------
    Bunch
        ``epsilons`` of shape (n_epsilons,), ``scores`` of shape (n_epsilons, n_repeats), their
        ``mean``, ``median`` and ``std`` over the splits. A score without a lower bound, such as R2,
        may be so low on one split that the mean says little.

    Raises
    ------
    ValueError
        If an argument is not acceptable, there is no private step, or one has a ledger, no noise,
        or no `classes`.

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
    check_sizes(n_repeats=n_repeats, n_samples=n_samples)
    check_scalar(test_size, "test_size", Real, min_val=0, max_val=1, include_boundaries="neither")
    given, epsilons = epsilons, np.asarray(epsilons, dtype=np.float64)
    is_list = epsilons.ndim == 1 and epsilons.size > 0
    if not is_list or not ((epsilons > 0) & np.isfinite(epsilons)).all():
        raise ValueError(
            "epsilons must be a list of positive finite numbers, as [0.5, 1, 2], got "
            f"{shown(tuple(given) if type(given) is list else given)}."
        )
    steps = innermost(_checked_steps(estimator)).values()
    for step in steps:
        if isinstance(step, PrivateClassifier):
            given_classes(step.classes)
    if not all(hasattr(step, "privacy_unit") for step in steps):
        raise ValueError(
            "A curve splits rows, and users are not to be split: fit clones of matched_noise("
            "estimator, n_samples=..., n_public=...) to public users; both count users."
        )
    people = people_of(users, X_public, next(iter(steps)).privacy_unit)
    score = check_scoring(estimator, scoring)
    scores = np.empty((len(epsilons), n_repeats))
    by = ShuffleSplit if people is None else GroupShuffleSplit
    split = by(n_repeats, test_size=test_size, random_state=check_random_state(random_state))
    data = [X_public] if y_public is None else [X_public, y_public]
    splits = split.split(X_public, groups=None if people is None else people.codes)
    for column, indices in enumerate(splits):
        train, test = ([_safe_indexing(one, part) for one in data] for part in indices)
        n_public, ids = len(indices[0]), {}
        if people is not None:
            codes = people.codes[indices[0]]
            n_public = len(np.unique(codes))
            ids = {f"{prefix}users": codes for prefix in private_steps(estimator)}
        for row, epsilon in enumerate(epsilons):
            planned = _with_epsilon(estimator, float(epsilon))
            matched = matched_noise(planned, n_samples=n_samples, n_public=n_public)
            scores[row, column] = score(matched.fit(*train, **ids), *test)
    means, medians, stds = scores.mean(axis=1), np.median(scores, axis=1), scores.std(axis=1)
    return Bunch(epsilons=epsilons, scores=scores, mean=means, median=medians, std=stds)


def _checked_steps(estimator: BaseEstimator) -> dict[str, Any]:
    """Return the private steps; refuse a ledger, and steps whose noise cannot be matched."""
    steps = private_steps(estimator)
    if not steps:
        raise ValueError(f"{type(estimator).__name__} has no private step.")
    for name, value in {"": estimator, **estimator.get_params()}.items():
        if isinstance(value, BaseDPSearch | BaseSearchCV):
            raise ValueError(
                f"{name or 'estimator'}={type(value).__name__} cannot be matched: pass what it "
                "searches. On public rows, where a search is free, hand the result to GridSearchCV."
            )
    for prefix, step in steps.items():
        if step.ledger is not None:
            raise ValueError(f"{prefix}ledger must be None: fits to public rows cost nothing.")
        if not np.isfinite(step.epsilon):
            raise ValueError(f"{prefix}epsilon must be finite, got {step.epsilon!r}.")
        if step.delta == 0:
            raise ValueError(f"{prefix}delta must be positive, got 0: there is no mu to match.")
    are_users = set()
    for prefix, step in innermost(steps).items():
        unit = getattr(step, "privacy_unit", "user")
        are_users.add(unit == "user")
        if isinstance(step, DPLowRankFactorizer) or unit not in _UNITS:
            raise ValueError(
                f"{prefix.rstrip('_') or 'estimator'}={type(step).__name__} with "
                f"privacy_unit={unit!r} cannot be matched: only statistics that are sums over the "
                f"units {_UNITS} can. Factors of single rows, as DPLowRankFactorizer has, cannot."
            )
    if len(are_users) > 1:
        raise ValueError("privacy_unit must be 'user' in all private steps, or in none of them.")
    return steps


def _epsilon_of_mu(step: Any, mu: float) -> float:
    """Return the largest epsilon at which a private step spends at most this mu."""
    return largest_epsilon(mu, float(step.delta), step._cost().delta_tail)


def _with_epsilon(estimator: Any, epsilon: float) -> Any:
    """Give the private steps this epsilon in total, in their present proportions of mu**2."""
    steps = private_steps(estimator)
    squares = {prefix: step._cost().mu ** 2 for prefix, step in steps.items()}
    planned, total = clone(estimator), sum(squares.values())
    for prefix, step in steps.items():
        # The mu that all steps together may spend, at the delta of this step.
        whole_mu = clone(step).set_params(epsilon=epsilon)._cost().mu
        mu = whole_mu * np.sqrt(squares[prefix] / total)
        planned.set_params(**{f"{prefix}epsilon": _epsilon_of_mu(step, mu)})
    return planned
