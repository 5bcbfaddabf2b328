"""Units of a regression: a matrix with its response, or the response alone."""

from dataclasses import dataclass
from typing import ClassVar

from skdp.units._resolved import ResolvedUnit

__all__ = [
    "ResolvedRecord",
    "ResolvedResponse",
]


@dataclass(frozen=True)
class ResolvedRecord(ResolvedUnit):
    """One matrix with its response."""

    name: ClassVar[str] = "record"
    counted: ClassVar[str] = "records"


@dataclass(frozen=True)
class ResolvedResponse(ResolvedUnit):
    """One response, whose matrix is public."""

    name: ClassVar[str] = "response"
    counted: ClassVar[str] = "responses"
    is_whole: ClassVar[bool] = False
