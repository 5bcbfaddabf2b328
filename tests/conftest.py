"""Settings for all tests."""

from importlib.metadata import version

import pytest
from threadpoolctl import threadpool_limits

DEPENDENCIES = ["scikit-learn", "numpy", "scipy", "joblib", "threadpoolctl", "cryptography"]


def pytest_report_header():
    return ", ".join(f"{name} {version(name)}" for name in DEPENDENCIES)


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread():
    """Keep the test processes, one a core, out of each other's way."""
    with threadpool_limits(1):
        yield
