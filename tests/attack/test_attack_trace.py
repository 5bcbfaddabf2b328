"""Every release of the trace regression, attacked on neighboring datasets."""

import dataclasses
import functools

import numpy as np
import pytest
from covers import each
from harness import null_record
from trace_cells import CELLS, Cell, degenerate_data, exchanged
from trace_neighbors import HUGE, group_of

from skdp.testing._recording import farthest, farthest_of, record, replay

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

ROUNDING = 1 + 1e-12


def ratios_of(worst, prefix):
    found = [ratio for name, ratio in worst.items() if name.startswith(prefix)]
    assert found, (prefix, list(worst))
    return found


@pytest.mark.covered(at_most=4)
@pytest.mark.parametrize("epsilon", [200.0, 2e4])
@pytest.mark.parametrize("adjacency", ["replace", "zero_out"])
@pytest.mark.parametrize("layout", ["vectors", "narrow vectors"])
def test_opposite_records_move_the_moments_of_features_as_far_as_declared(
    layout, adjacency, epsilon
):
    cell = Cell(layout, adjacency=adjacency, epsilon=epsilon)
    data = cell.data()
    script = record(cell, data.arguments).released
    signs = np.array([[1.0], [-1.0], [1.0], [1.0], [-1.0]])
    far = [data.with_record(0, [size * signs], 1.0) for size in (1e9, -1e9, 1e300)]
    replays = [replay(cell, one.arguments, script) for one in (data, *far)]
    null = None
    if adjacency == "zero_out":
        with null_record(0):
            null = replay(cell, data.arguments, script)
    assert 0.99 < farthest(replays, null)["column moments"] <= ROUNDING


@pytest.mark.slow
@each(
    CELLS,
    layout=("matrices", "vectors", "outer", "one-hot"),
    unit="record",
    init="random",
    rank=1,
    scale="private",
)
def test_degenerate_datasets_have_no_worse_neighbors(cell):
    for name, data in degenerate_data(cell).items():
        ordinary = cell.data(seed=1)
        records = [
            ([part[index] for part in ordinary.parts], y) for index, y in ((0, 1), (1, HUGE))
        ]
        extremes = [([scale * part[2] for part in ordinary.parts], HUGE) for scale in (0, 1e99)]
        worst = farthest_of(cell, [group_of(cell, data, [*records, *extremes])])
        assert max(worst.values()) <= ROUNDING, name
        assert max(worst.values()) > 0.99, name


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("layout", ["sparse vectors", "matrices", "one-hot", "tasks"])
def test_threads_keep_the_sensitivity(layout):
    # Which of them adds up what depends on how many entries of sparse records are not 0.
    cell = Cell(layout)
    data = cell.data(n_records=9001)
    make = functools.partial(cell, n_jobs=2, n_iter=1)
    script = record(make, data.arguments).released
    full = [np.full_like(part[0], 1.0) for part in data.parts]
    records = [(full, HUGE), (full, -HUGE), ([0 * part for part in full], 1.0)]
    neighbors = [data, *(data.with_record(4400, *one) for one in records)]
    worst = farthest([replay(make, one.arguments, script) for one in neighbors])
    assert 0.99 < max(worst.values()) <= ROUNDING


PUBLIC = [
    Cell(layout, unit="response", scale=scale, fit_intercept=fit_intercept)
    for layout in ("matrices", "outer")
    for scale, fit_intercept in (("private", False), ("covariances", True))
] + [Cell("vectors", unit="response")]


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("cell", PUBLIC, ids=str)
def test_no_public_matrices_make_a_response_move_a_release_further(cell):
    # Even those of which some are infinite, or no number at all, by the time they are used.
    data = cell.data()
    signs = (-1.0) ** np.arange(data.parts[0][0].size).reshape(data.parts[0][0].shape)
    for public in (5e-324 * signs, 1e3 * signs, 1e90 * signs, 1.7e308 * signs):
        for places in (slice(1), slice(25)):
            parts = (exchanged(data.parts[0], places, public), *data.parts[1:])
            changed = dataclasses.replace(data, parts=parts)
            script = record(cell, changed.arguments).released
            replays = [
                replay(cell, changed.with_record(index, None, response).arguments, script)
                for index in (0, 30)
                for response in (1e50, -1e50, 0.0)
            ]
            worst = [farthest(replays[:3]), farthest(replays[3:])]
            assert max(max(ratios.values()) for ratios in worst) <= ROUNDING, (public, places)
            if public.flat[0] == 1e3 and places == slice(1):
                # The others are charged for what they can do, not for what the long one could.
                assert max(ratios_of(worst[1], ("gradient", "products"))) > 0.2


@pytest.mark.covered(at_most=6)
@each(CELLS, adjacency="zero_out")
def test_of_null_records_nothing_is_released(cell):
    data = cell.data()
    script = record(cell, data.arguments).released
    with null_record(slice(None)):
        nothing = replay(cell, data.arguments, script)
    for release, value in zip(nothing.spent().releases, nothing.values, strict=True):
        assert not value.any(), release.name


@pytest.mark.covered
@each(CELLS, adjacency="zero_out", layout=("matrices", "vectors", "outer"), unit="record", rank=1)
def test_a_zero_record_is_not_a_null_record(cell):
    # It is counted, and where there is an intercept it has a gradient: taking it for the null
    # record of zero_out would need the sensitivity of replace.
    data = cell.data()
    script = record(cell, data.arguments).released
    zero = data.with_record(0, [np.zeros_like(part[0]) for part in data.parts], -HUGE)
    present = data.with_record(0, [part[1] for part in data.parts], HUGE)
    moved_by_exchange = farthest([replay(cell, one.arguments, script) for one in (present, zero)])
    with null_record(0):
        null = replay(cell, data.arguments, script)
    lost = farthest([replay(cell, zero.arguments, script)], null)
    assert max(lost.values()) <= ROUNDING
    assert max(lost.values()) == 1
    if cell.fit_intercept and cell.init == "random":
        assert moved_by_exchange["gradient 1"] > 1.05
