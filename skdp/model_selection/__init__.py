"""What can be said about a private fit before it is made, and of whole pipelines afterwards."""

from skdp.model_selection._fitted_steps import PrivacyStep
from skdp.model_selection._matched_noise import epsilon_curve, matched_noise
from skdp.model_selection._planning import expected_subspace_error
from skdp.model_selection._privacy_report import PrivacyReport, privacy_spent
from skdp.model_selection._search_cost import SearchCost, search_cost

__all__ = [
    "PrivacyReport",
    "PrivacyStep",
    "SearchCost",
    "epsilon_curve",
    "expected_subspace_error",
    "matched_noise",
    "privacy_spent",
    "search_cost",
]
