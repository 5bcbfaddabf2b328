"""Rows in a collection of dask, as rows in parts or chunk by chunk; what is known of it decides."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, NoReturn
from uuid import uuid4

import dask.array as da
import numpy as np
from scipy import sparse

from skdp.data.containers import MASKED, checked_container
from skdp.data.conversion import RawBlock, as_canonical, float_dtype, in_c_order
from skdp.data.dask_graph import Chunk, Chunks, computed, sum_in_graph
from skdp.data.part_results import PartResults
from skdp.data.row_blocks import RowBlocks, refused_if_not_finite
from skdp.data.row_parts import RowParts
from skdp.exceptions import shortened


class _Facts(NamedTuple):
    """What is known of rows without reading them."""

    n_features: int
    dtype: np.dtype
    is_sparse: bool = False
    names: list[str] | None = None

    @property
    def public(self) -> RawBlock:
        """Two public rows of this kind."""
        rows = np.ones((2, self.n_features), self.dtype)
        return sparse.csr_array(rows) if self.is_sparse else rows


def rows_in_parts(X: Any, y: Any = None) -> RowParts:
    """Return rows, and their targets if there are any; each chunk is a part, which dask sums up.

    Parameters
    ----------
    X : dask array or data frame
        Rows. The lengths of the partitions of a data frame are counted, in one reading.
    y : dask array or series, or None, default=None
        Targets, in the same chunks.

    Returns
    -------
    RowParts
        The rows.

    Raises
    ------
    ValueError
        If these are no rows of numbers in chunks of known lengths, or y has other chunks.
    """
    facts = _facts_of(X)
    if _is_frame(X):
        return _parts_of_frame(X, y, facts)
    lengths = _known_lengths(X)
    targets = None if y is None else _loaders(_checked_targets(y, lengths))
    return _parts(_loaders(X), lengths, facts, targets)


def public_like(X: Any) -> Any:
    """Return public rows in place of those of a collection; of known lengths, in as many parts."""
    facts = _facts_of(X)
    if _is_frame(X) or any(map(math.isnan, X.chunks[0])):
        return facts.public
    return _parts([_never_loaded] * len(X.chunks[0]), X.chunks[0], facts)


def mapped_by_chunks(method: Callable[[Any], Any], X: Any, name: str) -> da.Array:
    """Apply a method that takes each row by itself to all chunks, lazily.

    Parameters
    ----------
    method : callable
        Takes rows in blocks, and returns rows in blocks or `PartResults`.
    X : dask array or data frame
        Rows, in chunks of any lengths.
    name : str
        For the keys of tasks.

    Returns
    -------
    dask array
        What the method makes of the rows.
    """
    facts = _facts_of(X)
    public = RowBlocks(lambda: [facts.public], facts.public.shape, facts.dtype)
    public.feature_names = facts.names
    made = method(public)
    is_final = isinstance(made, PartResults)
    rows, function = (made.rows, made.function) if is_final else (made, None)
    none: Any = np.empty((0, *made.shape[1:]), made.dtype)
    none = sparse.csr_array(none) if not is_final and made.is_sparse else none
    blocks = _as_array(X)
    return blocks.map_blocks(
        partial(_of_chunk, before=rows.function, function=function, none=none),
        name=f"skdp-{name}-{uuid4().hex}",
        dtype=made.dtype,
        meta=none,
        chunks=(blocks.chunks[0], *((size,) for size in made.shape[1:])),
        drop_axis=None if made.shape[1:] else 1,
    )


def _of_chunk(
    block: Any,
    before: Callable[[Any], Any] | None,
    function: Callable[[Any], Any] | None,
    none: Any,
) -> Any:
    """Map the rows of a block, and those to results that have to be finite."""
    if not block.shape[0]:
        return none
    rows = in_c_order(_checked(block))
    if before is not None:
        rows = before(rows)
    return rows if function is None else function(refused_if_not_finite(rows))


def _checked(block: Any) -> RawBlock:
    block = checked_container(block)
    return as_canonical(block) if sparse.issparse(block) else np.asarray(block)


def _is_frame(X: Any) -> bool:
    return _is_dataframe(X, 2)


def _is_dataframe(X: Any, ndim: int) -> bool:
    # Of the type, as an object of dask.delayed has whatever attribute is asked for.
    is_kind = hasattr(type(X), "map_partitions") and hasattr(type(X), "ndim")
    return is_kind and X.ndim == ndim


def _facts_of(X: Any) -> _Facts:
    """Refuse what are no rows of numbers; read none of them."""
    if _is_frame(X):
        return _facts_of_frame(X)
    if not isinstance(X, da.Array):
        _refuse(f"X is of type {type(X).__name__}", "pass an array or a data frame of dask")
    if X.ndim != 2:
        shape = f"X has {X.ndim} dimensions"
        _refuse(shape, "pass rows, such as X.reshape((len(X), -1)) or X[:, None]")
    if len(X.chunks[1]) > 1 or math.isnan(X.shape[1]):
        hint = "pass X.rechunk({0: 'auto', 1: -1})"
        _refuse("X has chunks of columns, and no row is in one chunk", hint)
    if not np.can_cast(X.dtype, np.float64):
        _refuse(f"X has dtype {X.dtype}, which are no real numbers", "pass X.astype(float)")
    if isinstance(X._meta, np.ma.MaskedArray):
        raise ValueError(MASKED)
    is_sparse = sparse.issparse(X._meta)
    if not is_sparse and type(X._meta) is not np.ndarray:
        kind = type(X._meta)
        _refuse(
            f"X has chunks of type {kind.__module__}.{kind.__qualname__}",
            "pass X.map_blocks(...) of a function that makes arrays of numpy, or "
            "scipy.sparse.csr_array",
        )
    return _Facts(X.shape[1], float_dtype(X), is_sparse)


def _facts_of_frame(X: Any) -> _Facts:
    names = list(X.columns)
    bad = [str(name) for name, dtype in zip(names, X.dtypes, strict=True) if not _is_real(dtype)]
    if bad:
        _refuse(
            f"X has columns that are no real numbers: {shortened(bad)}",
            f"pass X.drop(columns={bad}), or columns of numbers made of them",
        )
    are_strings = [isinstance(name, str) for name in names]
    if any(are_strings) and not all(are_strings):
        _refuse("X has names of columns of several types", "pass X.rename(columns=str)")
    is_single = all(dtype == np.float32 for dtype in X.dtypes)
    dtype = np.dtype(np.float32 if is_single else np.float64)
    return _Facts(len(names), dtype, False, names if all(are_strings) else None)


def _is_real(dtype: Any) -> bool:
    """Tell whether a column, of numpy or an extension, holds real numbers."""
    kind = getattr(dtype, "numpy_dtype", dtype)
    return getattr(kind, "kind", "O") in "fiub"


def _refuse(what: str, remedy: str) -> NoReturn:
    raise ValueError(f"{what}: {remedy}.")


def _known_lengths(X: Any) -> tuple[int, ...]:
    if any(map(math.isnan, X.chunks[0])):
        _refuse(
            "X has chunks of unknown lengths, which a fit makes public",
            "call X.compute_chunk_sizes(), which counts their rows",
        )
    return tuple(X.chunks[0])


def _checked_targets(y: Any, lengths: tuple[int, ...]) -> Any:
    """Refuse targets that do not lie as the rows do."""
    if not isinstance(y, da.Array):
        remedy = "dask.array.from_array(y, chunks=X.chunks[0])"
        if hasattr(y, "to_dask_array"):
            remedy = "y.to_dask_array(lengths=X.chunks[0])"
        _refuse(f"X is an array of dask, and y of type {type(y).__name__}", f"pass {remedy}")
    if y.ndim != 1:
        _refuse(f"y has {y.ndim} dimensions, where one is expected", "pass one column, as y[:, 0]")
    if y.chunks[0] != lengths:
        _refuse("y has other chunks than X", "pass y.rechunk((X.chunks[0],))")
    return y


def _loaders(X: Any) -> list[Chunk]:
    chunks = Chunks(X)
    return [Chunk(chunks, number) for number in range(len(chunks.keys))]


def _parts(loaders: Any, lengths: Any, facts: _Facts, targets: Any = None) -> RowParts:
    return RowParts(
        loaders,
        lengths,
        facts.n_features,
        facts.dtype,
        targets,
        facts.names,
        pass_over=sum_in_graph,
        is_sparse=facts.is_sparse,
    )


def _parts_of_frame(X: Any, y: Any, facts: _Facts) -> RowParts:
    both, target = (X, None) if y is None else _with_target(X, y)
    # Frames, and no arrays, in spite of `meta`: rows and targets are read together.
    blocks = both.map_partitions(_itself, meta=np.empty((0, both.shape[1])), enforce_metadata=False)
    n_parts = blocks.numblocks[0]
    counted = blocks.map_blocks(_length, dtype=int, chunks=((1,) * n_parts, (1,)))
    loaders = _loaders(blocks)
    rows = [partial(_rows_of, load, facts.n_features, facts.dtype) for load in loaders]
    targets = None if target is None else [partial(_target_of, load) for load in loaders]
    return _parts(rows, computed(counted).ravel().tolist(), facts, targets)


def _with_target(X: Any, y: Any) -> tuple[Any, Any]:
    """Put the targets behind the columns of a data frame."""
    if not _is_dataframe(y, 1):
        _refuse(
            f"X is a data frame of dask, and y of type {type(y).__name__}",
            "pass a column of the same data frame, as frame['label'] beside frame[features]",
        )
    name = "y"
    while name in X.columns:
        name += "_"
    # Of different frames dask would join the rows, by an index that may be private.
    if not _are_of_one_frame(X, y):
        _refuse(
            "y has other partitions than X",
            "take both from one data frame, as frame[features] and frame['label']",
        )
    return X.assign(**{name: y}), name


def _are_of_one_frame(X: Any, y: Any) -> bool:
    try:
        from dask.dataframe.dask_expr._expr import are_co_aligned
    except ImportError:  # it is not public
        return bool(X.npartitions == y.npartitions and X.known_divisions)
    return bool(are_co_aligned(X.expr, y.expr) and X.npartitions == y.npartitions)


def _as_array(X: Any) -> Any:
    """Return the rows of a collection as an array of dask, in chunks of any length."""
    if not _is_frame(X):
        return X
    facts = _facts_of_frame(X)
    meta = np.empty((0, facts.n_features), facts.dtype)
    return X.map_partitions(
        _values, facts.n_features, facts.dtype, meta=meta, enforce_metadata=False
    )


def _values(frame: Any, n_features: int, dtype: np.dtype) -> np.ndarray:
    return np.asarray(frame.iloc[:, :n_features].to_numpy(dtype, na_value=np.nan))


def _rows_of(load: Callable[[], Any], n_features: int, dtype: np.dtype) -> np.ndarray:
    return _values(load(), n_features, dtype)


def _target_of(load: Callable[[], Any]) -> np.ndarray:
    return np.asarray(load().iloc[:, -1])


def _itself(frame: Any) -> Any:
    return frame


def _length(frame: Any) -> np.ndarray:
    return np.array([[len(frame)]])


def _never_loaded() -> NoReturn:
    raise AssertionError("what a plan is made for is not read")
