"""The table of `comparison.py` as a figure: one panel for each set of data."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt

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

_STYLES = [
    OURS,
    {"color": SKY, "marker": "o", "linewidth": 2.0},
    {"color": VERMILION, "marker": "s"},
    {"color": ORANGE, "marker": "D"},
    {"color": PURPLE, "marker": "v", "linestyle": "--"},
    {"color": GREEN, "marker": "^"},
    {"color": BLACK, "linestyle": ":"},
]


def draw(
    panels: dict[str, Values], methods: Sequence[str], epsilons: Sequence[float], file: Path
) -> None:
    """Draw accuracies against epsilon, with bands of two standard errors."""
    figure, axes = plt.subplots(1, len(panels), figsize=(12, 4.4), layout="constrained")
    for ax, (title, found) in zip(axes, panels.items(), strict=True):
        for method, style in zip(methods, _STYLES, strict=True):
            values = [found[method, f"{epsilon:g}"] for epsilon in epsilons]
            middle = [one.mean() for one in values]
            half = [2 * standard_error(one) for one in values]
            low, high = ([m + s * h for m, h in zip(middle, half, strict=True)] for s in (-1, 1))
            curve(ax, epsilons, middle, low, high, label=method, **style)
        ax.set_title(title, fontsize=10, loc="left")
        ax.set(xscale="log", xlabel="epsilon")
        mark(ax.xaxis, epsilons)
        frame(ax)
    axes[0].set_ylabel("accuracy, held-out rows", color=GRAY)
    save(figure, axes, file, order=methods, n_columns=3)
