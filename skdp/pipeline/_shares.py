"""Which part of the budget each private step of a pipeline gets: of the square of mu."""

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

from skdp.decomposition import DPPCA, DPTruncatedSVD
from skdp.preprocessing import DPStandardScaler

# Shares of steps that others follow: of a scaler, whose columns' ends are public or not, and of
# components.
_KNOWN_ENDS, _UNKNOWN_ENDS, _COMPONENTS = 0.15, 0.25, 0.25  # not studied
# By how much rounding may take the sum of given shares away from 1.
_ROUNDING = 1e-9  # not tuned


def shares_of(
    private: Mapping[str, Any], parts: Mapping[str, Any], given: Mapping[str, float] | None
) -> dict[str, float]:
    """Return the share of each private step, by name: given, by default, or the rest.

    The `parts` of a ColumnTransformer, which comes first, split its share. By default that is the
    largest of theirs.
    """
    if parts:
        defaults = {name: _default_share(name, part) for name, part in parts.items()}
        first = next(iter(parts)).partition("__")[0]
        shares = _shares_of_steps({first: max(defaults.values()), **private}, given)
        whole = shares.pop(first) / math.fsum(defaults.values())
        return {name: whole * share for name, share in defaults.items()} | shares
    return _shares_of_steps(private, given)


def _shares_of_steps(
    private: Mapping[str, Any], given: Mapping[str, float] | None
) -> dict[str, float]:
    shares = {}
    for name, share in (given or {}).items():
        if name not in private:
            raise ValueError(
                f"shares has {name!r}, which is no private step: these are {', '.join(private)}."
            )
        is_number = isinstance(share, Real) and not isinstance(share, bool)
        # Compared before it is rounded, as what is too large is no float, and after.
        shares[name] = float(share) if is_number and 0 < share <= 1 else 0.0
        if not shares[name]:
            raise ValueError(
                f"shares[{name!r}] must be a number above 0 and at most 1, got {share!r}."
            )
    *others, last = [name for name in private if name not in shares] or [""]
    shares |= {name: _default_share(name, private[name]) for name in others}
    rest = 1 - math.fsum(shares.values())
    if last and rest > 0:
        shares[last] = rest
    elif last or abs(rest) > _ROUNDING:
        wanted = f"leave a part for {last!r}" if last else "add to 1"
        raise ValueError(f"shares must {wanted}, got {shares}, with the sum {1 - rest:.6g}.")
    return {name: shares[name] for name in private}


def _default_share(name: str, step: Any) -> float:
    if isinstance(step, float):
        return step
    if isinstance(step, DPStandardScaler):
        return _UNKNOWN_ENDS if step.bounds is None else _KNOWN_ENDS
    if isinstance(step, DPPCA | DPTruncatedSVD):
        return _COMPONENTS
    raise ValueError(
        f"Step {name!r}, a {type(step).__name__}, is followed by other private steps and has no "
        f"share by default: pass shares={{{name!r}: ...}}, a part of the budget."
    )
