"""Sends rows through fitted steps, so that no error, warning or type tells of single rows.

Behind a private release a single finite row may overflow in a step, become NaN, which the next step
would refuse, become complex, or be refused itself. So the output of a step is made finite and gets
the form that public rows give, and a row that becomes anything else is a row of zeros. A step that
makes no real numbers of public rows is refused for all rows, which is public.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
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
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils._indexing import _get_column_indices
from sklearn.utils.validation import _num_samples, check_array

from skdp._estimator import PrivateEstimator
from skdp.data.containers import (
    MISSING,
    canonical_csr,
    finite,
    names_of,
    not_finite_rows,
    types_of,
    with_nan,
    without_warnings,
)
from skdp.data.parts import RowBlocks, mapped_blocks
from skdp.data.people import People
from skdp.exceptions import shortened
from skdp.pipeline._holders import (
    copied,
    ending_with,
    fitted_parts,
    is_columns,
    last_of,
    make_strict,
    private_parts,
    refuses_unknown,
)
from skdp.pipeline._public_rows import (
    TWICE,
    are_numbers,
    are_single,
    columns_of,
    hold_categories,
    plain_rows,
    row_twice,
    shape_of,
    stand_ins,
    with_ones,
)
from skdp.preprocessing import DPStandardScaler

# ------------------------------
# The form of what functions make of rows: container, width, and type of numbers.

_REAL = "biuf"


class Form(NamedTuple):
    """What a function makes of public rows: a 2-D array, CSR, or one number for each row.

    The type of a result may follow the values of single rows: one negative number makes all roots
    complex. So the form that public rows give decides, and every result gets it.
    """

    shape: tuple[int, ...]  # of what one row becomes
    dtype: np.dtype
    is_sparse: bool = False

    @property
    def made(self) -> np.dtype:
        """Type of the result: one number for each row, which may be missing, is a float64."""
        return self.dtype if self.shape else np.dtype(np.float64)

    def read(self, result: Any, n_rows: int) -> Any:
        """Return a result for so many rows; None if it is not of this form, to the type."""
        result = result if self.shape else np.asarray(result)
        if form_of(result) != self or result.shape[0] != n_rows:
            return None
        if self.is_sparse:
            return canonical_csr(result)
        # In C order, as rows that replace odd ones leave them: in another one rows round otherwise.
        return np.require(result, self.made, ["C", "A"])

    def with_rows(self, made: Any, numbers: Sequence[int], others: Any) -> Any:
        """Exchange some rows of a result."""
        if not self.is_sparse:
            made = made.copy()
            made[numbers] = others
            return made
        index = np.arange(made.shape[0])
        index[numbers] = made.shape[0] + np.arange(len(numbers))
        return csr_array(csr_array(vstack([made, others], format="csr"))[index])

    def of_rows(self, results: Sequence[Any]) -> Any:
        """Make rows of the first row of each result, of any kind; what has no such row is missing.

        Of a step it becomes a row of zeros, of losses NaN.
        """
        made = map(self._row, results)
        if self.is_sparse:
            # One by one, as they may be long.
            nothing = csr_array((0, *self.shape), dtype=self.made)
            return csr_array(vstack([nothing, *(csr_array(row[np.newaxis]) for row in made)]))
        return np.array(list(made), self.made).reshape(len(results), *self.shape)

    def _row(self, result: Any) -> np.ndarray:
        try:
            row = _dense(result)[0, ...]
        except Exception:
            row = np.empty(0, object)
        # Fractions do not become whole numbers, nor texts any.
        is_real = row.dtype.kind in _REAL and np.can_cast(row.dtype, self.made, "same_kind")
        if is_real and row.shape == self.shape:
            return row.astype(self.made)
        return np.full(self.shape, 0 if self.shape else np.nan, self.made)


def form_of(result: Any) -> Form | None:
    """Return the form of an array or sparse matrix of real numbers; None of anything else."""
    is_array = type(result) is np.ndarray or issparse(result)
    if not is_array or result.dtype.kind not in _REAL or result.ndim not in (1, 2):
        return None
    return Form(result.shape[1:], result.dtype, issparse(result))


# ------------------------------
# Functions of rows, and fitted steps.

# Rows between steps key the noise: they are the same whatever the settings of scikit-learn.
_in_arrays = config_context(transform_output="default")
_NO_FRAMES = " FunctionTransformer(validate=True) and set_output(transform='default') make arrays."
_WANTED = "must return a 2-D array or a sparse matrix of real numbers, with a row for each"


def quietly(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function whose warnings may tell of single rows, and suppress these.

    It runs in this process, whatever its `n_jobs`: another one would print its warnings.
    """
    with parallel_config("sequential"), without_warnings(), np.errstate(all="ignore"):
        return function(*arguments)


def by_rows(what: str, function: Callable[..., Any], rows: Any) -> Any:
    """Apply a function that takes each row by itself; `what` names it in errors.

    The result is an array or CSR of the form that public rows give. A row of numbers, or a single
    text, that the function refuses becomes 0.
    """
    rows = plain_rows(rows)
    public, form = _public_form(what, function, rows)
    result = _attempt(function, (rows,))
    is_refused = isinstance(result, Exception) and (form is None or not are_single(rows))
    # Finite numbers that overflow, or are refused, make rows of zeros. All else is an error.
    if is_refused and (form is None or isinstance(_of_gaps(function, rows), Exception)):
        _refuse_numbers(what, rows)
        are_plain = are_numbers(rows)
        if form is None or not are_plain:
            raise ValueError((are_plain and public.error) or _told(what, result))
    if form is not None:
        return _of_form(function, (rows,), result, form)
    # A step that was fitted to some categories may refuse all public rows. So as not to tell of
    # single rows, what it makes has one type.
    own = form_of(result)
    made = _read(own, result, _num_samples(rows)) if own is not None and own.shape else None
    if made is None:
        raise ValueError(f"{what} {_WANTED}.")
    return made.astype(np.float64)


def _public_form(
    what: str, function: Callable[..., Any], rows: Any
) -> tuple["_Public", Form | None]:
    """Try a function with public rows like those given; refuse one that does not make numbers."""
    public = _public(what, function, [stand_ins(rows)])
    if not public.inputs:
        return public, None
    made = public.results
    form, shape = form_of(made), shape_of(made)
    if form is None or not form.shape or shape[0] != TWICE:
        mend = _NO_FRAMES if hasattr(made, "iloc") else ""
        given = f"{type(made).__name__} of shape {shape} and type {getattr(made, 'dtype', None)}"
        raise ValueError(f"{what} {_WANTED}, got {given} for {TWICE} public rows.{mend}")
    _check_by_rows(what, function, public, form)
    return public, form


def _check_by_rows(what: str, function: Callable[..., Any], public: "_Public", form: Form) -> None:
    """Refuse a function that looks at all rows together, where public rows show it."""
    alone = list(_alone(function, public.inputs))
    are_refused = any(isinstance(one, Exception) for one in alone)
    together, apart = _dense(public.results), _dense(quietly(form.of_rows, alone))
    if are_refused or not quietly(partial(np.allclose, equal_nan=True), together, apart):
        raise ValueError(
            f"{what} must take each row by itself, but what it makes of a public row changes "
            "with the row beside it."
        )


def _dense(rows: Any) -> np.ndarray:
    return np.asarray(canonical_csr(rows).toarray() if issparse(rows) else rows)


def in_blocks(what: str, function: Callable[..., Any], rows: RowBlocks) -> RowBlocks:
    """Do the same with rows in blocks, when these are read; they keep the type of the blocks."""
    public, form = _public_form(what, function, rows)
    if form is None:
        raise ValueError(public.error)
    of_block = partial(_of_block, function=function, form=form, dtype=rows.dtype)
    return mapped_blocks(rows, of_block, form.shape[0])


@_in_arrays
def _of_block(rows: Any, function: Callable[..., Any], form: Form, dtype: np.dtype) -> Any:
    """Return what a public step makes of a block: it raises nothing, and each row is by itself."""
    rows = rows.astype(dtype, copy=False)
    with np.errstate(all="ignore"):
        made = _of_form(function, (rows,), _attempt(function, (rows,)), form)
        made = made.astype(dtype, copy=False)
        was_null = not_finite_rows(rows)
        if not was_null.any():
            return finite(made)
        # What is missing may be filled. If it is not, or is refused, the next step sees it.
        is_null = not_finite_rows(made) & was_null
        for row in np.flatnonzero(was_null).tolist():
            is_null[row] |= isinstance(_attempt(function, (row_twice(rows, row),)), Exception)
        return with_nan(finite(made), is_null)


class _Public(NamedTuple):
    """Public rows that a function accepts, and their results; or the error that it raises."""

    inputs: Sequence[Any]  # () if it accepts none
    results: Any
    error: str


def _public(what: str, function: Callable[..., Any], ways: Sequence[Iterable[Any]]) -> _Public:
    """Try public rows, together with public responses if there are any, until some are accepted."""
    error = ""
    for inputs in product(*ways):
        try:
            return _Public(inputs, quietly(function, *deepcopy(inputs)), "")
        except Exception as raised:
            # Categories come from the private data, and the error may show them.
            error = error or _told(what, raised, is_public=not any(map(hold_categories, inputs)))
    return _Public((), None, error)


def _attempt(function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    """Return what a function makes of inputs, or the error that it raises."""
    # A function that writes into its input would do so once more where single rows are odd.
    is_ours = isinstance(getattr(function, "__self__", None), PrivateEstimator)
    try:
        return quietly(function, *(inputs if is_ours else deepcopy(inputs)))
    except Exception as error:
        return error


def _of_gaps(function: Callable[..., Any], rows: Any) -> Any:
    """Return what a function makes of rows without their finite numbers, or its error."""
    ones = _attempt(with_ones, (rows,))
    return ones if isinstance(ones, Exception) else _attempt(function, (ones,))


def _refuse_numbers(what: str, rows: Any) -> None:
    """Refuse rows that are not finite, where a step or a score refuses rows."""
    if not is_finite(rows):
        raise ValueError(f"Input X contains NaN or infinity, which {what} refuses.")


def _told(what: str, error: Exception | None = None, *, is_public: bool = False) -> str:
    """Say that a function raises, and in full only what is raised for rows that are public."""
    told = error.args[0] if type(error) is ValueError and error.args else ""
    if type(told) is str and told.startswith("Found unknown categories"):
        return (
            f"{what} refuses a category that it was not given, or not fitted to; which one may be "
            "private. Give it all categories, or pass handle_unknown='ignore', of an "
            "OrdinalEncoder 'use_encoded_value'."
        )
    if is_public:
        return f"{what} raises {type(error).__name__}: {error}"
    return (
        f"{what} raises an error, whose text may tell values and is left out. Call it on made-up "
        "rows, of the same columns and types, to see what it refuses."
    )


def _of_form(function: Callable[..., Any], inputs: Sequence[Any], result: Any, form: Form) -> Any:
    """Give a result the form of public results; redo it where single rows have another one."""
    n_rows = _num_samples(inputs[0])
    made = _read(form, result, n_rows)
    if made is not None:
        return made
    singles = {
        row: one
        for row, one in enumerate(_alone(function, inputs))
        if _read(form, one, TWICE) is None
    }
    odd, others = list(singles), quietly(form.of_rows, list(singles.values()))
    if len(odd) == n_rows:
        return others
    # Another row takes the places of the odd ones. The number of rows stays, because what is
    # computed of the others must not depend, not even by rounding, on how many rows are odd.
    another = next(row for row in range(n_rows) if row not in singles)
    parts = [with_row_at(one, another, odd) for one in inputs]
    made = _read(form, _attempt(function, parts), n_rows)
    if made is None:
        # Together the rows make what none of them makes alone.
        return quietly(form.of_rows, list(_alone(function, inputs)))
    return form.with_rows(made, odd, others)


def with_row_at(rows: Any, number: int, places: Sequence[int]) -> Any:
    """Put one row into the places of others; container, types and names stay as they are."""
    if isinstance(rows, np.ndarray):
        # In the same memory order, as rows round otherwise in another one.
        made = np.array(rows, order="K")
        made[places] = made[number]
        return made
    index = np.arange(_num_samples(rows))
    index[places] = number
    made = _safe_indexing(rows, index)
    return made.set_axis(rows.index) if hasattr(rows, "iloc") else made


def _alone(function: Callable[..., Any], inputs: Sequence[Any]) -> Iterator[Any]:
    """Apply a function to each row by itself; the function gets the row two times."""
    for row in range(_num_samples(inputs[0])):
        yield _attempt(function, [row_twice(one, row) for one in inputs])


def _read(form: Form, result: Any, n_rows: int) -> Any:
    try:
        return quietly(form.read, result, n_rows)
    except Exception:
        return None


@_in_arrays
def fitted_to_nothing(name: str, step: Any, rows: Any) -> Any:
    """Fit a step that learns nothing, to public rows instead of the private ones."""
    fitted = _fitted_to_nothing(name, step, rows)
    if is_columns(fitted):
        # By density, as scikit-learn decides, it would follow values.
        makes = _public("", partial(_make_sparse, fitted), [stand_ins(rows)])
        fitted.sparse_output_ = bool(step.sparse_threshold and makes.results)
    return fitted


def _make_sparse(fitted: Any, rows: Any) -> bool:
    """Tell whether any part of a ColumnTransformer makes sparse rows."""
    parts = [(part, columns_of(rows, columns)) for _, part, columns in fitted_parts(fitted)]
    return any(issparse(x if isinstance(part, str) else part.transform(x)) for part, x in parts)


def _fitted_to_nothing(name: str, step: Any, rows: Any) -> Any:
    public = _public(f"Step {name!r}", step.fit, [stand_ins(rows)])
    if public.inputs:
        return public.results
    # A step that refuses all public rows may be one for texts that it knows.
    if are_numbers(rows):
        raise ValueError(public.error)
    fitted = _attempt(step.fit, (rows,))
    if isinstance(fitted, Exception):
        _refuse_numbers(f"Step {name!r}", rows)
        raise ValueError(_told(f"Step {name!r}", fitted))
    return fitted


@_in_arrays
def transformed(steps: Sequence[tuple[str, Any]], rows: Any) -> Any:
    """Send rows through fitted steps, except "passthrough" and None; finite rows stay finite."""
    for name, step in steps:
        if step is None or isinstance(step, str):
            continue
        if isinstance(rows, RowBlocks) and isinstance(step, PrivateEstimator):
            rows = step.transform(rows)
        else:
            send = in_blocks if isinstance(rows, RowBlocks) else _by_rows_but_gaps
            rows = send(f"Step {name!r}", step.transform, rows)
    return rows


def _by_rows_but_gaps(what: str, function: Callable[..., Any], rows: Any) -> Any:
    """Make overflow finite. What comes of gaps and infinity is for the next step to refuse."""
    result = by_rows(what, function, rows)
    if is_finite(rows):
        return _finite(result)
    if is_finite(result):
        return result
    gaps = _of_gaps(partial(by_rows, what, function), rows)
    if isinstance(gaps, Exception) or (issparse(gaps) and not is_finite(gaps)):
        return result
    if issparse(gaps):
        return _finite(result)
    # A finite number that overflows may turn what comes of a gap into infinity.
    is_kept = np.isinf(gaps) | (np.isnan(gaps) & np.isnan(result))
    return np.where(is_kept, result, _finite(result))


def _finite(rows: Any) -> Any:
    return finite(rows) if rows.dtype.kind == "f" else rows


def of_people(function: Callable[..., Any], people: People | None, *inputs: Any) -> Any:
    """Apply a function of rows, and of what belongs to them, so that no person moves another.

    The rows of one person would move those of others to other places, where they round otherwise.
    """
    if people is None:
        return function(*inputs)
    inputs, kept, parts = (plain_rows(inputs[0]), *inputs[1:]), [], []
    for places, is_used in people.batches():
        batch = (None if one is None else _safe_indexing(one, places) for one in inputs)
        parts.append(function(*batch)[is_used])
        kept.append(places[is_used])
    order = np.argsort(np.concatenate(kept))
    if issparse(parts[0]):
        return csr_array(vstack(parts, format="csr")[order])
    return np.concatenate(parts)[order]


def is_finite(rows: Any) -> bool:
    """Tell whether all numbers are finite; True for rows without numbers, such as texts."""
    # Texts that are all missing are no numbers either.
    if are_single(rows):
        return True
    if (types := types_of(rows)) and not are_numbers(rows):
        rows = rows[[name for name, is_number in types if is_number]]
    try:
        values = quietly(np.asarray, rows.data if issparse(rows) else rows, np.float64)
    except Exception:
        return True
    return bool(np.isfinite(values).all())


@_in_arrays
def restored(steps: Sequence[tuple[str, Any]], rows: Any) -> Any:
    """Send rows back through fitted steps, the last step first, and keep them finite."""
    for name, step in reversed(steps):
        if step is not None and not isinstance(step, str):
            rows = _finite(by_rows(f"Step {name!r}", step.inverse_transform, rows))
    return rows


# ------------------------------
# A ColumnTransformer that comes first: its public parts, and its private ones once they are fitted.


def in_public(step: Any) -> Any:
    """Return the transformer with public parts only: private ones keep columns as they are."""
    wide = {name: ending_with(one, _as_wide(last_of(one))) for name, one, _ in private_parts(step)}
    return with_parts(step, wide)


def with_parts(step: Any, parts: Mapping[str, Any]) -> Any:
    """Clone a transformer with other estimators in some places."""
    others = [(name, parts.get(name, one), columns) for name, one, columns in step.transformers]
    return clone(step).set_params(transformers=others)


def refuse_unknown(name: str, step: Any, rows: Any) -> Any:
    """Refuse rows with categories that a public step does not know; return what it makes of them.

    It does so before anything is charged, and names no category.
    """
    if isinstance(rows, RowBlocks):
        raise ValueError(
            f"Step {name!r} refuses unknown categories, which takes rows in memory: pass "
            "handle_unknown='ignore', of an OrdinalEncoder 'use_encoded_value'."
        )
    given = in_public(step) if is_columns(step) else step
    fitted = fitted_to_nothing(name, copied(given), rows)
    made = transformed([(name, fitted)], rows)
    if refuses_unknown(fitted, is_fitted=True):
        result = _attempt(make_strict(fitted).transform, (rows,))
        if isinstance(result, Exception):
            raise ValueError(_told(f"Step {name!r}", result))
    return made


def check_rows_of_columns(name: str, step: Any, rows: Any, *, are_private: bool) -> None:
    """Refuse rows without the columns, or that public parts refuse or do not make finite.

    Public parts see all private rows here, before anything is charged, and again in
    `fitted_columns`, once the private parts are fitted: what they refuse is refused while it costs
    nothing.
    """
    for _, _, columns in step.transformers:
        try:
            columns_of(rows, columns)
        except (IndexError, KeyError, ValueError):
            raise ValueError(
                f"Step {name!r}: X, or the like of a plan, does not have the columns {columns!r}, "
                "or has one of them twice."
            ) from None
    if not are_private:
        return
    public = in_public(step)
    if flaw := _flaw(name, public, rows):
        raise ValueError(
            f"{flaw} It is about columns: {_flawed_columns(name, public, rows)}. {MISSING['X']} "
            "Encode text by OneHotEncoder(categories=[...])."
        )


def _flaw(name: str, step: Any, rows: Any) -> str:
    """Say why a public transformer makes no finite numbers of some rows; "" if it does."""
    try:
        made = transformed([(name, fitted_to_nothing(name, step, rows))], rows)
    except ValueError as error:
        return str(error)
    return "" if is_finite(made) else f"Step {name!r} leaves NaN or infinity."


def _flawed_columns(name: str, step: Any, rows: Any) -> str:
    """Name the columns, of parts that leave other than finite numbers, that hold such, or all."""
    rows = rows if hasattr(rows, "shape") else np.asarray(rows)
    places, flawed = range(rows.shape[1]), set[int]()
    parts = {part: _get_column_indices(rows, columns) for part, _, columns in step.transformers}
    for part, its in {**parts, "": {*places}.difference(*parts.values())}.items():
        # Of the parts this one alone, or the remainder.
        alone = with_parts(step, dict.fromkeys(parts.keys() - {part}, "drop"))
        alone.remainder = "drop" if part else step.remainder
        flawed.update(its if _flaw(name, alone, rows) else ())
    columns = {place: columns_of(rows, [place]) for place in sorted(flawed)}
    odd = [i for i, one in columns.items() if not (are_numbers(one) and is_finite(one))]
    return shortened([str((names_of(rows) or places)[place]) for place in odd or columns])


def fitted_columns(name: str, step: Any, parts: Mapping[str, Any], rows: Any) -> Any:
    """Fit the transformer around fitted private steps, by their paths, which stay as they are."""
    ends = {path.partition("__")[0]: fitted for path, fitted in parts.items()}
    frozen = {
        part: ending_with(one, FrozenEstimator(ends[part])) for part, one, _ in private_parts(step)
    }
    whole = fitted_to_nothing(name, with_parts(step, frozen), rows)
    whole.transformers = clone(step).transformers
    whole.transformers_ = [
        (part, ending_with(fitted, ends[part]) if part in ends else fitted, columns)
        for part, fitted, columns in whole.transformers_
    ]
    return whole


def _as_wide(part: Any) -> Any:
    """Return what learns nothing and leaves as many columns as a private part, or more."""
    n_components = getattr(part, "n_components", None)
    most = int(n_components) if isinstance(n_components, Integral) else None
    takes_gaps = bool(get_tags(part).input_tags.allow_nan)
    # Only a scaler leaves sparse rows sparse.
    facts = {"takes_gaps": takes_gaps, "makes_dense": not isinstance(part, DPStandardScaler)}
    return FunctionTransformer(partial(_widened, most=most, **facts), accept_sparse=True)


def _widened(rows: Any, *, most: int | None, takes_gaps: bool, makes_dense: bool) -> Any:
    """Check rows as the private part does, which makes numbers of nullable columns, too."""
    wanted = "allow-nan" if takes_gaps else True
    checked = check_array(rows, accept_sparse=True, ensure_all_finite=wanted)
    checked = columns_of(checked, slice(most))
    if makes_dense and issparse(checked):
        checked = checked.toarray()
    return finite(checked) if takes_gaps else checked
