"""What an owner refuses: nothing changes, and the right question still gets the right answer."""

import copy
import pickle

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
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
from skdp.federated import Federation, Owner, _masks
from skdp.federated._masks import checked_sum, new_key, public_of, sign
from skdp.federated._messages import pack
from skdp.ledger import PrivacyLedger

# Small data: most of what is found is noise.
pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

NO_SIGNATURES = [[i, "00" * 64] for i in range(3)]


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
    "a forged key": (1, forged_key, "signature of owner"),
    "a new key": (1, key_under_an_old_signature, "signature of owner"),
    "a key under two names": (1, key_of_another_name, "signature of owner"),
    "a key for another agreement": (1, key_for_another_agreement, "signature of owner"),
    "its own key replaced": (1, own_key_replaced, "wrong public key for this owner"),
    "other keys after these": (2, other_keys_again, "confirmed once"),
    "a confirmation missing": (2, with_list("confirmations", lambda old: old[:2]), "owners"),
    "no confirmations": (2, with_fields(confirmations=[]), "must confirm all keys first"),
    "a repeated confirmation": (2, confirmed_by_another, "signature of owner"),
    "a later release first": (2, asked_before_its_turn, "not about the next"),
    "the first release again": (3, first_again, "not about the next"),
    "a sum too long": (3, with_sum(lambda told: np.append(told, told[:1])), "type or size"),
    "a sum too short": (3, with_sum(lambda told: told[1:]), "type or size"),
    "a sum of longer words": (3, with_sum(lambda told: told.astype("<i8")), "type or size"),
    "a sum that is too large": (3, beyond(1), "beyond its public bound"),
    "a sum that is too small": (3, beyond(-1), "beyond its public bound"),
    "a release left out": (3, asked_before_its_turn, "not about the next"),
    "a second answer": (4, second_again, "not about the next"),
    "a second end": (5, last_again, "has ended"),
    "a release after the end": (5, one_more, "has ended"),
    "a second fit": (5, first_again, "has ended"),
    "not a message": (3, lambda question, talk: question[:-1], "damaged|size|longer"),
}


def test_all_of_them_are_refused_without_a_change(monkeypatch):
    answers = []
    for has_lies in (False, True):
        with monkeypatch.context() as patch:
            make_repeatable(patch)
            talk = Talk(a_federation(), owners_of(a_federation()))
            talk._tamper = lambda number, i, question, talk=talk: (
                asked_wrongly(talk, number, question) if has_lies and i == 0 else question  # noqa: B023
            )
            talk.run()
        answers.append(talk.answers)
    asked_wrongly(talk, 5, None)
    assert answers[0] == answers[1]


def asked_wrongly(talk, number, question):
    """Try all messages for the first owner after so many exchanges; go on with the right one."""
    for n_exchanges, make, match in TO_REFUSE.values():
        if n_exchanges == number:
            assert_refused(talk, make(question, talk), match)
    return question


def assert_refused(talk, message, match):
    before = snapshot(talk.owners[0])
    with pytest.raises(FederationError, match=match):
        talk.owners[0].handle(message)
    assert snapshot(talk.owners[0]) == before


# ---- keys of others


def test_two_owners_with_one_key_are_refused_even_if_both_have_signed_it():
    """Otherwise one owner that tells its key takes off both masks of the third."""
    federation, pair = a_federation(), new_key()
    talk, question = stopped_at(1, federation)
    keys = {i: key_of(federation, i, IDENTITIES[i], pair) for i in (1, 2)}
    assert_refused(talk, with_keys(question, keys), "same public key")


@pytest.mark.parametrize(
    "name", ["a forged key", "a key under two names", "a repeated confirmation"]
)
def test_what_others_have_checked_is_checked_again(name):
    """Owners of one process share checks of the same messages, and of no others."""
    n_exchanges, make, match = TO_REFUSE[name]
    talk, question = stopped_at(n_exchanges)
    answers = [talk.owners[i].handle(question) for i in (1, 2)]
    assert_refused(talk, make(question, talk), match)
    talk.owners[0].handle(question)
    assert [talk.owners[i].handle(question) for i in (1, 2)] == answers


def test_owners_of_one_process_check_each_signature_once(monkeypatch):
    n_owners, n_checked = 20, []
    rows = np.random.default_rng(0).normal(size=(n_owners, 1, 3))
    federation = Federation(DPPCA(1, row_norm=5.0, mean_norm=5.0), n_owners, 3, owners=n_owners)

    class Counting(Ed25519PublicKey):
        def from_public_bytes(raw):
            n_checked.append(raw)
            return Ed25519PublicKey.from_public_bytes(raw)

    monkeypatch.setattr(_masks, "Ed25519PublicKey", Counting)
    federation.fit(list(rows))
    # A key and a confirmation of each owner.
    assert len(n_checked) == 2 * n_owners


def ask_first(talk, confirmations):
    fields = {"agreement": talk.federation._agreement.digest.hex(), "release": 0}
    return pack("answer", fields | {"confirmations": confirmations})


def test_keys_of_an_earlier_fit_are_confirmed_by_nobody():
    federation = a_federation()
    earlier = Talk(federation, owners_of(federation), stop_at=2)
    earlier.run()
    fields = {i: answer_of(earlier.answers[0][i]).fields for i in (1, 2)}
    keys = {i: (one["public"], one["signature"]) for i, one in fields.items()}
    talk, question = stopped_at(1, federation)
    # Signatures are good, so that only the confirmations tell.
    confirmed = {0: talk.owners[0].handle(with_keys(question, keys))}
    confirmed |= {i: talk.owners[i].handle(question) for i in (1, 2)}
    for one in (confirmed, {**earlier.answers[1], 0: confirmed[0]}):
        confirmations = [[i, answer_of(one[i]).fields["signature"]] for i in range(3)]
        assert_refused(talk, ask_first(talk, confirmations), "signature of owner")
    assert not talk.owners[0]._state.is_charged


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
    X, other = PARTS[0].copy(), PARTS[1].copy()
    X[13, 2] = other[4, 2] = other[7, 2] = bad
    with pytest.raises(ValueError, match=r"NaN|inf") as caught:
        an_owner(a_federation(), 0, X)
    assert "13" not in str(caught.value)
    assert str(caught.value) == str(error_of(other))


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
        ({"peers": [*PEERS[:2], PEERS[1]]}, "peers must be different keys"),
        ({"peers": [PEERS[1], PEERS[0], PEERS[2]]}, r"public key of identity as peers\[0\]"),
    ],
)
def test_keys_that_are_refused(options, match):
    with pytest.raises(ValueError, match=match):
        an_owner(a_federation(), 0, **options)


def test_an_owner_without_masks_needs_no_keys_and_makes_none():
    owner = Owner(a_federation(aggregator="trusted"), 0, PARTS[0])
    question = pack("keys", {"agreement": owner._agreement.digest.hex()})
    with pytest.raises(FederationError, match="Owners have no keys"):
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


def test_a_second_owner_of_the_same_rows_is_a_second_fit(ledger):
    federation = a_federation(aggregator="trusted")
    seen = []
    for _ in range(2):
        owner = an_owner(federation, 0, ledger=ledger)
        seen.append(owner.handle(ask_first(Talk(federation, [owner]), [])))
    assert seen[0] != seen[1]
    assert len(ledger.entries()) == 2


def test_a_new_owner_in_the_middle_of_a_fit_is_refused():
    for n_exchanges, match in [
        (1, "after this owner has made"),
        (2, "confirm all keys"),
        (3, "next"),
    ]:
        talk, question = stopped_at(n_exchanges)
        talk.owners[0] = an_owner(talk.federation, 0)
        assert_refused(talk, question, match)


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
        patch.setattr("skdp.federated._owner.RunningFit.resume", fails)
        with pytest.raises(FederationError, match="has failed for this owner") as caught:
            owners[0].handle(question)
    assert caught.value.__cause__ is caught.value.__context__ is None
    for owner in (owners[0], an_owner(federation, 0, state=paths[0])):
        with pytest.raises(FederationError, match="The fit has ended"):
            owner.handle(question)
        assert owner.handle(talk.questions[2][0]) == talk.answers[2][0]
        assert owner._state.secret_key == ""
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
