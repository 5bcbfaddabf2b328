"""Files that change as a whole or not at all, and are on disk then: databases of SQLite."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skdp.exceptions import BudgetError, FederationError, LedgerError

if TYPE_CHECKING:
    import sqlite3

# Seconds to wait for other processes that hold the lock of the file.
_TIMEOUT = 60.0  # not tuned
# A forked process must not inherit an open SQLite connection. So every operation holds this lock,
# and a fork waits until the operation has ended.
_LOCK = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
    )
_SETTINGS = (
    # With a lower setting, a power cut can restore the journal and undo the last change.
    "synchronous = EXTRA",
    "fullfsync = ON",
    # Deleted data are overwritten: the file may have held a key.
    "secure_delete = ON",
)


@contextmanager
def connected(
    path: str | Path, failed: Callable[[Exception], Exception]
) -> Iterator[sqlite3.Connection]:
    """Open an existing file for one operation; if that goes wrong, raise what `failed` returns."""
    # Imported late: most fits have no file.
    import sqlite3

    with _LOCK:
        database = None
        try:
            uri = Path(path).as_uri() + "?mode=rw"
            database = sqlite3.connect(uri, uri=True, timeout=_TIMEOUT, isolation_level=None)
            for setting in _SETTINGS:
                database.execute(f"PRAGMA {setting}")
            yield database
        except (BudgetError, FederationError, LedgerError):
            raise
        # Reading a damaged file may raise any of these.
        except (sqlite3.Error, TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise failed(error) from None
        finally:
            if database is not None:
                # Closing rolls back what is not committed.
                database.close()


def rows_of(database: sqlite3.Connection, query: str) -> list[dict[str, Any]]:
    """Read all rows of a query, each as a dict with the names of its columns."""
    # An error that is kept would keep an open cursor, and its lock, beyond the connection.
    with closing(database.execute(query)) as cursor:
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def insert(database: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    """Insert a row that is given by the names of its columns."""
    names, places = ", ".join(row), ", ".join("?" * len(row))
    database.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", tuple(row.values()))


def place_of(path: str | Path) -> tuple[int, int]:
    """Return the device and the number of the file at a path."""
    try:
        found = os.stat(path)
    except OSError:
        return (-1, -1)
    return found.st_dev, found.st_ino


def check_place(path: str | Path, place: tuple[int, int]) -> None:
    """Refuse a change of a file that is no longer at its path."""
    # While the file is open, no other file can have its number.
    if place_of(path) != place:
        raise ValueError("the file was replaced while it was written")
