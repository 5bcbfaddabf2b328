"""Costs of fits as integers, whose sums neither round nor depend on the order."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from skdp.exceptions import BudgetError
from skdp.privacy import gaussian_dp, pure_dp
from skdp.privacy.plan import largest_epsilon

#: Number of units in the whole limit.
WHOLE = 2**62  # not tuned
# Relative: half of what the functions of Gaussian differential privacy round to the safe side.
_LESS_SAFETY = 5e-10  # not tuned
# Relative: by how much epsilons of sums are rounded to the safe side.
_SAFETY = 1e-12  # not tuned


@dataclass(frozen=True)
class Cost:
    """The cost of a fit, in units of a limit."""

    spent: int  # units of the square of mu; of epsilon, if delta is 0
    tails: int  # units of delta, for events after which nothing is promised


@dataclass(frozen=True)
class Limit:
    """The guarantee that all fits together keep, and its mu."""

    epsilon: float
    delta: float
    mu: float

    @classmethod
    def of(cls, epsilon: float, delta: float) -> "Limit":
        """Make the limit of a guarantee; refuse numbers out of range."""
        epsilon, delta = float(epsilon), float(delta)
        if not 0 < epsilon < math.inf or not 0 <= delta < 1:
            raise ValueError(
                f"A limit needs 0 < epsilon < inf and 0 <= delta < 1, got epsilon={epsilon!r} and "
                f"delta={delta!r}."
            )
        if delta == 0:
            return cls(epsilon, delta, pure_dp.mu_from_epsilon(epsilon))
        return cls(epsilon, delta, gaussian_dp.mu_from_epsilon_delta(epsilon, delta))

    def cost_of(self, record: Any) -> Cost:
        """Compute the cost of a fit from its record, rounded up; refuse fits without privacy."""
        if not 0 <= record.mu < math.inf:
            raise BudgetError("A fit with epsilon=inf has no privacy, and no cost to charge.")
        if self.delta == 0:
            if record.delta or record.delta_tail:
                raise BudgetError("The ledger has delta=0: charge only fits with delta=0 to it.")
            return Cost(_units(Fraction(float(record.epsilon)), Fraction(self.epsilon)), 0)
        return Cost(self._units_of(float(record.mu)), self.units_of_tail(float(record.delta_tail)))

    def units_of_tail(self, delta_tail: float) -> int:
        """Express a part of delta in units, rounded up."""
        if delta_tail == 0:
            return 0
        return math.ceil(Fraction(delta_tail) / Fraction(self.delta) * WHOLE)

    def room_beside(self, tails: int) -> int:
        """Compute how many units may be spent besides `tails` units of delta, rounded down."""
        if tails == 0:
            return WHOLE
        if tails >= WHOLE:
            return -1
        delta_tail = math.nextafter(tails / WHOLE * self.delta, math.inf)
        if delta_tail >= self.delta:
            return -1
        mu = gaussian_dp.mu_from_epsilon_delta(self.epsilon, self.delta, delta_tail)
        # mu has been rounded down by twice as much. There must be room for a fit with exactly this
        # tail.
        mu *= 1 + _LESS_SAFETY
        return min(WHOLE, math.floor(Fraction(mu) ** 2 / Fraction(self.mu) ** 2 * WHOLE))

    def epsilon_of_fit(
        self, units: int, delta: float | None = None, delta_tail: float = 0.0
    ) -> float:
        """Compute the largest epsilon of a fit that costs at most `units`, rounded down."""
        if units <= 0:
            return 0.0
        if self.delta == 0:
            return self.epsilon * (units / WHOLE) * (1 - _SAFETY)
        delta, mu = self.delta if delta is None else delta, self.mu * math.sqrt(units / WHOLE)
        if delta == 0:
            epsilon, mu_of = pure_dp.epsilon_from_mu(mu), pure_dp.mu_from_epsilon
        else:
            epsilon = largest_epsilon(mu, delta, delta_tail)
            mu_of = partial(gaussian_dp.mu_from_epsilon_delta, delta=delta, delta_tail=delta_tail)
        # By rounding, this epsilon may cost more than the units: lower it until it does not.
        less = _SAFETY
        while epsilon > 0 and self._units_of(mu_of(epsilon)) > units:
            epsilon *= max(0.0, 1 - less)
            less *= 2
        return min(epsilon, self.epsilon) if delta <= self.delta else epsilon

    def epsilon_of_sum(self, cost: Cost) -> tuple[float, float]:
        """Compute mu, and epsilon at the delta of the limit, of a total cost, rounded up."""
        share = cost.spent / WHOLE
        if self.delta == 0:
            epsilon = share * self.epsilon * (1 + _SAFETY)
            return pure_dp.mu_from_epsilon(epsilon), epsilon
        mu = self.mu * math.sqrt(share) * (1 + _SAFETY)
        tail = cost.tails / WHOLE * self.delta
        return mu, gaussian_dp.epsilon_at(mu, self.delta, tail)

    def _units_of(self, mu: float) -> int:
        return _units(Fraction(mu) ** 2, Fraction(self.mu) ** 2)


def _units(part: Fraction, whole: Fraction) -> int:
    """Express a part of the limit in units: at least one, rounded up in exact arithmetic."""
    return max(1, math.ceil(part / whole * WHOLE))
