"""Published models that fits use as priors: the arrays of each model, and checks."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from skdp.exceptions import shortened, shown
from skdp.preprocessing import DPStandardScaler

#: What errors call a prior of covariances.
NORMAL_LAW = "an EmpiricalCovariance, a PCA or a tuple (location, covariance)"
#: Name of the release that sets the weight of a prior.
AGREEMENT = "prior agreement"
#: What errors call the names of columns.
FEATURES = "names of features"
#: The arrays of a prior, such as coefficients and intercept; then the classes of a classifier.
Values = tuple[Any, ...]


class PriorParameter:
    """Descriptor of the parameter `prior`: stores arrays and column names of a fitted model.

    scikit-learn's `clone` would replace the model itself by an unfitted one. Models without the
    arrays, and other objects, are stored unchanged, and a fit refuses them.
    """

    def __init__(self, values_of: Callable[[Any], Values]) -> None:
        self._values_of = values_of

    def __get__(self, estimator: Any, _: type) -> Any:
        # Read from the class, the descriptor is the default value of the parameter.
        return None if estimator is None else vars(estimator)["prior"]

    def __set__(self, estimator: Any, value: Any) -> None:
        model = _innermost(value)
        if hasattr(model, "fit"):
            try:
                names = getattr(model, "feature_names_in_", None)
                columns = None if names is None else tuple(map(str, names))
                value = (*self._values_of(model), columns)
            except (AttributeError, TypeError, ValueError):
                value = model
        vars(estimator)["prior"] = value


def _innermost(model: Any) -> Any:
    """Return the fitted model in a frozen estimator, search or pipeline of skdp, or `model`."""
    if isinstance(model, FrozenEstimator):
        model = model.estimator
    for name in ("best_estimator_", "pipeline_"):
        model = vars(model).get(name, model) if hasattr(model, "fit") else model
    return model


def linear_model(model: Any) -> Values:
    """Return coefficients and intercept of a linear model; in a pipeline, for unscaled rows."""
    *steps, last = (one for _, one in model.steps) if isinstance(model, Pipeline) else (model,)
    coef, intercept = np.array(last.coef_, np.float64), np.array(last.intercept_, np.float64)
    for step in map(_innermost, reversed(steps)):
        if not isinstance(step, StandardScaler | DPStandardScaler):
            raise TypeError
        coef = coef / (1.0 if step.scale_ is None else step.scale_)
        intercept = intercept - coef @ (step.mean_ if step.with_mean else 0 * step.mean_)
    return coef, intercept


def linear_classifier(model: Any) -> Values:
    """Return coefficients, intercepts and classes of a linear classifier."""
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    coef, intercept = linear_model(model)
    classes = tuple(np.asarray(last.classes_).tolist())
    return np.atleast_2d(coef), intercept, classes  # a RidgeClassifier has one axis for two classes


def mean_and_covariance(model: Any) -> Values:
    """Return mean and covariance of a model that has both."""
    has_own = hasattr(model, "covariance_")
    covariance = model.covariance_ if has_own else model.get_covariance()
    mean = model.location_ if has_own else model.mean_
    return np.array(mean, np.float64), np.array(covariance, np.float64)


def check_prior(
    prior: Any, expected: str, shapes: Iterable[tuple[int, ...]], facts: dict[str, Any]
) -> tuple[np.ndarray, ...]:
    """Return the arrays of a prior in float64; refuse other shapes, classes or names of columns."""
    shapes, hint = [*shapes], ""
    if hasattr(prior, "fit"):
        try:
            check_is_fitted(prior)
        except NotFittedError:
            hint = " Call fit on public rows; if a clone has undone it, pass a FrozenEstimator."
        if isinstance(prior, Pipeline):
            hint += " In a pipeline, only standard scalers may come before the model."
    arrays: list[np.ndarray] = []
    if isinstance(prior, tuple) and 0 <= len(prior) - len(shapes) <= len(facts):
        try:
            arrays = [np.array(one, np.float64) for one in prior[: len(shapes)]]
        except (TypeError, ValueError):
            hint = " One of its arrays has an entry that is not a number."
    if not arrays:
        raise ValueError(
            f"prior must be {expected}, or None, got {shown(type(prior).__name__)}.{hint}"
        )
    for one, shape in zip(arrays, shapes, strict=True):
        if one.shape != shape:
            raise ValueError(
                f"prior has an array of shape {one.shape} where X asks for {shape}: fit a model "
                "of this kind to the columns of this X, in their order, and to the same classes."
            )
        if not np.isfinite(one).all():
            raise ValueError("prior must have finite numbers only.")
        if expected == NORMAL_LAW and one.ndim == 2 and not np.allclose(one, one.T):
            raise ValueError("prior must have a symmetric matrix as its covariances.")
    # Behind its arrays, a prior may have classes and names of columns.
    for own, (what, of_fit) in zip(prior[len(shapes) :], facts.items(), strict=False):
        if not (own is None or of_fit is None or [*own] == [*of_fit]):
            wanted, given = (shortened([*map(str, names)]) for names in (of_fit, own))
            raise ValueError(f"prior must have the {what} {wanted}, in this order, got {given}.")
    return tuple(arrays)
