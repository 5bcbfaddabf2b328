"""Losses of rows: what scores are sums of, each from its own row alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import is_classifier
from sklearn.utils import gen_batches
from sklearn.utils.validation import _num_samples, column_or_1d

from skdp.data.sources import canonical_csr

__all__ = ["SCORES", "check_scoring", "row_losses", "usual_scoring"]

# Rows that are written out together.
_BATCH = 4096
# Beyond it the difference of two losses would overflow.
_LARGEST_LOSS = 1e100


def _squares(model: Any, X: Any, y: Any) -> np.ndarray:
    return np.asarray((model.predict(X) - y) ** 2)


def _in_batches(losses: Callable[[Any, Any], np.ndarray]) -> Callable[..., np.ndarray]:
    """Write sparse rows out, a batch at a time."""

    def _of_all(model: Any, X: Any, y: Any) -> np.ndarray:
        if not issparse(X):
            return losses(model, X)
        rows = canonical_csr(X)
        batches = gen_batches(rows.shape[0], _BATCH)
        return np.concatenate([losses(model, rows[batch].toarray()) for batch in batches])

    return _of_all


def _unlikelihoods(model: Any, X: Any) -> np.ndarray:
    return -np.asarray(model.score_samples(X))


def _reconstruction_errors(model: Any, X: Any) -> np.ndarray:
    rest = np.asarray(X) - model.inverse_transform(model.transform(X))
    return np.asarray(np.square(rest).sum(axis=1))


#: What a row loses, by the name of the score. R2 has the order of the squares: the responses are
#: the same for all candidates.
SCORES: dict[str, Callable[..., np.ndarray]] = {
    "accuracy": lambda model, X, y: (model.predict(X) != y).astype(float),
    "r2": _squares,
    "neg_mean_squared_error": _squares,
    "neg_mean_absolute_error": lambda model, X, y: np.abs(model.predict(X) - y),
    "log_likelihood": _in_batches(_unlikelihoods),
    "reconstruction": _in_batches(_reconstruction_errors),
}


_METHODS = {
    "log_likelihood": ("score_samples",),
    "reconstruction": ("transform", "inverse_transform"),
}


def check_scoring(scoring: Any, estimator: Any) -> None:
    """Refuse what is no mean over rows, which one of them could move without limit; or has none."""
    if callable(scoring):
        return
    if scoring not in SCORES:
        raise ValueError(
            f"scoring={scoring!r} is none of {tuple(SCORES)}. Others, such as an area under a "
            "curve, are no mean over rows, so that one row may move them without limit; a callable "
            "(estimator, X, y) returns a score for each row, from that row alone."
        )
    for method in _METHODS.get(scoring, ("predict",)):
        if not hasattr(estimator, method):
            raise ValueError(
                f"scoring={scoring!r} needs the method {method} of {type(estimator).__name__}, "
                "which has none: pass another one, or a callable (estimator, X, y) that returns a "
                "score for each row, from that row alone."
            )


def usual_scoring(estimator: Any) -> str:
    """Return the score that fits what an estimator can do."""
    if is_classifier(estimator):
        return "accuracy"
    if hasattr(estimator, "predict"):
        return "neg_mean_squared_error"
    return "log_likelihood" if hasattr(estimator, "score_samples") else "reconstruction"


def row_losses(scoring: Any, model: Any, X: Any, y: Any) -> np.ndarray:
    """Compute the loss of every row under a fitted estimator, as finite numbers.

    Parameters
    ----------
    scoring : str or callable
        A name of `SCORES`, or what returns a score for each row.
    model : estimator
        A fitted estimator, which is public.
    X : array-like of shape (n_samples, ...)
        Rows.
    y : array-like of shape (n_samples,) or None
        Their responses.

    Returns
    -------
    ndarray of shape (n_samples,)
        One loss a row; what overflows is large.
    """
    with np.errstate(all="ignore"):
        if callable(scoring):
            losses = -np.asarray(scoring(model, X, y), dtype=np.float64)
        else:
            responses = y if y is None else column_or_1d(y)
            losses = np.asarray(SCORES[scoring](model, X, responses), dtype=np.float64)
    n_rows = _num_samples(X)
    if losses.shape != (n_rows,):
        raise ValueError(
            f"scoring must return one score for each of {n_rows} rows, got shape {losses.shape}."
        )
    large = _LARGEST_LOSS
    bounded = np.nan_to_num(losses, nan=large, posinf=large, neginf=-large)
    return np.asarray(np.clip(bounded, -large, large))
