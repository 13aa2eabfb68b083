# SPDX-License-Identifier: Apache-2.0
"""The set family. Every test also passes on redis-server, unless marked."""

import random

import pytest
import redis

from harness.resp import NOT_INT, OK, SYNTAX, WRONGTYPE, Error, arity
from harness.server import SANITIZED, only_dragonfly

pytestmark = [pytest.mark.sanitized, pytest.mark.alone]

NOT_POSITIVE = Error("ERR value is out of range, must be positive")
KEYS = [f"s{i}" for i in range(8)]  # in all shards


def members(r, key):
    found = r.call("SMEMBERS", key)
    assert len(set(found)) == len(found)
    return set(found)


def test_replies_have_redis_shape_in_both_protocols(r, r3):
    r.do("SADD one a")
    for line, resp2, resp3 in (
        ("SMEMBERS s", b"*0\r\n", b"~0\r\n"),
        ("SMEMBERS one", b"*1\r\n$1\r\na\r\n", b"~1\r\n$1\r\na\r\n"),
        ("SPOP s", b"$-1\r\n", b"_\r\n"),
        ("SPOP s 1", b"*0\r\n", b"~0\r\n"),
        ("SPOP one 0", b"*0\r\n", b"~0\r\n"),
        ("SRANDMEMBER s", b"$-1\r\n", b"_\r\n"),
        ("SRANDMEMBER s 1", b"*0\r\n", b"*0\r\n"),
        ("SRANDMEMBER one -2", b"*2\r\n$1\r\na\r\n$1\r\na\r\n", b"*2\r\n$1\r\na\r\n$1\r\na\r\n"),
        ("SINTER s one", b"*0\r\n", b"~0\r\n"),
        ("SUNION s one", b"*1\r\n$1\r\na\r\n", b"~1\r\n$1\r\na\r\n"),
        ("SDIFF s one", b"*0\r\n", b"~0\r\n"),
        ("SMISMEMBER s a b", b"*2\r\n:0\r\n:0\r\n", b"*2\r\n:0\r\n:0\r\n"),
        ("SSCAN s 0", b"*2\r\n$1\r\n0\r\n*0\r\n", b"*2\r\n$1\r\n0\r\n*0\r\n"),
        ("SSCAN s 0 COUNT 0", b"*2\r\n$1\r\n0\r\n*0\r\n", b"*2\r\n$1\r\n0\r\n*0\r\n"),
    ):
        assert r.raw(*line.split()) == resp2, line
        assert r3.raw(*line.split()) == resp3, line


def test_redis_py_sees_a_set(server):
    client = redis.Redis(host="127.0.0.1", port=server.port, socket_timeout=60)
    with client:
        assert client.sadd("s", "a", "b", 3, b"\x00\r\n") == 4
        assert client.smembers("s") == {b"a", b"b", b"3", b"\x00\r\n"}
        assert client.sismember("s", "a") and not client.sismember("s", "x")
        assert client.srem("s", "a", "x") == 1
        assert client.sadd("s2", 3, 4) == 2
        assert client.sinter("s", "s2") == {b"3"}
        assert client.sunionstore("s3", "s", "s2") == 4
        assert set(client.sscan_iter("s3")) == client.smembers("s3")
        assert client.smove("s", "s2", "b") is True
        assert client.type("s2") == b"set"
        assert len(client.spop("s3", 4)) == 4
        assert client.exists("s3") == 0


@pytest.mark.parametrize(
    "line, error",
    [
        ("SADD s", arity("sadd")),
        ("SPOP s -1", NOT_POSITIVE),
        ("SPOP s x", NOT_POSITIVE),
        ("SPOP s 1 2", SYNTAX),
        ("SRANDMEMBER s x", NOT_INT),
        ("SRANDMEMBER s 1 2", SYNTAX),
        ("SSCAN s x", Error("ERR invalid cursor")),
        ("SSCAN s 0 COUNT 0", SYNTAX),
        ("SSCAN s 0 COUNT x", NOT_INT),
        ("SSCAN s 0 TYPE set", SYNTAX),
        ("SINTERCARD 0 s", Error("ERR numkeys should be greater than 0")),
        ("SINTERCARD x s", Error("ERR numkeys should be greater than 0")),
        ("SINTERCARD 2 s", Error("ERR Number of keys can't be greater than number of args")),
        ("SINTERCARD 1 s LIMIT -1", Error("ERR LIMIT can't be negative")),
        ("SINTERCARD 1 s LIMIT", SYNTAX),
        ("SMOVE s t", arity("smove")),
    ],
)
def test_an_error_changes_nothing(r, line, error):
    r.do("SADD s a b c")
    assert r.do(line) == error
    assert members(r, "s") == {b"a", b"b", b"c"}
    assert r.do("DBSIZE") == 1


@pytest.mark.parametrize("other", KEYS[1:6])
def test_other_types_are_refused(r, other):
    r.do("SADD s0 a")
    r.call("SET", other, "v")
    for line in (
        f"SADD {other} a",
        f"SMEMBERS {other}",
        f"SPOP {other}",
        f"SMOVE s0 {other} a",
        f"SMOVE {other} s0 a",
        f"SINTER s0 {other}",
        f"SINTER missing {other}",
        f"SUNION s0 {other}",
        f"SDIFF missing {other}",
        f"SINTERCARD 2 missing {other}",
        f"SINTERSTORE t missing {other}",
        f"SUNIONSTORE t s0 {other}",
        f"SDIFFSTORE t s0 {other}",
    ):
        assert r.do(line) == WRONGTYPE, line
    assert r.do("EXISTS t") == 0 and members(r, "s0") == {b"a"}
    assert r.call("SINTERSTORE", other, "s0", "missing") == 0
    assert r.call("EXISTS", other) == 0


def test_operations_do_what_python_does(r):
    rng = random.Random(4)
    model = {}
    for key in KEYS:
        size = rng.choice([0, 3, 40, 200])
        prefix = rng.choice(["", "m"])
        model[key] = {f"{prefix}{rng.randrange(300)}".encode() for _ in range(size)}
        if model[key]:
            r.call("SADD", key, *model[key])
    for _ in range(30 if SANITIZED else 120):
        keys = [rng.choice(KEYS) for _ in range(rng.randint(1, 4))]
        name, operation = rng.choice(
            [("SINTER", set.intersection), ("SUNION", set.union), ("SDIFF", set.difference)]
        )
        expected = operation(*[model[key] for key in keys])
        found = r.call(name, *keys)
        assert len(found) == len(set(found)) and set(found) == expected, (name, keys)
        if name == "SINTER":
            assert r.call("SINTERCARD", len(keys), *keys) == len(expected)
            assert r.call("SINTERCARD", len(keys), *keys, "LIMIT", 5) == min(5, len(expected))
        target = rng.choice(KEYS)
        if rng.random() < 0.4:
            assert r.call(name + "STORE", target, *keys) == len(expected)
            model[target] = expected
            assert members(r, target) == expected
            assert r.call("EXISTS", target) == (1 if expected else 0)


def test_all_of_it_in_an_exec(r):
    r.do("SADD s0 1 2 3")
    r.do("SADD s1 2 3 4")
    r.do("SADD s2 3 4 5")
    assert r.do("MULTI") == OK
    for line in (
        "SINTERSTORE s3 s0 s1",
        "SCARD s3",
        "SMOVE s0 s2 1",
        "SINTERCARD 3 s0 s1 s2",
        "SUNIONSTORE s3 s0 s1 s2",
        "SDIFFSTORE s4 s0 s1",
        "SDIFF s2 s1 s0",
        "EXISTS s4",
    ):
        r.do(line)
    replies = r.do("EXEC")
    assert replies[:6] == [2, 2, 1, 1, 5, 0]
    assert sorted(replies[6]) == [b"1", b"5"] and replies[7] == 0
    assert members(r, "s3") == {b"1", b"2", b"3", b"4", b"5"}


def test_changes_are_counted_as_in_redis(r):
    def changes():
        text = r.call("INFO", "persistence")
        line = next(x for x in text.split(b"\r\n") if x.startswith(b"rdb_changes_since_last_save"))
        return int(line.split(b":")[1])

    r.do("SADD a 1 2 3 4 5 6 7")
    r.do("SADD b 1 2 3 x")
    for line, count in (
        ("SADD a 1", 0),
        ("SADD a 8 9", 2),
        ("SREM a 8 9 10", 2),
        ("SREM b y", 0),
        ("SINTERSTORE d a b", 1),
        ("SUNIONSTORE d a b", 1),
        ("SDIFFSTORE d a b", 1),
        ("SINTERSTORE d a zz", 1),
        ("SINTERSTORE d a zz", 0),
        ("SMOVE a b 7", 2),
        ("SMOVE a b 1", 1),
        ("SMOVE a a 2", 0),
        ("SPOP a", 1),
        ("SPOP a 2", 2),
        ("SPOP a 99", 2),
        ("SPOP b 0", 0),
    ):
        before = changes()
        r.do(line)
        assert changes() - before == count, line


@only_dragonfly("small sets are listpacks since 7.2")
def test_encodings_follow_the_settings(r):
    r.do("SADD p a b c")
    assert r.do("OBJECT ENCODING p") == b"listpack"
    assert r.call("SSCAN", "p", "0", "COUNT", 1)[0] == b"0"
    for name, value in (
        ("set-max-intset-entries", 4),
        ("set-max-listpack-entries", 3),
        ("set-max-listpack-value", 5),
    ):
        old = r.call("CONFIG", "GET", name)[1]
        try:
            assert r.call("CONFIG", "SET", name, value) == OK
            assert r.call("CONFIG", "GET", name) == [name.encode(), str(value).encode()]
            for key in KEYS[:4]:
                r.call("DEL", key)
                if name.endswith("intset-entries"):
                    fits, more = ["1", "2", "3", "4"], "5"
                elif name.endswith("packed-entries") or name.endswith("listpack-entries"):
                    fits, more = ["a", "b", "c"], "d"
                else:
                    fits, more = ["12345", "abcde"], "abcdef"
                r.call("SADD", key, *fits)
                before = r.call("OBJECT", "ENCODING", key)
                assert before in (b"intset", b"listpack"), (name, before)
                r.call("SADD", key, more)
                assert r.call("OBJECT", "ENCODING", key) == b"hashtable", name
        finally:
            assert r.call("CONFIG", "SET", name, old) == OK


def test_a_member_that_moves_is_always_in_one_set(server, r):
    from harness.threads import run_all

    r.call("SADD", KEYS[0], "token")
    rounds = 20 if SANITIZED else 60

    def move(shift):
        with server.connect() as c:
            for n in range(rounds):
                for source in KEYS:
                    c.call("SMOVE", source, KEYS[(n + shift) % len(KEYS)], "token")

    def look():
        with server.connect() as c:
            for _ in range(rounds * 4):
                assert c.call("SUNION", *KEYS) == [b"token"]

    run_all([lambda: move(1), lambda: move(3), look, look])
    assert r.call("SUNION", *KEYS) == [b"token"]


@only_dragonfly("a command is one step")
@pytest.mark.parametrize("command", ["SMEMBERS", "SUNION", "SINTER", "SDIFF"])
def test_large_replies_are_read_in_slices(start_server, command):
    """And others run in between. Small ones are one step."""
    count = 20_000
    expected = {f"member:{i:020d}".encode() for i in range(count)}
    with start_server(proactor_threads=1).connect() as c:
        for key, some in (("one", expected), ("same", expected), ("few", sorted(expected)[:3])):
            assert c.call("SADD", key, *some) == len(some)
        others = {"SMEMBERS": [], "SUNION": ["few"], "SINTER": ["same"], "SDIFF": ["none"]}[command]

        def hops(*keys):
            before = int(c.info("transaction")["tx_hops_at_head"])
            reply = c.call(command, *keys)
            return set(reply), int(c.info("transaction")["tx_hops_at_head"]) - before

        found, large = hops("one", *others)
        assert found == expected
        found, small = hops("few", *(others and ["few"]))
        assert found == (set() if command == "SDIFF" else set(sorted(expected)[:3]))
        assert large >= count // 1024 and small < 5
