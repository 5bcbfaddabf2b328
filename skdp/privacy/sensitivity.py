"""Sensitivities: how far one protected unit can move a statistic, at worst.

Every function returns the supremum over all neighboring datasets of the change in the Euclidean
norm, for matrices the Frobenius norm. The adjacency is

- ``"replace"``: one unit is exchanged for any other, n stays;
- ``"zero_out"``: one unit becomes null and contributes nothing to any sum or count, n stays.

If rows are the unit, they are clipped to Euclidean norm `c` (`row_norm`). A computed sum may be off
by `rounding` times the largest contribution of a row. Both neighbors have this error, so that twice
the error is added to the supremum [1]_. :class:`skdp.data.rows.Rows` returns `rounding` with a sum.

For the units of :mod:`skdp.units`, the statistic is a product of a matrix A and public bases, and
a neighbor has A + C in place of A. `norms` are the Euclidean norms of the rows of a basis, and
`step` is the largest change of an entry. Every function bounds the Frobenius norm of the change of
the product. A function whose name ends in ``_l1`` bounds the sum of the Euclidean norms of the rows
of the change, for noise that is independent from row to row. The bound is attained unless its
docstring says otherwise; the caller adds rounding.

References
----------
.. [1] S. Casacuberta, M. Shoemate, S. Vadhan, C. Wagaman (2022). "Widespread underestimation of
   sensitivity in differentially private libraries and how to fix it". CCS. :arxiv:`2207.10635`
"""

import math

import numpy as np

from skdp.linalg.norms import UNIT_ROUNDOFF
from skdp.privacy.precision import in_double_precision

ADJACENCIES = ("replace", "zero_out")


def choose(adjacency: str, *, zero_out: float, replace: float) -> float:
    """Return the one of two numbers that belongs to the adjacency."""
    return {"zero_out": zero_out, "replace": replace}[adjacency]


# ------------------------------
# Sums, second moments and projections of rows that are clipped in norm.


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

    :math:`\psi` clips to norm `b` (`level`). zero_out: `c b`, with c = `row_norm`. Replace, for
    `b <= c`:

    - :math:`2 b \sqrt{c^2 - b^2}` up to :math:`b = c / \sqrt 3`,
    - :math:`\sqrt{2 c^2 b^2 + (c^2 - b^2)^2 / 2}` beyond.

    Proof for c = 1; rows of norm 1 are the worst. The projections :math:`V^T x` and :math:`V^T y`
    have squared norms A and B and absolute cosine :math:`\kappa`, and are clipped to norms u and v.
    Outside the span of V the rows have norms :math:`\sqrt{1 - A}` and :math:`\sqrt{1 - B}`. At
    worst, the inner products within and outside the span have opposite signs. Then the squared
    distance is

    .. math:: D = u^2 + v^2 + 2 \kappa u v [\sqrt{(1 - A)(1 - B)} - \kappa \sqrt{AB}].

    Where :math:`u = b`, D falls as A rises, so let :math:`A = u^2 \le b^2` and
    :math:`B = v^2 \le b^2`. If the :math:`\kappa` with the largest D is below 1, then
    :math:`D = A + B + (1 - A)(1 - B)/2`, which rises in A and in B. If :math:`\kappa = 1`, then
    with :math:`A = \sin^2 s` and :math:`B = \sin^2 t` one has :math:`D = \sin^2(s + t)`, and
    :math:`\cos(s + t) \ge \sin s \sin t \ge 0`, so that D rises in s and in t. Hence D is largest
    for :math:`A = B = b^2` and :math:`\kappa = \min(1, (1 - b^2) / (2 b^2))`.
    """
    # For an infinite norm, inf / inf would be NaN.
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
    :math:`\|z\| \le \|x\|`; so the second part needs no more noise. `sqrt(2) c^2` for replace: the
    contributions of two rows have an inner product that is not negative.
    """
    return second_moment(row_norm, adjacency, rounding)


# ------------------------------
# Counts of rows with a property, and histograms.


@in_double_precision
def count() -> float:
    """Sensitivity of the number of rows with a property: 1. Counts are exact, without rounding.

    An exact sum of one number per row has the same sensitivity if all numbers lie in a public
    interval of length 1 that includes 0: two of them differ by at most 1, and a null row adds 0.
    """
    return 1.0


@in_double_precision
def differences_of_counts(n_levels: int) -> float:
    r"""Sensitivity of a tree of differences of counts in :math:`2^L` bins: :math:`\sqrt{(L+1)/2}`.

    L is `n_levels`.

    A node of the tree is an interval of bins. Its value is, but for public constants, half of the
    difference between the counts of its two halves. Let a unit move from bin i to bin j. The node
    with i in one half and j in the other changes by 1. On each of the at most L - 1 levels below,
    the node with i and the node with j change by 1/2. Nodes above have i and j in the same half,
    and do not change. So the squared change is at most :math:`1 + 2 (L - 1) / 4`, attained if i and
    j are in different halves of the root. A null unit counts in the last bin, so that both
    adjacencies have this bound. The bound also holds for a unit that is spread over bins with
    nonnegative weights of sum 1: its change is a weighted mean of such changes.
    """
    return math.sqrt((n_levels + 1) / 2)


@in_double_precision
def histogram(adjacency: str) -> float:
    r"""Sensitivity of disjoint counts: 1 for zero_out, sqrt(2) for replace, which changes two.

    A unit may also be spread over several bins, with nonnegative weights of sum 1. The vector of
    weights has norm at most 1, and no negative inner product with the vector of another unit.
    """
    return choose(adjacency, zero_out=1.0, replace=math.sqrt(2))


@in_double_precision
def histograms(n_columns: int, adjacency: str) -> float:
    r"""Sensitivity of the histograms of m (`n_columns`) columns together.

    It is :math:`\sqrt{m}` times the sensitivity of one histogram. A row attains it if all of its
    entries change their bins.
    """
    return math.sqrt(n_columns) * histogram(adjacency)


# ------------------------------
# Columns, each clipped to an interval: their means and mean squares together.


@in_double_precision
def column_moments(
    n_columns: int, adjacency: str, rounding: float = 0.0, presence: float = 0.0
) -> float:
    r"""Sensitivity of :math:`\sum_i (t_{ij}, t_{ij}^2 - 1/2)` of all d columns j, `|t| <= 1`.

    It is :math:`2 \sqrt d` for replace and :math:`\sqrt{5d/4}` for zero_out. The squared changes of
    the d columns (`n_columns`) add up. For one column:

    - Replace: :math:`(t - s)^2 + (t^2 - s^2)^2 = a^2 (1 + b^2)` with :math:`a = |t - s|` and
      :math:`b = |t + s|`, for which :math:`a + b = 2 \max(|t|, |s|) \le 2`. So the sum is at most
      :math:`a^2 (1 + (2 - a)^2)`. This bound has the derivative :math:`2a (2a^2 - 6a + 5) \ge 0`,
      and rises to 4 at a = 2, attained by t = 1, s = -1.
    - zero_out: :math:`t^2 + (t^2 - 1/2)^2 = t^4 + 1/4 \le 5/4`, attained by t = 1. Without the 1/2
      the bound would be 2. A null row adds nothing to either sum.

    If entries may be missing, each entry that is there also adds :math:`w \le 1` (`presence`) to a
    count; a missing entry adds nothing. Then zero_out has :math:`\sqrt{(5/4 + w^2) d}`. For
    replace, an entry that only one of two rows has changes its column by :math:`5/4 + w^2 < 4`, in
    squares. If both rows have the entry, its count does not change.

    Rounding is charged relative to the longest contribution of a row, the bound for zero_out. The
    rounding of t and its square, a few parts in 1e16, is far below the least rounding charged.
    """
    longest = math.sqrt((5 / 4 + presence**2) * n_columns)
    change = choose(adjacency, zero_out=longest, replace=2 * math.sqrt(n_columns))
    return change + 2 * rounding * longest


# ------------------------------
# Records with a class: the second moment of a row, a constant and the class together.

# Bound on the relative rounding error of computing the norm of a record.
_MARGIN = 16 * UNIT_ROUNDOFF  # not tuned


@in_double_precision
def class_moment(
    row_norm: float,
    constant: float,
    label_weight: float,
    n_classes: int,
    adjacency: str,
    rounding: float = 0.0,
) -> float:
    r"""Sensitivity of :math:`\sum_i u_i u_i^T`, :math:`u_i = (x_i, a, b (e_{y_i} - 1/K))`.

    :math:`e_y` is the unit vector of the class y, one of K (`n_classes`); a is the `constant`, and
    b the `label_weight`. The row, the constant and the class of a record are one vector, with

    .. math:: \|u\|^2 \le Q = c^2 + a^2 + b^2 (1 - 1/K),

    attained by rows of norm c, whatever the class. So the sensitivity is that of `second_moment`: Q
    for zero_out, :math:`\sqrt 2 Q` for replace. The latter is attained by records u and v that are
    orthogonal: they have different classes, and rows with :math:`x \cdot y = b^2/K - a^2`. Such
    rows exist if there are two features, and :math:`|b^2/K - a^2| \le c^2`.
    """
    label = label_weight * math.sqrt(1 - 1 / n_classes)
    longest = math.hypot(row_norm, constant, label) * (1 + _MARGIN)
    return second_moment(longest, adjacency, rounding)


# ------------------------------
# Records with a response: the joint second moment, and sums of products with predictions.


@in_double_precision
def response_moment(row_norm: float, adjacency: str, rounding: float = 0.0) -> float:
    r"""Sensitivity of :math:`\sum_i u_i u_i^T`, :math:`u_i = (x_i, t_i)`, :math:`|t_i| \le c / 2`.

    A record is one vector with :math:`\|u\|^2 \le Q = c^2 + c^2/4`. So the sensitivity is that of
    `second_moment`: Q for zero_out, attained by a row of norm c with t = c/2; and
    :math:`\sqrt 2 Q` for replace, attained by two such records that are orthogonal, as those with
    :math:`x \cdot y = -c^2/4` and t = s.
    """
    longest = math.hypot(row_norm, row_norm / 2) * (1 + _MARGIN)
    return second_moment(longest, adjacency, rounding)


@in_double_precision
def calibration(bounds: tuple[float, float], adjacency: str, rounding: float = 0.0) -> float:
    r"""Sensitivity of :math:`\sum_i (p_i t_i, \sqrt 2 p_i^2 T / P, e_i P / \sqrt 2)`.

    The predictions are clipped to `|p| <= P`, the responses to `|t| <= T` and the errors to
    `|e| <= T`; `bounds` are P and T. The sensitivity is :math:`\sqrt 6 P T` for replace and
    :math:`\sqrt{3.5} P T` for zero_out. Proof for P = T = 1:

    - zero_out: :math:`p^2 t^2 + 2 p^4 + e^2 / 2 \le 3.5`, attained by p = t = e = 1.
    - Replace: the third number adds at most 2 to the squared distance. With r and s the absolute
      values of p in both records, the first numbers differ by at most r + s and the second ones by
      :math:`\sqrt 2 (r^2 - s^2)`, so that both add at most :math:`(r + s)^2 (1 + 2 (r - s)^2)`.
      This bound rises with r and s if their difference stays. So let r = 1, s = 1 - d. Then
      :math:`f(d) = (2 - d)^2 (1 + 2 d^2)` has the derivative
      :math:`-2 (2 - d) (1 - 2 d)^2 \le 0`, and the largest value 4, at d = 0. The sum of 6 is
      attained by p = 1 in both records and opposite t and e.

    Roots and products of a record round by far less than the least rounding that is charged.
    """
    unit = bounds[0] * bounds[1]
    longest = math.sqrt(3.5) * unit
    return choose(adjacency, zero_out=longest, replace=math.sqrt(6) * unit) + 2 * rounding * longest


@in_double_precision
def agreement(adjacency: str, rounding: float = 0.0) -> float:
    r"""Sensitivity of :math:`\sum_i (p_i t_i, p_i^2)`, with both products clipped to [-1, 1].

    A record with the prediction p and the response t adds a point of the rectangle from (-1, 0) to
    (1, 1). For "zero_out", the length of this point is at most :math:`\sqrt 2`, attained by
    p = t = 1. For "replace", two such points are at most :math:`\sqrt 5` apart, the diagonal. The
    records p = t = 1 and p = 1/T, t = -T come arbitrarily near to this distance as T grows.
    """
    longest = math.sqrt(2)
    return choose(adjacency, zero_out=longest, replace=math.sqrt(5)) + 2 * rounding * longest


# ------------------------------
# Entries of a matrix, and edges of a graph: entries with their mirror image.


@in_double_precision
def entry_step(lower: float, upper: float, adjacency: str) -> float:
    """Largest change of an entry between the bounds: to another value, or to 0 for zero_out.

    If a missing entry is 0, the bounds include 0. If the middle of bounds that are 2 h apart is
    subtracted from all entries but the missing ones, all entries lie between -h and h. Then two
    entries differ by at most 2 h, and an entry that becomes missing changes by at most h.
    """
    return choose(adjacency, zero_out=max(abs(lower), abs(upper)), replace=upper - lower)


@in_double_precision
def entry_product(step: float, norms: np.ndarray) -> float:
    r"""Sensitivity of A Z to one entry: `step` times the largest row norm of Z.

    A change :math:`\alpha` of entry (s, t) adds :math:`\alpha e_s z_t^T` to the product, where
    :math:`z_t` is row t of Z. Only one row changes, so that the bound also holds for the sum of row
    norms. For a given Frobenius norm of Z, the bound is smallest if all rows of Z are equally long
    (M. Hardt, A. Roth, 2013, :arxiv:`1211.0975`).
    """
    return step * float(norms.max())


@in_double_precision
def entry_core(step: float, left_norms: np.ndarray, right_norms: np.ndarray) -> float:
    r"""Sensitivity of :math:`Y^T A Z` to one entry: a change c adds :math:`c y_s z_t^T`."""
    return step * float(left_norms.max() * right_norms.max())


@in_double_precision
def entry_squares(lower: float, upper: float, center: np.ndarray) -> float:
    r"""Sensitivity of :math:`\sum_{ij} (a_{ij} - p_j)^2` to one entry between the bounds.

    Before and after the change, :math:`(a - p)^2` lies between 0 and its maximum over all a within
    the bounds. The bounds include 0 if an entry may be missing or null. The sensitivity is attained
    if p (`center`) lies between the bounds.
    """
    return float(np.maximum((upper - center) ** 2, (lower - center) ** 2).max())


@in_double_precision
def entry_mean(step: float, n_rows: int) -> float:
    """Sensitivity of the means of the columns to one entry."""
    return step / n_rows


@in_double_precision
def edge_product(step: float, norms: np.ndarray) -> float:
    r"""Sensitivity of A Z to an edge, an entry together with its mirror image.

    The change :math:`\alpha (e_s z_t^T + e_t z_s^T)` has two nonzero rows, and a norm of at most
    :math:`|\alpha| \sqrt{r_1^2 + r_2^2}`, where :math:`r_1` and :math:`r_2` are the two largest row
    norms of Z. The bound of an entry or a loop, :math:`r_1` alone, would be too small by a factor
    of up to :math:`\sqrt 2`.
    """
    return step * math.hypot(*_two_largest(norms))


@in_double_precision
def edge_product_l1(step: float, norms: np.ndarray) -> float:
    """Sensitivity of A Z to an edge, as the sum of the row norms of the change."""
    return step * math.fsum(_two_largest(norms))


@in_double_precision
def edge_mean(step: float, n_rows: int) -> float:
    """Sensitivity of the means of the columns to an edge, which changes two means."""
    return math.sqrt(2) * entry_mean(step, n_rows)


@in_double_precision
def edge_mean_l1(step: float, n_rows: int) -> float:
    """Sensitivity of the means of the columns to an edge, as the sum of their changes."""
    return 2 * entry_mean(step, n_rows)


@in_double_precision
def edge_squares(lower: float, upper: float, center: np.ndarray) -> float:
    """Sensitivity of the sum in `entry_squares` to an edge: twice the sensitivity to an entry."""
    return 2 * entry_squares(lower, upper, center)


@in_double_precision
def edge_core(step: float, left_norms: np.ndarray, right_norms: np.ndarray) -> float:
    r"""Sensitivity of :math:`Y^T A Z` to an edge: :math:`y_{(1)} z_{(1)} + y_{(2)} z_{(2)}`.

    This formula is for a `step` of 1; in general it is multiplied by `step`. The change is at most
    `step` times :math:`y_s z_t^T + y_t z_s^T`, and :math:`y_{(k)}`, :math:`z_{(k)}` are the k-th
    largest row norms. Sorted pairs have the largest sum of products. The bound is not always
    attained.
    """
    pairs = zip(_two_largest(left_norms), _two_largest(right_norms), strict=True)
    return step * math.fsum(left * right for left, right in pairs)


@in_double_precision
def symmetric_edge_core(step: float, norms: np.ndarray) -> float:
    r"""Sensitivity of :math:`Z^T A Z` to an edge: `step` times :math:`\max(2 r_1 r_2, r_1^2)`.

    A change :math:`\alpha` of an edge between two nodes changes the product by
    :math:`\alpha (z_s z_t^T + z_t z_s^T)`, and that of a loop by :math:`\alpha z_s z_s^T`. The two
    largest row norms of Z are :math:`r_1 \ge r_2`.
    """
    first, second = _two_largest(norms)
    return step * max(2 * first * second, first**2)


def _two_largest(norms: np.ndarray) -> tuple[float, float]:
    """Return the largest and the second largest norm, which is 0 if there is only one norm."""
    if len(norms) == 1:
        return float(norms[0]), 0.0
    second, first = np.partition(norms, len(norms) - 2)[-2:]
    return float(first), float(second)


# ------------------------------
# Rows that have few nonzero entries.


@in_double_precision
def short_row(largest: float, step: float, n_entries: int, adjacency: str) -> float:
    r"""Largest change of a row of at most w entries (`n_entries`), of size at most `largest`.

    Let b be `largest` and d be `step`. The squared change is :math:`w b^2` for zero_out and
    :math:`w \max(2 b^2, d^2)` for replace. Proof for replace: let j columns have an entry in both
    rows. These entries change by at most d. Further 2 (w - j) columns have an entry in one of the
    rows, which changes by at most b. Then :math:`j d^2 + 2 (w - j) b^2` is largest for j = 0 or
    j = w. The sum of all rows changes by as much as one row.
    """
    squared = choose(adjacency, zero_out=largest**2, replace=max(2 * largest**2, step**2))
    return math.sqrt(n_entries * squared)


@in_double_precision
def short_row_rmatmul(
    largest: float, step: float, n_entries: int, adjacency: str, norms: np.ndarray
) -> float:
    """Sensitivity of A' Y if a `short_row` of A changes; `norms` are Y's row norms."""
    return short_row(largest, step, n_entries, adjacency) * float(norms.max())


@in_double_precision
def short_row_squares(
    lower: float, upper: float, n_entries: int, adjacency: str, center: np.ndarray
) -> float:
    """Sensitivity of the sum in `entry_squares` to a short row; not always attained."""
    n_changed = min(n_entries, len(center)) * choose(adjacency, zero_out=1.0, replace=2.0)
    return n_changed * entry_squares(lower, upper, center)


@in_double_precision
def short_row_product(
    largest: float, step: float, n_entries: int, adjacency: str, norms: np.ndarray
) -> float:
    r"""Sensitivity of A Z to a short row, for Z of a spectral norm of at most 1.

    One row of the product changes, by :math:`\sum_k c_k z_k` over the entries k that change. Let w,
    b and d be as in `short_row`. For zero_out at most w entries change, each by at most b. For
    replace, j entries change by d and 2 (w - j) entries by b. The largest row norms belong to the
    entries that change by d, which is at least b, as 0 lies between the bounds. One bound is the
    maximum over j. Another one is `short_row`, as the product changes by no more than the row
    itself. The smaller bound is returned, and need not be attained.
    """
    n_entries = min(n_entries, len(norms))
    n_changed = n_entries * int(choose(adjacency, zero_out=1, replace=2))
    # sums[m] is the sum of the m largest norms. Beyond the number of norms, it no longer grows.
    sums = np.concatenate([[0.0], np.cumsum(-np.sort(-norms)[:n_changed])])
    n_shared = np.arange(n_entries + 1) if adjacency == "replace" else np.zeros(1, dtype=int)
    of_shared = sums[np.minimum(n_shared, len(sums) - 1)]
    of_all = sums[np.minimum(n_changed - n_shared, len(sums) - 1)]
    by_entries = step * of_shared + largest * np.maximum(of_all - of_shared, 0.0)
    return min(float(by_entries.max()), short_row(largest, step, n_entries, adjacency))


# ------------------------------
# Entries of a 0/1 table whose rows are divided by the root of their sum, or of a larger floor.


@in_double_precision
def interaction_product(norms: np.ndarray, degree_floor: int) -> float:
    r"""Sensitivity of :math:`\sum_u r_u r_u^T Z / \max(d_u, f)` to one interaction.

    Row :math:`r_u` has :math:`d_u` ones and zeros elsewhere, f is `degree_floor`, Z has a
    spectral norm of at most 1, and m is the largest row norm of Z. The sensitivity is

    .. math:: \sqrt{\max\left(\min(1/f, m^2) + (f - 1) m^2/f^2,\;
              \min((1 + m^2)/(f + 1), m^2)\right)}.

    Proof. Remove item k of a user with d items. Let x be the row of Z for item k, and s the sum of
    the rows of Z for the user's other items. Then
    :math:`\|s\| \le \min(\sqrt{d - 1}, (d - 1) m)` and :math:`\|s + x\| \le \min(\sqrt d, d m)`.
    If :math:`d \le f`, row k of the product changes by :math:`(s + x)/f`, and the rows of the other
    items change by :math:`x/f`: the squared change is at most the first term, attained for d = f.
    If :math:`d > f`, it is :math:`\|x\|^2/d + \|s\|^2/(d (d - 1))`: at most the second term, for
    d = f + 1. If Z is the identity, m = 1, and this is the sensitivity of the second moment itself.
    """
    largest, floor = float(norms.max()) ** 2, float(degree_floor)
    below = min(1 / floor, largest) + (floor - 1) * largest / floor**2
    above = min((1 + largest) / (floor + 1), largest)
    return math.sqrt(max(below, above))


@in_double_precision
def interaction_mean(degree_floor: int, n_rows: int) -> float:
    r"""Sensitivity of the mean of the rows :math:`r_u/\sqrt{\max(d_u, f)}` to one interaction.

    The symbols are those of `interaction_product`. If the user has :math:`d \le f` items, the sum
    of the rows changes by :math:`1/\sqrt f`; otherwise the square of its change is
    :math:`2 - 2\sqrt{1 - 1/d} \le 1/(d-1) \le 1/f`.
    """
    return 1 / (math.sqrt(degree_floor) * n_rows)


@in_double_precision
def interaction_squares(degree_floor: int) -> float:
    r"""Sensitivity of the sum of squared row norms, :math:`\sum_u \min(1, d_u / f)`."""
    return 1 / degree_floor


# ------------------------------
# Changes of a whole matrix, whose norm the caller promises to be bounded.


@in_double_precision
def spectral_product(norms: np.ndarray) -> float:
    r"""Sensitivity of A Z to a change with :math:`\|C\|_2 \le 1`.

    :math:`\|C Z\|_F \le \|C\|_2 \|Z\|_F`, attained by C = I. For changes of rank one
    :math:`\|Z\|_2` would suffice. The sensitivity of :math:`Y^T A Z` is no larger for an
    orthonormal Y.
    """
    return float(np.linalg.norm(norms))


@in_double_precision
def frobenius_product(change: float, spectral_norm: float = 1.0) -> float:
    r"""Sensitivity of A Z to a change with :math:`\|C\|_F \le \Delta`: :math:`\Delta \|Z\|_2`.

    Attained by :math:`C = \Delta u v^T` with the leading left singular vector v of Z: promising a
    change of rank one would save nothing. `spectral_norm`, :math:`\|Z\|_2`, is 1 for an
    orthonormal Z. The sensitivity of :math:`Y^T A Z` is no larger for an orthonormal Y.
    """
    return change * spectral_norm


# ------------------------------
# Regressions.


@in_double_precision
def response_sum(
    level: float, response_range: float, largest_norm: float, adjacency: str, rounding: float = 0.0
) -> float:
    r"""Sensitivity of :math:`\sum_i \psi(y_i - p_i) z_i` to one response, z and p public.

    :math:`\psi` clips to :math:`[-b, b]` (`level`), :math:`\|z_i\| \le m` (`largest_norm`), and the
    response changes by at most d (`response_range`, inf if unbounded).

    - Replace: :math:`\min(2 b, d) m`, since :math:`\psi` lies between its bounds and has a slope of
      at most 1. Attained by residuals of opposite signs.
    - zero_out: :math:`b m`, since the null response contributes nothing, whatever the prediction.
      Attained by a residual beyond b.
    """
    moved = choose(adjacency, zero_out=level, replace=min(2 * level, response_range))
    # If the level is infinite and there is no rounding, 0 times infinity would be NaN.
    charged = 2 * rounding * level if rounding else 0.0
    return largest_norm * (moved + charged)


# ------------------------------
# Sensitivities of sums over users, to which each user adds a matrix, or a loss for each option.


@in_double_precision
def user_moment(level: float, adjacency: str, rounding: float = 0.0) -> float:
    r"""Sensitivity of :math:`\sum_j A_j`, positive semi-definite of Frobenius norm at most c.

    The bound c is `level`. The sensitivity is c for zero_out and :math:`\sqrt 2 c` for replace:
    :math:`\|A - B\|_F^2 \le \|A\|_F^2 + \|B\|_F^2`, as
    :math:`\langle A, B\rangle = \|A^{1/2} B^{1/2}\|_F^2 \ge 0`. For replace, two users attain it if
    their matrices have norm c, and each row of one user is orthogonal to each row of the other.

    A user changes all of its rows at once, so that only its contribution as a whole is bounded.
    If each user adds a clipped vector, use `row_sum`; for an outer product, `second_moment`.
    """
    return level * (choose(adjacency, zero_out=1.0, replace=math.sqrt(2)) + 2 * rounding)


@in_double_precision
def loss_range(largest: float, adjacency: str, rounding: float = 0.0) -> float:
    r"""Sensitivity of the losses of public options, each summed over users.

    For one user the losses of any two options differ by at most `b` (`largest`), as do losses in
    :math:`[0, b]`. The sensitivity is the largest change of the difference of two sums: `b` for
    zero_out, `2 b` for replace, attained by users with opposite losses. The change depends on four
    sums, two of each neighbor, and each of them may be rounded.
    """
    return largest * (choose(adjacency, zero_out=1.0, replace=2.0) + 4 * rounding)


@in_double_precision
def misordered_pairs(n_units: int, adjacency: str, rounding: float = 0.0) -> float:
    r"""Sensitivity, as in `loss_range`, of the number of pairs of two classes in the wrong order.

    The rows of a unit have weights of sum at most 1: a on rows of the positive class, b on rows of
    the negative class. A pair counts as the product of its two weights, or half of it in a tie. Let
    P and N be the weights of all other units on the two classes, so that :math:`P + N \le n - 1`,
    where n is `n_units`. The pairs of a unit then count from 0 to :math:`a N + b P + a b \le n`. So
    leaving the unit out changes the difference of two options by at most n, and exchanging it, by
    at most 2 n. If one option ranks a unit before all other units, of the other class, and another
    option ranks it behind them, the change is 1 below the bound, or 2 for replace.
    """
    return loss_range(float(n_units), adjacency, rounding)


@in_double_precision
def count_distance() -> float:
    """Sensitivity, as in `loss_range`, of the distances of counts from public numbers: 2.

    A user changes each count by at most 1, which may increase one distance and decrease another.
    """
    return 2 * count()
