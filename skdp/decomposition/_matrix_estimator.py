"""Estimators of matrices: what they read, and the linear maps of their components."""

from abc import abstractmethod
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import (
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.utils._param_validation import Interval, Options
from sklearn.utils.validation import check_is_fitted

from skdp._estimator import Data, PrivateEstimator
from skdp._reading import INPUT, check_features, check_numbers, check_rows, check_rows_of
from skdp.data.digest import digest
from skdp.data.finite import finite
from skdp.data.reduce import sum_rounding
from skdp.data.rows import Rows
from skdp.data.sources import RowBlocks, as_source, block_starts, holds_sparse
from skdp.decomposition._factors import Factors
from skdp.decomposition._problem import UNITS, DecompositionProblem, Support
from skdp.decomposition._products.plan import settle_products
from skdp.decomposition._rows.fit import open_for
from skdp.decomposition._rows.plan import doubts_of_rows
from skdp.decomposition._rows.resolve import settle_rows
from skdp.linalg.symmetry import is_symmetric
from skdp.privacy.clipping import SMALLEST_BOUND
from skdp.units._resolved import ResolvedUnit
from skdp.units._unit import supported_unit

__all__ = ["BOUND_CONSTRAINT", "MatrixEstimator", "MatrixFacts", "doubts_of_factors"]

#: A public bound of rows, or None for one that is sought.
BOUND_CONSTRAINT = [  # not tuned
    Interval(Real, SMALLEST_BOUND, 1 / SMALLEST_BOUND, closed="both"),
    Options(Real, {np.inf}),
    None,
]


# With less signal than this in their coordinates, single rows are mostly noise.
_LEAST_SIGNAL = 0.5  # not studied


class MatrixFacts(NamedTuple):
    """Public facts of X."""

    shape: tuple[int, int]
    is_sparse: bool
    dtype: np.dtype


class MatrixEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):
    """A private estimator of a matrix with components in feature space."""

    _doubts = staticmethod(doubts_of_rows)
    #: What can be asked for with each unit that it protects.
    _support: ClassVar[dict[type[ResolvedUnit], Support]]

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
        # A finite row may overflow, and what reads the result would refuse it.
        with np.errstate(all="ignore"):
            return finite(self._project(X))

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
        checked = check_numbers(X, "X", dtype=INPUT["dtype"], estimator=self)
        with np.errstate(all="ignore"):
            return finite(self._restore(checked))

    def _problem(self, X: Any, y: Any) -> tuple[DecompositionProblem, Data]:
        checked = X
        if isinstance(X, RowBlocks):
            X.check()
        else:
            # Whether rows that are bounded in norm are finite, their norms will show.
            is_bounded = isinstance(self.privacy_unit, str)
            checked = check_rows(X, type(self).__name__, ensure_all_finite=not is_bounded)
        if getattr(self.privacy_unit, "is_pairwise", False) is True:
            _check_symmetric(checked, f"privacy_unit={self.privacy_unit!r}")
        facts = MatrixFacts(tuple(checked.shape), holds_sparse(checked), np.dtype(checked.dtype))
        problem = self._problem_of(facts)
        # X as given: checking takes the names of its features off.
        check_features(X, self, reset=True)
        return problem, self._opened(X, checked, problem)

    def _problem_like(self, n_samples: int, n_features: int, like: Any) -> DecompositionProblem:
        shape = getattr(like, "shape", (n_samples, n_features))
        if len(shape) != 2 or shape[1] != n_features:
            raise ValueError(f"n_features={n_features} does not fit like, of shape {shape}.")
        dtype = getattr(like, "dtype", None)
        dtype = np.dtype(np.float32 if dtype == np.float32 else np.float64)
        return self._problem_of(MatrixFacts((n_samples, n_features), holds_sparse(like), dtype))

    @abstractmethod
    def _problem_of(self, facts: MatrixFacts) -> DecompositionProblem:
        """Refuse parameters that contradict each other or the facts; return what is asked."""

    def _settled(self, facts: MatrixFacts, **more: Any) -> DecompositionProblem:
        """Collect what is asked, and replace what is "auto"."""
        given = self.privacy_unit
        own = UNITS.get(given) if isinstance(given, str) else None
        unit = (
            own(self.adjacency)
            if own
            else supported_unit(
                given, self.adjacency, float(self.epsilon), self._support, type(self).__name__
            )
        )
        support, is_sparse = self._support[type(unit)], facts.is_sparse or unit.is_sparse
        problem = self._asked(
            DecompositionProblem,
            **{
                **facts._asdict(),
                "rounding": sum_rounding(
                    block_starts(*facts.shape, is_sparse=is_sparse), facts.shape[1]
                ),
                "unit": unit,
                "support": support,
                "given_unit": f"privacy_unit={given!r}",
                "n_units": support.count(facts.shape),
                **more,
            },
        )
        return settle_products(problem) if support.has_bases else settle_rows(problem)

    def _opened(self, given: Any, X: Any, problem: DecompositionProblem) -> Data:
        """Make the view of the rows; read all that are bounded in norm once."""
        if problem.unit.is_sparse and isinstance(X, np.ndarray):
            X = csr_array(X)
        clip = problem.unit.clipped if problem.support.has_bases else None
        rows = Rows(as_source(X, clip), self.n_jobs)
        if problem.support.has_bases:
            return rows, lambda: digest(rows.source)
        opening = open_for(problem, rows, is_keyed=self._is_keyed)
        if not opening.seem_finite and not isinstance(X, RowBlocks):
            check_rows(given, type(self).__name__)
        return opening.rows, lambda: opening.digest

    def _project(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        if isinstance(X, RowBlocks):
            check_features(X, self)
            X.check()
            components = self.components_.astype(np.float64)
            source = as_source(X, self._as_decomposed)
            return Rows(source, self.n_jobs).matmul(components.T).astype(X.dtype)
        X = check_rows_of(X, self)
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


def doubts_of_factors(result: Factors, wanted: int, problem: DecompositionProblem) -> list[str]:
    """Say so when the iteration failed, or a released component looks like noise."""
    if result.failed:
        return [
            f"A basis exceeded coherence_bound={problem.coherence_bound}: the iteration ended, its "
            "budget is spent, and the components are noise. A random basis has a coherence of some "
            "2 log(n); pass a larger bound, or None for none at all."
        ]
    doubts = []
    if result.left_signal < _LEAST_SIGNAL:
        doubts.append(
            f"Of what the rows' own factors stem from, at most {result.left_signal:.1%} is signal: "
            "the noise that hides a whole row hides its coordinates too, and the reconstruction is "
            "near 0, however many rows there are. The components are none the worse; "
            "skdp.DPTruncatedSVD spends all on them."
        )
    if result.noise_scale > 0 and result.n_above_noise < wanted:
        doubts.append(
            f"Only {result.n_above_noise} of {wanted} components stand out from the noise. Ask for "
            f"fewer components, or use {problem.unit.remedy}."
        )
    return doubts
