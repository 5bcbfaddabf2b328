"""Releases of a trace regression, in their order: the plan declares them, the solver uses them."""

from typing import NamedTuple

from skdp._scales.plan import ScaleReleases
from skdp.linear_model._descent import DescentStep
from skdp.privacy.release import Release, Search

__all__ = ["DescentReleases", "MomentReleases", "StartReleases", "TraceReleases"]


class StartReleases(NamedTuple):
    """A start from data; a gap that is too small skips the other two."""

    gap: Release
    subspaces: Release
    core: Release


class DescentReleases(NamedTuple):
    """Releases of "rgrad"; a random start has none."""

    start: StartReleases | None
    steps: tuple[DescentStep, ...]


class MomentReleases(NamedTuple):
    """Releases of "adassp" for records; without a norm if the user passes one."""

    row_norm: Search | None
    second_moment: Release
    smallest_eigenvalue: Release
    products: Release


class TraceReleases(NamedTuple):
    """All releases of a fit: first those that map the data, then those of the solver."""

    # Empty without an intercept, or if noise would hide the center.
    response_center: tuple[Search, ...]
    # Scales of single features, or one norm; neither if the matrices or covariances are public.
    features: ScaleReleases | None
    matrix_norm: Search | None
    # Of rows and of columns, for a descent; a side of length 1 has none.
    covariances: tuple[Release | None, ...]
    # None without noise, as nothing is clipped then.
    response_spread: Release | None
    # "adassp" releases only the products with the responses if the matrices are public.
    solver: DescentReleases | MomentReleases | Release
