"""Some of the tables of `personalization.py`, as a figure."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, NullLocator

from benchmarks.figures import (
    BLACK,
    BLUE,
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
)
from benchmarks.personalization.measures import (
    EPSILONS,
    FEW_EPSILONS,
    ORACLE,
    REGIMES,
    RIDGE,
    ROW_COUNTS,
    ZERO,
)
from benchmarks.report import Key, Values, standard_error

__all__ = ["draw"]

_REFERENCE = {
    RIDGE: {"color": VERMILION, "linestyle": "--"},
    ORACLE: {"color": BLACK, "linestyle": ":"},
    ZERO: {"color": "#8f959b", "linestyle": ":"},
}
_SIZES = {300: SKY, 500: SKY, 1000: GREEN, 2000: BLUE, 3000: BLUE, 5000: PURPLE}
_METHODS = {
    "ours": {"color": BLUE, "marker": "o"},
    "ours, no mean": {"color": SKY, "marker": "v"},
    "spectral": {"color": GREEN, "marker": "^"},
    "altmin": {"color": ORANGE, "marker": "s"},
    "pooled": {"color": BLACK, "marker": "x"},
}


def draw(results: dict[str, Values], file: Path) -> None:
    """Draw risks against epsilon and rows of a user, and all regimes beside ridge."""
    figure, axes = plt.subplots(
        1, 4, figsize=(16, 4.6), layout="constrained", width_ratios=[1, 1, 1, 1.5]
    )
    found = results["epsilon"]
    _against_epsilon(axes[0], found, "A", "A: 20 features, 10 rows a user")
    _against_epsilon(axes[1], found, "B", "B: 50 features, 20 rows a user")
    _against_rows(axes[2], results["rows"])
    _all_regimes(axes[3], results["methods"])
    axes[0].set_ylabel("excess risk", color=GRAY)
    for ax in axes:
        frame(ax)
        ax.title.set(fontsize=10)
    for ax, n_columns in zip(axes, (2, 2, 1, 5), strict=True):
        place = "lower left" if n_columns == 1 else "upper left"
        ax.legend(frameon=False, fontsize=8.5, ncols=n_columns, loc=place, columnspacing=1)
    figure.savefig(file, dpi=150)
    plt.close(figure)


def _against_epsilon(ax: Axes, values: Values, name: str, title: str) -> None:
    regimes = [regime for regime in REGIMES if regime.name == name]
    for regime in regimes:
        keys = [(str(regime), f"{epsilon:g}") for epsilon in EPSILONS]
        style = {"color": _SIZES[regime.n_users], "label": f"{regime.n_users} users"}
        _line(ax, values, EPSILONS, keys, marker="o", **style)
    for reference in (RIDGE, ORACLE):
        height = float(values[str(regimes[-1]), reference].mean())
        ax.axhline(height, linewidth=1.4, label=reference, **_REFERENCE[reference])
    _logarithmic(ax, EPSILONS, "epsilon")
    ax.set_ylim(top=6)  # room for the legend
    ax.set_title(title, loc="left")


def _against_rows(ax: Axes, values: Values) -> None:
    rows = [str(m) for m in ROW_COUNTS]
    colors = dict(zip(FEW_EPSILONS, (SKY, BLUE, GREEN), strict=True))
    for epsilon, color in colors.items():
        keys = [(row, f"{epsilon:g}") for row in rows]
        style = {**OURS, "color": color, "linewidth": 1.5, "markersize": 5}
        _line(ax, values, ROW_COUNTS, keys, **{**style, "label": f"epsilon {epsilon:g}"})
    for reference in (RIDGE, ORACLE):
        keys = [(row, reference) for row in rows]
        _line(ax, values, ROW_COUNTS, keys, label=reference, **_REFERENCE[reference])
    _logarithmic(ax, ROW_COUNTS, "rows of a user")
    ax.set_title("B, 2000 users", loc="left")


def _all_regimes(ax: Axes, values: Values) -> None:
    # Without noise in the responses ridge has no error to compare with.
    rows = [str(regime) for regime in REGIMES if regime.noise > 0]
    places = np.arange(len(rows))
    for name, style in _METHODS.items():
        ratios = [
            values[row, name].mean() / values[row, RIDGE].mean()
            if (row, name) in values
            else np.nan
            for row in rows
        ]
        ax.plot(places, ratios, linestyle="", markersize=6, label=name, **style)
    ax.axhline(1, linewidth=1.4, **_REFERENCE[RIDGE])
    ax.set_yscale("log")
    ax.set_ylim(top=40)
    mark(ax.yaxis, [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10])
    ax.xaxis.set_major_locator(FixedLocator(places))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticklabels(rows, rotation=60, ha="right")
    ax.set_title("All regimes, epsilon 1: risk over that of ridge", loc="left")


def _logarithmic(ax: Axes, ticks: Sequence[float], label: str) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    mark(ax.xaxis, ticks)
    mark(ax.yaxis, [0.05, 0.1, 0.2, 0.5, 1, 2, 5])
    ax.set_xlabel(label, color=GRAY)


def _line(
    ax: Axes, values: Values, x: Sequence[float], keys: Sequence[Key], **style: object
) -> None:
    mean = np.array([values[key].mean() for key in keys])
    error = np.array([standard_error(values[key]) for key in keys])
    curve(ax, x, mean, mean - 2 * error, mean + 2 * error, **style)
