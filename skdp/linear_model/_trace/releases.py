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
    """What features are scaled by one by one; centres are none without an intercept."""

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
    """What "rgrad" releases; a random start releases nothing."""

    start: StartReleases | None
    steps: tuple[DescentStep, ...]


class MomentReleases(NamedTuple):
    """What "adassp" releases of records; a known norm is not sought."""

    row_norm: Search | None
    second_moment: Release
    smallest_eigenvalue: Release
    products: Release


class TraceReleases(NamedTuple):
    """All of it: what the matrices are mapped by, and what the solver needs.

    Centres and spread of the responses are none where noise would hide them, or there is no noise.
    Private matrices have scales of their features, or one norm, and covariances of both sides for a
    descent. A solver that knows the matrices releases their products with the responses alone.
    """

    response_center: tuple[Search, ...]
    features: FeatureReleases | None
    matrix_norm: Search | None
    covariances: tuple[Release | None, ...]
    response_spread: Release | None
    solver: DescentReleases | MomentReleases | Release
