"""Private classifiers: their base, and the logistic regression of rows."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, replace
from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from skdp._estimator import Data, check_finite_bound, check_not_pure, in_dtype
from skdp._prior import FEATURES, PriorParameter, check_prior, linear_classifier
from skdp._validation import ANY_BOUND, by_chunks, in_parts, results_of, with_parameters
from skdp.data.containers import finite, float_dtype
from skdp.data.parts import Targets
from skdp.data.people import People, depth_of, keyed_by_people
from skdp.data.reduce import rounding_of_depth
from skdp.data.sources import as_source, computed, digests, holds_sparse
from skdp.linear_model import _supervised as supervised
from skdp.linear_model._supervised import Shape, SupervisedEstimator
from skdp.linear_model.logistic.fit import Estimate, read_once, solve_logistic, warnings_for_size
from skdp.linear_model.logistic.plan import LabeledRows, LogisticSpec, of_classes, plan_logistic
from skdp.linear_model.logistic.scores import MOST_CLASSES
from skdp.privacy.precision import as_python

# Least class weight; the largest one is its inverse.
_LEAST_WEIGHT = 1e-100  # not tuned
# If clipping the scores changes the predicted class, the class predicted without clipping gets a
# score above all others, by more than the rounding error of scores up to 100 in single precision.
_LEAD = 1e-5  # not tuned


class PrivateClassifier(ClassifierMixin, SupervisedEstimator):
    """Base of classifiers of private records, whose classes are public."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SupervisedEstimator._parameter_constraints,
        # `given_classes` and `classes_of` check the classes, together with the labels in y.
        "classes": "no_validation",
        "privacy_unit": [StrOptions({"record", "user"})],
        "row_norm": [*ANY_BOUND, None],
    }

    classes: Any
    intercept_: np.ndarray
    _kind: ClassVar[type[LogisticSpec]] = LogisticSpec
    _checked, _warnings = staticmethod(supervised.checked_labels), staticmethod(warnings_for_size)

    @by_chunks
    def decision_function(self, X: Any) -> Any:
        """Compute the scores of rows: their products with `coef_`, plus `intercept_`.

        A noise-free function of the rows passed in, which the guarantee does not cover.

        Parameters
        ----------
        X : {array-like, RowBlocks, dask collection} of shape (n_records, ...)
            Records, in a layout that `fit` takes.

        Returns
        -------
        ndarray, PartResults or dask array of shape (n_records,) or (n_records, n_classes)
            Scores; for two classes those of the second class.
        """
        return self._results(X, lambda scores: scores.ravel() if scores.shape[1] == 1 else scores)

    @by_chunks
    def predict(self, X: Any) -> Any:
        """Predict the most likely class of rows.

        A noise-free function of the rows passed in, which the guarantee does not cover.

        Parameters
        ----------
        X : {array-like, RowBlocks, dask collection} of shape (n_records, ...)
            Records, in a layout that `fit` takes.

        Returns
        -------
        ndarray, PartResults or dask array of shape (n_records,)
            Labels.
        """
        check_is_fitted(self)
        classes = self.classes_
        return self._results(X, lambda scores: classes[of_classes(scores).argmax(axis=1)])

    @by_chunks
    def predict_proba(self, X: Any) -> Any:
        """Predict the probabilities of all classes.

        A noise-free function of the rows passed in, which the guarantee does not cover.

        Parameters
        ----------
        X : {array-like, RowBlocks, dask collection} of shape (n_records, ...)
            Records, in a layout that `fit` takes.

        Returns
        -------
        ndarray, PartResults or dask array of shape (n_records, n_classes)
            Probabilities, in the order of `classes_`.
        """
        return self._results(X, lambda scores: softmax(self._clipped(scores), axis=1))

    @by_chunks
    def predict_log_proba(self, X: Any) -> Any:
        """Predict the logarithms of the probabilities of all classes.

        A noise-free function of the rows passed in, which the guarantee does not cover.

        Parameters
        ----------
        X : {array-like, RowBlocks, dask collection} of shape (n_records, ...)
            Records, in a layout that `fit` takes.

        Returns
        -------
        ndarray, PartResults or dask array of shape (n_records, n_classes)
            Logarithms, in the order of `classes_`.
        """
        return self._results(X, lambda scores: log_softmax(self._clipped(scores), axis=1))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Compute the fraction of correctly predicted labels.

        A noise-free function of the rows passed in, which the guarantee does not cover.

        Parameters
        ----------
        X : {array-like, RowBlocks, dask collection} of shape (n_records, ...)
            Records, in a layout that `fit` takes.
        y : array-like of shape (n_records,) or None, default=None
            Labels, for a dask collection in the same chunks; ``None`` if rows in parts contain
            theirs.
        sample_weight : array-like of shape (n_records,) or None, default=None
            Weights of the records.

        Returns
        -------
        float
            1 at best.
        """
        X, y = in_parts(X, y)
        predicted = self._results(X, lambda scores: of_classes(scores).argmax(axis=1))
        labels = self._targets(X, y)
        supervised.check_kind(supervised.labels_in(labels, self.n_jobs), self.classes_)
        codes = labels.mapped(partial(supervised.known_codes, classes=self.classes_))
        check_consistent_length(predicted, codes)
        weights = supervised.checked_weights(sample_weight, len(predicted))
        is_right = computed(predicted, self.n_jobs) == np.asarray(codes)
        return float(np.average(is_right, weights=weights))

    def _clipped(self, scores: np.ndarray) -> np.ndarray:
        """Clip scores to `score_bounds_`, and return a score for each class.

        The predicted class keeps the largest score: scikit-learn expects this of probabilities.
        """
        best, clipped = of_classes(scores).argmax(axis=1), np.clip(scores, *self.score_bounds_)
        clipped = of_classes(clipped)
        (rows,) = np.nonzero(clipped.argmax(axis=1) != best)
        clipped[rows, best[rows]] = clipped[rows].max(axis=1) + _LEAD
        return clipped

    def _results(self, X: Any, function: Callable[[np.ndarray], np.ndarray]) -> Any:
        """Apply a function to the scores of rows; for blocks, when their results are read."""
        rows = self._rows_of(X)
        slopes, intercept = self.coef_.reshape(len(self.intercept_), -1), self.intercept_

        def of_rows(rows: Any) -> np.ndarray:
            with np.errstate(over="ignore", invalid="ignore"):
                return np.asarray(function(finite(np.asarray(rows @ slopes.T + intercept))))

        return results_of(rows, of_rows)

    def _opened(
        self, rows: Any, spec_of: Callable[..., Any], targets: Targets, people: People | None
    ) -> tuple[LogisticSpec, Data]:
        classes, codes = self._classes_and_codes(targets)
        spec = spec_of(classes)
        view = LabeledRows(as_source(rows), self.n_jobs, codes=codes, people=people)
        view, of_rows = read_once(spec, view, is_seeded=self._is_seeded)
        labels = tuple(classes.tolist())
        return spec, (view, keyed_by_people(lambda: (of_rows, *digests(codes), labels), people))

    def _classes_and_codes(self, y: Any) -> tuple[np.ndarray, Targets]:
        """Refuse bad labels; return the classes, and for each label the index of its class."""
        targets = y if isinstance(y, Targets) else Targets.of(supervised.checked_labels(y))
        labels = supervised.labels_in(targets, self.n_jobs)
        classes = self._known_classes(labels)
        supervised.refuse_unknown_labels(labels, classes)
        return classes, targets.mapped(partial(supervised.known_codes, classes=classes))

    def _known_classes(self, labels: np.ndarray | None = None) -> np.ndarray:
        """Return the given classes, or the classes of the labels; two at most for matrices."""
        if labels is None:
            classes = supervised.given_classes(self.classes)
        elif self.classes is None:
            supervised.check_count(labels)
            classes = labels
        else:
            classes = supervised.classes_of(labels, self.classes)
        if self._takes_matrices and len(classes) > 2:
            raise ValueError(
                f"Only binary classification is supported. {type(self).__name__} takes two "
                "classes: pass rows of features to DPLogisticRegression, or fit one model for each "
                "class against all others."
            )
        return classes

    def _spec_of(
        self, rows: Any, size: Any, shape: Shape, classes: Any = None, **facts: Any
    ) -> LogisticSpec:
        check_not_pure(type(self).__name__, self._cost())
        are_people = self.privacy_unit == "user"
        depth = depth_of(rows, size, is_sparse=holds_sparse(rows), are_people=are_people)
        classes = self._known_classes() if classes is None else classes
        is_enforced = self.classes is not None
        spec = self._asked(
            self._kind,
            unit=supervised.UNITS[self.privacy_unit](self.adjacency, is_enforced=is_enforced),
            n_units=size[0],
            n_features=size[1],
            classes=classes,
            rounding=rounding_of_depth(depth, size[0]),
            depth=depth,
            dtype=float_dtype(rows),
            **{"n_free": size[1], **facts},
        )
        check_finite_bound("row_norm", spec.row_norm, spec.cost)
        return spec

    def _set_attributes(self, result: Estimate, spec: LogisticSpec) -> tuple[str, ...]:
        weights = in_dtype(result.weights.T, spec.dtype)
        self.classes_ = spec.classes
        self.coef_, self.intercept_ = weights[:, :-1].copy(), weights[:, -1].copy()
        self.score_bounds_ = in_dtype(result.bounds, spec.dtype)
        self._is_sure = result.is_sure
        return result.warnings

    def __sklearn_tags__(self) -> Any:
        tags, matrices = super().__sklearn_tags__(), self._takes_matrices
        tags.input_tags.sparse, tags.input_tags.three_d_array = not matrices, matrices
        tags.classifier_tags.multi_class = not matrices
        # scikit-learn's checks fit too few records for a good score.
        tags.classifier_tags.poor_score = bool(self.epsilon < 100)
        return tags


def _log_weights(given: dict[Any, Any], classes: np.ndarray) -> np.ndarray:
    """Return the logarithm of each class weight, 0 where none is given; refuse bad weights."""
    labels = classes.tolist()
    for label, weight in given.items():
        if as_python(label) not in labels:
            # The error shows no classes, which may be the labels of y.
            raise ValueError(
                f"class_weight has {label!r}, which is not among classes: its keys are labels of "
                "classes, of their type."
            )
        if not (isinstance(weight, Real) and _LEAST_WEIGHT <= float(weight) <= 1 / _LEAST_WEIGHT):
            raise ValueError(
                f"class_weight of {label!r} must be a number from {_LEAST_WEIGHT:g} to "
                f"{1 / _LEAST_WEIGHT:g}, got {weight!r}."
            )
    # Equal labels of different types, such as 1 and True, are the same key of a dict.
    return np.array([math.log(float(given.get(label, 1.0))) for label in labels])


@with_parameters
class DPLogisticRegression(PrivateClassifier):  # numpydoc ignore=PR02
    r"""Logistic regression with differential privacy, of two classes or more.

    A fit clips the rows, releases their second moment together with their classes, which whitens
    the rows, and then takes gradient steps. Nothing has to be tuned.

    Parameters
    ----------
    classes : array-like or None, default=None
        All possible labels, two or more: which of them occur is then protected, and a class without
        records is fine. ``None`` takes the labels of y, at most 100, and warns, as this makes
        public which labels occur. Labels are strings, or whole numbers below 2**53, of one type. If
        `classes` are strings, whole numbers in y are their places among the sorted classes, as in
        wrappers of scikit-learn.
    class_weight : dict or None, default=None
        Public weights of classes by their labels, from 1e-100 to 1e100, by default 1. They multiply
        the odds of the classes: `intercept_` moves by their logarithms, as with weighted records if
        the model holds, and nothing else changes.
    prior : estimator, tuple or None, default=None
        A published classifier of the same features and classes: a fitted ``LogisticRegression``,
        perhaps behind scalers in a pipeline or in a ``FrozenEstimator``, a fitted one of skdp, or
        ``(coef, intercept)`` in their shapes. Public: it must not come from these records, unless
        their privacy cost counts both fits. The fit releases losses of its scores, and learns the
        rest: :ref:`prior-classes`. Kept as ``(coef, intercept, classes, names)``. With
        ``epsilon=inf`` it is not used.
    epsilon : float, default=1.0
        Privacy budget of one fit, dimensionless, ``0 < epsilon <= inf``. Smaller is more private;
        ``inf`` switches off the noise and the clipping of gradients.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 < delta < 1``, well below one over the
        number of units.
    privacy_unit : {"record", "user"}, default="record"
        What is protected: one record, that is a row with its label; or a user with all of its
        records, each user counting once. `fit` takes `users` then.
    adjacency : {"replace", "zero_out"}, default="replace"
        Neighboring datasets differ by exchanging one unit for any other, or by one that is null,
        which takes less noise and promises less: :doc:`/user_guide/what_is_protected`.
    row_norm : float or None, default=None
        Public bound to which the Euclidean norms of rows are clipped, in the units of X. The noise
        grows with the bound; a bound far below most norms makes probabilities near 0 and 1.
        ``None`` releases a quantile of the norms or, with few records, assumes standardized rows.
        From 1e-100 to 1e100, or ``inf`` with ``epsilon=inf``.
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
    classes_ : ndarray of shape (n_classes,)
        Labels of the classes, sorted. Public: given, or promised to be.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients; for two classes, of the second class. Their direction is that of a logistic
        regression. Clipping changes their length, less with more budget. Covered by the guarantee.
    coef_std_error_ : ndarray of the shape of `coef_`
        Standard errors of the coefficients, by noise, by the sample, and by what the fit does to
        them. Not there with ``epsilon=inf``, or more than 100 classes: :ref:`class-errors`. Covered
        by the guarantee.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts. Covered by the guarantee.
    score_bounds_ : ndarray of shape (2, 1) or (2, n_classes)
        Lower and upper bounds to which probabilities clip scores, some root mean squares from the
        scores of the mean row; the predicted class stays the most probable one. The largest floats
        with ``epsilon=inf``, and with a prior. Covered by the guarantee.
    prior_weight_ : float
        Share of the prior in the model, from 0 to 1; 0 without a prior. Covered by the guarantee.
    privacy_spent_ : PrivacySpent
        Record of every release. Public.
    n_features_in_ : int
        Number of features. Public.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X has names that are strings. Public.

    See Also
    --------
    sklearn.linear_model.LogisticRegression : The same without privacy.
    DPTraceClassifier : Two classes of matrices, with coefficients of low rank.

    Notes
    -----
    **Privacy.** Unit: `privacy_unit`. Adjacency: `adjacency`. Mechanisms: Gaussian, and exponential
    for a quantile of the norms, accounted for in Gaussian differential privacy. Released: counts of
    the classes, if records are very few; that quantile, unless `row_norm` is given or the records
    are few; the second moment of clipped rows, a constant and the classes; with `prior` losses of
    its scores; in each step the sum of the gradients, each clipped in norm; and losses of shorter
    and longer scores, clipped as one vector a record. `plan` lists every release before a fit,
    `privacy_spent_` afterwards. Assumed public: the number of records, the shape, dtype and
    container of X, and its parts, feature names, the classes, and parameters. That the classes are
    public is promised by the caller if they are taken from y, and ``privacy_spent_.enforced`` is
    then False. NaN, infinity and labels that are not among the classes are refused, which reveals
    that there are none. Not covered: what `predict` and its like and `score` return, noise-free
    functions of the rows passed in; and the running time. No assumption about the data is made.

    Clipping adapts to the budget. With many records, or a large epsilon, coefficients are those of
    a logistic regression. Otherwise released losses decide on the length of the coefficients: they
    are short if noise hides what they gain. Probabilities are then near the class frequencies, and
    still rank records. A column that hardly varies compared with others has the coefficient 0.
    Unless records are few, coefficients are 0 along most directions that no row shows, such as a
    category without rows. Some fits keep coefficients along such directions, and predict badly for
    new rows that show them. Without `classes` every fit of a cross-validation of scikit-learn
    warns, and a fold may lack a class: pass `classes`, and ``labels=`` to scores such as the log
    loss. Mathematics and proofs: :doc:`/classification`.

    After the check, and a digest if there is a seed, a fit reads X for the norms of the rows, for
    the moment, for the norms of whitened rows, in every step, of which public facts make 8 to 100,
    and for the losses. Time is O(n d^2) once and O(n d K) a step, memory O((d + K)^2); sparse rows
    stay sparse. Rows in parts, of `RowBlocks.from_partitions`, are read three times and in every
    step: once for the check, the norms and the digest, once for the moment, and once for the
    losses. Every step computes the norms of whitened rows again, in O(n d^2), and stores nothing
    per row. A row or label that is no longer valid when it is read again counts as null.

    With ``epsilon=inf`` the coefficients are those of scikit-learn's `LogisticRegression` with
    ``C=1`` on standardized columns, in the units of X; `row_norm` still clips rows if it is finite.

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

    _plan, _solve = staticmethod(plan_logistic), staticmethod(solve_logistic)

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PrivateClassifier._parameter_constraints,
        "class_weight": [dict, None],
        # `check_prior` checks the prior.
        "prior": "no_validation",
    }

    _: KW_ONLY
    classes: Any = None
    class_weight: dict[Any, float] | None = None
    prior: Any = PriorParameter(linear_classifier)
    epsilon: float = 1.0
    delta: float = 1e-6
    privacy_unit: str = "record"
    adjacency: str = "replace"
    row_norm: float | None = None
    ledger: Any = None
    n_jobs: int | None = None
    random_state: Any = None

    def _read(self, X: Any) -> tuple[Any, None]:
        """Return the rows; there is no shape of matrices."""
        return X, None

    def _spec_of(self, *given: Any, **more: Any) -> LogisticSpec:
        spec: LogisticSpec = super()._spec_of(*given, **more)
        if self.class_weight is not None:
            # The call refuses bad weights.
            _log_weights(self.class_weight, spec.classes)
        if self.prior is None:
            return spec
        shapes = [(spec.n_columns, spec.n_features), (spec.n_columns,)]
        expected = "a linear classifier or a tuple (coef, intercept)"
        facts = {"classes": spec.classes, FEATURES: more["names"]}
        coef, intercept = check_prior(self.prior, expected, shapes, facts)
        return replace(spec, prior=np.vstack([coef.T, intercept]))

    def _set_attributes(self, result: Estimate, spec: LogisticSpec) -> tuple[str, ...]:
        if self.class_weight is not None:
            logs = _log_weights(self.class_weight, spec.classes)
            change = logs[1] - logs[0] if len(logs) == 2 else logs - logs.mean()
            moved = np.vstack([result.weights[:-1], result.weights[-1:] + change])
            result = result._replace(weights=moved, bounds=result.bounds + change)
        self.prior_weight_ = result.prior_weight
        errors = result.std_errors
        self._std_errors = None if errors is None else in_dtype(errors.T, spec.dtype)
        return super()._set_attributes(result, spec)

    @property
    def coef_std_error_(self) -> np.ndarray:
        """Standard errors of the coefficients, by noise and by the sample, where known."""
        errors: np.ndarray | None = getattr(self, "_std_errors", None)
        if errors is None:
            raise AttributeError(
                "coef_std_error_ is unknown: not fitted, with epsilon=inf, with more than "
                f"{MOST_CLASSES} classes, or with coefficients too large for floats."
            )
        return errors
