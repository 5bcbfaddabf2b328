"""Masks: they cancel in the sum of all owners that were told the same, and nowhere else."""

import hashlib
import hmac
from unittest.mock import Mock

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from skdp import FederationError
from skdp.federated import _masks

WORDS = [np.dtype("<u4"), np.dtype("<u8")]
TOLD, ELSE = _masks.digest(b"one story"), _masks.digest(b"another")
SIZE = 20_000


def pairs_of(n_owners, seed=0):
    return [hashlib.sha256(b"%d %d" % (seed, i)).digest() for i in range(n_owners)]


def shared_secret(pair, public):
    return _masks.shared_secrets(pair, {0: public})[0]


def secrets_of(pairs, publics=None):
    """Secrets of each owner with all others."""
    publics = publics or list(map(_masks.public_of, pairs))
    return [
        _masks.shared_secrets(pair, {j: one for j, one in enumerate(publics) if j != i})
        for i, pair in enumerate(pairs)
    ]


def mask_by_the_book(secret, told, lower, upper, size, words):
    """HKDF of RFC 5869, and AES of counters."""
    numbers = lower.to_bytes(8, "little") + upper.to_bytes(8, "little")
    info = _masks.digest(b"skdp federated mask 1", told, numbers)
    extracted = hmac.digest(bytes(32), secret, "sha256")
    key = hmac.digest(extracted, info + b"\1", "sha256")
    blocks = b"".join(i.to_bytes(16, "big") for i in range(size * words.itemsize // 16 + 1))
    stream = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(blocks)
    return np.frombuffer(stream, words, size)


def all_masked(counts, words, told=None, seed=0, hide=_masks.masked):
    """The masked counts of all owners, each told its own story."""
    n_owners = len(counts)
    told = told or [TOLD] * n_owners
    return [
        hide(one, words, i, secrets, told[i])
        for i, (one, secrets) in enumerate(
            zip(counts, secrets_of(pairs_of(n_owners, seed)), strict=True)
        )
    ]


def assert_uniform(numbers):
    """A chi-square test of all bytes, and of how near ones follow on each other."""
    for values in (numbers.view(np.uint8), np.diff(numbers).view(np.uint8)):
        assert stats.chisquare(np.bincount(values, minlength=256)).pvalue > 1e-6


def assert_cancel(hide=_masks.masked, seed=0):
    """The sum of all owners is that of the counts, modulo the words, for extreme counts too."""
    rng = np.random.default_rng(seed)
    for words in WORDS:
        limit = 2 ** (8 * words.itemsize - 4)
        for n_owners in (1, 2, 5):
            counts = [rng.integers(-limit, limit, 100) for _ in range(n_owners)]
            total = _masks.sum_modulo(all_masked(counts, words, seed=seed, hide=hide), words)
            assert total.dtype == words.str.replace("u", "i")
            np.testing.assert_array_equal(total, np.sum(counts, axis=0))


def assert_hidden(hide=_masks.masked, seed=0):
    """Counts of 0 are uniform numbers for one owner, for all but one, and for different stories."""
    for words in WORDS:
        parts = all_masked([np.zeros(SIZE, np.int64)] * 3, words, seed=seed, hide=hide)
        for i in range(3):
            assert_uniform(parts[i])
            assert_uniform(np.sum(np.delete(parts, i, axis=0), axis=0, dtype=words))
            told = [ELSE if j == i else TOLD for j in range(3)]
            lied = all_masked([np.zeros(SIZE, np.int64)] * 3, words, told, seed, hide)
            assert_uniform(np.sum(lied, axis=0, dtype=words))
            # Nor do the answers to two stories tell anything of each other.
            assert_uniform(lied[i] - parts[i])


def assert_hidden_from_one_of_us(hide=_masks.masked, seed=0):
    """An owner that tells its secrets takes its own masks off, and no other."""
    secrets = secrets_of(pairs_of(3, seed))
    for words in WORDS:
        parts = all_masked([np.zeros(SIZE, np.int64)] * 3, words, seed=seed, hide=hide)
        for traitor in range(3):
            for i, secret in secrets[traitor].items():
                mask = mask_by_the_book(secret, TOLD, *sorted((i, traitor)), SIZE, words)
                assert_uniform(parts[i] - mask if i < traitor else parts[i] + mask)


def assert_hidden_from_copied_keys(hide=_masks.masked, seed=0):
    """A peer that signs the key of another one as its own takes no mask off."""
    pairs = pairs_of(3, seed)
    first, own = map(_masks.public_of, pairs[:2])
    secrets = secrets_of(pairs, [first, own, first])
    for words in WORDS:
        assert_uniform(hide(np.zeros(SIZE, np.int64), words, 1, secrets[1], TOLD))


LAWS = [assert_cancel, assert_hidden, assert_hidden_from_one_of_us, assert_hidden_from_copied_keys]


@pytest.mark.parametrize("law", LAWS)
def test_laws_of_masks(law):
    law()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 51))
@pytest.mark.parametrize("law", LAWS)
def test_laws_of_masks_for_many_keys(law, seed):
    law(seed=seed)


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("words", WORDS)
def test_masks_are_those_of_the_book(words, size):
    # Versions or machines that have others cannot take part in one fit.
    secrets, counts = secrets_of(pairs_of(4))[2], np.arange(-2, size - 2)
    part = _masks.masked(counts, words, 2, secrets, TOLD)
    assert (part.dtype, part.shape) == (words, counts.shape)
    expected = counts.astype(words)
    for i, sign_of_mask in ((0, -1), (1, -1), (3, 1)):
        mask = mask_by_the_book(secrets[i], TOLD, *sorted((i, 2)), size, words)
        expected += mask if sign_of_mask > 0 else -mask
    np.testing.assert_array_equal(part, expected)


def test_masks_differ_by_story_and_numbers():
    secret = shared_secret(pairs_of(1)[0], _masks.public_of(pairs_of(2)[1]))
    found = {
        _masks.masked(
            np.zeros(8, np.int64), WORDS[0], 0, dict.fromkeys(range(1, n), secret), told
        ).tobytes()
        for n in (2, 3, 4)
        for told in (TOLD, ELSE)
    }
    assert len(found) == 6


# ---- the ring of neighbors


def graph_of(n_owners, count, seed):
    """Who shares masks with whom, as the owners compute it."""
    key = _masks.digest(b"%d" % seed)
    graph = np.zeros((n_owners, n_owners), bool)
    for number in range(n_owners):
        neighbors = _masks.neighbors_of(key, number, n_owners, count)
        assert len(set(neighbors)) == count
        assert number not in neighbors
        graph[number, neighbors] = True
    return graph


def n_parts(graph, is_gone):
    """Into how many parts owners fall whose others are gone."""
    left = graph[np.ix_(~is_gone, ~is_gone)]
    return connected_components(csr_array(left))[0]


@pytest.mark.parametrize(("n_owners", "count"), [(3, 2), (51, 50), (52, 50), (120, 50), (301, 52)])
def test_neighbors_are_mutual_and_alike_for_all(n_owners, count):
    graph = graph_of(n_owners, count, 0)
    np.testing.assert_array_equal(graph, graph.T)
    assert (graph.sum(axis=0) == count).all()
    if n_owners > count + 1:
        assert (graph != graph_of(n_owners, count, 1)).any()


@pytest.mark.parametrize("n_owners", [2, 3, 50, 51, 52, 53, 200, 1000])
@pytest.mark.parametrize("part", [0.0, 0.02, 0.1, 0.5, 0.99])
def test_neighbors_are_more_than_may_collude(n_owners, part):
    colluding = int(part * (n_owners - 1))
    count = _masks.n_neighbors(n_owners, colluding)
    assert count == n_owners - 1 or (count % 2 == 0 and count >= 50 and count > colluding)
    assert count <= n_owners - 1


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("n_owners", "count"), [(26, 6), (30, 4)])
def test_fewer_than_that_never_isolate_anybody(n_owners, count, seed):
    """Whoever chooses them, knowing the order: next to each other, or on two sides of others."""
    graph, rng = graph_of(n_owners, count, seed), np.random.default_rng(seed)
    order = np.argsort(np.frombuffer(stream_of(seed, n_owners), "<u8"), kind="stable")
    for start in range(n_owners):
        for gap in range(1, n_owners - count):
            for more in range(count):
                # Two runs of owners, of count - 1 in all.
                places = [*range(start, start + more)]
                places += range(start + more + gap, start + gap + count - 1)
                is_gone = np.zeros(n_owners, bool)
                is_gone[order[np.array(places, int) % n_owners]] = True
                if gap % 7 == start % 7:
                    assert n_parts(graph, is_gone) == 1
    for _ in range(200):
        is_gone = np.zeros(n_owners, bool)
        is_gone[rng.choice(n_owners, count - 1, replace=False)] = True
        assert n_parts(graph, is_gone) == 1
    # As many as there are neighbors do isolate an owner, who is known to be one of theirs.
    assert n_parts(graph, graph[3]) == 2


def stream_of(seed, n_owners):
    key = _masks.digest(b"skdp federated ring 1", _masks.digest(b"%d" % seed))
    blocks = b"".join(i.to_bytes(16, "big") for i in range(n_owners // 2 + 1))
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(blocks)[: 8 * n_owners]


def test_more_than_that_isolate_somebody_as_rarely_as_the_bound_says():
    """s ** 2 / 2 * (c / s) ** k, for owners that are chosen before the order is known."""
    n_owners, count, n_gone, n_tries = 60, 6, 25, 100
    rng, n_apart = np.random.default_rng(0), 0
    for seed in range(n_tries):
        is_gone = np.zeros(n_owners, bool)
        is_gone[rng.choice(n_owners, n_gone, replace=False)] = True
        n_apart += n_parts(graph_of(n_owners, count, seed), is_gone) > 1
    bound = n_owners**2 / 2 * (n_gone / n_owners) ** count
    assert 0 < n_apart / n_tries <= bound


def test_masks_of_a_ring_cancel_and_no_fewer_owners_do():
    n_owners, count = 60, 6
    pairs = pairs_of(n_owners)
    publics = list(map(_masks.public_of, pairs))
    seed = _masks.digest(*publics)
    masked = []
    for i, pair in enumerate(pairs):
        neighbors = _masks.neighbors_of(seed, i, n_owners, count)
        secrets = _masks.shared_secrets(pair, {j: publics[j] for j in neighbors})
        masked.append(_masks.masked(np.full(500, i), WORDS[1], i, secrets, TOLD))
    expected = sum(range(n_owners))
    np.testing.assert_array_equal(_masks.sum_modulo(masked, WORDS[1]), np.full(500, expected))
    for left in (np.arange(59), np.arange(0, 60, 2), [5], [4, 9, 30]):
        assert_uniform(np.sum([masked[i] for i in left], axis=0, dtype=WORDS[1]))


@pytest.mark.parametrize("words", WORDS)
def test_sums_have_their_sign_and_wrap(words):
    half = 2 ** (8 * words.itemsize - 1)
    parts = [np.array([half - 1, half, 2 * half - 1], words), np.array([0, 0, 2], words)]
    np.testing.assert_array_equal(_masks.sum_modulo(parts, words), [half - 1, -half, 1])
    wrapped = [np.array([half - 1], words), np.array([1], words)]
    np.testing.assert_array_equal(_masks.sum_modulo(wrapped, words), [-half])


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [np.zeros(2, "<u4"), np.zeros(3, "<u4")],
        [np.zeros(2, "<u4"), np.zeros(1, "<u4")],  # would be broadcast
        [np.zeros(2, "<u4"), np.zeros(2, "<u8")],
        [np.zeros(2, "<i4"), np.zeros(2, "<i4")],
    ],
)
def test_sums_of_other_words_or_shapes_are_refused(parts):
    with pytest.raises(FederationError, match="another type or size"):
        _masks.sum_modulo(parts, WORDS[0])


def test_digests_tell_parts_apart():
    lists = [(), (b"",), (b"", b""), (b"ab",), (b"a", b"b"), (b"", b"ab"), (b"ab", b"")]
    # The length of a part cannot be imitated by its neighbor.
    lists += [((2).to_bytes(8, "little") + b"ab",), (b"b", b"a")]
    assert len({_masks.digest(*parts) for parts in lists}) == len(lists)
    written = (1).to_bytes(8, "little") + b"a" + bytes(8) + (2).to_bytes(8, "little") + b"bc"
    assert _masks.digest(b"a", b"", b"bc") == hashlib.sha256(written).digest()


IDENTITY, OTHER = (Ed25519PrivateKey.from_private_bytes(bytes([i]) * 32) for i in range(2))


def is_signed(identity, *of):
    return _masks.is_signed(identity.public_key().public_bytes_raw(), *of)


def test_signatures_are_taken():
    signature = _masks.sign(IDENTITY, b"keys", b"a", b"b")
    assert is_signed(IDENTITY, signature, b"keys", b"a", b"b")


def flipped(data, bit):
    return (int.from_bytes(data, "little") ^ (1 << bit)).to_bytes(len(data), "little")


@pytest.mark.parametrize(
    ("identity", "purpose", "parts"),
    [
        (OTHER, b"keys", (b"a", b"b")),
        (IDENTITY, b"confirm", (b"a", b"b")),
        (IDENTITY, b"keys", (b"ab",)),
        (IDENTITY, b"keys", (b"ab", b"")),
        (IDENTITY, b"keys", (b"b", b"a")),
        (IDENTITY, b"keys", (b"a", b"b", b"")),
        (IDENTITY, b"keysa", (b"b",)),
        (IDENTITY, b"", (b"keys", b"a", b"b")),
    ],
)
def test_signatures_of_others_are_refused(identity, purpose, parts):
    signature = _masks.sign(identity, purpose, *parts)
    assert is_signed(identity, signature, purpose, *parts)
    assert not is_signed(IDENTITY, signature, b"keys", b"a", b"b")


def test_changed_signatures_are_refused():
    signature = _masks.sign(IDENTITY, b"keys", b"a")
    changed = [flipped(signature, bit) for bit in range(8 * 64)]
    for one in [*changed, b"", signature[:-1], signature + b"\0", bytes(64)]:
        assert not is_signed(IDENTITY, one, b"keys", b"a")


def test_a_signature_of_the_bare_digest_stands_for_nothing():
    # What an identity signs elsewhere cannot be a message of a federation.
    signature = IDENTITY.sign(_masks.digest(b"keys", b"a"))
    assert not is_signed(IDENTITY, signature, b"keys", b"a")


def test_two_owners_share_one_secret():
    one, two = _masks.new_key(), _masks.new_key()
    secret = shared_secret(one, _masks.public_of(two))
    assert secret == shared_secret(two, _masks.public_of(one))
    assert len(secret) == 32
    assert secret != shared_secret(_masks.new_key(), _masks.public_of(one))


PRIME = 2**255 - 19
# All points of order at most 8, on the curve and its twist, and their other spellings.
LOW_ORDER = [
    0,
    1,
    PRIME - 1,
    PRIME,
    PRIME + 1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
]


@pytest.mark.covered
@pytest.mark.parametrize("high_bit", [0, 1])
@pytest.mark.parametrize("point", LOW_ORDER)
def test_points_of_low_order_are_refused(point, high_bit):
    public = (point | high_bit << 255).to_bytes(32, "little")
    for pair in pairs_of(3):
        with pytest.raises(FederationError, match="no valid key of X25519"):
            shared_secret(pair, public)


def test_a_secret_of_zeros_is_refused_whoever_agrees_to_it(monkeypatch):
    public, agreeing = _masks.public_of(_masks.new_key()), Mock()
    agreeing.from_private_bytes.return_value.exchange.return_value = bytes(32)
    monkeypatch.setattr("skdp.federated._masks.X25519PrivateKey", agreeing)
    with pytest.raises(FederationError, match="no valid key of X25519"):
        shared_secret(bytes(32), public)


@pytest.mark.parametrize("size", [0, 31, 33, 64])
def test_keys_of_another_size_are_refused(size):
    with pytest.raises(FederationError, match="no valid key of X25519"):
        shared_secret(_masks.new_key(), bytes(range(1, size + 1)))


def test_no_error_tells_a_key():
    with pytest.raises(FederationError) as caught:
        shared_secret(_masks.new_key(), b"secret")
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


def test_each_pair_is_new():
    assert len({_masks.new_key() for _ in range(20)}) == 20
