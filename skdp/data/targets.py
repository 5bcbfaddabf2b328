"""Targets of rows, numbers or labels: in memory, or loaded part by part."""

import threading
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from itertools import pairwise, starmap
from typing import Any

import numpy as np

from skdp.data.containers import checked_container, composed, loaded


class Targets:
    """One target for each row; parts are loaded again for every pass, each once in a thread.

    It is a source of :func:`skdp.data.reduce.map_sum`, for passes over targets alone: each part is
    a block, and the targets are its only column.

    Parameters
    ----------
    parts : sequence of callable or array-like
        The targets of each part: 1-D arrays, or functions without arguments that load them.
    lengths : sequence of int
        How many rows each part has, from 1. Public.
    numbers : sequence of int or None, default=None
        Numbers by which errors name the parts; ``None`` counts from 0.
    function : callable or None, default=None
        Maps an array of targets to another one, target by target.
    pass_over : callable or None, default=None
        That of a `RowParts` to which the targets belong.
    """

    #: Whether every pass reads the same targets.
    is_repeatable = False
    is_sparse = False

    def __init__(
        self,
        parts: Sequence[Any],
        lengths: Sequence[int],
        numbers: Sequence[int] | None = None,
        function: Callable[[np.ndarray], np.ndarray] | None = None,
        pass_over: Callable[..., Any] | None = None,
    ) -> None:
        self._parts, self._lengths = list(parts), list(lengths)
        self._numbers = list(range(len(self._parts)) if numbers is None else numbers)
        self._function, self._pass_over = function, pass_over
        self.pass_over = pass_over and partial(pass_over, numbers=self._numbers)
        self.block_starts = np.cumsum([0, *self._lengths])
        #: First block of each part, and the end.
        self.part_starts = np.arange(len(self.block_starts))
        self.shape = int(self.block_starts[-1]), 1
        self._loaded = threading.local()

    @classmethod
    def of(cls, values: np.ndarray) -> "Targets":
        """Wrap the targets of all rows, a checked array in memory."""
        return cls([values], [len(values)])

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        values = np.concatenate([self._load(part) for part in range(len(self._parts))])
        return values if dtype is None else values.astype(dtype)

    def __getitem__(self, rows: slice) -> np.ndarray:
        """Return the targets of consecutive rows of one part."""
        part = int(np.searchsorted(self.block_starts, rows.start, side="right")) - 1
        if getattr(self._loaded, "part", None) != part:
            self._loaded.values, self._loaded.part = self._load(part), part
        first = self.block_starts[part]
        return np.asarray(self._loaded.values[rows.start - first : rows.stop - first])

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what threads have loaded."""
        return {name: value for name, value in vars(self).items() if name != "_loaded"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._loaded = threading.local()

    def mapped(self, function: Callable[[np.ndarray], np.ndarray]) -> "Targets":
        """Return what a function, that takes each target by itself, makes of the targets."""
        both = composed(self._function, function)
        mapped = Targets(self._parts, self._lengths, self._numbers, both, self._pass_over)
        if len(self._parts) > 1 or callable(self._parts[0]):
            return mapped
        # In memory as a whole, they are mapped once for all passes.
        return Targets([mapped._load(0)], self._lengths, self._numbers)

    def of_parts(self, parts: range) -> "Targets":
        """Copy what another process needs to load the targets of some parts."""
        one = copy(self)
        if len(self._parts) > 1:  # else an array, whatever the parts of the rows
            one._parts = within(self._parts, parts)
        return one

    def blocks(self, group: range) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield the targets of a group of parts, as columns, with the rows they stand for."""
        for rows in starmap(slice, pairwise(self.block_starts[group.start : group.stop + 1])):
            yield rows, self[rows][:, np.newaxis]

    def _load(self, part: int) -> np.ndarray:
        raw, number = self._parts[part], self._numbers[part]
        name, function = f"Targets of part {number}", self._function
        values = loaded(
            lambda: np.asarray(checked_container(raw() if callable(raw) else raw)),
            name,
            f"Look at y[{number}], or call it.",
        )
        if values.shape != (self._lengths[part],) or values.dtype.kind not in "fiubUO":
            raise ValueError(
                f"The targets of part {number} have shape {values.shape} and dtype "
                f"{values.dtype}, where {(self._lengths[part],)} and numbers or labels were "
                "promised."
            )
        hint = "A regression takes numbers; a classifier takes whole numbers or strings."
        return values if function is None else loaded(lambda: function(values), name, hint)


def within(items: list[Any], parts: range) -> list[Any]:
    """Keep the items of some parts, each in its place."""
    return [None] * parts.start + items[parts.start : parts.stop]
