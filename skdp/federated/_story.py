"""What a party has been told: masks hang on it, so that owners told different stories disagree."""

from collections.abc import Iterable

import numpy as np

from skdp.exceptions import FederationError
from skdp.federated._masks import digest, signed
from skdp.privacy.shares import ShareLayout

# The std is told to this part of a step, of which it has 16 to 32.
_PARTS_OF_STEP = 1024  # not tuned


class Story:
    """The agreement, the keys of the fit, and the sums of all releases so far."""

    def __init__(self, agreement: bytes, keys: bytes = b"", sums: Iterable[np.ndarray] = ()):
        self._told, self._number = digest(b"skdp story", agreement, keys), 0
        for total in sums:
            self.add(total)

    def add(self, total: np.ndarray) -> None:
        """Go on with the sum of the next release."""
        self._told = digest(self._told, total.astype("<i8").tobytes())
        self._number += 1

    def of(self, layout: ShareLayout | None) -> bytes:
        """Hash the story and the layout of the next release; None stands for the end of the fit."""
        if layout is None:
            return digest(self._told, b"end")
        facts = (
            str(self._number),
            layout.name,
            layout.mechanism,
            str(list(layout.shape)),
            # A std that follows a basis rounds differently where another kernel computes it.
            str(round(layout.std / layout.step * _PARTS_OF_STEP)),
            layout.step.hex(),
            layout.words.str,
        )
        return digest(self._told, b"release", *(fact.encode() for fact in facts))


def checked_sum(told: np.ndarray, layout: ShareLayout) -> np.ndarray:
    """Refuse a sum of another type or size, or beyond what all owners together can hand in."""
    if told.dtype != signed(layout.words) or told.shape != (layout.size,):
        raise FederationError("A sum has another type or size than its release.")
    if told.min() < -layout.largest or told.max() > layout.largest:
        raise FederationError("A sum has a number beyond its public bound.")
    return told.astype(np.int64)
