"""A fit of Parquet files that are larger than the memory it may use.

Writes files of float32, row groups of 80 MB, and fits `DPPCA` in a process that gets 2 GB of
address space beyond what it has when all is imported. Prints the memory at its peak, beyond that of
the imports, and the seconds per million rows and pass. Run

    python -m benchmarks.parts.parquet               # 5 GB of disk, in a temporary directory
    python -m benchmarks.parts.parquet --gigabytes 0.5

More than two threads need `ARROW_DEFAULT_MEMORY_POOL=system`: the usual allocator of pyarrow
reserves more than a gigabyte of address space.
"""

import argparse
import re
import resource
import tempfile
import time
import warnings
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from pyarrow.parquet import ParquetWriter

from skdp import DPPCA, PrivacyWarning, RowBlocks
from skdp.data.parts import RowParts

N_FEATURES, GROUP_ROWS, FILE_GROUPS = 200, 100_000, 8
NAMES = [f"x{number}" for number in range(N_FEATURES)]
BEYOND = 2_000_000_000


def write(folder: str, gigabytes: float) -> None:
    """Write rows of ten directions and noise, until the files have that size."""
    schema = pa.schema([(name, pa.float32()) for name in NAMES])
    generator = np.random.default_rng(0)
    directions = 3 * generator.normal(size=(10, N_FEATURES)).astype(np.float32)
    n_groups = max(round(gigabytes * 1e9 / (4 * N_FEATURES * GROUP_ROWS)), 1)
    for first in range(0, n_groups, FILE_GROUPS):
        with ParquetWriter(
            Path(folder, f"{first:04}.parquet"), schema, use_dictionary=False
        ) as file:
            for _ in range(min(FILE_GROUPS, n_groups - first)):
                rows = generator.standard_normal((GROUP_ROWS, N_FEATURES), dtype=np.float32)
                rows += generator.standard_normal((GROUP_ROWS, 10), dtype=np.float32) @ directions
                file.write_table(pa.table([*rows.T.copy()], schema=schema), GROUP_ROWS)


def memory() -> dict[str, int]:
    """Bytes of address space and of memory, now and at the peak."""
    found = re.findall(r"(Vm\w+):\s+(\d+) kB", Path("/proc/self/status").read_text())
    return {name: 1024 * int(value) for name, value in found}


def fit(folder: str, n_jobs: int) -> None:
    """Fit within the limit, and print what that took."""
    before = memory()
    limit = before["VmSize"] + BEYOND
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    rows, loads = RowBlocks.from_parquet(sorted(Path(folder).glob("*"))), count()
    load = RowParts.load
    start = time.perf_counter(), time.process_time()
    with (
        patch.object(RowParts, "load", lambda *args: (next(loads), load(*args))[1]),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", PrivacyWarning)
        DPPCA(10, solver="covariance", n_jobs=n_jobs).fit(rows)
    seconds, cpu = time.perf_counter() - start[0], time.process_time() - start[1]
    n_passes, after = next(loads) / len(rows.parts), memory()
    per = rows.shape[0] / 1e6 * n_passes
    space, peak = (after[a] - before[b] for a, b in (("VmPeak", "VmSize"), ("VmHWM", "VmRSS")))
    print(
        f"n_jobs={n_jobs}: {rows.shape} in {len(rows.parts)} parts, {n_passes:g} passes, "
        f"{seconds:.0f} s; a million rows and pass: {seconds / per:.2f} s, CPU {cpu / per:.2f} s; "
        f"peak {peak / 1e6:.0f} MB of memory, {space / 1e6:.0f} MB of address space",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=5.0, help="size of the files")
    gigabytes = parser.parse_args().gigabytes
    # Each step in a process of its own: what another has left behind is not counted.
    new = get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        for function, argument in ((write, gigabytes), (fit, 1), (fit, 2)):
            process = new.Process(target=function, args=(folder, argument))
            process.start()
            process.join()
            if process.exitcode:
                raise SystemExit(f"{function.__name__} failed")


if __name__ == "__main__":
    main()
