"""Checks of the privacy of any estimator, which is seen from outside only."""

from skdp.testing._audit import (
    AuditReport,
    audit,
    error_bounds,
    lower_bound_of_epsilon,
    lower_bound_of_mu,
)
from skdp.testing._findings import (
    Finding,
    find_data_dependent_attributes,
    find_low_bits,
    find_repeated_noise,
)

__all__ = [
    "AuditReport",
    "Finding",
    "audit",
    "error_bounds",
    "find_data_dependent_attributes",
    "find_low_bits",
    "find_repeated_noise",
    "lower_bound_of_epsilon",
    "lower_bound_of_mu",
]
