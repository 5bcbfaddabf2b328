"""Errors of coefficients that follow from released values."""

import numpy as np
import pytest

from benchmarks.noise_errors.coefficients import errors_of
from skdp import DPLinearRegression, DPTraceRegressor

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

NAME = "coef_noise_std_"
GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(2000, 3)) * [1, 100, 0.01] + [5, 0, 0]
Y = X @ [1, 0.01, -100] + 0.5 * GENERATOR.normal(size=2000)


def test_only_coefficients_far_above_the_noise_have_errors_and_a_refit_drops_them():
    rows = X.astype(np.float32)
    # Now and then noise hides the scale of a column.
    fits = [DPLinearRegression(epsilon=8.0).fit(rows, Y) for _ in range(5)]
    model = next(fit for fit in fits if hasattr(fit, NAME))
    assert model.coef_noise_std_.shape == (3,)
    assert model.coef_noise_std_.dtype == np.float32
    assert (model.coef_noise_std_ > 0).all()
    assert (model.coef_noise_std_ < np.abs(model.coef_)).all()
    assert not hasattr(model.set_params(epsilon=0.01).fit(X, Y), NAME)
    assert not hasattr(DPTraceRegressor(epsilon=8.0).fit(X, Y), NAME)
    assert not hasattr(DPLinearRegression(), NAME)


@pytest.mark.parametrize("rows", [X, np.column_stack([X, X])])
def test_without_noise_there_are_no_errors(rows):
    model = DPLinearRegression(epsilon=np.inf).fit(rows, Y)
    np.testing.assert_array_equal(model.coef_noise_std_, np.zeros(rows.shape[1]))


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [2.0, 8.0])
def test_errors_are_as_large_as_is_told(epsilon):
    """In 60 fits of three coefficients; the root mean square has a standard deviation of .05."""
    fits = (DPLinearRegression(epsilon=epsilon, random_state=seed) for seed in range(60))
    errors = [one for one in (errors_of(fit, X, Y) for fit in fits) if one is not None]
    assert len(errors) > 50
    assert 0.75 <= np.sqrt(np.mean(np.square(errors))) <= 1.3
