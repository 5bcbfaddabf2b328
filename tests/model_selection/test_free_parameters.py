"""Free parameters: no release depends on them, which a replay shows, and never a list alone."""

import numpy as np
import pytest
from sklearn.base import clone
from watched import SEED, watched

from skdp import DPPCA, DPTraceRegressor, DPTruncatedSVD
from skdp.model_selection._fits import fit_from_releases, free_parameters
from skdp.units import Entry

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

X = np.random.default_rng(0).standard_normal((50, 6))
Y = X[:, 0]
PCA_SETTINGS = {"n_components": [1, 3, None, "mle", 0.7], "whiten": [False, True]}
CASES = [
    (DPPCA(2, solver="covariance"), PCA_SETTINGS),
    (DPPCA(2), PCA_SETTINGS),
    (DPPCA(2, center=False, row_norm=3.0, adjacency="zero_out"), PCA_SETTINGS),
    (DPPCA(2, solver="power"), PCA_SETTINGS),
    (DPTruncatedSVD(2), {"n_components": [1, 3, 6]}),
    (DPTruncatedSVD(2, row_norm=3.0, mean_norm=2.0), {"n_components": [1, 6]}),
    (DPTruncatedSVD(2, solver="power"), {"n_components": [1, 3]}),
]


def free_of(estimator):
    return free_parameters(estimator, estimator._spec_like(*X.shape, None))


def releases_alike(estimator, other):
    """Return whether another setting asks for the same releases when it gets the same answers."""
    with watched() as first:
        clone(estimator).fit(X)
    with watched([budget.released for budget in first]) as second:
        try:
            clone(other).fit(X)
        except (IndexError, ValueError):
            # It asks for more, or for something of another shape.
            return False
    (one,), (two,) = first, second
    shapes = [[np.shape(value) for value in budget.values] for budget in (one, two)]
    same = all(np.array_equal(*pair) for pair in zip(one.values, two.values, strict=False))
    return one.spent().releases == two.spent().releases and shapes[0] == shapes[1] and same


def fitted(estimator):
    return {name: value for name, value in vars(estimator).items() if name.endswith("_")}


@pytest.mark.covered(at_most=4)
@pytest.mark.parametrize(("estimator", "settings"), CASES, ids=lambda value: repr(value)[:60])
def test_what_is_free_changes_no_release_and_gives_what_a_fit_of_its_own_would(estimator, settings):
    estimator = clone(estimator).set_params(random_state=SEED)
    free = free_of(estimator)
    others = [
        clone(estimator).set_params(**{name: value})
        for name, values in settings.items()
        if name in free
        for value in values
    ]
    assert all(releases_alike(estimator, other) for other in others)
    with watched() as made:
        first = clone(estimator)
        released = first._release(*first._validate(X, None), lambda *_: None)
        first._keep(*released)
        fit_from_releases(others, first, *released)
    script = [made[0].released]
    for one in (first, *others):
        assert one.privacy_spent_ is first.privacy_spent_
        with watched(script):
            alone = clone(one).fit(X)
        assert fitted(alone).keys() == fitted(one).keys()
        for name, value in fitted(alone).items():
            np.testing.assert_equal(getattr(one, name), value, err_msg=name)


@pytest.mark.parametrize(
    ("solver", "wrong"),
    [
        ("power", {"n_iter": 4}),
        ("power", {"n_components": 1}),
        ("covariance", {"row_norm": 1.5}),
        ("covariance", {"center": False}),
        ("covariance", {"solver": "power"}),
    ],
)
def test_a_replay_notices_what_should_not_be_in_the_list(solver, wrong):
    estimator = DPPCA(2, solver=solver, random_state=SEED)
    assert not releases_alike(estimator, clone(estimator).set_params(**wrong))


def test_lists_of_others():
    assert free_of(DPPCA(2, privacy_unit=Entry((-3, 3)))) == frozenset()
    assert free_of(DPTraceRegressor()) == frozenset()
    assert free_of(DPPCA(2)) == {"n_components", "whiten"}
    assert free_of(DPPCA(2, solver="power")) == {"whiten"}
