"""Neighbors that differ in one row: the other rows cancel, so that the search is over that row."""

import math
from functools import partial

import numpy as np
import pytest

from skdp.data.rows import Rows
from skdp.data.sources import as_source
from skdp.linalg.norms import bin_counts
from skdp.privacy import sensitivity
from skdp.privacy.clipping import clip_rows, clip_weights

C = 3.0
N_FEATURES, N_COLUMNS = 5, 2
ADJACENCIES = ("replace", "zero_out")
# Of the clipped projection, over c; the form of its sensitivity changes near .58.
LEVELS = (0.58, 1.0, 0.05, 2.0, 0.1, 0.3, 0.5, 0.7, 0.9)


def orthonormal(seed=0):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(N_FEATURES, N_COLUMNS)))[0]


BASIS = orthonormal()


def row_sum(rows):
    return clip_rows(rows.copy(), C)


def second_moment(rows):
    rows = clip_rows(rows.copy(), C)
    return np.einsum("ni,nj->nij", rows, rows)


def clipped_projection(rows, level):
    rows = clip_rows(rows.copy(), C)
    return np.einsum("ni,nj->nij", rows, clip_rows(rows @ BASIS, level))


def projected_spectrum(rows):
    rows = clip_rows(rows.copy(), C)
    inside = rows @ BASIS
    outside = np.sum(rows**2, axis=1) - np.sum(inside**2, axis=1)
    moments = np.einsum("ni,nj->nij", inside, inside).reshape(len(rows), -1)
    return np.column_stack([moments, outside])


def user_moment(rows):
    """Four entries of a row are the two rows of a user."""
    own = rows[:, :4].reshape(-1, 2, 2)
    moments = np.einsum("nij,nik->njk", own, own).reshape(len(rows), -1)
    return clip_rows(moments, C)


def distances(contribution, first, second, adjacency):
    change = contribution(first)
    if adjacency == "replace":
        change = change - contribution(second)
    return np.linalg.norm(change.reshape(len(change), -1), axis=1)


def worst_neighbors(contribution, adjacency, n_climbers=300, n_steps=500):
    """Climb from many pairs of rows at once; return the largest distance and its two rows."""
    generator = np.random.default_rng(0)
    pairs = generator.normal(size=(2, n_climbers, N_FEATURES)) * C
    third = n_climbers // 3
    pairs[1, :third] = -pairs[0, :third]
    pairs[1, third : 2 * third] *= 10.0 ** generator.uniform(-9, 9, size=(third, 1))
    found = distances(contribution, *pairs, adjacency)
    for scale in C * np.geomspace(1, 1e-4, n_steps):
        step = generator.normal(size=pairs.shape) * scale * generator.random((1, n_climbers, 1))
        tried = distances(contribution, *(pairs + step), adjacency)
        better = tried > found
        pairs[:, better] += step[:, better]
        found[better] = tried[better]
    best = np.argmax(found)
    return found[best], pairs[:, best]


def attack(contribution, declared, adjacency):
    """Share of the declared sensitivity that the search reaches."""
    return worst_neighbors(contribution, adjacency)[0] / declared


@pytest.mark.covered
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(
    ("contribution", "declared"),
    [
        (row_sum, sensitivity.row_sum),
        (second_moment, sensitivity.second_moment),
        (projected_spectrum, sensitivity.projected_spectrum),
        (user_moment, sensitivity.user_moment),
    ],
)
def test_sensitivity_is_reached_and_not_exceeded(contribution, declared, adjacency):
    assert 0.999 <= attack(contribution, declared(C, adjacency), adjacency) <= 1 + 1e-9


@pytest.mark.covered(at_most=4)
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("ratio", LEVELS)
def test_clipped_projection_is_reached_and_not_exceeded(ratio, adjacency):
    declared = sensitivity.clipped_projection(C, ratio * C, adjacency)
    reached = attack(partial(clipped_projection, level=ratio * C), declared, adjacency)
    assert 0.999 <= reached <= 1 + 1e-9


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_count_and_histogram_are_reached_and_not_exceeded(adjacency):
    generator = np.random.default_rng(0)
    edges = np.geomspace(0.1, 1, 6)
    counted, binned = [], []
    for _ in range(300):
        norms = generator.uniform(0, 1.5, size=12)
        neighbor = norms.copy()
        neighbor[0] = generator.uniform(0, 1.5) if adjacency == "replace" else np.nan
        counted.append(abs((norms <= 0.5).sum() - (neighbor <= 0.5).sum()))
        binned.append(np.linalg.norm(bin_counts(norms, edges) - bin_counts(neighbor, edges)))
    assert max(counted) == sensitivity.count()
    assert max(binned) == pytest.approx(sensitivity.histogram(adjacency), rel=1e-15)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_rounding_is_charged_twice_in_units_of_the_largest_contribution(adjacency):
    level = 0.3 * C
    for declared, contribution in (
        (partial(sensitivity.row_sum, C), C),
        (partial(sensitivity.second_moment, C), C**2),
        (partial(sensitivity.projected_spectrum, C), C**2),
        (partial(sensitivity.clipped_projection, C, level), C * level),
        (partial(sensitivity.user_moment, C), C),
        (partial(sensitivity.response_sum, level, math.inf, C), C * level),
    ):
        charged = declared(adjacency, 0.25) - declared(adjacency)
        assert charged == pytest.approx(0.5 * contribution)


def clipped_view(X):
    rows = Rows(as_source(X))
    weighting = partial(clip_weights, bound=C, n_features=rows.n_features)
    return rows.clipped(C, weighting)


@pytest.mark.parametrize("statistic", ["total", "gram", "normal_product", "projected_moment"])
def test_sums_over_rows_move_as_the_single_row_does(statistic):
    level = 0.1 * C
    contribution, declared, take = {
        "total": (row_sum, partial(sensitivity.row_sum, C), lambda rows: rows.total()),
        "gram": (second_moment, partial(sensitivity.second_moment, C), lambda rows: rows.gram()),
        "normal_product": (
            partial(clipped_projection, level=level),
            partial(sensitivity.clipped_projection, C, level),
            lambda rows: rows.normal_product(BASIS, partial(clip_rows, bound=level))[:2],
        ),
        "projected_moment": (
            projected_spectrum,
            partial(sensitivity.projected_spectrum, C),
            lambda rows: rows.projected_moment(BASIS),
        ),
    }[statistic]
    distance, (row, other) = worst_neighbors(contribution, "replace")
    X = np.random.default_rng(1).normal(size=(5000, N_FEATURES)) * C
    X[17] = row
    before, rounding = take(clipped_view(X))
    X[17] = other
    after, _ = take(clipped_view(X))
    moved = np.linalg.norm(before - after)
    assert moved == pytest.approx(distance, rel=1e-9)
    assert moved <= declared("replace", rounding)


def rows_that_round_apart(dtype, n_bits):
    """Neighbors whose sums lie on either side of a power of two.

    Above it the last place is twice as wide, so that what is half a last place there is lost, and
    counted below. Every such row adds to the distance of the sums.
    """
    X = np.zeros((1_000_000, 2), dtype=dtype)
    X[: 2**19 + 1, 0] = 1
    X[2**19 + 1 :, 0] = -(2.0 ** (19 - n_bits))
    return X, with_first_row_reversed(X)


def with_first_row_reversed(X):
    neighbor = X.copy()
    neighbor[0] *= -1
    return neighbor


@pytest.fixture
def bare_rounding(monkeypatch):
    # What is reported at least would hide a bound that is too small.
    monkeypatch.setattr("skdp.data.rows.LEAST_ROUNDING", 0.0)


def totals(*datasets):
    (first, rounding), (second, _) = (Rows(as_source(X)).total() for X in datasets)
    return np.linalg.norm(first - second), rounding


@pytest.mark.usefixtures("bare_rounding")
def test_plain_sums_of_a_million_rows_exceed_the_sensitivity_and_ours_do_not():
    # The supremum of 2c is one over real numbers: computed sums may round apart.
    X, neighbor = rows_that_round_apart(np.float64, 53)
    plain = np.linalg.norm(X.sum(axis=0) - neighbor.sum(axis=0))
    assert plain > sensitivity.row_sum(1.0, "replace") * (1 + 1e-6)
    moved, rounding = totals(X, neighbor)
    assert moved <= sensitivity.row_sum(1.0, "replace", rounding)
    # The charge costs nothing that one would notice.
    assert rounding < 1e-6


@pytest.mark.usefixtures("bare_rounding")
def test_sums_of_blocks_need_their_charge_too(monkeypatch):
    # Two leaves, of many blocks each.
    monkeypatch.setattr("skdp.data.reduce._LEAF_NUMBERS", 1)
    X = np.zeros((1_000_000, 2))
    X[: 2**17 + 1, 0] = 1
    starts = as_source(X).block_starts[:-1]
    X[starts[(starts > 2**17) & (starts < 450_000)], 0] = -(2.0 ** (17 - 53))
    moved, rounding = totals(X, with_first_row_reversed(X))
    bare = sensitivity.row_sum(1.0, "replace")
    assert bare * (1 + 1e-10) < moved <= sensitivity.row_sum(1.0, "replace", rounding)


@pytest.mark.usefixtures("bare_rounding")
def test_sums_in_float32_exceed_the_sensitivity_by_far_and_ours_do_not():
    X, neighbor = rows_that_round_apart(np.float32, 24)
    plain = np.linalg.norm(X.sum(axis=0) - neighbor.sum(axis=0))
    assert plain > 1000 * sensitivity.row_sum(1.0, "replace")
    moved, rounding = totals(X, neighbor)
    assert moved <= sensitivity.row_sum(1.0, "replace", rounding)
