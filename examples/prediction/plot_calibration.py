"""
How far can private probabilities be trusted?
=============================================

See how far the probabilities of a private classifier can be trusted.

Of all people to whom a model gives a probability of 70%, some 70% should have the label. A
calibration curve shows whether that is so. With little budget a private classifier has two reasons
to be too sure of itself: gradients are clipped, which makes coefficients larger, and noise is added
to them. :class:`skdp.DPLogisticRegression` at three epsilons shows how both fade.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter
from scipy.special import expit
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skdp import DPLogisticRegression

# %%
# The people
# ----------
# Ten features and a label that follows them as the model of logistic regression has it. Five
# thousand people are in the fit, and others are there to see what came out.

generator = np.random.default_rng(0)
n_people, n_features = 5000, 10
weights = generator.standard_normal(n_features)
weights *= 2 / np.linalg.norm(weights)


def draw(n_people):
    X = generator.standard_normal((n_people, n_features))
    return X, (generator.random(n_people) < expit(X @ weights)).astype(int)


X, y = draw(n_people)
X_test, y_test = draw(40_000)

# %%
# The fits
# --------
# Eight for each epsilon, since noise differs from fit to fit. On private records that would cost
# eight times as much, and the curves themselves, counts of other people without noise, would not be
# covered at all. Ten features of variance 1 have a norm of about 3, which is the ``row_norm``.

epsilons, n_repeats = [0.1, 0.5, 4.0], 8
exact = LogisticRegression(C=np.inf).fit(X, y)
fits = {
    epsilon: [
        DPLogisticRegression(classes=[0, 1], epsilon=epsilon, row_norm=3.0).fit(X, y)
        for _ in range(n_repeats)
    ]
    for epsilon in epsilons
}


def loss(model):
    return log_loss(y_test, model.predict_proba(X_test))


def length(model):
    return np.linalg.norm(model.coef_) / np.linalg.norm(exact.coef_)


print("epsilon  accuracy  log loss  coefficients, times as long as without privacy")
for epsilon, models in fits.items():
    means = [np.mean([of(model) for model in models]) for of in (loss, length)]
    accuracy = np.mean([model.score(X_test, y_test) for model in models])
    print(f"{epsilon:7g}  {accuracy:8.3f}  {means[0]:8.3f}  {means[1]:.2f}")
print(f"   none  {exact.score(X_test, y_test):8.3f}  {loss(exact):8.3f}  1.00")
print(f"frequencies alone    {log_loss(y_test, np.full(len(y_test), y.mean())):.3f}")

# %%
# A curve that is flatter than the diagonal is too sure of itself. With much budget, on the right,
# hardly anything is clipped: all fits agree, and probabilities are nearly as good as without
# privacy. In the middle clipping shows: what is given as 90% is right for some 80%. On the left
# noise takes over. Each fit is off in its own way, and a probability of 95% may be worth three
# quarters.
#
# So with little budget sort by private probabilities, and calibrate them on public records if their
# values matter.

blue, gray = "#1f5fa8", "#5f6368"
exact_curve = calibration_curve(
    y_test, exact.predict_proba(X_test)[:, 1], n_bins=10, strategy="quantile"
)
# sphinx_gallery_alt = "Three calibration curves. At an epsilon of 0.1 private fits scatter and are too sure of themselves; at 0.5 they agree, and at 4 they come close to the fit without privacy."
fig, axes = plt.subplots(1, 3, figsize=(10.4, 4.0), layout="constrained", sharey=True)
for ax, (epsilon, models) in zip(axes, fits.items(), strict=True):
    ax.plot([0, 1], [0, 1], color="#c9ccd0", linewidth=1, zorder=0)
    for model in models:
        observed, predicted = calibration_curve(
            y_test, model.predict_proba(X_test)[:, 1], n_bins=10, strategy="quantile"
        )
        ax.plot(predicted, observed, color=blue, linewidth=1.2, alpha=0.7)
    ax.plot(*exact_curve[::-1], "o", color=gray, markersize=5)
    ax.set_title(f"epsilon = {epsilon:g}", loc="left", pad=10, weight="bold")
    ax.set_aspect("equal")
    ax.set(xlim=(0, 1), ylim=(0, 1), xticks=[0, 0.25, 0.5, 0.75, 1], yticks=[0, 0.25, 0.5, 0.75, 1])
    ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.grid(color="#e4e6e8", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left", "bottom"]].set_visible(False)
    ax.tick_params(length=0, pad=6)
    ax.set_xlabel("predicted probability")
axes[0].set_ylabel("fraction that has the label")
axes[2].text(0.97, 0.12, "private: a line for each fit", color=blue, ha="right")
axes[2].text(0.97, 0.04, "dots: without privacy", color=gray, ha="right")
fig.get_layout_engine().set(w_pad=0.12)
fig.savefig("plot_calibration.png", dpi=150)
print("Wrote plot_calibration.png")
