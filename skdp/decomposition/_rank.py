"""The choice of the number of components from a released spectrum."""

from numbers import Integral

import numpy as np

from skdp.linalg.spectrum import components_for_ratio, most_likely_rank


def ratios_of(parts: np.ndarray, whole: float) -> np.ndarray:
    """Divide `parts` by `whole`, which is at least their sum; if it is 0, so are the ratios."""
    return parts / whole if whole > 0 else np.zeros_like(parts)


def choose_rank(
    n_components: int | float | str | None,
    variances: np.ndarray,
    total: float,
    n_rows: int,
    dtype: np.dtype,
) -> int:
    """Choose the number of components of a released spectrum, by its ratios in `dtype`."""
    if n_components is None:
        return min(n_rows, len(variances))
    if n_components == "mle":
        return most_likely_rank(variances, n_rows)
    if isinstance(n_components, Integral):
        return int(n_components)
    ratios = ratios_of(variances, total).astype(dtype)
    return min(components_for_ratio(ratios, float(n_components)), n_rows)
