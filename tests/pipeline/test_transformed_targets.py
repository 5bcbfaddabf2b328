"""A TransformedTargetRegressor is put around a pipeline or search, and refused within them."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import Pipeline

from skdp import DPLinearRegression, DPPipeline, DPStandardScaler, privacy_spent
from skdp.model_selection import DPGridSearch, private_score

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

GENERATOR = np.random.default_rng(0)
X = GENERATOR.uniform(-1, 1, (300, 3))
Y = np.exp(1 + X[:, 0] + 0.1 * GENERATOR.standard_normal(300))
SCALER = DPStandardScaler(bounds=(-1, 1))
REGRESSION = DPLinearRegression(response_bound=3.0)
GRID = {"regress__response_bound": [1.0, 3.0]}


def target(regressor=REGRESSION, **more):
    functions = {"func": np.log1p, "inverse_func": np.expm1, "check_inverse": False, **more}
    return TransformedTargetRegressor(regressor, **functions)


def pipeline(last=REGRESSION, **more):
    return DPPipeline([("scale", SCALER), ("regress", last)], **more)


@pytest.mark.parametrize("is_search", [False, True])
def test_around_a_pipeline_or_search_it_is_the_fit_to_transformed_responses(is_search):
    seed = {"random_state": 2**100 + 7}
    inner = DPGridSearch(pipeline(), GRID, **seed) if is_search else pipeline(**seed)
    model, plain = target(inner).fit(X, Y), clone(inner).fit(X, np.log1p(Y))
    np.testing.assert_array_equal(model.predict(X), np.expm1(plain.predict(X)))
    report = privacy_spent(model)
    assert (report.is_private, report.spent) == (True, plain.privacy_spent_)


REFUSED = [
    pipeline(target()),
    DPGridSearch(pipeline(target()), {"regress__regressor__response_bound": [1.0]}),
    DPGridSearch(target(), {"regressor__response_bound": [1.0]}),
    DPGridSearch(Pipeline([("scale", SCALER), ("regress", target())]), {}),
    DPGridSearch(pipeline(), {"regress": [target()]}),
]


@pytest.mark.parametrize("model", REFUSED)
def test_within_a_pipeline_or_search_it_is_refused_before_anything_is_spent(model, ledger):
    with pytest.raises(ValueError, match="Use it around the whole pipeline, or search"):
        model.set_params(ledger=ledger).fit(X, Y)
    assert ledger.entries() == []


def refusing(y):
    if not (np.abs(y + 0.5) > 1e-9).all() or np.abs(y).max() > 1e9:
        raise ValueError(f"{y}")
    return y


def centered(y):
    return y - np.mean(y)


@pytest.mark.parametrize("inverse", [centered, refusing])
def test_a_score_refuses_what_maps_predictions_back_together_before_it_is_paid(inverse, ledger):
    model = target(inverse_func=inverse).fit(X, Y)
    with pytest.raises(ValueError, match=r"inverse_func' (must map each row|raises)"):
        private_score(model, X, Y, ledger=ledger)
    assert ledger.entries() == []
