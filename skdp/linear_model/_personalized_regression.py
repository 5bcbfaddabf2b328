"""Personal linear models on a shared representation: the estimator, and the model of one user."""

import warnings
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import (
    ClassNamePrefixFeaturesOutMixin,
    RegressorMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import (
    _get_feature_names,
    _num_samples,
    check_consistent_length,
    check_is_fitted,
)

from skdp import _validation as checks
from skdp._estimator import Data, PrivateEstimator, in_dtype
from skdp.data.containers import (
    checked_container,
    float_dtype,
    hide_error_text,
    refuse_other_order,
    types_of,
)
from skdp.data.people import check_users, checked_ids, kind_of_ids, places_within
from skdp.data.sources import digests
from skdp.data.users import Users
from skdp.exceptions import shortened
from skdp.linalg.norms import row_products
from skdp.linear_model._supervised import checked_responses, checked_weights, r2_of
from skdp.linear_model.personal import fit as personal_fit
from skdp.linear_model.personal.exponential import plan_exponential, solve_exponential
from skdp.linear_model.personal.plan import PersonalSpec, checked_spec, plan_personal
from skdp.linear_model.personal.start import Prior, SharedModel
from skdp.privacy import Plan
from skdp.privacy.precision import as_python
from skdp.units import ResolvedRow, ResolvedUnit, ResolvedUser


@dataclass(frozen=True, eq=False, repr=False)
class PersonalHead:  # numpydoc ignore=PR02
    """Linear model of one user, computed from the released model and the user's own rows.

    The head is private to that user. Whoever sees the head may learn about the user's rows: leave
    it with its owner. :meth:`skdp.DPPersonalizedRegressor.head` makes heads.

    Parameters
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients, without one for a column of ids.
    intercept_ : float
        Intercept.
    user_column : int, str or None, default=None
        Column of X that holds ids and is left out.
    feature_names_in_ : ndarray of shape (n_columns,) or None, default=None
        Names of the columns of X, if it has names; the X of `predict` must have the same.

    Notes
    -----
    **Privacy.** Unit: none. A head is a noise-free function of the rows that it was fitted to. It
    reveals nothing new to their owner, but may reveal the rows to anybody else.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.linear_model import PersonalHead
    >>> head = PersonalHead(np.array([1.0, 2.0]), 0.5)
    >>> head.predict([[1.0, 1.0]])
    array([3.5])
    """

    coef_: np.ndarray
    intercept_: float
    user_column: int | str | None = None
    feature_names_in_: np.ndarray | None = None

    def __repr__(self) -> str:
        return f"PersonalHead(n_features={len(self.coef_)})"

    def predict(self, X: Any) -> np.ndarray:
        """Predict responses of the owner.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Rows, laid out as those of the fit.

        Returns
        -------
        ndarray of shape (n_rows,)
            Predictions.

        Raises
        ------
        ValueError
            If X is not finite or has other features.
        """
        names, fitted = checks.redact_errors(_get_feature_names)(X), self.feature_names_in_
        if names is not None and fitted is not None and not np.array_equal(names, fitted):
            raise ValueError(
                "X has other columns, or another order of them, than in the fit. Pass the columns "
                "of the fit, in their order."
            )
        rows, _ = check_rows_and_ids(X, None, self.user_column, "PersonalHead")
        if rows.shape[1] != len(self.coef_):
            raise ValueError(
                f"X has {rows.shape[1]} features, but PersonalHead has {len(self.coef_)}."
            )
        return row_products(rows, self.coef_[np.newaxis]) + self.intercept_

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the coefficient of determination of predictions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Rows, laid out as those of the fit.
        y : array-like of shape (n_rows,)
            Responses.
        sample_weight : array-like of shape (n_rows,) or None, default=None
            Weights of the rows.

        Returns
        -------
        float
            1 at best.

        Raises
        ------
        ValueError
            If X or y is not acceptable.
        """
        return r2_of(y, self.predict(X), sample_weight)


# ------------------------------
# Checks of rows, responses and users.

_OF_IDS = (
    "If column {0} holds the ids of users, pass user_column={0!r}, or groups=X[{0!r}] and "
    "X.drop(columns={0!r}). If not, encode it, or leave it out."
)


@dataclass(frozen=True)
class PersonalData:
    """Checked rows and responses, and the user of each row."""

    rows: np.ndarray  # without the column of user ids
    responses: np.ndarray
    codes: np.ndarray  # index of the user of each row
    ids: np.ndarray | None  # of the users, ascending; None if the rows have no ids

    @property
    def n_users(self) -> int:
        """Number of users."""
        return len(self.rows) if self.ids is None else len(self.ids)

    def users(
        self, max_rows_per_user: int | None, n_jobs: int | None, is_used: Any = slice(None)
    ) -> Users:
        """Return batches of users, with copies of the rows that `is_used` marks."""
        rows, responses, codes = self.rows[is_used], self.responses[is_used], self.codes[is_used]
        return Users(rows, responses, codes, self.n_users, max_rows_per_user, n_jobs)


def either_of(groups: Any, users: Any) -> Any:
    """Return the user ids, which are passed as `groups` or as `users`."""
    if groups is not None and users is not None:
        raise ValueError(
            "groups and users are two names of the ids of users, and both were given: pass only "
            "one. With metadata routing, a search hands both on: pass it groups alone."
        )
    return groups if users is None else users


def check_input(X: Any, y: Any, groups: Any, user_column: Any, estimator_name: str) -> PersonalData:
    """Check rows, responses and ids of users; errors show no value."""
    refuse_other_order(X, y=y, groups=groups)
    rows, ids = check_rows_and_ids(X, groups, user_column, estimator_name)
    checks.check_given(y, estimator_name)
    responses = checked_responses(y)
    checks.redact_errors(check_consistent_length)(rows, responses)
    if ids is None:
        return PersonalData(rows, responses, np.arange(len(rows)), None)
    names, codes = check_users(ids)
    return PersonalData(rows, responses, codes, names)


def check_rows_and_ids(
    X: Any, groups: Any, user_column: int | str | None, estimator_name: str
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the checked rows without ids, and the ids, from `groups` or from a column of X."""
    checks.refuse_blocks(X, estimator_name)
    for name, kind in types_of(X):
        # The error shows no other name of a column.
        is_of_users = type(name) is str and "user" in name.lower()
        if kind and is_of_users and groups is user_column is None:
            raise ValueError(_OF_IDS.format(name))
    given, ids = (None if groups is None else checked_ids(groups, "groups")), None
    if issparse(X) and user_column is None:
        # Users are padded to equal numbers of rows, and centered: both need dense rows.
        rows = checks.check_rows(X, estimator_name).toarray()
    else:
        # `check_numbers` refuses sparse rows.
        if user_column is not None and not issparse(X):
            X, ids = _split(X, user_column)
        settings = {"dtype": checks.INPUT["dtype"], "estimator": estimator_name}
        rows = checks.check_numbers(X, "X", **settings)
    if given is not None:
        if len(given) != len(rows):
            raise ValueError(
                f"groups has {len(given)} ids, but X has {len(rows)} rows: pass one for each row."
            )
        if ids is not None and not np.array_equal(check_users(ids)[1], check_users(given)[1]):
            raise ValueError(
                f"groups are other ids than those of user_column={user_column!r}: pass only one of "
                "them."
            )
        ids = given
    return rows, ids


def _split(X: Any, user_column: int | str) -> tuple[Any, np.ndarray]:
    """Return X without its column of ids, and the ids; X may be a frame that holds strings."""
    X = checked_container(X)
    if not hasattr(X, "shape"):
        # With another dtype, NumPy would turn a missing id among strings into the id "nan".
        X = hide_error_text(np.asarray, X, dtype=object)
    if len(X.shape) != 2:
        raise ValueError(f"X must have two dimensions to have a user_column, got shape {X.shape}.")
    n_columns, names = X.shape[1], list(getattr(X, "columns", ()))
    if isinstance(user_column, str):
        if names.count(user_column) != 1:
            cure = "X has no names, so pass the place of the column."
            if names:
                cure = f"Pass one of {shortened([*map(str, names)])}."
            raise ValueError(f"user_column={user_column!r} is no column of X. {cure}")
        user_column = names.index(user_column)
    if not -n_columns <= user_column < n_columns:
        raise ValueError(
            f"user_column={user_column} must be a column of X, from {-n_columns} to "
            f"{n_columns - 1}."
        )
    place = int(user_column) % n_columns
    others = [column for column in range(n_columns) if column != place]
    rows, ids = (hide_error_text(_safe_indexing, X, part, axis=1) for part in (others, place))
    return rows, checked_ids(ids, "user_column")


def _places_among(names: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return the index of each id among `names`, the ids of users with support, or -1."""
    others, codes = check_users(ids)
    if kind_of_ids(others) != kind_of_ids(names):
        raise ValueError(
            "The ids of X and of the support are of different types: pass integers for both, or "
            "strings."
        )
    # Python compares the ids: NumPy would compare different integer types as floats, which may be
    # equal for different ids.
    places = {name: place for place, name in enumerate(names.tolist())}
    return np.array([places.get(other, -1) for other in others.tolist()], dtype=np.intp)[codes]


# ------------------------------
# The estimator.

_SCORE_OF_THE_MEAN = (
    "This is a score of the mean model, not of the models of users: score got no ids of users, or "
    "a single row of each. Pass groups, or users, with two or more rows of each user; to "
    "cross_val_score and searches by metadata routing, or pass user_column."
)


@checks.with_parameters
class DPPersonalizedRegressor(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, RegressorMixin, PrivateEstimator
):  # numpydoc ignore=PR02
    r"""Linear models of many users on a shared representation, with user-level privacy.

    Each user has a few labeled rows and a model of its own, :math:`y = x^T \theta_j + b_j` plus
    noise. The :math:`\theta_j` differ in few directions, which all users share. `fit` releases
    these directions and a mean model, and protects all rows of a user together. A user's own model,
    its head, follows from the release and the user's rows; only its owner may see it.

    Parameters
    ----------
    n_components : int, default=2
        Number of directions in which users differ, at most the number of features. 0 is a mean
        model alone, a pooled linear regression; it needs `mean_head`.
    epsilon : float, default=1.0
        Privacy budget of one fit, dimensionless, ``0 < epsilon <= inf``. Smaller is more private;
        ``inf`` switches the noise and the clipping off.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 <= delta < 1``, well below one over the
        number of users. 0 is pure differential privacy, for ``solver="exponential"`` only.
    adjacency : {"replace", "zero_out"}, default="replace"
        Neighboring datasets differ by exchanging all rows of one user for any others, or by one
        user who is null and contributes to nothing, which takes less noise and promises less:
        :doc:`/user_guide/what_is_protected`.
    user_column : int, str or None, default=None
        Column of X that holds the ids of the users, numbers or strings: its place, or its name in a
        data frame. It is not a feature, but `n_features_in_` counts it. ``None`` takes the ids from
        the argument `groups`, or `users`, of the methods.
    require_groups : bool, default=False
        Whether a fit without ids is an error. Otherwise every row is a user of its own, with a
        `PrivacyWarning`, and the unit of the record is ``"row"``. A `DPPipeline` needs True.
    max_rows_per_user : int or None, default=None
        Largest number of rows of a user that are used, the first ones; ``None`` uses all. The
        guarantee does not depend on it.
    fit_intercept : bool, default=True
        Whether to center rows and responses, and to give heads an intercept, whose prior variance
        follows how far users' levels differ.
    mean_head : bool, default=True
        Whether to release the mean model of all users, from which heads start. Without it heads
        start from 0, in the coordinates of centered rows and responses.
    decorrelate : bool, default=True
        Whether to make features uncorrelated by a released second moment. False saves .15 of the
        budget, .4 with ``n_components=0``, and is right for uncorrelated features of variance 1.
    solver : {"gradient", "altmin", "exponential"}, default="gradient"
        How to fit the directions. ``"gradient"`` releases gradients, of n_features * n_components
        numbers. ``"altmin"`` releases the normal equations of as many unknowns, 500 at most; it
        needs many more users. ``"exponential"`` chooses one of 1000 random representations, of 8
        numbers at most, without `fit_intercept`, `mean_head` and `decorrelate`.
    n_iter : int, default=4
        For "gradient" and "altmin": number of steps, 0 to 100. 0 leaves all budget to the start.
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
    components_ : ndarray of shape (n_components, n_features)
        Directions in which users differ, for centered rows in their own units: the transpose of
        the whitening times an orthonormal basis. Without a column of ids. Covered by the guarantee.
    whitening_ : ndarray of shape (n_features, n_features) or None
        Symmetric matrix that decorrelates centered rows. Covered by the guarantee.
    mean_ : ndarray of shape (n_features,)
        Center of the rows; 0 if hidden by noise, or not fitted. Covered by the guarantee.
    coef_ : ndarray of shape (n_features,)
        Coefficients of the mean model; 0 if noise hides them. Covered by the guarantee.
    intercept_ : float
        Intercept of the mean model. Covered by the guarantee.
    prior_variances_ : ndarray of shape (n_components,)
        Variances of the users' coordinates along the components. Covered by the guarantee.
    intercept_variance_ : float
        Prior variance of a user's intercept; 0 if there is none. Covered by the guarantee.
    noise_variance_ : float
        Variance of the noise of a response: the penalty of heads. Covered by the guarantee.
    prior_mix_ : float
        Share of the prior variance that is spread evenly over all directions: 0, .03, .1, .3 or 1,
        which is ridge regression. Covered by the guarantee.
    snr_ : float
        Signal of the weakest component, in units of the largest eigenvalue of the noise; 0 with
        ``n_components=0`` and "exponential". Covered by the guarantee.
    privacy_spent_ : PrivacySpent
        Record of every release; its unit is ``"user"``, or ``"row"`` if there were no ids. Public.
    n_features_in_ : int
        Number of columns of X, including one of ids. Public.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if X has names that are strings. Public.

    See Also
    --------
    PersonalHead : The model of one user.
    DPTraceRegressor : One model for all, with privacy for each row.
    sklearn.linear_model.Ridge : The model that a user can fit alone.

    Notes
    -----
    **Privacy.** Unit: a user with all rows and responses, however many and whatever these are; a
    single row if there are no ids. Adjacency: `adjacency`. Mechanism: Gaussian, with "exponential"
    the exponential one, accounted for exactly in Gaussian differential privacy. Released: searches
    for norms, medians and numbers of rows, a center, the second moments of the features and of each
    user's products of rows and responses, the mean of these products, the sums of gradients or
    normal equations, and votes; each user is clipped as a whole. `plan` lists every release before
    a fit, `privacy_spent_` afterwards. A head is computed from these releases and its owner's rows,
    which gives *joint* differential privacy: all that the other users get together has nearly the
    same distribution, whatever one user's rows are. Assumed public: the numbers of users and
    features, names and dtype of X, and parameters; not the ids, nor how many rows a user has. NaN
    and infinity are refused, which reveals that there are none. Not covered: heads; what `head`,
    `personalize`, `predict` (with `support` or without), `score` and `transform` return, noise-free
    functions of the rows passed in; and the running time. No assumption about the data is made.

    The model, the start from an outer product, "altmin" and the joint guarantee are those of Jain,
    Rush, Smith, Song and Guha Thakurta (NeurIPS 2021), with other releases and other clipping.
    :doc:`/personalization` has proofs, what differs and why, and references;
    :doc:`/user_guide/personal_models` shows how to use it, and how searches lose `groups`.

    Memory is a dense copy in float64, padded by at most a quarter. A fit with all releases reads it
    ``n_iter + 12`` times, "altmin" once more, "exponential" 3 times, the mean model 6 times; with
    ``epsilon=inf`` steps go on until they converge. "altmin" stores ``n_unknowns**2``.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPPersonalizedRegressor
    >>> rng = np.random.default_rng(0)
    >>> basis = np.linalg.qr(rng.normal(size=(10, 2)))[0]
    >>> groups = np.repeat(np.arange(2000), 8)  # 2000 users with 8 rows each
    >>> coefs = rng.normal(size=(2000, 2)) @ basis.T
    >>> X = rng.normal(size=(16000, 10))
    >>> y = (X * coefs[groups]).sum(axis=1) + 0.3 * rng.normal(size=16000)
    >>> model = DPPersonalizedRegressor(n_components=2, epsilon=2.0).fit(X, y, groups)
    >>> model.components_.shape, model.privacy_spent_.unit
    ((2, 10), 'user')

    A new user with 8 rows, who was not in the fit and costs nobody privacy:

    >>> own = basis @ [1.0, -1.0]
    >>> X_own = rng.normal(size=(8, 10))
    >>> head = model.head(X_own, X_own @ own)
    >>> bool(np.linalg.norm(head.coef_ - own) < 0.3 * np.linalg.norm(own))
    True
    """

    __metadata_request__fit = {"groups": True, "users": True}  # noqa: RUF012
    __metadata_request__predict = {"groups": True, "users": True, "support": True}  # noqa: RUF012
    __metadata_request__score = {"groups": True, "users": True}  # noqa: RUF012

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PrivateEstimator._parameter_constraints,
        "n_components": [Interval(Integral, 0, None, closed="left")],
        "user_column": [Integral, str, None],
        "require_groups": ["boolean"],
        "fit_intercept": ["boolean"],
        "mean_head": ["boolean"],
        "decorrelate": ["boolean"],
        "solver": [StrOptions({"gradient", "altmin", "exponential"})],
        "n_iter": [Interval(Integral, 0, 100, closed="both")],
        "max_rows_per_user": [checks.AT_LEAST_ONE, None],
    }

    _warnings = staticmethod(personal_fit.warnings_for_users)

    n_components: int = 2
    _: KW_ONLY
    epsilon: float = 1.0
    delta: float = 1e-6
    adjacency: str = "replace"
    user_column: int | str | None = None
    require_groups: bool = False
    max_rows_per_user: int | None = None
    fit_intercept: bool = True
    mean_head: bool = True
    decorrelate: bool = True
    solver: str = "gradient"
    n_iter: int = 4
    ledger: Any = None
    n_jobs: int | None = None
    random_state: Any = None

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, groups: Any = None, *, users: Any = None) -> Self:
        """Fit the shared representation and mean model, spending the whole budget.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Rows of all users.
        y : array-like of shape (n_rows,)
            Responses.
        groups : array-like of shape (n_rows,) or None, default=None
            Whose rows these are: ids of the users, numbers or strings. None takes them from
            `user_column`; without that, every row is a user of its own, with a warning.
        users : array-like of shape (n_rows,) or None, default=None
            Another name of `groups`: pass one of them. Without metadata routing a search of
            scikit-learn hands `groups` to the splitter only: every row is a user then, heads learn
            nothing, and scores are near 0. This name reaches the fit, as in ``cross_val_score(
            model, X, y, groups=ids, params={"users": ids})``, which scores the mean model.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        ValueError
            If X, y, groups or a parameter is not acceptable; nothing has been spent then.
        """
        return self._fit(X, y, users=either_of(groups, users))

    # An own docstring, as `n_samples` counts users, not rows, here.
    def plan(self, n_samples: int, n_features: int, *, like: Any = None) -> Plan:  # type: ignore
        """List the releases of a fit and their cost, from public facts: nothing is read or spent.

        Parameters
        ----------
        n_samples : int
            Number of **users**, not of rows: how many rows they have is private.
        n_features : int
            Number of columns of the X to come, including a `user_column`.
        like : object or None, default=None
            An X like the future one. Nothing in this plan depends on it.

        Returns
        -------
        Plan
            All releases of a fit with ids of users, in order. A fit without ids has the same
            releases for as many users as rows, and the unit of its record is ``"row"``.

        Raises
        ------
        TypeError
            If `fit` would not take `like`.
        ValueError
            If a parameter is not acceptable, as in `fit`.
        """
        return super().plan(n_samples, n_features, like=like)

    # The methods below spend no budget and store no rows.

    def head(self, X: Any, y: Any) -> PersonalHead:
        """Fit the model of one user, who may be new; this costs nobody privacy.

        Compute the head where the user's rows are, and leave it there.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Rows of the user, laid out as those of the fit; there may be none.
        y : array-like of shape (n_rows,)
            Their responses.

        Returns
        -------
        PersonalHead
            The user's model, private to the user.

        Raises
        ------
        ValueError
            If X or y is not acceptable.
        """
        X = checked_container(X)
        self._check_features(X)
        if _num_samples(X) == 0:
            return self._head(self.coef_.copy(), self.intercept_)
        data = self._checked(X, y)
        # All rows are those of user 0, the only one.
        data = replace(data, codes=np.zeros(len(data.rows), np.intp), ids=np.zeros(1))
        (coef,), (intercept,) = self._models(data)
        return self._head(coef, intercept)

    def personalize(
        self, X: Any, y: Any, groups: Any = None, *, users: Any = None
    ) -> dict[Any, PersonalHead]:
        """Fit the models of many users, as the users would on their own devices.

        Each head is private to one user; all heads together reveal as much as the data. Give each
        head to its owner only.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Rows of all users, laid out as those of the fit.
        y : array-like of shape (n_rows,)
            Responses.
        groups : array-like of shape (n_rows,) or None, default=None
            Ids of the users; None for those in `user_column`.
        users : array-like of shape (n_rows,) or None, default=None
            Another name of `groups`: pass one of them.

        Returns
        -------
        dict
            Ids mapped to heads.

        Raises
        ------
        ValueError
            If X, y or groups is not acceptable, or there are no ids of users.
        """
        data = self._checked(X, y, either_of(groups, users))
        if data.ids is None:
            raise ValueError("personalize needs groups, the ids of users, or a user_column.")
        coefs, intercepts = self._models(data)
        heads = map(self._head, coefs, intercepts)
        return dict(zip(data.ids.tolist(), heads, strict=True))

    def predict(
        self, X: Any, groups: Any = None, support: Any = None, *, users: Any = None
    ) -> np.ndarray:
        """Predict by the mean model or, from labeled rows in `support`, by the users' own models.

        With `support` the result is private to the users whose rows these are. The guarantee covers
        the model, not predictions from rows passed in.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Rows.
        groups : array-like of shape (n_rows,) or None, default=None
            Whose rows these are; None for the ids in `user_column`.
        support : tuple or None, default=None
            Labeled rows to fit the heads of users to: ``(X, y, groups)``, or ``(X, y)`` with a
            `user_column`. The mean model predicts for users without such rows, and for all users
            without `support`.
        users : array-like of shape (n_rows,) or None, default=None
            Another name of `groups`: pass one of them.

        Returns
        -------
        ndarray of shape (n_rows,)
            Predictions.

        Raises
        ------
        ValueError
            If an argument is not acceptable, or there are groups but no support.
        """
        groups = either_of(groups, users)
        rows, ids = self._rows_and_ids(X, groups)
        predictions = self._mean_predictions(rows)
        if support is None:
            if groups is not None:
                raise ValueError(
                    "predict got groups and no support. Pass support=(X, y, groups), labeled rows "
                    "of these users, or no groups, for predictions of the mean model."
                )
            return predictions
        if not isinstance(support, tuple | list) or len(support) not in (2, 3):
            raise ValueError(
                "support must be a tuple (X, y, groups), or (X, y) with a user_column."
            )
        data = self._checked(*support)
        if ids is None or data.ids is None:
            raise ValueError(
                "With support, pass groups for both X and the support, or fit with a user_column."
            )
        owners = _places_among(data.ids, ids)
        has_head = owners >= 0
        coefs, intercepts = self._models(data)
        personal = row_products(rows[has_head], coefs[owners[has_head]])
        predictions[has_head] = personal + intercepts[owners[has_head]]
        return predictions

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, *, users: Any = None
    ) -> float:
        """Compute the coefficient of determination of predictions for users with few known rows.

        The first half of each user's rows, in the order given and rounded down, fits the head that
        predicts the other half. Without ids the mean model predicts all rows, with a warning if
        the fit had ids.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Rows.
        y : array-like of shape (n_rows,)
            Responses.
        sample_weight : array-like of shape (n_rows,) or None, default=None
            Weights of the rows in the score.
        groups : array-like of shape (n_rows,) or None, default=None
            Whose rows these are; None for the ids in `user_column`.
        users : array-like of shape (n_rows,) or None, default=None
            Another name of `groups`: pass one of them.

        Returns
        -------
        float
            1 at best; 0 for the mean of the predicted responses. A noise-free function of the rows
            passed in, which the guarantee does not cover.

        Raises
        ------
        ValueError
            If an argument is not acceptable.
        """
        data = self._checked(X, y, either_of(groups, users))
        if data.ids is None and self.require_groups:
            raise ValueError(
                "require_groups=True, but score got no groups: pass them by name, as users=ids of "
                "a DPPipeline. A search passes them with metadata routing only: without it, its "
                "scoring='r2' scores the mean model."
            )
        halves = np.bincount(data.codes, minlength=data.n_users) // 2
        is_support = places_within(data.codes, data.n_users) < halves[data.codes]
        predictions = self._mean_predictions(data.rows)
        if is_support.any():
            coefs, intercepts = self._models(data, is_support)
            personal = row_products(data.rows, coefs[data.codes]) + intercepts[data.codes]
            # The mean model predicts for users without known rows, whose coefficients are NaN.
            predictions = np.where(np.isfinite(personal), personal, predictions)
        elif len(self.components_) and self.privacy_spent_.unit == "user":
            warnings.warn(_SCORE_OF_THE_MEAN, stacklevel=2)
        rest = ~is_support
        weights = checked_weights(sample_weight, len(rest))
        weights = None if weights is None else weights[rest]
        return r2_of(data.responses[rest], predictions[rest], weights)

    def transform(self, X: Any) -> np.ndarray:
        """Map rows to the shared representation: products with its components.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Rows, laid out as those of the fit.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
            Centered rows times the components.

        Raises
        ------
        ValueError
            If X is not acceptable.
        """
        rows, _ = self._rows_and_ids(X)
        return np.asarray((rows - self.mean_) @ self.components_.T)

    def _validate(self, X: Any, y: Any, users: Any = None) -> tuple[PersonalSpec, Data]:
        data = check_input(X, y, users, as_python(self.user_column), type(self).__name__)
        if data.ids is None and self.require_groups:
            raise ValueError(
                "require_groups=True, but there are no ids of users: pass groups to fit, an id for "
                "each row, or user_column, the column of X with the ids. Pass users=... to a "
                "search, as groups needs metadata routing, and step__users=... to a Pipeline."
            )
        unit = ResolvedRow if data.ids is None else ResolvedUser
        spec = self._spec_of(unit, data.n_users, data.rows.shape[1], data.rows.dtype)
        checks.check_features(X, self, reset=True)
        view = data.users(spec.max_rows_per_user, self.n_jobs)
        hashed = data.rows, data.responses, data.codes.astype(np.float64)
        return spec, (view, partial(digests, *hashed))

    def _expected_passes(self, X: Any, users: Any = None) -> None:
        """Do not tell callbacks the number of passes, which depends on private numbers of rows."""

    def _spec_like(self, n_samples: int, n_features: int, like: Any) -> PersonalSpec:
        width = n_features - (self.user_column is not None)
        return self._spec_of(ResolvedUser, n_samples, width, float_dtype(like))

    def _spec_of(
        self, unit: type[ResolvedUnit], n_units: int, n_features: int, dtype: np.dtype
    ) -> PersonalSpec:
        facts = {"n_units": n_units, "n_features": n_features, "dtype": dtype}
        return checked_spec(self._asked(PersonalSpec, unit=unit(self.adjacency), **facts))

    def _plan(self, spec: PersonalSpec) -> Any:
        return (plan_exponential if spec.solver == "exponential" else plan_personal)(spec)

    def _solve(self, spec: PersonalSpec, plan: Any, *opened: Any) -> SharedModel:
        solve = solve_exponential if spec.solver == "exponential" else personal_fit.solve_personal
        return solve(spec, plan, *opened)

    def _set_attributes(self, result: SharedModel, spec: PersonalSpec) -> tuple[str, ...]:
        dtype, prior = spec.dtype, result.prior
        basis, coef = prior.basis, prior.mean
        if result.whitening is not None:
            basis, coef = result.whitening @ basis, result.whitening @ coef
        self.whitening_ = in_dtype(result.whitening, dtype)
        self.mean_ = in_dtype(result.center, dtype)
        self.components_ = in_dtype(basis.T, dtype)
        self.coef_ = in_dtype(coef, dtype)
        self.intercept_ = float(result.response_center - coef @ result.center)
        self.prior_variances_ = in_dtype(prior.variances, dtype)
        self.intercept_variance_ = float(prior.intercept_variance)
        self.noise_variance_ = float(prior.noise_variance)
        self.prior_mix_ = float(prior.mix)
        self.snr_ = float(result.snr)
        return tuple(personal_fit.warnings_for_model(result, spec))

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _head(self, coef: np.ndarray, intercept: float) -> PersonalHead:
        names = getattr(self, "feature_names_in_", None)
        return PersonalHead(coef, float(intercept), as_python(self.user_column), names)

    def _rows_and_ids(self, X: Any, groups: Any = None) -> tuple[np.ndarray, np.ndarray | None]:
        """Check rows and ids for methods of a fitted model."""
        if self.user_column is None:
            # scikit-learn's checks expect scikit-learn's errors, such as that about 1-D input.
            X = checks.check_rows_of(X, self)
        else:
            self._check_features(X)
        return check_rows_and_ids(X, groups, as_python(self.user_column), type(self).__name__)

    def _check_features(self, X: Any) -> None:
        check_is_fitted(self)
        checks.check_features(X, self)

    def _checked(self, X: Any, y: Any, groups: Any = None) -> PersonalData:
        """Check rows with their responses and ids."""
        self._check_features(X)
        return check_input(X, y, groups, as_python(self.user_column), type(self).__name__)

    def _models(
        self, data: PersonalData, is_used: Any = slice(None)
    ) -> tuple[np.ndarray, np.ndarray]:
        """Fit a head for each user, to all rows or to the rows that `is_used` marks."""
        users = data.users(as_python(self.max_rows_per_user), self.n_jobs, is_used)
        # Values that overflow count as 0, as in the fit, and give no warning.
        with np.errstate(all="ignore"):
            return personal_fit.personal_models(users, self._shared_model())

    def _mean_predictions(self, rows: np.ndarray) -> np.ndarray:
        return row_products(rows, self.coef_[np.newaxis]) + self.intercept_

    def _shared_model(self) -> SharedModel:
        """Return the released model, for whitened rows as in the fit."""
        released = self.components_.T, self.coef_, self.prior_variances_, self.mean_
        basis, mean, variances, center = (each.astype(np.float64) for each in released)
        whitening = None
        if self.whitening_ is not None:
            whitening = self.whitening_.astype(np.float64)
            unwhitened = np.linalg.solve(whitening, np.column_stack([basis, mean]))
            basis, mean = unwhitened[:, :-1].copy(), unwhitened[:, -1].copy()
        noise = self.intercept_variance_, self.noise_variance_, self.prior_mix_
        prior = Prior(mean, basis, variances, *noise)
        response_center = self.intercept_ + float(center @ self.coef_)
        return SharedModel(center, response_center, whitening, prior, self.snr_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # scikit-learn's checks fit few records, too few for a good score.
        tags.regressor_tags.poor_score = bool(self.epsilon < 100)
        tags.input_tags.sparse = self.user_column is None
        return tags
