import numpy as np
import pytest
from sklearn import datasets
from sklearn.decomposition import PCA

from skdp.linalg.spectrum import (
    components_for_ratio,
    descending,
    eigenvalue_pushes,
    most_likely_rank,
)


def noisy_spectrum(truth, scale, generator):
    noise = generator.normal(size=(truth.size, truth.size)) * scale
    noise = (noise + noise.T) / np.sqrt(2)  # `scale` beside the diagonal, as the budget's noise
    return np.linalg.eigvalsh(np.diag(truth) + noise)[::-1]


@pytest.mark.parametrize("spikes", [(2.0,), (3.0,), (8.0, 5.0, 3.0)])
@pytest.mark.parametrize("order", [40, 120])
def test_cleaning_takes_the_bias_out_of_spiked_spectra(spikes, order):
    # In units of tau * sqrt(d): a spike below 1 drowns.
    scale = 2.0
    truth = np.zeros(order)
    truth[: len(spikes)] = np.array(spikes) * scale * np.sqrt(order)
    generator = np.random.default_rng(0)
    raw, cleaned = [], []
    for _ in range(20):
        noisy = noisy_spectrum(truth, scale, generator)
        raw.append(noisy[: len(spikes)])
        cleaned.append(descending(noisy - eigenvalue_pushes(noisy, scale))[: len(spikes)])
    biases = [
        np.abs(np.mean(found, axis=0) - truth[: len(spikes)]).mean() for found in (raw, cleaned)
    ]
    assert biases[0] > 0.1 * scale * np.sqrt(order)
    assert biases[1] < 0.35 * biases[0]


@pytest.mark.parametrize("scale", [1e-9, 0.1, 1.0, 10.0, 1e9])
def test_cleaned_spectra_descend_shrink_and_are_not_negative(scale):
    generator = np.random.default_rng(2)
    for _ in range(50):
        eigenvalues = np.sort(generator.normal(size=30) * 10.0 ** generator.uniform(-3, 3, 30))
        eigenvalues = eigenvalues[::-1]
        eigenvalues[4:6] = eigenvalues[4]
        before = eigenvalues.copy()
        cleaned = descending(eigenvalues - eigenvalue_pushes(eigenvalues, scale))
        np.testing.assert_array_equal(eigenvalues, before)
        assert np.isfinite(cleaned).all()
        assert np.all(np.diff(cleaned) <= 0)
        assert np.all(cleaned >= 0)
        assert np.all(cleaned <= np.maximum(eigenvalues, 0))
        # Nothing loses more than the push at the edge of the noise, not even equal eigenvalues.
        assert np.all(cleaned >= (eigenvalues - scale * np.sqrt(30)) * (1 - 1e-12))


@pytest.mark.parametrize("ratio", [0.05, 0.3, 0.5, 0.8, 0.9, 0.99, 0.999])
def test_ratio_takes_as_many_components_as_sklearn(ratio):
    X = datasets.load_digits().data
    ratios = PCA().fit(X).explained_variance_ratio_
    expected = PCA(n_components=ratio, svd_solver="full").fit(X).n_components_
    assert components_for_ratio(ratios, ratio) == expected


def test_ratio_has_to_be_exceeded_and_takes_one_component_at_least():
    ratios = np.array([0.5, 0.25, 0.125, 0.125])
    assert components_for_ratio(ratios, 0.5) == 2
    assert components_for_ratio(ratios, 0.49) == 1
    assert components_for_ratio(ratios, 1e-9) == 1
    # Noisy ratios may add to less than what is asked for.
    assert components_for_ratio(np.array([0.4, 0.2]), 0.9) == 2
    assert components_for_ratio(np.zeros(3), 0.9) == 3


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_ratio_that_was_read_off_is_not_exceeded_by_what_rounding_left(dtype):
    variances = np.sort(np.random.default_rng(0).uniform(1, 2, size=30))[::-1]
    ratios = (variances / variances.sum()).astype(dtype)
    for index, ratio in enumerate(np.cumsum(ratios)[:-1]):
        # The same total, added up in another order, by another machine.
        for total in (variances.sum(), *(variances.sum() * (1 + k * 2.0**-52) for k in (-8, 8))):
            again = (variances / total).astype(dtype)
            assert components_for_ratio(again, float(ratio)) == index + 2
        assert components_for_ratio(ratios, float(ratio) * (1 - 1e-4)) == index + 1


def spiked(n, d, rank, seed):
    generator = np.random.default_rng(seed)
    scales = np.r_[np.linspace(6, 2, rank), np.ones(d - rank)]
    return generator.normal(size=(n, d)) * scales


@pytest.mark.parametrize(
    ("X", "rank"),
    [
        pytest.param(datasets.load_iris().data, None, id="iris"),
        pytest.param(datasets.load_wine().data, None, id="wine"),
        pytest.param(datasets.load_breast_cancer().data, None, id="breast cancer"),
        pytest.param(datasets.load_digits().data, None, id="digits"),
        pytest.param(spiked(2000, 15, 4, 0), 4, id="spiked, rank 4"),
        pytest.param(spiked(500, 30, 9, 1), 9, id="spiked, rank 9"),
        pytest.param(
            datasets.make_low_rank_matrix(300, 12, effective_rank=3, random_state=0),
            None,
            id="low rank",
        ),
        pytest.param(np.random.default_rng(2).normal(size=(100, 2)), 1, id="two features"),
    ],
)
def test_most_likely_rank_is_that_of_sklearn(X, rank):
    expected = PCA(n_components="mle").fit(X).n_components_
    found = most_likely_rank(PCA().fit(X).explained_variance_, len(X))
    assert found == expected
    if rank is not None:
        assert found == rank


def test_most_likely_rank_stands_spectra_that_are_degenerate():
    assert most_likely_rank(np.array([1.0]), 10) == 1
    assert most_likely_rank(np.zeros(4), 10) in (1, 2, 3)
    assert most_likely_rank(np.array([2.0, 1.0, 0.0, 0.0]), 10) in (1, 2, 3)
    assert most_likely_rank(np.ones(4), 10) in (1, 2, 3)
