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

from skdp.privacy.sensitivity import (
    changes,
    classes,
    columns,
    entries,
    interactions,
    records,
    rows,
    short_rows,
    users,
)
from skdp.privacy.sensitivity import counts as counts_  # a function has the name
from skdp.privacy.sensitivity.changes import *
from skdp.privacy.sensitivity.classes import *
from skdp.privacy.sensitivity.columns import *
from skdp.privacy.sensitivity.counts import *
from skdp.privacy.sensitivity.entries import *
from skdp.privacy.sensitivity.interactions import *
from skdp.privacy.sensitivity.records import *
from skdp.privacy.sensitivity.rows import *
from skdp.privacy.sensitivity.short_rows import *
from skdp.privacy.sensitivity.users import *

__all__: list[str] = []
__all__ += changes.__all__
__all__ += classes.__all__
__all__ += columns.__all__
__all__ += counts_.__all__
__all__ += entries.__all__
__all__ += interactions.__all__
__all__ += records.__all__
__all__ += rows.__all__
__all__ += short_rows.__all__
__all__ += users.__all__
