"""Sums in fixed point that start from their noise, for data that arrive in pieces.

Counts of a public unit are added up modulo :math:`2^{64}`. That is exact, in any order and
grouping: there is no rounding to charge for. What overflows wraps around, which is a function of
the exact sum and tells no more than that does.

The noise is rounded to the unit when it is drawn. The sum of the data is a multiple of the unit.
So rounding the noise and then adding gives what adding and then rounding would: a function of the
exact noisy sum. The proof of :mod:`skdp.privacy.lattice` stands as it is.

Where sums are released after every epoch, that holds for what each epoch adds: a unit of data plus
noise that follows the noise before. Of the proof remain the fixed map and the cells. The coupling
compares with noise whose correlation is computed in floating point, to some :math:`10^{-13}` of its
scale, for which the caller charges.
"""

import math
from collections.abc import Iterable

import numpy as np

from skdp.exceptions import BudgetError
from skdp.linalg.prefix_sums import PrefixNoise
from skdp.privacy.lattice import round_to_lattice
from skdp.privacy.noise import NoiseSource, draw
from skdp.privacy.release import Release, Released

__all__ = ["EXACT", "InitialNoiseSums", "fixed_point_unit", "to_counts"]

# The unit is so many powers of two below the noise, which leaves 22 bits above it.
_BITS_BELOW_NOISE = 40  # not tuned
# Where there is next to no noise, the range has to hold the data all the same.
_LEAST_NOISE = 1 / 16  # not tuned
_WORD = 2.0**64  # not tuned
#: Integers up to there are floats.
EXACT = 2.0**53  # not tuned


class InitialNoiseSums:
    """Integer sums that hold noise from the start, until they become the `release`.

    One count stands for the `unit`, a power of two. The `correlation` says how the noise of an
    epoch follows that of the ones before.
    """

    def __init__(
        self, release: Release, shape: tuple[int, ...], unit: float, correlation: PrefixNoise
    ) -> None:
        self.release, self._scale = release, release.noise_std or 0.0
        self.unit = unit
        self.counts = np.zeros(shape, dtype=np.int64)
        self._correlation = correlation
        self._buffers = np.zeros((len(correlation.decays), *shape))
        # Of a single number with noise 1 in the first epoch: what later epochs make of that, for
        # the scale of the noise in a sum.
        self._impulse = np.zeros((len(correlation.decays), 1))
        self._response, self._squares = 0.0, 0.0
        self._n_epochs, self._is_read = 0, False
        self.open_epoch()

    def open_epoch(self) -> None:
        """Add the noise of the epoch that begins, before its data."""
        if self._n_epochs >= self._correlation.horizon:
            raise BudgetError(f"Release {self.release.name!r} is charged for no more epochs.")
        fresh = np.full(1, float(self._n_epochs == 0))
        self._n_epochs, self._is_read = self._n_epochs + 1, False
        self._response += float(self._correlation.step(fresh, self._impulse)[0])
        self._squares += self._response**2
        if self._scale > 0:
            noise = self._correlation.step(self._draw(), self._buffers)
            noise *= self._scale / self.unit
            self.counts += np.rint(noise).astype(np.int64)

    def read(self) -> Released:
        """Return the noisy sums as numbers on the lattice of their noise, and its scale, once."""
        if self._is_read:
            raise BudgetError(f"Release {self.release.name!r} has been read in this epoch.")
        self._is_read = True
        values = self.counts * self.unit
        if self._scale > 0:
            round_to_lattice(values, self._scale)
        return Released(values, self.noise_std)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise in a sum, of all epochs so far."""
        return self._scale * math.sqrt(self._squares)

    def _draw(self) -> np.ndarray:
        # Data come later, so that a seed could not key the noise by them: neighboring streams
        # would share it. It always comes from the operating system.
        return draw(self.release.mechanism, self.counts.shape, NoiseSource().key())


def fixed_point_unit(releases: Iterable[Release]) -> float:
    """Choose the unit of sums that are planned, a power of two.

    At most 2 ** -40 of the smallest scale, or of a sixteenth of the smallest sensitivity, so that
    sums up to 2 ** 22 times as large as either do not wrap around.
    """
    planned = [(one.noise_std or 0.0, one.sensitivity or 0.0) for one in releases]
    noise_stds, sensitivities = zip(*planned, strict=True)
    size = max(min(noise_stds), _LEAST_NOISE * min(sensitivities))
    return math.ldexp(1.0, math.frexp(size)[1] - 1 - _BITS_BELOW_NOISE)


def to_counts(values: np.ndarray, unit: float) -> np.ndarray:
    """Round numbers to int64 counts of a unit, modulo 2 ** 64: odd, so that opposites cancel."""
    with np.errstate(all="ignore"):
        if np.abs(values).max(initial=0.0) < unit * EXACT:
            return np.rint(values / unit).astype(np.int64)
        counts = np.rint(np.fmod(values, unit * _WORD) / unit)
        counts -= _WORD * np.rint(counts / _WORD)
    # 2 ** 63 itself has no place above, and the same remainder as its opposite.
    counts[counts == _WORD / 2] = -_WORD / 2
    return counts.astype(np.int64)
