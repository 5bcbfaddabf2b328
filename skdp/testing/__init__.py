"""Checks of privacy: of any estimator from outside, and of those on `skdp.privacy` from inside."""

from skdp.testing._audit import AuditReport, audit, lower_bound_of_epsilon, lower_bound_of_mu
from skdp.testing._case import PrivacyCase, replaced_rows, replaced_users
from skdp.testing._checks import check_privacy, parametrize_with_privacy_checks, privacy_checks
from skdp.testing._findings import (
    Finding,
    find_data_dependent_attributes,
    find_low_bits,
    find_repeated_noise,
)

__all__ = [
    "AuditReport",
    "Finding",
    "PrivacyCase",
    "audit",
    "check_privacy",
    "find_data_dependent_attributes",
    "find_low_bits",
    "find_repeated_noise",
    "lower_bound_of_epsilon",
    "lower_bound_of_mu",
    "parametrize_with_privacy_checks",
    "privacy_checks",
    "replaced_rows",
    "replaced_users",
]
