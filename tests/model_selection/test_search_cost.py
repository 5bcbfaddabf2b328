"""What searches of scikit-learn would cost: every fit counted, without data."""

import math

import numpy as np
import pytest
from families import FAMILIES
from scipy.stats import uniform
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - for what it brings
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    GroupShuffleSplit,
    HalvingGridSearchCV,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    PredefinedSplit,
    RandomizedSearchCV,
    ShuffleSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from small_pipelines import (
    FOLDS,
    GRID,
    X,
    Y,
    columns,
    pca,
    regressor,
    search_of_both,
    svd,
    total,
    union,
)

from skdp import DPPCA, DPLowRankFactorizer, DPPersonalizedRegressor, DPTruncatedSVD
from skdp.model_selection import privacy_spent, search_cost
from skdp.model_selection._planned_fits import planned_cost, records_of, repeated
from skdp.privacy import gaussian_dp
from skdp.units import Edge, Entry, FrobeniusChange, Interaction, SparseRow, SpectralChange

pytestmark = pytest.mark.filterwarnings(
    "ignore::skdp.PrivacyWarning", "ignore::sklearn.exceptions.FitFailedWarning"
)


def test_a_search_of_a_newcomer():
    search = GridSearchCV(DPPCA(epsilon=2.0), {"n_components": [1, 2, 3, 4]}, cv=12)
    cost = search_cost(search, 1797, 64)
    mu = 7 * gaussian_dp.mu_from_epsilon_delta(2.0, 1e-6)
    assert (cost.n_fits, cost.n_search_fits) == (49, 49)
    assert cost.spent.mu == pytest.approx(mu, rel=1e-6)
    assert cost.spent.epsilon == pytest.approx(gaussian_dp.epsilon_at(mu, 1e-6), rel=1e-6)
    assert 18 < cost.spent.epsilon < 22
    assert cost.spent.delta == 1e-6
    assert "49 private fits in 49 fits of the search" in repr(cost)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 8.0])
def test_the_advice_is_kept(epsilon):
    def cost_at(asked):
        both = make_pipeline(pca(epsilon=asked), regressor(epsilon=asked))
        return search_cost(GridSearchCV(both, GRID, cv=5), 120, 6)

    cost = cost_at(epsilon)
    told = float(repr(cost).rpartition("pass epsilon=")[2].split()[0])
    assert cost.within == (epsilon, 1e-6)
    assert told <= cost.epsilon_each < told * 1.02
    assert 0.95 * epsilon < cost_at(told).spent.epsilon <= epsilon
    assert 0.999 * epsilon < cost_at(cost.epsilon_each).spent.epsilon <= epsilon


def test_pure_costs_add():
    svd = DPTruncatedSVD(1, privacy_unit=Entry((0, 1)), delta=0.0, epsilon=0.5)
    cost = search_cost(GridSearchCV(svd, {"n_components": [1, 2]}, cv=3), 120, 6)
    assert cost.n_fits == 7
    assert cost.spent.epsilon == pytest.approx(3.5)
    assert cost.spent.delta == 0
    assert cost.epsilon_each == pytest.approx(0.5 / 7)


STEPS = [
    pca(),
    pca(adjacency="zero_out"),
    pca(epsilon=math.inf),
    regressor(privacy_unit="response"),
    regressor(init="spectral"),
    regressor(),
    DPPersonalizedRegressor(1, require_groups=True),
    DPLowRankFactorizer(1, privacy_unit=Entry((0, 1)), delta=0.0),
    DPLowRankFactorizer(1, privacy_unit=FrobeniusChange(1.0)),
    DPTruncatedSVD(1, privacy_unit=Edge((0, 1))),
    DPTruncatedSVD(1, privacy_unit=Interaction()),
    DPTruncatedSVD(1, privacy_unit=SpectralChange()),
    DPTruncatedSVD(1, privacy_unit=SparseRow(max_entries=3, bounds=(0, 1))),
]


@pytest.mark.covered
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("times", [1, 2, 9])
def test_a_planned_record_is_that_of_the_plan_and_repeats_as_it_composes(step, times):
    (one,) = planned_cost([step])
    plan = step.plan(200, 200)
    for name in ("epsilon", "delta", "unit", "adjacency", "enforced", "delta_tail"):
        assert getattr(one, name) == getattr(plan, name)
    assert one.mu >= plan.mu
    (whole,) = records_of(repeated(planned_cost([step]), times))
    expected = one.compose(*[one] * (times - 1))
    for name in ("epsilon", "delta", "mu", "delta_tail"):
        assert getattr(whole, name) == pytest.approx(getattr(expected, name), rel=1e-8)
    assert math.fsum(release.share for release in whole.releases) == pytest.approx(1.0)
    if math.isfinite(whole.epsilon):
        assert whole.epsilon_at(1e-4) == pytest.approx(expected.epsilon_at(1e-4), rel=1e-6)


def distinct(cells):
    """Keep a cell for each unit and solver, with and without delta."""
    found = {}
    for cell in cells:
        asked = cell()
        names = ("privacy_unit", "solver", "init", "adjacency")
        kinds = [getattr(asked, name, None) for name in names]
        kinds = [kind if isinstance(kind, str) else type(kind) for kind in kinds]
        found.setdefault((type(asked), asked.delta == 0, *kinds), cell)
    return found.values()


CELLS = [
    pytest.param(family, cell, id=f"{family.name}: {cell}")
    for family in FAMILIES
    # A search fits its candidates, and a stream has no fit of its own.
    if isinstance(family.cells[0](), BaseEstimator)
    for cell in distinct(family.cells)
]


@pytest.mark.covered
@pytest.mark.parametrize(("family", "cell"), CELLS)
def test_a_search_is_told_to_cost_what_the_records_of_its_fits_compose_to(family, cell):
    arguments = family.arguments(family.ordinary(cell))
    # What stands before it keeps the plan from looking at the shape.
    cv = GroupShuffleSplit(2) if family.recorded(cell)[0] == "user" else 2
    search = GridSearchCV(make_pipeline(Normalizer(), cell()), {}, cv=cv)
    with config_context(enable_metadata_routing=True), family.setting(cell):
        told = search_cost(search, 1, 1).spent
        record = clone(cell()).fit(*arguments).privacy_spent_
    fits = record.compose(record, record)
    for name in ("unit", "adjacency", "enforced"):
        assert getattr(told, name) == getattr(fits, name)
    for name in ("epsilon", "delta", "delta_tail"):
        assert getattr(told, name) == pytest.approx(getattr(fits, name), rel=1e-8), name
    # Of pure noise, what shares spend as mu is less than what they spend as epsilon.
    is_pure = told.delta == 0 and math.isfinite(told.epsilon)
    assert told.mu >= fits.mu * (1 - 1e-8)
    assert is_pure or told.mu == pytest.approx(fits.mu, rel=1e-8)


def test_a_search_of_sketches_is_counted_with_its_tails():
    step = DPLowRankFactorizer(1, privacy_unit=FrobeniusChange(1.0), solver="two_sketch")
    search = GridSearchCV(step, {}, cv=KFold(4), scoring=lambda *_: 0.0)
    search.fit(np.random.default_rng(0).normal(size=(400, 150)))
    fit = search.best_estimator_.privacy_spent_
    fits = fit.compose(fit, fit, fit, fit)
    for spent in (privacy_spent(search).spent, search_cost(search, 400, 150).spent):
        assert spent.delta == pytest.approx(fits.delta) == pytest.approx(3e-6)
        assert spent.delta_tail == pytest.approx(fits.delta_tail)
        assert spent.mu == pytest.approx(fits.mu)


@pytest.mark.parametrize("solver", ["gradient", "altmin"])
def test_users_are_rows_where_no_search_tells_them_apart(solver):
    search = GridSearchCV(DPPersonalizedRegressor(1, solver=solver), {}, cv=FOLDS).fit(X, Y)
    spent = privacy_spent(search).spent
    assert spent.unit == search.best_estimator_.privacy_spent_.unit == "row"
    told_apart = DPPersonalizedRegressor(1, solver=solver, user_column=5)
    by_ids = GridSearchCV(told_apart, {}, cv=GroupShuffleSplit(3))
    assert search_cost(by_ids, 120, 6).spent.unit == "user"


@pytest.mark.parametrize(
    ("cv", "n_splits"),
    [
        (None, 5),
        (4, 4),
        (ShuffleSplit(7), 7),
        (PredefinedSplit([0, 0, 1, -1]), 2),
        (GroupKFold(3), 3),
        ([([0, 1], [2]), ([1, 2], [0])], 2),
    ],
)
def test_folds_are_counted_by_the_splitter(cv, n_splits):
    cost = search_cost(GridSearchCV(pca(), {"n_components": [1, 2, 3]}, cv=cv), 120, 6)
    assert cost.n_search_fits == 3 * n_splits + 1


@pytest.mark.parametrize("cv", [LeaveOneOut(), LeaveOneGroupOut()])
def test_a_splitter_that_needs_data_is_named(cv):
    with pytest.raises(ValueError, match=f"cv={type(cv).__name__} needs data"):
        search_cost(GridSearchCV(pca(), {"n_components": [1]}, cv=cv), 120, 6)


def test_an_iterator_of_folds_is_not_used_up():
    folds = iter(list(FOLDS.split(X)))
    with pytest.raises(ValueError, match="iterator"):
        search_cost(GridSearchCV(pca(), {"n_components": [1]}, cv=folds), 120, 6)
    assert len(list(folds)) == 3


def test_random_candidates():
    names = {"n_components": [1, 2, 3], "row_norm": uniform(1, 5)}
    cost = search_cost(RandomizedSearchCV(pca(), names, n_iter=4, cv=3, random_state=0), 120, 6)
    assert cost.n_search_fits == 13
    # Fewer combinations than asked for.
    search = RandomizedSearchCV(pca(), {"n_components": [1, 2]}, cv=3, random_state=0)
    with pytest.warns(UserWarning, match="smaller than"):
        few = search_cost(search, 120, 6)
    assert few.n_search_fits == 7


@pytest.mark.parametrize("state", [None, np.random.RandomState(0)])
def test_what_is_drawn_is_known_with_a_seed_only(state):
    search = RandomizedSearchCV(pca(), {"n_components": [1, 2]}, n_iter=2, random_state=state)
    with pytest.raises(ValueError, match="random_state of the search must be an int, got"):
        search_cost(search, 120, 6)


def test_a_seeded_search_costs_what_was_told():
    search = RandomizedSearchCV(
        pca(), {"epsilon": uniform(0.1, 2)}, n_iter=3, cv=FOLDS, random_state=3, refit=False
    )
    told = search_cost(search, 120, 6).spent
    assert told.mu == pytest.approx(privacy_spent(search.fit(X)).spent.mu, rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((pca(), 120, 6), TypeError, "must be a GridSearchCV"),
        ((HalvingGridSearchCV(pca(), {}), 120, 6), TypeError, "must be a GridSearchCV"),
        ((GridSearchCV(BaggingRegressor(regressor()), {}), 120, 6), ValueError, "not counted"),
        ((GridSearchCV(pca(), {}), 0, 6), ValueError, "n_samples"),
        ((GridSearchCV(pca(), {}), 120, 1.5), TypeError, "n_features"),
        ((GridSearchCV(pca(), {"n_components": [9]}), 120, 6), ValueError, "n_components"),
        (
            (GridSearchCV(make_pipeline(None, pca()), {"dppca__epsilon": [-1]}), 120, 6),
            ValueError,
            "epsilon",
        ),
    ],
)
def test_what_can_not_be_told_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        search_cost(*arguments)


def test_steps_of_compositions_are_fitted_once():
    parts = make_pipeline(columns(), union(), TransformedTargetRegressor(regressor()))
    cost = search_cost(GridSearchCV(parts, {}, cv=3), 120, 6)
    assert cost.n_fits == 4 * 6
    equal = planned_cost([pca(), pca(center=False), svd()])
    assert sorted(equal.values()) == [1, 2]


def test_nothing_reads_data_or_changes_a_search():
    search = search_of_both()
    before = repr(search.get_params())
    cost = search_cost(search, 10**9, 6)
    assert repr(cost).endswith(" to dppca and to dptraceregressor")
    assert repr(search.get_params()) == before
    assert not hasattr(search, "cv_results_")


def test_candidates_that_are_estimators_are_not_changed():
    step = pca(epsilon=2.0)
    pipeline = make_pipeline(pca())
    grid = {"dppca": [step], "dppca__epsilon": [0.5, 3.0]}
    mus = [gaussian_dp.mu_from_epsilon_delta(epsilon, 1e-6) for epsilon in (0.5, 3.0)]
    cost = search_cost(GridSearchCV(pipeline, grid, cv=2), 120, 6)
    assert cost.spent.mu == total(*mus, *mus, mus[1])
    assert step.epsilon == 2.0
