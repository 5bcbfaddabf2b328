"""What fits are made to compute with while they are recorded: null units, watched sums; slips."""

import copy
import dataclasses
from collections.abc import Callable
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
from scipy.sparse import csr_array, issparse

from skdp._estimator import PrivateEstimator
from skdp.data.matrices import Design, RankOneMatrices
from skdp.data.parts import RowParts, Targets
from skdp.data.rows import RowCache, Rows
from skdp.data.sources import Source
from skdp.decomposition._spec import RowsSpec
from skdp.decomposition.rows.fit import read_rows_once
from skdp.preprocessing import scales
from skdp.testing._recording import Group, RecordingBudget, farthest, replay


def scaled(factor):
    """Make a mistake of a sensitivity: so many times the right one."""
    return lambda right: lambda *arguments, **more: factor * right(*arguments, **more)


# What a mistake declares, unless it says otherwise.
TOO_LITTLE = scaled(0.6)


@dataclasses.dataclass(frozen=True)
class Slip:
    """A mistake in a sensitivity, the release where it is to be seen, and of which cell."""

    function: str
    release: str
    cell: Callable
    wrong: Callable = TOO_LITTLE


class NamedCell:
    """A cell that prints all of its values that are not defaults."""

    def __str__(self):
        defaults = {one.name: one.default for one in dataclasses.fields(self)}
        said = {name: one for name, one in vars(self).items() if one != defaults[name]}
        named = ((name, getattr(one, "__name__", one)) for name, one in said.items())
        texts = (one if isinstance(one, str) else f"{name}={one}" for name, one in named)
        return ", ".join(texts) or "default"


def group(cell, datasets, origin, make_null):
    """Group neighbors: of each other, or of an origin in which a unit may be null."""
    if cell.adjacency == "replace":
        return Group(datasets)
    return Group(datasets, origin=origin, make_null=make_null)


def strange_numbers(shape):
    """Give finite numbers that are far from ordinary."""
    ones, signs = np.ones(shape), (-1.0) ** np.indices(shape).sum(axis=0)
    return {
        "zeros": 0 * ones,
        "huge": 1e300 * ones,
        "largest": np.finfo(float).max * signs,
        "denormal": 5e-324 * ones,
        "all scales": 10.0 ** np.linspace(-300, 300, ones.size).reshape(shape) * signs,
    }


@contextmanager
def altered(alter: Callable):
    """Let every fit inside compute with ``alter(opened, spec)`` in place of what it opens."""
    open_own = PrivateEstimator._open

    def open_altered(estimator, data, spec, plan):
        opened, budget = open_own(estimator, data, spec, plan)
        return alter(opened, spec), budget

    with patch.object(PrivateEstimator, "_open", open_altered):
        yield


def of_class(opened, base, **attributes):
    """Turn what is opened into an instance of a subclass with these attributes."""
    opened.__class__ = type(f"{base.__name__}Here", (base,), attributes)
    return opened


def null_row(index):
    """Make one row null in every fit inside: from when it was checked on, it is not finite.

    It keeps its slot but takes part in no sum and no count.
    """

    return altered(lambda rows, spec: rows if index is None else without_row(rows, spec, index))


def without_row(rows, spec, index):
    """Read rows again, one of which is not finite now."""
    later = copy.copy(rows)
    later.source, later.cache = _without_row(rows.source, index), RowCache()
    # What a copy that leaks may look at.
    later.as_opened = rows
    is_rows = isinstance(spec, RowsSpec)
    return read_rows_once(spec, later, is_seeded=False)[0] if is_rows else later


def null_entry(index):
    """Make one entry, and its mirror image if the unit is an edge, null in every fit inside.

    It is 0 even where the bounds do not allow that.
    """

    def forget(rows, spec):
        X = rows.source.X.copy()
        for place in {index, index[::-1]} if spec.unit.is_symmetric else {index}:
            X[place] = 0.0
        rows.source = Source(X)
        return rows

    return altered(forget)


class WatchedRows(Rows):
    """Rows that keep the bases they are multiplied by, from either side."""

    right, left = None, None

    def matmul(self, right):
        self.right.append(right)
        return super().matmul(right)

    def rmatmul(self, left):
        self.left.append(left)
        return super().rmatmul(left)

    def normal_product(self, basis, clip):
        self.right.append(basis)
        return super().normal_product(basis, clip)


@contextmanager
def watched_bases():
    """Give two lists that collect the bases of the fits inside, of the right and the left side."""
    right, left = [], []
    with altered(lambda rows, _: of_class(rows, WatchedRows, right=right, left=left)):
        yield right, left


def null_record(index):
    """Make one record of a regression, or only its response, null in every fit inside.

    It keeps its slot but takes part in no sum and no count.
    """
    return altered(lambda records, spec: without_record(records, index, spec))


def without_record(records, index, spec):
    """Read records again, one of which, or several, are null now."""
    targets = records.responses
    parts = [column[:, 0] for _, column in targets.blocks(range(len(targets.block_starts) - 1))]
    responses = np.concatenate(parts)
    responses[index] = np.nan
    design = copy.copy(records.design)
    if spec.unit.is_whole and not isinstance(design.source, RankOneMatrices):
        design.source = _without_row(design.source, index)
    return dataclasses.replace(records, responses=Targets.of(responses), design=design)


def _without_row(source, index):
    if isinstance(source.X, RowParts):
        return of_class(copy.copy(source), PartsWithoutRow, index=index)
    return Source(_with_null(source.X, index))


class PartsWithoutRow(Source):
    """Rows in parts, one of which, or several, are not finite, whatever is loaded."""

    index = None

    def blocks(self, group):
        for rows, block in super().blocks(group):
            places = np.atleast_1d(self.index)
            here = places[(rows.start <= places) & (places < rows.stop)] - rows.start
            yield rows, _with_null(block, here) if len(here) else block

    def every(self, step):
        kept, place = super().every(step), divmod(self.index, step)
        return kept if place[1] else of_class(kept, PartsWithoutRow, index=place[0])


def _with_null(X, index):
    rows = X.tolil() if issparse(X) else X.copy()
    rows[index] = np.nan
    return csr_array(rows.tocsr()) if issparse(X) else rows


class WatchedDesign(Design):
    """Matrices that keep the points with which they are compared."""

    points = None

    def _pieces(self, *arguments):
        for records, matrices in super()._pieces(*arguments):
            yield records, of_class(matrices, _watching(type(matrices)), points=self.points)


def _watching(base):
    class Watching(base):
        def tangent(self, point, intercept):
            self.points.append(point)
            return super().tangent(point, intercept)

    return Watching


@contextmanager
def watched_looks():
    """Give a list that collects the intervals of narrow columns at which the fits inside look."""
    looks, zoom = [], scales.zoomed_intervals

    def watch(intervals, *more):
        looks.append(intervals)
        return zoom(intervals, *more)

    with patch.object(scales, "zoomed_intervals", watch):
        yield looks


@contextmanager
def watched_points():
    """Give a list that collects the matrices at which the fits inside take gradients."""
    points = []

    def watch(records, _):
        of_class(records.design, WatchedDesign, points=points)
        return records

    with altered(watch):
        yield points


def worst_ratio(
    make_estimator: Callable, recorded: RecordingBudget, X, *, null=None, only=""
) -> float:
    """Largest movement of a release on X against the recorded fit, in declared sensitivities.

    `only` restricts it to the releases whose names begin so.
    """
    with null_row(null):
        replayed = replay(make_estimator, X, recorded.released)
    ratios = farthest([replayed], recorded)
    return max(ratio for name, ratio in ratios.items() if name.startswith(only))
