"""Rows through fitted steps: no error, warning or number tells of single rows on the way.

A step may overflow on a finite row, make NaN of it, which the next one would refuse, refuse the row
itself, or make of it what it makes of no other, such as complex numbers: after releases, and for
this row alone. So what comes out of a step is finite and of the kind that it makes of public rows,
and a row that a step refuses becomes a row of zeros behind it. What is refused of public rows is
refused for all: that is public.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import _num_samples

from skdp.data.finite import finite
from skdp.exceptions import warn_of_privacy
from skdp.model_selection._kinds import Kind, kind_of, kind_of_losses, plain_result
from skdp.model_selection._public_rows import (
    TWICE,
    are_numbers,
    exchanged,
    plain_rows,
    quietly,
    repeated,
    row_twice,
    stand_ins,
)

__all__ = ["by_rows", "fitted_to_nothing", "losses_by_rows", "restored", "transformed"]

# What a function that raises returns.
_REFUSED = object()


class _Public(NamedTuple):
    """Public rows that a function takes, and what it makes of them; or what it raises instead."""

    inputs: Sequence[Any] | None
    results: Any
    error: str


class _Rowwise(NamedTuple):
    """A function that takes each row by itself, and what it is, for errors."""

    what: str
    function: Callable[..., Any]

    @property
    def text_is_left_out(self) -> str:
        return f"{self.what} raises an error, whose text may tell values and is left out."

    @quietly()
    def of_public(self, *ways: Iterable[Any]) -> _Public:
        """Try public rows, with public responses if there are any."""
        error = ""
        for inputs in product(*ways):
            try:
                return _Public(inputs, plain_result(self.function(*inputs)), "")
            except Exception as raised:
                error = error or f"{self.what} raises {type(raised).__name__}: {raised}"
        return _Public(None, None, error or self.text_is_left_out)

    def attempt(self, inputs: Sequence[Any]) -> Any:
        """Call it; what it raises is not told."""
        try:
            return plain_result(self.function(*inputs))
        except Exception:
            return _REFUSED

    def of_all(self, inputs: Sequence[Any]) -> Any:
        """Call it, and refuse rows that are not finite if it refuses rows."""
        result = self.attempt(inputs)
        if result is _REFUSED and not is_finite(inputs[0]):
            raise ValueError(f"Input X contains NaN or infinity, which {self.what} refuses.")
        return result

    def of_singles(self, inputs: Sequence[Any]) -> dict[int, Any]:
        """Return what is made of each row, taken twice, by its number."""
        formats = [one.format if issparse(one) else "" for one in inputs]
        rows = [one.tocsr() if issparse(one) else one for one in inputs]
        return {
            row: self.attempt([row_twice(*one, row) for one in zip(rows, formats, strict=True)])
            for row in range(_num_samples(inputs[0]))
        }

    def check(self, results: Any, returns: str, n_axes: int | None = None) -> None:
        """Refuse what makes something else of public rows than a number or a row for each."""
        try:
            shape = tuple(results.shape if issparse(results) else np.asarray(results, object).shape)
        except Exception:
            shape = ()
        is_right = n_axes is None or (len(shape) == n_axes and are_numbers(results))
        if shape[:1] != (TWICE,) or not is_right:
            raise ValueError(
                f"{self.what} must return {returns}, got shape {shape} for {TWICE} rows that are "
                f"public, of type {type(results).__name__}."
            )


@quietly()
def by_rows(what: str, function: Callable[..., Any], rows: Any) -> Any:
    """Apply a function of rows, each of which it takes by itself.

    Parameters
    ----------
    what : str
        What it is, for errors.
    function : callable
        Takes rows, and returns as many results.
    rows : array-like of shape (n_samples, ...)
        Rows.

    Returns
    -------
    array-like of shape (n_samples, ...)
        The results, of the kind of those for public rows; 0 for a row that is refused.
    """
    rows, rowwise = plain_rows(rows), _Rowwise(what, function)
    are_plain = are_numbers(rows)
    public = rowwise.of_public(stand_ins(rows, are_numbers=are_plain))
    kind = None
    if public.inputs is not None:
        rowwise.check(public.results, "a row for each")
        kind = kind_of(public.results, are_plain)
    result = rowwise.of_all([rows])
    if result is _REFUSED and (kind is None or not are_plain):
        raise ValueError(public.error if are_plain else rowwise.text_is_left_out)
    if kind is not None:
        return _of_kind(kind, rowwise, [rows], result, public, fill=0.0)
    # There is nothing to compare with.
    own = kind_of(result, are_plain)
    return result if own is None else own.converted(result, 0.0)


def losses_by_rows(
    what: str, function: Callable[..., Any], *inputs: Any, classes: Sequence[Any] = ()
) -> np.ndarray:
    """Apply a function of rows and responses that returns a number for each.

    Parameters
    ----------
    what : str
        What it is, for errors.
    function : callable
        Takes rows, and responses if there are any.
    *inputs : array-like of shape (n_samples, ...)
        Rows, and responses.
    classes : sequence, default=()
        Public responses.

    Returns
    -------
    ndarray of shape (n_samples,)
        The numbers; NaN for a row that is refused, or that gets something else.
    """
    inputs, rowwise = (plain_rows(inputs[0]), *inputs[1:]), _Rowwise(what, function)
    are_plain = are_numbers(inputs[0])
    ways: list[Iterable[Any]] = [stand_ins(inputs[0], are_numbers=are_plain)]
    for responses in inputs[1:]:
        known = [repeated(responses, classes[0])] if len(classes) else []
        ways.append([*known, *stand_ins(responses, are_numbers=are_numbers(responses))])
    public = rowwise.of_public(*ways)
    if public.inputs is None and not are_plain:
        # Texts of which it knows some may be all that it takes.
        warn_of_privacy(
            f"{public.error} So it does for public texts. What it raises for rows is not told: "
            "these have the worst loss."
        )
    with quietly():
        return _losses(rowwise, inputs, public, are_plain)


def _losses(
    rowwise: _Rowwise, inputs: Sequence[Any], public: _Public, are_plain: bool
) -> np.ndarray:
    if public.inputs is None and not are_plain:
        # There is nothing to compare with, so that each row is taken by itself.
        singles = rowwise.of_singles(inputs).values()
        return np.asarray(kind_of_losses(0.0).made_of(list(singles), np.nan))
    result = rowwise.of_all(inputs)
    if public.inputs is None:
        raise ValueError(public.error)
    rowwise.check(public.results, f"one score for each of {_num_samples(inputs[0])} rows", 1)
    kind = kind_of_losses(public.results)
    return np.asarray(_of_kind(kind, rowwise, inputs, result, public, fill=np.nan))


def _of_kind(
    kind: Kind, rowwise: _Rowwise, inputs: Sequence[Any], result: Any, public: _Public, fill: float
) -> Any:
    """Convert a result to the kind of public ones, row by row where it is of another."""
    n_rows = _num_samples(inputs[0])
    if _admits(kind, result, n_rows, exactly=True):
        return kind.converted(result, fill)
    is_narrow = _admits(kind, result, n_rows)
    singles = rowwise.of_singles(inputs)
    odd = [row for row in singles if not _admits(kind, singles[row], TWICE, exactly=is_narrow)]
    if is_narrow and len(odd) == n_rows:
        # All of them are, by themselves.
        return kind.converted(result, fill)
    made = kind.made_of([singles[row] for row in odd], fill)
    if len(odd) == n_rows and made is not None:
        return made
    # All at once again: what is computed of the others must not depend on how many they are.
    parts = zip(inputs, public.inputs or (), strict=True)
    result = rowwise.attempt([exchanged(one, odd, other) for one, other in parts])
    if not _admits(kind, result, n_rows):
        raise ValueError(rowwise.text_is_left_out)
    rows = kind.converted(result, fill)
    return rows if made is None else exchanged(rows, odd, made, np.arange(len(odd)))


def _admits(kind: Kind, result: Any, n_rows: int, *, exactly: bool = False) -> bool:
    try:
        return kind.admits(result, n_rows, exactly=exactly)
    except Exception:
        return False


@quietly()
def fitted_to_nothing(name: str, step: Any, rows: Any) -> Any:
    """Fit a step that learns nothing to public rows in the place of the rows."""
    are_plain, fit = are_numbers(rows), _Rowwise(f"Step {name!r}", step.fit)
    public = fit.of_public(stand_ins(rows, are_numbers=are_plain))
    if public.inputs is not None:
        return public.results
    # What takes none of the public rows is a step for texts, or it takes no rows at all.
    fitted = _REFUSED if are_plain else fit.attempt([rows])
    if fitted is _REFUSED:
        raise ValueError(public.error if are_plain else fit.text_is_left_out)
    return fitted


def transformed(steps: Sequence[tuple[str, Any]], rows: Any) -> Any:
    """Send rows through fitted steps.

    Parameters
    ----------
    steps : sequence of (str, estimator)
        Names and fitted steps, "passthrough" or None among them.
    rows : array-like of shape (n_samples, ...)
        Rows.

    Returns
    -------
    array-like of shape (n_samples, ...)
        What comes out, finite if the rows are.
    """
    for name, step in steps:
        if step is not None and not isinstance(step, str):
            result = by_rows(f"Step {name!r}", step.transform, rows)
            # What overflows is made finite, and what never was finite is refused by what follows.
            rows = _finite(result) if is_finite(rows) else result
    return rows


def _finite(rows: Any) -> Any:
    """Make numbers finite; what may hold texts too is left as it is, numbers or not."""
    kind = getattr(getattr(rows, "dtype", None), "kind", "")
    return finite(rows) if hasattr(rows, "select_dtypes") or kind == "f" else rows


@quietly()
def is_finite(rows: Any) -> bool:
    """Tell whether all numbers are finite; what holds none has nothing to ask."""
    if hasattr(rows, "select_dtypes") and not are_numbers(rows):
        rows = rows.select_dtypes("number")
    try:
        values = np.asarray(rows.data if issparse(rows) else rows, dtype=np.float64)
    except Exception:
        return True
    return bool(np.isfinite(values).all())


def restored(steps: Sequence[tuple[str, Any]], rows: Any) -> Any:
    """Send rows back through fitted steps.

    Parameters
    ----------
    steps : sequence of (str, estimator)
        Names and fitted steps, in the order of `transformed`.
    rows : array-like of shape (n_samples, ...)
        What came out of the last one.

    Returns
    -------
    array-like of shape (n_samples, ...)
        Rows in the space of what went into the first one, finite.
    """
    for name, step in reversed(steps):
        if step is not None and not isinstance(step, str):
            rows = _finite(by_rows(f"Step {name!r}", step.inverse_transform, rows))
    return rows
