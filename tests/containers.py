"""The same rows in every container that a fit takes."""

import numpy as np
import pandas as pd
from scipy import sparse

__all__ = ["dense_containers", "sparse_containers"]


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
