"""The budget of a fit, through which all private statistics are released, and its accounting."""

from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.plan import Plan, PrivacyCost
from skdp.privacy.releases import PrivacySpent, Release, Released, Search

__all__ = ["Plan", "PrivacyBudget", "PrivacyCost", "PrivacySpent", "Release", "Released", "Search"]
