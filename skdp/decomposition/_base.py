"""What the private decompositions share: checks, the door, and linear transforms."""

import math
import re
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp.exceptions import warn_of_privacy
from skdp.linalg.digest import digest
from skdp.linalg.rows import Rows
from skdp.linalg.sources import RowBlocks, Source, as_source
from skdp.privacy import PrivacyBudget
from skdp.privacy.clipping import SMALLEST_BOUND
from skdp.privacy.noise import NoiseSource, algorithm_generator, draw_seed
from skdp.privacy.sensitivity import ADJACENCIES

__all__ = ["BaseDecomposition"]

_INPUT = {"accept_sparse": "csr", "dtype": (np.float64, np.float32)}
# Parameters that say how to compute, not what.
_EXECUTION_ONLY = ("n_jobs", "random_state")
_GUESSABLE_SEED = 2**64

_BOUND_CONSTRAINT = [
    Interval(Real, SMALLEST_BOUND, 1 / SMALLEST_BOUND, closed="both"),
    Options(Real, {np.inf}),
    None,
]


class BaseDecomposition(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Row-level private decomposition with components in feature space."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "epsilon": [Interval(Real, 0, None, closed="right")],
        "delta": [Interval(Real, 0, 1, closed="left")],
        "privacy_unit": [StrOptions({"row"})],
        "adjacency": [StrOptions(set(ADJACENCIES))],
        "row_norm": _BOUND_CONSTRAINT,
        "mean_norm": _BOUND_CONSTRAINT,
        "solver": [StrOptions({"auto", "covariance", "power"})],
        "n_iter": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "n_oversamples": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
        "n_jobs": [Integral, None],
        "random_state": [
            Interval(Integral, 0, None, closed="left"),
            np.random.RandomState,
            np.random.Generator,
            None,
        ],
    }

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
        X = check_array(X, dtype=(np.float64, np.float32), estimator=self)
        return np.asarray(X @ self.components_)

    def _project(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        if isinstance(X, RowBlocks):
            self._check_row_blocks(X)
            components = self.components_.astype(np.float64)
            scores = Rows(as_source(X), self.n_jobs).matmul(components.T).astype(X.dtype)
        else:
            X = validate_data(self, X, **_INPUT, reset=False)
            scores = X @ self.components_.T
        return np.asarray(scores)

    def _checked_input(self, X: Any) -> Any:
        """Refuse bad input before anything is set or spent."""
        if isinstance(X, RowBlocks):
            X.check()
            self._check_parameters(*X.shape)
            self.n_features_in_ = X.shape[1]
            self.__dict__.pop("feature_names_in_", None)
            return X
        checked = _check_rows(X, self)
        self._check_parameters(*checked.shape)
        validate_data(self, X, skip_check_array=True)
        return checked

    def _check_row_blocks(self, X: RowBlocks) -> None:
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        X.check()

    def _check_parameters(self, n_rows: int, n_features: int) -> None:
        """Refuse parameters that contradict each other or the shape of the data."""
        for name in ("row_norm", "mean_norm"):
            _check_bound(name, getattr(self, name), self.epsilon)
        if self.delta == 0 and math.isfinite(self.epsilon):
            raise ValueError(
                "delta=0 with a finite epsilon asks for pure differential privacy, but the solvers "
                "add Gaussian noise; pass 0 < delta < 1 / n_samples."
            )

    def _warn(self, n_rows: int) -> None:
        """Say what public facts make of the guarantee."""
        if math.isinf(self.epsilon):
            return
        if self.delta > 1 / n_rows:
            warn_of_privacy(
                f"delta={self.delta} exceeds one over the number of rows, {n_rows}: the guarantee "
                "would allow some row to be published outright. Pass a smaller delta."
            )
        is_int = isinstance(self.random_state, Integral)
        secret = self.random_state is None or (is_int and int(self.random_state) >= _GUESSABLE_SEED)
        if not secret:
            warn_of_privacy(
                f"random_state={self.random_state} may be guessed, and whoever guesses it can take "
                "the noise out. Pass None for the guarantee, or secrets.randbits(128) and keep it."
            )

    def _open_budget(self, source: Source, seed: int | None) -> PrivacyBudget:
        """Open the budget of one fit: the only place where it is made."""
        noise = NoiseSource()
        if seed is not None and math.isfinite(self.epsilon):
            parameters = self.get_params(deep=False).items()
            meaning = sorted(item for item in parameters if item[0] not in _EXECUTION_ONLY)
            noise = NoiseSource(seed, (type(self).__name__, tuple(meaning), digest(source)))
        return PrivacyBudget(
            self.epsilon,
            self.delta,
            unit=self.privacy_unit,
            adjacency=self.adjacency,
            noise=noise,
        )

    def _open(self, X: Any) -> tuple[Rows, PrivacyBudget, np.random.Generator]:
        """Open the rows, the budget and the algorithm's stream of one fit."""
        self._warn(X.shape[0])
        seed = draw_seed(self.random_state)
        source = as_source(X)
        budget = self._open_budget(source, seed)
        return Rows(source, self.n_jobs), budget, algorithm_generator(seed)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def __getstate__(self) -> dict[str, Any]:
        # Released results with the seed beside them can be cleared of their noise.
        state = super().__getstate__()
        if hasattr(self, "components_"):
            state = {**state, "random_state": None}
        return state


def _check_rows(X: Any, estimator: BaseEstimator) -> Any:
    """Validate as scikit-learn does, without warnings or errors that tell values."""
    try:
        # Summing huge entries, as the check for infinity does, would warn of them.
        # NaN and infinity are looked for even where scikit-learn is told not to.
        with np.errstate(all="ignore"), config_context(assume_finite=False):
            return check_array(X, **_INPUT, estimator=estimator, input_name="X")
    except ValueError as error:
        # Values, if any, follow on the second line or behind the colon.
        message = re.sub(r"(to float|instead):.*", r"\1.", str(error).partition("\n")[0])
    raise ValueError(message)


def _check_bound(name: str, bound: float | None, epsilon: float) -> None:
    """Refuse an infinite bound beside a finite epsilon."""
    if bound is not None and math.isinf(bound) and math.isfinite(epsilon):
        raise ValueError(
            f"{name}=inf with epsilon={epsilon} gives no guarantee: one row could move the result "
            f"without limit. Pass a finite {name}, or None to estimate it privately."
        )
