"""Which steps are private, learn nothing or contain other estimators, and why steps are refused."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cache, partial
from inspect import getclosurevars, signature
from itertools import chain
from numbers import Real
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType
from typing import Any, ClassVar

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.compose._column_transformer import _is_empty_column_selection
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
)
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import _BaseComposition, available_if
from sklearn.utils.validation import check_is_fitted

from skdp._estimator import PrivateEstimator, check_unwatched
from skdp._validation import SeededEstimator, by_chunks, call_steps, in_parts
from skdp.data.containers import checked_container
from skdp.exceptions import named
from skdp.privacy import PrivacySpent

# ------------------------------
# Which steps are private, learn nothing, or are not fitted.


@cache
def _stateless() -> dict[type, dict[str, Callable[[Any], bool]]]:
    """Return the classes that learn nothing, with conditions on their parameters.

    A subclass may learn. The tag requires_fit=False proves nothing: even a Gaussian process has it.
    """
    # Imported here, as importing imputers takes long.
    from sklearn.feature_extraction import FeatureHasher
    from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
    from sklearn.impute import MissingIndicator, SimpleImputer

    functions = ("analyzer", "preprocessor", "strip_accents", "tokenizer")
    encoder = {
        "categories": lambda given: not isinstance(given, str),
        **dict.fromkeys(("min_frequency", "max_categories"), lambda given: given is None),
    }
    words = {
        "vocabulary": lambda given: given is not None,
        "input": lambda given: given == "content",
        **dict.fromkeys(functions, lambda given: not callable(given)),
    }
    values = ("unknown_value", "encoded_missing_value")
    return {
        **{kind: {} for kind in (AdditiveChi2Sampler, Binarizer, FeatureHasher)},
        **{kind: {} for kind in (FunctionTransformer, HashingVectorizer, Normalizer)},
        PolynomialFeatures: {},
        CountVectorizer: words,
        TfidfVectorizer: {**words, "use_idf": lambda given: not given},
        MissingIndicator: {"features": lambda given: given == "all"},
        OneHotEncoder: {**encoder, "handle_unknown": lambda given: given in ("error", "ignore")},
        OrdinalEncoder: {
            **encoder,
            "handle_unknown": lambda given: given == "use_encoded_value",
            **dict.fromkeys(values, lambda given: isinstance(given, Real) and math.isfinite(given)),
        },
        SplineTransformer: {
            "knots": lambda given: not isinstance(given, str),
            "extrapolation": lambda given: given != "error",
        },
        SimpleImputer: {
            "strategy": lambda given: given == "constant",
            "add_indicator": lambda given: not given,
        },
    }


#: What to use in place of a step that may learn without privacy, by the name of its class. No entry
#: replaces sparse and robust regressions, as skdp has only least squares.
TWINS = {
    name: twin
    for names, twin in {
        "LinearRegression Ridge RidgeCV": "DPLinearRegression",
        "LogisticRegression LogisticRegressionCV": "DPLogisticRegression",
        "IncrementalPCA PCA": "DPPCA",
        "RobustScaler StandardScaler": "DPStandardScaler",
        "MaxAbsScaler MinMaxScaler": "DPStandardScaler, or a FunctionTransformer with public ends",
        "TruncatedSVD": "DPTruncatedSVD",
        "TransformedTargetRegressor": "func and inverse_func, plain functions, and no transformer, "
        "around a private regression as the last step; or put it around the whole pipeline, "
        "or search, with check_inverse=False",
        "TunedThresholdClassifierCV": "class_weight of the classifier, "
        "which a DPGridSearch may choose",
        "FunctionTransformer HashingVectorizer": "plain functions",
        "CountVectorizer TfidfVectorizer": "HashingVectorizer, or CountVectorizer(vocabulary=[...])"
        " or TfidfVectorizer(vocabulary=[...], use_idf=False) of texts and without functions",
        "MissingIndicator": "MissingIndicator(features='all')",
        "TfidfTransformer": "Normalizer(), which scales texts to one length",
        "OneHotEncoder TargetEncoder": "OneHotEncoder(categories=[...])",
        "GridSearchCV HalvingGridSearchCV": "DPGridSearch around the whole pipeline",
        "HalvingRandomSearchCV RandomizedSearchCV": "DPRandomizedSearch around the whole pipeline",
        "LabelBinarizer LabelEncoder": "no encoder, as labels may be texts",
        "KBinsDiscretizer": "SplineTransformer(degree=0, extrapolation='continue', knots=...) with "
        "an array of public edges",
        "OrdinalEncoder": "OrdinalEncoder(categories=[...], handle_unknown='use_encoded_value'), "
        "with finite unknown_value and encoded_missing_value",
        "SplineTransformer": "knots that are an array, and no extrapolation='error'",
        "IterativeImputer KNNImputer SimpleImputer": 'SimpleImputer(strategy="constant"), or '
        'DPStandardScaler(missing="mean")',
    }.items()
    for name in names.split()
}


class SharedBudget:
    """Marks estimators whose steps share one budget, with one record."""

    steps: Any
    shares: Any
    _validate_names: Any  # method of composed estimators of scikit-learn


def has_budget(estimator: Any) -> bool:
    """Return whether an estimator has the parameters of a budget."""
    return isinstance(estimator, PrivateEstimator | SharedBudget)


def private_steps(estimator: Any) -> dict[str, Any]:
    """Return the estimators with a budget inside an estimator, by prefix, such as ``"dppca__"``."""
    if has_budget(estimator):
        return {"": estimator}
    if is_passed_through(estimator) or not isinstance(estimator, BaseEstimator):
        return {}
    parameters = estimator.get_params(deep=True)
    # Estimators inside a frozen one are not fitted; those in a DPPipeline share its budget.
    skipped = tuple(
        f"{name}__"
        for name, value in parameters.items()
        if is_passed_through(value) or isinstance(value, SharedBudget)
    )
    return {
        f"{name}__": value
        for name, value in parameters.items()
        if has_budget(value) and not name.startswith(skipped)
    }


def is_stateless(step: Any) -> bool:
    """Return whether an estimator learns nothing from the rows of its fit."""
    if type(step) is FeatureUnion:
        return all(is_passed_through(one) or is_stateless(one) for _, one in parts_of(step) or ())
    return type(step) in _stateless() and not (calls_objects(step) or learning_parameters(step))


def learning_parameters(step: Any) -> list[str]:
    """Return the parameters, as ``name=value``, that make a step of a stateless class learn."""
    conditions = _stateless().get(type(step), {})
    given = {name: getattr(step, name) for name in conditions}
    return [f"{name}={value!r}" for name, value in given.items() if not conditions[name](value)]


def calls_objects(step: Any) -> bool:
    """Return whether a step of a stateless class calls objects that may learn or store rows."""
    return type(step) in _stateless() and not _calls_only_functions(step.get_params(deep=False))


# Types of callables that learn nothing, besides functions of Python.
_LEARN_NOTHING = (BuiltinFunctionType, MethodDescriptorType, np.ufunc, type(np.mean), type)


def _calls_only_functions(given: Any, met: frozenset[int] = frozenset()) -> bool:
    """Return whether parameters contain no callable objects but functions, as far as can be seen.

    Other callable objects, such as methods of estimators and caches, may learn or store rows. `met`
    has the ids of the objects around these parameters, as an object may contain itself.
    """
    contents: Iterable[Any] = given if isinstance(given, list | tuple) else ()
    if hasattr(given, "fit") and hasattr(given, "get_params"):
        return is_stateless(given)
    if isinstance(given, Mapping):
        contents = given.values()
    elif isinstance(given, partial):
        contents = given.func, given.args, given.keywords
    elif isinstance(given, FunctionType):
        used = getclosurevars(given)
        # Functions of modules that a function calls are not inspected.
        named = [one for one in used.globals.values() if hasattr(one, "get_params")]
        contents = used.nonlocals, named, given.__defaults__, given.__kwdefaults__, vars(given)
    elif callable(given):
        return isinstance(given, _LEARN_NOTHING)
    return id(given) in met or all(
        _calls_only_functions(one, met | {id(given)}) for one in contents
    )


def is_public_target(step: Any) -> bool:
    """Return whether a step is a private regression with public functions of the responses."""
    if type(step) is not TransformedTargetRegressor or step.transformer is not None:
        return False
    functions = [step.func, step.inverse_func]
    is_private = isinstance(step.regressor, PrivateEstimator)
    return is_private and None not in functions and _calls_only_functions(functions)


def instead_of(step: Any) -> str:
    """Name a private replacement for a step that may learn without privacy."""
    return TWINS.get(type(step).__name__, "a private step, or one that learns nothing")


def is_passed_through(step: Any) -> bool:
    """Return whether a step is never fitted: frozen, "passthrough", "drop" or None."""
    is_none = step is None or (isinstance(step, str) and step in ("passthrough", "drop"))
    # A subclass of FrozenEstimator may fit the estimator inside.
    return is_none or type(step) is FrozenEstimator


# Behind a private step, errors and warnings would show single rows. So only these exact classes may
# stand there: they map each row by itself, and refuse no finite number.
_TAKE_ALL_ROWS = (Binarizer, Normalizer, PolynomialFeatures, SplineTransformer)
#: The steps that may stand behind a private step, as errors name them.
TAKE_ALL_ROWS = (
    "Binarizer, Normalizer, PolynomialFeatures, SplineTransformer with an array of knots, and "
    "ColumnTransformer and FeatureUnion of these, 'passthrough' and 'drop'"
)


def takes_all_rows(step: Any) -> bool:
    """Return whether a step may follow a private one: it maps each row by itself, and refuses none.

    Its parameters are not checked here: `made_of_extremes` tries the step on the largest numbers.
    """
    if is_columns(step) or type(step) is FeatureUnion:
        parts = [part for _, part in parts_of(step) or ()]
        # Functions that choose columns, and a ColumnTransformer within another one, are refused.
        is_flat = not any(map(is_columns, parts)) or not is_columns(step)
        is_given = not any(callable(one[2]) for one in getattr(step, "transformers", ()))
        return is_flat and is_given and all(map(takes_all_rows, parts))
    if step is None or isinstance(step, str):
        return step in (None, "passthrough", "drop")
    return type(step) in _TAKE_ALL_ROWS and is_stateless(step)


def keeps_columns(step: Any) -> bool:
    """Return whether the columns of a step's output match those of its input, by place and name."""
    if is_passed_through(step):
        return type(step) is not FrozenEstimator
    # Fitted to public rows, an imputer drops no column.
    is_imputer = type(step).__name__ == "SimpleImputer" and is_stateless(step)
    is_declared = getattr(step, "feature_names_out", None) == "one-to-one"
    return is_imputer or is_declared or isinstance(step, OneToOneFeatureMixin)


# ------------------------------
# Estimators that contain other estimators, and are known to fit each of them once.

# Parameters that contain an estimator. The fitted estimator is in the attribute named after the
# parameter, with "_" at the end.
_IN_ATTRIBUTES = {
    FixedThresholdClassifier: ("estimator",),
    TransformedTargetRegressor: ("transformer", "regressor"),
}


def parts_of(holder: Any, *, is_fitted: bool = False) -> Sequence[tuple[str, Any]] | None:
    """Return the estimators inside an estimator, by name; None for a class without such parts.

    A subclass counts as a class without parts: it may fit parts several times, and store rows.
    """
    kind = type(holder)
    if kind is Pipeline or kind is FeatureUnion:
        return list(holder.steps if kind is Pipeline else holder.transformer_list)
    if kind is not ColumnTransformer and kind not in _IN_ATTRIBUTES:
        return None
    if is_fitted:
        check_is_fitted(holder)
    if kind is not ColumnTransformer:
        end = "_" if is_fitted else ""
        return [(name, getattr(holder, name + end)) for name in _IN_ATTRIBUTES[kind]]
    if is_fitted:
        return [(name, part) for name, part, _ in fitted_parts(holder)]
    return [*(one[:2] for one in holder.transformers), ("remainder", holder.remainder)]


def fitted_parts(holder: Any) -> list[tuple[str, Any, Any]]:
    """Return names, transformers and columns of a fitted ColumnTransformer."""
    # Columns of dropped parts are not read: old versions of scikit-learn would warn.
    used = [one for one in holder.transformers_ if type(one[1]) is not str or one[1] != "drop"]
    # Parts without columns are not fitted.
    return [one for one in used if not _is_empty_column_selection(one[2])]


# ------------------------------
# Strict encoders, which refuse unknown categories. In a fit they accept all rows, as the rows have
# been checked before.


class _IgnoreDuringFit(str):
    """The value "ignore" of `handle_unknown` during a fit; `make_strict` finds it by its type."""

    __slots__ = ()


def is_strict(step: Any) -> bool:
    """Return whether an encoder refuses unknown categories, now or after the fit."""
    given = step.handle_unknown if type(step) is OneHotEncoder else None
    return given == "error" or isinstance(given, _IgnoreDuringFit)


def leaves_of(estimator: Any, *, is_fitted: bool) -> Iterator[Any]:
    """Yield the innermost estimators of an estimator: itself, if it has no parts."""
    parts = parts_of(estimator, is_fitted=is_fitted)
    if parts is None:
        yield estimator
        return
    for _, part in parts:
        yield from leaves_of(part, is_fitted=is_fitted)


def refuses_unknown(estimator: Any, *, is_fitted: bool = False) -> bool:
    """Return whether an estimator contains a strict encoder."""
    return any(map(is_strict, leaves_of(estimator, is_fitted=is_fitted)))


def lenient(estimator: Any) -> Any:
    """Make encoders accept all rows, and imputers keep empty columns; copy if anything changes."""
    if not any(map(_lenient_parameters, leaves_of(estimator, is_fitted=False))):
        return estimator
    changed = clone(estimator)
    for step in leaves_of(changed, is_fitted=False):
        if given := _lenient_parameters(step):
            step.set_params(**given)
    return changed


def _lenient_parameters(step: Any) -> dict[str, Any]:
    """Return the parameters of an encoder or imputer that differ during a fit."""
    if is_strict(step):
        return {"handle_unknown": _IgnoreDuringFit("ignore")}
    return {"keep_empty_features": True} if type(step).__name__ == "SimpleImputer" else {}


def make_strict(estimator: Any) -> Any:
    """Set the strict encoders inside a fitted estimator back to ``handle_unknown="error"``."""
    leaves = partial(leaves_of, estimator)
    for step in chain(leaves(is_fitted=False), leaves(is_fitted=True)):
        if isinstance(getattr(step, "handle_unknown", None), _IgnoreDuringFit):
            step.set_params(handle_unknown="error")
    return estimator


# ------------------------------
# A ColumnTransformer and its private parts.


def is_columns(step: Any) -> bool:
    """Return whether a step is a ColumnTransformer, and not of a subclass."""
    return type(step) is ColumnTransformer


def last_of(part: Any) -> Any:
    """Return the last step of a Pipeline, or any other estimator itself."""
    return part.steps[-1][1] if type(part) is Pipeline and part.steps else part


def private_parts(step: Any) -> list[tuple[str, Any, Any]]:
    """Return the name, the estimator and the columns of each part that ends with a private step."""
    return [one for one in step.transformers if has_budget(last_of(one[1]))]


def ending_with(part: Any, last: Any) -> Any:
    """Return a copy of a part of a ColumnTransformer with another last step."""
    if type(part) is not Pipeline:
        return last
    return Pipeline([*part.steps[:-1], (part.steps[-1][0], last)])


# ------------------------------
# Methods that call the fitted estimator inside.


def _delegates(name: str) -> Callable[[Any], bool]:
    """Return a condition for `available_if`: the estimator inside has a method `name`."""
    return lambda holder: getattr(holder._wrapped(), name) is not None


def _delegated(name: str, does: str) -> Any:
    """Return a method that calls the same method of the fitted estimator inside."""

    def _method(self: Any, X: Any) -> Any:
        return self._applied(name, X)

    _method.__name__, _method.__qualname__ = name, f"DelegatesMixin.{name}"
    _method.__doc__ = f"""{does}, as the fitted estimator does.

        Parameters
        ----------
        X : {{array-like, RowBlocks, dask collection}} of shape (n_samples, n_features)
            Rows, as the `{name}` of the fitted estimator takes them.

        Returns
        -------
        ndarray, or for a RowBlocks or a dask collection what is computed when it is read
            The result of the fitted estimator, which the guarantee does not cover.
        """
    return available_if(_delegates(name))(by_chunks(_method))


class DelegatesMixin(SeededEstimator):
    """Methods of estimators that contain a fitted estimator: predict, transform, score."""

    privacy_spent_: PrivacySpent
    # By default `score` requests no `users`, as not every last step takes them.
    __metadata_request__score: ClassVar[dict[str, Any]] = {"users": False}

    @abstractmethod
    def _wrapped(self) -> Any:
        """Return the fitted estimator or, before a fit, the unfitted one."""

    @abstractmethod
    def _pattern(self) -> Any:
        """Return the estimator to be fitted."""

    predict = _delegated("predict", "Predict")
    predict_proba = _delegated("predict_proba", "Predict probabilities")
    predict_log_proba = _delegated("predict_log_proba", "Predict logarithms of probabilities")
    decision_function = _delegated("decision_function", "Compute the decision function")
    score_samples = _delegated("score_samples", "Score rows")
    transform = _delegated("transform", "Transform rows")
    inverse_transform = _delegated("inverse_transform", "Map transformed rows back")

    @available_if(_delegates("transform"))
    @named
    def fit_transform(self, X: Any, y: Any = None, *, users: Any = None) -> Any:
        """Fit, and transform the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to protect.
        y : array-like of shape (n_samples,) or None, default=None
            Their responses.
        users : array-like of shape (n_samples,) or None, default=None
            Owner of each row, if all private steps have ``privacy_unit="user"``.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            The rows transformed, which the guarantee does not cover.
        """
        return self.fit(X, y, users=users).transform(X)

    @available_if(_delegates("get_feature_names_out"))
    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Get the names of the transformed features.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the features of X.

        Returns
        -------
        ndarray of str
            Names of the transformed features.
        """
        return self._fitted().get_feature_names_out(input_features)

    @available_if(_delegates("score"))
    @named
    def score(self, X: Any, y: Any = None, *, users: Any = None) -> float:
        """Score rows with the fitted estimator.

        Parameters
        ----------
        X : {array-like, RowBlocks, dask collection} of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,) or None, default=None
            Their responses, for a dask collection in the same chunks; None for rows in parts, which
            contain theirs.
        users : array-like of shape (n_samples,) or None, default=None
            Owner of each row, for a last step whose own `score` takes `users`.

        Returns
        -------
        float
            The score of the fitted estimator, which the guarantee does not cover.

        Raises
        ------
        ValueError
            If `users` are passed and the last step takes none.
        """
        last, (X, y) = last_of(self._fitted()), in_parts(X, y)
        if users is not None and "users" not in signature(last.score).parameters:
            raise ValueError(f"users must be None, as {type(last).__name__}.score takes none.")
        given = {} if users is None else {"users": users}
        return float(self._applied("score", X, *(() if y is None else (y,)), **given))

    @property
    def classes_(self) -> Any:
        """Class labels of a classifier."""
        return self._fitted().classes_

    def _applied(self, name: str, X: Any, *more: Any, **users: Any) -> Any:
        """Call a method of the fitted estimator."""
        # For a prediction, a global `set_config` must not make data frames between steps.
        output = {} if "transform" in name else {"transform_output": "default"}
        with config_context(**output):
            method = getattr(self._fitted(), name)
            return call_steps(method, checked_container(X), *more, **users)

    def _fitted(self) -> Any:
        check_is_fitted(self)
        return self._wrapped()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "privacy_spent_")

    def __sklearn_tags__(self) -> Any:
        return get_tags(self._pattern())


# ------------------------------
# The fitted steps of a model, also within other estimators.

#: Names and fitted steps of a model, whose last step predicts or transforms.
Steps = list[tuple[str, Any]]
# Estimators of scikit-learn that change the predictions of an estimator inside, and the attribute
# that has the fitted estimator.
_AROUND_ONE = {
    FixedThresholdClassifier: "estimator_",
    TransformedTargetRegressor: "regressor_",
    TunedThresholdClassifierCV: "estimator_",
}


def fitted_steps(model: Any, name: str = "") -> Steps:
    """Return the steps of a pipeline, also inside other estimators; or the model alone.

    An estimator around a pipeline becomes the last step, as a copy around only the last step of the
    pipeline. The other steps of the pipeline come before this copy.
    """
    if isinstance(model, DelegatesMixin):
        return fitted_steps(model._wrapped())
    if isinstance(model, Pipeline):
        *before, (name, last) = model.steps
        return [*before, *fitted_steps(last, name)]
    kind, name = type(model), name or type(model).__name__
    if kind is FrozenEstimator and len(steps := fitted_steps(model.estimator)) > 1:
        return steps
    if (place := _AROUND_ONE.get(kind)) and hasattr(model, place):
        *before, (_, last) = fitted_steps(getattr(model, place))
        model = copy(model)
        setattr(model, place, last)
        return [*before, (name, model)]
    return [(name, model)]


# ------------------------------
# Reasons to refuse a step that shares a budget.


def not_private(name: str, estimator: Any, *, is_behind: bool) -> Iterator[str]:
    """Yield why a step is refused; `is_behind` says that a private step comes before it."""
    where, kind = f"Step {name!r}: " if name else "estimator: ", type(estimator).__name__
    check_unwatched(where, estimator)
    if flaw := _flaw_of_step(estimator):
        yield where + flaw
        return
    if isinstance(estimator, PrivateEstimator):
        yield from (where + flaw for flaw in set_by_the_whole(estimator))
        return
    if isinstance(estimator, FrozenEstimator):
        unfitted = f"{where}fit the estimator in a FrozenEstimator to public rows first."
        check_is_fitted(estimator, msg=unfitted)
    may_refuse = is_behind and not takes_all_rows(estimator)
    if may_refuse and (is_stateless(estimator) or type(estimator) is FrozenEstimator):
        yield (
            f"{where}{kind} may refuse single rows, which its error would reveal: put it before "
            f"the first private step. What may follow one is {TAKE_ALL_ROWS}."
        )
    elif is_columns(estimator):
        for part, one in parts_of(estimator) or ():
            is_chain = type(one) is Pipeline and one.memory is None and one.steps
            if is_columns(one):
                yield f"{where}a ColumnTransformer within another: list its parts in the outer one."
            elif is_chain and not any(is_columns(step) for _, step in one.steps):
                check_unwatched(where, one)
                yield from _not_private_within(f"{name}__{part}", one)
            elif not has_budget(one):
                yield from not_private(f"{name}__{part}", one, is_behind=False)
    elif not (is_stateless(estimator) or is_passed_through(estimator)):
        learns = f"{kind} may learn from the rows without privacy"
        if given := ", ".join(learning_parameters(estimator)):
            learns = f"{kind} with {given} may learn from the rows, or refuse single ones"
        frozen = "wrap an estimator fitted on public rows in sklearn.frozen.FrozenEstimator"
        frozen += " before the first private step" * is_behind
        use = f"Use {instead_of(estimator)}"
        if isinstance(estimator, FeatureUnion):
            use = "Use steps in it that learn nothing"
        elif isinstance(estimator, _BaseComposition):
            learns, use = f"a {kind} within a Pipeline is no step", "Put its steps there"
        elif isinstance(estimator, FixedThresholdClassifier):
            learns, use = f"{kind} is no step", "Put it around the whole pipeline, or search"
        yield f"{where}{learns}. {use}, or {frozen}."


def _flaw_of_step(estimator: Any) -> str:
    """Return why an object cannot be a step; "" if it can be one."""
    kind = type(estimator).__name__
    if isinstance(estimator, DelegatesMixin):
        return f"a {kind} has a budget of its own: put its steps, or its estimator, in its place."
    if isinstance(estimator, type):
        return f"{estimator.__name__} is a class: pass {estimator.__name__}()."
    if isinstance(estimator, PrivateEstimator) and not hasattr(estimator, "delta"):
        return f"{kind} must have epsilon and delta, which its __init__ takes and stores."
    if hasattr(estimator, "fit") or is_passed_through(estimator):
        return ""
    return (
        f"a {kind} is no estimator: pass estimators one by one, as make_dp_pipeline(scaler, "
        "classifier, epsilon=1.0), and a function as FunctionTransformer(function)."
    )


def set_by_the_whole(estimator: Any) -> Iterator[str]:
    """Yield why the ledger, the seed or the delta of a private step is refused."""
    for parameter in ("ledger", "random_state"):
        if getattr(estimator, parameter) is not None:
            yield (
                f"{parameter} must be None: pass it to the whole. If Bagging has set it, fit one "
                "model."
            )
    if estimator.delta == 0:
        yield "delta must be positive, got 0."


def _not_private_within(path: str, part: Pipeline) -> Iterator[str]:
    """Yield why steps are refused in a Pipeline that is a part of a ColumnTransformer."""
    for inner, one in part.steps:
        if not private_steps(one):
            yield from not_private(f"{path}__{inner}", one, is_behind=False)
        elif one is not last_of(part) or not has_budget(one):
            yield (
                f"Step '{path}__{inner}': a private step must be the last of a Pipeline in a "
                "ColumnTransformer. Put what follows it behind the ColumnTransformer."
            )
