"""
A private PCA before a classifier
=================================

Tuning a model reads the data many times, and every time costs privacy. This example tunes on rows
that are declared public, and then fits the private rows once. It ends with a picture of what
privacy costs in accuracy.

The data are scikit-learn's digits: 8 x 8 pixels with values from 0 to 16. Imagine that each of them
was written by a different person.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.random_projection import GaussianRandomProjection

from skdp import DPPCA, PrivacyWarning
from skdp.model_selection import epsilon_curve, matched_noise, search_cost

X, y = load_digits(return_X_y=True)

# %%
# Declare a part public
# ---------------------
# Eight hundred rows are declared public: think of volunteers, or of older data that are
# published already. Nothing is promised for them. The rest is private, labels included, and one
# line of this example reads it.

X_public, X_private, y_public, _ = train_test_split(X, y, train_size=800, random_state=0)

# %%
# A bound on the norm of a row limits what one row can do to the result, and so decides how much
# noise is needed. It must not come from private rows. Here both bounds come from the public
# ones: 95% of those stay within, and any longer row is scaled down. The median would do as well.

mean_norm = np.quantile(np.linalg.norm(X_public, axis=1), 0.95)
row_norm = np.quantile(np.linalg.norm(X_public - X_public.mean(axis=0), axis=1), 0.95)
print(f"{len(X_public)} public rows, {len(X_private)} private rows")
print(f"mean_norm={mean_norm:.1f} before centering, row_norm={row_norm:.1f} after")

# %%
# How much epsilon
# ----------------
# More epsilon always scores better; the question is what each one buys. A curve from public rows
# tells. Its fits have the noise, beside what they learn, that the private fit will have: not the
# same epsilon, which among fewer rows is far more noise, but matched noise.
#
# ``random_state`` of ``DPPCA`` stays ``None``: the noise is fresh in every fit, so the numbers
# change a little from run to run. The fixed seeds on this page split rows. They seed no noise.

warnings.simplefilter("ignore", PrivacyWarning)  # of components that drown, as some will here
pipeline = make_pipeline(
    DPPCA(5, delta=1e-6, mean_norm=mean_norm, row_norm=row_norm), LinearDiscriminantAnalysis()
)
epsilons = np.array([0.125, 0.25, 0.5, 1.0, 2.0, 4.0])
curve = epsilon_curve(
    pipeline, X_public, y_public, epsilons=epsilons, n_samples=len(X_private), random_state=0
)
print("epsilon  accuracy  spread")
for epsilon, mean, spread in zip(epsilons, curve.mean, curve.std, strict=True):
    print(f"{epsilon:7g}  {mean:8.3f}  {spread:6.3f}")

# %%
# The smallest epsilon that comes within five points of the best will do.

epsilon = epsilons[curve.mean >= curve.mean.max() - 0.05].min()
print(f"epsilon={epsilon:g}")

# %%
# Search on the public part
# -------------------------
# The other settings are searched as always, at matched noise, too. With five folds a fit gets four
# fifths of the public rows.

n_folds = 5
folds = KFold(n_folds, shuffle=True, random_state=0)
planned = clone(pipeline).set_params(dppca__epsilon=epsilon)
n_public = len(X_public) * (n_folds - 1) // n_folds
grid = {"dppca__n_components": [2, 3, 5, 8]}
search = GridSearchCV(
    matched_noise(planned, n_samples=len(X_private), n_public=n_public), grid, cv=folds
).fit(X_public, y_public)

print("n_components  accuracy")
for settings, score in zip(
    search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
):
    chosen = "  <- chosen" if settings == search.best_params_ else ""
    print(f"{settings['dppca__n_components']:12d}  {score:8.3f}{chosen}")

# %%
# What that would have cost on private rows
# -----------------------------------------
# For every candidate a row is in the training part of most folds, and in the end once more in the
# refit. Each of these fits is a release.

print(search_cost(GridSearchCV(planned, grid, cv=folds), len(X_private), X.shape[1]))

# %%
# It is not even the whole price. It pays for the fits of ``DPPCA`` alone. The classifiers and the
# scores are noise-free functions of the rows: no epsilon covers them, nor a choice that was made by
# looking at them. On public rows all of this costs nothing.
# :class:`skdp.model_selection.DPGridSearch` is for when there are none.
#
# One private fit
# ---------------
# The chosen settings come from public rows, so they cost nothing. This is the line that reads
# the private rows.

pca = clone(planned["dppca"]).set_params(n_components=search.best_params_["dppca__n_components"])
pca.fit(X_private)
print(pca.privacy_spent_)

# %%
# The components are covered by the guarantee. A classifier trained on *private* rows would not
# be, however private the components before it: it would see ``pca.transform(X_private)``, a
# noise-free function of those rows. So the classifier learns from public rows, projected on the
# private components. All of ``model`` may be published, and so may its score on public rows.
#
# These public rows are so much like the private ones that they would do alone. In practice the
# public part is often small, or old, or from elsewhere.

coordinates = pca.transform(X_public)
model = make_pipeline(pca, LinearDiscriminantAnalysis().fit(coordinates, y_public))
accuracy = cross_val_score(LinearDiscriminantAnalysis(), coordinates, y_public, cv=folds).mean()
print(f"epsilon={pca.epsilon:g}, {pca.n_components_} components, accuracy {accuracy:.3f}")

# %%
# Accuracy against epsilon
# ------------------------
# The same curve with the settings that were chosen. Two lines frame it: PCA without privacy, and
# axes drawn at random, which is what remains when nothing but noise is left.

chosen = make_pipeline(clone(pca), LinearDiscriminantAnalysis())
curve = epsilon_curve(
    chosen, X_public, y_public, epsilons=epsilons, n_samples=len(X_private), random_state=0
)


def accuracy_of(reducer):
    steps = make_pipeline(reducer, LinearDiscriminantAnalysis())
    return cross_val_score(steps, X_public, y_public, cv=folds).mean()


without_privacy = accuracy_of(PCA(pca.n_components_))
random_axes = np.mean([accuracy_of(GaussianRandomProjection(pca.n_components_)) for _ in range(6)])
print("epsilon  accuracy  spread")
for one, mean, spread in zip(epsilons, curve.mean, curve.std, strict=True):
    print(f"{one:7g}  {mean:8.3f}  {spread:6.3f}")
print(f"   none  {without_privacy:8.3f}          PCA without privacy")
print(f"         {random_axes:8.3f}          random axes")

# %%
# The star is the private fit above. It is beside the curve, which was known before it.

blue, red, gray = "#1f5fa8", "#c8452d", "#5f6368"

fig, ax = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
ax.axhline(without_privacy, color=gray, linestyle="--", linewidth=1.2)
ax.axhline(random_axes, color=gray, linestyle=":", linewidth=1.4)
ax.text(0.11, without_privacy + 0.006, "PCA without privacy, public rows", color=gray)
ax.text(4.6, random_axes + 0.004, "axes drawn at random", color=gray, ha="right")

ax.errorbar(
    epsilons,
    curve.mean,
    yerr=curve.std,
    color=blue,
    linewidth=2,
    elinewidth=1.4,
    capsize=3,
    marker="o",
    label="told by public rows, mean and spread of ten splits",
)
ax.plot(
    pca.epsilon,
    accuracy,
    "*",
    color=red,
    markersize=19,
    markeredgecolor="white",
    zorder=4,
    label=f"the one private fit, {len(X_private)} rows",
)
ax.legend(loc="lower right", bbox_to_anchor=(1.01, 0.0), edgecolor="white", framealpha=1)

ax.set_xscale("log", base=2)
ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
ax.set_xlim(0.105, 4.8)
ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
ax.margins(y=0.09)
ax.grid(axis="y", color="#e4e6e8", linewidth=0.8)
ax.set_axisbelow(True)
ax.spines[["top", "right", "left"]].set_visible(False)
ax.tick_params(length=0, pad=6)
ax.set_xlabel("epsilon: more privacy on the left, at delta = 1e-6")
ax.set_title(
    f"Accuracy on digits through {pca.n_components_} private components",
    loc="left",
    pad=14,
    weight="bold",
)
fig.savefig("quickstart.png", dpi=150)
print("Wrote quickstart.png")
