"""Laws of fits that protect people with several rows, beside records and replays on neighbors."""

import copy
import math
import pickle
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import people_cells
import pytest
from attack_laws import neighbors_move_no_release_further_than_declared
from families import FAMILIES
from people_kinds import (
    KINDS,
    N_FEATURES,
    N_PEOPLE,
    SECRET,
    WAYS,
    assert_close,
    fitted,
    rows_for,
    rows_of_people,
    targets_of,
)

from skdp import RankOneMatrices
from skdp._estimator import PrivateEstimator
from skdp.data.parts import Targets
from skdp.data.people import People
from skdp.data.rows import Rows
from skdp.data.sources import Source, as_source
from skdp.decomposition.rows import solvers as rows_solvers
from skdp.testing import _recording

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

FAMILY_OF = {
    id(cell): family for family in FAMILIES if "people" in family.name for cell in family.cells
}
CELLS = [
    next(cell for cell in people_cells.CELLS if cell.model == model and cell.solver == solver)
    for model, solver in (("pca", "covariance"), ("svd", "power"))
] + [people_cells.SCALER_CELLS[0], people_cells.CLASS_CELLS[0], people_cells.TRACE_CELLS[0]]


@pytest.mark.slow
def test_neighbors_move_no_release_too_far():
    """One person moves no release further than declared, whatever rows it has."""
    # So that a part of the few people is a sample.
    with patch.object(rows_solvers, "_LEVEL_ROWS", 16):
        for cell in CELLS:
            family = FAMILY_OF[id(cell)]
            with family.setting(cell):
                neighbors_move_no_release_further_than_declared(family, cell)


@pytest.mark.covered(at_most=10)
@pytest.mark.parametrize(("kind", "container"), [way for way in WAYS if way[1] in ("dense", "csr")])
def test_rows_that_are_repeated_change_nothing(kind, container):
    """Without noise a person whose rows are repeated is the same person."""
    X, y, codes = rows_of_people()
    facts = {"epsilon": math.inf, "random_state": SECRET, "container": container}
    once = fitted(kind, X, y, **facts)
    often = fitted(kind, X[codes], y[codes], users=codes, privacy_unit="user", **facts)
    # Without noise the optimum of the classifier is found to a tolerance.
    assert_close(often, once, 1e-4 if kind == "classifier" else 1e-9)


# Once a fit has been opened, nothing may ask how many rows there are.


class Counted(Exception):
    """Something has asked for the number of rows."""


def _refuse(*_):
    raise Counted


class Shape(tuple):
    """Tells the number of columns alone."""

    def __getitem__(self, axis):
        return super().__getitem__(axis) if axis in (1, -1) else _refuse()

    __iter__ = _refuse


class UncountedArray(np.ndarray):
    """Rows of which only blocks have a length."""

    __len__ = _refuse

    @property
    def shape(self):
        return Shape((0, super().shape[1]))

    def __getitem__(self, key):
        return super().__getitem__(key).view(np.ndarray)


class UncountedSource(Source):
    """Blocks of rows, of which nobody asks how many there are."""

    @property
    def shape(self):
        return Shape((0, vars(self)["shape"][1]))


@contextmanager
def uncounted_rows():
    """Let everything between the opening of a fit and its end fail that counts rows."""
    release = PrivateEstimator._release

    def poisoned(self, spec, data, warn):
        view = getattr(data[0], "design", data[0])
        if isinstance(view.source, Source):
            view.source = copy.copy(view.source)
            view.source.__class__ = UncountedSource
            if isinstance(view.source.X, np.ndarray):
                view.source.X = view.source.X.view(UncountedArray)
        with (
            patch.object(Targets, "__len__", _refuse),
            patch.object(RankOneMatrices, "shape", property(lambda self: Shape((0, N_FEATURES)))),
        ):
            return release(self, spec, data, warn)

    with patch.object(PrivateEstimator, "_release", poisoned):
        yield


@pytest.mark.covered(at_most=16)
@pytest.mark.parametrize(("kind", "container"), WAYS)
def test_nothing_asks_for_the_number_of_rows(kind, container):
    """Only blocks are measured, and people are counted."""
    X, y, codes = rows_of_people()
    with uncounted_rows():
        try:
            fitted(kind, X[codes], y[codes], container, users=codes, privacy_unit="user")
        except Counted:
            pytest.fail(f"{kind} asks for the number of rows")


# The same people with few rows and with many.

FEW, MANY, N_SAME = 121, 12_289, 40


@pytest.mark.covered(at_most=6)
@pytest.mark.parametrize("kind", KINDS)
def test_only_the_number_of_people_is_told(kind):
    """What is charged, told and kept is the same for few rows and for many, in all that is public.

    The least rounding that is charged would hide one that follows the rows.
    """
    with (
        patch("skdp.data.rows.LEAST_ROUNDING", 0.0),
        patch("skdp.data.reduce.LEAST_ROUNDING", 0.0),
        patch("skdp.linear_model.logistic.fit.LEAST_ROUNDING", 0.0),
    ):
        few, many = (_people_with(n_rows) for n_rows in (FEW, MANY))
        (_, budget), _ = _recording.messages_of(lambda: _fit(kind, few, _recording.RecordingBudget))
        script = _recording.scripted_budget(budget.released)
        (first, one), told = _recording.messages_of(lambda: _fit(kind, few, script))
        (second, other), told_of_many = _recording.messages_of(lambda: _fit(kind, many, script))
    assert told == told_of_many
    assert one.spent().releases == other.spent().releases
    _recording.assert_same_fit(second, first)
    assert len({len(pickle.dumps(model)) for model in (first, second)}) == 1


def _people_with(n_rows):
    rng = np.random.default_rng(n_rows)
    codes = np.append(np.arange(N_SAME), rng.integers(0, N_SAME, n_rows - N_SAME))
    X = rng.normal(size=(n_rows, N_FEATURES)) * [3, 2, 1, 0.5] + 0.5
    return X, rng.integers(0, 3, n_rows), codes


def _fit(kind, data, budget):
    X, y, codes = data
    model = KINDS[kind](privacy_unit="user")
    fit = model.fit
    # The harness passes all by place.
    model.fit = lambda X, *more: fit(X, *more[:-1], users=more[-1])
    fitted, opened = _recording.fit_with(
        model, (rows_for(kind, X), *targets_of(kind, X, y), codes), budget
    )
    del model.fit
    return fitted, opened


def test_counts_are_exact():
    """In whatever order people come, each counts exactly once."""
    rng, edges = np.random.default_rng(0), np.array([1.0, 2.0, 3.0])
    codes = np.repeat(np.arange(N_PEOPLE), rng.integers(1, 50, N_PEOPLE))
    X = rng.normal(size=(len(codes), N_FEATURES))
    found = []
    for _ in range(9):
        order = np.argsort(rng.permutation(N_PEOPLE)[codes], kind="stable")
        people = People.of(codes[order], N_PEOPLE)
        counts = Rows(as_source(X[order]), people=people).counted_norms(edges)
        found.append(counts.up_to_points)
        assert people.weights.sum() == N_PEOPLE
    assert len(set(map(tuple, found))) == 1


@pytest.mark.parametrize("cell", [CELLS[0], *CELLS[-3:]], ids=str)
def test_other_people_of_the_same_rows_get_other_noise(cell):
    """The same rows of other people are other data, of which a seed makes other noise."""
    X, y, codes = rows_of_people()
    other = codes.copy()
    other[np.flatnonzero(codes == 1)[0]] = 0
    targets = (y[codes] % 2,) if cell in CELLS[-2:] else ()
    noises = [
        _recording.noise_of(cell(random_state=SECRET), X[codes], *targets, ids)
        for ids in (codes, codes, other)
    ]
    np.testing.assert_array_equal(noises[0], noises[1])
    assert not np.isin(noises[0], noises[2]).any()
    # What is released keys noise, too, and may be the same.
    y = targets[0] if targets else None
    digests = [
        cell(random_state=SECRET)._validate(X[codes], y, ids)[1][1] for ids in (codes, other)
    ]
    assert digests[0]() != digests[1]()
