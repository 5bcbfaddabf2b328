"""What skdp takes beside scikit-learn: to be imported, and to be fitted.

Importing: whole processes, in turn, with compiled bytecode. Fitting: 250,000 rows of 19 columns in
units of their own, with the defaults of both; whole fits in one process, in turn,
`random_state=None` on the private side. With two threads of OpenBLAS, which count as busy while
they wait. Run it as

    OPENBLAS_NUM_THREADS=2 python -m benchmarks.speed.beside           # prints the tables
    OPENBLAS_NUM_THREADS=2 python -m benchmarks.speed.beside --write   # writes beside.md, too
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.report import parser_for, publish, table
from skdp import (
    DPPCA,
    DPLinearRegression,
    DPLogisticRegression,
    DPStandardScaler,
    DPTruncatedSVD,
    PrivacyWarning,
    make_dp_pipeline,
)

N_ROWS, N_FEATURES, N_COMPONENTS = 250_000, 19, 5
ROUNDS, IMPORTS = 25, 15
OURS = "import skdp"
THEIRS = (
    "import sklearn.decomposition, sklearn.linear_model, sklearn.model_selection, sklearn.pipeline"
)
TEXT = f"""# Beside scikit-learn

Made by `OPENBLAS_NUM_THREADS=2 python -m benchmarks.speed.beside --write` on a machine of {{cores}}
cores, {{idle:.0%}} of them idle just before: skdp and scikit-learn in turn.

## Whole fits

{N_ROWS:,} rows, {N_FEATURES} columns, defaults: seconds, the least of {ROUNDS} runs after one more.

{{fits}}

## Import

Whole processes, seconds, the median of {IMPORTS} and the least: `{OURS}` beside `{THEIRS}`.

{{imports}}"""


class Spent(NamedTuple):
    """Seconds of a clock on the wall, and of processors."""

    wall: float
    cpu: float


Job = Callable[[], object]


def rows(n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make normal columns in units of their own, numbers to predict, and classes."""
    rng = np.random.default_rng(0)
    standard = rng.normal(size=(n_rows, n_features))
    score = standard @ rng.normal(size=n_features) / 2
    X = 10.0 ** rng.uniform(-1, 3, n_features) * (standard + rng.uniform(0, 9, n_features))
    return X, score + rng.normal(size=n_rows), (score + rng.logistic(size=n_rows) > 0).astype(int)


def fits() -> dict[str, tuple[Job, Job]]:
    """Return our fits and those of scikit-learn."""
    X, y, classes = rows(N_ROWS, N_FEATURES)
    pairs: dict[str, tuple[Any, Any, Any]] = {
        "scaler and classifier": (
            make_dp_pipeline(DPStandardScaler(), DPLogisticRegression(classes=[0, 1])),
            make_pipeline(StandardScaler(), LogisticRegression()),
            classes,
        ),
        "linear regression": (DPLinearRegression(), LinearRegression(), y),
        "PCA": (DPPCA(N_COMPONENTS), PCA(N_COMPONENTS), None),
        "truncated SVD": (DPTruncatedSVD(N_COMPONENTS), TruncatedSVD(N_COMPONENTS), None),
    }
    return {
        name: (partial(ours.fit, X, target), partial(theirs.fit, X, target))
        for name, (ours, theirs, target) in pairs.items()
    }


def spent(job: Job, who: int = resource.RUSAGE_SELF) -> Spent:
    """Run a job, of which this process or its children take the seconds."""
    wall, before = time.perf_counter(), resource.getrusage(who)
    job()
    after = resource.getrusage(who)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Spent(time.perf_counter() - wall, cpu)


def in_turn(jobs: tuple[Job, ...], times: int, **more: int) -> list[list[Spent]]:
    """Run several jobs in turn, after one round that does not count."""
    rounds = [[spent(job, **more) for job in jobs] for _ in range(times + 1)]
    return [list(of_job) for of_job in zip(*rounds[1:], strict=True)]


def table_of_fits() -> str:
    lines = []
    for name, jobs in fits().items():
        ours, theirs = (Spent(*map(min, zip(*one, strict=True))) for one in in_turn(jobs, ROUNDS))
        seconds = (ours.cpu, theirs.cpu, ours.wall, theirs.wall)
        lines.append([name, *(f"{one:.2f}" for one in seconds), f"{ours.cpu / theirs.cpu:.1f}"])
        print(lines[-1], flush=True)
    header = [
        "fit",
        "CPU s, skdp",
        "CPU s, scikit-learn",
        "s, skdp",
        "s, scikit-learn",
        "ratio, CPU",
    ]
    return table(header, lines)


def table_of_imports() -> str:
    with tempfile.TemporaryDirectory() as compiled:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        imports = tuple(
            partial(subprocess.run, [sys.executable, "-c", code], env=environment, check=True)
            for code in (OURS, THEIRS)
        )
        found = in_turn(imports, IMPORTS, who=resource.RUSAGE_CHILDREN)
    lines = []
    for name, pick in (("median", np.median), ("least", np.min)):
        for clock, unit in enumerate(("s", "CPU s")):
            ours, theirs = (float(pick([one[clock] for one in of_job])) for of_job in found)
            lines.append(
                [
                    f"{name}, {unit}",
                    *(f"{one:.2f}" for one in (ours, theirs)),
                    f"{ours / theirs:.2f}",
                ]
            )
    return table(["", "skdp", "scikit-learn", "ratio"], lines)


def idle(seconds: float = 5.0) -> float:
    """Return which part of all processors does nothing; NaN where the system does not tell."""

    def ticks() -> list[int]:
        try:
            return [int(one) for one in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
        except OSError:
            return []

    before = ticks()
    time.sleep(seconds)
    passed = np.subtract(ticks(), before)
    return float(passed[3] / passed.sum()) if passed.size else np.nan


def main() -> None:
    """Print the tables, or write them."""
    asked = parser_for(__doc__, write="write beside.md").parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    is_idle = idle()
    print(f"idle: {is_idle:.0%}", flush=True)
    text = TEXT.format(
        cores=os.cpu_count(), idle=is_idle, fits=table_of_fits(), imports=table_of_imports()
    )
    publish(text, __file__, write=asked.write)


if __name__ == "__main__":
    main()
