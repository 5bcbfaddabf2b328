"""Attacks after any releases: whatever came before, no neighbor moves the next one too far.

Noise may lead anywhere, if rarely, and a guarantee holds for all that may have been released. So
the releases here are not the noisy ones, but zeros, opposite, huge or unlike any data.
"""

import itertools
from functools import partial

import numpy as np
import pytest
from families import FAMILIES

from skdp.privacy.noise import CHOICE
from skdp.testing._checks import ROUNDING
from skdp.testing._recording import (
    RecordingBudget,
    assert_holds,
    contents_of,
    farthest,
    fit_with,
    messages_of,
    record,
)

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

#: What is told in place of a release: functions of the noisy one, its noise and its sensitivity.
LIES = {
    "noisier": lambda told, noise, change: told + 3 * noise,
    "zeros": lambda told, noise, change: 0 * told,
    "opposite": lambda told, noise, change: -told,
    "far too large": lambda told, noise, change: 1e3 * told + 1e3 * change,
    "far too small": lambda told, noise, change: 1e-6 * told,
    "constant": lambda told, noise, change: 0 * told + change,
}

LARGER = ("noisier", "far too large", "a mixture")

# Below this epsilon, fits of the families are calibrated.
WEAK = 20.0


class LyingBudget(RecordingBudget):
    """Answers with lies about the releases of a script, which may be shorter."""

    script, lie = (), ""

    def _answer(self, release, value, place):
        number, *epoch = place
        told = self.script[number][tuple(epoch)] if number < len(self.script) else np.zeros(0)
        # Another branch of a plan makes other releases.
        told = np.array(told if np.shape(told) == value.shape else np.zeros(value.shape))
        generator = np.random.default_rng([len(self.lie), *place])
        if release.mechanism == CHOICE:
            return np.array(generator.integers(value.size))
        noise = (release.noise_std or 0.0) * generator.standard_normal(value.shape)
        if release.mechanism == "symmetric_gaussian":
            noise = (noise + noise.T) / 2
        lie = self.lie if self.lie in LIES else generator.choice(list(LIES))
        return np.array(LIES[lie](told, noise, release.sensitivity or 0.0))


def lying_budget(script, lie):
    """Make the class of budgets that tell a lie."""
    return type("LyingBudgetHere", (LyingBudget,), {"script": list(script), "lie": lie})


def movements(make, group, lie):
    """Yield how far each release moves between the datasets of a group, if it follows lies."""
    origins = [] if group.origin is None else [group.origin]
    kind = lying_budget(record(make, [*origins, *group.datasets][0]).released, lie)

    def fit(data):
        return messages_of(partial(fit_with, make(), data, kind))

    fits = [fit(data) for data in group.datasets]
    with group.make_null():
        fits += [fit(data) for data in origins]
    (first, _), said = fits[0]
    contents = contents_of(first)
    for (estimator, _), messages in fits[1:]:
        assert_holds(estimator, contents)
        assert messages == said
    budgets = [budget for (_, budget), _ in fits]
    n_neighbors = len(group.datasets)
    for name, ratio in farthest(budgets[:n_neighbors], *budgets[n_neighbors:]).items():
        yield name, ratio / group.distance


def _cases():
    """Every cell with one lie, or a mixture; by default one cell of each family, in turns weak."""
    lies, cases = itertools.cycle([*LIES, "a mixture"]), []
    for number, family in enumerate(FAMILIES):
        # Fits with little budget are calibrated.
        weak = [cell for cell in family.cells if getattr(cell, "epsilon", WEAK) < WEAK]
        default = (weak or family.cells)[0] if number % 2 else family.cells[0]
        for cell, lie in zip(family.cells, lies, strict=False):
            marks = [] if cell == default else [pytest.mark.slow]
            if family.name == "toy" and lie in LARGER:
                # Its delta has a part for lengths that are released far too large.
                lie = "far too small"
            name = f"{family.name}: {cell}, {lie}"
            cases.append(pytest.param(family, cell, lie, id=name, marks=marks))
    return cases


@pytest.mark.parametrize(("family", "cell", "lie"), _cases())
def test_neighbors_move_no_release_too_far_whatever_was_released_before(family, cell, lie):
    with family.setting(cell):
        for group in family.groups(cell, family.ordinary(cell)):
            for name, ratio in movements(cell, group, lie):
                assert ratio <= ROUNDING, f"{name} moved {ratio:.15g} times its sensitivity"
