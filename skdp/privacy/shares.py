"""Noise that several owners of rows add together, each owner to its own part of a sum.

Each owner adds noise to its part, rounds the result to multiples of a public power of two, and
sends the integer multiples (*counts*). The counts are added up modulo a power of two that exceeds
their sum. At least H owners are honest: they keep their noise secret. Each owner's noise has 1/H of
the variance that the release needs, so that the noise of the honest owners alone suffices.

An owner adds its noise before it rounds: rounding first could move the sum by more than its
sensitivity. Given the noisy sum, the distribution of the summed counts then does not depend on the
data. So the counts reveal no more than the noisy sum. The proof is in the documentation, under
"Across owners".
"""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np

from skdp.exceptions import BudgetError
from skdp.linalg.prefix_sums import PrefixNoise
from skdp.privacy.budget import PrivacyBudget
from skdp.privacy.noise import distinct_entries, draw, lattice_step
from skdp.privacy.plan import Plan, PrivacyCost
from skdp.privacy.releases import Charge, PrivacySpent, Release, Released

# A release with parameter mu may have at most (_ROOT * mu) ** 2 counts, of all owners together.
# `SCALE_MARGIN` pays for their rounding. The proof allows slightly more counts.
_ROOT = 6e6  # not tuned
# Largest noise of one owner, in steps of the lattice: no draw exceeds 37.6 standard deviations, a
# standard deviation has at most 32 steps, and two roundings add 1.
_LARGEST_NOISE = 1205  # not tuned
# Without noise, numbers are sent exactly: a float is an integer times the smallest positive float,
# and the integer is split into 67 parts of 32 bits, called limbs.
_LIMBS, _LIMB = 67, 2**32 - 1  # not tuned
_MECHANISMS = ("gaussian", "symmetric_gaussian")


@dataclass(frozen=True)
class Shares:
    """Public facts about the owners who together add the noise of a fit."""

    n_owners: int
    n_honest: int  # owners who keep their share of the noise secret
    n_units: int  # units of all owners together
    sizes: tuple[int, ...] = ()  # units of each owner, if public
    trust: str = ""  # whom the owners trust with what

    def scale(self, absent: Sequence[int]) -> float:
        """Return the factor that extrapolates a sum without the absent owners to all units."""
        return self.n_units / (self.n_units - sum(self.sizes[number] for number in absent))

    def excess(self, absent: Sequence[int] = ()) -> float:
        """Return the noise std of a sum, divided by the noise std that the guarantee needs."""
        return math.sqrt((self.n_owners - len(absent)) / self.n_honest) * self.scale(absent)

    def layout(self, release: Release, shape: tuple[int, ...]) -> "ShareLayout":
        """Choose step and range of the counts of a release; refuse sums that exceed 64 bits."""
        sensitivity, noise_std = release.sensitivity or 0.0, release.noise_std or 0.0
        std = noise_std / math.sqrt(self.n_honest)
        # The sum of n null units is 0, so any sum is at most n sensitivities away from 0.
        step = lattice_step(std) if std > 0 else 1.0
        limit = self.n_units * sensitivity / step + 1 if std > 0 else 0.0
        if not limit + _LARGEST_NOISE * self.n_owners < 2.0**62:
            raise BudgetError(
                f"The sum of release {release.name!r}, with a mu of {sensitivity / noise_std:.3g}, "
                "exceeds 64 bits; pass a smaller epsilon."
            )
        return ShareLayout(
            release.name, release.mechanism, shape, std, step, math.ceil(limit), self.n_owners
        )

    def planned(self, cost: PrivacyCost, release: Release) -> "ShareLayout":
        """Check a planned release, and return its layout.

        The layout depends only on the ratio of noise to sensitivity, which cost and share decide.
        """
        self.check_size(cost, release, release.shape)
        std = cost.noise_std(release.mechanism, 1.0, release.share)
        return self.layout(replace(release, sensitivity=1.0, noise_std=std), release.shape)

    def check_size(self, cost: PrivacyCost, release: Release, shape: tuple[int, ...]) -> None:
        """Refuse noise that owners cannot share, and more counts than `_ROOT` allows."""
        if release.mechanism not in _MECHANISMS:
            raise BudgetError(
                f"Release {release.name!r}: noise is shared for the mechanisms {_MECHANISMS}, got "
                f"{release.mechanism!r}."
            )
        size = distinct_entries(release.mechanism, shape) * self.n_owners
        root = _ROOT * cost.guarantee(release.mechanism, release.share)
        if cost.is_private and not size <= root * root:
            raise BudgetError(
                f"The budget is too small: release {release.name!r} has {size} numbers of all "
                f"owners, and its share of {release.share:.3g} hides the rounding of at most "
                f"{root * root:.0f}. Pass a larger epsilon or delta, or fewer owners."
            )


@dataclass(frozen=True)
class ShareLayout:
    """Format in which owners send their parts of a release, from public facts."""

    name: str
    mechanism: str
    shape: tuple[int, ...]
    std: float  # noise std of one owner; 0 without noise
    step: float  # power of two; a count is a number of these steps
    limit: int  # bound, in steps, of the noiseless sum over all units; 0 without noise
    n_owners: int

    @property
    def size(self) -> int:
        """Number of counts; a symmetric matrix has one for each entry of its upper triangle.

        Without noise each number is sent as `_LIMBS` counts.
        """
        return distinct_entries(self.mechanism, self.shape) * (1 if self.std > 0 else _LIMBS)

    @property
    def largest(self) -> int:
        """Bound on the sum of the owners' counts.

        With noise, the bound covers the data and the largest noise of each owner. Without noise,
        each owner sends the 32-bit limbs of exact numbers.
        """
        return self.limit + _LARGEST_NOISE * self.n_owners if self.std > 0 else self.n_owners << 33

    @property
    def words(self) -> np.dtype:
        """Unsigned type of the counts; the sum of all owners is read as a signed number."""
        return np.dtype("<u4" if self.largest < 2**31 else "<u8")

    @property
    def n_bytes(self) -> int:
        """Number of bytes of an owner's counts."""
        return self.size * self.words.itemsize


def counts_of(part: np.ndarray, layout: ShareLayout, key: bytes) -> np.ndarray:
    """Add an owner's noise to its part, and round: int64 counts of steps, of shape (size,).

    The part is split exactly into whole steps and a rest below one step. The noise is added to the
    rest, so that a large part costs the noise no digits. A part beyond the public limit is clipped,
    which moves neighboring parts no farther apart.
    """
    if layout.std == 0:
        return _limbs_of(_distinct(part, layout))
    limit = float(layout.limit)
    with np.errstate(all="ignore"):
        steps = np.clip(np.nan_to_num(_distinct(part, layout) / layout.step), -limit, limit)
        whole = np.rint(steps)
        rest = steps - whole
        noise = _distinct(draw(layout.mechanism, layout.shape, key), layout)
        # The quotient is exact, and from 16 to 32. `noise * std` could overflow or underflow.
        rest += noise * (layout.std / layout.step)
    return whole.astype(np.int64) + np.rint(rest).astype(np.int64)


def numbers_of(counts: np.ndarray, layout: ShareLayout) -> np.ndarray:
    """Convert the sum of all counts to the released numbers."""
    with np.errstate(over="ignore"):
        flat = counts * layout.step if layout.std > 0 else _floats_of(counts)
    if layout.mechanism == "gaussian":
        return flat.reshape(layout.shape)
    numbers = np.zeros(layout.shape)
    numbers[np.triu_indices(len(numbers))] = flat
    return numbers + np.triu(numbers, 1).T


def _limbs_of(values: np.ndarray) -> np.ndarray:
    """Write floats as multiples of the least positive float, in limbs whose sums are exact."""
    # The least positive float is 2 ** -1074, and the denominator of every float divides 2 ** 1074.
    ratios = map(float.as_integer_ratio, np.nan_to_num(values).tolist())
    wholes = ((numerator << 1074) // denominator for numerator, denominator in ratios)
    limbs = b"".join(whole.to_bytes(4 * _LIMBS, "little", signed=True) for whole in wholes)
    return np.frombuffer(limbs, "<u4").astype(np.int64)


def _floats_of(counts: np.ndarray) -> np.ndarray:
    """Convert sums of limbs to the nearest floats; sums out of range become the largest floats."""
    limbs = counts.reshape(-1, _LIMBS).copy()
    # Carry what exceeds 32 bits to the next limb.
    for place in range(_LIMBS - 1):
        limbs[:, place + 1] += limbs[:, place] >> 32
        limbs[:, place] &= _LIMB
    rows, largest = limbs.astype("<i4", casting="unsafe"), int(sys.float_info.max) << 1074
    wholes = (int.from_bytes(row.tobytes(), "little", signed=True) for row in rows)
    # Python rounds the quotient of two integers only once.
    return np.array([min(max(whole, -largest), largest) / (1 << 1074) for whole in wholes])


def _distinct(values: np.ndarray, layout: ShareLayout) -> np.ndarray:
    """Return the distinct entries of a value as a vector."""
    values = np.asarray(values, dtype=np.float64)
    assert values.shape == layout.shape
    return (
        values.ravel() if layout.mechanism == "gaussian" else values[np.triu_indices(len(values))]
    )


#: Takes the layout of a release and the part of one owner; returns the summed counts of all owners
#: and the numbers of the absent owners.
Exchange = Callable[[ShareLayout, np.ndarray], tuple[np.ndarray, tuple[int, ...]]]


class ShareBudget(PrivacyBudget):  # numpydoc ignore=PR01
    """Budget of one owner, which sends its part of each release and gets the sum of all parts.

    Plan, order, sensitivities and record are the same as in a fit to the rows of all owners.
    `Released.noise_std` is the std of the noise that all owners add. The std in the record is
    smaller: it counts the honest owners only.
    """

    _shares: Shares
    _exchange: Exchange
    _n_own: int
    _weight: float
    _absent: tuple[int, ...] = ()

    @classmethod
    def open(
        cls,
        plan: Plan,
        shares: Shares,
        exchange: Exchange,
        *,
        n_own: int = 1,
        weight: float | None = None,
        charge: Charge | None = None,
    ) -> Self:
        """Open the budget of a plan.

        Sums are divided by `n_own`, a private number, before they are sent: an owner who is a unit
        as a whole sends the mean of its `n_own` rows. The mean lies in the convex hull of single
        rows, so that a sensitivity to one row holds for it. If all owners know a value, this owner
        adds the fraction `weight` of it; by default all owners send equal parts.
        """
        if plan.delta_tail:
            raise BudgetError("Owners can share no plan with a tail event: delta_tail must be 0.")
        budget = cls.of(plan, charge=charge)
        budget._shares, budget._exchange, budget._n_own = shares, exchange, n_own
        budget._weight = n_own / shares.n_owners if weight is None else weight
        return budget

    def spent(self) -> PrivacySpent:
        """Return the record of all releases so far; it names whom owners trust, and who left."""
        trust = self._shares.trust
        if self._absent:
            trust += f"; owners who left before the end: {', '.join(map(str, self._absent))}"
        return replace(super().spent(), trust=trust)

    def release(self, release: Release, value: Any, *facts: Any, **more: Any) -> Released:
        """Release the sum of the parts of all owners; `value` is the part of this owner."""
        noisy, noise_std = super().release(release, value, *facts, **more)
        return Released(noisy, noise_std * self._shares.excess(self._absent))

    def of_all(self, sums: np.ndarray) -> np.ndarray:
        """Add up the sums of all owners without noise; see `PrivacyBudget.of_all`."""
        line = Release("sums without noise", "gaussian", 0.0, math.inf, 0.0)
        sums = super().of_all(sums)
        # A ledger refuses sums without noise before they leave.
        self._pay()
        return self._publish(line, sums)

    def part_of(self, value: np.ndarray) -> np.ndarray:
        """Return this owner's part of a value that all owners know."""
        return value * self._weight

    def sums_with_initial_noise(
        self, release: Release, *, unit: float, correlation: PrefixNoise
    ) -> NoReturn:
        """Refuse to draw noise before the data arrive: owners cannot divide such noise."""
        raise BudgetError(
            f"Release {release.name!r} draws its noise before its data arrive, which several "
            "owners cannot do; pass a plan whose sums are released after all data."
        )

    def _book(self, planned: Release, line: Release, shape: tuple[int, ...]) -> Release:
        self._shares.check_size(self.cost, line, shape)
        return super()._book(planned, line, shape)

    def _publish(self, release: Release, value: np.ndarray) -> np.ndarray:
        """Send this owner's part of a release; return the sum of all parts."""
        if value.size == 0:
            # A skipped release has no value.
            return value
        layout = self._shares.layout(release, value.shape)
        counts, self._absent = self._exchange(layout, value / self._n_own)
        numbers = numbers_of(counts, layout)
        return numbers * self._shares.scale(self._absent) if self._absent else numbers


class Party(NamedTuple):
    """One of several owners that fit a pipeline; its functions replace methods of each step."""

    n_units: int  # units of all owners together
    unit: str | None  # what is protected, if not the unit of the steps
    spec_of: Callable[[Any, Any], Any]  # takes a step, and rows of the same kind as its input
    validate: Callable[[Any, Any, Any], Any]  # takes a step, X and y
    open: Callable[..., PrivacyBudget]  # opens the budget of a plan
    charge: Charge | None
