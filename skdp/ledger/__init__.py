"""A file that limits the total cost of all fits on one dataset."""

from skdp.ledger._ledger import LEFT_OUT, PrivacyLedger

__all__ = ["LEFT_OUT", "PrivacyLedger"]
