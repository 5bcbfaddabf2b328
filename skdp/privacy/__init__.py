"""The only rooms that may let a private number out."""

from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.plan import Plan
from skdp.privacy.record import PrivacySpent
from skdp.privacy.release import Release, Released

__all__ = ["Plan", "PrivacyBudget", "PrivacySpent", "Release", "Released"]
