import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from skdp.linalg.matrices import (
    DenseMatrices,
    FixedRank,
    OuterMatrices,
    project_coordinates,
)

N, D1, D2, RANK = 20, 5, 4, 2
SHAPES = {"tall": (5, 4), "wide": (3, 7), "column": (6, 1), "row": (1, 6)}
# Dense and sparse factors, and one of each.
FACTORS = {
    "dense": (np.array, np.array),
    "sparse": (sparse.csr_array, sparse.csr_array),
    "left sparse": (sparse.csr_array, np.array),
    "right sparse": (np.array, sparse.csr_array),
}
INTERCEPTS = [0.0, 1.0]


def point_of(shape, seed=0):
    generator = np.random.default_rng(seed)
    rank = min(RANK, *shape)
    left, right = (np.linalg.qr(generator.normal(size=(size, rank)))[0] for size in shape)
    return FixedRank(left, np.linspace(2, 1, rank), right)


def coordinates_of(matrices, point, intercept):
    """All the coordinates that a block gives, computed matrix by matrix."""
    U, V = point.left, point.right
    rank = V.shape[1]

    def _with_intercept(vector):
        return np.append(vector, intercept) if intercept > 0 else vector

    def _tangent(X):
        across = U.T @ X
        beside = across - (across @ V) @ V.T
        return _with_intercept(np.concatenate([(X @ V).ravel(), beside.ravel()]))

    explicit = {"entries": np.ravel, "tangent": _tangent}
    assert rank == U.shape[1]
    return {name: np.stack([form(X) for X in matrices]) for name, form in explicit.items()}


def given_coordinates(block, point, intercept):
    """Ways to get the same from a block; each call gives new ones, as they are used up."""
    return {"entries": block.entries, "tangent": lambda: block.tangent(point, intercept)[0]}


def projected(name, total, point, intercept):
    """What a sum is used for: that of tangent coordinates is projected first."""
    if name != "tangent":
        return total
    if intercept == 0:
        return project_coordinates(point, total)
    return np.append(project_coordinates(point, total[:-1]), total[-1])


def assert_block_gives(block, matrices, point, intercept, *, tight=1e-6):
    """Whether sizes, norms and weighted sums are those of explicit coordinates."""
    generator = np.random.default_rng(1)
    weights, factors = generator.normal(size=(2, len(matrices)))
    # Records of weight 0 are left out.
    weights[::5] = 0.0
    expected = coordinates_of(matrices, point, intercept)
    # What rounding is relative to: a product may be much shorter than its terms.
    sizes = np.hypot(np.linalg.norm(matrices, axis=(1, 2)), intercept)
    for name, coordinates in given_coordinates(block, point, intercept).items():
        vectors = expected[name]
        given = coordinates()
        assert given.size == vectors.shape[1], name
        lengths = np.linalg.norm(vectors, axis=1)
        norms = given.norms()
        assert np.all(norms >= lengths - 1e-14 * sizes), name
        assert_allclose(norms, lengths, rtol=tight, atol=tight, err_msg=name)
        total = projected(name, given.weighted_sum(weights), point, intercept)
        assert_allclose(total, weights @ vectors, atol=1e-12, err_msg=name)
        given = coordinates()
        given.multiply(factors)
        assert_allclose(
            given.norms(), np.abs(factors) * lengths, rtol=tight, atol=tight, err_msg=name
        )
        total = projected(name, given.weighted_sum(weights), point, intercept)
        assert_allclose(total, (weights * factors) @ vectors, atol=1e-12, err_msg=name)
    weighted = weights[:, np.newaxis, np.newaxis] * matrices
    for side, moment in enumerate(("nij,nkj->ik", "nji,njk->ik")):
        exact, found = np.einsum(moment, weighted, weighted), block.second_moment(side, weights)
        # Of sparse factors nothing is written out but the diagonal.
        exact = np.diag(exact) if found.ndim == 1 else exact
        assert_allclose(found, exact, atol=1e-12)
    values = np.array([np.vdot(X, point.matrix) for X in matrices])
    assert_allclose(block.tangent(point, intercept)[1], values, atol=1e-12)
    assert_allclose(block.norms(), np.linalg.norm(matrices, axis=(1, 2)), rtol=1e-12)
    assert len(block) == len(matrices)


def symmetric(size, generator):
    root = generator.normal(size=(size, size))
    return root @ root.T / size


MAPS = {
    "plain": (False, False),
    "row map": (True, False),
    "column map": (False, True),
    "both": (True, True),
}


@pytest.mark.covered
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("scale", [1.0, 0.3])
@pytest.mark.parametrize("maps", MAPS)
@pytest.mark.parametrize("shape", SHAPES)
def test_written_out_matrices_are_scaled_and_mapped_lazily(shape, maps, scale, intercept):
    generator = np.random.default_rng(0)
    values = generator.normal(size=(N, *SHAPES[shape]))
    row_map, column_map = (
        symmetric(size, generator) if is_mapped else None
        for size, is_mapped in zip(SHAPES[shape], MAPS[maps], strict=True)
    )
    exact = scale * values
    exact = exact if row_map is None else np.stack([row_map @ X for X in exact])
    exact = exact if column_map is None else np.stack([X @ column_map for X in exact])
    kept = values.copy()
    block = DenseMatrices(values, scale, row_map, column_map)
    point = point_of(SHAPES[shape])
    assert_block_gives(block, exact, point, intercept, tight=1e-12)
    # Nothing is done to the rows of the user.
    assert_array_equal(values, kept)


def factors_of(shape, generator):
    parts = [generator.normal(size=(N, size)) for size in shape]
    for part in parts:
        part[generator.random(part.shape) < 0.3] = 0.0
    parts[0][3], parts[1][4] = 0.0, 0.0
    return parts


@pytest.mark.covered
@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("scale", [1.0, 0.3])
@pytest.mark.parametrize("kind", FACTORS)
@pytest.mark.parametrize("shape", SHAPES)
def test_outer_products_are_those_written_out(shape, kind, scale, intercept):
    left, right = factors_of(SHAPES[shape], np.random.default_rng(0))
    written_out = scale * np.einsum("ni,nj->nij", left, right)
    contain_left, contain_right = FACTORS[kind]
    block = OuterMatrices(contain_left(left), contain_right(right), scale)
    point = point_of(SHAPES[shape])
    assert_block_gives(block, written_out, point, intercept)
    assert_block_gives(DenseMatrices(written_out), written_out, point, intercept, tight=1e-12)


@pytest.mark.covered
@pytest.mark.parametrize("kind", FACTORS)
@pytest.mark.parametrize("outside", [0.0, 1e-12, 1e-8, 1e-4, 1.0])
def test_norms_are_bounds_where_factors_are_close_to_a_subspace(kind, outside):
    # There the norm outside it, from what is inside, cancels.
    generator = np.random.default_rng(0)
    point = point_of((D1, D2))
    left = generator.normal(size=(N, D1))
    inside = generator.normal(size=(N, RANK)) @ point.right.T
    right = inside + outside * generator.normal(size=(N, D2))
    contain_left, contain_right = FACTORS[kind]
    block = OuterMatrices(contain_left(left), contain_right(right))
    vectors = coordinates_of(np.einsum("ni,nj->nij", left, right), point, 0.0)["tangent"]
    lengths = np.linalg.norm(vectors, axis=1)
    norms = block.tangent(point, 0.0)[0].norms()
    assert np.all(norms >= lengths * (1 - 1e-14))
    assert_allclose(norms, lengths, rtol=1e-6)


# Extremes: in sums of weighted vectors, none of which is NaN, and weights of null vectors are 0


EXTREMES = [0.0, 5e-324, 1e-310, 1e-160, 1e-101, 1e-99, 1e99, 1e101, 1e160, 1e300, 1.7e308]


def weights_of(norms):
    """Weights that clip to 1, with 0 for what is null, as private sums choose them."""
    with np.errstate(all="ignore"):
        weights = np.minimum(1 / norms, 1.0)
    weights[~(weights >= 2.0**-500)] = 0.0
    return weights


def assert_clipped_sums_are_finite(block, point, factors):
    weights = weights_of(block.norms())
    for side in (0, 1):
        moment = block.second_moment(side, weights)
        assert np.isfinite(moment).all()
        trace = np.trace(moment) if moment.ndim == 2 else moment.sum()
        assert 0 <= trace <= np.count_nonzero(weights) * (1 + 1e-12)
    for intercept in INTERCEPTS:
        for name, coordinates in given_coordinates(block, point, intercept).items():
            given = coordinates()
            given.multiply(factors)
            weights = weights_of(given.norms())
            total = given.weighted_sum(weights)
            assert np.isfinite(total).all(), name
            assert np.linalg.norm(total) <= np.count_nonzero(weights) * (1 + 1e-12), name


@pytest.mark.covered
@pytest.mark.parametrize("factor", [0.0, 1.0, -1e-310, 1e300])
@pytest.mark.parametrize("size", EXTREMES)
def test_extreme_matrices_do_no_harm_to_clipped_sums(size, factor):
    generator = np.random.default_rng(0)
    values = generator.uniform(-1, 1, size=(N, D1, D2))
    values[0], values[1, 0] = size, -size
    factors = np.full(N, 1.0)
    factors[[0, 1]] = factor
    with np.errstate(all="ignore"):
        assert_clipped_sums_are_finite(DenseMatrices(values), point_of((D1, D2)), factors)
        assert_clipped_sums_are_finite(DenseMatrices(values[:, :, :1]), point_of((D1, 1)), factors)


@pytest.mark.covered
@pytest.mark.parametrize("kind", FACTORS)
@pytest.mark.parametrize("factor", [0.0, 1.0, -1e-310, 1e300])
@pytest.mark.parametrize("is_whole", [True, False])
def test_extreme_factors_do_no_harm_to_clipped_sums(kind, factor, is_whole):
    generator = np.random.default_rng(0)
    sizes = np.array(list(itertools.product(EXTREMES, EXTREMES)))
    left = generator.uniform(-1, 1, size=(len(sizes) + N, D1))
    right = generator.uniform(-1, 1, size=(len(sizes) + N, D2))
    entries = slice(None) if is_whole else slice(1)
    left[: len(sizes), entries], right[: len(sizes), entries] = sizes[:, :1], -sizes[:, 1:]
    contain_left, contain_right = FACTORS[kind]
    factors = np.full(len(left), factor)
    factors[-N:] = 1.0
    with np.errstate(all="ignore"):
        block = OuterMatrices(contain_left(left), contain_right(right))
        assert_clipped_sums_are_finite(block, point_of((D1, D2)), factors)


@pytest.mark.covered
@pytest.mark.parametrize("kind", FACTORS)
@pytest.mark.parametrize("extreme", [0.0, 1e-101, 1e101, 1e300])
def test_too_long_and_too_short_factors_are_null(kind, extreme):
    generator = np.random.default_rng(0)
    left, right = generator.uniform(1, 2, size=(N, D1)), generator.uniform(1, 2, size=(N, D2))
    rest = OuterMatrices(left[1:], right[1:])
    left[0] = extreme
    contain_left, contain_right = FACTORS[kind]
    block = OuterMatrices(contain_left(left), contain_right(right))
    point = point_of((D1, D2))
    assert block.norms()[0] == 0
    assert block.tangent(point, 0.0)[1][0] == 0
    expected = given_coordinates(rest, point, 0.0)
    for name, coordinates in given_coordinates(block, point, 0.0).items():
        given = coordinates()
        assert given.norms()[0] == 0, name
        total = given.weighted_sum(np.ones(N))
        without = expected[name]().weighted_sum(np.ones(N - 1))
        assert_allclose(total, without, rtol=1e-12, err_msg=name)


def test_factors_that_are_not_numbers_make_null_vectors():
    generator = np.random.default_rng(0)
    factors = np.ones(N)
    factors[:3] = np.nan, np.inf, -np.inf
    values = generator.normal(size=(N, D1, D2))
    left, right = generator.normal(size=(N, D1)), generator.normal(size=(N, D2))
    point = point_of((D1, D2))
    for block in (DenseMatrices(values), OuterMatrices(left, right)):
        for name, coordinates in given_coordinates(block, point, 1.0).items():
            given = coordinates()
            with np.errstate(all="ignore"):
                given.multiply(factors)
                norms = given.norms()
                assert not np.isfinite(norms[:3]).any(), name
                weights = weights_of(norms)
                assert_array_equal(weights[:3], 0)
                total = given.weighted_sum(weights)
            assert np.isfinite(total).all(), name


def test_norms_of_extreme_matrices():
    values = np.ones((6, D1, D2)) * np.array([0, 5e-324, 1e-200, 1, 1e200, 1e307])[:, None, None]
    norms = DenseMatrices(values).entries().norms()
    lengths = np.array([0, 0, 1e-200, 1, 1e200, 1e307]) * np.sqrt(D1 * D2)
    assert_allclose(norms, lengths, rtol=1e-12, atol=1e-300)
    values[2, 0, 0], values[3, 0, 0] = np.inf, np.nan
    with np.errstate(all="ignore"):
        norms = DenseMatrices(values).entries().norms()
    assert not np.isfinite(norms[2:4]).any()
    assert np.isfinite(norms[[0, 1, 4, 5]]).all()


@pytest.mark.parametrize("shape", [(4, 3), (3, 40), (30, 5)])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_product_of_one_user_rounds_as_among_those_of_others(shape, rank):
    generator = np.random.default_rng(rank)
    turns = [np.linalg.qr(generator.normal(size=(size, rank)))[0] for size in shape]
    point = FixedRank(turns[0], generator.normal(size=rank), turns[1])
    left, right = (generator.normal(size=(40, size)) for size in shape)

    def _found(rows):
        factors, weights = (left[rows].copy(), right[rows].copy()), np.ones(len(left[rows]))
        coordinates, inner = OuterMatrices(*factors, sample_weight=weights).tangent(point, 0.5)
        return np.stack([coordinates.norms(), inner])

    together = _found(slice(None))
    for first in range(40):
        for n_rows in (1, 2):
            rows = slice(first, first + n_rows)
            np.testing.assert_array_equal(_found(rows), together[:, rows])


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("shape", [(3, 23), (17, 9)])
def test_a_matrix_of_one_user_rounds_as_at_other_addresses(shape, rank):
    # Matrices with an odd number of entries start at multiples of 16 bytes, or between two.
    generator = np.random.default_rng(rank)
    turns = [np.linalg.qr(generator.normal(size=(size, rank)))[0] for size in shape]
    point = FixedRank(turns[0], generator.normal(size=rank), turns[1])
    values = generator.normal(size=(9, *shape))

    def _found(first):
        matrices = DenseMatrices(values[first:].copy(), sample_weight=np.ones(9 - first))
        coordinates, inner = matrices.tangent(point, 0.5)
        return np.column_stack([coordinates.values, inner])

    for first in range(9):
        np.testing.assert_array_equal(_found(first), _found(0)[first:])
