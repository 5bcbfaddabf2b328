"""Fits of rows that stay with their owners: one fit that all parties run, and secure sums."""

from skdp.federated._federation import Coordinator, Federation
from skdp.federated._owner import Owner

__all__ = ["Coordinator", "Federation", "Owner"]
