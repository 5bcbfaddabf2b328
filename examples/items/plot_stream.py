"""
A photograph that arrives pixel by pixel
========================================

Factor a matrix that arrives in updates, and keep none of them.

:class:`skdp.DPLowRankFactorizer` needs the matrix. :class:`skdp.DPStreamingFactorizer` sees it go
by: entries arrive in any order, in parts, with corrections, and none of them is kept. What is kept
are two sketches, to which the noise was added before the first entry came. This example sends one
matrix both ways and compares what is left of it, with one entry protected in either case.

The matrix is a photograph, for only one reason: everybody can see how good its low-rank
approximations are. A pixel is nobody's secret, and hiding single ones does not hide what is in a
picture.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from skdp import DPLowRankFactorizer, DPStreamingFactorizer, PrivacyWarning
from skdp.units import Entry

# %%
# The matrix
# ----------
# Shades of gray between 0 and 1, which are bounds that one knows without looking. The best matrix
# of rank 10 is what a factorization without privacy gives. Errors below are relative: the Frobenius
# norm of what is missing, over that of the photograph.

photograph = load_sample_image("china.jpg").mean(axis=2) / 255
n_components = 10
left, singular_values, right = np.linalg.svd(photograph, full_matrices=False)
best = left[:, :n_components] * singular_values[:n_components] @ right[:n_components]


def error(approximation):
    """Relative error: a noise-free function of the photograph, which only an example may print."""
    return np.linalg.norm(photograph - approximation) / np.linalg.norm(photograph)


print(f"{photograph.shape[0]} x {photograph.shape[1]} pixels")
print(f"best of rank {n_components}: error {error(best):.1%}")

# %%
# Pixel by pixel
# --------------
# Every pixel comes twice, somewhere among the others: first a rough value, to the next eighth, and
# later what has to be added to it. For :class:`skdp.units.Entry` only the sum of the two counts.
# That it lies between 0 and 1 is *promised* here, and nothing can check it, for no single pixel is
# kept. (:class:`skdp.units.Update` protects single updates, and clips each of them.)
#
# There are 273,280 pixels. ``delta`` has to be far below one over their number, and skdp warns of
# the default. ``random_state`` stays ``None``; the generator here only shuffles the pixels.

generator = np.random.default_rng(0)
rows, columns = (each.ravel() for each in np.indices(photograph.shape))
rough = np.round(8 * photograph.ravel()) / 8
updates = np.column_stack(
    [
        np.tile(rows, 2),
        np.tile(columns, 2),
        np.concatenate([rough, photograph.ravel() - rough]),
    ]
)
order = np.concatenate([generator.permutation(len(rough)) + start for start in (0, len(rough))])
updates = updates[order]

delta = 1e-7
unit = Entry(bounds=(0, 1))


def streamed(epsilon):
    """Factors from a stream that sees each pixel go by twice."""
    stream = DPStreamingFactorizer(
        n_components, shape=photograph.shape, epsilon=epsilon, delta=delta, privacy_unit=unit
    )
    for row, column, value in updates[:1000]:
        stream.update(int(row), int(column), float(value))
    for some in np.array_split(updates[1000:], 50):  # many at once are faster
        stream.update(some[:, 0].astype(int), some[:, 1].astype(int), some[:, 2])
    return stream.finalize()


# %%
# What it costs
# -------------
# What a stream keeps is known before it starts, and so is the noise in it: the record is complete
# when the stream is opened. For ten components the sketches have 427 x 240 and 640 x 60 sums. That
# is half as many numbers as the photograph has, which is small; of a matrix with a hundred times as
# many rows and columns it would be half a percent.

stream = DPStreamingFactorizer(n_components, shape=photograph.shape, delta=delta, privacy_unit=unit)
print(stream.privacy_spent_)

# %%
# Three epsilons
# --------------
# The factorization of the matrix in memory multiplies it by bases that it released before, with a
# noise that follows their largest row (:doc:`/user_guide/coherence`). The stream has only one look at
# each entry.

epsilons = [1, 4, 16]
shown = {"in memory": [], "as a stream": []}
with warnings.catch_warnings():
    warnings.simplefilter("ignore", PrivacyWarning)  # not all components stand out
    for epsilon in epsilons:
        model = DPLowRankFactorizer(n_components, epsilon=epsilon, delta=delta, privacy_unit=unit)
        shown["in memory"].append(model.fit(photograph))
        shown["as a stream"].append(streamed(epsilon))
for name, models in shown.items():
    for epsilon, model in zip(epsilons, models, strict=True):
        n_found = np.sum(model.singular_values_ > 0)
        print(f"{name}, epsilon={epsilon}: error {error(model.reconstruct()):.1%}, {n_found} found")

# %%
# A stream cannot look twice, and cannot choose what to look at. That costs a factor of about four
# in epsilon here: at 4 and at 16 the stream shows what the matrix in memory showed at 1 and at 4.
# In a larger matrix of this kind singular values grow faster than noise does: size helps both.
#
# Components that do not stand out from the noise have the singular value 0, and so no part in
# ``reconstruct``: a picture of few stripes is one of few components. A :class:`skdp.PrivacyWarning`
# tells how many there are; it was silenced above.

gray = "#5f6368"
# sphinx_gallery_alt = "Eight pictures of a temple: the photograph, its best approximation of rank 10, and private ones, in memory and as a stream, that get clearer from epsilon 1 to 16."
fig, axes = plt.subplots(2, 4, figsize=(11.4, 4.6), layout="constrained")
axes[0, 0].imshow(photograph, cmap="gray", vmin=0, vmax=1)
axes[0, 0].set_title("The photograph", loc="left", weight="bold")
axes[1, 0].imshow(best, cmap="gray", vmin=0, vmax=1)
axes[1, 0].set_title(f"Best of rank {n_components}", loc="left", weight="bold")
axes[1, 0].set_xlabel(f"error {error(best):.0%}", color=gray, loc="left")
for row, (name, models) in zip(axes, shown.items(), strict=True):
    for ax, epsilon, model in zip(row[1:], epsilons, models, strict=True):
        approximation = model.reconstruct()
        ax.imshow(approximation, cmap="gray", vmin=0, vmax=1)
        ax.set_title(f"{name}, epsilon = {epsilon}".capitalize(), loc="left", weight="bold")
        ax.set_xlabel(f"error {error(approximation):.0%}", color=gray, loc="left")
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
fig.get_layout_engine().set(hspace=0.06)
fig.savefig("plot_stream.png", dpi=150)
print("Wrote plot_stream.png")
