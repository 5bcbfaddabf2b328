r"""Pure differential privacy: one number, epsilon, and the mu of Gaussian DP that it implies.

Under epsilon-DP, neighboring datasets are at least as hard to tell apart as the two inputs of
randomized response, whose answer is true with probability :math:`1/(1 + e^{-\epsilon})` [1]_. The
best test whose errors of first and second kind are equal has errors of :math:`1/(1 + e^\epsilon)`
for randomized response, and of :math:`\Phi(-\mu/2)` for mu-GDP. The trade-off curve of mu-GDP is
convex, and that of randomized response consists of two straight lines that meet where the errors
are equal. Thus epsilon-DP implies mu-GDP if, and only if,

.. math:: \mu \geq 2 \Phi^{-1}\left(\frac{e^\epsilon}{1 + e^\epsilon}\right).

Every function rounds to the safe side by a relative ``1e-9``. Arithmetic is in double precision,
whatever the type of the arguments.

References
----------
.. [1] J. Dong, A. Roth, W. J. Su (2022). "Gaussian differential privacy". Journal of the Royal
   Statistical Society B 84(1). :doi:`10.1111/rssb.12454`
"""

import math
import sys

from scipy.special import erf, erfinv, log_expit, log_ndtr, ndtri_exp

from skdp.privacy.precision import checked_delta, checked_nonnegative

__all__ = ["delta_at", "epsilon_at", "epsilon_from_mu", "mu_from_epsilon"]

_SAFETY = 1e-9  # not tuned
_ROUNDING = 1e-14  # not tuned
# Below this epsilon or mu, formulas for the center of the normal law are exact, and formulas for
# its tails cancel. Above, formulas for the center cancel.
_CENTER = 2.0  # not tuned


def mu_from_epsilon(epsilon: float) -> float:
    """Smallest mu for which every epsilon-DP mechanism is mu-GDP.

    Parameters
    ----------
    epsilon : float
        Dimensionless, ``0 <= epsilon <= inf``.

    Returns
    -------
    float
        The mu, rounded up.

    Raises
    ------
    ValueError
        If ``epsilon`` is negative.

    Examples
    --------
    >>> from skdp.privacy.pure_dp import mu_from_epsilon
    >>> round(mu_from_epsilon(1.0), 4)
    1.2321
    """
    epsilon = checked_nonnegative("epsilon", epsilon)
    if math.isinf(epsilon):
        return math.inf
    if epsilon < _CENTER:
        mu = math.sqrt(8) * float(erfinv(math.tanh(epsilon / 2)))
    else:
        mu = -2 * float(ndtri_exp(log_expit(-epsilon)))
    return mu * (1 + _SAFETY)


def epsilon_from_mu(mu: float) -> float:
    """Largest epsilon for which every epsilon-DP mechanism is mu-GDP.

    Parameters
    ----------
    mu : float
        Dimensionless, ``0 <= mu <= inf``.

    Returns
    -------
    float
        The epsilon, rounded down.

    Raises
    ------
    ValueError
        If ``mu`` is negative.

    Examples
    --------
    >>> from skdp.privacy.pure_dp import epsilon_from_mu
    >>> round(epsilon_from_mu(1.0), 4)
    0.807
    """
    mu = checked_nonnegative("mu", mu)
    if math.isinf(mu):
        return math.inf
    if mu < _CENTER:
        epsilon = 2 * math.atanh(float(erf(mu / math.sqrt(8))))
    else:
        epsilon = float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))
    return min(epsilon, sys.float_info.max) * (1 - _SAFETY)


def delta_at(pure_epsilon: float, epsilon: float) -> float:
    r"""Smallest delta for which all pure_epsilon-DP mechanisms are (epsilon, delta)-DP.

    .. math:: \delta = \max\left(0, \frac{e^{\epsilon_0} - e^\epsilon}{1 + e^{\epsilon_0}}\right),

    where :math:`\epsilon_0` is `pure_epsilon`.

    Parameters
    ----------
    pure_epsilon : float
        The mechanism is pure_epsilon-DP, ``0 <= pure_epsilon <= inf``.
    epsilon : float
        Dimensionless, ``0 <= epsilon <= inf``.

    Returns
    -------
    float
        The delta, rounded up.

    Raises
    ------
    ValueError
        If an argument is negative.

    Examples
    --------
    >>> from skdp.privacy.pure_dp import delta_at
    >>> delta_at(1.0, 1.0)
    0.0
    >>> round(delta_at(1.0, 0.5), 4)
    0.2876
    """
    pure_epsilon = checked_nonnegative("pure_epsilon", pure_epsilon)
    epsilon = checked_nonnegative("epsilon", epsilon)
    if epsilon >= pure_epsilon:
        return 0.0
    delta = -math.expm1(epsilon - pure_epsilon) / (1 + math.exp(-pure_epsilon))
    return min(1.0, delta * (1 + _SAFETY))


def epsilon_at(pure_epsilon: float, delta: float) -> float:
    """Smallest epsilon for which all pure_epsilon-DP mechanisms are (epsilon, delta)-DP.

    Parameters
    ----------
    pure_epsilon : float
        The mechanism is pure_epsilon-DP, ``0 <= pure_epsilon <= inf``.
    delta : float
        Probability, ``0 <= delta < 1``.

    Returns
    -------
    float
        The epsilon, rounded up, and `pure_epsilon` itself if `delta` is 0.

    Raises
    ------
    ValueError
        If ``pure_epsilon`` is negative or ``delta`` not in [0, 1).

    Examples
    --------
    >>> from skdp.privacy.pure_dp import epsilon_at
    >>> epsilon_at(1.0, 0.0)
    1.0
    >>> round(epsilon_at(1.0, 0.1), 4)
    0.8529
    """
    pure_epsilon = checked_nonnegative("pure_epsilon", pure_epsilon)
    delta = checked_delta(delta)
    if math.isinf(pure_epsilon):
        return math.inf
    if delta >= delta_at(pure_epsilon, 0.0):
        return 0.0
    # In this order nothing cancels for a delta near 1. Rounding may make the difference 0 or less:
    # then `max` gives a logarithm near -708, and epsilon becomes 0.
    shrunk = max(sys.float_info.min, (1 - delta) - delta * math.exp(-pure_epsilon))
    epsilon = max(0.0, pure_epsilon + math.log(shrunk))
    return min(pure_epsilon, epsilon * (1 + _SAFETY) + _ROUNDING * (1 + pure_epsilon))
