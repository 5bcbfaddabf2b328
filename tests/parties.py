"""Owners, and a coordinator whose questions are seen: what the tests of federations share."""

import hashlib
import os
import struct
import subprocess
import sys
import threading
import zlib
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from itertools import count, pairwise

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy import sparse
from sklearn.base import clone

from skdp import (
    DPPCA,
    DPCovariance,
    DPLinearRegression,
    DPLogisticRegression,
    DPStandardScaler,
    DPTraceRegressor,
    FederationError,
    make_dp_pipeline,
)
from skdp.federated import Coordinator, Federation, Owner
from skdp.federated._messages import TO_COORDINATOR, TO_OWNER, pack, unpack

__all__ = [
    "IDENTITIES",
    "LABELS",
    "N_OWNERS",
    "PARTS",
    "PEERS",
    "RESPONSES",
    "SPARSE",
    "TABLE",
    "OwnerProcess",
    "Talk",
    "a_federation",
    "an_owner",
    "answer_of",
    "assert_lies_lead_alike",
    "assert_same_attributes",
    "changed",
    "corrupted",
    "federation_like",
    "fields_of",
    "make_repeatable",
    "mended",
    "owners_of",
    "parts_of",
    "snapshot",
    "the_threads",
]

N_OWNERS = 3
IDENTITIES = [Ed25519PrivateKey.from_private_bytes(bytes([i]) * 32) for i in range(1, 61)]
PEERS = [identity.public_key() for identity in IDENTITIES]
PARTS = list(np.random.default_rng(0).normal(size=(N_OWNERS, 20, 4)) * [2, 1, 0.5, 0.1])

# Records of three owners, of 3, 87 and 150, with responses and labels.
_RNG = np.random.default_rng(11)
TABLE = _RNG.normal(size=(240, 3)) @ _RNG.normal(size=(3, 6)) + _RNG.normal(size=(240, 6))
TABLE += np.arange(6)
RESPONSES = TABLE @ _RNG.normal(size=6) + _RNG.normal(size=240)
LABELS = np.where(np.median(RESPONSES) < RESPONSES, "yes", "no")
SPARSE = sparse.csr_array(np.where(np.abs(TABLE) > 3, TABLE, 0.0))
_CLASSIFIER = DPLogisticRegression(classes=["yes", "no"])
# An estimator of each kind, with its rows and responses.
MODELS = {
    "scaler": (DPStandardScaler(), TABLE, None),
    "covariance": (DPCovariance(bounds=(-20, 20)), TABLE, None),
    "linear": (DPLinearRegression(), TABLE, RESPONSES),
    "logistic": (_CLASSIFIER, TABLE, LABELS),
    "trace": (DPTraceRegressor(rank=1, n_iter=5), TABLE.reshape(-1, 3, 2), RESPONSES),
    "pipeline": (make_dp_pipeline(DPStandardScaler(), _CLASSIFIER), TABLE, LABELS),
}


def parts_of(values):
    """Give each of three owners its records, or its targets."""
    return None if values is None else [values[a:b] for a, b in pairwise([0, 3, 90, 240])]


def federation_like(estimator, rows, epsilon=4.0, n_rows=240, owners=3, **options):
    """Agree on a fit to records like these."""
    estimator = clone(estimator).set_params(epsilon=epsilon)
    return Federation(estimator, n_rows, owners=owners, **({"like": rows[:1]} | options))


def a_federation(estimator=None, n_rows=60, n_features=4, owners=N_OWNERS, **options):
    """Three owners of twenty rows each, two releases."""
    if estimator is None:
        estimator = DPPCA(1, epsilon=8.0, row_norm=5.0, mean_norm=2.0)
    return Federation(estimator, n_rows, n_features, owners=owners, **options)


def an_owner(federation, number, X=None, owner=Owner, **options):
    """One owner, with the keys it needs."""
    X = PARTS[number] if X is None else X
    n_owners = federation._agreement.n_owners
    options = {"identity": IDENTITIES[number], "peers": PEERS[:n_owners]} | options
    return owner(federation, number, X, **options)


def owners_of(federation, parts=PARTS, targets=None, *, folder=None, ledgers=None, **options):
    """All owners; with their states in a folder."""
    owners = []
    for i, X in enumerate(parts):
        own = {"y": targets and targets[i], "ledger": ledgers and ledgers[i]}
        own |= {"state": folder / f"{i}.state"} if folder else {}
        owners.append(an_owner(federation, i, X, **own | options))
    return owners


class Stopped(Exception):
    """The coordinator asks no more."""


class Talk:
    """What was asked and answered in a fit, of which some exchanges may be left out.

    `tamper(number, i, question)` is what owner i gets instead of the question of an exchange.
    `leave_at` has the exchange from which on an owner answers nothing, by its number.
    """

    def __init__(self, federation, owners, *, stop_at=None, tamper=None, leave_at=()):
        self.federation, self.owners, self.leave_at = federation, owners, dict(leave_at)
        self.questions, self.answers, self.next = [], [], None
        self._stop_at, self._tamper = stop_at, tamper or (lambda number, i, question: question)

    def run(self):
        """Run the fit up to where it is stopped; return the model, or None."""
        try:
            return Coordinator(self.federation).run(self._send)
        except Stopped:
            return None

    def _send(self, questions):
        number = len(self.questions)
        if number == self._stop_at:
            self.next = questions
            raise Stopped
        there = [i for i in questions if number < self.leave_at.get(i, np.inf)]
        sent = {i: self._tamper(number, i, questions[i]) for i in there}
        self.questions.append(sent)
        self.answers.append({i: self.owners[i].handle(one) for i, one in sent.items()})
        return self.answers[-1]


def fields_of(message, kinds=TO_OWNER, n_owners=N_OWNERS):
    """Read a message to an owner."""
    return unpack(message, kinds, n_owners)


def answer_of(message, n_owners=N_OWNERS):
    """Read a message to the coordinator."""
    return unpack(message, TO_COORDINATOR, n_owners)


def changed(message, *arrays, **fields):
    """Write a message anew, with other fields or arrays."""
    kind, old, old_arrays = fields_of(message)
    return pack(kind, old | fields, *(arrays or old_arrays))


def assert_same_attributes(model, other):
    """Compare two fitted models without noise."""
    assert set(vars(model)) == set(vars(other))
    for name, expected in vars(other).items():
        if name[-1] == "_" and np.asarray(expected).dtype.kind in "fi":
            found, scale = getattr(model, name), np.abs(expected).max(initial=1e-300)
            np.testing.assert_allclose(found, expected, atol=1e-9 * scale, err_msg=name)


def assert_lies_lead_alike(federation, rows, y, seed):
    """Tell two owners, of 3 and of 87 records, the same lies about sums: they end in one manner.

    They answer no more often than the plan says, and what does not depend on rows is the same.
    """
    rng, targets = np.random.default_rng(seed), parts_of(y) or [None] * 3
    owner, other = (Owner(federation, i, parts_of(rows)[i], targets[i]) for i in (1, 0))
    fields = {"agreement": federation._agreement.digest.hex(), "confirmations": []}
    question = pack("answer", fields | {"release": 0})
    answers = [answer_of(one.handle(question)) for one in (owner, other)]
    assert answers[0].fields["digest"] == answers.pop().fields["digest"]
    with suppress(FederationError):
        while answers[-1].kind == "answer":
            layout = owner._waiting.layout
            words = answers[-1].arrays[0].view(layout.words.str.replace("u", "i"))
            lie = words.astype(float) * rng.choice([1.0, 3.0, -1.0, 0.0, 1e3, 1e9])
            lie += rng.normal(size=lie.shape) * layout.largest * rng.choice([0.0, 1e-6, 0.3])
            lie = np.clip(lie, -layout.largest, layout.largest).astype(words.dtype)
            question = pack("answer", fields | {"release": len(answers)}, lie)
            own, its = (answer_of(one.handle(question)) for one in (owner, other))
            assert own.fields["digest"] == its.fields["digest"]
            answers.append(own)
            # The same question gets the same answer, and another one about it is refused.
            assert owner.handle(question) == owner.handle(question)
            with pytest.raises(FederationError):
                owner.handle(pack("answer", fields | {"release": len(answers) - 1}, lie + 1))
    owner.close()
    other.close()
    assert len(answers) <= federation.plan.n_releases + 1


# What JSON is made of reaches deeper than any bytes.
LETTERS = np.frombuffer(b'0123456789abf[]{},:"-.eE+tnN \0\xff<>ui', np.uint8)


def corrupted(data, rng):
    """Drop, repeat, turn around, replace or insert some bytes."""
    data = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        start = rng.integers(len(data) + 1)
        end = start + rng.geometric(0.2)
        piece = bytes(data[start:end])
        some = rng.choice(LETTERS, len(piece)).tobytes() if rng.integers(2) else rng.bytes(9)
        data[start:end] = [b"", piece * 2, piece[::-1], some, some + piece][rng.integers(5)]
    return bytes(data)


def mended(data):
    """Give a message the checksum of what follows, and the length of what looks like a head."""
    end = data.find(b"}", 8) + 1
    length = max(end + -end % 8 - 8, 0)
    return struct.pack("<II", length, zlib.crc32(data[8:])) + data[8:]


def snapshot(owner):
    """All that a message may change in an owner, deeply."""
    waiting = owner._waiting
    part = None if waiting is None else (waiting.layout, waiting.part.tobytes())
    secrets = None if owner._handshake is None else dict(owner._handshake._secrets)
    history = owner._history.before(None) if hasattr(owner, "_history") else None
    file = owner._path.read_bytes() if owner._path and owner._path.exists() else None
    is_fitted = hasattr(owner, "estimator_")
    return asdict(owner._state), part, secrets, history, file, owner._is_saved, is_fitted


def make_repeatable(monkeypatch, seed=b"fit"):
    """Take keys and noise from counters, so that two fits have the same messages."""

    def from_counter(numbers, purpose):
        return hashlib.sha256(b"%s %s %d" % (purpose, seed, next(numbers))).digest()

    pair = partial(from_counter, count(), b"pair")
    monkeypatch.setattr("skdp.federated._masks.new_key", lambda: pair())
    noise = partial(from_counter, count(), b"noise")
    monkeypatch.setattr("skdp.federated._owner.NoiseSource.key", lambda self, *facts: noise())


def the_threads():
    """All threads that are alive: those of tests before may end meanwhile."""
    return set(threading.enumerate())


SERVE = """
while length := int(sys.stdin.buffer.read(8) or b"0", 16):
    reply = owner.handle(sys.stdin.buffer.read(length))
    sys.stdout.buffer.write(b"%08x" % len(reply) + reply)
    sys.stdout.buffer.flush()
"""


class OwnerProcess:
    """An owner in a process of its own: `make` is code that makes it, `after` runs at its end."""

    def __init__(self, make, *arguments, after="", **variables):
        code = "import sys\n" + make + SERVE + after
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | variables,
        )

    def handle(self, question):
        """Ask, and wait for the answer."""
        self.ask(question)
        return self._process.stdout.read(int(self._process.stdout.read(8), 16))

    def ask(self, question):
        """Ask only."""
        self._process.stdin.write(b"%08x" % len(question) + question)
        self._process.stdin.flush()

    def end(self):
        """Ask nothing more; return what is written after the last answer."""
        return self._process.communicate(timeout=60)[0]

    def kill(self):
        """Let it die, wherever it is."""
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
