"""Models that are handed over: equal, without skdp, and with nothing that was not released."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from covers import single_cover
from families import FAMILIES
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, StandardScaler

from skdp import (
    DPPCA,
    DPLinearRegression,
    DPLogisticRegression,
    DPLowRankFactorizer,
    DPStandardScaler,
    DPTraceRegressor,
    DPTruncatedSVD,
    make_dp_pipeline,
    to_sklearn,
)
from skdp.datasets import make_interactions
from skdp.model_selection import DPGridSearch
from skdp.testing._recording import RecordingBudget, fit_with, said_by, scripted_budget
from skdp.units import Interaction

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

SECRET = 0x9D5C1F2B7A83E6401B3D5F7791A2C4E6
TWINS = (DPPCA, DPTruncatedSVD, DPLinearRegression, DPLogisticRegression, DPStandardScaler)
METHODS = ("transform", "predict", "predict_proba", "decision_function")
# Loads models where skdp cannot be imported, and compares what they return.
ELSEWHERE = """
import pickle, sys
import numpy as np
sys.modules["skdp"] = None
with open(sys.argv[1], "rb") as file:
    cases = pickle.load(file)
for name, twin, rows, expected in cases:
    for method, (values, size) in expected.items():
        found = getattr(twin, method)(rows)
        if np.asarray(values).dtype.kind == "f":
            np.testing.assert_allclose(found, values, rtol=1e-12, atol=1e-12 * size, err_msg=name)
        else:
            np.testing.assert_array_equal(found, values, err_msg=name)
assert not [name for name in sys.modules if name.startswith("skdp.")]
print(len(cases))
"""


def has_twin(cell):
    """Whether scikit-learn can do what the estimator of a cell does."""
    return isinstance(cell(), TWINS) and getattr(cell, "unit", None) != "interaction"


CELLS = {family.name: tuple(filter(has_twin, family.cells)) for family in FAMILIES}
CELLS = {name: cells for name, cells in CELLS.items() if cells}


def fitted(family, cell):
    """Fit a cell; cells of people have classes of their own, which take users by place."""
    with family.setting(cell):
        model = cell()
        if not getattr(model, "with_mean", True):
            model.set_params(clip=None)
        model.fit(*family.arguments(family.ordinary(cell)))
    model.__class__ = next(kind for kind in type(model).__mro__ if kind in TWINS)
    return model


def public_rows(model):
    """Rows around what a model has released, many of them far outside."""
    generator = np.random.default_rng(0)
    d = model.n_features_in_
    center = getattr(model, "mean_", np.zeros(d)).astype(np.float64)
    spread = getattr(model, "scale_", np.ones(d))
    if getattr(model, "feature_bounds_", None) is not None:
        low, high = model.feature_bounds_.astype(np.float64)
        center, spread = (low + high) / 2, (high - low) / 4
    rows = center + spread * generator.normal(size=(40, d)) * 10.0 ** generator.uniform(-1, 2, d)
    if getattr(model, "missing", "refuse") == "mean":
        rows[generator.random(rows.shape) < 0.2] = np.nan
    return rows


def results(model, rows):
    """What all methods of a model return, and how large the terms of the sums are."""
    size = 1.0
    if hasattr(model, "coef_"):
        terms = np.abs(model.coef_) @ np.abs(np.nan_to_num(rows)).max(axis=0)
        size = float(np.max(terms + np.abs(model.intercept_)))
    found = {name: getattr(model, name)(rows) for name in METHODS if hasattr(model, name)}
    return {
        name: (one, size if one.dtype.kind == "f" and name != "predict_proba" else 1.0)
        for name, one in found.items()
    }


def assert_equal_elsewhere(path, cases):
    """Compare models with their twins, by name, in a process that has no skdp."""
    told = []
    for name, (model, rows) in cases.items():
        twin = to_sklearn(model)
        assert type(twin).__module__.startswith("sklearn."), name
        assert b"skdp" not in pickle.dumps(twin), name
        told.append((name, twin, rows, results(model, rows)))
    path.write_bytes(pickle.dumps(told))
    command = [sys.executable, "-W", "error", "-c", ELSEWHERE, str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.stdout.split() == [str(len(cases))], run.stderr


COVERS = {name: single_cover(cells) for name, cells in CELLS.items()}


@pytest.mark.parametrize(
    "cells",
    [
        pytest.param(COVERS, id="covers"),
        *(
            pytest.param({name: cells}, id=name, marks=pytest.mark.slow)
            for name, cells in CELLS.items()
        ),
    ],
)
def test_every_cell_with_a_twin_is_the_same_where_skdp_cannot_be_imported(tmp_path, cells):
    models = {
        f"{family.name}: {cell}": fitted(family, cell)
        for family in FAMILIES
        for cell in cells.get(family.name, ())
    }
    cases = {name: (model, public_rows(model)) for name, model in models.items()}
    assert_equal_elsewhere(tmp_path / "cases.pickle", cases)


# ------------------------------
# Pipelines and columns.

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(120, 4)) * [1, 10, 0.1, 1] + [0, 50, 0, 3]
LABELS = (X[:, 1] > 50).astype(int)
FRAME = pd.DataFrame(X, columns=list("abcd"))
ENDS = (np.array([-3.0, 0, -1, 0]), np.array([3.0, 100, 1, 6]))
NAMED = FRAME.assign(kind=np.where(X[:, 3] > 3, "yes", "no"))
# Far outside of the ends, so that a clip that is forgotten shows.
FAR = pd.concat([FRAME, 20 * FRAME, -20 * FRAME], ignore_index=True)
FAR_NAMED = FAR.assign(kind="no")


def scaler(**more):
    return DPStandardScaler(bounds=ENDS, **more)


def classifier(**more):
    return DPLogisticRegression(classes=[0, 1], row_norm=3.0, **more)


def columns(*after):
    codes = OneHotEncoder(categories=[["no", "yes"]], handle_unknown="ignore", sparse_output=False)
    inner = make_pipeline(FunctionTransformer(np.cbrt), *after)
    return ColumnTransformer(
        [
            ("scaled", DPStandardScaler(), ["a", "b"]),
            ("inner", inner, ["c", "d"]),
            ("nothing", clone(after[0]) if after else "drop", []),
            ("codes", codes, ["kind"]),
        ],
        sparse_threshold=0,
    )


with warnings.catch_warnings(action="ignore"):
    FROZEN = FrozenEstimator(make_pipeline(StandardScaler(), DPPCA(3)).fit(FAR.to_numpy()))
PIPELINES = {
    "two": ((scaler(), classifier()), FRAME, FAR),
    "three": ((scaler(), DPPCA(2, row_norm=4.0, whiten=True), classifier()), X, FAR.to_numpy()),
    "numbers": ((scaler(), DPLinearRegression()), X, FAR.to_numpy()),
    "public steps": ((Normalizer(), DPTruncatedSVD(2), "passthrough"), X, FAR.to_numpy()),
    "gaps": ((scaler(missing="mean"), classifier()), FRAME.mask(FRAME > 55), FAR.mask(FAR > 55)),
    "columns": ((columns(), classifier()), NAMED, FAR_NAMED),
    "frozen": ((FROZEN, classifier()), X, FAR.to_numpy()),
}
MODELS = {
    name: (make_dp_pipeline(*steps, epsilon=20.0), rows, far)
    for name, (steps, rows, far) in PIPELINES.items()
}
MODELS |= {
    "columns of scikit-learn": (columns(DPStandardScaler()), NAMED, FAR_NAMED),
    "of scikit-learn": (make_pipeline(scaler(), classifier()), FRAME, FAR),
    "union": (FeatureUnion([("pca", DPPCA(2)), ("svd", DPTruncatedSVD(1))]), X, FAR.to_numpy()),
    "search": (
        DPGridSearch(
            make_dp_pipeline(scaler(), classifier()), {"dplogisticregression__row_norm": [2.0, 3.0]}
        ),
        X,
        FAR.to_numpy(),
    ),
    "sparse": (DPStandardScaler(with_mean=False, clip=None), X, FAR.to_numpy()),
}


def fitted_models():
    return {
        name: (clone(model).fit(rows, LABELS), far) for name, (model, rows, far) in MODELS.items()
    }


def test_pipelines_are_the_same_where_skdp_cannot_be_imported(tmp_path):
    assert_equal_elsewhere(tmp_path / "cases.pickle", fitted_models())


def test_twins_have_the_released_values_and_the_names():
    model = make_dp_pipeline(scaler(), classifier(), epsilon=20.0).fit(FRAME, LABELS)
    twin = to_sklearn(model)
    assert list(twin.feature_names_in_) == list("abcd")
    assert [name for name, _ in twin.steps] == ["dpstandardscaler", "dplogisticregression"]
    np.testing.assert_array_equal(twin[-1].coef_, model[-1].coef_)
    np.testing.assert_array_equal(twin[0]["scale"].mean_, model[0].mean_)
    assert not np.shares_memory(twin[-1].coef_, model[-1].coef_)
    back = twin[0].inverse_transform(twin[0].transform(FRAME))
    np.testing.assert_allclose(back, model[0].inverse_transform(model[0].transform(FRAME)))
    again = clone(twin).fit(FRAME, LABELS)
    assert again.score(FRAME, LABELS) > 0.9


def test_steps_that_give_frames_fit_together():
    with config_context(transform_output="pandas"):
        pca = FeatureUnion([("one", DPPCA(2, row_norm=90.0))])
        model = make_pipeline(pca, DPStandardScaler(clip=None), classifier()).fit(FRAME, LABELS)
        twin = to_sklearn(model)
        assert list(twin[-1].feature_names_in_) == ["one__pca0", "one__pca1"]
        np.testing.assert_array_equal(twin.predict(FAR), model.predict(FAR))


def test_sparse_rows_stay_sparse():
    table = make_interactions(300, 40, n_interactions=3000, random_state=0)
    model = DPTruncatedSVD(2, row_norm=5.0).fit(table)
    np.testing.assert_allclose(
        to_sklearn(model).transform(table), model.transform(table), atol=1e-12
    )
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        to_sklearn(DPLinearRegression().fit(X, X[:, 0])).predict(table[:, :4])


@pytest.mark.parametrize(
    ("model", "error", "told"),
    [
        (DPStandardScaler(with_mean=False), ValueError, "clip=5: fit with clip=None"),
        (DPTruncatedSVD(2, privacy_unit=Interaction()), ValueError, "as an array"),
        (DPLowRankFactorizer(2), TypeError, "DPLowRankFactorizer has no twin.*DPPCA, "),
        (DPTraceRegressor(1), TypeError, "pickle for those who have skdp"),
        (StandardScaler(), TypeError, "use DPStandardScaler"),
        (make_pipeline(StandardScaler(), classifier()), TypeError, "without privacy"),
        (
            GridSearchCV(classifier(), {"row_norm": [1.0, 2.0]}, cv=2),
            TypeError,
            "pass its best_estimator_",
        ),
    ],
    ids=str,
)
def test_what_has_no_twin_is_refused_and_told_what_to_do(model, error, told):
    with pytest.raises(error, match=told):
        to_sklearn(clone(model).fit(np.abs(X) > 1, LABELS))


@pytest.mark.parametrize("make", [DPPCA, scaler, lambda: make_dp_pipeline(scaler(), classifier())])
def test_what_is_not_fitted_is_refused(make):
    with pytest.raises(NotFittedError):
        to_sklearn(make())


# ------------------------------
# Nothing is told beyond releases.


def test_no_seed_is_copied():
    pca = DPPCA(2, random_state=SECRET)
    models = [pca, scaler(random_state=SECRET)]
    models += [make_pipeline(clone(pca)), FeatureUnion([("one", clone(pca))])]
    models += [make_dp_pipeline(scaler(), DPPCA(2), random_state=SECRET)]
    seed = SECRET.to_bytes(16, "little")
    for model in models:
        assert seed in pickle.dumps(model)
        assert seed not in pickle.dumps(to_sklearn(model.fit(X)))


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        pytest.param(name, cell, id=f"{name}: {cell}", marks=marks)
        for name, cells in CELLS.items()
        for cell in cells
        for marks in [() if cell in COVERS[name][:2] else pytest.mark.slow]
    ],
)
def test_other_data_with_the_same_releases_give_the_same_twin(name, cell):
    (family,) = (family for family in FAMILIES if family.name == name)
    data = family.ordinary(cell)
    with family.setting(cell):
        first, budget = fit_with(cell(), family.arguments(data), RecordingBudget)
        scripted = scripted_budget(budget.released)
        told = told_of(first)
        for other in family.strangers(cell, data):
            assert told_of(fit_with(cell(), other, scripted)[0]) == told


def told_of(model):
    """All that is handed over, and said meanwhile."""
    model.__class__ = next(kind for kind in type(model).__mro__ if kind in TWINS)
    if not getattr(model, "with_mean", True):
        model.set_params(clip=None)
    twin, said = said_by(lambda: to_sklearn(model))
    return pickle.dumps(twin), said
