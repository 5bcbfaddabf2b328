"""A coherent direction beside flat ones: a larger budget never finds it worse."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.linalg import eigsh

from skdp import DPTruncatedSVD
from skdp.units import Edge, Entry, Interaction

EPSILONS = (1.0, 16.0, 256.0)
EDGE = Edge((0, 1))


def graph():
    """A dense group of few nodes, whose vector is coherent, among communities."""
    random = np.random.default_rng(0)
    group = np.arange(800) * 4 // 800
    chance = np.where(group[:, None] == group, 0.1, 0.01)
    chance[:80, :80] = 0.9
    upper = np.triu(random.random(chance.shape) < chance, 1)
    return csr_array((upper | upper.T).astype(float))


GRAPH = graph()
LARGEST = eigsh(GRAPH, k=1)[0][0]


def length(epsilon, unit):
    """Length of the first direction, over the largest there is."""
    svd = DPTruncatedSVD(1, epsilon=epsilon, delta=1e-8, privacy_unit=unit).fit(GRAPH)
    (vector,) = svd.components_
    return np.linalg.norm(GRAPH @ vector) / np.linalg.norm(vector) / LARGEST


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
@pytest.mark.parametrize("unit", [Edge((0, 1)), Entry((0, 1))], ids=repr)
def test_error_never_rises_with_the_budget(unit):
    found = [np.mean([length(epsilon, unit) for _ in range(3)]) for epsilon in EPSILONS]
    assert found[1] > found[0] - 0.01
    assert found[2] > max(0.995, found[1] - 0.002)


def test_columns_beyond_the_components_follow_the_budget():
    def size(epsilon, unit=EDGE, **more):
        svd = DPTruncatedSVD(2, epsilon=epsilon, privacy_unit=unit, **more)
        return svd.plan(2000, 2000).releases[-1].shape[0]

    for unit in (Edge((0, 1)), Entry((0, 1)), Interaction()):
        sizes = [size(epsilon, unit) for epsilon in (0.1, 1.0, 16.0, 256.0, 4096.0)]
        assert sizes == sorted(sizes)
        assert sizes[0] == 3
        assert sizes[-1] == 18
    assert size(256.0, n_oversamples=1) == 3
    assert size(1.0, delta=0.0) == 2
