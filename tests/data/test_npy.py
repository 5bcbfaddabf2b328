"""Rows of files of numpy: the same as those of arrays, never copied as a whole."""

import pickle
from itertools import pairwise

import numpy as np
import pytest

from skdp import DPPCA, RowBlocks
from skdp.data.parts import RowParts
from skdp.data.rows import Rows
from skdp.data.sources import as_source

X = np.random.default_rng(0).normal(size=(17_000, 4))


def saved(path, array):
    np.save(path, array)
    return path


def fitted(rows, n_jobs=1):
    return DPPCA(1, row_norm=3, random_state=1 << 70, n_jobs=n_jobs, epsilon=9).fit(rows)


@pytest.mark.covered(at_most=6)
@pytest.mark.filterwarnings("ignore:Only 0 of 1 component:skdp.PrivacyWarning")
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16, bool])
def test_fits_are_those_of_the_same_parts_in_memory(tmp_path, dtype, order, n_jobs):
    data, cuts = (9 * X).astype(dtype), [0, 1, 4000, 17_000]
    parts = [np.asarray(data[a:b], order=order) for a, b in pairwise(cuts)]
    paths = [saved(tmp_path / f"{i}.npy", part) for i, part in enumerate(parts)]
    rows = RowBlocks.from_npy(paths)
    assert rows.dtype == (np.float32 if dtype == np.float32 else np.float64)
    loaders = [lambda part=part: part for part in parts]
    expected = RowBlocks.from_partitions(loaders, np.diff(cuts), 4, rows.dtype)
    np.testing.assert_array_equal(fitted(rows, n_jobs).components_, fitted(expected).components_)


@pytest.mark.parametrize("order", ["C", "F"])
def test_threads_share_a_single_file(tmp_path, order, monkeypatch):
    path, loads, load = saved(tmp_path / "x.npy", np.asarray(X, order=order)), [], RowParts.load
    monkeypatch.setattr(RowParts, "load", lambda *args: (loads.append(1), load(*args))[1])
    rows = RowBlocks.from_npy(path)
    grams = [Rows(as_source(rows), n_jobs).gram()[0] for n_jobs in (1, 2, 3)]
    assert len(loads) > 1 + 2 + 3
    for gram in grams:
        np.testing.assert_array_equal(gram, Rows(as_source(X), 1).gram()[0])


def test_a_single_part_in_memory_is_loaded_once_a_pass():
    loads = []
    source = as_source(RowBlocks.from_partitions([lambda: (loads.append(1), X)[1]], [len(X)], 4))
    gram = Rows(source, 2).gram()[0]
    np.testing.assert_array_equal(gram, Rows(as_source(X), 2).gram()[0])
    assert len(loads) == 2  # the first sees whether it is sparse


def test_a_part_is_mapped_and_not_copied(tmp_path):
    rows = RowBlocks.from_npy([saved(tmp_path / "x.npy", X)])
    part = rows.load(0)
    assert isinstance(part.base, np.memmap)
    assert np.shares_memory(part, part.base)


def test_paths_and_loaders_hold_in_other_directories_and_processes(tmp_path, monkeypatch):
    saved(tmp_path / "x.npy", X)
    monkeypatch.chdir(tmp_path)
    rows = [RowBlocks.from_npy(paths) for paths in ("x.npy", b"x.npy", ["x.npy"])]
    monkeypatch.chdir("/")
    for one in pickle.loads(pickle.dumps(rows)):
        np.testing.assert_array_equal(np.vstack(list(one)), X)


def test_files_may_be_empty(tmp_path):
    paths = [saved(tmp_path / f"{n}.npy", X[:n]) for n in (0, 1, 2)]
    np.testing.assert_array_equal(np.vstack(list(RowBlocks.from_npy(paths))), X[[0, 0, 1]])
    with pytest.raises(ValueError, match="positive"):
        RowBlocks.from_npy(paths[0])
    with pytest.raises(ValueError, match="at least one file"):
        RowBlocks.from_npy([])


@pytest.mark.parametrize(
    "array",
    [
        X[:, 0],
        X.reshape(17, -1, 4),
        np.float64(3),
        X.astype(complex),
        X.astype(np.longdouble),
        X.astype(str),
        np.zeros(9, dtype=[("a", float)]),
    ],
    ids=["1-D", "3-D", "scalar", "complex", "longdouble", "str", "fields"],
)
def test_other_arrays_are_refused_by_shape_and_type(tmp_path, array):
    path = saved(tmp_path / "x.npy", array)
    with pytest.raises(ValueError, match=r"x\.npy must be a 2-D array of real numbers.* Got shape"):
        RowBlocks.from_npy(path)


def test_what_is_no_array_is_refused_by_name(tmp_path):
    path = tmp_path / "x.npy"
    with pytest.raises(FileNotFoundError, match=r"x\.npy"):
        RowBlocks.from_npy(path)
    np.save(path, np.array([["secret"]], dtype=object))
    whole = saved(tmp_path / "y.npy", X).read_bytes()
    contents = [path.read_bytes(), b"", b"secret", pickle.dumps("secret"), whole[:-9], whole[:50]]
    np.savez(tmp_path / "x.npz", X)
    contents.append((tmp_path / "x.npz").read_bytes())
    for content in contents:
        path.write_bytes(content)
        with pytest.raises(
            ValueError, match=r"x\.npy must be a 2-D array of real numbers"
        ) as caught:
            RowBlocks.from_npy(path)
        assert caught.value.__context__ is None


def test_files_of_targets_belong_to_those_of_rows(tmp_path):
    paths = [saved(tmp_path / f"{i}.npy", part) for i, part in enumerate((X[:2], X[2:]))]
    for values in (np.arange(17_000), np.arange(17_000) / 2, np.arange(17_000).astype(str)):
        y = [saved(tmp_path / f"y{i}.npy", part) for i, part in enumerate((values[:2], values[2:]))]
        rows = RowBlocks.from_npy(paths, y)
        np.testing.assert_array_equal(rows.y[0:2], values[:2])
        np.testing.assert_array_equal(rows.y[2:17_000], values[2:])
        for others in (y[:1], y[::-1]):
            with pytest.raises(ValueError, match="y must have a file for each of paths"):
                RowBlocks.from_npy(iter(paths), iter(others))
    with pytest.raises(ValueError, match="must be a 1-D array"):
        RowBlocks.from_npy(paths, paths)


def test_files_must_have_one_number_of_columns(tmp_path):
    paths = [saved(tmp_path / f"{n}.npy", X[:, :n]) for n in (2, 3)]
    with pytest.raises(ValueError, match=r"equally many columns, got \[2, 3\]"):
        RowBlocks.from_npy(paths)
