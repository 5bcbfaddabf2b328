"""Masks that cancel in the sum of all owners, and the history that their keys are derived from."""

import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

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
# Masks, keys and signatures. `cryptography` has the primitives; nobody has audited how they are
# combined here.

# What is hashed together with every input of one kind, so that the hashes of two kinds differ.
_MASK, _SIGNATURE = b"skdp federated mask 1", b"skdp federated signature 1"
_RING = b"skdp federated ring 1"
# An owner has at least this many neighbors, with whom it shares masks.
_FEWEST_NEIGHBORS = 50  # not tuned
_LENGTH, _NUMBERS = struct.Struct("<Q"), struct.Struct("<QQ")
# Number of signatures whose validity is cached, as all owners in one process check the same ones.
_MOST_CHECKED = 1 << 14  # not tuned
# Bytes of a block of AES.
_BLOCK = 16  # not tuned
# The counter of AES-CTR can start from 0, as each key is used for one stream only.
_CTR = modes.CTR(bytes(_BLOCK))


def digest(*parts: bytes) -> bytes:
    """Hash parts with SHA-256, each with its length: other parts of the same bytes differ."""
    return hashlib.sha256(b"".join(_LENGTH.pack(len(part)) + part for part in parts)).digest()


def sign(identity: Ed25519PrivateKey, purpose: bytes, *parts: bytes) -> bytes:
    """Sign parts for a purpose; the signature, 64 bytes, is invalid for any other purpose."""
    return identity.sign(digest(_SIGNATURE, purpose, *parts))


@lru_cache(_MOST_CHECKED)
def is_signed(identity: bytes, signature: bytes, purpose: bytes, *parts: bytes) -> bool:
    """Check a signature of parts for a purpose, given the public key `identity` of the signer."""
    message = digest(_SIGNATURE, purpose, *parts)
    try:
        Ed25519PublicKey.from_public_bytes(identity).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def new_key() -> bytes:
    """Draw the secret key of an owner for one fit from the entropy of the operating system."""
    return X25519PrivateKey.generate().private_bytes_raw()


def public_of(key: bytes) -> bytes:
    """Return the public key that belongs to a secret key."""
    return X25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw()


def shared_secrets(key: bytes, publics: Mapping[int, bytes]) -> dict[int, bytes]:
    """Derive the secret that this owner shares with each other owner, from their public keys."""
    pair, secrets = X25519PrivateKey.from_private_bytes(key), dict[int, bytes]()
    for number, public in publics.items():
        try:
            secret = pair.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            secret = b""
        # A public key of low order makes the secret 0, which anybody would know.
        if not any(secret):
            raise FederationError(f"Owner {number} has no valid key of X25519: begin a new fit.")
        secrets[number] = secret
    return secrets


def n_neighbors(n_owners: int, n_lost: int) -> int:
    """Return with how many neighbors an owner shares masks.

    The number is even and above `n_lost`, the largest number of owners who collude or leave; or all
    other owners are neighbors. So masks connect the remaining owners, whoever is lost: a ring on
    which owners have k / 2 neighbors on either side falls apart only if k owners are lost.
    """
    return min(n_owners - 1, max(_FEWEST_NEIGHBORS, 2 * (n_lost // 2 + 1)))


def neighbors_of(seed: bytes, number: int, n_owners: int, count: int) -> list[int]:
    """Return the neighbors of an owner: the nearest `count` owners on a ring in random order."""
    if count == n_owners - 1:
        return [peer for peer in range(n_owners) if peer != number]
    stream = Cipher(algorithms.AES256(digest(_RING, seed)), _CTR).encryptor()
    ring = np.argsort(np.frombuffer(stream.update(bytes(8 * n_owners)), "<u8"), kind="stable")
    (place,) = np.flatnonzero(ring == number)
    offsets = np.delete(np.arange(count + 1), count // 2) - count // 2
    return sorted(ring[(place + offsets) % n_owners].tolist())


def masked(
    counts: np.ndarray, words: np.dtype, number: int, secrets: Mapping[int, bytes], history: bytes
) -> np.ndarray:
    """Hide the counts of an owner by masks, one for each neighbor.

    Two neighbors derive a key for each release from their shared secret and from `history`, the
    digest of all that both have received: the agreement, all public keys, the layout of the
    release, and all sums so far. The mask is a stream of random words from this key. The owner with
    the smaller number adds the mask, modulo the range of words, and the neighbor subtracts the same
    mask: masks cancel in the sum of all owners. To anybody without the secrets, the words of the
    owners look uniformly random, except for their sum. Masks with different histories do not
    cancel. As a key has one stream, an owner must never mask other counts with the same history.
    """
    assert number not in secrets
    total = counts.astype(words)
    zeros = bytes(total.nbytes)
    stream = bytearray(total.nbytes + _BLOCK - 1)
    mask = np.frombuffer(stream, words, total.size).reshape(total.shape)
    for peer, secret in secrets.items():
        # If keys did not depend on both numbers, masks of peers with one public key would cancel.
        info = digest(_MASK, history, _NUMBERS.pack(*sorted((number, peer))))
        key = HKDF(SHA256(), length=32, salt=None, info=info).derive(secret)
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
            "The counts of an owner have another type or size than was agreed on, or than the "
            "counts of other owners have."
        )
    total = np.zeros(parts[0].shape, words)
    for part in parts:
        total += part
    return total.view(signed(words))


# ------------------------------
# The history of a fit: all that a party has received so far.

# The digest of a release includes the standard deviation of its noise, 16 to 32 steps of the
# lattice. It is rounded to 1/1024 of a step, as processors may compute different last digits.
_PARTS_OF_STEP = 1024  # not tuned


#: The sum of a release, and the numbers of the absent owners, whose counts are not in the sum.
Summed = tuple[np.ndarray, tuple[int, ...]]


class History:
    """A digest of the agreement, all public keys, and all sums so far, with their absent owners."""

    def __init__(self, agreement: bytes, keys: bytes = b"", sums: Iterable[Summed] = ()):
        self._digest, self._number = digest(b"skdp story", agreement, keys), 0
        for summed in sums:
            self.add(*summed)

    def add(self, total: np.ndarray, absent: Iterable[int] = ()) -> None:
        """Append the sum of the next release."""
        self._digest = digest(self._digest, total.astype("<i8").tobytes(), *_encoded(absent))
        self._number += 1

    def before(self, layout: ShareLayout | None, absent: Iterable[int] = ()) -> bytes:
        """Hash the history so far with the layout of the next release, or None for the end."""
        if layout is None:
            return digest(self._digest, b"end")
        release = str(self._number), layout.name, layout.mechanism, str(list(layout.shape))
        # The last digits may differ between processors, as the standard deviation may be computed
        # from a released basis.
        std = str(round(layout.std / layout.step * _PARTS_OF_STEP))
        facts = *release, std, layout.step.hex(), layout.words.str
        return digest(self._digest, b"release", *_encoded(facts), *_encoded(absent))


def _encoded(facts: Iterable[str | int]) -> list[bytes]:
    return [str(fact).encode() for fact in facts]


def checked_sum(total: np.ndarray, layout: ShareLayout) -> np.ndarray:
    """Refuse a sum of another type or size, or beyond the largest sum of counts of all owners."""
    if total.dtype != signed(layout.words) or total.shape != (layout.size,):
        raise FederationError("A sum has another type or size than its release.")
    if total.min() < -layout.largest or total.max() > layout.largest:
        raise FederationError("A sum has a number beyond its public bound.")
    return total.astype(np.int64)
