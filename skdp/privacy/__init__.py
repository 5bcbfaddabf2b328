"""The only rooms that may let a private number out."""

from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.record import PrivacySpent, Release

__all__ = ["PrivacyBudget", "PrivacySpent", "Release"]
