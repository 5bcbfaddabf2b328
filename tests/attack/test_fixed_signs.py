"""Eigenvectors and singular vectors come with any signs: no later release depends on them.

Parties that compute a basis from the same releases, each with a library of its own, add up products
with it. So the noiseless values must be the same whatever signs the library chooses.
"""

import sys
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import numpy as np
import pytest
import scipy.linalg
from row_cells import Cell, setting
from row_cells import datasets as row_datasets

from skdp import DPTruncatedSVD
from skdp.datasets import make_interactions
from skdp.testing._recording import fit_with, record, scripted_budget
from skdp.units import Entry, Interaction

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

FLIPS = {
    "all": lambda size: -np.ones(size),
    "every second": lambda size: (-1.0) ** np.arange(size),
    "some": lambda size: np.random.default_rng(size).choice([-1.0, 1.0], size=size),
}
ROWS = [
    *(Cell("svd", solver) for solver in ("covariance", "power")),
    *(Cell("pca", solver, norms="private") for solver in ("covariance", "power")),
    *(Cell("svd", f"guided {solver}") for solver in ("covariance", "power")),
]


@contextmanager
def other_signs(flips):
    """Let all decompositions inside return vectors with other signs."""
    eigh, svd = np.linalg.eigh, np.linalg.svd

    def flipped_eigh(function):
        def other(*arguments, **more):
            values, vectors = function(*arguments, **more)
            return values, vectors * flips(vectors.shape[1])

        return other

    def flipped_svd(matrix, full_matrices=True, compute_uv=True, **more):
        found = svd(matrix, full_matrices, compute_uv, **more)
        if not compute_uv:
            return found
        left, values, right = found
        signs = flips(max(left.shape[1], len(right)))
        return left * signs[: left.shape[1]], values, right * signs[: len(right), np.newaxis]

    with ExitStack() as changes:
        changes.enter_context(patch.object(np.linalg, "eigh", flipped_eigh(eigh)))
        changes.enter_context(patch.object(np.linalg, "svd", flipped_svd))
        of_scipy = flipped_eigh(scipy.linalg.eigh)
        for name, module in list(sys.modules.items()):
            if name.startswith("skdp.") and getattr(module, "eigh", None) is scipy.linalg.eigh:
                changes.enter_context(patch.object(module, "eigh", of_scipy))
        yield


def fits_with_signs(make_estimator, X, flips):
    """Answer two fits with the same releases, of which one has other signs within."""
    scripted = scripted_budget(record(make_estimator, (X,)).released)
    ours = fit_with(make_estimator(), (X,), scripted)
    with other_signs(flips):
        return ours, fit_with(make_estimator(), (X,), scripted)


def distances(ours, theirs):
    """How far apart the noiseless values are, each in units of the largest of its numbers."""
    return {
        release.name: np.abs(one - other).max() / max(np.abs(one).max(), 1e-300)
        for release, one, other in zip(
            ours.spent().releases, ours.values, theirs.values, strict=True
        )
    }


def assert_same_values(make_estimator, X, flips):
    (model, ours), (other, theirs) = fits_with_signs(make_estimator, X, flips)
    assert max(distances(ours, theirs).values()) < 1e-9
    np.testing.assert_allclose(other.components_, model.components_, atol=1e-9)


@pytest.mark.covered(at_most=6)
@pytest.mark.parametrize("flips", FLIPS.values(), ids=FLIPS)
@pytest.mark.parametrize("cell", ROWS, ids=str)
def test_no_release_of_rows_depends_on_signs(cell, flips):
    with setting(cell):
        assert_same_values(cell, row_datasets()["spiked"], flips)


@pytest.mark.parametrize("flips", FLIPS.values(), ids=FLIPS)
@pytest.mark.parametrize("unit", [Interaction(degree_floor=3), Entry((0, 1))], ids=repr)
def test_no_release_of_entries_depends_on_signs(unit, flips):
    X = make_interactions(200, 30, random_state=0).toarray()

    def make():
        return DPTruncatedSVD(3, epsilon=5.0, privacy_unit=unit)

    assert_same_values(make, X, flips)
