"""What an owner refuses: nothing changes, and the right question still gets the right answer.

Each refusal has a copy without it, in which the same message shows or moves something.
"""

import copy
import pickle

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from parties import (
    IDENTITIES,
    PARTS,
    PEERS,
    Talk,
    a_federation,
    an_owner,
    answer_of,
    changed,
    fields_of,
    make_repeatable,
    owners_of,
    snapshot,
)
from scipy import sparse

from skdp import DPPCA, BudgetError, FederationError
from skdp.federated import Owner
from skdp.federated._masks import (
    Story,
    checked_sum,
    masked,
    new_key,
    public_of,
    shared_secret,
    sign,
    signed,
    sum_modulo,
)
from skdp.federated._messages import pack
from skdp.federated._owner import Handshake
from skdp.federated._state import from_text
from skdp.ledger import PrivacyLedger

# Small data: most of what is found is noise.
pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

NO_SIGNATURES = [[i, "00" * 64] for i in range(3)]
WITHOUT_NOISE = DPPCA(1, epsilon=np.inf, row_norm=50.0, mean_norm=20.0)


def stopped_at(exchange, federation=None, **options):
    """Owners who have answered so many exchanges, and the question to the first of them."""
    federation = federation or a_federation()
    talk = Talk(federation, owners_of(federation, **options), stop_at=exchange)
    talk.run()
    return talk, talk.next[0]


def listed(message, field, entries):
    """Change entries of a list of owners, by their numbers."""
    return [[i, entries.get(i, value)] for i, value in fields_of(message).fields[field]]


# ---- messages to the first owner: how many exchanges are over, the message, the refusal


def with_list(field, change):
    return lambda question, talk: changed(
        question, **{field: change(fields_of(question)[1][field])}
    )


def with_fields(**fields):
    return lambda question, talk: changed(question, **fields)


def forged_key(question, talk):
    """A key of the server in the place of another owner's, signed by somebody else."""
    return with_keys(question, {1: key_of(talk.federation, 1, Ed25519PrivateKey.generate())})


def with_keys(question, keys):
    """Other public keys and signatures, by the numbers of owners."""
    return changed(
        question,
        publics=listed(question, "publics", {i: public for i, (public, _) in keys.items()}),
        signatures=listed(question, "signatures", {i: signed for i, (_, signed) in keys.items()}),
    )


def key_of(federation, number, identity, pair=None):
    public = public_of(pair or new_key())
    digest = federation._agreement.digest
    signature = sign(identity, b"keys of a fit", digest, str(number).encode(), public)
    return public.hex(), signature.hex()


def key_under_an_old_signature(question, talk):
    return changed(question, publics=listed(question, "publics", {1: public_of(new_key()).hex()}))


def key_of_another_name(question, talk):
    """The key of one owner with its true signature, twice."""
    fields = fields_of(question).fields
    return with_keys(question, {2: (fields["publics"][1][1], fields["signatures"][1][1])})


def key_for_another_agreement(question, talk):
    return with_keys(question, {1: key_of(a_federation(seed=1), 1, IDENTITIES[1])})


def own_key_replaced(question, talk):
    return with_keys(question, {0: key_of(talk.federation, 0, IDENTITIES[0])})


def confirmed_by_another(question, talk):
    old = fields_of(question).fields["confirmations"]
    return changed(question, confirmations=listed(question, "confirmations", {1: old[2][1]}))


def with_sum(change):
    return lambda question, talk: changed(question, change(fields_of(question).arrays[0]))


def beyond(sign):
    def change(question, talk):
        largest = talk.owners[0]._waiting.layout.largest
        told = fields_of(question).arrays[0].copy()
        told[1] = sign * (largest + 1)
        return changed(question, told)

    return change


def asked_before_its_turn(question, talk):
    total = np.zeros(10, "<i4")
    return pack("answer", fields_of(question)[1] | {"release": 2, "confirmations": []}, total)


def first_again(question, talk):
    """The first release, with the confirmations of other owners than before."""
    return changed(talk.questions[2][1], confirmations=NO_SIGNATURES)


def second_again(question, talk):
    return with_sum(lambda told: told + 1)(talk.questions[3][0], talk)


def last_again(question, talk):
    return with_sum(lambda told: told + 1)(talk.questions[4][0], talk)


def one_more(question, talk):
    return changed(talk.questions[4][0], release=3)


def other_keys_again(question, talk):
    return changed(talk.questions[1][0], signatures=NO_SIGNATURES)


TO_REFUSE = {
    "another agreement": (0, with_fields(agreement="00" * 32), "another agreement"),
    "another agreement later": (3, with_fields(agreement="00" * 32), "another agreement"),
    "a repeated name": (1, with_list("publics", lambda old: [old[0], old[1], old[1]]), "owners"),
    "a name more": (1, with_list("publics", lambda old: [*old, [3, old[1][1]]]), "owners"),
    "a missing owner": (1, with_list("publics", lambda old: old[:2]), "owners"),
    "no owners": (1, with_list("publics", lambda old: []), "owners"),
    "another order": (1, with_list("publics", lambda old: old[::-1]), "ascending"),
    "a signature missing": (1, with_list("signatures", lambda old: old[1:]), "owners"),
    "a forged key": (1, forged_key, "signature is not"),
    "a new key": (1, key_under_an_old_signature, "signature is not"),
    "a key under two names": (1, key_of_another_name, "signature is not"),
    "a key for another agreement": (1, key_for_another_agreement, "signature is not"),
    "its own key replaced": (1, own_key_replaced, "not its own"),
    "other keys after these": (2, other_keys_again, "confirmed once"),
    "a confirmation missing": (2, with_list("confirmations", lambda old: old[:2]), "owners"),
    "no confirmations": (2, with_fields(confirmations=[]), "begins with the confirmations"),
    "a repeated confirmation": (2, confirmed_by_another, "signature is not"),
    "a later release first": (2, asked_before_its_turn, "not next"),
    "the first release again": (3, first_again, "not next"),
    "a sum too long": (3, with_sum(lambda told: np.append(told, told[:1])), "type or size"),
    "a sum too short": (3, with_sum(lambda told: told[1:]), "type or size"),
    "a sum of longer words": (3, with_sum(lambda told: told.astype("<i8")), "type or size"),
    "a sum that is too large": (3, beyond(1), "beyond its public bound"),
    "a sum that is too small": (3, beyond(-1), "beyond its public bound"),
    "a release left out": (3, asked_before_its_turn, "not next"),
    "a second answer": (4, second_again, "not next"),
    "a second end": (5, last_again, "has ended"),
    "a release after the end": (5, one_more, "has ended"),
    "a second fit": (5, first_again, "has ended"),
    "not a message": (3, lambda question, talk: question[:-1], "damaged|size|longer"),
}


@pytest.fixture(scope="module")
def right_answers():
    """What is answered to the right questions only."""
    with pytest.MonkeyPatch.context() as patch:
        make_repeatable(patch)
        federation = a_federation()
        undisturbed = Talk(federation, owners_of(federation))
        undisturbed.run()
    return undisturbed.answers


@pytest.mark.covered(at_most=12)
@pytest.mark.parametrize("case", TO_REFUSE)
def test_refused_without_a_change(case, right_answers, monkeypatch):
    n_exchanges, make, match = TO_REFUSE[case]
    federation = a_federation()
    make_repeatable(monkeypatch)

    def asked_wrongly(number, i, question):
        if (number, i) == (n_exchanges, 0):
            assert_refused(talk, make(question, talk), match)
        return question

    talk = Talk(federation, owners_of(federation), tamper=asked_wrongly)
    talk.run()
    if n_exchanges == 5:
        assert_refused(talk, make(None, talk), match)
    assert talk.answers == right_answers


def assert_refused(talk, message, match):
    before = snapshot(talk.owners[0])
    with pytest.raises(FederationError, match=match):
        talk.owners[0].handle(message)
    assert snapshot(talk.owners[0]) == before


def test_the_snapshot_tells_what_a_message_changes():
    federation = a_federation()
    owners = owners_of(federation)
    seen = []
    for n_exchanges in range(6):
        Talk(federation, owners, stop_at=n_exchanges).run()
        seen.append(snapshot(owners[0]))
    assert all(one != other for i, one in enumerate(seen) for other in seen[:i])


# ---- copies without a check


def without_signatures(monkeypatch):
    monkeypatch.setattr(Handshake, "_check", lambda *_: None)


def without_lists(monkeypatch):
    monkeypatch.setattr("skdp.federated._messages.check_all_owners", lambda *_: None)


def shown_without_masks(talk, secrets, words):
    """Take the masks with all these owners off what the first owner has answered."""
    layout = talk.owners[0]._waiting.layout
    story = talk.owners[0]._story.of(layout)
    masks = masked(np.zeros(layout.size, np.int64), layout.words, 0, 3, secrets, story)
    return (words - masks).view(signed(layout.words)) * layout.step


def mean_of_the_first(talk):
    """What the first owner adds to the sum of its rows, which nobody may see."""
    return talk.owners[0]._waiting.part.ravel()


def keys_of_the_server(question, talk, pairs):
    """Keys that the server has made for all other owners."""
    return with_keys(
        question, {i: key_of(talk.federation, i, IDENTITIES[59], pair) for i, pair in pairs.items()}
    )


def test_keys_of_the_server_unmask_where_signatures_are_not_checked(monkeypatch):
    talk, question = stopped_at(1, a_federation(WITHOUT_NOISE))
    first, pairs = talk.owners[0], {1: new_key(), 2: new_key()}
    lie = keys_of_the_server(question, talk, pairs)
    assert_refused(talk, lie, "signature is not")
    without_signatures(monkeypatch)
    first.handle(lie)
    words = answer_of(first.handle(ask_first(talk, NO_SIGNATURES))).arrays[0]
    public = bytes.fromhex(first._state.publics[0])
    secrets = {i: shared_secret(pair, public) for i, pair in pairs.items()}
    np.testing.assert_allclose(
        shown_without_masks(talk, secrets, words), mean_of_the_first(talk), atol=1e-9
    )


def ask_first(talk, confirmations):
    fields = {"agreement": talk.federation._agreement.digest.hex(), "release": 0}
    return pack("answer", fields | {"confirmations": confirmations})


def replaying(federation):
    """The keys of the other owners in an earlier fit, the secrets of which are known by now."""
    earlier = Talk(federation, owners_of(federation), stop_at=2)
    earlier.run()
    pairs = {i: earlier.owners[i]._state.pair for i in (1, 2)}
    fields = {i: answer_of(earlier.answers[0][i]).fields for i in (1, 2)}
    keys = {i: (one["public"], one["signature"]) for i, one in fields.items()}
    talk, question = stopped_at(1, federation)
    lie = with_keys(question, keys)
    # Signatures are good, so that only the confirmations tell.
    confirmed = {0: talk.owners[0].handle(lie)}
    confirmed |= {i: talk.owners[i].handle(question) for i in (1, 2)}
    confirmations = [[i, answer_of(one).fields["signature"]] for i, one in confirmed.items()]
    replayed = [
        confirmations[0],
        *([i, answer_of(earlier.answers[1][i]).fields["signature"]] for i in (1, 2)),
    ]
    return talk, pairs, confirmations, replayed


def test_keys_of_an_earlier_fit_are_confirmed_by_nobody():
    talk, _, confirmations, replayed = replaying(a_federation())
    for one in (confirmations, replayed):
        assert_refused(talk, ask_first(talk, one), "signature is not")
    assert not talk.owners[0]._state.is_charged


def test_keys_of_an_earlier_fit_unmask_where_they_need_no_confirmation(monkeypatch):
    talk, pairs, confirmations, _ = replaying(a_federation(WITHOUT_NOISE))
    monkeypatch.setattr(Handshake, "check_confirmations", lambda *_: None)
    first = talk.owners[0]
    words = answer_of(first.handle(ask_first(talk, confirmations))).arrays[0]
    public = bytes.fromhex(first._state.publics[0])
    secrets = {i: shared_secret(bytes.fromhex(text), public) for i, text in pairs.items()}
    np.testing.assert_allclose(
        shown_without_masks(talk, secrets, words), mean_of_the_first(talk), atol=1e-9
    )


def test_a_repeated_name_lets_one_owner_unmask_another(monkeypatch):
    """One owner that tells its key stands for two, where nobody counts names."""
    federation = a_federation(WITHOUT_NOISE)
    talk, question = stopped_at(1, federation)
    first, second = talk.owners[:2]
    _, fields, _ = fields_of(question)
    publics, signatures = fields["publics"], fields["signatures"]
    lie = changed(
        question, publics=[*publics[:2], publics[1]], signatures=[*signatures[:2], signatures[1]]
    )
    assert_refused(talk, lie, "ascending")
    without_lists(monkeypatch)
    # One more check stands behind the first, and another one behind that.
    assert_refused(talk, lie, "signature is not")
    without_signatures(monkeypatch)
    assert_refused(talk, lie, "same public key")
    monkeypatch.setattr("skdp.federated._owner._secrets_of", without_comparison)
    first.handle(lie)
    words = answer_of(first.handle(ask_first(talk, NO_SIGNATURES))).arrays[0]
    keys = second._state.pair, first._state.publics[0]
    secret = shared_secret(*map(bytes.fromhex, keys))
    np.testing.assert_allclose(
        shown_without_masks(talk, {1: secret, 2: secret}, words), mean_of_the_first(talk), atol=1e-9
    )


def without_comparison(key, number, publics):
    """Compute the secrets, two of which may be one."""
    others = enumerate(publics)
    return {peer: shared_secret(key, one) for peer, one in others if peer != number}


def test_a_missing_owner_shows_the_sum_of_the_others(monkeypatch):
    federation = a_federation(WITHOUT_NOISE)
    talk, question = stopped_at(1, federation)
    _, fields, _ = fields_of(question)
    lie = changed(question, publics=fields["publics"][:2], signatures=fields["signatures"][:2])
    assert_refused(talk, lie, "each of the 3 owners")
    without_lists(monkeypatch)
    asked = ask_first(talk, NO_SIGNATURES)
    for owner in talk.owners[:2]:
        owner.handle(lie)
    without_signatures(monkeypatch)
    # Masks are counted once more.
    with pytest.raises(FederationError, match="one secret with each"):
        talk.owners[0].handle(asked)
    monkeypatch.setattr("skdp.federated._owner.masked", with_whom_there_is)
    fresh, _ = stopped_at(1, federation)
    _, fields, _ = fields_of(fresh.next[0])
    lie = changed(question, publics=fields["publics"][:2], signatures=fields["signatures"][:2])
    for owner in fresh.owners[:2]:
        owner.handle(lie)
    parts = [answer_of(owner.handle(asked)).arrays[0] for owner in fresh.owners[:2]]
    layout = fresh.owners[0]._waiting.layout
    shown = sum_modulo(parts, layout.words) * layout.step
    expected = sum(owner._waiting.part for owner in fresh.owners[:2]).ravel()
    np.testing.assert_allclose(shown, expected, atol=1e-9)


def with_whom_there_is(counts, words, number, n_owners, secrets, told):
    return masked(counts, words, number, len(secrets) + 1, secrets, told)


def told_two_sums(federation):
    """The words of a release of which the first owner was told another sum before."""
    talk, question = stopped_at(3, federation)
    told = fields_of(question).arrays[0].copy()
    told[0] += 1
    answers = [talk.owners[0].handle(changed(question, told))]
    answers += [owner.handle(question) for owner in talk.owners[1:]]
    answers = list(map(answer_of, answers))
    layout = talk.owners[0]._waiting.layout
    total = sum_modulo([one.arrays[0] for one in answers], layout.words)
    return np.abs(total.astype(float)).max() / layout.largest, {
        one.fields["digest"] for one in answers
    }


def test_owners_that_were_told_two_sums_hide_all():
    federation = a_federation(DPPCA(1, row_norm=5.0, mean_norm=2.0))
    farthest, digests = told_two_sums(federation)
    assert len(digests) == 2
    assert farthest > 100  # a sum of masks


def test_two_sums_pass_where_masks_do_not_hang_on_them(monkeypatch):
    monkeypatch.setattr(Story, "add", lambda self, total: None)
    farthest, digests = told_two_sums(a_federation(DPPCA(1, row_norm=5.0, mean_norm=2.0)))
    assert len(digests) == 1
    assert farthest <= 1


def test_a_second_answer_has_other_noise_where_order_is_not_checked(monkeypatch):
    federation = a_federation(aggregator="trusted")
    talk, _ = stopped_at(1, federation)
    first, again = talk.owners[0], ask_first(talk, NO_SIGNATURES)
    assert_refused(talk, again, "not next")
    monkeypatch.setattr(Owner, "_check_is_next", lambda *_: None)
    two = [answer_of(one).arrays[0] for one in (talk.answers[0][0], first.handle(again))]
    assert not np.array_equal(*two)


def test_a_sum_beyond_its_bound_would_move_what_follows(monkeypatch):
    talk, question = stopped_at(3, a_federation(DPPCA(1, row_norm=5.0, mean_norm=2.0)))
    first = talk.owners[0]
    largest = first._waiting.layout.largest
    assert_refused(talk, beyond(1)(question, talk), "beyond its public bound")
    monkeypatch.setattr("skdp.federated._owner.checked_sum", lambda told, layout: told)
    first.handle(beyond(1)(question, talk))
    assert np.frombuffer(from_text(first._state.sums[0]), "<i8").max() > largest


def test_a_sum_of_another_size_would_end_the_fit(monkeypatch):
    talk, question = stopped_at(3)
    lie = with_sum(lambda told: told[1:])(question, talk)
    assert_refused(talk, lie, "type or size")
    monkeypatch.setattr("skdp.federated._owner.checked_sum", lambda told, layout: told)
    with pytest.raises(FederationError, match="has ended"):
        talk.owners[0].handle(lie)
    assert talk.owners[0]._state.has_ended


def test_an_owner_of_another_agreement_would_move_the_model(monkeypatch):
    """Owners with two centers hand in sums about different points, and no sum tells."""

    def fit(*centers):
        federations = [
            a_federation(DPPCA(1, epsilon=np.inf, row_norm=50.0, center=center))
            for center in centers
        ]
        owners = [an_owner(federations[bool(i)], i) for i in range(3)]
        return abs(Talk(federations[0], owners).run().components_[0])

    here, there = np.zeros(4), np.array([0.0, 0.0, 0.0, 9.0])
    right = fit(here, here)
    assert right[0] > 0.9
    with pytest.raises(FederationError, match="another agreement"):
        fit(here, there)
    monkeypatch.setattr("skdp.federated._agreement.digest_of", lambda *_: bytes(32))
    assert fit(here, there)[3] > 0.9


# ---- rows


@pytest.mark.parametrize(
    ("X", "error", "match"),
    [
        (np.zeros((0, 4)), ValueError, "0 sample|0 rows"),
        (np.zeros((5, 3)), ValueError, "3 features, but 4 are agreed on"),
        (np.zeros((61, 4)), ValueError, "61 rows.* 60 at most"),
        (np.zeros(4), ValueError, "1D|2D|array"),
        (sparse.csr_array(np.ones((5, 4))), ValueError, "X must be dense"),
        (np.full((5, 4), "a"), ValueError, "string|convert|numeric"),
        (np.ones((5, 4), complex), ValueError, "[Cc]omplex"),
    ],
)
def test_rows_that_are_refused(X, error, match):
    with pytest.raises(error, match=match):
        an_owner(a_federation(), 0, X)


def test_dense_rows_are_refused_beside_sparse_ones(monkeypatch):
    federation = a_federation(DPPCA(1, row_norm=5.0, center=False), sparse=True)
    with pytest.raises(ValueError, match="X must be sparse"):
        an_owner(federation, 0)
    an_owner(federation, 0, sparse.csr_array(PARTS[0]))
    # Nothing else tells: without the check such rows are taken, and round farther than is charged.
    monkeypatch.setattr("skdp.federated._agreement.holds_sparse", lambda X: True)
    an_owner(federation, 0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_error_tells_neither_row_nor_value(bad):
    X = PARTS[0].copy()
    X[13, 2] = bad
    with pytest.raises(ValueError, match=r"NaN|inf") as caught:
        an_owner(a_federation(), 0, X)
    assert "13" not in str(caught.value)
    assert str(caught.value) == str(error_of(np.where(np.arange(20)[:, None] == 4, bad, PARTS[1])))


def error_of(X):
    with pytest.raises(ValueError, match=r"NaN|inf") as caught:
        an_owner(a_federation(), 0, X)
    return caught.value


# ---- names and keys


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"identity": None}, "identity must be an Ed25519PrivateKey .* got NoneType"),
        ({"identity": b"0" * 32}, "identity must be an Ed25519PrivateKey .* got bytes"),
        ({"peers": None}, "peers must be the 3 Ed25519PublicKeys .* got 0"),
        ({"peers": PEERS[:2]}, "peers must be the 3 .* got 2 of Ed25519PublicKey"),
        ({"peers": IDENTITIES[:3]}, "peers must be the 3 .* got 3 of Ed25519PrivateKey"),
        ({"peers": [key.public_bytes_raw() for key in PEERS[:3]]}, "got 3 of bytes"),
        ({"peers": dict(enumerate(PEERS[:3]))}, "got 3 of int"),
        ({"peers": [*PEERS[:2], PEERS[1]]}, "one of them twice"),
        ({"peers": [PEERS[1], PEERS[0], PEERS[2]]}, r"peers\[0\] must be the public key"),
    ],
)
def test_keys_that_are_refused(options, match):
    with pytest.raises(ValueError, match=match):
        an_owner(a_federation(), 0, **options)


def test_an_owner_without_masks_needs_no_keys_and_makes_none():
    owner = Owner(a_federation(aggregator="trusted"), 0, PARTS[0])
    question = pack("keys", {"agreement": owner._agreement.digest.hex()})
    with pytest.raises(FederationError, match="No keys are agreed on"):
        owner.handle(question)


# ---- the ledger


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger.create(tmp_path / "a.skdp", dataset="a", epsilon=20.0, delta=1e-5)


def test_the_whole_plan_is_charged_before_the_first_answer(ledger):
    federation = a_federation()
    talk, question = stopped_at(2, federation, ledger=ledger)
    assert ledger.remaining() > 19.9
    for owner in talk.owners:
        owner.handle(question)
    left = ledger.remaining()
    assert left < 19
    talk.run()
    assert ledger.remaining() == left


def test_a_ledger_with_too_little_lets_nothing_leave(ledger, tmp_path):
    little = PrivacyLedger.create(tmp_path / "b.skdp", dataset="b", epsilon=1.0, delta=1e-6)
    talk, question = stopped_at(2, ledger=little)
    before = snapshot(talk.owners[0])
    for _ in range(2):
        with pytest.raises(BudgetError):
            talk.owners[0].handle(question)
        assert snapshot(talk.owners[0])[0] == before[0]
    assert little.remaining() > 0.99
    # Nothing was drawn or told: with another ledger the same owner goes on.
    talk.owners[0]._ledger = ledger
    assert answer_of(talk.owners[0].handle(question)).kind == "answer"
    assert ledger.remaining() < 19


def test_where_charges_come_later_an_answer_leaves_without_one(ledger, monkeypatch):
    """A copy that charges at the end has answered before."""
    little = PrivacyLedger.create(ledger.path + "b", dataset="b", epsilon=1.0, delta=1e-6)
    talk, question = stopped_at(2, ledger=little)
    run = Owner._run
    monkeypatch.setattr(Owner, "_run", lambda self, charge=None: run(self))
    assert answer_of(talk.owners[0].handle(question)).kind == "answer"


def test_a_second_owner_of_the_same_rows_is_a_second_fit(ledger):
    federation = a_federation(aggregator="trusted")
    seen = []
    for _ in range(2):
        owner = an_owner(federation, 0, ledger=ledger)
        seen.append(owner.handle(ask_first(Talk(federation, [owner]), [])))
    assert seen[0] != seen[1]
    assert len(ledger.entries()) == 2


def test_a_new_owner_in_the_middle_of_a_fit_is_refused():
    for n_exchanges, match in [(1, "after this owner has made"), (2, "begins with"), (3, "next")]:
        talk, question = stopped_at(n_exchanges)
        talk.owners[0] = an_owner(talk.federation, 0)
        assert_refused(talk, question, match)


def test_the_same_question_again_gets_the_same_bytes(ledger):
    federation = a_federation()
    talk = Talk(federation, owners_of(federation, ledger=ledger))
    talk.run()
    again = Talk(federation, talk.owners)
    model = again.run()
    assert again.answers == talk.answers
    np.testing.assert_array_equal(model.components_, talk.owners[0].estimator_.components_)
    assert len(ledger.entries()) == 3  # one for each owner


def test_unsound_sums_end_a_fit_for_good(monkeypatch, tmp_path):
    """What a fit raises on sums that no fit has tells nothing, and it does not begin anew."""
    paths = [tmp_path / str(i) for i in range(3)]
    federation = a_federation()
    owners = [an_owner(federation, i, state=path) for i, path in enumerate(paths)]
    talk = Talk(federation, owners, stop_at=3)
    talk.run()
    question = talk.next[0]

    def fails(self, total):
        raise np.linalg.LinAlgError("Row 13 of X has the value 7.")

    with monkeypatch.context() as patch:
        patch.setattr("skdp.federated._owner.RunningFit.go_on", fails)
        with pytest.raises(FederationError, match="it cannot go on") as caught:
            owners[0].handle(question)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    for owner in (owners[0], an_owner(federation, 0, state=paths[0])):
        with pytest.raises(FederationError, match="The fit has ended"):
            owner.handle(question)
        assert owner.handle(talk.questions[2][0]) == talk.answers[2][0]
        assert owner._state.pair == ""
        assert owner._handshake._secrets == {}


@pytest.mark.parametrize("sign_of_sum", [-1, 1])
def test_largest_sums_end_in_the_end(sign_of_sum):
    """Whatever a server tells within the bounds: nothing but a FederationError of its own."""

    def lied(number, i, question):
        if number < 3 or i:
            return question
        told = fields_of(question).arrays[0]
        largest = talk.owners[0]._waiting.layout.largest
        return changed(question, np.full_like(told, sign_of_sum * largest))

    federation = a_federation()
    talk = Talk(federation, owners_of(federation), tamper=lied)
    with pytest.raises(FederationError, match="Owners disagree"):
        talk.run()


def test_checked_sums_are_checked_at_both_ends():
    talk, _ = stopped_at(3)
    layout = talk.owners[0]._waiting.layout
    ends = np.array([-layout.largest, 0, 0, layout.largest], "<i4")
    np.testing.assert_array_equal(checked_sum(ends, layout), ends)


def test_owners_tell_nothing_of_their_rows():
    X = PARTS[0].copy()
    X[0, 0] = 4711.25
    assert "4711" not in repr(an_owner(a_federation(), 0, X))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_owners_are_not_copied(copied):
    owner = Owner(a_federation(aggregator="trusted"), 0, PARTS[0])
    with pytest.raises(TypeError, match="neither copied nor pickled"):
        copied(owner)
