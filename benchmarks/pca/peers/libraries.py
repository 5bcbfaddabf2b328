"""Libraries in environments of their own, each fit with a limit of time.

Which interpreters to use is read from the environment. On Linux or macOS:

    python3 -m venv a && a/bin/pip install diffprivlib "scikit-learn<1.9"
    python3 -m venv b && b/bin/pip install "opendp[scikit-learn]"
    export SKDP_DIFFPRIVLIB_PYTHON=a/bin/python SKDP_OPENDP_PYTHON=b/bin/python
"""

import os
import selectors
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["LIBRARIES", "Library", "NoAnswer", "fitting"]

# Importing a library and reading the rows.
_START_LIMIT = 300.0


class NoAnswer(Exception):
    """Nothing came within the limit."""


@dataclass(frozen=True)
class Library:
    name: str
    variable: str
    script: str

    @property
    def interpreter(self) -> str | None:
        return os.environ.get(self.variable)


LIBRARIES = [
    Library("diffprivlib", "SKDP_DIFFPRIVLIB_PYTHON", "run_diffprivlib.py"),
    Library("OpenDP", "SKDP_OPENDP_PYTHON", "run_opendp.py"),
]


@contextmanager
def fitting(
    library: Library, rows: Path, n_components: int, limit: float
) -> Iterator[Callable[[float, int], np.ndarray]]:
    """Start a process that holds the rows; give a function of epsilon and seed that fits to them.

    It returns components, or raises NoAnswer, after which the process is of no more use.
    """
    answer, errors = rows.with_name("components.npy"), rows.with_name("errors.txt")
    script = str(Path(__file__).with_name(library.script))
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            [library.interpreter, script, str(rows), str(n_components)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )

    def wait_for(word: str, seconds: float) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(seconds):
                raise NoAnswer
        if process.stdout.readline().decode().strip() != word:
            raise RuntimeError(f"{library.script}:\n{errors.read_text()[-2000:]}")

    def components(epsilon: float, seed: int) -> np.ndarray:
        process.stdin.write(f"{epsilon} {seed} {answer}\n".encode())
        process.stdin.flush()
        wait_for("done", limit)
        return np.load(answer)

    try:
        wait_for("ready", _START_LIMIT)
        yield components
    finally:
        process.kill()
        process.communicate()
