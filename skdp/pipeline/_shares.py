"""The steps that share one cost, and how they split it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

from skdp._estimator import PlannedEstimator, PrivateEstimator
from skdp.decomposition import DPPCA, DPTruncatedSVD
from skdp.exceptions import shown
from skdp.preprocessing import DPStandardScaler
from skdp.privacy.plan import PrivacyCost


class Step(NamedTuple):
    """A step of a pipeline; any other estimator is one step without a name."""

    name: str
    estimator: Any
    share: float | None = None  # of the square of mu, in a DPPipeline
    # Each private part of a ColumnTransformer is a step, too.
    columns: Any = None  # columns of X that the part gets; None for a step that is no part
    before: Any = None  # Pipeline of the public steps of the part, before its private step
    target: Any = None  # a TransformedTargetRegressor around this estimator

    @property
    def label(self) -> str:
        """Name of the step in records, with the function of the responses, if there is one."""
        if self.target is None:
            return self.name
        function = getattr(self.target.func, "__name__", type(self.target.func).__name__)
        return f"{self.name} of {function}(y)"

    @property
    def is_private(self) -> bool:
        """Whether fitting the step spends budget."""
        return isinstance(self.estimator, PrivateEstimator)


class Shares(NamedTuple):
    """What each private step may spend in one fit."""

    whole: PrivacyCost  # cost of all steps together, with the delta that they reserve
    by_step: dict[int, float]  # shares of the square of mu, by the number of the step
    delta: float  # the part of delta that each fit of a step gets
    name: str = "fit"  # name of the fits in the record of a search

    def prefixed(self, number: int, name: str, messages: Iterable[str]) -> list[str]:
        """Begin the warnings of a step with its name and share, as they quote its own epsilon."""
        who, share = f"Step {name!r}" if name else "A fit", self.by_step[number]
        prefix = "" if round(share, 6) == 1 else f"{who}, which has {share:.2g} of the budget: "
        return [prefix + message for message in messages]


def shares_of(steps: Sequence[Step], cost: PrivacyCost) -> Shares:
    """Split a cost by the caller's shares; each fit gets an equal part of delta."""
    given = {i: step.share or 0.0 for i, step in enumerate(steps) if step.is_private}
    delta, total = cost.delta / len(given), max(1.0, math.fsum(given.values()))
    reserved = math.fsum(delta * steps[i].estimator._reserved_part() for i in given)
    whole = PrivacyCost(cost.epsilon, cost.delta, reserved if cost.is_private else 0.0)
    # Rounding may have raised the sum of given shares above 1.
    return Shares(whole, {i: share / total for i, share in given.items()}, delta)


# ------------------------------
# The caller's shares, and default ones.

# Default shares of steps before the last: a scaler with public bounds, a scaler without bounds, and
# an estimator of components or of another author.
_KNOWN_ENDS, _UNKNOWN_ENDS = 0.15, 0.25  # benchmarks/scaling/columns.md
_COMPONENTS = 0.25  # not studied
# The sum of given shares may differ from 1 by this, as they are rounded.
_OFF_ONE = 1e-9  # not tuned


def given_shares(steps: Sequence[Step], given: Mapping[str, float] | None) -> dict[str, float]:
    """Return the share of each private step by name: the given one, a default, or the rest.

    The private parts of a ColumnTransformer split one share, by default the largest of their own
    default shares. The share of a step that is passed through goes to all others.
    """
    given, wholes, parts, absent = given or {}, dict[str, Any](), dict[str, float](), list[str]()
    for step in steps:
        if step.columns is not None:
            parts[step.name] = _default_share(step.name, step.estimator)
        elif step.is_private:
            wholes[step.name] = step.estimator
        elif step.name in given and isinstance(step.estimator, str | None):
            absent.append(step.name)  # a step that is passed through
    # The name of the ColumnTransformer with private parts, if there is one.
    columns = [*{name.partition("__")[0] for name in parts}]
    names, shares = [*columns, *absent, *wholes], dict[str, float]()
    for name, share in given.items():
        if name not in names:
            raise ValueError(f"shares has {name!r}, no private step: these are {', '.join(names)}.")
        is_number = isinstance(share, Real) and not isinstance(share, bool)
        # A huge int has no float, and a tiny fraction becomes the float 0.
        shares[name] = float(share) if is_number and 0 < share <= 1 else 0.0
        if not shares[name]:
            raise ValueError(f"shares[{name!r}] must be a number in (0, 1], got {shown(share)}.")
    *others, last = [name for name in [*columns, *wholes] if name not in shares] or [""]
    for name in others:
        is_columns = name in columns
        shares[name] = max(parts.values()) if is_columns else _default_share(name, wholes[name])
    rest = 1 - math.fsum(shares.values())
    if last and rest > 0:
        shares[last] = rest
    elif last or abs(rest) > _OFF_ONE:
        wanted = f"leave a part for {last!r}" if last else "add to 1"
        raise ValueError(
            f"shares must {wanted}; with shares for the other steps they are {shares}, and their "
            f"sum is {1 - rest:.6g}."
        )
    # Without the steps that are passed through, the shares of the others have to sum to 1.
    left = 1 - math.fsum(shares.pop(name) for name in absent)
    shares = {name: share / left for name, share in shares.items()}
    for name in columns:
        part = shares.pop(name) / math.fsum(parts.values())
        shares |= {name: part * share for name, share in parts.items()}
    return shares


def _default_share(name: str, step: Any) -> float:
    """Return the default share of a step before the last; refuse a step without a default."""
    if isinstance(step, DPStandardScaler):
        return _UNKNOWN_ENDS if step.bounds is None else _KNOWN_ENDS
    if isinstance(step, DPPCA | DPTruncatedSVD | PlannedEstimator):
        return _COMPONENTS
    raise ValueError(
        f"Step {name!r}, a {type(step).__name__}, is followed by other private steps and has no "
        f"share by default: pass shares={{{name!r}: ...}}, a part of the budget."
    )
