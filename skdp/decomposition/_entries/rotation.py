"""From released bases to singular vectors or eigenvectors, by a small released core."""

import numpy as np

from skdp.decomposition._entries.above_noise import count_above, gaussian_norm, spherical_norm
from skdp.decomposition._entries.iteration import Bases
from skdp.decomposition._entries.noisy_matrix import NoisyMatrix
from skdp.decomposition._factors import Factors
from skdp.privacy import Released


def rotate_to_singular_vectors(
    matrix: NoisyMatrix, bases: Bases, core: Released, n_components: int
) -> Factors:
    """Turn the bases to the leading singular vectors of `core`."""
    left_turn, singular_values, right_turn = np.linalg.svd(core.value)
    turns = left_turn[:, :n_components], right_turn.T[:, :n_components]
    return _rotated(matrix, bases, core, turns, singular_values[:n_components])


def rotate_to_eigenvectors(
    matrix: NoisyMatrix,
    bases: Bases,
    core: Released,
    n_components: int,
    *,
    is_definite: bool = False,
) -> Factors:
    """Turn a basis to the eigenvectors of a symmetric `core`, by falling size of eigenvalues."""
    eigenvalues, turn = np.linalg.eigh(core.value)
    if is_definite:
        eigenvalues = np.maximum(eigenvalues, 0.0)
    order = np.argsort(-np.abs(eigenvalues), kind="stable")[:n_components]
    eigenvalues, turn = eigenvalues[order], turn[:, order]
    # Singular values have no sign, so the left vector takes that of the eigenvalue.
    turns = turn * np.where(eigenvalues < 0, -1.0, 1.0), turn
    return _rotated(matrix, bases, core, turns, np.abs(eigenvalues))


def _rotated(
    matrix: NoisyMatrix,
    bases: Bases,
    core: Released,
    turns: tuple[np.ndarray, np.ndarray],
    singular_values: np.ndarray,
) -> Factors:
    """Turn both bases, and count the components that stand out in the bases and in the core."""
    left_turn, right_turn = turns
    noise_norm = spherical_norm if matrix.is_pure else gaussian_norm
    n_in_core = count_above(
        singular_values,
        floor=noise_norm(bases.noise_gram.shape, core.noise_std),
        noise_squares=np.einsum("ij,ik,kj->j", left_turn, bases.noise_gram, left_turn),
        core_std=core.noise_std,
    )
    return matrix.factors(
        bases.left @ left_turn,
        singular_values,
        bases.right @ right_turn,
        noise_std=core.noise_std,
        n_above_noise=min(bases.n_above_noise, n_in_core),
        failed=bases.failed,
    )
