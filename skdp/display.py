"""Pictures of what is public or released: plans, records, ledgers, spectra, curves.

They follow the displays of scikit-learn and need matplotlib, the extra ``examples``.
"""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdp.ledger import PrivacyLedger
from skdp.ledger._file import WHOLE
from skdp.model_selection import epsilon_curve
from skdp.privacy.plan import Plan
from skdp.privacy.releases import PrivacySpent, shares_by_name

__all__ = ["EpsilonCurveDisplay", "ExplainedVarianceDisplay", "PrivacyBudgetDisplay"]

_WIDTH, _HEIGHT_OF_BAR = 6.4, 0.3  # inches; not studied
_MUTED = "0.5"  # readable on white and on black


def _axes(ax: Any, height: float | None = None) -> Any:
    """Return `ax`, or the axes of a new figure of this height in inches."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Displays need matplotlib: pip install 'skdp[examples]'.") from error
    size = None if height is None else (_WIDTH, height)
    return plt.subplots(figsize=size, layout="constrained")[1]


class EpsilonCurveDisplay:
    """Score against epsilon, as :func:`skdp.model_selection.epsilon_curve` estimates it.

    Make one with `from_estimator`. The line is the median over the splits, and the band has half of
    the scores.

    Parameters
    ----------
    epsilons : array-like of shape (n_epsilons,)
        Privacy budgets, positive and finite.
    scores : array-like of shape (n_epsilons, n_repeats)
        Scores at each of them.
    score_name : str, default="score"
        Label of the axis of scores.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it is drawn.
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
    **Privacy.** Nothing is spent: it shows scores of fits to public rows.

    Examples
    --------
    >>> from skdp.display import EpsilonCurveDisplay
    >>> scores = [[0.5, 0.6, 0.4], [0.8, 0.9, 0.8]]
    >>> EpsilonCurveDisplay([0.5, 1.0], scores).plot().line_.get_ydata().tolist()
    [0.5, 0.8]
    """

    def __init__(self, epsilons: Any, scores: Any, *, score_name: str = "score") -> None:
        self.epsilons = epsilons
        self.scores = scores
        self.score_name = score_name

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
            Others of :func:`skdp.model_selection.epsilon_curve`, of which `epsilons` and
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
        self.ax_ = ax = _axes(ax)
        self.figure_ = ax.figure
        (self.line_,) = ax.plot(self.epsilons, median, **{"marker": "o", **line_options})
        color = self.line_.get_color()
        self.band_ = ax.fill_between(self.epsilons, low, high, color=color, alpha=0.2, linewidth=0)
        ax.set(xscale="log", xlabel="epsilon", ylabel=self.score_name)
        ax.set_xticks(self.epsilons, [f"{one:g}" for one in self.epsilons])
        ax.minorticks_off()
        return self


class ExplainedVarianceDisplay:
    """Released variance of each component, beside that of the directions that are left out.

    Make one with `from_estimator`.

    Parameters
    ----------
    explained_variance : array-like of shape (n_components,)
        Released variances of the components.
    noise_variance : float or None, default=None
        Mean variance outside the components, at least that of the noise; None draws no line.
    std_error : array-like of shape (n_components,) or None, default=None
        Standard errors of the variances; None draws no error bars.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it is drawn.
    figure_ : matplotlib Figure
        The figure of the axes.
    bars_ : matplotlib BarContainer
        A bar a component.
    floor_ : matplotlib Line2D or None
        The line of `noise_variance`.

    See Also
    --------
    skdp.DPPCA : Releases what is drawn.

    Notes
    -----
    **Privacy.** Nothing is spent: it shows released values only.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skdp import DPPCA
    >>> from skdp.display import ExplainedVarianceDisplay
    >>> pca = DPPCA(5, mean_norm=64, row_norm=40).fit(load_digits().data)
    >>> len(ExplainedVarianceDisplay.from_estimator(pca).bars_)
    5
    """

    def __init__(
        self, explained_variance: Any, *, noise_variance: Any = None, std_error: Any = None
    ) -> None:
        self.explained_variance = explained_variance
        self.noise_variance = noise_variance
        self.std_error = std_error

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> "ExplainedVarianceDisplay":
        """Draw the spectrum of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            A fitted DPPCA or DPTruncatedSVD, or another one with `explained_variance_`.
        ax : matplotlib Axes or None, default=None
            Where to draw; None for a new figure.

        Returns
        -------
        ExplainedVarianceDisplay
            The display, drawn.
        """
        check_is_fitted(estimator, "explained_variance_")
        return cls(
            estimator.explained_variance_,
            noise_variance=getattr(estimator, "noise_variance_", None),
            std_error=getattr(estimator, "explained_variance_std_error_", None),
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
        self.ax_ = ax = _axes(ax)
        self.figure_ = ax.figure
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


class PrivacyBudgetDisplay:
    """What each release, or each fit of a ledger, takes of the budget.

    Make one with `from_plan`, `from_spent` or `from_ledger`.

    Parameters
    ----------
    names : sequence of str
        What takes a part.
    shares : array-like of shape (n_parts,)
        The parts: of the square of mu, or of epsilon if delta is 0.
    title : str, default=""
        What is shared.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it is drawn.
    figure_ : matplotlib Figure
        The figure of the axes.
    bars_ : matplotlib BarContainer
        A bar a part, the first one on top.

    See Also
    --------
    skdp.PrivacyLedger : What all fits on one dataset may cost together.

    Notes
    -----
    **Privacy.** Nothing is spent: plans and records are public. Notes of a ledger are drawn,
    as they were written.

    Examples
    --------
    >>> from skdp import DPPCA
    >>> from skdp.display import PrivacyBudgetDisplay
    >>> plan = DPPCA(5, mean_norm=64, row_norm=40).plan(n_samples=1797, n_features=64)
    >>> PrivacyBudgetDisplay.from_plan(plan).names
    ('mean', 'second moment')
    """

    def __init__(self, names: Any, shares: Any, *, title: str = "") -> None:
        self.names = names
        self.shares = shares
        self.title = title

    @classmethod
    def from_plan(cls, plan: Plan, *, ax: Any = None) -> "PrivacyBudgetDisplay":
        """Draw what a fit will release.

        Parameters
        ----------
        plan : Plan
            What the `plan` of an estimator has returned. Of several ways, the usual one is drawn.
        ax : matplotlib Axes or None, default=None
            Where to draw; None for a new figure.

        Returns
        -------
        PrivacyBudgetDisplay
            The display, drawn.
        """
        return cls._of(plan, ax)

    @classmethod
    def from_spent(cls, spent: PrivacySpent, *, ax: Any = None) -> "PrivacyBudgetDisplay":
        """Draw what a fit has released.

        Parameters
        ----------
        spent : PrivacySpent
            The `privacy_spent_` of a fitted estimator.
        ax : matplotlib Axes or None, default=None
            Where to draw; None for a new figure.

        Returns
        -------
        PrivacyBudgetDisplay
            The display, drawn.
        """
        return cls._of(spent, ax)

    @classmethod
    def _of(cls, spent: Plan | PrivacySpent, ax: Any) -> "PrivacyBudgetDisplay":
        names, shares = zip(*shares_by_name(spent.releases), strict=True)
        title = f"({spent.epsilon:.4g}, {spent.delta:.4g})-DP per {spent.unit}"
        return cls(names, shares, title=title).plot(ax)

    @classmethod
    def from_ledger(cls, ledger: PrivacyLedger, *, ax: Any = None) -> "PrivacyBudgetDisplay":
        """Draw what each fit has taken of the limit of a ledger, and what is left.

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
        self.ax_ = ax = _axes(ax, height=1.2 + _HEIGHT_OF_BAR * len(self.names))
        self.figure_ = ax.figure
        places = np.arange(len(self.names))
        self.bars_ = ax.barh(places, self.shares, **bar_options)
        ax.bar_label(self.bars_, fmt="{:.3g}", padding=3)
        ax.set_yticks(places, self.names)
        ax.invert_yaxis()
        ax.set(xlabel="share of the squared mu (of epsilon, if delta is 0)", title=self.title)
        ax.margins(x=0.15, y=0.02)
        return self
