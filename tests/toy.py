"""A family as small as one can be, the mean of clipped rows, and copies of it that leak.

It shows what a new family has to bring, and whether the tests that every family takes would notice
a mistake.
"""

import warnings
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from harness import Group, null_row
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import validate_data

from skdp._estimator import N_JOBS, PrivateEstimator
from skdp._reading import check_rows
from skdp.data.digest import digest
from skdp.data.reduce import sum_rounding
from skdp.data.rows import Rows
from skdp.data.sources import as_source, block_starts
from skdp.privacy import PrivacyBudget, Release, sensitivity
from skdp.privacy.clipping import clip_weights
from skdp.privacy.cost import PrivacyCost
from skdp.privacy.noise import NoiseSource
from skdp.units._rows import ResolvedRow

N_ROWS, N_FEATURES = 30, 4


@dataclass(frozen=True)
class MeanProblem:
    """What is asked of a mean."""

    unit: ResolvedRow
    n_units: int
    n_features: int
    cost: PrivacyCost
    row_norm: float

    def sensitivity(self, rounding):
        """Return how far one row moves the mean."""
        return sensitivity.row_sum(self.row_norm, self.unit.adjacency, rounding) / self.n_units


class MeanReleases(NamedTuple):
    """What a mean releases."""

    mean: Release


def plan_mean(problem, share=1.0):
    """Plan the only release, with the whole budget."""
    starts = block_starts(problem.n_units, problem.n_features, is_sparse=False)
    known, shape = {"rounding": sum_rounding(starts, problem.n_features)}, (problem.n_features,)
    change = problem.sensitivity
    return MeanReleases(problem.cost.release("mean", "gaussian", share, change, known, shape=shape))


def solve_mean(problem, plan, rows, budget):
    """Release the mean of clipped rows."""
    total, rounding = clipped(rows, problem.row_norm).total()
    return budget.release(plan.mean, total / rows.n_rows, rounding).value


def clipped(rows, bound):
    """Clip rows to a norm."""
    return rows.clipped(bound, partial(clip_weights, bound=bound, n_features=rows.n_features))


class ClippedMean(PrivateEstimator):
    """Mean of rows, clipped in norm.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Released mean.
    n_features_in_ : int
        Number of features.
    privacy_spent_ : PrivacySpent
        What has been spent.
    """

    _parameter_constraints = {  # noqa: RUF012
        **PrivateEstimator._parameter_constraints,
        **N_JOBS,
        "row_norm": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        *,
        epsilon=1.0,
        delta=1e-6,
        adjacency="replace",
        row_norm=1.0,
        ledger=None,
        n_jobs=None,
        random_state=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.adjacency = adjacency
        self.row_norm = row_norm
        self.ledger = ledger
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        self._fit(X)
        return self

    def _problem(self, X, y):
        checked = check_rows(X, type(self).__name__)
        validate_data(self, checked, skip_check_array=True)
        source = as_source(checked)
        return self._problem_of(*checked.shape), (Rows(source, self.n_jobs), lambda: digest(source))

    def _problem_like(self, n_samples, n_features, like):
        return self._problem_of(n_samples, n_features)

    def _problem_of(self, n_rows, n_features):
        unit = ResolvedRow(self.adjacency)
        return self._asked(MeanProblem, unit=unit, n_units=n_rows, n_features=n_features)

    def _plan(self, problem):
        return plan_mean(problem)

    def _solve(self, problem, plan, rows, budget, generator):
        return solve_mean(problem, plan, rows, budget)

    def _set_attributes(self, result, problem):
        self.mean_ = result
        return ()


# Copies that leak, each in another way


@dataclass(frozen=True)
class TooSmall(MeanProblem):
    """The sensitivity of a row that is lost, whatever the adjacency."""

    def sensitivity(self, rounding):
        return 0.5 * super().sensitivity(rounding)


class WrongSensitivity(ClippedMean):
    """Declares half of what a row can do."""

    def _problem_of(self, *shape):
        return TooSmall(**vars(super()._problem_of(*shape)))


class LeakedAttribute(ClippedMean):
    """Sets a statistic that was not released."""

    def _problem(self, X, y):
        self.spread_ = float(np.std(X))
        return super()._problem(X, y)


class LeakedBranch(ClippedMean):
    """Turns the mean round where many rows are long."""

    def _solve(self, problem, plan, rows, *others):
        mean = super()._solve(problem, plan, rows, *others)
        return -mean if np.median(rows.norms()) > problem.row_norm else mean


class KeptRow(ClippedMean):
    """Remembers a row that it was fitted to."""

    def _problem(self, X, y):
        self._first = np.array(X[0])
        return super()._problem(X, y)


class KeptByTheClass(ClippedMean):
    """Remembers data where no pickle looks."""

    def _problem(self, X, y):
        type(self).last = X
        return super()._problem(X, y)


class BranchesOnTheHuge(ClippedMean):
    """Does something else if a row is huge."""

    def _solve(self, problem, plan, rows, *others):
        mean = super()._solve(problem, plan, rows, *others)
        return mean * (1 + (np.nanmax(rows.norms()) > 1e6))


class SpentTooLittle(ClippedMean):
    """Pays less than it takes."""

    def _plan(self, problem):
        return plan_mean(problem, share=0.9)


class WrongPlan(ClippedMean):
    """Announces another sensitivity than the one that counts."""

    def _plan(self, problem):
        return MeanReleases(replace(plan_mean(problem).mean, sensitivity=0.5))


class RemembersTheLastFit(ClippedMean):
    """Averages with what another fit has released."""

    def _set_attributes(self, result, problem):
        self.mean_ = (result + getattr(self, "mean_", result)) / 2
        return ()


class TalksOfValues(ClippedMean):
    """Prints what it refuses."""

    def _problem(self, X, y):
        if not np.isfinite(X).all():
            raise ValueError(f"X contains NaN or infinity: {X!r}")
        return super()._problem(X, y)


class GlobalNoise(ClippedMean):
    """Takes its seed from numpy's global generator."""

    def _open(self, data, problem, plan):
        opened, _, generator = super()._open(data, problem, plan)
        noise = NoiseSource(int(np.random.randint(2**31)))  # noqa: NPY002
        return opened, PrivacyBudget.of(plan, noise), generator


class SharedNoise(ClippedMean):
    """Has the same noise for all data that come to the same value."""

    def _noise_source(self, seed, digest):
        return NoiseSource(seed)


class WarnsOfValues(ClippedMean):
    """Tells that some number is large."""

    def _solve(self, problem, plan, rows, *others):
        if np.nanmax(rows.norms()) > 1e200:
            warnings.warn("X has large numbers", RuntimeWarning, stacklevel=2)
        return super()._solve(problem, plan, rows, *others)


class CountsTheNull(ClippedMean):
    """Lets a null unit take part."""

    def _solve(self, problem, plan, rows, *others):
        # As they were opened: none of them is null yet.
        return super()._solve(problem, plan, getattr(rows, "as_opened", rows), *others)


LEAKS: dict[str, Any] = {
    "sensitivity": WrongSensitivity,
    "attribute": LeakedAttribute,
    "branch": LeakedBranch,
    "kept row": KeptRow,
    "class": KeptByTheClass,
    "huge": BranchesOnTheHuge,
    "share": SpentTooLittle,
    "plan": WrongPlan,
    "last fit": RemembersTheLastFit,
    "error": TalksOfValues,
    "global noise": GlobalNoise,
    "shared noise": SharedNoise,
    "warning": WarnsOfValues,
    "null": CountsTheNull,
}
for leak in LEAKS.values():
    # What is not documented is a fault of its own.
    leak.__doc__ = ClippedMean.__doc__


@dataclass(frozen=True)
class Cell:
    """One way to ask for a mean."""

    adjacency: str
    make: type = ClippedMean

    def __call__(self, **more):
        return self.make(**{"adjacency": self.adjacency, **more})

    def __str__(self):
        return self.adjacency


CELLS = (Cell("replace"), Cell("zero_out"))


def datasets(cell):
    """Short rows, which are not clipped."""
    return {"short": 0.3 * np.random.default_rng(0).normal(size=(N_ROWS, N_FEATURES))}


def strange_datasets(cell):
    """Finite numbers that are far from ordinary."""
    ones = np.ones((N_ROWS, N_FEATURES))
    return {"zeros": 0 * ones, "huge": 1e300 * ones, "denormal": 5e-324 * ones}


def groups(cell, X):
    """Rows in the place of the first one: long, opposite, of any scale."""
    direction = np.ones(N_FEATURES)
    found = []
    for size in (0.0, 1.0, -1.0, 1e9, 2e9, -1e300, 5e-324):
        neighbor = X.copy()
        neighbor[0] = size * direction
        found.append((neighbor,))
    if cell.adjacency == "replace":
        return [Group(found)]
    return [Group(found, origin=(X,), make_null=lambda: null_row(0))]
