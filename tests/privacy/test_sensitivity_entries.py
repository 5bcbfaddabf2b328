"""Neighbors in a few entries: the rest cancels, so that the search is over the change alone."""

import itertools
import math

import numpy as np
import pytest

from skdp.privacy import sensitivity
from skdp.privacy.clipping import clip_rows
from skdp.units import ResolvedEdge, ResolvedEntry, ResolvedInteraction, ResolvedSparseRow

N_BASES, N_PAIRS = 40, 500  # of changes for each basis: 20,000 in all
M, N = 11, 8
VALUE_RANGES = ((0.0, 1.0), (-1.0, 2.0), (0.0, 5.0), (-3.0, -1.0))
EXCEEDED = 1 + 1e-9


def row_norms(basis):
    return np.linalg.norm(basis, axis=1)


def frobenius(changes):
    return np.linalg.norm(changes, axis=(1, 2))


def summed_norms(changes):
    return np.linalg.norm(changes, axis=2).sum(axis=1)


def bases():
    """Orthonormal bases of both sides, spread and concentrated ones, clipped or not."""
    generator = np.random.default_rng(0)
    for index in range(N_BASES):
        size = 1 + index % 3
        sides = []
        for n in (M, N):
            weights = generator.random((n, 1)) ** (index % 5)
            basis = np.linalg.qr(weights * generator.normal(size=(n, size)))[0]
            if index % 4 == 3:
                basis = clip_rows(basis, math.sqrt(2 * size / n))
            sides.append(basis)
        yield (*sides, generator)


def entry_changes(generator, value_range, shape=(M, N)):
    """Changes of one entry within its value_range, half of them from end to end."""
    steps = np.where(
        generator.random(N_PAIRS) < 0.5,
        value_range[1] - value_range[0],
        generator.uniform(*value_range, size=N_PAIRS)
        - generator.uniform(*value_range, size=N_PAIRS),
    )
    changes = np.zeros((N_PAIRS, *shape))
    rows, columns = (generator.integers(0, n, N_PAIRS) for n in shape)
    changes[np.arange(N_PAIRS), rows, columns] = steps * generator.choice([-1, 1], N_PAIRS)
    return changes


def edge_changes(generator, value_range):
    changes = entry_changes(generator, value_range, (N, N))
    mirrored = changes.transpose(0, 2, 1)
    return np.where(changes == mirrored, changes, changes + mirrored)


def found_over_declared(change_of, declared_by, draw):
    """Largest ratio for each basis."""
    ratios = []
    for index, (left, right, generator) in enumerate(bases()):
        value_range = VALUE_RANGES[index % len(VALUE_RANGES)]
        found = change_of(draw(generator, value_range), left, right).max()
        ratios.append(found / declared_by(value_range[1] - value_range[0], left, right))
    return np.array(ratios)


ENTRY = {
    "A Z": (lambda c, y, z: frobenius(c @ z), lambda d, y, z: entry_product(d, z)),
    "A Z by rows": (lambda c, y, z: summed_norms(c @ z), lambda d, y, z: entry_product(d, z)),
    "A'Y": (
        lambda c, y, z: frobenius(c.transpose(0, 2, 1) @ y),
        lambda d, y, z: entry_product(d, y),
    ),
    "Y'A Z": (
        lambda c, y, z: frobenius(y.T @ c @ z),
        lambda d, y, z: sensitivity.entry_core(d, row_norms(y), row_norms(z)),
    ),
    "means": (
        lambda c, y, z: np.linalg.norm(c.mean(axis=1), axis=1),
        lambda d, y, z: sensitivity.entry_mean(d, M),
    ),
}


def entry_product(step, basis):
    return sensitivity.entry_product(step, row_norms(basis))


EDGE = {
    "A Z": (
        lambda c, y, z: frobenius(c @ z),
        lambda d, y, z: sensitivity.edge_product(d, row_norms(z)),
    ),
    "A Z by rows": (
        lambda c, y, z: summed_norms(c @ z),
        lambda d, y, z: sensitivity.edge_product_l1(d, row_norms(z)),
    ),
    "Z'A Z": (
        lambda c, y, z: frobenius(z.T @ c @ z),
        lambda d, y, z: sensitivity.symmetric_edge_core(d, row_norms(z)),
    ),
    "Y'A Z": (
        lambda c, y, z: frobenius(y[:N].T @ c @ z),
        lambda d, y, z: sensitivity.edge_core(d, row_norms(y[:N]), row_norms(z)),
    ),
    "means": (
        lambda c, y, z: np.linalg.norm(c.mean(axis=1), axis=1),
        lambda d, y, z: ResolvedEdge("replace", 0, d, True).mean(N),
    ),
    "means, summed": (
        lambda c, y, z: np.abs(c.mean(axis=1)).sum(axis=1),
        lambda d, y, z: ResolvedEdge("replace", 0, d, True).mean(N, is_laplace=True),
    ),
}


@pytest.mark.parametrize("statistic", ENTRY)
def test_changes_of_an_entry_reach_the_sensitivity_and_do_not_exceed_it(statistic):
    ratios = found_over_declared(*ENTRY[statistic], entry_changes)
    assert 0.999 <= ratios.max() <= EXCEEDED


@pytest.mark.parametrize("statistic", EDGE)
def test_changes_of_an_edge_reach_the_sensitivity_and_do_not_exceed_it(statistic):
    ratios = found_over_declared(*EDGE[statistic], edge_changes)
    # The longest rows of two different bases need not be those of one edge.
    assert (0.9 if statistic == "Y'A Z" else 0.999) <= ratios.max() <= EXCEEDED


def all_edges(step):
    for s, t in itertools.combinations_with_replacement(range(N), 2):
        change = np.zeros((1, N, N))
        change[0, s, t] = change[0, t, s] = step
        yield change


@pytest.mark.parametrize("statistic", [name for name in EDGE if "means" not in name])
def test_the_worst_of_all_edges_reaches_the_sensitivity_of_every_basis(statistic):
    change_of, declared_by = EDGE[statistic]
    for left, right, _ in bases():
        worst = max(change_of(change, left, right)[0] for change in all_edges(2.0))
        declared = declared_by(2.0, left, right)
        assert worst <= declared * EXCEEDED
        # Vectors of one entry are parallel, so that nothing is lost in the cores either.
        if statistic.startswith("A Z") or (right.shape[1] == 1 and statistic == "Z'A Z"):
            assert worst >= 0.999 * declared


@pytest.mark.covered
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
@pytest.mark.parametrize("zero_is_missing", [True, False])
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (3.0, 5.0), (-5.0, -3.0), (-1.0, 2.0)])
def test_squares_reach_the_sensitivity_and_do_not_exceed_it(adjacency, zero_is_missing, bounds):
    generator = np.random.default_rng(1)
    values = np.append(generator.uniform(*bounds, size=200), bounds)
    others = np.append(values, 0.0) if zero_is_missing else values
    if adjacency == "zero_out":
        others = np.zeros(1)
    for center in (np.zeros(1), generator.uniform(*bounds, size=1), generator.normal(size=1) * 50):
        squares = [part * (part - 2 * center) for part in (values, others)]
        found = np.abs(np.subtract.outer(*squares)).max()
        unit = (adjacency, *bounds, zero_is_missing)
        assert found <= ResolvedEntry(*unit).squares(center) * EXCEEDED
        assert 2 * found <= ResolvedEdge(*unit).squares(center) * EXCEEDED
    # About the middle of what is possible, one end and the middle are the worst.
    lower, upper = ResolvedEntry(*unit).value_range
    middle = np.array([lower + upper]) / 2
    assert ResolvedEntry(*unit).squares(middle) == pytest.approx((upper - lower) ** 2 / 4)


def rows_of(generator, value_range, n_entries, basis):
    """Short rows: at random, at the ends, and along a basis."""
    rows = np.zeros((3 * N_PAIRS, N))
    for part, start in enumerate(range(0, len(rows), N_PAIRS)):
        scores = generator.random((N_PAIRS, N))
        if part:
            scores = scores * row_norms(basis) ** generator.integers(0, 6, (N_PAIRS, 1))
        columns = np.argsort(-scores, axis=1)[:, :n_entries]
        values = generator.uniform(*value_range, size=columns.shape)
        if part:
            values = generator.choice(value_range, size=columns.shape)
        if part == 2:
            along = (basis @ generator.normal(size=basis.shape[1]))[columns]
            values = np.where(along > 0, value_range[1], value_range[0])
        np.put_along_axis(rows[start : start + N_PAIRS], columns, values, axis=1)
    return rows


def row_changes(generator, value_range, n_entries, adjacency, basis):
    """Changes from a short row to another or none; half of them between opposite ones."""
    rows = rows_of(generator, value_range, n_entries, basis)
    if adjacency == "zero_out":
        return rows
    others = rows_of(generator, value_range, n_entries, basis)[generator.permutation(len(rows))]
    opposite = np.where(rows == 0, 0, np.where(rows == value_range[1], *value_range))
    return np.vstack([rows - others, rows - opposite])


@pytest.mark.covered
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
@pytest.mark.parametrize("n_entries", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("value_range", [(-1.0, 1.0), (0.0, 1.0), (-1.0, 2.0), (-5.0, 0.0)])
def test_short_rows_do_not_exceed_their_sensitivities(adjacency, n_entries, value_range):
    unit = ResolvedSparseRow(adjacency, *value_range, True, n_entries)
    of_row, of_product, of_core = [], [], []
    for left, right, generator in itertools.islice(bases(), 14):
        changes = row_changes(generator, value_range, n_entries, adjacency, right)
        products = np.linalg.norm(changes @ right, axis=1)
        lengths = np.linalg.norm(changes, axis=1)
        of_row.append(lengths.max() / (unit.mean(1)))
        of_product.append(products.max() / unit.product(row_norms(right)))
        core = row_norms(left).max() * products.max()
        of_core.append(core / unit.core(row_norms(left), row_norms(right)))
        adjoint = row_norms(left).max() * lengths.max()
        assert adjoint <= unit.rmatmul(row_norms(left)) * EXCEEDED
        rows = rows_of(generator, value_range, n_entries, right)
        for point in (
            np.zeros(N),
            generator.uniform(*value_range, size=N),
            9 * generator.normal(size=N),
        ):
            squares = (rows * (rows - 2 * point)).sum(axis=1)
            worst = np.ptp(squares) if adjacency == "replace" else np.abs(squares).max()
            assert worst <= unit.squares(point) * EXCEEDED
    assert max(of_row + of_product + of_core) <= EXCEEDED
    # Two disjoint rows may not fit.
    if 2 * n_entries < N or adjacency == "zero_out":
        assert max(of_row) > 0.999
        # Entries of one sign do not follow a basis of two.
        assert max(of_product) > (0.99 if value_range[0] == -value_range[1] else 0.7)


def interactions(floor, basis, generator):
    """Rows with about as many interactions as the floor, and one more of them."""
    n = len(basis)
    norms = row_norms(basis)
    for degree in sorted({0, 1, floor - 1, floor, floor + 1, floor + 3} & set(range(n))):
        for item in (int(norms.argmax()), int(generator.integers(n))):
            similarity = basis @ basis[item]
            for scores in (similarity, generator.random(n), norms + 0.0):
                scores[item] = -np.inf
                before = np.zeros(n)
                before[np.argsort(-scores)[:degree]] = 1
                after = before.copy()
                after[item] = 1
                yield before, after


def moment(row, floor):
    return np.outer(row, row) / max(row.sum(), floor)


def interaction_bases():
    generator = np.random.default_rng(2)
    n = 26
    yield np.eye(n), generator
    yield np.full((n, 1), 1 / math.sqrt(n)), generator
    yield np.eye(n, 1), generator
    for index in range(40):
        weights = generator.random((n, 1)) ** (index % 6)
        basis = np.linalg.qr(weights * generator.normal(size=(n, 1 + index % 4)))[0]
        yield clip_rows(basis, 0.4) if index % 3 == 2 else basis, generator


@pytest.mark.covered(at_most=4)
@pytest.mark.parametrize("floor", range(1, 21))
def test_interactions_reach_the_sensitivity_and_do_not_exceed_it(floor):
    ratios, cores = [], []
    for basis, generator in interaction_bases():
        declared = sensitivity.interaction_product(row_norms(basis), floor)
        for before, after in interactions(floor, basis, generator):
            change = (moment(after, floor) - moment(before, floor)) @ basis
            ratios.append(np.linalg.norm(change) / declared)
            cores.append(np.linalg.norm(basis.T @ change) / declared)
    assert len(ratios) > 1000
    assert 0.999 < max(ratios) <= EXCEEDED
    assert max(cores) <= EXCEEDED


def normalized_interactions(floor, generator):
    basis = np.full((26, 1), 1 / math.sqrt(26))
    for rows in interactions(floor, basis, generator):
        yield [row / math.sqrt(max(row.sum(), floor)) for row in rows]


@pytest.mark.parametrize("floor", range(1, 21))
def test_means_and_squares_of_interactions_reach_the_sensitivity_and_do_not_exceed_it(floor):
    pairs, unit = (
        list(normalized_interactions(floor, np.random.default_rng(3))),
        ResolvedInteraction("replace", floor),
    )
    means = [np.linalg.norm(after - before) for before, after in pairs]
    squares = [abs(after @ after - before @ before) for before, after in pairs]
    for moved, declared in ((means, unit.mean(1)), (squares, unit.squares(np.zeros(26)))):
        assert 0.999 < max(moved) / declared <= EXCEEDED


def test_spectral_changes_reach_the_sensitivity_and_do_not_exceed_it():
    ratios = []
    for index, (_, basis, generator) in enumerate(bases()):
        half = generator.normal(size=(N_PAIRS, N, N))
        changes = half + half.transpose(0, 2, 1)
        if index % 2:
            vectors = generator.normal(size=(N_PAIRS, N, 1))
            changes = vectors @ vectors.transpose(0, 2, 1)
        changes /= np.linalg.norm(changes, 2, axis=(1, 2))[:, None, None]
        changes[0] = np.eye(N)
        declared = sensitivity.spectral_product(row_norms(basis))
        ratios.append(frobenius(changes @ basis).max() / declared)
        assert frobenius(basis.T @ changes @ basis).max() <= declared * EXCEEDED
    assert 0.999 < max(ratios) <= EXCEEDED


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_a_row_has_no_more_entries_than_there_are_columns(adjacency):
    norms, point = np.full(6, 0.5), np.zeros(6)
    for most in (7, 10**6, 2**62, 10**30):
        product, squares = sensitivity.short_row_product, sensitivity.short_row_squares
        assert product(3.0, 2.0, most, adjacency, norms) <= product(3.0, 2.0, 6, adjacency, norms)
        assert squares(0.0, 2.0, most, adjacency, point) == squares(0.0, 2.0, 6, adjacency, point)
