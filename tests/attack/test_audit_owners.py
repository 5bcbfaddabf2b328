"""Audits of coalitions: what a server and owners who tell it all see of one owner."""

import math

import numpy as np
import pytest

from skdp.federated._masks import sum_modulo
from skdp.privacy import Plan
from skdp.privacy.noise import NoiseSource
from skdp.privacy.plan import PrivacyCost
from skdp.privacy.shares import ShareBudget, Shares, counts_of, numbers_of

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

SEED = 2**100 + 13
N_DRAWS, ORDER = 20_000, 201  # the order of a symmetric matrix with as many pairs
COST = PrivacyCost(30.0, 1e-6)
# What is released, by which mechanism, how far a unit moves it, and what the others add.
RELEASES = {
    "mean": ("gaussian", 0.03, 0.4),
    "count": ("gaussian", 1.0, 17.0),
    "second moment": ("symmetric_gaussian", math.sqrt(2), 3.3),
}


def handed_in(name, who, size, n_own=1):
    """Give the layout and the part of an owner, each number of which is a release of its own.

    That of the release is `size` times the sensitivity.
    """
    mechanism, sensitivity, base = RELEASES[name]
    is_symmetric = mechanism == "symmetric_gaussian"
    shape = (ORDER, ORDER) if is_symmetric else (N_DRAWS,)
    release = COST.release(name, mechanism, 1.0, lambda: sensitivity, {}, shape=shape)
    # A change of two entries that mirror each other has this length.
    size = size / math.sqrt(2) if is_symmetric else size
    heard = []

    def exchange(layout, part):
        heard.append((layout, part))
        return np.zeros(layout.size, dtype=np.int64), ()

    plan = Plan(COST, release, unit="row", adjacency="replace")
    budget = ShareBudget.open(plan, who, exchange, n_own=n_own)
    budget.release(release, np.full(shape, n_own * (base + size * sensitivity)))
    return heard[0]


def draws(name, who, n_telling, size, key, n_own=1):
    """What the server and the last owners see together, one draw of the release in each place."""
    layout, part = handed_in(name, who, size, n_own)
    _, other = handed_in(name, who, 0.0)
    parts = [part, *[other] * (who.n_owners - 1)]
    counts = [
        counts_of(one, layout, NoiseSource(SEED).key(key, owner)) for owner, one in enumerate(parts)
    ]
    total = sum_modulo([one.astype(layout.words) for one in counts], layout.words)
    # They take off what they have handed in themselves.
    seen = numbers_of(total - sum(counts[len(counts) - n_telling :]), layout)
    return seen[np.triu_indices(ORDER, 1)] if seen.ndim == 2 else seen


def empirical_mu(name, who, n_telling, seed=0, n_own=1):
    """Separation of two neighbors by the most powerful test, in standard deviations."""
    with_unit = draws(name, who, n_telling, 1.0, f"D {seed}", n_own)
    without = draws(name, who, n_telling, 0.0, f"D' {seed}")
    return (with_unit.mean() - without.mean()) / math.sqrt((with_unit.var() + without.var()) / 2)


COALITIONS = [
    # All who tell were reckoned with.
    *((n_owners, n, n, 1) for n_owners in (3, 4, 5) for n in (0, 1, 2)),
    # More tell, or fewer.
    *((*one, 1) for one in [(3, 0, 1), (3, 1, 2), (4, 1, 3), (5, 0, 4), (5, 2, 3)]),
    *((*one, 1) for one in [(5, 1, 0), (5, 2, 1)]),
    # The local model: all others tell, and what is left is one message.
    (4, 3, 3, 1),
    # All rows of an owner.
    (4, 1, 1, 1000),
]


@pytest.mark.covered
@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.parametrize(("n_owners", "colluding", "n_telling", "n_own"), COALITIONS)
def test_a_coalition_sees_what_is_documented(name, n_owners, colluding, n_telling, n_own):
    who = Shares(n_owners, n_owners - colluding, 1000)
    documented = COST.mu * math.sqrt((n_owners - colluding) / (n_owners - n_telling))
    assert 0.94 <= empirical_mu(name, who, n_telling, n_own=n_own) / documented <= 1.03
