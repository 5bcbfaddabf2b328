r"""Counts of rows with a property, and histograms."""

import math

from skdp.privacy.adjacency import choose
from skdp.privacy.precision import in_double_precision

__all__ = [
    "count",
    "counts",
    "histogram",
    "histograms",
]


@in_double_precision
def count() -> float:
    """Sensitivity of the number of rows with a property: 1. Counts of rows are exact."""
    return 1.0


@in_double_precision
def counts(n_counts: int) -> float:
    r"""Sensitivity of several such numbers, each of another property: :math:`\sqrt m` for m.

    A row changes each of them by at most 1, for either adjacency, and all of them if it has all
    properties and another row, or a null row, has none.
    """
    return math.sqrt(n_counts)


@in_double_precision
def histogram(adjacency: str) -> float:
    """Sensitivity of disjoint counts: 1 for zero_out; replace takes from one and adds to one."""
    return choose(adjacency, zero_out=1.0, replace=math.sqrt(2))


@in_double_precision
def histograms(n_columns: int, adjacency: str) -> float:
    r"""Sensitivity of the histograms of so many columns together: each may move as one does.

    :math:`\sqrt{m}` times that of one; attained by a row of which every entry changes its bin.
    """
    return math.sqrt(n_columns) * histogram(adjacency)
