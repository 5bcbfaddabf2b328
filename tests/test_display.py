"""Displays draw what was released, planned or charged, and nothing else."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.special import ndtri
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.pipeline import make_pipeline

from skdp import (
    DPPCA,
    DPPipeline,
    DPStandardScaler,
    PrivacyLedger,
    PrivacyWarning,
    privacy_spent,
)
from skdp.display import (
    EpsilonCurveDisplay,
    ExplainedVarianceDisplay,
    PrivacyBudgetDisplay,
    ScoreHistogramDisplay,
    score_histogram,
)

mpl.use("Agg")
X = np.random.default_rng(0).normal(size=(400, 6)) * [9, 5, 2, 1, 1, 1]
BOUNDS = {"mean_norm": 30.0, "row_norm": 30.0}


@pytest.fixture
def pca():
    with pytest.warns(PrivacyWarning):
        return DPPCA(3, **BOUNDS, random_state=0).fit(X)


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_bars_are_the_released_variances_above_their_floor(ax):
    with pytest.warns(PrivacyWarning):
        model = DPPipeline([("pca", DPPCA(3, **BOUNDS))]).fit(X)
    shown, pca = ExplainedVarianceDisplay.from_estimator(model, ax=ax), model[-1]
    assert [bar.get_height() for bar in shown.bars_] == pca.explained_variance_.tolist()
    assert set(shown.floor_.get_ydata()) == {pca.noise_variance_}
    assert shown.ax_ is ax
    assert shown.figure_ is ax.figure


def test_error_bars_are_those_of_the_estimator_and_there_may_be_no_floor(ax):
    svd = TruncatedSVD(2).fit(X)
    svd.explained_variance_std_error_ = np.array([0.5, 0.25])
    shown = ExplainedVarianceDisplay.from_estimator(svd, ax=ax)
    assert shown.floor_ is None
    _, _, (bars,) = shown.bars_.errorbar
    lengths = [np.ptp(segment[:, 1]) for segment in bars.get_segments()]
    np.testing.assert_allclose(lengths, [1.0, 0.5])


def test_plans_and_records_show_the_same_shares(pca, ax):
    plan = pca.plan(n_samples=400, n_features=6)
    planned = PrivacyBudgetDisplay.from_plan(plan, ax=ax)
    spent = PrivacyBudgetDisplay.from_plan(pca, ax=Figure().add_subplot())
    assert planned.names == spent.names == ("mean", "second moment")
    widths = [[bar.get_width() for bar in shown.bars_] for shown in (planned, spent)]
    assert widths[0] == widths[1]
    assert sum(widths[0]) == pytest.approx(1)


def test_counts_of_a_search_are_one_bar_and_other_things_are_refused(pca):
    plan = DPPCA(3).plan(n_samples=400, n_features=6)
    shown = PrivacyBudgetDisplay.from_plan(plan)
    assert len(shown.bars_) < len(plan.releases)
    for draw, told in (
        (
            lambda pca: ExplainedVarianceDisplay.from_estimator(
                DPStandardScaler(epsilon=np.inf).fit(X)
            ),
            "end with DPPCA or DPTruncatedSVD, got DPStandardScaler",
        ),
        (lambda pca: score_histogram(DPStandardScaler(), X), "that ends with one, got"),
        (lambda pca: score_histogram(make_pipeline(clone(pca)), X), "not fitted yet"),
    ):
        with pytest.raises((TypeError, ValueError), match=told):
            draw(pca)


def test_a_ledger_shows_its_charges_and_what_is_left(tmp_path, ax):
    ledger = PrivacyLedger.create(
        tmp_path / "ledger", dataset="rows", epsilon=4.0, delta=1e-5, unit="row"
    )
    noted = PrivacyLedger(ledger.path, note="tried <b>bold</b>")
    for one in (ledger, noted):
        with pytest.warns(PrivacyWarning):
            DPPCA(2, **BOUNDS, ledger=one, random_state=0).fit(X)
    shown = PrivacyBudgetDisplay.from_ledger(ledger, ax=ax)
    assert shown.names == ["DPPCA.fit, 400 rows", "tried <b>bold</b>", "left"]
    assert sum(bar.get_width() for bar in shown.bars_) == pytest.approx(1)
    assert "tried &lt;b&gt;bold" in ledger._repr_html_()


def test_plans_records_and_reports_show_their_text_in_notebooks(pca):
    for one in (pca.plan(n_samples=400, n_features=6), pca.privacy_spent_, privacy_spent(pca)):
        assert one._repr_html_().startswith("<pre>")
        assert repr(one).splitlines()[0].replace("'", "&#x27;") in one._repr_html_()


def test_a_curve_draws_medians_of_fits_to_public_rows():
    shown = EpsilonCurveDisplay.from_estimator(
        DPPCA(2, **BOUNDS), X, epsilons=[0.5, 2.0], n_samples=40_000, n_repeats=3
    )
    medians = np.median(shown.scores, axis=1)
    assert shown.line_.get_ydata().tolist() == medians.tolist()
    assert [text.get_text() for text in shown.ax_.get_xticklabels()] == ["0.5", "2"]


def test_cells_show_released_counts_and_no_noise(pca, ax):
    found = score_histogram(make_pipeline(pca), X, epsilon=4.0, components=(1, 0), n_bins=8)
    shown = ScoreHistogramDisplay.from_histogram(found, ax=ax)
    (mesh,) = shown.meshes_
    cells = mesh.get_array()
    # Of 64 cells of noise alone all stay below this with a probability of 95%.
    is_drawn = -ndtri(0.05 / 64) * found.std < found.counts.T
    np.testing.assert_array_equal(cells.mask, ~is_drawn)
    np.testing.assert_array_equal(cells[is_drawn], found.counts.T[is_drawn])
    assert is_drawn.any()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("component 2", "component 1")
    corners = mesh.get_coordinates()
    np.testing.assert_allclose(corners[0, 1:-1, 0], found.edges[0])
    np.testing.assert_allclose(corners[1:-1, 0, 1], found.edges[1])


def test_a_cell_has_the_color_of_its_largest_group(ax):
    pca = DPPCA(3, epsilon=np.inf).fit(X)
    groups = np.where(X[:, 1] > 0, 7, 3)
    found = score_histogram(pca, X, groups=groups, classes=[3, 5, 7], epsilon=8.0, n_bins=6)
    shown = ScoreHistogramDisplay.from_histogram(found, ax=ax)
    drawn = [~mesh.get_array().mask.T for mesh in shown.meshes_]
    assert drawn[0].any()
    assert drawn[2].any()
    assert not (drawn[0] & drawn[2]).any()
    assert (found.counts.argmax(axis=0)[drawn[2]] == 2).all()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["3", "5", "7"]
