"""Standard errors of the coefficients of a logistic regression."""

import numpy as np
import pytest

from benchmarks.noise_errors.classes import law_of, rows_of
from skdp import DPLogisticRegression, DPTraceClassifier

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

NAME, N_FITS = "coef_std_error_", 12


def fitted(name, epsilon, seed, **parameters):
    classes = range(max(2, len(law_of(name)[0])))
    model = DPLogisticRegression(classes=classes, epsilon=epsilon, random_state=seed, **parameters)
    return model.fit(*rows_of(name, seed))


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("name", ["5,000 rows, 5 columns", "5,000 rows, 5 columns, 3 classes"])
def test_coefficients_are_rarely_further_off_than_they_say(name, epsilon):
    fits = [fitted(name, epsilon, seed) for seed in range(N_FITS)]
    errors = np.array([(fit.coef_ - law_of(name)[0]) / fit.coef_std_error_ for fit in fits])
    assert np.mean(np.abs(errors) <= 1.96) > 0.8
    # An error is no guess that is always far too large.
    assert np.sqrt(np.mean(errors**2)) > 0.3


def test_errors_go_to_those_of_a_logistic_regression():
    name = "5,000 rows, 5 columns"
    sizes = [
        np.mean([fitted(name, epsilon, seed).coef_std_error_ for seed in range(4)])
        for epsilon in (1.0, 16.0, 1e3)
    ]
    assert sizes[0] > sizes[1] > sizes[2]
    # A large budget leaves the error of sampling, which is that of a logistic regression.
    X, y = rows_of(name, 0)
    likely = DPLogisticRegression(classes=[0, 1], epsilon=np.inf).fit(X, y).predict_proba(X)[:, 1]
    rows = np.column_stack([X, np.ones(len(X))])
    curvature = (rows * (likely * (1 - likely))[:, np.newaxis]).T @ rows
    of_sampling = np.sqrt(np.diag(np.linalg.inv(curvature)))[:-1]
    found = DPLogisticRegression(classes=[0, 1], epsilon=1e4).fit(X, y)
    np.testing.assert_allclose(found.coef_std_error_[0], of_sampling, rtol=0.05)


def test_errors_have_the_shape_of_coefficients_and_are_dropped_by_a_refit():
    X, y = rows_of("5,000 rows, 5 columns, 3 classes", 0)
    model = DPLogisticRegression(classes=[0, 1, 2], epsilon=4.0).fit(X.astype(np.float32), y)
    assert model.coef_std_error_.shape == model.coef_.shape == (3, 5)
    assert model.coef_std_error_.dtype == np.float32
    assert (model.coef_std_error_ > 0).all()
    prior = DPLogisticRegression(classes=[0, 1, 2], epsilon=4.0, prior=model).fit(X, y)
    assert (prior.coef_std_error_ > 0).all()
    assert not hasattr(model.set_params(epsilon=np.inf).fit(X, y), NAME)
    assert not hasattr(DPLogisticRegression(), NAME)
    assert not hasattr(DPTraceClassifier(classes=[0, 1, 2][:2]).fit(X, y > 0), NAME)
    many = DPLogisticRegression(classes=range(101)).fit(X, y)
    with pytest.raises(AttributeError, match="more than 100 classes"):
        many.coef_std_error_  # noqa: B018


@pytest.mark.parametrize("rows", [0.0, 1e-300, 1e300])
def test_rows_that_show_nothing_have_errors_or_none_but_raise_nothing(rows):
    X, y = rows_of("5,000 rows, 5 columns", 0)
    model = DPLogisticRegression(classes=[0, 1]).fit(rows * np.sign(X), y)
    assert not hasattr(model, NAME) or np.isfinite(model.coef_std_error_).all()
