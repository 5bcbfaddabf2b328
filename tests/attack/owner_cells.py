"""Fits of several owners: what can be asked of them, what a server may tell, and who may differ."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count, product
from typing import Any, NamedTuple
from unittest.mock import patch

import entry_cells
import numpy as np
import row_cells
from harness import NamedCell
from row_cells import D, N
from scipy.sparse import csr_array

from skdp import DPTruncatedSVD
from skdp.data.rows import Rows
from skdp.datasets import make_spiked
from skdp.federated import Federation
from skdp.federated._agreement import Agreement, run_fit, view_of
from skdp.federated._owner import RunningFit, Waiting
from skdp.privacy.noise import NoiseSource
from skdp.privacy.shares import ShareLayout, counts_of

N_OWNERS, N_OWN = 4, N // 4
SEED = 2**100 + 11
N_WIDE = 400  # features from which "auto" may take the guided power method
DEGREE_FLOOR = 3
ADJACENCIES, UNITS, CONTAINERS = ("replace", "zero_out"), ("row", "owner"), ("dense", "sparse")
SOLVERS = (*row_cells.SOLVERS, *row_cells.GUIDED, "interaction")


@dataclass(frozen=True)
class Cell(NamedCell):
    """One way to ask for a fit of several owners."""

    solver: str
    adjacency: str = "replace"
    unit: str = "row"
    model: str = "svd"
    norms: str = "given"
    container: str = "dense"
    is_wide: bool = False

    @property
    def is_guided(self) -> bool:
        """Whether the server lets the fit be guided, where it may."""
        return self.solver in row_cells.GUIDED or self.is_wide

    @property
    def n_features(self) -> int:
        return {"interaction": entry_cells.N_COLUMNS}.get(
            self.solver, N_WIDE if self.is_wide else D
        )

    def __call__(self, **more):
        """Make an estimator; noise has to leave scales at which something can be attacked."""
        more = {"epsilon": 300.0, "adjacency": self.adjacency, **more}
        if self.solver == "interaction":
            return of_interactions(self)(**more)
        if self.is_wide:
            return DPTruncatedSVD(2, solver=self.solver, **row_cells.NORMS[self.norms], **more)
        return row_cells.Cell(self.model, self.solver, self.adjacency, self.norms)(**more)

    def agreement(self) -> Agreement:
        """Agree on the fit."""
        n_rows, is_sparse = N if self.unit == "row" else None, self.container == "sparse"
        facts = {"owners": N_OWNERS, "unit": self.unit, "sparse": is_sparse}
        return Federation(self(), n_rows, self.n_features, **facts)._agreement

    def contain(self, X):
        """Hand rows over as agreed on."""
        return csr_array(X) if self.container == "sparse" else X

    def rows(self):
        """Draw the rows of all owners."""
        if self.solver == "interaction":
            return (np.random.default_rng(0).random((N, self.n_features)) < 0.5).astype(float)
        X = make_spiked(N, self.n_features, k=2, random_state=0)[0]
        return np.abs(X) if self.is_guided else X


def of_interactions(cell):
    """Give the cell of a fit of one owner to interactions."""
    return entry_cells.Cell("interaction", "power", cell.model, degree_floor=DEGREE_FLOOR)


def _cells():
    for solver, adjacency, unit, container in product(SOLVERS, ADJACENCIES, UNITS, CONTAINERS):
        if solver == "interaction":
            models = ("svd", "pca, not centered") if unit == "row" else ()
            yield from (
                Cell(solver, adjacency, unit, model, "given", container) for model in models
            )
            continue
        for norms in row_cells.NORMS:
            models = ("svd",) if solver in row_cells.GUIDED else row_cells.models_of(solver)
            yield from (Cell(solver, adjacency, unit, model, norms, container) for model in models)


CELLS = tuple(_cells())


def is_count(name):
    """Whether a release counts rows: a single one moves it by 1, whatever is tried."""
    return "count" in name or "clip level" in name or name == "positive rows"


class Heard(NamedTuple):
    """All that a party says and is told in one fit."""

    layouts: list[ShareLayout]
    parts: list[np.ndarray]
    sums: list[np.ndarray]
    model: Any
    said: Any  # warnings, or the error that the fit has ended with
    bases: list[tuple[np.ndarray, Any]]  # each with what clips the projections on it


def hear(agreement, rows, answer: Callable[[int, ShareLayout, np.ndarray], np.ndarray]) -> Heard:
    """Run the fit of one party; `answer` takes the number of a release, its layout, and a part."""
    heard = Heard([], [], [], None, None, [])
    numbers, right = count(), Rows.normal_product

    def exchange(layout, part):
        heard.layouts.append(layout)
        heard.parts.append(np.array(part))
        heard.sums.append(answer(next(numbers), layout, part))
        return heard.sums[-1].copy(), ()

    def watched(rows, basis, clip):
        heard.bases.append((basis, clip))
        return right(rows, basis, clip)

    with patch.object(Rows, "normal_product", watched):
        try:
            model, said = run_fit(agreement, rows, exchange)
        except Exception as error:
            return heard._replace(said=(type(error), str(error)))
    return heard._replace(model=model, said=said)


def retold(agreement, rows, story: Heard) -> Heard:
    """Tell another party the same story."""
    return hear(agreement, rows, lambda number, layout, part: story.sums[number])


def honest_sums(agreement, parts, seed=SEED) -> list[np.ndarray]:
    """Run the fits of all owners side by side, and add up their counts."""
    fits = [RunningFit(partial(run_fit, agreement, view_of(agreement, X))) for X in parts]
    sums, waiting = [], [fit.next() for fit in fits]
    while isinstance(waiting[0], Waiting):
        keys = [NoiseSource(seed).key(len(sums), owner) for owner in range(len(fits))]
        counts = [
            counts_of(one.part, one.layout, key) for one, key in zip(waiting, keys, strict=True)
        ]
        sums.append(sum(counts))
        waiting = [fit.resume((sums[-1], ())) for fit in fits]
    return sums


def split(cell, X):
    """Give the rows of each owner."""
    return [cell.contain(part) for part in np.split(X, N_OWNERS)]


class Server:
    """Tells sums of its own, within the public bounds of sums."""

    def __init__(self, cell, lie="honest", seed=0):
        self.cell, self.lie = cell, LIES[lie]
        self.generator = np.random.default_rng(seed)
        agreement, X = cell.agreement(), cell.rows()
        # Of another fit, whose rows have nothing in common with these.
        X = -3 * X[::-1, ::-1] if lie == "other fit" and cell.solver != "interaction" else X
        self.known = honest_sums(agreement, split(cell, X), SEED + (lie == "other fit"))

    def __call__(self, number, layout, part):
        """Answer a release."""
        if layout.name == "positive rows" and self.lie is not _honest:
            # Whether the mean may guide a fit is one more thing that a server may lie about.
            return np.full(1, layout.limit if self.cell.is_guided else -layout.limit)
        # A fit that was told other sums may take another way.
        known = np.resize(self.known[min(number, len(self.known) - 1)], layout.size)
        told = self.lie(known, layout, self.generator)
        return np.clip(np.asarray(told, dtype=np.int64), -layout.largest, layout.largest)


def _honest(known, layout, generator):
    return known


def _alternating(known, layout, generator):
    return layout.largest * (-1) ** np.arange(layout.size)


def _one_huge(known, layout, generator):
    return layout.largest * (np.arange(layout.size) == layout.size // 2)


#: What a server may tell: functions of the honest sum, the layout, and a generator.
LIES = {
    "honest": _honest,
    # The server knows the sums of that one.
    "other fit": lambda known, layout, generator: 1 * known,
    "zeros": lambda known, layout, generator: 0 * known,
    "largest": lambda known, layout, generator: np.full(layout.size, layout.largest),
    "smallest": lambda known, layout, generator: np.full(layout.size, -layout.largest),
    "random": lambda known, layout, generator: generator.integers(
        -layout.largest, layout.largest, layout.size, endpoint=True
    ),
    "constant": lambda known, layout, generator: np.full(layout.size, 1000),
    "alternating": _alternating,
    "one huge": _one_huge,
    "negated": lambda known, layout, generator: -known,
    "far too large": lambda known, layout, generator: 1000.0 * known,
    "slightly off": lambda known, layout, generator: (
        known + generator.integers(-100, 100, layout.size)
    ),
}


def _cases():
    """Every lie to every solver, unit and adjacency; the other values take turns."""
    alike = defaultdict(list)
    for cell in CELLS:
        alike[cell.solver, cell.unit, cell.adjacency].append(cell)
    for start, cells in enumerate(alike.values()):
        n_cases = max(len(cells), len(LIES))
        for i in range(n_cases):
            # So that neither the lies nor the cells come in the same order everywhere.
            yield cells[(i * 5 + start) % len(cells)], list(LIES)[(i + start) % len(LIES)]


CASES = tuple(_cases())
