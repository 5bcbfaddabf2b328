"""Shares of noise as counts: scales, limits, refusals, and one owner alone."""

import hashlib
import math
import warnings
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from skdp import DPPCA, DPTruncatedSVD
from skdp.exceptions import BudgetError
from skdp.linalg.prefix_sums import prefix_noise
from skdp.privacy import Plan, PrivacyBudget, PrivacyCost, Release, shares
from skdp.privacy.noise import NoiseSource, draw, lattice_step, with_noise
from skdp.privacy.shares import ShareBudget, ShareLayout, Shares, counts_of, numbers_of

KEY = bytes(range(32))
N_OWNERS, N_HONEST = 10, 8
# The farthest that a draw gets.
FARTHEST = 37.57


def cost_of(epsilon=1.0, delta=1e-6):
    return PrivacyCost(epsilon, delta)


def plan_of(*sensitivities, mechanism="gaussian", shape=(), cost=None):
    cost = cost_of() if cost is None else cost
    share = 1 / len(sensitivities)
    parts = [
        cost.release(f"sum {i}", mechanism, share, lambda d: d, {"d": sensitivity}, shape=shape)
        for i, sensitivity in enumerate(sensitivities)
    ]
    return Plan(cost, parts, unit="row", adjacency="replace")


def layout_of(std=1.0, n_units=1000, sensitivity=1.0, mechanism="gaussian", shape=(4,)):
    release = Release("sum", mechanism, 1.0, sensitivity, std)
    return Shares(N_OWNERS, N_HONEST, n_units).layout(release, shape)


def all_parts(layout, part):
    """The sum of the counts of this party and of others who have nothing but noise."""
    parts = [part, *([np.zeros(layout.shape)] * (layout.n_owners - 1))]
    # Fixed, so that the tests repeat; those of real owners are drawn for each count.
    keys = [hashlib.sha256(f"{layout.name} {i}".encode()).digest() for i in range(len(parts))]
    return sum(counts_of(part, layout, key) for part, key in zip(parts, keys, strict=True)), ()


def alone(layout, part):
    return counts_of(part, layout, KEY), ()


def open_budget(plan, shares=None, exchange=all_parts, **more):
    return ShareBudget.open(plan, shares or Shares(N_OWNERS, N_HONEST, 1000), exchange, **more)


@pytest.mark.parametrize("n_honest", [1, 3, 10])
def test_the_scale_is_that_of_the_plan_times_the_root_of_owners_to_honest_ones(n_honest):
    plan = plan_of(2.0, 5.0)
    budget = open_budget(plan, Shares(10, n_honest, 1000))
    for release in plan.releases:
        noisy, scale = budget.release(release, np.zeros(4000))
        assert scale == release.noise_std * math.sqrt(10 / n_honest)
        # Four standard errors; the lattice adds a third of a thousandth to the variance.
        assert noisy.std() / scale == pytest.approx(1, abs=4 / math.sqrt(8000))
    # The record keeps what is left against a coalition.
    recorded = [(line.sensitivity, line.noise_std) for line in budget.spent().releases]
    assert recorded == [(line.sensitivity, line.noise_std) for line in plan.releases]


@pytest.mark.covered
@pytest.mark.parametrize(("n_honest", "n_owners"), [(1, 1), (3, 7), (99, 100), (10**4, 10**4)])
@pytest.mark.parametrize("std", [1e-300, 2.3e-308, 0.777, 1.0, 1e100, 1e300])
def test_a_share_has_16_to_32_steps(std, n_honest, n_owners):
    release = Release("sum", "gaussian", 1.0, max(std / 10, 2.3e-308), std)
    layout = Shares(n_owners, n_honest, 10).layout(release, (1,))
    assert math.frexp(layout.step)[0] == 0.5
    assert 16 <= layout.std / layout.step < 32
    # Of numbers that are not subnormal and have not lost digits.
    if std > 1e-300:
        assert layout.std * math.sqrt(n_honest) == pytest.approx(std, rel=1e-15)
    assert layout.step == lattice_step(layout.std)


@pytest.mark.parametrize("mechanism", ["gaussian", "symmetric_gaussian"])
@pytest.mark.parametrize("size", [0.0, 1e-30, 0.3, 100.0])
def test_one_owner_releases_what_the_door_releases(size, mechanism):
    value = np.random.default_rng(0).uniform(-size, size, (20, 20))
    value += value.T
    for std in (1e-300, 0.777, 1.0, 1e300):
        release = Release("sum", mechanism, 1.0, std / 5, std)
        layout = Shares(1, 1, 10_000).layout(release, value.shape)
        numbers = numbers_of(counts_of(value * std, layout, KEY), layout)
        np.testing.assert_array_equal(numbers, with_noise(value * std, mechanism, std, KEY))


def test_the_budget_of_one_owner_is_that_of_the_door():
    plan, value = plan_of(2.0, mechanism="symmetric_gaussian", shape=(3, 3)), np.eye(3) * 7
    source = NoiseSource(2**127 + 5)
    central = PrivacyBudget.of(plan, source)
    noise_std = plan.releases[0].noise_std
    key = source.key(1, "sum 0", "symmetric_gaussian", noise_std, value)
    own = open_budget(
        plan, Shares(1, 1, 1000), lambda layout, part: (counts_of(part, layout, key), ())
    )
    ours, theirs = own.release(plan.releases[0], value), central.release(plan.releases[0], value)
    np.testing.assert_array_equal(ours.value, theirs.value)
    assert ours.noise_std == theirs.noise_std
    assert own.spent().releases == central.spent().releases


def test_there_is_no_seed():
    plan = plan_of(1.0)
    with pytest.raises(TypeError, match="noise_source"):
        open_budget(plan, noise_source=NoiseSource(2**127))
    budget = open_budget(plan)
    budget.release(plan.releases[0], np.zeros(3))
    assert budget.spent().seed_fingerprints == ()


def test_a_part_is_divided_by_the_own_number_of_rows():
    plan, handed_in = plan_of(1.0), []

    def exchange(layout, part):
        handed_in.append(part)
        return alone(layout, part)

    open_budget(plan, exchange=exchange, n_own=7).release(plan.releases[0], [21.0, 0.7])
    np.testing.assert_allclose(handed_in, [[3.0, 0.1]], rtol=1e-15)


@pytest.mark.parametrize(
    ("mechanism", "delta"),
    [("laplace", 1e-6), ("spherical", 1e-6), ("exponential", 1e-6), ("laplace", 0.0)],
)
def test_a_mechanism_without_shares_is_refused(mechanism, delta):
    plan = plan_of(1.0, mechanism=mechanism, cost=cost_of(delta=delta))
    budget = open_budget(plan, exchange=None)
    with pytest.raises(BudgetError, match=f"'sum 0'.*for the mechanisms.*{mechanism!r}"):
        budget.release(plan.releases[0], np.zeros(3))
    assert budget.spent().releases == ()


def test_a_tail_event_is_refused():
    cost = PrivacyCost(1.0, 1e-6, 1e-7)
    plan = plan_of(1.0, cost=cost)
    with pytest.raises(BudgetError, match="tail event: delta_tail must be 0"):
        open_budget(plan)


def test_sums_with_initial_noise_are_refused():
    plan = plan_of(1.0)
    budget = open_budget(plan, exchange=None)
    with pytest.raises(BudgetError, match="'sum 0' draws its noise before its data"):
        budget.sums_with_initial_noise(plan.releases[0], unit=1.0, correlation=prefix_noise(1))
    assert budget.spent().releases == ()


@pytest.mark.parametrize("n_owners", [1, 1000])
@pytest.mark.parametrize("mechanism", ["gaussian", "symmetric_gaussian"])
def test_more_counts_of_all_owners_than_are_paid_for_are_refused(mechanism, n_owners):
    cost = cost_of(1e-4)
    release = Release("sum 0", mechanism, 1.0)
    most = (6e6 * cost.mu) ** 2 / n_owners
    order = math.floor(math.sqrt(2 * most + 0.25) - 0.5)
    shapes = [(math.floor(most),), (math.floor(most) + 1,)]
    if mechanism == "symmetric_gaussian":
        shapes = [(order, order), (order + 1, order + 1)]
    parties = Shares(n_owners, 1, 1000)
    parties.check_size(cost, release, shapes[0])
    with pytest.raises(BudgetError, match=r"'sum 0' has .* numbers of all owners, and its share"):
        parties.check_size(cost, release, shapes[1])
    # As many as one wants without noise.
    parties.check_size(cost_of(math.inf), release, (10**9, 10**9))


def test_too_many_counts_are_refused_before_anything_is_booked_or_charged():
    plan, charged = plan_of(1.0, cost=cost_of(1e-4)), []
    budget = open_budget(plan, Shares(10**6, 1, 1000), None, charge=charged.append)
    with pytest.raises(BudgetError, match="fewer owners"):
        budget.release(plan.releases[0], np.broadcast_to(0.0, (10**6,)))
    assert budget.spent().releases == ()
    assert not charged


def test_what_no_word_holds_is_refused():
    release = Release("sum", "gaussian", 1.0, 1e6, 1.0)
    with pytest.raises(BudgetError, match=r"'sum', with a mu of .*1e\+06"):
        Shares(3, 2, 10**12).layout(release, (2,))


@pytest.mark.parametrize("mechanism", ["gaussian", "symmetric_gaussian"])
@pytest.mark.parametrize("sensitivity", [1.0, math.inf])
def test_without_noise_sums_are_the_nearest_floats(mechanism, sensitivity):
    """Whatever the sizes are, without a bound of them."""
    release = Release("sum", mechanism, 1.0, sensitivity, 0.0)
    layout = Shares(N_OWNERS, N_HONEST, 1000).layout(release, (4, 4))
    rng = np.random.default_rng(0)
    for spread in (1, 60, 1000):
        parts = np.ldexp(rng.normal(size=(40, 4, 4)), rng.integers(-spread, spread, (40, 4, 4)))
        parts = parts + parts.transpose(0, 2, 1)
        parts[:, 0, 0] = rng.choice([5e-324, -1.7e308, 0.0, 1e-310, 1.7e308, -2e-323], 40)
        parts[1::2, 0, 0] = -parts[::2, 0, 0]
        parts[0, 1, 1], parts[1:, 1, 1] = 3e-323, 0.0
        parts[:2, 2, 2], parts[2:, 2, 2] = 1.7e308, -0.0
        sums = sum(counts_of(part, layout, KEY) for part in parts)
        assert np.abs(sums).max() <= layout.largest * 4
        found = numbers_of(sums, layout)
        expected = [math.fsum(column) for column in parts.reshape(40, 16).T if column[0] < 1.7e308]
        is_summed = parts[0].ravel() < 1.7e308
        np.testing.assert_array_equal(found.ravel()[is_summed], expected)
        assert found[2, 2] == np.finfo(float).max


def test_without_noise_masked_words_add_up_modulo():
    release = Release("sum", "gaussian", 1.0, math.inf, 0.0)
    layout = Shares(3, 2, 10).layout(release, (2,))
    words = [counts_of(np.array([x, -x]), layout, KEY).astype(layout.words) for x in (1e9, 3e-9)]
    masks = np.random.default_rng(0).integers(0, 2**64, layout.size, np.uint64)
    total = (words[0] + masks) + (words[1] - masks)
    assert numbers_of(total.view(np.int64), layout).tolist() == [1e9 + 3e-9, -1e9 - 3e-9]


def test_every_float_is_taken_without_a_word():
    parts = [math.nan, math.inf, -math.inf, 1e300, -1e300, 5e-324, -0.0, 2.0**53 + 2]
    for std in (2.3e-308, 1e-300, 1e-100, 1.0, 1e100, 1e300):
        layout = layout_of(std, sensitivity=max(std, 2.3e-308), shape=(8,))
        with warnings.catch_warnings(), np.errstate(all="raise"):
            warnings.simplefilter("error")
            counts = counts_of(np.array(parts), layout, KEY)
            numbers = numbers_of(counts, layout)
        noise = np.rint(draw("gaussian", (8,), KEY) * (layout.std / layout.step))
        assert abs(counts[0] - noise[0]) <= 1, "NaN is null"
        assert np.abs(counts[1:3] - noise[1:3] - [layout.limit, -layout.limit]).max() <= 1
        assert np.abs(counts).max() <= layout.largest
        assert np.isfinite(numbers).all() or std == 1e300


def test_the_largest_noise_of_the_largest_std_stays_a_count():
    # The std itself, times a draw, would be infinite.
    layout = ShareLayout("sum", "gaussian", (2,), 1.7e308, lattice_step(1.7e308), 5, 1)
    with (
        patch.object(shares, "draw", lambda *_: np.array([FARTHEST, -FARTHEST])),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        counts = counts_of(np.zeros(2), layout, KEY)
        numbers_of(counts, layout)
    assert 16 * FARTHEST - 1 < counts[0] == -counts[1] <= layout.largest


def test_a_rest_keeps_all_its_digits_until_it_has_its_noise():
    layout = layout_of(shape=(1,))
    quarter = np.array([layout.step / layout.std / 4])
    with patch.object(shares, "draw", lambda *_: quarter):
        for steps, count in ((8.25, 9), (-7.75, -7)):
            parts = (np.array([steps + more]) * layout.step for more in (1e-9, -1e-9))
            assert [counts_of(part, layout, KEY).item() for part in parts] == [count, count - 1]


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8, bool, np.longdouble])
def test_other_kinds_of_numbers_are_taken_as_they_are(dtype):
    part = np.array([0, 1, 1, 0]).astype(dtype)
    np.testing.assert_array_equal(
        counts_of(part, layout_of(), KEY), counts_of(part.astype(float), layout_of(), KEY)
    )


@pytest.mark.parametrize("mechanism", ["gaussian", "symmetric_gaussian"])
def test_limits_never_move_neighbors_farther_apart(mechanism):
    rng = np.random.default_rng(0)
    silent = replace(layout_of(2.0**-3, 1, 1.0, mechanism, (3, 3)), step=2.0**-40, limit=2**40)
    for _ in range(300):
        part, move = rng.normal(size=(2, 3, 3)) * 2.0 ** rng.integers(-3, 4, (2, 1, 1))
        part, move = part + part.T, move + move.T
        with patch.object(shares, "draw", lambda *_: np.zeros((3, 3))):
            counts = [counts_of(value, silent, KEY) for value in (part, part + move)]
        numbers = [numbers_of(one, silent) for one in counts]
        # Parts are rounded here, as they have no noise: by half a step at most.
        assert np.linalg.norm(numbers[1] - numbers[0]) < np.linalg.norm(move) + 3 * silent.step
        assert np.abs(numbers).max() <= 1


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize(("std", "sensitivity"), [(1.0, 0.01), (1.0, 3.0), (0.777, 1e6)])
def test_owners_at_their_extremes_stay_below_the_bound_of_the_sum(std, sensitivity, sign):
    # All units at the bound, cut up between owners in some way, and all noise at its farthest.
    n_units = 1000
    layout = layout_of(std, n_units, sensitivity, shape=(1,))
    own = np.random.default_rng(0).multinomial(n_units, np.full(N_OWNERS, 1 / N_OWNERS))
    with patch.object(shares, "draw", lambda *_: np.array([sign * FARTHEST])):
        counts = [counts_of(np.array([sign * n * sensitivity]), layout, KEY) for n in own]
    total = abs(int(sum(counts)[0]))
    smallest = n_units * sensitivity / layout.step + N_OWNERS * 16 * FARTHEST
    assert smallest - N_OWNERS < total <= layout.largest
    # Words hold the sum with its sign.
    bits = 8 * layout.words.itemsize
    assert layout.largest < 2 ** (bits - 1)
    wrapped = np.array(sum(count.astype(layout.words) for count in counts), layout.words)
    assert wrapped.view(layout.words.str.replace("u", "i"))[0] == sign * total


def test_numbers_of_a_symmetric_release_are_symmetric():
    layout = layout_of(mechanism="symmetric_gaussian", shape=(5, 5))
    counts = np.arange(layout.size)
    numbers = numbers_of(counts, layout)
    np.testing.assert_array_equal(numbers, numbers.T)
    np.testing.assert_array_equal(numbers[np.triu_indices(5)], counts * layout.step)


def test_no_sign_of_a_zero_remains():
    for shape in ((), (3,), (2, 3)):
        layout = replace(layout_of(shape=shape), std=0.0)
        numbers = numbers_of(counts_of(np.full(shape, -0.0), layout, KEY), layout)
        assert numbers.shape == shape
        assert not np.signbit(numbers).any()


def test_what_is_skipped_asks_nobody():
    plan = plan_of(1.0)
    release = replace(plan.releases[0], may_be_skipped=True)
    plan = Plan(plan.cost, release, unit="row", adjacency="replace")
    budget = open_budget(plan, exchange=None)
    budget.skip(release)
    assert [line.name for line in budget.spent().releases] == ["skipped"]


def test_a_search_is_one_of_counts_of_all():
    cost, asked = cost_of(), []
    search = cost.search("median", 1.0, np.arange(1.0, 65.0))
    plan = Plan(cost, search, unit="row", adjacency="replace")

    def exchange(layout, part):
        asked.append(layout)
        return all_parts(layout, part)

    budget = open_budget(plan, Shares(N_OWNERS, N_HONEST, 4000), exchange)
    found = budget.quantile(search, np.linspace(0, 64, 4000), q=0.5)
    assert 25 < found < 40
    assert len(asked) == len(plan.releases)


def test_a_symmetric_sum_has_half_the_variance_beside_the_diagonal():
    layout = layout_of(3.0, mechanism="symmetric_gaussian", shape=(300, 300))
    numbers = numbers_of(all_parts(layout, np.zeros((300, 300)))[0], layout)
    scale = 3.0 * math.sqrt(N_OWNERS / N_HONEST)
    on, beside = numbers.diagonal(), numbers[np.triu_indices(300, 1)]
    # Five standard errors; the lattice adds a thousandth to the variance at most.
    assert on.std() / scale == pytest.approx(1, abs=5 / math.sqrt(600))
    assert beside.std() / scale == pytest.approx(math.sqrt(0.5), abs=5 / math.sqrt(180_000) + 1e-3)


ROWS = {
    "equal": np.full((100, 6), 10.0),
    "one column": np.eye(1, 6).repeat(100, axis=0) * -7,
    "signs": np.random.default_rng(0).choice([-3.0, 3.0], (100, 6)),
}


@pytest.mark.covered
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
@pytest.mark.parametrize("solver", ["covariance", "power"])
def test_limits_do_not_touch_the_parts_of_rows(solver, adjacency, rows, monkeypatch):
    seen, publish = [], PrivacyBudget._publish

    def recording(budget, release, value):
        seen.append(np.max(np.abs(value), initial=0.0) / (release.sensitivity or math.inf))
        return publish(budget, release, value)

    monkeypatch.setattr(PrivacyBudget, "_publish", recording)
    keywords = {"solver": solver, "adjacency": adjacency}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        DPPCA(2, mean_norm=3.0, **keywords).fit(ROWS[rows])
        DPTruncatedSVD(2, **keywords, row_norm=2.0).fit(ROWS[rows])
    # As many units as there are rows move a sum from 0 to where it is.
    assert 10 < max(seen) <= 100
