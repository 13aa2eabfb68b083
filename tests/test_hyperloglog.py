# SPDX-License-Identifier: Apache-2.0
"""HyperLogLog: PFADD PFCOUNT PFMERGE PFDEBUG PFSELFTEST. Every test also passes on redis-server,
unless marked."""

import random

import pytest

from harness.resp import OK, WRONGTYPE, Error, Status, arity
from harness.server import SANITIZED, only_dragonfly

pytestmark = [pytest.mark.sanitized, pytest.mark.alone]

NOT_ONE = Error("WRONGTYPE Key is not a valid HyperLogLog string value.")
CORRUPT = Error("INVALIDOBJ Corrupted HLL object detected")
KEYS = [f"h{i}" for i in range(8)]  # in all shards
EMPTY = b"HYLL\x01" + bytes(10) + b"\x80\x7f\xff"


def test_the_bytes_are_those_of_redis(r):
    assert r.do("PFADD h") == 1
    assert r.do("GET h") == EMPTY
    assert r.do("PFADD h a b c") == 1
    assert r.do("PFADD h c b a") == 0
    stale = b"HYLL\x01" + bytes(10) + b"\x80"
    runs = b"\x60\xf3\x80\x50\xb1\x84\x4b\xfb\x80\x42\x5a"
    assert r.do("GET h") == stale + runs
    assert r.do("PFCOUNT h") == 3
    assert r.do("GET h") == b"HYLL\x01" + bytes(3) + b"\x03" + bytes(7) + runs
    assert r.do("OBJECT ENCODING h") == b"raw"


@only_dragonfly("it is compared with it")
def test_whatever_is_added_the_bytes_are_those_of_redis_server(pair):
    rng = random.Random(9)
    ours, reference = (server.connect() for server in pair)
    with ours, reference:
        for c in (ours, reference):
            c.call("FLUSHALL")
        for step in range(100 if SANITIZED else 600):
            key = rng.choice(KEYS)
            choice = rng.random()
            if choice < 0.5:
                count = rng.choice([1, 3, 30, 300])
                command = ["PFADD", key, *(f"e{rng.randrange(20000)}" for _ in range(count))]
            elif choice < 0.7:
                command = ["PFCOUNT", key]
            elif choice < 0.8:
                command = ["PFCOUNT", *rng.choices(KEYS, k=rng.randint(2, 4))]
            elif choice < 0.9:
                command = ["PFMERGE", key, *rng.choices(KEYS, k=rng.randint(0, 3))]
            elif choice < 0.93:
                command = ["PFDEBUG", rng.choice(["ENCODING", "DECODE"]), key]
            elif choice < 0.96:
                limit = rng.choice([0, 300, 3000, 20000])
                command = ["CONFIG", "SET", "hll-sparse-max-bytes", limit]
            else:
                command = ["DEL", key]
            assert ours.call(*command) == reference.call(*command), (step, command[:3])
            assert ours.call("GET", key) == reference.call("GET", key), (step, command[:3])
            assert ours.call("OBJECT", "ENCODING", key) == reference.call("OBJECT", "ENCODING", key)
        for c in (ours, reference):
            c.call("CONFIG", "SET", "hll-sparse-max-bytes", 3000)
        for key in KEYS:
            assert ours.call("PFDEBUG", "GETREG", key) == reference.call("PFDEBUG", "GETREG", key)


def test_the_size_where_it_becomes_dense_can_be_set(r):
    old = r.do("CONFIG GET hll-sparse-max-bytes")[1]
    assert old == b"3000"
    try:
        for limit, encoding in ((100, "dense"), (3000, "sparse")):
            assert r.do(f"CONFIG SET hll-sparse-max-bytes {limit}") == OK
            for key in KEYS:
                r.call("DEL", key)
                r.call("PFADD", key, *range(100))
                assert r.call("PFDEBUG", "ENCODING", key) == Status(encoding)
                assert r.call("STRLEN", key) == 12304 or encoding == "sparse"
    finally:
        r.call("CONFIG", "SET", "hll-sparse-max-bytes", old)


@pytest.mark.parametrize("other", KEYS[1:6])
def test_what_is_none_is_refused_and_nothing_changes(r, other):
    r.do("PFADD h0 a")
    for value, error in (
        (b"foo", NOT_ONE),
        (b"1234567890123456", NOT_ONE),
        (b"HYLL\x02" + EMPTY[5:], NOT_ONE),
        (b"HYLL\x00" + EMPTY[5:], NOT_ONE),
        (EMPTY + b"\x00", CORRUPT),
        (EMPTY[:-1], CORRUPT),
        (EMPTY[:16], CORRUPT),
    ):
        r.call("SET", other, value)
        for line in (f"PFCOUNT {other}", f"PFCOUNT h0 {other}", f"PFMERGE t h0 {other}"):
            assert r.do(line) == error, (line, value)
        assert r.call("PFMERGE", other, "h0") == error
        assert r.call("GET", other) == value
    r.call("DEL", other)
    r.call("RPUSH", other, "a")
    for line in (
        f"PFADD {other} a",
        f"PFCOUNT {other}",
        f"PFCOUNT h0 {other}",
        f"PFMERGE t h0 {other}",
        f"PFMERGE {other} h0",
        f"PFDEBUG GETREG {other}",
    ):
        assert r.do(line) == WRONGTYPE, line
    assert r.do("EXISTS t") == 0


def test_errors_of_pfdebug(r):
    assert r.do("PFDEBUG GETREG none") == Error("ERR The specified key does not exist")
    r.do("PFADD h a")
    assert r.do("PFDEBUG FOO h") == Error("ERR Unknown PFDEBUG subcommand 'FOO'")
    assert r.do("PFDEBUG GETREG") == arity("pfdebug")
    assert r.do("PFDEBUG TODENSE h") == 1
    assert r.do("PFDEBUG TODENSE h") == 0
    assert r.do("PFDEBUG DECODE h") == Error("ERR HLL encoding is not sparse")


def test_the_self_test_passes(r):
    assert r.do("PFSELFTEST") == OK


def test_all_of_it_in_an_exec(r):
    assert r.do("MULTI") == OK
    for line in (
        "PFADD h0 a b",
        "PFADD h1 b c",
        "PFCOUNT h0 h1",
        "PFMERGE h2 h0 h1",
        "PFCOUNT h2",
        "PFADD h2 a",
    ):
        assert r.do(line) == Status("QUEUED")
    assert r.do("EXEC") == [1, 1, 3, OK, 3, 0]


def test_changes_are_counted_as_in_redis(r):
    def changes():
        return int(r.info("persistence")["rdb_changes_since_last_save"])

    for line, count in (
        ("PFADD h", 1),
        ("PFADD h a b c", 3),
        ("PFADD h a b c", 0),
        ("PFADD new a b", 3),
        ("PFCOUNT h", 1),
        ("PFCOUNT h", 0),
        ("PFCOUNT h new", 0),
        ("PFMERGE t h new", 1),
        ("PFMERGE t", 1),
        ("PFDEBUG TODENSE t", 1),
        ("PFDEBUG TODENSE t", 0),
    ):
        before = changes()
        r.do(line)
        assert changes() - before == count, line
