# SPDX-License-Identifier: Apache-2.0
"""The list family without its blocking commands, on keys of one shard. Every test also passes on
redis-server, unless marked."""


import pytest
import redis

from harness.resp import NOT_INT, OK, SYNTAX, WRONGTYPE, Error, Status, arity
from harness.seeds import new_rng
from harness.server import SANITIZED, only_dragonfly

pytestmark = [pytest.mark.sanitized, pytest.mark.alone]

NO_KEY = Error("ERR no such key")
NOT_POSITIVE = Error("ERR value is out of range, must be positive")


def elements(r, key):
    return r.call("LRANGE", key, 0, -1)


def test_null_replies_have_redis_shape_in_both_protocols(r, r3):
    for line, resp2 in (
        ("LPOP l", b"$-1\r\n"),
        ("LPOP l 1", b"*-1\r\n"),
        ("RPOP l 0", b"*-1\r\n"),
        ("LINDEX l 0", b"$-1\r\n"),
        ("LPOS l a", b"$-1\r\n"),
        ("LPOS l a COUNT 1", b"*0\r\n"),
        ("LMPOP 1 l LEFT", b"*-1\r\n"),
        ("RPOPLPUSH l l", b"$-1\r\n"),
        ("LRANGE l 0 -1", b"*0\r\n"),
    ):
        assert r.raw(*line.split()) == resp2, line
        assert r3.raw(*line.split()) == (b"*0\r\n" if resp2 == b"*0\r\n" else b"_\r\n"), line


def test_redis_py_sees_a_list(server):
    client = redis.Redis(host="127.0.0.1", port=server.port, socket_timeout=60)
    with client:
        assert client.rpush("l", "a", "b", 3, b"\x00\r\n") == 4
        assert client.lpush("l", "x") == 5
        assert client.lrange("l", 0, -1) == [b"x", b"a", b"b", b"3", b"\x00\r\n"]
        assert client.lpop("l", 2) == [b"x", b"a"]
        assert client.rpop("l") == b"\x00\r\n"
        assert client.linsert("l", "before", "3", "mid") == 3
        assert client.lpos("l", "mid") == 1
        assert client.lmove("l", "{l}2", "LEFT", "RIGHT") == b"b"
        assert client.lmpop(2, "l", "{l}2", direction="RIGHT", count=5) == [b"l", [b"3", b"mid"]]
        assert client.type("{l}2") == b"list"
        assert client.lset("{l}2", 0, "new") is True
        assert client.lrem("{l}2", 0, "new") == 1
        assert client.exists("l", "{l}2") == 0


@pytest.mark.parametrize("size", [0, 1, 63, 64, 127, 128, 8191, 8192, 20000, 1 << 20])
def test_any_bytes_come_back_as_they_were_pushed(r, size):
    values = [b"a" * size, bytes(i % 256 for i in range(size)), b"\r\n" * (size // 2)]
    assert r.call("RPUSH", "l", *values) == 3
    assert elements(r, "l") == values
    assert r.call("LPOS", "l", values[0]) == 0
    assert r.call("LREM", "l", 1, values[1]) == 1
    assert r.call("LMOVE", "l", "l", "LEFT", "RIGHT") is not None
    assert r.call("LPOP", "l", 5) is not None
    assert r.do("EXISTS l") == 0


@pytest.mark.parametrize(
    "text",
    ["0", "-0", "007", "+7", "63", "64", "-1024", "-1025", "15359", "15360", "9223372036854775807"]
    + ["-9223372036854775808", "9223372036854775808", "1.0", "1e3", "-", " 1"],
)
def test_texts_that_look_like_numbers_keep_their_bytes(r, text):
    r.call("RPUSH", "l", "before", text, "after")
    assert r.call("LINDEX", "l", 1) == text.encode()
    assert r.call("LPOS", "l", text) == 1
    assert r.call("LINSERT", "l", "BEFORE", text, "x") == 4
    assert r.call("LREM", "l", 0, text) == 1


@pytest.mark.parametrize(
    "line, error",
    [
        ("LPUSH l", arity("lpush")),
        ("LPOP l 1 2", arity("lpop")),
        ("RPOP l -1", NOT_POSITIVE),
        ("LPOP l x", NOT_POSITIVE),
        ("LSET missing x y", NO_KEY),
        ("LSET l x y", NOT_INT),
        ("LSET l 9 y", Error("ERR index out of range")),
        ("LINDEX l x", NOT_INT),
        ("LRANGE l x 1", NOT_INT),
        ("LTRIM missing 0 x", NOT_INT),
        ("LREM l x a", NOT_INT),
        ("LINSERT l BESIDE a b", SYNTAX),
        ("LPOS l a COUNT -1", Error("ERR COUNT can't be negative")),
        ("LPOS l a MAXLEN -1", Error("ERR MAXLEN can't be negative")),
        ("LPOS l a RANK", SYNTAX),
        ("LMOVE l l LEFT", arity("lmove")),
        ("LMOVE l l LEFT UP", SYNTAX),
        ("LMPOP 0 l LEFT", Error("ERR numkeys should be greater than 0")),
        ("LMPOP 1 l LEFT COUNT 0", Error("ERR count should be greater than 0")),
        ("LMPOP 1 l UP", SYNTAX),
        ("LMPOP 1 l", arity("lmpop")),
    ],
)
def test_an_error_changes_nothing(r, line, error):
    r.do("RPUSH l a b c")
    assert r.do(line) == error
    assert elements(r, "l") == [b"a", b"b", b"c"]
    assert r.do("DBSIZE") == 1


@pytest.mark.parametrize(
    "line",
    [
        "LPUSH s a",
        "RPUSHX s a",
        "LPOP s",
        "RPOP s 1",
        "LLEN s",
        "LINDEX s 0",
        "LSET s 0 a",
        "LRANGE s 0 1",
        "LTRIM s 0 1",
        "LINSERT s AFTER a b",
        "LREM s 0 a",
        "LPOS s a",
        "RPOPLPUSH s s",
        "LMOVE {s}l s LEFT LEFT",
        "LMPOP 2 {s}missing s LEFT",
    ],
)
def test_a_key_of_another_type_is_refused_and_left_alone(r, line):
    r.do("SET s v")
    r.do("RPUSH {s}l a")
    assert r.do(line) == WRONGTYPE
    assert r.do("GET s") == b"v"
    assert elements(r, "{s}l") == [b"a"]


def test_an_emptied_list_is_gone_with_its_deadline(r):
    for line in ("LPOP l", "RPOP l 9", "LTRIM l 5 9", "LREM l 0 a", "LMPOP 1 l LEFT COUNT 7"):
        r.do("RPUSH l a a")
        r.do("EXPIRE l 100")
        r.do(line)
        r.do(line)
        assert r.do("EXISTS l") == 0, line
        assert r.do("TTL l") == -2
        assert r.do("RPUSH l a") == 1
        assert r.do("TTL l") == -1
        r.do("DEL l")


def test_generic_commands_know_lists(r):
    r.do("RPUSH l a b c")
    r.do("SET s v")
    assert r.do("TYPE l") == Status("list")
    assert r.do("SCAN 0 COUNT 1000 TYPE list")[1] == [b"l"]
    assert r.do("OBJECT REFCOUNT l") == 1
    assert r.do("OBJECT IDLETIME l") in (0, 1)
    assert b"refcount:1 encoding:" in r.do("DEBUG OBJECT l").text.encode()
    assert r.do("MEMORY USAGE l") > 32
    assert r.do("DEL l s") == 2


@only_dragonfly("it calls a list of one block quicklist; listpack since 7.2")
def test_the_encoding_follows_the_size(r):
    assert r.do("CONFIG GET list-max-listpack-size") == [b"list-max-listpack-size", b"-2"]
    try:
        assert r.do("CONFIG SET list-max-listpack-size 4") == OK
        r.do("RPUSH l a b c d")
        assert r.do("OBJECT ENCODING l") == b"listpack"
        r.do("RPUSH l e")
        assert r.do("OBJECT ENCODING l") == b"quicklist"
        r.do("RPOP l 2")
        assert r.do("OBJECT ENCODING l") == b"quicklist"
        r.do("RPOP l")
        assert r.do("OBJECT ENCODING l") == b"listpack"
    finally:
        assert r.do("CONFIG SET list-max-listpack-size -2") == OK
    r.call("RPUSH", "big", "x" * 10000)
    assert r.do("OBJECT ENCODING big") == b"quicklist"


@pytest.mark.flags(list_max_listpack_size=2)
@only_dragonfly("it calls a list of one block quicklist; listpack since 7.2")
def test_the_flag_sets_the_size_of_blocks(r):
    r.do("RPUSH l a b")
    assert r.do("OBJECT ENCODING l") == b"listpack"
    r.do("RPUSH l c")
    assert r.do("OBJECT ENCODING l") == b"quicklist"
    assert r.do("CONFIG GET list-max-listpack-size")[1] == b"2"


def test_command_describes_keys_after_a_count(r):
    info = r.do("COMMAND INFO lmpop")[0]
    assert info[1] == -4
    assert Status("movablekeys") in info[2]
    assert info[3:6] == [0, 0, 0]
    assert r.do("COMMAND GETKEYS LMPOP 2 a b LEFT") == [b"a", b"b"]
    assert r.do("COMMAND GETKEYS LMOVE a b LEFT LEFT") == [b"a", b"b"]
    invalid = Error("ERR Invalid arguments specified for command")
    assert r.do("COMMAND GETKEYS LMPOP 0 a LEFT") == invalid
    assert r.do("COMMAND GETKEYS LMPOP x a LEFT") == invalid
    assert r.do("COMMAND GETKEYS LMPOP 9 a LEFT") == invalid


@only_dragonfly("it has blocks of another size and accounts of another kind")
def test_memory_is_given_back(r):
    before = int(r.call("INFO", "memory").split(b"used_memory:")[1].split()[0])
    for _ in range(20):
        r.call("RPUSH", "l", *[b"element:%d" % i for i in range(5000)])
    used = r.do("MEMORY USAGE l")
    assert 100_000 * 12 < used < 100_000 * 15
    assert r.do("LTRIM l 0 9") == OK
    assert r.do("MEMORY USAGE l") < 1000
    r.do("DEL l")
    after = int(r.call("INFO", "memory").split(b"used_memory:")[1].split()[0])
    assert after - before < 500_000


def test_long_lists_agree_with_a_model(r):
    """Long enough for many blocks."""
    rng = new_rng()
    model = []

    def value():
        return b"%d" % rng.randrange(-20000, 20000) if rng.random() < 0.5 else rng.randbytes(20)

    for _ in range(100 if SANITIZED else 400):
        kind = rng.randrange(6)
        if kind <= 1 or len(model) < 100:
            values = [value() for _ in range(rng.randrange(1, 200))]
            front = rng.random() < 0.5
            r.call("LPUSH" if front else "RPUSH", "l", *values)
            model = values[::-1] + model if front else model + values
        elif kind == 2:
            at, text = rng.randrange(len(model)), value()
            assert r.call("LSET", "l", at, text) == OK
            model[at] = text
        elif kind == 3:
            at = rng.randrange(len(model))
            at = model.index(model[at])
            text = value()
            assert r.call("LINSERT", "l", "BEFORE", model[at], text) == len(model) + 1
            model.insert(at, text)
        elif kind == 4:
            count = rng.randrange(1, 100)
            assert r.call("LPOP", "l", count) == model[:count]
            model = model[count:]
        else:
            text = model[rng.randrange(len(model))]
            at = len(model) - 1 - model[::-1].index(text)
            assert r.call("LREM", "l", -1, text) == 1
            del model[at]
        if not model:
            continue
        start = rng.randrange(-len(model), len(model))
        first = start if start >= 0 else start + len(model)
        assert r.call("LRANGE", "l", start, first + 50) == model[first : first + 51]
        assert r.call("LINDEX", "l", start) == model[start]
    assert elements(r, "l") == model
