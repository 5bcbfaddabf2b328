"""Placeholder for a ledger in pickles: not everybody who gets a model may see a path."""

from typing import Any, NoReturn

from skdp.exceptions import LedgerError


class LeftOutLedger:
    """Placeholder for a ledger, which charges nothing; there is a single instance."""

    def charge(self, spent: Any, what: str = "", *, note: str | None = None) -> NoReturn:
        """Refuse to go on without the ledger."""
        raise LedgerError(
            "The pickle of a fitted object leaves its ledger out, which holds a path: pass the "
            "ledger again, as in set_params(ledger=PrivacyLedger(path)), before another fit."
        )

    def __sklearn_clone__(self) -> "LeftOutLedger":
        return self

    def __reduce__(self) -> str:
        return "LEFT_OUT"

    def __repr__(self) -> str:
        return "<left out>"


LEFT_OUT = LeftOutLedger()
