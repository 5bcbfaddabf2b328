"""The ledger of a fit: what its shares buy, what has been spent, and what is left."""

import math
import sys

from skdp.exceptions import BudgetError
from skdp.privacy.adjacency import ADJACENCIES
from skdp.privacy.currency import Currency
from skdp.privacy.lattice import largest_size
from skdp.privacy.noise import distinct_entries, joint_entries
from skdp.privacy.record import PrivacySpent, Release

__all__ = ["Ledger"]

_SHARE_TOLERANCE = 1e-12


class Ledger:
    """Keeps the releases of one fit and refuses to overspend; adds no noise.

    The arguments are those of :class:`skdp.privacy.PrivacyBudget`; `fingerprint` is that
    of the seed of the noise, if there is one.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        *,
        unit: str,
        adjacency: str,
        fingerprint: str | None,
        enforced: bool,
        delta_tail: float,
    ) -> None:
        if adjacency not in ADJACENCIES:
            raise ValueError(f"adjacency must be one of {ADJACENCIES}, got {adjacency!r}.")
        self.epsilon, self.delta, self.delta_tail = map(float, (epsilon, delta, delta_tail))
        self.unit = unit
        self.adjacency = adjacency
        self.enforced = enforced
        self._currency = Currency(self.epsilon, self.delta, self.delta_tail)
        self.mu = self._currency.mu
        self.is_pure = self._currency.is_pure
        self._fingerprint = fingerprint
        self._releases: list[Release] = []

    @property
    def is_private(self) -> bool:
        """Whether noise is added at all."""
        return math.isfinite(self.mu)

    @property
    def last_scale(self) -> float:
        """Standard deviation of the noise in an entry of the last release."""
        return self._releases[-1].noise_scale

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
        mechanism : {"gaussian", "symmetric_gaussian", "laplace", "spherical"}, default="gaussian"
            Which noise.
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
        return self._currency.noise_scale(
            mechanism, float(sensitivity), float(share), int(joint_entries)
        )

    def spent(self) -> PrivacySpent:
        """Return the record of all releases so far.

        Returns
        -------
        PrivacySpent
            An immutable record.
        """
        return PrivacySpent(
            epsilon=self.epsilon,
            delta=self.delta,
            mu=self._currency.spent_mu(release.share for release in self._releases),
            unit=self.unit,
            adjacency=self.adjacency,
            seed_fingerprints=() if self._fingerprint is None else (self._fingerprint,),
            releases=tuple(self._releases),
            enforced=self.enforced,
            delta_tail=self.delta_tail,
        )

    def _check(self, name: str, mechanism: str, share: float) -> None:
        self._currency.check(mechanism)
        spent = [release.share for release in self._releases]
        if not share > 0 or math.fsum([share, *spent]) > 1 + _SHARE_TOLERANCE:
            raise BudgetError(
                f"Release {name!r} asks for a share of {share!r}; the shares must be positive and "
                f"add to at most 1, and {1 - math.fsum(spent):.3g} is left."
            )

    def _check_size(self, name: str, mechanism: str, share: float, shape: tuple[int, ...]) -> None:
        if not self.is_private:
            return
        size = distinct_entries(mechanism, shape)
        guarantee = self._currency.guarantee(mechanism, share)
        largest = largest_size(mechanism, guarantee, joint_entries(mechanism, shape))
        if size > largest:
            raise BudgetError(
                f"The budget is too small: release {name!r} has {size} numbers, of which a share "
                f"of {share:.3g} protects {math.floor(largest)} at most against what rounding "
                "tells. Pass a larger epsilon or delta, fewer components, or fewer rows or columns."
            )

    def _charge(self, release: Release) -> None:
        smallest = sys.float_info.min if self.is_private else 0.0
        if not (release.sensitivity > 0 and smallest <= release.noise_scale < math.inf):
            raise BudgetError(
                f"Release {release.name!r} has sensitivity {release.sensitivity!r}, which asks for "
                f"noise of scale {release.noise_scale!r}; both must be positive and neither too "
                "small nor too large for a float."
            )
        self._releases.append(release)
