"""Heads and predictions for users, from the released model and their own rows."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, RegressorMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from skdp._checks import check_features, check_rows_of
from skdp.data.containers import checked_container
from skdp.linalg.norms import row_products
from skdp.linear_model._personal.heads import personal_models
from skdp.linear_model._personal.input import (
    PersonalData,
    check_input,
    check_rows_and_ids,
    check_users,
    kind_of_ids,
)
from skdp.linear_model._personal.model import Prior, SharedModel
from skdp.linear_model._personal_head import PersonalHead
from skdp.linear_model._responses import checked_weights, r2_of
from skdp.privacy.precision import plain


class PersonalModels(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RegressorMixin):
    """Methods of a fitted personal regression: none spends budget, or keeps the rows passed in."""

    __metadata_request__predict = {"groups": True, "support": True}  # noqa: RUF012
    __metadata_request__score = {"groups": True}  # noqa: RUF012

    user_column: int | str | None
    require_groups: bool
    max_rows_per_user: int | None
    n_jobs: int | None
    mean_: np.ndarray
    whitening_: np.ndarray | None
    components_: np.ndarray
    coef_: np.ndarray
    intercept_: float
    prior_variances_: np.ndarray
    intercept_variance_: float
    noise_variance_: float
    prior_mix_: float
    snr_: float

    def head(self, X: Any, y: Any) -> PersonalHead:
        """Fit the model of one user, who may be new; it costs nobody privacy.

        Compute it where the user's rows are, and leave it there.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
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
        if getattr(X, "ndim", 2) != 2:
            raise ValueError(
                f"X must have two dimensions, got shape {X.shape}: reshape one row to (1, -1)."
            )
        self._check_features(X)
        if len(X) == 0:
            return self._head(self.coef_.copy(), self.intercept_)
        data = replace(self._checked(X, y), codes=np.zeros(len(X), np.intp), ids=np.zeros(1))
        (coef,), (intercept,) = self._models(data)
        return self._head(coef, intercept)

    def personalize(self, X: Any, y: Any, groups: Any = None) -> dict[Any, PersonalHead]:
        """Fit the models of many users, as the users would on their own devices.

        Each head is private to one user; all heads together reveal as much as the data. Hand each
        of them to its owner only.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows of all users, laid out as those of the fit.
        y : array-like of shape (n_rows,)
            Responses.
        groups : array-like of shape (n_rows,) or None, default=None
            Ids of the users; None for those in `user_column`.

        Returns
        -------
        dict
            Ids mapped to heads.

        Raises
        ------
        ValueError
            If X, y or groups is not acceptable, or there are no ids of users.
        """
        data = self._checked(X, y, groups)
        if data.ids is None:
            raise ValueError("personalize needs groups, the ids of users, or a user_column.")
        coefs, intercepts = self._models(data)
        heads = map(self._head, coefs, intercepts)
        return dict(zip(data.ids.tolist(), heads, strict=True))

    def predict(self, X: Any, groups: Any = None, support: Any = None) -> np.ndarray:
        """Predict responses by the mean model or, with `support`, by the users' own heads.

        With `support` the result is private to the users whose rows these are. The guarantee covers
        the model, not predictions from rows passed in.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.
        groups : array-like of shape (n_rows,) or None, default=None
            Whose rows these are; None for the ids in `user_column`.
        support : tuple or None, default=None
            Labeled rows to fit the heads of users to: ``(X, y, groups)``, or ``(X, y)`` with a
            `user_column`. The mean model predicts for users without such rows, and for all users
            without `support`.

        Returns
        -------
        ndarray of shape (n_rows,)
            Predictions.

        Raises
        ------
        ValueError
            If an argument is not acceptable, or there are groups but no support.
        """
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
                "With support there must be groups for both X and the support, or a user_column."
            )
        return self._predicted(rows, ids, data, predictions)

    def score(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> float:
        """Compute the coefficient of determination of predictions for users with few known rows.

        The first half of each user's rows, in the order given and rounded down, fits the head that
        predicts the other half. Without ids the mean model predicts all rows.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.
        y : array-like of shape (n_rows,)
            Responses.
        sample_weight : array-like of shape (n_rows,) or None, default=None
            Weights of the rows in the score.
        groups : array-like of shape (n_rows,) or None, default=None
            Whose rows these are; None for the ids in `user_column`.

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
        data = self._checked(X, y, groups)
        if data.ids is None and self.require_groups:
            raise ValueError("require_groups=True, but score got no groups: pass them by name.")
        is_support = _first_halves(data.codes, data.n_users)
        predictions = self._mean_predictions(data.rows)
        if is_support.any():
            coefs, intercepts = self._models(data, is_support)
            personal = row_products(data.rows, coefs[data.codes]) + intercepts[data.codes]
            # Users without rows get a head of NaN.
            predictions = np.where(np.isfinite(personal), personal, predictions)
        rest = ~is_support
        weights = checked_weights(sample_weight, len(rest))
        weights = None if weights is None else weights[rest]
        return r2_of(data.responses[rest], predictions[rest], weights)

    def transform(self, X: Any) -> np.ndarray:
        """Map rows to the representation, in which heads are linear.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
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

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _head(self, coef: np.ndarray, intercept: float) -> PersonalHead:
        names = getattr(self, "feature_names_in_", None)
        return PersonalHead(coef, float(intercept), plain(self.user_column), names)

    def _rows_and_ids(self, X: Any, groups: Any = None) -> tuple[np.ndarray, np.ndarray | None]:
        """Check rows as scikit-learn does; its errors may name values, which the caller knows."""
        check_is_fitted(self)
        if self.user_column is None:
            X = check_rows_of(X, self, accept_sparse=False)
        else:
            self._check_features(X)
        return check_rows_and_ids(X, groups, plain(self.user_column), type(self).__name__)

    def _check_features(self, X: Any) -> None:
        check_is_fitted(self)
        check_features(X, self)

    def _checked(self, X: Any, y: Any, groups: Any = None) -> PersonalData:
        """Check labeled rows."""
        self._check_features(X)
        return check_input(X, y, groups, plain(self.user_column), type(self).__name__)

    def _models(
        self, data: PersonalData, is_used: Any = slice(None)
    ) -> tuple[np.ndarray, np.ndarray]:
        """Fit heads of all users to their rows, or to those marked as used."""
        users = data.users(plain(self.max_rows_per_user), self.n_jobs, is_used)
        # Values that overflow count as 0, without a warning, as in the fit.
        with np.errstate(all="ignore"):
            return personal_models(users, self._shared_model())

    def _mean_predictions(self, rows: np.ndarray) -> np.ndarray:
        return row_products(rows, self.coef_[np.newaxis]) + self.intercept_

    def _predicted(
        self, rows: np.ndarray, ids: np.ndarray, data: PersonalData, predictions: np.ndarray
    ) -> np.ndarray:
        """Replace predictions of rows whose users have a head."""
        assert data.ids is not None
        names, codes = check_users(ids)
        known = data.ids
        if kind_of_ids(names) is not kind_of_ids(known):
            raise ValueError(
                "The ids of X and of the support are of different types: pass integers for both, "
                "or strings."
            )
        if names.dtype.kind != known.dtype.kind:
            # Numpy would compare integers of different types as floats, and take some for equal.
            names, known = names.astype(object), known.astype(object)
        is_known, places = np.isin(names, known), np.full(len(names), -1)
        places[is_known] = np.searchsorted(known, names[is_known])
        owners = places[codes]
        has_head = owners >= 0
        coefs, intercepts = self._models(data)
        personal = row_products(rows[has_head], coefs[owners[has_head]])
        predictions[has_head] = personal + intercepts[owners[has_head]]
        return predictions

    def _shared_model(self) -> SharedModel:
        """Return the released model in the coordinates of whitened rows, as in the fit."""
        basis, mean = self.components_.T.astype(np.float64), self.coef_.astype(np.float64)
        whitening = None
        if self.whitening_ is not None:
            whitening = self.whitening_.astype(np.float64)
            both = np.linalg.solve(whitening, np.column_stack([basis, mean]))
            basis, mean = both[:, :-1].astype(np.float64), both[:, -1].astype(np.float64)
        prior = Prior(
            mean,
            basis,
            self.prior_variances_.astype(np.float64),
            self.intercept_variance_,
            self.noise_variance_,
            self.prior_mix_,
        )
        center = self.mean_.astype(np.float64)
        response_center = self.intercept_ + float(center @ self.coef_)
        return SharedModel(center, response_center, whitening, prior, self.snr_)


def _first_halves(codes: np.ndarray, n_users: int) -> np.ndarray:
    """Mark the first half of the rows of each user, rounded down."""
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=n_users)
    starts = np.cumsum(counts) - counts
    ranks = np.empty(len(codes), dtype=np.intp)
    ranks[order] = np.arange(len(codes)) - np.repeat(starts, counts)
    return np.asarray(ranks < (counts // 2)[codes])
