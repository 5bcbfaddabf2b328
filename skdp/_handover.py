"""Models that can be handed over: as estimators of scikit-learn, and with a card."""

import re
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import numpy as np
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from skdp.decomposition import DPPCA, DPTruncatedSVD
from skdp.linear_model import DPLinearRegression, DPLogisticRegression
from skdp.model_selection import DPGridSearch, DPRandomizedSearch
from skdp.pipeline import DPPipeline
from skdp.pipeline._fitting import FEATURE_ATTRIBUTES
from skdp.pipeline._holders import (
    HOLDERS,
    has_budget,
    instead_of,
    is_stateless,
    private_steps,
)
from skdp.preprocessing import DPStandardScaler
from skdp.units import ResolvedUnit

__all__ = ["to_sklearn"]


def to_sklearn(estimator: Any) -> Any:
    """Make the fitted estimator of scikit-learn that predicts and transforms as one of skdp does.

    What is returned holds released values and public facts, and is a model of scikit-learn alone:
    it loads, and can be converted to other formats, where skdp is not installed.

    Parameters
    ----------
    estimator : estimator
        A fitted :class:`DPPCA`, :class:`DPTruncatedSVD`, :class:`DPLinearRegression`,
        :class:`DPLogisticRegression` or :class:`DPStandardScaler`; a :class:`DPPipeline`, or a
        pipeline or column transformer of scikit-learn, of these and of steps that learn nothing or
        are frozen; or a search of skdp, which stands for its best estimator. It is not changed.

    Returns
    -------
    estimator
        A fitted ``PCA``, ``TruncatedSVD``, ``LinearRegression``, ``LogisticRegression``,
        ``StandardScaler`` or ``Pipeline``, with equal `transform`, `predict`, `predict_proba` and
        `decision_function`, up to rounding.

    Raises
    ------
    NotFittedError
        If the estimator has not been fitted.
    TypeError
        If scikit-learn has no twin of a class, or a step may have learned without privacy.
    ValueError
        If what an estimator does to rows cannot be said in scikit-learn.

    See Also
    --------
    privacy_spent : Whether all steps are private, and what they cost together.

    Notes
    -----
    **Privacy.** No data are read and nothing is spent: a function of released values and public
    parameters. No random state, ledger or record is copied. Frozen steps are handed over whole: the
    caller has made sure that they were fitted to public rows.

    What skdp does besides becomes a step of a ``Pipeline``. A `DPStandardScaler` that clips is
    followed by a ``MinMaxScaler(clip=True)``, and comes after a ``SimpleImputer`` if it fills gaps;
    without centering its clip has no twin and is refused. A `DPLinearRegression` that clips
    features is preceded by two scalers: one clips, the next takes rows back to the units of the
    data. Then the twin takes dense rows only.

    With ``whiten=True``, `explained_variance_` is at least `noise_variance_`, as the coordinates
    are divided by its root. Names of the columns of components begin with ``pca``. Units that
    divide rows before they are projected, such as :class:`skdp.units.Interaction`, are refused.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdp import DPLogisticRegression, DPStandardScaler, make_dp_pipeline, to_sklearn
    >>> X, y = load_digits(return_X_y=True)
    >>> scaler, classifier = DPStandardScaler(bounds=(0, 16)), DPLogisticRegression(classes=[0, 1])
    >>> model = make_dp_pipeline(scaler, classifier, epsilon=2.0).fit(X, y > 4)
    >>> twin = to_sklearn(model)
    >>> twin[-1]
    LogisticRegression()
    >>> bool((twin.predict(X) == model.predict(X)).all())
    True
    """
    return _twin_of(estimator)


def _twin_of(model: Any, *, is_public: bool = False) -> Any:
    """Make the twin of a part; one that was fitted to public rows may have learned anything."""
    kind = type(model)
    if isinstance(model, str) or model is None:
        return model
    if kind in _TWINS:
        check_is_fitted(model)
        return _TWINS[kind](model)
    if kind is FrozenEstimator:
        return FrozenEstimator(_twin_of(model.estimator, is_public=True))
    if kind is Pipeline:
        return _pipeline_of(model.steps, is_public=is_public)
    if kind in HOLDERS:
        return _holder_of_twins(model, is_public=is_public)
    if is_stateless(model) or (is_public and not private_steps(model)):
        return deepcopy(model)
    raise TypeError(_refusal(model))


def _refusal(model: Any) -> str:
    name = type(model).__name__
    if hasattr(model, "best_estimator_"):
        return f"{name} keeps scores: pass its best_estimator_ to to_sklearn."
    if has_budget(model) or private_steps(model):
        twins = ", ".join(kind.__name__ for kind in _TWINS)
        return (
            f"{name} has no twin in scikit-learn, only {twins} have. Hand over its released "
            "attributes as arrays, or a pickle for those who have skdp."
        )
    return (
        f"{name} may have learned without privacy, and would be handed over with what it learned: "
        f"use {instead_of(model)}, or a FrozenEstimator that was fitted to public rows."
    )


# ------------------------------
# Estimators.


def _copied(model: Any, twin: Any, *names: str) -> Any:
    """Copy public facts about features, and released values, to a twin."""
    for name in (*names, *(set(FEATURE_ATTRIBUTES) & vars(model).keys())):
        setattr(twin, name, deepcopy(getattr(model, name)))
    return twin


# Released attributes of components that PCA and TruncatedSVD have, too.
_VARIANCES = ("explained_variance_", "explained_variance_ratio_", "singular_values_")


def _check_rows_stay(model: Any) -> None:
    if type(model._unit).normalize is not ResolvedUnit.normalize:
        raise ValueError(
            f"{type(model).__name__} with privacy_unit={model.privacy_unit!r} divides each row by "
            "the root of its sum, which no twin does. Hand over components_ as an array, and "
            "divide rows so before they are multiplied by it."
        )


def _pca(model: DPPCA) -> PCA:
    _check_rows_stay(model)
    twin = PCA(n_components=model.n_components_, whiten=model.whiten)
    names = ("components_", "mean_", "noise_variance_", "n_components_", "n_samples_")
    _copied(model, twin, *names, *_VARIANCES)
    if model.whiten:
        twin.explained_variance_ = model._whitening_stds() ** 2
    return twin


def _truncated_svd(model: DPTruncatedSVD) -> TruncatedSVD:
    _check_rows_stay(model)
    twin = TruncatedSVD(n_components=len(model.components_))
    return _copied(model, twin, "components_", *_VARIANCES)


def _logistic_regression(model: DPLogisticRegression) -> LogisticRegression:
    return _copied(model, LogisticRegression(), "classes_", "coef_", "intercept_")


def _linear_regression(model: DPLinearRegression) -> Any:
    twin = LinearRegression(fit_intercept=model.fit_intercept)
    _copied(model, twin, "coef_", "intercept_")
    if model.feature_bounds_ is None:
        return twin
    low, high = model.feature_bounds_.astype(np.float64)
    return _steps({**_clip_between(model, low, high), "predict": twin})


def _standard_scaler(model: DPStandardScaler) -> Any:
    if model.clip is not None and not model.with_mean:
        raise ValueError(
            "A DPStandardScaler with with_mean=False clips each column in a range of its own, "
            f"which no twin does to sparse rows, got clip={model.clip:g}: fit with clip=None, or "
            "dense rows with with_mean=True."
        )
    steps: dict[str, Any] = {}
    if model._takes_gaps:
        # Takes long to import.
        from sklearn.impute import SimpleImputer

        # The mean of a single row is that row.
        steps["fill"] = _copied(model, SimpleImputer().fit(model.mean_[np.newaxis]))
    twin = StandardScaler(with_mean=model.with_mean)
    steps["scale"] = _copied(model, twin, "mean_", "var_", "scale_", "n_samples_seen_")
    if model.clip is not None:
        clip = MinMaxScaler((-model.clip, model.clip), clip=True)
        ends = np.outer([-model.clip, model.clip], np.ones(model.n_features_in_))
        steps["clip"] = _copied(model, clip.fit(ends))
    return _steps(steps)


def _clip_between(model: Any, low: np.ndarray, high: np.ndarray) -> dict[str, Any]:
    """Clip each column between its own ends: map these to 0 and 1, clip there, and map back."""
    width = high - low
    # One that is lost in rounding is a constant.
    divisor = np.where(width > 0, width, 1.0)
    clip = _copied(model, MinMaxScaler(clip=True))
    clip.data_min_, clip.data_max_, clip.data_range_ = low, high, width
    clip.scale_ = (width > 0) / divisor
    clip.min_ = -low * clip.scale_
    clip.n_samples_seen_ = 2
    back = _copied(model, StandardScaler())
    back.mean_, back.scale_ = -low / divisor, 1 / divisor
    back.var_, back.n_samples_seen_ = np.square(back.scale_), 2
    return {"clip": clip, "units": back}


# ------------------------------
# Estimators that hold others.


def _steps(steps: dict[str, Any]) -> Any:
    """Make a pipeline of several steps. Its first one passes arrays on, which have no names."""
    first, *others = steps.values()
    for step in others:
        vars(step).pop("feature_names_in_", None)
    return Pipeline([*steps.items()]) if others else first


# What columns of components are called after our classes, and not after their twins.
_OUR_NAME = re.compile(r"(?:\b|(?<=_))dp(?=(?:pca|truncatedsvd)\d)")


def _pipeline_of(steps: Iterable[tuple[str, Any]], *, is_public: bool = False) -> Pipeline:
    """Make a pipeline of twins; it has neither the memory nor the callbacks of the first one."""
    twins = [(name, _twin_of(step, is_public=is_public)) for name, step in steps]
    for _, twin in twins[1:]:
        first = twin[0] if type(twin) is Pipeline else twin
        if "feature_names_in_" in getattr(first, "__dict__", ()):
            names = first.feature_names_in_
            first.feature_names_in_ = np.array([_OUR_NAME.sub("", one) for one in names], object)
    return Pipeline(twins)


def _holder_of_twins(holder: Any, *, is_public: bool) -> Any:
    """Copy an estimator of scikit-learn, with twins in the places of its parts."""
    parts = HOLDERS[type(holder)]
    twins = {name: _twin_of(part, is_public=is_public) for name, part in parts.fitted(holder)}
    both = [*parts.given(holder), *parts.fitted(holder)]
    # A part that got no columns was not fitted. Names of steps are no parts.
    memo = {id(part): twins.get(name, "drop") for name, part in both if not isinstance(part, str)}
    return deepcopy(holder, memo)


_TWINS: dict[type, Callable[[Any], Any]] = {
    DPPCA: _pca,
    DPTruncatedSVD: _truncated_svd,
    DPLinearRegression: _linear_regression,
    DPLogisticRegression: _logistic_regression,
    DPStandardScaler: _standard_scaler,
    DPPipeline: lambda model: _pipeline_of(model.pipeline_.steps),
    DPGridSearch: lambda model: _twin_of(model.best_estimator_),
    DPRandomizedSearch: lambda model: _twin_of(model.best_estimator_),
}
