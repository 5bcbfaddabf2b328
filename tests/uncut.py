"""What is left of a regression, or of a matrix, where noise is neither cut off nor shrunk."""

from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from skdp.linalg import denoising
from skdp.linear_model._descent import Calibration
from skdp.linear_model.least_squares import steps
from skdp.linear_model.low_rank import descent as trace_descent
from skdp.linear_model.low_rank.descent import Estimate

__all__ = ["without_cut", "without_debiasing", "without_shrinkage"]


def without_cut():
    """Leave the singular values of noise in the coefficients of regressions inside."""
    return patch.object(trace_descent, "cut", lambda point, offset, *_: Estimate(point, offset))


def without_debiasing():
    """Leave the singular values of noisy entries as they are."""
    return patch.object(denoising, "debiased", lambda values, *_: values)


@contextmanager
def without_shrinkage():
    """Leave the coefficients of linear regressions inside as long as their steps make them."""
    with ExitStack() as patches:
        patches.enter_context(patch.object(steps, "part_beyond_noise", lambda *_, has_one: 1.0))
        one = Calibration(factor=1.0, mean=0.0, is_doubtful=False, square=1.0, slope=1.0)
        patches.enter_context(patch.object(steps, "calibration_of", lambda *_: one))
        yield
