"""Two noisy sketches of a matrix: their plan, sums, best-fitting matrix, and a fit in one pass."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np

from skdp.data.reduce import PerRow, map_sum
from skdp.data.rows import Rows
from skdp.decomposition._spec import EntriesSpec, Factors, rank_of
from skdp.linalg.matrices import FixedRank
from skdp.linalg.norms import EXACT, LEAST_ROUNDING, UNIT_ROUNDOFF, as_dense
from skdp.linalg.prefix_sums import PrefixNoise
from skdp.linalg.sketches import CountSketch, HaarSketch, Sketch, haar_norm
from skdp.linalg.spectrum import gaussian_norm, orthonormal_basis
from skdp.privacy import PrivacyBudget, Release, Released, sensitivity
from skdp.privacy.budget import to_counts
from skdp.privacy.plan import PrivacyCost
from skdp.units import ResolvedEntry, ResolvedFrobeniusChange, ResolvedUpdate

# ------------------------------
# The plan of two sketches of a matrix: sizes, sensitivities and shares.

StreamUnit = ResolvedUpdate | ResolvedEntry | ResolvedFrobeniusChange

# Sketches reduce the shorter side of the matrix to `n_sketch` dimensions, `_SIZE_PER_COMPONENT` for
# each component, and the longer side to `n_core`, which is `_CORE_PER_SIZE` times as many.
_SIZE_PER_COMPONENT, _CORE_PER_SIZE = 6, 4  # not studied
# Least `n_sketch`: for a matrix far from low rank, fewer dimensions add an error that exceeds the
# noise. benchmarks/house/constants.md, and benchmarks/factorization/factorization.md,
# "n_sketch=120".
_LEAST_SIZE = 60
# One sketch has a row for each index of the longer side of the matrix, and so more noisy entries.
# This is the share of that sketch.
_LONG_SIDE_SHARE = 0.65  # not studied
# Part of delta that a sketch reserves if the bound on its norm holds only with high probability.
_TAIL_SHARE = 0.25  # not studied
#: Part of delta for both sketches, whatever the shape of the matrix.
RESERVED_PART = 2 * _TAIL_SHARE  # not tuned


@dataclass(frozen=True)
class Sketches:
    r"""Two sketches, and the probabilities that their norms exceed the bounds of the plan.

    :math:`Y = A \Phi` is the right sketch of a matrix A, and :math:`Z = A^T \Psi` the left sketch.
    Both are linear: a change C of any A moves Y by :math:`C \Phi`, and Z by :math:`C^T \Psi`.
    """

    right: Sketch  # of the columns
    left: Sketch  # of the rows
    # Probability that a sketch lengthens a fixed matrix beyond the bound of the plan: 0 if data may
    # depend on the sketch, as the plan then assumes the worst case.
    tails: tuple[float, float]

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return self.left.shape[0], self.right.shape[0]

    @property
    def is_secret(self) -> bool:
        """Whether the bounds of the plan hold only for sketches that nobody knows."""
        return any(self.tails)


@dataclass(frozen=True)
class StreamSpec:
    """What the plan of a stream depends on: public facts and sketches."""

    unit: StreamUnit
    sketches: Sketches
    correlation: PrefixNoise
    cost: PrivacyCost

    @property
    def n_units(self) -> int:
        """Number of units."""
        shape = self.sketches.shape
        return shape[0] if self.unit.counted == "rows" else math.prod(shape)


def sketch_sizes(
    shape: tuple[int, int], rank: int, n_sketch: int | None = None, n_core: int | None = None
) -> tuple[int, int]:
    """Return the numbers of columns of the right and left sketches; the longer one has fewer."""
    size = n_sketch or max(_SIZE_PER_COMPONENT * rank, _LEAST_SIZE)
    core = n_core or _CORE_PER_SIZE * size
    n_rows, n_columns = shape
    right, left = (size, core) if n_rows >= n_columns else (core, size)
    return min(right, n_columns), min(left, n_rows)


def draw_sketches(
    kind: str,
    shape: tuple[int, int],
    sizes: tuple[int, int],
    generator: np.random.Generator,
    tails: tuple[float, float] = (0.0, 0.0),
) -> Sketches:
    """Draw the right and the left sketch of a kind."""
    draw: Callable[..., Sketch] = HaarSketch if kind == "haar" else CountSketch
    right = draw(shape[1], sizes[0], generator)
    return Sketches(right, draw(shape[0], sizes[1], generator), tails)


def tail_probabilities(
    shape: tuple[int, int], sizes: tuple[int, int], delta: float
) -> tuple[float, float]:
    """Return the part of delta that each of two secret Haar sketches reserves."""
    # Nothing is reserved if the bound that holds with high probability is not below the bound that
    # always holds.
    tail = _TAIL_SHARE * delta
    right, left = (
        tail if t < n and tail > 0 and haar_norm(n, t, tail) < haar_norm(n, t) else 0.0
        for n, t in zip(shape[::-1], sizes, strict=True)
    )
    return right, left


def planned_sketches(
    cost: PrivacyCost,
    shape: tuple[int, int],
    sizes: tuple[int, int],
    sensitivities: Sequence[float],
    n_epochs: int = 1,
) -> tuple[Release, ...]:
    """Plan the releases of the right and the left sketch, in all epochs."""
    share = _LONG_SIDE_SHARE if shape[0] >= shape[1] else 1 - _LONG_SIDE_SHARE
    sides = zip(("right", "left"), (share, 1 - share), sensitivities, shape, sizes, strict=True)
    epochs = () if n_epochs == 1 else (n_epochs,)
    return tuple(
        cost.release(
            f"{name} sketch", "gaussian", part, partial(float, change), {}, shape=(*epochs, *size)
        )
        for name, part, change, *size in sides
    )


def plan_stream(spec: StreamSpec, count_unit: float = 0.0) -> tuple[Release, ...]:
    """Plan both sums, of values rounded to counts of `count_unit`; 0 means no rounding.

    The sums of all epochs are one release, with the sensitivity of a single epoch: an update counts
    in the sums of all later epochs, but by one normalized column of the square root of the matrix
    of prefix sums.
    """
    unit, sketches, correlation = spec.unit, spec.sketches, spec.correlation
    # A promised change of a cell may grow by one step when values are rounded. The clipped values
    # of an update do not: their bound is a multiple of the step.
    step = count_unit / sketches.right.unit
    if isinstance(unit, ResolvedFrobeniusChange):
        change = unit.change + step * math.sqrt(math.prod(sketches.shape))
    elif isinstance(unit, ResolvedUpdate):
        change = unit.step
    else:
        change = unit.step + step
    sizes = sketches.right.shape[1], sketches.left.shape[1]
    changes = []
    for sketch, tail in zip((sketches.right, sketches.left), sketches.tails, strict=True):
        # A unit of size 1 moves the sketch by at most `gain`, except with the probability `tail`.
        if isinstance(unit, ResolvedFrobeniusChange):
            # The plan is public, so it must not show the norm of a secret sketch.
            norm = haar_norm(*sketch.shape, tail) if sketches.is_secret else sketch.spectral_norm
            gain = sensitivity.frobenius_product(1.0, norm)
        else:
            gain = sensitivity.entry_product(1.0, np.array([sketch.row_norm]))
        changes.append(change * gain * correlation.sensitivity)
    return planned_sketches(spec.cost, sketches.shape, sizes, changes, correlation.horizon)


# ------------------------------
# The state of a stream.

# Number of updates that are added at a time.
_CHUNK = 1 << 20  # not studied


@dataclass(eq=False, repr=False)  # a shard has no noise that could hide its sums
class StreamState:
    """Integer sums of the updates of a stream, in two sketches.

    `right` has a row for each row of the matrix, and `left` a row for each column; both have the
    noise of the stream. Values are clipped to `bound`, and rounded to multiples of `value_step`.
    The state of a shard has no noise that two copies could share, so `allow_pickle` may allow
    pickles.
    """

    right: np.ndarray
    left: np.ndarray
    sketches: Sketches
    value_step: float
    bound: float
    allow_pickle: bool = False

    def __post_init__(self) -> None:
        if math.isfinite(self.bound):
            # Rounding must not lift a value above the bound.
            self.bound = math.floor(self.bound / self.value_step) * self.value_step

    def add(self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> None:
        """Clip values, and add them to the given cells."""
        sums, (right, left) = (self.right, self.left), (self.sketches.right, self.sketches.left)
        for start in range(0, len(values), _CHUNK):
            part = slice(start, start + _CHUNK)
            clipped = np.clip(np.asarray(values[part], dtype=np.float64), -self.bound, self.bound)
            # Data may change after their check, and clipping leaves NaN.
            clipped[~np.isfinite(clipped)] = 0.0
            counts = to_counts(clipped, self.value_step)
            right.add_both(left, sums, (rows[part], columns[part]), counts)

    def add_one(self, row: int, column: int, value: float) -> None:
        """Clip one value, and add it to a cell."""
        clipped = min(max(value, -self.bound), self.bound)
        # Where a float still represents every integer, Python rounds like `to_counts`, but faster.
        if abs(clipped) < self.value_step * EXACT:
            count = round(clipped / self.value_step)
        else:
            count = int(to_counts(np.array([clipped]), self.value_step)[0])
        self.sketches.right.add_one(self.right, row, column, count)
        self.sketches.left.add_one(self.left, column, row, count)

    def shard(self, *, allow_pickle: bool) -> "StreamState":
        """Make an empty state with the same sketches."""
        right, left = np.zeros_like(self.right), np.zeros_like(self.left)
        return replace(self, right=right, left=left, allow_pickle=allow_pickle)

    def __getstate__(self) -> dict[str, Any]:
        if not self.allow_pickle:
            raise TypeError(
                "The state of a stream is neither copied nor pickled: the difference of two copies "
                "would show the updates in between."
            )
        return self.__dict__


# ------------------------------
# The matrix of low rank that fits two noisy sketches best.

# Number of steps of alternating least squares: more do not change the first three digits.
_N_STEPS = 6  # not studied


@dataclass(frozen=True)
class Side:
    """A released sketch of one side, divided by the column norms of the random matrix `sketch`."""

    values: np.ndarray
    sketch: Sketch
    noise_std: float  # of an entry of `values`, on average over the columns
    # Leading singular values and left singular vectors of the release, before the division.
    spectrum: np.ndarray
    basis: np.ndarray
    edge: float  # largest singular value that noise probably has

    def project(self, factor: np.ndarray) -> np.ndarray:
        """Apply the sketch to a factor of the matrix, and divide as the sketch was divided."""
        return self.sketch.project(factor) / self.sketch.column_norms[:, np.newaxis]

    def lift(self, coordinates: np.ndarray) -> np.ndarray:
        """Apply the adjoint of `project`."""
        return self.sketch.lift(coordinates / self.sketch.column_norms[:, np.newaxis])


def fit_sketches(
    values: tuple[Released, Released], sketches: Sketches, n_components: int
) -> tuple[FixedRank, int]:
    r"""Fit a matrix of low rank to both sketches; return its singular factors, and its rank.

    :math:`A = L R^T` is fitted to :math:`Y = A \Phi + N_1` and :math:`Z = A^T \Psi + N_2` by
    alternating least squares, weighted by their noise. The published estimator takes L from the
    range of Y and fits Z alone (J. Upadhyay, 2018, :arxiv:`1604.01429`); a fit to both is more
    accurate by 5 to 25 per cent. The rank is the number of components that stand out from noise in
    both sketches. Beyond the rank, singular values are 0.

    For a matrix of shape (m, n), sketches with t and v columns, and k components, a fit takes time
    O((m + n) k + m t^2 + n v^2).
    """
    right, left = (
        _side(released, sketch, n_components)
        for released, sketch in zip(values, (sketches.right, sketches.left), strict=True)
    )
    rank = min(int(np.sum(side.spectrum > side.edge)) for side in (right, left))
    singular_values = np.zeros(n_components)
    if rank == 0:
        return FixedRank(right.basis, singular_values, left.basis), 0
    rows = right.basis[:, :rank]
    columns = np.linalg.lstsq(left.project(rows), left.values.T, rcond=None)[0].T
    for _ in range(_N_STEPS):
        rows = _fitted(right, left, columns)
        columns = _fitted(left, right, rows)
    fit = FixedRank(rows, np.ones(rank), columns).orthonormal()
    # Noise has lengthened the components in the right sketch, so their fit is shortened.
    signal = np.sqrt(np.maximum(1 - np.square(right.edge / right.spectrum[:rank]), 0.0))
    singular_values[:rank] = fit.values * signal
    left_vectors, right_vectors = _filled(fit.left, right.basis), _filled(fit.right, left.basis)
    return FixedRank(left_vectors, singular_values, right_vectors), rank


def _side(released: Released, sketch: Sketch, n_components: int) -> Side:
    """Find the components of a released sketch, and its noise.

    The matrix beyond its leading components acts like noise, too. The mean square of the sketch
    without its leading components estimates both together.
    """
    vectors, singular_values, _ = np.linalg.svd(released.value, full_matrices=False)
    (n_rows, size), norms = released.value.shape, sketch.column_norms
    # The noise is at least the rounding, which must not count as a component.
    rounding = UNIT_ROUNDOFF * float(singular_values[0]) + np.finfo(np.float64).tiny
    n_entries = max((n_rows - n_components) * (size - n_components), 1)
    rest_std = float(np.linalg.norm(singular_values[n_components:])) / np.sqrt(n_entries)
    noise_std = max(released.noise_std, rest_std, rounding)
    return Side(
        values=released.value / norms,
        sketch=sketch,
        noise_std=noise_std * float(np.sqrt(np.mean(np.square(1 / norms)))),
        spectrum=singular_values[:n_components],
        basis=vectors[:, :n_components],
        edge=gaussian_norm(released.value.shape, noise_std),
    )


def _fitted(whole: Side, sketched: Side, other: np.ndarray) -> np.ndarray:
    r"""Find the factor L for a given factor R of a matrix A = L R^T, from two noisy sketches of A.

    The sketches are Y of :math:`A \Phi` (`whole`) and Z of :math:`A^T \Psi` (`sketched`), whose
    noise has the standard deviations :math:`c_1` and :math:`c_2`; `other` is R. With
    :math:`W = \Phi^T R`, L minimizes
    :math:`\|Y - L W^T\|^2 / c_1^2 + \|Z - R L^T \Psi\|^2 / c_2^2`. Outside of the span of
    :math:`\Psi` only the first term depends on L; inside, both terms do. With the sketches
    exchanged, the function finds R for a given L.
    """
    projected = whole.project(other)
    products = whole.values @ projected
    gram, full_gram = projected.T @ projected, other.T @ other
    inside = sketched.project(products)
    outside = (products - sketched.lift(inside)) @ np.linalg.pinv(gram)
    weight = (whole.noise_std / sketched.noise_std) ** 2
    inside = inside + weight * (sketched.values.T @ other)
    inside = inside @ np.linalg.pinv(gram + weight * full_gram)
    return outside + sketched.lift(inside)


def _filled(vectors: np.ndarray, more: np.ndarray) -> np.ndarray:
    """Extend orthonormal columns to as many as `more` has, by directions in its span."""
    n_given, n_wanted = vectors.shape[1], more.shape[1]
    if n_given == n_wanted:
        return vectors
    # The given columns come first, so that QR changes at most their signs.
    basis = orthonormal_basis(np.hstack([vectors, more]))
    return np.hstack([vectors, basis[:, n_given:n_wanted]])


# ------------------------------
# Two sketches of a matrix in memory, computed in one pass over it.


def plan_one_pass(spec: EntriesSpec) -> tuple[Release, ...]:
    """Plan both sketches; sensitivities hold for all sketches or, with a tail, for nearly all."""
    unit = cast("ResolvedEntry | ResolvedFrobeniusChange", spec.unit)
    shape, sizes = spec.shape, sketch_sizes(spec.shape, rank_of(spec))
    # The fit has reserved a part of delta if the sketches are secret. The part pays for sketches
    # that exceed the sensitivities.
    delta = spec.cost.delta if spec.cost.delta_tail > 0 else 0.0
    tails, changes = tail_probabilities(shape, sizes, delta), []
    # First the right sketch: its random matrix, of shape (n, t), multiplies the `length` rows of X,
    # of n entries. A unit changes the rounding of some of these products.
    for length, n, t, tail in zip(shape, shape[::-1], sizes, tails, strict=True):
        if isinstance(unit, ResolvedFrobeniusChange):
            longest = haar_norm(n, t)
            change = sensitivity.frobenius_product(unit.change, haar_norm(n, t, tail))
        else:
            change, longest = sensitivity.entry_product(unit.step, np.ones(1)), 1.0
        # Rounding of sums of n terms in any order; a term is at most the largest entry times a row
        # of the random matrix.
        rounding = (n + 2) * UNIT_ROUNDOFF * unit.largest_entry * n * longest
        changes.append((change + 2 * unit.row_errors(length) * rounding) * (1 + LEAST_ROUNDING))
    return planned_sketches(spec.cost, shape, sizes, changes)


def solve_one_pass(
    spec: EntriesSpec, plan: tuple[Release, ...], raw: Rows, budget: PrivacyBudget
) -> Factors:
    """Release both sketches, and fit a matrix to both.

    Time O(nnz) for entries and O(nnz (t + v)) for promised changes. Memory O(m t + n v), and for
    promised changes O(n t + m v) more.
    """
    kind = "haar" if isinstance(spec.unit, ResolvedFrobeniusChange) else "countsketch"
    sizes = sketch_sizes(spec.shape, rank_of(spec))
    pair = draw_sketches(kind, spec.shape, sizes, budget.public_generator)

    def _sketch(rows: slice, block: Any) -> tuple[PerRow, np.ndarray]:
        block = block.astype(np.float64, copy=False)
        of_columns = as_dense(block @ pair.right.integers)
        return PerRow(of_columns), as_dense(block.T @ pair.left.integers[rows])

    size = raw.n_features * sizes[1]
    from_right, from_left = map_sum(raw.source, _sketch, size, raw.n_jobs)
    # Products with units are exact, as units are powers of two.
    right = budget.release(plan[0], from_right * pair.right.unit)
    left = budget.release(plan[1], from_left * pair.left.unit)
    fit, rank = fit_sketches((right, left), pair, rank_of(spec))
    return Factors.of_fit(fit, right.noise_std, rank)
