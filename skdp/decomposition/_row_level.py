"""From raw rows to released factors: scales, the mean, and the solver, each with its share."""

import math
from dataclasses import dataclass

import numpy as np

from skdp.decomposition._solvers.covariance import solve_covariance
from skdp.decomposition._solvers.factors import Factors
from skdp.decomposition._solvers.power import solve_power
from skdp.exceptions import warn_of_privacy
from skdp.linalg.rows import Rows
from skdp.privacy import PrivacyBudget, sensitivity
from skdp.privacy.clipping import clip_weights
from skdp.privacy.quantile import SCALE_GRID, search_steps

__all__ = [
    "Shares",
    "SolverChoice",
    "clip",
    "release_mean",
    "release_norm",
    "share_of",
    "solve",
    "warn_of_noise",
]

_NORM_QUANTILE = 0.95
# Beyond, clipped projections lose less to noise than the d x d matrix does, and cost less.
_LARGEST_COVARIANCE = 1000


@dataclass(frozen=True)
class Shares:
    """Shares of the square of mu that go to everything but the solver, which takes the rest."""

    mean_norm: float = 0.0
    mean: float = 0.0
    row_norm: float = 0.0

    @property
    def solver(self) -> float:
        """What is left for the solver."""
        return 1.0 - math.fsum([self.mean_norm, self.mean, self.row_norm])


@dataclass(frozen=True)
class SolverChoice:
    """A solver and its public parameters."""

    name: str
    basis_size: int
    n_iter: int

    @classmethod
    def resolve(
        cls,
        solver: str,
        n_features: int,
        n_components: int | None,
        n_iter: int | str,
        n_oversamples: int | str,
    ) -> "SolverChoice":
        """Replace every "auto", from public facts only; no rank means the whole spectrum."""
        if solver == "auto":
            whole = n_components is None or n_features <= _LARGEST_COVARIANCE
            solver = "covariance" if whole else "power"
        if solver == "covariance" or n_components is None:
            return cls("covariance", n_features, 0)
        extra = n_components if n_oversamples == "auto" else int(n_oversamples)
        return cls(
            "power",
            basis_size=min(n_components + extra, n_features),
            n_iter=3 if n_iter == "auto" else int(n_iter),
        )


def release_norm(rows: Rows, budget: PrivacyBudget, *, name: str, share: float) -> float:
    """Release a bound that holds for about 95% of the rows; none if there is no noise to tame.

    With few rows the noise of a count would blur the quantile, so that a lower one is sought, down
    to the median, which needs the fewest rows.
    """
    if not budget.is_private:
        return math.inf
    n_steps = search_steps(SCALE_GRID)
    noise = sensitivity.count() / (budget.mu * math.sqrt(share / n_steps))
    q = min(_NORM_QUANTILE, 1 - 3 * noise / rows.n_rows)
    if q < 0.5:
        warn_of_privacy(
            f"{rows.n_rows} rows are too few to find {name} privately at this epsilon; pass "
            f"{name} as a public bound in the units of X."
        )
    return budget.quantile(name, rows.norms(), q=max(q, 0.5), grid=SCALE_GRID, share=share)


def clip(rows: Rows, bound: float) -> Rows:
    """Clip the rows to norm `bound`; an infinite bound leaves them alone."""
    if math.isinf(bound):
        return rows
    norms = rows.norms()
    return rows.weighted(clip_weights(norms, bound, rows.n_features), norms, bound)


def release_mean(rows: Rows, budget: PrivacyBudget, *, share: float) -> np.ndarray:
    """Release the mean of `rows`, clipped to ``rows.bound``."""
    total, rounding = rows.total()
    noisy = budget.gaussian(
        "mean",
        total / rows.n_rows,
        sensitivity=sensitivity.row_sum(rows.bound, budget.adjacency, rounding) / rows.n_rows,
        share=share,
    )
    return noisy


def solve(
    rows: Rows,
    budget: PrivacyBudget,
    choice: SolverChoice,
    *,
    share: float,
    generator: np.random.Generator,
) -> Factors:
    """Run the chosen solver on clipped rows."""
    if choice.name == "covariance":
        return solve_covariance(rows, budget, share=share)
    return solve_power(
        rows,
        budget,
        share=share,
        basis_size=choice.basis_size,
        n_iter=choice.n_iter,
        generator=generator,
    )


def share_of(parts: np.ndarray, whole: float) -> np.ndarray:
    """Divide `parts` by `whole`, which they add to at most; nothing of nothing is 0."""
    return parts / whole if whole > 0 else np.zeros_like(parts)


def warn_of_noise(factors: Factors, n_components: int) -> None:
    """Say so when a released component looks like noise; reads released values only."""
    if factors.noise_scale > 0 and factors.n_above_noise < n_components:
        warn_of_privacy(
            f"Only {factors.n_above_noise} of {n_components} components stand out from the noise. "
            "Ask for fewer components, or use more rows, a larger epsilon or a tighter row_norm."
        )
