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
    owner: int  # number
    rows: str  # digest of the rows of this owner; empty if they need not be told apart
    pair: str = ""  # secret key of the fit, until it has ended
    publics: list[str] = field(default_factory=list)  # public keys of all owners
    is_charged: bool = False
    sums: list[str] = field(default_factory=list)  # of all releases so far
    answers: dict[str, str] = field(default_factory=dict)  # by the digest of the question
    has_ended: bool = False

    def __post_init__(self) -> None:
        """Begin without a file."""
        self._stamp: tuple[int, ...] | None = None

    def save(self, path: Path | None) -> None:
        """Write the state, so that it is on disk as a whole or not at all.

        If somebody else has written the file, there are two owners with one state. They would draw
        noise twice, so the second one to save is refused.
        """
        if path is None:
            return
        if _stamp_of(path) != self._stamp:
            raise FederationError(
                f"state={str(path)!r} was written or removed by somebody else: one owner at a time "
                "goes on with it."
            )
        _write(path, json.dumps(asdict(self)))
        self._stamp = _stamp_of(path)


def load_state(path: Path | None, agreement: str, owner: int, rows: str) -> OwnerState:
    """Read the state of an owner who comes back, or begin one; refuse that of another fit."""
    if path is None or (stamp := _stamp_of(path)) is None:
        if path is not None and not path.parent.is_dir():
            raise FederationError(f"state={str(path)!r} must be in a folder that exists.")
        return OwnerState(agreement, owner, rows)
    try:
        state = OwnerState(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        raise FederationError(f"state={str(path)!r} cannot be read as that of an owner.") from None
    if (state.agreement, state.owner, state.rows) != (agreement, owner, rows):
        raise FederationError(
            f"state={str(path)!r} belongs to another federation, to another owner or to other "
            "rows: an owner who comes back needs the same, and a new fit a new file."
        )
    state._stamp = stamp
    return state


def _write(path: Path, text: str) -> None:
    """Replace a file, readable for its user only, and leave no other file behind."""
    file = NamedTemporaryFile("w", dir=path.parent, prefix=path.name, delete=False)  # noqa: SIM115
    try:
        with file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, path)
    except BaseException:
        Path(file.name).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder last, where folders can be opened."""
    if os.name == "nt":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _stamp_of(path: Path) -> tuple[int, ...] | None:
    """Tell files of one path apart."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def to_text(data: bytes) -> str:
    """Write bytes as text."""
    return b64encode(data).decode("ascii")


def from_text(text: str) -> bytes:
    """Read what `to_text` has written."""
    return b64decode(text)
