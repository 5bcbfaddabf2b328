"""What one row makes of the predictions for all moves the loss of no other row."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdp import DPPCA, PrivacyWarning
from skdp.model_selection import DPGridSearch, private_score
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


@pytest.mark.covered
@pytest.mark.parametrize("scoring", ["neg_mean_squared_error", "neg_mean_absolute_error"])
@pytest.mark.parametrize("name", PREDICTIONS)
def test_no_prediction_moves_the_loss_of_another_row(name, scoring):
    model = Regressor(PREDICTIONS[name])
    losses, others = (row_losses(scoring, model, rows, Y) for rows in (X, WITH_ODD))
    np.testing.assert_array_equal(losses[IS_OTHER], others[IS_OTHER])
    assert np.isfinite(others).all()


@pytest.mark.covered
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


# ------------------------------
# A score that looks at the batch is refused by public rows, which are shown to it with another row
# beside them and without.

WHOLE = np.random.default_rng(1).integers(0, 5, (40, 3))
COUNTS = WHOLE[:, 0] + 2 * WHOLE[:, 1]
LABELS = np.array(["no", "yes", "maybe"])[COUNTS % 3]
REFUSED = "scoring must take each row by itself, .* of a public row changes with the row beside it"
PREDICTIONS_OF_ALL = {
    "mean": lambda values: values - values.mean(),
    "rank": lambda values: values.argsort().argsort().astype(float),
    "largest": lambda values: values / np.abs(values).max(),
    "spread": lambda values: values / (1 + values.std()),
    "quantile": lambda values: np.minimum(values, np.quantile(values, 0.9)),
    "refused if alike": lambda values: values if np.ptp(values) else refused(values),
}
RESPONSES_OF_ALL = {
    **PREDICTIONS_OF_ALL,
    "frequency": lambda values: 1 / (values[:, np.newaxis] == values).sum(axis=1),
}
CONTAINERS = {
    "whole": lambda rows: rows,
    "halves": lambda rows: rows * 0.5,
    "truth": lambda rows: rows > 1,
    "list": lambda rows: rows.tolist(),
    "objects": lambda rows: rows.astype(object),
    "frame": pd.DataFrame,
    "polars": pl.DataFrame,
    "sparse": csr_array,
}


@pytest.mark.covered(at_most=12)
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("name", PREDICTIONS_OF_ALL)
def test_a_score_that_looks_at_all_rows_is_refused(name, container):
    model, rows = Ridge().fit(WHOLE, COUNTS), CONTAINERS[container](WHOLE)

    def _of_all(model, X, y):
        return PREDICTIONS_OF_ALL[name](model.predict(X))

    if hasattr(rows, "columns"):
        model.fit(rows, COUNTS)
    for responses in (None, COUNTS):
        with pytest.raises(ValueError, match=REFUSED):
            row_losses(_of_all, model, rows, responses)
    by_rows = row_losses(lambda model, X, y: -model.predict(X), model, rows, COUNTS)
    np.testing.assert_allclose(by_rows, model.predict(rows))


@pytest.mark.covered(at_most=8)
@pytest.mark.parametrize("kind", [np.asarray, np.float32, np.uint8, list, pd.Series, object])
@pytest.mark.parametrize("name", RESPONSES_OF_ALL)
def test_a_score_that_looks_at_all_responses_is_refused(name, kind):
    # The predictions are all the same, so that nothing but y tells.
    model = Ridge().fit(WHOLE, np.ones(len(WHOLE)))
    y = COUNTS.astype(object) if kind is object else kind(COUNTS)

    def _of_all(model, X, y):
        return RESPONSES_OF_ALL[name](np.asarray(y, dtype=float) - 0.5 * model.predict(X))

    with pytest.raises(ValueError, match=REFUSED):
        row_losses(_of_all, model, WHOLE, y)


@pytest.mark.parametrize("labels", [LABELS, LABELS.tolist(), pd.Series(LABELS), COUNTS % 2])
def test_a_score_that_looks_at_the_labels_of_all_rows_is_refused(labels):
    model = LogisticRegression().fit(WHOLE, labels)

    def _balanced(model, X, y):
        right = model.predict(X) == y
        return right / [list(y).count(label) for label in y]

    with pytest.raises(ValueError, match=REFUSED):
        row_losses(_balanced, model, WHOLE, labels)
    # The number of rows is public.
    right = row_losses(lambda model, X, y: (model.predict(X) == y) / len(y), model, WHOLE, labels)
    assert set(right) == {0.0, -1 / len(WHOLE)}


def test_texts_that_are_looked_at_together_are_refused():
    texts = np.array([f"{row[0]}" * (1 + row[1]) for row in WHOLE])
    lengths = lambda model, X, y: np.char.str_len(X) - np.char.str_len(X).mean()  # noqa: E731
    with pytest.raises(ValueError, match=REFUSED):
        row_losses(lengths, None, texts, None)


KNOWN = {"good": 0.0, 5: 1.0}


@pytest.mark.parametrize("note", [5, "good", "bad"])
def test_no_text_among_objects_decides_whether_a_score_that_knows_no_public_rows_is_an_error(note):
    # All public rows are unknown: after the fits only types may tell whether that is refused.
    frame = pd.DataFrame(X, columns=list("abc")).assign(note=pd.Series([5] * len(X), dtype=object))
    frame.loc[ODD, "note"] = note
    pipeline = make_pipeline(
        FunctionTransformer(lambda rows: rows[["a", "b"]].to_numpy()), DPPCA(1)
    )
    search = DPGridSearch(
        pipeline,
        {"dppca__n_components": [1, 2]},
        scoring=lambda model, rows, y: np.array([KNOWN[one] for one in rows["note"]]),
    )
    with pytest.warns(PrivacyWarning, match="was called with public texts"):
        search.fit(frame)


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_neither_a_search_nor_a_score_takes_one():
    def _centered(model, X, y=None):
        scores = model.score_samples(X)
        return scores - scores.mean()

    pca = DPPCA(2, row_norm=3.0, mean_norm=3.0)
    search = DPGridSearch(pca, {"n_components": [1, 2]}, scoring=_centered)
    with pytest.raises(ValueError, match=REFUSED):
        search.fit(X)
    assert not hasattr(search, "privacy_spent_")
    with pytest.raises(ValueError, match=REFUSED):
        private_score(pca.fit(X), X, scoring=_centered)


def test_a_step_that_mixes_whole_numbers_is_refused():
    step = FunctionTransformer(lambda rows: rows - rows.mean(axis=0))
    with pytest.raises(ValueError, match="'step' must take each row by itself"):
        transformed([("step", step)], WHOLE)
    search = DPGridSearch(make_pipeline(step, DPPCA(2)), {"dppca__whiten": [True, False]})
    with pytest.raises(ValueError, match="must take each row by itself"):
        search.fit(WHOLE)
