"""
How many components? Error bars known in advance
================================================

See in a private scree plot where components end and noise begins.

A scree plot shows where the components end and the rest begins. With a private PCA it also shows
where the *noise* begins. How much noise there is follows from the settings, so that the error bars
and the limit below which nothing can be seen are known before the fit, exactly, and publicly.

The data are scikit-learn's digits, 1797 rows of 64 pixels. Imagine one person a row.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from skdp import DPPCA, PrivacyWarning
from skdp.privacy import PrivacyCost

X = load_digits().data
n_samples, n_features = X.shape

# %%
# Before the fit
# --------------
# The bounds come from what is known of such images: pixels go from 0 to 16, and a quarter of them
# is ink. One row of norm ``row_norm`` can move the matrix of second moments by ``sensitivity``. The
# noise is in proportion to that, and follows from the share of the budget that the mean leaves. A
# released variance then has an error of standard deviation ``error``. And a direction is visible
# only if its variance is above ``edge``: below that, the noise itself has larger eigenvalues.

settings = {"epsilon": 2.0, "delta": 1e-6}
row_norm = 40.0
sensitivity = np.sqrt(2) * row_norm**2
mean_share = 0.15

noise_std = PrivacyCost(**settings).noise_std("symmetric_gaussian", sensitivity, 1 - mean_share)
error = noise_std / (n_samples - 1)
edge = error * np.sqrt(n_features / 2)
print(f"known in advance: error {error:.2f}, edge {edge:.1f}")

# %%
# The fit
# -------
# ``n_components=None`` keeps the whole spectrum. It costs no more than one component would:
# what is released is the matrix, and everything else is computed from it. skdp warns that most of
# 64 components are noise. That is no news here, so the warning is silenced. The record confirms
# the scale.

pca = DPPCA(n_components=None, mean_norm=64.0, row_norm=row_norm, **settings)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", PrivacyWarning)
    pca.fit(X)
released = pca.privacy_spent_.releases[-1]
print(f"on the record:    error {released.noise_std / (n_samples - 1):.2f}")

# %%
# The choice
# ----------
# The noise is fresh in every run, so what follows varies a little. Take the components that are
# two standard deviations above the edge. This is a rule about released values, so it is free. Do
# not fit again with the number that was found: that would be a second release, and the components
# are there already.

variances = pca.explained_variance_
n_kept = int(np.sum(variances - 2 * error > edge))
components = pca.components_[:n_kept]
print(f"{n_kept} components are two standard deviations above the edge")

# %%
# How well that went
# ------------------
# Nobody else can look behind the noise, but digits are public. Here are the private components
# against the exact ones: the share of each that lies in the span of the exact components kept.
# A component far above the edge is sound, and one close to it is mostly noise.

exact = PCA().fit(X)
print("component  released  exact variance  in the exact span")
for i, component in enumerate(components):
    share = np.sum((exact.components_[:n_kept] @ component) ** 2)
    print(f"{i + 1:9d}  {variances[i]:8.0f}  {exact.explained_variance_[i]:14.0f}  {share:17.0%}")

# %%
# The picture
# -----------
# A bar covers the exact variance some 19 times out of 20, as two standard deviations should. Close
# to the gray band it does so less often, since there the noise bends what it does not hide.

blue, red, gray = "#1f5fa8", "#c8452d", "#5f6368"
numbers = np.arange(1, 19)
kept, dropped = numbers[:n_kept], numbers[n_kept:]

# sphinx_gallery_alt = "Variances of 18 components of digits fall from left to right. Ten stand out of a gray band of noise, with error bars that hold the values without privacy."
fig, ax = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
ax.axhspan(0, edge, color="#eceef0", zorder=0)
ax.text(0.7, edge / 2, "what is in here drowns in noise", color=gray, va="center")
ax.plot(numbers, exact.explained_variance_[:18], "_", color=red, markersize=17, markeredgewidth=2.6)
dots = {"color": blue, "marker": "o", "markersize": 8, "linestyle": "none", "zorder": 3}
ax.errorbar(kept, variances[:n_kept], 2 * error, capsize=4, elinewidth=1.8, **dots)
ax.plot(dropped, variances[n_kept:18], markerfacecolor="white", markeredgewidth=1.6, **dots)

pointer = {"arrowstyle": "-", "shrinkA": 3, "shrinkB": 5}
ax.annotate(
    f"released: {n_kept} components stand out,\nwith two standard deviations",
    xy=(2, variances[1]),
    xytext=(4.2, 176),
    color=blue,
    va="center",
    arrowprops={**pointer, "color": blue},
)
ax.annotate(
    "without privacy",
    xy=(4.3, exact.explained_variance_[3]),
    xytext=(5.6, 124),
    color=red,
    va="center",
    arrowprops={**pointer, "color": red},
)
ax.set_xlim(0.4, 18.8)
ax.set_ylim(0, 205)
ax.set_xticks([1, 3, 6, 9, 12, 15, 18])
ax.grid(axis="y", color="#e4e6e8", linewidth=0.8)
ax.set_axisbelow(True)
ax.spines[["top", "right", "left"]].set_visible(False)
ax.tick_params(length=0, pad=6)
ax.set_xlabel("component")
ax.set_title(f"Variances of digits at epsilon = {pca.epsilon:g}", loc="left", pad=14, weight="bold")
fig.savefig("plot_number_of_components.png", dpi=150)
print("Wrote plot_number_of_components.png")
