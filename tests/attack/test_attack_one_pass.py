"""Rows that come in several calls: the laws of fits, and what one row moves in any call."""

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from unittest.mock import patch

import covariance_cells
import pytest
import row_cells
from attack_laws import attack_laws_for
from contract_laws import contract_laws_for
from families import FAMILIES
from harness import without_row

from skdp import DPCovariance, DPTruncatedSVD

pytestmark = pytest.mark.filterwarnings("ignore::skdp.PrivacyWarning")

# The first row, which is exchanged, comes alone, beside one other, or with all.
CUTS = ((1, 8), (2,), ())


@cache
def in_calls(kind, cuts):
    """Make a class whose fit is one pass in several calls."""

    def fit(self, X, y=None, *, users=None):
        for start, stop in zip((0, *cuts), (*cuts, X.shape[0]), strict=True):
            self.partial_fit(X[start:stop])
        return self.finalize()

    # By its name, a pickle finds it here.
    name = "_".join(map(str, (kind.__name__, "in", *cuts)))
    globals()[name] = type(name, (kind,), {"fit": fit, "__module__": __name__})
    return globals()[name]


class InCalls:
    """Makes the estimator of a cell, with a fit in calls."""

    def __call__(self, **more):
        made = super().__call__(**more)
        return in_calls(type(made), self.cuts)(**made.get_params(deep=False))


@dataclass(frozen=True)
class OfRows(InCalls, row_cells.Cell):
    cuts: tuple[int, ...] = ()


@dataclass(frozen=True)
class OfColumns(InCalls, covariance_cells.Cell):
    cuts: tuple[int, ...] = ()


@contextmanager
def first_row_is_null():
    """Make the first row null when the sums of the first call are computed."""
    with ExitStack() as changes:
        for kind in (DPCovariance, DPTruncatedSVD):
            changes.enter_context(patch.object(kind, "_sums_of", of_others(kind._sums_of)))
        yield


def of_others(sums_of):
    def _sums_of(self, spec, rows):
        is_first = self._open_sums is None
        return sums_of(self, spec, without_row(rows, spec, 0) if is_first else rows)

    return _sums_of


def in_families(name):
    (family,) = (one for one in FAMILIES if one.name == name)

    def groups(cell, X):
        for group in family.groups(cell, X):
            has_null = group.origin is not None
            yield replace(group, make_null=first_row_is_null) if has_null else group

    return replace(family, groups=groups)


ROWS, COLUMNS = in_families("rows"), in_families("covariances")
CELLS = [
    (family, cell)
    for cuts in CUTS
    for adjacency in row_cells.ADJACENCIES
    for family, cell in (
        (ROWS, OfRows("svd", "covariance", adjacency, cuts=cuts)),
        (ROWS, OfRows("svd", "guided covariance", adjacency, cuts=cuts)),
        (COLUMNS, OfColumns("given", adjacency, in_bounds=True, cuts=cuts)),
        (COLUMNS, OfColumns("given", adjacency, is_centered=True, in_bounds=True, cuts=cuts)),
    )
]
EACH = pytest.mark.parametrize(
    ("family", "cell"), [pytest.param(*one, id=str(one[1])) for one in CELLS]
)


@pytest.mark.covered(at_most=1)
@EACH
def test_laws_of_attacks_hold_in_calls(family, cell):
    with family.setting(cell):
        for law in attack_laws_for(family, cell):
            law(family, cell)


@pytest.mark.slow
@EACH
def test_laws_of_the_contract_hold_in_calls(family, cell):
    with family.setting(cell):
        for law in contract_laws_for(family):
            law(family, cell)
