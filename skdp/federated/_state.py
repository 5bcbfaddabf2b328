"""What an owner has to remember of a fit: in memory or, if it may have to come back, in a file."""

import json
import os
from base64 import b64decode, b64encode
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile

from skdp.exceptions import FederationError


@dataclass
class OwnerState:
    """Secret: its key would show the counts of this owner, and a copy could draw noise again."""

    agreement: str  # digest
    rows: str  # digest of the rows of this owner; empty if they need not be told apart
    pair: str = ""  # secret key of the fit, until it has ended
    publics: list[str] = field(default_factory=list)  # public keys of all owners
    is_charged: bool = False
    sums: list[str] = field(default_factory=list)  # of all releases so far
    answers: dict[str, str] = field(default_factory=dict)  # by the digest of the question
    has_ended: bool = False

    def save(self, path: Path | None) -> None:
        """Write the state, so that it is on disk as a whole or not at all."""
        if path is None:
            return
        with NamedTemporaryFile("w", dir=path.parent, prefix=path.name, delete=False) as file:
            json.dump(asdict(self), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, path)


def load_state(path: Path | None, agreement: str, rows: str) -> OwnerState:
    """Read the state of an owner who comes back, or begin one; refuse that of another fit."""
    if path is None or not path.exists():
        return OwnerState(agreement, rows)
    try:
        state = OwnerState(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        raise FederationError(f"state={str(path)!r} cannot be read as that of an owner.") from None
    if (state.agreement, state.rows) != (agreement, rows):
        raise FederationError(
            f"state={str(path)!r} belongs to another federation or to other rows: an owner who "
            "comes back needs the same, and a new fit a new file."
        )
    return state


def to_text(data: bytes) -> str:
    """Write bytes as text."""
    return b64encode(data).decode("ascii")


def from_text(text: str) -> bytes:
    """Read what `to_text` has written."""
    return b64decode(text)
