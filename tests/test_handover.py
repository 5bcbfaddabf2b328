"""Models that are handed over: equal, without skdp, and with nothing that was not released."""

import json
import pickle
import subprocess
import sys
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from covers import single_cover
from families import FAMILIES
from scipy.sparse import issparse
from scipy.stats import norm
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, StandardScaler
from twins import CELLS, TWINS, fitted, public_rows, results

import skdp
from skdp import (
    DPPCA,
    DPCovariance,
    DPLinearRegression,
    DPLogisticRegression,
    DPLowRankFactorizer,
    DPStandardScaler,
    DPTruncatedSVD,
    PrivacyLedger,
    make_dp_pipeline,
    model_card,
    privacy_spent,
    to_sklearn,
)
from skdp.datasets import make_interactions
from skdp.model_selection import DPGridSearch
from skdp.testing._recording import RecordingBudget, fit_with, messages_of, scripted_budget
from skdp.units import Entry, Interaction, SpectralChange

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

SECRET = 0x9D5C1F2B7A83E6401B3D5F7791A2C4E6
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


def assert_equal_elsewhere(path, cases):
    """Compare models with their twins, by name, in a process that has no skdp."""
    told = []
    for name, (model, rows) in cases.items():
        twin = to_sklearn(model)
        assert type(twin).__module__.startswith("sklearn."), name
        told.append((name, twin, rows, results(model, rows)))
    path.write_bytes(pickle.dumps(told))
    command = [sys.executable, "-W", "error", "-c", ELSEWHERE, str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.stdout.split() == [str(len(cases))], run.stderr


COVERS = {name: single_cover(cells)[:2] for name, cells in CELLS.items()}


@pytest.mark.slow
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
def test_all_that_has_a_twin_is_the_same_where_skdp_cannot_be_imported(tmp_path, cells):
    models = {
        f"{family.name}: {cell}": fitted(family, cell)
        for family in FAMILIES
        for cell in cells.get(family.name, ())
    }
    cases = {name: (model, public_rows(model)) for name, model in models.items()}
    # One process for all of it: to start one takes longer.
    pipelines = fitted_models() if cells is COVERS else {}
    assert_equal_elsewhere(tmp_path / "cases.pickle", cases | pipelines)


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


def unchanged(rows, **_):
    return rows


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


PANDAS_PCA = DPPCA(2, row_norm=4.0).set_output(transform="pandas")


@pytest.mark.parametrize(
    "model",
    [
        PANDAS_PCA,
        scaler(missing="mean").set_output(transform="pandas"),
        make_pipeline(scaler(), clone(PANDAS_PCA)).set_output(transform="pandas"),
        make_dp_pipeline(scaler(), clone(PANDAS_PCA)),
    ],
    ids=["components", "scaler", "pipeline of scikit-learn", "pipeline"],
)
def test_twins_give_the_containers_that_were_set(model):
    model = clone(model).fit(FRAME)
    with warnings.catch_warnings(action="error"):
        given, wanted = to_sklearn(model).transform(FAR), model.transform(FAR)
    wanted.columns = [name.removeprefix("dp") for name in wanted.columns]
    pd.testing.assert_frame_equal(given, wanted)


TOWNS = OneHotEncoder(categories=[["a", "b"]], handle_unknown="ignore")
# Steps that make sparse rows of one column of texts.
SPARSE_STEPS = {
    "encoder": TOWNS,
    "columns": ColumnTransformer([("town", TOWNS, ["town"])]),
    "union": FeatureUnion([("towns", TOWNS), ("again", TOWNS)]),
    "frozen": FrozenEstimator(clone(TOWNS).fit(pd.DataFrame({"town": ["a"]}))),
    "words": ColumnTransformer([("words", CountVectorizer(vocabulary=["aa"]), "town")]),
    "union of words": FeatureUnion([("words", CountVectorizer(vocabulary=["aa", "bb"]))]),
}


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("is_mapped", [True, False])
@pytest.mark.parametrize("name", SPARSE_STEPS)
def test_sparse_steps_are_dense_before_a_regression_that_clips(name, is_mapped):
    rows = pd.DataFrame({"town": ["a", "b", "aa"] * 200})
    given = rows["town"] if name == "union of words" else rows
    y = np.tile([1.0, 2.0, 3.0], 200)
    last = DPLinearRegression(response_bound=4.0)
    if is_mapped:
        functions = {"func": np.log, "inverse_func": np.exp, "check_inverse": False}
        last = TransformedTargetRegressor(last, **functions)
    model = make_dp_pipeline(SPARSE_STEPS[name], last).fit(given, y)
    with warnings.catch_warnings(action="error"):
        found = to_sklearn(model).predict(given)
    np.testing.assert_allclose(found, model.predict(given), rtol=1e-9)
    assert issparse(model[:1].transform(given))


def test_sparse_rows_stay_sparse():
    table = make_interactions(300, 40, n_interactions=3000, random_state=0)
    model = DPTruncatedSVD(2, row_norm=5.0).fit(table)
    np.testing.assert_allclose(
        to_sklearn(model).transform(table), model.transform(table), atol=1e-12
    )
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        to_sklearn(DPLinearRegression(epsilon=99.0).fit(X, X[:, 0])).predict(table[:, :4])


@pytest.mark.parametrize(
    ("model", "error", "told"),
    [
        (DPStandardScaler(with_mean=False), ValueError, "clip=5: fit with clip=None"),
        (DPTruncatedSVD(2, privacy_unit=Interaction()), ValueError, "as an array"),
        (DPLowRankFactorizer(2), TypeError, "DPLowRankFactorizer has no twin.*DPPCA, .*a pickle"),
        (StandardScaler(), TypeError, "use DPStandardScaler"),
        (make_pipeline(StandardScaler(), classifier()), TypeError, "without privacy"),
        (GridSearchCV(classifier(), {"row_norm": [1.0]}, cv=2), TypeError, "its best_estimator_"),
    ],
    ids=str,
)
def test_what_has_no_twin_is_refused_and_told_what_to_do(model, error, told):
    with pytest.raises(error, match=told):
        to_sklearn(clone(model).fit(np.abs(X) > 1, LABELS))
    with pytest.raises(TypeError, match="LowRankFactors has no twin"):
        to_sklearn(object.__new__(skdp.decomposition.LowRankFactors))


def first_columns(rows):
    return [0, 1]


def mapped(**given):
    parts = [("some", FunctionTransformer(np.tanh), given.pop("columns", [0, 1]))]
    return ColumnTransformer(parts, **{"sparse_threshold": 0, **given})


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (SimpleImputer(strategy="constant"), "keep_empty_features=True"),
        (mapped(columns=first_columns), "chose columns by a function"),
        (mapped(sparse_threshold=0.3), "sparse_threshold=0"),
        (FeatureUnion([("deep", make_pipeline(SimpleImputer(strategy="constant")))]), "drops col"),
    ],
    ids=["imputer", "callable", "density", "deep"],
)
def test_what_was_learned_without_privacy_is_refused_unless_rows_were_public(step, told):
    model = make_pipeline(step, DPTruncatedSVD(2))
    assert not privacy_spent(clone(model).fit(X)).is_private
    with pytest.raises(TypeError, match=f"without privacy: .*{told}"):
        to_sklearn(model.fit(X))
    public = FrozenEstimator(clone(step).fit(X))
    assert to_sklearn(make_pipeline(public, DPTruncatedSVD(2)).fit(X)).transform(X).shape[1] == 2


@pytest.mark.parametrize(
    "step", [SimpleImputer(strategy="constant", keep_empty_features=True), mapped()], ids=str
)
def test_what_learns_nothing_is_handed_over(step):
    assert len(to_sklearn(make_pipeline(step, DPTruncatedSVD(2)).fit(X))) == 2


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


# ------------------------------
# Records that are carried.

# With fewer rows, noise hides where columns lie, and no regression is made.
MANY = pd.concat([FRAME] * 40)

MAKERS = {
    "regression": lambda: DPCovariance(bounds=ENDS).fit(MANY).regression("a"),
    "ridge": lambda: DPCovariance(bounds=ENDS).fit(MANY).regression("a", alpha=1.0),
    "components": lambda: DPCovariance(bounds=ENDS).fit(MANY).components(2),
    "scaled components": lambda: DPCovariance(bounds=ENDS).fit(X).components(2, scale=True),
    "discriminant": lambda: made_discriminant(),
    "covariance": lambda: to_sklearn(DPCovariance(bounds=ENDS).fit(X)),
    "pipeline": lambda: to_sklearn(make_dp_pipeline(scaler(), classifier()).fit(FRAME, LABELS)),
    "columns": lambda: to_sklearn(Pipeline([("columns", columns()), ("pca", DPPCA(2))]).fit(NAMED)),
    "dp columns": lambda: to_sklearn(make_dp_pipeline(columns(), DPPCA(2)).fit(NAMED)),
    "search": lambda: to_sklearn(DPGridSearch(DPPCA(), {"n_components": [1, 2]}).fit(X)),
}


def made_discriminant():
    ends = np.array([-3.0, 0, -1, 0, 0]), np.array([3.0, 100, 1, 6, 1])
    rows = np.tile(np.column_stack([X, LABELS]), (40, 1))
    return DPCovariance(bounds=ends).fit(rows).discriminant(4)


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("name", MAKERS)
def test_what_is_made_of_a_release_carries_its_record_until_it_is_changed(name):
    model = MAKERS[name]()
    report = privacy_spent(model)
    assert report.is_private
    assert report.spent.epsilon == pytest.approx(2.0 if name == "columns" else 1.0, rel=0.3)
    assert report.spent.unit in ("row", "record")
    assert "functions that are not checked" in report.verdict or "columns" not in name
    assert model_card(model).spent == report.spent
    loaded = pickle.loads(pickle.dumps(model))
    assert privacy_spent(loaded).verdict == report.verdict
    last = loaded.steps[-1][1] if isinstance(loaded, Pipeline) else loaded
    for attribute, value in list(vars(last).items()):
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            setattr(last, attribute, np.nextafter(value, np.inf))
            changed = privacy_spent(loaded)
            assert not changed.is_private
            assert "was changed since it was made of a release" in changed.verdict
            setattr(last, attribute, value)
    assert privacy_spent(loaded).is_private
    # A model of scikit-learn alone is its own twin.
    twin = to_sklearn(loaded)
    assert twin is not loaded
    assert privacy_spent(twin).verdict == report.verdict


def test_a_model_that_is_fitted_again_carries_nothing():
    model = to_sklearn(DPLinearRegression().fit(X, LABELS))
    model.fit(X, LABELS)
    assert not privacy_spent(model).is_private
    assert privacy_spent(clone(model).fit(X, LABELS)).verdict.startswith("Unknown: ")


def test_what_weakens_a_record_is_carried_too():
    guessed = privacy_spent(to_sklearn(DPPCA(2, random_state=0).fit(X)))
    assert guessed.verdict.startswith("Not private: PCA had a random_state that may be guessed")
    exact = to_sklearn(DPLinearRegression(epsilon=np.inf).fit(X, LABELS))
    assert "epsilon of inf" in privacy_spent(exact).verdict
    warned = DPPCA(2, row_norm=1e-3).fit(X)
    assert model_card(to_sklearn(warned)).warnings == model_card(warned).warnings != []


def test_what_a_subclass_makes_carries_nothing():
    kept = type("Mine", (DPCovariance,), {})(bounds=ENDS).fit(MANY.to_numpy())
    assert not privacy_spent(kept.regression(0)).is_private


@pytest.mark.covered(at_most=8)
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
        told = known_of(first)
        for other in family.strangers(cell, data):
            assert known_of(fit_with(cell(), other, scripted)[0]) == told


@pytest.mark.covered(at_most=6)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_other_data_with_the_same_releases_give_the_same_card(family):
    for cell in single_cover(family.cells)[:2]:
        data = family.ordinary(cell)
        with family.setting(cell):
            first, budget = fit_with(cell(), family.arguments(data), RecordingBudget)
            told, scripted = told_on_card(first), scripted_budget(budget.released)
            for other in family.strangers(cell, data):
                assert told_on_card(fit_with(cell(), other, scripted)[0]) == told


def told_on_card(model):
    """All that a card says, and what is said meanwhile."""
    card, said = messages_of(lambda: model_card(model))
    return json.dumps(card.as_dict()), str(card), said


def known_of(model):
    """All that is handed over, and said meanwhile."""
    model.__class__ = next(kind for kind in type(model).__mro__ if kind in TWINS)
    if not getattr(model, "with_mean", True):
        model.clip_ = np.inf
    twin, said = messages_of(lambda: to_sklearn(model))
    return pickle.dumps(twin), said


# ------------------------------
# Cards.


def test_a_card_says_what_was_fitted_and_what_it_cost():
    model = make_dp_pipeline(scaler(), classifier(), epsilon=2.0).fit(FRAME, LABELS)
    card = model_card(model)
    told = json.loads(json.dumps(card.as_dict()))
    assert (told["model"], told["unit"], told["adjacency"]) == ("DPPipeline", "record", "replace")
    assert told["features"] == list("abcd")
    assert [step["class"] for step in told["steps"]] == [
        *("DPPipeline", "DPStandardScaler", "DPLogisticRegression")
    ]
    assert told["parameters"]["dpstandardscaler__bounds"] == [ENDS[0].tolist(), ENDS[1].tolist()]
    assert told["parameters"]["dplogisticregression__row_norm"] == 3.0
    assert {one["delta"]: one["epsilon"] for one in told["epsilons"]} == card.epsilons
    assert card.epsilons[1e-6] == pytest.approx(2.0)
    assert told["record"]["releases"] == model.privacy_spent_.as_dict()["releases"]
    assert told["versions"]["skdp"] == skdp.__version__
    assert told["warnings"] == card.warnings
    text = str(card)
    assert text == card.as_markdown() == card._repr_markdown_()
    assert text.startswith(
        "# DPPipeline\n\nWhoever suspects that a person, of whom there is one row"
    )
    assert "\n\nThis fit alone is private end to end: (2, 1e-06)-DP per record" in text
    assert "| names of features | `['a', 'b', 'c', 'd']` |" in text
    assert "| 1e-06 | 2 |" in text
    assert repr(model.privacy_spent_) in text


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_a_card_says_in_a_sentence_how_often_guesses_are_right(epsilon):
    card = model_card(DPPCA(2, row_norm=9.0, epsilon=epsilon).fit(X))
    advantage = 2 * norm.cdf(card.spent.mu / 2) - 1
    assert card.advantage == pytest.approx(advantage, rel=1e-6)
    assert card.advantage >= advantage
    assert card.true_positives == pytest.approx(norm.cdf(norm.ppf(0.01) + card.spent.mu), rel=1e-6)
    right = int(np.ceil(50 + 50 * advantage))
    assert card.meaning == (
        "Whoever suspects that a person, of whom there is one row, is in the data, and sees the "
        f"model, is right with at most {right} instead of 50 of 100 such guesses."
    )
    assert card.as_dict()["attack"]["advantage"] == card.advantage


def test_a_card_promises_no_more_than_the_record():
    entries = DPTruncatedSVD(1, privacy_unit=SpectralChange(), epsilon=1.0).fit(X.T @ X)
    assert model_card(entries).meaning.startswith("As long as what is promised holds, whoever ")
    for model in (DPPCA(2, epsilon=np.inf), DPPCA(2, random_state=0)):
        assert model_card(model.fit(X)).meaning.startswith("No person in the data has a guarantee")
    assert model_card(DPPCA(2, random_state=SECRET).fit(X)).as_dict()["noise"] == "from a seed"


def test_a_card_has_what_was_assumed_in_full_and_folds_the_parameters():
    kinds = [f"{number}-{'x' * 80}" for number in range(30)]
    codes = OneHotEncoder(categories=[kinds], handle_unknown="ignore", sparse_output=False)
    steps = ColumnTransformer([("codes", codes, ["kind"])]), DPPCA(2, row_norm=1.0)
    model = make_dp_pipeline(*steps).fit(FRAME.assign(kind=kinds[:1] * len(FRAME))[["kind"]])
    card = model_card(model, notes="Kept for a year.")
    assert card.assumptions["columntransformer__codes__categories"] == [kinds]
    text = str(card)
    assert all(kind in text.split('<details markdown="1">')[0] for kind in kinds)
    assert (
        text.index('<details markdown="1">')
        < text.index("| dppca__solver")
        < text.index("</details>")
    )
    assert f"n = {len(FRAME)}," in text
    assert "Noise: from the operating system" in text
    assert "running time" in text
    assert "## Notes\n\nKept for a year.\n" in text
    assert "## Notes" not in str(model_card(model))


# Of the schema of the registry of deployments: the fields that our entries have, and what may stand
# in some.
REGISTRY = {
    "basic": {
        *("name", "data_curators", "description", "intended_use", "data_product_type"),
        *("data_product_region", "data_product_sector", "publication_date"),
    },
    "dp_variant": {"variant_name", "data_domain", "unprotected_quantities"},
    "privacy_loss": {
        *("privacy_unit", "privacy_unit_details", "number_of_privacy_units"),
        *("privacy_parameters", "privacy_parameters_details"),
    },
    "deployment_model": {
        *("model_name", "trust_assumptions", "release_type", "data_source_type", "access_type")
    },
    "implementation": {
        *("preprocessing_and_hyperparameter_tuning", "mechanisms", "composition"),
        *("post_processing", "justification", "utility", "additional_information"),
    },
    "administrative": {"evidence_sources", "status", "registry_authors", "tier"},
}
CHOICES = {
    "data_product_type": {"Summary statistics", "Machine learning model", "Dataset"},
    "variant_name": {"Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"},
    "model_name": {"Local", "Central", "Shuffle", "Federated"},
    "release_type": {"One release", "Many releases"},
    "data_source_type": {"Static", "Dynamic"},
    "access_type": {"Interactive", "Non-interactive"},
    "status": {"Draft", "Pending"},
    "tier": {1, 2, 3},
}
PRODUCT = {
    "name": "Digits",
    "data_curators": [{"data_curator_name": "We", "data_curator_type": "Nonprofit"}],
    **dict.fromkeys(("description", "intended_use", "data_product_region"), "text"),
    "publication_date": "2026-01-31",
}


@pytest.mark.parametrize("is_pure", [False, True])
def test_an_entry_of_the_registry_follows_its_schema(is_pure):
    model = DPPCA(2, row_norm=9.0).fit(X)
    if is_pure:
        unit = Entry((0.0, 1.0))
        model = DPTruncatedSVD(1, privacy_unit=unit, delta=0.0, epsilon=9.0).fit(np.abs(X) % 1)
    card = model_card(model, notes="Made up.")
    alone = card.registry_entry("digits", authors="me", **PRODUCT)
    entry = json.loads(json.dumps(card.registry_entry("digits", authors=["me"], **PRODUCT)))
    assert alone["deployment"]["administrative"] == entry["deployment"]["administrative"]
    assert entry.keys() == {"url_slug", "deployment"}
    assert entry["deployment"].keys() == REGISTRY.keys()
    for section, fields in entry["deployment"].items():
        assert fields.keys() <= REGISTRY[section]
        assert all(fields[name] in CHOICES[name] for name in fields.keys() & CHOICES.keys())
    loss = entry["deployment"]["privacy_loss"]
    expected = {"epsilon": 9.0} if is_pure else {"epsilon": 1.0, "delta": 1e-6}
    assert loss["privacy_parameters"] == expected
    assert loss["privacy_unit"] == model.privacy_spent_.unit
    assert card.meaning in loss["privacy_parameters_details"]


def test_an_entry_of_the_registry_needs_a_guarantee_and_what_no_card_knows():
    card = model_card(DPPCA(2, row_norm=9.0).fit(X))
    with pytest.raises(ValueError, match="needs data_curators, description, intended_use"):
        card.registry_entry("digits", authors=["me"], name="Digits")
    open_card = model_card(DPPCA(2, epsilon=np.inf).fit(X))
    with pytest.raises(ValueError, match="A registry entry needs a guarantee"):
        open_card.registry_entry("digits", authors=["me"], **PRODUCT)


@pytest.mark.parametrize(
    ("model", "n_units"),
    [
        (DPGridSearch(DPPCA(), {"n_components": [1, 2]}), len(X)),
        (make_pipeline(Normalizer(), DPPCA(2)), len(X)),
        (make_dp_pipeline(DPStandardScaler(privacy_unit="user")), 30),
    ],
)
def test_a_card_has_the_number_of_what_is_protected(model, n_units):
    users = {"users": np.arange(len(X)) % 30} if n_units == 30 else {}
    fitted = model.fit(X, **users)
    assert model_card(fitted).n_units == n_units
    assert model_card(to_sklearn(fitted)).n_units == n_units


def test_no_seed_or_ledger_is_on_a_card(tmp_path):
    path = tmp_path / "secret.skdp"
    ledger = PrivacyLedger.create(path, dataset="one", epsilon=9.0, delta=1e-5)
    pca = DPPCA(2, random_state=SECRET, ledger=ledger)
    for model in (pca, make_pipeline(clone(pca)), make_dp_pipeline(DPPCA(2), random_state=SECRET)):
        card = model_card(model.fit(X))
        for text in (str(card), json.dumps(card.as_dict())):
            assert str(SECRET) not in text
            assert str(path) not in text
            assert "secret" not in text.replace("secret seed", "")


def grids_of(ledger):
    """Searches, and grids that hold what no card may tell, at any depth."""
    name = "classify__classifier__"
    seeds, ledgers = {f"{name}random_state": [SECRET]}, {f"{name}ledger": [ledger]}
    steps = [classifier(random_state=SECRET, ledger=ledger)]
    return {
        "grid": (GridSearchCV, seeds | ledgers),
        "grids": (GridSearchCV, [seeds, ledgers]),
        "distributions": (partial(RandomizedSearchCV, n_iter=2), [seeds, ledgers]),
        "steps": (GridSearchCV, {"classify__classifier": steps}),
        "objects": (GridSearchCV, {"tell__kw_args": [None, {"random_state": SECRET}]}),
        "functions": (GridSearchCV, {"tell__func": [partial(unchanged, factor=SECRET)]}),
        "texts": (GridSearchCV, {"tell__kw_args": [{"text": 2 * str(SECRET)}]}),
    }


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("case", grids_of(None))
def test_no_seed_or_ledger_is_on_a_card_of_a_search(tmp_path, case):
    path, unlimited = tmp_path / "secret.skdp", {"epsilon": 1e9, "delta": 0.1}
    ledger = PrivacyLedger.create(path, dataset="one", unit="record", **unlimited)
    search, grids = grids_of(ledger)[case]
    classify = Pipeline([("classifier", classifier())])
    model = Pipeline([("tell", FunctionTransformer(unchanged)), ("classify", classify)])
    card = model_card(search(model, grids, cv=2).fit(X, LABELS))
    for text in (str(card), json.dumps(card.as_dict(), allow_nan=False)):
        assert str(SECRET) not in text
        assert str(tmp_path) not in text


@pytest.mark.parametrize("search", [DPGridSearch, GridSearchCV])
@pytest.mark.parametrize(
    "grid",
    [
        {"pca__row_norm": [1.0, 2.0]},
        {"pca": [DPPCA(1, center=False, row_norm=one) for one in (1.0, 2.0)]},
    ],
    ids=["bounds", "steps"],
)
def test_a_card_of_a_search_tells_the_bounds_that_were_fitted(search, grid):
    whole = {
        "scale": DPStandardScaler(bounds=(-9, 9)),
        "pca": DPPCA(1, center=False, row_norm=7.0),
    }
    make = skdp.DPPipeline if search is DPGridSearch else Pipeline
    card = model_card(search(make([*whole.items()]), grid).fit(X))
    assert card.assumptions["estimator__scale__bounds"] == [-9, 9]
    assert card.assumptions["estimator__pca__row_norm"] == {"candidates": [1.0, 2.0]}
    assert "estimator__pca__row_norm | `{'candidates': [1.0, 2.0]}`" in str(card)


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"epsilon": np.inf}, "no privacy: epsilon is inf"),
        ({"epsilon": 20.0}, "weak: an epsilon above 10"),
        ({"random_state": 0}, "no privacy: whoever guesses random_state"),
        ({"random_state": SECRET}, "seeded"),
        ({"privacy_unit": SpectralChange(1.0)}, "promised, not enforced"),
    ],
    ids=str,
)
def test_a_card_warns(parameters, told):
    card = model_card(DPTruncatedSVD(2, **parameters).fit(np.eye(4)))
    assert json.dumps(card.as_dict(), allow_nan=False)
    (caution,) = card.cautions
    assert caution.startswith(told) or told in caution
    assert f"**Warning:** {caution}." in str(card)


@pytest.mark.parametrize(
    "model",
    [
        DPPCA(3, delta=0.1),
        DPStandardScaler(epsilon=0.01),
        DPLogisticRegression(),
        make_dp_pipeline(scaler(), DPLogisticRegression(), epsilon=0.1, delta=0.1),
        DPGridSearch(make_dp_pipeline(scaler(), classifier()), {"dpstandardscaler__clip": [2, 3]}),
    ],
    ids=["components", "scaler", "classes", "pipeline", "search"],
)
def test_a_card_has_all_warnings_of_the_fit_even_if_a_filter_hides_them(model):
    _, (said, *_) = messages_of(lambda: model.fit(np.zeros_like(X), LABELS))
    card = model_card(model)
    # Steps stand in either text by names of another form.
    shown = [line.partition(": ")[2] or line for line in card.warnings]
    assert all(any(line.endswith(one) for one in shown) for line in said.split("\n"))
    assert card.as_dict()["warnings"] == [*card.cautions, *card.warnings]
    assert all(f"**Warning:** {line}\n" in str(card) for line in card.warnings)
    # The first one follows from public facts.
    hidden = model_card(model.fit(np.zeros_like(X), LABELS))
    assert hidden.warnings[0] == card.warnings[0]


def test_a_card_of_a_fit_that_warns_of_nothing_has_no_warnings():
    model = DPTruncatedSVD(1, epsilon=np.inf).fit(X)
    model.set_params(epsilon=9.0, row_norm=99.0).fit(np.tile(X, (100, 1)))
    assert model_card(model).as_dict()["warnings"] == []
    assert "Warning" not in str(model_card(model))


def test_a_card_of_what_is_not_private_says_so():
    model = make_pipeline(StandardScaler(), DPPCA(2)).fit(X)
    assert str(model_card(model)).startswith("# Pipeline\n\nNo person in the data has a guarantee")
    assert "\n\nNot private: standardscaler" in str(model_card(model))
    assert not model_card(model).as_dict()["is_private"]
    with pytest.raises(ValueError, match=r"alone or in a pipeline\. No private step"):
        model_card(make_pipeline(Normalizer(), FunctionTransformer()).fit(X))
    assert model_card(make_pipeline(scaler(), classifier()).fit(X, LABELS))
    with pytest.raises(NotFittedError):
        model_card(DPPCA())


def test_parameters_of_any_kind_are_told_without_addresses():
    steps = FunctionTransformer(lambda rows: rows), DPPCA(2, center=np.zeros(4), row_norm=3.0)
    card = model_card(make_dp_pipeline(*steps).fit(X))
    assert card.parameters["dppca__center"] == [0.0] * 4
    assert card.parameters["functiontransformer__func"] == "<function>"
    assert card.parameters["dppca__privacy_unit"] == "row"
    assert " at 0x" not in str(card) + json.dumps(card.as_dict())


def test_the_card_of_reports_names_the_local_model():
    local = skdp.LocalReports(3, row_norm=1.0, epsilon=64.0)
    factors = local.aggregate([local.report([1.0, 0.0, 0.0]) for _ in range(200)], 1)
    card = skdp.model_card(factors)
    assert "- Trust model: local" in card.as_markdown()
    facts = {"name": "a", "data_curators": [], "description": "b", "intended_use": "c"}
    facts |= {"data_product_region": "d", "publication_date": "2026-01-01"}
    entry = card.registry_entry("slug", authors=["me"], **facts)
    assert entry["deployment"]["deployment_model"]["model_name"] == "Local"
