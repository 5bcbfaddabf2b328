"""Results for rows in blocks or in parts, a block or a part at a time."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np


class PartResults:
    """Results for rows in blocks or in parts, computed when they are asked for.

    Iterate over them, or write them to a file; `numpy.asarray` computes all of them in memory.

    Parameters
    ----------
    X : RowBlocks
        The rows.
    function : callable
        Maps a 2-D array or CSR matrix of rows to an array of as many results.
    shape : tuple of int
        Shape of all results together.
    dtype : dtype
        Their type.
    """

    def __init__(
        self, X: Iterable[Any], function: Callable[[Any], Any], shape: tuple[int, ...], dtype: Any
    ) -> None:
        self.rows, self.function, self.shape, self.dtype = X, function, shape, np.dtype(dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.concatenate(list(self)).astype(self.dtype if dtype is None else dtype)

    def __eq__(self, other: object) -> Any:
        return np.asarray(self) == other

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[np.ndarray]:
        """Yield the results, a block or a part at a time."""
        return map(self.function, self.rows)

    def __repr__(self) -> str:
        return f"PartResults(shape={self.shape}, dtype={self.dtype})"

    def to_npy(self, path: Any) -> None:
        """Write all results to a file of numpy.

        Parameters
        ----------
        path : path-like
            File to write; ``numpy.load(path, mmap_mode="r")`` reads it.
        """
        write_npy(path, iter(self), self.shape, self.dtype)


def write_npy(
    path: Any, blocks: Iterator[np.ndarray], shape: tuple[int, ...], dtype: np.dtype
) -> None:
    """Write blocks of rows to a file of numpy, one after the other."""
    file = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    start = 0
    for block in blocks:
        file[start : start + len(block)] = block
        start += len(block)
    file.flush()
