"""
A map of private rows
=====================

Show where rows lie on two components, without a dot for anybody.

The usual picture of a PCA is a scatter plot of its scores. It has a dot for each row, and must not
be published, however private the components are. Counts in the cells of a grid may be, with noise:
one row moves two of them by one.
"""

import matplotlib.pyplot as plt
import numpy as np

from skdp import DPPCA
from skdp.display import ScoreHistogramDisplay, score_histogram

# %%
# The rows
# --------
# Twenty thousand customers of a shop, made up: how often they buy in ten departments. Each has one of
# three tariffs.

rng = np.random.default_rng(0)
tariffs = np.array(["basic", "family", "gold"])
tariff = rng.choice(tariffs, size=20_000, p=[0.5, 0.3, 0.2])
habits = {name: rng.gamma(1.0, 3.0, size=10) for name in tariffs}
X = rng.poisson([habits[name] for name in tariff] * rng.gamma(6, 1 / 6, size=(20_000, 1)))

# %%
# The components
# --------------
# Square roots tame counts. The bounds come from what the shop knows of a year: some 30 purchases.

X = np.sqrt(X)
pca = DPPCA(2, epsilon=1.0, mean_norm=np.sqrt(30), row_norm=4).fit(X)

# %%
# The counts
# ----------
# The edges of the cells follow what the PCA has released, and no row: they are set in standard
# deviations of each component. The outer cells have no end, so that each row is in one cell. All
# tariffs that there may be are public. Who has which is protected, together with the row.

histogram = score_histogram(pca, X, groups=tariff, classes=tariffs, n_bins=20)
print(histogram)

# %%
# What both have cost
# -------------------
# The same rows are in both, so that the costs add up: squares of mu, and less than epsilons. A record
# is a row with its tariff.

both = pca.privacy_spent_.compose(histogram.privacy_spent, same_unit=True)
print(f"epsilon = {both.epsilon:.2f} in all")

# %%
# The pictures
# ------------
# A cell has the color of its largest group, and is the darker the more rows of it there are. Cells
# that may be noise are left out, so that single rows far from all others are not seen: this is what
# the promise is about. **The left picture is not private.** It shows the owner of the rows what the
# right one is made of.

# sphinx_gallery_alt = "Left, not private: a cloud of dots in three colors, many of them alone at its rim. Right: a grid of cells in the colors of the same clouds, dark in their middles, without single dots."
fig, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.4), layout="constrained")
scores = pca.transform(X)
for number, name in enumerate(tariffs):
    left.plot(*scores[tariff == name].T, ".", color=f"C{number}", markersize=1)
ScoreHistogramDisplay.from_histogram(histogram, ax=right)
left.set(xlim=right.get_xlim(), ylim=right.get_ylim(), xlabel="component 1", ylabel="component 2")
left.set_title("Not private: a dot a row", loc="left", weight="bold", color="#c8452d")
right.set_title(
    f"Private: epsilon = {histogram.privacy_spent.epsilon:g}", loc="left", weight="bold"
)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
fig.savefig("plot_scores.png", dpi=150)
print("Wrote plot_scores.png")
