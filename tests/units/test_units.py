"""Units of privacy that are objects: values with parameters, like scikit-learn's kernels."""

import pickle
import re
from functools import partial

import numpy as np
import pytest
from refusals import refusal_of
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skdp.units
from skdp import DPPCA, DPTraceRegressor, DPTruncatedSVD
from skdp.testing._recording import noise_of
from skdp.units import Edge, Entry, FrobeniusChange, Interaction, SparseRow, SpectralChange, Update

SECRET = 0xD1CE << 100
generator = np.random.default_rng(0)
# Two groups of rows that use different columns.
GROUPS = np.repeat([0, 1], 40)
TABLE = np.clip(np.where(GROUPS[:, None] == np.arange(30) % 2, 0.8, 0.2), 0, 1)
TABLE = np.clip(TABLE + 0.1 * generator.normal(size=TABLE.shape), 0, 1)
GRAPH = (TABLE @ TABLE.T > 6).astype(float)

# How a unit is written, which is how it prints.
PRINTED = {
    "Entry(bounds=(1, 5))": Entry((1, 5)),
    "Entry(bounds=(1, 5), zero_is_missing=False)": Entry((1, 5), zero_is_missing=False),
    "Edge(bounds=(0, 1))": Edge((0, 1)),
    "Edge(bounds=(0, 1), zero_is_missing=False)": Edge((0, 1), zero_is_missing=False),
    "SparseRow(bounds=(0, 1), max_entries=20)": SparseRow(20, (0, 1)),
    "Interaction()": Interaction(),
    "Interaction(degree_floor=5)": Interaction(5),
    "SpectralChange()": SpectralChange(),
    "SpectralChange(largest=10.0)": SpectralChange(10.0),
    "FrobeniusChange(sensitivity=0.5)": FrobeniusChange(0.5),
    "FrobeniusChange(largest=10.0, sensitivity=0.5)": FrobeniusChange(0.5, 10.0),
    "Update(bound=2.0)": Update(2.0),
}
RECORDED = {
    Entry: "entry",
    Edge: "edge",
    SparseRow: "row",
    Interaction: "interaction",
    SpectralChange: "spectral",
    FrobeniusChange: "frobenius",
    Update: "update",
}

every_unit = pytest.mark.parametrize("unit", PRINTED.values(), ids=PRINTED)
# Those of decompositions.
FITTED = {
    name: one for name, one in PRINTED.items() if not isinstance(one, FrobeniusChange | Update)
}
every_fitted_unit = pytest.mark.parametrize("unit", FITTED.values(), ids=FITTED)
every_estimator = pytest.mark.parametrize("make", [DPPCA, DPTruncatedSVD])
pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")


def data_of(unit):
    return GRAPH if isinstance(unit, Edge | SpectralChange) else TABLE


def estimator_of(make, unit, **more):
    center = {"center": False} if make is DPPCA else {}
    return make(**{"n_components": 2, "privacy_unit": unit, **center, **more})


# Values


def test_all_units_are_tried():
    assert {unit.__name__ for unit in RECORDED} == set(skdp.units.__all__)
    assert {type(unit) for unit in PRINTED.values()} == set(RECORDED)


@every_unit
def test_a_clone_is_equal_and_another_object(unit):
    copy = clone(unit)
    assert copy is not unit
    assert type(copy) is type(unit)
    assert copy == unit
    assert clone(estimator_of(DPTruncatedSVD, unit)).privacy_unit == unit


@pytest.mark.parametrize("make", [Entry, Edge, partial(SparseRow, 3)])
def test_bounds_are_equal_by_value_in_any_sequence_and_number(make):
    spelled = [
        (0, 1),
        [0, 1],
        (0.0, 1.0),
        np.array([0, 1]),
        np.array([0.0, 1.0], dtype=np.float32),
        (np.float16(0), np.int8(1)),
        range(2),
    ]
    for one in spelled:
        for other in spelled:
            assert make(one) == make(other)
        assert make(one) != make((0, 1.5))
        assert make(one) != make((-1, 1))


def test_nothing_else_is_equal():
    units = [
        *PRINTED.values(),
        Entry((0, 1)),
        Entry((0, 1), zero_is_missing=False),
        SparseRow(21, (0, 1)),
    ]
    for index, one in enumerate(units):
        assert one == clone(one)
        for other in units[index + 1 :]:
            # Not even an edge and an entry of the same bounds.
            assert (one == other) == (repr(one) == repr(other))
        for other in ("entry", None, 3, (1, 5), ((1, 5), True), PCA(), type(one), object()):
            assert one != other
            assert other != one


@every_unit
def test_what_can_be_changed_has_no_hash(unit):
    with pytest.raises(TypeError, match="unhashable"):
        hash(unit)


@pytest.mark.parametrize("printed", PRINTED)
def test_a_unit_prints_like_the_call_that_makes_it(printed):
    unit = PRINTED[printed]
    assert repr(unit) == str(unit) == printed
    assert eval(printed) == unit


@every_unit
def test_a_unit_is_pickled_with_its_parameters(unit):
    restored = pickle.loads(pickle.dumps(unit))
    assert restored == unit
    assert restored.get_params() == unit.get_params()


@every_unit
def test_a_unit_is_no_estimator_that_fits(unit):
    assert isinstance(unit, BaseEstimator)
    assert not hasattr(unit, "fit")


# Parameters


@pytest.mark.parametrize("bounds", [(0, 1), [0, 1], np.array([0.0, 1.0]), None, "nonsense"])
def test_arguments_are_kept_as_they_are(bounds):
    for unit in (Entry(bounds), Edge(bounds), SparseRow(3, bounds)):
        assert unit.bounds is bounds
        assert unit.get_params()["bounds"] is bounds


@every_unit
def test_parameters_are_got_and_set(unit):
    unit = clone(unit)
    for name, value in unit.get_params().items():
        other = clone(unit).set_params(**{name: value})
        assert other == unit
    with pytest.raises(ValueError, match="Invalid parameter"):
        unit.set_params(largest_size=3)


@every_estimator
def test_parameters_of_a_unit_are_parameters_of_the_estimator(make):
    unit = Entry((0, 1))
    estimator = make(privacy_unit=unit)
    parameters = estimator.get_params()
    assert parameters["privacy_unit"] is unit
    assert parameters["privacy_unit__bounds"] == (0, 1)
    assert parameters["privacy_unit__zero_is_missing"] is True
    assert "privacy_unit__bounds" not in estimator.get_params(deep=False)
    copy = clone(estimator).set_params(privacy_unit__bounds=(1, 5))
    assert copy.privacy_unit == Entry((1, 5))
    # What is set of a clone is not set of the original.
    assert estimator.privacy_unit == Entry((0, 1))
    pipeline = make_pipeline(StandardScaler(), estimator)
    name = f"{make.__name__.lower()}__privacy_unit__bounds"
    assert clone(pipeline).set_params(**{name: (2, 3)})[-1].privacy_unit == Entry((2, 3))
    # A unit and its parameters, together.
    estimator.set_params(privacy_unit=Interaction(), privacy_unit__degree_floor=4)
    assert estimator.privacy_unit == Interaction(4)


@pytest.mark.covered(at_most=8)
@every_estimator
@every_fitted_unit
def test_a_fit_leaves_the_unit_as_it_was(make, unit):
    unit = clone(unit)
    before = dict(vars(unit))
    estimator = estimator_of(make, unit).fit(data_of(unit))
    assert estimator.privacy_unit is unit
    assert vars(unit).keys() == before.keys()
    assert all(vars(unit)[name] is value for name, value in before.items())
    assert estimator.privacy_spent_.unit == RECORDED[type(unit)]
    assert estimator.privacy_spent_.enforced == (not isinstance(unit, SpectralChange))


def test_a_unit_that_is_changed_after_a_fit_changes_the_next_one():
    svd = estimator_of(DPTruncatedSVD, Entry((0, 1)), solver="input")
    first = svd.fit(TABLE).privacy_spent_.releases[-1].sensitivity
    svd.set_params(privacy_unit__bounds=(0, 3))
    assert svd.fit(TABLE).privacy_spent_.releases[-1].sensitivity == pytest.approx(3 * first)


@pytest.mark.covered(at_most=1)
@every_estimator
def test_equal_units_have_the_same_noise_and_others_their_own(make):
    def noise_with(unit):
        estimator = estimator_of(make, unit, solver="alternating", random_state=SECRET)
        return noise_of(estimator, GRAPH)

    base = noise_with(Entry((0, 1)))
    for bounds in ([0, 1], np.array([0.0, 1.0]), (0.0, np.float32(1))):
        np.testing.assert_array_equal(noise_with(Entry(bounds)), base)
    # Shared noise at two bounds solves for the data.
    others = [
        Entry((0, 1 + 1e-15)),
        Entry((-1e-300, 1)),
        Entry((0, 1), zero_is_missing=False),
        Edge((0, 1)),
        SparseRow(3, (0, 1)),
        SparseRow(4, (0, 1)),
    ]
    noise = [base, *map(noise_with, others)]
    for index, one in enumerate(noise):
        for other in noise[index + 1 :]:
            assert not np.isin(one, other).any(), index


# In scikit-learn's company


def search_of(grid, **more):
    pca = DPPCA(1, privacy_unit=Entry((0, 1)), epsilon=1e4, random_state=SECRET, **more)
    return GridSearchCV(pca, grid, cv=3).fit(TABLE[generator.permutation(len(TABLE))])


def test_a_search_over_units():
    # Bounds that cut everything leave nothing to explain the rows by.
    units = [Entry((0, 1e-6)), Entry((0, 1)), SparseRow(30, (0, 1))]
    search = search_of({"privacy_unit": units}, solver="alternating")
    assert search.best_params_["privacy_unit"] in units[1:]
    assert search.best_estimator_.privacy_unit == search.best_params_["privacy_unit"]
    assert [found["privacy_unit"] for found in search.cv_results_["params"]] == units
    assert repr(units[0]) == "Entry(bounds=(0, 1e-06))"


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("kind", [tuple, list, np.array])
def test_a_search_over_bounds(kind):
    choices = [kind((0, 1e-6)), kind((0, 1))]
    search = search_of({"privacy_unit__bounds": choices})
    assert search.best_estimator_.privacy_unit == Entry((0, 1))
    assert search.estimator.privacy_unit == Entry((0, 1))


@every_estimator
@every_unit
def test_an_estimator_prints_its_unit(make, unit):
    estimator = make(privacy_unit=unit)
    assert repr(estimator) == f"{make.__name__}(privacy_unit={unit!r})"
    with config_context(print_changed_only=False):
        assert type(unit).__name__ in repr(estimator)
    for shown in (estimator, make_pipeline(StandardScaler(), estimator)):
        html = shown._repr_html_()
        assert type(unit).__name__ in html
        for name, value in unit.get_params().items():
            if f"{name}=" in repr(unit):
                assert re.search(f"{name}.*{re.escape(str(value))}", html, re.DOTALL)


NOT_UNITS = [None, 3, np.arange(3.0), "user", ("entry",), Entry, Interaction, PCA(), b"row"]
ODD_UNITS = [Entry("x"), Entry(None), Entry(np.ones((2, 2))), SparseRow("many", 0), Interaction(-1)]
every_odd_one = pytest.mark.parametrize("unit", [*NOT_UNITS, *ODD_UNITS], ids=repr)


@pytest.mark.parametrize("make", [DPPCA, DPTruncatedSVD, DPTraceRegressor])
@every_odd_one
def test_tags_survive_any_value(make, unit):
    tags = make(privacy_unit=unit).__sklearn_tags__()
    assert tags.input_tags.sparse
    assert tags.input_tags.pairwise is False
    assert "privacy_unit" in repr(make(privacy_unit=unit))


# What is refused


@every_estimator
@every_odd_one
def test_what_is_no_unit_is_refused(make, unit):
    message = str(refusal_of(make(1, privacy_unit=unit), TABLE).value)
    assert re.search("privacy_unit|bounds|max_entries|degree_floor", message)


@every_estimator
def test_a_string_is_refused_with_an_object_that_may_replace_it(make):
    message = str(refusal_of(make(1, privacy_unit="entry"), GRAPH).value)
    assert message.startswith("privacy_unit='entry' must be 'row', ")
    assert "an object of skdp.units, such as Entry(bounds=" in message


@every_unit
def test_a_regression_takes_no_unit_of_a_matrix(unit):
    regressor = DPTraceRegressor(privacy_unit=unit)
    message = str(refusal_of(regressor, TABLE, TABLE[:, 0]).value)
    assert "privacy_unit" in message


NAN, INF = float("nan"), float("inf")
BAD_BOUNDS = [
    None,
    1.0,
    "ab",
    ("a", "b"),
    (),
    (0,),
    (0, 1, 2),
    ((0, 1),),
    np.zeros((2, 2)),
    (1, 1),
    (1, 0),
    (0, NAN),
    (NAN, 1),
    (0, 1j),
    {0: 1, 1: 2}.items(),
]
# Without noise these would do.
UNBOUNDED = [(0, INF), (-INF, 0), (-INF, INF), (0, 1e101), (-1e101, 1)]


@pytest.mark.covered(at_most=40)
@every_estimator
@pytest.mark.parametrize("make_unit", [Entry, Edge, partial(SparseRow, 3)])
@pytest.mark.parametrize("bounds", [*BAD_BOUNDS, *UNBOUNDED, (0, 1e-101)], ids=repr)
def test_bad_bounds_are_refused_by_name(make, make_unit, bounds):
    unit = make_unit(bounds)
    message = str(refusal_of(estimator_of(make, unit), GRAPH).value)
    assert "bounds" in message
    assert type(unit).__name__ in message


@every_estimator
@pytest.mark.parametrize("make_unit", [Entry, Edge, partial(SparseRow, 3)])
def test_without_noise_nothing_needs_a_bound(make, make_unit):
    for bounds in UNBOUNDED:
        estimator = estimator_of(make, make_unit(bounds), epsilon=np.inf).fit(GRAPH)
        assert np.isfinite(estimator.components_).all()
    for bounds in BAD_BOUNDS:
        unit = make_unit(bounds)
        assert "bounds" in str(refusal_of(estimator_of(make, unit, epsilon=np.inf), GRAPH).value)


@every_estimator
@pytest.mark.parametrize(
    ("unit", "named"),
    [
        (Entry((0, 1), zero_is_missing=None), "zero_is_missing"),
        (Edge((0, 1), zero_is_missing="no"), "zero_is_missing"),
        *((SparseRow(number, (0, 1)), "max_entries") for number in (0, -1, 2.5, None, "3", NAN)),
        *((Interaction(number), "degree_floor") for number in (0, -1, 2.5, None, "3", INF)),
        *((SpectralChange(size), "largest") for size in (0, -1.0, 1e-101, 1e101, None, "1", NAN)),
        (SpectralChange((-1, 1)), "largest"),
        (SpectralChange(INF), "SpectralChange(largest=inf)"),
    ],
    ids=repr,
)
def test_other_bad_parameters_are_refused_by_name(make, unit, named):
    message = str(refusal_of(estimator_of(make, unit), GRAPH).value)
    assert named in message
    assert type(unit).__name__ in message


@every_estimator
def test_what_is_set_later_is_checked_as_well(make):
    estimator = estimator_of(make, Entry((0, 1))).set_params(privacy_unit__bounds=(1, 0))
    assert "bounds=(1, 0)" in str(refusal_of(estimator, TABLE).value)
    fitted = estimator_of(make, Entry((0, 1))).fit(TABLE)
    record = fitted.privacy_spent_
    with pytest.raises(ValueError, match=r"bounds=\(5, 1\)"):
        fitted.set_params(privacy_unit__bounds=(5, 1)).fit(TABLE)
    assert fitted.privacy_spent_ is record
