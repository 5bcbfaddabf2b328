"""What every private estimator shares: checks, warnings about settings, keyed noise, pickles."""

import math
import re
from collections.abc import Callable
from numbers import Integral, Real
from types import NoneType
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import issparse
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval, StrOptions

from skdp._printing import HIDDEN_SEED, is_printing
from skdp.exceptions import warn_of_privacy
from skdp.linalg.sources import canonical_csr
from skdp.privacy.noise import NoiseSource
from skdp.privacy.sensitivity import ADJACENCIES

__all__ = [
    "INPUT",
    "PrivateEstimator",
    "check_finite_bound",
    "check_rows",
    "in_dtype",
    "quiet_check",
]

#: What scikit-learn's validation is told about X.
INPUT = {"accept_sparse": "csr", "dtype": (np.float64, np.float32)}
# One says how to compute, not what; the other is the key.
_NOT_IN_NOISE_KEY = ("n_jobs", "random_state")
_SMALLEST_SECRET = 2**64
_PRINTED_AS_THEY_ARE = (NoneType, np.random.RandomState, np.random.Generator)


class PrivateEstimator(BaseEstimator):
    """An estimator whose `fit` spends a privacy budget."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "epsilon": [Interval(Real, 0, None, closed="right")],
        "delta": [Interval(Real, 0, 1, closed="left")],
        "adjacency": [StrOptions(set(ADJACENCIES))],
        "n_jobs": [Integral, None],
        "random_state": [
            Interval(Integral, 0, None, closed="left"),
            np.random.RandomState,
            np.random.Generator,
            None,
        ],
    }

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Get the parameters as they were given. Only in printed forms is a seed hidden.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the parameters of parameters that are estimators.

        Returns
        -------
        dict
            Parameter names mapped to their values. With an integer `random_state` they are as
            secret as it is: it takes the noise out.
        """
        parameters: dict[str, Any] = super().get_params(deep)
        is_public = isinstance(parameters["random_state"], _PRINTED_AS_THEY_ARE)
        if not is_public and is_printing():
            parameters["random_state"] = HIDDEN_SEED
        return parameters

    def _warn_of_settings(self, n_units: int, units: str) -> None:
        """Say what public facts make of the guarantee."""
        if math.isinf(self.epsilon):
            return
        if self.delta > 1 / n_units:
            warn_of_privacy(
                f"delta={self.delta} exceeds one over the number of {units}, {n_units}: the "
                "guarantee would allow some of them to be published outright. Pass a smaller "
                f"delta, such as {0.1 / n_units:.0e}."
            )
        is_int = isinstance(self.random_state, Integral)
        secret = self.random_state is None or (
            is_int and int(self.random_state) >= _SMALLEST_SECRET
        )
        if not secret:
            given = "an int below 2**64" if is_int else type(self.random_state).__name__
            warn_of_privacy(
                f"random_state, {given}, may be guessed, and whoever guesses it can take "
                "the noise out. Pass None for the guarantee, or secrets.randbits(128) and keep it."
            )

    def _noise_source(self, seed: int | None, digest: Callable[[], Any]) -> NoiseSource:
        """Key the noise by everything that it must not be shared between.

        `digest` hashes all data of the fit. Without noise it would be a pass over them for nothing.
        """
        if seed is None or math.isinf(self.epsilon):
            return NoiseSource()
        parameters = sorted(
            (name, value)
            for name, value in self.get_params(deep=False).items()
            if name not in _NOT_IN_NOISE_KEY
        )
        return NoiseSource(seed, (type(self).__name__, tuple(parameters), digest()))

    def __getstate__(self) -> dict[str, Any]:
        # Released results with the seed beside them can be cleared of their noise.
        state = super().__getstate__()
        if hasattr(self, "privacy_spent_"):
            state = {**state, "random_state": None}
        return state


def check_rows(X: Any, estimator: BaseEstimator) -> Any:
    """Validate X as scikit-learn does, without warnings or errors that tell values."""

    def _check() -> Any:
        checked = check_array(X, **INPUT, estimator=estimator, input_name="X")
        if issparse(checked):
            # Duplicate entries of a cell may be finite and their sum not.
            checked = check_array(canonical_csr(checked), accept_sparse="csr", input_name="X")
        return checked

    return quiet_check(_check)


def quiet_check(check: Callable[[], Any]) -> Any:
    """Run a check of scikit-learn without what it tells of values."""
    try:
        # Summing huge entries, as the check for infinity does, would warn of them.
        # NaN and infinity are looked for even where scikit-learn is told not to.
        with np.errstate(all="ignore"), config_context(assume_finite=False):
            return check()
    except ValueError as error:
        # Values, if any, follow on the second line or behind the colon.
        message = re.sub(r"(to float|instead):.*", r"\1.", str(error).partition("\n")[0])
        if "NaN" in message:
            message += " Fill it by a constant: imputing from other rows would not be private."
    # Outside the handler, whose error would be attached and tells values.
    raise ValueError(message)


def in_dtype(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert released numbers to the type of the data; none becomes infinite."""
    # Half of the largest: what is computed from factors may round up.
    largest = np.finfo(dtype).max / 2
    return np.clip(values, -largest, largest).astype(dtype)


def check_finite_bound(name: str, bound: float | None, epsilon: float) -> None:
    """Refuse an infinite bound beside a finite epsilon."""
    if bound is not None and math.isinf(bound) and math.isfinite(epsilon):
        raise ValueError(
            f"{name}=inf with epsilon={epsilon} gives no guarantee: one row could move the result "
            f"without limit. Pass a finite {name}, or None."
        )
