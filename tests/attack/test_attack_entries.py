"""Every release of fits that protect entries, edges, interactions and short rows, attacked."""

import functools
import itertools

import numpy as np
import pytest
from containers import contain
from covers import each
from entry_cells import CELLS, Cell
from entry_neighbors import attack, with_entry
from scipy import sparse

from skdp.testing._recording import farthest, record, replay

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning"),
    pytest.mark.usefixtures("_quick_post_processing"),
]

ROUNDING = 1 + 1e-12


@pytest.fixture
def _quick_post_processing(monkeypatch):
    # Whatever is done with releases, the next one has to be private.
    monkeypatch.setattr("skdp.linalg.denoising._N_STEPS", 1)


@pytest.mark.slow
@each(CELLS, unit=("entry", "edge"), model="pca", bounds="signed")
def test_no_entry_at_all_moves_a_release_further_than_declared(cell):
    X = cell.data(np.random.default_rng(3))
    recorded = record(cell, X)
    is_edge = cell.unit == "edge"
    ratios = []
    for index in itertools.product(*map(range, X.shape)):
        for value in (0.0,) if cell.adjacency == "zero_out" else cell.value_range:
            neighbor = with_entry(X, index, value, mirror=is_edge)
            replayed = replay(cell, neighbor, recorded.released)
            ratios.append(max(farthest([replayed], recorded).values()))
    assert max(ratios) <= ROUNDING


CONTAINERS = ("csr", "csr with duplicates", "csr with zeros", "float32", "blocks", "sparse blocks")


CONTAINED = [
    pytest.param(cell, container, id=f"{cell}, {container}")
    for cell in CELLS
    for container in CONTAINERS
    if cell.model == "pca" and cell.adjacency == "replace" and not cell.is_pure
    # Edges need a matrix in memory; the zeros of a sparse one have to be within the bounds.
    if not (cell.unit == "edge" and "blocks" in container)
    if not (cell.bounds == "away from 0" and container not in ("float32", "blocks"))
    if cell.solver != "deflation" and cell.bounds not in ("stars", "clicks")
]


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize(("cell", "container"), CONTAINED)
def test_other_containers_keep_the_sensitivity(cell, container):
    def make():
        estimator = cell()
        fit = estimator.fit
        estimator.fit = lambda X: fit(contain(X, container))
        return estimator

    generator = np.random.default_rng(4)
    worst = attack(cell, cell.data(generator), generator, make)
    assert max(worst.values()) <= ROUNDING, worst


@pytest.mark.parametrize("center", ["private", "public"])
@pytest.mark.parametrize("lower", [1.0, 1e6])
def test_bounds_close_to_each_other_and_far_from_0_keep_the_sensitivity(lower, center):
    # Sums of large numbers round by more than what their small differences are charged.
    bounds = (lower, lower + (1.0 if lower > 1 else 1e-9))
    cell = Cell("entry", "alternating", "pca", bounds="away from 0")
    center = "private" if center == "private" else np.full(9, lower)
    generator = np.random.default_rng(7)
    for _ in range(4):
        X = generator.uniform(*bounds, size=(2000, 9))
        X[0, 0], neighbor = bounds[0], with_entry(X, (0, 0), bounds[1], mirror=False)
        make = functools.partial(cell, bounds=bounds, center=center, n_iter=1)
        recorded = record(make, X)
        replayed = replay(make, neighbor, recorded.released)
        assert max(farthest([replayed], recorded).values()) <= ROUNDING


@pytest.mark.parametrize("is_pure", [False, True])
@pytest.mark.parametrize("size", [1e12, 1e15])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_spectral_changes_of_large_matrices_keep_the_sensitivity(container, size, is_pure):
    # Products of so large numbers round by more than what a change of norm 1 moves them.
    order = 64
    cell = Cell("spectral", "power", "svd", is_pure=is_pure, size=size)
    half = np.random.default_rng(8).normal(size=(order, order))
    X = half + half.T
    X *= size / (2 * np.abs(X).max())
    recorded = record(cell, container(X))
    basis = np.linalg.qr(half)[0]
    reflection = np.eye(order) - 2 * np.outer(basis[0], basis[0])
    for change in (np.eye(order), -np.eye(order), reflection, -reflection):
        replayed = replay(cell, container(X + change), recorded.released)
        assert max(farthest([replayed], recorded).values()) <= 1


def test_what_exceeds_the_bounds_of_a_spectral_change_is_cut():
    cell = Cell("spectral", "power", "svd")
    X = 1e7 * cell.data(np.random.default_rng(9))
    assert np.abs(X).max() > 1e6
    recorded = record(cell, X)
    replayed = replay(cell, np.clip(X, -1e6, 1e6), recorded.released)
    assert set(farthest([replayed], recorded).values()) == {0.0}
    # Without noise there is nothing to bound.
    whole = cell(epsilon=np.inf, random_state=0, n_iter=100).fit(X)
    assert whole.singular_values_[0] == pytest.approx(np.linalg.norm(X, 2), rel=1e-6)


def test_float32_keeps_the_sensitivity_of_bounds_that_it_cannot_hold():
    cell = Cell("entry", "alternating", "svd", bounds="away from 0")
    X = np.ones(cell.shape, dtype=np.float32)
    neighbor = with_entry(X, (0, 0), 2.0, mirror=False)
    make = functools.partial(cell, bounds=(1.0, 1 + 7e-8))
    recorded = record(make, X)
    assert max(farthest([replay(make, neighbor, recorded.released)], recorded).values()) <= ROUNDING
