"""The newest state of each ledger that this process has seen: a file with less is an old copy."""

import sqlite3
from typing import Any, NamedTuple

from skdp.exceptions import LedgerError
from skdp.ledger._file import rows_of


class Seen(NamedTuple):
    """State of a ledger: its totals, which never fall, and its newest charge.

    The charge is compared, too: another copy may have reached the same totals by other charges.
    """

    uuid: str
    spent: int
    tails: int
    last: dict[str, Any] | None


# The keys are uuids. Whoever reads or writes a file holds the one lock for all files; it guards
# this dict, too.
_SEEN: dict[str, Seen] = {}


def check_seen(database: sqlite3.Connection, path: str) -> None:
    """Refuse a file that lacks charges that were seen in it; remember its state."""
    now = read_seen(database)
    before = _SEEN.get(now.uuid, now)
    if now.spent < before.spent or now.tails < before.tails or not _has(database, before.last):
        raise LedgerError(
            f"{path!r} lacks charges that this process has seen in it: an older copy has taken its "
            "place, and nothing may be released. Put the newest file back."
        )
    remember(now)


def read_seen(database: sqlite3.Connection) -> Seen:
    """Read the state of a ledger."""
    (totals,) = rows_of(database, "SELECT uuid, spent, tails FROM ledger")
    newest = rows_of(database, "SELECT * FROM charge ORDER BY id DESC LIMIT 1")
    return Seen(**totals, last=newest[0] if newest else None)


def remember(seen: Seen) -> None:
    """Remember the state of a ledger."""
    _SEEN[seen.uuid] = seen


def _has(database: sqlite3.Connection, charge: dict[str, Any] | None) -> bool:
    if charge is None:
        return True
    return rows_of(database, f"SELECT * FROM charge WHERE id = {charge['id']:d}") == [charge]
