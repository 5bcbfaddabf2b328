"""Methods that a fitted search passes on to the estimator that it has chosen."""

from collections.abc import Callable
from typing import Any

from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skdp._parameters import SeededEstimator

__all__ = ["DelegatesToBestMixin"]


def _delegates(name: str) -> Callable[[Any], bool]:
    """Make a check whether the chosen estimator, or before a fit the searched one, has a method."""

    def _has(search: Any) -> bool:
        if not search.refit:
            raise AttributeError(
                f"{type(search).__name__} with refit=False keeps no estimator, so it has no {name}."
            )
        getattr(getattr(search, "best_estimator_", search.estimator), name)
        return True

    return _has


class DelegatesToBestMixin(SeededEstimator):
    """Predicts, transforms and scores with `best_estimator_`."""

    estimator: Any
    refit: bool
    best_estimator_: Any

    @available_if(_delegates("predict"))
    def predict(self, X: Any) -> Any:
        """Predict with the chosen estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            What its `predict` returns, which the guarantee does not cover.
        """
        return self._best().predict(X)

    @available_if(_delegates("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Predict probabilities with the chosen estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            What its `predict_proba` returns, which the guarantee does not cover.
        """
        return self._best().predict_proba(X)

    @available_if(_delegates("predict_log_proba"))
    def predict_log_proba(self, X: Any) -> Any:
        """Predict logarithms of probabilities with the chosen estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            What its `predict_log_proba` returns, which the guarantee does not cover.
        """
        return self._best().predict_log_proba(X)

    @available_if(_delegates("decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Compute the decision function of the chosen estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            What its `decision_function` returns, which the guarantee does not cover.
        """
        return self._best().decision_function(X)

    @available_if(_delegates("score_samples"))
    def score_samples(self, X: Any) -> Any:
        """Score rows with the chosen estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            What its `score_samples` returns, which the guarantee does not cover.
        """
        return self._best().score_samples(X)

    @available_if(_delegates("transform"))
    def transform(self, X: Any) -> Any:
        """Transform rows with the chosen estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            What its `transform` returns, which the guarantee does not cover.
        """
        return self._best().transform(X)

    @available_if(_delegates("transform"))
    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit the search, and transform the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to protect.
        y : array-like of shape (n_samples,) or None, default=None
            Their responses.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            The rows transformed, which the guarantee does not cover.
        """
        return self.fit(X, y).transform(X)

    @available_if(_delegates("inverse_transform"))
    def inverse_transform(self, X: Any) -> Any:
        """Map rows back with the chosen estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Rows as `transform` returns them.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Rows as `transform` takes them.
        """
        return self._best().inverse_transform(X)

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
        return self._best().get_feature_names_out(input_features)

    @available_if(_delegates("score"))
    def score(self, X: Any, y: Any = None) -> float:
        """Score rows with the chosen estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,) or None, default=None
            Their responses.

        Returns
        -------
        float
            What its `score` returns, which does not depend on `scoring`. The guarantee does not
            cover it.
        """
        return float(self._best().score(X) if y is None else self._best().score(X, y))

    @property
    def classes_(self) -> Any:
        """Class labels of a classifier."""
        return self._best().classes_

    @property
    def best_score_(self) -> float:
        """Raise an error, because no score is released."""
        raise AttributeError(
            f"{type(self).__name__} has no best_score_: no score is released. "
            "skdp.model_selection.private_score releases one, on rows that no fit has used."
        )

    def _best(self) -> Any:
        check_is_fitted(self)
        return self.best_estimator_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_index_")

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = inner.classifier_tags
        tags.regressor_tags = inner.regressor_tags
        tags.transformer_tags = inner.transformer_tags
        tags.target_tags = inner.target_tags
        tags.input_tags = inner.input_tags
        return tags
