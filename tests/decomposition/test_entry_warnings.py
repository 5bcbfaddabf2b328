"""Whoever protects entries, edges or interactions hears of it when noise is all that is left."""

import re
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skdp import DPPCA, DPLowRankFactorizer, DPTruncatedSVD, PrivacyWarning
from skdp.datasets import make_block_graph, make_interactions
from skdp.linalg.spectrum import gaussian_norm, spherical_norm
from skdp.privacy.noise import spherical_laplace
from skdp.units import Edge, Entry, Interaction, SpectralChange

KEY = 2**100 + 29
ENTRY = {"privacy_unit": Entry((0, 1))}
EDGE = {"privacy_unit": Edge((0, 1))}
N_EMPTY = 200


def n_found(make, X, k, seed, **parameters):
    """Count the components that stand out, by the warning of the fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PrivacyWarning)
        fitted = make(k, random_state=KEY + seed, **{"delta": 1e-7, **parameters}).fit(X)
    said = re.findall(r"Only (\d+) of", " ".join(str(warning.message) for warning in caught))
    return (int(said[0]) if said else k), fitted


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters",
    [
        ENTRY,
        {**ENTRY, "delta": 0.0},
        {**ENTRY, "solver": "input"},
        EDGE,
        {**EDGE, "delta": 0.0},
        {"privacy_unit": Interaction(), "solver": "power"},
        {"privacy_unit": Interaction(), "solver": "covariance"},
        {"privacy_unit": SpectralChange()},
    ],
    ids=lambda parameters: " ".join(map(str, parameters.values())),
)
def test_a_matrix_of_zeros_is_always_warned_of(parameters):
    X = np.zeros((60, 60))
    found = [n_found(DPTruncatedSVD, X, 1, seed, **parameters)[0] for seed in range(N_EMPTY)]
    assert sum(found) == 0


CLEAR = {
    "entry": (DPTruncatedSVD, make_interactions, 1, {**ENTRY, "epsilon": 4.0}),
    "centered": (DPPCA, make_interactions, 1, {**ENTRY, "epsilon": 8.0}),
    "deflation": (DPTruncatedSVD, make_interactions, 1, {**ENTRY, "solver": "deflation"}),
    "input": (DPTruncatedSVD, make_interactions, 1, {**ENTRY, "solver": "input", "epsilon": 8.0}),
    "interaction": (DPTruncatedSVD, make_interactions, 1, {"privacy_unit": Interaction()}),
    "edge": (DPTruncatedSVD, make_block_graph, 2, {**EDGE, "epsilon": 8.0}),
    "edge, delta 0": (DPTruncatedSVD, make_block_graph, 1, {**EDGE, "delta": 0.0}),
}


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("name", CLEAR)
def test_clear_components_are_not_warned_of(name):
    make, draw, k, parameters = CLEAR[name]
    X = draw(random_state=0)
    X = X[0] if isinstance(X, tuple) else X
    for seed in range(2):
        assert n_found(make, X, k, seed, **{"epsilon": 4.0, **parameters})[0] == k


@pytest.mark.parametrize("solver", ["alternating", "deflation", "input"])
def test_components_beyond_the_rank_are_not_counted(solver):
    X = np.ones((200, 150))
    assert n_found(DPTruncatedSVD, X, 3, 0, **{**ENTRY, "solver": solver, "epsilon": 4.0})[0] == 1


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (6, 6), (3, 40), (32, 32)])
def test_gaussian_noise_exceeds_its_norm_once_in_a_thousand_draws(shape):
    draws = np.random.default_rng(0).normal(size=(20_000, *shape))
    norms = np.linalg.svd(draws, compute_uv=False)[:, 0]
    share = np.mean(norms > gaussian_norm(shape, 1.0))
    assert 0 < share < 0.002
    assert_allclose(gaussian_norm(shape, 3.0), 3 * gaussian_norm(shape, 1.0))


@pytest.mark.parametrize("order", [1, 2, 4])
def test_spherical_noise_exceeds_its_norm_once_in_a_thousand_draws(order):
    draws = spherical_laplace(20_000, order**2, bytes(32))
    share = np.mean(np.linalg.norm(draws, axis=1) > spherical_norm((order, order), 1.0))
    assert 0.0003 < share < 0.0018


@pytest.mark.parametrize("n_components", [1, 5])
def test_a_fit_whose_noise_hides_everything_is_zero(n_components):
    """Its largest values, which lie a little beyond the edge of the noise, were kept."""
    X = np.random.default_rng(0).uniform(-1, 1, size=(60, 40))
    unit = Entry((-1, 1), zero_is_missing=False)
    model = DPLowRankFactorizer(n_components, epsilon=0.01, privacy_unit=unit, solver="input")
    with pytest.warns(PrivacyWarning, match="stand"):
        found = [model.fit(X).singular_values_.max() for _ in range(30)]
    # Each fit shows something with a probability of 1/1000.
    assert np.count_nonzero(found) <= 2
