"""Users in batches: all rows arrive, and nobody's statistics follow other users' rows."""

from threading import Barrier

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from skdp.data.reduce import PerRow, rounding_of_depth, sum_depth
from skdp.data.sources import block_starts
from skdp.data.users import LARGEST_VALUE, Users
from skdp.linear_model.personal import start as personal_start
from skdp.linear_model.personal.fit import _gradients, best_priors
from skdp.linear_model.personal.plan import PRIORS


def draw(counts, n_features, seed=0):
    generator = np.random.default_rng(seed)
    codes = generator.permutation(np.repeat(np.arange(len(counts)), counts))
    return generator.normal(size=(len(codes), n_features)), generator.normal(size=len(codes)), codes


def test_every_row_is_in_the_batch_of_its_user_in_its_order():
    counts = np.array([1, 9, 3, 40, 17, 1, 2])
    X, y, codes = draw(counts, 4)
    users = Users(X, y, codes, len(counts))
    seen = []
    for batch in users.batches:
        for place, slot in enumerate(batch.slots):
            n_rows = int(batch.counts[place])
            assert n_rows == counts[slot] == batch.is_row[place].sum()
            np.testing.assert_array_equal(batch.rows[place, :n_rows], X[codes == slot])
            np.testing.assert_array_equal(batch.responses[place, :n_rows], y[codes == slot])
            assert not batch.rows[place, n_rows:].any()
            assert not batch.responses[place, n_rows:].any()
            seen.append(slot)
    assert sorted(seen) == list(range(len(counts)))


def test_the_first_rows_are_kept():
    X, y, codes = draw(np.array([5, 1, 8]), 2)
    users = Users(X, y, codes, 3, max_rows_per_user=2)
    rows = users.map_users(lambda batch: batch.rows.sum(axis=1))
    for user in range(3):
        np.testing.assert_allclose(rows[user], X[codes == user][:2].sum(axis=0))


def sizes_of(batch):
    return np.einsum("bij,bij->b", batch.rows, batch.rows)


def sums_and_sizes(_, batch):
    return batch.rows.sum(axis=(0, 1)), PerRow(sizes_of(batch))


def test_sums_and_numbers_of_users_are_those_of_their_rows(monkeypatch):
    monkeypatch.setattr("skdp.data.users._BLOCK_SLOTS", 8)
    counts = np.random.default_rng(0).integers(0, 6, size=45)
    counts[16:24] = 0
    X, y, codes = draw(counts, 3)
    users = Users(X, y, codes, len(counts))
    assert [len(block) > 0 for block in users.by_block] == [True, True, False, True, True, True]
    sums, sizes = users.map_sum(sums_and_sizes, 3)
    slots = np.concatenate([batch.slots for batch in users.batches])
    np.testing.assert_allclose(sums, X.sum(axis=0))
    expected = np.bincount(codes, np.square(X).sum(axis=1), minlength=45)
    np.testing.assert_allclose(sizes, expected[slots])
    np.testing.assert_allclose(users.map_users(sizes_of), np.where(counts > 0, expected, np.nan))


def test_a_lone_user_in_its_block_has_the_numbers_that_it_has_in_company(monkeypatch):
    X, y, codes = draw(np.array([3, 5, 4, 7, 2]), 3)
    whole = statistics(Users(X, y, codes, 5))
    monkeypatch.setattr("skdp.data.users._BLOCK_SLOTS", 1)
    for name, values in statistics(Users(X, y, codes, 5)).items():
        np.testing.assert_array_equal(values, whole[name], err_msg=name)


def test_a_slot_without_rows_takes_part_in_nothing():
    X, y, codes = draw(np.array([3, 0, 4]), 2)
    sums = Users(X, y, codes, 3).map_users(lambda batch: batch.rows.sum(axis=(1, 2)))
    assert np.isnan(sums[1])
    assert np.isfinite(sums[[0, 2]]).all()


def test_huge_values_are_bounded():
    users = Users(np.array([[1e300, -1e300]]), np.array([1e300]), np.zeros(1, dtype=int), 1)
    assert np.abs(users.batches[0].rows).max() == LARGEST_VALUE
    assert users.batches[0].responses[0, 0] == LARGEST_VALUE


def statistics(users):
    """All that is computed of single users and counted or compared."""
    d = users.n_features
    generator = np.random.default_rng(5)
    # From 8 numbers on numpy may add in another order.
    k = min(d - 1, 9)
    basis = np.linalg.qr(generator.normal(size=(d, k)))[0]
    prior = personal_start.Prior(generator.normal(size=d), basis, np.linspace(0.4, 1, k), 0.05, 0.3)
    return {
        "mean rows": users.map_users(personal_start._mean_rows),
        "mean responses": users.map_users(personal_start.mean_responses),
        "moment norms": users.map_users(personal_start.moment_norms),
        "products": users.map_users(
            lambda batch: personal_start._products(batch, personal_start.UserLevels(2.0, 0.5))
        ),
        "head sizes": users.map_users(lambda batch: personal_start._head_sizes(batch, prior)),
        "gradient norms": users.map_users(lambda batch: _gradients(batch, prior)[2]),
        "slopes": users.map_users(lambda batch: _gradients(batch, prior)[0]),
        "spreads": users.map_users(personal_start.root_mean_squares),
        "choices": users.map_users(lambda batch: best_priors(batch, prior, PRIORS)),
    }


@pytest.mark.covered(at_most=3)
@pytest.mark.parametrize("n_features", [2, 3, 9, 19, 50, 100])
@pytest.mark.parametrize("n_rows", [0, 1, 2, 13, 200])
def test_the_statistics_of_others_keep_every_bit(n_features, n_rows):
    counts = np.random.default_rng(1).integers(1, 30, size=400)
    X, y, codes = draw(counts, n_features)
    whitening = np.eye(X.shape[1]) + 0.1
    found = []
    for own in (int(counts[7]), n_rows):
        kept = np.flatnonzero(codes != 7)
        generator = np.random.default_rng(own)
        more = generator.normal(size=(own, X.shape[1]))
        users = Users(
            np.concatenate([more, X[kept]]),
            np.concatenate([generator.normal(size=own), y[kept]]),
            np.concatenate([np.full(own, 7), codes[kept]]),
            len(counts),
        )
        users.shift_rows(np.full(X.shape[1], 0.2))
        users.multiply_rows(whitening)
        found.append(statistics(users))
    others = np.arange(len(counts)) != 7
    for name, values in found[0].items():
        np.testing.assert_array_equal(values[others], found[1][name][others], err_msg=name)


@pytest.mark.parametrize("size", [(9, 16), (9, 20), (100, 96), (100, 112), (3, 9000)])
def test_who_is_alone_among_users_of_a_length_has_the_same_statistics(size):
    n_features, n_rows = size
    found = []
    for n_others in (0, 1, 4):
        counts = np.array([n_rows, *[n_rows] * n_others, 1, 2])
        X, y, codes = draw(counts, n_features)
        generator = np.random.default_rng(3)
        own = codes == 0
        X[own], y[own] = generator.normal(size=(n_rows, n_features)), generator.normal(size=n_rows)
        X[own, 0] *= 1e-9
        found.append(statistics(Users(X, y, codes, len(counts))))
    for name, values in found[0].items():
        for other in found[1:]:
            np.testing.assert_array_equal(values[0], other[name][0], err_msg=name)


def test_blocks_are_worked_on_at_a_time_and_come_in_their_order(monkeypatch):
    monkeypatch.setattr("skdp.data.users._BLOCK_SLOTS", 1)
    X, y, codes = draw(np.arange(1, 17), 3)
    users = Users(X, y, codes, 16, n_jobs=2)
    meeting = Barrier(2)

    def counts(batch):
        # Whoever is alone waits in vain.
        meeting.wait(60)
        assert {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"} == {1}
        return batch.counts

    with threadpool_limits(2):
        np.testing.assert_array_equal(users.map_users(counts), np.arange(1, 17))


@pytest.mark.covered
@pytest.mark.parametrize("n_users", [1, 1000, 1025, 5000, 10**6, 10**8])
@pytest.mark.parametrize("n_features", [1, 2, 50, 86, 300, 2000])
def test_rounding_of_users_is_enough_for_arrays_of_their_statistics(n_users, n_features):
    # What `clipped_sum` adds up has longer blocks.
    users = Users(np.zeros((1, n_features)), np.zeros(1), np.zeros(1, np.intp), 1)
    users.n_users = n_users
    users.block_starts = np.append(np.arange(0, n_users, 1024), n_users)
    for width in (1, n_features):
        depth = sum_depth(block_starts(n_users, width, is_sparse=False), width)
        assert users.rounding >= rounding_of_depth(depth, n_users)
