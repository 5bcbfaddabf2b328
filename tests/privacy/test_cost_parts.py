"""Parts of a cost: an exact mu, and an epsilon that admits it."""

import math

import pytest

from skdp.privacy import PrivacyCost
from skdp.privacy.gaussian_dp import mu_from_epsilon_delta


@pytest.mark.parametrize("epsilon", [1e-6, 0.05, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("delta", [1e-300, 1e-6, 0.5])
@pytest.mark.parametrize("part_of_delta", [1.0, 0.3, 1e-3])
def test_shares_of_a_cost_add_up_to_it(epsilon, delta, part_of_delta):
    whole = PrivacyCost(epsilon, delta, delta / 2)
    shares = [1e-7, 0.15, 0.25, 0.6 - 1e-7]
    parts = [whole.share_of(share, part_of_delta * delta, 0.0) for share in shares]
    assert math.fsum(part.mu**2 for part in parts) == pytest.approx(whole.mu**2, rel=1e-14)
    for part in parts:
        assert 0 < part.epsilon < math.inf
        # A part is a cost of its own: all that it says it admits.
        assert part.mu <= mu_from_epsilon_delta(part.epsilon, part.delta)


@pytest.mark.parametrize("epsilon", [5e-324, 1e-300, 1e-20, 1e-16, 1e-15])
@pytest.mark.parametrize("delta", [1e-300, 1e-6, 0.5])
def test_the_epsilon_of_a_part_is_found_soon_where_mu_hardly_depends_on_it(epsilon, delta):
    for part_of_delta, tail in ((1.0, 0.0), (1.0, 0.5), (0.5, 0.5)):
        whole = PrivacyCost(epsilon, delta, tail * delta)
        for share in (1.0, 1 - 1e-9, 1e-3):
            part = whole.share_of(share, part_of_delta * delta, tail * part_of_delta * delta)
            most = mu_from_epsilon_delta(part.epsilon, part.delta, part.delta_tail)
            assert part.mu == whole.mu * math.sqrt(share) <= most
            assert part.epsilon < 1


def test_a_part_of_no_noise_has_none():
    assert not PrivacyCost(math.inf, 1e-6).share_of(0.3, 1e-7).is_private


@pytest.mark.parametrize("mu", [0.2368, math.inf, math.nan, -1.0])
def test_a_mu_that_epsilon_and_delta_do_not_admit_is_refused(mu):
    with pytest.raises(ValueError, match=r"mu must be at most 0\.236"):
        PrivacyCost(1.0, 1e-6, mu=mu)


def test_a_part_without_delta_is_refused_before_noise_would_be_switched_off():
    with pytest.raises(ValueError, match="no finite epsilon"):
        PrivacyCost(1.0, 1e-6).share_of(0.5, 0.0)
