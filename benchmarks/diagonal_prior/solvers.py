"""What the matrix and the iteration capture of tables of 400 columns and more, and which is taken.

`DPTruncatedSVD` with each solver named, beside the one that `solver="auto"` takes from public
facts. Run

    python -m benchmarks.diagonal_prior.solvers                  # 2 seeds, some 40 minutes
    python -m benchmarks.diagonal_prior.solvers --only tastes    # tables so named
    python -m benchmarks.diagonal_prior.solvers --write          # solvers.md beside it

Real tables are looked for in the folder that the environment variable `SKDP_DATA` names, and left
out without it.
"""

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.diagonal_prior.components import (
    KEY,
    Chosen,
    captured,
    few_strong,
    most_popular,
    rows_of,
)
from benchmarks.report import (
    Measured,
    Values,
    cases_asked_for,
    ignore_drowned_signal,
    measured,
    parser_for,
    seeds_asked_for,
    table,
)
from skdp import DPTruncatedSVD
from skdp.datasets import make_interactions, make_spiked
from skdp.privacy.gaussian_dp import mu_from_epsilon_delta
from skdp.privacy.sensitivity import ADJACENCIES

HERE = Path(__file__).parent
SEEDS = 2
EPSILONS = (0.5, 1.0, 2.0, 4.0)
SOLVERS = ("covariance", "adaptive", "power")
DELTA = 1e-6

TITLE = """\
# The matrix or the iteration

Written by `python -m benchmarks.diagonal_prior.solvers --write`. Sum of squares of the rows along k
components of `DPTruncatedSVD`, over that along the best k: means of {} seeds, delta 1e-6. "Unit"
rows are divided by their norm, and `row_norm=1`; "raw" rows have the default bound. "Strength" is
n mu / d, and "auto" the solver that `solver="auto"` takes.
"""


def tastes(n_people: int, n_items: int, n_tastes: int) -> sparse.csr_array:
    return sparse.csr_array(
        make_interactions(
            n_people,
            n_items,
            n_interactions=30 * n_people,
            popularity=0.6,
            n_tastes=n_tastes,
            random_state=0,
        )
    )


def spiked(n_rows: int, n_features: int) -> np.ndarray:
    return make_spiked(n_rows, n_features, k=5, random_state=0)[0]


TABLES = [
    *(
        Chosen(f"MovieLens, {n}", 10, partial(most_popular, "MovieLens", n))
        for n in (400, 1000, 1682)
    ),
    *(
        Chosen(f"Gowalla, {n}", 10, partial(most_popular, "Gowalla 4000", n))
        for n in (400, 1000, 2000)
    ),
    Chosen("3 tastes, 5000 x 800", 4, partial(tastes, 5000, 800, 3), needs_folder=False),
    Chosen("8 tastes, 2000 x 1500", 9, partial(tastes, 2000, 1500, 8), needs_folder=False),
    Chosen("5 tastes, 40000 x 500", 6, partial(tastes, 40_000, 500, 5), needs_folder=False),
    Chosen("five directions, 10000 x 600", 5, partial(spiked, 10_000, 600), needs_folder=False),
    Chosen("five directions, 30000 x 1000", 5, partial(spiked, 30_000, 1000), needs_folder=False),
    Chosen("ten strong of 400", 3, few_strong, needs_folder=False),
]


def cells_of(chosen: Chosen, seed: int) -> Measured:
    """Measure each solver on each kind of rows at each budget."""
    for kind in ("unit", "raw"):
        X = rows_of(chosen, kind)
        for adjacency, epsilon in itertools.product(ADJACENCIES, EPSILONS):
            svd = DPTruncatedSVD(
                chosen.n_components,
                epsilon=epsilon,
                delta=DELTA,
                adjacency=adjacency,
                row_norm=1.0 if kind == "unit" else None,
                random_state=KEY + seed,
            )
            row = f"{chosen.name}, {kind} rows, {adjacency} {epsilon:g}"
            yield (row, "strength"), X.shape[0] * mu_from_epsilon_delta(epsilon, DELTA) / X.shape[1]
            yield (row, "auto"), float(SOLVERS.index(solver_of(svd, X)))
            for solver in SOLVERS:
                svd.set_params(solver=solver).fit(X)
                yield (row, solver), captured(chosen, kind, svd)


def solver_of(svd: DPTruncatedSVD, X: Any) -> str:
    """Tell what "auto" takes, by what it releases."""
    svd.set_params(solver="auto").fit(X)
    released = {release.name for release in svd.privacy_spent_.releases}
    if "projected second moment" in released:
        return "power"
    return "covariance" if "second moment" in released else "adaptive"


def lines_of(values: Values) -> str:
    lines = []
    for row in dict.fromkeys(row for row, _ in values):
        found = [float(values[row, solver].mean()) for solver in SOLVERS]
        shown = [f"**{value:.3f}**" if value == max(found) else f"{value:.3f}" for value in found]
        taken = SOLVERS[int(values[row, "auto"][0])]
        lines.append([row, f"{values[row, 'strength'][0]:.1f}", *shown, taken])
    return table(["", "strength", *SOLVERS, "auto"], lines)


def regrets(values: Values) -> str:
    """Tabulate how much less than the best solver each choice captures."""
    rows = list(dict.fromkeys(row for row, _ in values))
    found = np.array([[values[row, solver].mean() for solver in SOLVERS] for row in rows])
    taken = np.array([int(values[row, "auto"][0]) for row in rows])
    choices = {"auto": found[np.arange(len(rows)), taken]}
    choices |= {f"always {solver}": found[:, i] for i, solver in enumerate(SOLVERS)}
    lines = []
    for name, of_choice in choices.items():
        regret = found.max(axis=1) - of_choice
        worst = rows[int(np.argmax(regret))]
        lines.append(
            [
                name,
                f"{np.mean(regret):.4f}",
                f"{regret.max():.3f} ({worst})",
                f"{np.sum(regret <= 0.01)} of {len(rows)}",
            ]
        )
    return table(["", "mean regret", "largest", "within .01"], lines)


def main() -> None:
    parser = parser_for(
        __doc__,
        seeds=f"seeds of each cell, default {SEEDS}",
        only="tables with this in their name",
        quick="1 seed",
        write="replace solvers.md",
    )
    arguments = parser.parse_args()
    n_seeds = seeds_asked_for(arguments, usual=SEEDS, quick=1)
    tables = cases_asked_for(parser, arguments, TABLES, n_seeds=n_seeds, usual=SEEDS)
    ignore_drowned_signal()
    values: Values = {}
    for chosen in tables:
        own = measured(partial(cells_of, chosen), n_seeds)
        print(lines_of(own), flush=True)
        values |= own
    print(regrets(values))
    if arguments.write:
        text = "\n\n".join([TITLE.format(n_seeds).rstrip(), regrets(values), lines_of(values)])
        (HERE / "solvers.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
