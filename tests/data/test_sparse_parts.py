"""Which sparse matrices fit together, of every format."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from skdp.data.containers import canonical_csr, checked_container, plain_csr

FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
generator = np.random.default_rng(0)
ROWS = np.where(generator.random((12, 8)) < 0.4, generator.normal(size=(12, 8)), 0.0)


def made(form, values=ROWS):
    return sp.csr_array(values).asformat(form)


@pytest.mark.covered
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "values", [ROWS, np.zeros((3, 4)), np.zeros((0, 4)), ROWS[:1], ROWS[:, :1]], ids=len
)
def test_right_matrices_of_every_format_are_taken(form, values):
    for matrix in (made(form, values), sp.csr_matrix(values).asformat(form)):
        checked_container(matrix)
        np.testing.assert_array_equal(canonical_csr(matrix).toarray(), values)


def test_large_blocks_wide_indices_and_entries_to_spare_are_taken():
    checked_container(sp.bsr_array(ROWS, blocksize=(3, 4)))
    wide = made("csr")
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    checked_container(wide)
    spare = made("csr")
    spare.indices = np.append(spare.indices, 99).astype(np.int32)
    spare.data = np.append(spare.data, np.nan)
    checked_container(spare)
    np.testing.assert_array_equal(plain_csr(spare).toarray(), ROWS)


def put(part, place, value):
    def spoil(matrix):
        getattr(matrix, part)[place] = value

    return spoil


def cut(*parts):
    def spoil(matrix):
        for part in parts:
            setattr(matrix, part, getattr(matrix, part)[:-1])

    return spoil


def as_kind(part, kind):
    def spoil(matrix):
        setattr(matrix, part, getattr(matrix, part).astype(kind))

    return spoil


def put_into_dict(matrix, place):
    # In old versions of scipy it is a dict itself.
    dict.__setitem__(getattr(matrix, "_dict", matrix), place, 1.0)


COMPRESSED = {
    "index too large": put("indices", 3, 10**6),
    "index that is the length": put("indices", 0, 12),
    "negative index": put("indices", -1, -1),
    "start not at 0": put("indptr", 0, 1),
    "starts that fall": put("indptr", 2, 10**6),
    "negative start": put("indptr", 1, -5),
    "end beyond the entries": put("indptr", -1, 10**6),
    "too few starts": cut("indptr"),
    "too few entries": cut("data"),
    "too few indices": cut("indices"),
    "too few of both": cut("data", "indices"),
    "fractions": as_kind("indices", float),
    "starts of floats": as_kind("indptr", float),
}
FAULTS = {
    "csr": COMPRESSED,
    "csc": COMPRESSED,
    "bsr": COMPRESSED,
    "coo": {
        "row too large": lambda X: X.row.__setitem__(0, 12),
        "negative row": lambda X: X.row.__setitem__(0, -1),
        "column too large": lambda X: X.col.__setitem__(-1, 8),
        "negative column": lambda X: X.col.__setitem__(-1, -8),
        "too few values": cut("data"),
    },
    "lil": {
        "index too large": lambda X: X.rows[2].__setitem__(0, 8),
        "negative index": lambda X: X.rows[2].__setitem__(0, -1),
        "index beyond integers": lambda X: X.rows[2].__setitem__(0, 2**70),
    },
    "dok": {
        "row too large": lambda X: put_into_dict(X, (12, 0)),
        "negative column": lambda X: put_into_dict(X, (0, -1)),
    },
}
CASES = [(form, name) for form, faults in FAULTS.items() for name in faults]


@pytest.mark.parametrize(("form", "name"), CASES)
def test_what_leads_out_of_a_matrix_is_found(form, name):
    matrix = made(form)
    FAULTS[form][name](matrix)
    with pytest.raises(ValueError, match="parts that do not fit together"):
        checked_container(matrix)


@pytest.mark.parametrize("shape", [(3, 8, 1), (1, 12, 4), (4, 5, 2)])
def test_blocks_that_do_not_fill_the_matrix_are_found(shape):
    matrix = made("bsr")
    matrix.data = np.ones(shape)
    with pytest.raises(ValueError, match="parts that do not fit together"):
        checked_container(matrix)


@pytest.mark.parametrize("form", ["bsr", "csc", "csr"])
def test_starts_that_fall_are_found_where_nothing_is_stored(form):
    matrix = made(form, np.zeros((4, 4)))
    matrix.indptr[1] = 10**6
    with pytest.raises(ValueError, match="parts that do not fit together"):
        checked_container(matrix)


def test_nothing_is_copied():
    matrix = sp.random(20_000, 50, density=0.5, random_state=0, format="csr")
    tracemalloc.start()
    checked_container(matrix)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.05 * matrix.data.nbytes
