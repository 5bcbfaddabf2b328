"""The tables of `entry_level.py` on coherence and on MovieLens, as a figure."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from entry_level_measures import DIAGNOSTIC, EPSILONS_OF_RATINGS, Values
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

__all__ = ["draw"]

# Colours of Okabe and Ito, which stay apart for colour-blind eyes; markers help in print.
_OURS = {"color": "#0072B2", "marker": "o", "linewidth": 2.8, "markersize": 7, "zorder": 5}
_STYLES = {
    "power": {"label": "skdp, default", **_OURS},
    "default": {"label": "skdp, default", **_OURS},
    "deflation": {"label": "skdp, deflation", "color": "#56B4E9", "marker": "v"},
    "plain, basis_cut=4": {
        "label": "plain iteration, basis_cut=4",
        "color": "#009E73",
        "marker": "^",
    },
    "plain, basis_cut=None": {
        "label": "plain iteration, basis_cut=None",
        "color": "#E69F00",
        "marker": "D",
    },
    "input": {"label": "noise on every entry", "color": "#D55E00", "marker": "s"},
    "worst": {"label": "noise for the worst basis", "color": "#444444", "marker": "x"},
    "figure 2": {"label": "published constants", "color": "#CC79A7", "marker": "P"},
}
_GREY = "#5f6368"


def draw(results: dict[str, Values], file: Path) -> None:
    """Draw what is captured against coherence, the coherence released, and MovieLens."""
    figure, axes = plt.subplots(1, 4, figsize=(15, 4.3), layout="constrained")
    coherences = [1, 4, 16, 64, 256]
    names = ["power", "deflation", "plain, basis_cut=4", "plain, basis_cut=None", "input"]
    rows = [str(value) for value in coherences]
    _lines(axes[0], results["coherence"], rows, coherences, names)
    axes[0].set_title("eigenvector of given coherence, epsilon 1", fontsize=10, loc="left")
    axes[0].set_ylabel("captured, of the best", color=_GREY)
    _diagnostic(axes[1], results["coherence"], rows, coherences)
    names = ["default", "plain, basis_cut=4", "input", "worst", "figure 2"]
    for ax, k in zip(axes[2:], (1, 3), strict=True):
        rows = [f"k {k}, epsilon {epsilon:g}" for epsilon in EPSILONS_OF_RATINGS]
        _lines(ax, results["movielens"], rows, EPSILONS_OF_RATINGS, names)
        ax.set_title(f"MovieLens 100k, one rating, k = {k}", fontsize=10, loc="left")
        ax.set_xlabel("epsilon", color=_GREY)
    handles = {}
    for ax in axes:
        handles |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(file, dpi=150)
    plt.close(figure)


def _lines(ax: Axes, values: Values, rows: list[str], x: list, names: list[str]) -> None:
    for name in names:
        # What is left out has no values at all.
        kept = [
            (at, values[row, name])
            for at, row in zip(x, rows, strict=True)
            if (row, name) in values
        ]
        if kept:
            _line(ax, [at for at, _ in kept], [found for _, found in kept], **_STYLES[name])
    ax.set_ylim(0, 1.02)
    _frame(ax, x)
    ax.set_xlabel("coherence of the eigenvector", color=_GREY)


def _diagnostic(ax: Axes, values: Values, rows: list[str], x: list[int]) -> None:
    found = [values[row, DIAGNOSTIC] for row in rows]
    ax.plot(x, x, color="#b9bdc1", linestyle=":", label="the exact eigenvector's")
    _line(ax, x, found, **_STYLES["power"])
    ax.set_yscale("log")
    ax.set_title("coherence_right_, of the released vector", fontsize=10, loc="left")
    _frame(ax, x)
    ax.set_xlabel("coherence of the eigenvector", color=_GREY)


def _line(ax: Axes, x: list, found: list[np.ndarray], **style: object) -> None:
    mean = np.array([values.mean() for values in found])
    error = np.array([values.std(ddof=1) / np.sqrt(len(values)) for values in found])
    ax.plot(x, mean, **{"linewidth": 1.5, "markersize": 5, **style})
    ax.fill_between(
        x, mean - 2 * error, mean + 2 * error, color=style["color"], alpha=0.15, linewidth=0
    )


def _frame(ax: Axes, ticks: list) -> None:
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_major_formatter(FixedFormatter([f"{tick:g}" for tick in ticks]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.grid(axis="y", color="#e4e6e8", linewidth=0.8)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(colors=_GREY, labelsize=8.5)
