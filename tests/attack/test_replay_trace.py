"""What the trace regression publishes and spends, and what it does with degenerate data."""

import dataclasses
import math
import warnings

import numpy as np
import pytest
from harness import SEED, RecordingBudget, ReplayBudget, fit_with, null_record
from noise_records import noise_of
from scipy import sparse
from scipy.stats import norm
from trace_cells import Cell, Data, each
from trace_neighbours import place

from skdp import DPTraceRegressor, PrivacyWarning, RankOneMatrices
from skdp.privacy import PrivacyBudget, sensitivity
from skdp.privacy.gaussian_dp import mu_from_epsilon_delta
from skdp.privacy.lattice import lattice_step

ignore_warnings = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")


def warnings_of(fit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = fit()
    return result, [str(warning.message) for warning in caught]


def others(cell, data):
    """Records without anything in common, but for public matrices."""
    zeros, reversed_ = 0 * data.responses, -3 * data.responses[::-1] + 1e4
    if cell.unit == "response":
        return [dataclasses.replace(data, responses=each) for each in (zeros, reversed_)]
    parts = tuple(-3 * part[::-1] + 1e4 for part in data.parts)
    return [
        Data(data.layout, tuple(np.zeros_like(part) for part in data.parts), zeros),
        Data(data.layout, parts, reversed_),
    ]


def assert_same_fit(again, original):
    assert vars(again).keys() == vars(original).keys()
    for name, value in vars(original).items():
        if name.endswith("_") and name != "privacy_spent_":
            np.testing.assert_array_equal(getattr(again, name), value, err_msg=name)
    for name in ("coef_", "coef_matrix_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(original, name))
    assert (again._shape, again._coef_shape) == (original._shape, original._coef_shape)
    assert again.privacy_spent_ == original.privacy_spent_


@each()
def test_public_attributes_and_warnings_are_functions_of_the_releases_alone(cell):
    data = cell.data()
    (original, budget), told = warnings_of(
        lambda: fit_with(cell(), data.arguments, RecordingBudget)
    )
    make_budget = type("ScriptedBudget", (ReplayBudget,), {"script": budget.released})
    for other in others(cell, data):
        arguments = other.arguments
        (again, _), told_again = warnings_of(lambda: fit_with(cell(), arguments, make_budget))  # noqa: B023
        assert told_again == told
        assert_same_fit(again, original)
    if cell.adjacency == "zero_out":
        with null_record(place(cell, data)):
            (again, _), _ = warnings_of(lambda: fit_with(cell(), data.arguments, make_budget))
        assert_same_fit(again, original)


@ignore_warnings
@each()
def test_the_whole_budget_is_spent_and_no_more(cell):
    spent = cell(epsilon=0.8, random_state=SEED).fit(*cell.data().arguments).privacy_spent_
    # A start whose test fails saves nothing: a share on what it did not do would tell of the data.
    assert math.fsum(release.share for release in spent.releases) == pytest.approx(1, abs=1e-12)
    assert {release.mechanism for release in spent.releases} <= {"gaussian", "symmetric_gaussian"}
    assert spent.epsilon_at(1e-6) <= 0.8 * (1 + 1e-6)
    assert spent.epsilon_at(1e-6) == pytest.approx(0.8, rel=1e-6)
    assert (spent.unit, spent.adjacency, spent.enforced) == (cell.unit, cell.adjacency, True)
    # Only what a failed test leaves out has no name of its own.
    names = [release.name for release in spent.releases if release.name != "not used"]
    assert len(set(names)) == len(names)


@ignore_warnings
@each(init="random", adjacency="replace")
def test_nothing_but_released_values_and_public_facts_is_kept(cell):
    data = cell.data(n_records=50)
    fitted = cell(random_state=SEED).fit(*data.arguments)
    released = {"left_components_", "singular_values_", "right_components_", "intercept_"}
    public = {"n_features_in_", "privacy_spent_", "_shape", "_coef_shape"}
    assert vars(fitted).keys() == fitted.get_params().keys() | released | public
    # Nothing has a number for each record.
    sizes = {np.size(getattr(fitted, name)) for name in released | public}
    assert max(sizes) < 50 or max(sizes) == np.prod(cell.shape)
    assert fitted.get_params()["random_state"] == SEED
    assert fitted.__getstate__()["random_state"] is None


@ignore_warnings
@each(has_gap=True)
def test_a_test_that_is_passed_by_mistake_is_paid_from_delta(cell):
    fitted, _ = fit_with(cell(), cell.data().arguments, RecordingBudget)
    spent = fitted.privacy_spent_
    names = [release.name for release in spent.releases]
    assert "start, subspaces" in names
    assert spent.delta_tail == pytest.approx(1e-7)
    # mu is that of the rest of delta, for the whole fit.
    assert spent.mu == pytest.approx(mu_from_epsilon_delta(200.0, 1e-6, 1e-7), rel=1e-9)
    assert spent.mu < 0.9999 * mu_from_epsilon_delta(200.0, 1e-6)
    assert spent.delta_at(200.0) == pytest.approx(1e-6, rel=1e-6)
    assert spent.delta_at(1e3) == pytest.approx(1e-7)
    assert spent.epsilon_at(0.9e-7) == math.inf


@ignore_warnings
@pytest.mark.parametrize("solver", ["rgrad", "adassp"])
@pytest.mark.parametrize("init", ["random", "power", "gaussian", "spectral"])
def test_only_a_test_takes_a_part_of_delta(solver, init):
    cell = Cell("matrices", solver, init)
    spent = cell(epsilon=1.0, random_state=SEED).fit(*cell.data().arguments).privacy_spent_
    takes = init == "spectral" and solver != "adassp"
    assert spent.delta_tail == (pytest.approx(1e-7) if takes else 0)


@ignore_warnings
@pytest.mark.parametrize("epsilon", [10.0, 40.0, 80.0, 120.0, 200.0])
@each(has_gap=True)
def test_a_start_is_released_where_the_gap_is_certain(cell, epsilon):
    _, budget = fit_with(cell(epsilon=epsilon), cell.data().arguments, RecordingBudget)
    releases = {release.name: release for release in budget.spent().releases}
    gap = releases["start, gap"]
    noisy = float(budget.released[list(releases).index("start, gap")])
    # Larger than the gap with the probability that a tenth of delta pays for; rounding is at most
    # half of a 16th of the scale.
    certain = noisy + gap.noise_scale * norm.ppf(0.1 * 1e-6) - lattice_step(gap.noise_scale)
    change = gap.sensitivity / 2
    assert ("start, subspaces" in releases) == (certain > 2 * change)
    if certain > 2 * change:
        declared = sensitivity.subspace_pair(change, certain, cell.rank)
        assert releases["start, subspaces"].sensitivity == pytest.approx(declared, rel=1e-12)


def degenerate_data(cell):
    """Data that numerical methods do not like, all finite."""
    data = cell.data()
    generator = np.random.default_rng(3)
    n_records = len(data.responses)

    def of(change, responses):
        parts = data.parts if cell.unit == "response" else tuple(map(change, data.parts))
        return dataclasses.replace(
            data, parts=parts, responses=np.broadcast_to(responses, n_records)
        )

    def mixed(shape):
        return generator.choice([-1, 1], shape) * 10.0 ** generator.uniform(-300, 300, shape)

    largest = np.finfo(float).max
    signs = (-1.0) ** np.arange(n_records)
    single = dataclasses.replace(
        data, parts=tuple(part[:1] for part in data.parts), responses=data.responses[:1]
    )
    return {
        "zeros": of(np.zeros_like, 0.0),
        "huge": of(lambda part: np.full_like(part, 1e300), 1e300),
        "largest": of(lambda part: largest * np.sign(part), largest * signs),
        "denormal": of(lambda part: np.full_like(part, 5e-324), 5e-324),
        "mixed scales": of(lambda part: mixed(part.shape), mixed(n_records)),
        "constant": of(np.ones_like, 1.0),
        "far from the origin": of(lambda part: part + 1e8, data.responses + 1e12),
        "one record": single,
    }


@each()
def test_degenerate_data_raise_nothing_and_warn_of_nothing(cell):
    for name, data in degenerate_data(cell).items():
        arguments = data.arguments
        with warnings.catch_warnings(), np.errstate(all="raise"):
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", PrivacyWarning)
            fitted = cell(epsilon=1.0, random_state=SEED).fit(*arguments)
        for attribute in ("coef_", "intercept_", "singular_values_"):
            assert np.isfinite(getattr(fitted, attribute)).all(), (name, attribute)
        shares = [release.share for release in fitted.privacy_spent_.releases]
        assert math.fsum(shares) <= 1 + 1e-12


@ignore_warnings
@each(unit="response", response_bound=None, init="random", adjacency="replace")
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
    {"response_bound": 1e-100, "coef_bound": 1e-100},
    {"response_bound": 1e100, "coef_bound": 1e100},
    {"clip_quantile": 0.01, "step_size": 1e-300},
    {"clip_quantile": 0.99, "step_size": 1.99},
    {"covariance": (1e-300 * np.eye(3), None)},
    {"covariance": (1e300 * np.eye(3), 1e-300 * np.eye(4))},
)


FITS = [
    *((solver, each) for solver in ("rgrad", "iht", "gd", "adassp") for each in EXTREMES),
    ("adassp", {"row_norm": 1e-100, "response_bound": 1e-100}),
    ("adassp", {"row_norm": 1e100, "response_bound": 1e100}),
]


@ignore_warnings
@pytest.mark.parametrize(("solver", "parameters"), FITS, ids=str)
def test_extreme_parameters_raise_nothing(solver, parameters):
    for layout in ("matrices", "outer"):
        cell = Cell(layout, solver, init="power")
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
def test_the_same_fit_has_the_same_noise():
    cell = Cell("matrices")
    arguments = cell.data().arguments
    first, second = (seeded_noise(cell(), *arguments) for _ in range(2))
    assert shared(first[:1], second[:1])
    np.testing.assert_array_equal(first, second)


@ignore_warnings
@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 2.0},
        {"delta": 1e-7},
        {"n_iter": 3},
        {"adjacency": "zero_out"},
        {"covariance": (((1.0, 0, 0), (0, 1, 0), (0, 0, 1)), None)},
        {"response_bound": 3.0},
        {"coef_bound": 1e6},
        {"noise_cut": False},
        {"init": "power"},
        {"step_size": 0.25},
        {"solver": "gd"},
    ],
    ids=lambda change: ", ".join(change),
)
def test_fits_with_other_parameters_share_no_noise(change):
    # As in a search over parameters with one seed: two noises of the same draws solve for the data.
    cell = Cell("matrices")
    arguments = cell.data().arguments
    ours = seeded_noise(cell(epsilon=1.0), *arguments)
    assert not shared(ours, seeded_noise(cell(**{"epsilon": 1.0, **change}), *arguments))


@ignore_warnings
@pytest.mark.parametrize("layout", ["matrices", "outer", "one-hot", "tasks", "sparse vectors"])
def test_neighbours_share_no_noise(layout):
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


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("layout", ["matrices", "outer", "one-hot", "sparse vectors"])
def test_what_is_refused_names_no_value_and_spends_nothing(layout, value, monkeypatch):
    cell = Cell(layout)
    data = cell.data()
    parts = tuple(part.copy() for part in data.parts)
    parts[0][3, 0] = value
    bad_responses = data.responses.copy()
    bad_responses[3] = value
    X, y = data.arguments
    estimator = cell()
    monkeypatch.setattr(PrivacyBudget, "of", lambda *_: pytest.fail("a budget was opened"))
    bad = bad_container(layout, parts)
    for arguments in ((bad, y), (X, bad_responses)):
        with pytest.raises(ValueError, match=r"NaN|infinity") as refusal:
            estimator.fit(*arguments)
        assert str(data.responses[3]) not in str(refusal.value)
        assert refusal.value.__cause__ is None
        assert refusal.value.__context__ is None


@pytest.mark.parametrize("kind", ["complex numbers", "texts", "texts in X", "lists of lists"])
def test_what_is_no_number_is_refused_without_naming_it(kind):
    secret = "77.125"
    cell = Cell("matrices")
    X, y = cell.data().arguments
    X = X.astype(object if "X" in kind else float)
    if kind == "complex numbers":
        y = y + 1j
        y[3] = float(secret)
    elif kind == "texts":
        y = [*map(str, y[1:]), f"{secret}!"]
    elif kind == "texts in X":
        X[0, 0, 0] = f"{secret}!"
    else:
        X = X.tolist()
        X[0][0][0] = f"{secret}!"
    with pytest.raises(ValueError, match=r"Complex|convert") as refusal:
        cell().fit(X, y)
    chain = [refusal.value, refusal.value.__cause__, refusal.value.__context__]
    assert not any("77.1" in str(error) or "7.71" in str(error) for error in chain)


def bad_container(layout, parts):
    if layout == "sparse vectors":
        return sparse.csr_array(parts[0])
    return dataclasses.replace(Cell(layout).data(), parts=parts).arguments[0]
