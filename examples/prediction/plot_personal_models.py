"""
Half of a picture, and what others teach about the rest
=======================================================

Learn from many users what they share, and fit a model for each user on the user's own device.

Many people each have a few rows of a regression of their own. :class:`skdp.DPPersonalizedRegressor`
learns from all of them what their regressions have in common, with privacy at the level of a whole
person, and publishes it. Each person then fits a *head* to their own rows, on their own device.
The head is for nobody else, and costs no privacy at all.

Here a person is one image of a digit, of which 32 of the 64 pixels, at random, are seen. A row is a
pixel: where it is, and how dark. The other 32 pixels are predicted. Images are used for only one
reason: everybody can see how good the predictions are.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge

from skdp import DPPersonalizedRegressor, PrivacyWarning

# %%
# The rows of a person
# --------------------
# The features of a pixel are 36 products of cosines of its place, as in a JPEG file: sums of them
# with few coefficients make smooth pictures. They say nothing about anybody, for all images have
# the same places. What is private is which pixels are seen, and how dark they are: all rows of a
# person together.

images = load_digits().data / 16
n_people, n_pixels = images.shape
side, n_frequencies, n_seen = 8, 6, 32
waves = np.cos(np.pi * np.outer(np.arange(side) + 0.5, np.arange(n_frequencies)) / side)
waves /= np.linalg.norm(waves, axis=0)
features = side * np.kron(waves, waves)

generator = np.random.default_rng(0)
order = np.argsort(generator.random(images.shape), axis=1)
seen, hidden = order[:, :n_seen], order[:, n_seen:]


def rows_of(pixels):
    """Rows, responses and ids of these pixels of all people."""
    people = np.repeat(np.arange(n_people), pixels.shape[1])
    return features[pixels.ravel()], np.take_along_axis(images, pixels, axis=1).ravel(), people


X, y, people = rows_of(seen)
X_hidden, y_hidden, _ = rows_of(hidden)
print(f"{n_people} people, {len(y)} rows of {X.shape[1]} features")

# %%
# What is published
# -----------------
# Three components, found with the budget of epsilon 1 and delta 1e-5. One person, with all the
# pixels that are seen, may be replaced by any other, of any values. That there is a grid of pixels
# is no secret, so that nothing need be whitened. ``random_state`` stays ``None``.
#
# 1797 people are few for this epsilon: the third component hardly stands out from the noise, and in
# half of the fits a :class:`skdp.PrivacyWarning` says so. The warning is about ``snr_``. This
# number is released, so you may look at it for free.

model = DPPersonalizedRegressor(3, epsilon=1.0, delta=1e-5, decorrelate=False)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", PrivacyWarning)
    model.fit(X, y, groups=people)
print(model.privacy_spent_)
print(f"the weakest component is {model.snr_:.2f} times as large as noise is likely to be")

# %%
# Heads
# -----
# ``head`` is for one person: what a device would do. ``predict`` with ``support`` does it for
# many, here to see how good the predictions are. A person who was not among those of the fit would
# do the same, without any cost in privacy.

mine = people == 3
head = model.head(X[mine], y[mine])
print(head)


def score(predictions):
    """R^2 of the hidden pixels: a noise-free function of the images, for an example only."""
    missed = np.square(y_hidden - predictions).sum()
    return 1 - missed / np.square(y_hidden - y_hidden.mean()).sum()


def each_by_itself(alpha):
    """Ridge regression of each person alone: nobody learns anything of anybody."""
    return np.concatenate(
        [
            Ridge(alpha=alpha).fit(X[own], y[own]).predict(X_hidden[new])
            for own, new in zip(
                np.split(np.arange(len(y)), n_people),
                np.split(np.arange(len(y_hidden)), n_people),
                strict=True,
            )
        ]
    )


_, _, hidden_people = rows_of(hidden)
predictions = {
    "personal models": model.predict(X_hidden, groups=hidden_people, support=(X, y, people)),
    "mean image, not private": images.mean(axis=0)[hidden.ravel()],
    "ridge of each alone": each_by_itself(alpha=10.0),
}
for name, values in predictions.items():
    print(f"{name}: R^2 {score(values):.2f}")

# %%
# The penalty of ridge regression is the best one in hindsight. 32 rows are too few for 36
# coefficients; in the space that the other people taught they are enough for three. The mean of all
# images, which takes no account of the person, is in between, and would need privacy as well.
#
# The pictures
# ------------
# Hidden pixels are shown in blue at the left; all others are as they were seen.

gray = "#5f6368"
shades = plt.colormaps["gray_r"].with_extremes(bad="#a9c6e8")
shown = [3, 12, 20, 41, 56, 88]
columns = ["Seen", *(name.capitalize() for name in predictions), "Truth"]
# sphinx_gallery_alt = "Rows of digits: the half of the pixels that is seen, and the picture that personal models, the mean image and a ridge regression make of it, beside the truth. Personal models come closest."
fig, axes = plt.subplots(len(shown), 5, figsize=(8.6, 9.4), layout="constrained")
for row, person in zip(axes, shown, strict=True):
    half = np.full(n_pixels, np.nan)
    half[seen[person]] = images[person, seen[person]]
    pictures = [half]
    for values in predictions.values():
        completed = half.copy()
        completed[hidden[person]] = values.reshape(n_people, -1)[person]
        pictures.append(completed)
    pictures.append(images[person])
    for ax, picture in zip(row, pictures, strict=True):
        ax.imshow(picture.reshape(side, side), cmap=shades, vmin=0, vmax=1)
for ax, name in zip(axes[0], columns, strict=True):
    two_lines = name.replace(", ", ",\n").replace(" of ", "\nof ").replace(" models", "\nmodels")
    ax.set_title(two_lines, loc="left", weight="bold")
for ax, values in zip(axes[-1, 1:4], predictions.values(), strict=True):
    ax.set_xlabel(f"R² {score(values):.2f}", color=gray, loc="left")
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
fig.savefig("plot_personal_models.png", dpi=150)
print("Wrote plot_personal_models.png")
