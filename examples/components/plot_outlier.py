"""
What one row can do, and what it cannot
=======================================

A private PCA clips rows, so that one huge row cannot turn the first axis.

One huge row, a slip of the decimal point, can turn the first principal axis wherever it likes. A
private PCA must not let any row do much, so it is robust against this without being asked. The
reason is clipping: a row longer than ``row_norm`` is scaled down to it. That has a price too, and
the end of this page measures it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone
from sklearn.decomposition import PCA

from skdp import DPPCA

# %%
# Rows, and one that went wrong
# -----------------------------
# Two thousand rows in the plane, with a standard deviation of 2 along the horizontal axis and .6
# along the other. The seed draws the rows; it seeds no noise.

spreads = np.array([2.0, 0.6])
X = np.random.default_rng(0).normal(size=(2_000, 2)) * spreads
outlier = np.array([20.0, 120.0])


def with_outlier(size):
    """The rows, the last of which is replaced by one in the direction of the outlier."""
    return np.vstack([X[:-1], outlier * size / np.linalg.norm(outlier)])


def tilt(estimator):
    """Angle of the first component to the horizontal axis, in degrees."""
    x, y = estimator.components_[0]
    return np.degrees(np.arctan2(abs(y), abs(x)))


# %%
# Both ways
# ---------
# The bound of 4 is what one would guess for rows with these two spreads, most of which are shorter.
# ``random_state`` stays ``None``: noise is fresh in every fit, and the private angles vary by a
# fraction of a degree.

private = DPPCA(1, epsilon=1.0, delta=1e-6, mean_norm=4.0, row_norm=4.0)
bad = with_outlier(np.linalg.norm(outlier))
print("tilt of the first axis         without  with the outlier")
for name, estimator in [("PCA", PCA(1)), ("DPPCA", private)]:
    tilts = [tilt(clone(estimator).fit(rows)) for rows in (X, bad)]
    print("{:<30}{:7.1f}  {:16.1f}".format(name, *tilts))

# %%
# The outlier still counts, as any row does, with a length of at most 4. It is worth its place on
# the circle in the left picture, and no more, however far out it lies. The noise of the private
# fit is made to hide such a row: at ``epsilon=1`` it is some four times what any row can do. So the
# dots in the right picture are scattered by noise, and nothing else moves them.

sizes = np.geomspace(1, 1000, 25)
tilts = {
    "PCA": [tilt(PCA(1).fit(with_outlier(size))) for size in sizes],
    "DPPCA": [tilt(clone(private).fit(with_outlier(size))) for size in sizes],
}

# %%
# What clipping costs
# -------------------
# Clipping is not free of harm. Without noise (``epsilon=inf``) its own effect shows: rows lose
# length, so variances come out too small, first those of the long directions. A very small bound
# keeps the axis, but hardly anything of the variance. A large bound keeps both, and pays in noise:
# its scale, relative to the first variance, is in the last column.

print("row_norm  rows clipped  variance kept  tilt  noise / variance")
for row_norm in [0.5, 1.0, 2.0, 4.0, 8.0, 16.0]:
    clipped = clone(private).set_params(epsilon=np.inf, mean_norm=np.inf, row_norm=row_norm).fit(X)
    share = np.mean(np.linalg.norm(X - X.mean(axis=0), axis=1) > row_norm)
    kept = clipped.explained_variance_[0] / PCA(1).fit(X).explained_variance_[0]
    spent = clone(private).set_params(row_norm=row_norm).fit(X).privacy_spent_
    noise = spent.releases[-1].noise_std / len(X) / clipped.explained_variance_[0]
    print(f"{row_norm:8g}  {share:12.0%}  {kept:13.0%}  {tilt(clipped):4.1f}  {noise:16.1%}")

# %%
# The axis survives here because the cloud is symmetric: clipping shortens rows, and leaves them
# their directions. If a direction shows in a few long rows only, clipping hides it. That is not a
# defect. A direction that a few rows make is what a private fit must not show.

blue, red, gray = "#1f5fa8", "#c8452d", "#5f6368"

# sphinx_gallery_alt = "Left: points, a circle, and one outlier that turns the first axis of PCA and not that of DPPCA. Right: the tilt of PCA jumps to 80 degrees as the outlier moves away, that of DPPCA stays near 0."
fig, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.6), layout="constrained")
left.plot(*X[::2].T, ".", color="#b9c4d0", markersize=4, markeredgewidth=0)
left.add_patch(plt.Circle((0, 0), private.row_norm, fill=False, color=gray, linestyle="--"))
on_circle = outlier * private.row_norm / np.linalg.norm(outlier)
left.annotate(
    "",
    on_circle,
    2.1 * on_circle,
    arrowprops={"arrowstyle": "-|>", "color": gray, "linewidth": 1.6},
)
left.plot(*on_circle, "D", color=gray, markersize=8, zorder=4)
left.text(
    1.6,
    7.4,
    "a row at distance 122 counts as\none on the circle, row_norm = 4",
    color=gray,
    va="center",
)
for estimator, color, length in [(PCA(1), red, 5.6), (clone(private), blue, 7.4)]:
    axis = estimator.fit(bad).components_[0] * np.sign(estimator.components_[0, 0])
    left.plot(*np.outer(axis, [-length, length]), color=color, linewidth=3)
left.text(7.6, 0.5, "DPPCA", color=blue, ha="right")
left.text(1.1, 2.6, "PCA", color=red)
left.set_xlim(-8, 8.6)
left.set_ylim(-6.4, 8.6)
left.set_aspect("equal")
left.axis("off")
left.set_title("First axis, with the outlier", loc="left", pad=12, weight="bold")

right.plot(sizes, tilts["PCA"], color=red, linewidth=2.4)
right.plot(sizes, tilts["DPPCA"], "o", color=blue, markersize=6)
right.text(55, 60, "PCA", color=red, ha="right")
right.text(1000, 5, "DPPCA, epsilon = 1", color=blue, ha="right")
right.set_xscale("log")
right.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1000"])
right.minorticks_off()
right.set_yticks([0, 30, 60, 90], ["0°", "30°", "60°", "90°"])
right.set_ylim(-1, 93)
right.set_xlabel("distance of one row out of 2000")
right.set_title("How far the first axis tilts", loc="left", pad=12, weight="bold")
right.grid(axis="y", color="#e4e6e8", linewidth=0.8)
right.set_axisbelow(True)
right.spines[["top", "right", "left"]].set_visible(False)
right.tick_params(length=0, pad=6)
fig.savefig("plot_outlier.png", dpi=150)
print("Wrote plot_outlier.png")
