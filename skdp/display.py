"""Displays of public or released values, and noisy counts of scores to be drawn.

Displays work like those of scikit-learn and need matplotlib, the extra ``examples``.
"""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral
from typing import Any, Self

import numpy as np
from scipy.special import ndtri
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from skdp._validation import check_rows_of, refuse_blocks, validate_plain
from skdp.data.containers import checked_container
from skdp.data.people import checked_ids
from skdp.decomposition import DPPCA, DPTruncatedSVD
from skdp.exceptions import named, shown, warnings_together
from skdp.ledger import PrivacyLedger
from skdp.ledger._file import WHOLE
from skdp.linear_model._supervised import given_classes, known_codes
from skdp.model_selection import epsilon_curve
from skdp.model_selection._score import CONSTRAINTS, opened
from skdp.pipeline._composition import unit_of_rows
from skdp.pipeline._public_steps import of_people, transformed
from skdp.pipeline._rules import fitted_steps
from skdp.privacy import sensitivity
from skdp.privacy.plan import Plan, PrivacyCost
from skdp.privacy.releases import PrivacySpent, runs_of

__all__ = [
    "EpsilonCurveDisplay",
    "ExplainedVarianceDisplay",
    "PrivacyBudgetDisplay",
    "ScoreHistogram",
    "ScoreHistogramDisplay",
    "score_histogram",
]

_WIDTH, _HEIGHT_OF_BAR = 6.4, 0.3  # inches; not studied
_MUTED = "0.5"  # readable on white and on black


class _Display:
    """Base of displays that draw in one pair of axes."""

    def _open(self, ax: Any, height: float | None = None) -> Any:
        """Set and return `ax` or, without it, the axes of a new figure of this height in inches."""
        if ax is None:
            import matplotlib.pyplot as plt

            size = height and (_WIDTH, height)
            ax = plt.subplots(figsize=size, layout="constrained")[1]
        self.ax_, self.figure_ = ax, ax.figure
        return ax


@dataclass(eq=False, repr=False)
class EpsilonCurveDisplay(_Display):  # numpydoc ignore=PR02
    """Score against epsilon, as :func:`skdp.model_selection.epsilon_curve` estimates it.

    Make one with `from_estimator`. The line is the median over splits, the band the middle half.

    Parameters
    ----------
    epsilons : array-like of shape (n_epsilons,)
        Privacy budgets, positive and finite.
    scores : array-like of shape (n_epsilons, n_repeats)
        Scores at each epsilon.
    score_name : str, default="score"
        Label of the axis of scores.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the drawing.
    figure_ : matplotlib Figure
        The figure of the axes.
    line_ : matplotlib Line2D
        The medians.
    band_ : matplotlib PolyCollection
        From the first quartile to the third one.

    See Also
    --------
    skdp.model_selection.epsilon_curve : The scores themselves.

    Notes
    -----
    **Privacy.** Nothing is spent: the display shows scores of fits to public rows.

    Examples
    --------
    >>> from skdp.display import EpsilonCurveDisplay
    >>> scores = [[0.5, 0.6, 0.4], [0.8, 0.9, 0.8]]
    >>> EpsilonCurveDisplay([0.5, 1.0], scores).plot().line_.get_ydata().tolist()
    [0.5, 0.8]
    """

    epsilons: Any
    scores: Any
    _: KW_ONLY
    score_name: str = "score"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X_public: Any,
        y_public: Any = None,
        *,
        ax: Any = None,
        score_name: str = "score",
        **options: Any,
    ) -> "EpsilonCurveDisplay":
        """Estimate the scores from public rows, and draw them.

        Parameters
        ----------
        estimator : estimator
            The estimator as it will be fitted to private rows. It is not changed.
        X_public : array-like of shape (n_public, n_features)
            Public rows that resemble the private ones.
        y_public : array-like of shape (n_public,) or None, default=None
            Their responses.
        ax : matplotlib Axes or None, default=None
            Where to draw; None for a new figure.
        score_name : str, default="score"
            Label of the axis of scores.
        **options : dict
            Other arguments of :func:`skdp.model_selection.epsilon_curve`, of which `epsilons` and
            `n_samples` have no default.

        Returns
        -------
        EpsilonCurveDisplay
            The display, drawn.
        """
        curve = epsilon_curve(estimator, X_public, y_public, **options)
        return cls(curve.epsilons, curve.scores, score_name=score_name).plot(ax)

    def plot(self, ax: Any = None, **line_options: Any) -> "EpsilonCurveDisplay":
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None for a new figure.
        **line_options : dict
            Options of the line, such as ``color`` and ``label``.

        Returns
        -------
        EpsilonCurveDisplay
            The display itself.
        """
        low, median, high = np.quantile(self.scores, [0.25, 0.5, 0.75], axis=1)
        ax = self._open(ax)
        (self.line_,) = ax.plot(self.epsilons, median, **{"marker": "o", **line_options})
        color = self.line_.get_color()
        self.band_ = ax.fill_between(self.epsilons, low, high, color=color, alpha=0.2, linewidth=0)
        ax.set(xscale="log", xlabel="epsilon", ylabel=self.score_name)
        ax.set_xticks(self.epsilons, [f"{one:g}" for one in self.epsilons])
        ax.minorticks_off()
        return self


@dataclass(eq=False, repr=False)
class ExplainedVarianceDisplay(_Display):  # numpydoc ignore=PR02
    """Released variance of each component, and the mean variance in all other directions.

    Make one with `from_estimator`.

    Parameters
    ----------
    explained_variance : array-like of shape (n_components,)
        Released variances of the components.
    noise_variance : float or None, default=None
        Mean variance outside the components, noise included; None draws no line.
    std_error : array-like of shape (n_components,) or None, default=None
        Standard errors of the variances; None draws no error bars.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the drawing.
    figure_ : matplotlib Figure
        The figure of the axes.
    bars_ : matplotlib BarContainer
        One bar per component.
    floor_ : matplotlib Line2D or None
        The line of `noise_variance`.

    See Also
    --------
    skdp.DPPCA : Releases the variances.

    Notes
    -----
    **Privacy.** Nothing is spent: the display shows released values only.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdp import DPPCA
    >>> from skdp.display import ExplainedVarianceDisplay
    >>> pca = DPPCA(5, mean_norm=64, row_norm=40).fit(load_digits().data)
    >>> len(ExplainedVarianceDisplay.from_estimator(pca).bars_)
    5
    """

    explained_variance: Any
    _: KW_ONLY
    noise_variance: Any = None
    std_error: Any = None

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> "ExplainedVarianceDisplay":
        """Draw the spectrum of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            A fitted DPPCA or DPTruncatedSVD, or another estimator with `explained_variance_`; a
            pipeline that ends with one, or a search for one.
        ax : matplotlib Axes or None, default=None
            Where to draw; None for a new figure.

        Returns
        -------
        ExplainedVarianceDisplay
            The display, drawn.
        """
        check_is_fitted(estimator)
        *_, (_, last) = fitted_steps(estimator)
        if not hasattr(last, "explained_variance_"):
            raise TypeError(
                f"estimator must be or end with DPPCA or DPTruncatedSVD, got {type(last).__name__}."
            )
        return cls(
            last.explained_variance_,
            noise_variance=getattr(last, "noise_variance_", None),
            std_error=getattr(last, "explained_variance_std_error_", None),
        ).plot(ax)

    def plot(self, ax: Any = None, **bar_options: Any) -> "ExplainedVarianceDisplay":
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None for a new figure.
        **bar_options : dict
            Options of the bars, such as ``color``.

        Returns
        -------
        ExplainedVarianceDisplay
            The display itself.
        """
        variances = self.explained_variance
        ax = self._open(ax)
        numbers = np.arange(1, len(variances) + 1)
        self.bars_ = ax.bar(numbers, variances, yerr=self.std_error, **bar_options)
        self.floor_ = None
        if self.noise_variance is not None:
            label = "mean variance outside the components"
            self.floor_ = ax.axhline(self.noise_variance, color=_MUTED, ls="--", label=label)
            ax.legend(frameon=False)
        ax.set(xlabel="component", ylabel="released variance")
        ax.xaxis.get_major_locator().set_params(integer=True)
        return self


@dataclass(eq=False, repr=False)
class PrivacyBudgetDisplay(_Display):  # numpydoc ignore=PR02
    """Shares of a budget: of the releases of a fit, or of the fits that were charged to a ledger.

    Make one with `from_plan` or `from_ledger`.

    Parameters
    ----------
    names : sequence of str
        Names of the releases or fits.
    shares : array-like of shape (n_parts,)
        Part of each release or fit in the square of mu or, if delta is 0, in epsilon.
    title : str, default=""
        Name of the whole budget.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the drawing.
    figure_ : matplotlib Figure
        The figure of the axes.
    bars_ : matplotlib BarContainer
        One bar per part, the first on top.

    See Also
    --------
    skdp.PrivacyLedger : Limits the total cost of all fits on one dataset.

    Notes
    -----
    **Privacy.** Nothing is spent: plans and records are public. Notes of a ledger are drawn as
    they are.

    Examples
    --------
    >>> from skdp import DPPCA
    >>> from skdp.display import PrivacyBudgetDisplay
    >>> plan = DPPCA(5, mean_norm=64, row_norm=40).plan(n_samples=1797, n_features=64)
    >>> PrivacyBudgetDisplay.from_plan(plan).names
    ('mean', 'second moment')
    """

    names: Any
    shares: Any
    _: KW_ONLY
    title: str = ""

    @classmethod
    def from_plan(cls, plan: Plan | PrivacySpent, *, ax: Any = None) -> "PrivacyBudgetDisplay":
        """Draw the shares of the releases of a plan or a fit.

        Parameters
        ----------
        plan : Plan or PrivacySpent
            The plan of an estimator, of which the default branch is drawn; or the `privacy_spent_`
            of a fitted estimator, or that estimator.
        ax : matplotlib Axes or None, default=None
            Where to draw; None for a new figure.

        Returns
        -------
        PrivacyBudgetDisplay
            The display, drawn.
        """
        plan = getattr(plan, "privacy_spent_", plan)
        names, shares, _ = zip(*runs_of(plan.releases), strict=True)
        title = f"({plan.epsilon:.4g}, {plan.delta:.4g})-DP per {plan.unit}"
        return cls(names, shares, title=title).plot(ax)

    @classmethod
    def from_ledger(cls, ledger: PrivacyLedger, *, ax: Any = None) -> "PrivacyBudgetDisplay":
        """Draw the cost of each fit charged to a ledger, and the rest.

        Parameters
        ----------
        ledger : PrivacyLedger
            A ledger, whose file is read.
        ax : matplotlib Axes or None, default=None
            Where to draw; None for a new figure.

        Returns
        -------
        PrivacyBudgetDisplay
            The display, drawn.
        """
        charges = ledger.entries()
        shares = [charge["spent"] / WHOLE for charge in charges]
        names = [charge["note"] or charge["what"] for charge in charges]
        left = 1.0 - sum(shares)
        title = f"{ledger.path}: for one more fit epsilon={ledger.remaining():.4g} is left"
        return cls([*names, "left"], [*shares, left], title=title).plot(ax)

    def plot(self, ax: Any = None, **bar_options: Any) -> "PrivacyBudgetDisplay":
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None for a new figure as high as the bars need.
        **bar_options : dict
            Options of the bars, such as ``color``.

        Returns
        -------
        PrivacyBudgetDisplay
            The display itself.
        """
        ax = self._open(ax, height=1.2 + _HEIGHT_OF_BAR * len(self.names))
        places = np.arange(len(self.names))
        self.bars_ = ax.barh(places, self.shares, **bar_options)
        ax.bar_label(self.bars_, fmt="{:.3g}", padding=3)
        ax.set_yticks(places, self.names)
        ax.invert_yaxis()
        ax.set(xlabel="share of the budget", title=self.title)
        ax.margins(x=0.15, y=0.02)
        return self


# ------------------------------
# Scores of private rows, counted in bins.

# The first and the last edge between bins lie this many standard deviations from the mean.
_HALF_WIDTH = 2.5  # not studied
# Scores that are not centered are assumed to have a standard deviation of at least this fraction of
# their mean.
_LEAST = 0.25  # not studied
# A cell is drawn only if noise alone would rarely give its count: `_CHANCE` bounds the probability
# that any cell without rows is drawn.
_CHANCE = 0.05  # not studied
_N_BINS = Interval(Integral, 3, 1000, closed="both")  # not studied


@dataclass(frozen=True, repr=False)
class ScoreHistogram:  # numpydoc ignore=PR02
    """Counts of rows by their scores on two components, with noise.

    Parameters
    ----------
    counts : ndarray of shape (n_bins, n_bins) or (n_groups, n_bins, n_bins)
        Noisy numbers of rows, or users, in each cell; some are negative. The next to last axis is
        the first component, the last axis the second.
    edges : ndarray of shape (2, n_bins - 1)
        Edges between the bins of each component. The first and the last bin are unbounded.
    components : tuple of two ints
        Indices of the two components.
    groups : tuple or None
        Names of the groups, in the order of `counts`.
    std : float
        Standard deviation of the noise of a count.
    privacy_spent : PrivacySpent
        Record of the cost of the counts.

    See Also
    --------
    score_histogram : Makes the counts.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPPCA
    >>> from skdp.display import score_histogram
    >>> X = np.random.default_rng(0).normal(size=(5000, 3)) * [3, 2, 1]
    >>> pca = DPPCA(2, center=False, row_norm=4).fit(X)
    >>> score_histogram(pca, X, n_bins=8).edges.shape
    (2, 7)
    """

    counts: np.ndarray
    edges: np.ndarray
    components: tuple[int, ...]
    groups: tuple[Any, ...] | None
    std: float
    privacy_spent: PrivacySpent

    def __repr__(self) -> str:
        return f"ScoreHistogram: {self.counts.shape} +- {self.std:.2g}\n{self.privacy_spent!r}"


@named
@warnings_together()
def score_histogram(
    pca: Any,
    X: Any,
    *,
    groups: Any = None,
    classes: Any = None,
    users: Any = None,
    components: tuple[int, int] = (0, 1),
    n_bins: int = 12,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    adjacency: str = "replace",
    ledger: Any = None,
    random_state: Any = None,
) -> ScoreHistogram:
    r"""Count private rows by their scores on two components, with noise, to draw them.

    A scatter plot of ``pca.transform(X)`` shows every row. This histogram shows noisy numbers of
    rows in the cells of a grid.

    Parameters
    ----------
    pca : DPPCA, DPTruncatedSVD or pipeline
        A fitted estimator that may be published, with two components or more; or a pipeline that
        ends with one, and whose first step takes X, also inside a search.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows to protect.
    groups : array-like of shape (n_samples,) or None, default=None
        The group of each row, such as its class; it is protected together with the row.
    classes : array-like or None, default=None
        All possible groups, two or more; required with `groups`.
    users : array-like of shape (n_samples,) or None, default=None
        Owner of each row; required if a model in `pca` protects users. All rows of a user together
        are then protected: each user counts once, divided equally among its rows.
    components : tuple of two ints, default=(0, 1)
        Indices of the two components.
    n_bins : int, default=12
        Bins of a component, 3 to 1000. Edges lie evenly within 2.5 released standard deviations of
        the released mean; the first and the last bin are unbounded. For DPTruncatedSVD a standard
        deviation counts as at least a quarter of the mean.
    epsilon : float, default=1.0
        Privacy budget, dimensionless, ``0 < epsilon <= inf``.
    delta : float, default=1e-6
        Probability with which the guarantee may fail, ``0 < delta < 1``.
    adjacency : {"replace", "zero_out"}, default="replace"
        Neighboring datasets differ in one row, or all rows of one user, which are exchanged or set
        to null.
    ledger : PrivacyLedger or None, default=None
        Where the cost is charged before the release.
    random_state : int, RandomState or Generator instance or None, default=None
        ``None`` takes fresh noise, as the guarantee assumes.

    Returns
    -------
    ScoreHistogram
        The counts, the edges, and the record of the cost.

    Raises
    ------
    ValueError
        If an argument is not acceptable. Nothing has been spent then.
    NotFittedError
        If `pca` is not fitted.
    BudgetError
        If the ledger has less left. Nothing has been spent then.

    See Also
    --------
    ScoreHistogramDisplay : Draws the counts.

    Notes
    -----
    **Privacy.** Unit: one row, with its group if there are any (then called a record); with `users`
    one user with all of its rows. Adjacency: `adjacency`. Mechanism: Gaussian noise on all counts
    together. As the outer bins are unbounded, every row is in exactly one cell of one group; the
    edges follow from released values of `pca` alone. With "zero_out" one count falls by 1, and with
    "replace" another one also rises by 1: a change of at most :math:`\sqrt 2`. A user adds
    nonnegative numbers of sum 1 to the counts, which changes them by no more. Assumed public: the
    number of rows, or with `users` which ids occur; `classes`, and `pca`.

    If `pca` was fitted to the same rows, both costs compose:
    ``pca.privacy_spent_.compose(histogram.privacy_spent)``, with ``same_unit=True`` if there are
    groups.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPPCA
    >>> from skdp.display import score_histogram
    >>> X = np.random.default_rng(0).normal(size=(5000, 3)) * [3, 2, 1]
    >>> pca = DPPCA(2, center=False, row_norm=4).fit(X)
    >>> histogram = score_histogram(pca, X, epsilon=0.5)
    >>> histogram.counts.shape
    (12, 12)
    >>> bool(abs(histogram.counts.sum() - 5000) < 2000)
    True
    """
    given = {"n_bins": n_bins, "epsilon": epsilon, "delta": delta, "adjacency": adjacency}
    given |= {"ledger": ledger, "random_state": random_state}
    validate_plain({**CONSTRAINTS, "n_bins": [_N_BINS]}, given, "score_histogram")

    whole, (*steps_before, (_, pca)) = pca, fitted_steps(pca)
    if not isinstance(pca, DPPCA | DPTruncatedSVD):
        raise ValueError(
            "pca must be a DPPCA, a DPTruncatedSVD, or a pipeline that ends with one, got "
            f"{type(pca).__name__}."
        )
    check_is_fitted(pca)
    refuse_blocks(X := checked_container(X), "score_histogram")
    unit, people = unit_of_rows(whole, X, users, "row" if groups is None else "record")
    passed_on = of_people(partial(transformed, steps_before), people, X) if steps_before else X
    rows = check_rows_of(passed_on, pca)
    edges = _edges_of(pca, components, n_bins)

    names, codes = _groups_of(groups, classes, rows.shape[0])
    shape = (n_bins, n_bins) if names is None else (len(names), n_bins, n_bins)
    scores = of_people(pca._projection.apply, people, rows)
    # Cells are numbered group after group, and within a group bin after bin of the first component.
    cells: Any = codes
    for component, ends in zip(components, edges, strict=True):
        cells = cells * n_bins + np.searchsorted(ends, scores[:, int(component)], side="right")
    cost = PrivacyCost(epsilon, delta)
    name, change, known = "score histogram", sensitivity.histogram, {"adjacency": adjacency}
    release = cost.release(name, "gaussian", 1.0, change, known, shape=shape)
    plan = Plan(cost, release, unit=unit, adjacency=adjacency)
    budget = opened("score_histogram", plan, cells, people, given)
    weights = None if people is None else people.weights
    value = np.bincount(cells, weights, int(np.prod(shape))).reshape(shape)
    counts, std = budget.release(release, value)
    return ScoreHistogram(counts, edges, tuple(components), names, std, budget.spent())


def _edges_of(pca: Any, components: Any, n_bins: int) -> np.ndarray:
    """Return edges of bins: the released mean plus multiples of released standard deviations."""
    are_two = isinstance(components, tuple | list) and len(components) == 2
    known = range(len(pca.components_))
    if not are_two or components[0] == components[1] or any(one not in known for one in components):
        raise ValueError(
            f"components={shown(components)} must be two different numbers from 0 to {known[-1]}."
        )
    axes, middle = list(map(int, components)), np.zeros(2)
    if isinstance(pca, DPTruncatedSVD):
        middle = pca.components_[axes] @ pca.mean_.astype(np.float64)
        # Beside a large mean, clipping and noise may leave a variance of 0.
        spread = np.maximum(np.sqrt(pca.explained_variance_[axes]), _LEAST * np.abs(middle))
    else:
        spread = np.ones(2) if pca.whiten else pca._whitening_stds()[axes]
    spread = np.where(spread > 0, spread, 1.0)
    multiples = np.linspace(-_HALF_WIDTH, _HALF_WIDTH, n_bins - 1)
    return np.asarray(middle + np.outer(multiples, spread)).T


def _groups_of(groups: Any, classes: Any, n_rows: int) -> tuple[Any, np.ndarray | int]:
    """Return the names of groups, and the index of each row's group; None and 0 without groups."""
    if (groups is None) != (classes is None):
        lacks = "groups, one per row" if groups is None else "classes, all possible groups"
        raise ValueError(f"groups and classes go together: also pass {lacks}.")
    if groups is None:
        return None, 0
    names, labels = given_classes(classes), checked_ids(groups, "groups")
    if len(labels) != n_rows:
        raise ValueError(f"groups has {len(labels)} entries, but X has {n_rows} rows.")
    codes = known_codes(labels, names)
    if codes.min() < 0:
        raise ValueError(
            "groups has a label that is not among classes. The label is private, and not named. "
            "Pass all possible labels as classes."
        )
    return tuple(names.tolist()), codes


@dataclass(eq=False, repr=False)
class ScoreHistogramDisplay(_Display):  # numpydoc ignore=PR02
    """Rows on two components, as :func:`skdp.display.score_histogram` counts them.

    Make one with `from_histogram`. Cells with more rows are darker. With groups a cell has the
    color of its largest group. Cells that may be noise alone are left out: with a probability of
    95% all drawn cells have rows.

    Parameters
    ----------
    histogram : ScoreHistogram
        The counts.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the drawing.
    figure_ : matplotlib Figure
        The figure of the axes.
    meshes_ : list of matplotlib QuadMesh
        The cells; with groups one mesh per group.

    See Also
    --------
    score_histogram : Makes the counts.

    Notes
    -----
    **Privacy.** Nothing is spent: the display shows released counts only.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import DPPCA
    >>> from skdp.display import ScoreHistogramDisplay, score_histogram
    >>> X = np.random.default_rng(0).normal(size=(5000, 3)) * [3, 2, 1]
    >>> pca = DPPCA(2, center=False, row_norm=4).fit(X)
    >>> shown = ScoreHistogramDisplay.from_histogram(score_histogram(pca, X))
    >>> shown.ax_.get_xlabel()
    'component 1'
    """

    histogram: ScoreHistogram

    @classmethod
    def from_histogram(cls, histogram: ScoreHistogram, *, ax: Any = None) -> Self:
        """Draw counts.

        Parameters
        ----------
        histogram : ScoreHistogram
            The result of :func:`skdp.display.score_histogram`.
        ax : matplotlib Axes or None, default=None
            Where to draw; None for a new figure.

        Returns
        -------
        ScoreHistogramDisplay
            The display, drawn.
        """
        return cls(histogram).plot(ax)

    def plot(self, ax: Any = None, **mesh_options: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None for a new figure.
        **mesh_options : dict
            Options of the cells, such as ``edgecolor``.

        Returns
        -------
        ScoreHistogramDisplay
            The display itself.
        """
        from matplotlib.colors import LinearSegmentedColormap, to_rgba

        ax, released = self._open(ax), self.histogram
        counts = released.counts.reshape(-1, *released.counts.shape[-2:])
        # A smaller count may be noise alone.
        least = -ndtri(_CHANCE / counts.size) * released.std
        largest_group = counts.argmax(axis=0)
        # Unbounded bins are drawn as wide as their neighbors.
        lines = [np.r_[2 * e[0] - e[1], e, 2 * e[-1] - e[-2]] for e in released.edges]
        self.meshes_, names = [], released.groups or (f"{released.privacy_spent.unit}s",)
        for number, (name, cells) in enumerate(zip(names, counts, strict=True)):
            color = f"C{number}"
            shades = LinearSegmentedColormap.from_list("", [to_rgba(color, 0.1), to_rgba(color)])
            options = {"cmap": shades, "vmin": 0, "vmax": max(counts.max(), 1), **mesh_options}
            is_hidden = (cells <= least) | (largest_group != number)
            drawn = np.ma.masked_where(is_hidden, cells).T
            self.meshes_.append(ax.pcolormesh(*lines, drawn, **options))
            ax.plot([], [], "s", color=color, label=str(name))
        if len(names) > 1:
            ax.legend(frameon=False)
        else:
            self.figure_.colorbar(self.meshes_[0], ax=ax, label=names[0])
        x, y = released.components
        ax.set(xlabel=f"component {x + 1}", ylabel=f"component {y + 1}")
        return self
