"""An owner of rows: its keys, its fit in a thread, and its answers to the coordinator."""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import lru_cache, partial
from numbers import Integral
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread, current_thread
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from skdp._estimator import PrivateEstimator
from skdp.exceptions import FederationError, named
from skdp.federated import _masks as masks
from skdp.federated._agreement import Agreement, agreement_of, digest_of_view, run_fit, view_of
from skdp.federated._messages import TO_COORDINATOR, TO_OWNER, Message, pack, unpack
from skdp.federated._state import OwnerState, load_state
from skdp.ledger import PrivacyLedger
from skdp.privacy.noise import NoiseSource
from skdp.privacy.shares import Exchange, ShareLayout, counts_of

# ------------------------------
# Keys of one fit: before its first answer each owner signs its own key, and confirms all keys.

_KEYS, _CONFIRM = b"keys of a fit", b"confirmation of all keys"


class Handshake:
    """Signs the key of an owner, and confirms the keys of all owners that it has received.

    Keys belong to one fit. If a coordinator replays the key of an earlier fit, or shows different
    keys to different owners, the owner of the key confirms other keys, and the fit does not begin.
    """

    def __init__(
        self, agreement: Agreement, number: int, identity: Any, peers: Sequence[Any]
    ) -> None:
        self._peers = _checked_identities(number, identity, peers, agreement.n_owners)
        self._agreement, self._number = agreement.digest, number
        n_lost = agreement.n_owners - agreement.shares.n_honest
        self._n_neighbors = masks.n_neighbors(agreement.n_owners, n_lost)
        self._identity: Ed25519PrivateKey = identity
        self._secrets = dict[int, bytes]()

    def make_keys(self, state: OwnerState) -> bytes:
        """Make the keys of this owner for this fit, and sign the public key."""
        if state.secret_key:
            raise FederationError(
                "This owner has made its keys before, and takes part in one fit only: make another "
                "owner for another fit."
            )
        key = masks.new_key()
        public = masks.public_of(key)
        parts = b"%d" % self._number, public
        signature = masks.sign(self._identity, _KEYS, self._agreement, *parts)
        state.secret_key = key.hex()
        fields = {"owner": self._number, "public": public.hex(), "signature": signature.hex()}
        return pack("keys", fields)

    def confirm(self, state: OwnerState, asked: Message) -> bytes:
        """Check the keys of all owners, and confirm them by a signature."""
        if not state.secret_key or state.publics:
            raise FederationError("Keys are confirmed once, after this owner has made its own.")
        given = [public for _, public in asked.fields["publics"]]
        key = bytes.fromhex(state.secret_key)
        publics, digest = _read_keys(tuple(given))
        if publics[self._number] != masks.public_of(key):
            raise FederationError("A message has a wrong public key for this owner.")
        neighbors = self._neighbors(publics, digest)
        for number in (self._number, *neighbors):
            self._check(asked.fields["signatures"][number], _KEYS, b"%d" % number, publics[number])
        if len(set(publics)) != len(publics):
            raise FederationError("Two owners have the same public key.")
        self._secrets = masks.shared_secrets(key, neighbors)
        state.publics = given
        signature = masks.sign(self._identity, _CONFIRM, self._agreement, digest)
        return pack("confirm", {"owner": self._number, "signature": signature.hex()})

    def check_confirmations(self, state: OwnerState, asked: Message) -> None:
        """Refuse to begin unless all neighbors have confirmed the same keys."""
        if not state.publics or not asked.fields["confirmations"]:
            raise FederationError("All owners must confirm all keys first: begin a new fit.")
        digest = digest_of_keys(state)
        for number in (self._number, *self.secrets(state)):
            self._check(asked.fields["confirmations"][number], _CONFIRM, digest)

    def _neighbors(self, publics: Sequence[bytes], digest: bytes) -> dict[int, bytes]:
        """Return the public keys of the neighbors, whom the digest of all keys determines."""
        neighbors = masks.neighbors_of(digest, self._number, len(publics), self._n_neighbors)
        return {peer: publics[peer] for peer in neighbors}

    def secrets(self, state: OwnerState, absent: Sequence[int] = ()) -> dict[int, bytes]:
        """Return the secrets that this owner shares with other owners who are present."""
        if not self._secrets:
            neighbors = self._neighbors(*_read_keys(tuple(state.publics)))
            self._secrets = masks.shared_secrets(bytes.fromhex(state.secret_key), neighbors)
        return {peer: secret for peer, secret in self._secrets.items() if peer not in absent}

    def forget(self, state: OwnerState) -> None:
        """Delete the keys of a fit that has ended."""
        state.secret_key, self._secrets = "", {}

    def _check(self, given: Sequence[Any], purpose: bytes, *parts: bytes) -> None:
        """Refuse a pair [number of an owner, signature] whose signature is invalid."""
        number, signature = given[0], bytes.fromhex(given[1])
        if not masks.is_signed(self._peers[number], signature, purpose, self._agreement, *parts):
            raise FederationError(f"A signature of owner {number} is invalid for peers[{number}].")


def digest_of_keys(state: OwnerState) -> bytes:
    """Hash the public keys of all owners; return no bytes if there are no keys yet."""
    return _read_keys(tuple(state.publics))[1] if state.publics else b""


# The result is cached: all owners in one process get the same messages, which grow with the number
# of owners.
@lru_cache(maxsize=1)
def _read_keys(publics: tuple[str, ...]) -> tuple[tuple[bytes, ...], bytes]:
    """Return the public keys of all owners, and their digest."""
    keys = tuple(map(bytes.fromhex, publics))
    return keys, masks.digest(*keys)


def _checked_identities(number: int, identity: Any, peers: Any, n_owners: int) -> list[bytes]:
    """Return the public keys of all owners, as bytes."""
    if not isinstance(identity, Ed25519PrivateKey):
        raise ValueError(
            "identity must be an Ed25519PrivateKey of the package cryptography, as sums are "
            f"masked, got {type(identity).__name__}."
        )
    types = set(map(type, peers))
    if len(peers) != n_owners or not all(issubclass(one, Ed25519PublicKey) for one in types):
        names = ", ".join(sorted(one.__name__ for one in types)) or "nothing"
        raise ValueError(
            f"peers must be the {n_owners} Ed25519PublicKeys of all owners, in their order, got "
            f"{len(peers)} of {names}."
        )
    raw = [peer.public_bytes_raw() for peer in peers]
    if len(set(raw)) != n_owners or raw[number] != identity.public_key().public_bytes_raw():
        raise ValueError(
            "peers must be different keys, in the order of the numbers of owners, with the public "
            f"key of identity as peers[{number}]."
        )
    return raw


# ------------------------------
# A fit in a thread of its own, which waits for sums.


class Waiting(NamedTuple):
    """The release for whose sum a fit waits, and this owner's part of the sum."""

    layout: ShareLayout
    part: np.ndarray


class _Stopped(BaseException):
    """Ends the fit of an owner that was closed; no solver catches a BaseException."""


class RunningFit:
    """Runs a fit in a thread of its own, from one release to the next.

    A fit is one function. At each release it calls `exchange`, which blocks its thread until the
    coordinator has sent the sum.
    """

    def __init__(self, fit: Callable[[Exchange], Any], sums: Sequence[masks.Summed] = ()) -> None:
        self._sums = list(sums)
        self._questions: SimpleQueue[Any] = SimpleQueue()
        self._answers: SimpleQueue[masks.Summed | None] = SimpleQueue()
        self._thread = Thread(target=self._run, args=(fit,), daemon=True)
        self._thread.start()

    def next(self) -> Any:
        """Return the release for which the fit waits, or its result; raise an error of the fit."""
        found = self._questions.get()
        if isinstance(found, BaseException):
            raise found
        return found

    def resume(self, summed: masks.Summed) -> Any:
        """Continue with the sum for which the fit waits; return the next release, or the result."""
        self._answers.put(summed)
        return self.next()

    def stop(self) -> None:
        """End the fit at its next release, and wait for the end of its thread."""
        self._answers.put(None)
        # The garbage collector may call this in the thread of the fit, which cannot join itself.
        if self._thread is not current_thread():
            self._thread.join()

    def _run(self, fit: Callable[[Exchange], Any]) -> None:
        """Run the fit; put its result or its error into the queue."""
        # The first releases get the stored sums; each later release waits for its sum.
        known = iter(self._sums)

        def exchange(layout: ShareLayout, part: np.ndarray) -> masks.Summed:
            """Return the sum of a release: a stored one, or wait for the coordinator."""
            if (summed := next(known, None)) is not None:
                return summed
            self._questions.put(Waiting(layout, part))
            if (answer := self._answers.get()) is None:
                raise _Stopped
            return answer

        try:
            self._questions.put(fit(exchange))
        except _Stopped:
            pass
        except BaseException as error:
            self._questions.put(error)


class Owner(AbstractContextManager["Owner"]):
    """One owner of rows in one federated fit.

    The owner runs the fit on its own rows. Where the fit releases a sum, the owner sends its part
    of the sum, as counts with a share of the noise, and continues with the sum of all owners. Masks
    hide the counts, so that the coordinator can read only the sum.

    Parameters
    ----------
    federation : Federation
        The agreement of all owners.
    number : int
        Number of this owner, from 0.
    X : {array-like, sparse matrix, RowBlocks, RankOneMatrices} of shape (n_own_rows, n_features)
        Rows of this owner, with columns in the same order for all owners. If the federation has
        names of features, names of columns must be equal to them.
    y : array-like of shape (n_own_rows,) or None, default=None
        Responses or labels of these rows, for a model that has them.
    identity : Ed25519PrivateKey or None, default=None
        Long-lived key of this owner, made by ``cryptography``, by which other owners recognize it.
        Required for masked sums.
    peers : sequence of Ed25519PublicKey or None, default=None
        Public keys of all owners, including this one, in the order of their numbers. Owners have to
        exchange them before the fit, and not through the coordinator. Required for masked sums.
    ledger : PrivacyLedger or None, default=None
        Ledger that is charged with the whole plan before the first answer.
    state : str, path or None, default=None
        Path of a new file, one for each fit, from which an owner continues after a crash. None
        stores the state in memory. The state is secret, and must not be copied: see Notes.

    Attributes
    ----------
    estimator_ : estimator
        The fitted model, equal for all owners; only after the fit has ended.

    Raises
    ------
    FederationError
        If `state` belongs to another federation or other rows, or its folder does not exist.
    OSError
        If the file of `state` cannot be made.
    TypeError
        If `federation` is not a federation.
    ValueError
        If X or the keys do not fit the federation.

    See Also
    --------
    Federation : The agreement, and a fit in one process.
    Coordinator : Sums the counts.

    Notes
    -----
    **Privacy.** The federation has the unit and the adjacency. The mechanism is Gaussian noise, of
    which each owner adds a share. What the coordinator and up to ``colluding`` owners see together
    is as private for the rows of all other owners as the model is; with masks, this holds against
    limited computing power. An owner whose state is copied, or restored from a backup, may draw
    noise twice for one release, and counts as colluding. All noise and all keys are drawn from the
    entropy of the operating system. Assumed public: the agreement.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPPCA
    >>> from skdp.federated import Coordinator, Federation, Owner
    >>> rng = np.random.default_rng(0)
    >>> federation = Federation(
    ...     DPPCA(2, epsilon=8.0, row_norm=5.0, mean_norm=5.0), n_rows=600, n_features=4, owners=3,
    ...     aggregator="trusted",
    ... )
    >>> owners = [Owner(federation, i, rng.normal(size=(200, 4))) for i in range(3)]
    >>> model = Coordinator(federation).run(
    ...     lambda messages: {i: owners[i].handle(message) for i, message in messages.items()}
    ... )
    >>> model.components_.shape
    (2, 4)
    >>> bool(np.all(owners[0].estimator_.components_ == model.components_))
    True
    """

    estimator_: PrivateEstimator

    @named
    def __init__(
        self,
        federation: Any,
        number: int,
        X: Any,
        y: Any = None,
        *,
        identity: Ed25519PrivateKey | None = None,
        peers: Sequence[Ed25519PublicKey] | None = None,
        ledger: Any = None,
        state: str | os.PathLike[str] | None = None,
    ) -> None:
        self._agreement = agreement = agreement_of(federation)
        is_number = isinstance(number, Integral) and not isinstance(number, bool)
        if not is_number or not 0 <= number < agreement.n_owners:
            raise ValueError(f"number must be an int in [0, {agreement.n_owners}), got {number!r}.")
        self.number = number = int(number)
        if not isinstance(ledger, PrivacyLedger | None):
            raise ValueError(
                "ledger must be a PrivacyLedger or None, and no path: pass PrivacyLedger(path), or "
                f"what PrivacyLedger.create returns. Got {type(ledger).__name__}."
            )
        self._handshake = None
        if agreement.is_masked:
            self._handshake = Handshake(agreement, number, identity, list(peers or ()))
        self._rows, self._ledger = view_of(agreement, X, y, number), ledger
        # A link is resolved only once: if its target changes, the state stays the same file.
        self._path = None if state is None else Path(os.path.realpath(state))
        # By this digest `load_state` refuses a state that belongs to other rows: an owner who
        # returns with other rows would mix two datasets in one fit.
        digest_of_own = b"" if state is None else digest_of_view(self._rows)
        self._state = load_state(self._path, agreement.digest.hex(), number, digest_of_own)
        self._is_saved, self._is_closed, self._is_marked = True, False, False
        self._lock, self._process = Lock(), os.getpid()
        self._fit: RunningFit | None = None
        self._waiting: Waiting | None = None
        if self._state.is_charged:
            # The fit began before a crash, and its ledger was charged then.
            self._run()

    def handle(self, message: bytes) -> bytes:
        """Answer a message of the coordinator.

        The same message always gets the same answer, with one exception: if the coordinator asks
        again whether this owner is ready for a release, and the owner has sent its part already,
        the answer also lists the absent owners. A refused message changes nothing.

        Parameters
        ----------
        message : bytes
            Message of the coordinator.

        Returns
        -------
        bytes
            The answer for the coordinator.

        Raises
        ------
        FederationError
            If the message is invalid, or comes at a wrong time.
        BudgetError
            If the fit exceeds the limit of the ledger; then nothing is released.
        OSError
            If the state cannot be written. No answer is sent, and the question may be asked again.
        """
        if os.getpid() != self._process:
            raise FederationError("An owner does not continue in a fork: make the owner there.")
        # One message at a time: the same question, asked twice at once, must not draw noise twice.
        with self._lock:
            return self._handle(message)

    def _handle(self, message: bytes) -> bytes:
        """Check a message, answer it, and save the state before the answer is sent."""
        asked = unpack(message, TO_OWNER, self._agreement.n_owners)
        question = masks.digest(message).hex()
        own, other = self._agreement.digest.hex(), asked.fields["agreement"]
        if other != own:
            raise FederationError(
                f"A message has another agreement than this owner: {other[:16]}, not {own[:16]}. "
                "All parties must make the same Federation, with the same versions of skdp, numpy "
                "and scipy; print it to compare."
            )
        is_new = question not in self._state.answers
        if self._is_closed and (is_new or not self._is_saved):
            # Nothing is saved, so that another owner object can continue from the file.
            raise FederationError(
                "This owner was closed or interrupted: make another owner with the same state, "
                "which continues."
            )
        if is_new:
            try:
                reply = self._reply_to(asked).hex()
            except BaseException as error:
                # After an interrupt the fit may be at any step: only a saved state can continue.
                self._is_closed |= not isinstance(error, Exception)
                raise
            # Set before the answer, so that after an interrupt no unsaved answer can be sent.
            self._is_saved = False
            self._state.answers[question] = reply
        if not self._is_saved:
            # The answer is saved before it is sent, as the same question must get the same answer.
            # If this fails, no answer is sent, and the question gets the same noise next time.
            self._state.save(self._path)
            self._is_saved = True
        has_counts = asked.kind in ("answer", "hand_in")
        if self._ledger is not None and has_counts and not self._is_marked:
            # The ledger notes the answer before it is sent. So an owner pays again if it returns
            # with a state from before the charge, and draws other noise.
            self._ledger._mark_answered(self._state.fit)
            self._is_marked = True
        answer = bytes.fromhex(self._state.answers[question])
        return self._with_absent(answer) if asked.kind == "ready" else answer

    def close(self) -> None:
        """Stop waiting for messages. An unfinished fit remains charged."""
        with self._lock:
            if self._fit is not None:
                self._fit.stop()
            self._fit = self._waiting = None
            self._is_closed = True

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> Any:
        raise TypeError(
            "An owner is neither copied nor pickled, as two copies would draw noise twice for one "
            "release. Pass state, a file, to continue in another process."
        )

    def _reply_to(self, asked: Message) -> bytes:
        """Answer a question that is new for this owner."""
        if asked.kind in ("answer", "ready", "hand_in"):
            if (asked.kind == "answer") == (self._agreement.dropouts > 0):
                raise FederationError(
                    "Each release must begin with a roll call if dropouts is positive, else none."
                )
            return self._send_part(asked) if asked.kind == "hand_in" else self._advance_to(asked)
        if self._handshake is None:
            raise FederationError("Owners have no keys, as sums are not masked.")
        if asked.kind == "keys":
            return self._handshake.make_keys(self._state)
        return self._handshake.confirm(self._state, asked)

    def _advance_to(self, asked: Message) -> bytes:
        """Continue the fit with the sum that `asked` contains, up to the next release.

        Answer with this owner's part of the release or, if absent owners must be known first, with
        "ready".
        """
        number, state = asked.fields["release"], self._state
        if state.has_ended:
            raise FederationError("The fit has ended.")
        is_next = number == len(state.sums) + state.is_charged
        if not is_next or number != len(state.absent):
            raise FederationError("The question is not about the next release, or was answered.")
        if number == 0:
            if self._handshake is not None:
                self._handshake.check_confirmations(state, asked)
            self._begin()
        else:
            self._resume(asked.arrays[0])
        fields = {"owner": self.number, "release": number}
        if self._waiting is None:
            self._end()
            return pack("end", fields | {"digest": self._history.before(None).hex()})
        if asked.kind == "answer":
            return self._counted(number, self._waiting, [])
        history = self._history.before(self._waiting.layout).hex()
        return pack("ready", fields | {"digest": history, "absent": None})

    def _send_part(self, asked: Message) -> bytes:
        """Answer with this owner's part of a release, masked for the owners that are present."""
        number, absent = asked.fields["release"], asked.fields["absent"]
        state = self._state
        # The release must be the next one, whose part was not sent before.
        if self._waiting is None or not number == len(state.sums) == len(state.absent):
            raise FederationError("The question is not about the next release, or was answered.")
        earlier = set(state.absent[-1] if state.absent else ())
        if not earlier <= set(absent) or self.number in absent:
            raise FederationError("Absent owners must stay absent, and this owner is present.")
        if len(absent) > self._agreement.dropouts:
            raise FederationError("More owners are absent than dropouts permits.")
        return self._counted(number, self._waiting, absent)

    def _with_absent(self, reply: bytes) -> bytes:
        """Add the absent owners to the answer "ready", if this owner has sent its part already."""
        # The masks of a part that was sent fit only the owners who were absent at that time.
        ready = unpack(reply, TO_COORDINATOR, self._agreement.n_owners)
        handed_in = self._state.absent[ready.fields["release"] :]
        fields = {"absent": handed_in[0]} if handed_in else {}
        return pack(ready.kind, ready.fields | fields)

    def _begin(self) -> None:
        """Charge the ledger for the whole plan, and run up to the first release."""
        charge = None
        if self._ledger is not None:
            name, n_owners = type(self._agreement.estimator).__name__, self._agreement.n_owners
            what, fit = f"{name} of {n_owners} owners", self._state.fit
            # An owner that crashes before it has saved its first answer returns with the same id of
            # the fit, and is not charged again.
            charge = partial(self._ledger._charge, what=what, fit=fit)
        self._run(charge)
        self._state.is_charged = True

    def _run(self, charge: Callable[[Any], None] | None = None) -> None:
        """Start the fit, and run it to the first release whose sum the state does not have."""
        stored = (np.frombuffer(bytes.fromhex(text), "<i8") for text in self._state.sums)
        absent = map(tuple, self._state.absent)
        sums = [(total.astype(np.int64), gone) for total, gone in zip(stored, absent, strict=False)]
        self._history = masks.History(self._agreement.digest, digest_of_keys(self._state), sums)
        self._fit = RunningFit(partial(run_fit, self._agreement, self._rows, charge=charge), sums)
        # The thread has no reference to this owner, so that deleting the owner ends the fit.
        finalize(self, self._fit.stop)
        self._keep(self._fit.next())

    def _resume(self, words: np.ndarray) -> None:
        """Check the sum of the last release, and run to the next release."""
        assert self._fit is not None
        assert self._waiting is not None
        total = masks.checked_sum(words, self._waiting.layout)
        absent = tuple(self._state.absent[-1])
        found = None
        with suppress(Exception):
            # Any error ends the fit, for example if rows can no longer be loaded. Nobody gets its
            # text, which could show private values.
            found = self._fit.resume((total, absent))
        if found is None:
            self._end()
            self._state.save(self._path)
            raise FederationError("The fit has failed for this owner: begin a new fit.")
        self._state.sums.append(total.astype("<i8").tobytes().hex())
        self._history.add(total, absent)
        self._keep(found)

    def _end(self) -> None:
        """End the fit: refuse further questions, and delete the keys."""
        self._state.has_ended = True
        if self._handshake is not None:
            self._handshake.forget(self._state)

    def _keep(self, found: Any) -> None:
        """Store what the fit has returned: a release for which it waits, or the fitted model."""
        self._waiting = found if isinstance(found, Waiting) else None
        if self._waiting is None:
            self.estimator_, _ = found

    def _counted(self, number: int, waiting: Waiting, absent: list[int]) -> bytes:
        """Answer with counts: this owner's part with a share of noise, rounded and masked.

        This function draws the noise, so it is called once for each release.
        """
        layout = waiting.layout
        counts = counts_of(waiting.part, layout, NoiseSource().key())
        history = self._history.before(layout, absent)
        words = counts.astype(layout.words)
        if self._handshake is not None:
            secrets = self._handshake.secrets(self._state, absent)
            words = masks.masked(counts, layout.words, self.number, secrets, history)
        self._state.absent.append(absent)
        fields = {"owner": self.number, "release": number, "digest": history.hex()}
        return pack("answer", fields, words)
