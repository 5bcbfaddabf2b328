"""Planted mistakes: small estimators that leak in different ways, and the check that finds each.

All estimators of this module release the mean of rows that are clipped to norm 1.
:class:`NoisyMean` is correct. The other classes are copies with one mistake each. Use them to try
checks, and for nothing else.

Examples
--------
>>> import numpy as np
>>> from skdp.testing import find_low_bits, mistakes
>>> X, other = np.eye(4), np.eye(4)[::-1]
>>> for kind in (mistakes.NoisyMean, mistakes.PlainNoise):
...     found = find_low_bits(lambda data, seed: kind(random_state=seed).fit(data), X, other)
...     print(kind.__name__, *found)
NoisyMean
PlainNoise mean_: noise is added in floating point, and lies on no lattice
"""

import warnings

import numpy as np

from skdp.privacy.noise import NoiseSource, with_noise


class NoisyMean:
    """The mean of rows of norm 1 at most, with Gaussian noise: this class makes no mistake.

    Parameters
    ----------
    mu : float, default=1.0
        The mu of Gaussian differential privacy of a fit, if one row is replaced.
    random_state : int, default=None
        Seed of the noise, together with the data; None takes fresh noise.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        The noisy mean.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.testing.mistakes import NoisyMean
    >>> NoisyMean().fit(np.eye(3)).mean_.shape
    (3,)
    """

    def __init__(self, mu: float = 1.0, random_state: int | None = None) -> None:
        self.mu, self.random_state = mu, random_state

    def fit(self, X: np.ndarray) -> "NoisyMean":
        """Release the mean.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        NoisyMean
            The estimator itself.
        """
        self._before_release(X)
        self.mean_ = self._with_noise(self._clipped(X).mean(axis=0), 2 / len(X) / self.mu, X)
        return self

    def _before_release(self, X: np.ndarray) -> None:
        """Do nothing; subclasses may override it."""

    def _clipped(self, X: np.ndarray) -> np.ndarray:
        return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)

    def _source(self, X: np.ndarray) -> NoiseSource:
        """Return a source of noise, keyed by seed and data or by the operating system."""
        return NoiseSource(self.random_state, (X.tobytes(), X.shape, self.mu))

    def _with_noise(self, value: np.ndarray, noise_std: float, X: np.ndarray) -> np.ndarray:
        return with_noise(value, "gaussian", noise_std, self._source(X).key("noisy mean"))


class TooLittleNoise(NoisyMean):
    """Has half of the noise that it should have."""

    def _with_noise(self, value: np.ndarray, noise_std: float, X: np.ndarray) -> np.ndarray:
        return super()._with_noise(value, noise_std / 2, X)


class NoClipping(NoisyMean):
    """Does not clip rows, as if none were long."""

    def _clipped(self, X: np.ndarray) -> np.ndarray:
        return X


class FixedNoise(NoisyMean):
    """Uses a fixed seed if none is given."""

    def _source(self, X: np.ndarray) -> NoiseSource:
        return NoiseSource(self.random_state or 0, (X.tobytes(),))


class SharedNoise(NoisyMean):
    """Uses the same noise for all data."""

    def _source(self, X: np.ndarray) -> NoiseSource:
        return NoiseSource(self.random_state)


class NoiseOfTheProcess(NoisyMean):
    """Takes its seed from numpy's global generator, which forks of a process share."""

    def _source(self, X: np.ndarray) -> NoiseSource:
        return NoiseSource(int(np.random.randint(2**31)))  # noqa: NPY002


class PlainNoise(NoisyMean):
    """Adds floating-point noise, whose low bits depend on the value."""

    def _with_noise(self, value: np.ndarray, noise_std: float, X: np.ndarray) -> np.ndarray:
        generator = np.random.default_rng(self.random_state)
        return value + generator.normal(scale=noise_std, size=value.shape)


class ExactAttribute(NoisyMean):
    """Sets a statistic without noise."""

    def _before_release(self, X: np.ndarray) -> None:
        self.data_max_ = X.max(axis=0)


class LeakedShape(NoisyMean):
    """Reveals the number of long rows by a shape."""

    def _before_release(self, X: np.ndarray) -> None:
        self.long_rows_ = np.zeros(np.count_nonzero(np.linalg.norm(X, axis=1) > 1))


class KeptRow(NoisyMean):
    """Stores a row."""

    def _before_release(self, X: np.ndarray) -> None:
        self._first = X[0].copy()


class WarnsOfData(NoisyMean):
    """Warns if a row is long."""

    def _before_release(self, X: np.ndarray) -> None:
        if np.linalg.norm(X, axis=1).max() > 1:
            warnings.warn("X has long rows.", UserWarning, stacklevel=3)


class PrintsData(NoisyMean):
    """Prints a number that occurs in the data."""

    def _before_release(self, X: np.ndarray) -> None:
        print(f"Largest number: {X.max():.3f}")


_REVEALING = (ExactAttribute, LeakedShape, KeptRow, WarnsOfData, PrintsData)
#: The name of the check in :mod:`skdp.testing` that catches each mistake.
MISTAKES: dict[type[NoisyMean], str] = {
    **dict.fromkeys((TooLittleNoise, NoClipping), "audit"),
    **dict.fromkeys((FixedNoise, SharedNoise, NoiseOfTheProcess), "find_repeated_noise"),
    PlainNoise: "find_low_bits",
    **dict.fromkeys(_REVEALING, "find_data_dependent_attributes"),
}

__all__ = ["MISTAKES", "NoisyMean"]
__all__ += [kind.__name__ for kind in MISTAKES]
