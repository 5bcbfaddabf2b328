"""Printed forms say that a seed was given, and not which."""

import json

import numpy as np
import pytest
from public import ESTIMATORS
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp import DPPCA, PrivacyLedger, PrivacyWarning
from skdp.ledger import LEFT_OUT

SEED = 3141592653589793238462643383279


def inside(make):
    """Estimators that hold one that was given a seed."""
    estimator = make(random_state=SEED, epsilon=3.5)
    pipeline = make_pipeline(StandardScaler(), estimator)
    return {
        "alone": estimator,
        "pipeline": pipeline,
        "search": GridSearchCV(pipeline, {f"{make.__name__.lower()}__epsilon": [1.0, 2.0]}),
        "search alone": GridSearchCV(estimator, {"epsilon": [1.0, 2.0]}),
        "union": FeatureUnion([("one", estimator), ("two", make_pipeline(estimator))]),
        "columns": ColumnTransformer([("some", estimator, [0, 1])]),
    }


@pytest.mark.covered
@pytest.mark.parametrize("print_changed_only", [True, False])
@pytest.mark.parametrize("display", ["text", "diagram"])
@pytest.mark.parametrize("make", ESTIMATORS)
def test_no_printed_form_shows_the_seed(make, display, print_changed_only):
    with config_context(display=display, print_changed_only=print_changed_only):
        for name, estimator in inside(make).items():
            texts = [repr(estimator), str(estimator), f"{estimator}"]
            if display == "diagram":
                texts.append(estimator._repr_html_())
            for text in texts:
                assert str(SEED) not in text, name
                assert "given" in text, name
                assert "epsilon" in text, name


@pytest.mark.parametrize("make", ESTIMATORS)
def test_what_is_not_a_seed_is_printed_as_ever(make):
    assert "given" not in repr(make())
    with config_context(print_changed_only=False):
        assert "random_state=None" in repr(make())
    assert "RandomState" in repr(make(random_state=np.random.RandomState(0)))


@pytest.mark.parametrize("make", ESTIMATORS)
def test_parameters_keep_the_seed(make):
    for estimator in inside(make).values():
        seeds = [v for k, v in estimator.get_params().items() if k.endswith("random_state")]
        assert seeds
        assert all(seed is SEED for seed in seeds)
    estimator = make(random_state=SEED)
    assert clone(estimator).random_state == SEED
    assert str(SEED) in json.dumps(estimator.get_params())


@pytest.mark.parametrize("seed", [str(SEED), [SEED], float(SEED)])
def test_what_is_no_seed_but_may_be_meant_as_one_is_hidden(seed):
    assert "<given>" in repr(DPPCA(random_state=seed))


@pytest.mark.covered
@pytest.mark.parametrize("display", ["text", "diagram"])
@pytest.mark.parametrize("make", ESTIMATORS)
def test_no_printed_form_shows_the_ledger(make, display, tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "people.skdp", dataset="people", epsilon=1, delta=1e-6)
    for given in (ledger, LEFT_OUT, ledger.path):
        estimator = make(ledger=given)
        with config_context(display=display):
            for one in (estimator, make_pipeline(estimator), GridSearchCV(estimator, {})):
                text = repr(one) + (one._repr_html_() if display == "diagram" else "")
                assert "people" not in text
                assert "left out" not in text
                assert "ledger=<given>" in text
        assert estimator.get_params()["ledger"] is given
    with config_context(print_changed_only=False):
        assert "ledger=None" in repr(make())


class Derived(DPPCA):
    def get_params(self, deep=True):
        return super().get_params(deep)


def test_a_derived_estimator_hides_it_too():
    derived = Derived(random_state=SEED)
    for estimator in (derived, make_pipeline(derived)):
        assert str(SEED) not in repr(estimator) + estimator._repr_html_()
    assert derived.get_params()["random_state"] is SEED


def test_a_warning_of_a_seed_does_not_show_it():
    rows = np.random.default_rng(0).normal(size=(500, 1)) * np.ones(5)
    with pytest.warns(PrivacyWarning, match="may be guessed") as caught:
        DPPCA(1, epsilon=100, row_norm=5.0, center=False, random_state=123456789).fit(rows)
    assert not any("123456789" in str(warning.message) for warning in caught)


def test_a_fitted_estimator_hides_it_too():
    X = np.random.default_rng(0).normal(size=(50, 3))
    pca = DPPCA(1, row_norm=1.0, mean_norm=1.0, epsilon=99, random_state=SEED).fit(X)
    assert str(SEED) not in repr(pca) + pca._repr_html_() + repr(pca.privacy_spent_)
    assert str(SEED) not in str(pca.privacy_spent_.as_dict())
