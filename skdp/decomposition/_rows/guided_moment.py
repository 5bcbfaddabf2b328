"""A noisy second moment, decomposed with the direction of the released mean as a guide.

The leading eigenvector is nearly the mean direction m, and the noise along m is that of a single
number. How far the eigenvector deviates from m is read off the noisy matrix, and shrunk to what
stands out from the noise. This vector is deflated, and the rest is decomposed orthogonally to m.
Its noisy vectors get the variance that they capture, rather than their eigenvalues.
"""

import numpy as np

from skdp.decomposition._factors import Factors
from skdp.decomposition._rows.covariance import decompose
from skdp.linalg.spectrum import eigenvalue_pushes, noise_edge

# Second moment that the mean direction must have, in units of the noise and of an average
# direction.
_LEAST_VALUE = 3.0  # not studied
# Shifts the axis by this many norms of the matrix, so that its eigenvalue is the least.
_FAR = 10.0  # not tuned


def decompose_guided(
    noisy: np.ndarray, noise_std: float, axis: np.ndarray, squared_bound: float = 1.0
) -> Factors:
    """Decompose a released second moment, guided by `axis` unless it holds little of the moment.

    The moment and its noise are in units of `squared_bound`.
    """
    value, total = float(axis @ noisy @ axis), float(np.trace(noisy))
    if value < _LEAST_VALUE * max(noise_std, total / len(noisy)):
        return decompose(noisy, noise_std, squared_bound)
    return decompose_with_axis(noisy, noise_std, axis, squared_bound)


def decompose_with_axis(
    noisy: np.ndarray, noise_std: float, axis: np.ndarray, squared_bound: float = 1.0
) -> Factors:
    """Decompose the moment, whose leading eigenvector is nearly `axis`."""
    # Squares of its entries must not overflow.
    unit = max(float(noisy.max()), -float(noisy.min()))
    noisy, noise_std, squared_bound = noisy / unit, noise_std / unit, squared_bound * unit
    along, off_diagonal_std = noisy @ axis, noise_std * np.sqrt(0.5)
    value = float(axis @ along)
    cross = _shrunk_deviation(along - value * axis, off_diagonal_std)
    eigenvalues, vectors = _decompose_rest(noisy, axis, along, cross / np.sqrt(value))
    # Noise raises an eigenvalue by a push. It also turns the vector, which then captures one push
    # less than the true eigenvalue. So it captures two pushes less than the noisy eigenvalue.
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


def _shrunk_deviation(cross: np.ndarray, off_diagonal_std: float) -> np.ndarray:
    """Shrink a noisy vector toward 0, by the part of its squared length that noise alone has."""
    length = float(np.linalg.norm(cross))
    noise_ratio = (len(cross) - 1) * np.square(
        off_diagonal_std / max(length, np.finfo(np.float64).tiny)
    )
    return max(1.0 - noise_ratio, 0.0) * cross


def _decompose_rest(
    noisy: np.ndarray, axis: np.ndarray, along: np.ndarray, deflation: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Decompose the deflated rest, orthogonally to the axis; return eigenvalues and columns."""
    orthogonal = along - (axis @ along) * axis
    # Projects the axis out on both sides, and makes it an eigenvector far below the others.
    far = along + _FAR * (np.linalg.norm(noisy) + deflation @ deflation) * axis
    rest = noisy - np.column_stack([axis, orthogonal, deflation]) @ np.array([far, axis, deflation])
    eigenvalues, vectors = np.linalg.eigh(rest)
    # In descending order the axis is the last, and is left out.
    return eigenvalues[:0:-1], vectors[:, :0:-1]


def _joined(
    value: float, lead: np.ndarray, axis: np.ndarray, captured: np.ndarray, vectors: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Decompose ``value * outer(lead, lead) + vectors @ diag(captured) @ vectors.T``.

    Only a small matrix is decomposed: in the span of the axis, of the vectors with a positive
    captured variance, and of the one direction outside these that `lead` has.
    """
    n_kept = int(np.count_nonzero(captured))
    rest = _reflected(vectors[:, n_kept:], lead)
    basis = np.column_stack([axis, vectors[:, :n_kept], rest[:, :1]])
    diagonal = np.zeros(basis.shape[1])
    diagonal[1 : n_kept + 1] = captured[:n_kept]
    coordinates = basis.T @ lead
    values, turn = np.linalg.eigh(np.diag(diagonal) + value * np.outer(coordinates, coordinates))
    # If a direction outside the kept vectors was added, the least eigenvalue is 0 and goes last.
    *leading, least = (basis @ turn[:, ::-1]).T
    components = np.vstack([*leading, rest[:, 1:].T, least])
    eigenvalues = np.zeros(len(axis))
    eigenvalues[: len(values)] = np.maximum(values[::-1], 0.0)
    return eigenvalues, components


def _reflected(vectors: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Reflect orthonormal columns so that the first is parallel to the projection of `target`."""
    normal = vectors.T @ target
    if not normal.any():
        return vectors
    normal[0] += np.copysign(np.linalg.norm(normal), normal[0])
    return vectors - np.outer(vectors @ normal, normal * (2 / (normal @ normal)))
