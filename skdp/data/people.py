"""Units of views: rows, or people, who count once in every sum, whatever rows they have."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np

from skdp.data.containers import checked_container, hide_error_text, is_collection
from skdp.data.parts import RowParts
from skdp.data.reduce import BlockView, part_ranges, sum_depth
from skdp.data.sources import Source, block_starts, largest_depth
from skdp.exceptions import joined

# ------------------------------
# Weights of rows.

# Weights are multiples of 2 ** -24, so that sums of weights, such as counts, are exact.
_BITS = 24  # not tuned
#: Largest number of rows of all users together. The number of rows is private, so the bound on
#: rounding errors holds for this many.
MOST_USER_ROWS = 1 << 32  # not tuned
#: Up to this number of people, floats have no rounding error in sums of halves of weights, so that
#: counts are exact.
MOST_PEOPLE = 1 << 52 - _BITS  # not tuned
# Number of roundings besides the additions within a part. A product of two rows has 4: of the roots
# of both weights, and of the products of the roots with the rows. A tree of up to 2 ** 32 parts has
# 32 additions.
_MORE_ROUNDINGS = 4 + 32  # not tuned
# Number of rows in a batch of `People.batches`.
_BATCH = 1024  # not studied


@dataclass(frozen=True, eq=False)
class People:
    """The person to whom each row belongs, and the weight of each row; `n_people` is public.

    The weights of the rows of a person sum to 1, and depend only on their number. So the term of a
    person in a sum is a mean of terms of rows, and no larger than the largest term of a row.
    """

    codes: np.ndarray
    weights: np.ndarray
    n_people: int

    @classmethod
    def of(cls, codes: np.ndarray, n_people: int) -> Self:
        """Compute the weights of rows, given the index of the person of each row."""
        if len(codes) > MOST_USER_ROWS:
            raise ValueError(f"X has {len(codes)} rows; pass at most {MOST_USER_ROWS} with users.")
        if n_people > MOST_PEOPLE:
            raise ValueError(f"users has {n_people} different ids; pass at most {MOST_PEOPLE}.")
        return cls(codes, _weights(codes, n_people), n_people)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the persons of rows: other processes need only the weights of rows."""
        return {"weights": self.weights, "n_people": self.n_people}

    @cached_property
    def first_rows(self) -> np.ndarray:
        """Index of the first row of each person who has rows."""
        return np.unique(self.codes, return_index=True)[1]

    def sample(self, at_most: int) -> tuple[np.ndarray, "People"]:
        """Choose the first row of every k-th person; return the indices and the people of the rows.

        A choice of every k-th row would depend on the number of rows of each person.
        """
        step = -(-self.n_people // at_most)
        chosen = self.first_rows[self.codes[self.first_rows] % step == 0]
        return chosen, People(self.codes[chosen], np.ones(len(chosen)), self.n_people)

    def batches(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Put rows into batches of one size, so that no person changes the rounding of others.

        A function of a batch may round differently at each place of the batch. So the place of a
        row depends only on its person, and on how many earlier rows the person has. The first row
        fills unused places.

        Yields
        ------
        places : ndarray of shape (batch_size,)
            The row in each place of the batch.
        is_used : ndarray of shape (batch_size,)
            False for unused places.
        """
        places = (self.codes + places_within(self.codes, self.n_people)) % _BATCH
        numbers_of_batches = places_within(places, _BATCH)
        batches = np.full((numbers_of_batches.max() + 1, _BATCH), -1)
        batches[numbers_of_batches, places] = np.arange(len(self.codes))
        for batch in batches:
            yield np.maximum(batch, 0), batch >= 0

    def means(self, values: np.ndarray) -> np.ndarray:
        """Average the values of the rows of each person."""
        return np.bincount(self.codes, self.weights * values, self.n_people)


def _weights(codes: np.ndarray, n_people: int) -> np.ndarray:
    """Divide a weight of 1 among the rows of each person, in almost equal multiples of 2 ** -24."""
    counts, total = np.bincount(codes, minlength=n_people), 1 << _BITS
    parts, rest = np.divmod(total, np.maximum(counts, 1))
    # The first rows of a person get 2 ** -24 more, so that all weights of the person sum to 1.
    return (parts[codes] + (places_within(codes, n_people) < rest[codes])) / total


def places_within(codes: np.ndarray, n_codes: int) -> np.ndarray:
    """For each code, count the equal codes before it."""
    counts, places = np.bincount(codes, minlength=n_codes), np.empty(len(codes), np.int64)
    before = np.repeat(np.cumsum(counts) - counts, counts)
    # numpy sorts integers of 16 bits fast, so codes of 32 bits are sorted by their two halves.
    halves = codes.astype(np.uint16), (codes >> 16).astype(np.uint16)
    places[np.lexsort(halves)] = np.arange(len(codes)) - before
    return places


def sample_weight_of(people: People | None, rows: slice) -> np.ndarray | None:
    """Return the weights of the rows; None if each row counts as one."""
    return None if people is None else people.weights[rows]


def people_of(users: Any, rows: Any, unit: Any, steps: Sequence[str] = ()) -> People | None:
    """Return the people of rows, if users are the unit; refuse `users` with another unit.

    The error names the private `steps` of a pipeline, which need this unit.
    """
    is_user = isinstance(unit, str) and unit == "user"
    if users is None:
        if is_user:
            raise ValueError(
                "privacy_unit='user' needs users, an id for each row: pass them to fit, to a step "
                "of a Pipeline as step__users, and to cross_val_score as params={'users': ...}."
            )
        return None
    if not is_user:
        raise ValueError(
            f"users is for privacy_unit='user', got privacy_unit={unit!r}: pass privacy_unit='user'"
            f"{' to ' * bool(steps)}{joined(steps)}. Without such a unit, leave users out, "
            "and make one row for each person."
        )
    users = ids_in_memory(users)
    is_list = isinstance(users, list | tuple) and len(users) > 0
    is_by_part = is_list and hide_error_text(getattr, users[0], "ndim", 0) > 0
    ids = _ids_of_parts(users, rows) if is_by_part else checked_ids(users, "users")
    n_rows = rows.shape[0] if hasattr(rows, "shape") else len(rows)
    if len(ids) != n_rows:
        raise ValueError(f"users has {len(ids)} ids, but X has {n_rows} rows.")
    names, codes = check_users(ids)
    return People.of(codes, len(names))


def ids_in_memory(users: Any) -> Any:
    """Replace user ids in a dask collection by numbers; return other ids unchanged."""
    if not is_collection(users):
        return users
    from skdp.data.dask_rows import computed

    return check_users(checked_ids(computed(users), "users"))[1]


def _ids_of_parts(users: Any, rows: Any) -> np.ndarray:
    """Join arrays of ids, one for each part that has rows."""
    if not isinstance(rows, RowParts):
        raise ValueError(
            "users is a list of arrays, one for each part of a RowBlocks, but X has no parts: pass "
            "one array, numpy.concatenate(users)."
        )
    given = [checked_ids(ids, f"users[{number}]") for number, ids in enumerate(users)]
    given = [ids for ids in given if len(ids)]
    if [len(ids) for ids in given] != rows.lengths:
        raise ValueError(
            "users must have an array for each part of X, with an id for each row: got "
            f"{len(given)} arrays for {len(rows.lengths)} parts with rows, or other lengths."
        )
    if len(set(map(kind_of_ids, given))) > 1:
        # Joining them would turn numbers into strings.
        raise ValueError(_KINDS_DIFFER)
    return np.asarray(hide_error_text(np.concatenate, given))


def keyed_by_people(digest: Callable[[], Any], people: People | None) -> Callable[[], Any]:
    """Extend a digest of rows by their people, as the same rows of other people are other data."""
    return digest if people is None else lambda: (digest(), people.codes.tobytes())


def depth_of_people(n_features: int, *, is_sparse: bool, width: int | None = None) -> int:
    r"""Bound the longest chain of additions in sums over people, who may have any number of rows.

    The rounding error of a sum of :math:`w_i f(x_i)` with :math:`\|f(x_i)\| \le c` is at most
    :math:`h u \sum_i w_i \|f(x_i)\|`, where h is the longest chain and u the unit roundoff. As the
    weights of a person sum to 1, the error is at most :math:`h u n c` for n people, whatever their
    rows.
    More rows may have shorter chains, so h is the maximum over all numbers of rows up to
    `MOST_USER_ROWS`, in any parts. `width` is the number of columns that the length of blocks
    depends on, by default `n_features`.
    """
    depth = largest_depth(MOST_USER_ROWS, n_features, is_sparse=is_sparse, width=width)
    return depth + _MORE_ROUNDINGS


def depth_of(
    like: Any,
    shape: tuple[int, int],
    *,
    is_sparse: bool,
    are_people: bool = False,
    width: int | None = None,
) -> int:
    """Bound the longest chain of additions in sums over the rows, or people, of an X of this shape.

    The bound depends on public facts only: on `shape`, which has the numbers of units and features,
    and, if `like` is a `RowParts`, on the numbers of rows of its parts. `width` is the number of
    columns that the length of blocks depends on, by default all features.
    """
    if are_people:
        return depth_of_people(shape[1], is_sparse=is_sparse, width=width)
    if isinstance(like, RowParts) and like.shape == shape and width is None:
        source = Source(like)
        return sum_depth(source.block_starts, shape[1], part_ranges(source))
    n_columns = shape[1] if width is None else width
    return sum_depth(block_starts(shape[0], n_columns, is_sparse=is_sparse), shape[1])


# ------------------------------
# Views of rows, whose units are rows or people, of one owner or of several.


class Agreed(NamedTuple):
    """Public facts on which all owners of a federated fit agree, for the view of one owner's rows.

    Sums over the view add the rows of this owner only. But all owners use the agreed number of
    units for three things: the stride of samples, the count that a search for a quantile looks for,
    and the bounds on rounding. The bound for a sample is the bound for all rows, since the sample
    of a stream has all rows.
    """

    n_units: int  # rows of all owners, or number of owners if owners are the units
    depth: int  # longest chain of additions at any owner


class UnitView(BlockView):
    """A view of the rows of a source, with the units that a fit protects."""

    source: Any
    people: People | None
    agreed: Agreed | None

    def __post_init__(self) -> None:
        """Refuse sums with a longer chain of additions than the owners have agreed on."""
        if self.agreed is not None and self._own_depth > self.agreed.depth:
            raise ValueError(
                f"A sum over X has a chain of {self._own_depth} additions, and at most "
                f"{self.agreed.depth} have been agreed: pass X as one array, or in fewer parts."
            )

    @property
    def n_units(self) -> int:
        """Number of rows or, if users are protected, of users; across owners, the agreed number."""
        if self.agreed is not None:
            return self.agreed.n_units
        return int(self.source.shape[0] if self.people is None else self.people.n_people)

    @property
    def width(self) -> int:
        """Length of the vectors whose outer products are the largest sum of a fit."""
        return int(self.source.shape[1])

    @property
    def block_starts(self) -> np.ndarray:
        """Index of the first row of each block, and the number of rows."""
        return np.asarray(self.source.block_starts)

    @property
    def depth(self) -> int:
        """Longest chain of additions in a sum over this view; with several owners, as agreed."""
        return self._own_depth if self.agreed is None else self.agreed.depth

    @property
    def _own_depth(self) -> int:
        if self.people is None:
            return sum_depth(self.block_starts, self.width, part_ranges(self))
        width = getattr(self.source, "dense_width", None)
        return depth_of_people(self.width, is_sparse=self.source.is_sparse, width=width)


# ------------------------------
# Ids of people, and their checks.

_KINDS_DIFFER = (
    "The ids of users must be all integers or all strings, none missing, NaN or infinite: in "
    "users, or groups, give each row without an id one of its own, or leave these rows out. Other "
    "ids become strings by .astype(str)."
)


def check_users(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct ids, sorted, and the index of the id of each row; errors show no id."""
    if not kind_of_ids(ids):
        raise ValueError(_KINDS_DIFFER)
    if ids.dtype.kind == "f":
        if not np.equal(ids, np.rint(ids)).all():
            raise ValueError("Ids of users are fractions; pass integers or strings, no weights.")
        if np.abs(ids).max(initial=0) >= 2.0 ** np.finfo(ids.dtype).nmant:
            raise ValueError("Ids of users are too large floats: pass integers.")
    names, codes = hide_error_text(np.unique, ids, return_inverse=True)
    return names, codes.ravel()


def kind_of_ids(ids: np.ndarray) -> str:
    """Return "integers" or "strings", the kind of all ids; "" for mixed, missing or other ids."""
    if ids.dtype.kind == "f":
        return "integers" if np.isfinite(ids).all() else ""
    types = set(map(type, ids.astype(object))) if ids.dtype.kind in "TO" else {ids.dtype.type}
    if np.timedelta64 in types:
        return ""  # numpy takes durations, of which some may be missing, for integers
    kinds = {"integers": Integral, "strings": str}
    are_of = (name for name in kinds if all(issubclass(one, kinds[name]) for one in types))
    return next(are_of, "")


def checked_ids(ids: Any, name: str) -> np.ndarray:
    """Convert ids to an array, in which a missing id stays missing, even among strings."""
    ids = checked_container(ids)
    kind = object if isinstance(ids, list | tuple) else None
    given = hide_error_text(np.asarray, ids, dtype=kind)
    if given.ndim == 2 and given.shape[1] == 1:
        given = given.ravel()
    if given.ndim != 1:
        got = f"shape {given.shape}" if given.ndim else type(ids).__name__
        text, cure = f"{name} must be 1-D", "pass a list"
        if name in ("users", "groups"):
            text += ", with an id for each row in order"
            cure = f"pass the column itself, {name}=X['user_id'], and X without it"
        raise ValueError(f"{text}, got {got}: {cure}.")
    if given.dtype != object:
        return given
    # Ids of several kinds stay objects, which `check_users` refuses.
    numbers = hide_error_text(np.asarray, given.tolist())
    return numbers if numbers.dtype.kind in "biuf" else given
