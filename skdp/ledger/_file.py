"""The file of a ledger: an SQLite database whose constraints forbid to exceed the limit."""

from __future__ import annotations

import math
import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any

from skdp.exceptions import NEW_LEDGER, BudgetError, LedgerError, shown
from skdp.ledger._database import connected, insert, new_file, rows_of
from skdp.privacy import gaussian_dp, pure_dp
from skdp.privacy.plan import PrivacyCost, largest_epsilon

if TYPE_CHECKING:
    import sqlite3

# ------------------------------
# Costs of fits as integers, whose sums are exact in any order.

#: Number of units in the whole limit of a ledger.
WHOLE = 2**62  # not tuned
# Half of the relative margin by which `gaussian_dp.mu_from_epsilon_delta` rounds mu down.
_LESS_SAFETY = 5e-10  # not tuned
# Relative margin by which epsilon and mu of a sum of costs are rounded to the safe side.
_SAFETY = 1e-12  # not tuned


@dataclass(frozen=True)
class Limit:
    """The guarantee that all fits together may use up, its mu, and what fits have used so far."""

    epsilon: float
    delta: float
    mu: float
    spent: int = 0  # units of squared mu, or of epsilon if delta is 0
    tails: int = 0  # units of delta

    @classmethod
    def of(cls, epsilon: float, delta: float) -> Limit:
        """Compute the mu of a guarantee; refuse numbers out of range."""
        are_numbers = isinstance(epsilon, Real) and isinstance(delta, Real)
        if not are_numbers or not 0 < epsilon < math.inf or not 0 <= delta < 1:
            raise ValueError(
                "A limit needs numbers, 0 < epsilon < inf and 0 <= delta < 1, got "
                f"epsilon={shown(epsilon)} and delta={shown(delta)}."
            )
        cost = PrivacyCost(float(epsilon), float(delta))
        return cls(cost.epsilon, cost.delta, cost.mu)

    def cost_of(self, record: Any) -> tuple[int, int]:
        """Return the cost of a fit as two numbers of units, rounded up, from the record of the fit.

        The first number is a part of the squared mu of the limit, or of epsilon if delta is 0. The
        second is a part of delta: the probability of tail events, which void the guarantee.
        """
        if not 0 <= record.mu < math.inf:
            raise BudgetError("A fit with epsilon=inf has no privacy, and no cost to charge.")
        if self.delta == 0:
            if record.delta or record.delta_tail:
                raise BudgetError(
                    "The ledger has delta=0: charge only fits with delta=0 to it. Gaussian noise "
                    "needs another ledger, as PrivacyLedger.create(..., delta=1e-6) makes it."
                )
            return _units(Fraction(float(record.epsilon)), Fraction(self.epsilon)), 0
        return self._units_of(float(record.mu)), self.units_of_tail(float(record.delta_tail))

    def units_of_tail(self, delta_tail: float) -> int:
        """Convert a part of delta to units, rounded up."""
        return _units(Fraction(delta_tail), Fraction(self.delta)) if delta_tail else 0

    def left(self, tails: int = 0) -> int:
        """Return how many units are left for a fit that reserves `tails` of delta; -1 if none."""
        tails += self.tails
        if tails == 0:
            return WHOLE - self.spent
        if tails >= WHOLE:
            return -1
        delta_tail = math.nextafter(tails / WHOLE * self.delta, math.inf)
        if delta_tail >= self.delta:
            return -1
        mu = gaussian_dp.mu_from_epsilon_delta(self.epsilon, self.delta, delta_tail)
        # A fit with this tail that spends the whole limit costs `mu`, rounded up to units. Without
        # a margin this fit would be refused. The margin is safe: `mu` was rounded down by twice as
        # much.
        mu *= 1 + _LESS_SAFETY
        whole = min(WHOLE, math.floor(Fraction(mu) ** 2 / Fraction(self.mu) ** 2 * WHOLE))
        return whole - self.spent

    def epsilon_of_fit(
        self, units: int, delta: float | None = None, delta_tail: float = 0.0
    ) -> float:
        """Return the largest epsilon, rounded down, of a fit that costs `units` of the limit."""
        if units <= 0:
            return 0.0
        if self.delta == 0:
            return self.epsilon * (units / WHOLE) * (1 - _SAFETY)
        mu = self.mu * math.sqrt(units / WHOLE)
        delta = self.delta if delta is None else delta
        is_pure = delta == 0
        epsilon = pure_dp.epsilon_from_mu(mu) if is_pure else largest_epsilon(mu, delta, delta_tail)
        # The cost of epsilon is rounded up, so epsilon is lowered until it costs at most `units`.
        less = _SAFETY
        while epsilon > 0 and self._units_of(PrivacyCost(epsilon, delta, delta_tail).mu) > units:
            epsilon *= max(0.0, 1 - less)
            less *= 2
        return min(epsilon, self.epsilon) if delta <= self.delta else epsilon

    def spent_mu_and_epsilon(self) -> tuple[float, float]:
        """Convert spent units to mu, and to epsilon at the delta of the limit; round both up."""
        share = self.spent / WHOLE
        if self.delta == 0:
            epsilon = share * self.epsilon * (1 + _SAFETY)
            return pure_dp.mu_from_epsilon(epsilon), epsilon
        mu = self.mu * math.sqrt(share) * (1 + _SAFETY)
        tail = self.tails / WHOLE * self.delta
        return mu, gaussian_dp.epsilon_at(mu, self.delta, tail)

    def _units_of(self, mu: float) -> int:
        return _units(Fraction(mu) ** 2, Fraction(self.mu) ** 2)


def _units(part: Fraction, whole: Fraction) -> int:
    """Convert a part of the limit to units: round up in exact arithmetic, to one at least."""
    return max(1, math.ceil(part / whole * WHOLE))


# ------------------------------
# The file: tables, triggers, reading and writing.

# The letters "skdp", in hex.
_APPLICATION_ID, _VERSION = 0x736B6470, 2  # not tuned
#: Attributes of the record of a fit that are stored as floats.
NUMBERS = ("mu", "delta_tail", "epsilon", "delta")
# Columns of the tables `ledger` and `charge`, in order; both tables begin with a column `id`.
_HEAD: dict[str, Any] = {
    **dict.fromkeys(("uuid", "dataset", "units", "adjacency"), str),
    **dict.fromkeys(("epsilon", "delta", "mu"), float),
    **{"created": str, "spent": int, "tails": int},
}
_CHARGE: dict[str, Any] = {
    **dict.fromkeys(("time", "what", "unit"), str),
    **dict.fromkeys(NUMBERS, float),
    **dict.fromkeys(("seeded", "enforced", "spent", "tails"), int),
    **dict.fromkeys(("note", "fit"), str | None),
}
_SQL: dict[Any, str] = {str: "TEXT NOT NULL", float: "REAL NOT NULL", int: "INTEGER NOT NULL"}
_SQL[str | None] = "TEXT"
# Largest relative difference that is accepted between the mu in the file, which another version of
# skdp may have computed, and the mu that this version computes from epsilon and delta.
_SAME = 1e-8  # not tuned


def _table(name: str, key: str, columns: dict[str, Any], least_spent: int) -> str:
    """Return the SQL that makes a table, with limits on its columns that count units."""
    lines = [f"id INTEGER PRIMARY KEY {key}"]
    lines += [f"{column} {_SQL[kind]}" for column, kind in columns.items()]
    lines += [
        f"CHECK (typeof({count}) = 'integer' AND {count} BETWEEN {least} AND {WHOLE})"
        for count, least in {"spent": least_spent, "tails": 0}.items()
    ]
    return f"CREATE TABLE {name} ({', '.join(lines)});"


# Not tuned.
_SCHEMA = f"""
{_table("ledger", "CHECK (id = 1)", _HEAD, 0)}
{_table("charge", "AUTOINCREMENT", _CHARGE, 1)}
CREATE TABLE answered (fit TEXT PRIMARY KEY);
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
    if not os.path.isdir(folder := os.path.dirname(path)):
        raise LedgerError(f"The folder {folder!r} does not exist: make it before the ledger.")
    try:
        # After an interruption, `new_file` removes the incomplete file, which has no charges yet.
        with new_file(path, 0o660), connected(path, partial(_failed, path)) as database:
            database.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            # executescript commits first, so the script itself begins the transaction.
            database.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {_VERSION};")
            insert(database, "ledger", {"id": 1, **head})
            database.execute("COMMIT")
    except FileExistsError:
        raise LedgerError(
            f"There is a file or folder at {path!r}. PrivacyLedger(path) opens a ledger; a new one "
            "needs another path."
        ) from None


def open_file(path: str, *, writes: bool = False) -> AbstractContextManager[sqlite3.Connection]:
    """Open the file of an existing ledger for one operation."""
    if not os.path.exists(path):
        raise LedgerError(
            f"There is no ledger at {path!r}. A missing file is no unspent budget: restore the "
            "file or, for data that no fit has used, make one by "
            f"{NEW_LEDGER}; if each person is one row, pass unit=('row', 'record') to it, too."
        )
    return connected(path, partial(_failed, path), writes=writes)


def _failed(path: str, error: Exception) -> LedgerError:
    """Return the error about a file that cannot be used."""
    cure = f" {NEW_LEDGER} makes one." if "not a database" in str(error) else ""
    text = f"The ledger {path!r} cannot be used, and nothing may be released: {error}.{cure}"
    return LedgerError(text)


def read_head(database: sqlite3.Connection, path: str) -> dict[str, Any]:
    """Read the limit of a ledger and the sums of its charges; refuse a file that is no ledger."""
    if rows_of(database, "PRAGMA application_id") != [{"application_id": _APPLICATION_ID}]:
        raise LedgerError(f"{path!r} is not a ledger.")
    if rows_of(database, "PRAGMA user_version") != [{"user_version": _VERSION}]:
        raise LedgerError(f"{path!r} was written by another version of skdp.")
    heads = rows_of(database, "SELECT * FROM ledger")
    if len(heads) != 1:
        raise LedgerError(f"{path!r} is not a ledger: it has no limit.")
    if not _is_sound(heads[0]):
        raise LedgerError(f"{path!r} is damaged: its limit was changed.")
    return heads[0]


def _is_sound(head: dict[str, Any]) -> bool:
    """Return whether the limit is valid: a raised epsilon or delta contradicts the stored mu."""
    if not _has_types(head, _HEAD):
        return False
    try:
        limit = Limit.of(head["epsilon"], head["delta"])
    except ValueError:
        return False
    are_within = all(0 <= head[name] <= WHOLE for name in ("spent", "tails"))
    is_same = math.isclose(limit.mu, head["mu"], rel_tol=_SAME)
    return is_same and are_within and head["units"] != ""


def _has_types(row: dict[str, Any], columns: dict[str, Any]) -> bool:
    kinds = {"id": int, **columns}
    return row.keys() == kinds.keys() and all(isinstance(row[one], kinds[one]) for one in row)


def read_charges(database: sqlite3.Connection, path: str) -> list[dict[str, Any]]:
    """Read all charges, oldest first; refuse a file with a damaged charge."""
    charges = rows_of(database, "SELECT * FROM charge ORDER BY id")
    for charge in charges:
        is_sound = _has_types(charge, _CHARGE) and 0 <= charge["mu"] < math.inf
        if not (is_sound and 0 <= charge["delta_tail"] < 1):
            raise LedgerError(f"{path!r} is damaged: a charge was changed.")
        del charge["fit"]  # of interest to the owners of a federated fit only
    return charges


def check_sums(database: sqlite3.Connection, head: dict[str, Any], path: str) -> None:
    """Refuse a file that lacks charges, or whose charges do not add up to the sums in its head."""
    (sums,) = rows_of(
        database,
        "SELECT coalesce(sum(spent), 0) AS spent, coalesce(sum(tails), 0) AS tails, "
        "count(*) AS n_charges, coalesce(max(id), 0) AS last_id FROM charge",
    )
    # Ids count from 1, so a removed charge makes the last id exceed the number of charges.
    is_whole = sums["n_charges"] == sums["last_id"]
    if not is_whole or any(sums[name] != head[name] for name in ("spent", "tails")):
        raise LedgerError(f"{path!r} does not add up: charges were removed or changed.")
