"""The choice among candidates: no row moves it further than declared, whatever its losses."""

import numpy as np
import pytest
from watched import moved, watched

from skdp.model_selection import _search
from skdp.model_selection._search import centered_losses, choose, plan_choice
from skdp.privacy import sensitivity
from skdp.privacy.plan import PrivacyCost

ADJACENCIES = ("replace", "zero_out")
HUGE = 1e100


def chosen(losses, adjacency, scripts=None, *, is_bounded=False):
    """Choose with a watched budget; return it."""
    scoring, cost = "accuracy" if is_bounded else "r2", PrivacyCost(1.0, 1e-6)
    plan = plan_choice(scoring, losses.shape[1], cost, "row", adjacency, n_units=len(losses))
    with watched(scripts) as made:
        choose(scoring, losses, None, plan.parts, _search.PrivacyBudget.of(plan))
    return made


def movement(losses, neighbor, adjacency, **more):
    """Replay the choice on a neighbor; return how far its parts moved."""
    before = chosen(losses, adjacency, **more)
    scripts = [budget.released for budget in before]
    return moved(before, chosen(neighbor, adjacency, scripts, **more))


def rows(generator, n_rows, n_candidates):
    """Losses of all sizes, some rows without any range."""
    sizes = 10.0 ** generator.uniform(-12, 12, (n_rows, 1))
    return sizes * generator.standard_normal((n_rows, n_candidates))


@pytest.mark.covered
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_candidates", [2, 3, 7])
def test_regrets_of_a_row_differ_by_at_most_one(seed, n_candidates):
    losses = rows(np.random.default_rng(seed), 200, n_candidates)
    losses[0], losses[1] = HUGE, -HUGE
    losses[2, 0] = HUGE
    for level in (1e-12, 1.0, 1e12):
        found = centered_losses(losses, level)
        assert np.ptp(found, axis=1).max() <= 1
        assert np.abs(found).max() <= 0.5
        # Multiples of a power of two, whose sums are exact in any order.
        assert (found * 2**20 == np.rint(found * 2**20)).all()


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("is_bounded", [False, True])
def test_no_row_moves_the_choice_further_than_declared(adjacency, is_bounded):
    generator = np.random.default_rng(0)
    worst = []
    for _ in range(60):
        losses = rows(generator, 12, 4)
        other = rows(generator, 1, 4)[0]
        extreme = generator.choice([-HUGE, 0.0, HUGE], 4)
        if is_bounded:
            losses, other, extreme = (losses > 0) * 1.0, (other > 0) * 1.0, (extreme > 0) * 1.0
        for one in (other, extreme, losses[0] * 0):
            neighbor = losses.copy()
            neighbor[0] = one
            # A row without a range, as one that is null, moves by half as much.
            if adjacency == "zero_out":
                neighbor[0] = one[0]
            parts = movement(losses, neighbor, adjacency, is_bounded=is_bounded)
            assert max(parts) <= 1
            worst.append(parts[-1])
    assert max(worst) > 0.5


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_losses_that_are_said_to_be_bounded_are_clipped(adjacency):
    losses = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    neighbor = losses.copy()
    neighbor[0] = [HUGE, -HUGE] if adjacency == "replace" else [HUGE, HUGE]
    assert movement(losses, neighbor, adjacency, is_bounded=True)[-1] == 1


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_the_declared_range_is_attained(adjacency):
    losses = np.array([[0.0, HUGE], [0.0, 1.0], [HUGE, 0.0]])
    neighbor = losses.copy()
    neighbor[0] = [HUGE, 0.0] if adjacency == "replace" else 0.0
    assert movement(losses, neighbor, adjacency)[-1] == 1
    assert sensitivity.loss_range(1.0, adjacency) == (2 if adjacency == "replace" else 1)


def test_too_small_a_range_is_noticed(monkeypatch):
    right = sensitivity.loss_range
    monkeypatch.setattr(sensitivity, "loss_range", lambda *given: right(*given) / 2)
    losses = np.array([[0.0, HUGE], [0.0, 1.0], [HUGE, 0.0]])
    assert movement(losses, losses[[2, 1, 2]], "replace")[-1] > 1


def test_the_best_candidate_is_chosen_where_noise_is_small():
    generator = np.random.default_rng(1)
    losses = generator.exponential(size=(20_000, 5)) + np.array([0.5, 0.3, 0.0, 0.3, 0.5])
    counts = np.zeros(5)
    for _ in range(20):
        counts[int(chosen(losses, "replace")[0].released[-1])] += 1
    assert counts[2] == 20


@pytest.mark.parametrize("order", ["C", "F"])
def test_sums_do_not_depend_on_the_order_of_the_rows(order):
    losses = np.asarray(rows(np.random.default_rng(2), 5000, 3), order=order)
    sums = centered_losses(losses, 1e-3).sum(axis=0)
    np.testing.assert_array_equal(sums, centered_losses(losses[::-1], 1e-3).sum(axis=0))
