"""diffprivlib, in an environment of its own.

Its logistic regression perturbs the objective, and adds far too much noise with scikit-learn 1.4
and later, where the loss is a mean. On Linux or macOS:

    python3.11 -m venv a && a/bin/pip install diffprivlib==0.6.3 "scikit-learn<1.4" "numpy<2"
    export SKDP_DIFFPRIVLIB_CLASSIFIER_PYTHON=a/bin/python
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.classification.peers.ports import median_norm
from benchmarks.classification.tasks import Split

__all__ = ["DIFFPRIVLIB", "diffprivlib", "interpreter"]

DIFFPRIVLIB = "diffprivlib, (epsilon, 0)"
VARIABLE = "SKDP_DIFFPRIVLIB_CLASSIFIER_PYTHON"


def interpreter() -> str | None:
    return os.environ.get(VARIABLE)


def diffprivlib(split: Split, epsilons: tuple[float, ...]) -> Iterator[float]:
    """Yield the accuracy for each epsilon."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "rows.npz", Path(folder) / "predictions.npy"
        np.savez(
            source,
            train=split.train,
            y=split.ours,
            test=split.test,
            norm=median_norm(split),
            seed=split.seed,
            epsilons=epsilons,
        )
        script = str(Path(__file__).with_name("run_diffprivlib.py"))
        command = [str(interpreter()), "-W", "ignore", script, str(source), str(target)]
        subprocess.run(command, check=True, env={"PATH": os.environ["PATH"]})
        for predicted in np.load(target):
            yield float(np.mean(predicted == split.theirs))
