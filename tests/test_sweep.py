"""What the sweep counts: failures without a warning, falls, misses, cells without a model."""

import json

import pytest

from benchmarks.sweep import measures, sweep, tables
from benchmarks.sweep.measures import Fit, cells_of, counts_of_warnings, falls, plain_text


def fit(score, *said, epsilon=1.0, rep=0, twin=0.9, trivial=0.0, error=""):
    key = "regression", "table", "none", epsilon, rep
    return Fit(*key, score, twin, trivial, list(said), error, 0.1)


def cell(*scores, **more):
    (found,) = cells_of(fit(score, rep=rep, **more) for rep, score in enumerate(scores)).values()
    return found


def test_only_failures_without_a_warning_and_an_error_are_silent():
    assert fit(-0.1).is_silent_failure
    others = fit(-0.1, "noise"), fit(-0.1, error="ValueError: too small"), fit(-0.01), fit(0.5)
    assert not any(one.is_silent_failure for one in others)


def test_a_warning_of_a_fit_as_good_as_its_twin_is_a_false_alarm():
    assert fit(0.895, "noise").is_false_alarm
    assert not fit(0.895).is_false_alarm
    assert not fit(0.8, "noise").is_false_alarm


def test_a_fit_is_good_only_if_each_of_its_scores_is():
    auc, loss = fit(0.895, "noise"), fit(0.5, "noise")._replace(mode="none -loss")
    assert measures.good_by_each_score([auc, loss]) == []
    assert measures.good_by_each_score([auc, loss._replace(score=0.9)]) == [auc]


def test_a_mean_is_compared_with_the_twins_of_its_own_rows():
    fits = [
        fit(twin, epsilon=256.0, rep=rep, twin=twin) for rep, twin in enumerate((0.9, 0.8, 0.8))
    ]
    (found,) = cells_of(fits).values()
    assert found.twin == pytest.approx(found.mean)
    assert not measures.is_miss(found)


def test_a_useless_score_does_not_make_the_mean():
    assert cell(0.8, -1e6).mean == pytest.approx(-0.1)
    assert measures.is_below(cell(0.8, -1e6))
    assert not measures.is_below(cell(-0.04, -0.04))


@pytest.mark.parametrize(
    ("scores", "more", "is_so"),
    [
        ((0.001, -0.002, 0.5), {}, True),
        ((0.0, 0.5, 0.5), {}, False),
        ((0.0, 0.4), {"error": "BudgetError"}, True),
    ],
)
def test_half_of_the_fits_without_a_model_make_a_cell_without_one(scores, more, is_so):
    assert measures.has_no_model(cell(*scores, **more)) == is_so


def test_misses_are_those_of_the_largest_budget_beyond_chance():
    assert measures.is_miss(cell(0.8, 0.81, 0.8, epsilon=256.0))
    assert not measures.is_miss(cell(0.8, 0.81, 0.8, epsilon=16.0))
    assert not measures.is_miss(cell(0.6, 0.9, 0.9, epsilon=256.0))


def test_a_fall_is_beyond_chance_and_behind_the_twin():
    def fallen(before, after, **more):
        pairs = ((1.0, before), (4.0, after))
        several = [
            fit(score, epsilon=epsilon, rep=rep, **more)
            for epsilon, scores in pairs
            for rep, score in enumerate(scores)
        ]
        return [change for change, _ in falls(cells_of(several))]

    assert fallen([0.8, 0.82, 0.81], [0.7, 0.72, 0.71]) == [pytest.approx(-0.1)]
    assert fallen([0.8, 0.82, 0.81], [0.9, 0.5, 0.85]) == []
    assert fallen([0.8, 0.82, 0.81], [0.7, 0.72, 0.71], twin=0.7) == []


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (
            "Step 'a', which has 0.15 of the budget: 12 rows are few for 3,000 columns. Pass more.",
            "# rows are few for # columns",
        ),
        (
            "Columns that do not vary, as far as can be told: 1 of 5 (d). Leave them",
            "Columns that do not vary, as far as can be told",
        ),
        ("row norm: clipping at 1.2e+04 loses 35%. Pass it.", "row norm: clipping at # loses #"),
    ],
)
def test_warnings_are_told_apart_by_their_words(text, plain):
    assert plain_text(text) == plain


def test_a_warning_is_counted_once_for_each_score():
    said = "1 of 5 columns are constant", "2 of 5 columns are constant"
    (found,) = counts_of_warnings([fit(0.9, *said), fit(0.5, said[0]), fit(0.9)])
    assert (found.text, found.good, found.others) == ("# of # columns are constant", 1, 1)


def test_a_fit_that_is_refused_scores_as_no_model(tmp_path, monkeypatch):
    def refuse(epsilon):
        raise ValueError("refused")

    def job(rep):
        yield tables.Task(
            "case", "mode", refuse, {"": 1.0, " -loss": -0.1}, {"": 0.5, " -loss": -0.7}
        )

    monkeypatch.setitem(sweep.DESIGNS, "far", job)
    found = sweep.measured("far", "", 3, (1.0, 4.0))
    assert [(one.mode, one.epsilon, one.score) for one in found] == [
        *(("mode", 1.0, 0.5), ("mode -loss", 1.0, -0.7)),
        *(("mode", 4.0, 0.5), ("mode -loss", 4.0, -0.7)),
    ]
    assert {one.error for one in found} == {"ValueError: refused"}
    (file := tmp_path / "found.jsonl").write_text(
        "".join(json.dumps(one._asdict()) + "\n" for one in found)
    )
    assert list(measures.read(file)) == found
