"""Copies of the toy family that leak, each in another way: every law has to notice its own."""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from toy import ClippedMean, MeanSpec, count_long, plan_mean, release_mean, way_for

from skdp.exceptions import warn_of_privacy
from skdp.privacy import PrivacyBudget
from skdp.privacy.noise import NoiseSource, draw_seed
from skdp.privacy.plan import AnyOf


@dataclass(frozen=True)
class TooSmall(MeanSpec):
    """Half of what a row can do."""

    def change(self, rounding):
        return 0.5 * super().change(rounding)


class WrongSensitivity(ClippedMean):
    """Declares half of what a row can do."""

    def _spec_of(self, *shape):
        return TooSmall(**vars(super()._spec_of(*shape)))


class LeakedAttribute(ClippedMean):
    """Sets a statistic that was not released."""

    def fit(self, X, y=None):
        super().fit(X)
        self.total_ = float(X.sum())
        return self


class LeakedBranch(ClippedMean):
    """Turns the mean round where many rows are long."""

    def _solve(self, spec, plan, rows, *others):
        mean = super()._solve(spec, plan, rows, *others)
        return -mean if np.median(rows.norms()) > spec.row_norm else mean


class KeptRow(ClippedMean):
    """Remembers a row that it was fitted to."""

    def _validate(self, X, y):
        self._first = X[:1].copy()
        return super()._validate(X, y)


class KeptByTheClass(ClippedMean):
    """Remembers data where no pickle looks."""

    def _validate(self, X, y):
        type(self).last = X
        return super()._validate(X, y)


class BranchesOnTheHuge(ClippedMean):
    """Does something else if a row is huge."""

    def _solve(self, spec, plan, rows, *others):
        mean = super()._solve(spec, plan, rows, *others)
        return mean * (1 + (np.nanmax(rows.norms()) > 1e6))


class SpentTooLittle(ClippedMean):
    """Pays less than it takes."""

    def _plan(self, spec):
        return plan_mean(replace(spec, cost=replace(spec.cost, part=0.9)))


class WrongPlan(ClippedMean):
    """Announces another sensitivity than the one that counts."""

    def _plan(self, spec):
        plan = plan_mean(spec)
        mean, shortened = plan.branches.branches
        return plan._replace(
            branches=AnyOf((replace(mean, sensitivity=mean.sensitivity / 2), shortened))
        )


class RemembersTheLastFit(ClippedMean):
    """Averages with what another fit has released."""

    def _keep(self, spec, result, budget):
        return super()._keep(spec, (result + getattr(self, "mean_", result)) / 2, budget)


class TalksOfValues(ClippedMean):
    """Prints what it refuses."""

    def _validate(self, X, y):
        if not np.isfinite(X.sum()):
            raise ValueError(f"X contains NaN or infinity: {X!r}")
        return super()._validate(X, y)


class GlobalNoise(ClippedMean):
    """Takes its seed from numpy's global generator."""

    def _open(self, data, spec, plan):
        opened, _ = super()._open(data, spec, plan)
        noise = NoiseSource(int(np.random.randint(2**31)))  # noqa: NPY002
        return opened, PrivacyBudget.of(plan, noise)


class SharedNoise(ClippedMean):
    """Has the same noise for all data that come to the same value."""

    def _open(self, data, spec, plan):
        opened, _ = super()._open(data, spec, plan)
        return opened, PrivacyBudget.of(plan, NoiseSource(draw_seed(self.random_state)))


class WarnsOfValues(ClippedMean):
    """Tells that some number is large."""

    def _solve(self, spec, plan, rows, *others):
        if np.nanmax(rows.norms()) > 1e200:
            warnings.warn("X has large numbers", RuntimeWarning, stacklevel=2)
        return super()._solve(spec, plan, rows, *others)


class CountsTheNull(ClippedMean):
    """Lets a null unit take part."""

    def _solve(self, spec, plan, rows, *others):
        # As they were opened: none of them is null yet.
        return super()._solve(spec, plan, getattr(rows, "as_opened", rows), *others)


class ChoosesByTheData(ClippedMean):
    """Takes the way of an exact count, and releases a noisy one beside it."""

    def _solve(self, spec, plan, rows, budget):
        n_long = count_long(rows, spec.row_norm)
        budget.release(plan.long_rows, n_long)
        return release_mean(spec, way_for(plan, n_long, rows.n_rows), rows, budget)


class SavesWhatItSkips(ClippedMean):
    """Spends less where it releases less."""

    def _solve(self, spec, plan, rows, budget):
        budget.skip = lambda *releases: None
        return super()._solve(spec, plan, rows, budget)


class SpendsTheTail(ClippedMean):
    """Plans with the part of delta that it has set aside."""

    def _plan(self, spec):
        return plan_mean(replace(spec, cost=replace(spec.cost, delta_tail=0.0, mu=None)))


class QuotesData(ClippedMean):
    """Tells in a warning how long rows are."""

    def _solve(self, spec, plan, rows, *others):
        warn_of_privacy(f"Rows have a length of {np.median(rows.norms())}.")
        return super()._solve(spec, plan, rows, *others)


class TrustsWhatIsStored(ClippedMean):
    """Takes the number of stored entries for a public fact."""

    def _solve(self, spec, plan, rows, *others):
        return super()._solve(spec, plan, rows, *others) / rows.source.X.nnz


class KeepsWhatItTransforms(ClippedMean):
    """Remembers the rows that it was shown last."""

    def transform(self, X):
        self._last = X
        return super().transform(X)


class ComparesWhatItTransforms(ClippedMean):
    """Makes of a row what other rows beside it say."""

    def transform(self, X):
        scores = super().transform(X)
        return scores - scores.mean(axis=0)


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
    "way": ChoosesByTheData,
    "skip": SavesWhatItSkips,
    "tail": SpendsTheTail,
    "quoted": QuotesData,
    "stored": TrustsWhatIsStored,
    "transformed": KeepsWhatItTransforms,
    "compared": ComparesWhatItTransforms,
}
for leak in LEAKS.values():
    # What is not documented is a fault of its own.
    leak.__doc__ = ClippedMean.__doc__
