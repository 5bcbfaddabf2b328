"""Releases: noisy statistics, declared in a plan, made by a solver and kept in a record."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from skdp.exceptions import BudgetError
from skdp.privacy.quantile import search_steps

__all__ = ["Release", "Released", "Search", "summaries"]

# Standard deviations of a count by which a quantile is kept below 1.
_COUNT_MARGIN = 4.0  # not studied


@dataclass(frozen=True)
class Release:  # numpydoc ignore=PR02
    """One noisy statistic, planned or released.

    Parameters
    ----------
    name : str
        What is released.
    mechanism : str
        ``"gaussian"``, ``"symmetric_gaussian"``, ``"laplace"``, ``"spherical"`` or
        ``"exponential"``.
    share : float
        Share of the square of the total mu; of epsilon, if delta is 0.
    sensitivity : float or None, default=None
        Largest change of the noiseless value between neighboring datasets, in the units of that
        value; for ``"exponential"``, of the difference of two losses. In a plan it is None if it
        depends on an earlier release.
    noise_std : float or None, default=None
        Standard deviation of the noise in an entry, in the same units; None if `sensitivity` is.
    follows : str, default=""
        In a plan, what the sensitivity depends on if it is None.
    shape : tuple of int, default=()
        In a plan, the shape of what is released.
    may_be_skipped : bool, default=False
        In a plan, whether earlier releases may rule this one out. The share is spent all the same.
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

    def change(self, *facts: Any, **more: Any) -> float:
        """Compute the sensitivity.

        Parameters
        ----------
        *facts : object
            Public or released facts that it depends on; none if the plan states the sensitivity.
        **more : object
            Such facts, by name.

        Returns
        -------
        float
            Largest change of the noiseless value.

        Raises
        ------
        BudgetError
            If the release was declared without a sensitivity, or with a larger one than this.
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

    def check_mechanism(self, mechanism: str) -> None:
        """Refuse another mechanism.

        Parameters
        ----------
        mechanism : str
            The only mechanism that is accepted.

        Raises
        ------
        BudgetError
            If the release has another.
        """
        if self.mechanism != mechanism:
            raise BudgetError(
                f"Release {self.name!r} must have the mechanism {mechanism!r}, got "
                f"{self.mechanism!r}."
            )


@dataclass(frozen=True)
class Search(Release):  # numpydoc ignore=PR02
    """A binary search over a public grid: noisy counts that split the share equally.

    Parameters
    ----------
    name, mechanism : str
        What is searched for, and how the counts are released.
    share : float
        Share of all counts together.
    sensitivity, noise_std : float or None, default=None
        Those of each count.
    follows : str, default=""
        Not used.
    shape : tuple of int, default=()
        Shape of the counts of one step.
    may_be_skipped : bool, default=False
        Not used.
    sensitivity_of : callable or None, default=None
        Not used.
    grid : ndarray of shape (n_points,)
        Ascending public numbers, one of which is found.
    remedy : str or None, default=None
        What a user should do if the search ends at an end of the grid; None for no warning.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.privacy import PrivacyCost
    >>> search = PrivacyCost(1.0, 1e-6).search("level", share=0.1, grid=np.arange(4.0))
    >>> [release.name for release in search.lines()]
    ['level, count 1', 'level, count 2']
    """

    grid: np.ndarray = field(default_factory=lambda: np.zeros(0), compare=False, repr=False)
    remedy: str | None = None

    def highest_quantile(self, n_rows: int, *, most: float = 1.0) -> float:
        """Return the highest quantile up to `most` that the noise of the counts leaves reliable.

        One wrong step of the search can end far from it.

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
        return min(most, 1 - _COUNT_MARGIN * (self.noise_std or 0.0) / n_rows)

    def lines(self) -> tuple[Release, ...]:
        """Return the counts, one release for each step.

        Returns
        -------
        tuple of Release
            As many as the search has steps.
        """
        n_steps = search_steps(len(self.grid))
        return tuple(
            Release(
                f"{self.name}, count {step}",
                self.mechanism,
                self.share / n_steps,
                self.sensitivity,
                self.noise_std,
                shape=self.shape,
            )
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


def summaries(releases: Iterable[Release]) -> list[tuple[str, str]]:
    """Return the name of each release or search, and its numbers as far as they are known."""
    return [_summary(key[0], list(group)) for key, group in groupby(releases, _group_key)]


def _group_key(release: Release) -> tuple[str, float | None, float | None, str]:
    """Return what all counts of one search have in common, and what sets them apart."""
    name = release.name.partition(", count")[0]
    return name, release.sensitivity, release.noise_std, release.follows


def _summary(search: str, releases: list[Release]) -> tuple[str, str]:
    first, share = releases[0], math.fsum(release.share for release in releases)
    name = first.name if len(releases) == 1 else f"{search}, {len(releases)} times"
    if first.sensitivity is None:
        return name, f"{share:>8.4f}  follows {first.follows}"
    return name, f"{share:>8.4f}{first.sensitivity:>13.4g}{first.noise_std:>13.4g}"
