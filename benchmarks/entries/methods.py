"""Ways to find singular vectors when one entry or one edge is protected, for studies.

The synthetic matrices of the sweeps have entries far beyond any bounds that would leave them as
they are with a step of 1. For those the step is *promised*: a unit here clips nothing and charges
for entries that move by at most 1, the adjacency of the papers. All else is what the estimators
run. Public estimators enforce the bounds of their units instead, and are used for 0/1 tables,
graphs and images.
"""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from skdp import DPTruncatedSVD, units
from skdp.decomposition._spec import SUPPORT
from skdp.decomposition.entries import solvers as entries_solvers
from skdp.linalg import denoising
from skdp.units import Entry, MatrixUnit, ResolvedEdge, ResolvedEntry

DELTA = 1e-6
# Printed here, hence good for repeatable tables and for nothing else.
KEY = 0x7E0A5C31D94B4F0E9B6C1A2F83D7E645


class _Promised:
    """A step of 1 for matrices of any size of entries."""

    @property
    def step(self) -> float:
        return 1.0

    def clipped(self, block: Any) -> Any:
        return block


class PromisedEntry(_Promised, ResolvedEntry):
    """One entry of any size moves by at most 1."""


class PromisedEdge(_Promised, ResolvedEdge):
    """One entry and its mirror image move by at most 1."""


# They go with what the units go with that they are made from.
SUPPORT.update({PromisedEntry: SUPPORT[ResolvedEntry], PromisedEdge: SUPPORT[ResolvedEdge]})


class Found(NamedTuple):
    """Singular vectors, as columns, and values."""

    left: np.ndarray
    singular_values: np.ndarray
    right: np.ndarray


@dataclass(frozen=True)
class Fit:
    """What the solver is told beyond the defaults of the estimators."""

    solver: str
    epsilon: float = 1.0
    delta: float = DELTA
    n_iter: int | str = "auto"
    n_oversamples: int | str = "auto"
    basis_cut: float | str | None = "default"
    unit: type[MatrixUnit] | None = None
    plain: bool = False


def solve(X: Any, k: int, seed: int, fit: Fit) -> Found:
    """Run a solver of skdp on a matrix whose step is promised to be 1."""
    size = float(np.abs(X).max())
    kind = fit.unit or PromisedEntry
    bounds = (-size, size, False) if issubclass(kind, ResolvedEntry) else (size,)
    unit = kind("replace", *bounds)
    svd = DPTruncatedSVD(
        k,
        epsilon=fit.epsilon,
        delta=fit.delta,
        solver=fit.solver,
        n_iter=fit.n_iter,
        n_oversamples=fit.n_oversamples,
        # Stands for the promised one.
        privacy_unit=Entry((-1, 1)),
        random_state=KEY + seed,
    )
    with plain_iteration() if fit.plain else ExitStack() as changes:
        changes.enter_context(patch.object(units, "resolved_unit", lambda *_: unit))
        changes.enter_context(cut_to(fit.basis_cut))
        svd.fit(X)
    return Found(svd.left_components_, svd.singular_values_, svd.components_.T)


def cut_to(cut: float | str | None) -> Any:
    """Cut the rows of released bases to so many times their mean square, which users cannot."""
    if cut == "default":
        return ExitStack()
    return patch.multiple(entries_solvers, BASIS_CUT=cut, PURE_CUT=cut)


def plain_iteration() -> ExitStack:
    """Make the iterations forget: each basis is that of the last product alone, not shrunk."""
    changes = ExitStack()
    changes.enter_context(patch.object(entries_solvers, "N_AVERAGED", 1))
    changes.enter_context(patch.object(denoising, "shrink_rows", lambda rows, covariance: rows))
    return changes


def captured(X: Any, right: np.ndarray, best: float) -> float:
    """Norm of X in the span of the vectors, over that in the best one."""
    return float(np.linalg.norm(X @ right) / best)
