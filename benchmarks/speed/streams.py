"""Updates of streams for `speed.py`, each beside what scipy takes for the same."""

from typing import Any

import numpy as np
from scipy import sparse

from skdp import DPStreamingFactorizer
from skdp.units import FrobeniusChange, Update

Updates = tuple[tuple[int, int], np.ndarray, np.ndarray, np.ndarray]
UNITS = {"countsketch": Update(10.0), "haar": FrobeniusChange(1.0)}


def updates(n_rows: int, n_columns: int, n_updates: int, scale: float) -> Updates:
    """Draw cells anywhere, and normal values."""
    rng, n_updates = np.random.default_rng(0), int(n_updates * scale)
    rows, columns = (rng.integers(side, size=n_updates) for side in (n_rows, n_columns))
    return (n_rows, n_columns), rows, columns, rng.normal(size=n_updates)


class Stream:
    """A stream that is open before the clock starts."""

    def __init__(self, shape: tuple[int, int], sketch: str) -> None:
        self.stream = DPStreamingFactorizer(
            10, shape=shape, privacy_unit=UNITS[sketch], sketch=sketch
        )

    def fit(self, given: Updates) -> None:
        _, rows, columns, values = given
        self.stream.update(rows, columns, values)


class OneByOne(Stream):
    """The same in single updates."""

    def fit(self, given: Updates) -> None:
        update = self.stream.update
        for row, column, value in zip(*map(np.ndarray.tolist, given[1:]), strict=True):
            update(row, column, value)


class Compressed:
    """The matrix itself, in CSR format."""

    def fit(self, given: Updates) -> None:
        shape, rows, columns, values = given
        sparse.coo_array((values, (rows, columns)), shape=shape).tocsr()


class Dictionary:
    """The matrix itself, cell by cell."""

    def fit(self, given: Updates) -> None:
        shape, *cells = given
        matrix: Any = sparse.dok_array(shape)
        for row, column, value in zip(*map(np.ndarray.tolist, cells), strict=True):
            matrix[row, column] += value
