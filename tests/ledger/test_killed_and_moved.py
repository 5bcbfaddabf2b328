"""Files of ledgers, owners and streams: killed, moved, linked and copied, they lose nothing."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from itertools import count, product
from pathlib import Path

import numpy as np
import pytest
from kills import is_killed_at, needs_system
from ledger_processes import Fit

from skdp import DPStreamingFactorizer, FederationError, LedgerError, PrivacyLedger
from skdp.federated._state import load_state
from skdp.ledger import _database, _ledger
from skdp.units import Update

pytestmark = [
    # Of forks beside threads; the fork makes all it needs anew.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.skipif(os.name != "posix", reason="nothing is forked or locked in this way"),
]
KEY = bytes(range(32))


def create(path):
    return PrivacyLedger.create(path, dataset="people", epsilon=4.0, delta=1e-6)


# ------------------------------
# Backups in a process that charges: they open the file and close it.


def charge_without_end(path, acknowledged, number):
    """Charge beside a thread that copies the file, and write down what is charged."""

    def back_up():
        while True:
            shutil.copy(path, f"{path}.{number}.bak")
            time.sleep(0.002)

    threading.Thread(target=back_up, daemon=True).start()
    ledger, names = PrivacyLedger(path), os.open(acknowledged, os.O_WRONLY | os.O_APPEND)
    parent, i = os.getppid(), 0
    while os.getppid() == parent:
        ledger.charge(Fit(1e-4), f"{number}.{i}")
        os.write(names, f"{number}.{i}\n".encode())
        i += 1


def started(*arguments):
    child = os.fork()
    if child == 0:
        try:
            charge_without_end(*arguments)
        finally:
            os._exit(1)
    return child


def ended(child):
    """Kill a process, which must have been alive and charging."""
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_kills", "n_charges"), [(6, 60), pytest.param(200, 20_000, marks=pytest.mark.slow)]
)
def test_backups_and_kills_lose_no_charge(tmp_path, n_kills, n_charges):
    generator, path, told = np.random.default_rng(0), tmp_path / "ledger", tmp_path / "told"
    create(path)
    told.touch()
    numbers = count()
    children = [started(path, told, next(numbers)) for _ in range(2)]
    for n_killed in range(1, n_kills + 1):
        while told.read_bytes().count(b"\n") < n_charges * n_killed / n_kills:
            # All of them are alive: no charge has failed.
            assert {os.waitpid(child, os.WNOHANG) for child in children} == {(0, 0)}
            time.sleep(0.003)
        time.sleep(generator.uniform(0, 0.03))
        ended(children.pop(0))
        children.append(started(path, told, next(numbers)))
    for child in children:
        ended(child)
    acknowledged, ledger = told.read_text().split(), PrivacyLedger(path)
    ledger.verify()
    charged = Counter(entry["what"] for entry in ledger.entries())
    assert len(acknowledged) >= n_charges
    assert charged.keys() >= set(acknowledged)
    assert charged.total() == len(charged) <= len(acknowledged) + n_kills + 2


@pytest.mark.slow
def test_a_backup_during_a_charge_lets_nobody_else_in(tmp_path, monkeypatch):
    path, own = tmp_path / "ledger", _ledger.insert
    ledger = create(path)
    code = (
        "import sys; from skdp import PrivacyLedger; from skdp.ledger import _database; "
        "_database._TIMEOUT = 0.1; print(PrivacyLedger(sys.argv[1]).remaining())"
    )

    def backed_up(*arguments):
        own(*arguments)
        path.read_bytes()
        command = [sys.executable, "-c", code, path]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "other programs have locked it for 0.1 seconds" in done.stderr

    monkeypatch.setattr(_ledger, "insert", backed_up)
    ledger.charge(Fit(0.1), "one", note="note")
    assert [entry["what"] for entry in ledger.entries()] == ["one"]


# ------------------------------
# A journal belongs to one name of one file.


def charge(path, name):
    PrivacyLedger(path).charge(Fit(1e-3), name)


def charged(path):
    PrivacyLedger(path).verify()
    return [entry["what"] for entry in PrivacyLedger(path).entries()]


def load(path):
    return load_state(path, "agreement", 0, b"rows")


def answer(path, name):
    state = load(path)
    state.answers[name] = name * 4000
    state.save(path)


def answered(path):
    return list(load(path).answers)


def moved(path, write):
    """Move a file away, write to it, and move it back."""
    away = path.with_name("away")
    os.rename(path, away)
    yield write(away)
    os.rename(away, path)


def linked(path, write):
    away = path.with_name("away")
    os.link(path, away)
    assert not write(path)
    yield write(away)
    os.unlink(away)


def replaced(path, write):
    """Replace a file by a copy, write to it, and put the file back."""
    away = path.with_name("away")
    os.rename(path, away)
    shutil.copy(away, path)
    yield write(path)
    os.replace(away, path)


USES = {"ledger": (create, charge, charged), "state": (load, answer, answered)}
# With another system of files of SQLite, which skdp uses on macOS.
CASES = list(product(USES, [moved, linked, replaced], ["", "&vfs=unix-none"], [1]))


@needs_system
@pytest.mark.parametrize(
    ("kind", "how", "system", "stride"),
    [("ledger", moved, "", 3), *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES)],
)
def test_who_is_killed_at_any_step_undoes_nothing_later(
    tmp_path, monkeypatch, kind, how, system, stride
):
    monkeypatch.setattr(_database, "_LOCKS_OF_SQLITE", system)
    make, write, names_in = USES[kind]
    n_refused = 0
    for number in count(0, stride):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / "file"
        make(path)
        write(path, "a")
        written = ["a"]

        def is_written(path, written=written):
            try:
                write(path, "b")
            except (LedgerError, FederationError):
                return False
            written.append("b")
            return True

        if not is_killed_at(number, lambda path=path: write(path, "killed")):
            break
        for done in how(path, is_written):
            n_refused += not done
        if how is replaced and "b" in written:
            # It was written to another file.
            written.remove("b")
        write(path, "c")
        assert [name for name in names_in(path) if name != "killed"] == [*written, "c"]
        assert [each.name for each in folder.iterdir()] == ["file"]
    assert number > 15
    assert n_refused > 10 / stride


# ------------------------------
# What is refused, and what to do then.


def a_stream(path):
    unit = Update(1.0)
    stream = DPStreamingFactorizer(2, shape=(8, 6), epsilon=1.0, delta=1e-6, privacy_unit=unit)
    stream.checkpoint(path, KEY)


OPENED = {
    "ledger": (create, PrivacyLedger, LedgerError),
    "state": (load, load, FederationError),
    "stream": (a_stream, lambda path: DPStreamingFactorizer.resume(path, KEY), ValueError),
}


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
@pytest.mark.parametrize("kind", OPENED)
def test_what_could_undo_changes_is_refused_until_it_is_gone(tmp_path, kind):
    make, use, error = OPENED[kind]
    path = tmp_path / "file"
    make(path)
    sound = path.read_bytes()
    for name, why in [
        ("link", "has 2 names.*delete hard links"),
        ("file-journal", "file-journal' is of another file.*put back.*delete"),
        ("file-written", "file-written' is of another file.*put back.*delete"),
    ]:
        other = tmp_path / name
        os.link(path, other) if name == "link" else shutil.copy(path, other)
        with pytest.raises(error, match=why):
            use(path)
        assert path.read_bytes() == sound
        other.unlink()
    use(path)


def test_who_may_only_read_reads(tmp_path):
    path = tmp_path / "ledger"
    create(path)
    charge(path, "a")
    before = os.stat(path).st_ctime_ns
    assert charged(path) == ["a"]
    # No second name was made.
    assert os.stat(path).st_ctime_ns == before


def test_a_link_leads_to_the_file_and_its_journal(tmp_path):
    path, link = tmp_path / "ledger", tmp_path / "links" / "link"
    create(path)
    link.parent.mkdir()
    link.symlink_to(path)
    if is_killed_at(6, lambda: charge(link, "killed")):
        assert Path(f"{path}-written").exists()
    charge(path, "a")
    assert charged(link)[-1] == "a"
    assert list(link.parent.iterdir()) == [link]
