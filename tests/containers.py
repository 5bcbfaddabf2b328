"""The same rows in every container that a fit takes."""

import numpy as np
import pandas as pd
from in_parts import in_parts
from scipy import sparse
from sklearn.base import clone

from skdp import RowBlocks

__all__ = ["contain", "dense_containers", "fits_in_all", "sparse_containers"]


def dense_containers(rows, path):
    """Give rows in other orders, containers and types; a memory map stands at a path."""
    memory = np.memmap(path, rows.dtype, mode="w+", shape=rows.shape)
    memory[:] = rows
    return {
        "F order": np.asfortranarray(rows),
        "list": rows.tolist(),
        "memory map": memory,
        "float32": rows.astype(np.float32),
        **({"frame": pd.DataFrame(rows).add_prefix("x")} if rows.ndim == 2 else {}),
    }


def sparse_containers(rows):
    """Give rows in sparse matrices, one of which has two halves of every entry."""
    wide_indices = sparse.csr_matrix(rows)
    wide_indices.indices = wide_indices.indices.astype(np.int64)
    wide_indices.indptr = wide_indices.indptr.astype(np.int64)
    n, width = rows.shape
    places = np.tile(np.arange(width).repeat(2), n), 2 * width * np.arange(n + 1)
    return {
        "csr": sparse.csr_array(rows),
        "csc matrix": sparse.csc_matrix(rows),
        "int64 indices": wide_indices,
        "duplicates": sparse.csr_array((np.repeat(rows.ravel() / 2, 2), *places), rows.shape),
    }


def fits_in_all(estimator, containers, reference, results):
    """Compare fits to containers, by two threads, with a fit to an array; yield each by name."""
    for name, data in containers.items():
        other = clone(estimator).set_params(n_jobs=2).fit(data)
        is_single = "float32" in name
        assert other.components_.dtype == (np.float32 if is_single else np.float64), name
        near = dict.fromkeys(("rtol", "atol"), 1e-4 if is_single else 1e-8)
        for result in results:
            pair = getattr(other, result), getattr(reference, result)
            np.testing.assert_allclose(*pair, err_msg=f"{name}: {result}", **near)
        yield name, data, other


def contain(X, container):
    """Give rows in one container, by its name."""
    rows = sparse.csr_array(X)
    if container == "csr with duplicates":
        # Two halves of every entry: the norm of the halves is not that of the row.
        halves = np.repeat(rows.data / 2, 2), np.repeat(rows.indices, 2), 2 * rows.indptr
        return sparse.csr_array(halves, shape=rows.shape)
    if container == "csr with zeros":
        everywhere = sparse.csr_array(np.ones(X.shape))
        return sparse.csr_array((X.ravel(), everywhere.indices, everywhere.indptr), shape=X.shape)
    if container == "float32":
        return np.clip(X, -1e38, 1e38).astype(np.float32)
    held = rows if "sparse" in container else X
    if "parts" in container:
        return in_parts(held)
    if "blocks" in container:
        return RowBlocks(lambda: (held[i : i + 6] for i in range(0, len(X), 6)), X.shape)
    return rows
