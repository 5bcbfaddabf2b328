"""A noisy second moment, decomposed beside the direction of the released mean.

Its leading vector is nearly the mean direction m, along which the noise is that of a single number.
What the matrix says of the first vector beside m is shrunk to what stands out from the noise. The
rest is deflated by it. Its noisy vectors count for the variance that they capture, and not for
their eigenvalues.
"""

import numpy as np

from skdp.decomposition._factors import Factors
from skdp.decomposition._rows.moment import decompose
from skdp.linalg.spectrum import eigenvalue_pushes, noise_edge

__all__ = ["decompose_along", "decompose_beside"]

# The mean direction has to hold so many times what noise or an average direction has.
_LEAST_VALUE = 3.0  # not studied
# Far enough for no eigenvalue to be beyond.
_FAR = 10.0  # not tuned


def decompose_beside(
    noisy: np.ndarray, noise_std: float, axis: np.ndarray, squared_bound: float = 1.0
) -> Factors:
    """Decompose a released second moment beside a direction, unless that holds little.

    The moment and its scale are relative to `squared_bound`.
    """
    value, total = float(axis @ noisy @ axis), float(np.trace(noisy))
    if value < _LEAST_VALUE * max(noise_std, total / len(noisy)):
        return decompose(noisy, noise_std, squared_bound)
    return decompose_along(noisy, noise_std, axis, squared_bound)


def decompose_along(
    noisy: np.ndarray, noise_std: float, axis: np.ndarray, squared_bound: float = 1.0
) -> Factors:
    """Decompose the moment beside a direction that holds something."""
    # Squares of its entries must not overflow.
    unit = max(float(noisy.max()), -float(noisy.min()))
    noisy, noise_std, squared_bound = noisy / unit, noise_std / unit, squared_bound * unit
    along, off_diagonal_std = noisy @ axis, noise_std * np.sqrt(0.5)
    value = float(axis @ along)
    cross = _shrunk_cross(along - value * axis, off_diagonal_std)
    eigenvalues, vectors = _decompose_rest(noisy, axis, along, cross / np.sqrt(value))
    # Noise pushes the variance along a vector down as it pushes its eigenvalue up.
    captured = eigenvalues - 2 * eigenvalue_pushes(eigenvalues, off_diagonal_std)
    captured = np.maximum(np.minimum.accumulate(captured), 0.0)
    values, components = _joined(value, axis + cross / value, axis, captured, vectors)
    return Factors(
        components=components,
        eigenvalues=squared_bound * values,
        total=squared_bound * float(np.trace(noisy)),
        eigenvalue_noise=squared_bound * noise_std,
        n_above_noise=1 + int(np.sum(eigenvalues > noise_edge(off_diagonal_std, len(noisy)))),
    )


def _shrunk_cross(cross: np.ndarray, off_diagonal_std: float) -> np.ndarray:
    """Shrink a vector to what stands out from noise in its entries."""
    length = float(np.linalg.norm(cross))
    noise_ratio = (len(cross) - 1) * np.square(
        off_diagonal_std / max(length, np.finfo(np.float64).tiny)
    )
    return max(1.0 - noise_ratio, 0.0) * cross


def _decompose_rest(
    noisy: np.ndarray, axis: np.ndarray, along: np.ndarray, deflation: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Decompose what is left beside the axis; return eigenvalues, descending, and columns."""
    beside = along - (axis @ along) * axis
    far = along + _FAR * (np.linalg.norm(noisy) + deflation @ deflation) * axis
    rest = noisy - np.column_stack([axis, beside, deflation]) @ np.array([far, axis, deflation])
    eigenvalues, vectors = np.linalg.eigh(rest)
    # The axis is last.
    return eigenvalues[:0:-1], vectors[:, :0:-1]


def _joined(
    value: float, lead: np.ndarray, axis: np.ndarray, captured: np.ndarray, vectors: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Decompose ``value * outer(lead, lead) + vectors @ diag(captured) @ vectors.T``.

    All of it lies in the axis, the vectors that capture something, and one beyond them.
    """
    n_kept = int(np.count_nonzero(captured))
    rest = _turned(vectors[:, n_kept:], lead)
    basis = np.column_stack([axis, vectors[:, :n_kept], rest[:, :1]])
    held = np.zeros(basis.shape[1])
    held[1 : n_kept + 1] = captured[:n_kept]
    coordinates = basis.T @ lead
    values, turn = np.linalg.eigh(np.diag(held) + value * np.outer(coordinates, coordinates))
    # The least is 0 where a vector has been added beyond the kept ones: it goes last.
    *leading, least = (basis @ turn[:, ::-1]).T
    components = np.vstack([*leading, rest[:, 1:].T, least])
    eigenvalues = np.zeros(len(axis))
    eigenvalues[: len(values)] = np.maximum(values[::-1], 0.0)
    return eigenvalues, components


def _turned(vectors: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Reflect orthonormal columns within their span, the first to what they hold of `target`."""
    normal = vectors.T @ target
    if not normal.any():
        return vectors
    normal[0] += np.copysign(np.linalg.norm(normal), normal[0])
    return vectors - np.outer(vectors @ normal, normal * (2 / (normal @ normal)))
