r"""Gaussian differential privacy: one number, mu, and its exact conversions.

A mechanism is mu-GDP if telling two neighboring datasets apart by its output is at least as hard as
telling N(0, 1) and N(mu, 1) apart by a single draw [1]_. Adding Gaussian noise of standard
deviation ``sensitivity / mu`` is exactly mu-GDP, and adaptive composition adds the squares of the
mu. The (epsilon, delta) curve of a mu-GDP mechanism is exact [1]_, [2]_:

.. math:: \delta(\epsilon) = \Phi(-\epsilon/\mu + \mu/2) - e^\epsilon \Phi(-\epsilon/\mu - \mu/2).

A fit may be mu-GDP except for an event of probability at most `delta_tail`, after which nothing is
promised. That adds `delta_tail` to the curve of the fit and, by the union bound, to the curve of a
composition.

Every function rounds to the safe side, budgets down and spending up, by a relative ``1e-9``. This
margin exceeds the rounding error of the function itself, which computes in double precision
whatever the type of the arguments.

References
----------
.. [1] J. Dong, A. Roth, W. J. Su (2022). "Gaussian differential privacy". Journal of the Royal
   Statistical Society B 84(1). :doi:`10.1111/rssb.12454`
.. [2] B. Balle, Y.-X. Wang (2018). "Improving the Gaussian mechanism for differential privacy".
   ICML. :arxiv:`1805.06530`
"""

import math
from collections.abc import Callable, Iterable

from scipy.optimize import brentq
from scipy.special import erfcx, ndtr, ndtri

from skdp.privacy.precision import checked_delta, checked_nonnegative

__all__ = [
    "compose",
    "compose_tails",
    "delta_at",
    "epsilon_at",
    "mu_from_epsilon_delta",
    "rho_from_mu",
    "true_positives_at",
]

_SAFETY = 1e-9  # relative margin of all results; not tuned
_ROOT_TOLERANCE = 1e-14  # not tuned
_LARGEST_EPSILON = 1e200  # not tuned
_SMALLEST_MU = 1e-300  # a smaller mu becomes 0; not tuned
_SMALL_MU, _LARGE_MU = 3e-5, 1e7  # outside this range, approximations are exact enough; not tuned
# A larger delta counts as this one, because the logarithm of a delta near 1 loses digits. A smaller
# delta is a stronger guarantee.
_LARGEST_DELTA = 0.5  # not tuned
# Beyond this many standard deviations a tail probability underflows.
_FARTHEST = 1e3  # not tuned


def mu_from_epsilon_delta(epsilon: float, delta: float, delta_tail: float = 0.0) -> float:
    """Largest mu whose Gaussian mechanism is (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : float
        Dimensionless, ``0 < epsilon <= inf``.
    delta : float
        Probability, ``0 <= delta < 1``; above 0.5 it counts as 0.5.
    delta_tail : float, default=0.0
        Part of `delta` reserved for a tail event: 0 or below `delta`; below 1 if `epsilon` is
        infinite and `delta` positive.

    Returns
    -------
    float
        The mu, rounded down. It is ``inf`` if ``epsilon`` is ``inf``, and 0 if it would be below
        1e-300 or if ``delta`` is 0: no Gaussian noise has a finite epsilon then.

    Raises
    ------
    ValueError
        If ``epsilon``, ``delta`` or ``delta_tail`` is out of range.

    Examples
    --------
    >>> from skdp.privacy.gaussian_dp import mu_from_epsilon_delta
    >>> round(mu_from_epsilon_delta(1.0, 1e-6), 5)
    0.2367
    """
    epsilon, delta, delta_tail = float(epsilon), checked_delta(delta), float(delta_tail)
    if not epsilon > 0:
        raise ValueError(f"epsilon must be positive, got {epsilon!r}.")
    limit = 1.0 if math.isinf(epsilon) and delta > 0 else delta
    if delta_tail != 0 and not 0 < delta_tail < limit:
        raise ValueError(f"delta_tail must be 0, or below delta={delta!r}, got {delta_tail!r}.")
    if math.isinf(epsilon):
        return math.inf
    delta, epsilon = _without_tail(delta, delta_tail), min(epsilon, _LARGEST_EPSILON)
    if delta == 0 or _log_delta(_SMALLEST_MU, epsilon) > math.log(delta):
        return 0.0
    # At the largest mu in the bracket, delta rounds to 1: `near` in `_log_delta` is below -50.
    lower, upper = math.log(_SMALLEST_MU), math.log(2 * math.sqrt(2 * epsilon) + 200)
    log_mu = _root(lambda t: _log_delta(math.exp(t), epsilon) - math.log(delta), lower, upper)
    return math.exp(log_mu) * (1 - _SAFETY)


def delta_at(mu: float, epsilon: float, delta_tail: float = 0.0) -> float:
    """Smallest delta for which a mu-GDP mechanism is (epsilon, delta)-DP.

    Parameters
    ----------
    mu : float
        Dimensionless, ``0 <= mu <= inf``.
    epsilon : float
        Dimensionless, ``0 <= epsilon <= inf``.
    delta_tail : float, default=0.0
        Probability of the tail event, ``0 <= delta_tail <= 1``.

    Returns
    -------
    float
        The delta, rounded up, which includes `delta_tail`.

    Raises
    ------
    ValueError
        If ``mu`` or ``epsilon`` is negative or ``delta_tail`` out of range.

    Examples
    --------
    >>> from skdp.privacy.gaussian_dp import delta_at
    >>> round(delta_at(1.0, 1.0), 6)
    0.126937
    """
    mu, epsilon = checked_nonnegative("mu", mu), checked_nonnegative("epsilon", epsilon)
    delta_tail = _checked_tail(delta_tail)
    if mu == 0 or math.isinf(epsilon):
        return delta_tail
    if math.isinf(mu):
        return 1.0
    # `near` is a difference that may cancel: `cancellation` covers its error. A relative margin on
    # the smallest floats rounds to 0, so that the smallest positive float is added.
    near = abs(epsilon / mu - mu / 2)
    cancellation = 4 * 2.0**-53 * (epsilon / mu + mu / 2) * (1 + near)
    delta = math.exp(_log_delta(mu, epsilon)) * (1 + _SAFETY) * (1 + cancellation)
    return min(1.0, _add_up(delta + math.ulp(0.0), delta_tail))


def epsilon_at(mu: float, delta: float, delta_tail: float = 0.0) -> float:
    """Smallest epsilon for which a mu-GDP mechanism is (epsilon, delta)-DP.

    Parameters
    ----------
    mu : float
        Dimensionless, ``0 <= mu <= inf``.
    delta : float
        Probability, ``0 <= delta < 1``; above 0.5 it counts as 0.5.
    delta_tail : float, default=0.0
        Probability of the tail event, ``0 <= delta_tail <= 1``.

    Returns
    -------
    float
        The epsilon, rounded up. ``inf`` if ``delta`` is below ``delta_tail``, or if both are equal
        and ``mu`` is not 0.

    Raises
    ------
    ValueError
        If ``mu`` is negative or a probability out of range.

    Examples
    --------
    >>> from skdp.privacy.gaussian_dp import epsilon_at
    >>> round(epsilon_at(0.5, 1e-6), 4)
    2.2541
    """
    mu, delta = checked_nonnegative("mu", mu), checked_delta(delta)
    delta_tail = _checked_tail(delta_tail)
    if delta < delta_tail:
        return math.inf
    if mu == 0:
        return 0.0
    delta = _without_tail(delta, delta_tail)
    if math.isinf(mu) or delta == 0:
        return math.inf
    # Compare with the delta at epsilon 0, computed without cancellation: otherwise an epsilon that
    # must be positive could become 0.
    if math.erf(mu / math.sqrt(8)) * (1 + _ROOT_TOLERANCE) + math.ulp(0.0) <= delta:
        return 0.0
    # A tail bound of the normal law gives an upper bound of epsilon, exact enough for a large mu.
    upper = mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta))
    if mu > _LARGE_MU:
        return upper * (1 + _SAFETY)
    root = 0.0
    if _log_delta(mu, 0.0) > math.log(delta):
        root = _root(lambda e: math.log(delta) - _log_delta(mu, e), 0.0, upper + 1.0)
    return root * (1 + _SAFETY) + 2 * _ROOT_TOLERANCE


def compose(mus: Iterable[float]) -> float:
    """Compose mu-GDP mechanisms on the same data, whether or not chosen adaptively.

    Parameters
    ----------
    mus : iterable of float
        The mu of each mechanism.

    Returns
    -------
    float
        The mu of the whole, ``sqrt(sum mu_i ** 2)``, rounded up.

    Raises
    ------
    ValueError
        If a mu is negative.

    Examples
    --------
    >>> from skdp.privacy.gaussian_dp import compose
    >>> round(compose([0.3, 0.4]), 6)
    0.5
    """
    return math.hypot(*(checked_nonnegative("mu", mu) for mu in mus)) * (1 + _SAFETY)


def compose_tails(delta_tails: Iterable[float]) -> float:
    """Bound the probability that any of some tail events happens.

    Parameters
    ----------
    delta_tails : iterable of float
        The probability of each event, in [0, 1].

    Returns
    -------
    float
        The sum of the probabilities, rounded up, and at most 1.

    Raises
    ------
    ValueError
        If a probability is out of range.

    Examples
    --------
    >>> from skdp.privacy.gaussian_dp import compose_tails
    >>> round(compose_tails([1e-7, 2e-7]), 9)
    3e-07
    """
    return min(1.0, _add_up(*map(_checked_tail, delta_tails)))


def rho_from_mu(mu: float) -> float:
    """Compute the zero-concentrated differential privacy of a mu-GDP mechanism.

    Parameters
    ----------
    mu : float
        Dimensionless, ``0 <= mu <= inf``.

    Returns
    -------
    float
        The rho, ``mu ** 2 / 2``, rounded up, for zCDP accountants outside skdp.

    Examples
    --------
    >>> from skdp.privacy.gaussian_dp import rho_from_mu
    >>> round(rho_from_mu(1.0), 6)
    0.5
    """
    mu = checked_nonnegative("mu", mu)
    return mu * mu / 2 * (1 + _SAFETY)


def true_positives_at(mu: float, false_positives: float, delta_tail: float = 0.0) -> float:
    """Largest true positive rate of a test that guesses which of two neighboring datasets was used.

    Parameters
    ----------
    mu : float
        Dimensionless, ``0 <= mu <= inf``.
    false_positives : float
        Rate of false positives, ``0 <= false_positives < 1``.
    delta_tail : float, default=0.0
        Probability of the tail event, ``0 <= delta_tail <= 1``.

    Returns
    -------
    float
        The rate ``Phi(mu + inverse of Phi(false_positives))``, rounded up, plus `delta_tail`.

    Examples
    --------
    >>> from skdp.privacy.gaussian_dp import true_positives_at
    >>> round(true_positives_at(1.0, 0.01), 4)
    0.0924
    """
    rate = checked_delta(false_positives, "false_positives")
    mu = checked_nonnegative("mu", mu)
    found = 1.0 if math.isinf(mu) else float(ndtr(mu + float(ndtri(rate)))) * (1 + _SAFETY)
    return min(1.0, _add_up(found, _checked_tail(delta_tail)))


def _log_delta(mu: float, epsilon: float) -> float:
    """Return log(delta) of mu-GDP at an epsilon, without loss of digits in the tails."""
    # delta is Phi(-near) - exp(epsilon) Phi(-far).
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if near > _FARTHEST:
        return -math.inf
    # The density of N(0, 1) at `near` is exp(epsilon) times the density at `far`. Divided by the
    # density at `near`, both terms are Mills ratios, which neither underflow nor overflow.
    log_density = -near * near / 2 - 0.5 * math.log(2 * math.pi)
    if near < 0 and mu > _SMALL_MU:
        return math.log(float(ndtr(-near)) - math.exp(log_density) * _mills_ratio(far))
    if mu > _SMALL_MU:
        difference = _mills_ratio(near) - _mills_ratio(far)
    else:
        # The difference would cancel. Its Taylor series to first order in mu has a relative error
        # of at most mu ** 2 / 12.
        difference = mu * (1 - epsilon / mu * _mills_ratio(epsilon / mu))
    return math.log(difference) + log_density


def _mills_ratio(x: float) -> float:
    """Return the probability that N(0, 1) exceeds x, divided by the density at x."""
    return math.sqrt(math.pi / 2) * float(erfcx(x / math.sqrt(2)))


def _root(function: Callable[[float], float], lower: float, upper: float) -> float:
    """Return the number from `lower` to `upper` at which a function is 0."""
    return float(brentq(function, lower, upper, xtol=_ROOT_TOLERANCE, rtol=1e-13, maxiter=500))


def _add_up(*values: float) -> float:
    """Return the sum, rounded up."""
    total = math.fsum(values)
    return math.nextafter(total, math.inf) if math.fsum([*values, -total]) > 0 else total


def _without_tail(delta: float, delta_tail: float) -> float:
    """Return delta - delta_tail, rounded down, and at most `_LARGEST_DELTA`."""
    return min(max(0.0, -_add_up(-delta, delta_tail)), _LARGEST_DELTA)


def _checked_tail(delta_tail: float) -> float:
    """Return the probability as a float; refuse numbers outside [0, 1]."""
    if not 0 <= delta_tail <= 1:
        raise ValueError(f"delta_tail must lie in [0, 1], got {delta_tail!r}.")
    return float(delta_tail)
