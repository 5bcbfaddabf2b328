"""Record what a fit releases, replay it on a neighboring dataset, and measure how far it moved."""

import copy
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import combinations
from unittest.mock import patch

import numpy as np
from recording import RecordingBudget, scripted_budget
from scipy.sparse import csr_array, issparse
from scipy.spatial.distance import pdist

from skdp.data.matrices import Design, RankOneMatrices
from skdp.data.parts import RowParts, Targets
from skdp.data.rows import RowCache, Rows
from skdp.data.sources import Source
from skdp.decomposition._problem import RowsProblem
from skdp.decomposition._rows_fit import read_rows_once
from skdp.privacy.budget import SKIPPED
from skdp.privacy.noise import NoiseSource, algorithm_generator
from skdp.testing._audit import held_by

SEED = 2**100 + 7


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


# Changes made to the data view of every fit inside, each a function of the view and the problem.
_ALTERATIONS = []


@contextmanager
def altered(alter: Callable):
    """Let every fit inside compute with ``alter(opened, problem)`` in place of what it opens."""
    _ALTERATIONS.append(alter)
    try:
        yield
    finally:
        _ALTERATIONS.remove(alter)


def of_class(opened, base, **attributes):
    """Turn what is opened into an instance of a subclass with these attributes."""
    opened.__class__ = type(f"{base.__name__}Here", (base,), attributes)
    return opened


def null_row(index):
    """Make one row null in every fit inside: from when it was checked on, it is not finite.

    It keeps its slot but takes part in no sum and no count.
    """

    return altered(
        lambda rows, problem: rows if index is None else without_row(rows, problem, index)
    )


def without_row(rows, problem, index):
    """Read rows again, one of which is not finite now."""
    later = copy.copy(rows)
    later.source, later.cache = _without_row(rows.source, index), RowCache()
    # What a copy that leaks may look at.
    later.as_opened = rows
    is_rows = isinstance(problem, RowsProblem)
    return read_rows_once(problem, later, is_keyed=False)[0] if is_rows else later


def null_entry(index):
    """Make one entry, and its mirror image if the unit is an edge, null in every fit inside.

    It is 0 even where the bounds do not allow that.
    """

    def forget(rows, problem):
        X = rows.source.X.copy()
        for place in {index, index[::-1]} if problem.unit.is_symmetric else {index}:
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
    return altered(lambda records, problem: without_record(records, index, problem))


def without_record(records, index, problem):
    """Read records again, one of which, or several, are null now."""
    targets = records.responses
    parts = [column[:, 0] for _, column in targets.blocks(range(len(targets.block_starts) - 1))]
    responses = np.concatenate(parts)
    responses[index] = np.nan
    design = copy.copy(records.design)
    if problem.protects_matrices and not isinstance(design.source, RankOneMatrices):
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

    def _pieces(self, rows, block):
        for records, matrices in super()._pieces(rows, block):
            yield records, of_class(matrices, _watching(type(matrices)), points=self.points)


def _watching(base):
    class Watching(base):
        def tangent(self, point, intercept):
            self.points.append(point)
            return super().tangent(point, intercept)

    return Watching


@contextmanager
def watched_points():
    """Give a list that collects the matrices at which the fits inside take gradients."""
    points = []

    def watch(records, _):
        of_class(records.design, WatchedDesign, points=points)
        return records

    with altered(watch):
        yield points


def fit_with(estimator, data, make_budget):
    """Fit with a budget of the harness in place of the estimator's own; return both.

    `data` is X, or a tuple of all that is fitted to.
    """
    budgets, open_own = [], estimator._open

    def open_altered(checked, problem, plan):
        # Without the seed, which would digest the data for nothing.
        with patch.object(estimator, "random_state", None):
            opened, _, _ = open_own(checked, problem, plan)
        for alter in _ALTERATIONS:
            opened = alter(opened, problem)
        budgets.append(make_budget.of(plan, NoiseSource(SEED)))
        return opened, budgets[-1], algorithm_generator(SEED)

    estimator.set_params(random_state=SEED)
    estimator._open = open_altered
    estimator.fit(*data if isinstance(data, tuple) else (data,))
    (budget,) = budgets
    return estimator, budget


def record(make_estimator: Callable, X) -> RecordingBudget:
    return fit_with(make_estimator(), X, RecordingBudget)[1]


def replay(make_estimator: Callable, X, script) -> RecordingBudget:
    return replayed_fit(make_estimator, X, script)[1]


def replayed_fit(make_estimator: Callable, X, script):
    """Fit with a list of releases in the place of what would be released."""
    return fit_with(make_estimator(), X, scripted_budget(script))


def assert_same_fit(again, original):
    """Compare all that two fitted estimators hold, parameters aside, to the last bit."""
    assert_holds(again, contents_of(original))


def assert_holds(estimator, contents):
    """Compare all that a fitted estimator holds with what another one does."""
    found = contents_of(estimator)
    assert found.keys() == contents.keys()
    for name, value in contents.items():
        assert found[name] == value, name


# What a stream is known by, and keeps apart from its threads and processes.
OF_ONE_OBJECT = {"_id", "_lock", "_process"}


def contents_of(estimator):
    """All that an estimator holds, but for parameters and methods that tests have put in."""
    left_out = estimator.get_params(deep=False).keys() | {"_open", "fit"} | OF_ONE_OBJECT
    return {name: all_of(one) for name, one in vars(estimator).items() if name not in left_out}


def all_of(value):
    """Everything that an object holds, and of which types it is."""
    if isinstance(value, np.ndarray):
        return type(value), value.dtype, value.shape, value.tobytes()
    if isinstance(value, dict):
        return type(value), [(all_of(key), all_of(one)) for key, one in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [all_of(one) for one in value], all_held_by(value)
    return type(value), all_held_by(value) or repr(value)


def all_held_by(value):
    """Everything that the attributes of an object hold."""
    held = held_by(value)
    return None if held is None else {name: all_of(one) for name, one in held.items()}


def movement(mechanism: str, change: np.ndarray) -> float:
    """Length of a change, in the norm that the noise of the mechanism covers."""
    if mechanism == "exponential":
        return float(np.ptp(change))
    if mechanism == "laplace" and change.ndim == 2:
        return float(np.linalg.norm(change, axis=1).sum())
    if mechanism == "laplace":
        return float(np.abs(change).sum())
    return float(np.linalg.norm(change))


def movements(recorded: RecordingBudget, replayed: RecordingBudget) -> dict[str, float]:
    """Movement of every release by name, in declared sensitivities.

    Also checks that the two fits differ in nothing but the noiseless values.
    """
    assert replayed.spent().releases == recorded.spent().releases
    ratios = {}
    for number, release in enumerate(recorded.spent().releases):
        ours, theirs = recorded.bounded(number), replayed.bounded(number)
        assert ours.shape == theirs.shape
        assert np.isfinite(theirs).all(), release.name
        moved = movement(release.mechanism, ours - theirs)
        ratios[release.name] = max(ratios.get(release.name, 0.0), moved / release.sensitivity)
    return ratios


@dataclasses.dataclass(frozen=True)
class Group:
    """Datasets, each as the arguments of `fit`, that are all neighbors of each other.

    With an `origin` each of them is a neighbor of that one only, in which `make_null` makes a unit
    null: inside the fit, as no data would be the same.
    """

    datasets: Sequence[tuple]
    origin: tuple | None = None
    make_null: Callable[[], AbstractContextManager] = nullcontext

    @property
    def has_null(self) -> bool:
        """Whether a unit of the origin is null."""
        return self.make_null is not nullcontext


def farthest_of(make_estimator: Callable, groups: Iterable[Group]) -> dict[str, float]:
    """Largest movement of every release by name within any of the groups.

    Also checks that nothing else differs: all fits are answered with the same releases.
    """
    worst = {}
    for group in groups:
        first = group.datasets[0] if group.origin is None else group.origin
        script = record(make_estimator, first).released
        fits = [replayed_fit(make_estimator, one, script) for one in group.datasets]
        origin = None
        if group.origin is not None:
            with group.make_null():
                fits.append(replayed_fit(make_estimator, group.origin, script))
            origin = fits[-1][1]
        contents = contents_of(fits[0][0])
        for estimator, _ in fits[1:]:
            assert_holds(estimator, contents)
        replays = [budget for _, budget in fits[: len(group.datasets)]]
        for name, ratio in farthest(replays, origin).items():
            worst[name] = max(worst.get(name, 0.0), ratio)
    return worst


def farthest(replays: list[RecordingBudget], origin: RecordingBudget | None = None):
    """Largest movement of every release by name between any two fits, or from one to all others.

    All are answered with the same releases, and must not differ in anything but noiseless values.
    """
    releases = replays[0].spent().releases
    for other in [*replays[1:], *([origin] if origin else [])]:
        assert other.spent().releases == releases
    ratios = {}
    for index, release in enumerate(releases):
        values = np.array([each.bounded(index) for each in replays])
        assert np.isfinite(values).all(), release.name
        if release.mechanism == "symmetric_gaussian":
            np.testing.assert_array_equal(values, values.swapaxes(-1, -2), err_msg=release.name)
        start = None if origin is None else origin.bounded(index)
        moved = farthest_apart(release.mechanism, values, start)
        # Only what a failed test leaves out has no name of its own.
        assert release.name not in ratios or release.name == SKIPPED
        ratios[release.name] = max(ratios.get(release.name, 0.0), moved / release.sensitivity)
    return ratios


def farthest_apart(mechanism: str, values: np.ndarray, start: np.ndarray | None) -> float:
    """Largest distance of any two values, or of one from all others."""
    if start is not None:
        return max(movement(mechanism, value - start) for value in values)
    if mechanism in ("laplace", "exponential"):
        return max(movement(mechanism, one - two) for one, two in combinations(values, 2))
    return float(pdist(values.reshape(len(values), -1)).max())


def worst_ratio(
    make_estimator: Callable, recorded: RecordingBudget, X, *, null=None, only=""
) -> float:
    """Largest movement of a release on X against the recorded fit, in declared sensitivities.

    `only` restricts it to the releases whose names begin so.
    """
    with null_row(null):
        replayed = replay(make_estimator, X, recorded.released)
    ratios = movements(recorded, replayed)
    return max(ratio for name, ratio in ratios.items() if name.startswith(only))
