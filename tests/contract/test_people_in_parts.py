"""Ids of people whose rows come in parts, or from Dask: in one array, in parts, or from Dask."""

import math

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from in_parts import in_chunks, in_parts
from people_kinds import SECRET, WAYS, assert_close, fitted, rows_of_people
from refusals import refusal_of
from sklearn.base import clone

from skdp import DPPCA, DPLogisticRegression
from skdp.model_selection import DPGridSearch

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

IDS = {
    "one array": lambda codes: codes,
    "parts": lambda codes: np.split(codes, [1, 1, 8]),
    "parts that have rows": lambda codes: (codes[:1], pd.Series(codes[1:8]), codes[8:, None]),
    "parts of names": lambda codes: np.split(np.array([f"p{code:03d}" for code in codes]), [1, 8]),
    "other chunks": lambda codes: da.from_array(codes, chunks=100),
    "a series of dask": lambda codes: dd.from_pandas(pd.Series(codes), npartitions=2),
}
WITH_IDS = [
    (*way, ids)
    for way in WAYS
    # Of sparse factors a fit releases variances in place of covariances.
    if way[1] != "dense" and way != ("factors", "csr")
    for ids in (["one array"] if way[1] == "csr" else IDS)
]


@pytest.mark.covered(at_most=14)
@pytest.mark.parametrize(("kind", "container", "ids"), WITH_IDS)
def test_ids_and_rows_come_in_any_container(kind, container, ids):
    X, y, codes = rows_of_people()
    facts = {"epsilon": math.inf, "random_state": SECRET, "privacy_unit": "user"}
    dense = fitted(kind, X[codes], y[codes], users=codes, **facts)
    other = fitted(kind, X[codes], y[codes], container, users=IDS[ids](codes), **facts)
    assert_close(dense, other, 1e-4 if kind == "classifier" else 1e-9)


@pytest.mark.parametrize("ids", IDS)
def test_the_same_people_get_the_same_noise_however_they_are_named(ids):
    X, _, codes = rows_of_people()
    rows, facts = in_parts(X[codes]), {"random_state": SECRET, "privacy_unit": "user"}
    expected = DPPCA(2, **facts).fit(rows, users=codes)
    assert_close(DPPCA(2, **facts).fit(rows, users=IDS[ids](codes)), expected, 0.0)


def test_ids_of_dask_are_a_column_of_the_rows_and_are_read_once():
    X, y, codes = rows_of_people()
    table = pd.DataFrame(X[codes], columns=list("abcd")).assign(y=y[codes])
    frame = dd.from_pandas(table.assign(who=[f"p{code:03d}" for code in codes]), npartitions=3)
    facts = {"classes": [0, 1, 2], "epsilon": math.inf, "privacy_unit": "user"}
    model, n_read = DPLogisticRegression(**facts, random_state=SECRET), []

    def counted(ids):
        n_read.append(len(ids))
        return ids

    with dask.config.set(scheduler="synchronous"):
        ids = frame["who"].map_partitions(counted, meta=frame["who"]._meta)
        n_read.clear()
        fitted_once = clone(model).fit(frame[list("abcd")], frame["y"], users=ids)
        assert sum(n_read) == len(codes)
        private = DPLogisticRegression(classes=[0, 1, 2], privacy_unit="user")
        DPGridSearch(private, {"row_norm": [1.0, 2.0]}).fit(X[codes], y[codes], users=ids)
    assert sum(n_read) == 2 * len(codes)
    assert_close(fitted_once, model.fit(X[codes], y[codes], users=codes), 1e-4)


def failing(ids):
    raise KeyError("Jane")


def parts_of_kinds(codes):
    return [codes[:1].astype(str), *np.split(codes[1:], [7])]


def chunks_of(X):
    return in_chunks(X)[0]


BAD = {
    "rows in one array": (np.asarray, IDS["parts"], "X has no parts"),
    "one array": (in_parts, lambda codes: [codes], "got 1 arrays for 3 parts"),
    "other cuts": (
        in_parts,
        lambda codes: np.split(codes, [2, 8]),
        "an array for each part of X, with an id for each row",
    ),
    "a part behind an empty one": (in_parts, lambda codes: np.split(codes, [1, 9]), "for each row"),
    "kinds": (in_parts, parts_of_kinds, "all integers or all strings"),
    "a table in a part": (in_parts, lambda codes: [np.ones((1, 2))], r"users\[0\] must be 1-D"),
    "too few chunks": (chunks_of, lambda codes: da.from_array(codes[1:]), "ids, but X has"),
    "fractions": (chunks_of, lambda codes: da.from_array(codes / 2), "are fractions"),
    "a frame": (chunks_of, lambda codes: da.from_array(np.c_[codes, codes]), "must be 1-D"),
    "failing chunks": (
        chunks_of,
        lambda codes: da.from_array(codes).map_blocks(failing, dtype=int),
        "Dask has raised KeyError",
    ),
}


@pytest.mark.parametrize("bad", BAD)
def test_ids_that_do_not_lie_as_the_rows_are_refused(bad):
    X, _, codes = rows_of_people()
    contain, ids, text = BAD[bad]
    refused = refusal_of(DPPCA(2, privacy_unit="user"), contain(X[codes]), users=ids(codes))
    assert refused.match(text)
    assert "Jane" not in str(refused.value)
