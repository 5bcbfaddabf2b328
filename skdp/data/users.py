"""Rows of users in batches, so that the results of one user do not depend on other users.

If one matrix held the rows of all users, one more row of a user would move the rows of other users,
whose products might then round differently. So users with similar numbers of rows share a batch, in
which rows of zeros pad each user to the same number of rows. numpy multiplies the rows of each user
in a batch separately.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np

from skdp.data.reduce import BlockView, on_block, sum_depth
from skdp.data.workers import one_blas_thread
from skdp.linalg.norms import LEAST_ROUNDING, UNIT_ROUNDOFF

#: Values are clipped to this size, so that products of several values do not overflow.
LARGEST_VALUE = 1e60  # not tuned
# Largest number of entries of a batch, which should stay in cache during several products.
_BATCH_ENTRIES = 1 << 18  # not studied
# Number of users in a block: small enough that there are blocks for all threads.
_BLOCK_SLOTS = 1024  # not studied
# Users are padded to certain numbers of rows: `_LENGTHS_IN_OCTAVE` of them from one power of two to
# the next, so that padding adds at most a quarter. Users with few rows get an even number of rows.
_LENGTHS_IN_OCTAVE = 4  # not studied

T = TypeVar("T")


@dataclass
class UserBatch:
    """Users whose rows are padded to the same number.

    Attributes
    ----------
    slots : ndarray of shape (n_users,)
        Numbers of the users.
    rows : ndarray of shape (n_users, length, n_features)
        Rows of the users; padding is 0.
    responses : ndarray of shape (n_users, length)
        Responses to the rows; padding is 0.
    is_row : ndarray of shape (n_users, length)
        1.0 for rows, 0.0 for padding.
    counts : ndarray of shape (n_users,)
        Number of rows of each user.
    """

    slots: np.ndarray
    rows: np.ndarray
    responses: np.ndarray
    is_row: np.ndarray
    counts: np.ndarray


class Users(BlockView):
    """The rows and responses of all users, copied into batches.

    A block has a fixed number of users, whatever their numbers of rows are.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Rows, all finite.
    responses : ndarray of shape (n_rows,)
        Responses, all finite.
    codes : ndarray of shape (n_rows,)
        Number of the user of each row.
    n_users : int
        Number of users. A user without rows is null: it has a number, but contributes nothing.
    max_rows_per_user : int or None, default=None
        Largest number of rows of a user that are used, in their order; None for all rows.
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
        self.by_block = list(self._by_block(rows, responses, codes, max_rows_per_user))

    def _by_block(
        self, rows: np.ndarray, responses: np.ndarray, codes: np.ndarray, max_rows: int | None
    ) -> Iterator[list[UserBatch]]:
        """Sort rows by user, and put users with the same padded number of rows into batches."""
        order = np.argsort(codes, kind="stable")
        counts = np.bincount(codes, minlength=self.n_users)
        starts = np.cumsum(counts) - counts
        if max_rows is not None:
            counts = np.minimum(counts, max_rows)
        # Padded lengths are even, so that the numbers of each user begin at a multiple of 16 bytes:
        # at other addresses some processors add numbers in another order.
        exponents = np.frexp(counts.astype(np.float64))[1]
        step = 2.0 ** np.maximum(exponents - 1 - int(np.log2(_LENGTHS_IN_OCTAVE)), 1)
        lengths = (step * np.ceil(counts / step)).astype(np.int64)
        for first, end in pairwise(self.block_starts):
            batches, in_block = list[UserBatch](), lengths[first:end]
            for length in np.unique(in_block[in_block > 0]):
                slots = np.flatnonzero(in_block == length) + first
                # A batch has as many users as stay in cache together.
                size = max(_BATCH_ENTRIES // (int(length) * self.n_features), 1)
                for chosen in (slots[i : i + size] for i in range(0, len(slots), size)):
                    places = starts[chosen, np.newaxis] + np.arange(length)
                    is_row = np.arange(length) < counts[chosen, np.newaxis]
                    index = order[np.where(is_row, places, starts[chosen, np.newaxis])]
                    own_rows = _bounded(rows[index], is_row[:, :, np.newaxis])
                    targets = _bounded(responses[index], is_row)
                    sizes, marks = counts[chosen].astype(np.float64), is_row.astype(np.float64)
                    batches.append(UserBatch(chosen, own_rows, targets, marks, sizes))
            yield batches

    @property
    def width(self) -> int:
        """Length of the vectors in the largest sum of outer products: an entry per feature pair."""
        return self.n_features**2

    @property
    def batches(self) -> list[UserBatch]:
        """All batches, in order."""
        return [batch for block in self.by_block for batch in block]

    def blocks(self, group: range) -> Iterator[tuple[slice, list[tuple[slice, UserBatch]]]]:
        """Yield the range of users of each block, and its batches, each paired with this range."""
        for index in group:
            slots = slice(int(self.block_starts[index]), int(self.block_starts[index + 1]))
            yield slots, [(slots, batch) for batch in self.by_block[index]]

    @property
    def rounding(self) -> float:
        """Bound on the rounding error of a sum over users, in units of the largest contribution.

        The contribution of a user may be a sum of products of rows. The absolute values of these
        products add up to at most the norm of the contribution times the root of the number of
        features. Contributions within a batch are added first, then the sums of batches. Up to
        about 1e10 rows of a user, the rounding error of its contribution is below `LEAST_ROUNDING`.
        """
        depth = sum_depth(self.block_starts, self.width) + _BATCH_ENTRIES / self.n_features
        return LEAST_ROUNDING + UNIT_ROUNDOFF * depth * self.n_users * self.n_features**0.5

    def map_users(self, statistic: Callable[[UserBatch], np.ndarray]) -> np.ndarray:
        """Compute one or several numbers for each user, from batches; NaN for null users."""
        values = self.map_rows(on_block(partial(map_batch, statistic)))
        of_users = np.full((self.n_users, *values.shape[1:]), np.nan)
        of_users[np.concatenate([batch.slots for batch in self.batches])] = values
        return of_users

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
    """Compute a statistic, or a tuple of statistics, for the users of a batch.

    A single user is computed together with a copy: for a single user, numpy may add numbers in
    another order than for several users.
    """
    if len(batch.slots) > 1:
        return statistic(batch)
    doubled = {name: np.repeat(values, 2, axis=0) for name, values in vars(batch).items()}
    values: Any = statistic(UserBatch(**doubled))
    values = tuple(each[:1] for each in values) if isinstance(values, tuple) else values[:1]
    return cast("T", values)


def _bounded(values: np.ndarray, is_row: np.ndarray) -> np.ndarray:
    """Convert numbers to float64, clip them, and set padding to 0."""
    values = values.astype(np.float64, copy=False)
    np.clip(values, -LARGEST_VALUE, LARGEST_VALUE, out=values)
    if not is_row.all():
        values *= is_row
    return values
