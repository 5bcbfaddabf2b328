r"""Counts of rows with a property, and histograms."""

import math

from skdp.privacy.adjacency import choose
from skdp.privacy.precision import in_double_precision

__all__ = ["count", "counts", "histogram", "histograms"]


@in_double_precision
def count() -> float:
    """Sensitivity of the number of rows with a property: 1. Counts are exact, without rounding."""
    return 1.0


@in_double_precision
def counts(n_counts: int) -> float:
    r"""Sensitivity of m numbers of rows, each with another property: :math:`\sqrt m`.

    A row changes each number by at most 1, for either adjacency. It changes all of them if it has
    all properties, and the row in its place, which may be null, has none.
    """
    return math.sqrt(n_counts)


@in_double_precision
def histogram(adjacency: str) -> float:
    """Sensitivity of disjoint counts: 1 for zero_out, sqrt(2) for replace, which changes two."""
    return choose(adjacency, zero_out=1.0, replace=math.sqrt(2))


@in_double_precision
def histograms(n_columns: int, adjacency: str) -> float:
    r"""Sensitivity of the histograms of m columns together.

    :math:`\sqrt{m}` times that of one; attained by a row whose entries all change their bins.
    """
    return math.sqrt(n_columns) * histogram(adjacency)
