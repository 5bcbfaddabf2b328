"""Regressions of rows in parts: as of the same rows in memory, and never all of them at once."""

from collections import Counter
from functools import partial
from itertools import pairwise
from operator import getitem

import numpy as np
import pytest
from in_parts import in_parts
from scipy import sparse
from small_pipelines import way_of

from skdp import DPLinearRegression, DPTraceRegressor, RankOneMatrices, RowBlocks
from skdp.data import reduce
from skdp.testing._checks import is_as_planned
from skdp.testing._recording import assert_same_fit

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

N, D, SECRET = 9000, 6, 2**100 + 1
DRAWN = np.random.default_rng(0)
X = DRAWN.normal(size=(N, D)) * [1, 2, 0.1, 1, 1, 30] + 3
y = X @ [1.0, 0, 2, 0, 0, 0.1] + DRAWN.normal(size=N)
LENGTHS = [0, 1, 4000, 0, 4998, 1]
KINDS = {
    "linear": (DPLinearRegression, {}),
    "matrices": (DPTraceRegressor, {"matrix_shape": (3, 2), "init": "spectral", "epsilon": 50.0}),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def made(kind, **more):
    estimator, parameters = KINDS[kind]
    return estimator(**{"random_state": SECRET, **parameters, **more})


def parts_of(rows, lengths, y=None):
    return in_parts(rows, y, lengths=lengths)


def contained(container):
    return {"dense": X, "float32": X.astype(np.float32), "sparse": sparse.csr_array(X * (X > 2))}[
        container
    ]


@pytest.fixture(autouse=True)
def _loaded_in_every_pass(monkeypatch):
    """Treat these few rows as if they were too many to be kept."""
    monkeypatch.setattr("skdp.data.sources.CACHE_BYTES", 0)


@pytest.mark.covered(at_most=1)
@every_kind
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("container", ["dense", "float32", "sparse"])
def test_one_part_is_fitted_as_an_array_is(kind, container, n_jobs):
    rows = contained(container)
    parts = made(kind, n_jobs=n_jobs).fit(parts_of(rows, [N], y))
    assert_same_fit(parts, made(kind).fit(rows, y))


@pytest.mark.covered(at_most=1)
@every_kind
def test_parts_are_the_same_rows(kind):
    # Noise that a seed draws is another one where sums round otherwise.
    more = {"epsilon": np.inf, "init": "random"} if kind == "matrices" else {"epsilon": np.inf}
    ours, theirs = (made(kind, **more).fit(*data) for data in ((parts_of(X, LENGTHS, y),), (X, y)))
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-9)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, rel=1e-9)
    assert ours.n_features_in_ == D


@pytest.mark.covered(at_most=1)
@every_kind
def test_predictions_come_a_part_at_a_time(kind, tmp_path):
    model, parts = made(kind).fit(X, y), parts_of(X, LENGTHS, y)
    predicted = model.predict(parts)
    assert [len(one) for one in predicted] == [length for length in LENGTHS if length]
    assert predicted.shape == (N,)
    np.testing.assert_allclose(np.concatenate(list(predicted)), model.predict(X), rtol=1e-12)
    predicted.to_npy(tmp_path / "predicted.npy")
    np.testing.assert_allclose(np.load(tmp_path / "predicted.npy"), model.predict(X), rtol=1e-12)
    stream = RowBlocks(lambda: iter([X[:0], X[:5000], X[5000:]]), X.shape)
    np.testing.assert_allclose(np.concatenate(list(model.predict(stream))), model.predict(X))
    single = model.predict(parts_of(X.astype(np.float32), [N]))
    assert {one.dtype for one in single} == {single.dtype} == {np.dtype(np.float32)}


@pytest.mark.covered(at_most=1)
@every_kind
def test_scores_are_those_of_arrays(kind):
    model, weights = made(kind).fit(X, y), DRAWN.random(N)
    for parts, more in ((parts_of(X, LENGTHS, y), {}), (parts_of(X, LENGTHS, y.astype("O")), {})):
        assert model.score(parts, **more) == pytest.approx(model.score(X, y), rel=1e-12)
    weighted = model.score(parts_of(X, LENGTHS, y), sample_weight=weights)
    assert weighted == pytest.approx(model.score(X, y, weights), rel=1e-12)
    stream = RowBlocks(lambda: iter([X]), X.shape)
    assert model.score(stream, y) == pytest.approx(model.score(X, y))
    constant = parts_of(X, LENGTHS, np.full(N, 1.0))
    assert model.score(constant) == 0
    with pytest.raises(ValueError, match="Input y contains NaN"):
        model.score(parts_of(X, LENGTHS, np.where(y > 3, np.nan, y)))


@pytest.mark.covered(at_most=1)
@every_kind
def test_the_plan_of_parts_is_that_of_the_fit(kind, monkeypatch):
    # Otherwise fewer than a billion rows round less than what every fit allows for.
    monkeypatch.setattr(reduce, "LEAST_ROUNDING", 0.0)
    parts = parts_of(X, [3] * 30 + [N - 90], y)
    fitted, planned = made(kind).fit(parts).privacy_spent_, made(kind).plan(N, D, like=parts)
    path = way_of(planned, fitted.releases, is_as_planned)
    pairs = list(zip(path, fitted.releases, strict=True))
    assert {one.sensitivity for one, _ in pairs} > {None}
    assert all(one.sensitivity in (None, other.sensitivity) for one, other in pairs)
    # Longer parts have longer chains of additions.
    many, few, array = (
        made(kind)._spec_like(2**18, D, like).rounding
        for like in (in_parts_of([2**10] * 2**8), in_parts_of([2**18]), None)
    )
    assert many < few == array


def in_parts_of(lengths):
    """Parts of which nothing but their lengths is read."""
    first = partial(np.zeros, (lengths[0], D))
    return RowBlocks.from_partitions([first] * len(lengths), lengths, D)


def counting(lengths):
    """Rows in parts, and how often each part of the rows and of the responses was loaded."""
    # None of the features is narrow.
    loads, rows = Counter(), X - 3

    def loaded(values, name):
        loads[name] += 1
        return values

    pairs = list(pairwise(np.cumsum([0, *lengths])))
    of = [partial(loaded, rows[a:b], ("X", number)) for number, (a, b) in enumerate(pairs)]
    targets = [partial(loaded, y[a:b], ("y", number)) for number, (a, b) in enumerate(pairs)]
    return RowBlocks.from_partitions(of, lengths, D, y=targets), loads


@pytest.mark.covered
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("seed", [None, SECRET])
@pytest.mark.parametrize(
    ("kind", "parameters", "n_readings"),
    [
        # The opening, scales, the moment, errors and steps, which count sizes of gradients.
        ("linear", {"n_iter": 3}, 3 + 2 + 3),
        # Noise hides features within such bounds: they are searched for.
        ("linear", {"n_iter": 3, "bounds": (-99.0, 99.0)}, 3 + 2 + 4),
        # The norm, the mean, covariances, two a step, and residuals.
        ("matrices", {"n_iter": 3, "init": "random"}, 2 * 3 + 3 + 1 + 1),
    ],
)
def test_each_part_is_loaded_once_a_reading(kind, parameters, n_readings, seed, n_jobs):
    parts, loads = counting([1, 3000, 2000, 3999])
    made(kind, random_state=seed, n_jobs=n_jobs, **parameters).fit(parts)
    # Whether parts are sparse is seen in the first.
    assert [loads["X", number] for number in range(4)] == [n_readings + 1, *[n_readings] * 3]
    assert loads["y", 1] >= n_readings


@pytest.mark.covered(at_most=1)
@every_kind
def test_nothing_is_kept_for_each_row(kind, monkeypatch):
    sizes, joined = [], reduce._joined

    def watched(value):
        found = joined(value)
        sizes.extend(np.size(one) for one in (found if isinstance(found, tuple) else (found,)))
        return found

    monkeypatch.setattr(reduce, "_joined", watched)
    rows = np.tile(X, (4, 1))
    made(kind, random_state=None).fit(parts_of(rows, [9000] * 4, np.tile(y, 4)))
    # The largest are the grid of the median, and places in intervals.
    assert 16383 <= max(sizes) < len(rows)


WORDS = np.char.add(y.astype(str), "%")
BAD = {
    "stream": (lambda: RowBlocks(lambda: iter([X]), X.shape), {}, "from_partitions"),
    "no responses": (lambda: parts_of(X, LENGTHS), {}, "pass y to RowBlocks"),
    "bad row": (lambda: parts_of(spoiled(X), LENGTHS, y), {}, "Input X contains NaN"),
    "bad response": (lambda: parts_of(X, LENGTHS, spoiled(y)), {}, "Input y contains NaN"),
    "words": (lambda: parts_of(X, LENGTHS, WORDS), {}, "Targets of part 1"),
    "words of one part": (lambda: parts_of(X, [N], WORDS), {}, "Targets of part 0"),
    "raised": (lambda: RowBlocks.from_partitions([raising], [N], D, y=[y]), {}, "Part 0"),
    "other shape": (
        lambda: RowBlocks.from_partitions([lambda: X[:5]], [N], D, y=[y]),
        {},
        "Part 0 must have shape",
    ),
}


def spoiled(values):
    values = values.copy()
    values[-1] = np.nan
    return values


def raising():
    raise RuntimeError(str(X[0, 0]))


@every_kind
@pytest.mark.parametrize("case", BAD)
def test_bad_parts_are_refused_before_anything_is_charged(kind, case, ledger):
    make, parameters, words = BAD[case]
    model = made(kind, ledger=ledger, random_state=None, **parameters)
    with pytest.raises(ValueError, match=words) as refused:
        model.fit(make())
    assert ledger.entries() == []
    assert not hasattr(model, "n_features_in_")
    assert str(X[0, 0]) not in str(refused.value)
    assert str(y[0]) not in str(refused.value)
    assert refused.value.__context__ is None


def test_what_parts_cannot_have_is_refused():
    parts = parts_of(X, LENGTHS, y)
    for model in (made("linear"), made("matrices")):
        with pytest.raises(ValueError, match="leave out the y"):
            model.fit(parts, y)
        with pytest.raises(ValueError, match="requires y to be passed"):
            model.fit(X)
    public = made("matrices", privacy_unit="response")
    for ask in (public.fit, partial(public.plan, N, D)):
        with pytest.raises(ValueError, match="privacy_unit='response' needs public matrices"):
            ask(parts) if ask == public.fit else ask(like=parts)
    long = parts_of(sparse.csr_array((200, 65)), [100, 100], np.zeros(200))
    with pytest.raises(ValueError, match="sparse parts of more than 64 features"):
        DPTraceRegressor(random_state=SECRET).fit(long)
    assert made("linear").fit(long).coef_.shape == (65,)
    assert len(RankOneMatrices(X[:, :2], X[:, :3])) == N


def test_a_part_that_changes_later_ends_the_fit_and_is_charged(ledger):
    loads = Counter()

    def loaded():
        loads["all"] += 1
        return X[:5000] if loads["all"] < 4 else X[:4999]

    parts = RowBlocks.from_partitions(
        [loaded, partial(getitem, X, slice(5000, N))], [5000, N - 5000], D, y=[y[:5000], y[5000:]]
    )
    model = made("linear", ledger=ledger, random_state=None)
    with pytest.raises(ValueError, match="Part 0 must have shape"):
        model.fit(parts)
    assert len(ledger.entries()) == 1
    assert not hasattr(model, "coef_")


@pytest.mark.covered(at_most=2)
@every_kind
@pytest.mark.parametrize("bad", ["secret", 10**400, None, [1.0]], ids=str)
def test_a_response_that_is_no_number_any_more_raises_nothing(kind, bad):
    loads, changed = Counter(), y[:5].astype(object)
    changed[2] = bad

    def responses():
        loads["all"] += 1
        return y[:5].astype(object) if loads["all"] == 1 else changed

    loaders = [partial(getitem, X, slice(5)), partial(getitem, X, slice(5, N))]
    parts = RowBlocks.from_partitions(loaders, [5, N - 5], D, y=[responses, y[5:]])
    assert np.isfinite(made(kind, random_state=None).fit(parts).coef_).all()
    assert loads["all"] > 1
