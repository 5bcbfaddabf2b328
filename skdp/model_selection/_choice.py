r"""The private choice among candidates that are judged on the same rows.

Only the differences between candidates matter, so that no bound of the losses is needed: the losses
of a row, less their median, are clipped to half of C on both sides. Whatever they are, the row then
moves the difference between two candidates by at most C, and its exchange by 2 C. C is a private
quantile of the ranges of the rows' losses. Losses that are 0 or 1 are summed as they are.
"""

import numpy as np

from skdp.privacy import Plan, PlannedRelease, PrivacyBudget, sensitivity
from skdp.privacy.plan import make_plan, planned_search
from skdp.privacy.quantile import SCALE_GRID

__all__ = ["choose", "in_steps", "plan_choice", "quantile_of", "regrets", "release_level"]

_RANGE, _CHOICE = "range of losses", "candidate"
# Part of the choice's share for that search.
_RANGE_SHARE = 0.1  # not studied
# The quantile that is sought, and less of it with few rows: a count of all rows stays above it.
_MOST, _LEAST, _COUNT_MARGIN = 0.75, 0.5, 4.0  # not studied
# What regrets are rounded to, as a part of C. Their sums are then exact, and one row moves them by
# no more than its own.
_STEP = 2.0**-20  # not tuned
# Where losses are small because they are all the same, nothing is wrong.
_OTHER_UNITS = (
    "If that is for their units only, take others for y, or a callable scoring that has others."
)


def plan_choice(
    n_candidates: int,
    *,
    epsilon: float,
    delta: float,
    unit: str,
    adjacency: str,
    is_bounded: bool,
) -> Plan:
    """Plan the choice, and the search of what losses are clipped to.

    Parameters
    ----------
    n_candidates : int
        How many there are.
    epsilon, delta : float
        The guarantee of the choice.
    unit : str
        What is protected.
    adjacency : {"replace", "zero_out"}
        How neighbouring datasets differ.
    is_bounded : bool
        Whether every loss is 0 or 1.

    Returns
    -------
    Plan
        Its releases.
    """
    share = 0.0 if is_bounded else _RANGE_SHARE
    search = [] if is_bounded else planned_search(_RANGE, share, len(SCALE_GRID))
    change = sensitivity.loss_range(1.0, adjacency)
    choice = PlannedRelease(_CHOICE, "exponential", 1 - share, change, shape=(n_candidates,))
    return make_plan(
        [*search, choice], epsilon=epsilon, delta=delta, unit=unit, adjacency=adjacency
    )


def choose(losses: np.ndarray, budget: PrivacyBudget, *, is_bounded: bool) -> int:
    """Choose a candidate, the likelier the smaller its sum of losses.

    Parameters
    ----------
    losses : ndarray of shape (n_rows, n_candidates)
        Losses of the rows, finite.
    budget : PrivacyBudget
        That of `plan_choice`.
    is_bounded : bool
        Whether every loss is 0 or 1: it is clipped to what lies between.

    Returns
    -------
    int
        Number of a candidate.
    """
    if is_bounded:
        losses = np.clip(losses, 0.0, 1.0)
    else:
        level = release_level(_RANGE, np.ptp(losses, axis=1), budget, most=_MOST)
        losses = regrets(losses, level)
    change = sensitivity.loss_range(1.0, budget.adjacency)
    return budget.exponential(_CHOICE, losses.sum(axis=0), sensitivity=change)


def regrets(losses: np.ndarray, level: float) -> np.ndarray:
    """Clip the losses of each row around their median, in units of `level`.

    Parameters
    ----------
    losses : ndarray of shape (n_rows, n_candidates)
        Losses of the rows, finite.
    level : float
        How far the losses of a row may differ.

    Returns
    -------
    ndarray of shape (n_rows, n_candidates)
        From -1/2 to 1/2, in multiples of a power of two.
    """
    around = losses - np.median(losses, axis=1, keepdims=True)
    return in_steps(np.clip(around / level, -0.5, 0.5))


def release_level(name: str, values: np.ndarray, budget: PrivacyBudget, *, most: float) -> float:
    """Release a quantile of values, `most` or a lower one with few rows, but the median at least.

    Parameters
    ----------
    name : str
        Name of the release.
    values : ndarray of shape (n_rows,)
        One value a row.
    budget : PrivacyBudget
        Its plan begins with this search.
    most : float
        The quantile.

    Returns
    -------
    float
        The level.
    """
    assert budget.plan is not None
    q = max(_LEAST, quantile_of(budget.plan, len(values), most=most))
    return budget.quantile(name, values, q=q, grid=SCALE_GRID, remedy=_OTHER_UNITS)


def quantile_of(plan: Plan, n_rows: int, *, most: float) -> float:
    """Return the largest quantile that the counts of a search can tell, `most` at most.

    Parameters
    ----------
    plan : Plan
        It begins with the search.
    n_rows : int
        Number of rows.
    most : float
        The quantile that is wanted.

    Returns
    -------
    float
        The quantile; not positive if noise hides all of them.
    """
    return min(most, 1 - _COUNT_MARGIN * (plan.releases[0].noise_scale or 0.0) / n_rows)


def in_steps(values: np.ndarray) -> np.ndarray:
    """Round values of at most 1 in size to multiples of a power of two, whose sums are exact.

    Parameters
    ----------
    values : ndarray
        Values.

    Returns
    -------
    ndarray
        Rounded values, no further apart than before if they were apart by such a multiple.
    """
    return np.asarray(np.rint(values / _STEP) * _STEP)
