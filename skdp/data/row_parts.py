"""Rows in parts, each of which a function loads by itself, with their targets."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from numbers import Integral
from typing import Any, Self

import numpy as np
from scipy import sparse

from skdp.data.containers import checked_container, composed, loaded, without_warnings
from skdp.data.conversion import RawBlock, as_canonical, is_mapped
from skdp.data.finite import of_finite
from skdp.data.row_blocks import Loader, RowBlocks
from skdp.data.targets import Targets, within


class RowParts(RowBlocks):
    """A `RowBlocks` whose parts are loaded by themselves, in any order."""

    def __init__(
        self,
        loaders: Sequence[Loader],
        lengths: Sequence[int],
        n_features: int,
        dtype: Any,
        y: Sequence[Any] | None = None,
        names: Sequence[str] | None = None,
        *,
        pass_over: Callable[..., Any] | None = None,
        is_sparse: bool | None = None,
    ) -> None:
        loaders, lengths = _listed(loaders, "loaders"), _listed(lengths, "lengths")
        y = None if y is None else _listed(y, "y")
        _check_parts(loaders, lengths, y)
        _check_n_features(n_features)
        super().__init__(self._checked_blocks, (sum(map(int, lengths)), n_features), dtype)
        #: Number and loader of each part that has rows, and how many.
        self.parts = [
            (number, loader, int(length))
            for number, (loader, length) in enumerate(zip(loaders, lengths, strict=True))
            if length
        ]
        # Shared with what functions make of these rows.
        self._seen: list[tuple[bool, bool]] = [] if is_sparse is None else [(is_sparse, False)]
        #: Adds up what a kernel gives for the parts of these numbers; None for this process.
        self.pass_over = pass_over
        self.feature_names = None if names is None else list(names)
        #: Responses or labels, or None.
        self.y = None if y is None else _targets(self.parts, y, pass_over)

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are sparse; what a function makes of public ones shows it."""
        if self.function is None:
            return self._kind[0]
        public: Any = np.ones((2, self._n_made), self.dtype)
        made = self.function(sparse.csr_array(public) if self._kind[0] else public)
        return sparse.issparse(made)

    @property
    def is_mapped(self) -> bool:
        """Whether the parts are memory maps."""
        return self._kind[1]

    @property
    @without_warnings()
    def _kind(self) -> tuple[bool, bool]:
        """Whether parts are sparse, or mapped: the first is loaded once, to see."""
        if not self._seen:
            number, loader, _ = self.parts[0]
            first = _load(number, loader)
            self._seen.append((sparse.issparse(first), is_mapped(first)))
        return self._seen[0]

    def load(self, part: int) -> RawBlock:
        """Load a part that has rows, and refuse what is not what was said of it.

        Parameters
        ----------
        part : int
            Its number among those that have rows.

        Returns
        -------
        ndarray or csr_array
            Its rows.

        Raises
        ------
        ValueError
            If it cannot be loaded, or has another shape or kind.
        """
        number, loader, length = self.parts[part]
        raw = _load(number, loader)
        is_sparse = self._kind[0]
        if sparse.issparse(raw) != is_sparse:
            kinds = ("dense", "sparse") if is_sparse else ("sparse", "dense")
            raise ValueError(f"Part {number} is {kinds[0]}, and the first is {kinds[1]}.")
        if raw.shape != (length, self._n_made) or not np.can_cast(raw.dtype, np.float64):
            raise ValueError(
                f"Part {number} has shape {raw.shape} and dtype {raw.dtype}, where "
                f"{(length, self._n_made)} and real numbers of at most 64 bits were promised."
            )
        return raw

    def of_parts(self, parts: range) -> Self:
        """Copy what another process needs to load some of the parts that have rows."""
        one = self.without_targets()
        one.parts = within(self.parts, parts)
        vars(one).pop("make_blocks", None)  # refers to all parts
        return one

    def without_targets(self) -> Self:
        """Copy the rows: targets travel by themselves, with those who read them."""
        one = copy(self)
        one.y = None
        return one

    def _raw_blocks(self) -> Iterator[RawBlock]:
        return map(self.load, range(len(self.parts)))


RowBlocks._of_parts = RowParts


class ThinnedParts(RowParts):
    """Every `step`-th row of a `RowParts`."""

    def __init__(
        self, X: RowParts, step: int, function: Callable[[Any], Any] | None = None
    ) -> None:
        vars(self).update(vars(X))
        lengths = np.array([length for *_, length in X.parts])
        first_kept = (lengths - np.cumsum(lengths)) % step
        kept = np.ceil((lengths - first_kept) / step).astype(int).clip(0)
        #: Of each part with such rows its place in X, and the first of them.
        self._places = [(int(part), int(first_kept[part])) for part in np.flatnonzero(kept)]
        self.parts = [(*X.parts[part][:2], int(kept[part])) for part, _ in self._places]
        self._of, self._step, self.function = X.without_targets(), step, function
        self.shape, self.y = (int(kept.sum()), X.shape[1]), None

    def load(self, part: int) -> RawBlock:
        """Load the kept rows of a part."""
        place, first = self._places[part]
        return self._of.load(place)[first :: self._step]

    def of_parts(self, parts: range) -> Self:
        """Copy what another process needs to load some of the parts that have rows."""
        one = super().of_parts(parts)
        places = self._places[parts.start : parts.stop]
        one._of = self._of.of_parts(range(places[0][0], places[-1][0] + 1))
        return one


def mapped_blocks(
    X: RowBlocks, function: Callable[[Any], Any], n_features: int | None = None
) -> RowBlocks:
    """Return what a function, that takes each row by itself, makes of rows in blocks."""
    made = copy(X)
    made.function, made.feature_names = composed(X.function, function), None
    made.shape = X.shape[0], X.shape[1] if n_features is None else n_features
    return made


def transformed_blocks(
    X: RowBlocks, function: Callable[[Any], Any], n_features: int | None = None
) -> RowBlocks:
    """Map rows in blocks by a function of finite rows; rows that are not finite become NaN.

    They are not refused: later readings must raise nothing. The next opening refuses them.
    """
    return mapped_blocks(X, partial(of_finite, function=function, dtype=X.dtype), n_features)


def _targets(parts: list[tuple[int, Loader, int]], y: list[Any], pass_over: Any) -> Targets:
    """Return the targets of the parts that have rows."""
    numbers, lengths = [number for number, *_ in parts], [part[2] for part in parts]
    return Targets([y[number] for number in numbers], lengths, numbers, pass_over=pass_over)


def _listed(items: Any, name: str) -> list[Any]:
    """Return what is given for each part as a list; refuse what is no sequence."""
    if isinstance(items, str | bytes) or not hasattr(items, "__iter__"):
        raise ValueError(
            f"{name} must be a list with one item per part, got {type(items).__name__}."
        )
    return list(items)


def _check_n_features(n_features: Any) -> None:
    if not isinstance(n_features, Integral) or isinstance(n_features, bool) or n_features < 1:
        raise ValueError(f"n_features must be a positive integer, got {n_features!r}.")


def _check_parts(loaders: list[Any], lengths: list[Any], y: list[Any] | None) -> None:
    """Refuse parts that are no functions, or whose lengths are no lengths."""
    if len(loaders) != len(lengths):
        raise ValueError(f"lengths has {len(lengths)} numbers for {len(loaders)} loaders.")
    if y is not None and len(y) != len(loaders):
        raise ValueError(
            f"y must have the targets of each of {len(loaders)} parts, got {len(y)} items. Pass an "
            "array, or a function that loads one, for each part."
        )
    for number, loader in enumerate(loaders):
        if not callable(loader):
            raise ValueError(
                f"loaders must be functions without arguments, got {type(loader).__name__} for "
                f"part {number}."
            )
    for number, length in enumerate(lengths):
        if not isinstance(length, Integral) or isinstance(length, bool) or length < 0:
            raise ValueError(f"lengths must be integers from 0, got {length!r} for part {number}.")
    if not any(lengths):
        raise ValueError("lengths of all parts together must be positive, got 0.")


def _load(number: int, loader: Loader) -> RawBlock:
    hint = f"Load this part alone, as loaders[{number}]() does, to see it."
    return loaded(lambda: _converted(checked_container(loader())), f"Part {number}", hint)


def _converted(raw: Any) -> RawBlock:
    return as_canonical(raw) if sparse.issparse(raw) else np.asarray(raw)
