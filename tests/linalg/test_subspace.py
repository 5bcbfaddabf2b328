import numpy as np
import pytest

from skdp.linalg import spectrum


def test_signs_make_the_entry_largest_in_size_positive():
    components = np.array([[1.0, -3.0, 2.0], [0.5, 0.1, -0.4], [0.0, 0.0, 0.0]])
    expected = np.array([[-1.0, 3.0, -2.0], [0.5, 0.1, -0.4], [0.0, 0.0, 0.0]])
    signs = spectrum.deterministic_signs(components)
    np.testing.assert_array_equal(signs, [-1, 1, 1])
    np.testing.assert_array_equal(signs[:, np.newaxis] * components, expected)


def signed_by_rule(components):
    return spectrum.deterministic_signs(components)[:, np.newaxis] * components


def test_signs_read_nothing_but_the_components():
    generator = np.random.default_rng(0)
    components = spectrum.orthonormal_basis(generator.normal(size=(8, 5))).T
    before = components.copy()
    signed = signed_by_rule(components)
    np.testing.assert_array_equal(components, before)
    for _ in range(10):
        flips = generator.choice([-1.0, 1.0], size=(5, 1))
        np.testing.assert_array_equal(signed_by_rule(flips * components), signed)
        # Each row by itself: neither its place nor its neighbors matter.
        order = generator.permutation(5)
        np.testing.assert_array_equal(signed_by_rule(components[order]), signed[order])


@pytest.mark.parametrize("shape", [(8, 5), (200, 60), (6, 6), (5, 1)])
def test_flipped_columns_give_the_same_bits(shape):
    generator = np.random.default_rng(3)
    for _ in range(10):
        vectors = generator.normal(size=shape)
        flips = generator.choice([-1.0, 1.0], size=shape[1])
        bases = map(spectrum.orthonormal_basis, (vectors * flips, vectors))
        np.testing.assert_array_equal(*bases)


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_basis_is_orthonormal_and_holds_the_columns_whatever_their_rank(rank):
    generator = np.random.default_rng(1)
    vectors = generator.normal(size=(9, rank)) @ generator.normal(size=(rank, 3))
    basis = spectrum.orthonormal_basis(vectors)
    np.testing.assert_allclose(basis.T @ basis, np.eye(3), atol=1e-14)
    np.testing.assert_allclose(basis @ (basis.T @ vectors), vectors, atol=1e-13)


def test_random_basis_is_uniform_and_reproducible():
    bases = [spectrum.random_basis(4, 2, np.random.default_rng(seed)) for seed in range(3000)]
    np.testing.assert_array_equal(bases[0], spectrum.random_basis(4, 2, np.random.default_rng(0)))
    projectors = np.mean([basis @ basis.T for basis in bases], axis=0)
    np.testing.assert_allclose(projectors, np.eye(4) / 2, atol=0.03)
