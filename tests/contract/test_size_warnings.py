"""A search for a size that ends at an end of its grid gives a warning about units."""

import re

import numpy as np
import pytest
from told import lines_warned_by

import skdp
from skdp.model_selection import DPGridSearch, private_score

KEY = {"epsilon": 8.0, "random_state": 2**100 + 3}
N_ROWS, N_USERS = 3000, 600

OFF = dict.fromkeys(("decorrelate", "fit_intercept", "mean_head"), False)
CHOICE = {"solver": "exponential", "n_components": 1, **OFF}


def known_of(model, *data):
    """Return the warnings of searches that ended at an end of their grids."""
    lines = lines_warned_by(lambda: model.fit(*data))
    return [one for one in lines if "number that it covers" in one]


def draw(x_size=1.0, y_size=1.0):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(N_ROWS, 4))
    groups = np.arange(N_ROWS) % N_USERS
    y = np.sum(X * generator.normal(size=(N_USERS, 4))[groups], axis=1)
    return x_size * X, y_size * y, groups


def rows(model, size):
    return known_of(model, draw(size)[0])


def records(model, x_size, y_size):
    return known_of(model, *draw(x_size, y_size)[:2])


def users(model, x_size, y_size):
    return known_of(model, *draw(x_size, y_size))


@pytest.mark.parametrize(
    "make",
    [
        lambda: skdp.DPPCA(2, **KEY),
        lambda: skdp.DPPCA(2, center="private", **KEY),
        lambda: skdp.DPTruncatedSVD(2, **KEY),
        lambda: skdp.DPLowRankFactorizer(2, **KEY),
    ],
)
def test_norms_of_rows(make):
    assert rows(make(), 1.0) == []
    # Where rows of zeros are left out of the quantile, too large rows are told together with them.
    large = "at 1e.12, the largest|probably 0, or beyond 1e.12"
    for size, extreme in ((1e-15, "at 1e-12, the smallest"), (1e15, large)):
        told = rows(make(), size)
        assert any(re.search(extreme, one) for one in told), told
        assert all("in the units of X" in one for one in told)


@pytest.mark.parametrize(
    "make",
    [
        lambda: skdp.DPTraceRegressor(**KEY),
        lambda: skdp.DPTraceRegressor(matrix_shape=(2, 2), **KEY),
    ],
)
def test_sizes_of_records(make):
    assert records(make(), 1.0, 1.0) == []
    for x_size, y_size, name in ((1e25, 1.0, "X"), (1.0, 1e25, "y")):
        told = records(make(), x_size, y_size)
        assert any("the largest" in one for one in told), name
        assert all(f"Pass {name} in other units" in one for one in told)


@pytest.mark.covered(at_most=4)
@pytest.mark.parametrize(
    ("more", "sizes", "name"),
    [
        ({}, (1e12, 1.0), "user moment norm"),
        ({}, (1e-12, 1.0), "user moment norm"),
        ({}, (1e12, 1.0), "row center norm 2"),
        ({}, (1.0, 1e12), "user level"),
        ({}, (1.0, 1e-12), "product norm"),
        ({"decorrelate": False}, (1e6, 1e6), "product norm"),
        ({"n_components": 0}, (1.0, 1e12), "product norm"),
        ({"solver": "altmin", "decorrelate": False}, (1.0, 1e12), "normal matrix norm"),
        (CHOICE, (1.0, 1e12), "response bound"),
        (CHOICE, (1.0, 1e-12), "response bound"),
    ],
)
def test_sizes_of_users(more, sizes, name):
    model = skdp.DPPersonalizedRegressor(**{"n_components": 2, **KEY, **more})
    assert users(model, 1.0, 1.0) == []
    told = users(model, *sizes)
    assert any(one.startswith(f"{name}: ") for one in told), told
    assert all("in other units" in one for one in told)


def test_without_noise_users_are_not_clipped_and_nothing_is_doubted():
    assert users(skdp.DPPersonalizedRegressor(2, epsilon=np.inf, random_state=0), 1e12, 1.0) == []


@pytest.mark.parametrize("size", [1e-15, 1.0, 1e15])
def test_levels_of_losses(size):
    X, y, _ = draw()
    y = y * size
    model = skdp.DPTraceRegressor(response_bound=size, **KEY).fit(X, y)
    regression = skdp.DPTraceRegressor(response_bound=size)
    told = known_of(DPGridSearch(regression, {"n_iter": [1, 5]}, **KEY), X, y)
    lines = lines_warned_by(lambda: private_score(model, X, y, **KEY))
    told += [one for one in lines if "that it covers" in one]
    assert len(told) == (0 if size == 1 else 2)
    assert all("units" in one for one in told)
