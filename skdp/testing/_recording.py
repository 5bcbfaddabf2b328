"""Record the releases of a fit, replay them on neighbors, and measure how far values move."""

import contextlib
import io
import logging
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.linalg import toeplitz
from scipy.spatial.distance import cdist

from skdp.privacy import PrivacyBudget, Release, Released, budget, noise
from skdp.privacy.budget import InitialNoiseSums, is_skipped
from skdp.privacy.noise import CHOICE, NoiseSource, lattice_step
from skdp.testing._audit import UNREADABLE, all_of

# ------------------------------
# Budgets that record noiseless values, or answer with given releases.


class RecordingBudget(PrivacyBudget):
    """Records the noiseless value of every release; with a `script`, makes no noise of its own."""

    #: Values to return for the releases of a fit, whatever its data, in place of noisy values.
    script: Sequence[np.ndarray] | None = None

    def _begin(self, *plan: Any) -> None:
        super()._begin(*plan)
        self.values: list[np.ndarray] = []
        self.released: list[np.ndarray] = []
        # For releases of prefix sums, by their number: a matrix that maps the data of epochs to the
        # values whose movement the sensitivity bounds.
        self.roots: dict[int, np.ndarray] = {}

    def bounded(self, number: int) -> np.ndarray:
        """Return the values whose movement the sensitivity of a release bounds."""
        value = self.values[number]
        if number not in self.roots:
            return value
        of_epochs = np.diff(value, axis=0, prepend=0)
        return np.tensordot(self.roots[number], of_epochs, 1)

    def _publish(self, release: Release, value: np.ndarray) -> np.ndarray:
        self.values.append(np.array(value))
        self.released.append(np.array(self._answer(release, value, (len(self.released),))))
        return self.released[-1].copy()

    def _answer(self, release: Release, value: np.ndarray, place: tuple[int, ...]) -> np.ndarray:
        """Return the released value; `place` is its number and, for prefix sums, the epoch."""
        if self.script is not None:
            return np.asarray(self.script[place[0]][place[1:]])
        released = super()._publish(release, value)
        if self.is_private and release.mechanism != CHOICE:
            check_lattice(release, released)
        return released

    def _start(self, release: Release, shape: tuple[int, ...], *how: Any) -> InitialNoiseSums:
        """Make recorded sums, and the map to the values that their sensitivity bounds."""
        sums = WatchedSums(release, shape, *how)
        correlation, number = sums._correlation, len(self.values)
        sums.budget, sums.number = self, number
        for recorded in (self.values, self.released):
            recorded.append(np.zeros((correlation.horizon, *shape)))
        # Column by column, a square root of the matrix that maps epochs to their prefix sums.
        lags = range(correlation.horizon - 1)
        root = [1.0, *(correlation.weights @ correlation.decays**lag for lag in lags)]
        norms = [correlation.column_norm(epoch) for epoch in range(correlation.horizon)]
        self.roots[number] = toeplitz(root, np.zeros(len(root))) / norms
        return sums


class WatchedSums(InitialNoiseSums):
    """Sums of a stream that a test records: `read` records the exact sums, and then adds noise.

    The sums of all epochs are recorded as one release.
    """

    budget: RecordingBudget
    number: int

    def _draw(self) -> np.ndarray:
        """Return zeros in place of the noise, which `read` adds."""
        return np.zeros(self.counts.shape)

    def read(self) -> Released:
        """Record the sums, and return their release."""
        value, epoch = self.counts * self.unit, self._n_epochs - 1
        released = np.array(self.budget._answer(self.release, value, (self.number, epoch)))
        self.budget.values[self.number][epoch] = value
        self.budget.released[self.number][epoch] = released
        return Released(released, self.noise_std)


def scripted_budget(script: Iterable[np.ndarray]) -> type[RecordingBudget]:
    """Return a class of budgets that return the given released values."""
    return type("ScriptedBudget", (RecordingBudget,), {"script": list(script)})


def check_lattice(release: Release, released: np.ndarray) -> None:
    """Refuse released numbers that are no multiples of the lattice step of their noise std."""
    assert np.isfinite(released).all(), release.name
    np.testing.assert_array_equal(np.fmod(released, lattice_step(release.noise_std or 0.0)), 0)
    assert not np.signbit(released[released == 0]).any(), release.name
    if release.mechanism == "symmetric_gaussian":
        np.testing.assert_array_equal(released, released.T)


# ------------------------------
# Fits with such budgets.

#: Seed of the noise and of the algorithm in fits that are recorded.
SEED = 2**100 + 7  # not tuned
_attempt = 0  # number of an attack that is repeated with other noise


def current_seed() -> int:
    """Return the seed of recorded fits."""
    return SEED + _attempt


@contextlib.contextmanager
def budgets_of(
    kind_of: Callable[[int], type[RecordingBudget]], source: NoiseSource | None = None
) -> Iterator[list[RecordingBudget]]:
    """Make the i-th budget that is opened in the context a `kind_of(i)`; yield all of them."""
    begin = PrivacyBudget._begin
    made: list[Any] = []

    def _begin_as_kind(budget: Any, plan: Any, own_source: Any, charge: Any) -> None:
        # The last line calls this function again, with a budget that has another class.
        if type(budget) is not PrivacyBudget:
            begin(budget, plan, own_source, charge)
            return
        budget.__class__ = kind_of(len(made))
        made.append(budget)
        budget._begin(plan, source or own_source, charge)

    with patch.object(PrivacyBudget, "_begin", _begin_as_kind):
        yield made


def fit_with(estimator: Any, data: Any, kind: type[RecordingBudget]) -> tuple[Any, RecordingBudget]:
    """Fit with another class of budget; return the model and the budget.

    `data` is X, or the tuple of all arguments of `fit`.
    """
    if "random_state" in estimator.get_params(deep=False):
        estimator.set_params(random_state=current_seed())
    with budgets_of(lambda _: kind, NoiseSource(current_seed())) as made:
        estimator.fit(*data if isinstance(data, tuple) else (data,))
    used = [budget for budget in made if budget.values]
    assert len(used) == 1, f"a fit has to release with one budget, not with {len(used)}"
    return estimator, used[0]


def record(make_estimator: Callable[[], Any], data: Any) -> RecordingBudget:
    """Fit, and return the budget, which has recorded the releases."""
    return fit_with(make_estimator(), data, RecordingBudget)[1]


def replay(make: Callable[[], Any], data: Any, script: Iterable[np.ndarray]) -> RecordingBudget:
    """Fit with given released values instead of new ones; return the budget."""
    return fit_with(make(), data, scripted_budget(script))[1]


def messages_of(fit: Callable[[], Any]) -> tuple[Any, list[str]]:
    """Call a function; return its result, its warnings, and its printed text with log records."""
    output, logger, write = io.StringIO(), logging.getLogger(), os.write
    log = logging.Formatter(logging.BASIC_FORMAT)

    def _write(file: int, data: Any) -> int:
        output.write(repr(bytes(data)))
        return write(file, data)

    with (
        warnings.catch_warnings(record=True, action="always") as caught,
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
        patch.multiple(sys, __stdout__=output, __stderr__=output),
        patch.object(os, "write", _write),
        # Records of all loggers, whatever their handlers.
        patch.object(logging.Logger, "handle", lambda _, one: output.write(log.format(one) + "\n")),
        contextlib.ExitStack() as after,
    ):
        after.callback(logger.setLevel, logger.level)
        logger.setLevel(1)
        result = fit()
    return result, [*(str(warning.message) for warning in caught), output.getvalue()]


# Events of Python's audit hooks by which data may leave a process, and flags of files that are
# opened for writing.
_EXITS = {
    *("os.link", "os.mkdir", "os.putenv", "os.rename", "os.symlink", "os.truncate", "os.unsetenv"),
    *("os.exec", "os.posix_spawn", "os.system", "subprocess.Popen"),
    *("shutil.copyfile", "socket.__new__", "sqlite3.connect"),
}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_listeners: list[Callable[[str, tuple[Any, ...]], None]] = []


@contextlib.contextmanager
def leaving(ledger: Any = None) -> Iterator[list[str]]:
    """Yield a list of the events by which any thread writes or sends data, except to a ledger."""
    found: list[str] = []
    ledger_files = () if ledger is None else (ledger.path, Path(ledger.path).as_uri())

    def _listen(event: str, arguments: tuple[Any, ...]) -> None:
        is_exit = event in _EXITS or (event == "open" and bool(arguments[2] & _WRITES))
        if is_exit and not str(arguments[0]).startswith(ledger_files):
            found.append(f"{event} {arguments[0]!r}")

    _listen_to_python()
    _listeners.append(_listen)
    try:
        yield found
    finally:
        _listeners.remove(_listen)


@lru_cache
def _listen_to_python() -> None:
    # Only one hook is added, for all contexts: it cannot be removed, and slows down calls of `id`.
    sys.addaudithook(lambda *event: [one(*event) for one in _listeners])


@contextlib.contextmanager
def drawn_noise() -> Iterator[list[np.ndarray]]:
    """Yield a list of the noise of all releases in the context, in units of its scale.

    The noise is not yet rounded to a lattice, where different noise may agree by chance.
    """
    draws: list[np.ndarray] = []
    draw = noise.draw

    def _record_draw(*arguments: Any) -> np.ndarray:
        draws.append(draw(*arguments))
        # A copy, as the noise is scaled in place later.
        return draws[-1].copy()

    with patch.object(noise, "draw", _record_draw), patch.object(budget, "draw", _record_draw):
        yield draws


def noise_of(estimator: Any, *data: Any) -> np.ndarray:
    """Fit, and return all of its noise as one flat array."""
    with drawn_noise() as draws:
        estimator.fit(*data)
    return np.concatenate([np.ravel(draw) for draw in draws])


# ------------------------------
# The contents of an estimator.

#: Attributes of a stream that are never equal in two streams: its id, lock and process.
NOT_COMPARED = {"_id", "_lock", "_process"}
#: Key under which the contents of an estimator have the order of its attributes.
ATTRIBUTE_ORDER = "the order of attributes"


def assert_same_fit(again: Any, original: Any, *, is_refit: bool = False) -> None:
    """Assert that two fitted estimators have equal contents, to the last bit, except parameters.

    A refit may have the attributes in another order.
    """
    contents = contents_of(original)
    if is_refit:
        contents[ATTRIBUTE_ORDER] = contents_of(again)[ATTRIBUTE_ORDER]
    assert_holds(again, contents)


def assert_holds(estimator: Any, contents: dict[str, Any]) -> None:
    """Assert that a fitted estimator has the given contents."""
    found, both = contents_of(estimator), "two fits that have to be the same"
    only = ", ".join(found.keys() ^ contents.keys())
    assert not only, f"only one of {both} has {only}"
    for name, (form, numbers) in contents.items():
        assert numbers is not None, f"{name} {UNREADABLE.format(form)}"
        assert found[name] == (form, numbers), f"{name} differs in {both}"


def contents_of(estimator: Any) -> dict[str, Any]:
    """Return the attributes of an estimator, their order and its class, but no parameters."""
    kind = type(estimator)
    is_stream = "skdp.decomposition.streams.base" in {base.__module__ for base in kind.__mro__}
    left_out = estimator.get_params(deep=False).keys() | {"fit"}  # a test may have patched `fit`
    left_out |= NOT_COMPARED if is_stream else set()
    contents = {name: one for name, one in vars(estimator).items() if name not in left_out}
    order = {
        ATTRIBUTE_ORDER: " ".join(contents),
        "__class__": f"{kind.__module__}.{kind.__qualname__}",
    }
    return dict(all_of(dict(sorted(contents.items())) | order))


# ------------------------------
# How far releases move between neighbors.


@dataclass(frozen=True)
class Group:
    """Datasets, each as arguments of `fit`, that are all neighbors of each other.

    With an `origin`, each dataset is a neighbor of the origin only: a fit to the origin, in the
    context of `make_null`, treats the unit in which the datasets differ as null, unlike a unit of
    any value. Two datasets are `distance` neighbors apart.
    """

    datasets: Sequence[tuple[Any, ...]]
    origin: tuple[Any, ...] | None = None
    make_null: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    distance: float = 1.0


def farthest_of(make_estimator: Callable[[], Any], groups: Iterable[Group]) -> dict[str, float]:
    """Return the largest movement of each release between datasets of a group.

    All fits of a group get the released values of the first fit: their contents, warnings and
    prints must be equal.
    """
    worst: dict[str, float] = {}
    for group in groups:
        origins = [] if group.origin is None else [group.origin]
        script = record(make_estimator, [*origins, *group.datasets][0]).released
        fit = partial(fit_with, kind=scripted_budget(script))
        results = [messages_of(partial(fit, make_estimator(), one)) for one in group.datasets]
        with group.make_null():
            results += [messages_of(partial(fit, make_estimator(), one)) for one in origins]
        ((first, _), expected), *others = results
        contents = contents_of(first)
        for (estimator, _), messages in others:
            assert_holds(estimator, contents)
            assert messages == expected, f"a neighbor has {messages} in place of {expected}"
        budgets = [budget for (_, budget), _ in results]
        n_datasets = len(group.datasets)
        for name, ratio in farthest(budgets[:n_datasets], *budgets[n_datasets:]).items():
            worst[name] = max(worst.get(name, 0.0), ratio / group.distance)
    return worst


def farthest(
    replays: list[RecordingBudget], origin: RecordingBudget | None = None
) -> dict[str, float]:
    """Return the largest movement of each release, in units of its declared sensitivity.

    A movement is between any two fits or, with an `origin`, between the origin and any other fit.
    All fits got the same released values, and may differ in noiseless values only.
    """
    ratios: dict[str, float] = {}
    releases = replays[0].spent().releases
    origins = [] if origin is None else [origin]
    are_same = [budget.spent().releases == releases for budget in [*replays, *origins]]
    assert all(are_same), "other releases, or other sensitivities"
    for index, release in enumerate(releases):
        values = np.array([budget.bounded(index) for budget in replays])
        starts = np.array([budget.bounded(index) for budget in origins or replays])
        are_finite = np.isfinite(values).all() and np.isfinite(starts).all()
        assert are_finite, f"{release.name} is not finite"
        if release.mechanism == "symmetric_gaussian":
            np.testing.assert_array_equal(values, values.swapaxes(-1, -2), err_msg=release.name)
        # Only skipped releases share a name.
        assert release.name not in ratios or is_skipped(release.name), release.name
        ratio = farthest_apart(release.mechanism, values, starts) / (release.sensitivity or 0.0)
        ratios[release.name] = max(ratios.get(release.name, 0.0), ratio)
    return ratios


def farthest_apart(mechanism: str, values: np.ndarray, starts: np.ndarray) -> float:
    """Return the largest distance of values from starts, in the norm of the mechanism."""
    _, *shape = values.shape
    as_rows = *shape[:1], math.prod(shape[1:])

    def _sum_of_row_norms(one: np.ndarray, other: np.ndarray) -> float:
        return float(np.linalg.norm((one - other).reshape(as_rows), axis=-1).sum())

    def _range(one: np.ndarray, other: np.ndarray) -> float:
        return float(np.ptp(one - other))

    metrics: dict[str, Any] = {CHOICE: _range, "laplace": _sum_of_row_norms}
    flat = (one.reshape(len(one), -1) for one in (values, starts))
    return float(cdist(*flat, metrics.get(mechanism, "euclidean")).max())
