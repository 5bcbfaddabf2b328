"""The file of a ledger: an SQLite database whose own constraints forbid overspending."""

import math
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from skdp.exceptions import BudgetError, LedgerError
from skdp.ledger._limit import WHOLE, Limit

# The letters "skdp".
_APPLICATION_ID, _VERSION = 0x736B6470, 1  # not tuned
_HEAD: dict[str, type] = {
    **dict.fromkeys(("uuid", "dataset", "units", "adjacency", "created"), str),
    **dict.fromkeys(("epsilon", "delta", "mu"), float),
    **dict.fromkeys(("id", "spent", "tails"), int),
}
_CHARGE: dict[str, type] = {
    **dict.fromkeys(("time", "what", "unit"), str),
    **dict.fromkeys(("mu", "delta_tail", "epsilon", "delta"), float),
    **dict.fromkeys(("id", "seeded", "enforced", "spent", "tails"), int),
}
# Relative: two versions of the functions behind mu may differ by this much.
_SAME = 1e-8  # not tuned
# Seconds to wait for other processes that hold the lock of the file.
_TIMEOUT = 60.0  # not tuned
# A forked process must not inherit an open SQLite connection. So every operation holds this lock,
# and a fork waits until the operation has ended.
_LOCK = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
    )
_IS_COUNT = "typeof({0}) = 'integer' AND {0} BETWEEN {1} AND " + str(WHOLE)
# Not tuned.
_SCHEMA = f"""
CREATE TABLE ledger (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    uuid TEXT NOT NULL,
    dataset TEXT NOT NULL,
    units TEXT NOT NULL,
    adjacency TEXT NOT NULL,
    epsilon REAL NOT NULL,
    delta REAL NOT NULL,
    mu REAL NOT NULL,
    created TEXT NOT NULL,
    spent INTEGER NOT NULL CHECK ({_IS_COUNT.format("spent", 0)}),
    tails INTEGER NOT NULL CHECK ({_IS_COUNT.format("tails", 0)})
);
CREATE TABLE charge (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time TEXT NOT NULL,
    what TEXT NOT NULL,
    unit TEXT NOT NULL,
    mu REAL NOT NULL,
    delta_tail REAL NOT NULL,
    epsilon REAL NOT NULL,
    delta REAL NOT NULL,
    seeded INTEGER NOT NULL,
    enforced INTEGER NOT NULL,
    spent INTEGER NOT NULL CHECK ({_IS_COUNT.format("spent", 1)}),
    tails INTEGER NOT NULL CHECK ({_IS_COUNT.format("tails", 0)})
);
CREATE TRIGGER charge_is_counted AFTER INSERT ON charge BEGIN
    UPDATE ledger SET spent = spent + NEW.spent, tails = tails + NEW.tails;
END;
CREATE TRIGGER charges_stay AFTER UPDATE ON charge BEGIN
    SELECT RAISE(ABORT, 'charges are never changed');
END;
CREATE TRIGGER charges_are_not_refunded AFTER DELETE ON charge BEGIN
    SELECT RAISE(ABORT, 'charges are never refunded');
END;
CREATE TRIGGER limit_stays AFTER UPDATE ON ledger
WHEN NEW.spent < OLD.spent OR NEW.tails < OLD.tails
    OR (OLD.uuid, OLD.units, OLD.adjacency, OLD.epsilon, OLD.delta, OLD.mu)
        IS NOT (NEW.uuid, NEW.units, NEW.adjacency, NEW.epsilon, NEW.delta, NEW.mu)
BEGIN
    SELECT RAISE(ABORT, 'limits are never changed');
END;
CREATE TRIGGER ledger_stays AFTER DELETE ON ledger BEGIN
    SELECT RAISE(ABORT, 'a ledger is never emptied');
END;
CREATE TRIGGER ledger_is_one AFTER INSERT ON ledger
WHEN NEW.spent <> 0 OR NEW.tails <> 0 OR EXISTS (SELECT 1 FROM charge)
BEGIN
    SELECT RAISE(ABORT, 'a ledger is never replaced');
END;
"""


def create_file(path: str, head: dict[str, Any]) -> None:
    """Make the file of a new ledger in one transaction; an existing file is never replaced."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o660))
    except FileExistsError:
        raise LedgerError(
            f"There is a file at {path!r}. If it is a ledger, PrivacyLedger(path) opens it; a new "
            "one needs another path."
        ) from None
    try:
        _write_head(path, head)
    except BaseException:
        # Nothing was charged to a file that is not complete.
        os.unlink(path)
        raise


def _write_head(path: str, head: dict[str, Any]) -> None:
    with _LOCK, _connected(path) as database:
        database.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        # executescript commits before it runs, so that the script itself begins the transaction.
        database.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {_VERSION};")
        insert(database, "ledger", {"id": 1, **head, "spent": 0, "tails": 0})
        database.execute("COMMIT")


def insert(database: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    """Insert a row that is given by the names of its columns."""
    names, places = ", ".join(row), ", ".join("?" * len(row))
    database.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", tuple(row.values()))


@contextmanager
def open_file(path: str) -> Iterator[sqlite3.Connection]:
    """Open the file of an existing ledger for one operation."""
    if not os.path.exists(path):
        raise LedgerError(
            f"There is no ledger at {path!r}. A missing file is not an unspent one; "
            "PrivacyLedger.create makes a new one."
        )
    with _LOCK, _connected(path) as database:
        yield database


def place_of(path: str) -> tuple[int, int]:
    """Return the device and the number of the file at a path."""
    try:
        found = os.stat(path)
    except OSError:
        return (-1, -1)
    return found.st_dev, found.st_ino


def check_place(path: str, place: tuple[int, int]) -> None:
    """Refuse a charge to a file that is no longer at its path."""
    # While the file is open, no other file can have its number.
    if place_of(path) != place:
        raise LedgerError(
            f"The file {path!r} was replaced while it was charged, and nothing may be released."
        )


@contextmanager
def _connected(path: str) -> Iterator[sqlite3.Connection]:
    database = None
    try:
        uri = Path(path).as_uri() + "?mode=rw"
        database = sqlite3.connect(uri, uri=True, timeout=_TIMEOUT, isolation_level=None)
        # With a lower setting, a power cut can restore the journal and undo the last charge.
        database.execute("PRAGMA synchronous = EXTRA")
        database.execute("PRAGMA fullfsync = ON")
        yield database
    except (BudgetError, LedgerError):
        raise
    # Reading a damaged file may raise any of these.
    except (sqlite3.Error, TypeError, ValueError, ArithmeticError, LookupError) as error:
        raise LedgerError(
            f"The ledger {path!r} cannot be used, and nothing may be released: {error}."
        ) from None
    finally:
        if database is not None:
            # Closing rolls back what is not committed.
            database.close()


def rows_of(database: sqlite3.Connection, query: str) -> list[dict[str, Any]]:
    """Read all rows of a query, each as a dict with the names of its columns."""
    # Closed in any case: an error could keep the cursor, and its lock, beyond the connection.
    with closing(database.execute(query)) as cursor:
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def read_head(database: sqlite3.Connection, path: str) -> dict[str, Any]:
    """Read the limit and the totals of a ledger; refuse a file that is no ledger."""
    if rows_of(database, "PRAGMA application_id") != [{"application_id": _APPLICATION_ID}]:
        raise LedgerError(f"{path!r} is not a ledger.")
    if rows_of(database, "PRAGMA user_version") != [{"user_version": _VERSION}]:
        raise LedgerError(f"{path!r} was written by another version of skdp.")
    heads = rows_of(database, "SELECT * FROM ledger")
    if len(heads) != 1:
        raise LedgerError(f"{path!r} is not a ledger: it has no limit.")
    (head,) = heads
    if not _is_sound(head):
        raise LedgerError(f"{path!r} is damaged: its limit is not what it was.")
    return head


def _is_sound(head: dict[str, Any]) -> bool:
    """Whether the limit is valid and agrees with its mu, so that no damage has raised it."""
    if {name: type(value) for name, value in head.items()} != _HEAD:
        return False
    try:
        limit = Limit.of(head["epsilon"], head["delta"])
    except ValueError:
        return False
    are_within = all(0 <= head[name] <= WHOLE for name in ("spent", "tails"))
    is_same = math.isclose(limit.mu, head["mu"], rel_tol=_SAME)
    return is_same and are_within and head["units"] != ""


def read_charges(database: sqlite3.Connection, path: str) -> list[dict[str, Any]]:
    """Read all charges, the oldest first; refuse a file with a damaged one."""
    charges = rows_of(database, "SELECT * FROM charge ORDER BY id")
    notes = _read_notes(database)
    for charge in charges:
        if {name: type(value) for name, value in charge.items()} != _CHARGE or not (
            0 <= charge["mu"] < math.inf and 0 <= charge["delta_tail"] < 1
        ):
            raise LedgerError(f"{path!r} is damaged: a charge is not what it was.")
        charge["note"] = notes.get(charge["id"])
        if not isinstance(charge["note"], str | None):
            raise LedgerError(f"{path!r} is damaged: a note is not what it was.")
    return charges


def write_note(database: sqlite3.Connection, text: str) -> None:
    """Add a note to the newest charge."""
    # Notes are in a separate table: the first files lack it, and older versions of skdp ignore it.
    database.execute("CREATE TABLE IF NOT EXISTS note (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
    database.execute("INSERT INTO note SELECT max(id), ? FROM charge", (text,))


def _read_notes(database: sqlite3.Connection) -> dict[int, str]:
    if not rows_of(database, "SELECT 1 FROM sqlite_master WHERE name = 'note'"):
        return {}
    return {note["id"]: note["text"] for note in rows_of(database, "SELECT * FROM note")}


def check_sums(database: sqlite3.Connection, head: dict[str, Any], path: str) -> None:
    """Refuse a file whose totals are not the sums of its charges, or that lacks charges."""
    (sums,) = rows_of(
        database,
        "SELECT coalesce(sum(spent), 0) AS spent, coalesce(sum(tails), 0) AS tails, "
        "count(*) AS n_charges, coalesce(max(id), 0) AS last FROM charge",
    )
    is_whole = sums["n_charges"] == sums["last"]
    if not is_whole or any(sums[name] != head[name] for name in ("spent", "tails")):
        raise LedgerError(f"{path!r} does not add up: charges were removed or changed.")
