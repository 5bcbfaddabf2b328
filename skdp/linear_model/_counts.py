"""How much of a budget goes into counts, from public facts."""

import numpy as np

__all__ = ["share_for_counts"]


def share_for_counts(
    count: int, n_units: int, mu: float, *, precision: float, limits: tuple[float, float]
) -> float:
    """Compute the share at which each of so many counts has a relative error of `precision`.

    It is kept between the limits, and depends on public facts only.
    """
    needed = count / (precision * n_units * mu) ** 2
    return float(np.clip(needed, *limits))
