"""Charges to a ledger for `speed.py`, in a file of its own on the disk of temporary files."""

import atexit
import shutil
import sqlite3
import tempfile
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from skdp import DPPCA, PrivacyLedger

EPSILON = 0.01
COPIES = """
WITH RECURSIVE copy (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM copy WHERE number < ?)
INSERT INTO charge ({columns}) SELECT {columns} FROM charge, copy WHERE charge.id = 1
"""

_names = count()


def small_pca(ledger: PrivacyLedger | None = None) -> DPPCA:
    return DPPCA(5, row_norm=5.0, mean_norm=5.0, epsilon=EPSILON, ledger=ledger)


def new_ledger() -> PrivacyLedger:
    """Make a ledger with room for more than is charged here."""
    path = _folder() / f"{next(_names)}.skdp"
    return PrivacyLedger.create(path, dataset="noise", epsilon=100.0, delta=1e-6)


class Charge:
    """A charge to a ledger that has that many already; the ledger is made before the clock."""

    def __init__(self, n_before: int) -> None:
        self.ledger = new_ledger()
        rows = np.random.default_rng(0).normal(size=(100, 20))
        self.spent = small_pca().fit(rows).privacy_spent_
        if n_before:
            self.ledger.charge(self.spent, "the first")
            _copy_first(self.ledger.path, n_before - 1)

    def fit(self, X: Any) -> None:
        self.ledger.charge(self.spent, "one more")


def _copy_first(path: str, times: int) -> None:
    """Charge it again in one transaction: one by one they would take minutes."""
    with closing(sqlite3.connect(path)) as database, database:
        described = database.execute("PRAGMA table_info(charge)").fetchall()
        columns = ", ".join(name for _, name, *_ in described if name != "id")
        database.execute(COPIES.format(columns=columns), (times,))


def _folder() -> Path:
    folder = tempfile.mkdtemp(prefix="skdp-speed-")
    atexit.register(shutil.rmtree, folder)
    return Path(folder)
