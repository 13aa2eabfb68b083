# SPDX-License-Identifier: Apache-2.0
"""Strings of some megabytes: what is read and made of them in slices, while others run in between,
and blocks that grow and go without a pause. Every test also passes on redis-server, unless
marked."""

import random

import pytest

from harness.beside import incrementing
from harness.resp import OK, WRONGTYPE, Status, encode
from harness.server import SANITIZED, only_dragonfly, wait_until

pytestmark = pytest.mark.sanitized

MB = 1 << 20
RANDOM = random.Random(5)
LARGE = RANDOM.randbytes(3 * MB + 5)
SHORTER = RANDOM.randbytes(2 * MB + 1)
KEYS = [f"{{{i}}}" for i in range(4)]  # in several shards


def fill(r, keys=KEYS):
    for key in keys:
        assert r.call("SET", "a" + key, LARGE) == OK
        assert r.call("SET", "b" + key, SHORTER) == OK


def as_number(text, size=len(LARGE)):
    return int.from_bytes(text.ljust(size, b"\0"), "big")


@pytest.mark.alone
def test_bits_are_counted(r):
    fill(r)
    for key in KEYS:
        name = "a" + key
        assert r.call("BITCOUNT", name) == as_number(LARGE).bit_count()
        for start, end in [(0, -1), (1, 2 * MB), (MB - 1, MB), (-5, -1), (5, 4), (0, 10 * MB)]:
            last = end if end >= 0 else len(LARGE) + end
            first = start if start >= 0 else len(LARGE) + start
            expected = int.from_bytes(LARGE[first : last + 1], "big").bit_count()
            assert r.call("BITCOUNT", name, start, end) == expected, (start, end)


@pytest.mark.alone
def test_bits_are_found(r):
    for key in KEYS:
        r.call("SET", key, bytes(3 * MB))
        assert r.call("BITPOS", key, 1) == -1
        assert r.call("BITPOS", key, 0, 2 * MB) == 16 * MB
        for at in (24 * MB - 1, 8 * MB, 8 * MB - 1, 3):
            r.call("SETBIT", key, at, 1)
            assert r.call("BITPOS", key, 1) == at
            assert r.call("BITPOS", key, 1, 0, -1) == at
        assert r.call("SET", key, b"\xff" * (2 * MB)) == OK
        assert r.call("BITPOS", key, 0) == 16 * MB
        assert r.call("BITPOS", key, 0, 0, -1) == -1


@pytest.mark.alone
def test_strings_are_combined(r):
    fill(r)
    a, b, ones = as_number(LARGE), as_number(SHORTER), (1 << 8 * len(LARGE)) - 1
    for first, second in [("a{0}", "b{0}"), ("a{0}", "b{1}"), ("a{2}", "b{3}")]:
        for target in ("t{0}", "t{1}", "t{3}"):
            for operation, expected in [("AND", a & b), ("OR", a | b), ("XOR", a ^ b)]:
                assert r.call("BITOP", operation, target, first, second) == len(LARGE)
                assert as_number(r.call("GET", target)) == expected
                assert r.call("BITOP", operation, target, second, first, "none") == len(LARGE)
                with_none = 0 if operation == "AND" else expected
                assert as_number(r.call("GET", target)) == with_none
            assert r.call("BITOP", "NOT", target, first) == len(LARGE)
            assert as_number(r.call("GET", target)) == a ^ ones
    assert r.call("HSET", "h", "f", "v") == 1
    assert r.call("BITOP", "AND", "t{0}", "a{0}", "h") == WRONGTYPE
    # A target that is a source.
    assert r.call("BITOP", "XOR", "a{0}", "a{0}", "b{2}") == len(LARGE)
    assert as_number(r.call("GET", "a{0}")) == a ^ b


@pytest.mark.alone
def test_parts_are_read(r):
    fill(r)
    for key in KEYS:
        for start, end in [(0, -1), (1, -2), (5, 2 * MB), (100, 199), (-2 * MB, -7), (9, 8)]:
            last = end if end >= 0 else len(LARGE) + end
            first = start if start >= 0 else len(LARGE) + start
            for command in ("GETRANGE", "SUBSTR"):
                assert r.call(command, "a" + key, start, end) == LARGE[first : last + 1]
        lines = [("GETRANGE", "a" + key, 0, -1), ("DEL", "a" + key), ("GETRANGE", "a" + key, 0, -1)]
        r.send(b"".join(encode(*line) for line in [("PING",), *lines]))
        assert [r.read() for _ in range(4)] == [Status("PONG"), LARGE, 1, b""]


@pytest.mark.alone
def test_strings_are_copied(r):
    fill(r)
    for key in KEYS:
        for target in ("t{0}", "t{1}"):
            assert r.call("COPY", "a" + key, target, "REPLACE") == 1
            assert r.call("GET", target) == LARGE
            assert r.call("COPY", "b" + key, target) == 0
        assert r.call("GET", "a" + key) == LARGE


@pytest.mark.alone
def test_payloads_are_made_and_read(r):
    fill(r)
    fields = [b"%d" % i for i in range(40_000)]
    for key in KEYS:
        r.call("HSET", "h" + key, *fields)
        r.call("RPUSH", "l" + key, *fields)
        for name in ("a", "h", "l"):
            payload = r.call("DUMP", name + key)
            assert r.call("RESTORE", name + "r" + key, 0, payload, "REPLACE") == OK
        assert r.call("GET", "ar" + key) == LARGE
        assert r.call("SETRANGE", "ar" + key, 7, "seven") == len(LARGE)
        assert r.call("GET", "ar" + key) == LARGE[:7] + b"seven" + LARGE[12:]
        assert r.call("LRANGE", "lr" + key, 0, -1) == fields
        everything = r.call("HGETALL", "hr" + key)
        assert dict(zip(everything[::2], everything[1::2])) == dict(zip(fields[::2], fields[1::2]))


def hops(c):
    info = c.info("transaction")
    return int(info["tx_hops_at_head"]) + int(info["tx_hops_ahead"])


READS = [("BITCOUNT", "a"), ("BITPOS", "zeros", 1), ("GETRANGE", "a", 0, -1), ("DUMP", "a")]


@pytest.mark.alone
@only_dragonfly("a command is one step")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("line", READS, ids=lambda line: line[0])
def test_reads_are_made_in_slices(start_server, line, threads):
    """Whichever thread has the key. A part that is small is one step."""
    server = start_server(proactor_threads=threads, migrate_connections="false")
    with server.connect() as c:
        fill(c)
        for key in KEYS:
            c.call("SET", "zeros" + key, bytes(3 * MB))
            command, name, *rest = line
            before = hops(c)
            c.call(command, name + key, *rest)
            assert hops(c) - before >= 3
            before = hops(c)
            for small in (("BITCOUNT", "a" + key, 5, 1000), ("GETRANGE", "a" + key, -1000, -1)):
                c.call(*small)
            assert hops(c) == before


@pytest.mark.alone
@only_dragonfly("a command is one step")
def test_writes_are_made_in_slices(start_server):
    with start_server(proactor_threads=1).connect() as c:
        fill(c)
        for line in [("COPY", "a{0}", "t"), ("BITOP", "OR", "t", "a{0}", "b{0}")]:
            before = hops(c)
            c.call(*line)
            assert hops(c) - before >= len(LARGE) // (MB // 4)
        elements = [b"element:%020d" % i for i in range(100_000)]
        c.call("RPUSH", "l", *elements)
        before = hops(c)
        assert c.call("COPY", "l", "copy") == 1
        assert hops(c) - before >= 20
        assert c.call("LRANGE", "copy", 0, -1) == elements


@only_dragonfly("a command is one step")
@pytest.mark.parametrize("threads", [1, 4])
def test_others_are_served_meanwhile(start_server, threads):
    """Another client's INCRs in the same shard come between the two GETs of a pipeline."""
    keys = [f"{name}{{0}}" for name in "abcd"]
    server = start_server(proactor_threads=threads)
    with server.connect() as c, server.connect() as other:
        for key in keys:
            c.call("SET", key, RANDOM.randbytes(16 * MB))
        c.call("HSET", "h{0}", *range(200_000))
        payload = c.call("DUMP", "h{0}")
        c.call("SET", "n{0}", 0)
        lines = [("BITCOUNT", "a{0}"), ("GETRANGE", "a{0}", 0, -2), ("DUMP", "h{0}")]
        if threads == 1:
            lines += [
                ("BITOP", "XOR", "t", *keys), ("COPY", "a{0}", "t", "REPLACE"),
                ("RESTORE", "t", 0, payload, "REPLACE"),
            ]  # fmt: skip
        with incrementing(other, "n{0}"):
            for line in lines:
                between = 0
                for _ in range(200):  # the other client may get no core meanwhile
                    before, _, after = c.pipeline([("GET", "n{0}"), line, ("GET", "n{0}")])
                    between = max(between, int(after) - int(before))
                    if between > 5:
                        break
                assert between > 5, line


# --- Blocks of 16 MB and more, which have pages of their own ---


@pytest.mark.alone
def test_far_offsets_make_zeros(r):
    size = 20 * MB
    for key in KEYS:
        assert r.call("SETRANGE", key, size, "x") == size + 1
        assert r.call("BITCOUNT", key) == 4
        assert r.call("GETRANGE", key, size - 5, -1) == bytes(5) + b"x"
        assert r.call("SETBIT", key, 8 * (size + 2 * MB), 1) == 0
        assert r.call("STRLEN", key) == size + 2 * MB + 1
        assert r.call("APPEND", key, LARGE) == size + 2 * MB + 1 + len(LARGE)
        assert r.call("GET", key) == bytes(size) + b"x" + bytes(2 * MB - 1) + b"\x80" + LARGE
        r.call("DEL", key)


@only_dragonfly("counts differently")
@pytest.mark.parametrize("end", ["DEL", "SET", "EXPIRE", "FLUSHALL", "sent"])
def test_memory_comes_back(start_server, end):
    """In steps, and also if it was still being sent when its key went."""
    text = RANDOM.randbytes(MB) * 24
    server = start_server(proactor_threads=2, migrate_connections="false")
    with server.connect() as c, server.connect(rcvbuf=4096) as slow:

        def used():
            return int(c.info("memory")["used_memory"])

        c.call("SET", "k", "small")
        before = used()
        for key in KEYS:
            for _ in range(2):
                c.call("SET", key, text)
            if end == "sent":
                slow.send(encode("GET", key))
                assert slow.read_bytes(11) == b"$25165824\r\n"
            if end == "FLUSHALL":
                c.call("FLUSHALL")
            elif end == "SET":
                c.call("SET", key, "small")
            elif end == "EXPIRE":
                c.call("PEXPIRE", key, 1)
            else:
                assert c.call("DEL", key) == 1
            if end == "sent":
                assert slow.read_bytes(len(text) + 2) == text + b"\r\n"
        wait_until(lambda: used() < before + 2 * MB)
        wait_until(lambda: int(c.info("memory")["lazyfree_pending_objects"]) == 0)


@pytest.mark.skipif(SANITIZED, reason="a sanitizer keeps blocks that were freed")
@only_dragonfly("it keeps what it received until the command has ended, and copies it once more")
def test_what_a_coordinator_gets_is_not_copied(start_server):
    """It is received in one block, and becomes a value in another one: there is no third."""
    size = 64 * MB
    text = RANDOM.randbytes(MB) * (size // MB)
    server = start_server(proactor_threads=4, migrate_connections="false")
    with server.connect() as c:
        before = server.rss_bytes()
        others = [word for i in range(20) for word in (f"{{{i}}}b", "small")]  # in all shards
        assert c.call("MSET", "{0}a", text, *others, "{2}c", text[:20_000]) == OK
        assert 2 * size < server.rss_bytes("VmHWM") - before < 2.5 * size
        assert c.call("GET", "{0}a") == text
        assert c.call("MGET", "{1}b", "{2}c") == [b"small", text[:20_000]]
