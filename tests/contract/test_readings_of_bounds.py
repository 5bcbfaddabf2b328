"""Bounds of columns are read in one way by all classes; what can be read two ways is refused."""

import json

import numpy as np
import pandas as pd
import pytest

from skdp import DPCovariance, DPLinearRegression, DPPipeline, DPStandardScaler

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

KINDS = [DPCovariance, DPLinearRegression, DPStandardScaler]
FRAME = pd.DataFrame(
    {
        "age": np.random.default_rng(0).uniform(18, 90, 300),
        "income": np.random.default_rng(1).uniform(20, 150, 300),
        "rooms": np.random.default_rng(2).uniform(1, 9, 300),
    }
)
Y = FRAME["age"] - FRAME["income"] / 2
NAMED = {"age": (18, 90), "income": (20, 150), "rooms": (1, 9)}


def ends_of(kind, bounds, n_columns):
    """Return the bounds as a plan has them, which are those of the fit."""
    model, X = kind(bounds=bounds), FRAME.iloc[:, :n_columns]
    return np.array(model._spec_of_size(*X.shape, X).interval)


def readings(n_columns):
    pairs = [*NAMED.values()][:n_columns]
    low, high = zip(*pairs, strict=True)
    return {
        "arrays": (np.array(low), np.array(high)),
        "dict": dict([*NAMED.items()][n_columns - 1 :: -1]),
        "dict from JSON": json.loads(json.dumps(dict([*NAMED.items()][:n_columns]))),
        "list of tuples": pairs,
        "lists": (list(low), list(high)),
        **({} if n_columns == 2 else {"tuples": (low, high)}),
        **({} if n_columns == 2 else {"from JSON": [[*one] for one in pairs]}),
        **({} if n_columns == 2 else {"rows of an array": np.array(pairs)}),
        **({} if n_columns == 2 else {"columns of an array": np.array([low, high])}),
    }


@pytest.mark.parametrize("n_columns", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_all_classes_read_bounds_alike(kind, n_columns):
    wanted = np.transpose([*NAMED.values()][:n_columns])
    for name, bounds in readings(n_columns).items():
        np.testing.assert_array_equal(ends_of(kind, bounds, n_columns), wanted, err_msg=name)
    equal = ends_of(kind, [0, 9], n_columns)
    np.testing.assert_array_equal(equal, np.transpose([(0, 9)] * n_columns))


@pytest.mark.parametrize(
    "bounds",
    [
        [[18, 90], [20, 150]],
        ((18, 90), (20, 150)),
        ((18, 20), (90, 150)),
        [[18, 20], [90, 150]],
        np.array([[18, 90], [20, 150]]),
        [np.array([18, 20]), np.array([90, 150])],
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_what_can_be_read_two_ways_is_refused(kind, bounds):
    for fit in (
        lambda: kind(bounds=bounds).fit(FRAME.iloc[:, :2], Y),
        lambda: kind(bounds=bounds).plan(300, 2),
    ):
        with pytest.raises(
            ValueError,
            match=r"read two ways.*tuple for each column.*tuple \(low, high\).*or a dict",
        ):
            fit()


@pytest.mark.parametrize(
    "bounds",
    [(), [], {}, [(1, 2)], [(1, 2, 3)] * 3, 3, "ab", [1, 2, 3], [(0, 1), (0, 1), 3], ((0, 1),)],
)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_interval_is_refused(kind, bounds):
    with pytest.raises(ValueError, match="bounds"):
        kind(bounds=bounds).fit(FRAME, Y)


def test_a_regression_of_two_columns_is_not_clipped_to_wrong_ends():
    rows = FRAME[["age", "income"]]
    for bounds in ([(18, 90), (20, 150)], {"age": (18, 90), "income": (20, 150)}):
        assert DPLinearRegression(bounds=bounds, epsilon=np.inf).fit(rows, Y).score(rows, Y) > 0.99
        last = DPLinearRegression(bounds=bounds)
        assert DPPipeline([("last", last)], epsilon=np.inf).fit(rows, Y).score(rows, Y) > 0.99
        scaler = DPStandardScaler(bounds=bounds, epsilon=np.inf).fit(rows)
        np.testing.assert_allclose(scaler.mean_, rows.mean(), rtol=1e-9)
