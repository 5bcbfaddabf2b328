"""What can be said about a private fit before it is made."""

from skdp.model_selection._matched_noise import epsilon_curve, matched_noise
from skdp.model_selection._planning import expected_subspace_error

__all__ = ["epsilon_curve", "expected_subspace_error", "matched_noise"]
