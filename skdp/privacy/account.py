"""The account of a fit: what has been released, what may come next, and what all of it costs."""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NoReturn

from skdp.exceptions import BudgetError
from skdp.privacy.noise import joint_entries
from skdp.privacy.plan import SHARE_TOLERANCE, Plan
from skdp.privacy.record import PrivacySpent
from skdp.privacy.release import Release

__all__ = ["Account"]


class Account:
    """Keeps the releases of one fit and refuses to overspend; adds no noise."""

    def __init__(
        self,
        plan: Plan,
        seeds: tuple[str, ...],
        charge: Callable[[PrivacySpent], None] | None,
        *,
        is_guessable: bool,
    ) -> None:
        self.cost, self.charge = plan.cost, charge
        #: The record of all that may be spent, before its releases.
        self.whole = PrivacySpent(
            epsilon=plan.cost.epsilon,
            delta=plan.cost.delta,
            mu=plan.cost.mu,
            unit=plan.unit,
            adjacency=plan.adjacency,
            seed_fingerprints=seeds,
            releases=(),
            enforced=plan.enforced,
            delta_tail=plan.cost.delta_tail,
            guessable=is_guessable,
        )
        #: Ways that are still open; None for whatever the shares allow.
        self.ways: Sequence[Sequence[Release]] | None = plan.paths
        self.releases: list[Release] = []

    def spent(self) -> PrivacySpent:
        """Return the record of all releases so far."""
        mu = self.cost.spent_mu(release.share for release in self.releases)
        return replace(self.whole, mu=mu, releases=tuple(self.releases))

    def enter(
        self,
        planned: Release,
        sensitivity: float,
        shape: tuple[int, ...],
        instead: Release | None = None,
    ) -> Release:
        """Book a release, or another `instead` of it, before its number leaves."""
        ways, taken = self._ways_with(planned), instead or planned
        self.cost.check_size(taken.name, taken.mechanism, taken.share, shape)
        entries = joint_entries(taken.mechanism, shape)
        noise_std = self.cost.noise_std(taken.mechanism, sensitivity, taken.share, entries)
        smallest = sys.float_info.min if self.cost.is_private else 0.0
        if not (sensitivity > 0 and smallest <= noise_std < math.inf):
            raise BudgetError(
                f"Release {taken.name!r} has sensitivity {sensitivity!r}, which asks for noise of "
                f"standard deviation {noise_std!r}; both must be positive, and neither too small "
                "nor too large for a float."
            )
        if not self.releases and self.charge is not None:
            # All of it, whatever is released: before the first number leaves.
            self.charge(self.whole)
        self.ways = ways
        self.releases.append(
            Release(taken.name, taken.mechanism, taken.share, sensitivity, noise_std)
        )
        return self.releases[-1]

    def check_share(self, name: str, share: float) -> None:
        """Refuse what is more than is left."""
        spent = [release.share for release in self.releases]
        if not share > 0 or math.fsum([share, *spent]) > 1 + SHARE_TOLERANCE:
            raise BudgetError(
                f"Release {name!r} asks for a share of {share!r}; the shares must be positive and "
                f"add to at most 1, and {1 - math.fsum(spent):.3g} is left."
            )

    def _ways_with(self, release: Release) -> Sequence[Sequence[Release]] | None:
        """Return the ways that go on with a release; refuse it if there is none."""
        if self.ways is None:
            self.check_share(release.name, release.share)
            return None
        number = len(self.releases)
        longer = [way for way in self.ways if len(way) > number]
        ways = [way for way in longer if way[number] == release]
        if not ways:
            _refuse(release, [way[number] for way in longer])
        return ways


def _refuse(release: Release, planned: Sequence[Release]) -> NoReturn:
    """Say what is planned instead."""
    if not planned:
        raise BudgetError(
            f"Release {release.name!r} is not planned: all that is has been released."
        )
    line = planned[0]
    raise BudgetError(
        f"Release {release.name!r}, {release.mechanism}, with share {release.share!r} is not next "
        f"in the plan: {line.name!r}, {line.mechanism}, with share {line.share!r}."
    )
