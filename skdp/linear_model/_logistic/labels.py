"""Labels of records: checked, and turned into the numbers of public classes."""

from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import column_or_1d

from skdp._reading import redact_errors

# Labels are of one of these kinds.
_KINDS: tuple[Any, ...] = (str, (int, float))


@redact_errors
def checked_labels(y: Any) -> np.ndarray:
    """Return labels as a 1-D array; refuse all but plain numbers or strings, naming none."""
    raveled = column_or_1d(y, warn=True)
    labels = np.asarray(check_array(raveled, ensure_2d=False, dtype=None, input_name="y"))
    if labels.dtype.kind == "f" and np.any(labels != np.round(labels)):
        raise ValueError(
            "Unknown label type: continuous. Labels, in y and in classes, are whole numbers or "
            "strings."
        )
    kinds = set(map(type, labels.tolist()))
    if not any(all(issubclass(kind, wanted) for kind in kinds) for wanted in _KINDS):
        raise ValueError(
            "Unknown label type: unknown. Labels, in y and in classes, are whole numbers or "
            "strings."
        )
    return labels


def given_classes(classes: Any) -> np.ndarray:
    """Return public classes, sorted; refuse None, what are no classes, and fewer than two."""
    if classes is None:
        raise ValueError(
            "classes=None takes the labels of y, which are not known before a fit: pass classes, "
            "a list of all labels that there may be."
        )
    try:
        found = np.unique(checked_labels(classes))
    except (TypeError, ValueError) as error:
        raise ValueError(_wanted(classes)) from error
    if len({isinstance(label, str) for label in classes}) > 1:
        # NumPy has turned the numbers into strings, which no number in y equals.
        raise ValueError(_wanted(classes))
    if len(found) < 2 or len(found) < len(classes):
        raise ValueError(
            f"classes must be two or more labels, all of them different, got {classes!r}."
        )
    return found


def _wanted(classes: Any) -> str:
    return f"classes must be a list of whole numbers, or of strings, got {classes!r}."


@redact_errors
def classes_in(labels: np.ndarray) -> np.ndarray:
    """Return the classes that occur, sorted; refuse one alone."""
    found = np.unique(labels)
    if len(found) < 2:
        raise ValueError(
            "y has labels of one class only, but a classifier needs two classes or more: pass "
            "classes, with those that y lacks."
        )
    return found


@redact_errors
def known_codes(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the place of each label among the classes; -1 for one that is none of them."""
    places = {label: place for place, label in enumerate(classes.tolist())}
    return np.array([places.get(label, -1) for label in labels.tolist()], dtype=np.intp)


def codes_of(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the place of each label among the classes; refuse another label, naming none."""
    codes = known_codes(labels, classes)
    if codes.min(initial=0) < 0:
        raise ValueError(
            "y has a label that is not among classes; it is not named, as it is private. Pass all "
            "labels that there may be as classes."
        )
    return codes
