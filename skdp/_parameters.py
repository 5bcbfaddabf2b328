"""Checks of parameters, as plain Python numbers, and seeds that have to stay secret."""

import os
from numbers import Integral, Real
from types import NoneType
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, Options, validate_parameter_constraints

from skdp._printing import HIDDEN, is_caching, is_printing
from skdp.ledger import LEFT_OUT, PrivacyLedger
from skdp.privacy.clipping import SMALLEST_BOUND
from skdp.privacy.noise import GuessableSeed, may_be_guessed
from skdp.privacy.precision import plain

_GENERATORS = (np.random.RandomState, np.random.Generator)
#: Constraint of estimators whose noise may come from a seed.
SEED: dict[str, Any] = {  # not tuned
    "random_state": [Interval(Integral, 0, None, closed="left"), *_GENERATORS, None]
}
#: Constraints of a search or a score, which need a positive delta; fits do not.
BUDGET: dict[str, Any] = {  # not tuned
    "epsilon": [Interval(Real, 0, None, closed="right")],
    "delta": [Interval(Real, 0, 1, closed="neither")],
    "ledger": [PrivacyLedger, None],
}
#: Constraint of a public bound.
FINITE_BOUND = Interval(Real, SMALLEST_BOUND, 1 / SMALLEST_BOUND, closed="both")  # not tuned
#: Constraints of one that may be infinite.
ANY_BOUND = (FINITE_BOUND, Options(Real, {np.inf}))
_HIDDEN_PARAMETERS = ("random_state", "ledger")
_PRINTED_AS_THEY_ARE = (NoneType, *_GENERATORS)


class PlainParametersMixin:
    """Checks parameters as plain values: numpy would round the limits to a small type."""

    _parameter_constraints: ClassVar[dict[str, Any]]

    def _validate_params(self) -> None:
        # Faster than get_params, which inspects the signature. A subclass may lack a parameter.
        names = [name for name in self._parameter_constraints if hasattr(self, name)]
        given = {name: getattr(self, name) for name in names}
        validate_plain(self._parameter_constraints, given, type(self).__name__)


def validate_plain(constraints: dict[str, Any], given: dict[str, Any], caller_name: str) -> None:
    """Check parameters as plain values."""
    values = {name: plain(value) for name, value in given.items()}
    if isinstance(ledger := values.get("ledger"), str | bytes | os.PathLike):
        raise ValueError(
            f"The 'ledger' parameter of {caller_name} must be a PrivacyLedger or None, and no "
            "path: pass ledger=PrivacyLedger(path), or what PrivacyLedger.create returns."
        )
    if ledger is LEFT_OUT:
        # A LeftOutLedger refuses by itself, once it is charged.
        del values["ledger"]
    validate_parameter_constraints(constraints, values, caller_name=caller_name)


def warnings_for_seed(random_state: Any) -> list[str]:
    """Warn of a seed that may be guessed, and with it the noise."""
    # A GuessableSeed needs no warning: whoever passed the seed that it was derived from has been
    # warned of that seed.
    if not may_be_guessed(random_state) or isinstance(random_state, GuessableSeed):
        return []
    is_int = isinstance(random_state, Integral)
    given = "an int below 2**64" if is_int else type(random_state).__name__
    return [
        f"random_state, {given}, may be guessed, and whoever guesses it can take the noise out. "
        "Pass None for the guarantee, or secrets.randbits(128) and keep it secret."
    ]


class SeededEstimator(PlainParametersMixin, BaseEstimator):
    """An estimator with a seed that has to stay secret: printed forms and pickles leave it out."""

    random_state: Any

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Get the parameters as they were given. Printed forms hide a seed and a ledger.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the parameters of parameters that are estimators.

        Returns
        -------
        dict
            Parameter names mapped to their values. With an integer `random_state` they are as
            secret as that seed: whoever has it can take the noise out.
        """
        parameters: dict[str, Any] = super().get_params(deep)
        given = {name: parameters.get(name) for name in _HIDDEN_PARAMETERS}
        hidden = [name for name in given if not isinstance(given[name], _PRINTED_AS_THEY_ARE)]
        if hidden and is_printing():
            parameters.update(dict.fromkeys(hidden, HIDDEN))
        return parameters

    def __getstate__(self) -> dict[str, Any]:
        # Before a fit nothing is left out: a process that makes the fit needs the seed and the
        # ledger.
        state = super().__getstate__()
        if hasattr(self, "privacy_spent_"):
            state = without_secrets(state)
        elif is_caching():
            raise ValueError(
                f"A cache, such as memory of a Pipeline, would repeat a fit of "
                f"{type(self).__name__} where the data are the same, noise and all: two results "
                "would tell whether they are. Pass memory=None."
            )
        return state


def without_secrets(state: dict[str, Any]) -> dict[str, Any]:
    """Leave the seed and the ledger out of a pickle; a placeholder tells that there was a ledger.

    Whoever has the seed can take the noise out of released results.
    """
    ledger = {} if state.get("ledger") is None else {"ledger": LEFT_OUT}
    return {**state, "random_state": None, **ledger}
