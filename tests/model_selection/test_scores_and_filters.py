"""Filters of modules are seen before a charge, and a pipeline scores with users."""

import warnings

import numpy as np
import pytest

import skdp
from skdp.model_selection import DPGridSearch, private_score

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(300, 4))
Y = X[:, 0] + X[:, 1] / 2
IDS = np.repeat(np.arange(60), 5)


@pytest.mark.parametrize("is_search", [False, True])
def test_a_filter_of_this_module_raises_before_the_charge(ledger, is_search):
    model = skdp.DPPCA(1, delta=0.5, **({} if is_search else {"ledger": ledger}))
    if is_search:
        model = DPGridSearch(skdp.DPPCA(1), {}, delta=0.5, ledger=ledger)
    for where in ({"module": __name__}, {"lineno": _line_of_fit()}):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", category=skdp.PrivacyWarning, **where)
            with pytest.raises(skdp.PrivacyWarning, match="delta"):
                _fitted(model)
        assert ledger.entries() == []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=skdp.PrivacyWarning, module=__name__)
        warnings.filterwarnings("error", category=skdp.PrivacyWarning, module="another")
        _fitted(model)


def _fitted(model):
    return model.fit(X)


def _line_of_fit():
    return _fitted.__code__.co_firstlineno + 1


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_a_pipeline_scores_with_users():
    steps = [
        ("scale", skdp.DPStandardScaler(privacy_unit="user")),
        ("last", skdp.DPPersonalizedRegressor(n_components=1, require_groups=True)),
    ]
    model = skdp.DPPipeline(steps, shares={"scale": 0.2}, epsilon=100).fit(X, Y, users=IDS)
    by_hand = model[-1].score(model[:-1].transform(X), Y, users=IDS)
    assert model.score(X, Y, users=IDS) == by_hand
    with pytest.raises(ValueError, match="as users=ids of a DPPipeline"):
        model.score(X, Y)


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
@pytest.mark.parametrize("is_search", [False, True])
def test_a_last_step_that_takes_no_users_says_so(is_search):
    model = skdp.DPPipeline([("last", skdp.DPLinearRegression())])
    if is_search:
        model = DPGridSearch(model, {"last__n_iter": [2]})
    model.fit(X, Y)
    with pytest.raises(ValueError, match=r"users must be None: DPLinearRegression\.score"):
        model.score(X, Y, users=IDS)


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_labels_of_another_kind_are_no_mistakes(ledger):
    """A score of 0 for them would be paid for."""
    y = (X[:, 0] > 0).astype(int)
    for of_fit, of_score in ((y, y.astype(str)), (y.astype(str), y), (y, y.astype(str).tolist())):
        model = skdp.DPLogisticRegression(classes=np.unique(of_fit)).fit(X, of_fit)
        assert private_score(model, X, of_fit.astype(object)).value > 0.5
        for scoring in ("accuracy", "neg_log_loss", "neg_brier_score"):
            with pytest.raises(ValueError, match="pass labels as the fit took them"):
                private_score(model, X, of_score, scoring=scoring, ledger=ledger)
    assert ledger.entries() == []
