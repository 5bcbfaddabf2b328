"""
Who loses first?
================

Compare what an epsilon costs large groups of people and small ones.

Noise is as large for a group of 200 people as for one of 8,800. So a score of all people hides
what privacy costs the few: before you publish a model, look at each group whose decisions it will
make, and at each class that is rare. The NIST guidelines for evaluating differential privacy
(SP 800-226, 2025) ask for this, too.

Here three groups of people follow different laws. One has 88% of the people, one 10%, and one 2%.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp import DPLogisticRegression, DPStandardScaler, PrivacyWarning, make_dp_pipeline

# %%
# The people
# ----------
# Three features, whose effect differs from group to group. Columns that are zero for all but one
# group let a linear model give each group a law of its own. Ten thousand people are in the fit;
# others show how often it is right.

names, parts = ["88%: 8,800 people", "10%: 1,000 people", "2%: 200 people"], [0.88, 0.10, 0.02]
slopes = np.array([[1.5, -1.0, 0.5], [-1.5, 1.0, 0.5], [1.0, 1.5, -1.0]])
offsets = np.array([0.0, 0.5, -0.5])
generator = np.random.default_rng(0)


def draw(n_people):
    group = generator.choice(3, size=n_people, p=parts)
    features = generator.normal(size=(n_people, 3))
    score = np.sum(features * slopes[group], axis=1) + offsets[group]
    y = score + generator.logistic(scale=0.5, size=n_people) > 0
    own = [(group == one)[:, None] * np.c_[np.ones(n_people), features] for one in (1, 2)]
    return np.hstack([features, *own]), y, group


X, y, _ = draw(10_000)
X_test, y_test, group = draw(40_000)


def accuracies(model):
    is_right = model.predict(X_test) == y_test
    return [is_right[group == one].mean() for one in range(3)]


# %%
# The fits
# --------
# Eight for each epsilon. Without privacy each group is predicted equally well.

epsilons, n_repeats = [1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8], 8
exact = accuracies(make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y))


def private(epsilon):
    classifier = DPLogisticRegression(classes=[False, True])
    return make_dp_pipeline(DPStandardScaler(), classifier, epsilon=epsilon).fit(X, y)


with warnings.catch_warnings():
    warnings.simplefilter("ignore", PrivacyWarning)
    means = np.array(
        [
            np.mean([accuracies(private(epsilon)) for _ in range(n_repeats)], axis=0)
            for epsilon in epsilons
        ]
    )

print("epsilon", *(f"{name:>18}" for name in names))
for epsilon, row in zip(epsilons, means, strict=True):
    print(f"{epsilon:7g}", *(f"{value:18.3f}" for value in row))
print("   none", *(f"{value:18.3f}" for value in exact))

# %%
# The large group loses nothing at any of these epsilons, and neither does the accuracy of all
# people together. The smallest group is hardly better than a coin at an epsilon of 1/8, and still
# behind at 8.

colors = ["#1f5fa8", "#5f6368", "#c8452d"]
# sphinx_gallery_alt = "Accuracy against epsilon for three groups. The group of 88% has .86 throughout; that of 10% catches up at an epsilon of 4; that of 2% starts at one half, and is still behind at 8."
fig, ax = plt.subplots(figsize=(7.2, 4.0), layout="constrained")
for values, best, name, color in zip(means.T, exact, names, colors, strict=True):
    ax.plot(epsilons, values, "o-", color=color, linewidth=2, markersize=6, label=name)
    ax.plot(24, best, "o", color=color, markersize=6, fillstyle="none")
ax.legend(loc="lower right", frameon=False)
ax.set_xscale("log", base=2)
ax.set_xticks([1 / 8, 1 / 2, 2, 8, 24], ["1/8", "1/2", "2", "8", "no privacy"])
ax.set_ylim(0.48, 0.92)
ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
ax.grid(axis="y", color="#e4e6e8", linewidth=0.8)
ax.set_axisbelow(True)
ax.spines[["top", "right", "left"]].set_visible(False)
ax.tick_params(length=0, pad=6)
ax.set_title("Accuracy for new people of each group", loc="left", pad=12, weight="bold")
ax.set_xlabel("epsilon: more privacy on the left, at delta = 1e-6")
fig.savefig("plot_small_groups.png", dpi=120)
print("Wrote plot_small_groups.png")

# %%
# What to do
# ----------
# - **Measure it on public people**, or on people whose scores you may see, group by group and class
#   by class. On private people each score costs budget: :func:`skdp.model_selection.private_score`.
# - **Share what groups have in common.** A :class:`skdp.DPPersonalizedRegressor` learns a
#   representation from all users, and gives each a model of its own.
# - **Do not use the model for a group that it fails**, and say so on its card
#   (:func:`skdp.model_card`).
# - **Collect more, or release less**: fewer columns, one model in place of three.
#
# Privacy limits what the model tells, and not who reads the rows. Those who run the fit see all of
# them: decide who has access, keep rows no longer than the fit needs them, and keep the ledger
# longer than the rows.
