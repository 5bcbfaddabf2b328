"""What fits of a search have cost: every fit counted, from parameters alone."""

import math

import numpy as np
import pytest
from families import FAMILIES
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - for what it brings
from sklearn.model_selection import GridSearchCV, KFold
from small_pipelines import FOLDS, X, Y, pca, regressor

from skdp import DPLowRankFactorizer, DPPersonalizedRegressor, DPTruncatedSVD
from skdp.model_selection import privacy_spent
from skdp.model_selection._report import record_of_fits
from skdp.units import Edge, Entry, FrobeniusChange, Interaction, SparseRow, SpectralChange

pytestmark = pytest.mark.filterwarnings(
    "ignore::skdp.PrivacyWarning", "ignore::sklearn.exceptions.FitFailedWarning"
)


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
    one = record_of_fits(step, 1)
    plan = step.plan(200, 200)
    for name in ("unit", "adjacency", "enforced"):
        assert getattr(one, name) == getattr(plan, name)
    for name in ("epsilon", "delta", "delta_tail"):
        # What is composed is rounded up.
        assert getattr(one, name) == pytest.approx(getattr(plan, name), rel=2e-9)
    assert one.mu >= plan.mu
    whole = record_of_fits(step, times)
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
def test_three_fits_cost_what_their_records_compose_to(family, cell):
    arguments = family.arguments(family.ordinary(cell))
    with config_context(enable_metadata_routing=True), family.setting(cell):
        told = record_of_fits(cell(), 3)
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
    spent = privacy_spent(search).spent
    assert spent.delta == pytest.approx(fits.delta) == pytest.approx(3e-6)
    assert spent.delta_tail == pytest.approx(fits.delta_tail)
    assert spent.mu == pytest.approx(fits.mu)


@pytest.mark.parametrize("solver", ["gradient", "altmin"])
def test_users_are_rows_where_no_search_tells_them_apart(solver):
    search = GridSearchCV(DPPersonalizedRegressor(1, solver=solver), {}, cv=FOLDS).fit(X, Y)
    spent = privacy_spent(search).spent
    assert spent.unit == search.best_estimator_.privacy_spent_.unit == "row"
