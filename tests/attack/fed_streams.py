"""Streams as the laws know estimators: cells that are fed by `fit`, and neighbors of that."""

import inspect
import itertools
from dataclasses import dataclass

import numpy as np
import stream_cells
from stream_cells import BOUND, BOUNDS, CHANGE, CONTINUAL_CELLS, HORIZON, SHAPE, Cell

from skdp import DPContinualFactorizer, DPStreamingFactorizer, LowRankFactors, __version__
from skdp.testing._recording import Group, current_seed


class Fed:
    """A stream that `fit` opens and feeds, and that becomes what it publishes.

    Until then it is its parameters.
    """

    n_features_in_ = SHAPE[1]

    def __init__(self, **parameters):
        asked = inspect.signature(self.kind).bind(**parameters)
        asked.apply_defaults()
        vars(self).update(asked.arguments)

    def get_params(self, deep=True):
        return {name: getattr(self, name) for name in inspect.signature(self.kind).parameters}

    def set_params(self, **more):
        vars(self).update(more)

    def fit(self, rows, columns, values):
        self.kind.__init__(self, **self.get_params())
        factors = self.fed(rows, columns, values)
        # They hold released values, which laws look at one by one.
        self._factors = None
        vars(self).update(vars(factors))
        return self

    def __getstate__(self):
        is_open = hasattr(self, "privacy_spent_")
        return super().__getstate__() if is_open else {**vars(self), "_skdp_version": __version__}


class FedOnce(Fed, DPStreamingFactorizer):
    kind = DPStreamingFactorizer

    def fed(self, *updates):
        """Publish the sum of all updates."""
        self.update(*updates)
        return self.finalize()


class FedByEpochs(Fed, DPContinualFactorizer):
    kind = DPContinualFactorizer

    def fed(self, *updates):
        """Publish after every epoch, each of which has equally many updates."""
        for epoch in zip(*(np.split(each, HORIZON) for each in updates), strict=True):
            self.update(*epoch)
            factors = self.release()
        return factors


FED = {one.kind: one for one in (FedOnce, FedByEpochs)}
for fed in FED.values():
    # What is published has a docstring of its own.
    fed.__doc__ = f"{inspect.getdoc(fed.kind)}\n{inspect.getdoc(LowRankFactors)}"


@dataclass(frozen=True)
class FedCell(Cell):
    """One way to ask for a stream that is fed by `fit`."""

    def __call__(self, **more):
        return FED[self.make](**self.asked(**more))


# Sensitivities of secret sketches hold for nearly all of them: test_attack_streams.py.
CELLS = tuple(FedCell(**vars(cell)) for cell in (*stream_cells.CELLS, *CONTINUAL_CELLS))
RELEASED = {"components_", "singular_values_", "left_components_"}
# Those of an epoch; of a changing matrix every cell.
N_UPDATES = 20
EVERY_CELL = tuple(each.ravel() for each in np.indices(SHAPE))


def public(cell):
    """Name what is public, or empty once the stream has ended."""
    once = {"_id", "_n_shards", "_merged"}
    own = (
        {"_horizon", "n_epochs_", "_since", "_stored", "_stores"}
        if cell.make is DPContinualFactorizer
        else once
    )
    of_all = (
        "_shape _sketches _lock _process _has_ended _noisy_sums _state _closed_reason "
        "_n_rows_seen _released_sums _factors value_unit_ privacy_spent_"
    )
    return own | set(of_all.split())


def n_epochs(cell):
    return HORIZON if cell.make is DPContinualFactorizer else 1


def datasets(cell):
    """Updates of any cells, or one of every cell in each epoch."""
    generator = np.random.default_rng(0)
    if cell.unit == "frobenius":
        rows, columns = (np.tile(each, n_epochs(cell)) for each in EVERY_CELL)
    else:
        rows, columns = (generator.integers(n, size=N_UPDATES * n_epochs(cell)) for n in SHAPE)
    values = generator.normal(size=len(rows))
    found = {
        "any": (rows, columns, values),
        "zeros": (rows, columns, 0 * values),
        "beyond the bounds": (rows, columns, 100 * values),
    }
    # There the promised changes of a matrix would add up.
    is_changed = cell.unit == "frobenius"
    return found if is_changed else {**found, "one cell": (0 * rows, 0 * columns, values)}


def strange(cell):
    """Finite numbers that are far from ordinary."""
    rows, columns, values = datasets(cell)["any"]
    signs, exponents = np.sign(values), np.linspace(-300, 300, len(values))
    sizes = (1e300, np.finfo(float).max, 5e-324, 10.0**exponents)
    return {str(each): (rows, columns, signs * each) for each in sizes}


def strangers(cell, data):
    """Give other updates, as many."""
    rows, columns, values = data
    return [(0 * rows, 0 * columns, 0 * values), (rows[::-1], columns, -3 * values + 1)]


def groups(cell, data):
    """Exchange one update or entry, or change the matrix, in the first epoch or the last."""
    stream = cell(random_state=current_seed()).fit(*data)
    if cell.unit == "frobenius":
        changed = [(*data[:2], data[2] + each) for each in changes(stream, n_epochs(cell))]
        return [Group(changed, origin=data)]
    places = [longest_cell(stream._sketches), (0, 0), tuple(n - 1 for n in SHAPE)]
    return [
        group
        for position in {0, (n_epochs(cell) - 1) * N_UPDATES}
        for group in exchanged(cell, data, position, places)
    ]


def exchanged(cell, data, position, places):
    """Put other updates in the place of one, all neighbors of each other or of none."""
    if cell.unit == "update":
        values = (-BOUND, BOUND, 0.0, 1e300, -1e300, 5e-324)
        kinds = [[(*place, value) for place in places for value in values]]
    else:
        kinds = [[(*place, value) for value in (*BOUNDS, 0.5)] for place in places]
    for kind in kinds:
        found = [with_update(data, position, each) for each in kind]
        if cell.adjacency == "replace":
            yield Group(found)
        else:
            yield Group(found, origin=with_update(data, position, (*kind[0][:2], 0.0)))


def with_update(data, position, update):
    """Exchange one update."""
    copies = [each.copy() for each in data]
    for each, one in zip(copies, update, strict=True):
        each[position] = one
    return tuple(copies)


def longest_cell(sketches):
    """Find the cell that moves the sums most."""
    return tuple(
        int(np.argmax(np.linalg.norm(matrix_of(sketch), axis=1)))
        for sketch in (sketches.left, sketches.right)
    )


def changes(stream, n_epochs):
    """Yield changes of all epochs whose norms add up to what is promised."""
    generator = np.random.default_rng(1)
    left, right = (
        np.linalg.svd(matrix_of(sketch))[0][:, 0]
        for sketch in (stream._sketches.left, stream._sketches.right)
    )
    whole = [np.outer(left, right), np.outer(generator.normal(size=SHAPE[0]), right)]
    whole += [generator.normal(size=SHAPE), np.eye(*SHAPE)]
    spreads = [np.eye(n_epochs)[0], np.eye(n_epochs)[-1], np.full(n_epochs, 1 / n_epochs)]
    for spread, change in itertools.product(spreads[:n_epochs], whole):
        parts = np.outer(spread, change * CHANGE / np.linalg.norm(change)).ravel()
        # What is promised is the matrix as it is rounded.
        yield np.trunc(parts / stream.value_unit_) * stream.value_unit_


def matrix_of(sketch):
    return sketch.lift(np.eye(sketch.shape[1]))
