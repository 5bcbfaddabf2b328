"""What is protected, where it is not a row or a record: one object a unit, with its bounds."""

from skdp.units._changes import FrobeniusChange, SpectralChange
from skdp.units._entries import Edge, Entry
from skdp.units._interactions import Interaction
from skdp.units._rows import SparseRow
from skdp.units._updates import Update

__all__ = [
    "Edge",
    "Entry",
    "FrobeniusChange",
    "Interaction",
    "SparseRow",
    "SpectralChange",
    "Update",
]
