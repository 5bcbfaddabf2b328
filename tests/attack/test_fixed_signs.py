"""Eigenvectors and singular vectors come with any signs: no later release depends on them.

Parties that compute a basis from the same releases, each with a library of its own, add up products
with it. So the noiseless values must be the same whatever signs the library chooses.
"""

import os
import pickle
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import scipy.linalg
from row_cells import Cell, setting
from row_cells import datasets as row_datasets

from skdp import DPTruncatedSVD
from skdp.datasets import make_interactions, make_spiked
from skdp.decomposition import _rows_solvers
from skdp.linalg import spectrum
from skdp.linalg.spectrum import orthonormal_basis
from skdp.testing._recording import fit_with, record, replay, scripted_budget
from skdp.units import Entry, Interaction

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

FLIPS = {
    "all": lambda size: -np.ones(size),
    "every second": lambda size: (-1.0) ** np.arange(size),
    "some": lambda size: np.random.default_rng(size).choice([-1.0, 1.0], size=size),
}
ROWS = [
    *(Cell("svd", solver) for solver in ("covariance", "refined", "power")),
    *(Cell("pca", solver, norms="private") for solver in ("adaptive", "refined", "power")),
    *(Cell("svd", f"guided {solver}") for solver in ("covariance", "adaptive", "power")),
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
    script = record(make_estimator, (X,)).released
    scripted = scripted_budget(script)
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


@pytest.mark.parametrize("flips", FLIPS.values(), ids=FLIPS)
def test_a_library_with_other_signs_is_told_apart(flips):
    # Else the tests above would prove nothing.
    matrix = np.cov(make_spiked(40, 6, random_state=0)[0].T)
    with other_signs(flips):
        other = np.linalg.eigh(matrix)[1], spectrum.eigh(matrix)[1], np.linalg.svd(matrix)[0]
    ours = np.linalg.eigh(matrix)[1], spectrum.eigh(matrix)[1], np.linalg.svd(matrix)[0]
    assert all(np.abs(one - two).max() > 0.1 for one, two in zip(ours, other, strict=True))


@pytest.mark.parametrize(("module", "moved"), [(spectrum, "step 1"), (_rows_solvers, "step 2")])
def test_a_copy_that_leaves_the_signs_to_the_library_is_caught(module, moved):
    cell = Cell("svd", "refined")
    with setting(cell), patch.object(module, "with_fixed_signs", np.asarray):
        (_, ours), (_, theirs) = fits_with_signs(cell, row_datasets()["spiked"], FLIPS["all"])
    assert distances(ours, theirs)[moved] > 0.1


def test_a_guided_step_without_the_signs_of_its_basis_is_caught():
    def any_basis(vectors):
        basis = orthonormal_basis(vectors)
        return basis * np.sign(np.einsum("ij,ij->j", basis, vectors))

    cell = Cell("svd", "guided power")
    with setting(cell), patch.object(_rows_solvers, "orthonormal_basis", any_basis):
        (_, ours), (_, theirs) = fits_with_signs(cell, row_datasets()["spiked"], FLIPS["all"])
    assert distances(ours, theirs)["step 2"] > 0.1


# Each with an epsilon at which it has been seen to choose other signs than the kernel of Haswell.
KERNELS = {"Nehalem": 8.0, "Sandybridge": 1.0}


def fits_of_many_features(epsilon):
    """Fits to so many features that kernels round eigenvectors differently."""
    X = make_spiked(2000, 450, k=5, random_state=0)[0]
    return [
        (cell, partial(cell, epsilon=epsilon, n_components=5), X)
        for cell in (Cell("svd", "refined"), Cell("svd", "guided power"))
    ]


def answer(path, epsilon):
    """Run the fits with given releases, in a process of its own, and write what they give."""
    found = []
    scripts = pickle.loads(Path(path).read_bytes())
    for (cell, make_estimator, X), script in zip(
        fits_of_many_features(epsilon), scripts, strict=True
    ):
        with setting(cell):
            found.append(replay(make_estimator, (X,), script).values)
    Path(path).write_bytes(pickle.dumps(found))


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "epsilon"), KERNELS.items())
def test_two_kernels_of_openblas_agree(kernel, epsilon, tmp_path):
    budgets = []
    for cell, make_estimator, X in fits_of_many_features(epsilon):
        with setting(cell):
            budgets.append(record(make_estimator, (X,)))
    path = tmp_path / "releases"
    path.write_bytes(pickle.dumps([one.released for one in budgets]))
    subprocess.run(
        [
            sys.executable,
            "-c",
            f"import test_fixed_signs as own; own.answer({str(path)!r}, {epsilon})",
        ],
        env={
            **os.environ,
            "OPENBLAS_CORETYPE": kernel,
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        },
        check=True,
    )
    for budget, values in zip(budgets, pickle.loads(path.read_bytes()), strict=True):
        for release, one, other in zip(budget.spent().releases, budget.values, values, strict=True):
            atol = 1e-9 * np.abs(one).max()
            np.testing.assert_allclose(other, one, rtol=0, atol=atol, err_msg=release.name)
