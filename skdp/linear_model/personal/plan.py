"""Parameters, public facts and planned releases of a personal regression."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdp._estimator import check_not_pure
from skdp.data.reduce import map_sum
from skdp.data.sources import as_source
from skdp.linalg.norms import n_halvings
from skdp.linear_model import _descent as descents
from skdp.preprocessing.intervals import OTHER_UNITS_OF_X
from skdp.privacy import PrivacyBudget, Release, sensitivity
from skdp.privacy.clipping import NO_CLIPPING, clip_rows
from skdp.privacy.plan import PrivacyCost, left_of, plan_histogram, plan_sum, share_for_counts
from skdp.privacy.releases import Search
from skdp.units import ResolvedUnit

# Fewest and most entries of a representation, by solver. "altmin" stores a matrix with a row and a
# column for each entry. "exponential" needs random candidates near every representation. Not
# studied.
_UNKNOWNS = {"altmin": (0, 500), "exponential": (1, 8)}
# Parameters that need noisy sums, which solver="exponential" does not release.
_NEEDS_NOISE = ("fit_intercept", "mean_head", "decorrelate")


@dataclass(frozen=True)
class PersonalSpec:
    """Parameters of a personal regression as plain values, and public facts."""

    # What is protected: a user, or a row if there are no ids of users.
    unit: ResolvedUnit
    n_units: int
    # Number of features, without a column of ids.
    n_features: int
    dtype: np.dtype
    cost: PrivacyCost
    n_components: int
    fit_intercept: bool
    mean_head: bool
    decorrelate: bool
    solver: str
    n_iter: int
    max_rows_per_user: int | None

    @property
    def is_pooled(self) -> bool:
        """Whether all users share one model, without a representation and heads."""
        return self.n_components == 0


def checked_spec(spec: PersonalSpec) -> PersonalSpec:
    """Refuse parameters that contradict each other or public facts."""
    k, n_features = spec.n_components, spec.n_features
    if k > n_features:
        raise ValueError(
            f"n_components={k} must be at most n_features={n_features}, the number of features."
        )
    if k == 0 and not spec.mean_head:
        raise ValueError(
            "n_components=0 fits the mean model alone, which mean_head=False leaves out; pass "
            "mean_head=True, or a positive n_components."
        )
    size = k * n_features
    least, most = _UNKNOWNS.get(spec.solver, (0, size))
    if not least <= size <= most:
        raise ValueError(
            f"solver={spec.solver!r} with n_components={k} and {n_features} features has {size} "
            f"unknowns, but takes {least} to {most}; pass solver='gradient'."
        )
    if spec.solver != "exponential":
        check_not_pure(f"solver={spec.solver!r}", spec.cost, "solver='exponential', or ")
    elif asked := [name for name in _NEEDS_NOISE if getattr(spec, name)]:
        raise ValueError(
            f"solver='exponential' releases no noisy sums, and takes no {asked[0]}=True; pass "
            f"{', '.join(f'{name}=False' for name in asked)}."
        )
    return spec


# ------------------------------
# Public grids for searches, and the priors on which users vote.

#: Grid for norms in unknown units, by factors of sqrt(2), searched in 7 halvings. Not studied.
SIZES = 2.0 ** (np.arange(-64, 64) / 2)
#: Grid for norms in squares of unknown units, by factors of 2, searched in 7 halvings.
SQUARES = 2.0 ** np.arange(-63, 65)  # not studied
#: Priors on which users vote, as pairs: the fraction of the prior variance that is spread over all
#: directions, not only those of the representation; and a factor of the noise variance. The factor
#: .01 suits users who differ along all directions, as most of what seems to be noise is then
#: signal. The factor 100 suits users who hardly differ. `choose_prior` lowers the factors of pairs
#: with a positive fraction. Not studied.
PRIORS = ((0.0, 1.0), (0.03, 1.0), (0.1, 1.0), (0.3, 1.0), (1.0, 1.0), (1.0, 0.01), (0.0, 100.0))
#: Grid for norms, relative to their likely size, by factors of 2**(1/4), searched in 4 halvings.
RELATIVE_SIZES = 2.0 ** (np.arange(-11, 5) / 4)  # not studied
#: Grid for variances, relative to an earlier estimate, by factors of sqrt(2): 6 halvings.
VARIANCE_RATIOS = 2.0 ** (np.arange(-42, 22) / 2)  # not studied
#: Grid for fractions, whose square roots are evenly spaced, searched in 4 halvings.
PARTS = np.square(np.arange(1, 17) / 16)  # not studied
# Grid for the median number of rows of a user, searched in 4 halvings.
_ROW_COUNTS = 2.0 ** np.arange(16)  # not studied


# ------------------------------
# Sums of users' vectors, clipped to released levels, and averages shrunk by their noise.

#: Argument `certainty` of `above_noise`, for a center of rows and for a mean of products of rows
#: and responses. Not studied.
CENTER_CERTAINTY, MEAN_CERTAINTY = 3.0, 1.5
# Users with smaller or larger values contribute nothing, as their products may lose digits.
_PRECISE = (1e-150, 1e150)  # not tuned


def level_with_noise(size: float, budget: PrivacyBudget) -> float:
    """Return a released size as the clip level; with ``epsilon=inf``, a level without clipping."""
    return size if budget.is_private else NO_CLIPPING


def release_level(search: Search, norms: np.ndarray, q: float, budget: PrivacyBudget) -> float:
    """Release a quantile of the users' norms as a clip level."""
    return level_with_noise(budget.quantile(search, norms, q=q), budget)


def clipped_sum(values: np.ndarray, level: float, *, is_moment: bool = False) -> np.ndarray:
    """Sum users' vectors, clipped to norm `level`; with `is_moment`, sum their outer products."""

    def _sum(_: slice, block: np.ndarray) -> np.ndarray:
        clipped = clip_rows(block.copy(), level)
        return np.asarray(clipped.T @ clipped if is_moment else clipped.sum(axis=0))

    return np.asarray(map_sum(as_source(values), _sum, values.shape[1] ** (1 + is_moment)))


def loses_digits(sizes: np.ndarray) -> np.ndarray:
    """Mark sizes so large or small that products with them may lose digits."""
    return ~((sizes >= _PRECISE[0]) & (sizes <= _PRECISE[1]) | (sizes == 0))


def above_noise(average: np.ndarray, noise_std: float, certainty: float, size: int) -> np.ndarray:
    """Shrink a noisy average by its noise (James-Stein); set it to 0 if it may be noise alone.

    `noise_std` is the standard deviation of the noise along each of `size` dimensions; a larger
    `certainty` sets longer averages to 0.
    """
    length = float(np.linalg.norm(average))
    # Noise is longer than this with a probability of at most exp(-certainty**2 / 2).
    if length <= noise_std * (np.sqrt(size) + certainty):
        return np.zeros_like(average)
    return average * (1 - size * np.square(noise_std / length))


# ------------------------------
# The releases and their shares, from public facts.

# The wanted noise of a count of a search is `_SEARCH_PRECISION`, as a fraction of the users. The
# share of a count is within `_COUNT_LIMITS`. Up to the share `_CHEAP_COUNT` a fit makes more
# searches. Not studied one by one: benchmarks/personalization measures all together.
_SEARCH_PRECISION, _COUNT_LIMITS, _CHEAP_COUNT = 0.12, (6e-4, 8.5e-3), 1.5e-3
# Wanted noise of a count of unclipped gradients, and limits of the share of these counts together.
_VOTE_PRECISION, _VOTE_LIMITS = 0.05, (4e-3, 0.04)  # not studied
# Shares of the centers of rows and of responses, and of the mean product of both.
_CENTER_SHARE, _RESPONSE_SHARE, _MEAN_SHARE = 0.01, 0.01, 0.02  # not studied
# A mean is useless if its noise exceeds this multiple of its clip level: `_LARGEST_NOISE` for means
# of rows and of products, `_LARGEST_RESPONSE_NOISE` for a mean of responses.
_LARGEST_NOISE, _LARGEST_RESPONSE_NOISE = 0.8, 0.3  # not studied
# Number of finer searches for the median of the responses.
_N_REFINEMENTS = 2  # not studied
# Shares of the second moment of rows, and of the second moment of products of rows and responses.
_MOMENT_SHARE, _PRODUCT_SHARE = 0.15, 0.26  # not studied
# Vote on priors: wanted noise of a count, as a fraction of the users, and limits of the share.
_PRIOR_PRECISION, _PRIOR_LIMITS = 0.1, (0.02, 0.12)  # not studied
# Shares if only a mean model is fitted: of the second moment; and, roughly, of the mean product.
_POOLED_MOMENT_SHARE, _POOLED_MEAN_SHARE = 0.4, 0.5  # not studied
# The clip level of the mean product of rows and responses is at most `_LARGEST_MEAN_CLIP` times the
# clip level of the second moment of products. The wanted noise is `_MEAN_NOISE` times the latter.
_MEAN_NOISE, _LARGEST_MEAN_CLIP = 0.1, 8.0  # not studied
# Share of a step, relative to the share of the step before.
_GROWTH = 1.5  # not studied


class ClippedSum(NamedTuple):
    """The search for a clip level, and the sum of users' vectors or matrices clipped to it."""

    norm: Search
    total: Release


class AltminReleases(NamedTuple):
    """Releases of alternating steps: two clip levels, and both sides of each step's equations."""

    matrix_norm: Search
    product_norm: Search
    steps: tuple[tuple[Release, Release], ...]


class HeadReleases(NamedTuple):
    """Releases of a representation, and of the prior of heads, which are users' coefficients."""

    product_norm: Search
    products: Release
    mean_products: Release | None  # None without `mean_head`, or if noise would hide it
    head_norm: Search
    steps: tuple[descents.DescentStep, ...] | AltminReleases
    scales: tuple[Search, ...]  # variances of noise and intercepts; () if users or rows are few
    prior_vote: Release


class PersonalReleases(NamedTuple):
    """Releases of a personal regression, in this order."""

    # A median; or a mean; or () without an intercept, or if noise hides both.
    response_center: tuple[Search, ...] | ClippedSum
    row_count: Search | None
    user_levels: tuple[Search, ...]  # for variances between and within users; () if not planned
    # Each corrects the last center; () without an intercept, or if noise hides the center.
    row_center: tuple[ClippedSum, ...]
    user_moment: ClippedSum | None  # for `decorrelate`
    model: ClippedSum | HeadReleases  # a mean of products, as one model for all users; or heads


def plan_personal(spec: PersonalSpec) -> PersonalReleases:
    """Plan all releases in order: centers and whitening, then the model."""
    before = (
        _plan_response_center(spec),
        *_plan_levels(spec),
        _plan_row_center(spec),
        _plan_user_moment(spec),
    )
    # Whitened rows have no units, so their products with responses have the units of y.
    remedy = descents.OTHER_UNITS_OF_Y if spec.decorrelate else descents.OTHER_UNITS
    norm = _search(spec, "product norm", remedy=remedy)
    if not spec.is_pooled:
        return PersonalReleases(*before, model=_plan_heads(spec, before, norm))
    mean = _sum(spec, "mean products", left_of(before, norm), norm, spec.n_features)
    return PersonalReleases(*before, model=ClippedSum(norm, mean))


def mean_clip(spec: PersonalSpec) -> float:
    """Return the clip level for a mean of vectors, relative to that for their second moment.

    Clipping harms a mean more than a second moment, of which only directions matter. So the level
    for a mean is higher, if the noise of the mean stays small.
    """
    share = _POOLED_MEAN_SHARE if spec.is_pooled else _MEAN_SHARE
    noise_std = _noise_of_mean(spec, share) * math.sqrt(spec.n_features)
    return float(np.clip(_MEAN_NOISE / max(noise_std, 1e-9), 1.0, _LARGEST_MEAN_CLIP))


def _plan_response_center(spec: PersonalSpec) -> tuple[Search, ...] | ClippedSum:
    """Plan the center of responses: a median, a mean if counts are not cheap, or nothing."""
    if not spec.fit_intercept:
        return ()
    if _counts_are_cheap(spec):
        share, grid = _count_share(spec), descents.ANY_SIZE
        return descents.plan_median(spec.cost, share, grid, _N_REFINEMENTS)
    if _noise_of_mean(spec, _RESPONSE_SHARE) > _LARGEST_RESPONSE_NOISE:
        return ()
    norm = _level(spec, f"{descents.RESPONSE_CENTER} norm", descents.OTHER_UNITS_OF_Y)
    return ClippedSum(norm, _sum(spec, descents.RESPONSE_CENTER, _RESPONSE_SHARE, norm))


def _plan_levels(spec: PersonalSpec) -> tuple[Search | None, tuple[Search, ...]]:
    """Plan searches for the number of rows per user and for variances between and within users."""
    if spec.is_pooled or spec.max_rows_per_user == 1:
        return None, ()
    points, most = _ROW_COUNTS, spec.max_rows_per_user
    if most is not None:
        # A grid that ends at the largest possible number needs fewer counts.
        points = np.append(points[:-1][points[:-1] < most], float(most))
    count = _search(spec, "row count", points)
    if not spec.fit_intercept:
        return count, ()
    level = _search(spec, "user level", remedy=descents.OTHER_UNITS_OF_Y)
    return count, (level, _search(spec, "response part", PARTS))


def _plan_row_center(spec: PersonalSpec) -> tuple[ClippedSum, ...]:
    """Plan the rounds that release the center of the rows.

    The noise of the first center is proportional to the distance of the rows from 0. If counts are
    cheap, a second round corrects the first center, with noise proportional to its error.
    """
    n_rounds = 1 + _counts_are_cheap(spec)
    size, share = spec.n_features, _CENTER_SHARE / n_rounds
    noise_std = _noise_of_mean(spec, share) * (math.sqrt(size) + CENTER_CERTAINTY)
    if not spec.fit_intercept or noise_std > _LARGEST_NOISE:
        return ()
    rounds = list[ClippedSum]()
    for number in range(1, 1 + n_rounds):
        norm = _level(spec, f"row center norm {number}", OTHER_UNITS_OF_X)
        rounds.append(ClippedSum(norm, _sum(spec, f"row center {number}", share, norm, size)))
    return tuple(rounds)


def _plan_user_moment(spec: PersonalSpec) -> ClippedSum | None:
    """Plan the second moment that whitens features, for ``decorrelate=True``."""
    if not spec.decorrelate:
        return None
    norm = _level(spec, "user moment norm", OTHER_UNITS_OF_X, SQUARES)
    share = _POOLED_MOMENT_SHARE if spec.is_pooled else _MOMENT_SHARE
    size, change = spec.n_features, sensitivity.user_moment
    return ClippedSum(norm, _sum(spec, "user moment", share, norm, size, size, change=change))


def _plan_heads(spec: PersonalSpec, before: Any, norm: Search) -> HeadReleases:
    """Plan the start, the steps and the vote on priors; the steps get the rest of the budget."""
    mean, certainty = None, math.sqrt(spec.n_components) + MEAN_CERTAINTY
    if spec.mean_head and _noise_of_mean(spec, _MEAN_SHARE) * certainty <= _LARGEST_NOISE:
        mean = _sum(spec, "mean products", _MEAN_SHARE, norm, spec.n_features)
    head_norm = _search(spec, "head norm", RELATIVE_SIZES)
    # The vote: for each prior, a count of the users whom it predicts best.
    share = share_for_counts(spec, 2, _PRIOR_PRECISION, _PRIOR_LIMITS)
    vote = plan_histogram(spec, "prior vote", share, len(PRIORS))
    scales = _plan_scales(spec)
    left = left_of(before, norm, mean, head_norm, scales, vote)
    share = min(_PRODUCT_SHARE, left / 2) if spec.n_iter else left
    size, second_moment = spec.n_features, sensitivity.second_moment
    products = _sum(spec, "products", share, norm, size, size, change=second_moment)
    steps = _plan_steps(spec, left - share, head_norm)
    return HeadReleases(norm, products, mean, head_norm, steps, scales, vote)


def _plan_scales(spec: PersonalSpec) -> tuple[Search, ...]:
    """Plan searches for the variances of noise and intercepts, if users can have enough rows."""
    size = spec.n_components + spec.fit_intercept
    most = spec.max_rows_per_user
    if not _counts_are_cheap(spec) or (most is not None and most <= size):
        return ()
    names = ("noise variance", "intercept variance")[: 1 + spec.fit_intercept]
    return tuple(_search(spec, name, VARIANCE_RATIOS) for name in names)


def _plan_steps(
    spec: PersonalSpec, share: float, norm: Search
) -> tuple[descents.DescentStep, ...] | AltminReleases:
    """Plan the steps: gradients and counts of unclipped ones, or both sides of normal equations."""
    if not spec.n_iter:
        return ()
    if spec.solver != "altmin":
        votes = share_for_counts(spec, spec.n_iter, _VOTE_PRECISION, _VOTE_LIMITS)
        shares, shape = (share - votes, votes, _GROWTH), (spec.n_features, spec.n_components)
        return descents.plan_descent(
            spec, *shares, sensitivity.row_sum, follows=norm.name, shape=shape
        )
    matrix_norm = _level(spec, "normal matrix norm", descents.OTHER_UNITS_OF_Y, SQUARES)
    product_norm = _level(spec, "normal product norm", descents.OTHER_UNITS_OF_Y, SQUARES)
    size, change = spec.n_features * spec.n_components, sensitivity.user_moment
    rest, steps = left_of(matrix_norm, product_norm, total=share), list[tuple[Release, Release]]()
    for step, both in enumerate(descents.shares_of_steps(rest, spec.n_iter, _GROWTH), start=1):
        name, half = f"normal matrix {step}", both / 2
        matrix = _sum(spec, name, half, matrix_norm, size, size, change=change)
        products = _sum(spec, f"normal products {step}", half, product_norm, size)
        steps.append((matrix, products))
    return AltminReleases(matrix_norm, product_norm, tuple(steps))


def _noise_of_mean(spec: PersonalSpec, share: float) -> float:
    """Return the noise std of a mean over users, in units of the clip level."""
    change = sensitivity.row_sum(1.0, spec.unit.adjacency)
    return spec.cost.noise_std("gaussian", change, share) / spec.n_units


def _count_share(spec: PersonalSpec) -> float:
    """Return the share of one count of a search."""
    return share_for_counts(spec, 1, _SEARCH_PRECISION, _COUNT_LIMITS)


def _counts_are_cheap(spec: PersonalSpec) -> bool:
    return _count_share(spec) <= _CHEAP_COUNT


def _search(
    spec: PersonalSpec, name: str, grid: np.ndarray = SIZES, remedy: str | None = None
) -> Search:
    """Plan a search over a grid, with a share that follows from the number of users."""
    share = n_halvings(len(grid)) * _count_share(spec)
    return spec.cost.search(name, share, grid, remedy=remedy)


def _level(spec: PersonalSpec, name: str, remedy: str, grid: Any = SIZES) -> Search:
    """Plan the search for a clip level, which warns if the level is at an end of the grid."""
    return _search(spec, name, grid, remedy if spec.cost.is_private else None)


def _sum(
    spec: PersonalSpec,
    name: str,
    share: float,
    norm: Search,
    *shape: int,
    change: Callable[..., float] = sensitivity.row_sum,
) -> Release:
    """Plan a sum of users' vectors, or symmetric matrices, clipped to a released norm."""
    mechanism = "symmetric_gaussian" if len(shape) == 2 else "gaussian"
    return plan_sum(spec, name, share, shape, norm.name, change, mechanism)
