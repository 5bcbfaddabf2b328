"""The ledger of a dataset: what it takes, what it refuses, and what it says."""

import copy
import math
import os
import pickle
import re
import runpy
import sys

import numpy as np
import pytest
from ledger_processes import Fit
from sklearn.base import clone

from skdp import DPPCA, BudgetError, LedgerError, PrivacyLedger
from skdp.ledger.__main__ import main
from skdp.ledger._file import WHOLE, Limit
from skdp.privacy import PrivacyBudget, gaussian_dp, pure_dp

LIMIT = {"dataset": "people", "epsilon": 4.0, "delta": 1e-6}


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger.create(tmp_path / "people.skdp", **LIMIT)


def mu_of(epsilon, delta=1e-6, tail=0.0):
    return gaussian_dp.mu_from_epsilon_delta(epsilon, delta, tail)


def a_fit(epsilon, delta=1e-6, **more):
    return Fit(mu_of(epsilon, delta), epsilon, delta, **more)


def test_one_fit_of_the_whole_limit_fits_and_nothing_else(ledger):
    assert ledger.remaining() == pytest.approx(4.0, rel=1e-9)
    ledger.charge(a_fit(4.0))
    assert ledger.spent()[2] == 1.0
    assert ledger.remaining() == 0.0
    with pytest.raises(BudgetError, match="has less left: 0, at delta=1e-06"):
        ledger.charge(Fit(1e-200, 1e-200))
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize("epsilon", [0.7, 1.3, 3.9])
def test_the_epsilon_that_a_refusal_names_is_accepted(ledger, epsilon):
    ledger.charge(a_fit(epsilon))
    with pytest.raises(BudgetError) as refused:
        ledger.charge(a_fit(4.0))
    left = float(re.search(r"less left: ([\d.]+), at", str(refused.value))[1])
    assert left == pytest.approx(ledger.remaining(), rel=1e-3)
    ledger.charge(a_fit(left))


@pytest.mark.parametrize("n_fits", [2, 3, 10, 97])
def test_as_many_fits_as_are_promised_fit(tmp_path, n_fits):
    ledger = PrivacyLedger.create(tmp_path / "file", **LIMIT)
    epsilon = ledger.remaining(n_fits)
    for _ in range(n_fits):
        ledger.charge(a_fit(epsilon))
    mu, spent, share = ledger.spent()
    assert share <= 1
    assert spent <= 4.0 * (1 + 1e-9)
    assert mu == pytest.approx(math.sqrt(n_fits) * mu_of(epsilon))
    with pytest.raises(BudgetError):
        ledger.charge(a_fit(epsilon))


def test_the_record_of_a_fit_is_charged(ledger):
    budget = PrivacyBudget(1.0, 1e-6, unit="row", adjacency="replace")
    budget.gaussian("sum", np.zeros(3), sensitivity=1.0, share=1.0)
    ledger.charge(budget.spent(), "sums")
    assert ledger.spent()[1] == pytest.approx(1.0, rel=1e-6)
    (entry,) = ledger.entries()
    assert (entry["what"], entry["unit"], entry["epsilon"]) == ("sums", "row", 1.0)


def test_tails_are_charged_beside(ledger):
    tail = 0.5e-6
    fit = Fit(mu_of(2.0, 1e-6, tail), 2.0, 1e-6, tail)
    ledger.charge(fit)
    left = ledger.remaining()
    # What is left has to do with half of delta.
    total = math.hypot(mu_of(left), fit.mu)
    assert gaussian_dp.epsilon_at(total, 1e-6, tail) == pytest.approx(4.0, rel=1e-6)
    with pytest.raises(BudgetError):
        ledger.charge(Fit(1e-3, 1.0, 1e-6, tail))


def test_a_ledger_of_pure_privacy_counts_epsilon(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "file", dataset="pure", epsilon=2.0, delta=0)
    pure = PrivacyBudget(0.5, 0.0, unit="row", adjacency="replace")
    pure.laplace("count", 1.0, sensitivity=1.0, share=1.0)
    for _ in range(4):
        ledger.charge(pure.spent())
    assert ledger.spent()[1] == pytest.approx(2.0)
    with pytest.raises(BudgetError):
        ledger.charge(pure.spent())
    with pytest.raises(BudgetError, match=r"delta=0 to it.*create\(\.\.\., delta=1e-6\)"):
        ledger.charge(a_fit(0.1))


@pytest.mark.parametrize(
    ("fit", "told"),
    [
        (Fit(1.0, unit="entry"), "counts row .* made with unit='entry' and adjacency='replace'\\."),
        (Fit(1.0, adjacency="zero_out"), "needs a ledger of its own"),
        (Fit(math.inf, math.inf), "no cost to charge"),
        (Fit(math.nan), "no cost to charge"),
        (Fit(-1.0), "no cost to charge"),
        (1.0, "must be the record of a fit"),
    ],
)
def test_what_cannot_be_counted_is_refused(ledger, fit, told):
    with pytest.raises((BudgetError, TypeError, ValueError), match=told):
        ledger.charge(fit)
    assert ledger.entries() == []


def test_units_that_are_the_same_are_said_to_be(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "file", unit=("row", "record"), **LIMIT)
    ledger.charge(a_fit(1.0, unit="record"))
    ledger.charge(a_fit(1.0, unit="row"))
    assert "per row or record" in ledger.report()


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": math.inf},
        {"epsilon": 0},
        {"delta": 1},
        {"delta": -1e-9},
        {"adjacency": "add"},
        {"unit": ()},
        {"unit": "two words"},
    ],
)
def test_limits_that_are_none_are_refused_and_make_no_file(tmp_path, wrong):
    path = tmp_path / "file"
    with pytest.raises(ValueError, match=r"limit|adjacency|unit"):
        PrivacyLedger.create(path, **{**LIMIT, **wrong})
    assert not path.exists()


def test_no_file_is_replaced_and_a_missing_one_is_not_made(tmp_path, ledger):
    ledger.charge(a_fit(1.0))
    with pytest.raises(
        LedgerError, match=r"There is a file or folder at .* PrivacyLedger\(path\) opens a"
    ):
        PrivacyLedger.create(ledger.path, **LIMIT)
    assert len(ledger.entries()) == 1
    missing = tmp_path / "missing"
    with pytest.raises(LedgerError, match="A missing file is no unspent budget"):
        PrivacyLedger(missing)
    assert not missing.exists()


def test_another_file_in_its_place_is_refused(tmp_path, ledger):
    other = PrivacyLedger.create(tmp_path / "other", **LIMIT)
    (tmp_path / "other").replace(ledger.path)
    with pytest.raises(LedgerError, match="is another ledger now"):
        ledger.charge(a_fit(1.0))
    with pytest.raises(LedgerError, match="There is no ledger"):
        other.remaining()


def test_copies_mean_the_same_file_and_open_nothing(ledger):
    assert clone(ledger) is ledger
    for one in (copy.deepcopy(ledger), pickle.loads(pickle.dumps(ledger))):
        assert (one.path, one.note) == (ledger.path, ledger.note)
    pickled = pickle.dumps(ledger)
    ledger.charge(a_fit(1.0))
    assert len(pickle.loads(pickled).entries()) == 1
    assert repr(ledger) == f"PrivacyLedger({ledger.path!r})"


def test_the_report_tells_what_was_charged(ledger):
    ledger.charge(a_fit(1.0), "DPPCA.fit 1437 x 64")
    text = ledger.report()
    assert "'people', per row, adjacency 'replace'" in text
    assert "limit (4, 1e-06)-DP; spent (1, 1e-06)-DP, 8.0%" in text
    assert text.splitlines()[-1].endswith("DPPCA.fit 1437 x 64")


def test_the_report_is_printed_by_a_command(tmp_path, ledger, capsys, monkeypatch):
    ledger.charge(a_fit(1.0), "one")
    monkeypatch.setattr(sys, "argv", ["skdp.ledger", "show", ledger.path])
    monkeypatch.delitem(sys.modules, "skdp.ledger.__main__")  # imported above, which warns
    with pytest.raises(SystemExit) as left:
        runpy.run_module("skdp.ledger", run_name="__main__")
    assert (left.value.code, capsys.readouterr().out.rstrip()) == (0, ledger.report())
    assert main(["show", str(tmp_path / "missing")]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert "There is no ledger" in told.err
    assert main(["list"]) == 2


def test_costs_are_whole_numbers_rounded_up():
    limit = Limit.of(4.0, 1e-6)
    assert limit.cost_of(a_fit(4.0))[0] == WHOLE
    assert limit.cost_of(Fit(1e-200))[0] == 1
    for parts in (2, 3, 7, 1000, 10**6):
        part, _ = limit.cost_of(Fit(limit.mu / math.sqrt(parts)))
        assert abs(parts * part - WHOLE) <= parts + WHOLE * 1e-15
        # Never too little: what is told is computed from the sum.
        assert part >= WHOLE / parts * (1 - 1e-15)
    assert limit.left(WHOLE) < 0
    assert limit.left(0) == WHOLE
    units = [limit.left(int(share * WHOLE)) for share in (0.1, 0.5, 0.9, 0.9999)]
    assert units == sorted(units, reverse=True)
    assert units[-1] > 0


@pytest.mark.covered
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("tail", [1e-3, 0.1, 0.5])
def test_one_fit_with_a_tail_of_the_whole_limit_fits(tmp_path, epsilon, tail):
    limit = {**LIMIT, "epsilon": epsilon}
    ledger = PrivacyLedger.create(tmp_path / "file", **limit)
    ledger.charge(Fit(mu_of(epsilon, tail=tail * 1e-6), epsilon, delta_tail=tail * 1e-6))
    assert ledger.spent()[1] <= epsilon * (1 + 1e-9)
    assert "is reserved for tails" in ledger.report()


def test_tails_are_told_of(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "file", **LIMIT)
    epsilon = ledger.remaining(5, 1e-6, delta_tail=1e-7)
    for _ in range(5):
        ledger.charge(Fit(mu_of(epsilon, tail=1e-7), epsilon, delta_tail=1e-7))
    ledger = PrivacyLedger.create(tmp_path / "other", **LIMIT)
    assert ledger.remaining(10, delta_tail=1e-7) == 0
    for _ in range(9):
        ledger.charge(Fit(1e-3, 1e-3, delta_tail=1e-7))
    with pytest.raises(BudgetError, match=r"also reserves 1e-07 of delta"):
        ledger.charge(Fit(1e-3, 1e-3, delta_tail=1e-7))


def test_pure_fits_of_a_ledger_with_a_delta(ledger):
    epsilon = ledger.remaining(3, delta=0)
    assert 0 < epsilon < 1
    for _ in range(3):
        mu = pure_dp.mu_from_epsilon(epsilon)
        ledger.charge(Fit(mu, epsilon, 0.0))
    assert ledger.remaining(delta=0) < epsilon


@pytest.mark.parametrize("n_fits", [0, -1, 2.5, math.nan, math.inf])
def test_numbers_of_fits_that_are_none_are_refused(ledger, n_fits):
    with pytest.raises(ValueError, match="n_fits must be an int"):
        ledger.remaining(n_fits)


def test_a_ledger_without_delta_has_none_left(tmp_path):
    ledger = PrivacyLedger.create(tmp_path / "file", **{**LIMIT, "delta": 0.0})
    with pytest.raises(ValueError, match="delta must be 0"):
        ledger.remaining(delta=1e-6)


def test_a_failed_creation_leaves_no_file(tmp_path):
    with pytest.raises(LedgerError):
        PrivacyLedger.create(tmp_path / "file", **{**LIMIT, "dataset": "\ud800"})
    assert not list(tmp_path.iterdir())
    PrivacyLedger.create(os.fsencode(tmp_path / "file"), **LIMIT).verify()


def test_a_charge_takes_one_line_of_the_report(ledger):
    ledger.charge(a_fit(1.0), what="DPPCA.fit\n    2 2030-01-01  forged")
    assert len(ledger.report().splitlines()) == 4


@pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")
def test_entries_carry_notes(ledger):
    ledger.charge(a_fit(0.1), "alone")
    noted = PrivacyLedger(ledger.path, note="for the report")
    assert clone(DPPCA(ledger=noted)).ledger.note == "for the report"
    sent = pickle.loads(pickle.dumps(noted))
    DPPCA(1, row_norm=1.0, center=False, epsilon=0.1, ledger=sent).fit(np.eye(9, 4))
    noted.charge(a_fit(0.1), "by hand", note="another\n1 2030-01-01  forged")
    ledger.charge(a_fit(0.1), "by hand", note="")
    notes = [entry["note"] for entry in ledger.entries()]
    assert notes == [None, "for the report", "another\n1 2030-01-01  forged", ""]
    assert ledger.report().splitlines()[-3].endswith("DPPCA.fit, 9 rows (for the report)")
    assert len(ledger.report().splitlines()) == 7
    assert repr(noted) == f"PrivacyLedger({ledger.path!r}, note='for the report')"
    ledger.verify()
    for wrong in (lambda: ledger.charge(a_fit(0.1), note=3), lambda: PrivacyLedger("x", note=b"")):
        with pytest.raises(TypeError, match="note must be a str or None"):
            wrong()
    assert len(ledger.entries()) == 4


def test_a_fit_that_comes_back_is_known_by_its_id(ledger):
    ledger.charge(a_fit(0.1), "first")
    for _ in range(3):
        ledger._charge(a_fit(2.0), "dies", note="once", fit="a")
    other = PrivacyLedger(ledger.path)
    other._charge(a_fit(2.0), "dies", fit="a")
    assert [(one["what"], one["note"]) for one in ledger.entries()] == [
        ("first", None),
        ("dies", "once"),
    ]
    # Neither the same fit without an id nor one with another.
    ledger.charge(a_fit(0.1), "dies")
    ledger._charge(a_fit(0.1), "dies", fit="b")
    assert len(ledger.entries()) == 4
    ledger.verify()
    # One who comes back needs nothing of what is left; a second fit does.
    ledger.charge(a_fit(ledger.remaining()), "the rest")
    ledger._charge(a_fit(2.0), "dies", fit="a")
    with pytest.raises(BudgetError):
        ledger._charge(a_fit(2.0), "dies", fit="c")
    assert len(ledger.entries()) == 5


def test_only_a_ledger_is_one(ledger):
    class Other:
        def charge(self, spent, what=""):
            pass

    for wrong in (Other(), PrivacyLedger, str(ledger.path)):
        with pytest.raises(ValueError, match="ledger"):
            DPPCA(2, ledger=wrong).fit(np.eye(9, 4))
