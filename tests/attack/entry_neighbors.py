"""Neighbors in an entry, an edge, an interaction, a short row, or the spectral norm."""

from functools import partial

import numpy as np
from entry_cells import N_ENTRIES
from harness import null_entry, watched_bases
from row_cells import with_row

from skdp.testing._recording import Group, farthest_of, record

ODD_VALUES = (0.0, -0.0, 1e300, -1e20, 5e-324, -1e-310, np.finfo(float).max, 0.7)


def attack(cell, X, generator, make=None):
    """Largest movement of every release over neighbors of X, in declared sensitivities."""
    return farthest_of(make or cell, groups(cell, X, generator, make))


def groups(cell, X, generator=None, make=None):
    """Neighbors of X, and others that are as far apart."""
    generator = generator or np.random.default_rng(0)
    with watched_bases() as bases:
        record(make or cell, X)
    find = {
        "row": row_neighbors,
        "interaction": interaction_neighbors,
        "spectral": spectral_neighbors,
    }
    return find.get(cell.unit, entry_neighbors)(cell, X, bases, generator)


def beside(origin, datasets):
    """Neighbors of one matrix, not of each other."""
    return [Group([(X,) for X in datasets], origin=(origin,))]


def entry_neighbors(cell, X, bases, generator):
    targets = worst_entries(cell, bases)
    is_edge = cell.unit == "edge"
    lower, upper = cell.value_range
    if cell.adjacency == "zero_out":
        return [
            Group(
                [(X,), (with_entry(X, target, lower + upper - X[target], mirror=is_edge),)],
                origin=(X,),
                make_null=partial(null_entry, target),
            )
            for target in targets
        ]
    loop = (targets[0][1],) * 2
    found = [
        with_entry(X, target, lower + upper - X[target], mirror=is_edge)
        for target in [*targets, loop]
    ]
    for value in ODD_VALUES:
        target = tuple(generator.integers(0, min(X.shape), 2).tolist())
        found.append(with_entry(X, target, value, mirror=is_edge))
    return beside(X, found)


def worst_entries(cell, bases):
    """Entries whose change moves some product as far as any does."""
    right, left = bases
    if cell.unit == "edge":
        longest = [longest_rows(basis)[:2] for basis in right + left]
        # The core is moved by a long row of either side.
        longest += [
            [longest_rows(y)[0], longest_rows(z)[0]] for y, z in zip(left, right, strict=False)
        ]
        return list(dict.fromkeys(tuple(sorted(pair)) for pair in longest))
    rows = [int(longest_rows(basis)[0]) for basis in left] or [0]
    columns = [int(longest_rows(basis)[0]) for basis in right] or [0]
    n = max(len(rows), len(columns))
    return list(dict.fromkeys(zip((rows * n)[:n], (columns * n)[:n], strict=True)))


def longest_rows(basis):
    """Rows of a basis, from the longest to the shortest."""
    return np.argsort(-np.linalg.norm(basis, axis=1)).tolist()


def row_neighbors(cell, X, bases, generator):
    # In the place of the row that is longest in the last basis of the other side.
    index = longest_rows(bases[1][-1])[0]
    found = [with_row(X, index, row) for row in short_rows(cell, bases[0][-1], generator)]
    if cell.adjacency == "zero_out":
        # A row of zeros adds nothing to anything.
        return beside(with_row(X, index, np.zeros(X.shape[1])), found)
    return [Group([(one,) for one in (X, *found)])]


def short_rows(cell, basis, generator):
    """Rows with more entries than are kept, along a basis and at random."""
    lower, upper = cell.value_range
    d = len(basis)
    order = longest_rows(basis)
    first, second = np.zeros(d), np.zeros(d)
    first[order[:N_ENTRIES]] = upper
    second[order[:N_ENTRIES]] = lower
    second[order[N_ENTRIES : 2 * N_ENTRIES]] = upper
    along = basis @ generator.normal(size=basis.shape[1])
    rows = [first, second, np.where(along > 0, upper, lower), np.where(along > 0, lower, upper)]
    rows += [np.zeros(d), np.full(d, 1e300), np.full(d, -1e300), np.full(d, 5e-324)]
    rows += [10.0 ** np.linspace(-300, 300, d), np.where(np.arange(d) == d - 1, -1e20, upper)]
    return rows + [generator.choice([lower, upper, 0.0], size=d) for _ in range(4)]


def interaction_neighbors(cell, X, bases, generator):
    """One interaction more, of a user with about as many as the floor."""
    found = []
    # A moment that is released whole is its product with the identity.
    right = bases[0] or [np.eye(X.shape[1])]
    for degree in range(cell.degree_floor + 4):
        basis = right[degree % len(right)]
        item = longest_rows(basis)[0]
        # Those in the direction of the item, which add up.
        similarity = basis @ basis[item]
        similarity[item] = -np.inf
        before = np.zeros(len(basis))
        before[np.argsort(-similarity)[:degree]] = generator.choice([1.0, -1e300, 5e-324])
        after = before.copy()
        after[item] = 1.0
        found += beside(with_row(X, 0, before), [with_row(X, 0, after)])
    return found


def spectral_neighbors(cell, X, bases, generator):
    """Changes of spectral norm 1."""
    basis = bases[0][-1]
    direction = basis[:, 0] / np.linalg.norm(basis[:, 0])
    half = generator.normal(size=X.shape)
    full = (half + half.T) / np.linalg.norm(half + half.T, 2)
    identity, projector = np.eye(len(X)), np.outer(direction, direction)
    changes = [projector, identity, -identity, full, full / 1e6, identity - 2 * projector]
    return beside(X, [X + change for change in changes])


def with_entry(X, index, value, *, mirror):
    """Change one entry, and its mirror image."""
    X = X.copy()
    X[index] = value
    if mirror:
        X[index[::-1]] = value
    return X
