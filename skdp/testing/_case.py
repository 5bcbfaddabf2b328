"""Cases: an estimator with data for privacy checks, and neighboring datasets."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_scalar

from skdp.testing._audit import released_by
from skdp.testing._recording import Group

Arguments = tuple[Any, ...]

# ------------------------------
# Neighbors.

_LARGEST = np.finfo(np.float64).max


def _extreme_rows(first: np.ndarray) -> Iterator[np.ndarray]:
    """Yield rows that break careless code: of all sizes, opposite to or unlike `first`, random."""
    size, generator = len(first), np.random.default_rng(0)
    signs, axis = (-1.0) ** np.arange(size), np.eye(size)[-1]
    for scale in (0.0, 1e-310, 1e-200, 1.0, 1e9, 1e300):
        yield from (np.full(size, scale), -scale * np.ones(size), scale * signs)
    yield from (-first, first * (1 - axis) - 1e20 * axis, 1e9 * axis, _LARGEST * signs)
    yield 10.0 ** np.linspace(-300, 300, size)
    for scale in (0.1, 1.0, 10.0):
        yield scale * generator.normal(size=size)


def _has_labels(values: np.ndarray) -> bool:
    """Return whether values are labels or ids: the set of values that may occur is then public."""
    is_whole = values.ndim == 1 and bool(np.all(values == np.round(values)))
    return values.dtype.kind != "f" or is_whole


def _extreme_units(arrays: Sequence[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """Yield units: for each array an extreme row, a label that occurs, or an extreme number."""
    extremes = np.array([0.0, 1e9, -1e9, 1e300, -_LARGEST])
    # For each one-dimensional array, the values that a unit's entry may have: labels that occur,
    # or extreme numbers.
    choices = [np.unique(one) if _has_labels(one) else extremes for one in arrays]
    first_rows = [np.ravel(one[0]) for one in arrays if one.ndim > 1] or [np.zeros(1)]
    for number, row in enumerate(_extreme_rows(first_rows[0])):
        yield [
            row.reshape(one.shape[1:]) if one.ndim > 1 else values[number % len(values)]
            for one, values in zip(arrays, choices, strict=True)
        ]


def _exchanged(arrays: Sequence[Any], is_own: np.ndarray, unit: Any, count: int) -> Arguments:
    """Replace the rows in which `is_own` is True by `count` copies of the row of another unit."""
    start = [int(np.argmax(is_own))] * count
    pairs = zip(arrays, unit, strict=True)
    return tuple(np.insert(one[~is_own], start, row, axis=0) for one, row in pairs)


def replaced_rows(*arguments: Any, place: int = 0) -> list[Arguments]:
    """List datasets in which one row, or one record, is replaced by an extreme one.

    Parameters
    ----------
    *arguments : ndarray
        Arguments of `fit`, with a row or a number for each unit.
    place : int, default=0
        The row or record to exchange.

    Returns
    -------
    list of tuple
        Datasets that are all neighbors of each other.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.testing import replaced_rows
    >>> X, _ = replaced_rows(np.ones((3, 2)), np.zeros(3))[0]
    >>> X
    array([[0., 0.],
           [1., 1.],
           [1., 1.]])
    """
    is_own = np.arange(len(arguments[0])) == place
    return [_exchanged(arguments, is_own, unit, 1) for unit in _extreme_units(arguments)]


def replaced_users(*arguments: Any, place: int = 0) -> list[Arguments]:
    """List datasets in which all rows of a user are replaced by 1 or 30 extreme rows.

    Parameters
    ----------
    *arguments : ndarray
        Arguments of `fit`, the last of which has the owner of each row.
    place : int, default=0
        A row of the user.

    Returns
    -------
    list of tuple
        Datasets that are all neighbors of each other.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.testing import replaced_users
    >>> X, users = replaced_users(np.ones((3, 2)), np.array([7, 8, 8]))[1]
    >>> X.shape, np.unique(users)
    ((32, 2), array([7, 8]))
    """
    *arrays, users = arguments
    units = [[*unit, users[place]] for unit in _extreme_units(arrays)]
    is_own = users == users[place]
    return [_exchanged(arguments, is_own, unit, count) for unit in units for count in (1, 30)]


def climb(
    score: Callable[[np.ndarray], float], size: int, n_steps: int, generator: np.random.Generator
) -> float:
    """Search for a row with a large score, by random steps from the best of five random rows."""
    best_row, best = np.zeros(size), 0.0
    for step in range(n_steps):
        row = generator.normal(size=size)
        row = row if step < 5 else best_row + 0.3 * row
        best_row, best = max((best_row, best), (row, score(row)), key=itemgetter(1))
    return best


# ------------------------------
# The case.


@dataclass(frozen=True)
class PrivacyCase:  # numpydoc ignore=PR02
    """An estimator written on ``skdp.privacy``, with data and facts for its checks.

    Parameters
    ----------
    estimator : estimator
        Unfitted, with `get_params`. Its `fit` opens one budget. Choose an epsilon of about 100:
        with more noise, attacks would not come close to a sensitivity.
    data : tuple
        The arguments of `fit`: made-up data, as ordinary as those of users.
    neighbours : callable, default=replaced_rows
        ``neighbours(*data, place=place)`` returns datasets, as tuples, in which the unit of the row
        with number `place` is exchanged: checks pass the first row, the second, one in the middle
        and the last. :func:`skdp.testing.replaced_users` exchanges all rows of a user.
    null : callable, default=None
        For adjacency ``"zero_out"``: makes a context in which fits treat the unit of the first row,
        which neighbors exchange, as null. None means adjacency ``"replace"``.
    tightness : float, default=0.5
        Attacks must move each release by at least this fraction of its sensitivity.
    expected_failures : dict, default={}
        Names of checks that fail, each with the reason.

    Raises
    ------
    TypeError
        If `estimator` has no `fit`, `data` is not a tuple, or `fit` does not take its entries by
        position: for keyword-only arguments, check a subclass whose `fit` passes them on.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.testing import PrivacyCase
    >>> from skdp import DPPCA
    >>> PrivacyCase(DPPCA(2, epsilon=100.0), (np.eye(9),)).tightness
    0.5
    """

    estimator: Any
    data: Arguments
    neighbours: Callable[..., Iterable[Arguments]] = replaced_rows
    null: Callable[[], AbstractContextManager[Any]] | None = None
    tightness: float = 0.5
    expected_failures: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_scalar(self.data, "data", tuple)
        if isinstance(self.estimator, type) or not hasattr(self.estimator, "fit"):
            raise TypeError("estimator must be an object with fit, such as DPPCA(2, epsilon=100).")
        try:
            inspect.signature(self.estimator.fit).bind(*self.data)
        except TypeError as error:
            text = f"data must be what fit takes by position, got other: {error}."
            raise TypeError(text) from None


class Subject:
    """A `PrivacyCase` of a user with the methods that checks call.

    Tests of skdp call the same checks with a class of their own.
    """

    def __init__(self, case: PrivacyCase) -> None:
        self.case, self.data = case, case.data
        self.parameters: dict[str, Any] = case.estimator.get_params(deep=False)
        size = np.shape(self.data[0])[0]
        self.places = list(dict.fromkeys((0, 1 % size, size // 2, size - 1)))

    def make(self, **more: Any) -> Any:
        """Return an unfitted estimator with these parameters; leave out those that it lacks."""
        known = {name: value for name, value in more.items() if name in self.parameters}
        return type(self.case.estimator)(**{**self.parameters, **known})

    def groups(self) -> list[Group]:
        """Return groups of neighbors of the data."""
        groups = []
        for number, place in enumerate(self.places):
            found = list(self.case.neighbours(*self.data, place=place))
            # The first unit is exchanged for all extreme units, any other unit for a third of them.
            chosen = found[number % 3 :: 3] if number else found
            groups.append(self.group(place, [self.data, *chosen]))
        return groups

    def group(self, place: int, datasets: list[Arguments]) -> Group:
        """Make a group of datasets that differ in one unit."""
        if self.case.null is None:
            return Group(datasets)
        if place == 0:
            return Group(datasets, origin=self.data, make_null=self.case.null)
        # Each dataset is a neighbor of the one with a null unit, so two datasets are two steps
        # apart.
        return Group(datasets, distance=2.0)

    def changed(self, change: Callable[[Any], Any]) -> Arguments:
        """Apply a function to the arrays of the data, except labels and ids."""
        is_data = [issparse(one) or not _has_labels(np.asarray(one)) for one in self.data]
        pairs = zip(self.data, is_data, strict=True)
        return tuple(change(one) if changes else one for one, changes in pairs)

    def strangers(self) -> list[Arguments]:
        """Return datasets of other values with the same public facts."""
        return [self.changed(lambda a: 0 * a), self.changed(lambda a: 1e4 - 3 * a[::-1])]

    def unseen(self) -> Arguments:
        """Return a changed copy of the data, to which no other object refers yet."""
        return self.changed(lambda a: a * (1 + np.random.default_rng().random()))

    def strange(self) -> list[Arguments]:
        """Return datasets whose entries have the signs of the data and extreme finite sizes."""
        scales = (0.0, 1e300, 5e-324, 10.0 ** np.linspace(-300, 300, len(self.data[0])))
        return [self.changed(lambda a: (np.sign(a).T * scale).T) for scale in scales]  # noqa: B023

    def shortened(self) -> Arguments:
        """Return data with fewer units."""
        return tuple(one[:-3] for one in self.data)

    def arrays(self, arguments: Arguments) -> list[Any]:
        """Return the arrays among the arguments of a fit."""
        return list(arguments)

    def spoiled(self, place: int, bad: float) -> Arguments | None:
        """Return the data with NaN or infinity in one argument; None if it has no floats."""
        values = np.array(self.data[place])
        if values.dtype.kind != "f":
            return None
        values[(0,) * values.ndim] = bad
        return *self.data[:place], values, *self.data[place + 1 :]

    def released(self, estimator: Any) -> dict[str, Any]:
        """Return the numbers that a fit has released."""
        return dict(released_by(estimator))

    def planned(self, **more: Any) -> Any:
        """Plan a fit to the data."""
        return self.make(**more).plan(*np.shape(self.data[0]))

    def is_reached(self, worst: dict[str, float]) -> bool:
        """Return whether attacks moved every release by enough of its sensitivity."""
        return min(worst.values()) >= self.case.tightness

    def may_share_noise(self, one: np.ndarray, other: np.ndarray) -> bool:
        """Return whether noise of two different fits has no number in common, as it must be."""
        return not np.isin(one, other).any()
