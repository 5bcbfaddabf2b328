"""
Components of people with several rows
======================================

Protect people whole, with all their rows, and see what that costs beside other ways.

Most tables have several rows for one person: visits, orders, days. ``privacy_unit="user"`` protects
all of them together. Who protects rows only has two other ways to protect people: to keep one row
of each, or to keep a few and pay for each of them.
"""

import matplotlib.pyplot as plt
import numpy as np

from skdp import DPPCA
from skdp.privacy.gaussian_dp import epsilon_at, mu_from_epsilon_delta

n_features, n_components, delta = 20, 3, 1e-6
variances = np.concatenate([[4.0, 3.0, 2.0], np.full(n_features - n_components, 0.3)])
generator = np.random.default_rng(0)


def draw(n_people, within=0.9):
    """Rows of people who have 1 to 100 each; most of the variance is within people."""
    counts = np.exp(generator.uniform(0, np.log(100), n_people)).astype(int)
    users = np.repeat(np.arange(n_people), counts)
    of_people = generator.normal(size=(n_people, n_features)) * np.sqrt(1 - within)
    of_rows = generator.normal(size=(len(users), n_features)) * np.sqrt(within)
    return (of_people[users] + of_rows) * np.sqrt(variances), users


def some_rows(users, at_most):
    """Choose so many random rows of each person at most."""
    order = generator.permutation(len(users))
    order = order[np.argsort(users[order], kind="stable")]
    counts = np.bincount(users)
    place = np.arange(len(users)) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[place < at_most]


# %%
# Four ways
# ---------
# All of them promise the same to a person. A person with five rows moves a sum of rows five times
# as far as one with a single row: so the noise of *five rows at most* is five times larger.
#
# Lost is the part of the variance of the best components that is missing.

norm = np.sqrt(variances.sum())


def whole(X, users, epsilon):
    pca = DPPCA(
        n_components, epsilon=epsilon, delta=delta, row_norm=norm, center=False, privacy_unit="user"
    )
    return pca.fit(X, users=users)


def at_most(X, users, epsilon, number):
    mu = mu_from_epsilon_delta(epsilon, delta) / number
    pca = DPPCA(
        n_components, epsilon=epsilon_at(mu, delta), delta=delta, row_norm=norm, center=False
    )
    return pca.fit(X[some_rows(users, number)])


def lost(pca):
    """Part of what the best components hold that these do not."""
    return 1 - np.sum(pca.components_**2 @ variances) / variances[:n_components].sum()


branches = {
    "people whole": whole,
    "one row each": lambda *data: at_most(*data, 1),
    "five rows at most": lambda *data: at_most(*data, 5),
    "twenty rows at most": lambda *data: at_most(*data, 20),
}
numbers, epsilons, n_repeats = [2000, 5000, 10_000], [1.0, 4.0], 5
found = {(epsilon, way): [] for epsilon in epsilons for way in branches}
for n_people in numbers:
    tables = [draw(n_people) for _ in range(n_repeats)]
    for epsilon, way in found:
        losses = [lost(branches[way](*data, epsilon)) for data in tables]
        found[epsilon, way].append(np.mean(losses))
for (epsilon, way), values in found.items():
    print(f"epsilon {epsilon:g}, {way:20}" + "".join(f"{value:9.5f}" for value in values))

# %%
# What whole people save
# ----------------------
# *One row each* has the same noise, but throws rows away. That matters where there are many people
# or much budget. With few people and a small epsilon noise dominates, and it is nearly as good. A
# *limit* pays for each row that it keeps, until there are so many people that noise hardly matters.

style = {
    "people whole": ("#1f5fa8", "o"),
    "one row each": ("#5f6368", "^"),
    "five rows at most": ("#c8452d", "s"),
    "twenty rows at most": ("#b07d12", "D"),
}
# sphinx_gallery_alt = "Lost variance against the number of people, at an epsilon of 1 and of 4, both axes logarithmic: whole people lose least, or as little as the best; one row each falls behind with many people, limits of five and twenty rows with few."
fig, axes = plt.subplots(1, 2, figsize=(7.6, 4.2), layout="constrained", sharey=True)
for ax, epsilon in zip(axes, epsilons, strict=True):
    for way, (color, marker) in style.items():
        ax.loglog(numbers, found[epsilon, way], color=color, marker=marker, markersize=6, label=way)
    ax.set_xticks(numbers, [f"{number:,}" for number in numbers])
    ax.set_xticks([], minor=True)
    ax.margins(x=0.12)
    ax.grid(axis="y", color="#e4e6e8", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(which="both", length=0, pad=6)
    ax.set_xlabel("people, with 1 to 100 rows each")
    ax.set_title(f"epsilon {epsilon:g}", loc="left", color="#5f6368")
axes[0].set_ylabel("lost variance")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
fig.savefig("plot_people.png", dpi=150)
print("Wrote plot_people.png")
