"""What searches find: all thresholds hold for 50 other values of `FIRST`."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from skdp import DPPCA, DPTraceRegressor
from skdp.datasets import make_trace_regression
from skdp.model_selection import DPGridSearch
from skdp.model_selection._fits import fit_from_releases

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")]

FIRST = 0
SECRET = 2**100
MATRICES, RESPONSES, _ = make_trace_regression(6000, (10, 10), rank=3, random_state=0)
MATRICES = MATRICES.reshape(6000, -1)
REGRESSION = DPTraceRegressor(matrix_shape=(10, 10), covariance="identity")


def seeds(n_seeds):
    return [SECRET + 1000 * FIRST + number for number in range(n_seeds)]


def halves(seed, n_samples, n_train):
    order = np.random.default_rng(seed).permutation(n_samples)
    return order[:n_train], order[n_train:]


def test_the_number_of_components_is_found_with_one_release():
    X, ranks = load_digits().data, [2, 3, 4, 6, 8, 11, 15, 20, 26, 34, 45]
    losses = {name: [] for name in ("search", *ranks)}
    for seed in seeds(20):
        train, test = (X[rows] for rows in halves(seed, len(X), 1437))
        pca = DPPCA(row_norm=40, mean_norm=64)
        search = DPGridSearch(pca, {"n_components": ranks}, random_state=seed).fit(train)
        assert search.n_distinct_fits_ == {"estimator": 1}
        losses["search"].append(-search.score(test))
        models = [clone(pca).set_params(n_components=k, random_state=seed) for k in ranks]
        released = models[0]._release(*models[0]._validate(train, None), lambda *_: None)
        models[0]._keep(*released)
        fit_from_releases(models[1:], models[0], *released)
        for rank, model in zip(ranks, models, strict=True):
            losses[rank].append(-model.score(test))
    means = {name: np.mean(values) for name, values in losses.items()}
    best = min(means[rank] for rank in ranks)
    assert means["search"] <= best + 1
    assert np.median([means[rank] for rank in ranks]) > means["search"]


@pytest.mark.parametrize("epsilon", [2.0, 4.0])
def test_the_rank_is_found_where_the_default_is_wrong(epsilon):
    losses, defaults = [], []
    for seed in seeds(5):
        train, test = halves(seed, 6000, 4800)
        base = clone(REGRESSION).set_params(epsilon=epsilon)
        search = DPGridSearch(base, {"rank": [1, 3, 6]}, epsilon=epsilon, random_state=seed)
        search.fit(MATRICES[train], RESPONSES[train])
        losses.append(error(search, test))
        base.set_params(random_state=seed).fit(MATRICES[train], RESPONSES[train])
        defaults.append(error(base, test))
    assert np.mean(losses) <= 0.3
    assert np.mean(defaults) > 1


def error(model, rows):
    return np.mean((model.predict(MATRICES[rows]) - RESPONSES[rows]) ** 2)
