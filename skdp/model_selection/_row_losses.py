"""Losses of rows, which scores are means of: each is computed from its own row alone."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import assert_all_finite, gen_batches
from sklearn.utils.validation import check_consistent_length, column_or_1d

from skdp._checks import check_given, redact_errors
from skdp.data.containers import canonical_csr, hide_error_text
from skdp.linear_model._targets import checked_responses
from skdp.pipeline._delegation import DelegatesMixin
from skdp.pipeline._public_rows import real_numbers
from skdp.pipeline._public_steps import losses_by_rows, quietly, restored, transformed

# How many rows of a sparse matrix are made dense at a time.
_BATCH = 4096  # not studied
# Differences of losses up to this size do not overflow.
_LARGEST_LOSS = 1e100  # not tuned


def _squares(what: str, model: Any, rows: Any, y: np.ndarray) -> np.ndarray:
    return np.asarray(quietly(np.square, _errors(what, model, rows, y)))


def _errors(what: str, model: Any, rows: Any, y: np.ndarray) -> np.ndarray:
    # Predictions alone are compared with public ones: after the subtraction the type of the
    # responses would hide theirs.
    return np.asarray(quietly(np.subtract, losses_by_rows(what, model.predict, rows), y))


def _mistakes(what: str, model: Any, rows: Any, y: np.ndarray) -> np.ndarray:
    kinds: list[str] = []
    wrong = partial(_are_wrong, model, kinds)
    return losses_by_rows(what, wrong, rows, y, classes=getattr(model, "classes_", ()))


def _are_wrong(model: Any, kinds: list[str], rows: Any, y: Any) -> np.ndarray:
    """Compare labels; refuse labels of another kind than in the first call, for public rows."""
    labels = np.asarray(model.predict(rows))
    kinds.append("f" if labels.dtype.kind in "biuf" else labels.dtype.kind)
    if labels.shape != np.shape(y) or kinds[-1] != kinds[0]:
        raise ValueError
    return np.asarray(labels != y).astype(float)


def _unlikelihoods(what: str, model: Any, rows: Any, y: Any) -> np.ndarray:
    losses = partial(_of_dense_rows, lambda part: -np.asarray(model.score_samples(part)))
    return losses_by_rows(what, losses, rows)


def _of_dense_rows(losses: Callable[[Any], np.ndarray], rows: Any) -> np.ndarray:
    """Compute losses of rows; sparse rows are made dense, a batch at a time."""
    if not issparse(rows):
        return losses(rows)
    rows = canonical_csr(rows)
    batches = gen_batches(rows.shape[0], _BATCH)
    return np.concatenate([losses(rows[batch].toarray()) for batch in batches])


#: The loss of a row, by the name of the score. For "r2" squares will do: all candidates have the
#: same responses, so that both scores order them alike.
SCORES: dict[str, Callable[..., np.ndarray]] = {
    "accuracy": _mistakes,
    "r2": _squares,
    "neg_mean_squared_error": _squares,
    "neg_mean_absolute_error": lambda *given: np.abs(_errors(*given)),
    "log_likelihood": _unlikelihoods,
}
_ACCURACY, _RECONSTRUCTION = "accuracy", "reconstruction"
#: Names of all scores.
NAMES = (*SCORES, _RECONSTRUCTION)
_METHODS = {
    "log_likelihood": ("score_samples",),
    _RECONSTRUCTION: ("transform", "inverse_transform"),
}


def check_scoring(scoring: Any, estimator: Any) -> None:
    """Refuse a score that the estimator lacks, or that one row could move without limit."""
    if callable(scoring):
        _check_callable(scoring)
        return
    if scoring not in NAMES:
        raise ValueError(
            f"scoring={scoring!r} is none of {NAMES}. Other scores, such as an area under a curve, "
            "are no mean over rows, so that one row may move them without limit. A callable "
            "(estimator, X, y) may return a score for each row, from that row alone."
        )
    if scoring == _ACCURACY and not is_classifier(estimator):
        raise ValueError(
            f"scoring='accuracy' is for classifiers, which {type(estimator).__name__} is not."
        )
    for method in _METHODS.get(scoring, ("predict",)):
        if not hasattr(estimator, method):
            raise ValueError(
                f"scoring={scoring!r} needs the method {method}, which {type(estimator).__name__} "
                "lacks: pass another score, or a callable (estimator, X, y) that returns a score "
                "for each row, from that row alone."
            )


def _check_callable(scoring: Callable[..., Any]) -> None:
    """Refuse a scorer of scikit-learn, which returns one number, and other signatures."""
    if hasattr(scoring, "_score_func"):
        raise ValueError(
            f"scoring={scoring!r} returns one score for all rows: pass one of {NAMES}, or a "
            "callable (estimator, X, y) that returns a score for each row."
        )
    try:
        inspect.signature(scoring).bind(None, None, None)
    except TypeError:
        message = "A callable scoring takes (estimator, X, y), and this one does not."
        raise ValueError(message) from None
    except ValueError:
        # Some builtin callables have no signature to look at.
        return


def check_responses(X: Any, y: Any, scoring: Any, name: str) -> None:
    """Refuse responses that the score would refuse."""
    is_scored = not callable(scoring) and scoring not in _METHODS
    if is_scored:
        check_given(y, name)
    if y is None:
        return
    redact_errors(check_consistent_length)(X, y)
    if is_scored and scoring != _ACCURACY:
        checked_responses(y)
    elif is_scored:
        _check_labels(y)


@redact_errors
def _check_labels(y: Any) -> None:
    assert_all_finite(column_or_1d(y), input_name="y")


def default_scoring(estimator: Any) -> str:
    """Return the score that is taken for an estimator unless the caller names one."""
    if is_classifier(estimator):
        return "accuracy"
    if hasattr(estimator, "predict"):
        return "neg_mean_squared_error"
    return "log_likelihood" if hasattr(estimator, "score_samples") else "reconstruction"


def row_losses(scoring: Any, model: Any, X: Any, y: Any) -> np.ndarray:
    """Compute the loss of every row, finite, under a public fitted estimator."""
    if callable(scoring):
        losses = -_scored(scoring, model, X, y)
    elif scoring == _RECONSTRUCTION:
        losses = _of_dense_rows(lambda rows: _reconstruction_errors(model, rows), X)
    else:
        *before, (name, last) = _steps_of(model)
        rows, responses = transformed(before, X), _responses_of(scoring, y)
        losses = SCORES[scoring](f"Judging by {name!r}", last, rows, responses)
    # NaN, which stands for rows that are refused, becomes the worst loss.
    least, most = (0.0, 1.0) if scoring == _ACCURACY else (-_LARGEST_LOSS, _LARGEST_LOSS)
    # In float64, because smaller types cannot hold these limits.
    losses = np.nan_to_num(losses.astype(np.float64), nan=most, posinf=most, neginf=least)
    return np.asarray(np.clip(losses, least, most))


def _scored(scoring: Callable[..., Any], model: Any, X: Any, y: Any) -> np.ndarray:
    """Apply a callable score to rows, and to their responses if there are any."""
    if y is None:
        return losses_by_rows("scoring", lambda rows: scoring(model, rows, None), X)
    classes = getattr(model, "classes_", ())
    return losses_by_rows("scoring", partial(scoring, model), X, y, classes=classes)


def _responses_of(scoring: str, y: Any) -> Any:
    if y is None or scoring in _METHODS:
        return None
    if scoring != _ACCURACY:
        return checked_responses(y)
    # In a list each label has a type of its own.
    return column_or_1d(np.array(y, dtype=object) if isinstance(y, list | tuple) else y)


def _steps_of(model: Any) -> list[tuple[str, Any]]:
    if isinstance(model, DelegatesMixin):
        return _steps_of(model._held())
    return list(model.steps) if isinstance(model, Pipeline) else [(type(model).__name__, model)]


def _reconstruction_errors(model: Any, rows: Any) -> np.ndarray:
    steps = _steps_of(model)
    back = np.asarray(restored(steps, transformed(steps, rows)))
    given = hide_error_text(np.asarray, rows)
    if back.shape != given.shape:
        raise ValueError(
            f"scoring='reconstruction' needs rows of shape {given.shape} back, got shape "
            f"{back.shape}: pass a callable (estimator, X, y) that returns a score a row."
        )
    return np.asarray(quietly(_squared_distances, given, back))


def _squared_distances(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    one, other = real_numbers(one, np.nan), real_numbers(other, np.nan)
    apart = np.subtract(one, other, dtype=np.result_type(one, other, np.float32))
    return np.asarray(np.square(apart).sum(axis=1))
