"""What scikit-learn's holders of other estimators learn themselves, without privacy."""

from collections.abc import Callable
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.ensemble import BaggingClassifier, BaggingRegressor, VotingClassifier, VotingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer

from skdp.decomposition import DPPCA, DPLowRankFactorizer, DPTruncatedSVD
from skdp.pipeline._composition import private_steps
from skdp.preprocessing import DPStandardScaler

# What a holder learns itself, or gives away, in the words of a report.
_CLASSES = "learned from y, without privacy, which classes there are"
_SEEDS = "gives its members seeds that may be guessed, and keeps these"
_REPEATS = "has memory, which repeats a fit, noise and all, where the data are the same"
_DENSITY = "may have learned from the data how dense its output is (sparse_threshold=0)"
_COLUMNS = "chose columns by a function, which may look at values"
_INVERSE = "warns by the values whether functions are inverse to each other (check_inverse=False)"

# Transformers whose output is always dense.
_GIVES_DENSE = frozenset({DPPCA, DPLowRankFactorizer, DPTruncatedSVD})


def complaint_of(estimator: Any) -> str | None:
    """Say what a holder has learned itself, without privacy; empty if nothing.

    None stands for what is not known, as of a subclass.
    """
    complain = _COMPLAINTS.get(type(estimator))
    return None if complain is None else complain(estimator)


def complaint_of_function(step: Any) -> str:
    """Say what a step that learns nothing gives away of the rows nevertheless; empty if nothing."""
    if not isinstance(step, FunctionTransformer):
        return ""
    is_checked = step.check_inverse and step.func is not None and step.inverse_func is not None
    return _INVERSE if is_checked else ""


def _of_columns(holder: Any) -> str:
    columns = [chosen for _, _, chosen in holder.transformers]
    if any(callable(one) and type(one) is not make_column_selector for one in columns):
        return _COLUMNS
    return "" if _is_dense(holder) else _DENSITY


def _of_pipeline(holder: Any) -> str:
    # The last step is never cached.
    cached = [step for _, step in holder.steps[:-1]] if holder.memory is not None else []
    are_estimators = (step for step in cached if isinstance(step, BaseEstimator))
    return _REPEATS if any(map(private_steps, are_estimators)) else ""


def _is_dense(part: Any) -> bool:
    """Tell whether what a transformer returns is dense, whatever it gets."""
    if isinstance(part, str):
        return part == "drop"
    if type(part) is FrozenEstimator:
        return _is_dense(part.estimator)
    if type(part) is FeatureUnion:
        return all(_is_dense(one) for _, one in part.transformer_list)
    if type(part) is Pipeline:
        steps = [step for _, step in part.steps if step is not None and step != "passthrough"]
        return bool(steps) and _is_dense(steps[-1])
    if type(part) is ColumnTransformer:
        parts = [*(one for _, one, _ in part.transformers), part.remainder]
        return part.sparse_threshold == 0 or all(map(_is_dense, parts))
    # A scaler that centers takes no sparse rows.
    is_centered = type(part) is DPStandardScaler and part.with_mean
    return is_centered or type(part) in _GIVES_DENSE


_COMPLAINTS: dict[type, Callable[[Any], str]] = {
    BaggingClassifier: lambda holder: _SEEDS,
    BaggingRegressor: lambda holder: _SEEDS,
    ColumnTransformer: _of_columns,
    FeatureUnion: lambda holder: "",
    MultiOutputClassifier: lambda holder: _CLASSES,
    MultiOutputRegressor: lambda holder: "",
    Pipeline: _of_pipeline,
    TransformedTargetRegressor: lambda holder: _INVERSE if holder.check_inverse else "",
    VotingClassifier: lambda holder: _CLASSES,
    VotingRegressor: lambda holder: "",
}
