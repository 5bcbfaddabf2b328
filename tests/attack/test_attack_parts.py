"""Regressions of records in parts: the attacks, and what one record says beside other parts."""

import numpy as np
import pytest
from attack_laws import attack_laws_for
from families import FAMILIES
from in_parts import in_parts
from sklearn.preprocessing import FunctionTransformer
from trace_cells import N_RECORDS, Cell
from watched import watched

import skdp
from skdp.testing._checks import ROUNDING
from skdp.testing._recording import farthest, fit_with, record, scripted_budget

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

(RECORDS,) = (family for family in FAMILIES if family.name == "records")
# The first record is the one that is exchanged: alone, first of its part, behind an empty one.
LENGTHS = ((1, N_RECORDS - 1), (0, 7, 0, 1, N_RECORDS - 8), (N_RECORDS,), (1, 1, 1, N_RECORDS - 3))
CELLS = tuple(
    Cell(layout, adjacency=adjacency, lengths=lengths, **more)
    for lengths in LENGTHS
    for adjacency in ("replace", "zero_out")
    for layout, more in (
        ("vectors", {}),
        ("narrow vectors", {"response_bound": 4.0}),
        ("flat", {"init": "spectral", "rank": 2}),
        ("sparse vectors", {"fit_intercept": False}),
    )
)


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_laws_of_attacks_hold_in_parts(cell):
    for law in attack_laws_for(RECORDS, cell):
        law(RECORDS, cell)


COUNTS = (
    *("response center", "response spread", "clip vote", "signed sizes", "matrix norm"),
    "gradient sizes",
)


def made(kind):
    if kind == "linear":
        return skdp.DPLinearRegression(epsilon=200.0, n_iter=2)
    return skdp.DPTraceRegressor(1, matrix_shape=(2, 2), epsilon=200.0, n_iter=2)


@pytest.mark.parametrize("kind", ["linear", "matrices"])
@pytest.mark.parametrize("changed", [0, 1, 20, 39])
def test_the_counts_of_a_part_do_not_change_with_the_rows_of_others(kind, changed):
    # All rows of one part change, and all counts by no more than it has rows.
    generator = np.random.default_rng(0)
    X, lengths = generator.normal(size=(N_RECORDS, 4)), [1, 1, 18, 1, 18, 1]
    y = X @ [1.0, 2.0, 0.0, -1.0] + 0.1 * generator.normal(size=N_RECORDS)
    first = record(lambda: made(kind), (in_parts(X, lengths=lengths, y=y),))
    other_X, other_y = X.copy(), y.copy()
    other_X[changed], other_y[changed] = 1e30, -1e30
    again = scripted_budget(first.released)
    _, second = fit_with(made(kind), (in_parts(other_X, lengths=lengths, y=other_y),), again)
    for one, other, release in zip(
        first.values, second.values, first.spent().releases, strict=True
    ):
        if release.name.startswith(COUNTS):
            assert np.abs(one - other).max() <= 1, release.name


@pytest.mark.covered(at_most=4)
@pytest.mark.parametrize("kind", ["linear", "matrices"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("what", ["row", "response"])
def test_what_is_not_finite_in_a_later_pass_is_bounded_like_any_record(
    kind, bad, what, monkeypatch
):
    monkeypatch.setattr("skdp.data.sources.CACHE_BYTES", 0)
    generator = np.random.default_rng(0)
    X = generator.normal(size=(N_RECORDS, 4))
    y = X @ [1.0, 2.0, 0.0, -1.0] + 0.1 * generator.normal(size=N_RECORDS)
    lengths = [10, 1, N_RECORDS - 11]
    first = record(lambda: made(kind), (in_parts(X, lengths=lengths, y=y),))
    loads = {"row": 0, "response": 0}

    def loaded(which, values):
        """Give a record that is finite when it is checked, and not in later passes."""
        loads[which] += 1
        values = values.copy()
        if which == what and loads[which] > 1:
            values[3] = bad
        return values

    parts = skdp.RowBlocks.from_partitions(
        [lambda: loaded("row", X[:10]), lambda: X[10:11], lambda: X[11:]],
        lengths,
        4,
        y=[lambda: loaded("response", y[:10]), y[10:11], y[11:]],
    )
    assert not parts.is_sparse
    # That loaded rows to see whether they are sparse.
    loads["row"] = 0
    _, second = fit_with(made(kind), (parts,), scripted_budget(first.released))
    assert loads[what] > 3
    assert max(farthest([second], first).values()) <= ROUNDING


@pytest.mark.covered(at_most=3)
@pytest.mark.parametrize("last", [1, 2, 9])
@pytest.mark.parametrize("most", [0, 1 << 30])
def test_rows_that_a_public_step_maps_otherwise_in_a_later_pass_are_clipped(
    last, most, monkeypatch
):
    # Small parts are kept as they have been mapped once.
    monkeypatch.setattr("skdp.data.sources.CACHE_BYTES", most)
    rows, passes = np.random.default_rng(0).normal(size=(N_RECORDS, 4)), []

    def mapped(part):
        # A pass begins with the first row; public rows, which the step is tried with, have others.
        passes.extend(part[:1, 0] == rows[0, 0])
        return np.asarray(part) * (1.0 if sum(passes) <= last else 1e6)

    classifier = skdp.DPLogisticRegression(classes=[0, 1], row_norm=2.0)
    pipeline = skdp.make_dp_pipeline(FunctionTransformer(mapped), classifier, epsilon=200.0)
    with watched() as budgets:
        pipeline.fit(in_parts(rows, (rows[:, 0] > 0).astype(int)))
    assert sum(passes) > last or most
    _, *gradients = zip(budgets[-1].values, budgets[-1].spent().releases, strict=True)
    for value, release in gradients:
        assert np.linalg.norm(value) <= N_RECORDS * release.sensitivity, release.name
