"""Rounding of releases to a public lattice: low bits tell nothing of the value behind the noise.

Noise that is computed in floating point does not reach every number. From the low bits of a release
and the noise std, one could tell which values the release can have come from [1]_. So every release
is rounded to a multiple of a public power of two. Noise reaches each multiple from any value, with
nearly the probability that noise in exact arithmetic has. A noise std that is larger by
`SCALE_MARGIN` pays for the difference, for as many numbers as `largest_size` allows. The proof is
in the documentation, under "Floating point".

References
----------
.. [1] I. Mironov (2012). "On significance of the least significant bits for differential privacy".
   CCS. :doi:`10.1145/2382196.2382264`
"""

import math

import numpy as np
from scipy.special import ndtri

__all__ = ["SCALE_MARGIN", "certain_part", "largest_size", "lattice_step", "round_to_lattice"]

#: Relative: by how much a noise std exceeds the one that suffices in exact arithmetic.
SCALE_MARGIN = 1e-4  # not tuned

# The entries of a row share one radius. Errors of this radius add up, while independent errors add
# in squares.
_LONGEST_ROW = 150  # not tuned


def lattice_step(noise_std: float) -> float:
    """Return the power of two between 1/32 and 1/16 of a noise std.

    Rounding to its multiples adds at most 0.033 per cent to the variance of the noise.
    """
    return math.ldexp(1.0, math.frexp(noise_std)[1] - 5)


def round_to_lattice(values: np.ndarray, noise_std: float) -> np.ndarray:
    """Round values in place to multiples of the lattice step of a noise std.

    Division and multiplication by a power of two are exact, so that the result depends on nothing
    but the values and the step. Values beyond the largest number times the step become infinite.
    """
    step = lattice_step(noise_std)
    with np.errstate(over="ignore", under="ignore"):
        values /= step
        np.rint(values, out=values)
        values *= step
    # A number just below 0 has become -0, and the sign would tell on which side it was.
    values += 0.0
    return values


def largest_size(mechanism: str, mu_or_epsilon: float, joint_entries: int = 1) -> float:
    """Compute the largest count of distinct numbers in a release that `SCALE_MARGIN` pays for.

    A symmetric matrix has n (n + 1) / 2 distinct numbers. `mu_or_epsilon` is an epsilon for Laplace
    and spherical noise, and a mu for other noise. `joint_entries` is how many entries share one
    draw of Laplace noise.
    """
    # The constants are a little below those of the proof.
    if mechanism in ("gaussian", "symmetric_gaussian"):
        root = 7e6 * mu_or_epsilon
    elif mechanism == "laplace" and joint_entries <= _LONGEST_ROW:
        root = 5e5 * mu_or_epsilon
    else:
        return 2e7 * mu_or_epsilon
    # A product may become infinite, where a power would raise an error.
    return root * root


def certain_part(released: float, noise_std: float, failure: float) -> float:
    """Bound the value behind a release from below, except with probability at most `failure`.

    The release is lowered by the quantile of Gaussian noise, and by one step of the lattice, since
    rounding raises a release by up to half a step.
    """
    if noise_std == 0:
        return released
    return released + noise_std * float(ndtri(failure)) - lattice_step(noise_std)
