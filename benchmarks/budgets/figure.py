"""The figure of the study of budgets: what is missing to the twin, by budget."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.figures import BLACK, BLUE, GRAY, GREEN, ORANGE, PURPLE, SKY, VERMILION, frame

__all__ = ["draw"]

COLORS = [BLUE, ORANGE, GREEN, VERMILION, SKY, PURPLE, BLACK]


def draw(lines: Sequence[Any], epsilons: Sequence[float], file: Path) -> None:
    """Draw a panel for each estimator, with a curve for each of its tables; losses are left out."""
    lines = [line for line in lines if line.measure != "log loss"]
    names = list(dict.fromkeys(line.row for line in lines))
    n_rows = -(-len(names) // 3)
    figure, axes = plt.subplots(
        n_rows, 3, figsize=(11, 2.9 * n_rows), sharex=True, layout="constrained"
    )
    places = np.arange(len(epsilons))
    for ax, name in zip(axes.flat, names, strict=False):
        own = [line for line in lines if line.row == name]
        for number, line in enumerate(own):
            style = {"color": COLORS[number % len(COLORS)], "linewidth": 1.4}
            dashes = "-" if number < len(COLORS) else "--"
            ax.plot(places, line.means - line.twin, dashes, label=line.table, **style)
        ax.axhline(0, color=GRAY, linewidth=0.8)
        ax.set_ylim(-0.3, 0.05)
        ax.set_title(f"{name}: {own[0].measure}", fontsize=9)
        ax.set_xticks(places, [f"{epsilon:g}" for epsilon in epsilons])
        ax.legend(fontsize=6.5, frameon=False, ncols=2, loc="lower right")
        frame(ax)
    for ax in axes.flat[len(names) :]:
        ax.set_visible(False)
    figure.supxlabel("epsilon")
    figure.supylabel("difference to the twin without privacy")
    figure.savefig(file, dpi=130)
    plt.close(figure)
