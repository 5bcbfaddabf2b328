"""What to do about data in units so extreme that searches do not reach their sizes."""

from skdp._scales import OTHER_UNITS_OF_X

__all__ = ["OTHER_UNITS", "OTHER_UNITS_OF_X", "OTHER_UNITS_OF_Y"]

OTHER_UNITS_OF_Y = "Pass y in other units: divide it by a public guess of its size."
#: For products of both.
OTHER_UNITS = "Pass X and y in other units: divide them by public guesses of their sizes."
