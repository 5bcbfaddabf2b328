"""scikit-learn's own tests, run on our classes without noise and clipping.

A test file of scikit-learn is executed with our class in place of its own. A TOML file of the same
name, beside this one, holds what is known of it. Both tables carry the versions of scikit-learn
they hold for:

- ``[cases."versions"]``: how many cases each test function has;
- ``[[fails]]``: the cases that do not pass, and why. An entry is the name of a function, or the
  beginning of the ids of some of its cases. A case not listed must pass, and one listed must fail.
"""

import importlib.util
import math
import sys
import tomllib
from pathlib import Path

import pytest
import sklearn
from packaging.specifiers import SpecifierSet
from packaging.version import Version

HERE = Path(__file__).parent
# A release candidate counts as the release it is for.
VERSION = Version(sklearn.__version__).base_version
# Arrays of other libraries and weights, which the estimators do not take.
NOT_RUN = "array_api", "sample_weight"


class Suite:
    """Tests of one file of scikit-learn, `name`, on `replacement`, named as what it replaces.

    The file is in `package`, which has what is replaced. Of a file that tests other things, too,
    only the tests whose names begin with one of `only` are run.
    """

    def __init__(
        self, name, replacement, version=VERSION, package="sklearn.decomposition", only="test_"
    ):
        self.name = name
        self.version = version
        self.only = only
        self.module = execute(name, replacement, package)
        table = tomllib.loads((HERE / f"{name}.toml").read_text())
        self.known = {
            test: cases
            for versions, tests in table["cases"].items()
            if version in SpecifierSet(versions)
            for test, cases in tests.items()
        }
        self.fails = {
            entry: group["reason"]
            for group in table.get("fails", [])
            if version in SpecifierSet(group["versions"])
            for entry in group["tests"]
        }

    @property
    def tests(self):
        return {
            name: value
            for name, value in vars(self.module).items()
            if name.startswith(self.only) and not any(part in name for part in NOT_RUN)
        }

    def reason_to_fail(self, case):
        """Return why a case is not expected to pass; None if it is."""
        reasons = [reason for entry, reason in self.fails.items() if names(entry, case)]
        return reasons[0] if reasons else None

    def check(self, cases):
        """Compare the tables with the tests of this version, whose cases have the ids `cases`.

        A version that nobody has looked at fails here and not at collection: the cases run with the
        list as it is, and so show what a maintainer has to list.
        """
        assert self.known, (
            f"{self.name}.toml knows nothing of scikit-learn {self.version}. Read what changed in "
            f"its {self.name}.py, put what fails beside this on the list, each with a reason, and "
            "extend the versions of [cases]."
        )
        found = {name: number_of_cases(test) for name, test in self.tests.items()}
        changed = {
            name: f"{self.known.get(name, 0)} known, {found.get(name, 0)} found"
            for name in sorted(self.known.keys() | found)
            if self.known.get(name) != found.get(name)
        }
        assert not changed, f"{self.name}.py of scikit-learn {self.version} changed: {changed}"
        gone = [entry for entry in self.fails if not any(names(entry, case) for case in cases)]
        assert not gone, f"{self.name}.toml lists cases that do not exist: {gone}"


def names(entry, case):
    """Whether an entry of the list is about a case."""
    return case == entry or case.startswith(entry if "[" in entry else f"{entry}[")


def number_of_cases(test):
    """Count the cases of a test function, not counting the parameters of fixtures."""
    marks = getattr(test, "pytestmark", [])
    return math.prod(len(mark.args[1]) for mark in marks if mark.name == "parametrize")


def execute(name, replacement, package):
    """Execute a test file under another name with the replacement in place."""
    spec = importlib.util.find_spec(f"{package}.tests.{name}")
    copy = importlib.util.spec_from_file_location(f"{name}_of_scikit_learn", spec.origin)
    module = importlib.util.module_from_spec(copy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[package], replacement.__name__, replacement)
        copy.loader.exec_module(module)
    assert getattr(module, replacement.__name__) is replacement
    return module
