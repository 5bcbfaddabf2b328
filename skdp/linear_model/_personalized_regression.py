"""Personal linear models on a representation learned with user-level privacy."""

import math
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils.validation import validate_data

from skdp._estimator import PrivateEstimator, Procedure, in_dtype
from skdp.data.digest import digest
from skdp.data.sources import as_source
from skdp.data.users import Users
from skdp.linear_model._personal.doubts import doubts_of_snr, doubts_of_users
from skdp.linear_model._personal.fit import solve_personal
from skdp.linear_model._personal.input import PersonalData, check_input
from skdp.linear_model._personal.model import SharedModel
from skdp.linear_model._personal.plan import plan_personal
from skdp.linear_model._personal.problem import (
    PERSONAL_CONSTRAINTS,
    PersonalFacts,
    PersonalProblem,
    checked_problem,
)
from skdp.linear_model._personal_models import PersonalModels
from skdp.privacy.currency import Currency
from skdp.privacy.precision import plain
from skdp.units._rows import ResolvedRow
from skdp.units._users import ResolvedUser

__all__ = ["DPPersonalizedRegressor"]

_PROCEDURE = Procedure(plan_personal, doubts_of_users, solve_personal)


class DPPersonalizedRegressor(PersonalModels, PrivateEstimator):
    r"""Linear models of many users on a shared representation, with user-level privacy.

    PLACEHOLDER
    """

    __metadata_request__fit = {"groups": True}  # noqa: RUF012

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PrivateEstimator._parameter_constraints,
        **PERSONAL_CONSTRAINTS,
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        adjacency: str = "replace",
        user_column: int | str | None = None,
        require_groups: bool = False,
        fit_intercept: bool = True,
        mean_head: bool = True,
        whiten: bool = True,
        solver: str = "gradient",
        n_iter: int = 4,
        max_rows: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.user_column = user_column
        self.require_groups = require_groups
        self.fit_intercept = fit_intercept
        self.mean_head = mean_head
        self.whiten = whiten
        self.solver = solver
        self.n_iter = n_iter
        self.max_rows = max_rows
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit what users share, spending the whole budget.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows of all users.
        y : array-like of shape (n_rows,)
            Responses.
        groups : array-like of shape (n_rows,) or None, default=None
            Whose rows these are: ids of the users, numbers or strings. None takes them from
            `user_column`, or else every row for a user of its own, with a warning.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        ValueError
            If X, y, groups or a parameter is not acceptable; nothing has been spent then.
        """
        self._fit((X, groups), y)
        return self

    def _checked_input(self, X: Any, y: Any) -> tuple[PersonalData, PersonalFacts]:
        given, groups = X
        data = check_input(given, y, groups, plain(self.user_column), type(self).__name__)
        if data.ids is None and self.require_groups:
            raise ValueError(
                "require_groups=True, but there are no ids of users: pass groups to fit, or "
                "user_column. In a Pipeline or a search, groups arrive only with metadata routing "
                "enabled."
            )
        return data, data.facts

    def _facts_like(self, n_samples: int, n_features: int, like: Any) -> PersonalFacts:
        dtype = np.float32 if getattr(like, "dtype", None) == np.float32 else np.float64
        width = n_features - (self.user_column is not None)
        return PersonalFacts(n_samples, width, True, np.dtype(dtype))

    def _problem(self, facts: PersonalFacts) -> PersonalProblem:
        epsilon, delta = float(self.epsilon), float(self.delta)
        if delta == 0 and math.isfinite(epsilon):
            raise ValueError(
                "delta=0 asks for pure differential privacy, which the Gaussian noise of "
                "DPPersonalizedRegressor does not give; pass a positive delta."
            )
        problem = self._asked(
            PersonalProblem,
            procedure=_PROCEDURE,
            facts=facts,
            unit=(ResolvedUser if facts.has_ids else ResolvedRow)(self.adjacency),
            n_units=facts.n_users,
            currency=Currency(epsilon, delta),
        )
        return checked_problem(problem)

    def _open_data(
        self, data: PersonalData, problem: PersonalProblem
    ) -> tuple[Users, Callable[[], tuple[bytes, ...]]]:
        validate_data(self, data.given, skip_check_array=True)
        users = Users(data.rows, data.responses, data.codes, data.n_users, problem.max_rows)
        return users, lambda: _digest(data)

    def _set_attributes(self, result: SharedModel, problem: PersonalProblem) -> tuple[str, ...]:
        dtype, prior = problem.facts.dtype, result.prior
        basis, coef = prior.basis, result.mean_head
        self.whitening_ = None
        if result.whitening is not None:
            basis, coef = result.whitening @ basis, result.whitening @ coef
            self.whitening_ = in_dtype(result.whitening, dtype)
        self.mean_ = in_dtype(result.center, dtype)
        self.components_ = in_dtype(basis.T, dtype)
        self.coef_ = in_dtype(coef, dtype)
        self.intercept_ = float(result.response_center - coef @ result.center)
        self.prior_variances_ = in_dtype(prior.variances, dtype)
        self.intercept_variance_ = float(prior.intercept_variance)
        self.noise_variance_ = float(prior.noise_variance)
        self.prior_mix_ = float(prior.mix)
        self.snr_ = float(result.snr)
        return (*result.doubts, *doubts_of_snr(result.snr, problem))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Few rows are not enough for a good score.
        tags.regressor_tags.poor_score = bool(self.epsilon < 100)
        return tags


def _digest(data: PersonalData) -> tuple[bytes, ...]:
    """Hash the rows, the responses, and whose they are."""
    others = (data.responses, data.codes.astype(np.float64))
    return tuple(digest(as_source(one)) for one in (data.rows, *(o[:, None] for o in others)))
