"""Budgets that keep the noiseless values of what they release, or answer with a script."""

import numpy as np

from skdp.privacy import PrivacyBudget
from skdp.privacy.budget import InitialNoiseSums
from skdp.privacy.noise import lattice_step
from skdp.privacy.releases import Released


class RecordingBudget(PrivacyBudget):
    """Keeps every noiseless value beside its release."""

    def _begin(self, *args, **kwargs):
        super()._begin(*args, **kwargs)
        self.values, self.released = [], []
        # Of sums that are released after every epoch, by the number of the release.
        self.roots = {}

    def bounded(self, number):
        """Give what the sensitivity of a release bounds: of sums of epochs, what noise is added to.

        That is what a square root of the prefix sums makes of the epochs.
        """
        value = self.values[number]
        if number not in self.roots:
            return value
        return np.tensordot(self.roots[number], np.diff(value, axis=0, prepend=0), 1)

    def _publish(self, release, value):
        self.values.append(np.array(value))
        self.released.append(np.array(self._answer(release, value)))
        return self.released[-1].copy()

    def _answer(self, release, value, place=None):
        released = super()._publish(release, value)
        if self.is_private and release.mechanism != "exponential":
            check_lattice(release, released)
        return released

    def _start(self, release, shape, unit, correlation):
        return WatchedCounts(self, release, shape, unit, correlation)


class WatchedCounts(InitialNoiseSums):
    """Sums that start from nothing, get their noise when they are read, and are recorded then.

    The sums of all epochs are one release.
    """

    def __init__(self, budget, release, shape, unit, correlation):
        self._budget, self._number = budget, len(budget.values)
        for recorded in (budget.values, budget.released):
            recorded.append(np.zeros((correlation.horizon, *shape)))
        budget.roots[self._number] = root_of(correlation)
        super().__init__(release, shape, unit, correlation)

    def _draw(self):
        return np.zeros(self.counts.shape)

    def read(self):
        budget, place = self._budget, (self._number, self._n_epochs - 1)
        value = self.counts * self.unit
        released = budget._answer(self.release, value, place)
        for recorded, one in ((budget.values, value), (budget.released, released)):
            recorded[place[0]][place[1]] = one
        return Released(np.array(released), self.noise_std)


def root_of(correlation):
    """Write out the square root of the prefix sums by which the noise of epochs is correlated."""
    lags = range(correlation.horizon - 1)
    coefficients = [1.0, *(correlation.weights @ correlation.decays**lag for lag in lags)]
    n = correlation.horizon
    return sum(one * np.eye(n, k=-lag) for lag, one in enumerate(coefficients))


class ReplayBudget(RecordingBudget):
    """Answers with a given list of releases, whatever the data are."""

    script = ()

    def _answer(self, release, value, place=None):
        if place is None:
            return self.script[len(self.released)]
        number, epoch = place
        return self.script[number][epoch]


def scripted_budget(script) -> type[ReplayBudget]:
    """Make the class of the budgets that answer with a list of releases."""
    return type("ScriptedBudget", (ReplayBudget,), {"script": list(script)})


def check_lattice(release, released):
    """No bit of a released number may be finer than the step that its noise std gives."""
    assert np.isfinite(released).all(), release.name
    np.testing.assert_array_equal(np.fmod(released, lattice_step(release.noise_std)), 0)
    assert not np.signbit(released[released == 0]).any(), release.name
    if release.mechanism == "symmetric_gaussian":
        np.testing.assert_array_equal(released, released.T)
