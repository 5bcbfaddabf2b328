"""The only rooms that may let a private number out."""

from skdp.privacy.budget import PrivacyBudget, PrivacySpent, Release

__all__ = ["PrivacyBudget", "PrivacySpent", "Release"]
