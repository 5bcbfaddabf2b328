"""What components capture that owners of rows find together, beside those of one fit to all rows.

Digits, Gowalla's 1000 most visited places and the web log, divided among 10 owners; and digits of
200 owners, each of whom is protected as a whole. Run

    python -m benchmarks.federated.captured                  # 10 runs, a quarter of an hour
    python -m benchmarks.federated.captured --quick          # 2 runs
    python -m benchmarks.federated.captured --only digits    # data so named
    python -m benchmarks.federated.captured --write          # captured.md beside it

Gowalla and the web log are looked for in the folder that the environment variable `SKDP_DATA`
names, and left out without it. Owners draw their noise from the operating system, so that two runs
never agree exactly.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sklearn.base import clone
from threadpoolctl import threadpool_limits

from benchmarks.guided.tables import TABLES, Table, held
from benchmarks.report import (
    Measured,
    cases_asked_for,
    ignore_drowned_signal,
    measured,
    need_two_seeds,
    parser_for,
    publish,
    seeds_asked_for,
    table,
)
from skdp import DPPCA, DPTruncatedSVD
from skdp.federated import Federation

RUNS = 10
EPSILONS = (0.5, 1.0, 4.0)
K, DELTA = 5, 1e-6
BY_NAME = {one.name: one for one in TABLES}
DIGITS, CENTERED = BY_NAME["Digits"], BY_NAME["Digits, centered"]
GOWALLA, WEB_LOG = BY_NAME["Gowalla 1000"], BY_NAME["Web log"]

TITLE = """\
# Rows of several owners

Written by `python -m benchmarks.federated.captured --write`. Sum of squares along {} private
components over that along the best {}, of the centered rows for `DPPCA`: mean ± standard deviation
of {} runs, with delta 1e-6, adjacency "replace", and the median norm of rows as `row_norm` (for
`DPPCA` that of centered rows, and the median norm as `mean_norm`), or `row_norm=None` where it says
"private norm". "All rows" is one fit to all rows; of units that are owners, a federation without
colluding owners, whose noise is that of the plan. One colluding owner elsewhere. Sums are "trusted"
unless it says "masked".
"""
FINDINGS = """\
With 10 owners, one of whom may collude, noise is sqrt(10 / 9) = 1.054 times that of one fit to all
rows. What is lost by that is no more than what changes from run to run: up to .02 for the centered
digits, and .01 elsewhere. Masks change nothing but how a sum is added up.

On 200 owners of 9 digits each, noise is made to the measure of an owner, of whom there are nine
times fewer than rows, and so has nine times the size beside the signal: epsilon 4 for an owner
captures a little less than epsilon .5 for a row.

A private norm costs little among rows. Among 200 owners its search sees counts of at most 200 in
noise of standard deviation 77 at epsilon 1, and now and then ends far from any norm, as it does
among 200 rows, with a warning: there `row_norm` has to be known. That owners share the noise does
not matter for it.
"""


@dataclass(frozen=True)
class Case:
    """Data, how they are fitted, and by whom."""

    name: str
    data: Table
    estimator: Callable[[], DPPCA | DPTruncatedSVD]
    owners: int = 10
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def needs_folder(self) -> bool:
        return self.data.needs_folder

    @property
    def rows(self) -> Any:
        """The rows that are fitted, which DPPCA centers by itself."""
        return (DIGITS if self.data is CENTERED else self.data).load()


def svd_without_bound() -> DPTruncatedSVD:
    """Leave the norm to a private search across owners."""
    return DPTruncatedSVD(K, delta=DELTA)


def svd_of(data: Table) -> Callable[[], DPTruncatedSVD]:
    return lambda: DPTruncatedSVD(K, delta=DELTA, row_norm=data.median_norm)


def pca() -> DPPCA:
    return DPPCA(K, delta=DELTA, row_norm=CENTERED.median_norm, mean_norm=DIGITS.median_norm)


def pca_with_public_center() -> DPPCA:
    """Take the exact mean as center, as if it were known: that is not private."""
    center = DIGITS.load().mean(axis=0)
    return DPPCA(K, delta=DELTA, row_norm=CENTERED.median_norm, center=center)


MASKED = {"aggregator": "masked"}
SPARSE = {"sparse": True}
OF_OWNERS = {"unit": "owner"}
CASES = [
    Case("digits, DPTruncatedSVD", DIGITS, svd_of(DIGITS)),
    Case("digits, DPTruncatedSVD, masked", DIGITS, svd_of(DIGITS), settings=MASKED),
    Case("digits, DPPCA", CENTERED, pca),
    Case("digits, DPPCA, center as if public", CENTERED, pca_with_public_center),
    Case("Gowalla 1000, DPTruncatedSVD", GOWALLA, svd_of(GOWALLA), settings=SPARSE),
    Case("web log, DPTruncatedSVD", WEB_LOG, svd_of(WEB_LOG), settings=SPARSE),
    Case("digits, DPTruncatedSVD, private norm", DIGITS, svd_without_bound),
    Case("digits, DPTruncatedSVD, unit owner", DIGITS, svd_of(DIGITS), 200, OF_OWNERS),
    Case("... private norm, too", DIGITS, svd_without_bound, 200, OF_OWNERS),
]


def federated(case: Case, estimator: Any, **settings: Any) -> Any:
    """Fit the rows of all owners, who have every so many-th row each."""
    X = case.rows
    settings = {"aggregator": "trusted", "owners": case.owners, **case.settings, **settings}
    n_rows = None if settings.get("unit") == "owner" else X.shape[0]
    federation = Federation(estimator, n_rows, X.shape[1], **settings)
    return federation.fit([X[i :: case.owners] for i in range(case.owners)])


def central(case: Case, estimator: Any) -> Any:
    if case.settings.get("unit") == "owner":
        return federated(case, estimator, colluding=0)
    return estimator.fit(case.rows)


def measure(case: Case) -> Iterator[Measured]:
    """Fit once at every epsilon, in both ways."""
    for epsilon in EPSILONS:
        estimator = case.estimator().set_params(epsilon=epsilon)
        for way, fit in [("all rows", central), ("owners", federated)]:
            components = fit(case, clone(estimator)).components_
            yield (case.name, f"{way}, {epsilon}"), held(case.data, components, K)


def line_of(case: Case, n_runs: int) -> list[str]:
    values = measured(lambda run: measure(case), n_runs)
    cells = [f"{one.mean():.3f} ± {one.std(ddof=1):.3f}" for one in values.values()]
    norm = case.estimator().row_norm
    bound = "private" if norm is None else f"{norm:.3g}"
    return [case.name, str(case.owners), bound, *cells]


def main() -> None:
    parser = parser_for(
        __doc__,
        seeds=f"runs of each cell, default {RUNS}",
        only="data with this in their name",
        quick="2 runs",
        write="replace captured.md",
    )
    arguments = parser.parse_args()
    n_runs = seeds_asked_for(arguments, usual=RUNS, quick=2)
    need_two_seeds(parser, n_runs)
    cases = cases_asked_for(parser, arguments, CASES, n_seeds=n_runs, usual=RUNS)
    ignore_drowned_signal()
    # Each party decomposes a small matrix, where threads get in each other's way.
    with threadpool_limits(1):
        lines = [line_of(case, n_runs) for case in cases]
    branches = [
        f"{way}, epsilon {epsilon}" for epsilon in EPSILONS for way in ("all rows", "owners")
    ]
    text = table(["data and fit", "owners", "row_norm", *branches], lines)
    parts = [TITLE.format(K, K, n_runs).rstrip(), text, FINDINGS]
    publish("\n\n".join(parts), __file__, write=arguments.write)


if __name__ == "__main__":
    main()
