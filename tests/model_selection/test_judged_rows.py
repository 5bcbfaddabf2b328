"""What one row makes of the predictions for all moves the loss of no other row."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.preprocessing import FunctionTransformer

from skdp.model_selection._score import row_losses
from skdp.pipeline._public_steps import transformed

X = np.random.default_rng(0).standard_normal((30, 3))
ODD = 4
WITH_ODD = X.copy()
WITH_ODD[ODD] = -9.0
Y = X[:, 0]
IS_OTHER = np.arange(len(X)) != ODD


class Regressor(RegressorMixin, BaseEstimator):
    def __init__(self, of_odd):
        self.of_odd = of_odd

    def predict(self, rows):
        values = self._of(rows)
        return self.of_odd(values) if (rows == -9).all(axis=1).any() else values

    def _of(self, rows):
        return 2 * rows[:, 1]


class Classifier(ClassifierMixin, Regressor):
    def _of(self, rows):
        return (rows[:, 1] > 0).astype(int)


def refused(values):
    raise ValueError(str(values))


PREDICTIONS = {
    "a number for all": lambda values: 3,
    "half precision": lambda values: values.astype(np.float16),
    "single precision": lambda values: values.astype(np.float32),
    "whole numbers": lambda values: values.astype(int),
    "texts": lambda values: np.array([*values, "x"])[:-1],
    "complex": lambda values: values * 1j,
    "columns": lambda values: values[:, np.newaxis],
    "objects": lambda values: np.array([object()] * len(values)),
    "none": refused,
}


@pytest.mark.parametrize("scoring", ["neg_mean_squared_error", "neg_mean_absolute_error"])
@pytest.mark.parametrize("name", PREDICTIONS)
def test_no_prediction_moves_the_loss_of_another_row(name, scoring):
    model = Regressor(PREDICTIONS[name])
    losses, others = (row_losses(scoring, model, rows, Y) for rows in (X, WITH_ODD))
    np.testing.assert_array_equal(losses[IS_OTHER], others[IS_OTHER])
    assert np.isfinite(others).all()


@pytest.mark.parametrize("labels", [np.array, list])
@pytest.mark.parametrize("name", PREDICTIONS)
def test_no_label_moves_the_accuracy_of_another_row(name, labels):
    model = Classifier(PREDICTIONS[name])
    y = labels([0, 1] * 15)
    losses, others = (row_losses("accuracy", model, rows, y) for rows in (X, WITH_ODD))
    np.testing.assert_array_equal(losses[IS_OTHER], others[IS_OTHER])
    assert set(others) <= {0.0, 1.0}


def test_no_text_among_responses_makes_texts_of_all():
    model = Classifier(refused)
    y = model.predict(X).tolist()
    other = [*y[:ODD], "x", *y[ODD + 1 :]]
    losses = row_losses("accuracy", model, X, other)
    np.testing.assert_array_equal(np.flatnonzero(losses), [ODD])


def test_what_only_rows_together_make_is_no_error():
    def _step(rows):
        if len(rows) > 2 and (rows == -9).any():
            raise ValueError
        return rows

    made = transformed([("step", FunctionTransformer(_step))], WITH_ODD)
    np.testing.assert_array_equal(made, WITH_ODD)
