"""SQLite files: each change is written to disk as a whole, or not at all."""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from skdp.exceptions import BudgetError, FederationError, LedgerError

if TYPE_CHECKING:
    import sqlite3
if sys.platform != "win32":
    import fcntl

# If another program has locked a file, wait for `_TIMEOUT` seconds in all, and for `_PAUSE` seconds
# between two attempts to lock the file.
_TIMEOUT = 60.0  # not tuned
_PAUSE = 1e-3  # not tuned
# A forked process must not inherit an open SQLite connection. So every operation holds this lock,
# and a fork waits for the end of the operation.
_LOCK = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release
    )
# With weaker values of `synchronous` and `fullfsync`, a power cut could undo a change that was
# reported as done. `secure_delete` overwrites deleted data, such as a key.
_SETTINGS = ("synchronous = EXTRA", "fullfsync = ON", "secure_delete = ON")
# `_locked` takes an flock, which on Linux does not interfere with the locks of SQLite. On macOS and
# BSD SQLite would wait for the flock of its own process: there SQLite takes no locks.
_LOCKS_OF_SQLITE = "" if sys.platform in ("linux", "win32") else "&vfs=unix-none"
# Ending of the second name that a file has during a change; see `_named_twice`.
_WRITTEN = "-written"


class UnsafeFileError(ValueError):
    """A file cannot be used safely; the text of the error shows nothing of its contents."""


@contextmanager
def connected(
    path: str | Path, failed: Callable[[Exception], Exception], *, writes: bool = True
) -> Iterator[sqlite3.Connection]:
    """Open an existing file for one operation; turn errors of the file into those of `failed`."""
    # `writes` says whether the operation may change the file. The import is here, as most fits use
    # no SQLite file.
    import sqlite3

    path = os.path.realpath(path)
    uri = Path(path).as_uri() + "?mode=rw" + _LOCKS_OF_SQLITE
    with _LOCK:
        deadline = time.monotonic() + _TIMEOUT
        try:
            with _locked(path, deadline) as file, _named_twice(path, file, writes):
                timeout = max(0.0, deadline - time.monotonic())
                database = sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)
                try:
                    check_place(path, place_of(file))
                    for setting in _SETTINGS:
                        database.execute(f"PRAGMA {setting}")
                    yield database
                    check_place(path, place_of(file))
                finally:
                    # Closing undoes uncommitted changes. As `close` is a function in C, no
                    # interrupt can come between it and the end of the lock.
                    database.close()
        except (BudgetError, FederationError, LedgerError):
            raise
        # A damaged file may raise any of these errors.
        except (sqlite3.Error, OSError, TypeError, ValueError, ArithmeticError, LookupError) as why:
            raise failed(why) from None


@contextmanager
def _locked(path: str, deadline: float) -> Iterator[int]:
    """Lock a file against all other threads and programs; return its descriptor.

    The locks of SQLite do not suffice: they end as soon as any thread of this process closes the
    file, for example after computing a checksum. An flock ends only with its own descriptor, and
    locks all names of the file. On Windows, locks of SQLite end with the descriptor, too.
    """
    while True:
        # Opened again in each attempt, as another file may have replaced the first one.
        with open(path, "rb", buffering=0) as file:
            if _try_to_lock(file) and place_of(path) == place_of(file.fileno()):
                yield file.fileno()
                return
        if time.monotonic() > deadline:
            raise UnsafeFileError(f"other programs have locked it for {_TIMEOUT:g} seconds")
        time.sleep(_PAUSE)


def _try_to_lock(file: IO[bytes]) -> bool:
    """Lock a file, unless another program has locked it; return whether the file is locked now."""
    with suppress(BlockingIOError):
        if sys.platform != "win32":
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


@contextmanager
def _named_twice(path: str, file: int, writes: bool) -> Iterator[None]:
    """Give a file a second name during a change; the name stays if this process is killed.

    To undo an interrupted change, SQLite looks for a journal beside the file. If the file was
    moved, SQLite finds no journal, and uses a half-written file; and the journal could undo changes
    of a later file with the old name. The second name, a hard link, stays in the old folder. So the
    moved file is refused, as it has two names, and so is a later file with the old name. The second
    name is on disk as soon as the journal is, as SQLite syncs the folder that contains both.
    """
    written, journal = path + _WRITTEN, path + "-journal"
    has_second_name = place_of(written) == place_of(file)
    n_names = os.stat(file).st_nlink
    if n_names > 1 + has_second_name:
        raise UnsafeFileError(
            f"the file has {n_names} names. If a process was killed while it wrote the file, move "
            f"it back beside its second name, which ends in {_WRITTEN!r}; else delete hard links"
        )
    is_to_be_named = sys.platform != "win32" and not has_second_name
    if others := [name for name in (written, journal) if is_to_be_named and os.path.lexists(name)]:
        raise UnsafeFileError(
            f"{others[0]!r} is of another file, or another program is changing this file. If a "
            "change was interrupted, put back the file that was here; if this is the right file, "
            f"delete the names that end in {_WRITTEN!r} and '-journal'"
        )
    try:
        if writes and is_to_be_named:
            os.link(path, written)
        yield
    finally:
        # SQLite has closed the file. If a journal is left, the next use needs it and both names.
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
    # The traceback of an error refers to the cursor, and an open cursor locks the database. So the
    # cursor is closed, whatever happens.
    with closing(database.execute(query)) as cursor:
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def insert(database: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    """Insert a row, given as values by column names."""
    names, places = ", ".join(row), ", ".join("?" * len(row))
    database.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", tuple(row.values()))


def place_of(file: str | Path | int) -> tuple[int, int]:
    """Return the device and inode of a file, given its path or descriptor; -1 for no file."""
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
# Checkpoints: encrypted data that can be read only once.

# Names of the tables: `_HEAD` has a single row, and `_PARTS` a row for each part of the data. The
# number 1 is the version of the format.
_HEAD, _PARTS = "skdp_once_1", "skdp_once_1_parts"
_TABLES = (
    f"CREATE TABLE {_HEAD} (kind TEXT NOT NULL, refused TEXT NOT NULL, key BLOB NOT NULL)",
    f"CREATE TABLE {_PARTS} (number INTEGER PRIMARY KEY, part BLOB NOT NULL)",
)
# Values of the column `refused`: why nobody may read the data. "" means that they may be read.
_UNFINISHED = "it was not written to its end"
_TAKEN = "it was resumed before, which happens once"
_MARK = f"UPDATE {_HEAD} SET refused = :refused, key = :key WHERE refused = :before"
# Data are split into parts of this size, as a cell of SQLite has at most 1e9 bytes.
_PART_SIZE = 1 << 26  # not tuned
_NONCE_SIZE = 12  # not tuned
# Bytes of an AES-256 key.
_KEY_SIZE = 32  # not tuned


def checked_key(key: Any) -> bytes:
    """Return the key of a checkpoint; refuse other objects, without showing their contents."""
    # isinstance would accept a subclass, whose `len` may differ from the number of bytes.
    if type(key) is not bytes or len(key) != _KEY_SIZE:
        size = f" of length {len(key)}" if isinstance(key, bytes) else ""
        raise ValueError(
            f"key must be {_KEY_SIZE} secret bytes, such as key=secrets.token_bytes({_KEY_SIZE}), "
            f"got {type(key).__name__}{size}."
        )
    return key


def write_once(
    path: str | os.PathLike[str], kind: str, key: bytes, value: Any, drop_own: Callable[[], None]
) -> None:
    """Write a value, as an encrypted pickle, to a new file, which `take_once` reads.

    `drop_own` makes the caller's own copy of the value useless, so that only one copy can be used.
    A random key encrypts the data. The random key, encrypted by the caller's key, is written only
    after `drop_own` has run: if the call is interrupted before, nobody can read the file.
    """
    path, data = Path(path).absolute(), pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    text = f"path={str(path)!r} cannot be written: "
    random_key, nonce = AESGCM.generate_key(256), os.urandom(_NONCE_SIZE)
    starts = range(0, len(data), _PART_SIZE)
    context, view = _context(kind, len(starts)), memoryview(data)
    encrypted_key = nonce + AESGCM(key).encrypt(nonce, random_key, context)
    # Zeros reserve the space for the key.
    head = {"kind": kind, "refused": _UNFINISHED, "key": bytes(len(encrypted_key))}
    opened = partial(connected, path, lambda why: OSError(f"{text}{why}."))
    with new_file(path, 0o600), opened() as database:
        place = place_of(path)
        database.execute("BEGIN IMMEDIATE")
        for table in _TABLES:
            database.execute(table)
        insert(database, _HEAD, head)
        for number, start in enumerate(starts):
            chunk = view[start : start + _PART_SIZE]
            part = AESGCM(random_key).encrypt(_nonce(number), chunk, context)
            insert(database, _PARTS, {"number": number, "part": part})
        database.execute("COMMIT")
    marks = {"refused": "", "key": encrypted_key, "before": _UNFINISHED}
    with opened() as database, _marked(database, marks, "it has changed"):
        check_place(path, place)
        drop_own()


def take_once(path: str | os.PathLike[str], kind: str, key: bytes) -> Any:
    """Read the value of `write_once`, and delete the key of its data from the file."""
    path, key = Path(path).absolute(), checked_key(key)
    text = f"path={str(path)!r} cannot be resumed: "
    with connected(path, lambda why: ValueError(f"{text}{why}.")) as database:
        place = place_of(path)
        (head,) = rows_of(database, f"SELECT * FROM {_HEAD}")
        if head["kind"] != kind:
            raise ValueError(f"it is a {head['kind']}, and not a {kind}")
        if head["refused"]:
            raise ValueError(head["refused"])
        value = pickle.loads(_decrypted(database, head, key))
        # If several processes reach this line, only one finds the file unmarked, even without
        # locks.
        marks = {"refused": _TAKEN, "key": bytes(len(head["key"])), "before": ""}
        with _marked(database, marks, _TAKEN):
            check_place(path, place)
    return value


@contextmanager
def _marked(database: sqlite3.Connection, marks: dict[str, Any], changed: str) -> Iterator[None]:
    """Replace the key and the mark of a checkpoint, and commit both after the body of `with`."""
    # The journal stays in memory, as a killed process must leave none on disk: from a journal,
    # SQLite could restore the key of a file that was then renamed and resumed. A kill may leave a
    # half-written page, which does no harm, as nothing has been returned yet.
    if database.execute("PRAGMA journal_mode = MEMORY").fetchone() != ("memory",):
        raise ValueError("another program has it open")
    database.execute("BEGIN EXCLUSIVE")
    if database.execute(_MARK, marks).rowcount != 1:
        raise ValueError(changed)
    yield
    database.execute("COMMIT")


def _decrypted(database: sqlite3.Connection, head: dict[str, Any], key: bytes) -> bytearray:
    """Decrypt all parts of a checkpoint; refuse a wrong key or damaged parts."""
    (found,) = rows_of(database, f"SELECT count(*) AS n_parts FROM {_PARTS}")
    context, data = _context(head["kind"], found["n_parts"]), bytearray()
    nonce, encrypted_key = head["key"][:_NONCE_SIZE], head["key"][_NONCE_SIZE:]
    try:
        random_key = AESGCM(key).decrypt(nonce, encrypted_key, context)
        for number in range(found["n_parts"]):
            (row,) = rows_of(database, f"SELECT part FROM {_PARTS} WHERE number = {number}")
            data += AESGCM(random_key).decrypt(_nonce(number), row["part"], context)
    except InvalidTag:
        raise ValueError("the key is not that of this file, or the file is damaged") from None
    return data


def _nonce(number: int) -> bytes:
    return number.to_bytes(_NONCE_SIZE, "big")


def _context(kind: str, n_parts: int) -> bytes:
    """Return the associated data of every encryption: no part decrypts in another checkpoint."""
    return f"{kind}, {n_parts} parts".encode()
