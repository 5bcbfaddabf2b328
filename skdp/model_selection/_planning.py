"""How accurate a fit will be, from public facts and a guess of the spectrum."""

import math
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_array, check_scalar

from skdp.decomposition import DPPCA, DPTruncatedSVD
from skdp.privacy import Plan, Release
from skdp.privacy.precision import plain

# Rounding may make eigenvalues of a computed covariance negative, by this fraction of the largest.
_ROUNDING = 1e-9  # not tuned
# How many directions next to the released ones are simulated exactly, as they may change places.
_N_NEIGHBORS = 5  # not studied
_MOST_DRAWS, _FEWEST_DRAWS = 200, 8  # not studied
# How many multiplications all draws together may take, roughly.
_EFFORT = 5e8  # not studied
_TINY = np.finfo(np.float64).tiny


def expected_subspace_error(
    estimator: DPPCA | DPTruncatedSVD, eigenvalues: Any, n_samples: int
) -> float:
    r"""Predict the error of private components, before anything is fitted or spent.

    The error is the distance of the released components from the exact components of the same
    clipped rows, for ``solver="covariance"``. It is measured by the sine of the largest angle
    between the two subspaces, as :func:`skdp.metrics.subspace_distance` does.

    Parameters
    ----------
    estimator : DPPCA or DPTruncatedSVD
        Estimator with the parameters of the planned fit. It need not be fitted, and is not changed.
        The bounds must be given, `n_components` must be an int or None, and `solver` "covariance"
        or "auto", which is read as "covariance".
    eigenvalues : array-like of shape (n_features,)
        Guess of the eigenvalues of the covariance (for a ``DPPCA`` that centers) or of the second
        moment per row, in any order, in the squared units of X. It must not come from private rows:
        use public rows, a released spectrum or general knowledge of such data.
    n_samples : int
        Number of rows of the planned fit.

    Returns
    -------
    float
        Expected sine, between 0 (``epsilon=inf``) and 1 (a direction is lost).

    Raises
    ------
    ValueError
        If a parameter is not acceptable, to `fit` or here, or an eigenvalue is negative.
    TypeError
        If `estimator` is neither ``DPPCA`` nor ``DPTruncatedSVD``.

    See Also
    --------
    skdp.metrics.subspace_distance : The error that is predicted, measured.

    Notes
    -----
    **Privacy.** Reads no rows and spends nothing. The result is as public as the guess.

    A fit decomposes the second moment of the rows, a sum, plus symmetric noise whose standard
    deviation off the diagonal is :math:`\tau`. Let :math:`\lambda_i` be the eigenvalues of the sum.
    In a large matrix, a component that stands out of the noise keeps this part of its squared
    length along the true component [1]_:

    .. math:: 1 - \tau^2 \sum_{j > k} \frac{1}{(\lambda_i - \lambda_j)^2}.

    The component is lost once this is not positive [2]_. The formula holds in the limit, for one
    direction. Here k directions err together, in a matrix of finite size, and directions next to
    the border change places. So the k leading directions and the five next to them are simulated
    exactly, on the diagonal matrix of the :math:`\lambda_i`. All others enter by random terms whose
    mean is that of the formula. Up to 200 draws with a fixed public seed are averaged: the same
    arguments give the same result.

    With a private center the noise of the mean is added as well. Clipping is accounted for on
    average: the eigenvalues are scaled such that their sum, the mean squared norm, does not exceed
    ``row_norm ** 2``. Three effects are not predicted: how clipping turns the directions, how the
    sample differs from its population, and what ``DPTruncatedSVD`` gains where the mean guides it.

    References
    ----------
    .. [1] J. Bun, J.-P. Bouchaud, M. Potters (2017). "Cleaning large correlation matrices: tools
       from random matrix theory". Physics Reports 666. :doi:`10.1016/j.physrep.2016.10.005`
    .. [2] F. Benaych-Georges, R. R. Nadakuditi (2011). "The eigenvalues and eigenvectors of finite,
       low rank perturbations of large random matrices". Advances in Mathematics 227(1).
       :arxiv:`0910.2120`

    Examples
    --------
    Three strong directions among 50 features, in rows of norm 1:

    >>> import numpy as np
    >>> from skdp import DPTruncatedSVD
    >>> from skdp.model_selection import expected_subspace_error
    >>> eigenvalues = np.r_[0.3, 0.2, 0.1, np.full(47, 0.4 / 47)]
    >>> svd = DPTruncatedSVD(n_components=3, epsilon=1.0, row_norm=1.0)
    >>> round(expected_subspace_error(svd, eigenvalues, n_samples=5_000), 2)
    0.06
    """
    if not isinstance(estimator, DPPCA | DPTruncatedSVD):
        raise TypeError(f"estimator must be a DPPCA or a DPTruncatedSVD, got {estimator!r}.")
    n_samples = check_scalar(plain(n_samples), "n_samples", Integral, min_val=1)
    spectrum = _checked_spectrum(eigenvalues)
    n_components = _known_n_components(estimator, min(n_samples, len(spectrum)))
    noise = _noise_of(estimator, n_samples, len(spectrum))
    if len(spectrum) == estimator.n_components:
        raise ValueError(
            f"eigenvalues has {len(spectrum)} entries for n_components={n_components}; pass one "
            "for every feature, the small ones too: their number is the number of features."
        )
    if noise.off_diagonal_std == 0 or n_components == len(spectrum):
        return 0.0
    norm_squared = spectrum.sum() + len(spectrum) * noise.mean_std**2
    # Clipping scales rows beyond the bound down, together with the noise that centering adds.
    shrinkage = min(1.0, float(estimator.row_norm or math.inf) ** 2 / max(norm_squared, _TINY))
    # From here on everything is in units of the noise off the diagonal.
    n_in_units = n_samples * shrinkage / noise.off_diagonal_std
    return _mean_sine(n_in_units * spectrum, n_components, n_in_units * noise.mean_std**2)


class _Noise(NamedTuple):
    off_diagonal_std: float  # of the second moment
    mean_std: float  # in every coordinate of the center


def _checked_spectrum(eigenvalues: Any) -> np.ndarray:
    spectrum = check_array(
        eigenvalues, ensure_2d=False, dtype=np.float64, input_name="eigenvalues", copy=True
    )
    if spectrum.ndim != 1:
        raise ValueError(
            f"eigenvalues must be one number a feature, got an array of shape {spectrum.shape}."
        )
    if spectrum.min() < -_ROUNDING * spectrum.max():
        raise ValueError(
            f"eigenvalues holds {spectrum.min()}; those of a covariance are not negative."
        )
    return np.sort(np.maximum(spectrum, 0.0))[::-1]


def _checked_plan(estimator: DPPCA | DPTruncatedSVD, n_samples: int, n_features: int) -> Plan:
    """Plan a fit that releases the second moment; refuse what `fit` or the prediction cannot do."""
    plan = estimator.plan(n_samples, n_features)
    if estimator.privacy_unit != "row":
        raise ValueError(
            f"privacy_unit={estimator.privacy_unit!r}: the error can be predicted for "
            "privacy_unit='row' only."
        )
    if estimator.solver not in ("auto", "covariance"):
        raise ValueError(
            f"The error of solver={estimator.solver!r} cannot be predicted. Pass the estimator "
            "with solver='covariance', whose error may serve as a guide."
        )
    if estimator.solver == "covariance":
        return plan
    return clone(estimator).set_params(solver="covariance").plan(n_samples, n_features)


def _known_n_components(estimator: DPPCA | DPTruncatedSVD, most: int) -> int:
    if estimator.n_components is None:
        return most
    if not isinstance(estimator.n_components, Integral):
        raise ValueError(
            f"n_components={estimator.n_components!r} leaves the number to the fit; pass an int, "
            "whose error is then predicted."
        )
    return int(estimator.n_components)


def _noise_of(estimator: DPPCA | DPTruncatedSVD, n_samples: int, n_features: int) -> _Noise:
    """Read the standard deviations of the noise off the plan."""
    plan = _checked_plan(estimator, n_samples, n_features).parts
    # Without centering the components do not depend on the mean.
    return _Noise(
        # The plan has the std on the diagonal, which is larger by the square root of 2.
        off_diagonal_std=_known_std(plan.ways.ways[0].solver) * math.sqrt(0.5),
        mean_std=0.0 if plan.center is None else _known_std(plan.center),
    )


def _known_std(release: Release) -> float:
    if release.noise_std is None:
        # The release that it follows is named after the parameter that makes it unnecessary.
        parameter = release.follows.replace(" ", "_")
        raise ValueError(
            f"{parameter}=None leaves the bound to the fit, so that the noise is not known in "
            f"advance; pass a public bound as {parameter}, in the units of X."
        )
    return release.noise_std


def _mean_sine(spectrum: np.ndarray, n_components: int, mean_noise_moment: float) -> float:
    """Average the sine of the largest angle over draws of noise, in units of its std.

    Off the diagonal the noise has std 1. The noise of the mean adds its second moment, n times its
    covariance, to that of the rows; `mean_noise_moment` is the expectation of a diagonal entry.
    """
    affordable = int(_EFFORT / (len(spectrum) * n_components**2))
    n_draws = max(_FEWEST_DRAWS, min(_MOST_DRAWS, affordable))
    # A public fixed seed, so that plans can be compared.
    generator = np.random.default_rng(0)
    draws = [
        _draw_sine(spectrum, n_components, mean_noise_moment, generator) for _ in range(n_draws)
    ]
    return float(np.mean(draws))


def _draw_sine(
    spectrum: np.ndarray, n_components: int, moment: float, generator: np.random.Generator
) -> float:
    """Draw the sine once; `moment` is the `mean_noise_moment`."""
    n_leading = min(n_components + _N_NEIGHBORS, len(spectrum))
    leading, rest = spectrum[:n_leading], spectrum[n_leading:]
    mean_error = generator.normal(size=n_leading)
    if moment > 0 and len(rest):
        # One more direction is simulated exactly: that of the error of the mean within the rest.
        leading = np.append(leading, rest.mean())
        mean_error = np.append(mean_error, math.sqrt(len(rest)))
        rest = rest[:-1]
    noisy = np.diag(leading) + _symmetric_noise(len(leading), generator)
    noisy += moment * np.outer(mean_error, mean_error)
    eigenvalues, vectors = np.linalg.eigh(noisy)
    overlaps = vectors[:n_components, -n_components:]
    gaps = eigenvalues[-n_components:] - rest[:, None]
    # A component that does not stand out of the rest is lost.
    if np.any(gaps <= 0):
        return 1.0
    # First-order perturbation: how far each noisy vector turns to each direction of the rest.
    turned = generator.normal(size=gaps.shape) / gaps @ overlaps.T
    squared_cosines = np.linalg.eigvalsh(overlaps @ overlaps.T - turned.T @ turned)
    return math.sqrt(1.0 - min(max(squared_cosines[0], 0.0), 1.0))


def _symmetric_noise(size: int, generator: np.random.Generator) -> np.ndarray:
    """Draw a symmetric matrix of standard deviation 1 off the diagonal."""
    square = generator.normal(size=(size, size))
    return (square + square.T) * math.sqrt(0.5)
