"""Private centres and spreads of features in unknown units."""

import math
from dataclasses import dataclass

import numpy as np

from skdp.linalg.design import Design
from skdp.linalg.matrices import Matrices
from skdp.linear_model._solvers.medians import (
    ANY_SIZE,
    affordable_searches,
    n_counts,
    release_medians,
)
from skdp.linear_model._solvers.scales import (
    RareFeatures,
    Standardization,
    counts_share,
    entries_of,
)
from skdp.linear_model._solvers.sizes import Sizes, count_powers, exponents, release_sizes
from skdp.privacy import PrivacyBudget

__all__ = ["Plan", "plan_standardization", "release_standardization"]

_LARGEST_SHARE = 0.03
# Up to this share, further searches for the centres cost too little to be saved.
_SPARE_SHARE = 0.01
# Standard deviation of a count, as a share of the records, that is precise enough: of a search,
# each step of which is clear unless it is the last, and of a histogram.
_COUNT_PRECISION = 0.1
_LEAST_BIN_PRECISION, _BIN_PRECISION = 0.05, 0.02
# As large as the largest that is seen: rather too large, as a feature in too small a unit would
# rule all others.
_HIDDEN_SIZE = 1.0
# Features that differ from their centres in a smaller share of the records are rare.
_RARE = 0.25
_LEAST_SHARE = 1e-3


@dataclass(frozen=True)
class Plan:
    """Shares for the centres and the spreads, and how closely centres are sought."""

    center_share: float
    spread_share: float
    n_searches: int


def plan_standardization(
    n_features: int, n_records: int, mu: float, *, centered: bool
) -> Plan | None:
    """Plan the standardization from public facts; None if its shares are too large.

    A record takes part in the counts of all features, so that their noise grows with the root of
    the number of features.
    """
    center_share, n_searches = 0.0, 0
    if centered:
        largest = _SPARE_SHARE * (_COUNT_PRECISION * n_records * mu) ** 2
        n_searches = affordable_searches(ANY_SIZE, n_features, largest)
        count = n_counts(ANY_SIZE, n_searches) * n_features
        center_share = counts_share(count, n_records, mu, precision=_COUNT_PRECISION)
    least, wanted = (
        counts_share(2 * n_features, n_records, mu, precision=precision)
        for precision in (_LEAST_BIN_PRECISION, _BIN_PRECISION)
    )
    if max(center_share, least) > _LARGEST_SHARE:
        return None
    return Plan(center_share, min(wanted, _LARGEST_SHARE), n_searches)


def release_standardization(
    design: Design, budget: PrivacyBudget, plan: Plan, *, centered: bool
) -> Standardization:
    """Release the median of every entry, if wanted, and the root mean square around it."""
    center, least = np.zeros(design.n_entries), np.zeros(design.n_entries)
    if centered:
        center, least = release_medians(
            "feature centres",
            lambda points: design.add_up(lambda _, m: _count_up_to(points, m)),
            budget,
            shape=(design.n_records, design.n_entries),
            grid=ANY_SIZE,
            n_searches=plan.n_searches,
            share=plan.center_share,
        )

    def _counts(_: slice, matrices: Matrices) -> np.ndarray:
        differences = entries_of(matrices) - center
        return count_powers(np.where(np.abs(differences) < least, 0.0, differences))

    sizes = release_sizes(
        "feature spreads", design.add_up(_counts), design.n_records, budget, plan.spread_share
    )
    spread = sizes.root_mean_squares(_HIDDEN_SIZE)
    # Where all that is seen is as far off as 0 is, it may be 0: the median of a feature half of
    # which is 0 is some number of no meaning.
    is_mostly_zero = (center != 0) & (sizes.central == 0)
    is_mostly_zero &= exponents(center) == sizes.only_exponents
    center, spread = np.where(is_mostly_zero, 0.0, center), np.where(is_mostly_zero, 0.0, spread)
    rare, is_rare = None, (spread == 0) & (1 - sizes.noisy[:, 0] < _RARE)
    # What differs often, but not as far as can be seen, gets the largest spread: right in a table
    # of like features, and next to nothing among unlike ones.
    largest = float(spread.max()) or 1.0
    spread[spread == 0] = largest
    if is_rare.any():
        rare = _rare_features(sizes.pooled(is_rare), int(is_rare.sum()), largest)
        spread[is_rare] = rare.spread
    # What is left of a centre far from 0 must not rule the other features.
    spread = np.maximum(spread, np.where(is_mostly_zero, 0.0, least))
    shape = design.matrix_shape
    return Standardization(
        center.reshape(shape) if centered else None, (1 / spread).reshape(shape), rare
    )


def _rare_features(pooled: Sizes, n_features: int, largest_spread: float) -> RareFeatures:
    """Find the spread of features that are hidden one by one, from the histogram of all of them.

    Where that is hidden, too, they are taken for as large as the others where they are not 0.
    """
    share = float(np.clip(1 - pooled.noisy[0, 0], max(pooled.noise, _LEAST_SHARE), 1.0))
    seen = float(pooled.root_mean_squares(_HIDDEN_SIZE)[0])
    guess = largest_spread * math.sqrt(share)
    return RareFeatures(n_features, share, seen or guess, is_guess=seen == 0 < pooled.noise)


def _count_up_to(points: np.ndarray, matrices: Matrices) -> np.ndarray:
    return np.count_nonzero(entries_of(matrices) <= points, axis=0).astype(np.float64)
