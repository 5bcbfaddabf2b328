"""Choosing settings: on public rows, by private searches, and before a fit."""

from skdp.model_selection._grid_search import DPGridSearch
from skdp.model_selection._matched_noise import epsilon_curve, matched_noise
from skdp.model_selection._planning import expected_subspace_error
from skdp.model_selection._private_score import PrivateScore, private_score
from skdp.model_selection._randomized_search import DPRandomizedSearch

__all__ = [
    "DPGridSearch",
    "DPRandomizedSearch",
    "PrivateScore",
    "epsilon_curve",
    "expected_subspace_error",
    "matched_noise",
    "private_score",
]
