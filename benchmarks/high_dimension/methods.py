r"""Ways to find leading directions of private rows, for comparison and NOT for private rows.

Each takes the rows, a budget that adds the noise and keeps the account, and a generator for public
randomness, and returns components as rows. Rows have norm at most 1. Floating-point rounding is not
accounted for; `oracle` is not private at all.

References
----------
.. [1] J. Nicolas, C. Sabater, M. Maouche, S. Ben Mokhtar, M. Coates (2024). "Differentially private
   and decentralized randomized power method". :arxiv:`2411.01931`
.. [2] S. Biswas, Y. Dong, G. Kamath, J. Ullman (2020). "CoinPress: practical private mean and
   covariance estimation". NeurIPS. :arxiv:`2006.06618`
.. [3] W. Dong, Y. Liang, K. Yi (2022). "Differentially private covariance revisited". NeurIPS.
   :arxiv:`2205.14324`
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh

from skdp.linalg.norms import quantile_from_counts
from skdp.linalg.spectrum import denoise_eigenvalues, orthonormal_basis, random_basis
from skdp.metrics import subspace_distance
from skdp.privacy import PrivacyBudget, Released, sensitivity
from skdp.privacy.clipping import clip_rows

__all__ = [
    "Data",
    "Method",
    "angle_of_new_eigenvalues",
    "matched_filter",
    "oracle",
    "power",
    "rescaled",
    "ridge",
    "separate",
]

# What the estimator leaves to its solver, beside the mean: all get the same.
SHARE = 0.98

# The parts that the power solver gives to clip levels and to the spectrum, and its other settings.
LEVEL_PART, SPECTRUM_PART = 0.05, 0.10
LEVEL_GRID = np.geomspace(0.01, 1.0, 24)
LEVEL_QUANTILE = 0.2
ORACLE_LEVELS = (0.03, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 1.0)


@dataclass(frozen=True, eq=False)
class Data:
    """Rows of norm at most 1, and what the best `k` directions capture of them."""

    X: Any
    k: int

    @cached_property
    def moment(self) -> np.ndarray:
        return self.weighted_moment(1.0)

    @cached_property
    def most(self) -> float:
        return float(leading(self.moment, self.k)[0].sum())

    @cached_property
    def squared_norms(self) -> np.ndarray:
        squares = self.X.multiply(self.X) if sparse.issparse(self.X) else self.X**2
        return np.asarray(squares.sum(axis=1)).ravel()

    def weighted_moment(self, weights: Any) -> np.ndarray:
        """Sum x x^T over the rows times their weights."""
        if sparse.issparse(self.X):
            X = sparse.diags_array(np.broadcast_to(weights, self.X.shape[0])) @ self.X
            return (X.T @ X).toarray()
        X = self.X * np.reshape(weights, (-1, 1))
        return X.T @ X

    def captured(self, components: np.ndarray) -> float:
        return float(np.vdot(components @ self.moment, components)) / self.most


Method = Callable[[Data, PrivacyBudget, np.random.Generator], np.ndarray]


def leading(matrix: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Find the largest eigenvalues and their vectors, as columns, descending."""
    d = len(matrix)
    values, vectors = eigh(matrix, subset_by_index=(d - size, d - 1))
    return values[::-1], vectors[:, ::-1]


def released_moment(
    budget: PrivacyBudget, moment: np.ndarray, bound: float, name: str, share: float
) -> Released:
    change = sensitivity.second_moment(bound, budget.adjacency)
    return budget.symmetric_gaussian(name, moment, sensitivity=change, share=share)


def clipped_product(data: Data, basis: np.ndarray, level: float) -> np.ndarray:
    """Multiply the second moment with a basis, each row's projection clipped."""
    return data.X.T @ clip_rows(data.X @ basis, level)


def entry_variance(scale: float) -> float:
    """Variance of symmetric noise off the diagonal."""
    return scale**2 / 2


Steps = list[tuple[np.ndarray, np.ndarray]]


def last_step(steps: Steps, size: int) -> np.ndarray:
    return orthonormal_basis(steps[-1][1])


def matched_filter(steps: Steps, size: int) -> np.ndarray:
    r"""Take the leading left singular vectors of :math:`\sum_t Y_t V_t^T / \sigma_t^2`."""
    basis, columns = (np.hstack(blocks) for blocks in zip(*steps, strict=True))
    return np.linalg.svd(columns @ np.linalg.qr(basis)[1].T, full_matrices=False)[0][:, :size]


def ridge(steps: Steps, size: int) -> np.ndarray:
    r"""Fit S to :math:`Y_t = S V_t + \sigma_t Z_t` by least squares, with a penalty on its size."""
    basis, columns = (np.hstack(blocks) for blocks in zip(*steps, strict=True))
    gram = basis.T @ basis
    gram[np.diag_indices_from(gram)] += np.trace(gram) / len(gram)
    fitted = np.linalg.solve(gram, columns.T).T
    return np.linalg.svd(fitted @ np.linalg.qr(basis)[1].T, full_matrices=False)[0][:, :size]


def power(
    data: Data,
    budget: PrivacyBudget,
    generator: np.random.Generator,
    *,
    n_steps: int,
    growth: float = 3.0,
    next_basis: Callable[[Steps, int], np.ndarray] = last_step,
) -> np.ndarray:
    """Run the power method with clipped projections [1]_, but with other shares for its steps.

    `next_basis` makes a basis of all steps so far, each with its noise scaled to 1.
    """
    size = 2 * data.k
    basis = random_basis(data.X.shape[1], size, generator)
    weights = growth ** np.arange(n_steps)
    part = SHARE * (1 - LEVEL_PART - SPECTRUM_PART)
    steps: Steps = []
    for step, step_share in enumerate(part * weights / weights.sum()):
        norms = np.linalg.norm(data.X @ basis, axis=1)
        counts, _ = budget.histogram(
            f"norms {step}", norms, edges=LEVEL_GRID, share=SHARE * LEVEL_PART / n_steps
        )
        level = quantile_from_counts(counts, LEVEL_GRID, LEVEL_QUANTILE)
        columns, scale = budget.gaussian(
            f"step {step}",
            clipped_product(data, basis, level),
            sensitivity=sensitivity.clipped_projection(1.0, level, budget.adjacency),
            share=step_share,
        )
        steps.append((basis / scale, columns / scale))
        basis = next_basis(steps, size)
    inner, _ = released_moment(
        budget, basis.T @ data.moment @ basis, 1.0, "inner", SHARE * SPECTRUM_PART
    )
    return (basis @ leading(inner, data.k)[1]).T


def rescaled(
    data: Data, budget: PrivacyBudget, generator: np.random.Generator, *, level_with_rest: bool
) -> np.ndarray:
    """Release the second moment, then once more of rescaled rows, as CoinPress does [2]_.

    A public map rescales the leading directions of the first release to equal variances: each to
    the mean of the others, which shrinks them, or so that together they have as much as all the
    rest, which need not. The rows are clipped again, at the median of their norms, released with
    share .03. The second matrix is mapped back and averaged with the first, each entry by its
    precision.
    """
    k, d = data.k, data.X.shape[1]
    first, scale = released_moment(budget, data.moment, 1.0, "first", SHARE * 0.40)
    precision = 1 / entry_variance(scale)
    values, vectors = leading(first, d)
    cleaned = denoise_eigenvalues(values, precision**-0.5)
    variances = np.maximum(cleaned[:k], 0.01 * cleaned[0])
    rest = max(values.sum() - variances.sum(), 0.01 * variances.sum())
    scales = np.ones(d)
    scales[:k] = np.sqrt(rest / (k if level_with_rest else d - k) / variances)

    coordinates = data.X @ vectors[:, :k]
    squares = data.squared_norms + coordinates**2 @ (scales[:k] ** 2 - 1)
    norms = np.sqrt(np.maximum(squares, 0.0))
    grid = np.geomspace(0.01, 1.0, 32) * max(scales.max(), 1.0)
    bound = budget.quantile(budget.cost.search("norm", SHARE * 0.03, grid), norms, q=0.5)
    clipped = data.weighted_moment(np.minimum(1.0, bound / np.maximum(norms, 1e-12)))
    inner = vectors.T @ clipped @ vectors * np.outer(scales, scales)
    second, scale = released_moment(budget, inner, bound, "second", SHARE * 0.57)
    second = second / np.outer(scales, scales)
    kept = np.clip(np.trace(second[:k, :k]) / values[:k].sum(), 0.05, 1.0)
    precisions = kept**2 * np.outer(scales, scales) ** 2 / entry_variance(scale)
    average = (precision * np.diag(values) + precisions * second / kept) / (precision + precisions)
    return (vectors @ leading(average, k)[1]).T


def separate(data: Data, budget: PrivacyBudget, generator: np.random.Generator) -> np.ndarray:
    """Clip to a norm that suits the tail of the norms, then release eigenvectors [3]_.

    Counts of the norms up to powers of 2, with share .05, bound what clipping at each would change
    and the trace it would leave. That norm is taken which makes least the change and the error
    together, the error being the smaller one of a noisy matrix, and of its eigenvectors with
    eigenvalues of their own. The published algorithm compares by a sparse vector, with a quarter of
    the budget, and gives half of the rest to eigenvalues; here .03 is set aside for them, as
    directions are all that is measured.
    """
    d, part = data.X.shape[1], 0.92
    edges = 2.0 ** np.arange(-7, 1)
    norms = np.sqrt(data.squared_norms)
    counts, _ = budget.histogram("norms", norms, edges=edges, share=SHARE * 0.05)
    counts = np.maximum(counts, 0.0)
    change = np.maximum(edges**2 - edges[:, None] ** 2, 0.0) @ counts
    trace = np.minimum(edges**2, edges[:, None] ** 2) @ counts
    moved = sensitivity.second_moment(1.0, budget.adjacency)
    scale = budget.cost.noise_std("gaussian", moved, SHARE * part)
    of_matrix = edges**2 * scale * d / np.sqrt(2)
    # In squares at most four times the trace times the largest eigenvalue of the noise.
    of_eigenvectors = np.sqrt(4 * trace * edges**2 * scale * np.sqrt(2 * d))
    bound = edges[np.argmin(change + np.minimum(of_matrix, of_eigenvectors))]
    clipped = data.weighted_moment(np.minimum(1.0, bound / np.maximum(norms, 1e-12)))
    noisy, _ = released_moment(budget, clipped, bound, "eigenvectors", SHARE * part)
    return leading(noisy, data.k)[1].T


def angle_of_new_eigenvalues(data: Data, budget: PrivacyBudget) -> float:
    """Exchange the eigenvalues of one noisy matrix; return how far its directions turn.

    For eigenvalues released separately, and for those of the matrix with the push of the noise
    taken out. The larger sine counts.
    """
    noisy, scale = released_moment(budget, data.moment, 1.0, "matrix", SHARE * 0.97)
    values, vectors = leading(noisy, len(noisy))
    shrunk = denoise_eigenvalues(values, np.sqrt(entry_variance(scale)))
    released, _ = budget.gaussian(
        "eigenvalues",
        leading(data.moment, len(noisy))[0],
        sensitivity=sensitivity.second_moment(1.0, budget.adjacency),
        share=SHARE * 0.03,
    )
    exchanged = [vectors * new @ vectors.T for new in (shrunk, -np.sort(-released))]
    return max(
        subspace_distance(leading(matrix, data.k)[1].T, vectors[:, : data.k].T)
        for matrix in exchanged
    )


def oracle(data: Data, budget: PrivacyBudget, generator: np.random.Generator) -> np.ndarray:
    """Take one clipped step along the exact directions, at the level that turns out best.

    NOT private.
    """
    exact = leading(data.moment, data.k)[1]
    noise, _ = budget.gaussian("step", np.zeros_like(exact), sensitivity=1.0, share=SHARE)
    found = []
    for level in ORACLE_LEVELS:
        change = sensitivity.clipped_projection(1.0, level, budget.adjacency)
        columns = clipped_product(data, exact, level) + change * noise
        found.append(orthonormal_basis(columns).T)
    return max(found, key=data.captured)
