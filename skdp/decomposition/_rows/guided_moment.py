r"""A noisy second moment, decomposed beside the direction of the released mean.

Its leading vector is nearly the mean direction m, along which the noise is that of a single number.
What the matrix says of the first vector beside m is shrunk to what stands out from the noise; the
rest is deflated by it, and its noisy vectors count for the variance that they capture rather than
for their eigenvalues.
"""

import numpy as np

from skdp.decomposition._factors import Factors
from skdp.decomposition._rows.moment import decompose
from skdp.linalg.spectrum import noise_edge

__all__ = ["decompose_beside"]

# The mean direction has to hold so many times what noise or an average direction has.
_LEAST_VALUE = 3.0
# Far enough for no eigenvalue to be beyond.
_FAR = 10.0
# Vectors that capture nothing keep their order.
_ORDER = 1e-9


def decompose_beside(
    noisy: np.ndarray, scale: float, axis: np.ndarray, squared_bound: float = 1.0
) -> Factors:
    """Decompose a released second moment whose noise has the given scale, beside a direction.

    All are relative to `squared_bound`.
    """
    n_features = len(noisy)
    along, value = noisy @ axis, float(axis @ noisy @ axis)
    if value < _LEAST_VALUE * max(scale, float(np.trace(noisy)) / n_features):
        return decompose(noisy, scale, squared_bound)
    entry_scale = scale * np.sqrt(0.5)
    cross = along - value * axis
    noise = (n_features - 1) * np.square(entry_scale / max(float(np.linalg.norm(cross)), 1e-300))
    kept = max(1.0 - noise, 0.0) * cross
    lead = axis + kept / value
    rest = noisy - np.outer(axis, along) - np.outer(cross, axis) - np.outer(kept, kept) / value
    rest -= _FAR * np.linalg.norm(noisy) * np.outer(axis, axis)
    eigenvalues, vectors = np.linalg.eigh(rest)
    # Without the axis, which is last.
    eigenvalues, vectors = eigenvalues[:0:-1], vectors[:, :0:-1]
    captured = _captured(eigenvalues, entry_scale)
    clean = (vectors * captured) @ vectors.T + value * np.outer(lead, lead)
    values, turned = np.linalg.eigh(clean)
    return Factors(
        components=turned.T[::-1],
        eigenvalues=squared_bound * np.maximum(values[::-1], 0.0),
        total=squared_bound * float(np.trace(noisy)),
        noise_scale=squared_bound * scale,
        n_above_noise=1 + int(np.sum(eigenvalues > noise_edge(entry_scale, n_features))),
    )


def _captured(eigenvalues: np.ndarray, entry_scale: float) -> np.ndarray:
    """Estimate the variance along noisy eigenvectors: noise pushes it down as it pushes them up."""
    with np.errstate(divide="ignore"):
        gaps = eigenvalues[:, np.newaxis] - eigenvalues
        pushes = entry_scale * np.triu(entry_scale / gaps, 1).sum(axis=1)
    pushes = np.minimum(pushes, entry_scale * np.sqrt(len(eigenvalues)))
    captured = np.maximum(eigenvalues - 2 * pushes, 0.0)
    return np.asarray(np.minimum.accumulate(captured) + _ORDER * np.maximum(eigenvalues, 0.0))
