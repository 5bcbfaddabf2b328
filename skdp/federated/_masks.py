"""Masks that cancel in the sum of all owners, and the history on which their keys depend."""

import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from skdp.exceptions import FederationError
from skdp.privacy.shares import ShareLayout

# ------------------------------
# Masks, with their keys and signatures.

# The primitives are those of `cryptography`; nobody has audited their combination here.

_MASK, _SIGNATURE = b"skdp federated mask 1", b"skdp federated signature 1"
_RING = b"skdp federated ring 1"
# An owner shares masks with at least this many others.
_FEWEST_NEIGHBORS = 50  # not tuned
_LENGTH, _NUMBERS = struct.Struct("<Q"), struct.Struct("<QQ")
# Number of cached results: owners in one process check the same signatures.
_MOST_CHECKED = 1 << 14  # not tuned
# Bytes of a block of AES.
_BLOCK = 16  # not tuned
# The counter starts from 0, as each key is used once.
_CTR = modes.CTR(bytes(_BLOCK))


def digest(*parts: bytes) -> bytes:
    """Hash parts with SHA-256, each behind its length, so that different lists differ."""
    return _hashed(*parts).digest()


def _hashed(*parts: bytes) -> Any:
    return hashlib.sha256(b"".join(_LENGTH.pack(len(part)) + part for part in parts))


def sign(identity: Ed25519PrivateKey, purpose: bytes, *parts: bytes) -> bytes:
    """Sign parts for a purpose; the 64 bytes are invalid for any other purpose."""
    return identity.sign(digest(_SIGNATURE, purpose, *parts))


def is_signed(identity: bytes, signature: bytes, purpose: bytes, *parts: bytes) -> bool:
    """Return whether a signature is by this identity, for this purpose and these parts."""
    return _is_signed(identity, signature, digest(_SIGNATURE, purpose, *parts))


@lru_cache(_MOST_CHECKED)
def _is_signed(identity: bytes, signature: bytes, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(identity).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def new_key() -> bytes:
    """Make the secret key of an owner for one fit, from the entropy of the system."""
    return X25519PrivateKey.generate().private_bytes_raw()


def public_of(key: bytes) -> bytes:
    """Return the public key of a secret one."""
    return X25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw()


def shared_secrets(key: bytes, publics: Mapping[int, bytes]) -> dict[int, bytes]:
    """Derive the secret shared with each owner, from the owner's public key; refuse bad keys.

    A point of low order makes the secret 0 for any own key: anybody would know it.
    """
    pair, secrets = X25519PrivateKey.from_private_bytes(key), dict[int, bytes]()
    for number, public in publics.items():
        try:
            secret = pair.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            secret = b""
        if not any(secret):
            raise FederationError("The public key of an owner is not one of X25519.")
        secrets[number] = secret
    return secrets


def n_neighbors(n_owners: int, lost: int) -> int:
    """Return the number of owners with whom an owner shares masks: even and above `lost`, or all.

    Masks then connect all honest owners, whichever owners collude or leave: a ring with k / 2
    neighbors on either side falls apart only without k of its owners.
    """
    return min(n_owners - 1, max(_FEWEST_NEIGHBORS, 2 * (lost // 2 + 1)))


def neighbors_of(seed: bytes, number: int, n_owners: int, count: int) -> list[int]:
    """Return the neighbors of an owner: the nearest on a ring, whose order the seed decides.

    Being neighbors is symmetric.
    """
    if count == n_owners - 1:
        return [peer for peer in range(n_owners) if peer != number]
    ring = _ring(seed, n_owners)
    (place,) = np.flatnonzero(ring == number)
    offsets = np.delete(np.arange(count + 1), count // 2) - count // 2
    return sorted(ring[(place + offsets) % n_owners].tolist())


@lru_cache(maxsize=1)
def _ring(seed: bytes, n_owners: int) -> np.ndarray:
    stream = Cipher(algorithms.AES256(digest(_RING, seed)), _CTR).encryptor()
    return np.argsort(np.frombuffer(stream.update(bytes(8 * n_owners)), "<u8"), kind="stable")


def masked(
    counts: np.ndarray, words: np.dtype, number: int, secrets: Mapping[int, bytes], story: bytes
) -> np.ndarray:
    """Hide the counts of an owner by masks, one from the secret with each neighbor.

    Two neighbors derive a key for each release from their shared secret and from `story`, the
    digest of everything that both received: the agreement, all public keys, the release, its
    layout, and all sums so far. The mask is the stream of random words from that key. The owner
    with the smaller number adds it, modulo the words, and the other subtracts it: every mask
    cancels in the sum. Whoever lacks the keys of two owners sees uniform numbers, except for the
    sum of all. Owners that received different things have different keys, and nothing cancels. A
    key is used for one stream: an owner must never mask other counts after the same messages.
    """
    assert number not in secrets
    total = counts.astype(words)
    zeros = bytes(total.nbytes)
    stream = bytearray(total.nbytes + _BLOCK - 1)
    mask = np.frombuffer(stream, words, total.size).reshape(total.shape)
    story_hash, length = _hashed(_MASK, story), _LENGTH.pack(_NUMBERS.size)
    for peer, secret in secrets.items():
        # The key contains both numbers, or masks of peers with one public key would cancel.
        info = story_hash.copy()
        info.update(length + _NUMBERS.pack(*sorted((number, peer))))
        key = HKDF(SHA256(), length=32, salt=None, info=info.digest()).derive(secret)
        Cipher(algorithms.AES256(key), _CTR).encryptor().update_into(zeros, stream)
        (np.add if number < peer else np.subtract)(total, mask, out=total)
    return total


def signed(words: np.dtype) -> np.dtype:
    """Return the signed type of the same size as `words`."""
    return np.dtype(words.str.replace("u", "i"))


def sum_modulo(parts: Sequence[np.ndarray], words: np.dtype) -> np.ndarray:
    """Add the words of all owners modulo their range; return the sum as signed words."""
    if len({part.shape for part in parts}) != 1 or any(part.dtype != words for part in parts):
        raise FederationError(
            "The counts of an owner have another type or size than agreed on or than those of "
            "the others."
        )
    total = np.zeros(parts[0].shape, words)
    for part in parts:
        np.add(total, part, out=total)
    return total.view(signed(words))


# ------------------------------
# The history of a fit: all that a party has received.

# The history has the noise std, 16 to 32 steps of the lattice, in units of a step over this.
_PARTS_OF_STEP = 1024  # not tuned


#: The sum of a release, and the numbers of the owners that did not contribute.
Summed = tuple[np.ndarray, tuple[int, ...]]


class Story:
    """The agreement, the keys of a fit, all sums so far, and the owners in each sum.

    Keys of masks depend on it: masks of owners with different histories do not cancel.
    """

    def __init__(self, agreement: bytes, keys: bytes = b"", sums: Iterable[Summed] = ()):
        self._digest, self._number = digest(b"skdp story", agreement, keys), 0
        for summed in sums:
            self.add(*summed)

    def add(self, total: np.ndarray, absent: Iterable[int] = ()) -> None:
        """Append the sum of the next release."""
        others = _named(absent)
        self._digest = digest(self._digest, total.astype("<i8").tobytes(), *others)
        self._number += 1

    def of(self, layout: ShareLayout | None, absent: Iterable[int] = ()) -> bytes:
        """Hash the history, the layout of the next release, and the absent owners.

        A layout of None means the end of the fit.
        """
        if layout is None:
            return digest(self._digest, b"end")
        release = str(self._number), layout.name, layout.mechanism, str(list(layout.shape))
        # Rounded, as the last digits of a std from a basis depend on the kind of processor.
        std = str(round(layout.std / layout.step * _PARTS_OF_STEP))
        facts = *release, std, layout.step.hex(), layout.words.str
        encoded = (fact.encode() for fact in facts)
        return digest(self._digest, b"release", *encoded, *_named(absent))


def _named(owners: Iterable[int]) -> list[bytes]:
    return [str(number).encode() for number in owners]


def checked_sum(total: np.ndarray, layout: ShareLayout) -> np.ndarray:
    """Refuse a sum of another type or size, or one that owners' counts cannot have."""
    if total.dtype != signed(layout.words) or total.shape != (layout.size,):
        raise FederationError("A sum has another type or size than its release.")
    if total.min() < -layout.largest or total.max() > layout.largest:
        raise FederationError("A sum has a number beyond its public bound.")
    return total.astype(np.int64)
