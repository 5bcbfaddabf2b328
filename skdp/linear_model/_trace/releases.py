"""Releases of a trace regression, in their order: the plan declares them, the solver uses them."""

from typing import NamedTuple

from skdp._scales.plan import ScaleReleases
from skdp.linear_model._descent import DescentStep
from skdp.privacy.release import Release, Search

__all__ = ["StartReleases", "TraceReleases"]


class StartReleases(NamedTuple):
    """A start from data; a gap that is too small skips the other two."""

    gap: Release
    subspaces: Release
    core: Release


class TraceReleases(NamedTuple):
    """All releases of a fit: first those that map the data, then those of the descent."""

    # Empty without an intercept, or if noise would hide the center.
    response_center: tuple[Search, ...]
    # Scales of single features, or one norm; neither if the matrices or covariances are public.
    features: ScaleReleases | None
    matrix_norm: Search | None
    # Of rows and of columns; a side of length 1 has none.
    covariances: tuple[Release | None, ...]
    # None without noise, as nothing is clipped then.
    response_spread: Release | None
    # A random start has none.
    start: StartReleases | None
    steps: tuple[DescentStep, ...]
