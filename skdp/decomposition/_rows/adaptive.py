r"""Noisy second moment, refined along its leading directions where that pays.

A first release of the d x d matrix finds rough directions V. The rest of the budget, in shares that
are fixed beforehand, goes to one of two ways:

- further releases of the matrix, whose average with the first is as good as a single release;
- two steps :math:`\sum_i x_i \psi_b(V^T x_i)^T` of the power method with clipped projections. A row
  of norm c moves a step by `c b` rather than :math:`c^2`. The steps replace what the matrix says
  about the span of V, weighted by their precision. A last release has the variances along the final
  span.

A small release in between decides which way is taken. It has the squared coordinates in V, clipped
at several levels b, and shows how much signal each level leaves. The steps win where rows are
spread over many dimensions. They are taken only if all components asked for stand out from the
noise, because a step cannot find a direction that V has lost; and only if noise is the main error,
because clipping adds an error of its own.

References
----------
C. Dwork, K. Talwar, A. Thakurta, L. Zhang (2014). "Analyze Gauss: optimal bounds for
privacy-preserving principal component analysis". STOC. :doi:`10.1145/2591796.2591883`

M. Hardt, E. Price (2014). "The noisy power method: a meta algorithm with applications". NIPS.
:arxiv:`1311.2495`
"""

from functools import partial

import numpy as np
from scipy.linalg import eigh

from skdp.data.rows import Rows
from skdp.decomposition._factors import Factors
from skdp.decomposition._rows.covariance import Decomposition, decompose
from skdp.decomposition._rows.plan import ADAPTIVE_SHARES, PROBE_LEVELS, AdaptiveReleases
from skdp.linalg.norms import UNIT_ROUNDOFF
from skdp.linalg.spectrum import (
    leading_eigenvectors,
    noise_edge,
    orthonormal_basis,
    with_fixed_signs,
)
from skdp.privacy import PrivacyBudget, Release, Released, sensitivity
from skdp.privacy.clipping import clip_rows, clip_weights

_LEVELS = np.array(PROBE_LEVELS)
_FIRST_SHARE = ADAPTIVE_SHARES[0]  # not tuned
# Clipping also changes what is estimated, so a step must promise this many times the precision.
_LEAST_GAIN = 2.0  # benchmarks/high_dimension/captured.md, "made to refine always"
# An eigenvalue stands out if it exceeds the edge of the noise by this factor; noise alone hardly
# ever does.
_MARGIN = 1.05  # not studied
# Weight of the matrix outside the span in the next step. It is needed to find directions that the
# span lacks, but most of it is noise.
_KEPT_OUTSIDE = 0.5  # not studied
# If noise costs less than this fraction of the captured variance, clipping may cost more.
_LEAST_LOSS = 1e-3  # not studied
# Columns are divided by the fraction of their signal that clipping is estimated to leave. A smaller
# divisor would blow up the noise.
_SMALLEST_SIGNAL = 0.05  # not studied
# Few iterations are enough, as the basis is close already.
_N_TURNS = 4  # not studied
# A choice between few levels needs no more rows than this.
_PROBE_ROWS = 1 << 15  # not studied


def solve_adaptive(
    rows: Rows,
    plan: AdaptiveReleases,
    budget: PrivacyBudget,
    n_components: int,
    decomposition: Decomposition = decompose,
) -> Factors:
    """Find the leading directions of clipped rows: time O(n d^2 + d^3), memory O(d^2)."""
    moment = rows.gram()
    estimate = _release_moment(plan.second_moment, rows, budget, moment)
    values, basis = leading_eigenvectors(estimate.value, plan.clipped_squares.shape[1])
    squares = _release_squares(plan.clipped_squares, rows, budget, basis)
    level = _choose_level(squares[:, :n_components], budget.adjacency)
    more, refinement = plan.rest.ways
    if level is None or not _can_be_refined(values[:n_components], estimate):
        for release in more:
            estimate = _average(estimate, _release_moment(release, rows, budget, moment))
        return decomposition(*estimate, squared_bound=rows.bound**2)
    for step in refinement.steps:
        columns = _release_step(step, rows, budget, basis, level)
        estimate = _refine(estimate, basis, *columns)
        basis = _turn_to_leading(estimate.value, basis)
    return _release_variances(refinement.variances, rows, budget, moment, basis[:, :n_components])


def _release_moment(
    release: Release, rows: Rows, budget: PrivacyBudget, moment: tuple[np.ndarray, float]
) -> Released:
    """Release the second moment, in units of the squared bound.

    The rounding of centered sparse rows may raise its noise by many powers of ten, and its square
    may then overflow. So callers divide the noise first, and square the ratio.
    """
    exact, rounding = moment
    noisy, noise_std = budget.release(release, exact, rows.bound, rounding=rounding)
    squared_bound = rows.bound**2
    noisy /= squared_bound
    return Released(noisy, noise_std / squared_bound)


def _average(first: Released, second: Released) -> Released:
    """Average two releases, weighted by their precision; overwrite the second."""
    weight = 1 / (1 + np.square(np.float64(first.noise_std) / second.noise_std))
    matrix = second.value
    matrix *= 1 - weight
    matrix += weight * first.value
    return Released(matrix, first.noise_std * np.sqrt(weight))


def _turn_to_leading(matrix: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Turn a basis that is nearly the leading eigenvectors to them, without a decomposition."""
    for _ in range(_N_TURNS):
        basis = orthonormal_basis(matrix @ basis)
    _, turn = eigh(basis.T @ matrix @ basis, check_finite=False)
    return with_fixed_signs(basis @ turn[:, ::-1])


def _release_squares(
    release: Release, rows: Rows, budget: PrivacyBudget, basis: np.ndarray
) -> np.ndarray:
    """Release the squared coordinates in `basis`, summed over rows, for each clip level."""
    weighting = partial(_level_weights, bound=rows.bound, n_features=basis.shape[1])
    squares, rounding = rows.subsample(_PROBE_ROWS).clipped_squares(basis, weighting)
    return budget.release(release, squares, rows.bound, rounding=rounding).value


def _level_weights(norms: np.ndarray, bound: float, n_features: int) -> np.ndarray:
    weights = [clip_weights(norms, bound * level, n_features) for level in _LEVELS]
    return np.array(weights) / _LEVELS[:, None]


def _choose_level(squares: np.ndarray, adjacency: str) -> float | None:
    """Choose the clip level with the most precise step, in units of the bound; None if none pays.

    The precision of a step is its signal over its noise, squared, relative to the whole matrix.
    """
    signals = _LEVELS * squares.sum(axis=1)
    # The last level clips nothing, so its signal is the whole.
    kept = np.clip(signals / signals[-1], 0.0, 1.0) if signals[-1] > 0 else np.zeros(len(_LEVELS))
    matrix_noise = sensitivity.second_moment(1.0, adjacency) * np.sqrt(0.5)
    step_noise = [sensitivity.clipped_projection(1.0, level, adjacency) for level in _LEVELS]
    gains = (kept * matrix_noise / step_noise) ** 2
    best = int(np.argmax(gains))
    return float(_LEVELS[best]) if gains[best] >= _LEAST_GAIN else None


def _can_be_refined(values: np.ndarray, estimate: Released) -> bool:
    """Whether all of these eigenvalues stand out, and still suffer from noise."""
    n_features, off_diagonal_std = len(estimate.value), _off_diagonal_std(estimate)
    if values.min() < _MARGIN * noise_edge(off_diagonal_std, n_features):
        return False
    # The captured variance that noise would cost if the matrix got the whole share. To second order
    # a component loses tau^2 d / eigenvalue. One release has the variance of the whole share
    # divided by its own share.
    loss = off_diagonal_std * _FIRST_SHARE * n_features * np.sum(off_diagonal_std / values)
    return bool(loss >= _LEAST_LOSS * values.sum())


def _release_step(
    release: Release, rows: Rows, budget: PrivacyBudget, basis: np.ndarray, fraction: float
) -> Released:
    """Release the second moment times `basis`, with projections clipped to a part of the bound."""
    level = fraction * rows.bound
    product, rounding, _ = rows.normal_product(basis, partial(clip_rows, bound=level))
    noisy, noise_std = budget.release(release, product, rows.bound, level, rounding=rounding)
    squared_bound = rows.bound**2
    return Released(noisy / squared_bound, noise_std / squared_bound)


def _off_diagonal_std(estimate: Released) -> float:
    """Return the noise off the diagonal, where symmetric noise has half the variance."""
    return estimate.noise_std * np.sqrt(0.5)


def _refine(
    estimate: Released, basis: np.ndarray, columns: np.ndarray, noise_std: float
) -> Released:
    """Replace what the estimate says about the span of `basis` by its average with `columns`."""
    before = estimate.value @ basis
    # Clipping has shrunk every column. The diagonal of the estimate shows by how much.
    diagonal = np.einsum("ij,ij->j", basis, before)
    shrunk = np.einsum("ij,ij->j", basis, columns)
    kept = np.clip(shrunk / np.where(diagonal > 0, diagonal, np.inf), _SMALLEST_SIGNAL, 1.0)
    relative_variances = np.square(noise_std / kept / _off_diagonal_std(estimate))
    # In the second step the noise of the estimate is still that of the first release: the step,
    # whose share is larger, gets more weight than its precision alone would give.
    weights = 1 / (1 + relative_variances)
    after = before + weights * (columns / kept - before)
    # With V the basis, matrix = V C V' + S V' + V S' + R, where V' S = 0 and V' R = 0. C and S are
    # replaced, and R is kept in part.
    inner_before, inner_after = basis.T @ before, basis.T @ after
    inner_after = (inner_after + inner_after.T) / 2
    change = (after - basis @ (basis.T @ after)) - _KEPT_OUTSIDE * (before - basis @ inner_before)
    change += basis @ (inner_after - _KEPT_OUTSIDE * inner_before) / 2
    update = change @ basis.T
    return Released(_KEPT_OUTSIDE * estimate.value + update + update.T, estimate.noise_std)


def _release_variances(
    release: Release,
    rows: Rows,
    budget: PrivacyBudget,
    moment: tuple[np.ndarray, float],
    basis: np.ndarray,
) -> Factors:
    """Release the second moments along the basis and outside it."""
    exact, rounding = moment
    along = np.einsum("ij,ij->j", basis, exact @ basis)
    outside = np.trace(exact) - along.sum()
    # The first line bounds how the errors of the matrix add up in the sum over the basis and in the
    # difference from the trace; the second bounds the rounding of the products with the basis.
    rounding *= 2 + np.sqrt(basis.shape[1])
    rounding += 4 * rows.n_features * basis.shape[1] * rows.n_rows * UNIT_ROUNDOFF
    values = np.append(along, outside)
    noisy, noise_std = budget.release(release, values, rows.bound, rounding=rounding)
    order = np.argsort(-noisy[:-1], kind="stable")
    return Factors(
        components=basis.T[order],
        eigenvalues=np.maximum(noisy[order], 0.0),
        total=float(noisy.sum()),
        eigenvalue_noise=noise_std,
        n_above_noise=basis.shape[1],
    )
