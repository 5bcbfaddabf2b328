"""What a plan says before the data is what a fit records: line by line, for every way to ask."""

import dataclasses
import math
import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from contract_laws import check_plan
from public import ESTIMATORS
from row_cells import datasets
from scipy import sparse

import skdp
from skdp.privacy import Plan, PrivacyBudget, sensitivity
from skdp.privacy.budget import SKIPPED, is_skipped
from skdp.privacy.plan import AnyOf, PrivacyCost
from skdp.units import Edge, Entry

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")


@pytest.mark.covered(at_most=3)
@pytest.mark.parametrize("make", [skdp.DPPCA, skdp.DPTruncatedSVD, skdp.DPLowRankFactorizer])
@pytest.mark.parametrize("unit", ["row", Entry((0, 1))], ids=str)
def test_the_container_does_not_change_what_is_released(make, unit):
    X = np.random.default_rng(0).random((60, 50))
    blocks = skdp.RowBlocks(lambda: iter([X[:20], X[20:]]), shape=X.shape)
    frame = pd.DataFrame.sparse.from_spmatrix(sparse.csr_array(X))
    for data in (X, X.astype(np.float32), sparse.csr_array(X), blocks, frame):
        estimator = make(n_components=2, privacy_unit=unit)
        planned = estimator.plan(*X.shape, like=data)
        record = estimator.fit(data).privacy_spent_
        found = [(r.name, r.mechanism, r.share) for r in record.releases]
        for plan in (planned, estimator.plan(*X.shape)):
            paths = [[(r.name, r.mechanism, r.share) for r in path] for path in plan.branches]
            assert found in paths


@pytest.mark.parametrize("solver", ["covariance", "power"])
@pytest.mark.parametrize("center", ["private", np.full(6, 1e3)], ids=["private", "public"])
def test_sparse_rows_far_from_the_origin_have_what_the_plan_says(solver, center):
    # They are centered in their products, and what that rounds follows the center.
    X = sparse.csr_array(datasets()["spiked"])
    norms = {"mean_norm": 1e4} if isinstance(center, str) else {}
    check_plan(lambda: skdp.DPPCA(2, solver=solver, center=center, row_norm=1e-3, **norms), (X,))


def test_a_plan_is_as_long_as_what_is_asked_for():
    plan = skdp.DPPCA(3, solver="power", n_iter=4, row_norm=1.0, mean_norm=1.0).plan(500, 30)
    assert [line.name for line in plan.releases] == [
        "mean",
        *(f"{kind} {step}" for step in range(1, 5) for kind in ("clip level", "step")),
        "projected second moment",
    ]
    assert math.fsum(line.share for line in plan.releases) == pytest.approx(1)


def test_a_plan_says_what_decides_where_it_cannot():
    text = repr(skdp.DPTruncatedSVD(3).plan(500, 600))
    usual, *others = text.split("or, as released values say:")
    assert "second moment" in usual
    assert "step 1" in others[-1]
    assert "follows clip level 1" in text
    assert "row norm, 4 times" in text


def test_planning_leaves_the_estimator_as_it_was():
    estimator = skdp.DPTruncatedSVD(3, random_state=np.random.RandomState(0))
    before = dict(vars(estimator))
    state = estimator.random_state.get_state()[1].copy()
    estimator.plan(500, 30)
    assert vars(estimator) == before
    np.testing.assert_array_equal(estimator.random_state.get_state()[1], state)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (skdp.DPPCA(epsilon=-1.0), "epsilon"),
        (skdp.DPPCA(n_components=40), "n_components"),
        (skdp.DPTruncatedSVD(privacy_unit="entry"), "Entry"),
        (skdp.DPTraceRegressor(rank=2), "rank"),
        (skdp.DPTraceRegressor(delta=0), "delta"),
        (skdp.DPTruncatedSVD(privacy_unit=Edge((0, 1))), "symmetric"),
    ],
    ids=str,
)
def test_a_plan_refuses_what_a_fit_refuses(estimator, message):
    with pytest.raises(ValueError, match=message):
        estimator.plan(100, 30)


@pytest.mark.parametrize("like", ["sparse", 3])
@pytest.mark.parametrize("estimator", [skdp.DPPCA(), skdp.DPTraceRegressor()], ids=str)
def test_a_plan_takes_no_other_thing_for_data(estimator, like):
    with pytest.raises(TypeError, match="like must be an X"):
        estimator.plan(100, 30, like=like)


@pytest.mark.parametrize("estimator", [skdp.DPPCA(), skdp.DPTraceRegressor()], ids=str)
def test_a_refused_thing_for_data_is_not_printed(estimator):
    with pytest.raises(TypeError, match="got dict") as caught:
        estimator.plan(100, 30, like={"salary": [123456.0]})
    assert "123456" not in str(caught.value)


@pytest.mark.parametrize("like", [np.zeros((1, 40)), np.zeros(3), np.zeros((1, 5, 7))])
@pytest.mark.parametrize("estimator", [skdp.DPPCA(), skdp.DPTraceRegressor()], ids=str)
def test_a_plan_refuses_data_of_other_features(estimator, like):
    with pytest.raises(ValueError, match=r"n_features=30|matrix_shape"):
        estimator.plan(100, 30, like=like)


def test_too_small_a_budget_is_refused_before_anything_is_set_or_spent():
    X = np.random.default_rng(0).random((50, 40))
    estimator = skdp.DPPCA(2, epsilon=1e-6, delta=1e-12, mean_norm=7.0, row_norm=7.0)
    before = dict(vars(estimator))
    with pytest.raises(skdp.BudgetError, match="too small"):
        estimator.fit(X)
    assert vars(estimator) == before


COST = PrivacyCost(1.0, 1e-6)


def lines(*parts):
    return Plan(COST, parts, unit="row", adjacency="replace")


def declared(name, mechanism="gaussian", share=0.5, **more):
    return COST.release(name, mechanism, share, sensitivity.count, {}, **more)


def test_a_budget_refuses_what_is_not_the_next_release():
    one, two = declared("one", share=0.25), declared("two")
    plan = lines(one, AnyOf((two, declared("other", "laplace"))))
    for wrong in (
        two,
        declared("one", "laplace", 0.25),
        declared("one", share=0.2),
        declared("another", share=0.25),
    ):
        budget = PrivacyBudget.of(plan)
        with pytest.raises(skdp.BudgetError, match="next"):
            budget.release(wrong, 1.0)
        assert budget.spent().releases == ()
    budget.release(one, 1.0)
    budget.release(plan.branches[1][1], 1.0)
    with pytest.raises(skdp.BudgetError, match="not planned"):
        budget.release(declared("three"), 1.0)
    assert [release.share for release in budget.spent().releases] == [0.25, 0.5]


def test_what_a_sensitivity_follows_is_told_when_it_is_released():
    later = COST.release("sum", "gaussian", 1.0, partial(sensitivity.row_sum, adjacency="replace"))
    assert later.sensitivity is None
    budget = PrivacyBudget.of(lines(later))
    with pytest.raises(TypeError, match="norm"):
        budget.release(later, np.zeros(3))
    budget.release(later, np.zeros(3), 3.0, rounding=0.5)
    (found,) = budget.spent().releases
    assert found.sensitivity == sensitivity.row_sum(3.0, "replace", 0.5)


def test_a_record_keeps_five_numbers_of_a_release_and_no_function():
    spent = PrivacyBudget.of(lines(release := declared("one", shape=(1,))))
    spent.release(release, np.zeros(1))
    record = pickle.loads(pickle.dumps(spent.spent()))
    assert record == spent.spent()
    assert record.releases[0].sensitivity_of is None
    names = ["name", "mechanism", "sensitivity", "noise_std", "share"]
    assert list(record.as_dict()["releases"][0]) == names


def test_only_what_may_be_skipped_is():
    first, second = declared("one"), declared("two", may_be_skipped=True)
    plan = lines(first, second)
    budget = PrivacyBudget.of(plan)
    with pytest.raises(skdp.BudgetError, match="may not be skipped"):
        budget.skip(first)
    with pytest.raises(skdp.BudgetError, match="next"):
        budget.skip(second)
    budget.release(first, 1.0)
    budget.skip(second)
    found = budget.spent()
    assert [(one.name, one.share) for one in found.releases] == [("one", 0.5), (SKIPPED, 0.5)]
    # A leak must not hide behind a name that sounds so.
    assert list(map(is_skipped, (SKIPPED, "pca: skipped", "rows skipped"))) == [True, True, False]
    assert found.mu == plan.mu


def test_the_shares_of_a_plan_add_to_one_at_most():
    for share in (0.6, 0.0, math.nan):
        with pytest.raises(skdp.BudgetError, match=r"at most 1|positive"):
            lines(*(declared(name, share=share) for name in "ab"))
    plan = skdp.DPTruncatedSVD(row_norm=1.0).plan(100, 10)
    with pytest.raises(skdp.BudgetError, match="at most 1"):
        dataclasses.replace(plan, parts=2 * plan.parts)


def test_a_plan_cannot_be_changed():
    plan = skdp.DPTruncatedSVD().plan(100, 10)
    with pytest.raises(AttributeError):
        plan.epsilon = 2.0
    with pytest.raises(AttributeError):
        plan.releases[0].share = 0.5


# What a plan takes, and how it prints

CLASSIFIER = skdp.DPLogisticRegression(classes=[0, 1])
WITH_SHAPES = [
    kind(classes=[0, 1]) if hasattr(kind(), "classes") else kind()
    for kind in ESTIMATORS
    if kind is not skdp.DPPersonalizedRegressor
]


@pytest.mark.parametrize(
    "estimator", [*WITH_SHAPES, skdp.make_dp_pipeline(skdp.DPPCA(2), CLASSIFIER)], ids=str
)
def test_a_shape_of_rows_is_their_numbers(estimator):
    X = np.zeros((300, 6))
    assert estimator.plan(X.shape) == estimator.plan(300, 6)
    assert estimator.plan(X.shape, like=X) == estimator.plan(300, 6, like=X)
    for wrong in ((), (300,), ("300", 6), (math.nan, 6), (0, 6), X):
        with pytest.raises((TypeError, ValueError), match=r"n_samples|n_features"):
            estimator.plan(wrong)
    with pytest.raises(TypeError, match="n_samples must be"):
        estimator.plan(X.shape, 6)
    with pytest.raises(TypeError, match="n_features must be"):
        estimator.plan(300)


@pytest.mark.parametrize(
    "estimator", [skdp.DPTraceRegressor(2), skdp.DPTraceClassifier(2, classes=[0, 1])]
)
def test_a_shape_of_matrices_tells_that_they_are_matrices(estimator):
    matrices = np.zeros((300, 4, 5))
    assert estimator.plan(matrices.shape) == estimator.plan(300, 20, like=matrices)
    with pytest.raises(ValueError, match="does not fit the shape"):
        skdp.DPPCA(2).plan(matrices.shape)
    with pytest.raises(ValueError, match="does not fit the shape"):
        skdp.make_dp_pipeline(skdp.DPPCA(2), CLASSIFIER).plan(matrices.shape)


def test_a_shape_of_rows_is_no_number_of_users():
    with pytest.raises(TypeError, match=r"^DPPersonalizedRegressor\.plan: .*n_features"):
        skdp.DPPersonalizedRegressor().plan((300, 6))


@pytest.mark.parametrize(("epsilon", "is_weak"), [(10.0, False), (10.1, True), (math.inf, False)])
def test_a_large_epsilon_is_called_weak(epsilon, is_weak):
    pca = skdp.DPPCA(2, epsilon=epsilon, mean_norm=1.0, row_norm=1.0)
    fitted = pca.fit(np.random.default_rng(0).random((300, 6)))
    for told in (pca.plan(300, 6), fitted.privacy_spent_):
        assert ("\n  weak: " in repr(told)) == is_weak
    assert ("no privacy" in repr(pca.plan(300, 6))) == math.isinf(epsilon)


def test_a_run_of_releases_is_one_line():
    rows = np.random.default_rng(0).standard_normal((300, 6))
    labels = (rows[:, 0] > 0).astype(int)
    alone, behind = (
        CLASSIFIER,
        skdp.make_dp_pipeline(skdp.DPPCA(2), CLASSIFIER, shares={"dppca": 0.5}),
    )
    for model, prefix in ((alone, ""), (behind, "dplogisticregression: ")):
        releases = model.fit(rows, labels).privacy_spent_.releases
        steps = [one for one in releases if "whitened gradient" in one.name]
        assert len(steps) > 1
        told = [repr(model.privacy_spent_), *([repr(model.plan(300, 6))] if not prefix else [])]
        for lines in map(str.splitlines, told):
            (line,) = (one for one in lines if "whitened gradient" in one)
            name = f"{prefix}whitened gradient 1 ... {len(steps)} "
            assert line.strip().startswith(name)
            share = float(line.strip().removeprefix(name).split()[0])
            assert share == pytest.approx(math.fsum(one.share for one in steps), abs=1e-4)


def test_releases_that_differ_are_no_run():
    cost = PrivacyCost(1.0, 1e-6)
    names = ("level 1, counts 1", "level 1, counts 2", "level 2, counts 1", "level 2, counts 2")
    parts = [cost.release(name, "gaussian", 0.1, sensitivity.count, {}) for name in names]
    parts += [
        cost.release("step 1", "gaussian", 0.1, lambda: 1.0, {}),
        cost.release("step 2", "laplace", 0.1, lambda: 1.0, {}),
        cost.release("step 3", "laplace", 0.1, lambda: 2.0, {}),
    ]
    told = repr(Plan(cost, tuple(parts), unit="row", adjacency="replace")).splitlines()[2:]
    named = [line.strip().partition("   ")[0] for line in told]
    assert named == ["level 1, 2 times", "level 2, 2 times", "step 1", "step 2", "step 3"]
