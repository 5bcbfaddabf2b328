"""Maps of rows by public steps, such that no error, warning or dtype reveals single rows.

Before the first private step, a step may refuse rows, or return another container, width or dtype
for private rows than for public ones: then the fit is refused, and nothing has been spent. Behind a
private step, all rows are accepted, and results that overflow are made finite.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from itertools import product
from numbers import Integral
from typing import Any

import numpy as np
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
from skdp.exceptions import shortened
from skdp.linalg.norms import as_dense, with_data
from skdp.pipeline import _public_rows as public_rows
from skdp.pipeline import _rules as rules
from skdp.pipeline._public_rows import TWICE, accepted, attempt, columns_of, shape_of, stand_ins
from skdp.preprocessing import DPStandardScaler

# ------------------------------
# Apply a fitted step to rows.

_REAL = "biuf"
# Classes with functions of the caller, which may mix rows.
_MAY_MIX = (FrozenEstimator, FunctionTransformer)
# Kinds of columns that steps for texts refuse.
_OF_TEXTS = "texts and gaps", "NaN", "None"
# Seeded noise depends on the rows between steps, so no global setting may change their type.
_in_arrays = config_context(transform_output="default")
_BETWEEN_STEPS = (
    " Texts go from step to step within a part of a ColumnTransformer, such as ('texts', "
    "make_pipeline(SimpleImputer(strategy='constant'), OneHotEncoder(categories=[...])), [names])."
)
ONE_COLUMN = " Pass one column of texts, as X['note'], or name it in a ColumnTransformer."
_WANTED = "must return a 2-D array or a sparse matrix of real numbers, with a row for each"


def by_rows(name: str, step: Any, rows: Any, method: str = "transform") -> Any:
    """Apply a fitted step to rows; return an array or CSR matrix of real numbers.

    A step before the first private one is refused if it refuses any row, or returns another form
    (container, number of columns or dtype) than for public rows. Private steps, and steps that may
    follow one, do neither.
    """
    what, function = f"Step {name!r}", getattr(step, method)
    rows = public_rows.plain_rows(public_rows.as_table(rows) if rules.is_columns(step) else rows)
    result = attempt(function, rows)
    if isinstance(step, PrivateEstimator) or rules.takes_all_rows(step):
        return _finite_but_gaps(_real(what, step, result, rows), rows)
    two, made_of_two, error = accepted(what, function, stand_ins(rows))
    if two is None:
        if isinstance(result, Exception):
            raise ValueError(_refusal(what, step, result, rows, error))
        # A step fitted to categories may accept no public row.
        return _finite_but_gaps(_real(what, step, result, rows).astype(np.float64), rows)
    form = _form_of_public(what, step, two, made_of_two)
    for part, part_rows in _parts(step, rows):
        _check_by_rows(what, part, part_rows, method)
    made = _real(what, step, result, rows)
    if public_rows.have_categories(rows):
        # The public rows have the categories of the private ones. For rows without categories the
        # step must return the same form, or the form would reveal the categories.
        two = public_rows.without_categories(two)
    _check_form(what, is_same=form == _form_of(made) == _form_of(attempt(function, two)))
    return _finite_but_gaps(made, rows)


def _check_form(what: str, *, is_same: bool) -> None:
    """Refuse a result whose form differs from the form (see `_form_of`) for public rows."""
    if not is_same:
        raise ValueError(
            f"{what} must return rows of one shape and type, whatever their values. If it returns "
            "integers for some rows and floats for rows with gaps, add .astype(float)."
        )


def _form_of(result: Any) -> tuple[Any, ...] | None:
    """Return the form of a result, which must not depend on values: container, width, dtype."""
    is_array = type(result) is np.ndarray or issparse(result)
    if not is_array or result.dtype.kind not in _REAL or result.ndim != 2:
        return None
    return issparse(result), result.shape[1], result.dtype


def _form_of_public(what: str, step: Any, two: Any, made: Any) -> tuple[Any, ...]:
    """Return `_form_of` the result of a step for two public rows; refuse all but numbers."""
    form, shape, dtype = _form_of(made), shape_of(made), getattr(made, "dtype", None)
    mend = ""
    if form is None or shape[0] != TWICE:
        if hasattr(made, "columns"):
            raise ValueError(
                f"{what} returned a DataFrame (tried on 2 made-up rows); a step must return an "
                "array. Return frame.to_numpy() in the function; or, if it uses no column names, "
                "pass validate=True."
            )
        if shape[:1] != (TWICE,) and hasattr(step, "build_analyzer"):
            mend = ONE_COLUMN
        elif getattr(dtype, "kind", "") in "OU":
            # A ColumnTransformer may take texts in any column, so the error names no column.
            flaw = "" if rules.is_columns(step) else containers.flaw_of_columns(two)
            mend = f"{_BETWEEN_STEPS} {flaw}".rstrip()
        facts = f" of shape {shape} and type {dtype}"
        if public_rows.have_categories(two):
            facts = ""  # shape and dtype may depend on the private categories
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
    # In another memory order, the norms of the rows would round differently.
    return np.require(result, None, ["C", "A"])


def _finite_but_gaps(made: Any, rows: Any) -> Any:
    """Make results that overflow finite, except in rows that had NaN or infinity before."""
    if made.dtype.kind != "f":
        return made
    has_gaps, all_finite = public_rows.have_gaps(rows), containers.finite(made)
    if not has_gaps.any():
        return all_finite
    if not issparse(made):
        return np.where(has_gaps[:, np.newaxis], made, all_finite)
    has_gaps = np.repeat(has_gaps, np.diff(made.indptr))  # of the row that each entry is in
    return with_data(made, np.where(has_gaps, made.data, all_finite.data))


def _parts(step: Any, rows: Any) -> list[tuple[Any, Any]]:
    """Return the parts of a fitted step, each with its columns of the rows, or the step itself."""
    parts = rules.fitted_parts(step) if rules.is_columns(step) else [("", step, None)]
    return [(part, columns_of(rows, columns)) for _, part, columns in parts]


def _check_by_rows(what: str, step: Any, rows: Any, method: str) -> None:
    """Refuse a step whose result for a public row depends on the other rows."""
    leaves = [*rules.leaves_of(step, is_fitted=True)]
    if not any(type(one) in _MAY_MIX for one in leaves):
        return

    def function(two: Any) -> Any:
        made = getattr(step, method)(two)
        return made if issparse(made) else public_rows.without_objects(np.asarray(made))

    accepted_two, made_of_two, error = accepted(what, function, stand_ins(rows))
    if accepted_two is None:
        raise ValueError(error)
    form = _form_of(made_of_two)
    # Encoders accept only their own categories, so pairs of these are tried, too.
    categories = [own for leaf in leaves for own in getattr(leaf, "categories_", ())]
    known = [(own[0], own[-1]) for own in categories]
    for number, pair in product(public_rows.TRIED_NUMBERS, [None, *known]):
        is_first = number is None and pair is None
        for two in [accepted_two] if is_first else stand_ins(rows, number, pair):
            among = attempt(function, public_rows.row_among(two))
            # Results of another form prove nothing: a fit refuses private rows with such results.
            if is_first or _form_of(among) == form:
                break
        else:
            continue
        if not _is_by_rows(function, two, among, form, number):
            raise ValueError(
                f"{what} must map each row by itself, but its result for a public row changes "
                "with the rows beside it: leave it out, or change its function."
            )


def _is_by_rows(
    function: Callable[..., Any], two: Any, among: Any, form: Any, number: float | None
) -> bool:
    """Return whether two public rows have the same results alone as in `among`.

    `among` is the result for the first row among many copies of the second one.
    """
    twice = [_safe_indexing(two, [row] * TWICE) for row in range(TWICE)]
    alone = [attempt(function, one) for one in twice]
    several = [public_rows.row_among(two), *twice]
    facts = [(_form_of(one), shape_of(one)[:1]) for one in (among, *alone)]
    if facts != [(form, shape_of(one)[:1]) for one in several]:
        return False
    # With another number of rows, products may round differently.
    dtype, width = np.result_type(among.dtype, np.float16), shape_of(two)[-1]
    rounding = np.finfo(dtype).eps * width * np.fmax(1, abs(number or 1))
    close = partial(np.allclose, atol=1e-8 + rounding, equal_nan=True)
    expected = np.concatenate([as_dense(one)[:1] for one in alone])
    return bool(public_rows.quietly(close, as_dense(among), public_rows.row_among(expected)))


def in_blocks(name: str, step: Any, rows: RowBlocks) -> RowBlocks:
    """Return blocks that are mapped by a step when they are read.

    The step maps public rows at once: a step that refuses them is refused before data are read.
    """
    step = _with_column_numbers(step) if rules.is_columns(step) and rows.like is None else step
    # A step may refuse some pairs of public texts, so a pair that it accepts is taken.
    pair = None if rows.like is None else accepted("", step.transform, stand_ins(rows))[0]
    mapped = by_rows(name, step, next(stand_ins(rows)) if pair is None else pair)
    form = issparse(mapped), mapped.shape[1]
    function = partial(_map_block, name, step, form=form, dtype=rows.dtype)
    return mapped_blocks(rows, function, mapped.shape[1])


def _with_column_numbers(step: Any) -> Any:
    """Copy a fitted ColumnTransformer with column numbers for names, which blocks lack."""
    one, places = copy(step), step._transformer_to_input_indices
    one.transformers_ = [(name, part, places[name]) for name, part, _ in step.transformers_]
    vars(one).pop("feature_names_in_", None)
    return one


@_in_arrays
def _map_block(name: str, step: Any, rows: Any, form: tuple[bool, int], dtype: np.dtype) -> Any:
    """Map one block by a step; refuse another layout or width than for public rows."""
    rows = rows if hasattr(rows, "iloc") else rows.astype(dtype, copy=False)
    result, has_gaps = attempt(step.transform, rows), public_rows.have_gaps(rows)
    if isinstance(result, Exception) and has_gaps.any():
        # Rows are mapped without their gaps, and become NaN: the check of the blocks refuses NaN.
        made = _map_block(name, step, _without_gaps(rows), form, dtype)
        return containers.with_nan(made, has_gaps)
    made = _real(f"Step {name!r}", step, result, rows)
    _check_form(f"Step {name!r}", is_same=(issparse(made), made.shape[1]) == form)
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
    """Return what a step that learns nothing makes of the smallest and the largest numbers.

    Refuse parameters with which the step refuses such rows: nothing has been released yet.
    """
    most = np.finfo(dtype).max
    rows: Any = np.repeat(np.array([[0], [1], [most], [most], [-most], [-most]], dtype), width, 1)
    rows = csr_array(rows) if is_sparse else rows
    fitted = fitted_to_nothing(name, step, rows)
    *_, error = accepted(f"Step {name!r}", fitted.transform, [rows])
    if error:
        raise ValueError(error)
    return by_rows(name, fitted, rows)


def check_inverse(name: str, transformer: Any) -> None:
    """Refuse an inverse function of responses that mixes rows, or refuses single rows.

    A score adds up a loss of each row, which other rows must not change, and after a fit no row may
    cause an error.
    """
    if (function := getattr(transformer, "inverse_func", None)) is not None:
        inverse, dtype = FunctionTransformer(function), np.dtype(np.float64)
        made_of_extremes(f"{name}__inverse_func", inverse, 1, dtype, is_sparse=False)


def _refusal(what: str, step: Any, error: Exception, rows: Any, of_public: str = "") -> str:
    """Return why a step refuses private rows; `of_public` is its error for public rows, or ""."""
    if of_public and public_rows.are_numbers(rows):
        return of_public
    if public_rows.are_single(rows) and containers.kind_of(rows) in _OF_TEXTS:
        return f"{what} refuses a missing text. " + containers.GAPS_OF_TEXTS.replace("['name']", "")
    # NaN is the reason only if the step accepts rows without NaN.
    if not of_public and public_rows.have_gaps(rows).any():
        return f"Input X contains NaN or infinity, which {what} refuses."
    text, leaves = public_rows.message_of(what, error), _leaves(step)
    if not text.endswith("it refuses."):  # the text is about an unknown category
        return text
    # Which columns hold texts is public, but not which have missing values.
    named = [one for one, kind in containers.types_of(rows) if kind]
    if not any(type(one) in _MAY_MIX for one in leaves):
        if of_public:
            return of_public
        tags = [get_tags(one).input_tags for one in leaves]
        if named and not any(one.string or one.categorical for one in tags):
            return f"{what} refuses its rows. {containers.flaw_of_columns(rows)}"
    if named:
        text += (
            f" If it refuses gaps, fill {shortened(named)} before the fit, as "
            f"frame.fillna({{{named[0]!r}: ''}}) does, or within the part, by make_pipeline("
            "SimpleImputer(strategy='constant'), FunctionTransformer(numpy.ravel), ...)."
        )
    return f"{text} Of two made-up rows: {of_public}" if of_public else text


def _leaves(step: Any) -> list[Any]:
    """Return the innermost estimators of an unfitted step, except "passthrough" and "drop"."""
    return [one for one in rules.leaves_of(step, is_fitted=False) if not isinstance(one, str)]


@_in_arrays
def fitted_to_nothing(name: str, step: Any, rows: Any) -> Any:
    """Fit a clone of a step that learns nothing, to public rows with the dtypes of the given rows.

    A step that is never fitted, such as a frozen one, is returned as it is.
    """
    if rules.is_passed_through(step):
        return step
    what, rows = f"Step {name!r}", public_rows.as_named(rows) if rules.is_columns(step) else rows
    refuse_kinds_of_categories(what, step, rows)
    step = clone(step)
    two, fitted, error = accepted(what, step.fit, stand_ins(rows))
    if two is None and any(type(one) is FunctionTransformer for one in _leaves(step)):
        # The function could mix rows unseen, and an encoder behind it would store a private dtype.
        raise ValueError(f"{what}: a function must accept made-up rows. {error}")
    # A step that refuses all public rows may accept only the categories in its parameters.
    fitted = attempt(step.fit, rows) if two is None else fitted
    if isinstance(fitted, Exception):
        raise ValueError(_refusal(what, step, fitted, rows, error))
    if rules.is_columns(fitted):
        # scikit-learn would choose sparse or dense output by the density of the private rows.

        def _make_sparse(rows: Any) -> bool:
            parts = _parts(fitted, rows)
            made = (x if isinstance(part, str) else part.transform(x) for part, x in parts)
            return any(map(issparse, made))

        _, is_sparse, _ = accepted("", _make_sparse, stand_ins(rows))
        fitted.sparse_output_ = bool(step.sparse_threshold and is_sparse)
    return fitted


def refuse_kinds_of_categories(what: str, step: Any, rows: Any) -> None:
    """Refuse text categories for a column whose dtype is of numbers, and numbers for texts."""
    for _, part, columns in step.transformers if rules.is_columns(step) else [("", step, None)]:
        encoder = next((one for one in _leaves(part) if type(one) is not SimpleImputer), None)
        if not isinstance(lists := getattr(encoder, "categories", "auto"), list):
            continue
        kinds = list[tuple[Any, str]]()
        with suppress(Exception):  # X may lack the columns, which is refused later
            are_blocks = isinstance(rows, RowBlocks)
            table = next(stand_ins(rows)) if are_blocks else public_rows.as_table(rows)
            kinds = containers.spelled_kinds(table)
            kinds = [kinds[i] for i in _get_column_indices(table, columns)] if columns else kinds
        for (column, kind), given in zip(kinds, lists, strict=False):
            if kind and {isinstance(one, str) for one in given} == {kind == "numbers"}:
                listed = "texts" if kind == "numbers" else "numbers"
                raise ValueError(
                    f"{what}: column {column} has {kind}, but its categories are {listed}: none is "
                    "found. Pass categories=[['1', '2']] for texts, and [[1, 2]] for numbers; or, "
                    "after the fit, convert the column. A column of gaps alone counts as numbers: "
                    f"X.astype({{{column!r}: object}})."
                )


@_in_arrays
def transformed(steps: Sequence[tuple[str, Any]], rows: Any, method: str = "transform") -> Any:
    """Apply fitted steps to rows; skip "passthrough" and None. Finite rows stay finite."""
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


def made_of(name: str, step: Any, rows: Any) -> Any:
    """Return what a step that learns nothing makes of rows; it is not fitted to their values."""
    return transformed([(name, fitted_to_nothing(name, step, rows))], rows)


def of_people(function: Callable[..., Any], people: People | None, *inputs: Any) -> Any:
    """Apply a function to batches of rows in which no user changes the results of other users.

    Without batches, one more row of a user would shift all later rows, and change their rounding.
    """
    if people is None:
        return function(*inputs)
    inputs = (public_rows.plain_rows(inputs[0]), *inputs[1:])
    used, parts = list[np.ndarray](), list[Any]()
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


def without_private_parts(step: Any) -> Any:
    """Return the transformer with public steps, which check columns, in place of private parts."""
    return with_ends(step, lambda _, last: _as_wide(last))


def with_ends(step: Any, end_of: Callable[[str, Any], Any]) -> Any:
    """Clone a transformer; replace the private estimator of each part by what `end_of` returns."""
    parts = list[tuple[str, Any, Any]]()
    for name, one, columns in step.transformers:
        if rules.has_budget(last := rules.last_of(one)):
            one = rules.ending_with(one, end_of(name, last))
        parts.append((name, one, columns))
    return clone(step).set_params(transformers=parts)


def refuse_unknown(name: str, step: Any, rows: Any) -> Any:
    """Refuse rows with categories that a public step does not know; return what it makes of others.

    The refusal comes before anything is charged, and names no category. Only here encoders obey
    `handle_unknown="error"`. In the fit they accept all rows (`rules.lenient`).
    """
    if isinstance(rows, RowBlocks):
        raise ValueError(
            f"Step {name!r} refuses unknown categories, which needs rows in memory: pass "
            "handle_unknown='ignore'."
        )
    given = without_private_parts(step) if rules.is_columns(step) else step
    fitted = fitted_to_nothing(name, given, rows)
    made = transformed([(name, fitted)], rows)
    if rules.refuses_unknown(fitted, is_fitted=True):
        result = attempt(rules.make_strict(fitted).transform, rows)
        if isinstance(result, Exception):
            named = shortened(_refusing_columns(rules.make_strict(fitted), rows))
            columns = f" It is about columns: {named}." * bool(named)
            raise ValueError(public_rows.message_of(f"Step {name!r}", result) + columns)
    return made


def _refusing_columns(step: Any, rows: Any) -> list[str]:
    """Return the names of the columns that a step refuses, as far as they can be found."""
    named = []
    for part, own in _parts(step, rows):
        if not isinstance(attempt(getattr(part, "transform", np.asarray), own), Exception):
            continue
        names = containers.names_of(own) or range(*shape_of(own)[1:2])
        for place, name in enumerate(names):
            known = getattr(part, "categories_", None)
            alone = known and OneHotEncoder(categories=[known[place]]).fit
            if not alone or isinstance(attempt(alone, columns_of(own, [place])), Exception):
                named.append(str(name))
    return named


def check_rows_of_columns(
    name: str, step: Any, rows: Any, *, are_private: bool, allow_nan: bool
) -> None:
    """Refuse rows that lack columns, and private rows in which public parts leave gaps.

    With `allow_nan`, NaN is no reason to refuse, as the next step takes it. The public parts map
    the private rows twice: here, where a refusal costs nothing, and in the fit.
    """
    named = public_rows.as_named(rows)
    for _, _, columns in step.transformers:
        _check_has_columns(name, named, columns)
    refuse_kinds_of_categories(f"Step {name!r}", step, named)
    if are_private and isinstance(rows, RowBlocks):
        # Without private parts, the next step checks the rows, before anything is spent.
        if rules.private_parts(step):
            flaws = ""
            try:
                made_of(name, without_private_parts(step), rows).check(allow_nan=allow_nan)
            except ValueError:
                if not (flaws := _flaws_of_blocks(name, step, rows, named, allow_nan)):
                    raise
            if flaws:
                raise ValueError(flaws)
    elif are_private and (flaw := _flaw(name, without_private_parts(step), named, allow_nan)):
        flaws = "\n".join(_flaws_of_parts(name, step, named, allow_nan))
        raise ValueError(flaws or flaw + _hint_of_objects(named))


def _check_has_columns(name: str, rows: Any, columns: Any) -> None:
    """Refuse rows without the columns of a part; name the columns that are missing."""
    listed = columns if type(columns) is list else [columns] * isinstance(columns, str)
    n, by_name = sum(shape_of(rows)[1:2]), any(isinstance(one, str) for one in listed)
    texts = [one for one in containers.names_of(rows) or () if isinstance(one, str)]
    # Rows without names do not say which of the named columns they lack.
    known = {*range(-n, n), *texts} if texts or not by_name else listed
    lacking = [one for one in listed if one not in known]
    more = ", or is sparse and not in CSR, which X.tocsr() makes"
    if lacking:
        more = f"; it has {shortened(texts)}" * bool(texts)
    elif by_name:
        more = ". An array has columns by number: pass [0, 1] or so"
    flaw = (
        f"Step {name!r}: X, or the like of a plan, lacks the columns {lacking or columns!r}{more}."
    )
    containers.with_text(flaw, partial(columns_of, rows, columns))


def _hint_of_objects(rows: Any) -> str:
    """Return advice about columns of objects or booleans of polars; "" without such columns."""
    kinds = {*map(str, getattr(rows, "dtypes", ()))}
    return "".join(hint for kind, hint in containers.OF_DTYPES.items() if kind in kinds)


def _flaw(name: str, step: Any, rows: Any, allow_nan: bool) -> str:
    """Return why a transformer refuses rows or leaves gaps in them; "" if it does neither."""
    try:
        made = made_of(name, step, rows)
    except ValueError as error:
        return str(error)
    is_invalid = containers.not_finite_rows(made, allow_nan=allow_nan).any()
    return f"Step {name!r} leaves NaN or infinity." * bool(is_invalid)


def _flaws_of_parts(name: str, step: Any, rows: Any, allow_nan: bool) -> Iterator[str]:
    """Yield a text for each part that refuses rows or leaves gaps, with its columns and advice."""
    names = containers.names_of(rows) or range(rows.shape[1])
    parts = [(*part, _get_column_indices(rows, part[2])) for part in step.transformers]
    rest = sorted({*range(rows.shape[1])}.difference(*(places for *_, places in parts)))
    for part, inner, columns, places in [*parts, ("remainder", step.remainder, rest, rest)]:
        if not len(places) or (isinstance(inner, str) and inner == "drop"):
            continue
        is_single, own = isinstance(columns, str | Integral), columns_of(rows, places)
        path, own_names = f"{name}__{part}", [str(names[place]) for place in places]
        # The part is fitted alone: first to its own columns, so that public rows have the kind of
        # these columns; if that shows no flaw, to all columns.
        for given, among in ((own, [*range(len(places))]), (rows, places)):
            alone = [("alone", inner, among[0] if is_single else among)]
            only = clone(step).set_params(transformers=alone, remainder="drop")
            if flaw := _flaw(path, without_private_parts(only), given, allow_nan):
                break
        if flaw:
            kinds = containers.kinds_of(own, own_names, allow_nan=allow_nan)
            flaw += _hint_of_objects(own)
            yield _explained(own, f"Step {path!r}", flaw, inner, kinds, own_names, is_single)


def _flaws_of_blocks(name: str, step: Any, rows: RowBlocks, named: Any, allow_nan: bool) -> str:
    """Return the flaws of the parts of a transformer in the first block that has one, or ""."""
    # With a function, blocks of data frames may have texts.
    for block in mapped_blocks(rows, lambda block: block, like=rows.like)._checked_blocks():
        if not hasattr(block, "iloc") and hasattr(named, "columns") and not issparse(block):
            block = type(named)(block, columns=named.columns)
        if flaws := "\n".join(_flaws_of_parts(name, step, block, allow_nan)):
            return flaws.replace(containers.MISSING["X"], containers.MISSING_IN_PARTS)
    return ""


def _explained(
    rows: Any, what: str, flaw: str, part: Any, kinds: Any, names: list[str], is_single: bool
) -> str:
    """Return the error text of a part of a ColumnTransformer, with the columns that it refuses.

    `flaw` is the error of the part itself, and `kinds` has the kind of entries of columns. If no
    kind explains the error, the text has the names of all columns.
    """
    leaves = _leaves(part)
    tags = [get_tags(one).input_tags for one in leaves]
    is_for_texts, refused = any(one.string for one in tags), {*kinds.values()}
    cures = {**containers.CURES}
    if tags and tags[0].string and not (tags[0].two_d_array or is_single):
        return f"{what} takes one column of texts: pass its name or number, and no list."
    if is_single and not is_for_texts and type(next(iter(leaves), None)) not in _MAY_MIX:
        listed = [int(one) if one.isdigit() else one for one in names]
        return f"{what} takes a list of columns: pass {listed}."
    # Which kinds of entries the part refuses follows from its tags.
    if is_for_texts:
        refused = {*_OF_TEXTS}
        cures |= dict.fromkeys(refused, containers.GAPS_OF_TEXTS)
    elif any(one.categorical for one in tags) or any(type(one) in _MAY_MIX for one in leaves):
        refused = {"NaN", "None", "infinity"} if "NaN or infinity" in flaw else set()
    elif tags and tags[0].allow_nan:
        refused -= {"NaN", "None"}
    if kinds := {name: kind for name, kind in kinds.items() if kind in refused}:
        return f"{what} refuses its rows. {containers.text_of_kinds(kinds, cures=cures, X=rows)}"
    return f"{flaw} It is about columns: {shortened(names)}."


def fitted_columns(name: str, step: Any, parts: Mapping[str, Any], rows: Any) -> Any:
    """Fit a ColumnTransformer whose private parts have been fitted before; `parts` has them."""
    frozen = with_ends(step, lambda part, _: FrozenEstimator(parts[part]))
    whole = fitted_to_nothing(name, frozen, rows)
    whole.transformers = clone(step).transformers
    whole.transformers_ = [
        (part, rules.ending_with(fitted, parts[part]) if part in parts else fitted, columns)
        for part, fitted, columns in whole.transformers_
    ]
    return whole


def _as_wide(part: Any) -> Any:
    """Return a public transformer in place of a private part, with at least as many columns."""
    n_components = getattr(part, "n_components", None)
    most = int(n_components) if isinstance(n_components, Integral) else None
    takes_gaps = bool(get_tags(part).input_tags.allow_nan)
    # Of private parts, only a scaler returns sparse rows.
    facts = {"takes_gaps": takes_gaps, "makes_dense": not isinstance(part, DPStandardScaler)}
    return _Widened(partial(_widened, most=most, **facts), accept_sparse=True)


class _Widened(FunctionTransformer):
    """Transformer that stands for a private part; unlike its base, it is known to mix no rows."""


def _widened(rows: Any, *, most: int | None, takes_gaps: bool, makes_dense: bool) -> Any:
    """Check rows as the private part does, make them numbers, and keep at most `most` columns."""
    if any("texts" in kind for kind in containers.kinds_of(rows).values()):
        # The private part refuses texts, even of numbers, which could be converted.
        raise ValueError("could not convert string to float")
    wanted = "allow-nan" if takes_gaps else True
    checked = check_array(rows, accept_sparse="csr", ensure_all_finite=wanted)
    checked = columns_of(checked, slice(most))
    checked = as_dense(checked) if makes_dense else checked
    return containers.finite(checked) if takes_gaps else checked
