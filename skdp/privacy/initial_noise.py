"""Sums in fixed point whose noise is added before the data, which arrive in pieces.

The sums are integers, multiples of a public unit, and are added modulo :math:`2^{64}`. Integer
addition is exact in any order and grouping, so that no rounding has to be charged for. An overflow
wraps around; the result is still a function of the exact sum, and tells no more than the exact sum
does.

The noise is rounded to multiples of the unit when it is drawn, and the sum of the data is a
multiple of the unit. So rounding the noise and then adding it gives the same as adding and then
rounding: a function of the exact noisy sum. The proof of :mod:`skdp.privacy.lattice` holds
unchanged.

If sums are released after every epoch, this holds for what each epoch adds: data plus noise that is
correlated with the noise of earlier epochs. The fixed map and the cells of the proof remain. The
coupling of the proof then compares with noise whose correlation is computed in floating point, with
a relative error of some :math:`10^{-13}`; the caller charges for that.
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

# The unit is this many powers of two below the noise. That leaves 22 bits of a word for sums above
# the noise.
_BITS_BELOW_NOISE = 40  # not tuned
# If there is hardly any noise, the range of the integers still has to hold the data.
_LEAST_NOISE = 1 / 16  # not tuned
_WORD = 2.0**64  # not tuned
#: All integers up to this one are floats.
EXACT = 2.0**53  # not tuned


class InitialNoiseSums:
    """Integer sums that hold noise from the start; reading them makes the `release`.

    The integers count the `unit`, a power of two. The `correlation` says how the noise of an epoch
    depends on that of earlier epochs.
    """

    def __init__(
        self, release: Release, shape: tuple[int, ...], unit: float, correlation: PrefixNoise
    ) -> None:
        self.release, self._fresh_std = release, release.noise_std or 0.0
        self.unit = unit
        self.counts = np.zeros(shape, dtype=np.int64)
        self._correlation = correlation
        self._buffers = np.zeros((len(correlation.decays), *shape))
        # How a unit of noise in the first epoch spreads to later epochs, which gives the standard
        # deviation of the noise in a sum.
        self._impulse = np.zeros((len(correlation.decays), 1))
        self._response, self._squares = 0.0, 0.0
        self._n_epochs, self._is_read = 0, False
        self.open_epoch()

    def open_epoch(self) -> None:
        """Add the noise of the epoch that begins now, before its data."""
        if self._n_epochs >= self._correlation.horizon:
            raise BudgetError(f"Release {self.release.name!r} has paid for no more epochs.")
        fresh = np.full(1, float(self._n_epochs == 0))
        self._n_epochs, self._is_read = self._n_epochs + 1, False
        self._response += float(self._correlation.step(fresh, self._impulse)[0])
        self._squares += self._response**2
        if self._fresh_std > 0:
            noise = self._correlation.step(self._draw(), self._buffers)
            noise *= self._fresh_std / self.unit
            self.counts += np.rint(noise).astype(np.int64)

    def read(self) -> Released:
        """Return the noisy sums, rounded to the lattice of their noise; only once in each epoch."""
        if self._is_read:
            raise BudgetError(f"Release {self.release.name!r} has been read in this epoch.")
        self._is_read = True
        values = self.counts * self.unit
        if self._fresh_std > 0:
            round_to_lattice(values, self._fresh_std)
        return Released(values, self.noise_std)

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise in a sum, of all epochs so far."""
        return self._fresh_std * math.sqrt(self._squares)

    def _draw(self) -> np.ndarray:
        # The key always comes from the operating system. The data come later: a seed could not key
        # the noise by them, and neighboring streams would share their noise.
        return draw(self.release.mechanism, self.counts.shape, NoiseSource().key())


def fixed_point_unit(releases: Iterable[Release]) -> float:
    """Choose the unit of planned sums, a power of two.

    It is at most 2 ** -40 of the smallest noise std, or of a sixteenth of the smallest sensitivity
    if that is larger. So sums of up to 2 ** 22 times that number do not wrap around.
    """
    planned = [(one.noise_std or 0.0, one.sensitivity or 0.0) for one in releases]
    noise_stds, sensitivities = zip(*planned, strict=True)
    size = max(min(noise_stds), _LEAST_NOISE * min(sensitivities))
    return math.ldexp(1.0, math.frexp(size)[1] - 1 - _BITS_BELOW_NOISE)


def to_counts(values: np.ndarray, unit: float) -> np.ndarray:
    """Round numbers to int64 multiples of a unit, modulo 2 ** 64; opposite numbers cancel."""
    with np.errstate(all="ignore"):
        if np.abs(values).max(initial=0.0) < unit * EXACT:
            return np.rint(values / unit).astype(np.int64)
        counts = np.rint(np.fmod(values, unit * _WORD) / unit)
        counts -= _WORD * np.rint(counts / _WORD)
    # int64 does not hold 2 ** 63, which has the same remainder as its opposite.
    counts[counts == _WORD / 2] = -_WORD / 2
    return counts.astype(np.int64)
