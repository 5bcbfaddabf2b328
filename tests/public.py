"""What the package offers, for tests of all of it: none is left out by an old list."""

import skdp
from skdp._estimator import PrivateEstimator

__all__ = ["ESTIMATORS"]

ESTIMATORS = [
    one
    for one in (getattr(skdp, name) for name in sorted(skdp.__all__))
    if isinstance(one, type) and issubclass(one, PrivateEstimator)
    # A base for those of other authors.
    if one is not skdp.PlannedEstimator
]
