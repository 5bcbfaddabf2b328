"""A file that limits what all fits on one dataset may cost together."""

from skdp.ledger._ledger import LEFT_OUT, PrivacyLedger

__all__ = ["LEFT_OUT", "PrivacyLedger"]
