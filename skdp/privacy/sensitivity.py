r"""Sensitivities: how far one protected unit can move a statistic, at worst.

At row level, rows are clipped to Euclidean norm `c` (`row_norm`), and the adjacency is

- ``"replace"``: one row is exchanged for any other, n stays;
- ``"zero_out"``: one row becomes null and contributes nothing to any sum or count, n stays.

Every function of this kind returns the supremum over all neighbouring datasets in the Euclidean
(for matrices the Frobenius) norm, plus twice `rounding` times the largest contribution of a row:
the computed sums of two neighbours may each be off by that much [1]_. `rounding` is what
:class:`skdp.data.rows.Rows` reports with the sum.

The other units change a few entries of a matrix A, multiplied by public bases: `norms` are the
Euclidean norms of the rows of a basis, and `step` is the largest change of an entry. Where A turns
into A + C, every function bounds the Frobenius norm of the change of the product, or, if its name
ends in ``_l1``, the sum of the Euclidean norms of its rows: what noise that is independent from row
to row has to cover. The bound is attained unless it says otherwise; the caller adds rounding.

Those of regressions stand in :mod:`skdp.privacy.regression_sensitivity` and are used from here.

References
----------
.. [1] S. Casacuberta, M. Shoemate, S. Vadhan, C. Wagaman (2022). "Widespread underestimation of
   sensitivity in differentially private libraries and how to fix it". CCS. :arxiv:`2207.10635`
.. [2] M. Hardt, A. Roth (2013). "Beyond worst-case analysis in private singular vector
   computation". STOC. :arxiv:`1211.0975`
"""

import math

import numpy as np

from skdp.privacy.adjacency import ADJACENCIES, choose
from skdp.privacy.precision import in_double_precision
from skdp.privacy.regression_sensitivity import (
    labelled_moment,
    response_sum,
    singular_gap,
    smallest_eigenvalue,
    subspace_pair,
)

__all__ = [
    "ADJACENCIES",
    "clipped_projection",
    "clipped_squares",
    "count",
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
    "histogram",
    "histograms",
    "interaction_mean",
    "interaction_product",
    "interaction_squares",
    "labelled_moment",
    "projected_spectrum",
    "response_sum",
    "row_sum",
    "second_moment",
    "short_row",
    "short_row_adjoint",
    "short_row_product",
    "short_row_squares",
    "singular_gap",
    "smallest_eigenvalue",
    "spectral_product",
    "subspace_pair",
    "symmetric_edge_core",
]


@in_double_precision
def row_sum(row_norm: float, adjacency: str, rounding: float = 0.0) -> float:
    r"""Sensitivity of :math:`\sum_i x_i`: `c` for zero_out, `2 c` for replace.

    Replace: :math:`\|x - y\| \le 2c`, attained by :math:`y = -x`.
    """
    return row_norm * (choose(adjacency, zero_out=1.0, replace=2.0) + 2 * rounding)


@in_double_precision
def second_moment(row_norm: float, adjacency: str, rounding: float = 0.0) -> float:
    r"""Sensitivity of :math:`\sum_i x_i x_i^T`: `c^2` for zero_out, `sqrt(2) c^2` for replace.

    Replace: :math:`\|xx^T - yy^T\|_F^2 = \|x\|^4 + \|y\|^4 - 2 (x \cdot y)^2 \le 2 c^4`, attained
    by orthogonal x and y.
    """
    return row_norm**2 * (choose(adjacency, zero_out=1.0, replace=math.sqrt(2)) + 2 * rounding)


@in_double_precision
def clipped_projection(
    row_norm: float, level: float, adjacency: str, rounding: float = 0.0
) -> float:
    r"""Sensitivity of :math:`\sum_i x_i \psi(V^T x_i)^T`, V with orthonormal columns.

    :math:`\psi` clips to norm `b` (`level`). zero_out: `c b`. Replace, for `b <= c`:

    - :math:`2 b \sqrt{c^2 - b^2}` up to :math:`b = c / \sqrt 3`,
    - :math:`\sqrt{2 c^2 b^2 + (c^2 - b^2)^2 / 2}` beyond.

    Proof for c = 1; rows of norm 1 are the worst. Let A and B be the squared norms of
    :math:`V^T x` and :math:`V^T y`, clipped to norms u and v, and :math:`\kappa` the size of the
    cosine between them. Outside the span of V the rows have norms :math:`\sqrt{1 - A}` and
    :math:`\sqrt{1 - B}` and, at worst, opposite inner products, so that the squared distance is

    .. math:: D = u^2 + v^2 + 2 \kappa u v [\sqrt{(1 - A)(1 - B)} - \kappa \sqrt{AB}].

    It falls in A where :math:`u = b`, so let :math:`A = u^2 \le b^2`, :math:`B = v^2 \le b^2`. If
    the best :math:`\kappa` is below 1, :math:`D = A + B + (1 - A)(1 - B)/2`, which rises in A and
    in B. If it is 1, then with :math:`A = \sin^2 s` and :math:`B = \sin^2 t` one has
    :math:`D = \sin^2(s + t)`, and :math:`\cos(s + t) \ge \sin s \sin t \ge 0`, so D rises in s and
    in t. Hence :math:`A = B = b^2`, where :math:`\kappa = \min(1, (1 - b^2) / (2 b^2))`.
    """
    # inf / inf otherwise.
    clipped = min(level / row_norm, 1.0) if math.isfinite(row_norm) else 1.0
    if 3 * clipped**2 <= 1:
        replace = 2 * clipped * math.sqrt(1 - clipped**2)
    else:
        replace = math.sqrt(2 * clipped**2 + (1 - clipped**2) ** 2 / 2)
    factor = choose(adjacency, zero_out=clipped, replace=replace)
    return row_norm**2 * (factor + 2 * rounding * clipped)


@in_double_precision
def projected_spectrum(row_norm: float, adjacency: str, rounding: float = 0.0) -> float:
    r"""Sensitivity of :math:`\sum_i (z_i z_i^T, \|x_i\|^2 - \|z_i\|^2)`, :math:`z_i = V^T x_i`.

    `c^2` for zero_out: :math:`\|z\|^4 + (\|x\|^2 - \|z\|^2)^2 \le \|x\|^4` because
    :math:`\|z\| \le \|x\|`, so that the second coordinate is free. `sqrt(2) c^2` for replace: the
    contributions of two rows have an inner product that is not negative.
    """
    return second_moment(row_norm, adjacency, rounding)


@in_double_precision
def clipped_squares(row_norm: float, n_levels: int, adjacency: str, rounding: float = 0.0) -> float:
    r"""Sensitivity of :math:`\sum_i \psi_b(z_i) \circ z_i / \beta`, :math:`z_i = V^T x_i`.

    The entries are stacked over m levels :math:`b = \beta c`, :math:`0 < \beta \le 1`, and
    :math:`\psi_b` clips to norm b. :math:`\sqrt m c^2` for zero_out: the entries of a row are not
    negative, those of one level sum to :math:`\|\psi_b(z)\| \|z\| / \beta \le c^2`, and a sum of
    such entries is at least their norm. A row of norm c in the span attains it. :math:`\sqrt 2`
    times as much for replace, as two such contributions have an inner product that is not
    negative; attained by two orthogonal rows.
    """
    return math.sqrt(n_levels) * second_moment(row_norm, adjacency, rounding)


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
    return math.sqrt(n_counts) * count()


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


@in_double_precision
def entry_step(lower: float, upper: float, adjacency: str) -> float:
    """Largest change of an entry between the bounds: to any other value, or to 0."""
    return choose(adjacency, zero_out=max(abs(lower), abs(upper)), replace=upper - lower)


@in_double_precision
def entry_product(step: float, norms: np.ndarray) -> float:
    r"""Sensitivity of A Z to one entry: `step` times the largest row norm of Z.

    :math:`C Z = \alpha e_s z_t^T` has one row that is not zero, so that this holds for the sum of
    row norms too. It is linear in the size of the row, not in that of Z as a whole: the more evenly
    Z is spread, the less one entry matters [2]_.
    """
    return step * float(norms.max())


@in_double_precision
def entry_core(step: float, left_norms: np.ndarray, right_norms: np.ndarray) -> float:
    r"""Sensitivity of :math:`Y^T A Z` to one entry: the change is :math:`\alpha y_s z_t^T`."""
    return step * float(left_norms.max() * right_norms.max())


@in_double_precision
def entry_squares(lower: float, upper: float, center: np.ndarray) -> float:
    r"""Sensitivity of :math:`\sum_{ij} (a_{ij} - p_j)^2` to one entry between the bounds.

    Both values of :math:`(a - p)^2` lie between 0 and its maximum over the bounds, to which 0
    belongs where an entry may be missing or null. Attained if p lies between the bounds.
    """
    return float(np.maximum((upper - center) ** 2, (lower - center) ** 2).max())


@in_double_precision
def entry_mean(step: float, n_rows: int) -> float:
    """Sensitivity of the means of the columns to one entry."""
    return step / n_rows


@in_double_precision
def edge_product(step: float, norms: np.ndarray) -> float:
    r"""Sensitivity of A Z to an edge, an entry together with its mirror image.

    :math:`C Z = \alpha (e_s z_t^T + e_t z_s^T)`, two rows, of norm at most
    :math:`\sqrt{r_1^2 + r_2^2}` with the two largest row norms of Z. The largest alone, which is
    right for an entry and for a loop, would be too little by up to :math:`\sqrt 2`.
    """
    return step * math.hypot(*_two_largest(norms))


@in_double_precision
def edge_product_l1(step: float, norms: np.ndarray) -> float:
    """Sum of the row norms of the change that `edge_product` bounds."""
    return step * math.fsum(_two_largest(norms))


@in_double_precision
def edge_mean(step: float, n_rows: int) -> float:
    """Sensitivity of the means of the columns to an edge, which changes two of them."""
    return math.sqrt(2) * entry_mean(step, n_rows)


@in_double_precision
def edge_mean_l1(step: float, n_rows: int) -> float:
    """Sum of the changes of the means that `edge_mean` bounds."""
    return 2 * entry_mean(step, n_rows)


@in_double_precision
def edge_squares(lower: float, upper: float, center: np.ndarray) -> float:
    """Sensitivity of the sum that `entry_squares` is for to an edge: two entries."""
    return 2 * entry_squares(lower, upper, center)


@in_double_precision
def edge_core(step: float, left_norms: np.ndarray, right_norms: np.ndarray) -> float:
    r"""Sensitivity of :math:`Y^T A Z` to an edge: :math:`y_{(1)} z_{(1)} + y_{(2)} z_{(2)}`.

    The change is :math:`\alpha (y_s z_t^T + y_t z_s^T)`, and of all ways to pair the two largest
    norms of either side the sorted one gives the largest sum. Not always attained.
    """
    pairs = zip(_two_largest(left_norms), _two_largest(right_norms), strict=True)
    return step * math.fsum(left * right for left, right in pairs)


@in_double_precision
def symmetric_edge_core(step: float, norms: np.ndarray) -> float:
    r"""Sensitivity of :math:`Z^T A Z` to an edge: :math:`\max(2 r_1 r_2, r_1^2)`.

    An edge between two nodes moves it by :math:`\alpha (z_s z_t^T + z_t z_s^T)`, a loop by
    :math:`\alpha z_s z_s^T`.
    """
    first, second = _two_largest(norms)
    return step * max(2 * first * second, first**2)


@in_double_precision
def short_row(largest: float, step: float, n_entries: int, adjacency: str) -> float:
    r"""Largest change of a row of at most w entries (`n_entries`), of size at most `largest`.

    :math:`w b^2` squared for zero_out, b the largest size; for replace
    :math:`w \max(2 b^2, d^2)`, d the step: j columns hold an entry before and after, which changes
    by d, and 2 (w - j) one of them, and :math:`j d^2 + 2 (w - j) b^2` is largest at an end. That of
    the sum of all rows, too.
    """
    squared = choose(adjacency, zero_out=largest**2, replace=max(2 * largest**2, step**2))
    return math.sqrt(n_entries * squared)


@in_double_precision
def short_row_adjoint(
    largest: float, step: float, n_entries: int, adjacency: str, norms: np.ndarray
) -> float:
    """Sensitivity of A' Y to such a row: the change of the row, times a row norm of Y."""
    return short_row(largest, step, n_entries, adjacency) * float(norms.max())


@in_double_precision
def short_row_squares(
    lower: float, upper: float, n_entries: int, adjacency: str, center: np.ndarray
) -> float:
    """Sensitivity of the sum that `entry_squares` is for to such a row, entry by entry.

    Not always attained.
    """
    n_changed = min(n_entries, len(center)) * choose(adjacency, zero_out=1.0, replace=2.0)
    return n_changed * entry_squares(lower, upper, center)


@in_double_precision
def short_row_product(
    largest: float, step: float, n_entries: int, adjacency: str, norms: np.ndarray
) -> float:
    r"""Sensitivity of A Z to such a row, for columns of Z that are orthonormal or shorter.

    One row of the product changes, by :math:`\sum_j c_j z_j` over the entries that change. For
    zero_out these are w, each by at most b. For replace some j columns may hold an entry before and
    after, which changes by d, and 2 (w - j) one of them, which changes by b: the maximum over j of
    the sum, with the largest row norms for those that change most, as d is at least b where 0 lies
    between the bounds. The change is also no longer than that of the row itself, `short_row`; the
    smaller of the two bounds need not be attained.
    """
    n_entries = min(n_entries, len(norms))
    n_changed = n_entries * int(choose(adjacency, zero_out=1, replace=2))
    sums = np.concatenate([[0.0], np.cumsum(-np.sort(-norms)[:n_changed])])
    shared = np.arange(n_entries + 1) if adjacency == "replace" else np.zeros(1, dtype=int)
    both = sums[np.minimum(shared, len(sums) - 1)]
    one_or_both = sums[np.minimum(n_changed - shared, len(sums) - 1)]
    by_entries = step * both + largest * np.maximum(one_or_both - both, 0.0)
    return min(float(by_entries.max()), short_row(largest, step, n_entries, adjacency))


@in_double_precision
def interaction_product(norms: np.ndarray, degree_floor: int) -> float:
    r"""Sensitivity of :math:`\sum_u r_u r_u^T Z / \max(d_u, f)` to one interaction.

    The rows :math:`r_u` are 0/1 with :math:`d_u` ones, f is the floor, the columns of Z are
    orthonormal or shorter, and m is its largest row norm:

    .. math:: \sqrt{\max\left(\min(1/f, m^2) + (f - 1) m^2/f^2,\;
              \min((1 + m^2)/(f + 1), m^2)\right)}.

    Proof. Remove item k of a user with d items; let x be its row of Z and s the sum of the rows of
    the others, so that :math:`\|s\| \le \min(\sqrt{d - 1}, (d - 1) m)` and
    :math:`\|s + x\| \le \min(\sqrt d, d m)`. For :math:`d \le f` row k changes by
    :math:`(s + x)/f`, the others by :math:`x/f`: at most the first term, at d = f. For
    :math:`d > f` the squared change is :math:`\|x\|^2/d + \|s\|^2/(d (d - 1))`: at most the
    second, at d = f + 1.
    """
    largest, floor = float(norms.max()) ** 2, float(degree_floor)
    below = min(1 / floor, largest) + (floor - 1) * largest / floor**2
    above = min((1 + largest) / (floor + 1), largest)
    return math.sqrt(max(below, above))


@in_double_precision
def interaction_mean(degree_floor: int, n_rows: int) -> float:
    r"""Sensitivity of the mean of the rows :math:`r_u/\sqrt{\max(d_u, f)}` to one interaction.

    A user with :math:`d \le f` items moves the sum by :math:`1/\sqrt f`; with more by
    :math:`2 - 2\sqrt{1 - 1/d} \le 1/(d - 1) \le 1/f` squared.
    """
    return 1 / (math.sqrt(degree_floor) * n_rows)


@in_double_precision
def interaction_squares(degree_floor: int) -> float:
    r"""Sensitivity of the sum of the squared norms of these rows, :math:`\min(1, d_u / f)`."""
    return 1 / degree_floor


@in_double_precision
def spectral_product(norms: np.ndarray) -> float:
    r"""Sensitivity of A Z to a change with :math:`\|C\|_2 \le 1`.

    :math:`\|C Z\|_F \le \|C\|_2 \|Z\|_F`. Changes of rank one do with :math:`\|Z\|_2`; the identity
    attains the bound. That of :math:`Y^T A Z` is no larger for an orthonormal Y.
    """
    return float(np.linalg.norm(norms))


def _two_largest(norms: np.ndarray) -> tuple[float, float]:
    if len(norms) == 1:
        return float(norms[0]), 0.0
    second, first = np.partition(norms, len(norms) - 2)[-2:]
    return float(first), float(second)
