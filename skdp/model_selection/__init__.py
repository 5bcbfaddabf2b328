"""What can be said about a private fit before it is made."""

from skdp.model_selection._planning import expected_subspace_error

__all__ = ["expected_subspace_error"]
