"""What a fit will release: public facts determine it before data are read."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from typing import NamedTuple

from skdp.exceptions import BudgetError
from skdp.privacy import sensitivity
from skdp.privacy.adjacency import ADJACENCIES
from skdp.privacy.cost import PrivacyCost
from skdp.privacy.noise import joint_entries
from skdp.privacy.quantile import search_steps
from skdp.privacy.record import group_name, printed, search_name

__all__ = ["SHARE_TOLERANCE", "Paths", "Plan", "PlannedRelease", "make_plan", "planned_search"]

#: What shares may add to beyond 1, by rounding.
SHARE_TOLERANCE = 1e-12  # not tuned
# Between the names of a line that a released value decides between.
_OR = " or "


@dataclass(frozen=True)
class PlannedRelease:  # numpydoc ignore=PR02
    """One line of a plan: a release that is to come.

    Parameters
    ----------
    name : str
        What will be released; with "or" between them both of the two that a released value decides
        between.
    mechanism : str
        As in :class:`skdp.privacy.Release`, or two of them.
    share : float
        Share of the square of the total mu; of epsilon, if delta is 0.
    sensitivity : float or None, default=None
        Largest change of the noiseless value, but for rounding; None if something that is released
        before decides.
    noise_scale : float or None, default=None
        Standard deviation of the noise in an entry; None with the sensitivity.
    follows : str, default=""
        What the sensitivity follows if it is None.
    shape : tuple of int, default=()
        Shape of what is released.

    Examples
    --------
    >>> from skdp import DPTruncatedSVD
    >>> plan = DPTruncatedSVD(row_norm=1.0).plan(n_samples=1000, n_features=20)
    >>> plan.releases[0].name, plan.releases[0].share
    ('positive rows', 0.005)
    """

    name: str
    mechanism: str
    share: float
    sensitivity: float | None = None
    noise_scale: float | None = None
    follows: str = ""
    shape: tuple[int, ...] = ()

    def is_for(self, name: str, mechanism: str) -> bool:
        """Tell whether a release of that name and mechanism is the one that is planned.

        Parameters
        ----------
        name : str
            Its name.
        mechanism : str
            Its mechanism.

        Returns
        -------
        bool
            Whether both are those of the line, or of one branch.
        """
        return name in self.name.split(_OR) and mechanism in self.mechanism.split(_OR)

    def or_else(self, name: str, mechanism: str) -> "PlannedRelease":
        """Return the line with the release that may come in its place, for the same share.

        Parameters
        ----------
        name : str
            Name of the other release.
        mechanism : str
            Its mechanism.

        Returns
        -------
        PlannedRelease
            One line with both names.
        """
        mechanisms = dict.fromkeys((self.mechanism, mechanism))
        return replace(self, name=self.name + _OR + name, mechanism=_OR.join(mechanisms))


class Paths(NamedTuple):
    """Ways through a fit: released values decide which one is taken, and each spends the same."""

    usual: Sequence[PlannedRelease]
    others: Sequence[Sequence[PlannedRelease]]  # from the first release on


@dataclass(frozen=True, repr=False)
class Plan:  # numpydoc ignore=PR02
    """What a fit will release and spend, known before `fit`; printed like the record of one.

    Parameters
    ----------
    cost : PrivacyCost
        What may be spent: the guarantee that is asked for.
    unit : str
        What is protected.
    adjacency : str
        How neighbouring datasets differ.
    releases : tuple of PlannedRelease
        What will be released, in order; if there are others, along the usual way.
    enforced : bool, default=True
        Whether the bounds behind the sensitivities are enforced by clipping, or promised by the
        caller.
    others : tuple of tuple of PlannedRelease, default=()
        Other ways that the fit may take, as released values say, each from the first release on.
        Their names tell at every release which of them are still open.

    Raises
    ------
    BudgetError
        If a share is not positive, or all of them add to more than 1, or two ways differ in what
        they spend, or in the share of a release that does not tell them apart.

    Examples
    --------
    >>> from skdp import DPPCA
    >>> pca = DPPCA(n_components=5, mean_norm=64, row_norm=40)
    >>> pca.plan(n_samples=1797, n_features=64)
    Plan: (1, 1e-06)-DP per row, adjacency 'replace', mu=0.2367
      release                        share  sensitivity  noise scale
      mean                          0.1500      0.07123       0.7771
      second moment                 0.8500         2263    1.037e+04
    """

    cost: PrivacyCost
    unit: str
    adjacency: str
    releases: tuple[PlannedRelease, ...]
    enforced: bool = True
    others: tuple[tuple[PlannedRelease, ...], ...] = ()

    def __post_init__(self) -> None:
        for path in self.paths:
            self._check(path)
        sums = [math.fsum(line.share for line in path) for path in self.paths]
        if max(sums) - min(sums) > SHARE_TOLERANCE:
            raise BudgetError(f"The ways of a plan must spend the same, got shares of {sums}.")
        shares: dict[tuple[str, ...], float] = {}
        for path in self.paths:
            names: tuple[str, ...] = ()
            for line in path:
                names += (line.name,)
                if shares.setdefault(names, line.share) != line.share:
                    raise BudgetError(
                        f"Two ways of a plan differ in the share of {line.name!r}, which does not "
                        "tell them apart."
                    )

    @property
    def epsilon(self) -> float:
        """Privacy budget."""
        return self.cost.epsilon

    @property
    def delta(self) -> float:
        """Probability with which the guarantee may fail."""
        return self.cost.delta

    @property
    def delta_tail(self) -> float:
        """Part of delta that is reserved for an event after which nothing is promised."""
        return self.cost.delta_tail

    @property
    def mu(self) -> float:
        """Gaussian differential privacy that all releases together will spend."""
        return self.cost.spent_mu(release.share for release in self.releases)

    @property
    def paths(self) -> tuple[tuple[PlannedRelease, ...], ...]:
        """All ways that the fit may take."""
        return (self.releases, *self.others)

    def _check(self, path: Sequence[PlannedRelease]) -> None:
        shares = [release.share for release in path]
        if not min(shares, default=1.0) > 0 or not math.fsum(shares) <= 1 + SHARE_TOLERANCE:
            raise BudgetError(
                f"The shares of a plan must be positive and add to at most 1, got {shares} with "
                f"the sum {math.fsum(shares)!r}."
            )

    def __repr__(self) -> str:
        rows = _summaries(self.releases)
        for path in self.others:
            rest = path[_same_prefix(path, self.releases) :]
            rows += [("or, as released values say:", ""), *_summaries(rest)]
        return printed("Plan", self, (), rows)


def make_plan(
    releases: Iterable[PlannedRelease],
    *,
    cost: PrivacyCost,
    unit: str,
    adjacency: str,
    enforced: bool = True,
    others: Iterable[Iterable[PlannedRelease]] = (),
) -> Plan:
    """Make a plan, with scales of noise; refuse a share that does not pay for its release."""
    if adjacency not in ADJACENCIES:
        raise ValueError(f"adjacency must be one of {ADJACENCIES}, got {adjacency!r}.")
    cost.check_usable()
    priced = tuple(_priced(release, cost) for release in releases)
    ways = tuple(tuple(_priced(release, cost) for release in path) for path in others)
    return Plan(cost, unit, adjacency, priced, enforced, ways)


def _priced(release: PlannedRelease, cost: PrivacyCost) -> PlannedRelease:
    """Check that the share pays for the release, and compute the scale of the noise."""
    for mechanism in release.mechanism.split(_OR):
        cost.check_size(release.name, mechanism, release.share, release.shape)
    if release.sensitivity is None:
        return release
    # Where it is known, that of both branches is the same.
    mechanism, share, change = (
        release.mechanism.partition(_OR)[0],
        release.share,
        release.sensitivity,
    )
    scale = cost.noise_std(mechanism, change, share, joint_entries(mechanism, release.shape))
    # With many lines, replacing one field would take longer than all else.
    return PlannedRelease(
        release.name, release.mechanism, share, change, scale, release.follows, release.shape
    )


def planned_search(
    name: str, share: float, n_points: int, n_columns: int = 1
) -> list[PlannedRelease]:
    """Plan the noisy counts of a search over a grid, which have equal parts of a share."""
    n_steps = search_steps(n_points)
    change = sensitivity.counts(n_columns)
    return [
        PlannedRelease(
            f"{name}, count {step}", "gaussian", share / n_steps, change, shape=(n_columns,)
        )
        for step in range(1, n_steps + 1)
    ]


def _summaries(path: Iterable[PlannedRelease]) -> list[tuple[str, str]]:
    return [_summary(list(group)) for _, group in groupby(path, _search_of)]


def _same_prefix(path: Sequence[PlannedRelease], usual: Sequence[PlannedRelease]) -> int:
    """Count the releases that both ways begin with."""
    pairs = zip(path, usual, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0].name == pair[1].name, pairs))


def _search_of(release: PlannedRelease) -> tuple[str, float | None, float | None, str]:
    name = search_name(release.name)
    return name, release.sensitivity, release.noise_scale, release.follows


def _summary(releases: list[PlannedRelease]) -> tuple[str, str]:
    """Return the name of a release or search, and its numbers, as far as they are known."""
    first, share = releases[0], math.fsum(release.share for release in releases)
    name = group_name([release.name for release in releases])
    if first.sensitivity is None:
        return name, f"{share:>8.4f}  follows {first.follows}"
    return name, f"{share:>8.4f}{first.sensitivity:>13.4g}{first.noise_scale:>13.4g}"
