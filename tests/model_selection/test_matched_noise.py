"""Noise on public rows: as much, beside what is learned, as on the private ones."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from small_pipelines import WithTail

from skdp import (
    DPPCA,
    DPLowRankFactorizer,
    DPPersonalizedRegressor,
    DPStandardScaler,
    DPTraceRegressor,
    DPTruncatedSVD,
    make_dp_pipeline,
)
from skdp.model_selection import DPGridSearch, epsilon_curve, matched_noise
from skdp.model_selection._planning import _with_epsilon
from skdp.pipeline._rules import private_steps
from skdp.privacy.gaussian_dp import mu_from_epsilon_delta
from skdp.privacy.plan import largest_epsilon
from skdp.units import Entry, FrobeniusChange, SparseRow

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")


def mu_of(step):
    return step._cost().mu


@pytest.mark.parametrize("ratio", [0.1, 1, 7, 100])
@pytest.mark.parametrize("step", [DPPCA(2), WithTail()])
def test_mu_grows_with_the_ratio_of_the_rows(step, ratio):
    matched = matched_noise(step, n_samples=int(1000 * ratio), n_public=1000)
    assert mu_of(matched) == pytest.approx(ratio * mu_of(step), rel=1e-6)
    assert step.epsilon == 1.0
    assert matched.get_params()["delta"] == step.delta


def test_the_noise_beside_what_is_learned_is_the_same():
    pca = DPPCA(2, row_norm=1.0, mean_norm=1.0)
    private = pca.plan(1000, 5).releases
    public = matched_noise(pca, n_samples=1000, n_public=50).plan(50, 5).releases
    for one, other in zip(private, public, strict=True):
        per_row = 1 if one.name == "mean" else 1000
        per_public = 1 if one.name == "mean" else 50
        assert other.noise_std / per_public == pytest.approx(one.noise_std / per_row, rel=1e-3)


def test_every_private_step_of_a_pipeline_is_matched():
    pipeline = make_pipeline(DPPCA(2), DPTraceRegressor(epsilon=3.0))
    matched = matched_noise(pipeline, n_samples=1000, n_public=100)
    for (_, ours), (_, theirs) in zip(pipeline.steps, matched.steps, strict=True):
        assert mu_of(theirs) == pytest.approx(10 * mu_of(ours), rel=1e-6)


def test_a_total_is_shared_as_the_steps_share_theirs():
    pipeline = make_pipeline(DPPCA(2), DPTraceRegressor(epsilon=3.0))
    planned = _with_epsilon(pipeline, 2.0)
    before, after = (
        np.array([mu_of(step) for step in private_steps(one).values()])
        for one in (pipeline, planned)
    )
    np.testing.assert_allclose(after / after[0], before / before[0], rtol=1e-6)
    whole = mu_of(DPPCA(2, epsilon=2.0))
    assert np.linalg.norm(after) == pytest.approx(whole, rel=1e-6)
    assert np.linalg.norm(after) <= whole


def test_a_curve_tells_what_each_epsilon_buys():
    X = load_digits().data[:300]
    pca = DPPCA(5, row_norm=40, mean_norm=60)
    curve = epsilon_curve(
        pca, X, epsilons=[0.05, 1, 20], n_samples=1500, n_repeats=5, random_state=0
    )
    assert curve.scores.shape == (3, 5)
    np.testing.assert_allclose(curve.mean, curve.scores.mean(axis=1))
    assert (np.diff(curve.mean) > 0).all()


def test_what_has_nothing_to_match_is_refused(ledger):
    sizes = {"n_samples": 100, "n_public": 10}
    for wrong, told in (
        (Ridge(), "has no private step"),
        (DPPCA(ledger=ledger), "ledger must be None"),
        (make_pipeline(DPPCA(ledger=ledger), Ridge()), "dppca__ledger must be None"),
        (DPPCA(epsilon=np.inf), "epsilon must be finite"),
    ):
        with pytest.raises(ValueError, match=told):
            matched_noise(wrong, **sizes)
        with pytest.raises(ValueError, match=told):
            epsilon_curve(wrong, np.zeros((10, 2)), epsilons=[1], n_samples=100)
    for epsilons in ([0], [np.inf], [[1]], []):
        with pytest.raises(ValueError, match="epsilons must be a list of positive"):
            epsilon_curve(DPPCA(), np.zeros((10, 2)), epsilons=epsilons, n_samples=100)


@pytest.mark.parametrize(
    "wrong",
    [
        DPTruncatedSVD(2, privacy_unit=Entry((0, 1))),
        DPTruncatedSVD(2, privacy_unit=SparseRow(3, (0, 1))),
        DPLowRankFactorizer(2),
        DPLowRankFactorizer(2, privacy_unit=FrobeniusChange(0.1)),
    ],
)
def test_what_is_no_sum_over_rows_is_not_matched(wrong):
    # Their noise does not average out over rows: fits to few would have far too little.
    with pytest.raises(ValueError, match="cannot be matched"):
        matched_noise(wrong, n_samples=100, n_public=10)


def test_users_are_matched_by_their_numbers_and_have_no_curve():
    personal = DPPersonalizedRegressor(2)
    matched = matched_noise(personal, n_samples=1000, n_public=100)
    assert mu_of(matched) == pytest.approx(10 * mu_of(personal), rel=1e-6)
    with pytest.raises(ValueError, match="users are not to be split"):
        epsilon_curve(personal, np.zeros((10, 2)), np.zeros(10), epsilons=[1], n_samples=100)


def rows_of_users():
    X = load_digits().data[:300]
    return X, np.random.default_rng(0).integers(0, 60, len(X))


STEPS = {
    "pca": DPPCA(5, row_norm=40, mean_norm=60, privacy_unit="user"),
    "pipeline": make_pipeline(
        DPStandardScaler(bounds=(0, 16), privacy_unit="user"), DPPCA(5, privacy_unit="user")
    ),
    "one budget": make_dp_pipeline(
        DPStandardScaler(bounds=(0, 16), privacy_unit="user"), DPPCA(5, privacy_unit="user")
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_curve_of_users_splits_and_counts_users(name, monkeypatch):
    (X, users), seen = rows_of_users(), []
    fit = DPPCA._validate

    def watched(step, X, y, users=None):
        seen.append((set(users.tolist()), step._cost().mu))
        return fit(step, X, y, users)

    monkeypatch.setattr(DPPCA, "_validate", watched)
    given = {"epsilons": [1], "n_samples": 450, "n_repeats": 2, "random_state": 0}
    curve = epsilon_curve(STEPS[name], X, users=users, **given)
    assert np.isfinite(curve.scores).all()
    assert {len(train) for train, _ in seen} == {45}
    if name == "pca":
        assert seen[0][1] == pytest.approx(10 * mu_of(DPPCA()), rel=1e-6)


def test_a_curve_needs_ids_where_users_are_protected_and_nowhere_else():
    X, users = rows_of_users()
    given = {"epsilons": [1], "n_samples": 450}
    with pytest.raises(ValueError, match="privacy_unit='user' needs users"):
        epsilon_curve(STEPS["pca"], X, **given)
    with pytest.raises(ValueError, match="users is for privacy_unit='user'"):
        epsilon_curve(DPPCA(5), X, users=users, **given)
    with pytest.raises(ValueError, match="users has 3 ids"):
        epsilon_curve(STEPS["pca"], X, users=users[:3], **given)
    mixed = make_pipeline(DPStandardScaler(), STEPS["pca"])
    with pytest.raises(ValueError, match="in all private steps, or in none"):
        matched_noise(mixed, n_samples=100, n_public=10)


def test_users_are_matched_as_rows_are():
    of_users, of_rows = STEPS["pca"], DPPCA(5, row_norm=40, mean_norm=60)
    sizes = {"n_samples": 1000, "n_public": 100}
    assert matched_noise(of_users, **sizes).epsilon == matched_noise(of_rows, **sizes).epsilon


def test_sizes_too_far_apart_are_refused():
    for sizes in ((10, 10**12), (10**250, 1)):
        with pytest.raises(ValueError, match="too far apart"):
            matched_noise(DPPCA(2), n_samples=sizes[0], n_public=sizes[1])


def test_a_search_is_not_matched_and_a_frozen_step_stays():
    searches = DPGridSearch(DPPCA(2), {}), GridSearchCV(DPPCA(2), {})
    for search in (*searches, make_pipeline(searches[0])):
        with pytest.raises(ValueError, match="hand the result to GridSearchCV"):
            matched_noise(search, n_samples=100, n_public=10)
    frozen = FrozenEstimator(DPPCA(2).fit(np.eye(9, 4)))
    matched = matched_noise(make_pipeline(frozen, DPTraceRegressor()), n_samples=100, n_public=10)
    assert mu_of(matched.steps[1][1]) == pytest.approx(10 * mu_of(DPTraceRegressor()), rel=1e-6)
    assert matched.steps[0][1].estimator.epsilon == 1.0


@pytest.mark.covered(at_most=4)
@pytest.mark.parametrize("tail", [0.0, 0.1, 0.9])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1])
def test_the_largest_epsilon_never_costs_more(delta, tail):
    for mu in np.geomspace(1e-6, 1e3, 200):
        found = largest_epsilon(mu, delta, tail * delta)
        if found > 0:
            cost = mu_from_epsilon_delta(found, delta, tail * delta)
            assert cost <= mu
            assert cost == pytest.approx(mu, rel=1e-6)
