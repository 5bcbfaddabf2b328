"""A family as small as one can be: a mean of rows that are clipped in norm.

It shows what a new family has to bring: a plan with ways, a release whose sensitivity follows a
released value and that may be skipped, a tail of delta, warnings, sparse rows and `transform`.
`toy_leaks.py` has copies of it that leak.
"""

from dataclasses import dataclass
from functools import partial
from itertools import product, starmap
from numbers import Real
from typing import NamedTuple

import numpy as np
from harness import NamedCell, group, null_row, strange_numbers
from scipy.sparse import csr_array, issparse
from scipy.special import ndtri
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from skdp._estimator import PrivateEstimator
from skdp._validation import check_features, check_rows, check_rows_of
from skdp.data.reduce import rounding_of_depth, sum_depth
from skdp.data.rows import Rows
from skdp.data.sources import as_source, block_starts, digest, holds_sparse
from skdp.privacy import Release, sensitivity
from skdp.privacy.clipping import clip_weights
from skdp.privacy.noise import lattice_step
from skdp.privacy.plan import AnyOf, PrivacyCost
from skdp.units import ResolvedRow

N_ROWS, N_FEATURES = 120, 4
# Part of delta for a length that is taken for more than it is.
TAIL = 0.1


@dataclass(frozen=True)
class MeanSpec:
    """What is asked of a mean."""

    unit: ResolvedRow
    n_units: int
    n_features: int
    is_sparse: bool
    cost: PrivacyCost
    row_norm: float

    def change(self, rounding):
        """Return how far one row moves the mean, and its length."""
        return sensitivity.row_sum(self.row_norm, self.unit.adjacency, rounding) / self.n_units

    def turn(self, certain, rounding):
        """Return how far one row turns a mean that is at least `certain` long.

        The directions of u and v differ by at most 2 |u - v| / (|u| + |v|).
        """
        change = self.change(rounding)
        return 2 * change / (2 * certain - change)


# The plan: of real families it has a module of its own, as the solver has


class Shortened(NamedTuple):
    """What is released of a mean whose length is that of the bound."""

    length: Release
    direction: Release


class MeanReleases(NamedTuple):
    """What a fit releases, in this order."""

    long_rows: Release
    branches: AnyOf  # the mean; of rows most of which are shortened, a `Shortened`


def plan_mean(spec):
    """Plan all releases, from public facts."""
    release, shape = spec.cost.release, (spec.n_features,)
    starts = block_starts(spec.n_units, spec.n_features, is_sparse=spec.is_sparse)
    known = {"rounding": rounding_of_depth(sum_depth(starts, spec.n_features), int(starts[-1]))}
    change = spec.change
    turned = {"follows": "mean length", "shape": shape, "may_be_skipped": True}
    return MeanReleases(
        release("long rows", "gaussian", 0.3, sensitivity.count, {}),
        AnyOf(
            (
                release("mean", "gaussian", 0.7, change, known, shape=shape),
                Shortened(
                    release("mean length", "gaussian", 0.1, change, known),
                    release("mean direction", "gaussian", 0.6, spec.turn, **turned),
                ),
            )
        ),
    )


# The solver


def solve_mean(spec, plan, rows, budget):
    """Count the rows that are too long, and release the mean in the way that is for them."""
    n_long, _ = budget.release(plan.long_rows, count_long(rows, spec.row_norm))
    return release_mean(spec, way_for(plan, n_long, rows.n_rows), rows, budget)


def way_for(plan, n_long, n_rows):
    """Choose the way, by a released number."""
    usual, shortened = plan.branches.branches
    return shortened if n_long > n_rows / 2 else usual


def release_mean(spec, way, rows, budget):
    """Release the mean as a whole, or length and direction; 0 where the latter is uncertain.

    Propose, test, release: what the length is at least fails with the probability of the tail.
    """
    total, rounding = clipped(rows, spec.row_norm).total()
    mean = total / rows.n_rows
    if isinstance(way, Release):
        return budget.release(way, mean, rounding).value
    length = np.linalg.norm(mean)
    noisy, noise_std = budget.release(way.length, length, rounding)
    certain = certain_part(float(noisy), noise_std, budget.cost.delta_tail)
    if certain <= spec.change(rounding):
        budget.skip(way.direction)
        return np.zeros_like(mean)
    direction = mean / length if length else mean
    return noisy * budget.release(way.direction, direction, certain, rounding).value


def certain_part(released, noise_std, failure):
    """Bound the value behind a release from below, except with probability at most `failure`.

    The release is lowered by the quantile of Gaussian noise, and by one step of the lattice, since
    rounding raises a release by up to half a step.
    """
    if noise_std == 0:
        return released
    return released + noise_std * float(ndtri(failure)) - lattice_step(noise_std)


def count_long(rows, bound):
    """Count the rows that exceed a norm; those that are null have none."""
    return np.count_nonzero(rows.norms() > bound)


def clipped(rows, bound):
    """Clip rows to a norm."""
    return rows.clipped(bound, partial(clip_weights, bound=bound, n_features=rows.n_features))


# The shell


class ClippedMean(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):
    """Mean of rows, clipped in norm.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Released mean.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, if X has such that are strings.
    privacy_spent_ : PrivacySpent
        What has been spent.
    """

    _parameter_constraints = {  # noqa: RUF012
        **PrivateEstimator._parameter_constraints,
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

    def transform(self, X):
        """Multiply rows by the mean: not covered by the guarantee."""
        check_is_fitted(self)
        return check_rows_of(X, self) @ self.mean_[:, np.newaxis]

    def _validate(self, X, y):
        checked = check_rows(X, type(self).__name__)
        check_features(X, self, reset=True)
        source = as_source(checked)
        spec = self._spec_of(*checked.shape, issparse(checked))
        return spec, (Rows(source, self.n_jobs), lambda: digest(source))

    def _spec_like(self, n_samples, n_features, like):
        return self._spec_of(n_samples, n_features, holds_sparse(like))

    def _spec_of(self, n_rows, n_features, is_sparse):
        facts = {"n_units": n_rows, "n_features": n_features, "is_sparse": is_sparse}
        return self._asked(MeanSpec, unit=ResolvedRow(self.adjacency), **facts)

    def _reserved_part(self):
        return TAIL

    def _plan(self, spec):
        return plan_mean(spec)

    def _warnings(self, spec, plan):
        usual, _ = plan.parts.branches.branches
        if usual.noise_std > spec.row_norm:
            yield (
                f"With epsilon={spec.cost.epsilon} the noise exceeds row_norm="
                f"{spec.row_norm}. Use {spec.unit.remedy}."
            )

    def _solve(self, spec, plan, rows, budget):
        return solve_mean(spec, plan, rows, budget)

    def _set_attributes(self, result, spec):
        self.mean_ = result
        if not result.any():
            yield f"The mean is lost in the noise, and set to 0. Use {spec.unit.remedy}."

    @property
    def _n_features_out(self):
        # 1, and not before a fit.
        return self.mean_.ndim

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


# What the laws are shown: a row in `families.py` names it


@dataclass(frozen=True)
class Cell(NamedCell):
    """One way to ask for a mean: of rows most of which are shortened, or few."""

    adjacency: str = "replace"
    row_norm: float = 2.0
    container: str = "dense"
    make: type = ClippedMean

    def __call__(self, **more):
        # Noise has to leave something that can be attacked.
        given = {"adjacency": self.adjacency, "row_norm": self.row_norm, "epsilon": 100.0}
        return self.make(**{**given, **more})

    def contain(self, X):
        """Put dense rows into a container."""
        return X if self.container == "dense" else csr_array(X)


CELLS = tuple(starmap(Cell, product(("replace", "zero_out"), (2.0, 0.1), ("dense", "csr"))))


def datasets(cell):
    """Rows that are near each other."""
    rows = np.random.default_rng(0).normal(0.1, 0.3, size=(N_ROWS, N_FEATURES))
    return {"near": cell.contain(rows)}


def strange(cell):
    """Finite numbers that are far from ordinary."""
    found = strange_numbers((N_ROWS, N_FEATURES))
    return {name: cell.contain(found[name]) for name in ("zeros", "huge", "denormal")}


def strangers(cell, X):
    """Rows that have nothing but their number in common with X."""
    return [(cell.contain(np.zeros(X.shape)),), (cell.contain(1e4 - 3 * dense(X)[::-1, ::-1]),)]


def groups(cell, X):
    """Rows in the place of the first one: long, opposite, across, of any scale."""
    ones, across = np.ones(N_FEATURES), np.array([1.0, -1.0, 0.0, 0.0])
    found = []
    for row in (0 * ones, ones, -ones, 1e9 * ones, -1e300 * ones, 5e-324 * ones, across, -across):
        neighbor = dense(X)
        neighbor[0] = row
        found.append((cell.contain(neighbor),))
    return [group(cell, found, (X,), lambda: null_row(0))]


def dense(X):
    """Copy rows out of their container."""
    return X.toarray() if issparse(X) else X.copy()
