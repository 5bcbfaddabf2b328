"""Averages of noisy products: as good as their noise allows, whatever early products are like."""

import numpy as np
import pytest

from skdp.linalg.denoising import ProductAverage
from skdp.linalg.spectrum import orthonormal_basis

N_STEPS = 6


def errors(noise_std, rest, seed, size=2):
    """Errors of A V by the average, and by the last product alone, over the error by noise.

    A has a leading space; its other values are at most `rest` of the first, so that early products
    of an iteration do not fit A = L V^T.
    """
    random = np.random.default_rng(seed)
    axes = np.linalg.qr(random.normal(size=(400, 400)))[0]
    values = np.r_[np.ones(size), rest * random.uniform(0.5, 1, 400 - size)]
    A = (axes * values) @ axes.T
    products = ProductAverage(N_STEPS, A.shape, size, is_gaussian=True)
    basis = orthonormal_basis(random.normal(size=(400, size)))
    for _ in range(N_STEPS):
        value = A @ basis + noise_std * random.normal(size=(400, size))
        products.add(basis, value, noise_std)
        last, basis = basis, orthonormal_basis(value)
    by_average, by_last = products.estimate(last)[0], value
    scale = noise_std * np.sqrt(400 * size)
    return [np.linalg.norm(found - A @ last) / scale for found in (by_average, by_last)]


@pytest.mark.parametrize("noise_std", [1e-8, 1e-5, 1e-3])
def test_early_products_that_do_not_fit_do_not_count(noise_std):
    found = np.array([errors(noise_std, 0.8, seed) for seed in range(10)])
    assert found[:, 0].max() < 1.2 * found[:, 1].max()


def test_products_that_fit_reduce_the_noise():
    found = np.array([errors(1e-3, 0.0, seed) for seed in range(10)])
    assert found[:, 0].max() < 0.6 * found[:, 1].min()
