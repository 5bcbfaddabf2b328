"""Factorizations of both sides of a matrix: what they return, and what they refuse."""

import numpy as np
import pytest
from low_rank import LOW_RANK
from scipy import sparse
from utility import KEY

from skdp import DPLowRankFactorizer, PrivacyWarning, RowBlocks
from skdp.data.rows import Rows
from skdp.data.sources import as_source
from skdp.decomposition.rows.fit import _deviations
from skdp.linalg.denoising import debiased, shrunk
from skdp.linalg.norms import bin_counts, row_norms
from skdp.privacy.clipping import clip_rows
from skdp.testing._recording import RecordingBudget, fit_with
from skdp.units import Entry, FrobeniusChange, SparseRow, Update

quiet = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
UNITS = {
    "row": {"row_norm": np.inf},
    "entry": {"privacy_unit": Entry((-np.inf, np.inf))},
    "frobenius": {"privacy_unit": FrobeniusChange(1.0, np.inf)},
}
EXACT = [
    *({**UNITS["row"], "solver": solver} for solver in ("auto", "projection")),
    *(
        {**UNITS[unit], "solver": solver}
        for unit in ("entry", "frobenius")
        for solver in ("auto", "input", "alternating", "two_sketch")
    ),
]


def best(X, rank):
    left, values, right = np.linalg.svd(X, full_matrices=False)
    return (left[:, :rank] * values[:rank]) @ right[:rank]


@pytest.mark.parametrize("more", EXACT, ids=str)
def test_without_noise_a_matrix_of_low_rank_is_found(more):
    model = DPLowRankFactorizer(3, epsilon=np.inf, **more).fit(LOW_RANK)
    np.testing.assert_allclose(model.reconstruct(), LOW_RANK, atol=1e-8)
    np.testing.assert_allclose(model.singular_values_, [9, 6, 3], rtol=1e-8)
    for basis in (model.components_.T, model.left_components_):
        np.testing.assert_allclose(basis.T @ basis, np.eye(3), atol=1e-10)


@pytest.mark.parametrize("more", EXACT[:4], ids=str)
def test_without_noise_the_best_approximation_is_found(more):
    X = LOW_RANK + 0.1 * np.random.default_rng(1).normal(size=LOW_RANK.shape)
    model = DPLowRankFactorizer(3, epsilon=np.inf, **more).fit(X)
    np.testing.assert_allclose(model.reconstruct(), best(X, 3), atol=1e-8)


@quiet
@pytest.mark.parametrize("unit", ["row", Entry((-5, 5)), FrobeniusChange(0.1)], ids=str)
def test_every_container_gives_what_an_array_does(unit):
    blocks = RowBlocks(lambda: iter([LOW_RANK[:25], LOW_RANK[25:]]), shape=LOW_RANK.shape)
    for X in (LOW_RANK, LOW_RANK.astype(np.float32), sparse.csr_array(LOW_RANK), blocks):
        row_norm = 5.0 if unit == "row" else None
        model = DPLowRankFactorizer(2, privacy_unit=unit, row_norm=row_norm, epsilon=1e6).fit(X)
        assert np.linalg.norm(model.reconstruct() - best(LOW_RANK, 2)) < 0.4
        assert model.components_.dtype == X.dtype
        assert model.score(X) == pytest.approx(-(3.0**2) / LOW_RANK.size, rel=0.05)


@quiet
def test_reconstruct_computes_what_is_asked_for():
    model = DPLowRankFactorizer(3, privacy_unit=Entry((-5, 5))).fit(LOW_RANK)
    whole = model.reconstruct()
    assert whole.shape == LOW_RANK.shape
    np.testing.assert_allclose(model.reconstruct([3, 1], slice(4)), whole[[3, 1], :4])
    np.testing.assert_allclose(model.reconstruct(columns=[2]), whole[:, [2]])
    np.testing.assert_allclose(model.reconstruct(rows=5), whole[5])
    assert np.ndim(model.reconstruct(5, 2)) == 0
    with pytest.raises(IndexError):
        model.reconstruct(rows=60)


@quiet
def test_the_score_is_that_of_rows_outside_the_components():
    X = LOW_RANK + 1.0
    model = DPLowRankFactorizer(2, row_norm=10.0).fit(X)
    V = model.components_.T
    expected = -np.mean((X - X @ V @ V.T) ** 2)
    assert model.score(X) == pytest.approx(expected)
    assert model.score(sparse.csr_array(X)) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(5))
def test_input_perturbation_is_within_its_bound(seed):
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(80, 60)) + 40 * best(draw.normal(size=(80, 60)), 3)
    model = DPLowRankFactorizer(3, privacy_unit=FrobeniusChange(1.0), solver="input", epsilon=2.0)
    model, budget = fit_with(model, X, RecordingBudget)
    noise = budget.released[0] - budget.values[0]
    bound = np.linalg.norm(X - best(X, 3)) + 2 * np.sqrt(6) * np.linalg.norm(noise, 2)
    assert np.linalg.norm(X - model.reconstruct()) <= bound


@pytest.mark.parametrize("shape", [(200, 50), (50, 200), (100, 100)], ids=str)
def test_shrunk_singular_values_fit_best_along_noisy_vectors(shape):
    draw = np.random.default_rng(0)
    u, v = (np.linalg.qr(draw.normal(size=(side, 1)))[0] for side in shape)
    fits, found = [], []
    for _ in range(30):
        x = 40.0
        left, values, right = np.linalg.svd(x * u @ v.T + draw.normal(size=shape))
        fits.append(x * (left[:, 0] @ u)[0] * (right[0] @ v)[0])
        seen = debiased(values[:1], 1.0, shape)
        found.append(shrunk(seen, 1.0, shape)[0])
    assert np.mean(found) == pytest.approx(np.mean(fits), rel=0.02)
    assert shrunk(np.zeros(2), 1.0, shape).max() == 0
    np.testing.assert_array_equal(shrunk(np.array([3.0, 0.0]), 0.0, shape), [3, 0])


def test_a_warning_says_that_left_components_are_noise():
    with pytest.warns(PrivacyWarning, match="% of left_components_ is signal"):
        model = DPLowRankFactorizer(2, row_norm=1.0, epsilon=8.0).fit(np.tile(LOW_RANK, (200, 1)))
    # That of the rows themselves is 9 times the root of 200.
    assert model.singular_values_.max() < 0.2 * 127


def kept(X, **parameters):
    """Squares without those of errors, over the same of the best matrix of rank 2."""
    model = DPLowRankFactorizer(2, **parameters).fit(X)
    left_out = np.sum(np.square(X - best(X, 2)))
    errors = np.sum(np.square(X - model.reconstruct()))
    return (np.sum(X**2) - errors) / (np.sum(X**2) - left_out)


@quiet
@pytest.mark.parametrize(("epsilon", "least"), [(0.5, 0.84), (16, 0.91), (256, 0.98)])
def test_rows_far_from_zero_keep_their_mean_however_small_the_budget(epsilon, least):
    rows = np.random.default_rng(0).normal(size=(2000, 12)) @ np.diag([2, 1.5] + [0.3] * 10)
    assert kept(rows + 1.8, epsilon=epsilon, random_state=KEY) > least
    # Around 0 there is no mean to keep, and noise is not taken for one.
    assert kept(rows, epsilon=0.5, random_state=KEY) > -0.02


def test_a_few_long_rows_do_not_hide_the_others():
    rows = np.random.default_rng(0).normal(size=(4000, 10)) @ np.diag([2, 1] + [0.2] * 8)
    rows[:8] *= 30
    found = DPLowRankFactorizer(2, epsilon=256, random_state=KEY).fit(rows).reconstruct()[8:]
    assert np.sum(np.square(found - rows[8:])) < 0.25 * np.sum(np.square(rows[8:]))


@pytest.mark.parametrize("contain", [np.asarray, sparse.csr_array])
def test_null_rows_are_neither_counted_nor_moved_by_the_mean(contain):
    rows = Rows(as_source(contain(np.ones((5, 3)))))
    norms = np.array([1.0, np.nan, 1, 1, np.nan])
    block = next(rows.blocks(range(1)))[1].weighted(np.ones_like, norms)
    found = _deviations(block, np.eye(3)[:, :2], np.array([3.0, 4.0]))
    np.testing.assert_array_equal(np.isnan(found).all(axis=1), np.isnan(norms))
    assert bin_counts(row_norms(found), np.array([1.0, 100.0])).sum() == 3
    assert np.abs(clip_rows(found, 1.0)[[1, 4]]).max() == 0


def test_memory_decides_between_solvers_of_promised_changes():
    unit = FrobeniusChange(1.0)
    plans = [
        DPLowRankFactorizer(2, privacy_unit=unit, max_memory=megabytes).plan(1000, 100)
        for megabytes in (4, 3)
    ]
    assert [plan.releases[0].name for plan in plans] == ["matrix", "right product 1"]
    pure = DPLowRankFactorizer(2, privacy_unit=unit, delta=0).plan(1000, 100)
    assert pure.releases[0].mechanism == "spherical"


def test_only_a_fresh_sketch_is_trusted_to_be_unknown():
    unit = FrobeniusChange(1.0)
    fresh, seeded = (
        DPLowRankFactorizer(2, privacy_unit=unit, solver="two_sketch", random_state=seed).plan(
            2000, 1000
        )
        for seed in (None, 2**100)
    )
    assert fresh.delta_tail == pytest.approx(0.5e-6)
    assert seeded.delta_tail == 0
    assert fresh.releases[0].sensitivity < seeded.releases[0].sensitivity


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 21}, "n_components=21"),
        ({"privacy_unit": "entry"}, "Entry"),
        ({"privacy_unit": SparseRow(3, (0, 1))}, "Row, Entry, FrobeniusChange"),
        ({"privacy_unit": Update(1.0)}, "Row, Entry, FrobeniusChange"),
        ({"solver": "input"}, "'projection'"),
        ({"privacy_unit": Entry((0, 1)), "solver": "projection"}, "'alternating'"),
        ({"privacy_unit": Entry((0, 1)), "row_norm": 1.0}, "row_norm"),
        ({"privacy_unit": FrobeniusChange(-1.0)}, "sensitivity"),
        ({"privacy_unit": FrobeniusChange(1.0), "solver": "input", "delta": 0}, "Gaussian"),
        ({"delta": 0}, "positive delta"),
        ({"row_norm": np.inf}, "row_norm=inf"),
    ],
    ids=str,
)
def test_what_contradicts_itself_is_refused(parameters, message):
    model = DPLowRankFactorizer(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(LOW_RANK)
    assert not hasattr(model, "components_")


@pytest.mark.parametrize("axis", ["rows", "columns"])
def test_no_index_that_is_asked_for_is_named(axis):
    model = DPLowRankFactorizer(2, epsilon=np.inf, **EXACT[0]).fit(LOW_RANK)
    for wrong in ([0, 77_777], -77_777, ["77777"], np.array([77_777.0])):
        with pytest.raises(IndexError, match=f"{axis} must be indices") as refused:
            model.reconstruct(**{axis: wrong})
        assert "7777" not in str(refused.value)
        assert refused.value.__context__ is None
    with pytest.raises(ValueError, match="masked"):
        model.reconstruct(**{axis: np.ma.array([0, 1], mask=[False, True])})


STARS = Entry((1, 5))


def ratings(seed):
    """Return all ratings, and which of them are known."""
    generator = np.random.default_rng(seed)
    users, items = generator.normal(size=(300, 2)), generator.normal(size=(2, 100))
    liked = 3.5 + users[:, :1] / 2 + items[:1] / 2 + users @ items / 2
    liked += generator.normal(size=liked.shape) / 2
    return np.clip(np.round(liked), 1, 5), generator.random(liked.shape) < 0.5


@quiet
@pytest.mark.parametrize("seed", range(2))
def test_missing_ratings_are_better_taken_for_the_middle_than_for_zero(seed):
    X, is_known = ratings(seed)
    known, others = sparse.csr_array(np.where(is_known, X, 0)), X[~is_known]
    errors = [
        np.sqrt(np.mean((predictions[~is_known] - others) ** 2))
        for predictions in (
            DPLowRankFactorizer(2, epsilon=16, privacy_unit=STARS, missing=missing)
            .fit(known)
            .reconstruct()
            for missing in ("middle", "zero")
        )
    ]
    of_mean = np.sqrt(np.mean((others - X[is_known].mean()) ** 2))
    assert errors[0] < of_mean < 1.5 < errors[1]


def test_the_middle_is_subtracted_from_known_entries_and_added_to_all():
    X, is_known = ratings(0)
    X[:] = np.where(is_known, X, 0)
    X[0, :2] = 9, -4
    around = np.where(X == 0, 0, X.clip(1, 5) - 3)
    unit = {"privacy_unit": STARS, "missing": "middle"}
    model = DPLowRankFactorizer(4, epsilon=np.inf, solver="input", **unit)
    for given in (X, X.astype(np.float32), sparse.csr_array(X), sparse.csc_array(X)):
        fitted = model.fit(given)
        assert fitted.middle_ == 3
        np.testing.assert_allclose(fitted.reconstruct(), best(around, 4) + 3, atol=1e-4)
        projected = np.where(X == 0, 0, X - 3) @ fitted.components_.T
        np.testing.assert_allclose(fitted.transform(given), projected, atol=1e-4)
        restored = projected @ fitted.components_ + 3
        np.testing.assert_allclose(fitted.inverse_transform(projected), restored, atol=1e-4)
        outside = np.where(X == 0, 0, X - 3) - restored + 3
        assert fitted.score(given) == pytest.approx(-np.mean(outside**2), rel=1e-4)
    with pytest.warns(PrivacyWarning, match="zero' approximates them as zeros"):
        assert not hasattr(model.set_params(missing="zero").fit(X), "middle_")


@pytest.mark.parametrize(("adjacency", "step"), [("replace", 4), ("zero_out", 2)])
def test_around_the_middle_an_entry_moves_by_the_bounds_and_a_missing_one_by_half(adjacency, step):
    plan = DPLowRankFactorizer(
        2, privacy_unit=STARS, missing="middle", solver="input", adjacency=adjacency
    ).plan(30, 20)
    assert plan.releases[0].sensitivity == pytest.approx(step, rel=1e-4)


@pytest.mark.parametrize(
    "unit",
    ["row", FrobeniusChange(1.0), Entry((1, 5), zero_is_missing=False), Entry((1, np.inf))],
    ids=str,
)
def test_only_entries_that_may_be_missing_have_a_middle(unit):
    model = DPLowRankFactorizer(2, epsilon=np.inf, privacy_unit=unit, missing="middle")
    with pytest.raises(ValueError, match="missing='middle' is for entries with finite bounds"):
        model.fit(LOW_RANK)
