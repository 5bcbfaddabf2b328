"""Sums in which each person counts once: laws that hold for any number of rows of a person."""

from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array

from skdp.data.people import People
from skdp.data.rows import Rows
from skdp.data.sources import as_source
from skdp.privacy import sensitivity
from skdp.privacy.clipping import clip_rows, clip_weights

N_PEOPLE, N_FEATURES, BOUND = 60, 5, 2.0
BASIS = np.linalg.qr(np.random.default_rng(9).normal(size=(N_FEATURES, 2)))[0]
EDGES = np.array([0.5, 1.0, 1.5, 2.0])
LAYOUTS = ["dense", "csr", "dense, center", "csr, center"]


def view_of(X, codes, layout="dense", bound=BOUND):
    people = None if codes is None else People.of(codes, N_PEOPLE)
    rows = Rows(as_source(csr_array(X) if "csr" in layout else X), people=people)
    if "center" in layout:
        rows = rows.centered(np.full(N_FEATURES, 0.3))
    return rows.clipped(bound, partial(clip_weights, bound=bound, n_features=N_FEATURES))


def sums_of(rows):
    """Give each sum of a view that a fit may release."""
    clip = partial(clip_rows, bound=0.5)

    def weighting(norms):
        return np.stack([clip_weights(norms, level, 2) for level in (0.5, 1.0)])

    return {
        "total": rows.total()[0],
        "gram": rows.gram()[0],
        "squared norm": rows.squared_norm()[0],
        "product": rows.normal_product(BASIS, clip)[0],
        "projected moment": rows.projected_moment(BASIS)[0],
        "squares": rows.clipped_squares(BASIS, weighting)[0],
        "counts of norms": rows.counted_norms(EDGES).up_to_points,
        "counts of projections": rows.projection_counts(BASIS, EDGES),
        "positive": rows.count_mostly_positive(),
    }


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def people_with_rows(rng, most=9):
    """Give rows of all people, in any order, and whose they are."""
    codes = rng.permutation(np.repeat(np.arange(N_PEOPLE), rng.integers(1, most, N_PEOPLE)))
    return rng.normal(size=(len(codes), N_FEATURES)), codes


def test_the_weights_of_a_person_sum_to_one_exactly_in_any_order(rng):
    _, codes = people_with_rows(rng, most=2000)
    for _ in range(3):
        order = rng.permutation(len(codes))
        weights = People.of(codes, N_PEOPLE).weights[order]
        np.testing.assert_array_equal(np.bincount(codes[order], weights), np.ones(N_PEOPLE))
        assert weights.sum() == N_PEOPLE


def test_more_rows_than_parts_leave_some_without_weight():
    codes = np.zeros((1 << 24) + 3, np.int64)
    weights = People.of(codes, 1).weights
    assert weights.sum() == 1
    assert np.count_nonzero(weights == 0) == 3


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_that_are_repeated_change_nothing(rng, layout):
    X = rng.normal(size=(N_PEOPLE, N_FEATURES))
    codes = np.repeat(np.arange(N_PEOPLE), rng.integers(1, 9, N_PEOPLE))
    expected = sums_of(view_of(X, None, layout))
    for name, found in sums_of(view_of(X[codes], codes, layout)).items():
        np.testing.assert_allclose(found, expected[name], rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_people_with_one_row_are_rows_bit_for_bit(rng, layout):
    X = rng.normal(size=(N_PEOPLE, N_FEATURES))
    expected = sums_of(view_of(X, None, layout))
    for name, found in sums_of(view_of(X, np.arange(N_PEOPLE), layout)).items():
        np.testing.assert_array_equal(found, expected[name], err_msg=name)


SENSITIVITIES = {
    "total": lambda adjacency: sensitivity.row_sum(BOUND, adjacency),
    "gram": lambda adjacency: sensitivity.second_moment(BOUND, adjacency),
    "product": lambda adjacency: sensitivity.clipped_projection(BOUND, 0.5, adjacency),
    "projected moment": lambda adjacency: sensitivity.projected_spectrum(BOUND, adjacency),
    "counts of norms": lambda adjacency: sensitivity.counts(len(EDGES)),
    "counts of projections": lambda adjacency: sensitivity.histogram(adjacency),
    "positive": lambda adjacency: sensitivity.count(),
}


def others_of(rng, n_rows):
    """Give rows that a person may have instead: of any length, aligned, opposite or orthogonal."""
    directions = np.linalg.qr(rng.normal(size=(N_FEATURES, N_FEATURES)))[0]
    chosen = directions[rng.integers(0, rng.integers(1, 3), n_rows)]
    return chosen * rng.choice([-1.0, 1.0], (n_rows, 1)) * 10.0 ** rng.uniform(-2, 3, (n_rows, 1))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_person_moves_a_sum_further_than_a_row_may(rng, layout):
    largest = dict.fromkeys(SENSITIVITIES, 0.0)
    for n_rows in (1, 1, 2, 3, 50, 500):
        X, codes = people_with_rows(rng)
        rest = codes != 0
        kept = X[rest], codes[rest]
        pair = []
        for n_own in (n_rows, int(rng.integers(1, 40))):
            # At any places among the rows of the others, which keep their order.
            places = np.sort(rng.integers(0, len(kept[0]) + 1, n_own))
            both = np.insert(kept[0], places, others_of(rng, n_own), axis=0)
            pair.append(sums_of(view_of(both, np.insert(kept[1], places, 0), layout)))
        for name in SENSITIVITIES:
            moved = float(np.linalg.norm(np.subtract(*(one[name] for one in pair))))
            largest[name] = max(largest[name], moved / SENSITIVITIES[name]("replace"))
    # What rounding adds to sums is charged for.
    assert max(largest.values()) <= 1 + 1e-9, largest
    assert largest["positive"] == 1
    assert largest["gram"] > 0.6


def test_counts_are_the_same_whoever_comes_first(rng):
    X, codes = people_with_rows(rng)
    expected = sums_of(view_of(X, codes))
    # The rows of a person keep their order, as the first of them may have one part more.
    order = np.argsort(rng.permutation(N_PEOPLE)[codes], kind="stable")
    found = sums_of(view_of(X[order], codes[order]))
    for name in ("counts of norms", "counts of projections", "positive"):
        np.testing.assert_array_equal(found[name], expected[name])


def test_a_sample_has_one_row_each_of_the_same_people_whatever_rows_others_have(rng):
    X, codes = people_with_rows(rng)
    before = view_of(X, codes).subsample(20)
    assert before.source.shape == (20, N_FEATURES)
    assert before.n_rows == N_PEOPLE
    more = np.vstack([rng.normal(size=(500, N_FEATURES)), X])
    after = view_of(more, np.concatenate([np.full(500, 7), codes])).subsample(20)
    moved = np.abs(before.matmul(np.eye(N_FEATURES)) - after.matmul(np.eye(N_FEATURES))).max(axis=1)
    assert sorted(before.people.codes) == sorted(after.people.codes)
    assert np.count_nonzero(moved) == 0


def test_what_is_charged_for_rounding_follows_from_the_number_of_people_alone(rng):
    few, many = (people_with_rows(rng, most) for most in (2, 300))
    roundings = {view_of(X, codes).total()[1] for X, codes in (few, many)}
    assert len(roundings) == 1
