"""Curves of `errors.py`, with the rates of the paper."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from benchmarks.figures import BLACK, GRAY, OURS, VERMILION, curve, frame, mark, save
from benchmarks.report import Values
from benchmarks.trace_regression.measures import EPSILONS, SIDES, SIZES, VALUES

__all__ = ["draw"]

_STYLES = {
    "skdp": {"label": "skdp", **OURS},
    "constant clipping": {"label": "constant clipping", "color": VERMILION, "marker": "s"},
    "no privacy": {"label": "no privacy", "color": BLACK, "marker": "x"},
}
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
        ax.set_xlabel(label, color=GRAY)
    axes[0].set_ylabel("error, Frobenius norm", color=GRAY)
    save(figure, axes, file, n_columns=4)


def _panel(ax: Axes, values: Values, x: tuple, rates: tuple[float, ...]) -> None:
    rows = [f"{at:g}" if isinstance(at, float) else str(at) for at in x]
    for name, style in _STYLES.items():
        found = np.array([values[row, name] for row in rows])
        low, middle, high = np.quantile(found, [0.25, 0.5, 0.75], axis=1)
        curve(ax, x, middle, low, high, **style)
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
        color=GRAY,
        fontsize=8.5,
    )


def _frame(ax: Axes, ticks: list) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_ylim(0.0035, 0.2)
    mark(ax.xaxis, ticks)
    mark(ax.yaxis, _ERRORS)
    frame(ax)
