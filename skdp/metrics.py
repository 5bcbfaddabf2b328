"""Measures of how good a subspace is."""

from typing import Any

import numpy as np
from scipy.sparse import issparse

from skdp._checks import check_numbers, check_rows
from skdp.linalg import spectrum
from skdp.linalg.spectrum import orthonormal_basis, principal_sines

__all__ = ["captured_variance", "coherence", "subspace_distance"]


def subspace_distance(components: Any, reference: Any) -> float:
    """Sine of the largest principal angle between the spans of two sets of components.

    Parameters
    ----------
    components, reference : array-like of shape (n_components, n_features)
        Components as rows, as in ``components_``; they need not be orthonormal. `components` may
        span more dimensions than `reference`.

    Returns
    -------
    float
        0 if `reference` lies in the span of `components`, 1 if some direction of `reference` is
        orthogonal to that span.

    Notes
    -----
    **Privacy.** A function of its arguments; it is as private as they are. A reference computed
    from private rows is not private.

    Examples
    --------
    >>> from skdp.metrics import subspace_distance
    >>> subspace_distance([[1, 0, 0]], [[0.6, 0.8, 0]])
    0.8
    """
    bases = [
        orthonormal_basis(check_numbers(rows, "components").T) for rows in (components, reference)
    ]
    return float(principal_sines(*bases).max())


def captured_variance(components: Any, X: Any) -> float:
    """Fraction of the sum of squares of X that lies in the span of the components.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Components as rows, as in ``components_``; they need not be orthonormal.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows; pass centered rows for the fraction of the variance.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    ValueError
        If `components` has more rows than columns, as if X were passed in its place.

    Notes
    -----
    **Privacy.** A noise-free function of X, not covered by any guarantee.

    Examples
    --------
    >>> from skdp.metrics import captured_variance
    >>> captured_variance([[1, 0]], [[3, 4], [0, 0]])
    0.36
    """
    components = check_numbers(components, "components")
    if len(components) > components.shape[1]:
        raise ValueError(
            f"components has shape {components.shape}, but should have at most as many rows as "
            "columns: call captured_variance(components, X), not the other way round."
        )
    X = check_rows(X, "captured_variance").astype(np.float64, copy=False)
    basis = orthonormal_basis(components.T)
    total = X.multiply(X).sum() if issparse(X) else np.vdot(X, X)
    projections = X @ basis
    return float(np.vdot(projections, projections) / total) if total > 0 else 0.0


def coherence(components: Any) -> float:
    r"""Coherence of the span of the components: how much of it lies along a single feature.

    For k orthonormal rows :math:`V` with n columns it is :math:`(n / k) \max_j \|V_j\|^2`, where
    :math:`V_j` is the j-th column [1]_.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Linearly independent components as rows, as in ``components_``; they need not be
        orthonormal.

    Returns
    -------
    float
        1 if the subspace is spread evenly over the features, ``n_features / n_components`` if it
        contains the direction of a single feature.

    Raises
    ------
    ValueError
        If `components` has more rows than columns.

    Notes
    -----
    **Privacy.** A function of its argument; it is as private as that is. The coherence of noisy
    components is that of the noise where the noise dominates, and larger than that of the exact
    components if these are spread evenly.

    References
    ----------
    .. [1] E. J. Candès, B. Recht (2009). "Exact matrix completion via convex optimization".
       Foundations of Computational Mathematics 9(6). :doi:`10.1007/s10208-009-9045-5`

    Examples
    --------
    >>> from skdp.metrics import coherence
    >>> coherence([[1, 1, 1, 1]]), coherence([[2, 0, 0, 0]])
    (1.0, 4.0)
    """
    rows = check_numbers(components, "components")
    if len(rows) > rows.shape[1]:
        raise ValueError(
            f"components has shape {rows.shape}, but should have at most as many rows as columns: "
            "pass left singular vectors transposed."
        )
    return spectrum.coherence(orthonormal_basis(rows.T))
