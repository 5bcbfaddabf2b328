"""What functions that load or make rows may do: warn, raise, and choose memory orders."""

import warnings
from functools import partial

import numpy as np
import pytest
from in_parts import in_parts

from skdp import DPTruncatedSVD, RowBlocks
from skdp.data.parts import mapped_blocks
from skdp.data.rows import Rows
from skdp.data.sources import as_source

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

SECRET = "4711"
N, D = 300, 50
GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(N, D)) * GENERATOR.lognormal(size=(N, D))


class Frame:
    """Is converted by code of its own, as a data frame is."""

    columns, shape, dtype, ndim = range(D), X.shape, X.dtype, 2

    def __len__(self):
        return N

    def __array__(self, *args, **kwargs):
        raise KeyError(SECRET)


def test_an_error_while_a_part_is_converted_loses_its_text():
    rows = RowBlocks.from_partitions([X.copy, Frame], [N, N], D)
    for read in (list, DPTruncatedSVD(1, row_norm=1.0).fit):
        with pytest.raises(ValueError, match=r"^Part 1: The data cannot be read") as caught:
            read(rows)
        assert SECRET not in f"{caught.value}{caught.value.__cause__}{caught.value.__context__}"


def warned():
    warnings.warn(SECRET, stacklevel=1)
    return X


@pytest.mark.parametrize(
    "rows",
    [
        RowBlocks.from_partitions([warned, warned], [N, N], D),
        RowBlocks(lambda: map(np.asarray, [warned()]), X.shape),
    ],
    ids=["parts", "stream"],
)
def test_a_fit_shows_no_warning_of_what_loads_rows(rows):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", SECRET)
        DPTruncatedSVD(1, row_norm=1.0).fit(rows)


def stream_of(order, size):
    starts = range(0, N, size)
    return RowBlocks(lambda: (np.array(X[i : i + size], order=order) for i in starts), X.shape)


def laid_out(rows, order):
    return np.array(rows, order=order)


def times(rows, right):
    return rows @ right


def norms(rows):
    return Rows(as_source(rows), 1).norms()


def test_norms_do_not_depend_on_the_order_in_memory_that_is_loaded():
    # The order may come from other rows: a data frame has another one if a column is of integers.
    expected = norms(X)
    np.testing.assert_array_equal(norms(np.asfortranarray(X)), expected)
    for order in "CF":
        layout = partial(laid_out, order=order)
        for rows in (
            stream_of(order, N),
            stream_of(order, 7),
            mapped_blocks(stream_of("C", 7), layout),
            mapped_blocks(in_parts(X, lengths=[N]), layout),
        ):
            np.testing.assert_array_equal(norms(rows), expected)


def test_products_of_a_stream_do_not_depend_on_where_its_blocks_begin():
    right = np.random.default_rng(1).normal(size=(D, 3))
    made = [
        norms(mapped_blocks(stream_of(order, size), partial(times, right=right), 3))
        for order, size in [("C", N), ("C", 1), ("F", N), ("C", 7)]
    ]
    for one in made[1:]:
        np.testing.assert_array_equal(one, made[0])
