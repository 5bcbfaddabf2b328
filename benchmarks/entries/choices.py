"""What is chosen by public facts where an entry, an edge or an interaction is protected.

Cells are what the released vectors V capture, as |X V| over its largest value, or the square of
that for interactions. Run

    python -m benchmarks.entries.choices          # 2 seeds, some 2 minutes on one core
    python -m benchmarks.entries.choices --write  # choices.md beside it

MovieLens, msweb and Gowalla are looked for in the folder that `SKDP_DATA` names.
"""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.preprocessing import normalize

from benchmarks import data
from benchmarks.entries.methods import (
    DELTA,
    KEY,
    Fit,
    PromisedEdge,
    captured,
    cut_to,
    plain_iteration,
    solve,
    top_triplets,
)
from benchmarks.report import (
    Measured,
    Section,
    Values,
    ignore_drowned_signal,
    measured,
    parser_for,
    section_table,
    titled,
)
from skdp import DPTruncatedSVD
from skdp.datasets import make_interactions, make_low_rank
from skdp.privacy.gaussian_dp import mu_from_epsilon_delta
from skdp.units import Entry, Interaction

SEEDS = 2
TITLE = """\
# What is chosen where entries, edges or interactions are protected

Written by `python -m benchmarks.entries.choices --write`. A cell is what the released vectors V
capture, the norm of X V over its largest value, and the square of that for interactions; the mean
of {} seeds. Delta is 1e-6 but where it is 0.

"""


def tall(name: str, n_items: int) -> csr_array:
    """Return the most used items of a table."""
    R = data.interactions(name)
    popularity = np.asarray(R.sum(axis=0)).ravel()
    return R[:, np.argsort(-popularity, kind="stable")[:n_items]]


RATINGS = [(k, epsilon) for k in (1, 10) for epsilon in (0.5, 4.0)]
COHERENCES = [(c, epsilon) for c in (1, 16, 128) for epsilon in (0.5, 4.0)]
CUTS = {"cut to 1": 1.0, "not cut": None}
VARIANTS = ["auto", *CUTS, "last product alone", "deflation"]


def ratings_row(k: int, epsilon: float) -> str:
    return f"MovieLens, entry, k {k}, epsilon {epsilon:g}"


def coherent_row(coherence: float, epsilon: float) -> str:
    return f"coherence {coherence}, edge, k 1, epsilon {epsilon:g}"


def variants(seed: int) -> Measured:
    X = data.interactions("movielens_100k")
    for k, epsilon in RATINGS:
        best = float(np.linalg.norm(top_triplets(X, k)[1]))

        def of(best: Any = best, k: int = k, epsilon: float = epsilon, **more: Any) -> float:
            svd = DPTruncatedSVD(
                k,
                epsilon=epsilon,
                delta=DELTA,
                privacy_unit=Entry((0, 1)),
                random_state=KEY + seed,
                **more,
            )
            return captured(X, svd.fit(X).components_.T, best)

        row = ratings_row(k, epsilon)
        yield (row, "auto"), of()
        for name, cut in CUTS.items():
            with cut_to(cut):
                yield (row, name), of()
        with plain_iteration():
            yield (row, "last product alone"), of()
        yield (row, "deflation"), of(solver="deflation")
    for coherence, epsilon in COHERENCES:
        row = coherent_row(coherence, epsilon)
        A = coherent(seed, coherence)
        fits = {name: Fit("power", basis_cut=cut) for name, cut in CUTS.items()}
        fits |= {"auto": Fit("power"), "last product alone": Fit("power", plain=True)}
        fits |= {"deflation": Fit("deflation")}
        for name, fit in fits.items():
            yield (row, name), of_edges(A, seed, fit, epsilon)


def coherent(seed: int, coherence: float | None) -> np.ndarray:
    """Return a symmetric matrix with eigenvalues 200, 100, 50."""
    values = (200.0, 100.0, 50.0)
    return make_low_rank(
        512,
        512,
        singular_values=values,
        coherence=coherence,
        symmetric=True,
        random_state=seed,
    )[0]


def of_edges(A: np.ndarray, seed: int, fit: Fit, epsilon: float, **more: Any) -> float:
    asked = Fit(**{**vars(fit), "epsilon": epsilon, "unit": PromisedEdge, **more})
    return captured(A, solve(A, 1, seed, asked).right, 200.0)


PURE = [(c, epsilon) for c in (1, 16, 128) for epsilon in (0.5, 1.0, 4.0)]
PURE_CUTS = {"0.25": 0.25, "1": 1.0, "none": None}


def without_delta(seed: int) -> Measured:
    for coherence, epsilon in PURE:
        A = coherent(seed, coherence)
        for name, cut in PURE_CUTS.items():
            found = of_edges(A, seed, Fit("power", basis_cut=cut), epsilon, delta=0.0)
            yield (coherent_row(coherence, epsilon), name), found


SHAPES = [(shape, k) for shape in ((32, 32), (64, 64), (128, 128), (32, 256)) for k in (1, 3, 5)]
STRENGTHS = (1.5, 3.0)


def shape_row(shape: tuple[int, int], k: int) -> str:
    return f"{shape[0]} × {shape[1]}, k {k}"


def small_shapes(seed: int) -> Measured:
    for shape, k in SHAPES:
        for strength in STRENGTHS:
            scale = strength * np.sqrt(shape).sum() / 2 / mu_from_epsilon_delta(1.0, DELTA)
            values = scale * 0.85 ** np.arange(k)
            X = make_low_rank(*shape, singular_values=values, random_state=seed)[0]
            for solver in ("alternating", "input"):
                right = solve(X, k, seed, Fit(solver)).right
                name = f"{solver}, {strength:g}"
                yield (shape_row(shape, k), name), captured(X, right, float(np.linalg.norm(values)))


TABLES = {
    "msweb": lambda: data.interactions("msweb"),
    "Gowalla, 500 items": lambda: tall("gowalla", 500),
    "made, 4000 × 400": lambda: make_interactions(4000, 400, random_state=5),
}
MOMENTS = [(name, k, epsilon) for name in TABLES for k in (1, 10, 32) for epsilon in (1.0, 10.0)]


def moment_row(name: str, k: int, epsilon: float) -> str:
    return f"{name}, k {k}, epsilon {epsilon:g}"


@cache
def table_of(name: str) -> tuple[csr_array, csr_array]:
    X = csr_array(TABLES[name](), dtype=float)
    X.data[:] = 1.0
    return X, csr_array(normalize(X))


def moments(seed: int) -> Measured:
    for name, k, epsilon in MOMENTS:
        X, rows = table_of(name)
        best = float(np.linalg.norm(top_triplets(rows, k)[1]))
        for solver in ("power", "covariance"):
            svd = DPTruncatedSVD(
                k,
                epsilon=epsilon,
                delta=DELTA,
                privacy_unit=Interaction(),
                solver=solver,
                random_state=KEY + seed,
            )
            found = captured(rows, svd.fit(X).components_.T, best) ** 2
            yield (moment_row(name, k, epsilon), solver), found


SECTIONS = [
    Section(
        "variants",
        "Averages, shrinkage and cuts",
        "Who rated which film, and symmetric 512 × 512 matrices whose entries move by 1. Rows of "
        'a basis are cut first to .25 of their mean square, in "auto"; "last product alone" does '
        "not average products, nor shrink their rows.",
        "",
        [*(ratings_row(*one) for one in RATINGS), *(coherent_row(*one) for one in COHERENCES)],
        VARIANTS,
        variants,
    ),
    Section(
        "without delta",
        "What rows of a basis are cut to, delta 0",
        "The same symmetric matrices. Laplace noise is not shrunk, so that cutting bends coherent "
        "vectors.",
        "",
        [coherent_row(*one) for one in PURE],
        list(PURE_CUTS),
        without_delta,
    ),
    Section(
        "shapes",
        "Small matrices: which solver",
        "Random singular vectors whose values fall by .85; the first is 1.5 or 3 times what noise "
        "on every entry reaches. One entry, epsilon 1.",
        "",
        [shape_row(*one) for one in SHAPES],
        [f"{solver}, {s:g}" for s in STRENGTHS for solver in ("alternating", "input")],
        small_shapes,
    ),
    Section(
        "moments",
        "Interactions: steps, or the whole second moment",
        'Rows divided by the roots of their sums. "auto" takes the moment of n rows and d items '
        "from n mu / d = 3 sqrt(k) times the sensitivity on.",
        "",
        [moment_row(*one) for one in MOMENTS],
        ["power", "covariance"],
        moments,
    ),
]


def section_text(section: Section, values: Values) -> str:
    def cell(key: tuple[str, str]) -> str:
        return f"{values[key].mean():.3f}" if key in values else ""

    return titled(section, section.text, section_table(section, cell))


def main() -> None:
    parser = parser_for(
        __doc__, seeds=f"seeds of each cell, default {SEEDS}", write="replace choices.md"
    )
    arguments = parser.parse_args()
    n_seeds = arguments.seeds or SEEDS
    ignore_drowned_signal()
    blocks = []
    for section in SECTIONS:
        blocks.append(section_text(section, measured(section.measure, n_seeds)))
        print(blocks[-1] + "\n", flush=True)
    if arguments.write:
        text = TITLE.format(n_seeds) + "\n\n".join(blocks) + "\n"
        Path(__file__).with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()
