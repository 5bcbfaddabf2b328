"""
One release, many models
========================

Correlations, coefficients with their errors, and components, all of one private release.

Each private fit spends anew. :class:`skdp.DPCovariance` spends once, and then answers as many
questions as there are. This example asks three of a made-up survey, and compares with what the rows
say without privacy. In practice nobody may look at that.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression

from skdp import DPCovariance

# %%
# A survey
# --------
# Twelve columns of 20,000 people, which follow from four things that nobody has asked. All lie
# between known ends.

generator = np.random.default_rng(0)
hidden = generator.normal(size=(20_000, 4))
loadings = generator.normal(size=(4, 12)) * (generator.random((4, 12)) < 0.4)
own = np.sqrt(1 + np.square(loadings).sum(axis=0))
answers = (hidden @ loadings + generator.normal(size=(20_000, 12))) / own
survey = pd.DataFrame(answers, columns=[f"q{number}" for number in range(1, 13)])
bounds = dict.fromkeys(survey, (-4, 4))

# %%
# What goes together?
# -------------------
# At an epsilon of .25 noise hides the correlations that are gray, and at 2 those that are next to
# nothing. Those that can be seen are those of the rows, up to the noise.

# sphinx_gallery_alt = "Two tables of correlations between twelve questions. At an epsilon of 1/4 noise hides almost half of 66, at 2 about a third; those that are shown hardly differ."
figure, axes = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
released = {}
for epsilon, ax in zip((0.25, 2.0), axes, strict=True):
    released[epsilon] = DPCovariance(bounds=bounds, epsilon=epsilon).fit(survey)
    found = released[epsilon]
    is_hidden = np.abs(found.covariance_) < 2 * found.noise_std_
    shown = np.ma.array(found.correlation_, mask=is_hidden)
    image = ax.imshow(shown, cmap="RdBu", vmin=-1, vmax=1)
    ax.set_facecolor("0.75")
    ax.set_xticks(range(12), survey.columns)
    ax.set_yticks(range(12), survey.columns)
    figure.colorbar(image, ax=ax, label="correlation (gray: hidden by noise)")
    error = np.abs(found.correlation_ - np.corrcoef(answers.T)).max()
    ax.set_title(f"epsilon {epsilon:g}: {is_hidden.sum() // 2} of 66 hidden")
    print(f"epsilon {epsilon:g}: the largest error of a correlation is {error:.2f}")

# %%
# What does an answer depend on?
# ------------------------------
# A regression of the first question on five others, from the same release. The errors are those of
# the noise and of the sample, so that intervals of 95% hold the coefficients of all people.

on = ["q2", "q3", "q4", "q5", "q6"]
# sphinx_gallery_alt = "Five coefficients, with intervals at two epsilons around those of all people; the intervals at 1/4 are one and a half to six times as long as those at 2."
figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
everybody = (loadings.T @ loadings + np.eye(12)) / np.outer(own, own)
truth = np.linalg.solve(everybody[1:6, 1:6], everybody[1:6, 0])
places = np.arange(len(on))
ax.bar(places, truth, color="0.85", label="all people")
sample = LinearRegression().fit(survey[on], survey["q1"])
ax.plot(places, sample.coef_, "k_", ms=20, label="the rows, without privacy")
for shift, (epsilon, model) in zip((-0.15, 0.15), released.items(), strict=True):
    coef, errors = model.regression("q1", on)[-1].coef_, model.std_errors("q1", on)
    ax.errorbar(
        places + shift, coef, 1.96 * errors, fmt="o", capsize=3, label=f"epsilon {epsilon:g}"
    )
ax.axhline(0, color="0.5", lw=0.8)
ax.set_xticks(places, on)
ax.set(ylabel="coefficient for q1")
ax.legend(frameon=False, fontsize="small")

# %%
# How many things are behind the answers?
# ---------------------------------------
# The variance of components, from the same releases. Four have more than a question has by itself,
# which is 1.

# sphinx_gallery_alt = "Variances of twelve components: at both epsilons they are near those without privacy, and four exceed 1."
figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
numbers = np.arange(1, 13)
exact = np.linalg.eigvalsh(np.cov(answers.T))[::-1]
ax.bar(numbers, exact, color="0.85", label="without privacy")
for epsilon, model in released.items():
    ax.plot(numbers, model.components(12).explained_variance_, "o", label=f"epsilon {epsilon:g}")
ax.set(xlabel="component", ylabel="variance")
ax.legend(frameon=False)
plt.show()
