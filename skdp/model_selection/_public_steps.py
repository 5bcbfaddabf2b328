"""Rows through fitted steps: no error, warning or number tells of single rows on the way.

On a single finite row, after releases, a step may overflow, make NaN, which the next step would
refuse, make complex numbers, or refuse it. So what comes out of a step is made finite and of the
kind that it makes of public rows, and a row that a step refuses becomes a row of zeros behind it.
What is refused of public rows is refused for all: that is public.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import product, repeat
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import _num_samples

from skdp.data.finite import finite
from skdp.exceptions import warn_of_privacy
from skdp.model_selection._kinds import LOSSES, Kind, kind_of, kind_of_losses
from skdp.model_selection._public_rows import (
    TWICE,
    are_numbers,
    exchanged,
    first_of,
    hold_categories,
    plain_rows,
    repeated,
    row_twice,
    stand_ins,
)

__all__ = ["by_rows", "fitted_to_nothing", "losses_by_rows", "quietly", "restored", "transformed"]

# What a function that raises returns.
_REFUSED = object()


def quietly(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call what may warn of single rows."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*arguments)


def by_rows(what: str, function: Callable[..., Any], rows: Any) -> Any:
    """Apply a function of rows, each of which it takes by itself.

    The results are of the kind of those for public rows; 0 for a row that is refused.
    """
    rows = plain_rows(rows)
    are_plain = are_numbers(rows)
    public = _public(what, function, [stand_ins(rows, are_numbers=are_plain)])
    result = _attempt(function, (rows,))
    kind = None
    if public.inputs is not None:
        _check_length(what, public.results)
        kind = quietly(kind_of, public.results, are_plain)
    if result is _REFUSED:
        _refuse_numbers(what, rows)
        if kind is None or not are_plain:
            raise ValueError(public.error if are_plain and public.error else _left_out(what))
    if kind is None:
        # There is nothing to compare with.
        own = quietly(kind_of, result, are_plain)
        return result if own is None else quietly(own.converted, result, 0.0)
    return _of_kind(what, function, (rows,), result, kind, public.inputs, fill=0.0)


def losses_by_rows(
    what: str, function: Callable[..., Any], *inputs: Any, classes: Sequence[Any] = ()
) -> np.ndarray:
    """Apply a function of rows and responses, of public `classes`, that returns a number for each.

    The number is NaN for a row that is refused, or that gets something else.
    """
    inputs = (plain_rows(inputs[0]), *inputs[1:])
    are_plain = are_numbers(inputs[0])
    ways: list[Iterable[Any]] = [stand_ins(inputs[0], are_numbers=are_plain)]
    for responses in inputs[1:]:
        known = [repeated(responses, classes[0])] if len(classes) else []
        ways.append([*known, *stand_ins(responses, are_numbers=are_numbers(responses))])
    public = _public(what, function, ways)
    if public.inputs is None and not are_plain:
        # Texts of which it knows some may be all that it takes. There is nothing to compare with,
        # so that each row is taken by itself.
        warn_of_privacy(
            f"{public.error or _left_out(what)} So it does for public texts. What it raises for "
            "rows is not told: these have the worst loss."
        )
        return np.asarray(quietly(LOSSES.made_of, list(_alone(function, inputs)), np.nan))
    result = _attempt(function, inputs)
    if result is _REFUSED:
        _refuse_numbers(what, inputs[0])
    if public.inputs is None:
        raise ValueError(public.error or _left_out(what))
    kind = quietly(kind_of_losses, public.results)
    if kind is None:
        raise ValueError(_not_losses(what, public.results, _num_samples(inputs[0])))
    return np.asarray(_of_kind(what, function, inputs, result, kind, public.inputs, fill=np.nan))


class _Public(NamedTuple):
    """Public rows that a function takes, and what it makes of them; or what it raises instead."""

    inputs: Sequence[Any] | None
    results: Any
    error: str


def _public(what: str, function: Callable[..., Any], ways: Sequence[Iterable[Any]]) -> _Public:
    """Try public rows, with public responses if there are any."""
    error = ""
    for inputs in product(*ways):
        try:
            return _Public(inputs, quietly(function, *inputs), "")
        except Exception as raised:
            told = f"{what} raises {type(raised).__name__}: {raised}"
            error = error or (_left_out(what) if any(map(hold_categories, inputs)) else told)
    return _Public(None, None, error)


def _attempt(function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    try:
        return quietly(function, *inputs)
    except Exception:
        return _REFUSED


def _refuse_numbers(what: str, rows: Any) -> None:
    """Refuse rows that are not finite, where something refuses rows."""
    if not is_finite(rows):
        raise ValueError(f"Input X contains NaN or infinity, which {what} refuses.")


def _check_length(what: str, results: Any) -> None:
    """Refuse what makes another number of results of public rows."""
    shape = _shape_of(results)
    if shape[:1] != (TWICE,):
        raise ValueError(f"{what} must return a row for each, got shape {shape} for {TWICE} rows.")


def _left_out(what: str) -> str:
    return f"{what} raises an error, whose text may tell values and is left out."


def _shape_of(results: Any) -> tuple[int, ...]:
    try:
        return tuple(results.shape if issparse(results) else np.asarray(results, object).shape)
    except Exception:
        return ()


def _not_losses(what: str, results: Any, n_rows: int) -> str:
    return (
        f"{what} must return one score for each of {n_rows} rows, got shape {_shape_of(results)} "
        f"of {type(results).__name__} for {TWICE} rows that are public."
    )


def _of_kind(
    what: str,
    function: Callable[..., Any],
    inputs: Sequence[Any],
    result: Any,
    kind: Kind,
    public: Sequence[Any] | None,
    *,
    fill: float,
) -> Any:
    """Convert a result to the kind of public ones, row by row where it is of another."""
    n_rows = _num_samples(inputs[0])
    if _admits(kind, result, n_rows, exactly=public is not None):
        return quietly(kind.converted, result, fill)
    is_narrow = _admits(kind, result, n_rows)
    singles = _others(function, inputs, kind, exactly=is_narrow)
    if is_narrow and len(singles) == n_rows:
        # All of them are, by themselves.
        return quietly(kind.converted, result, fill)
    odd, own = list(singles), list(singles.values())
    made = quietly(kind.made_of, own, fill)
    if len(odd) == n_rows and made is not None:
        return made
    # All at once again: what is computed of the others must not depend on how many they are.
    if public is None:
        accepted = next(row for row in range(n_rows) if row not in singles)
        public = [row_twice(one, accepted) for one in inputs]
    beside = [first_of(one, len(odd)) for one in public]
    parts = [exchanged(one, odd, other) for one, other in zip(inputs, beside, strict=True)]
    result = _attempt(function, parts)
    if not _admits(kind, result, n_rows):
        # Together they make what none of them makes alone.
        made = quietly(kind.made_of, list(_alone(function, inputs)), fill)
        if made is None:
            raise ValueError(_left_out(what))
        return made
    rows = quietly(kind.converted, result, fill)
    return rows if made is None else exchanged(rows, odd, made)


def _others(
    function: Callable[..., Any], inputs: Sequence[Any], kind: Kind, *, exactly: bool
) -> dict[int, Any]:
    """Return by their numbers what single rows give that is of another kind."""
    made = enumerate(_alone(function, inputs))
    return {row: one for row, one in made if not _admits(kind, one, TWICE, exactly=exactly)}


def _alone(function: Callable[..., Any], inputs: Sequence[Any]) -> Iterator[Any]:
    """Apply a function to each row by itself, two times."""
    rows = [one.tocsr() if issparse(one) else one for one in inputs]
    formats = [getattr(one, "format", None) if issparse(one) else None for one in inputs]
    for row in range(_num_samples(inputs[0])):
        yield _attempt(function, list(map(row_twice, rows, repeat(row), formats)))


def _admits(kind: Kind, result: Any, n_rows: int, *, exactly: bool = False) -> bool:
    try:
        return bool(quietly(partial(kind.admits, exactly=exactly), result, n_rows))
    except Exception:
        return False


def fitted_to_nothing(name: str, step: Any, rows: Any) -> Any:
    """Fit a step that learns nothing to public rows in the place of the rows."""
    are_plain = are_numbers(rows)
    public = _public(f"Step {name!r}", step.fit, [stand_ins(rows, are_numbers=are_plain)])
    if public.inputs is not None:
        return public.results
    # What takes none of the public rows is a step for texts, or it takes no rows at all.
    fitted = _REFUSED if are_plain else _attempt(step.fit, (rows,))
    if fitted is _REFUSED:
        raise ValueError(public.error if are_plain else _left_out(f"Step {name!r}"))
    return fitted


def transformed(steps: Sequence[tuple[str, Any]], rows: Any) -> Any:
    """Send rows through fitted steps, some of which may pass through: finite if the rows are."""
    for name, step in steps:
        if step is not None and not isinstance(step, str):
            result = by_rows(f"Step {name!r}", step.transform, rows)
            # What overflows is made finite, and what never was finite is refused by what follows.
            rows = _finite(result) if is_finite(rows) else result
    return rows


def _finite(rows: Any) -> Any:
    """Make numbers finite; what may hold texts too stays as it is."""
    kind = getattr(getattr(rows, "dtype", None), "kind", "")
    return finite(rows) if hasattr(rows, "select_dtypes") or kind == "f" else rows


def is_finite(rows: Any) -> bool:
    """Tell whether all numbers are finite; what holds none has nothing to ask."""
    if hasattr(rows, "select_dtypes") and not are_numbers(rows):
        rows = rows.select_dtypes("number")
    try:
        values = quietly(np.asarray, rows.data if issparse(rows) else rows, np.float64)
    except Exception:
        return True
    return bool(np.isfinite(values).all())


def restored(steps: Sequence[tuple[str, Any]], rows: Any) -> Any:
    """Send rows back through fitted steps, in the order of `transformed`, and keep them finite."""
    for name, step in reversed(steps):
        if step is not None and not isinstance(step, str):
            rows = _finite(by_rows(f"Step {name!r}", step.inverse_transform, rows))
    return rows
