"""Public rows in the place of private ones: of every container, and telling nothing of it."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, dia_array, lil_array
from sklearn.preprocessing import FunctionTransformer

from skdp import DPTraceRegressor, RankOneMatrices
from skdp.model_selection import DPGridSearch, private_score
from skdp.pipeline._public_rows import stand_ins
from skdp.pipeline._public_steps import losses_by_rows, transformed

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

GENERATOR = np.random.default_rng(0)
LEFT, RIGHT = GENERATOR.standard_normal((60, 4)), GENERATOR.standard_normal((60, 3))
MATRICES = {
    "dense": RankOneMatrices(LEFT, RIGHT),
    "sparse": RankOneMatrices(csr_array(LEFT), csr_array(RIGHT.astype(np.float32))),
    "cells": RankOneMatrices.from_indices([0, 1] * 30, [0, 1, 2] * 20, (2, 3)),
}
Y = LEFT[:, 0] * RIGHT[:, 0]
ODD = 7


@pytest.mark.parametrize("name", MATRICES)
def test_matrices_of_rank_one_are_searched_and_scored(name):
    X = MATRICES[name]
    search = DPGridSearch(DPTraceRegressor(), {"rank": [1, 2]}).fit(X, Y)
    assert search.best_params_["rank"] in (1, 2)
    assert np.isfinite(private_score(search.best_estimator_, X, Y).value)


@pytest.mark.parametrize("name", MATRICES)
def test_a_refused_matrix_has_the_worst_loss_and_changes_no_other(name):
    X = MATRICES[name]

    def _losses(rows, responses):
        if (responses == Y[ODD]).any():
            raise ValueError
        return rows.toarray().sum(axis=1)

    losses = losses_by_rows("scoring", _losses, X, Y)
    expected = X.toarray().sum(axis=1)
    assert np.isnan(losses[ODD])
    np.testing.assert_array_equal(np.delete(losses, ODD), np.delete(expected, ODD))


def raising_all(rows):
    raise ValueError(f"bad {rows['a'].tolist()}")


@pytest.mark.parametrize("labels", [["Alice", "Bob"], [41.5, 7.5]])
def test_no_error_of_public_rows_shows_a_category(labels):
    frame = pd.DataFrame({"a": pd.Categorical(labels * 4), "b": np.ones(8)})
    texts = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            losses_by_rows("scoring", raising_all, frame)
        except ValueError as error:
            texts.append(str(error))
    texts += [str(one.message) for one in caught]
    assert len(texts) == 1
    assert not any(str(label) in texts[0] for label in labels)


def test_the_width_of_texts_changes_no_public_row():
    made = [
        [rows.tolist() for rows in stand_ins(np.array([text] * 4), are_numbers=False)]
        for text in ("1", "12345")
    ]
    assert made[0] == made[1]


def lil_with_wrong_index(rows):
    made = lil_array(rows)
    made.rows[0], made.data[0] = [99_999_999], [1.0]
    return made


def dia_with_wrong_offset(rows):
    made = dia_array(rows)
    made.offsets, made.data = np.array([0, 99_999_999]), np.ones((2, 3))
    return made


@pytest.mark.parametrize("wrong", [lil_with_wrong_index, dia_with_wrong_offset])
def test_a_row_of_which_a_wrong_matrix_is_made_is_zero(wrong):
    rows = np.abs(LEFT[:20, :3])
    rows[ODD] *= -1

    def _step(part):
        return wrong(part) if (part < 0).any() else type(wrong(part))(part)

    made = transformed([("step", FunctionTransformer(_step))], rows).toarray()
    expected = rows.copy()
    expected[ODD] = 0.0
    np.testing.assert_array_equal(made, expected)


def test_sparse_columns_keep_their_type():
    def _roots(frame):
        arrays = {name: np.emath.sqrt(frame[name].to_numpy()) for name in frame}
        return pd.DataFrame({name: pd.arrays.SparseArray(array) for name, array in arrays.items()})

    rows = np.abs(LEFT)
    frames = [pd.DataFrame(rows, columns=list("abcd")) for _ in range(2)]
    frames[1].loc[ODD, "b"] = -2.0
    step = [("roots", FunctionTransformer(_roots))]
    made = [transformed(step, frame) for frame in frames]
    assert made[0].dtypes.equals(made[1].dtypes)
    left = [frame.drop(index=ODD).to_numpy() for frame in made]
    np.testing.assert_array_equal(left[0], left[1])
