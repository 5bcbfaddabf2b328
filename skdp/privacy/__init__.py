"""The budget of a fit, the only way for a private number to get out, and its accounting."""

from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.cost import PrivacyCost
from skdp.privacy.plan import Plan
from skdp.privacy.record import PrivacySpent
from skdp.privacy.release import Release, Released, Search

__all__ = ["Plan", "PrivacyBudget", "PrivacyCost", "PrivacySpent", "Release", "Released", "Search"]
