"""Choosing hyperparameters on public rows or privately, and the total cost of jobs."""

from skdp.model_selection._planning import epsilon_curve, matched_noise
from skdp.model_selection._report import PrivacyReport, PrivacyStep, privacy_spent
from skdp.model_selection._score import PrivateScore, private_score
from skdp.model_selection._search import DPGridSearch, DPRandomizedSearch

__all__ = [
    "DPGridSearch",
    "DPRandomizedSearch",
    "PrivacyReport",
    "PrivacyStep",
    "PrivateScore",
    "epsilon_curve",
    "matched_noise",
    "privacy_spent",
    "private_score",
]
