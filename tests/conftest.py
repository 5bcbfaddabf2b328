"""Settings for all tests.

Environment variables change how they run, not what they test: `SKDP_TEST_BLAS_THREADS` says how
many threads a matrix product has in each test process, 1 by default, and `SKDP_TEST_SHUFFLE` is a
seed by which the tests are shuffled. `SKDP_TEST_PART` leaves out all tests but one of several
parts, as 1/3. `SKDP_TEST_NOISE` is a number that changes all noise, with a seed or without: a test
that fails with one of several numbers follows the noise, and will fail on some other processor.
Other processes draw their noise as ever: the two tests that compare fits there fail with it.
"""

import gc
import os
import random
from importlib.metadata import version
from types import SimpleNamespace
from zlib import crc32

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 - for its BLAS to be there
from covers import mark_uncovered
from threadpoolctl import threadpool_info, threadpool_limits

DEPENDENCIES = ["scikit-learn", "numpy", "scipy", "joblib", "threadpoolctl", "cryptography"]
BLAS_THREADS = int(os.environ.get("SKDP_TEST_BLAS_THREADS", "1"))
SHUFFLE = os.environ.get("SKDP_TEST_SHUFFLE")
PART = os.environ.get("SKDP_TEST_PART", "1/1")
NOISE = os.environ.get("SKDP_TEST_NOISE")
FRESH = random.Random()
os.register_at_fork(after_in_child=FRESH.seed)  # two forks of a test draw different noise


def pytest_report_header():
    versions = ", ".join(f"{name} {version(name)}" for name in DEPENDENCIES)
    blas = {
        f"{library['internal_api']} {library.get('architecture', '')}".strip()
        for library in threadpool_info()
        if library["user_api"] == "blas"
    }
    order = "as written" if SHUFFLE is None else f"shuffled by {SHUFFLE}"
    return [versions, f"BLAS: {', '.join(sorted(blas))}; threads: {BLAS_THREADS}; order: {order}"]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    # Before those that are marked as slow are left out.
    mark_uncovered(items)
    part, n_parts = map(int, PART.split("/"))
    # By a hash of the name, so that all processes agree, and parts take about as long.
    items[:] = [item for item in items if crc32(item.nodeid.encode()) % n_parts == part - 1]
    if SHUFFLE is not None:
        # A text is hashed by SHA-512, so that all processes agree on the order.
        random.Random(SHUFFLE).shuffle(items)


def pytest_collection():
    # What is collected stays: the garbage collector need not look at it again and again.
    gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    # What a test draws without a seed is the same in each run, or one run in many would fail.
    FRESH.seed(f"{NOISE} {item.nodeid}")
    np.random.seed(FRESH.getrandbits(32))  # noqa: NPY002 - scikit-learn draws from it


@pytest.fixture(scope="session", autouse=True)
def steady_noise():
    """Draw the noise of fits without a seed from `FRESH`, and that of seeds anew if asked for."""
    from skdp.privacy import noise

    begin = noise.NoiseSource.__init__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise, "os", SimpleNamespace(urandom=FRESH.randbytes))
        if NOISE is not None:
            patch.setattr(
                noise.NoiseSource,
                "__init__",
                lambda self, seed=None, context=(): begin(self, seed, (NOISE, *context)),
            )
        yield


@pytest.fixture(scope="session", autouse=True)
def blas_threads():
    """Keep the test processes, one a core, out of each other's way."""
    with threadpool_limits(BLAS_THREADS):
        yield


@pytest.fixture
def ledger(tmp_path):
    """Open a ledger with room for all fits of a test, whatever they protect."""
    from skdp import PrivacyLedger

    units = ("record", "row", "user")
    path = tmp_path / "people.skdp"
    return PrivacyLedger.create(path, dataset="people", epsilon=1000.0, delta=1e-5, unit=units)


@pytest.fixture
def no_budget(monkeypatch):
    """Let a test fail where a budget is opened."""
    from skdp.privacy import PrivacyBudget

    monkeypatch.setattr(PrivacyBudget, "of", lambda *_: pytest.fail("a budget was opened"))


@pytest.fixture
def few_steps():
    """Let classifiers take few steps, where it does not matter how many there are."""
    from class_cells import setting

    with setting():
        yield
