"""What several tests of data share."""

import pytest

from skdp import PrivacyLedger


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger.create(
        tmp_path / "people.skdp", dataset="people", epsilon=1000.0, delta=1e-5
    )
