"""The base class of estimators of matrices: checks, reading, projections, and warnings."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skdp import _validation as checks
from skdp._estimator import Data, PrivateEstimator, in_dtype
from skdp._prior import FEATURES, NORMAL_LAW, check_prior
from skdp.data.containers import (
    MISSING,
    checked_container,
    finite,
    float_dtype,
    kinds_of,
    text_of_kinds,
)
from skdp.data.parts import NOT_FINITE, RowBlocks, RowParts
from skdp.data.people import depth_of, keyed_by_people, people_of
from skdp.data.reduce import rounding_of_depth
from skdp.data.rows import Rows, not_finite_error
from skdp.data.sources import Source, as_source, digest, holds_sparse
from skdp.decomposition import _spec
from skdp.decomposition.entries.plan import plan_entries, resolve_entries
from skdp.decomposition.entries.solvers import solve_entries
from skdp.decomposition.rows.fit import read_rows_once, solve_rows
from skdp.decomposition.rows.plan import plan_rows, resolve_rows, warnings_for_rows
from skdp.exceptions import counted
from skdp.linalg.matrices import FixedRank
from skdp.linalg.spectrum import coherence, deterministic_signs, is_symmetric
from skdp.privacy import PrivacySpent
from skdp.privacy.clipping import NO_CLIPPING, shift_entries
from skdp.privacy.precision import as_python
from skdp.units import ResolvedRow, ResolvedUnit, ResolvedUser, supported_unit

# ------------------------------
# Projections on released components, reconstructions, and the factors of streams.


class Projection(NamedTuple):
    """The map from rows to coordinates along components and back, for arrays and CSR matrices."""

    components: np.ndarray
    normalize: Callable[[Any], Any] | None = None  # first step: the privacy unit scales rows
    mean: np.ndarray | None = None
    stds: np.ndarray | None = None  # divisors of coordinates
    middle: float = 0.0  # middle of the bounds of entries, if the fit subtracted it from X

    def apply(self, X: Any) -> np.ndarray:
        """Project rows on the components; coordinates that overflow become large but finite."""
        with np.errstate(all="ignore"):
            rows = X if self.normalize is None else self.normalize(X)
            scores = np.asarray(shift_entries(rows, self.middle) @ self.components.T)
            if self.mean is not None:
                scores = scores - self.mean @ self.components.T
            return finite(scores if self.stds is None else scores / self.stds)

    def undo(self, scores: np.ndarray) -> np.ndarray:
        """Map coordinates back to rows."""
        with np.errstate(all="ignore"):
            scores = scores if self.stds is None else scores * self.stds
            rows = np.asarray(scores @ self.components) + self.middle
            return finite(rows if self.mean is None else rows + self.mean)


class ReconstructionMixin:
    """`reconstruct`: products of `left_components_`, `singular_values_` and `components_`."""

    left_components_: np.ndarray
    singular_values_: np.ndarray
    components_: np.ndarray

    @property
    def _middle(self) -> float:
        """Middle of the bounds of entries, if the fit subtracted it from X; otherwise 0."""
        return getattr(self, "middle_", 0.0)

    def reconstruct(self, rows: Any = None, columns: Any = None) -> np.ndarray:
        """Compute entries of the released approximation of X. Covered by the guarantee.

        Parameters
        ----------
        rows, columns : int, slice, array-like or None, default=None
            Rows and columns, as numpy indexes an axis; ``None`` takes all.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
            The product of the three factors in these cells, plus `middle_` if it exists; an axis
            that is indexed by an int is dropped.

        Raises
        ------
        IndexError
            If such rows or columns do not exist.
        """
        if hasattr(self, "fit"):
            check_is_fitted(self)
        left = _indexed(self.left_components_, rows, "rows") * self.singular_values_
        return np.asarray(left @ _indexed(self.components_.T, columns, "columns").T) + self._middle

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the mean squared error of rows projected on the components.

        The score rises with every component, even if the component is noise. Components with a
        singular value of 0 are noise. The score is a noise-free function of the rows passed in,
        which the guarantee does not cover.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowBlocks, dask collection} of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.

        Returns
        -------
        float
            Minus the mean of the squared entries of ``X - X @ V @ V.T``; larger is better.
        """
        X, _ = checks.in_parts(X)
        scores = self.transform(X)  # type: ignore[attr-defined]
        checked = checks.check_transformed(X, self.components_.shape[1], type(self).__name__)
        shifted = as_source(checked, partial(shift_entries, shift=self._middle))
        sources = shifted, as_source(scores)
        (squares, _), (inside, _) = (Rows(source).squared_norm() for source in sources)
        if np.isnan(inside):
            # Coordinates of a row with NaN or infinity are NaN, if rows are read in blocks.
            raise ValueError(NOT_FINITE)
        return -max(squares - inside, 0.0) / (checked.shape[0] * checked.shape[1])


def _indexed(factor: np.ndarray, which: Any, name: str) -> np.ndarray:
    """Return rows of a factor; errors do not quote the index, which may come from private data."""
    if which is None:
        return factor
    which = checked_container(which)
    with suppress(Exception):
        return np.asarray(factor[which])
    raise IndexError(f"{name} must be indices, slices or masks of an axis of length {len(factor)}.")


@dataclass(frozen=True, eq=False)
class LowRankFactors(ReconstructionMixin):  # numpydoc ignore=PR02
    """Low-rank factors of a private matrix, as released.

    :meth:`DPStreamingFactorizer.finalize` and :meth:`DPContinualFactorizer.release` return them.

    Parameters
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Right singular vectors.
    singular_values_ : ndarray of shape (n_components,)
        Singular values of the approximation; 0 where noise hides a component.
    left_components_ : ndarray of shape (n_samples, n_components)
        Left singular vectors.
    privacy_spent_ : PrivacySpent
        Record of every release.

    Notes
    -----
    **Privacy.** All attributes are covered by the guarantee of the stream, and so is a pickle.
    """

    components_: np.ndarray
    singular_values_: np.ndarray
    left_components_: np.ndarray
    privacy_spent_: PrivacySpent

    @classmethod
    def _of(cls, fit: FixedRank, spent: PrivacySpent) -> Self:
        """Make factors from singular vectors, with deterministic signs."""
        signs = deterministic_signs(fit.right.T)
        return cls(fit.right.T * signs[:, np.newaxis], fit.values, fit.left * signs, spent)

    @checks.by_chunks
    def transform(self, X: Any) -> Any:
        """Project rows on the components.

        A noise-free function of the rows passed in, which the guarantee does not cover.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowBlocks, dask collection} of shape (n_samples, n_features)
            Rows to project.

        Returns
        -------
        ndarray, RowBlocks or dask array of shape (n_samples, n_components)
            Coordinates of the rows; those of blocks or chunks are computed when they are read.
        """
        size, n_features = self.components_.shape
        rows = checks.check_transformed(X, n_features, type(self).__name__)
        return checks.transformed(rows, Projection(self.components_).apply, size)

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
        coordinates = checks.check_numbers(X, "X", dtype=checks.INPUT["dtype"], ensure_2d=False)
        return np.asarray(coordinates @ self.components_)

    def __repr__(self) -> str:
        n_rows, size = self.left_components_.shape
        return f"LowRankFactors(shape={(n_rows, self.components_.shape[1])}, n_components={size})"


# ------------------------------
# The base of estimators.

# A fit warns that columns may be in different units if few of them, at most the fraction `_FEW` or
# one column, have the fraction `_NEARLY_ALL` of the variance of all columns, and if the largest
# variance of a column exceeds `_LARGEST_RATIO` times the median variance.
_FEW, _NEARLY_ALL = 0.2, 0.99  # not studied
_LARGEST_RATIO = 1e4  # not studied
# A variance below this many standard deviations of its noise may be noise alone.
_VISIBLE = 4.0  # not studied


def warnings_for_units(factors: _spec.Factors, n_features: int) -> list[str]:
    """Warn if few columns have nearly all of the released variance, and recommend DPStandardScaler.

    The caller has found that noise hides components, perhaps because of columns in unlike units.
    The variance of a column is summed over the components that stand out from the noise.
    """
    n_visible = factors.n_above_noise
    if not n_visible or len(factors.eigenvalues) < n_features:
        return []
    components, eigenvalues = factors.components[:n_visible], factors.eigenvalues[:n_visible]
    variances = np.sort(eigenvalues @ np.square(components))[::-1]
    n_few = max(int(_FEW * n_features), 1)
    is_alone = variances[:n_few].sum() > _NEARLY_ALL * variances.sum()
    median = float(np.median(variances))
    if median <= _VISIBLE * factors.eigenvalue_noise:
        median = 0.0  # The median may be noise alone.
    if not is_alone or variances[0] <= _LARGEST_RATIO * median:
        return []
    return [
        f"Nearly all of the released variance belongs to at most {n_few} of {n_features} columns, "
        f"and decides on the components alone: the largest is over {_LARGEST_RATIO:g} times "
        "the median. If columns are in different units, put skdp.DPStandardScaler before this step."
    ]


# A fit warns if, even along the best component, less than this fraction of the differences between
# rows is signal.
_LEAST_SIGNAL = 0.5  # not studied


class MatrixEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):
    """Base of private estimators that find components of a matrix in feature space."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PrivateEstimator._parameter_constraints,
        # `_resolved_unit` checks the unit.
        "privacy_unit": "no_validation",
        "row_norm": [*checks.ANY_BOUND, None],
        "n_iter": [Interval(Integral, 1, 100, closed="both"), StrOptions({"auto"})],
        "n_oversamples": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
    }
    #: Constraints of estimators that publish components, but no reconstruction.
    _component_constraints: ClassVar[dict[str, Any]] = {
        "mean_norm": [*checks.ANY_BOUND, None],
        "solver": [
            StrOptions({"auto", "covariance", "power", "alternating", "deflation", "input"})
        ],
        "coherence_bound": [Interval(Real, 1, None, closed="left"), None],
    }

    #: Solvers and settings that the estimator supports, by unit.
    _support: ClassVar[dict[type[ResolvedUnit], _spec.Support]] = _spec.SUPPORT
    _is_pca: ClassVar[bool] = False
    # Values for subclasses whose constructor lacks the parameter.
    center: Any = False
    mean_norm: float | None = None
    coherence_bound: float | None = None
    _warnings = staticmethod(warnings_for_rows)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, *, users: Any = None) -> Self:
        """Find the components, spending the whole budget.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowBlocks, dask collection} of shape (n_samples, n_features)
            Rows to protect.
        y : None
            Ignored.
        users : {array-like, dask collection} of shape (n_samples,), list of arrays or None, \
                default=None
            Owner of each row, for ``privacy_unit="user"``: ids of one kind, integers or strings;
            of rows in parts also a list with an array for each part.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        ValueError
            If X, `users` or a parameter is not acceptable; nothing has been spent then.
        """
        return self._fit(X, users=users)

    @checks.by_chunks
    def transform(self, X: Any) -> Any:
        """Project rows on the components.

        The result is a noise-free function of the rows passed in, which the guarantee does not
        cover.

        Parameters
        ----------
        X : {array-like, sparse matrix, RowBlocks, dask collection} of shape (n_samples, n_features)
            Rows to project.

        Returns
        -------
        ndarray, RowBlocks or dask array of shape (n_samples, n_components)
            Coordinates of the rows; those of blocks or chunks are computed when they are read.
        """
        rows = checks.check_rows_of(X, self)
        return checks.transformed(rows, self._projection.apply, self._n_features_out)

    @checks.by_chunks
    def inverse_transform(self, X: Any) -> Any:
        """Map coordinates back to the space of the rows.

        Parameters
        ----------
        X : {array-like, RowBlocks, dask collection} of shape (n_samples, n_components)
            Coordinates.

        Returns
        -------
        ndarray, RowBlocks or dask array of shape (n_samples, n_features)
            Rows in the span of the components; those of blocks or chunks are computed when read.
        """
        check_is_fitted(self)
        width, name = self._n_features_out, type(self).__name__
        rows = checks.check_transformed(X, width, name, accept_sparse=False)
        return checks.transformed(rows, self._projection.undo, self.components_.shape[1])

    def _validate(self, X: Any, y: Any, users: Any = None) -> tuple[_spec.MatrixSpec, Data]:
        checked = self._checked(X)
        self._resolved_unit()  # refuses a bad unit before `people_of` asks for ids of users
        people = people_of(users, checked, self.privacy_unit)
        n_units = checked.shape[0] if people is None else people.n_people
        names = checks.feature_names(X)
        spec = self._spec_of((n_units, checked.shape[1]), like=checked, names=names)
        if spec.unit.is_symmetric and not is_symmetric(checked):
            raise ValueError(
                f"{spec.given_unit} needs a symmetric matrix, and X is not. If it is a graph of "
                "which one triangle is stored, pass X + X.T; skdp.units.Entry takes any matrix."
            )
        # The checked X has no column names.
        checks.check_features(X, self, reset=True)
        return spec, self._view(checked, spec, partial(Rows, people=people))

    def _checked(self, X: Any) -> Any:
        """Check X; owners in a federated fit call this, too, but have another view of the rows."""
        # For rows and users, `_view` checks the values in the pass that computes the norms of rows.
        has_norms = isinstance(self.privacy_unit, str)
        return checks.check_rows_or_blocks(X, type(self).__name__, ensure_all_finite=not has_norms)

    def _spec_like(self, n_samples: int, n_features: int, like: Any) -> _spec.MatrixSpec:
        return self._spec_of((n_samples, n_features), like=like)

    def _spec_of(
        self, shape: tuple[int, int], *, like: Any, names: Any = None, **changes: Any
    ) -> _spec.MatrixSpec:
        """Return the spec; refuse parameters that contradict each other or public facts.

        `changes` replace fields of the spec after parameters have set them.
        """
        center = None if self.center is False else self.center
        if center is not None and not isinstance(center, str):
            center = _checked_center(center, shape[1])
        unit, given_unit = self._resolved_unit(), f"privacy_unit={self.privacy_unit!r}"
        support = self._support[type(unit)]
        # Symmetry is checked in the whole X, so a symmetric X must not come in blocks. A left basis
        # has a row for each row of X, and rows in parts may be too many for such a basis.
        refused = RowBlocks if unit.is_symmetric else RowParts if support.has_bases else ()
        if isinstance(like, refused):
            raise ValueError(
                f"{given_unit} needs an array or a memory map, got RowBlocks, which are taken with "
                "privacy_unit='row'."
            )
        self._check_unused_bounds(given_unit, has_bases=support.has_bases)
        is_sparse, are_people = holds_sparse(like), isinstance(unit, ResolvedUser)
        depth = depth_of(like, shape, is_sparse=is_sparse or unit.is_sparse, are_people=are_people)
        facts = {
            "unit": unit,
            "given_unit": given_unit,
            "support": support,
            "n_units": support.count(shape),
            "shape": shape,
            "is_sparse": is_sparse,
            "dtype": float_dtype(like),
            "rounding": rounding_of_depth(depth, shape[0]),
            "center": center,
            "releases_mean": not self._is_pca or isinstance(center, str),
            "prior": self._checked_prior(shape[1], names, given_unit, has_bases=support.has_bases),
            **changes,
        }
        if support.has_bases:
            return resolve_entries(self._asked(_spec.EntriesSpec, **facts))
        facts |= {"is_pca": self._is_pca, "is_in_memory": not isinstance(like, RowBlocks)}
        return resolve_rows(self._asked(_spec.RowsSpec, **facts))

    def _checked_prior(
        self, n_features: int, names: Any, given_unit: str, *, has_bases: bool
    ) -> np.ndarray | None:
        """Return the covariances of the prior; refuse a prior if no second moment is released."""
        if (prior := getattr(self, "prior", None)) is None:
            return None
        if has_bases or self.solver not in ("auto", "covariance"):
            raise ValueError(
                "prior is for privacy_unit='row' or 'user' and solver='covariance', got "
                f"{given_unit} and solver={self.solver!r}: pass prior=None, or these."
            )
        shapes = [(n_features,), (n_features, n_features)]
        return check_prior(prior, NORMAL_LAW, shapes, {FEATURES: names})[1]

    def _resolved_unit(self) -> ResolvedUnit:
        given, name = self.privacy_unit, type(self).__name__
        if isinstance(given, str) and given == "row":
            return ResolvedRow(self.adjacency)
        if isinstance(given, str) and given == "user" and ResolvedUser in self._support:
            return ResolvedUser(self.adjacency)
        return supported_unit(given, self.adjacency, self._cost().epsilon, self._support, name)

    def _check_unused_bounds(self, given_unit: str, *, has_bases: bool) -> None:
        """Refuse a bound on row norms, or on coherence, if the fit would not use the bound."""
        unused, purpose, hint = ["coherence_bound"], "iterations on entries or edges", ""
        if has_bases:
            unused, purpose = ["row_norm", "mean_norm"], "privacy_unit='row'"
            hint = " Objects of skdp.units carry their own bounds."
        for name in unused:
            if (bound := as_python(getattr(self, name))) is not None:
                raise ValueError(
                    f"{name}={bound:g} is for {purpose}, got {given_unit}: pass {name}=None.{hint}"
                )

    def _plan(self, spec: _spec.AnySpec) -> Any:
        return plan_rows(spec) if isinstance(spec, _spec.RowsSpec) else plan_entries(spec)

    def _solve(self, spec: _spec.AnySpec, plan: Any, *opened: Any) -> _spec.Factors:
        solve: Any = solve_rows if isinstance(spec, _spec.RowsSpec) else solve_entries
        return solve(spec, plan, *opened)

    def _set_attributes(self, result: _spec.Factors, spec: _spec.MatrixSpec) -> list[str]:
        self._unit = spec.unit
        wanted = self._set_factors(result, spec)
        if result.row_norm is not None:  # only rows have a clipping norm
            self.row_norm_ = result.row_norm
        else:
            self.coherence_right_ = coherence(result.components.T)
            self.failed_ = result.failed
        whitens = bool(getattr(self, "whiten", False))
        return warnings_for_factors(result, wanted, spec, whitens=whitens)

    @abstractmethod
    def _set_factors(self, factors: _spec.Factors, spec: _spec.MatrixSpec) -> int:
        """Set attributes from the factors; return how many components the user asked for."""

    def _set_components(
        self, factors: _spec.Factors, variances: np.ndarray, total: float, dtype: np.dtype
    ) -> None:
        """Set the mean, the components, their variances, and fractions of the total variance."""
        self.mean_ = in_dtype(factors.mean, dtype)
        self.explained_variance_ = in_dtype(variances, dtype)
        self.explained_variance_ratio_ = in_dtype(_spec.ratios_of(variances, total), dtype)
        self.components_ = in_dtype(factors.components, dtype)
        self.singular_values_ = in_dtype(np.sqrt(factors.eigenvalues), dtype)
        if factors.left is not None:
            self.coherence_left_ = coherence(factors.left)
            self.left_components_ = in_dtype(factors.left, dtype)

    def _view(
        self, X: Any, spec: _spec.MatrixSpec, view_of: Callable[[Source, int | None], Rows] = Rows
    ) -> Data:
        """Return a view of the rows, and their hash; for units with bounded rows, read X once."""
        if spec.unit.is_sparse and isinstance(X, np.ndarray):
            X = csr_array(X)
        if not isinstance(spec, _spec.RowsSpec):
            entries = view_of(as_source(X, spec.unit.clipped), self.n_jobs)
            return entries, lambda: digest(entries.source)
        raw = view_of(as_source(X), self.n_jobs)
        rows, rows_digest = read_rows_once(spec, raw, is_seeded=self._is_seeded)
        if rows.cache.n_not_finite:
            if not isinstance(X, np.ndarray):
                raise not_finite_error(raw.source, self.n_jobs)
            kinds = kinds_of(X, getattr(self, "feature_names_in_", None))
            text = f"Input X contains NaN or infinity. {MISSING['X']}"
            raise ValueError(f"{text} {text_of_kinds(kinds, text)}".rstrip())
        return rows, keyed_by_people(lambda: rows_digest, rows.people)

    @property
    def _projection(self) -> Projection:
        middle = getattr(self, "middle_", 0.0)
        return Projection(self.components_, self._unit.normalize, middle=middle)

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
    """Refuse a public center that does not fit X."""
    checked = checks.check_numbers(center, "center", ensure_2d=False)
    if np.abs(checked).max(initial=0.0) > NO_CLIPPING:
        raise ValueError(f"center must not exceed {NO_CLIPPING} in size.")
    if checked.shape != (n_features,):
        raise ValueError(f"center has shape {checked.shape}, but X has {n_features} features.")
    return checked


# A fit warns of clipping if clipping probably loses at least this fraction of the sum of squares.
# Squares that clipping removes are lost only if the components do not explain them.
_LEAST_CUT = 0.12  # benchmarks/sweep/sweep.md, job "components"


def warnings_for_factors(
    result: _spec.Factors, wanted: int, spec: _spec.MatrixSpec, *, whitens: bool = False
) -> list[str]:
    """Warn if the iteration failed, or if released components look like noise."""
    if isinstance(spec, _spec.EntriesSpec) and result.failed:
        return [
            "The components are noise, and the budget is spent: a basis exceeded "
            f"coherence_bound={spec.coherence_bound}, which ended the iteration. Pass a larger "
            "bound, or None for no bound; a random basis has a coherence of about 2 log(n)."
        ]
    is_of_rows, warnings = isinstance(spec, _spec.RowsSpec), list[str]()
    if is_of_rows:
        warnings += _warnings_for_long_rows(result, wanted, spec.shape[0])
    if result.left_signal < _LEAST_SIGNAL:
        warnings.append(
            f"Apart from the mean, at most {result.left_signal:.1%} of left_components_ is signal: "
            "noise that hides a row also hides its coordinates, however many rows there are. If "
            "you need components_, skdp.DPTruncatedSVD spends the whole budget on them."
        )
    if result.eigenvalue_noise == 0 or result.n_above_noise >= wanted:
        return warnings
    is_asked, lost = isinstance(spec.n_components, Integral), ""
    if is_asked and is_of_rows:
        if hidden := _hidden_part(result, wanted, spec.shape[1]):
            lost = f"; the others may hold up to {hidden:.0%} of the sum of squares"
        elif whitens:
            # Whitening divides by the released variance, which is mostly noise, however small.
            lost = "; whitened coordinates of the others do not have the variance 1"
        else:
            return warnings
    fewer = "Ask for fewer components, or use " if result.n_above_noise and is_asked else "Use "
    warnings.append(
        f"Only {result.n_above_noise} of {counted(wanted, 'component')} stand out from the "
        f"noise{lost}. {fewer}{spec.unit.remedy}."
    )
    if isinstance(spec, _spec.RowsSpec) and spec.is_pca:
        warnings += warnings_for_units(result, spec.shape[1])
    return warnings


def _warnings_for_long_rows(result: _spec.Factors, wanted: int, n_rows: int) -> Iterator[str]:
    """Warn if clipping loses much of long rows, or if noise of their size hides all other rows."""
    # Clipping shortens a row but keeps its direction. So what clipping removes of a row is lost
    # only as far as the components do not explain the row.
    explained = min(_spec.ratios_of(result.eigenvalues[:wanted], result.total).sum(), 1.0)
    loss = float((1 - result.unclipped) * (1 - explained))
    part, multiple = result.far_rows
    if part and result.row_norm:
        # In units of the squared clipping norm: clipping removes at least `removed` of the mean
        # squared norm of the rows, and leaves `left`.
        removed = part * (multiple**2 - 1)
        left = result.total / n_rows / result.row_norm**2
        # Far rows are the fraction `part` of all, and have one unit each after clipping. At worst,
        # they have all of the sum of squares that the components do not explain.
        unexplained = min((1 - explained) * left / part, 1.0)
        loss = max(loss, unexplained * removed / (removed + left))
    if not loss < _LEAST_CUT:
        yield (
            f"row_norm: clipping at {result.row_norm:.3g} probably leaves out {loss:.0%} of the "
            "sum of squares: some rows are much longer than the others, and the components follow "
            "the others. If the long rows matter, pass a larger row_norm; if not, divide each row "
            "by its norm, take logarithms of counts, or replace codes for gaps, such as -999."
        )
    if result.giants is not None:
        part, times, others = result.giants
        yield (
            f"row_norm: {part:.1%} of the rows are at least {times:.0f} times as long as all "
            "others, and noise of that size hides the others. If they hold errors, or codes for "
            f"gaps, such as -999, replace these, or pass a row_norm of at most {others:.3g}."
        )


# A fit warns of components that noise hides if they surely have the fraction `_SURELY_HIDDEN` of
# the sum of squares, or may have the fraction `_MAYBE_HIDDEN`.
_SURELY_HIDDEN, _MAYBE_HIDDEN = 0.02, 0.06  # benchmarks/sweep/sweep.md, job "components"


def _hidden_part(result: _spec.Factors, wanted: int, n_features: int) -> float:
    """Bound the fraction of the sum of squares that hidden components have; 0 if it is small.

    Visible components leave a rest of the noisy sum of squares. Hidden components surely have this
    rest minus one standard deviation of its noise, and may have the rest plus one standard
    deviation. The bound is the rest plus two standard deviations. If a whole second moment was
    released, each hidden component has at most the largest eigenvalue that noise can hide.
    """
    total, n_visible = result.total, result.n_above_noise
    total_std = result.eigenvalue_noise * math.sqrt(n_features)
    left = max(total - float(result.eigenvalues[:n_visible].sum()), 0.0)
    most = total
    if result.decompose is not None:
        # The largest increase of an eigenvalue by noise, as in `eigenvalue_pushes`.
        push = total_std * math.sqrt(0.5)
        if not n_visible:
            # The error of the center is another noise.
            push = max(push, result.off_diagonal_std * math.sqrt(n_features))
        most = min(most, (wanted - n_visible) * push)
    surely, maybe, bound = (min(left + n_stds * total_std, most) for n_stds in (-1, 1, 2))
    if surely < _SURELY_HIDDEN * total and maybe < _MAYBE_HIDDEN * total:
        return 0.0
    return bound / total if bound < total else 1.0
