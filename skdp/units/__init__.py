"""What is protected, where it is not a row or a record: one object a unit, with its bounds."""

from skdp.units._entries import Edge, Entry, SparseRow
from skdp.units._matrices import Interaction, SpectralChange

__all__ = ["Edge", "Entry", "Interaction", "SparseRow", "SpectralChange"]
