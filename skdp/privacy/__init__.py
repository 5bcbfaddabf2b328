"""The only rooms that may let a private number out."""

from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.plan import Plan, PlannedRelease
from skdp.privacy.record import PrivacySpent, Release, Released

__all__ = ["Plan", "PlannedRelease", "PrivacyBudget", "PrivacySpent", "Release", "Released"]
