"""Attacks through containers that no family is fitted to: files, streams, data frames of dask.

Rows lie in parts of random lengths, some empty, one of a single row. Users are split over parts.
"""

import warnings
from functools import partial
from itertools import pairwise

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skdp import (
    DPPCA,
    DPLinearRegression,
    DPLogisticRegression,
    DPStandardScaler,
    DPTraceRegressor,
    DPTruncatedSVD,
    RankOneMatrices,
    RowBlocks,
)
from skdp.covariance import DPCovariance
from skdp.model_selection import private_score
from skdp.testing._checks import ROUNDING
from skdp.testing._recording import Group, farthest_of

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

N_ROWS, NAMES = 41, ["a", "b", "c"]


def of_parquet(X, y, ends, folder):
    # Gaps are nulls, and the first file has groups of other lengths than the second one.
    columns = {
        name: pa.array(one, mask=np.isnan(one)) for name, one in zip(NAMES, X.T, strict=True)
    }
    table = pa.table(columns if y is None else columns | {"y": pa.array(y)})
    for (a, b), name in zip(([0, ends[1]], [ends[1], N_ROWS]), "ab", strict=True):
        pq.write_table(table[a:b], folder / f"{name}.parquet", row_group_size=int(ends[2]))
    return (RowBlocks.from_parquet(folder, y=None if y is None else "y"),)


def of_npy(X, y, ends, folder):
    paths = {"X": [], "y": []}
    for name, values in (("X", np.asfortranarray(X)), ("y", y)):
        for number, (a, b) in enumerate(pairwise(ends) if values is not None else ()):
            paths[name].append(folder / f"{name}{number}.npy")
            np.save(paths[name][-1], values[a:b])
    return (RowBlocks.from_npy(paths["X"], paths["y"] or None),)


def of_stream(X, y, ends, folder):
    assert y is None
    return (RowBlocks(lambda: (X[a:b] for a, b in pairwise(ends)), X.shape),)


def of_frame(X, y, ends, folder):
    # Labels of rows repeat, in an order of their own.
    frame = pd.DataFrame(X, columns=NAMES, index=np.arange(N_ROWS) ** 2 % 5)
    frame = frame if y is None else frame.assign(y=y)
    pieces = [frame.iloc[a:b] for a, b in pairwise(ends)]
    whole = dd.from_map(lambda number: pieces[number], range(len(pieces)), meta=frame.iloc[:0])
    return (whole[NAMES],) if y is None else (whole[NAMES], whole["y"])


CONTAINERS = (of_parquet, of_npy, of_stream, of_frame)
USER = {"privacy_unit": "user"}
# Estimators, and the kind of their targets.
MODELS = {
    "rows": (DPPCA(2), None),
    "power": (DPTruncatedSVD(1, solver="power"), None),
    "gaps": (DPStandardScaler(missing="mean"), None),
    "marginals": (DPCovariance(bounds=(-5.0, 50.0), marginals=True), None),
    "bounds": (
        DPCovariance(bounds=(-5.0, 50.0), scales="bounds", prior=(np.ones(3), np.eye(3))),
        None,
    ),
    "users": (DPPCA(1, **USER), None),
    "records": (DPLinearRegression(), "numbers"),
    "prior": (DPLinearRegression(prior=(np.ones(3), 0.0)), "numbers"),
    "matrices": (DPTraceRegressor(1, matrix_shape=(1, 3), n_iter=2), "numbers"),
    "labels": (DPLogisticRegression(classes=["no", "yes"], row_norm=3.0), "texts"),
    "labels of users": (DPLogisticRegression(classes=["no", "yes"], **USER), "texts"),
}


def neighbors(name, kind, unit, generator):
    """Yield rows and targets, first ordinary ones; all differ in the rows of the unit."""
    X = generator.normal(size=(N_ROWS, 3)) * [1.0, 30.0, 0.01]
    X[:, 2] = np.rint(X[:, 1] / 20)
    y = X[:, 0] + 0.1 * generator.normal(size=N_ROWS)
    if name == "gaps":
        X[generator.random(X.shape) < 0.2] = np.nan
    others = [1e300, 0.0, -1e6, np.nan if name == "gaps" else 5e-324, generator.normal(size=3)]
    for other in (None, *others):
        rows, targets = X.copy(), y.copy()
        if other is not None:
            rows[unit], targets[unit] = other, generator.choice([-1e300, 0.0, 7.0])
        labels = np.where(targets > 0, "yes", "no")
        yield rows, {"numbers": targets, "texts": labels, None: None}[kind]


CASES = [
    (container, name)
    for container in CONTAINERS
    for name, (_, kind) in MODELS.items()
    if container is not of_stream or kind is None  # a stream has no targets
]


@pytest.mark.covered
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 9))]
)
@pytest.mark.parametrize(
    ("container", "name"), CASES, ids=lambda one: getattr(one, "__name__", one)
)
def test_no_neighbor_moves_a_release_too_far(container, name, seed, tmp_path):
    estimator, kind = MODELS[name]
    generator = np.random.default_rng([seed, len(name)])
    ends = [0, 1, *np.sort(generator.integers(3, N_ROWS, 4)).tolist(), N_ROWS, N_ROWS]
    datasets, ids = [], generator.integers(9, size=N_ROWS)
    unit = np.flatnonzero(ids == ids[0]) if "users" in name else generator.choice([0, 1, 20])
    for number, data in enumerate(neighbors(name, kind, unit, generator)):
        (folder := tmp_path / str(number)).mkdir()
        datasets.append(container(*data, ends, folder))

    def make():
        one = type(estimator)(**estimator.get_params() | {"epsilon": [20.0, 1.0, 1e3][seed % 3]})
        if "users" in name:
            one.fit = partial(one.fit, users=ids)
        return one

    with dask.config.set(scheduler="synchronous"):
        worst = farthest_of(make, [Group(datasets)])
    assert max(worst.values()) <= ROUNDING, worst
    assert max(worst.values()) > 0.5


@pytest.mark.parametrize("container", ["numpy file", "chunks", "cells", "factors"])
def test_no_refusal_of_texts_tells_how_long_one_is(container, tmp_path):
    def refusal(longest):
        texts = np.array([["a", "b"], ["c", longest]])
        np.save(path := tmp_path / "texts.npy", texts)
        with pytest.raises(ValueError, match=r"numbers|integers") as refused:
            {
                "numpy file": lambda: RowBlocks.from_npy(path),
                "chunks": lambda: DPPCA(1).fit(da.from_array(texts)),
                "cells": lambda: RankOneMatrices.from_indices(texts[1], [0, 1], (2, 2)),
                "factors": lambda: RankOneMatrices(texts, np.ones((2, 2))),
            }[container]()
        return str(refused.value)

    assert refusal("d") == refusal("a name that is long")


@pytest.mark.parametrize("scoring", ["neg_mean_squared_error", "log_likelihood"])
def test_no_warning_of_a_loader_is_heard_in_a_score(scoring, recwarn):
    def warned(values):
        warnings.warn(f"a secret number: {values.ravel()[0]}", stacklevel=1)
        return values

    X = np.random.default_rng(0).normal(size=(N_ROWS, 3))
    loads = [[partial(warned, one[:9]), partial(warned, one[9:])] for one in (X, X[:, 0])]
    rows = RowBlocks.from_partitions(loads[0], [9, N_ROWS - 9], 3, y=loads[1])
    model = DPPCA(1).fit(X) if scoring == "log_likelihood" else DPLinearRegression().fit(X, X[:, 0])
    private_score(model, rows, scoring=scoring)
    assert not [one for one in recwarn if "secret" in str(one.message)]
