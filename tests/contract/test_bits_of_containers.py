"""The whole product of models, units, kinds of rows and containers: the bits of a fit are the same.

A fit to one part is that of an array. Fits to several parts, of loaders, Parquet and Dask, are one
another's; without noise they are that of the array up to rounding, as sums of parts are added up.
"""

from functools import partial

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from in_parts import in_chunks, in_parts
from pyarrow import parquet
from scipy.sparse import csr_array, issparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer

from skdp import (
    DPPCA,
    DPCovariance,
    DPLinearRegression,
    DPLogisticRegression,
    DPPipeline,
    DPStandardScaler,
    DPTraceClassifier,
    DPTraceRegressor,
    DPTruncatedSVD,
    RowBlocks,
    make_dp_pipeline,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning"),
    # Of dask, when it reads Parquet with pandas 3.1.
    pytest.mark.filterwarnings("ignore:The inplace keyword"),
]

# Rows of several blocks, of which those with an intercept would have more.
SEED, N, D = 2**100 + 9, 12_600, 20
DRAWN = np.random.default_rng(0)
ROWS = DRAWN.uniform(0, 4, (N, D)) * (DRAWN.random((N, D)) < 0.6)
USERS = np.repeat(np.arange(N // 3), 3)
RESPONSES = ROWS[:, :4] @ [1.0, -2.0, 0.0, 0.5] + 9
LABELS = (RESPONSES > 8).astype(int)
NAMES = [f"column {place}" for place in range(D)]
CLASSES = {"classes": [0, 1]}
BOUNDED = DPStandardScaler(bounds=(0, 4), with_mean=False)
PLACES = ColumnTransformer(
    [("scaled", BOUNDED, [*range(2, D)]), ("kept", "passthrough", [1, 0])], sparse_threshold=0
)
LOGARITHMS = {"func": np.log, "inverse_func": np.exp, "check_inverse": False}
WEIGHTED = DPLogisticRegression(**CLASSES, class_weight={0: 1, 1: 3})
SEVERAL = (1, 0, 4000, N - 4001)

MODELS = {
    "components": (DPPCA(2, row_norm=8.0, mean_norm=6.0), None),
    "found norms": (DPPCA(2), None),
    "factors": (DPTruncatedSVD(2, row_norm=6.0), None),
    "scales": (BOUNDED, None),
    "found scales": (DPStandardScaler(with_mean=False), None),
    "covariances": (DPCovariance(bounds=(0, 4)), None),
    "regression": (DPLinearRegression(response_bound=20), RESPONSES),
    "found bounds": (DPLinearRegression(), RESPONSES),
    "classes": (DPLogisticRegression(**CLASSES), LABELS),
    "weights": (WEIGHTED, LABELS),
    "matrices": (DPTraceRegressor(1, matrix_shape=(4, 5)), RESPONSES),
    "classes of matrices": (DPTraceClassifier(1, **CLASSES, matrix_shape=(4, 5)), LABELS),
    "pipeline": (make_dp_pipeline(BOUNDED, DPLogisticRegression(**CLASSES)), LABELS),
    "weights behind columns": (make_dp_pipeline(PLACES, WEIGHTED), LABELS),
}
KINDS = {"dense": np.asarray, "single": np.float32, "sparse": csr_array}
PRODUCT = [
    (name, kind, unit)
    for name, (model, _) in MODELS.items()
    for kind in KINDS
    for unit in ("row", "user")
    if (name, kind) not in {("covariances", "sparse"), ("classes of matrices", "sparse")}
    # Steps that share a budget need all rows in memory to protect users.
    if not (unit == "user" and isinstance(model, DPPipeline))
]


def table_of(rows, y):
    frame = pd.DataFrame(rows, columns=NAMES)
    return frame if y is None else frame.assign(y=y)


def of_dask(rows, y, lengths):
    pieces = np.split(np.arange(len(rows)), np.cumsum(lengths)[:-1])
    table = table_of(rows, y)
    frame = dd.from_map(
        lambda number: table.iloc[pieces[number]], range(len(pieces)), meta=table[:0]
    )
    return (frame[NAMES],) if y is None else (frame[NAMES], frame["y"])


def of_parquet(path, rows, y, lengths):
    table = pa.Table.from_pandas(table_of(rows, y))
    with parquet.ParquetWriter(path, table.schema) as writer:
        for start, length in zip(np.cumsum((0, *lengths[:-1])), lengths, strict=True):
            writer.write_table(table.slice(start, length), row_group_size=max(length, 1))
    return (RowBlocks.from_parquet(path, y=None if y is None else "y"),)


def containers(path, rows, y, lengths):
    """Give the rows in each container, with their targets."""
    found = {
        "parts": (in_parts(rows, y, lengths=lengths),),
        "chunks": in_chunks(rows, y, lengths=lengths),
    }
    if not issparse(rows):
        found["frames"] = of_dask(rows, y, lengths)
        found["parquet"] = of_parquet(path, rows, y, [one for one in lengths if one])
    return found


def with_unit(model, unit):
    """Return a copy in which every private step protects a unit."""
    model = clone(model).set_params(random_state=SEED)
    names = [name for name in model.get_params() if name.endswith("privacy_unit")]
    return model.set_params(**dict.fromkeys(names, unit)) if unit == "user" else model


def numbers_of(model):
    """Return all numbers that a fit has set, by name."""
    steps = dict(getattr(model, "named_steps", {"": model}))
    if (columns := steps.get("columntransformer")) is not None:
        steps["columntransformer"] = columns.named_transformers_["scaled"]
    steps |= {name: one.regressor_ for name, one in steps.items() if hasattr(one, "regressor_")}
    return {
        f"{name} {key}": value
        for name, one in steps.items()
        for key, value in vars(one).items()
        if key.endswith("_") and isinstance(value, np.ndarray) and value.dtype.kind == "f"
    }


def assert_same(one, other, what, same=np.testing.assert_array_equal):
    assert one.keys() == other.keys() > set(), what
    for name, value in one.items():
        assert value.dtype == other[name].dtype, (what, name)
        same(value, other[name], err_msg=f"{what}: {name}")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind", "unit"), PRODUCT)
def test_the_bits_are_the_same(name, kind, unit, tmp_path):
    model, y = MODELS[name]
    model, rows = with_unit(model, unit), KINDS[kind](ROWS)
    users = {"users": USERS} if unit == "user" else {}

    def fits(lengths, **more):
        path = tmp_path / f"{len(lengths)}"
        for which, data in containers(path, rows, y, lengths).items():
            yield which, numbers_of(clone(model).set_params(**more).fit(*data, **users))

    in_memory = numbers_of(clone(model).fit(rows, y, **users))
    for which, found in fits((N,)):
        assert_same(in_memory, found, f"one of {which}")
    (_, first), *others = fits(SEVERAL)
    for which, found in others:
        # Parquet has no empty row groups, which are parts of no rows elsewhere.
        assert_same(first, found, which)
    close = partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-4)
    exact = numbers_of(clone(model).set_params(epsilon=np.inf).fit(rows, y, **users))
    for which, found in fits(SEVERAL, epsilon=np.inf):
        assert_same(exact, found, which, close)
