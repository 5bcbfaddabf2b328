"""Checks of parameters and data from users, with errors that show no values."""

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, wraps
from itertools import dropwhile, pairwise, takewhile
from numbers import Integral, Real
from traceback import walk_tb
from types import NoneType
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar, cast, dataclass_transform

import numpy as np
from scipy.sparse import issparse
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.utils import check_array, check_scalar
from sklearn.utils._param_validation import (
    Interval,
    InvalidParameterError,
    Options,
    validate_parameter_constraints,
)
from sklearn.utils._set_output import _auto_wrap_is_configured, _get_output_config
from sklearn.utils.validation import _check_n_features, check_is_fitted, validate_data

from skdp.data import containers
from skdp.data.parts import PartResults, RowBlocks, RowParts, mapped_blocks
from skdp.data.sources import holds_sparse
from skdp.exceptions import INSTEAD, callers, named, shortened, shown, warn_of_privacy
from skdp.ledger import LEFT_OUT, PrivacyLedger
from skdp.privacy.clipping import NO_CLIPPING, SMALLEST_BOUND
from skdp.privacy.noise import GuessableSeed, may_be_guessed
from skdp.privacy.plan import PrivacyCost
from skdp.privacy.precision import as_python

# ------------------------------
# The call stack tells whether scikit-learn prints an estimator.


class _Hidden:
    """Placeholder for a secret value where parameters are printed."""

    def __repr__(self) -> str:
        return "<given>"


HIDDEN = _Hidden()


def is_printing() -> bool:
    """Return whether scikit-learn calls `get_params` to print the parameters.

    No argument of `get_params` tells the purpose of a call: only the call stack does.
    """
    # Functions that the stack may have between this one and the function that prints.
    within = {"is_printing", "get_params", "_get_params"}
    above = dropwhile(lambda caller: caller[1] in within, callers())
    for module, function in takewhile(lambda caller: caller[0].startswith("sklearn."), above):
        if module == "sklearn.utils._pprint" or function == "_get_params_html":
            return True
    return False


# ------------------------------
# Checks of parameters, as plain Python numbers, and seeds that stay secret.

_GENERATORS = (np.random.RandomState, np.random.Generator)
#: Constraint of `random_state`, for estimators whose noise may come from a seed.
SEED: dict[str, Any] = {  # not tuned
    "random_state": [Interval(Integral, 0, None, closed="left"), *_GENERATORS, None]
}
#: Constraints of the budget of pipelines, searches and scores, which need a positive delta.
BUDGET: dict[str, Any] = {  # not tuned
    "epsilon": [Interval(Real, 0, None, closed="right")],
    "delta": [Interval(Real, 0, 1, closed="neither")],
    "ledger": [PrivacyLedger, None],
}
#: Constraint of a count.
AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")  # not tuned
#: Constraint of a public bound.
FINITE_BOUND = Interval(Real, SMALLEST_BOUND, NO_CLIPPING, closed="both")  # not tuned
#: Constraints of a public bound that may be infinite.
ANY_BOUND = (FINITE_BOUND, Options(Real, {np.inf}))
_HIDDEN_PARAMETERS = ("random_state", "ledger")
_PRINTED_AS_THEY_ARE = (NoneType, *_GENERATORS)
# Key of a pickle for the version of skdp that has written the pickle.
_VERSION = "_skdp_version"


T = TypeVar("T")


class PlainParametersMixin:
    """Base of estimators whose parameters are checked as plain Python values."""

    _parameter_constraints: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in vars(cls).keys() & {"__init__", "fit", "plan"}:
            setattr(cls, name, named(vars(cls)[name]))

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {**state, _VERSION: sys.modules["skdp"].__version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        attributes, own = dict(state), sys.modules["skdp"].__version__
        if (other := attributes.pop(_VERSION, "unknown")) != own:
            versions = {"current_sklearn_version": own, "original_sklearn_version": other}
            name = f"{type(self).__name__} of skdp"
            warnings.warn(InconsistentVersionWarning(estimator_name=name, **versions), stacklevel=2)
        super().__setstate__(attributes)  # type: ignore[misc]

    def _validate_params(self) -> None:
        # `get_params` is not called, as it is slow. Subclasses may lack a constrained parameter.
        constraints = self._parameter_constraints
        given = {name: getattr(self, name) for name in constraints if hasattr(self, name)}
        validate_plain(constraints, given, type(self).__name__)


@dataclass_transform(eq_default=False)
def with_parameters(cls: type[T]) -> type[T]:
    """Decorate a class whose fields are the parameters of its constructor, which stores them."""
    made: Any = dataclass(eq=False, repr=False)(cls)
    made.__init__ = named(made.__init__)
    return cast("type[T]", made)


def validate_plain(constraints: dict[str, Any], given: dict[str, Any], caller_name: str) -> None:
    """Check parameters as plain values, such as an int in place of a numpy.int64."""
    values = dict(zip(given, map(as_python, given.values()), strict=True))
    if values.get("ledger") is LEFT_OUT:
        # A pickle has a placeholder instead of a ledger: charging the placeholder raises an error.
        del values["ledger"]
    for name, value in values.items():
        flaw = ""
        try:
            validate_parameter_constraints(constraints, {name: value}, caller_name=caller_name)
        except InvalidParameterError as error:
            flaw = str(error).partition(" Got ")[0]
        # scikit-learn's Interval would take True for 1.
        if isinstance(value, bool) and Interval in map(type, constraints[name]):
            flaw = f"The {name!r} parameter of {caller_name} must not be a bool."
        if flaw:
            # Raised outside the handler, as Python would attach scikit-learn's error, which shows
            # the value.
            cure = INSTEAD.get(f"{name} {type(value).__name__}", "")
            raise InvalidParameterError(f"{flaw} Got {shown(value)} instead. {cure}".rstrip())


def check_sizes(**sizes: Any) -> None:
    """Refuse sizes that are not positive whole numbers."""
    for name, size in sizes.items():
        check_scalar(size, name, Integral, min_val=1)


def warnings_for_settings(
    cost: PrivacyCost, counted: str, n_units: int, seed: Any = None
) -> Iterator[str]:
    """Warn of a seed that may be guessed, and of a delta that allows publishing single units.

    A `GuessableSeed` gives no warning: it is derived from the seed of a pipeline or search, which
    has warned already.
    """
    if cost.is_private and may_be_guessed(seed) and not isinstance(seed, GuessableSeed):
        given = "an int below 2**64" if isinstance(seed, Integral) else type(seed).__name__
        yield (
            f"random_state, {given}, may be guessed, and the noise taken out. Pass None, or "
            "secrets.randbits(128) and keep it secret. If Bagging has set it, fit one model."
        )
    if cost.is_private and cost.delta > 1 / n_units:
        yield (
            f"Some {counted} may be published outright: delta={cost.delta} exceeds one "
            f"over the number of {counted}, {n_units}. Pass delta={0.1 / n_units:.0e}, or less."
        )


class SeededEstimator(PlainParametersMixin, BaseEstimator):
    """Base of estimators with a secret seed, which printed forms and pickles leave out."""

    random_state: Any

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Get the parameters as given. A printed estimator hides its seed and its ledger.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the parameters of parameters that are estimators.

        Returns
        -------
        dict
            Parameter names mapped to their values. If `random_state` is an integer, keep them
            secret: whoever has this seed can remove the noise.
        """
        parameters: dict[str, Any] = super().get_params(deep)
        given = [name for name in _HIDDEN_PARAMETERS if name in parameters]
        hidden = [n for n in given if not isinstance(parameters[n], _PRINTED_AS_THEY_ARE)]
        if hidden and is_printing():
            parameters.update(dict.fromkeys(hidden, HIDDEN))
        return parameters

    def __getstate__(self) -> dict[str, Any]:
        # joblib.Memory pickles an estimator to hash it, and returns a stored fit with equal hash.
        pairs = pairwise(callers())
        if any(outer[0] == "joblib.memory" and inner[1] == "hash" for inner, outer in pairs):
            raise ValueError(
                f"A cache of fits of {type(self).__name__} would reveal whether data are equal: "
                "pass memory=None to the Pipeline."
            )
        # Before a fit, a pickle has seed and ledger: the process that loads it may make the fit.
        state = super().__getstate__()
        return without_secrets(state) if hasattr(self, "privacy_spent_") else state


def without_secrets(state: dict[str, Any]) -> dict[str, Any]:
    """Leave the seed out of a pickle, and replace a ledger by a placeholder."""
    ledger = {} if state.get("ledger") is None else {"ledger": LEFT_OUT}
    # Not every estimator has a seed and a ledger.
    return {**state, **dict.fromkeys({"random_state"} & state.keys()), **ledger}


# ------------------------------
# Checks of data, by scikit-learn and our own, whose errors show no values.

P = ParamSpec("P")
R = TypeVar("R")

#: Arguments of scikit-learn's validation of X.
INPUT = {"accept_sparse": "csr", "dtype": (np.float64, np.float32)}
_SHAPE = r"\([\d, ]*\)"
# Patterns for the beginnings of errors of scikit-learn and numpy, which show shapes and types only.
# The rest of an error may show values, and is cut off.
_TEXTS = (
    r"Expected 2D array, got (?:1D|scalar) array instead",
    rf"Expected 2D input, got input with shape {_SHAPE}",
    r"Expected a 2-dimensional container but got <class '[\w.]+'> instead",
    rf"Found array with \d+ (?:sample|feature)\(s\) \(shape={_SHAPE}\) while a minimum of "
    r"\d+ is required(?: by \w+)?",
    r"Found array with dim \d+(?:, while dim <= 2 is required(?: by \w+)?|\. \w+ expected)",
    r"Found input variables with inconsistent numbers of samples: \[[\d, ]*\]",
    r"Input (?:\w+ )?contains (?:NaN|infinity or a value too large for dtype\('\w+'\))",
    r"Input should have at least 1 dimension",
    r"Complex data not supported",
    r"could not convert string to float",
    r"float\(\) argument must be a string or a (?:real )?number, not '[\w.]+'",
    r"setting an array element with a sequence(?:\. The requested array has an "
    r"inhomogeneous shape after \d+ dimensions)?",
    r"dtype='numeric' is not compatible with arrays of bytes/strings",
    rf"y should be a 1d array, got an array of shape {_SHAPE} instead",
    r"Sparse data was passed[\w' ]*, but dense data is required",
    r"np\.matrix is not supported\. Please convert to a numpy array with np\.asarray",
    r"np\.nan is an invalid document",
    r"(?:at least one array or dtype is required|int too large to convert to float)",
    r"X has \d+ features, but \w+ is expecting \d+ features as input",
    r"X does not contain any features, but \w+ is expecting \d+ features",
    r"Unknown label type: \w+\. [\w ,:]+\.",
    r"Expected sequence or array-like, got <class '[\w.]+'>",
    r"Unable to find the number of features from X of type [\w.]+",
    r"Feature names are only supported if all input features have string names",
    r"Specifying the columns using strings is only supported for dataframes",
    # Feature names are public.
    r"columns are missing: \{.*\}",
    r"Found unknown categories",
    r"The dtype of the filling value[^\n]*? cannot be cast to the input data",
    r"(?s:The feature names should match those that were passed during fit.*)",
)
_KNOWN = re.compile("|".join(_TEXTS))
# Only errors that these packages raise are quoted. Other code, such as a method of an object in X,
# could raise an error with a text that fits a pattern, and shows values.
_KNOWN_CODE = frozenset({"numpy", "pandas", "polars", "scipy", "skdp", "sklearn"})
_HINTS = {
    "Found array with dim": " Make a row of each record: numpy.reshape(X, (len(X), -1)).",
    "dim 3, while dim <= 2 is required by DPS": " Behind it pass matrix_shape=X.shape[1:].",
    **dict.fromkeys(
        ("3 is required by DPTrace", ". DPTrace"),  # the second one is of scikit-learn 1.6
        " Then pass matrix_shape=(d1, d2), too; or a 3-D X, with a matrix of each record.",
    ),
    "Complex data": f" {containers.CURES['complex numbers']}",
    "an invalid document": f" {containers.GAPS_OF_TEXTS}",
    "does not contain any": " Pass a row of one record, too, as X.reshape(1, -1).",
    "Expected 2D input": " Pass a matrix, with a row of each record.",
    "inhomogeneous": " All rows must have one length.",
    "array with 0 sample": " Pass rows: a filter or a join may have kept none.",
    "inconsistent numbers": " Take both from the same rows: fill gaps in X; drop rows without y; "
    "pass X.T if X has a column for each entry of y.",
    "the filling value": " Pass whole numbers as floats, as in the fit: X.astype({'name': float}).",
    "not 'NAType'": " Pass X.convert_dtypes(); a column of gaps alone needs None, not pandas.NA.",
    "not 'dict'": " Pass pandas.DataFrame(X) of columns or rows, pandas.DataFrame([X]) of one row.",
    "at least one array": " Pass a frame with columns: X has none.",
    "array of shape () instead": " Pass the column alone, as an array, a list or a series.",
    "could not convert string": " Pass numbers.",
    "got scalar array": " Pass rows: an array, a data frame or a sparse matrix.",
    "type: continuous": " Fit a regression to other numbers, or make classes of them, as y > 10.",
    "type: missing": " Leave out records without a label, where pandas.notna(y) is False.",
    **dict.fromkeys(("type: dates", "type: mixed"), " Pass [str(label) for label in y]."),
    "y should be a 1d": " It has one entry for each row: of several columns make one fit for each; "
    "of columns of 0 and 1 for classes pass numpy.asarray(y).argmax(axis=1).",
    "got 1D array": " Reshape your data by reshape(-1, 1) if it is one feature, by reshape(1, -1) "
    "if it is one row. X comes first, then y.",
    "Expected a 2-dim": " Pass a frame, as X[['name']], or X.iloc[[0]] of one row, or "
    "X.to_frame().T of a series that is a row; to a ColumnTransformer a list, ['name'].",
    "must be in the same order": " Pass X[list(model.feature_names_in_)].",
    "unknown categories": " Call set_params(handle_unknown='ignore') of the OneHotEncoder, before "
    "the fit or in pipeline_, which makes zeros of them.",
    "using strings": " Pass a data frame that has the columns of the fit.",
    **dict.fromkeys(
        ("at fit time", "columns are missing"),
        "\nPass the columns of the fit, X[list(model.feature_names_in_)], and rename those that "
        "have other names now, by X.rename(columns={...}).",
    ),
    "Feature names are only supported": " Pass X.rename(columns=str).",
    **{f"Input {name} contains NaN": f" {mend}" for name, mend in containers.MISSING.items()},
    "Input X contains infinity": f" {containers.CURES['infinity']}",
    "Input y contains infinity": " Clip y to public ends: numpy.clip(y, -1e6, 1e6). For a "
    "logarithm, to a lower end above 0: numpy.log(numpy.clip(y, .01, None)).",
    **dict.fromkeys(("not 'Timestamp'", "not 'Period'", "not 'datetime."), f" {containers.TIMES}"),
}
# Beginnings of errors about entries that are no finite numbers: names of columns are added to them.
_OF_COLUMNS: tuple[str, ...] = ("could not convert string", "float() argument", "int too large")
_OF_COLUMNS += ("setting an array", "Input X contains", "Complex data")
_OF_COLUMNS += (containers.UNREADABLE, containers.TIMES)


def redact_errors(check: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Decorate a function that checks data, so that its errors show no values."""

    @wraps(check)
    def _check(X: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        X = containers.checked_container(X)
        try:
            # scikit-learn finds infinity by a sum of all entries, which may overflow without need
            # for a warning. Entries are checked even if scikit-learn is set to `assume_finite`.
            with np.errstate(all="ignore"), config_context(assume_finite=False):
                return check(X, *args, **kwargs)
        except Exception as error:
            allow_nan = kwargs.get("ensure_all_finite") == "allow-nan"
            redacted = _redacted(error, X, allow_nan=allow_nan)
        # Raised outside the handler, as Python would attach the first error, which shows values.
        raise redacted

    return _check


def _redacted(error: Exception, X: Any, *, allow_nan: bool, is_fitted: bool = False) -> Exception:
    """Return an error without values: the beginning of the text, if it is known, and advice."""
    text = advice = ""
    cures = containers.CURES
    # The text of an error of foreign code may itself raise an error.
    with suppress(Exception):
        text = str(error)
    known = _KNOWN.match(text) if _package_of(error) in _KNOWN_CODE else None
    kind: type[Exception] = MemoryError if isinstance(error, MemoryError) else ValueError
    if known is None:
        message = text if text in containers.SAFE_TEXTS else containers.UNREADABLE
    else:
        kind = TypeError if isinstance(error, TypeError) else kind
        # A period is added, except after a list of names, one per line.
        message = re.sub(r"\A(.*?)\.?\Z", r"\1.", known.group().rstrip())
        message = message.replace("2 is required by DPTrace", "3 is required by DPTrace")
        # The text may have some hints already, if another check has added them.
        hints = [hint for sign, hint in _HINTS.items() if sign in message]
        message += "".join(hint for hint in hints if hint not in message)
        if "Factorizer does not accept missing" in text:
            message = message.replace(containers.MISSING["X"], containers.OBSERVED)
            cures = {**cures, "NaN": containers.OBSERVED}
    if message.startswith(_OF_COLUMNS):
        with suppress(Exception):
            kinds = containers.kinds_of(X, allow_nan=allow_nan)
            if is_fitted and message == containers.UNREADABLE:
                kinds, cures = containers.gaps_of_new_rows(kinds)
            # The text about the columns repeats these messages.
            is_told = containers.TIMES in message or message.startswith("could not convert")
            if kinds and (is_told or {*kinds.values()} == {"None"}):
                advice, message = containers.text_of_kinds(kinds, "", cures, X), ""
            else:
                advice = f" {containers.text_of_kinds(kinds, message, cures, X)}".rstrip()
    # An error about lengths, or about y, is no error about the type of X.
    is_own = "inconsistent" in message or message.startswith("y ")
    own = "" if is_own else INSTEAD.get(f"X {type(X).__name__}", "")
    text = own or (message + advice).lstrip()
    if issparse(X):
        text = re.sub(r"numpy\.(nan_to_num|clip)\(X,", r"X.data = numpy.\1(X.data,", text)
    elif hasattr(X, "iloc"):
        text = text.replace("numpy.nan_to_num(X, nan=0.0)", "X.fillna(0.0)")
    return kind(text)


def call_steps(method: Callable[..., R], X: Any, *more: Any, **others: Any) -> R:
    """Call a method of fitted steps of any library, whose errors then show no values."""
    try:
        return method(X, *more, **others)
    except Exception as error:
        if _package_of(error) == "skdp":
            raise
        redacted = _redacted(error, X, allow_nan=False, is_fitted=True)
    raise redacted


def _package_of(error: Exception) -> str:
    """Return the package whose code, perhaps a method of an object in X, raised an error."""
    *_, (frame, _) = walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


@redact_errors
def check_rows(X: Any, estimator_name: str, *, ensure_all_finite: Any = True) -> Any:
    """Check X as scikit-learn does, but with no warning or error that shows values."""
    containers.refuse_times(X)
    settings = {"ensure_all_finite": ensure_all_finite, "input_name": "X"}
    if issparse(X) and X.ndim == 2:
        # check_array would add up duplicate entries before it checks the single entries.
        X = containers.plain_csr(X)
    checked = check_array(X, **INPUT, estimator=estimator_name, **settings)
    if issparse(checked):
        # Sums of duplicate entries may overflow, so they are checked, too.
        checked = check_array(containers.as_canonical(checked), accept_sparse="csr", **settings)
    return checked


def check_rows_or_blocks(X: Any, estimator_name: str, *, ensure_all_finite: Any = True) -> Any:
    """Check rows; read all blocks of a stream to check them."""
    if not isinstance(X, RowBlocks):
        return check_rows(X, estimator_name, ensure_all_finite=ensure_all_finite)
    # Rows in parts are checked in the first pass of the fit.
    if not isinstance(X, RowParts):
        X.check(allow_nan=ensure_all_finite == "allow-nan")
    return X


def refuse_blocks(X: Any, estimator_name: str) -> None:
    """Refuse rows in blocks, for estimators that need all rows at once."""
    if isinstance(X, RowBlocks):
        raise ValueError(
            f"X is a RowBlocks, or of dask, which {estimator_name} does not take: pass an array, "
            "a memory map, or what the compute() of a collection of dask returns."
        )


def refuse_stream(X: Any, estimator_name: str) -> None:
    """Refuse rows in one stream, which has no targets."""
    if isinstance(X, RowBlocks) and not isinstance(X, RowParts):
        raise ValueError(
            f"X is a RowBlocks of one stream, which has no targets for {estimator_name}: pass "
            "RowBlocks.from_partitions(..., y=...), an array or a memory map."
        )


def check_names(
    X: Any, y: Any, users: Any, is_feature: Callable[..., bool] = lambda name, **_: True
) -> None:
    """Refuse ids in another order or with the name of a feature; warn of a y with such a name.

    `is_feature` tells whether a fit uses a column of X and, with `needs_y=True`, also uses y.
    """
    containers.refuse_other_order(X, users=users)
    keyword = "" if type(X).__module__.startswith("polars.") else "columns="
    if (name := containers.shared_name(X, users)) is not None and is_feature(name):
        raise ValueError(
            f"The ids of users are column {name!r} of X, too: pass X.drop({keyword}{name!r})."
        )
    if (name := containers.shared_name(X, y)) is not None and is_feature(name, needs_y=True):
        warn_of_privacy(
            f"y has the name of column {name!r} of X. If the column has the values of y, the model "
            f"predicts y from itself: pass X.drop({keyword}{name!r})."
        )


def check_given(y: Any, estimator_name: str) -> None:
    """Refuse None as y."""
    if y is None:
        raise ValueError(f"{estimator_name} requires y to be passed, but the target y is None.")


def targets_of(X: Any, y: Any, estimator_name: str) -> Any:
    """Return the targets: those of rows in parts, for which y must be None, or else y."""
    if not isinstance(X, RowParts):
        check_given(y, estimator_name)
        return y
    if X.y is None:
        raise ValueError(
            f"{estimator_name} takes y from rows in parts, and these have none: pass y to "
            "RowBlocks.from_partitions or from_npy, or its name, as y='price', to from_parquet."
        )
    if y is not None:
        raise ValueError(
            f"{estimator_name} takes y from rows in parts, which have one: leave out the y."
        )
    return X.y


# Checks and maps of rows that are passed to a fitted estimator, in memory or in blocks.


def check_is_released(estimator: Any) -> None:
    """Refuse an estimator that is not fitted; after `partial_fit`, the error names `finalize`."""
    has_rows = getattr(estimator, "_open_sums", None) is not None
    of_sums = "This %(name)s has rows of partial_fit, and no release: call finalize."
    check_is_fitted(estimator, msg=of_sums if has_rows else None)


def check_rows_of(
    X: Any, estimator: Any, *, accept_sparse: Any = "csr", ensure_all_finite: Any = True
) -> Any:
    """Check the rows of a call to a fitted estimator; values of blocks are checked when read."""
    check_is_released(estimator)
    if not isinstance(X, RowBlocks):
        own = {"accept_sparse": accept_sparse, "ensure_all_finite": ensure_all_finite}
        redact_errors(containers.refuse_times)(X)
        return _validated(X, estimator, **{**INPUT, **own, "reset": False})
    check_features(X, estimator)
    _refuse_sparse(X, accept_sparse)
    return X


@redact_errors
def _validated(X: Any, /, estimator: Any, **settings: Any) -> Any:
    return validate_data(estimator, X, **settings)


def check_transformed(
    X: Any, n_columns: int, estimator_name: str, *, accept_sparse: Any = "csr"
) -> Any:
    """Check rows that were transformed, such as those of `inverse_transform`, and their width."""
    _refuse_sparse(X, accept_sparse)
    checked = X if isinstance(X, RowBlocks) else check_rows(X, estimator_name)
    if checked.shape[1] != n_columns:
        raise ValueError(f"X has {checked.shape[1]} columns, where {n_columns} are expected.")
    return checked


def _refuse_sparse(X: Any, accept_sparse: Any) -> None:
    if not accept_sparse and holds_sparse(X):
        raise TypeError("Sparse data was passed for X, but dense data is required.")


def transformed(
    rows: Any,
    function: Callable[[Any], Any],
    n_columns: int | None = None,
    *,
    allow_nan: bool = False,
) -> Any:
    """Map checked rows by a function that maps each row by itself; blocks are mapped when read.

    A row of a block with NaN or infinity becomes NaN: the function need not accept such rows, and
    a fit to the results refuses NaN.
    """
    if not isinstance(rows, RowBlocks):
        return function(rows)
    known: dict[str, Any] = {"dtype": rows.dtype, "allow_nan": allow_nan}
    of_block = partial(containers.of_finite, function=function, **known)
    return mapped_blocks(rows, of_block, n_columns)


def results_of(rows: Any, function: Callable[[Any], np.ndarray]) -> Any:
    """Compute results for checked rows, such as predictions; rows in blocks give `PartResults`."""
    if not isinstance(rows, RowBlocks):
        return function(rows)
    # The result for an array without rows has the shape of a row's result, and the dtype.
    empty = function(np.empty((0, rows.shape[1]), rows.dtype))
    of_block = partial(_map_block, function=function, dtype=empty.dtype)
    return PartResults(rows, of_block, (rows.shape[0], *empty.shape[1:]), empty.dtype)


def _map_block(block: Any, function: Callable[[Any], np.ndarray], dtype: np.dtype) -> np.ndarray:
    """Apply a function to a block of numbers; return results of one dtype."""
    numbers = block.astype(containers.float_dtype(block), copy=False)
    return function(numbers).astype(dtype, copy=False)


def feature_names(X: Any) -> list[Any] | None:
    """Return the feature names of any rows; None if there are none."""
    return X.feature_names if isinstance(X, RowBlocks) else containers.names_of(X)


def check_features(X: Any, estimator: Any, *, reset: bool = False) -> None:
    """Compare number and names of features with those of the fit; with `reset`, store them."""
    # `feature_names` may read the first block, and raise an error of skdp.
    names = X.feature_names if isinstance(X, RowBlocks) else None
    if names is None:
        _validated(X, estimator, reset=reset, skip_check_array=True)
        return
    # scikit-learn's _check_feature_names would warn that these rows have no column names.
    _check_n_features(estimator, X, reset=reset)
    if reset:
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
    elif (expected := list(getattr(estimator, "feature_names_in_", names))) != names:
        raise ValueError(
            "The feature names should match those that were passed during fit, in the same order: "
            f"expected {shortened(expected)}, got {shortened(names)}."
        )


@redact_errors
def check_numbers(X: Any, /, name: str, **settings: Any) -> np.ndarray:
    """Check a dense array of numbers, as float64 unless `settings` ask for another dtype."""
    containers.refuse_times(X)
    return np.asarray(check_array(X, input_name=name, **{"dtype": np.float64, **settings}))


# ------------------------------
# Fits and scores turn a collection of dask into rows in parts; other methods map it by chunks.


def in_parts(X: Any, y: Any = None) -> tuple[Any, Any]:
    """Turn a collection of dask and its targets into rows in parts with targets, and y=None.

    Other rows and their targets are returned unchanged; targets in another order are refused.
    """
    if not containers.is_collection(X):
        containers.refuse_other_order(X, y=y)
        return X, y
    # Imported only when a collection is passed.
    from skdp.data.dask_rows import rows_in_parts

    return rows_in_parts(X, y), None


def public_like(X: Any) -> Any:
    """Return public rows in place of a collection of dask; other rows as they are."""
    if not containers.is_collection(X):
        return X
    from skdp.data import dask_rows

    return dask_rows.public_like(X)


def by_chunks(
    method: Callable[Concatenate[Any, Any, P], Any],
) -> Callable[Concatenate[Any, Any, P], Any]:
    """Decorate a method that maps each row by itself, so that it maps chunks of collections."""

    @wraps(method)
    def _by_chunks(self: Any, X: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        is_collection = containers.is_collection(X)
        if is_collection or isinstance(X, RowBlocks):
            # Results are computed later, when they are read, by a copy of the model: another fit in
            # between does not change the copy, as fits replace attributes.
            copied = object.__new__(type(self))
            vars(copied).update(vars(self))
            self = copied
        if not is_collection:
            return method(self, X, *args, **kwargs)
        from skdp.data.dask_rows import mapped_by_chunks

        name, container = method.__name__, _get_output_config("transform", self)["dense"]
        is_wrapped = name == "transform" and _auto_wrap_is_configured(self)
        if is_wrapped and container != "default":
            # scikit-learn would load the whole result.
            raise ValueError(
                f"set_output(transform={container!r}) would gather an array of dask in memory: "
                "leave it at 'default', and make a data frame by "
                "dask.dataframe.from_dask_array(result, columns=estimator.get_feature_names_out())."
            )
        return mapped_by_chunks(lambda rows: method(self, rows, *args, **kwargs), X, name)

    return cast(Callable[Concatenate[Any, Any, P], Any], named(_by_chunks))
