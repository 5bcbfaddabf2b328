"""Settings for all tests."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread():
    """Keep the test processes, one a core, out of each other's way."""
    with threadpool_limits(1):
        yield
