"""Public grids and choices that searches and votes go through."""

import numpy as np

__all__ = ["PRIORS", "RATIOS", "RELATIVE_SIZES", "SIZES", "SQUARES", "row_counts"]

#: For norms in unknown units, by factors of the root of 2; 7 counts. Not studied.
SIZES = 2.0 ** (np.arange(-64, 64) / 2)
#: The same for norms in squares of unknown units, by factors of 2; 7 counts.
SQUARES = 2.0 ** np.arange(-63, 65)  # not studied
#: How much of the prior of a user's coefficients is spread over all directions, and what the
#: variance of the noise is multiplied by: where users differ in all directions, most of what was
#: taken for noise is none; and where they hardly differ at all, so is most of what was not. Not
#: studied.
PRIORS = (
    (0.0, 1.0),
    (0.03, 1.0),
    (0.1, 1.0),
    (0.3, 1.0),
    (1.0, 1.0),
    (1.0, 0.01),
    (0.0, 100.0),
)
#: For norms in units of what they are likely to be, by factors of the fourth root of 2; 4 counts.
RELATIVE_SIZES = 2.0 ** (np.arange(-11, 5) / 4)  # not studied
#: For ratios that are at least 1, by factors of the root of 2; 4 counts.
RATIOS = 2.0 ** (np.arange(16) / 2)  # not studied
# For rows of a user, by powers of 2; 4 counts.
_ROW_COUNTS = 2.0 ** np.arange(16)  # not studied


def row_counts(max_rows_per_user: int | None) -> np.ndarray:
    """Return the public grid of how many rows a user may have."""
    if max_rows_per_user is None:
        return _ROW_COUNTS
    # As many at most: a longer grid would take more counts.
    points = _ROW_COUNTS[:-1]
    return np.append(points[points < max_rows_per_user], float(max_rows_per_user))
