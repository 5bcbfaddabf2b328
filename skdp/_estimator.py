"""What every private estimator shares: the order of a fit, its plan, keyed noise, pickles."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from sklearn.utils import check_scalar
from sklearn.utils._param_validation import Interval, StrOptions

from skdp._parameters import SEED, PlainParametersMixin, SeededEstimator, warn_of_guesses
from skdp.data.reading import seen
from skdp.data.threads import one_blas_thread, thread_count
from skdp.exceptions import warn_of_privacy
from skdp.ledger import PrivacyLedger
from skdp.privacy import Plan, PrivacyBudget
from skdp.privacy.adjacency import ADJACENCIES
from skdp.privacy.cost import PrivacyCost
from skdp.privacy.noise import NoiseSource, algorithm_generator, draw_seed
from skdp.privacy.precision import plain
from skdp.units._resolved import ResolvedUnit
from skdp.units._unit import Unit

__all__ = [
    "N_JOBS",
    "BudgetMixin",
    "PrivateEstimator",
    "check_finite_bound",
    "in_dtype",
    "plan_of",
    "warnings_for_delta",
    "whole_or_nothing",
]

T = TypeVar("T")
#: A view of the data that solvers read, and what hashes all data of a fit.
Data = tuple[Any, Callable[[], Any]]

#: Constraint of those that share their work among threads.
N_JOBS: dict[str, Any] = {"n_jobs": [Integral, None]}
# They say how to compute, not what, and where it is charged; the last is the key.
_NOT_IN_NOISE_KEY = ("ledger", "n_jobs", "random_state")


class Problem(Protocol):
    """What is asked of a budget, by plain parameters and public facts, checked."""

    @property
    def unit(self) -> ResolvedUnit:
        """What is protected."""

    @property
    def n_units(self) -> int:
        """How many of these there are."""

    @property
    def cost(self) -> PrivacyCost:
        """What may be spent."""


class BudgetMixin(PlainParametersMixin):
    """What a fit and a stream share: a budget, doubted, charged and opened in one way."""

    ledger: Any
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "epsilon": [Interval(Real, 0, None, closed="right")],
        "delta": [Interval(Real, 0, 1, closed="left")],
        "adjacency": [StrOptions(set(ADJACENCIES))],
        "ledger": [PrivacyLedger, None],
        **SEED,
    }

    def _warn_of_settings(self, problem: Problem) -> None:
        """Say what public facts make of the guarantee."""
        warn_of_privacy(*warnings_for_delta(problem.cost, problem.unit.counted, problem.n_units))

    def _open_budget(
        self, plan: Plan, what: str, noise_source: NoiseSource | None = None
    ) -> PrivacyBudget:
        """Open the budget, which charges the ledger for `what`: the only place where it is done."""
        charge = None if self.ledger is None else partial(self.ledger.charge, what=what)
        return PrivacyBudget.of(plan, noise_source, charge)


class PrivateEstimator(BudgetMixin, SeededEstimator):
    """An estimator whose `fit` spends a privacy budget."""

    def plan(self, n_samples: int, n_features: int, *, like: Any = None) -> Plan:
        """Tell what a fit would release and spend, from public facts: nothing is read or spent.

        Parameters
        ----------
        n_samples : int
            Number of rows or records of the X to come.
        n_features : int
            Number of its features.
        like : object or None, default=None
            An X such as the one to come, of any length, of those that `fit` takes: whether it is
            sparse, its dtype and its shape but for the length are read, and no value. ``None``
            stands for a dense 2-D array.

        Returns
        -------
        Plan
            All releases of the fit, in order.

        Raises
        ------
        TypeError
            If `like` is nothing that `fit` takes.
        ValueError
            If a parameter is not acceptable, as in `fit`, or `like` has other features.
        """
        self._validate_params()
        like = seen(like)
        is_data = hasattr(like, "shape") or isinstance(like, list | tuple | None)
        if isinstance(like, type) or not is_data:
            # Its type only: what it prints may be values.
            kind = like.__name__ if isinstance(like, type) else type(like).__name__
            raise TypeError(f"like must be an X that fit takes, or None, got {kind}.")
        for name, size in (("n_samples", n_samples), ("n_features", n_features)):
            check_scalar(size, name, Integral, min_val=1)
        problem = self._problem_like(int(n_samples), int(n_features), like)
        return plan_of(problem, self._plan(problem))

    def _fit(self, X: Any, y: Any = None) -> None:
        """Fit in the one order that keeps a fit private."""
        with whole_or_nothing(self):
            found = self._keep(*self._release(X, y, warn_of_privacy))
        # Last: whoever turns warnings into errors keeps what was paid for.
        warn_of_privacy(*found)

    def _release(
        self, X: Any, y: Any, tell: Callable[[str], None]
    ) -> tuple[Any, Any, PrivacyBudget]:
        """Do all that sees the data: check, plan, tell what public facts say against it, spend."""
        problem, data = self._problem(X, y)
        plan = plan_of(problem, self._plan(problem))
        view, budget, generator = self._open(data, problem, plan)
        self._warn_of_settings(problem)
        for warning in self._warnings(problem, plan):
            tell(warning)
        return problem, self._solve(problem, plan.parts, view, budget, generator), budget

    def _keep(self, problem: Any, result: Any, budget: PrivacyBudget) -> list[str]:
        """Set what was released; return what it says against the fit."""
        found = list(self._set_attributes(result, problem))
        self.privacy_spent_ = budget.spent()
        return [*found, *budget.warnings]

    @abstractmethod
    def _problem(self, X: Any, y: Any) -> tuple[Any, Data]:
        """Refuse bad data and parameters; remember the features; return what is asked, of what."""

    @abstractmethod
    def _problem_like(self, n_samples: int, n_features: int, like: Any) -> Any:
        """Return what would be asked of data to come."""

    @abstractmethod
    def _plan(self, problem: Any) -> Any:
        """Declare all releases, in order, from public facts."""

    @abstractmethod
    def _solve(
        self,
        problem: Any,
        plan: Any,
        view: Any,
        budget: PrivacyBudget,
        generator: np.random.Generator,
    ) -> Any:
        """Release what is planned, and make of it what it gives."""

    @abstractmethod
    def _set_attributes(self, result: Any, problem: Any) -> Iterable[str]:
        """Set the fitted attributes from released values; return what these say against the fit."""

    def _warnings(self, problem: Any, plan: Plan) -> Iterable[str]:
        """Say what public facts tell against the fit."""
        return ()

    def _open(
        self, data: Data, problem: Any, plan: Plan
    ) -> tuple[Any, PrivacyBudget, np.random.Generator]:
        """Open the budget and the algorithm's stream."""
        view, digest = data
        seed = draw_seed(self.random_state)
        source = self._noise_source(seed, digest) if seed is not None else NoiseSource()
        what = f"{type(self).__name__}.fit, {problem.n_units} {problem.unit.counted}"
        return view, self._open_budget(plan, what, source), algorithm_generator(seed)

    def _reserved_part(self) -> float:
        """Return which part of delta a fit reserves, whatever it is fitted to."""
        return 0.0

    def _cost(self) -> PrivacyCost:
        """Return what a fit may spend: here alone epsilon and delta are read for it."""
        epsilon, delta = float(plain(self.epsilon)), float(plain(self.delta))
        reserved = delta * self._reserved_part() if math.isfinite(epsilon) else 0.0
        return PrivacyCost(epsilon, delta, reserved)

    def _asked(self, kind: type[T], **facts: Any) -> T:
        """Collect what `kind` has fields for: the facts, and else parameters as plain values."""
        facts, names = {"cost": self._cost(), **facts}, kind.__dataclass_fields__  # type: ignore[attr-defined]
        given = {name: plain(getattr(self, name)) for name in names if hasattr(self, name)}
        return kind(**{name: one for name, one in {**given, **facts}.items() if name in names})

    def _warn_of_settings(self, problem: Problem) -> None:
        super()._warn_of_settings(problem)
        if problem.cost.is_private:
            warn_of_guesses(self.random_state)

    @property
    def _is_keyed(self) -> bool:
        """Whether the noise follows from a seed, and all that is not to share it."""
        return self.random_state is not None and math.isfinite(self.epsilon)

    def _noise_source(self, seed: int, digest: Callable[[], Any]) -> NoiseSource:
        """Key the noise by everything that it must not be shared between.

        `digest` hashes all data of the fit. Without noise it would be a pass over them for nothing.
        """
        if not self._is_keyed:
            return NoiseSource()
        parameters = sorted(
            (name, value.key() if isinstance(value, Unit) else plain(value))
            for name, value in self.get_params(deep=False).items()
            if name not in _NOT_IN_NOISE_KEY
        )
        return NoiseSource(seed, (type(self).__name__, tuple(parameters), digest()))


@contextmanager
def whole_or_nothing(estimator: PrivateEstimator) -> Iterator[None]:
    """Fit without warnings of numpy; leave an estimator as it was if that raises."""
    thread_count(getattr(estimator, "n_jobs", None))
    # From end to end, not only in passes: beside other fits, too, a seed repeats every bit.
    limits = nullcontext() if estimator.random_state is None else one_blas_thread()
    before = dict(estimator.__dict__)
    try:
        # What overflows becomes null; an exception or a warning would tell of single units.
        with limits, np.errstate(all="ignore"):
            yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


def plan_of(problem: Problem, parts: Any) -> Plan:
    """Plan releases with the budget that is asked for."""
    unit = problem.unit
    return Plan(
        problem.cost,
        parts,
        unit=unit.name,
        adjacency=unit.adjacency,
        enforced=unit.is_enforced,
    )


def warnings_for_delta(cost: PrivacyCost, counted: str, n_units: int) -> list[str]:
    """Doubt a delta that would allow to publish single units."""
    if not cost.is_private or cost.delta <= 1 / n_units:
        return []
    return [
        f"delta={cost.delta} exceeds one over the number of {counted}, {n_units}: the guarantee "
        "would allow some of them to be published outright. Pass a smaller delta, such as "
        f"{0.1 / n_units:.0e}."
    ]


def in_dtype(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert released numbers to the type of the data; none becomes infinite."""
    # Half of the largest: what is computed from factors may round up.
    largest = np.finfo(dtype).max / 2
    return np.clip(values, -largest, largest).astype(dtype)


def check_finite_bound(name: str, bound: float | None, cost: PrivacyCost) -> None:
    """Refuse an infinite bound beside a finite epsilon."""
    if bound == math.inf and cost.is_private:
        raise ValueError(
            f"{name}=inf with epsilon={cost.epsilon} gives no guarantee: one row could move the "
            f"result without limit. Pass a finite {name}, or None."
        )
