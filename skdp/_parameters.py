"""Parameters of an estimator as Python's numbers, for as long as it computes with them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

from sklearn.base import BaseEstimator

from skdp.privacy.precision import plain

__all__ = ["plain_parameters", "with_plain_parameters"]


@contextmanager
def plain_parameters(estimator: BaseEstimator) -> Iterator[None]:
    """Let an estimator have plain parameters inside, and those it was given again afterwards."""
    # Unlike for get_params, nobody has to look at the signature; a subclass may have fewer of them.
    names = filter(partial(hasattr, estimator), estimator._parameter_constraints)
    given = {name: getattr(estimator, name) for name in names}
    try:
        for name, value in given.items():
            setattr(estimator, name, plain(value))
        yield
    finally:
        for name, value in given.items():
            setattr(estimator, name, value)


def with_plain_parameters(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a method so that it sees plain parameters, and checks them as such."""

    @wraps(method)
    def _method(estimator: BaseEstimator, *args: Any, **kwargs: Any) -> Any:
        with plain_parameters(estimator):
            return method(estimator, *args, **kwargs)

    return _method
