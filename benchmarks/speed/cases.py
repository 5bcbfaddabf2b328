"""The pairs of fits that `speed.py` times, and the data they are timed on.

`scale` is a share of the rows; the number of features stays. All data are the same in every run.
"""

import atexit
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD
from sklearn.linear_model import Ridge

from benchmarks.speed.charges import Charge, new_ledger, small_pca
from benchmarks.speed.personal import RidgeOfEach, SharedModel
from benchmarks.speed.reading import Look
from benchmarks.speed.regression import RANK, SHAPE, GradientStep, Regression, TwoProducts
from benchmarks.speed.streams import Compressed, Dictionary, OneByOne, Stream, updates
from skdp import DPPCA, DPTraceRegressor, DPTruncatedSVD
from skdp.datasets import make_spiked
from skdp.units import Entry

THREADS = 2


@dataclass(frozen=True)
class Case:
    """Two estimators on the same data, and how many times as long as theirs ours may take."""

    name: str
    make_data: Callable[[float], Any]
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    aim: float | None = None  # None: printed for comparison
    dtype: type | None = None  # None: as made
    clock: Callable[[], float] = time.perf_counter
    theirs_once: bool = False  # where one run takes a minute
    threads: int = THREADS
    memory_aim: int | None = None  # MB of anonymous memory that our fit may add


def dense(n_rows: int, n_features: int, scale: float) -> np.ndarray:
    """Standard normal noise."""
    return np.random.default_rng(0).normal(size=(int(n_rows * scale), n_features))


def spiked(n_features: int, scale: float) -> np.ndarray:
    """20,000 rows with five strong directions."""
    return make_spiked(int(20_000 * scale), n_features, k=5, random_state=0)[0]


def uniform_sparse(n_rows: int, n_features: int, scale: float) -> sparse.csr_array:
    """20 nonzeros a row, all features alike; values uniform in (0, 1)."""
    rng = np.random.default_rng(0)
    n_rows, per_row = int(n_rows * scale), 20
    indices = rng.integers(n_features, size=(n_rows, per_row), dtype=np.int32)
    return _csr(indices.ravel(), np.full(n_rows, per_row), n_features, rng.random)


def power_law(scale: float) -> sparse.csr_array:
    """138,493 x 26,744 with 20 million ratings, in the shape of MovieLens-20M.

    A user draws items with replacement and rates each that came up at all, .5 to 5 stars. The
    numbers of draws follow a Pareto law of exponent .85 between 30 and 30,000; the chance of an
    item is proportional to `(rank + 120) ** -1.9`. As repeated draws count once, the busiest user
    has about 3,600 ratings, and the most popular item is rated by half of the users, 68,000. Users
    and items are in random order.
    """
    rng = np.random.default_rng(0)
    n_users, n_items = int(138_493 * scale), 26_744
    exponent, fewest, most = 0.85, 30, 30_000
    # The quantiles of the law, rather than draws from it, reach its ends at every scale.
    level = rng.permutation(np.arange(n_users) + 0.5) / n_users
    tails = (1 - level) * fewest**-exponent + level * most**-exponent
    n_draws = (tails ** (-1 / exponent)).astype(np.int64)
    popularity = np.cumsum((np.arange(n_items) + 120.0) ** -1.9)
    draws = rng.random(n_draws.sum()) * popularity[-1]
    items = rng.permutation(n_items).astype(np.int32)[np.searchsorted(popularity, draws)]
    return _csr(items, n_draws, n_items, lambda size: rng.integers(1, 11, size) / 2)


def memory_map(scale: float) -> np.memmap:
    """2,000,000 x 200 float32 in a temporary file of 1.6 GB, removed at exit."""
    directory = tempfile.mkdtemp(prefix="skdp-speed-")
    atexit.register(shutil.rmtree, directory)
    rng = np.random.default_rng(0)
    shape = (int(2_000_000 * scale), 200)
    X = np.memmap(Path(directory) / "rows", np.float32, "w+", shape=shape)
    for start in range(0, len(X), 10_000):
        rng.standard_normal(out=X[start : start + 10_000], dtype=np.float32)
    X.flush()
    return np.memmap(X.filename, np.float32, "r", shape=shape)


def _csr(
    indices: np.ndarray, row_lengths: np.ndarray, n_features: int, draw_values: Callable[[int], Any]
) -> sparse.csr_array:
    """Build a CSR matrix of the columns drawn for each row, each of them once."""
    starts = np.concatenate([[0], np.cumsum(row_lengths)]).astype(np.int32)
    shape = (len(row_lengths), n_features)
    matrix = sparse.csr_array((np.ones(len(indices)), indices, starts), shape=shape)
    matrix.sum_duplicates()
    matrix.data = np.asarray(draw_values(matrix.nnz), dtype=np.float64)
    return matrix


def _sparse(
    name: str, make_data: Callable[[float], Any], row_norm: float, aim: float
) -> list[Case]:
    """Time float64, for which there is an aim, and float32."""
    return [
        Case(
            f"{name} {dtype.__name__}: DPTruncatedSVD(10) / TruncatedSVD(10, n_iter=5)",
            make_data,
            lambda: DPTruncatedSVD(10, row_norm=row_norm, n_jobs=THREADS),
            lambda: TruncatedSVD(10, n_iter=5),
            aim=dtype_aim,
            dtype=dtype,
        )
        for dtype, dtype_aim in ((np.float64, aim), (np.float32, None))
    ]


def _overhead(
    name: str, make_data: Callable[[float], Any], estimator: Any, solver: str, **bounds: float
) -> Case:
    """Time a fit against the same code with clipping and noise switched off."""
    off = dict.fromkeys(bounds, np.inf)
    return Case(
        f"privacy, {name}, solver={solver}: {estimator.__name__}(10) / without clipping and noise",
        make_data,
        lambda: estimator(10, solver=solver, **bounds, n_jobs=THREADS),
        lambda: estimator(10, solver=solver, **off, epsilon=np.inf, n_jobs=THREADS),
        aim=1.25,
    )


def _gate(make_data: Callable[[float], Any], n_features: int, solver: str) -> Case:
    """Time the components of strong directions."""
    return Case(
        f"gate 20k x {n_features}, solver={solver}: DPTruncatedSVD(5) / PCA(5, covariance_eigh)",
        make_data,
        lambda: DPTruncatedSVD(5, solver=solver, adjacency="zero_out", row_norm=1.0),
        lambda: PCA(5, svd_solver="covariance_eigh"),
        aim=1.2 if solver == "auto" else None,
        clock=time.process_time,
        threads=1,
    )


def _in_format(form: str, scale: float) -> Any:
    return power_law(scale).asformat(form)


def _batch(name: str, shape: tuple[int, int], sketch: str, aim: float) -> Case:
    """Time a million updates in one call."""
    return Case(
        f"1M updates of {name}, {sketch}: DPStreamingFactorizer / COO to CSR",
        partial(updates, *shape, 1_000_000),
        lambda: Stream(shape, sketch),
        Compressed,
        aim=aim,
        threads=1,
    )


UNIFORM = partial(uniform_sparse, 1_000_000, 20_000)
UNIFORM_NARROW = partial(uniform_sparse, 200_000, 500)
DENSE = partial(dense, 100_000, 200)
DENSE_WIDE = partial(dense, 20_000, 2000)
MATRICES = partial(dense, 20_000, 2500)
FEW = partial(dense, 1000, 20)
USERS = partial(dense, 200_000, 50)
SPIKED_500, SPIKED_1000 = partial(spiked, 500), partial(spiked, 1000)

# A row of the data is longer than its bound in about one case of twenty.
UNIFORM_NORM, RATINGS_NORM, DENSE_NORM, WIDE_NORM = 3.0, 70.0, 15.3, 45.9

# Cases on the same data stand together: the data are made once, and dropped before the next.
CASES = [
    *_sparse("sparse 1M x 20k", UNIFORM, UNIFORM_NORM, aim=0.40),
    *_sparse("power law 138k x 27k", power_law, RATINGS_NORM, aim=0.65),
    Case(
        "power law 138k x 27k, entries: DPTruncatedSVD(10) / TruncatedSVD(10, n_iter=5)",
        power_law,
        lambda: DPTruncatedSVD(10, privacy_unit=Entry(bounds=(0.5, 5))),
        lambda: TruncatedSVD(10, n_iter=5),
        aim=1.0,
    ),
    _overhead("power law 138k x 27k", power_law, DPTruncatedSVD, "power", row_norm=RATINGS_NORM),
    _overhead(
        "sparse 200k x 500", UNIFORM_NARROW, DPTruncatedSVD, "covariance", row_norm=UNIFORM_NORM
    ),
    Case(
        "dense 20k x 2000: DPPCA(20) / PCA(20)",
        DENSE_WIDE,
        lambda: DPPCA(20, row_norm=WIDE_NORM, mean_norm=WIDE_NORM, n_jobs=THREADS),
        lambda: PCA(20),
        aim=1.15,
    ),
    Case(
        "dense 100k x 200: DPPCA(10) / PCA(10, covariance_eigh)",
        DENSE,
        lambda: DPPCA(10, row_norm=DENSE_NORM, mean_norm=DENSE_NORM, n_jobs=THREADS),
        lambda: PCA(10, svd_solver="covariance_eigh"),
        aim=1.20,
    ),
    *(
        _overhead(
            "dense 100k x 200", DENSE, DPPCA, solver, row_norm=DENSE_NORM, mean_norm=DENSE_NORM
        )
        for solver in ("covariance", "power")
    ),
    *(_gate(SPIKED_500, 500, solver) for solver in ("auto", "covariance")),
    *(_gate(SPIKED_1000, 1000, solver) for solver in ("auto", "covariance")),
    Case(
        "matrices 20k x 50 x 50: gradient step of DPTraceRegressor(2) / two products with X",
        MATRICES,
        partial(GradientStep, THREADS),
        TwoProducts,
        aim=3.0,
    ),
    Case(
        "matrices 20k x 50 x 50: DPTraceRegressor(2) / Ridge(cholesky)",
        MATRICES,
        lambda: Regression(DPTraceRegressor(RANK, matrix_shape=SHAPE, n_jobs=THREADS)),
        lambda: Regression(Ridge(solver="cholesky")),
        aim=1.5,
    ),
    Case(
        "10k users x 20 x 50, 10 rounds: DPPersonalizedRegressor(3) / Ridge of each user",
        USERS,
        SharedModel,
        RidgeOfEach,
        aim=0.15,
        threads=1,
    ),
    Case(
        "memory map 2M x 200 float32: DPPCA(10) / PCA(10, covariance_eigh)",
        memory_map,
        lambda: DPPCA(10, row_norm=DENSE_NORM, mean_norm=DENSE_NORM, n_jobs=THREADS),
        lambda: PCA(10, svd_solver="covariance_eigh"),
        aim=0.40,
        memory_aim=64,
    ),
    Case(
        "memory map 2M x 200 float32: DPPCA(10) / IncrementalPCA(10, batch_size=50_000)",
        memory_map,
        lambda: DPPCA(10, row_norm=DENSE_NORM, mean_norm=DENSE_NORM, n_jobs=THREADS),
        lambda: IncrementalPCA(10, batch_size=50_000),
        aim=0.10,
        theirs_once=True,
    ),
    _batch("2000 x 500", (2000, 500), "countsketch", aim=1.0),
    _batch("2000 x 500", (2000, 500), "haar", aim=3.0),
    _batch("1M x 100k", (1_000_000, 100_000), "countsketch", aim=2.0),
    *(
        Case(
            f"single updates of 2000 x 500, {sketch}: DPStreamingFactorizer / dok_array",
            partial(updates, 2000, 500, 100_000),
            lambda sketch=sketch: OneByOne((2000, 500), sketch),
            Dictionary,
            aim=1.0,
            threads=1,
        )
        for sketch in ("countsketch", "haar")
    ),
    *(
        Case(
            f"power law 138k x 27k, {form}: one look at the indices / DPTruncatedSVD(10)",
            partial(_in_format, form),
            Look,
            lambda: DPTruncatedSVD(10, row_norm=RATINGS_NORM),
        )
        for form in ("csr", "coo")
    ),
    # A charge waits for the disk, of which every machine has another.
    Case("ledger: 10,000th charge / first charge", FEW, partial(Charge, 9999), partial(Charge, 0)),
    Case(
        "dense 1000 x 20: DPPCA(5), with a ledger / without",
        FEW,
        lambda: small_pca(new_ledger()),
        small_pca,
    ),
]
