import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from skdp.data.matrices import Design, RankOneMatrices
from skdp.data.sources import as_source
from skdp.linalg.matrices import FixedRank
from skdp.linear_model._trace_descent import Estimate
from skdp.linear_model._trace_fit import Transform, inverse_root

N = 50


def covariance(size, seed):
    root = np.random.default_rng(seed).normal(size=(size, size + 2))
    return root @ root.T


def make_point(shape, rank):
    generator = np.random.default_rng(2)
    left, right = (np.linalg.qr(generator.normal(size=(size, rank)))[0] for size in shape)
    return FixedRank(left, np.arange(rank, 0, -1.0), right)


def transform_of(shape, has_center, has_multipliers, maps):
    generator = np.random.default_rng(3)
    row_map, column_map = (
        inverse_root(covariance(size, size)) if is_mapped else None
        for size, is_mapped in zip(shape, maps, strict=True)
    )
    return Transform(
        generator.normal(size=shape) if has_center else None,
        generator.uniform(1, 2, size=shape) if has_multipliers else 0.3,
        row_map,
        column_map,
    )


def assert_undone(transform, source, matrices, point):
    """Whether the coefficients for given matrices predict what those for fitted ones do."""
    design = transform.apply(Design(source, matrices.shape[1:]))
    fitted = design.inner(point) + 0.7
    undone, offset = transform.undo(Estimate(point, 0.7))
    given = np.einsum("nij,ij->n", matrices, undone.matrix) + offset
    assert_allclose(given, fitted, atol=1e-12)
    for basis in (undone.left, undone.right):
        assert_allclose(basis.T @ basis, np.eye(point.rank), atol=1e-12)
    assert np.all(np.diff(undone.values) <= 0)


@pytest.mark.parametrize("maps", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("has_center", [False, True])
def test_matrices(maps, has_center):
    shape = (4, 3)
    X = np.random.default_rng(0).normal(size=(N, *shape))
    transform = transform_of(shape, has_center, False, maps)
    assert_undone(transform, as_source(X.reshape(N, -1)), X, make_point(shape, 2))


@pytest.mark.covered
@pytest.mark.parametrize("shape", [(5, 1), (1, 5)])
@pytest.mark.parametrize("has_center", [False, True])
@pytest.mark.parametrize("has_multipliers", [False, True])
@pytest.mark.parametrize("is_mapped", [False, True])
def test_vectors(shape, has_center, has_multipliers, is_mapped):
    X = np.random.default_rng(0).normal(size=(N, *shape))
    maps = tuple(is_mapped and size > 1 for size in shape)
    transform = transform_of(shape, has_center, has_multipliers, maps)
    assert_undone(transform, as_source(X.reshape(N, -1)), X, make_point(shape, 1))


@pytest.mark.parametrize("maps", [(False, False), (True, False), (False, True), (True, True)])
def test_factors(maps):
    generator = np.random.default_rng(0)
    left, right = generator.normal(size=(N, 4)), generator.normal(size=(N, 3))
    matrices = np.einsum("ni,nj->nij", left, right)
    transform = transform_of((4, 3), False, False, maps)
    assert_undone(transform, RankOneMatrices(left, right), matrices, make_point((4, 3), 2))


def test_sparse_factors_are_mapped_by_diagonals():
    generator = np.random.default_rng(0)
    left, right = generator.normal(size=(N, 4)), generator.normal(size=(N, 3))
    left[left < 0], right[right < 0] = 0, 0
    transform = Transform(None, 0.3, *(generator.uniform(1, 2, size=size) for size in (4, 3)))
    matrices = np.einsum("ni,nj->nij", left, right)
    source = RankOneMatrices(sparse.csr_array(left), sparse.csr_array(right))
    assert_undone(transform, source, matrices, make_point((4, 3), 2))


def test_inverse_root():
    matrix = covariance(5, 0)
    root = inverse_root(matrix)
    assert_allclose(root, root.T)
    assert_allclose(root @ matrix @ root, np.eye(5), atol=1e-10)
    assert np.linalg.eigvalsh(root)[0] > 0
