"""Units with a response: a record, that is a matrix or row with it, or the response alone."""

from dataclasses import dataclass
from typing import ClassVar

from skdp.units._resolved import ResolvedUnit


@dataclass(frozen=True)
class ResolvedRecord(ResolvedUnit):
    """One matrix or row with its response."""

    name: ClassVar[str] = "record"
    counted: ClassVar[str] = "records"


@dataclass(frozen=True)
class ResolvedRecordOfPromisedClasses(ResolvedRecord):
    """One row with its class; the caller promises that it is public which classes there are."""

    is_enforced: ClassVar[bool] = False


@dataclass(frozen=True)
class ResolvedResponse(ResolvedUnit):
    """One response, whose matrix is public."""

    name: ClassVar[str] = "response"
    counted: ClassVar[str] = "responses"
    is_whole: ClassVar[bool] = False
