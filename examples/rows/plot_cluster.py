"""
A fit on a cluster
==================

Fit components to an array of Dask on a cluster of two workers.

An array of Dask stays with the workers of a cluster: each task reads one chunk and gives back a
sum. This example fits components to rows on two workers, and shows which task ran where and when.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from dask.utils import key_split
from distributed import Client, LocalCluster, get_task_stream

from skdp import DPTruncatedSVD

# %%
# Two workers
# -----------
# Both are threads of this process, so that this page can be built anywhere. Without
# ``processes=False`` they are processes. ``Client("tcp://...")`` connects to a cluster that is
# there.

cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0")
client = Client(cluster)

# %%
# Rows in chunks
# --------------
# Nobody holds the rows: each chunk is made when a task reads it. The seed of each chunk is fixed,
# so that every pass reads the same rows. How many rows a chunk has is public.

n_samples, n_features, n_chunks = 400_000, 60, 16
generator = da.random.default_rng(0)
rows = generator.normal(size=(n_samples, n_features), chunks=(n_samples // n_chunks, n_features))
rows = rows * np.concatenate([[5, 4, 3], np.ones(n_features - 3)])

# %%
# The fit
# -------
# Budget and noise are in this process alone. The workers give back sums.

svd = DPTruncatedSVD(3, epsilon=1.0, solver="covariance")
with get_task_stream(client) as stream:
    svd.fit(rows)
print("released bound on the norms of rows:", round(svd.row_norm_, 2))
print("features of the components:", sorted(np.abs(svd.components_).argmax(axis=1).tolist()))

# %%
# Which task ran where
# --------------------
# Each bar is one task. A chunk is read and summed up by one task, and few more add up the sums.

tasks = [
    (key_split(task["key"]), task["worker"], one["start"], one["stop"])
    for task in stream.data
    for one in task["startstops"]
    if one["action"] == "compute"
]
workers = sorted({worker for _, worker, _, _ in tasks})
first = min(start for *_, start, _ in tasks)
kinds = list(dict.fromkeys(kind for kind, *_ in sorted(tasks, key=lambda task: task[2])))

# sphinx_gallery_alt = "Bars of time for two workers: each task of a fit, colored by what it computes; both workers are busy most of the time."
figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
for number, kind in enumerate(kinds):
    of_kind = [task for task in tasks if task[0] == kind]
    axes.barh(
        [workers.index(worker) for _, worker, _, _ in of_kind],
        [stop - start for *_, start, stop in of_kind],
        left=[start - first for *_, start, _ in of_kind],
        height=0.6,
        color=f"C{number}",
        edgecolor="white",
        linewidth=0.5,
        label=kind,
    )
axes.set(
    yticks=range(len(workers)),
    yticklabels=[f"worker {number + 1}" for number in range(len(workers))],
    xlabel="seconds since the first task",
    title="Tasks of one fit: each reads a chunk and gives back a sum",
)
figure.legend(loc="outside lower center", ncols=3, fontsize="small")
plt.show()

# %%
# Results wait
# ------------
# What ``transform`` returns is an array of Dask again. Nothing is computed before it is asked for.

coordinates = svd.transform(rows)
print(coordinates)
print("mean squares:", (coordinates**2).mean(axis=0).compute().round(1))

client.close()
cluster.close()
