"""Data that must not even be converted: wrong indices, masks, and objects that raise."""

import traceback

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from public import ESTIMATORS
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer

from skdp import DPTruncatedSVD, PrivacyLedger, RankOneMatrices, RowBlocks
from skdp.data.containers import INVALID_SPARSE, MASKED, UNREADABLE
from skdp.display import score_histogram
from skdp.model_selection import DPGridSearch, private_score
from tests.contract import entry_points

# What takes data, of those methods that estimators have.
TAKES_DATA = {"fit", "predict", "score", "transform"}

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
SECRET = "my salary is 31415.9"


def spoiled(form, index):
    """A sparse matrix one of whose column indices is another one."""
    if form == "bsr":
        matrix = scipy.sparse.bsr_array(entry_points.X, blocksize=(2, 2))
    else:
        matrix = getattr(scipy.sparse, f"{form}_array")(entry_points.X)
    if form == "coo":
        matrix.col[5] = index
    else:
        matrix.indices[5] = index
    return matrix


def test_every_estimator_is_shown_hostile_data():
    methods = {
        f"{one.__name__}.{name}" for one in ESTIMATORS for name in TAKES_DATA if hasattr(one, name)
    }
    assert methods <= entry_points.OF_ROWS.keys()


@pytest.mark.covered
@pytest.mark.parametrize("name", [*entry_points.OF_SPARSE, *entry_points.OF_BLOCKS])
@pytest.mark.parametrize(
    ("form", "index"),
    [("csr", 70000), ("csr", entry_points.SHAPE[1]), ("csc", -1), ("bsr", 2), ("coo", 4)],
)
def test_no_entry_point_converts_a_sparse_matrix_with_wrong_indices(name, form, index):
    with pytest.raises(ValueError, match="parts that do not fit together") as refused:
        {**entry_points.OF_SPARSE, **entry_points.OF_BLOCKS}[name](spoiled(form, index))
    assert str(refused.value) == INVALID_SPARSE


def masked_rows():
    masked = np.ma.masked_greater(entry_points.X, 1.0)
    sparse = scipy.sparse.csr_array(entry_points.X)
    sparse.data = np.ma.masked_greater(sparse.data, 1.0)

    class Wrapped:
        def __array__(self, *args, **kwargs):
            return masked

    return {
        "array": masked,
        "without a mask": np.ma.array(entry_points.X),
        "what makes one": Wrapped(),
        "sparse": sparse,
    }


@pytest.mark.parametrize("name", entry_points.OF_ROWS)
def test_masked_rows_are_refused_everywhere(name):
    for kind, rows in masked_rows().items():
        if name.endswith(".plan") and kind == "what makes one":
            # A plan does not read it.
            continue
        if kind == "sparse" and name not in entry_points.OF_SPARSE:
            continue
        with pytest.raises(ValueError, match="masked") as refused:
            entry_points.OF_ROWS[name](rows)
        assert str(refused.value) == MASKED, kind


@pytest.mark.parametrize("name", [*entry_points.OF_COLUMNS, *entry_points.OF_PARAMETERS])
def test_masked_columns_are_refused_everywhere(name):
    for column in (np.ma.masked_equal(entry_points.GROUPS, 2), np.ma.array(entry_points.GROUPS)):
        with pytest.raises(ValueError, match="masked") as refused:
            {**entry_points.OF_COLUMNS, **entry_points.OF_PARAMETERS}[name](column)
        assert str(refused.value) == MASKED


class OwnError(Exception):
    def __str__(self):
        return SECRET


ERRORS = [
    RuntimeError(SECRET),
    ValueError(SECRET),
    TypeError(f"float() argument must be a string or a number, {SECRET}"),
    KeyError(SECRET),
    OwnError(),
]
# Foreign errors that read as known ones do.
WORD = "Miller77"
IMITATIONS = [
    ValueError(f"The feature names should match those that were passed during fit. {WORD}"),
    TypeError(f"float() argument must be a string or a number, not '{WORD}'"),
    TypeError(f"Sparse data was passed {WORD}, but dense data is required"),
    ValueError(f"Input {WORD} contains NaN"),
]


def hostile(error):
    """Objects that raise an error wherever one may look at them, by what must look there."""

    def _raise(*args, **kwargs):
        raise error

    def make(*names, **more):
        return type("Hostile", (), {**dict.fromkeys(names, _raise), **more})()

    number = make("__float__", "__int__", "__index__")
    one = np.empty(entry_points.SHAPE, dtype=object)
    one[:] = entry_points.X
    one[2, 1] = number
    column = np.empty(entry_points.SHAPE[0], dtype=object)
    column[:] = entry_points.GROUPS
    column[3] = number
    return {
        "a number": one,
        "a number in a list": one.tolist(),
        "a number in a frame": pd.DataFrame(one),
        "an array": make("__array__"),
        "an array with a shape": make(
            "__array__", shape=entry_points.SHAPE, ndim=2, dtype=np.dtype(float)
        ),
        "a sequence": make("__len__", "__getitem__"),
        "a frame": make(columns=property(_raise), shape=entry_points.SHAPE),
        "a sparse frame": make(sparse=property(_raise)),
        **{
            f"an array that hides its {name}": make("__array__", **{name: property(_raise)})
            for name in ("ndim", "shape", "dtype")
        },
        "arrays in a list": [make("__array__") for _ in entry_points.X],
        "sequences in a list": [make("__len__", "__getitem__") for _ in entry_points.X],
        "a number in a column": column,
        "a number in a list as column": column.tolist(),
        "a number in a series": pd.Series(column),
    }


@pytest.mark.covered(at_most=14)
@pytest.mark.parametrize("name", [*entry_points.OF_ROWS, *entry_points.OF_COLUMNS])
def test_no_text_of_a_foreign_error_is_shown(name):
    call = {**entry_points.OF_ROWS, **entry_points.OF_COLUMNS}[name]
    # Each object with another error, and numbers with all that imitate known ones.
    objects = [
        hostile(ERRORS[number % len(ERRORS)])[kind] for number, kind in enumerate(hostile(None))
    ]
    kind = "a number" if name in entry_points.OF_ROWS else "a number in a column"
    for bad in [*objects, *(hostile(error)[kind] for error in IMITATIONS)]:
        try:
            call(bad)
        except (TypeError, ValueError, IndexError) as refused:
            told = refused
        else:
            # A plan reads no values, and public steps make zeros of a row that they refuse.
            assert name.endswith((".plan", ", pipeline", ", steps before"))
            continue
        text = "".join(traceback.format_exception(told))
        assert SECRET not in text
        assert WORD not in text
        assert told.__cause__ is told.__context__ is None


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_what_makes_blocks_may_raise_without_its_text_being_shown(error):
    def fails_at_once():
        raise error

    def fails_later():
        yield entry_points.X
        raise error

    for make_blocks in (fails_at_once, fails_later):
        for call in (
            clone(entry_points.SVD).fit,
            lambda rows: list(entry_points.SVD.transform(rows)),
        ):
            with pytest.raises(ValueError, match="cannot be read") as refused:
                call(RowBlocks(make_blocks, (24, 4)))
            assert str(refused.value) == UNREADABLE
            assert refused.value.__context__ is None


BAD = {
    "indices": lambda: spoiled("csr", 70000),
    "mask": lambda: np.ma.masked_greater(entry_points.X, 1.0),
    "raises": lambda: hostile(RuntimeError(SECRET))["a number"],
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_data_are_refused_before_anything_is_charged(kind, tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "ledger", dataset="rows", epsilon=9.0, delta=1e-4)
    pipeline = make_pipeline(Binarizer(), clone(entry_points.SVD))
    search = DPGridSearch(pipeline, {"dptruncatedsvd__n_components": [1, 2]}, ledger=ledger)
    svd = DPTruncatedSVD(2, row_norm=3.0, ledger=ledger)
    trace = clone(entry_points.TRACE).set_params(ledger=ledger)
    bad = BAD[kind]()
    for fit in (
        lambda: svd.fit(bad),
        lambda: svd.fit(RowBlocks(lambda: iter([bad]), entry_points.SHAPE)),
        lambda: search.fit(bad),
        lambda: trace.fit(bad, entry_points.Y),
        lambda: private_score(entry_points.SVD, bad, ledger=ledger),
        lambda: score_histogram(entry_points.SVD, bad, ledger=ledger),
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            fit()
    assert not ledger.entries()
    for model in (svd, search, trace):
        assert not [name for name in vars(model) if name.endswith("_")]


def test_factors_whose_indices_were_changed_since_are_refused():
    matrices = RankOneMatrices(scipy.sparse.csr_array(entry_points.X), entry_points.LEFT)
    fitted = clone(entry_points.TRACE).fit(matrices, entry_points.Y)
    matrices.left.indices[3] = 70000
    for call in (
        lambda: clone(entry_points.TRACE).fit(matrices, entry_points.Y),
        lambda: fitted.predict(matrices),
    ):
        with pytest.raises(ValueError, match="parts that do not fit together"):
            call()


@pytest.mark.covered
@pytest.mark.parametrize("sketch", ["countsketch", "haar"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("index", [-1, 12, 70000])
def test_a_stream_refuses_rows_with_wrong_indices_before_its_state_is_touched(sketch, axis, index):
    given, expected = (
        entry_points.stream(sketch=sketch, random_state=2**70, epsilon=np.inf) for _ in range(2)
    )
    bad = scipy.sparse.coo_array(entry_points.X)
    (bad.row, bad.col)[axis][7] = index
    with pytest.raises(ValueError, match="parts that do not fit together"):
        given.partial_fit(bad)
    # It goes on as if nothing had been.
    released = [one.partial_fit(entry_points.X).finalize() for one in (given, expected)]
    np.testing.assert_array_equal(*(one.components_ for one in released))
    np.testing.assert_array_equal(*(one.singular_values_ for one in released))
