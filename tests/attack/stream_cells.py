"""What can be asked of streams, and what is fed to them."""

import itertools
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
from harness import NamedCell

from skdp import DPContinualFactorizer, DPStreamingFactorizer
from skdp.decomposition.streams import base as stream_base
from skdp.privacy.noise import NoiseSource
from skdp.testing._recording import SEED, RecordingBudget
from skdp.units import Entry, FrobeniusChange, Update

SHAPE, HORIZON = (14, 9), 4
# Bounds of entries are promised of values as they are rounded: these are.
BOUND, BOUNDS, CHANGE = 0.7, (-0.25, 1.125), 1.5
UNITS = {"update": Update(BOUND), "entry": Entry(BOUNDS), "frobenius": FrobeniusChange(CHANGE)}
SKETCHES = ("haar", "countsketch")
ADJACENCIES = ("replace", "zero_out")


@dataclass(frozen=True)
class Cell(NamedCell):
    """One way to ask for a stream."""

    unit: str
    sketch: str
    adjacency: str = "replace"
    make: type = DPStreamingFactorizer

    def __call__(self, **more):
        """Make a stream whose sketches leave dimensions out."""
        return self.make(**self.asked(**more))

    def asked(self, **more):
        """Give the parameters of a stream."""
        is_continual = self.make is DPContinualFactorizer
        own = {"horizon": HORIZON} if is_continual else {"sketch_sensitivity": "worst_case"}
        return {
            "shape": SHAPE,
            "privacy_unit": UNITS[self.unit],
            "adjacency": self.adjacency,
            "sketch": self.sketch,
            "n_sketch": 5,
            "n_core": 6,
            **own,
            **more,
        }


CELLS = tuple(itertools.starmap(Cell, itertools.product(UNITS, SKETCHES, ADJACENCIES)))
CONTINUAL_CELLS = tuple(
    Cell(unit, sketch, adjacency, DPContinualFactorizer)
    for unit in ("update", "frobenius")
    for sketch, adjacency in itertools.product(SKETCHES, ADJACENCIES)
)


@contextmanager
def watched():
    """Give a list of the budgets of the streams inside, which all have the same sketches."""
    budgets = []

    def open_budget(stream, plan, what):
        budgets.append(RecordingBudget.of(plan, NoiseSource(SEED)))
        return budgets[-1]

    def same_generator(_):
        return np.random.default_rng(5)

    with (
        patch.object(stream_base.BaseStream, "_open_budget", open_budget),
        # A seed would make the sketch public.
        patch.object(stream_base, "algorithm_generator", same_generator),
    ):
        yield budgets


def sums_of(cell, feed, **more):
    """Return the noiseless sums that a stream releases, and their sensitivities."""
    with watched() as budgets:
        stream = cell(**more)
        feed(stream)
        stream.finalize()
    (budget,) = budgets
    return budget.values, [release.sensitivity for release in budget.spent().releases]


def many_updates(stream):
    """What comes before and after the one that differs: any values, cells that repeat."""
    generator = np.random.default_rng(0)
    rows, columns = (generator.integers(side, size=40) for side in SHAPE)
    stream.update(rows, columns, generator.normal(size=40) * 3)
    stream.update([2, 2, 2], [3, 3, 3], [0.1, 5.0, -5.0])
