"""The law of released numbers as computed, against 50 digits: what the proof builds on."""

from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr, ndtri

from skdp.privacy import noise
from skdp.privacy.noise import draw, lattice_step, round_to_lattice, standard_normal

N_DRAWS = 500
SCALE = 0.777
KEY = bytes(range(32))


@pytest.fixture(autouse=True)
def fifty_digits():
    with mpmath.workdps(50):
        yield


def random_fractions(n_draws, rng):
    """Binary fractions of all sizes down to 36.5 deviations, as lists of 64-bit words."""
    bits = [
        int.from_bytes(rng.bytes(144), "little") >> int(shift)
        for shift in rng.integers(0, 965, n_draws)
    ]
    bits[: n_draws // 3] = [int.from_bytes(rng.bytes(144), "little") for _ in bits[: n_draws // 3]]
    return [[number >> 64 * i & (2**64 - 1) for i in reversed(range(18))] for number in bits]


class PlantedWords:
    """Stands in for the stream of words: the next word of every number that is still too short."""

    def __init__(self, fractions):
        self.fractions, self.level = fractions, 0

    def __call__(self, size, key):
        words = [fraction[self.level] for fraction in self.fractions]
        limit = 2**54 if self.level == 0 else 2**53
        self.fractions = [
            fraction for fraction, word in zip(self.fractions, words, strict=True) if word < limit
        ]
        self.level += 1
        assert len(words) == size
        yield np.array(words, dtype=np.uint64)


def planted(monkeypatch, fractions, mechanism, shape):
    monkeypatch.setattr(noise, "_words", PlantedWords(fractions))
    return SCALE * draw(mechanism, shape, KEY)


def exact_tails(fractions):
    """Probabilities that the words stand for: the last bit of the first one is the sign."""
    for first, *others in fractions:
        rest = mpmath.fsum(word * mpmath.mpf(2) ** (-64 * i) for i, word in enumerate(others, 1))
        yield (mpmath.mpf(first >> 1) + rest) * mpmath.mpf(2) ** -64


def with_signs(lower, fractions):
    return [-z if first & 1 else z for z, (first, *_) in zip(lower, fractions, strict=True)]


def exact_quantile(tail):
    """Take two steps of Newton's method from a quantile that is good to 15 digits."""
    z = mpmath.mpf(float(ndtri(float(tail))))
    for _ in range(2):
        z -= (mpmath.ncdf(z) - tail) / mpmath.npdf(z)
    return z


def exact_normals(fractions):
    return with_signs(map(exact_quantile, exact_tails(fractions)), fractions)


def error(drawn, exact, unit=1.0):
    """Largest error of drawn numbers in units of their scale, over what the proof allows."""
    return max(
        float(abs(mpmath.mpf(number) / (SCALE * unit) - z) / (1e-15 * max(2, abs(z))))
        for number, z in zip(drawn, exact, strict=True)
    )


def test_normal_draws_are_quantiles_of_their_words(monkeypatch):
    fractions = random_fractions(N_DRAWS, np.random.default_rng(0))
    drawn = planted(monkeypatch, fractions, "gaussian", (N_DRAWS,))
    assert np.abs(drawn).max() > 36.3 * SCALE
    assert error(drawn, exact_normals(fractions)) < 1


def test_symmetric_draws_are_quantiles_of_their_words(monkeypatch):
    order = 24
    size = order * (order + 1) // 2
    fractions = random_fractions(size, np.random.default_rng(1))
    np.random.default_rng(2).shuffle(fractions)
    drawn = planted(monkeypatch, fractions, "symmetric_gaussian", (order, order))
    on_diagonal = np.eye(order, dtype=bool)[np.tri(order, dtype=bool)]
    exact = np.array(exact_normals(fractions))
    lower = drawn[np.tri(order, dtype=bool)]
    assert error(lower[on_diagonal], exact[on_diagonal]) < 1
    assert error(lower[~on_diagonal], exact[~on_diagonal], mpmath.sqrt(0.5)) < 1


def test_laplace_draws_are_quantiles_of_their_words(monkeypatch):
    fractions = random_fractions(N_DRAWS, np.random.default_rng(3))
    drawn = planted(monkeypatch, fractions, "laplace", (N_DRAWS,))
    lower = [mpmath.log(2 * tail) * mpmath.sqrt(0.5) for tail in exact_tails(fractions)]
    assert np.abs(drawn).max() > 450 * SCALE
    assert error(drawn, with_signs(lower, fractions)) < 1


def test_short_words_are_followed_by_others(monkeypatch):
    words = noise._words
    monkeypatch.setattr(
        noise,
        "_words",
        lambda size, key: (w >> np.uint64(20) if key == KEY else w for w in words(size, key)),
    )
    draws = standard_normal(100_000, KEY)
    # Without the last bit all signs would agree; 20 bits of the probability are 0.
    tails = ndtr(-np.abs(draws)) * 2.0**21
    assert stats.kstest(tails, "uniform").pvalue > 1e-3
    assert np.unique(tails).size == tails.size
    for size in (0, 1, 1000, 2**15, 2**15 + 1):
        np.testing.assert_array_equal(standard_normal(size, KEY), draws[:size])


def whole_interval(tail):
    """Upper end of the numbers that are rounded to this tail probability."""
    return (mpmath.mpf(tail) + mpmath.mpf(np.nextafter(tail, 1))) / 2


def lies_below(tail, value, end):
    """Return whether a draw of that tail, on the lower side, is released below `end`."""
    numbers = np.atleast_1d(ndtri(tail)) * SCALE + value
    return round_to_lattice(numbers, SCALE) < end


def chance_below(value, end, upper_end):
    """Probability that a draw of the lower side is released below `end`."""
    low, high = 5e-324, 0.5
    # Floating-point numbers in order are integers in order.
    low, high = (int(np.float64(tail).view(np.int64)) for tail in (low, high))
    while high - low > 1:
        middle = (low + high) // 2
        is_below = lies_below(np.int64(middle).view(np.float64), value, end)[0]
        low, high = (middle, high) if is_below else (low, middle)
    # Quantiles need not be monotone as computed, so that those around are looked at one by one.
    around = np.arange(low - 2000, min(low + 2000, int(np.float64(0.5).view(np.int64))))
    tails = np.int64(around).view(np.float64)
    is_below = lies_below(tails, value, end)
    assert is_below[:1000].all()
    assert not is_below[-1000:].any() or tails[-1] == np.nextafter(0.5, 0)
    ends = [upper_end(tails[0]), *map(upper_end, tails)]
    return ends[0] + mpmath.fsum(
        upper - lower
        for (lower, upper), counts in zip(pairwise(ends), is_below, strict=True)
        if counts
    )


def computed_mass(value, number, upper_end):
    """Probability that `number`, below `value`, is what is released of it."""
    step = lattice_step(SCALE)
    return chance_below(value, number + step, upper_end) - chance_below(value, number, upper_end)


def exact_mass(value, number):
    step = mpmath.mpf(lattice_step(SCALE))
    index = mpmath.mpf(number) / step
    ends = []
    for end, side in ((index - 0.5, 1), (index + 0.5, -1)):
        # A number halfway goes to the even multiple, and so does what is rounded to it.
        is_ours = int(index) % 2 == 0
        half_ulp = mpmath.mpf(np.spacing(float(abs(end * step)))) / 2
        ends.append(end * step - (side if is_ours else -side) * half_ulp)
    lower, upper = (mpmath.ncdf((end - mpmath.mpf(value)) / mpmath.mpf(SCALE)) for end in ends)
    return upper - lower


DEVIATIONS = [0.5, 1.0, 3.0, 5.0, 7.0, 9.0, 12.0]


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("value", [0.0, 0.31, 1e3 + 0.007])
@pytest.mark.parametrize("deviation", DEVIATIONS)
def test_cells_have_the_mass_that_they_have_in_exact_arithmetic(deviation, value):
    step = lattice_step(SCALE)
    number = step * round((value - deviation * SCALE) / step)
    exact = exact_mass(value, number)
    assert abs(computed_mass(value, number, whole_interval) / exact - 1) < 1e-12


@pytest.mark.parametrize("value", [0.0, 0.31, 1e3 + 0.007])
def test_the_cell_of_the_value_itself_has_its_mass(value):
    step = lattice_step(SCALE)
    number = step * round(value / step)
    # What both tails, each with half of the probability, leave between them.
    below = chance_below(value, number, whole_interval)
    above = chance_below(-value, -number, whole_interval)
    assert abs((1 - below - above) / exact_mass(value, number) - 1) < 1e-12
