r"""Whether a fit that found nothing says so, where one entry, edge or interaction is protected.

A fit warns if fewer components stand out from the noise than were asked for. Here that is compared
with what the components capture, on matrices of many kinds, beside the rule that
knows the edge of the noise alone. Run

    python -m benchmarks.entries.warned          # some 3 minutes on one core
    python -m benchmarks.entries.warned --write  # warned.md beside it
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize

from benchmarks.entries.methods import KEY, top_triplets
from benchmarks.report import parser_for, table
from skdp import DPPCA, DPTruncatedSVD, PrivacyWarning, units
from skdp.datasets import make_block_graph, make_low_rank
from skdp.decomposition.entries import solvers as entries_solvers

HERE = Path(__file__).parent
SEEDS = 6
USELESS, GOOD = 0.5, 0.9
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
EMPTY_FITS = 200

TITLE = """\
# Warnings where one entry, edge or interaction is protected

Written by `python -m benchmarks.entries.warned --write`. A fit warns if fewer components stand out
from the noise than were asked for. *Useless* is a fit whose components V capture less than half of
what the best would, as the norm of X V. *Good* is one that misses no component: each singular value
of X V is at least .9 of that of X. "Edge alone" is the rule that compares the products with the
edge of the noise, without the tests of `skdp/decomposition/entries/solvers.py`.

"""

CLICKS = {"privacy_unit": units.Entry(bounds=(0, 1))}
STARS = {"privacy_unit": units.Entry(bounds=(1, 5))}
SIGNED = {"privacy_unit": units.Entry(bounds=(-1, 1))}
EDGES = {"privacy_unit": units.Edge(bounds=(0, 1))}
INTERACTIONS = {"privacy_unit": units.Interaction()}
SPECTRAL = {"privacy_unit": units.SpectralChange()}


def zipf(random: np.random.Generator) -> np.ndarray:
    popularity = 1 / np.arange(1, 801)
    return (random.random((800, 800)) < 0.8 * random.permutation(popularity)).astype(float)


def tastes(random: np.random.Generator) -> np.ndarray:
    """Draw clicks of a mixture of four tastes, each of a fifth of the items."""
    likes = random.random((4, 700)) < 0.2
    mixture = random.dirichlet(np.full(4, 0.3), size=500)
    return (random.random((500, 700)) < 0.02 + 0.3 * mixture @ likes).astype(float)


def stars(random: np.random.Generator) -> np.ndarray:
    """Draw ratings from 1 to 5, of one cell in ten, with two factors."""
    scores = random.normal(size=(600, 2)) @ random.normal(size=(2, 400)) + random.normal(size=400)
    values = np.clip(np.round(3.5 + scores / 2), 1, 5)
    return values * (random.random((600, 400)) < 0.1)


def blocks(random: np.random.Generator) -> np.ndarray:
    """Return signs of rank three on a few rows and columns: coherent vectors."""
    X = np.zeros((512, 384))
    for size in (96, 64, 40):
        rows, columns = random.choice(512, size), random.choice(384, size)
        signs = np.sign(random.normal(size=size)), np.sign(random.normal(size=size))
        X[np.ix_(rows, columns)] = np.outer(*signs)
    return X


def tall(random: np.random.Generator) -> np.ndarray:
    """Return measurements between -1 and 1 that a few waves explain."""
    waves = np.sin(np.outer(random.uniform(1, 9, size=3), np.linspace(0, 3, 60)))
    values = random.normal(size=(2000, 3)) * (0.5, 0.3, 0.2) @ waves
    return np.clip(values + 0.1 * random.normal(size=values.shape), -1, 1)


def small(random: np.random.Generator) -> np.ndarray:
    factors = np.sign(random.normal(size=(40, 2))), np.sign(random.normal(size=(2, 50)))
    return np.clip(factors[0] @ factors[1] / 2 + 0.2 * random.normal(size=(40, 50)), -1, 1)


def heavy_degrees(random: np.random.Generator) -> np.ndarray:
    """Draw a graph whose expected degrees follow a power law."""
    weights = random.pareto(2.5, size=600) + 1
    odds = np.minimum(0.02 * np.outer(weights, weights), 1)
    upper = np.triu(random.random((600, 600)) < odds, 1)
    return (upper + upper.T).astype(float)


def communities(random: np.random.Generator) -> np.ndarray:
    seed = int(random.integers(2**31))
    return make_block_graph(500, n_communities=3, random_state=seed)[0].toarray()


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


def hubs(random: np.random.Generator) -> np.ndarray:
    return hub_graph(700, 8, int(random.integers(2**31))).toarray()


def wholes(random: np.random.Generator) -> np.ndarray:
    """Return a symmetric matrix whose change has a norm of 1."""
    values = 400 * 0.7 ** np.arange(6)
    seed = int(random.integers(2**31))
    return make_low_rank(400, 400, singular_values=values, symmetric=True, random_state=seed)[0]


Family = tuple[Any, Callable[[np.random.Generator], np.ndarray], dict[str, Any]]
FAMILIES: dict[str, Family] = {
    "Zipf, centered": (DPPCA, zipf, CLICKS),
    "Zipf": (DPTruncatedSVD, zipf, CLICKS),
    "tastes": (DPTruncatedSVD, tastes, CLICKS),
    "tastes, centered": (DPPCA, tastes, CLICKS),
    "tastes, deflation": (DPTruncatedSVD, tastes, {**CLICKS, "solver": "deflation"}),
    "tastes, interaction": (DPTruncatedSVD, tastes, INTERACTIONS),
    "tastes, delta 0": (DPTruncatedSVD, tastes, {**CLICKS, "delta": 0.0}),
    "stars": (DPTruncatedSVD, stars, STARS),
    "blocks": (DPTruncatedSVD, blocks, SIGNED),
    "waves": (DPTruncatedSVD, tall, SIGNED),
    "waves, centered": (DPPCA, tall, SIGNED),
    "signs, 40 x 50": (DPTruncatedSVD, small, SIGNED),
    "signs, 40 x 50, input": (DPTruncatedSVD, small, {**SIGNED, "solver": "input"}),
    "heavy degrees": (DPTruncatedSVD, heavy_degrees, EDGES),
    "communities": (DPTruncatedSVD, communities, EDGES),
    "communities, deflation": (DPTruncatedSVD, communities, {**EDGES, "solver": "deflation"}),
    "communities, delta 0": (DPTruncatedSVD, communities, {**EDGES, "delta": 0.0}),
    "hubs": (DPTruncatedSVD, hubs, EDGES),
    "changes of norm 1": (DPTruncatedSVD, wholes, SPECTRAL),
}
EMPTY: dict[str, tuple[tuple[int, int], dict[str, Any]]] = {
    "entry, 200 x 300": ((200, 300), CLICKS),
    "entry, 200 x 300, deflation": ((200, 300), {**CLICKS, "solver": "deflation"}),
    "entry, 200 x 300, delta 0": ((200, 300), {**CLICKS, "delta": 0.0}),
    "entry, 30 x 40, input": ((30, 40), {**CLICKS, "solver": "input"}),
    "edge, 200 x 200": ((200, 200), EDGES),
    "edge, 200 x 200, delta 0": ((200, 200), {**EDGES, "delta": 0.0}),
    "interaction, 200 x 300": ((200, 300), INTERACTIONS),
    "spectral, 200 x 200": ((200, 200), SPECTRAL),
}


def fit(make: Any, X: np.ndarray, k: int, seed: int, **parameters: Any) -> tuple[Any, bool]:
    """Return the fitted estimator, and whether it warns that noise hides components."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = make(k, random_state=KEY + seed, **{"delta": 1e-7, **parameters}).fit(X)
    said = [str(w.message) for w in caught if issubclass(w.category, PrivacyWarning)]
    return fitted, any("stand out from the noise" in text for text in said)


def decomposed(make: Any, X: np.ndarray, parameters: dict[str, Any]) -> np.ndarray:
    if isinstance(parameters["privacy_unit"], units.Interaction):
        return normalize(X)
    return X - X.mean(axis=0) if make is DPPCA else X


@dataclass(frozen=True)
class Outcome:
    """What a fit captures, of all and of the component it misses most, and whether it warns."""

    whole: float
    least: float
    warned: bool
    warned_by_edge: bool

    @property
    def is_useless(self) -> bool:
        return self.whole < USELESS

    @property
    def is_good(self) -> bool:
        return self.least >= GOOD


def edge_alone() -> ExitStack:
    """Leave out what was added to the comparison with the edge of the noise."""
    changes = ExitStack()
    changes.enter_context(
        patch.object(entries_solvers, "count_above", lambda values, **_: len(values))
    )
    for name, change in (
        ("gaussian_norm", lambda shape, scale: scale * np.sqrt(shape).sum()),
        ("are_mostly_signal", lambda values, scale, shape: np.full(len(values), True)),
    ):
        changes.enter_context(patch.object(entries_solvers, name, change))
    return changes


def outcomes(name: str) -> Iterator[Outcome]:
    make, draw, parameters = FAMILIES[name]
    for seed in range(SEEDS):
        X = draw(np.random.default_rng([KEY, seed]))
        target = decomposed(make, X, parameters)
        for k in (1, 3):
            best = top_triplets(target, k)[1]
            for epsilon in EPSILONS:
                settings = {**parameters, "epsilon": epsilon}
                fitted, warned = fit(make, X, k, seed, **settings)
                with edge_alone():
                    warned_by_edge = fit(make, X, k, seed, **settings)[1]
                found = np.linalg.svd(target @ fitted.components_.T, compute_uv=False)
                whole = float(np.linalg.norm(found) / np.linalg.norm(best))
                yield Outcome(whole, float((found / best).min()), warned, warned_by_edge)


def silent_on_nothing(name: str, *, by_edge: bool) -> int:
    """Count the fits to zeros that do not warn."""
    shape, parameters = EMPTY[name]
    with edge_alone() if by_edge else nullcontext():
        return sum(
            not fit(DPTruncatedSVD, np.zeros(shape), 1, seed, epsilon=1.0, **parameters)[1]
            for seed in range(EMPTY_FITS)
        )


def counts(found: list[Outcome]) -> list[int]:
    useless = [outcome for outcome in found if outcome.is_useless]
    good = [outcome for outcome in found if outcome.is_good]
    return [
        len(found),
        len(useless),
        sum(not outcome.warned for outcome in useless),
        sum(not outcome.warned_by_edge for outcome in useless),
        len(good),
        sum(outcome.warned for outcome in good),
        sum(outcome.warned_by_edge for outcome in good),
    ]


def main() -> None:
    parser = parser_for(__doc__, write="replace warned.md")
    arguments = parser.parse_args()

    empty = [
        [name, silent_on_nothing(name, by_edge=False), silent_on_nothing(name, by_edge=True)]
        for name in EMPTY
    ]
    text = TITLE + f"Zeros, one component, epsilon 1: fits of {EMPTY_FITS} that say nothing.\n\n"
    text += table(["", "silent", "... edge alone"], empty) + "\n"
    print(text, flush=True)

    rows, everything = [], []
    for name in FAMILIES:
        found = list(outcomes(name))
        everything += found
        rows.append([name, *counts(found)])
        print(rows[-1], flush=True)
    rows.append(["all", *counts(everything)])
    header = ["", "fits", "useless", "... silent", "... edge alone"]
    header += ["good", "... warned", "... edge alone"]
    epsilons = ", ".join(f"{epsilon:g}" for epsilon in EPSILONS)
    text += f"\nOne and three components, epsilon {epsilons}, {SEEDS} matrices, delta 1e-7.\n\n"
    text += table(header, rows) + "\n"
    print(text)
    if arguments.write:
        (HERE / "warned.md").write_text(text)


if __name__ == "__main__":
    main()
