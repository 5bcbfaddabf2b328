"""Maps of rows by fitted steps, such that no error, warning or dtype reveals single rows.

Before the first private step, a step may refuse rows, or return them in a form that public rows do
not get: then the fit is refused, and nothing has been spent. After it, steps accept all rows, and
their overflow is made finite.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy, deepcopy
from functools import partial
from itertools import product
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from joblib import parallel_config
from scipy.sparse import csr_array, issparse, vstack
from sklearn import config_context
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils._indexing import _get_column_indices
from sklearn.utils.validation import _num_samples, check_array

from skdp._estimator import PrivateEstimator
from skdp.data import containers
from skdp.data.parts import RowBlocks, mapped_blocks
from skdp.data.people import People
from skdp.data.workers import without_warnings
from skdp.exceptions import shortened
from skdp.linalg.norms import as_dense, with_data
from skdp.pipeline import _public_rows as twos
from skdp.pipeline import _rules as rules
from skdp.pipeline._public_rows import TWICE, are_numbers, columns_of, plain_rows, stand_ins
from skdp.preprocessing import DPStandardScaler

# ------------------------------
# Apply a fitted step to rows.

_REAL = "biuf"
_MAY_MIX = (FrozenEstimator, FunctionTransformer)
# With a seed, noise depends on the rows between steps, so global settings must not change these.
_in_arrays = config_context(transform_output="default")
_NO_FRAMES = (
    " A frame is no array: pass FunctionTransformer(validate=True), whose function gets one, or "
    "return frame.to_numpy(), or call set_output(transform='default')."
)
_TEXTS = (
    " Texts go from step to step within a part of a ColumnTransformer, such as ('texts', "
    "make_pipeline(SimpleImputer(strategy='constant'), OneHotEncoder(categories=[...])), [names])."
)
ONE_COLUMN = " Pass one column of texts, as X['note'], or name it in a ColumnTransformer."
_WANTED = "must return a 2-D array or a sparse matrix of real numbers, with a row for each"


def quietly(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function without its warnings, which may reveal single rows.

    The function runs in this process, whatever its `n_jobs`: other processes would print warnings.
    """
    with parallel_config("sequential"), without_warnings(), np.errstate(all="ignore"):
        return function(*arguments)


def by_rows(name: str, step: Any, rows: Any, method: str = "transform") -> Any:
    """Apply a fitted step to rows; return an array or CSR matrix of real numbers.

    A step before all private ones is refused if it refuses any row, or returns another form than
    for public rows. Private steps, and the steps that may follow them, do neither.
    """
    what, rows, function = f"Step {name!r}", plain_rows(rows), getattr(step, method)
    result = attempt(function, rows)
    if isinstance(step, PrivateEstimator) or rules.takes_all_rows(step):
        return _finite_but_gaps(_real(what, step, result, rows), rows)
    public = _public(what, function, stand_ins(rows))
    if public.rows is None:
        if isinstance(result, Exception):
            raise ValueError(_refusal(what, step, result, rows, public.error))
        # A step fitted to categories may accept no public row.
        return _finite_but_gaps(_real(what, step, result, rows).astype(np.float64), rows)
    form = _form_of_public(what, public, function)
    for part, its in _parts(step, rows) if rules.is_columns(step) else [(step, rows)]:
        _check_by_rows(what, part, its, method)
    made = _real(what, step, result, rows)
    others = twos.without_categories(public.rows) if twos.have_categories(rows) else public.rows
    _refuse_form(what, form == _form_of(made) == _form_of(attempt(function, others)))
    return _finite_but_gaps(made, rows)


def _refuse_form(what: str, is_public: bool) -> None:
    if not is_public:
        raise ValueError(
            f"{what} must return rows of one shape and type, whatever their values. If it returns "
            "integers for some rows and floats for rows with gaps, add .astype(float)."
        )


def _form_of(result: Any) -> tuple[Any, ...] | None:
    """Return container, width and dtype of a result, which must not depend on values."""
    is_array = type(result) is np.ndarray or issparse(result)
    if not is_array or result.dtype.kind not in _REAL or result.ndim != 2:
        return None
    return issparse(result), result.shape[1], result.dtype


def _form_of_public(what: str, public: "_Public", function: Callable[..., Any]) -> tuple[Any, ...]:
    """Return the form of a result for public rows; refuse results that are no numbers."""
    made, step = public.result, getattr(function, "__self__", None)
    form, shape, dtype = _form_of(made), twos.shape_of(made), getattr(made, "dtype", None)
    if form is None or shape[0] != TWICE:
        mend = _NO_FRAMES if hasattr(made, "iloc") else ""
        if shape[:1] != (TWICE,) and hasattr(step, "build_analyzer"):
            mend = ONE_COLUMN
        elif not mend and getattr(dtype, "kind", "") in "OU":
            # Which columns have to be numbers differs among the parts of a ColumnTransformer.
            flaw = "" if rules.is_columns(step) else containers.flaw_of_columns(public.rows)
            mend = f"{_TEXTS} {flaw}".rstrip()
        # Dtypes and shapes that depend on values, such as those of categories, are not shown.
        facts = "" if twos.have_categories(public.rows) else f" of shape {shape} and type {dtype}"
        given = f"{type(made).__name__}{facts} for {TWICE} public rows"
        raise ValueError(f"{what} {_WANTED}, got {given}.{mend}")
    return form


def _real(what: str, step: Any, result: Any, rows: Any) -> Any:
    """Return the result of a step as an array in C order or as CSR; refuse other results."""
    if isinstance(result, Exception):
        raise ValueError(_refusal(what, step, result, rows))
    if _form_of(result) is None or result.shape[0] != _num_samples(rows):
        raise ValueError(f"{what} {_WANTED}.")
    if issparse(result):
        return containers.canonical_csr(result)
    # In another memory order, norms of rows would round differently.
    return np.require(result, None, ["C", "A"])


def _finite_but_gaps(made: Any, rows: Any) -> Any:
    """Make overflowing rows finite; NaN in rows that had NaN stays, for the next step to refuse."""
    if made.dtype.kind != "f":
        return made
    has_gaps, all_finite = twos.have_gaps(rows), containers.finite(made)
    if not has_gaps.any():
        return all_finite
    if not issparse(made):
        return np.where(has_gaps[:, np.newaxis], made, all_finite)
    has_gaps = np.repeat(has_gaps, np.diff(made.indptr))  # of the row that each entry is in
    return with_data(made, np.where(has_gaps, made.data, all_finite.data))


def _parts(step: Any, rows: Any) -> list[tuple[Any, Any]]:
    """Return the parts of a fitted ColumnTransformer, each with its columns of the rows."""
    return [(part, columns_of(rows, columns)) for _, part, columns in rules.fitted_parts(step)]


def _check_by_rows(what: str, step: Any, rows: Any, method: str) -> None:
    """Refuse a step that maps several rows together, if public rows show it."""
    leaves = [*rules.leaves_of(step, is_fitted=True)]
    if not any(type(one) in _MAY_MIX for one in leaves):
        # All other steps that are accepted map each row by itself.
        return

    def function(two: Any) -> Any:
        made = getattr(step, method)(two)
        return made if issparse(made) else _as_numbers(np.asarray(made))

    public = _public(what, function, stand_ins(rows))
    form = _form_of(public.result)
    # Encoders accept only their own categories.
    known = [(x[0], x[-1]) for one in leaves for x in getattr(one, "categories_", ())]
    for number, pair in product(twos.NUMBERS, [None, *known]):
        is_first = number is pair is None
        for two in [public.rows] if is_first else stand_ins(rows, number, pair):
            twice = (_safe_indexing(two, [row] * TWICE) for row in range(TWICE))
            several = twos.row_among(two), *twice
            among, *alone = made = [attempt(function, one) for one in several]
            # A result of another form is refused only when private rows get one.
            if is_first or _form_of(among) == form:
                break
        else:
            continue
        facts = [(_form_of(one), twos.shape_of(one)[:1]) for one in made]
        is_same = facts == [(form, twos.shape_of(one)[:1]) for one in several]
        if is_same:
            # With another number of rows, products may round differently.
            dtype, width = np.result_type(among.dtype, np.float16), twos.shape_of(two)[-1]
            rounding = np.finfo(dtype).eps * width * np.fmax(1, abs(number or 1))
            close = partial(np.allclose, atol=1e-8 + rounding, equal_nan=True)
            expected = np.concatenate([as_dense(one)[:1] for one in alone])
            is_same = quietly(close, as_dense(among), twos.row_among(expected))
        if not is_same:
            raise ValueError(
                f"{what} must map each row by itself, but its result for a public row changes "
                "with the rows beside it: leave it out, or change its function."
            )


def in_blocks(name: str, step: Any, rows: RowBlocks) -> RowBlocks:
    """Map rows in blocks by a step, when blocks are read.

    Before the first reading, public rows are mapped, so that no later reading need raise an error.
    """
    step = _with_column_numbers(step) if rules.is_columns(step) and rows.like is None else step
    # A step may accept some public texts and refuse others.
    texts = None if rows.like is None else _public("", step.transform, stand_ins(rows)).rows
    two = by_rows(name, step, next(stand_ins(rows)) if texts is None else texts)
    form = issparse(two), two.shape[1]
    function = partial(_map_block, name, step, form=form, dtype=rows.dtype)
    return mapped_blocks(rows, function, two.shape[1])


def _with_column_numbers(step: Any) -> Any:
    """Copy a fitted ColumnTransformer with column numbers for names, which blocks lack."""
    one, places = copy(step), step._transformer_to_input_indices
    one.transformers_ = [(name, part, places[name]) for name, part, _ in step.transformers_]
    vars(one).pop("feature_names_in_", None)
    return one


@_in_arrays
def _map_block(name: str, step: Any, rows: Any, form: tuple[bool, int], dtype: np.dtype) -> Any:
    rows = rows if hasattr(rows, "iloc") else rows.astype(dtype, copy=False)
    result, has_gaps = attempt(step.transform, rows), twos.have_gaps(rows)
    if isinstance(result, Exception) and has_gaps.any():
        # A missing value becomes NaN again, which the pass that checks these rows refuses.
        made = _map_block(name, step, _without_gaps(rows), form, dtype)
        return containers.with_nan(made, has_gaps)
    made = _real(f"Step {name!r}", step, result, rows)
    _refuse_form(f"Step {name!r}", (issparse(made), made.shape[1]) == form)
    with np.errstate(all="ignore"):
        return _finite_but_gaps(made.astype(dtype, copy=False), rows)


def _without_gaps(rows: Any) -> Any:
    """Make NaN and infinity of rows finite; texts of a data frame stay."""
    if not hasattr(rows, "iloc"):
        return containers.finite(rows)
    rows = rows.copy()
    for column in [name for name, kind in containers.types_of(rows) if not kind]:
        rows[column] = containers.finite(rows[column].to_numpy())
    return rows


@_in_arrays
def made_of_extremes(name: str, step: Any, width: int, dtype: np.dtype, *, is_sparse: bool) -> Any:
    """Return what a step that learns nothing makes of the largest numbers, before any release.

    Refuse parameters that the step cannot use, or with which it refuses some rows.
    """
    most = np.finfo(dtype).max
    rows: Any = np.repeat(np.array([[0], [1], [most], [most], [-most], [-most]], dtype), width, 1)
    rows = csr_array(rows) if is_sparse else rows
    fitted = fitted_to_nothing(name, step, rows)
    public = _public(f"Step {name!r}", fitted.transform, [rows])
    if public.rows is None:
        raise ValueError(public.error)
    return by_rows(name, fitted, rows)


def check_inverse(name: str, transformer: Any) -> None:
    """Refuse an inverse function of responses that mixes rows, or refuses single ones.

    A score is a mean of losses of single rows, and after a fit no error may follow from a row.
    """
    if (function := getattr(transformer, "inverse_func", None)) is not None:
        inverse, dtype = FunctionTransformer(function), np.dtype(np.float64)
        made_of_extremes(f"{name}__inverse_func", inverse, 1, dtype, is_sparse=False)


class _Public(NamedTuple):
    """Public rows that a function accepts, with its result; if it accepts none, its error."""

    rows: Any  # None if it accepts no public rows
    result: Any
    error: str


def _public(what: str, function: Callable[..., Any], branches: Iterable[Any]) -> _Public:
    """Try pairs of public rows in turn, until a function accepts one."""
    error = ""
    for rows in branches:
        result = attempt(function, rows)
        if not isinstance(result, Exception):
            return _Public(rows, result, "")
        # Categories come from private data, and an error may quote them.
        error = error or _message(what, result, is_public=not twos.have_categories(rows))
    return _Public(None, None, error)


def attempt(function: Callable[..., Any], rows: Any) -> Any:
    """Return the result of a function for rows, or its error."""
    # Rows are copied, as a function may overwrite them.
    is_ours = isinstance(getattr(function, "__self__", None), PrivateEstimator)
    try:
        made = quietly(function, rows if is_ours else deepcopy(rows))
    except Exception as error:
        return error

    return _as_numbers(made) if rules.is_columns(getattr(function, "__self__", None)) else made


def _as_numbers(made: Any) -> Any:
    """Convert objects to numbers: a ColumnTransformer makes objects of numbers and booleans."""
    are_objects = type(made) is np.ndarray and made.dtype == object and are_numbers(made)
    return made.astype(np.float64) if are_objects else made


def _refusal(what: str, step: Any, error: Exception, rows: Any, of_public: str = "") -> str:
    """Return why a step refuses rows; `of_public` is its error for public rows, if there is one."""
    if of_public and are_numbers(rows):
        return of_public
    if twos.are_single(rows) and containers.kind_of(rows) in ("texts and gaps", "NaN"):
        return f"{what} refuses a missing text. " + containers.GAPS_OF_TEXTS.replace("['name']", "")
    # NaN is not the reason if rows without NaN are refused, too.
    text = f"Input X contains NaN or infinity, which {what} refuses."
    text = _message(what, error) if of_public or not twos.have_gaps(rows).any() else text
    # Which columns hold texts is public, but not which have missing values.
    texts = [one for one, kind in containers.types_of(rows) if kind]
    if text.endswith("it refuses.") and not any(type(one) in _MAY_MIX for one in _leaves(step)):
        tags = [get_tags(one).input_tags for one in _leaves(step)]
        if of_public or (texts and not any(one.string or one.categorical for one in tags)):
            return of_public or f"{what} refuses its rows. {containers.flaw_of_columns(rows)}"
    if texts and text.endswith("it refuses."):
        text += f" Fill gaps in {shortened(texts)} by SimpleImputer, FunctionTransformer(np.ravel)."
    return text if of_public in ("", text) else f"{text} Of two made-up rows: {of_public}"


def _leaves(step: Any) -> list[Any]:
    return [one for one in rules.leaves_of(step, is_fitted=False) if not isinstance(one, str)]


# Errors of encoders about categories, with advice.
_OF_ENCODERS = {
    "Unsorted categories": " Pass them sorted, as [False, True].",
    "Shape mismatch": " Pass a list for each column, as categories=[['North', 'South']] for one.",
}
_ACCEPT_UNKNOWN = (
    "handle_unknown='ignore' to a OneHotEncoder, or handle_unknown='use_encoded_value' and an "
    "unknown_value to an OrdinalEncoder"
)


def _message(what: str, error: Exception, *, is_public: bool = False) -> str:
    """Return an error as text; only errors about public rows keep their own text."""
    message = error.args[0] if type(error) is ValueError and error.args else ""
    if type(message) is str and message.startswith("Found unknown categories"):
        return (
            f"{what} refuses a category that it was not given, or not fitted to; which one may be "
            "private. Pass all categories to it, None and NaN among them. Or pass "
            f"{_ACCEPT_UNKNOWN}."
        )
    if is_public:
        mend = "".join(cure for sign, cure in _OF_ENCODERS.items() if sign in str(error))
        return f"{what} raises {type(error).__name__}: {str(error).removesuffix('.')}.{mend}"
    return (
        f"{what} raises an error, whose text may show values and is left out. Call it on made-up "
        "rows, of the same columns and types, to see what it refuses."
    )


@_in_arrays
def fitted_to_nothing(name: str, step: Any, rows: Any) -> Any:
    """Fit a step that learns nothing, to public rows."""
    what, rows = f"Step {name!r}", twos.as_named(rows) if rules.is_columns(step) else rows
    refuse_kinds_of_categories(what, step, rows)
    public = _public(what, step.fit, stand_ins(rows))
    # A step that accepts no public row may accept only the texts in its parameters.
    fitted = attempt(step.fit, rows) if public.rows is None else public.result
    if isinstance(fitted, Exception):
        raise ValueError(_refusal(what, step, fitted, rows, public.error))
    if rules.is_columns(fitted):
        # scikit-learn makes the result sparse or dense by the density of rows, which is private.

        def _make_sparse(rows: Any) -> bool:
            parts = _parts(fitted, rows)
            made = (x if isinstance(part, str) else part.transform(x) for part, x in parts)
            return any(map(issparse, made))

        makes = _public("", _make_sparse, stand_ins(rows))
        fitted.sparse_output_ = bool(step.sparse_threshold and makes.result)
    return fitted


def refuse_kinds_of_categories(what: str, step: Any, rows: Any) -> None:
    """Refuse texts as categories of numbers, and the reverse, by dtypes: none would be found."""
    for _, part, columns in step.transformers if rules.is_columns(step) else [("", step, None)]:
        encoder = next((one for one in _leaves(part) if type(one) is not SimpleImputer), None)
        kinds, lists = list[tuple[Any, str]](), getattr(encoder, "categories", "auto")
        with suppress(Exception):  # columns that X lacks are refused later
            # The dtype of a list is that of all its rows: that of a few would follow single ones.
            whole = rows if hasattr(rows, "shape") else np.asarray(rows)
            two = next(stand_ins(rows)) if isinstance(rows, RowBlocks) else whole[:TWICE]
            kinds = containers.spelled_kinds(columns_of(two, columns)) * isinstance(lists, list)
        for (column, kind), given in zip(kinds, lists, strict=False):
            if kind and {isinstance(one, str) for one in given} == {kind == "numbers"}:
                listed = "texts" if kind == "numbers" else "numbers"
                raise ValueError(
                    f"{what}: column {column} has {kind}, but its categories are {listed}: none is "
                    "found. Pass categories=[['1', '2']] for texts, and [[1, 2]] for numbers."
                )


@_in_arrays
def transformed(steps: Sequence[tuple[str, Any]], rows: Any, method: str = "transform") -> Any:
    """Apply fitted steps to rows, except "passthrough" and None; finite rows stay finite."""
    for name, step in steps:
        if isinstance(step, str | None):
            continue
        if isinstance(rows, RowBlocks) and isinstance(step, PrivateEstimator):
            rows = step.transform(rows)
        elif isinstance(rows, RowBlocks):
            rows = in_blocks(name, step, rows)
        else:
            rows = by_rows(name, step, rows, method)
    return rows


def of_people(function: Callable[..., Any], people: People | None, *inputs: Any) -> Any:
    """Apply a function to batches of whole users, so that no user changes results of others.

    In a single batch, another row of one user would shift all later rows and their rounding.
    """
    if people is None:
        return function(*inputs)
    inputs, used, parts = (plain_rows(inputs[0]), *inputs[1:]), [], []
    for places, is_used in people.batches():
        batch = (None if one is None else _safe_indexing(one, places) for one in inputs)
        parts.append(function(*batch)[is_used])
        used.append(places[is_used])
    order = np.argsort(np.concatenate(used))
    if issparse(parts[0]):
        return csr_array(vstack(parts, format="csr")[order])
    return np.concatenate(parts)[order]


# ------------------------------
# A ColumnTransformer as the first step: its public parts, and the fitted private parts.


def in_public(step: Any) -> Any:
    """Return the transformer with its public parts; private parts pass columns unchanged."""
    wide = {
        name: rules.ending_with(one, _as_wide(rules.last_of(one)))
        for name, one, _ in rules.private_parts(step)
    }
    return with_parts(step, wide)


def with_parts(step: Any, parts: Mapping[str, Any]) -> Any:
    """Clone a transformer, with the estimators of some parts replaced."""
    others = [(name, parts.get(name, one), columns) for name, one, columns in step.transformers]
    return clone(step).set_params(transformers=others)


def refuse_unknown(name: str, step: Any, rows: Any) -> Any:
    """Refuse rows with categories that a public step does not know; otherwise return its result.

    The refusal comes before anything is charged, and names no category. In the fit, encoders accept
    all rows (`lenient`); only here they are as strict as their parameters say.
    """
    if isinstance(rows, RowBlocks):
        raise ValueError(
            f"Step {name!r} refuses unknown categories, which needs rows in memory: pass "
            f"{_ACCEPT_UNKNOWN}."
        )
    given = in_public(step) if rules.is_columns(step) else step
    fitted = fitted_to_nothing(name, clone(given, safe=False), rows)
    made = transformed([(name, fitted)], rows)
    if rules.refuses_unknown(fitted, is_fitted=True):
        result = attempt(rules.make_strict(fitted).transform, rows)
        if isinstance(result, Exception):
            named = shortened(_refusing_columns(rules.make_strict(fitted), rows))
            columns = f" It is about columns: {named}." * bool(named)
            raise ValueError(_message(f"Step {name!r}", result) + columns)
    return made


def _refusing_columns(step: Any, rows: Any) -> list[str]:
    """Name the columns that encoders refuse, or the columns of parts that refuse rows."""
    named = []
    for _, part, columns in (
        rules.fitted_parts(step) if rules.is_columns(step) else [("", step, None)]
    ):
        its = columns_of(rows, columns)
        if not isinstance(attempt(getattr(part, "transform", np.asarray), its), Exception):
            continue
        for place, name in enumerate(containers.names_of(its) or range(*twos.shape_of(its)[1:2])):
            known = getattr(part, "categories_", None)
            alone = known and OneHotEncoder(categories=[known[place]]).fit
            if not alone or isinstance(attempt(alone, columns_of(its, [place])), Exception):
                named.append(str(name))
    return named


def check_rows_of_columns(
    name: str, step: Any, rows: Any, *, are_private: bool, allow_nan: bool
) -> None:
    """Refuse rows that lack columns, and rows that public parts leave with gaps.

    With `allow_nan` the next step decides about NaN.

    Public parts of a ColumnTransformer get the private rows twice: here, where a refusal costs
    nothing, and in `fitted_columns`.
    """
    blocks, rows = rows, twos.as_named(rows)
    for _, _, columns in step.transformers:
        listed = columns if type(columns) is list else [columns] * isinstance(columns, str)
        n, by_name = sum(twos.shape_of(rows)[1:2]), any(isinstance(one, str) for one in listed)
        texts = [one for one in containers.names_of(rows) or () if isinstance(one, str)]
        # Column names that occur twice have become numbers.
        known = {*range(-n, n), *texts} if texts or not by_name else listed
        lacking = [one for one in listed if one not in known]
        more = ", or is sparse and not in CSR, which X.tocsr() makes"
        if lacking:
            more = f"; it has {shortened(texts)}" * bool(texts)
        elif by_name:
            more = ", or has one of them twice. An array has columns by number: pass [0, 1] or so"
        flaw = (
            f"Step {name!r}: X, or the like of a plan, does not have the columns "
            f"{lacking or columns!r}{more}."
        )
        containers.with_text(flaw, partial(columns_of, rows, columns))
    # If a transformer refuses rows even without its parts, its own parameters are the reason.
    alone = with_parts(step, dict.fromkeys((part for part, *_ in step.transformers), "drop"))
    settings = _public(f"Step {name!r}", alone.set_params(remainder="drop").fit, stand_ins(rows))
    if settings.rows is None and settings.error:
        raise ValueError(settings.error)
    if are_private and isinstance(blocks, RowBlocks):
        # The next step checks what public parts return, before anything is spent.
        if rules.private_parts(step):
            public = [(name, fitted_to_nothing(name, in_public(step), blocks))]
            transformed(public, blocks).check(allow_nan=allow_nan)
    elif are_private and (flaw := _flaw(name, in_public(step), rows, allow_nan)):
        flaws = "\n".join(_flaws_of_parts(name, step, rows, allow_nan))
        raise ValueError(flaws or flaw + _hint_of_objects(rows))


def _hint_of_objects(rows: Any) -> str:
    kinds = {*map(str, getattr(rows, "dtypes", ()))}
    return "".join(hint for kind, hint in containers.OF_DTYPES.items() if kind in kinds)


def _flaw(name: str, step: Any, rows: Any, allow_nan: bool) -> str:
    """Return why a transformer does not make these rows finite, or "" if they become finite."""
    try:
        made = transformed([(name, fitted_to_nothing(name, step, rows))], rows)
    except ValueError as error:
        return str(error)
    is_invalid = containers.not_finite_rows(made, allow_nan=allow_nan).any()
    return f"Step {name!r} leaves NaN or infinity." * bool(is_invalid)


def _flaws_of_parts(name: str, step: Any, rows: Any, allow_nan: bool) -> Iterator[str]:
    """Return, for each part, why its result is not finite, with columns and cures."""
    rows = rows if hasattr(rows, "shape") else np.asarray(rows)
    names = containers.names_of(rows) or range(rows.shape[1])
    parts = [(*part, _get_column_indices(rows, part[2])) for part in step.transformers]
    rest = sorted({*range(rows.shape[1])}.difference(*(places for *_, places in parts)))
    for part, one, columns, places in [*parts, ("remainder", step.remainder, rest, rest)]:
        if not len(places) or (isinstance(one, str) and one == "drop"):
            continue
        is_single, own = isinstance(columns, str | Integral), columns_of(rows, places)
        path, its = f"{name}__{part}", [str(names[place]) for place in places]
        # Fit each part alone: to rows of its own columns, so that public rows match; then to all.
        for given, among in ((own, [*range(len(places))]), (rows, places)):
            alone = [("alone", one, among[0] if is_single else among)]
            only = clone(step).set_params(transformers=alone, remainder="drop")
            if flaw := _flaw(path, in_public(only), given, allow_nan):
                break
        if flaw:
            kinds = containers.kinds_of(own, its, allow_nan=allow_nan)
            flaw += _hint_of_objects(own)
            yield _with_columns(f"Step {path!r}", flaw, one, kinds, its, is_single=is_single)


def _with_columns(
    what: str, flaw: str, part: Any, kinds: Mapping[str, str], names: list[str], *, is_single: bool
) -> str:
    """Name the columns whose entries a part refuses, or else all its columns."""
    leaves = _leaves(part)
    tags = [get_tags(one).input_tags for one in leaves]
    is_for_texts, refused = any(one.string for one in tags), {*kinds.values()}
    cures = {**containers.CURES}
    if is_for_texts and tags[0].string and not is_single:
        return f"{what} takes one column of texts: pass its name or number, and no list."
    if is_single and not is_for_texts and type(next(iter(leaves), None)) not in _MAY_MIX:
        listed = [int(one) if one.isdigit() else one for one in names]
        return f"{what} takes a list of columns: pass {listed}."
    if is_for_texts:
        refused = {"texts and gaps", "NaN"}
        cures |= dict.fromkeys(refused, containers.GAPS_OF_TEXTS)
    elif any(one.categorical for one in tags) or any(type(one) in _MAY_MIX for one in leaves):
        refused = {"NaN", "infinity"} if "NaN or infinity" in flaw else set()
    elif tags and tags[0].allow_nan:
        refused -= {"NaN"}
    if kinds := {name: kind for name, kind in kinds.items() if kind in refused}:
        return f"{what} refuses its rows. {containers.text_of_kinds(kinds, cures=cures)}"
    return f"{flaw} It is about columns: {shortened(names)}."


def fitted_columns(name: str, step: Any, parts: Mapping[str, Any], rows: Any) -> Any:
    """Fit a ColumnTransformer whose private parts have been fitted before."""
    ends = {path.partition("__")[0]: fitted for path, fitted in parts.items()}
    frozen = {
        part: rules.ending_with(one, FrozenEstimator(ends[part]))
        for part, one, _ in rules.private_parts(step)
    }
    whole = fitted_to_nothing(name, with_parts(step, frozen), rows)
    whole.transformers = clone(step).transformers
    whole.transformers_ = [
        (part, rules.ending_with(fitted, ends[part]) if part in ends else fitted, columns)
        for part, fitted, columns in whole.transformers_
    ]
    return whole


def _as_wide(part: Any) -> Any:
    """Return a public transformer that returns as many columns as a private part, or more."""
    n_components = getattr(part, "n_components", None)
    most = int(n_components) if isinstance(n_components, Integral) else None
    takes_gaps = bool(get_tags(part).input_tags.allow_nan)
    # Of private parts, only a scaler returns sparse rows.
    facts = {"takes_gaps": takes_gaps, "makes_dense": not isinstance(part, DPStandardScaler)}
    return FunctionTransformer(partial(_widened, most=most, **facts), accept_sparse=True)


def _widened(rows: Any, *, most: int | None, takes_gaps: bool, makes_dense: bool) -> Any:
    """Check rows like the private part, and convert nullable columns to numbers."""
    if any("texts" in kind for kind in containers.kinds_of(rows).values()):
        # The private part refuses texts, even of numbers, which could be converted.
        raise ValueError("could not convert string to float")
    wanted = "allow-nan" if takes_gaps else True
    checked = check_array(rows, accept_sparse="csr", ensure_all_finite=wanted)
    checked = columns_of(checked, slice(most))
    checked = as_dense(checked) if makes_dense else checked
    return containers.finite(checked) if takes_gaps else checked
