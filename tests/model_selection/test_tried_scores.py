"""A callable score is tried before a search spends anything, and filters of modules are seen."""

import warnings

import numpy as np
import pytest

from skdp import (
    DPPCA,
    DPLinearRegression,
    DPLogisticRegression,
    DPPersonalizedRegressor,
    DPPipeline,
    DPStandardScaler,
    PrivacyLedger,
    PrivacyWarning,
)
from skdp.model_selection import DPGridSearch

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(300, 4))
Y = X[:, 0] + X[:, 1] / 2
LABELS = np.where(Y > 0, "yes", "no")
IDS = np.repeat(np.arange(60), 5)


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger.create(
        tmp_path / "people.skdp",
        dataset="people",
        epsilon=90,
        delta=1e-3,
        unit=("record", "row", "user"),
    )


def raises(model, rows, y):
    raise RuntimeError("4711")


SCORES = {
    "is one number": lambda model, rows, y: 1.0,
    "looks at all rows": lambda model, rows, y: rows[:, 0] - rows[:, 0].mean(),
    "raises": raises,
}
SEARCHED = {
    "classifier": (DPLogisticRegression(classes=["no", "yes"]), LABELS, {"row_norm": [1, 2]}),
    "codes": (DPLogisticRegression(classes=["no", "yes"]), Y > 0, {"row_norm": [1, 2]}),
    "components": (DPPCA(), None, {"n_components": [1, 2]}),
    "regression": (DPLinearRegression(), Y, {"response_bound": [1, 9]}),
}


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("name", SEARCHED)
@pytest.mark.parametrize("is_piped", [False, True])
@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
@pytest.mark.covered
def test_a_bad_score_costs_nothing(ledger, name, score, is_piped):
    model, y, grid = SEARCHED[name]
    y = y.astype(int) if name == "codes" else y
    if is_piped:
        model = DPPipeline([("scale", DPStandardScaler()), ("last", model)])
        grid = {f"last__{key}": values for key, values in grid.items()}
    search = DPGridSearch(model, grid, scoring=SCORES[score], ledger=ledger)
    with pytest.raises(ValueError, match="scoring"):
        search.fit(X, y)
    assert ledger.entries() == []


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_a_score_of_people_that_is_good_is_spent_once(ledger):
    model = DPLinearRegression(privacy_unit="user")
    search = DPGridSearch(
        model,
        {"response_bound": [1, 9]},
        scoring=lambda model, rows, y: -np.abs(model.predict(rows) - y),
        ledger=ledger,
    )
    search.fit(X, Y, users=IDS)
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize("is_search", [False, True])
def test_a_filter_of_this_module_raises_before_the_charge(ledger, is_search):
    model = DPPCA(1, delta=0.5, **({} if is_search else {"ledger": ledger}))
    if is_search:
        model = DPGridSearch(DPPCA(1), {}, delta=0.5, ledger=ledger)
    for where in ({"module": __name__}, {"lineno": _line_of_fit()}):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", category=PrivacyWarning, **where)
            with pytest.raises(PrivacyWarning, match="delta"):
                _fitted(model)
        assert ledger.entries() == []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=PrivacyWarning, module=__name__)
        warnings.filterwarnings("error", category=PrivacyWarning, module="another")
        _fitted(model)


def _fitted(model):
    return model.fit(X)


def _line_of_fit():
    return _fitted.__code__.co_firstlineno + 1


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_a_pipeline_scores_with_users():
    steps = [
        ("scale", DPStandardScaler(privacy_unit="user")),
        ("last", DPPersonalizedRegressor(n_components=1, require_groups=True)),
    ]
    model = DPPipeline(steps, shares={"scale": 0.2}, epsilon=100).fit(X, Y, users=IDS)
    by_hand = model[-1].score(model[:-1].transform(X), Y, users=IDS)
    assert model.score(X, Y, users=IDS) == by_hand
    with pytest.raises(ValueError, match="as users=ids of a DPPipeline"):
        model.score(X, Y)
