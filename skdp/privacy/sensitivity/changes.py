r"""Changes of a whole matrix, whose norm the caller promises to be bounded."""

import numpy as np

from skdp.privacy.precision import in_double_precision

__all__ = ["frobenius_product", "spectral_product"]


@in_double_precision
def spectral_product(norms: np.ndarray) -> float:
    r"""Sensitivity of A Z to a change with :math:`\|C\|_2 \le 1`.

    :math:`\|C Z\|_F \le \|C\|_2 \|Z\|_F`, attained by the identity. For changes of rank one
    :math:`\|Z\|_2` would suffice. The sensitivity of :math:`Y^T A Z` is no larger for an
    orthonormal Y.
    """
    return float(np.linalg.norm(norms))


@in_double_precision
def frobenius_product(change: float, spectral_norm: float = 1.0) -> float:
    r"""Sensitivity of A Z to a change with :math:`\|C\|_F \le \Delta`: :math:`\Delta \|Z\|_2`.

    Attained by :math:`C = \Delta u v^T` with the leading left singular vector v of Z, so that a
    change of rank one costs the same as any other. `spectral_norm`, :math:`\|Z\|_2`, is 1 for an
    orthonormal Z. The sensitivity of :math:`Y^T A Z` is no larger for an orthonormal Y.
    """
    return change * spectral_norm
