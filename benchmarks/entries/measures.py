"""What `captured.py` measures; each function yields ((row, column), value) for a seed."""

from functools import cache, partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from benchmarks import data
from benchmarks.entries.methods import (
    DELTA,
    KEY,
    Fit,
    PromisedEdge,
    SmallMatrix,
    WorstEntry,
    captured,
    cut_to,
    noise_on_pairs,
    pair_noise,
    solve,
    top_triplets,
)
from benchmarks.papers.coherence_svd import figure_2, recommended_bound
from benchmarks.report import Measured
from skdp import DPPCA, DPTruncatedSVD, units
from skdp.datasets import make_block_graph, make_interactions, make_low_rank
from skdp.linalg.spectrum import coherence, orthonormal_basis, principal_sines
from skdp.privacy.gaussian_dp import mu_from_epsilon_delta
from skdp.units import ResolvedSpectralChange

VALUES = (200.0, 100.0, 50.0)
SHORT_TAIL = tuple(40 * 0.9**i for i in range(20))


EDGE = partial(Fit, "power", unit=PromisedEdge)
EDGE_FITS = {
    "power": EDGE(),
    "... basis_cut=2": EDGE(basis_cut=2.0),
    "... basis_cut=None": EDGE(basis_cut=None),
    "deflation": Fit("deflation", unit=PromisedEdge),
    "alternating": Fit("alternating", unit=PromisedEdge),
    "plain, basis_cut=4": EDGE(basis_cut=4.0, plain=True),
    "plain, basis_cut=None": EDGE(basis_cut=None, plain=True),
    "worst": Fit("power", unit=ResolvedSpectralChange, basis_cut=None, plain=True),
}
DIAGNOSTIC = "coherence_right_"


def symmetric(n: int, seed: int, values: tuple[float, ...] = VALUES, c: float | None = None) -> Any:
    return make_low_rank(
        n, n, singular_values=values, coherence=c, symmetric=True, random_state=seed
    )[0]


def edge_cells(
    row: str, X: np.ndarray, seed: int, names: list[str], best: float, **change: Any
) -> Measured:
    """Measure the leading eigenvector of a symmetric matrix, one column a name."""
    for name in names:
        fit = Fit(**{**vars(EDGE_FITS[name]), **change})
        right = solve(X, 1, seed, fit).right
        yield (row, name), captured(X, right, best)
        if name == "power":
            yield (row, DIAGNOSTIC), coherence(right)
    right = noise_on_pairs(X, 1, seed, change.get("epsilon", 1.0)).right
    yield (row, "input"), captured(X, right, best)


SIZES = (256, 512, 1024, 2048, 4096)
SIZE_NAMES = [
    "power",
    "... basis_cut=2",
    "... basis_cut=None",
    "plain, basis_cut=4",
    "plain, basis_cut=None",
    "worst",
]


def dimension(seed: int, quick: bool) -> Measured:
    for n in SIZES:
        if n > 1024 and quick:
            return
        yield from edge_cells(str(n), symmetric(n, seed), seed, SIZE_NAMES, VALUES[0])


COHERENCES = {"random vectors": None, "1": 1, "4": 4, "16": 16, "64": 64, "256": 256}


def coherences(seed: int, quick: bool) -> Measured:
    names = [name for name in EDGE_FITS if name != "worst"]
    for row, value in COHERENCES.items():
        yield from edge_cells(row, symmetric(1024, seed, c=value), seed, names, VALUES[0])


EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)


def epsilons(seed: int, quick: bool) -> Measured:
    X = symmetric(1024, seed)
    for epsilon in EPSILONS:
        row = f"{epsilon:g}"
        yield from edge_cells(row, X, seed, SIZE_NAMES, VALUES[0], epsilon=epsilon)


RANK_5 = {
    "400, 300, 240, 200, 160": (400.0, 300.0, 240.0, 200.0, 160.0, *SHORT_TAIL),
    "400, -300, 240, -200, 160": (400.0, -300.0, 240.0, -200.0, 160.0, *SHORT_TAIL),
}
RANK_5_NAMES = ["power", "... basis_cut=2", "deflation", "alternating", "plain, basis_cut=None"]


def rank_5(seed: int, quick: bool) -> Measured:
    for row, values in RANK_5.items():
        X = symmetric(1024, seed, values)
        for name in RANK_5_NAMES:
            fit = Fit(**{**vars(EDGE_FITS[name]), "epsilon": 2.0})
            found = solve(X, 5, seed, fit)
            yield (row, name), spectral_error(X, found.left, found.singular_values, found.right)
        noisy = X + pair_noise(len(X), seed, 2.0)
        yield (row, "input"), spectral_error(X, *top_triplets(noisy, 5))


def spectral_error(X: Any, left: np.ndarray, values: np.ndarray, right: np.ndarray) -> float:
    return float(top_triplets(X - (left * values) @ right.T, 1)[1][0])


def fitted(
    make: Any,
    X: Any,
    k: int,
    seed: int,
    basis_cut: float | str | None = "default",
    **parameters: Any,
) -> np.ndarray:
    """Return a basis of what an estimator finds."""
    with cut_to(basis_cut):
        components = make(k, random_state=KEY + seed, **parameters).fit(X).components_
    return orthonormal_basis(components.T.astype(np.float64))


ENTRY_FITS: dict[str, dict[str, Any]] = {
    "default": {},
    "basis_cut=2": {"basis_cut": 2.0},
    "basis_cut=None": {"basis_cut": None},
    "deflation": {"solver": "deflation"},
    "input": {"solver": "input"},
}
EPSILONS_OF_RATINGS = [0.5, 1.0, 2.0, 4.0, 8.0]
RANKS_OF_RATINGS = [1, 3, 10]
RATINGS = [(k, e) for k in RANKS_OF_RATINGS for e in EPSILONS_OF_RATINGS]


def ratings(seed: int, quick: bool) -> Measured:
    X = data.interactions("movielens_100k")
    entry = {"privacy_unit": units.Entry(bounds=(0, 1))}
    best = {k: np.linalg.norm(top_triplets(X, k)[1]) for k in RANKS_OF_RATINGS}
    for k, epsilon in RATINGS:
        row = f"k {k}, epsilon {epsilon:g}"
        for name, setting in ENTRY_FITS.items():
            basis = fitted(DPTruncatedSVD, X, k, seed, epsilon=epsilon, **entry, **setting)
            yield (row, name), captured(X, basis, best[k])
        if k == 1:
            yield (row, "figure 2"), by_figure_2(X, epsilon, seed, best[1])
        for name, cut, unit in (("plain, basis_cut=4", 4.0, None), ("worst", None, WorstEntry)):
            fit = Fit("alternating", epsilon=epsilon, basis_cut=cut, unit=unit, plain=True)
            yield (row, name), captured(X, solve(X, k, seed, fit).right, best[k])


def by_figure_2(X: Any, epsilon: float, seed: int, best: float) -> float:
    """Run the published listing on the dilation; 0 where its answer is "fail"."""
    B = sparse.csr_array(sparse.block_array([[None, X], [X.T, None]]))
    left, _, right = top_triplets(X, 1)
    bound = recommended_bound(np.vstack([left, right]) / np.sqrt(2))
    random = np.random.default_rng([KEY, seed])
    x = figure_2(B, epsilon / 2, DELTA / 2, bound, random)
    if x is None:
        return 0.0
    right = x[len(left) :, None]
    return captured(X, right / np.linalg.norm(right), best)


@cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    X = load_digits().data / 16
    return X, X - X.mean(axis=0)


def centered_digits(seed: int, quick: bool) -> Measured:
    X, centered = digits()
    for k, epsilon in ((1, 1.0), (1, 4.0), (3, 4.0)):
        row = f"k {k}, epsilon {epsilon:g}"
        best = np.linalg.norm(top_triplets(centered, k)[1])
        settings = {"privacy_unit": units.Entry(bounds=(0, 1)), "epsilon": epsilon}
        for name, setting in ENTRY_FITS.items():
            basis = fitted(DPPCA, X, k, seed, **settings, **setting)
            yield (row, name), captured(centered, basis, best)


def communities(seed: int, quick: bool) -> Measured:
    X, labels = make_block_graph(random_state=seed)
    for epsilon in (1.0, 2.0, 4.0):
        row = f"{epsilon:g}"
        settings = {"privacy_unit": units.Edge(bounds=(0, 1)), "epsilon": epsilon}
        for name in ("default", "basis_cut=2", "basis_cut=None", "deflation"):
            basis = fitted(DPTruncatedSVD, X, 2, seed, **settings, **ENTRY_FITS[name])
            yield (row, name), agreement(basis[:, 1], labels)
        right = noise_on_pairs(X.toarray(), 2, seed, epsilon).right
        yield (row, "input"), agreement(right[:, 1], labels)


def agreement(vector: np.ndarray, labels: np.ndarray) -> float:
    agree = float(np.mean((vector > 0) == labels))
    return max(agree, 1 - agree)


def hub_graph(n: int, degree: int, seed: int) -> sparse.csr_array:
    """Grow a graph in which new nodes prefer those of many edges (Barabasi and Albert, 1999)."""
    random = np.random.default_rng(seed)
    ends = list(range(degree))
    edges = []
    for node in range(degree, n):
        partners: set[int] = set()
        while len(partners) < degree:
            partners.add(int(ends[random.integers(len(ends))]))
        edges += [(node, partner) for partner in partners]
        ends += [*partners, *[node] * degree]
    rows, columns = np.array(edges).T
    upper = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))
    return sparse.csr_array(upper + upper.T)


def hubs(seed: int, quick: bool) -> Measured:
    X = hub_graph(1000, 10, seed)
    best = top_triplets(X, 1)[1][0]
    for epsilon in (4.0, 16.0):
        row = f"{epsilon:g}"
        settings = {"privacy_unit": units.Edge(bounds=(0, 1)), "epsilon": epsilon}
        for name in ("default", "basis_cut=2", "basis_cut=None"):
            basis = fitted(DPTruncatedSVD, X, 1, seed, **settings, **ENTRY_FITS[name])
            yield (row, name), captured(X, basis, best)
        right = noise_on_pairs(X.toarray(), 1, seed, epsilon).right
        yield (row, "input"), captured(X, right, best)


def popular(seed: int, quick: bool) -> Measured:
    X = make_interactions(random_state=seed)
    for k, epsilon in ((1, 1.0), (5, 1.0), (5, 4.0)):
        row = f"k {k}, epsilon {epsilon:g}"
        best = np.linalg.norm(top_triplets(X, k)[1])
        settings = {"privacy_unit": units.Entry(bounds=(0, 1)), "epsilon": epsilon}
        for name, setting in ENTRY_FITS.items():
            basis = fitted(DPTruncatedSVD, X, k, seed, **settings, **setting)
            yield (row, name), captured(X, basis, best)


def pure(seed: int, quick: bool) -> Measured:
    X = symmetric(1024, seed)
    fits = {
        "delta 0": EDGE(delta=0.0),
        "delta 0, basis_cut=4": EDGE(delta=0.0, basis_cut=4.0),
        "delta 0, plain, basis_cut=4": EDGE(delta=0.0, basis_cut=4.0, plain=True),
        "delta 1e-6": EDGE(),
    }
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        for name, fit in fits.items():
            right = solve(X, 1, seed, Fit(**{**vars(fit), "epsilon": epsilon})).right
            yield (f"{epsilon:g}", name), captured(X, right, VALUES[0])


SPECTRA = {
    "random, gap": (None, np.r_[np.linspace(1, 0.6, 10), 0.1 * 0.99 ** np.arange(490)]),
    "random, 1 / i": (None, 1 / np.arange(1, 501)),
    "random, i^-1/2": (None, np.arange(1, 501) ** -0.5),
    "coherence 200, gap": (200, np.r_[np.linspace(1, 0.6, 10), 0.1 * 0.99 ** np.arange(190)]),
}


SMALL_MATRIX_EPSILONS = (0.1, 1.0, 10.0)


def small_matrices(seed: int, quick: bool) -> Measured:
    for name, (value, spectrum) in SPECTRA.items():
        X, _, components = make_low_rank(
            1000,
            1000,
            singular_values=5000 * spectrum,
            coherence=value,
            symmetric=True,
            random_state=seed,
        )
        for epsilon in SMALL_MATRIX_EPSILONS:
            row = f"{name}, epsilon {epsilon:g}"
            fit = partial(Fit, "power", unit=SmallMatrix, epsilon=epsilon)
            fits = {
                "power, small matrix": fit(),
                "... 3 steps, no more columns": fit(n_iter=3, n_oversamples=0),
                "... and plain": fit(n_iter=3, n_oversamples=0, basis_cut=None, plain=True),
                "... 20 columns": fit(n_oversamples=10),
                "power, edge": fit(unit=PromisedEdge),
            }
            for column, setting in fits.items():
                yield (row, column), angle(solve(X, 10, seed, setting).right, components)
            # A symmetric matrix whose Frobenius norm is at most 1.
            noisy = X + pair_noise(len(X), seed, epsilon) / np.sqrt(2)
            yield (row, "whole matrix"), angle(top_triplets(noisy, 10)[2], components)


def angle(right: np.ndarray, components: np.ndarray) -> float:
    return float(principal_sines(orthonormal_basis(right), components[:10].T).max())


INTERACTION_FITS: dict[str, dict[str, Any]] = {
    "row": {"row_norm": 1.0, "adjacency": "zero_out"},
    **{
        f"interaction, floor {floor}": {"privacy_unit": units.Interaction(degree_floor=floor)}
        for floor in (1, 5, 20)
    },
    "... floor 5, basis_cut=2": {
        "privacy_unit": units.Interaction(degree_floor=5),
        "basis_cut": 2.0,
    },
}


def interactions(name: str, seed: int, quick: bool) -> Measured:
    X = data.interactions(name)
    rows = sparse.csr_array(normalize(X))
    best = np.linalg.norm(top_triplets(rows, 10)[1])
    for epsilon in (0.3, 1.0, 3.0):
        row = f"{epsilon:g}"
        for name, setting in INTERACTION_FITS.items():
            given = rows if name == "row" else X
            basis = fitted(DPTruncatedSVD, given, 10, seed, epsilon=epsilon, **setting)
            yield (row, name), captured(rows, basis, best) ** 2


SMALL_SHAPES = [
    (shape, k)
    for shape in ((32, 32), (64, 64), (128, 128), (32, 256), (32, 1500), (64, 512))
    for k in (1, 3, 5)
]


def small_shapes(seed: int, quick: bool) -> Measured:
    for shape, k in SMALL_SHAPES:
        row = f"{shape[0]} × {shape[1]}, k {k}"
        for strength in (1.5, 3.0):
            scale = strength * np.sqrt(shape).sum() / 2 / mu_from_epsilon_delta(1.0, DELTA)
            values = scale * 0.85 ** np.arange(k)
            X = make_low_rank(*shape, singular_values=values, random_state=seed)[0]
            for solver in ("alternating", "input"):
                right = solve(X, k, seed, Fit(solver)).right
                yield (row, f"{solver}, {strength:g}"), captured(X, right, np.linalg.norm(values))
