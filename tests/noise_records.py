"""The noise of fits, as drawn: on the lattice of a release, noises may agree by chance.

And what is left of a regression where singular values of noise are not cut off.
"""

from contextlib import contextmanager
from unittest.mock import patch

import numpy as np

from skdp.linear_model import _trace_descent
from skdp.linear_model._trace_descent import Estimate
from skdp.privacy import budget, noise

__all__ = ["drawn_noise", "noise_of", "without_cut"]


@contextmanager
def drawn_noise():
    """Give a list that collects the noise of all releases inside, in units of their scales."""
    draws, draw = [], noise.draw

    def keep(*arguments):
        draws.append(draw(*arguments))
        # It is scaled in place.
        return draws[-1].copy()

    with patch.object(noise, "draw", keep), patch.object(budget, "draw", keep):
        yield draws


def noise_of(estimator, *data):
    """Fit, and return all the noise of it as one flat array."""
    with drawn_noise() as draws:
        estimator.fit(*data)
    return np.concatenate([np.ravel(draw) for draw in draws])


def without_cut():
    """Leave the singular values of noise in the coefficients of regressions inside."""
    return patch.object(_trace_descent, "_cut", lambda point, offset, _: Estimate(point, offset))
