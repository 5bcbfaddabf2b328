"""
A picture from private answers
==============================

Find a coefficient matrix of low rank from private tables and answers.

Every person has a table of 24 times 24 numbers and one answer. The answer depends on all entries of
the table, each with a weight of its own: a linear regression with 576 coefficients. Here the
coefficients look like a picture, and a simple one: as a matrix they have rank 3.
:class:`skdp.DPTraceRegressor` finds the picture and protects each person, the table together with
the answer. What makes that possible is the low rank. Noise only has to go into 136 directions
instead of 577.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from skdp import DPLinearRegression, DPTraceRegressor, PrivacyWarning

# %%
# The people
# ----------
# A letter T raises the answer, and a fainter square lowers it. A T has rank 2, a square rank 1. The
# tables are standard normal, and the answers have noise of half the size of the signal.

n_people, size = 8000, 24
truth = np.zeros((size, size))
truth[3:17, 8:12] = truth[3:7, 3:17] = 1.0
truth[16:21, 16:21] = -0.8
truth *= 2 / np.linalg.norm(truth)
values = np.linalg.svd(truth, compute_uv=False)
print("singular values:", "  ".join(f"{value:.2f}" for value in values[:4]))

generator = np.random.default_rng(0)
tables = generator.standard_normal((n_people, size, size))
answers = tables.reshape(n_people, -1) @ truth.ravel() + generator.standard_normal(n_people)

# %%
# The fits
# --------
# Four budgets, and three fits for each. One looks for coefficients of rank 3, one for any: a matrix
# of 24 by 24 has rank 24 at most. The third is :class:`skdp.DPLinearRegression` on flattened rows,
# which knows nothing of rows and columns of a table. The error is the norm of the difference,
# relative to the true coefficients, so that a blank picture has an error of 1.

epsilons = [0.5, 1.0, 2.0, 4.0]
ranks = {3: "rank 3", size: "any rank"}


def fit(rank, epsilon):
    return DPTraceRegressor(rank, epsilon=epsilon).fit(tables, answers)


def fit_flat(epsilon):
    return DPLinearRegression(epsilon=epsilon).fit(tables.reshape(n_people, -1), answers)


def picture(model):
    return model.coef_.reshape(size, size)


def error(model):
    return np.linalg.norm(picture(model) - truth) / np.linalg.norm(truth)


with warnings.catch_warnings():
    warnings.simplefilter("ignore", PrivacyWarning)  # where little is left of a picture
    models = {name: [fit(rank, one) for one in epsilons] for rank, name in ranks.items()}
    models["flattened"] = [fit_flat(epsilon) for epsilon in epsilons]
print("epsilon  error, rank 3  error, any rank  error, flattened  singular values, rank 3")
for epsilon, low, full, flat in zip(epsilons, *models.values(), strict=True):
    found = "  ".join(f"{value:.2f}" for value in low.singular_values_)
    print(f"{epsilon:7g}  {error(low):13.2f}  {error(full):15.2f}  {error(flat):16.2f}  {found}")

# %%
# Singular values that noise can reach are set to 0, and a
# :class:`skdp.PrivacyWarning` says how many. So where all is noise the picture is blank. Just above
# that limit some values are signal, others are noise that got through, and the picture has dots.
#
# The pictures
# ------------
# All have the same scale of colors. Everything in them is covered by the guarantee, apart from the
# true picture and the errors, which need it.

red, blue, gray = "#c8452d", "#1f5fa8", "#5f6368"
colors = {"cmap": "RdBu_r", "vmin": -1.3 * truth.max(), "vmax": 1.3 * truth.max()}

# sphinx_gallery_alt = "Matrices of coefficients: the truth, a red T and a blue square, and what fits of rank 3, of any rank and of flattened rows find at four epsilons. Rank 3 shows the picture from epsilon 1 on."
fig, axes = plt.subplots(3, 5, figsize=(11, 7.6), layout="constrained")
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_color("#c9ccd0")
axes[0, 0].imshow(truth, **colors)
axes[0, 0].set_title("the truth", weight="bold", pad=8)
for ax, text in zip(axes[0, 1:], ["1/2", "1", "2", "4"], strict=True):
    ax.set_title(f"epsilon = {text}", pad=8)
for row, (label, fitted) in zip(axes[:, 1:], models.items(), strict=True):
    row[0].set_ylabel(label, weight="bold", labelpad=10)
    for ax, model in zip(row, fitted, strict=True):
        ax.imshow(picture(model), **colors)
        ax.set_xlabel(f"error {error(model):.2f}", color=gray)

axes[2, 0].axis("off")
legend = axes[1, 0]
legend.axis("off")
lines = [("red raises the answer,", red), ("blue lowers it", blue), ("", gray)]
lines += [(f"{n_people} people", gray), ("delta = 1e-6", gray)]
for number, (text, color) in enumerate(lines):
    legend.text(0, 0.9 - 0.11 * number, text, color=color, transform=legend.transAxes)
fig.savefig("plot_trace_regression.png", dpi=150)
print("Wrote plot_trace_regression.png")
