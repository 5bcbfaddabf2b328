"""Choices by the exponential mechanism: their law, what they cost, and that no set is easier."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.special import expit, ndtri

from skdp import BudgetError
from skdp.privacy import PrivacyBudget, pure_dp
from skdp.privacy.noise import NoiseSource, standard_gumbel


def budget(epsilon=1.0, delta=1e-6, seed=None):
    noise_source = NoiseSource(seed) if seed is not None else None
    return PrivacyBudget(epsilon, delta, unit="row", adjacency="replace", noise_source=noise_source)


def eta_of(spent_budget, share):
    """What a share buys: the largest change of the log-odds of a set of options."""
    scale = spent_budget.cost.noise_std("exponential", 1.0, share)
    return math.pi / math.sqrt(6) / scale


def probabilities(losses, eta):
    weights = np.exp(-eta * (losses - losses.min()))
    return weights / weights.sum()


def test_what_a_share_buys():
    mu = budget().cost.mu
    assert eta_of(budget(), 0.25) == pytest.approx(2 * pure_dp.epsilon_from_mu(mu / 2), rel=2e-4)
    # Both forms of the formula agree.
    assert 2 * ndtri(expit(eta_of(budget(), 0.25) / 2)) == pytest.approx(mu / 2, rel=2e-4)
    assert eta_of(budget(1.0, 0.0), 0.25) == pytest.approx(0.25, rel=2e-4)
    assert eta_of(budget(), 1.0) < 2 * pure_dp.epsilon_from_mu(mu)


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_options_are_chosen_with_their_probabilities(delta):
    losses, n_draws = np.array([0.0, 1.0, 2.5, 40.0]), 1_000
    chosen = np.zeros(4)
    for seed in range(n_draws):
        one = budget(4.0, delta, seed)
        chosen[one.exponential("choice", losses, sensitivity=1.0, share=1.0)] += 1
    expected = probabilities(losses, eta_of(budget(4.0, delta), 1.0))
    error = np.sqrt(expected * (1 - expected) / n_draws)
    assert (np.abs(chosen / n_draws - expected) <= 4.5 * error + 1e-12).all()


def test_no_set_of_options_is_easier_to_tell_than_what_is_paid_for():
    generator = np.random.default_rng(0)
    mu = 0.7
    eta = 2 * pure_dp.epsilon_from_mu(mu)
    worst = 0.0
    for _ in range(1000):
        n_options = generator.integers(2, 6)
        losses = 3 * generator.normal(size=n_options)
        # Neighbors move losses by a range of at most 1.
        moved = losses + generator.choice([0.0, 1.0, generator.random()], n_options)
        one, other = probabilities(losses, eta), probabilities(moved, eta)
        for size in range(1, n_options):
            for options in combinations(range(n_options), size):
                p, q = one[list(options)].sum(), other[list(options)].sum()
                if 0 < p < 1 and 0 < q < 1:
                    worst = max(worst, abs(ndtri(p) - ndtri(q)))
                    assert abs(np.log(p) - np.log(q)) <= eta
    assert 0.9 * mu < worst <= mu * (1 + 1e-9)


def test_the_record_names_the_choice_and_the_whole_is_composed():
    one = budget()
    one.exponential("choice", [3.0, 1.0], sensitivity=2.0, share=0.5)
    one.gaussian("rest", 1.0, sensitivity=1.0, share=0.5)
    record = one.spent()
    assert record.releases[0].mechanism == "exponential"
    assert record.releases[0].sensitivity == 2.0
    assert record.epsilon_at(1e-6) == pytest.approx(1.0, rel=1e-6)
    pure = budget(1.0, 0.0)
    pure.exponential("choice", [3.0, 1.0], sensitivity=2.0, share=0.5)
    pure.laplace("rest", 1.0, sensitivity=1.0, share=0.5)
    assert pure.spent().epsilon_at(0.0) == pytest.approx(1.0, rel=1e-9)


def test_without_noise_the_best_option_is_chosen():
    assert budget(math.inf).exponential("choice", [3, 1, 2], sensitivity=1.0, share=1.0) == 1


def test_a_seed_repeats_a_choice_and_losses_are_part_of_the_key():
    losses = np.linspace(0, 0.1, 50)
    chosen = [
        budget(seed=2**70).exponential("choice", losses + shift, sensitivity=1.0, share=1.0)
        for shift in (0.0, 0.0, 1e-9, 1e-8, 1e-7)
    ]
    assert chosen[0] == chosen[1]
    assert len(set(chosen)) > 1


def test_what_cannot_be_paid_is_refused():
    with pytest.raises(BudgetError, match="sensitivity"):
        budget().exponential("choice", [1.0, 2.0], sensitivity=0.0, share=0.5)
    with pytest.raises(BudgetError, match="shares"):
        budget().exponential("choice", [1.0, 2.0], sensitivity=1.0, share=1.5)


def test_losses_that_are_none_are_refused_before_anything_is_spent():
    one = budget()
    for losses in ([], [[1.0, 2.0]], [1.0, np.nan], [1.0, -np.inf], 3.0):
        with pytest.raises(ValueError, match="a vector of one or more finite numbers"):
            one.exponential("choice", losses, sensitivity=1.0, share=1.0)
    assert one.spent().releases == ()


def test_what_all_losses_have_in_common_is_no_matter():
    chosen = [
        budget(0.1).exponential("choice", np.full(4, -1e17), sensitivity=1.0, share=1.0)
        for _ in range(400)
    ]
    assert np.bincount(chosen, minlength=4).min() > 60


def test_gumbel_numbers_have_their_law():
    draws = standard_gumbel(200_000, b"k" * 32)
    assert draws.std() == pytest.approx(1.0, abs=0.01)
    assert draws.mean() == pytest.approx(-np.euler_gamma * math.sqrt(6) / math.pi, abs=0.01)
    # Of the minima: the left tail is the heavy one.
    assert (draws < -4).mean() > 10 * (draws > 3).mean()
