"""What each mechanism makes of a value."""

import numpy as np

from skdp.privacy.lattice import round_to_lattice
from skdp.privacy.noise import draw

__all__ = ["checked_value", "exact", "with_noise"]

_CHOICE = "exponential"


def checked_value(value: np.ndarray, mechanism: str) -> np.ndarray:
    """Refuse a shape that the mechanism does not take; make the symmetric exactly so."""
    if mechanism == "laplace" and value.ndim > 2:
        raise ValueError(f"value has {value.ndim} dimensions; Laplace noise takes 1 or 2.")
    if mechanism != "symmetric_gaussian":
        return value
    if value.ndim != 2 or value.shape[0] != value.shape[1]:
        raise ValueError(f"value must be a square matrix, got shape {value.shape}.")
    # To the last bit: half of the noise would do for a difference of two halves.
    return np.asarray((value + value.T) / 2)


def exact(value: np.ndarray, mechanism: str) -> np.ndarray:
    """Return what is released without noise."""
    return np.array(np.argmin(value)) if mechanism == _CHOICE else value


def with_noise(value: np.ndarray, mechanism: str, noise_std: float, key: bytes) -> np.ndarray:
    """Return what is released with noise of that scale."""
    noise = draw(mechanism, value.shape, key)
    noise *= noise_std
    if mechanism == _CHOICE:
        # Beside a large number that all have in common noise would be lost.
        return np.array(np.argmin(noise + (value - value.min())))
    noise += value
    return round_to_lattice(noise, noise_std)
