"""The figure of the power method for recommendations: error by epsilon, to both references."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

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

SHOWN = ("MovieLens 100k", "EachMovie stand-in", "Jester stand-in")
STYLES = {
    "one release": OURS,
    "published": {"color": VERMILION, "marker": "s"},
    "exact accounting": {"color": ORANGE, "marker": "D"},
    "whole users": {"color": GREEN, "marker": "^"},
    "Balcan central": {"color": PURPLE, "marker": "v"},
    "Balcan local": {"color": SKY, "marker": "x"},
    "FedPower-like": {"color": BLACK, "marker": "+"},
}


def draw(
    found: dict[str, Values],
    methods: Sequence[str],
    epsilons: Sequence[float],
    references: Sequence[str],
    file: Path,
) -> None:
    """Draw a column a table and a row a reference; bands are two standard errors."""
    shape = (len(references), len(SHOWN))
    figure, axes = plt.subplots(
        *shape, figsize=(10.5, 6.6), sharex=True, sharey=True, layout="constrained"
    )
    names = {method: method.split(" (")[0] for method in methods}
    for row, reference in zip(axes, references, strict=True):
        for ax, data in zip(row, SHOWN, strict=True):
            values = found[data]
            for method, name in names.items():
                if name in STYLES:
                    cells = [values[method, f"{reference}, {epsilon:g}"] for epsilon in epsilons]
                    mean = np.array([cell.mean() for cell in cells])
                    band = 2 * np.array([standard_error(cell) for cell in cells])
                    curve(ax, epsilons, mean, mean - band, mean + band, label=name, **STYLES[name])
            ax.set_xscale("log")
            mark(ax.xaxis, epsilons[::2] + epsilons[-1:])
            ax.set_ylim(0, 1.05)
            frame(ax)
            ax.set_title(data, fontsize=10, loc="left")
        row[0].set_ylabel(f"error to the {reference}", color=GRAY)
    for ax in axes[-1]:
        ax.set_xlabel("epsilon, as claimed", color=GRAY)
    save(figure, axes.flat, file, order=list(STYLES), n_columns=4)
