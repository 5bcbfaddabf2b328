"""
Memory of a fit on rows in parts
================================

Fit to files part by part, in the memory of a few parts.

Rows that do not fit into memory can be fitted part by part: functions load the parts, as often as
the fit has to read the rows. This example measures how much memory fits take as the rows become
more, once as an array and once in parts of 10,000 rows.
"""

import tempfile
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from skdp import DPPCA, RowBlocks

# %%
# Files, one for each part
# ------------------------
# How rows are divided into files has to be as public as their number. Here each file has the same
# number of rows, in the order in which they came in. Files by country would tell how many rows
# each country has.

length, n_features = 10_000, 40
folder = tempfile.TemporaryDirectory()
paths = []
for number in range(16):
    rng = np.random.default_rng(number)
    rows = rng.normal(size=(length, n_features)) * np.linspace(3, 1, n_features)
    paths.append(Path(folder.name) / f"{number:02d}.npy")
    np.save(paths[-1], rows)


# %%
# Peak memory
# -----------
# The files themselves are mapped into memory, which takes none that counts: the system drops
# their pages when it needs room.


def as_array(n_parts):
    """Read the rows into one array."""
    return np.vstack([np.load(path) for path in paths[:n_parts]])


def in_parts(n_parts):
    """Leave the rows where they are."""
    return RowBlocks.from_npy(paths[:n_parts])


def peak_of_fit(make_rows, n_parts):
    """Return the largest number of megabytes that a fit and its rows took."""
    tracemalloc.start()
    DPPCA(5, solver="power", n_jobs=2).fit(make_rows(n_parts))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


numbers = [2, 4, 8, 16]
curves = {
    "array": [peak_of_fit(as_array, number) for number in numbers],
    "parts": [peak_of_fit(in_parts, number) for number in numbers],
}
for name, megabytes in curves.items():
    print(name, [f"{size:.0f} MB" for size in megabytes])

# %%
# A fit on parts takes the memory of the parts that are being read, one in each thread, however many
# rows there are.

# sphinx_gallery_alt = "Memory of a fit against the number of rows: it grows in a line for an array, and stays level for parts."
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
for (name, megabytes), color in zip(curves.items(), ["0.55", "C0"], strict=True):
    axes.plot(np.array(numbers) * length / 1000, megabytes, "o-", color=color)
    axes.annotate(
        name,
        (numbers[-1] * length / 1000, megabytes[-1]),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        color=color,
    )
axes.set(
    xlabel="thousand rows",
    ylabel="megabytes at most",
    title="Rows in parts take the memory of a few parts",
    xlim=(0, 185),
    ylim=(0, None),
)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Results come a part at a time, too. ``transform`` gives rows in parts, which another estimator
# takes, and which can be written to a file.

pca = DPPCA(5).fit(in_parts(16))
scores = pca.transform(in_parts(16))
print([part.shape for part in scores][:3])
scores.to_npy(Path(folder.name) / "scores.npy")
folder.cleanup()
