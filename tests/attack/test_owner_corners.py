"""Fits of several owners at the corners: any bounds, scales, budgets, sizes, solvers and lies."""

import numpy as np
import pytest
from harness import without_row
from owner_cells import LIES, SEED, hear, retold
from owner_neighbors import assert_one_story, assert_within_limits, farthest
from scipy.sparse import csr_array

from skdp import DPPCA, DPTruncatedSVD
from skdp.federated import Federation
from skdp.federated._agreement import view_of
from skdp.privacy.noise import NoiseSource
from skdp.privacy.shares import counts_of

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

N_SEEDS, SOME = 100, 8
LARGEST = np.finfo(float).max


def draw_estimator(generator, n_features):
    """Draw an estimator with bounds that may be far from what rows need."""
    more = {
        "epsilon": float(10.0 ** generator.uniform(-1, 5)),
        "adjacency": str(generator.choice(["replace", "zero_out"])),
        "solver": str(generator.choice(["auto", "covariance", "power"])),
    }
    # The harness adds up fourth powers of norms.
    if generator.random() < 0.6:
        more["row_norm"] = float(10.0 ** generator.choice([-70, -5, 0, 0, 0, 5, 70]))
    make = DPTruncatedSVD if generator.random() < 0.5 else DPPCA
    if make is DPPCA:
        centers = [False, 10.0 ** generator.choice([-5, 0, 6]) * generator.normal(size=n_features)]
        kind = int(generator.integers(4))
        if kind < 2:
            more["center"] = centers[kind]
        elif kind == 2:
            more["mean_norm"] = float(10.0 ** generator.choice([-60, 0, 6, 60]))
    return make(int(generator.integers(1, n_features + 1)), **more)


def draw_fit(generator):
    """Draw an agreement, the rows of an owner, and what holds rows; None if it is refused."""
    d, s = int(generator.choice([1, 2, 3, 6, 12])), int(generator.integers(1, 6))
    n, unit = int(generator.integers(s, 60)), str(generator.choice(["row", "owner"]))
    is_sparse = bool(generator.random() < 0.4)
    colluding = int(generator.integers(0, s))
    more = {"owners": s, "unit": unit, "colluding": colluding, "seed": 0, "sparse": is_sparse}
    aggregator = str(generator.choice(["masked", "none"]))
    try:
        estimator = draw_estimator(generator, d)
        n_rows = n if unit == "row" else None
        agreement = Federation(estimator, n_rows, d, aggregator=aggregator, **more)._agreement
    except ValueError:
        return None
    size = (int(generator.integers(1, (n if unit == "row" else 40) + 1)), d)
    X = 10.0 ** generator.choice([-300, -5, 0, 0, 0, 5, 300]) * generator.normal(size=size)
    return agreement, X, csr_array if is_sparse else np.asarray


def liar(generator):
    """Tell mostly one kind of sums."""
    usual = str(generator.choice(list(LIES)))

    def answer(number, layout, part):
        known = counts_of(part, layout, NoiseSource(SEED).key(number))
        lie = LIES[usual if generator.random() < 0.8 else str(generator.choice(list(LIES)))]
        told = np.asarray(lie(known, layout, generator), dtype=np.int64)
        return np.clip(told, -layout.largest, layout.largest)

    return answer


def neighbors_of(generator, X, is_row):
    """Exchange the first row, or all rows for any number of others."""
    scales, d = 10.0 ** np.array([-300, -3, 0, 3, 300]), X.shape[1]
    rows = [generator.normal(size=d) * generator.choice(scales) for _ in range(3)]
    rows += [np.zeros(d), np.full(d, LARGEST), -X[0]]
    if is_row:
        return [np.vstack([row, X[1:]]) for row in rows]
    return [np.tile(row, (int(generator.integers(1, 20)), 1)) for row in rows]


def check(seed):
    """Fit at a corner, and check all that has to hold; return whether it was not refused."""
    generator = np.random.default_rng([2**60 + 5, seed])
    if (drawn := draw_fit(generator)) is None:
        return False
    agreement, X, contain = drawn
    view = view_of(agreement, contain(X))
    # No sums that a server may tell end the fit with an error.
    story = hear(agreement, view, liar(generator))
    assert story.model is not None, story.said
    others = neighbors_of(generator, X, not agreement.is_unit_owner)
    heard = [story, *(retold(agreement, view_of(agreement, contain(one)), story) for one in others)]
    null = None
    if agreement.plan.adjacency == "zero_out":
        alone = view_of(agreement, contain(X[:1])) if agreement.is_unit_owner else view
        null = retold(agreement, without_row(alone, agreement.spec, 0), story)
    nobody = view_of(agreement, agreement.null, agreement.null_target)
    strangers = [retold(agreement, nobody, story), *([null] if null else [])]
    assert_one_story([*heard, *strangers])
    assert_within_limits([*heard, *strangers])
    assert max(farthest(story, heard, null).values()) <= 1 + 1e-12
    return True


@pytest.mark.parametrize("start", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in (1, 2))])
def test_corners(start):
    seeds = range(SOME) if start == 0 else range(start * N_SEEDS, (start + 1) * N_SEEDS)
    assert sum(map(check, seeds)) > len(seeds) / 2
