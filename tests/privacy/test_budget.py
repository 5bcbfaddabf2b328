import dataclasses
import functools
import json
import math
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest

from skdp.exceptions import BudgetError
from skdp.linalg.prefix_sums import prefix_noise
from skdp.privacy import Plan, PrivacyBudget, Release, Released, gaussian_dp, sensitivity
from skdp.privacy.noise import SCALE_MARGIN, NoiseSource, lattice_step
from skdp.privacy.plan import PrivacyCost

SECRET = 2**127 + 99
MARGIN = 1 + SCALE_MARGIN


def open_budget(epsilon=1.0, delta=1e-6, adjacency="replace", noise_source=None, unit="row"):
    return PrivacyBudget(epsilon, delta, unit=unit, adjacency=adjacency, noise_source=noise_source)


def test_noise_scale_is_sensitivity_over_mu_and_root_of_share():
    budget = open_budget(epsilon=1.0)
    _, scale = budget.gaussian("sum", np.zeros(3), sensitivity=2.0, share=0.25)
    assert scale == pytest.approx(MARGIN * 2.0 / (0.23670 * 0.5), rel=2e-5)
    _, scale = budget.symmetric_gaussian("moment", np.zeros((3, 3)), sensitivity=7.0, share=0.75)
    assert scale == pytest.approx(MARGIN * 7.0 / (budget.cost.mu * math.sqrt(0.75)), rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_noise_has_the_scale_that_the_ledger_says(epsilon):
    budget = open_budget(epsilon, noise_source=NoiseSource(SECRET, ("scale", epsilon)))
    value = np.linspace(-5, 5, 20_000).reshape(100, 200)
    noisy, scale = budget.gaussian("table", value, sensitivity=3.0, share=0.5)
    noise = noisy - value
    assert noise.shape == value.shape
    assert noise.std() == pytest.approx(scale, rel=4 / math.sqrt(2 * noise.size))
    noisy, scale = budget.symmetric_gaussian("moment", np.eye(200), sensitivity=3.0, share=0.5)
    noise = noisy - np.eye(200)
    np.testing.assert_array_equal(noise, noise.T)
    above = noise[np.triu_indices(200, 1)]
    off_diagonal = scale / math.sqrt(2)
    assert above.std() == pytest.approx(off_diagonal, rel=4 / math.sqrt(2 * above.size))
    assert np.diag(noise).std() == pytest.approx(scale, rel=4 / math.sqrt(2 * 200))


def test_what_is_no_release_or_larger_than_planned_is_refused():
    cost = PrivacyCost(1.0, 1e-6)
    names = {"name": "gaussian", "choice": "exponential"}
    parts = tuple(cost.release(*line, 0.5, lambda: 1.0, {}, shape=(3,)) for line in names.items())
    budget = PrivacyBudget.of(Plan(cost, parts, unit="row", adjacency="replace"))
    for make in (budget.release, budget.choose):
        with pytest.raises(TypeError, match=r"plan\.parts\[0\] .*, got tuple"):
            make(parts, np.zeros(3))
    with pytest.raises(BudgetError, match=r"planned shape \(3,\).* shape \(9,\)"):
        budget.release(parts[0], np.zeros(9))
    assert not budget.spent().releases
    # Released values may have ruled some out.
    assert budget.release(parts[0], np.zeros(2)).value.shape == (2,)


@pytest.mark.parametrize("make", [PrivacyCost, open_budget])
@pytest.mark.parametrize("bad", ["1", "abc", None, True, np.True_])
def test_a_cost_that_is_no_number_is_refused_by_its_name(make, bad):
    with pytest.raises(TypeError, match="epsilon must be a number"):
        make(bad, 1e-6)
    with pytest.raises(TypeError, match="delta must be a number"):
        make(1.0, bad)


def test_the_value_is_left_as_it_was():
    value = np.ones((2, 2))
    for release in (
        PrivacyBudget.gaussian,
        PrivacyBudget.symmetric_gaussian,
        PrivacyBudget.laplace,
        PrivacyBudget.spherical,
    ):
        noisy, _ = release(open_budget(), "value", value, sensitivity=1.0, share=1.0)
        assert not np.shares_memory(noisy, value)
    np.testing.assert_array_equal(value, np.ones((2, 2)))


def test_numbers_are_released_as_numbers_are():
    budget = open_budget()
    assert np.ndim(budget.gaussian("count", 10, sensitivity=1, share=0.5).value) == 0
    assert budget.gaussian("list", [1, 2], sensitivity=1, share=0.5).value.shape == (2,)


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
@pytest.mark.parametrize("mechanism", ["gaussian", "symmetric_gaussian", "laplace", "spherical"])
def test_a_release_is_its_value_and_the_scale_in_the_ledger(mechanism, epsilon):
    budget = open_budget(epsilon)
    released = getattr(budget, mechanism)("value", np.eye(2), sensitivity=2.0, share=0.5)
    assert isinstance(released, Released)
    assert released.value.shape == (2, 2)
    assert released.noise_std == budget.spent().releases[-1].noise_std
    # The scale goes with its own release, whatever is released after it.
    later = getattr(budget, mechanism)("value", np.eye(2), sensitivity=9.0, share=0.25)
    assert (later.noise_std > released.noise_std) == budget.is_private
    assert [released.noise_std, later.noise_std] == [r.noise_std for r in budget.spent().releases]
    with pytest.raises(AttributeError):
        released.noise_std = 0.0
    assert not hasattr(budget, "last_scale")


def test_the_ledger_holds_every_release_in_order():
    budget = open_budget(delta=1e-7, adjacency="zero_out")
    budget.gaussian("sum", np.zeros(3), sensitivity=2.0, share=0.25)
    budget.symmetric_gaussian("moment", np.eye(2), sensitivity=4.0, share=0.25)
    spent = budget.spent()
    half = MARGIN / (budget.cost.mu * 0.5)
    assert spent.releases == (
        Release("sum", "gaussian", 0.25, sensitivity=2.0, noise_std=2.0 * half),
        Release("moment", "symmetric_gaussian", 0.25, sensitivity=4.0, noise_std=4.0 * half),
    )
    assert (spent.epsilon, spent.delta, spent.unit) == (1.0, 1e-7, "row")
    assert (spent.adjacency, spent.seeded, spent.enforced) == ("zero_out", False, True)
    # Half of the square of mu was left.
    assert spent.mu == pytest.approx(budget.cost.mu / math.sqrt(2))
    assert spent.rho == pytest.approx(budget.cost.mu**2 / 4)
    assert spent.epsilon_at(1e-7) < 1.0
    assert spent.delta_at(1.0) < 1e-7
    # The record is of the moment: what follows does not change it.
    budget.gaussian("more", 0.0, sensitivity=1.0, share=0.5)
    assert len(spent.releases) == 2
    assert budget.spent().mu == pytest.approx(budget.cost.mu)


def test_nothing_released_is_nothing_spent():
    spent = open_budget().spent()
    assert spent.mu == 0.0
    assert spent.epsilon_at(1e-9) == 0.0
    assert spent.releases == ()


def test_the_whole_budget_is_what_was_asked_for():
    budget = open_budget(epsilon=2.0, delta=1e-5)
    budget.gaussian("all", 0.0, sensitivity=1.0, share=1.0)
    spent = budget.spent()
    assert spent.epsilon_at(1e-5) == pytest.approx(2.0, rel=1e-8)
    assert spent.epsilon_at(1e-5) <= 2.0
    assert spent.delta_at(2.0) <= 1e-5


@pytest.mark.parametrize("shares", [[0.1] * 10, [1 / 3] * 3, [1 / 49] * 49, [0.7, 0.2, 0.1]])
def test_shares_that_add_to_one_but_for_rounding_are_accepted(shares):
    budget = open_budget()
    for share in shares:
        budget.gaussian("part", 0.0, sensitivity=1.0, share=share)
    assert budget.spent().mu <= budget.cost.mu
    assert budget.spent().mu == pytest.approx(budget.cost.mu)
    with pytest.raises(BudgetError, match="'one more'"):
        budget.gaussian("one more", 0.0, sensitivity=1.0, share=1e-9)
    assert len(budget.spent().releases) == len(shares)


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
@pytest.mark.parametrize("share", [1 + 1e-9, 0.0, -0.1, math.nan, math.inf])
def test_shares_out_of_range_are_refused_and_leave_the_ledger_alone(epsilon, share):
    budget = open_budget(epsilon)
    for release, value in (
        (budget.gaussian, 0.0),
        (budget.laplace, 0.0),
        (budget.spherical, 0.0),
        (budget.symmetric_gaussian, np.zeros((2, 2))),
        (functools.partial(budget.histogram, edges=np.ones(1)), np.ones(3)),
    ):
        arguments = {} if isinstance(release, functools.partial) else {"sensitivity": 1.0}
        with pytest.raises(BudgetError, match="share"):
            release("too much", value, share=share, **arguments)
    with pytest.raises(BudgetError, match="share"):
        budget.quantile(
            budget.cost.search("too much", 11 * share, np.ones(1024)), np.ones(3), q=0.5
        )
    assert budget.spent().releases == ()


@pytest.mark.parametrize("sensitivity", [math.inf, math.nan])
def test_sensitivity_without_a_bound_is_refused_at_a_finite_epsilon(sensitivity):
    budget = open_budget()
    for release in (budget.gaussian, budget.laplace, budget.spherical):
        with pytest.raises(BudgetError, match="sensitivity"):
            release("sum", 0.0, sensitivity=sensitivity, share=0.5)
    assert budget.spent().releases == ()
    assert budget.spent().mu == 0.0


def test_infinite_epsilon_adds_no_noise():
    budget = open_budget(math.inf, 0.0)
    assert not budget.is_private
    value = np.random.default_rng(0).normal(size=(3, 3))
    value += value.T
    released = budget.gaussian("sum", value, sensitivity=math.inf, share=0.2)
    np.testing.assert_array_equal(released.value, value)
    released = budget.symmetric_gaussian("moment", value, sensitivity=1.0, share=0.2)
    np.testing.assert_array_equal(released.value, value)
    for release in (budget.laplace, budget.spherical):
        released = release("pure", value, sensitivity=math.inf, share=0.1)
        np.testing.assert_array_equal(released.value, value)
    counts = budget.histogram("bins", np.arange(4.0), edges=np.array([1.0, 9.0]), share=0.2)
    np.testing.assert_array_equal(counts.value, [2, 2])
    assert budget.quantile(budget.cost.search("q", 0.2, np.arange(4)), np.arange(4.0), q=0.5) == 1
    spent = budget.spent()
    assert spent.mu == spent.rho == math.inf
    assert {release.noise_std for release in spent.releases} == {0.0}


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1e-60, 0.0), (1e-60, 1e-100), (1e-9, 0.0), (1e-9, 1e-9)]
)
def test_a_budget_without_a_usable_scale_is_refused(epsilon, delta):
    with pytest.raises(ValueError, match="is too small; pass a larger"):
        open_budget(epsilon, delta)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 1e-6), (-1.0, 1e-6), (math.nan, 1e-6), (1.0, 1.0), (1.0, -1e-6)]
)
def test_epsilon_and_delta_out_of_range_are_refused(epsilon, delta):
    with pytest.raises(ValueError, match="must"):
        open_budget(epsilon, delta)


@pytest.mark.parametrize(("adjacency", "sensitivity"), [("replace", math.sqrt(2)), ("zero_out", 1)])
def test_histogram_is_charged_by_adjacency(adjacency, sensitivity):
    budget = open_budget(100.0, adjacency=adjacency, noise_source=NoiseSource(SECRET, (adjacency,)))
    values = np.array([1.0] * 500 + [3.0] * 1500 + [np.nan])
    counts, scale = budget.histogram("bins", values, edges=np.array([2.0, 4.0, 8.0]), share=0.5)
    assert budget.spent().releases[0].sensitivity == pytest.approx(sensitivity)
    np.testing.assert_allclose(counts, [500, 1500, 0], atol=5 * scale)


def test_quantile_spreads_its_share_over_the_steps():
    budget = open_budget(50.0, noise_source=NoiseSource(SECRET, ("quantile",)))
    values = np.random.default_rng(0).uniform(0, 1000, size=5000)
    grid = np.arange(1.0, 1025.0)
    found = budget.quantile(budget.cost.search("bound", 0.5, grid), values, q=0.9)
    assert found == pytest.approx(900, rel=0.03)
    releases = budget.spent().releases
    assert len(releases) == 4
    assert len({release.name for release in releases}) == 4
    assert {release.sensitivity for release in releases} == {math.sqrt(2)}
    assert math.fsum(release.share for release in releases) == pytest.approx(0.5, rel=1e-12)


def filled(seed=None, context=(), **keywords):
    budget = open_budget(noise_source=NoiseSource(seed, context), **keywords)
    budget.gaussian("column sums", np.zeros(3), sensitivity=2.0, share=0.5)
    budget.quantile(budget.cost.search("row_norm", 0.5, np.arange(1, 9)), np.ones(20), q=0.5)
    return budget.spent()


def test_record_is_immutable():
    spent = filled()
    with pytest.raises(dataclasses.FrozenInstanceError):
        spent.mu = 0.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        spent.releases[0].sensitivity = 0.0
    assert isinstance(spent.releases, tuple)
    hash(spent)  # hence every field is immutable too


def test_repr_tells_what_is_protected_and_how():
    text = repr(filled(epsilon=2.5, adjacency="zero_out"))
    for fact in ("(2.5, 1e-06)-DP", "per row", "'zero_out'", "mu=", "column sums", "row_norm"):
        assert fact in text
    assert "guess" not in text
    assert "promised" not in text
    assert "no guarantee against anyone who can guess" in repr(filled(seed=SECRET))
    assert "promised, not enforced" in repr(dataclasses.replace(filled(), enforced=False))
    unprotected = repr(filled(epsilon=math.inf))
    assert "no privacy" in unprotected
    assert "no privacy" not in text


def test_record_goes_through_json():
    spent = filled()
    record = json.loads(json.dumps(spent.as_dict(), allow_nan=False))
    assert spent.as_dict() == record
    assert record["rho"] == spent.rho
    assert record["releases"][0] == {
        "name": "column sums",
        "mechanism": "gaussian",
        "sensitivity": 2.0,
        "noise_std": spent.releases[0].noise_std,
        "share": 0.5,
    }


def test_records_compose_by_adding_squares():
    first, second = filled(delta=1e-6), filled(epsilon=2.0, delta=1e-8, seed=SECRET)
    promised = dataclasses.replace(filled(), enforced=False)
    both = first.compose(second)
    assert both.mu == pytest.approx(math.hypot(first.mu, second.mu), rel=1e-8)
    apart = first.releases + second.releases
    assert [release.name for release in both.releases] == [release.name for release in apart]
    for composed, alone in zip(both.releases, apart, strict=True):
        assert composed == dataclasses.replace(alone, share=composed.share)
        # A share is one of the square of the mu of the record it stands in.
        scale = composed.sensitivity / (both.mu * math.sqrt(composed.share))
        assert MARGIN * scale == pytest.approx(alone.noise_std)
    assert math.fsum(release.share for release in both.releases) == pytest.approx(1.0)
    assert both.delta == 1e-6
    assert both.epsilon == gaussian_dp.epsilon_at(both.mu, 1e-6)
    assert (both.seeded, both.enforced) == (True, True)
    three = first.compose(first, promised)
    assert three.mu == pytest.approx(math.sqrt(3) * first.mu, rel=1e-8)
    assert (three.seeded, three.enforced) == (False, False)
    assert len(three.releases) == 3 * len(first.releases)
    # Of a budget that was not used up, the shares are still those of the total.
    budget = open_budget()
    budget.gaussian("half", 0.0, sensitivity=1.0, share=0.5)
    parts = budget.spent().compose(budget.spent()).releases
    assert [release.share for release in parts] == pytest.approx([0.5, 0.5])
    # It adds, rather than multiplies: two fits at 1 cost less than one at 2.
    assert 1.3 < first.compose(first).epsilon_at(1e-6) / first.epsilon_at(1e-6) < 1.6


def test_records_that_protect_something_else_do_not_compose():
    with pytest.raises(ValueError, match="adjacency"):
        filled().compose(filled(adjacency="zero_out"))
    with pytest.raises(ValueError, match="unit"):
        filled().compose(filled(unit="entry"))


def test_rows_and_records_compose_where_the_caller_says_they_are_the_same():
    rows, records = filled(), filled(unit="record", epsilon=2.0)
    for one, other in ((rows, records), (records, rows)):
        with pytest.raises(ValueError, match=r"same unit.*same_unit=True"):
            one.compose(other)
        both = one.compose(other, same_unit=True)
        assert both.unit == "record"
        assert both.mu == pytest.approx(math.hypot(rows.mu, records.mu), rel=1e-8)
        assert len(both.releases) == len(rows.releases) + len(records.releases)
        assert both.epsilon == gaussian_dp.epsilon_at(both.mu, both.delta)
        # What is composed composes again, and with more of both.
        three = rows.compose(both, records, same_unit=True)
        assert three.unit == "record"
        assert three.mu == pytest.approx(math.hypot(rows.mu, records.mu, both.mu), rel=1e-8)
        assert "per record" in repr(three)
    # Neither record has changed.
    assert (rows.unit, records.unit) == ("row", "record")


@pytest.mark.parametrize("unit", ["row", "record", "response", "entry", "spectral"])
def test_records_of_one_unit_compose_to_it_whatever_the_caller_says(unit):
    one, other = filled(unit=unit), filled(unit=unit)
    assert one.compose(other, same_unit=True) == one.compose(other)
    assert one.compose(other).unit == unit


@pytest.mark.parametrize(
    "units",
    [
        ("row", "response"),
        ("record", "response"),
        ("row", "entry"),
        ("record", "entry"),
        ("entry", "edge"),
        ("row", "record", "response"),
        ("row", "record", "interaction"),
        ("spectral", "record"),
    ],
    ids=", ".join,
)
def test_no_promise_makes_other_units_the_same(units):
    for turn in range(len(units)):
        one, *others = (filled(unit=unit) for unit in units[turn:] + units[:turn])
        for same_unit in (False, True):
            with pytest.raises(ValueError, match="Only fits of the same unit compose") as told:
                one.compose(*others, same_unit=same_unit)
            # It would be a promise in vain.
            assert "same_unit=True" not in str(told.value)


def test_the_same_unit_does_not_make_up_for_another_adjacency_or_a_shared_seed():
    records = filled(unit="record", adjacency="zero_out")
    with pytest.raises(ValueError, match="same adjacency"):
        filled().compose(records, same_unit=True)
    seeded = [filled(seed=SECRET), filled(seed=SECRET, unit="record")]
    with pytest.raises(ValueError, match="Records of the same seed do not compose"):
        seeded[0].compose(seeded[1], same_unit=True)
    with pytest.raises(TypeError, match="compose takes records"):
        filled().compose(None, same_unit=True)
    # The promise is named, so that nobody makes it by mistake.
    with pytest.raises(TypeError, match="compose takes records"):
        filled().compose(filled(unit="record"), True)


def test_pure_records_of_rows_and_records_add_their_epsilons():
    spent = []
    for unit in ("row", "record"):
        budget = open_budget(1.0, 0.0, unit=unit)
        budget.laplace("sum", np.zeros(3), sensitivity=1.0, share=1.0)
        spent.append(budget.spent())
    both = spent[0].compose(spent[1], same_unit=True)
    assert (both.unit, both.epsilon, both.delta) == ("record", 2.0, 0.0)


def test_records_of_one_seed_do_not_compose():
    first, again, other = filled(seed=SECRET), filled(seed=SECRET), filled(seed=SECRET + 1)
    for one, *others in ((first, first), (first, filled(), again), (first.compose(other), again)):
        with pytest.raises(ValueError, match="Records of the same seed do not compose"):
            one.compose(*others)
    both = first.compose(other, filled(), filled())
    assert both.seeded
    assert both.seed_fingerprints == first.seed_fingerprints + other.seed_fingerprints
    assert not filled().compose(filled()).seeded


def test_a_record_tells_whether_its_seed_may_be_guessed():
    secret, known = filled(seed=SECRET), filled(seed=7)
    assert (secret.guessable, known.guessable, filled().guessable) == (False, True, False)
    assert "seeded: no guarantee against anyone" in repr(secret)
    assert "no privacy: whoever guesses random_state" in repr(known)
    both = filled().compose(known, secret)
    assert both.guessable
    assert both.as_dict()["guessable"] is True
    assert not filled().compose(secret).guessable


def unit(*entries):
    direction = np.array(entries, dtype=float)
    return direction / np.linalg.norm(direction)


def seeded_release(value, epsilon, context=(), mechanism="gaussian"):
    budget = open_budget(epsilon, noise_source=NoiseSource(SECRET, context))
    return getattr(budget, mechanism)("value", value, sensitivity=1.0, share=1.0)


def two_epsilon_attack(value, contexts=((), ()), mechanism="gaussian"):
    (first, scale), (second, other_scale) = (
        seeded_release(value, epsilon, context, mechanism)
        for epsilon, context in zip((1.0, 2.0), contexts, strict=True)
    )
    recovered = (other_scale * first - scale * second) / (other_scale - scale)
    return np.abs(recovered - value).max()


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace", "spherical"])
def test_equal_data_and_seed_at_two_epsilons_share_no_noise(monkeypatch, mechanism):
    value = np.random.default_rng(0).normal(size=50)
    # Even if the context forgot epsilon, the scale of the release would tell them apart.
    assert two_epsilon_attack(value, mechanism=mechanism) > 1
    contexts = ((("epsilon", 1.0),), (("epsilon", 2.0),))
    assert two_epsilon_attack(value, contexts, mechanism) > 1
    # Shared noise would be solved for: two equations, two unknowns, up to a step of the lattice.
    monkeypatch.setattr(NoiseSource, "key", lambda self, *release: bytes(32))
    steps = [lattice_step(seeded_release(value, e, (), mechanism).noise_std) for e in (1.0, 2.0)]
    assert two_epsilon_attack(value, mechanism=mechanism) < 2 * max(steps)


def test_mechanisms_share_no_noise():
    keys = []
    source = NoiseSource(SECRET)
    source.key = lambda *release: keys.append(NoiseSource.key(source, *release)) or keys[-1]
    for mechanism in ("gaussian", "symmetric_gaussian", "laplace", "spherical"):
        budget = open_budget(noise_source=source)
        # Whatever the scale: the name of the mechanism alone tells them apart.
        with patch.object(PrivacyCost, "noise_std", lambda *release: 1.0):
            getattr(budget, mechanism)("value", np.eye(3), sensitivity=1.0, share=1.0)
    assert len(set(keys)) == 4


def test_only_known_mechanisms_are_taken():
    budget = open_budget()
    for mechanism in ("Gaussian", "none", ""):
        with pytest.raises(BudgetError, match="mechanism must be one of"):
            budget.release(Release("sum", mechanism, 0.5, sensitivity=1.0), np.zeros(3))
    assert not budget.spent().releases


def test_initial_noise_is_gaussian_and_a_choice_exponential():
    budget, correlation = open_budget(), prefix_noise(1)
    for mechanism in ("symmetric_gaussian", "laplace", "exponential"):
        release = Release("sums", mechanism, 0.5, sensitivity=1.0, shape=(4, 4))
        with pytest.raises(BudgetError, match="'gaussian'"):
            budget.sums_with_initial_noise(release, unit=1.0, correlation=correlation)
    with pytest.raises(BudgetError, match="'exponential'"):
        budget.choose(Release("choice", "gaussian", 0.5, sensitivity=1.0), np.zeros(3))
    choice = Release("choice", "exponential", 0.5, sensitivity=1.0)
    for losses in ([0.0, np.nan], [[0.0, 1.0]], []):
        with pytest.raises(ValueError, match="a vector of one or more finite numbers"):
            budget.release(choice, losses)
    assert not budget.spent().releases


def test_a_planned_release_cannot_lower_its_sensitivity():
    cost = PrivacyCost(1.0, 1e-6)
    later = cost.release("later", "gaussian", 0.5, sensitivity.row_sum, follows="norm")
    known = cost.release(
        "known", "gaussian", 0.5, sensitivity.row_sum, {"row_norm": 1.0, "adjacency": "replace"}
    )
    budget = PrivacyBudget.of(Plan(cost, (known, later), unit="row", adjacency="replace"))
    with pytest.raises(BudgetError, match="less than the planned"):
        budget.release(known, 0.0, 0.1, "replace")
    with pytest.raises(BudgetError, match="both must be positive"):
        open_budget().gaussian("sum", 0.0, sensitivity=-1.0, share=0.5)
    budget.release(known, 0.0)
    with pytest.raises(BudgetError, match="not next"):
        budget.release(replace(later, sensitivity_of=lambda *_: 1e-9), 0.0, 1.0, "replace")
    budget.release(later, 0.0, 1.0, "replace")
    assert budget.spent().releases[1].sensitivity == 2.0


def test_sums_of_all_owners_are_without_noise_only_where_nothing_is_private():
    def budget_of(epsilon):
        cost = PrivacyCost(epsilon, 1e-6)
        release = cost.release("sum", "gaussian", 1.0, lambda: 1.0, shape=(2,))
        return PrivacyBudget.of(Plan(cost, release, unit="row", adjacency="replace"))

    sums = np.ones(2)
    assert budget_of(np.inf).of_all(sums) is sums
    with pytest.raises(BudgetError, match="for epsilon=inf alone"):
        budget_of(1.0).of_all(sums)
