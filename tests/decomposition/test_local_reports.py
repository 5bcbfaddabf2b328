"""Reports of persons: what one row can do to a report, its noise, and what is aggregated."""

import math
import pickle

import numpy as np
import pytest

import skdp
from skdp import LocalReports
from skdp.ledger import PrivacyLedger
from skdp.metrics import captured_variance
from skdp.privacy import PrivacyBudget

D, NORM = 12, 2.0
LOCAL = LocalReports(D, row_norm=NORM, epsilon=8.0)
EXACT = LocalReports(D, row_norm=1e6, epsilon=math.inf)
generator = np.random.default_rng(0)
DIRECTIONS = np.linalg.qr(generator.normal(size=(D, 2)))[0]
ROWS = 40 * generator.normal(size=(300, 2)) @ DIRECTIONS.T


def reports_of(local, noisy):
    """Return noisy rows in the format of reports."""
    return [f"{local!r}\n".encode() + row.tobytes() for row in noisy]


def numbers_of(report):
    return np.frombuffer(report.partition(b"\n")[2], "<f8")


def without_noise(monkeypatch, row):
    """Return what is released of a row, before its noise, and the declared change."""
    seen = []

    def noticed(budget, release, value, *facts, **more):
        seen.append((np.array(value), release.sensitivity_for(*facts, **more)))
        return right(budget, release, value, *facts, **more)

    right = PrivacyBudget.release
    monkeypatch.setattr(PrivacyBudget, "release", noticed)
    LOCAL.report(row)
    monkeypatch.undo()
    ((value, change),) = seen
    return value, change


def test_no_row_moves_a_report_by_more_than_declared(monkeypatch):
    sizes = (0.0, 5e-324, 1e-300, 1.0, NORM, 2 * NORM, 1e9, 1e300)
    vectors = [*np.eye(D)[:3], *ROWS[:5], np.ones(D), np.ones(D) * 1e300]
    with np.errstate(over="ignore"):
        rows = [size * side * one for one in vectors for size in sizes for side in (1, -1)]
    rows = [row for row in rows if np.isfinite(row).all()]
    found = [without_noise(monkeypatch, row) for row in rows]
    values, changes = np.array([one for one, _ in found]), {change for _, change in found}
    (change,) = changes
    largest = max(np.linalg.norm(values - one, axis=1).max() for one in values)
    assert 0.999 * change < largest <= change == pytest.approx(2 * NORM)


def test_the_noise_of_a_report_is_that_of_its_plan():
    (release,) = LOCAL.plan().releases
    assert release.noise_std == pytest.approx(2 * NORM / LOCAL.plan().mu, rel=1e-3)
    row = NORM * np.eye(D)[0]
    noise = np.array([numbers_of(LOCAL.report(row)) for _ in range(400)]) - row
    assert noise.std() == pytest.approx(release.noise_std, rel=0.08)
    assert np.abs(noise.mean()) < 0.2 * release.noise_std


def test_without_noise_the_factors_are_those_of_the_rows():
    reports = [EXACT.report(row) for row in ROWS]
    factors = EXACT.aggregate(reports, 2)
    np.testing.assert_allclose(factors.reconstruct(rows=range(300)), ROWS, atol=1e-9)
    assert factors.privacy_spent_.unit == "row"


def test_many_reports_show_the_directions_of_the_rows():
    generator = np.random.default_rng(1)
    rows = np.clip(generator.normal(size=(6000, 2)), -1.4, 1.4) @ DIRECTIONS.T
    local = LocalReports(D, row_norm=NORM, epsilon=32.0)
    (release,) = local.plan().releases
    # As reports are made, but at once.
    reports = rows + release.noise_std * generator.normal(size=rows.shape)
    found = local.aggregate(reports_of(local, reports), 2)
    assert captured_variance(found.components_, rows) > 0.95
    assert (found.singular_values_ > 0).all()
    assert found.left_components_.shape == (6000, 2)


def test_components_that_noise_hides_are_warned_of():
    (release,) = LOCAL.plan().releases
    draws = release.noise_std * np.random.default_rng(0).normal(size=(20, 60, D))
    with pytest.warns(skdp.PrivacyWarning, match="of 2 components stand out"):
        found = [LOCAL.aggregate(reports_of(LOCAL, noisy), 2) for noisy in draws]
    # Noise alone exceeds its edge in one draw of ten.
    assert np.mean([not one.singular_values_.any() for one in found]) >= 0.7


def test_a_forged_report_moves_no_more_than_a_row_and_its_noise():
    rows = NORM * np.tile(DIRECTIONS[:, 0], (2000, 1))
    (release,) = LOCAL.plan().releases
    reports = rows + release.noise_std * np.random.default_rng(2).normal(size=rows.shape)
    forged = np.vstack([reports, 1e12 * np.eye(D)[:1]])
    one, other = (
        LOCAL.aggregate(reports_of(LOCAL, these), 1).components_[0] for these in (reports, forged)
    )
    assert abs(one @ other) > 0.95


def test_what_is_no_row_is_refused_before_anything_is_spent(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "mine.db", dataset="my row", epsilon=8.0, delta=1e-6)
    local = LocalReports(D, row_norm=NORM, epsilon=8.0, ledger=ledger)
    for bad in (np.ones(D + 1), np.ones((2, D)), np.full(D, np.nan), ["a"] * D):
        with pytest.raises(ValueError, match=r"row|NaN|float"):
            local.report(bad)
    local.report(np.ones(D))
    # A second report of the same person would spend twice.
    with pytest.raises(skdp.BudgetError):
        local.report(np.ones(D))


def test_parameters_and_reports_are_checked():
    for wrong in ({"n_features": 0}, {"row_norm": 0.0}, {"row_norm": math.inf}, {"delta": 0.0}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))!r} parameter"):
            LocalReports(**({"n_features": D, "row_norm": 1.0} | wrong))
    with pytest.raises(ValueError, match="n_components=3 must be"):
        LOCAL.aggregate(reports_of(LOCAL, np.ones((2, D))), 3)
    with pytest.raises(ValueError, match="reports contains NaN"):
        LOCAL.aggregate(reports_of(LOCAL, np.full((2, D), np.nan)), 1)
    assert repr(pickle.loads(pickle.dumps(LOCAL))) == repr(LOCAL)


@pytest.mark.filterwarnings("ignore:Only 0 of 1:skdp.PrivacyWarning")
def test_what_report_has_not_made_is_refused():
    """The record would call rows without noise private."""
    raw = 3 * LOCAL.plan().releases[0].noise_std * generator.normal(size=(50, D))
    other = LocalReports(D, row_norm=NORM, epsilon=16.0)
    good = [LOCAL.report(row) for row in raw]
    for bad in (raw, [*raw], raw.tolist(), good[0], np.array(good), None, []):
        with pytest.raises(ValueError, match=r"report.* Rows are not private: each person calls"):
            LOCAL.aggregate(bad, 1)
    for bad in (raw[0].tobytes(), raw[0], EXACT.report(raw[0]), other.report(raw[0]), good[0][:-8]):
        with pytest.raises(
            ValueError, match=r"^reports\[50\] is no result of .*\(12, row_norm=2.0"
        ):
            LOCAL.aggregate([*good, bad], 1)
    same = LocalReports(np.int64(D), row_norm=2, epsilon=8, delta=np.float64(1e-6))
    assert same.aggregate(pickle.loads(pickle.dumps(good)), 1).components_.shape == (1, D)
