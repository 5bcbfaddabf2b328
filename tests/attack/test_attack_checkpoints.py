"""What a stream that is written to a file may not show, nor do twice."""

import inspect
import multiprocessing
import os
import pickle
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing, nullcontext, suppress
from dataclasses import fields, is_dataclass
from functools import partial
from unittest.mock import patch

import numpy as np
import pytest
from stream_cells import CELLS, CONTINUAL_CELLS, HORIZON, Cell, many_updates

from skdp import DPContinualFactorizer, DPStreamingFactorizer, PrivacyLedger
from skdp.decomposition.streams import base as stream_base
from skdp.decomposition.streams import sketches
from skdp.decomposition.streams.base import BaseStream
from skdp.ledger import _database
from skdp.privacy.budget import InitialNoiseSums
from skdp.units import Update

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
KEY = bytes(range(32))
ONCE, CONTINUAL = Cell("update", "countsketch"), CONTINUAL_CELLS[0]
AGAIN = "resumed before"
GONE = "takes no more updates: checkpoint has written it"
NEEDS_SIGNALS = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no such signal here")
NEEDS_FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "stream.skdp"


def refused_while_open(path, why):
    with patch.object(_database, "_TIMEOUT", 0.05), pytest.raises(ValueError, match=why):
        DPStreamingFactorizer.resume(path, KEY)


def written(cell, path, **more):
    stream = cell(**more)
    many_updates(stream)
    stream.checkpoint(path, KEY)
    return stream


def asked(path, *statement):
    """Read or change a file behind its back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        return database.execute(*statement).fetchall()


def own_noise(sums):
    """Give the noise of an epoch that does not come from the operating system."""
    shape, epoch = sums.counts.shape, sums._n_epochs
    return np.random.default_rng([*shape, epoch]).normal(size=shape)


def released(stream):
    """Give the sums at every release, of updates in every epoch."""
    values = []

    def kept(sums):
        values.append(sums.counts.copy())
        return own_read(sums)

    own_read = InitialNoiseSums.read
    with patch.object(InitialNoiseSums, "read", kept):
        if isinstance(stream, DPStreamingFactorizer):
            many_updates(stream)
            stream.finalize()
            return values
        for _ in range(stream.n_epochs_, HORIZON):
            many_updates(stream)
            stream.release()
    return values


# ------------------------------
# What goes on is what would have gone on.


@pytest.mark.parametrize("cell", [*CELLS, *CONTINUAL_CELLS], ids=str)
def test_a_stream_that_was_resumed_is_the_one_without_interruption(cell, path):
    with (
        patch.object(InitialNoiseSums, "_draw", own_noise),
        patch.object(_database, "_PART_SIZE", 1 << 10),
    ):
        expected, stream = released(cell(random_state=0)), cell(random_state=0)
        n_done = 0 if isinstance(stream, DPStreamingFactorizer) else 2
        values = []
        for _ in range(n_done):
            many_updates(stream)
            values += [sums.counts.copy() for sums in stream._noisy_sums]
            stream.release()
        stream.update(1, 2, 0.5)
        stream.checkpoint(path, KEY)
        stream = type(stream).resume(path, KEY)
        stream.update(1, 2, -0.5)
        assert all(sums.counts.any() for sums in stream._noisy_sums)
        values += released(stream)
    assert len(values) == len(expected) > 1
    for one, other in zip(values, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("cell", [ONCE, CONTINUAL], ids=str)
def test_all_of_a_stream_but_its_seed_and_its_ledger_goes_on(cell, path, tmp_path):
    place = str(tmp_path / "ledger")
    ledger = PrivacyLedger.create(place, dataset="a", epsilon=1.0, delta=1e-6, unit="update")
    stream = cell(random_state=7, ledger=ledger)
    many_updates(stream)
    before, state = vars(stream).copy(), vars(stream._state)
    stream.checkpoint(path, KEY)
    resumed = type(stream).resume(path, KEY)
    assert vars(resumed).keys() == before.keys()
    # These do not compare, or are of the process.
    others = {"_lock", "_sketches", "_noisy_sums", "_state", "_closed_reason", "privacy_unit"}
    for name in before.keys() - {"random_state", "ledger"} - others:
        assert before[name] == getattr(resumed, name), name
    assert repr(resumed) == repr(stream)
    assert resumed.random_state is None
    assert place not in repr(vars(resumed))
    assert len(PrivacyLedger(place).entries()) == 1
    for name in ("right", "left"):
        np.testing.assert_array_equal(getattr(resumed._state, name), state[name])
    # One array, so that noise and updates meet.
    assert resumed._state.right is resumed._noisy_sums[0].counts
    assert resumed._state.left is resumed._noisy_sums[1].counts


def test_later_epochs_get_fresh_noise(path):
    CONTINUAL().checkpoint(path, KEY)
    copied = path.with_suffix(".copy")
    shutil.copy(path, copied)
    one, other = (DPContinualFactorizer.resume(each, KEY) for each in (path, copied))
    for each in (one, other):
        each.close_epoch()
    assert (one._state.right != other._state.right).all()


def test_shards_are_merged_once_before_or_after(path):
    stream = ONCE()
    early, late = stream.shard(allow_pickle=True), stream.shard(allow_pickle=True)
    merged = pickle.dumps(early)
    stream.merge(early)
    late.update(1, 2, 0.5)
    stream.checkpoint(path, KEY)
    with pytest.raises(ValueError, match=GONE):
        stream.merge(late)
    stream = DPStreamingFactorizer.resume(path, KEY)
    with pytest.raises(ValueError, match="merged already"):
        stream.merge(pickle.loads(merged))
    before = stream._state.right.copy()
    stream.merge(pickle.loads(pickle.dumps(late)))
    assert (stream._state.right != before).any()
    with pytest.raises(ValueError, match="merged already"):
        stream.merge(late)


def test_an_epoch_that_was_paid_for_is_handed_out_after_a_checkpoint(path):
    stream = CONTINUAL(epsilon=np.inf)
    stream.update(2, 3, 0.5)
    fit = patch.object(sketches, "fit_sketches", side_effect=KeyboardInterrupt)
    with fit, pytest.raises(KeyboardInterrupt):
        stream.release()
    stream.checkpoint(path, KEY)
    with pytest.raises(ValueError, match=GONE):
        stream.release()
    stream = DPContinualFactorizer.resume(path, KEY)
    assert np.abs(stream.release().reconstruct()).max() > 0.01
    assert stream.n_epochs_ == 1


# ------------------------------
# One goes on.


@pytest.mark.parametrize("cell", [ONCE, CONTINUAL], ids=str)
def test_a_checkpoint_ends_the_stream_here(cell, path):
    stream = written(cell, path)
    end = "finalize" if cell is ONCE else "release"
    for call in (
        lambda: stream.update(0, 0, 1.0),
        lambda: stream.update([0], [0], [1.0]),
        getattr(stream, end),
        lambda: stream.checkpoint(path.with_suffix(".second"), KEY),
    ):
        with pytest.raises(ValueError, match=GONE):
            call()
    # It goes on elsewhere, and may have sketches that are secret until its end.
    with pytest.raises(TypeError, match="neither copied nor pickled"):
        pickle.dumps(stream)
    assert os.listdir(path.parent) == [path.name]
    assert not stream._noisy_sums


def test_a_file_is_resumed_once_and_holds_no_key_then(path):
    written(ONCE, path)
    DPStreamingFactorizer.resume(path, KEY)
    for _ in range(2):
        with pytest.raises(ValueError, match=AGAIN):
            DPStreamingFactorizer.resume(path, KEY)
    # Who takes the mark away has gained nothing.
    asked(path, "UPDATE skdp_once_1 SET refused = ''")
    with pytest.raises(ValueError, match="damaged"):
        DPStreamingFactorizer.resume(path, KEY)


def test_an_ended_stream_is_not_written(path):
    stream = ONCE()
    stream.finalize()
    with pytest.raises(ValueError, match="finalize ended it"):
        stream.checkpoint(path, KEY)
    assert not path.exists()


def resume_when_told(path, barrier, answers):
    def slowly(data, own=pickle.loads):
        # All others come while this one reads.
        time.sleep(0.5)
        return own(data)

    barrier.wait()
    try:
        with patch.object(pickle, "loads", slowly):
            stream = DPContinualFactorizer.resume(path, KEY)
        stream.update(0, 0, 0.5)
        stream.release()
        answers.put(f"resumed, {stream.n_epochs_} epochs")
    except ValueError as error:
        answers.put(str(error))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("start", "n_processes"),
    # To spawn processes takes long.
    [pytest.param("fork", 2, marks=NEEDS_FORK), pytest.param("spawn", 3, marks=pytest.mark.slow)],
)
def test_of_several_processes_one_goes_on(start, n_processes, path):
    context = multiprocessing.get_context(start)
    stream = CONTINUAL()
    stream.close_epoch()
    stream.checkpoint(path, KEY)
    barrier, answers = context.Barrier(n_processes), context.Queue()
    processes = [
        context.Process(target=resume_when_told, args=(path, barrier, answers))
        for _ in range(n_processes)
    ]
    for each in processes:
        each.start()
    told = sorted(answers.get(timeout=120) for _ in processes)
    for each in processes:
        each.join()
    assert told[-1] == "resumed, 2 epochs"
    assert all(AGAIN in one for one in told[:-1])


@NEEDS_FORK
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_copy_is_not_written(path):
    stream = ONCE()
    child = os.fork()
    if not child:
        try:
            stream.checkpoint(path, KEY)
        except ValueError as error:
            os._exit(0 if "another process" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert not path.exists()


@NEEDS_FORK
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("place", ["dumps", "loads"])
def test_a_fork_within_a_call_gets_no_stream(place, path):
    """A signal handler may fork, and go on in both."""
    own, test, stream = getattr(pickle, place), os.getpid(), ONCE()
    children, (reader, writer) = [], os.pipe()

    def forked(data, *more):
        answer = own(data, *more)
        children.append(os.fork())
        if children == [0] and place == "loads":
            # The parent is first.
            os.close(writer)
            os.read(reader, 1)
        elif place == "dumps" and children[0]:
            # The child is first.
            children.append(os.waitpid(children[0], 0)[1])
        return answer

    if place == "loads":
        stream.checkpoint(path, KEY)
    is_alive = False
    try:
        with patch.object(pickle, place, forked), suppress(OSError):
            if place == "dumps":
                stream.checkpoint(path, KEY)
            else:
                stream = DPStreamingFactorizer.resume(path, KEY)
        is_alive = goes_on(partial(stream.update, 0, 0, 0.5))
    except ValueError:
        pass
    finally:
        if os.getpid() != test:
            os._exit(int(is_alive))
    os.close(writer)
    if place == "loads":
        children.append(os.waitpid(children[0], 0)[1])
    os.close(reader)
    assert children[1] == 0
    assert is_alive
    with pytest.raises(ValueError, match=f"not written to its end|{AGAIN}"):
        DPStreamingFactorizer.resume(path, KEY)


@pytest.mark.slow
@pytest.mark.parametrize("is_locked", [True, False])
def test_a_file_that_is_closed_meanwhile_makes_no_second_stream(path, is_locked):
    """Any thread that closes a file takes the locks of SQLite with it, and only these."""
    written(CONTINUAL, path)
    own = pickle.loads
    lines = (
        "import sys; from skdp import DPContinualFactorizer as Factorizer",
        "from skdp.ledger import _database; _database._TIMEOUT = 0.1",
        *["_database._try_to_lock = lambda file: True"] * (not is_locked),
        f"Factorizer.resume(sys.argv[1], {KEY!r}).update(0, 0, 0.5)",
    )

    def read_meanwhile(data):
        path.read_bytes()
        command = [sys.executable, "-c", "; ".join(lines), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert (
            ("other programs have locked it" in done.stderr) == (done.returncode != 0) == is_locked
        )
        return own(data)

    refusal = nullcontext() if is_locked else pytest.raises(ValueError, match=AGAIN)
    with patch.object(pickle, "loads", read_meanwhile), refusal:
        DPContinualFactorizer.resume(path, KEY)


def test_no_journal_could_bring_the_key_back(path):
    """It would be found by the name of the file, when that was resumed by another name."""
    own, seen, statements = sqlite3.connect, [], []

    class Watching(sqlite3.Connection):
        def execute(self, *arguments):
            answer = super().execute(*arguments)
            statements.append(arguments[0].split()[0])
            if statements[-1] == "UPDATE":
                seen.append(os.listdir(path.parent))
            return answer

    with patch.object(sqlite3, "connect", partial(own, factory=Watching)):
        written(ONCE, path)
        DPStreamingFactorizer.resume(path, KEY)
    assert [sorted(names) for names in seen] == [[path.name, f"{path.name}-written"]] * 2
    # All that can fail of a mark comes before it is written, and is undone with its transaction.
    assert statements[-2:] == ["UPDATE", "COMMIT"]


def test_a_file_that_another_program_keeps_in_wal_is_not_resumed(path):
    written(ONCE, path)
    other = sqlite3.connect(path)
    other.execute("PRAGMA journal_mode = WAL")
    other.execute("SELECT * FROM skdp_once_1").fetchall()
    refused_while_open(path, "cannot be resumed")
    other.close()
    DPStreamingFactorizer.resume(path, KEY)


def test_the_mark_is_on_disk_before_the_stream_is_there(path):
    written(ONCE, path)
    with (
        patch.object(BaseStream, "__setstate__", side_effect=KeyboardInterrupt, create=True),
        pytest.raises(KeyboardInterrupt),
    ):
        DPStreamingFactorizer.resume(path, KEY)
    with pytest.raises(ValueError, match=AGAIN):
        DPStreamingFactorizer.resume(path, KEY)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_what_is_interrupted_before_the_mark_is_still_there(error, path):
    written(ONCE, path)
    with patch.object(pickle, "loads", side_effect=error), pytest.raises(error):
        DPStreamingFactorizer.resume(path, KEY)
    DPStreamingFactorizer.resume(path, KEY)


def test_a_file_that_cannot_be_marked_is_not_resumed(path):
    written(ONCE, path)
    with (
        patch.object(_database, "check_place", side_effect=ValueError("replaced")),
        pytest.raises(ValueError, match="cannot be resumed: replaced"),
    ):
        DPStreamingFactorizer.resume(path, KEY)
    locked = sqlite3.connect(path, isolation_level=None)
    locked.execute("BEGIN IMMEDIATE")
    refused_while_open(path, "cannot be resumed: database is locked")
    locked.close()
    DPStreamingFactorizer.resume(path, KEY)


# ------------------------------
# Whatever interrupts a checkpoint, at most one can go on.


class Interrupting(sqlite3.Connection):
    """Raises an error before or after its nth statement."""

    at, is_before, error = 0, True, KeyboardInterrupt
    n_done = 0

    def execute(self, *arguments):
        cls = type(self)
        cls.n_done += 1
        if cls.n_done == cls.at and self.is_before:
            raise self.error
        answer = super().execute(*arguments)
        if cls.n_done == cls.at:
            raise self.error
        return answer


def goes_on(call):
    try:
        call()
    except (ValueError, OSError):
        return False
    return True


@pytest.mark.parametrize("error", [KeyboardInterrupt, sqlite3.OperationalError("disk is full")])
@pytest.mark.parametrize("is_before", [True, False])
def test_whatever_statement_is_interrupted_at_most_one_goes_on(error, is_before, tmp_path):
    """Each statement in turn, until none is left to interrupt."""
    own, found = sqlite3.connect, []
    while True:
        number = len(found) + 1
        path, stream = tmp_path / f"{number}", ONCE()
        how = {"at": number, "is_before": is_before, "error": error}
        connect = partial(own, factory=type("One", (Interrupting,), how))
        try:
            with patch.object(sqlite3, "connect", connect):
                stream.checkpoint(path, KEY)
        except (KeyboardInterrupt, OSError):
            here = goes_on(partial(stream.update, 0, 0, 0.5))
            found.append((here, goes_on(partial(DPStreamingFactorizer.resume, path, KEY))))
        else:
            break
    *others, last = found
    assert len(others) > 10
    assert set(others) == {(True, False)}
    # What makes the file usable may lose the stream.
    assert last == (False, not is_before)


@NEEDS_SIGNALS
def test_a_signal_within_a_checkpoint_finds_no_stream(path):
    stream, said, own = CONTINUAL(), [], pickle.dumps

    def handler(*_):
        for call in (stream.close_epoch, lambda: stream.checkpoint(f"{path}.other", KEY)):
            with pytest.raises(ValueError, match="not finished"):
                call()
            said.append(call)

    def signaled(*arguments):
        os.kill(os.getpid(), signal.SIGUSR1)
        return own(*arguments)

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with patch.object(pickle, "dumps", signaled):
            stream.checkpoint(path, KEY)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(said) == 2
    assert DPContinualFactorizer.resume(path, KEY).n_epochs_ == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, pickle.PicklingError, OSError])
@pytest.mark.parametrize("place", [(pickle, "dumps"), (_database, "insert")])
def test_a_stream_that_was_not_written_lives_on(place, error, path):
    stream = ONCE()
    with patch.object(*place, side_effect=error), pytest.raises(error):
        stream.checkpoint(path, KEY)
    stream.update(0, 0, 0.5)
    assert not path.exists()
    stream.checkpoint(path, KEY)


def write_and_die(path):
    with patch.object(BaseStream, "_drop_state", lambda _: os.kill(os.getpid(), signal.SIGKILL)):
        ONCE().checkpoint(path, KEY)


def write_and_be_interrupted(path):
    stream = ONCE()
    with (
        patch.object(BaseStream, "_drop_state", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        stream.checkpoint(path, KEY)
    stream.update(0, 0, 0.5)


@NEEDS_SIGNALS
@pytest.mark.parametrize("is_killed", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_file_without_its_end_is_refused(is_killed, path):
    """A process that died there cannot be told from one that lives and goes on."""
    if is_killed:
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=write_and_die, args=(path,))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    else:
        write_and_be_interrupted(path)
    with pytest.raises(ValueError, match="not written to its end"):
        DPStreamingFactorizer.resume(path, KEY)
    asked(path, "UPDATE skdp_once_1 SET refused = ''")
    with pytest.raises(ValueError, match="damaged"):
        DPStreamingFactorizer.resume(path, KEY)


# ------------------------------
# Files, keys, and what they show.


def test_a_file_is_for_its_user_and_never_replaces_another(path):
    stream = written(ONCE, path)
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before, stream = path.read_bytes(), ONCE()
    places = [path, path.parent / "no folder" / "file", path.parent]
    if os.name == "posix":
        places.append(path.parent / "link")
        places[-1].symlink_to(path.parent / "elsewhere")
    for place in places:
        with pytest.raises(OSError, match=place.name):
            stream.checkpoint(place, KEY)
        stream.update(0, 0, 0.5)
    assert path.read_bytes() == before
    assert not (path.parent / "elsewhere").exists()


class LongAsItSays(bytes):
    def __len__(self):
        return 32


@pytest.mark.parametrize(
    "key", [LongAsItSays(16), None, "a" * 32, bytes(31), bytearray(32), np.zeros(32), b""]
)
def test_keys_are_32_bytes_and_never_shown(key, path):
    stream = ONCE()
    for call in (stream.checkpoint, DPStreamingFactorizer.resume):
        with pytest.raises(ValueError, match="key must be 32 secret bytes") as refused:
            call(path, key)
        assert "aaa" not in str(refused.value)
        assert "0, 0" not in str(refused.value)
    assert not path.exists()
    stream.update(0, 0, 0.5)


def test_the_file_shows_neither_sums_nor_sketches_nor_seeds(path):
    seed = 0x1234_5678_9ABC_DEF0_1122_3344_5566_7788
    stream = DPStreamingFactorizer(
        shape=(140, 90), privacy_unit=Update(1.0), n_sketch=10, random_state=seed
    )
    many_updates(stream)
    hidden = [sums.counts.tobytes() for sums in stream._noisy_sums]
    hidden += [stream._sketches.right._buckets.tobytes(), stream._id.encode()]
    seeds = [seed.to_bytes(16, "little"), seed.to_bytes(16, "big"), str(seed).encode()]
    plain, own = [], pickle.dumps

    def kept(*arguments):
        plain.append(own(*arguments))
        return plain[-1]

    with patch.object(pickle, "dumps", kept):
        stream.checkpoint(path, KEY)
    files = [path.read_bytes()]
    DPStreamingFactorizer.resume(path, KEY)
    files.append(path.read_bytes())
    assert all(each in plain[0] for each in hidden)
    assert not any(each in plain[0] for each in seeds)
    pieces = {piece for each in [*hidden, *seeds, KEY] for piece in (each[:16], each[-16:])}
    for data in files:
        assert not any(piece in data for piece in pieces)
        assert b"numpy" not in data
    assert os.listdir(path.parent) == [path.name]


def test_two_files_of_one_stream_and_key_share_no_bytes_of_their_ciphers(tmp_path):
    """A nonce that was used twice would show the difference of two states."""
    paths = [tmp_path / name for name in "ab"]
    ONCE().checkpoint(paths[0], KEY)
    DPStreamingFactorizer.resume(shutil.copy(paths[0], tmp_path / "c"), KEY).checkpoint(
        paths[1], KEY
    )
    parts = [asked(each, "SELECT part FROM skdp_once_1_parts") for each in paths]
    one, other = (np.frombuffer(part, np.uint8)[:1000] for ((part,),) in parts)
    # 1/256 of the bytes of two streams are equal.
    assert np.mean(one == other) < 0.05


def test_another_key_or_class_is_refused_and_marks_nothing(path):
    written(ONCE, path)
    with pytest.raises(ValueError, match="the key is not that of this file"):
        DPStreamingFactorizer.resume(path, bytes(32))
    with pytest.raises(ValueError, match="it is a DPStreamingFactorizer"):
        DPContinualFactorizer.resume(path, KEY)
    with (
        patch.object(stream_base, "_FORMAT", 0),
        pytest.raises(ValueError, match="version 6, and not a DPStreamingFactorizer, version 0"),
    ):
        DPStreamingFactorizer.resume(path, KEY)
    DPStreamingFactorizer.resume(path, KEY)


TAMPERED = {
    "another class": "UPDATE skdp_once_1 SET kind = 'DPContinualFactorizer, version 6'",
    "no part": "DELETE FROM skdp_once_1_parts",
    "a part less": "DELETE FROM skdp_once_1_parts WHERE number = 2",
    "no first part": "DELETE FROM skdp_once_1_parts WHERE number = 0",
    "a part twice": "INSERT INTO skdp_once_1_parts SELECT max(number) + 1, part "
    "FROM skdp_once_1_parts",
    "exchanged": "UPDATE skdp_once_1_parts SET part = (SELECT part FROM skdp_once_1_parts "
    "WHERE number = 1) WHERE number = 0",
    "a text": "UPDATE skdp_once_1_parts SET part = 'text'",
    "no bytes": "UPDATE skdp_once_1_parts SET part = x''",
    "no key": "UPDATE skdp_once_1 SET key = x''",
    "a number": "UPDATE skdp_once_1 SET key = 7",
    "two heads": "INSERT INTO skdp_once_1 SELECT * FROM skdp_once_1",
    "no head": "DELETE FROM skdp_once_1",
    "no table": "DROP TABLE skdp_once_1",
}


@pytest.mark.parametrize("change", TAMPERED.values(), ids=TAMPERED)
def test_what_was_tampered_with_is_refused(change, path):
    with patch.object(_database, "_PART_SIZE", 1 << 10):
        written(ONCE, path)
    assert len(asked(path, "SELECT number FROM skdp_once_1_parts")) > 3
    cls = DPContinualFactorizer if "Continual" in change else DPStreamingFactorizer
    asked(path, change)
    with patch.object(pickle, "loads") as read:
        with pytest.raises(ValueError, match="cannot be resumed"):
            cls.resume(path, KEY)
        # Nothing is unpickled that was not encrypted by this key.
        assert not read.called


def test_every_bit_of_a_part_counts(path):
    written(ONCE, path)
    ((part,),) = asked(path, "SELECT part FROM skdp_once_1_parts")
    for place in (0, len(part) // 2, len(part) - 1):
        changed = bytearray(part)
        changed[place] ^= 1
        asked(path, "UPDATE skdp_once_1_parts SET part = ?", (bytes(changed),))
        with pytest.raises(ValueError, match="damaged"):
            DPStreamingFactorizer.resume(path, KEY)


@pytest.mark.parametrize("data", [b"", b"no database", b"SQLite format 3\0" + bytes(4080)])
def test_other_files_are_refused_and_left_alone(data, path):
    with pytest.raises(ValueError, match="cannot be resumed"):
        DPStreamingFactorizer.resume(path, KEY)
    assert not path.exists()
    path.write_bytes(data)
    with pytest.raises(ValueError, match="cannot be resumed"):
        DPStreamingFactorizer.resume(path, KEY)
    assert path.read_bytes() == data


def names_in(value, found):
    """Collect the classes of skdp in an object, and the names of what each of them keeps."""
    if type(value).__module__.startswith("skdp."):
        is_plain = is_dataclass(value) and not isinstance(value, stream_base.BaseStream)
        names = [one.name for one in fields(value)] if is_plain else vars(value)
        found[type(value).__name__] = sorted(set(names) - {"_lock"})
        for name in names:
            names_in(getattr(value, name), found)
    elif isinstance(value, tuple | list):
        for one in value:
            names_in(one, found)


# What a file of version 6 holds, beside the parameters.
KEPT = {
    "DPStreamingFactorizer": "_has_ended _id _merged _n_rows_seen _n_shards _noisy_sums _process "
    "_shape _sketches _state privacy_spent_ sketch_sensitivity value_unit_",
    "DPContinualFactorizer": "_has_ended _horizon _n_rows_seen _noisy_sums _process _shape _since "
    "_sketches _state _stored _stores n_epochs_ privacy_spent_ value_unit_",
    "StreamState": "allow_pickle bound left right sketches value_step",
    "InitialNoiseSums": "_buffers _correlation _covariance _fresh_std _is_read _n_epochs "
    "counts release unit",
    "PrefixNoise": "decays weights",
    "Sketches": "left right tails",
    "CountSketch": "_buckets _signs column_norms row_norm spectral_norm unit",
    "HaarSketch": "_largest column_norms integers row_norm spectral_norm unit",
    "Release": "follows may_be_skipped mechanism name noise_std sensitivity sensitivity_of share",
    "PrivacySpent": "delta_tail enforced guessable mu releases seed_fingerprints trust unit",
    "Update": "bound",
    "FrobeniusChange": "largest sensitivity",
}


def test_the_version_of_the_format_is_raised_with_what_is_in_it():
    """If this fails, raise `_FORMAT`, and write down the new names."""
    found = {}
    for stream in (ONCE(), CONTINUAL(), Cell("frobenius", "haar")()):
        names_in(stream, found)
    asked_for = inspect.signature(DPContinualFactorizer).parameters.keys()
    kept = {name: set(names) - asked_for for name, names in found.items()}
    assert kept == {name: set(names.split()) for name, names in KEPT.items()}
    assert stream_base._FORMAT == 6
