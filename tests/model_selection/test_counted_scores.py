"""Scores of released counts: areas under curves, F1 and balanced accuracies."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import balanced_accuracy_score, f1_score, roc_auc_score
from watched import SEED, farthest, moved, watched

from skdp import DPLogisticRegression, PrivacyLedger
from skdp.data.people import People
from skdp.model_selection import DPGridSearch, private_score
from skdp.model_selection._score import COUNTED, plan_counts, release_area, release_counts
from skdp.model_selection._search import choose, plan_choice
from skdp.privacy import Plan, PrivacyBudget, sensitivity
from skdp.privacy.plan import PrivacyCost

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

ALL = ["accuracy", "balanced_accuracy", "f1", "roc_auc"]
TWO = ["balanced_accuracy", "f1", "roc_auc"]


class Given(ClassifierMixin, BaseEstimator):
    """Scores that are a column, of any scale."""

    def __init__(self, column=0, scale=1.0, classes=(0, 1)):
        self.column = column
        self.scale = scale
        self.classes = classes

    def fit(self, X, y):
        self.classes_ = np.array(self.classes)
        return self

    def decision_function(self, X):
        return self.scale * X[:, self.column]

    def predict(self, X):
        return self.classes_[(X[:, self.column] > 0).astype(int)]


class Probable(Given):
    """The same, as probabilities alone."""

    decision_function = property()

    def predict_proba(self, X):
        second = expit(X[:, self.column])
        return np.column_stack([1 - second, second])


def rows_of(seed, n_rows, share=0.5, distance=1.5):
    generator = np.random.default_rng(seed)
    y = (generator.random(n_rows) < share).astype(int)
    X = generator.standard_normal((n_rows, 3))
    X[:, 0] += distance * (y - 0.5)
    X[:, 1] += 0.3 * y
    return X, y


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("distance", [0.0, 1.5, 4.0])
@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e5])
def test_an_area_is_within_a_hundredth_at_epsilon_1_on_10000_rows(scale, distance):
    errors = []
    for seed in range(4):
        X, y = rows_of(seed, 10_000, distance=distance)
        model = Given(scale=scale).fit(X, y)
        found = private_score(model, X, y, scoring="roc_auc", random_state=seed)
        errors.append(found.value - roc_auc_score(y, X[:, 0]))
        assert 0 < found.std < 0.01
    # The noise has .004 to .005, and bins less than .002.
    assert np.sqrt(np.mean(np.square(errors))) < 0.01


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("scoring", ["roc_auc", ["roc_auc", "f1"]], ids=str)
def test_an_area_of_a_rare_class_is_within_a_hundredth(scoring):
    errors, stds = [], []
    for seed in range(12):
        X, y = rows_of(seed, 10_000, 0.1)
        found = private_score(Given().fit(X, y), X, y, scoring=scoring, random_state=seed)
        found = found["roc_auc"] if isinstance(found, dict) else found
        errors.append(found.value - roc_auc_score(y, X[:, 0]))
        stds.append(found.std)
    # The noise has .0055, or .0085 beside F1: a threshold of two standard errors more.
    assert np.sqrt(np.mean(np.square(errors))) < (0.01 if scoring == "roc_auc" else 0.014)
    assert np.mean(stds) < 0.01


class Exact:
    """Returns what is released as it is, and keeps it."""

    def release(self, release, value):
        self.value = value
        return value, 0.0


@pytest.mark.parametrize("is_of_users", [False, True])
@pytest.mark.parametrize(
    "counts", [[[50, 3, 1], [1, 4, 9]], [[5, 5, 5], [4, -1, 7]], [[0] * 3] * 2]
)
def test_the_sum_that_corrects_an_area_moves_by_one_at_most(counts, is_of_users):
    edges, generator = np.array([-1.0, 1.0]), np.random.default_rng(0)
    people, values = People.of(np.repeat(np.arange(20), 3), 20) if is_of_users else None, []
    judged = np.column_stack([generator.standard_normal(60), generator.random(60) < 0.3])
    for score in (-1e100, -1.0, -0.3, 0.0, 1.0, 5e-324, 1e100):
        for is_second in (0.0, 1.0):
            rows, budget = judged.copy(), Exact()
            rows[:3] = score, is_second
            rows = rows if is_of_users else np.concatenate([rows[:1], judged[1:]])
            area, std = release_area(
                rows, edges, np.array(counts, float), 0.0, people, None, budget
            )
            assert 0 <= area <= 1
            assert std == 0
            values.append(budget.value)
    alone = Exact()
    release_area(judged[1:], edges, np.array(counts, float), 0.0, None, None, alone)
    assert np.ptp(values) <= 1
    assert is_of_users or max(abs(np.array(values) - alone.value)) <= 1
    assert np.ptp(values) >= 0.5


@pytest.mark.parametrize("share", [0.5, 0.05])
def test_without_noise_scores_are_those_of_scikit_learn(share):
    X, y = rows_of(1, 20_000, share)
    for kind in (Given, Probable):
        found = private_score(kind().fit(X, y), X, y, scoring=ALL, epsilon=np.inf)
        guess = (X[:, 0] > 0).astype(int)
        assert found["accuracy"].value == np.mean(guess == y)
        assert found["f1"].value == pytest.approx(f1_score(y, guess), rel=1e-12)
        balanced = balanced_accuracy_score(y, guess)
        assert found["balanced_accuracy"].value == pytest.approx(balanced, rel=1e-12)
        assert "clipped" not in repr(found["roc_auc"])
        assert found["roc_auc"].value == pytest.approx(roc_auc_score(y, X[:, 0]), abs=0.004)
        assert all(one.std == 0 for one in found.values())


@pytest.mark.slow
def test_stds_are_those_of_the_errors():
    X, y = rows_of(2, 5000, 0.3)
    model = Given().fit(X, y)
    exact = private_score(model, X, y, scoring=ALL, epsilon=np.inf)
    found = [private_score(model, X, y, scoring=ALL, random_state=seed) for seed in range(80)]
    for name in ALL:
        errors = [one[name].value - exact[name].value for one in found]
        told = np.mean([one[name].std for one in found])
        assert 0.6 < np.std(errors) / told < 1.5


def test_several_scores_cost_one_release(tmp_path):
    X, y = rows_of(3, 500)
    ledger = PrivacyLedger.create(tmp_path / "x", dataset="x", epsilon=9, delta=1e-5, unit="record")
    found = private_score(Given().fit(X, y), X, y, scoring=ALL, ledger=ledger)
    assert [one["what"] for one in ledger.entries()] == ["private_score, 500 records"]
    spent = found["f1"].privacy_spent
    assert all(one.privacy_spent is spent or one.privacy_spent == spent for one in found.values())
    counts, order = spent.releases[-2:]
    assert (counts.name, counts.sensitivity) == ("counts of outcomes", pytest.approx(2))
    assert (order.name, order.sensitivity) == ("order of scores", 1)
    alone = private_score(Given().fit(X, y), X, y, scoring=TWO[:2]).copy()
    assert [one.sensitivity for one in alone["f1"].privacy_spent.releases] == [np.sqrt(2)]


def test_classes_of_any_number_have_a_balanced_accuracy():
    X, y = load_digits(return_X_y=True)
    model = LogisticRegression(max_iter=300).fit(X[:400], y[:400])
    found = private_score(model, X[400:], y[400:], scoring="balanced_accuracy", epsilon=4.0)
    exact = balanced_accuracy_score(y[400:], model.predict(X[400:]))
    assert abs(found.value - exact) < 6 * found.std + 0.01
    for scoring in ("f1", "roc_auc"):
        with pytest.raises(ValueError, match="needs 2 classes, got 10"):
            private_score(model, X, y, scoring=scoring)


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("scoring", [*TWO, ALL], ids=str)
def test_no_row_moves_counts_further_than_declared(scoring):
    X, y = rows_of(4, 60)

    def score(rows, labels):
        private_score(Given().fit(X, y), rows, labels, scoring=scoring, random_state=SEED)

    neighbors = []
    for value in (1e308, -1e308, 0.0, 5e-324, -X[0, 0]):
        for label in (0, 1, 7):
            rows, labels = X.copy(), y.copy()
            rows[0], labels[0] = value, label
            neighbors.append((rows, labels))
    assert 0.7 <= farthest(score, (X, y), *neighbors) <= 1 + 1e-12


@pytest.mark.parametrize("n_blocks", [1, 2, 5])
def test_no_null_row_moves_counts_further_than_declared(n_blocks):
    cells = np.random.default_rng(n_blocks).integers(0, 7, (n_blocks, 50))
    parts = plan_counts([7] * n_blocks, PrivacyCost(1.0, 1e-6), "zero_out")
    plan = Plan(PrivacyCost(1.0, 1e-6), parts, unit="record", adjacency="zero_out")
    budgets = []
    for own in (cells, cells[:, 1:]):
        with watched() as made:
            release_counts(own, [7] * n_blocks, None, parts.counts, PrivacyBudget.of(plan))
        budgets += made
    assert moved(budgets[:1], budgets[1:]) == pytest.approx([1.0])


@pytest.mark.parametrize("whose", [None, np.arange(50) % 20], ids=["records", "users"])
def test_released_counts_add_up_to_the_public_number_of_units(whose):
    parts = plan_counts([7, 5], PrivacyCost(1.0, 1e-6), "replace")
    plan = Plan(PrivacyCost(1.0, 1e-6), parts, unit="record", adjacency="replace")
    budget = PrivacyBudget.of(plan)
    cells = np.random.default_rng(0).integers(0, 5, (2, 50))
    people = None if whose is None else People.of(whose, 20)
    released, _ = release_counts(cells, [7, 5], people, parts.counts, budget)
    assert [one.sum() for one in released] == pytest.approx([50 if whose is None else 20] * 2)


@pytest.mark.parametrize("scoring", [*TWO, ALL], ids=str)
def test_no_user_moves_counts_further_than_declared(scoring):
    X, y = rows_of(5, 80)
    users = np.arange(80) % 20

    def score(rows, labels, whose):
        model = Given().fit(X, y)
        private_score(model, rows, labels, users=whose, scoring=scoring, random_state=SEED)

    neighbors, is_first = [], users == 0
    for n_rows, value in ((1, 1e300), (7, -1e300), (100, 0.0)):
        rows = np.vstack([np.full((n_rows, 3), value), X[~is_first]])
        labels = np.r_[np.arange(n_rows) % 2, y[~is_first]]
        neighbors.append((rows, labels, np.r_[np.zeros(n_rows, int), users[~is_first]]))
    assert farthest(score, (X, y, users), *neighbors) <= 1 + 1e-12


def chosen(scoring, judged, adjacency, people=None, scripts=None):
    """Choose among candidates with a watched budget; return it."""
    n_units = len(judged) if people is None else people.n_people
    n_candidates = judged.shape[1] // (1 + (scoring == "roc_auc"))
    cost = PrivacyCost(1.0, 1e-6)
    facts = {"n_units": n_units, "n_classes": 2}
    plan = plan_choice(scoring, n_candidates, cost, "record", adjacency, **facts)
    with watched(scripts) as made:
        choose(scoring, judged, people, plan.parts, PrivacyBudget.of(plan))
    return made


def with_scores(scores, is_second):
    columns = [np.column_stack([one, is_second]) for one in scores.T]
    return np.column_stack(columns)


def movement_of_areas(one, other, adjacency, people=(None, None)):
    before = chosen("roc_auc", one, adjacency, people[0])
    scripts = [budget.released for budget in before]
    return moved(before, chosen("roc_auc", other, adjacency, people[1], scripts))[0]


@pytest.mark.parametrize("n_people", [2, 5, 12])
def test_no_unit_moves_pairs_in_the_wrong_order_further_than_declared(n_people):
    generator, worst = np.random.default_rng(n_people), 0.0
    for trial in range(60):
        n_rows = n_people * (1 if trial % 2 else 3)
        codes = np.arange(n_rows) % n_people
        scores = generator.integers(0, 4, (n_rows, 3)).astype(float)
        is_second = generator.random(n_rows) < generator.choice([0.1, 0.5, 0.9])
        other, of_other = scores.copy(), is_second.copy()
        own = codes == 0
        other[own] = generator.choice([-9.0, 9.0, 1.0], (own.sum(), 3))
        of_other[own] = generator.random(own.sum()) < 0.5
        people = People.of(codes, n_people)
        data = with_scores(scores, is_second), with_scores(other, of_other)
        worst = max(worst, movement_of_areas(*data, "replace", (people, people)))
        without = People.of(codes[~own], n_people)
        left_out = with_scores(scores[~own], is_second[~own])
        parts = people, without
        worst = max(worst, movement_of_areas(data[0], left_out, "zero_out", parts))
    assert worst <= 1


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
def test_the_declared_change_of_pairs_is_attained_but_for_one(adjacency, monkeypatch):
    n_rows = 50
    is_second = np.r_[True, np.zeros(n_rows - 1, bool)]
    one = with_scores(np.array([[9.0, -9.0]] + [[0.0, 0.0]] * (n_rows - 1)), is_second)
    other = with_scores(np.array([[-9.0, 9.0]] + [[0.0, 0.0]] * (n_rows - 1)), is_second)
    if adjacency == "zero_out":
        other = one[1:]
        people = None, People.of(np.arange(1, n_rows), n_rows)
    else:
        people = None, None
    assert movement_of_areas(one, other, adjacency, people) == pytest.approx(1 - 1 / n_rows)
    right = sensitivity.misordered_pairs
    monkeypatch.setattr(sensitivity, "misordered_pairs", lambda *a, **k: right(*a, **k) / 2)
    assert movement_of_areas(one, other, adjacency, people) > 1


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("scoring", TWO)
def test_no_row_moves_a_search_further_than_declared(scoring):
    X, y = rows_of(6, 70)
    model = DPLogisticRegression(classes=[0, 1], row_norm=3.0)
    search = DPGridSearch(
        model, {"row_norm": [1.0, 4.0]}, epsilon=4.0, scoring=scoring, random_state=SEED
    )
    neighbors = []
    for value, label in ((1e300, 0), (-1e300, 1), (0.0, 1), (-X[0], 1 - y[0])):
        rows, labels = X.copy(), y.copy()
        rows[0], labels[0] = value, label
        neighbors.append((rows, labels))
    assert farthest(search.fit, (X, y), *neighbors) <= 1 + 1e-12


@pytest.mark.parametrize("scoring", TWO)
def test_the_best_candidate_is_chosen(scoring):
    X, y = rows_of(7, 20_000)
    models = [Given(column).fit(X, y) for column in (2, 0, 1)]
    cells = {
        "roc_auc": with_scores(X[:, [2, 0, 1]], y == 1),
        "rest": np.column_stack([2 * y + one.predict(X) for one in models]),
    }
    judged = cells.get(scoring, cells["rest"])
    counts = [int(np.ravel(chosen(scoring, judged, "replace")[0].released[-1])[0]) for _ in "ab"]
    if scoring == "roc_auc":
        assert counts == [1, 1]
    facts = {"n_units": len(X), "n_classes": 2}
    plan = plan_choice(scoring, 3, PrivacyCost(1.0, 1e-6), "record", "replace", **facts)
    assert choose(scoring, judged, None, plan.parts, PrivacyBudget.of(plan)) == 1


def test_a_search_by_the_area_ends_with_a_model():
    X, y = rows_of(8, 2000)
    labels = np.where(y == 1, "yes", "no")
    model = DPLogisticRegression(classes=["no", "yes"])
    search = DPGridSearch(model, {"row_norm": [1.0, 3.0]}, epsilon=8.0, scoring="roc_auc")
    assert search.fit(X, labels).best_params_["row_norm"] in (1.0, 3.0)
    assert search.privacy_spent_.mu > 0
    with pytest.raises(ValueError, match="needs 2 classes, got 3"):
        search.set_params(estimator__classes=["maybe", "no", "yes"]).fit(X, labels)


def test_classifiers_without_probabilities_have_an_area():
    X, y = rows_of(9, 4000)
    model = RidgeClassifier().fit(X, y)
    found = private_score(model, X, y, scoring="roc_auc", epsilon=np.inf)
    assert found.value == pytest.approx(roc_auc_score(y, model.decision_function(X)), abs=0.004)


@pytest.mark.parametrize(
    ("scoring", "told"),
    [
        ([], "A list as scoring takes some of 'accuracy'"),
        (["f1", "neg_brier_score"], "one at a time"),
        (["f1", "nothing"], "'scoring' parameter"),
        (["r2"], "no mean over rows"),
    ],
)
def test_lists_of_other_scores_are_refused(scoring, told):
    X, y = rows_of(0, 40)
    with pytest.raises(ValueError, match=told):
        private_score(Probable().fit(X, y), X, y, scoring=scoring)
    assert set(ALL) == COUNTED.keys()


def test_labels_that_are_no_class_count_as_wrong():
    X, y = rows_of(1, 30)
    y[:10] = 5
    found = private_score(Given().fit(X, y), X, y, scoring=ALL, epsilon=np.inf)
    assert found["accuracy"].value <= 2 / 3
    assert np.isfinite([one.value for one in found.values()]).all()
