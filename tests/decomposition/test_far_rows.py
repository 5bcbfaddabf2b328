"""Rows far from 0: a mean whose noise exceeds their spread, errors of components, and ranks."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from skdp import DPPCA, DPStandardScaler, PrivacyWarning, make_dp_pipeline
from skdp.federated import Federation
from skdp.metrics import captured_variance

K = 2
SPREADS = np.r_[3, 2, np.ones(8)]


def rows(offset, n=20_000, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(n, len(SPREADS))) * SPREADS + offset * random.random(len(SPREADS))


def captured(pca, X):
    """Part of the variance of the best components."""
    centered = X - X.mean(axis=0)
    best = captured_variance(PCA(K).fit(X).components_, centered)
    return captured_variance(pca.components_, centered) / best


def releases(pca):
    return [release.name for release in pca.privacy_spent_.releases]


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
@pytest.mark.parametrize("solver", ["covariance", "power"])
@pytest.mark.parametrize("offset", [30, 300])
def test_rows_far_from_0_are_centered_again(offset, solver):
    pca = DPPCA(K, epsilon=1.0, solver=solver).fit(rows(offset))
    assert captured(pca, rows(offset)) > (0.9 if solver == "power" else 0.99)


def test_the_second_mean_is_released_where_the_first_is_too_noisy():
    far, near = (DPPCA(K, epsilon=1.0).fit(rows(offset)) for offset in (300, 0))
    assert "mean again" in releases(far)
    assert "row norm again, counts 1" in releases(far)
    assert "mean again" not in releases(near)


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_sparse_counts_are_not_far():
    """The second mean would cost more than the noise of the first: .05 to .1 of the variance."""
    random = np.random.default_rng(0)
    chances = np.exp(1.2 * random.normal(size=(943, 1))) * 0.4 / (1 + np.arange(400) / 200)
    X = (random.random(chances.shape) < chances).astype(float)
    assert "mean again" not in releases(DPPCA(K, epsilon=2.0).fit(X))


def of_users(pca, X):
    """Fit to users with two rows, which count together as one."""
    return pca.set_params(privacy_unit="user").fit(X, users=np.arange(len(X)) // 2)


def of_owners(pca, X):
    federation = Federation(pca, *X.shape, owners=3, aggregator="trusted")
    return federation.fit([X[i::3] for i in range(3)])


@pytest.mark.parametrize("fitted", [of_users, of_owners])
def test_rows_of_users_and_owners_are_centered_again(fitted):
    pca = fitted(DPPCA(K), rows(300))
    assert "mean again" in releases(pca)
    assert captured(pca, rows(300)) > 0.97


@pytest.mark.parametrize("fitted", [of_users, of_owners])
def test_at_a_large_budget_rows_of_users_and_owners_are_not_clipped(fitted):
    X = rows(0)
    small, large = (fitted(DPPCA(K, epsilon=epsilon), X).row_norm_ for epsilon in (0.5, 256.0))
    norms = np.linalg.norm(X - X.mean(axis=0), axis=1)
    assert np.mean(norms > small) > 0.015
    assert np.mean(norms > large) < 0.002


def test_public_bounds_decide_before_the_fit():
    names = [
        [release.name for release in DPPCA(K, mean_norm=norm, row_norm=1.0).plan(5000, 10).releases]
        for norm in (1.0, 1e4)
    ]
    assert names == [["mean", "second moment"], ["mean", "mean again", "second moment"]]
    for norm in (1.0, 1e4):
        assert (
            len(DPPCA(K, mean_norm=norm, row_norm=1.0).plan(5000, 10).parts.branches.branches) == 1
        )


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_constant_rows_have_no_component():
    for offset in (1.0, 1e4):
        angles = []
        for seed in range(20):
            pca = DPPCA(0.9, solver="covariance", random_state=2**100 + seed)
            pca.fit(np.full((5000, 6), offset))
            assert pca.n_components_ == 1  # the least
            angles.append(pca.components_noise_angle_[0])
        assert np.mean(np.isclose(angles, np.pi / 2)) >= 0.9


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 64.0])
def test_of_constant_rows_a_fit_says_that_nothing_stands_out(epsilon):
    for seed in range(12):
        with pytest.warns(PrivacyWarning, match="Only 0 of 2 components stand out"):
            DPPCA(2, epsilon=epsilon, random_state=2**100 + seed).fit(np.full((2000, 6), 5.0))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
@pytest.mark.parametrize("epsilon", [0.25, 1.0])
@pytest.mark.parametrize("offset", [0, 30, 300])
def test_errors_of_components_count_the_noise_of_the_mean(offset, epsilon):
    X, within = rows(offset), []
    for _ in range(60):
        pca = DPPCA(K, epsilon=epsilon, solver="covariance").fit(X)
        centered = X - pca.mean_
        norms = np.linalg.norm(centered, axis=1, keepdims=True)
        centered *= np.minimum(pca.row_norm_ / norms, 1)
        variances, vectors = np.linalg.eigh(np.cov(centered.T))
        for j in range(K):
            cosine = min(abs(pca.components_[j] @ vectors[:, -1 - j]), 1.0)
            angle = np.arccos(cosine) <= pca.components_noise_angle_[j]
            error = abs(pca.explained_variance_[j] - variances[-1 - j])
            within.append((angle, error <= 1.96 * pca.explained_variance_std_error_[j]))
    # Of 95%; four standard errors of 120 outcomes below .92.
    assert (np.mean(within, axis=0) > 0.82).all()


# At epsilon .25 one fit in some twenty warns of long rows that are not there.
@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 16.0, 256.0])
@pytest.mark.parametrize("offset", [0, 30])
def test_the_most_likely_rank_is_that_of_a_clear_spectrum(offset, epsilon):
    found = DPPCA("mle", epsilon=epsilon).fit(rows(offset)).n_components_
    assert abs(found - K) <= 1


@pytest.mark.parametrize("k", [2, 5])
def test_at_a_large_budget_nothing_is_clipped_away(k):
    """Rows of a few heavy columns, whose longest rows hold much of the variance."""
    random = np.random.default_rng(0)
    X = random.normal(size=(8000, 12)) * np.exp(0.5 * random.normal(size=(8000, 1)))
    X[:, :k] *= 3
    pca = DPPCA(k, epsilon=256.0).fit(X)
    centered = X - X.mean(axis=0)
    best = captured_variance(PCA(k).fit(X).components_, centered)
    assert captured_variance(pca.components_, centered) > 0.999 * best
    norms = np.linalg.norm(centered, axis=1)
    assert np.mean(norms > pca.row_norm_) < 0.002


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_behind_a_scaler_long_tails_are_kept_at_a_large_budget():
    random = np.random.default_rng(0)
    X = np.exp(random.normal(size=(6000, 6)) @ random.normal(size=(6, 6)) / 2)
    standardized = (X - X.mean(axis=0)) / X.std(axis=0)
    best = captured_variance(PCA(K).fit(standardized).components_, standardized)
    found = []
    for epsilon in (16.0, 256.0):
        pca = make_dp_pipeline(DPStandardScaler(), DPPCA(K), epsilon=epsilon).fit(X)[-1]
        found.append(captured_variance(pca.components_, standardized) / best)
    assert found[1] > 0.98
    assert found[1] > found[0] - 0.01
