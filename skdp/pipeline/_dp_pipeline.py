"""A pipeline whose private steps share one budget."""

import math
from dataclasses import KW_ONLY, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import Pipeline, _name_estimators
from sklearn.utils import Bunch
from sklearn.utils.metaestimators import _BaseComposition

from skdp import _estimator
from skdp import _validation as checks
from skdp.data.containers import checked_container, refuse_unreadable
from skdp.data.parts import PartResults, RowBlocks, composed
from skdp.exceptions import named, warn_of_privacy, warnings_together
from skdp.linear_model._supervised import as_numbers, r2_of
from skdp.pipeline import _run as runs
from skdp.pipeline._composition import (
    Shares,
    adjacency_of,
    common_unit,
    shares_of,
    steps_of,
    takes_column,
)
from skdp.pipeline._public_rows import plain_rows, quietly, shape_of, stand_ins
from skdp.pipeline._public_steps import ONE_COLUMN, refuse_kinds_of_categories, transformed
from skdp.pipeline._rules import SharedBudget, is_columns
from skdp.privacy import Plan, PrivacySpent
from skdp.privacy.noise import draw_seed
from skdp.privacy.plan import AnyOf, PrivacyCost
from skdp.privacy.releases import Release
from skdp.privacy.shares import Party

# Advice for an error of a plan that may need the names and types of columns.
_LIKE = (
    " A plan knows the size of X only: pass like=, a made-up X of a row or two with the columns of "
    "X, such as pandas.DataFrame({'age': [40], 'job': ['']}), or a numpy.array of objects, with "
    "texts where X has texts; of a list of texts pass like=['any text']."
)


@checks.with_parameters
class DPPipeline(
    _estimator.RequestsUsersMixin, SharedBudget, _BaseComposition, runs.SpendsOneBudget
):  # numpydoc ignore=PR02
    """Fit steps one after the other; all private steps together cost one `epsilon` and `delta`.

    In a :class:`~sklearn.pipeline.Pipeline` each private step would cost an epsilon of its own. The
    parameter `steps` is not changed: the fitted steps are in `pipeline_`, which all methods,
    `named_steps` and slices use.

    Parameters
    ----------
    steps : list of (str, estimator)
        Names and steps, in order: private steps that protect rows, records, responses or users,
        steps that learn nothing, and before the first private step also
        :class:`~sklearn.frozen.FrozenEstimator`. Only the last step may lack `transform`. The last
        step may be a :class:`~sklearn.compose.TransformedTargetRegressor` of a private regression,
        with plain functions as `func` and `inverse_func`; bounds of the regression are in units of
        the transformed responses. Refused are steps that learn without privacy, and, behind a
        private step, steps that may refuse a row. Private steps must have their default `epsilon`
        and `delta`, and neither ledger nor random state: these belong to the whole. The first step
        may be a :class:`~sklearn.compose.ColumnTransformer` of such steps, and of pipelines of
        steps that learn nothing, whose last step may be private; :ref:`columns-of-kinds` has the
        table. The caller has to make sure that plain functions, and `transform` of a frozen
        estimator, map every row by itself and store none, that `inverse_func` refuses no number,
        and that a frozen estimator was fitted to public rows.
    epsilon : float, default=1.0
        Privacy budget of all steps together, dimensionless, ``0 < epsilon <= inf``. Smaller is more
        private; ``inf`` switches the noise off.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 < delta < 1``, well below one over the
        number of units.
    shares : dict or None, default=None
        Parts of the square of mu, by the names of private steps. The last private step without a
        share gets the rest. By default, an earlier step gets .15 if it is a
        :class:`DPStandardScaler` with bounds, and .25 if it is a scaler without bounds, a
        :class:`DPPCA`, :class:`DPTruncatedSVD` or :class:`PlannedEstimator`. The private parts of a
        ColumnTransformer split one share. The share of a "passthrough" step goes to the others.
    ledger : PrivacyLedger or None, default=None
        Where the whole cost of a fit is charged before its first release. ``None`` keeps no ledger.
    random_state : int, RandomState or Generator instance or None, default=None
        ``None`` takes fresh noise in every fit, as the guarantee assumes. A secret int, such as
        ``secrets.randbits(128)``, repeats a fit in the same container on the same kind of machine;
        an int that can be guessed voids the guarantee.

    Attributes
    ----------
    pipeline_ : Pipeline
        The fitted steps; `classes_` are those of the last step. Covered by the guarantee.
    privacy_spent_ : PrivacySpent
        Record of the releases of all steps; each private step has the same record. Public.
    n_features_in_ : int
        Number of features. Public.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X has names that are strings. Public.

    See Also
    --------
    make_dp_pipeline : Names the steps after their classes.
    skdp.model_selection.DPGridSearch : Chooses among parameters of the steps, with these shares.
    skdp.privacy_spent : Composes the costs of the steps of a Pipeline.

    Notes
    -----
    **Privacy.** Unit and adjacency: those of the private steps, which have to agree; if some steps
    protect rows and others records (rows with responses), the pipeline protects records.
    Mechanisms and releases: those of the steps; `plan` lists them before a fit. The squares of mu
    of all steps add up to the square of the mu of (`epsilon`, `delta`). Shares do not depend on X,
    even if a release decides how many columns a step returns. Each step maps every row by itself.
    If a step before the first private one refuses a row, the fit is refused, and nothing has been
    spent. Results that overflow are made finite. A :class:`DPPCA` or :class:`DPTruncatedSVD` right
    after a scaler corrects the scales of the scaler by released values. Assumed public: the shape
    of X, its dtype, whether X is dense or sparse, feature names, and parameters. y is checked
    before anything is spent. After a later error, the whole budget is spent and nothing is
    published. Not covered: results of `predict`, `transform` and `score`, and the running time.

    The pipeline has no `memory`, which would repeat fits of equal data, no `verbose` and
    `transform_input`, and no parameters of `fit`.

    X may be rows in parts (:meth:`skdp.RowBlocks.from_partitions`) with their targets, or a dask
    collection, in both cases without `users`. Every step reads these rows again, block by block,
    through the steps before it. The fit stores no array with a value for each row, unless a
    regression or classifier gets small parts. Columns have the names of the parts; functions in a
    ColumnTransformer get an array without names. `transform` and `predict` compute their results
    when the results are read.

    Examples
    --------
    Raw rows to a classifier of small and large digits, at an epsilon of 2:

    >>> from sklearn.datasets import load_digits
    >>> from skdp import DPLogisticRegression, DPPipeline, DPStandardScaler
    >>> X, y = load_digits(return_X_y=True)
    >>> scaler, classifier = DPStandardScaler(bounds=(0, 16)), DPLogisticRegression(classes=[0, 1])
    >>> model = DPPipeline([("scale", scaler), ("classify", classifier)], epsilon=2.0)
    >>> round(model.fit(X, y > 4).privacy_spent_.epsilon_at(1e-6), 3)
    2.0
    >>> model.named_steps["classify"].coef_.shape
    (1, 64)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "steps": [list, tuple],
        "shares": [dict, None],
        **checks.BUDGET,
        **checks.SEED,
    }

    steps: Any
    _: KW_ONLY
    epsilon: float = 1.0
    delta: float = 1e-6
    shares: Any = None
    ledger: Any = None
    random_state: Any = None

    @_fit_context(prefer_skip_nested_validation=False)
    @warnings_together()
    def fit(self, X: Any, y: Any = None, *, users: Any = None) -> Self:
        """Fit all steps, spending the whole budget.

        Parameters
        ----------
        X : {array-like, RowBlocks, dask collection} of shape (n_samples, n_features)
            Rows to protect, as the first step takes them, or rows in parts.
        y : array-like of shape (n_samples,) or None, default=None
            Their responses, for a dask collection in the same chunks; None for rows in parts, which
            contain theirs.
        users : {array-like, dask collection} of shape (n_samples,) or None, default=None
            Owner of each row, if all private steps have ``privacy_unit="user"``; not for rows in
            parts.

        Returns
        -------
        Self
            The fitted pipeline.

        Raises
        ------
        ValueError
            If X, y, `users`, a parameter or a step is not acceptable; nothing has been spent then.
        BudgetError
            If the ledger has less left; nothing has been spent then.
        """
        # Warnings come last: if they become errors, the model, whose budget is spent, remains.
        warn_of_privacy(*self._fit(X, y, users))
        return self

    def _opened(
        self, X: Any, y: Any, users: Any = None, party: Party | None = None
    ) -> tuple[runs.Run, Shares, runs.Prefix, list[runs.StepFacts]]:
        """Check the arguments, and fit the steps before the first private one; spend nothing."""
        run = runs.prepare(self, X, y, seed=draw_seed(self.random_state), users=users, party=party)
        shares = shares_of(run.steps, super()._cost())
        _estimator.announce_fits(len(shares.by_step))
        prefix = runs.Prefix((), None, run.X)
        while len(prefix.fitted) < min(shares.by_step):
            prefix = runs.extended(run, prefix, runs.fit_public(run, prefix))
        return run, shares, prefix, runs.step_facts(run, shares, prefix, keeps_data=True)

    def _fit(self, X: Any, y: Any, users: Any = None, party: Party | None = None) -> list[str]:
        """Fit all steps; return the warnings, which follow from released values."""
        with _estimator.restored_on_error(self):
            checks.check_names(X, y, users, partial(takes_column, self, X))
            X, y = map(checked_container, checks.in_parts(X, y))
            run, shares, prefix, facts = self._opened(X, y, users, party)
            public = runs.warnings_of(run, shares, facts)
            whole, charge = self._begin(run, shares.whole, public)
            for number in range(len(prefix.fitted), len(run.steps)):
                step, known, scales = run.steps[number], facts[number], None
                if step.is_private:
                    one = known.estimator
                    *_, scales = runs.fit_private(run, prefix, known, step.name, charge)
                    one._warnings_given = shares.prefixed(number, step.name, one._warnings_given)
                    charge = None  # the first private step has charged the whole cost
                else:
                    one = runs.fit_public(run, prefix)
                prefix = runs.extended(run, prefix, one, scales)
            runs.without_false_alarms(prefix.fitted)
            warnings, records = list[str](), dict[str, PrivacySpent]()
            for number in shares.by_step:
                warnings += prefix.fitted[number]._warnings_given
                records[run.steps[number].label] = prefix.fitted[number].privacy_spent_
            spent = runs.record_of(whole, records)
            self._keep(runs.with_one_record(run, prefix.fitted, spent, self.ledger), spent)
            if isinstance(X, RowBlocks):
                # A public first step was fitted to arrays, which have no feature names.
                checks.check_features(X, self, reset=True)
        return warnings

    def plan(self, n_samples: Any, n_features: int | None = None, *, like: Any = None) -> Plan:
        """List the releases of a fit and their cost. No data are read, and nothing is spent.

        If a release decides how many columns a step returns, each private step after it is one
        line.

        Parameters
        ----------
        n_samples : int or tuple of int
            Number of rows of the X that will be fitted; or the shape of X, without `n_features`.
        n_features : int or None, default=None
            Number of features of X; ``None`` if `n_samples` or `like` has it (a list does not).
        like : object or None, default=None
            An X of any length that `fit` would take: its type, its shape after the first axis, and
            its names, which a ColumnTransformer may need. ``None`` stands for a dense 2-D array.

        Returns
        -------
        Plan
            All releases of the fit, in order, named after their steps.

        Raises
        ------
        TypeError
            If `fit` would not take `like`.
        ValueError
            If `fit` would refuse a parameter or a step, or `like` has another number of features.
        """
        self._validate_params()
        # Without `like`, the plan is for an array of numbers, which these steps may refuse.
        need_like = any(is_columns(one) or hasattr(one, "build_analyzer") for _, one in self.steps)
        advice = _LIKE if like is None and need_like else ""
        n_samples, n_features, like = _estimator.planned_size(
            n_samples, n_features, checks.public_like(like)
        )
        rows = plain_rows(np.ones((2, n_features)) if like is None else like)
        shape = shape_of(rows)
        if shape[1:] and math.prod(shape[1:]) != n_features:
            raise _estimator.other_shape(n_features, shape)
        # Only the public layout of rows in parts is read, and no value.
        if not isinstance(rows, RowBlocks):
            rows = next(stand_ins(rows))
        try:
            run = runs.prepare(self, rows, n_planned=n_samples)
            shares = shares_of(run.steps, super()._cost())
            return planned(run, shares, runs.step_facts(run, shares, runs.Prefix((), None, run.X)))
        except ValueError as error:
            text = f"{error}{advice}"
        raise ValueError(text)

    @property
    def named_steps(self) -> Bunch:
        """The steps by name: fitted ones or, before a fit, those passed."""
        return self._wrapped().named_steps

    @property
    def privacy_unit(self) -> str:
        """Unit that all private steps protect together."""
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

    def set_output(self, *, transform: Any = None) -> Self:
        """Set the container that `transform` of the last step returns.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None, default=None
            The container; ``None`` leaves it as it is.

        Returns
        -------
        Self
            The pipeline itself.
        """
        for *_, (_, last) in (self.steps, self._wrapped().steps):
            if hasattr(last, "transform"):
                last.set_output(transform=transform)
        return self

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, index: Any) -> Any:
        """Return a step, or a Pipeline of several: fitted ones or, before a fit, those passed."""
        return self._wrapped()[index]

    _sk_visual_block_ = Pipeline._sk_visual_block_

    def _wrapped(self) -> Any:
        return getattr(self, "pipeline_", self._pattern())

    def _applied(self, name: str, X: Any, *more: Any, **users: Any) -> Any:
        """Map rows by the steps, and call a method of the last one.

        Predictions of transformed targets are mapped back.
        """
        refuse_unreadable(X)
        label, first = self.steps[0]
        if name != "inverse_transform":
            refuse_kinds_of_categories(f"Step {label!r}", first, X)
            if users or isinstance(X, RowBlocks):
                return self._applied_step_by_step(name, checked_container(X), *more, **users)
            if hasattr(first, "build_analyzer") and len(getattr(X, "shape", [0])) > 1:
                # scikit-learn would take the names of the columns for the texts.
                raise ValueError(f"X is no list of texts, which the first step takes.{ONE_COLUMN}")
        self._fitted()
        rows = plain_rows(X) if getattr(X, "dtype", None) == np.float16 else X
        made = super()._applied(name, rows, *more)
        if hasattr(made, "iloc") and hasattr(X, "iloc"):  # arrays between steps have no index
            made.index = X.index
        return made

    def _applied_step_by_step(self, name: str, X: Any, *more: Any, **users: Any) -> Any:
        """Call a method of the last step, for rows in blocks or with users; map the rows before."""
        checks.check_features(X, self)
        *before, last = self._fitted().steps
        if name == "transform":
            return transformed([*before, last], X)
        rows, one = transformed(before, X), last[1]
        if not isinstance(one, TransformedTargetRegressor):
            return getattr(one, name)(rows, *more, **users)
        made, back = one.regressor_.predict(rows), partial(_mapped_back, one.transformer_)
        function: Any = composed(made.function, back)
        made = PartResults(made.rows, function, made.shape, made.dtype)
        if name == "predict":
            return made
        targets = checks.targets_of(X, next(iter(more), None), type(self).__name__)
        return r2_of(targets.mapped(as_numbers), made, None)

    def _pattern(self) -> Pipeline:
        return Pipeline(self.steps)

    def _validate_params(self) -> None:
        super()._validate_params()
        for step in steps_of(self):
            if step.is_private:
                step.estimator._validate_params()

    def _cost(self) -> PrivacyCost:
        """Return the cost of a fit, with the delta that the steps reserve for tail events."""
        return shares_of(steps_of(self), super()._cost()).whole

    def _keep(self, pipeline: Pipeline, spent: PrivacySpent) -> None:
        """Set the fitted attributes."""
        self._set_features(pipeline)
        self.pipeline_, self.privacy_spent_ = pipeline, spent


def _mapped_back(transformer: Any, predictions: np.ndarray) -> np.ndarray:
    """Apply the inverse of a public function to predictions of transformed responses."""
    return np.asarray(quietly(transformer.inverse_transform, predictions[:, np.newaxis])[:, 0])


def planned(run: runs.Run, shares: Shares, facts: list[runs.StepFacts]) -> Plan:
    """Plan all steps together; the name of a release begins with the name of its step."""
    parts = tuple(
        Release(run.steps[i].label, "gaussian", share, follows=facts[i].follows)
        if facts[i].follows  # one line for a step if a release decides how many columns it gets
        else _within(facts[i].plan.parts, run.steps[i].label, share)
        for i, share in shares.by_step.items()
    )
    return run.planned(shares.whole, parts)


def _within(part: Any, label: str, share: float) -> Any:
    """Add the name of a step to the names of its releases, and scale their shares."""
    if part is None:
        return None
    if isinstance(part, Release):
        return replace(part, name=f"{label}: {part.name}", share=share * part.share)
    if isinstance(part, AnyOf):
        return AnyOf(tuple(_within(one, label, share) for one in part.branches))
    return tuple(_within(one, label, share) for one in part)


@named
def make_dp_pipeline(
    *steps: Any,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    shares: Any = None,
    ledger: Any = None,
    random_state: Any = None,
) -> DPPipeline:
    """Make a :class:`skdp.DPPipeline` of steps that are named after their classes.

    Parameters
    ----------
    *steps : estimator
        The steps, in order.
    epsilon, delta, shares, ledger, random_state : object
        As in :class:`DPPipeline`.

    Returns
    -------
    DPPipeline
        The pipeline; nothing has been fitted.

    See Also
    --------
    DPPipeline : The same pipeline with names of your choice.

    Notes
    -----
    **Privacy.** Nothing is computed from data.

    Examples
    --------
    >>> from skdp import DPLogisticRegression, DPPCA, DPStandardScaler, make_dp_pipeline
    >>> steps = DPStandardScaler(bounds=(0, 1)), DPPCA(0.9), DPLogisticRegression(classes=[0, 1])
    >>> model = make_dp_pipeline(*steps, epsilon=2.0, shares={"dppca": 0.3})
    >>> model.plan(n_samples=20_000, n_features=30)
    Plan: (2, 1e-06)-DP per record, adjacency 'replace', mu=0.44833
      release                                           share  sensitivity    noise std
      dpstandardscaler: rough column moments           0.0300    0.0005477     0.007054
      dpstandardscaler: column moments                 0.1200    0.0005477     0.003527
      dppca: mean norm, 4 times                        0.0090        1.414        66.51
      dppca: mean                                      0.0450  follows mean norm
      dppca: row norm, 4 times                         0.0090        1.414        66.51
      dppca: second moment                             0.2370  follows row norm
      dplogisticregression                             0.5500  follows dppca.n_components
      or, as released values say:
    ...
    """
    return DPPipeline(
        _name_estimators(steps),
        epsilon=epsilon,
        delta=delta,
        shares=shares,
        ledger=ledger,
        random_state=random_state,
    )
