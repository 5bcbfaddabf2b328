"""Time of private fits against scikit-learn's non-private ones.

Both run in one process, in turn, on the same data, with two threads each; what counts is the ratio
of the medians. `random_state=None` and public bounds on the private side. Run

    python benchmarks/speed.py                 # all cases, about 5 GB of memory
    python benchmarks/speed.py --scale 0.1     # a tenth of the rows
"""

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.decomposition import PCA, TruncatedSVD
from threadpoolctl import threadpool_limits

from skdp import DPPCA, DPTruncatedSVD, PrivacyWarning

THREADS = 2


@dataclass
class Case:
    name: str
    target: float
    make_data: Callable[[float], Any]
    ours: Callable[[], Any]
    theirs: Callable[[], Any]


def uniform_sparse(scale: float) -> sparse.csr_array:
    """1,000,000 x 20,000 with 20 nonzeros a row, at full scale."""
    rng = np.random.default_rng(0)
    n_rows, n_features, per_row = int(1_000_000 * scale), 20_000, 20
    indices = rng.integers(n_features, size=(n_rows, per_row), dtype=np.int32)
    indices.sort(axis=1)
    matrix = sparse.csr_array(
        (
            rng.random(n_rows * per_row),
            indices.ravel(),
            np.arange(0, n_rows * per_row + 1, per_row, dtype=np.int32),
        ),
        shape=(n_rows, n_features),
    )
    matrix.sum_duplicates()
    return matrix


def dense(scale: float) -> np.ndarray:
    """100,000 x 200, at full scale."""
    return np.random.default_rng(0).normal(size=(int(100_000 * scale), 200))


CASES = [
    Case(
        "sparse 1M x 20k, DPTruncatedSVD(10) / TruncatedSVD(10, n_iter=5)",
        0.40,
        uniform_sparse,
        lambda: DPTruncatedSVD(10, row_norm=3.0, n_jobs=THREADS),
        lambda: TruncatedSVD(10, n_iter=5),
    ),
    Case(
        "dense 100k x 200, DPPCA(10) / PCA(10, covariance_eigh)",
        1.40,
        dense,
        lambda: DPPCA(10, row_norm=20.0, mean_norm=20.0, n_jobs=THREADS),
        lambda: PCA(10, svd_solver="covariance_eigh"),
    ),
]


def seconds(estimator: Any, X: Any) -> float:
    start = time.perf_counter()
    estimator.fit(X)
    return time.perf_counter() - start


def run(case: Case, scale: float, repeats: int) -> None:
    X = case.make_data(scale)
    pairs = [(seconds(case.ours(), X), seconds(case.theirs(), X)) for _ in range(repeats + 1)]
    ours, theirs = np.median(pairs[1:], axis=0)  # the first pair warms up
    print(
        f"{case.name}\n  {ours:.3f} s / {theirs:.3f} s = {ours / theirs:.2f}"
        f"   (aim at full scale: {case.target:.2f})",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows, default 1")
    parser.add_argument("--repeats", type=int, default=5, help="counted runs of each, default 5")
    arguments = parser.parse_args()
    # The data of the benchmark are noise: that no component stands out is no news.
    warnings.simplefilter("ignore", PrivacyWarning)
    with threadpool_limits(THREADS):
        for case in CASES:
            run(case, arguments.scale, arguments.repeats)


if __name__ == "__main__":
    main()
