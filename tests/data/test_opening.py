"""The first reading of rows: what it finds is what readings of their own would find."""

from functools import partial

import numpy as np
import pytest
from in_parts import in_parts
from scipy import sparse

from skdp.data.parts import RowBlocks
from skdp.data.rows import Rows, checked_digest, open_rows
from skdp.data.sources import Source, as_source, digest
from skdp.privacy.clipping import clip_weights

N, D, BOUND = 9000, 7, 2.5
LENGTHS = [1, 2999, 2000]
X = np.random.default_rng(0).normal(size=(N, D)) + 0.3
CONTAINERS = {
    "dense": lambda: X,
    "float32": lambda: X.astype(np.float32),
    "sparse": lambda: sparse.csr_array(np.where(X > 0.5, X, 0)),
    "blocks": lambda: RowBlocks(lambda: iter(np.array_split(X, 11)), X.shape),
    "parts": lambda: in_parts(X, lengths=LENGTHS),
}
CLIP = partial(clip_weights, bound=BOUND, n_features=D)
GRID = np.geomspace(0.1, 10, 50)


def opened(rows, **asked):
    usual = {"is_seeded": True, "needs_signs": True, "first": (BOUND, CLIP), "grid": GRID}
    return open_rows(rows, **{**usual, **asked})


def readings_of(function, rows):
    """Count how many blocks of the source are read meanwhile."""
    read, blocks = [], type(rows.source).blocks

    def counted(source, group):
        for block in blocks(source, group):
            read.append(block)
            yield block

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(rows.source), "blocks", counted)
        return function(rows), len(read) / (len(rows.block_starts) - 1)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_all_is_found_in_one_reading_as_in_several(container, n_jobs):
    plain = Rows(as_source(CONTAINERS[container]()), n_jobs)
    (rows, own_digest), n_readings = readings_of(opened, plain)
    assert n_readings == 1
    assert own_digest == digest(plain.source)

    def asked(rows):
        clipped = rows.clipped(BOUND, CLIP)
        norms = rows.counted_norms(GRID)
        if not isinstance(norms, np.ndarray):
            norms = norms.up_to_points
        return norms, rows.count_mostly_positive(), *clipped.total()

    found, n_readings = readings_of(asked, rows)
    assert n_readings == 0
    for one, other in zip(found, asked(plain), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_was_found_is_of_these_rows_and_this_bound_alone():
    plain, (rows, _) = Rows(Source(X)), opened(Rows(Source(X)))
    half = partial(clip_weights, bound=BOUND / 2, n_features=D)
    center = np.full(D, 0.3)
    for view in (
        lambda rows: rows,
        lambda rows: rows.clipped(BOUND / 2, half),
        lambda rows: rows.centered(center),
        lambda rows: rows.centered(center).clipped(BOUND, CLIP),
        lambda rows: rows.subsample(100),
        lambda rows: rows.subsample(100).clipped(BOUND, CLIP),
        lambda rows: rows.clipped(BOUND, CLIP).subsample(100),
        lambda rows: rows.clipped(BOUND, CLIP).centered(center),
    ):
        for found, expected in zip(view(rows).total(), view(plain).total(), strict=True):
            np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(view(rows).norms(), view(plain).norms())
        np.testing.assert_array_equal(view(rows).gram()[0], view(plain).gram()[0])
        assert view(rows).count_mostly_positive() == view(plain).count_mostly_positive()


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_source_alone_is_checked_and_hashed(container):
    source = as_source(CONTAINERS[container]())
    assert checked_digest(source, None, is_seeded=True)() == digest(source)
