"""The tables of `captured.py` on coherence and on MovieLens, as a figure."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from benchmarks.entries.measures import DIAGNOSTIC, EPSILONS_OF_RATINGS
from benchmarks.figures import (
    BLACK,
    GRAY,
    GREEN,
    ORANGE,
    OURS,
    PURPLE,
    SKY,
    VERMILION,
    curve,
    frame,
    mark,
    save,
)
from benchmarks.report import Values, standard_error

__all__ = ["draw"]

_STYLES = {
    "power": {"label": "skdp, default", **OURS},
    "default": {"label": "skdp, default", **OURS},
    "deflation": {"label": "skdp, deflation", "color": SKY, "marker": "v"},
    "plain, basis_cut=4": {
        "label": "plain iteration, basis_cut=4",
        "color": GREEN,
        "marker": "^",
    },
    "plain, basis_cut=None": {
        "label": "plain iteration, basis_cut=None",
        "color": ORANGE,
        "marker": "D",
    },
    "input": {"label": "noise on every entry", "color": VERMILION, "marker": "s"},
    "worst": {"label": "noise for the worst basis", "color": BLACK, "marker": "x"},
    "figure 2": {"label": "published constants", "color": PURPLE, "marker": "P"},
}


def draw(results: dict[str, Values], file: Path) -> None:
    """Draw what is captured against coherence, the coherence released, and MovieLens."""
    figure, axes = plt.subplots(1, 4, figsize=(15, 4.3), layout="constrained")
    coherences = [1, 4, 16, 64, 256]
    names = ["power", "deflation", "plain, basis_cut=4", "plain, basis_cut=None", "input"]
    rows = [str(value) for value in coherences]
    _lines(axes[0], results["coherence"], rows, coherences, names)
    axes[0].set_title("eigenvector of given coherence, epsilon 1", fontsize=10, loc="left")
    axes[0].set_ylabel("captured, of the best", color=GRAY)
    _diagnostic(axes[1], results["coherence"], rows, coherences)
    names = ["default", "plain, basis_cut=4", "input", "worst", "figure 2"]
    for ax, k in zip(axes[2:], (1, 3), strict=True):
        rows = [f"k {k}, epsilon {epsilon:g}" for epsilon in EPSILONS_OF_RATINGS]
        _lines(ax, results["movielens"], rows, EPSILONS_OF_RATINGS, names)
        ax.set_title(f"MovieLens 100k, one rating, k = {k}", fontsize=10, loc="left")
        ax.set_xlabel("epsilon", color=GRAY)
    save(figure, axes, file, n_columns=4)


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
    ax.set_xlabel("coherence of the eigenvector", color=GRAY)


def _diagnostic(ax: Axes, values: Values, rows: list[str], x: list[int]) -> None:
    found = [values[row, DIAGNOSTIC] for row in rows]
    ax.plot(x, x, color="#b9bdc1", linestyle=":", label="the exact eigenvector's")
    _line(ax, x, found, **_STYLES["power"])
    ax.set_yscale("log")
    ax.set_title("coherence_right_, of the released vector", fontsize=10, loc="left")
    _frame(ax, x)
    ax.set_xlabel("coherence of the eigenvector", color=GRAY)


def _line(ax: Axes, x: list, found: list[np.ndarray], **style: object) -> None:
    mean = np.array([values.mean() for values in found])
    error = np.array([standard_error(values) for values in found])
    curve(ax, x, mean, mean - 2 * error, mean + 2 * error, **style)


def _frame(ax: Axes, ticks: list) -> None:
    ax.set_xscale("log")
    mark(ax.xaxis, ticks)
    frame(ax)
