"""Components behind a scaler: its noisy scales are corrected by the moment that they release."""

import numpy as np
import pytest

from skdp import (
    DPPCA,
    DPCovariance,
    DPLogisticRegression,
    DPStandardScaler,
    DPTruncatedSVD,
    make_dp_pipeline,
)
from skdp.decomposition.rows.moments import decompose
from skdp.model_selection import DPGridSearch
from skdp.model_selection._fits import fit_candidates, prepare_search
from skdp.privacy.plan import PrivacyCost

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")


def table(seed, n=3000):
    """Columns in many units, two of them rare: their scales are noisy."""
    random = np.random.default_rng(seed)
    common = random.normal(size=(n, 2))
    X = common @ random.normal(size=(2, 8)) + 0.5 * random.normal(size=(n, 8))
    rare = (common + random.normal(size=(n, 2)) > 2.5).astype(float)
    return np.hstack([X * 10.0 ** np.arange(-4, 4), rare])


def standardized(X):
    centered = X - X.mean(axis=0)
    return centered / centered.std(axis=0)


def captured(components, moment, k=2):
    """The part of what the best k components hold, that these hold."""
    basis = np.linalg.qr(np.asarray(components)[:k].T)[0]
    return np.trace(basis.T @ moment @ basis) / np.linalg.eigvalsh(moment)[-k:].sum()


@pytest.mark.parametrize("kind", [DPPCA, DPTruncatedSVD])
def test_components_are_those_of_standardized_columns(kind):
    found = []
    for seed in range(8):
        X = table(seed)
        model = make_dp_pipeline(DPStandardScaler(), kind(2), epsilon=0.5).fit(X)
        found.append(captured(model[-1].components_, np.cov(standardized(X).T)))
    # With the scales as the scaler has released them it is .5 to .62, in 5 times 8 seeds.
    assert np.mean(found) > 0.66


def with_constant_columns(seed, n=4000, n_constant=6):
    """Groups of three columns, whose last components hold less than a column, beside constants."""
    random = np.random.default_rng(seed)
    groups = np.repeat(random.normal(size=(n, 4)), 3, axis=1) + 0.7 * random.normal(size=(n, 12))
    return np.hstack([groups * 10.0 ** np.arange(-6, 6), np.full((n, n_constant), 7.0)])


@pytest.mark.parametrize("n_constant", [1, 6, 20])
@pytest.mark.parametrize("epsilon", [256.0, np.inf])
def test_constant_columns_take_the_place_of_no_component(epsilon, n_constant):
    X = with_constant_columns(0, n_constant=n_constant)
    moment = np.cov(standardized(X[:, :12]).T)
    model = make_dp_pipeline(DPStandardScaler(), DPPCA(8), epsilon=epsilon).fit(X)
    released = DPCovariance(epsilon=np.inf).fit(X)
    for pca in (model[-1], released.components(8, scale=True)[-1]):
        assert np.linalg.norm(pca.components_[:, 12:]) < 0.1
        # With variances of 1 for constant columns it is .87.
        assert captured(pca.components_[:, :12], moment, 8) > 0.995


def test_rare_columns_keep_their_components():
    rare = np.arange(4000)[:, np.newaxis] % 1000 == np.arange(6)  # four rows each
    X = np.hstack([with_constant_columns(0, n_constant=0), 1.0 * rare])
    model = make_dp_pipeline(DPStandardScaler(), DPPCA(10), epsilon=256.0).fit(X)
    moment = np.cov(standardized(X).T)
    assert captured(model[-1].components_, moment, 10) > 0.98


def one_hot(random, n, sizes):
    common, columns = random.normal(size=(n, 2)), []
    for size in sizes:
        odds = common @ random.normal(size=(2, size)) + np.log(random.dirichlet(np.ones(size)))
        columns.append(np.eye(size)[(odds + random.gumbel(size=odds.shape)).argmax(axis=1)])
    X = np.hstack(columns)
    return X[:, X.std(axis=0) > 0]


def test_scales_of_directions_that_stand_out_have_less_noise_than_the_diagonal():
    found = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        d, n, noise = 25, 2000, 1000
        common = random.normal(size=(d, 3)) * [2, 1.4, 1]
        moment = common @ common.T + np.diag(0.2 + 0.5 * random.random(d))
        roots = np.sqrt(np.diag(moment))
        moment *= n / np.outer(roots, roots)
        scales = np.exp(0.6 * random.normal(size=d))
        symmetric = random.normal(size=(d, d))
        noisy = moment / np.outer(scales, scales) + noise * (symmetric + symmetric.T) / 2
        components = decompose(noisy, noise, 3, scaled_rows=n).components
        found.append(captured(components, moment, 3))
    # With the diagonal of the noisy moment it is .78 to .82, in ten times 20 seeds.
    assert np.mean(found) > 0.845


@pytest.mark.parametrize("noise", [0.1, 0.3, 1.0])
def test_wide_tables_with_few_rows_lose_nothing(noise):
    changes = []
    for seed in range(6):
        random = np.random.default_rng(seed)
        rows = standardized(one_hot(random, 800, [8] * 12))
        moment, d = rows.T @ rows, rows.shape[1]
        scales = np.exp(0.3 * random.normal(size=d))
        symmetric = random.normal(size=(d, d))
        symmetric = (symmetric + symmetric.T) / 2
        noisy = moment * np.outer(scales, scales) + noise * len(rows) * symmetric
        before, after = (
            captured(decompose(noisy, noise * len(rows), 2, scaled_rows=n).components, moment)
            for n in (0, len(rows))
        )
        changes.append(after - before)
    assert np.mean(changes) > -0.01


def test_angles_and_errors_hold_where_scales_are_corrected():
    within = []
    for seed in range(40):
        random = np.random.default_rng(seed)
        d, n, noise = 12, 3000, 100
        common = random.normal(size=(d, 2)) * [3, 1.5]
        moment = common @ common.T + np.diag(1 + random.random(d))
        roots = np.sqrt(np.diag(moment)) * np.exp(0.5 * random.normal(size=d))
        moment *= n / np.outer(roots, roots)
        symmetric = random.normal(size=(d, d))
        noisy = moment + noise * (symmetric + symmetric.T) / 2
        found = decompose(noisy, noise, 2, scaled_rows=n)
        values, vectors = np.linalg.eigh(moment / np.outer(found.scales, found.scales))
        for j in range(2):
            cosine = min(abs(vectors[:, -1 - j] @ found.components[j]), 1.0)
            error = abs(values[-1 - j] - found.eigenvalues[j])
            within.append(
                (
                    np.arccos(cosine) <= found.noise_errors[1][j],
                    error <= 1.96 * found.noise_errors[0][j],
                )
            )
    # Of 95%.
    assert (np.mean(within, axis=0) > 0.84).all()


def projected_by(scaler, pca, X):
    scaled = np.clip((X - scaler.mean_) / scaler.scale_, -scaler.clip_, scaler.clip_)
    return (scaled - pca.mean_) @ pca.components_.T


def test_rows_are_projected_as_those_of_the_fit(monkeypatch):
    X, seen = table(0), []
    spec = DPLogisticRegression._validate
    monkeypatch.setattr(
        DPLogisticRegression,
        "_validate",
        lambda self, X, *more, **users: (seen.append(X), spec(self, X, *more, **users))[1],
    )
    model = make_dp_pipeline(
        DPStandardScaler(), DPPCA(2), DPLogisticRegression(classes=[0, 1]), epsilon=1.0
    ).fit(X, X[:, 0] > 0)
    scaler, pca = model[0], model[1]
    projected = projected_by(scaler, pca, X)
    np.testing.assert_allclose(model[:2].transform(X), projected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(seen[-1], model[:2].transform(X))
    np.testing.assert_allclose(scaler.var_, scaler.scale_**2)


def models_of(grid):
    pipeline = make_dp_pipeline(DPStandardScaler(), DPPCA(2))
    search = prepare_search(pipeline, grid, table(0), cost=PrivacyCost(2.0, 1e-6))
    return fit_candidates(search, None, {})


def test_candidates_of_one_fit_correct_alike_and_others_not_at_all():
    one, two = models_of([{"dppca__n_components": k} for k in (1, 2)])
    assert one[0] is not two[0]
    np.testing.assert_array_equal(one[0].scale_, two[0].scale_)
    # Where each would have scales of its own, losses of rows could not be compared.
    small, large = models_of([{"dppca__row_norm": norm} for norm in (2.0, 6.0)])
    assert small[0] is large[0]


def test_the_chosen_candidate_corrects_in_its_last_fit():
    grid = {"dppca__row_norm": [2.0, 6.0]}
    pipeline = make_dp_pipeline(DPStandardScaler(), DPPCA(2))
    search = DPGridSearch(pipeline, grid, epsilon=8.0).fit(table(0))
    scaler, pca = search.best_estimator_[0], search.best_estimator_[1]
    projected = projected_by(scaler, pca, table(0))
    np.testing.assert_allclose(search.transform(table(0)), projected, rtol=1e-9, atol=1e-9)


def test_without_noise_nothing_is_corrected():
    X = table(0)
    model = make_dp_pipeline(DPStandardScaler(), DPPCA(2), epsilon=np.inf).fit(X)
    np.testing.assert_allclose(model[0].scale_, X.std(axis=0))
