"""What a pickle holds in place of a ledger, whose path is not for everybody who gets a model."""

from typing import Any, NoReturn

from skdp.exceptions import LedgerError

__all__ = ["LEFT_OUT"]


class LeftOutLedger:
    """Stands for a ledger, and charges nothing; clones and pickles have the same one."""

    def charge(self, spent: Any, what: str = "", *, note: str | None = None) -> NoReturn:
        """Refuse to go on without the ledger."""
        raise LedgerError(
            "The pickle of what was fitted leaves its ledger out, which tells a path: pass the "
            "ledger again, as in set_params(ledger=PrivacyLedger(path)), before another fit."
        )

    def __sklearn_clone__(self) -> "LeftOutLedger":
        return self

    def __reduce__(self) -> str:
        return "LEFT_OUT"

    def __repr__(self) -> str:
        return "<left out>"


LEFT_OUT = LeftOutLedger()
