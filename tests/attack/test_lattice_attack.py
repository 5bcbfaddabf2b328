"""Whether the low bits of a release tell which value stands behind its noise."""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from skdp.privacy import PrivacyBudget
from skdp.privacy.noise import NoiseSource, round_to_lattice

N_NUMBERS = 50_000
SECRET = 2**127 + 4711
# The standard deviation of noise; not a power of two.
SCALE = 0.777
# In noise scales.
VALUES = (0.0, 1e-3, 1.0, 1e6)
# Floating-point numbers around the probability that a release points to. The one that gave it is
# among them, as quantiles and their inverses round by less.
NEIGHBORS = np.arange(-60, 61)


def laplace_tail(deviation):
    return np.exp(deviation * math.sqrt(2)) / 2


def laplace_quantile(tail):
    return np.log(tail * 2.0) * math.sqrt(0.5)


def beside_diagonal_tail(deviation):
    return ndtr(deviation * math.sqrt(2))


def beside_diagonal_quantile(tail):
    return ndtri(tail) * math.sqrt(0.5)


# Probability and quantile of noise of scale 1, computed as the sampler does.
LAWS = {
    "gaussian": (ndtr, ndtri),
    "symmetric_gaussian": (beside_diagonal_tail, beside_diagonal_quantile),
    "laplace": (laplace_tail, laplace_quantile),
}


def could_stem_from(guess, released, scale, mechanism):
    """Return which of the released numbers the sampler can make of the value that is guessed."""
    tail, quantile = LAWS[mechanism]
    deviation = (released - guess) / scale
    nearest = tail(-np.abs(deviation))
    possible = np.zeros(released.shape, dtype=bool)
    for offset in NEIGHBORS:
        probability = np.clip(nearest + offset * np.spacing(nearest), 5e-324, 0.5)
        noise = quantile(probability) * -np.sign(deviation)
        possible |= round_to_lattice(noise * scale + guess, scale) == released
    return possible


def release(mechanism, value):
    """Release copies of `value` with noise of `SCALE`; only independent entries are returned."""
    order = math.isqrt(2 * N_NUMBERS) + 1
    is_symmetric = mechanism == "symmetric_gaussian"
    shape = (order, order) if is_symmetric else (N_NUMBERS,)
    noise = NoiseSource(SECRET, (mechanism, value))
    budget = PrivacyBudget(1.0, 1e-6, unit="row", adjacency="replace", noise_source=noise)
    unit = budget.cost.noise_std(mechanism, 1.0, 1.0, 1)
    noisy, scale = getattr(budget, mechanism)(
        "copies", np.full(shape, value), sensitivity=SCALE / unit, share=1.0
    )
    return (noisy[np.tri(order, k=-1, dtype=bool)] if is_symmetric else noisy), scale


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("mechanism", LAWS)
def test_every_number_is_possible_from_either_guess(mechanism, value):
    value *= SCALE
    released, scale = release(mechanism, value)
    assert released.size >= N_NUMBERS
    for guess in (value, value + 0.1 * SCALE, value - 1e-9 * SCALE):
        assert could_stem_from(guess, released, scale, mechanism).all()
