"""What fits to sparse rows take in parts, and as chunks of Dask, beside dense rows and arrays.

50,000 rows of 40 columns, a tenth of whose entries are not 0, in 8 parts of numpy and scipy that
lie in memory: what differs is how parts are read. Whole fits in turn, `random_state=None`, once
with parts that are loaded once for all passes, as parts of this size are, and once with parts that
are loaded in each pass, as larger ones are. One thread. Run it as

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.speed.parts           # prints the table
    OPENBLAS_NUM_THREADS=1 python -m benchmarks.speed.parts --write   # writes parts.md, too
"""

import warnings
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any
from unittest import mock

import dask
import dask.array as da
import numpy as np
from scipy import sparse

from benchmarks.report import parser_for, publish, table
from benchmarks.speed.beside import in_turn
from skdp import (
    DPLinearRegression,
    DPLogisticRegression,
    DPStandardScaler,
    DPTruncatedSVD,
    PrivacyWarning,
    RowBlocks,
)
from skdp.data import sources

N_ROWS, N_FEATURES, N_PARTS, ROUNDS = 50_000, 40, 8, 2
ENDS = np.linspace(0, N_ROWS, N_PARTS + 1).astype(int)
LENGTHS = np.diff(ENDS).tolist()
TEXT = f"""# Sparse rows in parts

Made by `OPENBLAS_NUM_THREADS=1 python -m benchmarks.speed.parts --write`: {N_ROWS:,} rows of
{N_FEATURES} columns, a tenth of whose entries are not 0, in {N_PARTS} parts. CPU seconds of whole
fits with one thread, the least of {ROUNDS} runs after one more. Parts that are *kept* are loaded
once for all passes, as those of at most 1 GiB together are; other parts are loaded in each pass.

"""


def rows_and_targets() -> tuple[sparse.csr_array, dict[str, Any]]:
    """Draw sparse rows, numbers to predict, and classes."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((N_ROWS, N_FEATURES), density=0.1, rng=rng, format="csr")
    y = X @ rng.normal(size=N_FEATURES) + rng.normal(size=N_ROWS)
    return X, {"": None, "y": y, "classes": (y > 0).astype(int)}


def containers(X: Any, y: Any) -> dict[str, tuple[Any, ...]]:
    """Give rows, with their targets, in memory, in parts and as chunks of Dask."""
    parts = [X[a:b] for a, b in pairwise(ENDS)]
    targets = None if y is None else [y[a:b] for a, b in pairwise(ENDS)]
    loaders = [one.copy for one in parts]
    blocks = RowBlocks.from_partitions(loaders, LENGTHS, N_FEATURES, y=targets)
    chunks = da.concatenate(
        [
            da.from_delayed(dask.delayed(loader)(), (n, N_FEATURES), meta=parts[0][:0])
            for loader, n in zip(loaders, LENGTHS, strict=True)
        ]
    )
    beside = () if y is None else (da.from_array(y, chunks=(tuple(LENGTHS),)),)
    given = () if y is None else (y,)
    return {"in memory": (X, *given), "parts": (blocks,), "Dask": (chunks, *beside)}


def lines() -> list[list[str]]:
    """Time all fits, and return a line for each estimator and way of reading."""
    X, targets = rows_and_targets()
    estimators = {
        "DPStandardScaler": (DPStandardScaler(with_mean=False), ""),
        "DPTruncatedSVD": (DPTruncatedSVD(5), ""),
        "DPLinearRegression": (DPLinearRegression(n_jobs=1), "y"),
        "DPLogisticRegression": (DPLogisticRegression(classes=[0, 1], n_jobs=1), "classes"),
    }
    made = []
    for name, (estimator, target) in estimators.items():
        dense, thin = (containers(rows, targets[target]) for rows in (X.toarray(), X))
        for how, limit in (("kept", 1 << 30), ("loaded", 0)):
            jobs: dict[str, Callable[[], object]] = {
                f"{kind}, {where}": partial(estimator.fit, *data)
                for kind, found in (("dense", dense), ("sparse", thin))
                for where, data in found.items()
            }
            with (
                mock.patch.object(sources, "CACHE_BYTES", limit),
                dask.config.set(scheduler="synchronous"),
            ):
                runs = in_turn((*jobs.values(),), ROUNDS)
            seconds = dict(zip(jobs, (min(run.cpu for run in one) for one in runs), strict=True))
            ratio = seconds["sparse, parts"] / seconds["dense, parts"]
            made.append([name, how, *(f"{one:.2f}" for one in seconds.values()), f"{ratio:.1f}"])
            print(made[-1], flush=True)
    return made


def main() -> None:
    """Print the table, or write it."""
    asked = parser_for(__doc__, write="write parts.md").parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    kinds = [
        f"{kind}, {where}" for kind in ("dense", "sparse") for where in ("memory", "parts", "Dask")
    ]
    header = ["fit", "parts are", *kinds, "sparse by dense parts"]
    publish(TEXT + table(header, lines()), __file__, write=asked.write)


if __name__ == "__main__":
    main()
