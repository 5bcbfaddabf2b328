"""Sends rows through fitted steps, so that no error, warning or type tells of single rows.

Behind a private release a single finite row may overflow in a step, become NaN, which the next step
would refuse, become complex, or be refused itself. So the output of a step is made finite and
converted to the kind of output that public rows give, and a row that a step refuses becomes a row
of zeros. A step that refuses public rows is refused for all rows, which is public.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from joblib import parallel_config
from scipy.sparse import csr_array, issparse
from sklearn import config_context
from sklearn.utils.validation import _num_samples

from skdp._estimator import PrivateEstimator
from skdp.data.containers import finite, not_finite_rows, types_of, with_nan
from skdp.data.parts import RowBlocks, mapped_blocks
from skdp.exceptions import warn_of_privacy
from skdp.pipeline._public_rows import (
    LOSSES,
    TWICE,
    Kind,
    are_numbers,
    are_single,
    exchanged,
    hold_categories,
    kind_of,
    kind_of_losses,
    plain_rows,
    row_repeated,
    shape_of,
    stand_ins,
    two_of,
)

# Of how many classes a score is tried with public labels.
_MOST_CLASSES = 10  # not tuned


def quietly(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function whose warnings may tell of single rows, and suppress these.

    It runs in this process, whatever its `n_jobs`: another one would print its warnings.
    """
    with parallel_config("sequential"), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*arguments)


def by_rows(what: str, function: Callable[..., Any], rows: Any) -> Any:
    """Apply a function that takes each row by itself; `what` names it in errors.

    The result is of the kind that public rows give. A row of numbers, or a single text, that the
    function refuses becomes 0.
    """
    rows = plain_rows(rows)
    are_plain = are_numbers(rows)
    public, kind = _public_kind(what, function, rows, are_plain)
    result = _attempt(function, (rows,))
    if isinstance(result, Exception) and (kind is None or not are_single(rows)):
        _refuse_numbers(what, rows)
        if kind is None or not are_plain:
            raise ValueError((are_plain and public.error) or _told(what, result))
    if kind is None or public.inputs is None:
        # Public rows give nothing to compare with, so the result keeps the kind that it has.
        own_kind = quietly(kind_of, result, are_plain)
        return result if own_kind is None else quietly(own_kind.converted, result, 0.0)
    return _of_kind(what, function, (rows,), result, kind, public.inputs, 0.0)


def _public_kind(
    what: str, function: Callable[..., Any], rows: Any, are_plain: bool
) -> tuple["_Public", Kind | None]:
    """Try a function with public rows like those given; refuse one that does not go by rows."""
    public = _public(what, function, [stand_ins(rows, are_numbers=are_plain)])
    if public.inputs is None:
        return public, None
    shape = shape_of(public.results)
    if shape[:1] != (TWICE,):
        raise ValueError(f"{what} must return a row for each, got shape {shape} for {TWICE} rows.")
    kind = quietly(kind_of, public.results, are_plain)
    _check_by_rows(what, function, public)
    return public, kind


def _check_by_rows(what: str, function: Callable[..., Any], public: "_Public") -> None:
    """Refuse a function that looks at all rows together, where public rows show it."""
    alone = () if public.inputs is None else _alone(function, public.inputs)
    if any(_differ(public.results, row, one) for row, one in enumerate(alone)):
        raise ValueError(
            f"{what} must take each row by itself, but what it makes of a public row changes "
            "with the row beside it."
        )


def in_blocks(what: str, function: Callable[..., Any], rows: RowBlocks) -> RowBlocks:
    """Do the same with rows in blocks, when these are read; refuse what does not make numbers."""
    public, kind = _public_kind(what, function, rows, True)
    if public.inputs is None:
        raise ValueError(public.error)
    made = None if kind is None else quietly(kind.converted, public.results, 0.0)
    is_array = issparse(made) or isinstance(made, np.ndarray)
    if made is None or not is_array or made.ndim != 2 or made.dtype.kind not in "biuf":
        raise ValueError(
            f"{what} must make 2-D arrays or sparse matrices of numbers, of rows in parts."
        )
    of_block = partial(
        _of_block, what=what, function=function, public=public.inputs, kind=kind, dtype=rows.dtype
    )
    return mapped_blocks(rows, of_block, made.shape[1])


def _of_block(
    rows: Any, what: str, function: Callable[..., Any], public: Any, kind: Any, dtype: np.dtype
) -> Any:
    """Return what a public step makes of a block: it raises nothing, and each row is by itself."""
    rows = rows.astype(dtype, copy=False)
    # Threads have settings of their own.
    with config_context(transform_output="default"), np.errstate(all="ignore"):
        result = _attempt(function, (rows,))
        made = _of_kind(what, function, (rows,), result, kind, public, 0.0)
        made = (csr_array(made) if issparse(made) else made).astype(dtype, copy=False)
        was_null = not_finite_rows(rows)
        if not was_null.any():
            return finite(made)
        # What is missing may be filled. If it is not, or is refused, the next step sees it.
        is_null = not_finite_rows(made) & was_null
        for row in np.flatnonzero(was_null).tolist():
            is_null[row] |= isinstance(_attempt(function, (row_repeated(rows, row),)), Exception)
        return with_nan(finite(made), is_null)


def losses_by_rows(
    what: str, function: Callable[..., Any], *inputs: Any, classes: Sequence[Any] = ()
) -> np.ndarray:
    """Apply a function of rows and responses, of public `classes`, that returns a number for each.

    The number is NaN for a row that the function refuses, or for which it returns no number.
    """
    inputs = (plain_rows(inputs[0]), *inputs[1:])
    are_plain = are_numbers(inputs[0])
    ways: list[Iterable[Any]] = [stand_ins(inputs[0], are_numbers=are_plain)]
    for responses in inputs[1:]:
        first = [number for number, one in enumerate(classes[:_MOST_CLASSES]) if not np.ndim(one)]
        of_class = [two_of(responses, (classes[i], classes[i - 1])) for i in first]
        ways.append([*of_class, *stand_ins(responses, are_numbers=are_numbers(responses))])
    public = _public(what, function, ways)
    if public.inputs is None and not are_plain:
        # The function may know some texts and refuse all others, among them the public ones. Then
        # there is nothing to compare with, so that each row is taken by itself.
        warn_of_privacy(
            f"{public.error or _told(what)} It was called with public texts. Errors that it "
            "raises for rows of X are not shown, and such rows have the worst loss."
        )
        return np.asarray(quietly(LOSSES.made_of, list(_alone(function, inputs)), np.nan))
    result = _attempt(function, inputs)
    if isinstance(result, Exception):
        _refuse_numbers(what, inputs[0])
    if public.inputs is None:
        raise ValueError(public.error or _told(what))
    kind = quietly(kind_of_losses, public.results)
    if kind is None:
        raise ValueError(
            f"{what} must return one score for each of {_num_samples(inputs[0])} rows, got shape "
            f"{shape_of(public.results)} of {type(public.results).__name__} for {TWICE} rows that "
            "are public."
        )
    # Responses that differ show what looks at all of them, if some are predicted well.
    for each in product(public.inputs[:1], *ways[1:]):
        _check_by_rows(what, function, _public(what, function, [[one] for one in each]))
    return np.asarray(_of_kind(what, function, inputs, result, kind, public.inputs, np.nan))


class _Public(NamedTuple):
    """Public rows that a function accepts, and their results; or the error that it raises."""

    inputs: Sequence[Any] | None
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
    return _Public(None, None, error)


def _attempt(function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    """Return what a function makes of inputs, or the error that it raises."""
    # A function that writes into its input would do so once more where single rows are odd.
    is_ours = isinstance(getattr(function, "__self__", None), PrivateEstimator)
    try:
        return quietly(function, *(inputs if is_ours else deepcopy(inputs)))
    except Exception as error:
        return error


def _differ(result: Any, row: int, alone: Any) -> bool:
    """Tell whether a row has numbers in a result that are not like its own result."""
    if isinstance(alone, Exception):
        return True
    try:
        first, second = _numbers(row_repeated(result, row)), _numbers(row_repeated(alone, 0))
        return not np.allclose(first, second, equal_nan=True)
    except Exception:
        return False


def _numbers(rows: Any) -> np.ndarray:
    return np.asarray(rows.toarray() if issparse(rows) else rows, np.float64)


def _refuse_numbers(what: str, rows: Any) -> None:
    """Refuse rows that are not finite, where a step or a score refuses rows."""
    if not is_finite(rows):
        raise ValueError(f"Input X contains NaN or infinity, which {what} refuses.")


def _told(what: str, error: Exception | None = None, *, is_public: bool = False) -> str:
    """Say that a function raises, and in full only what is raised for rows that are public."""
    told = error.args[0] if type(error) is ValueError and error.args else ""
    if type(told) is str and told.startswith("Found unknown categories"):
        return (
            f"{what} refuses a category that it was not fitted to; which one may be private. Fit "
            "it with handle_unknown='ignore', or an OrdinalEncoder with 'use_encoded_value'."
        )
    if is_public:
        return f"{what} raises {type(error).__name__}: {error}"
    return f"{what} raises an error, whose text may tell values and is left out."


def _of_kind(
    what: str,
    function: Callable[..., Any],
    inputs: Sequence[Any],
    result: Any,
    kind: Kind,
    public: Sequence[Any],
    fill: float,
) -> Any:
    """Convert a result to the kind of public results; redo it where single rows are of another."""
    n_rows = _num_samples(inputs[0])
    if _admits(kind, result, n_rows, exactly=True):
        return quietly(kind.converted, result, fill)
    # A narrower type, such as whole numbers, is lossless but may come from a single row.
    is_narrow = _admits(kind, result, n_rows)
    singles = {
        row: one
        for row, one in enumerate(_alone(function, inputs))
        if not _admits(kind, one, TWICE, exactly=is_narrow)
    }
    if is_narrow and len(singles) == n_rows:
        # Every row is narrow by itself, so the type tells of none of them.
        return quietly(kind.converted, result, fill)
    made = quietly(kind.made_of, list(singles.values()), fill)
    if len(singles) == n_rows and made is not None:
        return made
    # Public rows take the places of the odd ones. The number of rows stays, because what is
    # computed of the others must not depend, not even by rounding, on how many rows are odd.
    odd = list(singles)
    beside = [row_repeated(one, 0, len(odd)) for one in public]
    parts = [exchanged(one, odd, other) for one, other in zip(inputs, beside, strict=True)]
    result = _attempt(function, parts)
    if not _admits(kind, result, n_rows):
        # Together the rows give a kind that none of them gives alone.
        made = quietly(kind.made_of, list(_alone(function, inputs)), fill)
        if made is None:
            raise ValueError(_told(what))
        return made
    rows = quietly(kind.converted, result, fill)
    return rows if made is None else exchanged(rows, odd, made)


def _alone(function: Callable[..., Any], inputs: Sequence[Any]) -> Iterator[Any]:
    """Apply a function to each row by itself; the function gets the row two times."""
    csr = [one.tocsr() if issparse(one) else one for one in inputs]
    for row in range(_num_samples(inputs[0])):
        parts = zip((row_repeated(one, row) for one in csr), inputs, strict=True)
        yield _attempt(
            function, [two.asformat(one.format) if issparse(one) else two for two, one in parts]
        )


def _admits(kind: Kind, result: Any, n_rows: int, *, exactly: bool = False) -> bool:
    try:
        return bool(quietly(kind.admits, result, n_rows, exactly))
    except Exception:
        return False


def fitted_to_nothing(name: str, step: Any, rows: Any) -> Any:
    """Fit a step that learns nothing, to public rows instead of the private ones."""
    are_plain = are_numbers(rows)
    public = _public(f"Step {name!r}", step.fit, [stand_ins(rows, are_numbers=are_plain)])
    if public.inputs is not None:
        return public.results
    # A step that refuses all public rows may be one for texts that it knows.
    if are_plain:
        raise ValueError(public.error)
    fitted = _attempt(step.fit, (rows,))
    if isinstance(fitted, Exception):
        _refuse_numbers(f"Step {name!r}", rows)
        raise ValueError(_told(f"Step {name!r}", fitted))
    return fitted


def transformed(steps: Sequence[tuple[str, Any]], rows: Any) -> Any:
    """Send rows through fitted steps, except "passthrough" and None; finite rows stay finite."""
    for name, step in steps:
        if step is not None and not isinstance(step, str):
            if isinstance(rows, RowBlocks):
                is_ours = isinstance(step, PrivateEstimator)
                what = f"Step {name!r}"
                rows = step.transform(rows) if is_ours else in_blocks(what, step.transform, rows)
                continue
            result = by_rows(f"Step {name!r}", step.transform, rows)
            # Overflow is made finite. Rows that were not finite are for the next step to refuse.
            rows = _finite(result) if is_finite(rows) else result
    return rows


def _finite(rows: Any) -> Any:
    """Make numbers finite; rows that may hold texts stay as they are."""
    kind = getattr(getattr(rows, "dtype", None), "kind", "")
    return finite(rows) if hasattr(rows, "select_dtypes") or kind == "f" else rows


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


def restored(steps: Sequence[tuple[str, Any]], rows: Any) -> Any:
    """Send rows back through fitted steps, the last step first, and keep them finite."""
    for name, step in reversed(steps):
        if step is not None and not isinstance(step, str):
            rows = _finite(by_rows(f"Step {name!r}", step.inverse_transform, rows))
    return rows
