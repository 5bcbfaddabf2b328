"""Which steps of an estimator are private, learn nothing, or are not fitted."""

from collections.abc import Callable
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.preprocessing import Binarizer, FunctionTransformer, Normalizer, OneHotEncoder

from skdp._estimator import PrivateEstimator

# Classes that learn nothing, some only where parameters say all; their subclasses may learn. The
# tag requires_fit=False is no proof: a Gaussian process has it too.
_STATELESS: dict[type, dict[str, Callable[[Any], bool]]] = {
    **{kind: {} for kind in (AdditiveChi2Sampler, Binarizer, FeatureHasher)},
    **{kind: {} for kind in (FunctionTransformer, HashingVectorizer, Normalizer)},
    OneHotEncoder: {
        "categories": lambda given: not isinstance(given, str),
        "handle_unknown": lambda given: given == "ignore",
        "min_frequency": lambda given: given is None,
        "max_categories": lambda given: given is None,
    },
    SimpleImputer: {
        "strategy": lambda given: given == "constant",
        "keep_empty_features": bool,
        "add_indicator": lambda given: not given,
    },
}


# What to take in the place of steps that learn without privacy, by the names of their classes. A
# sparse or robust regression has no twin: ours is least squares.
_TWINS = {
    name: twin
    for twin, names in {
        "DPLinearRegression": ("LinearRegression", "Ridge", "RidgeCV"),
        "DPLogisticRegression": ("LogisticRegression", "LogisticRegressionCV"),
        "DPPCA": ("IncrementalPCA", "PCA"),
        "DPStandardScaler": ("RobustScaler", "StandardScaler"),
        "DPStandardScaler, or a FunctionTransformer with public ends of the columns": (
            "MaxAbsScaler",
            "MinMaxScaler",
        ),
        "DPTruncatedSVD": ("TruncatedSVD",),
        'OneHotEncoder(categories=[...], handle_unknown="ignore")': ("OneHotEncoder",),
        'SimpleImputer(strategy="constant", keep_empty_features=True)': ("SimpleImputer",),
    }.items()
    for name in names
}


class SharedBudget:
    """Marks an estimator of steps that share its budget: it has one record, and no step has."""

    steps: Any
    shares: Any


def has_budget(estimator: Any) -> bool:
    """Tell whether an estimator has a budget of its own."""
    return isinstance(estimator, PrivateEstimator | SharedBudget)


def private_steps(estimator: BaseEstimator) -> dict[str, Any]:
    """Return what has a budget within an estimator, by prefixes such as ``"dppca__"`` or ""."""
    if has_budget(estimator):
        return {"": estimator}
    parameters = estimator.get_params(deep=True)
    # What these hold is not fitted, or has no budget of its own.
    whole = tuple(
        f"{name}__"
        for name, value in parameters.items()
        if is_passed_through(value) or isinstance(value, SharedBudget)
    )
    return {
        f"{name}__": value
        for name, value in parameters.items()
        if has_budget(value) and not name.startswith(whole)
    }


def is_stateless(step: Any) -> bool:
    """Tell whether an estimator learns nothing from the rows that it is fitted to."""
    conditions = _STATELESS.get(type(step))
    return conditions is not None and all(
        accepts(getattr(step, name)) for name, accepts in conditions.items()
    )


def instead_of(step: Any) -> str:
    """Name what to take in the place of a step that may learn without privacy."""
    return _TWINS.get(type(step).__name__, "a private step, or one that learns nothing")


def is_passed_through(step: Any) -> bool:
    """Tell whether a fit leaves a step as it is: it is frozen, "passthrough", "drop" or None."""
    is_none = step is None or (isinstance(step, str) and step in ("passthrough", "drop"))
    # A subclass may fit what it holds.
    return is_none or type(step) is FrozenEstimator
