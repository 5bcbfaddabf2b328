"""Methods that go to the fitted estimator that another one holds."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdp._checks import SeededEstimator, by_chunks, in_parts
from skdp.privacy import PrivacySpent


def _delegates(name: str) -> Callable[[Any], bool]:
    """Make a check whether what is held, or before a fit its pattern, has a method."""

    def _has(holder: Any) -> bool:
        getattr(holder._held(), name)
        return True

    return _has


def _delegated(name: str, does: str) -> Any:
    """Make a method that takes rows, and leaves them to the method of the fitted estimator."""

    def _method(self: Any, X: Any) -> Any:
        return self._applied(name, X)

    _method.__name__, _method.__qualname__ = name, f"DelegatesMixin.{name}"
    _method.__doc__ = f"""{does}, as the fitted estimator does.

        Parameters
        ----------
        X : {{array-like, RowBlocks, dask collection}} of shape (n_samples, n_features)
            Rows, as the `{name}` of the fitted estimator takes them.

        Returns
        -------
        ndarray, or for a RowBlocks or a dask collection what is computed when it is read
            What that returns, which the guarantee does not cover.
        """
    return available_if(_delegates(name))(by_chunks(_method))


class DelegatesMixin(SeededEstimator):
    """Predicts, transforms and scores with a fitted estimator that it holds."""

    privacy_spent_: PrivacySpent

    @abstractmethod
    def _held(self) -> Any:
        """Return the fitted estimator, or before a fit its pattern."""

    @abstractmethod
    def _pattern(self) -> Any:
        """Return what is fitted."""

    predict = _delegated("predict", "Predict")
    predict_proba = _delegated("predict_proba", "Predict probabilities")
    predict_log_proba = _delegated("predict_log_proba", "Predict logarithms of probabilities")
    decision_function = _delegated("decision_function", "Compute the decision function")
    score_samples = _delegated("score_samples", "Score rows")
    transform = _delegated("transform", "Transform rows")
    inverse_transform = _delegated("inverse_transform", "Map transformed rows back")

    @available_if(_delegates("transform"))
    def fit_transform(self, X: Any, y: Any = None, *, users: Any = None) -> Any:
        """Fit, and transform the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to protect.
        y : array-like of shape (n_samples,) or None, default=None
            Their responses.
        users : array-like of shape (n_samples,) or None, default=None
            Whose each row is, where all private steps have ``privacy_unit="user"``.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            The rows transformed, which the guarantee does not cover.
        """
        return self.fit(X, y, users=users).transform(X)

    @available_if(_delegates("get_feature_names_out"))
    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Get the names of the transformed features.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the features of X.

        Returns
        -------
        ndarray of str
            Their names.
        """
        return self._fitted().get_feature_names_out(input_features)

    @available_if(_delegates("score"))
    def score(self, X: Any, y: Any = None) -> float:
        """Score rows with the fitted estimator.

        Parameters
        ----------
        X : {array-like, RowBlocks, dask collection} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,) or None, default=None
            Their responses, for a dask collection in the same chunks; None for rows in parts, which
            bring theirs along.

        Returns
        -------
        float
            What its own `score` returns, which the guarantee does not cover.
        """
        X, y = in_parts(X, y)
        return float(self._applied("score", X, *(() if y is None else (y,))))

    @property
    def classes_(self) -> Any:
        """Class labels of a classifier."""
        return self._fitted().classes_

    def _applied(self, name: str, X: Any, *more: Any) -> Any:
        """Call a method of the fitted estimator."""
        return getattr(self._fitted(), name)(X, *more)

    def _fitted(self) -> Any:
        check_is_fitted(self)
        return self._held()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "privacy_spent_")

    def __sklearn_tags__(self) -> Any:
        return get_tags(self._pattern())
