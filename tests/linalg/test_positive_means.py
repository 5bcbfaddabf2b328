import numpy as np
import pytest

from skdp.linalg.denoising import positive_means


def sparse_means(generator, size=2000):
    """Many zeros, some numbers about the noise, and few far above it."""
    return generator.choice([0.0, 1.0, 4.0, 50.0], p=[0.7, 0.2, 0.08, 0.02], size=size)


@pytest.mark.parametrize("unit", [1e-100, 0.3, 1e100])
def test_most_of_the_noise_goes(unit):
    generator = np.random.default_rng(0)
    truth = unit * sparse_means(generator)
    noisy = truth + unit * generator.normal(size=truth.shape)
    # Ratios first: squares of so small or large numbers are none.
    error, before = (
        np.mean(np.square((found - truth) / unit))
        for found in (positive_means(noisy, unit), np.maximum(noisy, 0.0))
    )
    # What the posterior means under the true prior would lose is .30 here.
    assert error < 0.36 < 0.6 < before


def test_what_is_found_is_not_negative_grows_with_the_number_and_follows_its_place():
    generator = np.random.default_rng(1)
    noisy = 3 * generator.normal(size=500)
    found = positive_means(noisy, 1.5)
    assert (found >= 0).all()
    order = np.argsort(noisy)
    assert (np.diff(found[order]) >= -1e-12).all()
    np.testing.assert_allclose(positive_means(noisy[order], 1.5), found[order], rtol=1e-9)


@pytest.mark.parametrize("unit", [1e-300, 1.0, 1e300])
def test_something_is_always_found(unit):
    for scale in (0.0, 1.0):
        for noisy in (np.full(5, -1e3), np.zeros(5), np.full(3, -5.0)):
            found = positive_means(unit * noisy, unit * scale)
            assert np.isfinite(found).all()
            assert found.any()
