"""What the trace regression publishes and spends, and what it does with degenerate data."""

import dataclasses

import numpy as np
import pytest
from covers import each
from trace_cells import CELLS, Cell

from skdp import DPTraceRegressor, RankOneMatrices
from skdp.testing._recording import SEED, noise_of

ignore_warnings = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")


@pytest.mark.covered(at_most=3)
@ignore_warnings
@each(CELLS, unit="response", response_bound=None, init="random", adjacency="replace")
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_public_matrices_of_any_kind_raise_nothing(cell, fit_intercept):
    data = cell.data()
    for change in (0.0, 5e-324, 1e-310, 1e-200, 1e120, 1e160, 1e200, 1e308):
        for records in (slice(None), slice(1)):
            parts = tuple(part.copy() for part in data.parts)
            parts[0][records] = change
            other = dataclasses.replace(data, parts=parts)
            estimator = cell(epsilon=1.0, fit_intercept=fit_intercept, random_state=SEED)
            fitted = estimator.fit(*other.arguments)
            assert np.isfinite(fitted.coef_).all(), (change, records)
            assert np.isfinite(fitted.intercept_), (change, records)


EXTREMES = (
    {"epsilon": 1e-3, "delta": 1e-13},
    {"epsilon": 1e6},
    {"epsilon": 1e-3, "delta": 1e-13, "response_bound": 1e100},
    {"response_bound": 1e-100},
    {"response_bound": 1e100},
    {"clip_quantile": 0.01},
    {"clip_quantile": 0.99},
    {"covariance": (1e-300 * np.eye(3), None)},
    {"covariance": (1e300 * np.eye(3), 1e-300 * np.eye(4))},
)


@pytest.mark.covered(at_most=4)
@ignore_warnings
@pytest.mark.parametrize("parameters", EXTREMES, ids=str)
def test_extreme_parameters_raise_nothing(parameters):
    for layout in ("matrices", "outer"):
        cell = Cell(layout, init="spectral")
        data = cell.data()
        for scale in (0.0, 1.0, 1e300):
            more = {"epsilon": 1.0, "random_state": SEED, **parameters}
            fitted = cell(**more).fit(data.arguments[0], scale * data.responses)
            assert np.isfinite(fitted.coef_).all()
            assert np.isfinite(fitted.intercept_)


def seeded_noise(estimator, *arguments):
    return noise_of(estimator.set_params(random_state=SEED), *arguments)


def shared(first, second):
    """Whether anything drawn for one fit was drawn for the other one too."""
    return bool(np.isin(first, second).any())


@ignore_warnings
@pytest.mark.parametrize("layout", ["matrices", "outer", "one-hot", "tasks", "sparse vectors"])
def test_neighbors_share_no_noise(layout):
    cell = Cell(layout)
    data = cell.data()
    original = seeded_noise(cell(), *data.arguments)
    ours = [part[0] for part in data.parts]
    n_parts = 1 if layout == "sparse vectors" else len(ours)
    for index in range(n_parts):
        parts = [part.copy() for part in ours]
        parts[index].flat[0] += 0.5
        changed = data.with_record(0, parts, data.responses[0])
        assert not shared(original, seeded_noise(cell(), *changed.arguments))
    changed = data.with_record(0, ours, np.nextafter(data.responses[0], 9.0))
    assert not shared(original, seeded_noise(cell(), *changed.arguments))


@ignore_warnings
def test_exchanging_the_sides_of_outer_products_changes_the_noise():
    cell = Cell("outer")
    left = cell.data().parts[0]
    responses = cell.data().responses
    other = np.random.default_rng(1).normal(size=left.shape)
    first = seeded_noise(DPTraceRegressor(), RankOneMatrices(left, other), responses)
    second = seeded_noise(DPTraceRegressor(), RankOneMatrices(other, left), responses)
    assert not shared(first, second)
