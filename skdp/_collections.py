"""Collections of dask: fits and scores take them as rows in parts, other methods chunk by chunk.

Nothing here imports dask before a collection is given.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, cast

from sklearn.utils._set_output import _auto_wrap_is_configured, _get_output_config

from skdp.data.containers import is_collection

P = ParamSpec("P")


def in_parts(X: Any, y: Any = None) -> tuple[Any, Any]:
    """Return a collection as rows in parts, which have their targets; other rows as they are.

    Parameters
    ----------
    X : object
        Rows.
    y : object, default=None
        Their targets, or None.

    Returns
    -------
    tuple
        Rows, and targets that these do not bring along.
    """
    if isinstance(X, list) and any(map(is_collection, X)):
        raise ValueError(
            "A list of parts of dask has no lengths, which a fit makes public: pass "
            "dask.array.concatenate([dask.array.from_delayed(part, shape, dtype), ...])."
        )
    if not is_collection(X):
        return X, y
    from skdp.data.dask_rows import rows_in_parts

    return rows_in_parts(X, y), None


def public_like(X: Any) -> Any:
    """Return public rows in place of a collection; other rows as they are."""
    if not is_collection(X):
        return X
    from skdp.data import dask_rows

    return dask_rows.public_like(X)


def by_chunks(
    method: Callable[Concatenate[Any, Any, P], Any],
) -> Callable[Concatenate[Any, Any, P], Any]:
    """Decorate a method that takes each row by itself, to map the chunks of a collection lazily."""

    @wraps(method)
    def _by_chunks(self: Any, X: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        if not is_collection(X):
            return method(self, X, *args, **kwargs)
        from skdp.data.dask_rows import mapped_by_chunks

        if method.__name__ == "transform":
            _check_output(self)
        return mapped_by_chunks(
            lambda rows: method(self, rows, *args, **kwargs), X, method.__name__
        )

    return cast(Callable[Concatenate[Any, Any, P], Any], _by_chunks)


def _check_output(estimator: Any) -> None:
    """Refuse to make data frames of an array of dask: scikit-learn would gather it."""
    is_wrapped = _auto_wrap_is_configured(estimator)
    container = _get_output_config("transform", estimator)["dense"]
    if is_wrapped and container != "default":
        raise ValueError(
            f"set_output(transform={container!r}) would gather an array of dask in memory: leave "
            "it at 'default', and make a data frame by dask.dataframe.from_dask_array(result, "
            "columns=estimator.get_feature_names_out())."
        )
