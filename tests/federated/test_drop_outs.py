"""Owners who leave between two answers: the fit goes on without them, and no mask is opened."""

from functools import partial

import numpy as np
import pytest
from parties import MODELS, TABLE, Talk, answer_of, fields_of, owners_of
from sklearn.base import clone

from skdp import DPPCA, FederationError, model_card
from skdp.federated import Federation, _masks
from skdp.federated._messages import TO_OWNER, pack

# Small data: most of what is found is noise.
pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

CASES = {"pca": (DPPCA(2, row_norm=20.0, mean_norm=20.0), TABLE, None), **MODELS}
# These take many exchanges.
MANY, SLOW = ["linear", "trace", "pipeline"], partial(pytest.param, marks=pytest.mark.slow)
# Twenty owners of 5 to 19 records, three of whom may leave.
N_OWNERS, DROPOUTS = 20, 3
SIZES = [5 + i % 15 for i in range(N_OWNERS - 1)]
SIZES.append(240 - sum(SIZES))


def parts_of(values, sizes=SIZES):
    return None if values is None else np.split(values, np.cumsum(sizes)[:-1])


def federation_of(name, epsilon=8.0, dropouts=DROPOUTS, **options):
    estimator, rows, _ = CASES[name]
    estimator = clone(estimator).set_params(epsilon=epsilon)
    options = {"n_rows": SIZES, "like": rows[:1], "owners": N_OWNERS} | options
    return Federation(estimator, dropouts=dropouts, **options)


def talk_of(name, federation=None, folder=None, **options):
    """All owners and what is asked; who leaves does so from an exchange on."""
    _, rows, y = CASES[name]
    federation = federation or federation_of(name)
    owners = owners_of(federation, parts_of(rows), parts_of(y), folder=folder)
    return Talk(federation, owners, **options)


def fields(question, n_owners=N_OWNERS):
    return fields_of(question, TO_OWNER, n_owners)


# ------------------------------
# Fits that some leave


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("name", ["scaler", "covariance", "logistic", *map(SLOW, MANY)])
def test_three_of_twenty_leave_between_answers(name):
    """Exchanges: keys, confirmations, then a roll call and an answer for each release."""
    federation = federation_of(name)
    assert federation.noise_factor == pytest.approx(np.sqrt(20 / 16))
    talk = talk_of(name, federation, leave_at={4: 2, 11: 2, 17: 4})
    model = talk.run()
    asked = [len(one) for one in talk.questions]
    # Every fit has two releases at least, however noise falls out.
    assert asked[:6] == [20, 20, 18, 18, 17, 17]
    assert set(asked[4:]) == {17}
    spent = model.privacy_spent_
    assert spent.trust.endswith("owners who left before the end: 4, 11, 17")
    assert "4, 11, 17" in repr(spent)
    assert spent.mu <= federation.plan.cost.mu * (1 + 1e-9)
    for i, owner in enumerate(talk.owners):
        assert hasattr(owner, "estimator_") == (i not in (4, 11, 17))
    assert talk.owners[0].estimator_.privacy_spent_.trust == spent.trust
    assert model_card(model).as_dict()["trust_model"] == spent.trust


ATTRIBUTES = {
    "pca": ["components_", "mean_"],
    "scaler": ["mean_", "var_", "scale_"],
    "covariance": ["location_", "covariance_"],
    "linear": ["coef_", "intercept_"],
    "trace": ["coef_", "intercept_"],
}


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("unit", ["row", "owner"])
@pytest.mark.parametrize("name", [SLOW(name) if name in MANY else name for name in ATTRIBUTES])
def test_without_noise_it_is_the_fit_of_those_who_are_left(name, unit):
    estimator, rows, y = CASES[name]
    gone = [0, 7, 19]
    is_there = np.repeat(~np.isin(np.arange(N_OWNERS), gone), SIZES)
    options = {} if unit == "row" else {"n_rows": None, "unit": unit}
    federation = federation_of(name, np.inf, aggregator="trusted", **options)
    model = talk_of(name, federation, leave_at=dict.fromkeys(gone, 0)).run()
    estimator = clone(estimator).set_params(epsilon=np.inf)
    if unit == "row":
        estimator.set_params(random_state=0)
        one = estimator.fit(rows[is_there], None if y is None else y[is_there])
    else:
        left = [i for i in range(N_OWNERS) if i not in gone]
        facts = {"owners": len(left), "unit": unit, "like": rows[:1]}
        parts, targets = [one and [one[i] for i in left] for one in (parts_of(rows), parts_of(y))]
        one = Federation(estimator, None, **facts).fit(parts, targets)
    # What follows from the number of records follows from that of all owners.
    for attribute in ATTRIBUTES[name]:
        found, expected = getattr(model, attribute), getattr(one, attribute)
        np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["logistic", SLOW("pipeline")])
def test_losses_are_scaled_as_sums_are(name):
    """So the penalty of a classifier weighs as much as beside all records."""
    estimator, rows, y = CASES[name]
    federation = federation_of(name, np.inf, aggregator="trusted")
    model = talk_of(name, federation, leave_at=dict.fromkeys([0, 7, 19], 0)).run()
    one = clone(estimator).set_params(epsilon=np.inf, random_state=0).fit(rows, y)
    coefs = [(it if name == "logistic" else it.pipeline_[-1]).coef_.ravel() for it in (model, one)]
    assert np.corrcoef(*coefs)[0, 1] > 0.99
    np.testing.assert_allclose(*map(np.linalg.norm, coefs), rtol=0.1)


@pytest.mark.slow
def test_everybody_may_stay_and_one_more_may_not_leave():
    federation = federation_of("scaler")
    _, rows, _ = CASES["scaler"]
    assert federation.fit(parts_of(rows)).privacy_spent_.trust.endswith("which is not trusted")
    with pytest.raises(FederationError, match="of the 20 owners: 9\\. "):
        talk_of("scaler", federation, leave_at={4: 2, 11: 2, 17: 4, 9: 6}).run()
    # Nobody leaves while keys are agreed on.
    with pytest.raises(FederationError, match="of the 20 owners: 4\\. "):
        talk_of("scaler", federation, leave_at={4: 1}).run()


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize(
    ("aggregator", "trust", "name"),
    [
        ("masked", "masks hide all but sums of 20 owners, 1 of whom may collude", "Central"),
        ("trusted", "a server sums parts of 20 owners, and is trusted", "Central"),
        ("none", "local: each of 20 owners adds all of the noise", "Local"),
    ],
)
def test_a_card_says_who_is_trusted(aggregator, trust, name):
    _, rows, _ = CASES["covariance"]
    federation = federation_of("covariance", aggregator=aggregator)
    card = model_card(federation.fit(parts_of(rows)))
    assert card.as_dict()["trust_model"].startswith(trust)
    assert f"- Trust model: {trust}" in card.as_markdown()
    facts = {"name": "a", "description": "a", "intended_use": "a", "data_product_region": "a"}
    facts |= {"data_curators": [], "publication_date": "2026-01-01"}
    entry = card.registry_entry("a", authors=["a"], **facts)
    assert entry["deployment"]["deployment_model"]["model_name"] == name
    record = card.spent.as_dict()
    assert type(card.spent)._from_dict(record) == card.spent
    assert type(card.spent)._from_dict({k: v for k, v in record.items() if k != "trust"})


def test_the_noise_is_that_of_the_fewest_honest_owners():
    talk = talk_of("covariance", stop_at=3)
    talk.run()
    layout, planned = talk.owners[0]._waiting.layout, talk.federation.plan.releases[0]
    assert layout.std * np.sqrt(16) == pytest.approx(planned.noise_std)
    shares = talk.federation._agreement.shares
    n_left = 240 - SIZES[3] - SIZES[8]
    expected = np.sqrt(18 / 16) * 240 / n_left
    assert shares.excess((3, 8)) == pytest.approx(expected)


# ------------------------------
# Owners and coordinators who come back


@pytest.mark.slow
@pytest.mark.parametrize("exchange", [SLOW(2), 3, SLOW(4), SLOW(5), SLOW(6), SLOW(7)])
def test_a_loss_within_an_answer_ends_the_run_and_comes_back_by_its_state(tmp_path, exchange):
    """A new coordinator learns from owners with whom they have handed in."""
    sizes, (_, rows, y) = [40] * 6, CASES["logistic"]
    federation = federation_of("logistic", n_rows=sizes, owners=6)
    data = parts_of(rows, sizes), parts_of(y, sizes)
    owners = owners_of(federation, *data, folder=tmp_path)
    leave_at = {4: 2, 5: 4}
    if exchange % 2:  # a roll call is over
        leave_at[1] = exchange
        with pytest.raises(FederationError, match="of the 6 owners: 1\\. "):
            Talk(federation, owners, leave_at=leave_at).run()
    else:
        Talk(federation, owners, leave_at=leave_at, stop_at=exchange).run()
    for owner in owners:
        owner.close()
    # Those who have left are there again, and are left out where the others have handed in.
    model = Talk(federation, owners_of(federation, *data, folder=tmp_path)).run()
    absent = {2: "trusted", 3: ": 4", 4: ": 4", 5: ": 4, 5", 6: ": 4, 5", 7: ": 4, 5"}[exchange]
    assert model.privacy_spent_.trust.endswith(absent)


# ------------------------------
# Lies about who is there


def stopped(exchange, name="covariance", **options):
    talk = talk_of(name, stop_at=exchange, **options)
    talk.run()
    return talk


def called(talk, absent, release=None):
    """A question to hand in without some owners."""
    _, old, _ = fields(talk.next[0])
    release = old["release"] if release is None else release
    told = {"agreement": talk.federation._agreement.digest.hex(), "release": release}
    return pack("hand_in", told | {"absent": absent})


# Itself, more than may leave, one twice, another order, nobody, no number, and a text.
LIES = [[0], [1, 2, 3, 4], [1, 1], [2, 1], [20], [True], ["1"]]


def test_rosters_that_are_refused():
    talk = stopped(3)
    for absent in LIES:
        with pytest.raises(FederationError):
            talk.owners[0].handle(called(talk, absent))
    assert talk.run() is None


def test_who_has_left_does_not_come_back():
    talk = stopped(5, leave_at={4: 2})
    for absent in ([], [5], [5, 6]):
        with pytest.raises(FederationError, match="Absent owners must stay absent"):
            talk.owners[0].handle(called(talk, absent))
    talk.owners[0].handle(called(talk, [4, 5]))
    with pytest.raises(FederationError, match="not about the next"):
        talk.owners[4].handle(called(talk, []))


def test_one_answer_whatever_the_roster():
    talk = stopped(3)
    talk.owners[0].handle(called(talk, [3]))
    for absent in ([], [3, 4], [5]):
        with pytest.raises(FederationError, match="was answered"):
            talk.owners[0].handle(called(talk, absent))
    for release in (1, 2):
        with pytest.raises(FederationError, match="not about the next"):
            talk.owners[1].handle(called(talk, [], release))
    # And nobody hands in before a roll call.
    with pytest.raises(FederationError, match="not about the next"):
        stopped(2).owners[0].handle(called(talk, [], 0))


def test_a_roll_is_called_where_owners_may_leave_and_only_there():
    talk = stopped(2)
    kind, told, arrays = fields(talk.next[0])
    assert kind == "ready"
    with pytest.raises(FederationError, match="Each release must begin with a roll call"):
        talk.owners[0].handle(pack("answer", told, *arrays))
    talk = talk_of("covariance", federation_of("covariance", dropouts=0), stop_at=2)
    talk.run()
    _, told, arrays = fields(talk.next[0])
    for other in (pack("ready", told, *arrays), called(talk, [], 0)):
        with pytest.raises(FederationError, match="Each release must begin with a roll call"):
            talk.owners[0].handle(other)


def sum_of(answers, layout):
    return _masks.sum_modulo([one.arrays[0] for one in answers], layout.words)


def is_hidden(answers, layout):
    return np.abs(sum_of(answers, layout).astype(float)).max() > layout.largest


@pytest.fixture(params=[50, 10])
def neighbors(request, monkeypatch):
    """All others, or a few on a ring."""
    monkeypatch.setattr(_masks, "_FEWEST_NEIGHBORS", request.param)


@pytest.mark.covered(at_most=2)
@pytest.mark.usefixtures("neighbors")
@pytest.mark.parametrize("seed", range(5))
def test_a_sum_is_of_all_who_are_on_one_roster(seed):
    """Whoever is told to hand in with whom: no sum is seen but of a whole roster."""
    rng, talk = np.random.default_rng(seed), stopped(3)
    rosters = [sorted(rng.choice(N_OWNERS, n, replace=False).tolist()) for n in (0, 1, 3)]
    answers = {}
    for i, owner in enumerate(talk.owners):
        absent = rosters[rng.integers(3)]
        if i not in absent:
            answers[i] = answer_of(owner.handle(called(talk, absent)), N_OWNERS)
    layout = talk.owners[0]._waiting.layout
    stories = {one.fields["digest"] for one in answers.values()}
    assert len(stories) == 3
    for story in stories:
        assert is_hidden([a for a in answers.values() if a.fields["digest"] == story], layout)
    for _ in range(20):
        chosen = rng.choice(list(answers), rng.integers(1, len(answers) + 1), replace=False)
        assert is_hidden([answers[i] for i in chosen], layout)


@pytest.mark.usefixtures("neighbors")
def test_the_sum_of_a_roster_is_that_of_its_owners_and_of_no_fewer():
    talk = stopped(3)
    absent = [2, 3, 18]
    there = [i for i in range(N_OWNERS) if i not in absent]
    answers = [answer_of(talk.owners[i].handle(called(talk, absent)), N_OWNERS) for i in there]
    layout = talk.owners[0]._waiting.layout
    assert not is_hidden(answers, layout)
    for i in range(len(there)):
        assert is_hidden(answers[:i] + answers[i + 1 :], layout)


def test_two_whole_rosters_have_no_owner_in_common():
    """Where half of the owners may leave, a server may tell each half that the others have."""
    talk = talk_of("covariance", federation_of("covariance", dropouts=10), stop_at=3)
    talk.run()
    halves, layout = [list(range(10)), list(range(10, 20))], talk.owners[0]._waiting.layout
    for here, gone in (halves, halves[::-1]):
        answers = [answer_of(talk.owners[i].handle(called(talk, gone)), N_OWNERS) for i in here]
        # Each sum has the noise of ten shares, where nine honest ones are enough.
        assert not is_hidden(answers, layout)
        for i in here:
            with pytest.raises(FederationError, match="was answered"):
                talk.owners[i].handle(called(talk, []))
    assert layout.std * 3 == pytest.approx(talk.federation.plan.releases[0].noise_std)


# ------------------------------
# Facts


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"n_rows": 240}, ValueError, "n_rows must be a list of the numbers of rows of each owner"),
        (
            {"n_rows": SIZES[1:]},
            ValueError,
            "n_rows must have the numbers of 20 owners, got 19",
        ),
        ({"n_rows": [0, *SIZES[1:]]}, ValueError, "n_rows of an owner"),
        ({"n_rows": [1.5, *SIZES[1:]]}, TypeError, "n_rows of an owner"),
        ({"dropouts": -1}, ValueError, "dropouts"),
        ({"dropouts": 19}, ValueError, r"dropouts=\d+ must add to less than owners=20"),
    ],
)
def test_what_no_owners_can_agree_on(options, error, match):
    with pytest.raises(error, match=match):
        federation_of("scaler", **options)


def test_an_owner_has_as_many_rows_as_agreed_on():
    _, rows, _ = CASES["scaler"]
    wrong = [SIZES[1], SIZES[0], *SIZES[2:]]
    with pytest.raises(ValueError, match="X has 6 rows, but 5 are agreed on for this owner"):
        federation_of("scaler").fit(parts_of(rows, wrong))


def test_agreements_differ_in_who_may_leave():
    digests = [
        federation_of("scaler", **one)._agreement.digest
        for one in ({}, {"dropouts": 2}, {"n_rows": SIZES[::-1]}, {"dropouts": 0}, {"colluding": 2})
    ]
    digests.append(federation_of("scaler", n_rows=240, dropouts=0)._agreement.digest)
    assert len(set(digests)) == len(digests)
