import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from skdp.data.matrices import Design, RankOneMatrices
from skdp.data.sources import Source, as_source
from skdp.linalg.matrices import FixedRank

SHAPE = (4, 3)
# Several blocks, the last of another length.
N = 17_001


def make_values(n=N, shape=SHAPE, seed=0):
    return np.random.default_rng(seed).normal(size=(n, *shape))


def make_factors(n=N, shape=SHAPE):
    generator = np.random.default_rng(1)
    factors = [generator.normal(size=(n, size)) for size in shape]
    for part in factors:
        part[generator.random(part.shape) < 0.3] = 0.0
    return factors


def point_of(shape=SHAPE):
    generator = np.random.default_rng(2)
    left, right = (np.linalg.qr(generator.normal(size=(size, 2)))[0] for size in shape)
    return FixedRank(left, np.array([2.0, 1.0]), right)


def symmetric(size, seed):
    root = np.random.default_rng(seed).normal(size=(size, size))
    return root @ root.T


def design_of(values, n_jobs=None):
    return Design(as_source(values.reshape(len(values), -1)), values.shape[1:], n_jobs)


def total_of(design):
    return design.map_sum(
        lambda _, matrices: matrices.entries().weighted_sum(np.ones(len(matrices))),
        design.n_entries,
    )


# What a design gives


def given_by(design):
    """Everything that fits take from a design."""
    point = point_of()
    entries = total_of(design)
    norms = design.norms()
    return entries, norms, design.inner(point)


def expected_of(values):
    flat = values.reshape(len(values), -1)
    return flat.sum(axis=0), np.linalg.norm(flat, axis=1), flat @ point_of().matrix.ravel()


@pytest.mark.parametrize("contain", ["array", "float32", "F order", "memory map", "csr"])
def test_containers_are_read_alike(contain, tmp_path):
    values = make_values().astype(np.float32).astype(np.float64)
    flat = values.reshape(N, -1)
    mapped = np.memmap(tmp_path / "X", np.float64, mode="w+", shape=flat.shape)
    mapped[:] = flat
    containers = {
        "array": flat,
        "float32": flat.astype(np.float32),
        "F order": np.asfortranarray(flat),
        "memory map": mapped,
        "csr": sparse.csr_array(flat),
    }
    design = Design(as_source(containers[contain]), SHAPE)
    assert (design.n_records, design.n_entries) == (N, 12)
    for ours, exact in zip(given_by(design), expected_of(values), strict=True):
        assert ours.dtype == np.float64
        assert_allclose(ours, exact, rtol=1e-10, atol=1e-10)


@pytest.mark.covered
@pytest.mark.parametrize("has_center", [False, True])
@pytest.mark.parametrize("multiplier", ["number", "entries"])
@pytest.mark.parametrize("maps", list(itertools.product([False, True], [False, True])))
def test_written_out_matrices_are_centered_scaled_and_mapped(has_center, multiplier, maps):
    values = make_values()
    generator = np.random.default_rng(3)
    center = generator.normal(size=SHAPE) if has_center else None
    factors = 0.3 if multiplier == "number" else generator.uniform(1, 2, size=SHAPE)
    row_map, column_map = (
        symmetric(size, seed) if is_mapped else None
        for seed, (size, is_mapped) in enumerate(zip(SHAPE, maps, strict=True))
    )
    exact = (values - (0 if center is None else center)) * factors
    exact = exact if row_map is None else row_map @ exact
    exact = exact if column_map is None else exact @ column_map
    design = design_of(values)
    view = design.mapped(row_map, column_map)
    view = replace(view, multiplier=factors, center=center)
    for ours, expected in zip(given_by(view), expected_of(exact), strict=True):
        assert_allclose(ours, expected, rtol=1e-10, atol=1e-10)
    # A view: the design itself is as it was.
    for ours, expected in zip(given_by(design), expected_of(values), strict=True):
        assert_allclose(ours, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.covered
@pytest.mark.parametrize("contain", [np.array, sparse.csr_array])
@pytest.mark.parametrize("maps", list(itertools.product([False, True], [False, True])))
@pytest.mark.parametrize("is_written_out", [False, True])
def test_factors_are_scaled_and_mapped(contain, maps, is_written_out):
    left, right = make_factors()
    row_map, column_map = (
        symmetric(size, seed) if is_mapped else None
        for seed, (size, is_mapped) in enumerate(zip(SHAPE, maps, strict=True))
    )
    exact = 0.3 * np.einsum("ni,nj->nij", left, right)
    exact = exact if row_map is None else row_map @ exact
    exact = exact if column_map is None else exact @ column_map
    design = Design(RankOneMatrices(contain(left), contain(right)), SHAPE)
    view = design.mapped(row_map, column_map)
    view = replace(view, multiplier=0.3, writes_factors_out=is_written_out)
    for ours, expected in zip(given_by(view), expected_of(exact), strict=True):
        assert_allclose(ours, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("contain", [np.array, sparse.csr_array])
def test_factors_are_mapped_by_diagonals(contain):
    left, right = make_factors()
    diagonals = [np.random.default_rng(size).uniform(1, 2, size=size) for size in SHAPE]
    exact = np.einsum("ni,nj->nij", left * diagonals[0], right * diagonals[1])
    view = Design(RankOneMatrices(contain(left), contain(right)), SHAPE).mapped(*diagonals)
    for ours, expected in zip(given_by(view), expected_of(exact), strict=True):
        assert_allclose(ours, expected, rtol=1e-10, atol=1e-10)
    for part in (view.source.left, view.source.right):
        assert sparse.issparse(part) == (contain is sparse.csr_array)


@pytest.mark.parametrize("contain", [np.array, sparse.csr_array])
@pytest.mark.parametrize("is_diagonal", [False, True])
def test_factors_that_overflow_when_mapped_are_null(contain, is_diagonal):
    left, right = make_factors()
    rest = left.copy()
    left[0], rest[0] = 1.5e308, 0.0
    maps = [10 * symmetric(size, size) for size in SHAPE]
    if is_diagonal:
        maps = [10 * np.diag(matrix) for matrix in maps]
    with np.errstate(all="ignore"):
        views = [
            Design(RankOneMatrices(contain(part), contain(right)), SHAPE).mapped(*maps)
            for part in (left, rest)
        ]
        for ours, expected in zip(*map(given_by, views), strict=True):
            assert_allclose(ours, expected, rtol=1e-12)


# Blocks


def pieces_of(design):
    """First and last records of the pieces that a pass goes through."""
    found = []

    def _note(records, matrices):
        assert len(matrices) == records.stop - records.start
        found.append((records.start, records.stop))
        return np.zeros(1)

    design.map_sum(_note, 1)
    return sorted(found)


@pytest.mark.covered
@pytest.mark.parametrize("shape", [(1, 1), (4, 3), (50, 40), (300, 200)])
@pytest.mark.parametrize("contain", [np.asarray, sparse.csr_array])
def test_no_piece_is_a_single_record(shape, contain):
    # The product of one row may round differently from the same row among others.
    width = math.prod(shape)
    for n in [1, 2, 3, 31, 32, 33, 63, 64, 65, 96, 97, 255, 256, 257, 513]:
        rows = contain(np.broadcast_to(np.float32(0), (n, width)))
        pieces = pieces_of(Design(as_source(rows), shape))
        assert pieces[0][0] == 0
        assert pieces[-1][1] == n
        assert all(before[1] == after[0] for before, after in itertools.pairwise(pieces))
        assert min(stop - start for start, stop in pieces) > 1 or n == 1


# Rounding


THIRD = 1 / 3


class OneByOne(np.ndarray):
    """Values whose products are added up one term after the other, as any BLAS may."""

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        plain = [np.asarray(one) for one in inputs]
        if ufunc is not np.matmul:
            return getattr(ufunc, method)(*plain, **kwargs).view(OneByOne)
        first, second = plain
        terms = (first[..., :, [k]] * second[..., [k], :] for k in range(first.shape[-1]))
        return sum(terms).view(OneByOne)


def _second(_, matrices, side):
    return np.asarray(matrices.second_moment(side, np.ones(len(matrices))))


@pytest.mark.parametrize("shape", [(8, 8), (64, 2), (2, 64), (9, 1)])
def test_second_moments_have_no_longer_chain_than_is_charged(shape, monkeypatch):
    monkeypatch.setattr("skdp.data.reduce.LEAST_ROUNDING", 0.0)
    # The largest block in one piece. All terms have one sign, and most roundings, too.
    X = np.full((2048, math.prod(shape)), THIRD)
    design, errors = Design(Source(X.view(OneByOne)), shape), []
    assert len(pieces_of(design)) == 1
    for side, length in enumerate(shape):
        if length > 1:
            found = design.map_sum(partial(_second, side=side), length**2)
            exact = float(Fraction(THIRD) ** 2 * len(X) * shape[1 - side])
            errors.append(np.linalg.norm(found - exact))
    assert 0 < max(errors) <= design.rounding * math.prod(shape) * THIRD**2
