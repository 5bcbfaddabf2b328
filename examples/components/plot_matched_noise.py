"""
A hundred public rows tell what to expect
=========================================

Tune settings on a hundred public rows, with the noise that the private fit will have.

Settings that are chosen by looking at private rows cost privacy, and a search is many looks. Public
rows cost nothing, but there are few of them, and the same epsilon means far more noise among few
rows than among many. With so much noise the simplest settings win.
:func:`skdp.model_selection.matched_noise` gives a fit to few rows the noise-to-signal ratio that
the private fit to many rows will have. :func:`skdp.model_selection.epsilon_curve` makes such fits,
and tells what each epsilon will buy. This example compares both with the truth: many private fits,
each of which costs. In practice nobody has these.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import ShuffleSplit, cross_validate, train_test_split

from skdp import DPPCA, PrivacyWarning
from skdp.display import EpsilonCurveDisplay
from skdp.model_selection import epsilon_curve, matched_noise

# Of fits that drown there are many here; that is what the pictures are about.
warnings.simplefilter("ignore", PrivacyWarning)

# %%
# The rows
# --------
# Scikit-learn's digits. A hundred rows are public; of the others four fifths are fitted, and the
# rest only serves to see how good the fits are. The bounds are known without looking, as in the
# quickstart.

X = load_digits().data
X_public, X_private = train_test_split(X, train_size=100, random_state=0)
X_train, X_test = train_test_split(X_private, test_size=0.2, random_state=0)
pca = DPPCA(n_components=5, mean_norm=64, row_norm=40)


def captured(model, rows, y=None):
    """Part of the variance of rows that the components of a model hold."""
    centered = rows - rows.mean(axis=0)
    return np.sum((centered @ model.components_.T) ** 2) / np.sum(centered**2)


# %%
# What each epsilon buys
# ----------------------
# The curve reads the public rows: it fits three quarters of them, twenty times at each epsilon,
# and scores the rest. The truth takes as many private fits.

epsilons = np.array([0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0])
curve = epsilon_curve(
    pca,
    X_public,
    epsilons=epsilons,
    n_samples=len(X_train),
    scoring=captured,
    n_repeats=20,
    random_state=0,
)
truth = np.array(
    [
        [captured(clone(pca).set_params(epsilon=epsilon).fit(X_train), X_test) for _ in range(20)]
        for epsilon in epsilons
    ]
)
print("epsilon  from 75 public rows  private fits")
for epsilon, predicted, found in zip(epsilons, curve.mean, truth.mean(axis=1), strict=True):
    print(f"{epsilon:7g}  {predicted:19.3f}  {found:12.3f}")

# %%
# How many components
# -------------------
# At an epsilon of 1 the same public rows are asked for the number of components, by the likelihood
# of rows that were left out: once at the same epsilon, once at the same noise.

numbers = np.array([1, 2, 4, 7, 12, 18, 26, 36])
splits = ShuffleSplit(10, test_size=0.25, random_state=0)


def likelihoods(model):
    """Log-likelihood of public rows by the number of components, less that of the best number."""
    scores = [
        cross_validate(clone(model).set_params(n_components=k), X_public, cv=splits)["test_score"]
        for k in numbers
    ]
    means = np.mean(scores, axis=1)
    return means - means.max()


at_the_noise = likelihoods(matched_noise(pca, n_samples=len(X_train), n_public=75))
at_the_epsilon = likelihoods(pca)
private = np.mean(
    [
        [clone(pca).set_params(n_components=k).fit(X_train).score(X_test) for k in numbers]
        for _ in range(10)
    ],
    axis=0,
)
private = private - private.max()
for name, found in (
    ("same epsilon", at_the_epsilon),
    ("matched noise", at_the_noise),
    ("private fits", private),
):
    best = np.argmax(found)
    below = private.max() - private[best]
    print(f"{name:>13}: {numbers[best]} components, {below:.2f} below the best private")

# %%
# The picture
# -----------
# On the left the curve from few public rows runs beside the truth; it ends somewhat lower, as
# components of 75 rows are those of 75 rows. On the right, fits with the same noise have their best
# number of components about where the private fits have it. Fits with the same epsilon do not.

blue, red, gray = "#1f5fa8", "#c8452d", "#5f6368"
# sphinx_gallery_alt = "Two panels. Left: variance captured by private fits rises with epsilon, beside the band that public rows predict. Right: the likelihood by number of components of private fits follows that of public rows with the same noise, not with the same epsilon."
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
shown = EpsilonCurveDisplay(curve.epsilons, curve.scores, score_name="")
shown.plot(left, color=blue, marker="", linewidth=2, label="predicted from 100 public rows")
left.errorbar(
    epsilons,
    truth.mean(axis=1),
    yerr=truth.std(axis=1),
    fmt="o",
    color=red,
    capsize=3,
    label=f"{len(X_train)} private rows",
)
left.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
left.set_xlabel("epsilon, at delta = 1e-6")
left.set_title("Variance captured by five components", loc="left", weight="bold")
left.legend(loc="lower right", frameon=False)

right.plot(numbers, private, "o", color=red, label="private fits")
right.plot(numbers, at_the_noise, color=blue, linewidth=2, label="public rows, same noise")
right.plot(
    numbers,
    at_the_epsilon,
    color=gray,
    linewidth=2,
    linestyle="--",
    label="public rows, same epsilon",
)
right.set_ylim(-12, 1.2)
right.set_xlabel("number of components, at epsilon = 1")
right.set_title("Log-likelihood of a row, less that of the best", loc="left", weight="bold")
right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False)
for ax in (left, right):
    ax.grid(axis="y", color="#e4e6e8", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
