"""Owners, and a coordinator whose questions are seen: what the tests of federations share."""

import hashlib
import os
import subprocess
import sys
import threading
from dataclasses import asdict
from functools import partial
from itertools import count

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from skdp import DPPCA
from skdp.federated import Coordinator, Federation, Owner
from skdp.federated._messages import TO_COORDINATOR, TO_OWNER, pack, unpack

__all__ = [
    "IDENTITIES",
    "N_OWNERS",
    "PARTS",
    "PEERS",
    "OwnerProcess",
    "Talk",
    "a_federation",
    "an_owner",
    "answer_of",
    "changed",
    "fields_of",
    "make_repeatable",
    "owners_of",
    "snapshot",
    "the_threads",
]

N_OWNERS = 3
IDENTITIES = [Ed25519PrivateKey.from_private_bytes(bytes([i]) * 32) for i in range(1, 61)]
PEERS = [identity.public_key() for identity in IDENTITIES]
PARTS = list(np.random.default_rng(0).normal(size=(N_OWNERS, 20, 4)) * [2, 1, 0.5, 0.1])


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


def owners_of(federation, parts=PARTS, targets=None, **options):
    """All owners."""
    targets = targets or [None] * len(parts)
    both = zip(parts, targets, strict=True)
    return [an_owner(federation, i, X, y=y, **options) for i, (X, y) in enumerate(both)]


class Stopped(Exception):
    """The coordinator asks no more."""


class Talk:
    """What was asked and answered in a fit, of which some exchanges may be left out.

    `tamper(number, i, question)` is what owner i gets instead of the question of an exchange.
    """

    def __init__(self, federation, owners, *, stop_at=None, tamper=None):
        self.federation, self.owners = federation, owners
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
        sent = {i: self._tamper(number, i, one) for i, one in questions.items()}
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


def snapshot(owner):
    """All that a message may change in an owner, deeply."""
    waiting = owner._waiting
    part = None if waiting is None else (waiting.layout, waiting.part.tobytes())
    secrets = None if owner._handshake is None else dict(owner._handshake._secrets)
    story = owner._story.of(None) if hasattr(owner, "_story") else None
    file = owner._path.read_bytes() if owner._path and owner._path.exists() else None
    is_fitted = hasattr(owner, "estimator_")
    return asdict(owner._state), part, secrets, story, file, owner._is_saved, is_fitted


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
