"""Components of released second moments: their priors, scales, errors, and guidance by a mean."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from skdp.decomposition._spec import Factors
from skdp.linalg.denoising import are_flat, positive_means
from skdp.linalg.spectrum import descending, eigenvalue_pushes, noise_edge, noise_errors

# ------------------------------
# Components of a noisy second moment.

# `_STRENGTH` is the factor 1/3 in the formula of `feature_penalty`. The signal of a feature is at
# least `_LEAST_SIGNAL` times the standard deviation of the noise. The penalty fades if the average
# signal of a component exceeds `_FADE` times `push`, by which noise raises an eigenvalue.
# benchmarks/diagonal_prior/components.md, "Given bounds"
_STRENGTH, _LEAST_SIGNAL, _FADE = 1 / 3, 0.25, 5.0


def feature_penalty(diagonal: np.ndarray, noise_std: float, n_components: int | None) -> np.ndarray:
    r"""Compute a penalty for the diagonal that gives features with little signal less weight.

    Let entry i of a component v with second moment :math:`\lambda` have the prior variance
    :math:`p_i`. Given :math:`y = \lambda v + \tau z`, with standard normal noise z, the posterior
    mean of :math:`v_i` is :math:`y_i / (\lambda + \tau^2 / (\lambda p_i))`. So v is an eigenvector
    of the noisy matrix minus :math:`\tau^2 / (\lambda p_i)` on its diagonal. Let e be the diagonal
    of the noiseless matrix. The penalty replaces :math:`p_i` by :math:`e_i / (d \bar e)`, and
    :math:`\tau^2 d / \lambda` by :math:`t = \tau \sqrt d`, by which noise raises an eigenvalue that
    hardly stands out. The penalty fades far above the noise, where it gains nothing:

    .. math:: \frac t3 \min\left(1, \frac{5t}{l}\right)^2 \frac{\bar e}{e_i}, \qquad
        l = \max(\mathrm{trace} / k,\ t).

    If all diagonal entries are equal, the penalty changes no eigenvector. Without noise, or without
    a number of components, the penalty is 0.
    """
    if noise_std == 0 or n_components is None:
        return np.zeros(len(diagonal))
    push = noise_std * np.sqrt(0.5 * len(diagonal))
    least = max(_LEAST_SIGNAL * noise_std, float(np.finfo(np.float64).tiny))
    signals = np.maximum(positive_means(diagonal, noise_std), least)
    average = max(float(np.sum(diagonal / n_components)), push)
    weight = _STRENGTH * min(_FADE * (push / average), 1.0) ** 2
    # In this order nothing overflows, as `signals` are at least a fraction of `push`.
    return np.asarray(weight * np.sum(signals / len(signals)) * (push / signals))


# Before columns are scaled, eigenvalues are raised to at least this fraction of the largest
# eigenvalue of noise.
_LEAST_OF_EDGE = 0.65  # benchmarks/sweep/sweep.md, job "components"


def decompose_scaled(
    noisy: np.ndarray, noise_std: float, n_rows: int, n_components: int | None, center_error: float
) -> Factors:
    """Decompose a released second moment after dividing its columns by their scales.

    The squared scales are the diagonal of the moment, which noise hides in wide tables. So small
    eigenvalues are raised to `_LEAST_OF_EDGE` times the largest eigenvalue of noise: columns of
    noise then have equal scales, and columns with a visible component have larger ones. Columns
    that may be constant have the scale 1. Errors are computed as if all columns had the same noise.
    """
    edge = noise_edge(float(np.hypot(noise_std * np.sqrt(0.5), center_error)), len(noisy))
    values, vectors = np.linalg.eigh(noisy)
    raised = (vectors * np.maximum(values, _LEAST_OF_EDGE * edge)) @ vectors.T
    is_flat = are_flat(np.diag(noisy), np.full(len(noisy), noise_std), n_rows)
    squares = np.diag(raised) / np.median(np.diag(raised)[~is_flat])
    scales = np.sqrt(np.where(is_flat, 1.0, squares))
    # Dividing the columns multiplies noise by `factor`, on average over the columns.
    units, factor = np.outer(scales, scales), float(np.mean(scales**-2.0))
    arguments = noise_std * factor, n_components, center_error * factor
    factors = decompose(noisy / units, *arguments, smoothed=raised / units)
    assert factors.noise_errors is not None
    errors, angles = factors.noise_errors
    # The angles are for loadings of equal size. Squared loadings in proportion to the noise of
    # columns multiply angles by the root of `unevenness`; the fourth root is a compromise.
    unevenness = float(np.mean(scales**-4.0)) / factor**2
    angles = np.minimum(angles * unevenness**0.25, np.pi / 2)
    return replace(factors, scales=scales, noise_errors=(errors, angles))


# The error of a released mean is a vector. Its length rarely exceeds the expected length by more
# than this many standard deviations of the length.
_RARELY = 3.5  # not tuned


def decompose(
    noisy: np.ndarray,
    noise_std: float,
    n_components: int | None = None,
    center_error: float = 0.0,
    *,
    scaled_rows: int = 0,
    smoothed: np.ndarray | None = None,
) -> Factors:
    r"""Decompose a released second moment.

    If `n_components` is given, the components span the leading eigenvectors of the moment minus its
    `feature_penalty`, or of `smoothed`, if given. With `scaled_rows`, the number of rows,
    `decompose_scaled` first divides the columns by their scales.

    A noisy center adds the outer product of a random vector with itself to the moment of centered
    rows. `center_error` is the mean square of an entry of the vector: :math:`n \tau^2` for n rows
    and noise :math:`\tau` of each entry of the center.
    """
    if scaled_rows:
        return decompose_scaled(noisy, noise_std, scaled_rows, n_components, center_error)
    # Off the diagonal, an entry of symmetric noise has half of the variance. The eigenvalues of the
    # noise depend on these entries, as there are many more of them than on the diagonal.
    off_diagonal_std = float(np.hypot(noise_std * np.sqrt(0.5), center_error))
    penalty = feature_penalty(np.diag(noisy), noise_std, n_components)
    matrix = noisy - np.diag(penalty) if smoothed is None else smoothed
    eigenvalues, vectors = np.linalg.eigh(matrix)
    vectors = vectors[:, ::-1]
    second_moments = eigenvalues[::-1] + penalty @ np.square(vectors)
    if smoothed is not None:
        second_moments = np.einsum("ij,ij->j", vectors, noisy @ vectors)
    vectors, second_moments = _turned(noisy, vectors, second_moments, n_components or 0)
    # Of `second_moments`, only the first `n_components` are in descending order.
    in_order = np.sort(second_moments)[::-1]
    cleaned = second_moments - eigenvalue_pushes(in_order, off_diagonal_std) - center_error
    edge = noise_edge(off_diagonal_std, len(noisy))
    # The error of a noisy center adds one direction, with a chi-squared second moment, which the
    # noise of the moment increases (J. Baik, G. Ben Arous, S. Peche, 2005, :arxiv:`math/0403022`).
    added = center_error * (np.sqrt(len(noisy)) + _RARELY * np.sqrt(0.5)) ** 2
    if 2 * added > edge:
        # In another order of operations, the square of the edge might overflow.
        edge = added + edge / (4 * added) * edge
    return Factors(
        components=vectors.T,
        eigenvalues=descending(cleaned),
        total=float(max(second_moments.sum() - len(noisy) * center_error, 0.0)),
        eigenvalue_noise=noise_std,
        n_above_noise=int(np.sum(second_moments > edge)),
        noise_errors=noise_errors(in_order, off_diagonal_std, edge),
        noisy=second_moments,
        off_diagonal_std=off_diagonal_std,
    )


def decompose_toward(
    noisy: np.ndarray,
    noise_std: float,
    prior: np.ndarray,
    decomposition: Callable[..., Factors],
    **asked: Any,
) -> Factors:
    """Shrink a released second moment toward a multiple of a prior, and decompose it.

    Clipping makes rows shorter, so the prior is multiplied by the number that brings it nearest to
    the moment. The weight of the prior is the fraction of the squared distance between the prior
    and the moment that noise explains (W. James, C. Stein, 1961).
    """
    tiny = np.finfo(np.float64).tiny
    unit = max(float(np.abs(noisy).max()), tiny)
    direction = prior / max(float(np.abs(prior).max()), tiny)
    direction = direction / max(float(np.linalg.norm(direction)), tiny)
    length = max(float(np.sum(noisy / unit * direction)), 0.0)
    difference = length * direction - noisy / unit
    squared_distance = max(float(np.square(difference).sum()), tiny)
    # Off the diagonal, noise has half of the variance.
    explained = np.square(noise_std / unit) * len(noisy) * (len(noisy) + 1) / 2
    weight = min(1.0, float(explained) / squared_distance)
    shrunk = noisy + weight * unit * difference
    factors = decomposition(shrunk, (1 - weight) * noise_std, **asked)
    return replace(factors, prior_weight=weight)


def _turned(
    matrix: np.ndarray, vectors: np.ndarray, second_moments: np.ndarray, n_turned: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rotate the first `n_turned` vectors to the eigenvectors of `matrix` within their span.

    Return all vectors and their second moments, in descending order for the rotated vectors. The
    given vectors are eigenvectors of another matrix, with a penalty or raised eigenvalues. This
    other matrix affects only the span of the rotated vectors.
    """
    span = vectors[:, :n_turned]
    values, turn = np.linalg.eigh(span.T @ matrix @ span)
    vectors = np.hstack([span @ turn[:, ::-1], vectors[:, n_turned:]])
    return vectors, np.append(values[::-1], second_moments[n_turned:])


# ------------------------------
# Components of a noisy second moment, guided by the direction of a released mean.

# A released mean guides the decomposition if the second moment along it is at least this many times
# the noise, and this many times the mean eigenvalue.
_LEAST_VALUE = 3.0  # not studied
# `decompose_with_axis` lowers the eigenvalue of the direction of the mean by this many norms of the
# matrix, so that this direction is the last eigenvector, and can be left out.
_FAR = 10.0  # not tuned


def decompose_guided(
    noisy: np.ndarray, noise_std: float, axis: np.ndarray, scaled_rows: int = 0, **asked: Any
) -> Factors:
    """Decompose a released second moment; if it is large along the mean, let the mean guide.

    `axis` is the direction of the mean. It is not used if `scaled_rows` asks to scale columns.
    """
    value, total = float(axis @ noisy @ axis), float(np.trace(noisy))
    if scaled_rows or value < _LEAST_VALUE * max(noise_std, total / len(noisy)):
        return decompose(noisy, noise_std, scaled_rows=scaled_rows, **asked)
    return decompose_with_axis(noisy, noise_std, axis, **asked)


def decompose_with_axis(
    noisy: np.ndarray, noise_std: float, axis: np.ndarray, n_components: int | None = None
) -> Factors:
    """Decompose a moment whose leading eigenvector is nearly the axis, the direction of the mean.

    Along the known axis, noise adds a single number and no bias. How far the eigenvector deviates
    from the axis follows from the noisy matrix, and is shrunk to the part that exceeds noise. The
    eigenvector is deflated, and the rest minus its `feature_penalty` is decomposed orthogonally to
    the axis. Noise raises eigenvalues. So the result is computed from estimates of the noiseless
    second moments along the vectors.
    """
    # Squares of entries in this unit cannot overflow.
    unit = max(float(noisy.max()), -float(noisy.min()))
    noisy, noise_std = noisy / unit, noise_std / unit
    along, off_diagonal_std = noisy @ axis, noise_std * np.sqrt(0.5)
    value = float(axis @ along)
    cross = along - value * axis
    # The deviation is shrunk by the part of its squared length that is noise.
    length = max(float(np.linalg.norm(cross)), np.finfo(np.float64).tiny)
    cross *= max(1.0 - (len(cross) - 1) * np.square(off_diagonal_std / length), 0.0)
    deflation = cross / np.sqrt(value)
    rest = np.diag(noisy) - axis * (2 * along - value * axis) - np.square(deflation)
    penalty = feature_penalty(rest, noise_std, n_components)
    # The moment minus its penalty is decomposed orthogonally to the axis. Of the three terms, two
    # project out the axis on both sides, and give the axis an eigenvalue far below all others. The
    # third term deflates.
    penalized = noisy - np.diag(penalty)
    projected = penalized @ axis
    orthogonal = projected - (axis @ projected) * axis
    far = projected + _FAR * (np.linalg.norm(penalized) + deflation @ deflation) * axis
    terms = np.column_stack([axis, orthogonal, deflation]) @ np.array([far, axis, deflation])
    eigenvalues, vectors = np.linalg.eigh(penalized - terms)
    # In descending order the axis comes last, and is left out.
    eigenvalues, vectors = eigenvalues[:0:-1], vectors[:, :0:-1]
    second_moments = eigenvalues + penalty @ np.square(vectors)
    deflated = noisy - np.outer(deflation, deflation)
    vectors, second_moments = _turned(deflated, vectors, second_moments, (n_components or 1) - 1)
    # Noise raises an eigenvalue by a number, its push, and rotates the eigenvector. So the
    # noiseless moment along the noisy eigenvector is lower than the noisy eigenvalue by twice the
    # push.
    pushes = eigenvalue_pushes(np.sort(second_moments)[::-1], off_diagonal_std)
    captured = descending(second_moments - 2 * pushes)
    values, components = _joined(value, axis + cross / value, axis, captured, vectors)
    return Factors(
        components=components,
        eigenvalues=unit * values,
        total=unit * float(np.trace(noisy)),
        eigenvalue_noise=unit * noise_std,
        n_above_noise=1 + int(np.sum(second_moments > noise_edge(off_diagonal_std, len(noisy)))),
    )


def _joined(
    value: float, lead: np.ndarray, axis: np.ndarray, captured: np.ndarray, vectors: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Decompose ``value * outer(lead, lead) + vectors @ diag(captured) @ vectors.T``.

    Return eigenvalues and components. Outside of a small span the matrix is 0, so that only a small
    matrix is decomposed. The span is that of the axis, of the vectors with a positive captured
    variance, and of the part of `lead` that is orthogonal to both.
    """
    n_signals = int(np.count_nonzero(captured))
    rest = vectors[:, n_signals:]
    normal = rest.T @ lead
    if normal.any():
        # A reflection turns the first column of the basis toward `lead`.
        normal[0] += np.copysign(np.linalg.norm(normal), normal[0])
        rest = rest - np.outer(rest @ normal, normal * (2 / (normal @ normal)))
    basis = np.column_stack([axis, vectors[:, :n_signals], rest[:, :1]])
    diagonal = np.zeros(basis.shape[1])
    diagonal[1 : n_signals + 1] = captured[:n_signals]
    coordinates = basis.T @ lead
    values, turn = np.linalg.eigh(np.diag(diagonal) + value * np.outer(coordinates, coordinates))
    # The eigenvector of the least eigenvalue goes last: it has no signal if any direction has none.
    *leading, least = (basis @ turn[:, ::-1]).T
    components = np.vstack([*leading, rest[:, 1:].T, least])
    eigenvalues = np.zeros(len(axis))
    eigenvalues[: len(values)] = np.maximum(values[::-1], 0.0)
    return eigenvalues, components
