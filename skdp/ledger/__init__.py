"""A limit, kept in a file, of what all fits on one dataset may cost together."""

from skdp.ledger._ledger import PrivacyLedger

__all__ = ["PrivacyLedger"]
