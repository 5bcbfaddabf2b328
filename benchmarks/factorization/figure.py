"""The tables of `factorization.py` on epsilon and on MovieLens, as a figure."""

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from benchmarks.factorization.measures import (
    BEST,
    EPSILON_NAMES,
    EPSILONS,
    EPSILONS_OF_RATINGS,
    ONE_ENTRY,
    RATING_NAMES,
    SECRET,
    SHARES,
    STREAM,
    TIME_NAMES,
    WIDE,
    WORST,
    row_in_time,
    row_of_ratings,
)
from benchmarks.factorization.sections import captured, relative
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
from benchmarks.report import Key, Values, standard_error

__all__ = ["draw"]

_STYLES = {
    "auto": {"label": "in memory, auto", **OURS},
    "alternating": {"label": "in memory, alternating", "color": SKY, "marker": "v"},
    "input": {"label": "in memory, input", "color": VERMILION, "marker": "s"},
    SECRET: {"label": "stream, a change, secret sketch", "color": GREEN, "marker": "^"},
    WORST: {"label": "stream, a change, worst case", "color": BLACK, "marker": "x"},
    ONE_ENTRY: {"label": "stream, one entry", "color": ORANGE, "marker": "D"},
    STREAM: {"label": "stream, one entry", "color": ORANGE, "marker": "D"},
    WIDE: {"label": "stream, one entry, n_sketch=120", "color": PURPLE, "marker": "P"},
}
_REFERENCE = "#8f959b"
# The solver that "auto" chooses, under whose curve it would lie.
_CHOSEN = {"epsilon": "input", "ratings": "alternating"}

Measure = Callable[[Values, Key], np.ndarray]


def draw(results: dict[str, Values], file: Path) -> None:
    """Draw errors against epsilon, and what is captured of MovieLens."""
    figure, axes = plt.subplots(1, 4, figsize=(16, 4.6), layout="constrained")
    _errors(axes[0], results["epsilon"])
    for ax, k in zip(axes[1:3], (1, 3), strict=True):
        rows = [row_of_ratings(k, epsilon) for epsilon in EPSILONS_OF_RATINGS]
        names = [name for name in RATING_NAMES if name != _CHOSEN["ratings"]]
        _lines(ax, results["ratings"], rows, EPSILONS_OF_RATINGS, names, captured)
        ax.set_xscale("log")
        _captured(ax, EPSILONS_OF_RATINGS, "epsilon")
        ax.set_title(f'MovieLens, k = {k}; auto is "alternating"', fontsize=10, loc="left")
    _in_time(axes[3], results["time"])
    axes[1].set_ylabel("captured, of the best of that rank", color=GRAY)
    save(figure, axes, file, n_columns=4)


def _errors(ax: Axes, values: Values) -> None:
    rows = [f"{epsilon:g}" for epsilon in EPSILONS]
    names = [name for name in EPSILON_NAMES if name != _CHOSEN["epsilon"]]
    _lines(ax, values, rows, EPSILONS, names, relative)
    best = float(relative(values, (rows[0], BEST)).mean())
    _reference(ax, 1.0, "zero matrix", EPSILONS[-1], "right")
    _reference(ax, best, "best of rank 10", EPSILONS[0], "left")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_ylim(0.028, 1.3)
    mark(ax.xaxis, EPSILONS)
    mark(ax.yaxis, [0.03, 0.05, 0.1, 0.2, 0.5, 1])
    frame(ax)
    ax.set_xlabel("epsilon", color=GRAY)
    ax.set_ylabel("error over the norm", color=GRAY)
    ax.set_title('2000 x 500, k = 10; auto is "input"', fontsize=10, loc="left")


def _in_time(ax: Axes, values: Values) -> None:
    """Draw rank 1 alone: the curves of rank 3 would run between them."""
    rows = [row_in_time(1, share) for share in SHARES]
    shares = [100 * share for share in SHARES]
    # There is no "auto" here, and it would be the same.
    _lines(ax, values, rows, shares, TIME_NAMES, captured)
    _captured(ax, shares, "updates so far, in per cent")
    ax.set_title("MovieLens, k = 1, epsilon 8", fontsize=10, loc="left")


def _captured(ax: Axes, ticks: Sequence[float], label: str) -> None:
    _reference(ax, 0.0, "zero matrix", ticks[-1], "right")
    ax.set_ylim(-0.06, 1.03)
    mark(ax.xaxis, ticks)
    frame(ax)
    ax.set_xlabel(label, color=GRAY)


def _reference(ax: Axes, height: float, text: str, x: float, side: str) -> None:
    ax.axhline(height, color=_REFERENCE, linestyle=":", linewidth=1.2)
    ax.annotate(
        text,
        (x, height),
        xytext=(0, 3),
        textcoords="offset points",
        horizontalalignment=side,
        color=GRAY,
        fontsize=8.5,
    )


def _lines(
    ax: Axes,
    values: Values,
    rows: Sequence[str],
    x: Sequence[float],
    names: Sequence[str],
    measure: Measure,
) -> None:
    for name in names:
        found = [measure(values, (row, name)) for row in rows]
        mean = np.array([each.mean() for each in found])
        error = np.array([standard_error(each) for each in found])
        curve(ax, x, mean, mean - 2 * error, mean + 2 * error, **_STYLES[name])
