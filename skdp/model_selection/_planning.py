"""Predict a private fit: its error for a given spectrum, or its score on public rows."""

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import Bunch, check_array, check_random_state, check_scalar
from sklearn.utils._indexing import _safe_indexing

from skdp._validation import check_sizes
from skdp.data.people import people_of
from skdp.decomposition import DPPCA, DPLowRankFactorizer, DPTruncatedSVD
from skdp.exceptions import shown, warnings_together
from skdp.linear_model._logistic_regression import PrivateClassifier
from skdp.linear_model._supervised import given_classes
from skdp.model_selection._search import BaseDPSearch
from skdp.pipeline._composition import innermost
from skdp.pipeline._rules import private_steps
from skdp.privacy import Release
from skdp.privacy.plan import largest_epsilon
from skdp.privacy.precision import as_python

# ------------------------------
# The error of a fit, from public facts and a guess of the spectrum.

# Rounding may make eigenvalues of a computed covariance negative, by this fraction of the largest.
_ROUNDING = 1e-9  # not tuned
# Number of directions beside the components that are simulated exactly, as they may swap with one.
_N_NEIGHBORS = 5  # not studied
_MOST_DRAWS, _FEWEST_DRAWS = 200, 8  # not studied
# Rough limit on the multiplications of all draws together.
_EFFORT = 5e8  # not studied
_TINY = np.finfo(np.float64).tiny


def expected_subspace_error(
    estimator: DPPCA | DPTruncatedSVD, eigenvalues: Any, n_samples: int
) -> float:
    r"""Predict the error of private components, before anything is fitted or spent.

    The error is the distance of the released components from the exact components of the same
    clipped rows, for ``solver="covariance"``. The distance is the sine of the largest angle
    between the two subspaces, as in :func:`skdp.metrics.subspace_distance`.

    Parameters
    ----------
    estimator : DPPCA or DPTruncatedSVD
        Estimator with the parameters of the planned fit. It need not be fitted, and is not changed.
        The bounds must be given, `n_components` must be an int or None, and `solver` "covariance",
        or "auto", which counts as "covariance".
    eigenvalues : array-like of shape (n_features,)
        Guess of the eigenvalues of the covariance (for a ``DPPCA`` that centers) or of the second
        moment per row, in any order, in the squared units of X; where users are protected, of a
        random row of a random user. The guess must not come from private rows: use public rows, a
        released spectrum or general knowledge of such data.
    n_samples : int
        Number of rows of the planned fit, or of users with ``privacy_unit="user"``.

    Returns
    -------
    float
        Expected sine, between 0 (``epsilon=inf``) and 1 (a direction is lost).

    Raises
    ------
    ValueError
        If a parameter is not acceptable, to `fit` or here, or an eigenvalue is negative.
    TypeError
        If `estimator` is neither ``DPPCA`` nor ``DPTruncatedSVD``.

    See Also
    --------
    skdp.metrics.subspace_distance : Measures this error for two subspaces.

    Notes
    -----
    **Privacy.** Reads no rows and spends nothing. The result is as public as the guess.

    A fit decomposes the second moment of the rows, a sum, plus symmetric noise whose standard
    deviation off the diagonal is :math:`\tau`. Let :math:`\lambda_i` be the eigenvalues of the sum.
    In a large matrix, a component that stands out of the noise keeps this part of its squared
    length along the true component [1]_:

    .. math:: 1 - \tau^2 \sum_{j > k} \frac{1}{(\lambda_i - \lambda_j)^2}.

    The component is lost if this part is not positive [2]_. The formula holds for one direction, in
    the limit of large matrices. Here k directions err together, the matrix is finite, and noise may
    exchange a component and a direction with nearly the same eigenvalue. So the k leading
    directions and the next five are simulated exactly, on the diagonal matrix of the
    :math:`\lambda_i`. All other directions enter by random terms whose mean is that of the formula.
    Up to 200 draws with a fixed public seed are averaged: equal arguments give equal results.

    With a private center, the noise of the mean is added. Clipping counts on average: the
    eigenvalues are scaled such that their sum, the mean squared norm, is at most ``row_norm ** 2``.
    Three effects are not predicted: how clipping turns the directions, how the sample differs from
    its population, and what ``DPTruncatedSVD`` gains if a released mean guides its solver.

    References
    ----------
    .. [1] J. Bun, J.-P. Bouchaud, M. Potters (2017). "Cleaning large correlation matrices: tools
       from random matrix theory". Physics Reports 666. :doi:`10.1016/j.physrep.2016.10.005`
    .. [2] F. Benaych-Georges, R. R. Nadakuditi (2011). "The eigenvalues and eigenvectors of finite,
       low rank perturbations of large random matrices". Advances in Mathematics 227(1).
       :arxiv:`0910.2120`

    Examples
    --------
    Three strong directions among 50 features, in rows of norm 1:

    >>> import numpy as np
    >>> from skdp import DPTruncatedSVD
    >>> from skdp.model_selection import expected_subspace_error
    >>> eigenvalues = np.r_[0.3, 0.2, 0.1, np.full(47, 0.4 / 47)]
    >>> svd = DPTruncatedSVD(n_components=3, epsilon=1.0, row_norm=1.0)
    >>> round(expected_subspace_error(svd, eigenvalues, n_samples=5_000), 2)
    0.06
    """
    if not isinstance(estimator, DPPCA | DPTruncatedSVD):
        raise TypeError(f"estimator must be a DPPCA or a DPTruncatedSVD, got {shown(estimator)}.")
    n_samples = check_scalar(as_python(n_samples), "n_samples", Integral, min_val=1)
    spectrum = _checked_spectrum(eigenvalues)
    n_components = as_python(estimator.n_components)
    if n_components is None:
        n_components = min(n_samples, len(spectrum))
    elif not isinstance(n_components, Integral):
        raise ValueError(
            f"n_components={n_components!r} leaves the number to the fit; pass an int, "
            "whose error is then predicted."
        )
    off_diagonal_std, mean_std = _noise_of(estimator, n_samples, len(spectrum))
    if len(spectrum) == estimator.n_components:
        raise ValueError(
            f"eigenvalues has {len(spectrum)} entries for n_components={n_components}; pass one "
            "for every feature, the small ones too: their number is the number of features."
        )
    if off_diagonal_std == 0 or n_components == len(spectrum):
        return 0.0
    norm_squared = spectrum.sum() + len(spectrum) * mean_std**2
    # Clipping shortens long rows, and with them the noise of the center that was subtracted.
    shrinkage = min(1.0, float(estimator.row_norm or math.inf) ** 2 / max(norm_squared, _TINY))
    # From here on, numbers are in units of the noise std off the diagonal.
    n_in_units = n_samples * shrinkage / off_diagonal_std
    return _mean_sine(n_in_units * spectrum, n_components, n_in_units * mean_std**2)


def _checked_spectrum(eigenvalues: Any) -> np.ndarray:
    """Return the spectrum in descending order; refuse negative or missing eigenvalues."""
    spectrum = check_array(
        eigenvalues, ensure_2d=False, dtype=np.float64, input_name="eigenvalues", copy=True
    )
    if spectrum.ndim != 1:
        raise ValueError(
            f"eigenvalues must be one number a feature, got an array of shape {spectrum.shape}."
        )
    if spectrum.min() < -_ROUNDING * spectrum.max():
        raise ValueError(
            f"eigenvalues holds {spectrum.min()}; those of a covariance are not negative."
        )
    return np.sort(np.maximum(spectrum, 0.0))[::-1]


def _noise_of(
    estimator: DPPCA | DPTruncatedSVD, n_samples: int, n_features: int
) -> tuple[float, float]:
    """Return the noise stds of a plan: off the diagonal of the moment, and of the center.

    Fits that do not release the second moment are refused.
    """
    estimator.plan(n_samples, n_features)  # refuses what `fit` would refuse
    if estimator.privacy_unit not in ("row", "user"):
        raise ValueError(
            f"privacy_unit={estimator.privacy_unit!r}: the error can be predicted for "
            "privacy_unit='row' and 'user' only."
        )
    if estimator.solver not in ("auto", "covariance"):
        raise ValueError(
            f"The error of solver={estimator.solver!r} cannot be predicted. Pass the estimator "
            "with solver='covariance', whose error may serve as a guide."
        )
    released = clone(estimator).set_params(solver="covariance")
    plan = released.plan(n_samples, n_features).parts
    branch = plan.branches.branches[0]
    # If a plan has two means, the last one centers the rows.
    mean = None if plan.center is None else (plan.center, *branch.means)[-1]
    # A plan states the std on the diagonal, which is sqrt(2) times the std off the diagonal.
    off_diagonal_std = _known_std(branch.solver) * math.sqrt(0.5)
    return off_diagonal_std, 0.0 if mean is None else _known_std(mean)


def _known_std(release: Release) -> float:
    """Return the noise std of a release; refuse one that depends on an earlier release."""
    if release.noise_std is None:
        # The release of a bound has the name of the parameter that would replace the release.
        parameter = release.follows.replace(" ", "_")
        raise ValueError(
            f"{parameter}=None leaves the bound to the fit, so that the noise is not known in "
            f"advance; pass a public bound as {parameter}, in the units of X."
        )
    return release.noise_std


def _mean_sine(spectrum: np.ndarray, n_components: int, mean_noise_moment: float) -> float:
    """Average the sine of the largest angle over draws of noise.

    The unit is the std of the noise off the diagonal. The noise of the center adds n times its
    outer product to the second moment; `mean_noise_moment` is the mean of a diagonal entry of this.
    """
    affordable = int(_EFFORT / (len(spectrum) * n_components**2))
    n_draws = max(_FEWEST_DRAWS, min(_MOST_DRAWS, affordable))
    # A fixed public seed makes plans comparable.
    generator = np.random.default_rng(0)
    draws = [
        _draw_sine(spectrum, n_components, mean_noise_moment, generator) for _ in range(n_draws)
    ]
    return float(np.mean(draws))


def _draw_sine(
    spectrum: np.ndarray, n_components: int, moment: float, generator: np.random.Generator
) -> float:
    """Draw the sine of the largest angle once, with the arguments of `_mean_sine`."""
    n_leading = min(n_components + _N_NEIGHBORS, len(spectrum))
    leading, rest = spectrum[:n_leading], spectrum[n_leading:]
    mean_error = generator.normal(size=n_leading)
    if moment > 0 and len(rest):
        # Along the error of the mean, one more direction is simulated exactly.
        leading = np.append(leading, rest.mean())
        mean_error = np.append(mean_error, math.sqrt(len(rest)))
        rest = rest[:-1]
    # Symmetric noise of standard deviation 1 off the diagonal.
    square = generator.normal(size=(len(leading), len(leading)))
    noisy = np.diag(leading) + (square + square.T) * math.sqrt(0.5)
    noisy += moment * np.outer(mean_error, mean_error)
    eigenvalues, vectors = np.linalg.eigh(noisy)
    overlaps = vectors[:n_components, -n_components:]
    gaps = eigenvalues[-n_components:] - rest[:, None]
    # A component whose eigenvalue lies within the spectrum of the rest is lost.
    if np.any(gaps <= 0):
        return 1.0
    # Angles between the noisy components and the remaining directions, to first order.
    turned = generator.normal(size=gaps.shape) / gaps @ overlaps.T
    squared_cosines = np.linalg.eigvalsh(overlaps @ overlaps.T - turned.T @ turned)
    return math.sqrt(1.0 - min(max(squared_cosines[0], 0.0), 1.0))


# ------------------------------
# Tuning on public rows, at the noise level of the private fit.

# Units of estimators whose statistics are sums over rows or users.
_UNITS = ("row", "record", "response", "user")


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
        train, test = ([_safe_indexing(given, part) for given in data] for part in indices)
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
                "searches. On public rows, where a search costs nothing, hand the result to "
                "GridSearchCV."
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
        raise ValueError("Some private steps protect users and others rows: pass one unit to all.")
    return steps


def _epsilon_of_mu(step: Any, mu: float) -> float:
    """Return the epsilon at which a private step spends this mu, rounded down."""
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
