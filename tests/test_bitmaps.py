# SPDX-License-Identifier: Apache-2.0
"""Bitmaps: SETBIT GETBIT BITCOUNT BITPOS BITOP BITFIELD BITFIELD_RO. Every test also passes on
redis-server, unless marked."""

import random

import pytest

from harness.resp import NOT_INT, OK, SYNTAX, WRONGTYPE, Error, Status, arity
from harness.server import only_dragonfly

pytestmark = [pytest.mark.sanitized, pytest.mark.alone]

BIT_OFFSET = Error("ERR bit offset is not an integer or out of range")
BIT = Error("ERR bit is not an integer or out of range")
FIELD_TYPE = Error(
    "ERR Invalid bitfield type. Use something like i16 u8. "
    "Note that u64 is not supported but i64 is."
)
KEYS = [f"b{i}" for i in range(8)]  # in all shards


def test_replies_have_redis_shape_in_both_protocols(r, r3):
    r.do("SET k a")
    for line, resp2, resp3 in (
        ("GETBIT k 1", b":1\r\n", b":1\r\n"),
        ("BITFIELD k", b"*0\r\n", b"*0\r\n"),
        ("BITFIELD k GET u8 0", b"*1\r\n:97\r\n", b"*1\r\n:97\r\n"),
        ("BITFIELD k OVERFLOW FAIL INCRBY u2 0 3", b"*1\r\n$-1\r\n", b"*1\r\n_\r\n"),
        ("BITPOS none 1", b":-1\r\n", b":-1\r\n"),
    ):
        assert r.raw(*line.split()) == resp2, line
        assert r3.raw(*line.split()) == resp3, line


@pytest.mark.parametrize(
    "line, error",
    [
        ("SETBIT k 0", arity("setbit")),
        ("SETBIT k -1 1", BIT_OFFSET),
        ("SETBIT k 4294967296 1", BIT_OFFSET),
        ("SETBIT k x 2", BIT_OFFSET),
        ("SETBIT k 0 2", BIT),
        ("GETBIT k 4294967296", BIT_OFFSET),
        ("BITCOUNT k 0", SYNTAX),
        ("BITCOUNT k a 0", NOT_INT),
        ("BITCOUNT k 0 a", NOT_INT),
        ("BITCOUNT k 0 1 BITE", SYNTAX),
        ("BITCOUNT k 0 1 BIT x", SYNTAX),
        ("BITPOS k 2", Error("ERR The bit argument must be 1 or 0.")),
        ("BITPOS k a", NOT_INT),
        ("BITPOS k 1 a", NOT_INT),
        ("BITPOS k 1 0 a", NOT_INT),
        ("BITPOS k 1 0 a FOO", SYNTAX),
        ("BITPOS k 1 0 1 BIT x", SYNTAX),
        ("BITOP FOO t k", SYNTAX),
        ("BITOP NOT t k k", Error("ERR BITOP NOT must be called with a single source key.")),
        ("BITFIELD k GET u64 0", FIELD_TYPE),
        ("BITFIELD k GET i65 0", FIELD_TYPE),
        ("BITFIELD k GET u8 #4294967296", BIT_OFFSET),
        ("BITFIELD k SET u8 0 x", NOT_INT),
        ("BITFIELD k OVERFLOW foo", Error("ERR Invalid OVERFLOW type specified")),
        ("BITFIELD k GET u8", SYNTAX),
        ("BITFIELD_RO k SET u8 0 1", Error("ERR BITFIELD_RO only supports the GET subcommand")),
    ],
)
def test_an_error_changes_nothing(r, line, error):
    r.do("SET k foobar")
    assert r.do(line) == error
    assert r.do("GET k") == b"foobar"
    assert r.do("DBSIZE") == 1


@only_dragonfly("it answers 0, or the first zero, before it looks at the range")
def test_a_missing_key_does_not_hide_errors_since_7_2(r):
    assert r.do("BITCOUNT none a b") == NOT_INT
    assert r.do("BITCOUNT none 0 1 FOO") == SYNTAX
    assert r.do("BITPOS none 0 a") == NOT_INT
    assert r.do("BITPOS none 0 0 1 FOO") == SYNTAX


@pytest.mark.parametrize("other", KEYS[1:6])
def test_other_types_are_refused(r, other):
    r.do("SET b0 v")
    r.call("RPUSH", other, "a")
    for line in (
        f"SETBIT {other} 0 1",
        f"GETBIT {other} 0",
        f"BITCOUNT {other}",
        f"BITPOS {other} 1",
        f"BITFIELD {other} GET u8 0",
        f"BITFIELD {other} SET u8 0 1",
        f"BITOP AND t b0 {other}",
        f"BITOP OR t {other} b0",
        f"BITOP NOT t {other}",
    ):
        assert r.do(line) == WRONGTYPE, line
    assert r.do("EXISTS t") == 0
    assert r.call("BITOP", "OR", other, "b0", "none") == 1
    assert r.call("GET", other) == b"v"


def test_operations_do_what_python_does(r):
    rng = random.Random(6)
    model = {}
    for key in KEYS:
        model[key] = rng.randbytes(rng.choice([0, 1, 7, 8, 9, 40, 3000]))
        if model[key]:
            r.call("SET", key, model[key])
    for _ in range(100):
        keys = [rng.choice(KEYS) for _ in range(rng.randint(1, 5))]
        name = rng.choice(["AND", "OR", "XOR", "NOT"])
        keys = keys[:1] if name == "NOT" else keys
        size = max(len(model[key]) for key in keys)
        numbers = [int.from_bytes(model[key].ljust(size, b"\0"), "big") for key in keys]
        result = numbers[0]
        for number in numbers[1:]:
            result = {
                "AND": result & number,
                "OR": result | number,
                "XOR": result ^ number,
            }[name]
        if name == "NOT":
            result ^= (1 << 8 * size) - 1
        target = rng.choice(KEYS)
        assert r.call("BITOP", name, target, *keys) == size
        model[target] = result.to_bytes(size, "big")
        assert r.call("GET", target) == (model[target] if size else None)
        assert r.call("BITCOUNT", target) == result.bit_count()


def test_all_of_it_in_an_exec(r):
    r.do("SET b0 foo")
    r.do("SET b1 fox")
    assert r.do("MULTI") == OK
    for line in (
        "BITOP XOR b2 b0 b1",
        "BITCOUNT b2",
        "SETBIT b3 7 1",
        "BITOP OR b3 b3 b0 b1",
        "GETBIT b3 7",
        "BITFIELD b4 SET u8 0 1 INCRBY u8 0 300 GET u8 0",
    ):
        assert r.do(line) == Status("QUEUED")
    assert r.do("EXEC") == [3, 4, 0, 3, 1, [0, 45, 45]]


def test_changes_are_counted_as_in_redis(r):
    def changes():
        return int(r.info("persistence")["rdb_changes_since_last_save"])

    r.do("SET k a")
    for line, count in (
        ("SETBIT k 0 0", 0),
        ("SETBIT k 0 1", 1),
        ("SETBIT k 8 0", 1),
        ("SETBIT none 8 0", 1),
        ("BITFIELD k GET u8 0", 0),
        ("BITFIELD k SET u8 0 1 SET u8 0 1", 1),
        ("BITFIELD k SET u8 0 2 SET u8 0 1", 2),
        ("BITFIELD k SET u8 100 0 SET u8 0 1", 2),
        ("BITFIELD k OVERFLOW FAIL INCRBY u8 0 1000", 0),
        ("BITFIELD grown OVERFLOW FAIL INCRBY u8 0 1000", 0),
        ("BITOP OR t k k", 1),
        ("BITOP OR t none2 none3", 1),
        ("BITOP OR t none2 none3", 0),
    ):
        before = changes()
        r.do(line)
        assert changes() - before == count, line
    assert r.do("STRLEN grown") == 1


def test_encodings_are_those_of_redis(r):
    r.do("SET k 123")
    assert r.do("GETBIT k 1") == 0
    assert r.do("OBJECT ENCODING k") == b"int"
    assert r.do("SETBIT k 2 1") == 1
    assert r.do("OBJECT ENCODING k") == b"raw"
    r.do("BITOP AND t k k")
    assert r.do("OBJECT ENCODING t") == b"raw"
    assert r.do("GET t") == b"123"


# --- Random commands, for the differential tests ---
