"""Columns in units so different that few of them decide alone, as released variances show."""

import numpy as np

from skdp.decomposition._factors import Factors

# Few columns are at most this fraction, and together have nearly all of the variance.
_FEW, _NEARLY_ALL = 0.2, 0.99  # not studied
# The largest variance is more than so many times the median one.
_LARGEST_RATIO = 1e4  # not studied
# A smaller variance, in standard deviations of the noise, may be noise alone.
_VISIBLE = 4.0  # not studied


def warnings_for_units(factors: Factors, n_features: int) -> list[str]:
    """Warn if nearly all of the released variance is that of few columns, and name the scaler.

    Variances that noise hides count as 0, as components that do not stand out are left out.
    """
    n_visible = factors.n_above_noise
    is_private = factors.eigenvalue_noise > 0
    if not is_private or not n_visible or len(factors.eigenvalues) < n_features:
        return []
    components, eigenvalues = factors.components[:n_visible], factors.eigenvalues[:n_visible]
    variances = np.sort(eigenvalues @ np.square(components))[::-1]
    n_few = int(_FEW * n_features)
    is_alone = variances[:n_few].sum() > _NEARLY_ALL * variances.sum()
    median = float(np.median(variances))
    # A variance that is noise tells of none.
    median *= median > _VISIBLE * factors.eigenvalue_noise
    if not is_alone or variances[0] <= _LARGEST_RATIO * median:
        return []
    return [
        f"Nearly all of the released variance is that of at most {n_few} of {n_features} columns, "
        f"which decide alone: the largest is over {_LARGEST_RATIO:g} times the median. If columns "
        "are in different units, put skdp.DPStandardScaler before this step."
    ]
