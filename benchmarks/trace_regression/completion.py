"""`DPTraceRegressor`: where may the curvature of the loss be read off a step?

A descent shortens its steps where gradients change faster than the loss of independent features
allows. On matrices of low rank gradients also change because their projection does. Run

    python -m benchmarks.trace_regression.completion            # some 10 minutes on one core
    python -m benchmarks.trace_regression.completion --write    # completion.md beside it
"""

import warnings
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.report import line, parser_for, table
from skdp import DPTraceRegressor, RankOneMatrices
from skdp.linear_model import _trace_descent

TITLE = """\
# Where the curvature may be read off a step

Written by `python -m benchmarks.trace_regression.completion --write`. A step of the descent tells
how steep the loss is only if at most a fraction of the step is outside the tangent spaces of its
ends. Root mean square error over the size of the truth: the mean, and the largest, of 40 fits of
cells (60 x 40, 20,000 of them known, noise of .5) and of 10 fits of dense 16 x 12 matrices (5,000
records; entries correlated by .8 from one row to the next, or with a part common to all)."""
FRACTIONS = (0.0, 0.03, 0.1, 0.3, np.inf)
EPSILONS = (1.0, 8.0, np.inf)


def cells(generator: np.random.Generator, rank: int) -> tuple[Any, np.ndarray, np.ndarray]:
    shape, n_cells = (60, 40), 20_000
    truth = low_rank(generator, shape, rank)
    places = [generator.integers(0, size, n_cells) for size in shape]
    y = 3 + truth[tuple(places)] + 0.5 * generator.standard_normal(n_cells)
    return RankOneMatrices.from_indices(*places, shape=shape), y, truth


def correlated(generator: np.random.Generator, rank: int) -> tuple[Any, np.ndarray, np.ndarray]:
    apart = np.abs(np.subtract.outer(np.arange(16), np.arange(16)))
    X = np.linalg.cholesky(0.8**apart) @ generator.standard_normal((5_000, 16, 12))
    return answered(generator, X, rank)


def common(generator: np.random.Generator, rank: int) -> tuple[Any, np.ndarray, np.ndarray]:
    X = generator.standard_normal((5_000, 16, 12))
    return answered(generator, X + generator.standard_normal((5_000, 1, 1)), rank)


def answered(
    generator: np.random.Generator, X: np.ndarray, rank: int
) -> tuple[Any, np.ndarray, np.ndarray]:
    truth = low_rank(generator, X.shape[1:], rank)
    y = np.einsum("nij,ij->n", X, truth)
    return X, y + 0.3 * y.std() * generator.standard_normal(len(y)), truth


def low_rank(generator: np.random.Generator, shape: tuple[int, ...], rank: int) -> np.ndarray:
    left, right = (generator.standard_normal((size, rank)) for size in shape)
    return left @ right.T


CASES = {"cells": (cells, 40), "correlated": (correlated, 10), "common part": (common, 10)}


def error(make: Any, rank: int, epsilon: float, seed: int) -> float:
    X, y, truth = make(np.random.default_rng(seed), rank)
    model = DPTraceRegressor(rank=rank, epsilon=epsilon, random_state=2**100 + seed).fit(X, y)
    return float(np.linalg.norm(model.coef_matrix_ - truth) / np.linalg.norm(truth))


def row(name: str, rank: int, epsilon: float) -> list[str]:
    make, n_seeds = CASES[name]
    said = []
    for fraction in FRACTIONS:
        with mock.patch.object(_trace_descent, "_LARGEST_OUTSIDE", fraction):
            errors = [error(make, rank, epsilon, seed) for seed in range(n_seeds)]
        said.append(f"{np.mean(errors):.3f} ({np.max(errors):.3f})")
    return [name, str(rank), f"{epsilon:g}", *said]


def main() -> None:
    arguments = parser_for(__doc__, write="replace completion.md").parse_args()
    warnings.simplefilter("ignore")
    lines = [table(["", "rank", "epsilon", *(f"{fraction:g}" for fraction in FRACTIONS)], [])]
    print(lines[0])
    for name, rank, epsilon in product(CASES, (1, 2, 4), EPSILONS):
        lines.append(line(row(name, rank, epsilon)))
        print(lines[-1], flush=True)
    if arguments.write:
        Path(__file__).with_suffix(".md").write_text(f"{TITLE}\n\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
