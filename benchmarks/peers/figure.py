"""The table of `pca_accuracy.py` as a figure: one panel for each table of rows."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

__all__ = ["draw"]

# Colours of Okabe and Ito, which stay apart for colour-blind eyes; markers help in print.
_STYLES = {
    "skdp": {"color": "#0072B2", "marker": "o", "linewidth": 2.8, "markersize": 7, "zorder": 5},
    "Analyze Gauss, exact": {"color": "#D55E00", "marker": "s"},
    "Analyze Gauss, classic": {"color": "#E69F00", "marker": "D"},
    "power method, published": {"color": "#009E73", "marker": "^"},
    "diffprivlib": {"color": "#CC79A7", "marker": "v", "linestyle": "--", "zorder": 6},
    "OpenDP": {"color": "#444444", "marker": "x", "linestyle": "--", "zorder": 7},
}
_GREY = "#5f6368"
# Below, rounding is what is seen.
_SMALLEST = 1e-9


def draw(panels: dict, epsilons: list[float], file: Path) -> None:
    """Draw losses against epsilon; `panels` holds, by title and method, one cell an epsilon."""
    n_columns = 4
    n_rows = -(-len(panels) // n_columns)
    figure, axes = plt.subplots(
        n_rows, n_columns, figsize=(12, 0.9 + 2.9 * n_rows), layout="constrained", squeeze=False
    )
    for ax, (title, cells) in zip(axes.flat, panels.items(), strict=False):
        _panel(ax, title, cells, epsilons)
    for ax in axes.flat[len(panels) :]:
        ax.set_axis_off()
    for ax in axes[:, 0]:
        ax.set_ylabel("variance missed (lower is better)", color=_GREY)
    for ax in axes[-1]:
        ax.set_xlabel("epsilon", color=_GREY)
    handles = {}
    for ax in axes.flat:
        handles |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    names = [name for name in _STYLES if name in handles]
    figure.legend(
        [handles[name] for name in names],
        names,
        loc="outside upper center",
        ncols=len(names),
        frameon=False,
    )
    figure.savefig(file, dpi=150)
    plt.close(figure)


def _panel(ax: Axes, title: str, cells: dict, epsilons: list[float]) -> None:
    for name, style in _STYLES.items():
        losses = [1 - cell.values for cell in cells[name]]
        kept = [i for i, values in enumerate(losses) if len(values) > 1]
        if kept:
            mean = np.array([max(losses[i].mean(), _SMALLEST) for i in kept])
            error = np.array([losses[i].std(ddof=1) / np.sqrt(len(losses[i])) for i in kept])
            x = np.array(epsilons)[kept]
            style = {"linewidth": 1.5, "markersize": 5, **style}
            ax.plot(x, mean, label=name, **style)
            band = (np.maximum(mean - 2 * error, mean / 3), mean + 2 * error)
            ax.fill_between(x, *band, color=style["color"], alpha=0.15, linewidth=0)
    ax.set_title(title, fontsize=10, loc="left")
    ax.set(xscale="log", yscale="log")
    ax.xaxis.set_major_locator(FixedLocator(epsilons))
    ax.xaxis.set_major_formatter(FixedFormatter([f"{epsilon:g}" for epsilon in epsilons]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.grid(axis="y", color="#e4e6e8", linewidth=0.8)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(colors=_GREY, labelsize=8.5)
    notes = [_note(name, cells[name], epsilons) for name in cells]
    ax.text(
        *(0.03, 0.03, "\n".join(filter(None, notes))),
        transform=ax.transAxes,
        fontsize=8,
        color=_GREY,
        bbox={"color": "white", "pad": 1.5},
    )


def _note(name: str, cells: list, epsilons: list[float]) -> str:
    """Say from which epsilon on there is no answer."""
    silent = [i for i, cell in enumerate(cells) if cell.note]
    if not silent:
        return ""
    start = f" from {epsilons[silent[0]]:g} on" if silent[0] > 0 else ""
    return f"{name}: {cells[silent[0]].note}{start}"
