"""Checks of what a fit that protects rows is asked for, and the values that "auto" stands for."""

import math
from dataclasses import replace
from numbers import Integral

import numpy as np

from skdp._estimator import check_finite_bound
from skdp.decomposition._problem import RowsProblem, check_solver
from skdp.linalg.norms import row_norms

# With so many features, rows may be spread over many more dimensions than matter, but eigenvectors
# are still cheap.
_ADAPTIVE_FEATURES = (400, 1000)  # benchmarks/high_dimension/captured.md, "skdp, adaptive"
# With more features, clipped projections lose less to noise than the d x d matrix does, and cost
# less. Exchanging a row moves a step twice as far, so that steps pay only with more features.
_LARGEST_MATRIX = {"zero_out": 1000, "replace": 2000}  # not studied
# Largest ratio of the norm of the center to that of sparse rows. Beyond it the square of the center
# leaves no digit for the squares of the rows.
_LARGEST_RATIO = 1e8  # not tuned
# Least number of features for a guided fit, and for a guided power method.
_FEWEST_GUIDED_FEATURES, _FEWEST_ITERATED_FEATURES = 3, 400  # not studied


def resolve_rows(problem: RowsProblem) -> RowsProblem:
    """Refuse contradictory parameters, and resolve "auto", from public facts only."""
    check_solver(problem)
    _check_bounds(problem)
    if not problem.cost.is_private:
        # Without noise no bound is estimated, and a bound that is None clips nothing.
        row_norm, mean_norm = problem.row_norm, problem.mean_norm
        is_centered = isinstance(problem.center, str)
        problem = replace(
            problem,
            row_norm=math.inf if row_norm is None else row_norm,
            mean_norm=math.inf if mean_norm is None and is_centered else mean_norm,
        )
    n_rows, n_features = problem.shape
    n_components, solver = problem.n_components, problem.solver
    if not isinstance(n_components, Integral):
        _check_whole_spectrum(problem)
        return replace(problem, solver="covariance")
    name = "min(n_samples, n_features)" if problem.is_pca else "n_features"
    most = min(n_rows, n_features) if problem.is_pca else n_features
    if n_components > most:
        raise ValueError(
            f"n_components={n_components} must be at most {name}={most}, got n_samples={n_rows} "
            f"and n_features={n_features}."
        )
    if solver == "auto":
        fewest, largest = _ADAPTIVE_FEATURES
        solver = "adaptive" if fewest <= n_features <= largest else "covariance"
        if n_features > _LARGEST_MATRIX[problem.unit.adjacency]:
            solver = "power"
    is_guided, has_guided_power = _guidance(problem, solver)
    extra = n_components if problem.n_oversamples == "auto" else int(problem.n_oversamples)
    return replace(
        problem,
        solver=solver,
        basis_size=min(int(n_components) + int(extra), n_features),
        n_iter=problem.support.steps[solver] if problem.n_iter == "auto" else problem.n_iter,
        is_guided=is_guided,
        has_guided_power=has_guided_power,
    )


def _guidance(problem: RowsProblem, solver: str) -> tuple[bool, bool]:
    """Return whether the mean may guide the fit, and whether it may then take the power method."""
    n_features = problem.shape[1]
    has_default_steps = problem.n_iter == problem.n_oversamples == "auto"
    is_guided = problem.cost.is_private and problem.releases_mean and problem.center is None
    is_guided = is_guided and n_features >= _FEWEST_GUIDED_FEATURES
    if not is_guided or (solver == "power" and not has_default_steps):
        return False, False
    may_iterate = problem.solver == "auto" and n_features >= _FEWEST_ITERATED_FEATURES
    return True, has_default_steps and (may_iterate or solver == "power")


def _check_bounds(problem: RowsProblem) -> None:
    """Refuse bounds that would not act, or that are infinite where noise needs a finite one."""
    check_finite_bound("row_norm", problem.row_norm, problem.cost)
    check_finite_bound("mean_norm", problem.mean_norm, problem.cost)
    if problem.mean_norm is not None and not problem.releases_mean:
        raise ValueError(
            f"mean_norm={problem.mean_norm:g} bounds rows for their private mean, and none is "
            "released: pass mean_norm=None, or center='private'."
        )
    if problem.is_sparse and problem.center is not None:
        _check_sparse_center(problem)


def _check_sparse_center(problem: RowsProblem) -> None:
    """Refuse a center so much longer than sparse rows that rounding may leave nothing of them.

    Sparse rows are centered in their products, whose terms are as long as the center.
    """
    name, norm = "mean_norm", problem.mean_norm
    if isinstance(problem.center, np.ndarray):
        name, norm = "center", float(row_norms(problem.center[np.newaxis])[0])
    if problem.row_norm is None or norm is None:
        return
    if math.isfinite(norm) and norm > _LARGEST_RATIO * problem.row_norm:
        raise ValueError(
            f"row_norm={problem.row_norm} is too small beside the norm {norm:.3g} of {name}: "
            "sparse rows would be lost in rounding when they are centered. Pass a "
            f"{name} of at most {_LARGEST_RATIO:.0e} times row_norm, a dense X, or center=False."
        )


def _check_whole_spectrum(problem: RowsProblem) -> None:
    """Refuse to choose the number of components unless the whole spectrum is released."""
    n_components, (n_rows, n_features) = problem.n_components, problem.shape
    if problem.solver not in ("auto", "covariance"):
        raise ValueError(
            f"n_components={n_components!r} needs the whole spectrum; pass an int, or "
            "solver='covariance'."
        )
    if isinstance(n_components, str) and n_rows < n_features:
        raise ValueError(
            "n_components='mle' is only supported if n_samples >= n_features, got "
            f"{n_rows} < {n_features}."
        )
