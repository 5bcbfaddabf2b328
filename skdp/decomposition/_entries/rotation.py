"""From released bases to singular vectors or eigenvectors, by a small released core."""

import numpy as np

from skdp.decomposition._entries.above_noise import count_above, gaussian_norm, spherical_norm
from skdp.decomposition._entries.iteration import Bases
from skdp.decomposition._entries.noisy_matrix import NoisyMatrix
from skdp.decomposition._factors import Factors
from skdp.privacy import Released

__all__ = ["rotate_to_eigenvectors", "rotate_to_singular_vectors"]


def rotate_to_singular_vectors(
    matrix: NoisyMatrix, bases: Bases, core: Released, n_components: int
) -> Factors:
    """Turn the bases to the singular vectors of `core`."""
    left_turn, singular_values, right_turn = np.linalg.svd(core.value)
    left_turn, right_turn = left_turn[:, :n_components], right_turn.T[:, :n_components]
    singular_values = singular_values[:n_components]
    return matrix.factors(
        bases.left @ left_turn,
        singular_values,
        bases.right @ right_turn,
        noise_std=core.noise_std,
        n_above_noise=_count_found(
            bases, singular_values, left_turn, core.noise_std, is_pure=matrix.is_pure
        ),
        failed=bases.failed,
    )


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
    turn, singular_values = turn[:, order], np.abs(eigenvalues[order])
    right = bases.right @ turn
    return matrix.factors(
        right * np.where(eigenvalues[order] < 0, -1.0, 1.0),
        singular_values,
        right,
        noise_std=core.noise_std,
        n_above_noise=_count_found(
            bases, singular_values, turn, core.noise_std, is_pure=matrix.is_pure
        ),
        failed=bases.failed,
    )


def _count_found(
    bases: Bases,
    singular_values: np.ndarray,
    left_turn: np.ndarray,
    core_std: float,
    *,
    is_pure: bool,
) -> int:
    """Count the turned components that stand out in the bases and in the core."""
    noise_norm = spherical_norm if is_pure else gaussian_norm
    n_found = count_above(
        singular_values,
        floor=noise_norm(bases.noise_gram.shape, core_std),
        noise_squares=np.einsum("ij,ik,kj->j", left_turn, bases.noise_gram, left_turn),
        core_std=core_std,
    )
    return min(bases.n_above_noise, n_found)
