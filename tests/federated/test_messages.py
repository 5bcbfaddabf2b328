"""Messages: what is written is read, and nothing else is."""

import json
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from parties import corrupted, mended

from skdp import FederationError
from skdp.federated._messages import TO_COORDINATOR, TO_OWNER, pack, unpack

N_OWNERS = 3
DIGEST, KEY, SIGNATURE = "0a" * 32, "9f" * 32, "b1" * 64


def of_all(value, n_owners=N_OWNERS):
    return [[i, value] for i in range(n_owners)]


def messages(n_owners=N_OWNERS):
    """Valid messages of all kinds: table, kind, fields, arrays."""
    keys, signatures = of_all(KEY, n_owners), of_all(SIGNATURE, n_owners)
    told, last = {"agreement": DIGEST}, n_owners - 1
    sums = [np.array([-(2**31), 0, 2**31 - 1], "<i4"), np.array([-(2**63), 2**63 - 1, 5], "<i8")]
    words = [np.array([0, 1, 2**32 - 1], "<u4"), np.array([2**64 - 1, 7, 0], "<u8")]
    yield TO_OWNER, "keys", told, []
    yield TO_OWNER, "confirm", {**told, "publics": keys, "signatures": signatures}, []
    yield TO_OWNER, "answer", {**told, "release": 0, "confirmations": signatures}, []
    yield TO_OWNER, "answer", {**told, "release": 0, "confirmations": []}, []
    for one in sums:
        yield TO_OWNER, "answer", {**told, "release": 7, "confirmations": []}, [one]
        yield TO_OWNER, "answer", {**told, "release": 2**31 - 1, "confirmations": []}, [one]
    own = {"owner": last, "signature": SIGNATURE}
    yield TO_COORDINATOR, "keys", {**own, "public": KEY}, []
    yield TO_COORDINATOR, "confirm", own, []
    answer = {"owner": last, "release": 3, "digest": DIGEST}
    for one in words:
        yield TO_COORDINATOR, "answer", answer, [one]
    yield TO_COORDINATOR, "end", answer, []


MESSAGES = list(messages())
NAMES = [f"{'owner' if one[0] is TO_OWNER else 'coordinator'}-{one[1]}" for one in MESSAGES]


def assert_same(message, kind, fields, arrays):
    assert (message.kind, message.fields) == (kind, fields)
    assert [one.dtype.str for one in message.arrays] == [one.dtype.str for one in arrays]
    for got, expected in zip(message.arrays, arrays, strict=True):
        np.testing.assert_array_equal(got, expected)
        assert not got.flags.writeable


def written(head, body=b"", checksum=None, length=None):
    """A message with any head: a text, or what JSON makes of an object in the one encoding."""
    if not isinstance(head, bytes):
        head = json.dumps(head, sort_keys=True, separators=(",", ":")).encode()
        head += b" " * (-len(head) % 8)
    checksum = zlib.crc32(head + body) if checksum is None else checksum
    return struct.pack("<II", len(head) if length is None else length, checksum) + head + body


def refuse(data, table=TO_COORDINATOR, n_owners=N_OWNERS, match=None):
    with pytest.raises(FederationError, match=match) as caught:
        unpack(data, table, n_owners)
    return str(caught.value)


@pytest.mark.parametrize("message", MESSAGES, ids=NAMES)
def test_messages_are_read_as_they_were_written(message):
    table, kind, fields, arrays = message
    data = pack(kind, fields, *arrays)
    got = unpack(data, table, N_OWNERS)
    assert_same(got, kind, fields, arrays)
    assert pack(got.kind, got.fields, *got.arrays) == data
    # Fields in any order, and arrays of any layout, have the same bytes.
    mixed = dict(reversed(fields.items()))
    other = [np.repeat(one, 2)[::2].astype(one.dtype.newbyteorder(">")) for one in arrays]
    assert pack(kind, mixed, *other) == data


@pytest.mark.parametrize("n_owners", [1, 2, 200, 20_000])
def test_heads_of_any_number_of_owners_are_within_their_limit(n_owners):
    for table, kind, fields, arrays in messages(n_owners):
        assert_same(unpack(pack(kind, fields, *arrays), table, n_owners), kind, fields, arrays)


def test_numbers_are_aligned_and_little_endian():
    data = pack("answer", {"owner": 1, "release": 0, "digest": DIGEST}, np.array([258], ">u8"))
    assert data.endswith(bytes([2, 1, 0, 0, 0, 0, 0, 0]))
    assert len(data) % 8 == 0
    (array,) = unpack(data, TO_COORDINATOR, N_OWNERS).arrays
    assert array.flags.aligned


def test_what_is_no_json_is_not_written():
    with pytest.raises(ValueError, match="JSON"):
        pack("end", {"release": np.nan})


# ---- Every violation of the tables

ANSWER = {"kind": "answer", "owner": 1, "release": 3, "digest": DIGEST, "arrays": [["<u4", [2]]]}
BODY = bytes(8)


NO_NUMBERS = [True, False, None, -1, -(2**63), 2**31, 10**400, "1", [1], {"1": 1}, [], {}, ""]
NO_NUMBERS += [1.0, 0.5, 1e300, "\ud800", json.loads("[" * 100 + "1" + "]" * 100)]
NO_HEX = [
    *(None, 1, True, [DIGEST], {}, "", "0a" * 31, "0a" * 33, "0a" * 64, "0A" * 32, "0g" * 32),
    *("0x" + "0a" * 31, " " * 64, "0a" * 31 + "0\n", "٣" * 64, "\ud800" * 64, "0a" * 32 + "\n"),
]
NO_ARRAYS = [
    *(None, [], {}, "", 1, [[]], [["<u4"]], [["<u4", 2]], [["<u4", []]], [["<u4", [2], 0]]),
    *([["<u4", [2]], ["<u4", [0]]], [["<u4", [1]], ["<u4", [1]]], ["<u4", [2]], [{"<u4": [2]}]),
    *([[dtype, [2]]] for dtype in ("<i4", "<f4", ">u4", "|u4", "=u4", "u4", "uint32", "O", "")),
    *([[dtype, [2]]] for dtype in ("|O", "<u4,<u4", "(2,)<u4", None, 4, True, [], {}, ["<u4"])),
    *([["<u4", [size]]] for size in (-2, -1, 0, 1, 3, True, None, "2", [2], 2**62, 2**64 + 2)),
    *([["<u4", shape]] for shape in ([1, 2], [2, 1], [2**32, 2**32], [-1, -2], [[2]], "2", {})),
    [["<u8", [2]]],
]
VIOLATIONS = [
    *({**ANSWER, "owner": value} for value in [*NO_NUMBERS, 3]),
    *({**ANSWER, "release": value} for value in NO_NUMBERS),
    *({**ANSWER, "digest": value} for value in NO_HEX),
    *({**ANSWER, "arrays": value} for value in NO_ARRAYS),
    *({**ANSWER, "kind": value} for value in (None, 1, True, [], ["answer"], {}, "", "Answer")),
    *({**ANSWER, "kind": value} for value in ("keys", "confirm", "end", "answer\0", "__class__")),
    *({one: ANSWER[one] for one in ANSWER if one != name} for name in ANSWER),
    *({**ANSWER, name: 0} for name in ("", "zebra", "owner ", "agreement", "signature", "dtype")),
    *(None, True, 1, "answer", [], [ANSWER], {}, {"kind": "answer"}),
]


@pytest.mark.parametrize("number", range(len(VIOLATIONS)))
def test_every_violation_of_a_table_is_refused(number):
    text = refuse(written(VIOLATIONS[number], BODY))
    # Nothing of what it held is told.
    assert not any(secret in text for secret in ("0a", "0A", "zebra", "__class__", "Answer"))


@pytest.mark.parametrize("message", MESSAGES, ids=NAMES)
def test_every_field_of_every_kind_is_checked(message):
    table, kind, fields, arrays = message
    for name in fields:
        for wrong in (None, True, -1, 2**31, "", "0a", {}, [[]], [[0, ""]]):
            text = refuse(pack(kind, {**fields, name: wrong}, *arrays), table)
            assert name in text or "list of owners" in text
        rest = {one: fields[one] for one in fields if one != name}
        refuse(pack(kind, rest, *arrays), table, match=f"must have the fields .*{name}")
    refuse(pack(kind, {**fields, "more": 1}, *arrays), table, match="must have the fields")
    refuse(pack(kind, fields, *arrays, np.zeros(1, "<i4")), table, match="arrays")
    for n_arrays in range(len(arrays)):
        refuse(pack(kind, fields, *arrays[:n_arrays]), table, match="arrays")
    # A message to an owner is none to the coordinator.
    refuse(pack(kind, fields, *arrays), TO_OWNER if table is TO_COORDINATOR else TO_COORDINATOR)


@pytest.mark.parametrize("dtype", ["<u4", "<u8", "<i4", "<i8"])
def test_sums_have_signs_and_parts_have_none(dtype):
    answer = {"owner": 1, "release": 3, "digest": DIGEST}
    asked = {"agreement": DIGEST, "release": 3, "confirmations": []}
    taken, other = (TO_COORDINATOR, TO_OWNER) if "u" in dtype else (TO_OWNER, TO_COORDINATOR)
    for table, fields in ((TO_COORDINATOR, answer), (TO_OWNER, asked)):
        data = pack("answer", fields, np.ones(2, dtype))
        if table is taken:
            assert unpack(data, table, N_OWNERS).arrays[0].dtype == dtype
        else:
            assert table is other
            refuse(data, table, match="a wrong type")


def test_only_the_first_answer_has_confirmations_and_no_sum():
    first = {"agreement": DIGEST, "release": 0, "confirmations": of_all(SIGNATURE)}
    refuse(pack("answer", first, np.zeros(1, "<i4")), TO_OWNER, match="arrays")
    later = {**first, "release": 1, "confirmations": []}
    refuse(pack("answer", later), TO_OWNER, match="arrays")
    later["confirmations"] = of_all(SIGNATURE)
    refuse(pack("answer", later, np.zeros(1, "<i4")), TO_OWNER, match="first release")


# ---- Lists of owners

NOT_ALL = [
    *([0, 1], [1, 2], [], [0], [0, 1, 2, 3]),  # one is missing, or a fourth
    *([0, 1, 1], [0, 0, 2], [0, 1, 1, 2], [0, 1, 2, 2], [0, 0, 1, 2]),  # one stands twice
    *([0, 2, 1], [2, 1, 0], [1, 2, 3], [-1, 0, 1], [0, True, 2], [False, 1, 2]),
    *([0, "1", 2], [0, None, 2], [0, [1], 2]),
]


@pytest.mark.covered
@pytest.mark.parametrize("numbers", NOT_ALL, ids=str)
@pytest.mark.parametrize("name", ["publics", "signatures", "confirmations"])
def test_lists_in_messages_are_those_of_all_owners(name, numbers):
    kind = "answer" if name == "confirmations" else "confirm"
    (fields,) = [
        fields for table, one, fields, _ in MESSAGES[:3] if one == kind and table is TO_OWNER
    ]
    entries = [[i, fields[name][0][1]] for i in numbers]
    data = pack(kind, {**fields, name: entries})
    if name == "confirmations" and not numbers:
        assert unpack(data, TO_OWNER, N_OWNERS).fields[name] == []
    else:
        refuse(data, TO_OWNER, match="list of owners")


@pytest.mark.parametrize("wrong", [KEY, SIGNATURE.upper(), "", None, 1, [SIGNATURE]])
def test_every_entry_of_a_list_is_checked(wrong):
    for i in range(N_OWNERS):
        entries = of_all(SIGNATURE)
        entries[i][1] = wrong
        fields = {"agreement": DIGEST, "release": 0, "confirmations": entries}
        refuse(pack("answer", fields), TO_OWNER, match="confirmations")


# ---- Bytes that are no message

GOOD = written(ANSWER, BODY)
HEAD = GOOD[8:-8]


@pytest.mark.parametrize("data", [None, 1, "text", bytearray(GOOD), memoryview(GOOD), [GOOD]])
def test_messages_are_bytes(data):
    refuse(data, match="must be bytes")


def test_no_part_of_a_message_is_one():
    for end in range(len(GOOD)):
        refuse(GOOD[:end])
    for more in (b"\0", b" ", BODY, GOOD):
        refuse(GOOD + more, match="damaged")
        refuse(written(HEAD, BODY + more), match="have different sizes")
    refuse(written(HEAD, BODY[:-1]), match="have different sizes")
    refuse(written(HEAD, b""), match="have different sizes")


@pytest.mark.parametrize("length", [0, 8, len(HEAD) - 8, len(HEAD) + 8, len(GOOD), 2**32 - 1])
def test_heads_of_another_length_are_refused(length):
    refuse(written(HEAD, BODY, length=length))


def test_heads_are_limited_by_the_number_of_owners():
    padded = {**ANSWER, "digest": "0" * (1024 + 256 * N_OWNERS)}
    refuse(written(padded, BODY), match="longer than it may be")
    refuse(written(padded, BODY), n_owners=30, match="digest")


@pytest.mark.parametrize("message", MESSAGES, ids=NAMES)
def test_no_bit_of_a_message_may_change(message):
    table, kind, fields, arrays = message
    data = pack(kind, fields, *arrays)
    number = int.from_bytes(data, "little")
    for bit in range(8 * len(data)):
        # The first 4 bytes are the length of the head; then comes the checksum of the rest.
        match = "damaged" if bit >= 32 else None
        refuse((number ^ 1 << bit).to_bytes(len(data), "little"), table, match=match)


def test_what_is_released_has_a_number():
    fields = {"owner": 1, "release": 0, "digest": DIGEST}
    refuse(pack("answer", fields, np.zeros(0, "<u4")), match="type or shape")
    refuse(pack("answer", fields, np.zeros((1, 1), "<u4")), match="type or shape")
    assert len(unpack(pack("answer", fields, np.zeros(1, "<u4")), TO_COORDINATOR, 2).arrays) == 1


def with_owner(text):
    """The head with another owner, padded as it has to be."""
    return padded(HEAD.strip().replace(b'"owner":1', b'"owner":' + text))


def padded(head):
    return head + b" " * (-len(head) % 8)


@pytest.mark.parametrize(
    "head",
    [
        *map(with_owner, [b'1,"owner":1', b'2,"owner":1']),  # a repeated name
        *map(with_owner, [b"1e0", b"1.50", b"1e999", b"-0", b"01", b"+1"]),
        *map(with_owner, [b"NaN", b"Infinity", b"-Infinity", b"nan", b"None", b"True", b""]),
        *map(with_owner, [b" 1", b"1 ", b"\n1", b"1,", b"1\0", b"1//", b"1}{"]),
        *map(with_owner, [b'"\xff"', '"٣"'.encode(), b"'1'"]),
        padded(HEAD.strip().replace(b'"owner"', b'"own\\u0065r"')),
        padded(HEAD.strip()[:-1]),
        padded(HEAD.strip() + b"{}"),
        padded(b" " + HEAD.strip()),
        padded(b"\xef\xbb\xbf" + HEAD.strip()),
        padded(HEAD.strip().decode().encode("utf-16")),
        padded(json.dumps(ANSWER, separators=(",", ":")).encode()),  # in another order
        padded(json.dumps(ANSWER, sort_keys=True).encode()),
        # Padded in another way.
        *(HEAD.strip(), HEAD + b" " * 8, HEAD.strip().ljust(len(HEAD), b"\t")),
        HEAD.strip().ljust(len(HEAD), b"\0"),
        *(b"", b"1       ", b"null    ", b"\0" * 64, b"[" * 1000, b"[" * 800 + b"]" * 800),
        b"\x80\x04}.    ",  # a pickle
    ],
)
def test_heads_have_one_encoding(head):
    refuse(written(head, BODY), match="not JSON as skdp writes it")


def test_deep_nesting_is_refused_whatever_the_number_of_owners():
    for opening in (b"[", b'{"a":'):
        for count in (10, 900, 100_000):
            refuse(written(opening * count), n_owners=10_000, match="not JSON")
    nested = b"[" * 20_000 + b"]" * 20_000
    refuse(written(nested), n_owners=10_000, match="not JSON")


def test_nothing_is_allocated_for_an_announced_size():
    huge = {**ANSWER, "arrays": [["<u8", [2**40]]]}
    text = written(huge, BODY)
    tracemalloc.start()
    try:
        refuse(text, match="have different sizes")
        assert tracemalloc.get_traced_memory()[1] < 1e6
        # Nor is what has its size copied.
        data = pack("answer", {"owner": 1, "release": 0, "digest": DIGEST}, np.zeros(10**6, "<u4"))
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        unpack(data, TO_COORDINATOR, N_OWNERS)
        assert tracemalloc.get_traced_memory()[1] - before < 1e6
    finally:
        tracemalloc.stop()


SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 11))]


@pytest.mark.parametrize("seed", SEEDS)
def test_corrupted_messages_of_a_right_checksum_are_whole_or_refused(seed):
    # They may be other messages: then all of their bytes are those of the one encoding.
    rng = np.random.default_rng(seed)
    n_others = 0
    for _ in range(2000):
        table, kind, fields, arrays = MESSAGES[rng.integers(len(MESSAGES))]
        changed = mended(corrupted(pack(kind, fields, *arrays), rng))
        try:
            got = unpack(changed, table, N_OWNERS)
        except FederationError:
            continue
        assert pack(got.kind, got.fields, *got.arrays) == changed
        n_others += changed != pack(kind, fields, *arrays)
    assert n_others > 20
