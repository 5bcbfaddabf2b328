"""Searches and scores that protect people with several rows: attacks, and laws of replay's gaps."""

import math
from functools import partial

import numpy as np
import pytest
import sklearn
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GroupShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from watched import SEED, farthest, moved, replaying, watched

import skdp
from skdp.data.people import People
from skdp.model_selection import DPGridSearch, DPRandomizedSearch, privacy_spent, private_score
from skdp.model_selection._score import unit_losses
from skdp.privacy import PrivacyBudget

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

N_PEOPLE = 40
GENERATOR = np.random.default_rng(0)
USERS = GENERATOR.permutation(np.repeat(np.arange(N_PEOPLE), GENERATOR.integers(1, 6, N_PEOPLE)))
X = (GENERATOR.standard_normal((N_PEOPLE, 4)) * [3, 2, 1, 1])[USERS]
X += GENERATOR.standard_normal(X.shape)
Y = X[:, 0] + GENERATOR.standard_normal(len(X))
LABELS = (Y > 0).astype(int)
UNIT = {"privacy_unit": "user"}
CLASSIFIER = skdp.DPLogisticRegression(classes=[0, 1], **UNIT)
SEARCHES = {
    "free": (skdp.DPPCA(row_norm=4.0, mean_norm=4.0, **UNIT), {"n_components": [1, 2, 3]}, None),
    "reconstruction": (skdp.DPTruncatedSVD(1, **UNIT), {"n_components": [1, 2]}, "reconstruction"),
    "power": (skdp.DPPCA(1, solver="power", **UNIT), {"n_components": [1, 2]}, None),
    "accuracy": (CLASSIFIER, {"row_norm": [1.0, 4.0]}, None),
    "likelihood": (CLASSIFIER, {"row_norm": [1.0, 4.0]}, "neg_log_loss"),
    "brier": (CLASSIFIER, {"row_norm": [1.0, 4.0]}, "neg_brier_score"),
    "regression": (skdp.DPLinearRegression(**UNIT), {"response_bound": [1.0, 8.0]}, None),
    "matrices": (skdp.DPTraceRegressor(matrix_shape=(2, 2), **UNIT), {"rank": [1, 2]}, None),
    "pipeline": (
        make_pipeline(FunctionTransformer(np.tanh), skdp.DPStandardScaler(**UNIT), CLASSIFIER),
        {"dpstandardscaler__with_mean": [False, True]},
        None,
    ),
    "one budget": (
        skdp.make_dp_pipeline(skdp.DPStandardScaler(**UNIT), skdp.DPPCA(2, **UNIT), CLASSIFIER),
        {"dppca__n_components": [1, 2]},
        None,
    ),
}
OWN = {
    "one": lambda rng: rng.standard_normal((1, 4)),
    "opposite": lambda rng: -X[:2],
    "huge": lambda rng: np.full((7, 4), 1e300),
    "largest": lambda rng: np.full((3, 4), 1.7e308) * rng.choice([-1, 1], (3, 4)),
    "zero": lambda rng: np.zeros((50, 4)),
    "aligned": lambda rng: np.repeat(X[:1] * 50, 300, axis=0),
    "of all sizes": lambda rng: 10.0 ** rng.uniform(-3, 6, (1000, 1)) * rng.normal(size=(1000, 4)),
}


def responses_of(name):
    return Y if name in ("regression", "matrices") else LABELS


def search_of(name, adjacency="replace", **more):
    estimator, grid, scoring = SEARCHES[name]
    estimator = sklearn.base.clone(estimator)
    found = [one for one in estimator.get_params() if one.rpartition("__")[2] == "adjacency"]
    estimator.set_params(**dict.fromkeys(found, adjacency))
    given = {"epsilon": 2.0, "delta": 1e-5, "scoring": scoring, "random_state": SEED, **more}
    return DPGridSearch(estimator, grid, **given)


def with_first(rows, responses, y=Y):
    """Give the first person other rows, at any places; the others keep their order."""
    rng = np.random.default_rng(len(rows))
    others = USERS != 0
    places = np.sort(rng.integers(0, others.sum() + 1, len(rows)))
    return (
        np.insert(X[others], places, rows, axis=0),
        np.insert(y[others], places, responses),
        np.insert(USERS[others], places, 0),
    )


def neighbor_of(own, y):
    rng = np.random.default_rng(1)
    rows = OWN[own](rng)
    return with_first(rows, rng.choice(y, len(rows)), y)


@pytest.mark.covered(at_most=3)
@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("name", SEARCHES)
def test_no_person_moves_a_search_further_than_declared(name, own):
    y = responses_of(name)
    with watched() as before:
        one = search_of(name).fit(X, y, users=USERS)
    rows, responses, users = neighbor_of(own, y)
    with replaying(before) as after:
        other = search_of(name).fit(rows, responses, users=users)
    assert max(moved(before, after)) <= 1 + 1e-12
    # And what is published follows what is released alone.
    assert vars(one).keys() == vars(other).keys()
    assert one.best_params_ == other.best_params_
    assert one.privacy_spent_ == other.privacy_spent_
    assert one.privacy_spent_.unit == "user"


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("unit", ["row", "user"])
def test_gaps_of_one_person_that_a_step_fills_raise_nothing(unit):
    fill = SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True)
    pipeline = make_pipeline(fill, skdp.DPPCA(2, privacy_unit=unit))
    grid, users = {"dppca__n_components": [1, 2]}, {"users": USERS} if unit == "user" else {}
    search = DPGridSearch(pipeline, grid, random_state=SEED)
    with_gap = X.copy()
    with_gap[3, 1] = np.nan
    movement = farthest(lambda rows: search.fit(rows, **users), (X,), (with_gap,))
    assert movement <= 1 + 1e-12


LOSSES = {"squares": (None, Y), "absolute": ("neg_mean_absolute_error", Y)}
MODEL = LinearRegression().fit(X, Y)


def score_of(name, rows, y, users, **more):
    scoring, _ = LOSSES[name]
    return private_score(MODEL, rows, y, users=users, scoring=scoring, random_state=SEED, **more)


@pytest.mark.covered(at_most=6)
@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("name", LOSSES)
def test_no_person_moves_a_score_further_than_declared(name, own):
    assert farthest(partial(score_of, name), (X, Y, USERS), neighbor_of(own, Y)) <= 1


@pytest.mark.parametrize("name", LOSSES)
def test_a_null_person_moves_a_score_by_no_more_than_declared(name):
    own = np.repeat(X[USERS == 0], 30, axis=0)
    # A null person takes part in no sum: as one whose rows are predicted exactly.
    pair = with_first(own, 1e9), with_first(own, MODEL.predict(own))
    assert 0.99 <= farthest(partial(score_of, name, adjacency="zero_out"), *pair) <= 1


def forgotten(losses):
    """Let rows count, and no people."""
    return lambda *given: losses(*given[:-1], None)


@pytest.mark.parametrize("kind", ["score", "search"])
def test_rows_that_count_are_noticed(kind, monkeypatch):
    monkeypatch.setattr("skdp.model_selection._score.unit_losses", forgotten(unit_losses))
    monkeypatch.setattr("skdp.model_selection._score.noise_for", lambda *_: None)
    pairs = [with_first(np.full((100, 4), size), size) for size in (0.0, 1e3)]
    fits = {
        "score": partial(score_of, "squares"),
        "search": lambda X, y, users: search_of("free").fit(X, users=users),
    }
    assert farthest(fits[kind], *pairs) > 1


# ------------------------------
# Laws that replay does not show.


def of_each():
    """One row for each person."""
    first = np.unique(USERS, return_index=True)[1]
    return X[first], Y[first], LABELS[first]


EXACT = {"epsilon": math.inf, "random_state": SEED}


@pytest.mark.covered(at_most=3)
@pytest.mark.parametrize("name", SEARCHES)
def test_rows_that_are_repeated_change_no_search(name):
    rows, responses, labels = of_each()
    y = responses if name == "forest" else labels
    once = search_of(name, **EXACT).fit(rows, y, users=np.arange(N_PEOPLE))
    often = search_of(name, **EXACT).fit(rows[USERS], y[USERS], users=USERS)
    assert once.best_params_ == often.best_params_
    assert once.n_distinct_fits_ == often.n_distinct_fits_


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("contain", [np.asarray, csr_array])
def test_rows_that_are_repeated_change_no_score(name, contain):
    rows, responses, _ = of_each()
    (scoring, _), exact = LOSSES[name], EXACT
    given = {"scoring": scoring, **exact}
    plain = private_score(MODEL, contain(rows), responses, **given)
    one_each = private_score(MODEL, contain(rows), responses, users=np.arange(N_PEOPLE), **given)
    often = private_score(MODEL, contain(rows[USERS]), responses[USERS], users=USERS, **given)
    assert one_each.value == pytest.approx(plain.value, rel=1e-12)
    assert often.value == pytest.approx(plain.value, rel=1e-5)
    assert (plain.privacy_spent.unit, often.privacy_spent.unit) == ("record", "user")


def test_a_score_is_the_mean_over_people_of_the_means_of_their_rows():
    losses = np.abs(MODEL.predict(X) - Y)
    of_each = [one == USERS for one in range(N_PEOPLE)]
    people = People.of(USERS, N_PEOPLE)
    found = unit_losses("neg_mean_absolute_error", MODEL, X, Y, people)
    np.testing.assert_allclose(found, [losses[own].mean() for own in of_each], rtol=1e-6)


class RoundedByPlace(RegressorMixin, BaseEstimator):
    """Stands for a product that is rounded otherwise in another place, but the first two."""

    def fit(self, X):
        self.fitted_ = True
        return self

    def predict(self, rows):
        return 1 + 1e-3 * np.maximum(np.arange(len(rows)) - 1, 0)


@pytest.mark.parametrize("own", OWN)
def test_the_rows_of_one_person_leave_the_losses_of_others_as_they_are(own):
    model = RoundedByPlace().fit(X)
    before = unit_losses("neg_mean_absolute_error", model, X, Y, People.of(USERS, N_PEOPLE))
    rows, responses, users = neighbor_of(own, Y)
    people = People.of(users, N_PEOPLE)
    after = unit_losses("neg_mean_absolute_error", model, rows, responses, people)
    np.testing.assert_array_equal(before[1:], after[1:])


def test_accuracies_of_people_are_counted_exactly():
    model = LogisticRegression().fit(X, LABELS)
    losses = unit_losses("accuracy", model, X, LABELS, People.of(USERS, N_PEOPLE))
    assert (losses * 2**24 == np.rint(losses * 2**24)).all()
    assert losses.min() >= 0
    assert losses.max() <= 1
    # Of each person the rows stay in their order: the first may weigh a little more.
    order = np.argsort(USERS, kind="stable")
    people = People.of(USERS[order], N_PEOPLE)
    again = unit_losses("accuracy", model, X[order], LABELS[order], people)
    assert again.sum() == losses.sum()


def noise_of(fit, *given):
    with watched() as made:
        fit(*given)
    return np.concatenate(
        [np.ravel(a - b) for one in made for a, b in zip(one.released, one.values, strict=True)]
    )


@pytest.mark.parametrize("kind", ["score", "search"])
def test_other_people_of_the_same_rows_get_other_noise(kind):
    other = USERS.copy()
    other[np.flatnonzero(USERS == 1)[0]] = 0
    fits = {
        "score": lambda users: score_of("squares", X, Y, users),
        "search": lambda users: search_of("free").fit(X, users=users),
    }
    noises = [noise_of(fits[kind], users) for users in (USERS, USERS, other)]
    np.testing.assert_array_equal(noises[0], noises[1])
    # Noise of counts is whole, so that some may be the same.
    assert (noises[0] == noises[2]).mean() < 0.3


def test_ledgers_and_warnings_count_users(ledger):
    with pytest.warns(skdp.PrivacyWarning) as searched:
        search_of("free", ledger=ledger, delta=0.1).fit(X, users=USERS)
    with pytest.warns(skdp.PrivacyWarning) as scored:
        score_of("squares", X, Y, USERS, ledger=ledger, delta=0.05, epsilon=0.1)
    what = [entry["what"] for entry in ledger.entries()]
    assert what == [f"DPGridSearch.fit, {N_PEOPLE} users", f"private_score, {N_PEOPLE} users"]
    texts = " ".join(str(one.message) for one in [*searched, *scored])
    assert f"number of users, {N_PEOPLE}" in texts
    assert f"{N_PEOPLE} users are few" in texts
    assert str(len(X)) not in texts


def test_the_unit_needs_ids_and_ids_the_unit(monkeypatch):
    monkeypatch.setattr(PrivacyBudget, "of", lambda *_: pytest.fail("was opened"))
    rows = DPGridSearch(skdp.DPPCA(1), {"n_components": [1, 2]})
    with pytest.raises(ValueError, match="privacy_unit='user' needs users"):
        search_of("power").fit(X)
    with pytest.raises(ValueError, match="users is for privacy_unit='user'"):
        rows.fit(X, users=USERS)
    mixed = make_pipeline(skdp.DPStandardScaler(), CLASSIFIER)
    with pytest.raises(ValueError, match="got row of dpstandardscaler, user of"):
        DPGridSearch(mixed, {"dpstandardscaler__with_mean": [True]}).fit(X, LABELS, users=USERS)
    for bad, text in ((USERS[:5], "has 5 ids"), (USERS / 7, "fractions")):
        with pytest.raises(ValueError, match=text):
            search_of("power").fit(X, users=bad)
        with pytest.raises(ValueError, match=text):
            score_of("squares", X, Y, bad)


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("routing", [False, True])
def test_searches_are_scored_by_scikit_learn(routing):
    search = search_of("accuracy", epsilon=30.0, random_state=None)
    split = GroupShuffleSplit(2, random_state=0)
    groups = {} if routing else {"groups": USERS}
    params = {"users": USERS, **({"groups": USERS} if routing else {})}
    with sklearn.config_context(enable_metadata_routing=routing):
        scores = cross_val_score(search, X, LABELS, cv=split, params=params, **groups)
    assert np.isfinite(scores).all()
    assert search.privacy_unit == "user"


def test_random_candidates_protect_people_too():
    search = DPRandomizedSearch(skdp.DPPCA(1, **UNIT), {"n_components": [1, 2, 3]}, n_iter=2)
    assert search.fit(X, users=USERS).privacy_spent_.unit == "user"
    assert "per user" in str(privacy_spent(search))
