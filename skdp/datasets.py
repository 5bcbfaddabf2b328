"""Synthetic data with a known subspace."""

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, validate_params

from skdp.linalg.subspace import orthonormal_basis

__all__ = ["make_spiked"]


@validate_params(
    {
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "n_features": [Interval(Integral, 1, None, closed="left")],
        "k": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def make_spiked(
    n_samples: int = 1000,
    n_features: int = 100,
    *,
    k: int = 5,
    random_state: Any = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Make rows near a random subspace: Gaussian scores of falling spread plus isotropic noise.

    The scores have standard deviations from 3 down to 2, the noise .5 in every feature; then all is
    scaled so that 95% of the rows have a Euclidean norm of at most 1.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of rows.
    n_features : int, default=100
        Number of features, at least `k`.
    k : int, default=5
        Dimension of the subspace.
    random_state : int, RandomState instance or None, default=None
        Seed of the data.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        The rows.
    components : ndarray of shape (k, n_features)
        Orthonormal basis of the subspace.

    Raises
    ------
    ValueError
        If `k` exceeds `n_features`.

    Examples
    --------
    >>> from skdp.datasets import make_spiked
    >>> X, components = make_spiked(200, 30, k=4, random_state=0)
    >>> X.shape, components.shape
    ((200, 30), (4, 30))
    """
    if k > n_features:
        raise ValueError(f"k={k} must be at most n_features={n_features}.")
    random = check_random_state(random_state)
    components = orthonormal_basis(random.normal(size=(n_features, k))).T
    X = (random.normal(size=(n_samples, k)) * np.linspace(3, 2, k)) @ components
    X += 0.5 * random.normal(size=(n_samples, n_features))
    X /= np.quantile(np.linalg.norm(X, axis=1), 0.95)
    return X, components
