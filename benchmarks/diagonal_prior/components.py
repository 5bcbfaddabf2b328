"""What components capture with the released diagonal as a prior, and with lower private bounds.

`DPTruncatedSVD` and `DPPCA` with whole rows as units, as they are, and with `feature_penalty` off;
with bounds given, and found privately. Run

    python -m benchmarks.diagonal_prior.components                # 4 seeds, some 6 minutes
    python -m benchmarks.diagonal_prior.components --only digits  # tables so named
    python -m benchmarks.diagonal_prior.components --write        # components.md beside it

All tables but the digits and the made-up ones are looked for in the folder that the environment
variable `SKDP_DATA` names, and left out without it.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import row_norms

from benchmarks.data import file_at_hand
from benchmarks.guided.tables import TABLES as PEOPLE
from benchmarks.pca.tables import TABLES as SCALED
from benchmarks.report import (
    Measured,
    Values,
    cases_asked_for,
    ignore_drowned_signal,
    measured,
    need_two_seeds,
    parser_for,
    seeds_asked_for,
    standard_error,
    table,
)
from skdp import DPPCA, DPTruncatedSVD
from skdp.decomposition.rows import moments as rows_moments
from skdp.decomposition.rows import plan as rows_plan
from skdp.decomposition.rows.moments import feature_penalty
from skdp.privacy.sensitivity import ADJACENCIES

HERE = Path(__file__).parent
SEEDS = 4
EPSILONS = (0.5, 1.0)
N_POPULAR = 400
# Printed here, hence good for repeatable tables and for nothing else.
KEY = 0x6B40E2F917C84D53A1D89E30F57B2C46

TITLE = """\
# Components: the released diagonal as a prior

Written by `python -m benchmarks.diagonal_prior.components --write`. Sum of squares of the raw rows
along k private components, over that along the best k (`DPPCA`: of centered rows): without the
prior, and the change with it ± its standard error. Means of {} seeds, delta 1e-6, `solver="auto"`.
"""
GIVEN = """\
## Given bounds

"Raw" rows are clipped at the median of their norms, of centered ones for `DPPCA`; "unit" rows are
divided by their norm. Both fits have the same noise.
"""


PRIVATE = """\
## Private bounds

Raw rows, bounds of None. Before, the quantile of the norms was never below the median; the prior is
on in both.
"""
FINDINGS = """\
## What the tables say

The prior gains where noise is strong and features hold unlike amounts: most for centered rows of
questionnaires and digits, and where few of many features hold all. "adaptive", which averages its
matrices at so little budget, gains what "covariance" does. Where noise is little it changes
nothing, and for rows that are all alike, such as the shares of the crime table, it neither gains
nor loses. Lower private bounds gain more, above all for centered rows. Sparse tables of 400 columns
take an iteration by "auto", which has no such matrix: there the two solvers are named.
"""


@dataclass(frozen=True)
class Chosen:
    """A table, and the number of components that are sought."""

    name: str
    n_components: int
    load: Callable[[], Any]
    needs_folder: bool = True


def _crime() -> np.ndarray:
    X = np.load(file_at_hand("communities_crime.npz"))["X"][:, :-1].astype(np.float64)
    # Without the numbers of states, counties and places, all is between 0 and 1.
    return X[:, X.max(axis=0) <= 1]


def most_popular(name: str, n_items: int = N_POPULAR) -> Any:
    """Keep the columns of a table of people and items that have the most entries."""
    X = sparse.csc_array(next(one for one in PEOPLE if one.name == name).load())
    order = np.argsort(-np.diff(X.indptr), kind="stable")[:n_items]
    return sparse.csr_array(X[:, np.sort(order)])


def few_strong() -> np.ndarray:
    """Three directions within ten of the features; the others hold next to nothing."""
    random = np.random.default_rng(0)
    X = 0.005 * random.normal(size=(3000, N_POPULAR))
    directions = np.linalg.qr(random.normal(size=(10, 3)))[0].T
    X[:, :10] += random.normal(size=(3000, 3)) @ directions
    return X


def _scaled(name: str) -> Callable[[], Any]:
    return next(one for one in SCALED if one.name == name).make


TABLES = [
    Chosen("digits", 5, lambda: load_digits().data, needs_folder=False),
    Chosen("coil2000", 11, _scaled("coil2000")),
    Chosen("crime", 5, _crime),
    Chosen("adult", 4, _scaled("adult")),
    Chosen("msweb", 10, _scaled("msweb")),
    Chosen("MovieLens, 400 columns", 10, partial(most_popular, "MovieLens")),
    Chosen("Gowalla, 400 columns", 10, partial(most_popular, "Gowalla 1000")),
    Chosen("ten strong of 400", 3, few_strong, needs_folder=False),
]


def without_penalty(diagonal: np.ndarray, *_: object) -> np.ndarray:
    """Subtract nothing."""
    return np.zeros(len(diagonal))


@cache
def rows_of(chosen: Chosen, kind: str) -> Any:
    X = chosen.load()
    return normalize(X) if kind == "unit" else X


def _centered(X: Any) -> np.ndarray:
    X = X.toarray() if sparse.issparse(X) else X
    return X - X.mean(axis=0)


@cache
def moment_of(chosen: Chosen, kind: str, is_pca: bool) -> np.ndarray:
    X = rows_of(chosen, kind)
    X = _centered(X) if is_pca else X
    moment = X.T @ X
    return moment.toarray() if sparse.issparse(moment) else moment


@cache
def median_norm(chosen: Chosen, kind: str, is_pca: bool) -> float:
    X = rows_of(chosen, kind)
    return float(np.median(row_norms(_centered(X) if is_pca else X)))


def captured(chosen: Chosen, kind: str, estimator: Any) -> float:
    moment = moment_of(chosen, kind, isinstance(estimator, DPPCA))
    components = estimator.components_
    best = np.linalg.eigvalsh(moment)[-len(components) :].sum()
    return float(np.sum((components @ moment) * components) / best)


def with_bounds(chosen: Chosen, kind: str, estimator: Any) -> dict[str, float]:
    """Return bounds that clip at the median, or not at all if all rows have the norm 1."""
    if kind == "unit":
        return {"row_norm": 1.0}
    if isinstance(estimator, DPPCA):
        norms = [median_norm(chosen, kind, is_pca) for is_pca in (True, False)]
        return dict(zip(("row_norm", "mean_norm"), norms, strict=True))
    return {"row_norm": median_norm(chosen, kind, False)}


def cases_of(chosen: Chosen) -> Iterator[tuple[str, str, Any]]:
    """Tell label, rows, and an estimator without bounds or a budget; sparse rows stay sparse."""
    k = chosen.n_components
    is_sparse = sparse.issparse(rows_of(chosen, "raw"))
    # There "auto" iterates at little budget, which has no matrix.
    solvers = ["auto"] if chosen.load().shape[1] < N_POPULAR else ["covariance", "adaptive"]
    for solver in solvers:
        for kind in ("unit", "raw"):
            yield f"{kind} rows, SVD, {solver}", kind, DPTruncatedSVD(k, solver=solver)
        if not is_sparse:
            yield f"raw rows, PCA, {solver}", "raw", DPPCA(k, solver=solver)


def given(chosen: Chosen, seed: int) -> Measured:
    """Measure both ways at given bounds."""
    for label, kind, estimator in cases_of(chosen):
        X = rows_of(chosen, kind)
        estimator.set_params(random_state=KEY + seed, **with_bounds(chosen, kind, estimator))
        for adjacency, epsilon in itertools.product(ADJACENCIES, EPSILONS):
            estimator.set_params(adjacency=adjacency, epsilon=epsilon)
            for way, penalty in (("off", without_penalty), ("on", feature_penalty)):
                with patch.object(rows_moments, "feature_penalty", penalty):
                    estimator.fit(X)
                key = f"{chosen.name}, {label}", f"{adjacency} {epsilon:g} {way}"
                yield key, captured(chosen, kind, estimator)


def found(chosen: Chosen, seed: int) -> Measured:
    """Measure both ways with private bounds."""
    # From the median at a signal of 50.
    before = {"_LOWEST_QUANTILE": 0.5, "_WEAK_AND_STRONG": (50.0, 50.0 + 1e-9)}
    now = {name: getattr(rows_plan, name) for name in before}
    for label, kind, estimator in cases_of(chosen):
        if kind == "unit":
            continue
        estimator.set_params(random_state=KEY + seed)
        for adjacency, epsilon in itertools.product(ADJACENCIES, EPSILONS):
            estimator.set_params(adjacency=adjacency, epsilon=epsilon)
            for way, numbers in (("off", before), ("on", now)):
                with patch.multiple(rows_plan, **numbers):
                    estimator.fit(rows_of(chosen, kind))
                key = f"{chosen.name}, {label}", f"{adjacency} {epsilon:g} {way}"
                yield key, captured(chosen, kind, estimator)


def changes(values: Values) -> str:
    """Tabulate what is captured without, and the change, by rows and budgets."""
    budgets = [f"{adjacency} {epsilon:g}" for adjacency in ADJACENCIES for epsilon in EPSILONS]
    lines = []
    for row in dict.fromkeys(row for row, _ in values):
        cells = []
        for budget in budgets:
            off, on = values[row, f"{budget} off"], values[row, f"{budget} on"]
            change = on - off
            cells.append(f"{off.mean():.3f} {change.mean():+.4f} ± {standard_error(change):.4f}")
        lines.append([row, *cells])
    return table(["", *budgets], lines)


def worst(values: Values) -> str:
    """Tell the cell that loses most."""
    losses = {
        (row, column): on - values[row, column.replace(" on", " off")]
        for (row, column), on in values.items()
        if column.endswith(" on")
    }
    (row, column), change = min(losses.items(), key=lambda item: item[1].mean())
    budget = column.removesuffix(" on")
    return (
        f"Worst of {len(losses)}: {change.mean():+.4f} ± {standard_error(change):.4f} "
        f"({row}, {budget})."
    )


def part(title: str, measure: Any, tables: list[Chosen], n_seeds: int) -> str:
    values: Values = {}
    for chosen in tables:
        own = measured(partial(measure, chosen), n_seeds)
        print(changes(own), flush=True)
        values |= own
    print(worst(values), flush=True)
    return "\n\n".join([title.rstrip(), changes(values), worst(values)])


def main() -> None:
    parser = parser_for(
        __doc__,
        seeds=f"seeds of each cell, default {SEEDS}",
        only="tables with this in their name",
        quick="2 seeds",
        write="replace components.md",
    )
    arguments = parser.parse_args()
    n_seeds = seeds_asked_for(arguments, usual=SEEDS, quick=2)
    need_two_seeds(parser, n_seeds)
    tables = cases_asked_for(parser, arguments, TABLES, n_seeds=n_seeds, usual=SEEDS)
    ignore_drowned_signal()

    parts = [
        TITLE.format(n_seeds).rstrip(),
        part(GIVEN, given, tables, n_seeds),
        part(PRIVATE, found, tables, n_seeds),
        FINDINGS.rstrip(),
    ]
    if arguments.write:
        (HERE / "components.md").write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
