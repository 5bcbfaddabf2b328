"""What an owner has to remember of a fit: in memory or, if it may have to come back, in a file."""

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile

from skdp.exceptions import FederationError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


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
        if is_new := self._stamp is None:
            self._stamp = _claim(path)
        with _locked(path):
            if _stamp_of(path) != self._stamp:
                raise _written_by_others(path)
            try:
                self._stamp = _write(path, json.dumps(asdict(self)))
            except BaseException:
                if is_new:
                    path.unlink()
                    self._stamp = None
                raise
        _sync_folder(path.parent)


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


def _claim(path: Path) -> tuple[int, ...] | None:
    """Make an empty file, unless somebody else has begun with it at the same time.

    Who dies before it is written needs another path: an empty file is no state.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        raise _written_by_others(path) from None
    return _stamp_of(path)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one at a time look whether a file is as it was, and replace it, where files have locks.

    Whoever has waited finds another file in its place.
    """
    if fcntl is None or not path.exists():
        yield
        return
    with path.open("rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _write(path: Path, text: str) -> tuple[int, ...] | None:
    """Replace a file, readable for its user only, and leave no other file behind.

    Returns its stamp, taken before anybody else can replace it.
    """
    file = NamedTemporaryFile("w", dir=path.parent, prefix=path.name, delete=False)  # noqa: SIM115
    try:
        with file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        stamp = _stamp_of(Path(file.name))
        os.replace(file.name, path)
    except BaseException:
        Path(file.name).unlink(missing_ok=True)
        raise
    return stamp


def _written_by_others(path: Path) -> FederationError:
    return FederationError(
        f"state={str(path)!r} was written or removed by somebody else: one owner at a time goes on "
        "with it."
    )


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
