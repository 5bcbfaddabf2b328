"""Attacks on counts of scores: no neighbor moves them further than declared."""

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.preprocessing import Normalizer
from watched import SEED, moved, watched

from skdp import (
    DPPCA,
    DPStandardScaler,
    DPTruncatedSVD,
    PrivacyLedger,
    PrivacyWarning,
    make_dp_pipeline,
)
from skdp.display import score_histogram

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((80, 4)) * [3, 2, 1, 1] + [4, 0, 0, 0]
USERS = GENERATOR.permutation(np.arange(len(X)) % 20)
GROUPS = np.where(X[:, 0] > 4, "high", "secret")
CLASSES = ["high", "secret", "none"]
with warnings.catch_warnings():
    warnings.simplefilter("ignore", PrivacyWarning)
    ONE = DPPCA(1, row_norm=6.0, mean_norm=8.0).fit(X)
    MODELS = {
        "pca": DPPCA(3, row_norm=6.0, mean_norm=8.0, random_state=SEED).fit(X),
        "whitened": DPPCA(2, whiten=True, row_norm=6.0, mean_norm=8.0, random_state=SEED).fit(X),
        "svd": DPTruncatedSVD(2, row_norm=8.0, random_state=SEED).fit(X),
        "no variance": DPTruncatedSVD(2, row_norm=8.0, epsilon=np.inf).fit(np.zeros_like(X)),
    }
LARGEST = np.finfo(np.float64).max
ROWS = {
    "largest": np.array([1, -1, 1, 1]) * LARGEST,
    "huge": np.full(4, -1e300),
    "denormal": np.full(4, 5e-324),
    "zero": np.zeros(4),
    "opposite": -X[0],
    "aligned": 50 * MODELS["pca"].components_[0],
}


def counted(*args, **kwargs):
    """The budget of one histogram, watched, with its counts before noise."""
    with watched() as budgets:
        score_histogram(*args, **kwargs)
    (budget,) = budgets
    return budget


def change(one, other):
    (part,) = moved([one], [other])
    return part


@pytest.mark.covered
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("row", ROWS)
def test_no_row_moves_more_than_two_counts_by_one(name, row):
    rows = X.copy()
    rows[0] = ROWS[row]
    for components in ((0, 1), (1, 0)):
        before = counted(MODELS[name], X, components=components)
        after = counted(MODELS[name], rows, components=components)
        assert before.values[0].sum() == after.values[0].sum() == len(X)
        assert change(before, after) <= 1


@pytest.mark.parametrize("name", MODELS)
def test_a_row_that_is_null_leaves_one_cell(name):
    before, after = (counted(MODELS[name], rows, adjacency="zero_out") for rows in (X, X[1:]))
    assert change(before, after) == 1


def test_random_rows_reach_the_sensitivity_and_do_not_exceed_it():
    before, changes = counted(MODELS["pca"], X, groups=GROUPS, classes=CLASSES), []
    for number in range(60):
        rows, groups = X.copy(), GROUPS.copy()
        rows[0] = GENERATOR.standard_normal(4) * 10.0 ** GENERATOR.integers(-3, 5)
        groups[0] = CLASSES[number % 3]
        changes.append(change(before, counted(MODELS["pca"], rows, groups=groups, classes=CLASSES)))
    assert max(changes) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("other", [float, np.uint64])
def test_the_type_of_one_group_does_not_move_others(other, tmp_path):
    # NumPy makes floats of integers beside it, which cannot tell these two apart.
    classes = [2**53, 2**53 + 1]
    groups = [other(classes[0]), *map(np.int64, classes[1:] * (len(X) - 1))]
    ledger = PrivacyLedger.create(tmp_path / "x", dataset="x", epsilon=9, delta=1e-5, unit="record")
    with pytest.raises(ValueError, match="Unknown label type"):
        score_histogram(MODELS["pca"], X, groups=groups, classes=classes, ledger=ledger)
    assert ledger.entries() == []


@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
@pytest.mark.parametrize("n_rows", [1, 7, 300])
def test_no_user_moves_counts_further_than_declared(adjacency, n_rows):
    is_first = USERS == 0
    before = counted(MODELS["svd"], X, users=USERS, adjacency=adjacency)
    assert before.values[0].sum() == 20
    for size in (0.0, 1e-3, 1e300):
        own = GENERATOR.standard_normal((n_rows if adjacency == "replace" else 0, 4)) * size
        rows = np.vstack([own, X[~is_first]])
        users = np.r_[np.zeros(len(own), int), USERS[~is_first]]
        after = counted(MODELS["svd"], rows, users=users, adjacency=adjacency)
        assert 0.1 < change(before, after) <= 1


def test_users_in_two_cells_reach_the_sensitivity():
    one, other = np.full((3, 4), 1e9), np.full((3, 4), -1e9)
    users = np.r_[np.zeros(3, int), USERS + 1]
    before, after = (
        counted(MODELS["pca"], np.vstack([own, X]), users=users) for own in (one, other)
    )
    assert change(before, after) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_edges_and_record_do_not_follow_the_rows(name):
    one, other = (score_histogram(MODELS[name], rows) for rows in (X, 1e6 * X**3))
    np.testing.assert_array_equal(one.edges, other.edges)
    assert (np.diff(one.edges) > 0).all()
    assert one.privacy_spent == other.privacy_spent
    assert vars(one).keys() == {
        *("counts", "edges", "components", "groups", "std", "privacy_spent")
    }


@pytest.mark.parametrize("whiten", [False, True])
def test_edges_are_finite_where_single_precision_holds_no_variance(whiten):
    rows = (X * 1e29).astype(np.float32)
    pca = DPPCA(2, whiten=whiten, row_norm=1e30, mean_norm=1e30).fit(rows)
    assert pca.noise_variance_ > float(np.finfo(np.float32).max)
    assert (np.diff(score_histogram(pca, rows).edges) > 0).all()
    assert pca.transform(rows).any()


@pytest.mark.parametrize("form", [csr_array, np.float32, list])
def test_counts_are_those_of_the_scores(form):
    pca = MODELS["svd"]
    rows = X.astype(form) if form is np.float32 else form(X)
    found = score_histogram(pca, rows, epsilon=np.inf, components=(1, 0), n_bins=6)
    x, y = pca.transform(X)[:, [1, 0]].T
    ends = [np.r_[-np.inf, edges, np.inf] for edges in found.edges]
    np.testing.assert_array_equal(found.counts, np.histogram2d(x, y, ends)[0])


def test_counts_of_groups_add_to_those_of_all():
    parts = score_histogram(MODELS["pca"], X, groups=GROUPS, classes=CLASSES, epsilon=np.inf)
    whole = score_histogram(MODELS["pca"], X, epsilon=np.inf)
    assert parts.groups == ("high", "none", "secret")
    np.testing.assert_array_equal(parts.counts.sum(axis=0), whole.counts)
    sizes = [np.count_nonzero(name == GROUPS) for name in parts.groups]
    np.testing.assert_array_equal(parts.counts.sum(axis=(1, 2)), sizes)


def test_noise_has_the_size_that_is_told():
    found = score_histogram(MODELS["pca"], X, n_bins=200, random_state=SEED)
    exact = score_histogram(MODELS["pca"], X, n_bins=200, epsilon=np.inf)
    # 40,000 draws: the ratio has a standard deviation of .0035.
    assert np.std(found.counts - exact.counts) == pytest.approx(found.std, rel=0.02)
    assert found.std == pytest.approx(np.sqrt(2) / found.privacy_spent.mu, rel=1e-3)


def test_a_seed_repeats_the_noise_of_the_same_rows_only():
    one, same = (score_histogram(MODELS["pca"], X, random_state=SEED).counts for _ in range(2))
    np.testing.assert_array_equal(one, same)
    rows = X.copy()
    rows[0] = 1e9
    other = score_histogram(MODELS["pca"], rows, random_state=SEED).counts
    assert np.count_nonzero(one != other) > 110
    fresh = [score_histogram(MODELS["pca"], X).counts for _ in range(2)]
    assert np.count_nonzero(fresh[0] != fresh[1]) > 110


BAD = X.copy()
BAD[3, 1] = np.nan
REFUSED = {
    "no model": ((X, X), {}, "pca must be a DPPCA, .* ends with one, got ndarray"),
    "not finite": ((MODELS["pca"], BAD), {}, "Input X contains NaN"),
    "width": ((MODELS["pca"], X[:, :3]), {}, "X has 3 features"),
    "one component": (
        (ONE, X),
        {},
        r"components=\(0, 1\) must be two different numbers from 0 to 0",
    ),
    "twice": ((MODELS["pca"], X), {"components": (1, 1)}, "two different numbers from 0 to 2"),
    "number": ((MODELS["pca"], X), {"components": 1}, "components=1 must be two"),
    "bins": ((MODELS["pca"], X), {"n_bins": 2}, "n_bins"),
    "delta": ((MODELS["pca"], X), {"delta": 0.0}, "delta"),
    "no classes": ((MODELS["pca"], X), {"groups": GROUPS}, "pass classes, all"),
    "no groups": ((MODELS["pca"], X), {"classes": CLASSES}, "pass groups, one per row"),
    "one class": ((MODELS["pca"], X), {"groups": GROUPS, "classes": ["high"]}, "two or more"),
    "other group": (
        (MODELS["pca"], X),
        {"groups": GROUPS, "classes": ["high", "none"]},
        "not among classes. The label is private",
    ),
    "few groups": (
        (MODELS["pca"], X),
        {"groups": GROUPS[1:], "classes": CLASSES},
        "groups has 79 entries, but X has 80 rows",
    ),
    "few users": ((MODELS["pca"], X), {"users": USERS[1:]}, "users has 79 ids"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_before_anything_is_spent(case, tmp_path):
    args, more, told = REFUSED[case]
    unit = ("row", "record", "user")
    ledger = PrivacyLedger.create(tmp_path / "x", dataset="x", epsilon=9, delta=1e-5, unit=unit)
    with pytest.raises(ValueError, match=told) as raised:
        score_histogram(*args, ledger=ledger, **more)
    assert "secret" not in str(raised.value)
    assert ledger.entries() == []


def test_the_ledger_is_charged_and_settings_are_warned_of(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "x", dataset="x", epsilon=9, delta=1e-5, unit="row")
    with pytest.warns(PrivacyWarning, match="exceeds one over the number of rows"):
        found = score_histogram(MODELS["pca"], X, delta=0.1, ledger=None)
    assert repr(found).startswith("ScoreHistogram: (12, 12) +- ")
    score_histogram(MODELS["pca"], X, ledger=ledger)
    assert [one["what"] for one in ledger.entries()] == ["score_histogram, 80 rows"]


@pytest.mark.parametrize("users", [None, USERS])
def test_a_pipeline_counts_the_rows_that_its_steps_make(users):
    steps = Normalizer(), DPStandardScaler(bounds=(-1, 1)), DPPCA(2)
    model = make_dp_pipeline(*steps, random_state=SEED).fit(X)
    whole, alone = (
        counted(one, rows, users=users, random_state=SEED)
        for one, rows in ((model, X), (model[-1], model[:-1].transform(X)))
    )
    np.testing.assert_allclose(whole.values[0], alone.values[0])
    odd = X.copy()
    odd[0] = LARGEST
    assert change(whole, counted(model, odd, users=users)) <= 1 + 1e-9
    with pytest.raises(ValueError, match="ends with one, got DPStandardScaler"):
        score_histogram(make_dp_pipeline(*steps[:2]).fit(X), X)
    with pytest.raises(ValueError, match="not fitted"):
        score_histogram(make_dp_pipeline(*steps), X)
