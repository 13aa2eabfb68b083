# SPDX-License-Identifier: Apache-2.0
"""The hash family. Every test also passes on redis-server, unless marked."""

import random
import time

import pytest
import redis

from harness.resp import NOT_INT, OK, SYNTAX, WRONGTYPE, Error, Status, arity
from harness.server import only_dragonfly, wait_until

pytestmark = [pytest.mark.sanitized, pytest.mark.alone]

seven_four = only_dragonfly("deadlines of fields came with 7.4")


def pairs(flat):
    return dict(zip(flat[::2], flat[1::2]))


def test_replies_have_redis_shape_in_both_protocols(r, r3):
    r.do("HSET h a 1")
    for line, resp2, resp3 in (
        ("HGET h x", b"$-1\r\n", b"_\r\n"),
        ("HRANDFIELD x", b"$-1\r\n", b"_\r\n"),
        ("HRANDFIELD x 2", b"*0\r\n", b"*0\r\n"),
        ("HGETALL x", b"*0\r\n", b"%0\r\n"),
        ("HGETALL h", b"*2\r\n$1\r\na\r\n$1\r\n1\r\n", b"%1\r\n$1\r\na\r\n$1\r\n1\r\n"),
        ("HKEYS h", b"*1\r\n$1\r\na\r\n", b"*1\r\n$1\r\na\r\n"),
        ("HVALS x", b"*0\r\n", b"*0\r\n"),
        ("HMGET x a", b"*1\r\n$-1\r\n", b"*1\r\n_\r\n"),
        (
            "HRANDFIELD h 1 WITHVALUES",
            b"*2\r\n$1\r\na\r\n$1\r\n1\r\n",
            b"*1\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n",
        ),
        ("HINCRBYFLOAT h f 1.5", b"$3\r\n1.5\r\n", b"$1\r\n3\r\n"),
    ):
        assert r.raw(*line.split()) == resp2, line
        assert r3.raw(*line.split()) == resp3, line


def test_redis_py_sees_a_dictionary(server):
    client = redis.Redis(host="127.0.0.1", port=server.port, socket_timeout=60)
    with client:
        assert client.hset("h", mapping={"a": 1, "b": b"\x00\r\n", "c": ""}) == 3
        assert client.hgetall("h") == {b"a": b"1", b"b": b"\x00\r\n", b"c": b""}
        assert client.hincrby("h", "a", 4) == 5
        assert client.hincrbyfloat("h", "a", 0.5) == 5.5
        assert client.hmget("h", "a", "x") == [b"5.5", None]
        assert client.hexists("h", "a") and not client.hexists("h", "x")
        assert dict(client.hscan_iter("h")) == client.hgetall("h")
        assert client.hdel("h", "a", "b", "c", "x") == 3
        assert client.exists("h") == 0


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 127, 8191, 1 << 20])
def test_any_bytes_come_back_as_they_were_set(r, size):
    values = [b"a" * size, bytes(i % 256 for i in range(size)), b"\r\n" * (size // 2)]
    for i, value in enumerate(values):
        assert r.call("HSET", "h", b"f%d" % i, value) == 1
        assert r.call("HSET", "g", value, b"v%d" % i) in (0, 1)
    assert r.call("HMGET", "h", "f0", "f1", "f2") == values
    assert r.call("HSTRLEN", "h", "f1") == size
    assert r.call("HGET", "g", values[2]) == b"v2"


@pytest.mark.parametrize("text", ["0", "-0", "007", "+7", "-9223372036854775808", "1.0", "1e3", ""])
def test_texts_that_look_like_numbers_keep_their_bytes(r, text):
    r.call("HSET", "h", text, text, "other", text)
    assert r.call("HGET", "h", text) == text.encode()
    assert r.call("HDEL", "h", text) == 1
    assert r.call("HVALS", "h") == [text.encode()]


@pytest.mark.parametrize(
    "line, error",
    [
        ("HSET h a", arity("hset")),
        ("HSET h a 1 b", arity("hset")),
        ("HMSET h a 1 b", arity("hmset")),
        ("HSETNX h a", arity("hsetnx")),
        ("HINCRBY h a x", NOT_INT),
        ("HINCRBY h c 1", Error("ERR hash value is not an integer")),
        ("HINCRBY h a 9223372036854775807", Error("ERR increment or decrement would overflow")),
        ("HINCRBYFLOAT h a x", Error("ERR value is not a valid float")),
        ("HINCRBYFLOAT h a inf", Error("ERR value is NaN or Infinity")),
        ("HINCRBYFLOAT h c 1", Error("ERR hash value is not a float")),
        ("HRANDFIELD h x", NOT_INT),
        ("HRANDFIELD h 1 WHAT", SYNTAX),
        ("HRANDFIELD h 4611686018427387904 WITHVALUES", Error("ERR value is out of range")),
        ("HSCAN h x", Error("ERR invalid cursor")),
        ("HSCAN h 0 COUNT 0", SYNTAX),
        ("HSCAN h 0 COUNT x", NOT_INT),
        ("HSCAN h 0 TYPE hash", SYNTAX),
    ],
)
def test_an_error_changes_nothing(r, line, error):
    r.do("HSET h a 1 b 2 c x")
    assert r.do(line) == error
    assert r.do("HMGET h a b c") == [b"1", b"2", b"x"]
    assert r.do("HLEN h") == 3
    assert r.do("DBSIZE") == 1


@pytest.mark.parametrize(
    "line",
    ["HSET s a 1", "HSETNX s a 1", "HMSET s a 1", "HGET s a", "HMGET s a", "HGETALL s", "HDEL s a"]
    + ["HEXISTS s a", "HLEN s", "HSTRLEN s a", "HKEYS s", "HVALS s", "HINCRBY s a 1"]
    + ["HINCRBYFLOAT s a 1", "HRANDFIELD s", "HSCAN s 0"],
)
def test_a_key_of_another_type_is_refused_and_left_alone(r, line):
    r.do("SET s v")
    assert r.do(line) == WRONGTYPE
    assert r.do("GET s") == b"v"


def test_encoding_follows_the_limits_which_can_be_changed(r):
    assert r.do("CONFIG GET hash-max-listpack-value")[1] == b"64"
    assert r.do("CONFIG GET hash-max-ziplist-entries") == [b"hash-max-ziplist-entries", b"512"]
    try:
        assert r.do("CONFIG SET hash-max-listpack-entries 4 hash-max-ziplist-value 8") == OK
        r.do("HSET h a 1 b 2 c 3 d 12345678")
        assert r.do("OBJECT ENCODING h") == b"listpack"
        r.do("HSET h e 5")
        assert r.do("OBJECT ENCODING h") == b"hashtable"
        r.do("HSET g a 123456789")
        assert r.do("OBJECT ENCODING g") == b"hashtable"
        assert r.do("CONFIG GET hash-max-listpack-value")[1] == b"8"
    finally:
        assert r.do("CONFIG SET hash-max-listpack-entries 512 hash-max-listpack-value 64") == OK
    r.call("HSET", "p", *[x for i in range(512) for x in (i, i)])
    assert r.do("OBJECT ENCODING p") == b"listpack"
    r.do("HSET p more 1")
    assert r.do("OBJECT ENCODING p") == b"hashtable"


def test_scan_with_type_and_match_finds_hashes(r):
    for i in range(50):
        r.call("HSET", f"h{i}", "a", 1)
        r.call("SET", f"s{i}", 1)
    assert len(r.call("SCAN", 0, "TYPE", "hash", "COUNT", 1000)[1]) in range(1, 51)
    found, cursor = set(), 0
    while True:
        cursor, keys = r.call("SCAN", cursor, "TYPE", "hash")
        found.update(keys)
        if int(cursor) == 0:
            break
    assert found == {b"h%d" % i for i in range(50)}


def test_hscan_of_a_table_finds_every_field(r):
    expected = {b"f%d" % i: b"%d" % i for i in range(2000)}
    r.call("HSET", "h", *[x for pair in expected.items() for x in pair])
    found, cursor, calls = {}, 0, 0
    while True:
        cursor, flat = r.call("HSCAN", "h", cursor, "COUNT", 50)
        found.update(pairs(flat))
        calls += 1
        if int(cursor) == 0:
            break
    assert found == expected
    assert calls > 10
    assert r.call("HSCAN", "h", 0, "MATCH", "nosuch*", "COUNT", 100000) == [b"0", []]


def test_a_hash_moves_over_shards_and_databases(r):
    flat = [b"%d" % i for i in range(2 * 600)]
    for i in range(8):
        r.call("HSET", "h", *flat)
        assert r.call("COPY", "h", f"copy{i}") == 1
        assert r.call("RENAME", "h", f"new{i}") == OK
        assert pairs(r.call("HGETALL", f"new{i}")) == pairs(flat)
        assert pairs(r.call("HGETALL", f"copy{i}")) == pairs(flat)
        assert r.call("MOVE", f"new{i}", 1) == 1
    r.do("SELECT 1")
    assert r.call("HLEN", "new3") == 600
    assert r.call("TYPE", "new3") == Status("hash")


def test_random_fields_inside_exec(r):
    r.do("HSET h a 1")
    r.do("MULTI")
    for line in ("HSET h b 2", "HDEL h a", "HGETALL h", "HRANDFIELD h -2", "HDEL h b", "EXISTS h"):
        assert r.do(line) == Status("QUEUED")
    assert r.do("EXEC") == [1, 1, [b"b", b"2"], [b"b", b"b"], 1, 0]


@pytest.mark.threads
@seven_four
def test_due_fields_go_and_the_key_with_the_last_one_without_being_looked_at(r):
    r.do("HSET h a 1 b 2")
    r.do("HSET stays a 1 b 2")
    assert r.do("HPEXPIRE h 60 FIELDS 2 a b") == [1, 1]
    assert r.do("HPEXPIRE stays 60 FIELDS 1 a") == [1]
    wait_until(lambda: r.do("DBSIZE") == 1, what="active expiry")
    wait_until(lambda: r.do("HGETALL stays") == [b"b", b"2"], what="a field's expiry")


@seven_four
def test_deadlines_of_fields_answer_per_field(r):
    r.do("HSET h a 1 b 2")
    far = int(time.time()) + 1000
    assert r.do(f"HEXPIREAT h {far} FIELDS 2 a x") == [1, -2]
    assert r.do("HEXPIRETIME h FIELDS 3 a b x") == [far, -1, -2]
    assert r.do("HPEXPIRETIME h FIELDS 1 a") == [far * 1000]
    assert 990 < r.do("HTTL h FIELDS 1 a")[0] <= 1000
    assert r.do("HPERSIST h FIELDS 2 a b") == [1, -1]
    assert r.do("HSETEX h FNX EX 100 FIELDS 1 new 1") == 1
    assert r.do("HGETEX h PERSIST FIELDS 1 new") == [b"1"]
    assert r.do("HGETDEL h FIELDS 3 a b new") == [b"1", b"2", b"1"]
    assert r.do("EXISTS h") == 0
    assert r.do("HSCAN h 0 NOVALUES") == [b"0", []]


@only_dragonfly("Valkey's, since 9.1")
def test_hsetex_may_want_the_key_to_exist_or_not(r):
    assert r.do("HSETEX h XX FIELDS 1 a 1") == 0
    assert r.do("EXISTS h") == 0
    assert r.do("HSETEX h NX FNX EX 100 FIELDS 1 a 1") == 1
    assert r.do("HSETEX h NX FIELDS 1 b 2") == 0
    assert r.do("HSETEX h XX FXX KEEPTTL FIELDS 1 a 2") == 1
    assert 90 < r.do("HTTL h FIELDS 1 a")[0] <= 100
    assert r.do("HSETEX h NX XX FIELDS 1 b 2") == Error("ERR syntax error")
    assert r.do("HGETALL h") == [b"a", b"2"]


def test_memory_usage_grows_with_the_fields(r):
    r.do("HSET h a 1")
    before = r.do("MEMORY USAGE h")
    rng = random.Random(7)
    r.call("HSET", "h", *[rng.randbytes(20) for _ in range(2 * 1000)])
    assert r.do("MEMORY USAGE h") > before + 2 * 1000 * 20
