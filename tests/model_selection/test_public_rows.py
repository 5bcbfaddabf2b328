"""Public rows in the place of private ones: of every container, and telling nothing of it."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from skdp import DPTraceRegressor, RankOneMatrices
from skdp.model_selection import DPGridSearch, private_score
from skdp.pipeline._public_rows import stand_ins
from skdp.pipeline._public_steps import losses_by_rows

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
    made = [[rows.tolist() for rows in stand_ins(np.array([text] * 4))] for text in ("1", "12345")]
    assert made[0] == made[1]
