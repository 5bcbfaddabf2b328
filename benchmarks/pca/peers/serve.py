"""What the runner of a library shares with that of the other: one answer for each line it reads.

Imported by an interpreter that need not know skdp.
"""

import sys
from collections.abc import Callable

import numpy as np

__all__ = ["serve"]


def serve(fit: Callable[[np.ndarray, int, float, int], np.ndarray]) -> None:
    """Read "epsilon seed file" lines; save the components that `fit` returns, and say so."""
    X, n_components = np.load(sys.argv[1]), int(sys.argv[2])
    # Answers have the standard output for themselves.
    answers, sys.stdout = sys.stdout, sys.stderr
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        epsilon, seed, file = line.rstrip("\n").split(" ", 2)
        np.save(file, fit(X, n_components, float(epsilon), int(seed)))
        print("done", file=answers, flush=True)
