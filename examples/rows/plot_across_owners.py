"""
Rows of several owners
======================

Fit components to the rows of several owners, none of whom shows a row.

Hospitals, banks or phones have rows that may not leave them, and would all like the components of
the rows of everybody. This example divides scikit-learn's digits among more and more owners and
compares three ways to go about it.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter
from sklearn.datasets import load_digits

from skdp import DPTruncatedSVD, PrivacyWarning
from skdp.federated import Federation

X = load_digits().data
svd = DPTruncatedSVD(5, epsilon=1.0, row_norm=62.0, solver="covariance")
n_repeats = 2
best = np.sum(np.linalg.svd(X, compute_uv=False)[:5] ** 2)


def captured(model):
    """Sum of squares of all rows along the components, over that along the best ones."""
    return np.sum((X @ model.components_.T) ** 2) / best


# %%
# Three ways
# ----------
# - *Masked sums.* All owners run one fit. Each adds a share of the noise to its part of a sum, and
#   masks hide all but the sum of all parts.
# - *The local model.* There are no masks, so that each owner has to add all of the noise to its
#   part. The sum then has this noise once for each owner.
# - *Each owner alone* fits its own rows and shows its model. The points are means over the owners.
#
# All of them protect one row, at an epsilon of 1.


def all_owners(parts, aggregator):
    """Fit the rows of all owners, and show them to nobody."""
    federation = Federation(svd, *X.shape, owners=len(parts), aggregator=aggregator)
    return captured(federation.fit(parts))


numbers = [2, 4, 8, 16]
curves = {"masked sums": [], "local model": [], "each owner alone": []}
with warnings.catch_warnings():
    warnings.simplefilter("ignore", PrivacyWarning)  # components drown: that is what is studied
    for number in numbers:
        parts = [X[i::number] for i in range(number)]
        for name, aggregator in [("masked sums", "masked"), ("local model", "none")]:
            curves[name].append(np.mean([all_owners(parts, aggregator) for _ in range(n_repeats)]))
        curves["each owner alone"].append(np.mean([captured(svd.fit(part)) for part in parts]))
    central = np.mean([captured(svd.fit(X)) for _ in range(10)])
print(f"{'all rows in one place':22}{central:.1%}")
for name, values in curves.items():
    print(f"{name:22}" + "".join(f"{value:8.1%}" for value in values))

# %%
# What masks are worth
# --------------------
# With masked sums it hardly matters that rows have many owners. One of them may tell all it
# knows, its own noise included, and so the noise is sqrt(s / (s - 1)) times that of one fit to
# all rows, with s owners. In the local model it is sqrt(s) times that: the same for two owners, who
# can take their own part off a sum, and much more for many. An owner alone has s times fewer rows
# for the same noise.

style = {
    "masked sums": ("#1f5fa8", "o", (8, -8)),
    "local model": ("#c8452d", "s", (8, 0)),
    "each owner alone": ("#5f6368", "^", (8, 0)),
}
# sphinx_gallery_alt = "Captured variance against the number of owners: with masked sums it stays near that of all rows in one place, in the local model it falls slowly, for each owner alone it falls fast."
fig, ax = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
ax.axhline(central, color="#9aa0a6", linewidth=1, linestyle=":")
ax.text(2, central + 0.006, "all rows in one place", color="#5f6368")
for name, values in curves.items():
    color, marker, offset = style[name]
    ax.plot(numbers, values, color=color, marker=marker, markersize=6, linewidth=2)
    end = (numbers[-1], values[-1])
    ax.annotate(name, end, offset, textcoords="offset points", color=color, va="center")
ax.set_xscale("log", base=2)
ax.set_xticks(numbers, [str(number) for number in numbers])
ax.set_xlim(1.85, 34)
ax.set_ylim(None, 1)
ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
ax.grid(axis="y", color="#e4e6e8", linewidth=0.8)
ax.set_axisbelow(True)
ax.spines[["top", "right", "left"]].set_visible(False)
ax.tick_params(length=0, pad=6)
ax.set_xlabel("owners of the 1797 digits")
ax.set_title("Captured of what the best five components hold", loc="left", pad=14, weight="bold")
fig.savefig("plot_across_owners.png", dpi=150)
print("Wrote plot_across_owners.png")
