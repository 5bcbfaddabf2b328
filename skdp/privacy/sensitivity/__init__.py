"""Sensitivities: how far one protected unit can move a statistic, at worst.

Every function returns the supremum over all neighboring datasets of the change in the Euclidean
norm, for matrices the Frobenius norm. The adjacency is

- ``"replace"``: one unit is exchanged for any other, n stays;
- ``"zero_out"``: one unit becomes null and contributes nothing to any sum or count, n stays.

If rows are the unit, they are clipped to Euclidean norm `c` (`row_norm`). The supremum is raised by
twice `rounding` times the largest contribution of a row: the computed sums of two neighbors may
each be off by `rounding` times that [1]_. :class:`skdp.data.rows.Rows` reports `rounding` with the
sum.

A change in a unit of :mod:`skdp.units` turns a matrix A into A + C, where A is multiplied by public
bases. `norms` are the Euclidean norms of the rows of a basis, and `step` is the largest change of
an entry. Every function bounds the Frobenius norm of the change of the product. A function whose
name ends in ``_l1`` bounds the sum of the Euclidean norms of the rows of the change, which noise
has to cover if it is independent from row to row. The bound is attained unless its docstring says
otherwise; the caller adds rounding.

References
----------
.. [1] S. Casacuberta, M. Shoemate, S. Vadhan, C. Wagaman (2022). "Widespread underestimation of
   sensitivity in differentially private libraries and how to fix it". CCS. :arxiv:`2207.10635`
"""

from skdp.privacy.sensitivity.changes import (
    frobenius_product,
    spectral_product,
)
from skdp.privacy.sensitivity.classes import class_moment
from skdp.privacy.sensitivity.columns import column_moments
from skdp.privacy.sensitivity.counts import (
    count,
    counts,
    histogram,
    histograms,
)
from skdp.privacy.sensitivity.entries import (
    edge_core,
    edge_mean,
    edge_mean_l1,
    edge_product,
    edge_product_l1,
    edge_squares,
    entry_core,
    entry_mean,
    entry_product,
    entry_squares,
    entry_step,
    symmetric_edge_core,
)
from skdp.privacy.sensitivity.interactions import (
    interaction_mean,
    interaction_product,
    interaction_squares,
)
from skdp.privacy.sensitivity.records import (
    labeled_moment,
    response_sum,
    singular_gap,
    smallest_eigenvalue,
    subspace_pair,
)
from skdp.privacy.sensitivity.rows import (
    clipped_projection,
    clipped_squares,
    projected_spectrum,
    row_sum,
    second_moment,
)
from skdp.privacy.sensitivity.short_rows import (
    short_row,
    short_row_product,
    short_row_rmatmul,
    short_row_squares,
)
from skdp.privacy.sensitivity.users import count_distance, loss_range, user_moment

__all__ = [
    "class_moment",
    "clipped_projection",
    "clipped_squares",
    "column_moments",
    "count",
    "count_distance",
    "counts",
    "edge_core",
    "edge_mean",
    "edge_mean_l1",
    "edge_product",
    "edge_product_l1",
    "edge_squares",
    "entry_core",
    "entry_mean",
    "entry_product",
    "entry_squares",
    "entry_step",
    "frobenius_product",
    "histogram",
    "histograms",
    "interaction_mean",
    "interaction_product",
    "interaction_squares",
    "labeled_moment",
    "loss_range",
    "projected_spectrum",
    "response_sum",
    "row_sum",
    "second_moment",
    "short_row",
    "short_row_product",
    "short_row_rmatmul",
    "short_row_squares",
    "singular_gap",
    "smallest_eigenvalue",
    "spectral_product",
    "subspace_pair",
    "symmetric_edge_core",
    "user_moment",
]
