"""A release: one noisy statistic, declared by a plan, handed to a solver, and kept in a record."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from skdp.exceptions import BudgetError
from skdp.privacy.quantile import search_steps

__all__ = ["Release", "Released", "Search", "group_name", "search_name", "summaries"]


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
        Largest change of the noiseless value between neighboring datasets, in its own units; of a
        choice, of the difference of two losses. In a plan None if something that is released before
        decides.
    noise_std : float or None, default=None
        Standard deviation of the noise in an entry, in the same units; None with the sensitivity.
    follows : str, default=""
        In a plan, what the sensitivity follows if it is None.
    shape : tuple of int, default=()
        In a plan, the shape of what is released.
    may_be_skipped : bool, default=False
        In a plan, whether released values may end the fit before: the share is spent all the same.
    sensitivity_of : callable or None, default=None
        In a plan, what computes the sensitivity from facts that are public or released by then.

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
            What it follows; none where the plan knows it.
        **more : object
            The same, by name.

        Returns
        -------
        float
            Largest change of the noiseless value.
        """
        if self.sensitivity is not None and not facts and not more:
            return self.sensitivity
        if self.sensitivity_of is None:
            raise BudgetError(f"Release {self.name!r} has no sensitivity.")
        return float(self.sensitivity_of(*facts, **more))


@dataclass(frozen=True)
class Search(Release):
    """Noisy counts of a binary search over a public grid, which have equal parts of the share."""

    grid: np.ndarray = field(default_factory=lambda: np.zeros(0), compare=False, repr=False)
    # What to do where a point at an end of the grid is found; None where it is like any other.
    remedy: str | None = None

    def lines(self) -> tuple[Release, ...]:
        """Return the counts."""
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
    """What the budget answers with.

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
    """Give the name of each release or search, and its numbers, as far as they are known."""
    return [_summary(list(group)) for _, group in groupby(releases, _alike)]


def group_name(names: Sequence[str]) -> str:
    """Name the counts of one search together; a single release has its own name."""
    return names[0] if len(names) == 1 else f"{search_name(names[0])}, {len(names)} times"


def search_name(name: str) -> str:
    """Return the name of the search that a count belongs to; another release keeps its name."""
    return name.partition(", count")[0]


def _alike(release: Release) -> tuple[str, float | None, float | None, str]:
    """Tell the counts of one search from other releases."""
    return search_name(release.name), release.sensitivity, release.noise_std, release.follows


def _summary(releases: list[Release]) -> tuple[str, str]:
    first, share = releases[0], math.fsum(release.share for release in releases)
    name = group_name([release.name for release in releases])
    if first.sensitivity is None:
        return name, f"{share:>8.4f}  follows {first.follows}"
    return name, f"{share:>8.4f}{first.sensitivity:>13.4g}{first.noise_std:>13.4g}"
