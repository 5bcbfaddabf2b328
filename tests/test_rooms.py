"""The rooms of the house: nothing imports upwards, and nothing in a circle."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import skdp

ROOT = Path(skdp.__file__).parent
# From the ground up.
FLOORS = (
    {"exceptions", "linalg"},
    {"data"},
    {"privacy"},
    {"ledger"},
    {"_validation"},
    {"interactions", "units"},
    {"_estimator", "datasets", "metrics", "testing"},
    {"preprocessing"},
    {"_prior", "_one_pass"},
    {"decomposition", "linear_model"},
    {"_marginals"},
    {"_second_moment"},
    {"covariance"},
    {"pipeline"},
    {"federated", "model_selection"},
    {"_handover", "display"},
    {"__init__"},
)
# What works on arrays does without scikit-learn: only shells, checks and conversions know it.
ARRAY_ROOMS = (
    *("linalg.", "data.", "privacy."),
    *("decomposition.rows.", "decomposition.entries."),
    *("preprocessing.intervals", "preprocessing.scales", "_marginals", "_second_moment"),
)
KNOWS_SKLEARN = {"data.matrices"}
# Files below 25 code lines, and why each is one.
DOORS = ("data", "federated", "ledger", "linalg", "model_selection", "pipeline", "preprocessing")
DOORS += (
    "privacy",
    "decomposition",
    *(f"decomposition.{it}" for it in ("entries", "rows", "streams")),
)
FAMILIES = ("least_squares", "logistic", "low_rank", "personal")
DOORS += ("linear_model", *(f"linear_model.{it}" for it in FAMILIES))
SHORT = {
    **dict.fromkeys((f"{room}.__init__" for room in DOORS), "the door of a room"),
    "ledger.__main__": "a command, which Python looks for under this name",
}

# What fits can do without, and so `import skdp` too: files, clusters, owners, trees.
WAITS = (
    *("dask", "distributed", "matplotlib", "pandas", "polars", "pyarrow", "sqlite3"),
    *("skdp.data.dask_rows", "skdp.data.parquet", "skdp.federated"),
    *("sklearn.ensemble", "sklearn.multioutput", "sklearn.tree"),
    # Noise is drawn with a cipher.
    *(f"cryptography.hazmat.primitives.{one}" for one in ("asymmetric", "hashes", "kdf")),
)
SKLEARN = "sklearn.decomposition, sklearn.linear_model, sklearn.model_selection, sklearn.pipeline"


def name_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


MODULES = {name_of(path): path for path in sorted(ROOT.rglob("*.py"))}


@cache
def tree_of(name):
    return ast.parse(MODULES[name].read_text())


@cache
def imported(name):
    """Names of the modules of skdp that a module imports."""
    found = set()
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.Import):
            assert not any(alias.name.startswith("skdp") for alias in node.names), name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("skdp"):
            base = node.module.removeprefix("skdp").removeprefix(".")
            for alias in node.names:
                inner = f"{base}.{alias.name}".removeprefix(".")
                tried = (inner, f"{inner}.__init__", base, f"{base}.__init__".removeprefix("."))
                found.add(next(one for one in tried if one in MODULES))
    return found


@cache
def code_lines(name):
    """Count the lines that are neither empty nor comments nor docstrings."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef
    firsts = [
        node.body[0]
        for node in ast.walk(tree_of(name))
        if isinstance(node, documented) and node.body
    ]
    told = {
        number
        for first in firsts
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        for number in range(first.lineno, first.end_lineno + 1)
    }
    lines = enumerate(map(str.strip, MODULES[name].read_text().splitlines()), start=1)
    return sum(bool(line) and line[0] != "#" and number not in told for number, line in lines)


def floor_of(name):
    """Number of the floor of a module."""
    room = name.partition(".")[0]
    (floor,) = (number for number, rooms in enumerate(FLOORS) if room in rooms)
    return floor


def test_nothing_imports_upwards():
    for name in MODULES:
        rooms = {one.partition(".")[0] for one in (*imported(name), name)}
        assert {one for one in imported(name) if floor_of(one) > floor_of(name)} == set(), name
        # Families do not know each other, and what is on one floor stands side by side.
        assert len({room for room in rooms if floor_of(room) == floor_of(name)}) == 1, name


def test_nothing_imports_in_a_circle():
    # Raises an error that names the circle.
    order = list(TopologicalSorter({name: imported(name) for name in MODULES}).static_order())
    assert set(order) == MODULES.keys()


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith(ARRAY_ROOMS)])
def test_what_works_on_arrays_imports_no_scikit_learn(name):
    assert ("sklearn" in MODULES[name].read_text()) == (name in KNOWS_SKLEARN)


@pytest.fixture(scope="module")
def added():
    """Import skdp in a new process: name the modules that scikit-learn has not loaded before.

    After that all rooms are attributes, and nothing else is. Fits need no dask, and checks of
    estimators no pytest.
    """
    rooms = sorted({name.partition(".")[0] for name in MODULES if name[0] != "_"})
    code = f"""
import {SKLEARN}, sys
before = {{*sys.modules}}
import skdp
print(*sys.modules.keys() - before)
import numpy as np, skdp.testing
skdp.DPPCA(1).fit(np.eye(9))
assert not {{"dask", "pytest"}} & sys.modules.keys()
assert all(getattr(skdp, name) is sys.modules["skdp." + name] for name in {rooms})
assert not hasattr(skdp, "dataset")
"""
    run = [sys.executable, "-W", "ignore", "-c", code]
    return {*subprocess.run(run, stdout=subprocess.PIPE, text=True, check=True).stdout.split()}


@pytest.mark.slow
def test_some_rooms_are_imported_when_they_are_asked_for(added):
    late = {"skdp.datasets", "skdp.display", "skdp.federated", "skdp.metrics", "skdp.testing"}
    assert not late & added


def test_no_module_is_long():
    assert {name for name in MODULES if code_lines(name) > 450} == set()


def test_no_module_is_a_splinter():
    assert {name for name in MODULES if code_lines(name) < 25} == SHORT.keys()


def test_files_are_few():
    assert len(MODULES.keys() - SHORT.keys()) <= 113


@pytest.mark.slow
def test_what_fits_can_do_without_is_not_imported_before_it_is_used(added):
    assert "skdp.decomposition" in added
    assert added & set(WAITS) == set()
