"""Data that may not be passed on, in the folder that the environment variable `SKDP_DATA` names."""

import os
from functools import cache
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
from scipy import sparse

__all__ = ["at_hand", "file_at_hand", "interactions"]


class _Needy(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def needs_folder(self) -> bool: ...


T = TypeVar("T", bound=_Needy)


def _folder() -> Path | None:
    return Path(os.environ["SKDP_DATA"]) if os.environ.get("SKDP_DATA") else None


def file_at_hand(name: str) -> Path | None:
    folder = _folder()
    return folder / name if folder and (folder / name).exists() else None


def at_hand(chosen: list[T]) -> list[T]:
    """Leave out what needs the folder, and say so, where there is none."""
    if _folder():
        return chosen
    for item in chosen:
        if item.needs_folder:
            print(f"{item.name} is skipped: SKDP_DATA names no folder.")
    return [item for item in chosen if not item.needs_folder]


@cache
def interactions(name: str) -> sparse.csr_array:
    """Load which user met which item, as 0 and 1."""
    counts = sparse.load_npz(Path(os.environ["SKDP_DATA"]) / f"{name}.npz")
    return sparse.csr_array((counts > 0).astype(np.float64))
