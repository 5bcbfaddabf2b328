"""Thousands of mutated messages: refused without a change, or of no use to whoever sends them.

A coordinator changes, repeats and mixes questions of this fit, of another fit of these owners and
of its own owners. What an owner refuses leaves it as it was. What it answers is a lie that it
cannot find out: then its answer adds up to nothing with those of the others.
"""

from contextlib import suppress
from itertools import combinations
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
from parties import (
    IDENTITIES,
    MODELS,
    Talk,
    a_federation,
    an_owner,
    answer_of,
    corrupted,
    federation_like,
    fields_of,
    mended,
    owners_of,
    parts_of,
    snapshot,
)

from skdp import DPPCA, FederationError
from skdp.federated import _masks
from skdp.federated._messages import TO_OWNER, pack

# Small data: most of what is found is noise.
pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

CASES = {"ring": None, "drop-outs": None, **MODELS}
# Of the nine owners on a ring, each shares masks with so many.
N_RING, N_NEIGHBORS = 9, 4
# Up to which exchange fits are attacked: all have more.
LENGTH = dict.fromkeys(CASES, 16) | {"ring": 5, "scaler": 8, "covariance": 7, "drop-outs": 7}
# So many messages are sent to owners of one fit, unless one of them is answered.
N_EACH = 50
# So many numbers are all within the bound of a sum by chance once in 10 ** 15 times.
ENOUGH = 4


@pytest.fixture(autouse=True)
def few_neighbors(monkeypatch):
    """A ring as of hundreds of owners."""
    monkeypatch.setattr(_masks, "_FEWEST_NEIGHBORS", N_NEIGHBORS)


def new_talk(name, stop_at=None, folder=None):
    """Owners of a new fit, and their coordinator."""
    if CASES[name] is None:
        X = np.random.default_rng(1).normal(size=(108, 4)) * [2, 1, 0.5, 0.1]
        estimator = DPPCA(1, epsilon=8.0, row_norm=5.0, mean_norm=2.0)
        options = {"n_rows": [12] * N_RING, "dropouts": 2} if name == "drop-outs" else {}
        federation = a_federation(estimator, **{"n_rows": len(X), "owners": N_RING} | options)
        parts, targets = [X[i::N_RING] for i in range(N_RING)], None
    else:
        estimator, X, y = CASES[name]
        federation = federation_like(estimator, X)
        parts, targets = parts_of(X), parts_of(y)
    owners = owners_of(federation, parts, targets, folder=folder)
    talk = Talk(federation, owners, stop_at=stop_at)
    talk.again = lambda i: an_owner(
        federation, i, parts[i], y=targets and targets[i], state=owners[i]._path
    )
    return talk


# ------------------------------
# What a coordinator may send


class Mutations:
    """Draws changes of questions, with the messages of another fit and owners of its own."""

    def __init__(self, rng, talk, other):
        self.rng, self.talk = rng, talk
        self.n_owners = len(talk.owners)
        asked = [*talk.questions, talk.next, *other.questions]
        self.messages = [self.read(one[0]) for one in asked]
        self.raw = [one[0] for one in asked]
        # The coordinator has two of the owners, and can sign for them.
        self.own = rng.choice(self.n_owners, 2, replace=False)

    def read(self, question):
        return fields_of(question, TO_OWNER, self.n_owners)

    def pick(self, choices):
        return choices[self.rng.integers(len(choices))]

    def __call__(self, question):
        """Change a question, which may be left as it is by chance."""
        change = self.pick(
            [self.of_bytes, self.of_fields, self.of_lists, self.of_sums, self.of_another]
        )
        try:
            return change(question)
        except ValueError:  # has no JSON
            return corrupted(question, self.rng)

    def of_bytes(self, question):
        changed = corrupted(question, self.rng)
        return mended(changed) if self.rng.integers(2) else changed

    def of_another(self, question):
        """A question of some other time or of another fit, as it is or changed as well."""
        found = self.pick(self.raw)
        return found if self.rng.integers(2) else self.of_fields(found)

    def of_fields(self, question):
        kind, fields, arrays = self.read(question)
        name = self.pick(sorted(fields))
        values = [one.fields[name] for one in self.messages if name in one.fields]
        values += [None, True, -1, 0, 1, 2**31, "", [], "00" * 32, [[0, "00" * 64]]]
        if name == "absent":
            values += [self.rng.integers(-1, self.n_owners + 1, n).tolist() for n in (1, 1, 2, 3)]
            values += [sorted(set(one)) for one in values[-4:]] * 3
        if name == "release":
            values += [fields[name] + 1, fields[name] - 1, float(fields[name])] * 3
        arrays = arrays if self.rng.integers(3) else self.pick(self.messages).arrays
        kind = kind if self.rng.integers(4) else self.pick([*sorted(TO_OWNER), "end"])
        return pack(kind, fields | {name: self.pick(values)}, *arrays)

    def of_lists(self, question):
        """Other keys, signatures and confirmations."""
        kind, fields, arrays = self.read(question)
        names = [name for name in fields if name in ("publics", "signatures", "confirmations")]
        if not names:
            return self.of_fields(question)
        fields = {name: [list(one) for one in fields[name]] for name in names} | {
            name: value for name, value in fields.items() if name not in names
        }
        changes = [self.swap, self.drop, self.repeat, self.take, self.sign]
        self.pick(changes)(fields, self.pick(names))
        return pack(kind, fields, *arrays)

    def swap(self, fields, name):
        if fields[name]:
            one, two = self.rng.integers(len(fields[name]), size=2)
            place = self.rng.integers(2)  # whole entries, or values alone
            if place:
                entries = fields[name]
                entries[one][1], entries[two][1] = entries[two][1], entries[one][1]
            else:
                fields[name][one], fields[name][two] = fields[name][two], fields[name][one]

    def drop(self, fields, name):
        if fields[name]:
            fields[name].pop(self.rng.integers(len(fields[name])))

    def repeat(self, fields, name):
        if fields[name]:
            fields[name].insert(self.rng.integers(len(fields[name])), self.pick(fields[name]))

    def take(self, fields, name):
        """Values of other lists, for some of the owners."""
        lists = [one.fields.get(name) for one in self.messages]
        lists = [one for one in lists if isinstance(one, list) and one]
        found = self.pick(lists) if lists else []
        for entry, other in zip(fields[name], found, strict=False):
            if self.rng.integers(2):
                entry[1] = other[1]

    def sign(self, fields, name):
        """A new key of an owner of the coordinator, or a signature of what it likes."""
        number, digest = int(self.pick(self.own)), self.talk.federation._agreement.digest
        if "publics" in fields and len(fields["publics"]) == self.n_owners:
            public = _masks.public_of(_masks.new_key())
            fields["publics"][number][1] = public.hex()
            parts = b"keys of a fit", digest, str(number).encode(), public
            fields["signatures"][number][1] = _masks.sign(IDENTITIES[number], *parts).hex()
        elif fields[name]:
            parts = b"confirmation of all keys", digest, self.rng.bytes(32)
            fields[name][min(number, len(fields[name]) - 1)][1] = _masks.sign(
                IDENTITIES[number], *parts
            ).hex()

    def of_sums(self, question):
        """Sums that no owners have, or others'."""
        kind, fields, arrays = self.read(question)
        if not arrays:
            return self.of_fields(question)
        told, rng = arrays[0].copy(), self.rng
        layout = self.talk.owners[0]._waiting.layout if self.talk.owners[0]._waiting else None
        largest = layout.largest if layout else 1
        ends = np.clip([largest, largest + 1, -largest], *_bounds(told.dtype))
        changes = [
            lambda: told + (np.arange(told.size) == rng.integers(told.size)).astype(told.dtype),
            lambda: -told,
            lambda: np.zeros_like(told),
            lambda: told[::-1],
            lambda: np.append(told, told[:1]),
            lambda: told[1:] if told.size > 1 else told + 1,
            lambda: np.full_like(told, self.pick(ends)),
            lambda: told.astype(self.pick(["<i4", "<i8", "<u4", "<f8"])),
            lambda: self.pick([one for one in self.messages if one.arrays]).arrays[0],
        ]
        return pack(kind, fields, self.pick(changes)())


def _bounds(dtype):
    return np.iinfo(dtype).min, np.iinfo(dtype).max


# ------------------------------
# What comes of it


def assert_adds_up_to_nothing(answers, layout, rng):
    """No sum of answers is one of counts, but that of all after one story."""
    stories = {one.fields["digest"] for one in answers.values()}
    parts = {i: one.arrays[0] for i, one in answers.items() if one.kind == "answer"}
    if len(stories) == 1 and len(parts) == layout.n_owners:
        return
    for chosen in (list(parts), *([i for i in parts if rng.integers(2)] for _ in range(4))):
        same = [i for i in chosen if parts[i].shape == (layout.size,)]
        if same and layout.size >= ENOUGH:
            total = _masks.sum_modulo([parts[i] for i in same], layout.words)
            assert np.abs(total.astype(float)).max() > layout.largest


def answers_of(talk, questions):
    """All answers that owners give."""
    answers = {}
    for i, question in questions.items():
        with suppress(FederationError):
            answers[i] = answer_of(talk.owners[i].handle(question), len(talk.owners))
    return answers


def assert_leads_nowhere(talk, victim, reply, rng):
    """Ask all owners on, after one of them has answered what was not asked."""
    questions, lied = dict(talk.next), answer_of(reply, len(talk.owners))
    answers = {victim: lied} | answers_of(talk, {i: q for i, q in questions.items() if i != victim})
    if lied.kind == "confirm":
        signatures = [[i, answers[i].fields["signature"]] for i in range(len(talk.owners))]
        fields = {"agreement": talk.federation._agreement.digest.hex(), "release": 0}
        first = pack("answer", fields | {"confirmations": signatures})
        answers = answers_of(talk, dict.fromkeys(questions, first))
        # It has confirmed other keys than they have, and the order of owners is another one for it.
        around = [i for i, one in enumerate(talk.owners) if victim in one._handshake._secrets]
        assert not {victim, *around} & set(answers)
    if any(one.kind == "ready" for one in answers.values()):
        told = {"agreement": talk.federation._agreement.digest.hex(), "absent": []}
        asked = pack("hand_in", told | {"release": lied.fields["release"]})
        answers = answers_of(talk, dict.fromkeys(questions, asked))
    waiting = next((one._waiting for one in talk.owners if one._waiting), None)
    if waiting and answers:
        assert_adds_up_to_nothing(answers, waiting.layout, rng)


def attacked(name, rng, n_messages, folder=None):
    """Send so many mutated messages to owners of one fit; tell how many were answered."""
    other = new_talk(name, stop_at=int(rng.integers(2, LENGTH[name])))
    other.run()
    n_sent, n_answered = 0, 0
    while n_sent < n_messages:
        own = None if folder is None else Path(mkdtemp(dir=folder))
        talk = new_talk(name, int(rng.choice([1, 1, 2, 2, *range(3, LENGTH[name])])), own)
        talk.run()
        if talk.next is None:  # this fit took fewer releases
            continue
        mutate = Mutations(rng, talk, other)
        for _ in range(min(N_EACH, n_messages - n_sent)):
            victim = int(rng.integers(len(talk.owners)))
            question = mutate(talk.next[victim])
            asked = [one[victim] for one in talk.questions]
            if question in (talk.next[victim], *asked):
                continue
            n_sent += 1
            before = snapshot(talk.owners[victim])
            try:
                reply = talk.owners[victim].handle(question)
            except FederationError:
                assert snapshot(talk.owners[victim]) == before
                continue
            n_answered += 1
            assert talk.owners[victim].handle(question) == reply
            if folder is not None:
                assert_comes_back_to_its_word(talk, victim, question, reply)
            assert_leads_nowhere(talk, victim, reply, rng)
            break
        else:
            # Nothing has changed: the fit goes on.
            again = Talk(talk.federation, talk.owners, stop_at=len(talk.questions) + 1)
            again.run()
            if name != "drop-outs":  # whose owners say with whom they have handed in since
                assert again.answers[:-1] == talk.answers
            assert again.questions[-1] == talk.next
    return n_answered


def assert_comes_back_to_its_word(talk, victim, question, reply):
    """Whoever comes back gives the same answer to the same question, and none to the true one."""
    talk.owners[victim].close()
    talk.owners[victim] = owner = talk.again(victim)
    assert owner.handle(question) == reply
    with pytest.raises(FederationError):
        owner.handle(talk.next[victim])


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("name", ["ring", "drop-outs", "linear"])
def test_mutated_messages_are_refused_or_lead_nowhere(name):
    assert attacked(name, np.random.default_rng(0), 100) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("name", CASES)
def test_thousands_of_mutated_messages(name, seed, tmp_path):
    # Those of the first seed come back with their states.
    folder = tmp_path if seed == 1 else None
    assert attacked(name, np.random.default_rng(seed), 150, folder) > 0


# ------------------------------
# Coordinators with owners of their own


def keys_around(victim, own, n_tries=60):
    """Keys of all owners: the last key of the coordinator's puts most of its own at the victim."""
    keys = [_masks.new_key() for _ in range(N_RING)]
    publics, best = list(map(_masks.public_of, keys)), (-1, keys)
    for _ in range(n_tries):
        key = _masks.new_key()
        publics[own[-1]] = _masks.public_of(key)
        seed = _masks.digest(*publics)
        around = set(_masks.neighbors_of(seed, victim, N_RING, N_NEIGHBORS)) & set(own)
        best = max(best, (len(around), [*keys[: own[-1]], key, *keys[own[-1] + 1 :]]))
    return best[1]


def left_of(talk, number, own):
    """The answer of an owner without the masks that owners of the coordinator know."""
    answer = answer_of(talk.answers[-1][number], N_RING)
    words, story = answer.arrays[0], bytes.fromhex(answer.fields["digest"])
    secrets = {i: talk.owners[i]._handshake._secrets.get(number) for i in own}
    known = {i: secret for i, secret in secrets.items() if secret is not None}
    return words - _masks.masked(np.zeros(len(words)), words.dtype, number, known, story)


@pytest.mark.parametrize("is_order_known", [False, True])
def test_owners_of_a_coordinator_show_the_sum_of_all_others_only(monkeypatch, is_order_known):
    """Fewer of them than neighbors, who choose the last key or whom to corrupt."""
    victim, own = 4, [6, 7, 8]
    if not is_order_known:
        keys = iter(keys_around(victim, own))
        monkeypatch.setattr(_masks, "new_key", lambda: next(keys))
    talk = new_talk("ring", stop_at=3)
    talk.run()
    around = sorted(talk.owners[victim]._handshake._secrets)
    if is_order_known:
        own = around[:-1]
    assert len(own) == N_NEIGHBORS - 1
    largest = talk.owners[victim]._waiting.layout.largest

    def farthest(numbers, own):
        total = sum(left_of(talk, i, own) for i in numbers)
        return np.abs(total.view("<i4").astype(float)).max()

    honest = [i for i in range(N_RING) if i not in own]
    assert farthest(honest, own) <= largest
    for size in range(1, len(honest)):
        for chosen in combinations(honest, size):
            assert farthest(chosen, own) > largest
    # As many as there are neighbors see the counts of an owner.
    assert farthest([victim], around) <= largest
