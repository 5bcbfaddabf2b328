"""The model of one user."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import _get_feature_names

from skdp._checks import redact_errors
from skdp.linalg.norms import row_products
from skdp.linear_model._personal.input import check_rows_and_ids
from skdp.linear_model._responses import r2_of


@dataclass(frozen=True, eq=False, repr=False)
class PersonalHead:  # numpydoc ignore=PR02
    """Linear model of one user, computed from the released model and the user's own rows.

    It is private to that user. Nothing protects the user's rows from those who see the head: leave
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
    tells their owner nothing new, but may reveal the rows to anybody else.

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
        X : array-like of shape (n_rows, n_features)
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
        names, known = redact_errors(_get_feature_names)(X), self.feature_names_in_
        if names is not None and known is not None and not np.array_equal(names, known):
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
        X : array-like of shape (n_rows, n_features)
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
