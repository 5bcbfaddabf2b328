"""Tables of who used what, and items by name."""

import warnings
from datetime import date
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.decomposition import TruncatedSVD

from skdp import DPPCA, DPTruncatedSVD, PrivacyWarning, to_sklearn
from skdp.datasets import make_interactions
from skdp.interactions import InteractionTable, interaction_table, top_items

PAIRS = [("bob", "tea"), ("ann", "jam"), ("bob", "jam"), ("bob", "tea"), ("eve", "ink")]
ITEMS = ["tea", "jam", "oat"]
CONTAINERS = {
    "list": lambda pairs: pairs,
    "objects": lambda pairs: np.array(pairs, dtype=object),
    "strings": np.array,
    "pandas": lambda pairs: pd.DataFrame(pairs, columns=["who", "what"]),
    "categories": lambda pairs: pd.DataFrame(pairs, columns=["who", "what"], dtype="category"),
    "polars": lambda pairs: pl.DataFrame(pairs, schema=["who", "what"], orient="row"),
}


@pytest.mark.parametrize("contain", CONTAINERS)
def test_pairs_become_a_table_of_the_listed_items(contain):
    table = interaction_table(CONTAINERS[contain](PAIRS), items=ITEMS)
    assert table.users.tolist() == ["ann", "bob", "eve"]
    assert table.items.tolist() == ITEMS
    np.testing.assert_array_equal(table.X.toarray(), [[0, 1, 0], [1, 1, 0], [0, 0, 0]])
    assert isinstance(table.X, csr_array)
    assert table.X.has_canonical_format


def test_listed_users_have_a_row_each_and_others_have_none():
    with warnings.catch_warnings(action="error"):
        table = interaction_table(PAIRS, users=["zoe", "bob"], items=ITEMS)
    np.testing.assert_array_equal(table.X.toarray(), [[0, 0, 0], [1, 1, 0]])
    assert interaction_table(np.empty((0, 2), int), users=["a"], items=ITEMS).X.nnz == 0


def test_items_that_are_found_become_public():
    with pytest.warns(PrivacyWarning, match="public which items occur"):
        table = interaction_table(PAIRS)
    assert table.items.tolist() == ["ink", "jam", "tea"]


def test_numbers_and_names_may_be_mixed_by_column():
    table = interaction_table([(7, "tea"), (3, "jam")], items=ITEMS)
    assert table.users.tolist() == [3, 7]
    table = interaction_table(np.array([[7, 2], [3, 1]]), users=[7, 3], items=range(1, 4))
    np.testing.assert_array_equal(table.X.toarray(), [[0, 1, 0], [1, 0, 0]])


@pytest.mark.parametrize(
    ("pairs", "more", "told"),
    [
        ([("secret", "tea", 1, 2)], {}, r"two columns, a user and an item, .*shape \(1, 4\)"),
        ([("secret", "tea", "secret")], {}, r"must be finite .*\(user, item, rating\)"),
        ([("secret", "tea", np.nan)], {}, r"ratings, the third .* as pairs\.dropna\(\)"),
        ({"secret": "tea"}, {}, "got dict"),
        ([("secret", "tea"), (1, "tea")], {}, "users in pairs must be all integers or all strings"),
        (
            [("secret", None), ("secret", "tea")],
            {},
            "items in pairs must be all integers or all strings",
        ),
        ([("secret", "tea")], {"users": ["ann", "ann"]}, "users must have every id once"),
        (
            [("secret", "tea")],
            {"items": [1, 2]},
            "items must be strings, as in the second column, got integers",
        ),
    ],
    ids=str,
)
def test_bad_pairs_are_refused_and_no_id_is_told(pairs, more, told):
    with pytest.raises(ValueError, match=told) as caught:
        interaction_table(pairs, **{"items": ["tea"], **more})
    assert "secret" not in str(caught.value)


def test_dates_are_no_ids():
    with pytest.raises(ValueError, match=r"integers or all strings.*other ids by \.astype\(str\)"):
        interaction_table([(date(2026, 1, 2), "tea")], items=["tea"])


TABLE = make_interactions(600, 30, n_interactions=4000, n_tastes=2, random_state=0)
HISTORY = InteractionTable(
    csr_array(TABLE[:20]),
    np.array([f"user {i}" for i in range(20)]),
    np.array([f"item {i}" for i in range(30)]),
)


# A rating is a number, which arrays of strings and columns of categories do not hold.
@pytest.mark.parametrize("contain", sorted({*CONTAINERS} - {"strings", "categories"}))
def test_triples_become_a_table_of_ratings(contain):
    triples = [
        (*pair, rating) for pair, rating in zip(PAIRS, [4.0, 0.0, 3.0, 5.0, 1.0], strict=True)
    ]
    if contain in ("pandas", "polars"):
        names = ["user", "item", "rating"]
        frames = {"pandas": pd.DataFrame, "polars": partial(pl.DataFrame, orient="row")}
        given = frames[contain](triples, **{"columns" if contain == "pandas" else "schema": names})
    else:
        given = CONTAINERS[contain](triples)
    table = interaction_table(given, items=ITEMS)
    np.testing.assert_array_equal(table.X.toarray(), [[0, 0, 0], [4.5, 3, 0], [0, 0, 0]])
    assert np.diff(table.X.indptr).tolist() == [1, 2, 0]  # a rating of 0 is stored


def test_a_table_shows_neither_users_nor_items():
    assert repr(HISTORY) == str(HISTORY) == "InteractionTable(shape=(20, 30))"


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
@pytest.mark.parametrize("make", [DPPCA, DPTruncatedSVD])
def test_candidates_seen_items_and_newcomers(make):
    model = make(2, row_norm=4.0, epsilon=1e4).fit(TABLE)
    listed = ["item 3", "item 7", "item 20"]
    for best in top_items(model, HISTORY, 30, candidates=listed, with_seen=True).values():
        assert sorted(best) == sorted(listed)
    with pytest.raises(ValueError, match="candidates must be items"):
        top_items(model, HISTORY, 3, candidates=["item 3", "secret"])
    newcomer = interaction_table([], users=["new"], items=HISTORY.items)
    (best,) = top_items(model, newcomer, 5).values()
    popularity = np.asarray(TABLE.sum(axis=0)).ravel()
    ranks = [int(item.removeprefix("item ")) for item in best]
    assert popularity[ranks].mean() > np.quantile(popularity, 0.75)


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
@pytest.mark.parametrize("make", [DPPCA, DPTruncatedSVD])
@pytest.mark.parametrize("batch", [40, 1 << 22])
def test_top_items_are_the_best_that_a_user_does_not_have(monkeypatch, make, batch):
    monkeypatch.setattr("skdp.interactions._BATCH_ENTRIES", batch)
    model = make(2, row_norm=4.0).fit(TABLE)
    scores = model.inverse_transform(model.transform(HISTORY.X))
    for name, best in top_items(model, HISTORY, 3).items():
        number = int(name.removeprefix("user "))
        new = np.flatnonzero(HISTORY.X[[number]].toarray().ravel() == 0)
        expected = new[np.argsort(-scores[number, new], kind="stable")][:3]
        assert best == [f"item {i}" for i in expected]
    everything = top_items(model, HISTORY, 30)
    n_had = np.diff(HISTORY.X.indptr)
    assert [len(best) for best in everything.values()] == (30 - n_had).tolist()
    assert top_items(to_sklearn(model), HISTORY, 3) == top_items(model, HISTORY, 3)


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_other_items_and_numbers_are_refused():
    model = DPTruncatedSVD(2, row_norm=4.0).fit(TABLE)
    with pytest.raises(ValueError, match="3 items, but the model was fitted to 30"):
        top_items(model, interaction_table(PAIRS, items=ITEMS), 1)
    names = [f"item {i}" for i in range(30)]
    model = DPTruncatedSVD(2, row_norm=4.0).fit(pd.DataFrame(TABLE.toarray(), columns=names))
    assert top_items(model, HISTORY, 1)
    with pytest.raises(ValueError, match="order"):
        top_items(model, HISTORY._replace(items=HISTORY.items[::-1]), 1)
    for n in (0, 1.5):
        with pytest.raises(ValueError, match="'n' parameter of top_items"):
            top_items(model, HISTORY, n)


@pytest.mark.parametrize("names", ["item user", "item user stars", "user rating item"])
def test_named_columns_that_are_not_in_the_order_of_pairs_are_refused(names):
    pairs = pd.DataFrame([[1] * len(names.split())], columns=names.split())
    with pytest.raises(ValueError, match=r"users before items: pass pairs\[\['user', 'item'"):
        interaction_table(pairs, items=[1])


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
@pytest.mark.parametrize("make", [DPPCA, DPTruncatedSVD])
def test_newcomers_get_the_best_rated_items_and_not_those_that_everybody_dislikes(make):
    generator = np.random.default_rng(0)
    level = np.linspace(-1.6, 0.4, 30)  # most items are disliked, the first ones most
    ratings = np.clip(np.round(level + generator.normal(size=(3000, 30))), -2, 2)
    table = csr_array(ratings * (generator.random((3000, 30)) < 0.3))
    rated = interaction_table([("mid", 3, 0.0)], users=["new", "mid"], items=range(30))
    for epsilon in (2.0, np.inf):
        for model in (
            fitted := make(2, row_norm=4.0, epsilon=epsilon).fit(table),
            to_sklearn(fitted),
        ):
            for best in top_items(model, rated, 3, with_seen=True).values():
                assert min(best) >= 20


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_a_model_without_a_mean_has_no_items_for_newcomers():
    newcomer = interaction_table([], users=["new"], items=HISTORY.items)
    uncentered = DPPCA(2, row_norm=4.0, center=False).fit(TABLE)
    for model in (uncentered, TruncatedSVD(2).fit(TABLE)):
        assert top_items(model, HISTORY, 1)
        with pytest.raises(ValueError, match=r"no mean_, or zeros .* pass a DPTruncatedSVD"):
            top_items(model, newcomer, 1)


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_a_sparse_frame_with_the_names_of_items_guards_their_order():
    named = pd.DataFrame.sparse.from_spmatrix(TABLE, columns=HISTORY.items)
    model = DPTruncatedSVD(2, row_norm=4.0).fit(named)
    assert top_items(model, HISTORY, 1)
    with pytest.raises(ValueError, match="another order"):
        top_items(model, HISTORY._replace(items=HISTORY.items[::-1]), 1)
