"""
How much accuracy does an epsilon buy?
======================================

Plan what three fits will be worth, fit them, and compare.

It depends on the rows. Noise is added once, however many rows there are, so that the same epsilon
ruins one dataset and does nothing to another. This example plans three fits before anything is
spent, makes them, and compares.

The datasets are scikit-learn's: breast cancer (569 rows, of patients), digits (1797 rows) and
patches cut from two photographs (30,000 rows). Imagine that each row belongs to a different person.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_sample_images
from sklearn.feature_extraction.image import PatchExtractor
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skdp import DPPCA, PrivacyWarning
from skdp.metrics import captured_variance, subspace_distance

# %%
# The rows
# --------
# Of each dataset 40% are declared public. They supply the bounds and the guess of the spectrum. The
# rest is private.
#
# Patches need no public rows for a bound. Each loses its own mean brightness and is scaled to
# norm 1. That looks at one row at a time, and makes a ``row_norm`` of 1 true by construction.


def split(X):
    return train_test_split(X, train_size=0.4, random_state=0)  # shuffles rows; seeds no noise


def patches():
    photographs = np.array([image.mean(axis=2) for image in load_sample_images().images])
    cutter = PatchExtractor(patch_size=(8, 8), max_patches=15_000, random_state=0)
    rows = cutter.transform(photographs).reshape(-1, 64)
    rows -= rows.mean(axis=1, keepdims=True)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def with_public_bounds(public, n_components):
    centered = public - public.mean(axis=0)
    return DPPCA(
        n_components,
        mean_norm=np.quantile(np.linalg.norm(public, axis=1), 0.9),
        row_norm=np.quantile(np.linalg.norm(centered, axis=1), 0.75),
    )


cancer_public, cancer_private = split(load_breast_cancer().data)
scaler = StandardScaler().fit(cancer_public)  # public rows only
cancer_public, cancer_private = scaler.transform(cancer_public), scaler.transform(cancer_private)
digits_public, digits_private = split(load_digits().data)
patches_public, patches_private = split(patches())

jobs = {
    "patches": (DPPCA(5, center=False, row_norm=1.0), patches_public, patches_private),
    "digits": (with_public_bounds(digits_public, 3), digits_public, digits_private),
    "breast cancer": (with_public_bounds(cancer_public, 2), cancer_public, cancer_private),
}

# %%
# The plan
# --------
# ``plan`` states the noise of the fit. Drawn, and added to a matrix with a guess of the spectrum, it
# shows the error that it causes. Here the guess is the spectrum of the public rows, clipped as the
# private ones will be: what ``DPPCA`` gives without noise.

finely = np.geomspace(1 / 16, 8, 29)


def without_noise(estimator):
    return clone(estimator).set_params(n_components=None, epsilon=np.inf, mean_norm=None)


def planned_error(pca, guess, n_samples, n_draws=40):
    plan = pca.plan(n_samples, len(guess))
    stds = {release.name: release.noise_std for release in plan.releases}
    generator, errors = np.random.default_rng(0), []
    for _ in range(n_draws):
        noise = generator.normal(scale=stds["second moment"] / 2, size=(len(guess), len(guess)))
        off_center = generator.normal(scale=stds.get("mean", 0), size=len(guess))
        moment = np.diag(guess) + np.outer(off_center, off_center)
        noisy = n_samples * moment + noise + noise.T
        found = np.linalg.eigh(noisy)[1][: pca.n_components, -pca.n_components :]
        errors.append(np.sqrt(1 - np.linalg.svd(found, compute_uv=False)[-1] ** 2))
    return np.mean(errors)


def planned_errors(estimator, public, n_samples):
    guess = without_noise(estimator).fit(public).explained_variance_
    return [
        planned_error(clone(estimator).set_params(epsilon=epsilon), guess, n_samples)
        for epsilon in finely
    ]


plans = {
    name: planned_errors(estimator, public, len(private))
    for name, (estimator, public, private) in jobs.items()
}

# %%
# The fits
# --------
# Sixteen fits for each epsilon show the mean. On private rows each of them would cost, and to
# measure the error would not be allowed at all, since it looks behind the noise. A row of these
# data is no secret, so here it may be done. Noise is fresh in every run: the numbers vary. skdp
# warns where components drown in noise, which is what the left ends of the curves show.

epsilons = [1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8]
n_repeats = 16


def measured(estimator, private):
    """Mean error, and mean captured variance as a fraction of the best possible, by epsilon."""
    exact = without_noise(estimator).fit(private)
    best = exact.components_[: estimator.n_components]
    centered = private - exact.mean_
    results = []
    for epsilon in epsilons:
        fits = [
            clone(estimator).set_params(epsilon=epsilon).fit(private).components_
            for _ in range(n_repeats)
        ]
        error = np.mean([subspace_distance(components, best) for components in fits])
        captured = np.mean([captured_variance(components, centered) for components in fits])
        results.append((error, captured / captured_variance(best, centered)))
    return np.transpose(results)


with warnings.catch_warnings():
    warnings.simplefilter("ignore", PrivacyWarning)
    results = {name: measured(estimator, rows) for name, (estimator, _, rows) in jobs.items()}

for name, (errors, captured) in results.items():
    estimator, _, private = jobs[name]
    print(f"{name}: {len(private)} private rows, {estimator.n_components} components")
    print("  epsilon  planned  measured  captured of the best")
    planned = np.interp(epsilons, finely, plans[name])
    for row in zip(epsilons, planned, errors, captured, strict=True):
        print("  {:7g}  {:7.2f}  {:8.2f}  {:20.0%}".format(*row))

# %%
# What privacy costs
# ------------------
# The less epsilon, the more privacy, and the more rows it takes. This figure opens the
# documentation: it is the file that this script writes, as ``docs/_static/what_privacy_costs.png``.

colors = {"patches": "#1f5fa8", "digits": "#c8452d", "breast cancer": "#5f6368"}
markers = {"patches": "o", "digits": "s", "breast cancer": "^"}


def draw_axes(ax, title):
    ax.set_title(title, loc="left", pad=12, weight="bold")
    ax.set_xscale("log", base=2)
    ax.set_xticks([1 / 16, 1 / 4, 1, 4], ["1/16", "1/4", "1", "4"])
    ax.set_ylim(0, 1.04)
    ax.grid(axis="y", color="#e4e6e8", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(length=0, pad=6)


places = {"patches": (0.18, 0.87), "digits": (0.5, 0.66), "breast cancer": (0.95, 0.42)}
# sphinx_gallery_alt = "Variance that private components capture, against epsilon, for three datasets. With 18,000 rows nearly all is captured from 1/4 on, with 1,079 and 342 rows from 2 on."
fig, ax = plt.subplots(figsize=(7.2, 4.0), layout="constrained")
for name, (_, captured) in results.items():
    style = {"color": colors[name], "marker": markers[name], "markersize": 7}
    ax.plot(epsilons, captured, linewidth=2, **style)
    x, y = places[name]
    side = "right" if name == "digits" else "left"
    text = f"{name}, {len(jobs[name][2]):,} rows"
    ax.text(x, y, text, color=colors[name], ha=side, va="center")
draw_axes(ax, "Variance that private components capture, of the best possible")
ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
ax.set_xlabel("epsilon: more privacy on the left, at delta = 1e-6")
fig.savefig("plot_epsilon.png", dpi=120)
print("Wrote plot_epsilon.png")

# %%
# Plans beside fits
# -----------------
# Patches have fifty times the rows of breast cancer, and reach the same error at about a tenth of
# its epsilon. The error is less kind than the captured variance, because a direction that is missed
# is mostly one with little variance. Lines are planned, dots are measured.

places = {  # where a curve has room for its name
    "patches": (0.066, 0.26, "left"),
    "digits": (0.66, 0.62, "right"),
    "breast cancer": (1.8, 0.62, "left"),
}
# sphinx_gallery_alt = "Error of the components against epsilon, for three datasets: measured dots lie on or near planned lines, which fall from 1 to nearly 0, the sooner the more rows there are."
fig, ax = plt.subplots(figsize=(7.2, 4.0), layout="constrained")
for name, (errors, _) in results.items():
    ax.plot(finely, plans[name], color=colors[name], linewidth=2, alpha=0.55)
    ax.plot(epsilons, errors, markers[name], color=colors[name], markersize=7)
    x, y, side = places[name]
    ax.text(x, y, name, color=colors[name], ha=side, va="center")
ax.text(0.066, 0.03, "lines: planned, dots: measured", color="#5f6368")
draw_axes(ax, "Error of the components, 0 to 1")
ax.set_xlabel("epsilon, at delta = 1e-6")
