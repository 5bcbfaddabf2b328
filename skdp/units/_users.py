"""All rows of one user."""

from dataclasses import dataclass
from typing import ClassVar

from skdp.units._resolved import ResolvedUnit


@dataclass(frozen=True)
class ResolvedUser(ResolvedUnit):
    """All rows of one user with their responses, however many there are."""

    name: ClassVar[str] = "user"
    counted: ClassVar[str] = "users"
