"""Attacks on the decompositions that protect rows, beside those that every family takes."""

import itertools
from unittest.mock import patch

import factor_cells
import numpy as np
import pytest
from containers import contain
from covers import each
from harness import worst_ratio
from in_parts import in_parts
from row_cells import (
    CELLS,
    MODELS,
    SOLVERS,
    Cell,
    D,
    N,
    adversarial_rows,
    datasets,
    is_count,
    setting,
    with_row,
)

from skdp.data import rows
from skdp.testing._recording import record, replay

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

ROUNDING = 1 + 1e-12
CONTAINERS = ("csr", "csr with duplicates", "blocks", "sparse blocks", "parts", "sparse parts")


@pytest.fixture(autouse=True)
def _set(request):
    callspec = getattr(request.node, "callspec", None)
    cell = callspec.params.get("cell") if callspec else None
    with setting(cell or CELLS[0]):
        yield


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize(
    "cell",
    [Cell(model, solver) for model in ("svd", "pca", "pca, centered again") for solver in SOLVERS],
    ids=str,
)
@pytest.mark.parametrize("container", CONTAINERS)
def test_other_containers_keep_the_sensitivity(container, cell):
    for X in (datasets()["spiked"], datasets()["far from the origin"]):
        recorded = record(cell, contain(X, container))
        fitted = cell().fit(X)
        for row in adversarial_rows(X, fitted.components_).values():
            assert worst_ratio(cell, recorded, contain(with_row(X, 0, row), container)) <= ROUNDING


IN_PARTS = (
    *(cell for cell in CELLS if cell.model in ("svd", "pca")),
    *(cell for cell in factor_cells.CELLS if cell.unit == "row"),
)


@pytest.mark.slow
@pytest.mark.parametrize("cell", IN_PARTS, ids=str)
def test_rows_at_the_ends_of_parts_move_nothing_further_than_declared(cell):
    # The first row is a part of its own, and the next begins at the second.
    lengths = [1, 0, 14, N - 15]
    X = datasets()["spiked"]
    recorded = record(cell, in_parts(X, lengths=lengths))
    worst = 0.0
    for index in (0, 1, 14, 15):
        for row in adversarial_rows(X, np.eye(2, D)).values():
            changed, null = in_parts(with_row(X, index, row), lengths=lengths), None
            present, others = recorded, changed
            if cell.adjacency == "zero_out":
                present, others, null = record(cell, changed), in_parts(X, lengths=lengths), index
            worst = max(worst, worst_ratio(cell, present, others, null=null))
    assert 0.4 < worst <= ROUNDING


@pytest.mark.covered(at_most=2)
@pytest.mark.parametrize("model", [one for one in MODELS if "prior" not in one])
def test_clip_levels_from_a_part_of_the_rows_keep_the_sensitivity(monkeypatch, model):
    monkeypatch.setattr("skdp.decomposition.rows.solvers._LEVEL_ROWS", 10)
    cell, X = Cell(model, "power"), datasets()["spiked"]
    recorded = record(cell, X)
    # Every fourth row is counted: one of them and one beside.
    for index, row in itertools.product((4, 5), adversarial_rows(X, np.eye(2, D)).values()):
        assert worst_ratio(cell, recorded, with_row(X, index, row)) <= ROUNDING


def test_a_null_row_of_a_part_is_null_among_the_rows_that_choose_a_clip_level(monkeypatch):
    monkeypatch.setattr("skdp.decomposition.rows.solvers._LEVEL_ROWS", 10)
    cell, X = Cell("svd", "power", adjacency="zero_out"), datasets()["spiked"]
    lengths = [1, 0, 3, N - 4]
    recorded = record(cell, in_parts(X, lengths=lengths))
    for index in (0, 4, 5):
        others = in_parts(X, lengths=lengths)
        assert 0 < worst_ratio(cell, recorded, others, null=index) <= ROUNDING


@pytest.mark.covered
@each(CELLS)
def test_the_rounding_of_sums_is_charged(cell):
    X = datasets()["spiked"]
    recorded = record(cell, X)
    with patch.object(rows, "LEAST_ROUNDING", 1e-3):
        more = replay(cell, X, recorded.released).spent().releases
    for line, other in zip(recorded.spent().releases, more, strict=True):
        # Counts are exact.
        assert is_count(line.name) == (other.sensitivity == line.sensitivity), line.name


def test_a_zero_row_is_not_a_null_row():
    # Centered, a zero row contributes -mean: taking it for the null row of zero_out would need the
    # sensitivity of replace (up to 1.41 c^2 where c^2 is declared).
    cell = Cell("pca, public center", "covariance", "zero_out")
    X = np.zeros((N, D))
    recorded = record(cell, with_row(X, 0, np.full(D, 10.0)))
    assert worst_ratio(cell, recorded, X, null=0) <= ROUNDING
    assert worst_ratio(cell, recorded, X) > 1.1
