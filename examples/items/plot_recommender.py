"""
Items for a recommender, from private clicks
============================================

Learn vectors of items from clicks, and protect one click or one whole user.

A table tells which user met which item. From it a recommender learns a vector for each item, such
that items which the same users meet are close. Here the vectors are learned privately, with two
different promises: one protects a *click*, the other protects a *user* with all clicks. The first
is much weaker, and much cheaper. Which one is right is no question of accuracy.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, normalize

from skdp import DPTruncatedSVD, PrivacyWarning
from skdp.datasets import make_interactions
from skdp.metrics import captured_variance
from skdp.units import Entry, Interaction

# %%
# The table
# ---------
# Synthetic clicks of 1500 users on 500 items, made from three tastes. Half of the users have more
# than 36. ``random_state`` seeds the data, not the noise.

X = make_interactions(1500, 500, n_interactions=60_000, popularity=0.4, n_tastes=3, random_state=0)
clicks = np.sort(np.asarray(X.sum(axis=1)).ravel())
print(f"{X.shape[0]} users, {X.shape[1]} items, {X.nnz} clicks")
print(f"clicks of a user: median {np.median(clicks):.0f}, most {clicks[-1]:.0f}")

# %%
# Five fits
# ---------
# The first three protect a click, that is one entry of the table: whether this user met this item.
# "alternating" multiplies the table by released bases; "input" adds noise to every entry, and is
# the baseline; the unit ``Interaction`` gives each user the same weight, but less to users with
# fewer than 20 clicks. The last two protect all clicks of a user together, with the mean as a guide
# and without. A row is scaled to norm 1 for this, which looks at one row at a time, so that 1 is an
# exact bound.
#
# There are 750,000 entries. ``delta`` has to be far below one over their number, and skdp warns of
# the default.

n_components = 3
delta = 1e-7
entry = DPTruncatedSVD(
    n_components, delta=delta, privacy_unit=Entry(bounds=(0, 1)), solver="alternating"
)
estimators = {
    "entry": entry,
    "input": clone(entry).set_params(solver="input"),
    "interaction": DPTruncatedSVD(
        n_components, delta=delta, privacy_unit=Interaction(degree_floor=20)
    ),
    "user": make_pipeline(Normalizer(), DPTruncatedSVD(n_components, delta=delta, row_norm=1.0)),
}
estimators["not guided"] = clone(estimators["user"]).set_params(
    dptruncatedsvd__solver="power", dptruncatedsvd__n_iter=3
)


def fit(name, epsilon):
    """A private fit, for the pipeline its last step."""
    estimator = clone(estimators[name])
    if name in ("user", "not guided"):
        return estimator.set_params(dptruncatedsvd__epsilon=epsilon).fit(X)[-1]
    return estimator.set_params(epsilon=epsilon).fit(X)


# %%
# What is captured
# ----------------
# The exact item vectors hold a part of the table's sum of squares. What share of this part do the
# private ones hold? The answer is a noise-free function of the table, which only an example may
# print.

exact = TruncatedSVD(n_components, algorithm="arpack").fit(X)
best = captured_variance(exact.components_, X)
epsilons = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
n_repeats = 2
with warnings.catch_warnings():
    warnings.simplefilter("ignore", PrivacyWarning)  # on the left everything drowns
    captured = {
        name: [
            np.mean(
                [captured_variance(fit(name, epsilon).components_, X) for _ in range(n_repeats)]
            )
            / best
            for epsilon in epsilons
        ]
        for name in estimators
    }
print("epsilon " + "".join(f"{name:>13}" for name in captured))
for epsilon, *values in zip(epsilons, *captured.values(), strict=True):
    print(f"{epsilon:7g} " + "".join(f"{value:13.0%}" for value in values))

# %%
# A guided fit for whole users holds most of what a table is about at any epsilon: what is popular.
# That is one component; which items go together takes a larger epsilon, as the maps below show, or
# far more users.
#
# The same epsilon on different lines does not mean the same. Somebody with 36 clicks is protected
# by the lines for a click only as a group of 36 entries is, which is next to nothing at these
# epsilons: :doc:`/user_guide/entries_and_edges` works out the numbers.
#
# Are neighbors neighbors?
# --------------------------
# The first component says which items are popular, and the other two which tastes they serve. Three
# groups of items are made from the exact vectors, and the colors show them in the private ones at
# ``epsilon=4``. For the number, take the ten nearest items in the private map, and ask how many of
# them are in the same group.


def item_map(svd):
    """Direction of each item in the plane of the second and the third component."""
    plane = (svd.components_[1:3] * svd.singular_values_[1:3, np.newaxis]).T
    lengths = np.linalg.norm(plane, axis=1, keepdims=True)
    return plane / np.where(lengths > 0, lengths, 1), plane  # components hidden by noise are 0


def same_group(svd, groups):
    directions, _ = item_map(svd)
    cosines = directions @ directions.T
    np.fill_diagonal(cosines, -np.inf)
    nearest = np.argsort(-cosines, axis=1)[:, :10]
    return np.mean(groups[nearest] == groups[:, np.newaxis])


groups = KMeans(3, n_init=10, random_state=0).fit_predict(item_map(exact)[0])
shown = fit("entry", 4.0)
print(f"nearest items in the same group, exact:     {same_group(exact, groups):.0%}")
for name in estimators:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        print(f"{name + ', epsilon = 4:':<43}{same_group(fit(name, 4.0), groups):.0%}")
print(f"by chance: {np.mean(groups[:, np.newaxis] == groups):.0%}")

# %%
# Items for a user
# ----------------
# ``transform`` turns the clicks of a user into a number for each component, and
# ``inverse_transform`` turns these into a score for each item. The items with the largest scores
# are recommended, without those that the user has met. One click of each user is hidden from the
# fit, to be looked for among 25 items.

positions = X.indptr[:-1] + np.random.default_rng(0).integers(np.diff(X.indptr))
hidden = X.indices[positions]
known = X.copy()
known.data[positions] = 0
known.eliminate_zeros()
rows = normalize(known)


def hits(scores):
    scores = np.where(known.toarray() > 0, -np.inf, scores)
    top_items = np.argsort(-scores, axis=1)[:, :25]
    return np.mean((top_items == hidden[:, np.newaxis]).any(axis=1))


def scores_of(svd):
    svd.fit(rows)
    return svd.inverse_transform(svd.transform(rows))


user = estimators["user"][-1]
print(f"hidden click among 25 items, exact:  {hits(scores_of(clone(exact))):.1%}")
for epsilon in (1.0, 4.0, 16.0):
    private = clone(user).set_params(epsilon=epsilon)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        print(f"a whole user, epsilon = {epsilon:<13g}{hits(scores_of(private)):.1%}")
print(f"the most popular ones:               {hits(known.mean(axis=0)):.1%}")
print(f"by chance:                           {25 / X.shape[1]:.1%}")

# %%
# With 1500 users, and few clicks of each, the popular items are hard to beat before an epsilon
# beyond 4.
#
# The components, and all that is computed from them alone, may be published: which items are close,
# say. The items of a user may not, as ``transform`` adds no noise to the row that it is given: they
# are for that user's eyes. :doc:`/user_guide/people_and_items` has the recipe by itself.

colors = {
    "entry": "#1f5fa8",
    "interaction": "#2a8c82",
    "user": "#5f6368",
    "not guided": "#9aa0a6",
    "input": "#c8452d",
}
labels = {
    "entry": "one click, alternating",
    "interaction": "one click, equal weights",
    "user": "a whole user",
    "not guided": "a whole user, not guided",
    "input": "one click, noise on every entry",
}

# sphinx_gallery_alt = "Left: captured variance against epsilon, for ways that protect one click and ways that protect a whole user. Right: items as points, in three groups that stay together."
fig, (left, right) = plt.subplots(1, 2, figsize=(9.8, 5.4), layout="constrained")
for name, values in captured.items():
    style = {"color": colors[name], "marker": "o", "markersize": 6, "linewidth": 2}
    left.plot(epsilons, values, label=labels[name], **style)
left.set_xscale("log", base=2)
left.set_xticks(epsilons, ["1/4", "1/2", "1", "2", "4", "8"])
left.set_ylim(0, 1.08)
left.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
left.grid(axis="y", color="#e4e6e8", linewidth=0.8)
left.set_axisbelow(True)
left.spines[["top", "right", "left"]].set_visible(False)
left.tick_params(length=0, pad=6)
left.set_xlabel("epsilon, at delta = 1e-7, for what is protected")
left.set_title("Captured, of the best possible", loc="left", pad=12, weight="bold")
left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False)

_, plane = item_map(shown)
for group, color in enumerate(["#1f5fa8", "#c8452d", "#e0a526"]):
    right.plot(*plane[groups == group].T, "o", color=color, markersize=4, alpha=0.75)
right.set_aspect("equal", adjustable="datalim")
right.axis("off")
right.set_title("Items, one click protected, epsilon = 4", loc="left", pad=12, weight="bold")
right.text(0.02, 0.01, "colors: groups without privacy", color="#5f6368", transform=right.transAxes)
fig.savefig("plot_recommender.png", dpi=150)
print("Wrote plot_recommender.png")
