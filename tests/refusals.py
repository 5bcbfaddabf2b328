"""Refusals: they come before a budget is opened, and leave the estimator as it was."""

from unittest.mock import patch

import pytest

from skdp.privacy import PrivacyBudget

__all__ = ["refusal_of"]


def refusal_of(estimator, *arguments, **more):
    """Return the error of a fit that is refused."""
    before = dict(vars(estimator))
    no_budget = patch.object(PrivacyBudget, "of", lambda *_: pytest.fail("a budget was opened"))
    with no_budget, pytest.raises((ValueError, TypeError, RuntimeError)) as refused:
        estimator.fit(*arguments, **more)
    after = vars(estimator)
    assert list(after) == list(before)
    assert all(after[name] is before[name] for name in before)
    return refused
