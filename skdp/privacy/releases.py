"""Releases: noisy statistics, searches of quantiles, and the record of what was released."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from html import escape
from itertools import chain, groupby
from typing import Any, NamedTuple

import numpy as np

from skdp.exceptions import BudgetError
from skdp.linalg.norms import COUNT_MARGIN, steps_of
from skdp.privacy import gaussian_dp, pure_dp

# ------------------------------
# Searches of quantiles by noisy counts over a public grid.

#: Public grid for norms in unknown units: 1024 points from 1e-12 to 1e12, 5.5 per cent apart.
SCALE_GRID = np.geomspace(1e-12, 1e12, 1024)  # not studied


def warnings_for_ends(name: str, found: np.ndarray, grid: np.ndarray, remedy: str) -> list[str]:
    """Return warnings if searches have ended at an end of their grid; `remedy` is a sentence."""
    smallest, largest = grid.min(), grid.max()
    below = "smaller, or 0" if smallest > 0 else "smaller"
    # A search that finds no quantile ends at the last point of its grid. In some grids the last
    # point is the smallest one: see `zeros_last` in `skdp.linalg.norms`.
    if grid[-1] == smallest and len(grid) > 1:
        below = f"0, or beyond {largest:g}"
    ends = ((smallest, "smallest", below), (largest, "largest", "larger"))
    warnings = []
    for end, extreme, beyond in ends:
        if count := np.count_nonzero(found == end):
            of = f" for {count} of {found.size} columns" if found.size > 1 else ""
            warnings.append(
                f"{name}: the search ended at {end:g}{of}, the {extreme} number that it covers; "
                f"most values are probably {beyond}. {remedy}"
            )
    return warnings


# ------------------------------
# Releases: noisy statistics, declared in a plan, made by a solver and listed in a record.


@dataclass(frozen=True)
class Release:  # numpydoc ignore=PR02
    """A noisy statistic, planned or released.

    Parameters
    ----------
    name : str
        What is released.
    mechanism : str
        ``"gaussian"``, ``"symmetric_gaussian"``, ``"laplace"``, ``"spherical"`` or
        ``"exponential"``.
    share : float
        Share of the square of the total mu or, if delta is 0, of epsilon.
    sensitivity : float or None, default=None
        Largest change of the noiseless value between neighboring datasets, in the units of that
        value; for ``"exponential"``, largest change of the difference of two losses. None in a plan
        if an earlier release decides it.
    noise_std : float or None, default=None
        Standard deviation of the noise in an entry, in the same units; None where `sensitivity` is
        None.
    follows : str, default=""
        In a plan, what the sensitivity depends on; empty if the plan states the sensitivity.
    shape : tuple of int, default=()
        In a plan, the shape of what is released.
    may_be_skipped : bool, default=False
        In a plan, whether earlier releases may rule this one out. Its share is spent in any case.
    sensitivity_of : callable or None, default=None
        In a plan, the function that computes the sensitivity from public and released facts.

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
    noise_std: float | None = None
    follows: str = ""
    shape: tuple[int, ...] = ()
    may_be_skipped: bool = False
    sensitivity_of: Callable[..., float] | None = field(default=None, compare=False, repr=False)

    def sensitivity_for(self, *facts: Any, **more: Any) -> float:
        """Compute the sensitivity.

        Parameters
        ----------
        *facts : object
            Public or released arguments of `sensitivity_of`; none if the plan has the sensitivity.
        **more : object
            Such arguments by name.

        Returns
        -------
        float
            Largest change of the noiseless value.

        Raises
        ------
        BudgetError
            If the release was declared without a sensitivity, or with a larger one than computed.
        """
        if self.sensitivity is not None and not facts and not more:
            return self.sensitivity
        if self.sensitivity_of is None:
            raise BudgetError(f"Release {self.name!r} has no sensitivity.")
        change = float(self.sensitivity_of(*facts, **more))
        if self.sensitivity is not None and not change >= self.sensitivity:
            raise BudgetError(
                f"Release {self.name!r} has sensitivity {change!r}, less than the planned "
                f"{self.sensitivity!r}."
            )
        return change


@dataclass(frozen=True)
class Search(Release):  # numpydoc ignore=PR02
    """A search for a quantile over a public grid, in steps of noisy counts with equal shares.

    Parameters
    ----------
    name, mechanism : str
        Name of the searched number, and mechanism of the counts.
    share : float
        Share of all counts together.
    sensitivity, noise_std : float or None, default=None
        Sensitivity of the counts of a step together, and noise std of each count.
    follows : object
        Not used.
    shape : tuple of int, default=()
        Shape of what one step releases.
    may_be_skipped, sensitivity_of : object
        Not used.
    grid : ndarray of shape (n_points,)
        Ascending public numbers, one of which is the result.
    remedy : str or None, default=None
        What a user should do if the search ends at an end of the grid; None for no warning.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.privacy import PrivacyCost
    >>> search = PrivacyCost(1.0, 1e-6).search("level", share=0.1, grid=np.arange(40.0))
    >>> [release.name for release in search.lines()]
    ['level, counts 1', 'level, counts 2']
    """

    grid: np.ndarray = field(default_factory=lambda: np.zeros(0), compare=False, repr=False)
    remedy: str | None = None

    def highest_quantile(self, n_rows: int, *, most: float = 1.0) -> float:
        """Return the highest quantile, at most `most`, that a noisy search finds reliably.

        If fewer rows lie above a quantile, the noise of one step may end the search far from it.

        Parameters
        ----------
        n_rows : int
            Number of rows that are counted.
        most : float, default=1.0
            Highest quantile that is wanted.

        Returns
        -------
        float
            Fraction of the rows; not positive if no quantile is reliable.
        """
        return min(most, 1 - COUNT_MARGIN * (self.noise_std or 0.0) / n_rows)

    def lines(self) -> tuple[Release, ...]:
        """Return the counts, one release per step.

        Returns
        -------
        tuple of Release
            As many as the search has steps.
        """
        n_steps, _ = steps_of(len(self.grid))
        facts = self.mechanism, self.share / max(n_steps, 1), self.sensitivity, self.noise_std
        return tuple(
            Release(f"{self.name}, counts {step}", *facts, shape=self.shape)
            for step in range(1, n_steps + 1)
        )


class Released(NamedTuple):  # numpydoc ignore=PR02
    """A noisy statistic, as a budget releases it.

    Parameters
    ----------
    value : ndarray
        The noisy statistic.
    noise_std : float
        Standard deviation of the noise in an entry.

    Examples
    --------
    >>> from skdp.privacy import Released
    >>> value, noise_std = Released(3.2, noise_std=0.5)
    >>> noise_std
    0.5
    """

    value: np.ndarray
    noise_std: float

    def mean(self, n_units: float) -> "Released":
        """Return the mean of a released sum, and its noise.

        Parameters
        ----------
        n_units : float
            Public number of units.

        Returns
        -------
        Released
            Both numbers divided by `n_units`.
        """
        return Released(self.value / n_units, self.noise_std / n_units)


def runs_of(releases: Iterable[Release]) -> list[tuple[str, float, Release]]:
    """Group similar releases in a row; return name, total share and first release of each group."""
    runs = []
    for (stem, *_), run in groupby(releases, _group_key):
        first, *others = run
        name = first.name
        if others and stem.endswith(" "):
            name += f" ... {others[-1].name.removeprefix(stem)}"
        elif others:
            name = f"{stem}, {len(others) + 1} times"
        runs.append((name, math.fsum(one.share for one in (first, *others)), first))
    return runs


def _group_key(release: Release) -> tuple[str, str, float | None, float | None, str]:
    """Return a key without the last number of a name; all counts of a search have the same key."""
    name, is_count, _ = release.name.partition(", counts")
    name = name if is_count else name.rstrip("0123456789")
    return name, release.mechanism, release.sensitivity, release.noise_std, release.follows


def summaries(releases: Iterable[Release]) -> list[tuple[str, str]]:
    """Return a line for each run of like releases: its name, and its share and noise as text."""
    return [
        (name, f"{share:>8.4f}  follows {first.follows}")
        if first.sensitivity is None
        else (name, f"{share:>8.4f}{first.sensitivity:>13.4g}{first.noise_std:>13.4g}")
        for name, share, first in runs_of(releases)
    ]


# ------------------------------
# The record of what a fit has spent.

# A record prints at most `_SHOWN` releases, with names padded to at least `_WIDTH` characters.
_SHOWN, _WIDTH = 30, 28  # not tuned
# The text of a record calls a larger epsilon weak.
_WEAK = 10.0  # not studied
_LARGEST_DELTA = math.nextafter(1.0, 0.0)  # not tuned
# Fields of a release in a record; other fields belong to plans.
_RECORDED = ("name", "mechanism", "sensitivity", "noise_std", "share")


@dataclass(frozen=True, repr=False)
class PrivacySpent:  # numpydoc ignore=PR02
    """Immutable record of the privacy that a fit has spent.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee as asked for; for a composition, the epsilon at that delta. A delta of 0
        with a finite epsilon is pure differential privacy.
    mu : float
        Gaussian differential privacy that was spent, or that the spent epsilon implies. It does not
        cover the event of `delta_tail`.
    unit : str
        What is protected, such as one row.
    adjacency : str
        How neighboring datasets differ.
    seed_fingerprints : tuple of str
        A fingerprint for each seed of the noise. Equal seeds have equal fingerprints, and a
        secret seed cannot be found from its fingerprint. If the noise has a seed, the guarantee
        holds only against those who cannot guess the seed.
    releases : tuple of Release
        Everything that was computed from the data and published.
    enforced : bool, default=True
        Whether the bounds behind the sensitivities are enforced by clipping, or promised by the
        caller.
    delta_tail : float, default=0.0
        Part of delta for an event after which nothing is promised. The guarantee of `mu` holds
        unless the event happens, which has at most this probability. The record states `delta_tail`
        even if the event can no longer happen.
    guessable : bool, default=False
        Whether a seed of the noise may be guessed: an int below 2**64, or a generator, since nobody
        can see how it was seeded. There is no guarantee then.
    trust : str, default=""
        For a fit of several owners: whom they trust with what, and which owners left before its
        end. Empty where all rows were in one place.

    Examples
    --------
    >>> from skdp.privacy import PrivacyBudget
    >>> budget = PrivacyBudget(1.0, 1e-6, unit="row", adjacency="replace")
    >>> noisy, scale = budget.gaussian("count", 10.0, sensitivity=1.0, share=1.0)
    >>> spent = budget.spent()
    >>> round(spent.epsilon_at(1e-9), 2)
    1.32
    """

    epsilon: float
    delta: float
    mu: float
    unit: str
    adjacency: str
    seed_fingerprints: tuple[str, ...]
    releases: tuple[Release, ...]
    enforced: bool = True
    delta_tail: float = 0.0
    guessable: bool = False
    trust: str = ""

    @property
    def seeded(self) -> bool:
        """Whether noise came from a seed."""
        return bool(self.seed_fingerprints)

    @property
    def rho(self) -> float:
        """Zero-concentrated differential privacy that `mu` implies; `delta_tail` is left out."""
        return gaussian_dp.rho_from_mu(self.mu)

    @property
    def _is_pure(self) -> bool:
        return self.delta == 0 and self.delta_tail == 0 and math.isfinite(self.epsilon)

    @property
    def _pure_epsilon(self) -> float:
        """Pure differential privacy that was spent; inf if a release is not pure."""
        if not self._is_pure:
            return math.inf
        return self.epsilon * min(1.0, math.fsum(release.share for release in self.releases))

    def epsilon_at(self, delta: float) -> float:
        """Return the epsilon that goes with another `delta`.

        Parameters
        ----------
        delta : float
            Probability, ``0 <= delta < 1``.

        Returns
        -------
        float
            Smallest epsilon, rounded up. At a `delta` of 0 it is finite only for pure differential
            privacy; at a `delta` below `delta_tail` it is infinite. Unless the privacy is pure, a
            `delta` above 0.5 counts as 0.5.
        """
        of_mu = gaussian_dp.epsilon_at(self.mu, delta, self.delta_tail)
        return min(of_mu, pure_dp.epsilon_at(self._pure_epsilon, delta))

    def delta_at(self, epsilon: float) -> float:
        """Return the delta that goes with another `epsilon`.

        Parameters
        ----------
        epsilon : float
            Dimensionless, ``0 <= epsilon <= inf``.

        Returns
        -------
        float
            Smallest delta, rounded up, `delta_tail` included.
        """
        of_mu = gaussian_dp.delta_at(self.mu, epsilon, self.delta_tail)
        delta = min(of_mu, pure_dp.delta_at(self._pure_epsilon, epsilon))
        # At epsilon=inf the curve of pure privacy is 0, but the tail event may still happen.
        return max(delta, self.delta_tail)

    def compose(self, *others: "PrivacySpent", same_unit: bool = False) -> "PrivacySpent":
        """Return the record of several fits together, on the same or overlapping data.

        Parameters
        ----------
        *others : PrivacySpent
            Records with the same unit and adjacency.
        same_unit : bool, default=False
            Whether the records of a regression are the rows of the other fit, each with its
            response. If so, their costs compose to a cost of records. In matrix completion a
            record is one cell, not a row.

        Returns
        -------
        PrivacySpent
            All releases, each with its share of the square of the total mu. All `delta_tail` are
            added. `delta` is the first delta that is not 0, plus the tails of all other records;
            `epsilon` follows from `mu` and `delta`. If all records are pure, their epsilons are
            added, and shares are shares of the sum.

        Raises
        ------
        TypeError
            If an object is no record.
        ValueError
            If the records differ in unit or adjacency, or the noise of two of them came from one
            seed. Two fits with one seed agree exactly if, and only if, their data and parameters
            do. Comparing them reveals more than both records say.
        """
        records = (self, *others)
        for record in records:
            if not isinstance(record, PrivacySpent):
                raise TypeError(
                    "compose takes records, as in first.compose(second, third), got "
                    f"{type(record).__name__}. For a fitted estimator, pass its privacy_spent_."
                )
        unit = _common_unit({record.unit for record in records}, same_unit=same_unit)
        adjacencies = sorted({record.adjacency for record in records})
        if len(adjacencies) > 1:
            raise ValueError(f"Only records of the same adjacency compose, got {adjacencies}.")
        fingerprints = tuple(chain.from_iterable(record.seed_fingerprints for record in records))
        if len(set(fingerprints)) < len(fingerprints):
            raise ValueError(
                "Records of the same seed do not compose: two fits with one random_state reveal "
                "more than both records say. Fit with random_state=None, or a secret seed for each."
            )
        mu = gaussian_dp.compose(record.mu for record in records)
        delta, delta_tail = _composed_deltas(records)
        if all(record._is_pure for record in records):
            epsilon = math.fsum(record._pure_epsilon for record in records)
            pairs = ((one, record.epsilon) for record in records for one in record.releases)
            releases = [replace(one, share=one.share * own / epsilon) for one, own in pairs]
        else:
            epsilon = gaussian_dp.epsilon_at(mu, delta, delta_tail)
            releases = [one for record in records for one in _shared_in_mu(record, mu)]
        return replace(
            self,
            epsilon=epsilon,
            delta=delta,
            mu=mu,
            unit=unit,
            seed_fingerprints=fingerprints,
            releases=tuple(releases),
            enforced=all(record.enforced for record in records),
            delta_tail=delta_tail,
            guessable=any(record.guessable for record in records),
            trust="; ".join(dict.fromkeys(record.trust for record in records if record.trust)),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the record as plain numbers, strings and lists, ready for JSON.

        Returns
        -------
        dict
            An entry for each field, and for ``seeded`` and ``rho``.
        """
        releases = [{name: getattr(one, name) for name in _RECORDED} for one in self.releases]
        lists = {"seed_fingerprints": list(self.seed_fingerprints), "releases": releases}
        return {**vars(self), **lists, "seeded": self.seeded, "rho": self.rho}

    @classmethod
    def _from_dict(cls, record: dict[str, Any]) -> "PrivacySpent":
        """Restore a record from the result of `as_dict`."""
        # Records of earlier versions lack the field `trust`.
        given = {one.name: record[one.name] for one in fields(cls) if one.name in record}
        releases = tuple(Release(**one) for one in record["releases"])
        fingerprints = tuple(record["seed_fingerprints"])
        return cls(**{**given, "releases": releases, "seed_fingerprints": fingerprints})

    @property
    def _notes(self) -> list[str]:
        """Cautions about the seed of the noise, if there is one."""
        if self.guessable:
            return ["no privacy: whoever guesses random_state can remove the noise"]
        seeded = "seeded: no guarantee against anyone who can guess random_state"
        return [seeded] if self.seeded else []

    def __repr__(self) -> str:
        notes = [*self._notes, f"owners: {self.trust}"] if self.trust else self._notes
        return report_text("PrivacySpent", self, notes, summaries(self.releases))

    def _repr_html_(self) -> str:
        return as_html(repr(self))


#: A function that gets the record of a plan before the first release, and charges a ledger.
Charge = Callable[[PrivacySpent], None]


def _common_unit(units: set[str], *, same_unit: bool) -> str:
    """Return the unit of composed records; row and record alone may differ, if `same_unit`."""
    if len(units) == 1:
        return units.pop()
    if units != {"row", "record"}:
        raise ValueError(f"Only fits of the same unit compose, got {sorted(units)}.")
    if not same_unit:
        raise ValueError(
            "Only fits of the same unit compose, got ['record', 'row']. If a record is a row of "
            "the other fit with its response, pass same_unit=True to compose."
        )
    return "record"


def _composed_deltas(records: Sequence[PrivacySpent]) -> tuple[float, float]:
    """Return the delta of a composition, and the part of it that is summed tail probabilities."""
    tails = [record.delta_tail for record in records]
    # Each delta includes the tail of its own record. One delta is taken, and only the tails of the
    # other records are added.
    first = next((i for i, record in enumerate(records) if record.delta > 0), 0)
    delta = math.fsum([records[first].delta, *tails[:first], *tails[first + 1 :]])
    return min(delta, _LARGEST_DELTA), gaussian_dp.compose_tails(tails)


def report_text(
    title: str, spent: Any, notes: Sequence[str], rows: Sequence[tuple[str, str]]
) -> str:
    """Format the guarantee of a record or a plan, with a line for each release or search."""
    lines = [
        f"{title}: ({spent.epsilon:.4g}, {spent.delta:.4g})-DP "
        f"per {spent.unit}, adjacency {spent.adjacency!r}, mu={spent.mu:.5g}"
    ]
    lines += [f"  {caution}" for caution in cautions(spent, notes)]
    width = max([_WIDTH, *(len(name) + 1 for name, _ in rows)])
    lines.append(f"  {'release':<{width}}{'share':>8}{'sensitivity':>13}{'noise std':>13}")
    lines += [f"  {name:<{width}}{numbers}".rstrip() for name, numbers in rows[:_SHOWN]]
    if len(rows) > _SHOWN:
        lines.append(f"  and {len(rows) - _SHOWN} more")
    return "\n".join(lines)


def as_html(text: str) -> str:
    """Convert a text in columns to HTML, for notebooks."""
    return f"<pre>{escape(text)}</pre>"


def cautions(spent: Any, notes: Sequence[str]) -> list[str]:
    """Return lines on what weakens the guarantee of a record or a plan, `notes` among them."""
    lines = list[str]()
    if math.isinf(spent.epsilon):
        lines.append("no privacy: epsilon is inf")
    elif spent.epsilon > _WEAK:
        lines.append(f"weak: an epsilon above {_WEAK:g} promises little")
    if spent.delta_tail > 0:
        lines.append(f"{spent.delta_tail:.4g} of delta for a tail event, which mu leaves out")
    lines += notes
    if not spent.enforced:
        lines.append("promised, not enforced: bounds, classes, or an author's word")
    return lines


def _shared_in_mu(record: PrivacySpent, total: float) -> list[Release]:
    """Convert the shares of a record to shares of the square of the mu `total`."""
    if not 0 < total < math.inf:
        return list(record.releases)
    shares = [release.share for release in record.releases]
    if record._is_pure:
        mus = [pure_dp.mu_from_epsilon(share * record.epsilon) for share in shares]
    else:
        spent = math.fsum(shares)
        mus = [record.mu * math.sqrt(share / spent) for share in shares]
    pairs = zip(record.releases, mus, strict=True)
    return [replace(release, share=(mu / total) ** 2) for release, mu in pairs]
