"""Budgets of searches, watched: what they release, and what they would on a neighbor."""

from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import numpy as np
from recording import RecordingBudget, ReplayBudget

from skdp import _estimator
from skdp.model_selection import _private_score, _search

__all__ = ["SEED", "moved", "watched"]

SEED = 2**100 + 7
_PLACES = (_estimator, _search, _private_score)


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
