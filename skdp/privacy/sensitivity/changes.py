r"""Changes of a whole matrix, of spectral norm at most 1, as promised by the caller."""

import numpy as np

from skdp.privacy.precision import in_double_precision

__all__ = [
    "spectral_product",
]


@in_double_precision
def spectral_product(norms: np.ndarray) -> float:
    r"""Sensitivity of A Z to a change with :math:`\|C\|_2 \le 1`.

    :math:`\|C Z\|_F \le \|C\|_2 \|Z\|_F`. Changes of rank one do with :math:`\|Z\|_2`; the identity
    attains the bound. That of :math:`Y^T A Z` is no larger for an orthonormal Y.
    """
    return float(np.linalg.norm(norms))
