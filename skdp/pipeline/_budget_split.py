"""How a budget is split among the fits of steps, and the choice of a search.

The choice gets a small part of the square of mu. The private steps share the rest by the shares
that the caller gave, or in proportion to the squares of mu that these steps have. A step whose one
fit serves all candidates spends its whole part on that fit. A step that takes G fits, and one last
fit for the chosen candidate, splits its part into :math:`G + 9` parts: one for each fit of the
search, and nine for the last fit, which thus has a third of the noise.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sklearn.base import clone

from skdp.pipeline._candidates import Candidate
from skdp.pipeline._steps import Step
from skdp.privacy.plan import PrivacyCost, largest_epsilon

# Share of the choice: where one release serves all candidates, and where several fits are needed.
_CHOICE_OF_ONE, _CHOICE_OF_SEVERAL = 0.05, 0.10  # not studied
_FINAL_PARTS = 9  # not studied
# Part of given shares that is left, so that the records compose to no more than the whole, rounded
# up as they are.
_MARGIN = 4e-9  # not tuned
# Factor by which delta is lowered until the epsilon of a fit is positive, and the least delta.
_DELTA_FACTOR, _LEAST_DELTA = 1e-2, 1e-290  # not tuned


class FitBudgets(NamedTuple):
    """What a fit of each private step may spend; `name` is what the record calls such a fit."""

    name: str
    shares: dict[int, float]  # of the square of `mu`, by the number of the step
    mu: float  # of everything together
    delta: float

    def mu_of(self, number: int) -> float:
        """Return what a fit of the step of that number may spend."""
        return self.mu * math.sqrt(self.shares[number])


class BudgetSplit(NamedTuple):
    """What every part of a search may spend."""

    n_fits: dict[int, int]  # fits of each private step, by its number
    search: FitBudgets  # for the fits of the search
    final: FitBudgets  # for the last fits, of the steps that have one
    choice_mu: float  # 0 if there is nothing to choose
    cost: PrivacyCost  # of everything together, with what the fits reserve of delta


def split_budget(
    steps: Sequence[Step],
    candidates: Sequence[Candidate],
    n_fits: dict[int, int],
    cost: PrivacyCost,
    *,
    refits: bool = False,
) -> BudgetSplit:
    """Split a budget among the fits of each step, its last fits if it `refits`, and the choice."""
    n_last = {i: int(refits and n > 1) for i, n in n_fits.items()}
    # Every fit gets an equal part of delta, of which some fits reserve a tail.
    fit_delta = cost.delta / (sum(n_fits.values()) + sum(n_last.values()))
    tails = {i: _largest_tail(steps[i], i, candidates, fit_delta) for i in n_fits}
    delta_tail = math.fsum((n_fits[i] + n_last[i]) * tail for i, tail in tails.items())
    whole = replace(cost, delta_tail=delta_tail)
    choice = _CHOICE_OF_SEVERAL if max(n_fits.values()) > 1 else _CHOICE_OF_ONE
    choice = choice if len(candidates) > 1 else 0.0
    # Shares of the square of mu, because squares of mu add up.
    parts = {i: (1 - choice) * share for i, share in _shares(steps, n_fits).items()}
    parts = {i: part / (n_fits[i] + _FINAL_PARTS * n_last[i]) for i, part in parts.items()}
    last = {i: _FINAL_PARTS * part for i, part in parts.items() if n_last[i]}
    return BudgetSplit(
        n_fits,
        search=FitBudgets("fit", parts, whole.mu, fit_delta),
        final=FitBudgets("last fit", last, whole.mu, fit_delta),
        # Not mu * 0, which is NaN where mu is infinite.
        choice_mu=whole.mu * math.sqrt(choice) if choice else 0.0,
        cost=whole,
    )


def set_budget(step: Any, mu: float, delta: float) -> None:
    """Give a private step the epsilon and the delta at which it spends that mu."""
    # A step tells which part of delta it reserves only at a finite epsilon.
    step.set_params(epsilon=1.0, delta=delta)
    step.set_params(**params_for_mu(mu, delta, step._cost().delta_tail))


def params_for_mu(mu: float, delta: float, delta_tail: float = 0.0) -> dict[str, float]:
    """Return an epsilon and a delta, as parameters, that together spend that mu, rounded down.

    Where epsilon would be 0 at that delta, a smaller delta is taken, and `delta_tail` shrinks in
    proportion.
    """
    if math.isinf(mu):
        return {"epsilon": math.inf, "delta": delta}
    reserved_part = delta_tail / delta
    while delta > _LEAST_DELTA:
        if (epsilon := largest_epsilon(mu, delta, reserved_part * delta)) > 0:
            return {"epsilon": epsilon, "delta": delta}
        delta *= _DELTA_FACTOR
    raise ValueError(f"epsilon is too small to be shared: a fit would get mu={mu!r}.")


def _shares(steps: Sequence[Step], n_fits: dict[int, int]) -> dict[int, float]:
    """Return the share of each step; equal shares where a step is given an infinite epsilon."""
    if all(steps[i].share is not None for i in n_fits):
        return {i: (steps[i].share or 0.0) * (1 - _MARGIN) for i in n_fits}
    squares = {i: steps[i].estimator._cost().mu ** 2 for i in n_fits}
    total = math.fsum(squares.values())
    if not math.isfinite(total):
        return dict.fromkeys(n_fits, 1 / len(n_fits))
    return {i: square / total for i, square in squares.items()}


def _largest_tail(step: Step, number: int, candidates: Sequence[Candidate], delta: float) -> float:
    """Return the largest part of that delta that a fit of a step may reserve."""
    asked = ({**one.of_steps[number], "epsilon": 1.0, "delta": delta} for one in candidates)
    return max(clone(step.estimator).set_params(**one)._cost().delta_tail for one in asked)
