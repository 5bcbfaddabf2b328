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
from skdp.linear_model._classifiers import PrivateClassifier
from skdp.linear_model._targets import given_classes
from skdp.model_selection._search import BaseDPSearch
from skdp.pipeline._composition import SharedBudget, private_steps, private_within
from skdp.privacy.plan import largest_epsilon

# Units whose statistics are sums over rows, or over users.
_UNITS = ("row", "record", "response", "user")
_MATCHED = ("epsilon", "delta", "ledger")


def matched_noise(estimator: Any, *, n_samples: int, n_public: int) -> Any:
    r"""Make fits to few public rows as noisy as the fit to many private rows will be.

    The more rows a private fit has, the smaller its noise is beside what it learns. Parameters can
    be chosen on public rows, at no cost, if the fits there are as noisy as the private fit will be:
    with n' public rows instead of n private ones they spend :math:`\mu\, n / n'`. At the same
    epsilon they would be far noisier, and the simplest model would win.

    Parameters
    ----------
    estimator : estimator
        The estimator as it will be fitted to private rows: a private estimator, or a pipeline with
        private steps. It is not changed.
    n_samples : int
        Number of rows of the private fit; of users for :class:`skdp.DPPersonalizedRegressor`.
    n_public : int
        Number of public rows, or users, of one fit: in a search with k folds, those in k - 1 folds.

    Returns
    -------
    estimator
        A clone whose private steps have another epsilon, for public rows only.

    Raises
    ------
    ValueError
        If there is no private step, or a private one has a ledger, no noise, or a unit other than a
        row, a record, a response or a user: statistics of single entries do not grow with the rows.

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
    for name, size in (("n_samples", n_samples), ("n_public", n_public)):
        check_scalar(size, name, Integral, min_val=1)
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
    """Estimate the score of a private fit at each epsilon, from public rows.

    A search over epsilon would only find the largest. This tells how much each epsilon buys
    instead. Every fit is to a part of the public rows, with the noise that a fit to `n_samples`
    private rows will have (:func:`matched_noise`), and is scored on the other public rows.

    Parameters
    ----------
    estimator : estimator
        The estimator as it will be fitted to private rows. It is not changed.
    X_public : array-like of shape (n_public, n_features)
        Public rows that resemble the private ones.
    y_public : array-like of shape (n_public,) or None, default=None
        Their responses.
    epsilons : array-like of shape (n_epsilons,)
        Epsilons to try. Several private steps share each one, in the proportions of `estimator`.
    n_samples : int
        Number of rows of the private fit.
    scoring : str, callable or None, default=None
        As in scikit-learn's ``cross_validate``; None for the estimator's own score.
    n_repeats : int, default=10
        Number of random splits.
    test_size : float, default=0.25
        Part of the rows that a fit is scored on, between 0 and 1.
    random_state : int, RandomState instance or None, default=None
        Seed of the splits. The noise is fresh in every fit.

    Returns
    -------
    Bunch
        ``epsilons`` of shape (n_epsilons,), ``scores`` of shape (n_epsilons, n_repeats), their
        ``mean``, ``median`` and ``std`` over the splits. Where scores have no lower end, such as
        R2, a single split may spoil the mean.

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
    check_scalar(n_repeats, "n_repeats", Integral, min_val=1)
    check_scalar(test_size, "test_size", Real, min_val=0, max_val=1, include_boundaries="neither")
    check_scalar(n_samples, "n_samples", Integral, min_val=1)
    epsilons = np.asarray(epsilons, dtype=np.float64)
    is_list = epsilons.ndim == 1 and epsilons.size > 0
    if not is_list or not ((epsilons > 0) & np.isfinite(epsilons)).all():
        raise ValueError(f"epsilons must be a list of positive finite numbers, got {epsilons!r}.")
    steps = _innermost(_checked_steps(estimator)).values()
    for step in steps:
        if isinstance(step, PrivateClassifier):
            given_classes(step.classes)
    if not all(hasattr(step, "privacy_unit") for step in steps):
        raise ValueError(
            "A curve splits rows, and users are not to be split: fit clones of matched_noise("
            "estimator, n_samples=..., n_public=...) to public users; both count users."
        )
    score = check_scoring(estimator, scoring)
    random = check_random_state(random_state)
    scores = np.empty((len(epsilons), n_repeats))
    splits = ShuffleSplit(n_repeats, test_size=test_size, random_state=random).split(X_public)
    data = [X_public] if y_public is None else [X_public, y_public]
    for column, indices in enumerate(splits):
        train, test = ([_safe_indexing(given, part) for given in data] for part in indices)
        for row, epsilon in enumerate(epsilons):
            planned = _with_total(estimator, float(epsilon))
            matched = matched_noise(planned, n_samples=n_samples, n_public=len(indices[0]))
            scores[row, column] = score(matched.fit(*train), *test)
    means, medians, stds = scores.mean(axis=1), np.median(scores, axis=1), scores.std(axis=1)
    return Bunch(epsilons=epsilons, scores=scores, mean=means, median=medians, std=stds)


def _checked_steps(estimator: BaseEstimator) -> dict[str, Any]:
    """Return the private steps; refuse steps that charge a ledger or whose noise has no match."""
    steps = private_steps(estimator)
    if not steps:
        raise ValueError(f"{type(estimator).__name__} has no private step.")
    _check_searched(estimator)
    for name, value in {"": estimator, **estimator.get_params()}.items():
        if isinstance(value, BaseDPSearch):
            raise ValueError(
                f"{name or 'estimator'}={type(value).__name__} cannot be matched: on public rows, "
                "where a search costs nothing, take GridSearchCV."
            )
    for prefix, step in steps.items():
        if step.ledger is not None:
            raise ValueError(f"{prefix}ledger must be None: fits to public rows cost nothing.")
        if not np.isfinite(step.epsilon):
            raise ValueError(f"{prefix}epsilon must be finite, got {step.epsilon!r}.")
        if step.delta == 0:
            raise ValueError(f"{prefix}delta must be positive, got 0: there is no mu to match.")
    for prefix, step in _innermost(steps).items():
        unit = getattr(step, "privacy_unit", "user")
        if isinstance(step, DPLowRankFactorizer) or unit not in _UNITS:
            raise ValueError(
                f"{prefix.rstrip('_') or 'estimator'}={type(step).__name__} with "
                f"privacy_unit={unit!r} cannot be matched: only statistics that are sums over the "
                f"units {_UNITS} can. Factors of single rows, as DPLowRankFactorizer has, cannot."
            )
    return steps


def _innermost(steps: dict[str, Any]) -> dict[str, Any]:
    """Replace each pipeline of one budget by the private steps that share it."""
    return {
        prefix + name: one
        for prefix, step in steps.items()
        for name, one in (
            private_within(step) if isinstance(step, SharedBudget) else {"": step}
        ).items()
    }


def _check_searched(estimator: Any) -> None:
    """Refuse a search of scikit-learn over parameters that `matched_noise` sets."""
    for name in ("param_grid", "param_distributions"):
        grids = getattr(estimator, name, None)
        for grid in [grids] if isinstance(grids, dict) else grids or []:
            for searched in grid:
                if searched.rpartition("__")[2] in _MATCHED:
                    raise ValueError(f"{searched!r} of {name} must not be searched: it is matched.")


def _epsilon_of_mu(step: Any, mu: float) -> float:
    """Compute the epsilon at which a private step spends that mu, rounded down."""
    return largest_epsilon(mu, float(step.delta), step._cost().delta_tail)


def _with_total(estimator: Any, epsilon: float) -> Any:
    """Let the private steps spend that epsilon together, in their present proportions of mu**2."""
    steps = private_steps(estimator)
    squares = {prefix: step._cost().mu ** 2 for prefix, step in steps.items()}
    planned, total = clone(estimator), sum(squares.values())
    for prefix, step in steps.items():
        # The mu of the whole epsilon, at the delta of this step.
        whole_mu = clone(step).set_params(epsilon=epsilon)._cost().mu
        mu = whole_mu * np.sqrt(squares[prefix] / total)
        planned.set_params(**{f"{prefix}epsilon": _epsilon_of_mu(step, mu)})
    return planned
