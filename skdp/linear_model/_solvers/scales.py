"""Private scales: of the responses, of the features, and of the matrices as a whole.

A spread in unknown units is read off a histogram by powers of two. One release finds it, and a bin
that is wrong by its noise is one that is hardly filled: a search by counts, each of which has to be
right, would have to pay for all of them.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from skdp.linalg.design import Design
from skdp.linalg.matrices import DenseMatrices, Matrices
from skdp.linear_model._solvers.public_rows import largest_usual, sample_rows
from skdp.privacy import PrivacyBudget, sensitivity
from skdp.privacy.quantile import SCALE_GRID, search_steps

__all__ = [
    "Standardization",
    "counts_share",
    "exact_norm",
    "exact_standardization",
    "release_center",
    "release_norm",
    "release_spread",
    "release_standardization",
    "standardization_shares",
]

# Of responses and features in unknown units, one per cent apart.
_SIDE = np.geomspace(1e-9, 1e9, 4095)
_CENTER_GRID = np.concatenate([-_SIDE[::-1], [0.0], _SIDE])
# Powers of two, from 1e-12 to 1e12: a bin ends at one, and what is smaller is as good as 0.
_EXPONENTS = np.arange(-40, 41)
# Root of the mean square of numbers spread evenly between half of a power of two and itself.
_OF_BIN = math.sqrt(7 / 12)
# As for normal responses; for features rather too large than too small, which would let them rule
# all others.
_HIDDEN_RESPONSES = 0.6
_HIDDEN_FEATURES = 1.0
# Standard deviation of a count, as a share of the records, that is precise enough: of a search,
# each step of which is clear unless it is the last, of one for many features, of the histograms of
# features, and of that of the responses.
_PRECISION = 0.05
_COARSE_PRECISION = 0.1
_BIN_PRECISION = 0.02
_FINE_PRECISION = 0.01
_LEAST_SHARE = 2e-3
# Where a count is off by more than that, as a share of the records, a search tells nothing.
_USELESS = 0.2
_LARGEST_USABLE = 1e100
_LEAST_SPREAD = 1e-12
_LARGEST_SHARE = 0.1
_LARGEST_FEATURE_SHARE = 0.03
# Of public features, enough for a rough median and quantile.
_SAMPLE_ROWS = (400, 10_000)
_SAMPLE_ENTRIES = 1 << 21


@dataclass(frozen=True)
class Standardization:
    """What is subtracted from each entry, and what the difference is multiplied by."""

    center: np.ndarray | None
    multiplier: np.ndarray


def counts_share(
    n_counts: int, n_records: int, mu: float, *, precision: float = _PRECISION
) -> float:
    """Compute the share at which each of so many counts has a relative error of `precision`.

    It is kept between .002 and .1, and depends on public facts only.
    """
    needed = n_counts / (precision * n_records * mu) ** 2
    return float(np.clip(needed, _LEAST_SHARE, _LARGEST_SHARE))


def standardization_shares(
    n_features: int, n_records: int, mu: float, *, centered: bool
) -> tuple[float, float] | None:
    """Compute the shares for the centres and the spreads of all features; None if too large.

    A record takes part in the counts of all features, so that their noise grows with the root of
    the number of features.
    """
    n_counts = search_steps(_CENTER_GRID) * n_features if centered else 0
    center_share = 0.0
    if centered:
        center_share = counts_share(n_counts, n_records, mu, precision=_COARSE_PRECISION)
    least_share = counts_share(2 * n_features, n_records, mu)
    if max(center_share, least_share) > _LARGEST_FEATURE_SHARE:
        return None
    wanted_share = counts_share(2 * n_features, n_records, mu, precision=_BIN_PRECISION)
    return center_share, min(wanted_share, _LARGEST_FEATURE_SHARE)


def release_center(responses: np.ndarray, budget: PrivacyBudget, bound: float) -> float:
    """Release the median of the responses, between -bound and bound; 0 if noise would hide it."""
    grid = _CENTER_GRID if math.isinf(bound) else np.linspace(-bound, bound, 1025)
    share = counts_share(search_steps(grid), len(responses), budget.mu)
    if budget.noise_scale(1.0, share / search_steps(grid)) > _USELESS * len(responses):
        return 0.0
    return budget.quantile("response centre", responses, q=0.5, grid=grid, share=share)


def release_spread(responses: np.ndarray, budget: PrivacyBudget) -> float:
    """Release the root mean square of centred responses, but for the largest few."""
    share = counts_share(2, len(responses), budget.mu, precision=_FINE_PRECISION)
    counts = _count_powers(responses[:, np.newaxis])
    spreads, _ = _release_spreads(
        "response spread", counts, len(responses), budget, share, hidden_size=_HIDDEN_RESPONSES
    )
    return max(float(spreads[0]), _LEAST_SPREAD)


def release_norm(design: Design, is_null: np.ndarray, budget: PrivacyBudget) -> float:
    """Release the median norm of the matrices."""
    norms = design.fill(lambda _, matrices: matrices.norms())
    norms[is_null] = np.nan
    share = counts_share(search_steps(SCALE_GRID), design.n_records, budget.mu)
    return budget.quantile("matrix norm", norms, q=0.5, grid=SCALE_GRID, share=share)


def exact_norm(design: Design) -> float:
    """Compute the median norm of public matrices."""
    norm = float(np.median(design.fill(lambda _, matrices: matrices.norms())))
    return norm if SCALE_GRID[0] <= norm <= SCALE_GRID[-1] else 1.0


def release_standardization(
    design: Design, budget: PrivacyBudget, shares: tuple[float, float], *, centered: bool
) -> Standardization:
    """Release the median of every entry, if wanted, and the root mean square around it."""
    center_share, spread_share = shares
    center: Any = np.zeros(design.n_entries)
    if centered:
        center = budget.quantiles(
            "feature centres",
            lambda points: design.add_up(lambda _, m: _count_up_to(points, m)),
            q=0.5,
            n_rows=design.n_records,
            grid=_CENTER_GRID,
            n_columns=design.n_entries,
            share=center_share,
        )
    # The centre is known to one per cent, and so smaller differences from it tell nothing.
    least = 0.01 * np.abs(center)

    def _counts(_: slice, matrices: Matrices) -> np.ndarray:
        differences = _entries(matrices) - center
        return _count_powers(np.where(np.abs(differences) < least, 0.0, differences))

    spread, only_exponent = _release_spreads(
        "feature spreads",
        design.add_up(_counts),
        design.n_records,
        budget,
        spread_share,
        hidden_size=_HIDDEN_FEATURES,
    )
    # Where all that is seen is as far off as 0 is, it may be 0: the median of a feature half of
    # which is 0 is some number of no meaning.
    is_mostly_zero = (center != 0) & (np.frexp(np.abs(center))[1] == only_exponent)
    center, spread = np.where(is_mostly_zero, 0.0, center), np.where(is_mostly_zero, 0.0, spread)
    # Features that do not differ as far as can be seen, such as rare indicators, get the largest
    # spread: right in a table of like features, and next to nothing among unlike ones.
    spread[spread == 0] = spread.max() if spread.any() else 1.0
    return _standardization(design, center if centered else None, spread)


def exact_standardization(design: Design, *, centered: bool) -> Standardization:
    """Compute the means and standard deviations of the usual entries of public matrices."""
    sample = sample_rows(design, int(np.clip(_SAMPLE_ENTRIES // design.n_entries, *_SAMPLE_ROWS)))
    sample[np.abs(sample) > _LARGEST_USABLE] = 0.0
    middle = np.median(sample, axis=0) if centered else np.zeros(design.n_entries)
    largest = np.array([largest_usual(np.abs(column)) for column in (sample - middle).T])

    def _differences(matrices: Matrices) -> np.ndarray:
        differences = _usable(matrices) - middle
        return np.where(np.abs(differences) <= largest, differences, 0.0)

    shift = np.zeros(design.n_entries)
    if centered:
        shift = design.add_up(lambda _, m: _differences(m).sum(axis=0)) / design.n_records
    squares = design.add_up(lambda _, m: np.square(_differences(m) - shift).sum(axis=0))
    spread = np.sqrt(squares / design.n_records)
    spread[~((spread > SCALE_GRID[0]) & (spread < SCALE_GRID[-1]))] = 1.0
    return _standardization(design, middle + shift if centered else None, spread)


def _standardization(
    design: Design, center: np.ndarray | None, spread: np.ndarray
) -> Standardization:
    shape = design.matrix_shape
    return Standardization(
        None if center is None else center.reshape(shape), (1 / spread).reshape(shape)
    )


def _count_up_to(points: np.ndarray, matrices: Matrices) -> np.ndarray:
    return np.count_nonzero(_entries(matrices) <= points, axis=0).astype(np.float64)


def _count_powers(values: np.ndarray) -> np.ndarray:
    """Count the values of each column up to each power of two; NaN is not counted."""
    sizes = np.abs(values)
    bins = np.clip(np.frexp(sizes)[1], _EXPONENTS[0], _EXPONENTS[-1]) - _EXPONENTS[0]
    bins[sizes == 0] = 0
    bins[np.isinf(sizes)] = len(_EXPONENTS) - 1
    n_columns = values.shape[1]
    places = bins + len(_EXPONENTS) * np.arange(n_columns)
    counts = np.bincount(places[~np.isnan(sizes)], minlength=n_columns * len(_EXPONENTS))
    return counts.reshape(n_columns, -1).astype(np.float64)


def _release_spreads(
    name: str,
    counts: np.ndarray,
    n_records: int,
    budget: PrivacyBudget,
    share: float,
    *,
    hidden_size: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Release root mean squares of columns from their counts by powers of two; 0 for unknown.

    What is in bins that noise hides is taken for `hidden_size` times the largest that is seen.
    Where only one power is seen its exponent is returned, too, else one that no number has.
    """
    released = budget.gaussian(
        name,
        counts,
        sensitivity=sensitivity.histograms(len(counts), budget.adjacency),
        share=share,
    )
    # A single bin that noise alone fills, many powers too high, would decide.
    edge = budget.last_scale * (math.sqrt(2 * math.log(counts.size)) + 2.5)
    shares = np.where(released > edge, released / n_records, 0.0)
    values = _OF_BIN * 2.0**_EXPONENTS
    values[0] = 0.0
    largest = np.where(shares > 0, np.arange(len(values)), 0).max(axis=1)
    hidden = np.clip(1 - shares.sum(axis=1), 0.0, 1.0)
    spreads = np.sqrt(shares @ values**2 + hidden * (hidden_size * values[largest]) ** 2)
    is_one = np.count_nonzero(shares[:, 1:], axis=1) == 1
    return spreads, np.where(is_one, _EXPONENTS[largest], 2 * _EXPONENTS[-1])


def _usable(matrices: Matrices) -> np.ndarray:
    """Return the entries, those whose squares could overflow as 0."""
    values = _entries(matrices)
    return np.where(np.abs(values) <= _LARGEST_USABLE, values, 0.0)


def _entries(matrices: Matrices) -> np.ndarray:
    assert isinstance(matrices, DenseMatrices)
    return matrices.values.reshape(len(matrices), -1)
