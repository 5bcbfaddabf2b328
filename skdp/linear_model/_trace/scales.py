"""Private scales of the responses and of the matrices as a whole; exact ones of public matrices."""

import math
from dataclasses import dataclass

import numpy as np

from skdp.data.design import Design
from skdp.data.matrices import DenseMatrices, Matrices
from skdp.linear_model._trace.medians import CenterSearch, release_medians
from skdp.linear_model._trace.public_rows import largest_usual, sample_rows
from skdp.linear_model._trace.sizes import count_powers, release_sizes
from skdp.privacy import PrivacyBudget
from skdp.privacy.quantile import SCALE_GRID

__all__ = [
    "RareFeatures",
    "Spread",
    "Standardization",
    "entries_of",
    "exact_norm",
    "exact_standardization",
    "release_center",
    "release_norm",
    "release_spread",
]

_LARGEST_USABLE = 1e100
_LEAST_SPREAD = 1e-12
# As for normal responses.
_HIDDEN_SIZE = 0.6
# Fraction of the responses that are taken not to be at the centre where hardly one is seen.
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
        Their fraction of all; 1 unless most are at the centre.
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
    fraction : float
        Mean fraction of the records in which one of them differs.
    spread : float
        Root mean square of all.
    is_guess : bool
        Whether noise hides how much they differ.
    """

    n_features: int
    are_many: bool
    fraction: float
    spread: float
    is_guess: bool


@dataclass(frozen=True)
class Standardization:
    """What is subtracted from each entry, and what the difference is multiplied by."""

    center: np.ndarray | None
    multiplier: np.ndarray
    rare: RareFeatures | None = None


def release_center(responses: np.ndarray, budget: PrivacyBudget, search: CenterSearch) -> float:
    """Release the median of the responses."""
    (center,), _ = release_medians(
        "response centre",
        lambda points: np.array([np.count_nonzero(responses <= points[0])], dtype=np.float64),
        budget,
        shape=(len(responses), 1),
        grid=search.grid,
        n_searches=search.n_searches,
    )
    return float(center)


def release_spread(responses: np.ndarray, budget: PrivacyBudget, largest: float) -> Spread:
    """Release the root mean square of centred responses, but for the largest few.

    Of responses most of which are at the centre it is that of the others, and `largest`, their
    public bound, where noise hides all of these.
    """
    counts = count_powers(responses[:, np.newaxis])
    sizes = release_sizes("response spread", counts, len(responses), budget)
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
    return budget.quantile("matrix norm", norms, q=0.5, grid=SCALE_GRID)


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
