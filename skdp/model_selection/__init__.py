"""Choosing hyperparameters on public rows or privately, and counting what whole jobs spend."""

from skdp.model_selection._fitted_steps import PrivacyStep
from skdp.model_selection._grid_search import DPGridSearch
from skdp.model_selection._matched_noise import epsilon_curve, matched_noise
from skdp.model_selection._planning import expected_subspace_error
from skdp.model_selection._privacy_report import PrivacyReport, privacy_spent
from skdp.model_selection._private_score import PrivateScore, private_score
from skdp.model_selection._randomized_search import DPRandomizedSearch
from skdp.model_selection._search_cost import SearchCost, search_cost

__all__ = [
    "DPGridSearch",
    "DPRandomizedSearch",
    "PrivacyReport",
    "PrivacyStep",
    "PrivateScore",
    "SearchCost",
    "epsilon_curve",
    "expected_subspace_error",
    "matched_noise",
    "privacy_spent",
    "private_score",
    "search_cost",
]
