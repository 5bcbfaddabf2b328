"""The budget of a fit, the only way for a private number to get out, and its accounting."""

from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.plan import Plan, PrivacyCost
from skdp.privacy.releases import PrivacySpent, Release, Released, Search

__all__ = ["Plan", "PrivacyBudget", "PrivacyCost", "PrivacySpent", "Release", "Released", "Search"]
