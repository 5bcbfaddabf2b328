"""Rows that belong to users, laid out such that what is computed of one user depends on no other.

In one product over the rows of all users a user with one row more would shift the rows of the
others, which then round differently. Here users of about equal length lie in batches, padded by
rows of zeros, and stacked products take each of them by itself.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from skdp.data.reduce import BlockView, sum_depth
from skdp.data.threads import one_blas_thread
from skdp.linalg.norms import LEAST_ROUNDING, UNIT_ROUNDOFF

__all__ = ["LARGEST_VALUE", "UserBatch", "Users", "map_batch"]

#: Larger values are taken for this one: products of several of them do not overflow.
LARGEST_VALUE = 1e60  # not tuned
# A batch should stay in cache between the products that are formed of it.
_BATCH_ENTRIES = 1 << 18  # not studied
# Slots whose users are batched together: so few that threads can share the blocks.
_BLOCK_SLOTS = 1024  # not studied
# Lengths in an octave: padding adds a quarter of the rows at most, beyond that to an even number.
_LENGTHS_IN_OCTAVE = 4  # not studied


T = TypeVar("T")


@dataclass
class UserBatch:
    """Users that are padded to the same number of rows.

    Attributes
    ----------
    slots : ndarray of shape (n_users,)
        Which users these are.
    rows : ndarray of shape (n_users, length, n_features)
        Their rows, 0 where padded.
    responses : ndarray of shape (n_users, length)
        Their responses, 0 where padded.
    is_row : ndarray of shape (n_users, length)
        1.0 for rows, 0.0 where padded.
    counts : ndarray of shape (n_users,)
        How many rows each of them has.
    """

    slots: np.ndarray
    rows: np.ndarray
    responses: np.ndarray
    is_row: np.ndarray
    counts: np.ndarray


class Users(BlockView):
    """The rows and responses of all users, copied into batches.

    Blocks are of so many slots, whatever rows their users have.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Rows, all finite.
    responses : ndarray of shape (n_rows,)
        Responses, all finite.
    codes : ndarray of shape (n_rows,)
        Number of the user of each row.
    n_users : int
        How many users there are. One without rows is null: it has a slot, but no part in anything.
    max_rows_per_user : int or None, default=None
        How many rows of a user are used at most, the first ones; None for all.
    n_jobs : int or None, default=None
        Threads that share the blocks, as in :func:`skdp.data.reduce.map_sum`.
    """

    in_pieces = True

    def __init__(
        self,
        rows: np.ndarray,
        responses: np.ndarray,
        codes: np.ndarray,
        n_users: int,
        max_rows_per_user: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_users = n_users
        self.n_jobs = n_jobs
        self.n_features = rows.shape[1]
        self.block_starts = np.append(np.arange(0, n_users, _BLOCK_SLOTS), n_users)
        self.by_block = list(_blocks(rows, responses, codes, self.block_starts, max_rows_per_user))

    @property
    def width(self) -> int:
        """How many entries a representation has at most: the largest sum is over their pairs."""
        return self.n_features**2

    @property
    def batches(self) -> list[UserBatch]:
        """All batches."""
        return [batch for block in self.by_block for batch in block]

    def blocks(self, group: range) -> Iterator[tuple[slice, list[tuple[slice, UserBatch]]]]:
        """Yield the batches of consecutive blocks of slots."""
        for index in group:
            slots = slice(int(self.block_starts[index]), int(self.block_starts[index + 1]))
            yield slots, [(slots, batch) for batch in self.by_block[index]]

    @property
    def rounding(self) -> float:
        """Bound of the rounding error of a sum over users, in units of the largest contribution.

        The products of the rows of a user, of which a contribution may consist, have absolute
        values that add to the root of the number of features times its norm. They are added up
        within a batch, then the batches. Up to about 1e10 rows, the sum within one
        user adds less than the first term.
        """
        depth = sum_depth(self.block_starts, self.width) + _BATCH_ENTRIES / self.n_features
        return LEAST_ROUNDING + UNIT_ROUNDOFF * depth * self.n_users * self.n_features**0.5

    def map_users(self, statistic: Callable[[UserBatch], np.ndarray]) -> np.ndarray:
        """Compute a statistic of every user, NaN for null ones.

        Parameters
        ----------
        statistic : callable
            Gives a number, or several, for each user of a batch, from its rows alone.

        Returns
        -------
        ndarray of shape (n_users,) or (n_users, size)
            The statistics.
        """
        values = self.map_rows(lambda _, batch: map_batch(statistic, batch))
        found = np.full((self.n_users, *values.shape[1:]), np.nan)
        found[np.concatenate([batch.slots for batch in self.batches])] = values
        return found

    def shift_rows(self, center: np.ndarray) -> None:
        """Subtract a center from all rows, in place."""
        for batch in self.batches:
            batch.rows -= center
            if not batch.is_row.all():
                batch.rows *= batch.is_row[:, :, np.newaxis]

    def multiply_rows(self, matrix: np.ndarray) -> None:
        """Multiply all rows by a matrix, in place."""
        with one_blas_thread():
            for batch in self.batches:
                batch.rows = batch.rows @ matrix

    def shift_responses(self, center: float) -> None:
        """Subtract a number from all responses, in place."""
        for batch in self.batches:
            batch.responses -= center * batch.is_row

    def clip_responses(self, bound: float) -> None:
        """Clip all responses, in place."""
        for batch in self.batches:
            np.clip(batch.responses, -bound, bound, out=batch.responses)


def map_batch(statistic: Callable[[UserBatch], T], batch: UserBatch) -> T:
    """Compute a statistic, or a named tuple of some, of the users of a batch.

    A user who is alone in it is computed beside a copy: numpy may add up the numbers of one user in
    another order than those of several, and the result must not depend on whether there are others.
    """
    if len(batch.slots) > 1:
        return statistic(batch)
    doubled = {name: np.repeat(values, 2, axis=0) for name, values in vars(batch).items()}
    found: Any = statistic(UserBatch(**doubled))
    first: Any = found[:1]
    if isinstance(found, tuple):
        first = type(found)(*(one[:1] for one in found))
    return first


def _blocks(
    rows: np.ndarray,
    responses: np.ndarray,
    codes: np.ndarray,
    block_starts: np.ndarray,
    max_rows_per_user: int | None,
) -> Iterator[list[UserBatch]]:
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes, minlength=block_starts[-1])
    starts = np.cumsum(counts) - counts
    if max_rows_per_user is not None:
        counts = np.minimum(counts, max_rows_per_user)
    lengths = padded_lengths(counts)
    for first, end in pairwise(block_starts):
        batches = []
        for chosen in _alike(lengths[first:end], first, rows.shape[1]):
            places = starts[chosen, np.newaxis] + np.arange(lengths[chosen[0]])
            is_row = np.arange(lengths[chosen[0]]) < counts[chosen, np.newaxis]
            index = order[np.where(is_row, places, starts[chosen, np.newaxis])]
            batches.append(
                UserBatch(
                    chosen,
                    _bounded(rows[index], is_row[:, :, np.newaxis]),
                    _bounded(responses[index], is_row),
                    is_row.astype(np.float64),
                    counts[chosen].astype(np.float64),
                )
            )
        yield batches


def _alike(lengths: np.ndarray, start: int, n_features: int) -> Iterator[np.ndarray]:
    """Choose users of the same padded length, so many that a batch stays in cache."""
    for length in np.unique(lengths[lengths > 0]):
        slots = np.flatnonzero(lengths == length) + start
        size = max(_BATCH_ENTRIES // (int(length) * n_features), 1)
        yield from (slots[first : first + size] for first in range(0, len(slots), size))


def padded_lengths(counts: np.ndarray) -> np.ndarray:
    """Round numbers of rows up, each for itself, to one of few, all of them even.

    So every user starts at a multiple of 16 bytes: elsewhere some processors add up in another
    order.
    """
    exponents = np.frexp(counts.astype(np.float64))[1]
    step = 2.0 ** np.maximum(exponents - 1 - int(np.log2(_LENGTHS_IN_OCTAVE)), 1)
    return (step * np.ceil(counts / step)).astype(np.int64)


def _bounded(values: np.ndarray, is_row: np.ndarray) -> np.ndarray:
    """Bound numbers that nobody else holds, and set to 0 what is padded."""
    values = values.astype(np.float64, copy=False)
    np.clip(values, -LARGEST_VALUE, LARGEST_VALUE, out=values)
    if not is_row.all():
        values *= is_row
    return values
