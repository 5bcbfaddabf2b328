"""Streams of updates: the same sums in whatever pieces, and what is refused."""

import copy
import pickle
from functools import partial
from unittest.mock import patch

import numpy as np
import pytest
from low_rank import LOW_RANK
from scipy import sparse
from stream_cells import CELLS, CONTINUAL_CELLS, SHAPE, Cell, sums_of, watched

from skdp import DPContinualFactorizer, DPStreamingFactorizer, LowRankFactors, PrivacyWarning
from skdp.decomposition.streams.base import BaseStream
from skdp.units import Edge, Entry, FrobeniusChange, Update

quiet = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
pytestmark = quiet
generator = np.random.default_rng(0)
N = 300
ROWS, COLUMNS = (generator.integers(side, size=N) for side in SHAPE)
VALUES = generator.normal(size=N) * 10.0 ** generator.integers(-6, 3, size=N)


def in_one_batch(stream):
    stream.update(ROWS, COLUMNS, VALUES)


def one_by_one(stream):
    for row, column, value in zip(ROWS.tolist(), COLUMNS.tolist(), VALUES.tolist(), strict=True):
        stream.update(row, column, value)


def one_by_one_as_numpy_has_them(stream):
    for row, column, value in zip(ROWS, COLUMNS, VALUES, strict=True):
        stream.update(row, column, value)


def in_shuffled_batches(stream):
    order = np.random.default_rng(1).permutation(N)
    for part in np.array_split(order, 7):
        stream.update(ROWS[part].tolist(), COLUMNS[part].astype(np.uint8), VALUES[part])


def in_shards(stream):
    shards = [stream.shard(), stream.shard(allow_pickle=True)]
    shards[1] = pickle.loads(pickle.dumps(shards[1]))
    for shard, part in zip(shards, np.array_split(np.arange(N), 2), strict=True):
        shard.update(ROWS[part], COLUMNS[part], VALUES[part])
    for shard in shards:
        stream.merge(shard)


@pytest.mark.covered(at_most=6)
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_the_sums_are_the_same_to_the_last_bit(cell):
    expected, _ = sums_of(cell, in_one_batch)
    assert np.any(expected[0])
    for feed in (one_by_one, one_by_one_as_numpy_has_them, in_shuffled_batches, in_shards):
        for sums, other in zip(sums_of(cell, feed)[0], expected, strict=True):
            np.testing.assert_array_equal(sums, other)


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_rows_are_updates_of_their_cells(cell):
    X = np.random.default_rng(2).normal(size=SHAPE) * (np.random.default_rng(3).random(SHAPE) < 0.6)
    places = np.nonzero(X)
    expected, _ = sums_of(cell, lambda stream: stream.update(*places, X[places]))
    feeds = [
        lambda stream: stream.partial_fit(X),
        lambda stream: stream.partial_fit(X[:5]).partial_fit(sparse.csr_array(X[5:])),
        lambda stream: [stream.partial_fit(row[None]) for row in X],
    ]
    for feed in feeds:
        for sums, other in zip(sums_of(cell, feed)[0], expected, strict=True):
            np.testing.assert_array_equal(sums, other)


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell.unit != "update"], ids=str)
def test_what_is_withdrawn_is_gone_whatever_its_size(cell):
    def feed(stream):
        stream.update([1, 2, 3, 4], [0, 0, 0, 1], [1e300, -3e17, 5e-324, 0.5])
        stream.update([1, 2, 3], [0, 0, 0], [-1e300, 3e17, -5e-324])

    for sums, other in zip(
        sums_of(cell, feed)[0], sums_of(cell, lambda s: s.update(4, 1, 0.5))[0], strict=True
    ):
        np.testing.assert_array_equal(sums, other)


@pytest.mark.parametrize("sketch", ["haar", "countsketch"])
@pytest.mark.parametrize("shape", [(60, 20), (20, 60)], ids=str)
def test_without_noise_a_matrix_of_low_rank_is_found(sketch, shape):
    X = LOW_RANK if shape[0] > shape[1] else LOW_RANK.T
    for unit in (Update(2.0), Entry((-2, 2)), FrobeniusChange(1.0)):
        stream = DPStreamingFactorizer(
            3, shape=shape, privacy_unit=unit, sketch=sketch, epsilon=np.inf
        )
        factors = stream.partial_fit(X).finalize()
        np.testing.assert_allclose(factors.reconstruct(), X, atol=1e-3)
        np.testing.assert_allclose(factors.singular_values_, [9, 6, 3], rtol=1e-3)


def test_an_end_is_an_end():
    stream = DPStreamingFactorizer(2, shape=(60, 20), privacy_unit=Update(1.0), epsilon=50.0)
    shard = stream.shard()
    with pytest.warns(UserWarning, match="The factors lack the updates of 1 of 1 shards"):
        factors = stream.partial_fit(LOW_RANK).finalize()
    assert stream.finalize() is factors
    calls = (
        lambda: stream.update(0, 0, 1.0),
        lambda: stream.update([0], [0], [1.0]),
        lambda: stream.partial_fit(LOW_RANK),
        stream.shard,
        lambda: stream.merge(shard),
    )
    for call in calls:
        with pytest.raises(ValueError, match="no more updates"):
            call()
    again = pickle.loads(pickle.dumps(stream)).finalize()
    np.testing.assert_array_equal(again.components_, factors.components_)
    assert copy.copy(stream).finalize() is factors


def test_released_factors_do_what_those_of_an_estimator_do():
    stream = DPStreamingFactorizer(2, shape=(60, 20), privacy_unit=Update(1.0), epsilon=50.0)
    factors = stream.partial_fit(LOW_RANK).finalize()
    assert isinstance(factors, LowRankFactors)
    V = factors.components_.T
    np.testing.assert_allclose(factors.transform(LOW_RANK), LOW_RANK @ V)
    np.testing.assert_allclose(factors.inverse_transform(LOW_RANK @ V), LOW_RANK @ V @ V.T)
    assert factors.score(LOW_RANK) == pytest.approx(-np.mean((LOW_RANK - LOW_RANK @ V @ V.T) ** 2))
    assert factors.reconstruct([1], slice(3)).shape == (1, 3)
    assert factors.privacy_spent_ is stream.privacy_spent_
    assert factors.privacy_spent_.epsilon_at(1e-6) == pytest.approx(50.0)
    assert repr(factors) == "LowRankFactors(shape=(60, 20), n_components=2)"
    with pytest.raises(AttributeError):
        factors.components_ = V


def test_shards_are_of_one_stream_and_merged_once():
    stream, other = (DPStreamingFactorizer(shape=SHAPE, privacy_unit=Update(1.0)) for _ in range(2))
    shard, foreign = stream.shard(allow_pickle=True), other.shard()
    copied = pickle.loads(pickle.dumps(shard))
    stream.merge(shard)
    for again in (shard, copied):
        with pytest.raises(ValueError, match="merged already"):
            stream.merge(again)
    for strange in (foreign, other):
        with pytest.raises(ValueError, match="this very stream"):
            stream.merge(strange)
    with pytest.raises(ValueError, match="no more updates"):
        shard.update(0, 0, 1.0)
    assert not hasattr(foreign, "finalize")
    for view in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="merged once"):
            view(foreign)
    with pytest.raises(TypeError, match="neither copied nor pickled"):
        pickle.dumps(foreign)


BAD = {
    "a negative row": ([-1], [0], [1.0]),
    "a row too many": ([SHAPE[0]], [0], [1.0]),
    "one cell too far": (SHAPE[0] - 1, SHAPE[1], 12.345),
    "a negative cell": (-1, 0, 12.345),
    "a float as an index": ([1.0], [0], [1.0]),
    "no numbers": ([0], [0], ["12.345"]),
    "complex numbers": ([0], [0], [12.345j]),
    "a number too large": ([0], [0], [10**400]),
    "another number too large": (0, 0, 10**400),
    "missing": ([0, 1], [0, 0], [12.345, np.nan]),
    "one missing": (0, 0, np.nan),
    "infinite": (0, 0, -np.inf),
    "too few": ([0, 1], [0], [1.0, 2.0]),
    "two dimensions": ([[0]], [[0]], [[1.0]]),
    "a row with one value too few": ([0, 1], [0, 1], 1.0),
}


@pytest.mark.covered
@pytest.mark.parametrize("cell", [CELLS[0], CELLS[3], CONTINUAL_CELLS[0]], ids=str)
@pytest.mark.parametrize("updates", BAD.values(), ids=BAD)
def test_bad_updates_are_refused_and_change_nothing(cell, updates):
    with watched():
        stream = cell()
        before = [counts.counts.copy() for counts in stream._noisy_sums]
        with pytest.raises(ValueError, match=r"rows|values") as refused:
            stream.update(*updates)
        assert "12.345" not in str(refused.value)
        assert refused.value.__context__ is None
        for counts, sums in zip(stream._noisy_sums, before, strict=True):
            np.testing.assert_array_equal(counts.counts, sums)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.ones((2, 8)), "columns"),
        (np.ones((15, 9)), "rows"),
        (np.full((1, 9), np.nan), "NaN"),
        (np.ones(9), "2D"),
    ],
    ids=["columns", "rows", "missing", "one dimension"],
)
def test_bad_rows_are_refused_and_change_nothing(rows, message):
    with watched():
        stream = CELLS[0]()
        stream.partial_fit(np.ones((1, 9)))
        before = stream._noisy_sums[0].counts.copy()
        with pytest.raises(ValueError, match=message):
            stream.partial_fit(rows)
        np.testing.assert_array_equal(stream._noisy_sums[0].counts, before)
        stream.partial_fit(np.ones((13, 9)))
        with pytest.raises(ValueError, match="after 14 others"):
            stream.partial_fit(np.ones((1, 9)))


WRONG = [
    ({"shape": (3,)}, "shape"),
    ({"shape": (3, 0)}, "shape"),
    ({"shape": 7}, "shape"),
    ({"n_components": 10}, "n_components=10"),
    ({"n_components": 0}, "n_components"),
    ({"delta": 0.0}, "delta"),
    ({"epsilon": -1.0}, "epsilon"),
    ({"privacy_unit": "row"}, "privacy_unit"),
    ({"privacy_unit": "update"}, "Update"),
    ({"privacy_unit": Edge((0, 1))}, "Update, Entry, FrobeniusChange"),
    ({"privacy_unit": Update(np.inf)}, "bound"),
    ({"privacy_unit": Update(0.0)}, "bound"),
    ({"sketch": "gaussian"}, "sketch"),
    ({"n_sketch": 0}, "n_sketch"),
    ({"sketch_sensitivity": "high_probability"}, "FrobeniusChange"),
]


@pytest.mark.parametrize(("parameters", "message"), WRONG, ids=str)
def test_wrong_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        DPStreamingFactorizer(**{"shape": SHAPE, "privacy_unit": Update(1.0), **parameters})


def test_a_continual_stream_refuses_what_it_cannot_protect():
    with pytest.raises(ValueError, match="Update, FrobeniusChange"):
        DPContinualFactorizer(shape=SHAPE, horizon=3, privacy_unit=Entry((0, 1)))
    with pytest.raises(ValueError, match="horizon"):
        DPContinualFactorizer(shape=SHAPE, horizon=0, privacy_unit=Update(1.0))
    with pytest.raises(TypeError):
        DPContinualFactorizer(
            shape=SHAPE, horizon=3, privacy_unit=Update(1.0), sketch_sensitivity="auto"
        )


def test_every_epoch_is_factorized():
    stream = DPContinualFactorizer(
        3, shape=(60, 20), horizon=4, privacy_unit=Update(1.0), epsilon=np.inf, random_state=0
    )
    parts = [0.5 * LOW_RANK, LOW_RANK, -0.5 * LOW_RANK]
    places = np.nonzero(LOW_RANK)
    so_far = np.zeros_like(LOW_RANK)
    for part in parts:
        stream.update(*places, np.clip(part[places], -1, 1))
        so_far += np.clip(part, -1, 1)
        error = np.linalg.norm(stream.release().reconstruct() - so_far)
        outside = np.linalg.svd(so_far, compute_uv=False)[3:]
        assert error < 3 * np.linalg.norm(outside) + 1e-3
    stream.close_epoch()
    assert stream.n_epochs_ == 4
    for call in (stream.release, stream.close_epoch, lambda: stream.update(0, 0, 1.0)):
        with pytest.raises(ValueError, match="horizon=4"):
            call()
    pickle.dumps(stream)


def test_a_window_has_the_updates_after_an_epoch():
    stream = DPContinualFactorizer(
        3, shape=(60, 20), horizon=4, privacy_unit=Update(1.0), epsilon=np.inf, random_state=0
    )
    places = np.nonzero(LOW_RANK)
    parts = [np.clip(size * LOW_RANK, -1, 1) for size in (0.5, 1.0, -0.5)]
    for number, part in enumerate(parts):
        stream.update(*places, part[places])
        found = stream.release(since=min(number, 1), store=True).reconstruct()
        window = part if number == 0 else sum(parts[1 : number + 1])
        outside = np.linalg.svd(window, compute_uv=False)[3:]
        assert np.linalg.norm(found - window) < 3 * np.linalg.norm(outside) + 1e-3
    for since in (4, True, "1", 1.5):
        with pytest.raises(ValueError, match="since="):
            stream.release(since=since)
    # Nothing was closed; sums that were not stored have no window.
    assert stream.n_epochs_ == 3
    stream.release(since=2)
    with pytest.raises(ValueError, match="none"):
        DPContinualFactorizer(shape=SHAPE, horizon=3, privacy_unit=Update(1.0)).release(since=1)


def test_any_window_between_stored_releases_is_there_afterwards():
    stream = DPContinualFactorizer(
        3, shape=(60, 20), horizon=4, privacy_unit=Update(1.0), epsilon=np.inf, random_state=0
    )
    # Rows of the open epoch follow those of the epochs before.
    for number, rows in enumerate(np.split(LOW_RANK, 4)):
        stream.partial_fit(rows)
        stream.release(store=number != 2)
    for since, until in ((0, 1), (1, 2), (1, 4), (0, 4)):
        window = np.zeros((60, 20))
        window[15 * since : 15 * until] = np.clip(LOW_RANK, -1, 1)[15 * since : 15 * until]
        outside = np.linalg.svd(window, compute_uv=False)[3:]
        found = stream.window(since, until).reconstruct()
        assert np.linalg.norm(found - window) < 3 * np.linalg.norm(outside) + 1e-3
    for bad, name in (
        ((3, 4), "since"),
        ((None, 4), "since"),
        ((0, 3), "until"),
        ((2, 1), "until"),
        ((0, 0), "until"),
    ):
        with pytest.raises(ValueError, match=f"{name}="):
            stream.window(*bad)


def test_a_later_window_is_that_of_the_release():
    stream, seen = CONTINUAL_CELLS[0](), []
    with patch.object(BaseStream, "_factorized", lambda _, values: (seen.append(values), [])):
        for since in (None, 1):
            stream.update(0, 0, 1.0)
            stream.release(since, store=True)
        stream.window(1, 2)
        stream.window(0, 1)
    for side in range(2):
        for one, other in ((seen[2], seen[1]), (seen[3], seen[0])):
            np.testing.assert_array_equal(one[side].value, other[side].value)
            assert one[side].noise_std == other[side].noise_std


def test_the_noise_of_a_window_is_that_of_the_difference():
    shape, seen = (400, 300), []
    stream = DPContinualFactorizer(shape=shape, horizon=40, privacy_unit=Update(1.0))
    with patch.object(BaseStream, "_factorized", lambda _, values: (seen.append(values), [])):
        for epoch in range(12):
            stream.release(since=[None, 9][epoch > 9], store=epoch == 8)
    for values in seen:
        for released in values:
            assert released.value.std() == pytest.approx(released.noise_std, rel=0.05)
    both = [values[0].noise_std for values in seen[8:10]]
    assert seen[-1][0].noise_std < 0.8 * np.hypot(*both)


def test_a_window_is_a_function_of_released_sums():
    stream, seen = CONTINUAL_CELLS[0](), []
    right = BaseStream._factorized

    def noticed(stream, values):
        seen.append(values)
        return right(stream, values)

    with patch.object(BaseStream, "_factorized", noticed):
        for since in (None, 1, None):
            stream.update(0, 0, 1.0)
            stream.release(since, store=True)
    first, window, last = seen
    stored = stream._stored
    for side in range(2):
        np.testing.assert_array_equal(stored[1][side].value, first[side].value)
        np.testing.assert_array_equal(window[side].value, stored[2][side].value - first[side].value)
        np.testing.assert_array_equal(stored[3][side].value, last[side].value)


def test_sketches_go_by_public_facts():
    units = (Update(1.0), Entry((0, 1)), FrobeniusChange(1.0))
    streams = [DPStreamingFactorizer(shape=(300, 200), privacy_unit=unit) for unit in units]
    kinds = [type(stream._state.sketches.right).__name__ for stream in streams]
    assert kinds == ["CountSketch", "CountSketch", "HaarSketch"]
    assert [stream._noisy_sums[0].counts.shape for stream in streams] == [(300, 60)] * 3
    assert [stream._noisy_sums[1].counts.shape for stream in streams] == [(200, 240)] * 3
    wide = DPStreamingFactorizer(11, shape=(200, 300), privacy_unit=units[0])
    assert [counts.counts.shape for counts in wide._noisy_sums] == [(200, 264), (300, 66)]


def test_noise_that_hides_everything_is_said_so():
    stream = DPStreamingFactorizer(2, shape=(60, 20), privacy_unit=Update(1.0), epsilon=0.1)
    with pytest.warns(PrivacyWarning, match="0 of 2 components"):
        factors = stream.partial_fit(LOW_RANK).finalize()
    assert not factors.singular_values_.any()
    assert np.isfinite(factors.components_).all()


def test_a_delta_that_publishes_cells_is_doubted():
    with pytest.warns(PrivacyWarning, match="delta=0.01"):
        DPStreamingFactorizer(shape=(60, 20), privacy_unit=Update(1.0), delta=0.01)


@pytest.mark.parametrize("sketch", ["haar", "countsketch"])
@pytest.mark.parametrize("epsilon", [8.0, np.inf])
def test_what_is_not_of_low_rank_is_no_worse_than_zero(sketch, epsilon):
    """Beside a flat spectrum the error of a sketch is far larger than the noise."""
    X = 3.0 * (np.random.default_rng(0).random((1500, 300)) < 0.03)
    stream = DPStreamingFactorizer(
        3, shape=X.shape, privacy_unit=FrobeniusChange(0.1), sketch=sketch, epsilon=epsilon
    )
    factors = stream.partial_fit(X).finalize()
    assert np.linalg.norm(X - factors.reconstruct()) < 1.001 * np.linalg.norm(X)


@pytest.mark.covered(at_most=6)
@pytest.mark.parametrize("size", [1e-90, 1.0, 1e90])
@pytest.mark.parametrize("sketch", ["haar", "countsketch"])
@pytest.mark.parametrize("epsilon", [5.0, np.inf])
def test_factors_are_orthonormal_whatever_is_in_them(size, sketch, epsilon):
    for shape in ((27, 17), (8, 35), (7, 7), (1, 1)):
        for X in (np.full(shape, size), np.zeros(shape), size * np.eye(*shape)):
            n_components = min(7, *shape)
            stream = DPStreamingFactorizer(
                n_components, shape=shape, privacy_unit=Update(size), sketch=sketch, epsilon=epsilon
            )
            factors = stream.partial_fit(X).finalize()
            for basis in (factors.components_.T, factors.left_components_):
                np.testing.assert_allclose(basis.T @ basis, np.eye(n_components), atol=1e-10)
            assert np.isfinite(factors.singular_values_).all()
            assert np.linalg.norm(X - factors.reconstruct()) < 3 * np.linalg.norm(X) + 1e-9 * size


def test_sums_that_may_have_wrapped_are_doubted():
    stream = DPStreamingFactorizer(1, shape=(60, 20), privacy_unit=Entry((0, 1)), epsilon=8.0)
    with pytest.warns(PrivacyWarning, match="largest int64"):
        stream.partial_fit(np.full((60, 20), 1e9)).finalize()


@pytest.mark.parametrize("name", ["n_sketch", "n_core"])
def test_a_sketch_has_room_for_the_components(name):
    for make in (DPStreamingFactorizer, partial(DPContinualFactorizer, horizon=3)):
        with pytest.raises(ValueError, match=f"{name}=2 must be at least n_components=3"):
            make(shape=(60, 20), n_components=3, privacy_unit=Update(1.0), **{name: 2})


def test_a_state_shows_no_sums():
    stream = DPStreamingFactorizer(1, shape=SHAPE, privacy_unit=Update(1.0))
    stream.update([0], [0], [1.0])
    assert "[" not in repr(stream._state)


def test_memory_is_that_of_the_sums():
    stream = Cell("update", "countsketch")()
    right, left = stream._noisy_sums
    assert stream._state.right is right.counts
    assert stream._state.left is left.counts
