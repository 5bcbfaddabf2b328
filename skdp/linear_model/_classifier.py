"""What private classifiers share: classes, scores, probabilities, and how a fit is asked for."""

import math
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from skdp._estimator import (
    N_JOBS,
    Data,
    PrivateEstimator,
    check_finite_bound,
    check_not_pure,
    in_dtype,
)
from skdp._parameters import ANY_BOUND
from skdp._reading import (
    check_features,
    check_given,
    check_like,
    check_rows,
    check_rows_of,
    refuse_blocks,
)
from skdp.data.digest import digests
from skdp.data.rows import Rows
from skdp.data.sources import as_source, float_dtype, holds_sparse
from skdp.linear_model._logistic.fit import Estimate
from skdp.linear_model._logistic.labels import (
    checked_labels,
    classes_in,
    codes_of,
    given_classes,
    known_codes,
)
from skdp.linear_model._logistic.problem import LogisticProblem
from skdp.linear_model._logistic.records import LabeledRows
from skdp.linear_model._logistic.warnings import warnings_for_size
from skdp.linear_model._responses import checked_weights
from skdp.units._records import ResolvedRecord, ResolvedRecordOfPromisedClasses


class PrivateClassifier(ClassifierMixin, PrivateEstimator):
    """A linear classifier of private records, the classes of which are public."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PrivateEstimator._parameter_constraints,
        **N_JOBS,
        # Checked with the labels of y.
        "classes": "no_validation",
        "privacy_unit": [StrOptions({"record"})],
        "row_norm": [*ANY_BOUND, None],
    }

    classes: Any
    adjacency: str
    epsilon: float
    n_jobs: int | None
    coef_: np.ndarray
    intercept_: np.ndarray
    _most_classes: ClassVar[float] = math.inf
    _kind: ClassVar[type[LogisticProblem]] = LogisticProblem
    _warnings = staticmethod(warnings_for_size)

    def decision_function(self, X: Any) -> np.ndarray:
        """Compute the scores of rows: their products with `coef_`, plus `intercept_`.

        A noise-free function of the rows passed in, which the guarantee does not cover.

        Parameters
        ----------
        X : array-like of shape (n_records, ...)
            Records, in a layout that `fit` takes.

        Returns
        -------
        ndarray of shape (n_records,) or (n_records, n_classes)
            Scores; of two classes those of the second one.
        """
        check_is_fitted(self)
        slopes = self.coef_.reshape(len(self.intercept_), -1)
        scores = np.asarray(self._rows_of(X) @ slopes.T + self.intercept_)
        return scores.ravel() if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Predict the most likely class of rows.

        A noise-free function of the rows passed in, which the guarantee does not cover.

        Parameters
        ----------
        X : array-like of shape (n_records, ...)
            Records, in a layout that `fit` takes.

        Returns
        -------
        ndarray of shape (n_records,)
            Labels.
        """
        found = self._scores(X).argmax(axis=1)
        return np.asarray(self.classes_[found])

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predict the probabilities of all classes.

        A noise-free function of the rows passed in, which the guarantee does not cover.

        Parameters
        ----------
        X : array-like of shape (n_records, ...)
            Records, in a layout that `fit` takes.

        Returns
        -------
        ndarray of shape (n_records, n_classes)
            Probabilities, in the order of `classes_`.
        """
        return np.asarray(softmax(self._scores(X), axis=1))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Predict the logarithms of the probabilities of all classes.

        A noise-free function of the rows passed in, which the guarantee does not cover.

        Parameters
        ----------
        X : array-like of shape (n_records, ...)
            Records, in a layout that `fit` takes.

        Returns
        -------
        ndarray of shape (n_records, n_classes)
            Logarithms, in the order of `classes_`.
        """
        return np.asarray(log_softmax(self._scores(X), axis=1))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the fraction of labels that are predicted.

        A noise-free function of the rows passed in, which the guarantee does not cover.

        Parameters
        ----------
        X : array-like of shape (n_records, ...)
            Records, in a layout that `fit` takes.
        y : array-like of shape (n_records,)
            Labels.
        sample_weight : array-like of shape (n_records,) or None, default=None
            Weights of the records.

        Returns
        -------
        float
            1 at best.
        """
        found, labels = self._scores(X).argmax(axis=1), checked_labels(y)
        check_consistent_length(found, labels)
        weights = checked_weights(sample_weight, len(found))
        is_right = found == known_codes(labels, self.classes_)
        return float(np.average(is_right, weights=weights))

    def _scores(self, X: Any) -> np.ndarray:
        """Return a score for each class."""
        scores = self.decision_function(X)
        return scores if scores.ndim == 2 else np.column_stack([np.zeros_like(scores), scores])

    def _read(self, X: Any) -> tuple[Any, tuple[int, int] | None]:
        """Return rows, and the shape of the matrices that they are, if X is 3-D."""
        refuse_blocks(X, type(self).__name__)
        return X, None

    def _rows_of(self, X: Any) -> Any:
        return check_rows_of(self._read(X)[0], self)

    def _problem(self, X: Any, y: Any) -> tuple[LogisticProblem, Data]:
        rows, given = self._read(X)
        checked = check_rows(rows, type(self).__name__)
        classes, codes = self._classes_and_codes(y)
        check_consistent_length(checked, codes)
        n_records, n_features = checked.shape
        problem = self._problem_of(n_records, n_features, classes, checked, given)
        check_features(rows, self, reset=True)
        source = as_source(checked)
        view = LabeledRows(Rows(source, self.n_jobs), codes)
        numbers = codes.astype(np.float64)
        return problem, (view, lambda: (*digests(source, numbers), problem.labels))

    def _classes_and_codes(self, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Refuse bad labels; return the classes, and the place of each label among them."""
        check_given(y, type(self).__name__)
        labels = checked_labels(y)
        classes = self._known_classes(labels)
        return classes, codes_of(labels, classes)

    def _known_classes(self, labels: np.ndarray | None) -> np.ndarray:
        if labels is None or self.classes is not None:
            classes = given_classes(self.classes)
        else:
            classes = classes_in(labels)
        if len(classes) > self._most_classes:
            raise ValueError(
                f"Only binary classification is supported. {type(self).__name__} takes two "
                f"classes, got {len(classes)}: pass DPLogisticRegression rows of features, or tell "
                "each class apart from all others."
            )
        return classes

    def _problem_like(self, n_samples: int, n_features: int, like: Any) -> LogisticProblem:
        classes = self._known_classes(None)
        rows, given = self._read(like)
        check_like(rows, n_samples, n_features)
        return self._problem_of(n_samples, n_features, classes, rows, given)

    def _problem_of(
        self, n_records: int, n_features: int, classes: np.ndarray, rows: Any, given: Any
    ) -> LogisticProblem:
        check_not_pure(type(self).__name__, self._cost())
        is_promised = self.classes is None
        unit = ResolvedRecordOfPromisedClasses if is_promised else ResolvedRecord
        problem = self._asked(
            self._kind,
            unit=unit(self.adjacency),
            n_units=n_records,
            n_features=n_features,
            labels=tuple(classes.tolist()),
            label_dtype=classes.dtype,
            is_sparse=holds_sparse(rows),
            dtype=float_dtype(rows),
            **self._layout(n_features, given),
        )
        check_finite_bound("row_norm", problem.row_norm, problem.cost)
        return problem

    def _layout(self, n_features: int, given: tuple[int, int] | None) -> dict[str, Any]:
        """Return public facts that not all classifiers have."""
        return {}

    def _set_attributes(self, result: Estimate, problem: LogisticProblem) -> tuple[str, ...]:
        weights = result.weights.T
        if problem.n_classes == 2:
            weights = weights[1:] - weights[:1]
        weights = in_dtype(weights, problem.dtype)
        self.classes_ = np.array(problem.labels, dtype=problem.label_dtype)
        self.coef_, self.intercept_ = weights[:, :-1].copy(), weights[:, -1].copy()
        return result.warnings

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Few records are not enough for a good score.
        tags.classifier_tags.poor_score = bool(self.epsilon < 100)
        return tags
