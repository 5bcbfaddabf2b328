"""Privacy units other than rows, records, responses and users: objects that hold their bounds."""

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
