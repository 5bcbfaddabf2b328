"""A pipeline whose private steps share one budget."""

import math
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.pipeline import Pipeline, _name_estimators
from sklearn.utils import Bunch
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import _num_samples

from skdp._estimator import check_planned
from skdp._parameters import BUDGET, SEED
from skdp.data.containers import checked_container
from skdp.exceptions import warn_of_privacy
from skdp.pipeline._budget_split import BudgetSplit, split_budget
from skdp.pipeline._candidates import Candidate
from skdp.pipeline._fitting import Search, fit_candidates, search_of
from skdp.pipeline._plan import plan_of_steps
from skdp.pipeline._private_steps import SharedBudget
from skdp.pipeline._public_rows import are_numbers, plain_rows, stand_ins
from skdp.pipeline._steps import adjacency_of, common_unit, steps_of
from skdp.pipeline._whole import SpendsWhole, stamped, total
from skdp.privacy import Plan, PrivacySpent
from skdp.privacy.cost import PrivacyCost
from skdp.privacy.noise import draw_seed

__all__ = ["DPPipeline", "make_dp_pipeline"]


class DPPipeline(SharedBudget, _BaseComposition, SpendsWhole):
    """Fit steps one after the other; all private steps together cost one `epsilon` and `delta`.

    Takes the place of :class:`~sklearn.pipeline.Pipeline`, in which each private step costs its own
    epsilon.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "steps": [list, tuple],
        "shares": [dict, None],
        **BUDGET,
        **SEED,
    }

    def __init__(
        self,
        steps: Any,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        shares: Any = None,
        ledger: Any = None,
        random_state: Any = None,
    ) -> None:
        self.steps = steps
        self.epsilon = epsilon
        self.delta = delta
        self.shares = shares
        self.ledger = ledger
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit all steps, spending the whole budget."""
        X, y = checked_container(X), checked_container(y)
        search = search_of(self, [{}], X, y, draw_seed(self.random_state), self._cost())
        split = self._split(search)
        whole = self._whole(search, split)
        self._begin(search, split, whole, _num_samples(X))
        (model,) = fit_candidates(search, X, split.search)
        spent = total(whole, search.records)
        self._keep(model, spent)
        for part in stamped(model, search, spent, self.ledger):
            warn_of_privacy(*search.warnings[id(part)])
        return self

    def plan(self, n_samples: int, n_features: int, *, like: Any = None) -> Plan:
        """List what a fit would release and spend. No data are read, and nothing is spent."""
        self._validate_params()
        check_planned(n_samples, n_features, like)
        rows = plain_rows(np.ones((2, n_features)) if like is None else like)
        if rows.shape[1:] and math.prod(rows.shape[1:]) != n_features:
            raise ValueError(f"n_features={n_features} does not fit like, of shape {rows.shape}.")
        rows = next(stand_ins(rows, are_numbers=are_numbers(rows)))
        search = search_of(self, [{}], rows, None, None, self._cost(), n_planned=int(n_samples))
        split = self._split(search)
        return plan_of_steps(search, split, self._whole(search, split))

    @property
    def named_steps(self) -> Bunch:
        """Steps by their names: the fitted ones, or before a fit those given."""
        return Bunch(**dict(self._held().steps))

    @property
    def privacy_unit(self) -> str:
        """What all private steps protect together."""
        return common_unit(steps_of(self))

    @property
    def adjacency(self) -> str:
        """How neighboring datasets differ."""
        return adjacency_of(steps_of(self))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Get the parameters, and with `deep` those of all steps.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the steps by their names, and their parameters.

        Returns
        -------
        dict
            Parameter names mapped to their values.
        """
        return self._get_params("steps", deep=deep)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of steps as ``step__parameter``.

        Parameters
        ----------
        **params : object
            Values by the names of parameters, or of steps.

        Returns
        -------
        Self
            The pipeline itself.
        """
        self._set_params("steps", **params)
        return self

    def set_output(self, *, transform: str | None = None) -> Self:
        """Set the container that `transform` returns.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None, default=None
            As in :class:`~sklearn.pipeline.Pipeline`.

        Returns
        -------
        Self
            The pipeline itself.
        """
        if transform is not None:
            # By this name a clone keeps it. The rows that go between steps stay arrays.
            self._sklearn_output_config = {"transform": transform}
            if hasattr(self, "pipeline_"):
                self.pipeline_[-1:].set_output(transform=transform)
        return self

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, index: Any) -> Any:
        """Return a fitted step, or a Pipeline of several; before a fit, of those given."""
        return self._held()[index]

    _sk_visual_block_ = Pipeline._sk_visual_block_

    def _held(self) -> Any:
        return getattr(self, "pipeline_", self._pattern())

    def _pattern(self) -> Pipeline:
        return Pipeline(self.steps)

    def _validate_params(self) -> None:
        super()._validate_params()
        for step in steps_of(self):
            if step.is_private:
                step.estimator._validate_params()

    def _cost(self) -> PrivacyCost:
        """Return what a fit spends, with the part of delta that its steps reserve."""
        steps = steps_of(self)
        nothing = Candidate({}, ({},) * len(steps))
        once = {number: 1 for number, step in enumerate(steps) if step.is_private}
        whole = super()._cost()
        return replace(whole, delta_tail=split_budget(steps, [nothing], once, whole).delta_tail)

    def _split(self, search: Search) -> BudgetSplit:
        return split_budget(search.steps, search.candidates, search.n_fits, super()._cost())

    def _keep(self, pipeline: Pipeline, spent: PrivacySpent) -> None:
        """Set the fitted attributes."""
        self._set_features(pipeline)
        self.pipeline_, self.privacy_spent_ = pipeline, spent
        self.set_output(**getattr(self, "_sklearn_output_config", {}))


def make_dp_pipeline(
    *steps: Any,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    shares: Any = None,
    ledger: Any = None,
    random_state: Any = None,
) -> DPPipeline:
    """Make a :class:`DPPipeline` of steps that are named after their classes."""
    return DPPipeline(
        _name_estimators(steps),
        epsilon=epsilon,
        delta=delta,
        shares=shares,
        ledger=ledger,
        random_state=random_state,
    )
