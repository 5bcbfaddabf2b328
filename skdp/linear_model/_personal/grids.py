"""Public grids of searches, and the priors that users vote on."""

import numpy as np

#: For norms in unknown units, by factors of the root of 2; a search takes 7 counts. Not studied.
SIZES = 2.0 ** (np.arange(-64, 64) / 2)
#: The same for norms in squares of unknown units, by factors of 2; 7 counts.
SQUARES = 2.0 ** np.arange(-63, 65)  # not studied
#: Pairs: the part of the prior variance that is spread over all directions, and a factor of the
#: noise variance. If users differ in all directions, most of what seemed to be noise is signal. If
#: they hardly differ at all, most of what seemed to be signal is noise. Not studied.
PRIORS = ((0.0, 1.0), (0.03, 1.0), (0.1, 1.0), (0.3, 1.0), (1.0, 1.0), (1.0, 0.01), (0.0, 100.0))
#: For norms in units of their likely size, by factors of the fourth root of 2; 4 counts.
RELATIVE_SIZES = 2.0 ** (np.arange(-11, 5) / 4)  # not studied
#: For ratios of at least 1, by factors of the root of 2; 4 counts.
RATIOS = 2.0 ** (np.arange(16) / 2)  # not studied
# For numbers of rows of a user, by powers of 2; 4 counts.
_ROW_COUNTS = 2.0 ** np.arange(16)  # not studied


def row_counts(max_rows_per_user: int | None) -> np.ndarray:
    """Return the public grid for the number of rows of a user."""
    if max_rows_per_user is None:
        return _ROW_COUNTS
    # No longer than the other grid: a longer one would take more counts.
    points = _ROW_COUNTS[:-1]
    return np.append(points[points < max_rows_per_user], float(max_rows_per_user))
