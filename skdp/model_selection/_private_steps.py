"""The private steps of an estimator, such as a pipeline, and the noise that each of them has."""

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.preprocessing import Binarizer, FunctionTransformer, Normalizer

from skdp._estimator import PrivateEstimator
from skdp.privacy.cost import largest_epsilon

__all__ = ["epsilon_of_mu", "is_passed_through", "is_stateless", "private_steps"]

# Classes that learn nothing. Not the tag requires_fit=False, which that of a Gaussian process is,
# too; and no subclasses, which may learn.
_STATELESS = frozenset(
    {
        AdditiveChi2Sampler,
        Binarizer,
        FeatureHasher,
        FunctionTransformer,
        HashingVectorizer,
        Normalizer,
    }
)


def private_steps(estimator: BaseEstimator) -> dict[str, PrivateEstimator]:
    """Return the private estimators within another, by prefixes such as ``"dppca__"`` or ""."""
    if isinstance(estimator, PrivateEstimator):
        return {"": estimator}
    parameters = estimator.get_params(deep=True)
    frozen = tuple(f"{name}__" for name in parameters if is_passed_through(parameters[name]))
    return {
        f"{name}__": value
        for name, value in parameters.items()
        if isinstance(value, PrivateEstimator) and not f"{name}__".startswith(frozen)
    }


def epsilon_of_mu(step: Any, mu: float) -> float:
    """Compute the epsilon at which a private estimator spends that mu, rounded down."""
    return largest_epsilon(mu, float(step.delta), step._cost().delta_tail)


def is_stateless(step: Any) -> bool:
    """Tell whether an estimator learns nothing from rows that it is fitted to."""
    return type(step) in _STATELESS


def is_passed_through(step: Any) -> bool:
    """Tell whether a step was fitted before, or is none."""
    is_none = step is None or (isinstance(step, str) and step in ("passthrough", "drop"))
    # No subclass, which may fit what it holds.
    return is_none or type(step) is FrozenEstimator
