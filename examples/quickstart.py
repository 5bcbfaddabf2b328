"""
A private classifier
====================

A few rows are public, and tell what each epsilon buys. Then the private rows are fitted once,
labels included, and everything that comes out may be published. A picture shows what privacy costs
in accuracy.

The data are scikit-learn's digits: 8 x 8 pixels with values from 0 to 16. Imagine that each of them
was written by a different person.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_score, train_test_split

from skdp import DPLogisticRegression, PrivacyWarning
from skdp.model_selection import epsilon_curve

X, y = load_digits(return_X_y=True)

# %%
# Declare a part public
# ---------------------
# Six hundred rows are declared public: think of volunteers, or of older data that are published
# already. Nothing is promised for them. The rest is private, labels included, and one line of this
# example reads it.

X_public, X_private, y_public, y_private = train_test_split(X, y, train_size=600, random_state=0)

# %%
# A bound on the norm of a row limits what one row can do to the result, and so decides how much
# noise is needed. It must not come from private rows. Here it is the median of the public ones, and
# any longer row is scaled down. Which labels there may be is public, too: the ten digits.

row_norm = np.median(np.linalg.norm(X_public, axis=1))
planned = DPLogisticRegression(classes=range(10), delta=1e-6, row_norm=row_norm)
print(f"{len(X_public)} public rows, {len(X_private)} private rows, row_norm={row_norm:.1f}")

# %%
# How much epsilon
# ----------------
# More epsilon always scores better; the question is what each one buys. A curve from public rows
# tells. Its fits have the noise, beside what they learn, that the private fit will have: not the
# same epsilon, which among fewer rows is far more noise, but matched noise.
#
# ``random_state`` of the classifier stays ``None``: the noise is fresh in every fit, so the numbers
# change a little from run to run. The fixed seeds on this page split rows. They seed no noise.

warnings.simplefilter("ignore", PrivacyWarning)  # of few records for so many pixels
epsilons = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 8.0])
curve = epsilon_curve(
    planned, X_public, y_public, epsilons=epsilons, n_samples=len(X_private), random_state=0
)
print("epsilon  accuracy  spread")
for one, mean, spread in zip(epsilons, curve.mean, curve.std, strict=True):
    print(f"{one:7g}  {mean:8.3f}  {spread:6.3f}")

# %%
# The smallest epsilon that comes within ten points of the best will do. What the fit is going to
# release is known before it: one matrix, and then a gradient for each step.

epsilon = epsilons[curve.mean >= curve.mean.max() - 0.1].min()
planned.set_params(epsilon=epsilon)
plan = planned.plan(n_samples=len(X_private), n_features=X.shape[1])
print(f"epsilon={epsilon:g}, {len(plan.releases)} releases")

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
# elsewhere: enough to choose settings, and too little to learn from.
#
# To choose on private rows would have cost far more: every fit on every fold is a release, and the
# scores are noise-free functions of the rows, which no epsilon covers.
# :class:`skdp.model_selection.DPGridSearch` is for when there are no public rows.
#
# Accuracy against epsilon
# ------------------------
# The star is the private fit. It tends to lie a little above the curve, which has the same noise
# and fewer rows to learn from. Dashed is what public rows come to by themselves, without privacy.

without_privacy = cross_val_score(
    LogisticRegression(C=10), X_public, y_public, cv=KFold(5, shuffle=True, random_state=0)
).mean()
print(f"without privacy, public rows: accuracy {without_privacy:.3f}")

blue, red, gray = "#1f5fa8", "#c8452d", "#5f6368"

fig, ax = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
ax.axhline(without_privacy, color=gray, linestyle="--", linewidth=1.2)
ax.text(0.22, without_privacy + 0.012, "without privacy, public rows", color=gray)

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
ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
ax.set_xlim(0.21, 9.6)
ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
ax.margins(y=0.09)
ax.grid(axis="y", color="#e4e6e8", linewidth=0.8)
ax.set_axisbelow(True)
ax.spines[["top", "right", "left"]].set_visible(False)
ax.tick_params(length=0, pad=6)
ax.set_xlabel("epsilon: more privacy on the left, at delta = 1e-6")
ax.set_title("Accuracy of a private classifier on digits", loc="left", pad=14, weight="bold")
fig.savefig("quickstart.png", dpi=150)
print("Wrote quickstart.png")
