"""Utility: one seed of every case; `benchmarks/seeds/seeds.py` shows that 50 others pass too."""

from pathlib import Path

import pytest
from accuracy_cases import CASES

TABLE = Path(__file__).parents[1] / "benchmarks" / "seeds" / "seeds.md"


@pytest.mark.slow
# Only the warning that a case expects is let through there.
@pytest.mark.filterwarnings("error::skdp.PrivacyWarning")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_accuracy(case):
    value = case.measure(0)
    assert case.holds(value), f"{value:.4f} should be {case.threshold}"


def test_the_committed_table_shows_these_cases_and_thresholds():
    rows = [line.split("|")[1:-1] for line in TABLE.read_text().splitlines() if "|" in line][2:]
    shown = {
        name.strip(): (threshold.strip(), passes.strip()) for name, threshold, *_, passes in rows
    }
    assert shown == {case.name: (case.threshold, "50 of 50") for case in CASES}
