# SPDX-License-Identifier: Apache-2.0
"""Reads of large values, which are made in slices while others run in between: what they reply is
what one step would have replied. Every test also passes on redis-server, unless marked."""

import pytest

from harness.resp import NOT_INT, SYNTAX, WRONGTYPE, Error, encode
from harness.server import only_dragonfly

pytestmark = pytest.mark.sanitized

COUNT = 20_000  # elements: more than a slice, and more than 256 KB
ELEMENTS = [b"element:%012d" % i for i in range(COUNT)]
KEYS = [f"{{{i}}}" for i in range(4)]  # in several shards
WRITES = {
    "hash": ("HSET", [word for e in ELEMENTS for word in (e, b"value:" + e)]),
    "list": ("RPUSH", ELEMENTS),
    "set": ("SADD", ELEMENTS),
    "zset": ("ZADD", [word for i, e in enumerate(ELEMENTS) for word in (i / 2, e)]),
}


def fill(r):
    for key in KEYS:
        for name, (command, words) in WRITES.items():
            assert r.call(command, name + key, *words) == COUNT


def indexes(start, stop):
    """The elements that Redis means by these, both of them included."""
    start, stop = (n + COUNT if n < 0 else n for n in (start, stop))
    return ELEMENTS[max(start, 0) : max(stop + 1, 0)]


RANGES = [
    (0, -1), (5, -5), (-15_000, -1), (100, 9_000), (0, 8_191), (0, 8_190), (-9_000, -400), (3, 2),
    (-1, 0), (30_000, 40_000), (0, -30_000), (-40_000, 40_000), (19_999, 19_999),
]  # fmt: skip


@pytest.mark.alone
def test_lists(r):
    fill(r)
    for key in KEYS:
        for start, stop in RANGES:
            found = r.call("LRANGE", "list" + key, start, stop)
            assert found == indexes(start, stop), (start, stop)


@pytest.mark.alone
def test_hashes(r, r3):
    fill(r)
    for key in KEYS:
        everything = r.call("HGETALL", "hash" + key)
        fields, texts = everything[::2], everything[1::2]
        assert sorted(fields) == ELEMENTS and texts == [b"value:" + field for field in fields]
        assert r.call("HKEYS", "hash" + key) == fields
        assert r.call("HVALS", "hash" + key) == texts
        assert r3.call("HGETALL", "hash" + key).dict() == dict(zip(fields, texts))


@pytest.mark.alone
def test_sets(r, r3):
    fill(r)
    for key in KEYS:
        assert sorted(r.call("SMEMBERS", "set" + key)) == ELEMENTS
        assert r3.call("SMEMBERS", "set" + key) == set(ELEMENTS)


@pytest.mark.alone
def test_sorted_sets(r, r3):
    fill(r)
    for key in KEYS:
        name = "zset" + key
        for start, stop in RANGES:
            expected = indexes(start, stop)
            assert r.call("ZRANGE", name, start, stop) == expected, (start, stop)
            backwards = indexes(*(-1 - n for n in (stop, start)))[::-1]
            assert r.call("ZREVRANGE", name, start, stop) == backwards, (start, stop)
            assert r.call("ZRANGE", name, start, stop, "REV") == backwards, (start, stop)
        scored = [text for i, e in enumerate(ELEMENTS) for text in (e, b"%g" % (i / 2))]
        assert r.call("ZRANGE", name, 0, -1, "WITHSCORES") == scored
        pairs = [[e, i / 2] for i, e in enumerate(ELEMENTS)]
        assert r3.call("ZRANGE", name, 0, -1, "WITHSCORES") == pairs
        assert r3.call("ZREVRANGE", name, 0, -1, "WITHSCORES") == pairs[::-1]
        assert r.call("ZRANGE", name, "-inf", "+inf", "BYSCORE") == ELEMENTS
        assert r.call("ZRANGE", name, "-", "+", "BYLEX", "LIMIT", 5, 9_000) == ELEMENTS[5:9_005]


SCANS = {"hash": "HSCAN", "set": "SSCAN", "zset": "ZSCAN"}


@pytest.mark.alone
@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("count", [8191, 8192, 10**6, 2**63 - 1])
def test_scans_of_many(r, r3, name, count):
    """A walk finds all, however much a call asks for, and those that match the pattern."""
    fill(r)
    expected = dict(zip(*[iter(WRITES[name][1])] * 2)) if name != "set" else None
    if name == "zset":
        expected = {member: b"%g" % score for score, member in
                    zip(*[iter(WRITES[name][1])] * 2)}

    def walk(client, key, *options):
        found, cursor, calls = [], b"0", 0
        while calls == 0 or cursor != b"0":
            cursor, some = client.call(SCANS[name], key, cursor, "COUNT", count, *options)
            found += some
            calls += 1
        return found, calls

    for key in KEYS:
        for client in (r, r3):
            found, calls = walk(client, name + key)
            assert (calls == 1) == (count > COUNT)
            if expected is None:
                assert sorted(found) == ELEMENTS
            else:
                assert dict(zip(found[::2], found[1::2])) == expected
                assert len(found) == 2 * COUNT
        found, _ = walk(r, name + key, "MATCH", "*00001?")
        members = found if expected is None else found[::2]
        assert sorted(members) == ELEMENTS[10:20]
        assert r.call(SCANS[name], "missing" + key, 7, "COUNT", count) == [b"0", []]
        assert r.call(SCANS[name], "missing" + key, 7, "COUNT", count, "X") == [b"0", []]
        assert r.call(SCANS[name], name + key, 0, "COUNT", count, "X") == SYNTAX
        assert r.call(SCANS[name], name + key, "x", "COUNT", count) == Error("ERR invalid cursor")
        assert r.call(SCANS[name], "list" + key, 0, "COUNT", count) == WRONGTYPE


@pytest.mark.alone
@only_dragonfly("a command is one step")
@pytest.mark.parametrize("name", SCANS)
def test_a_scan_of_many_is_made_in_slices(start_server, name):
    with start_server(proactor_threads=1).connect() as c:
        fill(c)

        def hops(count):
            before = int(c.info("transaction")["tx_hops_at_head"])
            c.call(SCANS[name], name + KEYS[0], 0, "COUNT", count)
            return int(c.info("transaction")["tx_hops_at_head"]) - before

        assert hops(100) <= 1
        assert hops(10**6) >= COUNT // 1024


LONG = [
    ("hash", "HGETALL"), ("hash", "HKEYS"), ("hash", "HVALS"), ("set", "SMEMBERS"),
    ("list", "LRANGE", 0, -1), ("zset", "ZRANGE", 0, -1), ("zset", "ZREVRANGE", 0, -1),
]  # fmt: skip


def line_of(what, key):
    name, command, *rest = what
    return (command, name + key, *rest)


@pytest.mark.alone
@pytest.mark.parametrize("what", LONG, ids=lambda what: what[1])
def test_errors_are_those_of_a_short_read(r, what):
    """And nothing is there where there is no key."""
    fill(r)
    name, command, *rest = what
    for key in KEYS:
        for other in WRITES:
            if other != name:
                assert r.call(command, other + key, *rest) == WRONGTYPE
        assert r.call(command, "missing" + key, *rest) == []
        if rest:
            assert r.call(command, name + key, 0, "x") == NOT_INT


@pytest.mark.alone
@pytest.mark.parametrize("what", LONG, ids=lambda what: what[1])
def test_a_pipeline_keeps_its_order(r, what):
    """What the same client sent before a long read is in it, what it sent behind is not."""
    writes = {
        "hash": ("HSET", b"new", b"text"), "set": ("SADD", b"new"), "list": ("RPUSH", b"new"),
        "zset": ("ZADD", 10**6, b"new"),
    }  # fmt: skip
    name = what[0]
    write, *words = writes[name]
    fill(r)
    for key in KEYS:
        lines = [
            line_of(what, key),
            (write, name + key, *words),
            ("PING",),
            line_of(what, key),
            ("DEL", name + key),
            line_of(what, key),
        ]
        r.send(b"".join(encode(*line) for line in lines))
        before, added, _, after, deleted, gone = (r.read() for _ in lines)
        assert (added, deleted, gone) == (COUNT + 1 if name == "list" else 1, 1, [])
        each = 2 if what[1] == "HGETALL" else 1
        assert (len(before), len(after)) == (COUNT * each, COUNT * each + each)
        new = b"text" if what[1] == "HVALS" else b"new"
        assert new in after and new not in before


@only_dragonfly("a command is one step")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("what", LONG, ids=lambda what: what[1])
def test_others_run_in_between(start_server, what, threads):
    """Whichever thread has the key. A range of few elements is one step."""
    server = start_server(proactor_threads=threads, migrate_connections="false")
    with server.connect() as c:
        fill(c)

        def hops(line):
            def count():
                info = c.info("transaction")
                return int(info["tx_hops_at_head"]) + int(info["tx_hops_ahead"])

            before = count()
            assert len(c.call(*line)) > 0
            return count() - before

        for key in KEYS:
            assert hops(line_of(what, key)) >= COUNT // 1024
            if len(what) > 2:
                assert hops((what[1], what[0] + key, 0, 100)) == 0


@pytest.mark.alone
@only_dragonfly("fields have deadlines there only later")
@pytest.mark.parametrize("threads", [1, 2])
def test_fields_that_have_expired_are_left_out(start_server, threads):
    with start_server(proactor_threads=threads).connect() as c:
        fill(c)
        for key in KEYS:
            name = "hash" + key
            c.call("HPEXPIRE", name, 1, "FIELDS", COUNT // 2, *ELEMENTS[: COUNT // 2])
            while c.call("HLEN", name) != COUNT // 2:
                pass
            assert sorted(c.call("HKEYS", name)) == ELEMENTS[COUNT // 2 :]


@pytest.mark.parametrize("what", LONG, ids=lambda what: what[1])
def test_a_client_may_go_in_the_middle(server, r, what):
    fill(r)
    for key in KEYS:
        with server.connect() as other:
            other.send(encode(*line_of(what, key)) * 20)
            other.read_line()
    # The values are as they were, and nobody keeps them locked.
    for key in KEYS:
        assert r.call("DEL", what[0] + key) == 1


@pytest.mark.alone
@pytest.mark.parametrize("rcvbuf", [None, 4096], ids=["fast", "slow"])
def test_small_replies_follow_large_ones(server, rcvbuf):
    """Replies of some megabytes leave in pieces; what is written meanwhile leaves behind them."""
    elements = [b"element:%030d" % i for i in range(100_000)]
    expected = encode(*elements) + b"+PONG\r\n"  # an array of bulk strings, as a command is
    with server.connect(rcvbuf=rcvbuf) as c:
        for key in KEYS:
            assert c.call("RPUSH", key, *elements) == len(elements)
            for _ in range(5):
                c.send(encode("LRANGE", key, 0, -1) + encode("PING"))
                assert c.read_bytes(len(expected)) == expected
