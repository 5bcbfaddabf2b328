"""What the private decompositions share: what is asked, attributes, and linear transforms."""

import math
from abc import abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import (
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp._estimator import INPUT, PrivateEstimator, Procedure, check_rows, in_dtype
from skdp.data.digest import digest
from skdp.data.rows import Rows
from skdp.data.sources import RowBlocks, as_source, block_starts, holds_sparse, sum_rounding
from skdp.decomposition._factors import Factors
from skdp.decomposition._problem import SUPPORT, UNITS, DecompositionProblem
from skdp.decomposition._products.fit import solve_by_products
from skdp.decomposition._products.plan import plan_by_products, settle_products
from skdp.decomposition._rows.fit import solve_rows
from skdp.decomposition._rows.plan import doubts_of_rows, plan_rows, settle_rows
from skdp.linalg.subspace import coherence
from skdp.linalg.symmetry import is_symmetric
from skdp.privacy.clipping import SMALLEST_BOUND
from skdp.units._unit import resolved_unit

__all__ = ["BaseDecomposition"]

# What one fit has and the next one, with other parameters, may not have.
_CHANGING_ATTRIBUTES = (
    "coherence_left_",
    "coherence_right_",
    "failed_",
    "left_components_",
    "row_norm_",
)

_BOUND_CONSTRAINT = [
    Interval(Real, SMALLEST_BOUND, 1 / SMALLEST_BOUND, closed="both"),
    Options(Real, {np.inf}),
    None,
]
_BY_ROWS = Procedure(plan_rows, doubts_of_rows, solve_rows)
_BY_PRODUCTS = Procedure(plan_by_products, lambda problem, plan: (), solve_by_products)


class _Facts(NamedTuple):
    """Public facts of X."""

    shape: tuple[int, int]
    is_sparse: bool
    dtype: np.dtype


class BaseDecomposition(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):
    """Private decomposition with components in feature space."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PrivateEstimator._parameter_constraints,
        # Checked when it is resolved.
        "privacy_unit": "no_validation",
        "row_norm": _BOUND_CONSTRAINT,
        "mean_norm": _BOUND_CONSTRAINT,
        "solver": [
            StrOptions(
                {"auto", "covariance", "adaptive", "power", "alternating", "deflation", "input"}
            )
        ],
        "n_iter": [Interval(Integral, 1, 100, closed="both"), StrOptions({"auto"})],
        "n_oversamples": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
        "basis_cut": [Interval(Real, 0.01, None, closed="left"), None],
        "coherence_bound": [Interval(Real, 1, None, closed="left"), None],
    }

    _is_pca: ClassVar[bool] = False
    #: What rows are centred by; estimators that centre have a parameter of that name.
    center: Any = False

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components, spending the whole budget.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowBlocks} of shape (n_samples, n_features)
            Rows to protect.
        y : None
            Ignored.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        ValueError
            If X or a parameter is not acceptable; nothing has been spent then.
        """
        self._fit(X)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Project rows on the components.

        The result is a noise-free function of the rows passed in, which the guarantee does not
        cover.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowBlocks} of shape (n_samples, n_features)
            Rows to project.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Coordinates of the rows.
        """
        return self._project(X)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Map coordinates back to the space of the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Coordinates.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Rows in the span of the components.
        """
        check_is_fitted(self)
        return self._restore(check_array(X, dtype=(np.float64, np.float32), estimator=self))

    def _checked_input(self, X: Any, y: Any) -> tuple[Any, _Facts]:
        checked = X
        if isinstance(X, RowBlocks):
            X.check()
        else:
            checked = check_rows(X, type(self).__name__)
        if getattr(self.privacy_unit, "is_pairwise", False) is True:
            _check_symmetric(checked, f"privacy_unit={self.privacy_unit!r}")
        facts = _Facts(tuple(checked.shape), holds_sparse(checked), np.dtype(checked.dtype))
        # X as given, too: checking takes the names of its features off.
        return (X, checked), facts

    def _facts_like(self, n_samples: int, n_features: int, like: Any) -> _Facts:
        shape = getattr(like, "shape", (n_samples, n_features))
        if len(shape) != 2 or shape[1] != n_features:
            raise ValueError(f"n_features={n_features} does not fit like, of shape {shape}.")
        dtype = getattr(like, "dtype", None)
        dtype = np.dtype(np.float32 if dtype == np.float32 else np.float64)
        return _Facts((n_samples, n_features), holds_sparse(like), dtype)

    def _problem(self, facts: _Facts) -> DecompositionProblem:
        center = None if self.center is False else self.center
        if center is not None and not isinstance(center, str):
            center = _checked_center(center, facts.shape[1])
        given, epsilon = self.privacy_unit, float(self.epsilon)
        own = UNITS.get(given) if isinstance(given, str) else None
        unit = own(self.adjacency) if own else resolved_unit(given, self.adjacency, epsilon)
        support, is_sparse = SUPPORT[type(unit)], facts.is_sparse or unit.is_sparse
        problem = self._asked(
            DecompositionProblem,
            procedure=_BY_PRODUCTS if support.has_bases else _BY_ROWS,
            **facts._asdict(),
            rounding=sum_rounding(block_starts(*facts.shape, is_sparse=is_sparse)),
            is_pca=self._is_pca,
            unit=unit,
            support=support,
            given_unit=f"privacy_unit={given!r}",
            n_units=support.count(facts.shape),
            is_private=math.isfinite(epsilon),
            is_pure=self.delta == 0 and math.isfinite(epsilon),
            center=center,
            releases_mean=not self._is_pca or isinstance(center, str),
        )
        return settle_products(problem) if support.has_bases else settle_rows(problem)

    def _open_data(
        self, data: Any, problem: DecompositionProblem
    ) -> tuple[Rows, Callable[[], Any]]:
        given, X = data
        validate_data(self, given, skip_check_array=True)
        if problem.unit.is_sparse and isinstance(X, np.ndarray):
            X = csr_array(X)
        clip = problem.unit.clipped if problem.support.has_bases else None
        source = as_source(X, clip)
        return Rows(source, self.n_jobs), lambda: digest(source)

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
        return _doubts(result, wanted, problem)

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

    def _project(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        if isinstance(X, RowBlocks):
            validate_data(self, X, skip_check_array=True, reset=False)
            X.check()
            components = self.components_.astype(np.float64)
            source = as_source(X, self._as_decomposed)
            return Rows(source, self.n_jobs).matmul(components.T).astype(X.dtype)
        X = validate_data(self, X, **INPUT, reset=False)
        return np.asarray(self._as_decomposed(X) @ self.components_.T)

    def _as_decomposed(self, X: Any) -> Any:
        """Bring rows into the form whose components were found."""
        return self._unit.normalize(X)

    def _restore(self, scores: np.ndarray) -> np.ndarray:
        return np.asarray(scores @ self.components_)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = getattr(self.privacy_unit, "is_pairwise", False) is True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _checked_center(center: Any, n_features: int) -> np.ndarray:
    """Refuse a public centre that does not fit the rows."""
    checked = check_array(center, ensure_2d=False, dtype=np.float64, input_name="center")
    if np.abs(checked).max(initial=0.0) > 1 / SMALLEST_BOUND:
        raise ValueError(f"center must not exceed {1 / SMALLEST_BOUND} in size.")
    if checked.shape != (n_features,):
        raise ValueError(f"center has shape {checked.shape}, but X has {n_features} features.")
    return np.asarray(checked)


def _check_symmetric(X: Any, given_unit: str) -> None:
    """Refuse what is not a symmetric matrix in memory."""
    if isinstance(X, RowBlocks):
        raise ValueError(f"{given_unit} needs a matrix in memory, got RowBlocks.")
    if X.shape[0] != X.shape[1]:
        raise ValueError(
            f"{given_unit} needs a symmetric matrix, got one of shape {X.shape}; skdp.units.Entry "
            "takes any matrix."
        )
    if not is_symmetric(X):
        raise ValueError(
            f"{given_unit} needs a symmetric matrix, and X is not. Of a graph with one triangle "
            "stored pass X + X.T; skdp.units.Entry takes any matrix."
        )


def _doubts(result: Factors, wanted: int, problem: DecompositionProblem) -> list[str]:
    """Say so when the iteration failed, or a released component looks like noise."""
    if result.failed:
        return [
            f"A basis exceeded coherence_bound={problem.coherence_bound}: the iteration ended, its "
            "budget is spent, and the components are noise. A random basis has a coherence of some "
            "2 log(n); pass a larger bound, or None for none at all."
        ]
    if result.noise_scale > 0 and result.n_above_noise < wanted:
        return [
            f"Only {result.n_above_noise} of {wanted} components stand out from the noise. Ask for "
            f"fewer components, or use {problem.unit.remedy}."
        ]
    return []
