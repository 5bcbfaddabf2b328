"""
Communities in a graph of private friendships
=============================================

Find groups of people, and keep each friendship private.

Who knows whom is private; which groups there are may be published. This example finds three
communities in a graph, protecting each edge: whether two people are friends barely changes the
probability of any result.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.metrics import confusion_matrix

from skdp import DPTruncatedSVD, PrivacyWarning
from skdp.datasets import make_block_graph
from skdp.units import Edge

# %%
# The graph
# ---------
# Nine hundred people in three communities of equal size. Two of the same community know each other
# with probability .15, two others with .05. The rows come in random order, as they would.

graph, labels = make_block_graph(
    900, n_communities=3, p_within=0.15, p_between=0.05, random_state=0
)
order = np.random.default_rng(0).permutation(len(labels))
graph, labels = graph[order][:, order], labels[order]
print(f"{graph.nnz // 2} edges among {graph.shape[0]} people")

# %%
# The fit
# -------
# With ``privacy_unit=Edge(...)`` the unit is an entry of the symmetric matrix together with its
# mirror image. An entry is between 0 and 1, which is public.
#
# The people are numbered in public, the edges are not. ``left_components_`` has a row for each
# person, which is covered by the guarantee like the rest: it protects edges, not people. Clustering
# these rows is post-processing and costs nothing.

svd = DPTruncatedSVD(3, epsilon=4.0, delta=1e-6, privacy_unit=Edge(bounds=(0, 1)))


def communities(fitted):
    """Cluster the people by their released rows."""
    people = fitted.left_components_ * fitted.singular_values_
    return KMeans(3, n_init=3, random_state=0).fit_predict(people)


def matched(found):
    """Name the clusters so that most people are right, and give the share of those."""
    counts = confusion_matrix(labels, found)
    rows, columns = linear_sum_assignment(-counts)
    return np.argsort(columns)[found], counts[rows, columns].sum() / len(labels)


svd.fit(graph)
found, accuracy = matched(communities(svd))
print(svd.privacy_spent_)
print(f"coherence of the released vectors: {svd.coherence_left_:.1f}")
print(f"{accuracy:.0%} of the people are in the right community")

# %%
# How much epsilon it takes
# -------------------------
# Five fits for each setting. Blind guessing is right in a third of the cases. The vectors of such a
# graph are spread evenly over the people, as suits the iteration best. Pure differential privacy,
# ``delta=0``, takes more epsilon.

settings = {
    "defaults": {},
    "delta = 0": {"delta": 0.0},
}
epsilons = [1.0, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0]
n_repeats = 5


def mean_accuracy(epsilon, parameters):
    estimator = clone(svd).set_params(epsilon=epsilon, **parameters)
    return np.mean([matched(communities(estimator.fit(graph)))[1] for _ in range(n_repeats)])


with warnings.catch_warnings():
    warnings.simplefilter("ignore", PrivacyWarning)  # small epsilons drown
    curves = {
        name: [mean_accuracy(epsilon, parameters) for epsilon in epsilons]
        for name, parameters in settings.items()
    }
print("epsilon " + "".join(f"{name:>23}" for name in curves))
for epsilon, *values in zip(epsilons, *curves.values(), strict=True):
    print(f"{epsilon:7g} " + "".join(f"{value:23.0%}" for value in values))

# %%
# The pictures
# ------------
# On the left the people as released. In the middle the graph itself, with the people in the order
# of the communities found. **The middle picture is not private**: its dots are the edges. It shows
# the owner of the graph that the order makes sense, and must not be published.
#
# What the guarantee does not do: an edge is not a person. Somebody with 75 friends, as here, is a
# group of 75 edges. At these epsilons such a group is hardly hidden at all. And that people are in
# one community follows from the edges of others, too; this is what the fit is for.

colors = np.array(["#1f5fa8", "#c8452d", "#e0a526"])
# sphinx_gallery_alt = "Left: people as points in three colored groups. Middle: the table of friendships sorted by the groups found, with a dense block for each. Right: the share of people in the right group rises with epsilon to nearly all."
fig, (left, middle, right) = plt.subplots(1, 3, figsize=(11.6, 4.3), layout="constrained")
people = svd.left_components_ * svd.singular_values_
left.scatter(people[:, 1], people[:, 2], s=9, c=colors[labels], alpha=0.75)
left.set_aspect("equal", adjustable="datalim")
left.axis("off")
left.set_title("People, edges protected", loc="left", pad=12, weight="bold")
left.text(0, 0, "colors: true communities", color="#5f6368", transform=left.transAxes)

by_community = np.argsort(found, kind="stable")
middle.spy(graph[by_community][:, by_community], markersize=0.12, color="#1f3450")
middle.set_xticks([])
middle.set_yticks([])
middle.set_title("Edges, by community found", loc="left", pad=12, weight="bold")
middle.set_xlabel("not private: for the owner's eyes", color="#c8452d")

styles = {
    "defaults": ("#1f5fa8", "o", (8, 0.66, "right")),
    "delta = 0": ("#5f6368", "^", (8, 0.52, "right")),
}
for name, values in curves.items():
    color, marker, (x, y, side) = styles[name]
    right.plot(epsilons, values, color=color, marker=marker, markersize=6, linewidth=2)
    right.text(x, y, name, color=color, ha=side)
right.axhline(1 / 3, color="#9aa0a6", linestyle=":", linewidth=1.2)
right.text(8, 0.345, "guessing", color="#5f6368", ha="right")
right.set_ylim(0.25, 1.03)
right.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
right.set_xticks([1, 2, 4, 6, 8])
right.grid(axis="y", color="#e4e6e8", linewidth=0.8)
right.set_axisbelow(True)
right.spines[["top", "right", "left"]].set_visible(False)
right.tick_params(length=0, pad=6)
right.set_xlabel("epsilon of an edge")
right.set_title("Right community", loc="left", pad=12, weight="bold")
fig.savefig("plot_communities.png", dpi=150)
print("Wrote plot_communities.png")
