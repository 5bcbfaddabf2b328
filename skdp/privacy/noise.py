"""Noise with fresh keys or keys from a seed, its rounding, and public random numbers."""

import hashlib
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy.special import ndtri

# ------------------------------
# Rounding to a public lattice: low bits reveal nothing of the value behind the noise.

#: Every noise std is larger, by this fraction, than exact arithmetic needs. The excess pays for
#: rounding in releases of up to `largest_size` numbers.
SCALE_MARGIN = 1e-4  # not tuned

# The entries of a row of Laplace noise share one random norm. In rows of up to this length, the
# rounding errors of the norm are no larger than those of independent entries.
_LONGEST_ROW = 150  # not tuned


def lattice_step(noise_std: float) -> float:
    """Return the power of two between 1/32 and 1/16 of a noise std.

    Rounding to multiples of this step adds at most 0.033 per cent to the variance of the noise.
    """
    return math.ldexp(1.0, math.frexp(noise_std)[1] - 5)


def round_to_lattice(values: np.ndarray, noise_std: float) -> np.ndarray:
    """Round values in place to multiples of the lattice step of a noise std.

    Noise in floating point cannot take every value. So the low bits of an unrounded release would
    exclude many of the exact values behind it (I. Mironov, 2012, :doi:`10.1145/2382196.2382264`).
    After rounding, every exact value can lead to each multiple of the step, with nearly the same
    probability as in exact arithmetic. The proof is in the documentation, under "Floating point".

    Division and multiplication by a power of two are exact, so that the result depends on nothing
    but the values and the step. Values above the largest float times the step become infinite.
    """
    step = lattice_step(noise_std)
    with np.errstate(over="ignore", under="ignore"):
        values /= step
        np.rint(values, out=values)
        values *= step
    # Adding 0 turns -0 into 0: the sign of -0 would reveal that the number was below 0.
    values += 0.0
    return values


def largest_size(mechanism: str, mu_or_epsilon: float, joint_entries: int = 1) -> float:
    """Return how many numbers a release may have at most, so that `SCALE_MARGIN` pays for rounding.

    A symmetric matrix has n (n + 1) / 2 distinct numbers. `mu_or_epsilon` is an epsilon for Laplace
    and spherical noise, and a mu for other noise. `joint_entries` is the number of entries that
    share one draw of Laplace noise.
    """
    # The rounding of n numbers costs privacy in proportion to sqrt(n) if they are independent, and
    # to n if they share a draw. The factors below are slightly smaller than docs/pca_svd.rst allows
    # by its proof.
    if mechanism in ("gaussian", "symmetric_gaussian"):
        root = 7e6 * mu_or_epsilon
    elif mechanism == "laplace" and joint_entries <= _LONGEST_ROW:
        root = 5e5 * mu_or_epsilon
    else:
        return 2e7 * mu_or_epsilon
    # `root ** 2` would raise an OverflowError where the product becomes infinite.
    return root * root


# ------------------------------
# Random numbers: keys of noise, fresh or derived from a seed, and public random numbers.

#: Mechanism that chooses an option instead of adding noise.
CHOICE = "exponential"

_KEY_BYTES = 32  # not tuned
_CHUNK = 1 << 15  # words that are drawn at a time; not studied
# A word below `_SHORT` has too few significant bits for a float.
_SHORT, _ONE_BIT = np.uint64(2**53), np.uint64(1)  # not tuned
# Largest number of random words of a fraction: the bits of another word would underflow to 0.
_MOST_WORDS = 16  # not tuned
_SMALLEST_SECRET = 2**64  # smaller seeds count as guessable; not tuned


class GuessableSeed(int):
    """A seed that may be guessed, however large: made from a small seed or from a generator."""


class NoiseSource:
    """Keys for the noise of one fit: a separate key for each release.

    Without a seed, every key comes from the operating system. With a seed, keys are derived from
    the seed and the `context`: a digest of the data, the class and all parameters, so that fits
    that differ in any of these share no noise. With a secret seed of at least 128 random bits, the
    guarantee holds against attackers with bounded computing power; with a guessable seed
    (`is_guessable`) there is no guarantee. Equal seeds have equal fingerprints (`fingerprint`), and
    a secret seed cannot be found from its fingerprint.
    """

    def __init__(self, seed: int | None = None, context: Iterable[Any] = ()) -> None:
        self.fingerprint = None if seed is None else _hash(b"", ("fingerprint", seed)).hex()[:32]
        self.is_guessable = may_be_guessed(seed)
        self._key = b"" if seed is None else _hash(b"", ("noise", seed, *context))

    def key(self, *release: Any) -> bytes:
        """Return the key for the noise of a release; with a seed, it depends on the arguments."""
        if self.fingerprint is None:
            return os.urandom(_KEY_BYTES)
        return _hash(self._key, release)


def may_be_guessed(random_state: Any) -> bool:
    """Return whether a seed may be guessed: a small int, or a generator of unknown seed."""
    if isinstance(random_state, Integral) and not isinstance(random_state, GuessableSeed):
        return int(random_state) < _SMALLEST_SECRET
    return random_state is not None


def draw_seed(random_state: Any) -> int | None:
    """Turn a `random_state` into a seed: an int, 128 bits of a generator, or None for fresh noise.

    ``None`` never means numpy's global generator, which anybody in the process can reset.
    """
    if random_state is None or isinstance(random_state, GuessableSeed):
        return random_state
    if isinstance(random_state, Integral):
        return int(random_state)
    return GuessableSeed.from_bytes(random_state.bytes(16), "little")


def derived_seed(seed: int, *purpose: Any) -> int:
    """Derive a seed of 128 bits for one fit from the seed of several fits."""
    kind = GuessableSeed if may_be_guessed(seed) else int
    return kind.from_bytes(_hash(b"", ("derived", seed, *purpose))[:16], "little")


def digest_of(*values: Any) -> bytes:
    """Hash values: different values have different digests, equal numbers of any type the same."""
    return _hash(b"", values)


def algorithm_generator(seed: int | None) -> np.random.Generator:
    """Make the generator of an algorithm's public randomness, such as its start matrix.

    The generator never depends on the data: draws can be observed, and would be a release.
    """
    entropy = os.urandom(_KEY_BYTES) if seed is None else _hash(b"", ("algorithm", seed))
    return np.random.default_rng(int.from_bytes(entropy, "little"))


def checked_value(value: np.ndarray, mechanism: str) -> np.ndarray:
    """Refuse a shape that the mechanism does not take; symmetrize matrices."""
    if mechanism == "laplace" and value.ndim > 2:
        raise ValueError(f"value has {value.ndim} dimensions; Laplace noise takes 1 or 2.")
    if mechanism == CHOICE and (value.ndim != 1 or not np.isfinite(value).all() or not value.size):
        raise ValueError("losses must be a vector of one or more finite numbers.")
    if mechanism != "symmetric_gaussian":
        return value
    if value.ndim != 2 or value.shape[0] != value.shape[1]:
        raise ValueError(f"value must be a square matrix, got shape {value.shape}.")
    # Averaging both triangles removes their difference, which would get too little noise.
    return np.asarray((value + value.T) / 2)


def with_noise(value: np.ndarray, mechanism: str, noise_std: float, key: bytes) -> np.ndarray:
    """Add noise of the given standard deviation; for losses, return the chosen option."""
    noise = draw(mechanism, value.shape, key)
    noise *= noise_std
    if mechanism == CHOICE:
        # The smallest loss is subtracted first: added to large losses, noise would be rounded away.
        return np.array(np.argmin(noise + (value - value.min())))
    noise += value
    return round_to_lattice(noise, noise_std)


def draw(mechanism: str, shape: tuple[int, ...], key: bytes) -> np.ndarray:
    """Draw noise for a value of that shape, with standard deviation 1.

    Random words from AES-256 in counter mode become noise by inversion of a distribution function.
    AES takes about 2.3 times as long as numpy's PCG64, a few per cent of a fit. But unlike with
    PCG64, nobody can recover the state of the generator from released noise.
    """
    size = math.prod(shape)
    if mechanism == "symmetric_gaussian":
        return symmetric_normal(shape[0], key)
    if mechanism == "gaussian":
        return standard_normal(size, key).reshape(shape)
    if mechanism == CHOICE:
        return standard_gumbel(size, key).reshape(shape)
    dimension = joint_entries(mechanism, shape)
    n_rows = size // dimension if dimension else 0
    return spherical_laplace(n_rows, dimension, key).reshape(shape)


def joint_entries(mechanism: str, shape: tuple[int, ...]) -> int:
    """Return the number of entries that share one draw of Laplace or spherical noise."""
    if mechanism == "spherical":
        return math.prod(shape)
    return shape[1] if len(shape) == 2 else 1


def distinct_entries(mechanism: str, shape: tuple[int, ...]) -> int:
    """Return the number of entries; a symmetric matrix counts those on and above the diagonal."""
    if mechanism == "symmetric_gaussian":
        return shape[0] * (shape[0] + 1) // 2
    return math.prod(shape)


def standard_normal(size: int, key: bytes) -> np.ndarray:
    """Draw `size` independent N(0, 1), with tails up to 37.5 standard deviations."""
    return _two_sided(size, key, ndtri)


def spherical_laplace(n_rows: int, dimension: int, key: bytes) -> np.ndarray:
    """Draw independent rows with density proportional to exp(-r * norm) and entries of variance 1.

    A row has a uniformly random direction. Its norm times r has the gamma law of shape `dimension`;
    r = sqrt(dimension + 1) gives variance 1. A row of one entry has the Laplace law.
    """
    if dimension == 1:
        logarithms = _two_sided(n_rows, key, lambda tail, out: np.log(2 * tail, out=out))
        return logarithms.reshape(-1, 1) * math.sqrt(0.5)
    rows = standard_normal(n_rows * dimension, _hash(key, ("direction",)))
    rows = rows.reshape(n_rows, dimension)
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    # Squares do not overflow, as all draws are below 38. A row of zeros, which has the probability
    # 2 ** -108, stays 0.
    np.maximum(norms, sys.float_info.min, out=norms)
    radii = _gamma(n_rows, dimension, _hash(key, ("radius",)))
    rows *= (radii / norms / math.sqrt(dimension + 1))[:, np.newaxis]
    return rows


def standard_gumbel(size: int, key: bytes) -> np.ndarray:
    """Draw independent numbers of the Gumbel law of minima, of variance 1, not centered.

    If b pi / sqrt(6) times such numbers are added to the losses of options, each option has the
    smallest sum with a probability proportional to exp(-loss / b).
    """
    draws = np.concatenate([np.empty(0), *_fractions(size, key)])
    # The logarithm of an exponential number is a Gumbel number. The smallest sum decides, and small
    # fractions have full precision. A fraction of 1 would give an infinite number.
    np.minimum(draws, 1 - 2.0**-53, out=draws)
    np.log(-np.log1p(-draws), out=draws)
    draws *= math.sqrt(6) / math.pi
    return draws


def symmetric_normal(order: int, key: bytes) -> np.ndarray:
    """Draw a symmetric standard Gaussian matrix, isotropic in the Frobenius inner product.

    Entries have variance 1 on the diagonal and 1/2 off it: in an orthonormal basis of the symmetric
    matrices every coordinate is N(0, 1). Independent N(0, 1) in one triangle, copied to the other,
    would give the same privacy with sqrt(2) times the noise off the diagonal.
    """
    matrix = np.zeros((order, order))
    places = np.arange(order)
    matrix[places <= places[:, np.newaxis]] = standard_normal(order * (order + 1) // 2, key)
    matrix += matrix.T
    matrix *= math.sqrt(0.5)
    matrix.flat[:: order + 1] *= math.sqrt(0.5)
    return matrix


def _two_sided(
    size: int, key: bytes, lower_quantile: Callable[[np.ndarray, np.ndarray], object]
) -> np.ndarray:
    """Draw from a symmetric law by inversion of its distribution function.

    One bit of a random word of 64 bits is the sign, and 63 bits are a tail probability in (0, 1/2].
    `lower_quantile` replaces tail probabilities by negative draws. So no draw is infinite, and both
    tails are equally long.
    """
    out = np.empty(size)
    for number, words in enumerate(_words(size, key)):
        start = number * _CHUNK
        part = out[start : start + words.size]
        _to_fractions(words >> _ONE_BIT, key, ("more", start), part)
        lower_quantile(part, part)
        # The lowest bit of the word flips the sign of the draw.
        sign_bits = part.view(np.uint64)
        sign_bits ^= words << np.uint64(63)
    return out


def _gamma(size: int, shape: int, key: bytes) -> np.ndarray:
    """Draw from the gamma law of integer `shape`, as sums of `shape` exponentials."""
    sums = np.zeros(size)
    for number, fractions in enumerate(_fractions(size * shape, key)):
        # Index of the sum to which each exponential belongs.
        owners = (number * _CHUNK + np.arange(fractions.size)) // shape
        first = owners[0]
        sums[first : owners[-1] + 1] += np.bincount(owners - first, weights=-np.log(fractions))
    return sums


def _fractions(size: int, key: bytes) -> Iterator[np.ndarray]:
    """Yield `size` random fractions in (0, 1], in chunks."""
    for number, words in enumerate(_words(size, key)):
        fractions = np.empty(words.size)
        _to_fractions(words, key, ("more", number * _CHUNK), fractions)
        yield fractions


def _to_fractions(
    words: np.ndarray,
    key: bytes,
    place: tuple[Any, ...],
    out: np.ndarray,
    n_left: int = _MOST_WORDS,
) -> None:
    """Turn words of 64 random bits into fractions in (0, 1] of at least 53 bits, written to `out`.

    A single word has steps of 2 ** -64, too coarse for the small probabilities far out in a tail.
    So a word below 2 ** 53 is extended by a second word, from a stream that `key` and `place`
    determine, and so on, up to sixteen words: `n_left` of them are left. The relative error is
    2 ** -52 for fractions down to 2 ** -972, which is beyond 36.5 standard deviations. The smallest
    fraction is 2 ** -1025.
    """
    np.add(words, 0.5, out=out)
    is_short = words < _SHORT
    if n_left > 1 and np.count_nonzero(is_short):
        short = np.flatnonzero(is_short)
        rest = np.empty(short.size)
        key = _hash(key, place)
        (more,) = _words(short.size, key)
        _to_fractions(more, key, ("more",), rest, n_left - 1)
        out[short] = words[short] + rest
    out *= 2.0**-64


def _words(size: int, key: bytes) -> Iterator[np.ndarray]:
    """Yield `size` words of 64 random bits, in chunks."""
    encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    plaintext = bytes(8 * min(size, _CHUNK))
    for start in range(0, size, _CHUNK):
        chunk = encryptor.update(plaintext[: 8 * min(_CHUNK, size - start)])
        yield np.frombuffer(chunk, dtype=np.uint64)


def _hash(key: bytes, parts: Iterable[Any]) -> bytes:
    """Hash parts, each with its length, under a key."""
    state = hashlib.blake2b(key=key, digest_size=_KEY_BYTES)
    for part in parts:
        encoded = _encode(part)
        state.update(len(encoded).to_bytes(8, "little"))
        state.update(encoded)
    return state.digest()


def _encode(value: Any) -> bytes:
    """Encode a value: different values give different bytes, equal numbers of any type the same."""
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
    if isinstance(value, Mapping):
        return b"mapping " + _hash(b"", value.items())
    if isinstance(value, list) and any(isinstance(one, tuple) for one in value):
        # For two columns, bounds may be a list of a pair (low, high) for each column, or of an
        # array of low ends and an array of high ends. Both have one shape, but different meanings.
        return b"pairs " + _hash(b"", value)
    try:
        array = np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        # Not an array, such as a list of a matrix and None.
        return _encode(tuple(value))
    return f"array {array.shape} ".encode() + array.tobytes()
