"""What streams may not show, beside the laws: secret sketches, second views, interruptions."""

import copy
import gc
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import warnings
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
from scipy import sparse
from stream_cells import BOUND, CHANGE, CONTINUAL_CELLS, SHAPE, Cell, sums_of, watched

from skdp import DPContinualFactorizer, DPStreamingFactorizer, PrivacyWarning
from skdp.decomposition.streams import base as stream_base
from skdp.decomposition.streams.sketches import StreamState
from skdp.linalg.sketches import CountSketch, HaarSketch, tail_factor
from skdp.privacy import gaussian_dp
from skdp.privacy.budget import InitialNoiseSums
from skdp.units import FrobeniusChange, Update

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
ROUNDING = 1 + 1e-12


def test_a_value_is_clipped_before_those_of_its_cell_are_added():
    cell = Cell("update", "countsketch")
    once, _ = sums_of(cell, lambda stream: stream.update([1, 1], [2, 2], [1e9, -BOUND]))
    nothing, _ = sums_of(cell, lambda stream: stream.update([], [], []))
    for one, other in zip(once, nothing, strict=True):
        assert np.linalg.norm(one - other) < 1e-6


def test_secret_sketches_move_a_fixed_change_no_further_than_declared():
    declared = DPStreamingFactorizer(
        2, shape=(600, 400), privacy_unit=FrobeniusChange(1.0), n_sketch=5, n_core=8
    )
    bounds = [release.sensitivity for release in declared.privacy_spent_.releases]
    assert declared.privacy_spent_.delta_tail == pytest.approx(0.5e-6)
    generator = np.random.default_rng(0)
    for side, t, bound in ((400, 5, bounds[0]), (600, 8, bounds[1])):
        assert bound < HaarSketch(side, t, generator).spectral_norm
        for rank in (1, 3):
            change = generator.normal(size=(side, rank))
            change /= np.linalg.norm(change)
            for _ in range(300):
                sketch = HaarSketch(side, t, generator)
                assert np.linalg.norm(sketch.project(change)) <= bound


def test_a_known_sketch_would_break_what_high_probability_promises():
    sketch = HaarSketch(2000, 40, np.random.default_rng(0))
    declared = tail_factor(40, 0.25e-6)
    mu = gaussian_dp.mu_from_epsilon_delta(1.0, 0.5e-6)
    assert gaussian_dp.delta_at(mu * sketch.spectral_norm / declared, 1.0) > 0.1
    for more in ({"random_state": 0}, {"sketch": "countsketch"}):
        with pytest.raises(ValueError, match="high_probability"):
            Cell("frobenius", "haar")(sketch_sensitivity="high_probability", **more)
    large = {"shape": (600, 400), "n_components": 2, "privacy_unit": FrobeniusChange(1.0)}
    secret, seeded = (
        DPStreamingFactorizer(**large, n_sketch=5, n_core=8, random_state=seed)
        for seed in (None, 0)
    )
    assert secret.privacy_spent_.delta_tail > 0 == seeded.privacy_spent_.delta_tail
    with pytest.raises(ValueError, match="allow_pickle"):
        secret.shard(allow_pickle=True)
    seeded.shard(allow_pickle=True)


@pytest.mark.slow
def test_the_record_tells_nothing_of_a_secret_sketch():
    # Only one of the sides leaves so many dimensions out that its tail is worth something.
    streams = [
        DPStreamingFactorizer(shape=(9000, 70), privacy_unit=FrobeniusChange(1.0)) for _ in range(2)
    ]
    one, other = (stream.privacy_spent_ for stream in streams)
    assert one.delta_tail == pytest.approx(0.25e-6)
    assert one.releases == other.releases


@pytest.mark.parametrize("cell", [Cell("update", "countsketch"), CONTINUAL_CELLS[0]], ids=str)
def test_a_stream_has_one_view(cell):
    stream = cell()
    stream.update(1, 2, 0.5)
    for view in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="neither copied nor pickled"):
            view(stream)
        with pytest.raises(TypeError, match="neither copied nor pickled"):
            view(stream._state)
    for name in dir(stream):
        assert name.startswith("_") or not isinstance(getattr(stream, name), np.ndarray), name
    assert len(repr(stream)) < 200


def test_two_streams_with_one_seed_share_no_noise():
    streams = [Cell("update", "countsketch")(random_state=7) for _ in range(2)]
    one, other = (stream._noisy_sums[0].counts for stream in streams)
    assert not np.isin(one, other).any()


def test_threads_lose_neither_updates_nor_noise():
    stream = DPContinualFactorizer(
        1, shape=(3000, 20), horizon=40, privacy_unit=Update(1.0), sketch="haar", random_state=0
    )
    rows, columns = np.arange(2999), np.arange(2999) % 20
    is_over = threading.Event()

    def add_zeros():
        while not is_over.is_set():
            stream.update(rows, columns, np.zeros(2999))

    interval = sys.getswitchinterval()
    thread, right = threading.Thread(target=add_zeros), stream._noisy_sums[0]
    try:
        sys.setswitchinterval(1e-6)
        thread.start()
        for _ in range(39):
            before = right.counts.copy()
            stream.close_epoch()
            # Every row has noise of this epoch.
            assert np.abs(right.counts - before).max(axis=1).all()
    finally:
        is_over.set()
        thread.join()
        sys.setswitchinterval(interval)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_copy_of_a_stream_is_no_second_view():
    # As in another namespace of processes, where their numbers start again.
    with patch.object(stream_base, "os", SimpleNamespace(getpid=lambda: 1)):
        streams = [Cell("update", "countsketch")(), CONTINUAL_CELLS[0]()]
        shard = streams[0].shard()
        with multiprocessing.get_context("fork").Pool(1) as pool:
            for stream in streams:
                for name in ("finalize", "release", "update"):
                    if hasattr(stream, name):
                        refused = pool.apply(refused_in_a_fork, (id(stream), name))
                        assert "another process" in refused
            # It has no noise.
            assert pool.apply(refused_in_a_fork, (id(shard), "update")) == ""


def refused_in_a_fork(address, name):
    """Call a method of an object that was there before the fork; return what it says."""
    found = next(one for one in gc.get_objects() if id(one) == address)
    try:
        getattr(found, name)(*([1, 2, 0.5] if name == "update" else []))
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("sketch", ["haar", "countsketch"])
def test_what_is_interrupted_is_not_done_again(sketch):
    kind = {"haar": HaarSketch, "countsketch": CountSketch}[sketch]
    own = kind.add_both

    def half(self, left, sums, *updates):
        own(self, left, (sums[0], np.zeros_like(sums[1])), *updates)
        raise MemoryError

    stream, shard = Cell("entry", sketch)(), Cell("entry", sketch)().shard()
    for each in (stream, shard):
        with patch.object(kind, "add_both", half), pytest.raises(MemoryError):
            each.update([1], [2], [1.0])
        with pytest.raises(ValueError, match="interrupted"):
            each.update([1], [2], [1.0])
    with pytest.raises(ValueError, match="interrupted"):
        stream.finalize()


@pytest.mark.parametrize("is_pickled", [False, True])
def test_a_shard_that_was_interrupted_ends_alone(is_pickled):
    stream = Cell("update", "countsketch")()
    good, bad = stream.shard(), stream.shard(allow_pickle=True)
    interrupted = patch.object(StreamState, "add_one", side_effect=KeyboardInterrupt)
    with interrupted, pytest.raises(KeyboardInterrupt):
        bad.update(1, 2, 0.5)
    bad = pickle.loads(pickle.dumps(bad)) if is_pickled else bad
    for _ in range(2):
        with pytest.raises(ValueError, match=r"StreamShard takes no more updates: .* interrupted"):
            stream.merge(bad)
    stream.update(0, 0, 0.5)
    stream.merge(good)
    with pytest.warns(UserWarning, match="The factors lack the updates of 1 of 2 shards"):
        stream.finalize()


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no such signal here")
@pytest.mark.parametrize("sketch", ["haar", "countsketch"])
def test_a_signal_within_an_update_loses_no_noise(sketch):
    kind = {"haar": HaarSketch, "countsketch": CountSketch}[sketch]
    stream = DPContinualFactorizer(
        1, shape=(300, 20), horizon=50, privacy_unit=Update(1.0), sketch=sketch, random_state=0
    )
    own, said = kind.add_both, []

    def handler(*_):
        try:
            stream.close_epoch()
        except ValueError as error:
            said.append(str(error))

    def signaled(self, *arguments):
        os.kill(os.getpid(), signal.SIGUSR1)
        own(self, *arguments)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with patch.object(kind, "add_both", signaled):
            stream.update(np.arange(299), np.arange(299) % 20, np.zeros(299))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert "not finished" in said[0]
    assert stream.n_epochs_ == 0
    stream.close_epoch()


def test_what_changes_after_it_was_checked_is_clipped():
    cell = Cell("update", "countsketch")
    with watched():
        stream = cell()
        state, before = stream._state, stream._noisy_sums[0].counts.copy()
        state.add(np.array([0, 1]), np.array([0, 1]), np.array([np.nan, np.inf]))
        moved = (stream._noisy_sums[0].counts - before) * state.value_step
    assert np.linalg.norm(moved) <= BOUND * np.sqrt(2)


class Unordered(float):
    """A number that is neither more nor less than any other."""

    def __lt__(self, other):
        return False

    __gt__ = __le__ = __ge__ = __lt__

    def __abs__(self):
        return 0.0

    def __truediv__(self, other):
        return 1e6 / other


@pytest.mark.parametrize("of", [DPStreamingFactorizer, DPContinualFactorizer])
@pytest.mark.parametrize("value", [Unordered(1e6), Unordered(-1e300), np.float64(1e6), 10**6])
def test_numbers_that_compare_as_they_like_are_clipped(of, value):
    cell = Cell("update", "countsketch", make=of)
    with watched():
        stream = cell()
        takers = [stream, stream.shard()] if of is DPStreamingFactorizer else [stream]
        for taker in takers:
            before = taker._state.right.copy()
            taker.update(3, 4, value)
            taker.update(3, 4, [value])
            moved = (taker._state.right - before) * taker._state.value_step
            assert np.linalg.norm(moved) <= 2 * BOUND * ROUNDING


class Anywhere(np.ndarray):
    """Indices that say of themselves that they are in range."""

    def min(self, *_, **__):
        return 0

    max = min


@pytest.mark.parametrize("sketch", ["haar", "countsketch"])
@pytest.mark.parametrize("index", [-5, 10**9])
def test_cells_are_looked_at_as_plain_arrays(sketch, index):
    stream = Cell("update", sketch)()
    cell = np.array([index]).view(Anywhere)
    for rows, columns in ((cell, [1]), ([1], cell)):
        with pytest.raises(ValueError, match="must be integers, indices"):
            stream.update(rows, columns, [0.5])
    stream.update(1, 1, 0.5)


def test_an_interrupted_release_does_not_lengthen_the_horizon():
    for horizon in (1, 3):
        stream = DPContinualFactorizer(1, shape=SHAPE, horizon=horizon, privacy_unit=Update(1.0))
        with (
            patch.object(InitialNoiseSums, "read", side_effect=KeyboardInterrupt),
            pytest.raises(KeyboardInterrupt),
        ):
            stream.release()
        with pytest.raises(ValueError, match="interrupted"):
            stream.release()
    stream = DPContinualFactorizer(1, shape=SHAPE, horizon=1, privacy_unit=Update(1.0))
    stream.horizon = 1000
    stream.release()
    with pytest.raises(ValueError, match="horizon=1 "):
        stream.release()


FIT = "skdp.decomposition.streams.sketches.fit_sketches"


@contextmanager
def as_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        yield


INTERRUPTIONS = {
    "a warning": as_errors,
    "ctrl-c": lambda: patch(FIT, side_effect=KeyboardInterrupt),
    "no memory": lambda: patch(FIT, side_effect=MemoryError),
}


WARNED = INTERRUPTIONS["a warning"]
INTERRUPTED = (PrivacyWarning, KeyboardInterrupt, MemoryError)


@pytest.mark.parametrize("interrupted", INTERRUPTIONS.values(), ids=INTERRUPTIONS)
@pytest.mark.parametrize("horizon", [1, 3])
def test_an_epoch_that_was_paid_for_is_handed_out(interrupted, horizon):
    stream = DPContinualFactorizer(
        1, shape=SHAPE, horizon=horizon, privacy_unit=Update(1.0), epsilon=np.inf
    )
    stream.update(2, 3, 0.75)
    doubted = patch.object(DPContinualFactorizer, "_warnings", return_value=["doubt"])
    with doubted, interrupted(), pytest.raises(INTERRUPTED):
        stream.release()
    assert stream.n_epochs_ == 1
    if horizon > 1:
        stream.update(2, 3, -0.5)
    assert stream.release().reconstruct([2], [3]).item() == pytest.approx(0.75)
    assert stream.n_epochs_ == 1
    if horizon > 1:
        assert stream.release().reconstruct([2], [3]).item() == pytest.approx(0.25)
        assert stream.n_epochs_ == 2
    else:
        with pytest.raises(ValueError, match="horizon=1 are closed"):
            stream.release()


@pytest.mark.parametrize("interrupted", INTERRUPTIONS.values(), ids=INTERRUPTIONS)
def test_an_end_that_was_interrupted_is_reached_again(interrupted):
    stream = Cell("update", "countsketch")(epsilon=np.inf)
    stream.update(2, 3, 0.5)
    with patch.object(DPStreamingFactorizer, "_warnings", return_value=["doubt"]):
        with interrupted(), pytest.raises(INTERRUPTED):
            stream.finalize()
        # Who made warnings errors has been told of the doubt.
        with warnings.catch_warnings():
            warnings.simplefilter("error" if interrupted is WARNED else "ignore")
            factors = stream.finalize()
    assert factors.reconstruct([2], [3]).item() == pytest.approx(0.5)
    assert stream.finalize() is factors


def test_entries_that_are_stored_twice_are_updates_of_their_own():
    def feed(values):
        X = sparse.coo_array((values, ([0, 0], [0, 0])), shape=SHAPE)
        return lambda stream: stream.partial_fit(X)

    cell = Cell("update", "countsketch", "zero_out")
    (one, sensitivities), (other, _) = (sums_of(cell, feed(v)) for v in ([9.0, -0.5], [0.0, -0.5]))
    for here, there, bound in zip(one, other, sensitivities, strict=True):
        assert np.linalg.norm(here - there) <= bound * ROUNDING


@pytest.mark.parametrize("epsilon", [1.0, 0.01, 0.001])
def test_rounding_of_the_values_is_charged(epsilon):
    """Changes that rounding makes larger in every cell."""
    cell = Cell("frobenius", "haar")
    unit = cell(epsilon=epsilon).value_unit_
    X = np.full(SHAPE, 0.4999 * unit)
    change = CHANGE / np.sqrt(X.size)
    change = (np.floor(change / unit) + 0.0002) * unit
    one, sensitivities = sums_of(cell, lambda stream: stream.partial_fit(X), epsilon=epsilon)
    other, _ = sums_of(cell, lambda stream: stream.partial_fit(X + change), epsilon=epsilon)
    for here, there, bound in zip(one, other, sensitivities, strict=True):
        assert 0.1 * bound < np.linalg.norm(here - there) <= bound
