"""Attacks on the file of a ledger: races, kills, damage, and SQL; it never counts too little."""

import multiprocessing
import operator
import os
import pickle
import shutil
import sqlite3
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from ledger_processes import Fit, charge_until_refused

from skdp import BudgetError, LedgerError, PrivacyLedger
from skdp.ledger import _database, _file, _ledger
from skdp.ledger._file import WHOLE, Limit

LIMIT = {"dataset": "people", "epsilon": 4.0, "delta": 1e-6}
WHOLE_MU = Limit.of(4.0, 1e-6).mu


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger.create(tmp_path / "people.skdp", **LIMIT)


def mu_of_share(n_fits):
    """As much as so many fits may have, with room for their rounding."""
    return WHOLE_MU / np.sqrt(n_fits) * (1 - 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "n_processes"),
    [
        ("fork", 4),
        pytest.param("spawn", 4, marks=pytest.mark.slow),
        pytest.param("fork", 8, marks=pytest.mark.slow),
    ],
)
def test_processes_that_race_get_what_there_is_and_no_more(ledger, method, n_processes):
    context = multiprocessing.get_context(method)
    arguments = [(ledger.path, mu_of_share(40), 80 // n_processes)] * n_processes
    with context.Pool(n_processes) as pool:
        charged = pool.starmap(charge_until_refused, arguments)
    assert sum(charged) == 40 == len(ledger.entries())
    ledger.verify()


@pytest.mark.slow
def test_what_was_acknowledged_is_on_disk_whenever_it_is_killed(ledger):
    generator = np.random.default_rng(0)
    code = (
        f"import sys, threading; sys.path.insert(0, {str(Path(__file__).parent)!r}); "
        "import ledger_processes as p; "
        "threading.Thread(target=p.die_soon, args=(float(sys.argv[2]),), daemon=True).start(); "
        "p.charge_and_tell(sys.argv[1], 1e-4)"
    )
    for _ in range(18):
        before = len(ledger.entries())
        command = [sys.executable, "-c", code, ledger.path, str(generator.uniform(0.02, 0.2))]
        told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        n_told = told.count("charged\n")
        ledger.verify()
        assert before + n_told <= len(ledger.entries()) <= before + n_told + 1
    assert len(ledger.entries()) > 0


def test_threads_and_forks_meet_the_same_file(ledger):
    def charge(_):
        ledger.charge(Fit(1e-3), "thread")

    children = []
    with ThreadPoolExecutor(3) as threads:
        done = [threads.submit(charge, number) for number in range(15)]
        for _ in range(6):
            child = os.fork()
            if child == 0:
                try:
                    ledger.charge(Fit(1e-3), "fork")
                finally:
                    os._exit(0)
            children.append(child)
        for each in done:
            each.result()
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    names = [entry["what"] for entry in ledger.entries()]
    assert (names.count("thread"), names.count("fork")) == (15, 6)
    ledger.verify()


def test_the_journal_is_synced_with_its_directory(ledger):
    with _file.open_file(ledger.path) as database:
        assert database.execute("PRAGMA synchronous").fetchone() == (3,)
        assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_locked_file_charges_nothing_and_is_usable_again(ledger, monkeypatch):
    monkeypatch.setattr(_database, "_TIMEOUT", 0.05)
    other = sqlite3.connect(ledger.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(LedgerError, match="locked"):
        ledger.charge(Fit(0.5))
    other.execute("ROLLBACK")
    # One who reads on and on keeps others from writing.
    other.execute("BEGIN")
    other.execute("SELECT * FROM ledger").fetchall()
    with pytest.raises(LedgerError, match="locked"):
        ledger.charge(Fit(0.5))
    other.execute("ROLLBACK")
    other.close()
    assert ledger.entries() == []
    ledger.charge(Fit(0.5))
    assert len(ledger.entries()) == 1


def test_a_full_disk_charges_nothing(ledger, monkeypatch):
    connected = sqlite3.connect

    def on_a_full_disk(*arguments, **keywords):
        database = connected(*arguments, **keywords)
        database.execute("PRAGMA max_page_count = 1")
        return database

    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", on_a_full_disk)
        # One page is full soon.
        with pytest.raises(LedgerError, match="full"):
            ledger.charge(Fit(1e-4), "x" * 10_000)
    ledger.verify()
    assert ledger.entries() == []
    ledger.charge(Fit(1e-4))


@pytest.mark.parametrize(
    "content",
    [b"", b"SQLite format 3\0", b"text\n" * 500, bytes(8192)],
    ids=["empty", "header", "text", "zeros"],
)
def test_what_is_no_ledger_is_refused(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(LedgerError):
        PrivacyLedger(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("pragma", ["application_id = 7", "user_version = 1"])
def test_other_databases_and_versions_are_refused(ledger, pragma):
    with sqlite3.connect(ledger.path) as database:
        database.execute(f"PRAGMA {pragma}")
    database.close()
    with pytest.raises(LedgerError, match=r"not a ledger|another version"):
        ledger.charge(Fit(0.5))


def test_an_error_that_is_kept_locks_nobody_out(tmp_path, monkeypatch):
    monkeypatch.setattr(_database, "_TIMEOUT", 0.5)
    path = tmp_path / "kept"
    ledger = PrivacyLedger.create(path, **LIMIT)
    other = PrivacyLedger.create(tmp_path / "other", **LIMIT)
    sound, kept = path.read_bytes(), []
    for content in ((tmp_path / "other").read_bytes(), sound.replace(b"row", b"r\xffw")):
        path.write_bytes(content)
        for use in (ledger.remaining, ledger.verify, lambda: ledger.charge(Fit(0.1))):
            try:
                use()
            except LedgerError as error:
                kept.append(error)
        path.write_bytes(sound)
        ledger.charge(Fit(0.1))
    assert len(kept) == 6
    other.charge(Fit(0.1))


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_no_flipped_bit_of_the_limit_raises_it(tmp_path, delta):
    path = tmp_path / "limit"
    ledger = PrivacyLedger.create(path, dataset="x", epsilon=4.0, delta=delta)
    ledger.charge(Fit(0.2, 1.0, delta))
    sound, left = path.read_bytes(), ledger.remaining()
    mu = Limit.of(4.0, delta).mu
    places = [sound.index(struct.pack(">d", number)) for number in (mu, delta) if number]
    n_refused = 0
    for place in range(min(places) - 24, max(places) + 8):
        for bit in range(8):
            damaged = bytearray(sound)
            damaged[place] ^= 1 << bit
            path.write_bytes(damaged)
            try:
                assert ledger.remaining() <= left * (1 + 1e-7)
                ledger.charge(Fit(0.2, 1.0, delta))
                assert ledger.remaining() < left
            except (BudgetError, LedgerError):
                n_refused += 1
    assert n_refused > 100


@pytest.mark.parametrize("length", [0, 100, 8192])
def test_a_file_that_is_cut_off_is_refused(ledger, length):
    ledger.charge(Fit(0.2), "fit")
    sound = Path(ledger.path).read_bytes()
    Path(ledger.path).write_bytes(sound[:length])
    with pytest.raises(LedgerError):
        ledger.charge(Fit(0.2))


STATEMENTS = [
    "DELETE FROM charge",
    "DELETE FROM ledger",
    "UPDATE charge SET spent = 1",
    "UPDATE charge SET what = 'nothing'",
    "UPDATE ledger SET spent = 0",
    "UPDATE ledger SET epsilon = 100",
    "UPDATE ledger SET uuid = 'other'",
    "UPDATE ledger SET spent = -1",
    "UPDATE ledger SET spent = spent + 4611686018427387904",
    "UPDATE ledger SET spent = 1.5",
    "INSERT OR REPLACE INTO ledger SELECT id, uuid, dataset, units, adjacency, 99, delta, mu, "
    "created, 0, 0 FROM ledger",
    "INSERT INTO ledger SELECT 2, uuid, dataset, units, adjacency, 99, delta, mu, created, 0, 0 "
    "FROM ledger",
    "INSERT INTO charge SELECT NULL, time, what, unit, mu, delta_tail, epsilon, delta, seeded, "
    "enforced, 4611686018427387904, 0, NULL, NULL FROM charge",
    "INSERT INTO charge SELECT NULL, time, what, unit, mu, delta_tail, epsilon, delta, seeded, "
    "enforced, -5, 0, NULL, NULL FROM charge",
    "INSERT INTO charge SELECT NULL, time, what, unit, mu, delta_tail, epsilon, delta, seeded, "
    "enforced, 0, 0, NULL, NULL FROM charge",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_database_itself_refuses_to_be_overspent_or_refunded(ledger, statement):
    ledger.charge(Fit(0.5), "fit")
    before = ledger.entries(), ledger.spent()
    database = sqlite3.connect(ledger.path)
    with pytest.raises(sqlite3.IntegrityError):
        database.execute(statement)
    database.close()
    assert (ledger.entries(), ledger.spent()) == before
    ledger.verify()


def changed_behind(ledger, *statements):
    """Change the database as no ledger does."""
    with closing(sqlite3.connect(ledger.path)) as database, database:
        for statement in statements:
            database.execute(statement)


def test_totals_that_do_not_add_up_are_refused(ledger):
    ledger.charge(Fit(0.5), "fit")
    changed_behind(ledger, "DROP TRIGGER charges_are_not_refunded", "DELETE FROM charge")
    for use in (ledger.verify, lambda: ledger.charge(Fit(0.5))):
        with pytest.raises(LedgerError, match="does not add up"):
            use()


USES = {
    "charge": lambda ledger: ledger.charge(Fit(0.1)),
    "charge of a pickle": lambda ledger: pickle.loads(pickle.dumps(ledger)).charge(Fit(0.1)),
    "open": lambda ledger: PrivacyLedger(ledger.path),
    **{
        name: operator.methodcaller(name)
        for name in ("remaining", "spent", "entries", "report", "verify")
    },
}


@pytest.mark.parametrize("last", [os.replace, lambda copy, path: os.unlink(path)])
def test_a_file_that_is_replaced_while_it_is_charged_is_noticed(ledger, monkeypatch, last):
    copy, own = shutil.copy(ledger.path, f"{ledger.path}.bak"), _ledger.insert

    def replaced(*arguments):
        own(*arguments)
        last(copy, ledger.path)

    monkeypatch.setattr(_ledger, "insert", replaced)
    with pytest.raises(LedgerError, match="was replaced while it was written"):
        ledger.charge(Fit(0.1), note="lost")
    if last is os.replace:
        monkeypatch.undo()
        ledger.charge(Fit(0.1), "after")
        assert [entry["what"] for entry in ledger.entries()] == ["after"]


EVERY_ENTRY = [USES[name] for name in ("verify", "entries", "report")]
# Of each table: damages, and what tells of them.
DAMAGES = {
    "ledger": (["spent = -1", f"tails = {WHOLE + 1}", "spent = 9e999"], USES.values()),
    "charge": (
        [
            *("mu = 'x'", "mu = 9e999", "mu = -1", "delta_tail = 'x'", "epsilon = 'x'"),
            *("what = x'00'", "note = x'00'"),
        ],
        EVERY_ENTRY,
    ),
}


@pytest.mark.parametrize(
    ("table", "damage"),
    [(table, one) for table, (damages, _) in DAMAGES.items() for one in damages],
)
def test_what_is_damaged_is_told_as_such(ledger, table, damage):
    ledger.charge(Fit(0.5, delta_tail=1e-7), "fit", note="note")
    changed_behind(
        ledger,
        "PRAGMA ignore_check_constraints = ON",
        *("DROP TRIGGER limit_stays", "DROP TRIGGER charges_stay"),
        f"UPDATE {table} SET {damage}",
    )
    for use in DAMAGES[table][1]:
        with pytest.raises(LedgerError, match="damaged"):
            use(ledger)


def test_the_order_is_that_of_the_charges_whatever_the_clock_says(ledger, monkeypatch):
    times = iter(["2030-01-01", "1970-01-01T00:00:00+00:00", "never"])
    monkeypatch.setattr("skdp.ledger._ledger._now", lambda: next(times))
    for number in range(3):
        ledger.charge(Fit(0.1), str(number))
    assert [entry["what"] for entry in ledger.entries()] == ["0", "1", "2"]
    ledger.verify()


def test_an_operation_waits_for_its_turn(ledger):
    other = sqlite3.connect(ledger.path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN EXCLUSIVE")
    order = []
    charging = threading.Thread(target=lambda: (ledger.charge(Fit(0.5)), order.append("charged")))
    charging.start()
    charging.join(0.3)
    order.append("released")
    other.execute("ROLLBACK")
    charging.join()
    other.close()
    assert order == ["released", "charged"]
