"""What passes over chunks of dask cost on two worker processes, and what a billion rows would cost.

Chunks of about 40 MB are made within the tasks, as quickly as memory is written. "threads" are two
threads of `RowBlocks.from_partitions`; "cluster" is a `LocalCluster` of two processes of one thread
each. A pass is that of the second moment, or of a power step with ten components. What a task costs
beside its work is measured with chunks of 50 rows. Run it as ``python -m benchmarks.cluster.cost``;
``--write`` writes cost.md.
"""

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from benchmarks.report import parser_for, publish, table
from skdp import RowBlocks
from skdp.data.dask_rows import rows_in_parts
from skdp.data.rows import Rows
from skdp.data.sources import as_source

# Features, rows of a part, parts.
SHAPES = ((50, 100_000, 20), (200, 25_000, 80), (1000, 5_000, 40))
TINY = (1000, 4000)
RUNS, N_COMPONENTS = 3, 10
# Of the extrapolation: rows, workers of one thread, and bytes a second of their network.
ROWS, WORKERS, NETWORK = 1_000_000_000, 100, 1e9
BLOCK = 1000
HEADER = ["features", "pass", "threads, s", "cluster, s", "ratio", "bytes a chunk gives back"]
TEXT = f"""# What a pass costs on a cluster

Made by `python -m benchmarks.cluster.cost --write` on two virtual cores that share one: the least
of {RUNS} runs after one more.

## Measured

Seconds per million rows and pass, in chunks of 40 MB that are made within the tasks:

{{measured}}

Milliseconds that a chunk of 50 rows costs, with additions and the work of client and scheduler,
which have the same two cores:

{{tasks}}

## Computed

A pass over {ROWS:,} rows with {WORKERS} workers of one thread, from these figures. Work is
twice the seconds of the cluster of two, divided among the workers. All tasks pass through one
scheduler, at the cost above. Sums pass the levels of the tree one behind the other, eight at a
time, at {NETWORK / 1e9:g} GB/s. Work and tasks overlap, so that the sum has the longer of the two.
Reading from disks or stores comes on top; larger chunks make fewer tasks.

{{computed}}"""


def made(number: int, length: int, n_features: int) -> np.ndarray:
    """Make a part: copies of one block."""
    block = np.random.default_rng(number).normal(size=(min(length, BLOCK), n_features))
    return np.tile(block, (length // len(block), 1))


def in_chunks(n_features: int, length: int, n_parts: int) -> da.Array:
    make = dask.delayed(made, pure=True)
    shape = length, n_features
    blocks = [da.from_delayed(make(i, *shape), shape, float) for i in range(n_parts)]
    return da.concatenate(blocks)


def in_threads(n_features: int, length: int, n_parts: int) -> RowBlocks:
    loaders = [partial(made, i, length, n_features) for i in range(n_parts)]
    return RowBlocks.from_partitions(loaders, [length] * n_parts, n_features)


def view_of(X: Any) -> Rows:
    return Rows(as_source(rows_in_parts(X) if isinstance(X, da.Array) else X), 2)


def passes(n_features: int) -> dict[str, Callable[[Rows], Any]]:
    """Return the passes, and by name the numbers that each gives."""
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(n_features, N_COMPONENTS)))[0]
    return {
        "second moment": lambda rows: rows.gram(),
        "power step": lambda rows: rows.projected_moment(basis),
    }


def seconds(function: Callable[[], Any], runs: int = RUNS) -> float:
    """Return the least seconds of several runs, after one more."""
    function()
    found = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
    return min(found)


def costs() -> list[tuple[int, str, float, float]]:
    """Measure passes: seconds per million rows by threads and by the cluster."""
    lines = []
    for shape in SHAPES:
        n_features, length, n_parts = shape
        millions = length * n_parts / 1e6
        threads, cluster = view_of(in_threads(*shape)), view_of(in_chunks(*shape))
        for name, over in passes(n_features).items():
            ours, theirs = (seconds(partial(over, view)) / millions for view in (threads, cluster))
            lines.append((n_features, name, ours, theirs))
            print(lines[-1], flush=True)
    return lines


def seconds_a_task() -> list[tuple[int, float]]:
    """Measure what a chunk costs that has hardly any rows."""
    found = []
    for n_parts in TINY:
        view = view_of(in_chunks(20, 50, n_parts))
        found.append((n_parts, seconds(view.total, 1) / n_parts))
        print(found[-1], flush=True)
    return found


def report() -> str:
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster),
    ):
        measured, tiny = costs(), seconds_a_task()
    rows = [
        (
            d,
            name,
            f"{ours:.2f}",
            f"{theirs:.2f}",
            f"{theirs / ours:.2f}",
            f"{8 * _numbers(d, name):,}",
        )
        for d, name, ours, theirs in measured
    ]
    tasks = [(f"{n:,}", f"{1e3 * each:.2f}") for n, each in tiny]
    a_task = max(each for _, each in tiny)
    header = ["features", "pass", "chunks", "work, s", "tasks, s", "tree, s", "sum, s"]
    computed = [_computed(d, name, theirs, a_task) for d, name, _, theirs in measured]
    return TEXT.format(
        measured=table(HEADER, rows),
        tasks=table(["chunks", "ms a chunk"], tasks),
        computed=table(header, computed),
    )


def _numbers(n_features: int, name: str) -> int:
    return n_features * (n_features if name == "second moment" else N_COMPONENTS)


def _computed(n_features: int, name: str, of_cluster: float, a_task: float) -> list[str]:
    length = next(length for d, length, _ in SHAPES if d == n_features)
    n_chunks = ROWS // length
    work = 2 * of_cluster * ROWS / 1e6 / WORKERS
    tasks = n_chunks * a_task
    # At each level seven sums come to where the eighth is.
    levels = math.ceil(math.log(n_chunks, 8))
    tree = 7 * levels * 8 * _numbers(n_features, name) / NETWORK
    total = max(work, tasks) + tree
    return [
        *(str(n_features), name, f"{n_chunks:,}", f"{work:.0f}", f"{tasks:.0f}"),
        *(f"{tree:.3f}", f"{total:.0f}"),
    ]


def main() -> None:
    """Print the tables, or write them."""
    asked = parser_for(__doc__, write="write cost.md").parse_args()
    publish(report(), __file__, write=asked.write)


if __name__ == "__main__":
    main()
