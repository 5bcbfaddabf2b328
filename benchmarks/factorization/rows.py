"""What a factorization keeps of tables whose rows are protected.

The data are not in the checkout. Run

    export SKDP_DATA=... OPENBLAS_NUM_THREADS=1
    python -m benchmarks.factorization.rows          # 5 minutes on one core
    python -m benchmarks.factorization.rows --write  # rows.md beside this file
"""

import argparse
import warnings
from pathlib import Path

import numpy as np

from benchmarks.data import file_at_hand
from benchmarks.report import table
from benchmarks.sweep.tables import load
from skdp import DPLowRankFactorizer

HERE = Path(__file__).parent
CHOSEN_ON = ("scorecard", "ailerons", "segment", "teams", "letter", "spambase")
CHECKED_ON = ("house8L", "wind", "mammography", "page_blocks", "mnist_t10k", "nox")
EPSILONS, N_REPS, RANKS, SIZES = (0.25, 1, 4, 16, 64, 256), 2, (2, 8), (300, 8000)
TEXT = """\
# Factors of tables whose rows are protected

Written by `python -m benchmarks.factorization.rows --write`. Defaults of `DPLowRankFactorizer`,
delta 1e-6. What is *kept* is the sum of squares of a table without that of the errors, over the
same of the best matrix of that rank: 1 is as good as it gets, 0 as good as zero, less than 0
worse. Mean, and in brackets the least, of ranks 2 and 8, of {reps} fits each, of the tables with
columns standardized ("std") or in [0, 1] ("ends").

The tables that chose the shares and the rule for the level:
{chosen}. The others, looked at once:
{checked}. Before, with rows as far from 0
as they are, .2 of the budget for them and the bound of the components as the level, the means for
the others were 0, 0, 0, .06, .29 and .53 at these epsilons.

{results}
"""


def scaled(name: str, n_rows: int, mode: str) -> np.ndarray:
    X = np.nan_to_num(load(name)[0][:n_rows])
    X = X[:, X.std(axis=0) > 0]
    shift, unit = (
        (X.mean(axis=0), X.std(axis=0)) if mode == "std" else (X.min(axis=0), np.ptp(X, 0))
    )
    return (X - shift) / unit


def kept(X: np.ndarray, epsilon: float, rank: int) -> float:
    squares = np.square(np.linalg.svd(X, compute_uv=False))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DPLowRankFactorizer(rank, epsilon=epsilon).fit(X)
    errors = np.sum(np.square(X - model.reconstruct()))
    return float((squares.sum() - errors) / squares[:rank].sum())


def row(names: tuple[str, ...], mode: str, n_rows: int) -> list[str]:
    tables = [scaled(name, n_rows, mode) for name in names if file_at_hand(f"{name}.npz")]
    cells = []
    for epsilon in EPSILONS:
        found = [
            np.mean([kept(X, epsilon, rank) for _ in range(N_REPS)])
            for X in tables
            for rank in RANKS
            if rank < X.shape[1]
        ]
        cells.append(f"{np.mean(found):.2f} ({np.min(found):.2f})")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    rows = [
        [f"{which}, {mode}, {n_rows} rows", *row(names, mode, n_rows)]
        for which, names in (("chosen on", CHOSEN_ON), ("checked on", CHECKED_ON))
        for mode in ("std", "ends")
        for n_rows in SIZES
    ]
    results = table(["tables", *(f"{epsilon:g}" for epsilon in EPSILONS)], rows)
    text = TEXT.format(
        reps=N_REPS, chosen=", ".join(CHOSEN_ON), checked=", ".join(CHECKED_ON), results=results
    )
    print(text)
    if parser.parse_args().write:
        (HERE / "rows.md").write_text(text)


if __name__ == "__main__":
    main()
