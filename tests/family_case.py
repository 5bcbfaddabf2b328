"""A cell of a family as the checks of `skdp.testing` know estimators."""

import functools
import inspect
import itertools
import math

import numpy as np
from in_parts import in_parts, whole
from scipy import sparse

from skdp import RankOneMatrices, RowBlocks
from skdp.testing._case import Subject

__all__ = ["FamilyCase", "of_family", "planned", "properties_of", "without_values"]


class FamilyCase(Subject):
    """A cell, with data of its family: the ordinary ones, or others."""

    def __init__(self, family, cell, values=None):
        self.family, self.make, self.is_ordinary = family, cell, values is None
        self.values = family.ordinary(cell) if values is None else values
        self.data = family.arguments(self.values)
        self.parameters = cell().get_params(deep=False)

    def groups(self):
        return list(self.family.groups(self.make, self.values))

    def strangers(self):
        return self.family.strangers(self.make, self.values)

    def unseen(self):
        return self.data

    def strange(self):
        family, cell = self.family, self.make
        found = {**family.datasets(cell), **family.strange(cell)}
        return [family.arguments(one) for one in found.values()]

    def shortened(self):
        """Leave units out, but for square matrices, which would lose features, too."""
        X, *others = self.data
        n_units, n_features = X.shape[:2]
        n_kept = n_units if n_units == n_features else n_units - 3
        if isinstance(X, RowBlocks):
            rows = in_parts(*(one[:n_kept] for one in whole(X)))
            return rows, *(one[:n_kept] for one in others)
        return tuple(one[:n_kept] for one in self.data)

    def arrays(self, arguments):
        return list(itertools.chain.from_iterable(map(arrays_of, arguments)))

    def spoiled(self, place, bad):
        if place == 0 and np.isnan(bad) and getattr(self.make, "has_gaps", False):
            return None
        values = spoiled(self.data[place], bad)
        return *self.data[:place], values, *self.data[place + 1 :]

    def released(self, estimator):
        names = self.family.released(self.make) | properties_of(type(estimator))
        return {name: getattr(estimator, name) for name in names if hasattr(estimator, name)}

    def planned(self, **more):
        n_units = self.family.n_units(self.data)
        return planned(self.make(**more), self.data[0], n_units)

    def is_reached(self, worst):
        # What is odd from the start need not be moved far.
        return not self.is_ordinary or self.family.is_reached(self.make, worst)

    def may_share_noise(self, one, other):
        is_same = self.family.is_seeded_by_clipped_data and np.array_equal(one, other)
        return is_same or super().may_share_noise(one, other)


def of_family(check, of_values=None):
    """Make a law of a family and a cell of a check of a case."""

    @functools.wraps(check)
    def law(family, cell, values=None):
        if of_values is not None:
            values = of_values(family, cell)
        check(FamilyCase(family, cell, values))

    return law


def planned(estimator, X, n_units):
    """Plan a fit to X, of which no value can be seen."""
    return estimator.plan(n_units, math.prod(X.shape[1:]), like=without_values(X))


def without_values(X):
    """What can be shown of data to come: the same container, of NaN."""
    if isinstance(X, RankOneMatrices):
        # Its factors are checked when it is made.
        hidden = RankOneMatrices(X.left, X.right)
        hidden.left, hidden.right = map(without_values, (X.left, X.right))
        return hidden
    if isinstance(X, RowBlocks):
        rows, *targets = whole(X)
        return in_parts(without_values(rows), *targets)
    if sparse.issparse(X):
        return sparse.csr_array((X.data * np.nan, X.indices, X.indptr), shape=X.shape)
    return X * np.nan


def arrays_of(one):
    """Give the arrays that an argument of a fit consists of."""
    if isinstance(one, RankOneMatrices):
        return one.left, one.right
    return whole(one) if isinstance(one, RowBlocks) else (one,)


def spoiled(values, bad):
    """Put what is no number in the place of one."""
    if isinstance(values, RankOneMatrices):
        return RankOneMatrices(spoiled(values.left, bad), values.right)
    if isinstance(values, RowBlocks):
        X, *targets = whole(values)
        return in_parts(spoiled(X, bad), *targets)
    if sparse.issparse(values):
        values = values.copy()
        values.data[0] = bad
        return values
    values = np.array(values, dtype=np.float64)
    values[(0,) * values.ndim] = bad
    return values


@functools.cache
def properties_of(kind):
    """Name the fitted attributes of a class that are computed from others."""
    return {
        name
        for name, value in inspect.getmembers_static(kind)
        if isinstance(value, property) and name.endswith("_") and not name.startswith("_")
    }
