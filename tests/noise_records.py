"""The noise of fits, as drawn: on the lattice of a release, noises may agree by chance."""

from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

from skdp.privacy import mechanisms

__all__ = ["drawn_noise", "noise_of"]


@contextmanager
def drawn_noise():
    """Give a list that collects the noise of all releases inside, in units of their scales."""
    draws, draw = [], mechanisms.draw

    def keep(*arguments):
        draws.append(draw(*arguments))
        # It is scaled in place.
        return draws[-1].copy()

    with patch.object(mechanisms, "draw", keep):
        yield draws


def noise_of(estimator, *data):
    """Fit, and return all the noise of it as one flat array."""
    with drawn_noise() as draws:
        estimator.fit(*data)
    return np.concatenate([np.ravel(draw) for draw in draws])
