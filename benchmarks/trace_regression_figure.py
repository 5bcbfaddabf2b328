"""Curves of `trace_regression.py`, with the rates of the paper."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator
from trace_regression_measures import EPSILONS, SIDES, SIZES, VALUES, Values

__all__ = ["draw"]

# Colours of Okabe and Ito, which stay apart for colour-blind eyes; markers help in print.
_STYLES = {
    "skdp": {
        "label": "skdp",
        "color": "#0072B2",
        "marker": "o",
        "linewidth": 2.8,
        "markersize": 7,
        "zorder": 5,
    },
    "constant clipping": {
        "label": "constant clipping",
        "color": "#D55E00",
        "marker": "s",
    },
    "no privacy": {"label": "no privacy", "color": "#444444", "marker": "x"},
}
_GREY = "#5f6368"
_REFERENCE = "#8f959b"
_ERRORS = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2]


def draw(results: dict[str, Values], file: Path) -> None:
    """Draw errors against records, sides, the singular value, and epsilon."""
    figure, axes = plt.subplots(1, 4, figsize=(15, 4.3), sharey=True, layout="constrained")
    panels = (
        ("records", SIZES, "records n", "r 1, d 12, epsilon .3, noise .2", (-1.0, -0.5)),
        ("side", SIDES, "rows and columns d", "n 24,000, r 1, epsilon .5", (1.0, 0.5)),
        ("singular value", VALUES, "singular value", "n 32,000, d 12, epsilon 1", (1.0,)),
        ("epsilon", EPSILONS, "epsilon", "n 32,000, d 12, r 1", (-1.0,)),
    )
    for ax, (name, x, label, title, rates) in zip(axes, panels, strict=True):
        _panel(ax, results[name], x, rates)
        ax.set_title(title, fontsize=10, loc="left")
        ax.set_xlabel(label, color=_GREY)
    axes[0].set_ylabel("error, Frobenius norm", color=_GREY)
    handles = dict(zip(*reversed(axes[0].get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(file, dpi=150)
    plt.close(figure)


def _panel(ax: Axes, values: Values, x: tuple, rates: tuple[float, ...]) -> None:
    rows = [f"{at:g}" if isinstance(at, float) else str(at) for at in x]
    for name, style in _STYLES.items():
        found = np.array([values[row, name] for row in rows])
        low, middle, high = np.quantile(found, [0.25, 0.5, 0.75], axis=1)
        ax.plot(x, middle, **{"linewidth": 1.5, "markersize": 5, **style})
        ax.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
    fixed = np.array([np.median(values[row, "constant clipping"]) for row in rows])
    exact = np.array([np.median(values[row, "no privacy"]) for row in rows])
    for rate in rates:
        _reference(ax, np.array(x, dtype=float), exact if abs(rate) == 0.5 else fixed, rate)
    _frame(ax, list(x))


def _reference(ax: Axes, x: np.ndarray, near: np.ndarray, rate: float) -> None:
    """Draw a thin line of a slope beside the end of a curve where it is largest."""
    at = int(np.argmax(near))
    line = 1.15 * near[at] * (x / x[at]) ** rate
    shown = line > 0.8 * near.min()
    ax.plot(
        x[shown],
        line[shown],
        color=_REFERENCE,
        linestyle=":",
        linewidth=1.2,
        label="published rate",
    )
    # In the middle of the two points at the end that the line starts from.
    label = np.exp(np.log(np.stack([x, line])[:, [at, at + (1 if at == 0 else -1)]]).mean(axis=1))
    offset = (5, 3) if rate < 0 else (-5, 3)
    ax.annotate(
        f"{rate:g}",
        label,
        xytext=offset,
        textcoords="offset points",
        horizontalalignment="left" if rate < 0 else "right",
        color=_GREY,
        fontsize=8.5,
    )


def _frame(ax: Axes, ticks: list) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_ylim(0.0035, 0.2)
    for axis, shown in ((ax.xaxis, ticks), (ax.yaxis, _ERRORS)):
        axis.set_major_locator(FixedLocator(shown))
        axis.set_major_formatter(FixedFormatter([f"{tick:g}" for tick in shown]))
        axis.set_minor_locator(NullLocator())
    ax.grid(axis="y", color="#e4e6e8", linewidth=0.8)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(colors=_GREY, labelsize=8.5)
