import numpy as np
import pytest
from scipy import sparse

from skdp.metrics import captured_variance


@pytest.mark.parametrize("contain", [np.asarray, sparse.csr_array, list])
def test_arguments_in_the_wrong_order_are_refused(contain):
    X, components = np.eye(5, 3), np.eye(2, 3)
    assert captured_variance(components, contain(X)) == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match=r"components has shape .*not the other way round"):
        captured_variance(contain(X), components)
