r"""Components in the local model: every person adds all of the noise, and nobody is believed.

A federation with ``aggregator="none"`` and one release, of which each person is an owner: a person
clips its row and hands in the outer product of it with noise that protects it alone. Beside it
"noisy rows": a person hands in the row itself with noise. Run

    python -m benchmarks.federated.local_model                  # 10 runs, some minutes
    python -m benchmarks.federated.local_model --quick          # 2 runs
    python -m benchmarks.federated.local_model --only digits    # data so named
    python -m benchmarks.federated.local_model --write          # local_model.md beside it

MovieLens, Gowalla and the web log are looked for in the folder that the environment variable
`SKDP_DATA` names, and left out without it.

Nobody runs 200,000 owners here. The solver sees the sum of what all hand in, and nothing else:

.. math:: \sum_i (x_i x_i^T + \tau E_i) = \sum_i x_i x_i^T + \sqrt n \, \tau E,

with symmetric Gaussian matrices E. The sum of n independent Gaussians of one law is one Gaussian,
with the square root of n times their standard deviation. So one draw has exactly the law of all n.
The `noise_factor` of the federation is that square root; its plan has :math:`\tau`. The last table
runs the federation itself, with all its messages, for a few people, and has both beside each other.
One thing is left out: a federation rounds its noisy parts to a lattice, far finer than the noise.
The noise here is numpy's: it is not for private rows.

For noisy rows the sum of the outer products is no sum of Gaussians. There each row has its noise,
a block of rows at a time.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import row_norms
from threadpoolctl import threadpool_limits

from benchmarks.guided.tables import TABLES, Table, best_sums, held
from benchmarks.report import (
    Measured,
    cases_asked_for,
    ignore_drowned_signal,
    measured,
    need_two_seeds,
    parser_for,
    seeds_asked_for,
    table,
)
from skdp import DPPCA
from skdp.datasets import make_spiked
from skdp.decomposition.rows.moments import decompose
from skdp.federated import Federation

HERE = Path(__file__).parent
RUNS = 10
EPSILONS = (1.0, 4.0)
DELTA = 1e-6
BLOCK = 4096
PRODUCTS, ROWS = "noisy outer products", "noisy rows"
WAYS = ["all rows", PRODUCTS, ROWS]
BY_NAME = {one.name: one for one in TABLES}
# Of the check: people, features, components, epsilon, fits, draws.
PEOPLE, FEATURES, K_OF_CHECK, EPSILON_OF_CHECK = 30, 5, 2, 15.0
N_FITS, N_DRAWS = 200, 4000

TITLE = """\
# The local model

Written by `python -m benchmarks.federated.local_model --write`. Sum of squares along the private
components over that along the best: mean ± standard deviation of {} runs. Unit: one row, which is
all that a person has. Adjacency "replace", delta 1e-6. The center is 0, so that there is one
release, and `row_norm` is known: the median norm, or 1. The mean of the centered digits is taken
off as if it were public, which is not private; nor are medians.

"All rows" is one fit by somebody whom all believe. In both other columns nobody is believed: each
person adds noise that protects it from everybody. "Noisy outer products" is the federation with
`aggregator="none"`: the sum of n people has noise sqrt(n) times that of one fit to all rows. "Noisy
rows" is the simplest other way: each person tells its clipped row with Gaussian noise, and the
components are those of all noisy rows. Its noise is for two rows that are 2 `row_norm` apart.

"Chance" is what random directions capture. "People needed" is d / (mu r)², with d features, the mu
of epsilon 1, and r the mean square of clipped rows along the last of the components, over
`row_norm`². With fewer people, that component does not leave the bulk of the noise.
"""
WORKS = """\
## Where it works

Gaussian rows near three directions, with noise of their own (`skdp.datasets.make_spiked`)."""
USELESS = """\
## Where it is useless

Digits, and tables of people and items."""
CHECK = """\
## The federation itself

The tables above draw the noise of all people at once. Here {people} people, with {features}
features each, run the federation itself, with all its messages, at epsilon {epsilon:g}. Its
`noise_factor` is {factor:.4f}, and sqrt({people}) is {root:.4f}. What {k} components capture, mean
± standard error:"""
FINDINGS = """\
## What the tables say

200,000 people are enough for three directions. At epsilon 1 they capture .96 in 20 features and .84
in 50, at epsilon 4 .997 and .987. A bound that clips hardly any row, 1, costs: .85 and .59 at
epsilon 1. The median norm is better throughout. With 20,000 people .69 is left in 20 features at
epsilon 1. One fit to all rows captures all that there is with any of these numbers of people: to
trust nobody costs sqrt(n) times the noise.

Noisy outer products are better than noisy rows wherever either finds anything. With s the noise of
a row, a noisy row has an outer product with noise of the size s², which grows with 1 / mu². The
noise of an outer product grows with 1 / mu. At epsilon 1 noisy rows are near to chance; at epsilon
4 they find .93 in 20 features, and .71 in 50. What speaks for them is that a person sends d numbers
and not d (d + 1) / 2.

The local model is useless where people are few beside the features. Digits capture some .25 at
epsilon 1, of three components or five; of the centered digits chance is left. At epsilon 4 the mean
of the digits is found, which is their first component, and of the centered ones little. Tables of
items need millions of people at epsilon 1. MovieLens, which has 943, captures .004, and Gowalla's
1000 places .03: that is chance. The web log shows its first component at epsilon 4, and next to
nothing at epsilon 1. At epsilon 4 twelve times fewer people are needed, which saves none of the
other tables.
"""


@dataclass(frozen=True)
class Case:
    """Rows, how many components are asked for, and the bound of their norm."""

    data: Table
    k: int = 3
    row_norm: float | None = None

    @property
    def name(self) -> str:
        return self.data.name

    @property
    def needs_folder(self) -> bool:
        return self.data.needs_folder

    @property
    def bound(self) -> float:
        return self.row_norm or self.data.median_norm

    @cached_property
    def clipped(self) -> Any:
        X = self.data.load()
        factors = np.minimum(1.0, self.bound / np.maximum(row_norms(X), 1e-300))
        if sparse.issparse(X):
            return sparse.csr_array(sparse.diags_array(factors) @ X)
        return X * factors[:, np.newaxis]

    @cached_property
    def moment(self) -> np.ndarray:
        """Sum of the outer products of clipped rows."""
        gram = self.clipped.T @ self.clipped
        return gram.toarray() if sparse.issparse(gram) else gram

    @cached_property
    def chance(self) -> float:
        """Return what random directions capture, in the mean."""
        X = self.data.load()
        return self.k * row_norms(X, squared=True).sum() / X.shape[1] / self.best

    @property
    def best(self) -> float:
        return float(best_sums(self.data)[self.k - 1])

    @cached_property
    def needed(self) -> float:
        """Number of people from which on the last component leaves the bulk, at epsilon 1."""
        n_rows, n_features = self.clipped.shape
        last = np.linalg.eigvalsh(self.moment)[-self.k]
        part = last / n_rows / self.bound**2
        return n_features / (mu_of(federation_of(self, 1.0), self.bound) * part) ** 2


@cache
def _spiked(n_people: int, n_features: int) -> np.ndarray:
    return make_spiked(n_people, n_features, k=3, random_state=0)[0]


def people(n_people: int, n_features: int) -> Table:
    name = f"{n_people:,} people, {n_features} features"
    return Table(name, lambda: _spiked(n_people, n_features), needs_folder=False)


SPIKED = [people(200_000, 20), people(200_000, 50), people(20_000, 20)]
WORKING = [Case(data, row_norm=bound) for data in SPIKED for bound in (None, 1.0)]
OTHERS = [
    *(Case(BY_NAME[name], k) for name in ("Digits", "Digits, centered") for k in (3, 5)),
    Case(BY_NAME["MovieLens"]),
    Case(BY_NAME["Gowalla 1000"]),
    Case(BY_NAME["Web log"]),
]


def pca(k: int, epsilon: float, bound: float, n_features: int) -> DPPCA:
    """Ask for one release: nothing but the second moment around 0."""
    return DPPCA(
        k,
        epsilon=epsilon,
        delta=DELTA,
        row_norm=bound,
        center=np.zeros(n_features),
        solver="covariance",
    )


def federation_of(case: Case, epsilon: float) -> Federation:
    """Agree on a fit of which every person is an owner."""
    n_people, n_features = case.data.load().shape
    estimator = pca(case.k, epsilon, case.bound, n_features)
    return local(estimator, n_people, n_features)


def local(estimator: DPPCA, n_people: int, n_features: int) -> Federation:
    return Federation(
        estimator, n_people, n_features, owners=n_people, aggregator="none", unit="row"
    )


def std_of(federation: Federation) -> float:
    """Return the noise that protects one person."""
    (release,) = federation.plan.releases
    return float(release.noise_std or 0.0)


def mu_of(federation: Federation, bound: float) -> float:
    """Return the mu of the only release, whose sensitivity is sqrt(2) times the squared bound."""
    return float(np.sqrt(2.0) * bound**2 / std_of(federation))


def from_moment(moment: np.ndarray, std: float, k: int, random: np.random.Generator) -> np.ndarray:
    """Add noise that is isotropic in the Frobenius inner product; decompose as a fit does."""
    noise = std * random.normal(size=moment.shape)
    return decompose(moment + (noise + noise.T) / 2, std, 1.0, k).components[:k]


def from_noisy_rows(case: Case, mu: float, random: np.random.Generator) -> np.ndarray:
    """Decompose the sum of outer products of noisy rows; two rows are up to 2 bounds apart."""
    X, std = case.clipped, 2 * case.bound / mu
    total = np.zeros((X.shape[1], X.shape[1]))
    for start in range(0, X.shape[0], BLOCK):
        block = X[start : start + BLOCK]
        block = block.toarray() if sparse.issparse(block) else block
        block = block + std * random.normal(size=block.shape)
        total += block.T @ block
    return np.linalg.eigh(total)[1][:, -case.k :].T


def measure(case: Case, run: int) -> Measured:
    for epsilon in EPSILONS:
        random = np.random.default_rng([run, int(epsilon)])
        federation = federation_of(case, epsilon)
        std, excess = std_of(federation), federation.noise_factor
        found = {
            WAYS[0]: from_moment(case.moment, std, case.k, random),
            PRODUCTS: from_moment(case.moment, excess * std, case.k, random),
            ROWS: from_noisy_rows(case, mu_of(federation, case.bound), random),
        }
        for way, components in found.items():
            yield (case.name, f"{way}, {epsilon}"), held(case.data, components, case.k)


def line_of(case: Case, n_runs: int) -> list[str]:
    values = measured(lambda run: measure(case, run), n_runs)
    n_people, n_features = case.data.load().shape
    cells = [f"{one.mean():.3f} ± {one.std(ddof=1):.3f}" for one in values.values()]
    facts = [f"{n_people:,}", str(n_features), str(case.k), f"{case.bound:.3g}"]
    return [case.name, *facts, f"{float(f'{case.needed:.2g}'):,.0f}", f"{case.chance:.3f}", *cells]


def small_check() -> str:
    """Run the federation itself for a few people, beside the simulation of its noise."""
    X = make_spiked(PEOPLE, FEATURES, k=K_OF_CHECK, random_state=0)[0]
    data = Table("check", lambda: X, needs_folder=False)
    bound = data.median_norm
    federation = local(pca(K_OF_CHECK, EPSILON_OF_CHECK, bound, FEATURES), PEOPLE, FEATURES)
    std = federation.noise_factor * std_of(federation)
    clipped = Case(data, K_OF_CHECK)
    values = np.linalg.eigvalsh(X.T @ X)[::-1]

    def captured(components: np.ndarray) -> float:
        return float(np.square(X @ components.T).sum() / values[:K_OF_CHECK].sum())

    random = np.random.default_rng(0)
    fits = [
        captured(federation.fit([row[np.newaxis] for row in X]).components_) for _ in range(N_FITS)
    ]
    draws = [captured(from_moment(clipped.moment, std, K_OF_CHECK, random)) for _ in range(N_DRAWS)]
    lines = [
        [name, str(len(of)), f"{np.mean(of):.4f} ± {np.std(of, ddof=1) / np.sqrt(len(of)):.4f}"]
        for name, of in [("the federation", fits), ("one draw for all", draws)]
    ]
    text = CHECK.format(
        people=PEOPLE,
        features=FEATURES,
        epsilon=EPSILON_OF_CHECK,
        factor=federation.noise_factor,
        root=np.sqrt(PEOPLE),
        k=K_OF_CHECK,
    )
    return f"{text}\n\n{table(['noise', 'runs', 'captured'], lines)}"


def main() -> None:
    parser = parser_for(
        __doc__,
        seeds=f"runs of each cell, default {RUNS}",
        only="data with this in their name",
        quick="2 runs",
        write="replace local_model.md",
    )
    arguments = parser.parse_args()
    n_runs = seeds_asked_for(arguments, usual=RUNS, quick=2)
    need_two_seeds(parser, n_runs)
    cases = cases_asked_for(parser, arguments, WORKING + OTHERS, n_seeds=n_runs, usual=RUNS)
    ignore_drowned_signal()

    lines = {}
    with threadpool_limits(1):
        for case in cases:
            lines[case] = line_of(case, n_runs)
            print(*lines[case], sep="  ", flush=True)
        check = small_check()
    print(check)
    if not arguments.write:
        return
    branches = [f"{way}, epsilon {epsilon:g}" for epsilon in EPSILONS for way in WAYS]
    facts = ["people", "features", "components", "row_norm", "people needed", "chance"]
    header = ["data", *facts, *branches]
    works, useless = (table(header, [lines[one] for one in of]) for of in (WORKING, OTHERS))
    title = TITLE.format(n_runs).rstrip()
    parts = [title, WORKS, works, USELESS, useless, check, FINDINGS.rstrip()]
    (HERE / "local_model.md").write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
