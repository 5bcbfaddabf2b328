"""The steps that share one cost, and what each of them gets of it."""

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
    share: float | None = None  # of the square of mu, where the caller gives shares
    # which columns of X it is fitted to, if it is a part of a ColumnTransformer that follows, and
    # the public steps of that part that come before it, as a Pipeline
    columns: Any = None
    before: Any = None
    # the TransformedTargetRegressor around a last step, which is its regressor
    target: Any = None

    @property
    def prefix(self) -> str:
        """Prefix of the names of its parameters."""
        return f"{self.name}__" * bool(self.name) + "regressor__" * (self.target is not None)

    @property
    def label(self) -> str:
        """Name of the step in records, with the function that transforms responses, if any."""
        if self.target is None:
            return self.name
        function = getattr(self.target.func, "__name__", type(self.target.func).__name__)
        return f"{self.name} of {function}(y)"

    @property
    def is_private(self) -> bool:
        """Whether its fits spend budget."""
        return isinstance(self.estimator, PrivateEstimator)


class Shares(NamedTuple):
    """What a fit of each private step may spend."""

    whole: PrivacyCost  # of everything together, with what all fits reserve of delta
    of: dict[int, float]  # shares of the square of its mu, by the number of the step
    delta: float  # of each fit
    name: str = "fit"  # what the record of a search calls such a fit

    def prefixed(self, number: int, name: str, messages: Iterable[str]) -> list[str]:
        """Name the step that warns: its epsilon, which a warning may name, is that of a share."""
        who, share = f"Step {name!r}" if name else "A fit", self.of[number]
        prefix = "" if round(share, 6) == 1 else f"{who}, which has {share:.2g} of the budget: "
        return [prefix + message for message in messages]


def shares_of(steps: Sequence[Step], cost: PrivacyCost) -> Shares:
    """Share a cost by the caller's weights; every fit gets an equal part of delta."""
    given = {i: step.share or 0.0 for i, step in enumerate(steps) if step.is_private}
    delta, total = cost.delta / len(given), max(1.0, math.fsum(given.values()))
    reserved = math.fsum(delta * steps[i].estimator._reserved_part() for i in given)
    whole = PrivacyCost(cost.epsilon, cost.delta, reserved if cost.is_private else 0.0)
    # Rounding may take the sum of given shares above 1.
    return Shares(whole, {i: share / total for i, share in given.items()}, delta)


# ------------------------------
# The shares that a caller gives, and those by default.

# Shares of steps that others follow: of a scaler, whose columns' ends are public or not, and of
# components, or what another author has written.
_KNOWN_ENDS, _UNKNOWN_ENDS, _COMPONENTS = 0.15, 0.25, 0.25  # not studied
# By how much rounding may take the sum of given shares away from 1.
_ROUNDING = 1e-9  # not tuned


def given_shares(steps: Sequence[Step], given: Mapping[str, float] | None) -> dict[str, float]:
    """Return the share of each private step, by name: given, by default, or the rest.

    The parts of a ColumnTransformer, which comes first, split its share. By default that is the
    largest of theirs. What is given to a step that is passed through goes to all others.
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
    """Return the shares of steps that a caller gives, as floats."""
    shares = {}
    for name, share in given.items():
        if name not in names:
            raise ValueError(
                f"shares has {name!r}, which is no private step: these are {', '.join(names)}."
            )
        is_number = isinstance(share, Real) and not isinstance(share, bool)
        # Compared before it is rounded, as what is too large is no float, and after.
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
