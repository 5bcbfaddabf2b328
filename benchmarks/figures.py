"""What the figures of the studies share: colors, curves, axes and legends."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

__all__ = [
    "BLACK",
    "BLUE",
    "GRAY",
    "GREEN",
    "ORANGE",
    "OURS",
    "PURPLE",
    "SKY",
    "VERMILION",
    "curve",
    "frame",
    "mark",
    "save",
]

# Colors of Okabe and Ito, which stay apart for color-blind eyes; markers help in print.
BLUE, SKY, GREEN, ORANGE = "#0072B2", "#56B4E9", "#009E73", "#E69F00"
VERMILION, PURPLE, BLACK = "#D55E00", "#CC79A7", "#444444"
GRAY = "#5f6368"
OURS = {"color": BLUE, "marker": "o", "linewidth": 2.8, "markersize": 7, "zorder": 5}


def curve(
    ax: Axes,
    x: Sequence[float] | np.ndarray,
    middle: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    **style: object,
) -> None:
    """Draw a curve on a band of its color."""
    ax.plot(x, middle, **{"linewidth": 1.5, "markersize": 5, **style})
    ax.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)


def mark(axis: Axis, ticks: Sequence[float]) -> None:
    """Label these ticks of a logarithmic axis, and no others."""
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FixedFormatter([f"{tick:g}" for tick in ticks]))
    axis.set_minor_locator(NullLocator())


def frame(ax: Axes) -> None:
    ax.grid(axis="y", color="#e4e6e8", linewidth=0.8)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(colors=GRAY, labelsize=8.5)


def save(
    figure: Figure,
    axes: Iterable[Axes],
    file: Path,
    *,
    order: Sequence[str] = (),
    n_columns: int | None = None,
) -> None:
    """Save with one legend for all axes; `order` comes first in it."""
    found = {}
    for ax in axes:
        found |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    names = [*(name for name in order if name in found), *(n for n in found if n not in order)]
    figure.legend(
        [found[name] for name in names],
        names,
        loc="outside upper center",
        ncols=n_columns or len(names),
        frameon=False,
    )
    figure.savefig(file, dpi=150)
    plt.close(figure)
