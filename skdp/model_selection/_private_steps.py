"""The private steps of an estimator, such as a pipeline, and the noise that each of them has."""

from typing import Any

from sklearn.base import BaseEstimator

from skdp._estimator import PrivateEstimator
from skdp.privacy import gaussian_dp

__all__ = ["epsilon_of_mu", "mu_of", "private_steps"]

# Relative: an epsilon is rounded down by that much more, so that its mu is not above the one asked.
_SAFETY = 1e-9


def private_steps(estimator: BaseEstimator) -> dict[str, PrivateEstimator]:
    """Return the private estimators within another, by the prefix of their parameters.

    Parameters
    ----------
    estimator : estimator
        A private estimator, or one that holds some, such as a pipeline.

    Returns
    -------
    dict
        Prefixes, such as ``"dppca__"``, mapped to estimators; "" to the estimator itself.
    """
    if isinstance(estimator, PrivateEstimator):
        return {"": estimator}
    return {
        f"{name}__": value
        for name, value in estimator.get_params(deep=True).items()
        if isinstance(value, PrivateEstimator)
    }


def mu_of(step: Any) -> float:
    """Compute the mu that a fit of a private estimator spends."""
    return gaussian_dp.mu_from_epsilon_delta(
        float(step.epsilon), float(step.delta), step._reserved_tail()
    )


def epsilon_of_mu(step: Any, mu: float) -> float:
    """Compute the epsilon at which a private estimator spends that mu, rounded down."""
    tail = step._reserved_tail()
    return gaussian_dp.epsilon_at(mu * (1 - _SAFETY), float(step.delta), tail)
