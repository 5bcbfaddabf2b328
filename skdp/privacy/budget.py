"""The budget of a fit, which adds noise to every private statistic before its release."""

import math
import sys
from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter
from typing import Any, Self

import numpy as np

from skdp.exceptions import BudgetError
from skdp.linalg.norms import EXACT, GridCounts, GridSearch, bin_counts
from skdp.linalg.prefix_sums import PrefixNoise
from skdp.privacy import sensitivity
from skdp.privacy.noise import (
    CHOICE,
    NoiseSource,
    checked_value,
    draw,
    joint_entries,
    round_to_lattice,
    with_noise,
)
from skdp.privacy.plan import SHARE_TOLERANCE, Node, Plan, PrivacyCost, nodes_behind, nodes_of
from skdp.privacy.releases import Charge, PrivacySpent, Release, Released, Search, warnings_for_ends
from skdp.privacy.sensitivity import ADJACENCIES

# ------------------------------
# Fixed-point sums that get their noise first, and the data later, in pieces.

# Sums are stored as integer multiples of a unit of about 2 ** -40 noise stds. So 64 bits hold sums
# of up to 2 ** 22 noise stds.
_BITS_BELOW_NOISE = 40  # not tuned
# The unit follows from the larger of the noise std and this fraction of the sensitivity. If noise
# far below the sensitivity set the unit, sums of the data would exceed 64 bits.
_LEAST_NOISE = 1 / 16  # not tuned
_WORD = 2.0**64  # integers are added modulo this number; not tuned


class InitialNoiseSums:
    r"""Integer sums to which noise is added before any data; `read` releases the noisy sums.

    The integers are multiples of the `unit`, a public power of two, and are added modulo
    :math:`2^{64}`. Integer addition is exact in any order and grouping, so that no rounding is
    charged. A sum that overflows wraps around: the result is a function of the exact noisy sum, and
    reveals no more.

    The noise is rounded to multiples of the unit when it is drawn. The data are multiples of the
    unit, so that rounding the noisy sum instead would give the same result. The proof for
    :func:`skdp.privacy.noise.round_to_lattice` holds unchanged.

    If sums are released after every epoch, the proof applies to the data and noise that each epoch
    adds. This noise depends on the noise of earlier epochs by `correlation`, which is computed in
    floating point, with a relative error of some :math:`10^{-13}`; `PrefixNoise.sensitivity`
    charges for this error.
    """

    def __init__(
        self, release: Release, shape: tuple[int, ...], unit: float, correlation: PrefixNoise
    ) -> None:
        self.release, self._fresh_std = release, release.noise_std or 0.0
        self.unit, self._correlation = unit, correlation
        self.counts = np.zeros(shape, dtype=np.int64)
        # Decaying sums of earlier noise, see `PrefixNoise.step`; and the covariance, for one entry,
        # of these buffers and the sum of noise, in units of the variance of fresh noise.
        self._buffers = np.zeros((len(correlation.decays), *shape))
        self._covariance = np.zeros((len(correlation.decays) + 1,) * 2)
        self._n_epochs, self._is_read = 0, False
        self.open_epoch()

    def open_epoch(self) -> None:
        """Add the noise of the epoch that begins, before its data."""
        if self._n_epochs >= self._correlation.horizon:
            raise BudgetError(f"Release {self.release.name!r} has paid for no more epochs.")
        epoch = self._n_epochs
        self._n_epochs, self._is_read = epoch + 1, False
        self._covariance = self._correlation.next_covariance(self._covariance, epoch)
        if self._fresh_std > 0:
            noise = self._correlation.step(self._draw(), self._buffers, epoch)
            noise *= self._fresh_std / self.unit
            self.counts += np.rint(noise).astype(np.int64)

    def read(self) -> Released:
        """Return the noisy sums, rounded to the lattice of their noise; at most once per epoch."""
        if self._is_read:
            raise BudgetError(f"Release {self.release.name!r} has been read in this epoch.")
        self._is_read = True
        values = self.counts * self.unit
        if self._fresh_std > 0:
            round_to_lattice(values, self._fresh_std)
        return Released(values, self.noise_std)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise in the sums so far."""
        return self._fresh_std * math.sqrt(self._covariance[-1, -1])

    def _draw(self) -> np.ndarray:
        # The key is fresh even if the fit has a seed: this noise is drawn before the data, so a key
        # from the seed would give neighboring streams the same noise.
        return draw(self.release.mechanism, self.counts.shape, NoiseSource().key())


def fixed_point_unit(releases: Iterable[Release]) -> float:
    """Return the power of two of which planned sums are multiples.

    The unit is at most 2 ** -40 of the smallest noise std or, if that is larger, of a sixteenth of
    the smallest sensitivity. Sums of up to 2 ** 22 times the larger of these do not wrap around.
    """
    planned = list(releases)
    noise_std = min(release.noise_std or 0.0 for release in planned)
    least_change = min(release.sensitivity or 0.0 for release in planned)
    _, exponent = math.frexp(max(noise_std, _LEAST_NOISE * least_change))
    return math.ldexp(1.0, exponent - 1 - _BITS_BELOW_NOISE)


def to_counts(values: np.ndarray, unit: float) -> np.ndarray:
    """Round numbers to int64 multiples of a unit, modulo 2 ** 64; x and -x give opposite counts."""
    with np.errstate(all="ignore"):
        # Most sums are so small that no modulus is needed.
        if np.abs(values).max(initial=0.0) < unit * EXACT:
            return np.rint(values / unit).astype(np.int64)
        counts = np.rint(np.fmod(values, unit * _WORD) / unit)
        counts -= _WORD * np.rint(counts / _WORD)
    # 2 ** 63 exceeds int64, and equals -2 ** 63 modulo 2 ** 64.
    counts[counts == _WORD / 2] = -_WORD / 2
    return counts.astype(np.int64)


# ------------------------------
# The budget of a fit, with a plan or without one.


#: Name of a skipped release in the record.
SKIPPED = "skipped"


def is_skipped(name: str) -> bool:
    """Return whether a name in a record is `SKIPPED`, alone or after the name of a step."""
    return name == SKIPPED or name.endswith(f": {SKIPPED}")


def _check_release(release: Any, mechanism: str | None = None) -> None:
    """Refuse an object that is no release, and a release with another mechanism."""
    if not isinstance(release, Release):
        raise TypeError(
            "release must be a single Release, such as plan.parts, or plan.parts[0] if the plan "
            f"has several, got {type(release).__name__}."
        )
    if mechanism not in (None, release.mechanism):
        raise BudgetError(
            f"Release {release.name!r} must be {mechanism!r}, got {release.mechanism!r}."
        )


class PrivacyBudget:  # numpydoc ignore=PR02
    """The privacy of one fit: adds noise to releases, records them, and refuses to overspend.

    `epsilon` and `delta` are turned into mu once. Each release spends a share of the square of mu,
    and the shares of a fit add to at most 1. Shares must not depend on the data. Every released
    number is rounded to a multiple of a power of two, between 1/32 and 1/16 of the noise std, so
    that its low bits reveal nothing about the value behind the noise.

    If `delta` is 0, shares are shares of epsilon. Gaussian noise needs a positive delta and is
    refused then; ``laplace``, ``spherical`` and ``exponential`` remain.

    Parameters
    ----------
    epsilon : float
        Dimensionless, ``0 < epsilon <= inf``; ``inf`` switches the noise off.
    delta : float
        Probability, ``0 <= delta < 1``; 0 is pure differential privacy.
    unit : str
        What is protected, for the record.
    adjacency : {"replace", "zero_out"}
        How neighboring datasets differ, for counts and for the record.
    noise_source : NoiseSource or None, default=None
        Where the noise comes from. ``None`` is the operating system.
    enforced : bool, default=True
        Whether the bounds behind the sensitivities are enforced by clipping, or promised by the
        caller, for the record.
    delta_tail : float, default=0.0
        Part of `delta` that is reserved for an event after which nothing is promised, such as a
        test that is passed by mistake, ``0 <= delta_tail < delta``. The mu of the fit follows from
        ``delta - delta_tail``. The caller proves that the event has at most this probability.
    charge : callable or None, default=None
        Called once, before the first release, with the record of all that the budget may spend,
        such as ``charge`` of a :class:`skdp.PrivacyLedger`. If it raises, nothing is released.

    Raises
    ------
    ValueError
        If `epsilon`, `delta`, `delta_tail` or `adjacency` is out of range.

    Examples
    --------
    >>> from skdp.privacy import PrivacyBudget
    >>> budget = PrivacyBudget(1.0, 1e-6, unit="row", adjacency="replace")
    >>> noisy, scale = budget.gaussian("sum", [3.0, 4.0], sensitivity=2.0, share=0.5)
    >>> noisy.shape
    (2,)
    >>> round(scale, 2)
    11.95
    >>> budget.spent().releases[0].name
    'sum'
    """

    # Nodes of the plan whose releases may come next; None if any release may, without a plan.
    _nodes: tuple[Node, ...] | None
    # Random numbers of the algorithm, such as its start matrix. They are public, and never noise.
    # Only fits of a PrivateEstimator set this generator, when they open their budget.
    public_generator: np.random.Generator

    def __init__(
        self,
        epsilon: float,
        delta: float,
        *,
        unit: str,
        adjacency: str,
        noise_source: NoiseSource | None = None,
        enforced: bool = True,
        delta_tail: float = 0.0,
        charge: Charge | None = None,
    ) -> None:
        if adjacency not in ADJACENCIES:
            raise ValueError(f"adjacency must be one of {ADJACENCIES}, got {adjacency!r}.")
        cost = PrivacyCost(epsilon, delta, delta_tail)
        plan = Plan(cost, None, unit=unit, adjacency=adjacency, enforced=enforced)
        self._begin(plan, noise_source, charge)
        self._nodes = None

    @classmethod
    def of(
        cls, plan: Plan, noise_source: NoiseSource | None = None, charge: Charge | None = None
    ) -> Self:
        """Open the budget of a plan.

        Parameters
        ----------
        plan : Plan
            All releases to come.
        noise_source : NoiseSource or None, default=None
            Where the noise comes from. ``None`` is the operating system.
        charge : callable or None, default=None
            Called once with the record of the whole plan, before the first release.

        Returns
        -------
        PrivacyBudget
            A budget that refuses every release but the next one of the plan.
        """
        plan.check_memory()
        budget = cls.__new__(cls)
        budget._begin(plan, noise_source, charge)
        return budget

    def _begin(self, plan: Plan, noise_source: NoiseSource | None, charge: Charge | None) -> None:
        """Set all attributes, for a plan of which nothing has been released."""
        self._noise_source = NoiseSource() if noise_source is None else noise_source
        fingerprint = self._noise_source.fingerprint
        self.plan, self.cost, self.adjacency, self._charge = plan, plan.cost, plan.adjacency, charge
        # The record that is charged to the ledger: the mu of the whole budget, and no release yet.
        self._full_record = PrivacySpent(
            epsilon=self.cost.epsilon,
            delta=self.cost.delta,
            mu=self.cost.mu,
            unit=plan.unit,
            adjacency=plan.adjacency,
            seed_fingerprints=() if fingerprint is None else (fingerprint,),
            releases=(),
            enforced=plan.enforced,
            delta_tail=self.cost.delta_tail,
            guessable=self._noise_source.is_guessable,
        )
        self._nodes = nodes_of(plan.parts)
        self._releases: list[Release] = []
        #: Warnings about the results of searches.
        self.warnings: list[str] = []
        #: For each search by name, the noisy number of units up to each grid point that it counted.
        self.search_counts: dict[str, dict[float, float]] = {}
        #: For each search by name, the number of units among which it sought a quantile.
        self.n_sought: dict[str, float] = {}

    @property
    def is_private(self) -> bool:
        """Whether noise is added at all."""
        return self.cost.is_private

    def spent(self) -> PrivacySpent:
        """Return the record of all releases so far.

        Returns
        -------
        PrivacySpent
            An immutable record.
        """
        mu = self.cost.spent_mu(map(attrgetter("share"), self._releases))
        return replace(self._full_record, mu=mu, releases=tuple(self._releases))

    def release(self, release: Release, value: Any, *facts: Any, **more: Any) -> Released:
        """Release `value` with the noise of a mechanism.

        Parameters
        ----------
        release : Release
            What is released: the next release of the plan, if the budget has one.
        value : array-like
            The private statistic.
        *facts : object
            Public or released arguments of `release.sensitivity_of`; none if the plan has the
            sensitivity.
        **more : object
            Such arguments by name.

        Returns
        -------
        Released
            The noisy statistic, in the shape of `value`, and the standard deviation of its noise.

        Raises
        ------
        BudgetError
            If `release` is not next in the plan; if its share or sensitivity is not positive and
            finite; if all shares would exceed 1; if the mechanism is unknown or needs a positive
            delta; or if the value has more entries than were planned, or so many that noise cannot
            hide their rounding.
        TypeError
            If `release` is no release.
        ValueError
            If the mechanism takes no value of that shape.
        """
        _check_release(release)
        value = checked_value(np.asarray(value, dtype=np.float64), release.mechanism)
        # A released value may have fewer numbers than planned, but not more.
        if release.shape and value.size > math.prod(release.shape):
            raise BudgetError(
                f"Release {release.name!r} has the planned shape {release.shape}, and the value "
                f"more numbers, with shape {value.shape}."
            )
        change = release.sensitivity_for(*facts, **more)
        line = Release(release.name, release.mechanism, release.share, change)
        booked = self._book(release, line, value.shape)
        return Released(self._publish(booked, value), booked.noise_std or 0.0)

    def choose(self, release: Release, losses: Any, *facts: Any, **more: Any) -> int:
        """Choose one of several public options by a planned release of the exponential mechanism.

        Parameters
        ----------
        release : Release
            What is released, with the mechanism ``"exponential"``.
        losses : array-like of shape (n_options,)
            The private losses.
        *facts : object
            As in `release`.
        **more : object
            As in `release`.

        Returns
        -------
        int
            Index of the chosen option; if `epsilon` is infinite, the option of the smallest loss.

        Raises
        ------
        BudgetError
            If `release` would raise it.
        ValueError
            If the losses are not finite numbers in one dimension; nothing has been spent then.
        """
        _check_release(release, CHOICE)
        return int(self.release(release, losses, *facts, **more).value)

    def quantile(self, search: Search, values: np.ndarray | GridCounts, *, q: float) -> float:
        """Release the first point of a grid that a fraction `q` of the values do not exceed.

        The search has several steps, each of which releases the numbers of values up to a few
        points. These points divide the grid into bins that, by earlier steps, are equally likely to
        contain the result. A nondecreasing sequence is fitted to the counts of all steps, so that
        one count with large noise misleads the search for a few steps only. Without noise this is
        a binary search.

        Parameters
        ----------
        search : Search
            What is released.
        values : ndarray of shape (n,) or GridCounts
            One value for each unit, or the numbers of units up to each point of the grid. The NaN
            of a null unit is counted nowhere. If `has_zeros_last`, `q` is a fraction of the other
            values.
        q : float
            Probability in (0, 1).

        Returns
        -------
        float
            A point of the grid.

        Raises
        ------
        BudgetError
            If `release` would raise it.
        """
        if not isinstance(values, GridCounts):
            values = GridCounts.in_all(search.grid, values, len(values))
        if self._nodes is None:
            # No count is released unless there is budget for all counts of the search.
            self._check_share(search.name, search.share)
        size = len(values.grid), values.n_units, float(q)
        exact, skips = not self.is_private, values.has_zeros_last
        found = GridSearch(*size, is_exact=exact, skips_zeros=skips)
        for line in search.lines():
            up_to = values.up_to_points[found.next_places()]
            found.learn(*self.release(line, found.differences(up_to)))
        places, counts = found.counted
        self.search_counts[search.name] = dict(zip(values.grid[places], counts, strict=True))
        self.n_sought[search.name] = found.n_sought
        point = float(values.grid[found.place()])
        if search.remedy is not None:
            ends = warnings_for_ends(search.name, np.array([point]), values.grid, search.remedy)
            self.warnings += ends
        return point

    def sums_with_initial_noise(
        self, release: Release, *, unit: float, correlation: PrefixNoise
    ) -> InitialNoiseSums:
        """Draw the Gaussian noise of sums now, and return sums to which data are added later.

        The noise comes from the operating system even if the fit has a seed.

        Parameters
        ----------
        release : Release
            What is released: the sums of one epoch, or of several epochs, whose number is then the
            first axis of the shape. The sensitivity is the sensitivity of one epoch times
            `correlation.sensitivity`.
        unit : float
            Power of two, of which the sums are multiples.
        correlation : PrefixNoise
            How often the sums are released, and how their noise is correlated between epochs.

        Returns
        -------
        InitialNoiseSums
            Sums that are to be read once, or once an epoch.

        Raises
        ------
        BudgetError
            If `release` would raise it.
        """
        _check_release(release, "gaussian")
        shape = release.shape[-2:]
        line = Release(release.name, "gaussian", release.share, release.sensitivity_for())
        booked = self._book(release, line, (correlation.horizon, *shape))
        return self._start(booked, shape, unit, correlation)

    def of_all(self, sums: np.ndarray) -> np.ndarray:
        """Return the sum over all owners; here, with one owner, `sums` itself.

        Parameters
        ----------
        sums : ndarray
            Sums over the rows of this owner.

        Returns
        -------
        ndarray
            The sums over all rows.

        Raises
        ------
        BudgetError
            If the budget is finite.
        """
        if self.is_private:
            raise BudgetError("Sums without noise are for epsilon=inf alone.")
        return sums

    def part_of(self, value: np.ndarray) -> np.ndarray:
        """Return this owner's part of a value that all owners know; here, with one owner, `value`.

        Parameters
        ----------
        value : ndarray
            A value that is the same for all owners.

        Returns
        -------
        ndarray
            This owner's part: the parts of all owners sum to `value`.
        """
        return value

    def skip(self, *releases: Release) -> None:
        """Spend the shares of planned releases without making them: skipping saves no budget.

        Parameters
        ----------
        *releases : Release
            The next releases of the plan, which released values have ruled out.

        Raises
        ------
        BudgetError
            If the releases are not next in the plan, or may not be skipped.
        """
        mechanism = "laplace" if self.cost.is_pure else "gaussian"
        for release in releases:
            if not release.may_be_skipped:
                raise BudgetError(f"Release {release.name!r} may not be skipped.")
            line = Release(SKIPPED, mechanism, release.share, sensitivity=1.0)
            self._publish(self._book(release, line, (0,)), np.zeros(0))

    # The methods below declare and make a release at once, without a plan.

    def gaussian(self, name: str, value: Any, *, sensitivity: float, share: float) -> Released:
        """Release `value` with independent Gaussian noise on every entry.

        Parameters
        ----------
        name : str
            Name of the release, for the record.
        value : array-like
            The private statistic.
        sensitivity : float
            Largest Euclidean (Frobenius) change of `value` between neighboring datasets.
        share : float
            Share of the square of mu that is spent.

        Returns
        -------
        Released
            The noisy statistic, in the shape of `value`, and the standard deviation of its noise.

        Raises
        ------
        BudgetError
            If `release` would raise it.
        """
        return self.release(self._named(name, "gaussian", share), value, sensitivity)

    def symmetric_gaussian(
        self, name: str, value: Any, *, sensitivity: float, share: float
    ) -> Released:
        """Release a symmetric matrix with noise isotropic in the Frobenius inner product.

        Parameters
        ----------
        name : str
            Name of the release, for the record.
        value : array-like of shape (n, n)
            The private symmetric matrix.
        sensitivity : float
            Largest Frobenius change of `value` between neighboring datasets.
        share : float
            Share of the square of mu that is spent.

        Returns
        -------
        Released
            The noisy matrix, symmetric, and the standard deviation of its noise on the diagonal.
            Off the diagonal the standard deviation is smaller, by a factor of sqrt(1/2).

        Raises
        ------
        BudgetError
            If `release` would raise it.
        ValueError
            If `value` is not a square matrix.
        """
        return self.release(self._named(name, "symmetric_gaussian", share), value, sensitivity)

    def laplace(self, name: str, value: Any, *, sensitivity: float, share: float) -> Released:
        r"""Release `value` with Laplace noise: pure differential privacy.

        The noise g is drawn independently for each entry of a vector, or each row of a matrix, with
        density proportional to :math:`\exp(-\epsilon_0 \|g\|_2 / \Delta)`. An entry follows the
        Laplace law. A row has a uniform direction, and its length follows the gamma law.

        Parameters
        ----------
        name : str
            Name of the release, for the record.
        value : array-like of shape (n,) or (n, k)
            The private statistic; a number counts as a vector of one entry.
        sensitivity : float
            Largest change of `value` between neighboring datasets. The change of a vector is the
            sum of the absolute changes of its entries; the change of a matrix is the sum of the
            Euclidean norms of the changes of its rows.
        share : float
            Share of epsilon that is spent, or of the square of mu if delta is not 0.

        Returns
        -------
        Released
            The noisy statistic, in the shape of `value`, and the standard deviation of its noise.

        Raises
        ------
        BudgetError
            If `release` would raise it.
        ValueError
            If `value` has more than two dimensions.
        """
        return self.release(self._named(name, "laplace", share), value, sensitivity)

    def spherical(self, name: str, value: Any, *, sensitivity: float, share: float) -> Released:
        r"""Release `value` with one draw of spherical noise: pure differential privacy.

        The noise G has a joint density proportional to :math:`\exp(-\epsilon_0 \|G\|_F / \Delta)`.

        Parameters
        ----------
        name : str
            Name of the release, for the record.
        value : array-like
            The private statistic.
        sensitivity : float
            Largest Euclidean (Frobenius) change of `value` between neighboring datasets.
        share : float
            Share of epsilon that is spent, or of the square of mu if delta is not 0.

        Returns
        -------
        Released
            The noisy statistic, in the shape of `value`, and the standard deviation of its noise.

        Raises
        ------
        BudgetError
            If `release` would raise it.
        """
        return self.release(self._named(name, "spherical", share), value, sensitivity)

    def exponential(self, name: str, losses: Any, *, sensitivity: float, share: float) -> int:
        r"""Choose one of several public options; a smaller loss makes an option likelier.

        Option j, of loss :math:`S_j`, is chosen with a probability proportional to
        :math:`\exp(-S_j / \beta)`. Let R be the sensitivity and :math:`\eta = R / \beta`. The
        choice is :math:`\eta`-DP, and mu-GDP if, and only if,
        :math:`\mu \ge 2 \Phi^{-1}(1 / (1 + e^{-\eta/2}))`. So the accounting is exact.

        Parameters
        ----------
        name : str
            Name of the release, for the record.
        losses : array-like of shape (n_options,)
            The private losses.
        sensitivity : float
            Largest change, between neighboring datasets, of the difference of two losses.
        share : float
            Share of the square of mu, or of epsilon if delta is 0, that is spent.

        Returns
        -------
        int
            Index of the chosen option; if `epsilon` is infinite, the option of the smallest loss.

        Raises
        ------
        BudgetError
            If `release` would raise it.
        ValueError
            If the losses are not finite numbers in one dimension; nothing has been spent then.
        """
        return self.choose(self._named(name, "exponential", share), losses, sensitivity)

    def histogram(
        self, name: str, values: np.ndarray, *, edges: np.ndarray, share: float
    ) -> Released:
        """Release a histogram: how many values lie in each bin between public `edges`.

        Parameters
        ----------
        name : str
            Name of the release, for the record.
        values : ndarray of shape (n,)
            One value for each unit; the NaN of a null unit is counted nowhere.
        edges : ndarray of shape (n_bins,)
            Ascending upper edges of the bins; larger values fall into the last bin.
        share : float
            Share of the square of mu that is spent.

        Returns
        -------
        Released
            Noisy counts of shape (n_bins,), and the standard deviation of their noise.

        Raises
        ------
        BudgetError
            If `release` would raise it.
        """
        release = self._named(name, "gaussian", share)
        counts = bin_counts(values, np.asarray(edges, dtype=np.float64))
        return self.release(release, counts, sensitivity.histogram(self.adjacency))

    def _named(self, name: str, mechanism: str, share: float) -> Release:
        """Declare a release whose sensitivity is passed with its value; check the mechanism."""
        self.cost.check(mechanism)
        return Release(name, mechanism, float(share), sensitivity_of=float)

    def _start(
        self, release: Release, shape: tuple[int, ...], unit: float, correlation: PrefixNoise
    ) -> InitialNoiseSums:
        """Make the noisy sums of a stream; subclasses that record releases override this."""
        return InitialNoiseSums(release, shape, unit, correlation)

    def _book(self, planned: Release, line: Release, shape: tuple[int, ...]) -> Release:
        """Check and charge a planned release; add `line` with its noise std to the record."""
        nodes, mechanism, change = self._nodes, line.mechanism, line.sensitivity or 0.0
        if nodes is None:
            self._check_share(planned.name, planned.share)
        else:
            nodes = nodes_behind(nodes, planned)
        self.cost.check_size(line.name, mechanism, line.share, shape)
        n_joint = joint_entries(mechanism, shape)
        noise_std = self.cost.noise_std(mechanism, change, line.share, n_joint)
        # A subnormal noise std has fewer digits, and might be too small.
        smallest = sys.float_info.min if self.cost.is_private else 0.0
        if not (change > 0 and smallest <= noise_std < math.inf):
            raise BudgetError(
                f"Release {line.name!r} has sensitivity {change!r}, which asks for noise of "
                f"standard deviation {noise_std!r}; both must be positive and fit into a float."
            )
        self._pay()
        # Nodes change last, so that a refused release leaves the budget as it was.
        self._nodes = nodes
        booked = replace(line, noise_std=noise_std)
        self._releases.append(booked)
        return booked

    def _pay(self) -> None:
        """Charge the whole plan before the first release, even if later releases are skipped."""
        if self._charge is not None:
            self._charge(self._full_record)
            self._charge = None

    def _check_share(self, name: str, share: float) -> None:
        """Refuse a share that exceeds the rest of the budget."""
        spent = [release.share for release in self._releases]
        if not share > 0 or math.fsum([share, *spent]) > 1 + SHARE_TOLERANCE:
            raise BudgetError(
                f"Release {name!r} asks for a share of {share!r}; the shares must be positive and "
                f"add to at most 1, and {1 - math.fsum(spent):.3g} is left."
            )

    def _publish(self, release: Release, value: np.ndarray) -> np.ndarray:
        """Return the noisy value of a booked release or, for losses, the index of the choice."""
        if not self.cost.is_private:
            return np.array(np.argmin(value)) if release.mechanism == CHOICE else value
        mechanism, noise_std = release.mechanism, release.noise_std or 0.0
        # If the releases of two values had the same noise, their difference would have none. So the
        # key of the noise depends on all bits of the value, and a seed repeats a fit only where all
        # sums round alike.
        number = len(self._releases)
        key = self._noise_source.key(number, release.name, mechanism, noise_std, value)
        return with_noise(value, mechanism, noise_std, key)
