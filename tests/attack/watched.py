"""Budgets of several fits, watched: what they release, and what they would on a neighbor."""

import copy
from contextlib import nullcontext

import numpy as np
from harness import _without_row, altered, without_record

from skdp.data.rows import RowCache
from skdp.decomposition._spec import RowsSpec
from skdp.decomposition.rows.fit import read_rows_once
from skdp.linear_model.low_rank.records import Records
from skdp.testing._recording import SEED, RecordingBudget, budgets_of, scripted_budget

__all__ = ["SEED", "farthest", "moved", "null_in_every_step", "replaying", "watched"]


def watched(scripts=None):
    """Give the list of all budgets that are opened inside; with scripts they answer by these."""
    if scripts is None:
        return budgets_of(lambda _: RecordingBudget)
    return budgets_of(lambda number: scripted_budget(scripts[number]))


def replaying(before):
    """Watch budgets that answer as those before did."""
    return watched([budget.released for budget in before])


def farthest(fit, data, *neighbors, null=nullcontext):
    """Tell by how much a release moves at most, from data to neighbors; within `null` to none."""
    with watched() as before, null():
        fit(*data)
    worst = []
    for neighbor in neighbors:
        with replaying(before) as after:
            fit(*neighbor)
        worst += moved(before, after)
    return max(worst)


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
            # The maximum of NaN and a number may be the number.
            assert np.isfinite(size), f"{release.name} is not finite"
            if release.mechanism == "exponential":
                size = np.ptp(change)
            parts.append(float(size / release.sensitivity))
    return parts


def null_in_every_step(index):
    """Make one row null in every step: from when a step has checked it on, it is in no sum."""
    return altered(lambda view, spec: without(view, spec, index))


def without(view, spec, index):
    """Make one row of what a step reads null."""
    if isinstance(view, Records):
        return without_record(view, index, spec)
    rows = copy.copy(view)
    rows.source, rows.cache = _without_row(view.source, index), RowCache()
    is_rows = isinstance(spec, RowsSpec)
    return read_rows_once(spec, rows, is_seeded=False)[0] if is_rows else rows
