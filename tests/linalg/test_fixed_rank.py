import numpy as np
import pytest
from numpy.testing import assert_allclose

from skdp.linalg.matrices import (
    FixedRank,
    project_coordinates,
    retract,
    tangent_dimension,
    tangent_vector,
    truncate,
)

# Tall, wide, square, of one column, of full rank, and of one number.
CASES = [((7, 5), 2), ((4, 9), 3), ((6, 6), 1), ((8, 1), 1), ((1, 5), 1), ((3, 5), 3), ((1, 1), 1)]

every_case = pytest.mark.parametrize(("shape", "rank"), CASES)


def point_of(shape, rank, generator):
    left, right = (np.linalg.qr(generator.normal(size=(size, rank)))[0] for size in shape)
    return FixedRank(left, np.sort(generator.uniform(1, 3, size=rank))[::-1], right)


def projection(point, Z):
    """The projection onto the tangent space, as it is defined."""
    on_left, on_right = point.left @ point.left.T, point.right @ point.right.T
    return on_left @ Z + Z @ on_right - on_left @ Z @ on_right


def coordinates_of(point, Z):
    """The coordinates that are stored of the projection of a matrix."""
    across = point.left.T @ Z
    beside = across - across @ point.right @ point.right.T
    return np.concatenate([(Z @ point.right).ravel(), beside.ravel()])


def setting(shape, rank, seed=0):
    generator = np.random.default_rng(seed)
    point = point_of(shape, rank, generator)
    return point, generator.normal(size=shape), generator


@every_case
def test_coordinates_are_those_of_the_projection(shape, rank):
    point, Z, _ = setting(shape, rank)
    tangent = tangent_vector(point, coordinates_of(point, Z))
    assert tangent.shape == shape
    assert tangent.rank == 2 * rank
    assert_allclose(tangent.matrix, projection(point, Z), atol=1e-13)


@every_case
def test_coordinates_are_as_long_as_their_tangent_vectors(shape, rank):
    point, Z, generator = setting(shape, rank)
    first = coordinates_of(point, Z)
    second = project_coordinates(point, generator.normal(size=first.size))
    matrices = [tangent_vector(point, coordinates).matrix for coordinates in (first, second)]
    for coordinates, matrix in zip((first, second), matrices, strict=True):
        assert np.linalg.norm(coordinates) == pytest.approx(np.linalg.norm(matrix), rel=1e-12)
    assert first @ second == pytest.approx(np.vdot(*matrices), abs=1e-12)


@every_case
def test_coordinates_are_projected_once(shape, rank):
    point, Z, generator = setting(shape, rank)
    size = rank * sum(shape)
    assert_allclose(project_coordinates(point, coordinates_of(point, Z)), coordinates_of(point, Z))
    for _ in range(20):
        noise = generator.normal(size=size)
        projected = project_coordinates(point, noise)
        assert_allclose(project_coordinates(point, projected), projected, atol=1e-14)
        assert np.linalg.norm(projected) <= np.linalg.norm(noise)
        # Orthogonal: what is taken out is at a right angle to what stays.
        assert projected @ (noise - projected) == pytest.approx(0, abs=1e-12)
        matrix = tangent_vector(point, projected).matrix
        assert_allclose(coordinates_of(point, matrix), projected, atol=1e-13)


@every_case
def test_noise_in_coordinates_is_isotropic_in_the_tangent_space(shape, rank):
    # Exactly: the second moment of the tangent vectors of unit noise is the projection itself.
    point, _, _ = setting(shape, rank)
    units = np.eye(rank * sum(shape))
    vectors = [tangent_vector(point, project_coordinates(point, unit)).matrix for unit in units]
    flat = np.stack(vectors).reshape(len(units), -1)
    entries = np.eye(np.prod(shape)).reshape(-1, *shape)
    expected = np.stack([projection(point, entry) for entry in entries])
    assert_allclose(flat.T @ flat, expected.reshape(len(entries), -1), atol=1e-13)
    assert (flat**2).sum() == pytest.approx(tangent_dimension(shape, rank), rel=1e-12)


@every_case
@pytest.mark.parametrize("step", [-1.3, 0.0, 1e-3, 0.7])
def test_retraction_is_the_nearest_matrix_of_the_rank(shape, rank, step):
    point, Z, _ = setting(shape, rank)
    moved = retract(point, coordinates_of(point, Z), step)
    exact = point.matrix + step * projection(point, Z)
    left, values, right = np.linalg.svd(exact, full_matrices=False)
    assert_allclose(moved.values, values[:rank], atol=1e-12)
    assert_allclose(moved.matrix, (left[:, :rank] * values[:rank]) @ right[:rank], atol=1e-12)
    assert_orthonormal(moved)


@every_case
def test_retraction_from_zero_leaves_it(shape, rank):
    point, Z, _ = setting(shape, rank)
    point = point.with_values(np.zeros(rank))
    moved = retract(point, coordinates_of(point, Z), 1.0)
    assert_allclose(moved.matrix, truncate(projection(point, Z), rank).matrix, atol=1e-12)
    assert_orthonormal(moved)
    still = retract(point, np.zeros(rank * sum(shape)), 1.0)
    assert_orthonormal(still)
    assert_allclose(still.values, 0)


@every_case
def test_truncation_is_the_nearest_matrix_of_the_rank(shape, rank):
    _, Z, _ = setting(shape, rank)
    nearest = truncate(Z, rank)
    left, values, right = np.linalg.svd(Z)
    assert_allclose(nearest.matrix, (left[:, :rank] * values[:rank]) @ right[:rank], atol=1e-13)
    assert np.linalg.norm(Z - nearest.matrix) == pytest.approx(
        np.linalg.norm(values[rank:]), abs=1e-13
    )
    assert_orthonormal(nearest)


def test_any_factors_have_an_orthonormal_form():
    generator = np.random.default_rng(0)
    left, right = generator.normal(size=(6, 3)), generator.normal(size=(5, 3))
    any_form = FixedRank(left, np.array([2.0, -1.0, 0.0]), right)
    form = any_form.orthonormal()
    assert_orthonormal(form)
    assert_allclose(form.matrix, any_form.matrix, atol=1e-13)
    assert_allclose(form.values, np.linalg.svd(any_form.matrix, compute_uv=False)[:3], atol=1e-13)


def assert_orthonormal(point):
    """Whether the factors are, with descending values that are not negative."""
    for basis in (point.left, point.right):
        assert_allclose(basis.T @ basis, np.eye(point.rank), atol=1e-13)
    assert np.all(np.diff(point.values) <= 0)
    assert np.all(point.values >= 0)
