"""Logistic regression of private records."""

from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from skdp._estimator import N_JOBS, Data, PrivateEstimator, in_dtype
from skdp._reading import check_features, check_rows, check_rows_of
from skdp.data.digest import digest
from skdp.data.rows import Rows
from skdp.data.sources import RowBlocks, Source, as_source, holds_sparse
from skdp.linear_model._logistic.fit import Estimate, solve_logistic
from skdp.linear_model._logistic.labels import (
    checked_classes,
    checked_labels,
    classes_in,
    codes_of,
    known_codes,
)
from skdp.linear_model._logistic.plan import plan_logistic
from skdp.linear_model._logistic.problem import (
    LOGISTIC_CONSTRAINTS,
    LogisticProblem,
    checked_problem,
    resolved_unit,
)
from skdp.linear_model._logistic.records import LabeledRows
from skdp.linear_model._logistic.warnings import warnings_for_size
from skdp.linear_model._responses import checked_weights

__all__ = ["DPLogisticRegression"]


class DPLogisticRegression(ClassifierMixin, PrivateEstimator):
    r"""Logistic regression with differential privacy, of two classes or more.

    A fit clips the rows, releases their second moment together with their classes, whitens the rows
    by it, and takes gradient steps from there. Nothing has to be tuned.

    Parameters
    ----------
    classes : array-like or None, default=None
        All labels that there may be, two or more: which of them occur is then protected, and a
        class without records is fine. ``None`` takes the labels of y, which makes it public which
        labels occur, and warns of that.
    epsilon : float, default=1.0
        Privacy budget of one fit, dimensionless, ``0 < epsilon <= inf``. Smaller is more private;
        ``inf`` switches the noise and the clipping off.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 < delta < 1``, well below one over the
        number of units.
    privacy_unit : {"record"}, default="record"
        What is protected: one record, that is a row with its label.
    adjacency : {"replace", "zero_out"}, default="replace"
        Neighboring datasets differ by exchanging one unit for any other, or by one that is null,
        which takes less noise and promises less: :doc:`/user_guide/what_is_protected`.
    row_norm : float or None, default=None
        Public bound to which the Euclidean norms of rows are clipped, in the units of X; the noise
        grows with it. ``None`` releases their median, or, of few records, takes the rows to be
        standardized. From 1e-100 to 1e100, or ``inf`` with ``epsilon=inf``.
    ledger : PrivacyLedger or None, default=None
        Where the whole cost of a fit is charged before its first release. ``None`` keeps no ledger.
    n_jobs : int or None, default=None
        Threads that share the data; no number depends on it. ``None``: those of matrix products.
    random_state : int, RandomState or Generator instance or None, default=None
        ``None`` takes fresh noise in every fit, as the guarantee assumes. A secret int, such as
        ``secrets.randbits(128)``, repeats a fit in the same container on the same kind of machine;
        one that can be guessed voids the guarantee.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels of the classes, sorted. Public: given, or promised to be.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients, of two classes those of the second one. They have the direction of those of a
        logistic regression, but not quite their size. Covered by the guarantee.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts. Covered by the guarantee.
    privacy_spent_ : PrivacySpent
        Record of every release. Public.
    n_features_in_ : int
        Number of features. Public.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X has names that are strings. Public.

    See Also
    --------
    sklearn.linear_model.LogisticRegression : The same without privacy.
    DPTraceRegressor : Regression with coefficients of low rank.

    Notes
    -----
    **Privacy.** Unit: a record, that is a row with its label. Adjacency: `adjacency`. Mechanisms:
    Gaussian, and exponential for the median of the norms, accounted for in Gaussian differential
    privacy. Released: that median, unless `row_norm` is given or the records are few; the second
    moment of clipped rows, a constant and the classes; and in each step the sum of the gradients,
    each clipped in norm. `plan` lists every release before a fit, `privacy_spent_` afterwards.
    Assumed public: the number of records, the shape, dtype and container of X, feature names, the
    classes, and parameters. That the classes are public is promised by the caller if they are
    taken from y, and ``privacy_spent_.enforced`` is then False. NaN, infinity and labels that are
    not among the classes are refused, which tells that there are none. Not covered: what `predict`
    and its like and `score` return, noise-free functions of the rows passed in; and the running
    time. No assumption about the data is made.

    Clipping makes the coefficients of strongly different classes larger than those of a logistic
    regression, about 1.3 times on data that follow the model. Where noise is known to make up much
    of them they are drawn to 0, and probabilities to the frequencies of the classes. If a fold of a
    cross-validation may lack a class, pass `classes`, and ``labels=`` to scores such as the log
    loss.

    After the check, and a digest if there is a seed, a fit reads X for the norms of the rows, for
    the moment, for the norms of whitened rows, and in every step, of which public facts make 8 to
    40. Time is O(n d^2) once and O(n d K) a step, memory O((d + K)^2); sparse rows stay sparse.

    With ``epsilon=inf`` the coefficients are those of scikit-learn without a penalty; `row_norm`
    still clips rows if it is finite.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from skdp import DPLogisticRegression
    >>> X, y = make_classification(20000, 5, random_state=0)
    >>> model = DPLogisticRegression(classes=[0, 1], epsilon=1.0).fit(X, y)
    >>> model.coef_.shape
    (1, 5)
    >>> model.score(X, y) > 0.8
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PrivateEstimator._parameter_constraints,
        **N_JOBS,
        **LOGISTIC_CONSTRAINTS,
    }

    _plan, _solve = staticmethod(plan_logistic), staticmethod(solve_logistic)
    _warnings = staticmethod(warnings_for_size)

    def __init__(
        self,
        *,
        classes: Any = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        privacy_unit: str = "record",
        adjacency: str = "replace",
        row_norm: float | None = None,
        ledger: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.classes = classes
        self.epsilon = epsilon
        self.delta = delta
        self.privacy_unit = privacy_unit
        self.adjacency = adjacency
        self.row_norm = row_norm
        self.ledger = ledger
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Fit the coefficients, spending the whole budget.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_records, n_features)
            Rows of the records.
        y : array-like of shape (n_records,)
            Labels, which are whole numbers or strings.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        ValueError
            If X, y or a parameter is not acceptable; nothing has been spent then.
        """
        self._fit(X, y)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Compute the scores of rows: their products with `coef_`, plus `intercept_`.

        A noise-free function of the rows passed in, which the guarantee does not cover.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_records, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_records,) or (n_records, n_classes)
            Scores; of two classes those of the second one.
        """
        check_is_fitted(self)
        rows = check_rows_of(X, self)
        scores = np.asarray(rows @ self.coef_.T + self.intercept_)
        return scores.ravel() if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Predict the most likely class of rows.

        A noise-free function of the rows passed in, which the guarantee does not cover.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_records, n_features)
            Rows.

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
        X : {array-like, sparse matrix} of shape (n_records, n_features)
            Rows.

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
        X : {array-like, sparse matrix} of shape (n_records, n_features)
            Rows.

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
        X : {array-like, sparse matrix} of shape (n_records, n_features)
            Rows.
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

    def _problem(self, X: Any, y: Any) -> tuple[LogisticProblem, Data]:
        name = type(self).__name__
        if isinstance(X, RowBlocks):
            raise ValueError(
                f"X is a RowBlocks, which {name} does not take: pass an array, a memory map or a "
                "sparse matrix."
            )
        checked = check_rows(X, name)
        classes, codes = self._classes_and_codes(y)
        check_consistent_length(checked, codes)
        source = as_source(checked)
        n_records, n_features = checked.shape
        problem = self._problem_of(n_records, n_features, classes, checked)
        check_features(X, self, reset=True)
        view = LabeledRows(Rows(source, self.n_jobs), codes)
        return problem, (view, partial(_digest, source, codes, problem.labels))

    def _check_target(self, y: Any) -> None:
        self._classes_and_codes(y)

    def _classes_and_codes(self, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """Refuse bad labels; return the classes, and the place of each label among them."""
        if y is None:
            name = type(self).__name__
            raise ValueError(f"{name} requires y to be passed, but the target y is None.")
        labels = checked_labels(y)
        classes = classes_in(labels) if self.classes is None else checked_classes(self.classes)
        return classes, codes_of(labels, classes)

    def _problem_like(self, n_samples: int, n_features: int, like: Any) -> LogisticProblem:
        if self.classes is None:
            raise ValueError(
                "classes=None takes the labels of y, and without y there are none: pass classes, "
                "a list of all labels that there may be."
            )
        return self._problem_of(n_samples, n_features, checked_classes(self.classes), like)

    def _problem_of(
        self, n_records: int, n_features: int, classes: np.ndarray, like: Any
    ) -> LogisticProblem:
        is_single = getattr(like, "dtype", None) == np.float32
        problem = self._asked(
            LogisticProblem,
            unit=resolved_unit(self.adjacency, is_promised=self.classes is None),
            n_units=n_records,
            n_features=n_features,
            labels=tuple(classes.tolist()),
            label_dtype=classes.dtype,
            is_sparse=holds_sparse(like),
            dtype=np.dtype(np.float32 if is_single else np.float64),
        )
        return checked_problem(problem)

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
        tags.input_tags.sparse = True
        # Few records are not enough for a good score.
        tags.classifier_tags.poor_score = bool(self.epsilon < 100)
        return tags


def _digest(source: Source, codes: np.ndarray, labels: tuple[Any, ...]) -> tuple[Any, ...]:
    """Hash the rows and the labels."""
    numbers = as_source(codes[:, np.newaxis].astype(np.float64))
    return digest(source), digest(numbers), labels
