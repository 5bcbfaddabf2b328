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
    """A step of a pipeline; another estimator is a single step without a name."""

    name: str
    estimator: Any
    share: float | None = None  # of the square of mu, if the caller gives shares
    # For a private part of a ColumnTransformer: its columns of X, and the public steps of the part
    # before it, as a Pipeline.
    columns: Any = None
    before: Any = None
    # The TransformedTargetRegressor around this estimator, if the last step is one.
    target: Any = None

    @property
    def prefix(self) -> str:
        """Prefix of the step in names of parameters."""
        return f"{self.name}__" * bool(self.name) + "regressor__" * (self.target is not None)

    @property
    def label(self) -> str:
        """Name of the step in records; it includes the function of responses, if there is one."""
        if self.target is None:
            return self.name
        function = getattr(self.target.func, "__name__", type(self.target.func).__name__)
        return f"{self.name} of {function}(y)"

    @property
    def is_private(self) -> bool:
        """Whether fitting the step spends budget."""
        return isinstance(self.estimator, PrivateEstimator)


class Shares(NamedTuple):
    """What each private step may spend."""

    whole: PrivacyCost  # cost of all steps together, with their reserved delta
    of: dict[int, float]  # shares of the square of mu, by step number
    delta: float  # of each fit
    name: str = "fit"  # name of such a fit in the record of a search

    def prefixed(self, number: int, name: str, messages: Iterable[str]) -> list[str]:
        """Prefix warnings with the step's name and share, whose epsilon they quote."""
        who, share = f"Step {name!r}" if name else "A fit", self.of[number]
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
# Shares that a caller gives, and default shares.

# Default shares of steps before the last: a scaler with public bounds, one without, and components
# or an estimator of another author.
_KNOWN_ENDS, _UNKNOWN_ENDS, _COMPONENTS = 0.15, 0.25, 0.25  # not studied
# The sum of given shares may exceed 1 by this, as they are rounded.
_ROUNDING = 1e-9  # not tuned


def given_shares(steps: Sequence[Step], given: Mapping[str, float] | None) -> dict[str, float]:
    """Return the share of each private step by name: given, by default, or the rest.

    The parts of a ColumnTransformer, the first step, split its share; by default the largest of
    their shares. The share of a step that is passed through goes to all others.
    """
    given, wholes, parts, absent = given or {}, dict[str, Any](), dict[str, float](), list[str]()
    for step in steps:
        if step.columns is not None:
            parts[step.name] = _default_share(step.name, step.estimator)
        elif step.is_private:
            wholes[step.name] = step.estimator
        elif step.name in given and isinstance(step.estimator, str | None):
            absent.append(step.name)
    columns = [next(iter(parts), "").partition("__")[0]] * bool(parts)
    shares = _checked_shares(given, [*columns, *absent, *wholes])
    *others, last = [name for name in [*columns, *wholes] if name not in shares] or [""]
    for name in others:
        is_whole = name in wholes
        shares[name] = _default_share(name, wholes[name]) if is_whole else max(parts.values())
    rest = 1 - math.fsum(shares.values())
    if last and rest > 0:
        shares[last] = rest
    elif last or abs(rest) > _ROUNDING:
        wanted = f"leave a part for {last!r}" if last else "add to 1"
        raise ValueError(f"shares must {wanted}, got {shares}, with the sum {1 - rest:.6g}.")
    left = 1 - math.fsum(shares.pop(name) for name in absent)
    shares = {name: share / left for name, share in shares.items()}
    for name in columns:
        part = shares.pop(name) / math.fsum(parts.values())
        shares |= {name: part * share for name, share in parts.items()}
    return shares


def _checked_shares(given: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    """Return the shares that a caller gives, as floats; refuse other values."""
    shares = {}
    for name, share in given.items():
        if name not in names:
            raise ValueError(
                f"shares has {name!r}, which is no private step: these are {', '.join(names)}."
            )
        is_number = isinstance(share, Real) and not isinstance(share, bool)
        # Compared before the conversion, as a huge int has no float, and again afterwards.
        shares[name] = float(share) if is_number and 0 < share <= 1 else 0.0
        if not shares[name]:
            raise ValueError(
                f"shares[{name!r}] must be a number above 0 and at most 1, got {shown(share)}."
            )
    return shares


def _default_share(name: str, step: Any) -> float:
    if isinstance(step, DPStandardScaler):
        return _UNKNOWN_ENDS if step.bounds is None else _KNOWN_ENDS
    if isinstance(step, DPPCA | DPTruncatedSVD | PlannedEstimator):
        return _COMPONENTS
    raise ValueError(
        f"Step {name!r}, a {type(step).__name__}, is followed by other private steps and has no "
        f"share by default: pass shares={{{name!r}: ...}}, a part of the budget."
    )
