"""A matrix of rank 3."""

import numpy as np

__all__ = ["LOW_RANK"]

generator = np.random.default_rng(0)
left, right = (np.linalg.qr(generator.normal(size=(n, 3)))[0] for n in (60, 20))
LOW_RANK = (left * [9.0, 6.0, 3.0]) @ right.T
