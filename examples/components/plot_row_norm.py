"""
What a bad bound costs
======================

Too large a bound on rows costs far more than too small a bound.

A private PCA scales rows longer than ``row_norm`` down to it. With a large bound hardly any row is
changed, but the noise grows with the square of the bound. With a small bound there is little noise,
but all rows get the same length. This example takes both to the extreme, on scikit-learn's digits,
whose rows have a norm of 34 after centering (the median).
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter
from sklearn.base import clone
from sklearn.datasets import load_digits

from skdp import DPPCA, PrivacyWarning
from skdp.metrics import captured_variance

X = load_digits().data
centered = X - X.mean(axis=0)
typical = np.median(np.linalg.norm(centered, axis=1))
print(f"median norm after centering: {typical:.0f}")

# %%
# Many bounds
# -----------
# Each point is the mean of ten fits. A real dataset would not allow that: each fit spends, and a
# bound that is found by comparing fits on private rows is not public. It is done here to see
# the whole curve once. Noise is fresh in every run, so the numbers vary a little.

pca = DPPCA(n_components=5, delta=1e-6, mean_norm=64.0)
row_norms = typical * 2.0 ** np.arange(-3, 3.1, 0.5)
epsilons = [np.inf, 4.0, 1.0, 0.5]  # inf is clipping alone
n_repeats = 10


def captured(epsilon, row_norm):
    """Mean fraction of the variance that five components capture."""
    estimator = clone(pca).set_params(epsilon=epsilon, row_norm=row_norm)
    n_fits = n_repeats if np.isfinite(epsilon) else 1
    return np.mean(
        [captured_variance(estimator.fit(X).components_, centered) for _ in range(n_fits)]
    )


with warnings.catch_warnings():
    warnings.simplefilter("ignore", PrivacyWarning)  # components drown: that is what is studied
    curves = {
        epsilon: [captured(epsilon, row_norm) for row_norm in row_norms] for epsilon in epsilons
    }
print("row_norm / typical  no noise  epsilon=4  epsilon=1  epsilon=0.5")
for row_norm, *values in zip(row_norms, *curves.values(), strict=True):
    print(f"{row_norm / typical:18.2f}" + "".join(f"{value:10.1%}" for value in values))

# %%
# Err on the small side
# ---------------------
# The upper curve is clipping alone: it costs next to nothing, because clipped rows keep their
# direction. All curves fall on the right, where the noise grows. The less is known of the
# scale, the lower the guess should be.
#
# Other data may be less kind to small bounds: a direction that shows in long rows only is lost
# with them.

labels = {  # text, color, and where a curve has room for them
    np.inf: ("clipped, without noise", "#5f6368", (8.3, 0.56, "right")),
    4.0: ("epsilon = 4", "#1f5fa8", (4.25, 0.3, "left")),
    1.0: ("epsilon = 1", "#2a8c82", (0.125, 0.465, "left")),
    0.5: ("epsilon = 0.5", "#c8452d", (0.125, 0.375, "left")),
}

# sphinx_gallery_alt = "Captured variance against row_norm, for three epsilons: level up to the typical norm, then falling, the sooner the smaller the epsilon."
fig, ax = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
ax.axvline(1, color="#9aa0a6", linewidth=1, linestyle=":")
ax.text(1.03, 0.012, "typical norm", color="#5f6368")
for epsilon, values in curves.items():
    text, color, (x, y, side) = labels[epsilon]
    style = {"linestyle": "--"} if np.isinf(epsilon) else {"marker": "o", "markersize": 6}
    ax.plot(row_norms / typical, values, color=color, linewidth=2, **style)
    ax.text(x, y, text, color=color, ha=side)
ax.set_xscale("log", base=2)
ax.set_xticks([1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8], ["1/8", "1/4", "1/2", "1", "2", "4", "8"])
ax.set_ylim(0, 0.6)
ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
ax.grid(axis="y", color="#e4e6e8", linewidth=0.8)
ax.set_axisbelow(True)
ax.spines[["top", "right", "left"]].set_visible(False)
ax.tick_params(length=0, pad=6)
ax.set_xlabel("row_norm, in units of the typical norm")
ax.set_title("Variance of digits that five components capture", loc="left", pad=14, weight="bold")
fig.savefig("plot_row_norm.png", dpi=150)
print("Wrote plot_row_norm.png")
