"""The account of a fit: what its shares buy, what has been spent, and what is left."""

import math
import sys
from collections.abc import Callable

from skdp.exceptions import BudgetError
from skdp.privacy.adjacency import ADJACENCIES
from skdp.privacy.cost import PrivacyCost
from skdp.privacy.plan import SHARE_TOLERANCE, Plan, PlannedRelease
from skdp.privacy.record import PrivacySpent, Release

__all__ = ["Account"]


class Account:
    """Keeps the releases of one fit and refuses to overspend; adds no noise.

    The arguments are those of :class:`skdp.privacy.PrivacyBudget`, and what its source of noise
    says of the seed.
    """

    def __init__(
        self,
        cost: PrivacyCost,
        *,
        unit: str,
        adjacency: str,
        fingerprint: str | None,
        is_guessable: bool,
        enforced: bool,
        charge: Callable[[PrivacySpent], None] | None,
    ) -> None:
        if adjacency not in ADJACENCIES:
            raise ValueError(f"adjacency must be one of {ADJACENCIES}, got {adjacency!r}.")
        cost.check_usable()
        self.cost = cost
        self.unit = unit
        self.adjacency = adjacency
        self.enforced = enforced
        self._plan: Plan | None = None
        self._paths: tuple[tuple[PlannedRelease, ...], ...] = ()
        self._fingerprint, self._is_guessable = fingerprint, is_guessable
        self._releases: list[Release] = []
        self._charge_whole = charge
        self._doubts: list[str] = []

    @property
    def plan(self) -> Plan | None:
        """What is to be released, line by line; None leaves that to the caller."""
        return self._plan

    @property
    def doubts(self) -> tuple[str, ...]:
        """What released numbers say against the grids that they were sought in."""
        return tuple(self._doubts)

    @property
    def is_private(self) -> bool:
        """Whether noise is added at all."""
        return self.cost.is_private

    def noise_scale(
        self,
        sensitivity: float,
        share: float,
        *,
        mechanism: str = "gaussian",
        joint_entries: int = 1,
    ) -> float:
        """Return the standard deviation of the noise that a release would get.

        Parameters
        ----------
        sensitivity : float
            Its sensitivity.
        share : float
            Its share of the square of mu, or of epsilon if delta is 0.
        mechanism : str, default="gaussian"
            Which noise, as in :class:`skdp.privacy.Release`.
        joint_entries : int, default=1
            How many entries one draw of Laplace or spherical noise is for: the columns of a matrix
            or 1 for the former, all entries for the latter. Of no matter to Gaussian noise.

        Returns
        -------
        float
            Standard deviation in an entry, in the units of the sensitivity; 0 if `epsilon` is
            infinite.

        Raises
        ------
        BudgetError
            If delta is 0 and the noise Gaussian.
        """
        return self.cost.noise_std(mechanism, float(sensitivity), float(share), int(joint_entries))

    def spent(self) -> PrivacySpent:
        """Return the record of all releases so far.

        Returns
        -------
        PrivacySpent
            An immutable record.
        """
        mu = self.cost.spent_mu(release.share for release in self._releases)
        return self._record(mu, tuple(self._releases))

    def _record(self, mu: float, releases: tuple[Release, ...]) -> PrivacySpent:
        return PrivacySpent(
            epsilon=self.cost.epsilon,
            delta=self.cost.delta,
            mu=mu,
            unit=self.unit,
            adjacency=self.adjacency,
            seed_fingerprints=() if self._fingerprint is None else (self._fingerprint,),
            releases=releases,
            enforced=self.enforced,
            delta_tail=self.cost.delta_tail,
            guessable=self._is_guessable,
        )

    def _share_of(self, name: str, mechanism: str, share: float | None) -> float:
        """Return the share of the next release: that of the plan, if there is one."""
        self.cost.check(mechanism)
        if self._plan is None:
            if share is None:
                raise BudgetError(f"Release {name!r} needs a share: there is no plan that has one.")
            self._check_share(name, float(share))
            return float(share)
        number = len(self._releases)
        open_paths = [path for path in self._paths if len(path) > number]
        if not open_paths:
            raise BudgetError(f"Release {name!r} is not planned: all that is has been released.")
        taken = [path for path in open_paths if path[number].is_for(name, mechanism)]
        line = (taken or open_paths)[0][number]
        if not taken or share not in (None, line.share):
            raise BudgetError(
                f"Release {name!r}, {mechanism}, with share {share!r} is not next in the plan: "
                f"{line.name!r}, {line.mechanism}, with share {line.share!r}."
            )
        self._check_share(name, line.share)
        return line.share

    def _check_share(self, name: str, share: float) -> None:
        spent = [release.share for release in self._releases]
        if not share > 0 or math.fsum([share, *spent]) > 1 + SHARE_TOLERANCE:
            raise BudgetError(
                f"Release {name!r} asks for a share of {share!r}; the shares must be positive and "
                f"add to at most 1, and {1 - math.fsum(spent):.3g} is left."
            )

    def _charge(self, release: Release) -> None:
        smallest = sys.float_info.min if self.is_private else 0.0
        if not (release.sensitivity > 0 and smallest <= release.noise_scale < math.inf):
            raise BudgetError(
                f"Release {release.name!r} has sensitivity {release.sensitivity!r}, which asks for "
                f"noise of scale {release.noise_scale!r}; both must be positive and neither too "
                "small nor too large for a float."
            )
        if not self._releases and self._charge_whole is not None:
            # All of it, whatever is released: before the first number leaves.
            self._charge_whole(self._record(self.cost.mu, ()))
        # The names so far tell which way the fit has taken.
        number = len(self._releases)
        self._paths = tuple(
            path
            for path in self._paths
            if len(path) > number and path[number].is_for(release.name, release.mechanism)
        )
        self._releases.append(release)
