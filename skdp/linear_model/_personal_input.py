"""Checks of the rows, responses and users of a personal regression."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_consistent_length

from skdp._checks import INPUT, check_given, check_numbers, refuse_blocks
from skdp.data.containers import checked_container, hide_error_text
from skdp.data.people import check_users, checked_ids
from skdp.data.users import Users
from skdp.linear_model._targets import checked_responses


@dataclass(frozen=True)
class PersonalData:
    """Checked rows and responses, and the user of each row."""

    # Without a column of ids.
    rows: np.ndarray
    responses: np.ndarray
    # Number of the user of each row.
    codes: np.ndarray
    # Ascending ids of the users; None if there are no ids.
    ids: np.ndarray | None

    @property
    def n_users(self) -> int:
        """Number of users."""
        return len(self.rows) if self.ids is None else len(self.ids)

    def users(
        self, max_rows_per_user: int | None, n_jobs: int | None, is_used: Any = slice(None)
    ) -> Users:
        """Copy the rows that `is_used` marks into batches of users."""
        rows, responses, codes = self.rows[is_used], self.responses[is_used], self.codes[is_used]
        return Users(rows, responses, codes, self.n_users, max_rows_per_user, n_jobs)


def either_of(groups: Any, users: Any) -> Any:
    """Return the ids, which have two names."""
    if groups is not None and users is not None:
        raise ValueError(
            "groups and users are two names of the ids of users, and both were given: pass only "
            "one. With metadata routing, a search hands both on: pass it groups alone."
        )
    return groups if users is None else users


def check_input(X: Any, y: Any, groups: Any, user_column: Any, estimator_name: str) -> PersonalData:
    """Refuse bad data, and name no value."""
    rows, ids = check_rows_and_ids(X, groups, user_column, estimator_name)
    check_given(y, estimator_name)
    responses = checked_responses(y)
    check_consistent_length(rows, responses)
    if ids is None:
        return PersonalData(rows, responses, np.arange(len(rows)), None)
    names, codes = check_users(ids)
    return PersonalData(rows, responses, codes, names)


def check_rows_and_ids(
    X: Any, groups: Any, user_column: int | str | None, estimator_name: str
) -> tuple[np.ndarray, np.ndarray | None]:
    """Split the ids off X, check the rows, and return both; None if there are no ids."""
    refuse_blocks(X, estimator_name)
    ids = None
    if user_column is not None:
        X, ids = _split(X, user_column)
    rows = check_numbers(X, "X", dtype=INPUT["dtype"], estimator=estimator_name)
    if groups is not None:
        given = checked_ids(groups, "groups")
        check_consistent_length(rows, given)
        if ids is not None and not _are_same(ids, given):
            raise ValueError(
                f"groups and user_column={user_column!r} tell rows of different users apart, and "
                "in different ways; pass only one of them."
            )
        ids = given
    return rows, ids


def _split(X: Any, user_column: int | str) -> tuple[Any, np.ndarray]:
    """Take the column of ids out of X, which may be a frame with strings in it."""
    X = checked_container(X)
    if not hasattr(X, "shape"):
        # With another dtype, a missing id among strings would become a string.
        X = hide_error_text(np.asarray, X, dtype=object)
    if len(X.shape) != 2:
        raise ValueError(f"X must have two dimensions to have a user_column, got shape {X.shape}.")
    place = _place_of(X, user_column)
    others = [column for column in range(X.shape[1]) if column != place]
    rows, ids = (hide_error_text(_safe_indexing, X, part, axis=1) for part in (others, place))
    return rows, checked_ids(ids, "user_column")


def _place_of(X: Any, user_column: int | str) -> int:
    if isinstance(user_column, str):
        names = list(getattr(X, "columns", ()))
        if names.count(user_column) != 1:
            raise ValueError(
                f"user_column={user_column!r} must be the name of one column of a data frame; if X "
                "has no names, pass the place of the column."
            )
        return names.index(user_column)
    place, n_columns = int(user_column), X.shape[1]
    if not -n_columns <= place < n_columns:
        raise ValueError(
            f"user_column={place} must be a column of X, from {-n_columns} to {n_columns - 1}."
        )
    return place % n_columns


def _are_same(ids: np.ndarray, others: np.ndarray) -> bool:
    """Tell whether two lists of ids group the rows in the same way."""
    one, other = check_users(ids)[1], check_users(others)[1]
    both = np.unique(one * (int(other.max()) + 1) + other)
    return len(both) == int(one.max()) + 1 == int(other.max()) + 1
