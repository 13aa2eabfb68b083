# SPDX-License-Identifier: Apache-2.0
"""Bitmaps: SETBIT GETBIT BITCOUNT BITPOS BITOP BITFIELD BITFIELD_RO. Every test also passes on
redis-server, unless marked."""

import random

import pytest

from harness.resp import NOT_INT, OK, SYNTAX, WRONGTYPE, Error, Status, arity, encode
from harness.server import SANITIZED, only_dragonfly

pytestmark = [pytest.mark.matrix, pytest.mark.sanitized]

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


def bitmap_command(rng, key):
    """One command of the family. `key()` gives a key."""

    def offset():
        return rng.choice(["0", "1", "7", "8", "100", "1000", "-1", "x", "4294967296", "2999"])

    def field_offset():
        return rng.choice(["", "#"]) + offset()

    def number():
        return rng.choice(
            ["0", "1", "-1", "255", "256", "-128", "-129", "9223372036854775807", "99999", "x"]
        )

    def index():
        return rng.choice(["0", "1", "3", "-1", "-2", "-100", "100", "x", "9223372036854775807"])

    def unit():
        return rng.choice(["BIT", "byte", "BITS"])

    def operation():
        kind = rng.choice(
            [f"{sign}{bits}" for sign in "iu" for bits in (1, 5, 8, 16, 32, 63, 64, 65)]
        )
        return rng.choice(
            [
                ["GET", kind, field_offset()],
                ["SET", kind, field_offset(), number()],
                ["INCRBY", kind, field_offset(), number()],
                ["OVERFLOW", rng.choice(["WRAP", "sat", "FAIL", "no"])],
            ]
        )

    choice = rng.randrange(10)
    if choice < 2:
        return ["SETBIT", key(), offset(), rng.choice(["0", "1", "1", "2"])]
    if choice == 2:
        return ["GETBIT", key(), offset()]
    if choice == 3:
        return ["BITCOUNT", key(), *[index(), index(), unit()][: rng.choice([0, 2, 2, 3])]]
    if choice == 4:
        options = [index(), index(), unit()][: rng.randrange(4)]
        return ["BITPOS", key(), rng.choice("0112"), *options]
    if choice < 7:
        sources = [key() for _ in range(rng.choice([1, 1, 2, 3]))]
        return ["BITOP", rng.choice(["AND", "or", "XOR", "NOT", "NAND"]), key(), *sources]
    if choice == 7:
        return ["SET", key(), rng.choice(["", "foobar", "123", "\x7f" * 40, "-5"])]
    name = rng.choice(["BITFIELD", "BITFIELD", "BITFIELD_RO"])
    return [name, key(), *sum((operation() for _ in range(rng.randrange(4))), [])]


def has_7_2_errors(command):
    """Errors in arguments of BITCOUNT and BITPOS come before the look at the key since 7.2."""
    return command[0] in ("BITCOUNT", "BITPOS") and any(w in ("x", "BITS") for w in command[2:])


@only_dragonfly("it is compared with it")
def test_random_commands_get_the_replies_of_redis_server(pair):
    rng = random.Random(12)
    keys = [*KEYS, "l"]
    ours, reference = (server.connect() for server in pair)
    with ours, reference:
        for c in (ours, reference):
            c.call("FLUSHALL"), c.call("RPUSH", "l", "a")
        for _ in range(20 if SANITIZED else 200):
            commands = [bitmap_command(rng, lambda: rng.choice(keys)) for _ in range(50)]
            commands = [c for c in commands if not has_7_2_errors(c) and c[:2] != ["SET", "l"]]
            for c in (ours, reference):
                c.send(b"".join(encode(*command) for command in commands))
            for i, command in enumerate(commands):
                got, expected = ours.read_raw(), reference.read_raw()
                assert got == expected, (command, commands[:i])
        for key in keys[:-1]:
            assert ours.call("TYPE", key) == reference.call("TYPE", key)
            if ours.call("TYPE", key) == Status("string"):
                assert ours.call("GET", key) == reference.call("GET", key)
                encodings = [c.call("OBJECT", "ENCODING", key) for c in (ours, reference)]
                assert encodings[0] == encodings[1], key
        changes = [c.info("persistence")["rdb_changes_since_last_save"] for c in (ours, reference)]
        assert changes[0] == changes[1]
