"""What all plans declare: names that stand once, spelled alike, and sensitivities."""

import math
import re
from functools import cache

import pytest
from covers import single_cover
from families import FAMILIES
from family_case import without_values

from benchmarks.house.ways import files_of_names, stem
from skdp.privacy.budget import SKIPPED

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

# Lower case words, the number of several alike, and which step of a search it is.
NAME = re.compile(r"(component \d+: )?[a-z]+( [a-z]+)*(, refinement)?( \d+)?(, counts \d+)?")


def planned(family, cells):
    """Give all releases of all ways of a family's fits; those of streams, which have no plan."""
    if family.name == "streams":
        for cell in single_cover(family.cells):
            arguments = family.arguments(family.ordinary(cell))
            yield from cell().fit(*arguments).privacy_spent_.releases
        return
    for cell in cells:
        with family.setting(cell):
            X, *others = family.arguments(family.ordinary(cell))
            n_features = math.prod(X.shape[1:])
            like = without_values(X)
            plan = cell().plan(family.n_units((X, *others)), n_features, like=like)
        for path in plan.branches:
            yield from path


@cache
def releases(cover=tuple):
    """Give the releases of all families, or those of covers, each with the family."""
    found = ((family, dict.fromkeys(planned(family, cover(family.cells)))) for family in FAMILIES)
    return [(family.name, one) for family, releases in found for one in releases]


def faults_of(release):
    """Say what is wrong with a release of a plan."""
    faults = [] if NAME.fullmatch(release.name) else ["name"]
    if release.sensitivity is None and not (release.sensitivity_of and release.follows):
        return [*faults, "sensitivity unknown"]
    is_number = release.sensitivity is None or 0 < release.sensitivity < math.inf
    return faults if is_number else [*faults, "sensitivity"]


@pytest.mark.slow
def test_every_release_has_a_plain_name_and_a_sensitivity():
    assert [(family, one) for family, one in releases() if faults_of(one)] == []
    # So that covers will do below.
    every, covered = ({one.name for _, one in releases(cover)} for cover in (tuple, single_cover))
    assert set(map(stem, every)) == set(map(stem, covered))


def shared_names(names, *root):
    """Give the names that stand as strings in several files."""
    return {name: files for name, files in files_of_names(names, *root).items() if len(files) > 1}


def test_the_name_of_a_release_stands_in_one_file():
    found = releases(single_cover)
    names = {stem(release.name) for family, release in found if family != "toy"}
    assert len(names) > 50
    assert shared_names(names - {SKIPPED}) == {}
