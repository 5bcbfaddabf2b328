"""Private scales of the responses and of the matrices as a whole; exact ones of public matrices."""

import math
from dataclasses import dataclass

import numpy as np

from skdp.linalg.design import Design
from skdp.linalg.matrices import DenseMatrices, Matrices
from skdp.linear_model._solvers.medians import (
    ANY_SIZE,
    UP_TO_ONE,
    affordable_searches,
    n_counts,
    release_medians,
)
from skdp.linear_model._solvers.public_rows import largest_usual, sample_rows
from skdp.linear_model._solvers.sizes import count_powers, release_sizes
from skdp.privacy import PrivacyBudget
from skdp.privacy.quantile import SCALE_GRID, search_steps

__all__ = [
    "RareFeatures",
    "Spread",
    "Standardization",
    "counts_share",
    "entries_of",
    "exact_norm",
    "exact_standardization",
    "release_center",
    "release_norm",
    "release_spread",
]

# Standard deviation of a count, as a share of the records, that is precise enough: of a search,
# each step of which is clear unless it is the last, and of the histogram of the responses, which is
# finer, to show rare ones, where that takes no more than a spare share.
_PRECISION = 0.05
_BIN_PRECISION, _FINE_PRECISION = 0.01, 0.005
_SPARE_SHARE = 0.01
_LEAST_SHARE, _LARGEST_SHARE = 2e-3, 0.1
# Where a count is off by more than that, as a share of the records, a search tells nothing.
_USELESS = 0.2
_LARGEST_USABLE = 1e100
_LEAST_SPREAD = 1e-12
# As for normal responses.
_HIDDEN_SIZE = 0.6
# Share of the responses that are taken not to be at the centre where hardly one is seen.
_LEAST_OTHERS = 0.02
# Of public features, enough for a rough median and quantile.
_SAMPLE_ROWS = (400, 10_000)
_SAMPLE_ENTRIES = 1 << 21


@dataclass(frozen=True)
class Spread:
    """What is known of centred responses.

    Attributes
    ----------
    size : float
        Root mean square of those that are not at the centre.
    others : float
        Their share of all; 1 unless most are at the centre.
    is_guess : bool
        Whether noise hides their size and there is no public bound of it.
    """

    size: float
    others: float = 1.0
    is_guess: bool = False


@dataclass(frozen=True)
class RareFeatures:
    """Features that differ from their centres so seldom that noise hides each of them.

    Attributes
    ----------
    n_features : int
        How many they are.
    are_many : bool
        Whether they are at least half of all features, and not constant as far as can be seen.
    share : float
        Mean share of the records in which one of them differs.
    spread : float
        Root mean square of all.
    is_guess : bool
        Whether noise hides how much they differ.
    """

    n_features: int
    are_many: bool
    share: float
    spread: float
    is_guess: bool


@dataclass(frozen=True)
class Standardization:
    """What is subtracted from each entry, and what the difference is multiplied by."""

    center: np.ndarray | None
    multiplier: np.ndarray
    rare: RareFeatures | None = None


def counts_share(count: int, n_records: int, mu: float, *, precision: float = _PRECISION) -> float:
    """Compute the share at which each of so many counts has a relative error of `precision`.

    It is kept between .002 and .1, and depends on public facts only.
    """
    needed = count / (precision * n_records * mu) ** 2
    return float(np.clip(needed, _LEAST_SHARE, _LARGEST_SHARE))


def release_center(responses: np.ndarray, budget: PrivacyBudget, bound: float) -> float:
    """Release the median of the responses, between -bound and bound; 0 if noise would hide it."""
    grid = ANY_SIZE if math.isinf(bound) else bound * UP_TO_ONE
    largest = _LEAST_SHARE * (_PRECISION * len(responses) * budget.mu) ** 2
    n_searches = affordable_searches(grid, 1, largest)
    count = n_counts(grid, n_searches)
    share = counts_share(count, len(responses), budget.mu)
    if budget.noise_scale(1.0, share / count) > _USELESS * len(responses):
        return 0.0
    (center,), _ = release_medians(
        "response centre",
        lambda points: np.array([np.count_nonzero(responses <= points[0])], dtype=np.float64),
        budget,
        shape=(len(responses), 1),
        grid=grid,
        n_searches=n_searches,
        share=share,
    )
    return float(center)


def release_spread(responses: np.ndarray, budget: PrivacyBudget, largest: float) -> Spread:
    """Release the root mean square of centred responses, but for the largest few.

    Of responses most of which are at the centre it is that of the others, and `largest`, their
    public bound, where noise hides all of these.
    """
    least, fine = (
        counts_share(2, len(responses), budget.mu, precision=precision)
        for precision in (_BIN_PRECISION, _FINE_PRECISION)
    )
    share = max(least, min(fine, _SPARE_SHARE))
    counts = count_powers(responses[:, np.newaxis])
    sizes = release_sizes("response spread", counts, len(responses), budget, share)
    size = float(sizes.root_mean_squares(_HIDDEN_SIZE)[0])
    central = float(sizes.central[0])
    if central <= 0.5:
        return Spread(max(size, _LEAST_SPREAD))
    others = max(1 - central, _LEAST_OTHERS)
    if size > 0:
        return Spread(size / math.sqrt(others), others)
    if math.isfinite(largest):
        return Spread(largest, others)
    return Spread(_LEAST_SPREAD, others, is_guess=True)


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
    shape = design.matrix_shape
    mean = middle + shift
    return Standardization(mean.reshape(shape) if centered else None, (1 / spread).reshape(shape))


def _usable(matrices: Matrices) -> np.ndarray:
    """Return the entries, those whose squares could overflow as 0."""
    values = entries_of(matrices)
    return np.where(np.abs(values) <= _LARGEST_USABLE, values, 0.0)


def entries_of(matrices: Matrices) -> np.ndarray:
    """Return the entries of written-out matrices as rows."""
    assert isinstance(matrices, DenseMatrices)
    return matrices.values.reshape(len(matrices), -1)
