"""The laws of people with several rows hold, and see every mistake that people invite."""

import math
from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
import people_laws
import pytest
from people_kinds import KINDS, WAYS
from people_laws import CELLS, LAWS

from skdp.data import matrices, people
from skdp.data.people import People
from skdp.data.reduce import part_ranges, sum_depth
from skdp.data.rows import DenseBlock, RowCache, Rows, SparseBlock, _BaseBlock
from skdp.decomposition import _matrix_estimator
from skdp.decomposition.rows import fit as rows_fit
from skdp.linear_model import _descent
from skdp.linear_model import _trace_regressor as regressors
from skdp.linear_model.low_rank import records as trace_records
from skdp.model_selection import _report

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")


@pytest.mark.covered(at_most=16)
@pytest.mark.parametrize(("kind", "container"), WAYS)
def test_nothing_asks_for_the_number_of_rows(kind, container):
    people_laws.nothing_asks_for_the_number_of_rows(kind, container)


@pytest.mark.covered(at_most=6)
@pytest.mark.parametrize("kind", KINDS)
def test_only_the_number_of_people_is_told(kind):
    people_laws.only_the_number_of_people_is_told(kind)


@pytest.mark.covered(at_most=10)
@pytest.mark.parametrize(("kind", "container"), [way for way in WAYS if way[1] in ("dense", "csr")])
def test_rows_that_are_repeated_change_nothing(kind, container):
    people_laws.repeated_rows_change_nothing(kind, container)


@pytest.mark.parametrize("cell", [CELLS[0], *CELLS[-3:]], ids=str)
def test_other_people_of_the_same_rows_get_other_noise(cell):
    people_laws.other_people_get_other_noise(cell)


@pytest.mark.parametrize("law", ["counts_are_exact", "only_folds_by_ids_are_counted"])
def test_laws_of_counts_and_folds(law):
    LAWS[law]()


# Mistakes, and a law that sees each.


def weighted_first(self, group):
    """Weigh rows before they are clipped."""
    for rows, raw in self.source.blocks(group):
        mass = self.people.weights[rows][:, np.newaxis]
        if isinstance(raw, np.ndarray):
            block = DenseBlock(mass * raw, self.center, np.empty(raw.shape))
        else:
            block = SparseBlock((raw.multiply(mass)).tocsr(), self.center)
        yield rows, block if self.weighting is None else block.weighted(self.weighting)


def every_kth(self, people, at_most):
    """Take a sample by places."""
    step = math.ceil(self.source.shape[0] / at_most)
    codes = people.codes[::step]
    sample = People(codes, np.ones(len(codes)), people.n_people)
    return Rows(
        self.source.every(step),
        self.n_jobs,
        self.center,
        self.bound,
        self.weighting,
        RowCache(),
        sample,
    )


def by_the_largest(codes, n_people):
    """Weigh all rows alike, by the person with the most."""
    return np.full(len(codes), 1 / np.bincount(codes, minlength=n_people).max())


def in_floats(codes, n_people):
    """Weigh rows by parts of 1 that floats round."""
    return 1 / np.bincount(codes, minlength=n_people)[codes]


def half_of_all_rows(count, rows, budget):
    """Compare with half of the rows."""
    noisy, _ = budget.release(count, rows.count_mostly_positive())
    return bool(noisy > rows.source.shape[0] / 2)


NEIGHBORS, REPEATED = "neighbors_move_no_release_too_far", "repeated_rows_change_nothing"
RECORDS = "neighbors_move_no_release_of_records_too_far"
POISON, TOLD = "nothing_asks_for_the_number_of_rows", "only_the_number_of_people_is_told"
n_rows = property(lambda self: self.source.shape[0])
depth = property(lambda self: sum_depth(self.block_starts, self.width, part_ranges(self)))
forgotten = "mass_of", lambda *_: None
MISTAKES = {
    "weights of matrices are forgotten": ([(matrices, *forgotten)], {RECORDS, REPEATED}),
    "weights of responses are forgotten": ([(trace_records, *forgotten)], {RECORDS}),
    "a median of rows": ([(_descent, *forgotten)], {RECORDS, REPEATED}),
    "weights of matrices twice in products": (
        [(matrices.DenseMatrices, "half_added", matrices.DenseMatrices.added)],
        {REPEATED},
    ),
    "a number of matrices": (
        [(matrices.Design, "n_records", property(lambda self: self.source.shape[0]))],
        {RECORDS, POISON},
    ),
    "people of responses not hashed": (
        [(regressors, "keyed_by_people", lambda digest, _: digest)],
        {"other_people_get_other_noise"},
    ),
    "weights are forgotten": (
        [(_BaseBlock, "with_mass", lambda self, mass: self)],
        {NEIGHBORS, REPEATED},
    ),
    "weights of the largest person": ([(people, "_weights", by_the_largest)], {NEIGHBORS}),
    "weighted, then clipped": ([(Rows, "blocks", weighted_first)], {NEIGHBORS}),
    "a sample by places": ([(Rows, "_sample_of_people", every_kth)], {NEIGHBORS}),
    "a mean of rows": ([(Rows, "n_rows", n_rows)], {NEIGHBORS, POISON}),
    "half of the rows": ([(rows_fit, "passes_positivity_test", half_of_all_rows)], {POISON}),
    "weights twice in products": ([(_BaseBlock, "half_added", _BaseBlock.added)], {REPEATED}),
    "weights as floats": ([(people, "_weights", in_floats)], {"counts_are_exact"}),
    "rounding of the rows": ([(Rows, "depth", depth)], {TOLD}),
    "people not hashed": (
        [(_matrix_estimator, "keyed_by_people", lambda digest, _: digest)],
        {"other_people_get_other_noise"},
    ),
    "any folds": (
        [(_report, "check_splits", lambda *_: None)],
        {"only_folds_by_ids_are_counted"},
    ),
}


# The cheapest of them first, by default.
@pytest.mark.covered(at_most=6)
@pytest.mark.parametrize(
    "mistake", sorted(MISTAKES, key=lambda one: bool(MISTAKES[one][1] & {NEIGHBORS, RECORDS}))
)
def test_mistakes_that_people_invite_are_seen(mistake):
    changes, laws = MISTAKES[mistake]
    for law in laws:
        with ExitStack() as stack:
            for change in changes:
                stack.enter_context(patch.object(*change))
            with pytest.raises((AssertionError, pytest.fail.Exception)):
                LAWS[law]()


@pytest.mark.slow
def test_without_a_mistake_neighbors_move_nothing_too_far():
    LAWS[NEIGHBORS]()
