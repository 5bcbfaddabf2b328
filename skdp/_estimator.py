"""The base of all private estimators: progress, plan, budget, seed and record of a fit."""

import hashlib
import json
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from inspect import signature
from numbers import Integral, Real
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils import get_tags
from sklearn.utils._param_validation import Interval, StrOptions

from skdp import _validation as checks
from skdp.data.containers import refuse_repeated_names, refuse_unreadable
from skdp.data.reduce import OBSERVER
from skdp.data.workers import one_blas_thread
from skdp.exceptions import BudgetError, warn_of_privacy, warnings_together
from skdp.privacy import Plan, PrivacyBudget, PrivacySpent
from skdp.privacy.noise import NoiseSource, algorithm_generator, draw_seed
from skdp.privacy.plan import PrivacyCost
from skdp.privacy.precision import as_python
from skdp.privacy.releases import Charge
from skdp.privacy.sensitivity import ADJACENCIES
from skdp.privacy.shares import Party
from skdp.units import Unit

# ------------------------------
# Progress of fits, for callbacks of scikit-learn, which has them from version 1.9 on.

# scikit-learn calls its interface of callbacks experimental: only this module uses it.
try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:
    CallbackSupportMixin = None

# Arguments of callbacks that hold data, or results computed from data.
_OF_DATA = {"X", "y", "metadata", "fitted_estimator"}

if CallbackSupportMixin is None:

    class Watched:
        """Base of estimators, without callbacks: scikit-learn is older than 1.9."""

else:

    class Watched(CallbackSupportMixin):  # type: ignore[no-redef]
        """Base of estimators that tell callbacks about their progress."""

        def set_callbacks(self, *callbacks: Any) -> Self:
            """Set callbacks that follow the progress of a fit. Needs scikit-learn 1.9.

            Parameters
            ----------
            *callbacks : callback
                Such as ``sklearn.callback.ProgressBar()``. They see tasks and no data, and cannot
                stop a fit. They replace earlier callbacks.

            Returns
            -------
            Self
                The estimator itself.

            Raises
            ------
            TypeError
                If an object is no callback, or asks for data or a fitted estimator.
            """
            for callback in callbacks:
                check_asks_for_no_data(callback)
            super().set_callbacks(*callbacks)
            return self


class Progress:
    """The tasks of one fit, as callbacks see them.

    The tasks of an estimator are its passes over the data, each named after the next release. The
    tasks of a pipeline or a search are the fits of its steps. Callbacks see no data, and cannot
    stop a fit: a stop that follows from a score would depend on the data.
    """

    #: The open budget, whose releases name the passes.
    budget: PrivacyBudget | None = None

    def __init__(self, estimator: Any, context: Any) -> None:
        self.estimator, self.context = estimator, context

    def begin(self, n_tasks: int | None) -> None:
        """Tell callbacks that the fit begins, and how many tasks it has, if known."""
        self.context.max_subtasks = n_tasks
        self.context.call_on_fit_task_begin(estimator=self.estimator)

    @contextmanager
    def __call__(self, name: str = "") -> Iterator[None]:
        """Report a task, by default a pass, named after the releases that may come next."""
        nodes = getattr(self.budget, "_nodes", None) or ()
        names = dict.fromkeys(one.name.partition(", counts")[0] for one, _ in nodes)
        name = name or " or ".join(names) or ("closing" if self.budget else "opening")
        if self.context.max_subtasks == len(self.context._children_map):
            # The fit needs more tasks than it has announced: how many is unknown.
            self.context.max_subtasks = None
        task = self.context.subcontext(name, max_subtasks=1)
        # Progress bars show only tasks that have subtasks.
        tasks = [task, task.subcontext("rows", max_subtasks=0)]
        # Passes that this pass starts are not reported.
        token = OBSERVER.set(None)
        try:
            for one in tasks:
                one.call_on_fit_task_begin(estimator=self.estimator)
            yield
            for one in reversed(tasks):
                one.call_on_fit_task_end(estimator=self.estimator)
        finally:
            OBSERVER.reset(token)


# Progress of the pipeline or search whose steps this thread fits.
_WHOLE: ContextVar[Progress | None] = ContextVar("whole", default=None)


def announce_fits(n_fits: int) -> None:
    """Tell callbacks that a pipeline or search begins, and how many fits it makes."""
    if whole := _WHOLE.get():
        whole.begin(n_fits)


def fitted_within(step: Any, name: str) -> AbstractContextManager[None]:
    """Report the fit of a step as a task of its pipeline or search."""
    # Callbacks of the step itself are dropped: nobody would tell them that its tasks have ended.
    vars(step).pop("_skl_callbacks", None)
    whole = _WHOLE.get()
    return nullcontext() if whole is None else whole(name)


def check_unwatched(
    where: str,
    estimator: Any,
    remedy: str = "pass them to set_callbacks of the pipeline or search instead",
) -> None:
    """Refuse a part of a pipeline or search that has callbacks, as nobody would call them."""
    if getattr(estimator, "_skl_callbacks", None):
        raise TypeError(f"{where}{type(estimator).__name__} has callbacks of its own: {remedy}.")


def check_asks_for_no_data(callback: Any) -> None:
    """Refuse a callback that asks for data, or for results computed from data."""
    for hook in ("on_fit_task_begin", "on_fit_task_end"):
        function = getattr(callback, hook, None)
        asked = sorted(_OF_DATA & signature(function).parameters.keys()) if function else []
        if asked:
            raise TypeError(
                f"callbacks: {hook} of {type(callback).__name__} asks for {', '.join(asked)}, and "
                "no budget pays for results of private rows after each step. Pass callbacks that "
                "ask for the estimator and the context only, such as ProgressBar."
            )


# ------------------------------
# The order of a fit, its plan, its budget and its seed.

T = TypeVar("T")
#: A view of the data for solvers, and a function that hashes all data of a fit.
Data = tuple[Any, Callable[[], Any]]

# Parameters that are not hashed into the key of the noise: `ledger` and `n_jobs` do not change the
# result, and the seed is part of the key anyway.
_NOT_IN_NOISE_KEY = ("ledger", "n_jobs", "random_state")
# Parameters that later versions added: they are hashed only if they are not None, so that a seed
# repeats older fits.
_LATER = ("class_weight", "prior", "scales")


class Part(NamedTuple):
    """What a pipeline or search sets on a step before it fits the step."""

    cost: PrivacyCost  # the part of the budget for this step
    charge: Charge | None = None
    party: Party | None = None  # if several owners have the rows


class BudgetMixin(checks.PlainParametersMixin):
    """Base of all objects that spend a budget, which only `_open_budget` opens."""

    ledger: Any
    # Set by a pipeline or search on the clone that it fits, until the end of the fit.
    _part: Part | None = None
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **checks.BUDGET,
        **checks.SEED,
        "delta": [Interval(Real, 0, 1, closed="left")],
        "adjacency": [StrOptions(set(ADJACENCIES))],
    }

    def _open_budget(
        self, plan: Plan, what: str, noise_source: NoiseSource | None = None
    ) -> PrivacyBudget:
        """Open the budget of a plan, which charges the ledger for `what`."""
        # Sensitivities hold for valid bounds only, and scikit-learn has not checked them if its
        # configuration has `skip_parameter_validation`.
        self._validate_params()
        charge: Charge | None = None
        if self._part is not None:
            charge = self._part.charge
        elif self.ledger is not None:
            charge = partial(self.ledger.charge, what=what)
        return PrivacyBudget.of(plan, noise_source, charge)


class RequestsUsersMixin:
    """Base of estimators that ask for `users` if whole users are protected."""

    def get_metadata_routing(self) -> Any:
        """Request `users` for `fit` if the unit is a user, with metadata routing of scikit-learn.

        Returns
        -------
        MetadataRequest
            What scikit-learn passes on to `fit` and other methods, if metadata routing is enabled.
        """
        routing = super().get_metadata_routing()  # type: ignore[misc]
        if routing.fit.requests.get("users", False) is None:
            is_user = getattr(self, "privacy_unit", "user") == "user"
            routing.fit.add_request(param="users", alias=is_user)
        return routing


class PrivateEstimator(RequestsUsersMixin, Watched, BudgetMixin, checks.SeededEstimator):
    """Base of estimators whose `fit` spends a privacy budget."""

    # For reports: the warnings of the last fit, and its public number of units.
    _warnings_given: list[str]
    _n_units: int
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BudgetMixin._parameter_constraints,
        "n_jobs": [Integral, None],
    }

    def plan(self, n_samples: Any, n_features: int | None = None, *, like: Any = None) -> Plan:
        """List the releases of a fit and their cost. No data are read, and nothing is spent.

        Parameters
        ----------
        n_samples : int or tuple of int
            Number of rows or records of the X that will be fitted; or the shape of X, alone.
        n_features : int or None, default=None
            Number of features of X; ``None`` if `n_samples` or `like` tells it.
        like : object or None, default=None
            An X of any length that `fit` would take. Its dtype, its shape after the first axis and
            whether it is sparse are read, but no value. ``None`` stands for a dense 2-D array.

        Returns
        -------
        Plan
            All releases of the fit, in order.

        Raises
        ------
        TypeError
            If `fit` would not take `like`.
        ValueError
            If `fit` would refuse a parameter, or `like` has another number of features.
        """
        self._validate_params()
        spec = self._spec_of_size(*planned_size(n_samples, n_features, checks.public_like(like)))
        return plan_of(spec, self._plan(spec))

    def _fit(self, X: Any, y: Any = None, **users: Any) -> Self:
        """Check, plan, release and set attributes, in this order; `users` own the rows."""
        with warnings_together(type(self).__name__):
            with restored_on_error(self, partial(self._expected_passes, X, **users)):
                has_ids = getattr(self, "user_column", None) is not None
                checks.check_names(X, y, None if has_ids else users.get("users"))
                spec, data = self._validate(*checks.in_parts(X, y), **users)
                warnings = self._keep(*self._release(spec, data, warn_of_privacy))
            # Warnings come last: if they become errors, the model, whose budget is spent, remains.
            warn_of_privacy(*warnings)
        return self

    def _release(
        self, spec: Any, data: Data, warn: Callable[..., None], plan: Plan | None = None
    ) -> tuple[Any, Any, PrivacyBudget]:
        """Make the releases of `plan`, by default of a new one; return spec, result and budget."""
        plan = plan or plan_of(spec, self._plan(spec))
        view, budget = self._open(data, spec, plan)
        # Nothing is spent yet: if these warnings become errors, the fit costs nothing.
        warn(*self._public_warnings(spec, plan))
        return spec, self._solve(spec, plan.parts, view, budget), budget

    def _keep(self, spec: Any, result: Any, budget: PrivacyBudget) -> list[str]:
        """Set the fitted attributes; return warnings that follow from released values."""
        # An earlier fit may have set attributes that this fit does not set.
        for name in [*vars(self)]:
            if name.endswith("_") and not name.endswith("_in_"):
                delattr(self, name)
        warnings = [*self._set_attributes(result, spec), *budget.warnings]
        self.privacy_spent_ = budget.spent()
        self._warnings_given = [*self._public_warnings(spec, budget.plan), *warnings]
        self._n_units = int(spec.n_units)
        return warnings

    @abstractmethod
    def _validate(self, X: Any, y: Any) -> tuple[Any, Data]:
        """Refuse bad data and parameters; remember the features; return the spec and the data."""

    @abstractmethod
    def _spec_like(self, n_samples: int, n_features: int, like: Any) -> Any:
        """Return the spec of a fit to an X of this size, with the dtype and layout of `like`."""

    def _spec_of_size(self, n_samples: int, n_features: int, like: Any) -> Any:
        """Return the spec of a fit; refuse a `like` with another number of features."""
        shape = getattr(like, "shape", (n_samples, n_features))
        dimensions = (2, 3) if get_tags(self).input_tags.three_d_array else (2,)
        if len(shape) not in dimensions or math.prod(shape[1:]) != n_features:
            raise other_shape(n_features, shape)
        return self._spec_like(n_samples, n_features, like)

    @abstractmethod
    def _plan(self, spec: Any) -> Any:
        """Declare all releases, in order, from public facts."""

    @abstractmethod
    def _solve(self, spec: Any, plan: Any, view: Any, budget: Any) -> Any:
        """Make the planned releases, and compute the result from them."""

    @abstractmethod
    def _set_attributes(self, result: Any, spec: Any) -> Iterable[str]:
        """Set fitted attributes from released values; return warnings about these values."""

    def _warnings(self, spec: Any, plan: Plan) -> Iterable[str]:
        """Return the warnings of this kind of estimator that follow from public facts."""
        return ()

    def _public_warnings(self, spec: Any, plan: Plan) -> list[str]:
        """Return all warnings from public facts: of delta, of the seed, and of this estimator."""
        counted, seed = spec.unit.counted, self.random_state
        settings = checks.warnings_for_settings(spec.cost, counted, spec.n_units, seed)
        return [*settings, *self._warnings(spec, plan)]

    def _open(self, data: Data, spec: Any, plan: Plan) -> tuple[Any, PrivacyBudget]:
        """Return the view and the open budget."""
        view, digest = data
        if self._part is not None and self._part.party is not None:
            return view, self._part.party.open(plan, self._part.charge)
        seed, source = draw_seed(self.random_state), NoiseSource()
        if self._is_seeded:
            # Fits that differ in the data, the class, a parameter or their part of a budget must
            # not share noise: the difference of their releases would have no noise.
            part = () if self._part is None else (self._part.cost.mu, self._part.cost.delta_tail)
            fit = type(self).__name__, parameters_by_value(self), digest(), *part
            source = NoiseSource(seed, fit)
        what = f"{type(self).__name__}.fit, {spec.n_units} {spec.unit.counted}"
        budget = self._open_budget(plan, what, source)
        budget.public_generator = algorithm_generator(seed)
        if isinstance(observer := OBSERVER.get(), Progress):
            observer.budget = budget
        return view, budget

    def _n_passes(self, plan: Plan) -> int | None:
        """Estimate the number of passes over the data that a fit takes; None if unknown."""
        # With noise, there are a pass for each release, two other passes and, with a seed, two that
        # hash the data. Without noise, some fits run until they converge.
        return plan.n_lines + 2 + 2 * self._is_seeded if plan.cost.is_private else None

    def _expected_passes(self, X: Any, users: Any = None) -> int | None:
        """Estimate the passes of a fit to an unchecked X; None if unknown, or if X is bad."""
        if users is not None:
            return None  # as the number of rows is private
        try:
            return self._n_passes(self.plan(X.shape[0], math.prod(X.shape[1:]), like=X))
        except Exception:
            return None

    def _reserved_part(self) -> float:
        """Return the fraction of delta that a fit reserves for a tail event, whatever the data."""
        return 0.0

    def _cost(self) -> PrivacyCost:
        """Return the cost that a fit may spend; only here `epsilon` and `delta` are read."""
        if self._part is not None:
            return self._part.cost
        epsilon, delta = as_python(self.epsilon), as_python(self.delta)
        reserved = delta * self._reserved_part() if math.isfinite(epsilon) else 0.0
        return PrivacyCost(epsilon, delta, reserved)

    def _asked(self, kind: type[T], **facts: Any) -> T:
        """Make the spec of a fit: each field is a fact, the cost, or the parameter of that name."""
        facts, given = {"cost": self._cost(), **facts}, {}
        for name in kind.__dataclass_fields__:  # type: ignore[attr-defined]
            if name in facts:
                given[name] = facts[name]
            elif hasattr(self, name):
                given[name] = as_python(getattr(self, name))
        return kind(**given)

    @property
    def _is_seeded(self) -> bool:
        """Whether noise is drawn from a seed."""
        return self.random_state is not None and self._cost().is_private


class PlannedEstimator(PrivateEstimator):
    """Base class for your own estimator with a plan of its releases, like the estimators of skdp.

    The author promises that `fit` releases what `plan` lists, and nothing else that depends on the
    rows. Then the estimator may be a step of a :class:`skdp.DPPipeline` or a search, a ledger
    counts its cost, and :func:`skdp.privacy_spent` calls it *private on its author's word*. Its
    record has ``enforced=False``, since a promise is no proof:
    :func:`skdp.testing.check_privacy` attacks the estimator.

    A subclass has the parameters `epsilon` and `delta`; a method ``plan(n_samples, n_features)``
    that declares all releases, which spend `self.cost`, a :class:`skdp.privacy.PrivacyCost`, in a
    plan with ``enforced=False``; and a method ``fit(X, y=None)`` that refuses bad data first, then
    opens its one budget by `open_budget`, and sets ``privacy_spent_``. The `cost` is that of
    `epsilon` and `delta`; in a pipeline or search it is the part of the step, which clones of the
    step do not have. Behind other private steps, `fit` and `transform` must accept any finite rows.
    Class attributes `privacy_unit` and `adjacency` state a unit other than ``"row"``, or an
    adjacency other than ``"replace"``.

    See Also
    --------
    skdp.testing.check_privacy : Attacks your estimator.

    Notes
    -----
    **Privacy.** What the author promises. Noise comes from the operating system: a `random_state`
    of a pipeline does not repeat the noise. For a step behind the estimator, scikit-learn's
    ``OneToOneFeatureMixin``, or an integer parameter `n_components`, has to tell how many columns
    `transform` returns.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import PlannedEstimator, make_dp_pipeline
    >>> from skdp.privacy import Plan
    >>> class Positive(PlannedEstimator):
    ...     def __init__(self, *, epsilon=1.0, delta=1e-6):
    ...         self.epsilon, self.delta = epsilon, delta
    ...     def plan(self, n_samples, n_features):
    ...         cost, known = self.cost, {"n": n_features}
    ...         what = "positive", "gaussian", 1.0, lambda n: n ** 0.5, known
    ...         count = cost.release(*what, shape=(n_features,))
    ...         return Plan(cost, count, unit="row", adjacency="replace", enforced=False)
    ...     def fit(self, X, y=None):
    ...         plan = self.plan(*X.shape)
    ...         budget = self.open_budget(plan)
    ...         self.positive_ = budget.release(plan.parts, np.sum(X > 0, axis=0)).value
    ...         self.privacy_spent_ = budget.spent()
    ...         return self
    >>> model = make_dp_pipeline(Positive(), epsilon=2.0).fit(np.ones((100, 3)))
    >>> model.privacy_spent_.epsilon, model.privacy_spent_.enforced
    (2.0, False)
    """

    ledger: Any = None
    random_state: Any = None
    n_jobs: Any = None
    privacy_unit: str = "row"
    adjacency: str = "replace"

    @abstractmethod
    def plan(self, n_samples: int, n_features: int) -> Plan:  # type: ignore[override]
        """List the releases of a fit and their cost, from public facts.

        Parameters
        ----------
        n_samples : int
            Number of rows of the X that will be fitted.
        n_features : int
            Number of features of X.

        Returns
        -------
        Plan
            All releases of the fit, in order.
        """

    @property
    def cost(self) -> PrivacyCost:
        """The cost of `epsilon` and `delta`, or the part that a pipeline hands to its step."""
        self._validate_params()
        return self._cost()

    def open_budget(self, plan: Plan) -> PrivacyBudget:
        """Open the budget of a plan, whose first release charges the ledger.

        Parameters
        ----------
        plan : Plan
            The plan that `plan` returns for the size of X.

        Returns
        -------
        PrivacyBudget
            The budget, whose record says that the bounds are a promise.

        Raises
        ------
        TypeError
            If `plan` is no plan.
        ValueError
            If `plan` differs from the plan of the parameters; nothing has been spent then.
        """
        return self._open_budget(self._checked(plan), f"{type(self).__name__}.fit")

    def _checked(self, plan: Any) -> Plan:
        """Return the author's plan; refuse one with another cost, unit or adjacency."""
        if not isinstance(plan, Plan):
            raise TypeError(
                f"{type(self).__name__} must have a method plan(n_samples, n_features) that "
                f"returns a Plan, got {type(plan).__name__}."
            )
        facts = {"unit": self.privacy_unit, "adjacency": self.adjacency, "enforced": False}
        facts["cost"] = self._cost()
        for name, value in facts.items():
            if (found := getattr(plan, name)) != value:
                raise ValueError(
                    f"plan of {type(self).__name__} must have {name}={value!r}, got {found!r}: "
                    "make it with self.cost, self.privacy_unit and self.adjacency, which a class "
                    "states in its body, as privacy_unit = 'record'."
                )
        return plan

    def _validate(self, X: Any, y: Any = None, **users: Any) -> tuple[Any, Any]:
        name = type(self).__name__
        if users:
            raise ValueError(f"{name} takes no users: it protects each {self.privacy_unit}.")
        checks.refuse_blocks(X, name)
        n_samples, n_features = checks.check_rows(X, name).shape
        return self._spec_like(n_samples, n_features, None), (X, y)

    def _spec_like(self, n_samples: int, n_features: int, like: Any) -> Any:
        plan = self._checked(self.plan(n_samples, n_features))
        unit = SimpleNamespace(name=plan.unit, adjacency=plan.adjacency, is_enforced=False)
        return SimpleNamespace(cost=plan.cost, parts=plan.parts, unit=unit, n_units=n_samples)

    def _plan(self, spec: Any) -> Any:
        return spec.parts

    def _release(self, spec: Any, data: Any, warn: Any, plan: Any = None) -> tuple[Any, Any, Any]:
        """Call the author's `fit`, which opens its budget once; charge its cost."""
        name, part, charged = type(self).__name__, self._part, list[PrivacySpent]()
        assert part is not None

        def _charge_once(spent: PrivacySpent) -> None:
            if charged:
                raise BudgetError(f"fit of {name} must call self.open_budget(plan) only once.")
            charged.append(spent)
            if part.charge is not None:
                part.charge(spent)

        self._part = part._replace(charge=_charge_once)
        self.fit(*data)
        if not charged:
            # The author's fit may have opened another budget, and spent it: charge the cost.
            _charge_once(PrivacyBudget.of(plan_of(spec, spec.parts)).spent())
            raise ValueError(f"fit of {name} must call self.open_budget(plan), and spend by it.")
        return spec, None, None

    def _keep(self, spec: Any, result: Any, budget: Any) -> list[str]:
        """Keep the number of units; refuse a fit without the record of its budget."""
        name = type(self).__name__
        if not hasattr(self, "privacy_spent_"):
            raise ValueError(f"fit of {name} must set self.privacy_spent_ = budget.spent().")
        if self.privacy_spent_.enforced:
            raise ValueError(f"fit of {name} must call self.open_budget(plan).")
        self._warnings_given, self._n_units = [], spec.n_units
        return []


def parameters_by_value(estimator: PrivateEstimator) -> tuple[tuple[str, Any], ...]:
    """Return the names and plain values of the parameters that are part of the noise's key."""
    return tuple(
        (name, value.key() if isinstance(value, Unit) else as_python(value))
        for name, value in sorted(estimator.get_params(deep=False).items())
        if name not in _NOT_IN_NOISE_KEY and (value is not None or name not in _LATER)
    )


@contextmanager
def restored_on_error(
    estimator: PrivateEstimator, n_passes: Callable[[], int | None] | None = None
) -> Iterator[None]:
    """Silence numpy during a fit; if the fit raises an error, restore the attributes.

    Callbacks see the passes of the fit; without `n_passes`, they see the fits of its steps.
    """
    # Refuse a bad n_jobs before anything else.
    effective_n_jobs(getattr(estimator, "n_jobs", None))
    # With a seed, the fit uses one thread of BLAS: other numbers of threads may round differently.
    limits = nullcontext() if estimator.random_state is None else one_blas_thread()
    # Even after an error, scikit-learn's `_fit_context` needs the attributes that
    # `_init_callback_context` sets: the attributes to restore are copied after that call.
    progress = None
    if "_skl_callbacks" in vars(estimator):
        progress = Progress(estimator, estimator._init_callback_context(max_subtasks=None))
    before = dict(estimator.__dict__)
    variable: ContextVar[Any] = OBSERVER if n_passes else _WHOLE
    token = variable.set(progress)
    try:
        # An error or a warning about overflow would depend on single units.
        with limits, np.errstate(all="ignore"):
            try:
                if progress and n_passes:
                    progress.begin(n_passes())
                yield
            finally:
                variable.reset(token)
            if progress:
                progress.context.call_on_fit_task_end(estimator=estimator)
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


def plan_of(spec: Any, parts: Any) -> Plan:
    """Make a plan from releases, for the cost and unit of a spec."""
    cost, unit = spec.cost, spec.unit
    return Plan(cost, parts, unit=unit.name, adjacency=unit.adjacency, enforced=unit.is_enforced)


def planned_size(n_samples: Any, n_features: Any, like: Any) -> tuple[int, int, Any]:
    """Check the arguments of `plan`: the size of X, as two numbers or a shape, and `like`."""
    refuse_unreadable(like)
    if getattr(n_samples, "shape", ()):
        raise TypeError("n_samples must be an int or a shape: pass X.shape, as no plan reads X.")
    # The shape of X may be passed as n_samples; the number of features may be that of `like`.
    if isinstance(n_samples, tuple) and len(n_samples) > 1 and n_features is None:
        like = np.zeros((1, *n_samples[1:])) if like is None else like
        n_samples, n_features = n_samples[0], math.prod(n_samples[1:])
    if n_features is None and len(getattr(like, "shape", ())) > 1:
        n_features = math.prod(like.shape[1:])
    if n_features is None and isinstance(like, list) and {*map(type, like)} == {str}:
        n_features = 1  # a column of texts
    if not (hasattr(like, "shape") or isinstance(like, list | tuple | None)):
        # The error names the type only: the value may be data.
        raise TypeError(f"like must be an X that fit takes, or None, got {type(like).__name__}.")
    refuse_repeated_names(like)
    if n_features is None:
        raise TypeError("n_features must be given, or like: an X of made-up rows, or ['a text'].")
    checks.check_sizes(n_samples=n_samples, n_features=n_features)
    return int(n_samples), int(n_features), like


def other_shape(n_features: int, shape: tuple[int, ...]) -> ValueError:
    """Return the error of a plan for a number of features that is not that of `like`."""
    return ValueError(
        f"n_features={n_features} does not fit the shape {shape} of like: leave out n_features, or "
        "pass a like with as many features."
    )


def in_dtype(values: Any, dtype: np.dtype) -> Any:
    """Convert released numbers to the dtype of the data, without overflow; None stays None."""
    if values is None:
        return None
    # Half of the largest float: products of these values may round up, and must not overflow.
    largest = np.finfo(dtype).max / 2
    return np.clip(values, -largest, largest).astype(dtype)


def check_finite_bound(name: str, bound: float | None, cost: PrivacyCost) -> None:
    """Refuse an infinite bound if epsilon is finite."""
    if bound == math.inf and cost.is_private:
        raise ValueError(
            f"{name}=inf with epsilon={cost.epsilon} gives no guarantee: one row could move the "
            f"result without limit. Pass a finite {name}, or None."
        )


def check_not_pure(name: str, cost: PrivacyCost, remedy: str = "") -> None:
    """Refuse delta=0 where an estimator or a parameter needs Gaussian noise."""
    if cost.is_pure:
        raise ValueError(
            "delta=0 asks for pure differential privacy, which the Gaussian noise of "
            f"{name} does not give; pass {remedy}a positive delta, such as 1e-6."
        )


# ------------------------------
# The record of a fit as text, in a model of scikit-learn that was made of its releases: skdp is not
# needed to load the model.

_RECORD = "privacy_record_"
# Attributes that may be set on the model later: they do not count as a change of the model.
_NOT_RELEASED = {_RECORD, "feature_names_in_", "n_features_in_"}


def carrying(model: Any, maker: Any) -> Any:
    """Store the record of a fit in a model of scikit-learn that is made of its releases."""
    if type(maker).__module__.partition(".")[0] == "skdp":
        facts = {
            "class": type(maker).__name__,
            "made": _fingerprint(model),
            "record": maker.privacy_spent_.as_dict(),
            "n_units": getattr(maker, "_n_units", None),
            "warnings": list(getattr(maker, "_warnings_given", ())),
        }
        setattr(model, _RECORD, json.dumps(facts))
    return model


def carried(model: Any) -> tuple[PrivacySpent | None, str, list[str], int | None] | None:
    """Return what `carrying` stored: record, class of the fit, warnings and number of units.

    The record is None if the model was changed since. If nothing is stored, return None.
    """
    text = getattr(model, "__dict__", {}).get(_RECORD)
    if text is None:
        return None
    facts = json.loads(text)
    is_as_made = facts["made"] == _fingerprint(model)
    spent = PrivacySpent._from_dict(facts["record"]) if is_as_made else None
    return spent, facts["class"], facts["warnings"], facts["n_units"]


def _fingerprint(model: Any) -> str:
    """Return a hash of the contents of a model, which a pickle does not change."""
    return hashlib.sha256(repr(_state_of(model)).encode()).hexdigest()


def _state_of(value: Any) -> Any:
    """Return the contents of a model as plain values, with hashes in place of arrays."""
    if isinstance(value, np.ndarray | np.generic):
        has_objects = value.dtype == object
        found = value.tolist() if has_objects else hashlib.sha256(value.tobytes()).hexdigest()
        return value.shape, value.dtype.str, found
    if hasattr(value, "get_params"):
        names = [name for name in sorted(vars(value)) if not name.startswith("_")]
        states = [(n, _state_of(vars(value)[n])) for n in names if n not in _NOT_RELEASED]
        return type(value).__name__, states
    if isinstance(value, dict):
        return [(key, _state_of(one)) for key, one in value.items()]
    if isinstance(value, list | tuple):
        return [_state_of(one) for one in value]
    is_plain = isinstance(value, bool | int | float | str | None)
    return value if is_plain else getattr(value, "__qualname__", type(value).__name__)
