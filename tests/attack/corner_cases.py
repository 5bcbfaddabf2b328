"""Fits at the corners: any bounds, scales of data, budgets, units, solvers and containers."""

import math
import tempfile
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from skdp import DPPCA, DPTraceRegressor, DPTruncatedSVD, PrivacyWarning, RankOneMatrices, RowBlocks
from skdp.privacy import PrivacyBudget
from skdp.units import Edge, Entry, Interaction, SparseRow, SpectralChange

LARGEST = np.finfo(np.float64).max
CONTAINERS = ("dense", "float32", "csr", "csr float32", "map", "blocks", "sparse blocks")
UNITS = ("row", "row", "row", "entry", "edge", "interaction", "spectral")
SOLVERS = {
    "row": ("auto", "covariance", "power"),
    "short row": ("auto", "alternating"),
    "entry": ("auto", "alternating", "deflation", "input"),
    "edge": ("auto", "power", "deflation", "alternating"),
    "interaction": ("auto", "power", "covariance"),
    "spectral": ("auto", "power"),
}
MATRICES = ("vectors", "sparse vectors", "3-D", "flat", "float32", "map", "rank one", "cells")


@dataclass(frozen=True)
class Corner:
    """An estimator, and what it is fitted to."""

    estimator: Any
    data: tuple[Any, ...]


def draw_corner(seed: int) -> Corner:
    """Draw a fit, the same one for each seed."""
    generator = np.random.default_rng([2**60 + 3, seed])
    # Arithmetic on extreme numbers is the test's own here.
    with np.errstate(all="ignore"):
        draw = _draw_regression if generator.random() < 0.35 else _draw_decomposition
        return draw(generator, seed)


def outcome(corner: Corner) -> str:
    """Fit, and return "fitted", "refused" beforehand, or what is wrong."""
    budgets: list[PrivacyBudget] = []
    estimator, open_own = corner.estimator, corner.estimator._open

    def _open(*arguments):
        opened, budget = open_own(*arguments)
        budgets.append(budget)
        return opened, budget

    estimator._open = _open
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", PrivacyWarning)
        try:
            estimator.fit(*corner.data)
        except Exception as error:
            n_releases = sum(len(budget.spent().releases) for budget in budgets)
            if n_releases == 0 and isinstance(error, ValueError):
                return "refused"
            return f"after {n_releases} releases {type(error).__name__}: {error}"
        return _not_finite(estimator) or "fitted"


def _not_finite(estimator: Any) -> str:
    names = [name for name in vars(estimator) if name.endswith("_") and not name.startswith("_")]
    if math.isinf(estimator.epsilon) and getattr(estimator, "row_norm_", 0.0) == math.inf:
        # Says that nothing was clipped.
        names.remove("row_norm_")
    if isinstance(estimator, DPTraceRegressor):
        names += ["coef_", "coef_matrix_"]
    bad = [
        name
        for name in names
        if not isinstance(getattr(estimator, name), str | bool | type(None))
        and name not in ("privacy_spent_", "feature_names_in_")
        and not np.isfinite(getattr(estimator, name)).all()
    ]
    for release in estimator.privacy_spent_.releases:
        if not (math.isfinite(release.noise_std) and math.isfinite(release.share)):
            bad.append(release.name)
    if math.isfinite(estimator.epsilon):
        bad += [] if math.isfinite(estimator.privacy_spent_.mu) else ["mu"]
    return f"not finite: {bad}" if bad else ""


def _scale(generator: np.random.Generator) -> float:
    """Draw a bound: mostly anything, at times an end or 1."""
    if generator.random() < 0.25:
        return float(generator.choice([1e-100, 1e100, 1.0]))
    return float(10.0 ** generator.uniform(-100, 100))


def _maybe(generator: np.random.Generator, value: Any, probability: float = 0.5) -> Any:
    return value if generator.random() < probability else None


def _budget_parameters(generator: np.random.Generator, seed: int) -> dict[str, Any]:
    kind = generator.random()
    # Smaller ones may not pay for the rounding of a later release, which is refused then.
    epsilon = float(10.0 ** generator.uniform(-2, 3))
    if kind < 0.05:
        epsilon = math.inf
    elif kind < 0.15:
        epsilon = float(10.0 ** generator.uniform(3, 12))
    return {
        "epsilon": epsilon,
        "delta": float(generator.choice([1e-6, 1e-3, 1e-12])),
        "adjacency": str(generator.choice(["replace", "zero_out"])),
        "random_state": 2**100 + seed,
        "n_jobs": _maybe(generator, 2, 0.1),
    }


def _entries(generator: np.random.Generator, shape: tuple[int, ...], near: float) -> np.ndarray:
    """Draw entries of the size of a bound, of any other size, or of all sizes together."""
    values = generator.normal(size=shape)
    if generator.random() < 0.3:
        # Alike, so that the first component stands out.
        values = np.full(shape, 0.3) + values / 100
    kind = generator.integers(6)
    if kind == 0:
        values *= 10.0 ** generator.uniform(-320, 300, size=shape)
    elif kind == 1:
        values *= 10.0 ** generator.uniform(-320, 300)
    elif kind == 2:
        values = np.zeros(shape)
    else:
        values *= near * 10.0 ** generator.uniform(-3, 3)
    if generator.random() < 0.3:
        odd = generator.choice([0.0, 1e300, -LARGEST, 5e-324, -1e-310], size=shape[1:])
        values[generator.integers(len(values))] = odd
    if generator.random() < 0.3:
        values[generator.random(shape) < 0.5] = 0.0
    return np.clip(np.nan_to_num(values), -LARGEST, LARGEST)


def _contain(generator: np.random.Generator, X: np.ndarray, container: str) -> Any:
    if "float32" in container:
        X = np.clip(X, -3e38, 3e38).astype(np.float32)
    if container == "map":
        with tempfile.TemporaryFile() as file:
            mapped = np.memmap(file, dtype=X.dtype, mode="w+", shape=X.shape)
        mapped[:] = X
        return mapped
    if "blocks" in container:
        rows = sparse.csr_array(X) if container == "sparse blocks" else X
        return RowBlocks(lambda: (rows[i : i + 7] for i in range(0, X.shape[0], 7)), X.shape)
    return sparse.csr_array(X) if "csr" in container else X


def _draw_decomposition(generator: np.random.Generator, seed: int) -> Corner:
    parameters = _budget_parameters(generator, seed)
    unit = str(generator.choice(UNITS))
    n_rows, n_features = int(generator.integers(1, 40)), int(generator.integers(1, 9))
    if generator.random() < 0.2:
        n_rows = 2000
    if unit in ("edge", "spectral"):
        n_rows = n_features
    is_pca = bool(generator.random() < 0.5)
    near, solvers = _bound_units(generator, parameters, unit)
    parameters["solver"] = str(generator.choice(solvers))
    parameters["n_components"] = int(generator.integers(1, min(n_rows, n_features) + 1))
    parameters["n_iter"] = _maybe(generator, int(generator.integers(1, 6))) or "auto"
    n_oversamples = int(generator.integers(0, 4))
    parameters["n_oversamples"] = "auto" if generator.random() < 0.5 else n_oversamples
    if unit in ("entry", "edge", "spectral") and generator.random() < 0.25:
        parameters["delta"], parameters["epsilon"] = 0.0, max(parameters["epsilon"], 3.0)
        parameters["solver"] = "auto"
    if unit in ("entry", "edge") and parameters["solver"] != "input" and generator.random() < 0.2:
        parameters["coherence_bound"] = float(10.0 ** generator.uniform(0, 3))
    X = _entries(generator, (n_rows, n_features), near)
    if unit in ("edge", "spectral"):
        X = np.triu(X) + np.triu(X, 1).T
    if is_pca:
        _draw_pca(generator, parameters, unit, X)
    if not isinstance(parameters.get("center", "private"), str):
        # Refused: nothing would be fitted then.
        parameters.pop("mean_norm", None)
    make = DPPCA if is_pca else DPTruncatedSVD
    # A matrix that has to be symmetric must be in memory.
    containers = CONTAINERS[:-2] if unit in ("edge", "spectral") else CONTAINERS
    data = _contain(generator, X, str(generator.choice(containers)))
    return Corner(make(**parameters), (data,))


def _bound_units(
    generator: np.random.Generator, parameters: dict[str, Any], unit: str
) -> tuple[float, tuple[str, ...]]:
    """Draw bounds; return the size of entries that they are made for, and the solvers."""
    if unit == "interaction":
        parameters["privacy_unit"] = Interaction(int(generator.integers(1, 5)))
        return 1.0, SOLVERS[unit]
    near = _scale(generator)
    if unit == "row" and generator.random() < 0.8:
        parameters["privacy_unit"] = "row"
        parameters["row_norm"] = _maybe(generator, near, 0.8)
        parameters["mean_norm"] = _maybe(generator, _scale(generator), 0.8)
        return near, SOLVERS[unit]
    lower = generator.choice([0.0, -near, -_scale(generator), _scale(generator)])
    lower, upper = sorted((float(lower), near))
    bounds = (lower, upper) if lower < upper else (-upper, upper)
    zero_is_missing = bool(generator.random() < 0.7)
    if unit == "row":
        parameters["privacy_unit"] = SparseRow(int(generator.integers(1, 5)), bounds)
        return near, SOLVERS["short row"]
    if unit == "spectral":
        parameters["privacy_unit"] = SpectralChange(max(map(abs, bounds)))
    else:
        parameters["privacy_unit"] = (Edge if unit == "edge" else Entry)(
            bounds, zero_is_missing=zero_is_missing
        )
    return near, SOLVERS[unit]


def _draw_pca(
    generator: np.random.Generator, parameters: dict[str, Any], unit: str, X: np.ndarray
) -> None:
    parameters["whiten"] = bool(generator.random() < 0.5)
    parameters["center"] = "private"
    kind = generator.random()
    symmetric = unit in ("interaction", "spectral") or (
        unit == "edge" and parameters["solver"] not in ("auto", "alternating")
    )
    if symmetric or kind < 0.3:
        parameters["center"] = False
    elif kind < 0.5:
        parameters["center"] = np.clip(
            generator.normal(size=X.shape[1]) * _scale(generator), -1e100, 1e100
        )
    whole = parameters["privacy_unit"] == "row"
    if whole and parameters["solver"] in ("auto", "covariance"):
        choices = (parameters["n_components"], 0.9, "mle", None)
        parameters["n_components"] = choices[generator.integers(4)]


def _draw_regression(generator: np.random.Generator, seed: int) -> Corner:
    parameters = _budget_parameters(generator, seed)
    n, d1, d2 = (int(generator.integers(1, top)) for top in (60, 6, 6))
    if generator.random() < 0.2:
        n = 2000
    layout = str(generator.choice(MATRICES))
    if layout in ("vectors", "sparse vectors", "map", "float32"):
        d2 = 1
    near, size = _scale(generator), _scale(generator)
    parameters |= {
        "privacy_unit": str(generator.choice(["record", "response"])),
        "rank": int(generator.integers(1, min(d1, d2) + 1)),
        "response_bound": _maybe(generator, near),
        "covariance": "identity" if generator.random() < 0.2 else "private",
        "fit_intercept": bool(generator.random() < 0.6),
        "init": str(generator.choice(["random", "spectral"])),
        "n_iter": int(generator.integers(1, 6)),
        "clip_quantile": _maybe(generator, float(generator.uniform(0.01, 0.99))) or "auto",
    }
    if generator.random() >= 0.8:
        parameters["covariance"] = "identity"
    covariances: list[np.ndarray | None] = [None, None]
    for side, order in enumerate((d1, d2)):
        if generator.random() < 0.15:
            half = generator.normal(size=(order, order))
            covariances[side] = (half @ half.T + np.eye(order)) * _scale(generator)
    if any(covariance is not None for covariance in covariances):
        parameters["covariance"] = tuple(covariances)
    if layout == "flat":
        parameters["matrix_shape"] = (d1, d2)
    X = _matrices(generator, layout, (n, d1, d2), size)
    return Corner(DPTraceRegressor(**parameters), (X, _entries(generator, (n,), near)))


def _matrices(
    generator: np.random.Generator, layout: str, shape: tuple[int, int, int], size: float
) -> Any:
    n, d1, d2 = shape
    if layout == "cells":
        cells = generator.integers(0, [d1, d2], size=(n, 2)).T
        dtype = generator.choice([np.float32, np.float64])
        return RankOneMatrices.from_indices(*cells, shape=(d1, d2), dtype=dtype)
    if layout == "rank one":
        parts = [_entries(generator, (n, d), s) for d, s in ((d1, size), (d2, _scale(generator)))]
        kinds = generator.choice(["dense", "csr", "float32"], size=2)
        return RankOneMatrices(
            *(_contain(generator, p, k) for p, k in zip(parts, kinds, strict=True))
        )
    if layout == "3-D":
        return _entries(generator, (n, d1 * d2), size).reshape(n, d1, d2)
    X = _entries(generator, (n, d1 * d2), size)
    container = {"sparse vectors": "csr", "float32": "float32", "map": "map"}.get(layout, "dense")
    if layout == "flat":
        container = str(generator.choice(["dense", "csr", "float32", "csr float32"]))
    return _contain(generator, X, container)
