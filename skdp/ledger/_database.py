"""SQLite files that change as a whole or not at all, and are on disk after each change."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from skdp.exceptions import BudgetError, FederationError, LedgerError

if TYPE_CHECKING:
    import sqlite3
if sys.platform != "win32":
    import fcntl

T = TypeVar("T")

# Seconds to wait while other processes lock the file, and between two attempts.
_TIMEOUT = 60.0  # not tuned
_PAUSE = 1e-3  # not tuned
# A forked process must not inherit an open SQLite connection. So every operation holds this lock,
# and a fork waits for the end of the operation.
_LOCK = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
    )
# With weaker settings of the first two, a power cut could restore the journal and undo the last
# change. The third overwrites deleted data, such as a key.
_SETTINGS = ("synchronous = EXTRA", "fullfsync = ON", "secure_delete = ON")


# On Linux, flock and the locks of SQLite are independent, and both are taken. Elsewhere SQLite
# would wait for the flock, which excludes other programs, too: so SQLite takes none.
_SYSTEM = "" if sys.platform in ("linux", "win32") else "&vfs=unix-none"
# Ending of the second name that a file has during a change.
_WRITTEN = "-written"


class UnsafeFileError(ValueError):
    """A file cannot be used safely in this place; the error shows none of its contents."""


@contextmanager
def connected(
    path: str | Path, failed: Callable[[Exception], Exception], *, writes: bool = True
) -> Iterator[sqlite3.Connection]:
    """Open an existing file for one operation; if it fails, raise the error that `failed` makes."""
    # Imported here, as most fits have no file.
    import sqlite3

    path = os.path.realpath(path)
    uri = Path(path).as_uri() + "?mode=rw" + _SYSTEM
    with _LOCK:
        until = time.monotonic() + _TIMEOUT
        try:
            with _locked(path, until) as file, _named_twice(path, file, writes):
                left = max(0.0, until - time.monotonic())
                database = sqlite3.connect(uri, uri=True, timeout=left, isolation_level=None)
                try:
                    check_place(path, place_of(file))
                    for setting in _SETTINGS:
                        database.execute(f"PRAGMA {setting}")
                    yield database
                    check_place(path, place_of(file))
                finally:
                    # Closing rolls back uncommitted changes. No interrupt can come between this C
                    # call and the end of the lock.
                    database.close()
        except (BudgetError, FederationError, LedgerError):
            raise
        # Reading a damaged file may raise any of these errors.
        except (sqlite3.Error, OSError, TypeError, ValueError, ArithmeticError, LookupError) as why:
            raise failed(why) from None


@contextmanager
def _locked(path: str, until: float) -> Iterator[int]:
    """Lock the file at a path against everybody else, whatever name they have opened it by.

    The locks of SQLite do not suffice: they end when any thread of this process closes the file, as
    after a backup or a checksum. An flock ends with its own descriptor, which nobody else has, and
    belongs to the file rather than to its name. Windows locks descriptors anyway.
    """
    while True:
        # Open again after waiting, as another file may have replaced the first one.
        with open(path, "rb", buffering=0) as file:
            if _is_locked(file) and place_of(path) == place_of(file.fileno()):
                yield file.fileno()
                return
        if time.monotonic() > until:
            raise UnsafeFileError(f"it has been locked by others for {_TIMEOUT:g} seconds")
        time.sleep(_PAUSE)


def _is_locked(file: IO[bytes]) -> bool:
    """Lock a file, unless somebody else has locked it."""
    with suppress(BlockingIOError):
        if sys.platform != "win32":
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


@contextmanager
def _named_twice(path: str, file: int, writes: bool) -> Iterator[None]:
    """Give a file a second name during a change; the name stays if this process is killed.

    SQLite finds the journal of an interrupted change by the name of the file. Under another name,
    the file would be used half written, and the journal could undo later changes. The second name
    shows that anywhere, and is on disk with the journal: SQLite syncs the folder of both.
    """
    written, journal = path + _WRITTEN, path + "-journal"
    is_named = place_of(written) == place_of(file)
    n_names = os.stat(file).st_nlink
    if n_names > 1 + is_named:
        raise UnsafeFileError(
            f"the file has {n_names} names. If a process that wrote it was killed, move it back to "
            f"where it was, beside its second name with {_WRITTEN!r}; else delete hard links to it"
        )
    is_unnamed = sys.platform != "win32" and not is_named
    if others := [name for name in (written, journal) if is_unnamed and os.path.lexists(name)]:
        raise UnsafeFileError(
            f"{others[0]!r} is of another file, or of another program that changes this one. If a "
            "change was interrupted, put back the file that was there; if this one is right "
            f"nevertheless, delete what ends in {_WRITTEN!r} and '-journal'"
        )
    try:
        if writes and is_unnamed:
            os.link(path, written)
        yield
    finally:
        # SQLite has closed the file. A journal that is left is needed to undo the change.
        if not os.path.exists(journal) and place_of(written) == place_of(file):
            with suppress(OSError):
                os.unlink(written)


@contextmanager
def new_file(path: str | Path, mode: int) -> Iterator[None]:
    """Make an empty file where none exists; remove it if the body of `with` raises."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode))
    try:
        yield
    except BaseException:
        os.unlink(path)
        raise


def rows_of(database: sqlite3.Connection, query: str) -> list[dict[str, Any]]:
    """Return all rows of a query as dicts by column names."""
    # An error refers to the cursor by its traceback. An open cursor would keep its lock as long as
    # somebody stores the error.
    with closing(database.execute(query)) as cursor:
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def insert(database: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    """Insert a row, given as values by column names."""
    names, places = ", ".join(row), ", ".join("?" * len(row))
    database.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", tuple(row.values()))


def place_of(file: str | Path | int) -> tuple[int, int]:
    """Return the device and inode of a file, given its path or descriptor."""
    try:
        found = os.stat(file)
    except OSError:
        return (-1, -1)
    return found.st_dev, found.st_ino


def check_place(path: str | Path, place: tuple[int, int]) -> None:
    """Refuse to change a file if its path now leads to another file."""
    # While the file is open, no other file can have its inode.
    if place_of(path) != place:
        raise ValueError("the file was replaced while it was written")


# ------------------------------
# Secret data that can be read only once, such as checkpoints.

# A table of one row, and one with a row per part; both names have the version of the format.
_HEAD, _PARTS = "skdp_once_1", "skdp_once_1_parts"
_TABLES = (
    f"CREATE TABLE {_HEAD} (kind TEXT NOT NULL, refused TEXT NOT NULL, key BLOB NOT NULL)",
    f"CREATE TABLE {_PARTS} (number INTEGER PRIMARY KEY, part BLOB NOT NULL)",
)
# Values of `refused`: why nobody may read the data; empty if one process may.
_UNFINISHED = "it was not written to its end"
_TAKEN = "it was resumed before, which happens once"
_MARK = f"UPDATE {_HEAD} SET refused = :refused, key = :key WHERE refused = :before"
# A cell of SQLite holds at most 1e9 bytes.
_PART_SIZE = 1 << 26  # not tuned
_NONCE_SIZE = 12  # not tuned


# Bytes of an AES-256 key.
_KEY_SIZE = 32  # not tuned


def checked_key(key: Any) -> bytes:
    """Return the key of a checkpoint; errors do not show an object that is no key."""
    # isinstance would accept a subclass, whose `len` may differ from the number of bytes.
    if type(key) is not bytes or len(key) != _KEY_SIZE:
        size = f" of length {len(key)}" if isinstance(key, bytes) else ""
        raise ValueError(
            f"key must be {_KEY_SIZE} secret bytes, such as key=secrets.token_bytes({_KEY_SIZE}), "
            f"got {type(key).__name__}{size}."
        )
    return key


def write_once(path: Path, kind: str, key: bytes, data: bytes, let_go: Callable[[], None]) -> None:
    """Write encrypted data for `take_once` to a new file; call `let_go` before it is readable.

    The parts have their own key, encrypted by the caller's key and written last, in the space
    reserved for it. Without it nobody can read the parts: whatever interrupts this function, either
    `let_go` has run, or the data cannot be read, or both.
    """
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    text = f"path={str(path)!r} cannot be written: "
    own, nonce = AESGCM.generate_key(256), os.urandom(_NONCE_SIZE)
    starts = range(0, len(data), _PART_SIZE)
    bound, view = _bound(kind, len(starts)), memoryview(data)
    wrapped = nonce + AESGCM(key).encrypt(nonce, own, bound)
    head = {"kind": kind, "refused": _UNFINISHED, "key": bytes(len(wrapped))}
    opened = partial(connected, path, lambda why: OSError(f"{text}{why}."))
    with new_file(path, 0o600), opened() as database:
        place = place_of(path)
        database.execute("BEGIN IMMEDIATE")
        for table in _TABLES:
            database.execute(table)
        insert(database, _HEAD, head)
        for number, start in enumerate(starts):
            part = AESGCM(own).encrypt(_nonce(number), view[start : start + _PART_SIZE], bound)
            insert(database, _PARTS, {"number": number, "part": part})
        database.execute("COMMIT")
    marks = {"refused": "", "key": wrapped, "before": _UNFINISHED}
    with opened() as database, _marked(database, marks, "it has changed"):
        check_place(path, place)
        let_go()


def take_once(path: Path, kind: str, key: bytes, read: Callable[[bytearray], T]) -> T:
    """Return what `read` makes of the data in a file, and remove their key from the file."""
    text = f"path={str(path)!r} cannot be resumed: "
    with connected(path, lambda why: ValueError(f"{text}{why}.")) as database:
        place = place_of(path)
        (head,) = rows_of(database, f"SELECT * FROM {_HEAD}")
        if head["kind"] != kind:
            raise ValueError(f"it holds a {head['kind']}, and not a {kind}")
        if head["refused"]:
            raise ValueError(head["refused"])
        value = read(_decrypted(database, head, key))
        # If several processes reach this point, only one finds the mark, even without locks.
        marks = {"refused": _TAKEN, "key": bytes(len(head["key"])), "before": ""}
        with _marked(database, marks, _TAKEN):
            check_place(path, place)
    return value


@contextmanager
def _marked(database: sqlite3.Connection, marks: dict[str, Any], changed: str) -> Iterator[None]:
    """Run the body of `with`, then change the head of the file, even if the body raises."""
    # A killed process must leave no journal, which SQLite would find by the name of the file: it
    # could restore the key after the file was resumed under another name. A half-written page is
    # harmless: nothing has been returned yet.
    if database.execute("PRAGMA journal_mode = MEMORY").fetchone() != ("memory",):
        raise ValueError("another program has it open")
    database.execute("BEGIN EXCLUSIVE")
    if database.execute(_MARK, marks).rowcount != 1:
        raise ValueError(changed)
    yield
    database.execute("COMMIT")


def _decrypted(database: sqlite3.Connection, head: dict[str, Any], key: bytes) -> bytearray:
    """Decrypt all parts of a checkpoint; refuse a wrong key or damaged parts."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    (found,) = rows_of(database, f"SELECT count(*) AS n_parts FROM {_PARTS}")
    bound, data, wrapped = _bound(head["kind"], found["n_parts"]), bytearray(), head["key"]
    try:
        own = AESGCM(AESGCM(key).decrypt(wrapped[:_NONCE_SIZE], wrapped[_NONCE_SIZE:], bound))
        for number in range(found["n_parts"]):
            (row,) = rows_of(database, f"SELECT part FROM {_PARTS} WHERE number = {number}")
            data += own.decrypt(_nonce(number), row["part"], bound)
    except InvalidTag:
        raise ValueError("the key is another one, or the file is damaged") from None
    return data


def _nonce(number: int) -> bytes:
    return number.to_bytes(_NONCE_SIZE, "big")


def _bound(kind: str, n_parts: int) -> bytes:
    """Return the bytes that authenticate every part: the kind and the number of parts."""
    return f"{kind}, {n_parts} parts".encode()
