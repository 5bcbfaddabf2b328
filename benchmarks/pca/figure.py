"""The table of `comparison.py` as a figure: one panel for each table of rows."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from benchmarks.figures import (
    BLACK,
    GRAY,
    GREEN,
    ORANGE,
    OURS,
    PURPLE,
    VERMILION,
    curve,
    frame,
    mark,
    save,
)
from benchmarks.report import standard_error

__all__ = ["draw"]

_STYLES = {
    "skdp": OURS,
    "Analyze Gauss, exact": {"color": VERMILION, "marker": "s"},
    "Analyze Gauss, classic": {"color": ORANGE, "marker": "D"},
    "power method, published": {"color": GREEN, "marker": "^"},
    "diffprivlib": {"color": PURPLE, "marker": "v", "linestyle": "--", "zorder": 6},
    "OpenDP": {"color": BLACK, "marker": "x", "linestyle": "--", "zorder": 7},
}
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
        ax.set_ylabel("variance missed (lower is better)", color=GRAY)
    for ax in axes[-1]:
        ax.set_xlabel("epsilon", color=GRAY)
    save(figure, axes.flat, file, order=list(_STYLES))


def _panel(ax: Axes, title: str, cells: dict, epsilons: list[float]) -> None:
    for name, style in _STYLES.items():
        losses = [1 - cell.values for cell in cells[name]]
        kept = [i for i, values in enumerate(losses) if len(values) > 1]
        if kept:
            mean = np.array([max(losses[i].mean(), _SMALLEST) for i in kept])
            error = np.array([standard_error(losses[i]) for i in kept])
            x = np.array(epsilons)[kept]
            band = (np.maximum(mean - 2 * error, mean / 3), mean + 2 * error)
            curve(ax, x, mean, *band, label=name, **style)
    ax.set_title(title, fontsize=10, loc="left")
    ax.set(xscale="log", yscale="log")
    mark(ax.xaxis, epsilons)
    frame(ax)
    notes = [_note(name, cells[name], epsilons) for name in cells]
    ax.text(
        *(0.03, 0.03, "\n".join(filter(None, notes))),
        transform=ax.transAxes,
        fontsize=8,
        color=GRAY,
        bbox={"color": "white", "pad": 1.5},
    )


def _note(name: str, cells: list, epsilons: list[float]) -> str:
    """Say from which epsilon on there is no answer."""
    silent = [i for i, cell in enumerate(cells) if cell.note]
    if not silent:
        return ""
    start = f" from {epsilons[silent[0]]:g} on" if silent[0] > 0 else ""
    return f"{name}: {cells[silent[0]].note}{start}"
