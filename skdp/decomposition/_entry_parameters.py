"""The parameters that say what may change in a matrix: checked, and made into a unit."""

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils._param_validation import Interval, StrOptions

from skdp.decomposition._entry_level import Settings, choose_entry_solver
from skdp.decomposition._solvers.units import Edge, Entry, Interaction, ShortRow, Spectral, Unit
from skdp.linalg.sources import RowBlocks, holds_sparse
from skdp.privacy.clipping import SMALLEST_BOUND

__all__ = [
    "ENTRY_CONSTRAINTS",
    "SQUARE_UNITS",
    "check_entry_input",
    "check_entry_parameters",
    "count_units",
    "settings_of",
    "unit_of",
]

SQUARE_UNITS = ("edge", "spectral")
_BOUNDED_UNITS = ("entry", "edge", "row", "spectral")
# The first is what "auto" may take.
_SOLVERS = {
    "row": ("covariance", "adaptive", "power"),
    "entry": ("alternating", "deflation", "input"),
    "edge": ("power", "deflation", "alternating"),
    "interaction": ("power",),
    "spectral": ("power",),
    "short row": ("alternating",),
}
_PURE_SOLVERS = {
    "entry": ("alternating",),
    "edge": ("power", "alternating"),
    "spectral": ("power",),
}
_SYMMETRY_TOLERANCE = 1e-10
# Rounding of a product with such a matrix costs no noise to speak of, up to some 10,000 rows.
_SPECTRAL_BOUNDS = (-1e6, 1e6)

ENTRY_CONSTRAINTS: dict[str, Any] = {
    "privacy_unit": [StrOptions(set(_SOLVERS) - {"short row"})],
    "entry_bounds": ["array-like", None],
    "zero_is_missing": ["boolean"],
    "max_row_entries": [Interval(Integral, 1, None, closed="left"), None],
    "degree_floor": [Interval(Integral, 1, None, closed="left")],
    "solver": [
        StrOptions({"auto", "covariance", "adaptive", "power", "alternating", "deflation", "input"})
    ],
    "clip": [Interval(Real, 0.01, None, closed="left"), None],
    "coherence_bound": [Interval(Real, 1, None, closed="left"), None],
}


def unit_of(estimator: Any) -> Unit | None:
    """Make the unit that the parameters describe; None for whole rows of any length."""
    unit = estimator.privacy_unit
    if unit == "interaction":
        return Interaction(int(estimator.degree_floor))
    if unit == "row" and estimator.max_row_entries is None:
        return None
    lower, upper = _bounds(estimator)
    # Without noise there may be no bounds, but products must not overflow.
    lower, upper = max(lower, -1 / SMALLEST_BOUND), min(upper, 1 / SMALLEST_BOUND)
    if unit == "spectral":
        return Spectral(lower, upper, bool(estimator.zero_is_missing))
    entry = (lower, upper, bool(estimator.zero_is_missing), estimator.adjacency)
    if unit == "row":
        return ShortRow(*entry, n_entries=estimator.max_row_entries)
    return Edge(*entry) if unit == "edge" else Entry(*entry)


def _bounds(estimator: Any) -> tuple[float, float]:
    """Return the bounds of an entry, infinite without noise if none are given."""
    if estimator.entry_bounds is not None:
        lower, upper = estimator.entry_bounds
        return float(lower), float(upper)
    is_bounded = estimator.privacy_unit == "spectral" and math.isfinite(estimator.epsilon)
    return _SPECTRAL_BOUNDS if is_bounded else (-math.inf, math.inf)


def settings_of(
    estimator: Any, shape: tuple[int, int], center: np.ndarray | str | None
) -> Settings:
    """Collect what says how to compute; a rank that is not given is the largest."""
    n_components = estimator.n_components
    solver = estimator.solver
    if n_components is None:
        n_components, solver = min(shape), "input"
    if solver == "auto":
        solver = choose_entry_solver(
            _unit_name(estimator),
            shape,
            n_components + _extra(estimator),
            clip=estimator.clip,
            is_pure=estimator.delta == 0 and math.isfinite(estimator.epsilon),
            is_centered=center is not None,
        )
    return Settings(
        solver=solver,
        n_components=n_components,
        n_iter=estimator.n_iter,
        n_oversamples=estimator.n_oversamples,
        clip=estimator.clip,
        coherence_bound=estimator.coherence_bound,
    )


def _extra(estimator: Any) -> int:
    return 1 if estimator.n_oversamples == "auto" else int(estimator.n_oversamples)


def count_units(estimator: Any, shape: tuple[int, int]) -> tuple[int, str]:
    """Count what is protected, and name it."""
    if estimator.privacy_unit in ("entry", "interaction"):
        return math.prod(shape), "entries"
    if estimator.privacy_unit == "edge":
        return math.comb(shape[0] + 1, 2), "pairs of nodes"
    return shape[0], "rows"


def check_entry_input(X: Any, estimator: Any) -> None:
    """Refuse data that the unit does not go with."""
    unit = estimator.privacy_unit
    if unit in SQUARE_UNITS:
        if isinstance(X, RowBlocks):
            raise ValueError(f"privacy_unit={unit!r} needs a matrix in memory, got RowBlocks.")
        if X.shape[0] != X.shape[1] or not _is_symmetric(X):
            raise ValueError(
                f"privacy_unit={unit!r} needs a symmetric matrix, got one of shape {X.shape} that "
                "is not. Of a graph with one triangle stored pass X + X.T; privacy_unit='entry' "
                "takes any matrix."
            )
    bounds = estimator.entry_bounds
    if bounds is None or estimator.zero_is_missing or unit not in _BOUNDED_UNITS:
        return
    if holds_sparse(X):
        lower, upper = bounds
        if not lower <= 0 <= upper:
            raise ValueError(
                f"X is sparse, but entry_bounds={bounds!r} exclude its zeros; pass "
                "zero_is_missing=True, bounds that include 0, or a dense X."
            )


def check_entry_parameters(estimator: Any, shape: tuple[int, int]) -> None:
    """Refuse parameters that contradict each other, the unit, or the shape of the data."""
    if estimator.max_row_entries is not None and estimator.privacy_unit != "row":
        raise ValueError(
            f"max_row_entries={estimator.max_row_entries} is for privacy_unit='row', got "
            f"privacy_unit={estimator.privacy_unit!r}."
        )
    if estimator.max_row_entries is not None and not estimator.zero_is_missing:
        raise ValueError(
            "zero_is_missing=False with max_row_entries: entries that are not kept count as 0."
        )
    name = _unit_name(estimator)
    if name == "row" and estimator.entry_bounds is not None:
        raise ValueError(
            f"entry_bounds={estimator.entry_bounds!r} with privacy_unit='row': pass another "
            "privacy_unit, such as 'entry', max_row_entries, or row_norm in place of bounds."
        )
    if name in ("entry", "edge", "short row", "spectral"):
        _check_entry_bounds(estimator)
    _check_solver(estimator, name)
    _check_center(estimator)
    _check_rank(estimator, shape)
    if estimator.coherence_bound is not None and (
        name not in ("entry", "edge") or estimator.solver == "input"
    ):
        raise ValueError(
            "coherence_bound is for the iterations of privacy_unit='entry' and 'edge', got "
            f"privacy_unit={estimator.privacy_unit!r} and solver={estimator.solver!r}."
        )


def _check_rank(estimator: Any, shape: tuple[int, int]) -> None:
    """Refuse numbers of components that the solvers for entries and the like do not find."""
    if unit_of(estimator) is None:
        return
    n_components = estimator.n_components
    whole = estimator.privacy_unit == "entry" and estimator.solver in ("auto", "input")
    if not isinstance(n_components, Integral) and not (n_components is None and whole):
        raise ValueError(
            f"n_components={n_components!r} with privacy_unit={estimator.privacy_unit!r}: pass an "
            "int, or None with solver='input' for entries."
        )
    if n_components is not None and int(n_components) > min(shape):
        raise ValueError(
            f"n_components={n_components} must be at most min(n_samples, n_features)={min(shape)}."
        )


def _check_solver(estimator: Any, unit: str) -> None:
    solver = estimator.solver
    described = f"privacy_unit={estimator.privacy_unit!r}"
    if unit == "short row":
        described += f" with max_row_entries={estimator.max_row_entries}"
    if solver not in ("auto", *_SOLVERS[unit]):
        raise ValueError(
            f"solver={solver!r} is not for {described}; choose 'auto' or one of {_SOLVERS[unit]}."
        )
    if estimator.delta > 0 or math.isinf(estimator.epsilon):
        return
    pure = _PURE_SOLVERS.get(unit, ())
    if not pure:
        raise ValueError(
            f"delta=0 asks for pure differential privacy, but {described} needs Gaussian noise; "
            "pass a positive delta."
        )
    if solver not in ("auto", *pure) or estimator.n_components is None:
        raise ValueError(
            f"delta=0 asks for pure differential privacy, but solver={solver!r} adds Gaussian "
            f"noise; pass solver={pure[0]!r} and an int for n_components, or a positive delta."
        )


def _check_center(estimator: Any) -> None:
    """Refuse centring where the matrix would not stay symmetric."""
    if estimator._entry_center() is None:
        return
    unit, solver = estimator.privacy_unit, estimator.solver
    if unit in ("interaction", "spectral"):
        raise ValueError(f"privacy_unit={unit!r} takes no center: pass center=False.")
    if unit == "edge" and solver not in ("auto", "alternating"):
        raise ValueError(
            f"center={estimator.center!r} with privacy_unit='edge' and solver={solver!r}, which "
            "needs a symmetric matrix: pass center=False or solver='alternating'."
        )


def _check_entry_bounds(estimator: Any) -> None:
    bounds, epsilon = estimator.entry_bounds, estimator.epsilon
    if bounds is None:
        if math.isinf(epsilon) or estimator.privacy_unit == "spectral":
            return
        raise ValueError(
            f"entry_bounds=None with privacy_unit={estimator.privacy_unit!r}: pass the smallest "
            "and the largest value that an entry of X can have, as public knowledge says, such "
            "as (0, 1) for clicks or (1, 5) for stars."
        )
    try:
        values = np.asarray(bounds, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.array([])
    if values.shape != (2,) or not values[0] < values[1]:
        raise ValueError(f"entry_bounds must be two ascending numbers, got {bounds!r}.")
    if math.isinf(epsilon):
        return
    if not np.abs(values).max() <= 1 / SMALLEST_BOUND or values[1] - values[0] < SMALLEST_BOUND:
        raise ValueError(
            f"entry_bounds={bounds!r} with epsilon={epsilon} must be finite, at most "
            f"{1 / SMALLEST_BOUND} in size and at least {SMALLEST_BOUND} apart."
        )


def _unit_name(estimator: Any) -> str:
    is_short = estimator.privacy_unit == "row" and estimator.max_row_entries is not None
    return "short row" if is_short else str(estimator.privacy_unit)


def _is_symmetric(X: Any) -> bool:
    """Compare each pair of entries by its own size: others must not matter."""
    with np.errstate(all="ignore"):
        difference, size = abs(X - X.T), abs(X)
        size = size.maximum(size.T) if issparse(X) else np.maximum(size, size.T)
        too_large = difference > _SYMMETRY_TOLERANCE * size
        return bool(too_large.nnz == 0 if issparse(X) else not too_large.any())
