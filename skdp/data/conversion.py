"""Types and shapes of matrices, and sparse ones in the one form that skdp computes with."""

from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from skdp.data.containers import checked_container
from skdp.linalg.norms import with_data

RawBlock: TypeAlias = np.ndarray | sparse.csr_array


def checked_shape(shape: Any) -> tuple[int, int]:
    """Return a shape in plain integers; refuse what is not two positive ones."""
    is_pair = hasattr(shape, "__len__") and len(shape) == 2
    if not is_pair or not all(isinstance(n, Integral) and int(n) > 0 for n in shape):
        got = f"{shape!r}" if isinstance(shape, tuple | list) else type(shape).__name__
        raise ValueError(f"shape must be two positive integers, got {got}.")
    return int(shape[0]), int(shape[1])


def checked_dtype(dtype: Any) -> np.dtype:
    """Refuse a type of numbers other than float32 and float64."""
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {dtype!r}.")
    return np.dtype(dtype)


def float_dtype(X: Any) -> np.dtype:
    """Return the type in which numbers computed from X are given: float32 if X has that."""
    return np.dtype(np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64)


def is_mapped(X: Any) -> bool:
    """Whether an array is a memory map, or a view of one."""
    while isinstance(X, np.ndarray):
        if isinstance(X, np.memmap):
            return True
        X = X.base
    return False


def in_c_order(block: RawBlock) -> RawBlock:
    """Lay dense rows out in C order, whatever was loaded: in another one, rows may round otherwise.

    Which order they come in may depend on other rows, as that of a data frame does.
    """
    return block if sparse.issparse(block) else np.require(block, requirements=["C", "A"])


def canonical_csr(X: Any) -> sparse.csr_array:
    """Convert to CSR without duplicate entries, which would make the norm of a row wrong.

    Duplicates are added up in the order of their row, whatever other rows hold.
    """
    return as_canonical(checked_container(X))


def as_canonical(X: Any) -> sparse.csr_array:
    """Do the same with a container that was checked."""
    X = _as_csr(X)
    if X.ndim == 2 and not X.has_canonical_format:
        # To CSC and back: unlike `sort_indices`, this keeps the order of duplicates.
        X = sparse.csr_array(X.tocsc().tocsr())
        X.sum_duplicates()
    return X


def plain_csr(X: Any) -> sparse.csr_array:
    """Convert to CSR, and keep duplicate entries.

    Every sparse matrix passes through this function or `canonical_csr`: both refuse indices out of
    range.
    """
    return _as_csr(checked_container(X))


def _as_csr(X: Any) -> sparse.csr_array:
    if X.ndim == 2 and X.format not in ("csr", "csc"):
        X = X.tocoo(copy=False)
        X = sparse.coo_array((X.data, (X.row, X.col)), shape=X.shape)
        # This need not be true, but without it the conversion would add duplicates up.
        X.has_canonical_format = True
    X = X.tocsr()
    # A new object: the old one may be flagged as canonical although it is not.
    return with_data(X, X.data)
