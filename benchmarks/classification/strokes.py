"""Made-up images of ten classes: sparse positive features that neighbors share, as of digits.

A class is a closed curve, the sum of a few waves. A record bends the waves, shifts, turns and
stretches the curve, and draws it with a pen of its own width on 28 x 28 pixels from 0 to 1. Most
pixels stay 0. All is determined by the seed.
"""

import numpy as np

__all__ = ["make_strokes"]

N_CLASSES, SIDE = 10, 28
# Waves of a curve, points at which it is drawn, and how far records bend it, beside its size.
N_WAVES, N_POINTS, BENDING = 4, 48, 0.11
# Fainter pixels are 0.
FAINTEST = 0.2


def make_strokes(n_records: int = 10_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return images, one a row, and their classes."""
    random = np.random.default_rng([seed, 28])
    decay = 1 / np.arange(1, N_WAVES + 1)
    # Cosines and sines of both coordinates, of each wave.
    shapes = random.normal(size=(N_CLASSES, 2, 2, N_WAVES)) * decay
    y = random.integers(N_CLASSES, size=n_records)
    waves = shapes[y] + BENDING * random.normal(size=(n_records, 2, 2, N_WAVES)) * decay**0.5
    angles = np.outer(
        np.arange(1, N_WAVES + 1), np.linspace(0, 2 * np.pi, N_POINTS, endpoint=False)
    )
    curves = waves[:, :, 0] @ np.cos(angles) + waves[:, :, 1] @ np.sin(angles)
    curves /= np.abs(curves).max(axis=(1, 2), keepdims=True)
    turn = 0.2 * random.normal(size=n_records)
    turning = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    stretching = 9 * np.exp(0.12 * random.normal(size=(n_records, 2, 1)))
    shift = SIDE / 2 - 0.5 + 1.2 * random.normal(size=(n_records, 2, 1))
    points = stretching * np.einsum("ijn,njp->nip", turning, curves) + shift
    width = 0.8 * np.exp(0.2 * random.normal(size=(n_records, 1, 1, 1)))
    # How near each point is to each row of pixels, and to each column.
    near = np.exp(-(((points[..., np.newaxis] - np.arange(SIDE)) / width) ** 2) / 2)
    ink = np.minimum(near[:, 0].transpose(0, 2, 1) @ near[:, 1], 1.0).reshape(n_records, -1)
    return np.where(ink < FAINTEST, 0.0, ink), y
