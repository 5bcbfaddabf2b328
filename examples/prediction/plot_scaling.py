"""
Scaling before a private classifier
===================================

Bring ages, incomes and years to one scale before a private classifier sees them.

A table has ages, incomes and years. Noise that is large enough for incomes buries all other
columns. :class:`skdp.DPStandardScaler` finds a center and a scale of every column, for a part of
the budget. This example shows how well it finds them, with and without public bounds, and what that
does for the classifier behind it.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdp import DPLogisticRegression, DPStandardScaler, PrivacyWarning, make_dp_pipeline

# %%
# The people
# ----------
# Five columns in different units. Years of birth are the hard ones: narrow, and far from 0.

generator = np.random.default_rng(0)
n_people, n_test = 6000, 20_000


def draw(n_people):
    X = np.column_stack(
        [
            generator.lognormal(10, 0.6, n_people),  # income
            generator.integers(1940, 2005, n_people),  # year of birth
            generator.poisson(3, n_people),  # visits
            generator.exponential(12, n_people),  # kilometers
            generator.normal(36.8, 0.4, n_people),  # temperature
        ]
    )
    signs = (X - [26_000, 1972, 3, 12, 36.8]) / [16_000, 19, 1.7, 12, 0.4]
    y = np.where(generator.random(n_people) < expit(signs @ [-1, 0.9, 1, -0.8, 0.9]), "yes", "no")
    return X, y


X, y = draw(n_people)
X_test, y_test = draw(n_test)
bounds = ([0, 1900, 0, 0, 34], [200_000, 2020, 20, 100, 42])  # known without looking at X

# %%
# The fits
# --------
# One epsilon for each pipeline. The scaler gets 15% of the square of mu with bounds, 25% without,
# as it has to find intervals first. The classifier has the rest, and all of it if there is no
# scaler. Five fits show what is typical: on private rows each of them would cost.

epsilons, n_repeats = [1 / 32, 1 / 16, 1 / 8, 1 / 4, 1.0, 4.0], 5
branches = {"with bounds": bounds, "without bounds": None}
classifier = DPLogisticRegression(classes=["no", "yes"])


def how_far_off(scaler):
    """Mean over the columns of the factor between the scale and the true one, 1 at best."""
    return np.exp(np.mean(np.abs(np.log(scaler.scale_ / X.std(axis=0)))))


errors = {name: [] for name in branches}
accuracies = {name: [] for name in [*branches, "no scaler"]}
with warnings.catch_warnings():
    warnings.simplefilter("ignore", PrivacyWarning)  # of noise that hides scales: the left ends
    for epsilon in epsilons:
        for name, way in branches.items():
            steps = DPStandardScaler(bounds=way), classifier
            model = make_dp_pipeline(*steps, epsilon=epsilon)
            models = [clone(model).fit(X, y) for _ in range(n_repeats)]
            errors[name].append(np.median([how_far_off(model[0]) for model in models]))
            accuracies[name].append(np.mean([model.score(X_test, y_test) for model in models]))
        alone = clone(classifier).set_params(epsilon=epsilon)
        raw = [alone.fit(X, y).score(X_test, y_test) for _ in range(n_repeats)]
        accuracies["no scaler"].append(np.mean(raw))
exact = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y).score(X_test, y_test)

print("         scales off by a factor   accuracy")
print("epsilon  bounds  without bounds   bounds  without bounds  no scaler")
for row in zip(epsilons, *errors.values(), *accuracies.values(), strict=True):
    print("{:7g}  {:6.2f}  {:14.2f}   {:6.3f}  {:14.3f}  {:9.3f}".format(*row))
print(f"   none    1.00            1.00   {exact:6.3f}")

# %%
# Bounds are worth a lot up to an epsilon of 1/8, and nothing from 1/4 on. Scales need not be
# good: within a factor of two or so the classifier does not mind, since it whitens the rows by
# itself. Without a scaler it sees nothing but incomes, at any epsilon.

colors = {"with bounds": "#1f5fa8", "without bounds": "#c8452d", "no scaler": "#5f6368"}
markers = {"with bounds": "o", "without bounds": "s", "no scaler": "^"}

# sphinx_gallery_alt = "Left: found scales are off by a smaller factor as epsilon rises; up to 1/16 they are far off without public bounds. Right: accuracy with a scaler nears that without privacy, with bounds from 1/8 on, without bounds from 1/4 on; without a scaler it stays at 60%."
fig, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.4), layout="constrained")
for ax, curves in ((left, errors), (right, accuracies)):
    for name, values in curves.items():
        style = {"color": colors[name], "marker": markers[name], "markersize": 7}
        ax.plot(epsilons, values, linewidth=2, label=name, **style)
    ax.set_xscale("log", base=2)
    ax.set_xticks(epsilons, ["1/32", "1/16", "1/8", "1/4", "1", "4"])
    ax.grid(axis="y", color="#e4e6e8", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(length=0, pad=6)
    ax.set_xlabel("epsilon of scaler and classifier, at delta = 1e-6")
right.axhline(exact, color="#5f6368", linestyle="--", linewidth=1.2)
right.text(4.1, exact + 0.008, "without privacy", color="#5f6368", ha="right")
right.set_ylim(0.46, 0.81)
left.set_yscale("log")
left.set_yticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
left.minorticks_off()
left.legend(loc="upper right", frameon=False)
right.legend(loc="center right", bbox_to_anchor=(1, 0.62), frameon=False)
right.set_yticks([0.5, 0.6, 0.7, 0.8])
right.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
left.set_title("Scales, off by a factor of", loc="left", pad=12, weight="bold")
right.set_title("Accuracy", loc="left", pad=12, weight="bold")
fig.savefig("plot_scaling.png", dpi=150)
print("Wrote plot_scaling.png")
