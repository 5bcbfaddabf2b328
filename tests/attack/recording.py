"""Budgets that keep the noiseless values of what they release, or answer with a script."""

import numpy as np

from skdp.privacy import PrivacyBudget
from skdp.privacy.lattice import lattice_step
from skdp.privacy.noise_first import NoisyCounts
from skdp.privacy.record import Released


class RecordingBudget(PrivacyBudget):
    """Keeps every noiseless value beside its release."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.values, self.released = [], []

    def _publish(self, release, value):
        self.values.append(np.array(value))
        self.released.append(np.array(self._answer(release, value)))
        return self.released[-1].copy()

    def _answer(self, release, value):
        released = super()._publish(release, value)
        if self.is_private and release.mechanism != "exponential":
            check_lattice(release, released)
        return released

    def _start(self, release, shape, unit, correlation):
        return WatchedCounts(self, release, shape, unit, correlation)


class WatchedCounts(NoisyCounts):
    """Sums that start from nothing, get their noise when they are read, and are recorded then."""

    def __init__(self, budget, *arguments):
        self._budget = budget
        super().__init__(*arguments)

    def _draw(self):
        return np.zeros(self.counts.shape)

    def read(self):
        released = self._budget._publish(self.release, self.counts * self.unit)
        return Released(released, self.noise_scale)


class ReplayBudget(RecordingBudget):
    """Answers with a given list of releases, whatever the data are."""

    script = ()

    def _answer(self, release, value):
        return self.script[len(self.released)]


def scripted_budget(script) -> type[ReplayBudget]:
    """Make the class of the budgets that answer with a list of releases."""
    return type("ScriptedBudget", (ReplayBudget,), {"script": list(script)})


def check_lattice(release, released):
    """No bit of a released number may be finer than the step that its noise scale gives."""
    assert np.isfinite(released).all(), release.name
    np.testing.assert_array_equal(np.fmod(released, lattice_step(release.noise_scale)), 0)
    assert not np.signbit(released[released == 0]).any(), release.name
    if release.mechanism == "symmetric_gaussian":
        np.testing.assert_array_equal(released, released.T)
