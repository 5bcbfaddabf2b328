"""What a fit may spend, and what a share of it buys: the mu or epsilon of a release, its noise."""

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from skdp.exceptions import BudgetError
from skdp.privacy import gaussian_dp, pure_dp, sensitivity
from skdp.privacy.lattice import SCALE_MARGIN, largest_size
from skdp.privacy.noise import distinct_entries, joint_entries
from skdp.privacy.quantile import search_steps
from skdp.privacy.release import Release, Search

__all__ = ["PrivacyCost", "largest_epsilon"]

# How much an epsilon is lowered by at first, relative, where rounding has raised it.
_LEAST_STEP = 1e-14  # not tuned
_PURE = ("laplace", "spherical")
# Its choices cost half the mu that other mechanisms of their epsilon may.
_CHOICE = "exponential"
# The fits of a search ask for the same again and again.
_solved_mu = lru_cache(maxsize=64)(gaussian_dp.mu_from_epsilon_delta)


@dataclass(frozen=True)
class PrivacyCost:
    """What a fit may spend: a share is one of the square of mu or, if delta is 0, of epsilon.

    No share is of `delta_tail`, which is 0 or below `delta`.
    """

    epsilon: float
    delta: float
    delta_tail: float = 0.0
    # What every share that is declared is multiplied by: part of a plan may be that of another fit.
    part: float = 1.0
    mu: float = field(init=False)

    def __post_init__(self) -> None:
        # Solved in any case: it refuses what is out of range.
        mu = _solved_mu(self.epsilon, self.delta, self.delta_tail)
        mu = pure_dp.mu_from_epsilon(self.epsilon) if self.is_pure else mu
        object.__setattr__(self, "mu", mu)

    @property
    def is_private(self) -> bool:
        """Whether noise is added at all."""
        return math.isfinite(self.epsilon)

    @property
    def is_pure(self) -> bool:
        """Whether noise has to do without delta, and shares are those of epsilon."""
        return self.delta == 0 and self.is_private

    def release(
        self,
        name: str,
        mechanism: str,
        share: float,
        sensitivity_of: Callable[..., float],
        known: Mapping[str, Any] | None = None,
        *,
        follows: str = "",
        shape: tuple[int, ...] = (),
        may_be_skipped: bool = False,
    ) -> Release:
        """Declare a release; refuse a share that does not pay for it.

        The facts that its sensitivity is computed from are `known`, or released before.
        """
        share *= self.part
        self.check_size(name, mechanism, share, shape)
        change, noise_std = None, None
        if known is not None:
            change = float(sensitivity_of(**known))
            noise_std = self.noise_std(mechanism, change, share, joint_entries(mechanism, shape))
        return Release(
            name,
            mechanism,
            share,
            change,
            noise_std,
            follows,
            shape,
            may_be_skipped,
            sensitivity_of,
        )

    def search(
        self,
        name: str,
        share: float,
        grid: np.ndarray,
        *,
        n_columns: int = 1,
        remedy: str | None = None,
    ) -> Search:
        """Declare a search over a public grid, one for each column at once.

        `remedy` says what to do where an end of the grid is found.
        """
        grid, shape, share = np.asarray(grid, np.float64), (n_columns,), float(share) * self.part
        change = sensitivity.counts(n_columns)
        # A grid of one point takes no count, and still has to get a positive share.
        share_of_count = share / max(search_steps(len(grid)), 1)
        self.check_size(name, "gaussian", share_of_count, shape)
        std = self.noise_std("gaussian", change, share_of_count)
        return Search(name, "gaussian", share, change, std, shape=shape, grid=grid, remedy=remedy)

    def check(self, mechanism: str) -> None:
        """Refuse a mechanism that no share can pay."""
        if self.is_pure and mechanism not in (*_PURE, _CHOICE):
            raise BudgetError(
                f"delta=0 admits {', '.join(_PURE)} and {_CHOICE} only, got {mechanism!r}; pass "
                "a positive delta."
            )

    def check_size(self, name: str, mechanism: str, share: float, shape: tuple[int, ...]) -> None:
        """Refuse a release of more numbers than its share protects against rounding."""
        if not share > 0:
            raise BudgetError(
                f"Release {name!r} asks for a share of {share!r}, which must be positive."
            )
        # The number of an option has no low bits that tell the losses.
        if not self.is_private or mechanism == _CHOICE:
            return
        size = distinct_entries(mechanism, shape)
        largest = largest_size(
            mechanism, self.guarantee(mechanism, share), joint_entries(mechanism, shape)
        )
        if size > largest:
            raise BudgetError(
                f"The budget is too small: release {name!r} has {size} numbers, of which a share "
                f"of {share:.3g} protects {math.floor(largest)} at most against what rounding "
                "tells. Pass a larger epsilon or delta, fewer components, or fewer rows or columns."
            )

    def noise_std(
        self, mechanism: str, sensitivity: float, share: float, joint_entries: int = 1
    ) -> float:
        """Compute the standard deviation of the noise in an entry."""
        if not self.is_private:
            return 0.0
        bought = self.guarantee(mechanism, share)
        if bought < sys.float_info.min:
            return math.inf
        sensitivity *= 1 + SCALE_MARGIN
        if mechanism == _CHOICE:
            # The standard deviation of the Gumbel law.
            return sensitivity / bought * math.pi / math.sqrt(6)
        if mechanism not in _PURE:
            return sensitivity / bought
        # A radius of gamma law, of shape k and scale 1, has a mean square of k (k + 1).
        return sensitivity / bought * math.sqrt(joint_entries + 1)

    def guarantee(self, mechanism: str, share: float) -> float:
        """Compute what the share buys: a mu or, for noise of pure privacy, an epsilon."""
        self.check(mechanism)
        if mechanism == _CHOICE:
            # For the mu of general pure privacy a choice has twice the epsilon.
            return self._pure_epsilon(share) * (1 if self.is_pure else 2)
        if mechanism in _PURE:
            return self._pure_epsilon(share)
        return self.mu * math.sqrt(share)

    def spent_mu(self, shares: Iterable[float]) -> float:
        """Compute the mu of releases with these shares together."""
        if self.is_pure:
            mus = [pure_dp.mu_from_epsilon(self._pure_epsilon(share)) for share in shares]
            return min(self.mu, gaussian_dp.compose(mus))
        total = min(math.fsum(shares), 1.0)
        return self.mu * math.sqrt(total) if total else 0.0

    def _pure_epsilon(self, share: float) -> float:
        if self.is_pure:
            return self.epsilon * share
        return pure_dp.epsilon_from_mu(self.mu * math.sqrt(share))


def largest_epsilon(mu: float, delta: float, delta_tail: float = 0.0) -> float:
    """Return the largest epsilon of a fit that spends at most mu at that delta.

    It is rounded down: `mu_from_epsilon_delta` of it does not exceed `mu`.
    """
    epsilon, less = gaussian_dp.epsilon_at(mu, delta, delta_tail), _LEAST_STEP
    while epsilon > 0 and gaussian_dp.mu_from_epsilon_delta(epsilon, delta, delta_tail) > mu:
        epsilon *= max(0.0, 1 - less)
        less *= 2
    return epsilon
