import hashlib
import inspect
import math
import pickle
import tracemalloc

import numpy as np
import pytest
from scipy import stats

from skdp.privacy import noise
from skdp.privacy.noise import (
    NoiseSource,
    algorithm_generator,
    derived_seed,
    draw_seed,
    may_be_guessed,
    spherical_laplace,
    standard_normal,
    symmetric_normal,
)

CHUNK = 2**15
SECRET = 2**127 + 12345


def make_key(number):
    return hashlib.sha256(b"%d" % number).digest()


@pytest.fixture(scope="module")
def draws():
    return standard_normal(4_000_000, make_key(0))


def test_draws_follow_the_normal_law(draws):
    assert stats.kstest(draws[:1_000_000], "norm").pvalue > 1e-3
    assert abs(draws.mean()) < 4 / math.sqrt(draws.size)
    assert abs(draws.var() - 1) < 4 * math.sqrt(2 / draws.size)


@pytest.mark.parametrize("level", [3.0, 4.0, 4.5])
def test_both_tails_are_as_heavy_as_normal_ones(draws, level):
    expected = draws.size * stats.norm.sf(level)
    for exceeding in ((draws > level).sum(), (draws < -level).sum()):
        assert abs(exceeding - expected) < 4 * math.sqrt(expected)


def test_draws_are_finite_symmetric_and_distinct(draws):
    assert np.isfinite(draws).all()
    assert abs((draws > 0).sum() - draws.size / 2) < 4 * math.sqrt(draws.size) / 2
    # Of 63 random bits not two should agree; 4e6 draws from 2 ** 32 values would collide.
    assert np.unique(draws).size == draws.size


def test_neighboring_draws_are_independent(draws):
    sample = draws[:1_000_000]
    for lag in (1, 2, 3, 64, CHUNK):
        first, second = sample[:-lag], sample[lag:]
        for transform in (lambda x: x, np.abs, np.sign):
            correlation = np.corrcoef(transform(first), transform(second))[0, 1]
            assert abs(correlation) < 4.5 / math.sqrt(first.size)


def test_the_sign_is_independent_of_the_size(draws):
    sample = draws[:1_000_000]
    assert stats.ks_2samp(sample[sample > 0], -sample[sample < 0]).pvalue > 1e-3


@pytest.mark.parametrize("byte", [b"\x00", b"\xff", b"\x80", b"\x01"])
def test_the_ends_of_the_stream_give_finite_draws(monkeypatch, byte):
    class ConstantCipher:
        def __init__(self, *args):
            pass

        def encryptor(self):
            return self

        def update(self, plaintext):
            return byte * len(plaintext)

    monkeypatch.setattr(noise, "Cipher", ConstantCipher)
    draws = standard_normal(10, make_key(0))
    assert np.isfinite(draws).all()
    assert np.abs(draws).max() < 37.6
    for dimension in (1, 2, 50):
        assert np.isfinite(spherical_laplace(10, dimension, make_key(0))).all()
    if byte == b"\x00":
        # Sixteen words, and half of what would follow.
        np.testing.assert_allclose(np.abs(draws), 37.57, atol=0.01)
        laplace = spherical_laplace(10, 1, make_key(0)) * math.sqrt(2)
        np.testing.assert_allclose(np.abs(laplace), 1024 * math.log(2))
        np.testing.assert_allclose(noise._gamma(10, 3, make_key(0)), 3 * 1025 * math.log(2))


@pytest.mark.parametrize("size", [0, 1, 7, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5])
def test_shorter_draws_are_the_start_of_longer_ones(size):
    key = make_key(1)
    assert standard_normal(size, key).shape == (size,)
    np.testing.assert_array_equal(
        standard_normal(size, key), standard_normal(4 * CHUNK, key)[:size]
    )


def test_different_keys_give_independent_draws():
    key = make_key(2)
    one_bit_away = bytes([key[0] ^ 1]) + key[1:]
    first, second = (standard_normal(100_000, k) for k in (key, one_bit_away))
    assert abs(np.corrcoef(first, second)[0, 1]) < 4.5 / math.sqrt(first.size)


@pytest.fixture(scope="module")
def matrices():
    return np.stack([symmetric_normal(5, make_key(i)) for i in range(2500)])


def test_symmetric_noise_is_exactly_symmetric(matrices):
    np.testing.assert_array_equal(matrices, matrices.transpose(0, 2, 1))
    large = symmetric_normal(301, make_key(3))
    np.testing.assert_array_equal(large, large.T)


def test_symmetric_noise_is_isotropic(matrices):
    generator = np.random.default_rng(0)
    directions = generator.normal(size=(20, 5, 5))
    directions += directions.transpose(0, 2, 1)
    directions /= np.linalg.norm(directions, axis=(1, 2), keepdims=True)
    for direction in directions:
        coordinates = np.einsum("nij,ij->n", matrices, direction)
        assert stats.kstest(coordinates, "norm").pvalue > 1e-4


def test_coordinates_of_symmetric_noise_in_an_orthonormal_basis_are_independent(matrices):
    rows, columns = np.tril_indices(5)
    scales = np.where(rows == columns, 1.0, math.sqrt(2))
    covariance = np.cov(matrices[:, rows, columns] * scales, rowvar=False)
    assert np.abs(covariance - np.eye(len(rows))).max() < 5 * math.sqrt(2 / len(matrices))


def test_rows_of_one_entry_follow_the_laplace_law():
    draws = spherical_laplace(1_000_000, 1, make_key(4)).ravel()
    law = stats.laplace(scale=math.sqrt(0.5))
    assert stats.kstest(draws, law.cdf).pvalue > 1e-5
    assert abs(draws.var() - 1) < 4 * math.sqrt(5 / draws.size)
    for level in (4.0, 6.0):
        expected = draws.size * law.sf(level)
        for exceeding in ((draws > level).sum(), (draws < -level).sum()):
            assert abs(exceeding - expected) < 4 * math.sqrt(expected)
    assert np.unique(draws).size > draws.size - 5


@pytest.mark.parametrize("dimension", [2, 3, 10, 300])
def test_rows_have_gamma_lengths_and_uniform_directions(dimension):
    rows = spherical_laplace(600_000 // dimension, dimension, make_key(dimension))
    lengths = np.linalg.norm(rows, axis=1)
    radii = stats.gamma(dimension, scale=1 / math.sqrt(dimension + 1))
    assert stats.kstest(lengths, radii.cdf).pvalue > 1e-5
    # The square of one coordinate of a uniform direction has a beta law.
    directions = rows / lengths[:, np.newaxis]
    share = stats.beta(0.5, (dimension - 1) / 2)
    fixed = np.random.default_rng(0).normal(size=dimension)
    for coordinate in (directions[:, 0], directions @ fixed / np.linalg.norm(fixed)):
        assert stats.kstest(coordinate**2, share.cdf).pvalue > 1e-5
        assert abs((coordinate > 0).mean() - 0.5) < 4 * 0.5 / math.sqrt(len(rows))
        assert abs(np.corrcoef(coordinate**2, lengths)[0, 1]) < 4.5 / math.sqrt(len(rows))


def test_rows_of_spherical_noise_are_independent():
    rows = spherical_laplace(200_000, 2, make_key(6))
    lengths = np.linalg.norm(rows, axis=1)
    for lag in (1, 2, CHUNK // 2):
        for series in (rows[:, 0], lengths):
            assert abs(np.corrcoef(series[:-lag], series[lag:])[0, 1]) < 4.5 / math.sqrt(len(rows))


@pytest.mark.parametrize(
    ("size", "shape"), [(5, 3), (1, CHUNK), (3, CHUNK - 1), (40_000, 3), (2, 3 * CHUNK + 1), (4, 0)]
)
def test_sums_of_exponentials_do_not_depend_on_chunks(size, shape):
    words = np.concatenate([np.empty(0, np.uint64), *noise._words(size * shape, make_key(7))])
    exponentials = -np.log((words + 0.5) / 2.0**64)
    sums = noise._gamma(size, shape, make_key(7))
    np.testing.assert_allclose(sums, exponentials.reshape(size, shape).sum(axis=1), rtol=1e-12)


def test_length_and_direction_share_no_bits(monkeypatch):
    keys = []
    words = noise._words
    monkeypatch.setattr(noise, "_words", lambda size, key: keys.append(key) or words(size, key))
    key = make_key(8)
    spherical_laplace(3, 2, key)
    assert len({key, *keys}) == 3


@pytest.mark.parametrize("shape", [(1, 1), (7, 1), (1, 7), (2 * CHUNK, 3), (0, 3), (3, 0)])
def test_spherical_noise_is_that_of_its_key(shape):
    first, again, other = (spherical_laplace(*shape, make_key(i)) for i in (9, 9, 10))
    assert first.shape == shape
    np.testing.assert_array_equal(first, again)
    assert not np.isin(first, other).any()


def test_one_large_row_of_spherical_noise_takes_no_large_temporaries():
    tracemalloc.start()
    row = spherical_laplace(1, 1_000_000, make_key(11))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < row.nbytes + 100 * CHUNK
    # The length of so many entries hardly varies: by one part in a thousand.
    assert np.linalg.norm(row) == pytest.approx(1000, rel=5e-3)


def test_fresh_source_gives_a_new_key_for_every_call():
    source = NoiseSource()
    np.random.seed(0)  # noqa: NPY002 - the global generator must make no difference
    first = {source.key(1, "sum", "gaussian", 1.0, (3,)) for _ in range(50)}
    np.random.seed(0)  # noqa: NPY002
    second = {NoiseSource(None, ("context",)).key(1, "sum", "gaussian", 1.0, (3,)) for _ in "ab"}
    assert len(first | second) == 52
    assert source.fingerprint is None


def test_seeded_source_is_deterministic_and_changes_with_everything_it_is_told():
    seed, context = SECRET, ("DPPCA", (("epsilon", 1.0), ("center", None)), b"digest")
    release = (1, "sum", "gaussian", 0.5, (3,))
    key = NoiseSource(seed, context).key(*release)
    assert key == NoiseSource(seed, context).key(*release)
    assert NoiseSource(seed).fingerprint is not None
    others = [
        NoiseSource(seed + 1, context).key(*release),
        NoiseSource(seed, ("DPTruncatedSVD", *context[1:])).key(*release),
        NoiseSource(seed, (context[0], (("epsilon", 2.0), ("center", None)), b"digest")).key(
            *release
        ),
        NoiseSource(seed, (*context[:2], b"other digest")).key(*release),
        NoiseSource(seed, context[:2]).key(*release),
        NoiseSource(seed, context).key(2, "sum", "gaussian", 0.5, (3,)),
        NoiseSource(seed, context).key(1, "mean", "gaussian", 0.5, (3,)),
        NoiseSource(seed, context).key(1, "sum", "symmetric_gaussian", 0.5, (3,)),
        NoiseSource(seed, context).key(1, "sum", "gaussian", np.nextafter(0.5, 1), (3,)),
        NoiseSource(seed, context).key(1, "sum", "gaussian", 0.5, (3, 1)),
    ]
    assert len({key, *others}) == 1 + len(others)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (1, 1.0),
        (1, np.int64(1)),
        (0.1, np.float64(0.1)),
        (0.0, -0.0),
        (1e300, int(1e300)),
        (True, np.True_),
        (np.array([1, 2]), [1.0, 2.0]),
        (("a", 1), ("a", 1.0)),
    ],
)
def test_equal_values_give_equal_keys(first, second):
    assert NoiseSource(SECRET, (first,)).key() == NoiseSource(SECRET, (second,)).key()


def test_different_values_give_different_keys():
    contexts = [
        (),
        ((),),
        (None,),
        ("None",),
        (True,),
        (False,),
        (1,),
        ("1",),
        (b"1",),
        ("True",),
        (0,),
        (b"",),
        ("",),
        ("", ""),
        (0.1,),
        (np.float32(0.1),),
        (math.inf,),
        (-math.inf,),
        ("inf",),
        ("number 1",),
        ("a", "b"),
        ("atext b",),
        ("ab", "c"),
        ("a", "bc"),
        (("a", "b"), "c"),
        ("a", ("b", "c")),
        (("a", "b", "c"),),
        ("a", "b", "c"),
        ((("a",), "b", "c"),),
        (np.array([1.0]),),
        (np.array([[1.0]]),),
        (np.array([1.0, 2.0]),),
        (np.array([2.0, 1.0]),),
        (1.0, 2.0),
        ((1.0, 2.0),),
    ]
    keys = {NoiseSource(SECRET, context).key() for context in contexts}
    assert len(keys) == len(contexts)


def test_none_is_fresh_entropy_whatever_the_global_generator():
    np.random.seed(0)  # noqa: NPY002 - the global generator must be neither read nor moved
    before = np.random.get_state()[1:]  # noqa: NPY002
    assert draw_seed(None) is None
    NoiseSource(draw_seed(None)).key("sum")
    fresh = [algorithm_generator(None).normal() for _ in range(2)]
    after = np.random.get_state()[1:]  # noqa: NPY002
    assert fresh[0] != fresh[1]
    np.testing.assert_array_equal(before[0], after[0])
    assert before[1:] == after[1:]


@pytest.mark.parametrize("seed", [0, 42, np.int64(7), 2**128 - 1])
def test_int_is_its_own_seed(seed):
    assert draw_seed(seed) == int(seed)
    assert type(draw_seed(seed)) is int


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng])
def test_instance_gives_128_bits_which_differ_from_call_to_call(make):
    instance = make(0)
    seeds = [draw_seed(instance) for _ in range(20)]
    assert len(set(seeds)) == 20
    assert seeds == [draw_seed(again) for again in [make(0)] for _ in range(20)]
    assert max(seed.bit_length() for seed in seeds) in (127, 128)


def test_algorithm_generator_is_reproducible_and_differs_between_seeds():
    first, same, other = (algorithm_generator(s).normal(size=50) for s in (SECRET, SECRET, 5))
    np.testing.assert_array_equal(first, same)
    assert not np.isin(first, other).any()
    # It can not be keyed by data, for it is given none.
    assert list(inspect.signature(algorithm_generator).parameters) == ["seed"]


def test_algorithm_generator_and_fingerprint_share_no_bits_with_the_noise(monkeypatch):
    labels = []
    monkeypatch.setattr(noise, "_hash", lambda key, parts: labels.append(tuple(parts)) or bytes(32))
    algorithm_generator(SECRET)
    NoiseSource(SECRET)
    assert len(set(labels)) == 3


@pytest.mark.parametrize(
    ("random_state", "is_guessable"),
    [
        (None, False),
        (2**64, False),
        (2**128 - 1, False),
        (2**64 - 1, True),
        (np.uint64(2**64 - 1), True),
        (0, True),
        (np.random.default_rng(0), True),
        (np.random.RandomState(SECRET % 2**32), True),
    ],
)
def test_what_may_be_guessed_stays_so(random_state, is_guessable):
    assert may_be_guessed(random_state) == is_guessable
    seed = draw_seed(random_state)
    assert NoiseSource(seed).is_guessable == is_guessable
    if seed is not None:
        derived = derived_seed(seed, "fit")
        assert derived >= 2**64
        for one in (derived, draw_seed(derived), pickle.loads(pickle.dumps(derived))):
            assert NoiseSource(one).is_guessable == is_guessable
            assert NoiseSource(one).key() == NoiseSource(int(derived)).key()


def test_a_fingerprint_tells_equal_seeds_and_not_which():
    assert NoiseSource(SECRET).fingerprint == NoiseSource(SECRET, ("other fit",)).fingerprint
    fingerprints = {NoiseSource(SECRET + i).fingerprint for i in range(100)}
    assert len(fingerprints) == 100
    assert f"{SECRET:x}" not in fingerprints
