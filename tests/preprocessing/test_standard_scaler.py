"""Private scales: near the exact ones, the same in every container, careful where noise wins."""

import re
import warnings
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from in_parts import in_chunks, in_parts
from scipy.sparse import csr_array, issparse
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler
from told import lines_warned_by

from skdp import (
    DPCovariance,
    DPLogisticRegression,
    DPStandardScaler,
    PrivacyWarning,
    RowBlocks,
    make_dp_pipeline,
)
from skdp.data.rows import Rows
from skdp.data.sources import as_source
from skdp.preprocessing.intervals import (
    N_BINS,
    Intervals,
    bins_by_size,
    bins_within,
    counting,
    hulls,
)
from skdp.preprocessing.scales import Moments, scales_of, weights_of

SEED = 2**100
N = 4000
generator = np.random.default_rng(0)
X = generator.normal(size=(N, 4)) * [1.0, 20.0, 0.03, 300.0] + [0.0, 50.0, 0.0, 1000.0]
MIXED = np.where(generator.random(X.shape) < 0.6, 0.0, X)
BOUNDS = (X.mean(0) - 4 * X.std(0), X.mean(0) + 4 * X.std(0))
EXACT = {"epsilon": np.inf, "clip": None}


def silently(scaler, *data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return scaler.fit(*data)


@pytest.mark.parametrize("rows", [X, X.astype(np.float32), X + 1e8, np.ones((5, 2)), X[:1]])
def test_without_noise_it_is_scikit_learns(rows):
    ours, theirs = DPStandardScaler(**EXACT).fit(rows), StandardScaler().fit(rows)
    # scikit-learn's sums of float32 are less exact than ours.
    tolerance = 1e-4 if rows.dtype == np.float32 else 1e-7
    for name in ("mean_", "var_", "scale_"):
        expected = getattr(theirs, name)
        np.testing.assert_allclose(getattr(ours, name), expected, rtol=tolerance, atol=1e-5)
    scaled = ours.transform(rows)
    assert scaled.dtype == rows.dtype
    np.testing.assert_allclose(scaled, theirs.transform(rows), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("contain", [np.asarray, csr_array])
def test_without_noise_it_is_scikit_learns_for_every_size_or_it_warns(contain):
    """Of columns whose squares floats hold; and the means are right up to 1e303."""
    generator, sizes = np.random.default_rng(2), 10.0 ** np.arange(-320, 303, 6)
    offsets = np.repeat([0, 1e-9, 1.0, -1e8], len(sizes))
    rows = offsets + np.tile(sizes, 4) * generator.uniform(0.5, 2, size=(200, len(offsets)))
    rows[::5] *= contain is np.asarray
    with np.errstate(all="ignore"):
        theirs = StandardScaler(with_mean=False).fit(contain(rows))
    ours = DPStandardScaler(with_mean=False, **EXACT)
    with pytest.warns(PrivacyWarning, match="too large or too small") as caught:
        ours.fit(contain(rows))
    np.testing.assert_allclose(ours.mean_, rows.mean(0), rtol=1e-9, atol=5e-324)
    size = np.maximum(np.abs(theirs.mean_), np.sqrt(theirs.var_))
    is_held = (theirs.var_ < 1e290) & (size > 1e-150)
    for name in ("var_", "scale_"):
        np.testing.assert_allclose(getattr(ours, name)[is_held], getattr(theirs, name)[is_held])
    assert re.search(
        rf"columns 0, 1, 2,.* and {(~is_held).sum() - 10} more", str(caught[0].message)
    )


def test_without_noise_bounds_clip_and_constant_columns_have_scale_1():
    rows = np.column_stack([X[:, 0], np.full(N, 7.0)])
    scaler = DPStandardScaler(epsilon=np.inf, bounds=(-1, 10)).fit(rows)
    clipped = np.clip(rows, -1, 10)
    np.testing.assert_allclose(scaler.mean_, clipped.mean(0), atol=1e-12)
    np.testing.assert_allclose(scaler.scale_, [clipped[:, 0].std(), 1.0], rtol=1e-7)


@pytest.mark.parametrize("bounds", [None, BOUNDS])
def test_with_little_noise_it_is_near_the_exact_one(bounds):
    scaler = silently(DPStandardScaler(epsilon=30.0, bounds=bounds, random_state=SEED), X)
    np.testing.assert_array_less(np.abs(scaler.mean_ - X.mean(0)) / X.std(0), 0.1)
    np.testing.assert_allclose(scaler.scale_, X.std(0), rtol=0.1)


@pytest.mark.parametrize("more", [EXACT, {"epsilon": np.inf, "bounds": (-100, 900)}])
def test_containers_have_the_same_scales(more):
    dense = DPStandardScaler(with_mean=False, **more).fit(MIXED)
    blocks = RowBlocks(lambda: iter(np.array_split(MIXED, 7)), MIXED.shape)
    sparse_blocks = RowBlocks(lambda: map(csr_array, np.array_split(MIXED, 3)), MIXED.shape)
    for rows in (csr_array(MIXED), blocks, sparse_blocks):
        other = DPStandardScaler(with_mean=False, **more).fit(rows)
        np.testing.assert_allclose(other.mean_, dense.mean_, rtol=1e-10, atol=1e-9)
        np.testing.assert_allclose(other.var_, dense.var_, rtol=1e-10, atol=1e-7)


def test_a_transform_keeps_the_container():
    scaler = DPStandardScaler(epsilon=np.inf, with_mean=False).fit(MIXED)
    expected, sparse = scaler.transform(MIXED), scaler.transform(csr_array(MIXED))
    assert issparse(sparse)
    assert sparse.nnz == np.count_nonzero(MIXED)
    np.testing.assert_allclose(sparse.toarray(), expected, atol=1e-12)
    back = scaler.inverse_transform(sparse)
    assert issparse(back)
    np.testing.assert_allclose(back.toarray(), scaler.inverse_transform(expected), atol=1e-9)
    blocks = scaler.transform(RowBlocks(lambda: iter([MIXED[:9], MIXED[9:20]]), (20, 4)))
    again = DPStandardScaler(epsilon=np.inf, with_mean=False, clip=None).fit(blocks)
    np.testing.assert_allclose(again.mean_, expected[:20].mean(0), rtol=1e-10)


def test_inverse_transform_undoes_what_is_not_clipped():
    scaler = silently(DPStandardScaler(clip=None, bounds=BOUNDS, random_state=SEED), X)
    np.testing.assert_allclose(scaler.inverse_transform(scaler.transform(X)), X, atol=1e-9)
    with pytest.raises(ValueError, match="2 columns, where 4"):
        scaler.inverse_transform(X[:, :2])


@pytest.mark.parametrize("with_mean", [True, False])
def test_scaled_entries_are_clipped_around_the_mean(with_mean):
    scaler = DPStandardScaler(epsilon=np.inf, clip=2.0, with_mean=with_mean).fit(X)
    center = 0 if with_mean else scaler.mean_ / scaler.scale_
    low, high = np.minimum(center - 2, 0), np.maximum(center + 2, 0)
    exact = (X - scaler.mean_ * with_mean) / scaler.scale_
    np.testing.assert_allclose(scaler.transform(X), np.clip(exact, low, high), atol=1e-12)
    assert not scaler.transform(np.zeros((1, 4))).any() or with_mean


NO_BOUNDS = [3.0, (0, 1, 2), ("0", "1"), (np.nan, 1), (1, 1), ([0, 0, 0, 3], 2), (0, 1e-101)]


@pytest.mark.parametrize(
    "bounds",
    [
        *(*NO_BOUNDS, (-np.inf, np.inf), ([0, 0], 1)),
        *(np.array(3.0), pd.DataFrame(np.eye(2)), pd.DataFrame(np.eye(4)[:, :2], columns=[*"ab"])),
    ],
    ids=str,
)
def test_bounds_that_do_not_bound_are_refused(bounds):
    with pytest.raises(ValueError, match="bounds"):
        DPStandardScaler(bounds=bounds).fit(X)


PAIRS = [(-3.0, 3.0), (-10, 110), (-1.0, 1.0), (0, 2000)]
FRAME = pd.DataFrame(X, columns=["d", "a", "c", "b"])
NAMED = dict(reversed([*zip(FRAME, [*PAIRS[:3], [0, 2000]], strict=True)]))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, lambda frame: frame[["d", "a"]]])
def test_bounds_by_name_and_in_pairs_are_those_of_the_columns(make):
    rows = make(FRAME)
    pairs, named = PAIRS[: rows.shape[1]], {name: NAMED[name] for name in rows.columns}
    ends = tuple(map(list, zip(*pairs, strict=True)))
    fits = [
        silently(DPStandardScaler(bounds=one, epsilon=np.inf), rows) for one in (ends, pairs, named)
    ]
    for fitted in fits[1:]:
        np.testing.assert_array_equal(fitted.mean_, fits[0].mean_)
        np.testing.assert_array_equal(fitted.scale_, fits[0].scale_)
    plans = [DPStandardScaler(bounds=one).plan(*rows.shape, like=rows[:0]) for one in (ends, named)]
    assert repr(plans[0]) == repr(plans[1])


PAIR = (0.0, 1.0)
MISNAMED = {
    "missing": (dict.fromkeys("dac", PAIR), "for b. Name these columns: d, a, c, b"),
    "unknown": (dict.fromkeys("dacbz", PAIR), "bounds names z, no column of X"),
    "no pair": (dict.fromkeys("dacb", 1.0), r"of column d, 1\.0, must be \(low, high\)"),
    "three": (dict.fromkeys("dacb", (0, 1, 2)), r"of column d, \(0, 1, 2\), must be"),
    "nothing": ({}, "for d, a, c, b"),
    "turned": ({**dict.fromkeys("dac", PAIR), "b": (1, 0)}, "low below high"),
    "too few": ([PAIR] * 3, "has 3 pairs, but X has 4 columns: pass a pair"),
}


@pytest.mark.parametrize("case", MISNAMED)
def test_names_that_are_not_those_of_the_columns_are_refused_for_free(case, ledger):
    bounds, error = MISNAMED[case]
    scaler = DPStandardScaler(bounds=bounds, ledger=ledger)
    for asked in (lambda: scaler.fit(FRAME), lambda: scaler.plan(*FRAME.shape, like=FRAME)):
        with pytest.raises(ValueError, match=error):
            asked()
    for asked in (lambda: scaler.fit(X), lambda: scaler.plan(*X.shape)):
        with pytest.raises(ValueError, match=r"X has no names|but X has 4"):
            asked()
    assert ledger.entries() == []
    assert not hasattr(scaler, "n_features_in_")


def test_bounds_by_name_in_parts():
    parts = RowBlocks.from_partitions([lambda: FRAME], [N], 4)
    fits = [silently(DPStandardScaler(bounds=one, epsilon=np.inf), parts) for one in (NAMED, PAIRS)]
    np.testing.assert_array_equal(fits[0].mean_, fits[1].mean_)


def test_sparse_rows_are_not_centered_and_pure_privacy_is_refused():
    with pytest.raises(ValueError, match="sparse X cannot be centered"):
        DPStandardScaler().fit(csr_array(X))
    with pytest.raises(ValueError, match="with_mean=False"):
        silently(DPStandardScaler(), X).transform(csr_array(X))
    with pytest.raises(ValueError, match="pass a positive delta"):
        DPStandardScaler(delta=0).fit(X)


def names(scaler):
    return [release.name for release in scaler.privacy_spent_.releases]


def test_narrow_columns_far_from_0_are_zoomed_and_only_if_there_are_any():
    random = np.random.default_rng(1)
    wide = random.normal(size=(20_000, 4))
    rows = wide * [1.0, 0.5, 1.0, 1e6] + [0.0, 2011.0, -1e5, 1e9]
    assert "places in intervals" not in names(silently(DPStandardScaler(random_state=SEED), wide))
    scaler = silently(DPStandardScaler(random_state=SEED), rows)
    assert "places in intervals" in names(scaler)
    np.testing.assert_allclose(scaler.scale_, rows.std(0), rtol=0.5)
    np.testing.assert_array_less(np.abs(scaler.mean_ - rows.mean(0)), 0.1 * rows.std(0))


def test_a_second_place_with_a_fifth_of_the_rows_is_not_lost():
    random = np.random.default_rng(1)
    column = np.where(random.random(20_000) < 0.2, 1500, 2000) + random.normal(size=20_000)
    scaler = silently(DPStandardScaler(random_state=SEED), column[:, np.newaxis])
    assert scaler.scale_[0] == pytest.approx(column.std(), rel=0.1)


def told(scaler, rows):
    return [line for line in lines_warned_by(lambda: scaler.fit(rows)) if "guess" not in line]


def test_it_warns_where_noise_hides_most():
    (first, *_) = told(DPStandardScaler(epsilon=0.1), X[:300])
    assert "Most centers and scales will be noise" in first
    assert "Pass bounds" in first
    assert told(DPStandardScaler(epsilon=8.0, bounds=BOUNDS), X) == []


@pytest.mark.covered(at_most=1)
@pytest.mark.parametrize("bounds", [None, (-3, 3)])
def test_it_warns_of_columns_that_do_not_vary_only_if_they_are_many(bounds):
    """Few cost next to nothing, and the text is the same in each fit of a search."""
    for constants, is_told in (([0.0], False), ([0.5], False), ([0.5, 0.0], True)):
        rows = np.column_stack([X[:, :3], np.tile(constants, (N, 1))])
        texts = [
            told(DPStandardScaler(epsilon=100.0, bounds=bounds, random_state=SEED + seed), rows)
            for seed in range(5)
        ]
        assert texts == [texts[0]] * 5
        assert any("a third of the columns" in line for line in texts[0]) == is_told


@pytest.mark.parametrize("times", [2, 100, 1e9])
def test_generous_bounds_cost_little(times):
    bounds = (X.mean(0) - times * 4 * X.std(0), X.mean(0) + times * 4 * X.std(0))
    scaler = DPStandardScaler(epsilon=8.0, bounds=bounds, random_state=SEED)
    assert told(scaler, X) == []
    np.testing.assert_array_less(np.abs(scaler.mean_ - X.mean(0)) / X.std(0), 0.2)
    np.testing.assert_allclose(scaler.scale_, X.std(0), rtol=0.2)


def test_bounds_are_kept_where_a_search_would_find_less():
    """Columns that fill their bounds, and few rows: their scales are those of their bounds."""
    rows = np.random.default_rng(0).uniform(-1, 1, (400, 4)) * [1.0, 10.0, 100.0, 1e3]
    scaler = DPStandardScaler(bounds=([-1, -10, -100, -1e3], [1, 10, 100, 1e3]), random_state=SEED)
    assert "signed sizes" not in names(silently(scaler, rows))
    np.testing.assert_allclose(scaler.scale_ / rows.std(0), 1.0, rtol=0.5)


def test_columns_mostly_0_within_generous_bounds_have_small_scales():
    random = np.random.default_rng(0)
    rows = np.column_stack([random.normal(size=(4000, 3)), random.random(4000) < 0.02])
    scaler = DPStandardScaler(bounds=([-5] * 3 + [0], [5] * 3 + [1000]), random_state=SEED)
    assert told(scaler, rows) == []
    assert 0.5 < scaler.scale_[3] / rows[:, 3].std() < 2


def test_many_columns_mostly_0_within_generous_bounds_are_searched_for_however_large_the_noise():
    """Squares of noise were taken for variance, and scales were those of the bounds."""
    random = np.random.default_rng(0)
    rows = (random.random((800, 800)) < 0.02) * random.integers(1, 4, (800, 800))
    for seed in range(3):
        scaler = DPStandardScaler(epsilon=0.6, bounds=(-3, 6), random_state=SEED + seed)
        assert np.median(silently(scaler, rows.astype(float)).scale_) < 1.0


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_a_column_that_is_mostly_one_value_is_no_constant(epsilon):
    """The bulk is a narrow interval, and what it leaves out is most of the variance."""
    for seed in range(5):
        random = np.random.default_rng(seed)
        mostly = random.choice([1.0, 2, 3, 4], 4000, p=[0.91, 0.07, 0.015, 0.005])
        rows = np.column_stack([random.normal(size=(4000, 3)), mostly])
        scaler = silently(DPStandardScaler(epsilon=epsilon, random_state=SEED + seed), rows)
        assert 0.4 < scaler.scale_[3] / mostly.std() < 2.5


@pytest.mark.parametrize("contain", [np.asarray, csr_array])
def test_numbers_outside_of_an_interval_are_counted_in_no_place(contain):
    rows = np.array([[0.0, 5.0], [4.0, 5.9], [6.1, 4.0], [8.0, np.nan], [5.0, 0.0]])
    inner, wide = (Intervals.of(np.full(2, low), np.full(2, 6.0)) for low in (4.0, 2.0))
    place = partial(bins_within, intervals=inner, wide=wide, n_bins=2)
    counts = Rows(as_source(contain(rows))).map_sum(counting(place, 2), 4)
    # What is beyond the wide interval is at its end, 6; 0 and 2 are outside of the inner one.
    np.testing.assert_array_equal(counts, [[1, 3], [1, 2]])


def test_few_flat_columns_are_not_warned_of():
    rows = np.column_stack([X, np.ones(N)])
    ends = (np.append(BOUNDS[0], 0), np.append(BOUNDS[1], 2))
    assert told(DPStandardScaler(epsilon=8.0, bounds=ends, random_state=SEED), rows) == []


def test_weights_change_no_sensitivity_whatever_is_released():
    """Exactly, as rounding is charged of the sums alone."""
    random = np.random.default_rng(0)
    for size in (1, 2, 7, 100):
        for _ in range(20):
            variances, noise_std = random.normal(size=(2, size)) * 10.0 ** random.uniform(-9, 9)
            weights = weights_of(variances, np.abs(noise_std))
            assert sum(Fraction(one) ** 2 for one in weights.tolist()) <= size
            assert (weights > 0).all()


def test_sparse_rows_of_users_may_have_no_entry():
    scaler = DPStandardScaler(with_mean=False, privacy_unit="user", random_state=0)
    with pytest.warns(PrivacyWarning, match="a third of the columns"):
        scaler.fit(csr_array((40, 3)), users=np.arange(40) // 2)
    assert np.isfinite(scaler.var_).all()


@pytest.mark.covered
@pytest.mark.parametrize("number", [0.0, 5e-324, 2.0**-60, 1.0, 3.0, 2.0**70, 1e300])
@pytest.mark.parametrize("sign", [1, -1])
def test_every_number_fills_one_bin_whose_ends_hold_it(number, sign):
    column = np.full((9, 1), sign * number)
    counts = Rows(as_source(column)).map_sum(counting(bins_by_size, N_BINS), N_BINS)
    assert sorted(counts[0])[-2:] == [0, 9]
    (low,), (high,) = hulls(counts, 0.1, np.full(1, 9))
    assert (high <= low) == (number == 0)
    assert low <= np.clip(sign * number, -(2.0**61), 2.0**61) <= high


def test_half_of_a_column_around_0_is_not_taken_for_all():
    # Noise of 40 in each of three bins made half of the rows seem 570 of 1,000: the scale was .24.
    counts = np.zeros((4, N_BINS))
    places = bins_by_size(np.array([0.3, 0.7, 1.5]), np.zeros(3, np.intp))
    opposite = bins_by_size(np.array([-0.3, -0.7, -1.5]), places)
    # The rows that the first column lacks may lie there, those of the last one do not.
    counts[0, places] = counts[3, places] = 150.0, 200.0, 220.0
    counts[0, opposite] = 110.0
    counts[1, places] = 250.0, 400.0, 330.0
    counts[2, places] = counts[2, opposite] = 165.0
    low, high = hulls(counts, 40.0, np.full(4, 1000.0))
    np.testing.assert_array_equal(low, [-2.0, 0.25, -2.0, 0.25])
    np.testing.assert_array_equal(high, 2.0)


def test_tiny_negative_numbers_make_no_unit_of_the_largest_positive_ones():
    # The bin of the largest positive numbers comes before that of the smallest negative ones.
    counts = np.zeros((2, N_BINS))
    ordinary, smallest, largest = bins_by_size(np.array([1.5, -1e-17, 1e300]), np.zeros(3, np.intp))
    assert smallest == largest + 1
    counts[:, [ordinary, smallest]] = 500.0
    counts[1, largest] = 30.0  # three standard deviations of noise
    low, high = hulls(counts, 10.0, np.full(2, 1000.0))
    assert (low[0], high[0]) == (low[1], high[1])
    # Beside the bin of a number of its own sign, it is the tail of a column.
    counts[1, largest - 1] = 500.0
    assert hulls(counts, 10.0, np.full(2, 1500.0))[1][1] > 1e18


@pytest.mark.covered(at_most=14)
@pytest.mark.parametrize("bounds", [None, (-3, 3), (-1e100, 1e100), (0, 1e-100)])
@pytest.mark.parametrize("container", [np.asarray, csr_array])
@pytest.mark.parametrize("size", [0.0, 5e-324, 1.0, 1e300, np.finfo(float).max])
def test_one_column_of_any_size_has_a_scale(bounds, container, size):
    """Also if it is constant, or all rows but one are."""
    is_dense = container is np.asarray
    for column in (np.full((40, 1), size), size * np.eye(40)[:, :1], -size * np.eye(40)[:, :1]):
        scaler = DPStandardScaler(bounds=bounds, with_mean=is_dense, random_state=SEED)
        scaled = silently(scaler, container(column)).transform(container(column))
        entries = scaled if is_dense else scaled.toarray()
        assert np.isfinite([scaler.mean_, scaler.var_, scaler.scale_]).all()
        assert scaler.scale_[0] > 0
        assert np.isfinite(entries).all()


def test_other_bounds_have_noise_of_their_own():
    low, high = np.full(4, -1e3), np.full(4, 1e4)
    other = high.copy()
    other[2] = np.nextafter(other[2], np.inf)
    fits = [
        silently(DPStandardScaler(bounds=(low, end), random_state=SEED), X) for end in (high, other)
    ]
    assert not (fits[0].mean_ == fits[1].mean_).any()


GAPS = np.where(np.random.default_rng(5).random(X.shape) < [0.1, 0.5, 0.9, 0.0], np.nan, X)


def test_without_noise_gaps_are_left_out_as_scikit_learn_leaves_them_out():
    ours, theirs = DPStandardScaler(missing="mean", **EXACT).fit(GAPS), StandardScaler().fit(GAPS)
    np.testing.assert_allclose(ours.mean_, theirs.mean_, rtol=1e-9)
    np.testing.assert_allclose(ours.scale_, theirs.scale_, rtol=1e-7)
    scaled, expected = ours.transform(GAPS), theirs.transform(GAPS)
    is_gap = np.isnan(GAPS)
    np.testing.assert_allclose(scaled[~is_gap], expected[~is_gap], rtol=1e-6, atol=1e-6)
    assert not scaled[is_gap].any()


@pytest.mark.parametrize("bounds", [None, BOUNDS])
@pytest.mark.parametrize("with_mean", [True, False])
def test_gaps_are_filled_with_the_released_mean(bounds, with_mean):
    scaler = DPStandardScaler(
        epsilon=8.0, missing="mean", bounds=bounds, with_mean=with_mean, random_state=SEED
    )
    filled = scaler.inverse_transform(silently(scaler, GAPS).transform(GAPS))
    means = np.broadcast_to(scaler.mean_, X.shape)
    np.testing.assert_allclose(filled[np.isnan(GAPS)], means[np.isnan(GAPS)])
    # The column with fewest numbers has nine times the noise of a full one.
    np.testing.assert_array_less(np.abs(scaler.mean_ - X.mean(0)) / X.std(0), 0.2)


@pytest.mark.parametrize("n_numbers", [0, 1])
@pytest.mark.parametrize("epsilon", [0.1, np.inf])
def test_a_column_with_next_to_no_number_is_filled_finitely(n_numbers, epsilon):
    rows = GAPS.copy()
    rows[n_numbers:, 0] = np.nan
    scaler = DPStandardScaler(epsilon=epsilon, missing="mean", random_state=SEED)
    assert np.isfinite(silently(scaler, rows).transform(rows)).all()


def test_gaps_are_for_dense_rows():
    for rows in (csr_array(MIXED), RowBlocks.from_partitions([lambda: csr_array(MIXED)], [N], 4)):
        model = DPStandardScaler(missing="mean", with_mean=False)
        with pytest.raises(ValueError, match="takes dense rows"):
            model.fit(rows)
        assert not hasattr(model, "mean_")


LENGTHS = [1, 0, 7, len(GAPS) - 8]


def gaps_as(kind, rows=GAPS):
    if kind == "stream":
        return RowBlocks(lambda: iter(np.array_split(rows, 3)), rows.shape)
    if kind == "parts":
        return in_parts(rows, lengths=LENGTHS)
    return in_chunks(rows, lengths=LENGTHS)[0]


@pytest.mark.parametrize("bounds", [None, BOUNDS])
@pytest.mark.parametrize("kind", ["stream", "parts", "chunks"])
def test_gaps_of_rows_in_blocks_are_filled_like_those_in_memory(kind, bounds):
    scaler = DPStandardScaler(epsilon=8.0, missing="mean", bounds=bounds, random_state=SEED)
    rows = gaps_as(kind)
    silently(scaler, rows)
    shared = {"bounds": bounds, "missing": "mean", "random_state": SEED}
    covariances = [
        silently(DPCovariance(epsilon=np.inf, **shared), one).covariance_ for one in (rows, GAPS)
    ]
    np.testing.assert_allclose(*covariances, rtol=1e-6, atol=1e-9)
    if kind == "chunks":
        same = silently(clone(scaler), gaps_as("parts"))
        assert scaler.mean_.tobytes() + scaler.var_.tobytes() == (
            same.mean_.tobytes() + same.var_.tobytes()
        )
    made, expected = scaler.transform(rows), scaler.transform(GAPS)
    blocks = [made.compute()] if kind == "chunks" else list(made)
    np.testing.assert_allclose(np.concatenate(blocks), expected, rtol=1e-12)
    exact = clone(scaler).set_params(epsilon=np.inf, random_state=None)
    np.testing.assert_allclose(
        silently(clone(exact), rows).mean_, silently(clone(exact), GAPS).mean_, rtol=1e-9
    )


@pytest.mark.parametrize("kind", ["stream", "parts", "chunks"])
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity_among_gaps_of_blocks_is_refused(kind, value):
    infinite = GAPS.copy()
    infinite[5, 3] = value
    with pytest.raises(ValueError, match="infinity"):
        DPStandardScaler(missing="mean").fit(gaps_as(kind, infinite))


def test_who_takes_gaps_refuses_infinity_and_who_does_not_says_how():
    infinite = np.where(np.isnan(GAPS), np.inf, GAPS)
    with pytest.raises(ValueError, match="infinity"):
        DPStandardScaler(missing="mean").fit(infinite)
    with pytest.raises(ValueError, match="NaN"):
        DPStandardScaler().fit(GAPS)


def test_a_pipeline_fills_gaps_between_its_steps():
    y = (X[:, 0] > 0).astype(int)
    steps = DPStandardScaler(missing="mean"), DPLogisticRegression(classes=[0, 1])
    model = make_dp_pipeline(*steps, epsilon=4.0, random_state=SEED)
    assert silently(model, GAPS, y).score(GAPS, y) > 0.8


def test_clipping_follows_the_budget():
    X = np.random.default_rng(0).normal(size=(2000, 4))
    clips = [silently(DPStandardScaler(epsilon=epsilon), X).clip_ for epsilon in (0.1, 1, 16, 256)]
    assert clips[0] == 5
    assert clips == sorted(clips)
    assert clips[-1] > 10
    assert silently(DPStandardScaler(epsilon=256.0, clip=5.0), X).clip_ == 5
    assert silently(DPStandardScaler(clip=None), X).clip_ == np.inf
    assert DPStandardScaler(epsilon=np.inf).fit(X).clip_ == np.inf


def test_errors_of_means_and_scales_are_those_of_noise_and_sampling():
    rows = np.random.default_rng(0).normal([3.0, 0.0], [2.0, 1.0], size=(4000, 2))
    exact = DPStandardScaler(epsilon=np.inf).fit(rows)
    np.testing.assert_allclose(exact.mean_std_error_, rows.std(axis=0) / np.sqrt(4000), rtol=1e-9)
    np.testing.assert_allclose(exact.scale_std_error_, rows.std(axis=0) / np.sqrt(4000), rtol=1e-9)
    for epsilon in (1.0, 8.0):
        noisy = DPStandardScaler(epsilon=epsilon, bounds=(-9, 15)).fit(rows)
        for ours, law, errors in (
            (noisy.mean_, [3.0, 0.0], noisy.mean_std_error_),
            (noisy.scale_, [2.0, 1.0], noisy.scale_std_error_),
        ):
            assert (np.abs(ours - law) < 6 * errors).all()
            assert (errors < 0.5).all()


def test_no_error_is_given_of_scales_that_noise_hides():
    rows = np.column_stack([np.random.default_rng(0).normal(size=1000), np.zeros(1000)])
    with pytest.warns(PrivacyWarning, match="noise hides"):
        fitted = DPStandardScaler(epsilon=1.0).fit(rows)
    assert (fitted.scale_std_error_ < 1e300).tolist() == [True, False]


def test_a_variance_that_noise_turns_negative_is_as_large_as_noise_leaves_open():
    ones = np.ones(20)
    # Columns of normal numbers in intervals on one side of 0, with squares that noise made smaller.
    means = np.stack([-0.8 * ones, -0.5 + 0.6 * ones])
    found = scales_of(Intervals(2 * ones, 2 * ones), Moments(means, 0.16 * ones), 300)
    assert found.is_flat.all()
    assert (np.sqrt(found.variance) > 0.3).all()
