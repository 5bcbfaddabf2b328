"""The law of the sum of counts of several owners, against its exact form: what the proof builds on.

All numbers are in steps. The std of a share is .3 to 2 of them in most tests, where real ones are
16 to 32: so coarse that what the proof bounds can be seen at all.
"""

import math
from functools import reduce

import mpmath
import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr, ndtri

from skdp.privacy import shares
from skdp.privacy.noise import SCALE_MARGIN
from skdp.privacy.shares import ShareLayout, counts_of

N_DRAWS = 40_000
# Half the width of a cell is 1/64 of a deviation or more: what errors of draws and of their sum
# with a rest may change in the probability of a count.
KAPPA = 5e-12


@pytest.fixture(autouse=True)
def forty_digits():
    with mpmath.workdps(40):
        yield


def mass_below(edge):
    """Distribution function of N(0, 1), with all digits on the lower side."""
    return mpmath.erfc(-edge / mpmath.sqrt(2)) / 2


def law_of_count(value, std, reach):
    """Probabilities of rint(value + std Z), from -reach to reach."""
    value, std = mpmath.mpf(value), mpmath.mpf(std)
    law = []
    for count in range(-reach, reach + 1):
        side = -1 if count > value else 1
        ends = [side * (count + half - value) / std for half in (mpmath.mpf(0.5), mpmath.mpf(-0.5))]
        law.append(abs(mass_below(ends[0]) - mass_below(ends[1])))
    return np.array(law, dtype=object)


def law_of_sum(laws):
    """Probabilities of the sum of independent counts."""
    return reduce(np.convolve, laws)


def law_of_rounded_gaussian_sum(total, std, n_shares, counts):
    """Probabilities of rint(sum + U_2 + ... + U_H), U uniform below 1/2, for the Gaussian sum.

    Rounding makes it the density of the Gaussian sum and of H such numbers. That is the H-th
    difference of the density integrated H times.
    """
    scale = mpmath.mpf(std) * mpmath.sqrt(n_shares)

    def integrated(x):
        before, now = mpmath.npdf(x, 0, scale), mpmath.ncdf(x, 0, scale)
        for order in range(1, n_shares):
            before, now = now, (x * now + scale**2 * before) / order
        return now

    def probability(x):
        return mpmath.fsum(
            (-1) ** j * math.comb(n_shares, j) * integrated(x + mpmath.mpf(n_shares) / 2 - j)
            for j in range(n_shares + 1)
        )

    # Symmetric, and on the lower side no digits are lost.
    return np.array([probability(-abs(count - mpmath.mpf(total))) for count in counts])


def most_of_a_share(std):
    """How far the fractional part of a share may be from uniform, given the sum."""
    return 2 * mpmath.nsum(lambda j: mpmath.exp(-((mpmath.pi * std * j) ** 2)), [1, mpmath.inf])


def bound(std, n_shares):
    return (1 + most_of_a_share(mpmath.mpf(std))) ** (n_shares - 1) - 1


def departures(values, std, farthest):
    """True probabilities of sums over those of the rounded Gaussian sum, less 1."""
    n_shares = len(values)
    reach = math.ceil(1 + 11 * std + farthest / n_shares)
    total = mpmath.fsum(map(mpmath.mpf, values))
    counts = range(round(float(total)) - farthest, round(float(total)) + farthest + 1)
    law = law_of_sum([law_of_count(value, std, reach) for value in values])
    fixed = law_of_rounded_gaussian_sum(total, std, n_shares, counts)
    return np.array([law[count + n_shares * reach] for count in counts]) / fixed - 1


@pytest.mark.covered(at_most=12)
@pytest.mark.parametrize("offsets", ["none", "halves", "any"])
@pytest.mark.parametrize("std", [0.3, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("n_shares", [2, 3, 4, 5, 6])
def test_the_sum_of_counts_is_a_fixed_function_of_the_gaussian_sum(n_shares, std, offsets):
    values = {
        "none": np.zeros(n_shares),
        "halves": np.resize([0.5, 0.0], n_shares),
        "any": np.random.default_rng(n_shares).uniform(-0.5, 0.5, n_shares),
    }[offsets]
    farthest = math.ceil(2 * std * math.sqrt(n_shares)) + 2
    found = max(abs(departures(values, std, farthest)))
    assert found < bound(std, n_shares)
    # No error of the two computations: 1e-29 is seen where the bound is 1e-17.
    assert offsets != "none" or found > 1e-30


@pytest.mark.parametrize("std", [0.3, 0.6, 1.0])
def test_two_shares_reach_the_bound_far_out(std):
    found = departures([0.0, 0.0], std, 2 * math.ceil(23 * std**2) + 2)
    assert 0.98 < max(found) / bound(std, 2) < 1


@pytest.mark.parametrize("std", [0.3, 2.0])
def test_the_count_of_one_share_is_the_rounded_gaussian_number(std):
    assert bound(std, 1) == 0
    assert max(abs(departures([0.37], std, 5))) < 1e-30


def test_of_real_steps_nothing_can_be_seen():
    # A share beside the diagonal of a symmetric matrix has the smallest std in steps.
    assert 16 / math.sqrt(2) > 11
    with mpmath.workdps(600):
        assert mpmath.log10(bound(11.0, 2)) == pytest.approx(-518.3, abs=0.1)
        assert bound(11.0, 10**9) < mpmath.mpf("1e-500")


def layout_of_steps(std, size=1):
    """A layout whose counts are numbers rounded to integers."""
    return ShareLayout("sum", "gaussian", (size,), std, 1.0, 10**9, 6)


def misfit(values, std, seed):
    """p-value of counts drawn with fixed keys, against the law of their sum."""
    layout, reach = layout_of_steps(std, N_DRAWS), math.ceil(4 + 8 * std)
    keys = [bytes([seed, number]) * 16 for number in range(len(values))]
    drawn = sum(
        counts_of(np.full(N_DRAWS, value), layout, key)
        for value, key in zip(values, keys, strict=True)
    )
    law = law_of_sum([law_of_count(value, std, reach) for value in values]).astype(float)
    observed = np.bincount(drawn + reach * len(values), minlength=law.size)
    common = law * N_DRAWS > 10
    # Rare sums join one of the others.
    rare = law[~common].sum(), observed[~common].sum()
    law, observed = law[common], observed[common]
    law[0], observed[0] = law[0] + rare[0], observed[0] + rare[1]
    return stats.chisquare(observed, law / law.sum() * N_DRAWS).pvalue


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(s, marks=pytest.mark.slow) for s in range(1, 50))]
)
def test_drawn_counts_have_that_law(seed):
    for n_shares, std in ((1, 0.3), (2, 0.3), (3, 1.0), (6, 0.5)):
        values = np.random.default_rng(n_shares).uniform(-3, 3, n_shares)
        assert misfit(values, std, seed) > 1e-5


def quantiles_below(law):
    """Normal quantiles of all sums of first probabilities, with all digits on both sides."""
    below, above = np.cumsum(law)[:-1], np.cumsum(law[::-1])[::-1][1:]
    return np.where(below < 0.5, ndtri(np.minimum(below, 0.5)), -ndtri(np.minimum(above, 0.5)))


def mu_between(law, other, farthest):
    """The mu that tells two laws apart, from the best tests within so many deviations.

    The best tests split the results by their ratio of probabilities. A piecewise linear trade-off
    lies above a convex one if its corners do.
    """
    possible = (law > 0) & (other > 0)
    law, other = law[possible], other[possible]
    order = np.argsort(other / law, kind="stable")
    ours, theirs = quantiles_below(law[order]), quantiles_below(other[order])
    near = (np.abs(ours) < farthest) & (np.abs(theirs) < farthest)
    return np.max((ours - theirs)[near], initial=0.0)


def moves(n_shares, std):
    """Parts of several owners, and a neighbor of them: one part moves."""
    rng = np.random.default_rng(n_shares)
    for change in (0.01, 0.1, 0.5, 1.0, -0.3, -2.7):
        for values in (np.zeros(n_shares), np.full(n_shares, 0.499), rng.uniform(-1, 1, n_shares)):
            moved = values.copy()
            moved[0] += change
            yield values, moved, abs(change) / std / math.sqrt(n_shares)


def excess(n_shares, std, farthest):
    """The mu between neighbors by their sums of counts over what it should be, at most."""
    reach = math.ceil(4 + 12 * std)
    return max(
        mu_between(
            law_of_sum([law_in_floats(value, std, reach) for value in values]),
            law_of_sum([law_in_floats(value, std, reach) for value in moved]),
            farthest,
        )
        / mu
        for values, moved, mu in moves(n_shares, std)
    )


def law_in_floats(value, std, reach):
    counts = np.arange(-reach, reach + 1)
    side = np.where(counts > value, -1.0, 1.0)
    return np.abs(
        ndtr(side * (counts + 0.5 - value) / std) - ndtr(side * (counts - 0.5 - value) / std)
    )


@pytest.mark.covered
@pytest.mark.parametrize("std", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("n_shares", [1, 2, 3, 6])
def test_sums_of_counts_tell_neighbors_apart_no_better_than_gaussian_sums(n_shares, std):
    assert 0.5 < excess(n_shares, std, 8.0) < 1 + 1e-10


def test_the_margin_pays_for_the_errors_of_as_many_counts_as_are_allowed():
    widest = 0
    for deviation in np.arange(0, 37.5, 0.5):
        # The narrowest cell, and errors of draws and of a sum with a rest at both of its ends.
        ends = [abs(mpmath.mpf(deviation) + half / mpmath.mpf(32)) for half in (-0.5, 0.5)]
        errors = [1e-15 * max(2, end) + 2.0**-53 * (end + 1 / mpmath.mpf(32)) for end in ends]
        ends = [mpmath.mpf(deviation) + half / mpmath.mpf(32) for half in (-0.5, 0.5)]
        cell = mass_below(-ends[0]) - mass_below(-ends[1])
        wider = mass_below(errors[0] - ends[0]) - mass_below(-errors[1] - ends[1])
        widest = max(widest, mpmath.log(wider / cell))
    assert 2.8e-12 < widest < 3.1e-12 < KAPPA
    for mu in (1e-6, 0.01, 1.0, 30.0):
        n_counts = (shares._ROOT * mu) ** 2
        charged = 2 * 1.2534 * KAPPA * math.sqrt(n_counts)
        # The std of a share is rounded, too.
        assert mu / (1 + SCALE_MARGIN) * (1 + 1e-12) + charged < mu
