"""Budgets of several fits, watched: what they release, and what they would on a neighbor."""

import copy
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import numpy as np
from harness import _without_row, without_record
from recording import RecordingBudget, ReplayBudget

from skdp import _estimator
from skdp._estimator import PrivateEstimator
from skdp.data.rows import RowCache
from skdp.decomposition._problem import RowsProblem
from skdp.decomposition._rows_fit import read_rows_once
from skdp.linear_model._trace_records import Records
from skdp.model_selection import _score, _search

__all__ = ["SEED", "moved", "null_in_every_step", "watched"]

SEED = 2**100 + 7
_PLACES = (_estimator, _search, _score)


@contextmanager
def watched(scripts=None):
    """Give the list of all budgets that are opened inside; with scripts they answer by these."""
    made = []

    class Watched(RecordingBudget if scripts is None else ReplayBudget):
        def _begin(self, *arguments, **more):
            super()._begin(*arguments, **more)
            if scripts is not None:
                self.script = scripts[len(made)]
            made.append(self)

    with ExitStack() as stack:
        for place in _PLACES:
            stack.enter_context(patch.object(place, "PrivacyBudget", Watched))
        yield made


def moved(one, other):
    """By how much a release moved between neighbors, as a part of its sensitivity."""
    parts = []
    for budget, beside in zip(one, other, strict=True):
        ours, theirs = budget.spent().releases, beside.spent().releases
        lines = zip(ours, budget.values, theirs, beside.values, strict=True)
        for release, value, same, neighbor in lines:
            assert release == same
            change = np.atleast_1d(neighbor - value)
            size = np.linalg.norm(change)
            if release.mechanism == "exponential":
                size = np.ptp(change)
            parts.append(float(size / release.sensitivity))
    return parts


@contextmanager
def null_in_every_step(index):
    """Make one row null in every step: from when a step has checked it on, it is in no sum."""
    open_own = PrivateEstimator._open

    def open_without(step, data, problem, plan):
        view, *others = open_own(step, data, problem, plan)
        return without(view, problem, index), *others

    with patch.object(PrivateEstimator, "_open", open_without):
        yield


def without(view, problem, index):
    """Make one row of what a step reads null."""
    if isinstance(view, Records):
        return without_record(view, index, problem)
    rows = copy.copy(view)
    rows.source, rows.cache = _without_row(view.source, index), RowCache()
    is_rows = isinstance(problem, RowsProblem)
    return read_rows_once(problem, rows, is_keyed=False)[0] if is_rows else rows
