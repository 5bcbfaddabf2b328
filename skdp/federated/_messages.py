"""Messages between the owners of rows and a coordinator: a JSON head and raw arrays.

A message is read as if its sender were hostile: every field is checked before use, and only one
encoding of a message is accepted. Errors name fields of the tables below, and never show contents.
Nothing here checks who has sent a message: owners sign their keys, and the network has to protect
all other messages.
"""

import json
import math
import re
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from skdp.exceptions import FederationError

# The length of the head, and a CRC-32 of the rest, which detects accidents but no attacks.
_START = struct.Struct("<II")
# The length of a head is padded to a multiple of this, so that the arrays behind it are aligned.
_ALIGNMENT = 8  # not tuned
# A head has at most `_HEAD` bytes, and `_HEAD_OF_OWNER` more for each owner, whose key and
# signature it may have in hex.
_HEAD, _HEAD_OF_OWNER = 1024, 256  # not tuned
# Numbers of releases are below this limit.
_MOST_RELEASES = 2**31  # not tuned

_SUMS = {text: np.dtype(text) for text in ("<i4", "<i8")}
_WORDS = {text: np.dtype(text) for text in ("<u4", "<u8")}


class Message(NamedTuple):
    """A message that has passed all checks; its arrays are read-only and one-dimensional."""

    kind: str
    fields: dict[str, Any]
    arrays: list[np.ndarray]


def pack(kind: str, fields: Mapping[str, Any], *arrays: np.ndarray) -> bytes:
    """Write a message: the length of its head, a checksum, the head, and arrays of integers.

    All numbers are little-endian on every machine, so equal messages have equal bytes.
    """
    little = [one.astype(one.dtype.newbyteorder("<"), copy=False) for one in arrays]
    described = [[one.dtype.str, list(one.shape)] for one in little]
    head = _encode({**fields, "kind": kind, "arrays": described})
    body = b"".join([head, *(one.tobytes() for one in little)])
    return _START.pack(len(head), zlib.crc32(body)) + body


def unpack(data: bytes, kinds: Mapping[str, "MessageKind"], n_owners: int) -> Message:
    """Read and check a message of one of the `kinds`, which are `TO_OWNER` or `TO_COORDINATOR`.

    Arrays are views of the data, so that no message can make the reader allocate much memory.
    """
    if not isinstance(data, bytes):
        raise FederationError("A message must be bytes.")
    head, body = _split(data, _HEAD + _HEAD_OF_OWNER * n_owners)
    try:
        fields = json.loads(head.decode("ascii"))
        # Another encoding, such as one with repeated names, is refused.
        is_same = isinstance(fields, dict) and _encode(fields) == head
    # `_encode` raises a ValueError for NaN and infinity, and deep nesting a RecursionError.
    except (ValueError, RecursionError):
        is_same = False
    if not is_same:
        raise FederationError("The head of a message is not JSON as skdp writes it.")
    kind = fields.pop("kind", None)
    described = fields.pop("arrays", None)
    if not isinstance(kind, str) or kind not in kinds:
        raise FederationError(f"Field 'kind' of a message must be one of {sorted(kinds)}.")
    expected = kinds[kind]
    if fields.keys() != expected.fields.keys():
        raise FederationError(
            f"A message must have the fields {sorted(expected.fields)}: use one version of skdp."
        )
    for name, check in expected.fields.items():
        if not check.holds(fields[name], n_owners):
            raise FederationError(f"Field {name!r} of a message must be {check.what}.")
    if fields.get("confirmations") and fields["release"] > 0:
        raise FederationError("Field 'confirmations' of a message belongs to the first release.")
    return Message(kind, fields, _read_arrays(described, body, expected, fields))


def _encode(head: Mapping[str, Any]) -> bytes:
    """Write a head in the only encoding that is accepted."""
    text = json.dumps(head, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    return text + b" " * (-len(text) % _ALIGNMENT)


def _split(data: bytes, most: int) -> tuple[bytes, memoryview]:
    """Split a message into its head, of at most `most` bytes, and the rest, without a copy."""
    if len(data) < _START.size:
        raise FederationError("A message is too short.")
    length, checksum = _START.unpack_from(data)
    end = _START.size + length
    if length > most or end > len(data):
        raise FederationError("A message was cut off, or its head is longer than it may be.")
    view = memoryview(data)
    if zlib.crc32(view[_START.size :]) != checksum:
        raise FederationError("A message was damaged on its way: its checksum is wrong.")
    return bytes(view[_START.size : end]), view[end:]


def _read_arrays(
    described: Any, body: memoryview, kind: "MessageKind", fields: dict[str, Any]
) -> list[np.ndarray]:
    """Read the arrays behind a head, as views; refuse other types, shapes and sizes."""
    if not isinstance(described, list) or len(described) != kind.has_array(fields):
        raise FederationError("Field 'arrays' of a message must describe the arrays of its kind.")
    types = []
    for one in described:
        match one:
            case [str(text), [size]] if text in kind.types and _is_below(size, math.inf) and size:
                types.append((kind.types[text], size))
            case _:
                raise FederationError("Field 'arrays' of a message has a wrong type or shape.")
    if sum(size * dtype.itemsize for dtype, size in types) != len(body):
        raise FederationError("Field 'arrays' of a message and the data have different sizes.")
    return [np.frombuffer(body, dtype, size) for dtype, size in types]


def _is_below(number: Any, limit: float) -> bool:
    """Return whether `number` is an int in [0, limit), but no bool."""
    return type(number) is int and 0 <= number < limit


class Check(NamedTuple):
    """A condition on a field of a message."""

    what: str  # what the value must be, for errors
    holds: Callable[[Any, int], bool]  # of the value and the number of owners


def _hex(n_bytes: int) -> Check:
    """Return the condition that a value has `n_bytes` bytes in hex."""
    pattern = re.compile(f"[0-9a-f]{{{2 * n_bytes}}}")
    return Check(
        f"{2 * n_bytes} hexadecimal digits in lower case",
        lambda value, n_owners: isinstance(value, str) and bool(pattern.fullmatch(value)),
    )


def _pair_per_owner(check: Check) -> Check:
    """Return the condition that a value is a list of pairs [number, value], one for each owner."""

    def holds(entries: Any, n_owners: int) -> bool:
        # If an owner was listed twice, its masks would cancel. If owners were left out, the sum of
        # the others would be readable.
        are_pairs = isinstance(entries, list) and all(
            isinstance(one, list) and len(one) == 2 and type(one[0]) is int for one in entries
        )
        if not are_pairs or [number for number, _ in entries] != list(range(n_owners)):
            raise FederationError(f"A list of owners must have all {n_owners} in ascending order.")
        return all(check.holds(value, n_owners) for _, value in entries)

    return Check(f"a list of all owners, each with {check.what}", holds)


def _or(empty: Any, name: str, check: Check) -> Check:
    """Return the condition that a value is `empty`, which errors call `name`, or meets `check`."""

    def holds(value: Any, n_owners: int) -> bool:
        return value == empty or check.holds(value, n_owners)

    return Check(f"{name} or {check.what}", holds)


def _are_ascending(numbers: Any, n_owners: int) -> bool:
    """Return whether `numbers` is a list of different owners in ascending order."""
    are_owners = isinstance(numbers, list) and all(_is_below(one, n_owners) for one in numbers)
    return are_owners and bool(numbers == sorted(set(numbers)))


class MessageKind(NamedTuple):
    """What a message of one kind must have."""

    fields: Mapping[str, Check]
    types: Mapping[str, np.dtype] = _SUMS  # types that the array may have
    # Tells from the fields whether the message has an array.
    has_array: Callable[[dict[str, Any]], bool] = lambda fields: False


_OWNER = Check("the number of an owner", _is_below)
_RELEASE = Check(
    f"an integer in [0, {_MOST_RELEASES})", lambda value, n_owners: _is_below(value, _MOST_RELEASES)
)
# Lengths in bytes, which SHA-256, X25519 and Ed25519 determine.
_DIGEST, _KEY, _SIGNATURE = _hex(32), _hex(32), _hex(64)  # not tuned
_SIGNATURES = _pair_per_owner(_SIGNATURE)
_CONFIRMATIONS = _or([], "empty", _SIGNATURES)

_ABSENT = Check("a list of different owners in ascending order", _are_ascending)
_NEXT = MessageKind(
    {"agreement": _DIGEST, "release": _RELEASE, "confirmations": _CONFIRMATIONS},
    has_array=lambda fields: bool(fields["release"]),
)
_ANSWERED = {"owner": _OWNER, "release": _RELEASE, "digest": _DIGEST}

# "answer" gives an owner the sum of the last release, and asks for its counts of the next one. If
# owners may leave, two questions replace "answer": "ready" gives the sum, and finds out who is
# absent; "hand_in" names the absent owners, and asks for counts.
TO_OWNER = {
    "keys": MessageKind({"agreement": _DIGEST}),
    "confirm": MessageKind(
        {"agreement": _DIGEST, "publics": _pair_per_owner(_KEY), "signatures": _SIGNATURES}
    ),
    "answer": _NEXT,
    "ready": _NEXT,
    "hand_in": MessageKind({"agreement": _DIGEST, "release": _RELEASE, "absent": _ABSENT}),
}
TO_COORDINATOR = {
    "keys": MessageKind({"owner": _OWNER, "public": _KEY, "signature": _SIGNATURE}),
    "confirm": MessageKind({"owner": _OWNER, "signature": _SIGNATURE}),
    # If an owner has handed in its counts before, it says who was absent at that time.
    "ready": MessageKind(_ANSWERED | {"absent": _or(None, "None", _ABSENT)}),
    "answer": MessageKind(_ANSWERED, _WORDS, lambda fields: True),
    "end": MessageKind(_ANSWERED),
}
