"""From raw rows to released factors: scales, the mean, and the solver, each with its share."""

import math
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from skdp.decomposition._entry_parameters import unit_of
from skdp.decomposition._solvers.adaptive import solve_adaptive
from skdp.decomposition._solvers.covariance import solve_covariance
from skdp.decomposition._solvers.factors import Factors
from skdp.decomposition._solvers.power import solve_power
from skdp.exceptions import warn_of_privacy
from skdp.linalg.norms import row_norms
from skdp.linalg.rows import Rows
from skdp.linalg.sources import holds_sparse
from skdp.linalg.spectrum import components_for_ratio, most_likely_rank
from skdp.privacy import PrivacyBudget, sensitivity
from skdp.privacy.clipping import SMALLEST_BOUND, clip_weights
from skdp.privacy.quantile import SCALE_GRID, search_steps

__all__ = [
    "Shares",
    "check_sparse_center",
    "choose_rank",
    "clip",
    "ratios_of",
    "release_mean",
    "solve",
    "warn_of_noise",
]

_REMEDY = "more rows, a larger epsilon or a tighter row_norm"
_NORM_QUANTILE = 0.95
# So many standard deviations a count of all rows stays above the quantile sought: one step of the
# search that goes wrong can end far away.
_COUNT_MARGIN = 4.0
# Where rows may be spread over many more dimensions than matter, and eigenvectors cost little.
_ADAPTIVE_FEATURES = (400, 1000)
# Beyond, clipped projections lose less to noise than the d x d matrix does, and cost less; less
# often so where a row is exchanged, as that moves a step twice as far.
_LARGEST_MATRIX = {"zero_out": 1000, "replace": 2000}
# The square of so much longer a centre leaves no digit for that of a sparse row beside it.
_LARGEST_RATIO = 1e8


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


def check_sparse_center(X: Any, estimator: Any) -> None:
    """Refuse a centre that may be so long beside sparse rows that only rounding is left of them.

    They are centred in their products, whose terms are as long as the centre.
    """
    center, row_norm = estimator._entry_center(), estimator.row_norm
    if not holds_sparse(X) or center is None or row_norm is None or unit_of(estimator) is not None:
        return
    name, norm = "mean_norm", estimator.mean_norm
    if isinstance(center, np.ndarray):
        name, norm = "center", float(row_norms(center[np.newaxis])[0])
    if norm is not None and math.isfinite(norm) and norm > _LARGEST_RATIO * row_norm:
        raise ValueError(
            f"row_norm={row_norm} is too small beside the norm {norm:.3g} of {name}: sparse rows "
            f"would be lost in rounding when they are centred. Pass a {name} of at most "
            f"{_LARGEST_RATIO:.0e} times row_norm, a dense X, or center=False."
        )


def clip(
    rows: Rows, budget: PrivacyBudget, bound: float | None, *, name: str, share: float
) -> Rows:
    """Clip the rows to norm `bound`; ``None`` releases a bound first, with the share `share`."""
    if bound is None and not budget.is_private:
        bound = math.inf
    if bound == math.inf:
        # Products must not overflow.
        weigh = partial(clip_weights, bound=1 / SMALLEST_BOUND, n_features=rows.n_features)
        return rows.clipped(math.inf, weigh)
    norms = None
    if bound is None:
        norms = rows.norms()
        bound = _release_norm(norms, budget, name=name, share=share)
    weigh = partial(clip_weights, bound=bound, n_features=rows.n_features)
    return rows.clipped(bound, weigh, norms)


def _release_norm(norms: np.ndarray, budget: PrivacyBudget, *, name: str, share: float) -> float:
    """Release a bound that holds for about 95% of the rows.

    With few rows the noise of a count would blur the quantile, so that a lower one is sought, down
    to the median, which needs the fewest rows.
    """
    noise = budget.noise_scale(sensitivity.count(), share / search_steps(SCALE_GRID))
    q = min(_NORM_QUANTILE, 1 - _COUNT_MARGIN * noise / len(norms))
    if q < 0.5:
        warn_of_privacy(
            f"{len(norms)} rows are too few to find {name} privately at this epsilon; pass {name} "
            "as a public bound in the units of X."
        )
    return budget.quantile(name, norms, q=max(q, 0.5), grid=SCALE_GRID, share=share)


def release_mean(rows: Rows, budget: PrivacyBudget, *, share: float) -> np.ndarray:
    """Release the mean of `rows`, clipped to ``rows.bound``."""
    total, rounding = rows.total()
    return budget.gaussian(
        "mean",
        total / rows.n_rows,
        sensitivity=sensitivity.row_sum(rows.bound, budget.adjacency, rounding) / rows.n_rows,
        share=share,
    )


def choose_solver(solver: str, n_features: int, adjacency: str) -> str:
    """Replace "auto", from public facts only."""
    if solver != "auto":
        return solver
    if n_features > _LARGEST_MATRIX[adjacency]:
        return "power"
    fewest, most = _ADAPTIVE_FEATURES
    return "adaptive" if fewest <= n_features <= most else "covariance"


def solve(
    rows: Rows,
    budget: PrivacyBudget,
    *,
    solver: str,
    n_components: int | None,
    n_iter: int | str,
    n_oversamples: int | str,
    share: float,
    generator: np.random.Generator,
) -> Factors:
    """Run the chosen solver on clipped rows; without a rank, the one with the whole spectrum."""
    chosen = choose_solver(solver, rows.n_features, budget.adjacency)
    if n_components is None or chosen == "covariance":
        return solve_covariance(rows, budget, share=share)
    extra = n_components if n_oversamples == "auto" else int(n_oversamples)
    basis_size = min(n_components + extra, rows.n_features)
    if chosen == "adaptive":
        return solve_adaptive(
            rows, budget, share=share, n_components=n_components, basis_size=basis_size
        )
    return solve_power(
        rows,
        budget,
        share=share,
        basis_size=basis_size,
        n_iter=3 if n_iter == "auto" else int(n_iter),
        generator=generator,
    )


def ratios_of(parts: np.ndarray, whole: float) -> np.ndarray:
    """Divide `parts` by `whole`, which they add to at most; nothing of nothing is 0."""
    return parts / whole if whole > 0 else np.zeros_like(parts)


def choose_rank(
    n_components: int | float | str | None,
    variances: np.ndarray,
    total: float,
    n_rows: int,
    dtype: np.dtype,
) -> int:
    """Choose the number of components of a released spectrum, whose ratios are kept as `dtype`."""
    if n_components is None:
        return min(n_rows, len(variances))
    if n_components == "mle":
        return most_likely_rank(variances, n_rows)
    if isinstance(n_components, Integral):
        return int(n_components)
    ratios = ratios_of(variances, total).astype(dtype)
    return min(components_for_ratio(ratios, float(n_components)), n_rows)


def warn_of_noise(factors: Factors, n_components: int, remedy: str = _REMEDY) -> None:
    """Say so when a released component looks like noise; reads released values only."""
    if factors.noise_scale > 0 and factors.n_above_noise < n_components:
        warn_of_privacy(
            f"Only {factors.n_above_noise} of {n_components} components stand out from the noise. "
            f"Ask for fewer components, or use {remedy}."
        )
