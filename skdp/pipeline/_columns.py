"""A ColumnTransformer as the first step: its private parts are fitted one by one, to their columns.

Parts that learn nothing see all rows before anything is charged, and again once the private parts
are fitted: what they refuse is refused before.
"""

from collections.abc import Mapping
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import _safe_indexing

from skdp.pipeline._private_steps import has_budget
from skdp.pipeline._public_steps import fitted_to_nothing, is_finite, transformed


def is_columns(step: Any) -> bool:
    """Tell whether a step transforms columns apart."""
    return type(step) is ColumnTransformer


def private_parts(step: Any) -> list[tuple[str, Any, Any]]:
    """Return the name, the estimator and the columns of each private part."""
    return [one for one in step.transformers if has_budget(one[1])]


def check_columns(name: str, step: Any) -> None:
    """Refuse what would look at values, or keep rows sparse that are not."""
    if step.sparse_threshold != 0 or step.remainder not in ("drop", "passthrough"):
        raise ValueError(
            f"Step {name!r}, a ColumnTransformer, needs sparse_threshold=0, because how dense its "
            "rows are would follow their values, and remainder 'drop' or 'passthrough'."
        )
    if any(callable(columns) for _, _, columns in step.transformers):
        raise ValueError(f"Step {name!r} must name its columns: a function may look at values.")


def columns_of(rows: Any, columns: Any) -> Any:
    """Return some columns of rows; None stands for all."""
    if columns is None:
        return rows
    rows = rows if hasattr(rows, "shape") else np.asarray(rows)
    return _safe_indexing(rows, columns, axis=1)


def in_public(step: Any) -> Any:
    """Return the transformer with public parts only: private ones keep columns as they are."""
    return _with_parts(step, {name: _as_wide(part) for name, part, _ in private_parts(step)})


def check_rows_of_columns(name: str, step: Any, rows: Any, *, are_private: bool) -> None:
    """Refuse rows without the columns, or that public parts refuse or do not make finite."""
    for _, _, columns in step.transformers:
        try:
            columns_of(rows, columns)
        except (IndexError, KeyError, ValueError):
            raise ValueError(
                f"Step {name!r}: X, or the like of a plan, does not have the columns {columns!r}."
            ) from None
    if not are_private:
        return
    public = in_public(step)
    made = transformed([(name, fitted_to_nothing(name, public, rows))], rows)
    if getattr(getattr(made, "dtype", None), "kind", "") not in "biuf" or not is_finite(made):
        raise ValueError(
            f"Step {name!r} leaves NaN, infinity or what is no number in some rows. Fill what is "
            "missing by a constant, and encode text by OneHotEncoder(categories=[...], "
            'handle_unknown="ignore").'
        )


def fitted_columns(name: str, step: Any, parts: Mapping[str, Any], rows: Any) -> Any:
    """Fit the transformer around fitted private parts, which stay as they are."""
    frozen = {part: FrozenEstimator(fitted) for part, fitted in parts.items()}
    whole = fitted_to_nothing(name, _with_parts(step, frozen), rows)
    whole.transformers = clone(step).transformers
    whole.transformers_ = [
        (part, parts.get(part, fitted), columns) for part, fitted, columns in whole.transformers_
    ]
    return whole


def _with_parts(step: Any, parts: Mapping[str, Any]) -> Any:
    """Clone a transformer with other estimators in some places."""
    others = [
        (name, parts.get(name, estimator), columns)
        for name, estimator, columns in step.transformers
    ]
    return clone(step).set_params(transformers=others)


def _as_wide(part: Any) -> Any:
    """Return what learns nothing and leaves as many columns as a private part, or more."""
    n_components = getattr(part, "n_components", None)
    most = int(n_components) if isinstance(n_components, Integral) else None
    first = partial(columns_of, columns=slice(0, most))
    # Validation makes numbers of nullable columns, as the private part does.
    return FunctionTransformer(first, validate=True, accept_sparse=True)
