# SPDX-License-Identifier: Apache-2.0
"""DUMP and RESTORE. What DUMP gives is not the same here and there, so that payloads are a fixed
list: one of each form, and some that are wrong. Not more of these: without sanitize-dump-payload
redis-server believes what it reads."""

from ..words import NOW_MS

WEIGHT = 4
KEY = b"d"


def crc64(data):
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x95AC9329AC4BC9B5 if crc & 1 else 0)
    return crc


def payload_of(value, version=10):
    """A type and a value, with the end that belongs to them."""
    data = value + version.to_bytes(2, "little")
    return data + crc64(data).to_bytes(8, "little")


def ziplist(*entries):
    """Of short texts, as redis-server before 7.0 wrote it."""
    body, before = b"", 0
    tail = 10
    for entry in entries:
        tail = 10 + len(body)
        body += bytes([before, len(entry)]) + entry
        before = len(entry) + 2
    size = 10 + len(body) + 1
    header = size.to_bytes(4, "little") + tail.to_bytes(4, "little")
    return header + len(entries).to_bytes(2, "little") + body + b"\xff"


def listpack(*entries):
    """Of integers from 0 to 127, and short texts."""
    body = b""
    for entry in entries:
        head = bytes([entry]) if isinstance(entry, int) else bytes([128 + len(entry)]) + entry
        body += head + bytes([len(head)])
    size = (6 + len(body) + 1).to_bytes(4, "little")
    return size + len(entries).to_bytes(2, "little") + body + b"\xff"


def blob(block):
    """As a string: a length and the bytes."""
    if len(block) < 64:
        return bytes([len(block)]) + block
    return (0x4000 + len(block)).to_bytes(2, "big") + block


def stream_id(ms, seq):
    return ms.to_bytes(8, "big") + seq.to_bytes(8, "big")


# Two entries at 5-1 and 5-3; one between them was deleted.
STREAM_NODE = blob(stream_id(5, 1)) + blob(
    listpack(
        *[2, 1, 1, b"a", 0],
        *[2, 0, 0, b"x", 4],
        *[3, 0, 1, b"y", 4],
        *[0, 0, 2, 2, b"b", 7, b"c", b"", 8],
    )
)


def stream(kind, end=b"\x02\x05\x03", first=b"\x05\x01", deleted=b"\x05\x02", added=b"\x03"):
    """With a group that has read up to 5-1, and a consumer to whom that entry is pending."""
    counters = end + (first + deleted + added if kind > 15 else b"")
    pending = stream_id(5, 1) + (1_600_000_000_000).to_bytes(8, "little") + b"\x02"
    seen = (1_600_000_000_001).to_bytes(8, "little") * (2 if kind == 21 else 1)
    consumer = b"\x02c1" + seen + b"\x01" + stream_id(5, 1)
    group = b"\x02g1\x05\x01" + (b"\x01" if kind > 15 else b"") + b"\x01" + pending
    return bytes([kind, 1]) + STREAM_NODE + counters + b"\x01" + group + b"\x01" + consumer


VALUES = [
    *[b"\x00\x05hello", b"\x00\x00", b"\x00\xc0\x7b", b"\x00\xc1\xd2\x04"],
    b"\x00\xc2\x15\xcd\x5b\x07",
    b"\x00\xc3\x05\x0a\x00a\xe0\x00\x00",
    b"\x01\x02\x01a\xc0\x05",
    b"\x0a" + blob(ziplist(b"a", b"b")),
    b"\x0e\x02" + blob(ziplist(b"a")) + blob(ziplist(b"b")),
    b"\x12\x02\x01\x03xyz\x02" + blob(listpack(b"a", 7)),
    b"\x02\x03\x01a\x01b\xc0\x05",
    b"\x0b" + blob(b"\x02\x00\x00\x00\x02\x00\x00\x00\x01\x00\x05\x00"),
    b"\x03\x02\x01a\x031.5\x01b\xfe",
    b"\x05\x01\x01a\x00\x00\x00\x00\x00\x00\xf8\x3f",
    b"\x0c" + blob(ziplist(b"a", b"1", b"b", b"2.5")),
    b"\x11" + blob(listpack(b"a", 1, b"b", b"2.5")),
    b"\x04\x02\x01f\x01v\x01g\xc0\x05",
    b"\x0d" + blob(ziplist(b"f", b"v")),
    b"\x10" + blob(listpack(b"f", b"v", b"g", 7)),
    *[stream(15), stream(19), b"\x13\x00\x00\x07\x02\x00\x00\x07\x01\x09\x00"],
]
SENSELESS = [
    *[b"", b"\x00", b"\x00\x3fabc", b"\x02\x00", b"\x02\x02\x01a\x01a"],
    b"\x02\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01a",
    b"\x00\xc3\x05\x0b\x00a\xe0\x00\x00",
    b"\x03\x01\x01a\xfd",
    b"\x0b" + blob(b"\x02\x00\x00\x00\x02\x00\x00\x00\x01\x00"),
    b"\x12\x01\x03\x01a",
    *[stream(19)[:40], stream(19)[:-1], stream(15)[:-20]],
]
PAYLOADS = [payload_of(value) for value in VALUES]
OLD_PAYLOADS = [payload_of(value, version=6) for value in VALUES[:6]]
BAD_PAYLOADS = [
    *[payload_of(value) for value in SENSELESS],
    *[PAYLOADS[0][:-1] + b"x", b"short", b""],
]


def key(g):
    return g.few(KEY, 6) if g.rng.random() > 0.1 else g.any_key()


def payload(g):
    return g.rng.choice(g.rng.choice([PAYLOADS, PAYLOADS, PAYLOADS, OLD_PAYLOADS, BAD_PAYLOADS]))


def ttl(g):
    """And whether it is absolute."""
    if g.rng.random() < 0.5:
        return [b"0"], []
    if g.rng.random() < 0.5:
        return [g.rng.choice([b"100000", b"-1", b"x", b"1.5"])], []
    return [g.rng.choice([g.deadline_ms(), g.deadline_ms(), b"1", b"-1"])], [b"ABSTTL"]


def restore(g):
    at, absolute = ttl(g)
    options = [*g.maybe(b"REPLACE", chance=0.6), *absolute]
    options += g.some([b"IDLETIME", g.small()], [b"FREQ", g.small()], [b"WHAT"], chance=0.05)
    return [b"RESTORE", key(g), *at, payload(g), *options]


def is_short_lived(command):
    """A deadline soon, or one that does not fit into 64 bits."""
    if command[0].upper() != b"RESTORE" or len(command) < 3:
        return False
    is_absolute = any(word.upper() == b"ABSTTL" for word in command[4:])
    try:
        at = int(command[2])
    except ValueError:
        return False
    if is_absolute:
        return 1 < at < NOW_MS
    return 0 < at < 90_000 or at > 2**62


EXCLUDED = [is_short_lived]

COMMANDS = [
    (5, restore),
    (2, lambda g: [b"DUMP", g.any_key()]),
    (1, lambda g: [g.rng.choice([b"TYPE", b"PEXPIRETIME", b"GET", b"LLEN", b"XLEN"]), key(g)]),
    (1, lambda g: [b"OBJECT", b"ENCODING", key(g)]),
]
