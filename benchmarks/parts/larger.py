"""Seconds and memory of fits on rows in parts that grow, beside those of one memory map.

Each fit runs in a process of its own, on files of 100,000 rows of 200 float32 each. Memory is
anonymous: pages of the files themselves, which the system drops when it needs room, do not count.
Run it as ``python -m benchmarks.parts.larger``: 2M and 6M rows, 5 GB of files, which are removed at
the end; ``--full`` adds 20M, 16 GB; ``--write`` writes larger.md.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from benchmarks.report import publish, table
from skdp import DPPCA, RowBlocks

N_FEATURES, PART = 200, 100_000
SIZES, FULL = (1_000_000, 2_000_000, 6_000_000), (20_000_000,)
N_JOBS = 2
# Readings of a fit: an opening pass, and what the solver does.
SOLVERS = {"covariance": {}, "power": {"n_iter": 2}}


def write_files(folder: Path, n_rows: int) -> list[Path]:
    """Write what is missing of the files that hold so many rows."""
    paths = [folder / f"{number:04d}.npy" for number in range(n_rows // PART)]
    for number, path in enumerate(paths):
        if not path.exists():
            rng = np.random.default_rng(number)
            rows = rng.standard_normal((PART, N_FEATURES), dtype=np.float32)
            rows[:, :5] *= [9, 7, 5, 4, 3]
            np.save(path, rows)
    return paths


def write_whole(folder: Path, paths: list[Path]) -> Path:
    """Write the rows of several files into one."""
    whole = folder / "whole.npy"
    shape = len(paths) * PART, N_FEATURES
    rows = np.lib.format.open_memmap(whole, mode="w+", dtype=np.float32, shape=shape)
    for number, path in enumerate(paths):
        rows[number * PART : (number + 1) * PART] = np.load(path)
    rows.flush()
    return whole


def fit_once(solver: str, paths: list[str]) -> dict[str, float]:
    """Fit the rows of some files, or of one, which is mapped as a whole."""
    X = RowBlocks.from_npy(paths) if len(paths) > 1 else np.load(paths[0], mmap_mode="r")
    # A delta below one over the number of rows.
    pca = DPPCA(5, solver=solver, delta=1e-9, n_jobs=N_JOBS, **SOLVERS[solver])
    done, most = threading.Event(), [0.0]

    def _watch() -> None:
        while not done.wait(0.01):
            most[0] = max(most[0], anonymous())

    watcher = threading.Thread(target=_watch)
    watcher.start()
    before, cpu_before = time.perf_counter(), cpu_seconds()
    pca.fit(X)
    seconds, cpu = time.perf_counter() - before, cpu_seconds() - cpu_before
    done.set()
    watcher.join()
    return {"seconds": seconds, "cpu": cpu, "memory": most[0]}


def anonymous() -> float:
    """Return the megabytes of this process that no file backs."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    return 0.0


def cpu_seconds() -> float:
    """Return the seconds of the processor that this process has used."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measured(solver: str, paths: list[Path], n_runs: int) -> dict[str, float]:
    """Fit in processes of their own; return the least of each figure."""
    command = [sys.executable, "-m", "benchmarks.parts.larger", "--child", solver]
    command += [str(path) for path in paths]
    found = [json.loads(subprocess.check_output(command)) for _ in range(n_runs)]
    return {name: min(one[name] for one in found) for name in found[0]}


def report(folder: Path, sizes: tuple[int, ...], n_runs: int) -> str:
    """Return the tables."""
    lines = []
    for solver in SOLVERS:
        for n_rows in sizes:
            paths = write_files(folder, n_rows)
            of_parts = measured(solver, paths, n_runs)
            lines.append(_line(solver, n_rows, f"{len(paths)} files", of_parts))
            if n_rows == SIZES[1]:
                whole = write_whole(folder, paths)
                of_whole = measured(solver, [whole], n_runs)
                lines.append(_line(solver, n_rows, "one memory map", of_whole))
                whole.unlink()
    header = ["solver", "rows", "from", "s", "s per million rows", "CPU s per million rows", "MB"]
    return table(header, lines)


def _line(solver: str, n_rows: int, source: str, found: dict[str, float]) -> list[str]:
    millions = n_rows / 1e6
    return [
        solver,
        f"{n_rows:,}",
        source,
        f"{found['seconds']:.1f}",
        f"{found['seconds'] / millions:.2f}",
        f"{found['cpu'] / millions:.2f}",
        f"{found['memory']:.0f}",
    ]


def main() -> None:
    """Print the tables, or write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="20M rows, too")
    parser.add_argument("--folder", type=Path, help="where to keep the files")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write larger.md")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        solver, *paths = asked.child
        print(json.dumps(fit_once(solver, paths)))
        return
    with tempfile.TemporaryDirectory(prefix="skdp-larger-") as temporary:
        folder = asked.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        text = report(folder, SIZES + FULL * asked.full, asked.runs)
    title = "# Rows in parts that grow\n\nMade by `python -m benchmarks.parts.larger`.\n\n"
    publish(title + text, __file__, write=asked.write)


if __name__ == "__main__":
    main()
