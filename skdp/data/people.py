"""Whose rows these are: each person counts once in every sum, however many rows it has."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from skdp.data.sources import largest_depth

# Weights are multiples of 2 ** -24. So sums of weights, such as counts, are exact in any order.
_BITS = 24  # not tuned
#: Most rows of all people together. The number itself is private, so rounding is charged for these.
MOST_ROWS = 1 << 32  # not tuned
# Additions of a chain besides those of rows in one part: two for the weight, two for its product,
# and those of the sums of parts.
_MORE_ADDITIONS = 4 + 32  # not tuned


@dataclass(frozen=True, eq=False)
class People:
    """The person and the weight of each row; how many people there are is public.

    The weights of a person sum to 1, and follow from its own rows alone. So what a person adds to a
    sum is a mean of what single rows may add, and no sensitivity of a row is exceeded.
    """

    codes: np.ndarray
    weights: np.ndarray
    n_people: int

    @classmethod
    def of(cls, codes: np.ndarray, n_people: int) -> Self:
        """Weigh rows by the numbers of their people, from 0."""
        if len(codes) > MOST_ROWS:
            raise ValueError(f"X has {len(codes)} rows; pass at most {MOST_ROWS} with users.")
        return cls(codes, _weights(codes, n_people), n_people)

    @cached_property
    def first_rows(self) -> np.ndarray:
        """Place of the first row of each person that has rows."""
        return np.unique(self.codes, return_index=True)[1]

    def depth(self, n_features: int, *, is_sparse: bool) -> int:
        """Bound the longest chain of additions of any number of rows."""
        return largest_depth(MOST_ROWS, n_features, is_sparse=is_sparse) + _MORE_ADDITIONS

    def sample(self, at_most: int) -> tuple[np.ndarray, "People"]:
        """Choose one row each of some people, by their numbers; return its places, and whose it is.

        A sample by places would change with the number of rows of a single person.
        """
        step = -(-self.n_people // at_most)
        chosen = self.first_rows[self.codes[self.first_rows] % step == 0]
        return chosen, People(self.codes[chosen], np.ones(len(chosen)), self.n_people)


def _weights(codes: np.ndarray, n_people: int) -> np.ndarray:
    """Divide 2 ** 24 parts among the rows of each person, as equally as whole parts allow."""
    counts, all_parts = np.bincount(codes, minlength=n_people), 1 << _BITS
    order = np.argsort(codes, kind="stable")
    place = np.empty(len(codes), np.int64)
    place[order] = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    parts, rest = np.divmod(all_parts, np.maximum(counts, 1))
    return (parts[codes] + (place < rest[codes])) / all_parts
