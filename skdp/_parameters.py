"""Parameters as Python's numbers, as which they are checked and computed with."""

from typing import Any, ClassVar

from sklearn.utils._param_validation import validate_parameter_constraints

from skdp.privacy.precision import plain

__all__ = ["PlainParametersMixin"]


class PlainParametersMixin:
    """Checks parameters as plain values: a small type would round the limits they are within."""

    _parameter_constraints: ClassVar[dict[str, Any]]

    def _validate_params(self) -> None:
        # Unlike for get_params, nobody has to look at the signature; a subclass may have fewer.
        names = [name for name in self._parameter_constraints if hasattr(self, name)]
        validate_parameter_constraints(
            self._parameter_constraints,
            {name: plain(getattr(self, name)) for name in names},
            caller_name=type(self).__name__,
        )
