"""Where random numbers come from: fresh or keyed noise, and the public stream of the algorithms.

Noise is drawn from AES-256 in counter mode, by inversion of the normal distribution function. The
cipher of the `cryptography` package makes it about 2.3 times as dear as numpy's PCG64, a few per
cent of a fit; in exchange nobody can recover the state of the generator from released noise.
"""

import hashlib
import math
import os
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy.special import ndtri

__all__ = [
    "NoiseSource",
    "algorithm_generator",
    "draw_seed",
    "standard_normal",
    "symmetric_normal",
]

_KEY_BYTES = 32
_CHUNK = 1 << 15


class NoiseSource:
    """Keys for the noise of one fit, a key of its own for each release.

    Parameters
    ----------
    seed : int or None, default=None
        ``None`` takes every key from the operating system. An int keys the noise by the seed and by
        `context`: the privacy claim is then computational, for a secret seed of at least 128 random
        bits, and void for one that can be guessed.
    context : iterable, default=()
        Everything that must not share noise with anything else: a digest of every input of the
        fit, the class and the parameters. Ignored when `seed` is None.

    Attributes
    ----------
    seeded : bool
        Whether a seed was given.
    """

    def __init__(self, seed: int | None = None, context: Iterable[Any] = ()) -> None:
        self.seeded = seed is not None
        self._key = b"" if seed is None else _hash(b"", ("noise", seed, *context))

    def key(self, *release: Any) -> bytes:
        """Return the key for the noise of the release that `release` describes."""
        if not self.seeded:
            return os.urandom(_KEY_BYTES)
        return _hash(self._key, release)


def draw_seed(random_state: Any) -> int | None:
    """Turn a `random_state` into a seed, or None for fresh entropy.

    An instance gives 128 of its bits. ``None`` never means numpy's global generator, which anybody
    in the process can reset.
    """
    if random_state is None:
        return None
    if isinstance(random_state, Integral):
        return int(random_state)
    return int.from_bytes(random_state.bytes(16), "little")


def algorithm_generator(seed: int | None) -> np.random.Generator:
    """Make the generator of an algorithm's public randomness, such as its start matrix.

    It never sees the data: an observable function of the data would be a release.
    """
    if seed is None:
        return np.random.default_rng()
    return np.random.default_rng(int.from_bytes(_hash(b"", ("algorithm", seed)), "little"))


def standard_normal(size: int, key: bytes) -> np.ndarray:
    """Draw `size` independent N(0, 1) from the stream of `key`.

    The 64 bits of a word are a sign and 63 bits of a tail probability in (0, 1/2], so that both
    tails reach 9.1 standard deviations and neither end of the interval can occur.
    """
    encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    plaintext = bytes(8 * min(size, _CHUNK))
    out = np.empty(size)
    for start in range(0, size, _CHUNK):
        part = out[start : start + _CHUNK]
        words = np.frombuffer(encryptor.update(plaintext[: 8 * part.size]), dtype=np.uint64)
        np.add(words >> np.uint64(1), 0.5, out=part)
        part *= 2.0**-64
        ndtri(part, out=part)
        sign_bits = part.view(np.uint64)
        sign_bits ^= words << np.uint64(63)
    return out


def symmetric_normal(order: int, key: bytes) -> np.ndarray:
    """Draw a symmetric standard Gaussian matrix, isotropic in the Frobenius inner product.

    The diagonal has variance 1, an entry beside it 1/2: in an orthonormal basis of the symmetric
    matrices every coordinate is N(0, 1). Copying one triangle of independent N(0, 1) to the other
    has the same privacy and sqrt(2) times the noise off the diagonal.
    """
    matrix = np.zeros((order, order))
    lower = np.tri(order, dtype=bool)
    matrix[lower] = standard_normal(order * (order + 1) // 2, key)
    matrix += matrix.T
    matrix *= math.sqrt(0.5)
    matrix.flat[:: order + 1] *= math.sqrt(0.5)
    return matrix


def _hash(key: bytes, parts: Iterable[Any]) -> bytes:
    state = hashlib.blake2b(key=key, digest_size=_KEY_BYTES)
    for part in parts:
        encoded = _encode(part)
        state.update(len(encoded).to_bytes(8, "little"))
        state.update(encoded)
    return state.digest()


def _encode(value: Any) -> bytes:
    """Encode `value` so that different values give different bytes and equal numbers equal ones."""
    if value is None or isinstance(value, (bool, np.bool_)):
        return f"constant {value}".encode()
    if isinstance(value, bytes):
        return b"bytes " + value
    if isinstance(value, str):
        return b"text " + value.encode()
    if isinstance(value, Integral):
        return f"number {int(value)}".encode()
    if isinstance(value, Real):
        number = float(value)
        return f"number {int(number) if number.is_integer() else number.hex()}".encode()
    if isinstance(value, tuple):
        return b"tuple " + _hash(b"", value)
    array = np.ascontiguousarray(value, dtype=np.float64)
    return f"array {array.shape} ".encode() + array.tobytes()
