"""Covariances that are shrunk toward published ones."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.covariance import EmpiricalCovariance
from sklearn.decomposition import PCA
from sklearn.utils._testing import ignore_warnings

from skdp import DPPCA
from skdp.covariance import DPCovariance
from skdp.linalg.denoising import toward_prior
from skdp.model_selection import privacy_spent
from skdp.units import Entry

KEY, D = 2**70, 20
MAP = np.random.default_rng(0).normal(size=(D, D)) * np.linspace(2, 0.2, D)
STDS = np.linalg.norm(MAP, axis=1)
CORRELATIONS = MAP @ MAP.T / np.outer(STDS, STDS)


def rows(n, seed):
    return np.random.default_rng(seed).normal(size=(n, D)) @ MAP.T + 3


PUBLIC = EmpiricalCovariance().fit(rows(200, 1))


def errors(prior, epsilon, n_fits=5):
    X = rows(4000, 2)
    given = {"prior": prior, "epsilon": epsilon}
    fits = [DPCovariance(random_state=KEY + s, **given).fit(X) for s in range(n_fits)]
    far = [np.linalg.norm(fit.correlation_ - CORRELATIONS) for fit in fits]
    return np.mean(far), np.mean([fit.prior_weight_ for fit in fits])


@ignore_warnings
def test_a_good_prior_helps_with_little_budget():
    (plain, none), (better, weight) = errors(None, 0.25), errors(PUBLIC, 0.25)
    assert better < 0.8 * plain
    assert (none, weight > 0.3) == (0, True)


@ignore_warnings
@pytest.mark.parametrize("epsilon", [0.25, 1.0])
def test_a_bad_prior_costs_little(epsilon):
    bad = np.zeros(D), 50.0 * np.ones((D, D))
    (plain, _), (other, _) = errors(None, epsilon), errors(bad, epsilon)
    assert other < 1.15 * plain


def test_the_part_of_a_distance_that_noise_explains_is_taken():
    generator, everywhere = np.random.default_rng(0), np.ones(D, dtype=bool)
    truth, noise = np.corrcoef(MAP), 0.3 * np.ones((D, D))
    errors = 0.3 * generator.normal(size=(D, D)) * (1 - np.eye(D))
    released = truth + (errors + errors.T) / np.sqrt(2)
    # In any units.
    prior = truth * np.outer(np.arange(1, D + 1), np.arange(1, D + 1))
    found, left, taken = toward_prior(released, noise, prior, everywhere)
    assert taken > 0.8
    assert np.linalg.norm(found - truth) < 0.5 * np.linalg.norm(released - truth)
    np.testing.assert_allclose(left[~np.eye(D, dtype=bool)], 0.3 * (1 - taken))
    same, _, none = toward_prior(released, 0 * noise, prior, everywhere)
    assert none == 0
    assert (same == released).all()
    # Columns that are not seen, or do not vary in the prior, stay.
    prior[3] = prior[:, 3] = 0
    found, _, taken = toward_prior(released, noise, prior, np.arange(D) != 5)
    assert taken > 0
    assert (found[[3, 5]] == released[[3, 5]]).all()


@ignore_warnings
def test_priors_of_other_kinds_say_the_same():
    X = rows(500, 1)
    own, pca = EmpiricalCovariance().fit(X), PCA().fit(X)
    values = own.location_, own.covariance_
    for prior in (pca, DPCovariance(epsilon=np.inf).fit(X), values):
        model = clone(DPCovariance(prior=prior))
        np.testing.assert_allclose(model.prior[0], own.location_, rtol=1e-9)
        np.testing.assert_allclose(model.prior[1], own.covariance_, rtol=0.01)
    fitted = DPCovariance(prior=values).fit(X)
    assert "prior" in privacy_spent(fitted).steps[0].note


@pytest.mark.parametrize(
    ("prior", "match"),
    [
        (EmpiricalCovariance(), "a clone has undone it"),
        (np.eye(D), "prior must be an EmpiricalCovariance, a PCA or a tuple"),
        ((np.zeros(3), np.eye(3)), r"shape \(3,\) where X asks for \(20,\)"),
        ((np.zeros(D), np.full((D, D), np.inf)), "finite numbers"),
        ((np.zeros(D), np.triu(np.ones((D, D)))), "a symmetric matrix"),
    ],
)
def test_other_priors_are_refused_before_anything_is_spent(prior, match):
    model = DPCovariance(prior=prior)
    with pytest.raises(ValueError, match=match):
        model.fit(rows(50, 3))
    assert not hasattr(model, "privacy_spent_")


@ignore_warnings
@pytest.mark.parametrize("model", [DPCovariance(), DPPCA(2)])
def test_a_prior_of_other_columns_is_refused(model):
    X = pd.DataFrame(rows(50, 3), columns=[f"x{place}" for place in range(D)])
    model = clone(model).set_params(prior=EmpiricalCovariance().fit(X))
    model.fit(X)
    model.fit(X.to_numpy())
    with pytest.raises(ValueError, match="must have the names of features"):
        model.fit(X.iloc[:, ::-1])


# ------------------------------
# Components.


def captured(prior, epsilon, n_fits=5):
    X, basis = rows(4000, 2), []
    for seed in range(n_fits):
        fit = DPPCA(4, epsilon=epsilon, prior=prior, random_state=KEY + seed).fit(X)
        basis.append(fit.components_)
    best = np.linalg.eigvalsh(MAP @ MAP.T)[-4:].sum()
    return np.mean([np.trace(V @ MAP @ MAP.T @ V.T) / best for V in basis])


@ignore_warnings
def test_components_toward_a_prior_capture_more_and_a_bad_one_costs_little():
    public = PCA().fit(rows(200, 1))
    bad = np.zeros(D), np.diag(np.arange(1.0, D + 1))
    plain, better, other = (captured(prior, 0.25) for prior in (None, public, bad))
    assert better > plain + 0.005
    assert other > plain - 0.03


@ignore_warnings
def test_components_are_cloned_with_their_prior():
    X = rows(500, 1)
    model = clone(clone(DPPCA(2, prior=PCA().fit(X)))).fit(X)
    assert 0 < model.prior_weight_ <= 1
    assert not hasattr(DPPCA(2).fit(X), "prior_weight_")
    assert DPPCA(2, prior=PUBLIC, epsilon=np.inf).fit(X).prior_weight_ == 0


@pytest.mark.parametrize("more", [{"solver": "power"}, {"privacy_unit": Entry((-1, 1))}])
def test_components_without_a_whole_moment_take_no_prior(more):
    with pytest.raises(ValueError, match="prior is for privacy_unit='row' or 'user' and solver"):
        DPPCA(2, prior=PUBLIC, **more).fit(rows(50, 1))
