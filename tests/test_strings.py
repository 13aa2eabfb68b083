# SPDX-License-Identifier: Apache-2.0
"""The string family: success, wrong type, missing key, arity, bad numbers, and that an error
changes nothing. Every test also passes on redis-server, unless marked."""

import pytest

from harness.resp import NOT_FLOAT, NOT_INT, OK, SYNTAX, WRONGTYPE, Error, arity
from harness.server import only_dragonfly, wait_until

pytestmark = [pytest.mark.sanitized, pytest.mark.alone]

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)


def test_get_of_a_missing_key_is_null(r, r3):
    assert r.raw("GET", "nope") == b"$-1\r\n"
    assert r3.raw("GET", "nope") == b"_\r\n"


@pytest.mark.matrix
@pytest.mark.parametrize(
    "size", [0, 1, 7, 14, 15, 16, 17, 18, 31, 32, 33, 44, 45, 100, 4096, 70000]
)
def test_any_bytes_come_back_as_they_were_set(r, size):
    for value in (b"a" * size, bytes(i % 256 for i in range(size)), b"\r\n" * (size // 2)):
        assert r.call("SET", "k", value) == OK
        assert r.call("GET", "k") == value
        assert r.call("STRLEN", "k") == len(value)
        key = b"key" + value
        assert r.call("SET", key, value) == OK
        assert r.call("GET", key) == value
        assert r.call("DEL", key) == 1


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "-0",
        "1",
        "-1",
        "007",
        "+7",
        " 7",
        "7 ",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "-9223372036854775809",
        "1.0",
        "1e3",
        "0x10",
        "",
        "-",
        "00",
        "-00",
    ],
)
def test_texts_that_look_like_numbers_keep_their_bytes(r, text):
    r.call("SET", "k", text)
    assert r.call("GET", "k") == text.encode()
    assert r.call("STRLEN", "k") == len(text)
    assert r.call("APPEND", "k", "x") == len(text) + 1
    assert r.call("GET", "k") == text.encode() + b"x"


def test_set_replaces_value_and_removes_the_ttl(r):
    r.do("SET k v EX 100")
    assert r.do("SET k w") == OK
    assert r.do("TTL k") == -1
    assert r.do("GET k") == b"w"


def test_set_nx_and_xx(r):
    assert r.do("SET k v XX") is None
    assert r.do("EXISTS k") == 0
    assert r.do("SET k v NX") == OK
    assert r.do("SET k w NX") is None
    assert r.do("GET k") == b"v"
    assert r.do("SET k w xx") == OK
    assert r.do("GET k") == b"w"


def test_set_get_returns_the_old_value(r):
    assert r.do("SET k v GET") is None
    assert r.do("SET k w GET") == b"v"
    assert r.do("SET k x NX GET") == b"w"
    assert r.do("GET k") == b"w"
    assert r.do("SET k x XX GET") == b"w"
    assert r.do("GET k") == b"x"
    assert r.do("SET new x XX GET") is None
    assert r.do("EXISTS new") == 0


def test_set_expiry_options(r):
    r.do("SET a v EX 100")
    assert 99 <= r.do("TTL a") <= 100
    r.do("SET a v PX 100000")
    assert 99000 <= r.do("PTTL a") <= 100000
    r.do("SET a v EXAT 33177117420")
    assert r.do("EXPIRETIME a") == 33177117420
    r.do("SET a v PXAT 33177117420123")
    assert r.do("PEXPIRETIME a") == 33177117420123
    r.do("SET a w KEEPTTL")
    assert r.do("PEXPIRETIME a") == 33177117420123
    assert r.do("GET a") == b"w"


def test_set_with_a_deadline_in_the_past_leaves_no_key(r):
    assert r.do("SET k v PXAT 1") == OK
    assert r.do("GET k") is None
    assert r.do("EXISTS k") == 0
    assert r.do("SET k v") == OK
    assert r.do("SET k v EXAT 1") == OK
    assert r.do("EXISTS k") == 0


@pytest.mark.parametrize(
    "line,error",
    [
        ("SET k v EX 0", "ERR invalid expire time in 'set' command"),
        ("SET k v EX -1", "ERR invalid expire time in 'set' command"),
        ("SET k v PX 0", "ERR invalid expire time in 'set' command"),
        ("SET k v EXAT 0", "ERR invalid expire time in 'set' command"),
        ("SET k v PXAT -5", "ERR invalid expire time in 'set' command"),
        ("SET k v EX 9223372036854775807", "ERR invalid expire time in 'set' command"),
        ("SET k v EX 9223372036854775", "ERR invalid expire time in 'set' command"),
        ("SET k v EX ten", NOT_INT.text),
        ("SET k v EX 1.5", NOT_INT.text),
        ("SET k v EX 99999999999999999999", NOT_INT.text),
        ("SET k v EX", SYNTAX.text),
        ("SET k v NX XX", SYNTAX.text),
        ("SET k v XX NX", SYNTAX.text),
        ("SET k v EX 10 PX 10", SYNTAX.text),
        ("SET k v EX 10 KEEPTTL", SYNTAX.text),
        ("SET k v KEEPTTL EX 10", SYNTAX.text),
        ("SET k v PERSIST", SYNTAX.text),
        ("SET k v WHAT", SYNTAX.text),
        ("SET k v ''", SYNTAX.text),
        ("SET k", arity("set").text),
        ("SET", arity("set").text),
        ("SETEX k 0 v", "ERR invalid expire time in 'setex' command"),
        ("SETEX k -1 v", "ERR invalid expire time in 'setex' command"),
        ("SETEX k x v", NOT_INT.text),
        ("SETEX k 10", arity("setex").text),
        ("PSETEX k 0 v", "ERR invalid expire time in 'psetex' command"),
        ("PSETEX k x v", NOT_INT.text),
        ("PSETEX k 10 v more", arity("psetex").text),
        ("SETNX k", arity("setnx").text),
        ("GETSET k", arity("getset").text),
        ("GET", arity("get").text),
        ("GET a b", arity("get").text),
        ("GETDEL", arity("getdel").text),
        ("GETEX k EX", SYNTAX.text),
        ("GETEX k EX 0", "ERR invalid expire time in 'getex' command"),
        ("GETEX k EX x", NOT_INT.text),
        ("GETEX k EX 10 PERSIST", SYNTAX.text),
        ("GETEX k PERSIST EX 10", SYNTAX.text),
        ("GETEX k KEEPTTL", SYNTAX.text),
        ("GETEX k NX", SYNTAX.text),
        ("GETEX", arity("getex").text),
        ("APPEND k", arity("append").text),
        ("STRLEN", arity("strlen").text),
        ("STRLEN a b", arity("strlen").text),
        ("SETRANGE k -1 v", "ERR offset is out of range"),
        ("SETRANGE k x v", NOT_INT.text),
        ("SETRANGE k 536870912 v", "ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
        (
            "SETRANGE k 9223372036854775807 v",
            "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
        ),
        ("SETRANGE k 1", arity("setrange").text),
        ("GETRANGE k a 1", NOT_INT.text),
        ("GETRANGE k 1 b", NOT_INT.text),
        ("GETRANGE k 1", arity("getrange").text),
        ("SUBSTR k 1", arity("substr").text),
        ("INCR", arity("incr").text),
        ("INCR k 1", arity("incr").text),
        ("INCR k", NOT_INT.text),
        ("DECR k", NOT_INT.text),
        ("INCRBY k 1", NOT_INT.text),
        ("INCRBY k x", NOT_INT.text),
        ("INCRBY k 1.0", NOT_INT.text),
        ("INCRBY k +1", NOT_INT.text),
        ("INCRBY k 01", NOT_INT.text),
        ("INCRBY k", arity("incrby").text),
        ("DECRBY k x", NOT_INT.text),
        ("DECRBY k -9223372036854775808", "ERR decrement would overflow"),
        ("INCRBYFLOAT k 1", NOT_FLOAT.text),
        ("INCRBYFLOAT k", arity("incrbyfloat").text),
        ("MGET", arity("mget").text),
        ("MSET", arity("mset").text),
        ("MSET k", arity("mset").text),
        ("MSET k v l", arity("mset").text),
        ("MSETNX k v l", arity("msetnx").text),
        ("DEL", arity("del").text),
        ("UNLINK", arity("unlink").text),
        ("EXISTS", arity("exists").text),
        ("TOUCH", arity("touch").text),
    ],
)
def test_an_error_is_worded_as_in_redis_and_changes_nothing(r, line, error):
    r.call("SET", "k", "the old value", "PXAT", "33177117420123")
    assert r.do(line) == Error(error)
    assert r.do("GET k") == b"the old value"
    assert r.do("PEXPIRETIME k") == 33177117420123
    assert r.do("DBSIZE") == 1


def test_setnx(r):
    assert r.do("SETNX k v") == 1
    assert r.do("SETNX k w") == 0
    assert r.do("GET k") == b"v"


def test_setex_and_psetex(r):
    assert r.do("SETEX k 100 v") == OK
    assert 99 <= r.do("TTL k") <= 100
    assert r.do("PSETEX k 100000 w") == OK
    assert 99000 <= r.do("PTTL k") <= 100000
    assert r.do("GET k") == b"w"


def test_getset_returns_the_old_value_and_removes_the_ttl(r):
    assert r.do("GETSET k v") is None
    r.do("EXPIRE k 100")
    assert r.do("GETSET k w") == b"v"
    assert r.do("TTL k") == -1


def test_getdel_removes_the_key(r):
    assert r.do("GETDEL k") is None
    r.do("SET k v")
    assert r.do("GETDEL k") == b"v"
    assert r.do("EXISTS k") == 0


def test_getex_changes_only_the_deadline(r):
    assert r.do("GETEX k EX 10") is None
    r.do("SET k v")
    assert r.do("GETEX k") == b"v"
    assert r.do("TTL k") == -1
    assert r.do("GETEX k EX 100") == b"v"
    assert 99 <= r.do("TTL k") <= 100
    assert r.do("GETEX k") == b"v"
    assert 99 <= r.do("TTL k") <= 100
    assert r.do("GETEX k PXAT 33177117420123") == b"v"
    assert r.do("PEXPIRETIME k") == 33177117420123
    assert r.do("GETEX k PERSIST") == b"v"
    assert r.do("TTL k") == -1
    assert r.do("GETEX k EXAT 1") == b"v"
    assert r.do("EXISTS k") == 0


def test_append_creates_and_extends_and_keeps_the_ttl(r):
    assert r.do("APPEND k abc") == 3
    r.do("EXPIRE k 100")
    assert r.do("APPEND k def") == 6
    assert r.do("APPEND k ''") == 6
    assert r.do("GET k") == b"abcdef"
    assert r.do("TTL k") > 0


def test_append_many_times_makes_one_long_value(r):
    piece = bytes(range(100))
    replies = r.pipeline([("APPEND", "k", piece)] * 1000)
    assert replies == [100 * (i + 1) for i in range(1000)]
    assert r.call("GET", "k") == piece * 1000


def test_append_of_nothing_to_a_missing_key_makes_an_empty_string(r):
    assert r.do("APPEND k ''") == 0
    assert r.do("EXISTS k") == 1


@only_dragonfly("PREPEND is ours")
def test_prepend_puts_bytes_in_front(r):
    r.do("SET k world EX 100")
    assert r.do("PREPEND k hello-") == 11
    assert r.do("GET k") == b"hello-world"
    assert r.do("TTL k") > 0
    assert r.do("PREPEND new x") in (0, 1)
    assert r.do("PREPEND k") == arity("prepend")


def test_strlen(r):
    assert r.do("STRLEN k") == 0
    r.do("SET k 12345")
    assert r.do("STRLEN k") == 5


def test_setrange_pads_with_zero_bytes(r):
    assert r.do("SETRANGE k 0 ''") == 0
    assert r.do("EXISTS k") == 0
    assert r.do("SETRANGE k 5 abc") == 8
    assert r.do("GET k") == b"\0\0\0\0\0abc"
    assert r.do("SETRANGE k 1 xy") == 8
    assert r.do("GET k") == b"\0xy\0\0abc"
    assert r.do("SETRANGE k 7 long") == 11
    assert r.do("SETRANGE k 100 ''") == 11
    r.do("SET n 123")
    assert r.do("SETRANGE n 1 x") == 3
    assert r.do("GET n") == b"1x3"


@pytest.mark.parametrize("command", ["GETRANGE", "SUBSTR"])
def test_getrange_takes_negative_and_wide_ranges(r, command):
    text = b"0123456789abcdef"
    r.call("SET", "k", text)
    for start in (-100, -16, -15, -1, 0, 1, 8, 15, 16, 100):
        for end in (-100, -17, -16, -15, -1, 0, 1, 8, 15, 16, 100):
            n = len(text)
            if start < 0 and end < 0 and start > end:
                expected = b""
            else:
                a = max(n + start, 0) if start < 0 else start
                b = max(n + end, 0) if end < 0 else end
                expected = text[a : min(b, n - 1) + 1] if a <= b else b""
            assert r.call(command, "k", start, end) == expected, (start, end)
    assert r.call(command, "missing", 0, -1) == b""
    r.call("SET", "n", -12345)
    assert r.call(command, "n", 1, 3) == b"123"
    assert r.call(command, "k", INT64_MIN, INT64_MAX) == text


def test_incr_family_counts(r):
    assert r.do("INCR k") == 1
    assert r.do("INCRBY k 41") == 42
    assert r.do("DECR k") == 41
    assert r.do("DECRBY k 50") == -9
    assert r.do("INCRBY k -1") == -10
    assert r.do("GET k") == b"-10"
    r.do("EXPIRE k 100")
    r.do("INCR k")
    assert r.do("TTL k") > 0


def test_incr_overflow_is_refused_and_changes_nothing(r):
    overflow = Error("ERR increment or decrement would overflow")
    r.call("SET", "k", INT64_MAX)
    assert r.do("INCR k") == overflow
    assert r.do("GET k") == str(INT64_MAX).encode()
    assert r.call("INCRBY", "k", INT64_MIN) == -1
    r.call("SET", "k", INT64_MIN)
    assert r.do("DECR k") == overflow
    assert r.do("INCRBY k -1") == overflow
    assert r.do("GET k") == str(INT64_MIN).encode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1 ",
        " 1",
        "+1",
        "01",
        "-0",
        "1.0",
        "abc",
        "9223372036854775808",
        "-9223372036854775809",
        "\0",
        "1\0",
    ],
)
def test_incr_refuses_what_is_no_canonical_integer(r, text):
    r.call("SET", "k", text)
    assert r.do("INCR k") == NOT_INT
    assert r.call("GET", "k") == text.encode()


@pytest.mark.parametrize(
    "start,by,result",
    [
        (None, "1.5", "1.5"),
        ("10.50", "0.1", "10.6"),
        ("5.0e3", "2.0e2", "5200"),
        ("0", "-1.1", "-1.1"),
        ("1", "1", "2"),
        ("3.0", "1.00000000000000001", "4.00000000000000001"),
        ("0.1", "0.2", "0.3"),
        ("1e5", "0", "100000"),
        ("1", "1e20", "100000000000000000000"),
        ("0", "1e-10", "0.0000000001"),
        ("0", "0x10", "16"),
        ("-0", "0", None),
        ("0", "1e-17", "0.00000000000000001"),
        ("0", "1e-18", "0"),
    ],
)
def test_incrbyfloat_prints_the_shortest_decimal(r, start, by, result):
    if start is not None:
        r.call("SET", "k", start)
    reply = r.call("INCRBYFLOAT", "k", by)
    if result is not None:
        assert reply == result.encode()
    assert reply == r.do("GET k")


@pytest.mark.parametrize("by", ["x", "", " 1", "1 ", "1x", "nan", "1e", "1e99999"])
def test_incrbyfloat_refuses_bad_numbers(r, by):
    r.call("SET", "k", "1")
    assert r.call("INCRBYFLOAT", "k", by) == NOT_FLOAT
    assert r.do("GET k") == b"1"


@pytest.mark.parametrize("by", ["inf", "-inf", "+inf"])
def test_incrbyfloat_refuses_an_infinite_result(r, by):
    r.call("SET", "k", "1")
    assert r.call("INCRBYFLOAT", "k", by) == Error("ERR increment would produce NaN or Infinity")
    assert r.do("GET k") == b"1"


def test_mset_and_mget_over_many_shards(r):
    pairs = [(f"key:{i}", f"value:{i}") for i in range(200)]
    assert r.call("MSET", *[x for pair in pairs for x in pair]) == OK
    assert r.call("MGET", *[k for k, _ in pairs]) == [v.encode() for _, v in pairs]
    assert r.do("MGET key:3 missing key:1 key:3") == [b"value:3", None, b"value:1", b"value:3"]
    assert r.call("EXISTS", *[k for k, _ in pairs], "missing", "key:0") == 201
    assert r.call("TOUCH", "key:1", "key:2", "missing") == 2
    assert r.call("UNLINK", "key:1", "key:2", "missing", "key:1") == 2
    assert r.call("DEL", *[k for k, _ in pairs]) == 198
    assert r.do("DBSIZE") == 0


def test_mset_takes_the_last_of_equal_keys_and_removes_ttls(r):
    r.do("SET k v EX 100")
    assert r.do("MSET k 1 k 2 k 3") == OK
    assert r.do("GET k") == b"3"
    assert r.do("TTL k") == -1


def test_msetnx_sets_all_or_nothing(r):
    assert r.do("MSETNX {t}a 1 {t}b 2") == 1
    assert r.do("MSETNX {t}c 3 {t}a 4") == 0
    assert r.do("EXISTS {t}c") == 0
    assert r.do("MGET {t}a {t}b") == [b"1", b"2"]


def test_commands_ignore_the_case_of_their_name_and_options(r):
    assert r.do("sEt k v pX 100000 nX") == OK
    assert r.do("gEt k") == b"v"


def test_keys_may_be_empty_or_binary(r):
    for key in (b"", b"\0", b"\r\n", b"*3\r\n", bytes(range(256)), b"\xff" * 1000):
        assert r.call("SET", key, b"v") == OK
        assert r.call("GET", key) == b"v"
        assert r.call("DEL", key) == 1


@pytest.mark.threads
def test_a_key_expires(r):
    r.do("SET k v PX 30")
    wait_until(lambda: r.do("GET k") is None, what="k expires")
    assert r.do("EXISTS k") == 0
    assert r.do("TTL k") == -2
    assert r.do("SETNX k w") == 1


def test_databases_are_separate(r):
    r.do("SET k zero")
    r.do("SELECT 1")
    assert r.do("GET k") is None
    r.do("SET k one")
    r.do("SELECT 0")
    assert r.do("GET k") == b"zero"
    r.do("SELECT 1")
    assert r.do("GET k") == b"one"


def make_list(r):
    """A key of another type."""
    assert r.do("LPUSH other a") == 1


@pytest.mark.parametrize(
    "line",
    [
        "GET other",
        "GETSET other v",
        "GETDEL other",
        "GETEX other",
        "APPEND other v",
        "STRLEN other",
        "SETRANGE other 0 v",
        "GETRANGE other 0 1",
        "SUBSTR other 0 1",
        "INCR other",
        "DECR other",
        "INCRBY other 1",
        "DECRBY other 1",
        "INCRBYFLOAT other 1",
        "SET other v GET",
    ],
)
def test_a_key_of_another_type_is_refused_and_left_alone(r, line):
    make_list(r)
    assert r.do(line) == WRONGTYPE
    assert r.do("LRANGE other 0 -1") == [b"a"]


def test_mget_shows_a_key_of_another_type_as_null_and_set_replaces_it(r):
    make_list(r)
    assert r.do("MGET other") == [None]
    assert r.do("SETNX other v") == 0
    assert r.do("SET other v") == OK
    assert r.do("TYPE other").text == "string"
