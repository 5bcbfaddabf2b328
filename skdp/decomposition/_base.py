"""What the private decompositions share: checks, the door, and linear transforms."""

from abc import abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Self

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

from skdp._estimator import INPUT, PrivateEstimator, check_finite_bound, check_rows, in_dtype
from skdp._parameters import with_plain_parameters
from skdp.decomposition._entry_level import EntryResult, solve_entries
from skdp.decomposition._entry_parameters import (
    ENTRY_CONSTRAINTS,
    SQUARE_UNITS,
    check_entry_input,
    check_entry_parameters,
    count_units,
    settings_of,
    unit_of,
)
from skdp.decomposition._row_level import check_sparse_center, warn_of_noise
from skdp.decomposition._solvers.factors import Factors
from skdp.decomposition._solvers.units import Interaction, ShortRow, Unit
from skdp.exceptions import warn_of_privacy
from skdp.linalg.digest import digest
from skdp.linalg.rows import Rows
from skdp.linalg.sources import RowBlocks, Source, as_source
from skdp.linalg.subspace import coherence
from skdp.privacy import PrivacyBudget
from skdp.privacy.clipping import SMALLEST_BOUND
from skdp.privacy.noise import algorithm_generator, draw_seed

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


class BaseDecomposition(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):
    """Private decomposition with components in feature space."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PrivateEstimator._parameter_constraints,
        "row_norm": _BOUND_CONSTRAINT,
        "mean_norm": _BOUND_CONSTRAINT,
        **ENTRY_CONSTRAINTS,
        "n_iter": [Interval(Integral, 1, 100, closed="both"), StrOptions({"auto"})],
        "n_oversamples": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
    }

    @with_plain_parameters
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
        X = self._checked_input(X)
        # What overflows becomes null; an exception or a warning would tell of single rows.
        with np.errstate(all="ignore"):
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

    def _fit(self, X: Any) -> None:
        for name in _CHANGING_ATTRIBUTES:
            self.__dict__.pop(name, None)
        unit = unit_of(self)
        if unit is None:
            self._fit_rows(X)
        else:
            self._fit_entries(X, unit)

    @abstractmethod
    def _fit_rows(self, X: Any) -> None:
        """Set the fitted attributes from checked input, for rows of any length."""

    def _fit_entries(self, X: Any, unit: Unit) -> None:
        """Set the fitted attributes from checked input, for the other units."""
        if isinstance(unit, ShortRow) and isinstance(X, np.ndarray):
            X = csr_array(X)
        raw, budget, generator = self._open_fit(X, unit.restrict)
        center = self._entry_center()
        result = solve_entries(
            raw,
            budget,
            generator,
            unit=unit,
            settings=settings_of(self, X.shape, center),
            center=center,
            needs_mean=self._needs_mean,
        )
        wanted = self._set_attributes(
            result.factors, result.mean, result.mean_noise, raw.n_rows, X.dtype
        )
        self._set_entry_attributes(result, unit, X.dtype)
        self.privacy_spent_ = budget.spent()
        # Last: whoever turns warnings into errors keeps what was paid for.
        if result.singular.failed:
            warn_of_privacy(
                f"A basis exceeded coherence_bound={self.coherence_bound}: the iteration ended, "
                "its budget is spent, and the components are noise. A random basis has a coherence "
                "of some 2 log(n); pass a larger bound, or None for none at all."
            )
        else:
            warn_of_noise(result.factors, wanted, unit.remedy)

    def _entry_center(self) -> np.ndarray | str | None:
        """Say what rows are centred by: "private" means, a public point, or nothing."""
        return None

    @property
    def _needs_mean(self) -> bool:
        """Whether the means of the columns are of use."""
        return True

    @abstractmethod
    def _set_attributes(
        self, factors: Factors, mean: np.ndarray, mean_noise: float, n_rows: int, dtype: np.dtype
    ) -> int:
        """Set what the factors give; return how many components the parameters ask for."""

    def _set_entry_attributes(self, result: EntryResult, unit: Unit, dtype: np.dtype) -> None:
        singular = result.singular
        self.coherence_right_ = coherence(singular.right)
        self.failed_ = singular.failed
        if unit.has_left_factors:
            # The components may have been flipped.
            flips = np.sign(np.einsum("ij,ji->i", self.components_, singular.right))
            self.coherence_left_ = coherence(singular.left)
            self.left_components_ = in_dtype(singular.left * flips, dtype)

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
        unit = unit_of(self)
        return unit.normalize(X) if isinstance(unit, Interaction) else X

    def _restore(self, scores: np.ndarray) -> np.ndarray:
        return np.asarray(scores @ self.components_)

    def _checked_input(self, X: Any) -> Any:
        """Refuse bad input before anything is set or spent."""
        if isinstance(X, RowBlocks):
            checked = X
            X.check()
        else:
            checked = check_rows(X, self)
        self._check_parameters(*checked.shape)
        check_entry_input(checked, self)
        check_sparse_center(checked, self)
        validate_data(self, X, skip_check_array=True)
        return checked

    def _check_parameters(self, n_rows: int, n_features: int) -> None:
        """Refuse parameters that contradict each other or the shape of the data."""
        for name in ("row_norm", "mean_norm"):
            check_finite_bound(name, getattr(self, name), self.epsilon)
        check_entry_parameters(self, (n_rows, n_features))

    def _open_budget(self, source: Source, seed: int | None) -> PrivacyBudget:
        """Open the budget of one fit: the only place where it is made."""
        unit = unit_of(self)
        return PrivacyBudget(
            self.epsilon,
            self.delta,
            unit=self.privacy_unit,
            adjacency=self.adjacency,
            noise=self._noise_source(seed, lambda: digest(source)),
            enforced=unit is None or unit.is_enforced,
        )

    def _open_fit(
        self, X: Any, function: Callable[[Any], Any] | None = None
    ) -> tuple[Rows, PrivacyBudget, np.random.Generator]:
        """Open the rows, the budget and the algorithm's stream of one fit."""
        self._warn_of_settings(*count_units(self, X.shape))
        seed = draw_seed(self.random_state)
        source = as_source(X, function)
        budget = self._open_budget(source, seed)
        return Rows(source, self.n_jobs), budget, algorithm_generator(seed)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self.privacy_unit in SQUARE_UNITS
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
