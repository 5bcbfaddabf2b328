"""A file that limits what all fits on one dataset may cost together."""

from skdp.ledger._ledger import PrivacyLedger
from skdp.ledger._left_out import LEFT_OUT

__all__ = ["LEFT_OUT", "PrivacyLedger"]
