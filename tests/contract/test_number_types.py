"""A parameter means the same in every type of number: what it rounds to in double precision."""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
from public import ESTIMATORS
from sklearn.base import clone
from sklearn.utils._param_validation import Interval

import skdp
from skdp.privacy import PrivacyBudget, sensitivity
from skdp.privacy.noise import NoiseSource
from skdp.units import Edge, Entry, FrobeniusChange, Interaction, SparseRow, SpectralChange

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
SECRET = 2**127 + 77
FLOATS = (np.float16, np.float32, np.float64, np.longdouble)
INTEGERS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)
generator = np.random.default_rng(0)
X = generator.normal(size=(60, 8)) * 10 + 5
SYMMETRIC = X[:8] + X[:8].T
MATRICES, RESPONSES = generator.normal(size=(80, 3, 2)), generator.normal(size=80)
GROUPS = np.arange(len(X)) // 3
# Of estimators that are fitted to more than rows.
DATA = {
    skdp.DPTraceRegressor: (MATRICES, RESPONSES),
    skdp.DPTraceClassifier: (MATRICES, RESPONSES > 0),
    skdp.DPLinearRegression: (X, X[:, 0]),
    skdp.DPLogisticRegression: (X, X[:, 0] > 5),
    skdp.DPPersonalizedRegressor: (X, X[:, 0], GROUPS),
}
# Parameters that are tuples.
SEQUENCES = ("privacy_unit__bounds", "bounds", "matrix_shape")
# Positive definite, of numbers that every type of float holds.
COVARIANCE = np.array([[2.001953125, 0.5], [0.5, 1.0009765625]])


@dataclass(frozen=True)
class Case:
    """A parameter, a value that every type holds, and a fit to which it matters."""

    make: type
    name: str
    value: object
    more: dict = field(default_factory=dict)
    # Whether it is one of a pair, and which one.
    place: int | None = None

    def parameter(self, value):
        """What the parameter is set to."""
        if self.place is None:
            return value
        return (value, None) if self.place == 0 else (None, value)

    def fitted(self, value):
        is_decomposition = "n_components" in self.make._parameter_constraints
        basic = {"n_components": 2} if is_decomposition else {}
        basic["random_state"] = SECRET
        # A clone: what is set of a unit must not be set of those of other cases.
        estimator = clone(self.make(**{**basic, **self.more})).set_params(**{self.name: value})
        if self.make is skdp.DPPersonalizedRegressor and estimator.user_column is not None:
            return estimator.fit(np.column_stack([X[:, :3], GROUPS, X[:, 3:]]), X[:, 0])
        is_square = isinstance(getattr(estimator, "privacy_unit", None), SQUARE)
        return estimator.fit(*DATA.get(self.make, (SYMMETRIC if is_square else X,)))

    def __str__(self):
        return f"{self.make.__name__}, {self.name}, {self.more.get('privacy_unit', '')}"


NORMS = {"row_norm": 23.0, "mean_norm": 9.0}
PUBLIC = {"row_norm": 23.0}
SQUARE = (Edge, SpectralChange)
ENTRY = {"privacy_unit": Entry((-20, 30)), "solver": "alternating"}
NOT_CENTERED = {"center": False}
ROW_CASES = [
    ("n_components", 3, NORMS),
    ("epsilon", 2.501953125, NORMS),
    ("delta", 2.0**-13, NORMS),
    ("row_norm", 23.015625, {"mean_norm": 9.0}),
    ("mean_norm", 23.015625, {"row_norm": 9.0}),
    ("n_iter", 3, {**NORMS, "solver": "power"}),
    ("n_oversamples", 2, {**NORMS, "solver": "power"}),
    ("privacy_unit__max_entries", 3, {"privacy_unit": SparseRow(2, (-20, 30))}),
    ("privacy_unit__bounds", [-20.015625, 30.015625], {"privacy_unit": SparseRow(2, (0, 1))}),
    ("privacy_unit__bounds", [-20.015625, 30.015625], {"privacy_unit": Entry((0, 1))}),
    ("privacy_unit__bounds", [-20.015625, 30.015625], {"privacy_unit": Edge((0, 1))}),
    ("privacy_unit__degree_floor", 2, {"privacy_unit": Interaction(), **NOT_CENTERED}),
    ("privacy_unit__largest", 9.0078125, {"privacy_unit": SpectralChange(), **NOT_CENTERED}),
    ("coherence_bound", 7.0078125, ENTRY),
    ("n_jobs", 1, NORMS),
    ("random_state", 77, NORMS),
]
COMMON_CASES = [
    ("epsilon", 2.501953125, {}),
    ("delta", 2.0**-13, {}),
    ("n_jobs", 1, {}),
    ("random_state", 77, {}),
]
TRACE_CASES = [
    *COMMON_CASES,
    ("rank", 2, {}),
    ("matrix_shape", [3, 2], {}),
    ("response_bound", 3.001953125, {}),
    ("n_iter", 3, {}),
    ("clip_quantile", 0.300048828125, {}),
    ("covariance", np.diag([1.0, 2.001953125, 3.0]), {}, 0),
    ("covariance", COVARIANCE, {}, 1),
]

LINEAR_CASES = [
    *COMMON_CASES,
    ("bounds", [-3.001953125, 20.0], {}),
    ("response_bound", 3.001953125, {}),
    ("n_iter", 3, {}),
]

LOGISTIC_CASES = [*COMMON_CASES, ("row_norm", 23.015625, {})]

TRACE_CLASS_CASES = [("rank", 2, {}), ("matrix_shape", [3, 2], {}), *LOGISTIC_CASES]

PROMISED = {"privacy_unit": FrobeniusChange(2.0), "solver": "alternating"}
FACTOR_CASES = [
    *COMMON_CASES,
    ("n_components", 3, {}),
    ("row_norm", 23.015625, {}),
    ("n_iter", 3, PROMISED),
    ("n_oversamples", 2, PROMISED),
    ("max_memory", 0, {"privacy_unit": FrobeniusChange(2.0)}),
    ("privacy_unit__sensitivity", 2.501953125, PROMISED),
    ("privacy_unit__largest", 9.0078125, PROMISED),
]

PERSONAL_CASES = [
    *COMMON_CASES,
    ("n_components", 3, {}),
    ("user_column", 3, {}),
    ("n_iter", 3, {}),
    ("max_rows_per_user", 2, {}),
]

SCALER_CASES = [*COMMON_CASES, ("bounds", [-20.015625, 30.015625], {}), ("clip", 2.501953125, {})]


def without_center(make, more):
    return {name: value for name, value in more.items() if make is skdp.DPPCA or name != "center"}


CASES = [
    *(
        Case(make, n, v, without_center(make, m))
        for make in (skdp.DPPCA, skdp.DPTruncatedSVD)
        for n, v, m in ROW_CASES
    ),
    Case(skdp.DPPCA, "n_components", 0.5, NORMS),
    Case(
        skdp.DPPCA, "center", np.linspace(0, 7.0078125, 8).astype(np.float16).astype(float), PUBLIC
    ),
    *(Case(skdp.DPTraceRegressor, *case) for case in TRACE_CASES),
    *(Case(skdp.DPLinearRegression, *case) for case in LINEAR_CASES),
    *(Case(skdp.DPLogisticRegression, *case) for case in LOGISTIC_CASES),
    *(Case(skdp.DPTraceClassifier, *case) for case in TRACE_CLASS_CASES),
    *(Case(skdp.DPLowRankFactorizer, *case) for case in FACTOR_CASES),
    *(Case(skdp.DPPersonalizedRegressor, *case) for case in PERSONAL_CASES),
    *(Case(skdp.DPStandardScaler, *case) for case in SCALER_CASES),
    *(Case(skdp.DPCovariance, *case) for case in SCALER_CASES if case[0] != "clip"),
]


def types_of(value):
    return INTEGERS if np.asarray(value).dtype.kind == "i" else FLOATS


def variants(name, value):
    """The value in every type of number, and of array or sequence of them."""
    for kind in types_of(value):
        typed = np.asarray(value).astype(kind)
        assert np.array_equal(typed.astype(float), value)
        if typed.ndim == 0:
            yield typed[()]
        else:
            yield typed if name not in SEQUENCES else tuple(typed)


UNITS = (Entry, Edge, SparseRow, Interaction, SpectralChange)


@pytest.mark.parametrize(
    ("make", "unit"),
    [
        *((make, unit) for make in (skdp.DPPCA, skdp.DPTruncatedSVD) for unit in UNITS),
        (skdp.DPLowRankFactorizer, FrobeniusChange),
    ],
)
def test_every_number_of_a_unit_is_tried(make, unit):
    numeric = set(unit._get_param_names()) - {"zero_is_missing"}
    tried = {
        case.name
        for case in CASES
        if case.make is make and type(case.more.get("privacy_unit")) is unit
    }
    assert {f"privacy_unit__{name}" for name in numeric} <= tried


def accepts_numbers(constraints):
    return any(isinstance(each, Interval) or each in ("array-like", tuple) for each in constraints)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_every_parameter_that_takes_numbers_is_tried(make):
    numeric = {
        name
        for name, constraints in make._parameter_constraints.items()
        if accepts_numbers(constraints)
    }
    assert numeric - {"n_jobs"} <= {case.name for case in CASES if case.make is make}


@pytest.mark.covered(at_most=4)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_parameter_means_the_same_in_every_type(case):
    value = tuple(case.value) if case.name in SEQUENCES else case.value
    expected = case.fitted(case.parameter(value))
    for variant in variants(case.name, case.value):
        value = case.parameter(variant)
        fitted = case.fitted(value)
        # Not only equal: the object itself, as scikit-learn's clone demands.
        assert fitted.get_params()[case.name] is value
        assert fitted.privacy_spent_ == expected.privacy_spent_
        for release in fitted.privacy_spent_.releases:
            assert type(release.noise_std) is type(release.sensitivity) is float
        for name, result in vars(expected).items():
            if name.endswith("_") and name != "privacy_spent_":
                np.testing.assert_array_equal(getattr(fitted, name), result, err_msg=name)


def test_a_number_beyond_all_floats_leaves_parameters_as_they_were():
    epsilon = np.float16(2.5)
    estimator = skdp.DPPCA(2, epsilon=epsilon, row_norm=Fraction(10**400, 3), mean_norm=1.0)
    with pytest.raises(OverflowError):
        estimator.fit(X)
    assert estimator.epsilon is epsilon
    assert not hasattr(estimator, "privacy_spent_")


def test_bounds_that_a_small_type_rounds_to_zero_are_refused():
    with pytest.raises(ValueError, match="row_norm"):
        skdp.DPPCA(2, row_norm=np.float16(1e-20), mean_norm=1.0).fit(X)


SENSITIVITIES = [
    (sensitivity.row_sum, (23.015625, "replace")),
    (sensitivity.second_moment, (23.015625, "zero_out")),
    (sensitivity.class_moment, (23.015625, 3.5, 7.25, 3, "replace")),
    (sensitivity.clipped_projection, (23.015625, 11.0078125, "replace")),
    (sensitivity.entry_mean, (3.001953125, 77)),
    (sensitivity.short_row_product, (3.001953125, 1.5, 100, "replace", np.ones(200))),
]


@pytest.mark.parametrize(("function", "arguments"), SENSITIVITIES)
def test_sensitivities_are_in_double_precision(function, arguments):
    expected = function(*arguments)
    for small, whole in ((np.float16, np.int8), (np.float32, np.int16), (np.longdouble, np.uint8)):
        types = {float: small, int: whole}
        typed = [types.get(type(value), lambda same: same)(value) for value in arguments]
        assert function(*typed) == expected


@pytest.mark.parametrize("kind", FLOATS)
def test_plans_are_in_double_precision(kind):
    given = {"epsilon": 2.501953125, "row_norm": 23.015625, "mean_norm": 9.0078125}
    estimator = skdp.DPPCA(2, **{name: kind(value) for name, value in given.items()})
    assert estimator.plan(1000, 8) == skdp.DPPCA(2, **given).plan(1000, 8)
    assert type(estimator.epsilon) is kind


@pytest.mark.parametrize("kind", FLOATS)
def test_a_budget_is_in_double_precision(kind):
    def released(number):
        budget = PrivacyBudget(
            number(2.501953125),
            number(2.0**-13),
            unit="row",
            adjacency="replace",
            noise_source=NoiseSource(SECRET),
            delta_tail=number(2.0**-15),
        )
        values = np.arange(50.0)
        grid = np.arange(1, 33).astype(number)
        share = number(0.125)
        found = [
            *budget.gaussian("sum", values, sensitivity=number(3.001953125), share=share),
            *budget.laplace("rows", values, sensitivity=number(3.001953125), share=share),
            *budget.histogram("bins", values, edges=grid, share=share),
            budget.quantile(
                budget.cost.search("level", share, grid), values, q=number(0.300048828125)
            ),
        ]
        return np.concatenate([np.ravel(each) for each in found]), budget.spent()

    numbers, spent = released(kind)
    expected, expected_record = released(float)
    np.testing.assert_array_equal(numbers, expected)
    assert spent == expected_record


@pytest.mark.parametrize("kind", FLOATS)
def test_a_share_of_the_variance_keeps_no_axis_of_noise_in_any_type(kind):
    # Nearly all of the variance is out of reach of all but axes of noise.
    rows = np.random.default_rng(0).normal(size=(3000, 12)) * np.r_[20.0, np.ones(11)]
    pca = skdp.DPPCA(kind(0.984375), mean_norm=20.0, row_norm=20.0, random_state=2**100)
    with pytest.warns(skdp.PrivacyWarning, match="stand out from the noise"):
        # Of 60 seeds 3 at most; the released spectrum asks for all 12.
        assert pca.fit(rows).n_components_ < 6
