# SPDX-License-Identifier: Apache-2.0
"""DUMP and RESTORE, here and between our server and redis-server. Every test also passes on
redis-server, unless marked."""

import random
import time

import pytest

from differential.compare import LATER_STREAM_FIELDS
from differential.grammars.dump import blob, listpack, payload_of, stream, ziplist
from harness.resp import NOT_INT, OK, SYNTAX, Error
from harness.server import SANITIZED, only_dragonfly

pytestmark = [pytest.mark.sanitized, pytest.mark.alone]

BUSY = Error("BUSYKEY Target key name already exists.")
BAD_PAYLOAD = Error("ERR DUMP payload version or checksum are wrong")
BAD_FORMAT = Error("ERR Bad data format")
TTL = Error("ERR Invalid TTL value, must be >= 0")


def without_later_fields(reply):
    """Of XINFO: without 'active-time', which is of 7.2, and what came later."""
    if not isinstance(reply, list):
        return reply
    for name in (b"active-time", *LATER_STREAM_FIELDS):
        if name in reply:
            at = reply.index(name)
            reply = reply[:at] + reply[at + 2 :]
    return [without_later_fields(item) for item in reply]


def content(c, key):
    """All that a key has; sets and hashes sorted."""
    kind = c.call("TYPE", key).text
    if kind == "string":
        return kind, c.call("GET", key)
    if kind == "list":
        return kind, c.call("LRANGE", key, 0, -1)
    if kind == "set":
        return kind, sorted(c.call("SMEMBERS", key))
    if kind == "zset":
        flat = c.call("ZRANGE", key, 0, -1, "WITHSCORES")
        return kind, [(flat[i], float(flat[i + 1])) for i in range(0, len(flat), 2)]
    if kind == "stream":
        return kind, without_later_fields(c.call("XINFO", "STREAM", key, "FULL", "COUNT", 0))
    flat = c.call("HGETALL", key)
    return kind, sorted(zip(flat[::2], flat[1::2]))


# Commands that make a key `k`: every type and encoding, and both sides of every limit.
def values():
    rng = random.Random(3)
    texts = [b"", b"a", b"hello world", b"0", b"-1", b"127", b"128", b"-32769", b"2147483647"]
    texts += [b"2147483648", b"-9223372036854775808", b"012", bytes(range(256)), b"x" * 63]
    texts += [b"x" * 64, b"ab" * 10_000, rng.randbytes(16384), rng.randbytes(70_000)]
    for text in texts:
        yield ["SET", "k", text]
    for count in (1, 5, 128, 129, 5000):
        yield ["RPUSH", "k", *(f"element {i}" if i % 3 else i for i in range(count))]
    yield ["RPUSH", "k", *texts]
    yield ["RPUSH", "k", b"y" * 8191, b"y" * 8192, b"y" * 20_000, "z", b"y" * 16377, b"y" * 16378]
    for base in (0, 30_000, 2**31 - 10, 2**62, -(2**63)):
        yield ["SADD", "k", *(base + i for i in range(20))]
    for count in (512, 513):
        yield ["SADD", "k", *range(count)]
    for count in (1, 128, 129, 600):
        yield ["SADD", "k", *(f"member {i}" for i in range(count))]
    yield ["SADD", "k", *texts]
    scores = ["1", "-1.5", "inf", "-inf", "3.14159265358979", "1e300", "5e-324", "0"]
    yield ["ZADD", "k", *(x for i, s in enumerate(scores) for x in (s, f"m{i}"))]
    for count in (128, 129, 1000):
        yield ["ZADD", "k", *(x for i in range(count) for x in (i * 0.37 - 20, f"m{i}"))]
    yield ["ZADD", "k", "1", "x" * 64, "1.5", "7"]
    yield ["ZADD", "k", "1", "x" * 65, "1.5", "7"]
    for count in (1, 128, 129, 512, 513):
        yield ["HSET", "k", *(x for i in range(count) for x in (f"field {i}", i))]
    yield ["HSET", "k", "f", "x" * 64, "10", ""]
    yield ["HSET", "k", "f", "x" * 65, "10", ""]


def streams():
    """Lists of commands that make a stream `k`: nodes of any kind, and groups."""
    rng = random.Random(4)
    yield [["XGROUP", "CREATE", "k", "g", "$", "MKSTREAM"]]
    yield [["XADD", "k", "1-1", "a", "b"]]
    yield [["XADD", "k", "1-1", "a", "b"], ["XDEL", "k", "1-1"]]
    most = "18446744073709551615-18446744073709551615"
    yield [["XADD", "k", most, "a", "9223372036854775807"], ["XGROUP", "CREATE", "k", "g", "0"]]
    yield [["XADD", "k", f"{i}-{i}", "a", "x" * i] for i in range(1, 300)]
    yield [["XADD", "k", "1-*", "a", i, "name", b"x\0"] for i in range(350)]
    commands = []
    ms = 1
    for i in range(1, 251):
        ms += rng.choice([1, 5000, 2**40]) if i % 50 == 0 else 0
        names = rng.choice([["a"], ["a"], ["a", "b"], ["7"]])
        fields = [x for name in names for x in (name, rng.choice(["v", 5, -70000, "", "y" * 100]))]
        commands.append(["XADD", "k", f"{ms}-{i}", *fields])
    ids = [command[2] for command in commands]
    commands += [["XDEL", "k", *rng.sample(ids, 60)], ["XTRIM", "k", "MAXLEN", 170]]
    commands += [["XGROUP", "CREATE", "k", group, "0"] for group in ("g", "h", "7")]
    commands += [["XREADGROUP", "GROUP", "g", "c1", "COUNT", 70, "STREAMS", "k", ">"]]
    commands += [["XREADGROUP", "GROUP", "g", "c2", "COUNT", 9, "STREAMS", "k", ">"]]
    commands += [["XREADGROUP", "GROUP", "h", "12345", "STREAMS", "k", ">"]]
    commands += [["XGROUP", "CREATECONSUMER", "k", "7", "idle"], ["XACK", "k", "g", *ids[90:130]]]
    commands += [["XCLAIM", "k", "g", "c1", 0, *ids[100:180], "TIME", 5, "RETRYCOUNT", 300]]
    yield commands
    yield [*commands, ["XDEL", "k", *ids[150:]], ["XSETID", "k", most, "ENTRIESADDED", 2**62]]


def test_every_stream_comes_back(r):
    for commands in streams():
        r.do("FLUSHALL")
        for command in commands:
            assert not isinstance(r.call(*command), Error), command
        payload, expected = r.call("DUMP", "k"), content(r, "k")
        for key in ("other", "{k}2", "another"):
            assert r.call("RESTORE", key, 0, payload) == OK
            assert content(r, key) == expected
            assert r.call("DUMP", key) == payload


@only_dragonfly("it is compared with it")
def test_streams_go_to_redis_server_and_back(pair):
    ours, reference = (server.connect() for server in pair)
    with ours, reference:
        for commands in streams():
            for c in (ours, reference):
                c.call("FLUSHALL")
                for command in commands:
                    c.call(*command)
            assert reference.call("RESTORE", "ours", 0, ours.call("DUMP", "k")) == OK
            assert ours.call("RESTORE", "its", 0, reference.call("DUMP", "k")) == OK
            assert content(reference, "ours") == content(ours, "k")
            assert content(ours, "its") == content(reference, "k")
            # Nodes are as full as they were, so trimming and counting goes on alike.
            for c, key in ((reference, "ours"), (ours, "its")):
                c.call("XADD", key, "MAXLEN", "~", 120, "99-*", "a", "new")
                c.call("XREADGROUP", "GROUP", "g", "c2", "COUNT", 5, "STREAMS", key, ">")
                c.call("XDEL", key, "1-1")
            for info in (["STREAM"], ["GROUPS"]):
                its = without_later_fields(ours.call("XINFO", *info, "its"))
                assert reference.call("XINFO", *info, "ours") == its


def test_every_value_comes_back(r):
    for command in values():
        r.do("FLUSHALL")
        r.call(*command)
        payload = r.call("DUMP", "k")
        expected, encoding = content(r, "k"), r.call("OBJECT", "ENCODING", "k")
        for key in ("other", "{k}2", "another"):
            assert r.call("RESTORE", key, 0, payload) == OK
            assert content(r, key) == expected
            # A list near its limit may have another one.
            is_same = r.call("OBJECT", "ENCODING", key) == encoding
            assert is_same or command[0] == "RPUSH", command[:3]


@only_dragonfly("it is compared with it")
def test_values_go_to_redis_server_and_back(pair):
    ours, reference = (server.connect() for server in pair)
    with ours, reference:
        for command in values():
            for c in (ours, reference):
                c.call("FLUSHALL")
                assert not isinstance(c.call(*command), Error)
            from_us, from_it = ours.call("DUMP", "k"), reference.call("DUMP", "k")
            is_short = command[0] == "SET" and len(command[2]) <= 20
            assert not is_short or from_us == from_it, command
            assert reference.call("RESTORE", "ours", 0, from_us) == OK, command[:3]
            assert ours.call("RESTORE", "its", 0, from_it) == OK, command[:3]
            expected = content(reference, "k")
            assert content(reference, "ours") == expected
            assert content(ours, "its") == expected
            # What was read can be changed and read again.
            if command[0] == "RPUSH":
                for c, key in ((reference, "ours"), (ours, "its")):
                    c.call("LPUSH", key, "first"), c.call("RPUSH", key, "last")
                    c.call("LREM", key, 1, "a"), c.call("LSET", key, 0, "new")
                assert content(reference, "ours") == content(ours, "its")
            # No such encodings in 7.0, or lists near their limit.
            if command[0] == "ZADD" or command[0] == "HSET":
                theirs = reference.call("OBJECT", "ENCODING", "ours")
                assert theirs == reference.call("OBJECT", "ENCODING", "k"), command[:3]


@pytest.mark.parametrize(
    "value, expected",
    [
        (b"\x01\x02\x01a\xc0\x05", ("list", [b"a", b"5"])),
        (b"\x0a" + blob(ziplist(b"a", b"b")), ("list", [b"a", b"b"])),
        (b"\x0e\x02" + blob(ziplist(b"a")) + blob(ziplist(b"b")), ("list", [b"a", b"b"])),
        (b"\x12\x01\x01\x03xyz", ("list", [b"xyz"])),
        (b"\x03\x02\x01a\x031.5\x01b\xfe", ("zset", [(b"a", 1.5), (b"b", float("inf"))])),
        (b"\x0c" + blob(ziplist(b"a", b"1", b"b", b"2.5")), ("zset", [(b"a", 1), (b"b", 2.5)])),
        (b"\x0d" + blob(ziplist(b"f", b"v")), ("hash", [(b"f", b"v")])),
        (b"\x00\xc3\x05\x0a\x00a\xe0\x00\x00", ("string", b"aaaaaaaaaa")),
    ],
)
def test_older_forms_are_read(r, value, expected):
    for key in ("a", "b", "c", "d"):
        assert r.call("RESTORE", key, 0, payload_of(value, version=6)) == OK
        assert content(r, key) == expected


def test_streams_before_7_0_are_read(r):
    for key in ("a", "b", "c", "d"):
        assert r.call("RESTORE", key, 0, payload_of(stream(15), version=9)) == OK
        entries = [[b"5-1", [b"a", b"x"]], [b"5-3", [b"b", b"7", b"c", b""]]]
        assert r.do(f"XRANGE {key} - +") == entries
        assert r.do(f"XINFO GROUPS {key}")[0][8:] == [b"entries-read", 1, b"lag", 1]
        assert r.do(f"XPENDING {key} g1") == [1, b"5-1", b"5-1", [[b"c1", b"1"]]]


@only_dragonfly("came with 7.2")
def test_streams_of_7_2_are_read(r):
    assert r.call("RESTORE", "s", 0, payload_of(stream(21), version=11)) == OK
    (consumer,) = r.do("XINFO CONSUMERS s g1")
    assert consumer[:4] == [b"name", b"c1", b"pending", 1]
    info = r.do("XINFO STREAM s")
    assert info[8:10] == [b"max-deleted-entry-id", b"5-2"]


@only_dragonfly("came with 7.2")
def test_sets_of_7_2_are_read(r):
    listpack = b"\x0c\x00\x00\x00\x02\x00\x81a\x02\x01\x01\xff"
    assert r.call("RESTORE", "s", 0, payload_of(b"\x14" + blob(listpack), version=11)) == OK
    assert content(r, "s") == ("set", [b"1", b"a"])


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x00",
        b"\x00\x3fabc",
        b"\x02\x00",
        b"\x02\x02\x01a\x01a",
        b"\x02\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01a",
        b"\x00\xc3\x05\x0b\x00a\xe0\x00\x00",
        b"\x03\x01\x01a\xfd",
        b"\x0b" + blob(b"\x02\x00\x00\x00\x02\x00\x00\x00\x01\x00"),
        b"\x12\x01\x03\x01a",
        b"\xff\x01a",
    ],
)
def test_what_makes_no_sense_is_refused(r, value):
    assert r.call("RESTORE", "k", 0, payload_of(value)).text.startswith(BAD_FORMAT.text)
    r.do("SET k old")
    reply = r.call("RESTORE", "k", 0, payload_of(value), "REPLACE")
    assert reply.text.startswith(BAD_FORMAT.text)
    assert r.do("GET k") == b"old"


def test_errors_come_in_the_order_of_redis(r):
    r.do("SET k v")
    good = r.call("DUMP", "k")
    bad = good[:-1] + bytes([good[-1] ^ 1])
    for args, error in (
        (("k", "x", bad, "FOO"), SYNTAX),
        (("k", "x", bad, "IDLETIME", "x"), NOT_INT),
        (("k", "x", bad, "IDLETIME", "-1"), Error("ERR Invalid IDLETIME value, must be >= 0")),
        (("k", "x", bad, "FREQ", "256"), Error("ERR Invalid FREQ value, must be >= 0 and <= 255")),
        (("k", "x", bad, "IDLETIME", "1", "FREQ", "1"), SYNTAX),
        (("k", "x", bad, "FREQ"), SYNTAX),
        (("k", "x", bad), BUSY),
        (("n", "x", bad), NOT_INT),
        (("n", "-1", bad), TTL),
        (("k", "-1", bad, "REPLACE"), TTL),
        (("n", "0", bad), BAD_PAYLOAD),
        (("n", "0", b""), BAD_PAYLOAD),
    ):
        assert r.call("RESTORE", *args) == error, args[1:]
    assert r.do("DBSIZE") == 1 and r.do("GET k") == b"v"
    assert r.call("DUMP", "none") is None


def test_times_to_live(r):
    r.do("SET k v")
    payload = r.call("DUMP", "k")
    assert r.call("RESTORE", "a", 50_000, payload) == OK
    assert 40_000 < r.do("PTTL a") <= 50_000
    at = int(time.time() * 1000) + 70_000
    assert r.call("RESTORE", "b", at, payload, "ABSTTL") == OK
    assert r.do("PEXPIRETIME b") == at
    assert r.call("RESTORE", "c", 1, payload, "ABSTTL") == OK
    assert r.do("EXISTS c") == 0
    assert r.call("RESTORE", "b", 1, payload, "ABSTTL", "REPLACE") == OK
    assert r.do("EXISTS b") == 0
    assert r.call("RESTORE", "a", 0, payload, "REPLACE", "IDLETIME", 500) == OK
    assert r.do("PTTL a") == -1
    assert 500 <= r.do("OBJECT IDLETIME a") <= 510


def test_changes_are_counted_as_in_redis(r):
    def changes():
        return int(r.info("persistence")["rdb_changes_since_last_save"])

    r.do("SET k v")
    payload = r.call("DUMP", "k")
    for args, count in (
        (("a", 0, payload), 1),
        (("a", 0, payload), 0),
        (("a", 0, payload, "REPLACE"), 1),
        (("a", 1, payload, "REPLACE", "ABSTTL"), 1),
        (("a", 1, payload, "REPLACE", "ABSTTL"), 0),
        (("a", 1, payload, "ABSTTL"), 0),
    ):
        before = changes()
        r.call("RESTORE", *args)
        assert changes() - before == count, args


@only_dragonfly("came with 7.4")
def test_deadlines_of_fields_are_dumped_as_by_7_4(r):
    at_ms = 4_000_000_000_000
    r.do("HSET h f v")
    r.call("HPEXPIREAT", "h", at_ms, "FIELDS", 1, "f")
    expected = b"\x18" + at_ms.to_bytes(8, "little") + b"\x01\x01\x01f\x01v"
    assert r.do("DUMP h") == payload_of(expected, version=12)
    assert r.call("RESTORE", "copy", 0, r.do("DUMP h")) == OK
    assert r.do("HPEXPIRETIME copy FIELDS 1 f") == [at_ms]
    r.do("HPERSIST h FIELDS 1 f")
    assert r.do("DUMP h")[-10] == 10


@only_dragonfly("came with 7.4")
def test_packed_hashes_with_deadlines_are_restored(r):
    at_ms = 4_000_000_000_000
    entries = blob(listpack(b"f", b"v", str(at_ms).encode(), b"g", b"w", 0))
    value = b"\x19" + at_ms.to_bytes(8, "little") + entries
    assert r.call("RESTORE", "h", 0, payload_of(value, version=12)) == OK
    assert r.do("HPEXPIRETIME h FIELDS 2 f g") == [at_ms, -1]
    assert r.do("HGET h g") == b"w"


@only_dragonfly("refuses what is newer than itself")
def test_newer_payloads_are_read_as_far_as_their_types_are_known(r):
    assert r.call("RESTORE", "k", 0, payload_of(b"\x00\x01a", version=99)) == OK
    assert r.do("GET k") == b"a"
    reply = r.call("RESTORE", "n", 0, payload_of(b"\x22\x01a", version=99))
    assert reply == Error(
        f"{BAD_FORMAT.text}: a value of an unknown type (type 34), which this server does not read"
    )
    assert r.do("EXISTS n") == 0


@only_dragonfly("without sanitize-dump-payload it may crash")
def test_hostile_payloads_do_no_harm(server, r):
    rng = random.Random(11)
    bodies = []
    for command in values():
        r.call("DEL", "k")
        r.call(*command)
        body = r.call("DUMP", "k")[:-10]
        if len(body) < 5000:
            bodies.append(body)
    for commands in streams():
        r.call("DEL", "k")
        for command in commands:
            r.call(*command)
        body = r.call("DUMP", "k")[:-10]
        bodies += [body] * (10 if len(body) < 5000 else 1)
    for _ in range(300 if SANITIZED else 3000):
        body = bytearray(rng.choice(bodies))
        for _ in range(rng.randint(1, 4)):
            end = min(len(body), 12) if rng.random() < 0.5 else len(body)
            byte = rng.choice([0, 1, 0x80, 0x81, 0xC3, 0xFF, rng.randrange(256)])
            body[rng.randrange(end)] = byte
        reply = r.call("RESTORE", "k", 0, payload_of(bytes(body)), "REPLACE")
        assert reply == OK or reply.text.startswith(BAD_FORMAT.text)
        if reply == OK:
            assert isinstance(r.call("DUMP", "k"), bytes)
            content(r, "k")
