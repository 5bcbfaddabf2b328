"""
From raw rows to a private classifier
=====================================

Fit a scaler and a classifier to rows in raw units under one epsilon, and publish both.

Rows come in raw units. A scaler and a classifier are fitted to them under one epsilon, labels
included, and everything that comes out may be published. A few public rows show before the fit what
each epsilon buys, and a picture shows what privacy costs in accuracy.

The data are made up: 3000 people of whom age, income, visits and the year of joining are known, and
whether they came again.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ShuffleSplit, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp import DPLogisticRegression, DPStandardScaler, PrivacyWarning, make_dp_pipeline
from skdp.model_selection import epsilon_curve

rng = np.random.default_rng(0)
age, income = rng.uniform(18, 90, 3000), rng.lognormal(10.4, 0.6, 3000)
visits, joined = rng.poisson(3, 3000), rng.integers(2005, 2025, 3000)
X = np.column_stack([age, income, visits, joined])
score = (age - 54) / 9 - (income - 39_000) / 12_000 + (visits - 3) / 0.6 - (joined - 2014.5) / 3
y = np.where(score + rng.logistic(size=3000) > 0, "yes", "no")

# %%
# Declare a part public
# ---------------------
# Five hundred rows are declared public: think of volunteers, or of older data that are published
# already. Nothing is promised for them. The rest is private, labels included, and one line of this
# example reads it.

X_public, X_private, y_public, y_private = train_test_split(X, y, train_size=500, random_state=0)

# %%
# One pipeline, one epsilon
# -------------------------
# Incomes are a thousand times as large as ages, and years are far from 0. The scaler brings all
# columns to one unit. Everybody knows between which ends a column lies, and which labels there may
# be. These facts must not come from private rows.

bounds = ([18, 0, 0, 2005], [90, 150_000, 10, 2024])
planned = make_dp_pipeline(
    DPStandardScaler(bounds=bounds), DPLogisticRegression(classes=["no", "yes"]), delta=1e-6
)

# %%
# How much epsilon
# ----------------
# A larger epsilon scores better. A curve from public rows shows how much better. Each public fit
# gets the noise-to-signal ratio of the private fit. At the same epsilon it would get far more
# noise, as it has fewer rows.
#
# ``random_state`` of the pipeline stays ``None``: the noise is fresh in every fit, so the numbers
# change a little from run to run. The fixed seeds on this page make and split rows. They seed no
# noise.

epsilons = np.array([1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2])
with warnings.catch_warnings():
    warnings.simplefilter("ignore", PrivacyWarning)  # the smallest epsilons are too small
    curve = epsilon_curve(
        planned, X_public, y_public, epsilons=epsilons, n_samples=len(X_private), random_state=0
    )
print("epsilon  accuracy  spread")
for one, mean, spread in zip(epsilons, curve.mean, curve.std, strict=True):
    print(f"{one:7g}  {mean:8.3f}  {spread:6.3f}")

# %%
# Beyond 1/2 more epsilon buys next to nothing. The promise here is 1. What the fit is going to
# release is known before it: for the scaler one table, with 15% of the budget (of the square of
# mu), and for the classifier a norm, a matrix, and a gradient in each step.

planned.set_params(epsilon=1.0)
plan = planned.plan(n_samples=len(X_private), n_features=4)
print(*str(plan).splitlines()[:6], "  ...", sep="\n")

# %%
# One private fit
# ---------------
# This is the line that reads the private rows.

model = clone(planned).fit(X_private, y_private)

# %%
# All of ``model`` may be published, and so may its score on public rows, which were not in the fit.
# Its score on private rows may not: no epsilon covers that.

accuracy = model.score(X_public, y_public)
spent = model.privacy_spent_
print(f"epsilon={spent.epsilon:g}, {len(spent.releases)} releases, accuracy {accuracy:.3f}")

# %%
# Here public rows alone would do as well. In practice they are often few, or old, or from
# elsewhere: enough to choose settings, and too little to learn from. With more columns privacy
# costs more: what matters is the number of records for each (:doc:`/user_guide/classification`).
#
# To choose on private rows would have cost far more: every fit on every fold is a release, and the
# scores are noise-free functions of the rows, which no epsilon covers.
# :class:`skdp.model_selection.DPGridSearch` is for when there are no public rows.
#
# Accuracy against epsilon
# ------------------------
# The star is the private fit. The curve has the same noise, and fewer rows to learn from. The
# dashed line is what public rows reach by themselves, without privacy.

exact = make_pipeline(StandardScaler(), LogisticRegression())
splits = ShuffleSplit(10, test_size=0.25, random_state=0)
without_privacy = cross_val_score(exact, X_public, y_public, cv=splits).mean()
print(f"without privacy, public rows: accuracy {without_privacy:.3f}")

blue, red, gray = "#1f5fa8", "#c8452d", "#5f6368"

# sphinx_gallery_alt = "Accuracy of a private classifier against epsilon rises from half at 1/32 to that without privacy, a dashed line; a star marks the one private fit, at an epsilon of 1."
fig, ax = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
ax.axhline(without_privacy, color=gray, linestyle="--", linewidth=1.2)
ax.text(0.027, without_privacy + 0.008, "without privacy, public rows", color=gray)

ax.errorbar(
    epsilons,
    curve.mean,
    yerr=curve.std,
    color=blue,
    linewidth=2,
    elinewidth=1.4,
    capsize=3,
    marker="o",
    label="predicted from public rows, mean and spread of ten splits",
)
ax.plot(
    model.epsilon,
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
ax.set_xticks(epsilons, [f"1/{1 / e:g}" if e < 1 else f"{e:g}" for e in epsilons])
ax.set_xlim(0.026, 2.4)
ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
ax.margins(y=0.09)
ax.grid(axis="y", color="#e4e6e8", linewidth=0.8)
ax.set_axisbelow(True)
ax.spines[["top", "right", "left"]].set_visible(False)
ax.tick_params(length=0, pad=6)
ax.set_xlabel("epsilon: more privacy on the left, at delta = 1e-6")
ax.set_title("Accuracy of a private classifier, from raw rows", loc="left", pad=14, weight="bold")
fig.savefig("quickstart.png", dpi=150)
print("Wrote quickstart.png")
