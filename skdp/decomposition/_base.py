"""What the private decompositions share: what is asked, and attributes."""

from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from skdp._estimator import N_JOBS, PrivateEstimator, in_dtype
from skdp._reading import check_numbers
from skdp.decomposition._factors import Factors
from skdp.decomposition._matrix_estimator import (
    BOUND_CONSTRAINT,
    MatrixEstimator,
    MatrixFacts,
    doubts_of_factors,
)
from skdp.decomposition._problem import SUPPORT, DecompositionProblem
from skdp.decomposition._products.fit import solve_by_products
from skdp.decomposition._products.plan import plan_by_products
from skdp.decomposition._rows.fit import solve_rows
from skdp.decomposition._rows.plan import plan_rows
from skdp.linalg.subspace import coherence
from skdp.privacy.clipping import SMALLEST_BOUND

__all__ = ["BaseDecomposition"]

# What one fit has and the next one, with other parameters, may not have.
_CHANGING_ATTRIBUTES = (
    "coherence_left_",
    "coherence_right_",
    "failed_",
    "left_components_",
    "row_norm_",
)


class BaseDecomposition(MatrixEstimator):
    """Private decomposition with components in feature space."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PrivateEstimator._parameter_constraints,
        **N_JOBS,
        # Checked when it is resolved.
        "privacy_unit": "no_validation",
        "row_norm": BOUND_CONSTRAINT,
        "mean_norm": BOUND_CONSTRAINT,
        "solver": [
            StrOptions(
                {"auto", "covariance", "adaptive", "power", "alternating", "deflation", "input"}
            )
        ],
        "n_iter": [Interval(Integral, 1, 100, closed="both"), StrOptions({"auto"})],
        "n_oversamples": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
        "coherence_bound": [Interval(Real, 1, None, closed="left"), None],
    }

    _support = SUPPORT
    _is_pca: ClassVar[bool] = False
    #: What rows are centred by; estimators that centre have a parameter of that name.
    center: Any = False

    def _problem_of(self, facts: MatrixFacts) -> DecompositionProblem:
        center = None if self.center is False else self.center
        if center is not None and not isinstance(center, str):
            center = _checked_center(center, facts.shape[1])
        return self._settled(
            facts,
            is_pca=self._is_pca,
            center=center,
            releases_mean=not self._is_pca or isinstance(center, str),
        )

    def _plan(self, problem: DecompositionProblem) -> Any:
        return plan_by_products(problem) if problem.support.has_bases else plan_rows(problem)

    def _solve(self, problem: DecompositionProblem, plan: Any, *opened: Any) -> Factors:
        if problem.support.has_bases:
            return solve_by_products(problem, *opened)
        return solve_rows(problem, plan, *opened)

    def _set_attributes(self, result: Factors, problem: DecompositionProblem) -> list[str]:
        for name in _CHANGING_ATTRIBUTES:
            self.__dict__.pop(name, None)
        self._unit = problem.unit
        wanted = self._set_factors(result, problem)
        if result.row_norm is not None:
            self.row_norm_ = result.row_norm
        else:
            self.coherence_right_ = coherence(result.components.T)
            self.failed_ = result.failed
        return doubts_of_factors(result, wanted, problem)

    @abstractmethod
    def _set_factors(self, factors: Factors, problem: DecompositionProblem) -> int:
        """Set what the factors give; return how many components the parameters ask for."""

    def _set_components(self, factors: Factors, dtype: np.dtype) -> None:
        """Set what the leading factors are themselves."""
        self.components_ = in_dtype(factors.components, dtype)
        self.singular_values_ = in_dtype(np.sqrt(factors.eigenvalues), dtype)
        if factors.left is not None:
            self.coherence_left_ = coherence(factors.left)
            self.left_components_ = in_dtype(factors.left, dtype)


def _checked_center(center: Any, n_features: int) -> np.ndarray:
    """Refuse a public centre that does not fit the rows."""
    checked = check_numbers(center, "center", ensure_2d=False)
    if np.abs(checked).max(initial=0.0) > 1 / SMALLEST_BOUND:
        raise ValueError(f"center must not exceed {1 / SMALLEST_BOUND} in size.")
    if checked.shape != (n_features,):
        raise ValueError(f"center has shape {checked.shape}, but X has {n_features} features.")
    return checked
