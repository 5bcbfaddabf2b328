"""Audits of iterations and of whole fits: what they reveal stays below the claim."""

import math

import numpy as np
import pytest

from skdp import DPTruncatedSVD
from skdp.privacy import PrivacyBudget, sensitivity
from skdp.privacy.plan import PrivacyCost
from skdp.testing import lower_bound_of_epsilon, lower_bound_of_mu
from skdp.units import Edge, Entry

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")]

N_DRAWS, N_STEPS = 400_000, 4
DELTA = 0.01
EPSILON = 1.0
# On two nodes an edge moves both rows of a product.
EDGE = np.array([[0.0, 1.0], [1.0, 0.0]])
ENTRY = np.array([[1.0, 0.0], [0.0, 0.0]])


def step_shares():
    """Shares of the steps of an iteration that has the whole budget."""
    svd = DPTruncatedSVD(1, privacy_unit=Edge((0, 1)), solver="power", n_iter=N_STEPS)
    lines = svd.plan(n_samples=2, n_features=2).releases
    shares = [line.share for line in lines if line.name.startswith("product")]
    assert len(shares) == N_STEPS
    return np.array(shares) / math.fsum(shares)


def edge_of_batch(vectors):
    """Compute `edge_product` for many bases of two rows and one column."""
    return np.hypot(*np.abs(vectors).T)


def edge_of_batch_l1(vectors):
    return np.abs(vectors).sum(axis=1)


def entry_of_batch(vectors):
    return np.abs(vectors).max(axis=1)


def privacy_losses(change, declared, budget, mechanism, shrink=1.0):
    """Log-likelihood ratios of transcripts of noisy products, drawn with a matrix of zeros.

    Each product is with the last one, as in the iterations, at the scales of the budget.
    """
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(N_DRAWS, 2))
    losses = np.zeros(N_DRAWS)
    for step, share in enumerate(step_shares()):
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        unit = budget.noise_std(1.0, share, mechanism=mechanism)
        scales = shrink * unit * declared(vectors)
        # An alternating iteration multiplies by the transpose in turn.
        shifts = vectors @ (change if step % 2 else change.T)
        if mechanism == "gaussian":
            noise = generator.normal(size=vectors.shape) * scales[:, None]
            losses += (np.square(noise - shifts) - np.square(noise)).sum(axis=1) / scales**2 / 2
        else:
            scales = scales / math.sqrt(2)
            noise = generator.laplace(size=vectors.shape) * scales[:, None]
            losses += (np.abs(noise - shifts) - np.abs(noise)).sum(axis=1) / scales
        vectors = noise
    return losses


def delta_of(losses):
    """Estimate delta at EPSILON, with three standard errors."""
    parts = np.maximum(-np.expm1(EPSILON - losses), 0.0)
    return parts.mean(), 3 * parts.std() / math.sqrt(len(parts))


def open_budget(delta):
    return PrivacyBudget(EPSILON, delta, unit="edge", adjacency="replace")


def test_batches_have_the_sensitivities_of_the_library():
    vectors = np.random.default_rng(1).normal(size=(200, 2))
    for batch, single in (
        (edge_of_batch, sensitivity.edge_product),
        (edge_of_batch_l1, sensitivity.edge_product_l1),
        (entry_of_batch, sensitivity.entry_product),
    ):
        expected = [single(1.0, np.abs(vector)) for vector in vectors]
        np.testing.assert_allclose(batch(vectors), expected, rtol=1e-14)


def test_transcripts_of_the_iteration_reach_delta_and_do_not_exceed_it():
    losses = privacy_losses(EDGE, edge_of_batch, open_budget(DELTA), "gaussian")
    estimate, margin = delta_of(losses)
    # On two nodes every product moves by just as much as declared.
    assert 0.9 * DELTA < estimate <= DELTA + margin
    losses = privacy_losses(ENTRY, entry_of_batch, open_budget(DELTA), "gaussian")
    estimate, margin = delta_of(losses)
    assert 0.1 * DELTA < estimate <= DELTA + margin


@pytest.mark.parametrize(
    ("declared", "shrink"), [(edge_of_batch, 0.7), (entry_of_batch, 1.0)], ids=["noise", "entry"]
)
def test_transcripts_with_too_little_noise_exceed_delta(declared, shrink):
    losses = privacy_losses(EDGE, declared, open_budget(DELTA), "gaussian", shrink)
    estimate, margin = delta_of(losses)
    assert estimate > 1.5 * DELTA + margin


def test_transcripts_of_pure_iterations_never_lose_more_than_epsilon():
    for change, declared in ((EDGE, edge_of_batch_l1), (ENTRY, entry_of_batch)):
        losses = privacy_losses(change, declared, open_budget(0), "laplace")
        assert 0.8 * EPSILON < np.abs(losses).max() <= EPSILON * (1 + 1e-9)


@pytest.mark.parametrize(
    ("declared", "shrink"),
    [(edge_of_batch_l1, 0.7), (edge_of_batch, 1.0), (entry_of_batch, 1.0)],
    ids=["noise", "Euclidean", "entry"],
)
def test_transcripts_of_pure_iterations_with_too_little_noise_lose_more(declared, shrink):
    losses = privacy_losses(EDGE, declared, open_budget(0), "laplace", shrink)
    assert np.abs(losses).max() > 1.2 * EPSILON


N_FITS = 500
# What is changed, the entry that tells, and the threshold of a guess that it is there.
WHOLE_FITS = {
    "entry": (
        {"privacy_unit": Entry((0, 1)), "solver": "input", "epsilon": 8.0},
        ENTRY,
        (0, 0),
        0.05,
    ),
    "edge": ({"privacy_unit": Edge((0, 1)), "solver": "power", "epsilon": 60.0}, EDGE, (0, 1), 0.5),
    "pure": (
        {"privacy_unit": Edge((0, 1)), "solver": "power", "epsilon": 60.0, "delta": 0},
        EDGE,
        (0, 1),
        0.5,
    ),
}


def errors_of(name, seed=2**100):
    """Count both errors of a guess from the attributes."""
    parameters, change, index, threshold = WHOLE_FITS[name]
    estimator = DPTruncatedSVD(2, n_iter=1, **parameters)

    def guesses(X, first_seed):
        for seed in range(first_seed, first_seed + N_FITS):
            fitted = estimator.set_params(random_state=seed).fit(X)
            factors = (fitted.left_components_ * fitted.singular_values_) @ fitted.components_
            yield factors[index] > threshold

    misses = N_FITS - sum(guesses(change, seed))
    false_alarms = sum(guesses(0 * change, 2 * seed))
    return misses, false_alarms


def proven_share(name, **more):
    """What the guesses prove, over what is claimed."""
    parameters = WHOLE_FITS[name][0]
    errors = errors_of(name, **more)
    if parameters.get("delta") == 0:
        proved = lower_bound_of_epsilon(errors, N_FITS, delta=0, confidence=0.99)
        return proved / parameters["epsilon"]
    budget = PrivacyBudget(parameters["epsilon"], 1e-6, unit="edge", adjacency="replace")
    return lower_bound_of_mu(errors, N_FITS, confidence=0.99) / budget.cost.mu


@pytest.mark.parametrize(("name", "least"), [("entry", 0.25), ("edge", 0.01), ("pure", 0.003)])
def test_whole_fits_reveal_no_more_than_claimed(name, least):
    # An iteration does not publish its products, which have most of the budget.
    assert least < proven_share(name) <= 1


def test_whole_fits_with_too_little_noise_are_caught(monkeypatch):
    noise_std = PrivacyCost.noise_std
    monkeypatch.setattr(PrivacyCost, "noise_std", lambda *args: 0.5 * noise_std(*args))
    assert proven_share("entry") > 1
