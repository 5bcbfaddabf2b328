"""The keys of one fit: made, signed and confirmed by every owner before the first answer."""

from collections.abc import Sequence
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from skdp.exceptions import FederationError
from skdp.federated._agreement import Agreement
from skdp.federated._masks import (
    bytes_of,
    check_signature,
    digest,
    new_pair,
    pair_from,
    public_of,
    shared_secret,
    sign,
)
from skdp.federated._messages import Message, pack
from skdp.federated._state import OwnerState

_KEYS, _CONFIRM = b"keys of a fit", b"confirmation of all keys"


class Handshake:
    """What one owner says of keys: its own, signed, and that it has seen those of all.

    Keys are bound to one fit. Whoever replays a key of an earlier fit, or shows different keys to
    different owners, lacks the confirmation of the owner whose key it is.
    """

    def __init__(
        self, agreement: Agreement, number: int, identity: Any, peers: Sequence[Any]
    ) -> None:
        _check_identities(number, identity, peers, agreement.n_owners)
        self._agreement, self._number = agreement.digest, number
        self._identity: Ed25519PrivateKey = identity
        self._peers: Sequence[Ed25519PublicKey] = peers
        self._secrets = dict[int, bytes]()

    def make_keys(self, state: OwnerState) -> bytes:
        """Make the pair of this fit, and sign its public key."""
        if state.pair:
            raise FederationError("An owner takes part in one fit, and has made its keys.")
        pair = new_pair()
        public = public_of(pair)
        signature = self._sign(_KEYS, _name(self._number), public)
        state.pair = bytes_of(pair).hex()
        fields = {"owner": self._number, "public": public.hex(), "signature": signature.hex()}
        return pack("keys", fields)

    def confirm(self, state: OwnerState, asked: Message) -> bytes:
        """Check the keys of all owners, and confirm to all that it is these."""
        if not state.pair or state.publics:
            raise FederationError("Keys are confirmed once, after this owner has made its own.")
        publics = _bytes_of_all(asked.fields["publics"])
        signatures = _bytes_of_all(asked.fields["signatures"])
        pair = pair_from(bytes.fromhex(state.pair))
        if publics[self._number] != public_of(pair):
            raise FederationError("The public key that stands for this owner is not its own.")
        for number, (public, signature) in enumerate(zip(publics, signatures, strict=True)):
            self._check(number, signature, _KEYS, _name(number), public)
        self._secrets = _secrets_of(pair, self._number, publics)
        state.publics = [public.hex() for public in publics]
        signature = self._sign(_CONFIRM, keys_of(state))
        return pack("confirm", {"owner": self._number, "signature": signature.hex()})

    def check_confirmations(self, state: OwnerState, asked: Message) -> None:
        """Refuse to begin before every owner has confirmed the very keys that this one has seen."""
        if not state.publics or not asked.fields["confirmations"]:
            raise FederationError("A masked fit begins with the confirmations of all owners.")
        for number, signature in enumerate(_bytes_of_all(asked.fields["confirmations"])):
            self._check(number, signature, _CONFIRM, keys_of(state))

    def secrets(self, state: OwnerState) -> dict[int, bytes]:
        """Compute the secret with each of the other owners, if this is not done yet."""
        if not self._secrets:
            publics = [bytes.fromhex(public) for public in state.publics]
            pair = pair_from(bytes.fromhex(state.pair))
            self._secrets = _secrets_of(pair, self._number, publics)
        return self._secrets

    def forget(self, state: OwnerState) -> None:
        """Forget the keys of a fit that has ended."""
        state.pair, self._secrets = "", {}

    def _sign(self, purpose: bytes, *parts: bytes) -> bytes:
        return sign(self._identity, purpose, self._agreement, *parts)

    def _check(self, number: int, signature: bytes, purpose: bytes, *parts: bytes) -> None:
        try:
            check_signature(self._peers[number], signature, purpose, self._agreement, *parts)
        except FederationError:
            raise FederationError(
                f"A signature is not that of the owner it stands for, by peers[{number}]."
            ) from None


def keys_of(state: OwnerState) -> bytes:
    """Hash the public keys of all owners; nothing if there are none."""
    return digest(*map(bytes.fromhex, state.publics)) if state.publics else b""


def _name(number: int) -> bytes:
    return str(number).encode()


def _secrets_of(pair: Any, number: int, publics: Sequence[bytes]) -> dict[int, bytes]:
    """Compute the secrets of one owner with the others; refuse two owners with one key."""
    if len(set(publics)) != len(publics):
        raise FederationError("Two owners have the same public key.")
    others = enumerate(publics)
    return {peer: shared_secret(pair, public) for peer, public in others if peer != number}


def _bytes_of_all(entries: Sequence[tuple[int, str]]) -> list[bytes]:
    return [bytes.fromhex(value) for _, value in entries]


def _check_identities(number: int, identity: Any, peers: Any, n_owners: int) -> None:
    if not isinstance(identity, Ed25519PrivateKey):
        raise ValueError(
            "identity must be an Ed25519PrivateKey of the package cryptography where sums are "
            f"masked, got {type(identity).__name__}."
        )
    if len(peers) != n_owners or not all(isinstance(peer, Ed25519PublicKey) for peer in peers):
        raise ValueError(
            f"peers must be the {n_owners} Ed25519PublicKeys of all owners, in their order, got "
            f"{len(peers)}{_types_of(peers)}."
        )
    raw = [peer.public_bytes_raw() for peer in peers]
    if len(set(raw)) != n_owners:
        raise ValueError("peers must be the keys of different owners, got one of them twice.")
    if raw[number] != identity.public_key().public_bytes_raw():
        raise ValueError(
            f"peers[{number}] must be the public key of identity, and is another: peers go by the "
            "numbers of the owners."
        )


def _types_of(peers: Sequence[Any]) -> str:
    names = sorted({type(peer).__name__ for peer in peers})
    return f" of {', '.join(names)}" if names else ""
