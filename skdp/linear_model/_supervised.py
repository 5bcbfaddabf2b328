"""The base class of regressors and classifiers, which checks X and y; checks of labels."""

import math
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import _fit_context
from sklearn.metrics import r2_score
from sklearn.utils import check_array
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from skdp import _validation as checks
from skdp._estimator import Data, PrivateEstimator
from skdp.data.containers import (
    NO_RESPONSES,
    TIMES_IN_Y,
    have_times,
    refuse_times,
    refuse_unreadable,
    with_text,
)
from skdp.data.matrices import RankOneMatrices
from skdp.data.parts import RowBlocks, RowParts, Targets
from skdp.data.people import People, people_of
from skdp.data.reduce import PerRow, map_sum
from skdp.data.sources import cached, computed
from skdp.exceptions import callers
from skdp.units import ResolvedRecord, ResolvedResponse, ResolvedUnit, ResolvedUser

#: Shape of the matrices in X; None if X has rows of features.
Shape = tuple[int, int] | None
#: The unit for each value of `privacy_unit`.
UNITS: dict[str, type[ResolvedUnit]] = {
    "record": ResolvedRecord,
    "response": ResolvedResponse,
    "user": ResolvedUser,
}


class SupervisedEstimator(PrivateEstimator):
    """Base of estimators whose records are private, each with a response or a label."""

    privacy_unit: str
    adjacency: str
    epsilon: float
    n_jobs: int | None
    coef_: np.ndarray
    #: A function that checks y, and returns a 1-D array; its errors show no value.
    _checked: Callable[[Any], np.ndarray]
    _shape: tuple[int, ...] = ()  # shape of the fitted matrices; empty for rows of features
    _takes_matrices: ClassVar[bool] = False

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, users: Any = None) -> Self:
        """Fit the coefficients, spending the whole budget.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowBlocks, dask collection} of shape \
                (n_records, n_features), array-like of shape (n_records, d1, d2), or RankOneMatrices
            Rows of features, or matrices, of the records, in a layout that the class takes. A
            `RowBlocks` has to be in parts, which contain their targets.
        y : array-like of shape (n_records,) or None, default=None
            Responses, or labels, which are whole numbers or strings; for a dask collection in the
            same chunks, for rows in parts None.
        users : {array-like, dask collection} of shape (n_records,), list of arrays or None, \
                default=None
            Owner of each record, for ``privacy_unit="user"``: ids of one kind, integers or strings;
            for rows in parts also a list with an array for each part.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        ValueError
            If X, y, `users` or a parameter is not acceptable; nothing has been spent then.
        """
        return self._fit(X, y, users=users)

    def _read(self, X: Any) -> tuple[Any, Shape]:
        """Return X with each matrix as a row, and the shape of the matrices; None if X has rows."""
        if isinstance(X, RowBlocks):
            return X, None
        if isinstance(X, RankOneMatrices):
            return X, X.matrix_shape
        refuse_unreadable(X)
        if issparse(X) or getattr(X, "ndim", None) == 2:
            return X, None
        first = X[0] if isinstance(X, list | tuple) and len(X) else None
        if not hasattr(X, "ndim") and checks.redact_errors(np.ndim)(first) != 2:
            return X, None
        array = checks.redact_errors(np.asarray)(X)
        if array.ndim != 3:
            return X, None
        n_records, n_rows, n_columns = array.shape
        return array.reshape(n_records, n_rows * n_columns), (n_rows, n_columns)

    def _rows_of(self, X: Any) -> Any:
        """Return the checked rows of X for a fitted model; blocks are checked when read."""
        check_is_fitted(self)
        refuse_unreadable(X)
        rows, shape = self._read(X)
        # With a side of 1, X of that shape may be several rows of features.
        if 1 not in self._shape and getattr(rows, "shape", None) == self._shape:
            raise ValueError("X is a single matrix: pass X[numpy.newaxis].")
        if shape not in (None, self._shape):
            raise ValueError(
                f"X has matrices of shape {shape}, but {type(self).__name__} was fitted with "
                f"{self._shape}."
            )
        if not isinstance(rows, RankOneMatrices):
            return checks.check_rows_of(rows, self)
        rows.check()
        checks.check_features(rows, self)
        return rows

    def _validate(self, X: Any, y: Any, users: Any = None) -> tuple[Any, Data]:
        name, (rows, shape) = type(self).__name__, self._read(X)
        checks.refuse_stream(rows, name)
        if isinstance(rows, RankOneMatrices):
            rows.check()
            if len(rows) == 0:
                raise ValueError("X has 0 sample(s), while a minimum of 1 is required.")
            checked = rows
        else:
            checked = cached(checks.check_rows_or_blocks(rows, name))
        targets = self._targets(checked, y)
        checks.redact_errors(check_consistent_length)(checked, targets)
        people = people_of(users, checked, self.privacy_unit)
        size = checked.shape[0] if people is None else people.n_people, checked.shape[1]
        # Names of columns are taken from X, as `checked` has lost them.
        spec_of = partial(self._spec_of, checked, size, shape, names=checks.feature_names(X))
        opened = self._opened(checked, spec_of, targets, people)
        checks.check_features(rows, self, reset=True)
        return opened

    def _targets(self, X: Any, y: Any) -> Targets:
        """Return the checked responses or labels, from y or, for rows in parts, from X."""
        given = checks.targets_of(X, y, type(self).__name__)
        if not isinstance(X, RowParts):
            return Targets.of(self._checked(given))
        return given.cached() if X.is_cached else given

    def _spec_like(self, n_samples: int, n_features: int, like: Any) -> Any:
        rows, shape = self._read(like)
        checks.refuse_stream(rows, type(self).__name__)
        return self._spec_of(rows, (n_samples, n_features), shape, names=checks.feature_names(like))

    @abstractmethod
    def _opened(
        self, rows: Any, spec_of: Callable[..., Any], targets: Targets, people: People | None
    ) -> tuple[Any, Data]:
        """Check targets, and rows in parts; return the result of `spec_of`, and the data."""

    @abstractmethod
    def _spec_of(self, rows: Any, size: tuple[int, int], shape: Shape, *, names: Any) -> Any:
        """Return the spec; `size` is (n_units, n_features), `shape` the shape of matrices in X."""


# ------------------------------
# Responses of a regression.


def as_numbers(responses: np.ndarray) -> np.ndarray:
    """Convert the responses of one part to float64."""
    refuse_times(responses)
    return with_text(NO_RESPONSES, partial(np.asarray, responses, np.float64))


def as_numbers_or_nan(responses: np.ndarray) -> np.ndarray:
    """Convert responses to float64. A value that has become text since the check becomes NaN."""
    if responses.dtype.kind in "fiub":
        return as_numbers(responses)
    return np.array([_number(response) for response in responses.tolist()], dtype=np.float64)


def _number(response: Any) -> float:
    try:
        return float(response)
    except Exception:
        return math.nan


@checks.redact_errors
def checked_responses(y: Any) -> np.ndarray:
    """Return responses as float64; refuse all but finite numbers, without showing values."""
    if have_times(y):
        raise ValueError(TIMES_IN_Y)
    raveled = column_or_1d(y, warn=True)
    if raveled.dtype.kind in "OSU":
        raveled = with_text(NO_RESPONSES, partial(np.asarray, raveled, np.float64))
    return np.asarray(check_array(raveled, ensure_2d=False, dtype=np.float64, input_name="y"))


def checked_weights(sample_weight: Any, n_rows: int) -> np.ndarray | None:
    """Return the sample weights of a score as float64, or None if there are none."""
    if sample_weight is None:
        return None
    weights = checks.check_numbers(sample_weight, "sample_weight", ensure_2d=False)
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight must have one weight for each of {n_rows} rows, got shape "
            f"{weights.shape}."
        )
    return weights


def r2_of(y: Any, predictions: Any, sample_weight: Any, n_jobs: int | None = None) -> float:
    """Compute the coefficient of determination of an array of predictions, or of blocks of them."""
    # y is checked before other functions get it: an error of its objects may show a value.
    responses = checked_responses(np.asarray(y) if isinstance(y, Targets) else y)
    check_consistent_length(predictions, responses)
    weights = checked_weights(sample_weight, len(predictions))
    return float(r2_score(responses, computed(predictions, n_jobs), sample_weight=weights))


# ------------------------------
# Labels of records, and their indices among the sorted classes.

# Kind of a label, by the name of its type. All labels must be of one kind.
_KINDS = {
    **dict.fromkeys(("bool", "bool_"), "booleans"),
    **dict.fromkeys(("int", "integer"), "integers"),
    **dict.fromkeys(("float", "floating"), "floats"),
    "str": "strings",
    **dict.fromkeys(("bytes", "bytes_"), "bytes"),
    **dict.fromkeys(("date", "datetime64", "timedelta64", "timedelta", "Period"), "dates"),
    **dict.fromkeys(("NoneType", "NAType", "NaTType"), "missing"),
}
# Dtype of each kind, for labels in lists, or in arrays of objects or of uint64.
_DTYPES = {"booleans": np.bool_, "integers": np.int64, "floats": np.float64}
# A float represents all whole numbers below this exactly.
_EXACT = 2.0**53  # not tuned
# With `classes=None`, more labels than this are refused: they may be responses or names of people.
_MOST_LABELS = 100  # not studied


class PublishedLabels(list[Any]):
    """Classes that were found in y, as the caller allows; `repr` does not print these labels."""

    def __repr__(self) -> str:
        return "<labels of y>"


@checks.redact_errors
def checked_labels(y: Any) -> np.ndarray:
    """Return labels as a 1-D array of one kind; refuse all others, without showing labels.

    Equal labels of different types, such as 1 and np.int64(1), become the same label.
    """
    is_list = isinstance(y, list | tuple)
    labels = column_or_1d(np.array(y, dtype=object) if is_list else y, warn=True)
    are_objects = labels.dtype == object
    types = set(map(type, labels.tolist())) if are_objects else {labels.dtype.type}
    kinds = set(map(_kind_of, types))
    if refused := sorted(kinds - {"strings", *_DTYPES}):
        _refuse_labels(refused[0])
    if "strings" in kinds:
        if len(kinds) > 1:
            # A missing string is NaN, a float.
            _refuse_labels("missing" if kinds == {"floats", "strings"} else "mixed")
        if are_objects:
            # `str.__str__` makes plain strings; methods of a subclass of str are never run.
            texts = list(map(str.__str__, labels.tolist()))
            labels = np.array(texts, dtype=None if is_list else object)
        return np.asarray(check_array(labels, ensure_2d=False, dtype=None, input_name="y"))
    numbers = check_array(labels.astype(np.float64), ensure_2d=False, input_name="y")
    if np.any((np.round(numbers) != numbers) | (np.abs(numbers) >= _EXACT)):
        _refuse_labels("continuous")
    if len(kinds) > 1:
        _refuse_labels("mixed")
    keeps_dtype = not are_objects and labels.dtype != np.uint64
    # Adding 0.0 turns the label -0.0 into 0.0.
    return np.asarray(numbers + 0.0, dtype=labels.dtype if keeps_dtype else _DTYPES[kinds.pop()])


def _kind_of(type_of_label: type) -> str:
    for base in type_of_label.__mro__:
        if base.__name__ in _KINDS:
            return _KINDS[base.__name__]
    return "unknown"


def _refuse_labels(kind: str) -> NoReturn:
    raise ValueError(
        f"Unknown label type: {kind}. Labels, in y and in classes, are strings, or whole numbers "
        "of 15 digits at most, and all of one type."
    )


def check_kind(labels: np.ndarray, classes: np.ndarray) -> None:
    """Refuse strings for numeric classes, and numbers for classes that are strings."""
    if isinstance(labels[0], str) != isinstance(classes[0], str):
        # The kind of all labels is public, so errors may name it.
        kinds = [_kind_of(type(each[0])) for each in (labels, classes)]
        raise ValueError(
            f"y has {kinds[0]} as labels, but the classes are {kinds[1]}: pass labels and classes "
            "of one type."
        )


def given_classes(classes: Any) -> np.ndarray:
    """Return the given classes, sorted; refuse None, bad labels, and fewer than two."""
    if classes is None:
        raise ValueError(
            "classes=None takes the labels of y, which are not known before a fit: pass classes, "
            "a list of all possible labels."
        )
    reason = "It has fewer than two labels, or one twice: pass each once, as ['no', 'yes']."
    try:
        if not checks.redact_errors(np.ndim)(classes):
            raise ValueError(
                f"Pass all labels, as ['no', 'yes'] or [0, 1], got {type(classes).__name__}."
            )
        labels = np.unique(checked_labels(classes))
        if 2 <= len(labels) == len(classes):
            return labels
    except (TypeError, ValueError) as error:
        reason = str(error)
    # The list may hold private labels of y, so the error shows none.
    raise ValueError(f"classes must be a list of two or more different labels. {reason}")


def classes_of(labels: np.ndarray, classes: Any) -> np.ndarray:
    """Return the classes; or their indices, if a meta-estimator of scikit-learn encoded the labels.

    Such a meta-estimator replaces each label by its index among the sorted classes. The type of the
    labels tells whether it did; this type is public.
    """
    known = given_classes(classes)
    # How many classes y has is private, so the call stack has to tell whether y was split.
    if len(known) > 2 and any(module == "sklearn.multiclass" for module, _ in callers()):
        raise ValueError(
            f"classes has {len(known)} labels, but OneVsRestClassifier, OneVsOneClassifier and "
            "OutputCodeClassifier ask for two classes at a time: pass classes=[0, 1], and for "
            "OutputCodeClassifier classes=[-1, 1]."
        )
    used = classes_or_codes(known, labels)
    if used is not known and not np.isnan(as_numbers_or_nan(known)).all():
        raise ValueError(
            "y has whole numbers, but classes has texts: pass whole numbers as classes; or, if y "
            f"has codes of classes, classes={[*range(len(known))]}."
        )
    return used


def classes_or_codes(classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the classes or, if they are strings and labels integers, the classes' indices."""
    # Booleans and floats are not taken for indices.
    are_codes = set(map(type, labels.tolist())) == {int}
    return np.arange(len(classes)) if are_codes and isinstance(classes[0], str) else classes


def check_count(labels: np.ndarray) -> None:
    """Refuse the labels of y as classes if there is only one, or more than `_MOST_LABELS`."""
    if len(labels) < 2:
        raise ValueError(
            "y has labels of one class only, but a classifier needs two classes or more: pass "
            "classes, a list of all possible labels."
        )
    if len(labels) > _MOST_LABELS:
        raise ValueError(
            f"y has more than {_MOST_LABELS} different labels, which classes=None would publish: "
            "pass classes, a list of all possible labels, or fit a regression to numbers."
        )


def labels_in(y: Targets, n_jobs: int | None) -> np.ndarray:
    """Find all labels that occur in y, in one pass; refuse bad labels, without showing them."""

    def _of_part(_: slice, column: np.ndarray) -> tuple[PerRow, PerRow]:
        """Return the distinct labels of a part, and their kind."""
        labels = np.unique(checked_labels(column[:, 0]))
        return PerRow(labels), PerRow(np.array([_kind_of(type(label)) for label in labels[:1]]))

    distinct, kinds = map_sum(y, _of_part, 0, n_jobs)
    if len(set(kinds)) > 1:
        _refuse_labels("mixed")
    return np.unique(distinct)


def known_codes(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the index of each label among the sorted classes; -1 for any other label.

    Each label is checked, as it may have changed since it was last read. If one label has become a
    string, NumPy has made strings of all: for numeric classes they become numbers again.
    """
    if isinstance(classes[0], str):
        code_of = {label: code for code, label in enumerate(classes.tolist())}
        # Types are compared, as isinstance could run code of the label.
        texts = [
            str.__str__(label) if issubclass(type(label), str) else None
            for label in labels.tolist()
        ]
        return np.array([code_of.get(text, -1) for text in texts], dtype=np.intp)
    class_numbers, numbers = as_numbers_or_nan(classes), as_numbers_or_nan(labels)
    nearest = np.minimum(np.searchsorted(class_numbers, numbers), len(class_numbers) - 1)
    return np.where(class_numbers[nearest] == numbers, nearest, -1)


def refuse_unknown_labels(labels: np.ndarray, classes: np.ndarray) -> None:
    """Refuse labels that are not among the classes, without showing labels."""
    check_kind(labels, classes)
    if known_codes(labels, classes).min() >= 0:
        return
    advice = ""
    if classes.dtype.kind in "iu":
        advice = (
            " Labels -1 and 1, also of OutputCodeClassifier, take classes=[-1, 1]. Other "
            "meta-estimators of scikit-learn pass a classifier the codes of labels: encode y as "
            f"0 to K - 1, and pass classes=list(range({len(classes)}))."
        )
    raise ValueError(
        "y has a label that is not among classes; it is not named, as it is private. Take classes "
        "from a code book, not from y, which would publish labels. Pass all labels that there may "
        f"be as classes, with blanks and capitals as in y.{advice}"
    )
