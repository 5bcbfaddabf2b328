import numpy as np
import pytest
from scipy import sparse

from skdp.datasets import make_low_rank
from skdp.metrics import captured_variance, coherence


@pytest.mark.parametrize("contain", [np.asarray, sparse.csr_array, list])
def test_arguments_in_the_wrong_order_are_refused(contain):
    X, components = np.eye(5, 3), np.eye(2, 3)
    assert captured_variance(components, contain(X)) == pytest.approx(2 / 3)
    with pytest.raises((TypeError, ValueError), match=r"the other way round|Sparse data"):
        captured_variance(contain(X), components)


@pytest.mark.parametrize("scale", [1.0, -3.0])
@pytest.mark.parametrize(("n_components", "n_features"), [(1, 7), (3, 8), (4, 4)])
def test_coherence_lies_between_its_extremes(n_components, n_features, scale):
    aligned = scale * np.eye(n_components, n_features)
    assert coherence(aligned) == pytest.approx(n_features / n_components)
    random = scale * np.random.default_rng(0).normal(size=(n_components, n_features))
    assert 1 - 1e-12 <= coherence(random) <= n_features / n_components + 1e-12


def test_coherence_is_that_of_the_span():
    _, _, components = make_low_rank(10, 96, coherence=8, random_state=0)
    # Three vectors with 12 places each: of 3 squared norms 1/12, a single one in each column.
    assert coherence(components) == pytest.approx(96 / 3 / 12)
    mixed = np.array([[1, 2, 0], [0, 1, 3], [5, 0, 1]]) @ components
    assert coherence(mixed) == pytest.approx(coherence(components))
    assert coherence(np.ones((1, 5)).tolist()) == pytest.approx(1)


def test_coherence_refuses_components_as_columns():
    with pytest.raises(ValueError, match=r"components has shape \(5, 2\)"):
        coherence(np.eye(5, 2))
