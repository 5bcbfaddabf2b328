"""What every fit of a search, and its choice, may spend of the whole.

Of the square of mu the choice gets a small part. The steps share the rest in the ratio of the
squares that they have by themselves. A step that one fit serves for all candidates spends its part
on it. One that takes G fits, with a last one of the candidate that is chosen, splits it into
:math:`G + 9` parts: one for each fit of the search, and nine for the last, of a third of the noise.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from sklearn.base import clone

from skdp.model_selection._candidates import Candidate, Path, Step
from skdp.privacy import gaussian_dp
from skdp.privacy.cost import largest_epsilon

__all__ = ["Allotment", "FitCosts", "allot", "fits_of_steps", "params_for_mu", "set_budget"]

# Share of the choice: with one release for all candidates, and with several.
_CHOICE_OF_ONE, _CHOICE_OF_SEVERAL = 0.05, 0.10  # not studied
_FINAL_PARTS = 9  # not studied
# Of delta, where an epsilon would be 0 at it.
_LESS, _LEAST_DELTA = 1e-2, 1e-290  # not tuned


class FitCosts(NamedTuple):
    """What a fit of each private step spends, by its number; `name` stands in the record."""

    name: str
    mus: dict[int, float]
    delta: float


class Allotment(NamedTuple):
    """What a search spends."""

    n_fits: dict[int, int]  # fits of each private step, by its number
    search: FitCosts  # a fit of the search
    final: FitCosts  # the last fit of steps that have one
    choice: float  # mu; 0 if there is nothing to choose
    mu: float  # of all together
    delta_tail: float  # part of delta that the fits may reserve


def fits_of_steps(paths: Sequence[Path], steps: Sequence[Step]) -> dict[int, int]:
    """Count the fits that each private step takes for all candidates."""
    private = [number for number, step in enumerate(steps) if step.is_private]
    return {number: len({path.fits[number] for path in paths}) for number in private}


def allot(
    steps: Sequence[Step],
    candidates: Sequence[Candidate],
    n_fits: dict[int, int],
    *,
    epsilon: float,
    delta: float,
    refits: bool,
) -> Allotment:
    """Share a guarantee among the fits of a search, last ones if it `refits`, and the choice."""
    n_last = {i: int(refits and n > 1) for i, n in n_fits.items()}
    fit_delta = delta / (sum(n_fits.values()) + sum(n_last.values()))
    tails = {i: _largest_tail(steps[i], i, candidates, fit_delta) for i in n_fits}
    delta_tail = math.fsum((n_fits[i] + n_last[i]) * tail for i, tail in tails.items())
    mu = gaussian_dp.mu_from_epsilon_delta(epsilon, delta, delta_tail)
    choice = _CHOICE_OF_SEVERAL if max(n_fits.values()) > 1 else _CHOICE_OF_ONE
    choice = choice if len(candidates) > 1 else 0.0
    parts = {i: (1 - choice) * share for i, share in _shares(steps, n_fits).items()}
    parts = {i: part / (n_fits[i] + _FINAL_PARTS * n_last[i]) for i, part in parts.items()}
    last = {i: mu * math.sqrt(_FINAL_PARTS * part) for i, part in parts.items() if n_last[i]}
    return Allotment(
        n_fits,
        search=FitCosts("fit", {i: mu * math.sqrt(part) for i, part in parts.items()}, fit_delta),
        final=FitCosts("last fit", last, fit_delta),
        choice=mu * math.sqrt(choice) if choice else 0.0,
        mu=mu,
        delta_tail=delta_tail,
    )


def set_budget(step: Any, mu: float, delta: float) -> None:
    """Give a private step the epsilon and the delta at which it spends that mu."""
    # A finite epsilon, at which it knows what it reserves.
    step.set_params(epsilon=mu if math.isinf(mu) else 1.0, delta=delta)
    step.set_params(**params_for_mu(mu, delta, step._cost().delta_tail))


def params_for_mu(mu: float, delta: float, delta_tail: float = 0.0) -> dict[str, float]:
    """Return an epsilon and a delta, as parameters, that together spend that mu, rounded down.

    The delta is smaller where its epsilon would be 0, and `delta_tail` with it.
    """
    if math.isinf(mu):
        return {"epsilon": math.inf, "delta": delta}
    part = delta_tail / delta
    while delta > _LEAST_DELTA:
        if (epsilon := largest_epsilon(mu, delta, part * delta)) > 0:
            return {"epsilon": epsilon, "delta": delta}
        delta *= _LESS
    raise ValueError(f"epsilon is too small to be shared: a fit would get mu={mu!r}.")


def _shares(steps: Sequence[Step], n_fits: dict[int, int]) -> dict[int, float]:
    """Return the part of each step; equal ones where one has no noise by itself."""
    squares = {i: steps[i].estimator._cost().mu ** 2 for i in n_fits}
    total = math.fsum(squares.values())
    if not math.isfinite(total):
        return dict.fromkeys(n_fits, 1 / len(n_fits))
    return {i: square / total for i, square in squares.items()}


def _largest_tail(step: Step, number: int, candidates: Sequence[Candidate], delta: float) -> float:
    """Return the largest part of that delta that a fit of a step may reserve."""
    settings = [candidate.of_steps[number] for candidate in candidates]
    configured = [
        clone(step.estimator).set_params(**own, epsilon=1.0, delta=delta) for own in settings
    ]
    return max(one._cost().delta_tail for one in configured)
