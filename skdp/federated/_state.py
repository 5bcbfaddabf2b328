"""The state of an owner in a federated fit: in memory or, to survive a crash, in a file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from skdp.exceptions import FederationError
from skdp.federated._masks import digest
from skdp.ledger._database import UnsafeFileError, connected, insert, rows_of

if TYPE_CHECKING:
    import sqlite3

# A table of one row. The 1 in its name is the version of the format.
_TABLE = "skdp_owner_1"
# Two owners with one state would draw noise twice. So an owner replaces only the state that it has
# saved last (`old`), or the `new` state itself, which an interrupted save may have written.
_SAVE = f"UPDATE {_TABLE} SET state = :new WHERE state IN (:old, :new)"


@dataclass
class OwnerState:
    """Secret state of an owner: its key unmasks its counts, and a copy could draw new noise."""

    agreement: str  # digest of the agreement
    owner: int  # number of this owner
    fit: str  # random id of the fit in the ledger
    rows: str  # digest of the rows of this owner, salted by the id of the fit
    secret_key: str = ""  # key of this owner in this fit, until the fit ends
    publics: list[str] = field(default_factory=list)  # public keys of all owners
    is_charged: bool = False
    sums: list[str] = field(default_factory=list)  # sums of all releases so far, in hex
    # The absent owners of each release to which this owner has contributed.
    absent: list[list[int]] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)  # in hex, by digests of questions
    has_ended: bool = False

    def __post_init__(self) -> None:
        """Remember the text in the file, to notice if another owner changes the file."""
        self._saved = self._text()

    def save(self, path: Path | None) -> None:
        """Write the whole state to disk, or nothing of it."""
        if path is None:
            return
        if not path.exists():
            raise _written_by_others(path)
        states = {"old": self._saved, "new": self._text()}
        text = f"state={str(path)!r} cannot be written, and no answer is sent: "
        with connected(path, lambda why: OSError(f"{text}{why}.")) as database:
            if database.execute(_SAVE, states).rowcount != 1:
                raise _written_by_others(path)
        self._saved = states["new"]

    def _text(self) -> str:
        return json.dumps(asdict(self))


def load_state(path: Path | None, agreement: str, owner: int, rows: bytes) -> OwnerState:
    """Read the state of an owner who returns, or make a new one; refuse states of other fits."""
    # `rows` is a digest of the rows of the owner.
    fit = token_hex()
    new = OwnerState(agreement, owner, fit, _salted(rows, fit))
    if path is None:
        return new
    if not path.parent.is_dir():
        raise FederationError(f"state={str(path)!r} must be in a folder that exists.")
    if not path.exists():
        path.touch(0o600)
    with connected(path, partial(_not_read, path)) as database:
        state = OwnerState(**json.loads(_found_or_begun(database, path, new._saved)))
    expected = agreement, owner, _salted(rows, state.fit)
    if (state.agreement, state.owner, state.rows) != expected:
        raise FederationError(
            f"state={str(path)!r} belongs to another federation, to another owner or to other "
            "rows: an owner who returns needs the same three, and a new fit needs a new file."
        )
    return state


def _salted(rows: bytes, fit: str) -> str:
    """Hash a digest of rows with the id of the fit, so that two files do not show equal rows."""
    return digest(fit.encode(), rows).hex()


def _found_or_begun(database: sqlite3.Connection, path: Path, new: str) -> str:
    """Return the state in a file; if the file is empty, write the new state first."""
    database.execute("BEGIN IMMEDIATE")
    if not rows_of(database, "SELECT name FROM sqlite_master"):
        # Only this user may read the file; SQLite gives its journals the same mode.
        path.chmod(0o600)
        database.execute(f"CREATE TABLE {_TABLE} (state TEXT NOT NULL)")
        insert(database, _TABLE, {"state": new})
    (row,) = rows_of(database, f"SELECT state FROM {_TABLE}")
    database.execute("COMMIT")
    return str(row["state"])


def _written_by_others(path: Path) -> FederationError:
    return FederationError(
        f"state={str(path)!r} was written or removed by somebody else: only one owner at a time "
        "can use a state."
    )


def _not_read(path: Path, error: Exception) -> FederationError:
    # Texts of other errors are left out, as they could show a part of the state.
    why = error if isinstance(error, UnsafeFileError) else type(error).__name__
    return FederationError(f"state={str(path)!r} cannot be read as the state of an owner: {why}.")
