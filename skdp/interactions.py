"""Tables of users and items from pairs of ids, and recommendations of items by a model."""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils import _safe_indexing, gen_batches

from skdp._validation import AT_LEAST_ONE, validate_plain
from skdp.data.containers import have_times, with_text
from skdp.data.people import check_users, checked_ids, kind_of_ids
from skdp.data.workers import without_warnings
from skdp.exceptions import warn_of_privacy

__all__ = ["InteractionTable", "interaction_table", "top_items"]

# About this many scores are computed or ranked at a time.
_BATCH_ENTRIES = 1 << 22  # not studied


class InteractionTable(NamedTuple):  # numpydoc ignore=PR02
    """A table of the items of users, with the names of its rows and columns.

    :func:`skdp.interactions.interaction_table` makes it.

    Parameters
    ----------
    X : csr_array of shape (n_users, n_items)
        1.0 where a user has an item, or the rating.
    users : ndarray of shape (n_users,)
        Names of the rows.
    items : ndarray of shape (n_items,)
        Names of the columns.

    Examples
    --------
    >>> from skdp.interactions import interaction_table
    >>> interaction_table([("ann", "tea"), ("bob", "jam")], items=["jam", "tea"]).X.toarray()
    array([[0., 1.],
           [1., 0.]])
    """

    X: csr_array
    users: np.ndarray
    items: np.ndarray

    def __repr__(self) -> str:
        """Return the shape, as a notebook is not to show who the users are."""
        return f"InteractionTable(shape={self.X.shape})"


def interaction_table(pairs: Any, *, users: Any = None, items: Any = None) -> InteractionTable:
    """Make a sparse table of pairs of a user and an item, or of triples with a rating.

    Parameters
    ----------
    pairs : data frame or array-like of shape (n_pairs, 2) or (n_pairs, 3)
        A user and an item in each line, in this order, as ids that are integers or strings; then a
        rating, if any: a finite number. A pair that occurs twice counts once, with the mean of its
        ratings. Pairs whose user or item is not in `users` or `items` are left out. For a new user,
        who is in `users`, `pairs` may be empty.
    users : array-like of shape (n_users,) or None, default=None
        Ids of the rows, in their order. ``None`` takes the sorted users of `pairs`: the number of
        rows is then the number of users in the data.
    items : array-like of shape (n_items,) or None, default=None
        Ids of the columns, in their order, such as a catalog. ``None`` takes the sorted items of
        `pairs`, and warns, as this makes public which items occur.

    Returns
    -------
    InteractionTable
        The table, and the names of its rows and columns.

    Raises
    ------
    ValueError
        If `pairs` does not have two or three columns, or has "item" before "user", ids are missing
        or of several kinds, a rating is a date or not a finite number, or a list of ids repeats an
        id.

    See Also
    --------
    skdp.DPTruncatedSVD : Components of the table.
    skdp.datasets.make_interactions : A table for trials.

    Notes
    -----
    **Privacy.** The table is as private as the pairs: nothing is released. Errors quote no id.

    Examples
    --------
    >>> from skdp.interactions import interaction_table
    >>> pairs = [("ann", "tea"), ("bob", "jam"), ("bob", "tea"), ("bob", "tea"), ("bob", "pen")]
    >>> table = interaction_table(pairs, items=["jam", "oat", "tea"])
    >>> table.X.toarray()
    array([[0., 0., 1.],
           [1., 0., 1.]])
    >>> table.users.tolist()
    ['ann', 'bob']
    """
    if items is None:
        warn_of_privacy(
            "items=None makes public which items occur in pairs: pass items, such as a catalog, "
            "that are known without looking at pairs."
        )
    given = pairs
    if isinstance(pairs, list | tuple):  # else numpy would turn integers beside strings to strings
        given = np.array(pairs or np.empty((0, 2)), dtype=object)
    shape: tuple[int, ...] = getattr(given, "shape", ())
    if len(shape) != 2 or shape[1] not in (2, 3):
        raise ValueError(
            "pairs must have two columns, a user and an item, or a rating as the third, as "
            "pairs[['user', 'item', 'rating']] of a pandas.read_csv(path), got "
            f"{f'shape {shape}' if shape else type(pairs).__name__}."
        )
    named = list(getattr(given, "columns", ()))
    if any(name in named and named[at] != name for at, name in enumerate(("user", "item"))):
        raise ValueError("pairs must have users before items: pass pairs[['user', 'item', ...]].")
    rows, users = _placed(_safe_indexing(given, 0, axis=1), users, "users")
    columns, items = _placed(_safe_indexing(given, 1, axis=1), items, "items")
    is_listed = (rows >= 0) & (columns >= 0)
    places = rows[is_listed], columns[is_listed]
    numbers = _ratings(given) if shape[1] == 3 else np.ones(len(rows))
    size = len(users), len(items)
    X = csr_array((numbers[is_listed], places), shape=size)
    counts = csr_array((np.ones(is_listed.sum()), places), shape=size)
    X.data /= counts.data
    return InteractionTable(X, users, items)


def _ratings(pairs: Any) -> np.ndarray:
    """Return the ratings, the third column; refuse ratings that are not finite, and quote none."""
    text = (
        "ratings, the third column of pairs, must be finite numbers, with none missing: leave out "
        "lines without one, as pairs.dropna() does. Columns go by place, as (user, item, rating)."
    )
    column, names = _safe_indexing(pairs, 2, axis=1), getattr(pairs, "columns", range(3))
    if have_times(column) or str(names[2]).lower() in ("date", "timestamp"):
        raise ValueError("The third column holds dates, no ratings: pass pairs[['user', 'item']].")
    ratings = with_text(text, lambda: np.asarray(column, dtype=np.float64))
    if not np.isfinite(ratings).all():
        raise ValueError(text)
    return ratings


def _placed(column: Any, given: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the index of each id in a list (`given`, or all ids), -1 if absent; and the list."""
    ids, codes = _unique(column, f"{name} in pairs")
    if given is None:
        return codes, ids
    listed = checked_ids(given, name)
    if len(_unique(listed, name)[0]) < len(listed):
        raise ValueError(f"{name} must have every id once, got some ids twice.")
    if len(ids) and len(listed) and (kind := kind_of_ids(listed)) != (in_pairs := kind_of_ids(ids)):
        place = "first" if name == "users" else "second"
        raise ValueError(f"{name} must be {in_pairs}, as in the {place} column, got {kind}.")
    places = {one: place for place, one in enumerate(listed.tolist())}
    places_of_ids = np.array([places.get(one, -1) for one in ids.tolist()], dtype=np.intp)
    return places_of_ids[codes], listed


def _unique(ids: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted ids, and the index of each id; refuse other values without quoting any."""
    text = (
        f"{name} must be all integers or all strings, with none missing: leave out gaps by "
        "pairs.dropna(), and convert other ids by .astype(str)."
    )
    return with_text(text, lambda: check_users(checked_ids(ids, name)))


def batches_of(n_users: int, n_items: int) -> Any:
    """Return slices of users, with about `_BATCH_ENTRIES` scores each."""
    return gen_batches(n_users, max(1, _BATCH_ENTRIES // max(1, n_items)))


def top_items(
    model: Any,
    history: InteractionTable,
    n: int,
    *,
    candidates: Any = None,
    with_seen: bool = False,
) -> dict[Any, list[Any]]:
    """List the items with the highest scores for each user, without the items of the user.

    A user without items gets the items with the highest mean entries of the table that the `model`
    was fitted to: the most popular of 0 and 1, the best of ratings minus the middle of the scale.

    Parameters
    ----------
    model : estimator
        A fitted :class:`skdp.DPTruncatedSVD` or :class:`skdp.DPPCA`, or another estimator with
        `transform` and `inverse_transform`, of a table with the items of `history`. Users without
        items need a model with `components_` and a `mean_`, or one that gives them scores.
    history : InteractionTable
        Items of any users, made by `interaction_table` with the `items` of the table to which the
        model was fitted, in the same order. A model that was fitted to a table without column names
        does not know the order, and another order gives wrong items.
    n : int
        Number of items, at least 1.
    candidates : array-like of ids or None, default=None
        Items that may be listed, such as those in stock; ``None`` means all items in `history`.
    with_seen : bool, default=False
        Whether to list items that the user has, too.

    Returns
    -------
    dict
        A list of items for each user, the best first; shorter than `n` if there are no more.

    Raises
    ------
    TypeError
        If `history` is no InteractionTable, or the model cannot transform its rows.
    ValueError
        If the model is known to be fitted to other items, or in another order, `candidates` has an
        item that `history` lacks, `n` is below 1, or a user has no items and the model no mean.

    Notes
    -----
    **Privacy.** The lists depend on the rows in `history`, and the guarantee of the model does not
    cover them: show the items of a user to that user, and to nobody else.

    Examples
    --------
    >>> from skdp import DPTruncatedSVD
    >>> from skdp.interactions import interaction_table, top_items
    >>> pairs = [(user, item) for user in range(900) for item in ("jam", "tea")[user % 2 :]]
    >>> table = interaction_table(pairs, items=["jam", "oat", "tea"])
    >>> svd = DPTruncatedSVD(1, row_norm=1.5, epsilon=9.0).fit(table.X)
    >>> top_items(svd, interaction_table([("ann", "tea")], items=table.items), 1)
    {'ann': ['jam']}
    """
    validate_plain({"n": [AT_LEAST_ONE]}, {"n": n}, "top_items")
    if not isinstance(history, InteractionTable):
        raise TypeError(
            f"history is a {type(history).__name__}: pass an InteractionTable, as "
            "interaction_table(pairs, items=catalog) makes it."
        )
    if not (hasattr(model, "transform") and hasattr(model, "inverse_transform")):
        raise TypeError(
            f"model is a {type(model).__name__}, without transform and inverse_transform: pass a "
            "DPTruncatedSVD or DPPCA that was fitted to the X of a table."
        )
    X, users, items = history
    n_items = getattr(model, "n_features_in_", len(items))
    names = getattr(model, "feature_names_in_", items)
    if n_items != len(items) or names.tolist() != items.tolist():
        raise ValueError(
            f"history has {len(items)} items, but the model was fitted to {n_items}, to other "
            "items, or in another order: make both tables with the same items, which are "
            "model.feature_names_in_ if the model has names."
        )
    listed = items if candidates is None else checked_ids(candidates, "candidates")
    is_candidate = np.isin(items, listed)
    if is_candidate.sum() < len(np.unique(listed)):
        raise ValueError("candidates must be items of history.items; at least one is not.")
    if has_mean := hasattr(model, "components_") and np.any(getattr(model, "mean_", 0.0)):
        # The projection of the released mean has less noise than the mean, but misses directions
        # that noise hides. The sum of both never ranks against the mean: its product with the mean
        # is positive. In contrast to squares of components, it tells liked from disliked items.
        basis = model.components_
        of_new = model.mean_ + model.mean_ @ basis.T @ basis
    best_of_users = {}
    for batch in batches_of(len(users), n_items):
        with without_warnings():  # warnings of missing names: they were compared above
            scores = np.array(model.inverse_transform(model.transform(X[batch])))
        is_new = np.ravel(abs(X[batch]).sum(axis=1)) == 0
        if has_mean:
            scores[is_new] = of_new
        elif (is_new & ~scores.any(axis=1)).any():
            raise ValueError(
                "history has users without items, who get the items with the highest mean entries, "
                f"but this {type(model).__name__} has no mean_, or zeros there: leave these users "
                "out, or pass a DPTruncatedSVD of rows, entries or interactions."
            )
        scores[:, ~is_candidate] = -np.inf
        if not with_seen:
            seen = X[batch].tocoo()
            scores[seen.row, seen.col] = -np.inf
        best = np.argsort(-scores, axis=1, kind="stable")[:, :n]
        for user, places, own in zip(users[batch].tolist(), best, scores, strict=True):
            best_of_users[user] = items[places[own[places] > -np.inf]].tolist()
    return best_of_users
