"""What a trace regression releases, in this order: its plan declares it, its solver gets it."""

from typing import NamedTuple

from skdp.linear_model._descent import DescentStep
from skdp.privacy.release import Release, Search

__all__ = [
    "DescentReleases",
    "FeatureReleases",
    "MomentReleases",
    "StartReleases",
    "TraceReleases",
]


class FeatureReleases(NamedTuple):
    """What features are scaled by, one by one; without an intercept they have no centers."""

    centers: tuple[Search, ...]
    spreads: Release
    # Of standardized features; None where they would cost too much.
    means: Release | None


class StartReleases(NamedTuple):
    """A start from data; what follows the gap may be skipped."""

    gap: Release
    subspaces: Release
    core: Release


class DescentReleases(NamedTuple):
    """What "rgrad" releases; a random start is no release."""

    start: StartReleases | None
    steps: tuple[DescentStep, ...]


class MomentReleases(NamedTuple):
    """What "adassp" releases of records; a norm that is given is not sought."""

    row_norm: Search | None
    second_moment: Release
    smallest_eigenvalue: Release
    products: Release


class TraceReleases(NamedTuple):
    """All releases of a fit: what the matrices are mapped by, then what the solver needs."""

    # None without an intercept, or where noise would hide the center.
    response_center: tuple[Search, ...]
    # Scales of single features, or else one norm; neither where matrices or covariances are public.
    features: FeatureReleases | None
    matrix_norm: Search | None
    # Of rows and of columns, for a descent; a side of length 1 has none.
    covariances: tuple[Release | None, ...]
    # None without noise: nothing is clipped then.
    response_spread: Release | None
    # Of public matrices, "adassp" releases nothing but their products with the responses.
    solver: DescentReleases | MomentReleases | Release
