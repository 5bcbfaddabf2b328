"""What every private estimator shares: the order of a fit, its plan, keyed noise, pickles."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np
from sklearn.utils import check_scalar
from sklearn.utils._param_validation import Interval, StrOptions

from skdp._parameters import SEED, PlainParametersMixin, SeededEstimator, warn_of_guesses
from skdp.data.reading import seen
from skdp.data.threads import one_blas_thread, thread_count
from skdp.exceptions import warn_of_privacy
from skdp.ledger import PrivacyLedger
from skdp.privacy import Plan, PrivacyBudget, unmoved
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
    "Procedure",
    "check_finite_bound",
    "doubt_of_delta",
    "in_dtype",
    "plan_of",
    "plan_of_releases",
]

T = TypeVar("T")

#: Constraint of those that share their work among threads.
N_JOBS: dict[str, Any] = {"n_jobs": [Integral, None]}
_OF_THE_FEATURES = {"n_features_in_", "feature_names_in_"}
# They say how to compute, not what, and where it is charged; the last is the key.
_NOT_IN_NOISE_KEY = ("ledger", "n_jobs", "random_state")


class Procedure(NamedTuple):
    """How a problem is planned and solved: pure functions of it, and of what is opened for it."""

    plan: Callable[[Any], Any]
    doubts: Callable[[Any, Plan], Iterable[str]]
    solve: Callable[[Any, Any, PrivacyBudget, np.random.Generator], Any]


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
        warn_of_privacy(*doubt_of_delta(problem.cost, problem.unit.counted, problem.n_units))

    def _open_budget(
        self, plan: Plan, what: str, noise: NoiseSource | None = None
    ) -> PrivacyBudget:
        """Open the budget, which charges the ledger for `what`: the only place where it is done."""
        charge = None if self.ledger is None else partial(self.ledger.charge, what=what)
        return PrivacyBudget.of(plan, noise, charge)


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
        return plan_of(self._problem(self._facts_like(int(n_samples), int(n_features), like)))

    def _fit(self, X: Any, y: Any = None) -> None:
        """Fit in the one order that keeps a fit private."""
        (doubts,) = self._fit_together((), X, y)
        # Last: whoever turns warnings into errors keeps what was paid for.
        warn_of_privacy(*doubts)

    def _fit_together(
        self,
        others: Sequence["PrivateEstimator"],
        X: Any,
        y: Any = None,
        tell: Callable[[str], None] = warn_of_privacy,
    ) -> list[list[str]]:
        """Fit this one, and others that differ in free parameters, to one and the same releases.

        What public facts say against it is told first; what the releases say against each is
        returned.
        """
        thread_count(getattr(self, "n_jobs", None))
        # From end to end, not only in passes: beside other fits, too, a seed repeats every bit.
        limits = nullcontext() if self.random_state is None else one_blas_thread()
        with _unchanged_if_refused(self), limits:
            return self._fitted_together(others, X, y, tell)

    def _fitted_together(
        self, others: Sequence["PrivateEstimator"], X: Any, y: Any, tell: Callable[[str], None]
    ) -> list[list[str]]:
        data, facts = self._input_of_fit(X, y)
        problem = self._problem(facts)
        plan = plan_of(problem)
        # What overflows becomes null; an exception or a warning would tell of single units.
        with np.errstate(all="ignore"):
            opened, budget, generator = self._open(data, problem, plan)
            self._warn_of_settings(problem)
            for doubt in problem.procedure.doubts(problem, plan):
                tell(doubt)
            result = problem.procedure.solve(problem, opened, budget, generator)
            doubts = [[*self._set_attributes(result, problem), *budget.doubts]]
            self.privacy_spent_ = budget.spent()
            for other in others:
                found = other._set_attributes(result, other._problem(facts))
                doubts.append([*found, *budget.doubts])
                other.privacy_spent_ = self.privacy_spent_
                for name in _OF_THE_FEATURES & vars(self).keys():
                    setattr(other, name, getattr(self, name))
        return doubts

    @abstractmethod
    def _checked_input(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Refuse bad data; return what is fitted, and public facts of it."""

    def _input_of_fit(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Refuse bad data as `_checked_input`, but for what the first reading will show."""
        return self._checked_input(X, y)

    @abstractmethod
    def _facts_like(self, n_samples: int, n_features: int, like: Any) -> Any:
        """Return these facts of data to come."""

    @abstractmethod
    def _problem(self, facts: Any) -> Any:
        """Refuse parameters that contradict each other or the facts; return what is asked."""

    @abstractmethod
    def _open_data(self, data: Any, problem: Any) -> tuple[Any, Callable[[], Any]]:
        """Remember the features; make what a solver reads, and what hashes all data of the fit."""

    @abstractmethod
    def _set_attributes(self, result: Any, problem: Any) -> Iterable[str]:
        """Set the fitted attributes from released values; return what these say against the fit."""

    def _open(
        self, data: Any, problem: Any, plan: Plan
    ) -> tuple[Any, PrivacyBudget, np.random.Generator]:
        """Open the data, the budget and the algorithm's stream."""
        opened, digest = self._open_data(data, problem)
        seed = draw_seed(self.random_state)
        noise = self._noise_source(seed, digest) if seed is not None else NoiseSource()
        what = f"{type(self).__name__}.fit, {problem.n_units} {problem.unit.counted}"
        return opened, self._open_budget(plan, what, noise), algorithm_generator(seed)

    def _free_parameters(self, problem: Any) -> frozenset[str]:
        """Return the parameters that no release depends on: they only say what to make of it."""
        return frozenset()

    def _reserved_part(self) -> float:
        """Return which part of delta a fit reserves, whatever it is fitted to."""
        return 0.0

    def _cost(self) -> PrivacyCost:
        """Return what a fit may spend: here alone epsilon and delta are read for it."""
        epsilon, delta = float(plain(self.epsilon)), float(plain(self.delta))
        reserved = delta * self._reserved_part() if math.isfinite(epsilon) else 0.0
        return PrivacyCost(epsilon, delta, reserved)

    def _asked(self, kind: type[T], **facts: Any) -> T:
        """Collect the parameters that `kind` has fields for, as plain values, with the facts."""
        names = [name for name in kind.__dataclass_fields__ if name not in facts]  # type: ignore[attr-defined]
        given = {name: plain(getattr(self, name)) for name in names if hasattr(self, name)}
        return kind(**{**given, **facts, "cost": self._cost()})

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
def _unchanged_if_refused(estimator: PrivateEstimator) -> Iterator[None]:
    """Leave an estimator as it was if its fit raises."""
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


def plan_of(problem: Any) -> Plan:
    """Plan the fit of a problem."""
    return plan_of_releases(problem, problem.procedure.plan(problem))


def plan_of_releases(problem: Problem, parts: Any) -> Plan:
    """Plan releases with the budget that is asked for."""
    unit, priced = problem.unit, unmoved.priced(parts, problem.cost)
    return Plan(problem.cost, unit.name, unit.adjacency, priced, unit.is_enforced)


def doubt_of_delta(cost: PrivacyCost, counted: str, n_units: int) -> list[str]:
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
