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


@pytest.mark.covered(at_most=1)
@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
@pytest.mark.parametrize("unit", [Edge((0, 1)), Entry((0, 1))], ids=repr)
def test_error_never_rises_with_the_budget(unit):
    found = [np.mean([length(epsilon, unit) for _ in range(3)]) for epsilon in EPSILONS]
    assert found[1] > found[0] - 0.01
    assert found[2] > max(0.995, found[1] - 0.002)


def table():
    """Users who have a few items of their own, which are coherent, beside flat groups."""
    random = np.random.default_rng(0)
    user, item = np.arange(3000) * 6 // 3000, np.arange(300) * 6 // 300
    chance = np.where(user[:, None] == item, 0.12, 0.02)
    chance[:, :3] = 0.0
    chance[:600, :3] = 0.95
    return csr_array((random.random(chance.shape) < chance).astype(float))


@pytest.mark.covered(at_most=1)
@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
@pytest.mark.parametrize(("solver", "least"), [("auto", 0.996), ("power", 0.985)])
def test_error_of_interactions_never_rises_with_the_budget(solver, least):
    X = table()
    rows = X.toarray() / np.sqrt(np.maximum(X.sum(axis=1), 1))[:, None]
    moment, found = rows.T @ rows, []
    best = np.linalg.eigvalsh(moment)[-10:].sum()
    for epsilon in (2.0, 16.0, 256.0):
        svd = DPTruncatedSVD(10, epsilon=epsilon, privacy_unit=Interaction(), solver=solver)
        V = svd.fit(X).components_
        found.append(np.trace(V @ moment @ V.T) / best)
    assert found == sorted(found)
    # Six steps, and averages of their products, leave .97 to .98.
    assert found[-1] > least


def test_the_moment_of_interactions_is_released_where_it_stands_out():
    def solver(epsilon, shape, k=4, floor=1):
        svd = DPTruncatedSVD(k, epsilon=epsilon, privacy_unit=Interaction(floor))
        return svd.plan(*shape).releases[-1].name

    assert solver(1.0, (30_000, 300)) == solver(np.inf, (300, 300)) == "second moment"
    # Of few users, of many items or directions, and from little budget, it would drown.
    assert solver(1.0, (3000, 300)) == solver(1.0, (30_000, 3000)) == "core"
    assert solver(1.0, (30_000, 300), k=100) == solver(0.1, (30_000, 300)) == "core"
    assert solver(1.0, (7000, 300)) == "core" != solver(1.0, (7000, 300), floor=5)


def test_steps_of_interactions_follow_the_budget():
    def n_steps(epsilon):
        svd = DPTruncatedSVD(2, epsilon=epsilon, privacy_unit=Interaction(), solver="power")
        return sum("product" in one.name for one in svd.plan(2000, 2000).releases)

    steps = [n_steps(epsilon) for epsilon in (0.1, 1.0, 16.0, 256.0, 4096.0)]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (6, 22)


def test_columns_beyond_the_components_follow_the_budget():
    def size(epsilon, unit=EDGE, **more):
        solver = "power" if unit == Interaction() else "auto"
        svd = DPTruncatedSVD(2, epsilon=epsilon, privacy_unit=unit, solver=solver, **more)
        return svd.plan(2000, 2000).releases[-1].shape[0]

    for unit in (Edge((0, 1)), Entry((0, 1)), Interaction()):
        sizes = [size(epsilon, unit) for epsilon in (0.1, 1.0, 16.0, 256.0, 4096.0)]
        assert sizes == sorted(sizes)
        assert sizes[0] == 3
        assert sizes[-1] == 18
    assert size(256.0, n_oversamples=1) == 3
    assert size(1.0, delta=0.0) == 2
