"""Targets of rows, loaded part by part."""

import pickle
from functools import partial

import numpy as np
import pytest
from in_parts import in_parts
from scipy import sparse
from sklearn.metrics import roc_auc_score

from skdp import RowBlocks
from skdp.data.parts import Part, PartResults, Targets, mapped_blocks
from skdp.data.reduce import map_sum, on_block
from skdp.data.sources import as_source

PARTS = [np.arange(3.0), np.array([7.0]), np.arange(10.0, 15.0)]


def given(values):
    return values


def summed(block):
    return np.asarray(block.sum())


def targets():
    loaders = [partial(given, PARTS[0]), PARTS[1], partial(given, PARTS[2])]
    return Targets(
        [Part(i, loader, n) for i, (loader, n) in enumerate(zip(loaders, [3, 1, 5], strict=True))]
    )


def test_slices_of_parts_and_passes_over_all():
    found = targets()
    assert len(found) == 9
    np.testing.assert_array_equal(found[4:6], [10, 11])
    np.testing.assert_array_equal(found[1:3], [1, 2])
    copy = pickle.loads(pickle.dumps(found.mapped(np.square)))
    assert map_sum(copy, on_block(summed), 1, 2) == sum((part**2).sum() for part in PARTS)
    np.testing.assert_array_equal(copy.mapped(np.negative)[3:4], [-49])


def test_an_array_is_one_part():
    whole = Targets.of(np.concatenate(PARTS))
    np.testing.assert_array_equal(whole[2:7], np.concatenate(PARTS)[2:7])


def test_an_array_is_mapped_once_for_all_passes():
    calls = []

    def doubled(values):
        calls.append(len(values))
        return 2 * values

    twice = Targets.of(np.concatenate(PARTS)).mapped(doubled)
    for _ in range(3):
        assert map_sum(twice, on_block(summed), 1) == 2 * np.concatenate(PARTS).sum()
    assert calls == [9]


def test_an_error_of_a_function_names_the_part_and_no_value():
    words = Targets([Part(4, np.array(["1", "12345%"]), 2)])
    with pytest.raises(ValueError, match="Targets of part 4") as caught:
        words.mapped(np.float64)[0:2]
    assert "12345" not in str(caught.value)


@pytest.mark.parametrize("bad", [np.zeros((3, 1)), np.zeros(2), np.zeros(3, complex)])
def test_other_targets_than_promised_are_refused(bad):
    with pytest.raises(ValueError, match="The targets of part 4 must be an array of 3 numbers"):
        Targets([Part(4, bad, 3)])[0:1]


def test_an_error_of_a_loader_loses_its_text():
    def fails():
        raise KeyError("secret 12345")

    with pytest.raises(ValueError, match="Targets of part 0: The data cannot be read") as caught:
        Targets([Part(0, fails, 3)])[0:1]
    assert "12345" not in str(caught.value)
    assert caught.value.__context__ is None


def test_rows_in_parts_bring_their_targets_and_can_be_mapped(tmp_path):
    X = np.random.default_rng(0).normal(size=(9, 4))
    loaders = [partial(given, X[:3]), partial(given, X[:0]), partial(given, X[3:])]
    rows = RowBlocks.from_partitions(loaders, [3, 0, 6], 4, y=[PARTS[0], [], np.arange(6)])
    np.testing.assert_array_equal(rows.y[3:5], [0, 1])
    half = mapped_blocks(mapped_blocks(rows, np.square), partial(np.delete, obj=[0, 1], axis=1), 2)
    assert half.shape == (9, 2)
    np.testing.assert_array_equal(np.vstack(list(half)), X[:, 2:] ** 2)
    source = as_source(half)
    np.testing.assert_array_equal(
        np.vstack([block for _, block in source.blocks(range(2))]), X[:, 2:] ** 2
    )
    half.to_npy(tmp_path / "half.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "half.npy"), X[:, 2:] ** 2)
    with pytest.raises(ValueError, match="y must have 3 items, as loaders has"):
        RowBlocks.from_partitions(loaders, [3, 0, 6], 4, y=[PARTS[0]])


@pytest.mark.parametrize("form", [lambda masked: masked, lambda masked: partial(given, masked)])
def test_targets_under_a_mask_are_refused(form):
    masked = np.ma.masked_equal(np.arange(3), 1)
    with pytest.raises(ValueError, match="Targets of part 4: A masked array is not accepted"):
        Targets([Part(4, form(masked), 3)])[0:1]


@pytest.mark.parametrize("contain", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("step", [1, 2, 4, 7, 30])
def test_every_few_rows_of_parts(step, contain):
    X = contain(np.random.default_rng(0).normal(size=(31, 3)))
    rows = mapped_blocks(in_parts(X, [5, 1, 0, 2, 20, 3]), np.negative)
    thinned = as_source(rows).every(step)
    blocks = [block for _, block in thinned.blocks(range(len(thinned.block_starts) - 1))]
    found = sparse.vstack(blocks).toarray() if rows.is_sparse else np.vstack(blocks)
    np.testing.assert_array_equal(found, -np.asarray(X.toarray() if rows.is_sparse else X)[::step])
    last = len(thinned.X.parts) - 1
    copy = pickle.loads(pickle.dumps(thinned.X))
    assert (copy.load(last) != thinned.X.load(last)).sum() == 0


def test_metrics_take_targets_and_results_but_rows_stay_where_they_are():
    X = np.random.default_rng(0).normal(size=(9, 4))
    loaders = [partial(given, X[:3]), partial(given, X[3:])]
    rows = RowBlocks.from_partitions(
        loaders, [3, 6], 4, y=[X[:3, 0] > 0, partial(given, X[3:, 0] > 0)]
    )
    results = PartResults(rows, partial(np.max, axis=1), (9,), np.float64)
    np.testing.assert_array_equal(rows.y, X[:, 0] > 0)
    np.testing.assert_array_equal(np.asarray(results), X.max(axis=1))
    np.testing.assert_array_equal(results == X[0].max(), X.max(axis=1) == X[0].max())
    assert roc_auc_score(rows.y, results) == roc_auc_score(X[:, 0] > 0, X.max(axis=1))
    with pytest.raises(TypeError, match="to_npy"):
        np.asarray(rows)
