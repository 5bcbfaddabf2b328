r"""What the rows of a released basis should be cut to, in units of their mean square.

`BASIS_CUT` and `PURE_CUT` of `skdp/decomposition/entries/solvers.py` are replaced, and all else is
as the estimators have it. Run

    python -m benchmarks.entries.cut           # 15 seeds, some 7 minutes on one core
    python -m benchmarks.entries.cut --write   # cut.md beside it

MovieLens is looked for in the folder that `SKDP_DATA` names, and left out without it.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.preprocessing import StandardScaler

from benchmarks import data
from benchmarks.entries.measures import agreement, digits, fitted, hub_graph, symmetric
from benchmarks.entries.methods import (
    Fit,
    PromisedEdge,
    captured,
    solve,
    top_triplets,
)
from benchmarks.report import (
    Measured,
    ignore_drowned_signal,
    measured,
    need_two_seeds,
    parser_for,
    table,
)
from skdp import DPPCA, DPTruncatedSVD
from skdp.datasets import make_block_graph, make_interactions
from skdp.units import Edge, Entry, Interaction, SparseRow

HERE = Path(__file__).parent
SEEDS = 15
CUTS = (0.1, 0.25, 0.5, 1.0, 2.0, None)
NAMES = [f"{cut:g}" if cut else "none" for cut in CUTS]
DEFAULT = NAMES[CUTS.index(1.0)]

TITLE = """\
# What the rows of a basis are cut to

Written by `python -m benchmarks.entries.cut --write`. A cell is what the released vectors V
capture, the norm of X V over its largest value, mean of {} seeds; of the block graph the share of
the nodes that the second eigenvector puts with their community. Columns are the cut, in units of
the mean square of the rows of a basis. The last two are how far the best mean is above that of 1,
and the standard error of that difference, seed by seed. Solvers are those of "auto" but where one
is named, delta is 1e-6 but where it is 0. With bounds of (-3, 3) adjacency "zero_out" halves the
noise, and with those of (0, 1) it is the same as "replace".

"""
FINDINGS = """
## What the table says

Where noise is Gaussian nothing above 1 is worth having: 2 is better than 1 by .003, where hardly
any noise is left, or by no more than the error of the difference, and worse by up to .24; no cut at
all loses more. Below 1 it is the other way round: .25 is better by up to .21 where noise is strong,
and worse by .003 at most. Still less, .1, is better than that by up to .12 where little is found at
all, and worse by up to .08 elsewhere; it bends the vectors more.

With delta 0 the noise of Laplace is not shrunk, and a basis has no column more than it needs. Then
cutting bends coherent vectors, and how much it should cut follows the coherence and the signal,
which are not public: no cut is best at epsilon 4, and captures nothing at epsilon .5. One more
column, `n_oversamples=1`, makes up for it at any cut.

So rows are cut to .25 of their mean square, and without delta to all of it, as before.
"""

Way = Callable[..., float]


def share_captured(fit: Way, X: Any, best: float, seed: int, cut: float | None) -> float:
    return captured(X, fit(seed, basis_cut=cut), best)


def in_community(fit: Way, labels: np.ndarray, seed: int, cut: float | None) -> float:
    return agreement(fit(seed, basis_cut=cut)[:, 1], labels)


def branches(
    make: Any, X: Any, target: Any, k: int, epsilons: tuple[float, ...], **more: Any
) -> Iterator[tuple[str, Way]]:
    """Yield each epsilon, with what measures a seed and a cut."""
    best = np.linalg.norm(top_triplets(target, k)[1])
    for epsilon in epsilons:
        fit = partial(fitted, make, X, k, epsilon=epsilon, **more)
        yield f"epsilon {epsilon:g}", partial(share_captured, fit, target, best)


def tables_of_ratings() -> Iterator[tuple[str, Way]]:
    """Yield clicks and ratings: sparse, of uneven popularity."""
    entry = {"privacy_unit": Entry((0, 1))}
    if data.file_at_hand("movielens_100k.npz"):
        X = data.interactions("movielens_100k")
        for k in (1, 3, 10):
            for name, way in branches(DPTruncatedSVD, X, X, k, (0.5, 1, 4, 16), **entry):
                yield f"MovieLens, entry, k {k}, {name}", way
        for name, way in branches(DPTruncatedSVD, X, X, 3, (1, 4), solver="deflation", **entry):
            yield f"MovieLens, entry, k 3, deflation, {name}", way
        rows = X / np.maximum(np.sqrt(X.sum(axis=1)), 1)[:, None]
        unit = {"privacy_unit": Interaction(degree_floor=5)}
        for name, way in branches(DPTruncatedSVD, X, rows.tocsr(), 10, (1, 3, 10), **unit):
            yield f"MovieLens, interaction, k 10, {name}", way
        unit = {"privacy_unit": SparseRow(100, (0, 1))}
        for name, way in branches(DPTruncatedSVD, X, X, 1, (16, 64, 256), **unit):
            yield f"MovieLens, sparse row, k 1, {name}", way
    X = make_interactions(random_state=0)
    for name, way in branches(DPTruncatedSVD, X, X, 5, (1, 4, 16), **entry):
        yield f"interactions, entry, k 5, {name}", way


def dense_tables() -> Iterator[tuple[str, Way]]:
    """Yield images and measurements, with both classes and adjacencies."""
    X, centered = digits()
    unit = {"privacy_unit": Entry((0, 1))}
    for k in (1, 5):
        for name, way in branches(DPPCA, X, centered, k, (1, 4, 16), **unit):
            yield f"digits, PCA, k {k}, {name}", way
        for name, way in branches(DPTruncatedSVD, X, X, k, (1, 4), **unit):
            yield f"digits, SVD, k {k}, {name}", way
    for title, load, solver in (
        ("breast cancer", load_breast_cancer, "auto"),
        ("wine", load_wine, "alternating"),
    ):
        X = np.clip(StandardScaler().fit_transform(load().data), -3, 3)
        centered = X - X.mean(axis=0)
        for adjacency in ("replace", "zero_out"):
            more = {"privacy_unit": Entry((-3, 3)), "adjacency": adjacency, "solver": solver}
            for name, way in branches(DPPCA, X, centered, 2, (4, 16, 64, 256), **more):
                yield f"{title}, PCA, {adjacency}, k 2, {name}", way
            for name, way in branches(DPTruncatedSVD, X, X, 2, (16,), **more):
                yield f"{title}, SVD, {adjacency}, k 2, {name}", way


def graphs() -> Iterator[tuple[str, Way]]:
    """Yield edges: communities, hubs, and eigenvectors that few nodes carry."""
    edge = {"privacy_unit": Edge((0, 1))}
    X = hub_graph(1000, 10, 0)
    for name, way in branches(DPTruncatedSVD, X, X, 1, (4, 16, 64), **edge):
        yield f"hubs, edge, k 1, {name}", way
    X, labels = make_block_graph(random_state=0)
    for epsilon in (1.0, 2.0, 4.0):
        fit = partial(fitted, DPTruncatedSVD, X, 2, epsilon=epsilon, **edge)
        yield f"block graph, edge, epsilon {epsilon:g}", partial(in_community, fit, labels)
    for coherence in (1.0, 16.0, 128.0):
        X = symmetric(512, 0, c=coherence)
        for epsilon in (0.5, 1.0, 4.0, 16.0):
            yield f"coherence {coherence:g}, edge, k 1, epsilon {epsilon:g}", promised(X, epsilon)


def without_delta() -> Iterator[tuple[str, Way]]:
    """Yield fits with Laplace and spherical noise, whose rows are not shrunk."""
    if data.file_at_hand("movielens_100k.npz"):
        X = data.interactions("movielens_100k")
        for k in (1, 3):
            pure = {"privacy_unit": Entry((0, 1)), "delta": 0.0}
            for name, way in branches(DPTruncatedSVD, X, X, k, (1, 4, 16), **pure):
                yield f"MovieLens, entry, k {k}, delta 0, {name}", way
    for coherence in (None, 1.0, 16.0, 128.0):
        X = symmetric(512, 0, c=coherence)
        for epsilon in (0.5, 1.0, 4.0):
            title = "random vectors" if coherence is None else f"coherence {coherence:g}"
            name = f"{title}, edge, k 1, delta 0, epsilon {epsilon:g}"
            yield name, promised(X, epsilon, delta=0.0)
        name = f"{title}, edge, k 1, delta 0, n_oversamples 1, epsilon 4"
        yield name, promised(X, 4.0, delta=0.0, n_oversamples=1)
    X, labels = make_block_graph(random_state=0)
    for epsilon in (2.0, 4.0, 8.0):
        pure = {"privacy_unit": Edge((0, 1)), "delta": 0.0, "epsilon": epsilon}
        fit = partial(fitted, DPTruncatedSVD, X, 2, **pure)
        yield f"block graph, edge, delta 0, epsilon {epsilon:g}", partial(in_community, fit, labels)


def promised(X: np.ndarray, epsilon: float, **more: Any) -> Way:
    """Return what measures the leading of the eigenvalues 200, 100, 50."""

    def way(seed: int, cut: float | None) -> float:
        fit = Fit("power", epsilon=epsilon, basis_cut=cut, unit=PromisedEdge, **more)
        return captured(X, solve(X, 1, seed, fit).right, 200.0)

    return way


@cache
def cells() -> dict[str, Way]:
    return dict([*tables_of_ratings(), *dense_tables(), *graphs(), *without_delta()])


def measure(seed: int) -> Measured:
    for row, way in cells().items():
        for name, cut in zip(NAMES, CUTS, strict=True):
            yield (row, name), way(seed, cut)


def lines(values: dict[tuple[str, str], np.ndarray]) -> Iterator[list[str]]:
    for row in cells():
        found = [values[row, name] for name in NAMES]
        means = [one.mean() for one in found]
        gain = found[int(np.argmax(means))] - values[row, DEFAULT]
        error = gain.std(ddof=1) / np.sqrt(len(gain))
        yield [row, *(f"{mean:.3f}" for mean in means), f"{gain.mean():.3f}", f"{error:.3f}"]


def main() -> None:
    parser = parser_for(
        __doc__, seeds=f"seeds of each cell, default {SEEDS}", write="replace cut.md"
    )
    arguments = parser.parse_args()
    n_seeds = arguments.seeds or SEEDS
    need_two_seeds(parser, n_seeds)
    ignore_drowned_signal()
    header = ["", *NAMES, "best - 1", "±"]
    text = table(header, lines(measured(measure, n_seeds)))
    print(text)
    if arguments.write:
        (HERE / "cut.md").write_text(TITLE.format(n_seeds) + text + "\n" + FINDINGS)


if __name__ == "__main__":
    main()
